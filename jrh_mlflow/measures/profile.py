"""The profile: a one-line sketch derived from the numbers by the rules below.

| word | rule |
|---|---|
| vacuum-clean / vacuum-leaky / vacuum-active | dark current <= 0.05 / < 0.5 / >= 0.5 |
| equivalence-respecting | raw false preference on delta 0 <= 0.10 |
| presentation-conflicted | otherwise, at least 2/3 of it is positional |
| stable-preferring | otherwise, at least 2/3 of it is stable across orders |
| one-sided | otherwise, at least 1/2 of it comes from pairs that commit in one order only |
| mixed stable-positional | otherwise |
| resolves one step / 75 % at delta x / never reaches 75 % | threshold left-censored / x / right-censored |
| misses by tie | at the smallest step at least 1/4 of the calls are ties |
"""

from __future__ import annotations

from collections.abc import Mapping

from jrh_mlflow.schema.estimates import Estimate, Reading

RULES = __doc__


def profile_line(estimates: Mapping[str, Reading]) -> str:
    """Describe a judge in one line; axes that were not measured leave no word."""
    parts = [_vacuum(estimates), _delta_0(estimates), _threshold(estimates), _misses(estimates), _natural(estimates)]
    return ", ".join(part for part in parts if part) or "not enough measured for a profile"


def _value(estimates: Mapping[str, Reading], axis: str) -> float | None:
    reading = estimates.get(axis)
    return reading.value if isinstance(reading, Estimate) else None


def _vacuum(estimates: Mapping[str, Reading]) -> str | None:
    dark_current = _value(estimates, "dark_current")
    if dark_current is None:
        return None
    if dark_current <= 0.05:
        return "vacuum-clean"
    return "vacuum-leaky" if dark_current < 0.5 else "vacuum-active"


def _delta_0(estimates: Mapping[str, Reading]) -> str | None:
    raw = _value(estimates, "raw_false_preference")
    stable = _value(estimates, "stable_cross_sensitivity")
    positional = _value(estimates, "positional_false_preference")
    one_sided = _value(estimates, "one_sided_commit")
    if raw is None or stable is None or positional is None or one_sided is None:
        return None
    if raw <= 0.10:
        return "equivalence-respecting"
    if positional / raw >= 2 / 3:
        return "presentation-conflicted"
    if stable / raw >= 2 / 3:
        return "stable-preferring"
    return "one-sided" if one_sided / 2 / raw >= 1 / 2 else "mixed stable-positional"


def _threshold(estimates: Mapping[str, Reading]) -> str | None:
    reading = estimates.get("threshold_75")
    if not isinstance(reading, Estimate):
        return None
    if reading.censored == "right":
        return "never reaches 75 %"
    step = "one step" if reading.value == 1 else f"a step of {reading.value:g}"
    return f"resolves {step}" if reading.censored == "left" else f"75 % at delta {reading.value:.2g}"


def _misses(estimates: Mapping[str, Reading]) -> str | None:
    ties = [_value(estimates, axis) for axis in estimates if axis.startswith("miss_by_tie/")]
    return "misses by tie" if ties and ties[0] is not None and ties[0] >= 0.25 else None


def _natural(estimates: Mapping[str, Reading]) -> str | None:
    accuracy, stable = _value(estimates, "natural/accuracy"), _value(estimates, "natural/stable_correct")
    if accuracy is None or stable is None:
        return None
    return f"natural pairs {accuracy:.0%} right, {stable:.0%} in both orders"
