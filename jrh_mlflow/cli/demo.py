"""`jrh demo`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from jrh_mlflow.cli.options import print_comparison


@click.command()
@click.option("--store", default="demo", show_default=True, help="Folder for the demo's MLflow store.")
@click.option("--port", default=5000, show_default=True, help="Of the UI that the printed links point to.")
def demo(store: str, port: int) -> None:
    """Measure the four judges of the Judge Datasheet paper (simulated from its counts), and three graders.

    The graders are simulated too: they judge a reliability suite that rules made of 24 labelled replies.

    Example: jrh demo
    """
    from jrh_mlflow.demo import EXPERIMENT, demo_store, run_demo

    place = demo_store(store)
    done = run_demo(place.uri, on_start=lambda name: click.echo(f"measuring {name}"))
    click.echo("\nPairwise judges, simulated from the counts the paper published; 95 % intervals by task:\n")
    print_comparison(done.datasheets)
    click.echo("\nGraders, simulated; share of expected answers by test, 95 % intervals by source:\n")
    print_comparison(done.reports)
    click.echo(f"\nRuns in experiment {EXPERIMENT!r} of {place.uri}:")
    base = f"http://127.0.0.1:{port}/#/experiments/{place.experiment_id}/runs"
    for one in (*done.datasheets, *done.reports):
        click.echo(f"  {one.judge.label:28s} {base}/{one.run_id}")
    click.echo(f"  {'criterion shift of Qwen32B':28s} {base}/{done.shift.run_id}")
    click.echo(f"  {'graders compared':28s} {base}/{done.comparison.run_id}")
    click.echo(f"  {'all curves side by side':28s} {base}?workflowType=machine_learning&compareRunsMode=CHART")
    click.echo("\nOpen the UI (then the links work):")
    click.echo(f"  {_command()} ui {store}" + ("" if port == 5000 else f" --port {port}"))


def _command() -> str:
    """Return how this command was called, so that the printed line works as it is."""
    called = Path(sys.argv[0])
    try:
        shown = called.resolve().relative_to(Path.cwd())
    except ValueError:
        return "jrh"
    return str(shown)
