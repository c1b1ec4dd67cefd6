"""Replicates compared with each other: does the judge say the same when it is asked again?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jrh_mlflow.measures.ledger import refuse
from jrh_mlflow.measures.reliability.accuracy import Counted
from jrh_mlflow.measures.reliability.points import PointTable
from jrh_mlflow.measures.values import Array, Resampling, Sample, Statistics, ratio
from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.stats.agreement import Level, disagreement, gwet_ac1, krippendorff_alpha, unanimous

AGREEMENT_VALUES = ("flip_rate", "krippendorff_alpha", "gwet_ac1")


def repeated(calls: PointTable) -> PointTable:
    """Return the calls on items that were asked about twice or more."""
    items = calls.items("items")
    return calls.where(np.asarray(items.sizes[items.of_call] >= 2))


def unanimity(calls: PointTable, name: str) -> Counted:
    """Items whose replicates are all the same answer; an item with an unusable replicate leaves the denominator."""
    again = repeated(calls)
    items = again.items(f"{name} items with two or more replicates")
    return Counted(units=items.units, hits=unanimous(_ratings(again, abstain=float(len(again.scale.labels)))))


def stability_axes(calls: PointTable, name: str, resampling: Resampling) -> dict[str, Reading]:
    """Unanimity, flip rate, Krippendorff's alpha and Gwet's AC1 of the items with two or more replicates.

    Flip rate is the mean over items of the share of replicate pairs that differ. An unusable replicate is missing
    from its item; an abstention is an answer of its own, and missing from the alpha of a scale.
    """
    again = repeated(calls)
    axes = {f"{name}/unanimity": unanimity(calls, name).reading}
    reason = refuse(again.units(f"{name} calls on items with two or more replicates"))
    if reason is not None:
        return axes | {f"{name}/{axis}": reason for axis in AGREEMENT_VALUES}
    found = _agreement(again, name, resampling)
    return axes | {f"{name}/{axis}": reading for axis, reading in found.items()}


def _agreement(calls: PointTable, name: str, resampling: Resampling) -> dict[str, Reading]:
    n_labels = len(calls.scale.labels)
    ratings = _ratings(calls, abstain=float(n_labels))
    flips = disagreement(ratings)
    rated = ~np.isnan(flips)
    items = calls.items(f"{name} items with two or more usable replicates")
    units = replace(items.units, usable=rated)
    codes = np.unique(calls.item)[rated]
    level: Level = "ordinal" if calls.scale.kind == "ordinal" else "nominal"
    graded = _ratings(calls, abstain=np.nan) if level == "ordinal" else ratings
    n_categories = max(2, n_labels + bool((calls.outcome == "abstain").any()))
    values = {
        "flip_rate": float(flips[rated].mean()) if rated.any() else None,
        "krippendorff_alpha": krippendorff_alpha(graded[rated], level=level),
        "gwet_ac1": gwet_ac1(ratings[rated], n_categories=n_categories),
    }
    features, statistics = agreement_statistics(
        ratings[rated], graded[rated], level=level, n_labels=n_labels, n_categories=n_categories
    )
    without = "no variation: every replicate of every item is the same answer"
    sample = Sample(units=units, features=features, items=codes)
    return sample.readings(values, statistics, resampling, without=without)


def _ratings(calls: PointTable, *, abstain: float) -> Array:
    """Items × replicates as places among the labels; NaN for what is unusable or was not asked."""
    places = np.where(calls.outcome == "abstain", abstain, calls.scale.places(calls.answer))
    items = calls.items("items")
    sizes = items.sizes
    order = np.argsort(items.of_call, kind="stable")
    column = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ratings: Array = np.full((len(sizes), int(sizes.max(initial=0))), np.nan)
    ratings[items.of_call[order], column] = places[order]
    return ratings


def agreement_statistics(
    ratings: Array, graded: Array, *, level: Level, n_labels: int, n_categories: int
) -> tuple[Array, Statistics]:
    """Return what to sum over items (each with two or more ratings), and the three values as functions of the sums."""
    counts = _counts(ratings, n_labels + 1)
    shares = counts / counts.sum(axis=1, keepdims=True)
    on_scale = _counts(graded, n_labels + 1)
    on_scale = np.where(on_scale.sum(axis=1, keepdims=True) >= 2, on_scale, 0)
    pairs = on_scale / np.maximum(on_scale.sum(axis=1, keepdims=True) - 1, 1)
    coincidences = (on_scale[:, :, None] * pairs[:, None, :]).reshape(len(ratings), -1)
    features = np.column_stack([np.ones(len(ratings)), disagreement(ratings), shares, on_scale, coincidences])
    width = n_labels + 1

    def statistics(sums: Array) -> dict[str, Array]:
        n, flips, chance, totals, together = np.split(sums, [1, 2, 2 + width, 2 + 2 * width], axis=1)
        flip_rate = ratio(flips, n)[:, 0]
        pi = chance / n
        expected = (pi * (1 - pi)).sum(axis=1) / (n_categories - 1)
        return {
            "flip_rate": flip_rate,
            "krippendorff_alpha": _alpha(totals, together.reshape(-1, width, width), level),
            "gwet_ac1": ratio(1 - flip_rate - expected, 1 - expected),
        }

    return features, statistics


def _alpha(totals: Array, together: Array, level: Level) -> Array:
    place = np.cumsum(totals, axis=1) - totals / 2
    if level == "ordinal":
        distances = np.square(place[:, :, None] - place[:, None, :])
    else:
        distances = np.broadcast_to(1 - np.eye(totals.shape[1]), together.shape)
    observed = (together * distances).sum(axis=(1, 2))
    expected = np.einsum("bi,bij,bj->b", totals, distances, totals)
    return 1 - ratio((totals.sum(axis=1) - 1) * observed, expected)


def _counts(ratings: Array, width: int) -> Array:
    return np.stack([(ratings == category).sum(axis=1) for category in range(width)], axis=1).astype(float)
