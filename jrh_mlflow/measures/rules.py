"""Rules over readings: how each form is written, what it is decided on, and what an interval decides about it.

    AXIS OP NUMBER              dark_current <= 0.1
    excluded/AXIS OP NUMBER     excluded/dark_current <= 0.02
    cost/… OP NUMBER            cost/usd <= 2        (tokens/…, time/… and calls/… too)
    AXIS - baseline OP NUMBER   dark_current - baseline <= 0.05
    attack/success OP NUMBER    attack/success <= 0.05    (of the newest attack on the run)

A rule holds or fails only where the whole interval lies on one side of the limit; else it is undecided. A form is one
class with `@rule_form`: everything else that knows rules (`jrh.gate`, `jrh.until`, tables, pages) asks the rule.

A difference is read on the calls that both judges were asked; its interval is made of the two judges' own, squared and
added, with the correlation of the two shares over the tasks where the axis is a share of calls, pairs or items, and
none (as if the judges had been asked on different tasks, which is wide where they err on the same) where it is anything
else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.measures import axes
from jrh_mlflow.measures.unit_scores import AxisUnits
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Ends, Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.scoring.ledger import deciding_ends, difference_bounds
from jrh_mlflow.stats import Array, Interval
from jrh_mlflow.stats.power import sources_needed
from jrh_mlflow.stats.proportions import cluster_interval, newcombe, share_correlation
from jrh_mlflow.stats.psychometrics import decided_steps

Op = Literal["<=", "<", ">=", ">"]
State = Literal["holds", "fails", "undecided"]
STATE_WORDS: Mapping[State, str] = {"holds": "holds", "fails": "fails", "undecided": "not decided"}
"""What people read: the same words on screens, cards and pages, of gates and of `until`."""

EXCLUDED = "excluded/"
D_PRIME = "d_prime/"
COSTS = (metric_keys.COST_OF, metric_keys.TOKENS, metric_keys.TIME, metric_keys.CALLS)
"""What the keys of a run's facts begin with: known numbers, without an interval."""
_MIRRORED: dict[Op, Op] = {"<=": ">=", "<": ">", ">=": "<=", ">": "<"}
_SPELLED: dict[str, Op] = {"≤": "<=", "≥": ">=", **{op: op for op in _MIRRORED}}
_COMPARISON = re.compile("[<>=!≤≥≠]+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_FORM = "Write AXIS OP NUMBER, such as 'dark_current <= 0.1'"


Counts = tuple[Array, Array]
"""Hits and units of a share, by task."""
StepCounts = Mapping[float, Counts]
"""Those behind a share or a d' stand under step 0; a threshold has some under every step of its curve."""


class JudgeReadings(Protocol):
    """What one judge read on one suite."""

    @property
    def readings(self) -> Mapping[str, Reading]:
        """Every axis that was measured."""

    @property
    def units(self) -> Mapping[str, AxisUnits]:
        """What every axis counts that is a mean over units."""


Judges = Sequence[JudgeReadings]
"""One, or a judge and the baseline that it is compared with."""


class Evidence(Protocol):
    """What rules are decided on: the calls of a run, or of a run and its baseline (`decisions.gate`)."""

    @property
    def judge(self) -> JudgeReadings:
        """Whom the rules are about."""

    @property
    def facts(self) -> Mapping[str, Ends | None]:
        """Key of a run's fact to what is known of it: both ends, one of them, or nothing."""

    @property
    def attack(self) -> AttackEvidence | None:
        """The newest attack on the judge, where there is one."""

    def interval_check(self, rule: IntervalRule) -> RuleCheck:
        """Decide by an interval; where that is not enough, say how many further tasks like these would be."""


@dataclass(frozen=True, kw_only=True)
class AttackEvidence:
    """What an attack on a judge read on held-out sources."""

    readings: Mapping[str, Reading]
    level: float = 0.95
    """At which each side is decided: a further attack on the same judge and suite is a further look."""


class SuiteShare(Protocol):
    """An axis that is a share of hits among the calls or pairs of a suite (`measuring.until`)."""

    def of_lost_calls(self: Share) -> Share:
        """Return the share of calls without a usable answer in place of that of the hits."""


Share = TypeVar("Share", bound=SuiteShare)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a number must be. Each form says how it is written, what decides it, and what is known while asking."""

    form: ClassVar[str]
    """How it is written before its comparison, with AXIS in the place of the axis."""
    pattern: ClassVar[re.Pattern[str]]
    """Matches all that stands before the comparison; its group is the axis."""
    needs_baseline: ClassVar[bool] = False
    """Whether it compares with another run."""
    not_while_asking: ClassVar[str] = "more than the calls of this suite"
    """What it is about that cannot be known while a suite is asked; empty where `counted` can be."""
    reads_axis: ClassVar[bool] = True
    """Whether the number that it limits is a reading of its axis."""

    axis: str
    """Of a cost its whole key."""
    op: Op
    limit: float

    @property
    def text(self) -> str:
        """As normalised: rules that say the same have the same text."""
        return f"{self.form.replace('AXIS', self.axis)} {self.op} {_number(self.limit)}"

    @property
    def key(self) -> str:
        """Under which its number has a name."""
        return self.axis

    def subject(self, named: Callable[[str], str]) -> str:
        """Return what is limited, in words for people; `named` gives the name of a key."""
        return self.form.replace(" - ", " − ").replace("AXIS", named(self.axis))

    @classmethod
    def refusal(cls, axis: str) -> str | None:
        """Say what is wrong with the axis of a rule of this form, and what to write; None where nothing is."""
        return None if axis else f"names no axis. {_FORM}, excluded/AXIS or cost/usd"

    def is_known(self, axes: Collection[str], facts: Collection[str]) -> bool:
        """Whether there is such an axis, or such a fact of a run."""
        return self.axis in axes

    def check_known(self, axes: Collection[str], facts: Collection[str] = ()) -> None:
        """Refuse a rule about an axis or a fact that does not exist.

        Raises:
            RecipeError: with the nearest name, and all that are known.
        """
        if self.is_known(axes, facts):
            return
        names = [*axes, *facts]
        near = suggest(self.key, [*names, *(ExcludedRule.form.replace("AXIS", axis) for axis in axes)])
        raise RecipeError(f"Unknown axis {self.key!r} in the rule {self.text!r}.{near} Known: {', '.join(names)}.")

    def check(self, evidence: Evidence) -> RuleCheck:
        """Say what the rule comes to on what was measured, why, and how many further tasks would decide it."""
        raise NotImplementedError(f"The form {self.form!r} does not say what decides it.")

    def counted(self, share: Share) -> Share:
        """Return what is counted while a suite is asked, made of the share that its axis is."""
        return share

    def decide(self, low: float | None, high: float | None) -> State:
        """Say what an interval decides; an end that is missing decides nothing on its side.

        `x <= limit` holds when `high <= limit` and fails when `low > limit`.

        Example:
            >>> parse_rule("dark_current <= 0.1").decide(0.02, 0.15)
            'undecided'
        """
        limit, op = self.limit, self.op
        if op in (">=", ">"):
            # The mirror image: minus x is at most minus the limit.
            limit, op = -limit, _MIRRORED[op]
            low, high = None if high is None else -high, None if low is None else -low
        strict = op == "<"
        if high is not None and (high < limit or (high == limit and not strict)):
            return "holds"
        if low is not None and (low > limit or (low == limit and strict)):
            return "fails"
        return "undecided"


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleCheck:
    """What one rule came to."""

    rule: Rule
    state: State
    estimate: float | None
    """None where there is no number: withheld, not measured, or a threshold of which only a bound is known."""
    low: float | None
    """The 95 % interval by task, or the bounds of a withheld axis; None: open, or not known."""
    high: float | None
    reason: str
    """Why the state is what it is, in one line."""
    further_tasks: int | None = None
    """0 when decided; else after how many more tasks like these it would be; None where no number helps."""
    n: int | None = None
    """Units behind the estimate; None of facts that are no share."""
    n_clusters: int | None = None
    censored: str = ""
    """Of a threshold beyond the measured steps, which has no estimate, the side: `≤ 1`, `> 5`."""
    look: int = 1
    """How often this rule was looked at for this judge and suite, this time included; each look decides at less."""
    by_losses: bool = False
    """Whether the answers that came would decide it, and calls without a usable answer leave it open."""
    what_helps: str = ""
    """Where further tasks would decide it: where those are, and what else can be done."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data; the rule as its text."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"rule": self.rule.text}


