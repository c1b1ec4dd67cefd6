"""Corrected rates: how often their intervals hold the truth, how wide they are, and how often the judge's mean does.

A scenario is a true rate, a judge with a sensitivity and a specificity, and a way in which people's labels came about.
Its items and labels are drawn many times over. Estimates that are refused are counted, not scored; of a judge that
knows nothing nearly all must be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, get_args

import numpy as np
from scipy.stats import norm

from jrh_mlflow.people import corrected
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.show.tables import Column, Table
from jrh_mlflow.stats import Array, Codes
from tests.validation import loop

Design = Literal["random", "stratified", "by_verdict", "weighted"]
DESIGNS: tuple[Design, ...] = get_args(Design)
Scores = Literal["probabilities", "marks"]
_CUTS, _SPREAD = (-1.5, -0.5, 0.5, 1.5), 1.2
"""Between the marks 1 to 5, from the middle, and the standard deviation of what people round to them."""
_FALSE_ALARMS = 0.01
"""Most draws in which labels drawn at random may be found unlike the other items."""


@dataclass(frozen=True, kw_only=True, slots=True)
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
    design: Design = "random"
    """How items are chosen to be labelled: half and half within the person's labels or within the judge's verdicts; or
    weighted: those that the judge fails are three times as likely as the others."""
    apart: bool = False
    """Labelled items come from elsewhere; otherwise they are taken out of the items."""
    ids: bool = False
    """Ids tell that the labelled items were taken out."""
    ties: bool = False
    """Wins and ties: a third of all items is a tie to people, and another third to the judge."""
    second: float | None = None
    """True rate of a second version of the application: then the difference is estimated."""
    shared: bool = False
    """Both versions have the same labels, half of them of each; otherwise each has its own, of the same items."""
    there: float | None = None
    """True rate of another application whose labels are taken; nothing is said of where they come from."""
    cluster: int = 1
    """Items of a conversation; whole conversations are labelled."""
    icc: float = 0.0
    """How alike items of a conversation are, and the judge's errors on them."""
    scores: Scores | None = None
    """The judge gives scores with the area under the curve `se`: probabilities that are off beside passes of people, or
    marks of 1 to 5 beside those of people, whose mean is asked for."""

    def __str__(self) -> str:
        """Name truth, judge and design."""
        rate = f"{self.theta:g}" if self.second is None else f"{self.theta:g} and {self.second:g}"
        taken = " from elsewhere" if self.apart else ""
        more = "".join(f", {name}" for name in ("ids", "ties", "shared") if getattr(self, name))
        more += "" if self.there is None else f", unknown origin, {self.there:g} there"
        more += "" if self.scores is None else f", {self.scores}"
        more += f", clusters of {self.cluster}, ICC {self.icc:g}" if self.cluster > 1 else ""
        return f"rate {rate}, se {self.se:g}, sp {self.sp:g}: {self.n} {self.design}{taken} of {self.total:,}{more}"

    @property
    def truth(self) -> float:
        """What is estimated; ties count one half."""
        if self.second is not None:
            return self.second - self.theta
        if self.scores == "marks":
            # People's mark is over k + 1 where the standard normal of `_scored` is.
            return float(np.mean([norm.cdf((self._level - cut) / _SPREAD) for cut in _CUTS]))
        return self.theta * 2 / 3 + 1 / 6 if self.ties else self.theta

    @property
    def _level(self) -> float:
        """Of items with marks, before they are rounded, in steps of a mark from the middle."""
        return _SPREAD * float(norm.ppf(self.theta))

    @property
    def useless(self) -> bool:
        """Whether the judge knows nothing."""
        return self.se + self.sp <= 1

    @property
    def sampling(self) -> corrected.Sampling | None:
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
    Scenario(theta=theta, se=se, sp=sp, n=n, total=total, design=design, apart=design == "stratified")
    for (theta, n, total), (se, sp), design in product(
        ((0.01, 60, 400), (0.99, 60, 400), (0.95, 30, 200), (0.5, 30, 200), (0.97, 400, 10_000)),
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
    Scenario(theta=0.7, se=0.9, sp=0.8, n=max(100, 20 * of), total=6 * max(100, 20 * of), cluster=of, icc=icc)
    for of, icc in product((2, 5, 20), (0.0, 0.1, 0.3, 0.6))
)
"""20 labelled conversations or more."""
_SCORED = (
    *(
        Scenario(theta=theta, se=0.9, sp=0.9, n=n, scores=scores)
        for theta, n, scores in product((0.7, 0.95), (100, 300), get_args(Scores))
    ),
    Scenario(theta=0.7, se=0.9, sp=0.9, n=200, scores="probabilities", design="weighted"),
    Scenario(theta=0.7, se=0.9, sp=0.9, n=200, scores="marks", design="by_verdict"),
)
"""A judge that gives scores."""
SCENARIOS = (
    *STATED,
    *_HARDLY_WRONG,
    *_ELSEWHERE,
    *_CLUSTERED,
    *_SCORED,
    replace(STATED[0], design="weighted"),
    # Half of all items, some nine in ten of those that the judge fails: the rest is unlike the whole.
    Scenario(theta=0.7, se=0.98, sp=0.98, n=500, design="weighted", ids=True),
    *(Scenario(theta=0.6, se=0.9, sp=0.8, ties=True, design=design) for design in (DESIGNS[0], DESIGNS[2])),
    _DIFFERENT,
    replace(_DIFFERENT, design="by_verdict"),
    replace(_DIFFERENT, second=0.7, n=200),
    *(replace(_DIFFERENT, shared=True, apart=True, design=design) for design in DESIGNS[:3]),
    replace(_DIFFERENT, theta=0.97, second=0.99, shared=True, apart=True, design="stratified"),
    *_EDGES,
)
"""Also labels of unknown origin, clusters, scores, weights, ties, differences, rates near 0 and 1, a perfect judge."""


