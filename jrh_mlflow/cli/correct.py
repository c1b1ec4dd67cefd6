"""`jrh correct`."""

from __future__ import annotations

from typing import Any

import click

from jrh_mlflow.cli.options import Command, shown_as, store
from jrh_mlflow.cli.printing import print_result

_SAMPLINGS = ("random", "stratified", "by_verdict")


@click.command(cls=Command)
@click.argument("verdicts")
@click.argument("calibration", required=False)
@click.option(
    "--sampling",
    type=click.Choice(_SAMPLINGS),
    help="How labelled items were drawn: at random, within the person's labels, or within the judge's verdicts. Left "
    "out: not known, and the interval holds for each of them.",
)
@click.option("--weights", metavar="COLUMN", help="Column of the calibration with 1 / (chance of being labelled).")
@click.option("--cluster", metavar="COLUMN", help="Column or tag with what was sampled together, such as a session.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Of the intervals.")
@click.option("--scorer", metavar="NAME", help="Which scorer of a run or of traces; the only one when left out.")
@click.option(
    "--positive", metavar="LABEL", multiple=True, help="A label that is a pass, where they are not yes and no."
)
@click.option("--judge", metavar="COLUMN", default="judge", show_default=True, help="Column of the judge's verdicts.")
@click.option("--human", metavar="COLUMN", default="human", show_default=True, help="Column of the person's labels.")
@click.option("--item", metavar="COLUMN", default="item", show_default=True, help="Column of ids, where there is one.")
@click.option("--run", metavar="RUN", help="Log the corrected rate to this run of mlflow.genai.evaluate.")
@click.option("--log", is_flag=True, help="Log it to the run the verdicts are of, else as a run of its own.")
@click.option("--run-name", help="Name of a run of its own.")
@store
@shown_as
def correct(
    verdicts: str, calibration: str | None, positive: tuple[str, ...], as_json: bool, markdown: bool, **options: Any
) -> None:
    """Estimate the true pass rate behind a judge's, from items that people labelled too.

    VERDICTS is a table (.csv, .jsonl, .parquet …) with the column judge, the run id of an mlflow.genai.evaluate, or
    traces:/EXPERIMENT; two values in a column version give the difference, second minus first; the columns uv and vu
    give a win rate. CALIBRATION is a table with the columns judge and human, or the run id of a `jrh agree`; left out,
    it is what people said about the items of the verdicts. Both may have a column item.

    Example: jrh correct verdicts.csv labelled.csv --sampling by_verdict

    Example: jrh correct 3f2a9c01d3a94e0f8f3e1d1c5a7b9e02 runs:/90ac51f7c5d14d53b5f0a0d7f86e1b11 --scorer polite --log

    Example: jrh correct scores.csv labelled.csv --positive 4 --positive 5 --json
    """
    from jrh_mlflow.people.correct import correct as run

    # click gives an empty tuple for a repeatable option that was not typed.
    result = run(verdicts, calibration, positive=positive or None, **options)
    print_result(result, as_json=as_json, markdown=markdown)