def undecided(rule: Rule, reason: str, *, ends: Ends = (None, None), n: int | None = None) -> RuleCheck:
    """Return the check of a rule about something that has no number, and that no further tasks give one."""
    return RuleCheck(rule=rule, state="undecided", estimate=None, low=ends[0], high=ends[1], reason=reason, n=n)


FORMS: list[type[Rule]] = []
"""Every form; the last one whose pattern matches reads a rule, so that the plain axis, which fits all, comes first."""
Form = TypeVar("Form", bound=type[Rule])


def rule_form(form: Form) -> Form:
    """Make a form known to everything that reads rules."""
    FORMS.append(form)
    return form


class IntervalRule(Rule):
    """A rule that is decided by an interval over tasks: a form needs `reading` alone."""

    def reading(self, judges: Judges) -> Reading:
        """Return what the rule limits, read on the calls of one judge, or of a judge and its baseline."""
        raise NotImplementedError(f"The form {self.form!r} does not say what it reads.")

    def ends_of_counts(self, counts: Sequence[StepCounts], *, level: float = 0.95) -> Ends | None:
        """Return the ends of `reading` from the counts of each judge; None: it must be measured to be known.

        It makes the search for further tasks quick where the reading is made of shares.
        """
        return None

    def check(self, evidence: Evidence) -> RuleCheck:
        """Decide by the interval of what is read."""
        return evidence.interval_check(self)

    def state(self, reading: Estimate, ends: Ends | None = None, *, level: float = 0.95) -> State:
        """Say what a reading decides, by its own ends at a level or by others."""
        low, high = ends or deciding_ends(reading, level=level)
        if reading.unit == "curve" and low is not None:
            # Not reached at a step is over that step.
            low = math.nextafter(low, math.inf)
        return self.decide(low, high)


