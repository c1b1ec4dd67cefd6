"""`jrh attack`."""

from __future__ import annotations

from typing import Any

import click

from jrh_mlflow.cli.options import Command, asked_run, force_option, from_model, seed_option, shown_as, typed_options
from jrh_mlflow.cli.printing import print_quotes, print_result
from jrh_mlflow.options import RunOptions


@click.command(cls=Command)
@click.argument("judge", metavar="RUN|MODEL")
@click.option("--suite", help="Pairs or labelled single responses; the run's own, or the datasheet suite.")
@click.option("--queries", type=click.IntRange(20), default=500, show_default=True, help="Most calls of the search.")
@click.option("--generator", metavar="MODEL", help="Writes variants of what works.")
@click.option("--defences", default="", metavar="NAME,NAME", help="fence, reminder, reasons, both_orders.")
@click.option("--transfer", multiple=True, metavar="RUN|MODEL", help="Read the first attack on this judge; repeatable.")
@click.option("--passing", multiple=True, metavar="LABEL", help="A label with which a single response passes.")
@from_model(RunOptions, "texts")
@click.option("--export", metavar="FILE", type=click.Path(), help="Write the next calls as a batch file; ask nothing.")
@asked_run
@click.option("--no-log", is_flag=True, help="Print only; log no run.")
@seed_option
@force_option
@shown_as
def attack(
    judge: str,
    passing: tuple[str, ...],
    transfer: tuple[str, ...],
    texts: bool | None,
    no_log: bool,
    dry_run: bool,
    as_json: bool,
    markdown: bool,
    **options: Any,
) -> None:
    """Search for texts that make a worse answer win or a failing one pass, and read them on sources held out.

    RUN is a logged evaluation (id, runs:/<id>, or the first eight or more digits), MODEL a model, scripted:NAME or
    file.py:function. Half of the sources are searched, the other half is asked only for the best attacks, beside a
    neutral text of the same length and beside nothing.
    `jrh gate RUN --require 'attack/success <= 0.05'` decides.

    \b
    Example: jrh attack 3f2a9c01 --max-usd 2 --defences fence,reminder,both_orders
             jrh attack openai/gpt-4o-mini --export requests.jsonl
    """
    from jrh_mlflow.attacks.attack import attack as run
    from jrh_mlflow.attacks.attack import price_attack
    from jrh_mlflow.measuring.asked_items import NextBatchError

    given = typed_options(options, judge) | {"passing": passing or None, "transfer": transfer}
    if dry_run:
        print_quotes(price_attack(judge, **given), as_json=as_json)
        return
    try:
        result = run(judge, texts=texts is not False, log=not no_log, **given)
    except NextBatchError as written:
        click.echo(str(written))
        return
    print_result(result, as_json=as_json, markdown=markdown)
