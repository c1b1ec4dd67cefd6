"""The axes of the Judge Datasheet (arXiv 2606.15610), each declared once; everything that names an axis reads this.

Measuring, comparing, confidence, the composite of sweeps, descriptions, pages, figures, tables and MLflow keys take an
axis from `AXES`. A plain share is one more entry there: what is asked (`stimuli`), what counts (`hits`), and what the
number means.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from jrh_mlflow.errors import suggest
from jrh_mlflow.measures import single_responses
from jrh_mlflow.measures.records import CallTable, PairTable, completions, pair_table
from jrh_mlflow.measures.single_responses import Counting, ResponseTable, UnitScores, score_reading
from jrh_mlflow.schema.estimates import Bounds, Ends, Estimate, NotEstimable, Reading, Statistic, intervals
from jrh_mlflow.schema.items import (
    DELTA_0_DIFFERENT,
    DELTA_0_SAME,
    FILLER,
    LADDER,
    LADDER_MATCHED,
    NATURAL,
    NATURAL_TIE,
    SINGLE_LADDERS,
    SINGLE_PADDED,
    SINGLE_VACUUM,
    VACUUM,
)
from jrh_mlflow.scoring.ledger import (
    Extremes,
    Possible,
    Resampling,
    Units,
    counted_difference,
    deciding_ends,
    difference_bounds,
    estimate_share,
    interval_method,
    mean_ends,
    mean_value,
    over_completions,
    refuse,
    share,
    with_bounds,
    without_losses,
)
from jrh_mlflow.scoring.metric import is_error_axis
from jrh_mlflow.stats import Array, Interval, Mask, Texts
from jrh_mlflow.stats.paired import value_interval
from jrh_mlflow.stats.proportions import FEWEST_PAIRED, mean_replicates
from jrh_mlflow.stats.psychometrics import Crossing, band_crossing, crossing, crossing_interval, d_prime, decided_steps

VARIANCE = "variance/"
"""Before the name of a share of the variation."""
EXPECTED = "expected/"
"""Before the name of an axis: its value with probabilities in place of verdicts."""

# Limits of the words of a profile, and of the guides below.
LEAKS, ACTIVE = 0.10, 0.50
"""Limits of dark current. Nothing seen on the 28 tasks of `datasheet` has the upper end 0.08, so that it is decided."""
PREFERS = 0.10
"""Limit of raw false preference."""
MISSES = 0.25
"""Limit of misses by tie at the smallest step."""
TARGET = 0.75
"""Share choosing the better content at which a step counts as resolved: the threshold is where it is reached."""
SEPARATES = 0.75
"""Limit of separation at the largest distance; 0.5 tells nothing."""
LEANS = 0.25
"""Limit of the reading gap at the distance in the middle, which stands on more pairs than the largest."""
AGREES = 0.90
"""Limit of monotonicity and of repeat agreement."""
CONFLICTS = 0.05
"""Limit of rationales that name another verdict than the one given."""
SLOT_LEANS, PADDING_LEANS = 0.10, 0.15
"""Limits of leans to either side. All ties on the 28 padding pairs of `datasheet` leave an end of 0.11."""
ABLE = 0.70
"""Limit of ability: under it a judge chooses hardly more often rightly than a coin."""
CONSTANT, PADS = 0.90, 0.10
"""Limits of constant answer, and of padding of single responses."""
LARGEST = 2
"""Steps of a ladder, the largest ones, that ability and the reading gap of a verdict pool."""

Event = Callable[..., Any]
"""What an axis counts, of one call or element by element of arrays.

