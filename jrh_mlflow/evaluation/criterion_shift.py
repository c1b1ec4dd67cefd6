"""`jrh.criterion_shift`: one judge under several tie criteria, as a parent run with one child per criterion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import BudgetError, RecipeError
from jrh_mlflow.evaluation.evaluate import Evaluation, evaluate
from jrh_mlflow.evaluation.run_content import SIMULATED_NOTE
from jrh_mlflow.measures.criterion import criterion_axes
from jrh_mlflow.reports.figures.canvas import figure_files
from jrh_mlflow.reports.figures.datasheet import datasheet_figures, operating_points
from jrh_mlflow.reports.markdown import table
from jrh_mlflow.reports.numbers import interval_text, value_text
from jrh_mlflow.resolve import prepare
from jrh_mlflow.schema.criteria import Criterion
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking import keys
from jrh_mlflow.tracking.outbox import JudgeFacts
from jrh_mlflow.tracking.publish import RunContent, open_run, publish
from jrh_mlflow.tracking.store import Store


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
    """What the parent run logged."""
    link: str

    def to_markdown(self) -> str:
        """Return the shift as a readable page."""
        return _markdown(self.arms, self.shifts)


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
    **as_evaluate: Any,
) -> CriterionShift:
    """Measure a judge under each criterion on the same suite; the first criterion is the base.

    Each arm measures the whole datasheet, its own vacuum included. A callable finds the criterion's text in
    `presentation.rubric` and the answers it allows in `presentation.answers`. `max_usd` covers all arms together;
    the other arguments are those of `evaluate`.
    """
    if len(criteria) < 2:
        raise RecipeError(f"A shift needs at least two criteria, but got {list(criteria)}.")
    base = prepare(judge, suite, tracking_uri=tracking_uri, dry=True)
    arms = [base.judge.with_criterion(spec) for spec in criteria]
    names = [arm.tie_criterion.name for arm in arms]
    if len(set(names)) < len(names):
        raise RecipeError(f"The criteria of a shift must differ, but got {', '.join(names)}.")
    facts = JudgeFacts.of(arms[0])
    store = Store(tracking_uri, experiment)
    name = run_name or f"{facts.label}: criterion shift"
    with open_run(store, "criterion_shift", name, simulated=facts.simulated, tags=tags) as parent:
        evaluations: dict[str, Evaluation] = {}
        for arm in arms:
            spent = sum(one.cost_usd or 0.0 for one in evaluations.values())
            if max_usd is not None and 0 < max_usd <= spent:
                raise BudgetError(f"The first {len(evaluations)} of {len(arms)} arms spent the cap of ${max_usd}.")
            evaluations[arm.tie_criterion.name] = evaluate(
                arm,
                base.suite,
                experiment=experiment,
                run_name=f"{JudgeFacts.of(arm).label}: {arm.tie_criterion.name}",
                tracking_uri=tracking_uri,
                max_usd=None if max_usd is None else max_usd - spent,
                tags=tags,
                parent_run_id=parent,
                **as_evaluate,
            )
        shifts = criterion_axes({name: one.datasheet.estimates for name, one in evaluations.items()})
        content = _content(facts, base.suite, evaluations, shifts)
        metrics = publish(store, parent, content, what_now="The arms are logged; the parent is not.")
    return CriterionShift(run_id=parent, arms=evaluations, shifts=shifts, metrics=metrics, link=store.link(parent))


def _content(
    facts: JudgeFacts, suite: Suite, arms: Mapping[str, Evaluation], shifts: Mapping[str, Reading]
) -> RunContent:
    markdown = _markdown(arms, shifts)
    sheets = {name: one.datasheet.estimates for name, one in arms.items()}
    figures = datasheet_figures(sheets)
    segment = operating_points(sheets, judge=facts.label)
    if segment is not None:
        figures["operating_points.png"] = segment
    return RunContent(
        points=[point for axis, reading in shifts.items() for point in keys.shift_points(axis, reading)],
        params={"judge": {**facts.settings, "tie_criterion": ", ".join(arms)}, "suite": keys.suite_facts(suite)},
        description=markdown,
        described_in=keys.SHIFT_MARKDOWN,
        artifacts={keys.SHIFT_MARKDOWN: markdown, **figure_files(figures)},
        suite=suite,
    )


def _markdown(arms: Mapping[str, Evaluation], shifts: Mapping[str, Reading]) -> str:
    base = next(iter(arms.values()))
    lines = [f"# Criterion shift: {base.judge.label}", ""]
    if base.judge.simulated:
        lines += [f"> {SIMULATED_NOTE}", ""]
    names = list(arms)
    for arm in names[1:]:
        rows = []
        for key, shift in shifts.items():
            name, _, axis = key.partition("/")
            if name != arm or not isinstance(shift, Estimate):
                continue
            before, after = (arms[one].datasheet.estimates[axis] for one in (names[0], arm))
            if isinstance(before, Estimate) and isinstance(after, Estimate):
                rows.append(
                    [
                        axis,
                        value_text(before),
                        value_text(after),
                        f"{shift.value:+.4f}",
                        interval_text(shift.cluster_low, shift.cluster_high),
                        str(shift.n),
                    ]
                )
        header = ["axis", names[0], arm, "shift", "95 % by task", "n"]
        lines += [f"### {names[0]} to {arm}", "", *table(header, rows), ""]
    lines += [
        "The shift of `tie_rate` is ΔC. A criterion that lowers false preference on equal pairs usually raises misses "
        "by tie on unequal ones: it moves the operating point, not the resolution.",
        "",
    ]
    return "\n".join(lines)
