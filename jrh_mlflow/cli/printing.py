"""How commands print results: aligned tables, evaluations, and judges side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from jrh_mlflow.evaluation.evaluate import Evaluation
    from jrh_mlflow.schema.estimates import Reading


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    """Print aligned columns, the first `left` of them to the left and the others to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())


def print_evaluations(evaluations: Sequence[Evaluation], *, as_json: bool) -> None:
    """Print what was measured: one table for several judges, the whole datasheet for one."""
    from jrh_mlflow.reports.numbers import at_least_text
    from jrh_mlflow.results import Datasheet

    if as_json:
        click.echo(json.dumps([_facts(one) for one in evaluations], indent=1, ensure_ascii=False))
        return
    if len(evaluations) == 1:
        (one,) = evaluations
        title = "Judge datasheet" if isinstance(one.sheet, Datasheet) else "Judge reliability"
        click.echo(one.sheet.to_markdown(title=f"{title}: {one.judge.label}"))
    else:
        print_comparison(evaluations)
    for one in evaluations:
        for axis, reason in one.withheld.items():
            click.echo(f"withheld: {one.judge.label}: {axis}: {reason}")
        if one.cost_usd is not None and one.unknown_costs:
            click.echo(f"{one.judge.label}: {at_least_text(one.cost_usd, one.unknown_costs)}")
    click.echo("")
    for one in evaluations:
        click.echo(f"{one.judge.label}: {one.link}")


@contextmanager
def shown_when_stopped(*, as_json: bool) -> Iterator[None]:
    """Where a signal ended an evaluation, print what was logged before it, and end with the signal's exit code."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as stop:
        done: Evaluation | None = getattr(stop, "evaluation", None)
        if done is None:
            raise
        far = f": {done.truncated.rpartition(': ')[2]}" if done.truncated else ""
        more = "; the same command continues" if done.truncated and done.judge.settings["kind"] == "prompted" else ""
        with suppress(OSError):  # the terminal may be gone
            print_evaluations([done], as_json=as_json)
            click.echo(f"Stopped{far}{more}.", err=True)
        click.get_current_context().exit(getattr(stop, "code", 130))


def print_comparison(evaluations: Sequence[Evaluation]) -> None:
    """Print judges side by side: as columns while they fit on a screen, as rows when there are many."""
    header, rows = comparison_rows(evaluations)
    if len(evaluations) <= 5:
        header, *rows = ([str(cell) for cell in column] for column in zip(header, *rows, strict=True))
    print_table(header, rows)


def comparison_rows(evaluations: Sequence[Evaluation]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of a side-by-side table: values with their interval by cluster, and the threshold."""
    from jrh_mlflow.measures.axes import find
    from jrh_mlflow.reports.numbers import is_shown

    shown = [_shown(one) for one in evaluations]
    heads: dict[str, str] = {}
    for key in dict.fromkeys(key for readings in shown for key in readings):
        axis = find(key)
        # Of a threshold it is said that there is none; another axis with neither number nor bounds is left out.
        if (axis and axis.unit == "curve") or any(is_shown(own[key]) for own in shown if key in own):
            heads[key] = axis.column or key if axis else key
    rows = [
        [one.judge.label, *(_cell(readings.get(key)) for key in heads), str(len(one.calls))]
        for one, readings in zip(evaluations, shown, strict=True)
    ]
    return ["judge", *heads.values(), "calls"], rows


def _shown(one: Evaluation) -> dict[str, Reading]:
    """Return the readings that sum an evaluation up: axes with a column, or the score of each test."""
    from jrh_mlflow.measures.axes import AXES
    from jrh_mlflow.results import Datasheet

    estimates = one.sheet.estimates
    if isinstance(one.sheet, Datasheet):
        return {axis.main_key: estimates[axis.main_key] for axis in AXES if axis.column and axis.main_key in estimates}
    plain = {"baseline": estimates["baseline/accuracy"]} if "baseline/accuracy" in estimates else {}
    return {**plain, **one.sheet.scores}


def _cell(reading: Reading | None) -> str:
    from jrh_mlflow.reports.numbers import missing_text, threshold_text, with_interval
    from jrh_mlflow.schema.estimates import Estimate

    if not isinstance(reading, Estimate):
        return missing_text(reading)
    return threshold_text(reading) if reading.unit == "curve" else with_interval(reading).removesuffix(" –")


def _facts(one: Evaluation) -> dict[str, Any]:
    return {
        "run_id": one.run_id,
        "judge": one.judge.label,
        "simulated": one.judge.simulated,
        "suite": {"name": one.suite.name, "sha256": one.suite.sha256},
        "profile": one.sheet.profile,
        "metrics": one.metrics,
        "withheld": one.withheld,
        "cost_usd": one.cost_usd,
        "unknown_costs": one.unknown_costs,
        "link": one.link,
    }
