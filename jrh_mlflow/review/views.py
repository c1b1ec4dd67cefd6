"""What the page receives, as JSON-ready data: suites, lists of items, one item, events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from jrh_mlflow.errors import JrhError
from jrh_mlflow.review.contents import Content, ReviewEntry, shown_states
from jrh_mlflow.review.reviewer_agreement import reviewer_agreement, validator_agreement
from jrh_mlflow.review.sources import Review
from jrh_mlflow.review.states import DECIDED, Event, Standing, Standings, plain
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.presentation import Message, saved_message

Short = Annotated[str, Field(max_length=200)]
ANY = "any"
"""As a filter: whatever check failed."""


class Filter(BaseModel):
    """Which items are meant; what is empty does not filter."""

    model_config = ConfigDict(extra="forbid", strict=True)

    test: Short = ""
    state: Short = ""
    failed_check: Short = ""
    """A check by name, or `any`."""
    q: Short = ""
    """Text to be found in id, instruction, rubric, texts or reason; upper and lower case are the same."""
    mine: Short = ""
    """State of the reviewer's own decision, for a second, blind review."""
    reviewer: Annotated[Short, AfterValidator(str.strip)] = ""
    """Whose own decision `mine` is about; does not filter by itself."""

    def takes(self, entry: ReviewEntry, standing: Standing) -> bool:
        """Tell whether an item is meant."""
        return (
            (not self.test or entry.test == self.test)
            and (not self.state or entry.shown(standing.state) == self.state)
            and (not self.mine or _mine(standing, self.reviewer, default="undecided") == self.mine)
            and (not self.failed_check or _matches(self.failed_check, entry.failed_as(standing.state)))
            and (not self.q or self._found(entry, standing))
        )

    def _found(self, entry: ReviewEntry, standing: Standing) -> bool:
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
    with review.decisions.current() as standings:
        decided = sum(standings.of(entry.key).state.state in DECIDED for entry in entries.values())
    return {**row, "name": content.name, "sha256": content.sha256, "n_items": len(entries), "n_decided": decided}


def suite_page(review: Review) -> dict[str, Any]:
    """Return what the head of the page shows."""
    content, entries = review.placed()
    with review.decisions.current() as standings:
        return {
            "key": review.key,
            "name": content.name,
            "sha256": content.sha256,
            "n_items": len(entries),
            "tests": content.tests,
            "states": shown_states(entries.values(), standings),
            "checks": _failed_checks(content, entries, standings),
            "reviewers": standings.reviewers,
            "agreement": _agreement(entries, standings),
            "labels": list(content.labels),
            "growing": content.growing,
            "unreadable": content.unreadable,
            "version": standings.last,
            "finished": dict(standings.finished.facts) if standings.finished else None,
        }


def item_list(review: Review, chosen: Filter, *, offset: int, limit: int) -> dict[str, Any]:
    """Return one stretch of the items that a filter takes."""
    _, entries = review.placed()
    with review.decisions.current() as standings:
        found = list(filtered(entries, standings, chosen))
        rows = [_row(place, entry, standings, chosen.reviewer) for place, entry in found[offset : offset + limit]]
    return {"total": len(found), "items": rows}


def filtered(
    entries: Mapping[int, ReviewEntry], standings: Standings, chosen: Filter
) -> Iterator[tuple[int, ReviewEntry]]:
    """Yield the items that a filter takes, in their order."""
    return ((place, entry) for place, entry in entries.items() if chosen.takes(entry, standings.of(entry.key)))


def item_page(review: Review, place: int, *, reviewer: str) -> dict[str, Any] | None:
    """Return everything about one item, or None when there is none of that number."""
    _, entries = review.placed()
    entry = entries.get(place)
    if entry is None:
        return None
    with review.decisions.current() as standings:
        row = _row(place, entry, standings, reviewer)
        standing = standings.of(entry.key)
        state, history = standing.state, [_history_row(event, entry) for event in standing.history]
    generated, current = entry.generated(state.message), entry.applied(state)
    text = generated.text if state.text is None else state.text
    source = entry.source
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
        "checks": [*entry.rechecked(text), *entry.checks],
        **{name: entry.item.meta.get(name) for name in ("validator", "similarity", "generator", "attempts")},
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


def _event(event: Event, place: int | None, entry: ReviewEntry | None) -> dict[str, Any]:
    return {
        "number": event.number,
        "index": place,
        "who": event.who,
        "when": event.when,
        "action": event.action,
        "state": entry.shown(event.after) if entry else None,
    }


def _row(place: int, entry: ReviewEntry, standings: Standings, reviewer: str) -> dict[str, Any]:
    standing = standings.of(entry.key)
    by = standing.by
    return {
        "index": place,
        "id": entry.item.id,
        "test": entry.test,
        "state": entry.shown(standing.state),
        "expected": standing.state.label or entry.item.expected,
        "version": standing.version,
        "by": by.who if by else None,
        "needs_decision": entry.needs_decision,
        "mine": _mine(standing, reviewer),
    }


def _failed_checks(content: Content, entries: Mapping[int, ReviewEntry], standings: Standings) -> list[str]:
    """Return the names of checks that some item does not pass, sorted."""
    states = [(entry, standings.of(entry.key).state) for entry in entries.values()]
    edited = {name for entry, state in states if state.text is not None for name in entry.failed_as(state)}
    return sorted({*content.failed_checks, *edited})


def _matches(wanted: str, names: frozenset[str]) -> bool:
    return bool(names) if wanted == ANY else wanted in names


def _mine(standing: Standing, reviewer: str, *, default: str | None = None) -> str | None:
    state = standing.mine(reviewer) if reviewer else None
    return state.state if state else default


def _history_row(event: Event, entry: ReviewEntry) -> dict[str, Any]:
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


def _agreement(entries: Mapping[int, ReviewEntry], standings: Standings) -> dict[str, Any] | None:
    """Return what is known of agreement, or None before anything was decided."""
    if not standings.items:
        return None
    reading = validator_agreement(entries.values(), standings)
    if isinstance(reading, Estimate):
        low, high = reading.ci_low, reading.ci_high
        shown: dict[str, Any] = {"rate": reading.value, "n": reading.n, "ci_low": low, "ci_high": high}
    else:
        shown = {"not_estimable": reading.reason}
    return {"validator": shown, **(reviewer_agreement(entries, standings) or {"reviewers": None, "disputed": []})}


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
