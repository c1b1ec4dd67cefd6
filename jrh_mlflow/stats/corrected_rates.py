"""True rates behind a judge's: PPI++, Rogan-Gladen, the estimate by strata; intervals that hold in small samples.

Values lie in 0 … 1: verdicts (0 or 1), wins and ties (0, .5, 1), or scores. Every estimate is a sum of products of a
few means of independent samples. Sums with known factors add the moments of their posteriors (`sum_interval`); the
others take the interval of each mean (`beta_share`) and add the distances in squares (MOVER: Zou & Donner 2008, Stat.
Med. 27:1693-1702). In both a sample without a single mistake still has a width; a normal interval has none there.

Items that were sampled together (a conversation) are no independent items: `cluster_factor` says how much longer an
interval is for it, from what each cluster adds to the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import brentq, isotonic_regression
from scipy.special import ndtri
from scipy.stats import hypergeom, ks_2samp, ttest_ind
from scipy.stats import t as student_t

from jrh_mlflow.stats import Array, Codes, Interval
from jrh_mlflow.stats.proportions import beta_share, t_quantile


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean of values in 0 … 1 with its interval."""

    value: float
    low: float
    high: float
    n: float = 0.0
    """Independent values that it is worth; 0 where nothing but the interval is known."""

    def longer(self, factor: float, *, least: float = 0.0) -> Mean:
        """Stretch the interval, up to 1 and down to `least`."""
        low, high = self.value - factor * (self.value - self.low), self.value + factor * (self.high - self.value)
        return Mean(self.value, max(least, low), min(1.0, high), self.n / factor**2)


Method = Literal[
    "PPI++", "weighted PPI++", "Rogan-Gladen", "two strata", "PPI++ or Rogan-Gladen", "people only", "naive"
]
"""The last two are no corrections: means of the labels, and of the judge."""
Term = tuple[float, Mean]
"""A factor, and the mean that it multiplies."""


