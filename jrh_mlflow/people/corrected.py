"""The true rate behind a judge's verdicts, and the difference of two: which estimate, when refused, and what to say.

θ is the rate that people would give, p the judge's. Which estimate is valid depends on how the labelled items were
drawn (protocol, section 8). A judge that may be no better than chance (se + sp ≤ 1 within the interval of
`stats.corrected_rates.youden`: at 2.5 % one-sided where that of the estimate is of 95 %) corrects nothing: then people
alone are read where their labels are a random sample, and nothing elsewhere. `note` says so, one sentence each.

Nothing is taken for granted about the labels. Where nobody says how they were drawn, or the judge's verdicts speak
against what was said (`stats.corrected_rates.unlike`), the interval is the hull of PPI++'s and Rogan-Gladen's, and the
estimate the middle of the two: the first holds for labels drawn at random or by verdict, the second for labels drawn
within the person's, also of another application on which the judge errs as often.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Literal, cast, get_args

import numpy as np

from jrh_mlflow.errors import RecipeError, check_known
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, Statistic, intervals
from jrh_mlflow.stats import FEWEST_CLUSTERS, Array, Codes, Interval, Mask
from jrh_mlflow.stats import corrected_rates as rates
from jrh_mlflow.stats.corrected_rates import Mean, Method, bounded_mean
from jrh_mlflow.stats.proportions import newcombe
from jrh_mlflow.text import two_places

Sampling = Literal["random", "stratified", "by_verdict"]
"""How labelled items were drawn: of all items alike; within the person's labels; within the judge's verdicts."""
SAMPLINGS: tuple[Sampling, ...] = get_args(Sampling)
Pool = Literal["same", "other", "unknown"]
"""Whether labels are of the items whose rate is asked for: known to be, shown not to be, or neither."""
OPEN: Method = "PPI++ or Rogan-Gladen"
"""Which of the two is right hangs on what nobody knows."""
_METHODS: dict[Sampling | None, Method] = {
    None: OPEN,
    "random": "PPI++",
    "stratified": "Rogan-Gladen",
    "by_verdict": "two strata",
}
_DRAWN: dict[Sampling | None, str] = {
    None: "labels are not known to be a random sample",
    "stratified": "labels drawn within the person's labels are no random sample",
    "by_verdict": "labels drawn within the judge's verdicts are no random sample",
}
_CONTRADICTED = 0.001
"""p under which the judge's verdicts on labelled and other items are not the same."""
_SUSPECT = 0.05
"""The same where exactly half of the labels are passes."""
FEWER_FOUND = 0.1
"""Share of failures that the judge may miss here and did not on the labelled items, for the sensitivity line."""
_LEAST_GAIN = 0.01
"""Of an interval's length by which a judge must shorten it to be worth anything."""
_LEAST_WIDER = 0.001
"""What is worth a sentence: the last digit that is shown."""


@dataclass(frozen=True, kw_only=True)
class Graded:
    """The judge's values, 0 … 1, on items of one version of an application."""

    judge: Array
    items: Sequence[Hashable] | None = None
    """Ids, so that two versions can be paired."""
    clusters: Sequence[Hashable] | None = None
    """What each item was sampled together with."""
    scores: Array | None = None
    """The judge's scores, where it gives some: of items with and without a person's label, or of neither."""


@dataclass(frozen=True, kw_only=True)
class LabelledSample(Graded):
    """Calibration: items that have the judge's value and a person's, both in 0 … 1."""

    human: Array
    weights: Array | None = None
    """Inverse inclusion probabilities, up to a common factor."""


@dataclass(frozen=True, kw_only=True)
class CorrectedRate:
    """A rate corrected for its judge."""

    estimate: Reading
    naive: Estimate
    """The judge's own mean."""
    people_only: Reading
    """Of the labels alone; `NotEstimable` where they are no random sample."""
    method: str
    """`PPI++`, `weighted PPI++`, `Rogan-Gladen`, `two strata`, `PPI++ or Rogan-Gladen`, `people only` or `none`."""
    note: str
    """Sentences on what was refused, and whether the judge adds anything; may be empty."""
    sampling: Sampling | None
    n_labelled: int
    n_unlabelled: int
    sensitivity: Reading
    specificity: Reading
    pool: Pool
    if_fewer_found: float | None = None
    """The rate if the judge finds .10 fewer of the failures here; None where it would then tell nothing, or no rate
    of passes and fails is given."""


