"""`jrh watch`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from jrh_mlflow.cli.options import as_json, as_markdown, from_model, price_from_option, tracking
from jrh_mlflow.cli.printing import print_result
from jrh_mlflow.options import RunOptions

_CHANGED = 1


@click.command()
@click.argument("run")
@click.option("--panel", type=click.IntRange(4), default=56, show_default=True, help="Calls of a look, at the start.")
@click.option("--traces", metavar="EXPERIMENT", help="Also tell whether the application moved; given at the start.")
@click.option("--judge", metavar="FILE.py:FUNCTION", help="The judge itself, where the run does not hold it.")
@click.option("--restart", is_flag=True, help="Begin a new watch, with a new start.")
@click.option("--dry-run", is_flag=True, help="Say what the next look costs, and send nothing.")
@click.option("--price", metavar="MODEL=IN,OUT", help="Dollars per million tokens, where the table is silent.")
@from_model(RunOptions, "max_usd", "concurrency", "requests_per_minute", "tokens_per_minute", "timeout_s")
@tracking
@as_json
@as_markdown
def watch(
    run: str,
    judge: str | None,
    dry_run: bool,
    price: str | None,
    experiment: str | None,
    as_json: bool,
    markdown: bool,
    **options: Any,
) -> None:
    """Look once whether a measured judge has changed since; look as often as you like.

    RUN is a run id of `jrh evaluate`, runs:/<id>, or the first eight or more digits of one. The first call asks a panel
    of its suite six times, to learn the judge's own noise; every later one is a look that asks it once, always afresh.
    The chance of a false alarm is 5 % over all looks together. All looks are one MLflow run, with a chart by look.

    Exit code 0: no change shown; also when another look is under way, then nothing is asked. 1: the judge or the
    application has changed. 2: bad input. 3: the look costs more than --max-usd. 4: the judge or its service failed.

    \b
    Example: jrh watch 3f2a9c01 --max-usd 0.10
             jrh watch 3f2a9c01 --traces support-bot
    """
    from jrh_mlflow.measuring.resolve import judge_from_text
    from jrh_mlflow.watching.watch import look_cost, price_watch
    from jrh_mlflow.watching.watch import watch as look

    where = {"tracking_uri": options["tracking_uri"], "experiment": experiment}
    given = {name: value for name, value in options.items() if value is not None}
    given |= {"judge": None if judge is None else judge_from_text(judge, **where)}
    given |= {"prices": price_from_option("", price)}
    if dry_run:
        quote = price_watch(run, **given)
        click.echo(json.dumps(asdict(quote), indent=1) if as_json else f"The next look asks {look_cost(quote)}.")
        return
    done = look(run, **given)
    print_result(done, as_json=as_json, markdown=markdown)
    if not done:
        click.get_current_context().exit(_CHANGED)