Of calls: (choice, better); of pairs: (choice in order uv, choice in order vu, better). A choice is `u`, `v`, `tie` or
`abstain`, or a label where there is no pair.
"""


def takes_side(choice: Any, _better: Any = "") -> Any:
    """Whether a content is preferred; tie and abstain are no preference."""
    return (choice == "u") | (choice == "v")


def is_tie(choice: Any, _better: Any) -> Any:
    """Whether the call is a tie."""
    return choice == "tie"


def is_no_tie(choice: Any, _better: Any) -> Any:
    """Whether the call is anything but a tie: an abstention counts, to the letter of the definition."""
    return choice != "tie"


def chooses_better(choice: Any, better: Any) -> Any:
    """Whether the better content, or the expected label, is chosen."""
    return choice == better


def chooses_worse(choice: Any, better: Any) -> Any:
    """Whether the other content is chosen."""
    return takes_side(choice) & (choice != better)


def chooses_padded(choice: Any, _better: Any) -> Any:
    """Whether v is chosen, the padded content of a filler pair."""
    return choice == "v"


def same_content(uv: Any, vu: Any, _better: Any) -> Any:
    """Whether both orders choose one content: W(u,v) = W(v,u)."""
    return takes_side(uv) & (uv == vu)


def same_slot(uv: Any, vu: Any, _better: Any) -> Any:
    """Whether both orders choose one slot, J(u,v) = J(v,u): two contents."""
    return takes_side(uv) & takes_side(vu) & (uv != vu)


def one_order(uv: Any, vu: Any, _better: Any) -> Any:
    """Whether exactly one order is a preference."""
    return takes_side(uv) ^ takes_side(vu)


def one_order_right(uv: Any, vu: Any, better: Any) -> Any:
    """Whether exactly one order is a preference, for the better content."""
    return one_order(uv, vu, better) & ((uv == better) | (vu == better))


def one_order_wrong(uv: Any, vu: Any, better: Any) -> Any:
    """Whether exactly one order is a preference, for the other content."""
    return one_order(uv, vu, better) & (uv != better) & (vu != better)


def no_order(uv: Any, vu: Any, _better: Any) -> Any:
    """Whether neither order is a preference."""
    return np.logical_not(takes_side(uv) | takes_side(vu))


def right_twice(uv: Any, vu: Any, better: Any) -> Any:
    """Whether both orders choose the better content."""
    return (uv == better) & (vu == better)


def right_on_balance(uv: Any, vu: Any, better: Any) -> Any:
    """Whether more orders choose the better content than the other: right twice, or right once and no preference."""
    return right_twice(uv, vu, better) | one_order_right(uv, vu, better)


def better_or_half(choice: Any, better: Any) -> Any:
    """Score a call: 1 for the better content, 1/2 for no preference, 0 for the worse; a coin and a tie read 1/2."""
    return (1.0 + (choice == better) - takes_side(choice) * (choice != better)) / 2


def slot_value(uv: Any, vu: Any, _better: Any) -> Any:
    """Pull of the slot, mean of both orders: +1 for slot 1 twice, -1 for slot 2 twice, 0 for one content twice."""
    # Order uv shows u in slot 1, order vu shows v there.
    return (1.0 * (uv == "u") - (uv == "v") + (vu == "v") - 1.0 * (vu == "u")) / 2


def padding_value(uv: Any, vu: Any, _better: Any) -> Any:
    """Pull of the content v, which is the padded one of a filler pair: +1 where both orders choose it."""
    return (1.0 * (uv == "v") - (uv == "u") + 1.0 * (vu == "v") - (vu == "u")) / 2


def place_over_content(uv: Any, vu: Any, better: Any) -> Any:
    """+1 where both orders choose one slot, -1 where both choose one content."""
    return 1.0 * same_slot(uv, vu, better) - 1.0 * same_content(uv, vu, better)


def wrong_twice(uv: Any, vu: Any, better: Any) -> Any:
    """Whether both orders choose the other content."""
    return same_content(uv, vu, better) & (uv != better)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stimuli:
    """Calls that belong together, and the section in which their axes are shown."""

    name: str
    """In reasons: `no vacuum calls`."""
    conditions: tuple[str, ...]
    section: str
    optional: bool = False
    """Measured only where there are such calls; of others it is said that there are none."""

    def among(self, condition: Texts) -> Mask:
        """Return which calls are of these stimuli."""
        return np.asarray(np.any([condition == name for name in self.conditions], axis=0))


@dataclass(frozen=True, kw_only=True, slots=True)
class Guide:
    """How to read a number: which values are good, which are bad, and what to do about a bad one."""

    good: str
    bad: str
    advice: str
    limit: float | None = None
    """Where bad values begin; of an axis without a direction on either side of 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """One number of the datasheet, or one number at each step of a ladder."""

    name: str
    """Key of its estimate; with `by_step` each estimate is `<name>/delta_k`."""
    stimuli: Stimuli
    """Which calls."""
    meaning: str
    """What is counted and what a good value is, in one sentence."""
    label: str = ""
    """Its one name for people, of a family without the step, where it is not the name's own words.

    `show.names.axis_name` has that of a key.
    """
    guide: Guide | None = None
    """Good and bad values, and what to do; of every headline axis."""
    hits: Event | None = None
    """Which of them count; None for what is derived from other axes or a curve."""
    among: Event | None = None
    """The denominator, where it is not all of them."""
    signed: Event | None = None
    """Value of each pair, from -1 to 1, whose mean it is: an effect with a direction."""
    largest: int = 0
    """Of how many of the largest steps of a ladder it is read together; 0: of all calls."""
    derived: Callable[[Basis], Reading | None] | None = None
    """Makes it of other readings or of calls; None where the design has no such reading."""
    derived_from: tuple[str, ...] = ()
    """Axes whose calls it is derived from, at the same step, or at all of theirs; empty: the calls of its stimuli."""
    counting: Counting | None = None
    """What is counted of single responses of known level; for axes of the pointwise datasheet."""
    gap: tuple[str, str] | None = None
    """Two families of the pointwise datasheet whose difference it is, step by step."""
    unit: Literal["call", "pair", "curve"] = "call"
    statistic: Statistic = "rate"
    direction: Literal["lower", "higher"] | None = None
    """Which is better, where one is."""
    by_step: bool = False
    """A family over ladder steps."""
    step: Literal["delta", "level"] = "delta"
    """What a step of a family is: a difference of levels, or a level."""
    main_step: float = 1
    """The step that stands for a family."""
    curve: bool = False
    """A family that MLflow draws by step, as `<name>/curve`."""
    compared: bool = True
    """Between judges, call by call, where `direction` says who is better."""
    expected: bool = False
    """Also with probabilities in place of verdicts."""
    shifted: bool = False
    """Shown when the tie criterion shifts."""
    part: str | None = None
    """Name of its share of good decisions in the composite of sweeps."""
    cell: Literal["interval", "value"] | None = "interval"
    """How the table of steps shows it; None: the table leaves it out."""
    headline: bool = False
    """One of the few that MLflow gets by default, as metric and tag; of a family the main step, and the curve."""
    column: bool = False
    """Shown where judges stand side by side; of a family the main step is."""
    figure: bool = False
    """Shown on the map of axes."""

    def __post_init__(self) -> None:
        words = self.name.removeprefix("pointwise/").replace("_", " ")
        object.__setattr__(self, "label", self.label or words)

    @property
    def halves(self) -> bool:
        """Whether a unit may count by half."""
        return self.hits is better_or_half

    @property
    def comparable(self) -> bool:
        """Whether judges are compared on it: a share of calls with a good end."""
        is_share = self.counting or (self.hits and self.among is None and self.unit == "call")
        return bool(self.compared and is_share and self.direction)

    @property
    def main_key(self) -> str:
        """Key of the one estimate that stands for it."""
        return f"{self.name}/{self.step}_{self.main_step:g}" if self.by_step else self.name

    def where(self, condition: Texts, delta: Array) -> dict[str, Mask]:
        """Return the keys that these calls have to the calls behind each: one key, or one per step."""
        own = self.stimuli.among(condition)
        if not self.by_step:
            return {self.name: own & largest_steps(delta, own, self.largest) if self.largest else own}
        return {f"{self.name}/{delta_key(step)}": own & (delta == step) for step in np.unique(delta[own])}

    def what(self, key: str) -> str:
        """Name the units behind one of its keys, for reasons: `ladder calls at delta_1`."""
        step = key.removeprefix(f"{self.name}/")
        # Of single responses it is calls that are lost, whatever they are compared in.
        units = "pairs" if self.unit == "pair" and self.counting is None else "calls"
        return f"{self.stimuli.name} {units}{f' at {step}' if self.by_step else ''}"

    def counted(self, table: ResponseTable) -> dict[str, UnitScores]:
        """Return the units behind each of its keys, of single responses of known level."""
        counts = {} if self.counting is None else self.counting(table)
        return {f"{self.name}/{step}" if step else self.name: units for step, units in counts.items()}

    def mean(self, table: ResponseTable, key: str, units: UnitScores) -> Reading:
        """Return the mean score of the units behind one of its keys."""
        none = f"the answers to the {self.stimuli.name} do not depend on the level" if len(units.score) else ""
        none = none or f"nothing to compare among the {self.what(key)}"
        return replace(score_reading(table, units, what=self.what(key), none=none), statistic=self.statistic)

    def share(self, table: CallTable | PairTable, key: str) -> Reading:
        """Return the share of its hits among the units of `table`, or the mean of their values."""
        units = table.units(self.what(key))
        if self.signed:
            return mean_value(units, self.signed(*table.seen), extremes=self.extremes(table))
        assert self.hits is not None
        if self.halves:
            return self._mean_score(table, units)
        among = None if self.among is None else self.among(*table.seen)
        can_be = None if units.usable.all() else self._can_be(table)
        return share(units, np.asarray(self.hits(*table.seen)), among=among, can_be=can_be)

    def _mean_score(self, table: CallTable | PairTable, units: Units) -> Reading:
        assert self.hits is not None
        extremes, reason = self.extremes(table), refuse(units)
        ends = mean_ends(extremes)
        if reason is not None:
            return with_bounds(reason, units, ends)
        hits = np.asarray(self.hits(*table.seen), float)
        mean = estimate_share(units, hits, among=units.usable, extremes=extremes)
        low, high = ends or (mean.value, mean.value)
        return replace(mean, bound_low=min(low, mean.value), bound_high=max(high, mean.value))

    def extremes(self, table: CallTable | PairTable) -> Extremes:
        """Return what each unit counts at the least and at the most, over all ways in which lost calls could end."""
        value = self.signed or (self.hits if self.halves else None)
        if value is None:
            return self._can_be(table).extremes
        every = [np.asarray(value(*seen), float) for seen in completions(table)]
        return np.min(every, axis=0), np.max(every, axis=0)

    def _can_be(self, table: CallTable | PairTable) -> Possible:
        assert self.hits is not None
        among = self.among or (lambda *seen: np.ones(len(seen[0]), dtype=bool))
        return over_completions(
            (np.asarray(self.hits(*seen), bool), np.asarray(among(*seen), bool)) for seen in completions(table)
        )


def largest_steps(delta: Array, own: Mask, n: int) -> Mask:
    """Return which calls are at the n largest of the steps that some of them have."""
    return np.asarray(np.isin(delta, np.unique(delta[own])[-n:]))


