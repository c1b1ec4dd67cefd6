"""Whole-number scales: how far the answers are from the expected levels."""

from __future__ import annotations

import numpy as np

from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.scoring.ledger import refuse, share
from jrh_mlflow.scoring.pointwise import PointTable
from jrh_mlflow.scoring.values import Resampling, Sample, Statistics, ratio
from jrh_mlflow.stats import Array
from jrh_mlflow.stats.agreement import concordance, mean_absolute_error, pearson, quadratic_kappa, spearman

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
