"""True rates behind a judge's: PPI++, Rogan-Gladen, the estimate by strata; intervals that hold in small samples.

Values lie in 0 … 1: verdicts (0 or 1), or wins and ties (0, .5, 1). Every estimate is a sum of products of a few means
of independent samples. The interval takes that of each mean (`beta_share`) and adds the distances in squares (MOVER:
Zou & Donner 2008, Stat. Med. 27:1693-1702), so that a sample without a single mistake still has a width; a normal
interval has none there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import brentq

from jrh_mlflow.stats import Array, Interval
from jrh_mlflow.stats.proportions import beta_share


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean of values in 0 … 1 with its interval."""

    value: float
    low: float
    high: float


Method = Literal["PPI++", "weighted PPI++", "Rogan-Gladen", "two strata", "people only", "naive"]
"""The last two are no corrections: means of the labels, and of the judge."""
Term = tuple[float, Mean]
"""A factor, and the mean that it multiplies."""


def bounded_mean(values: Array, weights: Array | None = None, *, level: float = 0.95) -> Mean:
    """Mean of values in 0 … 1, weighted by inverse inclusion probabilities, with `beta_share` on the effective n.

    `n = m (1 - m) / v`, v the variance of the (Hájek) mean `sum(w² (x - m)²) / sum(w)²`, in which one more value counts
    that varies as much as a yes or no can: equal values have a width, too. With equal weights of verdicts n is
    their number.

    Example:
        >>> mean = bounded_mean(np.repeat([1.0, 0.0], [80, 40]))
        >>> round(mean.value, 4), round(mean.low, 4), round(mean.high, 4)
        (0.6667, 0.5757, 0.7493)
    """
    if not len(values):
        raise ValueError("A mean needs at least one value.")
    shares = np.full(len(values), 1 / len(values)) if weights is None else weights / weights.sum()
    value = min(1.0, max(0.0, float(shares @ values)))
    squares = float(np.square(shares).sum())
    most = value * (1 - value)
    seen = float(np.square(shares) @ np.square(values - value))
    n = 1 / squares if most < 1e-12 else most * (1 + squares) / (seen + most * squares**2)
    return Mean(value, *beta_share(value, n, level=level))


def square_and_add(terms: Iterable[Term]) -> Interval:
    """How far the sum of independent terms may lie under, and over, its estimate."""
    down = up = 0.0
    for factor, mean in terms:
        under, over = mean.value - mean.low, mean.high - mean.value
        if factor < 0:
            under, over = over, under
        down, up = down + (factor * under) ** 2, up + (factor * over) ** 2
    return math.sqrt(down), math.sqrt(up)


@dataclass(frozen=True, kw_only=True, slots=True)
class Strata:
    """People's labels within the classes of the judge's value."""

    values: Array
    """What the judge says in each class."""
    shares: Array
    """Of each class among the labelled, weighted."""
    means: tuple[Mean, ...]
    """Of the people's labels in each class."""


def strata(judge: Array, human: Array, weights: Array | None = None, *, level: float = 0.95) -> Strata:
    """Part the labelled items by what the judge says."""
    values = np.unique(judge)
    weighing = np.ones(len(judge)) if weights is None else weights
    shares = np.array([weighing[judge == value].sum() for value in values]) / weighing.sum()
    parts = [(human[judge == value], None if weights is None else weights[judge == value]) for value in values]
    return Strata(values=values, shares=shares, means=tuple(bounded_mean(*part, level=level) for part in parts))


def ppi_weight(
    population: Array, judge: Array, human: Array, weights: Array | None = None, *, within: bool = False
) -> float:
    """How much the judge counts in PPI++: `cov(human, judge) / ((1 + n/N) var(judge))`, clipped to 0 … 1.

    n labelled, N unlabelled. Where the labelled items lie within the population the regression coefficient
    `cov(human, judge) / var(judge)`, at least 0: it multiplies a difference that is smaller by `1 + n/N`.

    Both are of the labelled items: with the variance of all of the judge's values instead the weight follows the luck
    of the sample, and so the estimate is biased (by .008 for a judge without fault, θ = .9, 50 labels of 1,050; here by
    .0005). With weights n is Kish's effective number.

    Reference:
        Angelopoulos, Duchi & Zrnic (2023), PPI++, arXiv 2311.01453, example 6.1.

    Returns:
        The weight; 0 where the judge always says the same, or does not go with people.
    """
    shares = np.full(len(judge), 1 / len(judge)) if weights is None else weights / weights.sum()
    apart = judge - float(shares @ judge)
    covariance, spread = float(shares @ (apart * human)), float(shares @ np.square(apart))
    if spread < 1e-12:
        return 0.0
    slope = covariance / spread
    if slope < 1e-12:  # 0 but for rounding, which must not choose between two intervals
        return 0.0
    return slope if within else min(1.0, slope / (1 + effective_n(judge, weights) / len(population)))


