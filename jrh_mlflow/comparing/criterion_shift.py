"""`jrh.criterion_shift`: one judge under several tie criteria, as a parent run with one child per criterion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from jrh_mlflow.comparing.criterion import criterion_axes
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import Judge
from jrh_mlflow.measures.axes import headline_axes
from jrh_mlflow.measuring.evaluate import dry_prepared, evaluate
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.measuring.measured import JudgeFacts
from jrh_mlflow.measuring.resolve import prepare
from jrh_mlflow.measuring.run_page import SIMULATED_NOTE, evaluation_notes
from jrh_mlflow.options import Metrics, checked_metrics
from jrh_mlflow.schema.criteria import Criterion
from jrh_mlflow.schema.estimates import Estimate, Reading, plain_data
from jrh_mlflow.show.cards import Card, CardTable, brief_run
from jrh_mlflow.show.figures.canvas import plotted
from jrh_mlflow.show.figures.datasheet import datasheet_figures, operating_points
from jrh_mlflow.show.figures.svg import figure_files
from jrh_mlflow.show.markdown import table
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import (
    bounds_note,
    interval_text,
    is_shown,
    missing_text,
    reading_text,
    short_interval,
    source_ends,
    value_text,
)
from jrh_mlflow.show.plain_text import aligned, line_text
from jrh_mlflow.show.readings import brief_readings, page_row, reading_columns
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.outbox import outbox_key
from jrh_mlflow.tracking.runs.store import RunContent, Store, axes_table, open_run, publish, table_tags

if TYPE_CHECKING:
    from jrh_mlflow.show.figures.canvas import Figure

_SHIFT = "criterion_shift/"
_CRITERION = "tie_rate/delta_0_same"
"""The criterion C itself: its shift is what a change of the criterion is named by."""


@dataclass(frozen=True, kw_only=True)
class CriterionShift:
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

    def to_markdown(self) -> str:
        """Return the shift as a readable page."""
        return _markdown(self.arms, self.shifts)

    def __repr__(self) -> str:
        arms = " → ".join(map(brief_name, self.arms))
        by_arm = _by_arm(self.arms, self.shifts)
        moved = {
            axis_name(axis) if len(by_arm) == 1 else f"{arm}: {axis_name(axis)}": shift
            for arm, shifts in by_arm.items()
            for axis, shift in shifts.items()
        }
        told = brief_readings(moved, signed=True)
        return f"CriterionShift({brief_name(self._judge)}, {arms}: {told}, {brief_run(self.run_id)})"

    def _repr_html_(self) -> str:
        base, first = next(iter(self.arms.items()))
        sheets = {name: one.datasheet.estimates for name, one in self.arms.items()}
        by_arm = _by_arm(self.arms, self.shifts)
        notes = [
            f"{name}: {note}" if one.truncated else note
            for name, one in self.arms.items()
            for note in evaluation_notes(one.judge, one.calls, truncated=one.truncated, stopped=one.stopped)
        ]
        return Card(
            title=f"Criterion shift: {self._judge}",
            tables=[shift_table(base, arm, sheets, shifts) for arm, shifts in by_arm.items()],
            notes=[*dict.fromkeys(notes), *bounds_note(self.shifts.values())],
            facts={
                "suite": first.suite.name,
                **{f"cost, {name}": one.cost_text for name, one in self.arms.items()},
            },
            links=[self.link],
        ).to_html()

    @property
    def _judge(self) -> str:
        return next(iter(self.arms.values())).judge.label

    def to_frame(self) -> pd.DataFrame:
        """Return one row per criterion and axis: how far it moved, with n and interval, or why that is not known."""
        return shifts_frame(_by_arm(self.arms, self.shifts))

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
    base = prepare(judge, suite, experiment=experiment, tracking_uri=tracking_uri, dry=True)
    arms = [base.judge.with_criterion(spec) for spec in criteria]
    names = [arm.tie_criterion.name for arm in arms]
    if len(set(names)) < len(names):
        raise RecipeError(f"The criteria of a shift must differ, but got {', '.join(names)}.")
    for arm in arms:
        dry_prepared(arm, base.suite, **as_evaluate).check_ready()
    facts, store = JudgeFacts.of(arms[0]), Store(tracking_uri, experiment)
    name = run_name or f"{facts.label}: criterion shift"
    with open_run(store, "criterion_shift", name, simulated=facts.simulated, tags=tags) as parent:
        where: dict[str, Any] = {"experiment": experiment, "tracking_uri": tracking_uri, "tags": tags}
        where |= {"parent_run_id": parent, "texts": texts}
        evaluations = _evaluate_arms(arms, base.suite, max_usd=max_usd, metrics=metrics, **where, **as_evaluate)
        shifts = criterion_axes(
            {name: one.datasheet.estimates for name, one in evaluations.items()},
            calls={name: one.calls for name, one in evaluations.items()},
        )
        judge_facts = facts if texts else facts.without_texts()
        content = _content(judge_facts, base.suite, evaluations, shifts, metrics=metrics)
        logged = publish(store, parent, content, what_now="The arms are logged; the parent is not.")
    return CriterionShift(
        run_id=parent,
        arms=evaluations,
        shifts=shifts,
        metrics=_numbers(shifts),
        logged=logged,
        link=store.link(parent),
    )


def _evaluate_arms(
    arms: Sequence[Judge], suite: Suite, *, max_usd: float | None, **as_evaluate: Any
) -> dict[str, Evaluation]:
    """Evaluate one arm after the other, all on one budget of the journal: what a call may have cost counts as well."""
    identity = (*(arm.fingerprint() for arm in arms), suite.sha256, as_evaluate.get("replicates", 1))
    as_evaluate = {"budget": outbox_key("shift", *identity), "max_usd": max_usd, **as_evaluate}
    return {arm.tie_criterion.name: evaluate(arm, suite, run_name=_arm_name(arm), **as_evaluate) for arm in arms}


def _arm_name(arm: Judge) -> str:
    """Name the run of an arm by judge and criterion; a judge that has no name of its own has it in its name already."""
    label, criterion = JudgeFacts.of(arm).label, arm.tie_criterion.name
    return label if criterion in label.split() else f"{label}: {criterion}"


def _numbers(shifts: Mapping[str, Reading]) -> dict[str, float]:
    return keys.last_values(keys.all_points(shift_readings(shifts)))


def _content(
    facts: JudgeFacts,
    suite: Suite,
    arms: Mapping[str, Evaluation],
    shifts: Mapping[str, Reading],
    *,
    metrics: Metrics,
) -> RunContent:
    readings = shift_readings(shifts)
    markdown = _markdown(arms, shifts)
    return RunContent(
        points=keys.all_points(readings) if metrics == "all" else keys.value_points(headline_shifts(readings)),
        params={"judge": {**facts.settings, "tie_criterion": ", ".join(arms)}, "suite": keys.suite_facts(suite)},
        description=markdown,
        described_in=keys.SHIFT_MARKDOWN,
        tags=table_tags(keys.AXES_TABLE),
        artifacts={
            keys.SHIFT_JSON: {"shifts": plain_data(shifts), "metrics": _numbers(shifts)},
            keys.SHIFT_MARKDOWN: markdown,
            keys.AXES_TABLE: axes_table(readings),
            **figure_files(_figures(arms)),
        },
        suite=suite,
        save_suite=False,
    )


def _figures(arms: Mapping[str, Evaluation]) -> dict[str, Figure]:
    """Draw the arms as operating points first, then side by side as judges are."""
    sheets = {name: one.datasheet.estimates for name, one in arms.items()}
    segment = operating_points(sheets, judge=next(iter(arms.values())).judge.label)
    return {**({} if segment is None else {"operating_points.png": segment}), **datasheet_figures(sheets)}


def _markdown(arms: Mapping[str, Evaluation], shifts: Mapping[str, Reading]) -> str:
    base = next(iter(arms))
    lines = [f"# Criterion shift: {line_text(arms[base].judge.label)}", ""]
    if arms[base].judge.simulated:
        lines += [f"> {SIMULATED_NOTE}", ""]
    for arm, own in _by_arm(arms, shifts).items():
        header = ["axis", line_text(base), line_text(arm), "shift", "95 % by task", "n"]
        lines += [f"### {line_text(f'{base} to {arm}')}", "", *table(header, _rows(arms[base], arms[arm], own)), ""]
    lines += [
        "The shift of the tie rate is ΔC. A criterion that lowers false preference on equal pairs usually raises "
        "misses by tie on unequal ones: it moves the operating point, not the resolution.",
        "",
        *bounds_note(shifts.values()),
    ]
    return "\n".join(lines)


def _by_arm(arms: Iterable[str], shifts: Mapping[str, Reading]) -> dict[str, dict[str, Reading]]:
    """Return the shifts of each criterion but the first by their axis."""
    _, *others = arms
    return {
        arm: {key.removeprefix(f"{arm}/"): shift for key, shift in shifts.items() if key.startswith(f"{arm}/")}
        for arm in others
    }


def _rows(before: Evaluation, after: Evaluation, shifts: Mapping[str, Reading]) -> list[list[str]]:
    return [
        [
            line_text(axis_name(axis)),
            value_text(before.datasheet.estimates[axis]),
            value_text(after.datasheet.estimates[axis]),
            *_shift_cells(shift),
        ]
        for axis, shift in shifts.items()
        if is_shown(shift)
    ]


def _shift_cells(shift: Reading) -> list[str]:
    """Write a shift with interval and n, or the bounds of a withheld one."""
    if not isinstance(shift, Estimate):
        return [missing_text(shift), "–", "–"]
    return [f"{shift.value:+.4f}", interval_text(shift.cluster_low, shift.cluster_high), str(shift.n)]


def shifts_frame(shifts: Mapping[str, Mapping[str, Reading]]) -> pd.DataFrame:
    """Return one row per criterion and axis."""
    frame: pd.DataFrame = pd.DataFrame(
        [
            {"criterion": arm, "axis": axis, **reading_columns(reading)}
            for arm, readings in shifts.items()
            for axis, reading in readings.items()
        ]
    )
    return frame


def shift_lines(base: str, arms: Mapping[str, Mapping[str, Reading]], shifts: Mapping[str, Reading]) -> list[str]:
    """Show each axis under the base criterion and under the others, and how far it moved.

    Args:
        base: Name of the first criterion.
        arms: Criterion to the estimates of its datasheet.
        shifts: `<criterion>/<axis>` to the difference against the base.
    """
    lines: list[str] = []
    for arm in [name for name in arms if name != base]:
        own = {key.removeprefix(f"{arm}/"): one for key, one in shifts.items() if key.startswith(f"{arm}/")}
        rows = [
            [
                axis_name(axis),
                _short_value(arms[base].get(axis)),
                _short_value(arms[arm].get(axis)),
                *_brief_shift(shift),
            ]
            for axis, shift in own.items()
            if is_shown(shift)
        ]
        lines += [*([""] if lines else []), *aligned(["axis", base, arm, "shift [95 % by task]", "n"], rows)]
    return lines


def _brief_shift(shift: Reading) -> list[str]:
    if not isinstance(shift, Estimate):
        return [reading_text(shift), "–"]
    return [f"{shift.value:+.3f} {short_interval(*source_ends(shift))}", _units_text(shift)]


def _units_text(shift: Estimate) -> str:
    return f"{shift.n:,} {shift.unit}{'' if shift.n == 1 else 's'}"


def _short_value(reading: Reading | None) -> str:
    return f"{reading.value:.3f}" if isinstance(reading, Estimate) else reading_text(reading)


def shift_table(
    base: str, arm: str, sheets: Mapping[str, Mapping[str, Reading]], shifts: Mapping[str, Reading]
) -> CardTable:
    """Show each axis under the base criterion and another, and how far it moved."""
    rows = []
    for axis, shift in shifts.items():
        if is_shown(shift):
            row = page_row(axis, shift)
            moved = f"{shift.value:+.3f}" if isinstance(shift, Estimate) else row.value
            before, after = (_plain(sheets[name].get(axis)) for name in (base, arm))
            rows.append([axis_name(axis), before, after, moved, row.interval, row.n])
    return CardTable(header=["axis", base, arm, "shift", "95 % by task", "n"], rows=rows)


def _plain(reading: Reading | None) -> str:
    return f"{reading.value:.3f}" if isinstance(reading, Estimate) else missing_text(reading)


def shift_readings(shifts: Mapping[str, Reading]) -> dict[str, Reading]:
    """Spell the shifts of criterion arms: `criterion_shift/strict/tie_rate/delta_0_same`."""
    return {f"{_SHIFT}{axis}": reading for axis, reading in shifts.items()}


def headline_shifts(shifts: Mapping[str, Reading]) -> dict[str, Reading]:
    """Return the shifts that MLflow gets by default: of the criterion, and of what is headline of a datasheet."""
    ends = tuple(f"/{axis}" for axis in (_CRITERION, *headline_axes()))
    return {axis: reading for axis, reading in shifts.items() if axis.endswith(ends)}
