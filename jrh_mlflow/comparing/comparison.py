"""Several judges on the same suite: which can be told apart, on which test, by how much.

Units of one source (the perturbations of an item, the calls on a task) are not independent. Decisions therefore use a
sign-flip test on whole sources, adjusted by step-down max-T over the deciding axes × pairs of judges; McNemar's mid-p,
which takes units as independent, is printed beside it. The other axes are exploratory: shown, never decided.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pandas as pd

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.measures.axes import headline_axes, lower_is_better
from jrh_mlflow.measures.records import has_steps, is_pointwise, normalise, shared_calls
from jrh_mlflow.measures.reliability import ALL, OVERALL, usd_per_accuracy_point, without_flattery
from jrh_mlflow.measures.unit_scores import ScoreTable, score_table, unit_scores
from jrh_mlflow.perturb.registry import counted_once, expectation_of
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals, plain_fields
from jrh_mlflow.schema.findings import Finding
from jrh_mlflow.schema.items import BASELINE
from jrh_mlflow.scoring.ledger import (
    FEW_CLUSTERS,
    LOSSES_LEAVE_OPEN,
    MAX_EXCLUDED,
    Resampling,
    interval_method,
    mean_of_shares,
)
from jrh_mlflow.scoring.metric import DEFAULT, Metric, cells_of, find_metric, is_share, scorer, within_reason
from jrh_mlflow.scoring.pointwise import PointTable, point_table
from jrh_mlflow.show.names import axis_name, reason_text
from jrh_mlflow.show.results import Datasheet, Report, measured
from jrh_mlflow.stats import Array, Codes, Interval, Mask, max_t
from jrh_mlflow.stats.paired import discordant_interval, letters, mcnemar_midp, value_interval
from jrh_mlflow.stats.power import detectable_difference, detectable_from_interval, sign_flip_critical, sign_flip_p
from jrh_mlflow.stats.proportions import cluster_interval, newcombe, share_correlation, t_quantile

ORDINAL_METRICS = ("ccc", "pearson", "spearman", "mae")

Cells = dict[str, dict[str, Reading]]


ALPHA, MARGIN = 0.05, 0.1
"""Chance of any false difference in the deciding family, and how far apart judges may be that are called equivalent."""
BY_ABILITY = ("target_sensitivity", "matched_sensitivity")
"""Families of the headline that count a tie as wrong, and so rank a coin over an honest tie: ability decides."""
LEANS = ("slot_lean", "padding_lean")
"""Effects with a sign that weigh by what was found of each judge."""
_MOST_REASONS = 3
"""Readings of one judge whose missing numbers are told one by one."""
_FEWEST_PATTERNS, _CELLS = 999, 20_000_000
"""Sign patterns × differences that are held in memory, and how few patterns will do for that."""
_ICC = 0.2
"""Least intraclass correlation that what is detectable rests on: judges that hardly differ do not show theirs, and real
ones have .19 to .33."""
_MOST_TASKS = 2000
"""That are counted to say how many would tell judges apart."""
_Z_POWER = 0.8416
"""Standard errors by which an estimate falls short of the truth in one of five cases."""
Family = Literal["primary", "exploratory"]


def compare_calls(
    judges: Mapping[str, pd.DataFrame],
    *,
    seed: int = 0,
    n_resamples: int = 2000,
    alpha: float = ALPHA,
    labels: Sequence[str] | None = None,
    metric: str | None = None,
    primary: Sequence[str] | None = None,
    baseline: str | None = None,
    margin: float = MARGIN,
    exploratory: bool = True,
) -> Contrasts:
    """Compare judges by their call records on one suite; pure, no MLflow.

    Every judge is measured on the calls that all of them were asked, so a truncated run shortens the others. An axis
    that is withheld for one of two judges (too many of its calls gave no usable answer) is not compared between them.

    Args:
        judges: Name to call records.
        seed: Of all resampling.
        n_resamples: Of the bootstrap behind the intervals.
        alpha: Chance of any false difference in the deciding family, and of each false equivalence.
        labels: What a pointwise judge may answer, low to high; inferred when None.
        metric: As for `measure`: labelled tests are then compared on the axes `<test>/<metric>`. There is no mean over
            tests with it.
        primary: Axes of the deciding family; the others are exploratory. When None, of a datasheet `deciding_axes`,
            of reliability tests all and their mean.
        baseline: Name of the judge that the others are compared with; each with each when None.
        margin: Judges whose difference is shown to be less, either way, are equivalent.
        exploratory: Also pair the judges on the exploratory axes: with twelve judges 66 differences on each.

    Raises:
        CallsError: when the records break a rule, share no call, or disagree on what an item is.
        RecipeError: when judges cannot be compared on a primary axis.
    """
    given = {name: normalise(calls) for name, calls in judges.items()}
    # On the same calls only: a difference must not come from different items.
    calls = shared_calls(given)
    chosen = find_metric(metric)
    reports = {
        # The same seed for every judge, so that equal answers have equal intervals.
        name: measured(frame, labels=labels, max_excluded=MAX_EXCLUDED, resampling=Resampling(seed=seed), metric=chosen)
        for name, frame in calls.items()
    }
    resampling = Resampling(seed=seed, n_resamples=n_resamples)
    first = next(iter(calls.values()))
    scores = {name: unit_scores(frame, labels=labels) for name, frame in calls.items()}
    table = score_table(scores, np.unique(first["task"].to_numpy(object)))
    axes, tests = _axes(table, has_tests=is_pointwise(first) and not has_steps(first))
    ordinal = _ordinal(reports, axes)
    tables = {} if chosen is None else {name: point_table(frame, labels=labels) for name, frame in calls.items()}
    if chosen is not None:
        # Tests without labelled answers keep their own statistic, and so their name.
        named = {axis: f"{axis}/{chosen.name}" for axis in axes if expectation_of(axis).statistic == DEFAULT}
        table = replace(table, axis=np.array([named.get(axis, axis) for axis in table.axis], dtype=object))
        axes, tests = (tuple(named.get(axis, axis) for axis in names) for names in (axes, tests))
        # Users name a test, whatever it is scored by.
        primary = primary and [named.get(axis, axis) for axis in primary]
    cells: Cells = {axis: {name: _reading(report, axis) for name, report in reports.items()} for axis in axes}
    names = tuple(judges)
    # A metric is no mean over units, so that means over tests could not be told apart as shares can.
    numbered = [axis for axis in tests if all(isinstance(reading, Estimate) for reading in cells[axis].values())]
    common = numbered if chosen is None else []
    if len(common) > 1:
        cells[OVERALL] = {name: _overall(table.of(common), name, len(common), resampling) for name in names}
    family = _primary(primary, cells, has_tests=bool(tests))
    averaged = _averaged(tests, chosen)
    # Against a baseline there are fewer comparisons, so that less is lost by adjusting for them.
    pairs = [*combinations(names, 2)] if baseline is None else [(name, baseline) for name in names if name != baseline]
    asked = {axis: row for axis, row in cells.items() if exploratory or axis in family}
    paired = _paired(table, asked, pairs, resampling, common=common, alpha=alpha, metric=chosen, tables=tables)
    decide = partial(
        decided, n_clusters=table.n_codes, primary=family, alpha=alpha, margin=margin, seed=resampling.seed
    )

    def again(whole: ScoreTable, axis: str, a: str, b: str) -> Paired | None:
        own = whole.of(common if axis == OVERALL else [axis])
        # Only sums are looked at: no interval need be drawn.
        return paired_shares(own, axis, a, b, replace(resampling, n_resamples=1))

    differences = whatever_was_lost(decide(paired), completed_pairs(table, paired, again), decide)
    return Contrasts(
        judges=names,
        axes=axes,
        cells=cells,
        differences=tuple(differences),
        primary=family,
        # Letters compare every judge with every other, which a baseline leaves out.
        letters={} if baseline else _letters(cells, differences),
        summaries={
            "by_judge": {
                name: without_flattery(_spread(own.values()), own)
                for name in names
                if (own := {test: cells[test][name] for test in averaged})
            },
            "by_test": {axis: _spread(cells[axis].values()) for axis in axes},
        },
        ordinal=ordinal,
        costs={name: _cost(calls[name], report) for name, report in reports.items()},
        notes=(
            *_metric_notes(chosen, tests),
            *_left_out(given, calls),
            *_without(cells),
            *_mean_notes(tests, common),
            *_loss_notes(differences),
            *_alike_notes(differences),
            *_power(differences),
        ),
        alpha=alpha,
        margin=margin,
        n_calls=len(first),
        baseline=baseline,
        leans=_leans(reports),
    )


def _leans(reports: Mapping[str, Report]) -> dict[str, dict[str, Finding]]:
    leans: dict[str, dict[str, Finding]] = {axis: {} for axis in LEANS}
    for name, report in reports.items():
        for finding in report.verdict.findings if isinstance(report, Datasheet) else ():
            if finding.axis in leans:
                leans[finding.axis][name] = finding
    return {axis: row for axis, row in leans.items() if row}


def _primary(chosen: Sequence[str] | None, cells: Cells, *, has_tests: bool) -> tuple[str, ...]:
    """Return the axes that decide, in the order shown.

    Raises:
        RecipeError: when none is named, or judges cannot be compared on one of them here.
    """
    if chosen is not None and not chosen:
        raise RecipeError("`primary` names no axis: name one, or leave it out for the usual ones.")
    for axis in chosen or ():
        if axis not in cells:
            close = suggest(axis, cells)
            raise RecipeError(
                f"Judges are not compared on {axis!r} here.{close} Axes of this suite: {', '.join(cells)}."
            )
    wanted = chosen or (cells if has_tests else deciding_axes())
    # A suite may have none of the headline axes.
    return tuple(axis for axis in cells if axis in wanted) or tuple(cells)


def deciding_axes() -> list[str]:
    """Return the axes by which datasheets are told apart: ability, and the headline that counts no tie as wrong."""
    able = ("ability", "ability/delta_1", "matched_ability")
    return [*able, *(key for key in headline_axes() if key.partition("/")[0] not in BY_ABILITY)]


def _axes(table: ScoreTable, *, has_tests: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the axes in the order shown, and those of them that count as tests: none for a datasheet."""
    every = sorted(set(table.axis), key=_natural)
    if not has_tests:
        return tuple(every), ()
    tests = [axis for axis in every if axis != BASELINE]
    return (*([BASELINE] if BASELINE in every else []), *tests), tuple(counted_once(tests))