def ppi(
    population: Array,
    judge: Array,
    human: Array,
    weights: Array | None = None,
    *,
    within: bool = False,
    level: float = 0.95,
) -> Mean:
    """PPI++: `mean(human) + λ (mean(judge on unlabelled) - mean(judge on labelled))`, λ of `ppi_weight`.

    Over the classes k of the judge's value v_k, q_k their shares among the labelled and m_k the people's means in them,
    the estimate is `sum_k q_k (m_k - λ v_k) + λ mean(unlabelled)`. The interval adds those of the m_k, of the shares,
    and of the unlabelled mean. As λ comes from the m_k, they count by what the estimate changes with them, λ included:
    for verdicts that is the share of the class among all items, labelled or not. (By q_k alone, one labelled pass of 60
    where the judge passes one item in 20 would hardly count, and the interval cover .86.)

    Labels drawn with unequal chances leave a rest that is unlike the whole. With `within` the population is the whole,
    labelled items included, and the estimate the regression estimator of survey sampling: `λ mean(judge on all) +
    mean(human - λ judge)`, the latter weighted. The two parts share the labelled items but do not go together, because
    λ is the regression coefficient. With equal weights it is PPI++ on the rest, unless λ is clipped at 1 there, which
    it never is for verdicts of yes or no.

    Args:
        population: The judge's values on the unlabelled items; with `within` on all.
        judge: On the labelled.
        human: People's values there.
        weights: Inverse inclusion probabilities.
        within: The labelled items are part of the population.
        level: Of the interval.

    Reference:
        Särndal, Swensson & Wretman (1992), Model Assisted Survey Sampling, section 6.4.
    """
    weight = ppi_weight(population, judge, human, weights, within=within)
    if weight == 0:
        return bounded_mean(human, weights, level=level)
    by_class = strata(judge, human, weights, level=level)
    values, shares = by_class.values, by_class.shares
    means = np.array([mean.value for mean in by_class.means])
    rest = means - weight * values
    judged = bounded_mean(population, level=level)
    shrunk = 1.0 if within else 1 + effective_n(judge, weights) / len(population)
    terms = [
        *zip(_factors(by_class, judged.value, shrunk), by_class.means, strict=True),
        _spread_term(rest[np.searchsorted(values, judge)], weights, level),
        (weight, judged),
    ]
    return _clipped(float(shares @ rest) + weight * judged.value, square_and_add(terms))


def _factors(by_class: Strata, judged: float, shrunk: float) -> list[float]:
    """What PPI++ changes by with the people's mean of each class."""
    values, shares = by_class.values, by_class.shares
    apart = values - float(shares @ values)
    spread = float(shares @ np.square(apart))
    shift = (judged - float(shares @ values)) / (shrunk * spread)
    return [float(each) for each in shares * (1 + shift * apart)]


def effective_n(values: Array, weights: Array | None) -> float:
    """Kish's effective number of weighted values."""
    return float(len(values)) if weights is None else float(weights.sum() ** 2 / np.square(weights).sum())


def by_strata(population: Array, judge: Array, human: Array, *, level: float = 0.95) -> Mean:
    """Two-stratum estimate: `sum_k p_k m_k`, p_k the classes' shares of all verdicts, m_k the people's means in them.

    Valid for labels drawn within the judge's verdicts, at whatever rates. Every class of the population must have
    labels.
    """
    by_class = strata(judge, human, level=level)
    counts = np.array([float((population == value).sum()) for value in by_class.values])
    if counts.sum() < len(population):
        raise ValueError("Every value of the judge in the population must have labelled items.")
    means = np.array([mean.value for mean in by_class.means])
    shares = counts / counts.sum()
    terms = [*zip(shares.tolist(), by_class.means, strict=True)]
    terms.append(_spread_term(means[np.searchsorted(by_class.values, population)], None, level))
    return _clipped(float(shares @ means), square_and_add(terms))


def rogan_gladen(passed: Mean, sensitivity: Mean, false_passes: Mean) -> Mean:
    """Rogan-Gladen: `(p - f) / (se - f)`, f = 1 - sp; for labels drawn within the person's labels.

    The interval holds every θ that the three means do not speak against: `p - θ se - (1 - θ) f` may be 0 (Fieller's
    way, each mean with its own interval). Where p lies outside f … se, θ is 0 or 1, and the interval is that of the
    nearest p inside.

    Reference:
        Rogan & Gladen (1978), Am. J. Epidemiol. 107:71-76; Lee et al. (2025), arXiv 2511.21140.
    """
    f, s = false_passes, sensitivity
    if s.value <= f.value:
        raise ValueError(f"`se + sp > 1` must hold, but got se={s.value:.3f}, sp={1 - f.value:.3f}.")
    inside = min(s.value, max(f.value, passed.value))
    value = (inside - f.value) / (s.value - f.value)

    def excess(theta: float) -> float:
        """How far the sum lies from 0 beyond what the means leave open."""
        apart = inside - theta * s.value - (1 - theta) * f.value
        down, up = square_and_add([(1.0, passed), (-theta, s), (theta - 1, f)])
        return apart - down if apart > 0 else -apart - up

    return Mean(value, _end(excess, value, 0.0), _end(excess, value, 1.0))