@rule_form
class AxisRule(IntervalRule):
    """`AXIS OP NUMBER`: a reading of the judge."""

    form = "AXIS"
    pattern = re.compile("(.*)")
    not_while_asking = ""

    def reading(self, judges: Judges) -> Reading:
        """Return the judge's own reading."""
        return axis_reading(judges[0], self.axis)

    def ends_of_counts(self, counts: Sequence[StepCounts], *, level: float = 0.95) -> Ends | None:
        """Return the ends of a share, a d' or a threshold."""
        return counted_ends(self.axis, *counts, level=level)


@rule_form
class ExcludedRule(Rule):
    """`excluded/AXIS OP NUMBER`: the share of an axis's calls without a usable answer, a fact of the run."""

    form = f"{EXCLUDED}AXIS"
    pattern = re.compile(f"{EXCLUDED}(.*)")
    not_while_asking = ""
    reads_axis = False

    @property
    def key(self) -> str:
        """The axis with what is said of it: it has a name of its own."""
        return self.form.replace("AXIS", self.axis)

    def subject(self, named: Callable[[str], str]) -> str:
        """Return the name of the key."""
        return named(self.key)

    def counted(self, share: Share) -> Share:
        """Return the share of lost calls."""
        return share.of_lost_calls()

    def check(self, evidence: Evidence) -> RuleCheck:
        """Decide by the counts of the calls; they are known, so the share is its own interval."""
        reading, counts = evidence.judge.readings.get(self.axis), lost_calls(self.axis, evidence.judge.readings)
        if counts is None:
            why = "not asked in this run" if reading is None else "its calls are not counted"
            return undecided(self, reading.reason if isinstance(reading, NotEstimable) else why)
        # A fact, not a sample: every call of the run is counted, so both ends are the share itself.
        lost, asked = counts
        share = lost / asked
        return RuleCheck(
            rule=self,
            state=self.decide(share, share),
            estimate=share,
            low=share,
            high=share,
            reason=f"{lost:,} of {asked:,} calls have no usable answer",
            further_tasks=0,
            n=asked,
        )