@dataclass(frozen=True, kw_only=True)
class CorrectedDifference:
    """Rate of the second version minus that of the first, corrected for the judge of both."""

    estimate: Reading
    naive: Estimate
    people_only: Reading
    method: str
    note: str
    rates: tuple[Reading, Reading]
    """Of each version by itself; with shared labels by Rogan-Gladen."""
    effects: Mapping[Hashable, float] = field(default_factory=dict)
    """What each item adds to the estimate, to first order; empty where it is not known."""


@dataclass(frozen=True, kw_only=True)
class _Data:
    """What is known, checked, as floats."""

    verdicts: Array
    judge: Array
    human: Array
    weights: Array | None
    sampling: Sampling | None
    labelled_apart: bool | None
    level: float
    clusters: tuple[Codes, Codes] | None = None
    """Codes of the verdicts, and of the labelled items."""
    scores: tuple[Array, Array] | None = None
    """The judge's scores of the same items, where it gives some."""

    @cached_property
    def read_by(self) -> _Data:
        """As it is read: PPI++ takes what a score says of people's labels in the place of the judge's value."""
        if self.scores is None or self.method not in ("PPI++", "weighted PPI++"):
            return self
        if len(np.unique(self.scores[1])) <= len(np.unique(self.judge)) < 3:
            return self  # such a score says no more than its verdict
        others, judge = rates.calibrated(*self.scores, self.human, self.weights, self.labelled_clusters)
        return replace(self, verdicts=others, judge=judge, scores=None)

    @property
    def told_by(self) -> Array:
        """What the judge said of the labelled items, as finely as it did."""
        return self.judge if self.scores is None else self.scores[1]

    @property
    def labelled_clusters(self) -> Codes | None:
        return None if self.clusters is None else self.clusters[1]

    def mean(self, values: Array, weights: Array | None = None, clusters: Codes | None = None) -> Mean:
        return bounded_mean(values, weights, clusters, level=self.level)

    @property
    def judge_mean(self) -> Mean:
        """Of the verdicts."""
        return self.mean(self.verdicts, None, None if self.clusters is None else self.clusters[0])

    @property
    def people_mean(self) -> Mean:
        """Of the people's labels."""
        return self.mean(self.human, self.weights, self.labelled_clusters)

    def clusters_of(self, population: Array) -> Codes | None:
        """Clusters of a population of `populations`."""
        if self.clusters is None:
            return None
        return np.concatenate(self.clusters) if self.within(population) else self.clusters[0]

    @property
    def binary(self) -> bool:
        return all(bool(np.isin(values, (0.0, 1.0)).all()) for values in (self.verdicts, self.judge, self.human))

    @property
    def has_rogan_gladen(self) -> bool:
        """Whether labels drawn within the person's tell the rate: people say yes or no, or of pairs a tie."""
        return bool(np.isin(self.human, (0.0, 1.0) if self.scores is not None else (0.0, 0.5, 1.0)).all())

    @property
    def people_alone(self) -> bool:
        """Whether the labels can be read without the judge."""
        return self.weights is not None or self.sampling == "random"

    @property
    def method(self) -> Method:
        return _METHODS[self.sampling] if self.weights is None else "weighted PPI++"

    @property
    def populations(self) -> tuple[Array, ...]:
        """The judge's values on all items, as far as it is known which these are; the first gives the estimate.

        Labels drawn at random leave a rest that is like the whole. Others do not: where the labelled items were taken
        out, they belong to the whole, and where they come from elsewhere they do not. Known probabilities are those of
        being taken out, and so are all verdicts of a kind that the rest has no more of.
        """
        if self.method == "PPI++" or self.labelled_apart:
            return (self.verdicts,)
        whole = np.concatenate([self.verdicts, self.judge])
        if self.labelled_apart is False:
            return (whole,)
        none_left = self.method == "two strata" and len(np.setdiff1d(self.judge, self.verdicts)) > 0
        return (whole, self.verdicts) if none_left or self.weights is not None else (self.verdicts, whole)

    def within(self, population: Array) -> bool:
        """Whether a population of `populations` holds the labelled items."""
        # A population is the verdicts alone or with the labelled items, and there is always one of these.
        return len(population) > len(self.verdicts)

    @property
    def only_verdict(self) -> float | None:
        """What the judge says of every item; None where it says two things."""
        verdicts = np.unique(self.populations[0])
        return float(verdicts[0]) if len(verdicts) == 1 else None


