"""What a design can decide: the smallest effect that it finds, and the tasks that a wanted effect or width needs.

A design is k tasks (clusters) of m units each. Units of one task are alike by the intraclass correlation (ICC), so more
tasks always tell more than more units of the same tasks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from scipy import special

from jrh_mlflow.stats import Array, Codes, Mask
from jrh_mlflow.stats.max_t import TOLERANCE, share_limit, sign_patterns
from jrh_mlflow.stats.paired import value_interval
from jrh_mlflow.stats.proportions import cluster_interval

POWER = 0.8
"""Chance with which an effect of the size asked for is to be found."""
FEWEST_TO_TELL_APART = 6
"""Clusters under which no sign flip reaches 5 %: its smallest p-value is 2^(1 - k)."""
FEWEST_FOR_WIDTH = 10
"""Clusters under which it is not measured how often `cluster_interval` holds the truth."""
MOST_DRAWN = 2000
"""Tasks up to which designs are drawn; beyond, widths fall with the root of their number."""
_INTERVALS = 120
"""Suites drawn for a mean width: its error is about 1 %."""
_TESTS = 1500
"""Pairs of judges drawn for a power: its error is .01."""
_LIMITED = 120
"""Of them, looked at for the limits of what a difference may claim."""
_PATTERNS = 999
_FEW = 60
"""Tasks up to which the power goes in steps."""
_HIGHEST_ICC = 0.95


def detectable_from_interval(
    value: float, low: float, high: float, *, power: float = POWER, level: float = 0.95
) -> float:
    """Smallest distance from a limit at which a design with this interval decides on the right side of the limit.

    `a (z_level + z_power) / z_level`, a the longer arm of the interval of `level`: the arm is z_level standard errors,
    and the estimate falls short of the truth by more than z_power of them with a chance of `1 - power`. The longer arm
    serves limits on both sides of the truth. With `cluster_interval` the chance at that distance is .80 to .95 and
    higher where units hardly cluster, where that interval is on the wide side (`make validate ONLY=decisions`).

    Example:
        >>> round(detectable_from_interval(0.30, 0.16, 0.48), 3)
        0.257
    """
    if not low <= value <= high:
        raise ValueError(f"`low <= value <= high` must hold, but got {low=}, {value=}, {high=}.")
    z = _normal_quantile((1 + _share(level, "level")) / 2)
    return max(value - low, high - value) * (z + _normal_quantile(_share(power, "power"))) / z


def detectable_difference(
    standard_error: float,
    n_clusters: int,
    *,
    critical: float,
    power: float = POWER,
    n_units: int | None = None,
    largest: float = 1.0,
) -> float | None:
    """Smallest true difference of two judges that a sign-flip test over clusters finds with this chance.

    The difference at which `sign_flip_power` is `power`. A difference d of shares needs at least d of the n units to
    differ, so the standard error at d is never taken under `sqrt(d (1 - d) / n)`: two judges that agreed everywhere
    have shown no spread, yet not every difference between them would be found.

    Args:
        standard_error: Of the difference over clusters, `sqrt(k / (k - 1) sum_j (d_j - D m_j)²) / M`.
        n_clusters: k, the clusters that both judges have.
        critical: What `|sum_j d_j| / sqrt(sum_j d_j²)` must exceed, over all tests of the family.
        power: Chance of finding it.
        n_units: n, the calls or pairs that both judges have, replicates counted once; as if each cluster were one
            unit when None.
        largest: The largest difference there can be; 1 for shares.

    Returns:
        The difference, or None where not even the largest would be found: too few clusters for so many tests.

    Example:
        >>> round(detectable_difference(0.1, 28, critical=1.94), 3), detectable_difference(0.1, 5, critical=2.3)
        (0.29, None)
    """
    if standard_error < 0 or n_clusters < 1 or largest <= 0:
        raise ValueError(
            f"A spread, clusters and a largest must be given, but got {standard_error=}, {n_clusters=}, {largest=}."
        )

    needed = _needed_noncentrality(n_clusters, critical, _share(power, "power"))
    if needed is None or needed * standard_error > largest:
        return None
    # Where d is this many times the larger of the two spreads; with n units, d² n = needed² d (1 - d) for shares.
    return max(needed * standard_error, largest * needed**2 / ((n_units or n_clusters) + needed**2))


@lru_cache(maxsize=4096)
def _needed_noncentrality(n_clusters: int, critical: float, power: float) -> float | None:
    """Return how many standard errors a difference must have to be found with this chance; None where none is."""
    # The root of k, squared, may fall short of k in the last bit.
    if critical**2 >= n_clusters * (1 - TOLERANCE):
        return None
    if sign_flip_power(0.0, 1.0, n_clusters, critical=critical) >= power:
        return 0.0
    needed = float(special.nctdtrinc(n_clusters - 1, 1 - power, _as_student_t(critical, n_clusters)))
    return needed if math.isfinite(needed) else None


def _as_student_t(statistic: float, n_clusters: int) -> float:
    """Student's t where `T = |sum_j d_j| / sqrt(sum_j d_j²)` is `statistic`; infinite from `sqrt(k)` on."""
    room = n_clusters - statistic**2
    return statistic * math.sqrt((n_clusters - 1) / room) if room > 0 else math.inf


