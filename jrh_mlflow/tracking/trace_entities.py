"""One judge call as an MLflow trace: what was shown and said, what was expected, and whether that was met."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, cast

from jrh_mlflow.engine.plan import present
from jrh_mlflow.judges.answers import clean_text
from jrh_mlflow.schema.calls import USABLE, CallRecord
from jrh_mlflow.schema.criteria import Criterion
from jrh_mlflow.schema.items import Item, Order
from jrh_mlflow.schema.presentation import Message, part_text
from jrh_mlflow.schema.secrets import blank_secrets

if TYPE_CHECKING:
    from mlflow.entities import Assessment, Span, TraceInfo

EXPECTATION = "expected_answer"
FEEDBACK = "met_expectation"
"""`yes`, `no` or `no answer`."""

_OUTPUTS = ("outcome", "answer", "rationale", "error")
_SHOWN_ELSEWHERE = (*_OUTPUTS, "better", "expected")
MAX_COLUMN = 1000
MAX_TAG = 250


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedCall:
    """A call and what a trace says about it."""

    call: CallRecord
    item: Item | None
    """None, or an item without texts, where judgments were recorded elsewhere."""
    criterion: Criterion
    judge: str
    expected: str | None
    """The expected answer as a reader wants it; None where nothing is expected."""
    failure: str
    """How the call failed; empty when it did not."""
    run_id: str
    experiment_id: str
    start_ms: int

    @property
    def digest(self) -> str:
        """Names trace, span and assessments."""
        return digest_of(self.run_id, self.call.suite_item, self.call.order, str(self.call.replicate))

    def inputs(self) -> dict[str, Any]:
        """What the judge was shown, contents in the slots of this order; the id alone where there is no text."""
        if self.item is None or self.item.instruction is None:
            return {"suite_item": self.call.suite_item}
        shown = present(self.item, cast(Order, self.call.order), self.criterion)
        parts = {name: getattr(shown, name) for name in ("instruction", "rubric", "first", "second", "response")}
        parts["transcript"] = [message_texts(message) for message in shown.transcript or ()] or None
        parts["answers"] = list(shown.answers)
        return {name: value for name, value in parts.items() if value is not None}

    def outputs(self) -> dict[str, Any]:
        """How the call ended, and in which words."""
        found = {name: getattr(self.call, name) for name in _OUTPUTS}
        return {name: value for name, value in found.items() if value not in (None, "")}

    def attributes(self) -> dict[str, Any]:
        """The other columns of the call table; what is unknown is left out."""
        cells = {name: value for name, value in asdict(self.call).items() if name not in _SHOWN_ELSEWHERE}
        return {f"jrh.{name}": value for name, value in cells.items() if value not in (None, "")}

    def tags(self) -> dict[str, str]:
        """What traces can be searched by."""
        call = self.call
        found = {"condition": call.condition, "suite_item": call.suite_item, "outcome": call.outcome}
        found["delta"] = "" if call.delta is None else f"{call.delta:g}"
        found["failure"] = self.failure
        named = {f"jrh.{name}": text for name, text in found.items() if text}
        return {"mlflow.traceName": call.condition, **named}

    def tokens(self) -> dict[str, int] | None:
        """Tokens under MLflow's names, where both counts are known."""
        sent, got = self.call.input_tokens, self.call.output_tokens
        if sent is None or got is None:
            return None
        return {"input_tokens": sent, "output_tokens": got, "total_tokens": sent + got}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Texts:
    """Everything a trace says, with no key and no lone surrogate in it."""

    judge: str
    expected: str | None
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    attributes: dict[str, Any]
    tags: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A trace of one span, in texts that are safe to store (`safe_texts`)."""

    digest: str
    """Names trace, span and assessments."""
    run_id: str
    experiment_id: str
    start_ms: int
    span: str
    """Name of the span."""
    about: str
    """The first words of its line in MLflow's list."""
    inputs: Mapping[str, Any]
    outputs: Any
    attributes: Mapping[str, Any]
    tags: Mapping[str, str]
    assessments: Sequence[Assessment]
    metadata: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    error: str | None = None
    """What went wrong; None when nothing did."""


Entities = tuple["TraceInfo", "Span", int]
"""A trace, its span and about how many characters they hold."""


def trace_of(traced: TracedCall, secrets: Sequence[str]) -> Entities:
    """Return a call's trace; none of the secrets is in it."""
    parts = {name: getattr(traced, name) for name in ("judge", "expected")}
    parts |= {name: getattr(traced, name)() for name in ("inputs", "outputs", "attributes", "tags")}
    texts = _Texts(**safe_texts(parts, secrets))
    call, metadata, attributes = traced.call, {}, dict(texts.attributes)
    if tokens := traced.tokens():
        metadata["mlflow.trace.tokenUsage"] = json.dumps(tokens)
        attributes["mlflow.chat.tokenUsage"] = tokens
    if call.cost_usd is not None:
        metadata["mlflow.trace.cost"] = json.dumps({"total_cost": call.cost_usd})
        # The model is named with a cost only: without one MLflow would look up a price of its own.
        attributes["mlflow.llm.model"] = texts.attributes.get("jrh.model", texts.judge)
        attributes["mlflow.llm.cost"] = {"total_cost": call.cost_usd}
    draft = Draft(
        digest=traced.digest,
        run_id=traced.run_id,
        experiment_id=traced.experiment_id,
        start_ms=traced.start_ms,
        span=texts.judge,
        about=f"{texts.tags['jrh.suite_item']} {call.order}".strip(),
        inputs=texts.inputs,
        outputs=texts.outputs,
        attributes=attributes,
        tags=texts.tags,
        assessments=_assessments(traced, texts),
        metadata=metadata,
        seconds=call.latency_s,
        error=texts.outputs.get("error", "") if call.outcome == "error" else None,
    )
    return entities(draft)


