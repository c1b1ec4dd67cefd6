"""`jrh self-preference`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from jrh_mlflow.cli.options import as_json, as_markdown, from_model, limits, price_from_option, read_pairs, store
from jrh_mlflow.cli.printing import print_result
from jrh_mlflow.options import RunOptions
from jrh_mlflow.show.numbers import quote_text


@click.command("self-preference")
@click.argument("table", type=click.Path(exists=True))
@click.option(
    "--judge",
    "judges",
    multiple=True,
    metavar="[AUTHOR=]JUDGE",
    help="A model, scripted:NAME, module:function, file.py:function or scorers:/NAME; several times. AUTHOR says which "
    "author it is, where its name does not. None: the table has recorded judgments.",
)
@click.option("--label", "labels", multiple=True, metavar="COLUMN", help="Better answer by people; `better` if there.")
@click.option("--rewriter", metavar="MODEL", help="Also judge the answers after this model has rewritten them.")
@click.option("--family", "families", multiple=True, metavar="MODEL=FAMILY", help="Where the name does not tell it.")
@click.option("--map", "columns", multiple=True, metavar="NAME=COLUMN", help="Our name of a column to the table's.")
@from_model(RunOptions, "max_usd")
@click.option("--price", multiple=True, metavar="MODEL=IN,OUT", help="Dollars per million tokens.")
@click.option("--dry-run", is_flag=True, help="Say how many calls and dollars, and send nothing.")
@click.option("--run-name", help="Name of the MLflow run.")
@click.option("--no-log", is_flag=True, help="Print only; log no run.")
@limits
@store
@as_json
@as_markdown
def self_preference(
    table: str,
    judges: tuple[str, ...],
    labels: tuple[str, ...],
    families: tuple[str, ...],
    columns: tuple[str, ...],
    price: tuple[str, ...],
    dry_run: bool,
    no_log: bool,
    as_json: bool,
    markdown: bool,
    **options: Any,
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
    from jrh_mlflow.comparing.self_preference import price_self_preference
    from jrh_mlflow.comparing.self_preference import self_preference as run

    given = {name: value for name, value in options.items() if value is not None}
    given |= {"columns": read_pairs(columns), "labels": list(labels) or None}
    prices = {name: pair for text in price for name, pair in (price_from_option("", text) or {}).items()}
    given["prices"] = prices or None
    asked = dict(map(_judge, judges)) or None
    if dry_run:
        if asked is None:
            raise click.UsageError("--dry-run says what judges would cost: give --judge.")
        quotes = price_self_preference(table, asked, **given)
        if as_json:
            click.echo(json.dumps({name: asdict(quote) for name, quote in quotes.items()}, indent=1))
            return
        for name, quote in quotes.items():
            dollars = quote_text(quote.usd, quote.worst_usd, unknown="no price is known")
            click.echo(f"{name}: {quote.calls:,} calls, {quote.journalled:,} answered in the journal; {dollars}")
        return
    own = read_pairs(families, option="--family", form="MODEL=FAMILY")
    done = run(table, asked, families=own, log=not no_log, **given)
    print_result(done, as_json=as_json, markdown=markdown)


def _judge(text: str) -> tuple[str, object]:
    """Read `AUTHOR=JUDGE`, or a judge that is called as it is written."""
    from jrh_mlflow.measuring.resolve import judge_from_text

    author, sign, what = text.partition("=")
    what = what if sign else text
    # A model may have a tag behind a colon, as in ollama/qwen2:7b; code has a name there.
    is_code = what.startswith(("scripted:", "scorers:")) or ".py:" in what or (":" in what and "/" not in what)
    return (author if sign else text), (judge_from_text(what) if is_code else what)
