"""Corrected rates: how often their intervals hold the truth, and how wide they are.

A scenario is a true rate, a judge with a sensitivity and a specificity, and a way in which people's
labels came about. Its items and labels are drawn many times over. Estimates that are refused are
counted, not scored; of a judge that knows nothing nearly all must be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy.stats import norm

from jrh_mlflow.people import corrected
from jrh_mlflow.schema.estimates import Estimate
from tests.validation.loop import (
    ALPHA,
    LOW,
    N_ERRORS,
    Part,
    Simulation,
    check_share,
    checks_text,
    coverage_verdict,
)

DESIGNS = ("random", "stratified", "by_verdict", "weighted")
"""How items are chosen to be labelled: half and half within the person's labels or the judge's
verdicts; or weighted: those that the judge fails are three times as likely as the others."""
_CUTS = (-1.5, -0.5, 0.5, 1.5)
"""Between the marks 1 to 5, from the middle,"""
_SPREAD = 1.2
"""and the standard deviation of what people round to them."""
_FALSE_ALARMS = 0.01
"""Most draws in which labels drawn at random may be found unlike the other items."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What is drawn."""

    theta: float
    """True rate of passes."""
    se: float
    sp: float
    n: int = 100
    """Labelled items."""
    total: int = 1000
    """Items, the labelled ones included."""
    design: str = "random"
    apart: bool = False
    """Labelled items come from elsewhere; otherwise they are taken out of the items."""
    ids: bool = False
    """Ids tell that the labelled items were taken out."""
    ties: bool = False
    """A third of all items is a tie to people, and another third to the judge."""
    second: float | None = None
    """True rate of a second version of the application: then the difference is estimated."""
    shared: bool = False
    """Both versions have the same labels; otherwise each has its own, of the same items."""
    there: float | None = None
    """True rate of another application whose labels are taken; their origin is not stated."""
    cluster: int = 1
    """Items of a conversation; whole conversations are labelled."""
    icc: float = 0.0
    """How alike items of a conversation are, and the judge's errors on them."""
    scores: str | None = None
    """The judge gives scores whose area under the curve is `se`: `probabilities` that are off,
    beside passes of people, or `marks` of 1 to 5 beside those of people, whose mean is asked."""

    def __str__(self):
        rate = f"{self.theta:g}"
        if self.second is not None:
            rate += f" and {self.second:g}"
        taken = " from elsewhere" if self.apart else ""
        more = [name for name in ("ids", "ties", "shared") if getattr(self, name)]
        if self.there is not None:
            more.append(f"unknown origin, {self.there:g} there")
        if self.scores is not None:
            more.append(self.scores)
        if self.cluster > 1:
            more.append(f"clusters of {self.cluster}, ICC {self.icc:g}")
        judge = f"se {self.se:g}, sp {self.sp:g}"
        labels = f"{self.n} {self.design}{taken} of {self.total:,}"
        return ", ".join([f"rate {rate}, {judge}: {labels}", *more])

    @property
    def truth(self):
        """What is estimated; ties count one half."""
        if self.second is not None:
            return self.second - self.theta
        if self.scores == "marks":
            # People's mark is over k + 1 where the standard normal of `_scored` is.
            return float(np.mean([norm.cdf((self.level - cut) / _SPREAD) for cut in _CUTS]))
        return self.theta * 2 / 3 + 1 / 6 if self.ties else self.theta

    @property
    def level(self):
        """Of items with marks, before they are rounded, in steps of a mark from the middle."""
        return _SPREAD * float(norm.ppf(self.theta))

    @property
    def useless(self):
        """Whether the judge knows nothing."""
        return self.se + self.sp <= 1

    @property
    def sampling(self):
        """What the estimate is told; weights do the rest."""
        if self.there is not None:
            return None
        return "random" if self.design == "weighted" else self.design


