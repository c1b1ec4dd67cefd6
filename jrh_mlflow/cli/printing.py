"""How commands print results: aligned tables, evaluations, and judges side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.show.numbers import is_shown, missing_text, quote_text, threshold_text, with_interval
from jrh_mlflow.show.plain_text import aligned, broken, plain, wrapped_line
from jrh_mlflow.text import REPLACEMENT

if TYPE_CHECKING:
    import pandas as pd

    from jrh_mlflow.comparing.criterion_shift import CriterionShift
    from jrh_mlflow.engine.calls import Quote
    from jrh_mlflow.measuring.evaluation import Evaluation
    from jrh_mlflow.show.cards import ShownResult


def print_quotes(quotes: Mapping[str, Quote], *, as_json: bool) -> None:
    """Print what calls would send and cost, by what they are for."""
    if as_json:
        click.echo(json.dumps({name: asdict(quote) for name, quote in quotes.items()}, indent=1))
        return
    for name, quote in quotes.items():
        dollars = quote_text(quote.usd, quote.worst_usd, unknown="no price is known")
        print_lines([f"{name}: {quote.calls:,} calls, {quote.journalled:,} answered in the journal; {dollars}"])


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    """Print aligned columns, the first `left` of them to the left and the others to the right."""
    print_lines(aligned(header, rows, left=left))


def print_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Print lines; nothing in them moves a cursor, whoever wrote the names that they hold."""
    for line in lines:
        click.echo(
            "".join(letter if letter.isprintable() or letter == "\n" else REPLACEMENT for letter in line), err=err
        )


def print_place(link: str, *, err: bool = False) -> None:
    """Say where a run is; an address that is too long for a line stands on its own, so that it can be copied."""
    lines = wrapped_line("logged", link)
    print_lines(["logged:", link] if len(lines) > 1 and "://" in link.split(maxsplit=1)[0] else lines, err=err)


def save_table(frame: pd.DataFrame, path: str | None, *, force: bool) -> None:
    """Write a table where one is wanted, and say beside the results what its cells could not hold."""
    if path is None:
        return
    from jrh_mlflow.suites.spreadsheets import write_table

    for note in write_table(frame, path, force=force):
        click.echo(f"note: {note}", err=True)


def print_evaluations(evaluations: Sequence[Evaluation], *, as_json: bool, markdown: bool = False) -> None:
    """Print what was measured: a screen for one judge, a table for several, and where it is logged."""
    if as_json:
        click.echo(json.dumps([_facts(evaluation) for evaluation in evaluations], indent=1, ensure_ascii=False))
    elif markdown:
        _print_markdown(evaluations)
    elif len(evaluations) == 1:
        print_lines(evaluation_lines(evaluations[0]))
    else:
        print_comparison(evaluations)
        for evaluation in evaluations:
            print_lines(["", plain(evaluation.judge.label), *_about(evaluation)])
    if evaluations and not as_json:
        click.echo(f"all judges: {evaluations[0].view_link}")


def _print_markdown(evaluations: Sequence[Evaluation]) -> None:
    for evaluation in evaluations:
        click.echo(evaluation.sheet.to_markdown(title=_title(evaluation), note=" ".join(_notes(evaluation)) or None))
    for evaluation in evaluations:
        print_lines([f"{evaluation.judge.label}: {evaluation.link}"])


def evaluation_lines(evaluation: Evaluation) -> list[str]:
    """Return the screen of one evaluation: what it read, what is missing, what it cost, and where it is."""
    from jrh_mlflow.show.sheets import sheet_lines

    sheet = evaluation.sheet
    suite = f"{evaluation.suite.name} ({len(evaluation.suite):,} items, sha256 {evaluation.suite.sha256[:12]})"
    head = [plain(_title(evaluation)), plain(f"{len(evaluation.calls):,} calls ({sheet.ended}) on {suite}")]
    said = [line for sentence in sheet.verdict.sentences for line in wrapped_line("", sentence)]
    return [*head, "", *said, "", *sheet_lines(sheet), "", *_about(evaluation)]


def _title(evaluation: Evaluation) -> str:
    return f"{evaluation.sheet.title}: {evaluation.judge.label}"


def _about(evaluation: Evaluation) -> list[str]:
    """Return what stands below the numbers: profile, biases, cost, what is withheld, what to know, where it is."""
    from jrh_mlflow.show.readings import finding_lines, withheld_lines

    notes = [line for note in _notes(evaluation) for line in wrapped_line("note", note)]
    findings = finding_lines(evaluation.sheet.verdict.findings)
    return [
        *(line for head, text in findings.items() for line in wrapped_line(head, f"{text}.")),
        *wrapped_line("profile", f"{evaluation.sheet.profile}."),
        *wrapped_line("cost", evaluation.cost_text),
        *withheld_lines(evaluation.sheet.withheld_readings),
        *notes,
        f"logged: {evaluation.link}",
        f"page: {evaluation.view.page(evaluation.run_id)}",
    ]


def _notes(evaluation: Evaluation) -> list[str]:
    """Return what a reader must know before believing a number."""
    from jrh_mlflow.show.sheets import origin_notes

    return [*evaluation.notes, *origin_notes(evaluation.suite.origin), *evaluation.sheet.few_notes]


def print_page(title: str, lines: Iterable[str], *, notes: Iterable[str] = ()) -> None:
    """Print a result under its title, then what a reader must know."""
    print_lines([*broken(title), "", *lines, *(line for note in notes for line in wrapped_line("note", note))])


