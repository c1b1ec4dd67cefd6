"""Findings: what the readings of a run show, each in one of four states, and the verdict made of them.

A finding is a reading beside a limit (`LIMITS`); other readings have no state. Its p is the smallest one-sided level at
which the interval by task lies wholly beyond the limit.

| state | rule |
|---|---|
| problem | p, adjusted by Holm for all findings of the run, is at most 0.05 |
| ok | the 95 % interval lies wholly on the good side of the limit |
| by design | the right answer was not offered: a judge without ties cannot call a tie |
| cannot tell | none of these; the text says what a run like this would find, and what would tell |

The ability to find the better content is ok where the threshold lies within the ladder; "counts words" is said only of
a judge that finds the better content where its words tell it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.resources import files
from typing import Literal, NamedTuple

from jrh_mlflow.measures.axes import by_step, declared, find
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.findings import Finding, State, Verdict
from jrh_mlflow.schema.items import PROTOCOL
from jrh_mlflow.scoring.ledger import LOSSES_LEAVE_OPEN, deciding_interval, has_own_intervals, without_losses
from jrh_mlflow.stats import Interval
from jrh_mlflow.stats.paired import holm
from jrh_mlflow.stats.power import detectable_from_interval
from jrh_mlflow.stats.proportions import level_beyond
from jrh_mlflow.text import two_places

ALPHA = 0.05
NOISE, DROPS = 0.05, 0.10
"""Limits of noise excess and drop."""
NOISE_EXCESS, DROP, CONSTANT_ANSWER, REASON_CONFLICT = "noise_excess/", "drop/", "constant_answer", "reason_conflict"
_MOST_NAMED = 3
"""Problems that a verdict spells out, and things that it cannot tell; the others are counted."""
_COIN = 0.5
_ASK_LOST_AGAIN = "Find out why calls gave no answer, and ask those again."


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeContext:
    """What a verdict must know of the judge besides its readings."""

    offers_tie: bool = True
    command: str = ""
    """Asks the same model about the same suite again. Empty: there is no such command, or it is not known."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Option to value, as typed, of what else makes the judge; those of `_USUAL` may be left out."""

    def whole(self, *, but: Collection[str] = ()) -> str:
        """Return the command with the options that make the judge, but for some; empty where there is no command."""
        kept = [f"{name} {own}" for name, own in self.options.items() if name not in but]
        return " ".join([self.command, *kept]) if self.command else ""

    def changed(self, change: str) -> str:
        """Return the command with another option; empty where it changes nothing, or loses or garbles a text."""
        option, _, value = change.partition(" ")
        is_text = option == "--rubric" and option in self.options
        if not (self.command and change) or is_text or self.options.get(option, _USUAL.get(option)) == value:
            return ""
        command = f"{self.whole(but=(option,))} {change}"
        # It is shown in one line between back quotes, where a text with these in it would be another one.
        is_shown_whole = command.isprintable() and not any(mark in command for mark in ("`", "\\", "  "))
        return command if is_shown_whole else ""


_USUAL = {"--criterion": "allowed", "--temperature": "0"}