def entities(draft: Draft) -> Entities:
    """Return a draft as what MLflow stores."""
    parts = (*draft.inputs.values(), *_outputs(draft), *draft.attributes.values())
    return _info(draft), _span(draft), sum(len(str(value)) for value in parts)


def digest_of(*parts: str) -> str:
    """Hash of run and call or item: what it names is never there twice."""
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def trace_id_of(digest: str) -> str:
    """MLflow's name of the trace."""
    return f"tr-{digest[:32]}"


def numbered(found: Sequence[Assessment], digest: str) -> list[Assessment]:
    """Name the assessments of a trace."""
    for number, assessment in enumerate(found):
        assessment.assessment_id = f"a-{digest[:31]}{number}"
    return list(found)


def _outputs(draft: Draft) -> list[Any]:
    return list(draft.outputs.values()) if isinstance(draft.outputs, Mapping) else [draft.outputs]


def _info(draft: Draft) -> TraceInfo:
    from mlflow.entities import TraceInfo, TraceLocation, TraceState

    return TraceInfo(
        trace_id=trace_id_of(draft.digest),
        trace_location=TraceLocation.from_experiment_id(draft.experiment_id),
        request_time=draft.start_ms,
        execution_duration=None if draft.seconds is None else round(1000 * draft.seconds),
        state=TraceState.OK if draft.error is None else TraceState.ERROR,
        # The id first: in MLflow's list the tasks of a suite begin alike.
        request_preview=_preview(draft.about, *draft.inputs.values()),
        response_preview=_preview(*_outputs(draft)),
        trace_metadata={"mlflow.sourceRun": draft.run_id, "mlflow.trace_schema.version": "3", **draft.metadata},
        tags={name: column(text, MAX_TAG) for name, text in draft.tags.items()},
        assessments=list(draft.assessments),
    )


def _span(draft: Draft) -> Span:
    from mlflow.entities import Span

    attributes = {
        "mlflow.traceRequestId": trace_id_of(draft.digest),
        "mlflow.spanType": "EVALUATOR",
        "mlflow.spanInputs": draft.inputs,
        "mlflow.spanOutputs": draft.outputs,
        **draft.attributes,
    }
    start_ns = draft.start_ms * 1_000_000
    return Span.from_dict(
        {
            "trace_id": _base64(draft.digest[:32]),
            "span_id": _base64(draft.digest[32:48]),
            "parent_span_id": None,
            "name": column(draft.span, MAX_TAG),
            "start_time_unix_nano": start_ns,
            "end_time_unix_nano": start_ns + round(1e9 * (draft.seconds or 0)),
            "status": {
                "code": "STATUS_CODE_OK" if draft.error is None else "STATUS_CODE_ERROR",
                "message": column(draft.error or "", MAX_COLUMN),
            },
            "attributes": {name: json.dumps(value, ensure_ascii=False) for name, value in attributes.items()},
            "events": [],
        }
    )


def _assessments(traced: TracedCall, texts: _Texts) -> list[Assessment]:
    """What was expected, and whether it was met; nothing where an answer came and none was expected."""
    from mlflow.entities import AssessmentSource, Expectation, Feedback

    common = {
        "source": AssessmentSource(source_type="CODE", source_id="jrh_mlflow"),
        "trace_id": trace_id_of(traced.digest),
        "metadata": {"mlflow.assessment.sourceRunId": traced.run_id},
    }
    found: list[Assessment] = []
    answered = traced.call.outcome in USABLE
    said = texts.outputs.get("answer", traced.call.outcome)
    because = texts.outputs.get("rationale" if answered else "error")
    if texts.expected is not None:
        found.append(Expectation(name=EXPECTATION, value=column(texts.expected, MAX_TAG), **common))
        said = f"Expected {texts.expected}, got {said}"
    if texts.expected is not None or not answered:
        value = "no answer" if not answered else "no" if traced.failure else "yes"
        rationale = column(f"{said}: {because}" if because else f"{said}.", MAX_COLUMN)
        found.append(Feedback(name=FEEDBACK, value=value, rationale=rationale, **common))
    return numbered(found, traced.digest)


def message_texts(message: Message) -> dict[str, str]:
    """Return a message as texts, without what is empty."""
    parts = {"role": message.role, "content": message.content, "tool_call_id": message.tool_call_id}
    if message.tool_calls:
        # As text: arguments may be nested deeper than MLflow's wire format goes.
        parts["tool_calls"] = json.dumps(message.tool_calls, ensure_ascii=False, default=str)
    parts |= {"name": message.name, "reasoning": message.reasoning, "error": message.error}
    if message.parts:
        parts["parts"] = "\n".join(part_text(part) for part in message.parts)
    return {name: value for name, value in parts.items() if value is not None}


def safe_texts(value: Any, secrets: Sequence[str]) -> Any:
    """Take keys and lone surrogates out of every text inside."""
    if isinstance(value, str):
        return clean_text(blank_secrets(value, secrets))
    if isinstance(value, Mapping):
        return {name: safe_texts(inner, secrets) for name, inner in value.items()}
    return [safe_texts(inner, secrets) for inner in value] if isinstance(value, list) else value


def column(text: str, most: int) -> str:
    """Shorten a text for a column; the whole of it is in the span. Not every database takes NUL."""
    text = text.replace("\x00", "\ufffd")
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _preview(*parts: object) -> str:
    return column(" | ".join(str(part) for part in parts if part), MAX_COLUMN)


def _base64(digits: str) -> str:
    return base64.b64encode(bytes.fromhex(digits)).decode()
