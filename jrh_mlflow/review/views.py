"""What the page is told, as JSON-ready data: suites, lists of items, one item, events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from jrh_mlflow.errors import JrhError
from jrh_mlflow.review.contents import Content, Entry
from jrh_mlflow.review.rechecks import failed, rechecked
from jrh_mlflow.review.report import reviewer_agreement, validator_agreement
from jrh_mlflow.review.sources import Review
from jrh_mlflow.review.states import (
    DECIDED,
    STATES,
    Event,
    Fold,
    Standing,
    plain,
)
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.presentation import Message, saved_message

ANY = "any"
"""As a filter: whatever check failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """Which items are meant; what is empty does not filter."""

    test: str = ""
    state: str = ""
    failed_check: str = ""
    """A check by name, or `any`."""
    q: str = ""
    """Text to be found in id, instruction, rubric, texts or reason; upper and lower case are the same."""
    mine: str = ""
    """State of the reviewer's own decision, for a second, blind review."""
    reviewer: str = ""
    """Whose own decision `mine` is about; does not filter by itself."""

    def takes(self, entry: Entry, standing: Standing) -> bool:
        """Tell whether an item is meant."""
        return (
            (not self.test or entry.test == self.test)
            and (not self.state or entry.shown_state(standing) == self.state)
            and (not self.mine or _mine(standing, self.reviewer, default="undecided") == self.mine)
            and (not self.failed_check or _matches(self.failed_check, failed(entry, standing)))
            and (not self.q or self._found(entry, standing))
        )

    def _found(self, entry: Entry, standing: Standing) -> bool:
        item, state, wanted = entry.item, standing.state, self.q.casefold()
        texts = [item.id, item.instruction, item.rubric, item.response, state.text, state.reason]
        texts += [message.content for message in item.transcript or ()]
        return any(wanted in text.casefold() for text in texts if text)


def suite_row(review: Review) -> dict[str, Any]:
    """Return a line of the list of suites; a run's suite that nobody opened is not fetched for it."""
    row = {"key": review.key, "run_id": review.run.run_id if review.run else None}
    if review.run is not None and not review.decisions_file.exists():
        run = review.run
        return {**row, "name": run.name, "sha256": run.sha256, "n_items": run.n_items, "n_decided": 0}
    try:
        content, entries = review.placed()
    except JrhError as error:
        # The others can be reviewed all the same.
        name = review.run.name if review.run else review.folder.name
        return {**row, "name": name, "sha256": None, "n_items": 0, "n_decided": 0, "problem": str(error)}
    with review.decisions.current() as fold:
        decided = sum(fold.of(entry.key).state.state in DECIDED for entry in entries.values())
    return {**row, "name": content.name, "sha256": content.sha256, "n_items": len(entries), "n_decided": decided}


def suite_page(review: Review) -> dict[str, Any]:
    """Return what the head of the page shows."""
    content, entries = review.placed()
    with review.decisions.current() as fold:
        states = Counter(entry.shown_state(fold.of(entry.key)) for entry in entries.values())
        return {
            "key": review.key,
            "name": content.name,
            "sha256": content.sha256,
            "n_items": len(entries),
            "tests": content.tests,
            "states": {**dict.fromkeys((*STATES, "exempt"), 0), **states},
            "checks": _failed_checks(content, entries, fold),
            "reviewers": fold.reviewers,
            "agreement": _agreement(entries, fold),
            "labels": list(content.labels),
            "growing": content.growing,
            "unreadable": content.unreadable,
            "version": fold.last,
            "finished": dict(fold.finished.facts) if fold.finished else None,
        }


def item_list(review: Review, chosen: Filter, *, offset: int, limit: int) -> dict[str, Any]:
    """Return one stretch of the items that a filter takes."""
    _, entries = review.placed()
    with review.decisions.current() as fold:
        found = list(filtered(entries, fold, chosen))
        rows = [_row(place, entry, fold, chosen.reviewer) for place, entry in found[offset : offset + limit]]
    return {"total": len(found), "items": rows}


def filtered(entries: Mapping[int, Entry], fold: Fold, chosen: Filter) -> Iterator[tuple[int, Entry]]:
    """Yield the items that a filter takes, in their order."""
    return ((place, entry) for place, entry in entries.items() if chosen.takes(entry, fold.of(entry.key)))


