"""Traces that no store knows, made of a presentation: what MLflow's judges of traces and of sessions are shown."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from jrh_mlflow.schema.presentation import Message, Presentation, part_text
from jrh_mlflow.tracking.runs import keys

if TYPE_CHECKING:
    from mlflow.entities import Span, Trace

_STEP_NS = 1_000_000
_ASKING = ("user", "system", "developer")
"""Roles of messages that begin a turn."""


def in_memory_trace(
    inputs: object,
    outputs: object,
    transcript: Iterable[Message] = (),
    *,
    context: Sequence[str] = (),
    tools: Sequence[str] = (),
    session: tuple[str, int] | None = None,
) -> Trace:
    """Build a trace: a root span, a RETRIEVER span, and a TOOL span for each tool call of the transcript.

    Args:
        inputs: Of the root span.
        outputs: Of the root span.
        transcript: Messages whose tool calls are spans of their own.
        context: Texts that were retrieved; without any there is no RETRIEVER span.
        tools: Names of the tools there were; where there are any, a CHAT_MODEL span declares them.
        session: Id of the session it belongs to, and its place there.
    """
    from mlflow.entities import Trace, TraceData, TraceInfo, TraceLocation, TraceState

    told = [inputs, outputs] if session is None else [inputs, outputs, *session]
    trace_id = hashlib.sha256(_json(told).encode("utf-8", "surrogatepass")).digest()[:16]
    wanted = [("judged", "AGENT", inputs, outputs)]
    if context:
        wanted.append(("retrieval", "RETRIEVER", inputs, [{"page_content": text} for text in context]))
    if tools:
        declared = [{"type": "function", "function": {"name": name}} for name in tools]
        wanted.append(("model", "CHAT_MODEL", {"tools": declared}, None))
    wanted += _tool_spans(list(transcript))
    spans = [
        _span(trace_id, index, name=name, kind=kind, inputs=given, outputs=made)
        for index, (name, kind, given, made) in enumerate(wanted)
    ]
    info = TraceInfo(
        trace_id=f"tr-{trace_id.hex()}",
        trace_location=TraceLocation.from_experiment_id("0"),
        request_time=1 if session is None else session[1] + 1,
        execution_duration=len(spans),
        state=TraceState.OK,
        trace_metadata={} if session is None else {keys.TRACE_SESSION: session[0]},
    )
    return Trace(info=info, data=TraceData(spans=spans))


def in_memory_session(shown: Presentation) -> list[Trace]:
    """Lay a transcript out as MLflow keeps a conversation: one trace for each turn, its tool calls as TOOL spans.

    The inputs of a trace are the messages that began the turn, a system message among them; its outputs are what the
    assistant wrote until the next one. A single response is a conversation of one turn: instruction, response.
    """
    turns = _turns(shown.transcript or _one_turn(shown))
    name = hashlib.sha256(_json([list(map(_plain, one)) for turn in turns for one in turn]).encode("utf-8", "replace"))
    return [
        in_memory_trace(
            {"messages": list(map(_plain, asked))} if asked else None,
            "\n\n".join(filter(None, (_text(one) for one in answered if one.role == "assistant"))) or None,
            answered,
            session=(f"jrh-{name.hexdigest()[:16]}", place),
        )
        for place, (asked, answered) in enumerate(turns)
    ]


def called_tools(transcript: Iterable[Message]) -> list[str]:
    """Name the tools that a transcript calls, each once, in order."""
    return list(dict.fromkeys(str(call.get("name", "tool")) for message in transcript for call in message.tool_calls))


def _one_turn(shown: Presentation) -> tuple[Message, ...]:
    answer = shown.response if shown.response is not None else ""
    return Message(role="user", content=shown.instruction), Message(role="assistant", content=answer)


def _turns(messages: Sequence[Message]) -> list[tuple[list[Message], list[Message]]]:
    """Cut a conversation before each message of the user's, or of the system's, that follows an answer."""
    turns: list[tuple[list[Message], list[Message]]] = []
    for message in messages:
        asks = message.role in _ASKING
        if not turns or (asks and turns[-1][1]):
            turns.append(([], []))
        turns[-1][0 if asks else 1].append(message)
    return turns


def _plain(message: Message) -> dict[str, str]:
    return {"role": message.role, "content": _text(message)}


def _text(message: Message) -> str:
    return "\n".join(filter(None, [message.content, *map(part_text, message.parts)]))


def _tool_spans(messages: Sequence[Message]) -> list[tuple[str, str, object, object]]:
    results: dict[Any, str] = {
        message.tool_call_id: "\n".join(filter(None, (message.content, message.error)))
        for message in messages
        if message.tool_call_id
    }
    return [
        (str(call.get("name", "tool")), "TOOL", call.get("arguments"), results.get(call.get("id")))
        for message in messages
        for call in message.tool_calls
    ]


def _span(trace_id: bytes, index: int, *, name: str, kind: str, inputs: object, outputs: object) -> Span:
    from mlflow.entities import Span

    attributes = {
        keys.SPAN_TRACE: f"tr-{trace_id.hex()}",
        keys.SPAN_KIND: kind,
        keys.SPAN_INPUTS: inputs,
        keys.SPAN_OUTPUTS: outputs,
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