def bounded_mean(
    values: Array, weights: Array | None = None, clusters: Codes | None = None, *, level: float = 0.95
) -> Mean:
    """Mean of values in 0 … 1, weighted by inverse inclusion probabilities, with `beta_share` on the effective n.

    `n = m (1 - m) / v`, v the variance of the (Hájek) mean `sum(w² (x - m)²) / sum(w)²`, in which one more value counts
    that varies as much as a yes or no can: equal values have a width, too. With equal weights of verdicts n is
    their number. With `clusters` (a code for each value) it is divided by the square of `cluster_factor`.

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
    if clusters is not None:
        n /= cluster_factor([(shares * (values - value), clusters)], level=level) ** 2
    return Mean(value, *beta_share(value, n, level=level), n)


def cluster_factor(parts: Sequence[tuple[Array, Codes]], *, level: float = 0.95) -> float:
    """How many times as long an interval is where clusters were sampled, not items.

    `sqrt(deff) t / z`: deff is the variance by cluster, `k/(k-1) sum_c (sum_i a_i)²`, over that by item, `sum_i a_i²`,
    at least 1; a_i is what an item adds to the estimate (`influences`), t that of k - 1 degrees of freedom, k the
    clusters of the part that has fewest.

    Args:
        parts: What the items of each sample add, and their clusters; one code is one cluster in all parts.
        level: Of the interval.
    """
    effects, codes = (np.concatenate(list(each)) for each in zip(*parts, strict=True))
    k, fewest = len(np.unique(codes)), min(len(np.unique(part)) for _, part in parts)
    if k == len(codes):
        return 1.0
    alone = float(np.square(effects).sum())
    sums = np.bincount(np.unique(codes, return_inverse=True)[1], weights=effects)
    together = k / max(1, k - 1) * float(np.square(sums).sum())
    deff = max(1.0, together / alone) if alone > 0 else 1.0
    return math.sqrt(deff) * t_quantile(max(1, fewest - 1), level) / float(ndtri((1 + level) / 2))


_PRIORS = 0.125, 0.25
"""Of the beta prior of each mean: for labels of a kind that was not seen, and of one that was. Chosen on draws of 24
judges with and without fault; those of `make validate ONLY=corrected` and of the table of peers had no part in it."""


def sum_interval(terms: Iterable[Term], *, df: float | None = None, level: float = 0.95) -> Interval:
    """How far the sum of independent terms may lie under, and over, its estimate: by the moments of their posteriors.

    Each mean has the posterior `Beta(n m + a, n (1 - m) + b)`, a and b ¼, or ⅛ where there is no such label; means,
    variances and third moments of the terms add up, and the quantiles of the sum are Cornish and Fisher's, on those of
    t. Its degrees of freedom, unless given, are Welch and Satterthwaite's: `v² / sum(v_k² / (n_k - 1))`, v_k the
    variances.

    A class without a mistake is very skewed, and its upper end alone says little about the sum: added in squares, as if
    it were normal, it makes the interval of a judge without fault up to 2.6 times as long as one that knows it to be
    so; here 1.05 to 1.2 times. The price is paid by judges that make one or two mistakes in as many items as are
    labelled, and may show none: a prior of ¼ throughout covers them in .955, this one in .94.

    Reference:
        Cornish & Fisher (1938), Rev. Int. Stat. Inst. 5:307-320; Satterthwaite (1946), Biometrics Bulletin 2:110-114.
    """
    shift = variance = third = squares = 0.0
    for factor, mean in terms:
        if mean.n <= 0:
            continue
        a, b = (seen + np.interp(seen, (0, 1), _PRIORS) for seen in (mean.n * mean.value, mean.n * (1 - mean.value)))
        n = a + b
        spread = a * b / (n * n * (n + 1))
        shift += factor * (a / n - mean.value)
        variance += factor**2 * spread
        third += factor**3 * 2 * (b - a) * spread / (n * (n + 2))
        squares += (factor**2 * spread) ** 2 / max(1.0, mean.n - 1)
    if variance <= 0:
        return 0.0, 0.0
    z, sd = t_quantile(max(1.0, variance**2 / squares if df is None else df), level), math.sqrt(variance)
    # What makes one end longer does not make the other shorter: near 0 and 1 the rate may lie on the far side.
    moved = shift + (z * z - 1) * third / (6 * variance)
    return z * sd + max(0.0, -moved), z * sd + max(0.0, moved)


def square_and_add(terms: Iterable[Term]) -> Interval:
    """How far the sum of independent terms may lie under, and over, its estimate."""
    down = up = 0.0
    for factor, mean in terms:
        under, over = mean.value - mean.low, mean.high - mean.value
        # Times a negative factor the upper end of the mean becomes the lower end of the product.
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


_FOLDS = 10
"""Parts of a cross-fit."""
_MOST_CLASSES = 3
"""Values of a judge up to which people's means are read class by class: a loss, a tie, a win."""


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
    # A judge that does not go with people adds nothing: their labels alone are the estimate.
    if weight == 0:
        return bounded_mean(human, weights, level=level)
    if len(np.unique(judge)) > _MOST_CLASSES:
        return _ppi_of_scores(population, human - weight * judge, weight, weights, level)
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
    return _clipped(float(shares @ rest) + weight * judged.value, sum_interval(terms, level=level))


