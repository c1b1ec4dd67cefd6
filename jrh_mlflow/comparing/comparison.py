"""Several judges on the same suite: which can be told apart, on which test, by how much.

Units of one source (the perturbations of an item, the calls on a task) are not independent. Decisions therefore use a
sign-flip test on whole sources, adjusted by step-down max-T over the deciding axes × pairs of judges; McNemar's mid-p,
which takes units as independent, is printed beside it. The other axes are exploratory: shown, never decided.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd

from jrh_mlflow.comparing.contrasts import (
    ALPHA,
    MARGIN,
    Contrasts,
    Difference,
    Paired,
    comparison_notes,
    decided,
    mean_over_tests,
    paired_metric,
    paired_shares,
)
from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.measures.axes import headline_axes, lower_is_better
from jrh_mlflow.measures.records import has_steps, is_pointwise, normalise, shared_calls
from jrh_mlflow.measures.reliability import ALL, OVERALL, usd_per_accuracy_point
from jrh_mlflow.measures.unit_scores import ScoreTable, score_table, unit_scores
from jrh_mlflow.perturb import counted_once, expectation_of
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.schema.items import BASELINE
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED, Resampling, interval_method
from jrh_mlflow.scoring.metric import DEFAULT, Metric, find_metric, is_share
from jrh_mlflow.scoring.pointwise import PointTable, point_table
from jrh_mlflow.show.names import axis_name, reason_text
from jrh_mlflow.show.results import Datasheet, Report, measured
from jrh_mlflow.stats.paired import letters

ORDINAL_METRICS = ("ccc", "pearson", "spearman", "mae")

Cells = dict[str, dict[str, Reading]]


def compare_calls(
    judges: Mapping[str, pd.DataFrame],
    *,
    seed: int = 0,
    n_resamples: int = 2000,
    alpha: float = ALPHA,
    labels: Sequence[str] | None = None,
    max_excluded: float = MAX_EXCLUDED,
    metric: str | None = None,
    primary: Sequence[str] | None = None,
    baseline: str | None = None,
    margin: float = MARGIN,
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
        max_excluded: Withhold a number when more than this share of its calls gave no usable answer.
        metric: As for `measure`: labelled tests are then compared on the axes `<test>/<metric>`. There is no mean over
            tests with it.
        primary: Axes of the deciding family; the others are exploratory. When None, of a datasheet the headline axes,
            of reliability tests all and their mean.
        baseline: Name of the judge that the others are compared with; each with each when None.
        margin: Judges whose difference is shown to be less, either way, are equivalent.

    Raises:
        CallsError: when the records break a rule, share no call, or disagree on what an item is.
        RecipeError: when judges cannot be compared on a primary axis.
    """
    _check(judges, alpha=alpha, margin=margin, baseline=baseline)
    given = {name: normalise(calls) for name, calls in judges.items()}
    calls = shared_calls(given)
    chosen = find_metric(metric)
    reports = {
        name: measured(frame, labels=labels, max_excluded=max_excluded, resampling=Resampling(seed=seed), metric=chosen)
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
        named = {axis: f"{axis}/{chosen.name}" for axis in axes if expectation_of(axis).statistic == DEFAULT}
        table = replace(table, axis=np.array([named.get(axis, axis) for axis in table.axis], dtype=object))
        axes, tests = (tuple(named.get(axis, axis) for axis in each) for each in (axes, tests))
        primary = primary and [named.get(axis, axis) for axis in primary]
    cells: Cells = {axis: {name: _reading(report, axis) for name, report in reports.items()} for axis in axes}
    names = tuple(judges)
    # A metric is no mean over units, so that means over tests could not be told apart as shares can.
    numbered = [axis for axis in tests if all(isinstance(one, Estimate) for one in cells[axis].values())]
    common = numbered if chosen is None else []
    if len(common) > 1:
        cells[OVERALL] = {name: _overall(table.of(common), name, len(common), resampling) for name in names}
    family = _primary(primary, cells, has_tests=bool(tests))
    pairs = [*combinations(names, 2)] if baseline is None else [(name, baseline) for name in names if name != baseline]
    found = _paired(table, cells, pairs, resampling, common=common, alpha=alpha, metric=chosen, tables=tables)
    differences = decided(
        found, n_clusters=table.n_codes, primary=family, alpha=alpha, margin=margin, seed=resampling.seed
    )
    return Contrasts(
        judges=names,
        axes=axes,
        cells=cells,
        differences=tuple(differences),
        primary=family,
        letters={} if baseline else _letters(cells, differences),
        summaries=_summaries(cells, axes, _averaged(tests, chosen), names),
        ordinal=ordinal,
        costs={name: _cost(calls[name], report) for name, report in reports.items()},
        notes=(
            *_metric_notes(chosen, tests),
            *comparison_notes(
                given,
                calls,
                cells,
                differences,
                tests=tests,
                common=common,
                named=axis_name,
                reason_of=lambda missing: reason_text(missing.reason),
            ),
        ),
        alpha=alpha,
        margin=margin,
        n_calls=len(first),
        baseline=baseline,
    )


def _check(judges: Mapping[str, pd.DataFrame], *, alpha: float, margin: float, baseline: str | None) -> None:
    if len(judges) < 2 or not 0 < alpha < 0.5 or not margin > 0:
        raise ValueError(
            f"Two or more judges, `0 < alpha < 0.5` and `margin > 0` must hold, but got {list(judges)}, {alpha=}, "
            f"{margin=}."
        )
    if baseline is not None and baseline not in judges:
        raise ValueError(f"The baseline must be one of {list(judges)}, but got {baseline!r}.")


def _primary(asked: Sequence[str] | None, cells: Cells, *, has_tests: bool) -> tuple[str, ...]:
    """Return the axes that decide, in the order shown.

    Raises:
        RecipeError: when none is named, or judges cannot be compared on one of them here.
    """
    if asked is not None and not asked:
        raise RecipeError("`primary` names no axis: name one, or leave it out for the usual ones.")
    for axis in asked or ():
        if axis not in cells:
            close = suggest(axis, cells)
            raise RecipeError(
                f"Judges are not compared on {axis!r} here.{close} Axes of this suite: {', '.join(cells)}."
            )
    wanted = asked or (cells if has_tests else headline_axes())
    # A suite may have none of the headline axes.
    return tuple(axis for axis in cells if axis in wanted) or tuple(cells)


def _axes(table: ScoreTable, *, has_tests: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the axes in the order shown, and those of them that count as tests: none for a datasheet."""
    found = sorted(set(table.axis), key=_natural)
    if not has_tests:
        return tuple(found), ()
    tests = [axis for axis in found if axis != BASELINE]
    return (*([BASELINE] if BASELINE in found else []), *tests), tuple(counted_once(tests))


def _natural(axis: str) -> list[str | int]:
    """Sort key that puts `delta_2` before `delta_10`."""
    return [int(part) if part.isdigit() else part for part in re.split("([0-9]+)", axis)]


def _reading(report: Report, axis: str) -> Reading:
    if isinstance(report, Datasheet):
        return report.estimates[axis]
    missing = NotEstimable(reason=f"no {axis} calls")
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
    found = []
    for axis, row in cells.items():
        test, _, name = axis.rpartition("/")
        own = table.of(common if axis == OVERALL else [axis])
        for a, b in pairs:
            if not (isinstance(row[a], Estimate) and isinstance(row[b], Estimate)):
                continue
            if metric is not None and name == metric.name:
                calls = {judge: tables[judge].of(test) for judge in (a, b)}
                found.append(paired_metric(axis, calls, metric, resampling))
            else:
                found.append(paired_shares(own, axis, a, b, resampling, alpha=alpha))
    return [one for one in found if one is not None]


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
    for one in differences:
        if one.told_apart:
            apart.setdefault(one.axis, set()).add(frozenset((one.a, one.b)))
    return {axis: _axis_letters(axis, cells[axis], pairs) for axis, pairs in apart.items()}


def _axis_letters(axis: str, row: Mapping[str, Reading], apart: set[frozenset[str]]) -> dict[str, str]:
    """Give letters to the judges that have a number, best first."""
    sign = 1 if lower_is_better(axis) else -1
    values = {name: sign * one.value for name, one in row.items() if isinstance(one, Estimate)}
    ordered = sorted(values, key=values.__getitem__)
    return letters(ordered, lambda one, other: frozenset((one, other)) in apart)


def _summaries(
    cells: Cells, axes: Sequence[str], tests: Sequence[str], names: Sequence[str]
) -> dict[str, dict[str, dict[str, float | None]]]:
    by_judge = {name: _spread([cells[test][name] for test in tests]) for name in names} if tests else {}
    return {"by_judge": by_judge, "by_test": {axis: _spread(list(cells[axis].values())) for axis in axes}}


def _spread(readings: Sequence[Reading]) -> dict[str, float | None]:
    values = [one.value for one in readings if isinstance(one, Estimate)]
    if not values:
        return {"n": 0, **dict.fromkeys(("mean", "sd", "min", "max"))}
    return {
        "n": len(values),
        "mean": float(np.mean(values)),
        "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        "min": min(values),
        "max": max(values),
    }


def _ordinal(reports: Mapping[str, Report], axes: Sequence[str]) -> dict[str, dict[str, dict[str, Reading]]]:
    found = {
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
    return {axis: rows for axis, rows in found.items() if any(rows.values())}


def _cost(frame: pd.DataFrame, report: Report) -> dict[str, float | None]:
    costs = pd.to_numeric(frame["cost_usd"], errors="coerce") if "cost_usd" in frame else pd.Series([np.nan])
    usd = None if costs.isna().any() else float(costs.sum())
    accurate = report.estimates.get("natural/accuracy" if isinstance(report, Datasheet) else f"{ALL}/accuracy")
    share = accurate.value if isinstance(accurate, Estimate) else None
    return {"usd": usd, "usd_per_accuracy_point": usd_per_accuracy_point(usd, share)}
