"""`jrh plan calls` and `jrh plan labels`."""

from __future__ import annotations

from typing import Any

import click

from jrh_mlflow.cli.options import ABOVE_ZERO, price_from_option, shown_as, suite_option
from jrh_mlflow.cli.printing import print_as
from jrh_mlflow.options import RunOptions


@click.group()
def plan() -> None:
    """Say before anything is paid what a measurement needs.

    Example: jrh plan calls --axis dark_current --width 0.1
    """


@plan.command()
@suite_option
@click.option("--axis", required=True, help="A share of the suite: dark_current, target_sensitivity/delta_1 …")
@click.option("--width", type=float, help="Wanted width of the clustered 95 % interval of the axis.")
@click.option("--difference", type=float, help="Wanted difference of two judges; this or --width.")
@click.option("--power", type=float, default=0.8, show_default=True, help="Chance of finding it.")
@click.option("--pilot", metavar="RUN", multiple=True, help="Run that tells how answers vary; two for a difference.")
@click.option("--model", "models", multiple=True, help="Model to price and time; several may be given.")
@click.option("--rate", type=float, help="Expected share; that of the pilot, or 0.5.")
@click.option("--icc", type=float, help="Correlation of answers within a task; that of the pilot, or 0.3.")
@click.option("--repeat", type=float, help="How alike answers to one presentation are; that of the pilot, or 0.5.")
@click.option("--replicates", type=click.IntRange(1), default=1, show_default=True, help="Of each presentation.")
@click.option("--concurrency", type=click.IntRange(1), default=32, show_default=True, help="Most calls in flight.")
@click.option("--requests-per-minute", type=ABOVE_ZERO, help="Of the endpoint.")
@click.option("--seconds-per-call", type=ABOVE_ZERO, help="That of the pilot, or 2.")
@click.option("--price", metavar="IN,OUT", help="Dollars per million input and output tokens of the one model.")
@click.option("--tracking-uri", help=RunOptions.model_fields["tracking_uri"].description)
@shown_as
def calls(
    models: tuple[str, ...], pilot: tuple[str, ...], price: str | None, as_json: bool, markdown: bool, **options: Any
) -> None:
    """Say how many tasks, items and calls a wanted interval or difference needs, and what they cost.

    Nothing is asked and nothing is logged. The suite is a design: what is asked of each task, of however many.

    Example: jrh plan calls --axis dark_current --width 0.1 --suite datasheet --model openai/gpt-4o-mini

    Example: jrh plan calls --axis target_sensitivity/delta_1 --difference 0.2 --rate 0.7 --icc 0.2

    Example: jrh plan calls --axis dark_current --width 0.1 --pilot 3f2a9c01 --json
    """
    from jrh_mlflow.decisions.planning import plan as make

    if price is not None and len(models) != 1:
        raise click.UsageError(f"--price is of one --model, but got {len(models)}.")
    prices = price_from_option(models[0], price) if models else None
    result = make(models=models, pilot=list(pilot) or None, prices=prices, **options)
    print_as(result, lambda: [*result.page.to_text(), ""], as_json=as_json, markdown=markdown, notes=result.notes)


@plan.command()
@click.argument("pilot")
@click.option("--width", type=float, required=True, help="Wanted width of the 95 % interval of the corrected rate.")
@click.option("--scorer", help="Which scorer of the source; the only one when left out.")
@click.option("--positive", multiple=True, metavar="LABEL", help="A label that is a pass, where they are no booleans.")
@click.option("--judge", default="judge", show_default=True, help="Column of the judge's verdicts or scores.")
@click.option("--human", default="human", show_default=True, help="Column of people's labels.")
@click.option("--item", default="item", show_default=True, help="Column that names the item.")
@click.option("--cluster", help="Column (of traces a tag) with what was sampled together.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draws.")
@click.option("--tracking-uri", help=RunOptions.model_fields["tracking_uri"].description)
@shown_as
def labels(pilot: str, as_json: bool, markdown: bool, **options: Any) -> None:
    """Say how many labels of people a corrected rate of the wanted width needs, by how items are drawn.

    PILOT holds all verdicts of the judge, some items with people's labels too: a table, traces or a run.

    Example: jrh plan labels graded.csv --width 0.1
    """
    from jrh_mlflow.people.label_plan import plan_labels

    result = plan_labels(pilot, **options)
    print_as(result, lambda: [*result.page.to_text(), ""], as_json=as_json, markdown=markdown, notes=result.notes)