def _ppi_of_scores(population: Array, rest: Array, weight: float, weights: Array | None, level: float) -> Mean:
    """PPI++ of values that are no few classes: `mean(human - λ judge) + λ mean(population)`, two independent means.

    Their t has `2 n / (κ - 1)` degrees of freedom, at most n - 1, κ the kurtosis of `human - λ judge`: where a few rare
    failures make up the variance, it is known no better than by as many. (With n - 1 the interval covers .938 to .940
    at rates of .95 and .97 with 200 and 300 labels, so .947 and more.)
    """
    judged = bounded_mean(population, level=level)
    factor, left = _spread_term(rest, weights, level)
    value = float(np.average(rest, weights=weights)) + weight * judged.value
    squares = np.square(rest - np.average(rest, weights=weights))
    second, fourth = (float(np.average(squares**power, weights=weights)) for power in (1, 2))
    # Values of which none differs, or half are high and half low, tell their spread as well as n can.
    df = min(len(rest) - 1, 2 * len(rest) / max(fourth / max(second**2, 1e-24) - 1, 1e-9))
    return _clipped(value, sum_interval([(factor, left), (weight, judged)], df=df, level=level))


def calibrated(
    others: Array, scores: Array, human: Array, weights: Array | None = None, clusters: Codes | None = None
) -> tuple[Array, Array]:
    """A judge's scores as what people would say, on other items and on the labelled: isotonic, cross-fitted.

    The labelled items are parted in ten, whole clusters together; each part is read off the rising curve (least
    squares) through the labels of the nine others, and other items off the mean of the ten curves. No item is read off
    a curve that its own label drew, so PPI++ on these values stays unbiased.

    Reference:
        Zrnic & Candès (2024), Cross-prediction-powered inference, PNAS 121(15), arXiv 2309.16598.
    """
    _, codes = np.unique(np.arange(len(scores)) if clusters is None else clusters, return_inverse=True)
    # A fixed shuffle: rows in the order of their labels must not make parts of one label each.
    parts = np.random.default_rng(0).permutation(codes.max() + 1)[codes] % _FOLDS
    inside, outside = np.empty(len(scores)), []
    for part in np.unique(parts):
        held = parts == part
        curve = _rising_curve(scores[~held], human[~held], None if weights is None else weights[~held])
        inside[held] = np.interp(scores[held], *curve)
        outside.append(np.interp(others, *curve))
    return np.mean(outside, axis=0), inside


def _rising_curve(scores: Array, human: Array, weights: Array | None) -> tuple[Array, Array]:
    """Corners of the isotonic regression of people's values on the scores, one for each score that was given."""
    weighing = np.ones(len(scores)) if weights is None else weights
    corners, at = np.unique(scores, return_inverse=True)
    total = np.bincount(at, weights=weighing)
    return corners, isotonic_regression(np.bincount(at, weights=weighing * human) / total, weights=total).x


def _factors(by_class: Strata, judged: float, shrunk: float) -> list[float]:
    """What PPI++ changes by with the people's mean of each class."""
    values, shares = by_class.values, by_class.shares
    apart = values - float(shares @ values)
    spread = float(shares @ np.square(apart))
    # λ is estimated from the same class means: one that moves shifts λ, and λ the whole estimate.
    shift = (judged - float(shares @ values)) / (shrunk * spread)
    return [float(factor) for factor in shares * (1 + shift * apart)]


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
    return _clipped(float(shares @ means), sum_interval(terms, level=level))


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
    # A judge that passes less than its false passes, or more than its hits, was unlucky: no rate in 0 … 1 gives that.
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
    # Nothing speaks against the very end of the range: the interval reaches it.
    if inside == outside or excess(outside) <= 0:
        return outside
    return float(brentq(excess, inside, outside))


def youden(
    judge: Array,
    human: Array,
    weights: Array | None = None,
    clusters: Codes | None = None,
    *,
    level: float = 0.95,
) -> Mean | None:
    """`se + sp - 1`: the judge's mean where people say yes (over .5) minus that where they say no (under .5).

    Where people give scores: where these lie over their mean minus where they lie under it.

    Returns:
        The difference with its interval, in -1 … 1; None where people never say one of the two.
    """
    middle = 0.5 if np.isin(human, (0.0, 0.5, 1.0)).all() else float(np.average(human, weights=weights))
    chosen = (human > middle, human < middle)
    if not all(part.any() for part in chosen):
        return None
    yes, no = (
        bounded_mean(
            judge[part],
            None if weights is None else weights[part],
            None if clusters is None else clusters[part],
            level=level,
        )
        for part in chosen
    )
    return rate_difference(yes, no)


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
    # `bounded_mean` needs values in 0 … 1; the factor stretches its interval back.
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


