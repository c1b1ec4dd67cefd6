"""Rules over readings: their grammar, and what an interval decides about one.

    AXIS OP NUMBER              dark_current <= 0.1
    excluded/AXIS OP NUMBER     excluded/dark_current <= 0.02
    cost/… OP NUMBER            cost/usd <= 2        (tokens/…, time/… and calls/… too)
    AXIS - baseline OP NUMBER   dark_current - baseline <= 0.05

A rule holds or fails only where the whole interval lies on one side of the limit; else it is undecided.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Ends

Kind = Literal["axis", "excluded", "cost", "baseline"]
Op = Literal["<=", "<", ">=", ">"]
State = Literal["holds", "fails", "undecided"]

EXCLUDED = "excluded/"
COSTS = (metric_keys.COST_OF, metric_keys.TOKENS, metric_keys.TIME, metric_keys.CALLS)
"""What the keys of a run's facts begin with: known numbers, without an interval."""
_MIRRORED: dict[Op, Op] = {"<=": ">=", "<": ">", ">=": "<=", ">": "<"}
_SPELLED: dict[str, Op] = {"≤": "<=", "≥": ">=", **{op: op for op in _MIRRORED}}
_COMPARISON = re.compile("[<>=!≤≥≠]+")
_DIFFERENCE = re.compile(r"(.*?)\s*-\s*baseline")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_FORM = "Write AXIS OP NUMBER, such as 'dark_current <= 0.1'"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What a reading must be."""

    text: str
    """As normalised: rules that say the same have the same text."""
    kind: Kind
    """`axis` and `baseline` have intervals; `excluded` and `cost` are facts of a run."""
    axis: str
    """The axis, also of `excluded/AXIS` and `AXIS - baseline`; of a cost its whole key."""
    op: Op
    limit: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleCheck:
    """What one rule came to."""

    rule: Rule
    state: State
    estimate: float | None
    """None where there is no number: withheld, not measured, or a threshold of which only a bound is known."""
    low: float | None
    """The interval that decided, or the bounds of a withheld axis; None: open, or not known."""
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data; the rule as its text."""
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"rule": self.rule.text}


def undecided(rule: Rule, reason: str, *, ends: Ends = (None, None), n: int | None = None) -> RuleCheck:
    """Return the check of a rule about something that has no number, and that no further tasks give one."""
    return RuleCheck(rule=rule, state="undecided", estimate=None, low=ends[0], high=ends[1], reason=reason, n=n)


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
    return _rule(written, left, op, limit)


def parse_rules(rules: str | Rule | Iterable[str | Rule]) -> tuple[Rule, ...]:
    """Read one rule or several, in their order, each once.

    Raises:
        RecipeError: when one is no rule.
    """
    several = [rules] if isinstance(rules, str | Rule) else rules
    return tuple(dict.fromkeys(parse_rule(each) for each in several))


def known(rule: Rule, axes: Collection[str], *, costs: Collection[str] | None = None) -> None:
    """Refuse a rule about an axis that does not exist; about a cost only where the `costs` are given.

    Raises:
        RecipeError: with the nearest name, and all that are known.
    """
    among = axes if rule.kind != "cost" else costs
    if among is None or rule.axis in among:
        return
    names = [*axes, *(costs or ())]
    name = f"{EXCLUDED}{rule.axis}" if rule.kind == "excluded" else rule.axis
    near = suggest(name, [*names, *(f"{EXCLUDED}{axis}" for axis in axes)])
    raise RecipeError(f"Unknown axis {name!r} in the rule {rule.text!r}.{near} Known: {', '.join(names)}.")


def decide(rule: Rule, low: float | None, high: float | None) -> State:
    """Say what an interval decides; an end that is missing decides nothing on its side.

    `x <= limit` holds when `high <= limit` and fails when `low > limit`.

    Example:
        >>> decide(parse_rule("dark_current <= 0.1"), 0.02, 0.15)
        'undecided'
    """
    if rule.op in (">=", ">"):
        rule, low, high = _negated(rule), None if high is None else -high, None if low is None else -low
    strict = rule.op == "<"
    if high is not None and (high < rule.limit or (high == rule.limit and not strict)):
        return "holds"
    if low is not None and (low > rule.limit or (low == rule.limit and strict)):
        return "fails"
    return "undecided"


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
    found = _COMPARISON.findall(text)
    if not found:
        raise RecipeError(f"The rule {text!r} compares nothing. {_FORM}.")
    if len(found) > 1:
        raise RecipeError(f"The rule {text!r} has {len(found)} comparisons. Write one rule each, as a list.")
    left, right = (part.strip() for part in _COMPARISON.split(text))
    op = _SPELLED.get(found[0])
    if op is None:
        meant = ">=" if ">" in found[0] else "<="
        advice = f"Write <=, <, >= or >, such as '{left} {meant} {right}'"
        raise RecipeError(f"The rule {text!r} compares with {found[0]!r}, which no measured number can be. {advice}.")
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


def _rule(text: str, left: str, op: Op, limit: float) -> Rule:
    kind: Kind
    difference = _DIFFERENCE.fullmatch(left)
    kind, name = ("baseline", difference[1]) if difference else _kind(left)
    if kind == "baseline" and (not name or _kind(name)[0] != "axis"):
        raise RecipeError(f"The rule {text!r} has no axis before '- baseline'. Write AXIS - baseline {op} NUMBER.")
    if not name:
        raise RecipeError(f"The rule {text!r} names no axis. {_FORM}, excluded/AXIS or cost/usd.")
    shown = {"excluded": f"{EXCLUDED}{name}", "baseline": f"{name} - baseline"}.get(kind, name)
    return Rule(text=f"{shown} {op} {_number(limit)}", kind=kind, axis=name, op=op, limit=limit)


def _kind(name: str) -> tuple[Kind, str]:
    if name.startswith(EXCLUDED):
        return "excluded", name.removeprefix(EXCLUDED)
    if name.startswith(COSTS):
        return "cost", "" if name in COSTS else name
    return "axis", name


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")


def _negated(rule: Rule) -> Rule:
    return Rule(text=rule.text, kind=rule.kind, axis=rule.axis, op=_MIRRORED[rule.op], limit=-rule.limit)
