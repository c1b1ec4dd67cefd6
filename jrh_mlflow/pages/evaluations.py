"""Pages of a server around the datasheets: which evaluations there are, and why a page cannot be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jrh_mlflow.pages.rendering import render


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationRow:
    """One evaluation as its run's name, params and tags tell of it; every text may come from anybody."""

    run_id: str
    """32 hexadecimal digits: it becomes part of addresses."""
    name: str
    """Of the run."""
    judge: str
    suite: str
    sha256: str
    """Of the suite: runs with the same one can be compared."""
    profile: str
    """The datasheet in one line, or an empty text."""
    simulated: bool
    truncated: str | None
    """Why calls are missing, or None."""
    experiment: str
    experiment_id: str
    started: str


def evaluations_page(rows: Sequence[EvaluationRow], *, review: str, most: int) -> str:
    """Render the list of evaluations, by experiment, with a form that asks for a comparison without any script.

    Args:
        rows: Newest first.
        review: Address of the review page.
        most: How many rows are looked for; the page says so when that many were found.
    """
    experiments: dict[str, list[EvaluationRow]] = {}
    for row in rows:
        experiments.setdefault(row.experiment_id, []).append(row)
    return render("evaluations.html", experiments=experiments, review=review, more=len(rows) >= most, most=most)


def problem_page(message: str, *, title: str, index: str) -> str:
    """Render why something cannot be shown, with the way back to the list at the address `index`."""
    return render("problem.html", message=message, title=title, index=index)
