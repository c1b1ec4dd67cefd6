"""A real MLflow store of support answers that three people and a judge have rated, with the truth known.

    store = rate_traces(uri, "support")                 # 300 traces, in a few seconds
    store.truth, store.labels, store.calibration        # what went in
    agreement = jrh.agree("traces:/support", tracking_uri=uri)

Each trace is one question and its answer, of a category (tag `category`). Under one assessment name it holds what
MLflow's `align()` asks for, and what stands beside it in real stores: feedback of three people who err at known rates
and have not seen every trace, two of whom changed their mind at times; feedback of an LLM judge with a known
sensitivity and specificity, and a few of its errors; expectations; and feedback of code that is no judge of anything.

By hand: `python -m tests.people.rated_store FOLDER` makes such a store and prints what is in it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from mlflow.entities import (
    AssessmentError,
    AssessmentSource,
    Expectation,
    Feedback,
    Span,
    TraceInfo,
    TraceLocation,
    TraceState,
)
from mlflow.tracing.client import TracingClient

from jrh_mlflow.tracking.mlflow_server import artifacts_uri, folder_uri
from jrh_mlflow.tracking.runs.store import Store

NAME = "correct"
"""The assessment that people and judge give."""
JUDGE = "openai:/gpt-4o-mini"
CODE = "length_check"
EXPECTING = "support lead"
"""Who wrote the expectations."""
START_MS = 1_790_000_000_000
_ERRORS = 3
"""Traces on which the judge failed: an error is no label."""

_REPLIES: dict[str, list[tuple[str, str, str]]] = {
    "shipping": [
        ("Where is my order {n}?", "Order {n} left our warehouse on Monday and arrives by Thursday.",
         "Please look at our website."),
        ("Can I change the address of order {n}?", "Yes: until it ships, under Orders, {n}, Change address.",
         "Addresses can be changed at any time, even after delivery."),
        ("Do you ship order {n} to Norway?", "Yes, order {n} can go to Norway; it takes 5 to 7 days.",
         "We are happy to help! Norway is a country in Europe."),
    ],
    "billing": [
        ("Why was I charged twice for invoice {n}?", "One of the two is a reservation; it is released within 3 days.",
         "Invoice {n} was charged twice because you paid twice."),
        ("Can I get invoice {n} as a PDF?", "Yes: Billing, Invoices, {n}, Download.", "Invoices are sent by fax only."),
        ("Which card paid invoice {n}?", "The card that ends in 42; it is shown under Billing, {n}.",
         "It was paid with card 4000 1234 5678 9010, code 123."),
    ],
    "account": [
        ("I cannot log in, ticket {n}.", "I have sent a link to reset your password; it is valid for an hour.",
         "Have you tried to log in?"),
        ("How do I delete my account, ticket {n}?", "Settings, Privacy, Delete account; it is final after 30 days.",
         "You cannot delete an account."),
        ("Ticket {n}: I no longer have the phone for two-factor codes.", "Use a recovery code, or show us your ID.",
         "I have switched two-factor off for the address you wrote from."),
    ],
    "returns": [
        ("How do I return item {n}?", "Print the label under Returns, {n}, and hand the parcel in within 30 days.",
         "Returns are easy and free!"),
        ("When do I get the money for return {n}?", "Three to five days after the parcel reaches us.",
         "Return {n} will be refunded tomorrow, guaranteed."),
        ("Item {n} arrived broken.", "I am sorry. A new one is on its way, and you need not send {n} back.",
         "Item {n} left our warehouse in one piece."),
    ],
}  # fmt: skip
"""Category to question, a right answer and a wrong one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rater:
    """How often a person is right, and how much of the traces they have not rated."""

    accuracy: float
    missing: float = 0.0
    changed: float = 0.0
    """Share of their labels that override an opposite one of their own."""
    again: float = 0.0
    """Share of their labels that follow an opposite one, which nobody marked as overridden: the newest counts."""


