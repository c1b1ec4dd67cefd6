"""Decided items of a review as MLflow traces of its run, the decisions as MLflow's own assessments.

The decisions and the reviewed suite are the record; traces are a view of them that MLflow can filter by reviewer,
decision and verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jrh_mlflow.models.transports import known_secrets
from jrh_mlflow.schema.items import Item
from jrh_mlflow.tracking import keys
from jrh_mlflow.tracking.store import Store
from jrh_mlflow.tracking.traces import (
    MAX_COLUMN,
    MAX_TAG,
    Draft,
    Entities,
    column,
    digest_of,
    entities,
    message_texts,
    numbered,
    safe_texts,
    trace_id_of,
    why_no_spans,
    write_traces,
)

if TYPE_CHECKING:
    from mlflow.entities import Assessment

REVIEW = "review"
"""Feedback of each reviewer: `accepted`, `edited` or `rejected`."""
VALIDATOR = "validator"
"""Feedback of the model that was asked to confirm the item: its answer."""
LABEL = "label"
"""Expectation: the label that stands after review."""
EDITED_TEXT = "edited_text"
"""Expectation: what a reviewer made of the text."""

MOST_TRACES = 500
"""Whoever finishes a review waits for them, and each takes MLflow several statements."""

_FROM_META = ("generator", "attempts", "similarity")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewerDecision:
    """What one reviewer decided about an item last."""

    who: str
    state: str
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewedItem:
    """A decided item, and what a trace says about it."""

    item: Item
    """As it was generated."""
    source: Item | None
    """The unperturbed item it was made from, where it is known."""
    test: str
    part: str
    """Which part was rewritten: `response`, `rubric` or `transcript`."""
    state: str
    """The decision that stands."""
    by: str
    when: str
    label: str | None
    """The label that stands; None for a rejected item, and for one without a label."""
    decisions: Sequence[ReviewerDecision]
    verdict: str | None = None
    """The validator's answer; None when it was not asked."""
    validator: str = VALIDATOR
    """Who the validator is."""
    edited_text: str | None = None
    edited_message: int | None = None
    """Of a transcript: which message `edited_text` replaces."""

    def inputs(self) -> dict[str, Any]:
        """What was to be rewritten for which test; of a reworded rubric also the response it is about."""
        item = self.item
        beside = {"response": item.response} if self.part == "rubric" else {"rubric": item.rubric}
        original = _part(self.source, self.part) if self.source else None
        parts = {"instruction": item.instruction, **beside, "original": original, "test": self.test}
        return {name: value for name, value in parts.items() if value is not None}

    def attributes(self) -> dict[str, Any]:
        """How the item was made, and what stands; what is unknown is left out."""
        found: dict[str, Any] = {name: self.item.meta.get(name) for name in _FROM_META}
        found = {name: None if value is None else str(value) for name, value in found.items()}
        found |= {"suite_item": self.item.id, "part": self.part, "decided_by": self.by, "decided_at": self.when}
        found |= {"generated_label": self.item.expected, EDITED_TEXT: self.edited_text}
        found["edited_message"] = self.edited_message
        return {keys.own_key(name): value for name, value in found.items() if value is not None}

    def tags(self) -> dict[str, str]:
        """What traces can be searched by."""
        found = {"suite_item": self.item.id, "condition": self.item.condition, "state": self.state}
        return {"mlflow.traceName": self.test, **{keys.own_key(name): text for name, text in found.items()}}


def log_review_traces(store: Store, run_id: str, items: Sequence[ReviewedItem], *, kept: str) -> int:
    """Write decided items as traces of a review's run, and return how many.

    Each has one Feedback per reviewer, the validator's, and the label and text that stand as Expectations. The first
    `MOST_TRACES` items are written; the run's tag `jrh.traces` says of how many. The first stand on top of MLflow's
    list, which begins with the newest: traces begin at the start of the run, a millisecond apart.

    Raises:
        TrackingError: when MLflow does not hold every trace in the end; `kept` says what is safe, and what to do.
    """
    reason = why_no_spans(store)
    chosen = () if reason else items[:MOST_TRACES]
    if chosen:
        run, secrets = store.client.get_run(run_id), known_secrets()
        experiment_id, last_ms = str(run.info.experiment_id), int(run.info.start_time) + len(chosen)
        traces = (_trace_of(one, run_id, experiment_id, last_ms - place, secrets) for place, one in enumerate(chosen))
        write_traces(store, run_id, traces, kept=kept)
    told = f"{len(chosen)} of {len(items)} decided items{reason and f' ({reason})'}"
    store.client.set_tag(run_id, keys.TAG_TRACES, told)
    return len(chosen)


def _trace_of(
    reviewed: ReviewedItem, run_id: str, experiment_id: str, start_ms: int, secrets: Sequence[str]
) -> Entities:
    digest = digest_of(run_id, reviewed.item.id)
    tags = safe_texts(reviewed.tags(), secrets)
    draft = Draft(
        digest=digest,
        run_id=run_id,
        experiment_id=experiment_id,
        start_ms=start_ms,
        span="review",
        about=tags[keys.own_key("suite_item")],
        inputs=safe_texts(reviewed.inputs(), secrets),
        outputs=safe_texts(_part(reviewed.item, reviewed.part), secrets),
        attributes=safe_texts(reviewed.attributes(), secrets),
        tags=tags,
        assessments=numbered(_assessments(reviewed, run_id, digest, secrets), digest),
    )
    return entities(draft)


def _part(item: Item, part: str) -> Any:
    """Return the part of an item that is rewritten."""
    if part == "transcript":
        return [message_texts(message) for message in item.transcript or ()]
    return item.rubric if part == "rubric" else item.response


def _assessments(reviewed: ReviewedItem, run_id: str, digest: str, secrets: Sequence[str]) -> list[Assessment]:
    """What each reviewer decided, what the validator said, and what stands."""
    from mlflow.entities import AssessmentSource, Expectation, Feedback

    def short(text: str, most: int = MAX_TAG) -> str:
        return column(safe_texts(text, secrets), most)

    def common(kind: str, who: str) -> dict[str, Any]:
        source = AssessmentSource(source_type=kind, source_id=short(who))
        metadata = {"mlflow.assessment.sourceRunId": run_id}
        return {"source": source, "trace_id": trace_id_of(digest), "metadata": metadata}

    found: list[Assessment] = [
        Feedback(
            name=REVIEW,
            value=one.state,
            rationale=short(one.reason, MAX_COLUMN) if one.reason else None,
            **common("HUMAN", one.who),
        )
        for one in reviewed.decisions
    ]
    if reviewed.verdict is not None:
        expected = reviewed.item.expected
        rationale = None if expected is None else f"The item was made for {short(expected)!r}."
        about = common("LLM_JUDGE", reviewed.validator)
        found.append(Feedback(name=VALIDATOR, value=short(reviewed.verdict), rationale=rationale, **about))
    stands = {LABEL: reviewed.label, EDITED_TEXT: reviewed.edited_text}
    for name, text in stands.items():
        if text is not None:
            found.append(Expectation(name=name, value=short(text, MAX_COLUMN), **common("HUMAN", reviewed.by)))
    return found
