"""Who is asked to decide which items, how far each reviewer is, and how far reviewers agree.

An assignment is a plan, not a lock: whoever likes may decide any item. It is an event like a decision: it is kept for
good, and a later one takes its place.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from jrh_mlflow.errors import ReviewError
from jrh_mlflow.review.contents import Review, ReviewCatalog, ReviewEntry, progress
from jrh_mlflow.review.decisions import DECIDED, REJECTED, SETTLED, UNSETTLED, Event, Standing, Standings
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.scoring.ledger import HULL, interval_method
from jrh_mlflow.stats.agreement import gwet_ac1, quadratic_kappa
from jrh_mlflow.stats.proportions import cluster_interval, wilson

_MAX_REVIEWERS = 100


def assign(review: Review, shares: Mapping[str, float], *, overlap: float = 0.0, seed: int = 0, who: str) -> Event:
    """Assign every item that needs a decision, and return the event.

    Items that somebody of `shares` has decided stay theirs, and what only others decided is nobody's, so that assigning
    again moves open work only.

    Args:
        review: What is assigned.
        shares: Reviewers, and how much of the work each gets in proportion to the others.
        overlap: Share of the items that go to two reviewers, to measure their agreement.
        seed: Which items those are, and which are whose.
        who: Assigned them.

    Raises:
        ReviewError: for names, shares or an overlap that make no sense.
    """
    _check(shares, overlap)
    _, entries = review.placed()
    with review.decisions.current() as standings:
        opinions = {
            entry.key: list(standings.of(entry.key).opinions) for entry in entries.values() if entry.needs_decision
        }
    by_shares = {item: [name for name in names if name in shares] for item, names in opinions.items()}
    # What only others decided waits for nobody.
    decided = {item: names for item, names in by_shares.items() if names or not opinions[item]}
    items = dealt(decided, shares, overlap=overlap, seed=seed)
    facts = {"shares": dict(shares), "overlap": overlap, "seed": seed, "items": items}
    return review.decisions.assign(who, facts)


def dealt(
    decided: Mapping[str, Sequence[str]], shares: Mapping[str, float], *, overlap: float, seed: int
) -> dict[str, list[str]]:
    """Deal items out evenly and return the reviewers of each; the same arguments deal the same.

    Args:
        decided: Items, each with those reviewers who have decided it.
        shares: How much of the work each reviewer gets in proportion to the others.
        overlap: Share of the items that get two reviewers.
        seed: Of the order in which they are dealt.

    Example:
        >>> dealt({"a": [], "b": [], "c": ["Bob"]}, {"Ada": 1, "Bob": 1}, overlap=0, seed=0)["c"]
        ['Bob']
    """
    order = sorted(decided, key=lambda item: _digest(seed, item))
    # Rounded half up: `round` would send half an item to the even number.
    twice = set(order[: math.floor(overlap * len(order) + 0.5)]) if len(shares) > 1 else set()
    loads = dict.fromkeys(shares, 0)
    dealt_out: dict[str, list[str]] = {}
    # What is decided is not moved, so it is counted first; then the pairs, then single items even out the rest.
    for item in sorted(order, key=lambda item: (not decided[item], item not in twice)):
        wanted = 2 if item in twice else 1
        names = list(decided[item][:wanted])
        while len(names) < wanted:
            free = (name for name in shares if name not in names)
            # Who would carry least of their share next; a hash breaks ties, so that the first name gets no more than
            # others.
            names.append(min(free, key=lambda name: ((loads[name] + 1) / shares[name], _digest(seed, item, name))))
        for name in names:
            loads[name] += 1
        dealt_out[item] = names
    return {item: dealt_out[item] for item in decided}


def assigned_to(entry: ReviewEntry, standings: Standings) -> list[str]:
    """Return who was asked to decide an item."""
    if standings.assigned is None:
        return []
    names: list[str] = standings.assigned.facts["items"].get(entry.key, [])
    return names


def waits_for(who: str, names: Sequence[str], standing: Standing) -> bool:
    """Whether an item of the reviewers `names` still needs the decision of one: not once as many others decided it."""
    opinions = standing.opinions
    return who in names and who not in opinions and len(opinions) < len(names) and standing.settled is None


def assignment_facts(entries: Mapping[int, ReviewEntry], standings: Standings) -> dict[str, Any] | None:
    """Return how far each reviewer is with what was assigned to them; None when nothing was.

    `decided` are assigned items that the reviewer decided, `open` those that wait for them, `by_others` those that
    others decided.
    """
    event = standings.assigned
    if event is None:
        return None
    rows = {name: {"assigned": 0, "decided": 0, "open": 0, "by_others": 0} for name in event.facts["shares"]}
    for entry in entries.values():
        names, standing = assigned_to(entry, standings), standings.of(entry.key)
        for name in names:
            waiting = waits_for(name, names, standing)
            part = "decided" if standing.mine(name) else "open" if waiting else "by_others"
            rows[name]["assigned"] += 1
            rows[name][part] += 1
    about = {"overlap": event.facts["overlap"], "seed": event.facts["seed"], "by": event.who, "when": event.when}
    return {**about, "reviewers": [{"name": name, **row} for name, row in rows.items()]}


def read_shares(text: str) -> dict[str, float]:
    """Read `Ada,Bob` or `Ada=2,Bob=1`.

    Raises:
        ReviewError: for a name that is given twice, or a share that is no number.
    """
    shares: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, given, share = part.rpartition("=")
        name = (name if given else part).strip()
        if name in shares:
            raise ReviewError(f"Reviewer {name!r} is named twice.")
        try:
            shares[name] = float(share) if given else 1.0
        except ValueError as error:
            raise ReviewError(f"The share of {name!r} must be a number, but is {share!r}.") from error
    return shares


def _check(shares: Mapping[str, float], overlap: float) -> None:
    if not 0 < len(shares) <= _MAX_REVIEWERS:
        raise ReviewError(f"Name 1 to {_MAX_REVIEWERS} reviewers, not {len(shares)}.")
    for name, share in shares.items():
        if not name.strip() or not name.isprintable() or len(name) > 80:
            raise ReviewError(f"A reviewer's name is one line of 1 to 80 printable characters, not {name[:80]!r}.")
        if not (math.isfinite(share) and share > 0):
            raise ReviewError(f"The share of {name!r} must be above 0, but is {share}.")
    if not 0 <= overlap <= 1:
        raise ReviewError(f"`overlap` is a share of the items from 0 to 1, but is {overlap}.")
    if overlap and len(shares) < 2:
        raise ReviewError("Items that two reviewers decide need two reviewers: name another, or leave `overlap` out.")


def _digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()


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
    compared = (_pair(first, second, entries, standings) for first, second in combinations(standings.reviewers, 2))
    pairs = [pair for pair in compared if pair is not None]
    if not pairs:
        return None
    disputed = [place for place, entry in entries.items() if "decision" in standings.of(entry.key).disputed]
    return {"reviewers": pairs, "disputed": disputed}


def disagreements(entries: Iterable[ReviewEntry], standings: Standings) -> dict[str, int]:
    """Count the items on which reviewers disagree, `unsettled` and `settled`; what the last one decided counts there.

    They disagree when one keeps an item that another rejects, or when they keep it with another label or text.
    """
    states = [standings.of(entry.key).disagreement for entry in entries]
    return {state: states.count(state) for state in (UNSETTLED, SETTLED)}


def _share(agreed: Mapping[str, list[bool]], excluded: int) -> Reading:
    successes = np.array([sum(hits) for hits in agreed.values()], dtype=float)
    sizes = np.array([len(hits) for hits in agreed.values()], dtype=float)
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


def _pair(first: str, second: str, entries: Mapping[int, ReviewEntry], standings: Standings) -> dict[str, Any] | None:
    both = [
        (mine.state, theirs.state)
        for entry in entries.values()
        if (mine := standings.of(entry.key).mine(first)) and (theirs := standings.of(entry.key).mine(second))
    ]
    if not both:
        return None
    kept = np.array([[state != REJECTED for state in pair] for pair in both], dtype=float)
    return {
        "reviewers": [first, second],
        "n": len(both),
        "rate": float((kept[:, 0] == kept[:, 1]).mean()),
        # On two categories Cohen's kappa with quadratic weights is Cohen's kappa.
        "kappa": quadratic_kappa(kept[:, 0], kept[:, 1], n_labels=2),
        "ac1": gwet_ac1(kept, n_categories=2),
        "same_decision": float(np.mean([mine == theirs for mine, theirs in both])),
    }


def assign_now(catalog: ReviewCatalog, *, reviewers: str, overlap: float, seed: int, who: str | None) -> None:
    """Assign the items of every suite of a catalog to `Ada,Bob` or `Ada=2,Bob=1`."""
    shares = read_shares(reviewers)
    for review in catalog.reviews():
        review.hold()
        assign(review, shares, overlap=overlap, seed=seed, who=who or "command line")


def review_status(catalog: ReviewCatalog) -> list[dict[str, Any]]:
    """Return for each suite how far its review is, in all and by reviewer."""
    rows = []
    for review in catalog.reviews():
        content, entries = review.placed()
        with review.decisions.current() as standings:
            rows.append(
                {
                    "name": content.name,
                    "progress": progress(entries.values(), standings),
                    "reviewers": standings.reviewers,
                    "assignment": assignment_facts(entries, standings),
                    "disagreements": disagreements(entries.values(), standings),
                    "finished": dict(standings.finished.facts) if standings.finished else None,
                }
            )
    return rows
