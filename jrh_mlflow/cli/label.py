"""`jrh label draw`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jrh_mlflow.cli.options import as_json
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.options import RunOptions


@click.group()
def label() -> None:
    """Draw items for people to label.

    Example: jrh label draw verdicts.csv 200 --to to_label.csv
    """


@label.command()
@click.argument("source")
@click.argument("n", type=click.IntRange(1))
@click.option(
    "--by",
    type=click.Choice(["random", "verdict", "score"]),
    default="random",
    show_default=True,
    help="All alike, as many of each verdict, or more where the score is in the middle.",
)
@click.option("--queue", metavar="NAME", help="Put the traces into this MLflow review queue.")
@click.option("--to", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write a .csv to fill in.")
@click.option("--scorer", help="Which scorer of the source; the only one when left out.")
@click.option("--name", metavar="QUESTION", help="Of a queue: the question; the name of the scorer when left out.")
@click.option("--offer", "offered", multiple=True, metavar="ANSWER", help="Of a queue: an answer; give it for each.")
@click.option("--judge", default="judge", show_default=True, help="Column of verdicts or scores.")
@click.option("--item", default="item", show_default=True, help="Column that names the item.")
@click.option("--cluster", help="Column (of traces a tag) with what was sampled together.")
@click.option("--max-traces", type=click.IntRange(1), help="Of an experiment, the newest so many traces.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draw.")
@click.option("--tracking-uri", help=RunOptions.model_fields["tracking_uri"].description)
@as_json
def draw(source: str, n: int, to: Path | None, queue: str | None, as_json: bool, **options: Any) -> None:
    """Draw N items for people to label, each with its chance of being drawn.

    SOURCE is what a judge said: a table, traces:/EXPERIMENT, or the run of an evaluation. Fill in the column `human` of
    the file, or answer in the queue; `jrh correct` reads the chances by itself.

    \b
    Example: jrh label draw verdicts.csv 200 --by verdict --to to_label.csv
             jrh label draw traces:/support-bot 100 --queue "to label"
    """
    from jrh_mlflow.people.label_draw import label_draw
    from jrh_mlflow.suites.spreadsheets import report_frame

    if to is None and queue is None and not as_json:
        raise RecipeError("Say where the items go: --to FILE, --queue NAME or --json.")
    frame = label_draw(source, n, queue=queue, **options)
    if to is not None:
        # Texts come from anywhere: none of them is to run as a formula.
        report_frame(frame).to_csv(to, index=False)
    if as_json:
        click.echo(frame.to_json(orient="records", indent=1, force_ascii=False))
        return
    places = [*([str(to)] if to else []), *([f"the review queue {queue!r}"] if queue else [])]
    low, high = frame["inclusion"].min(), frame["inclusion"].max()
    chance = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    click.echo(f"{len(frame):,} items drawn, chance {chance}: {' and '.join(places)}")
