"""`jrh.until`: rules over a suite's readings, decided while the suite is still being asked.

What is decided is what the whole suite would read, not what new tasks would. An axis must be the share of hits among
calls (or pairs) of the suite; these are asked in random order, and after each the ends of `suite_ends` are looked at:

    low   from the hits,                      the lost calls counted as misses
    high  from the hits and the lost calls,   these counted as hits

Both hold whenever one looks, so a rule is decided wrongly with a chance of at most 1 - level; several rules share that
error. Units are counted in the order of the plan: quick answers do not lead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.measures.axes import AXES, Axis
from jrh_mlflow.measures.records import choice_of
from jrh_mlflow.measures.rules import STATE_WORDS, Rule, State, overall, parse_rule, parse_rules
from jrh_mlflow.perturb.registry import expectation_of
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.schema.items import BASELINE, SINGLE_CONDITIONS, USABLE, Call, CallRecord, Item
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED
from jrh_mlflow.scoring.pointwise import plain_label
from jrh_mlflow.show.decided_rules import DecidedRule, DecisionSection
from jrh_mlflow.show.numbers import interval_text
from jrh_mlflow.stats.proportions import suite_ends
from jrh_mlflow.text import two_places

UNTIL = "until"
"""How the reason of such a stop begins."""
ALL_TESTS = "all"
"""All reliability tests pooled."""

CallKey = tuple[str, str, int]
"""Item, order, replicate."""
Hit = Callable[[Item, Sequence[CallRecord]], "bool | None"]
"""Whether the calls of a unit are a hit; None where one of them has no usable answer."""


class Goal(Protocol):
    """One thing to be decided: a rule, or an axis known to a width."""

    @property
    def text(self) -> str:
        """How it is written."""

    @property
    def axis(self) -> str:
        """What it is about."""

    @property
    def not_while_asking(self) -> str:
        """What it is about that cannot be known while a suite is asked; empty where it can."""

    def counted(self, share: Countable) -> Countable:
        """Return what is counted, made of the share that its axis is."""

    def decide(self, low: float, high: float) -> State:
        """Say what the ends so far decide."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Width:
    """An axis that shall be known to a width."""

    axis: str
    width: float
    not_while_asking: str = ""

    @property
    def text(self) -> str:
        """How it is shown beside rules."""
        return f"{self.axis} to a width of {self.width:g}"

    def counted(self, share: Countable) -> Countable:
        """Return the share, both ends of which can be wrong: a limit has an error on one side only."""
        return replace(share, sides=2)

    def decide(self, low: float, high: float) -> State:
        """Say whether the ends lie near enough."""
        # 0.3 - 0.2 is a little more than 0.1 for a computer.
        return "holds" if high - low <= self.width + 1e-12 else "undecided"


@dataclass(frozen=True, kw_only=True)
class Until:
    """When to stop asking. It keeps nothing between runs: each evaluation binds it to its own calls in their order."""

    goals: tuple[Goal, ...]
    level: float = 0.95

    @property
    def text(self) -> str:
        """All goals in one line."""
        return "; ".join(goal.text for goal in self.goals)

    def __call__(self, _record: CallRecord) -> str | None:
        """Refuse to be used as a plain stop rule: it must know the suite and the order of its calls."""
        raise RecipeError("`jrh.until` is a stop of `jrh.evaluate` and `jrh.criterion_shift`: pass it as `stop=`.")


def until(
    rules: str | Rule | Iterable[str | Rule] | None = None,
    *,
    axis: str | None = None,
    width: float | None = None,
    level: float = 0.95,
) -> Until:
    """Stop an evaluation once it is decided what the whole suite would read.

    Args:
        rules: One rule or several: `dark_current <= 0.1`, `excluded/AXIS <= 0.02`. The asking ends once each holds or
            fails; a rule that comes out undecided has had all the calls that it needs.
        axis: Together with `width`: the axis that shall be known so narrowly.
        width: The widest that the ends may lie apart; beside rules, or alone.
        level: 1 - the chance of a wrong decision, over all rules together and all looks.

    Raises:
        RecipeError: when nothing is to be decided, or a rule is none.

    Example:
        >>> until(["dark_current <= .1", "natural/accuracy >= 0.8"]).text
        'dark_current <= 0.1; natural/accuracy >= 0.8'
    """
    goals: list[Goal] = [*parse_rules(() if rules is None else rules)]
    if (axis is None) != (width is None):
        raise RecipeError('`axis` and `width` belong together, as in until(axis="dark_current", width=0.1).')
    if axis is not None and width is not None:
        if not isinstance(axis, str):
            raise RecipeError(f"`axis` must be a name such as 'dark_current', but is {axis!r}.")
        if isinstance(width, bool) or not isinstance(width, int | float) or not 0 < width < 1:
            raise RecipeError(f"`width` must be a number between 0 and 1, but is {width!r}.")
        goals.append(Width(axis=axis, width=float(width)))
    if not goals:
        raise RecipeError(
            "until(…) has nothing to decide. Give a rule such as 'dark_current <= 0.1', or axis and width."
        )
    if not isinstance(level, int | float) or not 0 < level < 1:
        raise RecipeError(f"`level` must be a number between 0 and 1, such as 0.95, but is {level!r}.")
    return Until(goals=tuple(goals), level=float(level))


