"""Verdicts of what people's labels tell: of an agreement and of a corrected rate, in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jrh_mlflow.people.agreement import ACCURACY, CEILING, ON_CEILING, QUADRATIC, WINNING, AgreementReport
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.findings import Finding, State, Verdict
from jrh_mlflow.show.numbers import source_ends
from jrh_mlflow.show.plain_text import plain, plain_name
from jrh_mlflow.stats.agreement import FEWEST_ITEMS

_REPLACES = 0.5
"""Share of people whom a judge must be able to replace."""
_LOOK = "jrh ui"
_DRAW = (
    "The range is wide because those items are not known to be drawn at random from these: draw some that way, or say "
    "that they were."
)


def _per_cent(reading: Estimate, *, signed: bool = False) -> str:
    """Write a share with its ends: `83 % (between 78 % and 87 %)`; what is no share as a number out of 1."""
    low, high = source_ends(reading)
    if reading.statistic == "value" and not signed:
        ends = "" if low is None or high is None else f" (between {low:.2f} and {high:.2f})"
        return f"{reading.value:.2f} of 1{ends}"
    sign = "+" if signed else ""
    ends = "" if low is None or high is None else f" (between {100 * low:{sign}.0f} % and {100 * high:{sign}.0f} %)"
    return f"{100 * reading.value:{sign}.0f} %{ends}"


def _reason(reading: Reading) -> str:
    return plain(reading.reason).rstrip(".") if isinstance(reading, NotEstimable) else "it has no interval"


def _more_units(n: int, distance: float, half_width: float) -> int | None:
    """Return how many further units narrow an interval to a distance; None where no number is known to."""
    if distance < 0.005 or not math.isfinite(half_width):
        return None
    # An interval narrows with the root of what it stands on.
    return max(1, math.ceil(n * ((half_width / distance) ** 2 - 1)))


def _half_width(reading: Estimate) -> float:
    low, high = source_ends(reading)
    return math.inf if low is None or high is None else (high - low) / 2


def agreement_verdict(report: AgreementReport, *, source: str, is_logged: bool) -> Verdict:
    """Say how well judge and people agree, whether that is as well as people do among themselves, and what to do.

    Args:
        report: The numbers.
        source: Where the labels come from, as it was typed.
        is_logged: Whether a run has the disagreements.
    """
    ceiling = report.estimates[CEILING]
    lacking = "the labels are of one person" if len(report.people_names) == 1 else _reason(ceiling)
    among = (
        f"One person gives the label of the others on {_per_cent(ceiling)}"
        if isinstance(ceiling, Estimate)
        else f"How well people agree with each other cannot be said: {lacking}"
    )
    if report.judge is None:
        missing = "Add the labels of a judge to compare it with them."
        state: State = "ok" if isinstance(ceiling, Estimate) else "cannot tell"
        finding = Finding(axis=CEILING, state=state, reading=ceiling, text=f"{among}.", advice=missing)
        return Verdict(sentences=(f"{among}.", missing), findings=(finding,))
    judge = plain_name(report.judge)
    main, lead = _agrees(report, judge)
    finding, more = _beside_people(report, among)
    advice, command = _next_step(finding, len(report.disagreements), source, is_logged=is_logged)
    finding = replace(finding, advice=advice, command=command)
    does = "puts them into a review queue" if "--queue" in command else "lists them"
    next_step = f"{advice} `{command}` {does}." if command else advice
    own = Finding(axis=main, state="ok", reading=report.estimates[main], text=lead)
    known = isinstance(report.estimates[main], Estimate)
    sentences = [lead, finding.text, more, next_step]
    return Verdict(sentences=tuple(filter(None, sentences)), findings=(*([own] if known else []), finding))


def _agrees(report: AgreementReport, judge: str) -> tuple[str, str]:
    """Return the axis of the first sentence, and the sentence."""
    accuracy, ordered = report.estimates[ACCURACY], report.estimates[QUADRATIC]
    people = plain_name(report.people_names[0]) if len(report.people_names) == 1 else "the people"
    if isinstance(accuracy, Estimate):
        return ACCURACY, f"{judge} gives the label of {people} on {_per_cent(accuracy)} of {accuracy.n:,} items."
    if isinstance(ordered, Estimate):
        scale = "where 1 is the same order and 0 is chance"
        return QUADRATIC, f"{judge} agrees with {people} at {_per_cent(ordered)} on {ordered.n:,} items, {scale}."
    return ACCURACY, f"{judge} cannot be compared with {people}: {_reason(accuracy)}."


def _beside_people(report: AgreementReport, among: str) -> tuple[Finding, str]:
    """Say whether the judge agrees with people as well as they do; where that is open, what would tell it."""
    beside, ceiling, winning = (report.estimates.get(axis) for axis in (ON_CEILING, CEILING, WINNING))
    assert ceiling is not None
    if not isinstance(beside, Estimate) or not isinstance(ceiling, Estimate):
        reading = ceiling if beside is None else beside
        text = f"Whether that is as well as people agree cannot be told. {among}."
        more = "Labels of two or more people on the same items would tell it."
        return Finding(axis=ON_CEILING, state="cannot tell", reading=reading, text=text), more
    text = f"{among}, the judge on {_per_cent(beside)}"
    (_, high), (least, _) = source_ends(beside), source_ends(ceiling)
    is_below = high is not None and least is not None and high < least
    replaces = isinstance(winning, Estimate) and winning.value >= _REPLACES
    if replaces and report.no_better is not None:
        return _guesses(report, beside, text)
    if replaces:
        less = "less well than people do, but " if is_below else ""
        margin = f"at the margin of {report.epsilon:g} that was allowed"
        said = f"{text}: {less}near enough to stand in for a person {margin}."
        return Finding(axis=ON_CEILING, state="ok", reading=beside, text=said), ""
    if is_below:
        return Finding(axis=ON_CEILING, state="problem", reading=beside, text=f"{text}: less well than people do."), ""
    # Two intervals lie apart where the distance is more than both half-widths.
    gap, width = abs(beside.value - ceiling.value), _half_width(beside) + _half_width(ceiling)
    items = _more_units(beside.n, gap, width)
    items = None if items is None else max(items, FEWEST_ITEMS - beside.n)
    more = (
        "They are too near for any number of labels that is known to show a difference."
        if items is None
        else f"Labels on some {items:,} further item{'' if items == 1 else 's'} would tell it."
    )
    said = f"{text}: whether it agrees as well as people do cannot be told."
    return Finding(axis=ON_CEILING, state="cannot tell", reading=beside, text=said), more


def _guesses(report: AgreementReport, beside: Estimate, text: str) -> tuple[Finding, str]:
    """Say why a judge that may be guessing stands in for nobody, however often it gives the label of the others."""
    answers = [str(level) for level in report.confusion.columns if report.confusion[level].any()]
    if len(answers) == 1:
        said = f"{text}: but it gives every item the label {plain_name(answers[0])}, and cannot stand in for a person."
        return Finding(axis=ON_CEILING, state="problem", reading=beside, text=said), ""
    said = f"{text}: but it may be guessing, and cannot stand in for a person."
    more = "Labels on further items, with more of the rarer label among them, would tell whether it guesses."
    return Finding(axis=ON_CEILING, state="cannot tell", reading=beside, text=said), more


def _next_step(finding: Finding, n_differ: int, source: str, *, is_logged: bool) -> tuple[str, str]:
    if not n_differ:
        return "", ""
    items = f"the {n_differ:,} items" if n_differ > 1 else "the one item"
    advice = f"Read {items} on which they differ: mend the question where people are right, the labels where not."
    if finding.state == "ok":
        advice = f"They differ on {items.removeprefix('the ')}."
    if source.startswith("traces:/") and " " not in source:
        return advice, f'jrh agree {source} --queue "second look"'
    return advice, _LOOK if is_logged else ""


def corrected_verdict(
    estimate: Reading,
    naive: Reading,
    *,
    what: str,
    n_labelled: int,
    versions: Sequence[str] = (),
    if_fewer_found: float | None = None,
    is_open: bool = False,
    of_scores: bool = False,
    is_logged: bool = False,
) -> Verdict:
    """Say the true rate, how far the judge alone is off, and how many labels would narrow it.

    Args:
        estimate: The corrected rate, or the difference of two versions.
        naive: What the judge alone says.
        what: `pass rate`, `win rate` or `mean score`.
        n_labelled: Items that people labelled.
        versions: Of a difference: the first and the second.
        if_fewer_found: The rate if the judge finds .10 fewer of the failures.
        is_open: Whether it is not known how the labelled items were drawn.
        of_scores: Whether people gave scores: numbers are theirs, not percentages.
        is_logged: Whether a run has it.
    """
    if isinstance(estimate, NotEstimable):
        text = f"The true {what} cannot be told: {_reason(estimate)}."
        more = "Have people label more items, drawn at random among all."
        finding = Finding(axis="corrected", state="cannot tell", reading=estimate, text=text, advice=more)
        return Verdict(sentences=(text, more), findings=(finding,))
    say = _Said(of_scores=of_scores)
    finding = _difference(estimate, what, versions, say) if versions else _rate(estimate, naive, what, say)
    more = _narrower(estimate, n_labelled, decides=bool(versions) and finding.state == "cannot tell")
    if is_open:
        more = f"{_DRAW} {more}"
    known = f"It is based on people's labels of {n_labelled:,} items. {more}"
    fewer = "" if if_fewer_found is None else sensitivity_line(f"the true {what}", if_fewer_found)
    look = f"`{_LOOK}` shows it beside the rate of the judge." if is_logged else ""
    finding = replace(finding, advice=more, command=_LOOK if is_logged else "")
    return Verdict(sentences=tuple(filter(None, [finding.text, known, fewer, look])), findings=(finding,))


def versions_verdict(
    pairs: Sequence[tuple[str, str, Reading, bool]], *, what: str, n_labelled: int, of_scores: bool
) -> Verdict:
    """Say which of several versions differ in their true rate.

    Args:
        pairs: Each with its versions, the second minus the first, and whether the two are told apart.
        what: As for `corrected_verdict`.
        n_labelled: Items that people labelled.
        of_scores: Whether people gave scores.
    """
    say, findings = _Said(of_scores=of_scores), []
    for a, b, reading, is_told in pairs:
        first, second = plain_name(a), plain_name(b)
        text = f"Whether {first} or {second} has the higher true {what} is not decided."
        if is_told and isinstance(reading, Estimate):
            better, worse = (second, first) if reading.value > 0 else (first, second)
            number = say.reading(reading, signed=True)
            text = f"{better} has a higher true {what} than {worse}: {second} minus {first} is {number}."
        findings.append(Finding(axis="corrected", state="ok" if is_told else "cannot tell", reading=reading, text=text))
    told = [finding.text for finding in findings if finding.state == "ok"]
    lead = told[:1] or [f"No two of the versions differ significantly in their true {what}."]
    count = f"Of {len(pairs)} pairs of versions {len(told)} differ significantly, all pairs counted together."
    return Verdict(
        sentences=(*lead, count, f"It is based on {n_labelled:,} labels of people."), findings=tuple(findings)
    )


def sensitivity_line(what: str, value: float) -> str:
    """Say what a rate would be with a judge that finds .10 fewer of the failures than on the labelled items."""
    fewer = "finds 10 points fewer of the failures here than among the labelled items"
    return f"If the judge {fewer}, {what} is {100 * value:.0f} %."


@dataclass(frozen=True, kw_only=True)
class _Said:
    """How amounts are written: as percentages, or as the scores that people gave."""

    of_scores: bool

    def __call__(self, value: float) -> str:
        return f"{value:.2f}" if self.of_scores else f"{100 * value:.0f} %"

    def apart(self, value: float) -> str:
        """Write a distance."""
        return f"{value:.2f}" if self.of_scores else f"{100 * value:.0f} points"

    def reading(self, reading: Estimate, *, signed: bool = False) -> str:
        """Write an estimate with its ends."""
        if not self.of_scores:
            return _per_cent(reading, signed=signed)
        sign, (low, high) = "+" if signed else "", source_ends(reading)
        ends = "" if low is None or high is None else f" (between {low:{sign}.2f} and {high:{sign}.2f})"
        return f"{reading.value:{sign}.2f}{ends}"


def _rate(estimate: Estimate, naive: Reading, what: str, say: _Said) -> Finding:
    text = f"The true {what} is {say.reading(estimate)}"
    low, high = source_ends(estimate)
    if not isinstance(naive, Estimate):
        return Finding(axis="corrected", state="cannot tell", reading=estimate, text=f"{text}.")
    alone, off = f"the judge alone says {say(naive.value)}", naive.value - estimate.value
    if low is not None and high is not None and not low <= naive.value <= high:
        side = "high" if off > 0 else "low"
        said = f"{text}; {alone}, which is {say.apart(abs(off))} too {side}."
        return Finding(axis="corrected", state="problem", reading=estimate, text=said)
    said = f"{text}; {alone}, which may well be right."
    return Finding(axis="corrected", state="cannot tell", reading=estimate, text=said)


def _difference(estimate: Estimate, what: str, versions: Sequence[str], say: _Said) -> Finding:
    first, second = map(plain_name, versions)
    low, high = source_ends(estimate)
    number = say.reading(estimate, signed=True)
    if low is not None and high is not None and (low > 0 or high < 0):
        better, worse = (second, first) if low > 0 else (first, second)
        said = f"{better} has the higher true {what}: {second} minus {first} is {number}; {worse} is behind."
        return Finding(axis="corrected", state="ok", reading=estimate, text=said)
    said = f"Whether {first} or {second} has the higher true {what} is not decided: the difference is {number}."
    return Finding(axis="corrected", state="cannot tell", reading=estimate, text=said)


def _narrower(estimate: Estimate, n_labelled: int, *, decides: bool) -> str:
    if decides:
        items = _more_units(n_labelled, abs(estimate.value), _half_width(estimate))
        if items is None:
            return "The two are too near for any number of labels that is known to show a difference."
        return f"Labels on some {items:,} further items would decide it."
    return f"Labels on some {3 * n_labelled:,} further items would halve that range."
