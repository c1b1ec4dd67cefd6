"""People and judges of known errors: coverage of agreement with people, size of the alternative annotator test.

People and a judge with known errors rate items that are drawn independently, so every way to rate an item has a known
chance. What each axis would read on infinitely many items is its reading of a hundred thousand that occur just as often
as that; the tests hold it against the definitions, worked out pattern by pattern.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np

from jrh_mlflow.people.agreement import AgreementReport, measure_agreement
from jrh_mlflow.people.ratings import LabelKind, Ratings
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.stats import Array, Codes
from tests.validation import loop
from tests.validation.simulated_judges import EDGE

_SHARES = ("agreement/accuracy", "agreement/sensitivity", "agreement/specificity")


@dataclass(frozen=True, kw_only=True, slots=True)
class RatingDesign:
    """People and a judge with known errors."""

    n_items: int
    rates: tuple[float, ...] = (0.5, 0.5)
    """Share of items of each true label."""
    people: float = 0.9
    """Chance of a person to give the true label; otherwise any other one, on a scale a neighbour of it."""
    judge: float = 0.85
    missing: float = 0.0
    """Chance that a person, or the judge, gives no label."""
    n_people: int = 3
    kind: LabelKind = "nominal"
    sizes: tuple[int, ...] = ()
    """Items of each cluster; none: every item stands for itself."""
    spread: float = 0.0
    """People are drawn from a crowd: each is right by `spread` more or less often than `people` says."""
    icc: float = 0.0
    """Correlation of two items of a cluster, in whatever is read from an item."""

    def __str__(self) -> str:
        rates = "/".join(f"{rate:g}" for rate in self.rates)
        missing = f", {self.missing:.0%} missing" if self.missing else ""
        each = "-".join(map(str, dict.fromkeys((min(self.sizes), max(self.sizes))))) if self.sizes else ""
        clusters = f"{len(self.sizes)} clusters of {each}, ICC {self.icc:g}, " if self.sizes else ""
        clusters += f"{self.n_people} of a crowd ±{self.spread:g}, " if self.spread else ""
        return (
            f"{clusters}{self.n_items} items {self.kind} {rates}, people {self.people:g}, judge {self.judge:g}{missing}"
        )


def _clustered(sizes: Sequence[int], icc: float, **more: Any) -> RatingDesign:
    return RatingDesign(n_items=sum(sizes), sizes=tuple(sizes), icc=icc, **more)


_RARE, _SCALE = (0.9, 0.1), (0.2, 0.3, 0.3, 0.2)
DESIGNS = (
    RatingDesign(n_items=30),
    RatingDesign(n_items=100),
    RatingDesign(n_items=100, judge=0.97, people=0.97),
    RatingDesign(n_items=300, judge=0.99, people=0.98),
    RatingDesign(n_items=100, rates=_RARE),
    RatingDesign(n_items=100, rates=_RARE, missing=0.3),
    RatingDesign(n_items=200, rates=(0.97, 0.03), judge=0.95, people=0.95),
    RatingDesign(n_items=200, rates=(0.03, 0.97), judge=0.95, people=0.95, missing=0.2),
    RatingDesign(n_items=60, rates=(0.6, 0.3, 0.1), missing=0.2),
    RatingDesign(n_items=40, rates=_SCALE, kind="ordinal", people=0.8, judge=0.7),
    RatingDesign(n_items=150, rates=_SCALE, kind="ordinal", missing=0.3),
    RatingDesign(n_items=100, rates=_SCALE, kind="ordinal", people=0.97, judge=0.97),
    RatingDesign(n_items=80, rates=_SCALE, kind="numeric", people=0.8, judge=0.7, missing=0.2),
)
CLUSTERS = (
    *(_clustered([5] * 20, icc) for icc in (0.0, 0.1, 0.3, 0.6)),
    *(_clustered([size] * 20, 0.6) for size in (2, 20)),
    _clustered([20] * 20, 0.0),
    _clustered([2, 5, 10, 20] * 5, 0.3),
    _clustered([5] * 40, 0.6, rates=_RARE, people=0.95, judge=0.95),
    _clustered([10] * 20, 0.3, rates=_SCALE, kind="ordinal", missing=0.2),
)
"""Items of conversations, documents or sources that are alike."""
CROWDS = tuple(
    RatingDesign(n_items=n_items, n_people=n_people, people=0.85, spread=0.1)
    for n_items, n_people in ((100, 6), (300, 6), (300, 10))
)
"""With five people or more they are a sample themselves."""
_OF_CROWDS = ("agreement/human_ceiling", "agreement/judge_on_ceiling", "agreement/accuracy")
"""Shares, whose truth is that of the mean person."""

Pattern = tuple[float, ...]
"""Labels of the people and, last, of the judge; NaN: none."""


_SIZE = "alt_test/winning_rate"
_VERY_MANY = 100_000


def _readings(design: RatingDesign, batch: loop.Batch) -> Iterator[dict[str, Estimate]]:
    """Yield the readings of simulated samples; the test is given the epsilon at which its null hypothesis holds."""
    patterns, chances = rating_patterns(design)
    epsilon = _null_epsilon(design) or 0.0
    for seed in batch.seeds:
        rng = np.random.default_rng([seed, design.n_items])
        # Independent items: how often each pattern occurs is multinomial, and no item is drawn by itself.
        if design.spread:
            rows = _of_a_crowd(design, rng)
        elif design.sizes:
            rows = patterns[_alike_in_clusters(design, rng)]
        else:
            rows = np.repeat(patterns, rng.multinomial(design.n_items, chances), axis=0)
        report = measure_agreement(
            _ratings(design, rows),
            positive=_positive(design),
            epsilon=epsilon,
            seed=seed,
        )
        yield {axis: reading for axis, reading in report.estimates.items() if isinstance(reading, Estimate)}


def _alike_in_clusters(design: RatingDesign, rng: np.random.Generator) -> Codes:
    """Draw the pattern of each item: with the chance that gives the ICC it is the one of its cluster."""
    chances, sizes = rating_patterns(design)[1], np.array(design.sizes)
    of_cluster, own = (rng.choice(len(chances), size=n, p=chances) for n in (len(sizes), design.n_items))
    copied = rng.random(design.n_items) < math.sqrt(design.icc)
    return np.where(copied, np.repeat(of_cluster, sizes), own)


def _of_a_crowd(design: RatingDesign, rng: np.random.Generator) -> Array:
    """Draw people, then what they say of items with two labels.

    Of one item the labels of people drawn apart are independent, so that shares have the truth of people who are all as
    the mean of the crowd.
    """
    right = np.append(design.people + design.spread * rng.choice([-1, 1], size=design.n_people), design.judge)
    truth = rng.random((design.n_items, 1)) < design.rates[1]
    return np.where(rng.random((design.n_items, len(right))) < right, truth, ~truth).astype(float)


def _positive(design: RatingDesign) -> str:
    return str(len(design.rates) - 1)


def _ratings(design: RatingDesign, rows: Array) -> Ratings:
    return Ratings(
        items=tuple(map(str, range(len(rows)))),
        people=tuple(f"person {j}" for j in range(design.n_people)),
        judge="judge",
        values=rows[:, :-1],
        judge_values=rows[:, -1],
        levels=tuple(map(str, range(len(design.rates)))),
        kind=design.kind,
        clusters=np.repeat(np.arange(len(design.sizes)), design.sizes) if design.sizes else None,
    )


@cache
def rating_patterns(design: RatingDesign) -> tuple[Array, Array]:
    """Return every way to rate an item, and its chance."""
    chances: dict[Pattern, float] = {}
    for truth, rate in enumerate(design.rates):
        raters = [*[design.people] * design.n_people, design.judge]
        options = [list(_labels(design, truth, right)) for right in raters]
        for labels in product(*options):
            chance = rate * math.prod(share for _, share in labels)
            pattern = tuple(label for label, _ in labels)
            chances[pattern] = chances.get(pattern, 0.0) + chance
    shares = np.array(list(chances.values()))
    return np.array(list(chances), float), shares / shares.sum()


def _labels(design: RatingDesign, truth: int, right: float) -> Iterator[tuple[float, float]]:
    """Yield what a rater says of an item of this true label, and the chance of that."""
    others = [other for other in range(len(design.rates)) if other != truth]
    if design.kind != "nominal":
        others = [other for other in others if abs(other - truth) == 1]
    yield _NOTHING, design.missing
    yield truth, (1 - design.missing) * right
    for other in others:
        yield other, (1 - design.missing) * (1 - right) / len(others)


_NOTHING = math.nan
"""One object, so that patterns with it are equal."""


# --- the truth


@cache
def _population(design: RatingDesign) -> AgreementReport:
    """Read so many items that every way to rate one is there as often as it is likely."""
    patterns, chances = rating_patterns(design)
    rows = np.repeat(patterns, np.round(chances * _VERY_MANY).astype(int), axis=0)
    return measure_agreement(_ratings(replace(design, sizes=()), rows), positive=_positive(design))


def true_readings(design: RatingDesign) -> dict[str, float]:
    """Return what each axis would read on infinitely many items."""
    readings = _population(design).estimates.items()
    return {axis: reading.value for axis, reading in readings if isinstance(reading, Estimate) and axis != _SIZE}


def _null_epsilon(design: RatingDesign) -> float | None:
    """Return the epsilon at which the judge is just not good enough; None where it is as good as the people."""
    if design.spread:
        return None
    # People are alike, so that the first stands for all.
    first = _population(design).people.iloc[0]
    missed = float(first["rho_j"] - first["rho_f"])
    return missed if missed > 1e-9 else None


# --- the promise


def _checks(design: RatingDesign, samples: Sequence[Mapping[str, Estimate]]) -> Iterator[loop.CoverageCheck]:
    for axis, truth in true_readings(design).items():
        if design.spread and axis not in _OF_CROWDS:
            continue
        readings = [sample[axis] for sample in samples if axis in sample]
        yield from _coverage_checks(axis, design, truth, readings)
    tested = [sample[_SIZE].value for sample in samples if _SIZE in sample]
    if tested and _null_epsilon(design) is not None:
        # At the edge of the null hypothesis: the share of samples in which nobody is rejected.
        silent = float(np.mean([value == 0 for value in tested]))
        bias = float(np.mean(tested))
        yield _check(_SIZE, design, truth=0.0, bias=bias, interval="size", coverage=silent, n=len(tested))


def _coverage_checks(
    axis: str, design: RatingDesign, truth: float, readings: Sequence[Estimate]
) -> Iterator[loop.CoverageCheck]:
    if len(readings) < 2:
        return
    bias = float(np.mean([reading.value for reading in readings])) - truth
    ends = {
        "plain": [reading.interval for reading in readings],
        "by item": [reading.cluster_interval for reading in readings],
    }
    for name, intervals in ends.items():
        held = [low <= truth <= high for low, high in (pair for pair in intervals if pair is not None)]
        if not held or (name == "by item" and ends["plain"] == intervals):
            continue
        yield _check(axis, design, truth=truth, bias=bias, interval=name, coverage=float(np.mean(held)), n=len(held))


def _check(
    axis: str, design: RatingDesign, *, truth: float, bias: float, interval: str, coverage: float, n: int
) -> loop.CoverageCheck:
    verdict = loop.coverage_verdict(
        coverage, n, too_wide="conservative: made to hold on few items and at high agreement"
    )
    near_an_end = axis in _SHARES and min(truth, 1 - truth) * design.n_items < EDGE
    if verdict.startswith("FAILS") and interval == "plain" and near_an_end:
        verdict = "not judged: near 0 and 1 Wilson falls short in places; the interval by item holds"
    return loop.CoverageCheck(
        axis=axis,
        design=str(design),
        truth=truth,
        bias=bias,
        interval=interval,
        coverage=coverage,
        n_seeds=n,
        verdict=verdict,
    )


RATERS = loop.Simulation(
    worlds=loop.listed((*DESIGNS, *CLUSTERS, *CROWDS), quick=DESIGNS[:1]), ask=_readings, checks=_checks, batch=20
)
PART = loop.Part(
    word="agreement", key="agreement", simulations=(RATERS,), text=partial(loop.coverage_text, of="samples")
)
