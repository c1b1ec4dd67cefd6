"""One judge call as an MLflow trace: what was shown and said, what was expected, and whether that was met."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from jrh_mlflow.engine.plan import present
from jrh_mlflow.judges.answers import clean_text
from jrh_mlflow.schema.calls import USABLE, CallRecord
from jrh_mlflow.schema.criteria import Criterion
from jrh_mlflow.schema.items import Item, Order
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.tracking.mlflow_feedback import without_secrets

if TYPE_CHECKING:
    from mlflow.entities import Assessment, Span, TraceInfo

EXPECTATION = "expected_answer"
FEEDBACK = "met_expectation"
"""`yes`, `no` or `no answer`."""

_OUTPUTS = ("outcome", "answer", "rationale", "error")
_SHOWN_ELSEWHERE = (*_OUTPUTS, "better", "expected")
_MAX_PREVIEW = 1000
_MAX_TAG = 250


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
        """Hash of run and call: trace, span and assessments are named by it, so that none is ever there twice."""
        parts = (self.run_id, self.call.suite_item, self.call.order, str(self.call.replicate))
        return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def trace_id(self) -> str:
        """MLflow's name of the trace."""
        return f"tr-{self.digest[:32]}"

    def inputs(self) -> dict[str, Any]:
        """What the judge was shown, contents in the slots of this order; the id alone where there is no text."""
        if self.item is None or self.item.instruction is None:
            return {"suite_item": self.call.suite_item}
        shown = present(self.item, cast(Order, self.call.order), self.criterion)
        parts = {name: getattr(shown, name) for name in ("instruction", "rubric", "first", "second", "response")}
        parts["transcript"] = [_message(message) for message in shown.transcript or ()] or None
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

    def money(self) -> dict[str, dict[str, float]]:
        """Tokens and dollars under MLflow's own names; only where they are known."""
        call = self.call
        known: dict[str, dict[str, float]] = {}
        if call.input_tokens is not None and call.output_tokens is not None:
            counts = {"input_tokens": call.input_tokens, "output_tokens": call.output_tokens}
            known["tokens"] = {**counts, "total_tokens": sum(counts.values())}
        if call.cost_usd is not None:
            known["cost"] = {"total_cost": call.cost_usd}
        return known


def trace_of(traced: TracedCall) -> tuple[TraceInfo, Span, int]:
    """Return a call's trace, its span and about how many characters they hold; no known key is in them."""
    inputs, outputs = _safe(traced.inputs()), _safe(traced.outputs())
    size = sum(len(str(value)) for value in (*inputs.values(), *outputs.values()))
    return _info(traced, inputs, outputs), _span(traced, inputs, outputs), size


