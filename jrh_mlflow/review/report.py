"""A finished review as the metrics, tables and artifacts of an MLflow run."""

from __future__ import annotations

import csv
import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jrh_mlflow.measures.markdown import table
from jrh_mlflow.review.agreement import reviewer_agreement, validator_agreement
from jrh_mlflow.review.contents import Entry
from jrh_mlflow.review.result import Finished
from jrh_mlflow.review.sources import Review
from jrh_mlflow.review.states import ACCEPTED, DECIDED, EDITED, REJECTED, STATES, Event, Fold, Standing
from jrh_mlflow.tracking import keys
from jrh_mlflow.tracking.review_traces import Decision, ReviewedItem, log_review_traces
from jrh_mlflow.tracking.runs import first_tags
from jrh_mlflow.tracking.store import Store, ending, note_tag

TABLE = "decisions.json"
"""One row per item, as `mlflow.load_table` and the MLflow UI read it."""
EVENTS = "decisions.csv"
"""One row per click, in order."""
_EVENT_COLUMNS = ("number", "when", "who", "action", "item", "state", "label", "reason", "text", "text_before")
_MAX_SHOWN = 2000
_KEPT = (
    "its metrics and decisions are complete, and the reviewed suite is in {path}. "
    "Finishing the review again logs it again, as another run."
)


