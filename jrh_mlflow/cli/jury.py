"""`jrh jury`."""

from __future__ import annotations

from typing import Any

import click

from jrh_mlflow.cli.options import own_run, shown_as
from jrh_mlflow.cli.printing import print_result

_TIES = ("abstain", "tie", "lowest", "highest", "median", "first")


@click.command()
@click.argument("runs", metavar="RUN RUN …", nargs=-1, required=True)
@click.option(
    "--ties",
    type=click.Choice(_TIES),
    default="abstain",
    show_default=True,
    help="What a draw becomes; abstain is no decision.",
)
@click.option("--min-votes", type=int, help="Fewer votes are no answer; more than half of the jury when left out.")
@click.option("--size", type=int, help="Of the best panel; 3 when there are more than three runs.")
@click.option("--max-usd", type=float, help="Dollars per 1,000 judgments that the best panel may cost.")
@own_run
@shown_as
def jury(runs: tuple[str, ...], no_log: bool, as_json: bool, markdown: bool, **options: Any) -> None:
    """Let logged judges vote on the suite they were all measured on, with no new call.

    A RUN is a run id, runs:/<id>, or the first eight or more digits of one. Prints the jury beside its judges, how
    many independent votes they are worth, and the best panel, chosen on one half of the sources and reported on the
    other. The jury is logged as a run of its own.

    Example: jrh jury 3f2a9c01 b71d4e22 90ac51f7 --ties abstain
    """
    from jrh_mlflow.comparing.jury.jury import jury as run

    result = run(list(runs), log=not no_log, **options)
    print_result(result, as_json=as_json, markdown=markdown)
