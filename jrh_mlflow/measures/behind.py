"""The calls behind a number of a datasheet or reliability report, and whether each of them counts.

Nothing is defined here: an axis is read off its declaration (`measures.axes`, `measures.single_responses`,
`scoring.readings`, `scoring.expectations`), and the units that it counts know their calls (`Units.members`).

| a call | its unit (call, pair, item or source) |
|---|---|
| `yes` | counts whole |
| `no` | does not count, or only in part |
| `left_out` | has no usable answer: of a pair or an item that lost a call all calls are left out |
| empty | stands behind a number that counts nothing (an error, a correlation, agreement), or behind several units |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal

import numpy as np
import pandas as pd

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.measures.axes import (
    AXES,
    CONFIDENCE,
    EXPECTED,
    REASONS,
    VARIATION,
    Axis,
    delta_key,
    find,
    repeated_pairs,
    slot_value,
    step_of,
)
from jrh_mlflow.measures.confidence import confidence_table, expected_cells, has_confidence
from jrh_mlflow.measures.datasheet import response_units
from jrh_mlflow.measures.reason_conflict import conflicting_calls, has_reasons
from jrh_mlflow.measures.records import CallTable, PairTable, call_table, has_steps, is_pointwise, normalise, pair_table
from jrh_mlflow.measures.reliability import ALL, GROUP_FIELDS, in_no_mean, pooled_calls, scored_by, unperturbed_calls
from jrh_mlflow.measures.single_responses import ResponseTable, UnitScores, response_table
from jrh_mlflow.measures.variation import ScoredCalls, scored_pairs, scored_points, scored_responses
from jrh_mlflow.measures.verdict import CONSTANT_ANSWER, DROP, NOISE_EXCESS
from jrh_mlflow.perturb.registry import expectation_of
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.items import LABEL_SOURCES, NATURAL, PROTOCOL
from jrh_mlflow.scoring.ledger import Units
from jrh_mlflow.scoring.metric import DEFAULT, is_metric
from jrh_mlflow.scoring.pointwise import Counted, PointTable, point_table
from jrh_mlflow.scoring.readings import (
    AGREEMENT,
    AGREEMENT_VALUES,
    CONFUSED,
    CONSISTENCY,
    MOVED,
    ORDINAL_VALUES,
    accuracy,
    agreement,
    answered,
    compared,
    confused,
    errors,
    near,
    noise_units,
    on_same_sources,
    passed_items,
    rated_items,
    unanimity,
)
from jrh_mlflow.stats import Array, Codes, Mask, Texts

YES, NO, LEFT_OUT = "yes", "no", "left_out"
_ACROSS = "reliability"
"""Mean, spread and ends over the tests' scores: `reliability/mean`."""
_NO_CALLS = ("cost", "tokens", "time", "calls", "attack")
"""What stands before the slash of numbers that no answer decides."""
_SHARES: Mapping[str, Callable[[PointTable, str], Counted | None]] = {
    "accuracy": accuracy,
    "pass": passed_items,
    "error_rate": errors,
    "within_one": near,
    "unanimity": unanimity,
    **{axis: partial(compared, axis=axis) for axis in (CONSISTENCY, MOVED)},
    **{axis: partial(confused, axis=axis) for axis in CONFUSED},
    **{f"{AGREEMENT}{source}": partial(agreement, source=source) for source in LABEL_SOURCES},
}
_VALUES = ("matthews", *ORDINAL_VALUES)
_EFFECTS = (NOISE_EXCESS.rstrip("/"), DROP.rstrip("/"), CONSTANT_ANSWER)


@dataclass(frozen=True, kw_only=True, slots=True)
class Behind:
    """The calls behind one number; arrays have one entry per record of the run."""

    key: str
    calls: Mask
    """Those behind it."""
    counts: Texts
    """Of each of them `yes`, `no`, `left_out`, or empty; see above."""
    unit: Literal["call", "pair", "item", "person", "curve"]
    unit_of: Codes
    """Unit of each of them; -1 for all others, and where a call is in several units."""
    n: int
    """Units that were counted."""
    excluded: int
    """Units that were left out."""
    numerator: float | None = None
    """What they sum to; None where nothing is counted."""

    @property
    def can_count(self) -> bool:
        """Whether its calls are told apart by whether they count."""
        return bool(np.isin(self.counts, (YES, NO)).any())


