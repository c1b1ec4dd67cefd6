"""The datasheet: every declared axis measured, and its profile in one line.

Unlike a reliability report it needs no label: the better content, or the level of a content, is known by construction.
What the readings show is told by `measures.verdict`.

The profile says a word when the 95 % interval by task lies wholly on its side of the limit, whatever the number itself
is. Where it holds the limit, the profile says that this cannot be told, with the reading and the limit: more tasks
decide it.

| word | rule |
|---|---|
| vacuum-clean | dark current is below 0.10 |
| vacuum-leaky / vacuum-active | it is at least 0.10 / at least 0.50 |
| equivalence-respecting | raw false preference on delta 0 is below 0.10 |
| presentation-conflicted | it is at least 0.10, and at least 2/3 of it is positional |
| stable-preferring | it is at least 0.10, and at least 2/3 of it is stable across orders |
| one-sided | it is at least 0.10, and at least 1/2 of it comes from pairs that commit in one order only |
| mixed stable-positional | it is at least 0.10, and at least 1/4 of it is positional and at least 1/4 stable |
| misses by tie | at the smallest step at least 0.25 of the calls are ties; below it there is no word |
| resolves one step | at every step at least 75 % of the calls choose the better content |
| reaches 75 % by delta x | they do at every step from x on |
| reaches 75 % between delta x and y | they do from y on, and up to x they do not |
| never reaches 75 % | they do at no step |

The last four are said of the ladder and of the matched ladder. A rule over several steps is decided step by step, see
`stats.psychometrics.decided_steps`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from jrh_mlflow.measures.axes import (
    ACTIVE,
    AGREES,
    AXES,
    LEAKS,
    LEANS,
    MISSES,
    PREFERS,
    SEPARATES,
    TARGET,
    Axis,
    Basis,
    by_step,
    curve_of,
    declared,
    delta_key,
    gap_reading,
    is_no_tie,
    one_order,
    same_content,
    same_slot,
    stimuli_axes,
    thresholds,
)
from jrh_mlflow.measures.records import CallTable, PairTable, pair_table
from jrh_mlflow.measures.single_responses import GradeScale, ResponseTable, UnitScores
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.schema.items import LADDER, SINGLE_LADDERS, SINGLE_VACUUM
from jrh_mlflow.scoring.ledger import Resampling, Units
from jrh_mlflow.scoring.pointwise import left_out_counts
from jrh_mlflow.scoring.readings import constant_answer
from jrh_mlflow.stats import Array, Interval
from jrh_mlflow.stats.power import detectable_from_interval
from jrh_mlflow.stats.proportions import cluster_interval, collapse_replicates, wilson_share
from jrh_mlflow.stats.psychometrics import decided_steps
from jrh_mlflow.text import two_places

NO_PROFILE = "not enough measured for a profile"


def datasheet_axes(calls: CallTable, resampling: Resampling) -> dict[str, Reading]:
    """Measure every axis that is declared for pairs.

    Stimuli that every datasheet has are said to be missing where they are; optional ones are not, and a table of
    nothing but optional ones (natural pairs) is no datasheet that lacks the others.
    """
    groups = stimuli_axes()
    calls_of = {stimuli: stimuli.among(calls.condition) for stimuli in groups}
    whole = any(own.any() for stimuli, own in calls_of.items() if not stimuli.optional)
    estimates: dict[str, Reading] = {}
    for stimuli, axes in groups.items():
        if not calls_of[stimuli].any() and (stimuli.optional or not whole):
            continue
        own = calls.where(calls_of[stimuli])
        stepwise = [axis for axis in axes if axis.by_step]
        for delta in np.unique(own.delta) if stepwise else ():
            every = calls.where(calls.delta == delta)
            _add(estimates, stepwise, own.where(own.delta == delta), f"/{delta_key(delta)}", resampling, every)
        _add(estimates, [axis for axis in axes if not axis.by_step], own, "", resampling, calls)
    return estimates


def _add(
    estimates: dict[str, Reading],
    axes: Sequence[Axis],
    calls: CallTable,
    step: str,
    resampling: Resampling,
    every: CallTable,
) -> None:
    """Measure shares first, then what is derived from them; `step` is the end of their keys."""
    tables: dict[str, CallTable | PairTable] = {"call": calls}
    if any(axis.unit == "pair" for axis in axes):
        tables["pair"] = pair_table(calls)
    for axis in axes:
        key = f"{axis.name}{step}"
        if axis.hits and axis.largest:
            estimates[key] = axis.share(calls.where(axis.where(calls.condition, calls.delta)[key]), key)
        elif axis.hits or axis.signed:
            estimates[key] = axis.share(tables[axis.unit], key)
    readings = {key.removesuffix(step): reading for key, reading in estimates.items()}
    # Derived axes read the shares of the same step, so all shares are measured before the first of them.
    for axis in axes:
        if axis.derived:
            key = f"{axis.name}{step}"
            basis = Basis(
                stimuli=axis.stimuli,
                calls=calls,
                what=axis.what(key),
                every=every,
                found=readings,
                resampling=resampling,
            )
            reading = axis.derived(basis)
            if reading is not None:
                estimates[key] = readings[axis.name] = replace(reading, statistic=axis.statistic)


def response_axes(table: ResponseTable) -> dict[str, Reading]:
    """Measure every axis that is declared for single responses; of conditions that were not asked there is none."""
    estimates: dict[str, Reading] = {}
    units: dict[str, UnitScores] = {}
    for axis in AXES:
        if axis.counting and axis.stimuli.among(table.condition).any():
            counted = axis.counted(table)
            units |= counted
            estimates |= {key: axis.mean(table, key, scores) for key, scores in counted.items()}
        # A gap is declared after the two families that it is between, so both are measured by now.
        if axis.gap:
            estimates |= _gaps(axis, estimates, units, table.n_tasks)
    constant = _constant_answer(table)
    return estimates if constant is None else {**estimates, "constant_answer": constant}


def _constant_answer(table: ResponseTable) -> Reading | None:
    """Return how constant the answers are over what is right: a low answer for the lower levels, else a high one."""
    levelled = np.isin(table.condition, SINGLE_LADDERS)
    steps = table.step[levelled]
    middle = (steps.min() + steps.max()) / 2 if len(steps) else 0.0
    # What no level has, as padded contents, says nothing here; nothing to judge is right at the lowest answer.
    is_low = (levelled & (table.step < middle)) | np.isin(table.condition, SINGLE_VACUUM)
    right = np.where(is_low, "low", np.where(levelled & (table.step > middle), "high", "")).astype(object)
    answers = np.where(table.outcome == "abstain", "abstain", table.grade.astype(str)).astype(object)
    return constant_answer(response_units(table), answers, right, table.item)


def response_units(table: ResponseTable) -> Units:
    """Return single responses as a denominator, each call a unit."""
    return Units(
        what="calls on single responses",
        unit="call",
        usable=table.answered,
        clusters=table.task,
        n_codes=table.n_tasks,
        left_out=left_out_counts(table.outcome[~table.answered]),
        max_excluded=table.max_excluded,
        presentations=table.item,
        members=(np.arange(len(table.row)), table.row),
    )


def _gaps(axis: Axis, estimates: dict[str, Reading], units: dict[str, UnitScores], n_tasks: int) -> dict[str, Reading]:
    """Return the difference of two families at every step that both have."""
    assert axis.gap is not None
    ladder, matched = axis.gap
    gaps: dict[str, Reading] = {}
    for step, reading in by_step(estimates, matched).items():
        key, other = (f"{family}/{axis.step}_{step:g}" for family in (matched, ladder))
        if other in estimates:
            counts = [*_by_task(units[key], n_tasks), *_by_task(units[other], n_tasks)]
            gap = gap_reading(estimates[other], reading, counts)
            gaps[f"{axis.name}/{axis.step}_{step:g}"] = replace(gap, statistic=axis.statistic)
    return gaps


def _by_task(units: UnitScores, n_tasks: int) -> tuple[Array, Array]:
    """Return the sum of the scores and the number of units of each task."""
    # A unit without a score is in neither the sum nor the number of units.
    known = np.isfinite(units.score)
    sums = np.bincount(units.task[known], weights=units.score[known], minlength=n_tasks)
    return sums.astype(float), np.bincount(units.task[known], minlength=n_tasks).astype(float)


def detectable(reading: Reading) -> float | None:
    """Return the distance from a limit that a run like this finds in four of five cases; None without an interval."""
    if not isinstance(reading, Estimate) or reading.cluster_interval is None or reading.censored:
        return None
    # Some bootstrap intervals leave their value out.
    low, high = reading.cluster_interval
    low, high = min(low, reading.value), max(high, reading.value)
    return detectable_from_interval(reading.value, low, high) or None


_KINDS = {
    "presentation-conflicted": ("positional", 2 / 3),
    "stable-preferring": ("stable", 2 / 3),
    "one-sided": ("one-sided", 1 / 2),
}
"""Word to the kind of false preference, and how much of all it is at least."""
_MIXED = 1 / 4


class Share(NamedTuple):
    """A share with the ends of its interval by task; none with one task."""

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{two_places(self.value)} without an interval"
        return f"{two_places(self.value)} [{two_places(self.low)}, {two_places(self.high)}]"

    def side(self, limit: float) -> Literal["below", "above"] | None:
        """Return on which side of a limit the interval lies; None where it holds the limit, or there is none."""
        if self.high is not None and self.high < limit:
            return "below"
        return "above" if self.low is not None and self.low >= limit else None

    def is_below(self, other: Share) -> bool:
        """Whether the interval lies wholly below another one."""
        return self.high is not None and other.low is not None and self.high < other.low


class Words(NamedTuple):
    """What a profile says of one thing: a word, or that it cannot be told."""

    decided: str | None = None
    undecided: str | None = None


def profile_line(estimates: Mapping[str, Reading], kinds: Mapping[str, Share]) -> str:
    """Describe a judge in one line; axes that were not measured leave no word.

    Args:
        estimates: Axis to reading.
        kinds: What the false preference on delta 0 is made of, as `preference_kinds` returns it.
    """
    words = [vacuum_words(estimates.get("dark_current")), _delta_0(estimates, kinds)]
    words += [_threshold(axis, estimates) for axis in thresholds(estimates)]
    words += [_misses(estimates), _natural(estimates)]
    return line_of(words) or NO_PROFILE


def line_of(parts: Sequence[Words]) -> str:
    """Join what is decided, and after it what is not; empty where nothing is said."""
    decided = [", ".join(words.decided for words in parts if words.decided)]
    undecided = [words.undecided for words in parts if words.undecided]
    return "; ".join(part for part in decided + undecided if part)


def by_call(estimates: Mapping[str, Reading]) -> dict[str, Reading]:
    """Return readings as the paper reads them, with Wilson intervals over calls in place of those by task."""
    plain = {
        key: replace(reading, cluster_low=reading.ci_low, cluster_high=reading.ci_high)
        if isinstance(reading, Estimate)
        else reading
        for key, reading in estimates.items()
    }
    for axis, reading in thresholds(plain).items():
        curve = curve_of(declared(axis).stimuli, plain)
        ends = {
            step: (share.cluster_low, share.cluster_high) if isinstance(share, Estimate) else (None, None)
            for step, share in curve.items()
        }
        below, above = decided_steps(ends, target=TARGET)
        if isinstance(reading, Estimate):
            plain[axis] = replace(reading, not_reached_at=below, reached_by=above)
    return plain


def preference_kinds(calls: CallTable, *, by_call: bool = False) -> dict[str, Share]:
    """Return which part of the false preference on delta 0 is positional, stable and one-sided.

    RFP0 = SCS + PFP + OSC/2 + Other, so the parts are PFP / RFP0, SCS / RFP0 and OSC / 2 / RFP0: shares among the
    preferences, whose number differs from task to task. Empty where there is no preference. `by_call` takes Wilson
    intervals over the preferences.
    """
    pairs = pair_table(calls.where(declared("raw_false_preference").stimuli.among(calls.condition)))
    units = pairs.units("pairs of equal quality")
    # Every preference is counted as half a pair, because a pair is two calls.
    first, second, _ = seen = pairs.seen
    every = (is_no_tie(first, "").astype(float) + is_no_tie(second, "")) / 2
    parts = {"positional": same_slot(*seen), "stable": same_content(*seen), "one-sided": one_order(*seen) / 2}
    used, items = units.usable, pairs.calls.item[pairs.rows[:, 0]]
    if not every[used].any():
        return {}

    def by_task(mass: Array) -> Array:
        # Replicates of a pair count once, as their mean.
        return collapse_replicates(mass[used].astype(float), items[used], units.clusters[used])[0]

    def ends(part: Array) -> Interval | None:
        if by_call:
            return wilson_share(float(part[used].sum() / every[used].sum()), float(every[used].sum()))
        return cluster_interval(by_task(part), by_task(every))

    return {
        name: Share(part[used].sum() / every[used].sum(), *(ends(part) or (None, None))) for name, part in parts.items()
    }


def side_words(what: str, reading: Reading | None, limit: float, *, above: str | None, below: str | None) -> Words:
    """Return the word for the side of a limit on which a reading lies; None as a word says nothing."""
    share = share_of(reading)
    if share is None:
        return Words()
    side = share.side(limit)
    return _not_decided(what, share, limit) if side is None else Words(above if side == "above" else below)


def share_of(reading: Reading | None) -> Share | None:
    """Return a reading with its interval by task; None where there is no number."""
    return Share(reading.value, reading.cluster_low, reading.cluster_high) if isinstance(reading, Estimate) else None


def _not_decided(what: str, share: Share, limit: float) -> Words:
    return Words(undecided=f"{what} cannot be told: {share}, limit {limit:.2f}")


def vacuum_words(reading: Reading | None) -> Words:
    """Return the word for a dark current."""
    share = share_of(reading)
    # Over the lower limit for sure, it is active only where it is over the higher one for sure too.
    above = "vacuum-active" if share is not None and share.side(ACTIVE) == "above" else "vacuum-leaky"
    return side_words("dark current", reading, LEAKS, above=above, below="vacuum-clean")


def _delta_0(estimates: Mapping[str, Reading], kinds: Mapping[str, Share]) -> Words:
    raw = share_of(estimates.get("raw_false_preference"))
    if raw is None:
        return Words()
    side = raw.side(PREFERS)
    if side is None:
        return _not_decided("false preference", raw, PREFERS)
    return Words("equivalence-respecting") if side == "below" else _kind(kinds)


def _kind(kinds: Mapping[str, Share]) -> Words:
    """Say what the false preference is made of."""
    if not kinds:
        return Words()
    for word, (kind, limit) in _KINDS.items():
        if kinds[kind].side(limit) == "above":
            return Words(word)
    if all(kinds[kind].side(_MIXED) == "above" for kind in ("positional", "stable")):
        return Words("mixed stable-positional")
    parts = ", ".join(f"{kind} {share}" for kind, share in kinds.items())
    return Words(undecided=f"kind of false preference cannot be told: {parts} of it")


def _threshold(axis: str, estimates: Mapping[str, Reading]) -> Words:
    reading, stimuli = estimates[axis], declared(axis).stimuli
    if not isinstance(reading, Estimate):
        return Words()
    # `Matched ladder (same words, wrong facts)`: the ladder of the paper is the one that needs no name.
    where = "" if stimuli.name == LADDER else f" on the {stimuli.section.partition(' (')[0].lower()}"
    if reading.crossing_decided and reading.censored == "left":
        step = "one step" if reading.value == 1 else f"a step of {reading.value:g}"
        return Words(f"resolves {step}{where}")
    if reading.crossing_decided and reading.censored == "right":
        return Words(f"never reaches 75 %{where}")
    if reading.reached_by is not None:
        return Words(f"reaches 75 % {_between(reading.not_reached_at, reading.reached_by)}{where}")
    curve = curve_of(stimuli, estimates)
    steps = {step: share for step, share in curve.items() if isinstance(share, Estimate)}
    last = f": delta {max(steps):g} reads {share_of(steps[max(steps)])}" if steps else ""
    return Words(undecided=f"75 %{where} cannot be told{last}")


def _between(below: float | None, step: float) -> str:
    return f"by delta {step:g}" if below is None else f"between delta {below:g} and {step:g}"


def _misses(estimates: Mapping[str, Reading]) -> Words:
    smallest_step = next(iter(by_step(estimates, "miss_by_tie").values()), None)
    return side_words("misses by tie", smallest_step, MISSES, above="misses by tie", below=None)


def _natural(estimates: Mapping[str, Reading]) -> Words:
    accuracy, stable = (share_of(estimates.get(f"natural/{axis}")) for axis in ("accuracy", "stable_correct"))
    if accuracy is None or stable is None:
        return Words()
    return Words(f"natural pairs {accuracy} right, {stable} in both orders")


def response_profile(estimates: Mapping[str, Reading], scale: GradeScale) -> str:
    """Describe a judge of one response in one line; axes that were not measured leave no word.

    It says first what the answers are, then:

    | word | rule |
    |---|---|
    | vacuum-clean / vacuum-leaky / vacuum-active | dark current, as for pairs |
    | separates the levels / does not | separation at the largest distance is at least 0.75 / below it |
    | the same of the matched levels | the same on the matched ladder |
    | leans on words | it separates the levels, and the reading gap at the distance in the middle is at least 0.25 |
    | monotone / not monotone | monotonicity is at least 0.90 / below it |
    | repeats agree / repeats differ | repeat agreement is at least 0.90 / below it |
    """
    separated, matched = (_at(estimates, f"pointwise/{name}", 1.0) for name in ("separation", "matched_separation"))
    gap = _at(estimates, "pointwise/reading_gap", 0.5)
    words_of = partial(side_words, limit=SEPARATES)
    words = [
        vacuum_words(estimates.get("pointwise/dark_current")),
        words_of("separation", separated, above="separates the levels", below="does not separate the levels"),
        words_of(
            "matched separation", matched, above="separates matched levels", below="does not separate matched levels"
        ),
    ]
    if words[1].decided == "separates the levels":
        # Where no level is told from another there is nothing that words could have told.
        words.append(side_words("reading gap", gap, LEANS, above="leans on words", below=None))
    for name, word, other in (
        ("monotonicity", "monotone", "not monotone"),
        ("repeat_agreement", "repeats agree", "repeats differ"),
    ):
        what, reading = name.replace("_", " "), estimates.get(f"pointwise/{name}")
        words.append(side_words(what, reading, AGREES, above=word, below=other))
    return f"{scale}; {line_of(words) or NO_PROFILE}"


def _at(estimates: Mapping[str, Reading], name: str, place: float) -> Reading | None:
    """Return the reading of a family at a place between its smallest step (0) and its largest (1)."""
    readings = list(by_step(estimates, name).values())
    return readings[round(place * (len(readings) - 1))] if readings else None
