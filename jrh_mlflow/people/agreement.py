"""Agreement of a judge with people: ratings in, estimates out.

The people's reference of an item is their most frequent label (ordinal and numeric: the median). Two labels that lead
together, or a median between two levels, are no reference: such items are left out and counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import numpy as np
import pandas as pd

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.people.ratings import LabelKind, Ratings, positive_level
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals, plain_data
from jrh_mlflow.stats import FEWEST_CLUSTERS, Array, Codes, Interval, Mask, agreement, proportions
from jrh_mlflow.stats.agreement import FEWEST_ITEMS, AnnotatorTest, Coefficient, annotator_test
from jrh_mlflow.stats.corrected_rates import youden
from jrh_mlflow.text import two_places

ACCURACY, SENSITIVITY, SPECIFICITY = "agreement/accuracy", "agreement/sensitivity", "agreement/specificity"
KAPPA, QUADRATIC, AC1 = "agreement/kappa", "agreement/kappa_quadratic", "agreement/ac1"
CEILING, ON_CEILING, ALPHA = "agreement/human_ceiling", "agreement/judge_on_ceiling", "agreement/human_alpha"
WINNING, ADVANTAGE = "alt_test/winning_rate", "alt_test/advantage_probability"
_AXES = (
    *(ACCURACY, KAPPA, QUADRATIC, AC1, SENSITIVITY, SPECIFICITY),
    *(CEILING, ON_CEILING, ALPHA, WINNING, ADVANTAGE),
)
_OF_PEOPLE = (CEILING, ALPHA)
_BY_LEVEL = (ACCURACY, KAPPA, AC1, SENSITIVITY, SPECIFICITY)
"""Axes that need labels which can be equal."""
_OF_TEST = (WINNING, ADVANTAGE)
_SHARES = (ACCURACY, SENSITIVITY, SPECIFICITY)


@dataclass(frozen=True, kw_only=True)
class AgreementReport:
    """How a judge agrees with people, and people with one another."""

    judge: str | None
    people_names: tuple[str, ...]
    kind: LabelKind
    levels: tuple[str, ...]
    positive: str | None
    """The positive label; None: none is known."""
    epsilon: float
    """Of the alternative annotator test: by how much the judge may be worse than a person and still replace them."""
    estimates: Mapping[str, Reading]
    """By axis: `agreement/accuracy` and so on."""
    confusion: pd.DataFrame
    """Items by the people's reference (rows) and the judge's label (columns)."""
    disagreements: pd.DataFrame
    """Items where the judge differs from the reference, worst first: item, judge, reference, each person, distance."""
    compared: pd.DataFrame
    """Items with a reference and a label of the judge: item, judge, reference."""
    people: pd.DataFrame
    """A row per person: n, accuracy against the others, and the alternative annotator test."""
    groups: Mapping[str, Mapping[str, Reading]]
    """Group of items to its estimates."""
    notes: tuple[str, ...]
    counts: Mapping[str, int]
    """Items in all, and those left out by reason."""
    n_clusters: int | None = None
    """Sessions, documents or sources that intervals are over; None: each item stands for itself."""
    no_better: str | None = None
    """Why the judge cannot be told from one that guesses: then it replaces nobody. None where it can be."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data; tables as lists of rows."""
        plain = {field.name: plain_data(getattr(self, field.name)) for field in fields(self)}
        tables = {"disagreements": self.disagreements, "compared": self.compared, "people": self.people}
        # A column of numbers cannot hold None, and NaN is no JSON.
        rows = {
            name: table.astype(object).where(table.notna(), None).to_dict("records") for name, table in tables.items()
        }
        return {**plain, **rows, "confusion": self.confusion.to_dict("split", index=True)}


# --- reading