def has_calls(key: str) -> bool:
    """Whether a key is that of a number with calls behind it, so that a page may lead there.

    Example:
        >>> has_calls("dark_current"), has_calls("label_flip/accuracy"), has_calls("cost/usd")
        (True, True, False)
    """
    return bool(key) and key.partition("/")[0] not in _NO_CALLS


class CallFinder:
    """Finds the calls of one run behind its numbers; tables are made once, when they are first needed."""

    def __init__(
        self,
        calls: pd.DataFrame | Iterable[object],
        *,
        labels: Sequence[str] | None = None,
        groups: Mapping[str, str] | None = None,
        metric: str = DEFAULT,
        definitions: str = PROTOCOL,
        scores: Mapping[str, Reading] | None = None,
    ) -> None:
        """Check the records.

        Args:
            calls: Call records, as for `measure`; all that is found is told by their places.
            labels: What a pointwise judge may answer, as they were given to `measure`.
            groups: Item id to its group, for readings by category.
            metric: What stands for tests whose items carry the right answer.
            definitions: `protocol` or `paper`, as they were given to `measure`.
            scores: Of a reliability report: they say which tests are in its mean, and which are its ends.

        Raises:
            CallsError: when the records break a rule of the protocol.
        """
        self._frame = normalise(calls)
        self._has_steps, self._is_pointwise = has_steps(self._frame), is_pointwise(self._frame)
        self._labels, self._groups, self._metric = labels, dict(groups or {}), metric
        self._scores, self._definitions = scores or {}, definitions

    def behind(self, key: str) -> Behind:
        """Return the calls behind the number of a key.

        Raises:
            RecipeError: when these records have no such number.
        """
        axis = find(key)
        if key.startswith(EXPECTED) or (axis is not None and axis.stimuli is CONFIDENCE):
            calls = self._of_confidence(key)
        elif axis is not None and axis.stimuli is REASONS:
            calls = self._of_reasons(key)
        elif axis is not None and axis.stimuli is VARIATION:
            calls = self._told(self._scored().units)
        elif self._has_steps:
            calls = self._of_responses(key)
        elif not self._is_pointwise and key.partition("/")[0] == "category":
            calls = self._of_natural_group(key)
        else:
            calls = self._of_tests(key) if self._is_pointwise else self._of_pairs(key)
        if calls is None or not calls.calls.any():
            raise RecipeError(f"This run has no calls behind {key!r}.{suggest(key, [axis.main_key for axis in AXES])}")
        return replace(calls, key=key)

    @cached_property
    def _pairs(self) -> CallTable:
        return call_table(self._frame)

    @cached_property
    def _points(self) -> PointTable:
        return point_table(self._frame, labels=self._labels)

    @cached_property
    def _responses(self) -> ResponseTable:
        return response_table(self._frame, labels=self._labels)

    def _of_confidence(self, key: str) -> Behind | None:
        if not has_confidence(self._frame):
            return None
        calls = confidence_table(self._frame)
        if not key.startswith(EXPECTED):
            return self._told(calls.where(calls.target != "").units(key))
        cells = {name: among for name, among, _, _ in expected_cells(calls)}
        among = cells.get(key.removeprefix(EXPECTED))
        return None if among is None else self._told(calls.where(among).units(key))

    def _of_reasons(self, key: str) -> Behind | None:
        if not has_reasons(self._frame):
            return None
        calls, conflicts = conflicting_calls(self._frame, labels=self._labels)
        return self._told(calls.units(key), conflicts.astype(float))

    def _scored(self) -> ScoredCalls:
        if self._has_steps:
            return scored_responses(self._responses)
        points = self._is_pointwise
        return scored_points(self._points, unperturbed_calls(self._points)) if points else scored_pairs(self._pairs)

    def _of_natural_group(self, key: str) -> Behind | None:
        name, _, counted = key.partition("/")[2].rpartition("/")
        part = copy(self)
        # The same records, of which the table has those of the group.
        part._pairs = self._pairs.where(self._named_groups()[self._pairs.row] == name)
        return part._of_pairs(f"{NATURAL}/{counted}")

    def _of_pairs(self, key: str) -> Behind | None:
        axis = find(key)
        families = [other for other in AXES if other.by_step and other.name == key and (other.hits or other.derived)]
        if families and axis is None:
            steps = families[0].where(self._pairs.condition, self._pairs.delta)
            return self._joined([self._of_pairs(step) for step in steps])
        if axis is None or not (axis.hits or axis.signed or axis.derived):
            return None
        if axis.derived_from:
            ends = [f"/{delta_key(step_of(key))}"] if axis.by_step else [""]
            if axis.largest:
                large = np.unique(self._pairs.delta[axis.stimuli.among(self._pairs.condition)])[-axis.largest :]
                ends = [f"/{delta_key(step)}" for step in large]
            return self._joined([self._of_pairs(f"{name}{end}") for name in axis.derived_from for end in ends])
        own = axis.where(self._pairs.condition, self._pairs.delta).get(key)
        if own is None:
            return None
        calls = self._pairs.where(own)
        table = pair_table(calls) if axis.unit == "pair" else calls
        units = table.units(axis.what(key))
        if isinstance(table, PairTable) and axis.name.startswith("repeated_"):
            units = (repeated_pairs(table, axis.what(key), slot_value) or (units,))[0]
        if axis.hits is None:
            return self._told(units)
        among = None if axis.among is None else np.asarray(axis.among(*table.seen), bool)
        return self._told(units, np.asarray(axis.hits(*table.seen), float), among=among)

    def _of_responses(self, key: str) -> Behind | None:
        axis = find(key) or next((other for other in AXES if other.by_step and other.name == key), None)
        if axis is None:
            return None
        if axis.name == CONSTANT_ANSWER:
            return self._told(response_units(self._responses))
        if axis.gap:
            step = key.removeprefix(axis.name)
            return self._joined([self._of_responses(f"{family}{step}") for family in axis.gap])
        units = axis.counted(self._responses)
        if key == axis.name and axis.by_step:
            return self._joined([self._of_units(axis, scores) for scores in units.values()])
        return self._of_units(axis, units[key]) if key in units else None

    def _of_units(self, axis: Axis, units: UnitScores) -> Behind:
        table, counted = self._responses, np.isfinite(units.score)
        nothing = self._nothing()
        calls, counts, unit_of = nothing.calls, nothing.counts, nothing.unit_of
        calls[table.row[units.calls]] = True
        counts[table.row[units.calls & ~units.answered]] = LEFT_OUT
        if units.unit_of is not None:
            own = units.unit_of[units.calls]
            unit_of[table.row[units.calls]] = own
            marks = _told_apart(counted, units.score) if axis.statistic == "rate" else np.where(counted, "", LEFT_OUT)
            counts[table.row[units.calls]] = marks[own]
        n, excluded = int(counted.sum()), int(units.lost.sum())
        total = float(units.score[counted].sum())
        return replace(nothing, unit=units.unit, n=n, excluded=excluded, numerator=total)

    def _of_tests(self, key: str) -> Behind | None:
        calls, conditions = self._points, set(self._points.test)
        kind, _, rest = key.partition("/")
        if kind == _ACROSS and kind not in conditions:
            return self._joined([self._of_test(calls, test) for test in self._across(rest)])
        if kind in GROUP_FIELDS and kind not in conditions:
            name, _, axis = rest.rpartition("/")
            return self._of_part(pooled_calls(calls, self._grouped(kind) == name), name, axis)
        if kind in _EFFECTS and kind not in conditions:
            return self._of_effect(calls, kind, rest)
        return self._of_test(calls, key)

    def _of_effect(self, calls: PointTable, effect: str, test: str) -> Behind | None:
        """Return the calls that a test is compared with, and its own; of one answer to all, those on labelled items."""
        if effect == CONSTANT_ANSWER:
            return self._told(calls.where(calls.expected != "").units(effect))
        if effect == DROP.rstrip("/"):
            parts = on_same_sources(calls, test)
            return self._joined([self._counted(accuracy(part, test)) for part in parts])
        found = noise_units(calls, test, unperturbed_calls(calls))
        return None if isinstance(found, NotEstimable) else self._told(found[0])

    def _across(self, name: str) -> list[str]:
        """Return the tests behind their mean or spread; behind an end, those that have its value."""
        apart = in_no_mean(self._scores, self._metric)
        values = {
            test: reading.value
            for test, reading in self._scores.items()
            if isinstance(reading, Estimate) and test not in apart
        }
        end = {"min": min, "max": max}.get(name)
        return [test for test, value in values.items() if end is None or value == end(values.values())]

    def _grouped(self, kind: str) -> Texts:
        """Return the group of each call."""
        if kind != "category":
            return self._points.rubric if kind == "rubric" else self._points.position
        return self._named_groups()[self._points.row]

    def _named_groups(self) -> Texts:
        return np.array([self._groups.get(item, "") for item in self._frame["suite_item"]], dtype=object)

    def _of_test(self, calls: PointTable, key: str) -> Behind | None:
        name, _, axis = key.rpartition("/")
        if not name:
            # The one number that stands for a test.
            statistic = scored_by(key, self._definitions).statistic
            name, axis = key, self._metric if statistic == DEFAULT else statistic
        if name == ALL and ALL not in set(calls.test):
            return self._of_part(pooled_calls(calls), name, axis)
        expectation, own = expectation_of(name), calls.of(name)
        carries = expectation.labelled or bool((own.label != "").any()) or axis == "unanimity"
        if axis == expectation.statistic and not (carries and len(own.test)):
            counted = expectation.count(calls, name)
            return None if counted is None else self._counted(counted)
        further = expectation.count_further(own, name, axis)
        return self._of_part(own, name, axis) if further is None else self._counted(further)

    def _of_part(self, calls: PointTable, name: str, axis: str) -> Behind | None:
        if axis in _SHARES:
            counted = _SHARES[axis](calls, name)
            return None if counted is None else self._counted(counted)
        if axis in AGREEMENT_VALUES:
            return self._told(rated_items(calls, name, axis))
        if axis in _VALUES or is_metric(axis):
            return self._told(answered(calls, name))
        return self._told(calls.units(axis)) if axis in _further_axes(calls, name) else None

    def _counted(self, counted: Counted) -> Behind:
        return self._told(counted.units, counted.hits.astype(float))

    def _told(self, units: Units, score: Array | None = None, *, among: Mask | None = None) -> Behind:
        """Tell of each call how its unit counts; without a score that is only whether it is left out."""
        nothing, usable = self._nothing(), units.usable
        if units.members is None:
            return nothing
        unit, row = units.members
        # Of a share among some units the lost ones stay: whether they belong to it is not known.
        behind = np.ones(len(usable), dtype=bool) if among is None else ~usable | among
        marks = np.where(usable, "", LEFT_OUT).astype(object) if score is None else _told_apart(usable, score)
        unit, row = unit[behind[unit]], row[behind[unit]]
        calls, counts, unit_of = nothing.calls, nothing.counts, nothing.unit_of
        calls[row], counts[row], unit_of[row] = True, marks[unit], unit
        counted = usable & behind
        total = None if score is None else float(score[counted].sum())
        n, excluded = int(counted.sum()), int((~usable).sum())
        return replace(nothing, unit=units.unit, n=n, excluded=excluded, numerator=total)

    def _joined(self, parts: Iterable[Behind | None]) -> Behind | None:
        """Join the calls behind what a number is derived from."""
        known = [part for part in parts if part is not None]
        if len(known) < 2:
            return known[0] if known else None
        joined, first = self._nothing(), 0
        for part in known:
            joined.calls[part.calls] = True
            joined.counts[part.calls] = part.counts[part.calls]
            # Units of two parts are different ones, also where their codes are equal.
            joined.unit_of[part.unit_of >= 0] = first + part.unit_of[part.unit_of >= 0]
            first = int(joined.unit_of.max()) + 1
        n, excluded = sum(part.n for part in known), sum(part.excluded for part in known)
        return replace(joined, unit=known[0].unit, n=n, excluded=excluded)

    def _nothing(self) -> Behind:
        size = len(self._frame)
        return Behind(
            key="",
            calls=np.zeros(size, dtype=bool),
            counts=np.full(size, "", dtype=object),
            unit="call",
            unit_of=np.full(size, -1, dtype=np.intp),
            n=0,
            excluded=0,
        )


def _told_apart(usable: Mask, score: Array) -> Texts:
    """Say how each unit counts; a share of one is rounded where replicates are averaged."""
    whole = np.asarray(score) > 1 - 1e-9
    return np.where(usable, np.where(whole, YES, NO), LEFT_OUT).astype(object)


def _further_axes(calls: PointTable, name: str) -> set[str]:
    """Return what a test of somebody's own reads besides its share: its calls are known, not which of them count."""
    readings = expectation_of(name).axes(calls, name)
    return {key.removeprefix(f"{name}/") for key in readings}