def delta_key(delta: float) -> str:
    """Spell a ladder step: `delta_1`, `delta_0.5`."""
    return f"delta_{delta:g}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Basis:
    """What a derived axis is made from."""

    stimuli: Stimuli
    """Of the axis."""
    calls: CallTable
    """Those of its stimuli; of one step where it is read step by step."""
    what: str
    """What they are, for reasons: `ladder calls`."""
    every: CallTable
    """Those of all stimuli; of the same step where it is read step by step."""
    found: Mapping[str, Reading]
    """Axis, without its step, to the reading: of the same step, or of no step."""
    resampling: Resampling

    def reading(self, axis: str) -> Reading:
        """Return what an axis reads here, or that it has no reading: other stimuli may have other steps."""
        return self.found.get(axis) or NotEstimable(reason=f"{axis} was not measured at this step")


def other_conflict(basis: Basis) -> Reading:
    """Residual of RFP0 = SCS + PFP + OSC/2 + Other: half the abstentions per pair, and what excluded calls leave.

    With every call usable it is a share of pairs counted by halves and takes that share's intervals; with excluded
    calls it can leave that share (even fall under 0), and the intervals are widened to hold it.
    """
    names = ("raw_false_preference", "stable_cross_sensitivity", "positional_false_preference", "one_sided_commit")
    parts = [basis.reading(name) for name in names]
    pairs = pair_table(basis.calls)
    units = pairs.units(basis.what)
    for part in parts:
        if isinstance(part, NotEstimable):
            # Its reason may be that of the calls; what it would count is pairs.
            whole, lost = int(units.usable.sum()), int((~units.usable).sum())
            return with_bounds(replace(part, n=whole, excluded=lost, bounds=None), units, _abstentions(basis.calls))
    raw, stable, positional, one_sided = (part.value for part in parts if isinstance(part, Estimate))
    # A one-sided pair has one preference in two calls: it is half of what raw false preference counts.
    residual = raw - stable - positional - one_sided / 2
    first, second, _ = pairs.seen
    halves = ((first == "abstain").astype(float) + (second == "abstain")) / 2
    base = estimate_share(units, halves, among=units.usable)
    if abs(residual - base.value) < 1e-9:
        return base
    both = (base.interval, base.cluster_interval)
    return replace(
        base,
        value=residual,
        numerator=None,
        bound_low=None,
        bound_high=None,
        **intervals(*(ends and (min(ends[0], residual), max(ends[1], residual)) for ends in both)),
        method=f"{base.method}; residual of calls against pairs, widened to hold it",
    )


def repeated_pull(basis: Basis, *, value: Event) -> Reading | None:
    """Mean over pairs of the product of what two asks of both orders pull to: noise of single answers leaves 0.

    With J and K the slots (+1, -1, 0) in the two orders, place is the mean of (J1 + K1)(J2 + K2) / 4, wording that of
    (J1 - K1)(J2 - K2) / 4, over all pairs of asks. None where no pair was asked twice.
    """
    found = repeated_pairs(pair_table(basis.calls), basis.what, value)
    return found and mean_value(*found)


def repeated_pairs(pairs: PairTable, what: str, value: Event) -> tuple[Units, Array] | None:
    """Return the pairs that were asked twice or more, and the mean product of each; None where there is none."""
    units, pulls = pairs.units(what), value(*pairs.seen)
    items, first, of_pair, asks = np.unique(
        pairs.calls.item[pairs.rows[:, 0]], return_index=True, return_inverse=True, return_counts=True
    )
    if not (asks >= 2).any():
        return None
    used = units.usable
    sums, squares, n = (
        np.bincount(of_pair[used], weights=part[used], minlength=len(items)) for part in (pulls, pulls**2, used)
    )
    again = asks >= 2
    products = (sums**2 - squares) / np.maximum(n * (n - 1), 1)
    members, rows = units.members or (of_pair[:0], of_pair[:0])
    of_call = of_pair[members]
    repeated = replace(
        units,
        usable=n[again] >= 2,
        clusters=units.clusters[first[again]],
        presentations=None,
        n_calls=int(2 * asks[again].sum()),
        members=((np.cumsum(again) - 1)[of_call][again[of_call]], rows[again[of_call]]),
    )
    return repeated, products[again]


def _abstentions(calls: CallTable) -> tuple[float, float] | None:
    """Share of abstentions, which is `other_conflict` of complete pairs, with none or all of the lost calls."""
    if not len(calls.choice):
        return None
    return float((calls.choice == "abstain").mean()), float(((calls.choice == "abstain") | ~calls.usable).mean())


def d_prime_of(target: Reading) -> Reading:
    """D' of the calls choosing the better content; intervals are those of the share, mapped."""
    if isinstance(target, NotEstimable):
        return replace(target, bounds=None if target.bounds is None else _d_prime_bounds(target.bounds))

    assert target.numerator is not None
    total = target.n + target.excluded
    return replace(
        target,
        value=d_prime(target.numerator, target.n),
        **intervals(
            d_prime_ends((target.ci_low, target.ci_high)), d_prime_ends((target.cluster_low, target.cluster_high))
        ),
        # Counted, not mapped: with nothing left out both bounds are the value itself.
        bound_low=d_prime(target.numerator, total),
        bound_high=d_prime(target.numerator + target.excluded, total),
        method=f"{target.method}; ends mapped to d'",
        at_level=partial(_d_prime_at, target),
        decides_at=partial(_d_prime_decided, target),
    )


def _d_prime_at(target: Estimate, level: float) -> Interval | None:
    low, high = _d_prime_decided(without_losses(target), level)
    return None if low is None or high is None else (low, high)


def _d_prime_decided(target: Estimate, level: float) -> Ends:
    return d_prime_ends(deciding_ends(target, level=level))


def d_prime_ends(share: Ends) -> Ends:
    """Map the ends of a share to d', 2 z(p); one at 0 or 1 is open."""
    low, high = (None if end is None or end in (0.0, 1.0) else 2 * float(ndtri(end)) for end in share)
    return low, high


def _d_prime_bounds(shares: Bounds) -> Bounds:
    low, high = (d_prime(round(end * shares.asked), shares.asked) for end in (shares.low, shares.high))
    return replace(shares, low=low, high=high)


def task_counts(calls: CallTable, own: Mask, hits: Event) -> tuple[Array, Array]:
    """Count the hits and the usable calls among `own`, by task."""
    # Lost calls are in neither count: a share is always one of usable calls.
    usable = own & calls.usable
    right, n = (
        np.bincount(calls.task[usable], weights=np.asarray(score, float)[usable], minlength=calls.n_tasks).astype(float)
        for score in (hits(*calls.seen), usable)
    )
    return right, n


def reading_gap(basis: Basis) -> Reading:
    """P_all on the ladder − P_all on the matched ladder, at one step."""
    counts = [
        count
        for condition in (LADDER_MATCHED, LADDER)
        for count in task_counts(basis.every, np.asarray(basis.every.condition == condition), chooses_better)
    ]
    return gap_reading(basis.reading("target_sensitivity"), basis.reading("matched_sensitivity"), counts)


def reading_over_largest(basis: Basis) -> Reading:
    """P_all on the ladder − P_all on the matched ladder, both over the two largest steps of the matched one."""
    calls = basis.every
    matched = np.asarray(calls.condition == LADDER_MATCHED)
    large = largest_steps(calls.delta, matched, LARGEST)
    parts = [(LADDER_MATCHED, matched & large), (LADDER, np.asarray(calls.condition == LADDER) & large)]
    counts = [count for _, own in parts for count in task_counts(calls, own, chooses_better)]
    shares = [
        share((table := calls.where(own)).units(f"{name} calls"), np.asarray(chooses_better(*table.seen)))
        for name, own in parts
    ]
    gap = gap_reading(shares[1], shares[0], counts)
    if isinstance(gap, NotEstimable):
        return gap
    # Replicates of one presentation are no further units.
    repeated = mean_replicates(calls.presentation[(parts[0][1] | parts[1][1]) & calls.usable])
    at_level = partial(_paired_at, gap, [count / repeated for count in counts])
    return replace(gap, at_level=at_level, **intervals(gap.interval, at_level(0.95)))


