"""`Agreement`: how well judge and people agree; what people see of it and what MLflow is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.people.agreement import (
    AC1,
    ACCURACY,
    ADVANTAGE,
    ALPHA,
    CEILING,
    KAPPA,
    ON_CEILING,
    QUADRATIC,
    SENSITIVITY,
    SPECIFICITY,
    WINNING,
    AgreementReport,
)
from jrh_mlflow.people.labels import LabelTable, calibration_labels, fact_texts
from jrh_mlflow.people.people_verdicts import agreement_verdict
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.show.cards import ShownResult, brief_run
from jrh_mlflow.show.figures import canvas as drawing
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import cell_text, interval_text, number_text, p_text, reading_text, source_ends
from jrh_mlflow.show.page import Drawing, Facts, Named, Only, Page, Section
from jrh_mlflow.show.plain_text import plain
from jrh_mlflow.show.readings import (
    DETECTABLE_NOTE,
    MISSING,
    PageRow,
    axis_row,
    brief_readings,
    missing_rows,
    readings_frame,
    readings_table,
)
from jrh_mlflow.show.tables import Cell, Column, FilledTable, Medium, Table, frame_rows, reading_cell
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import RunContent, shown_content

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINK = "link"
"""Column of disagreements that says where an item can be looked at."""

_BY_GROUP = (ACCURACY, QUADRATIC, SENSITIVITY, SPECIFICITY, ON_CEILING, CEILING)
"""What a table of groups has room for; `groups` has all."""
_PARTS = {
    "The judge against the people's label": (ACCURACY, KAPPA, QUADRATIC, AC1, SENSITIVITY, SPECIFICITY),
    "The human ceiling, and the judge beside it": (ON_CEILING, CEILING, ALPHA),
    "Alternative annotator test": (WINNING, ADVANTAGE),
}
"""What the readings are about, in the order they are shown."""
_EPSILON = (
    "ε is by how much the judge may fit the other people less often than a person does and still win, since it costs "
    "less than one: 0.2 is usual where people are experts, 0.15 for trained annotators, 0.1 for crowd workers."
)
_MOST_LISTED: dict[Medium, int] = {"html": 200, "markdown": 25}
"""Disagreements that a medium has room for; the table `disagreements` has all."""
PASSES = 0.5
"""Winning rate from which on the test is passed: the judge can replace at least half of the people."""
MOST_LEVELS = 20
"""Of a confusion matrix that can be read."""
_PEOPLE_HOW = (
    "Each person, and the judge on the same items, against the label of the other people. ρ: how often the judge fits "
    "the others at least as well as the person, and the person as well as the judge; p is of the test that the judge "
    "is worse by ε or more, adjusted by Benjamini and Yekutieli over people."
)
_DISAGREEMENTS_HOW = "Items on which the judge and the people's label differ, the worst first."
_CONFUSION_HOW = (
    "Rows are the label of the people, columns that of the judge; each cell counts items, with the share of its row."
)
_HOW = (
    "Errors and missing labels are no label; items without a majority (or with a median "
    "between two levels) have no reference, are left out and counted."
)
_MOST_DRAWN = 12
"""Levels of a heatmap that can be read; the table has more."""
_MOST_PEOPLE = 20
"""Of the figure."""
_LONGEST_PARAM = 500
_CAPTIONS = {
    "ceiling.png": "Judge and people, each against the label of the other people, with 95 % intervals over items",
    "confusion.png": "Labels of the people (rows) and of the judge (columns)",
}
_ROW = 0.62
"""Inches of a row of the figure."""
_OF_JUDGE, _OF_PEOPLE = 0, 1
"""Places in the palette."""
_DETAILS: tuple[Medium, ...] = ("html", "markdown")
"""Where there is room for everything."""

Ends = tuple[float, float | None, float | None]


def agreement_headline(report: AgreementReport, named: Named = plain) -> str:
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


def agreement_sentences(report: AgreementReport) -> list[str]:
    """Say where the judge stands beside the ceiling, and what the alternative annotator test says."""
    lines, beside, ceiling = [], report.estimates.get(ON_CEILING), report.estimates[CEILING]
    if isinstance(beside, Estimate) and isinstance(ceiling, Estimate):
        lines.append(
            f"Against the label of the others, one person at a time, the judge reaches {_value(beside)} and the "
            f"person {_value(ceiling)}."
        )
    return lines if report.judge is None else [*lines, *_test_sentences(report)]


def _test_sentences(report: AgreementReport) -> list[str]:
    winning, advantage = report.estimates[WINNING], report.estimates[ADVANTAGE]
    if not isinstance(winning, Estimate) or not isinstance(advantage, Estimate):
        reason = winning.reason if isinstance(winning, NotEstimable) else "no advantage probability"
        return [f"Alternative annotator test: no result ({reason})."]
    tested = report.people[report.people["rejected"].notna()]
    passed = "passes" if winning.value >= PASSES else "does not pass"
    n_replaced = int(tested["rejected"].sum())
    replaced = f"it may replace {n_replaced} of {len(tested)} people"
    if n_replaced and report.no_better is not None:
        replaced = "that counts for nothing, since the judge may be no better than chance"
    return [
        f"The judge {passed} the alternative annotator test at ε = {report.epsilon:g}: {replaced} (winning rate ω = "
        f"{winning.value:.2f}; {PASSES:g} or more passes). On {_share(advantage)} of their items it fits the others at "
        "least as well as the person does (ρ).",
        _EPSILON,
    ]


def _how(report: AgreementReport) -> str:
    over = "items" if report.n_clusters is None else f"{report.n_clusters:,} clusters"
    return f"Intervals are 95 % over {over}. {_HOW}"


READINGS: Table[PageRow] = readings_table("item", first="measure")


def _readings(report: AgreementReport) -> FilledTable[PageRow]:
    """Show the readings that have a number."""
    known = {axis: reading for axis, reading in report.estimates.items() if isinstance(reading, Estimate)}
    parts = {axis: part for part, axes in _PARTS.items() for axis in axes if axis in known}
    return READINGS((_reading_row(axis, known[axis]) for axis in parts), style="axes", group=lambda row: parts[row.key])


def _reading_row(axis: str, reading: Estimate) -> PageRow:
    # A mean of shares has no numerator, but lies between 0 and 1 as well.
    bar = (0.0, reading.value) if reading.statistic == "rate" else None
    return replace(axis_row(axis, reading), bar=bar)


PersonRow = Mapping[str, Any]
"""A row of the report's table of people."""


