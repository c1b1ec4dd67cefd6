"""A comparison as tables and as Markdown: every number with n and interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from jrh_mlflow.measures.axes import lower_is_better
from jrh_mlflow.measures.comparison import OVERALL, Difference
from jrh_mlflow.reports.markdown import table
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading

if TYPE_CHECKING:
    from jrh_mlflow.results.comparison import Contrasts


_MOST_DIFFERENCES = 30
"""In Markdown; past it only those that were told apart are listed. The table and the JSON have all."""
_HOW = (
    "Judges that share a letter cannot be told apart; `a` is with the best. Intervals are 95 %, sources (tasks) as "
    "clusters. Units of one source are not independent, so decisions use a sign-flip test on whole sources (`p`), "
    "adjusted by Holm over all axes and pairs of judges; McNemar's mid-p takes units as independent and is printed "
    "beside it."
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
        "differences": pd.DataFrame([one.to_dict() for one in comparison.differences]),
        "by_judge": _spread_frame(comparison.summaries["by_judge"], "judge"),
        "by_test": _spread_frame(comparison.summaries["by_test"], "axis"),
        "ordinal": pd.DataFrame(
            [
                {"axis": axis, "judge": name, "metric": metric, **reading_row(one)}
                for axis, rows in comparison.ordinal.items()
                for name, row in rows.items()
                for metric, one in row.items()
            ]
        ),
        "costs": pd.DataFrame([{"judge": name, **row} for name, row in comparison.costs.items()]),
    }
    return {name: frame for name, frame in tables.items() if not frame.empty}


def reading_row(reading: Reading) -> dict[str, Any]:
    """Spell a reading as columns: value, interval by source, n, excluded, and the reason where there is none."""
    if isinstance(reading, NotEstimable):
        return {"value": None, "low": None, "high": None, "n": None, "excluded": None, "reason": reading.reason}
    low, high = ends(reading)
    return {
        "value": reading.value,
        "low": low,
        "high": high,
        "n": reading.n,
        "excluded": reading.excluded,
        "reason": "",
    }


def ends(reading: Estimate) -> tuple[float | None, float | None]:
    """Return the interval by source, or the plain one where there is none by source."""
    if reading.cluster_low is not None or reading.cluster_high is not None:
        return reading.cluster_low, reading.cluster_high
    return reading.ci_low, reading.ci_high


def cell_text(reading: Reading, letter: str = "") -> str:
    """Spell a cell: `0.812 [0.70, 0.89] ab`, or `n/a`."""
    if isinstance(reading, NotEstimable):
        return "n/a"
    return f"{reading.value:.3f} {_span(*ends(reading))} {letter}".strip()


def n_text(row: Mapping[str, Reading]) -> str:
    """Spell the numbers of units of an axis: one number, or from least to most."""
    counts = sorted({one.n for one in row.values() if isinstance(one, Estimate)})
    return "–" if not counts else f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"


def axis_text(axis: str) -> str:
    """Name an axis, saying when a low score is the good one."""
    if axis == OVERALL:
        return "mean over tests"
    return f"{axis} (lower is better)" if lower_is_better(axis) else axis


def comparison_markdown(comparison: Contrasts, *, title: str, note: str | None) -> str:
    """Render the grid of scores, then differences, summaries, scale metrics and costs."""
    lines = [f"# {title}", ""]
    lines += [f"> {text}\n" for text in ((note,) if note else ()) + comparison.notes]
    header = ["", *comparison.judges, "n"]
    rows = [
        [axis_text(axis), *(cell_text(one, comparison.letters[axis].get(name, "")) for name, one in row.items()), n]
        for axis, row in comparison.cells.items()
        for n in [n_text(row)]
    ]
    lines += ["### Scores", "", *table(header, rows), "", _HOW, ""]
    lines += _differences(comparison)
    lines += _spreads("By judge, over its tests", "judge", comparison.summaries["by_judge"])
    lines += _spreads("By test, over judges", "test", comparison.summaries["by_test"])
    lines += _ordinal(comparison)
    lines += _costs(comparison)
    return "\n".join(lines)


def _differences(comparison: Contrasts) -> list[str]:
    shown: Sequence[Difference] = comparison.differences
    told = f"{len(comparison.different)} of {len(shown)} differences are told apart at {comparison.alpha:g}."
    if len(shown) > _MOST_DIFFERENCES:
        shown = comparison.different
        told += " Only those are listed; the table `differences` has all."
    rows = [
        [
            axis_text(one.axis),
            f"{one.a} − {one.b}",
            f"{one.value:+.3f}",
            _span(one.low, one.high),
            str(one.n),
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
        [name, *(_number(row[key]) for key in ("mean", "sd", "min", "max")), f"{row['n']:g}"]
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


def _spread_frame(rows: Mapping[str, Mapping[str, float | None]], first: str) -> pd.DataFrame:
    frame: pd.DataFrame = pd.DataFrame([{first: name, **row} for name, row in rows.items()])
    return frame


def p_text(p: float | None) -> str:
    """Spell a p-value; small ones are not 0."""
    return "–" if p is None else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def money_text(usd: float | None) -> str:
    """Spell dollars; unknown is a word, never 0."""
    return "unknown" if usd is None else f"${usd:.4f}" if usd >= 0.01 or usd == 0 else f"${usd:.2g}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _span(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"[{low:.2f}, {high:.2f}]"
