"""What an MLflow scorer is shown: a presentation as `inputs`, `outputs` and, where it asks for one, a `trace`."""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.presentation import Message, Presentation, part_text

if TYPE_CHECKING:
    from mlflow.entities import Span, Trace

Part = Callable[[Presentation], Any]
"""Makes one field from a presentation."""

FIELDS = ("inputs", "outputs", "expectations", "trace")

_STEP_NS = 1_000_000


def fields(scorer: Any, shown: Presentation, parts: Mapping[str, Part]) -> dict[str, Any]:
    """Lay a presentation out for a scorer; `parts` replace the defaults that `from_mlflow` states."""
    laid = {"inputs": _inputs(shown), "outputs": _outputs(shown)}
    laid |= {name: part(shown) for name, part in parts.items()}
    if "trace" in needs(scorer) and "trace" not in parts:
        laid["trace"] = in_memory_trace(laid["inputs"], laid["outputs"], shown.transcript or ())
    return laid


def needs(scorer: Any) -> set[str]:
    """Return the fields a scorer cannot do without: template variables, or parameters without a default."""
    if members := getattr(scorer, "_scorers", ()):
        return set().union(*map(needs, members))
    variables = getattr(scorer, "template_variables", None)
    if variables is not None:
        return set(variables)
    unnamed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(scorer.__call__).parameters.values()
    return {one.name for one in parameters if one.default is one.empty and one.kind not in unnamed}


def check(scorer: Any, parts: Mapping[str, Part]) -> None:
    """Refuse, before any call, a scorer that would fail on every one."""
    if scorer.is_session_level_scorer:
        raise RecipeError(
            f"{scorer.name!r} judges a session of stored traces. "
            f"Write its instructions with {{{{ outputs }}}} instead of {{{{ conversation }}}}: transcripts go there."
        )
    needed = needs(scorer)
    if unknown := sorted(needed.difference(FIELDS)):
        raise RecipeError(f"{scorer.name!r} needs {', '.join(unknown)}, but MLflow passes only {', '.join(FIELDS)}.")
    if "expectations" in needed and "expectations" not in parts:
        raise RecipeError(
            f"{scorer.name!r} needs expectations, but a judge is shown no expected answer. "
            f"Pass from_mlflow(..., expectations=<function of the presentation>)."
        )


def in_memory_trace(inputs: object, outputs: object, transcript: Iterable[Message] = ()) -> Trace:
    """Build a trace that no store knows: a root span, and a TOOL span for each tool call of the transcript."""
    from mlflow.entities import Trace, TraceData, TraceInfo, TraceLocation, TraceState

    trace_id = hashlib.sha256(_json([inputs, outputs]).encode("utf-8", "surrogatepass")).digest()[:16]
    spans = [_span(trace_id, 0, name="judged", kind="AGENT", inputs=inputs, outputs=outputs)]
    messages = list(transcript)
    results: dict[Any, str] = {message.tool_call_id: message.content for message in messages if message.tool_call_id}
    for call in (call for message in messages for call in message.tool_calls):
        name, result = str(call.get("name", "tool")), results.get(call.get("id"))
        spans.append(_span(trace_id, len(spans), name=name, kind="TOOL", inputs=call.get("arguments"), outputs=result))
    info = TraceInfo(
        trace_id=f"tr-{trace_id.hex()}",
        trace_location=TraceLocation.from_experiment_id("0"),
        request_time=1,
        execution_duration=len(spans),
        state=TraceState.OK,
    )
    return Trace(info=info, data=TraceData(spans=spans))


def _inputs(shown: Presentation) -> dict[str, str]:
    rubric = {"rubric": shown.rubric} if shown.rubric is not None else {}
    return {"instruction": shown.instruction, **rubric}


def _outputs(shown: Presentation) -> object:
    if shown.kind == "pair":
        return {"A": shown.first, "B": shown.second}
    if shown.kind == "transcript":
        # Of a bare list, MLflow's built-in judges read the first element only.
        return {"transcript": [_message(message) for message in shown.transcript or ()]}
    return shown.response


def _message(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        plain["tool_calls"] = [dict(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        plain["tool_call_id"] = message.tool_call_id
    more = {"name": message.name, "reasoning": message.reasoning, "error": message.error}
    plain |= {name: value for name, value in more.items() if value is not None}
    if message.parts:
        plain["parts"] = [part_text(part) for part in message.parts]
    return plain


def _span(trace_id: bytes, index: int, *, name: str, kind: str, inputs: object, outputs: object) -> Span:
    from mlflow.entities import Span
    from mlflow.tracing.constant import SpanAttributeKey

    attributes = {
        SpanAttributeKey.REQUEST_ID: f"tr-{trace_id.hex()}",
        SpanAttributeKey.SPAN_TYPE: kind,
        SpanAttributeKey.INPUTS: inputs,
        SpanAttributeKey.OUTPUTS: outputs,
    }
    return Span.from_dict(
        {
            "name": name,
            "trace_id": _base64(trace_id),
            "span_id": _base64((index + 1).to_bytes(8, "big")),
            "parent_span_id": _base64((1).to_bytes(8, "big")) if index else "",
            "start_time_unix_nano": (index + 1) * _STEP_NS,
            "end_time_unix_nano": (index + 2) * _STEP_NS,
            "status": {"code": "STATUS_CODE_OK", "message": ""},
            "attributes": {key: _json(value) for key, value in attributes.items()},
        }
    )


def _base64(identifier: bytes) -> str:
    return base64.b64encode(identifier).decode("ascii")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
