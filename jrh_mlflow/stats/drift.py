"""Anytime-valid tests of change: the answers to a frozen panel, asked again and again, against its earlier answers.

Within an item all asks are exchangeable as long as nothing changes. Given the bag of all answers to an item so far, the
newest is then a uniform draw from it, so the sum of a score over the newest answers has a known distribution: a
convolution over the items. Its randomised p is uniform, and independent of the p of every other look: later ones depend
on the bag, never on the order in it. No answer is taken for the truth, the first ones no more than the others.

The p of each look becomes a normal score z, and is bet on: `exp(a z - a^2 / 2)` has the mean 1 while nothing changes,
so the wealth of a mixture of bets passes `1 / alpha` with a chance of at most alpha over all looks together, for ever
(Ville). The mixture holds sizes `a` in both directions and a starting look each, with the weight `1 / (t (t + 1))`.
After a change at look t the bag fills with changed answers: of a shift only `n / (n + k)` is left at the k-th look
after it, n asks being older than the change. Bets that start at t shrink by the same share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from jrh_mlflow.stats import Array, Codes, Interval

SIZES = (0.15, 0.4, 1.0, 2.0, 3.5)
"""Bets, in standard errors of one look; each in both directions."""
RARITY_LEVELS = 4
"""Steps in which `rarity` tells how rare an answer is in its bag."""
_TINY = 1e-300


@dataclass(frozen=True, kw_only=True, slots=True)
class LookScore:
    """What one look says of one axis; a row for each judge."""

    z: Array
    """Standard normal while nothing changes; positive where the newest answers score high."""
    variance: Array
    """Of the sum over the newest answers, given the bags."""


def look_score(levels: Codes, counts: Array, newest: Codes, uniform: Array) -> LookScore:
    """Score the newest answers of a panel against the bags that they are drawn from.

    Args:
        levels: Score of each answer, an integer from 0; judges (or 1) x items x answers.
        counts: How often each item got each answer so far, the newest included; judges x items x answers.
        newest: Code of the newest answer, -1 where there is none; judges x items. Such items are left out.
        uniform: One draw from [0, 1) for each judge: what makes p uniform where sums repeat.

    Example:
        One item that was answered 0 six times, and now 1: a chance of one in seven.

        >>> counts, newest = np.array([[[6.0, 1.0]]]), np.array([[1]])
        >>> float(special.ndtr(look_score(np.array([[[0, 1]]]), counts, newest, np.array([0.0])).z[0]).round(3))
        0.857
    """
    here = newest >= 0
    shares = np.where(here[..., None], counts, 0.0)
    shares /= np.maximum(shares.sum(axis=-1, keepdims=True), 1.0)
    levels = np.broadcast_to(levels, counts.shape)
    n_levels = int(levels.max(initial=0)) + 1
    by_level = np.stack([np.where(levels == level, shares, 0.0).sum(axis=-1) for level in range(n_levels)])
    # An item without an answer adds 0 for sure.
    by_level[0] += ~here
    means = np.tensordot(np.arange(n_levels), by_level, axes=1)
    squares = np.tensordot(np.arange(n_levels) ** 2, by_level, axes=1)
    own = np.take_along_axis(levels, np.maximum(newest, 0)[..., None], axis=-1)[..., 0]
    total = np.where(here, own, 0).sum(axis=-1)
    below, equal, above = _sum_places(by_level, total)
    # From the nearer end: 1 - p of a tiny p would be rounded away.
    low, high = (np.maximum(p, _TINY) for p in (below + uniform * equal, above + (1 - uniform) * equal))
    z = np.where(low < high, special.ndtri(np.minimum(low, 1.0)), -special.ndtri(np.minimum(high, 1.0)))
    return LookScore(z=np.asarray(z), variance=(squares - means**2).sum(axis=-1))


def _sum_places(by_level: Array, total: Codes) -> tuple[Array, Array, Array]:
    """Chances that the sum over the items lies below, at and above each judge's total; levels x judges x items in."""
    n_levels, n_judges, n_items = by_level.shape
    # Two halves: where their sums meet the total is counted without the chances of all sums of both.
    padded = np.zeros((n_levels, n_judges, n_items + n_items % 2))
    padded[0, :, n_items:], padded[..., :n_items] = 1.0, by_level
    first, second = np.moveaxis(_sum_chances(padded.reshape(n_levels, n_judges, 2, -1)), 2, 0)
    n, rest = len(first), total - np.arange(len(first))[:, None]

    def met(chances: Array, rest: Codes, *ends: float) -> Array:
        low, high = (np.full((1, n_judges), end) for end in ends)
        rows = np.take_along_axis(np.concatenate([low, chances, high]), np.clip(rest, -1, n) + 1, axis=0)
        return np.asarray((first * rows).sum(axis=0))

    below, above = second.cumsum(axis=0), second[::-1].cumsum(axis=0)[::-1]
    return met(below, rest - 1, 0.0, 1.0), met(second, rest, 0.0, 0.0), met(above, rest + 1, 1.0, 0.0)


