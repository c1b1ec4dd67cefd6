"""`jrh prompt`: what a judge is sent, word for word, and whether its answers are understood."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from jrh_mlflow.cli.evaluate import joined_recipe
from jrh_mlflow.cli.options import (
    CommandGroup,
    allow_code,
    as_json,
    judge_options,
    store,
    suite_option,
    together,
)
from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.show.numbers import quote_text
from jrh_mlflow.text import clean_text

if TYPE_CHECKING:
    from jrh_mlflow.measuring.resolve import Prepared
    from jrh_mlflow.schema.items import Call, Item
    from jrh_mlflow.schema.requests import Request

ASKED = 3
"""Items that `jrh prompt check` asks about."""

_of_a_judge = together(
    click.argument("recipe_file", metavar="[RECIPE.yaml|scorers:/NAME]", required=False, type=click.Path()),
    judge_options,
    click.option("--judge", "judge_text", help="Instead of --model: file.py:function, scorers:/NAME[@VERSION], …"),
    suite_option,
    click.option("--price", metavar="IN,OUT", help="Dollars per million tokens, for a model litellm does not price."),
    allow_code,
    store,
    as_json,
)


@click.group(cls=CommandGroup)
def prompt() -> None:
    """Show what a judge is sent, or ask it about three items and show what is understood.

    Example: jrh prompt show --model openai/gpt-4o-mini
    """


@prompt.command()
@_of_a_judge
@click.option("--item", metavar="ID", help="Of the suite. [the first]")
@click.option("--diff", "run", metavar="RUN", help="Show in what it differs from what a run sent.")
def show(recipe_file: str | None, item: str | None, run: str | None, as_json: bool, **options: Any) -> None:
    """Print the exact request of one item, in both orders: as JSON, and as people read it; nothing is sent.

    \b
    Example: jrh prompt show --model openai/gpt-4o-mini --criterion strict
             jrh prompt show --model openai/gpt-4o-mini --messages mine.json --raw --verdict '(A|B)' --diff 1f3a9c20
    """
    prepared = _prepared(recipe_file, options)
    calls = list(_calls(prepared, [_item(prepared, item)]))
    requests = _requests(prepared, calls)
    quote = prepared.quote(calls, afresh=True)
    if run is not None:
        _print_differences(_bodies(requests), _bodies(_sent(run, calls, options["tracking_uri"])))
        return
    if as_json:
        click.echo(json.dumps(_bodies(requests), indent=1, ensure_ascii=False))
        return
    for call, body in zip(calls, _bodies(requests), strict=False):
        click.secho(f"{call.item.id} {call.order}".rstrip(), bold=True)
        click.echo(json.dumps(body, indent=1, ensure_ascii=False))
        for who, text in _read_aloud(body):
            click.secho(f"\n[{who}]", bold=True)
            click.echo(clean_text(text))
        click.echo()
    dollars = quote_text(quote.usd, quote.worst_usd, unknown="unknown (no price; give --price IN,OUT)")
    n_calls = f"{quote.calls} request{'' if quote.calls == 1 else 's'}"
    click.echo(f"{n_calls}, about {quote.input_tokens:,} tokens in (4 bytes each), dollars {dollars}")


@prompt.command()
@_of_a_judge
def check(recipe_file: str | None, as_json: bool, **options: Any) -> None:
    """Ask about three items of the suite, and show each answer, the verdict, and what was not understood.

    The answers are kept in the journal: an evaluation does not pay for them again. Exit code 4: none was understood.

    Example: jrh prompt check --model openai/gpt-4o-mini
    """
    from jrh_mlflow.engine.client import ClientSettings
    from jrh_mlflow.schema.items import USABLE

    prepared = _prepared(recipe_file, options)
    items = prepared.suite.items
    places = sorted({len(items) * place // ASKED for place in range(ASKED)})
    calls = list(_calls(prepared, [items[place] for place in places], orders=1))
    prepared.check_ready(calls)
    client = ClientSettings(concurrency=prepared.concurrency, price=prepared.price)
    answers = prepared.ask(client, calls, on_record=None, stop=None)
    if answers.failure is not None:
        raise answers.failure
    rows = [
        {
            "item": record.suite_item,
            "outcome": record.outcome,
            "verdict": record.answer or record.outcome,
            "answer": record.rationale,
            "not understood": record.error,
        }
        for record in answers.records
    ]
    n_read = sum(record.outcome in USABLE for record in answers.records)
    if as_json:
        click.echo(json.dumps({"understood": n_read, "asked": len(rows), "calls": rows}, indent=1, ensure_ascii=False))
    else:
        for row in rows:
            click.secho(f"{row['item']}: {row['verdict']}", bold=True)
            click.echo(clean_text(str(row["not understood"] or row["answer"] or "(no reason given)")))
        click.echo(f"\n{n_read} of {len(rows)} answers were understood.")
    if not n_read:
        click.get_current_context().exit(JudgeError.exit_code)


def _prepared(recipe_file: str | None, options: dict[str, Any]) -> Prepared:
    from jrh_mlflow.measuring.resolve import prepare

    recipe = joined_recipe(recipe_file, {**options, "until": ()})
    known = ("experiment", "tracking_uri", "prices", "journal")
    return prepare(
        recipe.judge, recipe.suite, **{name: recipe.options[name] for name in known if name in recipe.options}
    )


def _item(prepared: Prepared, name: str | None) -> Item:
    found = [item for item in prepared.suite.items if name in (None, item.id)]
    if not found:
        raise RecipeError(f"The suite {prepared.suite.name!r} has no item {name!r}: `jrh suite show` lists them.")
    return found[0]


def _calls(prepared: Prepared, items: Sequence[Item], *, orders: int = 2) -> Iterator[Call]:
    wanted = {item.id for item in items}
    planned = (call for call in prepared.plan() if call.item.id in wanted and call.replicate == 0)
    return (call for call in planned if orders == 2 or call.order != "vu")


def _requests(prepared: Prepared, calls: Sequence[Call]) -> list[Request]:
    judge, asked = prepared.model_calls(calls)
    if judge is None:
        raise RecipeError(f"{prepared.judge.name!r} writes its own requests in its code: there is none to show.")
    return [judge.request(call) for call in asked]


def _sent(run: str, calls: Sequence[Call], tracking_uri: str | None) -> list[Request]:
    from jrh_mlflow.judges import ModelJudge
    from jrh_mlflow.tracking.judges.identity import judge_from, measured_judge

    measured = measured_judge(run, tracking_uri=tracking_uri)
    judge = None if measured.definition is None else judge_from(measured.definition)
    if not isinstance(judge, ModelJudge):
        raise RecipeError(f"Run {run} does not tell its requests. {measured.no_definition}".rstrip())
    return [judge.request(call) for call in calls]


def _bodies(requests: Sequence[Request]) -> list[dict[str, Any]]:
    from jrh_mlflow.engine.batch import request_body

    return [request_body(request) for request in requests]


def _print_differences(here: Sequence[Mapping[str, Any]], there: Sequence[Mapping[str, Any]]) -> None:
    before, now = (json.dumps(bodies, indent=1, ensure_ascii=False).splitlines() for bodies in (there, here))
    lines = list(difflib.unified_diff(before, now, fromfile="sent by the run", tofile="sent now", lineterm=""))
    click.echo("\n".join(map(clean_text, lines)) if lines else "The run sent the same.")


def _read_aloud(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield who speaks and what, as people read it."""
    for message in body.get("messages", ()):
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"text": content}]
        yield str(message.get("role")), "\n".join(str(part.get("text", part)) for part in parts)