def correct_rate(
    graded: Graded,
    labelled: LabelledSample,
    *,
    sampling: Sampling | None,
    labelled_apart: bool | None = None,
    level: float = 0.95,
) -> CorrectedRate:
    """Correct the judge's mean by what people said on some items.

    Args:
        graded: The judge's values on items without a person's label.
        labelled: Its values and the people's on the labelled items. Where `weights` are known, `sampling` does not
            matter; where both sides have `scores`, PPI++ uses what they say of people's labels
            (`stats.corrected_rates.calibrated`) in the place of the judge's values.
        sampling: How the labelled items were drawn; None: not known.
        labelled_apart: False: the labelled items were taken out of the population whose rest is `graded`; True: they
            come from elsewhere, or the population is given whole. None: unknown, and where it matters (all but random
            labels) the interval holds for both.
        level: Of the intervals.

    Raises:
        RecipeError: Nothing to read, lengths that differ, values outside 0 … 1, weights that are not positive.
    """
    return _corrected(_checked(graded, labelled, sampling, labelled_apart, level))


def _corrected(data: _Data) -> CorrectedRate:
    pool, sentence = questioned(data)
    if sentence:
        # What was said of the labels is not known to be true: nothing that hangs on it is read.
        drawn, data = data, replace(data, sampling=None, weights=None)
    reason = _few_clusters(data) or _missing(data) or _useless(data)
    if reason:
        return _refused(data, reason, pool, sentence)
    if sentence:
        whole, notes = _either(drawn), [sentence]
    else:
        means = _estimates(data)
        # Which items are the whole may be unknown: then the interval holds for either.
        whole = Mean(means[0].value, *_hull(means))
        notes = [_misfit(data), _nothing_added(data, means[0]), _widened(means[0], whole)]
    note = " ".join(filter(None, notes))
    return _report(data, _estimate(whole, data, data.method), method=data.method, note=note, pool=pool)


def _hull(means: Sequence[Mean]) -> Interval:
    return min(mean.low for mean in means), max(mean.high for mean in means)


def _either(drawn: _Data) -> Mean:
    """PPI++ and Rogan-Gladen: the middle of the two, with an interval that holds both of theirs."""
    ways = (replace(drawn, sampling="random"), replace(drawn, sampling="stratified", weights=None))
    means = [_estimates(way) for way in ways]
    return Mean(sum(of_way[0].value for of_way in means) / 2, *_hull([mean for of_way in means for mean in of_way]))


def questioned(data: _Data) -> tuple[Pool, str]:
    """Whether the labels are of the items whose rate is asked for, and a sentence where that is not known.

    The sentence says what speaks against a random sample, if anything does, and how to get the narrow interval.
    """
    claimed = data.sampling == "random" or data.weights is not None
    if data.sampling is not None and not claimed:
        return "same", ""
    others, weights = (data.verdicts, None) if data.weights is None else (data.populations[0], data.weights)
    codes, labelled = data.clusters_of(others), data.labelled_clusters
    both = None if codes is None or labelled is None else (labelled, codes)
    values = (data.judge, others)
    if data.scores is not None:
        # A score shows more than its verdict what the labelled items are.
        values = data.scores[1], np.concatenate(data.scores) if data.within(others) else data.scores[0]
    p = rates.unlike(*values, weights=weights, clusters=both)
    is_half = data.binary and 2 * data.human.sum() == len(data.human)
    taken_out = data.labelled_apart is False
    holds = "the interval holds for labels drawn at random, by the judge's verdicts or within people's labels"
    if p < _CONTRADICTED or (is_half and p < _SUSPECT):
        shares = data.mean(data.judge, weights).value, float(others.mean())
        half = ' Exactly half of the labels are passes: where that was so wanted, say sampling="stratified".'
        return "same" if taken_out else "other", (
            f"The labelled items are unlike the others: the judge's mean is {shares[0]:.2f} on them and "
            f"{shares[1]:.2f} on the rest (p = {p:.1g}), so {holds}. Items drawn at random from these and labelled "
            f"would give a narrower one.{half if is_half else ''}"
        )
    if claimed:
        return "same", ""
    return "same" if taken_out else "unknown", (
        f"It is not known how the labelled items were drawn, so {holds}. If they were drawn at random from the items "
        'whose rate is asked for, sampling="random" gives the narrower interval; `jrh agree --draw` draws them so.'
    )


def _few_clusters(data: _Data) -> str | None:
    """Why there is no interval by cluster, if so."""
    for what, codes in zip(("verdicts", "labels"), data.clusters or (), strict=False):
        if (k := len(np.unique(codes))) < FEWEST_CLUSTERS:
            return f"the {what} are of {k} clusters, and an interval by cluster needs {FEWEST_CLUSTERS}"
    return None