def log_review(review: Review, done: Finished, *, who: str, store: Store) -> dict[str, Any]:
    """Log a finished review and return run id, link and metrics.

    Raises:
        TrackingError: when MLflow cannot be reached; the reviewed suite is on disk whatever happens here.
    """
    _, entries = review.placed()
    events = review.decisions.events(since=0, limit=2**31)
    with review.decisions.current() as fold:
        facts = _facts(review, done, entries, fold)
        rows = [_item_row(entry, fold) for entry in entries.values()]
        points = _points(facts["states"], entries, fold)
        decided = _decided(done, entries, fold)
    parent = {"sha256": done.parent.sha256, "n_items": len(done.parent.items)}
    suite = {"name": done.suite.name, "sha256": done.suite.sha256, "n_items": len(done.suite)}
    tags = {"mlflow.loggedArtifacts": json.dumps([{"path": TABLE, "type": "table"}]), **note_tag(_note(facts))}
    if generated := done.suite.origin.get("generate_run_id"):
        tags[keys.TAG_GENERATED_BY] = str(generated)
    run_id = store.create_run(f"review {done.parent.name}", tags=first_tags("review", simulated=False))
    with ending(store, run_id), tempfile.TemporaryDirectory(prefix="jrh-") as name:
        folder = Path(name)
        done.suite.save(folder / "suite")
        (folder / "review.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        (folder / TABLE).write_text(_split(rows), encoding="utf-8")
        _write_events(folder / EVENTS, events)
        params = keys.grouped_params(suite=suite, parent=parent, review={"finished_by": who})
        with store.errors(f"The reviewed suite is in {done.path}; finishing the review again logs it again."):
            store.log(run_id, points=points, params=params, tags=tags, artifacts=folder, suite=done.suite)
            # Last: traces are a view of the decisions, and a run must not lack its numbers because of one.
            log_review_traces(store, run_id, decided, kept=_KEPT.format(path=done.path))
    return {"run_id": run_id, "link": store.link(run_id), "metrics": keys.last_values(points)}


def _decided(done: Finished, entries: Mapping[int, Entry], fold: Fold) -> list[ReviewedItem]:
    """Return the items with a decision; those that somebody edited or rejected come first."""
    validator = str((done.parent.suite.origin if done.parent.suite else {}).get("validator") or "validator")
    found = [
        _reviewed_item(entry, standing, standing.by, validator)
        for entry in entries.values()
        if (standing := fold.of(entry.key)).by is not None and standing.state.state in DECIDED
    ]
    return sorted(found, key=lambda one: {one.state, *(each.state for each in one.decisions)} == {ACCEPTED})


def _reviewed_item(entry: Entry, standing: Standing, by: Event, validator: str) -> ReviewedItem:
    state = standing.state
    own = [(who, mine) for who in standing.own if (mine := standing.mine(who))]
    return ReviewedItem(
        item=entry.item,
        source=entry.source,
        test=entry.test,
        part=entry.part,
        state=state.state,
        by=by.who,
        when=by.when,
        label=None if state.state == REJECTED else state.label or entry.item.expected,
        decisions=[Decision(who=who, state=mine.state, reason=mine.reason) for who, mine in own],
        verdict=entry.verdict,
        validator=validator,
        edited_text=state.text if state.state == EDITED else None,
        edited_message=state.message if state.state == EDITED else None,
    )


def _facts(review: Review, done: Finished, entries: Mapping[int, Entry], fold: Fold) -> dict[str, Any]:
    states = Counter(entry.shown_state(fold.of(entry.key)) for entry in entries.values())
    return {
        "suite": {"name": done.suite.name, "sha256": done.suite.sha256, "n_items": len(done.suite)},
        "parent": {"name": done.parent.name, "sha256": done.parent.sha256},
        "run_id": review.run.run_id if review.run else None,
        "states": {**dict.fromkeys((*STATES, "exempt"), 0), **states},
        "reviewers": fold.reviewers,
        "n_events": fold.last,
        "validator_agreement": validator_agreement(entries.values(), fold).to_dict(),
        "reviewer_agreement": reviewer_agreement(entries, fold),
    }


def _points(states: Mapping[str, int], entries: Mapping[int, Entry], fold: Fold) -> list[keys.Point]:
    between = reviewer_agreement(entries, fold) or {"reviewers": [], "disputed": []}
    return keys.review_points(
        states,
        validator=validator_agreement(entries.values(), fold),
        pairs=between["reviewers"],
        disputed=len(between["disputed"]),
        reviewers=len(fold.reviewers),
    )


def _item_row(entry: Entry, fold: Fold) -> dict[str, Any]:
    standing = fold.of(entry.key)
    state, by, generated = standing.state, standing.by, entry.generated(standing.state.message)
    text = state.text if state.text is not None else generated.text
    return {
        "item": entry.item.id,
        "test": entry.test,
        "state": entry.shown_state(standing),
        "label": state.label or entry.item.expected,
        "label_before": entry.item.expected,
        "validator": entry.item.meta.get("validator"),
        "by": by.who if by else None,
        "when": by.when if by else None,
        "reason": state.reason,
        # The whole texts are in the suite and in decisions.csv; this table is looked at in the UI.
        "text": (text or "")[:_MAX_SHOWN],
        "text_before": (generated.text or "")[:_MAX_SHOWN] if state.text is not None else None,
    }


def _split(rows: list[dict[str, Any]]) -> str:
    columns = list(rows[0]) if rows else []
    return json.dumps({"columns": columns, "data": [list(row.values()) for row in rows]})


def _write_events(file: Path, events: list[Event]) -> None:
    with file.open("w", encoding="utf-8", newline="", errors="replace") as sink:
        writer = csv.writer(sink)
        writer.writerow(_EVENT_COLUMNS)
        for event in events:
            after, before = event.after, event.before
            item = event.item.partition(" ")[2]
            about = (event.number, event.when, event.who, event.action, item, after.state, after.label, after.reason)
            writer.writerow((*about, after.text, before.text))


def _note(facts: Mapping[str, Any]) -> str:
    """Return the run's description; names are not in it, since they are anybody's text."""
    rows = [[state, str(count)] for state, count in facts["states"].items()]
    reading = facts["validator_agreement"]
    told = "The validator gave no verdict on what was decided."
    if reading["kind"] == "estimate":
        low, high = reading["ci_low"], reading["ci_high"]
        told = (
            f"Validator and reviewers agree on {reading['value']:.3f} [{low:.2f}, {high:.2f}] of {reading['n']} items."
        )
    lines = ["# Review", "", *table(["state", "items"], rows), "", told, "", f"Reviewers: {len(facts['reviewers'])}."]
    return "\n".join(lines) + "\n"
