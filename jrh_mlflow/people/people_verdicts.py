"""The verdict of an agreement in plain sentences, and the words that it shares with a corrected rate."""

from __future__ import annotations

import math
from dataclasses import replace

from jrh_mlflow.people.agreement import ACCURACY, CEILING, ON_CEILING, QUADRATIC, WINNING, AgreementReport
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.findings import Finding, State, Verdict
from jrh_mlflow.show.numbers import source_ends
from jrh_mlflow.show.plain_text import plain, plain_name
from jrh_mlflow.stats.agreement import FEWEST_ITEMS

_REPLACES = 0.5
"""Share of people whom a judge must be able to replace."""
LOOK = "jrh ui"


def per_cent(reading: Estimate, *, signed: bool = False) -> str:
    """Write a share with its ends: `83 % (between 78 % and 87 %)`; what is no share as a number out of 1."""
    low, high = source_ends(reading)
    if reading.statistic == "value" and not signed:
        ends = "" if low is None or high is None else f" (between {low:.2f} and {high:.2f})"
        return f"{reading.value:.2f} of 1{ends}"
    sign = "+" if signed else ""
    ends = "" if low is None or high is None else f" (between {100 * low:{sign}.0f} % and {100 * high:{sign}.0f} %)"
    return f"{100 * reading.value:{sign}.0f} %{ends}"


def why_missing(reading: Reading) -> str:
    """Say why there is no number, without a full stop."""
    return plain(reading.reason).rstrip(".") if isinstance(reading, NotEstimable) else "it has no interval"


def more_units(n: int, distance: float, half_width: float) -> int | None:
    """Return how many further units narrow an interval to a distance; None where no number is known to."""
    if distance < 0.005 or not math.isfinite(half_width):
        return None
    # An interval narrows with the root of what it stands on.
    return max(1, math.ceil(n * ((half_width / distance) ** 2 - 1)))


def half_width(reading: Estimate) -> float:
    """Return half of the length of an interval; infinite where an end is open."""
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
    lacking = "the labels are of one person" if len(report.people_names) == 1 else why_missing(ceiling)
    among = (
        f"One person gives the label of the others on {per_cent(ceiling)}"
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
        return ACCURACY, f"{judge} gives the label of {people} on {per_cent(accuracy)} of {accuracy.n:,} items."
    if isinstance(ordered, Estimate):
        scale = "where 1 is the same order and 0 is chance"
        return QUADRATIC, f"{judge} agrees with {people} at {per_cent(ordered)} on {ordered.n:,} items, {scale}."
    return ACCURACY, f"{judge} cannot be compared with {people}: {why_missing(accuracy)}."


def _beside_people(report: AgreementReport, among: str) -> tuple[Finding, str]:
    """Say whether the judge agrees with people as well as they do; where that is open, what would tell it."""
    beside, ceiling, winning = (report.estimates.get(axis) for axis in (ON_CEILING, CEILING, WINNING))
    assert ceiling is not None
    if not isinstance(beside, Estimate) or not isinstance(ceiling, Estimate):
        reading = ceiling if beside is None else beside
        text = f"Whether that is as well as people agree cannot be told. {among}."
        more = "Labels of two or more people on the same items would tell it."
        return Finding(axis=ON_CEILING, state="cannot tell", reading=reading, text=text), more
    text = f"{among}, the judge on {per_cent(beside)}"
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
    gap, width = abs(beside.value - ceiling.value), half_width(beside) + half_width(ceiling)
    items = more_units(beside.n, gap, width)
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
    return advice, LOOK if is_logged else ""


def sensitivity_line(what: str, value: float) -> str:
    """Say what a rate would be with a judge that finds .10 fewer of the failures than on the labelled items."""
    fewer = "finds 10 points fewer of the failures here than among the labelled items"
    return f"If the judge {fewer}, {what} is {100 * value:.0f} %."
