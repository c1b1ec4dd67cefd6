"""Agreement of a judge with people in sentences, tables, Markdown and one HTML file, with n and interval."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from jrh_mlflow.people.agreement import AgreementReport
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.show.cards import MOST, CardTable
from jrh_mlflow.show.html import render
from jrh_mlflow.show.names import axis_meaning, axis_name
from jrh_mlflow.show.numbers import cell_text, number_text, p_text, short_interval, source_ends
from jrh_mlflow.show.plain_text import code, line_text, plain, table
from jrh_mlflow.show.readings import PageRow, axes_by_reason, page_row, readings_frame
from jrh_mlflow.show.tables import frame_rows
from jrh_mlflow.tracking.runs import keys

if TYPE_CHECKING:
    from markupsafe import Markup

LINK = "link"
"""Column of disagreements that says where an item can be looked at."""
_PLAIN_ADDRESS = re.compile(r"https?://[A-Za-z0-9./:#?&=%~+-]+")

ACCURACY, CEILING, ON_CEILING = "agreement/accuracy", "agreement/human_ceiling", "agreement/judge_on_ceiling"
ALPHA, QUADRATIC = "agreement/human_alpha", "agreement/kappa_quadratic"
WINNING, ADVANTAGE = "alt_test/winning_rate", "alt_test/advantage_probability"

_AXES = (
    ACCURACY,
    "agreement/kappa",
    QUADRATIC,
    "agreement/ac1",
    "agreement/sensitivity",
    "agreement/specificity",
    ON_CEILING,
    CEILING,
    ALPHA,
    WINNING,
    ADVANTAGE,
)
"""In the order they are shown."""
_BY_GROUP = (ACCURACY, QUADRATIC, "agreement/sensitivity", "agreement/specificity", ON_CEILING, CEILING)
"""What a table of groups has room for; `groups` has all."""
_JUDGE = (ACCURACY, "agreement/kappa", QUADRATIC, "agreement/ac1", "agreement/sensitivity", "agreement/specificity")
_SECTIONS = {
    "The judge against the people's label": _JUDGE,
    "The human ceiling, and the judge beside it": (ON_CEILING, CEILING, ALPHA),
    "Alternative annotator test": (WINNING, ADVANTAGE),
}
_EPSILON = (
    "ε is by how much the judge may fit the other people less often than a person does and still win, since it costs "
    "less than one: 0.2 is usual where people are experts, 0.15 for trained annotators, 0.1 for crowd workers."
)
_MOST_ROWS = 200
"""Disagreements on the page; the table `disagreements` has all."""
_MOST_LISTED = 25
"""Disagreements in Markdown."""
PASSES = 0.5
"""Winning rate from which on the test is passed: the judge can replace at least half of the people."""
MOST_LEVELS = 20
"""Of a confusion matrix that can be read."""
_PEOPLE = ("person", "items", "agrees with the others")
_TESTED = ("judge on the same items", "ρ judge", "ρ person", "p adjusted", "judge may replace them")
_PEOPLE_HOW = (
    "Each person, and the judge on the same items, against the label of the other people. ρ: how often the judge fits "
    "the others at least as well as the person, and the person as well as the judge; p is of the test that the judge "
    "is worse by ε or more, adjusted by Benjamini and Yekutieli over people."
)
_HOW = (
    "Intervals are 95 % over items. Errors and missing labels are no label; items without a majority (or with a median "
    "between two levels) have no reference, are left out and counted."
)


Named = Callable[[str], str]
"""How a name of any origin is written where a text goes."""


def headline(report: AgreementReport, *, named: Named = plain) -> str:
    """Say in plain words how well judge and people agree, and people with each other."""
    ceiling = report.estimates[CEILING]
    if isinstance(ceiling, Estimate):
        people = f"people agree with each other on {_share(ceiling)}"
        if ceiling.statistic == "value":
            people = f"a person against the others has {_value(ceiling)}"
    else:
        people = f"how well people agree with each other is not known ({ceiling.reason})"
    if report.judge is None:
        return f"{people[0].upper()}{people[1:]}."
    return f"{named(report.judge)} {_agrees(report, named)}; {people}."


def _agrees(report: AgreementReport, named: Named) -> str:
    """Say how the judge agrees with the people's label: by equal labels, and by kappa where they have an order."""
    accuracy, kappa = report.estimates[ACCURACY], report.estimates[QUADRATIC]
    reference = _reference(report, named)
    if isinstance(accuracy, Estimate):
        order = f" (quadratic kappa {cell_text(kappa)})" if isinstance(kappa, Estimate) else ""
        return f"agrees with {reference} on {_share(accuracy, items=True)}{order}"
    if isinstance(kappa, Estimate):
        return f"has a quadratic kappa of {cell_text(kappa)} with {reference} on {kappa.n:,} items"
    return f"cannot be compared with {reference} ({accuracy.reason})"