def _paired_at(gap: Estimate, counts: Sequence[Array], level: float) -> Interval | None:
    """Interval of `b - a` over the tasks that have both, each task's difference a value."""
    right_a, n_a, right_b, n_b = counts
    both = (n_a > 0) & (n_b > 0)
    sizes = np.minimum(n_a, n_b)[both]
    values = sizes * (right_b[both] / n_b[both] - right_a[both] / n_a[both])
    ends = value_interval(np.maximum(values, 0.0), np.maximum(-values, 0.0), sizes, level)
    # Where a task lost calls of one ladder, the mean over tasks is not quite the difference of the two shares.
    return ends and (min(ends[0], gap.value), max(ends[1], gap.value))


def gap_reading(ladder: Reading, matched: Reading, counts: Sequence[Array]) -> Reading:
    """Difference of a share on the ladder and the same share on the matched ladder.

    The intervals are those of the two shares, squared and added (`newcombe`); the one by task takes the correlation
    of the two shares over the tasks into account, because both ladders stand on the same tasks.

    Args:
        ladder: The share on the ladder.
        matched: The share on the matched ladder.
        counts: Hits and sizes by task on the matched ladder, then on the ladder.
    """
    bounds = difference_bounds(ladder, matched)
    for part, name in ((ladder, LADDER), (matched, LADDER_MATCHED)):
        if isinstance(part, NotEstimable):
            lost = bounds.lost if bounds and part.withheld else part.left_out
            reason = f"{name}: {part.reason}"
            return replace(part, reason=reason, left_out=lost, bounds=bounds if part.withheld else None)
    assert isinstance(ladder, Estimate)
    assert isinstance(matched, Estimate)
    shared = int(((counts[1] > 0) & (counts[3] > 0)).sum())
    # With fewer tasks on both ladders no correlation is read, and the two shares count as independent.
    paired = ", paired by task" if shared >= FEWEST_PAIRED else ""
    method = f"difference of two shares{paired} (square and add)"
    return counted_difference(matched, ladder, method=method, counts=counts)


def threshold(basis: Basis, *, target: float = TARGET) -> Reading:
    """Smallest step at which the isotonic curve of choosing the better content reaches `target`.

    Where the curve is at or above it from the smallest step on, or never, the value is the smallest or the largest step
    and `censored` says that it is a bound. What words may say of it is told by `decided_steps`.
    """
    units = basis.calls.units(basis.what)
    reason = refuse(units)
    if reason is not None:
        return _bounded_threshold(reason, basis.calls, target) if reason.withheld else reason
    steps = np.unique(basis.calls.delta[units.usable])
    # Between two measured steps that lie far apart the curve may reach the target anywhere.
    if np.any(np.diff(steps) > 1):
        measured = ", ".join(f"{step:g}" for step in steps)
        return NotEstimable(reason=f"the curve has gaps: measured at delta {measured} only")
    correct, n = _step_counts(basis.calls, units.usable, steps)
    point = crossing(steps, correct.sum(axis=0), n.sum(axis=0), target=target)
    rng, n_resamples = np.random.default_rng(basis.resampling.seed), basis.resampling.n_resamples
    resampled = crossing_interval(steps, correct, n, rng=rng, target=target, n_resamples=n_resamples)
    ends = (resampled.low, resampled.high) if resampled else (None, None)
    if ends[0] is not None and ends[0] == ends[1]:
        # Tasks that all agree leave nothing to resample; an interval of zero width would claim certainty.
        repeated = _step_replicates(basis.calls, units.usable, steps)
        ends = band_crossing(steps, correct / repeated, n / repeated, target=target)
    best, worst = _outermost(basis.calls, target)
    decides_at = partial(_decided_at, curve_of(basis.stimuli, basis.found), target)
    not_reached_at, reached_by = decides_at(0.95)
    if reached_by is None:
        # Resampled tasks reach a flat curve near the target too easily: what no step shows has no upper end.
        ends = ends[0], None
    return Estimate(
        value=point.value,
        n=int(units.usable.sum()),
        excluded=int((~units.usable).sum()),
        **intervals(ends, ends),
        n_clusters=len(n),
        method=interval_method("cluster bootstrap of the isotonic curve", len(n)),
        unit="curve",
        left_out=units.left_out,
        # A crossing before the smallest step has no lower bound, one beyond the largest no upper one.
        bound_low=None if best.censored == "left" else best.value,
        bound_high=None if worst.censored == "right" else worst.value,
        censored=point.censored,
        censoring={"left": resampled.left_share, "right": resampled.right_share} if resampled else {},
        not_reached_at=not_reached_at,
        reached_by=reached_by,
        decides_at=decides_at,
    )


def _step_replicates(ladder: CallTable, usable: Mask, steps: Array) -> Array:
    """Return how many usable calls of each step are the same presentation as a call, on average."""
    return np.array([mean_replicates(ladder.presentation[usable & (ladder.delta == step)]) for step in steps])


def _decided_at(curve: Mapping[float, Reading], target: float, level: float) -> Ends:
    """Return the steps between which the curve's own ends put a threshold; a step without a number decides nothing."""
    ends = {
        step: deciding_ends(reading, level=level) if isinstance(reading, Estimate) else (None, None)
        for step, reading in curve.items()
    }
    return decided_steps(ends, target=target)


def _bounded_threshold(reason: NotEstimable, ladder: CallTable, target: float) -> NotEstimable:
    """Give a withheld threshold its bounds; a curve that was asked with gaps has none."""
    if np.any(np.diff(np.unique(ladder.delta)) > 1):
        return reason
    best, worst = _outermost(ladder, target)
    bounds = Bounds(
        low=best.value,
        high=worst.value,
        asked=len(ladder.delta),
        lost=reason.left_out,
        low_censored=best.censored,
        high_censored=worst.censored,
    )
    return replace(reason, bounds=bounds)


def _outermost(ladder: CallTable, target: float) -> tuple[Crossing, Crossing]:
    """Return the lowest and the highest threshold: every lost call right, and every one wrong.

    An isotonic fit never falls where a share rises, so more right answers never raise a threshold.
    """
    steps, column, n = np.unique(ladder.delta, return_inverse=True, return_counts=True)
    right = np.asarray(ladder.choice == ladder.better)
    best, worst = (
        crossing(steps, np.bincount(column, weights=hits).astype(float), n.astype(float), target=target)
        for hits in (right | ~ladder.usable, right)
    )
    return best, worst


def _step_counts(ladder: CallTable, usable: Mask, steps: Array) -> tuple[Array, Array]:
    """Count right choices and usable calls, tasks × steps."""
    column = np.minimum(np.searchsorted(steps, ladder.delta), len(steps) - 1)
    hits = usable & (ladder.choice == ladder.better)
    correct, n = np.zeros((2, ladder.n_tasks, len(steps)))
    np.add.at(correct, (ladder.task[hits], column[hits]), 1)
    np.add.at(n, (ladder.task[usable], column[usable]), 1)
    # Tasks are put in the order of their counts, so that their names cannot move the bootstrap.
    order = np.lexsort(np.hstack([correct, n]).T)
    # A task without a usable call would be a cluster that says nothing and still widens the bootstrap.
    order = order[n[order].sum(axis=1) > 0]
    return correct[order], n[order]