def measure_agreement(
    ratings: Ratings, *, positive: object = None, epsilon: float = 0.2, level: float = 0.95, seed: int = 0
) -> AgreementReport:
    """Measure how a judge agrees with people, and people with one another.

    Args:
        ratings: Of `read_ratings`.
        positive: The label that sensitivity is about; by default true of booleans and yes of yes/no.
        epsilon: Of the alternative annotator test.
        level: Of the intervals.
        seed: Of the resampling.

    Raises:
        RecipeError: when `positive` is not among the labels.
    """
    if not isinstance(epsilon, Real) or not 0 <= epsilon <= 1:
        raise RecipeError(f"`epsilon` must lie between 0 and 1, but is {epsilon}.")
    wanted = positive_level(ratings, positive)
    measured = _Measured.of(ratings, epsilon=epsilon)
    settings = _Settings(positive=wanted, epsilon=epsilon, level=level, seed=seed)
    estimates = _estimates(measured, settings)
    no_better = _no_better(measured, estimates, level)
    return AgreementReport(
        judge=ratings.judge,
        people_names=ratings.people,
        kind=ratings.kind,
        levels=ratings.levels,
        positive=None if wanted is None else ratings.levels[wanted],
        epsilon=epsilon,
        estimates=estimates,
        confusion=_confusion(measured),
        disagreements=_disagreements(measured),
        compared=_compared(measured),
        people=_people(measured, settings),
        groups={name: _estimates(_Measured.of(part, epsilon=epsilon), settings) for name, part in _parts(ratings)},
        notes=(*ratings.notes, *_notes(measured), *_rater_notes(ratings), *([] if no_better is None else [no_better])),
        counts=measured.counts_by_reason(),
        n_clusters=None if ratings.clusters is None else len(np.unique(ratings.clusters)),
        no_better=no_better,
    )


def _no_better(measured: _Measured, estimates: Mapping[str, Reading], level: float) -> str | None:
    """Ask what a correction asks of a judge: whether it tells anything at all.

    Of two labels sensitivity + specificity must lie over 1, of more kappa over 0, with its interval (by cluster).
    """
    if measured.ratings.judge is None:
        return None
    x, y = (codes[measured.row] for codes in measured.codes)
    both = ~np.isnan(x)
    x, y = x[both], y[both]
    clusters = None if measured.ratings.clusters is None else measured.ratings.clusters[both]
    used = np.unique(np.concatenate([x, y]))
    kappa = estimates[KAPPA if measured.ratings.kind == "nominal" else QUADRATIC]
    numbers = ""
    if len(used) == 2:
        better = youden((y == used[1]).astype(float), (x == used[1]).astype(float), clusters=clusters, level=level)
        if better is None:
            return f"People gave all items the same label, so it is not known whether {_TELLS}."
        if better.low <= 0:
            ends = f"{two_places(better.value)} [{two_places(better.low)}, {two_places(better.high)}]"
            numbers = f"sensitivity + specificity - 1 is {ends}"
    elif isinstance(kappa, Estimate) and (kappa.ci_low or 0.0) <= 0:
        ends = f"{two_places(kappa.value)} [{two_places(kappa.ci_low or 0.0)}, {two_places(kappa.ci_high or 1.0)}]"
        numbers = f"kappa is {ends}"
    return f"The judge may be no better than chance, so it can replace nobody: {numbers}." if numbers else None


_TELLS = "the judge does better than chance, and it can replace nobody"
_SAMPLED = 5
"""People from which on they are a sample themselves: intervals then hold for others like them."""
_MOST_PARTS = 20


def _rater_notes(ratings: Ratings) -> list[str]:
    """Say for which people the intervals hold."""
    n = len(ratings.people)
    if n >= _SAMPLED:
        return [f"Intervals hold for people like these {n}: they are taken as drawn from many."]
    who = "this one person" if n == 1 else f"these {n} people"
    return [f"Intervals hold for {who} only: the labels of {_SAMPLED} or more would tell what others would say."]