def _reference(report: AgreementReport, named: Named) -> str:
    if len(report.people_names) == 1:
        return named(report.people_names[0])
    return f"the {'majority' if report.kind == 'nominal' else 'median'} of people"


def _share(reading: Estimate, *, items: bool = False) -> str:
    """Write a share in per cent: `83 % of 300 items [78, 87]`."""
    low, high = source_ends(reading)
    ends = "" if low is None or high is None else f" [{100 * low:.0f}, {100 * high:.0f}]"
    return f"{100 * reading.value:.0f} %{f' of {reading.n:,} items' if items else ''}{ends}"


def _value(reading: Estimate) -> str:
    return f"a quadratic kappa of {cell_text(reading)}" if reading.statistic == "value" else _share(reading)


def sentences(report: AgreementReport) -> list[str]:
    """Say where the judge stands beside the ceiling, and what the alternative annotator test says."""
    found, beside, ceiling = [], report.estimates.get(ON_CEILING), report.estimates[CEILING]
    if isinstance(beside, Estimate) and isinstance(ceiling, Estimate):
        found.append(
            "With one person left out at a time and the others as reference, the judge reaches "
            f"{_value(beside)} and the person {_value(ceiling)}."
        )
    return found if report.judge is None else [*found, *_test_sentences(report)]


