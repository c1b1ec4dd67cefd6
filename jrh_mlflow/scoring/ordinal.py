"""Whole-number scales: how far the answers are from the expected levels.

Errors put into a response in graded doses: the answer should fall, and fall further with each dose.
"""

from __future__ import annotations

import re

import numpy as np

from jrh_mlflow.schema.calls import USABLE
from jrh_mlflow.schema.estimates import NotEstimable, Reading
from jrh_mlflow.schema.items import ERROR_INJECTION
from jrh_mlflow.scoring.accuracy import ORDER_UNKNOWN, Counted
from jrh_mlflow.scoring.answers import PointTable, left_out
from jrh_mlflow.scoring.ledger import Units, refuse, share
from jrh_mlflow.scoring.values import Array, Resampling, Sample, Statistics, ratio
from jrh_mlflow.stats.agreement import quadratic_kappa
from jrh_mlflow.stats.association import concordance, mean_absolute_error, pearson, spearman

ORDINAL_VALUES = ("mae", "ccc", "pearson", "spearman", "qwk")


def ordinal_axes(calls: PointTable, name: str, resampling: Resampling) -> dict[str, Reading]:
    """MAE, CCC, Pearson, Spearman and quadratic kappa of (expected, answer), and the share within one level.

    An abstention has no level: it is left out of the values and counted beside them; it is not within one.
    """
    judged = calls.where(calls.expected != "")
    what = f"{name} calls with an expected answer"
    expected, given = judged.scale.levels(judged.expected), judged.scale.levels(judged.answer)
    near = np.abs(np.nan_to_num(expected - given, nan=np.inf)) <= 1
    axes = {f"{name}/within_one": share(judged.units(what), near)}
    units = judged.verdicts(what)
    reason = refuse(units, statistic="value")
    if reason is not None:
        return {f"{name}/{axis}": reason for axis in ORDINAL_VALUES} | axes
    x, y = expected[units.usable], given[units.usable]
    lowest, highest = min(map(float, judged.scale.labels)), max(map(float, judged.scale.labels))
    values = {
        "mae": mean_absolute_error(x, y),
        "ccc": concordance(x, y),
        "pearson": pearson(x, y),
        "spearman": spearman(x, y),
        "qwk": quadratic_kappa(x - lowest, y - lowest, n_levels=int(highest - lowest) + 1),
    }
    cells, cell = np.unique(np.stack([x, y]), axis=1, return_inverse=True)
    sample = Sample(units=units, features=np.eye(cells.shape[1])[cell.ravel()], items=judged.item[units.usable])
    without = f"no variation among the {what}, or fewer than three of them"
    found = sample.readings(values, cell_statistics(cells[0], cells[1]), resampling, without=without)
    return {f"{name}/{axis}": reading for axis, reading in found.items()} | axes


def cell_statistics(x: Array, y: Array) -> Statistics:
    """Return the five values as functions of how often each cell (x, y) was drawn."""

    def statistics(counts: Array) -> dict[str, Array]:
        n = counts.sum(axis=1)
        var_x, var_y, cov, shift = _moments(counts, np.broadcast_to(x, counts.shape), np.broadcast_to(y, counts.shape))
        ccc = ratio(2 * cov, var_x + var_y + shift * shift)
        rank_x, rank_y, cov_rank, _ = _moments(counts, _mid_ranks(counts, x), _mid_ranks(counts, y))
        return {
            "mae": ratio(counts @ np.abs(x - y), n),
            "ccc": ccc,
            "pearson": ratio(cov, np.sqrt(var_x * var_y)),
            "spearman": ratio(cov_rank, np.sqrt(rank_x * rank_y)),
            # On levels one apart the quadratic kappa is the concordance of the indices.
            "qwk": ccc,
        }

    return statistics


def _moments(counts: Array, x: Array, y: Array) -> tuple[Array, Array, Array, Array]:
    """Population variances, covariance and difference of means, row by row."""
    weights = counts / counts.sum(axis=1, keepdims=True)
    mean_x, mean_y = (weights * x).sum(axis=1), (weights * y).sum(axis=1)
    dx, dy = x - mean_x[:, None], y - mean_y[:, None]
    moments = [(weights * product).sum(axis=1) for product in (dx * dx, dy * dy, dx * dy)]
    # What is left of a constant by rounding is no variation.
    var_x, var_y, cov = (np.where(np.abs(moment) < 1e-12, 0.0, moment) for moment in moments)
    return var_x, var_y, cov, mean_x - mean_y