def _info(traced: TracedCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> TraceInfo:
    from mlflow.entities import TraceInfo, TraceLocation, TraceState

    call = traced.call
    money = {f"mlflow.trace.{'tokenUsage' if name == 'tokens' else name}": v for name, v in traced.money().items()}
    tags = {"condition": call.condition, "suite_item": call.suite_item, "outcome": call.outcome}
    if call.delta is not None:
        tags["delta"] = f"{call.delta:g}"
    if traced.failure:
        tags["failure"] = traced.failure
    return TraceInfo(
        trace_id=traced.trace_id,
        trace_location=TraceLocation.from_experiment_id(traced.experiment_id),
        request_time=traced.start_ms,
        execution_duration=None if call.latency_s is None else round(1000 * call.latency_s),
        state=TraceState.ERROR if call.outcome == "error" else TraceState.OK,
        request_preview=_line(" | ".join(str(value) for value in inputs.values() if value), _MAX_PREVIEW),
        response_preview=_line(" | ".join(str(value) for value in outputs.values()), _MAX_PREVIEW),
        trace_metadata={
            "mlflow.sourceRun": traced.run_id,
            "mlflow.trace_schema.version": "3",
            **{name: json.dumps(value) for name, value in money.items()},
        },
        tags={
            "mlflow.traceName": _line(_safe(call.condition), _MAX_TAG),
            **{f"jrh.{name}": _line(_safe(value), _MAX_TAG) for name, value in tags.items()},
        },
        assessments=_assessments(traced, outputs),
    )


def _span(traced: TracedCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Span:
    from mlflow.entities import Span

    call, money = traced.call, traced.money()
    attributes = {
        "mlflow.traceRequestId": traced.trace_id,
        "mlflow.spanType": "EVALUATOR",
        "mlflow.spanInputs": inputs,
        "mlflow.spanOutputs": outputs,
        **_safe(traced.attributes()),
    }
    if "tokens" in money:
        attributes["mlflow.chat.tokenUsage"] = money["tokens"]
    if "cost" in money:
        # The model's name goes with the cost only: without one MLflow would put in a price of its own.
        attributes |= {"mlflow.llm.cost": money["cost"], "mlflow.llm.model": attributes.get("jrh.model", traced.judge)}
    start_ns = traced.start_ms * 1_000_000
    failed = call.outcome == "error"
    return Span.from_dict(
        {
            "trace_id": _base64(traced.digest[:32]),
            "span_id": _base64(traced.digest[32:48]),
            "parent_span_id": None,
            "name": _line(_safe(traced.judge), _MAX_TAG),
            "start_time_unix_nano": start_ns,
            "end_time_unix_nano": start_ns + round(1e9 * (call.latency_s or 0)),
            "status": {
                "code": "STATUS_CODE_ERROR" if failed else "STATUS_CODE_OK",
                "message": _line(outputs.get("error", ""), _MAX_PREVIEW) if failed else "",
            },
            "attributes": {name: json.dumps(value, ensure_ascii=False) for name, value in attributes.items()},
            "events": [],
        }
    )


def _assessments(traced: TracedCall, outputs: Mapping[str, Any]) -> list[Assessment]:
    """What was expected, and whether it was met; nothing where an answer came and none was expected."""
    from mlflow.entities import AssessmentSource, Expectation, Feedback

    common = {
        "source": AssessmentSource(source_type="CODE", source_id="jrh_mlflow"),
        "trace_id": traced.trace_id,
        "metadata": {"mlflow.assessment.sourceRunId": traced.run_id},
    }
    found: list[Assessment] = []
    answered = traced.call.outcome in USABLE
    said = outputs.get("answer") or traced.call.outcome
    because = outputs.get("rationale") if answered else outputs.get("error")
    if traced.expected is not None:
        found.append(Expectation(name=EXPECTATION, value=_safe(traced.expected), **common))
        said = f"Expected {_safe(traced.expected)}, got {said}"
    if traced.expected is not None or not answered:
        value = "no answer" if not answered else "no" if traced.failure else "yes"
        rationale = _line(f"{said}: {because}" if because else f"{said}.", _MAX_PREVIEW)
        found.append(Feedback(name=FEEDBACK, value=value, rationale=rationale, **common))
    for number, assessment in enumerate(found):
        assessment.assessment_id = f"a-{traced.digest[:31]}{number}"
    return found


def _message(message: Message) -> dict[str, str]:
    parts = {"role": message.role, "content": message.content, "tool_call_id": message.tool_call_id}
    if message.tool_calls:
        # As text: arguments may be nested deeper than MLflow's wire format goes.
        parts["tool_calls"] = json.dumps(message.tool_calls, ensure_ascii=False, default=str)
    return {name: value for name, value in parts.items() if value is not None}


def _safe(value: Any) -> Any:
    """Take keys and lone surrogates out of every text inside."""
    if isinstance(value, str):
        return clean_text(without_secrets(value, None))
    if isinstance(value, Mapping):
        return {name: _safe(inner) for name, inner in value.items()}
    return [_safe(inner) for inner in value] if isinstance(value, list) else value


def _line(text: str, most: int) -> str:
    """Shorten a text for a column; the whole of it is in the span. Not every database takes NUL."""
    text = text.replace("\x00", "�")
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _base64(digits: str) -> str:
    return base64.b64encode(bytes.fromhex(digits)).decode()
