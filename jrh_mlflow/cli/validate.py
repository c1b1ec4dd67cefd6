"""`jrh validate`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import click

from jrh_mlflow.cli.options import as_json, force_option
from jrh_mlflow.cli.printing import print_table
from jrh_mlflow.outputs import check_free

if TYPE_CHECKING:
    from jrh_mlflow.evaluation.validate import Check, Map
    from jrh_mlflow.stats.coverage import Cell

_COLUMNS = {"axis": "", "design": "", "interval": "", "truth": ".3f", "bias": "+.4f", "coverage": ".3f", "verdict": ""}
"""Field of a check to how it is printed; the axis is called its estimator."""


@click.command()
@click.option(
    "--seeds", type=click.IntRange(0), default=500, show_default=True, help="Simulated judges per design; 0: none."
)
@click.option(
    "--draws",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    help="Simulations per cell of 12 calls per task; 0: none.",
)
@click.option("--icc", "iccs", multiple=True, type=click.FloatRange(0, 1, max_open=True), help="ICCs [0, .1, .3, .6].")
@click.option("--seed", default=0, show_default=True, help="Of all simulations.")
@click.option("--workers", type=click.IntRange(1), help="Processes [all cores; 1 with --quick].")
@click.option("--quick", is_flag=True, help="Designs of 10 tasks, few draws, 20 judges on a small suite: seconds.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the whole grid as JSON.")
@force_option
@as_json
def validate(
    seeds: int,
    draws: int,
    iccs: tuple[float, ...],
    seed: int,
    workers: int | None,
    quick: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Test the tester: do the intervals hold, on simulated judges and tasks with known rates?

    Judges: bias and coverage of every estimator. Tasks: coverage and mean width of the clustered interval of a share,
    the former one (old) beside the present one (new), for 10 to 30 tasks of 2, 4 and 12 calls, rates from .005 to .5
    (those over .5 are their mirror) and tasks that differ by an intraclass correlation of 0 to .6; 2 and 4 calls by
    exact sums, 12 by simulation. Replicates: a judge without noise, asked five times, must read the same.

    Fails (exit code 1) when a 95 % interval covers the truth less than 93 % of the time, or a plain one more than
    97.5 %, by three standard errors of the simulation. The result depends on the seed, never on the workers.

    Example: jrh validate --quick
    """
    from jrh_mlflow.errors import GateError
    from jrh_mlflow.evaluation import validate as validation
    from jrh_mlflow.stats import coverage
    from jrh_mlflow.suites import datasheet_suite

    if output:
        check_free(output, force=force)
    seeds, draws = (min(seeds, 20), min(draws, 5)) if quick else (seeds, draws)
    if 0 < seeds < 20:
        raise click.UsageError("--seeds must be at least 20: coverage from fewer says nothing.")
    suite = datasheet_suite(n_tasks=10, depth=3) if quick else datasheet_suite()
    with validation.worker_map(workers or (1 if quick else os.cpu_count() or 1)) as apply:
        checks = validation.validate(n_seeds=seeds, suite=suite, seed=seed, apply=_shown(apply, "judges"))
        cells = validation.check_intervals(
            n_tasks=coverage.N_TASKS[:1] if quick else coverage.N_TASKS,
            iccs=iccs or coverage.ICCS,
            draws=draws,
            seed=seed,
            apply=_shown(apply, "intervals"),
        )
    moved = validation.moved_by_replicates(suite)
    facts = {"seed": seed, "estimators": checks, "intervals": cells, "moved_by_replicates": moved}
    text = json.dumps(facts, default=asdict)
    if output:
        output.write_text(text + "\n", encoding="utf-8")
    if as_json:
        click.echo(text)
    else:
        _print_checks(checks)
        _print_cells(cells)
        click.echo(f"Five replicates of one answer: {sum(moved.values())} of {len(moved)} clustered intervals move.")
    failures = validation.failures(checks, cells, moved)
    if failures:
        raise GateError(f"{len(failures)} interval(s) miss their promise, first {failures[0]}.")