def _mid_ranks(counts: Array, levels: Array) -> Array:
    _, place = np.unique(levels, return_inverse=True)
    totals = counts @ np.eye(int(place.max()) + 1)[place]
    ranks: Array = (np.cumsum(totals, axis=1) - totals / 2)[:, place]
    return ranks


_DOSE = re.compile(rf"{ERROR_INJECTION}_([0-9]+)")
_UNKNOWN = NotEstimable(reason=ORDER_UNKNOWN.format(what="highest"))


def dose_of(test: str) -> int | None:
    """Return the dose of `error_injection_2`, None for other tests."""
    found = _DOSE.fullmatch(test)
    return int(found[1]) if found else None


def doses(calls: PointTable) -> list[str]:
    """Return the dose conditions there are, from the smallest on."""
    return sorted((test for test in set(calls.test) if dose_of(test) is not None), key=lambda test: dose_of(test) or 0)


def dose_axes(calls: PointTable) -> dict[str, Reading]:
    """Decline at each dose (calls strictly below the judge's own baseline answer), and the monotone share of sources.

    A judge that gives the lowest label to the unperturbed response cannot decline and does not count as declining.
    """
    found = doses(calls)
    if not found:
        return {}
    axes = {f"{test}/decline": _decline(calls.of(test), test) for test in found}
    counted = monotone(calls)
    return axes | {f"{ERROR_INJECTION}/monotone": _UNKNOWN if counted is None else counted.reading}


def monotone(calls: PointTable) -> Counted | None:
    """Sources whose answers never rise over baseline, dose 1, 2, … and end strictly below the baseline.

    Every replicate must (the r-th of each dose, counted round where a dose has fewer). Sources are those with one
    baseline item and every dose; one with an unusable call leaves the denominator, and an abstention is not monotone.

    Returns:
        What to count, or None when the order of the labels is not known.
    """
    if not calls.scale.ordered:
        return None
    places = calls.scale.places(calls.answer)
    rows = _sequences(calls)
    sources = np.array(sorted(rows), dtype=np.intp)
    outcomes = [calls.outcome[np.concatenate(rows[source])] for source in sources]
    unusable = [outcome[~np.isin(outcome, USABLE)] for outcome in outcomes]
    units = Units(
        what=f"sources with a baseline and every dose of {ERROR_INJECTION}",
        unit="item",
        usable=np.array([len(lost) == 0 for lost in unusable], dtype=bool),
        clusters=sources,
        n_codes=calls.n_sources,
        left_out=left_out(np.concatenate([*unusable, np.array([], dtype=object)])),
        max_excluded=calls.max_excluded,
    )
    hits = [_falls([places[stage] for stage in rows[source]]) for source in sources]
    return Counted(units=units, hits=np.array(hits, dtype=bool))


def _decline(calls: PointTable, test: str) -> Reading:
    if not calls.scale.ordered:
        return _UNKNOWN
    paired = calls.where(calls.base_outcome != "")
    # NaN, for an abstention, is below nothing.
    below = paired.scale.places(paired.answer) < paired.scale.places(paired.base_answer)
    return share(paired.paired(f"{test} calls with a baseline"), below)


def _sequences(calls: PointTable) -> dict[int, list[np.ndarray[tuple[int], np.dtype[np.intp]]]]:
    """Rows of the baseline and of each dose, for the sources that have one baseline item and all doses."""
    stages = [np.asarray(calls.test == test) for test in ("baseline", *doses(calls))]
    found = {}
    for source in np.unique(calls.source[calls.n_bases == 1]):
        own = [np.flatnonzero(stage & (calls.source == source)) for stage in stages]
        if all(len(stage) for stage in own):
            found[int(source)] = own
    return found


def _falls(stages: list[np.ndarray[tuple[int], np.dtype[np.float64]]]) -> bool:
    replicates = np.arange(max(len(stage) for stage in stages))
    levels = np.stack([stage[replicates % len(stage)] for stage in stages])
    # NaN, for an abstention, makes every comparison false.
    return bool((np.diff(levels, axis=0) <= 0).all() and (levels[-1] < levels[0]).all())
