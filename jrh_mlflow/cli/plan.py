"""`jrh plan`."""

from __future__ import annotations

from typing import Any

import click

from jrh_mlflow.cli.options import (
    ABOVE_ZERO,
    Command,
    price_from_option,
    refuse_typed_but,
    shown_as,
    suite_option,
)
from jrh_mlflow.cli.printing import print_as
from jrh_mlflow.options import RunOptions

_LABEL_OPTIONS = {"labels", "pilot", "width", "cluster", "positive", "tracking_uri", "as_json", "markdown"}
"""The parameters that `--labels` reads."""


@click.command(cls=Command)
@suite_option
@click.option("--axis", help="A share of the suite: dark_current, target_sensitivity/delta_1 …")
@click.option("--width", type=float, help="Wanted width of the 95 % interval (of an axis: the clustered one).")
@click.option("--difference", type=float, help="Wanted difference of two judges; this or --width.")
@click.option(
    "--pilot", metavar="RUN|FILE", multiple=True, help="Run that tells how answers vary; two for a difference."
)
@click.option("--labels", is_flag=True, help="Count labels of people; --pilot is then what `jrh correct` takes.")
@click.option("--cluster", help="With --labels: column (of traces a tag) with what was sampled together.")
@click.option("--positive", multiple=True, metavar="LABEL", help="With --labels: a label that is a pass.")
@click.option("--model", "models", multiple=True, help="Model to price and time; several may be given.")
@click.option("--rate", type=float, help="Expected share; that of the pilot, or 0.5.")
@click.option("--replicates", type=click.IntRange(1), default=1, show_default=True, help="Of each presentation.")
@click.option("--concurrency", type=click.IntRange(1), default=32, show_default=True, help="Most calls in flight.")
@click.option("--requests-per-minute", type=ABOVE_ZERO, help="Of the endpoint.")
@click.option("--price", metavar="IN,OUT", help="Dollars per million input and output tokens of the one model.")
@click.option("--tracking-uri", help=RunOptions.model_fields["tracking_uri"].description)
@shown_as
def plan(
    models: tuple[str, ...],
    pilot: tuple[str, ...],
    price: str | None,
    labels: bool,
    positive: tuple[str, ...],
    as_json: bool,
    markdown: bool,
    **options: Any,
) -> None:
    """Say before anything is paid how many tasks, items and calls a wanted interval or difference needs.

    Nothing is asked and nothing is logged. The suite is a design: what is asked of each task, of however many. With
    --labels it says how many labels of people a corrected rate needs, by how items are drawn; the pilot holds all
    verdicts of the judge, and people's labels of some items.

    \b
    Example: jrh plan --axis dark_current --width 0.1 --suite datasheet --model openai/gpt-4o-mini
             jrh plan --axis target_sensitivity/delta_1 --difference 0.2 --rate 0.7
             jrh plan --axis dark_current --width 0.1 --pilot 3f2a9c01 --json
             jrh plan --labels --pilot graded.csv --width 0.1
    """
    from jrh_mlflow.decisions.planning import plan as make_plan

    if labels:
        refuse_typed_but(_LABEL_OPTIONS, of="--labels")
        if len(pilot) != 1:
            raise click.UsageError(f"--labels takes one --pilot, but got {len(pilot)}.")
        shared = {name: options[name] for name in ("width", "cluster", "tracking_uri")}
        result: Any = make_plan(labels=True, pilot=pilot[0], positive=positive, **shared)
    else:
        if options.pop("cluster") is not None or positive:
            raise click.UsageError("--cluster and --positive go with --labels.")
        if options["axis"] is None:
            raise click.UsageError("Give --axis, or --labels to count labels of people.")
        if price is not None and len(models) != 1:
            raise click.UsageError(f"--price is of one --model, but got {len(models)}.")
        prices = price_from_option(models[0], price) if models else None
        result = make_plan(models=models, pilot=list(pilot) or None, prices=prices, **options)
    print_as(result, lambda: [*result.page.to_text(), ""], as_json=as_json, markdown=markdown, notes=result.notes)
