"""A comparison of judges as one HTML file that can be mailed, printed and archived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jrh_mlflow.measures.comparison import OVERALL
from jrh_mlflow.measures.reliability.worst import WorstItem
from jrh_mlflow.reports.html import data_uri, render
from jrh_mlflow.results.comparison import Contrasts

_OPEN_ROWS = 40
"""Longer tables of differences start folded."""


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
        suite=suite,
        judges=judges,
        figures={caption: data_uri(png) for caption, png in (figures or {}).items()},
        worst={name: items for name, items in (worst or {}).items() if items},
        notes=(*notes, *comparison.notes),
        differences=[*told, *apart],
        unfolded=len(comparison.differences) <= _OPEN_ROWS,
    )
