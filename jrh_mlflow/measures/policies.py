"""Decisions: what a policy of replicates, vote and presentation orders makes of the calls on one item.

A policy is cheap to change: one order or both, one replicate or five are read from the same calls.

| policy | rule |
|---|---|
| vote `majority` | the answer given most often; a draw is a tie (a pair) or an abstention (one response) |
| vote `unanimous` | the answer that all replicates gave, otherwise a tie or an abstention |
| orders `one` | the votes of one presentation order, chosen by a hash of the item's id, so that no slot is favoured |
| orders `both` | the content that the votes of both orders agree on; a tie when they do not |

Calls without a usable answer have no vote. An item is unusable when all calls of a vote are.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pandas as pd

from jrh_mlflow.errors import check_known
from jrh_mlflow.measures.records import choice, is_pointwise, normalise

VOTES = ("majority", "unanimous")
ORDERS = ("one", "both")
COLUMNS = ("suite_item", "task", "condition", "delta", "better", "expected", "replicate", "outcome", "decision")


class Decision(NamedTuple):
    """What was decided about an item."""

    outcome: str
    """`verdict`, `tie`, `abstain`, or how the last unusable call of the vote ended."""
    value: str
    """`u`, `v`, `tie` or `abstain` for a pair, a label or `abstain` otherwise; empty when there is no decision."""


class Vote(NamedTuple):
    """One call, as a vote."""

    order: str
    outcome: str
    value: str
    """`u`, `v`, `tie`, `abstain` or a label; empty when the call is unusable."""


def decide(
    calls: pd.DataFrame | Iterable[object],
    *,
    vote: str = "majority",
    orders: str = "both",
    replicates: int | None = None,
) -> pd.DataFrame:
    """Turn calls into decisions, one row per item and decision.

    Args:
        calls: Call records.
        vote: `majority` or `unanimous`.
        orders: `one` or `both`; pointwise items have no order and ignore it.
        replicates: Calls per order behind one decision; an item asked more often has several decisions. All of an
            item's replicates make one decision when None.

    Returns:
        Columns suite_item, task, condition, delta, better, expected, replicate (of the decision), outcome and
        decision, in the order of the items.
    """
    checked_policy(vote=vote, orders=orders)
    if replicates is not None and replicates < 1:
        raise ValueError(f"`replicates >= 1` must hold, but got {replicates=}.")
    frame = normalise(calls)
    pointwise = is_pointwise(frame)
    votes: dict[tuple[str, int], list[Vote]] = {}
    facts: dict[tuple[str, int], Any] = {}
    row: Any
    for row in frame.itertuples(index=False):
        key = (row.suite_item, 0 if replicates is None else int(row.replicate) // replicates)
        votes.setdefault(key, []).append(cast_vote(order=row.order, outcome=row.outcome, answer=row.answer))
        facts.setdefault(key, row)
    rows = []
    for (item, number), cast in votes.items():
        made = decision_of(cast, item=item, vote=vote, orders=orders, pair=not pointwise)
        row = facts[item, number]
        rows.append((item, row.task, row.condition, row.delta, row.better, row.expected, number, *made))
    decided: pd.DataFrame = pd.DataFrame(rows, columns=list(COLUMNS))
    return decided


def checked_policy(*, vote: str, orders: str) -> None:
    """Refuse a vote or an order policy that is not known, with the nearest one that is."""
    check_known("vote", vote, VOTES)
    check_known("orders", orders, ORDERS)


def cast_vote(*, order: str, outcome: str, answer: str) -> Vote:
    """Read one call as a vote."""
    return Vote(order, outcome, choice(order=order, outcome=outcome, answer=answer))


def decision_of(votes: Sequence[Vote], *, item: str, vote: str, orders: str, pair: bool) -> Decision:
    """Decide one item from its votes.

    Example:
        >>> both = [Vote("uv", "verdict", "u"), Vote("vu", "verdict", "v")]
        >>> decision_of(both, item="a", vote="majority", orders="both", pair=True)
        Decision(outcome='tie', value='tie')
    """
    drawn = "tie" if pair else "abstain"
    by_order: dict[str, list[Vote]] = {}
    for cast in votes:
        by_order.setdefault(cast.order, []).append(cast)
    if pair and orders == "one":
        order = chosen_order(item)
        return _counted(by_order.get(order, []), vote=vote, drawn=drawn)
    made = [_counted(own, vote=vote, drawn=drawn) for own in by_order.values()]
    lost = [decision for decision in made if not decision.value]
    if lost:
        return lost[0]
    return made[0] if len(set(made)) == 1 else Decision(drawn, drawn)


def chosen_order(item: str) -> str:
    """Return the presentation order that the policy `one` asks for: fixed for an item, even over items."""
    return "uv" if hashlib.blake2b(item.encode("utf-8", "surrogatepass"), digest_size=1).digest()[0] % 2 else "vu"


def calls_per_decision(*, orders: str, replicates: int, pair: bool) -> int:
    """Return how many calls a policy pays for one judgment."""
    return replicates * (2 if pair and orders == "both" else 1)


def as_records(decisions: pd.DataFrame) -> pd.DataFrame:
    """Return pointwise decisions as call records, for the measures that read those."""
    answer = decisions["decision"].where(decisions["outcome"] == "verdict", "")
    records: pd.DataFrame = decisions.assign(order="", answer=answer).drop(columns="decision")
    return records


def _counted(votes: Sequence[Vote], *, vote: str, drawn: str) -> Decision:
    usable = Counter(cast.value for cast in votes if cast.value)
    if not usable:
        return Decision(votes[-1].outcome if votes else "error", "")
    (first, most), *others = usable.most_common()
    won = not others if vote == "unanimous" else not others or others[0][1] < most
    if not won:
        return Decision(drawn, drawn)
    return Decision(first if first in ("tie", "abstain") else "verdict", first)