def _parts(ratings: Ratings) -> Iterator[tuple[str, Ratings]]:
    """Yield each group with its ratings."""
    groups = np.array(ratings.groups or (), dtype=object)
    for name in sorted({name for name in ratings.groups or () if name is not None}):
        yield name, ratings.subset(groups == name)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Settings:
    positive: int | None
    epsilon: float
    level: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """Items that were rated alike are one row, with how many they are."""

    ratings: Ratings
    row: Codes
    """Of each item."""
    first: Codes
    """Of each row its first item."""
    counts: Array
    values: Array
    judge: Array
    reference: Array
    others: Array
    """Rows × people: the reference of the other people, where the person gave a label."""
    test: AnnotatorTest | None
    """None without a judge, or with one person."""
    clusters: Codes | None
    """Of each row; None where each item stands for itself."""

    @classmethod
    def of(cls, ratings: Ratings, *, epsilon: float) -> _Measured:
        # Items with the same labels add the same to every number: a row and its count stand for them.
        known = [] if ratings.clusters is None else [ratings.clusters]
        row, first, counts = _alike(np.column_stack([ratings.values, ratings.judge_values, *known]))
        values, judge = ratings.values[first], ratings.judge_values[first]
        others = np.column_stack([_references(np.delete(values, j, axis=1), ratings) for j in range(values.shape[1])])
        return cls(
            ratings=ratings,
            row=row,
            first=first,
            counts=counts,
            values=values,
            judge=judge,
            reference=_references(values, ratings),
            # Who gave an item no label is not held against the others on it.
            others=np.where(np.isnan(values), np.nan, others),
            test=_test(ratings, epsilon),
            clusters=None if ratings.clusters is None else ratings.clusters[first],
        )

    def on_levels(self, reference: Array) -> Array:
        """References without medians between two levels; where there are no levels, all of them."""
        if not self.ratings.levels:
            return reference
        return np.where(np.isnan(self.ratings.level_codes(reference)), np.nan, reference)

    @property
    def rated(self) -> Mask:
        """Rows with a label of a person."""
        return np.asarray((~np.isnan(self.values)).any(axis=1))

    @property
    def paired(self) -> Mask:
        """Rows with the labels of two people."""
        return np.asarray((~np.isnan(self.values)).sum(axis=1) >= 2)

    @cached_property
    def codes(self) -> tuple[Array, Array]:
        """Levels of reference and judge where there are both, else NaN."""
        x, y = (self.ratings.level_codes(values) for values in (self.reference, self.judge))
        both = ~(np.isnan(x) | np.isnan(y))
        return np.where(both, x, np.nan), np.where(both, y, np.nan)

    def beside_others(self) -> Array:
        """Rows × people: what is held against the others, the judge's label or without a judge each person's own."""
        return self.values if self.ratings.judge is None else np.repeat(self.judge[:, None], len(self.values.T), axis=1)

    def number(self, rows: Mask) -> int:
        """Items of these rows."""
        return int(self.counts[rows].sum())

    def share(self, axis: str, positive: int | None) -> tuple[Mask, Mask]:
        """Return the rows on which the judge is right, and those that count."""
        x, y = self.codes
        counted, right = ~np.isnan(x), x == y
        if positive is None or axis == ACCURACY:
            return right, counted
        wanted = axis == SENSITIVITY
        return (y == positive) == wanted, counted & ((x == positive) == wanted)

    def n_clusters(self, rows: Mask) -> int:
        """Clusters of these rows, or items where each stands for itself."""
        return self.number(rows) if self.clusters is None else len(np.unique(self.clusters[rows]))

    def few_clusters(self, rows: Mask) -> str | None:
        """Say that these rows are of too few clusters for an interval; None where they are not."""
        n = self.n_clusters(rows)
        if self.clusters is None or n >= FEWEST_CLUSTERS:
            return None
        return f"the items are of {n} cluster{'' if n == 1 else 's'}: an interval needs {FEWEST_CLUSTERS}"

    def by_cluster(self, coefficient: Coefficient) -> Coefficient:
        """Return a coefficient of these rows that knows their clusters."""
        return replace(coefficient, clusters=self.clusters)

    def rest(self, rows: Mask, reason: str) -> dict[str, int]:
        """Items with a person's label that are none of these rows."""
        return {reason: self.number(self.rated) - self.number(rows)}

    def share_ends(self, right: Mask, counted: Mask, *, level: float) -> Interval | None:
        """Return the interval of a share: Wilson's, or with clusters the one by cluster."""
        if self.clusters is None:
            return proportions.wilson(self.number(counted & right), self.number(counted), level=level)
        if self.few_clusters(counted) is not None:
            return None
        _, codes = np.unique(self.clusters[counted], return_inverse=True)
        sizes, hits = (
            np.bincount(codes.ravel(), weights=weights[counted]).astype(float)
            for weights in (self.counts, self.counts * right)
        )
        return proportions.cluster_interval(hits, sizes, level=level)

    def left_out(self) -> dict[str, int]:
        """Items with a person's label that the judge cannot be compared on, by reason."""
        unclear = self.rated & np.isnan(self.reference)
        silent = self.rated & ~unclear & np.isnan(self.judge)
        reasons = {_NO_REFERENCE[self.ratings.kind]: unclear, "no judge's label": silent}
        return {reason: self.number(rows) for reason, rows in reasons.items() if rows.any()}

    def level_left_out(self) -> dict[str, int]:
        """As `left_out`, with the medians that are no level of a numeric scale."""
        codes = self.ratings.level_codes(self.reference)
        between = np.isnan(codes) & ~np.isnan(self.reference) & ~np.isnan(self.judge)
        counts = self.left_out()
        return {**counts, _NO_REFERENCE["ordinal"]: self.number(between)} if between.any() else counts

    def counts_by_reason(self) -> dict[str, int]:
        """Items, those compared, and those left out by reason."""
        compared = ~np.isnan(self.reference) & ~np.isnan(self.judge)
        alone = {"no person's label": self.number(~self.rated)} if not self.rated.all() else {}
        left_out = self.left_out() if self.ratings.judge else {}
        return {"items": self.ratings.n_items, "compared": self.number(compared), **left_out, **alone}