def sign_flip_power(difference: float, standard_error: float, n_clusters: int, *, critical: float) -> float:
    """Chance that `T = |sum_j d_j| / sqrt(sum_j d_j²)` over k clusters exceeds `critical` when they truly differ so.

    T and the t statistic of the clusters' differences are the same order: `t² = T² (k - 1) / (k - T²)`. So it is the
    chance of a noncentral t of k - 1 degrees of freedom and noncentrality `difference / standard_error`. T never
    exceeds `sqrt(k)`: a `critical` value from there on is never reached, and the chance is 0.

    Example:
        >>> round(sign_flip_power(0.3, 0.1, 28, critical=1.95), 2), sign_flip_power(0.3, 0.1, 3, critical=1.95)
        (0.82, 0.0)
    """
    if critical**2 >= n_clusters:
        return 0.0
    if standard_error == 0:
        return float(difference != 0)
    noncentrality = abs(difference) / standard_error
    chance = 1 - special.nctdtr(n_clusters - 1, noncentrality, _as_student_t(critical, n_clusters))
    # So far from 0 that scipy loses the digits, it is found for sure.
    return 1.0 if math.isnan(chance) else float(chance)


@lru_cache(maxsize=4096)
def sign_flip_critical(n_clusters: int, *, alpha: float = 0.05) -> float:
    """Value of `T = |sum_j d_j| / sqrt(sum_j d_j²)` that one test of two judges must exceed, before any data.

    That of Student's t with k - 1 degrees of freedom, `t sqrt(k / (k - 1 + t²))`; `sqrt(k)`, which is never exceeded,
    where the smallest p-value of a sign flip, 2^(1 - k), is over alpha.

    Example:
        >>> round(sign_flip_critical(28), 3), sign_flip_critical(4)
        (1.943, 2.0)
    """
    if 2.0 ** (1 - n_clusters) > _share(alpha, "alpha"):
        return math.sqrt(n_clusters)
    t = float(-special.stdtrit(n_clusters - 1, alpha / 2))
    return t * math.sqrt(n_clusters / (n_clusters - 1 + t * t))