@dataclass(frozen=True, kw_only=True)
class Countable:
    """An axis that is a share of hits among calls or pairs of a suite."""

    axis: str
    items: frozenset[str]
    """Ids of the items behind it."""
    hit: Hit
    paired: bool = False
    """Whether a unit is both orders of a pair."""
    withholds: bool = True
    """Whether too many lost calls leave it without a number."""
    sides: int = 1
    """Of the interval, on which a decision can be wrong."""

    def of_lost_calls(self) -> Countable:
        """Return the share of its calls without a usable answer."""
        return replace(self, hit=_is_lost, paired=False, withholds=False)


def countable_axes(items: Collection[Item]) -> dict[str, Countable]:
    """Return the axes of a suite that can be decided while it is asked."""
    if all(item.kind == "pair" for item in items):
        return _pair_axes(items)
    if any(item.kind == "pair" or item.condition in SINGLE_CONDITIONS for item in items):
        return {}
    # A label that is no ground truth makes no answer right or wrong.
    scored = [item for item in items if item.expected and not item.label_source]
    groups: dict[str, list[Item]] = {}
    for item in scored:
        groups.setdefault(item.condition, []).append(item)
        if item.condition != BASELINE:
            groups.setdefault(ALL_TESTS, []).append(item)
    labelled = [name for name in groups if name == ALL_TESTS or expectation_of(name).labelled]
    axes = {f"{name}/accuracy": frozenset(item.id for item in groups[name]) for name in labelled}
    return {axis: Countable(axis=axis, items=own, hit=_right) for axis, own in axes.items()}


def _pair_axes(items: Collection[Item]) -> dict[str, Countable]:
    condition = np.array([item.condition for item in items], dtype=object)
    delta = np.array([0.0 if item.delta is None else item.delta for item in items], dtype=float)
    ids = np.array([item.id for item in items], dtype=object)
    shares = {}
    for axis in AXES:
        # What is no share, or a share among some of its units only, has no size that is known beforehand.
        if axis.hits is None or axis.among is not None or axis.halves:
            continue
        for key, own in axis.where(condition, delta).items():
            if own.any():
                paired = axis.unit == "pair"
                shares[key] = Countable(axis=key, items=frozenset(ids[own]), hit=_hit_of(axis), paired=paired)
    return shares


def _hit_of(axis: Axis) -> Hit:
    def hit(item: Item, records: Sequence[CallRecord]) -> bool | None:
        chosen = [choice_of(call) for call in records]
        assert axis.hits is not None
        return bool(axis.hits(*chosen, item.better or "")) if all(chosen) else None

    return hit


def _right(item: Item, records: Sequence[CallRecord]) -> bool | None:
    (record,) = records
    if record.outcome not in USABLE:
        return None
    return record.outcome == "verdict" and plain_label(record.answer) == plain_label(item.expected or "")


def _is_lost(_item: Item, records: Sequence[CallRecord]) -> bool | None:
    return any(record.outcome not in USABLE for record in records)


def bound_axes(until: Until, items: Collection[Item]) -> list[Countable]:
    """Return the axis behind each goal, on a suite.

    Raises:
        RecipeError: for an axis that does not exist or that no calls in random order can decide, before any is asked.
    """
    usable = countable_axes(items)
    return [_bound_axis(goal, usable) for goal in until.goals]


def _bound_axis(goal: Goal, usable: Mapping[str, Countable]) -> Countable:
    if goal.not_while_asking:
        why = f"it is about {goal.not_while_asking}"
        raise RecipeError(f"{goal.text!r} cannot be decided while asking: {why}. {_usable_text(usable)}")
    if goal.axis not in usable:
        raise RecipeError(
            f"{goal.axis!r} cannot be decided while this suite is asked: it is no share of its calls or pairs, or the "
            f"suite has none of them.{suggest(goal.axis, usable)} {_usable_text(usable)}"
        )
    return goal.counted(usable[goal.axis])