_NO_REFERENCE: dict[LabelKind, str] = {
    "nominal": "no majority",
    "ordinal": "median between two levels",
    "numeric": "no median",
}


def _test(ratings: Ratings, epsilon: float) -> AnnotatorTest | None:
    if ratings.judge is None or len(ratings.people) < 2:
        return None
    likeness: Literal["same", "distance"] = "same" if ratings.kind == "nominal" else "distance"
    return annotator_test(
        ratings.values, ratings.judge_values, likeness=likeness, epsilon=epsilon, clusters=ratings.clusters
    )


def _alike(table: Array) -> tuple[Codes, Codes, Array]:
    """Return of each item the number of its row, of each row its first item and how many items have it."""
    row = np.zeros(len(table), dtype=np.intp)
    for column in table.T:
        codes, uniques = pd.factorize(column, use_na_sentinel=False)
        # Numbered anew after each column: the product of all levels would overflow.
        row = pd.factorize(row * len(uniques) + codes)[0].astype(np.intp)
    _, first, counts = np.unique(row, return_index=True, return_counts=True)
    return row, first.astype(np.intp), counts.astype(float)


def _references(values: Array, ratings: Ratings) -> Array:
    """Most frequent label of each row, or its median; NaN where there is none, or two."""
    some = (~np.isnan(values)).any(axis=1)
    reference = np.full(len(values), np.nan)
    if ratings.kind == "nominal":
        cells = np.zeros((len(values), len(ratings.levels)))
        rows, columns = np.nonzero(~np.isnan(values))
        # A plain `+=` would count a repeated index once.
        np.add.at(cells, (rows, values[rows, columns].astype(int)), 1.0)
        top = cells.max(axis=1)
        clear = some & ((cells == top[:, None]).sum(axis=1) == 1)
        reference[clear] = cells.argmax(axis=1)[clear]
        return reference
    reference[some] = np.nanmedian(values[some], axis=1)
    if ratings.kind == "ordinal":
        # Half way between two levels is nothing that a judge could say.
        reference[reference != np.floor(reference)] = np.nan
    return reference


@dataclass(frozen=True, kw_only=True, slots=True)
class _Point:
    """A coefficient with its value, before it has an interval."""

    side: _Measured
    rows: Mask
    value: float | None
    coefficient: Coefficient
    counts: Mapping[str, Any]
    """As a reading names them: n, excluded, left_out, statistic."""

    @property
    def is_defined(self) -> bool:
        return self.value is not None and self.counts["n"] >= 2


def _estimates(measured: _Measured, settings: _Settings) -> dict[str, Reading]:
    """Return every axis, in the order they are shown."""
    alone = _Measured.of(_people_alone(measured.ratings), epsilon=settings.epsilon)
    readings: dict[str, Reading] = {}
    for axis in _AXES:
        if (reason := _refusal(axis, measured, alone, settings)) is not None:
            tested = axis in _OF_TEST and measured.test is not None
            excluded = len(measured.ratings.people) if tested else 0
            statistic = _statistic(axis, measured.ratings.kind)
            readings[axis] = NotEstimable(reason=reason, excluded=excluded, statistic=statistic)
    for axis in _SHARES:
        if axis not in readings:
            readings[axis] = _share(axis, measured, settings)
    if WINNING not in readings:
        readings[WINNING] = _winning_rate(measured, settings)
    points = _points(measured, alone, [axis for axis in _AXES if axis not in readings])
    readings |= {axis: _undefined(point) for axis, point in points.items() if not point.is_defined}
    # Resampled apart: nothing that a judge says moves a number of the people, not even by the luck of a draw.
    for of_people in (True, False):
        pending = [axis for axis in _AXES if axis not in readings and (axis in _OF_PEOPLE) == of_people]
        coefficients = [points[axis].coefficient for axis in pending]
        ends = agreement.item_intervals(coefficients, level=settings.level, seed=settings.seed)
        readings |= {axis: _with_interval(points[axis], end) for axis, end in zip(pending, ends, strict=True)}
    ordered = {axis: readings[axis] for axis in _AXES}
    return ordered if len(measured.ratings.people) < _SAMPLED else _with_raters(measured, ordered, settings)


