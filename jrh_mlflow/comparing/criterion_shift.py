"""`jrh.criterion_shift`: one judge under several tie criteria, as a parent run with one child per criterion.

A tie criterion moves a judge along its curve of false preference on equal pairs against sensitivity one step apart. A
prompt that changes how well it can see, and not only when it commits, lies off the curve of the others: its
d' = z(H) − z(F) differs, with H the share choosing the better content at the smallest ladder step, F the share of
preferences on pairs of equal quality, both as (k + 1/2) / (n + 1). Sweeps draw these points and curves, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression
from scipy.special import ndtri

from jrh_mlflow.comparing.comparison import MARGIN
from jrh_mlflow.comparing.recommendation import (
    COIN,
    against,
    closing_section,
    named_judges,
    says,
    short_name,
    tasks_for,
)
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import Judge
from jrh_mlflow.measures.axes import AXES, EXPECTED, declared, headline_axes, task_counts
from jrh_mlflow.measures.behind import has_calls
from jrh_mlflow.measures.records import call_table, is_pointwise, normalise
from jrh_mlflow.measuring.evaluate import dry_prepared, evaluate
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.measuring.measured import JudgeFacts
from jrh_mlflow.measuring.resolve import prepare
from jrh_mlflow.measuring.run_page import SIMULATED_NOTE
from jrh_mlflow.options import Metrics, checked_metrics
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, plain_data
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.schema.presentation import Criterion
from jrh_mlflow.scoring.ledger import difference_bounds, estimate_difference
from jrh_mlflow.show import numbers
from jrh_mlflow.show.cards import ShownResult, brief_run
from jrh_mlflow.show.figures.canvas import plotted
from jrh_mlflow.show.figures.datasheet import datasheet_figures, operating_points
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.show.html import FROM_RUN
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.page import Drawing, Page, Section
from jrh_mlflow.show.readings import brief_readings, reading_columns
from jrh_mlflow.show.tables import Cell, Column, Table, reading_cell
from jrh_mlflow.stats import Array, Interval
from jrh_mlflow.stats.bootstrap import percentile_interval, resampled_sums
from jrh_mlflow.stats.proportions import cluster_interval, mean_replicates, share_correlation
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.outbox import outbox_key
from jrh_mlflow.tracking.runs.store import RunContent, Store, axes_table, open_run, publish, shown_content, table_tags

if TYPE_CHECKING:
    from jrh_mlflow.show.figures.canvas import Figure

_ABOUT = (
    "The shift of the tie rate is ΔC. A criterion that lowers false preference on equal pairs usually raises misses by "
    "tie on unequal ones: it moves the operating point, not the resolution."
)
_SHIFT = "criterion_shift/"
_JSON = "criterion_shift.json"
"""Artifacts of its run."""
_CRITERION = "tie_rate/delta_0_same"
"""The criterion C itself: its shift is what a change of the criterion is named by."""


_ABLE, _INVENTED, _MISSED = "ability", "raw_false_preference", "miss_by_tie/delta_1"
"""What decides between criteria, and what one costs."""
_RESAMPLES = 2000
_LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class CriterionShift(ShownResult):
    """How a judge moves when its tie criterion does."""

    run_id: str
    """Of the parent run."""
    arms: dict[str, Evaluation]
    """Criterion to its evaluation; the first is the base."""
    shifts: dict[str, Reading]
    """`<criterion>/<axis>` to the difference against the base arm: `strict/tie_rate/delta_0_same` is ΔC."""
    metrics: dict[str, float]
    """Every shift by its key."""
    logged: dict[str, float]
    """Those that are metrics of the parent run: the headline, or all."""
    link: str

    def _page(self, **served: Any) -> Page:
        first = next(iter(self.arms.values())).judge
        notes = [SIMULATED_NOTE] if first.simulated else []
        return shift_page(_sheets(self.arms), self.shifts, judge=first.label, notes=notes, **served)

    @property
    def verdict(self) -> Verdict:
        """Which criterion to use, and what it costs."""
        return shift_verdict(_sheets(self.arms), self.shifts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        own = {"run_id": self.run_id, "link": self.link, "arms": {name: arm.run_id for name, arm in self.arms.items()}}
        return {"verdict": self.verdict.to_dict(), **own, "shifts": plain_data(self.shifts), "metrics": self.metrics}

    def __repr__(self) -> str:
        arms = " → ".join(map(brief_name, self.arms))
        by_arm = _by_arm(self.arms, self.shifts)
        moved = {
            axis_name(axis) if len(by_arm) == 1 else f"{arm}: {axis_name(axis)}": shift
            for arm, shifts in by_arm.items()
            for axis, shift in shifts.items()
        }
        shifts = brief_readings(moved, signed=True)
        return f"CriterionShift({brief_name(self._judge)}, {arms}: {shifts}, {brief_run(self.run_id)})"

    def _card(self) -> dict[str, Any]:
        first = next(iter(self.arms.values()))
        notes = [f"{name}: {note}" if arm.truncated else note for name, arm in self.arms.items() for note in arm.notes]
        return {
            "notes": [*dict.fromkeys(notes), *numbers.bounds_note(self.shifts.values())],
            "facts": {"suite": first.suite.name} | {f"cost, {name}": arm.cost_text for name, arm in self.arms.items()},
        }

    @property
    def _judge(self) -> str:
        return next(iter(self.arms.values())).judge.label

    def to_frame(self) -> pd.DataFrame:
        """Return one row per criterion and axis: how far it moved, with n and interval, or why that is not known."""
        rows = [
            {"criterion": arm, "axis": axis, **reading_columns(shift)}
            for arm, shifts in _by_arm(self.arms, self.shifts).items()
            for axis, shift in shifts.items()
        ]
        frame: pd.DataFrame = pd.DataFrame(rows)
        return frame

    def plot(self, kind: str | None = None) -> Figure:
        """Draw the operating points of the arms, or another figure by its name: `psychometric_curve`, …."""
        return plotted(_figures(self.arms), kind)


def criterion_shift(
    judge: object,
    suite: Suite | str | Path | None = None,
    *,
    criteria: Sequence[str | Criterion] = ("allowed", "strict"),
    experiment: str | None = None,
    run_name: str | None = None,
    tracking_uri: str | None = None,
    max_usd: float | None = None,
    tags: Mapping[str, str] | None = None,
    metrics: Metrics = "headline",
    texts: bool = True,
    **as_evaluate: Any,
) -> CriterionShift:
    """Measure a judge under each criterion on the same suite; the first criterion is the base.

    Each arm measures the whole datasheet, its own vacuum included. A callable finds the criterion's text in
    `presentation.rubric` and the answers it allows in `presentation.answers`. `max_usd` covers all arms together;
    the other arguments are those of `evaluate`.
    """
    metrics = checked_metrics(metrics)
    if len(criteria) < 2:
        raise RecipeError(f"A shift needs at least two criteria, but got {list(criteria)}.")
    base = prepare(judge, suite, experiment=experiment, tracking_uri=tracking_uri)
    arms = [base.judge.with_criterion(spec) for spec in criteria]
    names = [arm.tie_criterion.name for arm in arms]
    if len(set(names)) < len(names):
        raise RecipeError(f"The criteria of a shift must differ, but got {', '.join(names)}.")
    # All arms before the first call: a second one that cannot run would waste the first.
    for arm in arms:
        dry_prepared(arm, base.suite, **as_evaluate).check_ready()
    facts, store = JudgeFacts.of(arms[0]), Store(tracking_uri, experiment)
    name = run_name or f"{facts.label}: criterion shift"
    with open_run(store, "criterion_shift", name, simulated=facts.simulated, tags=tags) as parent:
        where: dict[str, Any] = {"experiment": experiment, "tracking_uri": tracking_uri, "tags": tags}
        where |= {"parent_run_id": parent, "texts": texts}
        evaluations = _evaluate_arms(arms, base.suite, max_usd=max_usd, metrics=metrics, **where, **as_evaluate)
        shifts = criterion_axes(_sheets(evaluations), calls={name: arm.calls for name, arm in evaluations.items()})
        done = CriterionShift(
            run_id=parent,
            arms=evaluations,
            shifts=shifts,
            metrics=keys.last_values(keys.all_points(shift_readings(shifts))),
            logged={},
            link=store.link(parent),
        )
        # Settings may hold a rubric, which is a text.
        content = _content(done, facts if texts else facts.without_texts(), base.suite, metrics=metrics)
        logged = publish(store, parent, content, what_now="The arms are logged; the parent is not.")
    return replace(done, logged=logged)


def _evaluate_arms(
    arms: Sequence[Judge], suite: Suite, *, max_usd: float | None, **as_evaluate: Any
) -> dict[str, Evaluation]:
    """Evaluate one arm after the other, all on one budget of the journal: what a call may have cost counts as well."""
    # The same arms again continue the same budget; other ones must not share it.
    identity = (*(arm.fingerprint() for arm in arms), suite.sha256, as_evaluate.get("replicates", 1))
    as_evaluate = {"budget": outbox_key("shift", *identity), "max_usd": max_usd, **as_evaluate}
    return {arm.tie_criterion.name: evaluate(arm, suite, run_name=_arm_name(arm), **as_evaluate) for arm in arms}


def _arm_name(arm: Judge) -> str:
    """Name the run of an arm by judge and criterion; a judge that has no name of its own has it in its name already."""
    label, criterion = JudgeFacts.of(arm).label, arm.tie_criterion.name
    return label if criterion in label.split() else f"{label}: {criterion}"


def _content(done: CriterionShift, facts: JudgeFacts, suite: Suite, *, metrics: Metrics) -> RunContent:
    readings, drawings = shift_readings(done.shifts), draw(_figures(done.arms))
    return shown_content(
        done,
        _JSON,
        points=keys.all_points(readings) if metrics == "all" else keys.value_points(headline_shifts(readings)),
        params={"judge": {**facts.settings, "tie_criterion": ", ".join(done.arms)}, "suite": keys.suite_facts(suite)},
        tags=table_tags(keys.AXES_TABLE),
        page=done._page(drawings=drawings, runs={name: arm.run_id for name, arm in done.arms.items() if arm.run_id}),
        drawings=drawings,
        more={keys.AXES_TABLE: axes_table(readings)},
        suite=suite,
        # The runs of the arms keep it.
        save_suite=False,
    )


def _figures(arms: Mapping[str, Evaluation]) -> dict[str, Figure]:
    """Draw the arms as operating points first, then side by side as judges are."""
    sheets = _sheets(arms)
    segment = operating_points(sheets, judge=next(iter(arms.values())).judge.label)
    return {**({} if segment is None else {"operating_points.png": segment}), **datasheet_figures(sheets)}


def _sheets(arms: Mapping[str, Evaluation]) -> dict[str, Mapping[str, Reading]]:
    return {name: arm.datasheet.estimates for name, arm in arms.items()}


def _by_arm(arms: Iterable[str], shifts: Mapping[str, Reading]) -> dict[str, dict[str, Reading]]:
    """Return the shifts of each criterion but the first by their axis."""
    _, *others = arms
    return {
        arm: {key.removeprefix(f"{arm}/"): shift for key, shift in shifts.items() if key.startswith(f"{arm}/")}
        for arm in others
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class ShiftRow:
    """An axis under the base criterion and under another."""

    axis: str
    before: Reading | None
    after: Reading | None
    shift: Reading


def shift_table(base: str, arm: str, runs: Mapping[str, str] = MappingProxyType({})) -> Table[ShiftRow]:
    """Declare what is shown of the shift from one criterion to another; readings of `runs` lead to their calls."""

    def calls(of: str, row: ShiftRow) -> str | None:
        return FROM_RUN.calls(runs[of], axis=row.axis) if of in runs and has_calls(row.axis) else None

    def column(of: str, reading: Callable[[ShiftRow], Reading | None]) -> Column[ShiftRow]:
        return Column(
            of,
            lambda row: _value_cell(reading(row)),
            exact=lambda row: numbers.value_text(reading(row)),
            link=partial(calls, of),
        )

    return Table.of(
        Column("axis", lambda row: axis_name(row.axis)),
        column(base, lambda row: row.before),
        column(arm, lambda row: row.after),
        Column("shift", _moved_text),
        Column("95 % by task", lambda row: numbers.interval_text(*_ends(row.shift))),
        Column("n", lambda row: _size_text(row.shift)),
    )


def _size_text(shift: Reading) -> str:
    """Write on how many units a shift stands: `120 calls`."""
    return f"{shift.n:,} {shift.unit}{'' if shift.n == 1 else 's'}" if isinstance(shift, Estimate) else "–"


def _value_cell(reading: Reading | None) -> Cell:
    if reading is None or not isinstance(reading, Estimate):
        return Cell(numbers.reading_text(reading))
    return reading_cell(reading, numbers.value_text(reading))


def _moved_text(row: ShiftRow) -> str:
    shift = row.shift
    return numbers.number_text(shift.value, signed=True) if isinstance(shift, Estimate) else numbers.missing_text(shift)


def _ends(shift: Reading | None) -> tuple[float | None, float | None]:
    """Return the interval by task of a shift; no ends where it has no number."""
    return numbers.source_ends(shift) if isinstance(shift, Estimate) else (None, None)


def shift_page(
    sheets: Mapping[str, Mapping[str, Reading]],
    shifts: Mapping[str, Reading],
    *,
    judge: str,
    notes: Sequence[str] = (),
    drawings: Sequence[Drawing] = (),
    runs: Mapping[str, str] = MappingProxyType({}),
) -> Page:
    """Return each axis under the base criterion and under the others, and how far it moved.

    Args:
        sheets: Criterion to the estimates of its datasheet; the first is the base.
        shifts: `<criterion>/<axis>` to the difference against the base.
        judge: Whose criterion it is.
        notes: What to know first.
        drawings: Its figures.
        runs: Criterion to its run, where the page leads to their calls.
    """
    base = next(iter(sheets))
    rows = {
        arm: [
            ShiftRow(axis=axis, before=sheets[base].get(axis), after=sheets[arm].get(axis), shift=shift)
            for axis, shift in own.items()
            if numbers.is_shown(shift)
        ]
        for arm, own in _by_arm(sheets, shifts).items()
    }
    sections = [
        Section(heading=f"{base} to {arm}", blocks=[shift_table(base, arm, runs)(listed)])
        for arm, listed in rows.items()
    ]
    sections.append(Section(heading="Figures", blocks=[drawings], media=("html",)))
    about = Section(
        heading="How to read it",
        blocks=[_ABOUT, *(line for line in numbers.bounds_note(shifts.values()) if line)],
        media=("html", "markdown"),
        always=True,
    )
    verdict = shift_verdict(sheets, shifts).sentences
    return Page(
        title=f"Criterion shift: {judge}",
        lead=verdict[0],
        sentences=verdict[1:],
        notes=notes,
        sections=[*sections, about, closing_section(verdict[0])],
    )


def shift_verdict(sheets: Mapping[str, Mapping[str, Reading]], shifts: Mapping[str, Reading]) -> Verdict:
    """Say which criterion to use and what it costs.

    Ability decides first, then preferences between equally good answers; misses by tie are what it costs. What is told
    apart is what the interval by task of a shift says.

    Args:
        sheets: Criterion to the estimates of its datasheet; the first is the base.
        shifts: `<criterion>/<axis>` to the difference against the base.
    """
    base, *others = sheets
    moved = {arm: {axis: _told(shifts.get(f"{arm}/{axis}")) for axis in (_ABLE, _INVENTED, _MISSED)} for arm in others}
    # Fewer invented preferences are good: the sign of their shift is turned.
    gain = {arm: told[_ABLE] or -told[_INVENTED] for arm, told in moved.items()}
    able = [reading for sheet in sheets.values() if isinstance(reading := sheet.get(_ABLE), Estimate)]
    if able and all((numbers.source_ends(reading)[0] or 0.0) <= COIN for reading in able):
        does = says(_ABLE, numbers.reading_text(max(able, key=lambda reading: reading.value)))
        first = f"Use none of these criteria: under none is the judge shown to beat a coin; at best it {does}"
        return Verdict(sentences=(f"{first} (a tie counts half).",))
    best = max(others, key=lambda arm: (gain[arm], moved[arm][_ABLE], -_value(sheets[arm].get(_INVENTED))))
    if gain[best] > 0:
        return Verdict(sentences=tuple(_use(best, base, sheets, moved[best], sign=1)))
    worst = min(others, key=lambda arm: gain[arm])
    if all(gain[arm] < 0 for arm in others):
        return Verdict(sentences=tuple(_use(base, worst, sheets, moved[worst], sign=-1)))
    alike = [arm for arm in others if not gain[arm]]
    shift = shifts.get(f"{alike[0]}/{_INVENTED}")
    tasks = tasks_for(MARGIN, *_ends(shift), shift.n_clusters or 0) if isinstance(shift, Estimate) else None
    more = f", and about {tasks:,} tasks would show a difference of {MARGIN:.2f}" if tasks else ""
    lines = [f"No difference is shown between {named_judges([base, *alike])}: keep {short_name(base)}{more}."]
    if all(isinstance(sheets[arm].get(_INVENTED), Estimate) for arm in (base, alike[0])):
        compared = against(_INVENTED, sheets[base][_INVENTED], sheets[alike[0]][_INVENTED], alike[0])
        lines.append(f"With {short_name(base)} the judge {compared}.")
    return Verdict(sentences=tuple(lines))


def _use(
    name: str, other: str, sheets: Mapping[str, Mapping[str, Reading]], told: Mapping[str, int], *, sign: int
) -> list[str]:
    """Name the criterion to use, why, and what it costs; `sign` turns shifts that were measured the other way."""

    def compared(axis: str) -> str:
        return against(axis, sheets[name][axis], sheets[other][axis], other)

    able, invented, missed = (sign * told[axis] for axis in (_ABLE, _INVENTED, _MISSED))
    lines = [f"Use {short_name(name)}: with it the judge {compared(_ABLE if able > 0 else _INVENTED)}."]
    if invented > 0:
        lines.append(f"But it {compared(_INVENTED)}.")
    if not all(isinstance(sheets[arm].get(_MISSED), Estimate) for arm in (name, other)):
        return lines
    cost = {
        1: "What that costs: it",
        0: "It is not shown to miss more real differences: it",
        -1: "It misses fewer real differences: it",
    }
    return [*lines, f"{cost[missed]} {compared(_MISSED)}."]


def _told(shift: Reading | None) -> int:
    """Return the direction of a shift whose interval by task excludes 0; 0 where it does not, or there is none."""
    low, high = _ends(shift)
    return 0 if low is None or high is None or low <= 0 <= high else 1 if low > 0 else -1


def _value(reading: Reading | None) -> float:
    return reading.value if isinstance(reading, Estimate) else math.inf


def shift_readings(shifts: Mapping[str, Reading]) -> dict[str, Reading]:
    """Spell the shifts of criterion arms: `criterion_shift/strict/tie_rate/delta_0_same`."""
    return {f"{_SHIFT}{axis}": reading for axis, reading in shifts.items()}


def headline_shifts(shifts: Mapping[str, Reading]) -> dict[str, Reading]:
    """Return the shifts that MLflow gets by default: of the criterion, and of what is headline of a datasheet."""
    ends = tuple(f"/{axis}" for axis in (_CRITERION, *headline_axes()))
    return {axis: reading for axis, reading in shifts.items() if axis.endswith(ends)}


@dataclass(frozen=True, kw_only=True)
class OperatingPoint:
    """One judge under one prompt and one criterion."""

    judge: str
    prompt: str
    criterion: str
    tasks: tuple[str, ...]
    counts: Array
    """Tasks × 4: preferences and calls on equal pairs, right choices and calls one step apart."""
    replicates: tuple[float, float] = (1.0, 1.0)
    """Calls per presentation, of equal pairs and one step apart."""

    @property
    def false_preference(self) -> float:
        """Share of usable calls on equal pairs that are not a tie."""
        return float(self.counts[:, 0].sum() / self.counts[:, 1].sum())

    @property
    def sensitivity(self) -> float:
        """Share of usable calls one step apart that choose the better content."""
        return float(self.counts[:, 2].sum() / self.counts[:, 3].sum())

    @property
    def d_prime(self) -> float:
        """Resolution at this point."""
        return float(_d_primes(self.counts.sum(axis=0)[None, :])[0])

    @property
    def intervals(self) -> tuple[Interval | None, Interval | None]:
        """95 % by task of false preference and sensitivity."""
        # Replicates of a presentation tell little more than one call: the interval counts them as one.
        false, hits = (self.counts[:, at : at + 2].T / n for at, n in zip((0, 2), self.replicates, strict=True))
        return cluster_interval(*false), cluster_interval(*hits)


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolutionShift:
    """A prompt against the other prompts of its judge, under the criteria that both have."""

    judge: str
    prompt: str
    value: float
    """Mean d' of the prompt minus mean d' of the others."""
    low: float | None
    high: float | None
    criteria: tuple[str, ...]

    @property
    def off(self) -> bool:
        """Whether the prompt lies off the curve of the others."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def operating_counts(calls: pd.DataFrame) -> dict[str, Any] | None:
    """Count what an operating point needs, by task, JSON-ready; None for pointwise calls or without both conditions."""
    frame = normalise(calls)
    if is_pointwise(frame):
        return None
    table = call_table(frame)
    columns: list[Array] = []
    replicates = []
    for axis in (declared("raw_false_preference"), declared("target_sensitivity/delta_1")):
        # Of a ladder the smallest step.
        own = next(iter(axis.where(table.condition, table.delta).values()), np.zeros(len(frame), bool)) & table.usable
        if axis.hits is None or not own.any():
            return None
        columns += task_counts(table, own, axis.hits)
        replicates.append(mean_replicates(table.presentation[own]))
    counts = np.column_stack(columns).astype(int)
    return {"tasks": sorted(set(frame["task"])), "counts": counts.tolist(), "replicates": replicates}


