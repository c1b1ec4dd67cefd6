"""The end of a review: the reviewed suite is written beside its parent, and logged as an MLflow run.

The reviewed suite holds what was accepted as it is, what was edited as it was edited, and nothing else.

Decisions may also come from a table, as a review's `decisions.csv` holds them: a review that needs no browser.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from jrh_mlflow.errors import ReviewError, TrackingError, suggest
from jrh_mlflow.outputs import csv_text, remove_guard
from jrh_mlflow.review.assignment import (
    assigned_to,
    assignment_facts,
    disagreements,
    reviewer_agreement,
    validator_agreement,
)
from jrh_mlflow.review.contents import Content, Review, ReviewCatalog, ReviewEntry, progress, shown_states
from jrh_mlflow.review.decisions import (
    ACCEPTED,
    DECIDED,
    EDITED,
    EXEMPT,
    REJECTED,
    UNDECIDED,
    Click,
    ConflictError,
    GeneratedPart,
    Standings,
)
from jrh_mlflow.schema.items import Item
from jrh_mlflow.show.numbers import interval_text, number_text
from jrh_mlflow.show.page import Page, Section
from jrh_mlflow.show.tables import Column, Table
from jrh_mlflow.suites.dataset import is_missing, read_table
from jrh_mlflow.suites.suite import Suite, holds_suite
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import RunContent, Store, open_run, publish, table_tags, table_text
from jrh_mlflow.tracking.traces.call_traces import ReviewedItem, ReviewerDecision, log_review_traces

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
        row = {str(name): str(remove_guard(cell)) for name, cell in record.items() if not is_missing(cell)}
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
    edits: dict[str, Any] = {name: row.get(name) for name in ("text", "label")} if state == EDITED else {}
    now = standing.state
    if now.state == state and (now.text, now.label) == (edits.get("text"), edits.get("label")):
        return None
    reason = row.get("reason") or ("rejected by the decisions file" if state == REJECTED else None)
    return Click(action=_ACTIONS[state], who=row.get("who") or who, version=standing.version, reason=reason, **edits)


_LEFT_OUT = (REJECTED, UNDECIDED)
_EVENT_COLUMNS = (
    "number", "when", "who", "action", "item", "state", "label", "reason", "text", "text_before", "settles"
)  # fmt: skip
_MAX_SHOWN = 2000
_KEPT = (
    "its metrics and decisions are complete, and the reviewed suite is in {path}. "
    "Finishing the review again logs it again, as another run."
)


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A review that was brought to its end."""

    suite: Suite
    path: Path
    left_out: dict[str, int]
    """How many items were `rejected`, and how many `undecided`."""
    parent: Content
    disagreements: dict[str, int]
    """How many items reviewers disagree on: `settled`, and `unsettled`, where the last decision stands."""

    @property
    def facts(self) -> dict[str, Any]:
        """Where it is and what it holds, as whoever finished it is told."""
        n_items = len(self.suite)
        about = {"path": str(self.path), "sha256": self.suite.sha256, "n_items": n_items, "left_out": self.left_out}
        return {**about, "disagreements": self.disagreements}


def finish(review: Review, *, who: str, allow_undecided: bool = False) -> Finished:
    """Write the reviewed suite beside its parent and return it.

    Where reviewers disagree, the decision that settled it counts, and without one the last decision.
    A suite that was written before is left as it is; another one gets the next free name.

    Raises:
        ConflictError: while items still arrive, or when items are undecided and that was not allowed.
        ReviewError: when nothing was accepted.
    """
    content, entries = review.placed()
    if content.growing:
        raise ConflictError("Items still arrive: finish the review when generation has ended.")
    with review.decisions.current() as standings:
        suite, left_out = reviewed_suite(content, entries, standings)
        last, finished = standings.last, standings.finished
        needed = progress(entries.values(), standings)["needed"]
        disputes = disagreements(entries.values(), standings)
    if left_out[UNDECIDED] and not allow_undecided:
        raise ConflictError(
            f"{left_out[UNDECIDED]} of {needed['total']} items are undecided. "
            "Decide them, or finish without them: --allow-undecided."
        )
    path = _saved(suite, review.result)
    # Finishing twice without a decision between leaves one event.
    if finished is None or finished.facts.get("sha256") != suite.sha256:
        review.decisions.finish(who, {"sha256": suite.sha256, "name": path.name, "left_out": left_out}, last=last)
    review.hold()
    review.mark(str(content.sha256), "finished", result=path.name)
    return Finished(suite=suite, path=path, left_out=left_out, parent=content, disagreements=disputes)