_STRATIFIED = Scenario(theta=0.7, se=0.9, sp=0.8, design="stratified")
_BY_VERDICT = replace(_STRATIFIED, design="by_verdict")
_USELESS = Scenario(theta=0.7, se=0.6, sp=0.4)
_DIFFERENT = Scenario(theta=0.7, second=0.8, se=0.9, sp=0.8)
STATED = (
    Scenario(theta=0.85, se=0.9, sp=0.7),
    Scenario(theta=0.7, se=0.95, sp=0.95),
    Scenario(theta=0.95, se=0.97, sp=0.8, n=150),
    _STRATIFIED,
    replace(_STRATIFIED, apart=True),
    _BY_VERDICT,
    replace(_BY_VERDICT, apart=True),
    *(replace(_USELESS, design=design) for design in DESIGNS[:3]),
)
"""Those that the promise names, and a judge that knows nothing."""
_EDGES = tuple(
    Scenario(
        theta=theta, se=se, sp=sp, n=n, total=total, design=design, apart=design == "stratified"
    )
    for (theta, n, total), (se, sp), design in product(
        (
            (0.01, 60, 400),
            (0.99, 60, 400),
            (0.95, 30, 200),
            (0.5, 30, 200),
            (0.97, 400, 10_000),
        ),
        ((0.97, 0.9), (1.0, 1.0)),
        DESIGNS,
    )
)
_HARDLY_WRONG = tuple(
    Scenario(theta=0.9, se=se, sp=sp, n=n, total=1000 + n)
    for n, (se, sp) in product((100, 200), ((1.0, 1.0), (0.98, 0.98), (0.98, 1.0), (1.0, 0.9)))
)
"""Judges whose few mistakes 100 labels may not show, beside one that makes none."""
_ELSEWHERE = tuple(
    Scenario(theta=here, there=0.6, se=0.9, sp=0.8, n=n, total=1000 + n)
    for n, here in product((100, 300), (0.6, 0.65, 0.7, 0.75, 0.8, 0.9))
)
"""Labels of unknown origin."""
_CLUSTERED = tuple(
    Scenario(theta=0.7, se=0.9, sp=0.8, n=n, total=6 * n, cluster=of, icc=icc)
    for (of, n), icc in product(((2, 100), (5, 100), (20, 400)), (0.0, 0.1, 0.3, 0.6))
)
"""20 labelled conversations or more."""
_SCORED = (
    *(
        Scenario(theta=theta, se=0.9, sp=0.9, n=n, scores=scores)
        for theta, n, scores in product((0.7, 0.95), (100, 300), ("probabilities", "marks"))
    ),
    Scenario(theta=0.7, se=0.9, sp=0.9, n=200, scores="probabilities", design="weighted"),
    Scenario(theta=0.7, se=0.9, sp=0.9, n=200, scores="marks", design="by_verdict"),
)
SCENARIOS = (
    *STATED,
    *_HARDLY_WRONG,
    *_ELSEWHERE,
    *_CLUSTERED,
    *_SCORED,
    replace(STATED[0], design="weighted"),
    # Half of all items, some nine in ten of those that the judge fails: the rest is unlike it.
    Scenario(theta=0.7, se=0.98, sp=0.98, n=500, design="weighted", ids=True),
    Scenario(theta=0.6, se=0.9, sp=0.8, ties=True),
    Scenario(theta=0.6, se=0.9, sp=0.8, ties=True, design="by_verdict"),
    _DIFFERENT,
    replace(_DIFFERENT, design="by_verdict"),
    replace(_DIFFERENT, second=0.7, n=200),
    *(replace(_DIFFERENT, shared=True, apart=True, design=design) for design in DESIGNS[:3]),
    replace(_DIFFERENT, theta=0.97, second=0.99, shared=True, apart=True, design="stratified"),
    *_EDGES,
)


def _run(scenario, batch):
    """Per draw: what was estimated, and by the judge's own mean and the labels alone."""
    rng = batch.rng(scenario)
    draw = _drawn_rate if scenario.second is None else _drawn_difference
    truth = scenario.truth
    for _ in batch.runs:
        report = draw(scenario, rng)
        estimate = report.estimate
        is_given = isinstance(estimate, Estimate)
        held, width = _score(estimate, truth)
        people_held, people_width = _score(report.people_only, truth)
        yield {
            "held": held,
            "bias": estimate.value - truth if is_given else None,
            "width": width,
            "naive": _score(report.naive, truth)[0],
            "people": people_held,
            "their width": people_width,
            # People alone, or nothing, stand in for the corrected rate.
            "refused": not is_given or "people only" in report.method,
            # Whether verdicts on labelled and other items differ; None of differences.
            "unlike": report.pool == "other" if scenario.second is None else None,
        }


