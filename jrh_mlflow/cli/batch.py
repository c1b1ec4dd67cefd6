"""`jrh batch`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jrh_mlflow.cli.options import (
    CommandGroup,
    as_json,
    force_option,
    from_model,
    judge_arguments,
    judge_options,
    price_from_option,
    prompted_judge,
    suite_option,
)
from jrh_mlflow.cli.printing import print_lines
from jrh_mlflow.options import RunOptions

if TYPE_CHECKING:
    from jrh_mlflow.engine.batch import BatchSummary, ImportSummary

_SHOWN = 5

journal_option = from_model(RunOptions, "journal")


@click.group(cls=CommandGroup)
def batch() -> None:
    """Ask through batch files: half price at providers, or `vllm run-batch` with no server.

    Example: jrh batch export --model openai/gpt-4o-mini -o requests.jsonl
    """


@batch.command()
@click.option("-o", "--output", required=True, type=click.Path(), help="File to write.")
@suite_option
@click.option("--replicates", type=click.IntRange(min=1), default=1, show_default=True, help="Of each presentation.")
@journal_option
@judge_options
@force_option
@as_json
def export(
    output: str,
    force: bool,
    suite: str | None,
    replicates: int,
    journal: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Write the calls of an evaluation that the journal does not answer yet, in OpenAI's batch dialect.

    The file holds no key. Import its results before you export again, or the same calls are paid twice.

    Example: jrh batch export --model openai/gpt-4o-mini --criterion strict -o requests.jsonl
    """
    from jrh_mlflow.engine.batch import export_batch
    from jrh_mlflow.measuring.resolve import journal_at, prepare

    judge = prompted_judge(judge_arguments(options))
    # Refuses what an evaluation would refuse, before a file is written.
    chosen = prepare(judge, suite, replicates=replicates).suite
    with journal_at(journal) as book:
        summary = export_batch(judge, chosen, book, output, replicates=replicates, force=force)
    if as_json:
        # The files are paths, which JSON does not know.
        click.echo(json.dumps(asdict(summary), indent=1, default=str))
    else:
        _print_export(summary)


@batch.command("import")
@click.argument("files", metavar="REQUESTS RESULTS...", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--discount", default=0.0, show_default=True, help="Share taken off the price: 0.5 at OpenAI.")
@click.option("--price", metavar="IN,OUT", help="Dollars per million tokens, where the table is wrong or silent.")
@journal_option
@judge_options
@as_json
def import_(
    files: tuple[Path, ...],
    discount: float,
    price: str | None,
    journal: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Bring the results of an export into the journal: output and error files, in any order, as often as you like.

    The judge is known from the requests; only where it had an address of its own are the options of the export needed
    again. `jrh evaluate` with the options of the export then asks only what is missing.

    Example: jrh batch import requests.jsonl results.jsonl --discount 0.5
    """
    from jrh_mlflow.engine.batch import ExportedRequests, export_files, import_batch, told_apart
    from jrh_mlflow.measuring.resolve import journal_at

    requests, results = told_apart(files)
    if len(requests) != 1 or not results:
        raise click.UsageError("Give the file that `jrh batch export` wrote and those with its results.")
    arguments = judge_arguments(options)
    judge = prompted_judge(arguments) if arguments else None
    asked = judge or (ExportedRequests.of(export_files(requests[0])) if price else None)
    prices = price_from_option(asked.model, price) if asked else None
    with journal_at(journal) as book:
        given: dict[str, Any] = {"prices": prices, "discount": discount}
        summary = import_batch(requests[0], results, book, judge, **given)
    if as_json:
        click.echo(json.dumps(asdict(summary), indent=1))
    else:
        _print_import(summary)


def _print_export(summary: BatchSummary) -> None:
    if summary.journalled:
        click.echo(f"{summary.journalled} of {summary.calls} calls are answered in the journal.")
    if summary.too_long:
        click.echo(f"{summary.too_long} calls are longer than the model's context and are left out.")
    if not summary.files:
        click.echo("Nothing is missing, so no file was written.")
        return
    click.echo(f"{summary.requests} requests, {summary.size_bytes / 1e6:.1f} MB:")
    for file in summary.files:
        click.echo(f"  {file}")


def _print_import(summary: ImportSummary) -> None:
    for count, text in (
        (summary.answered, "answers are now in the journal"),
        (summary.already, "results were there before"),
        (summary.refused, "responses hold no answer (refused, empty or filtered)"),
        (summary.failed, "requests failed"),
        (summary.missing, "requests have no result"),
        (summary.repeated, "lines repeat another one"),
    ):
        if count or text.startswith("answers"):
            click.echo(f"{count:7d} {text}")
    click.echo(f"booked: {'n/a (no price)' if summary.cost_usd is None else f'${summary.cost_usd:.6f}'}")
    _warn("ids that no exported request has", summary.unknown)
    _warn("lines that are no result", summary.unreadable)
    _warn("last lines cut short: fetch the file again", summary.cut_short)


def _warn(text: str, lines: Sequence[str]) -> None:
    if lines:
        more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        print_lines([f"note: {len(lines)} {text}: {'; '.join(lines[:_SHOWN])}{more}"], err=True)