def operating_point(data: Mapping[str, Any], *, judge: str, prompt: str, criterion: str) -> OperatingPoint:
    """Read what `operating_counts` returned."""
    equal, step = data.get("replicates", (1.0, 1.0))
    return OperatingPoint(
        judge=judge,
        prompt=prompt,
        criterion=criterion,
        tasks=tuple(data["tasks"]),
        counts=np.array(data["counts"], float),
        replicates=(equal, step),
    )


def curve(points: Sequence[OperatingPoint]) -> list[tuple[float, float]]:
    """Return the rising curve of best fit through a judge's points: isotone in false preference, (0, 0) first."""
    ordered = sorted(points, key=lambda point: (point.false_preference, point.sensitivity))
    # More false preference comes with more sensitivity, never with less: noise may not bend the curve back.
    fitted = isotonic_regression([point.sensitivity for point in ordered]).x
    drawn = [(point.false_preference, float(y)) for point, y in zip(ordered, fitted, strict=True)]
    return [(0.0, 0.0), *drawn]


def resolution_shifts(points: Sequence[OperatingPoint], *, seed: int = 0) -> list[ResolutionShift]:
    """Compare each prompt with the others of its judge; intervals hold for all comparisons together (Bonferroni)."""
    sides_of = [
        sides
        for judge, prompt in dict.fromkeys((point.judge, point.prompt) for point in points)
        if (sides := _sides([point for point in points if point.judge == judge], prompt))
    ]
    # Every prompt is compared with the others, and any of them may lie off by luck.
    level = 1 - (1 - _LEVEL) / max(1, len(sides_of))
    return [_shift(own, others, level=level, seed=seed) for own, others in sides_of]