Side = Literal["above", "below", "both"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """When a reading is a problem, and the words for it."""

    at: float
    side: Side
    """Where the problem lies; of `both` beyond `at` or beyond its negative."""
    problem: Callable[[Estimate], str]
    """Says what follows "It" in a sentence."""
    about: str
    """What is asked, for what cannot be told: `whether it prefers a place`."""
    fine: str
    """What follows "It" where there is no problem."""
    change: str = ""
    """Options that try the advice, behind the command that measures the judge again."""
    advice: str = ""
    """What to do; that of the axis where empty."""
    below: str = ""
    """What to do about a reading below 0, where that is something else."""
    by_design: str = ""
    """What a judge that is offered no tie cannot but do here; empty where ties have no part in it."""

    def p(self, reading: Estimate) -> float:
        """Return the smallest one-sided level at which the interval lies wholly beyond the limit."""
        sides = [side for side in ("above", "below") if self.side in (side, "both")]
        return min(self._p(reading, above=side == "above") for side in sides)

    def _p(self, reading: Estimate, *, above: bool) -> float:
        at = -self.at if self.side == "both" and not above else self.at
        if reading.at_level is not None:
            at_level = partial(deciding_interval, reading, is_own=has_own_intervals(reading))
            return level_beyond(at_level, at, above=above)
        # Read from a file, a number has its 95 % interval only: beyond it a side is wrong in at most half of 5 %.
        ends = deciding_interval(reading)
        beyond = ends is not None and (ends[0] > at if above else ends[1] < at)
        return ALPHA / 2 if beyond else 1.0

    def is_ok(self, reading: Estimate) -> bool:
        """Whether the 95 % interval lies wholly on the good side, whatever the lost calls could have been."""
        ends = deciding_interval(reading)
        return ends is not None and self._is_good(ends)

    def _is_good(self, ends: Interval) -> bool:
        return (self.side == "above" or ends[0] > (-self.at if self.side == "both" else self.at)) and (
            self.side == "below" or ends[1] < self.at
        )

    def is_open_by_losses(self, reading: Estimate) -> bool:
        """Whether the answers that came would decide, and those that are lost leave it open."""
        return bool(reading.excluded) and self._decides(without_losses(reading)) and not self._decides(reading)

    def _decides(self, reading: Estimate) -> bool:
        return self.is_ok(reading) or self.p(reading) <= ALPHA / 2

    def beyond(self, value: float) -> float:
        """Return how far beyond the limit a reading lies, 1 being as far as it can."""
        if self.side == "below":
            return (self.at - value) / self.at
        return ((abs(value) if self.side == "both" else value) - self.at) / (1 - self.at)


# --- words


def share_text(reading: Estimate) -> str:
    """Write a share with its interval by task, in percent: `52 % [41–63 %]`, `97 % [90 % to over 99 %]`."""
    ends = [_percent(end) for end in reading.cluster_interval or ()]
    between = " % to " if any(" " in end for end in ends) else "–"
    return f"{_percent(reading.value)} %" + (f" [{between.join(ends)} %]" if ends else "")


def _percent(share: float) -> str:
    # The digits of the tables, so that a number is the same in both.
    text = two_places(share)
    digits = text.lstrip("<>")
    side = {"<": "under ", ">": "over "}.get(text.removesuffix(digits), "")
    return f"{side}{100 * float(digits):.0f}"


def size_text(reading: Estimate) -> str:
    """Write the size of an effect without its direction: `0.30 [0.12, 0.45]`."""
    sign = -1 if reading.value < 0 else 1
    ends = reading.cluster_interval
    low, high = sorted(sign * end + 0.0 for end in ends) if ends else (0.0, 0.0)
    return two_places(abs(reading.value)) + (f" [{two_places(low)}, {two_places(high)}]" if ends else "")


def points_text(reading: Estimate) -> str:
    """Write a difference of shares in points: `35 points [20–48]`."""
    ends = reading.cluster_interval
    value = f"{100 * reading.value:.0f} points"
    return value + (f" [{100 * ends[0]:.0f} to {100 * ends[1]:.0f}]" if ends else "")


def _written(template: str, negative: str, reading: Estimate) -> str:
    """Fill in the number; `negative` is the template of a reading below 0."""
    return (negative if negative and reading.value <= 0 else template).format(
        share=share_text(reading),
        size=size_text(reading),
        lean=f"lean {size_text(reading)}; 0 is fair, 1 is always",
        points=points_text(reading),
        first="first" if reading.value > 0 else "second",
    )


_SECOND_OPINIONS = {"slot_lean/vacuum": "slot_lean", "positional_excess": "slot_lean"}
"""Findings that a verdict leaves out beside the one that says the same more plainly."""


_WORDS = json.loads(files("jrh_mlflow.measures").joinpath("findings.json").read_text(encoding="utf-8"))
_EFFECTS = {NOISE_EXCESS: NOISE, DROP: DROPS}
_WRITTEN = ("problem", "negative")


def _limits() -> Iterator[tuple[str, Limit]]:
    """Put the words of `findings.json` to the limits that axes declare."""
    for key, words in _WORDS["limits"].items():
        axis = find(key) or declared(f"{key}/delta_1")
        assert axis.guide is not None
        assert axis.guide.limit is not None
        side: Side = "both" if axis.direction is None else "above" if axis.direction == "lower" else "below"
        told = partial(_written, words["problem"], words.get("negative", ""))
        others = {name: _WORDS["shared"].get(text, text) for name, text in words.items() if name not in _WRITTEN}
        yield key, Limit(at=axis.guide.limit, side=side, problem=told, **others)


LIMITS: Mapping[str, Limit] = dict(_limits())
"""Key of a reading, or name of a family, to its limit; tests have theirs by `limit_of`."""


def _of_test(test: str) -> str:
    """Return what to do about a test, by the words in its name."""
    named = (entry["advice"] for entry in _WORDS["tests"] if any(word in test for word in entry["words"]))
    return str(next(named, _WORDS["any_test"]))


def limit_of(key: str) -> Limit | None:
    """Return the limit of a reading; None where a reading has no state."""
    for effect in _EFFECTS:
        if key.startswith(effect):
            return _test_limit(effect, key.removeprefix(effect))
    return LIMITS.get(key) or LIMITS.get(_family(key))


def _family(key: str) -> str:
    axis = find(key)
    return axis.name if axis and axis.by_step and axis.name.startswith("pointwise/") else ""


def _test_words(test: str) -> str:
    return f"test{'s' if ', ' in test else ''} {test.replace('_', ' ').replace('/', ': ')}"


def _test_limit(effect: str, test: str) -> Limit:
    words = {name: text.replace("{test}", _test_words(test)) for name, text in _WORDS["effects"][effect].items()}
    told = partial(_written, words.pop("problem"), "")
    return Limit(at=_EFFECTS[effect], side="above", problem=told, advice=_of_test(test), **words)


# --- states


class _Entry(NamedTuple):
    """A reading that has a limit."""

    key: str
    limit: Limit
    reading: Reading


def findings(estimates: Mapping[str, Reading], judged: JudgeContext | None = None) -> tuple[Finding, ...]:
    """Return what was looked for: problems first, the worst first; then what cannot be told, is ok, or is by design."""
    judged = judged or JudgeContext()
    entries = [
        _Entry(key, _fitting(key, limit, estimates), reading)
        for key in _looked_at(estimates)
        if (limit := limit_of(key)) is not None
        if isinstance(reading := estimates[key], Estimate) or reading.withheld or key.startswith(NOISE_EXCESS)
    ]
    tested = [entry for entry in entries if judged.offers_tie or not entry.limit.by_design]
    numbered = [entry for entry in tested if isinstance(entry.reading, Estimate)]
    p_values = [entry.limit.p(entry.reading) for entry in numbered if isinstance(entry.reading, Estimate)]
    adjusted = dict(zip((entry.key for entry in numbered), holm(p_values), strict=True)) if numbered else {}
    plain = dict(zip((entry.key for entry in numbered), p_values, strict=True))
    states = {entry.key: _state(entry, adjusted, estimates) for entry in tested}
    made = [
        _finding(entry, states.get(entry.key, "by design"), judged, plain.get(entry.key, 1.0), len(numbered))
        for entry in entries
    ]
    if states.get("reading") == "problem" and states.get("ability") != "ok":
        # Without the ability to find the better one by its words, nothing says that words are what it counts.
        why = "it is not shown to find the better answer where its words help"
        text, more = f"Cannot tell {LIMITS['reading'].about}: {why}.", "More tasks would tell."
        made = [
            replace(found, state="cannot tell", text=text, advice=more, command="")
            if found.axis == "reading"
            else found
            for found in made
        ]
    order: Sequence[State] = ("problem", "cannot tell", "ok", "by design")
    places = {key: place for place, key in enumerate(LIMITS)}
    return tuple(
        sorted(
            made,
            # Rounded, so that the last digit does not decide between two that lie as far beyond.
            key=lambda found: (order.index(found.state), -round(_rank(found), 2), places.get(found.axis, len(places))),
        )
    )


def _looked_at(estimates: Mapping[str, Reading]) -> list[str]:
    """Return the keys with a limit, of a family over distances the one that its guide is about."""
    keys = [key for key in estimates if not _family(key)]
    for family, place in (
        ("pointwise/separation", 1.0),
        ("pointwise/matched_separation", 1.0),
        ("pointwise/reading_gap", 0.5),
    ):
        steps = list(by_step(estimates, family))
        keys += [f"{family}/delta_{steps[round(place * (len(steps) - 1))]:g}"] if steps else []
    return keys


def _fitting(key: str, limit: Limit, estimates: Mapping[str, Reading]) -> Limit:
    """Let the words for a lacking ability say what it comes from."""
    return replace(limit, problem=lambda reading: _ability_words(reading, estimates)) if key == "ability" else limit


def _ability_words(reading: Estimate, estimates: Mapping[str, Reading]) -> str:
    ties = [step.value for step in list(by_step(estimates, "miss_by_tie").values())[-2:] if isinstance(step, Estimate)]
    if ties and min(ties) >= 0.95:
        return "calls every pair equal, even where one answer is plainly better"
    low, high = reading.cluster_interval or (reading.value, reading.value)
    share = f"({share_text(reading)}; a coin gets 50 %)"
    if high < _COIN:
        return f"picks the worse of two answers more often than the better one {share}"
    if low <= _COIN:
        return f"picks the better of two answers no more often than a coin {share}"
    return f"picks the better of two answers hardly more often than a coin {share}"


def _state(entry: _Entry, adjusted: Mapping[str, float], estimates: Mapping[str, Reading]) -> State:
    if not isinstance(entry.reading, Estimate):
        return "cannot tell"
    if adjusted[entry.key] <= ALPHA:
        return "problem"
    if entry.key == "ability":
        threshold = estimates.get("threshold_75")
        # An end beyond the steps is None on either side; it is the left one where the curve itself reaches 75 %.
        known = threshold if isinstance(threshold, Estimate) else None
        # A bootstrap knows the answers that came: with all lost ones against it the curve must reach 75 % too.
        whole = known is not None and (not known.excluded or known.bound_high is not None)
        sees = known is not None and ((whole and known.cluster_high is not None) or known.reached_by is not None)
        return "ok" if sees else "cannot tell"
    return "ok" if entry.limit.is_ok(entry.reading) else "cannot tell"


def _finding(entry: _Entry, state: State, judged: JudgeContext, p: float, n_looked_at: int) -> Finding:
    limit, reading, axis = entry.limit, entry.reading, find(entry.key)
    is_below = bool(limit.below) and isinstance(reading, Estimate) and reading.value < 0
    advice = (limit.below if is_below else limit.advice) or (axis.guide.advice if axis and axis.guide else "")
    # Options that belong to the advice for the one direction do not fit the other.
    change = limit.change if is_below or not limit.below else ""
    if state == "problem":
        assert isinstance(reading, Estimate)
        text = f"It {limit.problem(reading)}."
    elif state == "ok":
        text, advice, change = f"It {limit.fine}.", "", ""
    elif state == "by design":
        text, advice = f"It was offered no tie: {limit.by_design}.", ""
        change = "--criterion allowed"
    else:
        text, advice = _cannot_tell(entry, p, n_looked_at), _would_tell(entry)
        change = "--replicates 2" if entry.key.startswith(NOISE_EXCESS) and not isinstance(reading, Estimate) else ""
    command = judged.changed(change)
    return Finding(axis=entry.key, state=state, reading=reading, text=text, advice=advice, command=command)


def _cannot_tell(entry: _Entry, p: float, n_looked_at: int) -> str:
    limit, reading = entry.limit, entry.reading
    if not isinstance(reading, Estimate):
        return f"Cannot tell {limit.about}: {reading.reason}."
    number = size_or_share(reading)
    ends = reading.cluster_interval
    if ends is None:
        return f"Cannot tell {limit.about}: {number} has no interval, because there is one task."
    if p <= ALPHA / 2:
        return (
            f"Cannot tell {limit.about}: {number} is by itself beyond the limit of {limit.at:.2f}, "
            f"but one of {n_looked_at} looked at."
        )
    if limit.is_open_by_losses(reading):
        return f"Cannot tell {limit.about}: {number}, limit {limit.at:.2f}; {LOSSES_LEAVE_OPEN}."
    seen = _found_from(limit, reading, n_looked_at)
    return f"Cannot tell {limit.about}: {number}, limit {limit.at:.2f}{seen}."


def size_or_share(reading: Estimate) -> str:
    """Write a share in percent, any other number as it is."""
    if reading.statistic == "rate":
        return share_text(reading)
    ends = reading.cluster_interval
    return two_places(reading.value) + (f" [{two_places(ends[0])}, {two_places(ends[1])}]" if ends else "")


def _found_from(limit: Limit, reading: Estimate, n_looked_at: int) -> str:
    """Say from which value on a run like this finds the problem in four of five cases."""
    found = detectable_value(limit, reading, n_looked_at)
    return f"; a run like this finds it in 4 of 5 cases from {found:.2f} on" if found is not None else ""


def detectable_value(limit: Limit, reading: Estimate, n_looked_at: int) -> float | None:
    """Return the value that is found in four of five cases at Holm's first level; None where even the end is not."""
    ends = reading.at_level(1 - 2 * ALPHA / max(1, n_looked_at)) if reading.at_level else reading.cluster_interval
    if ends is None:
        return None
    low, high = min(ends[0], reading.value), max(ends[1], reading.value)
    level = 1 - 2 * ALPHA / max(1, n_looked_at) if reading.at_level else 1 - ALPHA
    distance = detectable_from_interval(reading.value, low, high, level=level)
    value = limit.at - distance if limit.side == "below" else limit.at + distance
    return value if 0 <= value <= 1 else None


def _would_tell(entry: _Entry) -> str:
    """Say what would tell."""
    reading = entry.reading
    if isinstance(reading, NotEstimable):
        return "Ask every item twice." if entry.key.startswith(NOISE_EXCESS) else _ASK_LOST_AGAIN
    if entry.limit.is_open_by_losses(reading):
        return _ASK_LOST_AGAIN
    of_tests = entry.key.startswith((NOISE_EXCESS, DROP)) or entry.key == CONSTANT_ANSWER
    units, further = "items" if of_tests else "tasks", tasks_to_tell(entry.limit, reading)
    if entry.key == "ability" or reading.cluster_interval is None:
        return f"More {units} would tell."
    if further is None:
        return f"More {units} would not tell soon: the number lies at its limit."
    return f"About {further:,} {units} like these would tell."


def tasks_to_tell(limit: Limit, reading: Estimate) -> int | None:
    """Return on about how many tasks the interval would no longer hold the limit; None where that is out of reach."""
    ends = reading.cluster_interval
    if ends is None or reading.n_clusters < 1:
        return None
    at = math.copysign(limit.at, reading.value) if limit.side == "both" else limit.at
    gap = reading.value - at
    arm = reading.value - ends[0] if gap > 0 else ends[1] - reading.value
    if abs(gap) * 10 < arm:
        return None
    return max(reading.n_clusters + 1, math.ceil(reading.n_clusters * (arm / abs(gap)) ** 2))


def _rank(finding: Finding) -> float:
    """Return how far beyond its limit a reading lies; a judge that gives one answer comes before all others."""
    if finding.axis == CONSTANT_ANSWER:
        return math.inf
    limit = limit_of(finding.axis)
    return limit.beyond(finding.reading.value) if limit and isinstance(finding.reading, Estimate) else -math.inf


# --- the verdict


def verdict(estimates: Mapping[str, Reading], judged: JudgeContext | None = None) -> Verdict:
    """Say in one to four sentences what is wrong, what the judge can do, what to do, and what cannot be told."""
    found = findings(estimates, judged)
    sentences = [_problems(found), _can_do(found, estimates), _to_do(found), _open(found)]
    told = tuple(sentence for sentence in sentences if sentence)
    return Verdict(sentences=told or ("Nothing was measured that a verdict can be made of.",), findings=found)


def _shown_problems(found: Sequence[Finding]) -> list[Finding]:
    """Return the problems that the first sentence is about: what the judge can do has a sentence of its own."""
    problems = {finding.axis: finding for finding in found if finding.state == "problem"}
    return [
        finding
        for axis, finding in problems.items()
        if axis not in ("ability", "reading") and _SECOND_OPINIONS.get(axis) not in problems
    ]


def _clause(finding: Finding) -> str:
    return finding.text.removeprefix("It ").removesuffix(".")


def _problems(found: Sequence[Finding]) -> str:
    problems = _shown_problems(found)
    if problems:
        first, *others = map(_clause, problems)
        more = f", and {len(others) - _MOST_NAMED + 1} more" if len(others) >= _MOST_NAMED else ""
        also = "; it also ".join(["", *others[: _MOST_NAMED - 1]])
        return f"It {first}{also}{more}."
    looked_at = [finding for finding in found if finding.state != "by design"]
    if not looked_at or any(finding.state == "problem" for finding in looked_at):
        return ""
    n, n_open = len(looked_at), sum(finding.state == "cannot tell" for finding in looked_at)
    which = "all" if n_open in (0, n) else f"{n_open} of"
    things = "the one thing looked at is" if n == 1 else f"{which} {n} things looked at are"
    return f"No problem is shown, but {things} still open." if n_open else f"No problem: {things} fine."


def _can_do(found: Sequence[Finding], estimates: Mapping[str, Reading]) -> str:
    """Say what the judge can do, and that it had to pick a side where no tie was offered."""
    by_axis = {finding.axis: finding for finding in found}
    ability, reading = by_axis.get("ability"), by_axis.get("reading")
    threshold, parts = estimates.get("threshold_75"), []
    if ability is not None and ability.state == "problem":
        parts.append(_clause(ability))
    elif ability is not None and ability.state == "ok" and isinstance(threshold, Estimate):
        steps = by_step(estimates, "target_sensitivity")
        seen, most = _number_word(threshold.value), _number_word(max(steps, default=5))
        parts.append(f"sees a difference from about {seen} of {most} requirements on")
    if reading is not None and reading.state == "problem":
        parts.append(f"but it {_clause(reading)}")
    said = f"It {', '.join(parts)}." if parts else ""
    return f"{said} {_had_to_pick(by_axis.get('dark_current'))}".strip()


def _had_to_pick(dark: Finding | None) -> str:
    """Say what a judge without ties could not but do."""
    if dark is None or dark.state != "by design" or not isinstance(dark.reading, Estimate):
        return ""
    return f"It picked a side in {share_text(dark.reading)} of the pairs with nothing to judge: it was offered no tie."


def _number_word(value: float) -> str:
    words = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    return words[max(1, min(len(words), math.ceil(value - 1e-9))) - 1]


def _to_do(found: Sequence[Finding]) -> str:
    problem = next((finding for finding in found if finding.state == "problem" and finding.advice), None)
    if problem is None:
        return ""
    return f"What to do: {problem.advice}" + (f" Try: {problem.command}" if problem.command else "")


def _open(found: Sequence[Finding]) -> str:
    """Say what cannot be told, of the first what would tell it."""
    unknown = _told_once([finding for finding in found if finding.state == "cannot tell"], found)
    if not unknown:
        return ""
    first = next((finding for finding in unknown if finding.advice), unknown[0])
    command = f" ({first.command})" if first.command else ""
    told = f"Cannot tell {_about([first])}. {first.advice}{command}".strip()
    others = _abouts([finding for finding in unknown if finding is not first])
    more = f" and {len(others) - _MOST_NAMED + 1} more" if len(others) >= _MOST_NAMED else ""
    return f"{told} Also open: {', '.join(others[: _MOST_NAMED - 1])}{more}." if others else told


def _told_once(unknown: Sequence[Finding], found: Sequence[Finding]) -> list[Finding]:
    """Leave out what a problem that was found says already: a second opinion, or the same test counted otherwise."""
    problems = {finding.axis for finding in found if finding.state == "problem"}
    tests = {_test_of(axis) for axis in problems} - {""}
    return [
        finding
        for finding in unknown
        if _SECOND_OPINIONS.get(finding.axis) not in problems and _test_of(finding.axis) not in tests
    ]


def _test_of(axis: str) -> str:
    return next((axis.removeprefix(effect) for effect in _EFFECTS if axis.startswith(effect)), "")


def _abouts(unknown: Sequence[Finding]) -> list[str]:
    """Return what is asked, the tests of one effect together."""
    groups: dict[str, list[Finding]] = {}
    for finding in unknown:
        groups.setdefault(finding.axis.removesuffix(_test_of(finding.axis)), []).append(finding)
    return [_about(group) for group in groups.values()]


def _about(group: Sequence[Finding]) -> str:
    axis, tests = group[0].axis, [_test_of(finding.axis) for finding in group]
    if tests[0]:
        more = f" and {len(tests) - _MOST_NAMED} more" if len(tests) > _MOST_NAMED else ""
        axis = axis.removesuffix(tests[0]) + ", ".join(tests[:_MOST_NAMED]) + more
    limit = limit_of(axis)
    return limit.about if limit else ""


@dataclass(frozen=True, kw_only=True)
class WithVerdict:
    """A sheet that says in words what its readings show: what a datasheet and a report have in common."""

    profile: str
    """The judge in one line: a descriptive sketch, never a grade."""
    outcomes: Mapping[str, int]
    """How the calls ended."""
    max_excluded: float
    """Share of unusable calls past which a number was withheld."""
    definitions: str = PROTOCOL
    """`protocol`, or `paper`: to the letter of the papers."""
    judged: JudgeContext = field(default_factory=JudgeContext, compare=False)
    """What the words must know of the judge."""
    said: Verdict | None = field(default=None, compare=False)
    """What was said when it was measured; None: it is still to be said."""
    estimates: Mapping[str, Reading]
    """All readings by their key."""

    @property
    def by_group(self) -> Mapping[str, Mapping[str, Mapping[str, Reading]]]:
        """What is read by group of items: kind (`category`, `rubric`, `position`) to group to axis to reading."""
        return {}

    @cached_property
    def verdict(self) -> Verdict:
        """What is wrong, what the judge can do, what to do and what cannot be told, in one to four sentences."""
        return self.said or verdict(self.estimates, self.judged)