def _with_raters(measured: _Measured, readings: Mapping[str, Reading], settings: _Settings) -> dict[str, Reading]:
    """Widen intervals over items by how much the readings differ when people are left out in turn.

    The squares of both half-widths are added; that of people is t times the standard error of the jackknife. It holds
    what items add to the differences of people, too, and is rather too wide.
    """
    n = len(measured.ratings.people)
    parts = np.array_split(np.random.default_rng(settings.seed).permutation(n), min(n, _MOST_PARTS))
    values = [_values(_without(measured.ratings, part), readings, settings) for part in parts]
    return {axis: _widened(reading, [value[axis] for value in values]) for axis, reading in readings.items()}


def _without(ratings: Ratings, people: Codes) -> Ratings:
    kept = tuple(name for j, name in enumerate(ratings.people) if j not in people)
    return replace(ratings, people=kept, values=np.delete(ratings.values, people, axis=1))


def _values(ratings: Ratings, readings: Mapping[str, Reading], settings: _Settings) -> dict[str, float | None]:
    """Return the numbers alone of those axes that have one."""
    measured = _Measured.of(ratings, epsilon=settings.epsilon)
    alone = _Measured.of(_people_alone(ratings), epsilon=settings.epsilon)
    known = [axis for axis, reading in readings.items() if isinstance(reading, Estimate)]
    shares = {axis: measured.share(axis, settings.positive) for axis in known if axis in _SHARES}
    values = {
        axis: measured.number(hits & counted) / max(1, measured.number(counted))
        for axis, (hits, counted) in shares.items()
    }
    points = _points(measured, alone, [axis for axis in known if axis not in (*_SHARES, WINNING)])
    return {**dict.fromkeys(readings), **values, **{axis: point.value for axis, point in points.items()}}


def _widened(reading: Reading, values: Sequence[float | None]) -> Reading:
    left_out = np.array([value for value in values if value is not None])
    if not isinstance(reading, Estimate) or len(left_out) < _SAMPLED:
        return reading
    n = len(left_out)
    reach = proportions.t_quantile(n - 1) * math.sqrt((n - 1) * float(left_out.var()))
    lowest = 0.0 if reading.statistic == "rate" else -1.0

    def wider(ends: Interval | None) -> Interval | None:
        low, high = (math.hypot(end - reading.value, reach) for end in ends or (0.0, 0.0))
        return ends and (max(lowest, reading.value - low), min(1.0, reading.value + high))

    return replace(
        reading,
        **intervals(wider(reading.interval), wider(reading.cluster_interval)),
        method=f"{reading.method}, people as a second level",
    )


def _people_alone(ratings: Ratings) -> Ratings:
    """Return the items that people rated, without the judge."""
    rated = ratings.subset(np.asarray((~np.isnan(ratings.values)).any(axis=1)))
    return replace(rated, judge=None, judge_values=np.full(len(rated.items), np.nan))


def _statistic(axis: str, kind: LabelKind) -> Literal["rate", "value"]:
    if axis in (CEILING, ON_CEILING):
        return "rate" if kind == "nominal" else "value"
    return "value" if axis in (KAPPA, QUADRATIC, AC1, ALPHA) else "rate"


def _refusal(axis: str, measured: _Measured, alone: _Measured, settings: _Settings) -> str | None:
    """Say why there is nothing to read an axis from; None where there is."""
    ratings, test = measured.ratings, measured.test
    one_person, tested = len(ratings.people) < 2, test is not None and bool(test.tested.any())
    # The first that holds is the reason.
    causes = (
        (axis not in _OF_PEOPLE and ratings.judge is None, "no judge was named: people alone"),
        (axis in _BY_LEVEL and not ratings.levels, _NO_LEVELS),
        (axis in (SENSITIVITY, SPECIFICITY) and settings.positive is None, _no_positive(ratings.levels)),
        (axis == QUADRATIC and ratings.kind == "nominal", "labels have no order: give `scale`"),
        (axis in (CEILING, ON_CEILING) and one_person, "one person: a ceiling needs two"),
        (axis == ALPHA and not alone.paired.any(), "no item has the labels of two people"),
        (axis in _OF_TEST and one_person, "one person: the test needs two, better three"),
        (axis in _OF_TEST and not tested, _NOBODY_TESTED),
    )
    return next((reason for refused, reason in causes if refused), None)