def _usable_text(usable: Mapping[str, Countable]) -> str:
    if not usable:
        return "None of the suite's axes can: evaluate it whole, and gate the run with `jrh gate`."
    return f"These can, and excluded/AXIS of each: {', '.join(usable)}."


def call_key(call: Call) -> CallKey:
    """Name a call as its record does."""
    return call.item.id, call.order, call.replicate


def _record_key(record: CallRecord) -> CallKey:
    return record.suite_item, record.order, record.replicate


class _Watch:
    """One goal while its calls come in: units counted in the order of the plan, and the ends so far."""

    def __init__(
        self, goal: Goal, axis: Countable, calls: Sequence[Call], *, alpha: float, max_excluded: float
    ) -> None:
        self.goal, self.axis, self._max_excluded = goal, axis, max_excluded
        # A limit can be decided wrongly on one side only, a width on both.
        self._alpha = alpha / axis.sides
        self._units, self.unit_of = _units(calls, axis)
        self._items = {call.item.id: call.item for call in calls if call.item.id in axis.items}
        self._records: dict[CallKey, CallRecord] = {}
        self._put_off: set[CallKey] = set()
        self._counted: list[tuple[bool | None, int]] = []
        """Of each unit so far whether it is a hit, None where that is unknown, and its lost calls."""
        self._hits = self._unknown = 0
        self.lost = 0
        """Calls of these units that gave no usable answer and are not asked again."""
        self.low, self.high = 0.0, 1.0
        self.state: State = "undecided"
        self.is_done = False

    @property
    def size(self) -> int:
        """Units of the whole suite."""
        return len(self._units)

    @property
    def n(self) -> int:
        """Units counted so far, without a gap in their order."""
        return len(self._counted)

    def take(self, record: CallRecord, *, put_off: bool) -> None:
        """Take a record in; one that is put off may still be answered, and counts against both ends until then.

        What comes after the decision is left aside: the same answers give the same report, however many were in flight.
        """
        if self.is_done:
            return
        key = _record_key(record)
        (self._put_off.add if put_off else self._put_off.discard)(key)
        self._records[key] = record
        place = self.unit_of[key]
        # A call that was put off has come back: its unit was counted as unknown.
        if place < self.n:
            self._count(place)
            self._look()
        # One by one, each with a look: whatever came together, the decision falls at the same unit.
        while not self.is_done and self.n < self.size and all(key in self._records for key in self._units[self.n]):
            self._counted.append((None, 0))
            self._unknown += 1
            self._count(self.n - 1)
            self._look()

    def _count(self, place: int) -> None:
        """Count a unit, in place of what it was counted as before; the calls that are put off are not lost yet."""
        unit, waits = self._units[place], not self._put_off.isdisjoint(self._units[place])
        records = [self._records[key] for key in unit]
        lost = sum(call.outcome not in USABLE and _record_key(call) not in self._put_off for call in records)
        hit = None if waits else self.axis.hit(self._items[unit[0][0]], records)
        old_hit, old_lost = self._counted[place]
        self._counted[place] = hit, lost
        self._hits += (hit is True) - (old_hit is True)
        self._unknown += (hit is None) - (old_hit is None)
        self.lost += lost - old_lost

    def _look(self) -> None:
        # Whatever the unknown units are, the ends must hold: misses for one, hits for the other.
        low = suite_ends(self._hits, self.n, self.size, alpha=self._alpha)[0]
        high = suite_ends(self._hits + self._unknown, self.n, self.size, alpha=self._alpha)[1]
        # They hold at all moments together, so the narrowest do; ends that have crossed were wrong before.
        ends = max(self.low, low), min(self.high, high)
        self.low, self.high = ends if ends[0] <= ends[1] else (low, high)
        if not self._is_withheld:
            self.state = self.goal.decide(self.low, self.high)
        # A call that was put off can still move the ends.
        all_in = self.n == self.size and not self._put_off
        self.is_done = self.state != "undecided" or all_in or self.sure_to_be_withheld

    @property
    def _is_withheld(self) -> bool:
        """Whether the reading of what was asked so far would be withheld: nothing is decided by it."""
        n_calls = self.n * (2 if self.axis.paired else 1)
        return self.axis.withholds and self.lost / n_calls > self._max_excluded

    @property
    def sure_to_be_withheld(self) -> bool:
        """Whether the whole suite's reading is, whatever else is answered."""
        return self.axis.withholds and self.lost / len(self.unit_of) > self._max_excluded

    @property
    def reason(self) -> str:
        """Why it is not decided; empty where it is."""
        if self.state != "undecided":
            return ""
        if self.sure_to_be_withheld:
            return f"{self.lost} of its {len(self.unit_of)} calls gave no usable answer: over the limit, withheld"
        if self.n < self.size:
            return "the asking ended before"
        return "every call was asked, and those without a usable answer leave it open"