def _lower(bad: str, advice: str) -> dict[str, Any]:
    """Declare a reading without a limit of its own: what it is part of has one."""
    return {"guide": Guide(good="as near to 0 as can be", bad=bad, advice=advice), "direction": "lower"}


def _lean(value: Event, limit: float, advice: str) -> dict[str, Any]:
    bad = f"beyond {limit:.2f} to either side"
    guide = Guide(good=f"within ±{limit:.2f}", bad=bad, advice=advice, limit=limit)
    return {"signed": value, "unit": "pair", "statistic": "value", "guide": guide}


def _below(limit: float, good: str, bad: str, advice: str) -> dict[str, Any]:
    """Declare a reading that is good below its limit."""
    guide = Guide(good=f"below {limit:.2f}{good}", bad=f"{limit:.2f} or more{bad}", advice=advice, limit=limit)
    return {"guide": guide, "direction": "lower"}


def _from(limit: float, good: str, bad: str, advice: str) -> dict[str, Any]:
    """Declare a reading that is good from its limit on."""
    guide = Guide(good=f"{limit:.2f} or more{good}", bad=f"below {limit:.2f}{bad}", advice=advice, limit=limit)
    return {"guide": guide, "direction": "higher"}


def _single(name: str, conditions: tuple[str, ...], section: str) -> Stimuli:
    return Stimuli(name=name, conditions=conditions, section=f"One response: {section}", optional=True)


_dark = partial(_below, LEAKS, ": vacuum-clean", f": vacuum-leaky; {ACTIVE:.2f} or more: vacuum-active")
_SHOWN: dict[str, Any] = {"headline": True, "column": True}
_MAIN: dict[str, Any] = {**_SHOWN, "figure": True}
"""An axis that is shown wherever there is room for a few."""


_OFFER_TIES = "Offer a tie and say when it is right (tie criterion `allowed` or `strict`), then measure again."
_BOTH_ORDERS = "Judge both orders and take what they agree on, or randomise the order."
_SURFACE = "Say in the prompt that wording, style and length do not count; check the criterion with `jrh shift`."
_READ_FACTS = "Ask for a check of each requirement against the text before the verdict, or take a stronger model."
_STRONGER = "Ask for reasons before the verdict, sharpen the rubric, or take a stronger model."

_VACUUM = Stimuli(name="vacuum", conditions=VACUUM, section="Nothing to judge (vacuum)")
_EQUAL = Stimuli(
    name=DELTA_0_SAME, conditions=(DELTA_0_SAME,), section="Equal quality (delta 0, same requirements met)"
)
_LADDER = Stimuli(name=LADDER, conditions=(LADDER,), section="Quality ladder")
_MATCHED = Stimuli(
    name=LADDER_MATCHED, conditions=(LADDER_MATCHED,), section="Matched ladder (same words, wrong facts)", optional=True
)
_FILLER = Stimuli(name=FILLER, conditions=(FILLER,), section="Controls")
_DIFFERENT = Stimuli(name=DELTA_0_DIFFERENT, conditions=(DELTA_0_DIFFERENT,), section="Controls")
_NATURAL = Stimuli(name=NATURAL, conditions=(NATURAL,), section="Natural pairs", optional=True)
_NATURAL_TIE = Stimuli(name=NATURAL_TIE, conditions=(NATURAL_TIE,), section="Natural pairs", optional=True)
_SINGLE_VACUUM = _single("vacuum", SINGLE_VACUUM, "nothing to judge (vacuum)")
_SINGLE_LADDER = _single("ladder", SINGLE_LADDERS[:1], "levels of the ladder")
_SINGLE_MATCHED = _single(
    "matched ladder", SINGLE_LADDERS[1:], "levels of the matched ladder (same words, wrong facts)"
)
_SINGLE_ANSWERS = _single("ladder", SINGLE_LADDERS, "mean answer at each level")
_SINGLE_PADDED = _single("padded and plain", (SINGLE_PADDED,), "controls")
_SINGLE_REPEATS = _single("repeated", SINGLE_LADDERS, "controls")
_EVERY_CALL = Stimuli(name="all", conditions=(), section="All calls", optional=True)
CONFIDENCE = Stimuli(name="confidence", conditions=(), section="Confidence", optional=True)
"""Calls with a confidence and a known right answer; `measures.confidence` reads them, of pointwise judges too."""
VARIATION = Stimuli(name="scored", conditions=(), section="What the scores vary with", optional=True)
"""Calls with a score; `measures.variation` reads them, of pointwise judges too."""
REASONS = Stimuli(name="reasons", conditions=(), section="Reasons", optional=True)
"""Calls whose rationale names a verdict; `measures.reason_conflict` reads them, of pointwise judges too."""

_equal_pairs = partial(Axis, stimuli=_EQUAL, unit="pair")
_ladder_steps = partial(Axis, stimuli=_LADDER, by_step=True)
_matched_steps = partial(Axis, stimuli=_MATCHED, by_step=True)
_single_steps = partial(Axis, unit="pair", by_step=True, main_step=5)
_single_answers = partial(Axis, stimuli=_SINGLE_ANSWERS, by_step=True, step="level", statistic="value", curve=True)
_natural_pairs = partial(Axis, stimuli=_NATURAL, unit="pair")
_confidence_value = partial(Axis, stimuli=CONFIDENCE, statistic="value")
_variance_share = partial(Axis, stimuli=VARIATION, statistic="value")