def rate_ratio(over: Mean, under: Mean) -> Mean:
    """`over / under` in -1 … 1, `under` surely positive: every δ for which `over - δ under` may be 0."""
    if under.low <= 0:
        raise ValueError(f"The lower end of what is divided by must be over 0, but got {under.low}.")

    def excess(delta: float) -> float:
        apart = over.value - delta * under.value
        down, up = square_and_add([(1.0, over), (-delta, under)])
        return apart - down if apart > 0 else -apart - up

    value = min(1.0, max(-1.0, over.value / under.value))
    return Mean(value, _end(excess, value, -1.0), _end(excess, value, 1.0))


def _end(excess: Callable[[float], float], inside: float, outside: float) -> float:
    """Where `excess` turns positive on the way from a value that holds; the outermost value where it does not."""
    if inside == outside or excess(outside) <= 0:
        return outside
    return float(brentq(excess, inside, outside))


def youden(judge: Array, human: Array, weights: Array | None = None, *, level: float = 0.95) -> Mean | None:
    """`se + sp - 1`: the judge's mean where people say yes (over .5) minus that where they say no (under .5).

    Returns:
        The difference with its interval, in -1 … 1; None where people never say one of the two.
    """
    parts = [(judge[chosen], None if weights is None else weights[chosen]) for chosen in (human > 0.5, human < 0.5)]
    if not all(len(values) for values, _ in parts):
        return None
    return rate_difference(*(bounded_mean(*part, level=level) for part in parts))


def rate_difference(a: Mean, b: Mean) -> Mean:
    """`a - b` of independent means."""
    down, up = square_and_add([(1.0, a), (-1.0, b)])
    value = a.value - b.value
    return Mean(value, max(-1.0, value - down), min(1.0, value + up))


def _spread_term(values: Array, weights: Array | None, level: float) -> Term:
    """Term of a mean of values on any range, each constant within a class: what the shares of classes leave open."""
    low, high = float(values.min()), float(values.max())
    if high - low < 1e-12:
        return 0.0, Mean(0.0, 0.0, 0.0)
    return high - low, bounded_mean((values - low) / (high - low), weights, level=level)


def _clipped(value: float, distances: Interval) -> Mean:
    inside = min(1.0, max(0.0, value))
    return Mean(inside, max(0.0, inside - distances[0]), min(1.0, inside + distances[1]))


def influences(
    population: Array,
    judge: Array,
    human: Array,
    weights: Array | None = None,
    *,
    method: Method,
    within: bool = False,
) -> tuple[Array, Array]:
    """What each item of the population, and each labelled item, adds to the estimate, to first order.

    The squares of one estimate sum to its variance; the products of two over the items that they share sum to their
    covariance.
    """
    if method == "Rogan-Gladen":
        return _rogan_gladen_influences(population, judge, human)
    if method != "two strata":
        return _mean_influences(population, judge, human, weights, method=method, within=within)
    by_class = strata(judge, human)
    at = np.searchsorted(by_class.values, judge)
    means = np.array([mean.value for mean in by_class.means])
    expected = means[np.searchsorted(by_class.values, population)]
    shares = np.array([(population == value).mean() for value in by_class.values])
    return (expected - expected.mean()) / len(population), (shares / np.bincount(at))[at] * (human - means[at])


def _mean_influences(
    population: Array, judge: Array, human: Array, weights: Array | None, *, method: Method, within: bool
) -> tuple[Array, Array]:
    apart = (population - population.mean()) / len(population)
    if method == "naive":
        return apart, np.zeros(len(judge))
    weight = 0.0 if method == "people only" else ppi_weight(population, judge, human, weights, within=within)
    shares = np.full(len(judge), 1 / len(judge)) if weights is None else weights / weights.sum()
    rest = human - weight * judge
    return weight * apart, shares * (rest - float(shares @ rest))


def _rogan_gladen_influences(population: Array, judge: Array, human: Array) -> tuple[Array, Array]:
    yes, no = human == 1, human == 0
    s, f = float(judge[yes].mean()), float(judge[no].mean())
    p = float(population.mean())
    theta = (p - f) / (s - f)
    labelled = np.where(yes, -theta * (judge - s) / yes.sum(), (theta - 1) * (judge - f) / no.sum())
    return (population - p) / len(population) / (s - f), labelled / (s - f)


def correlation(a: Array, b: Array, shared: Array) -> float:
    """Correlation of two estimates from their influences a and b, `shared` the products over the items of both.

    As if one more item spoke against it: what went together on these items need not on the next.
    """
    most = float(np.abs(a).max(initial=0.0)), float(np.abs(b).max(initial=0.0))
    together = float(shared.sum())
    scale = math.sqrt((float(np.square(a).sum()) + most[0] ** 2) * (float(np.square(b).sum()) + most[1] ** 2))
    if scale <= 0:
        return 0.0
    return (max(0.0, together - most[0] * most[1]) if together > 0 else together) / scale
