"""`jrh journal`."""

from __future__ import annotations

import json
import math
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jrh_mlflow.cli.options import CommandGroup, as_json
from jrh_mlflow.cli.printing import print_table

if TYPE_CHECKING:
    from jrh_mlflow.engine.journal import Summary


_JOURNAL = click.option(
    "--journal", "path", type=click.Path(), help="A file or postgresql://...; the one of this user when left out."
)


@click.group(cls=CommandGroup)
def journal() -> None:
    """Show what the journal of paid answers holds, or prune it.

    Example: jrh journal show
    """


@journal.command()
@_JOURNAL
@as_json
def show(path: str | None, as_json: bool) -> None:
    """Show size, counts and what was spent.

    Example: jrh journal show --json
    """
    from jrh_mlflow.engine.journal import open_journal

    place = _found(path)
    with open_journal(place) as book:
        _print(book.place if "://" in place else place, book.summary(), None, as_json=as_json)


@journal.command()
@_JOURNAL
@click.option("--older-than", type=float, metavar="DAYS", help="Only calls settled longer ago than this.")
@click.option("--failed", is_flag=True, help="Only calls without an answer: failed and lost ones.")
@click.option("--yes", is_flag=True, help="Do not ask first.")
@as_json
def prune(path: str | None, older_than: float | None, failed: bool, yes: bool, as_json: bool) -> None:
    """Delete settled calls; what was spent stays counted.

    Example: jrh journal prune --failed --older-than 30
    """
    if older_than is None and not failed:
        raise click.UsageError("Say what to prune: --older-than DAYS, --failed, or both.")
    if older_than is not None and not 0 <= older_than < math.inf:
        raise click.UsageError(f"--older-than takes a number of days, 0 or more, but got {older_than}.")
    from jrh_mlflow.engine.journal import open_journal

    place = _found(path)
    if not yes and not click.confirm(_question(older_than=older_than, failed=failed), err=True):
        click.echo("Nothing was deleted.", err=True)
        return
    with open_journal(place) as book:
        removed = book.prune(older_than_days=older_than, failed=failed)
        _print(book.place if "://" in place else place, book.summary(), removed, as_json=as_json)


@journal.command()
@_JOURNAL
@click.option("--model", help="Only of this model, with or without its provider.")
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Only of this day (UTC) or later.")
@as_json
def bill(path: str | None, model: str | None, since: datetime | None, as_json: bool) -> None:
    """Print what was paid, by day and model, to lay beside a provider's bill.

    A bill lies between USD, which is what attempts told, and USD plus the worst case of those that told nothing.

    Example: jrh journal bill --model openai/gpt-4o-mini --since 2026-11-01
    """
    from jrh_mlflow.engine.budget import bill as bill_of
    from jrh_mlflow.engine.journal import open_journal

    moment = since.replace(tzinfo=timezone.utc).timestamp() if since else 0.0
    with open_journal(_found(path)) as book:
        lines = bill_of(book, model=model, since=moment)
    counts = ("calls", "input_tokens", "output_tokens", "unknown")
    rows = [
        {"day": day, "model": name, **{count: getattr(paid, count) for count in counts}}
        | {"usd": paid.micro / 1e6, "worst_case_usd": paid.worst_micro / 1e6}
        for (day, name), paid in lines.items()
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    header = ["day", "model", "attempts", "input", "output", "of unknown cost", "USD", "worst case of those"]
    dollars = ("usd", "worst_case_usd")
    cells = [
        [row["day"], row["model"], *(f"{row[name]:,}" for name in counts), *(f"{row[name]:.6f}" for name in dollars)]
        for row in rows
    ]
    print_table(header, cells, left=2)
    click.echo("Calls that were pruned from the journal are not in it; ? are calls of a process that died.")


def _found(path: str | None) -> str:
    from jrh_mlflow.errors import JournalError
    from jrh_mlflow.measuring.resolve import default_journal

    place = path or str(default_journal())
    # The address of a server may hold a password: opening it says what is wrong without repeating it.
    if "://" not in place and not Path(place).is_file():
        raise JournalError(f"There is no journal {place}. Give --journal, or run `jrh evaluate` first.")
    return place


def _question(*, older_than: float | None, failed: bool) -> str:
    what = "calls without an answer" if failed else "all settled calls, paid answers too,"
    age = "" if older_than is None else f" older than {older_than:g} days"
    return f"Delete {what}{age} from the journal?"


def _print(place: str, summary: Summary, removed: int | None, *, as_json: bool) -> None:
    counts = {name: getattr(summary, name) for name in ("answered", "hits", "failed", "in_flight", "lost")}
    if removed is not None:
        counts["removed"] = removed
    size, spent = summary.size_bytes, summary.spent_micro / 1_000_000
    if as_json:
        click.echo(json.dumps({"path": place, "size_bytes": size, **counts, "spent_usd": spent}, indent=1))
        return
    rows = [[name.replace("_", " "), str(count)] for name, count in counts.items()]
    print_table(["journal", place], [["size", f"{size / 1e6:.1f} MB"], *rows, ["spent", f"${spent:.6f}"]])
    click.echo("Hits are answers served again instead of being paid again. Calls without a known price count as $0.")
