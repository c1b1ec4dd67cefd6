"""Biases in words: which were found, which were not and how large one would have had to be, and which are not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jrh_mlflow.measures.findings import Finding, findings
from jrh_mlflow.schema.estimates import Estimate, Reading

DETECTABLE_NOTE = (
    "Detectable is what a run like this finds in 4 of 5 cases: of a bias its size; of any other number its distance "
    "from a limit."
)

_MOST = 10
"""Biases that a line names."""


def finding_lines(estimates: Mapping[str, Reading]) -> dict[str, str]:
    """Return `found`, `none found` and `not known` to the biases, in one line each; states without any are left out.

    Of a suite with many tests the first are named, and the others counted. Names may be a user's: whoever shows them
    escapes them.
    """
    groups: dict[str, list[Finding]] = {}
    for one in findings(estimates):
        groups.setdefault(one.state, []).append(one)
    lines = {
        "found": _found(groups.get("found", [])),
        "none found": _not_found(groups.get("none found", [])),
        "not known": _some([f"{one.label} ({_why(one.reading)})" for one in groups.get("not known", [])]),
    }
    return {state: line for state, line in lines.items() if line}


def _found(found: Sequence[Finding]) -> str:
    return _some([f"{one.label} {_number(one.reading)}" for one in found])


def _some(names: Sequence[str]) -> str:
    more = [f"and {len(names) - _MOST} more"] if len(names) > _MOST else []
    return ", ".join([*names[:_MOST], *more])


def _number(reading: Reading) -> str:
    """Write a number and its interval, with more places where two would round an end to 0 or 1 that excludes it."""
    assert isinstance(reading, Estimate)
    ends = [one for one in (reading.value, reading.cluster_low, reading.cluster_high) if one is not None]
    value, low, high = (f"{one:.{4 if one % 1 and round(one, 2) % 1 == 0 else 2}f}" for one in ends)
    return f"{value} [{low}, {high}]"


def _not_found(found: Sequence[Finding]) -> str:
    """Name the biases that would have been found from the same size on together."""
    sizes: dict[str, list[str]] = {}
    for one in found:
        sizes.setdefault(f"{one.detectable:.2f}", []).append(one.label)
    told = [f"{_some(labels)}: one of {size} or more" for size, labels in sizes.items()]
    return f"{'; '.join(told)} would have been found in 4 of 5 cases" if told else ""


def _why(reading: Reading) -> str:
    return "no interval by task" if isinstance(reading, Estimate) else "withheld"
