"""`jrh correct`."""

from __future__ import annotations

from typing import Any

import click

from jrh_mlflow.cli.options import Command, pairs_option, shown_as, store
from jrh_mlflow.cli.printing import print_result
from jrh_mlflow.errors import check_known

_COLUMNS = ("judge", "human", "item")
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
@click.option("--cluster", metavar="COLUMN", help="Column or tag with what was sampled together, such as a session.")
@click.option("--name", "scorer", help="Which scorer of a run or of traces; the only one when left out.")
@click.option(
    "--positive", metavar="LABEL", multiple=True, help="A label that is a pass, where they are not yes and no."
)
@pairs_option("--map", "columns", "ROLE=COLUMN", help="Your names of the columns judge, human and item.")
@click.option("--log", is_flag=True, help="Log it to the run the verdicts are of, else as a run of its own.")
@click.option("--run-name", help="Name of a run of its own.")
@store
@shown_as
def correct(
    verdicts: str,
    calibration: str | None,
    columns: dict[str, str],
    positive: tuple[str, ...],
    as_json: bool,
    markdown: bool,
    **options: Any,
) -> None:
    """Estimate the true pass rate behind a judge's, from items that people labelled too.

    VERDICTS is a table (.csv, .jsonl, .parquet …) with the column judge, the run id of an mlflow.genai.evaluate, or
    traces:/EXPERIMENT; two values in a column version give the difference, second minus first; the columns uv and vu
    give a win rate. CALIBRATION is a table with the columns judge and human, or the run id of a `jrh agree`; left out,
    it is what people said about the items of the verdicts. Both may have a column item.

    Example: jrh correct verdicts.csv labelled.csv --sampling by_verdict

    Example: jrh correct 3f2a9c01d3a94e0f8f3e1d1c5a7b9e02 runs:/90ac51f7c5d14d53b5f0a0d7f86e1b11 --name polite --log

    Example: jrh correct scores.csv labelled.csv --positive 4 --positive 5 --json
    """
    from jrh_mlflow.people.correct import correct as run

    for role in columns:
        check_known("role of --map", role, _COLUMNS)
    # click gives an empty tuple for a repeatable option that was not typed.
    result = run(verdicts, calibration, positive=positive or None, **{**columns, **options})
    print_result(result, as_json=as_json, markdown=markdown)