def _with_ends(name: str, row: PersonRow) -> str:
    """Write a number of a row with its interval."""
    ends = interval_text(row[f"{name}_low"], row[f"{name}_high"])
    return number_text(row[name]) if ends == "–" else f"{number_text(row[name])} {ends}"


PEOPLE: Table[PersonRow] = Table.of(
    Column("person", lambda row: row["person"], as_code=True),
    Column("items", lambda row: f"{row['n']:,}"),
    Column("agrees with the others", partial(_with_ends, "accuracy")),
)
TESTED_PEOPLE: Table[PersonRow] = Table.of(
    *PEOPLE.columns,
    Column("judge on the same items", partial(_with_ends, "judge_accuracy")),
    Column("ρ judge", partial(_with_ends, "rho_f")),
    Column("ρ person", lambda row: number_text(row["rho_j"])),
    Column("p adjusted", lambda row: p_text(row["p_adjusted"])),
    Column(
        "judge may replace them",
        lambda row: "–" if row["rejected"] is None else "yes" if row["rejected"] else "no",
    ),
)
"""With the alternative annotator test of each person."""


def _people(report: AgreementReport) -> FilledTable[PersonRow]:
    """Show each person; without a judge only how they agree with the others."""
    rows = frame_rows(report.people)
    if report.no_better is not None:
        rows = [{**row, "rejected": row["rejected"] and False} for row in rows]
    return (PEOPLE if report.judge is None else TESTED_PEOPLE)(rows)


def _groups(report: AgreementReport) -> FilledTable[str]:
    """Show each group on the axes that any of them has a number of."""
    groups = report.groups
    axes = [axis for axis in _BY_GROUP if any(isinstance(own[axis], Estimate) for own in groups.values())]

    def axis_column(axis: str) -> Column[str]:
        return Column(axis_name(axis), lambda name: reading_cell(groups[name][axis]))

    table: Table[str] = Table.of(
        Column("group", lambda name: name, as_code=True),
        *map(axis_column, axes),
        # Each axis stands on items of its own; the largest n is the nearest to the size of the group.
        Column("items", lambda name: f"{max(reading.n for reading in groups[name].values()):,}"),
    )
    return table(groups)