def _sides(points: Sequence[OperatingPoint], prompt: str) -> tuple[list[OperatingPoint], list[OperatingPoint]] | None:
    """Split a judge's points into those of a prompt and of the others, under the criteria that both have."""
    own = [point for point in points if point.prompt == prompt]
    others = [point for point in points if point.prompt != prompt]
    shared = {point.criterion for point in own} & {point.criterion for point in others}
    own, others = ([point for point in side if point.criterion in shared] for side in (own, others))
    # A resample draws the same tasks for all points, so that all must have the same tasks.
    return (own, others) if shared and len({point.tasks for point in (*own, *others)}) == 1 else None


def _shift(
    own: Sequence[OperatingPoint], others: Sequence[OperatingPoint], *, level: float, seed: int
) -> ResolutionShift:
    # All points side by side, so that a resample draws the same tasks for each of them.
    sums = np.hstack([point.counts for point in (*own, *others)])
    # Criteria weigh the same on both sides, however many prompts have one.
    shares = {name: [point.criterion for point in others].count(name) for name in {point.criterion for point in own}}
    weights = [1 / len(own)] * len(own) + [-1 / (len(shares) * shares[point.criterion]) for point in others]

    def gaps(block: Array) -> Array:
        d_primes = np.column_stack([_d_primes(block[:, at : at + 4]) for at in range(0, block.shape[1], 4)])
        difference: Array = d_primes @ np.array(weights)
        return difference

    blocks = resampled_sums(sums, n_resamples=_RESAMPLES, seed=seed)
    values = np.concatenate([gaps(block) for block in blocks])
    low, high = percentile_interval(values, n_clusters=len(sums), level=level) or (None, None)
    return ResolutionShift(
        judge=own[0].judge,
        prompt=own[0].prompt,
        value=float(gaps(sums.sum(axis=0)[None, :])[0]),
        low=low,
        high=high,
        criteria=tuple(sorted(shares)),
    )


