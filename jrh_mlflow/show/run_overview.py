"""The list of evaluations, and the page of a run that has none of its own: what it is and what belongs to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jrh_mlflow.show.html import Addresses, render_page

MOST_RELATED = 200
KINDS = {
    "evaluate": "evaluation",
    "criterion_shift": "criterion shift",
    "compare": "comparison",
    "sweep": "sweep",
    "generate": "generation",
    "review": "review",
    "jury": "jury",
    "agree": "agreement with people",
    "align": "alignment",
    "correct": "corrected rates",
    "gate": "gate",
}
"""What runs of a kind are called on pages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary:
    """One run as its name, tags and params tell of it; every text may come from anybody, and may be empty."""

    run_id: str
    """32 hexadecimal digits: it becomes part of addresses."""
    name: str
    kind: str
    """As `jrh.kind` says it; an empty text of a run that we did not log."""
    status: str
    started: str
    experiment: str = ""
    """Its name, where runs of several experiments are listed."""
    experiment_id: str
    description: str
    simulated: bool
    recorded: bool
    truncated: str | None
    """Why calls are missing, or None."""
    judge: str
    model: str
    """Of the judge."""
    suite: str
    sha256: str
    """Of the suite: runs with the same one can be compared."""
    verdict: str
    """Its first sentence; of runs without one the profile."""
    gate: str
    """What its newest gate came to."""
    named: tuple[str, ...]
    """Ids of runs that its params and tags name: what it was made of."""
    state: str
    """Digest of all that changes when something is added to a finished run: what is made from it holds as long."""


def evaluations_page(rows: Sequence[RunSummary], *, review: str, most: int) -> str:
    """Render the list of evaluations, by experiment, with a form that asks for a comparison without any script.

    Args:
        rows: Newest first.
        review: Address of the review page.
        most: How many rows are looked for; the page says so when that many were found.
    """
    experiments: dict[str, list[RunSummary]] = {}
    for row in rows:
        experiments.setdefault(row.experiment_id, []).append(row)
    return render_page(
        "evaluations.html",
        experiments=experiments,
        review=review,
        # As many as were looked for: there may be more, and nobody has counted them.
        more=len(rows) >= most,
        most=most,
        addresses=Addresses(""),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFamily:
    """A run with those that belong to it."""

    run: RunSummary
    page: str | None
    """Name of the page that it logged, or None."""
    has_calls: bool
    """Whether it kept calls of a judge, as an evaluation does that fails in the middle."""
    sources: tuple[RunSummary, ...]
    """What it was made of, and its parent."""
    children: tuple[RunSummary, ...]
    """Nested runs, newest first; at most MOST_RELATED."""


def run_overview_page(family: RunFamily, addresses: Addresses) -> str:
    """Render a run of any kind; every text is escaped, the description is shown as it was written."""
    return render_page(
        "run.html",
        title=family.run.name,
        run=family.run,
        page=family.page,
        has_calls=family.has_calls,
        groups={"Made of": family.sources, "Runs inside it": family.children},
        kinds=KINDS,
        more=len(family.children) >= MOST_RELATED,
        most=MOST_RELATED,
        addresses=addresses,
    )