def _shown(apply: Map, unit: str) -> Map:
    """Return the same map with a progress bar over its items."""
    from jrh_mlflow.progress import progress_bar

    def shown(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterable[Any]:
        results = apply(function, items)
        yield from progress_bar(results, total=len(items), name=unit, unit="it", leave=False)

    return shown


def _print_checks(checks: Sequence[Check]) -> None:
    from jrh_mlflow.evaluation.validate import summary

    if not checks:
        return
    rows = [[format(getattr(check, name), how) for name, how in _COLUMNS.items()] for check in checks]
    print_table(["estimator", *list(_COLUMNS)[1:]], rows)
    click.echo(f"\n{checks[0].n_seeds} simulated judges per design: {summary(checks)}\n")


def _print_cells(cells: Sequence[Cell]) -> None:
    """Print a row per design and ICC: the least coverage over the rates, and the mean width."""
    rows: dict[tuple[int, int, float], list[Cell]] = {}
    for cell in cells:
        rows.setdefault((cell.n_tasks, cell.n_calls, cell.truth.icc), []).append(cell)
    header = ["tasks × calls", "ICC", "coverage: old", "new", "at rate", "shapes: old", "new", "any rate: old", "new"]
    header += ["q or 1", "under", "over", "± s.e.", "width: old", "new"]
    print_table(header, [_row(row) for row in rows.values()])
    click.echo(_LEGEND)
    drawn = {f"{cell.n_tasks} × {cell.n_calls}: {cell.n_draws:,} draws": None for cell in cells if cell.n_draws}
    judged = [cell for cell in cells if cell.judged]
    least = min(judged, key=lambda cell: cell.new.coverage)
    failing = sum(cell.fails for cell in judged)
    click.echo(f"{len(judged):,} cells, {failing} under 93 %; exact but for {', '.join(drawn) or 'none'}.")
    click.echo(f"Least coverage {least.new.coverage:.3f} ± {least.new.error:.3f}: {least}.")


_LEGEND = """
Intervals of nominal 95 %; old: Wilson on the effective n, new: its hull with a beta-binomial posterior interval.
coverage, width: the least, and the mean, over seven rates from .005 to .5 (rates over .5 are their mirror), tasks
beta-distributed. shapes: the least where tasks are all-or-none, or have a rate of 0 or q. any rate: the least of these
and of the rate just over the upper end of no success, in exact designs also of rates in small steps. New only: q or 1
is not judged (docs/statistics.md); under, over: the largest share of intervals wholly under or over the truth.
"""


def _row(cells: Sequence[Cell]) -> list[str]:
    from jrh_mlflow.stats.coverage import RATES

    judged = [cell for cell in cells if cell.judged]
    listed = [cell for cell in cells if cell.truth.rate in RATES]
    beta = [cell for cell in listed if cell.truth.shape == "beta"]
    shapes = [cell for cell in listed if cell.judged and cell.truth.shape != "beta"]
    first = min(beta, key=lambda cell: cell.new.coverage)
    seen = [cell for cell in listed if cell.judged]
    return [
        f"{first.n_tasks} × {first.n_calls}",
        f"{first.truth.icc:g}",
        *_least(beta),
        f"{first.truth.rate:g}",
        *_least(shapes),
        *_least(judged),
        _least([cell for cell in cells if not cell.judged])[1],
        f"{max(cell.new.too_low for cell in seen):.3f}",
        f"{max(cell.new.too_high for cell in seen):.3f}",
        f"{max(cell.new.error for cell in seen):.3f}",
        *(f"{mean(widths):.3f}" for widths in zip(*((cell.old.width, cell.new.width) for cell in beta), strict=True)),
    ]


def _least(cells: Sequence[Cell]) -> list[str]:
    """Least coverage of the old and of the new interval."""
    if not cells:
        return ["", ""]
    return [
        f"{min(each):.3f}" for each in zip(*((cell.old.coverage, cell.new.coverage) for cell in cells), strict=True)
    ]
