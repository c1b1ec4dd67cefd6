"""Judges side by side on the units they share: scores of single units, paired differences, and what is told apart.

A score is 1 or 0, and each unit has a name that all judges share:

| records | axis | unit | score is 1 when |
|---|---|---|---|
| pointwise | the test, or `baseline` | item and replicate, item, or source | as the test's expectation says |
| single responses | every `comparable` axis | two contents, call or item | `measures.levels`; also in fractions |
| pairs | every `comparable` axis | call | it is a hit of the axis, which is the bad end where lower is better |

The mean score of an axis is its number in the judge's own report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from jrh_mlflow.measures import axes
from jrh_mlflow.measures.levels import level_table
from jrh_mlflow.measures.records import call_table, has_levels, is_pointwise
from jrh_mlflow.measures.reliability import scored_tests
from jrh_mlflow.schema.estimates import NotEstimable, Reading, plain_fields
from jrh_mlflow.schema.items import BASELINE, VACUUM
from jrh_mlflow.scoring.ledger import FEW_CLUSTERS, Resampling, mean_of_shares
from jrh_mlflow.scoring.metric import Metric, cells_of, scorer, within_reason
from jrh_mlflow.scoring.pointwise import Counted, PointTable, point_table
from jrh_mlflow.stats import Array, Codes, Interval, Texts
from jrh_mlflow.stats.paired import cluster_sign_p, holm, paired_difference
from jrh_mlflow.stats.proportions import cluster_interval, collapse_replicates, newcombe, share_correlation

COLUMNS = ("axis", "unit", "presentation", "cluster", "score")


def unit_scores(calls: pd.DataFrame, *, labels: Sequence[str] | None = None) -> pd.DataFrame:
    """Return one row per axis and unit of normalised records: axis, unit, presentation, cluster, score.

    Units of one presentation are replicates. The score is NaN where the unit has no usable answer. The cluster is the
    source item or task: units of one cluster are not independent.

    Args:
        calls: Records as `normalise` returns them.
        labels: What a pointwise judge may answer, low to high; inferred when None.
    """
    if has_levels(calls):
        parts = _level_scores(calls, labels)
    else:
        parts = _point_scores(calls, labels) if is_pointwise(calls) else _pair_scores(calls)
    nothing = pd.DataFrame({column: pd.Series(dtype=float if column == "score" else object) for column in COLUMNS})
    frame: pd.DataFrame = pd.concat(parts, ignore_index=True) if parts else nothing
    return frame


def _point_scores(frame: pd.DataFrame, labels: Sequence[str] | None) -> list[pd.DataFrame]:
    table = point_table(frame, labels=labels)
    items, sources = (np.unique(frame[column].to_numpy(object)) for column in ("suite_item", "task"))
    return [
        _counted_frame(test.name, test.counted, items, sources)
        for test in scored_tests(table, (BASELINE, *sorted(set(table.test) - {BASELINE})))
        if test.counted is not None and len(test.counted.hits)
    ]


def _counted_frame(axis: str, counted: Counted, items: Texts, sources: Texts) -> pd.DataFrame:
    score = np.where(counted.units.usable, counted.hits.astype(float), np.nan)
    clusters = sources[counted.units.clusters]
    # Units are named by item and replicate, by item, or by source and rubric.
    names = clusters if counted.items is None else items[counted.items]
    if counted.rubrics is not None and (counted.rubrics != "").any():
        names = np.array([f"{name}@{rubric}" for name, rubric in zip(names, counted.rubrics, strict=True)], object)
    units = names
    if counted.replicates is not None:
        units = np.array([f"{name}#{nth}" for name, nth in zip(names, counted.replicates, strict=True)], dtype=object)
    return _frame(axis, units, names, clusters, score)


def _level_scores(frame: pd.DataFrame, labels: Sequence[str] | None) -> list[pd.DataFrame]:
    table, tasks = level_table(frame, labels=labels), np.unique(frame["task"].to_numpy(object))
    parts = []
    for axis in axes.AXES:
        for key, found in axis.counted(table).items() if axis.comparable else ():
            units = np.array(found.names, dtype=object)
            # Replicates of a call are named by their item; what is compared or repeated has none.
            shown = np.array([name.partition("#")[0] for name in units], dtype=object)
            parts += [_frame(key, units, shown, tasks[found.task], found.score)] if len(units) else []
    return parts


def _pair_scores(frame: pd.DataFrame) -> list[pd.DataFrame]:
    table = call_table(frame)
    names = frame["suite_item"] + "#" + frame["order"] + "#" + frame["replicate"].astype(str)
    unit, cluster = names.to_numpy(object), frame["task"].to_numpy(object)
    # Names, because several judges' units are laid side by side.
    shown = np.where(frame["condition"].isin(VACUUM), frame["suite_item"], frame["suite_item"] + "#" + frame["order"])
    parts = []
    for axis in axes.AXES:
        if axis.comparable and axis.hits:
            scores = np.where(table.usable, axis.hits(*table.seen).astype(float), np.nan)
            cells = axis.where(table.condition, table.delta)
            parts += [
                _frame(key, unit[own], shown[own], cluster[own], scores[own]) for key, own in cells.items() if own.any()
            ]
    return parts


def _frame(axis: str, unit: Texts, presentation: Texts, cluster: Texts, score: Array) -> pd.DataFrame:
    columns = (axis, unit, presentation, cluster, score)
    frame: pd.DataFrame = pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))
    return frame


OVERALL = "overall"
"""The mean over tests, where an axis stands."""
_BOOTSTRAP = "cluster-paired bootstrap"


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Two judges on one axis: score of a minus score of b, on the units that both answered."""

    axis: str
    a: str
    b: str
    value: float
    low: float | None
    """95 %, clusters resampled whole. None with fewer than two clusters."""
    high: float | None
    n: int
    """Units that both answered."""
    n_clusters: int
    p_mcnemar: float | None
    """Mid-p, units as independent: beside the decision, not for it. None for the mean over tests."""
    p_cluster: float
    """Sign-flip test on clusters."""
    method: str
    p_holm: float = 1.0
    """`p_cluster` adjusted for all the differences of its family."""
    different: bool = False
    """Whether the two judges can be told apart: `p_holm` is at most the level."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreTable:
    """Units as parallel arrays, one column of scores per judge."""

    axis: npt.NDArray[np.object_]
    cluster: Codes
    scores: Mapping[str, Array]
    presentation: Codes | None = None
    """Units of an axis that share one are replicates. None: all differ."""

    def of(self, axes: Sequence[str]) -> ScoreTable:
        """Return the units of some axes."""
        rows = np.isin(self.axis, np.array(axes, dtype=object))
        scores = {judge: values[rows] for judge, values in self.scores.items()}
        shown = None if self.presentation is None else self.presentation[rows]
        return ScoreTable(axis=self.axis[rows], cluster=self.cluster[rows], scores=scores, presentation=shown)

    def n_clusters(self, axis: str) -> int:
        """Count the clusters of an axis."""
        return len(np.unique(self.cluster[self.axis == axis]))


def score_table(scores: Mapping[str, pd.DataFrame]) -> ScoreTable:
    """Lay the unit scores of several judges side by side; a unit that a judge lacks is NaN."""
    by_unit = {judge: frame.set_index(["axis", "unit"]) for judge, frame in scores.items()}
    units = pd.concat([frame[["cluster", "presentation"]] for frame in by_unit.values()])
    units = units[~units.index.duplicated()].sort_index()
    return ScoreTable(
        axis=units.index.get_level_values("axis").to_numpy(object),
        cluster=pd.factorize(units["cluster"], sort=True)[0],
        presentation=pd.factorize(units["presentation"])[0],
        scores={judge: frame["score"].reindex(units.index).to_numpy(float) for judge, frame in by_unit.items()},
    )


def axis_difference(table: ScoreTable, axis: str, a: str, b: str, resampling: Resampling) -> Difference | None:
    """Compare two judges on one axis; None when no unit was answered by both."""
    own = table.of([axis])
    found = paired_difference(
        own.scores[a], own.scores[b], own.cluster, n_resamples=resampling.n_resamples, seed=resampling.seed
    )
    if found is None:
        return None
    low, high, method = found.low, found.high, _BOOTSTRAP
    if low is None:
        # All resamples agree: an interval without a width would claim certainty.
        wide = _newcombe(own, a, b)
        low, high = wide or (None, None)
        method = "Newcombe from clustered intervals" if wide else "one cluster"
    return Difference(
        axis=axis,
        a=a,
        b=b,
        value=found.value,
        low=low,
        high=high,
        n=found.n,
        n_clusters=found.n_clusters,
        p_mcnemar=found.p_midp,
        p_cluster=cluster_sign_p(own.scores[a], own.scores[b], own.cluster, seed=resampling.seed),
        method=method,
    )


def metric_difference(
    axis: str, calls: Mapping[str, PointTable], metric: Metric, resampling: Resampling
) -> Difference | None:
    """Compare two judges by a chosen metric on the calls of one test that both answered; None when it is not defined.

    A metric is no mean over calls: the interval resamples whole sources of both judges at once, and the p-value is the
    share of exchanges of the two judges' answers, source by source, that part them as much.

    Args:
        axis: `<test>/<metric>`.
        calls: Judge to its calls of the test; the same calls in the same order.
        metric: The one that was chosen.
        resampling: Of the interval; as many exchanges are drawn.
    """
    (a, first), (b, second) = calls.items()
    both = np.asarray((first.outcome == "verdict") & (second.outcome == "verdict") & (first.expected != ""))
    if not both.any():
        return None
    first, second = first.where(both), second.where(both)
    right, said = (np.concatenate(each) for each in ((first.expected,) * 2, (first.answer, second.answer)))
    expected, given, features = cells_of(metric, first.scale, right, said)
    resampling = within_reason(metric, resampling)
    score, width = scorer(metric, expected, given, first.scale), features.shape[1]
    sources, code = np.unique(first.source, return_inverse=True)
    sums = np.zeros((len(sources), 2 * width))
    np.add.at(sums, code, np.hstack(np.split(features, 2)))

    def gap(both_sums: Array) -> Array:
        return score(both_sums[:, :width]) - score(both_sums[:, width:])

    value = float(gap(sums.sum(axis=0)[None])[0])
    if np.isnan(value):
        return None
    low, high = resampling.intervals(lambda drawn: {"gap": gap(drawn)}, sums, sources).get("gap") or (None, None)
    exchanged = np.hstack([sums[:, width:], sums[:, :width]])
    swap = np.random.default_rng(resampling.seed).random((resampling.n_resamples, len(sources))) < 0.5
    gaps = gap(swap @ exchanged + ~swap @ sums)
    as_far = int((np.abs(gaps[~np.isnan(gaps)]) >= abs(value) - 1e-12).sum())
    return Difference(
        axis=axis,
        a=a,
        b=b,
        value=value,
        low=low,
        high=high,
        n=int(both.sum()),
        n_clusters=len(sources),
        p_mcnemar=None,
        p_cluster=(1 + as_far) / (1 + int((~np.isnan(gaps)).sum())),
        method=_BOOTSTRAP,
    )


def overall_difference(
    table: ScoreTable, tests: Sequence[str], a: str, b: str, resampling: Resampling
) -> Difference | None:
    """Compare the means over tests of two judges; None when no unit was answered by both.

    The mean over tests is a sum over units with weights `1 / (tests × units of the test)`, so the sign-flip test of
    single axes holds for it too.
    """
    own = table.of(tests)
    gap = own.scores[a] - own.scores[b]
    both = ~np.isnan(gap)
    if not both.any():
        return None
    value, interval = mean_over_tests(own, gap, resampling)
    _, code, sizes = np.unique(own.axis[both], return_inverse=True, return_counts=True)
    weights = 1.0 / (len(sizes) * sizes[code])
    low, high = interval or (None, None)
    clusters = own.cluster[both]
    return Difference(
        axis=OVERALL,
        a=a,
        b=b,
        value=value,
        low=low,
        high=high,
        n=int(both.sum()),
        n_clusters=len(np.unique(clusters)),
        p_mcnemar=None,
        p_cluster=cluster_sign_p(
            own.scores[a][both] * weights, own.scores[b][both] * weights, clusters, seed=resampling.seed
        ),
        method=_BOOTSTRAP,
    )


def mean_over_tests(table: ScoreTable, values: Array, resampling: Resampling) -> tuple[float, Interval | None]:
    """Mean over tests of the mean over units, with its bootstrap interval over whole clusters; NaN is left out."""
    known = ~np.isnan(values)
    tests, code = np.unique(table.axis[known], return_inverse=True)
    indicator = np.eye(len(tests))[code]
    features = np.hstack([indicator * values[known][:, None], indicator])
    value = float(mean_of_shares(features.sum(axis=0, keepdims=True))["mean"][0])
    return value, resampling.intervals(mean_of_shares, features, table.cluster[known]).get("mean")


def decided(family: Sequence[Difference], *, alpha: float) -> list[Difference]:
    """Adjust the clustered p-values of a family by Holm and decide which judges can be told apart."""
    adjusted = holm([difference.p_cluster for difference in family]) if family else []
    return [replace(each, p_holm=p, different=p <= alpha) for each, p in zip(family, adjusted, strict=True)]


def _newcombe(table: ScoreTable, a: str, b: str) -> Interval | None:
    both = ~np.isnan(table.scores[a] - table.scores[b])
    shown = np.arange(len(both)) if table.presentation is None else table.presentation
    counts = [collapse_replicates(table.scores[name][both], shown[both], table.cluster[both]) for name in (b, a)]
    of_b, of_a = (cluster_interval(*each) for each in counts)
    if of_a is None or of_b is None:
        return None
    share_b, share_a = (float(hits.sum() / sizes.sum()) for hits, sizes in counts)
    return newcombe(share_b, of_b, share_a, of_a, correlation=share_correlation(*counts[0], *counts[1]))


@dataclass(frozen=True, kw_only=True)
class Contrasts:
    """What several judges read on one suite, and which of them can be told apart."""

    judges: tuple[str, ...]
    axes: tuple[str, ...]
    """The baseline first, then the tests; of pairs the axes of the datasheet."""
    cells: Mapping[str, Mapping[str, Reading]]
    """Axis to judge to reading, on the calls that every judge was asked; `overall` is the mean over tests."""
    differences: tuple[Difference, ...]
    """Of every axis and pair of judges, then of the means over tests."""
    letters: Mapping[str, Mapping[str, str]]
    """Axis to judge to letters, best first: judges that cannot be told apart share a letter."""
    summaries: Mapping[str, Mapping[str, Mapping[str, float | None]]]
    """`by_judge` (over its tests) and `by_test` (over judges): n, mean, sd, min, max."""
    ordinal: Mapping[str, Mapping[str, Mapping[str, Reading]]]
    """Test to judge to CCC, Pearson, Spearman and MAE, where the labels are a scale."""
    costs: Mapping[str, Mapping[str, float | None]]
    """Judge to `usd` and `usd_per_accuracy_point` of the calls compared; None is unknown."""
    notes: tuple[str, ...]
    """What a reader must know: calls left out, axes without a number, too few clusters."""
    alpha: float
    n_calls: int
    """Calls of each judge that are compared."""

    def __repr__(self) -> str:
        return f"Contrasts({len(self.judges)} judges, {len(self.axes)} axes, {self.told})"

    @property
    def different(self) -> tuple[Difference, ...]:
        """The differences that were told apart."""
        return tuple(difference for difference in self.differences if difference.different)

    @property
    def told(self) -> str:
        """How many differences were told apart, each family of decisions by itself."""
        means = [one.different for one in self.differences if one.axis == OVERALL]
        axes = [one.different for one in self.differences if one.axis != OVERALL]
        told = f"{sum(axes)} of {len(axes)} differences are told apart"
        return f"{told}, and {sum(means)} of {len(means)} of the mean over tests" if means else told

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return plain_fields(self)


def comparison_notes(
    given: Mapping[str, pd.DataFrame],
    calls: Mapping[str, pd.DataFrame],
    cells: Mapping[str, Mapping[str, Reading]],
    differences: Sequence[Difference],
    *,
    table: ScoreTable,
    tests: Sequence[str],
    common: Sequence[str],
    alpha: float,
) -> tuple[str, ...]:
    """Say what was left out of the comparison, and what its size cannot show."""
    notes = [*_left_out(given, calls), *_without(cells)]
    missing = [test for test in tests if test not in common]
    if missing and common:
        notes.append(f"The mean over tests leaves out {', '.join(missing)}: not every judge has a number there.")
    grid = [difference for difference in differences if difference.axis != OVERALL]
    return (*notes, *_power(grid, table, alpha=alpha, has_means=len(grid) < len(differences)))


def _left_out(given: Mapping[str, pd.DataFrame], calls: Mapping[str, pd.DataFrame]) -> list[str]:
    """Runs differ in length when one was truncated, or asked with other replicates."""
    kept = len(next(iter(calls.values())))
    longer = [f"{name} {len(frame)}" for name, frame in given.items() if len(frame) > kept]
    if not longer:
        return []
    return [f"Compared on the {kept} calls that every run has; calls of its own: {', '.join(longer)}."]


def _without(cells: Mapping[str, Mapping[str, Reading]]) -> list[str]:
    return [
        f"{axis} has no number for {name}: {reading.reason}."
        for axis, row in cells.items()
        for name, reading in row.items()
        if isinstance(reading, NotEstimable)
    ]


def _power(grid: Sequence[Difference], table: ScoreTable, *, alpha: float, has_means: bool) -> list[str]:
    """A sign-flip test on k clusters gives no p under 2^(1 - k): with few of them nothing can be told apart."""
    if not grid:
        return ["No axis has a number for two judges: nothing can be compared."]
    most = max(table.n_clusters(axis) for axis in {difference.axis for difference in grid})
    if 2.0 ** (1 - most) * len(grid) > alpha:
        apart = ", those of the mean over tests apart" if has_means else ""
        return [
            f"{most} independent sources are too few for {len(grid)} comparisons{apart}: the smallest p-value they can "
            f"give is {2.0 ** (1 - most):.2g}, and Holm asks for {alpha / len(grid):.2g} at first. Judges that share a "
            "letter may still differ: look at the intervals, or compare on a suite with more sources."
        ]
    if most < FEW_CLUSTERS:
        return [f"Few independent sources ({most}): intervals are wide, and sharing a letter is weak evidence."]
    return []