def _natural(axis: str) -> list[str | int]:
    """Sort key that puts `delta_2` before `delta_10`."""
    return [int(part) if part.isdigit() else part for part in re.split("([0-9]+)", axis)]


def _reading(report: Report, axis: str) -> Reading:
    if isinstance(report, Datasheet):
        return report.estimates[axis]
    missing = NotEstimable(reason=f"no {axis} calls")
    # The axis of a chosen metric names its statistic already.
    key = axis if "/" in axis else f"{axis}/{expectation_of(axis).statistic}"
    return report.estimates.get(key, missing)


def _averaged(tests: Sequence[str], metric: Metric | None) -> list[str]:
    """Return the tests that one mean may hold: those of a metric alone where it is no share."""
    if metric is None or is_share(metric.name):
        return list(tests)
    return [test for test in tests if test.endswith(f"/{metric.name}")]


def _metric_notes(metric: Metric | None, tests: Sequence[str]) -> list[str]:
    if metric is None:
        return []
    how = "sources resampled, and the judges' answers exchanged source by source for the p-value"
    notes = [f"Labelled tests are compared by {metric.text}: {how}. There is no mean over tests with it."]
    others = [test for test in tests if test not in _averaged(tests, metric)]
    if others:
        notes.append(f"The rows by judge are over the tests scored by {metric.name}; in no mean: {', '.join(others)}.")
    return notes


