"""`jrh demo`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jrh_mlflow.cli.printing import print_lines, print_table
from jrh_mlflow.errors import JrhError

if TYPE_CHECKING:
    from jrh_mlflow.demo import Demo
    from jrh_mlflow.measuring.evaluation import Evaluation
    from jrh_mlflow.tracking.runs.store import Store

_ROWS = ("dark_current", "raw_false_preference", "positional_false_preference", "stable_cross_sensitivity")
_STEPS = range(1, 6)


@click.command()
@click.option("--store", default="demo", show_default=True, help="Folder for the demo's MLflow store.")
@click.option("--port", default=5000, show_default=True, help="Of the UI that the printed links point to.")
@click.option("--quick", is_flag=True, help="Leave the recorded judge out.")
@click.option("--full", is_flag=True, help="Also ask a small model on this machine: minutes.")
def demo(store: str, port: int, quick: bool, full: bool) -> None:
    """Measure the four judges of the Judge Datasheet paper, a real judge's recorded answers, and three graders.

    The paper's judges are simulated from its counts. The recorded judge is a real 1.5B model under three tie criteria
    and two namings of the slots; its answers ship with the package, and nobody is asked. The graders are simulated:
    they judge a reliability suite that rules made of 24 labelled replies. With --full a 135M model answers on this
    machine: a bad judge, and the datasheet shows it. Started again, it repeats no call of a model.

    Example: jrh demo
    """
    if quick and full:
        raise click.UsageError("--quick leaves out what --full adds to. Give one of them.")
    started = time.perf_counter()
    click.echo(f"setting up an MLflow store in {store}")
    with _opened(store) as (place, parts):
        _print_paper(parts)
        # Also before the longer parts, so that the UI can be opened meanwhile.
        _print_links(place, port=port)
        if not quick:
            _print_recorded(parts)
        _print_graders(parts)
        if full:
            _print_live(parts)
    click.echo(f"\nMeasured in {time.perf_counter() - started:.0f} s.")
    _print_links(place, port=port)


@contextmanager
def _opened(folder: str) -> Iterator[tuple[Store, Demo]]:
    from jrh_mlflow.demo import Demo, demo_store
    from jrh_mlflow.engine.journal import open_journal

    store = demo_store(folder)
    with open_journal(Path(folder) / "journal.db") as journal:
        yield store, Demo(store.uri, journal, say=click.echo)


def _print_paper(parts: Demo) -> None:
    from jrh_mlflow.demo import PAPER_SUITE

    judges = parts.paper_judges()
    _head(f"The paper's judges on {PAPER_SUITE}, simulated from its counts; 95 % intervals by task")
    _print_axes("simulated", {run.judge.name: run for run in judges})
    click.echo("")
    parts.shift()


def _print_recorded(parts: Demo) -> None:
    from jrh_mlflow.measuring.recorded.answers import SLOTS, provenance

    about, judges = provenance(), parts.recorded_judge()
    _head(
        f"A real judge on the same suite: {about['model']} ({about['quantisation']}),\n"
        f"recorded on {about['answered_on']}, nobody is asked now; three tie criteria, slots named A and B or 1 and 2"
    )
    for slots in SLOTS:
        some = [run for run in judges if run.judge.settings["answer_style"] == slots]
        _print_axes("recorded", {run.judge.name.removeprefix(about["name"]).strip(): run for run in some})
        click.echo("")
    _print_reading(parts.recorded_reading())


def _print_axes(kind: str, judges: Mapping[str, Evaluation]) -> None:
    """Print judges of one kind as columns; as rows, preferences without a reason, the whole ladder and the calls."""
    from jrh_mlflow.show.names import axis_name

    keys = [*_ROWS, *(f"target_sensitivity/delta_{step}" for step in _STEPS), "threshold_75"]
    rows = [[axis_name(key), *(_cell_of(run, key) for run in judges.values())] for key in keys]
    print_table([kind, *judges], [*rows, ["calls", *(f"{len(run.calls):,}" for run in judges.values())]])


def _cell_of(run: Evaluation, key: str) -> str:
    from jrh_mlflow.show.numbers import reading_text

    return reading_text(run.sheet.estimates.get(key))


def _print_reading(run: Evaluation) -> None:
    """Print both ladders side by side: right answers, and answers with the right words that are wrong."""
    from jrh_mlflow.demo import READING_SUITE
    from jrh_mlflow.show.plain_text import wrapped_line

    _head(
        f"Does it read? {run.judge.label} on {READING_SUITE}, {len(run.calls):,} calls;\n"
        "on the matched ladder the worse answer has the same words, with facts swapped"
    )
    from jrh_mlflow.measures.axes import declared

    names = ("target_sensitivity", "matched_sensitivity", "reading_gap")
    families = {name: declared(f"{name}/delta_1").label for name in names}
    rows = [[f"δ = {step}", *(_cell_of(run, f"{family}/delta_{step}") for family in families)] for step in _STEPS]
    print_table(["recorded", *families.values()], rows)
    print_lines(["", *(line for sentence in run.verdict.sentences for line in wrapped_line("", sentence)), ""])


def _print_graders(parts: Demo) -> None:
    from jrh_mlflow.comparing.comparison_view import comparison_page

    comparison = parts.graders()
    _head("Graders, simulated; share of expected answers by test")
    print_lines(comparison_page(comparison.contrasts).to_text())


def _print_live(parts: Demo) -> None:
    """Measure the live model, or say in one line why it is left out: the demo succeeds without it."""
    from jrh_mlflow.demo import LIVE_NAME, LIVE_SUITE
    from jrh_mlflow.measuring.resolve import load_suite

    n_calls = load_suite(LIVE_SUITE).manifest["n_calls"]
    click.echo(f"measuring {LIVE_NAME} on {LIVE_SUITE}: {n_calls} calls on this machine's cores, some minutes")
    try:
        measured = parts.live_model()
    except JrhError as error:
        click.echo(f"left out: {LIVE_NAME}: {error}")
        return
    _head(f"A model that answers on this machine, on {LIVE_SUITE}; 95 % intervals by task")
    _print_axes("live", {measured.judge.name: measured})


def _head(title: str) -> None:
    click.echo(f"\n{title}:\n")


def _print_links(store: Store, *, port: int) -> None:
    from jrh_mlflow.tracking.runs.view import view_links

    links = view_links(store.uri, store.experiment_id, port=port)
    click.echo("Look at them in MLflow:")
    click.echo(f"  {_command()} {(links.command or '').removeprefix('jrh ')}")
    click.echo(f"  judges side by side  {links.table}")
    click.echo(f"  their curves         {links.charts}")
    click.echo(f"  pages and calls      {links.pages}\n")


def _command() -> str:
    """Return how this command was called, so that the printed line works as it is."""
    called = Path(sys.argv[0])
    try:
        shown = called.resolve().relative_to(Path.cwd())
    except ValueError:
        # Outside of the working folder the command was found by its name, so its name works.
        return "jrh"
    return str(shown)
