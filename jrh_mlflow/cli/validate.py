"""`jrh validate`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import click

from jrh_mlflow.cli.options import as_json, force_option
from jrh_mlflow.cli.printing import print_table
from jrh_mlflow.outputs import check_free

if TYPE_CHECKING:
    from jrh_mlflow.simulations.coverage import Cell
    from jrh_mlflow.simulations.decision_checks import DecisionCheck
    from jrh_mlflow.simulations.validate import Check, Map
    from jrh_mlflow.simulations.validate_alignment import SplitCheck
    from jrh_mlflow.simulations.validate_corrected import CorrectionCheck
    from jrh_mlflow.suites import Suite

_COLUMNS = {"axis": "", "design": "", "interval": "", "truth": ".3f", "bias": "+.4f", "coverage": ".3f", "verdict": ""}
"""Field of a check to how it is printed; the axis is called its estimator."""
_CORRECTED = {
    "scenario": ("scenario", ""),
    "bias": ("bias", "+.4f"),
    "coverage": ("coverage", ".3f"),
    "width": ("width", ".3f"),
    "naive_coverage": ("naive", ".3f"),
    "people_coverage": ("people", ".3f"),
    "people_width": ("their width", ".3f"),
    "refused": ("refused", ".3f"),
    "verdict": ("verdict", ""),
}
"""Field of a check to its heading, and to how it is printed."""
_PARTS = ("judges", "intervals", "agreement", "corrected", "alignment", "decisions")
"""What is simulated; all but the second by seeds."""
_DRAWS_PER_SEED = 20
"""Corrected rates and decisions are quick to draw: so many for one simulated judge."""
_SPLITS = 400


@click.command()
@click.option(
    "--seeds",
    type=click.IntRange(0),
    default=500,
    show_default=True,
    help="Simulated judges per design, samples of people's labels, and a twentieth of the corrected rates; 0: none.",
)
@click.option(
    "--draws",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    help="Simulations per cell of 12 calls per task; 0: none.",
)
@click.option("--only", "parts", multiple=True, type=click.Choice(_PARTS), help="This part, or these [all].")
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
    parts: tuple[str, ...],
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

    Agreement: bias and coverage of agreement with people, and how often the alternative annotator test errs. Corrected:
    bias, coverage and width of corrected rates, beside the judge's own mean. Alignment: what is said of optimisers of
    known worth. Decisions: how often judges are told apart, gated, passed or stopped falsely, and how often rightly.

    Fails (exit code 1) when a 95 % interval covers the truth less than 93 % of the time, or a plain one more than
    97.5 %, or a decision errs more often than promised, by three standard errors of the simulation. The result depends
    on the seed, never on the workers.

    Example: jrh validate --quick
    """
    from jrh_mlflow.errors import GateError
    from jrh_mlflow.simulations import validate as validation

    if output:
        check_free(output, force=force)
    seeds, draws = (min(seeds, 20), min(draws, 5)) if quick else (seeds, draws)
    if 0 < seeds < 20:
        raise click.UsageError("--seeds must be at least 20: coverage from fewer says nothing.")
    with validation.worker_map(workers or (1 if quick else os.cpu_count() or 1)) as apply:
        asked = tuple(part for part in parts or _PARTS if seeds or part == "intervals")
        found = _run(_Size(seeds=seeds, draws=draws, iccs=iccs, seed=seed, quick=quick, parts=asked), apply)
    facts = {"seed": seed, **found.facts}
    text = json.dumps(facts, default=asdict)
    if output:
        output.write_text(text + "\n", encoding="utf-8")
    if as_json:
        click.echo(text)
    else:
        found.show()
    if found.failures:
        raise GateError(f"{len(found.failures)} check(s) miss their promise, first {found.failures[0]}.")