def _confusion(confusion: pd.DataFrame) -> FilledTable[Any]:
    """Show how many items have each pair of labels; no rows where there are none, or more than can be read."""
    levels, counts = list(confusion.index), confusion.to_numpy()

    def judge_column(at: int) -> Column[int]:
        return Column(f"judge: {confusion.columns[at]}", lambda row: _confusion_cell(counts[row], at, same=at == row))

    table: Table[int] = Table.of(
        Column("people say", lambda row: levels[row], as_code=True),
        *map(judge_column, range(len(levels))),
        Column("items", lambda row: f"{counts[row].sum():,}"),
    )
    readable = counts.sum() and len(levels) <= MOST_LEVELS
    return table(range(len(levels)) if readable else (), style="matrix")


def _confusion_cell(counts: Any, at: int, *, same: bool) -> Cell:
    n, total = counts[at], counts.sum()
    return Cell(f"{n:,} ({100 * n / total:.0f} %)" if total else f"{n:,}", tone="same" if same else "")


def _disagreements(frame: pd.DataFrame, *, most: int) -> FilledTable[Any]:
    """List items with every label; the item leads to where it can be looked at."""
    names = [name for name in frame.columns if name not in ("item", LINK)]
    table: Table[Mapping[str, Any]] = Table.of(
        Column("item", _item_cell, as_code=True, link=_page_address),
        *(Column(name, partial(_label_text, name), as_code=True, words=True) for name in names),
    )
    more = f"The first {most:,} of {len(frame):,}; the table `disagreements` has all." if len(frame) > most else ""
    return table(frame_rows(frame.head(most)), more=more)


def _item_cell(row: Mapping[str, Any]) -> Cell:
    # Where no server shows a trace, its link is a text that leads nowhere.
    words = row.get(LINK) if _page_address(row) is None else None
    return Cell(_label_text("item", row), below=(words,) if words else ())


def _page_address(row: Mapping[str, Any]) -> str | None:
    link = row.get(LINK) or ""
    return link if link.startswith(("http://", "https://")) else None


def _label_text(name: str, row: Mapping[str, Any]) -> str:
    label = row[name]
    return "–" if label is None else f"{label:.3g}" if isinstance(label, float) else str(label)


def agreement_card(report: AgreementReport) -> list[FilledTable[Any]]:
    """Return what a notebook shows: what was read, then a row for each person."""
    return [_readings(report), _people(report).first(what="people", where="`.people`")]


def _on_page(text: str) -> Only:
    # A description has room for 7,900 characters: the disagreements and their links come before what explains them.
    return Only(("html",), text)


def agreement_points(
    estimates: Mapping[str, Reading], groups: Mapping[str, Mapping[str, Reading]], *, counts: Mapping[str, int]
) -> list[keys.Point]:
    """Spell an agreement: `agreement/accuracy/rate` and so on, `category/<name>/…` of each group, and counts."""
    counted = keys.known_points({f"agreement/{name}": count for name, count in counts.items()})
    return keys.all_points({**estimates, **keys.keyed_groups("category", groups)}) + counted


def headline_agreement(points: Iterable[keys.Point], estimates: Mapping[str, Reading]) -> list[keys.Point]:
    """Return the points that MLflow gets: every axis with n and interval, and counts; groups are in the artifacts."""
    own = {f"{axis}/{name}" for axis in estimates for name in ("rate", "value", "ci_low", "ci_high", "n")}
    # Counts have two parts, as `agreement/items` has; those of readings have three.
    return [point for point in points if point.key in own or point.key.count("/") == 1]


def agreement_figures(report: AgreementReport, *, title: str) -> dict[str, Figure]:
    """Draw every figure for which there is something to draw, by file name."""
    figures: Mapping[str, Figure | None] = {
        "ceiling.png": ceiling_chart(report, title=title),
        "confusion.png": confusion_heatmap(report.confusion),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def ceiling_chart(report: AgreementReport, *, title: str) -> Figure | None:
    """Judge beside people, all and one by one, each against the label of the others, with intervals over items."""
    rows = _rows(report)
    if not rows:
        return None
    left = 0.15 + drawing.label_inches([label for label, _, _ in rows])
    width = max(left + 5.2, 7.0)
    figure, axes = drawing.canvas(width, 1.75 + _ROW * len(rows), left=left, bottom=0.95, top=0.8)
    for place, (label, *both) in enumerate(rows):
        for kind, ends, side in zip((_OF_JUDGE, _OF_PEOPLE), both, (-0.13, 0.13), strict=True):
            if ends is not None:
                _dot(axes, ends, place + side, kind, words=f"{label}, {('judge', 'people')[kind]}")
    drawing.label_rows(axes, [drawing.short(label) for label, _, _ in rows], dark=1)
    lowest = [end for _, *both in rows for ends in both if ends for end in ends if end is not None]
    # A kappa can be below 0.
    axes.set_xlim(min(0.0, *lowest), 1.03)
    share = "share of items with the label of the others"
    axes.set_xlabel(share if report.kind == "nominal" else "quadratic kappa against the others")
    handles = [_key(axes, kind, label) for kind, label in ((_OF_JUDGE, "judge"), (_OF_PEOPLE, "people"))]
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, fontsize=10)
    drawing.write_corners(figure, title=drawing.short(title, most=60), foot="bars: 95 % over items")
    return figure