AXES: tuple[Axis, ...] = (
    Axis(
        name="dark_current",
        stimuli=_VACUUM,
        hits=takes_side,
        meaning="Share of calls with nothing to judge that prefer a side all the same; 0 is right.",
        expected=True,
        shifted=True,
        part="no_dark_current",
        **_MAIN,
        **_dark(_OFFER_TIES),
    ),
    Axis(
        name="tie_rate/vacuum",
        label="tie rate (nothing to judge)",
        stimuli=_VACUUM,
        hits=is_tie,
        meaning="Share of calls with nothing to judge that are a tie: where the criterion stands; 1 is right.",
        shifted=True,
    ),
    Axis(
        name="slot_lean/vacuum",
        label="slot lean (nothing to judge)",
        stimuli=_VACUUM,
        meaning="Pull of the slot where there is nothing to judge; + is the first slot, 0 is right, 1 is always.",
        **_lean(slot_value, SLOT_LEANS, _BOTH_ORDERS),
    ),
    Axis(
        name="raw_false_preference",
        stimuli=_EQUAL,
        hits=is_no_tie,
        meaning="Share of calls between two that meet the same requirements and are not called a tie; 0 is right.",
        **_below(
            PREFERS, ": equivalence-respecting", "; stable, positional and one-sided say of which kind", _OFFER_TIES
        ),
        expected=True,
        shifted=True,
        part="no_false_preference",
        **_MAIN,
    ),
    _equal_pairs(
        name="slot_lean",
        meaning="Pull of the slot between two that are equally good; + is the first slot, 0 is right, 1 is always.",
        **_lean(slot_value, SLOT_LEANS, _BOTH_ORDERS),
        **_SHOWN,
    ),
    _equal_pairs(
        name="positional_excess",
        label="place over wording",
        meaning="How much more often one slot than one content wins in both orders of equal pairs; 0 is right.",
        **_lean(place_over_content, SLOT_LEANS, _BOTH_ORDERS),
        **_SHOWN,
    ),
    _equal_pairs(
        name="repeated_place",
        label="place, asked twice",
        derived=partial(repeated_pull, value=slot_value),
        statistic="value",
        meaning="How much the place alone decides between equal contents, without noise, asked twice; 0 is right.",
        direction="lower",
    ),
    _equal_pairs(
        name="repeated_wording",
        label="wording, asked twice",
        derived=partial(repeated_pull, value=padding_value),
        statistic="value",
        meaning="How much the wording alone decides between equal contents, without noise, asked twice; 0 is right.",
        direction="lower",
    ),
    _equal_pairs(
        name="stable_cross_sensitivity",
        label="stable (same content twice)",
        hits=same_content,
        meaning="Share of equal pairs in which one content wins in both orders: wording moves the judge; 0 is right.",
        **_MAIN,
        **_lower("far above the positional share: wording decides", _SURFACE),
    ),
    _equal_pairs(
        name="positional_false_preference",
        label="positional (same slot twice)",
        hits=same_slot,
        meaning="Share of equal pairs in which one slot wins in both orders: the place moves the judge; 0 is right.",
        **_MAIN,
        **_lower("far above the stable share: the place decides", _BOTH_ORDERS),
    ),
    _equal_pairs(
        name="one_sided_commit",
        label="one-sided commit",
        hits=one_order,
        meaning="Share of equal pairs in which exactly one order is a preference; 0 is right.",
        column=True,
        **_lower("as high as raw false preference: a tie depends on the order", _BOTH_ORDERS),
    ),
    _equal_pairs(
        name="other_conflict",
        derived=other_conflict,
        meaning="Rest of raw false preference − stable − positional − one-sided / 2; 0 is right: nobody abstains.",
    ),
    _equal_pairs(
        name="no_preference",
        hits=no_order,
        meaning="Share of equal pairs in which neither order is a preference; 1 is right.",
        direction="higher",
    ),
    Axis(
        name="tie_rate/delta_0_same",
        label="tie rate (equal quality)",
        stimuli=_EQUAL,
        hits=is_tie,
        meaning="Share of calls on equal pairs that are a tie: the criterion C; 1 is right.",
        shifted=True,
        column=True,
    ),
    _ladder_steps(
        name="target_sensitivity",
        label="chooses the better",
        hits=chooses_better,
        meaning="Share of all calls, ties included, that choose the better content; 1 is right.",
        **_from(TARGET, " at every step: resolves one step", " at every step: never reaches 75 %", _STRONGER),
        curve=True,
        expected=True,
        shifted=True,
        part="sensitivity",
        **_MAIN,
    ),
    _ladder_steps(
        name="ability",
        label="chooses the better (a tie is half)",
        hits=better_or_half,
        meaning="Share of calls that choose the better content with a tie or abstention as half; a coin reads 0.5.",
        direction="higher",
    ),
    Axis(
        name="ability",
        stimuli=_LADDER,
        hits=better_or_half,
        largest=LARGEST,
        meaning="Share of calls at the two largest steps that choose the better one with a tie as half; 1 is right.",
        guide=Guide(
            good="the threshold Δ75 lies within the ladder",
            bad=f"below {ABLE:.2f}: hardly better than a coin",
            advice=_STRONGER,
            limit=ABLE,
        ),
        direction="higher",
        shifted=True,
        column=True,
    ),
    _ladder_steps(
        name="conditional_accuracy",
        label="right when it chooses",
        hits=chooses_better,
        among=takes_side,
        meaning="Share of the calls that choose a side which choose the better content; 1 is right.",
        direction="higher",
    ),
    _ladder_steps(
        name="tie_rate",
        hits=is_tie,
        meaning="Share of ties at this step: the criterion C where one content is better; 0 is right.",
        shifted=True,
        cell=None,
    ),
    _ladder_steps(
        # A better content exists at every ladder step, so each of its ties is a miss.
        name="miss_by_tie",
        label="misses by tie",
        hits=is_tie,
        meaning="Share of calls that are a tie although one content is better; 0 is right.",
        **_below(
            MISSES,
            " at the smallest step",
            " at the smallest step: misses by tie",
            "Allow fewer ties: a laxer tie criterion, or none (`forced`); watch raw false preference meanwhile.",
        ),
        headline=True,
        # What is compared is whether the better was chosen; how it was missed would only widen the family of tests.
        cell=None,
        compared=False,
        shifted=True,
        figure=True,
    ),
    _ladder_steps(
        name="wrong_choice",
        hits=chooses_worse,
        meaning="Share of calls that choose the content that is not better; 0 is right.",
        direction="lower",
        compared=False,
        shifted=True,
    ),
    _ladder_steps(
        name="d_prime",
        label="d′",
        derived=lambda basis: d_prime_of(basis.reading("target_sensitivity")),
        derived_from=("target_sensitivity",),
        statistic="value",
        meaning="Sensitivity in standard deviations, z(h) − z(1 − h) with h = (correct + 1)/(n + 2); higher is better, "
        "and few calls hold it down: 20 read 3.38 at most.",
        direction="higher",
        cell="value",
    ),
    Axis(
        name="threshold_75",
        label="threshold Δ75",
        stimuli=_LADDER,
        unit="curve",
        derived=threshold,
        derived_from=("target_sensitivity",),
        statistic="value",
        meaning="Smallest quality difference at which 75 % of the calls choose the better content; lower is better.",
        guide=Guide(
            good="≤ 1: resolves one step",
            bad="> 5, the largest step: never reaches 75 %",
            advice="Use the judge only where differences are larger than this, or take a stronger one.",
        ),
        direction="lower",
        headline=True,
        column=True,
    ),
    _matched_steps(
        name="matched_sensitivity",
        label="better (same words)",
        hits=chooses_better,
        meaning="Share of calls that choose the better content where the other has the same words; 1 is right.",
        **_from(
            TARGET,
            " at every step: resolves one step on the matched ladder",
            " at every step: never reaches 75 % on the matched ladder",
            _READ_FACTS,
        ),
        curve=True,
        shifted=True,
        **_MAIN,
    ),
    _matched_steps(
        name="reading_gap",
        derived=reading_gap,
        derived_from=("target_sensitivity", "matched_sensitivity"),
        statistic="value",
        meaning="How much more often the better is chosen where its words tell it; 0 is a judge that reads.",
        column=True,
        **_lower(f"{LEANS:.2f} or more at the two largest steps: counts words, does not read", _READ_FACTS),
    ),
    _matched_steps(
        name="matched_ability",
        label="chooses the better (same words, a tie is half)",
        hits=better_or_half,
        meaning="Share of calls that choose the better content with a tie as half where both have the same words.",
        direction="higher",
        cell=None,
        compared=False,
    ),
    Axis(
        name="matched_ability",
        label="ability (same words)",
        stimuli=_MATCHED,
        hits=better_or_half,
        largest=LARGEST,
        meaning="Share of calls at the two largest matched steps that choose the better one with a tie as half.",
        direction="higher",
    ),
    Axis(
        name="reading",
        label="reading gap at the two largest steps",
        stimuli=_MATCHED,
        derived=reading_over_largest,
        largest=LARGEST,
        derived_from=("target_sensitivity", "matched_sensitivity"),
        statistic="value",
        meaning="How much more often the better is chosen where its words tell it, at the two largest steps; 0 reads.",
        **_below(LEANS, "", ": counts words, does not read", _READ_FACTS),
    ),
    Axis(
        name="matched_threshold_75",
        label="threshold Δ75 (same words)",
        stimuli=_MATCHED,
        unit="curve",
        derived=threshold,
        derived_from=("matched_sensitivity",),
        statistic="value",
        meaning="Smallest difference at which 75 % choose the better content in the same words; lower is better.",
        guide=Guide(
            good="≤ 1: resolves one step on the matched ladder",
            bad="> 5, the largest step: never reaches 75 % on the matched ladder",
            advice=_READ_FACTS,
        ),
        direction="lower",
        column=True,
    ),
    Axis(
        name="filler_preference",
        label="prefers padding",
        stimuli=_FILLER,
        hits=chooses_padded,
        meaning="Share of calls that prefer the content with padding over the same content without; 0 is right.",
        headline=True,
        figure=True,
        **_lower("above one half of the preferences: see the padding lean", _SURFACE),
    ),
    Axis(
        name="padding_lean",
        stimuli=_FILLER,
        meaning="Pull of padding between two that say the same; + is the padded one, 0 is right, 1 is always.",
        **_lean(padding_value, PADDING_LEANS, _SURFACE),
        **_SHOWN,
    ),
    Axis(
        name="different_subset_preference",
        label="takes a side (other requirements)",
        stimuli=_DIFFERENT,
        hits=takes_side,
        meaning="Share of calls that take a side where both meet as many requirements, but others; no value is right.",
    ),
    Axis(
        name="natural/accuracy",
        label="natural pairs: accuracy",
        stimuli=_NATURAL,
        hits=chooses_better,
        meaning="Share of calls on real pairs that choose the content known to be better; 1 is right.",
        **_from(ABLE, ", as near to 1 as people who know reach", ": hardly better than a coin", _STRONGER),
        expected=True,
        part="natural_accuracy",
        **_MAIN,
    ),
    _natural_pairs(
        name="natural/stable_correct",
        label="natural pairs: right in both orders",
        hits=right_twice,
        meaning="Share of real pairs judged rightly in both orders; 1 is right.",
        direction="higher",
        column=True,
        figure=True,
    ),
    _natural_pairs(
        # utils/metrics.py of ScalerLab/JudgeBench: right answers minus wrong ones of the two orders are above 0. There
        # a call without an answer counts as a tie; here its pair leaves the denominator, as everywhere.
        name="natural/judgebench_accuracy",
        label="natural pairs: accuracy by JudgeBench's rule",
        hits=right_on_balance,
        meaning="Share of real pairs right in both orders, or in one with no preference in the other; 1 is right.",
        direction="higher",
        column=True,
    ),
    _natural_pairs(
        name="natural/stable_wrong",
        label="natural pairs: wrong in both orders",
        hits=wrong_twice,
        meaning="Share of real pairs judged wrongly in both orders; 0 is right.",
        direction="lower",
        column=True,
    ),
    _natural_pairs(
        name="natural/positional",
        label="natural pairs: positional",
        hits=same_slot,
        meaning="Share of real pairs in which one slot wins in both orders; 0 is right.",
        column=True,
        figure=True,
        **_lower("far above the share of wrong answers in both orders: the place decides", _BOTH_ORDERS),
    ),
    _natural_pairs(
        name="natural/one_sided",
        label="natural pairs: one-sided",
        hits=one_order,
        meaning="Share of real pairs in which exactly one order is a preference; 0 is right.",
    ),
    _natural_pairs(
        name="natural/one_sided_right",
        label="natural pairs: one-sided right",
        hits=one_order_right,
        meaning="Share of real pairs with a preference in one order only, for the better content; twice is right.",
    ),
    _natural_pairs(
        name="natural/one_sided_wrong",
        label="natural pairs: one-sided wrong",
        hits=one_order_wrong,
        meaning="Share of real pairs with a preference in one order only, for the other content; 0 is right.",
        direction="lower",
    ),
    _natural_pairs(
        name="natural/no_preference",
        label="natural pairs: no preference",
        hits=no_order,
        meaning="Share of real pairs in which neither order is a preference; 0 is right.",
    ),
    Axis(
        # Without a direction: a judge that is offered no tie is not worse for saying none.
        name="natural/tie_accuracy",
        label="natural pairs: ties where people tie",
        stimuli=_NATURAL_TIE,
        hits=is_tie,
        meaning="Share of calls on real pairs that people call equal that are a tie; 1 is right if one may be said.",
        column=True,
    ),
    Axis(
        name="pointwise/dark_current",
        stimuli=_SINGLE_VACUUM,
        counting=single_responses.dark_current,
        meaning="Share of empty or blank responses that are passed: yes, or a score above the lowest; 0 is right.",
        **_MAIN,
        **_dark("Say in the prompt that an empty response gets the lowest answer, then measure again."),
    ),
    _single_steps(
        name="pointwise/separation",
        stimuli=_SINGLE_LADDER,
        counting=partial(single_responses.separation_scores, condition=SINGLE_LADDERS[0]),
        meaning="Chance that the higher of two levels has the better answer, ties half; 1 is right, 0.5 tells nothing.",
        **_from(
            SEPARATES,
            " at the largest distance: separates the levels",
            " there: does not separate the levels; 0.50 tells nothing",
            "Take a finer scale with a meaning for every level, or a stronger model.",
        ),
        curve=True,
        **_MAIN,
    ),
    Axis(
        name="pointwise/monotonicity",
        label="rises with the level",
        stimuli=_SINGLE_LADDER,
        counting=partial(single_responses.monotonicity, condition=SINGLE_LADDERS[0]),
        unit="pair",
        meaning="Of two levels with different answers, how often the higher one has the better; 1 is right.",
        **_from(
            AGREES,
            ": monotone",
            ": not monotone",
            "Give every level of the scale a meaning, and ask for reasons before the score.",
        ),
        # Which pairs count depends on the judge: two judges would be compared on different ones.
        compared=False,
        column=True,
        figure=True,
    ),
    _single_steps(
        name="pointwise/matched_separation",
        label="separation (same words)",
        stimuli=_SINGLE_MATCHED,
        counting=partial(single_responses.separation_scores, condition=SINGLE_LADDERS[1]),
        meaning="Separation where a lower level has the same words with wrong facts; 1 is right, 0.5 tells nothing.",
        **_from(
            SEPARATES,
            " at the largest distance: separates matched levels",
            " there: does not separate matched levels",
            _READ_FACTS,
        ),
        curve=True,
        **_MAIN,
    ),
    _single_steps(
        name="pointwise/reading_gap",
        stimuli=_SINGLE_MATCHED,
        gap=("pointwise/separation", "pointwise/matched_separation"),
        statistic="value",
        meaning="How much better levels are separated where their words tell them; 0 is a judge that reads.",
        **_below(LEANS, " at the distance in the middle", " there: leans on words", _READ_FACTS),
        column=True,
    ),
    Axis(
        name="pointwise/matched_monotonicity",
        label="rises with the level (same words)",
        stimuli=_SINGLE_MATCHED,
        counting=partial(single_responses.monotonicity, condition=SINGLE_LADDERS[1]),
        unit="pair",
        meaning="Of two levels with the same words and different answers, how often the higher is better; 1 is right.",
        direction="higher",
        compared=False,
    ),
    _single_answers(
        name="pointwise/mean_answer",
        counting=partial(single_responses.mean_answer, condition=SINGLE_LADDERS[0]),
        meaning="Mean answer to contents of this level, 0 the lowest of the scale, 1 the highest; a rise is right.",
    ),
    _single_answers(
        name="pointwise/matched_mean_answer",
        label="mean answer (same words)",
        counting=partial(single_responses.mean_answer, condition=SINGLE_LADDERS[1]),
        meaning="Mean answer to contents of this level, what is not met in the same words; a rise is right.",
    ),
    Axis(
        name="pointwise/padding",
        label="rewards padding",
        stimuli=_SINGLE_PADDED,
        counting=partial(single_responses.padding, better=True),
        unit="pair",
        meaning="Share of contents that have a better answer with padding than without; 0 is right.",
        **_below(PADS, "", ": rewards padding", _SURFACE),
        **_MAIN,
    ),
    Axis(
        name="pointwise/padding_penalty",
        label="punishes padding",
        stimuli=_SINGLE_PADDED,
        counting=partial(single_responses.padding, better=False),
        unit="pair",
        meaning="Share of contents that have a worse answer with padding than without; 0 is right.",
    ),
    Axis(
        name="pointwise/repeat_agreement",
        label="repeats agree",
        stimuli=_SINGLE_REPEATS,
        counting=single_responses.repeat_agreement,
        meaning="Share of the pairs of answers to one and the same content that are the same; 1 is right.",
        **_from(
            AGREES,
            ": repeats agree",
            ": repeats differ",
            "Lower the temperature, or ask several times and take the majority.",
        ),
        **_MAIN,
    ),
    Axis(
        name="constant_answer",
        label="one answer to everything",
        stimuli=_EVERY_CALL,
        meaning="Least share, over what is right, of the judge's commonest answer; 1 is a judge that never changes it.",
        **_below(
            CONSTANT,
            "",
            ": one answer whatever is right",
            "Ask for reasons before the answer and say what each answer means; then measure again.",
        ),
        compared=False,
    ),
    _confidence_value(
        name="confidence/brier",
        label="Brier score",
        meaning="Mean squared distance of the confidence from right or wrong; 0 is best, 0.25 is a coin.",
        direction="lower",
    ),
    _confidence_value(
        name="confidence/ece",
        label="calibration error (ECE)",
        meaning="Mean distance of confidence from accuracy over ten equally filled bins; 0 is best.",
        guide=Guide(
            good="near 0: confidence is accuracy",
            bad="above the width of the interval of accuracy: do not filter by confidence",
            advice="Recalibrate on labelled calls before confidence decides anything.",
        ),
        direction="lower",
    ),
    _confidence_value(
        name="confidence/mean",
        label="mean confidence",
        meaning="Mean confidence of the calls with a known right answer; as high as the accuracy is right.",
    ),
    _confidence_value(
        name="confidence/accuracy_gap",
        label="mean confidence − accuracy",
        meaning="How much surer than right the judge is; 0 is calibrated, above 0 overconfident.",
        guide=Guide(
            good="0 inside the interval: calibrated on the whole",
            bad="an interval above 0: overconfident; below 0: underconfident",
            advice="Recalibrate on labelled calls before confidence decides anything.",
        ),
    ),
    _variance_share(
        name=f"{VARIANCE}task",
        label="variation: task",
        meaning="Share of the variation of scores that is the task: some are judged better than others.",
    ),
    _variance_share(
        name=f"{VARIANCE}wording",
        label="variation: wording",
        meaning="Share of the variation of scores between the contents or prompts of a task; none is good or bad.",
    ),
    _variance_share(
        name=f"{VARIANCE}order",
        label="variation: order",
        meaning="Share of the variation of scores between both orders, not in a mean over both; less is better.",
    ),
    _variance_share(
        name=f"{VARIANCE}repeat",
        label="variation: repeat",
        meaning="Share of the variation of scores when the same is asked again; less is better.",
    ),
    _variance_share(
        name=f"{VARIANCE}asking_again",
        label="asking again",
        meaning="How much twice as many asks would narrow the interval of the mean score; 0.29 is as good as tasks.",
    ),
    Axis(
        name="reason_conflict",
        label="reason names another verdict",
        stimuli=REASONS,
        meaning="Share of the rationales that name a verdict which name another than the one given; 0 is right.",
        **_below(
            CONFLICTS,
            ": verdicts follow from their reasons",
            ": the verdict is not what the reason says",
            "Ask for the reason before the verdict, and read the calls in which the two differ.",
        ),
    ),
)
"""In the order in which they are measured and shown."""


