"""Options several commands share, and how results are printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from jrh_mlflow.evaluation.evaluate import Evaluation
    from jrh_mlflow.schema.estimates import Reading

F = TypeVar("F", bound=Callable[..., Any])

ABOVE_ZERO = click.FloatRange(min=0, min_open=True)
as_json = click.option("--json", "as_json", is_flag=True, help="Print machine-readable results.")


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds options in the order they are given."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


store = together(
    click.option("--experiment", help="MLflow experiment; the active one when left out."),
    click.option("--tracking-uri", help="MLflow store or server; the active one when left out."),
)
"""Where in MLflow a run goes."""

tracking = together(store, click.option("--seed", default=0, show_default=True, help="Of everything drawn at random."))

limits = together(
    click.option("--concurrency", type=click.IntRange(1), help="Most calls in flight, to each model. [32]"),
    click.option("--journal", help="Where paid answers are kept, a path or postgresql://… [.jrh/journal.db]"),
    click.option("--requests-per-minute", type=ABOVE_ZERO, help="Of the endpoint; delays, never drops."),
    click.option("--tokens-per-minute", type=ABOVE_ZERO, help="Of the endpoint."),
    click.option("--timeout", "timeout_s", type=ABOVE_ZERO, help="Seconds for one attempt at a call. [120]"),
)
"""How models are asked."""


def column_mapping(pairs: Sequence[str]) -> dict[str, str]:
    """Read the ROLE=COLUMN pairs of --map."""
    columns: dict[str, str] = {}
    for pair in pairs:
        role, sign, column = pair.partition("=")
        if not sign or not column:
            raise click.UsageError(f"--map takes ROLE=COLUMN, but got {pair!r}.")
        columns[role] = column
    return columns


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
    click.echo("")
    for one in evaluations:
        click.echo(f"{one.judge.label}: {one.link}")


_COLUMNS = {
    "dark_current": "dark current",
    "raw_false_preference": "false pref. Δ0",
    "stable_cross_sensitivity": "stable",
    "positional_false_preference": "positional",
    "one_sided_commit": "one-sided",
    "tie_rate/delta_0_same": "tie Δ0",
    "target_sensitivity/delta_1": "better δ=1",
    "natural/accuracy": "accuracy",
    "natural/stable_correct": "right both orders",
    "natural/stable_wrong": "wrong both orders",
    "natural/positional": "positional",
}


def print_comparison(evaluations: Sequence[Evaluation]) -> None:
    """Print judges side by side: as columns while they fit on a screen, as rows when there are many."""
    header, rows = comparison_rows(evaluations)
    if len(evaluations) <= 5:
        header, *rows = ([str(cell) for cell in column] for column in zip(header, *rows, strict=True))
    print_table(header, rows)


def comparison_rows(evaluations: Sequence[Evaluation]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of a side-by-side table: values with their interval by cluster, and the threshold."""
    from jrh_mlflow.reports.numbers import threshold_text
    from jrh_mlflow.schema.estimates import Estimate

    shown = [_shown(one) for one in evaluations]
    used = {label for one in shown for label, reading in one.items() if isinstance(reading, Estimate)}
    labels = [label for label in dict.fromkeys(label for one in shown for label in one) if label in used]
    with_threshold = any("threshold_75" in one.sheet.estimates for one in evaluations)
    header = ["judge", *labels, *(["Δ75"] if with_threshold else []), "calls"]
    rows = [
        [
            one.judge.label,
            *(_cell(readings.get(label)) for label in labels),
            *([threshold_text(one.sheet.estimates["threshold_75"])] if with_threshold else []),
            str(len(one.calls)),
        ]
        for one, readings in zip(evaluations, shown, strict=True)
    ]
    return header, rows


def _shown(one: Evaluation) -> dict[str, Reading]:
    """Return the readings that sum an evaluation up, by what a reader calls them."""
    from jrh_mlflow.results import Datasheet

    estimates = one.sheet.estimates
    if isinstance(one.sheet, Datasheet):
        return {label: estimates[axis] for axis, label in _COLUMNS.items() if axis in estimates}
    plain = {"baseline": estimates["baseline/accuracy"]} if "baseline/accuracy" in estimates else {}
    return {**plain, **one.sheet.scores}


def _cell(reading: Reading | None) -> str:
    from jrh_mlflow.schema.estimates import Estimate

    if not isinstance(reading, Estimate):
        return "n/a"
    low, high = reading.cluster_low, reading.cluster_high
    return f"{reading.value:.3f}" + (f" [{low:.2f}, {high:.2f}]" if low is not None and high is not None else "")


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
        "link": one.link,
    }