def _checked(
    graded: Graded, labelled: LabelledSample, sampling: Sampling | None, labelled_apart: bool | None, level: float
) -> _Data:
    if sampling is not None:
        check_known("sampling", sampling, SAMPLINGS)
    if not isinstance(level, Real) or not 0 < level < 1:
        raise RecipeError(f"`level` must lie between 0 and 1, but is {level!r}.")
    given = (graded.judge, labelled.judge, labelled.human)
    verdicts, judged, people = (np.asarray(values, float) for values in given)
    for name, values in (("verdicts", verdicts), ("the judge's labels", judged), ("the people's labels", people)):
        if not len(values):
            raise RecipeError(f"There are no {name.removeprefix('the ')}: nothing can be corrected.")
        # NaN fails both comparisons, so that a missing value is refused too.
        if not ((values >= 0) & (values <= 1)).all():
            raise RecipeError(f"Values of {name} must lie in 0 … 1, with none missing.")
    if len(judged) != len(people):
        raise RecipeError(f"{len(judged)} labels of the judge, but {len(people)} of people: give both for each item.")
    neither = graded.clusters is None and labelled.clusters is None
    sizes = (len(verdicts), len(people))
    return _Data(
        verdicts=verdicts,
        judge=judged,
        human=people,
        weights=None if labelled.weights is None else _checked_weights(labelled.weights, len(people)),
        sampling=sampling,
        labelled_apart=labelled_apart,
        level=level,
        clusters=None if neither else _codes(graded.clusters, labelled.clusters, sizes=sizes),
        scores=None if graded.scores is None or labelled.scores is None else (graded.scores, labelled.scores),
    )


def _codes(
    verdicts: Sequence[Hashable] | None, labelled: Sequence[Hashable] | None, *, sizes: tuple[int, int]
) -> tuple[Codes, Codes] | None:
    """Number the clusters of both sides; None where each item is one of its own."""
    ids = [
        _ids(names, n, side) for names, n, side in zip((verdicts, labelled), sizes, ("verdict", "label"), strict=True)
    ]
    known = {name: code for code, name in enumerate(dict.fromkeys([*ids[0], *ids[1]]))}
    first, second = (np.array([known[name] for name in names], dtype=int) for names in ids)
    return None if len(known) == sum(sizes) else (first, second)


def _checked_weights(weights: Array, n: int) -> Array:
    given = np.asarray(weights, float)
    if given.shape != (n,):
        raise RecipeError(f"{given.size} weights for {n} labelled items: give one for each.")
    if not (np.isfinite(given) & (given > 0)).all():
        raise RecipeError("Weights are inverse inclusion probabilities: each must be positive and finite.")
    # Only their ratios count, and squares of very large or small ones are no numbers.
    return given / float(given.max())


def _missing(data: _Data) -> str | None:
    """What the labels lack for the method, if anything."""
    if data.method == OPEN and not data.has_rogan_gladen:
        return (
            "labels of people that are scores tell their mean only where it is known how the items were drawn; draw "
            "them at random (`jrh agree --draw`), or say how they were (sampling=)"
        )
    if data.method == "Rogan-Gladen":
        if not data.binary and (data.scores is None or not data.has_rogan_gladen):
            return "labels drawn within the person's labels correct verdicts of yes or no only, no ties or scores"
        for value, lacking, rate in ((1.0, "passed", "sensitivity"), (0.0, "failed", "specificity")):
            if not (data.human == value).any():
                return f"no labelled item was {lacking} by people, so the judge's {rate} is unknown"
    if data.method == "two strata":
        for value in np.setdiff1d(data.verdicts, data.judge):
            share = float((data.verdicts == value).mean())
            return f"no labelled item has the judge's verdict {_said(value)}, which {share:.1%} of all items have"
    return None


def _said(value: float) -> str:
    return {1.0: "pass", 0.0: "fail"}.get(value, f"{value:g}")


def _useless(data: _Data) -> str | None:
    """Why the judge cannot be told from one that knows nothing, if so."""
    if data.method == "two strata":
        return _useless_by_verdict(data)
    better = rates.youden(data.told_by, data.human, data.weights, data.labelled_clusters, level=data.level)
    if better is None:
        return "people gave all labelled items the same label, so it is unknown whether the judge tells them apart"
    if better.low > 0:
        return None
    what = "sensitivity + specificity - 1" if data.scores is None else "its score where people say more minus less"
    return f"the judge may be no better than chance: {what} is {_shown(better)}"


