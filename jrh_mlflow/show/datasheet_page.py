"""A judge's datasheet, or its reliability report, as one HTML file that can be mailed, printed and archived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from jrh_mlflow.decisions.decisions_view import DecisionSection, with_section
from jrh_mlflow.measures import axes
from jrh_mlflow.measures.axes import Axis, by_section, by_step, find, headline_axes
from jrh_mlflow.measures.behind import has_calls
from jrh_mlflow.measures.findings import detectable, finding_state
from jrh_mlflow.measures.reliability import ReliabilityReadings, WorstItem
from jrh_mlflow.perturb import expectation_of
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.items import BASELINE
from jrh_mlflow.scoring.metric import DEFAULT
from jrh_mlflow.scoring.readings import AGREEMENT
from jrh_mlflow.show.addresses import Addresses
from jrh_mlflow.show.findings import DETECTABLE_NOTE, finding_lines
from jrh_mlflow.show.glossary import terms_among
from jrh_mlflow.show.html import render
from jrh_mlflow.show.markdown import axes_by_reason
from jrh_mlflow.show.names import STEPS, axis_guide, axis_meaning, axis_name, statistic_name
from jrh_mlflow.show.numbers import (
    bounds_note,
    is_shown,
    missing_text,
    number_text,
    short_interval,
    source_ends,
    threshold_text,
)

if TYPE_CHECKING:
    from markupsafe import Markup

_FURTHER = "Further axes"
NO_ACCURACY = "Agreement with labels that a model wrote (model) or nobody confirmed (unverified): no accuracy"
_VERDICTS = {"found": "bias found", "none found": "none found", "not known": "not known"}


@dataclass(frozen=True, kw_only=True, slots=True)
class PageRow:
    """One reading as the page shows it."""

    label: str
    value: str
    left_out: str
    """Empty of what sums tests up: calls are left out of each of them."""
    key: str = ""
    """Under which it is typed in rules and logged; empty where a row is about no axis."""
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
    """What is counted, and which value is good."""
    good: str = ""
    bad: str = ""
    verdict: str = ""
    """Of a bias: found, none found, or not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixColumn:
    """A family over the steps of a ladder: its name, and what it means."""

    name: str
    meaning: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """Families side by side, a row for each step; None where a family has nothing at a step."""

    step: str
    """What a step is: `δ`, `level`."""
    columns: Sequence[MatrixColumn]
    rows: Mapping[str, Sequence[PageRow | None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class PageSection:
    """Readings that belong together."""

    heading: str
    rows: Sequence[PageRow]
    folded: bool = False
    """Details behind the scores; paper shows them."""
    matrix: Matrix | None = None
    leading: bool = False
    """Stands before the figures."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageLinks:
    """Where a served page leads: to the calls of its run, to MLflow and to other runs of the same suite."""

    addresses: Addresses
    run_id: str
    experiment_id: str
    others: Mapping[str, str] = field(default_factory=dict)
    """Other runs of the same suite: id to name."""

    def calls(self, key: str) -> str:
        """Return the address of the calls behind a reading; empty where there are none to show."""
        return self.addresses.calls(self.run_id, axis=key) if has_calls(key) else ""

    def outcome(self, outcome: str) -> str:
        """Return the address of the calls that ended so."""
        return self.addresses.calls(self.run_id, outcome=outcome)

    def item(self, item: str) -> str:
        """Return the address of the calls on an item, opened."""
        return self.addresses.calls(self.run_id, item=item, open=item)

    @property
    def comparisons(self) -> dict[str, str]:
        """Other judges of the same suite, each with the address of its comparison with this one."""
        return {name: self.addresses.compare([self.run_id, other]) for other, name in self.others.items()}


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
    tiles: Sequence[PageRow] = (),
    marks: Sequence[str] = (),
    figures: Mapping[str, Markup] | None = None,
    worst: Sequence[WorstItem] = (),
    notes: Sequence[str] = (),
    decisions: Sequence[DecisionSection] = (),
    links: PageLinks | None = None,
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
        tiles: The few readings that sum it up, as `headline_rows` or `report_headline` choose them.
        marks: Beside the title: simulated, recorded, truncated.
        figures: Caption to drawing (`figures.svg`).
        worst: Items that were judged furthest off.
        notes: What to know first.
        decisions: What was decided while it was measured; `with_section` adds what is decided later.
        links: Of a served page; a file has none.
    """
    missing = {reason: [axis_name(axis) for axis in axes] for (_, reason), axes in axes_by_reason(estimates).items()}
    shown = [section for section in sections if section.rows or section.matrix]
    found, noted = finding_lines(estimates), bounds_note(estimates.values())
    texts = [profile, *found, *found.values(), *notes, *noted, *outcomes, *(row.label for row in tiles), *_HEADS]
    texts += [text for section in shown for text in (section.heading, *(row.meaning for row in section.rows))]
    texts += [column.name for section in shown if section.matrix for column in section.matrix.columns]
    page = render(
        "datasheet.html",
        title=title,
        facts=facts,
        judge=judge,
        notes=notes,
        marks=marks,
        tiles=tiles,
        profile=profile,
        outcomes={name: count for name, count in outcomes.items() if count},
        n_calls=sum(outcomes.values()),
        sections=[*(one for one in shown if one.leading), *(one for one in shown if not one.leading)],
        missing=missing,
        figures=figures or {},
        worst=worst,
        max_excluded=max_excluded,
        bounds_note=noted,
        findings=found,
        detectable_note=DETECTABLE_NOTE,
        links=links,
        terms=terms_among(texts),
    )
    return reduce(with_section, decisions, page)


_HEADS = ("clustered interval", "detectable", "n", "left out", "withheld", "bounds", "δ")
"""Terms that every page has in its tables."""


def headline_rows(estimates: Mapping[str, Reading]) -> list[PageRow]:
    """Return the readings that sum a datasheet up, those without a number or bounds left out."""
    keys = [key for key in headline_axes() if key in estimates and is_shown(estimates[key])]
    return [axis_row(key, estimates[key]) for key in keys]


def report_headline(report: ReliabilityReadings) -> list[PageRow]:
    """Return what sums a reliability report up: the mean over tests, the baseline, and the score of each test."""
    mean = across_row(metric_keys.RELIABILITY_MEAN, report.summary, len(report.scores))
    base = f"{BASELINE}/{report.metric}"
    scores = {f"{test}/{score_axis(test, report.metric)}": one for test, one in report.scores.items()}
    shown = {base: report.estimates[base], **scores} if base in report.estimates else scores
    tests = [axis_row(key, one) for key, one in shown.items() if is_shown(one)]
    return [*([mean] if mean else []), *tests][:_MOST_TILES]


_MOST_TILES = 9


def across_row(key: str, summary: Mapping[str, float | None], n_scores: int) -> PageRow | None:
    """Spell what sums the scores of tests up (`reliability/mean`), with how many of them have a number.

    Returns:
        The row; None where the key is none of these, or there is no number.
    """
    name = key.removeprefix(metric_keys.RELIABILITY)
    value = summary.get(name) if name != key else None
    if value is None:
        return None
    return PageRow(
        label=axis_name(key),
        value=f"{value:.3f}",
        left_out="",
        key=key,
        interval=short_interval(summary.get(f"{name}_ci_low"), summary.get(f"{name}_ci_high")),
        n=f"{summary.get('n_tests') or 0:g} of {n_scores} tests",
        meaning=axis_meaning(key),
    )


def score_axis(test: str, metric: str) -> str:
    """Return the last part of the key that stands for a test."""
    statistic = expectation_of(test).statistic
    return metric if statistic == DEFAULT else statistic


def axis_sections(estimates: Mapping[str, Reading]) -> list[PageSection]:
    """Order the readings of a datasheet as declared; one without a declaration comes last and is never left out.

    Families over steps make a matrix, which stands before the figures.
    """
    declared = {key for key in estimates if find(key)}
    groups = {**by_section(declared), _FURTHER: [key for key in estimates if key not in declared]}
    sections = []
    for heading, keys in groups.items():
        readings = {key: estimates[key] for key in keys if is_shown(estimates[key])}
        matrix = step_matrix(readings)
        rows = [axis_row(key, one) for key, one in readings.items() if matrix is None or not _is_step(key)]
        sections.append(PageSection(heading=heading, rows=rows, matrix=matrix, leading=matrix is not None))
    return sections


def _is_step(key: str) -> bool:
    axis = find(key)
    return axis is not None and axis.by_step


def step_matrix(readings: Mapping[str, Reading]) -> Matrix | None:
    """Put families over steps side by side, a row for each step; None where there are none."""
    found: list[tuple[Axis, dict[float, Reading]]] = [
        (axis, own) for axis in axes.AXES if axis.by_step and (own := by_step(readings, axis.name))
    ]
    if not found:
        return None
    steps = sorted({step for _, own in found for step in own})
    step = found[0][0].step
    return Matrix(
        step=STEPS[step].partition(" ")[0],
        columns=[MatrixColumn(name=axis.label, meaning=axis.meaning) for axis, _ in found],
        rows={
            f"{STEPS[step]}{each:g}": [
                axis_row(f"{axis.name}/{axis.step}_{each:g}", own[each]) if each in own else None for axis, own in found
            ]
            for each in steps
        },
    )


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
    scored = "Scores" if metric == DEFAULT else f"Scores (labelled tests: {statistic_name(metric)})"
    keyed = {} if base is None else {f"{BASELINE}/{metric}": (BASELINE, base)}
    keyed |= {f"{test}/{score_axis(test, metric)}": (test, reading) for test, reading in scores.items()}
    first = [replace(axis_row(key, one), label=axis_name(test)) for key, (test, one) in keyed.items() if is_shown(one)]
    groups: dict[str, list[PageRow]] = {scored: first, NO_ACCURACY: []}
    for key, reading in estimates.items():
        test, _, name = key.rpartition("/")
        heading = axis_name(test or key)
        row = axis_row(key, reading)
        row = replace(row, label=statistic_name(name)) if test and not find(key) else row
        if name.startswith(AGREEMENT):
            heading, row = NO_ACCURACY, axis_row(key, reading)
        heading = "Confidence" if find(key) else heading[:1].upper() + heading[1:]
        groups.setdefault(heading, []).extend([row] if is_shown(reading) else [])
    for kind, named in (("Rubric", rubrics or {}), ("Category", categories)):
        for name, readings in named.items():
            groups[f"{kind} {name}"] = [
                replace(axis_row(f"{kind.lower()}/{name}/{axis}", one), label=statistic_name(axis))
                for axis, one in readings.items()
                if is_shown(one)
            ]
    return [
        PageSection(heading=heading, rows=rows, folded=heading not in (scored, NO_ACCURACY), leading=heading == scored)
        for heading, rows in groups.items()
    ]


def axis_row(key: str, reading: Reading) -> PageRow:
    """Spell a reading under the name of its key, with what it means and which values are good."""
    guide, state = axis_guide(key), finding_state(key, reading)
    return replace(
        page_row(axis_name(key), reading, key=key),
        meaning=axis_meaning(key),
        good=guide.good if guide else "",
        bad=guide.bad if guide else "",
        verdict=_VERDICTS[state] if state else "",
    )


def page_row(label: str, reading: Reading, *, key: str = "") -> PageRow:
    """Spell a reading under a label; the key of its axis says whether it is a bias."""
    lost = ", ".join(f"{name} {count}" for name, count in reading.left_out.items() if count)
    left_out = f"{reading.excluded:,} ({lost})" if lost else f"{reading.excluded:,}"
    if isinstance(reading, NotEstimable):
        bounds = reading.bounds
        bar = (bounds.low, bounds.high) if bounds and reading.statistic == "rate" else None
        return PageRow(label=label, value=missing_text(reading), left_out=left_out, key=key, bar=bar, bounds=True)
    unit = "call" if reading.unit == "curve" else reading.unit
    return PageRow(
        label=label,
        key=key,
        value=threshold_text(reading) if reading.unit == "curve" else f"{reading.value:.3f}",
        interval=_ends(reading),
        n=f"{reading.n:,} {unit}{'' if reading.n == 1 else 's'}",
        left_out=left_out,
        detectable=number_text(detectable(key, reading)),
        bar=(0.0, reading.value) if reading.statistic == "rate" and reading.numerator is not None else None,
    )


def _ends(reading: Estimate) -> str:
    """Write the interval; of a threshold or d′ an end beyond what was measured is a dash."""
    low, high = source_ends(reading)
    if (low is None) == (high is None):
        return short_interval(low, high)
    return f"[{number_text(low, places=2)}, {number_text(high, places=2)}]"
