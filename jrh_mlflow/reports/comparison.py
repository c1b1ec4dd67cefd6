"""A comparison of judges as tables, as Markdown and as one HTML file: every number with n and interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from jrh_mlflow.measures.axes import lower_is_better
from jrh_mlflow.measures.comparison import OVERALL, Contrasts, Difference
from jrh_mlflow.measures.reliability import WorstItem
from jrh_mlflow.reports.html import data_uri, render
from jrh_mlflow.reports.markdown import table
from jrh_mlflow.reports.numbers import (
    bounds_note,
    bounds_text,
    cell_text,
    money_text,
    number_text,
    p_text,
    short_interval,
    source_ends,
)
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading

_MOST_DIFFERENCES = 30
"""In Markdown; past it only those that were told apart are listed. The table and the JSON have all."""
_OPEN_ROWS = 40
"""Longer tables of differences start folded."""
_HOW = (
    "Judges that share a letter cannot be told apart; `a` is with the best. Intervals are 95 %, sources (tasks) as "
    "clusters. Units of one source are not independent, so decisions use a sign-flip test on whole sources (`p`), "
    "adjusted by Holm over all axes and pairs of judges, the means over tests by themselves; McNemar's mid-p takes "
    "units as independent and is printed beside it."
)


def comparison_tables(comparison: Contrasts) -> dict[str, pd.DataFrame]:
    """Return what there is to tabulate, by name; what is missing is an empty cell, never 0."""
    tables = {
        "scores": pd.DataFrame(
            [
                {"axis": axis, "judge": name, **reading_row(one), "letters": comparison.letters[axis].get(name)}
                for axis, row in comparison.cells.items()
                for name, one in row.items()
            ]
        ),
        "differences": pd.DataFrame(list(comparison.differences)),
        "by_judge": _keyed_frame(comparison.summaries["by_judge"], "judge"),
        "by_test": _keyed_frame(comparison.summaries["by_test"], "axis"),
        "ordinal": pd.DataFrame(
            [
                {"axis": axis, "judge": name, "metric": metric, **reading_row(one)}
                for axis, rows in comparison.ordinal.items()
                for name, row in rows.items()
                for metric, one in row.items()
            ]
        ),
        "costs": _keyed_frame(comparison.costs, "judge"),
    }
    return {name: frame for name, frame in tables.items() if not frame.empty}


def reading_row(reading: Reading) -> dict[str, Any]:
    """Spell a reading as columns: value, interval by source, n, excluded; where it has none, the reason and bounds."""
    names = ("value", "low", "high", "n", "excluded", "reason", "bounds")
    if isinstance(reading, NotEstimable):
        bounds = "" if reading.bounds is None else bounds_text(reading.bounds)
        return {**dict.fromkeys(names), "reason": reading.reason, "bounds": bounds}
    cells = (reading.value, *source_ends(reading), reading.n, reading.excluded, "", "")
    return dict(zip(names, cells, strict=True))


def n_text(row: Mapping[str, Reading]) -> str:
    """Spell the numbers of units of an axis: one number, or from least to most."""
    counts = sorted({one.n for one in row.values() if isinstance(one, Estimate)})
    return "–" if not counts else f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"


def axis_text(axis: str) -> str:
    """Name an axis, saying when a low score is the good one."""
    if axis == OVERALL:
        return "mean over tests"
    return f"{axis} (lower is better)" if lower_is_better(axis) else axis


def cell_rows(comparison: Contrasts) -> list[list[str]]:
    """Return every judge on every axis with its letters, and n."""
    return [
        [axis_text(axis), *(cell_text(one, comparison.letters[axis].get(name, "")) for name, one in row.items()), n]
        for axis, row in comparison.cells.items()
        for n in [n_text(row)]
    ]


def comparison_markdown(comparison: Contrasts, *, title: str = "Comparison of judges", note: str | None = None) -> str:
    """Render the grid of scores, then differences, summaries, scale metrics and costs."""
    lines = [f"# {title}", ""]
    lines += [f"> {text}\n" for text in ((note,) if note else ()) + comparison.notes]
    header = ["", *comparison.judges, "n"]
    lines += ["### Scores", "", *table(header, cell_rows(comparison)), "", _HOW, ""]
    lines += _bounds_note(comparison)
    lines += _differences(comparison)
    lines += _spreads("By judge, over its tests", "judge", comparison.summaries["by_judge"])
    lines += _spreads("By test, over judges", "test", comparison.summaries["by_test"])
    lines += _ordinal(comparison)
    lines += _costs(comparison)
    return "\n".join(lines)


def _bounds_note(comparison: Contrasts) -> list[str]:
    return bounds_note(one for row in comparison.cells.values() for one in row.values())


def difference_cells(one: Difference) -> list[str]:
    """Return what every table of differences begins with: axis, judges, difference, interval, n."""
    ends = short_interval(one.low, one.high)
    return [axis_text(one.axis), f"{one.a} − {one.b}", f"{one.value:+.3f}", ends, str(one.n)]


def _differences(comparison: Contrasts) -> list[str]:
    shown: Sequence[Difference] = comparison.differences
    told = f"{comparison.told} at {comparison.alpha:g}."
    if len(shown) > _MOST_DIFFERENCES:
        shown = comparison.different
        told += " Only those are listed; the table `differences` has all."
    rows = [
        [
            *difference_cells(one),
            p_text(one.p_mcnemar),
            p_text(one.p_cluster),
            p_text(one.p_holm),
            "yes" if one.different else "no",
        ]
        for one in shown
    ]
    header = ["axis", "judges", "difference", "95 %", "n", "McNemar mid-p", "p", "p, Holm", "told apart"]
    return ["### Differences", "", told, "", *(table(header, rows) if rows else []), ""]


def _spreads(heading: str, first: str, rows: Mapping[str, Mapping[str, float | None]]) -> list[str]:
    if not rows:
        return []
    cells = [
        [name, *(number_text(row[key]) for key in ("mean", "sd", "min", "max")), f"{row['n']:g}"]
        for name, row in rows.items()
    ]
    return [f"### {heading}", "", *table([first, "mean", "sd", "min", "max", "n"], cells), ""]


def _ordinal(comparison: Contrasts) -> list[str]:
    if not comparison.ordinal:
        return []
    names = {"ccc": "CCC", "pearson": "Pearson", "spearman": "Spearman", "mae": "MAE"}
    rows = [
        [axis, name, *(cell_text(row[metric]) if metric in row else "n/a" for metric in names), n_text(row)]
        for axis, judges in comparison.ordinal.items()
        for name, row in judges.items()
    ]
    return ["### Against the expected levels", "", *table(["test", "judge", *names.values(), "n"], rows), ""]


def _costs(comparison: Contrasts) -> list[str]:
    known = {name: row for name, row in comparison.costs.items() if row["usd"] is not None}
    if not known:
        return []
    rows = [
        [name, money_text(row["usd"]), money_text(row["usd_per_accuracy_point"])]
        for name, row in comparison.costs.items()
    ]
    return ["### Cost of the calls compared", "", *table(["judge", "dollars", "per accuracy point"], rows), ""]


def _keyed_frame(rows: Mapping[str, Mapping[str, float | None]], first: str) -> pd.DataFrame:
    frame: pd.DataFrame = pd.DataFrame([{first: name, **row} for name, row in rows.items()])
    return frame


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeCard:
    """What the page says of a judge besides its numbers."""

    name: str
    """As in the comparison; that of a simulated judge says so."""
    run_id: str
    n_calls: int
    truncated: str | None = None


def comparison_page(
    comparison: Contrasts,
    *,
    title: str,
    suite: Mapping[str, str],
    judges: Sequence[JudgeCard],
    figures: Mapping[str, bytes] | None = None,
    worst: Mapping[str, Sequence[WorstItem]] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Render the comparison.

    Args:
        comparison: The numbers.
        title: Of the page.
        suite: Facts of the suite, shown as they are.
        judges: In the order of the comparison.
        figures: Caption to PNG.
        worst: Judge to its worst items.
        notes: Shown above the comparison's own.
    """
    told = sorted(comparison.different, key=lambda one: (one.axis != OVERALL, one.p_holm))
    apart = [one for one in comparison.differences if not one.different]
    return render(
        "comparison.html",
        title=title,
        comparison=comparison,
        overall=OVERALL,
        axis_text=axis_text,
        n_text=n_text,
        suite=suite,
        judges=judges,
        figures={caption: data_uri(png) for caption, png in (figures or {}).items()},
        worst={name: items for name, items in (worst or {}).items() if items},
        notes=(*notes, *comparison.notes),
        differences=[*told, *apart],
        unfolded=len(comparison.differences) <= _OPEN_ROWS,
        bounds_note=_bounds_note(comparison),
    )
