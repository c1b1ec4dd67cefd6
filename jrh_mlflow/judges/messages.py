"""How a message of a transcript is written for a judge: whole, between markers, with what cannot be shown named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jrh_mlflow.schema.presentation import Message, part_text


def message_block(message: Message, code: str) -> str:
    """Write a message: its reasoning, its text, its tool calls, its error and its other parts, in this order."""
    calls = [
        fence("tool_call", code, _call_body(call), attributes=_call_attributes(call)) for call in message.tool_calls
    ]
    before = [] if message.reasoning is None else [fence("reasoning", code, message.reasoning)]
    error = [] if message.error is None else [fence("error", code, message.error)]
    parts = [fence("part", code, part_text(part), attributes=_part_attributes(part)) for part in message.parts]
    body = "\n".join([*before, message.content, *calls, *error, *parts])
    return fence("message", code, body, attributes=_attributes(message))


def message_texts(message: Message) -> list[str]:
    """List everything that `message_block` writes: no marker's code may occur in it."""
    texts = [message.content, _attributes(message), *(_call_body(call) for call in message.tool_calls)]
    texts += [_call_attributes(call) for call in message.tool_calls]
    texts += [text for text in (message.reasoning, message.error) if text is not None]
    return texts + [text for part in message.parts for text in (part_text(part), _part_attributes(part))]


def fence(name: str, code: str, content: str | None, *, attributes: str = "") -> str:
    """Put a content between two marker lines."""
    if content is None:
        raise ValueError(f"A presentation needs a content for its block {name!r}.")
    return f'<{name} code="{code}"{attributes}>\n{content}\n</{name} code="{code}">'


def _attributes(message: Message) -> str:
    given = {"tool_call_id": message.tool_call_id, "name": message.name}
    return _written({"role": message.role, **{key: value for key, value in given.items() if value is not None}})


def _part_attributes(part: Mapping[str, Any]) -> str:
    return _written({"type": part.get("type", "part")})


def _call_attributes(call: Mapping[str, Any]) -> str:
    return _written({key: value for key, value in call.items() if key != "arguments"})


def _call_body(call: Mapping[str, Any]) -> str:
    """Return the arguments whole: as JSON, or as the text they were recorded as."""
    arguments = call.get("arguments")
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _written(attributes: Mapping[str, Any]) -> str:
    # Roles, names and ids come from the transcript too: as JSON they cannot leave their place in the marker.
    names = {key: key if key.isidentifier() else json.dumps(key, ensure_ascii=False) for key in attributes}
    return "".join(f" {names[key]}={json.dumps(value, ensure_ascii=False)}" for key, value in attributes.items())