def _rows(report: AgreementReport) -> list[tuple[str, Ends | None, Ends | None]]:
    """Return what is drawn, from above: a label, and judge and people against the same references."""
    n = len(report.people_names)
    judge, people = (_ends(report.estimates.get(axis)) for axis in (ON_CEILING, CEILING))
    if people is None:
        judge = _ends(report.estimates[ACCURACY])
        return [] if judge is None else [(f"{n} person", judge, None)]
    # One by one people are read by the share of equal labels, which is no kappa.
    people_rows = frame_rows(report.people.head(_MOST_PEOPLE)) if report.kind == "nominal" else []
    return [(f"all {n} people", judge, people), *map(_person, people_rows)]


def _person(row: Mapping[str, Any]) -> tuple[str, Ends | None, Ends | None]:
    judge, own = (
        None if row[name] is None else (row[name], row[f"{name}_low"], row[f"{name}_high"])
        for name in ("judge_accuracy", "accuracy")
    )
    return drawing.short(str(row["person"]), most=30), judge, own


def _ends(reading: Reading | None) -> Ends | None:
    return (reading.value, *source_ends(reading)) if isinstance(reading, Estimate) else None


def _dot(axes: Axes, ends: Ends, place: float, kind: int, *, words: str) -> None:
    words = f"{words}: {number_text(ends[0])} {interval_text(*ends[1:])}"
    drawing.hover_spots(axes, [drawing.Spot(x=ends[0], y=place, words=words)])
    axes.errorbar([ends[0]], [place], xerr=drawing.reach([ends]), capsize=3, linestyle="none", **drawing.marks(kind))


def _key(axes: Axes, kind: int, label: str) -> Any:
    # Points are drawn one by one and have no label, so the legend gets lines without points.
    (line,) = axes.plot([], [], linestyle="none", label=label, **drawing.marks(kind))
    return line


def confusion_heatmap(confusion: pd.DataFrame) -> Figure | None:
    """Labels of the people × labels of the judge: items, and the share of the row."""
    levels, counts = [str(level) for level in confusion.index], confusion.to_numpy()
    if not counts.sum() or len(levels) > _MOST_DRAWN:
        return None
    title, foot = "People say (rows), the judge says (columns)", "items, and share of the row"
    figure, axes = drawing.cell_table(levels, levels, title=title, foot=foot, least=5.0)
    for row, cells in enumerate(counts.tolist()):
        for column, cell in enumerate(cells):
            words = f"people say {levels[row]}, the judge says {levels[column]}"
            _cell(axes, column, row, cell, of=sum(cells), words=words)
    return figure


def _cell(axes: Axes, column: int, row: int, n: int, *, of: int, words: str) -> None:
    share, scale = n / of if of else 0.0, "Blues" if column == row else "Oranges"
    value, below, words = f"{n:,}", f"{100 * share:.0f} %" if of else "", f"{words}: {n:,} of {of:,} items"
    # The ends of the scale are left out: white would look empty, and the darkest would hide the digits.
    place = 0.05 + 0.75 * share
    drawing.write_cell(axes, column, row, scale=scale, place=place, value=value, below=below, words=words)