def _d_primes(sums: Array) -> Array:
    """D' of rows of false preferences, equal calls, right choices, step calls."""
    # Half a call on either side keeps z finite at shares of 0 and 1.
    false = (sums[:, 0] + 0.5) / (sums[:, 1] + 1)
    hits = (sums[:, 2] + 0.5) / (sums[:, 3] + 1)
    values: Array = ndtri(hits) - ndtri(false)
    return values


def criterion_axes(
    arms: Mapping[str, Mapping[str, Reading]], *, calls: Mapping[str, pd.DataFrame] | None = None
) -> dict[str, Reading]:
    """Return `<criterion>/<axis>` to `arm - base` for ties (ΔC), false preference, sensitivity and misses.

    Args:
        arms: Criterion to the readings under it; the first is the base.
        calls: Criterion to call records. Every arm asks about the same tasks: with them, intervals by task take into
            account how the arms go together over the tasks.
    """
    (base_name, base), *others = arms.items()
    counts = {name: _task_counts(records) for name, records in (calls or {}).items()}
    return {
        f"{name}/{axis}": difference(before, estimates[axis], correlation=_correlation(counts, base_name, name, axis))
        for name, estimates in others
        for axis, before in base.items()
        if axis in estimates and not axis.startswith(EXPECTED) and declared(axis).shifted
    }