@dataclass(frozen=True, kw_only=True)
class _Size:
    """How much is simulated."""

    seeds: int
    draws: int
    iccs: tuple[float, ...]
    seed: int
    quick: bool
    parts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Found:
    """All rows by part, empty where it did not run."""

    checks: Sequence[Check] = ()
    cells: Sequence[Cell] = ()
    moved: Mapping[str, bool] = field(default_factory=dict)
    agreement: Sequence[Check] = ()
    corrected: Sequence[CorrectionCheck] = ()
    alignment: Sequence[SplitCheck] = ()
    decisions: Sequence[DecisionCheck] = ()

    @property
    def facts(self) -> dict[str, object]:
        """What is written as JSON."""
        return {
            "estimators": self.checks,
            "intervals": self.cells,
            "moved_by_replicates": self.moved,
            "agreement": self.agreement,
            "corrected": self.corrected,
            "alignment": self.alignment,
            "decisions": self.decisions,
        }

    @property
    def failures(self) -> list[str]:
        """What misses its promise."""
        from jrh_mlflow.simulations.validate import failures

        people = [f"{check.scenario}: {check.verdict}" for check in self.corrected if check.fails]
        people += [str(check) for check in self.alignment if check.fails]
        people += [str(check) for check in self.decisions if check.fails]
        return failures([*self.checks, *self.agreement], self.cells, self.moved) + people

    def show(self) -> None:
        """Print a table per part."""
        _print_checks(self.checks, "judges")
        if self.cells:
            _print_cells(self.cells)
        if self.moved:
            moved = sum(self.moved.values())
            click.echo(f"Five replicates of one answer: {moved} of {len(self.moved)} clustered intervals move.\n")
        _print_checks(self.agreement, "samples")
        _print_corrected(self.corrected)
        _print_alignment(self.alignment)
        _print_decisions(self.decisions)


def _run(size: _Size, apply: Map) -> _Found:
    found: dict[str, Any] = {}
    for part in size.parts:
        found |= _RUN[part](size, _shown(apply, part))
    return _Found(**found)


def _judges(size: _Size, apply: Map) -> dict[str, Any]:
    from jrh_mlflow.simulations.validate import validate

    return {"checks": validate(n_seeds=size.seeds, suite=_suite(size), seed=size.seed, apply=apply)}


def _intervals(size: _Size, apply: Map) -> dict[str, Any]:
    from jrh_mlflow.simulations import coverage
    from jrh_mlflow.simulations.validate import check_intervals, moved_by_replicates

    n_tasks = coverage.N_TASKS[:1] if size.quick else coverage.N_TASKS
    iccs = size.iccs or coverage.ICCS
    cells = check_intervals(n_tasks=n_tasks, iccs=iccs, draws=size.draws, seed=size.seed, apply=apply)
    return {"cells": cells, "moved": moved_by_replicates(_suite(size))}


def _suite(size: _Size) -> Suite:
    from jrh_mlflow.suites import datasheet_suite

    return datasheet_suite(n_tasks=10, depth=3) if size.quick else datasheet_suite()


def _agreement(size: _Size, apply: Map) -> dict[str, Any]:
    from jrh_mlflow.simulations.validate_agreement import DESIGNS, validate_agreement

    designs = DESIGNS[:1] if size.quick else DESIGNS
    return {"agreement": validate_agreement(n_seeds=size.seeds, designs=designs, seed=size.seed, apply=apply)}


