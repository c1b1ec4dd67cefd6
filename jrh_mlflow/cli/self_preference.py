"""`jrh self-preference`."""

from __future__ import annotations

from typing import Any

import click

from jrh_mlflow.cli.options import Command, asked_run, pairs_option, shown_as, typed_options
from jrh_mlflow.cli.printing import print_quotes, print_result


@click.command("self-preference", cls=Command)
@click.argument("table", type=click.Path(exists=True))
@click.option(
    "--judge",
    "judges",
    multiple=True,
    metavar="[AUTHOR=]JUDGE",
    help="A model, scripted:NAME, module:function, file.py:function or scorers:/NAME; several times. AUTHOR says which "
    "author it is, where its name does not. None: the table has recorded judgments.",
)
@click.option("--rewriter", metavar="MODEL", help="Also judge the answers after this model has rewritten them.")
@pairs_option("--family", "families", "MODEL=FAMILY", help="Where the name does not tell it.")
@pairs_option("--map", "columns", "NAME=COLUMN", help="Our name of a column to the table's.")
@asked_run
@click.option("--no-log", is_flag=True, help="Print only; log no run.")
@shown_as
def self_preference(
    table: str, judges: tuple[str, ...], dry_run: bool, no_log: bool, as_json: bool, markdown: bool, **options: Any
) -> None:
    """Say whether judges let answers of their own, or of their family, win.

    TABLE has a row for each answer (prompt, response, author: what jrh respond writes), for each pair (instruction,
    first, second, first_author, second_author, and better where people said it), or for each recorded judgment (id,
    first_author, second_author, judge, winner). Every judge is asked about every pair in both orders. The excess is
    logged as self_preference/excess/value, for rules such as 'self_preference/excess <= 0.1'.

    \b
    Example: jrh self-preference answers.jsonl --judge openai/gpt-4o --judge mistral/mistral-large-latest --max-usd 5
             jrh self-preference judgments.csv --no-log
    """
    from jrh_mlflow.comparing import self_preference as verb

    given = typed_options(options)
    # A judge that is not said to be an author is called as it is typed.
    asked = {author: judge or author for author, _, judge in (text.partition("=") for text in judges)} or None
    if not dry_run:
        print_result(verb.self_preference(table, asked, log=not no_log, **given), as_json=as_json, markdown=markdown)
    elif asked is None:
        raise click.UsageError("--dry-run says what judges would cost: give --judge.")
    else:
        print_quotes(verb.price_self_preference(table, asked, **given), as_json=as_json)
