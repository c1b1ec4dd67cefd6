"""Biases in words: which were found, which were not and how large one would have had to be, and which are not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jrh_mlflow.measures.findings import Finding, findings
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.show.names import axis_name

DETECTABLE_NOTE = (
    "Detectable is what a run like this finds in 4 of 5 cases: of a bias its size; of any other number its distance "
    "from a limit."
)

_MOST = 10
"""Biases that a line names."""


def finding_lines(estimates: Mapping[str, Reading]) -> dict[str, str]:
    """Return `bias found`, `no bias found` and `bias not known` to a line each; those without any are left out.

    Of a suite with many tests the first are named, and the others counted. Names may be a user's: whoever shows them
    escapes them.
    """
    found = findings(estimates)
    numbers = [f"{axis_name(one.key)} {_number(one.reading)}" for one in found if one.state == "found"]
    sizes = _by_text(found, "none found", lambda one: f"one of {one.detectable:.2f} or more")
    reasons = _by_text(found, "not known", lambda one: _why(one.reading))
    lines = {
        "bias found": _some(numbers),
        "no bias found": f"{sizes} would have been found in 4 of 5 cases" if sizes else "",
        "bias not known": reasons,
    }
    return {head: line for head, line in lines.items() if line}


def _by_text(found: Sequence[Finding], state: str, text: Callable[[Finding], str]) -> str:
    """Name the biases of a state, those with the same text together."""
    groups: dict[str, list[str]] = {}
    for one in found:
        if one.state == state:
            groups.setdefault(text(one), []).append(axis_name(one.key))
    return "; ".join(f"{_some(labels)}: {shared}" for shared, labels in groups.items())


def _some(names: Sequence[str]) -> str:
    more = [f"and {len(names) - _MOST} more"] if len(names) > _MOST else []
    return ", ".join([*names[:_MOST], *more])


def _number(reading: Reading) -> str:
    """Write a number and its interval, with more places where two would round an end to 0 or 1 that excludes it."""
    assert isinstance(reading, Estimate)
    ends = [one for one in (reading.value, reading.cluster_low, reading.cluster_high) if one is not None]
    value, low, high = (f"{one:.{4 if one % 1 and round(one, 2) % 1 == 0 else 2}f}" for one in ends)
    return f"{value} [{low}, {high}]"


def _why(reading: Reading) -> str:
    return "no interval by task" if isinstance(reading, Estimate) else "withheld"