@dataclass(frozen=True, kw_only=True)
class CorrectionCheck(loop.Checked):
    """One scenario."""

    scenario: str
    truth: float
    bias: float | None
    coverage: float | None
    """Of the estimates that were given; None where there are none."""
    width: float | None
    """Mean of the interval's."""
    naive_coverage: float
    people_coverage: float | None
    people_width: float | None
    refused: float
    """Share of draws in which the judge was not used."""
    unlike: float | None
    """Share of draws in which the verdicts on labelled and other items were found to differ; None of differences."""
    n_draws: int
    verdict: str

    def __str__(self) -> str:
        """Name it with its verdict."""
        return f"{self.scenario}: {self.verdict}"


Corrected = corrected.CorrectedRate | corrected.CorrectedDifference


def _corrected(scenario: Scenario, batch: loop.Batch) -> Iterator[Corrected]:
    rng = batch.rng(scenario)
    draw = _drawn_rate if scenario.second is None else _drawn_difference
    return (draw(scenario, rng) for _ in batch.runs)


def _is_refused(report: Corrected) -> bool:
    """Whether people alone, or nothing, stand in for the corrected rate."""
    return not isinstance(report.estimate, Estimate) or "people only" in report.method


def _drawn_rate(scenario: Scenario, rng: loop.Rng) -> corrected.CorrectedRate:
    verdicts, labelled = _drawn(scenario, rng)
    ours, theirs = _conversations(scenario, len(verdicts))
    return corrected.correct_rate(
        corrected.Graded(judge=verdicts, clusters=ours, scores=None if labelled.scores is None else verdicts),
        replace(labelled, clusters=theirs),
        sampling=scenario.sampling,
        labelled_apart=False if scenario.ids else None,
    )