def _useless_by_verdict(data: _Data) -> str | None:
    if data.only_verdict is not None:
        return f"the judge says {_said(data.only_verdict)} of every item, so it tells nothing"
    # se + sp > 1 exactly where people pass more of what the judge passes: the shares of verdicts do not matter.
    better = rates.youden(data.human, data.judge, None, data.labelled_clusters, level=data.level)
    if better is None:
        return (
            "no labelled item is one that the judge passed, or none one that it failed, so it is unknown what it tells"
        )
    if better.low > 0:
        return None
    what = "of what it passes people may pass no more than of what it fails"
    return f"the judge may be no better than chance: {what}, difference {_shown(better)}"


def _shown(mean: Mean) -> str:
    return f"{two_places(mean.value)} [{two_places(mean.low)}, {two_places(mean.high)}]"


def _refused(data: _Data, reason: str, pool: Pool, sentence: str) -> CorrectedRate:
    """People alone, where their labels are a random sample; else nothing."""
    people = _people_only(data)
    if isinstance(people, Estimate):
        note = f"{reason[0].upper()}{reason[1:]}: the estimate is that of the people's labels alone."
        return _report(data, people, method="people only", note=note, pool=pool)
    missing = NotEstimable(reason=reason, n=len(data.human))
    note = f"{reason[0].upper()}{reason[1:]}. {sentence}".strip()
    return _report(data, missing, method="none", note=note, pool=pool)


def _people_only(data: _Data) -> Reading:
    if data.method == "two strata" and data.only_verdict is not None:
        # All items are one stratum, and its labels a random sample of it.
        here = data.judge == data.only_verdict
        codes = None if data.clusters is None else (data.clusters[0], data.clusters[1][here])
        data = replace(data, human=data.human[here], clusters=codes)
    elif reason := _few_clusters(data):
        return NotEstimable(reason=reason, n=len(data.human))
    elif not data.people_alone:
        return NotEstimable(reason=_DRAWN[data.sampling], n=len(data.human))
    if not len(data.human):
        return NotEstimable(reason="no labelled item has the only verdict that there is")
    return _estimate(data.people_mean, data, "people only")


def _estimates(data: _Data) -> list[Mean]:
    """Return the estimate of each population that may be the one that is asked for."""
    return [_estimated(data.read_by, population) for population in data.read_by.populations]


def _estimated(data: _Data, population: Array) -> Mean:
    """Estimate by the method of the data, and lengthen the interval by what clusters leave open."""
    alone, within = replace(data, clusters=None), data.within(population)
    if data.method == "two strata":
        mean = rates.by_strata(population, data.judge, data.human, level=data.level)
    elif data.method != "Rogan-Gladen":
        mean = rates.ppi(population, data.judge, data.human, data.weights, within=within, level=data.level)
    elif data.binary:
        mean = rates.rogan_gladen(alone.mean(population), *_error_rates(alone))
    else:
        mean = rates.reverse_regression(population, data.judge, data.human, level=data.level)
    codes, labelled = data.clusters_of(population), data.labelled_clusters
    if codes is None or labelled is None:
        return mean
    effects = rates.influences(population, data.judge, data.human, data.weights, method=data.method, within=within)
    return mean.longer(rates.cluster_factor([(effects[0], codes), (effects[1], labelled)], level=data.level))


def _error_rates(data: _Data) -> tuple[Mean, Mean]:
    """Share of passes by the judge among what people passed, and among what they failed."""
    weights = data.weights
    if data.method == "two strata":
        # Labels of one verdict stand for all items of that verdict.
        weights = np.ones(len(data.judge))
        for value in np.unique(data.judge):
            here = data.judge == value
            weights[here] = (data.populations[0] == value).sum() / here.sum()
    yes, no = (_part(data, weights, data.human == value) for value in (1.0, 0.0))
    return yes, no


def _part(data: _Data, weights: Array | None, chosen: Mask) -> Mean:
    """Mean of the judge's values on chosen items; those that stand for no item at all are none."""
    chosen = chosen if weights is None else chosen & (weights > 0)
    codes = data.labelled_clusters
    return data.mean(
        data.judge[chosen], None if weights is None else weights[chosen], None if codes is None else codes[chosen]
    )