@dataclass(frozen=True, kw_only=True)
class Agreement(ShownResult):
    """How well a judge and people agree, and where it is logged."""

    report: AgreementReport
    source: LabelTable
    """What was said, under the one name that is reported."""
    options: Mapping[str, object] = field(default_factory=dict)
    """What else was chosen: params of the run."""
    seed: int = 0

    @property
    def title(self) -> str:
        """Names the judge and how many people there are."""
        n, judge = len(self.report.people_names), self.report.judge
        people = "1 person" if n == 1 else f"{n} people"
        return f"Agreement of {people}" if judge is None else plain(f"Agreement of {judge} with {people}")

    @property
    def verdict(self) -> Verdict:
        """How well judge and people agree, whether as well as people do, and what to do, in plain words."""
        return agreement_verdict(self.report, source=self.source.shown, is_logged=self.run_id is not None)

    @property
    def estimates(self) -> Mapping[str, Reading]:
        """Axis to its number with n and interval, or why there is none."""
        return self.report.estimates

    @property
    def groups(self) -> Mapping[str, Mapping[str, Reading]]:
        """Group to its estimates."""
        return self.report.groups

    @property
    def confusion(self) -> pd.DataFrame:
        """Items by the label of the people (rows) and of the judge (columns)."""
        return self.report.confusion

    @property
    def people(self) -> pd.DataFrame:
        """One row per person: how well they agree with the others, and their alternative annotator test."""
        return self.report.people

    @cached_property
    def disagreements(self) -> pd.DataFrame:
        """Items on which the judge and the people differ, the worst first, with a `link` where one is known."""
        table: pd.DataFrame = self.report.disagreements.copy()
        if links := self.source.links:
            table[LINK] = [links.get(item) for item in table["item"]]
        return table

    @cached_property
    def calibration(self) -> pd.DataFrame | None:
        """Items that judge and people labelled as booleans, `judge` and `human`: is it the positive label?

        None without a judge, and where no label is positive: name it with `positive`.
        """
        compared, positive = self.report.compared, self.report.positive
        if positive is None or self.report.judge is None:
            return None
        table: pd.DataFrame = compared[["item"]].copy()
        for name, column in (("judge", "judge"), ("human", "reference")):
            table[name] = compared[column] == positive
        for name in ("cluster", "inclusion"):
            cells = self.source.per_item(name)
            if cells:
                table[name] = [cells.get(item) for item in table["item"]]
        return table

    @property
    def label_table(self) -> LabelTable:
        """The calibration as labels, for a correction.

        Raises:
            RecipeError: when there is none.
        """
        if self.calibration is None:
            raise RecipeError("The agreement has no calibration: give agree the judge, and the label that is positive.")
        return calibration_labels(
            self.calibration,
            shown=self.title,
            levels=self.report.levels,
            positive=self.report.positive,
            facts=fact_texts(self.judge),
            simulated=self.source.simulated,
        )

    @property
    def judge(self) -> Mapping[str, Any]:
        """What identifies the judge, as far as it is known: name, source, model, hash of its prompt."""
        return self.source.facts

    @property
    def metrics(self) -> dict[str, float]:
        """Every number by its key."""
        return keys.last_values(self.points)

    @property
    def logged(self) -> dict[str, float]:
        """Those that are metrics of the run: every axis with n and interval, without the groups."""
        return keys.last_values(headline_agreement(self.points, self.estimates))

    @property
    def points(self) -> list[keys.Point]:
        """Every number as a metric."""
        counts = {"items": self.report.counts["items"], "people": len(self.report.people_names)}
        counts["disagreements"] = len(self.report.disagreements)
        return agreement_points(self.estimates, self.groups, counts=counts)

    @property
    def notes(self) -> list[str]:
        """What a reader must know first."""
        return [*self.source.notes, *self.report.notes]

    def to_html(self) -> str:
        """Return the agreement as one self-contained HTML file: no script, no request, every text escaped."""
        return self._page(self._drawings).to_html()

    def _page(self, figures: Sequence[Drawing] = ()) -> Page:
        """Return the answer in words, then readings, people, groups, the confusion matrix and disagreements."""
        report = self.report
        by_person = [_people(report), *([_on_page(_PEOPLE_HOW)] if report.judge is not None else [])]
        lists = [
            Only((medium,), _disagreements(self.disagreements, most=most)) for medium, most in _MOST_LISTED.items()
        ]
        return Page.saying(
            self.verdict,
            partial(agreement_headline, report),
            *agreement_sentences(report),
            title=self.title,
            notes=self.notes,
            facts=self._facts,
            sections=[
                Section(
                    heading="Readings",
                    blocks=[_readings(report), _how(report), Only(("html", "text"), DETECTABLE_NOTE)],
                ),
                Section(heading="Figures", blocks=[figures], media=("html",)),
                Section(heading="By person", blocks=by_person),
                Section(heading="By group", blocks=[_groups(report)]),
                Section(heading="Disagreements", blocks=[_on_page(_DISAGREEMENTS_HOW), *lists], media=_DETAILS),
                Section(
                    heading="Confusion matrix",
                    blocks=[_on_page(_CONFUSION_HOW), _confusion(report.confusion)],
                    media=_DETAILS,
                ),
                Section(heading="Without a number", blocks=[MISSING(missing_rows(report.estimates))]),
                Section(heading="Judge", blocks=[Facts(self.judge)], media=_DETAILS),
            ],
        )

    @property
    def _facts(self) -> dict[str, str]:
        report = self.report
        levels = ", ".join(report.levels[:12]) + (", …" if len(report.levels) > 12 else "")
        positive = "" if report.positive is None else f"; positive: {report.positive}"
        return {
            "source": self.source.shown,
            "items": f"{report.counts['items']:,} ({report.counts['compared']:,} compared)",
            **({} if report.n_clusters is None else {"clusters": f"{report.n_clusters:,}"}),
            "people": ", ".join(report.people_names[:12]) + (", …" if len(report.people_names) > 12 else ""),
            "labels": f"{levels or 'numbers'} ({report.kind}{positive})",
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {
            "run_id": self.run_id,
            "link": self.link,
            "verdict": self.verdict.to_dict(),
            "headline": agreement_headline(self.report),
            "source": self.source.shown,
            **self.report.to_dict(),
            "judge": dict(self.judge),
            "notes": self.notes,
            "disagreements": frame_rows(self.disagreements),
            "calibration": None if self.calibration is None else frame_rows(self.calibration),
            "metrics": self.metrics,
        }

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """What there is to tabulate, by name; what is missing is an empty cell, never 0."""
        groups = [readings_frame(readings).assign(group=name) for name, readings in self.groups.items()]
        tables = {
            "estimates": readings_frame(self.estimates),
            "people": self.people,
            # `concat` refuses an empty list.
            "groups": pd.concat(groups) if groups else pd.DataFrame(),
            "confusion": self.confusion.rename_axis(columns=None).reset_index(),
            "disagreements": self.disagreements,
            "calibration": self.calibration,
        }
        return {name: frame for name, frame in tables.items() if frame is not None and not frame.empty}

    def to_frame(self) -> pd.DataFrame:
        """Return one row per axis: its number with n and interval, or why there is none."""
        return readings_frame(self.estimates)

    def plot(self, kind: str | None = None) -> Figure:
        """Draw judge and people against the same references, or the `confusion` matrix."""
        return drawing.plotted(agreement_figures(self.report, title=self.title), kind)

    @cached_property
    def _drawings(self) -> list[Drawing]:
        """Of the page and of the run's files."""
        return draw(agreement_figures(self.report, title=self.title), _CAPTIONS)

    @cached_property
    def figures(self) -> dict[str, bytes]:
        """File name to PNG."""
        return {name: drawing.png(figure) for name, figure in agreement_figures(self.report, title=self.title).items()}

    def __repr__(self) -> str:
        read = {"accuracy": self.estimates[ACCURACY], "ceiling": self.estimates[CEILING]}
        who = f"{len(self.report.people_names)} people" if self.report.judge is None else brief_name(self.report.judge)
        return f"Agreement({who}: {brief_readings(read)}, {brief_run(self.run_id)})"

    def _card(self) -> dict[str, Any]:
        return {
            "profile": agreement_headline(self.report).removesuffix("."),
            "marks": ["simulated"] if self.source.simulated else [],
            "tables": agreement_card(self.report),
            "notes": [*agreement_sentences(self.report), *self.notes],
        }


def agreement_content(done: Agreement) -> RunContent:
    """Return what the run of an agreement holds."""
    report = done.report
    own = {
        **done.options,
        "source": done.source.shown,
        "people": ", ".join(report.people_names)[:_LONGEST_PARAM],
        "labels": ", ".join(report.levels)[:_LONGEST_PARAM],
        "kind": report.kind,
        "positive": report.positive,
        "epsilon": report.epsilon,
        "seed": done.seed,
    }
    return shown_content(
        done,
        keys.AGREEMENT_JSON,
        points=headline_agreement(done.points, report.estimates),
        params={"agree": own, "judge": done.judge, **done.source.params},
        tags=_tags(done),
        tables=done.tables,
        drawings=done._drawings,
        more={keys.AGREEMENT_PAGE: done.to_html()},
    )


def _tags(done: Agreement) -> dict[str, str]:
    """Return the headline in words, and each reading as `jrh.<axis>`: a column of runs shows it with its interval."""
    readings = {axis: reading for axis, reading in done.estimates.items() if isinstance(reading, Estimate)}
    shown = {keys.own_key(axis): reading_text(reading) for axis, reading in readings.items()}
    return {keys.TAG_PROFILE: agreement_headline(done.report), **shown}
