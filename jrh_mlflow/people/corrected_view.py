"""What people see of a corrected rate and what MLflow is told: table, page, figure and keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.show.figures.canvas import canvas, error_bars, label_inches, label_rows, marks, short, write_corners
from jrh_mlflow.show.numbers import interval_text, missing_text, number_text, source_ends
from jrh_mlflow.show.page import Drawing, Facts, Page, Section
from jrh_mlflow.show.tables import Column, FilledTable, Table, reading_cell
from jrh_mlflow.tracking.runs import keys

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {
    "corrected": "corrected",
    "naive": "the judge alone (naive)",
    "people_only": "people alone",
    "sensitivity": "sensitivity of the judge",
    "specificity": "specificity of the judge",
    "positional": "pairs decided by the slot (positional)",
    "ties": "pairs with a tie in one order or both",
}
"""Readings of a corrected rate, in words."""
_DRAWN = ("corrected", "naive", "people_only")
_ROW = 0.5
"""Inches of a row of the figure."""


def level_text(level: float) -> str:
    """Write the level of an interval: `95 %`."""
    return f"{100 * level:g} %"


def corrected_table(
    readings: Mapping[str, Reading], *, level: float, signed: bool = False
) -> FilledTable[tuple[str, Reading]]:
    """Show every reading with its interval, n and what was left out."""
    table: Table[tuple[str, Reading]] = Table.of(
        Column("reading", lambda row: LABELS[row[0]]),
        Column("value", lambda row: reading_cell(row[1], _value(row[1], signed=signed))),
        Column(level_text(level), lambda row: _interval(row[1])),
        Column("n", lambda row: f"{row[1].n:,}"),
        Column("left out", lambda row: f"{row[1].excluded:,}"),
        Column("how", lambda row: row[1].method if isinstance(row[1], Estimate) else row[1].reason),
    )
    return table(readings.items())


def _value(reading: Reading, *, signed: bool) -> str:
    if isinstance(reading, NotEstimable):
        return missing_text(reading)
    return number_text(reading.value, signed=signed)


def _interval(reading: Reading) -> str:
    return interval_text(*source_ends(reading)) if isinstance(reading, Estimate) else "–"


def _number(value: float | None, *, signed: bool = False) -> str:
    return "–" if value is None or math.isnan(value) else number_text(value, signed=signed)


_DIFFERENCES: Table[Mapping[str, Any]] = Table.of(
    Column("versions", lambda row: f"{row['b']} − {row['a']}"),
    Column("difference", lambda row: _number(row["difference"], signed=True)),
    Column("interval", lambda row: interval_text(row["low"], row["high"])),
    Column("p", lambda row: _number(row["p"])),
    Column("p for all pairs", lambda row: _number(row["p_adjusted"])),
    Column("significant", lambda row: "yes" if row["told_apart"] else "no"),
)


def corrected_page(
    readings: Mapping[str, Reading],
    *,
    title: str,
    headline: str,
    verdict: Sequence[str],
    level: float,
    note: str,
    facts: Mapping[str, str],
    versions: Mapping[str, Mapping[str, Reading]],
    differences: Sequence[Mapping[str, Any]] = (),
    drawings: Sequence[Drawing] = (),
) -> Page:
    """Return the headline, what a reader must know, the readings, those of each version, and how labels were drawn."""
    own = {f"Version {name}": readings for name, readings in versions.items()}
    tables = own if differences else {"Readings": readings, **own}
    return Page(
        title=title,
        lead=verdict[0],
        sentences=[*verdict[1:], headline],
        notes=[note] if note else [],
        sections=[
            *([Section(heading="Differences", blocks=[_DIFFERENCES(differences)])] if differences else []),
            *(
                Section(heading=name, blocks=[corrected_table(rows, level=level, signed=bool(own) and name not in own)])
                for name, rows in tables.items()
            ),
            Section(heading="Figures", blocks=[drawings], media=("html",)),
            Section(heading="How it was read", blocks=[Facts(facts)]),
        ],
    )


def corrected_points(scorer: str, readings: Mapping[str, Reading]) -> list[keys.Point]:
    """Spell corrected rates beside MLflow's `<scorer>/mean`: `<scorer>/corrected/value`, `/ci_low`, `/ci_high`, `/n`.

    Example:
        >>> corrected_points("polite", {})
        []
    """
    known = {
        corrected_axis(scorer, axis): reading for axis, reading in readings.items() if isinstance(reading, Estimate)
    }
    return [
        point
        for axis, reading in known.items()
        for point in keys.known_points(
            {
                f"{axis}/value": reading.value,
                f"{axis}/ci_low": reading.ci_low,
                f"{axis}/ci_high": reading.ci_high,
                f"{axis}/n": reading.n,
            }
        )
    ]


def corrected_axis(scorer: str, axis: str) -> str:
    """Spell what the keys of a corrected rate begin with."""
    # A name that MLflow takes is not changed: the rate stands beside MLflow's own `<scorer>/mean`.
    name = scorer if keys.METRIC_NAME.fullmatch(scorer) else keys.category_names([scorer])[scorer]
    return f"{name}/{axis}"


def void_points(axis: str, logged: Iterable[str]) -> list[keys.Point]:
    """Spell as NaN what a run says of an axis and nobody can say any more: MLflow forgets no metric.

    Example:
        >>> void_points("polite/corrected", ["polite/mean", "polite/corrected/n"])
        [Point(key='polite/corrected/n', value=nan, step=0)]
    """
    return [keys.Point(key=key, value=math.nan) for key in sorted(logged) if key.startswith(f"{axis}/")]


def corrected_figures(
    readings: Mapping[str, Reading], versions: Mapping[str, Mapping[str, Reading]], *, title: str, level: float
) -> dict[str, Figure]:
    """Draw every figure for which there is something to draw, by file name."""
    figures = {
        "corrected.png": _intervals({"": readings}, title=title, level=level, signed=bool(versions)),
        "versions.png": _intervals(versions, title=f"Versions: {title}", level=level),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def _intervals(
    readings: Mapping[str, Mapping[str, Reading]], *, title: str, level: float, signed: bool = False
) -> Figure | None:
    """Rates under one another; None where none has a number."""
    rows = {
        f"{version} {LABELS[name]}".strip(): (name, reading)
        for version, own in readings.items()
        for name, reading in own.items()
        if name in _DRAWN and isinstance(reading, Estimate)
    }
    if not rows:
        return None
    left = label_inches(rows)
    figure, axes = canvas(left + 5.2, 1.5 + _ROW * len(rows), left=left, bottom=0.95, top=0.55)
    label_rows(axes, [short(label) for label in rows])
    for place, (name, reading) in enumerate(rows.values()):
        axes.errorbar(
            [reading.value],
            [place],
            xerr=error_bars([reading]),
            capsize=4,
            linestyle="none",
            **marks(_DRAWN.index(name)),
        )
        axes.annotate(
            number_text(reading.value),
            (reading.value, place),
            (0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=9,
        )
    of_scores = not signed and any(reading.statistic == "value" for _, reading in rows.values())
    axes.set_xlim(*((None, None) if signed or of_scores else (0, 1)))
    axes.set_xlabel("difference" if signed else "mean score" if of_scores else "rate")
    write_corners(figure, title=short(title, most=80), foot=f"{level_text(level)} intervals.")
    return figure
