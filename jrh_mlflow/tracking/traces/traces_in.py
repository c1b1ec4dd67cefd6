"""MLflow traces in: a trace's conversation, or its question and answer, as a transcript with the labels of people."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import JrhWarning, RecipeError
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.labels import most_frequent
from jrh_mlflow.suites.transcripts.transcript import (
    JUDGE_SCORES,
    LANGCHAIN_ROLES,
    TRACE,
    Transcript,
    first_user_text,
    from_openai,
    plain_messages,
)
from jrh_mlflow.text import clean_data
from jrh_mlflow.tracking.runs.store import active_uri
from jrh_mlflow.tracking.traces.assessments import (
    EXPECTED_BY_MODEL,
    TraceRatings,
    expectations_of,
    find_traces,
    read_assessments,
)

if TYPE_CHECKING:
    from mlflow.entities import Span, Trace, TraceInfo

_QUESTIONS = (
    "question",
    "query",
    "prompt",
    "instruction",
    "user_input",
    "message",
    "input",
    "inputs",
    "request",
    "text",
)
_ANSWERS = ("answer", "response", "completion", "message", "output", "outputs", "result", "content", "text")
"""Keys under which applications keep what a user wrote, and what they answered."""
_WRAPPERS = ("input", "inputs", "request")
"""Keys under which messages may lie deeper."""


def transcripts_from_traces(
    source: str | Sequence[str], *, tracking_uri: str | None = None, max_traces: int | None = None
) -> Iterator[Transcript]:
    """Read traces as transcripts, one at a time.

    A trace's conversation is that of the chat span with the longest one: its input messages and what it answered.
    Agents send the whole conversation with every call, so that is normally all of it. Chat spans with messages that
    are not part of it are counted in `source["other_chat_spans"]`, with a warning. A trace without chat messages is
    what its root span was given and what it returned, as two messages (`source["single_turn"]`).

    Labels of people are its scores (`scores.x`): HUMAN feedback, and expectations that no model wrote, which are also
    `metadata.expectations.x`. What each person said is kept (`people`); a score is what most of them say, and is not
    there where no label leads. Feedback of models and code is `metadata.judge_scores`; tags are metadata, too.

    Args:
        source: Trace ids, or an experiment by its name or as `traces:/<name>`.
        tracking_uri: Of the store; None takes MLflow's own setting.
        max_traces: Of an experiment, the newest so many; None takes all.

    Raises:
        RecipeError: when an experiment or trace does not exist, or none of the traces can be read.
        TrackingError: when MLflow cannot be reached.
    """
    uri = tracking_uri or active_uri()
    found, by_models = 0, 0
    unread: dict[str, list[str]] = {}
    for trace in find_traces(source, uri, max_traces, spans=True):
        ratings = read_assessments(trace.info)
        by_models += sum(count for (_, why), count in ratings.left_out.items() if why == EXPECTED_BY_MODEL)
        try:
            transcript = _transcript(trace, ratings)
        except _UnreadError as reason:
            unread.setdefault(str(reason), []).append(trace.info.trace_id)
            continue
        found += 1
        yield transcript
    reasons = ", ".join(f"{len(ids)} {_has(ids)} {why} ({_few(ids)})" for why, ids in unread.items())
    count = sum(map(len, unread.values()))
    if not found:
        raise RecipeError(f"None of {count} traces can be read{f': {reasons}' if reasons else ''}.")
    if count:
        warnings.warn(f"{count} traces were left out: {reasons}.", JrhWarning, stacklevel=2)
    if by_models:
        message = f"{by_models} expectations were written by models and are no labels."
        warnings.warn(message, JrhWarning, stacklevel=2)


class _UnreadError(Exception):
    """Why a trace holds nothing to judge: what it has not."""


def _transcript(trace: Trace, ratings: TraceRatings) -> Transcript:
    messages, source = _chat(trace) or _single_turn(trace)
    tags = {key: value for key, value in trace.info.tags.items() if not key.startswith("mlflow.")}
    scores, people = _labels(ratings, "scores")
    of_expectations, expecting = _labels(read_assessments(trace.info, only_expectations=True), "metadata.expectations")
    expected = {**_structured_expectations(trace.info), **of_expectations}
    judges: dict[str, dict[str, Any]] = {}
    for one in ratings.judges:
        judges.setdefault(one.name, {})[one.rater] = one.label
    more = {"expectations": expected, JUDGE_SCORES: judges}
    return Transcript(
        id=trace.info.trace_id,
        messages=messages,
        input=first_user_text(messages),
        scores=scores,
        metadata={**tags, **{key: value for key, value in more.items() if value}},
        people={**people, **expecting},
        source={
            "format": TRACE,
            "trace_id": trace.info.trace_id,
            "state": str(getattr(trace.info.state, "value", trace.info.state)),
            **{key: value for key, value in source.items() if value},
        },
    )


def _labels(ratings: TraceRatings, place: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return what most people say by name, and what each of them says by field; of an even split nothing leads."""
    people: dict[str, dict[str, Any]] = {}
    for one in ratings.people:
        people.setdefault(one.name, {})[one.rater] = one.label
    leading = {name: most_frequent(list(given.values())) for name, given in people.items()}
    return (
        {name: label for name, label in leading.items() if label is not None},
        {f"{place}.{name}": given for name, given in people.items()},
    )