def reverse_regression(population: Array, judge: Array, human: Array, *, level: float = 0.95) -> Mean:
    """Rogan-Gladen for values of any number: `mean(human) + (p - mean(judge on labelled)) / b`, with a normal interval.

    b is the slope of the judge's value on the person's. Where people say yes or no it is `se + sp - 1`, and the
    estimate Rogan-Gladen's.
    """
    parts = _rogan_gladen_influences(population, judge, human)
    value = float(human.mean()) + float(population.mean() - judge.mean()) / _slope(judge, human)
    half = float(ndtri((1 + level) / 2)) * math.sqrt(sum(float(np.square(part).sum()) for part in parts))
    return _clipped(value, (half, half))


def _slope(judge: Array, human: Array) -> float:
    """Slope of the judge's value on the person's."""
    apart = human - human.mean()
    return float(apart @ judge) / float(apart @ apart)


def _rogan_gladen_influences(population: Array, judge: Array, human: Array) -> tuple[Array, Array]:
    slope, apart, n = _slope(judge, human), human - human.mean(), len(judge)
    rest = judge - judge.mean() - slope * apart
    moved = float(population.mean() - judge.mean()) / slope
    labelled = -rest / (n * slope) * (1 + moved * apart / float(apart @ apart) * n)
    return (population - population.mean()) / len(population) / slope, labelled


def unlike(
    labelled: Array, others: Array, *, weights: Array | None = None, clusters: tuple[Codes, Codes] | None = None
) -> float:
    """Return the p of the hypothesis that the judge says the same of labelled and of other items.

    Fisher's exact test for verdicts; for other values the smaller p of Kolmogorov and Smirnov's test and of the means,
    doubled. With clusters or weights the difference of the means over its error by cluster (at least that of items
    under the hypothesis), against t with the degrees of freedom of the fewer clusters.

    Example:
        >>> unlike(np.repeat([1.0, 0.0], [63, 37]), np.repeat([1.0, 0.0], [840, 160])) < 1e-5
        True
    """
    values = np.concatenate([labelled, others])
    if np.ptp(values) == 0:
        return 1.0
    if weights is None and clusters is None:
        if np.isin(values, (0.0, 1.0)).all():
            passed = np.arange(len(labelled) + 1)
            chances = hypergeom.pmf(passed, len(values), int(values.sum()), len(labelled))
            # Tables that are as likely on paper differ in the last digits.
            return min(1.0, float(chances[chances <= chances[int(labelled.sum())] * (1 + 1e-7)].sum()))
        smaller = min(ks_2samp(labelled, others).pvalue, ttest_ind(labelled, others, equal_var=False).pvalue)
        return min(1.0, 2 * float(smaller))
    shares = np.full(len(labelled), 1 / len(labelled)) if weights is None else weights / weights.sum()
    means = float(shares @ labelled), float(others.mean())
    effects = shares * (labelled - means[0]), (others - means[1]) / len(others)
    n = 1 / float(np.square(shares).sum())
    variance, fewest = float(values.var()) * (1 / n + 1 / len(others)), min(len(labelled), len(others))
    if clusters is not None:
        codes, place = np.unique(np.concatenate(clusters), return_inverse=True)
        sums = np.bincount(place, weights=np.concatenate([effects[0], -effects[1]]))
        variance = max(variance, len(codes) / max(1, len(codes) - 1) * float(np.square(sums).sum()))
        fewest = min(len(np.unique(part)) for part in clusters)
    return 2 * float(student_t.sf(abs(means[0] - means[1]) / math.sqrt(variance), max(1, fewest - 1)))


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
