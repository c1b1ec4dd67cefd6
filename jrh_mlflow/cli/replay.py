"""`jrh replay`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from jrh_mlflow.cli.generate import _scale
from jrh_mlflow.cli.options import Command, from_model, pairs_option, shown_as, tracking, typed
from jrh_mlflow.cli.printing import print_evaluations
from jrh_mlflow.options import GenerationSettings, RunOptions


@click.command(cls=Command)
@click.argument("file", metavar="FILE|runs:/ID", type=click.Path())
@pairs_option("--map", "columns", "ROLE=COLUMN", help="Which column plays which role, of those above.")
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
@click.option("--condition", help="Condition of every row, unless mapped. [natural; of single responses baseline]")
@click.option("--suite", help="The suite that was judged, for its labels and categories.")
@from_model(GenerationSettings, "labels", "scale")
@from_model(RunOptions, "metrics", "metric", "definitions", "texts")
@tracking
@shown_as
def replay(
    file: str,
    columns: dict[str, str],
    winner: str,
    first: str,
    second: str,
    tie: tuple[str, ...],
    condition: str | None,
    as_json: bool,
    markdown: bool,
    **options: Any,
) -> None:
    """Measure recorded judgments (CSV, JSONL, Parquet, .xlsx, or a run) with no model call: one MLflow run per judge.

    Roles: item, judge, task, better; uv and vu (one row per pair, an answer per presentation order) or order and
    answer (one row per call); answer and expected (single responses, with --labels or --scale), group (category);
    condition, delta, replicate, outcome, rationale, cost_usd, latency_s, confidence, input_tokens, output_tokens.
    Columns joined with + make one value, result.verdict.0 reaches into nested JSON. A run (runs:/ID) and a file of call
    records (calls.parquet, --table of jrh evaluate) need no mapping.

    \b
    Example: jrh replay judgments.csv --map item=id --map better=gold --map uv=order_ab --map vu=order_ba
             jrh replay graded.jsonl --map item=id --map answer=result.score --map expected=human --scale 1-6
             jrh replay runs:/0123456789abcdef0123456789abcdef
    """
    from jrh_mlflow.measuring.replay import Mapped, replay_each
    from jrh_mlflow.suites.labels import labels_from_text

    mapping = Mapped(columns=columns, winner=winner, first=first, second=second, tie=tie, condition=condition)
    given = {name: value for name, value in options.items() if value is not None}
    # A seed that was not typed is that of the run which is replayed.
    if "seed" not in typed():
        del given["seed"]
    readers: dict[str, Callable[[str], object]] = {"labels": labels_from_text, "scale": _scale}
    given |= {name: read(given[name]) for name, read in readers.items() if name in given}
    evaluations = replay_each(file, mapping if columns else None, **given)
    print_evaluations(evaluations, as_json=as_json, markdown=markdown)
