"""What people see of a jury and what MLflow is told: tables, page, figures and keys, each declared once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jrh_mlflow.comparing.comparison_view import filled_frames, n_text, reading_values
from jrh_mlflow.comparing.jury.jury_report import Cascade, JuryReport, Seat
from jrh_mlflow.comparing.jury.jury_verdict import JURY
from jrh_mlflow.comparing.jury.panels import BestPanel, HalfChoice, PanelPoint
from jrh_mlflow.comparing.jury.votes import PairAgreement
from jrh_mlflow.comparing.recommendation import closing_section
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.show import numbers
from jrh_mlflow.show.figures import canvas
from jrh_mlflow.show.html import FROM_RUN
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.page import Drawing, Page, Section
from jrh_mlflow.show.tables import Cell, Column, FilledTable, Medium, Table, field_column, reading_cell
from jrh_mlflow.tracking.runs import keys

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from jrh_mlflow.show.figures.canvas import Figure

JURY_JSON = "jury.json"
"""Artifact of its run."""
_AXES = {"accuracy": "accuracy", "fpr": "FPR", "fnr": "FNR", "no_decision": "no decision"}
_MOST_PAIRS = 45
"""Of judges on a page; the table `agreement` has all."""
_DETAILS: tuple[Medium, ...] = ("html", "markdown")
"""A terminal shows the jury, its best panel and its cascade."""
_HOW = (
    "Intervals are 95 %, sources (tasks) as clusters. No decision is an answer that is not right; a unit with too few "
    "votes leaves the denominator."
)


def jury_tables(report: JuryReport) -> dict[str, pd.DataFrame]:
    """Return what there is to tabulate, by name; what is missing is an empty cell, never 0."""
    best = report.best if isinstance(report.best, BestPanel) else None
    tables: dict[str, FilledTable[Any]] = {
        "judges": SEAT_AXES((name, seat, axis) for name, seat in _seats(report) for axis in seat.readings),
        "conditions": CONDITIONS(report.by_condition.items()),
        "agreement": AGREEMENTS(report.agreements),
        "panels": PANELS(best.points if best else ()),
        "halves": HALVES(enumerate(best.halves, 1) if best else ()),
    }
    return filled_frames(tables) | ({} if report.answers.empty else {"answers": report.answers})


def _seats(report: JuryReport) -> list[tuple[str, Seat]]:
    jury = Seat(readings=report.readings, usd_per_1k=report.usd_per_1k)
    return [(JURY, jury), *report.seats.items()]


def seats_table(report: JuryReport, runs: Mapping[str, str] = MappingProxyType({})) -> FilledTable[tuple[str, Seat]]:
    """Return the jury and its judges, each with its readings and what it costs; those of `runs` lead to their calls."""

    def calls(row: tuple[str, Seat]) -> str | None:
        return FROM_RUN.calls(runs[row[0]]) if row[0] in runs else None

    columns: list[Column[tuple[str, Seat]]] = [
        Column("judge", lambda row: row[0], link=lambda row: FROM_RUN.run(runs[row[0]]) if row[0] in runs else None),
        *(
            Column(head, partial(_axis_cell, axis), link=calls)
            for axis, head in _AXES.items()
            if axis in report.readings
        ),
        Column("n", lambda row: n_text([row[1].readings["accuracy"]])),
        Column("$ per 1,000", lambda row: numbers.money_text(row[1].usd_per_1k)),
    ]
    if any(seat.weight is not None for seat in report.seats.values()):
        columns.append(Column("weight", lambda row: numbers.number_text(row[1].weight)))
    return Table(tuple(columns))(_seats(report))


def _axis_cell(axis: str, row: tuple[str, Seat]) -> Cell:
    return reading_cell(row[1].readings[axis])


AGREEMENTS: Table[PairAgreement] = Table.of(
    Column("judges", lambda pair: f"{pair.a} · {pair.b}"),
    field_column("a"),
    field_column("b"),
    Column("agreement", lambda pair: reading_cell(pair.agreement)),
    *reading_values(lambda pair: pair.agreement),
    field_column("ac1", numbers.number_text, head="AC1"),
    field_column("error_correlation", numbers.number_text, head="correlation of errors"),
    Column("n", lambda pair: n_text([pair.agreement])),
)
SEAT_AXES: Table[tuple[str, Seat, str]] = Table.of(
    Column("judge", value=lambda row: row[0]),
    Column("axis", value=lambda row: row[2]),
    *reading_values(lambda row: row[1].readings[row[2]]),
    Column("usd_per_1k", value=lambda row: row[1].usd_per_1k),
)
CONDITIONS: Table[tuple[str, Reading]] = Table.of(
    Column("test", lambda row: axis_name(row[0]), value=lambda row: row[0], name="condition"),
    Column("accuracy", lambda row: reading_cell(row[1])),
    *reading_values(lambda row: row[1]),
    Column("n", lambda row: n_text([row[1]])),
)
PANELS: Table[PanelPoint] = Table.of(
    Column("panel", value=lambda point: ", ".join(point.panel)),
    Column("in_sample_accuracy", value=lambda point: point.accuracy),
    field_column("usd_per_1k"),
)
HALVES: Table[tuple[int, HalfChoice]] = Table.of(
    Column("chosen on", lambda row: f"half {row[0]}"),
    Column("panel", lambda row: ", ".join(row[1].panel), value=lambda row: ", ".join(row[1].panel)),
    Column(
        "accuracy there",
        lambda row: numbers.number_text(row[1].in_sample),
        value=lambda row: row[1].in_sample,
        name="in_sample",
    ),
    Column("accuracy on the other half", lambda row: reading_cell(row[1].out_of_sample)),
    *reading_values(lambda row: row[1].out_of_sample),
    Column("n", lambda row: n_text([row[1].out_of_sample])),
    Column("$ per 1,000", lambda row: numbers.money_text(row[1].usd_per_1k)),
)
Priced = tuple[str, Reading, float | None]
"""Name, accuracy and dollars of 1,000 judgments."""
ACCURACIES: Table[Priced] = Table.of(
    Column("judges", lambda row: row[0]),
    Column("accuracy", lambda row: reading_cell(row[1])),
    Column("n", lambda row: n_text([row[1]])),
    Column("$ per 1,000", lambda row: numbers.money_text(row[2])),
)


def jury_card(report: JuryReport) -> list[FilledTable[Any]]:
    """Show the jury beside its judges, then its best panel and its cascade where it has them."""
    others: list[Priced] = []
    if isinstance(report.best, BestPanel):
        best = report.best
        others.append((f"best panel: {', '.join(best.panel)}", best.accuracy, best.usd_per_1k))
    if isinstance(report.cascade, Cascade):
        steps = f"cascade: {' + '.join(report.cascade.cheap)} → {report.cascade.strong}"
        others.append((steps, report.cascade.accuracy, report.cascade.usd_per_1k))
    return [seats_table(report), ACCURACIES(others)]


def jury_page(
    report: JuryReport,
    verdict: Verdict,
    *,
    title: str,
    notes: Sequence[str] = (),
    drawings: Sequence[Drawing] = (),
    runs: Mapping[str, str] = MappingProxyType({}),
) -> Page:
    """Return what to do, the jury beside its judges, effective votes, agreement, the best panel and the cascade."""
    rule, n_judges = report.rule, len(report.judges)
    how = f"ties: {rule.ties}; " if rule.vote != "unanimous" else ""
    return Page(
        title=title,
        lead=verdict.sentences[0],
        sentences=[
            *verdict.sentences[1:],
            f"Vote: {rule.vote}; {how}at least {rule.quorum(n_judges)} of {n_judges} votes. "
            f"{report.n_units} units, {report.n_split} of them split.",
        ],
        notes=(*notes, *report.notes),
        sections=[
            Section(heading="The jury and its judges", blocks=[seats_table(report, runs), _HOW, *_reasons(report)]),
            Section(heading="Figures", blocks=[drawings], media=("html",)),
            Section(heading="Effective number of votes", blocks=[_effective_text(report)], always=True),
            _conditions(report.by_condition),
            _agreement(report),
            *_best(report.best),
            *_cascade(report.cascade),
            closing_section(verdict.sentences[0]),
        ],
    )


def _reasons(report: JuryReport) -> list[str]:
    return [
        f"Without a number: {name}, {_AXES[axis]}: {reading.reason}"
        for name, seat in _seats(report)
        for axis, reading in seat.readings.items()
        if axis in _AXES and isinstance(reading, NotEstimable)
    ]


def _effective_text(report: JuryReport) -> str:
    number = report.effective_votes
    if isinstance(number, NotEstimable):
        return f"n/a ({number.reason})."
    return (
        f"{_value(number)} of {len(report.judges)} votes; mean correlation of errors "
        f"{_value(report.error_correlation)}. So many independent judges would vary as much: n / (1 + (n − 1) ρ)."
    )


def _without(heading: str, missing: NotEstimable | None) -> list[Section]:
    """Say why a section has no number; nothing where none was asked for."""
    return [] if missing is None else [Section(heading=heading, blocks=[f"n/a ({missing.reason})."], always=True)]


def _conditions(readings: Mapping[str, Reading]) -> Section:
    # A single test is the jury's accuracy once more.
    rows = readings.items() if len(readings) > 1 else ()
    return Section(heading="The jury by test", blocks=[CONDITIONS(rows)], media=_DETAILS)


def _agreement(report: JuryReport) -> Section:
    # The most alike errors first; pairs without a correlation last: none is under -1.
    alike = sorted(report.agreements, key=lambda pair: -(-2 if (rho := pair.error_correlation) is None else rho))
    shown = alike[:_MOST_PAIRS]
    cut = len(shown) < len(report.agreements)
    more = f"The {len(shown)} of {len(report.agreements)} pairs with the most alike errors." if cut else ""
    return Section(heading="Agreement of judges", blocks=[AGREEMENTS(shown, more=more)], media=_DETAILS)


def _best(best: BestPanel | NotEstimable | None) -> list[Section]:
    if not isinstance(best, BestPanel):
        return _without("Best panel", best)
    limit = "" if best.max_usd is None else f" under ${best.max_usd:g} per 1,000"
    optimism = "n/a" if best.optimism is None else numbers.number_text(best.optimism, signed=True)
    tried = f"{best.n_panels} panels tried" if best.search == "exhaustive" else "judges added one by one"
    there = numbers.number_text(best.in_sample)
    text = (
        f"{', '.join(best.panel)} ({numbers.money_text(best.usd_per_1k)} per 1,000; {tried}). Chosen on one half of "
        f"the sources and reported on the other: {numbers.cell_text(best.accuracy)}; where it was chosen {there}, so "
        f"the optimism is {optimism}."
    )
    heading = f"Best panel of {best.size}{limit}"
    return [Section(heading=heading, blocks=[text, HALVES(enumerate(best.halves, 1)), *best.notes])]


def _cascade(cascade: Cascade | NotEstimable | None) -> list[Section]:
    if not isinstance(cascade, Cascade):
        return _without("Cascade", cascade)
    at = f"; thresholds {', '.join(f'{limit:.4g}' for limit in cascade.thresholds)}" if cascade.thresholds else ""
    text = (
        f"{' and '.join(cascade.cheap)} first, {cascade.strong} when unsure (signal: {cascade.unsure}{at}). "
        f"Escalated: {numbers.cell_text(cascade.escalated)}."
    )
    rows: list[Priced] = [
        (f"{cascade.cheap[0]} alone", cascade.cheap_accuracy, cascade.cheap_usd_per_1k),
        ("cascade", cascade.accuracy, cascade.usd_per_1k),
        (f"{cascade.strong} alone", cascade.strong_accuracy, cascade.strong_usd_per_1k),
    ]
    return [Section(heading="Cascade", blocks=[text, ACCURACIES(rows)])]


def _value(reading: Reading) -> str:
    if not isinstance(reading, Estimate):
        return "n/a"
    return numbers.reading_text(reading)


def jury_points(report: JuryReport) -> list[keys.Point]:
    """Spell a jury as metrics, such as `jury/accuracy/rate`, `jury/effective_votes/value`, `jury/best/optimism`."""
    readings: dict[str, Reading] = {**report.readings, "effective_votes": report.effective_votes}
    readings["error_correlation"] = report.error_correlation
    counts: dict[str, float | None] = {"size": len(report.judges), "n_units": report.n_units}
    counts |= {"n_split": report.n_split, "usd_per_1k": report.usd_per_1k}
    if isinstance(report.best, BestPanel):
        best = report.best
        readings["best/accuracy"] = best.accuracy
        counts |= {"best/size": best.size, "best/in_sample": best.in_sample}
        counts |= {"best/optimism": best.optimism, "best/usd_per_1k": best.usd_per_1k}
    if isinstance(report.cascade, Cascade):
        readings["cascade/accuracy"] = report.cascade.accuracy
        readings["cascade/escalated"] = report.cascade.escalated
        counts["cascade/usd_per_1k"] = report.cascade.usd_per_1k
    points = [point for name, reading in readings.items() for point in keys.reading_points(f"jury/{name}", reading)]
    return points + keys.known_points({f"jury/{name}": value for name, value in counts.items()})


def jury_figures(report: JuryReport, *, title: str) -> dict[str, Figure]:
    """Draw every figure for which there is something to draw, by file name."""
    figures: Mapping[str, Figure | None] = {
        "agreement.png": agreement_heatmap(report.agreements, report.judges, title=f"Agreement: {title}"),
        "cost.png": cost_map(report),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def agreement_heatmap(pairs: Sequence[PairAgreement], judges: Sequence[str], *, title: str) -> Figure | None:
    """Judges × judges: agreement below the diagonal, correlation of errors above it."""
    if not any(isinstance(pair.agreement, Estimate) for pair in pairs):
        return None
    foot = "below the diagonal: share of equal answers; above it: correlation of errors (blank: none)"
    figure, axes = canvas.cell_table(judges, judges, title=canvas.short(title, most=90), foot=foot)
    for pair in pairs:
        column, row = judges.index(pair.a), judges.index(pair.b)
        if isinstance(pair.agreement, Estimate):
            ac1 = "" if pair.ac1 is None else f"AC1 {pair.ac1:.2f}  "
            words = f"{pair.a} and {pair.b}, equal answers: {numbers.hover_text(pair.agreement)}"
            below = f"{ac1}n {pair.agreement.n}"
            _cell(axes, column, row, pair.agreement.value, below, "cividis", low=0.0, words=words)
        if pair.error_correlation is not None:
            words = f"{pair.a} and {pair.b}, correlation of errors: {pair.error_correlation:.2f}"
            _cell(axes, row, column, pair.error_correlation, "errors", "RdBu_r", low=-1.0, words=words)
    return figure


def cost_map(report: JuryReport) -> Figure | None:
    """Accuracy against dollars per 1,000 judgments: judges, all panels of the search, the best one, jury, cascade."""
    dots = _dots(report)
    if not dots:
        return None
    lines, listed = canvas.list_lines(
        f"{number}  {numbers.number_text(reading.value)} for ${usd:.3g}, n {reading.n}   {label}"
        for number, (label, reading, usd, _) in enumerate(dots, 1)
    )
    figure, axes = canvas.canvas(8.8, 5.3 + listed, left=0.85, right=0.45, bottom=0.8 + listed)
    panels = report.best.points if isinstance(report.best, BestPanel) else ()
    priced = [(point.usd_per_1k, point.accuracy) for point in panels if point.usd_per_1k is not None]
    if priced:
        place, value = zip(*priced, strict=True)
        axes.plot(place, value, linestyle="none", marker=".", color="#AAAAAA", zorder=1)
    offset: dict[str, Any] = {"xytext": (7, 6), "textcoords": "offset points"}
    for number, (label, reading, usd, kind) in enumerate(dots, 1):
        style = canvas.marks(kind, size=8)
        bars = canvas.error_bars([reading])
        axes.errorbar([usd], [reading.value], yerr=bars, capsize=3, zorder=2, **style)
        canvas.hover_spots(
            axes, [canvas.Spot(x=usd, y=reading.value, words=f"{label}: {numbers.hover_text(reading)}, ${usd:.3g}")]
        )
        axes.annotate(str(number), (usd, reading.value), fontweight="bold", color=style["color"], **offset)
    canvas.write_list(figure, lines, [canvas.marks(kind)["color"] for *_, kind in dots])
    canvas.spread_prices(axes)
    axes.set(xlabel="dollars per 1,000 judgments", ylabel="accuracy (bars: 95 % by source)")
    grey = f"; grey: every panel of {report.best.size}, in sample" if isinstance(report.best, BestPanel) else ""
    axes.set_title(f"Accuracy against cost{grey if priced else ''}", loc="left")
    return figure


def _dots(report: JuryReport) -> list[tuple[str, Estimate, float, int]]:
    """Label, accuracy, price and kind (judge, jury, best panel, cascade) of what has both numbers."""
    rows = [(name, seat.readings["accuracy"], seat.usd_per_1k, 0) for name, seat in report.seats.items()]
    jury = f"jury of all {len(report.judges)} ({report.rule.vote})"
    rows.append((jury, report.readings["accuracy"], report.usd_per_1k, 1))
    if isinstance(report.best, BestPanel):
        best = f"best panel of {report.best.size}, read where it was not chosen: {', '.join(report.best.panel)}"
        rows.append((best, report.best.accuracy, report.best.usd_per_1k, 2))
    if isinstance(report.cascade, Cascade):
        steps = f"cascade {' + '.join(report.cascade.cheap)} → {report.cascade.strong}"
        rows.append((steps, report.cascade.accuracy, report.cascade.usd_per_1k, 3))
    return [
        (label, reading, usd, kind)
        for label, reading, usd, kind in rows
        if isinstance(reading, Estimate) and usd is not None
    ]


def _cell(axes: Axes, column: int, row: int, value: float, below: str, scale: str, *, low: float, words: str) -> None:
    place, text = (value - low) / (1 - low), f"{value:.2f}"
    canvas.write_cell(axes, column, row, scale=scale, place=place, value=text, below=below, words=words)