@rule_form
class FactRule(Rule):
    """`cost/… OP NUMBER`, `tokens/…`, `time/…`, `calls/…`: a known number of the run, or a lower end of it."""

    form = "AXIS"
    pattern = re.compile(f"((?:{'|'.join(COSTS)}).*)")
    not_while_asking = "a cost"

    @classmethod
    def refusal(cls, axis: str) -> str | None:
        """Refuse the beginning of a key alone."""
        return super().refusal("" if axis in COSTS else axis)

    def is_known(self, axes: Collection[str], facts: Collection[str]) -> bool:
        """Whether runs have such a fact."""
        return self.axis in facts

    def check(self, evidence: Evidence) -> RuleCheck:
        """Decide by what is known: a sum over some of the calls is a lower end."""
        low, high = evidence.facts[self.axis] or (None, None)
        state = self.decide(low, high)
        estimate = low if low is not None and low == high else None
        why = "a fact of the run" if estimate is not None else "not known of this run"
        if low is not None and high is None:
            why = f"at least {low:.4g}: the cost of some calls is not known"
        further = 0 if state != "undecided" else None
        return RuleCheck(
            rule=self, state=state, estimate=estimate, low=low, high=high, reason=why, further_tasks=further
        )


@rule_form
class AttackRule(Rule):
    """`attack/success OP NUMBER`: what the newest attack on the judge read on sources that its search never saw."""

    form = "AXIS"
    pattern = re.compile("(attack/(?:success|control|plain))")
    not_while_asking = "an attack"
    reads_axis = False

    def is_known(self, axes: Collection[str], facts: Collection[str]) -> bool:
        """Every judge can be attacked."""
        return True

    def check(self, evidence: Evidence) -> RuleCheck:
        """Decide by the newest attack."""
        return self.decided(evidence.attack)

    def decided(self, attack: AttackEvidence | None) -> RuleCheck:
        """Decide by the interval over held-out sources, and say how many are missing."""
        reading = None if attack is None else attack.readings.get(self.axis)
        if attack is None or reading is None:
            return undecided(self, "no attack on this run is logged: `jrh attack RUN` makes one")
        if isinstance(reading, NotEstimable):
            return undecided(self, f"withheld: {reading.reason}" if reading.withheld else reading.reason, n=reading.n)
        low, high = deciding_ends(reading, level=attack.level)
        state, further = self.decide(low, high), 0 if low is not None else None
        why, n = "by its interval over held-out sources", reading.n_clusters
        if state == "undecided":
            needed = sources_needed(reading.value, self.limit) if self.op in ("<=", "<") else None
            further = None if needed is None or needed <= n else 2 * (needed - n)
            more = (
                "" if further is None else f"; about {needed:,} could decide it, so that {further // 2:,} are missing"
            )
            why = f"the limit lies within its interval over {n:,} held-out sources{more}, half of a suite is held out"
            why = why if further else why.rpartition(",")[0]
        return RuleCheck(
            rule=self,
            state=state,
            estimate=reading.value,
            low=reading.cluster_low,
            high=reading.cluster_high,
            reason=why,
            further_tasks=further,
            n=reading.n,
            n_clusters=n,
        )


class BaselineRule(IntervalRule):
    """A rule that compares the judge with a baseline, on the calls that both were asked."""

    needs_baseline = True
    not_while_asking = "two runs"

    @classmethod
    def refusal(cls, axis: str) -> str | None:
        """Refuse all but a plain axis: costs and lost calls of two runs are not compared."""
        if axis and _form_of(axis)[0] is AxisRule:
            return None
        return f"has no axis before {cls.form.removeprefix('AXIS ')!r}. Write {cls.form} OP NUMBER"


@rule_form
class DifferenceRule(BaselineRule):
    """`AXIS - baseline OP NUMBER`: the judge's reading minus the baseline's."""

    form = "AXIS - baseline"
    pattern = re.compile(r"(.*?)\s*-\s*baseline")
    not_while_asking = "a difference between two runs"

    def reading(self, judges: Judges) -> Reading:
        """Return the difference."""
        return difference_reading(judges, self.axis)

    def ends_of_counts(self, counts: Sequence[StepCounts], *, level: float = 0.95) -> Ends | None:
        """Return the ends of a difference of shares or thresholds; those of d' are not made of one count."""
        if self.axis.startswith(D_PRIME):
            return None
        if not is_threshold(self.axis):
            return counted_ends(self.axis, *counts, level=level)
        after, before = (counted_ends(self.axis, steps, level=level) or (None, None) for steps in counts)
        return threshold_difference(after, before)