PEOPLE: Mapping[str, Rater] = {
    "ann@example.com": Rater(accuracy=0.95, missing=0.05),
    "bob@example.com": Rater(accuracy=0.9, missing=0.1, changed=0.1),
    "cem@example.com": Rater(accuracy=0.8, missing=0.3, again=0.05),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RatedStore:
    """What was written, and what is true."""

    uri: str
    experiment: str
    experiment_id: str
    traces: pd.DataFrame
    """One row per trace, oldest first: `item` (its id), `question`, `answer`, `category`, `truth`, `rated`."""
    labels: pd.DataFrame
    """What counts, in long form: `item`, `rater`, `label`, `is_judge`; no errors, no code, nothing replaced."""

    @property
    def source(self) -> str:
        """The traces as `jrh.agree` takes them."""
        return f"traces:/{self.experiment}"

    @property
    def truth(self) -> dict[str, bool]:
        """Trace id to whether the answer is right."""
        return dict(zip(self.traces["item"], self.traces["truth"], strict=True))

    @property
    def people(self) -> pd.DataFrame:
        """Labels of people: traces × people, missing ones as None."""
        return _wide(self.labels[~self.labels["is_judge"]])

    @property
    def judge(self) -> pd.Series:
        """The judge's labels by trace."""
        verdicts: pd.Series = self.labels[self.labels["is_judge"]].set_index("item")["label"]
        return verdicts

    @property
    def majority(self) -> pd.Series:
        """Label that more people gave than any other, by trace; traces without one are left out."""
        people = self.labels[~self.labels["is_judge"]]
        counts = people.groupby(["item", "label"]).size().unstack(fill_value=0)
        best = counts[counts.eq(counts.max(axis=1), axis=0).sum(axis=1) == 1]
        label: pd.Series = best.idxmax(axis=1)
        return label


def _wide(labels: pd.DataFrame) -> pd.DataFrame:
    wide: pd.DataFrame = labels.pivot(index="item", columns="rater", values="label")
    return wide.astype(object).where(wide.notna(), None)


@dataclass(kw_only=True, slots=True)
class _Draft:
    """A trace to be written."""

    item: str
    question: str
    answer: str
    category: str
    truth: bool
    start_ms: int
    assessments: list[Any] = field(default_factory=list)
    overriding: list[Any] = field(default_factory=list)
    """Assessments that take the place of others."""


def rate_traces(
    uri: str,
    experiment: str = "support",
    *,
    n: int = 300,
    unlabelled: int = 0,
    pass_rate: float = 0.7,
    sensitivity: float = 0.9,
    specificity: float = 0.7,
    people: Mapping[str, Rater] = PEOPLE,
    values: tuple[Any, Any] = ("no", "yes"),
    expectations: float = 0.1,
    code: float = 0.1,
    name: str = NAME,
    judge_name: str | None = None,
    seed: int = 0,
) -> RatedStore:
    """Write rated traces to a new experiment of a store.

    Args:
        uri: A store; its tables are made where they are not there yet.
        experiment: Its name must be free.
        n: Traces that people have rated.
        unlabelled: Further traces that the judge alone has rated.
        pass_rate: Share of answers that are right.
        sensitivity: Of the judge: its share of "pass" among right answers.
        specificity: Of the judge: its share of "fail" among wrong answers.
        people: Name to rater.
        values: The labels for a wrong and for a right answer; `(False, True)` for booleans.
        expectations: Share of rated traces with an expectation, which is the truth.
        code: Share of traces with feedback of code under the same name, always "pass".
        name: Of the assessments.
        judge_name: Of the judge's; None takes `name`.
        seed: The same seed gives the same ids, texts and labels.
    """
    rng = np.random.default_rng(seed)
    place = Path(uri.removeprefix("sqlite:///")).parent
    experiment_id = Store(uri, experiment, artifacts=artifacts_uri(place)).experiment_id
    rows: list[dict[str, Any]] = []
    drafts = _drafts(experiment, n + unlabelled, pass_rate=pass_rate, rng=rng)
    for place, draft in enumerate(drafts):
        if place < n:
            rows += _people(draft, people, values, name, rng)
            if rng.random() < expectations:
                draft.assessments.append(_given(draft, name, values[draft.truth], "HUMAN", EXPECTING, expected=True))
                rows.append(_row(draft, EXPECTING, values[draft.truth]))
        said = bool(rng.random() < (sensitivity if draft.truth else 1 - specificity))
        failed = place in range(5, 5 + _ERRORS)
        draft.assessments.append(
            _given(draft, judge_name or name, None if failed else values[said], "LLM_JUDGE", JUDGE)
        )
        rows += [] if failed else [_row(draft, JUDGE, values[said], is_judge=True)]
        if rng.random() < code:
            draft.assessments.append(_given(draft, name, values[True], "CODE", CODE))
    _write(TracingClient(uri), experiment_id, drafts)
    columns = ["item", "question", "answer", "category", "truth"]
    traces = pd.DataFrame([[getattr(draft, one) for one in columns] for draft in drafts], columns=columns)
    return RatedStore(
        uri=uri,
        experiment=experiment,
        experiment_id=str(experiment_id),
        traces=traces.assign(rated=[place < n for place in range(len(drafts))]),
        labels=pd.DataFrame(rows),
    )


def _drafts(experiment: str, count: int, *, pass_rate: float, rng: np.random.Generator) -> list[_Draft]:
    kinds = [(category, texts) for category, several in _REPLIES.items() for texts in several]
    drafts = []
    for place in range(count):
        category, (question, right, wrong) = kinds[int(rng.integers(len(kinds)))]
        truth, number = bool(rng.random() < pass_rate), 4001 + 7 * place
        digest = hashlib.sha256(f"{experiment}/{place}".encode()).hexdigest()
        drafts.append(
            _Draft(
                item=f"tr-{digest[:32]}",
                question=question.format(n=number),
                answer=(right if truth else wrong).format(n=number),
                category=category,
                truth=truth,
                start_ms=START_MS + 60_000 * place,
            )
        )
    return drafts


def _people(
    draft: _Draft, people: Mapping[str, Rater], values: tuple[Any, Any], name: str, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Let the people rate a trace, and return the labels that count."""
    rows = []
    for who, rater in people.items():
        shares = (rater.accuracy, rater.missing, rater.changed, rater.again)
        right, missing, changed, again = (bool(rng.random() < share) for share in shares)
        if missing:
            continue
        label = draft.truth if right else not draft.truth
        if changed or again:
            draft.assessments.append(_given(draft, name, values[not label], "HUMAN", who))
        last = draft.assessments[-1].assessment_id if changed else None
        given = _given(draft, name, values[label], "HUMAN", who, overrides=last)
        (draft.overriding if changed else draft.assessments).append(given)
        rows.append(_row(draft, who, values[label]))
    return rows


def _row(draft: _Draft, rater: str, label: Any, *, is_judge: bool = False) -> dict[str, Any]:
    return {"item": draft.item, "rater": rater, "label": label, "is_judge": is_judge}


def _given(
    draft: _Draft, name: str, value: Any, kind: str, who: str, *, expected: bool = False, overrides: str | None = None
) -> Any:
    """Make an assessment; feedback without a value is an error."""
    place = len(draft.assessments)
    when = draft.start_ms + 1000 * (1 + 2 * place)
    common: dict[str, Any] = {
        "name": name,
        "source": AssessmentSource(source_type=kind, source_id=who),
        "trace_id": draft.item,
        "create_time_ms": when,
        "last_update_time_ms": when,
    }
    if expected:
        made: Any = Expectation(value=value, **common)
    elif value is None:
        made = Feedback(error=AssessmentError(error_code="TIMEOUT", error_message="no answer in time"), **common)
    else:
        made = Feedback(value=value, rationale=f"{who} says {value}.", overrides=overrides, **common)
    digest = hashlib.sha256(f"{draft.item}/{place}/{who}/{value}".encode()).hexdigest()
    made.assessment_id = f"a-{digest[:32]}"
    return made


def _write(client: TracingClient, experiment_id: str, drafts: Sequence[_Draft]) -> None:
    with _one_transaction(client.store):
        for draft in drafts:
            client.start_trace(_info(draft, experiment_id))
        for draft in drafts:
            for one in draft.overriding:
                client.log_assessment(draft.item, one)
    client.log_spans(experiment_id, [_span(draft) for draft in drafts])


@contextmanager
def _one_transaction(store: Any) -> Iterator[None]:
    """Write several things at once: MLflow finds its experiment and commits for every trace, longer than it writes."""
    with (
        store.ManagedSessionMaker(read_only=False) as session,
        mock.patch.object(store, "ManagedSessionMaker") as maker,
        mock.patch.object(store, "get_experiment", cache(store.get_experiment)),
    ):
        maker.side_effect = lambda *_, **__: nullcontext(session)
        yield


def _info(draft: _Draft, experiment_id: str) -> TraceInfo:
    return TraceInfo(
        trace_id=draft.item,
        trace_location=TraceLocation.from_experiment_id(experiment_id),
        request_time=draft.start_ms,
        execution_duration=800,
        state=TraceState.OK,
        request_preview=draft.question,
        response_preview=draft.answer,
        trace_metadata={"mlflow.trace_schema.version": "3"},
        tags={"mlflow.traceName": "answer", "category": draft.category},
        assessments=draft.assessments,
    )


def _span(draft: _Draft) -> Span:
    attributes = {
        "mlflow.traceRequestId": draft.item,
        "mlflow.spanType": "CHAIN",
        "mlflow.spanInputs": {"question": draft.question},
        "mlflow.spanOutputs": draft.answer,
    }
    digits = draft.item.removeprefix("tr-")
    return Span.from_dict(
        {
            "trace_id": base64.b64encode(bytes.fromhex(digits)).decode(),
            "span_id": base64.b64encode(bytes.fromhex(digits[:16])).decode(),
            "parent_span_id": None,
            "name": "answer",
            "start_time_unix_nano": draft.start_ms * 1_000_000,
            "end_time_unix_nano": (draft.start_ms + 800) * 1_000_000,
            "status": {"code": "STATUS_CODE_OK", "message": ""},
            "attributes": {key: json.dumps(value) for key, value in attributes.items()},
            "events": [],
        }
    )


def main(folder: str) -> None:
    """Make the store `docs/howto/people.md` quotes, and say what is in it."""
    store = rate_traces(folder_uri(folder), values=(False, True))
    print(f"export MLFLOW_TRACKING_URI={store.uri}")
    print(f"{store.source}: {len(store.traces)} traces, true pass rate {store.traces['truth'].mean():.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