def _sum_chances(by_level: Array) -> Array:
    """Chances of each sum over the items; levels x judges x ... x items in, sums x judges x ... out."""
    n_levels, *shape, n_items = by_level.shape
    chances, longer, part = (np.zeros((n_items * (n_levels - 1) + 1, *shape)) for _ in range(3))
    chances[0] = 1.0
    for item, own in enumerate(np.ascontiguousarray(np.moveaxis(by_level, -1, 0))):
        n = item * (n_levels - 1) + 1
        np.multiply(chances[:n], own[0], out=longer[:n])
        longer[n : n + n_levels - 1] = 0.0
        for level in range(1, n_levels):
            longer[level : level + n] += np.multiply(chances[:n], own[level], out=part[:n])
        chances, longer = longer, chances
    return chances


def rarity(counts: Array) -> Codes:
    """Level of each answer by how rare it is in its bag: 0 where all say it, up to `RARITY_LEVELS`.

    The score of "any answer changed": an answer that came up anew is rare, whatever it means for an axis.
    """
    shares = counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1.0)
    return np.asarray(np.rint(RARITY_LEVELS * (1 - shares)), dtype=np.intp)


class Bets:
    """Wealth of the bets on one axis, look by look; a row for each judge."""

    def __init__(self, n_judges: int = 1, *, n_reference: int) -> None:
        """Begin with the wealth 1.

        Args:
            n_judges: How many are watched side by side.
            n_reference: Asks of each item before the first look.
        """
        self.n_reference = n_reference
        self._sums, self._information = np.zeros((n_judges, 0)), np.zeros(0)

    def bet(self, z: Array) -> Array:
        """Add a look and return the logarithm of the wealth after it."""
        starts = np.arange(1, len(self._information) + 2)
        look = len(starts)
        share = undiluted(starts, look, self.n_reference)
        self._information = np.append(self._information, 0.0) + share**2
        self._sums = np.pad(self._sums, ((0, 0), (0, 1))) + z[:, None] * share
        weights = -np.log(starts * (starts + 1.0)) - math.log(2 * len(SIZES))
        most = (self._won() + weights).max(axis=1)
        # Single precision is ten times as quick, and errs in the seventh digit of the wealth.
        sums, information = self._sums.astype(np.float32), self._information.astype(np.float32)
        weights, shift, rest = weights.astype(np.float32), most.astype(np.float32)[:, None], np.zeros(len(z))
        for size in map(np.float32, SIZES):
            base, gains = weights - size * size / 2 * information - shift, size * sums
            for logs in (base + gains, base - gains):
                rest += np.exp(logs, out=logs).sum(axis=1)
        # Bets that have not started yet hold what is left of the weights: 1 / (look + 1).
        return np.asarray(np.logaddexp(most + np.log(rest), -math.log(look + 1)))

    def began(self) -> Codes:
        """Return the starting look of the bet that has won most: where a change would most likely have begun."""
        return np.asarray(self._won().argmax(axis=1) + 1)

    def _won(self) -> Array:
        """Logarithm of what a bet of the best size has won from each look on; judges x starts."""
        sums = np.abs(self._sums)
        sizes = np.minimum(sums / self._information, SIZES[-1])
        return np.asarray(sizes * (sums - sizes / 2 * self._information))


def undiluted(start: Codes, look: int, n_reference: int) -> Array:
    """Share of a shift from look `start` on that is left at a look, for the bag holds changed answers by then.

    Example:
        >>> undiluted(np.array([1, 50]), 50, 6).round(2)
        array([0.11, 0.98])
    """
    older = n_reference + start - 1.0
    return np.asarray(older / (older + look - start + 1.0))


