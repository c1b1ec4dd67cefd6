"""`jrh agree`."""

from __future__ import annotations

from typing import Any

import click

from jrh_mlflow.cli.options import own_run, read_scale, shown_as
from jrh_mlflow.cli.printing import print_result


@click.command()
@click.argument("source")
@click.option("--judge", help="Rater that is the judge; of traces the source or the name of its assessments.")
@click.option("--name", metavar="ASSESSMENT", help="Of traces: the assessment that people and the judge gave.")
@click.option("--item", default="item", show_default=True, help="Column that names the item.")
@click.option("--rater", default="rater", show_default=True, help="Column that names who labelled it.")
@click.option("--label", default="label", show_default=True, help="Column with the label.")
@click.option(
    "--scale",
    metavar="LOW,…,HIGH",
    callback=read_scale,
    help="Labels from low to high; numeric, or 0-100, for numbers. Without it labels have no order.",
)
@click.option("--positive", metavar="LABEL", help="Label that sensitivity and specificity are of.")
@click.option("--epsilon", type=float, default=0.2, show_default=True, help="Of the alternative annotator test.")
@click.option("--group", help="Column (of traces a tag, of suites a field of meta) to read agreement by.")
@click.option("--cluster", help="Column (of traces a tag, of suites a field of meta) with what was sampled together.")
@click.option("--queue", metavar="NAME", help="Put the traces with disagreements into this MLflow review queue.")
@click.option("--max-traces", type=click.IntRange(1), help="Of an experiment, the newest so many traces.")
@own_run
@shown_as
def agree(source: str, no_log: bool, as_json: bool, markdown: bool, **options: Any) -> None:
    """Measure how well a judge agrees with people, and people with one another.

    SOURCE is a table with one row per item and rater (.csv, .jsonl, .parquet, .xlsx), traces:/EXPERIMENT, or the run
    of an evaluation whose suite carries people's labels. Prints agreement with the majority, the human ceiling beside
    it, and the alternative annotator test. The agreement is logged as a run of its own.

    \b
    Example: jrh agree labels.csv --judge gpt-4o-mini --positive pass
             jrh agree traces:/support-bot --name helpful --queue "second look"
    """
    from jrh_mlflow.people.agree import agree as run

    result = run(source, log=not no_log, **options)
    print_result(result, as_json=as_json, markdown=markdown)