def _corrected(size: _Size, apply: Map) -> dict[str, Any]:
    from jrh_mlflow.simulations.validate_corrected import SCENARIOS, STATED, validate_corrected

    n_draws = size.seeds * (_DRAWS_PER_SEED // 5 if size.quick else _DRAWS_PER_SEED)
    scenarios = STATED if size.quick else SCENARIOS
    return {"corrected": validate_corrected(n_draws=n_draws, scenarios=scenarios, seed=size.seed, apply=apply)}


def _alignment(size: _Size, _: Map) -> dict[str, Any]:
    from jrh_mlflow.simulations.validate_alignment import check_alignment

    traces = (200,) if size.quick else (100, 200, 400)
    return {"alignment": check_alignment(splits=_SPLITS, traces=traces, seed=size.seed)}


def _decisions(size: _Size, apply: Map) -> dict[str, Any]:
    from jrh_mlflow.simulations.validate_decisions import validate_decisions

    n = size.seeds * (_DRAWS_PER_SEED // 2 if size.quick else _DRAWS_PER_SEED)
    return {"decisions": validate_decisions(n=n, seed=size.seed, quick=size.quick, apply=apply)}


_RUN: dict[str, Callable[[_Size, Map], dict[str, Any]]] = {
    "judges": _judges,
    "intervals": _intervals,
    "agreement": _agreement,
    "corrected": _corrected,
    "alignment": _alignment,
    "decisions": _decisions,
}


def _shown(apply: Map, unit: str) -> Map:
    """Return the same map with a progress bar over its items."""
    from jrh_mlflow.progress import progress_bar

    def shown(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterable[Any]:
        results = apply(function, items)
        yield from progress_bar(results, total=len(items), name=unit, unit="it", leave=False)

    return shown


def _print_checks(checks: Sequence[Check], drawn: str) -> None:
    from jrh_mlflow.simulations.validate import summary

    if not checks:
        return
    rows = [[format(getattr(check, name), how) for name, how in _COLUMNS.items()] for check in checks]
    print_table(["estimator", *list(_COLUMNS)[1:]], rows)
    click.echo(f"\n{checks[0].n_seeds} simulated {drawn} per design: {summary(checks)}\n")


def _print_corrected(checks: Sequence[CorrectionCheck]) -> None:
    if not checks:
        return
    rows = [
        ["" if (value := getattr(check, name)) is None else format(value, how) for name, (_, how) in _CORRECTED.items()]
        for check in checks
    ]
    print_table([heading for heading, _ in _CORRECTED.values()], rows)
    click.echo(_CORRECTED_LEGEND.format(n=checks[0].n_draws))


_CORRECTED_LEGEND = """
Corrected rates, {n:,} draws per scenario. naive: coverage of the judge's own mean; people: of the labels alone,
where they are a random sample. Labels are taken out of the items unless they are from elsewhere, which the estimate is
not told. refused: share of draws in which the judge may know nothing, so that people alone are read, or nothing.
"""


def _print_alignment(checks: Sequence[SplitCheck]) -> None:
    if not checks:
        return
    said = list(checks[0].shares)
    rows = [
        [
            check.optimiser,
            f"{check.accuracy:g}",
            str(check.held_out),
            f"{check.in_training:+.3f}",
            f"{check.truth:+.3f}",
            *(f"{check.shares[word]:.3f}" for word in said),
            "FAILS" if check.fails else "ok",
        ]
        for check in checks
    ]
    print_table(["optimiser", "judge", "held out", "in training", "held-out truth", *said, "verdict"], rows)
    click.echo(f"\n{checks[0].splits} simulated splits per row: how often each was said.\n")


def _print_decisions(checks: Sequence[DecisionCheck]) -> None:
    """Print a table per kind of decision, with a column for every number beside."""
    kinds: dict[str, list[DecisionCheck]] = {}
    for check in checks:
        kinds.setdefault(check.name, []).append(check)
    for name, own in kinds.items():
        beside = list(dict.fromkeys(key for check in own for key in check.beside))
        rows = [
            [
                check.design,
                f"{check.measured:.3f}",
                f"{check.error:.3f}",
                *(f"{check.beside[key]:.3f}" if key in check.beside else "" for key in beside),
                check.promise,
                f"{check.n:,}",
                check.verdict,
            ]
            for check in own
        ]
        print_table([name, "measured", "± s.e.", *beside, "promise", "runs", "verdict"], rows)
        click.echo("")


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
    from jrh_mlflow.simulations.coverage import RATES

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