def parse_rule(text: str | Rule) -> Rule:
    """Read one rule.

    Raises:
        RecipeError: when it is none, saying what to write.

    Example:
        >>> parse_rule("dark_current-baseline<=.05").text
        'dark_current - baseline <= 0.05'
    """
    if isinstance(text, Rule):
        return text
    if not isinstance(text, str):
        raise RecipeError(f"A rule is a text, but got {text!r}. {_FORM}.")
    written = " ".join(text.replace("−", "-").split())
    if not written:
        raise RecipeError(f"A rule is empty. {_FORM}.")
    left, op, right = _parts(written)
    limit = _limit(written, left, op, right)
    form, axis = _form_of(left)
    if wrong := form.refusal(axis):
        raise RecipeError(f"The rule {written!r} {wrong}.")
    return form(axis=axis, op=op, limit=limit)


def parse_rules(rules: str | Rule | Iterable[str | Rule]) -> tuple[Rule, ...]:
    """Read one rule or several, in their order, each once.

    Raises:
        RecipeError: when one is no rule.
    """
    several = [rules] if isinstance(rules, str | Rule) else rules
    return tuple(dict.fromkeys(parse_rule(rule) for rule in several))


def overall(states: Collection[State]) -> bool | None:
    """Say whether all rules together hold: False when one fails, else None when one is undecided, else True.

    Raises:
        RecipeError: when there is no rule at all: nothing required is nothing passed.
    """
    if not states:
        raise RecipeError(f"No rule is given. {_FORM}.")
    if "fails" in states:
        return False
    return None if "undecided" in states else True


def _parts(text: str) -> tuple[str, Op, str]:
    comparisons = _COMPARISON.findall(text)
    if not comparisons:
        raise RecipeError(f"The rule {text!r} compares nothing. {_FORM}.")
    written = comparisons[0]
    if len(comparisons) > 1:
        raise RecipeError(f"The rule {text!r} has {len(comparisons)} comparisons. Write one rule each, as a list.")
    left, right = (part.strip() for part in _COMPARISON.split(text))
    op = _SPELLED.get(written)
    if op is None:
        meant = ">=" if ">" in written else "<="
        advice = f"Write <=, <, >= or >, such as '{left} {meant} {right}'"
        raise RecipeError(f"The rule {text!r} compares with {written!r}, which no measured number can be. {advice}.")
    return left, op, right


def _limit(text: str, left: str, op: Op, right: str) -> float:
    if _NUMBER.fullmatch(right):
        limit = float(right) + 0.0  # Minus nothing is nothing.
        if math.isfinite(limit):
            return limit
    raise RecipeError(f"The rule {text!r} {_wrong_limit(left, op, right)}.")


def _wrong_limit(left: str, op: Op, right: str) -> str:
    """Say what is wrong with the limit of a rule and what to write."""
    if _NOT_FINITE.fullmatch(right) or _NUMBER.fullmatch(right):
        return "has a limit that is not finite. Write a number"
    if _NUMBER.fullmatch(percent := right.removesuffix("%").strip()) and right.endswith("%"):
        return f"has a percent sign. Write '{left} {op} {_number(float(f'{float(percent) / 100:.12g}'))}'"
    if _NUMBER.fullmatch(point := right.replace(",", ".", 1)):
        return f"has a comma in its number. Write '{left} {op} {point}'"
    if _NUMBER.fullmatch(left) and right:
        return f"begins with its number. Write '{right} {_MIRRORED[op]} {left}'"
    return f"has no number after {op}. {_FORM}"


def _form_of(left: str) -> tuple[type[Rule], str]:
    """Return the form of what stands before a comparison, and its axis."""
    # The plain axis fits every text and was declared first, so it is tried last.
    for form in reversed(FORMS):
        if matched := form.pattern.fullmatch(left):
            return form, matched[1]
    raise AssertionError(f"The plain axis fits every text, but not {left!r}.")


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")


# --- The numbers that rules are decided on.


def axis_reading(judge: JudgeReadings, axis: str, *, where: str = "in this run") -> Reading:
    """Return what a judge reads on an axis."""
    return judge.readings.get(axis, NotEstimable(reason=f"not asked {where}"))