def reviewed_suite(
    content: Content, entries: Mapping[int, ReviewEntry], standings: Standings
) -> tuple[Suite, dict[str, int]]:
    """Return the suite that the decisions so far lead to, and how many items it leaves out."""
    of_item = {id(entry.item): entry for entry in entries.values()}
    kept: list[Item] = []
    counts: Counter[str] = Counter()
    decided: Counter[tuple[str, int | None, str]] = Counter()
    for item in content.items:
        entry = of_item.get(id(item))
        if entry is None:
            kept.append(item)
            continue
        state = entry.shown(standings.of(entry.key).state)
        counts[state] += 1
        decided[entry.test, _first_message(item), state] += 1
        if state not in _LEFT_OUT:
            kept.append(_reviewed(entry, standings))
    if counts and counts.keys() <= set(_LEFT_OUT):
        raise ReviewError("Nothing was accepted: the reviewed suite would hold no perturbed item.")
    name = content.name if content.name.endswith("-reviewed") else f"{content.name}-reviewed"
    origin = {**_origin(content, counts, standings), "decided": _decided_rows(decided)}
    suite = Suite(name=name, items=kept, origin=origin)
    return suite, {state: counts[state] for state in _LEFT_OUT}


def _first_message(item: Item) -> int | None:
    """Return which message of a transcript was changed first, counted from 1; None of a response."""
    edited = item.meta.get("edited") if item.transcript else None
    return min(edited) + 1 if edited else None


def _decided_rows(counts: Mapping[tuple[str, int | None, str], int]) -> list[dict[str, Any]]:
    """Return how often a state was decided, by test and first changed message."""
    keys_of = sorted(counts, key=lambda key: (key[0], key[1] or 0, key[2]))
    return [dict(zip(("test", "message", "state", "n"), (*key, counts[key]), strict=True)) for key in keys_of]


def _reviewed(entry: ReviewEntry, standings: Standings) -> Item:
    """Return an item as decided, with who decided it and what it was before."""
    standing = standings.of(entry.key)
    if standing.by is None or entry.shown(standing.state) == EXEMPT:
        return entry.item
    state, by = standing.state, standing.by
    about: dict[str, Any] = {"state": state.state, "by": by.who, "when": by.when}
    about |= {"settled": True} if by.settles else {}
    if state.state == EDITED:
        generated = entry.generated(state.message)
        if state.text is not None:
            about["text_before"] = generated.text or ""
        about |= {"label_before": generated.label} if state.label is not None else {}
    item = entry.applied(state)
    return replace(item, meta={**item.meta, "review": about})


