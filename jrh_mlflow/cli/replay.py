"""`jrh replay`."""

from __future__ import annotations

from typing import Any

import click

from jrh_mlflow.cli.options import as_json, as_markdown, from_model, read_pairs, tracking
from jrh_mlflow.cli.printing import print_evaluations
from jrh_mlflow.options import RunOptions


@click.command()
@click.argument("file", type=click.Path())
@click.option(
    "--map", "pairs", multiple=True, metavar="ROLE=COLUMN", help="Which column plays which role, of those above."
)
@click.option(
    "--winner",
    type=click.Choice(["content", "slot"]),
    default="content",
    show_default=True,
    help="Whether an answer names the response itself or the place it stood in.",
)
@click.option("--first", default="1", show_default=True, help="How the file spells the first content (or slot).")
@click.option("--second", default="2", show_default=True, help="How it spells the second.")
@click.option("--tie", multiple=True, default=("tie",), show_default=True, help="How it spells a tie.")
@click.option("--condition", default="natural", show_default=True, help="Condition of every row, unless mapped.")
@from_model(RunOptions, "metrics", "texts")
@tracking
@as_json
@as_markdown
def replay(
    file: str,
    pairs: tuple[str, ...],
    winner: str,
    first: str,
    second: str,
    tie: tuple[str, ...],
    condition: str,
    as_json: bool,
    markdown: bool,
    **options: Any,
) -> None:
    """Measure recorded judgments (CSV, JSONL, Parquet) with no model call: one MLflow run per judge.

    Roles: item, judge, task, better; uv and vu (one row per pair, an answer per presentation order) or order and
    answer (one row per call); condition, delta, replicate, outcome, rationale, cost_usd, input_tokens, output_tokens.
    Columns joined with + make one value. A file of call records (calls.parquet) needs no mapping.

    Example: jrh replay judgments.csv --map item=id --map better=gold --map uv=order_ab --map vu=order_ba
    """
    from jrh_mlflow.evaluation.replay import Mapped
    from jrh_mlflow.evaluation.replay import replay as run

    columns = read_pairs(pairs)
    mapping = Mapped(columns=columns, winner=winner, first=first, second=second, tie=tie, condition=condition)
    given = {name: value for name, value in options.items() if value is not None}
    evaluations = run(file, mapping if columns else None, **given)
    print_evaluations(evaluations, as_json=as_json, markdown=markdown)