def paired_readings(judges: Judges, axis: str) -> tuple[Estimate, Estimate] | NotEstimable:
    """Return the readings of a judge and of its baseline; where one has no number, why."""
    after, before = (axis_reading(judge, axis, where="in calls that both runs have") for judge in judges)
    bounds = difference_bounds(after, before)
    for reading, name in ((after, "the judge"), (before, "the baseline")):
        if isinstance(reading, NotEstimable):
            # Only what was withheld has bounds: of what was never asked nothing is known.
            return replace(reading, reason=f"{name}: {reading.reason}", bounds=bounds if reading.withheld else None)
    assert isinstance(after, Estimate)
    assert isinstance(before, Estimate)
    return after, before


def difference_reading(judges: Judges, axis: str) -> Reading:
    """Return the judge's reading minus the baseline's; censored where one of them is, and then without a number."""
    readings = paired_readings(judges, axis)
    if isinstance(readings, NotEstimable):
        return readings
    after, before = readings
    bounds = difference_bounds(after, before)
    ends, at_level, decides_at = _difference_ends(judges, readings, axis)
    return replace(
        after,
        value=after.value - before.value,
        n=min(before.n, after.n),
        excluded=before.excluded + after.excluded,
        **intervals(None, ends),
        bound_low=bounds.low if bounds else None,
        bound_high=bounds.high if bounds else None,
        at_level=at_level,
        decides_at=decides_at,
        n_clusters=min(before.n_clusters, after.n_clusters),
        unit="item" if after.unit == "curve" else after.unit,
        statistic="value",
        censored=after.censored or before.censored,
    )


def _difference_ends(
    judges: Judges, readings: tuple[Estimate, Estimate], axis: str
) -> tuple[Ends, Callable[[float], Interval | None] | None, Callable[[float], Ends | None] | None]:
    """Return the interval of a difference, the same at a level by the answers that came, and what decides at a level.

    An end that one of the two does not have is open. Where nothing decides at a level, arms and bounds do.
    """
    after, before = readings
    if after.unit == "curve":
        ends = threshold_difference(deciding_ends(after), deciding_ends(before))
        return ends, None, lambda level: threshold_difference(*(deciding_ends(one, level=level) for one in readings))
    units, others = (judge.units.get(axis) for judge in judges)
    if units is None or others is None:
        low, high = (_added_arms(after, before, side) for side in (-1, 1))
        return (low, high), None, None
    counts = [units.task_counts, others.task_counts]
    # The lost calls of the two judges against one another: one of them at its least, the other at its most.
    parts = [counts]
    if after.excluded or before.excluded:
        (least, most), (other_least, other_most) = units.completed_counts, others.completed_counts
        parts += [[least, other_most], [most, other_least]]
    return (
        share_ends(counts) or (None, None),
        lambda level: share_ends(counts, level=level),
        lambda level: hull_ends([share_ends(part, level=level) for part in parts]),
    )


def hull_ends(several: Sequence[Ends | None]) -> Ends | None:
    """Return the outermost of several ends; an open one stays open, and None where one has no ends at all."""
    known = [ends for ends in several if ends is not None]
    if len(known) < len(several):
        return None
    low, high = zip(*known, strict=True)
    return None if None in low else min(low), None if None in high else max(high)


def _added_arms(after: Estimate, before: Estimate, side: int) -> float | None:
    """Return an end of a difference of two numbers that are taken as independent: their arms squared and added."""
    ends = (after.cluster_low, before.cluster_high) if side < 0 else (after.cluster_high, before.cluster_low)
    if ends[0] is None or ends[1] is None:
        return None
    return after.value - before.value + side * math.hypot(after.value - ends[0], before.value - ends[1])


def threshold_difference(after: Ends, before: Ends) -> Ends:
    """Return the ends of a difference of thresholds from the steps between which the two curves put them.

    They are at least 0 by definition: what is known of both adds up, with 2.5 % of error on a side each.
    """
    (low, high), (below, above) = after, before
    return None if above is None else (low or 0.0) - above, None if high is None else high - (below or 0.0)


def printed_ends(reading: Estimate) -> Ends:
    """Return the 95 % interval that is shown; of a threshold the steps between which the curve's intervals put it."""
    if reading.unit == "curve":
        return reading.not_reached_at, reading.reached_by
    return reading.cluster_low, reading.cluster_high


