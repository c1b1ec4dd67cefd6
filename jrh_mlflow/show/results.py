"""Datasheets and reliability reports: `measure`, what it returns, and the same readings by category."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from jrh_mlflow.errors import RecipeError, check_known
from jrh_mlflow.measures import datasheet, reliability
from jrh_mlflow.measures.axes import headline_axes
from jrh_mlflow.measures.confidence import confidence_axes
from jrh_mlflow.measures.reason_conflict import reason_axes
from jrh_mlflow.measures.records import call_table, has_steps, is_pointwise, normalise, outcome_counts
from jrh_mlflow.measures.single_responses import response_table
from jrh_mlflow.measures.variation import scored_pairs, scored_responses, variance_axes
from jrh_mlflow.measures.verdict import JudgeContext, WithVerdict
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals, plain_fields, read_reading
from jrh_mlflow.schema.findings import Finding, Verdict
from jrh_mlflow.schema.items import BASELINE, NATURAL, NATURAL_TIE, PAPER, PROTOCOL, Answers
from jrh_mlflow.scoring.ledger import FEW_CLUSTERS, MAX_EXCLUDED, Resampling, interval_method
from jrh_mlflow.scoring.metric import DEFAULT, Metric, find_metric
from jrh_mlflow.scoring.pointwise import point_table
from jrh_mlflow.show.cards import Card, finding_notes, missing_notes
from jrh_mlflow.show.figures.canvas import plotted
from jrh_mlflow.show.figures.datasheet import datasheet_figures, variation
from jrh_mlflow.show.figures.reliability import score_chart
from jrh_mlflow.show.numbers import interval_text
from jrh_mlflow.show.readings import brief_readings, brief_sheet, readings_frame
from jrh_mlflow.show.sheets import sheet_markdown, summary_table
from jrh_mlflow.text import two_places

if TYPE_CHECKING:
    from jrh_mlflow.show.figures.canvas import Figure


class _Shown(WithVerdict):
    """What a datasheet and a report show in the same way."""

    title: ClassVar[str]
    cluster: ClassVar[str]
    """What intervals are taken over."""

    @property
    def withheld_readings(self) -> dict[str, NotEstimable]:
        """Axes left out because too many of their calls gave no usable answer, with their readings."""
        withheld = _withheld(self.estimates)
        for kind, groups in self.by_group.items():
            for name, axes in groups.items():
                withheld |= {f"{kind}/{name}/{axis}": reading for axis, reading in _withheld(axes).items()}
        return withheld

    @property
    def withheld(self) -> dict[str, str]:
        """The same axes, each with the reason."""
        return {axis: reading.reason for axis, reading in self.withheld_readings.items()}

    @property
    def ended(self) -> str:
        """How the calls ended, in words."""
        return ", ".join(f"{count:,} {outcome}" for outcome, count in self.outcomes.items() if count)

    @property
    def few_notes(self) -> list[str]:
        """That there are few tasks or sources, on which intervals are wide and rest on assumptions; else nothing."""
        readings = self.estimates.values()
        counts = [reading.n_clusters for reading in readings if isinstance(reading, Estimate) and reading.n_clusters]
        # By the axis with most clusters: where it has few, all have.
        if not counts or max(counts) >= FEW_CLUSTERS:
            return []
        few = f"{max(counts)} {self.cluster}s are few"
        return [f"{few}: intervals by {self.cluster} are wide (under {FEW_CLUSTERS})."]

    @property
    @abstractmethod
    def brief(self) -> str:
        """The readings that sum it up, in one line."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.brief}, {sum(self.outcomes.values()):,} calls)"

    def _repr_html_(self) -> str:
        return self.card(title=self.title).to_html()

    def card(
        self,
        *,
        title: str,
        facts: Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
        links: Sequence[str] = (),
    ) -> Card:
        """Return what a notebook shows: profile, readings, what is withheld, how the calls ended.

        `facts`, `notes` and `links` come from whoever logged it.
        """
        return Card(
            title=title,
            verdict=self.verdict.sentences,
            profile=self.profile,
            tables=[summary_table(self)],
            notes=[*notes, *finding_notes(self.verdict.findings), *missing_notes(self.estimates)],
            facts={"calls": f"{sum(self.outcomes.values()):,} ({self.ended})", **(facts or {})},
            links=links,
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per axis: its number with n and intervals, or why there is none."""
        return readings_frame(self.estimates)


@dataclass(frozen=True, kw_only=True, repr=False)
class Datasheet(_Shown):
    """What one judge reads on one suite."""

    paper_profile: str = ""
    """The same by the paper's own rule, Wilson intervals over calls; empty where there is none."""
    estimates: Mapping[str, Reading]
    """Axis to estimate, or to the reason why there is none."""
    categories: Mapping[str, Mapping[str, Reading]] = field(default_factory=dict)
    """Group of natural pairs to axis (`accuracy`, `stable_correct`, …) to reading; empty where pairs have no group."""
    title, cluster = "Judge datasheet", "task"

    @property
    def by_group(self) -> dict[str, Mapping[str, Mapping[str, Reading]]]:
        """What natural pairs read by group."""
        return {"category": self.categories}

    @property
    def headline(self) -> dict[str, Estimate]:
        """The few readings that judges are compared by first, where they have a number: MLflow gets them by default."""
        return _numbers(self.estimates, headline_axes())

    @property
    def brief(self) -> str:
        """The readings that sum it up, in one line."""
        return brief_sheet(self.estimates)

    def plot(self, kind: str | None = None, *, judge: str = "the judge") -> Figure:
        """Draw the psychometric curve, or another figure by its name: `axes_map`, `delta_0_decomposition`, …."""
        return plotted(datasheet_figures({judge: self.estimates}), kind)

    def to_markdown(self, *, title: str = "Judge datasheet", note: str | None = None) -> str:
        """Return the datasheet as a readable page."""
        return sheet_markdown(self, title=title, note=note)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data; each estimate says what would have been found."""
        data = _with_detectable(self)
        return data if self.categories else {name: value for name, value in data.items() if name != "categories"}


@dataclass(frozen=True, kw_only=True, repr=False)
class ReliabilityReport(reliability.ReliabilityReadings, _Shown):
    """What one pointwise judge reads on one reliability suite."""

    title, cluster = "Judge reliability", "source"

    @property
    def headline(self) -> dict[str, Estimate]:
        """The few readings that judges are compared by first, where they have a number: MLflow gets them by default."""
        return _numbers(self.estimates, reliability.headline_of_tests(self.tests, self.scores, self.metric))

    @property
    def withheld(self) -> dict[str, str]:
        """Axes left out because too many of their calls gave no usable answer, with the reason; also mean and least."""
        across = (metric_keys.RELIABILITY_MEAN, metric_keys.RELIABILITY_MIN) if self.mean_withheld else ()
        return {**super().withheld, **dict.fromkeys(across, self.mean_withheld)}

    @property
    def mean_score(self) -> Reading:
        """The mean over tests; it says nothing where a test is withheld, which it would leave out."""
        if self.mean_withheld:
            return NotEstimable(reason=self.mean_withheld, withheld=True)
        mean, low, high = (self.summary[name] for name in ("mean", "mean_ci_low", "mean_ci_high"))
        tests = [score for score in self.scores.values() if isinstance(score, Estimate)]
        if mean is None:
            return NotEstimable(reason="no test has a number")
        ends = [test.cluster_interval for test in tests if test.cluster_interval]
        if low is None and len(ends) == len(tests):
            # No resample differs: as wide as if all tests went up and down together.
            low, high = (float(end) for end in np.mean(ends, axis=0))
        n_clusters = max(test.n_clusters for test in tests)
        return Estimate(
            value=mean,
            n=sum(test.n for test in tests),
            excluded=sum(test.excluded for test in tests),
            **intervals(None, (low, high)),
            n_clusters=n_clusters,
            method=interval_method("mean over tests", n_clusters),
            unit="item",
        )

    @property
    def brief(self) -> str:
        """The mean over tests and the scores of the first tests, in one line."""
        mean, low, high = (self.summary[name] for name in ("mean", "mean_ci_low", "mean_ci_high"))
        over = f"{self.summary['n_tests']:g} of {len(self.scores)} tests"
        overall = "" if mean is None else f"mean {two_places(mean)} {interval_text(low, high)} over {over}, "
        withheld = f", {len(self.withheld_readings)} withheld" if self.withheld_readings else ""
        return overall + brief_readings(self._main) + withheld

    @property
    def _main(self) -> dict[str, Reading]:
        base = self.estimates.get(f"{BASELINE}/{self.metric}")
        return ({} if base is None else {BASELINE: base}) | dict(self.scores)

    def plot(self, kind: str | None = None, *, judge: str = "the judge") -> Figure:
        """Draw the score of each test with its interval, or with `variation` what the scores vary with."""
        figures = {
            "reliability.png": score_chart(self, judge=judge),
            "variation.png": variation({judge: self.estimates}),
        }
        return plotted({name: figure for name, figure in figures.items() if figure is not None}, kind)

    def to_markdown(
        self, *, title: str = "Reliability report", note: str | None = None, worst: Sequence[reliability.WorstItem] = ()
    ) -> str:
        """Return the report as a readable page."""
        return sheet_markdown(self, title=title, note=note, worst=worst)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data; each estimate says what would have been found."""
        data = _with_detectable(self)
        # `read_report` fills these in where a file has none.
        by_accuracy = ("metric", "lower_is_better") if self.metric == DEFAULT else ()
        left_out = {*by_accuracy, *(name for name in reliability.GROUP_FIELDS.values() if not data[name])}
        return {name: value for name, value in data.items() if name not in left_out}


Report = Datasheet | ReliabilityReport


def read_report(data: Mapping[str, Any]) -> Report:
    """Read what `to_dict` wrote."""

    def readings(own: Mapping[str, Any]) -> dict[str, Reading]:
        return {axis: read_reading(reading) for axis, reading in own.items()}

    shared: dict[str, Any] = {name: data[name] for name in ("profile", "outcomes", "max_excluded")}
    shared["estimates"] = readings(data["estimates"])
    shared |= {name: data[name] for name in ("paper_profile", "definitions") if name in data}
    shared["said"] = _said(data["verdict"], shared["estimates"]) if "verdict" in data else None
    for groups in reliability.GROUP_FIELDS.values():
        if groups in data:
            shared[groups] = {name: readings(own) for name, own in data[groups].items()}
    # No file says which of the two it is, but only reports have scores.
    if "scores" not in data:
        return Datasheet(**shared)
    scores, metric = readings(data["scores"]), data.get("metric", DEFAULT)
    return ReliabilityReport(
        **shared,
        labels=Answers(data["labels"]),
        tests=tuple(data["tests"]),
        summary=data["summary"],
        scores=scores,
        metric=metric,
        lower_is_better=data.get("lower_is_better", False),
    )


def _said(data: Mapping[str, Any], estimates: Mapping[str, Reading]) -> Verdict:
    found = [Finding(**finding, reading=estimates[finding["axis"]]) for finding in data["findings"]]
    return Verdict(sentences=tuple(data["sentences"]), findings=tuple(found))


def _with_detectable(sheet: Report) -> dict[str, Any]:
    """Return the fields of a sheet, each of its estimates with what it would have taken to be found."""
    data = plain_fields(replace(sheet, judged=JudgeContext(), said=None))
    # Files of the usual definitions are as they always were.
    for name in ("judged", "said", *(("definitions",) if sheet.definitions == PROTOCOL else ())):
        del data[name]
    data["verdict"] = sheet.verdict.to_dict()
    for axis, reading in sheet.estimates.items():
        if isinstance(reading, Estimate):
            data["estimates"][axis]["detectable"] = datasheet.detectable(reading)
    return data


def _numbers(estimates: Mapping[str, Reading], wanted: Iterable[str]) -> dict[str, Estimate]:
    """Return the readings of some axes that have a number."""
    known = {axis: estimates[axis] for axis in wanted if axis in estimates}
    return {axis: reading for axis, reading in known.items() if isinstance(reading, Estimate)}


def _withheld(estimates: Mapping[str, Reading]) -> dict[str, NotEstimable]:
    return {
        axis: reading for axis, reading in estimates.items() if isinstance(reading, NotEstimable) and reading.withheld
    }


def measure(
    calls: pd.DataFrame | Iterable[object],
    *,
    max_excluded: float = MAX_EXCLUDED,
    seed: int = 0,
    n_resamples: int = 1000,
    labels: Sequence[str] | None = None,
    ordinal: bool | None = None,
    metric: str | None = None,
    definitions: str = PROTOCOL,
    judged: JudgeContext | None = None,
) -> Datasheet | ReliabilityReport:
    """Measure call records: numbers in, numbers out, no MLflow and no network.

    Args:
        calls: One record per call with the columns of `schema.items.REQUIRED_COLUMNS`; others are ignored.
        max_excluded: Withhold an axis when more than this share of its calls gave no usable answer.
        seed: Of the bootstrap behind the intervals of thresholds and other values that are no shares.
        n_resamples: Of that bootstrap.
        labels: What a pointwise judge may answer, low to high, the label to be detected last; inferred when None. Those
            of a suite (`suite.labels`) say whether they are a scale.
        ordinal: Whether the labels are a scale; None: as the suite says, else three or more whole numbers are one.
        metric: What stands for reliability tests whose items carry the right answer, in place of accuracy: a function
            of sklearn.metrics that takes (expected, answer), or `matthews`, `kappa`, `kappa_quadratic`, `mae`, ….
        definitions: `"paper"` measures to the letter of the papers: replicates are scored by accuracy, and the profile
            goes by intervals over calls (`Datasheet.paper_profile`).
        judged: What the verdict must know of the judge: whether it was offered a tie, and how it is measured again.

    Returns:
        A `Datasheet` for pairs and for single responses of known level (conditions `pointwise_…`, the column `delta`
        holding the level), a `ReliabilityReport` for all other pointwise records.

    Raises:
        CallsError: when the records break a rule of the protocol.
    """
    if not 0 <= max_excluded < 1:
        raise ValueError(f"`0 <= max_excluded < 1` must hold, but got {max_excluded=}.")
    check_definitions(definitions, metric)
    frame = normalise(calls)
    if (labels is not None or ordinal is not None) and not is_pointwise(frame):
        raise ValueError("`labels` and `ordinal` are about pointwise records, but these are of pairs.")
    if ordinal is not None:
        labels = Answers(labels or (), ordinal=ordinal, meanings=getattr(labels, "meanings", None))
    chosen = find_metric(metric)
    if chosen is not None and (has_steps(frame) or not is_pointwise(frame)):
        raise ValueError("`metric` is that of reliability tests, but these records are of none.")
    resampling = Resampling(seed=seed, n_resamples=n_resamples)
    sheet = measured(
        frame,
        labels=labels,
        max_excluded=max_excluded,
        resampling=resampling,
        metric=chosen,
        definitions=definitions,
    )
    return sheet if judged is None else replace(sheet, judged=judged)


def check_definitions(definitions: str, metric: str | None = None) -> None:
    """Refuse definitions that are not known, and a metric of one's own beside those of the papers.

    Raises:
        RecipeError: saying which are known, or what to leave out.
    """
    check_known("definitions", definitions, (PROTOCOL, PAPER))
    if definitions == PAPER and metric not in (None, DEFAULT):
        raise RecipeError(f"The paper scores tests by accuracy: leave out `metric` ({metric}) or `definitions`.")


def measured(
    frame: pd.DataFrame,
    *,
    labels: Sequence[str] | None,
    max_excluded: float,
    resampling: Resampling,
    metric: Metric | None = None,
    definitions: str = PROTOCOL,
) -> Report:
    """Measure normalised records; pairs have no labels."""
    # First, because single responses of known level are pointwise as well.
    if has_steps(frame):
        levels = response_table(frame, labels=labels, max_excluded=max_excluded)
        found = datasheet.response_axes(levels) | reason_axes(frame, labels=labels, max_excluded=max_excluded)
        found |= variance_axes(scored_responses(levels))
        profile, outcomes = datasheet.response_profile(found, levels.scale), outcome_counts(frame)
        return Datasheet(
            estimates=found, outcomes=outcomes, profile=profile, max_excluded=max_excluded, definitions=definitions
        )
    if is_pointwise(frame):
        readings = reliability.reliability_readings(
            frame,
            labels=labels,
            max_excluded=max_excluded,
            resampling=resampling,
            metric=metric,
            definitions=definitions,
        )
        # `asdict` would turn the readings inside into plain dicts as well.
        return ReliabilityReport(**vars(readings))
    # First, and then the table of the others: of a million calls each is a good part of the memory.
    reasons = reason_axes(frame, max_excluded=max_excluded)
    confidence = confidence_axes(frame, max_excluded=max_excluded, resampling=resampling)
    table = call_table(frame, max_excluded=max_excluded)
    estimates = datasheet.datasheet_axes(table, resampling) | confidence | reasons
    estimates |= variance_axes(scored_pairs(table))
    by_calls = datasheet.profile_line(datasheet.by_call(estimates), datasheet.preference_kinds(table, by_call=True))
    return Datasheet(
        estimates=estimates,
        outcomes=outcome_counts(frame),
        profile=by_calls
        if definitions == PAPER
        else datasheet.profile_line(estimates, datasheet.preference_kinds(table)),
        paper_profile=by_calls,
        max_excluded=max_excluded,
        definitions=definitions,
    )


def by_category(
    calls: pd.DataFrame | Iterable[object],
    groups: Mapping[str, str],
    *,
    labels: Sequence[str] | None = None,
    max_excluded: float = MAX_EXCLUDED,
    seed: int = 0,
    n_resamples: int = 1000,
) -> dict[str, dict[str, Reading]]:
    """Measure the calls on the items of each group: all tests pooled, or the baselines where there is no test.

    Of pairs the natural ones are measured: real responses of a benchmark have groups.

    Args:
        calls: Call records of a pointwise judge, as for `measure`.
        groups: Item id to its group; calls on items without one are in no category.
        labels: What the judge may answer, the label to be detected last; inferred from all calls when None.
        max_excluded: As for `measure`, in each group by itself.
        seed: Of the bootstrap behind the intervals of values that are no shares.
        n_resamples: Of that bootstrap.

    Returns:
        Group, in order of name, to axis (`accuracy`, `error_rate`; of two labels `fpr`, `fnr`, `matthews`; of a scale
        `mae`, `within_one`, …; of natural pairs `accuracy`, `stable_correct`, `positional`, …) to reading.
    """
    frame = normalise(calls)
    if not groups or (is_pointwise(frame) and has_steps(frame)):
        return {}
    if not is_pointwise(frame):
        own = frame["suite_item"].map(groups).where(frame["condition"].isin((NATURAL, NATURAL_TIE)))
        tables = {name: call_table(frame[own == name], max_excluded=max_excluded) for name in sorted(set(own.dropna()))}
        resampling = Resampling(seed=seed, n_resamples=n_resamples)
        return {name: _natural(datasheet.datasheet_axes(table, resampling)) for name, table in tables.items()}
    names = np.array([groups.get(item, "") for item in sorted(set(frame["suite_item"]))], dtype=object)
    table = point_table(frame, labels=labels, max_excluded=max_excluded)
    # Items are coded in order of their ids.
    return reliability.grouped_readings(table, names[table.item], Resampling(seed=seed, n_resamples=n_resamples))


def _natural(estimates: Mapping[str, Reading]) -> dict[str, Reading]:
    """Return the axes of natural pairs by what they count."""
    prefix = f"{NATURAL}/"
    return {axis.removeprefix(prefix): reading for axis, reading in estimates.items() if axis.startswith(prefix)}


def categorised(report: Report, calls: pd.DataFrame, groups: Mapping[str, str], *, seed: int = 0) -> Report:
    """Return a sheet with its categories, where its items have groups."""
    if not groups:
        return report
    labels = None if isinstance(report, Datasheet) else report.labels
    categories = by_category(calls, groups, labels=labels, max_excluded=report.max_excluded, seed=seed)
    return replace(report, categories=categories)