@lru_cache(maxsize=4096)
def sign_flip_p(statistic: float, n_clusters: int) -> float:
    """Two-sided p-value of Student's t at `T = |sum_j d_j| / sqrt(sum_j d_j²)`: the inverse of `sign_flip_critical`.

    Example:
        >>> round(sign_flip_p(1.943, 28), 3), sign_flip_p(2.0, 4)
        (0.05, 0.0)
    """
    return float(2 * special.stdtr(n_clusters - 1, -_as_student_t(statistic, n_clusters)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """How the answers of a judge vary on an axis: what a plan must know or assume."""

    rate: float
    icc: float
    """Correlation of the answers to two presentations of one task."""
    repeat: float
    """Of what the task leaves open, the part that repeated answers to one presentation share: 1 if they never vary."""

    def __post_init__(self) -> None:
        for name in ("rate", "icc", "repeat"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"`0 <= {name} <= 1` must hold, but got {getattr(self, name)}.")

    def variance(self, layout: Layout, n_tasks: int) -> float:
        """Variance of the number of hits over this many tasks, none of which knows of the others.

        `p (1 - p) sum_tasks [ICC n² + (1 - ICC) (repeat sum_i r_i² + (1 - repeat) n)]`, r_i the units of presentation i
        and n those of the task.
        """
        units, starts = layout.of_tasks(n_tasks)
        own, sizes = 1 - self.icc, np.add.reduceat(units, starts)
        left = self.repeat * float(np.square(units).sum()) + (1 - self.repeat) * float(units.sum())
        return self.rate * (1 - self.rate) * (self.icc * float(np.square(sizes).sum()) + own * left)

    def draw(self, layout: Layout, n_tasks: int, *, n: int, rng: np.random.Generator) -> Array:
        """Draw the hits of each task with units, `n` times: rates of tasks are beta, those of presentations too."""
        units, starts = layout.of_tasks(n_tasks)
        tasks = _beta(np.full((n, len(starts)), self.rate), self.icc, rng)
        rates = np.repeat(tasks, np.diff([*starts, len(units)]), axis=1)
        if (units > 1).any():
            rates = _beta(rates, self.repeat, rng)
        hits: Array = np.add.reduceat(rng.binomial(units, rates), starts, axis=1).astype(np.float64)
        return hits


@dataclass(frozen=True)
class Layout:
    """What an axis counts in each task of a suite: units (calls, pairs) by the presentation that they repeat."""

    repeats: tuple[tuple[int, ...], ...]
    """Of each task, the units of each presentation; none where the task has nothing for the axis."""

    def __post_init__(self) -> None:
        if not any(self.repeats) or any(n < 1 for task in self.repeats for n in task):
            raise ValueError(f"Some task must have a unit, and no presentation less than one, but got {self.repeats}.")

    @classmethod
    def of(cls, task: Codes, presentation: Codes, *, n_tasks: int) -> Layout:
        """Read the layout of units, each with its task and presentation.

        Example:
            >>> Layout.of(np.array([0, 0, 0, 2]), np.array([4, 4, 5, 6]), n_tasks=3).repeats
            ((2, 1), (), (1,))
        """
        own = (presentation[task == number] for number in range(n_tasks))
        return cls(tuple(tuple(np.unique(shown, return_counts=True)[1].tolist()) for shown in own))

    def ordered(self, places: Codes) -> Layout:
        """Return the same with the tasks in another order: first the one at the first of the places."""
        return Layout(tuple(self.repeats[place] for place in places))

    def repeated(self, times: int) -> Layout:
        """Return the same with every presentation asked so many times as often."""
        return Layout(tuple(tuple(times * n for n in task) for task in self.repeats))

    @property
    def units_per_task(self) -> float:
        """On average, over tasks with and without any."""
        return sum(map(sum, self.repeats)) / len(self.repeats)

    def n_with_units(self, n_tasks: int) -> int:
        """How many of so many tasks have a unit, the tasks of the layout taken again and again in turn."""
        turns, rest = divmod(n_tasks, len(self.repeats))
        return turns * sum(map(bool, self.repeats)) + sum(map(bool, self.repeats[:rest]))

    def of_tasks(self, n_tasks: int) -> tuple[Codes, Codes]:
        """Return the units of each presentation of so many tasks, and where each task with units begins."""
        chosen = [self.repeats[at % len(self.repeats)] for at in range(n_tasks)]
        used = [task for task in chosen if task]
        sizes = [len(task) for task in used]
        return np.array([n for task in used for n in task], dtype=np.intp), np.cumsum([0, *sizes[:-1]], dtype=np.intp)

    def collapsed(self, n_tasks: int) -> tuple[float, Array]:
        """Return what a hit weighs where replicates count as one unit, and the sizes of the tasks by that weight."""
        units, starts = self.of_tasks(n_tasks)
        weight = float(units.sum() / np.square(units).sum())
        return weight, weight * np.add.reduceat(units, starts)


def _beta(means: Array, correlation: float, rng: np.random.Generator) -> Array:
    """Draw rates around the means; with correlation 0 the means themselves, with 1 all or none."""
    if correlation == 0:
        return means
    if correlation == 1:
        return (rng.random(means.shape) < means).astype(np.float64)
    scale = (1 - correlation) / correlation
    # A mean of 0 or 1 leaves no other rate; numpy wants both numbers of a beta over 0.
    inner = np.clip(means, 1e-12, 1 - 1e-12)
    return np.asarray(np.where((means > 0) & (means < 1), rng.beta(inner * scale, (1 - inner) * scale), means))


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedInterval:
    """What the clustered interval of a design will look like, on average over suites."""

    width: float
    arm: float
    """The longer of its two arms."""
    wide: float
    """Width that one suite in ten exceeds."""


@lru_cache(maxsize=1024)
def expected_interval(
    spread: Spread, layout: Layout, n_tasks: int, *, draws: int = _INTERVALS, seed: int = 0
) -> ExpectedInterval:
    """Draw suites of so many tasks and average the 95 % interval that a datasheet would report of each.

    Example:
        >>> spread = Spread(rate=0.5, icc=0.3, repeat=0.5)
        >>> round(expected_interval(spread, Layout(((1,) * 4,)), 28).width, 2)
        0.27
    """
    drawn = min(n_tasks, MOST_DRAWN)
    weight, sizes = layout.collapsed(drawn)
    if len(sizes) < 2:
        raise ValueError(f"Two tasks with units are needed for an interval, but {n_tasks=} have {len(sizes)}.")
    hits = weight * spread.draw(layout, drawn, n=draws, rng=np.random.default_rng([seed, drawn]))
    ends = np.array([cluster_interval(run, sizes) for run in hits])
    values = hits.sum(axis=1) / sizes.sum()
    arms = np.maximum(values - ends[:, 0], ends[:, 1] - values)
    # Far from few tasks both fall with the root of their number.
    shrink = math.sqrt(drawn / n_tasks)
    return ExpectedInterval(
        width=shrink * float((ends[:, 1] - ends[:, 0]).mean()),
        arm=shrink * float(arms.mean()),
        wide=shrink * float(np.quantile(ends[:, 1] - ends[:, 0], 0.9)),
    )


def tasks_for_width(
    width: float, spread: Spread, layout: Layout, *, fewest: int = FEWEST_FOR_WIDTH, seed: int = 0
) -> int:
    """Tasks for a clustered 95 % interval of this width, on average; no fewer than `fewest` with units.

    Example:
        >>> spread = Spread(rate=0.5, icc=0.3, repeat=0.5)
        >>> 45 < tasks_for_width(0.2, spread, Layout(((1,) * 4,))) < 51
        True
    """
    if not 0 < width < 1:
        raise ValueError(f"`0 < width < 1` must hold, but got {width=}.")
    fewest = n_tasks = _with_units(layout, fewest)
    off: dict[int, float] = {}
    while n_tasks not in off and len(off) < 8:
        off[n_tasks] = math.log(expected_interval(spread, layout, n_tasks, seed=seed).width / width)
        if abs(off[n_tasks]) < 0.015:
            return n_tasks
        n_tasks = max(fewest, math.ceil(n_tasks * math.exp(2 * off[n_tasks])))
    return min(off, key=lambda tried: abs(off[tried]))


def tasks_by_pilot(n_tasks: int, n_piloted: int) -> tuple[int, int] | None:
    """Return between which numbers of tasks a plan lies that rests on the spread over a pilot's tasks.

    Tasks go with the variance between tasks, and a variance of k tasks is known to `(k - 1) / chi²` at k - 1 degrees of
    freedom (95 %). None with fewer than two tasks.

    Example:
        >>> tasks_by_pilot(100, 20)
        (58, 214)
    """
    if n_piloted < 2:
        return None
    ends = (n_piloted - 1) / special.chdtri(n_piloted - 1, (0.025, 0.975))
    low, high = (math.ceil(n_tasks * float(times)) for times in ends)
    return low, high


def _with_units(layout: Layout, fewest: int) -> int:
    n_tasks = fewest
    while layout.n_with_units(n_tasks) < fewest:
        n_tasks += 1
    return n_tasks


@lru_cache(maxsize=1024)
def simulated_power(
    a: Spread,
    b: Spread,
    layout: Layout,
    n_tasks: int,
    *,
    limited: bool = True,
    draws: int = _TESTS,
    seed: int = 0,
) -> float:
    """Chance that one test of `max_t` over so many tasks tells two judges apart, in the right direction.

    The judges' tasks are drawn independently: what makes a task hard for both would only help. The limits of
    `share_limit`, which are slow, are looked at for some of the draws that sign flips tell apart; with `limited` False
    for none.
    """
    rng = np.random.default_rng([seed, n_tasks])
    hits = [spread.draw(layout, n_tasks, n=draws, rng=rng) for spread in (a, b)]
    sums = (hits[1] - hits[0]).T
    scale = np.sqrt(np.square(sums).sum(axis=0))
    patterns = sign_patterns(len(sums), n_resamples=_PATTERNS, seed=seed)
    statistics = np.abs(patterns @ (sums / np.where(scale > 0, scale, 1.0)))

    def is_told(at: Codes, seen: Array) -> Mask:
        return np.asarray((statistics[:, at] >= seen - TOLERANCE).mean(axis=0) <= 0.05)

    every = np.arange(draws)
    apart = np.flatnonzero(is_told(every, statistics[0]) & (sums.sum(axis=0) * (b.rate - a.rate) > 0))
    if not limited or not len(apart):
        return len(apart) / draws
    some, (weight, sizes) = apart[:_LIMITED], layout.collapsed(n_tasks)
    limits = [share_limit(weight * hits[0][at], weight * hits[1][at], sizes) for at in some]
    return len(apart) / draws * float(is_told(some, np.minimum(statistics[0, some], limits)).mean())


def tasks_for_difference(a: Spread, b: Spread, layout: Layout, *, power: float = POWER, seed: int = 0) -> int:
    """Tasks on which one test of `max_t` tells two judges of these rates apart with this chance, by `simulated_power`.

    Example:
        >>> a, b = (Spread(rate=rate, icc=0.3, repeat=0.5) for rate in (0.3, 0.6))
        >>> 17 < tasks_for_difference(a, b, Layout(((1,) * 12,))) < 21
        True
    """
    if a.rate == b.rate:
        raise ValueError(f"The rates must differ, but both are {a.rate}.")
    fewest = _with_units(layout, FEWEST_TO_TELL_APART)
    start = max(fewest, _by_formula(a, b, layout, power=_share(power, "power")))
    if start > MOST_DRAWN:
        return start
    by_flips = partial(simulated_power, a, b, layout, limited=False, seed=seed)
    if start > _FEW:
        # One look says how far the formula is off: the power of many tasks is smooth in their number.
        n_tasks = math.ceil(start * _missing(by_flips(start), power))
    else:
        n_tasks = _smallest(lambda n: by_flips(n) >= power, fewest, start=start)
    # Limits matter where tasks hardly differ; then power rises steeply with their number.
    while n_tasks <= MOST_DRAWN and simulated_power(a, b, layout, n_tasks, seed=seed) < power:
        n_tasks += max(1, n_tasks // 40)
    return n_tasks


def tasks_to_find(difference: float, standard_error: float, n_tasks: int, *, alpha: float = 0.05) -> int:
    """Tasks on which a test at alpha finds a difference with a chance of 80 %, by the spread that `n_tasks` showed.

    The standard error falls with the root of the number of tasks; then as `sign_flip_power`.

    Example:
        >>> tasks_to_find(0.1, 0.1, 28), tasks_to_find(0.1, 0.1, 28, alpha=0.01)
        (222, 331)
    """
    if not difference > 0 or not standard_error > 0 or n_tasks < 1:
        raise ValueError(f"All must be above 0, but got {difference=}, {standard_error=}, {n_tasks=}.")
    spread = standard_error * math.sqrt(n_tasks)

    def is_enough(n: int) -> bool:
        critical = sign_flip_critical(n, alpha=alpha)
        return sign_flip_power(difference, spread / math.sqrt(n), n, critical=critical) >= POWER

    return _smallest(is_enough, FEWEST_TO_TELL_APART, start=_FEW)


def _missing(reached: float, power: float) -> float:
    """How many times as many tasks turn one power into another."""
    # Outside of .2 … .99 a simulated power says too little of the distance: the next guess would leap.
    wanted, seen = (_normal_quantile(0.975) + _normal_quantile(at) for at in (power, min(0.99, max(0.2, reached))))
    return (wanted / seen) ** 2


def _by_formula(a: Spread, b: Spread, layout: Layout, *, power: float) -> int:
    """Tasks by the noncentral t; up to a fifth too few where there are few tasks or few units in each."""
    many = 100 * len(layout.repeats)
    units = layout.units_per_task * many
    spread = math.sqrt((a.variance(layout, many) + b.variance(layout, many)) * many) / units
    share, difference = layout.n_with_units(many) / many, abs(b.rate - a.rate)

    def is_enough(n_tasks: int) -> bool:
        k = max(FEWEST_TO_TELL_APART, math.floor(share * n_tasks))
        error = spread / math.sqrt(n_tasks)
        return sign_flip_power(difference, error, k, critical=sign_flip_critical(k)) >= power

    return _smallest(is_enough, FEWEST_TO_TELL_APART, start=_FEW)


def _smallest(is_enough: Callable[[int], bool], fewest: int, *, start: int) -> int:
    """Smallest number from `fewest` on that is enough; the search goes by tenths from `start`, then by halves."""
    low, high = fewest - 1, start
    while not is_enough(high):
        low, high = high, math.ceil(1.1 * high)
    while high - low > 1:
        middle = max(low + 1, math.floor(high / 1.1)) if low < fewest else (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def estimated_spread(score: Array, task: Codes, presentation: Codes) -> tuple[float, float | None, float | None]:
    """Rate, ICC and repeat of a pilot's units, by the nested analysis of variance; None for what it cannot tell.

    The rate is (hits + 1/2) / (n + 1) over presentations: none of thirty does not mean never. The ICC needs two tasks
    and a task of two presentations, the repeat a presentation that was asked twice, both some variation.

    Reference:
        Searle, Casella & McCulloch (1992), Variance Components, section 3.6.
    """
    shown, first, of_unit, replicates = np.unique(
        presentation, return_index=True, return_inverse=True, return_counts=True
    )
    means = np.bincount(of_unit, weights=score) / replicates
    rate = (float(means.sum()) + 0.5) / (len(shown) + 1)
    within = float(np.square(score - means[of_unit]).sum())
    of_call = within / (len(score) - len(shown)) if len(score) > len(shown) else None
    tasks, code, sizes = np.unique(task[first], return_inverse=True, return_counts=True)
    n, k = len(shown), len(tasks)
    if k < 2 or n == k or np.ptp(score) == 0:
        return rate, None, None
    by_task = np.bincount(code, weights=means) / sizes
    inside = float(np.square(means - by_task[code]).sum()) / (n - k)
    between = float((sizes * np.square(by_task - means.mean())).sum()) / (k - 1)
    of_task = max(0.0, (between - inside) * (k - 1) / (n - float(np.square(sizes).sum()) / n))
    if of_call is None:
        return rate, min(_HIGHEST_ICC, of_task / (of_task + inside)) if of_task + inside else None, None
    of_presentation = max(0.0, inside - of_call * float((1 / replicates).mean()))
    rest = of_presentation + of_call
    icc = min(_HIGHEST_ICC, of_task / (of_task + rest))
    return rate, icc, of_presentation / rest if rest else None


def shared_spread(hits_a: Array, sizes_a: Array, hits_b: Array, sizes_b: Array) -> float:
    """How much the differences of two judges vary over tasks, over those of unrelated judges: 1 if unrelated.

    `(sum(r - s)² + S / k) / (S + S / k)`, r and s the residuals `hits - share * size` of the two judges over k tasks, S
    the sum of their squares: as if one more task had been seen on which they are unrelated. 1 where neither varies.

    Example:
        >>> hits, sizes = np.array([0.0, 6.0, 3.0]), np.full(3, 6.0)
        >>> shared_spread(hits, sizes, hits, sizes), shared_spread(hits, sizes, hits[[1, 0, 2]], sizes)
        (0.25, 1.75)
    """
    r, s = (hits - hits.sum() / sizes.sum() * sizes for hits, sizes in ((hits_a, sizes_a), (hits_b, sizes_b)))
    both = float(np.square(r).sum() + np.square(s).sum())
    if both < TOLERANCE:
        return 1.0
    return (float(np.square(r - s).sum()) + both / len(r)) / (both + both / len(r))


def family_factor(n_tests: int, *, power: float = POWER, alpha: float = 0.05) -> float:
    """How many times as many tasks one difference needs in a family of tests, at most.

    By Bonferroni, `((z_(alpha / n) + z_power) / (z_alpha + z_power))²`; max-T needs no more, and less the more the
    tests have in common.

    Example:
        >>> round(family_factor(6), 2)
        1.54
    """
    z = _normal_quantile(_share(power, "power"))
    single, all_of_them = (_normal_quantile(1 - alpha / 2 / n) for n in (1, n_tests))
    return ((all_of_them + z) / (single + z)) ** 2


@lru_cache(maxsize=4096)
def _normal_quantile(at: float) -> float:
    return float(special.ndtri(at))


def _share(value: float, name: str) -> float:
    if not 0 < value < 1:
        raise ValueError(f"`0 < {name} < 1` must hold, but got {value}.")
    return value


def sources_needed(value: float, limit: float, *, most: int = 5_000) -> int | None:
    """Return with how many sources a mean of values like this one would be shown to be at most the limit.

    As if every source read the mean itself (`value_interval`); None where it lies at the limit or above, or where more
    than `most` would be needed.

    Example:
        >>> sources_needed(0.0, 0.05), sources_needed(0.02, 0.05), sources_needed(0.05, 0.05)
        (76, 206, None)
    """
    if value >= limit:
        return None

    def is_shown(n: int) -> bool:
        ends = value_interval(np.full(n, max(value, 0.0)), np.full(n, max(-value, 0.0)), np.ones(n), 0.95)
        return ends is not None and ends[1] <= limit

    if not is_shown(most):
        return None
    low, high = 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_shown(middle) else (middle, high)
    return high