def is_threshold(axis: str) -> bool:
    """Whether an axis is where a curve over steps reaches a share: it is one of the steps, or beyond them."""
    declared = axes.find(axis)
    return declared is not None and declared.unit == "curve"


def share_ends(counts: Sequence[Counts], *, level: float = 0.95) -> Interval | None:
    """Return the interval by task of a share, or of the difference of the first to the second; None with one task."""
    ends = [cluster_interval(*task_counts, level=level) for task_counts in counts]
    if len(counts) == 1 or ends[0] is None or ends[1] is None:
        return ends[0]
    share, other = (float(hits.sum() / sizes.sum()) for hits, sizes in counts)
    # `newcombe` reads the second minus the first, so the baseline comes first.
    return newcombe(other, ends[1], share, ends[0], correlation=share_correlation(*counts[1], *counts[0]))


def step_counts(judge: JudgeReadings, axis: str, completion: int | None = None) -> dict[float, Counts]:
    """Return the counts behind a share or a d', or those of every step behind a threshold; nothing of other axes.

    `completion` 0 and 1 are those with every lost call at its least and at its most; None: the answers that came.
    """
    declared = axes.find(axis)
    if declared and is_threshold(axis):
        family = next(other.name for other in axes.AXES if other.curve and other.stimuli == declared.stimuli)
        names = {step: f"{family}/{axes.delta_key(step)}" for step in axes.by_step(judge.readings, family)}
    else:
        names = {0.0: axis.replace(D_PRIME, "target_sensitivity/", 1) if axis.startswith(D_PRIME) else axis}
    units = {step: judge.units[name] for step, name in names.items() if name in judge.units}
    if completion is None:
        return {step: own.task_counts for step, own in units.items()}
    return {step: own.completed_counts[completion] for step, own in units.items()}


def counted_ends(axis: str, *counts: StepCounts, level: float = 0.95) -> Ends | None:
    """Return the ends of an axis from the counts behind it, or of the difference of the first to the second."""
    ends = {step: share_ends([of_judge[step] for of_judge in counts], level=level) for step in counts[0]}
    if axis.startswith(D_PRIME):
        return None if ends[0.0] is None else axes.d_prime_ends(ends[0.0])
    if not is_threshold(axis):
        return ends[0.0]
    return decided_steps({step: interval or (None, None) for step, interval in ends.items()})


def lost_calls(axis: str, readings: Mapping[str, Reading]) -> tuple[int, int] | None:
    """Return how many calls of an axis gave no usable answer, and of how many; None where nothing was asked.

    Of a share among some of the calls (those that chose a side) it is all calls that were asked for it.
    """
    counts = [_lost_and_asked(readings[key]) for key in _asked_as(axis) if key in readings]
    known = [count for count in counts if count is not None]
    return (sum(lost for lost, _ in known), sum(asked for _, asked in known)) if known else None


def _asked_as(axis: str) -> list[str]:
    """Return the axes that were asked by the same calls and count all of them; of a gap the two that it is between."""
    declared = axes.find(axis)
    if declared is None or axis.startswith(axes.EXPECTED):
        return [axis]
    # A gap is asked by the calls of both ladders, at the same step.
    step = axis.removeprefix(declared.name)
    gap = declared.gap or (("target_sensitivity", "matched_sensitivity") if declared.name == "reading_gap" else None)
    if gap:
        return [f"{name}{step}" for name in gap]
    if declared.among is None:
        return [axis]
    whole = [
        other
        for other in axes.AXES
        if other.stimuli is declared.stimuli and other.hits and other.by_step == declared.by_step
    ]
    return [f"{other.name}{step}" for other in whole if other.among is None and other.unit == declared.unit][:1]


def _lost_and_asked(reading: Reading) -> tuple[int, int] | None:
    if isinstance(reading, NotEstimable):
        if reading.bounds is not None:
            return sum(reading.bounds.lost.values()), reading.bounds.asked
        asked = reading.n + reading.excluded
    else:
        asked = reading.n + reading.excluded if reading.n_calls is None else reading.n_calls
    return (sum(reading.left_out.values()), asked) if asked else None