_NO_LEVELS = "labels are numbers that are seldom equal: read kappa_quadratic, or give `scale` with their levels"
_NOBODY_TESTED = f"no person has {FEWEST_ITEMS} items with labels of another person and of the judge"


def _no_positive(levels: Sequence[object]) -> str:
    some = f", one of {', '.join(map(str, levels[:10]))}" if levels else ""
    return f"which label is positive is not known: name it with `positive`{some}"


def _share(axis: str, measured: _Measured, settings: _Settings) -> Reading:
    """Share of items on which the judge gives the reference, by Wilson and by the interval that decisions use.

    Of sensitivity and specificity the items are those whose reference is the positive label, or is not.
    """
    right, counted = measured.share(axis, settings.positive)
    nothing = "no item has a reference and a judge's label"
    if settings.positive is not None and axis != ACCURACY:
        label = measured.ratings.levels[settings.positive]
        nothing = f"no item has the reference{'' if axis == SENSITIVITY else ' other than'} {label!r}"
    n, successes, left_out = measured.number(counted), measured.number(counted & right), measured.level_left_out()
    excluded = sum(left_out.values())
    if not n:
        return NotEstimable(reason=nothing, excluded=excluded, left_out=left_out)
    if (few := measured.few_clusters(counted)) is not None:
        return NotEstimable(reason=few, n=n, excluded=excluded, left_out=left_out)
    ends = by_cluster = measured.share_ends(right, counted, level=settings.level)
    if measured.clusters is None:
        # Each item is a cluster of its own, so how many are right says all about them.
        units = np.repeat([1.0, 0.0], [successes, n - successes])
        by_cluster = proportions.cluster_interval(units, np.ones(n), level=settings.level)
    return Estimate(
        value=successes / n,
        n=n,
        excluded=excluded,
        **intervals(ends, by_cluster),
        n_clusters=measured.n_clusters(counted),
        method="Wilson" if measured.clusters is None else "share by cluster",
        unit="item",
        numerator=float(successes),
        left_out=left_out,
    )


def _points(measured: _Measured, alone: _Measured, axes: Sequence[str]) -> dict[str, _Point]:
    """Return the coefficients of these axes, their values on the items as they are, and what each is read from."""
    ratings, row, counts, test = measured.ratings, measured.row, measured.counts, measured.test
    points: dict[str, _Point] = {}

    def add(
        axis: str, side: _Measured, read: Coefficient, value: float | None, rows: Mask, left_out: dict[str, int]
    ) -> None:
        named = {reason: count for reason, count in left_out.items() if reason and count}
        known = {"n": side.number(rows), "excluded": sum(left_out.values()), "left_out": named}
        known["statistic"] = _statistic(axis, ratings.kind)
        points[axis] = _Point(side=side, rows=rows, value=value, coefficient=read, counts=known)

    if KAPPA in axes:
        (x, y), n_labels, clusters = measured.codes, len(ratings.levels), measured.clusters
        rows, left_out = ~np.isnan(x), measured.level_left_out()
        kappa = agreement.kappa(x, y, counts, n_labels=n_labels, clusters=clusters)
        add(KAPPA, measured, kappa, agreement.cohen_kappa(x[row], y[row]), rows, left_out)
        # AC1 divides by the number of labels less one.
        n_labels, both = max(2, n_labels), np.column_stack([x, y])[row]
        ac1 = agreement.ac1(x, y, counts, n_labels=n_labels, clusters=clusters)
        add(AC1, measured, ac1, agreement.gwet_ac1(both, n_categories=n_labels), rows, left_out)
    if QUADRATIC in axes:
        x, y = measured.reference, measured.judge
        quadratic = measured.by_cluster(agreement.mean_quadratic_kappa(x[:, None], y[:, None], counts))
        # Lin's concordance is quadratic kappa without a table of levels, so it takes any numbers.
        value = agreement.concordance(x[row], y[row])
        add(QUADRATIC, measured, quadratic, value, ~(np.isnan(x) | np.isnan(y)), measured.left_out())
    for axis, side in ((CEILING, alone), (ON_CEILING, measured)):
        if axis in axes:
            own, others = side.beside_others(), side.others
            hits = np.where(np.isnan(own) | np.isnan(others), np.nan, own == others)
            mean = side.by_cluster(
                agreement.mean_share(hits, side.counts)
                if ratings.kind == "nominal"
                else agreement.mean_quadratic_kappa(own, others, side.counts)
            )
            rows = np.asarray((~np.isnan(hits)).any(axis=1))
            add(axis, side, mean, mean.value, rows, side.rest(rows, "no reference of the others"))
    if ALPHA in axes:
        # Numbers that are all different would need a table of all pairs; sums do not.
        alpha = alone.by_cluster(agreement.alpha(alone.values, alone.counts, scale=_ALPHA_LEVELS[ratings.kind]))
        add(ALPHA, alone, alpha, alpha.value, alone.paired, alone.rest(alone.paired, "one person's label"))
    if ADVANTAGE in axes and test is not None:
        wins = test.judge_wins[measured.first][:, test.tested]
        share = measured.by_cluster(agreement.mean_share(wins, counts))
        rows = np.asarray((~np.isnan(wins)).any(axis=1))
        add(ADVANTAGE, measured, share, test.advantage_probability, rows, measured.rest(rows, ""))
    return points