def _conversations(scenario: Scenario, n: int) -> tuple[list[int] | None, list[int] | None]:
    """Number the conversations of the verdicts and of the labels."""
    if scenario.cluster == 1:
        return None, None
    first = scenario.n // scenario.cluster
    return [first + at // scenario.cluster for at in range(n)], [at // scenario.cluster for at in range(scenario.n)]


def _drawn(scenario: Scenario, rng: loop.Rng) -> tuple[Array, corrected.LabelledSample]:
    """Draw the items, choose those that people label, and take them out."""
    if scenario.there is not None:
        theirs = _items(scenario, rng.random(scenario.n), rng, theta=scenario.there)
        judge = _items(scenario, rng.random(scenario.total - scenario.n), rng)[1]
        return judge, corrected.LabelledSample(judge=theirs[1], human=theirs[0])
    if scenario.cluster > 1:
        human, judge = _clustered_items(scenario, rng)
        return judge[scenario.n :], corrected.LabelledSample(judge=judge[: scenario.n], human=human[: scenario.n])
    human, judge = (_items if scenario.scores is None else _scored)(scenario, rng.random(scenario.total), rng)
    if scenario.apart:
        # Enough for half of the labels to be of the rarer kind.
        others = _items(scenario, rng.random(2000 + 40 * scenario.n), rng)
        return judge[scenario.n :], _labelled(scenario, *others, rng)[1]
    chosen, labelled = _labelled(scenario, human, judge, rng)
    return np.delete(judge, chosen), labelled


def _items(scenario: Scenario, chances: Array, rng: loop.Rng, *, theta: float | None = None) -> tuple[Array, Array]:
    """People's and the judge's values of items; chances under the true rate are passes."""
    human = chances < (scenario.theta if theta is None else theta)
    chance = rng.random(len(human))
    judge = np.where(human, chance < scenario.se, chance >= scenario.sp).astype(float)
    people = human.astype(float)
    if scenario.ties:
        people[rng.random(len(human)) < 1 / 3] = 0.5
        judge[rng.random(len(human)) < 1 / 3] = 0.5
    return people, judge


def _scored(scenario: Scenario, chances: Array, rng: loop.Rng) -> tuple[Array, Array]:
    """People's values, and the scores of a judge that sees them with noise."""
    apart = math.sqrt(2) * float(norm.ppf(scenario.se))
    if scenario.scores == "probabilities":
        human = chances < scenario.theta
        seen = np.where(human, apart / 2, -apart / 2) + rng.standard_normal(len(human))
        # Squared: a probability that is too low throughout.
        return human.astype(float), np.square(1 / (1 + np.exp(-apart * seen)))
    latent = scenario._level + _SPREAD * norm.ppf(chances)
    seen = latent * 0.8 + 0.4 + rng.standard_normal(len(latent)) / apart
    people, judge = (np.searchsorted(_CUTS, values) / 4 for values in (latent, seen))
    return people, judge


def _clustered_items(scenario: Scenario, rng: loop.Rng) -> tuple[Array, Array]:
    """Items of conversations, each with a rate of passes and rates of errors of its own (beta)."""
    k = scenario.total // scenario.cluster
    rates = [_cluster_rates(rate, scenario, k, rng) for rate in (scenario.theta, scenario.se, 1 - scenario.sp)]
    human = rng.random(len(rates[0])) < rates[0]
    judge = rng.random(len(human)) < np.where(human, rates[1], rates[2])
    return human.astype(float), judge.astype(float)


def _cluster_rates(mean: float, scenario: Scenario, k: int, rng: loop.Rng) -> Array:
    if scenario.icc == 0:
        return np.full(k * scenario.cluster, mean)
    size = (1 - scenario.icc) / scenario.icc
    return np.repeat(rng.beta(mean * size, (1 - mean) * size, k), scenario.cluster)


def _labelled(scenario: Scenario, human: Array, judge: Array, rng: loop.Rng) -> tuple[Codes, corrected.LabelledSample]:
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
    return chosen, corrected.LabelledSample(
        judge=judge[chosen],
        human=human[chosen],
        weights=weights,
        items=[str(at) for at in chosen.tolist()],
        scores=None if scenario.scores is None else judge[chosen],
    )


def _drawn_difference(scenario: Scenario, rng: loop.Rng) -> corrected.CorrectedDifference:
    """Two versions on the same items: on seven of ten what is easy for the one is easy for the other."""
    total = scenario.total + 40 * scenario.n if scenario.shared else scenario.total
    chances = rng.random(total)
    # Two versions of one application do well on the same items, or a paired difference would gain nothing.
    again = np.where(rng.random(total) < 0.7, chances, rng.random(total))
    both = [
        _items(scenario, drawn, rng, theta=theta)
        for drawn, theta in zip((chances, again), (scenario.theta, scenario.second), strict=True)
    ]
    calibration: corrected.LabelledSample | tuple[corrected.LabelledSample, corrected.LabelledSample]
    if scenario.shared:
        pooled = [np.concatenate([version[at][scenario.total :] for version in both]) for at in (0, 1)]
        calibration = replace(_labelled(scenario, pooled[0], pooled[1], rng)[1], items=None)
        graded = [_graded(judge[: scenario.total], []) for _, judge in both]
    else:
        own = [_labelled(scenario, human, judge, rng) for human, judge in both]
        calibration = (own[0][1], own[1][1])
        graded = [_graded(judge, chosen) for (_, judge), (chosen, _) in zip(both, own, strict=True)]
    return corrected.correct_difference(graded[0], graded[1], calibration, sampling=scenario.sampling)


def _graded(judge: Array, without: Codes | list[int]) -> corrected.Graded:
    kept = np.delete(np.arange(len(judge)), without)
    return corrected.Graded(judge=judge[kept], items=[str(at) for at in kept.tolist()])


def _checks(scenario: Scenario, reports: Sequence[Corrected]) -> Iterator[CorrectionCheck]:
    truth, total = scenario.truth, len(reports)
    given = _estimates(report.estimate for report in reports)
    refused = sum(map(_is_refused, reports)) / total
    coverage, width = _score(given, truth)
    people_coverage, people_width = _score(_estimates(report.people_only for report in reports), truth)
    naive_coverage, _ = _score([report.naive for report in reports], truth)
    pools = [report.pool for report in reports if isinstance(report, corrected.CorrectedRate)]
    unlike = pools.count("other") / total if pools else None
    # Labels of the same pool that are drawn at random are never unlike the others, but for chance.
    alarms = unlike if scenario.design == "random" and scenario.there in (None, scenario.theta) else None
    yield CorrectionCheck(
        scenario=str(scenario),
        truth=truth,
        bias=float(np.mean([estimate.value for estimate in given])) - truth if given else None,
        coverage=coverage,
        width=width,
        naive_coverage=naive_coverage or 0.0,
        people_coverage=people_coverage,
        people_width=people_width,
        refused=refused,
        unlike=unlike,
        n_draws=total,
        verdict=_alarmed(alarms, total) or _verdict(coverage, len(given), refused if scenario.useless else None, total),
    )


def _estimates(readings: Iterable[Reading]) -> list[Estimate]:
    return [reading for reading in readings if isinstance(reading, Estimate)]


def _score(readings: Sequence[Estimate], truth: float) -> tuple[float | None, float | None]:
    """Share of intervals that hold the truth, and their mean width; None without any."""
    ends = [reading.interval for reading in readings if reading.interval is not None]
    if not ends:
        return None, None
    low, high = np.array(ends).T
    # An end that is the rate itself holds it, whatever the last digit.
    held = (low <= truth + 1e-12) & (truth <= high + 1e-12)
    return float(held.mean()), float((high - low).mean())


def _alarmed(alarms: float | None, total: int) -> str:
    """Say that random labels were taken for others too often, if so."""
    if alarms is None or alarms <= _FALSE_ALARMS + loop.N_ERRORS * math.sqrt(
        _FALSE_ALARMS * (1 - _FALSE_ALARMS) / total
    ):
        return ""
    return f"FAILS: labels drawn at random are found unlike the others in {alarms:.1%}"


def _verdict(coverage: float | None, n: int, refused: float | None, total: int) -> str:
    if refused is not None and refused < 1 - loop.ALPHA - loop.N_ERRORS * math.sqrt(
        loop.ALPHA * (1 - loop.ALPHA) / total
    ):
        return f"FAILS: a judge that knows nothing is used in {1 - refused:.1%}"
    if coverage is None:
        return "ok: refused"
    if n < total / 2:
        # The few that are given were lucky to pass as useful: what counts is how often anything false is said at all.
        coverage = 1 - (1 - coverage) * n / total
    return loop.coverage_verdict(coverage, n, too_wide="conservative")


CORRECTIONS = loop.Simulation(worlds=loop.listed(SCENARIOS, quick=STATED), ask=_corrected, checks=_checks, batch=100)

TABLE: Table[CorrectionCheck] = Table.of(
    Column("scenario", loop.filled("scenario")),
    Column("bias", loop.filled("bias", "+.4f")),
    Column("coverage", loop.filled("coverage", ".3f")),
    Column("width", loop.filled("width", ".3f")),
    Column("naive", loop.filled("naive_coverage", ".3f")),
    Column("people", loop.filled("people_coverage", ".3f")),
    Column("their width", loop.filled("people_width", ".3f")),
    Column("refused", loop.filled("refused", ".3f")),
    Column("unlike", loop.filled("unlike", ".3f")),
    Column("verdict", loop.filled("verdict")),
)
_LEGEND = """
Corrected rates, {n:,} draws per scenario. naive: coverage of the judge's own mean; people: of the labels alone,
where they are a random sample. Labels are taken out of the items unless they are from elsewhere, which the estimate is
not told. refused: share of draws in which the judge may know nothing, so that people alone are read, or nothing.
unlike: share of draws in which the judge's verdicts on labelled and other items are found to differ (p < .001).
"""


def _text(checks: Sequence[CorrectionCheck]) -> str:
    return f"{TABLE(checks).to_text()}\n{_LEGEND.format(n=checks[0].n_draws)}"


PART = loop.Part(word="corrected", key="corrected", simulations=(CORRECTIONS,), text=_text, runs_per_seed=(20, 4))