def _task_counts(calls: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return every axis that shifts to its hits and usable calls, by task."""
    frame = normalise(calls)
    table, tasks = call_table(frame), sorted(set(frame["task"]))
    return {
        key: pd.DataFrame(dict(zip(("hits", "n"), task_counts(table, own, axis.hits), strict=True)), index=tasks)
        for axis in AXES
        if axis.shifted and axis.hits
        for key, own in axis.where(table.condition, table.delta).items()
    }


def _correlation(counts: Mapping[str, Mapping[str, pd.DataFrame]], base: str, name: str, axis: str) -> float | None:
    """Correlation of an axis under two criteria over the tasks; None where it was not counted."""
    both = [counts.get(arm, {}).get(axis) for arm in (base, name)]
    if both[0] is None or both[1] is None:
        return None
    # A task that only one arm was asked has 0 of 0 calls in the other.
    before, after = both[0].align(both[1], fill_value=0.0)
    return share_correlation(*(arm[column].to_numpy(float) for arm in (before, after) for column in ("hits", "n")))


def difference(before: Reading, after: Reading, *, correlation: float | None = None) -> Reading:
    """Return `after - before` of two shares, with intervals from theirs (Newcombe), or why there is none.

    Args:
        before: Of the base.
        after: Of the other arm.
        correlation: Of the two shares over the tasks, for the interval by task; none is used when None.
    """
    for arm, reading in (("base arm", before), ("other arm", after)):
        if isinstance(reading, NotEstimable):
            # Only lost calls leave bounds; what was never asked could be anything.
            bounds = difference_bounds(after, before) if reading.withheld else None
            return NotEstimable(
                reason=f"{arm}: {reading.reason}", withheld=reading.withheld, statistic="value", bounds=bounds
            )
    assert isinstance(before, Estimate)
    assert isinstance(after, Estimate)
    paired = "" if correlation is None else ", paired by task"
    method = f"Newcombe difference of the intervals{paired}"
    estimate = estimate_difference(before, after, method=method, correlation=correlation or 0.0)
    return replace(estimate, statistic="value")
