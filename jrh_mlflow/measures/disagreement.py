"""How much judges differ on each item: the mean distance between what any two of them answered, from 0 to 1."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Shares = NDArray[np.float64]


def answer_shares(items: ArrayLike, judges: ArrayLike, answers: ArrayLike, *, shape: Sequence[int]) -> Shares:
    """Return the share of each answer among the usable calls of a judge on an item; NaN where it has none.

    Args:
        items: Code of the item of each call.
        judges: Of its judge.
        answers: Of what was answered; below 0 where nothing usable was.
        shape: How many items, judges and answers there are.
    """
    counts = np.zeros(tuple(shape))
    usable = np.asarray(answers) >= 0
    np.add.at(counts, tuple(np.asarray(codes)[usable] for codes in (items, judges, answers)), 1)
    total = counts.sum(axis=2, keepdims=True)
    return np.asarray(np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0))


def mean_distance(shares: Shares, positions: Sequence[float] | None = None) -> Shares:
    """Return for each item the mean over pairs of judges of the distance between their answers.

    Of labels it is ½ Σ |p − q|, the share of answers that would have to change (total variation); of a scale the area
    between both distribution functions over its length, so that 4 and 5 differ less than 1 and 5. Both are 0 where all
    answer alike and 1 where every two answer as differently as they can. Judges without a usable answer are left out;
    NaN where fewer than two are left.

    Args:
        shares: Items × judges × answers, as `answer_shares` returns them.
        positions: Of the answers on a scale, rising; None of labels.

    Example:
        >>> both = answer_shares([0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1], shape=(2, 2, 2))
        >>> mean_distance(both).tolist()
        [0.0, 1.0]
    """
    total, known = np.zeros(len(shares)), np.zeros(len(shares))
    for a, b in combinations(range(shares.shape[1]), 2):
        apart = shares[:, a] - shares[:, b]
        if positions is None or len(positions) < 2:
            distance = 0.5 * np.abs(apart).sum(axis=1)
        else:
            steps = np.diff(positions) / (positions[-1] - positions[0])
            distance = np.abs(np.cumsum(apart, axis=1))[:, :-1] @ steps
        both = ~np.isnan(distance)
        total[both] += distance[both]
        known += both
    return np.asarray(np.divide(total, known, out=np.full(len(shares), np.nan), where=known > 0))
