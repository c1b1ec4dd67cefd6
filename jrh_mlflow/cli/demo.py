"""`jrh demo`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jrh_mlflow.cli.printing import print_comparison
from jrh_mlflow.errors import JrhError

if TYPE_CHECKING:
    from jrh_mlflow.evaluation.evaluate import Evaluation


@click.command()
@click.option("--store", default="demo", show_default=True, help="Folder for the demo's MLflow store.")
@click.option("--port", default=5000, show_default=True, help="Of the UI that the printed links point to.")
@click.option("--quick", is_flag=True, envvar="JRH_DEMO_QUICK", help="Leave the real model out.")
def demo(store: str, port: int, quick: bool) -> None:
    """Measure the four judges of the Judge Datasheet paper (simulated from its counts), three graders, a real model.

    The graders are simulated too: they judge a reliability suite that rules made of 24 labelled replies. The real
    model is SmolLM2-135M on this machine: a bad judge, and the datasheet shows it. Started again, the demo repeats
    none of its calls.

    Example: jrh demo --quick
    """
    from jrh_mlflow.demo import EXPERIMENT, demo_store, run_demo

    place = demo_store(store)
    measured = run_demo(place.uri, on_start=lambda name: click.echo(f"measuring {name}"))
    real = [] if quick else _real_model(place.uri, store)
    title = "Pairwise judges: simulated from the counts the paper published" + (", and a real model" if real else "")
    click.echo(f"\n{title}; 95 % intervals by task:\n")
    print_comparison([*measured.datasheets, *real])
    click.echo("\nGraders, simulated; share of expected answers by test, 95 % intervals by source:\n")
    print_comparison(measured.reports)
    click.echo(f"\nRuns in experiment {EXPERIMENT!r} of {place.uri}:")
    base = f"http://127.0.0.1:{port}/#/experiments/{place.experiment_id}/runs"
    for one in (*measured.datasheets, *real, *measured.reports):
        click.echo(f"  {one.judge.label:28s} {base}/{one.run_id}")
    click.echo(f"  {'criterion shift of Qwen32B':28s} {base}/{measured.shift.run_id}")
    click.echo(f"  {'graders compared':28s} {base}/{measured.comparison.run_id}")
    click.echo(f"  {'all curves side by side':28s} {base}?workflowType=machine_learning&compareRunsMode=CHART")
    click.echo("\nOpen the UI (then the links work):")
    click.echo(f"  {_command()} ui {store}" + ("" if port == 5000 else f" --port {port}"))


def _real_model(tracking_uri: str, store: str) -> list[Evaluation]:
    """Measure the real model, or say in one line why it is left out: the demo succeeds without it."""
    from jrh_mlflow.demo import REAL_NAME, REAL_SUITE, measure_real_model
    from jrh_mlflow.resolve import load_suite

    n_calls = load_suite(REAL_SUITE).manifest["n_calls"]
    click.echo(f"measuring {REAL_NAME} on {REAL_SUITE}: {n_calls} calls on this machine's cores, some minutes")
    try:
        return [measure_real_model(tracking_uri, Path(store) / "journal.db")]
    except JrhError as error:
        click.echo(f"left out: {REAL_NAME}: {error}")
        return []


def _command() -> str:
    """Return how this command was called, so that the printed line works as it is."""
    called = Path(sys.argv[0])
    try:
        shown = called.resolve().relative_to(Path.cwd())
    except ValueError:
        return "jrh"
    return str(shown)