_STEP = re.compile(r"(?P<name>.+)/(?P<step>delta|level)_[0-9.]+")


@lru_cache(maxsize=1024)
def find(key: str) -> Axis | None:
    """Return the declaration behind the key of an estimate: of an axis, of a step, or of an expected value."""
    base = key.removeprefix(EXPECTED)
    # The bare name of a family is no estimate: a family has numbers at its steps only.
    axis = next((axis for axis in AXES if axis.name == base and not axis.by_step), None)
    step = _STEP.fullmatch(base) if axis is None else None
    if step is None:
        return axis
    families = (axis for axis in AXES if axis.by_step and axis.name == step["name"] and axis.step == step["step"])
    return next(families, None)


def declared(key: str) -> Axis:
    """Return the declaration behind the key of an estimate.

    Raises:
        ValueError: when there is none; a number that no declaration describes would be shown nowhere.
    """
    axis = find(key)
    if axis is None:
        known = [known.main_key for known in AXES]
        raise ValueError(f"Axis {key!r} has no declaration in `measures.axes.AXES`.{suggest(key, known)}")
    return axis


def by_section(estimates: Iterable[str]) -> dict[str, list[str]]:
    """Return the headings, each with the keys of its estimates as they are shown: step by step, then the others."""
    rows = {axis.main_key: row for row, axis in enumerate(AXES)}

    def place(key: str) -> tuple[float, int]:
        axis = declared(key)
        return step_of(key) if axis.by_step else math.inf, rows[axis.main_key]

    groups: dict[str, list[str]] = {axis.stimuli.section: [] for axis in AXES}
    expected = [key for key in estimates if key.startswith(EXPECTED) and declared(key).expected]
    for key in sorted(set(estimates) - set(expected), key=place):
        groups[declared(key).stimuli.section].append(key)
    # Expected values stand with the confidences that they are made of, not with the axes of verdicts.
    groups[CONFIDENCE.section] += expected
    return groups


