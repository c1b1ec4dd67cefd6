"""Replicates compared with each other: does the judge say the same when it is asked again?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.scoring.ledger import Units, refuse
from jrh_mlflow.scoring.pointwise import Counted, PointTable
from jrh_mlflow.scoring.values import Resampling, Sample, Statistics, ratio
from jrh_mlflow.stats import Array, Mask
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
    return Counted(units=items.units, hits=unanimous(_ratings(again, again.usable)), items=np.unique(again.item))


def stability_axes(calls: PointTable, name: str, resampling: Resampling) -> dict[str, Reading]:
    """Unanimity, flip rate, Krippendorff's alpha and Gwet's AC1 of the items with two or more replicates.

    Flip rate is the mean over items of the share of replicate pairs that differ. An unusable replicate is missing
    from its item; an abstention is an answer of its own, and missing from the alpha of a scale. A replicate left
    alone has nothing to agree with: it is left out with the others.
    """
    again = repeated(calls)
    axes = {f"{name}/unanimity": unanimity(calls, name).reading}
    what = f"{name} calls on items with two or more replicates"
    found = _agreement(again, again.units(what), resampling)
    if _level(calls) == "ordinal" and (again.outcome == "abstain").any():
        found |= {"krippendorff_alpha": _agreement(again, again.verdicts(what), resampling)["krippendorff_alpha"]}
    # The one share among them, though it is averaged over items.
    found["flip_rate"] = replace(found["flip_rate"], statistic="rate")
    return axes | {f"{name}/{axis}": reading for axis, reading in found.items()}


def _agreement(calls: PointTable, units: Units, resampling: Resampling) -> dict[str, Reading]:
    """Values of the items with two or more of the usable `units`, which are the calls."""
    n_labels, level = len(calls.scale.labels), _level(calls)
    ratings = _ratings(calls, units.usable)
    flips = disagreement(ratings)
    rated = ~np.isnan(flips)
    items = calls.items("items")
    reason = refuse(replace(units, usable=units.usable & rated[items.of_call]), statistic="value")
    if reason is not None:
        return dict.fromkeys(AGREEMENT_VALUES, reason)
    n_categories = max(2, n_labels + bool((calls.outcome == "abstain").any()))
    values = {
        "flip_rate": float(flips[rated].mean()),
        "krippendorff_alpha": krippendorff_alpha(ratings[rated], level=level),
        "gwet_ac1": gwet_ac1(ratings[rated], n_categories=n_categories),
    }
    features, statistics = agreement_statistics(
        ratings[rated], level=level, n_labels=n_labels, n_categories=n_categories
    )
    sample = Sample(
        units=replace(items.units, usable=rated, left_out=units.left_out),
        features=features,
        items=np.unique(calls.item)[rated],
    )
    without = "no variation: every replicate of every item is the same answer"
    return sample.readings(values, statistics, resampling, without=without)


def _level(calls: PointTable) -> Level:
    return "ordinal" if calls.scale.kind == "ordinal" else "nominal"


def _ratings(calls: PointTable, usable: Mask) -> Array:
    """Items × replicates as places among the labels, an abstention after them; NaN for what is unusable or missing."""
    abstains = usable & (calls.outcome == "abstain")
    places = np.where(abstains, float(len(calls.scale.labels)), calls.scale.places(calls.answer))
    items = calls.items("items")
    sizes = items.sizes
    order = np.argsort(items.of_call, kind="stable")
    column = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ratings: Array = np.full((len(sizes), int(sizes.max(initial=0))), np.nan)
    ratings[items.of_call[order], column] = places[order]
    return ratings


def agreement_statistics(ratings: Array, *, level: Level, n_labels: int, n_categories: int) -> tuple[Array, Statistics]:
    """Return what to sum over items (each with two or more ratings), and the three values as functions of the sums."""
    counts = _counts(ratings, n_labels + 1)
    shares = counts / counts.sum(axis=1, keepdims=True)
    pairs = counts / (counts.sum(axis=1, keepdims=True) - 1)
    coincidences = (counts[:, :, None] * pairs[:, None, :]).reshape(len(ratings), -1)
    features = np.column_stack([np.ones(len(ratings)), disagreement(ratings), shares, counts, coincidences])
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
