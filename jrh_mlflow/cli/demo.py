"""`jrh demo`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jrh_mlflow.cli.printing import print_comparison, print_table
from jrh_mlflow.errors import JrhError

if TYPE_CHECKING:
    from jrh_mlflow.demo import Demo
    from jrh_mlflow.evaluation.evaluate import Evaluation
    from jrh_mlflow.tracking.store import Store

_ROWS = ("dark_current", "raw_false_preference", "positional_false_preference", "stable_cross_sensitivity")
_STEPS = range(1, 6)


@click.command()
@click.option("--store", default="demo", show_default=True, help="Folder for the demo's MLflow store.")
@click.option("--port", default=5000, show_default=True, help="Of the UI that the printed links point to.")
@click.option("--quick", is_flag=True, envvar="JRH_DEMO_QUICK", help="Leave the recorded judge out.")
@click.option("--full", is_flag=True, help="Also ask a small model on this machine: minutes.")
def demo(store: str, port: int, quick: bool, full: bool) -> None:
    """Measure the four judges of the Judge Datasheet paper, a real judge's recorded answers, and three graders.

    The paper's judges are simulated from its counts. The recorded judge is a real 1.5B model under three tie criteria
    and two namings of the slots; its answers ship with the package, and nobody is asked. The graders are simulated:
    they judge a reliability suite that rules made of 24 labelled replies. With --full a 135M model answers on this
    machine: a bad judge, and the datasheet shows it. Started again, the demo repeats none of its calls.

    Example: jrh demo
    """
    if quick and full:
        raise click.UsageError("--quick leaves out what --full adds to. Give one of them.")
    started = time.perf_counter()
    click.echo(f"setting up an MLflow store in {store}")
    with _opened(store) as (place, parts):
        _print_paper(parts)
        if not quick:
            _print_recorded(parts)
        _print_graders(parts)
        if full:
            _print_live(parts)
    click.echo(f"\nMeasured in {time.perf_counter() - started:.0f} s.")
    _print_links(place, port=port, folder=store)


@contextmanager
def _opened(folder: str) -> Iterator[tuple[Store, Demo]]:
    from jrh_mlflow.demo import Demo, demo_store
    from jrh_mlflow.engine.journal import open_journal

    store = demo_store(folder)
    with open_journal(Path(folder) / "journal.db") as journal:
        yield store, Demo(store.uri, journal, say=lambda name: click.echo(f"measuring {name}"))


def _print_paper(parts: Demo) -> None:
    judges = parts.paper_judges()
    _head("The paper's judges, simulated from its published counts; 95 % intervals by task")
    print_comparison(judges)
    parts.shift()


def _print_recorded(parts: Demo) -> None:
    from jrh_mlflow.demo import PAPER_SUITE
    from jrh_mlflow.recorded.answers import provenance

    about = provenance()
    judges = parts.recorded_judge()
    _head(
        f"A real judge on the same suite, {PAPER_SUITE}: {about['model']} ({about['quantisation']}), recorded on "
        f"{about['answered_on']}, nobody asked now"
    )
    _print_axes(judges)
    click.echo("")
    _print_reading(parts.recorded_reading())


def _print_axes(judges: Sequence[Evaluation]) -> None:
    """Print configurations as columns; as rows, preferences without a reason and the whole ladder."""
    from jrh_mlflow.measures.axes import find
    from jrh_mlflow.recorded.answers import provenance

    heads = {key: axis.column or key for key in _ROWS if (axis := find(key))}
    heads |= {f"target_sensitivity/delta_{step}": f"better δ={step}" for step in _STEPS} | {"threshold_75": "Δ75"}
    rows = [[head, *(_cell_of(one, key) for one in judges)] for key, head in heads.items()]
    # One judge, all of it recorded, as the title says: the columns name what differs.
    shared = provenance()["name"]
    print_table(["recorded", *(one.judge.name.removeprefix(shared).strip() for one in judges)], rows)


def _cell_of(one: Evaluation, key: str) -> str:
    from jrh_mlflow.cli.printing import _cell

    return _cell(one.sheet.estimates.get(key))


def _print_reading(one: Evaluation) -> None:
    """Print both ladders side by side: right answers, and answers with the right words that are wrong."""
    from jrh_mlflow.demo import READING_SUITE

    _head(f"Does it read? {one.judge.label} on {READING_SUITE}: the matched ladder has the same words, swapped facts")
    families = {"target_sensitivity": "better", "matched_sensitivity": "better, matched", "reading_gap": "reading gap"}
    rows = [[f"δ = {step}", *(_cell_of(one, f"{family}/delta_{step}") for family in families)] for step in _STEPS]
    print_table(["", *families.values()], rows)
    click.echo("")


def _print_graders(parts: Demo) -> None:
    reports, _ = parts.graders()
    _head("Graders, simulated; share of expected answers by test, 95 % intervals by source")
    print_comparison(reports)


def _print_live(parts: Demo) -> None:
    """Measure the live model, or say in one line why it is left out: the demo succeeds without it."""
    from jrh_mlflow.demo import LIVE_NAME, LIVE_SUITE
    from jrh_mlflow.resolve import load_suite

    n_calls = load_suite(LIVE_SUITE).manifest["n_calls"]
    click.echo(f"measuring {LIVE_NAME} on {LIVE_SUITE}: {n_calls} calls on this machine's cores, some minutes")
    try:
        measured = parts.live_model()
    except JrhError as error:
        click.echo(f"left out: {LIVE_NAME}: {error}")
        return
    _head(f"A model that answers on this machine, on {LIVE_SUITE}; 95 % intervals by task")
    print_comparison([measured])


def _head(title: str) -> None:
    click.echo(f"\n{title}:\n")


def _print_links(store: Store, *, port: int, folder: str) -> None:
    from jrh_mlflow.demo import EXPERIMENT

    base = f"http://127.0.0.1:{port}/#/experiments/{store.experiment_id}/runs"
    click.echo(f"Runs in experiment {EXPERIMENT!r} of {store.uri}. Open the UI, then the links work:")
    click.echo(f"  {_command()} ui {folder}" + ("" if port == 5000 else f" --port {port}"))
    click.echo(f"  judges side by side  {base}?workflowType=machine_learning")
    click.echo(f"  their curves         {base}?workflowType=machine_learning&compareRunsMode=CHART")


def _command() -> str:
    """Return how this command was called, so that the printed line works as it is."""
    called = Path(sys.argv[0])
    try:
        shown = called.resolve().relative_to(Path.cwd())
    except ValueError:
        return "jrh"
    return str(shown)