def _misfit(data: _Data) -> str:
    """A judge that passes more (or less) than it does on any kind of labelled item."""
    if data.method != "Rogan-Gladen" or not data.binary:
        return ""
    passed = data.mean(data.populations[0], None, data.clusters_of(data.populations[0]))
    se, false_passes = _error_rates(data)
    for apart, (over, under) in ((1, (passed, se)), (-1, (false_passes, passed))):
        # Only where the interval of the difference leaves 0 out: a smaller one may be chance.
        if over.value - under.value > rates.square_and_add([(1.0, over), (-1.0, under)])[0]:
            what = "more than it passes" if apart > 0 else "less than it passes"
            kind = "passed" if apart > 0 else "failed"
            return (
                f"The judge passes {passed.value:.2f} of the items, {what} of those that people {kind} "
                f"({(se if apart > 0 else false_passes).value:.2f}): the labelled items are unlike the others."
            )
    return ""


def _nothing_added(data: _Data, mean: Mean) -> str:
    """A sentence where the interval is not shorter than that of the people's labels alone, if these can be read so."""
    if not data.people_alone:
        return ""
    # By the same kind of interval: that of the people's mean by itself is longer.
    alone = sum(rates.sum_interval([(1.0, data.people_mean)], level=data.level))
    if mean.high - mean.low < (1 - _LEAST_GAIN) * alone:
        return ""
    return "The judge adds nothing: people's labels alone tell the rate as exactly."


def _widened(narrower: Mean, reported: Mean) -> str:
    """A sentence where the interval is longer because it must hold whether or not the labelled items were taken out."""
    narrow, wide = narrower.high - narrower.low, reported.high - reported.low
    if wide - narrow < _LEAST_WIDER:
        return ""
    return (
        f"The interval is {wide:.3f} wide instead of {narrow:.3f} because it is not known whether the labelled items "
        "were among the verdicts: give the verdicts on all items, with item ids on both sides."
    )


def _report(data: _Data, estimate: Reading, *, method: str, note: str, pool: Pool) -> CorrectedRate:
    naive = data.judge_mean
    sensitivity, specificity = _shown_error_rates(data)
    return CorrectedRate(
        estimate=estimate,
        naive=mean_reading(naive, n=len(data.verdicts), method="mean of the judge"),
        people_only=_people_only(data),
        method=method,
        note=note,
        sampling=data.sampling,
        n_labelled=len(data.human),
        n_unlabelled=len(data.verdicts),
        sensitivity=sensitivity,
        specificity=specificity,
        pool=pool,
        if_fewer_found=rate_if_fewer_found(estimate, sensitivity, specificity),
    )


def rate_if_fewer_found(rate: Reading, sensitivity: Reading | None, specificity: Reading | None) -> float | None:
    """The rate that the judge's mean stands for where it finds .10 fewer of the failures, all else equal.

    With se and f = 1 - sp of the labels the judge passes `se θ + f (1 - θ)`; f + .10 in the place of f gives that for
    `((se - f) θ - .10) / (se - f - .10)`.
    """
    known = [reading.value for reading in (rate, sensitivity, specificity) if isinstance(reading, Estimate)]
    if len(known) < 3 or (apart := known[1] + known[2] - 1) <= FEWER_FOUND:
        return None
    return min(1.0, max(0.0, (apart * known[0] - FEWER_FOUND) / (apart - FEWER_FOUND)))


def _shown_error_rates(data: _Data) -> tuple[Reading, Reading]:
    if not data.binary:
        missing = NotEstimable(reason="values are not all yes or no")
        return missing, missing
    known = np.isin(data.judge, data.populations[0]) if data.method == "two strata" else np.ones(len(data.judge), bool)
    n_yes, n_no = int((data.human[known] == 1).sum()), int((data.human[known] == 0).sum())
    if not n_yes or not n_no:
        missing = NotEstimable(reason="people gave all labelled items the same label")
        return missing, missing
    se, false_passes = _error_rates(data)
    sp = Mean(1 - false_passes.value, 1 - false_passes.high, 1 - false_passes.low)
    method = "share of labelled items"
    return mean_reading(se, n=n_yes, method=method), mean_reading(sp, n=n_no, method=method)


def _estimate(mean: Mean, data: _Data, method: str) -> Estimate:
    how = f"{method}, {len(data.human)} labels"
    how += f" and {len(data.verdicts)} verdicts" if method != "people only" else ""
    codes = data.labelled_clusters
    k = len(data.human) if codes is None else len(np.unique(codes))
    return mean_reading(mean, n=len(data.human), method=how, n_clusters=k)