def _test_sentences(report: AgreementReport) -> list[str]:
    winning, advantage = report.estimates[WINNING], report.estimates[ADVANTAGE]
    if not isinstance(winning, Estimate) or not isinstance(advantage, Estimate):
        reason = winning.reason if isinstance(winning, NotEstimable) else "no advantage probability"
        return [f"Alternative annotator test: no result ({reason})."]
    tested = report.people[report.people["rejected"].notna()]
    passed = "passes" if winning.value >= PASSES else "does not pass"
    return [
        f"The judge {passed} the alternative annotator test at ε = {report.epsilon:g}: it may replace "
        f"{int(tested['rejected'].sum())} of {len(tested)} people (winning rate ω = {winning.value:.2f}; {PASSES:g} or "
        f"more passes). On {_share(advantage)} of their items it fits the others at least as well as the person left "
        "out (ρ).",
        _EPSILON,
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedRow:
    """A row of a table, and where what it is about can be looked at."""

    cells: Sequence[str]
    link: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageTable:
    """A table of the page under its heading."""

    heading: str
    header: Sequence[str]
    rows: Sequence[LinkedRow]
    how: Sequence[str] = ()
    more: str = ""
    """What the table leaves out, and where it is."""
    labels: bool = False
    """Whether its cells are labels, which may be long, and not numbers."""


def agreement_tables(
    report: AgreementReport, *, disagreements: pd.DataFrame, calibration: pd.DataFrame | None
) -> dict[str, pd.DataFrame]:
    """Return what there is to tabulate, by name; what is missing is an empty cell, never 0."""
    groups = [readings_frame(readings).assign(group=name) for name, readings in report.groups.items()]
    tables = {
        "estimates": readings_frame(report.estimates),
        "people": report.people,
        "groups": pd.concat(groups) if groups else pd.DataFrame(),
        "confusion": report.confusion.rename_axis(columns=None).reset_index(),
        "disagreements": disagreements,
        "calibration": calibration,
    }
    return {name: frame for name, frame in tables.items() if frame is not None and not frame.empty}


def agreement_cells(report: AgreementReport) -> list[CardTable]:
    """Show what was read, then a row for each person."""
    rows = [[axis_name(axis), *_reading_cells(reading)] for axis, reading in _shown(report.estimates).items()]
    header, people = _people_rows(report)
    more = f"… and {len(people) - MOST} more people: `.people` has all." if len(people) > MOST else ""
    return [
        CardTable(header=["reading", "value [95 %]", "n", "left out"], rows=rows),
        CardTable(header=header, rows=people[:MOST], more=more),
    ]


def agreement_markdown(
    report: AgreementReport,
    *,
    title: str,
    notes: Sequence[str],
    disagreements: pd.DataFrame,
    judge: Mapping[str, Any],
) -> str:
    """Render the answer in words, then readings, people, groups, the confusion matrix and disagreements."""
    lines = [f"# {line_text(title)}", "", f"**{headline(report, named=code)}**", ""]
    lines += [line for text in sentences(report) for line in (text, "")]
    lines += [f"> {line_text(note)}\n" for note in notes]
    rows = [[axis_name(axis), *_reading_cells(reading)] for axis, reading in _shown(report.estimates).items()]
    lines += ["### Readings", "", *table(["reading", "value [95 %]", "n", "left out"], rows), "", _HOW, ""]
    for heading, (header, cells) in {"By person": _people_rows(report), "By group": _group_rows(report)}.items():
        named = [[code(row[0]), *row[1:]] for row in cells]
        lines += [f"### {heading}", "", *table(header, named), ""] if named else []
    lines += _confusion_lines(report.confusion)
    lines += _disagreement_lines(disagreements)
    known = [[code(str(key)), code(str(value))] for key, value in judge.items()]
    lines += ["### Judge", "", *table(["", ""], known), ""] if known else []
    missing = [[", ".join(names), line_text(reason)] for reason, names in _missing(report.estimates).items()]
    return "\n".join(
        [*lines, *(["### Without a number", "", *table(["readings", "reason"], missing), ""] if missing else [])]
    )


def agreement_page(
    report: AgreementReport,
    *,
    title: str,
    facts: Mapping[str, str],
    notes: Sequence[str],
    disagreements: pd.DataFrame,
    judge: Mapping[str, Any],
    figures: Mapping[str, Markup],
) -> str:
    """Render the agreement as one HTML file: no script, no request, every text escaped.

    Args:
        report: The numbers.
        title: Of the page.
        facts: Source, items and people, shown as they are.
        notes: What to know first.
        disagreements: With a column `link` where items can be looked at.
        judge: What identifies the judge.
        figures: Caption to drawing (`figures.svg`).
    """
    shown = _shown(report.estimates)
    header, people = _people_rows(report)
    by_group = _group_rows(report)
    return render(
        "agreement.html",
        title=title,
        facts=facts,
        notes=notes,
        headline=headline(report),
        sentences=sentences(report),
        sections={
            heading: [_page_row(axis, shown[axis]) for axis in axes if axis in shown]
            for heading, axes in _SECTIONS.items()
        },
        figures=figures,
        confusion=_confusion_cells(report.confusion),
        tables=[
            PageTable(
                heading="By person",
                header=header,
                rows=[LinkedRow(cells=row) for row in people],
                how=[_PEOPLE_HOW] if report.judge is not None else [],
            ),
            PageTable(heading="By group", header=by_group[0], rows=[LinkedRow(cells=row) for row in by_group[1]]),
            _disagreement_table(disagreements),
        ],
        missing=_missing(report.estimates),
        judge=judge,
    )


def _shown(estimates: Mapping[str, Reading]) -> dict[str, Estimate]:
    """Return the readings that have a number, in the order they are shown."""
    return {axis: one for axis in _AXES if isinstance(one := estimates.get(axis), Estimate)}


def _missing(estimates: Mapping[str, Reading]) -> dict[str, list[str]]:
    """Return the names of the readings without a number under the reason."""
    found = axes_by_reason(estimates).items()
    return {reason: [axis_name(axis) for axis in axes] for (_, reason), axes in found}


def _reading_cells(reading: Estimate) -> list[str]:
    return [cell_text(reading), _count(reading), f"{reading.excluded:,}"]


def _count(reading: Estimate) -> str:
    plural = "people" if reading.unit == "person" else f"{reading.unit}s"
    return f"{reading.n:,} {reading.unit if reading.n == 1 else plural}"


def _page_row(axis: str, reading: Estimate) -> PageRow:
    bar = (0.0, reading.value) if reading.statistic == "rate" else None
    return replace(page_row(axis_name(axis), reading), meaning=axis_meaning(axis), n=_count(reading), bar=bar)


def _people_rows(report: AgreementReport) -> tuple[list[str], list[list[str]]]:
    """Return header and a row for each person; without a judge only how they agree with the others."""
    rows = []
    for one in frame_rows(report.people):
        row = [one["person"], f"{one['n']:,}", _cell(one, "accuracy")]
        if report.judge is not None:
            replaced = "–" if one["rejected"] is None else "yes" if one["rejected"] else "no"
            row += [_cell(one, "judge_accuracy"), _cell(one, "rho_f"), number_text(one["rho_j"])]
            row += [p_text(one["p_adjusted"]), replaced]
        rows.append(row)
    return [*_PEOPLE, *(_TESTED if report.judge is not None else ())], rows


def _cell(row: Mapping[str, Any], name: str) -> str:
    """Write a number of a row with its interval."""
    ends = short_interval(row[f"{name}_low"], row[f"{name}_high"])
    return number_text(row[name]) if ends == "–" else f"{number_text(row[name])} {ends}"


def _group_rows(report: AgreementReport) -> tuple[list[str], list[list[str]]]:
    """Return header and a row for each group, with the axes that any of them has a number of."""
    axes = [axis for axis in _BY_GROUP if any(axis in _shown(readings) for readings in report.groups.values())]
    rows = [
        [name, *(cell_text(readings[axis]) for axis in axes), _items(readings)]
        for name, readings in report.groups.items()
    ]
    return ["group", *map(axis_name, axes), "items"], rows


def _items(readings: Mapping[str, Reading]) -> str:
    return f"{max(reading.n for reading in readings.values()):,}"


def _confusion_cells(confusion: pd.DataFrame) -> dict[str, Any] | None:
    """Return levels and rows with shares; None where there is nothing to show or more than can be read."""
    if not confusion.to_numpy().sum() or len(confusion) > MOST_LEVELS:
        return None
    rows = []
    for place, (level, counts) in enumerate(zip(confusion.index, confusion.to_numpy().tolist(), strict=True)):
        n = sum(counts)
        cells = [{"n": one, "share": one / n if n else None, "same": at == place} for at, one in enumerate(counts)]
        rows.append({"level": level, "cells": cells, "n": n})
    return {"levels": list(confusion.columns), "rows": rows}


def _confusion_lines(confusion: pd.DataFrame) -> list[str]:
    found = _confusion_cells(confusion)
    if found is None:
        return []
    header = ["people say", *(f"judge: {code(level)}" for level in found["levels"]), "items"]
    rows = [
        [code(row["level"]), *(_confusion_text(cell) for cell in row["cells"]), f"{row['n']:,}"]
        for row in found["rows"]
    ]
    return ["### Confusion matrix", "", *table(header, rows), ""]


def _confusion_text(cell: Mapping[str, Any]) -> str:
    return f"{cell['n']:,}" if cell["share"] is None else f"{cell['n']:,} ({100 * cell['share']:.0f} %)"


def _disagreement_lines(disagreements: pd.DataFrame) -> list[str]:
    listed = _disagreement_table(disagreements, most=_MOST_LISTED)
    if not listed.rows:
        return []
    rows = [
        [code(row.cells[0]), *map(code, row.cells[1:]), *([_address(row.link)] if row.link else [])]
        for row in listed.rows
    ]
    header = [*map(code, listed.header), *(["link"] if listed.rows[0].link else [])]
    return ["### Disagreements", "", *table(header, rows), "", *([listed.more, ""] if listed.more else [])]


def _address(link: str) -> str:
    """Write where an item can be looked at: a link, where nothing in the address is Markdown.

    A short one: MLflow gives a column of long addresses the room of what stands beside the description.
    """
    return f"[open]({link})" if _PLAIN_ADDRESS.fullmatch(link) else code(link)


def _disagreement_table(disagreements: pd.DataFrame, *, most: int = _MOST_ROWS) -> PageTable:
    names = [name for name in disagreements.columns if name != LINK]
    rows = [
        LinkedRow(cells=[_text(row[name]) for name in names], link=_text(row.get(LINK), missing=""))
        for row in frame_rows(disagreements.head(most))
    ]
    n = len(disagreements)
    more = f"The first {most:,} of {n:,}; the table `disagreements` has all." if n > most else ""
    how = "Items on which the judge and the people's label differ, the worst first."
    return PageTable(heading="Disagreements", header=names, rows=rows, how=[how], more=more, labels=True)


def _text(cell: object, *, missing: str = "–") -> str:
    return missing if cell is None else f"{cell:.3g}" if isinstance(cell, float) else str(cell)


def agreement_points(
    estimates: Mapping[str, Reading], groups: Mapping[str, Mapping[str, Reading]], *, counts: Mapping[str, int]
) -> list[keys.Point]:
    """Spell an agreement: `agreement/accuracy/rate` and so on, `category/<name>/…` of each group, and counts."""
    counted = keys.known_points({f"agreement/{name}": count for name, count in counts.items()})
    return keys.all_points({**estimates, **keys.keyed_groups("category", groups)}) + counted


def headline_agreement(points: Iterable[keys.Point], estimates: Mapping[str, Reading]) -> list[keys.Point]:
    """Return the points that MLflow gets: every axis with n and interval, and counts; groups are in the artifacts."""
    own = {f"{axis}/{name}" for axis in estimates for name in ("rate", "value", "ci_low", "ci_high", "n")}
    return [point for point in points if point.key in own or point.key.count("/") == 1]
