"""How far reviewers agree with the validator, and with one another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np

from jrh_mlflow.review.contents import ReviewEntry
from jrh_mlflow.review.states import DECIDED, REJECTED, SETTLED, UNSETTLED, Standings
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.scoring.ledger import HULL, interval_method
from jrh_mlflow.stats.agreement import gwet_ac1, quadratic_kappa
from jrh_mlflow.stats.proportions import cluster_interval, wilson


def validator_agreement(entries: Iterable[ReviewEntry], standings: Standings) -> Reading:
    """Share of decided items on which the validator's verdict is the reviewers' decision.

    A kept item agrees when the verdict is the label it carries after review; a rejected one when the validator had not
    given the expected answer either. The denominator are decided items that a validator answered; `excluded` counts
    decided ones that it did not.
    """
    agreed: dict[str, list[bool]] = {}
    excluded = 0
    for entry in entries:
        state = standings.of(entry.key).state
        if state.state not in DECIDED:
            continue
        if entry.verdict is None:
            excluded += 1
            continue
        expected = entry.item.expected
        kept = entry.verdict == (state.label or expected)
        agrees = entry.verdict != expected if state.state == REJECTED else kept
        agreed.setdefault(entry.item.task, []).append(agrees)
    return _share(agreed, excluded)


def reviewer_agreement(entries: Mapping[int, ReviewEntry], standings: Standings) -> dict[str, Any] | None:
    """For each two reviewers the share of items both decided that both keep or both reject, kappa and AC1.

    Returns:
        None with fewer than two reviewers, or when no two decided the same item.
    """
    found = (_pair(one, other, entries, standings) for one, other in combinations(standings.reviewers, 2))
    pairs = [pair for pair in found if pair is not None]
    if not pairs:
        return None
    disputed = [place for place, entry in entries.items() if "decision" in standings.of(entry.key).disputed]
    return {"reviewers": pairs, "disputed": disputed}


def disagreements(entries: Iterable[ReviewEntry], standings: Standings) -> dict[str, int]:
    """Count the items on which reviewers disagree, `unsettled` and `settled`; what the last one decided counts there.

    They disagree when one keeps an item that another rejects, or when they keep it with another label or text.
    """
    found = [standings.of(entry.key).disagreement for entry in entries]
    return {state: found.count(state) for state in (UNSETTLED, SETTLED)}


def _share(agreed: Mapping[str, list[bool]], excluded: int) -> Reading:
    successes = np.array([sum(found) for found in agreed.values()], dtype=float)
    sizes = np.array([len(found) for found in agreed.values()], dtype=float)
    if not len(sizes):
        return NotEstimable(reason="no decided item has a validator's verdict", excluded=excluded)
    right, n = int(successes.sum()), int(sizes.sum())
    return Estimate(
        value=right / n,
        n=n,
        excluded=excluded,
        **intervals(wilson(right, n), cluster_interval(successes, sizes)),
        n_clusters=len(sizes),
        method=interval_method("Wilson", len(sizes), by_task=HULL),
        unit="item",
        numerator=right,
    )


def _pair(one: str, other: str, entries: Mapping[int, ReviewEntry], standings: Standings) -> dict[str, Any] | None:
    both = [
        (mine.state, theirs.state)
        for entry in entries.values()
        if (mine := standings.of(entry.key).mine(one)) and (theirs := standings.of(entry.key).mine(other))
    ]
    if not both:
        return None
    kept = np.array([[state != REJECTED for state in pair] for pair in both], dtype=float)
    return {
        "reviewers": [one, other],
        "n": len(both),
        "rate": float((kept[:, 0] == kept[:, 1]).mean()),
        # On two categories Cohen's kappa with quadratic weights is Cohen's kappa.
        "kappa": quadratic_kappa(kept[:, 0], kept[:, 1], n_levels=2),
        "ac1": gwet_ac1(kept, n_categories=2),
        "same_decision": float(np.mean([mine == theirs for mine, theirs in both])),
    }