def item_page(review: Review, place: int, *, reviewer: str) -> dict[str, Any] | None:
    """Return everything about one item, or None when there is none of that number."""
    _, entries = review.placed()
    entry = entries.get(place)
    if entry is None:
        return None
    with review.decisions.current() as fold:
        row = _row(place, entry, fold, reviewer)
        standing = fold.of(entry.key)
        state, history = standing.state, [_told(event, entry) for event in standing.history]
    generated, current = entry.generated(state.message), entry.applied(state)
    text = generated.text if state.text is None else state.text
    meta, source = entry.item.meta, entry.source
    return {
        **row,
        "condition": entry.item.condition,
        "instruction": entry.item.instruction,
        "rubric": current.rubric,
        "original_label": source.expected if source else None,
        "original": entry.original,
        "perturbed": text,
        "generated": generated.text,
        "generated_label": entry.item.expected,
        "response": current.response,
        "part": entry.part,
        "message": generated.message,
        "labels": list(entry.item.answers or ()),
        "checks": [*rechecked(entry, text), *entry.checks],
        "validator": meta.get("validator"),
        "similarity": meta.get("similarity"),
        "generator": meta.get("generator"),
        "attempts": meta.get("attempts"),
        "reason": state.reason,
        "transcript": _transcript(current.transcript, set(entry.edited_messages), state.message),
        "original_transcript": _transcript(source.transcript if source else None, set(), None),
        "history": history,
    }


def event_list(review: Review, *, since: int, limit: int) -> dict[str, Any]:
    """Return what happened after event `since`, and how many items there are by now."""
    content, entries = review.placed()
    known = {entry.key: (place, entry) for place, entry in entries.items()}
    events = review.decisions.events(since=since, limit=limit)
    return {
        "events": [_event(event, *known.get(event.item, (None, None))) for event in events],
        "last": events[-1].number if events else since,
        "n_items": len(entries),
        "growing": content.growing,
    }


def _event(event: Event, place: int | None, entry: Entry | None) -> dict[str, Any]:
    return {
        "number": event.number,
        "index": place,
        "who": event.who,
        "when": event.when,
        "action": event.action,
        "state": entry.shown(event.after) if entry else None,
    }


def _row(place: int, entry: Entry, fold: Fold, reviewer: str) -> dict[str, Any]:
    standing = fold.of(entry.key)
    by = standing.by
    return {
        "index": place,
        "id": entry.item.id,
        "test": entry.test,
        "state": entry.shown_state(standing),
        "expected": standing.state.label or entry.item.expected,
        "version": standing.version,
        "by": by.who if by else None,
        "needs_decision": entry.needs_decision,
        "mine": _mine(standing, reviewer),
    }


def _failed_checks(content: Content, entries: Mapping[int, Entry], fold: Fold) -> list[str]:
    """Return the names of checks that some item does not pass, sorted."""
    edited = [entry for entry in entries.values() if fold.of(entry.key).state.text is not None]
    return sorted({*content.failed_checks, *(name for entry in edited for name in failed(entry, fold.of(entry.key)))})


def _matches(wanted: str, names: frozenset[str]) -> bool:
    return bool(names) if wanted == ANY else wanted in names


def _mine(standing: Standing, reviewer: str, *, default: str | None = None) -> str | None:
    state = standing.mine(reviewer) if reviewer else None
    return state.state if state else default


def _told(event: Event, entry: Entry) -> dict[str, Any]:
    before, after = event.before, event.after
    generated = entry.generated(before.message if before.message is not None else after.message)
    changed = before.text != after.text
    return {
        "number": event.number,
        "who": event.who,
        "when": event.when,
        "action": event.action,
        "reason": after.reason,
        "state": after.state,
        "text_before": (before.text if before.text is not None else generated.text) if changed else None,
        "label_before": (before.label or entry.item.expected) if before.label != after.label else None,
        "after": {name: value for name, value in plain(after).items() if name != "text"},
    }


def _agreement(entries: Mapping[int, Entry], fold: Fold) -> dict[str, Any] | None:
    """Return what is known of agreement, or None before anything was decided."""
    if not fold.items:
        return None
    reading = validator_agreement(entries.values(), fold)
    if isinstance(reading, Estimate):
        low, high = reading.ci_low, reading.ci_high
        shown: dict[str, Any] = {"rate": reading.value, "n": reading.n, "ci_low": low, "ci_high": high}
    else:
        shown = {"not_estimable": reading.reason}
    return {"validator": shown, **(reviewer_agreement(entries, fold) or {"reviewers": None, "disputed": []})}


def _transcript(
    messages: tuple[Message, ...] | None, edited: set[int], reviewed: int | None
) -> list[dict[str, Any]] | None:
    if messages is None:
        return None
    names = [field.name for field in fields(Message)]
    return [
        {**dict.fromkeys(names), **saved_message(message), "edited": place in edited or place == reviewed}
        for place, message in enumerate(messages)
    ]
