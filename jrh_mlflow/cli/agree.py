"""`jrh agree`: how well a judge agrees with people, and which items people should label (`--draw`)."""

from __future__ import annotations

from typing import Any

import click

from jrh_mlflow.cli.options import (
    Command,
    force_option,
    own_run,
    pairs_option,
    read_scale,
    refuse_typed_but,
    shown_as,
    table_option,
    typed,
)
from jrh_mlflow.cli.printing import print_result, save_table
from jrh_mlflow.errors import RecipeError, check_known

_COLUMNS = ("item", "rater", "label")
_DRAW_COLUMNS = ("item", "judge")
_DRAW_ONLY = {"n_drawn", "by", "table"}
_DRAW_OPTIONS = _DRAW_ONLY | {
    *("source", "queue", "name", "columns", "cluster", "max_traces", "seed", "tracking_uri", "as_json", "force")
}


@click.command(cls=Command)
@click.argument("source")
@click.option("--judge", help="Rater that is the judge; of traces the source or the name of its assessments.")
@click.option("--name", metavar="ASSESSMENT", help="Of traces: the assessment that people and the judge gave.")
@pairs_option("--map", "columns", "ROLE=COLUMN", help="Your names of the columns item, rater and label.")
@click.option(
    "--scale",
    metavar="LOW,…,HIGH",
    callback=read_scale,
    help="Labels from low to high; numeric, or 0-100, for numbers. Without it labels have no order.",
)
@click.option("--positive", metavar="LABEL", help="Label that sensitivity and specificity are of.")
@click.option("--group", help="Column (of traces a tag, of suites a field of meta) to read agreement by.")
@click.option("--cluster", help="Column (of traces a tag, of suites a field of meta) with what was sampled together.")
@click.option("--queue", metavar="NAME", help="Put traces that disagree, or were drawn, into this MLflow review queue.")
@click.option("--max-traces", type=click.IntRange(1), help="Of an experiment, the newest so many traces.")
@click.option(
    "--draw",
    "n_drawn",
    type=click.IntRange(1),
    metavar="N",
    help="Draw N items for people to label instead, each with its chance of being drawn.",
)
@click.option(
    "--by",
    type=click.Choice(["random", "verdict", "score"]),
    help="With --draw: all alike, as many of each verdict, or more where the score is in the middle. [random]",
)
@table_option("the drawn items")
@force_option
@own_run
@shown_as
def agree(
    source: str,
    columns: dict[str, str],
    n_drawn: int | None,
    no_log: bool,
    as_json: bool,
    markdown: bool,
    **options: Any,
) -> None:
    """Measure how well a judge agrees with people, and people with one another.

    SOURCE is a table with one row per item and rater (.csv, .jsonl, .parquet, .xlsx), traces:/EXPERIMENT, or the run
    of an evaluation whose suite carries people's labels. Prints agreement with the majority, the human ceiling beside
    it, and the alternative annotator test. The agreement is logged as a run of its own.

    With --draw SOURCE is what a judge said (a table with the columns item and judge, traces, a run), and N of its items
    are drawn for people to label. Fill in the column `human` of the table, or answer in the queue. `jrh correct` reads
    the chances by itself.

    \b
    Example: jrh agree labels.csv --judge gpt-4o-mini --positive pass
             jrh agree traces:/support-bot --name helpful --queue "second look"
             jrh agree verdicts.csv --draw 200 --by verdict --table to_label.csv
    """
    if n_drawn is not None:
        refuse_typed_but(_DRAW_OPTIONS, of="--draw")
        _draw(source, n_drawn, columns, options, as_json=as_json)
        return
    if typed() & _DRAW_ONLY:
        raise click.UsageError("--by and --table go with --draw N.")
    from jrh_mlflow.people.agree import agree as run

    for role in columns:
        check_known("role of --map", role, _COLUMNS)
    for name in ("by", "table", "force"):
        del options[name]
    result = run(source, log=not no_log, **{**columns, **options})
    print_result(result, as_json=as_json, markdown=markdown)


def _draw(source: str, n: int, columns: dict[str, str], options: dict[str, Any], *, as_json: bool) -> None:
    """Draw items to label, and write them where the options say."""
    from jrh_mlflow.people.label_draw import label_draw

    queue, table = options["queue"], options["table"]
    if table is None and queue is None and not as_json:
        raise RecipeError("Say where the items go: --table FILE, --queue NAME or --json.")
    for role in columns:
        check_known("role of --map", role, _DRAW_COLUMNS)
    names = ("queue", "cluster", "max_traces", "seed", "tracking_uri")
    how = {**{name: options[name] for name in names}, **columns}
    drawn = label_draw(source, n, by=options["by"] or "random", scorer=options["name"], **how)
    save_table(drawn, table, force=options["force"])
    if as_json:
        click.echo(drawn.to_json(orient="records", indent=1, force_ascii=False))
        return
    places = []
    if table is not None:
        places.append(str(table))
    if queue is not None:
        places.append(f"the review queue {queue!r}")
    low, high = drawn["inclusion"].min(), drawn["inclusion"].max()
    chance = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    click.echo(f"{len(drawn):,} items drawn, chance {chance}: {' and '.join(places)}")