def _paired(
    table: ScoreTable,
    cells: Cells,
    pairs: Sequence[tuple[str, str]],
    resampling: Resampling,
    *,
    common: Sequence[str],
    alpha: float,
    metric: Metric | None,
    tables: Mapping[str, PointTable],
) -> list[Paired]:
    """Pair the judges on every axis where both have a number."""
    paired = []
    for axis, row in cells.items():
        test, _, name = axis.rpartition("/")
        own = table.of(common if axis == OVERALL else [axis])
        for a, b in pairs:
            if not (isinstance(row[a], Estimate) and isinstance(row[b], Estimate)):
                continue
            if metric is not None and name == metric.name:
                calls = {judge: tables[judge].of(test) for judge in (a, b)}
                paired.append(paired_metric(axis, calls, metric, resampling))
            else:
                paired.append(paired_shares(own, axis, a, b, resampling, alpha=alpha))
    return [pair for pair in paired if pair is not None]


def completed_pairs(
    table: ScoreTable, paired: Sequence[Paired], again: Callable[[ScoreTable, str, str, str], Paired | None]
) -> list[list[Paired]]:
    """Pair the judges again with every lost call answered, both ways; nothing where none is lost.

    A metric that was chosen is no mean over units: it is decided by the answers that came.

    Args:
        table: Scores of all judges.
        paired: As the answers that came pair them.
        again: Pairs two judges of a table on one axis.
    """
    if not table.has_lost(*table.scores):
        return []
    sides: list[list[Paired]] = [[], []]
    for pair in paired:
        axis, judges = pair.difference.axis, (pair.difference.a, pair.difference.b)
        for side, (least, most) in zip(sides, (judges, judges[::-1]), strict=True):
            whole = table.completed(least, most)
            side.append((pair.sums is not None and again(whole, axis, *judges)) or pair)
    return sides


def _overall(table: ScoreTable, name: str, n_tests: int, resampling: Resampling) -> Estimate:
    scores = table.scores[name]
    value, ends = mean_over_tests(table, scores, resampling)
    known = ~np.isnan(scores)
    n_clusters = len(np.unique(table.cluster[known]))
    return Estimate(
        value=value,
        n=int(known.sum()),
        excluded=int((~known).sum()),
        **intervals(None, ends),
        n_clusters=n_clusters,
        method=interval_method(f"mean over {n_tests} tests; cluster bootstrap", n_clusters),
    )


def _letters(cells: Cells, differences: Sequence[Difference]) -> dict[str, dict[str, str]]:
    """Give letters to the judges on the axes where some of them are told apart."""
    apart: dict[str, set[frozenset[str]]] = {}
    for difference in differences:
        if difference.told_apart:
            apart.setdefault(difference.axis, set()).add(frozenset((difference.a, difference.b)))
    return {axis: _axis_letters(axis, cells[axis], pairs) for axis, pairs in apart.items()}


def _axis_letters(axis: str, row: Mapping[str, Reading], apart: set[frozenset[str]]) -> dict[str, str]:
    """Give letters to the judges that have a number, best first."""
    # Letters go from the best on, whichever end of the axis that is.
    sign = 1 if lower_is_better(axis) else -1
    values = {name: sign * reading.value for name, reading in row.items() if isinstance(reading, Estimate)}
    ordered = sorted(values, key=values.__getitem__)
    return letters(ordered, lambda judge, other: frozenset((judge, other)) in apart)


def _spread(readings: Iterable[Reading]) -> dict[str, float | None]:
    values = [reading.value for reading in readings if isinstance(reading, Estimate)]
    if not values:
        return {"n": 0, **dict.fromkeys(("mean", "sd", "min", "max"))}
    return {
        "n": len(values),
        "mean": float(np.mean(values)),
        # A single value has no spread: 0 would say that there is none.
        "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        "min": min(values),
        "max": max(values),
    }


def _ordinal(reports: Mapping[str, Report], axes: Sequence[str]) -> dict[str, dict[str, dict[str, Reading]]]:
    ordinal = {
        axis: {
            name: {
                metric: report.estimates[f"{axis}/{metric}"]
                for metric in ORDINAL_METRICS
                if f"{axis}/{metric}" in report.estimates
            }
            for name, report in reports.items()
        }
        for axis in (*axes, ALL)
    }
    return {axis: rows for axis, rows in ordinal.items() if any(rows.values())}