def _origin(content: Content, counts: Mapping[str, int], standings: Standings) -> dict[str, Any]:
    parent = dict(content.suite.origin) if content.suite else {}
    # The parent's marks say that it is under review, which its result is not.
    kept = {key: value for key, value in parent.items() if not key.startswith("review")}
    return {
        **kept,
        "builder": "review",
        "parent_builder": parent.get("builder"),
        "parent_sha256": content.sha256,
        "parent_name": content.name,
        "reviewed_by": standings.reviewers,
        "decisions": dict(counts),
        "n_events": standings.last,
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
                if holds_suite(path, suite):
                    return path
                number += 1
                continue
            try:
                return draft.rename(path)
            except OSError as error:
                if not path.exists():  # otherwise another process took the name in this moment
                    raise ReviewError(f"The reviewed suite cannot be written to {path}: {error}.") from error


@dataclass(frozen=True, kw_only=True)
class ReviewLogger:
    """Logs finished reviews in a tracking store."""

    tracking_uri: str | None = None
    """When None, the store that the suite was read from, or the active one."""
    experiment: str | None = None
    beside_run: bool = False
    """Log into the experiment of the run that the suite was read from."""
    enabled: bool = True
    tags: Mapping[str, str] = field(default_factory=dict)
    """More tags for the run."""

    def __call__(self, review: Review, done: Finished, who: str) -> dict[str, Any]:
        """Log a review; what cannot be logged is said, not lost."""
        if not self.enabled:
            return {}
        try:
            beside = review.run.experiment_id if self.beside_run and review.run else None
            store = Store(self.tracking_uri or review.tracking_uri, self.experiment, experiment_id=beside)
            return log_review(review, done, who=who, store=store, tags=self.tags)
        except TrackingError as error:
            return {"run_id": None, "note": str(error)}


def log_review(
    review: Review, done: Finished, *, who: str, store: Store, tags: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Log a finished review and return run id, link and metrics.

    Raises:
        TrackingError: when MLflow cannot be reached; the reviewed suite is on disk whatever happens here.
    """
    content = _run_content(review, done, who=who)
    what_now = f"The reviewed suite is in {done.path}; finishing the review again logs it again."
    with open_run(store, "review", f"review {done.parent.name}", tags=tags) as run_id:
        metrics = publish(store, run_id, content, what_now=what_now)
    return {"run_id": run_id, "link": store.link(run_id), "metrics": metrics}


def _run_content(review: Review, done: Finished, *, who: str) -> RunContent:
    _, entries = review.placed()
    with review.decisions.current() as standings:
        facts, points = _facts(review, done, entries, standings)
        rows = [_item_row(entry, standings) for entry in entries.values()]
        decided = _decided(done, entries.values(), standings)
    parent = {"sha256": done.parent.sha256, "n_items": len(done.parent.items)}
    tags = table_tags(keys.DECISIONS_TABLE)
    if generated := done.suite.origin.get("generate_run_id"):
        tags[keys.TAG_GENERATED_BY] = str(generated)
    page = _page(facts)
    return RunContent(
        points=points,
        params={"suite": facts["suite"], "parent": parent, "review": {"finished_by": who}},
        description=page.to_markdown(),
        described_in=keys.REVIEW_JSON,
        tags=tags,
        artifacts={
            keys.REVIEW_JSON: json.dumps(facts, indent=1) + "\n",
            keys.PAGE_JSON: page.to_dict(),
            keys.DECISIONS_TABLE: table_text(rows),
            keys.DECISIONS_FILE: _events_csv(review),
        },
        suite=done.suite,
        traces=partial(log_review_traces, items=decided, kept=_KEPT.format(path=done.path)),
    )


def _facts(
    review: Review, done: Finished, entries: Mapping[int, ReviewEntry], standings: Standings
) -> tuple[dict[str, Any], list[keys.Point]]:
    """Return what `review.json` holds, and the metrics of the run."""
    states = shown_states(entries.values(), standings)
    validator = validator_agreement(entries.values(), standings)
    between = reviewer_agreement(entries, standings)
    assignment = assignment_facts(entries, standings)
    facts = {
        "suite": keys.suite_facts(done.suite),
        "parent": {"name": done.parent.name, "sha256": done.parent.sha256},
        "run_id": review.run.run_id if review.run else None,
        "states": states,
        "decided": done.suite.origin["decided"],
        "progress": progress(entries.values(), standings),
        "reviewers": standings.reviewers,
        "n_events": standings.last,
        "validator_agreement": validator.to_dict(),
        "reviewer_agreement": between,
        "disagreements": done.disagreements,
        "assignment": assignment,
    }
    return facts, _points(facts) + keys.reading_points("review/validator_agreement", validator)


def _points(facts: Mapping[str, Any]) -> list[keys.Point]:
    """Spell a review: `review/accepted`, `review/reviewer_agreement/rate`, and so on."""
    between = facts["reviewer_agreement"] or {"reviewers": [], "disputed": []}
    pairs, n = between["reviewers"], sum(pair["n"] for pair in between["reviewers"])
    values: dict[str, float | None] = {f"review/{name}": count for name, count in facts["states"].items()}
    values |= {"review/reviewers": len(facts["reviewers"]), "review/disputed": len(between["disputed"])}
    values |= {f"review/disagreements/{state}": count for state, count in facts["disagreements"].items()}
    # In the order of `review.json`: names are anybody's text and no keys.
    for number, reviewer in enumerate((facts["assignment"] or {"reviewers": []})["reviewers"], 1):
        values |= {f"review/reviewer_{number}/{part}": count for part, count in reviewer.items() if part != "name"}
    if n:
        values["review/reviewer_agreement/rate"] = sum(pair["rate"] * pair["n"] for pair in pairs) / n
        values["review/reviewer_agreement/n"] = n
    # Agreement beyond chance is of two people: over several pairs there is no one number of it.
    if len(pairs) == 1:
        values |= {f"review/reviewer_agreement/{name}": pairs[0][name] for name in ("kappa", "ac1")}
    return keys.known_points(values)


def _decided(done: Finished, entries: Iterable[ReviewEntry], standings: Standings) -> list[ReviewedItem]:
    """Return the items with a decision; those that somebody edited or rejected come first."""
    validator = str((done.parent.suite.origin if done.parent.suite else {}).get("validator") or "validator")
    items = [
        _reviewed_item(entry, standings, validator)
        for entry in entries
        if standings.of(entry.key).state.state in DECIDED
    ]
    return sorted(items, key=lambda item: {item.state, *(decision.state for decision in item.decisions)} == {ACCEPTED})


def _reviewed_item(entry: ReviewEntry, standings: Standings, validator: str) -> ReviewedItem:
    standing = standings.of(entry.key)
    state, by = standing.state, standing.stack[-1]
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
        decisions=[ReviewerDecision(who=who, state=mine.state, reason=mine.reason) for who, mine in own],
        verdict=entry.verdict,
        validator=str(entry.item.meta.get("confirmed_by") or validator),
        edited_text=state.text if state.state == EDITED else None,
        edited_message=state.message if state.state == EDITED else None,
    )


def _item_row(entry: ReviewEntry, standings: Standings) -> dict[str, Any]:
    standing = standings.of(entry.key)
    state, by, generated = standing.state, standing.by, entry.generated(standing.state.message)
    text = state.text if state.text is not None else generated.text
    return {
        "item": entry.item.id,
        "test": entry.test,
        "state": entry.shown(standing.state),
        "label": state.label or entry.item.expected,
        "label_before": entry.item.expected,
        "validator": entry.item.meta.get("validator"),
        "by": by.who if by else None,
        "when": by.when if by else None,
        "reason": state.reason,
        "assigned_to": ", ".join(assigned_to(entry, standings)) or None,
        "decided_by": ", ".join(standing.opinions) or None,
        "disagreement": standing.disagreement,
        # The whole texts are in the suite and in decisions.csv; this table is looked at in the UI.
        "text": (text or "")[:_MAX_SHOWN],
        "text_before": (generated.text or "")[:_MAX_SHOWN] if state.text is not None else None,
    }


def _events_csv(review: Review) -> bytes:
    rows = []
    for event in review.decisions.events():
        after, before = event.after, event.before
        # The key is a hash and the id; the table names items as the suite does.
        item = event.item.partition(" ")[2]
        about = (event.number, event.when, event.who, event.action, item, after.state, after.label, after.reason)
        rows.append((*about, after.text, before.text, "yes" if event.settles else None))
    return csv_text(pd.DataFrame(rows, columns=_EVENT_COLUMNS, dtype=object)).encode()


_STATES = Table[tuple[str, int]].of(Column("state", lambda row: row[0]), Column("items", lambda row: str(row[1])))
_BY_TEST = Table[Mapping[str, Any]].of(
    Column("test", lambda row: str(row["test"])),
    Column("first changed message", lambda row: "–" if row["message"] is None else str(row["message"])),
    Column("state", lambda row: str(row["state"])),
    Column("items", lambda row: str(row["n"])),
)


def _page(facts: Mapping[str, Any]) -> Page:
    """Return what people see of the run."""
    reading = facts["validator_agreement"]
    needed = facts["progress"]["needed"]
    states = ", ".join(f"{needed[state]} {state}" for state in DECIDED)
    decided = f"{needed['decided']} of {needed['total']} items are decided: {states}."
    agreement = "The validator gave no verdict on what was decided."
    if reading["kind"] == "estimate":
        share = f"{number_text(reading['value'])} {interval_text(reading['ci_low'], reading['ci_high'])}"
        agreement = f"Validator and reviewers agree on {share} of {reading['n']} items."
    reviewers = [f"Reviewers: {len(facts['reviewers'])}."]
    disputes = facts["disagreements"]
    if any(disputes.values()):
        settled, unsettled = disputes["settled"], disputes["unsettled"]
        reviewers.append(f"Disagreements: {settled} settled, {unsettled} unsettled (there the last decision counts).")
    if facts["assignment"]:
        done, assigned = (
            sum(reviewer[name] for reviewer in facts["assignment"]["reviewers"]) for name in ("decided", "assigned")
        )
        reviewers.append(f"Assigned: {done} of {assigned} decided by whom they were assigned to.")
    return Page(
        title=f"Review of {facts['parent']['name']}",
        lead=decided,
        sentences=[agreement, *reviewers],
        sections=[
            Section(heading="Items", blocks=[_STATES(facts["states"].items())]),
            Section(heading="By test and message", blocks=[_BY_TEST(facts["decided"])]),
        ],
    )


def finish_now(catalog: ReviewCatalog, *, reviewer: str, allow_undecided: bool, log: ReviewLogger) -> dict[str, Any]:
    """Write the reviewed suite of the one suite in a catalog, without a server."""
    (review,) = catalog.reviews()
    done = finish(review, who=reviewer, allow_undecided=allow_undecided)
    return {**done.facts, **log(review, done, reviewer)}


def withdraw(catalog: ReviewCatalog) -> list[str]:
    """End reviews without a result: their suites can be judged as they were generated. Decisions stay on disk."""
    lines = []
    for review in catalog.reviews():
        content = review.content()
        if content.sha256 is not None:
            review.mark(content.sha256, None)
        with review.decisions.current() as standings:
            states = [entry.shown(standings.of(entry.key).state) for entry in content.entries]
        lines.append(f"{content.name}: review withdrawn, {states.count(UNDECIDED)} items undecided")
    return lines
