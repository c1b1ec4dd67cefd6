"""A judge's datasheet, or its reliability report, as one HTML file that can be mailed, printed and archived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from jrh_mlflow.measures.axes import by_section, find
from jrh_mlflow.measures.findings import detectable
from jrh_mlflow.measures.reliability import WorstItem
from jrh_mlflow.reports.decisions import DecisionSection, with_section
from jrh_mlflow.reports.findings import DETECTABLE_NOTE, finding_lines
from jrh_mlflow.reports.html import render
from jrh_mlflow.reports.names import axis_meaning, axis_name
from jrh_mlflow.reports.numbers import (
    bounds_note,
    is_shown,
    missing_text,
    number_text,
    short_interval,
    source_ends,
    threshold_text,
)
from jrh_mlflow.schema.estimates import NotEstimable, Reading
from jrh_mlflow.schema.items import BASELINE
from jrh_mlflow.scoring.metric import DEFAULT
from jrh_mlflow.scoring.readings import AGREEMENT

if TYPE_CHECKING:
    from markupsafe import Markup

_FURTHER = "Further axes"
NO_ACCURACY = "Agreement with labels that a model wrote (model) or nobody confirmed (unverified): no accuracy"


@dataclass(frozen=True, kw_only=True, slots=True)
class PageRow:
    """One reading as the page shows it."""

    label: str
    value: str
    left_out: str
    interval: str = ""
    """95 %, tasks as clusters where that is known; bounds have none."""
    n: str = ""
    detectable: str = ""
    """What a run like this would find in four of five cases."""
    bar: tuple[float, float] | None = None
    """From where to where the bar runs, for what lies between 0 and 1."""
    bounds: bool = False
    """Whether the value is no number but the bounds of one that is withheld."""
    meaning: str = ""
    """Shown when pointed at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageSection:
    """Readings that belong together."""

    heading: str
    rows: Sequence[PageRow]
    folded: bool = False
    """Details behind the scores; paper shows them."""


def datasheet_page(
    sections: Sequence[PageSection],
    *,
    title: str,
    profile: str,
    estimates: Mapping[str, Reading],
    outcomes: Mapping[str, int],
    max_excluded: float,
    facts: Mapping[str, str],
    judge: Mapping[str, object],
    figures: Mapping[str, Markup] | None = None,
    worst: Sequence[WorstItem] = (),
    notes: Sequence[str] = (),
    decisions: Sequence[DecisionSection] = (),
) -> str:
    """Render everything that was measured, and what was not with its reason.

    Args:
        sections: The numbers, as `axis_sections` or `report_sections` orders them.
        title: Of the page.
        profile: The judge in one line.
        estimates: All readings: those without a number are named with their reason.
        outcomes: How the calls ended.
        max_excluded: Share of unusable calls past which a number was withheld.
        facts: Suite, calls, cost and time, shown as they are.
        judge: Settings of the judge.
        figures: Caption to drawing (`figures.svg`).
        worst: Items that were judged furthest off.
        notes: What to know first.
        decisions: What was decided while it was measured; `with_section` adds what is decided later.
    """
    missing: dict[str, list[str]] = {}
    for axis, reading in estimates.items():
        if isinstance(reading, NotEstimable):
            missing.setdefault(reading.reason, []).append(axis)
    page = render(
        "datasheet.html",
        title=title,
        facts=facts,
        judge=judge,
        notes=notes,
        profile=profile,
        outcomes={name: count for name, count in outcomes.items() if count},
        n_calls=sum(outcomes.values()),
        sections=[section for section in sections if section.rows],
        missing=missing,
        figures=figures or {},
        worst=worst,
        max_excluded=max_excluded,
        bounds_note=bounds_note(estimates.values()),
        findings=finding_lines(estimates),
        detectable_note=DETECTABLE_NOTE,
    )
    return reduce(with_section, decisions, page)


def axis_sections(estimates: Mapping[str, Reading]) -> list[PageSection]:
    """Order the readings of a datasheet as declared; one without a declaration comes last and is never left out."""
    declared = {key for key in estimates if find(key)}
    groups = {**by_section(declared), _FURTHER: [key for key in estimates if key not in declared]}
    return [
        PageSection(
            heading=heading,
            rows=[axis_row(key, reading) for key in keys if is_shown(reading := estimates[key])],
        )
        for heading, keys in groups.items()
    ]


def report_sections(
    estimates: Mapping[str, Reading],
    scores: Mapping[str, Reading],
    categories: Mapping[str, Mapping[str, Reading]],
    rubrics: Mapping[str, Mapping[str, Reading]] | None = None,
    metric: str = DEFAULT,
) -> list[PageSection]:
    """Order the readings of a reliability report: scores first, then each test with all its axes, then groups.

    Agreement with labels that are no ground truth stands apart from every test.
    """
    base = estimates.get(f"{BASELINE}/{metric}")
    first: dict[str, Reading] = {"baseline (unperturbed)": base} if base is not None else {}
    scored = "Scores" if metric == DEFAULT else f"Scores (labelled tests: {metric})"
    by_test = first | {_words(test): reading for test, reading in scores.items()}
    groups = {scored: [page_row(label, one) for label, one in by_test.items() if is_shown(one)], NO_ACCURACY: []}
    for axis, reading in estimates.items():
        test, _, name = axis.partition("/")
        heading, label = _words(test).capitalize(), _words(name or test)
        if name.startswith(AGREEMENT):
            heading, label = NO_ACCURACY, f"{_words(test)} ({name.removeprefix(AGREEMENT)})"
        groups.setdefault(heading, []).extend([page_row(label, reading, key=axis)] if is_shown(reading) else [])
    for kind, named in (("Rubric", rubrics or {}), ("Category", categories)):
        for name, readings in named.items():
            groups[f"{kind} {name}"] = [page_row(_words(axis), one) for axis, one in readings.items() if is_shown(one)]
    return [
        PageSection(heading=heading, rows=rows, folded=heading not in (scored, NO_ACCURACY))
        for heading, rows in groups.items()
    ]


def axis_row(key: str, reading: Reading) -> PageRow:
    """Spell a reading of a datasheet under the name of its axis, a step of a family with its step."""
    return replace(page_row(axis_name(key), reading, key=key), meaning=axis_meaning(key))


def page_row(label: str, reading: Reading, *, key: str = "") -> PageRow:
    """Spell a reading under a label; the key of its axis says whether it is a bias."""
    lost = ", ".join(f"{name} {count}" for name, count in reading.left_out.items() if count)
    left_out = f"{reading.excluded:,} ({lost})" if lost else f"{reading.excluded:,}"
    if isinstance(reading, NotEstimable):
        bounds = reading.bounds
        bar = (bounds.low, bounds.high) if bounds and reading.statistic == "rate" else None
        return PageRow(label=label, value=missing_text(reading), left_out=left_out, bar=bar, bounds=True)
    unit = "call" if reading.unit == "curve" else reading.unit
    return PageRow(
        label=label,
        value=threshold_text(reading) if reading.unit == "curve" else f"{reading.value:.3f}",
        interval=short_interval(*source_ends(reading)),
        n=f"{reading.n:,} {unit}{'' if reading.n == 1 else 's'}",
        left_out=left_out,
        detectable=number_text(detectable(key, reading)),
        bar=(0.0, reading.value) if reading.statistic == "rate" and reading.numerator is not None else None,
    )


def _words(name: str) -> str:
    return name.replace("_", " ").replace("/", ": ")
