"""A judge's datasheet, or its reliability report, as one HTML file that can be mailed, printed and archived."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jrh_mlflow.measures.reliability.worst import WorstItem
from jrh_mlflow.reports.comparison import ends
from jrh_mlflow.reports.html import data_uri, render, span
from jrh_mlflow.reports.markdown import SECTIONS
from jrh_mlflow.reports.numbers import threshold_text
from jrh_mlflow.results.datasheet import Datasheet
from jrh_mlflow.results.reliability import ReliabilityReport
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.items import BASELINE

_STEP = "/delta_"
_LADDER = "Quality ladder"
_THRESHOLD = "threshold_75"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One reading as the page shows it."""

    label: str
    value: str
    interval: str
    """95 %, tasks as clusters where that is known."""
    n: str
    left_out: str
    share: float | None = None
    """Length of the bar, for what lies between 0 and 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """Readings that belong together."""

    heading: str
    rows: tuple[Row, ...]
    folded: bool = False
    """Details behind the scores; paper shows them."""


def datasheet_page(
    sheet: Datasheet | ReliabilityReport,
    *,
    title: str,
    facts: Mapping[str, str],
    judge: Mapping[str, object],
    figures: Mapping[str, bytes] | None = None,
    worst: Sequence[WorstItem] = (),
    notes: Sequence[str] = (),
) -> str:
    """Render everything that was measured, and what was not with its reason.

    Args:
        sheet: The numbers.
        title: Of the page.
        facts: Suite, calls, cost and time, shown as they are.
        judge: Settings of the judge.
        figures: Caption to PNG.
        worst: Items that were judged furthest off.
        notes: What to know first.
    """
    return render(
        "datasheet.html",
        title=title,
        facts=facts,
        judge=judge,
        notes=notes,
        profile=sheet.profile,
        outcomes={name: count for name, count in sheet.outcomes.items() if count},
        n_calls=sum(sheet.outcomes.values()),
        sections=list(_sections(sheet)),
        missing=_missing(sheet),
        figures={caption: data_uri(png) for caption, png in (figures or {}).items()},
        worst=worst,
        max_excluded=sheet.max_excluded,
    )


def _sections(sheet: Datasheet | ReliabilityReport) -> Iterator[Section]:
    grouped = _by_kind(sheet.estimates) if isinstance(sheet, Datasheet) else _by_test(sheet)
    details = isinstance(sheet, ReliabilityReport)
    for place, (heading, readings) in enumerate(grouped.items()):
        rows = tuple(_row(label, one) for label, one in readings.items() if isinstance(one, Estimate))
        if rows:
            yield Section(heading=heading, rows=rows, folded=details and place > 0)


def _by_kind(estimates: Mapping[str, Reading]) -> dict[str, dict[str, Reading]]:
    """Sections of a datasheet; an axis that none of them names comes last and is never left out."""
    groups: dict[str, dict[str, Reading]] = {}
    left = dict(estimates)
    for heading, axes in SECTIONS.items():
        groups[heading] = {label: left.pop(axis) for axis, label in axes.items() if axis in left}
        if heading.startswith("Equal"):
            steps = [axis for axis in left if _STEP in axis or axis == _THRESHOLD]
            groups[_LADDER] = {_step_label(axis): left.pop(axis) for axis in steps}
    groups["Further axes"] = {_words(axis): one for axis, one in left.items()}
    return groups


def _by_test(report: ReliabilityReport) -> dict[str, dict[str, Reading]]:
    """Scores first, then each test with all its axes, then groups of items."""
    base = report.estimates.get(f"{BASELINE}/accuracy")
    scores: dict[str, Reading] = {"baseline (unperturbed)": base} if base is not None else {}
    groups = {"Scores": scores | {_words(test): one for test, one in report.scores.items()}}
    for axis, one in report.estimates.items():
        test, _, name = axis.partition("/")
        groups.setdefault(_words(test).capitalize(), {})[_words(name or test)] = one
    for category, axes in report.categories.items():
        groups[f"Category {category}"] = {_words(axis): one for axis, one in axes.items()}
    return groups


def _row(label: str, reading: Estimate) -> Row:
    left_out = ", ".join(f"{name} {count}" for name, count in reading.left_out.items() if count)
    is_share = reading.numerator is not None and abs(reading.numerator - reading.value * reading.n) < 1e-6
    unit = "call" if reading.unit == "curve" else reading.unit
    return Row(
        label=label,
        value=threshold_text(reading) if reading.unit == "curve" else f"{reading.value:.3f}",
        interval=span(ends(reading)),
        n=f"{reading.n:,} {unit}{'' if reading.n == 1 else 's'}",
        left_out=f"{reading.excluded:,} ({left_out})" if left_out else f"{reading.excluded:,}",
        share=reading.value if is_share else None,
    )


def _missing(sheet: Datasheet | ReliabilityReport) -> dict[str, list[str]]:
    """Reason to the axes that have no number because of it."""
    found: dict[str, list[str]] = {}
    for axis, reading in sheet.estimates.items():
        if isinstance(reading, NotEstimable):
            found.setdefault(reading.reason, []).append(axis)
    return found


def _step_label(axis: str) -> str:
    if axis == _THRESHOLD:
        return "threshold (75 % choose the better)"
    name, _, step = axis.partition(_STEP)
    return f"delta {step}: {_words(name)}"


def _words(name: str) -> str:
    return name.replace("_", " ").replace("/", ": ")