def mean_reading(
    mean: Mean, *, n: int, method: str, statistic: Statistic = "rate", n_clusters: int | None = None
) -> Estimate:
    """Write a mean with its interval as a reading of `n` items."""
    return Estimate(
        value=mean.value,
        n=n,
        excluded=0,
        **intervals((mean.low, mean.high), (mean.low, mean.high)),
        n_clusters=n if n_clusters is None else n_clusters,
        method=method,
        unit="item",
        statistic=statistic,
    )


def correct_difference(
    first: Graded,
    second: Graded,
    calibration: LabelledSample | tuple[LabelledSample, LabelledSample],
    *,
    sampling: Sampling | None,
    labelled_apart: bool | tuple[bool | None, bool | None] | None = None,
    level: float = 0.95,
) -> CorrectedDifference:
    """Correct the difference of two versions (second minus first) that one judge graded.

    With labels of each version both rates are corrected by themselves. Shared labels give the judge's sensitivity and
    specificity, which must be the same on both versions: `(p2 - p1) / (se + sp - 1)`. Items that both versions have
    (the same id) are paired.

    Args:
        first: The judge's values on the one version.
        second: On the other.
        calibration: Labels shared by both versions, or those of each.
        sampling: How the labelled items were drawn; shared ones from both versions together.
        labelled_apart: As in `correct_rate`, for both versions or for each.
        level: Of the interval.
    """
    shared = isinstance(calibration, LabelledSample)
    own = (calibration, calibration) if isinstance(calibration, LabelledSample) else calibration
    apart = labelled_apart if isinstance(labelled_apart, tuple) else (labelled_apart, labelled_apart)
    old, new = (
        _Version.of(graded, its, name=str(at), data=_checked(graded, its, sampling, apart[at], level))
        for at, (graded, its) in enumerate(zip((first, second), own, strict=True))
    )
    return _by_shared_labels(old, new) if shared else _by_own_labels(old, new)


@dataclass(frozen=True, kw_only=True)
class _Version:
    """A version with the ids of its items."""

    data: _Data
    graded: Sequence[Hashable]
    labelled: Sequence[Hashable]
    clusters: dict[Hashable, Hashable]
    """Of items, where they are known."""

    @classmethod
    def of(cls, graded: Graded, its: LabelledSample, *, name: str, data: _Data) -> _Version:
        ids = _ids(graded.items, len(graded.judge), f"verdicts {name}")
        labelled = _ids(its.items, len(its.human), f"labels {name}")
        sides = ((ids, graded.clusters), (labelled, its.clusters))
        clusters = {item: name for names, known in sides for item, name in zip(names, known or (), strict=False)}
        return cls(data=data, graded=ids, labelled=labelled, clusters=clusters)

    def influences(self, method: Method) -> dict[Hashable, float]:
        """What each item, or cluster, adds to the estimate of this method; nothing where two methods share it."""
        if method == OPEN:
            return {}
        data = self.data.read_by if "PPI" in method else self.data
        population = data.verdicts if method == "naive" else data.populations[0]
        within = data.within(population)
        parts = rates.influences(population, data.judge, data.human, data.weights, method=method, within=within)
        of_item: dict[Hashable, float] = {}
        # Where the labelled items are part of the population, they stand at its end.
        for ids, values in (([*self.graded, *self.labelled], parts[0]), (self.labelled, parts[1])):
            for name, value in zip(ids, values.tolist(), strict=False):
                item = self.clusters.get(name, name)
                of_item[item] = of_item.get(item, 0.0) + value
        return of_item


def _ids(items: Sequence[Hashable] | None, n: int, name: str) -> Sequence[Hashable]:
    """Ids, or ones that nothing else has."""
    if items is None:
        # The name is in it, so that rows of two versions are never taken for one item.
        return [(name, at) for at in range(n)]
    if len(items) != n:
        raise RecipeError(f"{len(items)} item ids for {n} values: give one for each.")
    return items


def _by_own_labels(old: _Version, new: _Version) -> CorrectedDifference:
    both = [_corrected(version.data) for version in (old, new)]
    estimates = [rate.estimate for rate in both]
    notes = [
        f"{which} version: {rate.note}" for which, rate in zip(("First", "Second"), both, strict=True) if rate.note
    ]
    # A rate whose method is `none` has no estimate, and is refused before its influences are asked for.
    methods = [cast(Method, rate.method) for rate in both]
    return CorrectedDifference(
        estimate=_subtracted(old, new, estimates, methods),
        naive=_naive_difference(old, new),
        people_only=_subtracted(old, new, [rate.people_only for rate in both], ["people only"] * 2),
        method=" and ".join(dict.fromkeys(methods)),
        note=" ".join(notes),
        rates=(estimates[0], estimates[1]),
        effects=_apart(old, new, methods) if all(isinstance(rate, Estimate) for rate in estimates) else {},
    )