def _units(calls: Sequence[Call], axis: Countable) -> tuple[list[tuple[CallKey, ...]], dict[CallKey, int]]:
    """Return the units of an axis in the order in which the plan completes them, and the unit of each call."""
    own = [call for call in calls if call.item.id in axis.items]
    if not axis.paired:
        keys = [call_key(call) for call in own]
        return [(key,) for key in keys], {key: at for at, key in enumerate(keys)}
    halves: dict[tuple[str, int], CallKey] = {}
    units: list[tuple[CallKey, ...]] = []
    for call in own:
        other = halves.pop((call.item.id, call.replicate), None)
        if other is None:
            halves[call.item.id, call.replicate] = call_key(call)
        else:
            # In the order uv, vu: an axis of pairs counts by that.
            units.append(tuple(sorted((other, call_key(call)), key=lambda key: key[1])))
    return units, {key: at for at, unit in enumerate(units) for key in unit}


@dataclass(kw_only=True)
class UntilStop:
    """A stop rule bound to the calls of one evaluation, in the order in which they are asked."""

    until: Until
    calls: Sequence[Call]
    """Those that the rules need, in random order."""
    axes: Sequence[Countable]
    """Behind each goal."""
    n_planned: int
    """Calls of the whole evaluation."""
    max_excluded: float = MAX_EXCLUDED
    _asked: set[CallKey] = field(default_factory=set)

    def __post_init__(self) -> None:
        # Bonferroni: the chances of error of all rules together stay within 1 - level.
        alpha = (1 - self.until.level) / len(self.until.goals)
        self._watches = [
            _Watch(goal, axis, self.calls, alpha=alpha, max_excluded=self.max_excluded)
            for goal, axis in zip(self.until.goals, self.axes, strict=True)
        ]

    def __call__(self, record: CallRecord) -> str | None:
        """Take a record in; say that everything is decided, or None."""
        return self._take(record, put_off=False)

    def put_off(self, record: CallRecord) -> str | None:
        """Take in that a call failed and is asked once more at the end: decisions need not wait for it."""
        return self._take(record, put_off=True)

    def needs(self, call: Call) -> bool:
        """Whether a rule that is not decided yet needs a call."""
        key = call_key(call)
        return any(not watch.is_done and key in watch.unit_of for watch in self._watches)

    def _take(self, record: CallRecord, *, put_off: bool) -> str | None:
        key = _record_key(record)
        # A set: a call that was put off comes here twice.
        self._asked.add(key)
        for watch in self._watches:
            if key in watch.unit_of:
                watch.take(record, put_off=put_off)
        return UNTIL if all(watch.is_done for watch in self._watches) else None

    def report(self) -> UntilReport:
        """Return what came of each rule so far."""
        rules = tuple(_ended(watch, self._asked) for watch in self._watches)
        return UntilReport(
            level=self.until.level,
            asked=len(self._asked),
            needed=len(self.calls),
            planned=self.n_planned,
            rules=rules,
        )


def _ended(watch: _Watch, records: Collection[CallKey]) -> UntilRule:
    return UntilRule(
        rule=watch.goal.text,
        axis=watch.goal.axis,
        state=watch.state,
        low=watch.low,
        high=watch.high,
        unit="pair" if watch.axis.paired else "call",
        n=watch.n,
        size=watch.size,
        lost=watch.lost,
        asked=sum(key in records for key in watch.unit_of),
        needed=len(watch.unit_of),
        reason=watch.reason,
    )


