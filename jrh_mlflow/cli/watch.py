"""`jrh watch`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from jrh_mlflow.cli.options import (
    Command,
    as_json,
    as_markdown,
    from_model,
    price_from_option,
    refuse_typed_but,
    tracking,
)
from jrh_mlflow.cli.printing import print_lines, print_result
from jrh_mlflow.options import RunOptions

if TYPE_CHECKING:
    from jrh_mlflow.exporting.status import Status

_CHANGED = 1
_NOT_MEASURED = 1
_STATUS_OPTIONS = {"run", "status", "check", "experiment", "tracking_uri", "as_json"}
"""The parameters that `--status` reads: it asks nothing."""


@click.command(cls=Command)
@click.argument("run", metavar="RUN|SCORER")
@click.option("--status", is_flag=True, help="Ask nothing: is this judge the one that was measured?")
@click.option("--check", is_flag=True, help="With --status: exit with 1 unless it is measured, for CI.")
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
    status: bool,
    check: bool,
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

    With --status nothing is asked: it compares the judge in use with the one that was measured, and says whether its
    prompt, model, version or settings have changed since. A SCORER (scorers:/NAME, scorers:/NAME@VERSION or the bare
    name of a judge that is registered at MLflow) goes with --status only.

    Exit code 0: no change shown; also when another look is under way, then nothing is asked. 1: the judge or the
    application has changed. 2: bad input. 3: the look costs more than --max-usd. 4: the judge or its service failed.

    \b
    Example: jrh watch 3f2a9c01 --max-usd 0.10
             jrh watch 3f2a9c01 --traces support-bot
             jrh watch scorers:/helpful --status --check
    """
    if status:
        _show_status(run, experiment, options["tracking_uri"], check=check, as_json=as_json)
        return
    if check:
        raise click.UsageError("--check goes with --status. A look has its own exit code: 1 where something changed.")
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


def _show_status(judge: str, experiment: str | None, tracking_uri: str | None, *, check: bool, as_json: bool) -> None:
    """Print whether the judge is the one that was measured."""
    from jrh_mlflow.exporting.status import status

    refuse_typed_but(_STATUS_OPTIONS, of="--status")
    found = status(judge, experiment=experiment, tracking_uri=tracking_uri)
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=1, ensure_ascii=False))
    else:
        print_lines(_status_lines(found))
    if check and not found:
        click.get_current_context().exit(_NOT_MEASURED)


def _status_lines(status: Status) -> list[str]:
    """Return the state, what differs, where the datasheet is, and what measures the judge."""
    from jrh_mlflow.show.plain_text import plain

    lines = [plain(f"{status.name}: {status.reason}")]
    lines += [f"  {plain(str(difference))}" for difference in status.differs]
    if status.link:
        lines.append(f"datasheet: {status.link}")
    if not status:
        lines.append(f"measure it: {plain(status.measure)}")
    return lines