_ALPHA_LEVELS: dict[LabelKind, agreement.MeasurementScale] = {
    "nominal": "nominal",
    "ordinal": "ordinal",
    "numeric": "interval",
}


def _undefined(point: _Point) -> NotEstimable:
    n = point.counts["n"]
    few = f"{n} item{'' if n == 1 else 's'} with both labels: needs two"
    return NotEstimable(reason=few if n < 2 else "no variation: all labels are the same", **point.counts)


_METHOD = "Bayesian bootstrap of items with an imagined item at each end"


def _with_interval(point: _Point, interval: Interval | None) -> Reading:
    few = point.side.few_clusters(point.rows)
    if interval is None or point.value is None or few is not None:
        reason = few or "undefined in most resamples: too few items, or nearly all labels are the same"
        return NotEstimable(reason=reason, **{**point.counts, "left_out": {}})
    # Draws may leave the value out, and an interval without its estimate cannot be read.
    ends = min(interval[0], point.value), max(interval[1], point.value)
    return Estimate(
        value=point.value,
        **point.counts,
        **intervals(ends, ends),
        n_clusters=point.side.n_clusters(point.rows),
        method=_METHOD if point.coefficient.clusters is None else _METHOD.replace("items", "clusters"),
        unit="item",
    )


def _winning_rate(measured: _Measured, settings: _Settings) -> Reading:
    """Share of the people tested for whom the judge holds."""
    test = measured.test
    assert test is not None
    n_people, won = int(test.tested.sum()), int(test.rejected.sum())
    return Estimate(
        value=won / n_people,
        n=n_people,
        excluded=len(measured.ratings.people) - n_people,
        **intervals(proportions.wilson(won, n_people, level=settings.level), None),
        n_clusters=n_people,
        method=f"alternative annotator test, epsilon {settings.epsilon:g}; Wilson over people",
        unit="person",
        numerator=float(won),
    )


# --- tables


def _confusion(measured: _Measured) -> pd.DataFrame:
    x, y = measured.codes
    both, k = ~np.isnan(x), len(measured.ratings.levels)
    cells = np.zeros((k, k), dtype=int)
    np.add.at(cells, (x[both].astype(int), y[both].astype(int)), measured.counts[both].astype(int))
    levels = list(measured.ratings.levels)
    index, columns = pd.Index(levels, name="reference"), pd.Index(levels, name="judge")
    table: pd.DataFrame = pd.DataFrame(cells, index=index, columns=columns)
    return table


def _compared(measured: _Measured) -> pd.DataFrame:
    reference = measured.on_levels(measured.reference)
    both = ~(np.isnan(reference) | np.isnan(measured.judge))
    items = np.flatnonzero(both[measured.row])
    frame: pd.DataFrame = pd.DataFrame(_label_columns(measured, items, reference))
    return frame


def _label_columns(measured: _Measured, items: Codes, reference: Array) -> dict[str, Any]:
    """Return these items with the labels of the judge and of the reference."""
    ratings, rows = measured.ratings, measured.row[items]
    return {
        "item": [ratings.items[item] for item in items],
        "judge": [ratings.label(value) for value in measured.judge[rows].tolist()],
        "reference": [ratings.label(value) for value in reference[rows].tolist()],
    }


