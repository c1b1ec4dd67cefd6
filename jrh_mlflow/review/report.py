"""The reviewed suite: what was accepted as it is, what was edited as it was edited, and nothing else.

A finished review as the metrics, tables and artifacts of an MLflow run.
"""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from jrh_mlflow.errors import ReviewError, SuiteError
from jrh_mlflow.reports.markdown import table
from jrh_mlflow.review.contents import Content, Entry
from jrh_mlflow.review.sources import Review
from jrh_mlflow.review.states import (
    ACCEPTED,
    DECIDED,
    EDITED,
    EXEMPT,
    REJECTED,
    STATES,
    UNDECIDED,
    ConflictError,
    Event,
    Fold,
    Standing,
    State,
)
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.items import Item
from jrh_mlflow.stats.agreement import gwet_ac1, quadratic_kappa
from jrh_mlflow.stats.proportions import cluster_wilson, wilson
from jrh_mlflow.suites.suite import Suite, read_suite
from jrh_mlflow.tracking import keys
from jrh_mlflow.tracking.publish import RunContent, open_run, publish
from jrh_mlflow.tracking.review_traces import Decision, ReviewedItem, log_review_traces
from jrh_mlflow.tracking.store import Store

_LEFT_OUT = (REJECTED, UNDECIDED)


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A review that was brought to its end."""

    suite: Suite
    path: Path
    left_out: dict[str, int]
    """How many items were `rejected`, and how many `undecided`."""
    parent: Content


def finish(review: Review, *, who: str, allow_undecided: bool = False) -> Finished:
    """Write the reviewed suite beside its parent and return it.

    A suite that was written before is left as it is; another one gets the next free name.

    Raises:
        ConflictError: while items still arrive, or when items are undecided and that was not allowed.
        ReviewError: when nothing was accepted.
    """
    content, entries = review.placed()
    if content.growing:
        raise ConflictError("Items still arrive: finish the review when generation has ended.")
    with review.decisions.current() as fold:
        suite, left_out = reviewed_suite(content, entries, fold)
        last, finished = fold.last, fold.finished
    if left_out[UNDECIDED] and not allow_undecided:
        raise ConflictError(
            f"{left_out[UNDECIDED]} of {len(entries)} items are undecided. "
            "Decide them, or finish without them: --allow-undecided."
        )
    path = _saved(suite, review.result)
    if finished is None or finished.facts.get("sha256") != suite.sha256:
        review.decisions.finish(who, {"sha256": suite.sha256, "name": path.name, "left_out": left_out}, last=last)
    review.hold()
    review.mark(str(content.sha256), "finished", result=path.name)
    return Finished(suite=suite, path=path, left_out=left_out, parent=content)


def reviewed_suite(content: Content, entries: Mapping[int, Entry], fold: Fold) -> tuple[Suite, dict[str, int]]:
    """Return the suite that the decisions so far lead to, and how many items it leaves out."""
    of_item = {id(entry.item): entry for entry in entries.values()}
    kept: list[Item] = []
    counts: Counter[str] = Counter()
    for item in content.items:
        entry = of_item.get(id(item))
        if entry is None:
            kept.append(item)
            continue
        state = entry.shown_state(fold.of(entry.key))
        counts[state] += 1
        if state not in _LEFT_OUT:
            kept.append(_reviewed(entry, fold))
    if counts and counts.keys() <= set(_LEFT_OUT):
        raise ReviewError("Nothing was accepted: the reviewed suite would hold no perturbed item.")
    name = content.name if content.name.endswith("-reviewed") else f"{content.name}-reviewed"
    suite = Suite(name=name, items=kept, origin=_origin(content, counts, fold))
    return suite, {state: counts[state] for state in _LEFT_OUT}


def _reviewed(entry: Entry, fold: Fold) -> Item:
    """Return an item as decided, with who decided it and what it was before."""
    standing = fold.of(entry.key)
    if standing.by is None or entry.shown_state(standing) == EXEMPT:
        return entry.item
    state, by = standing.state, standing.by
    about: dict[str, Any] = {"state": state.state, "by": by.who, "when": by.when}
    if state.state == EDITED:
        generated = entry.generated(state.message)
        if state.text is not None:
            about["text_before"] = generated.text or ""
        about |= {"label_before": generated.label} if state.label is not None else {}
    item = entry.applied(state)
    return replace(item, meta={**item.meta, "review": about})


def _origin(content: Content, counts: Mapping[str, int], fold: Fold) -> dict[str, Any]:
    parent = dict(content.suite.origin) if content.suite else {}
    kept = {key: value for key, value in parent.items() if not key.startswith("review")}
    return {
        **kept,
        "builder": "review",
        "parent_builder": parent.get("builder"),
        "parent_sha256": content.sha256,
        "parent_name": content.name,
        "reviewed_by": fold.reviewers,
        "decisions": dict(counts),
        "n_events": fold.last,
    }


def _saved(suite: Suite, wanted: Path) -> Path:
    """Write a suite under the first free name, whole or not at all; the same suite is not written twice."""
    wanted.parent.mkdir(parents=True, exist_ok=True)
    number = 1
    with tempfile.TemporaryDirectory(dir=wanted.parent, prefix=".review-") as folder:
        draft = suite.save(Path(folder) / "suite")
        while True:
            path = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
            if path.exists():
                if _holds(path, suite):
                    return path
                number += 1
                continue
            try:
                return draft.rename(path)
            except OSError as error:
                if not path.exists():  # otherwise another process took the name in this moment
                    raise ReviewError(f"The reviewed suite cannot be written to {path}: {error}.") from error


def _holds(path: Path, suite: Suite) -> bool:
    try:
        return read_suite(path).sha256 == suite.sha256
    except SuiteError:
        return False


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
    tags = {keys.TAG_LOGGED_ARTIFACTS: json.dumps([{"path": keys.DECISIONS_TABLE, "type": "table"}])}
    if generated := done.suite.origin.get("generate_run_id"):
        tags[keys.TAG_GENERATED_BY] = str(generated)
    content = RunContent(
        points=points,
        params={"suite": keys.suite_facts(done.suite), "parent": parent, "review": {"finished_by": who}},
        description=_note(facts),
        described_in=keys.REVIEW_JSON,
        tags=tags,
        artifacts={
            keys.REVIEW_JSON: json.dumps(facts, indent=1) + "\n",
            keys.DECISIONS_TABLE: _split(rows),
            keys.DECISIONS_FILE: _events_csv(events),
        },
        suite=done.suite,
        traces=partial(log_review_traces, items=decided, kept=_KEPT.format(path=done.path)),
    )
    with open_run(store, "review", f"review {done.parent.name}") as run_id:
        what_now = f"The reviewed suite is in {done.path}; finishing the review again logs it again."
        metrics = publish(store, run_id, content, what_now=what_now)
    return {"run_id": run_id, "link": store.link(run_id), "metrics": metrics}


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
        "suite": keys.suite_facts(done.suite),
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


def _events_csv(events: list[Event]) -> bytes:
    sink = io.StringIO(newline="")
    writer = csv.writer(sink)
    writer.writerow(_EVENT_COLUMNS)
    for event in events:
        after, before = event.after, event.before
        item = event.item.partition(" ")[2]
        about = (event.number, event.when, event.who, event.action, item, after.state, after.label, after.reason)
        writer.writerow((*about, after.text, before.text))
    return sink.getvalue().encode("utf-8", "replace")


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


def validator_agreement(entries: Iterable[Entry], fold: Fold) -> Reading:
    """Share of decided items on which the validator's verdict is the reviewers' decision.

    A kept item agrees when the verdict is the label it carries after review; a rejected one when the validator had not
    given the expected answer either. The denominator are decided items that a validator answered; `excluded` counts
    decided ones that it did not.
    """
    agreed: dict[str, list[bool]] = {}
    excluded = 0
    for entry in entries:
        state = fold.of(entry.key).state
        if state.state not in DECIDED:
            continue
        if entry.verdict is None:
            excluded += 1
            continue
        agreed.setdefault(entry.item.task, []).append(_agrees(entry.verdict, entry, state))
    return _share(agreed, excluded)


def reviewer_agreement(entries: Mapping[int, Entry], fold: Fold) -> dict[str, Any] | None:
    """For each two reviewers the share of items both decided that both keep or both reject, kappa and AC1.

    Returns:
        None with fewer than two reviewers, or when no two decided the same item.
    """
    pairs = [_pair(one, other, entries, fold) for one, other in combinations(fold.reviewers, 2)]
    pairs = [pair for pair in pairs if pair["n"]]
    if not pairs:
        return None
    disputed = [place for place, entry in entries.items() if _disputed(entry, fold)]
    return {"reviewers": pairs, "disputed": disputed}


def _agrees(verdict: str, entry: Entry, state: State) -> bool:
    if state.state == REJECTED:
        return verdict != entry.item.expected
    return verdict == (state.label or entry.item.expected)


def _share(agreed: Mapping[str, list[bool]], excluded: int) -> Reading:
    successes = np.array([sum(found) for found in agreed.values()], dtype=float)
    sizes = np.array([len(found) for found in agreed.values()], dtype=float)
    if not len(sizes):
        return NotEstimable(reason="no decided item has a validator's verdict", excluded=excluded)
    right, n = int(successes.sum()), int(sizes.sum())
    low, high = wilson(right, n)
    cluster = cluster_wilson(successes, sizes)
    return Estimate(
        value=right / n,
        n=n,
        excluded=excluded,
        ci_low=low,
        ci_high=high,
        cluster_low=cluster[0] if cluster else None,
        cluster_high=cluster[1] if cluster else None,
        n_clusters=len(sizes),
        method="wilson",
        unit="item",
        numerator=right,
    )


def _pair(one: str, other: str, entries: Mapping[int, Entry], fold: Fold) -> dict[str, Any]:
    both = [
        (mine.state, theirs.state)
        for entry in entries.values()
        if (mine := fold.of(entry.key).mine(one)) and (theirs := fold.of(entry.key).mine(other))
    ]
    kept = np.array([[state != REJECTED for state in pair] for pair in both], dtype=float).reshape(-1, 2)
    return {
        "reviewers": [one, other],
        "n": len(both),
        "rate": float((kept[:, 0] == kept[:, 1]).mean()) if both else None,
        # On two categories Cohen's kappa with quadratic weights is Cohen's kappa.
        "kappa": quadratic_kappa(kept[:, 0], kept[:, 1], n_levels=2) if both else None,
        "ac1": gwet_ac1(kept, n_categories=2) if both else None,
        "same_decision": float(np.mean([mine == theirs for mine, theirs in both])) if both else None,
    }


def _disputed(entry: Entry, fold: Fold) -> bool:
    standing = fold.of(entry.key)
    kept = {mine.state != REJECTED for who in standing.own if (mine := standing.mine(who))}
    return len(kept) > 1
