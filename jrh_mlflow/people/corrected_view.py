"""Corrected rates as tables and Markdown: the estimate beside the judge's own mean and what people say alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.show.cards import CardTable
from jrh_mlflow.show.numbers import interval_text, missing_text, source_ends
from jrh_mlflow.show.plain_text import plain, table
from jrh_mlflow.tracking.runs import keys

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


def level_text(level: float) -> str:
    """Write the level of an interval: `95 %`."""
    return f"{100 * level:g} %"


def corrected_cells(readings: Mapping[str, Reading], *, level: float) -> CardTable:
    """Show every reading with its interval, n and what was left out."""
    rows = [[_label(name), *_cells(reading)] for name, reading in readings.items()]
    return CardTable(header=["", "value", level_text(level), "n", "left out", "how"], rows=rows)


def corrected_markdown(
    readings: Mapping[str, Reading],
    *,
    title: str,
    headline: str,
    level: float,
    note: str,
    facts: Mapping[str, str],
    versions: Mapping[str, Mapping[str, Reading]],
) -> str:
    """Render the headline, what a reader must know, the readings, those of each version, and how labels were drawn."""
    lines = [f"# {_line(title)}", "", f"**{_line(headline)}**", ""]
    lines += [f"> {_line(note)}", ""] if note else []
    lines += [*_table(readings, level), ""]
    for name, own in versions.items():
        lines += [f"### Version {_line(name)}", "", *_table(own, level), ""]
    lines += [f"- {_line(key)}: {_line(value)}" for key, value in facts.items()]
    return "\n".join([*lines, ""])


def _table(readings: Mapping[str, Reading], level: float) -> list[str]:
    cells = corrected_cells(readings, level=level)
    return table(cells.header, [[str(cell) for cell in row] for row in cells.rows])


def _label(name: str) -> str:
    return LABELS.get(name, name)


def _cells(reading: Reading) -> Sequence[str]:
    if isinstance(reading, NotEstimable):
        return [missing_text(reading), "–", str(reading.n), str(reading.excluded), reading.reason]
    ends = interval_text(*source_ends(reading))
    return [_value(reading), ends, f"{reading.n:,}", str(reading.excluded), reading.method]


def _value(reading: Estimate) -> str:
    return f"{reading.value:+.4f}" if reading.statistic == "value" else f"{reading.value:.4f}"


def _line(text: str) -> str:
    """Put a text of any origin on one line: it can begin no heading, list or quotation, and be no tag and no link."""
    return plain(text).replace("<", "&lt;").replace("](", "] (")


def corrected_points(scorer: str, readings: Mapping[str, Reading]) -> list[keys.Point]:
    """Spell corrected rates beside MLflow's `<scorer>/mean`: `<scorer>/corrected/value`, `/ci_low`, `/ci_high`, `/n`.

    Example:
        >>> corrected_points("polite", {})
        []
    """
    known = {corrected_axis(scorer, axis): one for axis, one in readings.items() if isinstance(one, Estimate)}
    return [
        point
        for axis, one in known.items()
        for point in keys.known_points(
            {
                f"{axis}/value": one.value,
                f"{axis}/ci_low": one.ci_low,
                f"{axis}/ci_high": one.ci_high,
                f"{axis}/n": one.n,
            }
        )
    ]


def corrected_axis(scorer: str, axis: str) -> str:
    """Spell what the keys of a corrected rate begin with."""
    name = scorer if keys.METRIC_NAME.fullmatch(scorer) else keys.category_names([scorer])[scorer]
    return f"{name}/{axis}"


def void_points(axis: str, logged: Iterable[str]) -> list[keys.Point]:
    """Spell as NaN what a run says of an axis and nobody can say any more: MLflow forgets no metric.

    Example:
        >>> void_points("polite/corrected", ["polite/mean", "polite/corrected/n"])
        [Point(key='polite/corrected/n', value=nan, step=0)]
    """
    return [keys.Point(key=key, value=math.nan) for key in sorted(logged) if key.startswith(f"{axis}/")]