def _disagreements(measured: _Measured) -> pd.DataFrame:
    ratings, reference = measured.ratings, measured.on_levels(measured.reference)
    differ = (measured.judge != reference) & ~np.isnan(measured.judge) & ~np.isnan(reference)
    given = ~np.isnan(measured.values)
    # A row without a person's label is no disagreement, but must not divide by 0.
    against = ((measured.values != measured.judge[:, None]) & given).sum(axis=1) / np.maximum(1, given.sum(axis=1))
    distance = against if ratings.kind == "nominal" else np.abs(measured.judge - reference)
    items = np.flatnonzero(differ[measured.row])
    rows = measured.row[items]
    # The last key counts first: distance, then how many people differ, then the order of the items.
    order = np.lexsort((items, -against[rows], -distance[rows]))
    items, rows = items[order], rows[order]
    columns = _label_columns(measured, items, reference)
    taken = {*columns, "distance", "group"}
    for name, values in zip(ratings.people, measured.values[rows].T, strict=True):
        # A person may be called `judge`, as a column is.
        columns[f"person {name}" if name in taken else name] = [ratings.label(value) for value in values.tolist()]
    if ratings.groups is not None:
        columns["group"] = [ratings.groups[item] for item in items]
    table: pd.DataFrame = pd.DataFrame({**columns, "distance": distance[rows]})
    return table


def _people(measured: _Measured, settings: _Settings) -> pd.DataFrame:
    ratings = measured.ratings
    rows = []
    for j, name in enumerate(ratings.people):
        row: dict[str, Any] = {"person": name, "n": int((~np.isnan(ratings.values[:, j])).sum())}
        row |= _against_others(measured, settings, j)
        rows.append(row | _test_row(measured, j, settings))
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def _against_others(measured: _Measured, settings: _Settings, j: int) -> dict[str, Any]:
    """Accuracy of a person, and of the judge, against the reference of the other people."""
    cells: dict[str, Any] = {}
    others = measured.on_levels(measured.others[:, j])
    for prefix, own in (("", measured.values[:, j]), ("judge_", measured.judge)):
        both = ~(np.isnan(own) | np.isnan(others))
        n, right = measured.number(both), measured.number(both & (own == others))
        # Numbers without levels are hardly ever equal, which says nothing about a person.
        share = right / n if n and measured.ratings.levels else None
        ends = None if share is None else measured.share_ends(own == others, both, level=settings.level)
        low, high = ends or (None, None)
        cells |= {f"{prefix}n_compared": n, f"{prefix}accuracy": share}
        cells |= {f"{prefix}accuracy_low": low, f"{prefix}accuracy_high": high}
    return cells


def _test_row(measured: _Measured, j: int, settings: _Settings) -> dict[str, Any]:
    test = measured.test
    if test is None or not test.tested[j]:
        empty = dict.fromkeys(("rho_f", "rho_f_low", "rho_f_high", "rho_j", "p", "p_adjusted", "rejected"))
        return {"n_tested": 0 if test is None else int(test.n[j]), **empty}
    wins = test.judge_wins[measured.first, j]
    low, high = measured.share_ends(wins == 1, ~np.isnan(wins), level=settings.level) or (None, None)
    return {
        "n_tested": int(test.n[j]),
        "rho_f": float(test.advantage[j]),
        "rho_f_low": low,
        "rho_f_high": high,
        "rho_j": float(test.person_advantage[j]),
        "p": float(test.p[j]),
        "p_adjusted": float(test.adjusted[j]),
        "rejected": bool(test.rejected[j]),
    }


def _notes(measured: _Measured) -> list[str]:
    ratings, notes = measured.ratings, []
    if ratings.judge is not None and len(ratings.people) == 2:
        notes.append("Two people: the alternative annotator test is less reliable than with three.")
    tested = None if measured.test is None else measured.test.tested
    # Where nobody is tested the reading itself says why.
    if tested is not None and tested.any() and not tested.all():
        untested = [name for name, within in zip(ratings.people, tested, strict=True) if not within]
        few = "" if measured.clusters is None else f" or {FEWEST_CLUSTERS} clusters"
        shown = ", ".join(untested[:5]) + (f" and {len(untested) - 5} more" if len(untested) > 5 else "")
        notes.append(
            f"Not in the alternative annotator test, with fewer than {FEWEST_ITEMS} items{few}: {shown}. "
            "Their labels count as those of others."
        )
    left_out = measured.left_out() if ratings.judge is not None else {}
    if unrated := ratings.n_items - measured.number(measured.rated):
        left_out = {"no person's label": unrated, **left_out}
    if left_out:
        reasons = ", ".join(f"{number} with {reason}" for reason, number in left_out.items())
        items = "1 item" if ratings.n_items == 1 else f"{ratings.n_items} items"
        notes.append(f"Left out of {items}: {reasons}.")
    return notes
