"""MLflow traces in: the conversation of a trace's chat spans as a transcript."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import JrhWarning, RecipeError
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.transcripts.openai import LANGCHAIN_ROLES, from_openai, plain_messages
from jrh_mlflow.suites.transcripts.transcript import Transcript, first_user_text
from jrh_mlflow.text import clean_data
from jrh_mlflow.tracking.assessments import find_traces
from jrh_mlflow.tracking.store import active_uri

if TYPE_CHECKING:
    from mlflow.entities import Span, Trace


def transcripts_from_traces(
    source: str | Sequence[str], *, tracking_uri: str | None = None, max_traces: int | None = None
) -> Iterator[Transcript]:
    """Read traces as transcripts, one at a time.

    A trace's conversation is that of the chat span with the longest one: its input messages and what it answered.
    Agents send the whole conversation with every call, so that is normally all of it. Chat spans with messages that
    are not part of it are counted in `source["other_chat_spans"]`, with a warning. Feedback is its scores (`scores.x`),
    tags its metadata, expectations `metadata.expectations.x`; of several under one name the newest valid one counts.

    Args:
        source: Trace ids, or an experiment by its name or as `traces:/<name>`.
        tracking_uri: Of the store; None takes MLflow's own setting.
        max_traces: Of an experiment, the newest so many; None takes all.

    Raises:
        RecipeError: when an experiment or trace does not exist, or none of the traces holds a chat.
        TrackingError: when MLflow cannot be reached.
    """
    uri = tracking_uri or active_uri()
    found, without = 0, []
    for trace in find_traces(source, uri, max_traces, spans=True):
        transcript = transcript_of(trace)
        if transcript is None:
            without.append(trace.info.trace_id)
            continue
        found += 1
        yield transcript
    if not found:
        which = f": {_few(without)}" if without else ""
        raise RecipeError(f"None of {len(without)} traces has a span with `messages` in its inputs{which}.")
    if without:
        warnings.warn(
            f"{len(without)} traces hold no chat and were left out: {_few(without)}.", JrhWarning, stacklevel=2
        )


def transcript_of(trace: Trace) -> Transcript | None:
    """Return the conversation of a trace, or None where no span has one."""
    name = trace.info.trace_id
    read = [(span, _conversation(span, name)) for span in trace.data.spans]
    chats = [(span, talk) for span, (talk, _) in read if talk]
    if not chats:
        return None
    span, messages = max(chats, key=lambda chat: (len(chat[1]), chat[0].start_time_ns))
    said = {_key(message) for message in messages}
    others = sum(any(_key(message) not in said for message in talk) for _, talk in chats)
    if others:
        warnings.warn(
            f"Trace {name} has {others} more conversations; the longest one is the transcript.",
            JrhWarning,
            stacklevel=3,
        )
    replaced = next(count for one, (_, count) in read if one is span)
    known = {"span": span.name, "other_chat_spans": others, "replaced_characters": replaced}
    tags = {key: value for key, value in trace.info.tags.items() if not key.startswith("mlflow.")}
    expected = _assessed(trace, "expectation")
    return Transcript(
        id=name,
        messages=messages,
        input=first_user_text(messages),
        scores=_assessed(trace, "feedback"),
        metadata={**tags, **({"expectations": expected} if expected else {})},
        source={
            "format": "mlflow_trace",
            "trace_id": name,
            "state": str(getattr(trace.info.state, "value", trace.info.state)),
            **{key: value for key, value in known.items() if value},
        },
    )


def _assessed(trace: Trace, kind: str) -> dict[str, Any]:
    """Return the values of one kind of assessment by name: what was overridden or failed is none."""
    found = [one for one in trace.info.assessments or () if getattr(one, kind) is not None and one.valid is not False]
    given: dict[str, Any] = {}
    for one in sorted(found, key=lambda each: each.create_time_ms or 0):
        if one.name in given and given[one.name] != one.value:
            what = f"Trace {trace.info.trace_id} has several values of {kind} {one.name!r}"
            warnings.warn(f"{what}; the newest counts.", JrhWarning, stacklevel=4)
        given[one.name] = one.value
    return given


def _conversation(span: Span, trace_id: str) -> tuple[tuple[Message, ...], int]:
    """Return the messages a chat span was given and what it answered, and how many characters were replaced."""
    given = _asked(span.inputs)
    if given is None:
        return (), 0
    raw, replaced = clean_data([*given, *_answered(span.outputs)])
    return from_openai(
        [one for message in raw for one in plain_messages(message)], where=f"Trace {trace_id}, span {span.name!r}"
    ), replaced


def _asked(inputs: object) -> list[Any] | None:
    messages = inputs.get("messages") if isinstance(inputs, Mapping) else inputs
    # LangChain traces a batch: a list of conversations.
    if isinstance(messages, list) and len(messages) == 1 and isinstance(messages[0], list):
        messages = messages[0]
    if not isinstance(messages, list) or not messages or not all(_is_message(message) for message in messages):
        return None
    system = inputs.get("system") if isinstance(inputs, Mapping) else None
    return [*([{"role": "system", "content": system}] if system else []), *messages]


def _answered(outputs: Any) -> list[Any]:
    """Find the messages of an answer: a completion (its first choice), a message, a list of them, or plain text."""
    if isinstance(outputs, str):
        return [{"role": "assistant", "content": outputs}]
    if isinstance(outputs, list):
        return [message for message in outputs if _is_message(message)]
    if not isinstance(outputs, Mapping):
        return []
    if _is_message(outputs):
        return [outputs]
    for several in (outputs.get("choices"), *(outputs.get("generations") or ())):
        if isinstance(several, list) and several and isinstance(several[0], Mapping):
            return _answered(several[0].get("message"))
    return _answered(outputs.get("messages", outputs.get("message")))


def _is_message(value: object) -> bool:
    return isinstance(value, Mapping) and ("role" in value or value.get("type") in LANGCHAIN_ROLES)


def _key(message: Message) -> tuple[object, ...]:
    return message.role, message.content, tuple(str(call.get("id")) for call in message.tool_calls)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