def _score(reading, truth):
    """Return whether the interval holds the truth, and its width; None without one."""
    if not isinstance(reading, Estimate) or reading.interval is None:
        return None, None
    low, high = reading.interval
    # An end that is the rate itself holds it, whatever the last digit.
    return low <= truth + 1e-12 and truth <= high + 1e-12, high - low


def _drawn_rate(scenario, rng):
    verdicts, labelled = _drawn(scenario, rng)
    ours = None
    theirs = None
    if scenario.cluster > 1:
        # Whole conversations are labelled, the first ones.
        theirs = [at // scenario.cluster for at in range(scenario.n)]
        ours = [scenario.n + at // scenario.cluster for at in range(len(verdicts))]
    scores = None if labelled.scores is None else verdicts
    return corrected.correct_rate(
        corrected.Graded(judge=verdicts, clusters=ours, scores=scores),
        replace(labelled, clusters=theirs),
        sampling=scenario.sampling,
        labelled_apart=False if scenario.ids else None,
    )


def _drawn(scenario, rng):
    """Draw the items, choose those that people label, and take them out."""
    n = scenario.n
    if scenario.there is not None:
        human, judged = _items(scenario, rng.random(n), rng, theta=scenario.there)
        _, judge = _items(scenario, rng.random(scenario.total - n), rng)
        return judge, corrected.LabelledSample(judge=judged, human=human)
    if scenario.cluster > 1:
        human, judge = _clustered_items(scenario, rng)
        return judge[n:], corrected.LabelledSample(judge=judge[:n], human=human[:n])
    draw = _items if scenario.scores is None else _scored
    human, judge = draw(scenario, rng.random(scenario.total), rng)
    if scenario.apart:
        # Enough for half of the labels to be of the rarer kind.
        others = _items(scenario, rng.random(2000 + 40 * n), rng)
        return judge[n:], _labelled(scenario, *others, rng)[1]
    chosen, labelled = _labelled(scenario, human, judge, rng)
    return np.delete(judge, chosen), labelled


def _items(scenario, chances, rng, *, theta=None):
    """People's and the judge's values of items; chances under the true rate are passes."""
    human = chances < (scenario.theta if theta is None else theta)
    chance = rng.random(len(human))
    judge = np.where(human, chance < scenario.se, chance >= scenario.sp).astype(float)
    people = human.astype(float)
    if scenario.ties:
        people[rng.random(len(human)) < 1 / 3] = 0.5
        judge[rng.random(len(human)) < 1 / 3] = 0.5
    return people, judge


def _scored(scenario, chances, rng):
    """People's values, and the scores of a judge that sees them with noise."""
    apart = math.sqrt(2) * float(norm.ppf(scenario.se))
    if scenario.scores == "probabilities":
        human = chances < scenario.theta
        seen = np.where(human, apart / 2, -apart / 2) + rng.standard_normal(len(human))
        # Squared: a probability that is too low throughout.
        return human.astype(float), np.square(1 / (1 + np.exp(-apart * seen)))
    latent = scenario.level + _SPREAD * norm.ppf(chances)
    seen = latent * 0.8 + 0.4 + rng.standard_normal(len(latent)) / apart
    return np.searchsorted(_CUTS, latent) / 4, np.searchsorted(_CUTS, seen) / 4


def _clustered_items(scenario, rng):
    """Items of conversations, each with a rate of passes and of errors of its own (beta)."""
    rates = []
    for mean in (scenario.theta, scenario.se, 1 - scenario.sp):
        of_clusters = np.full(scenario.total // scenario.cluster, mean)
        if scenario.icc:
            size = (1 - scenario.icc) / scenario.icc
            of_clusters = rng.beta(mean * size, (1 - mean) * size, len(of_clusters))
        rates.append(np.repeat(of_clusters, scenario.cluster))
    human = rng.random(scenario.total) < rates[0]
    judge = rng.random(scenario.total) < np.where(human, rates[1], rates[2])
    return human.astype(float), judge.astype(float)


def _labelled(scenario, human, judge, rng):
    """Choose items by the design, and return where they are and their labels."""
    weights = None
    if scenario.design == "weighted":
        chance = np.where(judge < 0.5, 3.0, 1.0)
        chance *= scenario.n / chance.sum()
        chosen = np.flatnonzero(rng.random(len(judge)) < chance)
        # Inverse inclusion probabilities, as the estimate expects them.
        weights = 1 / chance[chosen]
    elif scenario.design == "random":
        chosen = rng.permutation(len(judge))[: scenario.n]
    else:
        by = human if scenario.design == "stratified" else judge
        kinds = [rng.permutation(np.flatnonzero(by == value)) for value in np.unique(by)]
        chosen = np.concatenate([kind[: scenario.n // len(kinds)] for kind in kinds])
    sample = corrected.LabelledSample(
        judge=judge[chosen],
        human=human[chosen],
        weights=weights,
        items=[str(at) for at in chosen.tolist()],
        scores=None if scenario.scores is None else judge[chosen],
    )
    return chosen, sample


def _drawn_difference(scenario, rng):
    """Two versions on the same items: of seven in ten what is easy for one is so for both."""
    more = 40 * scenario.n if scenario.shared else 0
    n = scenario.total + more
    chances = rng.random(n)
    # Two versions of one application do well on the same items, or pairing would gain nothing.
    again = np.where(rng.random(n) < 0.7, chances, rng.random(n))
    first = _items(scenario, chances, rng, theta=scenario.theta)
    second = _items(scenario, again, rng, theta=scenario.second)
    if scenario.shared:
        # Labels of either version on further items, put together.
        further = slice(scenario.total, None)
        human = np.concatenate([first[0][further], second[0][further]])
        judge = np.concatenate([first[1][further], second[1][further]])
        calibration = replace(_labelled(scenario, human, judge, rng)[1], items=None)
        graded = [_graded(judge[: scenario.total], []) for _, judge in (first, second)]
    else:
        chosen_first, labels_first = _labelled(scenario, *first, rng)
        chosen_second, labels_second = _labelled(scenario, *second, rng)
        calibration = (labels_first, labels_second)
        graded = [_graded(first[1], chosen_first), _graded(second[1], chosen_second)]
    return corrected.correct_difference(*graded, calibration, sampling=scenario.sampling)


def _graded(judge, without):
    items = np.delete(np.arange(len(judge)), without)
    return corrected.Graded(judge=judge[items], items=[str(at) for at in items.tolist()])


def _checks(scenario, runs):
    yield check_share(
        "corrected rate in its interval",
        scenario,
        runs,
        "held",
        at_least=LOW,
        beside=("bias", "width", "naive", "people", "their width", "refused", "unlike"),
        verdict=_verdict(scenario, runs),
        n=len(runs),
    )


def _verdict(scenario, runs):
    total = len(runs)
    # Labels of the same pool that are drawn at random are never unlike the others, but for chance.
    same_pool = scenario.there in (None, scenario.theta) and scenario.second is None
    unlike = runs["unlike"].astype(float).mean()
    if scenario.design == "random" and same_pool and _exceeds(unlike, _FALSE_ALARMS, total):
        return f"FAILS: labels drawn at random are found unlike the others in {unlike:.1%}"
    used = 1 - runs["refused"].mean()
    if scenario.useless and _exceeds(used, ALPHA, total):
        return f"FAILS: a judge that knows nothing is used in {used:.1%}"
    held = runs["held"].dropna()
    if held.empty:
        return "ok: refused"
    coverage = held.mean()
    if len(held) < total / 2:
        # The few that are given were lucky to pass as useful: what counts is how often anything
        # false is said at all.
        coverage = 1 - (1 - coverage) * len(held) / total
    return coverage_verdict(coverage, len(held), too_wide="conservative")


def _exceeds(share, most, n):
    """Whether a share is over its limit, beyond the error of the draws."""
    return share > most + N_ERRORS * math.sqrt(most * (1 - most) / n)


CORRECTIONS = Simulation(worlds=SCENARIOS, quick=STATED, run=_run, checks=_checks, batch=100)
_LEGEND = """
naive: coverage of the judge's own mean; people: of the labels alone, where they are a random
sample. Labels are taken out of the items unless they are from elsewhere, which the estimate is not
told. refused: share of draws in which the judge may know nothing, so that people alone are read,
or nothing. unlike: share of draws in which the judge's verdicts on labelled and other items differ
(p < .001).
"""
PART = Part(
    word="corrected",
    simulations=(CORRECTIONS,),
    runs_per_seed=(20, 4),
    text=lambda checks: checks_text(checks) + _LEGEND,
)