def _apart(old: _Version, new: _Version, methods: Sequence[Method]) -> dict[Hashable, float]:
    """What each item adds to the difference; nothing where a method does not tell."""
    if OPEN in methods:
        return {}
    first, second = old.influences(methods[0]), new.influences(methods[1])
    return {item: second.get(item, 0.0) - first.get(item, 0.0) for item in {**first, **second}}


def _subtracted(old: _Version, new: _Version, readings: Sequence[Reading], methods: Sequence[Method]) -> Reading:
    """Second minus first, by their intervals and by how far the two go together on the items of both."""
    for which, reading in zip(("first", "second"), readings, strict=True):
        if isinstance(reading, NotEstimable):
            return NotEstimable(reason=f"{which} version: {reading.reason}", n=reading.n, statistic="value")
    estimates = [reading for reading in readings if isinstance(reading, Estimate)]
    # On items of both versions the rates go up and down together, which narrows their difference.
    r = _together(old.influences(methods[0]), new.influences(methods[1]))
    (a, a_ends), (b, b_ends) = ((estimate.value, estimate.interval or (0.0, 1.0)) for estimate in estimates)
    low, high = newcombe(a, a_ends, b, b_ends, correlation=r)
    how = " and ".join(dict.fromkeys(estimate.method for estimate in estimates))
    return mean_reading(
        Mean(b - a, low, high), n=sum(estimate.n for estimate in estimates), method=how, statistic="value"
    )


def _together(a: dict[Hashable, float], b: dict[Hashable, float]) -> float:
    """Correlation of two estimates."""
    shared = np.array([value * b[item] for item, value in a.items() if item in b])
    return rates.correlation(np.array([*a.values()]), np.array([*b.values()]), shared)


def _naive_difference(old: _Version, new: _Version) -> Estimate:
    means = [version.data.judge_mean for version in (old, new)]
    r = _together(old.influences("naive"), new.influences("naive"))
    low, high = newcombe(means[0].value, _ends(means[0]), means[1].value, _ends(means[1]), correlation=r)
    n = len(old.data.verdicts) + len(new.data.verdicts)
    value = means[1].value - means[0].value
    return mean_reading(Mean(value, low, high), n=n, method="means of the judge", statistic="value")


def _ends(mean: Mean) -> Interval:
    return mean.low, mean.high


_SHARED = "Both versions share the labels: the judge is taken to be as sensitive and as specific on both."


def _by_shared_labels(old: _Version, new: _Version) -> CorrectedDifference:
    naive = _naive_difference(old, new)
    # By cluster only the labels are read of it: the verdicts are read of each version.
    whole = replace(old.data, verdicts=np.concatenate([old.data.verdicts, new.data.verdicts]))
    missing = NotEstimable(reason="the labels are shared by both versions", statistic="value")
    # However shared labels were drawn they are read by Rogan-Gladen, which needs passes and fails.
    reason = _few_clusters(whole) or _missing(replace(whole, sampling="stratified", weights=None))
    reason = reason or _missing(whole) or _useless(whole)
    if reason is None:
        judge = rates.rate_difference(*_error_rates(whole))
        if judge.low <= 0:
            reason = "the judge may be no better than chance"
    if reason:
        nothing = NotEstimable(reason=reason, n=len(whole.human), statistic="value")
        note = f"{reason[0].upper()}{reason[1:]}."
        return CorrectedDifference(
            estimate=nothing, naive=naive, people_only=missing, method="none", note=note, rates=(nothing, nothing)
        )
    difference = rates.rate_ratio(Mean(naive.value, *(naive.interval or (-1.0, 1.0))), judge)
    how = f"Rogan-Gladen, {len(whole.human)} labels and {len(whole.verdicts)} verdicts"
    first, second = (rates.rogan_gladen(version.data.judge_mean, *_error_rates(whole)) for version in (old, new))
    return CorrectedDifference(
        estimate=mean_reading(difference, n=len(whole.human), method=how, statistic="value"),
        naive=naive,
        people_only=missing,
        method="Rogan-Gladen",
        note=_SHARED,
        rates=(
            mean_reading(first, n=len(whole.human), method=how),
            mean_reading(second, n=len(whole.human), method=how),
        ),
        effects=_apart(old, new, ["naive", "naive"]),
    )