@dataclass(frozen=True, kw_only=True)
class UntilRule:
    """What came of one rule of `until`."""

    rule: str
    axis: str
    state: State
    """`holds`, `fails` or `undecided`; of a width `holds` once it is reached."""
    low: float
    """Ends of what the whole suite reads; each is right at all looks with a chance of at least the level."""
    high: float
    unit: str
    """What `n` and `size` count: calls, or pairs."""
    n: int
    """Units that it was decided on."""
    size: int
    """Units of the whole suite."""
    lost: int
    """Calls among them without a usable answer: hits for the upper end, misses for the lower."""
    asked: int
    """Of its calls, those that were asked; those in flight at the decision are among them."""
    needed: int
    """Its calls in the whole suite."""
    reason: str = ""
    """Why it is undecided."""
    estimate: float | None = None
    """What the run reads, where that has a number; then its interval over tasks."""
    cluster_low: float | None = None
    cluster_high: float | None = None

    def beside(self, reading: Reading | None) -> UntilRule:
        """Return it with what the run itself reads."""
        if not isinstance(reading, Estimate) or not _reads_axis(self.rule):
            return self
        return replace(self, estimate=reading.value, cluster_low=reading.cluster_low, cluster_high=reading.cluster_high)

    def to_text(self, level: float) -> str:
        """Say it in one or two sentences."""
        why = f" ({self.reason})" if self.reason else ""
        lost = f", {self.lost} of them without a usable answer" if self.lost else ""
        counted = f"{self.n:,} of {self.size:,} {self.unit}s"
        ends = f"{two_places(self.low)} to {two_places(self.high)}"
        reads = f"the whole suite reads {ends} ({level * 100:g} %, {counted}{lost})"
        return f"{self.rule}: {STATE_WORDS[self.state]} on this suite{why}; {reads}.{self._over_tasks}"

    @property
    def _over_tasks(self) -> str:
        if self.estimate is None:
            return ""
        if self.cluster_low is None or self.cluster_high is None:
            return f" Read on what was asked: {two_places(self.estimate)}."
        # A rule is about this suite; findings and profile are about all tasks like these, and may be open still.
        return f" On new tasks: {two_places(self.estimate)} {interval_text(self.cluster_low, self.cluster_high)}."


def _reads_axis(goal: str) -> bool:
    """Whether the number that a goal is about is the reading of its axis; what is no rule is a width."""
    try:
        return parse_rule(goal).reads_axis
    except RecipeError:
        return True


@dataclass(frozen=True, kw_only=True)
class UntilReport:
    """What came of the rules of `until` in one evaluation, and what was not needed for it."""

    level: float
    asked: int
    """Calls that were asked."""
    needed: int
    """Calls of the suite that at least one rule is about: the most that could be asked."""
    planned: int
    """Calls of the whole evaluation without the rules."""
    rules: tuple[UntilRule, ...]

    @property
    def passed(self) -> bool | None:
        """True when every rule holds, False when one fails, else None."""
        return overall([rule.state for rule in self.rules])

    @property
    def text(self) -> str:
        """The states in one line: `dark_current <= 0.1: holds`."""
        return "; ".join(f"{rule.rule}: {STATE_WORDS[rule.state]}" for rule in self.rules)

    @property
    def lines(self) -> list[str]:
        """What a reader should know, a line for each rule and one for what was not asked."""
        spared = self.planned - self.asked
        count = (
            f"Asked {self.asked:,} of the {self.needed:,} calls that the rules are about, of {self.planned:,} in all; "
            f"{spared:,} were not needed."
        )
        return [*(f"Until {rule.to_text(self.level)}" for rule in self.rules), count]

    def beside(self, estimates: Mapping[str, Reading]) -> UntilReport:
        """Return it with what the run itself reads beside each rule."""
        return replace(self, rules=tuple(rule.beside(estimates.get(rule.axis)) for rule in self.rules))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        facts = {name: getattr(self, name) for name in ("level", "asked", "needed", "planned")}
        rules = [{name: getattr(rule, name) for name in rule.__dataclass_fields__} for rule in self.rules]
        return {"passed": self.passed, **facts, "rules": rules}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> UntilReport:
        """Read what `to_dict` wrote."""
        facts = {name: data[name] for name in ("level", "asked", "needed", "planned")}
        return cls(**facts, rules=tuple(UntilRule(**rule) for rule in data["rules"]))


def until_section(report: UntilReport) -> DecisionSection:
    """Say on a page what came of the rules that an evaluation was asked until, and what was not needed."""
    *_, count = report.lines
    bounds = f"Between: what the whole suite would read, at {report.level * 100:g} % whenever one looks."
    rules = [_shown(rule) for rule in report.rules]
    return DecisionSection(kind=UNTIL, heading="Until", reason=report.text, rules=rules, notes=[count, bounds])


def _shown(rule: UntilRule) -> DecidedRule:
    over_tasks = ""
    if rule.cluster_low is not None and rule.cluster_high is not None:
        over_tasks = f"over tasks {interval_text(rule.cluster_low, rule.cluster_high)}"
    return DecidedRule(
        rule=rule.rule,
        state=rule.state,
        estimate=rule.estimate,
        low=rule.low,
        high=rule.high,
        size=f"{rule.n:,} of {rule.size:,} {rule.unit}s",
        reason="; ".join(part for part in (rule.reason, over_tasks) if part),
    )