def detectable_change(n_items: int, noise: float, n_looks: int, *, n_reference: int, threshold: float) -> float | None:
    """Least change of a mean, from the first look on, that would have been seen by now with a chance of 80 %.

    By the normal approximation of the bets that start at the first look, so that the wealth is no less.

    Args:
        n_items: Calls per look on the axis.
        noise: Variance of one answer's score around its item's mean.
        n_looks: So far.
        n_reference: Asks of each item before the first look.
        threshold: Logarithm of the wealth that alarms.

    Returns:
        The change of a score from 0 to 1; None where none would have been seen.
    """
    shares = n_reference / (n_reference + np.arange(1.0, n_looks + 1))
    information, left = np.cumsum(shares**2), n_reference / (n_reference + 1)
    needed = threshold + math.log(2 * 2 * len(SIZES))

    def is_seen(change: float) -> bool:
        # A judge without noise varies once it has changed: its bags then hold both answers.
        spread = noise + change * left * (1 - left)
        by_one = math.sqrt(n_items / max(spread, 1e-12))
        # How many calls a change of this size turns is itself a matter of chance.
        turned = change * (1 - change) / n_items
        error = np.sqrt(information + turned * (by_one * information) ** 2)
        # A little more than 80 %: of few calls the normal approximation promises too much.
        mean = by_one * change * information - special.ndtri(0.87) * error
        return bool(max((size * mean - size**2 * information / 2).max(initial=-1.0) for size in SIZES) >= needed)

    grid = np.linspace(0.01, 1.0, 100)
    return next((float(change) for change in grid if is_seen(float(change))), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchedAxis:
    """A score of some items of a panel."""

    name: str
    items: Codes
    levels: Codes | None
    """Score of each answer to each of the items, an integer from 0; -1 where an answer has none. None: `rarity`."""

    @property
    def width(self) -> int:
        """Levels between the least and the greatest score."""
        return RARITY_LEVELS if self.levels is None else max(1, int(self.levels.max()))


class PanelTests:
    """A panel that is asked again and again, with a test for each axis; a row for each judge."""

    def __init__(
        self, axes: Sequence[WatchedAxis], n_answers: int, *, n_items: int, n_judges: int = 1, n_reference: int
    ) -> None:
        """Begin with empty bags.

        Args:
            axes: What is tested.
            n_answers: Codes of answers.
            n_items: Calls of the panel.
            n_judges: How many are watched side by side.
            n_reference: Asks of each item before the first look.
        """
        self.axes, self.n_looks = tuple(axes), 0
        self.counts = np.zeros((n_judges, n_items, n_answers))
        self.variances: dict[str, list[Array]] = {axis.name: [] for axis in axes}
        self.bets = {axis.name: Bets(n_judges, n_reference=n_reference) for axis in axes}

    def refer(self, answers: Codes) -> None:
        """Put answers of the start into the bags; judges x items, -1 where there is none."""
        judges, items = np.nonzero(answers >= 0)
        np.add.at(self.counts, (judges, items, answers[judges, items]), 1.0)

    def look(self, answers: Codes, uniform: Array) -> Array:
        """Add a look and return the logarithms of the wealth after it; axes x judges.

        Args:
            answers: Judges x items, -1 where there is none.
            uniform: A draw for each axis and judge, fixed before the answers were known.
        """
        self.refer(answers)
        self.n_looks += 1
        return np.stack([self._bet(axis, answers, draw) for axis, draw in zip(self.axes, uniform, strict=True)])

    def _bet(self, axis: WatchedAxis, answers: Codes, uniform: Array) -> Array:
        counts, newest = self.counts[:, axis.items], answers[:, axis.items]
        levels = rarity(counts) if axis.levels is None else axis.levels[None]
        if axis.levels is not None and (axis.levels < 0).any():
            # What has no score on the axis is in no bag of it.
            counts = np.where(levels < 0, 0.0, counts)
            lost = np.take_along_axis(np.broadcast_to(levels, counts.shape), np.maximum(newest, 0)[..., None], -1) < 0
            newest, levels = np.where(lost[..., 0], -1, newest), np.maximum(levels, 0)
        score = look_score(levels, counts, newest, uniform)
        self.variances[axis.name].append(score.variance)
        return self.bets[axis.name].bet(score.z)


def alarm_threshold(n_axes: int, alpha: float = 0.05) -> float:
    """Logarithm of the wealth at which one of several axes alarms: the error is shared."""
    return math.log(n_axes / alpha)


def moved_p(old: Array, new: Array) -> float:
    """Two-sided p that two groups of sessions have one mean, by the pooled t test; 1 where none of them differ.

    The pooled variance is the right one while they are exchangeable, and has a value where one group does not vary.
    """
    n_old, n_new = len(old), len(new)
    both = np.concatenate([old, new])
    if min(n_old, n_new) < 2 or np.ptp(both) == 0:
        return 1.0
    error = math.sqrt(float(both.var(ddof=1)) * (1 / n_old + 1 / n_new))
    return float(2 * stats.t.sf(abs(float(new.mean() - old.mean())) / error, n_old + n_new - 2))


FEWEST_SESSIONS = 20
"""New sessions that are compared with the old ones."""


def moved_since(old: Sequence[Array], new: Sequence[Array], *, alpha: float = 0.05) -> int | None:
    """Return the first look at which new sessions differ from the old ones, both as judged at that look.

    The old sessions are the same at all looks, so tests at different looks depend on each other: they share the error
    by weights `1 / (t (t + 1))`. Half of it is for the newest look alone, half for all sessions since their number
    last doubled. A judge that changed judges both groups of a look, so that it moves neither against the other.

    Args:
        old: For each look the scores of the old sessions, NaN where there is none.
        new: For each look the scores of the sessions that came since the look before.
        alpha: Error over all looks.
    """
    first, total, next_total, n_doubled, n_tested = 0, 0, FEWEST_SESSIONS, 0, 0
    for look in range(len(new)):
        total += len(new[look])
        if len(new[look]) >= FEWEST_SESSIONS:
            n_tested += 1
            if moved_p(*window_groups(old[look : look + 1], new[look : look + 1])) <= alpha / 2 / (
                n_tested * (n_tested + 1)
            ):
                return look + 1
        if total >= next_total:
            n_doubled += 1
            window = slice(first, look + 1)
            if moved_p(*window_groups(old[window], new[window])) <= alpha / 2 / (n_doubled * (n_doubled + 1)):
                return look + 1
            first, next_total = look + 1, 2 * total
    return None


def window_groups(old: Sequence[Array], new: Sequence[Array]) -> tuple[Array, Array]:
    """Return old and new sessions of some looks, each less the mean of the old ones at the same look."""
    weights = np.array([len(own) for own in new], dtype=float)
    rows = np.stack(old)
    known = ~np.isnan(rows)
    today = np.where(known, rows, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    share = np.where(known, weights[:, None], 0.0)
    by_session = (np.where(known, rows - today[:, None], 0.0) * share).sum(axis=0) / np.maximum(share.sum(axis=0), 1.0)
    rest = [own - mean for own, mean, row in zip(new, today, known, strict=True) if row.any()]
    return by_session[share.sum(axis=0) > 0], np.concatenate([*rest, np.zeros(0)])


def session_difference(old: Sequence[Array], new: Sequence[Array]) -> tuple[float, float, float] | None:
    """Mean of the new sessions less that of the old ones with its 95 % interval, by the pooled t; None without any."""
    before, since = window_groups(old, new) if new else (np.zeros(0), np.zeros(0))
    n_old, n_new = len(before), len(since)
    if min(n_old, n_new) < 2:
        return None
    spread = (before.var() * n_old + since.var() * n_new) / (n_old + n_new - 2)
    # Of groups without variety the least that one answer could have changed.
    error = math.sqrt(max(float(spread), 1 / (n_old + n_new)) * (1 / n_old + 1 / n_new))
    difference, reach = float(since.mean()), float(stats.t.ppf(0.975, n_old + n_new - 2)) * error
    return difference, difference - reach, difference + reach


_BOUND_SIZES = np.geomspace(0.04, 0.85, 10)
_BOUND_COSTS = -np.log1p(-_BOUND_SIZES) - _BOUND_SIZES


def deviation_bound(spread: float, alpha: float) -> float:
    """Most by which a sum of scores in [0, 1] strays from the sum of their means, at any time, but for alpha.

    An empirical Bernstein bound by a mixture over sizes (Howard et al. 2021, theorem 4): `spread` sums the squared
    distances of the scores from any predictions that were made before them. The means may differ from ask to ask.

    Example:
        >>> deviation_bound(0.0, 0.05) < deviation_bound(10.0, 0.05) < deviation_bound(10.0, 0.01)
        True
    """
    goal = math.log(2 / alpha)
    costs = _BOUND_COSTS * spread + math.log(len(_BOUND_SIZES))
    # One size alone reaches the goal here, so all of them together do before.
    low, high = 0.0, float(((goal + costs) / _BOUND_SIZES).min())
    for _ in range(40):
        middle = (low + high) / 2
        reached = np.logaddexp.reduce(_BOUND_SIZES * middle - costs) >= goal
        low, high = (low, middle) if reached else (middle, high)
    return high


def change_interval(
    before: tuple[float, int, float], after: tuple[float, int, float], *, start: int, alpha: float = 0.05
) -> Interval:
    """Interval of the change of a mean, valid at all looks together and for every look from which it may be counted.

    Args:
        before: Sum, number and spread of the scores of all asks before the change, in [0, 1].
        after: The same since.
        start: The look from which it is counted, chosen in any way: its share of the error is `1 / (t (t + 1))`.
        alpha: Error, half of it for each side of the change.
    """
    (sum_before, n_before, spread_before), (sum_after, n_after, spread_after) = before, after
    change = sum_after / n_after - sum_before / n_before
    reach = deviation_bound(spread_before, alpha / 2) / n_before
    reach += deviation_bound(spread_after, alpha / 2 / (start * (start + 1))) / n_after
    return max(-1.0, change - reach), min(1.0, change + reach)