def step_of(key: str) -> float:
    """Return the step that the key of a family's estimate ends with."""
    return float(key.rpartition("_")[2])


def lower_is_better(axis: str) -> bool:
    """Whether a good judge scores low: not on a reliability test, unless a chosen metric of it is an error."""
    declaration = find(axis)
    return is_error_axis(axis) if declaration is None else declaration.direction == "lower"


def by_step(estimates: Mapping[str, Reading], name: str) -> dict[float, Reading]:
    """Return the readings of a family, from the smallest step to the largest."""
    keys = [key for key in estimates if key.startswith(f"{name}/") and declared(key).name == name]
    return {step_of(key): estimates[key] for key in sorted(keys, key=step_of)}


def curve_of(stimuli: Stimuli, estimates: Mapping[str, Reading]) -> dict[float, Reading]:
    """Return the readings of the curve over some stimuli, from the smallest step to the largest."""
    family = next((axis.name for axis in AXES if axis.curve and axis.stimuli == stimuli), None)
    return by_step(estimates, family) if family else {}


def thresholds(estimates: Mapping[str, Reading]) -> dict[str, Reading]:
    """Return the readings of the axes that are the threshold of a curve."""
    return {axis.name: estimates[axis.name] for axis in AXES if axis.unit == "curve" and axis.name in estimates}


def headline_axes() -> list[str]:
    """Return the keys of the estimates that MLflow gets by default."""
    return [axis.main_key for axis in AXES if axis.headline]


def stimuli_axes() -> dict[Stimuli, list[Axis]]:
    """Return what is asked of pairs to the axes read from it, in the order of the declarations.

    Axes of single responses have a counting of their own, and are read by `measures.datasheet`.
    """
    groups: dict[Stimuli, list[Axis]] = {}
    for axis in AXES:
        if axis.hits or axis.signed or axis.derived:
            groups.setdefault(axis.stimuli, []).append(axis)
    return groups
