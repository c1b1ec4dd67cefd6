"""Decisions about items from a table, as a review's `decisions.csv` holds them: a review that needs no browser."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import ReviewError, suggest
from jrh_mlflow.review.contents import ReviewEntry
from jrh_mlflow.review.sources import Review
from jrh_mlflow.review.states import ACCEPTED, EDITED, REJECTED, Click, GeneratedPart, Standings
from jrh_mlflow.suites.dataset import is_missing, read_table

_ACTIONS = {ACCEPTED: "accept", REJECTED: "reject", EDITED: "edit"}
_WHO = "decisions file"


def decide_from(review: Review, file: str | Path, *, who: str | None = None) -> int:
    """Take the decisions of a table and return how many are new; items that it does not name stay as they are.

    Args:
        review: What they are about.
        file: With the columns `item` (its id) and `state` (`accepted`, `rejected`, `edited`), and where there are such
            `reason`, `text`, `label` and `who`. Of several rows about one item the last counts.
        who: Decided, where the table does not say.

    Raises:
        ReviewError: for an item that the suite does not hold, or a decision that makes no sense; none is taken then.
    """
    _, entries = review.placed()
    by_id = {entry.item.id: entry for entry in entries.values()}
    clicks: list[tuple[str, Click, GeneratedPart]] = []
    with review.decisions.current() as standings:
        for row in _last_rows(file).values():
            if row["item"] not in by_id:
                close = suggest(row["item"], by_id)
                raise ReviewError(f"{Path(file).name}: the suite has no item {row['item']!r} to review.{close}")
            entry = by_id[row["item"]]
            if (click := _click(row, entry, standings, who or _WHO)) is not None:
                clicks.append((entry.key, click, entry.generated()))
    review.hold()
    return len(review.decisions.decide_all(clicks))


def _last_rows(file: str | Path) -> dict[str, dict[str, str]]:
    frame = read_table(file)
    if missing := {"item", "state"} - set(frame.columns):
        raise ReviewError(f"{Path(file).name} lacks the column(s) {', '.join(sorted(missing))}.")
    rows: dict[str, dict[str, str]] = {}
    for record in frame.to_dict("records"):
        row = {str(name): str(cell) for name, cell in record.items() if not is_missing(cell)}
        if row.get("item"):
            rows[row["item"]] = row
    return rows


def _click(row: Mapping[str, str], entry: ReviewEntry, standings: Standings, who: str) -> Click | None:
    """Return the decision of a row; None where it says nothing, or what was decided before."""
    state, standing = row.get("state"), standings.of(entry.key)
    if state is None or state not in _ACTIONS:
        if state in (None, "undecided", "exempt"):
            return None
        raise ReviewError(f"Item {row['item']!r}: unknown state {state!r}.{suggest(str(state), _ACTIONS)}")
    asked: dict[str, Any] = {name: row.get(name) for name in ("text", "label")} if state == EDITED else {}
    now = standing.state
    if now.state == state and (now.text, now.label) == (asked.get("text"), asked.get("label")):
        return None
    reason = row.get("reason") or ("rejected by the decisions file" if state == REJECTED else None)
    return Click(action=_ACTIONS[state], who=row.get("who") or who, version=standing.version, reason=reason, **asked)