def _structured_expectations(info: TraceInfo) -> dict[str, Any]:
    """Return expectations that are lists or mappings: facts and texts of a right answer, no labels."""
    return {name: value for name, value in expectations_of(info).items() if isinstance(value, dict | list)}


def _chat(trace: Trace) -> tuple[tuple[Message, ...], dict[str, Any]] | None:
    """Return the longest conversation of a trace's chat spans, or None where there is none."""
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
            stacklevel=5,
        )
    replaced = next(count for one, (_, count) in read if one is span)
    return messages, {"span": span.name, "other_chat_spans": others, "replaced_characters": replaced}


def _single_turn(trace: Trace) -> tuple[tuple[Message, ...], dict[str, Any]]:
    """Return what the root span was given and what it returned, as two messages."""
    root = next((span for span in trace.data.spans if span.parent_id is None), None)
    if root is None:
        raise _UnreadError("no root span")
    said = [one for message in _answered(root.outputs) for one in plain_messages(message)]
    answers = [one for one in said if one.get("role") == "assistant"]
    raw, replaced = clean_data([_text(root.inputs, _QUESTIONS), _text(root.outputs, _ANSWERS)])
    for text, what in zip(raw, ("input", "output"), strict=True):
        if not text.strip():
            raise _UnreadError(f"no {what}")
    given: list[dict[str, Any]] = [{"role": "user", "content": raw[0]}]
    given += clean_data(answers[-1:])[0] or [{"role": "assistant", "content": raw[1]}]
    where = f"Trace {trace.info.trace_id}, span {root.name!r}"
    return from_openai(given, where=where), {"span": root.name, "single_turn": True, "replaced_characters": replaced}


def _text(value: Any, keys: Sequence[str]) -> str:
    """Return the text that somebody wrote: as it is, under a usual or the only key, or else all of it as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and len(value) == 1:
        return _text(value[0], keys)
    if isinstance(value, Mapping):
        found = next((text for key in keys if (text := _text(value.get(key), keys))), "")
        if found or len(value) < 2:
            return found or next((_text(inner, keys) for inner in value.values()), "")
    return json.dumps(value, ensure_ascii=False, default=str)


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
    if isinstance(inputs, Mapping) and "messages" not in inputs:
        return next((found for key in _WRAPPERS if (found := _asked(inputs.get(key)))), None)
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
    keys = ("messages", "message", "output", "outputs", "response")
    return _answered(next((outputs[key] for key in keys if key in outputs), None))


def _is_message(value: object) -> bool:
    return isinstance(value, Mapping) and ("role" in value or value.get("type") in LANGCHAIN_ROLES)


def _key(message: Message) -> tuple[object, ...]:
    return message.role, message.content, tuple(str(call.get("id")) for call in message.tool_calls)


def _has(ids: Sequence[str]) -> str:
    return "has" if len(ids) == 1 else "have"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
