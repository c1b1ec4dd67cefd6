"""Alternative annotator test: may a judge take the place of a person, seen from the other people?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from jrh_mlflow.stats import Array, Mask

FEWEST_ITEMS = 30
"""A person with fewer items is left out: the t test needs them."""
FALSE_DISCOVERY = 0.05

Likeness = Literal["same", "distance"]
"""How a label agrees with others: the share that are the same, or minus their root mean square difference."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnnotatorTest:
    """The test for each person, in the order of the columns; NaN for a person left out."""

    tested: Mask
    n: Array
    """Items of the person that count: with another person's label and the judge's."""
    judge_wins: Array
    """Items × people: 1 where the judge agrees with the others at least as well as the person, 0 where not, or NaN."""
    person_wins: Array
    advantage: Array
    """rho_f: mean of `judge_wins`."""
    person_advantage: Array
    """rho_j: mean of `person_wins`."""
    p: Array
    adjusted: Array
    """p values after Benjamini-Yekutieli."""
    rejected: Mask

    @property
    def winning_rate(self) -> float:
        """omega: share of the people tested for whom the judge holds; NaN where nobody was tested."""
        return float(self.rejected[self.tested].mean()) if self.tested.any() else math.nan

    @property
    def advantage_probability(self) -> float:
        """rho: mean of rho_f over the people tested; NaN where nobody was tested."""
        return float(self.advantage[self.tested].mean()) if self.tested.any() else math.nan


def annotator_test(
    people: Array, judge: Array, *, likeness: Likeness, epsilon: float = 0.2, fewest: int = FEWEST_ITEMS
) -> AnnotatorTest:
    """Compare judge and person j, item by item, by their agreement S with the other people.

    `W_f = [S(judge) >= S(j)]`, `W_j = [S(j) >= S(judge)]` (a tie is a win of both), `rho_f` and `rho_j` their means.
    H0 for person j is `rho_f <= rho_j - epsilon`, by a one-sided t test of `W_j - W_f` against epsilon; where the
    differences do not vary p is 0 or 1 by the side they lie on. Benjamini-Yekutieli over people at 5 %, because people
    are compared on shared items. Items with fewer than two people or without a judge's label, and people with fewer
    than `fewest` such items, are left out; the labels of those people still count as those of others.

    Agreement is compared as computed, without a tolerance, as in the authors' implementation: of decimal fractions two
    equal distances may differ in the last bit.

    Reference:
        Calderon, Reichart & Dror (2025), ACL, 16051-16081 (arXiv 2501.10970); github.com/nitaytech/AltTest.

    Args:
        people: Items × people, NaN where there is no label.
        judge: One label per item, NaN where there is none.
        likeness: `same` for names, `distance` for ordinal and numeric labels.
        epsilon: How much worse than a person the judge may be.
        fewest: Items that a person must have.

    Example:
        >>> people = np.tile([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]], (20, 1))
        >>> found = annotator_test(people, people[:, 0], likeness="same")
        >>> found.winning_rate, found.advantage_probability
        (1.0, 1.0)
    """
    if not 0 <= epsilon <= 1:
        raise ValueError(f"`0 <= epsilon <= 1` must hold, but got {epsilon=}.")
    usable = ((~np.isnan(people)).sum(axis=1) >= 2) & ~np.isnan(judge)
    judge_wins, person_wins = np.full(people.shape, np.nan), np.full(people.shape, np.nan)
    for j in range(people.shape[1]):
        mine = usable & ~np.isnan(people[:, j])
        others = np.delete(people[mine], j, axis=1)
        judge_score, person_score = (_agreement(own[mine], others, likeness) for own in (judge, people[:, j]))
        judge_wins[mine, j], person_wins[mine, j] = judge_score >= person_score, person_score >= judge_score
    n = (~np.isnan(judge_wins)).sum(axis=0).astype(float)
    tested = n >= fewest
    p = np.full(people.shape[1], np.nan)
    for j in np.flatnonzero(tested).tolist():
        p[j] = _p_value((person_wins - judge_wins)[~np.isnan(judge_wins[:, j]), j], epsilon)
    adjusted = p.copy()
    if tested.any():
        adjusted[tested] = stats.false_discovery_control(p[tested], method="by")
    return AnnotatorTest(
        tested=tested,
        n=n,
        judge_wins=judge_wins,
        person_wins=person_wins,
        advantage=_means(judge_wins, n),
        person_advantage=_means(person_wins, n),
        p=p,
        adjusted=adjusted,
        rejected=tested & (np.nan_to_num(adjusted, nan=1.0) <= FALSE_DISCOVERY),
    )


def _agreement(own: Array, others: Array, likeness: Likeness) -> Array:
    """Agreement of each label with those of the others that are there; every row has one."""
    given = ~np.isnan(others)
    if likeness == "same":
        same: Array = ((others == own[:, None]) & given).sum(axis=1) / given.sum(axis=1)
        return same
    squares = np.where(given, np.square(own[:, None] - others), 0.0)
    distance: Array = -np.sqrt(squares.sum(axis=1) / given.sum(axis=1))
    return distance


def _p_value(differences: Array, epsilon: float) -> float:
    """One-sided p of a mean under epsilon."""
    mean, n = float(differences.mean()), len(differences)
    if np.ptp(differences) == 0:
        return 0.0 if mean < epsilon else 1.0
    t = (mean - epsilon) / (float(differences.std(ddof=1)) / math.sqrt(n))
    return float(stats.t.cdf(t, n - 1))


def _means(wins: Array, n: Array) -> Array:
    means: Array = np.full(len(n), np.nan)
    np.divide(np.nansum(wins, axis=0), n, out=means, where=n > 0)
    return means