def _cost(frame: pd.DataFrame, report: Report) -> dict[str, float | None]:
    costs = pd.to_numeric(frame["cost_usd"], errors="coerce") if "cost_usd" in frame else pd.Series([np.nan])
    # One unknown price makes the sum unknown: without that call the judge would look cheap.
    usd = None if costs.isna().any() else float(costs.sum())
    accurate = report.estimates.get("natural/accuracy" if isinstance(report, Datasheet) else f"{ALL}/accuracy")
    share = accurate.value if isinstance(accurate, Estimate) else None
    return {"usd": usd, "usd_per_accuracy_point": usd_per_accuracy_point(usd, share)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Two judges on one axis: score of a minus score of b, on the units that both answered."""

    axis: str
    a: str
    b: str
    value: float
    low: float | None
    """95 %, clusters as the units that were sampled. None with fewer than two clusters."""
    high: float | None
    n: int
    """Units that both answered."""
    n_clusters: int
    p_mcnemar: float | None = None
    """Mid-p, units as independent: beside the decision, not for it. None for what is no share of units."""
    method: str
    equivalence: Interval | None = None
    """Of the level 1 - 2 alpha: equivalent where it lies within the margin. None: a metric, or one cluster."""
    family: Family = "exploratory"
    """`primary`: it takes part in the decisions; `exploratory`: shown, never told apart."""
    p: float = 1.0
    """Sign-flip test on clusters, of this difference alone."""
    p_adjusted: float = 1.0
    """The same by step-down max-T: over the deciding family, or over all differences for an exploratory one."""
    told_apart: bool = False
    """Primary, and `p_adjusted` is at most the level."""
    detectable: float | None = None
    """Smallest true difference that would be told apart with a chance of 80 %. None: none would be."""
    equivalent: bool = False
    """Whether the two are shown to differ by less than the margin; not shown is not different."""
    open_by_losses: bool = False
    """Whether the answers that came would decide it, and calls without a usable answer leave it open."""
    tasks_to_tell: int | None = None
    """About how many tasks would tell the two apart, where one answers each task alike and only that holds it back."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Paired:
    """A difference before it is decided: what it would be with whole clusters exchanged between the judges."""

    difference: Difference
    standard_error: float
    """Over clusters."""
    n_units: int
    """Independent units that would tell as much: replicates are one, and units of a cluster are alike."""
    sums: Array | None
    """Per cluster of the table, the sum of what makes up the difference. None: it is no sum."""
    flipped: Callable[[Array], Array]
    """The difference under rows of signs of the clusters."""
    shares: tuple[Array, Array, Array] | None = None
    """Hits of a and of b and units, by cluster, replicates as one: what limits the claims of shares. None: no share."""
    largest: float = 1.0
    """The largest difference there can be."""
    n_patterns: int = 9999
    """Sign patterns that may be asked for: fewer where each takes long."""


def paired_shares(
    table: ScoreTable, axis: str, a: str, b: str, resampling: Resampling, *, alpha: float = ALPHA
) -> Paired | None:
    """Compare two judges on the one axis, or on the several tests, that `table` holds; None when no unit has both.

    Of several tests it is the difference of the means over tests: units weigh `units / (tests × units of the test)`.
    The interval is the hull of the cluster-paired bootstrap, which is too narrow with few clusters that seldom differ,
    and of `discordant_interval`.
    """
    # NaN where either judge has no score, so that both sides rest on the same units.
    gap = table.scores[a] - table.scores[b]
    both = ~np.isnan(gap)
    if not both.any():
        return None
    value, drawn = mean_over_tests(table, gap, resampling)
    tests, code, units_of = np.unique(table.axis_codes[both], return_inverse=True, return_counts=True)
    n, gap, score_a, score_b = len(code), gap[both], table.scores[a][both], table.scores[b][both]
    # Every test weighs the same in the mean over tests, however many units it has.
    weight = n / (len(tests) * units_of[code])
    n_units = _effective_units(weight, code, None if table.presentation is None else table.presentation[both])
    # Scaled so that all clusters together hold the effective number of units.
    gains, losses, of_a, of_b, sizes = (
        n_units / n * np.bincount(table.cluster[both], weight * values, table.n_codes).astype(float)
        for values in (np.maximum(gap, 0.0), np.maximum(-gap, 0.0), score_a, score_b, np.ones(n))
    )
    sums, used = gains - losses, sizes > 0
    wide = discordant_interval(gains, losses, sizes)
    low, high = _hull(drawn, wide) or (None, None)
    return Paired(
        difference=Difference(
            axis=axis,
            a=a,
            b=b,
            value=value,
            low=low,
            high=high,
            n=n,
            n_clusters=int(used.sum()),
            # Over several tests units differ in weight, and McNemar counts each as one.
            p_mcnemar=_mcnemar(score_a, score_b) if len(tests) == 1 else None,
            method="cluster-paired bootstrap and discordant units by cluster" if wide else "one cluster",
            equivalence=discordant_interval(gains, losses, sizes, level=1 - 2 * alpha),
        ),
        standard_error=_standard_error(sums[used], sizes[used]),
        n_units=_independent(n_units, int(used.sum())),
        sums=sums,
        flipped=lambda signs: signs @ sums,
        shares=(of_a, of_b, sizes),
    )


def paired_values(table: ScoreTable, axis: str, a: str, b: str) -> Paired | None:
    """Compare two judges on one axis whose units count by halves, or have a direction; None when no unit has both.

    Asks of one presentation are one unit. No share limits what sign flips claim.
    """
    gap = table.scores[a] - table.scores[b]
    both = ~np.isnan(gap)
    if not both.any():
        return None
    n = len(np.unique(table.presentation[both])) if table.presentation is not None else int(both.sum())
    gains, losses, sizes = (
        n / both.sum() * np.bincount(table.cluster[both], values[both], table.n_codes).astype(float)
        for values in (np.maximum(gap, 0.0), np.maximum(-gap, 0.0), np.ones(len(gap)))
    )
    sums, used = gains - losses, sizes > 0
    low, high = value_interval(gains, losses, sizes, 0.95) or (None, None)
    return Paired(
        difference=Difference(
            axis=axis,
            a=a,
            b=b,
            value=float(sums.sum()) / n,
            low=low,
            high=high,
            n=n,
            n_clusters=int(used.sum()),
            method="t of the values by cluster",
            equivalence=value_interval(gains, losses, sizes, 1 - 2 * ALPHA),
        ),
        standard_error=_standard_error(sums[used], sizes[used]),
        n_units=n,
        sums=sums,
        flipped=lambda signs: signs @ sums,
    )


def _effective_units(weight: Array, test: Codes, presentation: Codes | None) -> float:
    """Kish's effective number, replicates of one presentation as one unit: how many equal ones would tell as much."""
    shown = np.arange(len(weight)) if presentation is None else presentation
    # A presentation is of one test: sources stand for units in several.
    _, unit = np.unique(test * (shown.max() + 1) + shown, return_inverse=True)
    return float(np.square(weight.sum()) / np.square(np.bincount(unit, weights=weight)).sum())


def _independent(n_units: float, n_clusters: int) -> int:
    """Return how many independent units tell as much as these, alike within clusters as units of real judges are."""
    # Kish's design effect; where clusters hold less than one unit each it must not add any.
    return max(1, round(n_units / max(1.0, 1 + (n_units / n_clusters - 1) * _ICC)))


def _hull(*intervals: Interval | None) -> Interval | None:
    known = [ends for ends in intervals if ends is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def _mcnemar(a: Array, b: Array) -> float | None:
    """Mid-p of the units that differ; None where a score is neither 0 nor 1."""
    if not np.isin(np.concatenate([a, b]), (0.0, 1.0)).all():
        return None
    return mcnemar_midp(int((a > b).sum()), int((a < b).sum()))


def _standard_error(sums: Array, sizes: Array) -> float:
    """Of the ratio of the sums over clusters; 0 of a single one, which tells nothing of the spread."""
    k, total = len(sums), sizes.sum()
    # Clusters differ in size: the spread is of a ratio, not of a mean of cluster means.
    residuals = sums - sums.sum() / total * sizes
    return float(np.sqrt(k / (k - 1) * np.square(residuals).sum()) / total) if k > 1 else 0.0


def paired_metric(axis: str, calls: Mapping[str, PointTable], metric: Metric, resampling: Resampling) -> Paired | None:
    """Compare two judges by a chosen metric on the calls of one test that both answered; None when it is not defined.

    A metric is no mean over calls: the interval resamples whole sources of both judges at once, and a sign pattern
    exchanges the two judges' answers, source by source. Equivalence is not asked: no interval here keeps its error
    where two judges hardly differ.

    Args:
        axis: `<test>/<metric>`.
        calls: Judge to its calls of the test; the same calls in the same order.
        metric: The one that was chosen.
        resampling: Of the interval; as many sign patterns are drawn.
    """
    (a, first), (b, second) = calls.items()
    both = np.asarray((first.outcome == "verdict") & (second.outcome == "verdict") & (first.expected != ""))
    if not both.any():
        return None
    first, second = first.where(both), second.where(both)
    # Both judges share one list of cells, or their features could not change places.
    right, chosen = np.tile(first.expected, 2), np.concatenate([first.answer, second.answer])
    expected, given, features = cells_of(metric, first.scale, right, chosen)
    resampling = within_reason(metric, resampling)
    score, width = scorer(metric, expected, given, first.scale), features.shape[1]
    sums = np.zeros((first.n_sources, 2 * width))
    np.add.at(sums, first.source, np.hstack(np.split(features, 2)))
    # The features of the two judges change places where a sign is -1.
    exchanged = np.hstack([sums[:, width:], sums[:, :width]])

    def gap(both_sums: Array) -> Array:
        return score(both_sums[:, :width]) - score(both_sums[:, width:])

    def flipped(signs: Array) -> Array:
        return gap((1 - signs) / 2 @ exchanged + (1 + signs) / 2 @ sums)

    value, sources = float(gap(sums.sum(axis=0)[None])[0]), np.unique(first.source)
    if np.isnan(value):
        return None
    drawn = resampling.intervals(lambda sampled: {"gap": gap(sampled)}, sums[sources], sources).get("gap")
    return Paired(
        difference=Difference(
            axis=axis,
            a=a,
            b=b,
            value=value,
            low=drawn and drawn[0],
            high=drawn and drawn[1],
            n=int(both.sum()),
            n_clusters=len(sources),
            method="cluster-paired bootstrap",
        ),
        # The percentiles are those of t: `stats.bootstrap.expanded_tail`.
        standard_error=(drawn[1] - drawn[0]) / (2 * t_quantile(len(sources) - 1)) if drawn else 0.0,
        n_units=_independent(int(both.sum()), len(sources)),
        sums=None,
        flipped=flipped,
        n_patterns=resampling.n_resamples,
        largest=1.0 if is_share(metric.name) else max(2.0, len(first.scale.labels) - 1.0),
    )


def mean_over_tests(table: ScoreTable, values: Array, resampling: Resampling) -> tuple[float, Interval | None]:
    """Mean over tests of the mean over units, with its bootstrap interval over whole clusters; NaN is left out."""
    known = ~np.isnan(values)
    tests, code = np.unique(table.axis_codes[known], return_inverse=True)
    indicator = np.eye(len(tests))[code]
    features = np.hstack([indicator * values[known][:, None], indicator])
    value = float(mean_of_shares(features.sum(axis=0, keepdims=True))["mean"][0])
    return value, resampling.intervals(mean_of_shares, features, table.cluster[known]).get("mean")


def decided(
    pairs: Sequence[Paired],
    *,
    n_clusters: int,
    primary: Collection[str],
    alpha: float = ALPHA,
    margin: float = MARGIN,
    seed: int,
) -> list[Difference]:
    """Adjust the p-values of the deciding family by themselves and the others over everything, and decide the family.

    Args:
        pairs: Every difference, the deciding ones among them.
        n_clusters: Of the table behind them.
        primary: Axes of the deciding family.
        alpha: Chance of any false difference in the deciding family, and of each false equivalence.
        margin: Judges whose difference is shown to be less are equivalent.
        seed: Of the sign patterns, where not all are tried.
    """
    if not pairs:
        return []
    # Axes that are only looked at must not make the deciding ones harder to decide.
    is_primary = np.array([pair.difference.axis in primary for pair in pairs])
    test = _joint_test(pairs, n_clusters, alpha=alpha, seed=seed)
    family = test(is_primary)
    everything = family if is_primary.all() else test(np.ones(len(pairs), dtype=bool))
    places = np.cumsum(is_primary) - 1
    return [
        _decision(pair, family, places[at], "primary", alpha=alpha, margin=margin)
        if is_primary[at]
        else _decision(pair, everything, at, "exploratory", alpha=alpha, margin=margin)
        for at, pair in enumerate(pairs)
    ]


def _joint_test(pairs: Sequence[Paired], n_clusters: int, *, alpha: float, seed: int) -> Callable[[Mask], max_t.MaxT]:
    """Return the test of any of the differences together; what is no sum over clusters is asked pattern by pattern."""
    fitting = max(_FEWEST_PATTERNS, _CELLS // len(pairs))
    n_resamples = min(fitting, *(pair.n_patterns for pair in pairs))
    sums = [pair.sums for pair in pairs if pair.sums is not None]
    # Sign flips alone err too often where the answers of two judges cluster differently.
    limits = np.array([np.inf if pair.shares is None else max_t.share_limit(*pair.shares) for pair in pairs])
    if len(sums) == len(pairs):
        by_cluster = np.column_stack(sums)
        return lambda own: max_t.max_t(
            by_cluster[:, own], limits=limits[own], n_resamples=n_resamples, seed=seed, alpha=alpha
        )
    # The same patterns for every difference: max-T needs how they go together.
    signs = max_t.sign_patterns(n_clusters, n_resamples=n_resamples, seed=seed)
    flipped = np.column_stack([pair.flipped(signs) for pair in pairs])
    return lambda own: max_t.max_t_of_statistics(flipped[:, own], limits=limits[own], alpha=alpha)


def _decision(pair: Paired, tested: max_t.MaxT, at: int, family: Family, *, alpha: float, margin: float) -> Difference:
    # Where hardly anything differs, no sign pattern tells what a difference would have to exceed: one test would.
    critical = max(tested.critical or 0.0, sign_flip_critical(pair.difference.n_clusters, alpha=alpha))
    told_apart = family == "primary" and bool(tested.p_adjusted[at] <= alpha)
    return replace(
        pair.difference,
        family=family,
        p=float(tested.p[at]),
        p_adjusted=float(tested.p_adjusted[at]),
        told_apart=told_apart,
        tasks_to_tell=None if told_apart or family != "primary" else _tasks_to_tell(pair, alpha),
        detectable=_detectable(pair, critical),
        equivalent=is_equivalent(pair.difference.equivalence, margin),
    )


def _tasks_to_tell(pair: Paired, alpha: float) -> int | None:
    """Return how many tasks would grant a difference like this one, where a judge may answer each task alike."""
    row = pair.difference
    if pair.shares is None or row.low is None or row.high is None or row.low <= 0 <= row.high:
        return None
    *both, sizes = pair.shares
    alike = [max_t.all_or_none(hits, sizes) for hits in both]
    if not any(alike):
        return None
    shares, tail = [float(hits.sum() / sizes.sum()) for hits in both], alpha / 2
    known = [cluster_interval(hits, sizes, level=1 - alpha) or (0.0, 1.0) for hits in both]
    less = int(shares[1] < shares[0])

    def arm(at: int, k: int, *, above: bool) -> float:
        """Distance of a share to its end on k tasks; where tasks are mixed it shrinks with the root of their number."""
        share = shares[at] if above else 1 - shares[at]
        end = known[at][1] if above else 1 - known[at][0]
        return max_t.exact_end(share, k, tail) - share if alike[at] else (end - share) * math.sqrt(row.n_clusters / k)

    def is_granted(k: int) -> bool:
        return math.hypot(arm(less, k, above=True), arm(1 - less, k, above=False)) < abs(shares[0] - shares[1])

    return next((k for k in range(row.n_clusters + 1, _MOST_TASKS) if is_granted(k)), None)


def whatever_was_lost(
    differences: Sequence[Difference],
    completed: Sequence[Sequence[Paired]],
    decide: Callable[[Sequence[Paired]], list[Difference]],
) -> list[Difference]:
    """Keep those decisions that both extreme completions of the lost calls confirm, in the same direction.

    Args:
        differences: As the answers that came decide them.
        completed: The same with the lost calls of a at their least and those of b at their most, and the other way
            round; empty where nothing was lost.
        decide: Decides a family.
    """
    every = [differences, *(decide(pairs) for pairs in completed)]
    return [_confirmed(*rows) for rows in zip(*every, strict=True)] if completed else list(differences)


def _confirmed(difference: Difference, *completed: Difference) -> Difference:
    directions = {row.value > 0 for row in (difference, *completed)}
    apart = all(row.told_apart for row in completed) and len(directions) == 1
    equal = all(row.equivalent for row in completed)
    return replace(
        difference,
        told_apart=difference.told_apart and apart,
        equivalent=difference.equivalent and equal,
        open_by_losses=(difference.told_apart and not apart) or (difference.equivalent and not equal),
    )


def is_equivalent(ends: Interval | None, margin: float) -> bool:
    """Whether an interval of the level 1 - 2 alpha lies within the margin: two one-sided tests at alpha (TOST)."""
    return ends is not None and -margin < ends[0] and ends[1] < margin


def _detectable(pair: Paired, critical: float) -> float | None:
    """Return the smallest true difference that is told apart with a chance of 80 %; None where none would be.

    Two hurdles: the sign flips, and for shares the interval that limits what they may claim, `stats.max_t.share_limit`.
    """
    k = pair.difference.n_clusters
    flips = 0.0
    # A difference has a spread of its own beside the one that was seen, and the larger it is the more.
    for _ in range(2):
        share = flips / pair.largest
        spread = math.hypot(pair.standard_error, pair.largest * math.sqrt(share * (1 - share) / pair.n_units))
        detectable = detectable_difference(spread, k, critical=critical, n_units=pair.n_units, largest=pair.largest)
        if detectable is None:
            return None
        flips = detectable
    if pair.shares is None:
        return flips
    of_a, of_b, sizes = pair.shares
    # As in `share_limit`: an end of the interval may err as often as the sign flips.
    level = 1 - 2 * sign_flip_p(critical, k)
    a, b = (cluster_interval(hits, sizes, level=level) for hits in (of_a, of_b))
    if a is None or b is None:
        return None
    share_a, share_b = (float(hits.sum() / sizes.sum()) for hits in (of_a, of_b))
    low, high = newcombe(share_b, b, share_a, a, correlation=share_correlation(of_b, sizes, of_a, sizes))
    claimed = detectable_from_interval(share_a - share_b, low, high, level=level)
    claimed = max(claimed, _claimed_apart(pair, max(share_a, share_b), level))
    return max(flips, claimed) if claimed <= pair.largest else None


def _claimed_apart(pair: Paired, share: float, level: float) -> float:
    """Return the difference that the two intervals grant in four of five cases where one judge has this share.

    The other judge's share is higher by that difference, and so is its spread: at low rates the intervals of two judges
    that hardly differ are far too narrow for it.
    """
    assert pair.shares is not None
    *both, sizes = pair.shares
    k, tail, n = pair.difference.n_clusters, (1 - level) / 2, pair.n_units
    most = max(both, key=lambda hits: float(hits.sum()))
    ends = cluster_interval(most, sizes, level=level)
    # As in `share_limit`: nothing speaks against a judge that answers each task alike.
    exact = max_t.exact_end(share, k, tail) if max_t.all_or_none(most, sizes) else 0.0
    arm = max(exact, 1.0 if ends is None else ends[1]) - share
    apart, z = arm, t_quantile(k - 1, level)
    for _ in range(20):
        higher = min(1.0, share + apart)
        spread, other = (math.sqrt(at * (1 - at) / n) for at in (higher, share))
        apart = math.hypot(z * spread, arm) + _Z_POWER * math.hypot(spread, other)
    return apart


@dataclass(frozen=True, kw_only=True)
class Contrasts:
    """What several judges read on one suite, and which of them can be told apart."""

    judges: tuple[str, ...]
    axes: tuple[str, ...]
    """The baseline first, then the tests; of pairs the axes of the datasheet."""
    cells: Mapping[str, Mapping[str, Reading]]
    """Axis to judge to reading, on the calls that every judge was asked; `overall` is the mean over tests."""
    differences: tuple[Difference, ...]
    """Of every axis and pair of judges, then of the means over tests; with a baseline only those against it."""
    primary: tuple[str, ...]
    """The axes that decide; the others are exploratory."""
    letters: Mapping[str, Mapping[str, str]]
    """Axis to judge to letters, best first: judges that are not told apart share one. Only of axes where some are."""
    summaries: Mapping[str, Mapping[str, Mapping[str, float | None]]]
    """`by_judge` (over its tests) and `by_test` (over judges): n, mean, sd, min, max."""
    ordinal: Mapping[str, Mapping[str, Mapping[str, Reading]]]
    """Test to judge to CCC, Pearson, Spearman and MAE, where the labels are a scale."""
    costs: Mapping[str, Mapping[str, float | None]]
    """Judge to `usd` and `usd_per_accuracy_point` of the calls compared; None is unknown."""
    notes: tuple[str, ...]
    """What a reader must know: calls left out, axes without a number, too few clusters."""
    alpha: float
    margin: float
    """Judges whose difference is shown to be less are equivalent."""
    n_calls: int
    """Calls of each judge that are compared."""
    baseline: str | None = None
    """The judge that the others are compared with; None: each with each."""
    leans: Mapping[str, Mapping[str, Finding]] = field(default_factory=dict)
    """Axis to judge to what was found: a lean has two bad ends, so that no difference says who is better."""

    def __repr__(self) -> str:
        return f"Contrasts({len(self.judges)} judges, {len(self.axes)} axes, {self.told})"

    @property
    def deciding(self) -> tuple[Difference, ...]:
        """The differences of the deciding family."""
        return tuple(difference for difference in self.differences if difference.family == "primary")

    @property
    def different(self) -> tuple[Difference, ...]:
        """The differences that are told apart, the surest first."""
        apart = [pair for pair in self.differences if pair.told_apart]
        return tuple(sorted(apart, key=lambda pair: pair.p_adjusted))

    @property
    def told(self) -> str:
        """How many differences of the deciding family are told apart, and how many are exploratory."""
        others = len(self.differences) - len(self.deciding)
        counted = f"{len(self.different)} of {len(self.deciding)} differences are significant at {self.alpha:g}"
        return f"{counted}; {others} more are exploratory" if others else counted

    def letters_of(self, axis: str, judge: str) -> str:
        """Return the letters of a judge; empty where nothing is told apart, or it has no number."""
        return self.letters.get(axis, {}).get(judge, "")

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return plain_fields(self)


def _mean_notes(tests: Sequence[str], common: Sequence[str]) -> list[str]:
    missing = ", ".join(axis_name(test) for test in tests if test not in common)
    note = f"The mean over tests leaves out {missing}: not every judge has a number there."
    return [note] if missing and common else []


def _left_out(given: Mapping[str, pd.DataFrame], calls: Mapping[str, pd.DataFrame]) -> list[str]:
    """Runs differ in length when one was truncated, or asked with other replicates."""
    kept = len(next(iter(calls.values())))
    longer = [f"{name} {len(frame)}" for name, frame in given.items() if len(frame) > kept]
    if not longer:
        return []
    return [f"Compared on the {kept} calls that every run has; calls of its own: {', '.join(longer)}."]


def _without(cells: Cells) -> list[str]:
    """Name the readings without a number and why; of a judge that has many such, the first of them."""
    missing: dict[str, dict[str, str]] = {}
    for axis, row in cells.items():
        for name, reading in row.items():
            if isinstance(reading, NotEstimable):
                missing.setdefault(name, {})[axis_name(axis)] = reason_text(reading.reason)
    notes = []
    for name, reasons in missing.items():
        if len(reasons) <= _MOST_REASONS:
            notes += [f"{axis} has no number for {name}: {reason}." for axis, reason in reasons.items()]
        else:
            axis, reason = next(iter(reasons.items()))
            notes.append(f"{len(reasons)} of {len(cells)} axes have no number for {name}, such as {axis}: {reason}.")
    return notes


def _loss_notes(differences: Sequence[Difference]) -> list[str]:
    """Say where nothing but lost calls keeps judges from being told apart, or from being called equivalent."""
    open_ones = [f"{axis_name(row.axis)} ({row.a} and {row.b})" for row in differences if row.open_by_losses]
    more = f" and {len(open_ones) - _MOST_REASONS} more" if len(open_ones) > _MOST_REASONS else ""
    named = ", ".join(open_ones[:_MOST_REASONS])
    return [f"Not decided: {named}{more}. Here {LOSSES_LEAVE_OPEN}."] if open_ones else []


def _alike_notes(differences: Sequence[Difference]) -> list[str]:
    """Say what would tell judges apart of which one answers each task alike, so that tasks count and not calls."""
    rows = [row for row in differences if row.tasks_to_tell is not None]
    return [
        f"{axis_name(row.axis)} ({row.a} and {row.b}): no significant difference, because one of them answers each "
        f"task alike so far and may fail whole tasks that were not asked. About {row.tasks_to_tell} tasks like these "
        "would show it."
        for row in rows[:_MOST_REASONS]
    ]


def _power(differences: Sequence[Difference]) -> list[str]:
    """Say when nothing could be told apart whatever the judges are: a sign flip of k clusters has p >= 2^(1 - k)."""
    deciding = [difference for difference in differences if difference.family == "primary"]
    if not deciding:
        return ["No deciding axis has a number for two judges: no difference can be significant."]
    most = max(difference.n_clusters for difference in deciding)
    if all(difference.detectable is None for difference in deciding):
        return [
            f"{most} independent sources are too few for {len(deciding)} comparisons: not even the largest difference "
            "would be significant. Look at the intervals, compare fewer judges or on fewer axes, or ask more sources."
        ]
    if most < FEW_CLUSTERS:
        return [f"Few independent sources ({most}): judges may differ all the same, see what is detectable."]
    return []