def print_as(
    result: Any,
    lines: Callable[[], Iterable[str]],
    *,
    as_json: bool,
    markdown: bool,
    notes: Iterable[str] = (),
    title: str = "",
) -> None:
    """Print a result as data, as Markdown, or its lines under its title with what a reader must know."""
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=1, ensure_ascii=False, allow_nan=False))
    elif markdown:
        click.echo(result.to_markdown())
    else:
        # Lines are made only here: data and Markdown do not need them.
        print_page(title or result.title, lines(), notes=notes)


def print_result(result: ShownResult, *, as_json: bool, markdown: bool) -> None:
    """Print a result that has a page, as data, as Markdown or for a screen; then where it is logged, if it is."""
    page, how = result.page, {"as_json": as_json, "markdown": markdown}
    print_as(result, lambda: [*page.to_text(), ""], notes=page.notes, title=page.title, **how)
    if result.link is not None and not as_json:
        print_place(result.link)


def print_shift(shift: CriterionShift, *, markdown: bool) -> None:
    """Print how far each axis moved between the arms."""
    base, *_ = shift.arms
    notes = [f"{name}: {note}" for name, arm in shift.arms.items() for note in _notes(arm) if arm.truncated]
    if markdown:
        click.echo(shift.to_markdown())
    else:
        print_page(shift.page.title, [*shift.page.to_text(), ""], notes=notes)
        print_lines(f"cost of {name}: {arm.cost_text}" for name, arm in shift.arms.items())
    print_lines([f"logged: {shift.link}", f"all judges: {shift.arms[base].view_link}"])


@contextmanager
def shown_when_stopped(left: str, show: Callable[[Any], None]) -> Iterator[None]:
    """Where a signal ended the work, show what it has left (an attribute), and end with the signal's exit code."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as stop:
        done = getattr(stop, left, None)
        if done is None:
            raise
        with suppress(OSError):  # the terminal may be gone
            show(done)
        # A signal other than Ctrl-C comes as SystemExit with its own code.
        click.get_current_context().exit(getattr(stop, "code", 130))


def print_stopped(done: Evaluation, *, as_json: bool, markdown: bool = False) -> None:
    """Print what an evaluation had logged before a signal ended it."""
    far = f": {done.truncated.rpartition(': ')[2]}" if done.truncated else ""
    continues = done.truncated and done.judge.settings["kind"] in ("prompted", "raw")
    print_evaluations([done], as_json=as_json, markdown=markdown)
    click.echo(f"Stopped{far}{'; the same command continues' if continues else ''}.", err=True)


def print_comparison(evaluations: Sequence[Evaluation]) -> None:
    """Print judges side by side: as columns while they fit on a screen, as rows when there are many."""
    header, rows = comparison_rows(evaluations)
    if len(evaluations) <= 5:
        header, *rows = ([str(cell) for cell in column] for column in zip(header, *rows, strict=True))
    print_table(header, rows)


def comparison_rows(evaluations: Sequence[Evaluation]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of a side-by-side table: values with their interval by cluster, and the threshold."""
    from jrh_mlflow.measures.axes import find
    from jrh_mlflow.show.names import axis_name

    shown = [_shown(evaluation) for evaluation in evaluations]
    heads: dict[str, str] = {}
    for key in dict.fromkeys(key for readings in shown for key in readings):
        axis = find(key)
        # Of a threshold it is said that there is none; another axis with neither number nor bounds is left out.
        if (axis and axis.unit == "curve") or any(is_shown(own[key]) for own in shown if key in own):
            heads[key] = axis_name(key)
    rows = [
        [evaluation.judge.label, *(_cell(readings.get(key)) for key in heads), str(len(evaluation.calls))]
        for evaluation, readings in zip(evaluations, shown, strict=True)
    ]
    return ["judge", *heads.values(), "calls"], rows


def _shown(evaluation: Evaluation) -> dict[str, Reading]:
    """Return the readings that sum an evaluation up: axes with a column, or the score of each test."""
    from jrh_mlflow.measures.axes import AXES
    from jrh_mlflow.show.results import Datasheet

    estimates = evaluation.sheet.estimates
    if isinstance(evaluation.sheet, Datasheet):
        return {axis.main_key: estimates[axis.main_key] for axis in AXES if axis.column and axis.main_key in estimates}
    plain = {"baseline": estimates["baseline/accuracy"]} if "baseline/accuracy" in estimates else {}
    return {**plain, **evaluation.sheet.scores}


def _cell(reading: Reading | None) -> str:
    if not isinstance(reading, Estimate):
        return missing_text(reading)
    # With one task there is no interval, and a dash for it only takes room.
    return threshold_text(reading) if reading.unit == "curve" else with_interval(reading).removesuffix(" –")


def _facts(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "run_id": evaluation.run_id,
        "judge": evaluation.judge.label,
        "simulated": evaluation.judge.simulated,
        "suite": {"name": evaluation.suite.name, "sha256": evaluation.suite.sha256},
        "verdict": evaluation.verdict.to_dict(),
        "profile": evaluation.sheet.profile,
        "metrics": evaluation.metrics,
        "withheld": evaluation.withheld,
        "cost_usd": evaluation.cost_usd,
        "unknown_costs": evaluation.unknown_costs,
        **({"until": evaluation.stopped.to_dict()} if evaluation.stopped else {}),
        "link": evaluation.link,
    }
