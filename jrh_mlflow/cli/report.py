"""`jrh report`."""

from __future__ import annotations

from typing import Any

import click

from jrh_mlflow.cli.options import own_run, shown_as
from jrh_mlflow.cli.printing import print_result


@click.command()
@click.argument("runs", metavar="RUN RUN …", nargs=-1, required=True)
@click.option(
    "--definitions",
    type=click.Choice(("protocol", "paper")),
    default="protocol",
    show_default=True,
    help="paper: stability by accuracy and dollars as the Harness paper reckons them.",
)
@click.option("--reference", metavar="JUDGE|RUN", help="Judge whose accuracy is the ceiling of the others.")
@own_run
@shown_as
def report(runs: tuple[str, ...], no_log: bool, as_json: bool, markdown: bool, **options: Any) -> None:
    """Put logged evaluations on several suites side by side, with no new call.

    A RUN is a run id, runs:/<id>, or the first eight or more digits of one. Prints suites × judges with the mean over
    suites, tests × suites, dollars per accuracy point, and trios of judges with FPR and FNR. Calls are never pooled
    over suites. The report is logged as a run of its own.

    Example: jrh report 3f2a9c01 b71d4e22 90ac51f7 4c11aa80 --definitions paper
    """
    from jrh_mlflow.comparing.suite_report import report as run

    print_result(run(list(runs), log=not no_log, **options), as_json=as_json, markdown=markdown)
