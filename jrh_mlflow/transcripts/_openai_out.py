"""Messages as OpenAI writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from jrh_mlflow.schema.presentation import Message


def to_openai(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Write messages in OpenAI's form.

    What the form has no place for stands in fields of its own: `id`, `error` of a tool result, `reasoning_content`.

    Example:
        >>> to_openai([Message(role="user", content="Hi")])
        [{'role': 'user', 'content': 'Hi'}]
    """
    return [_message(message) for message in messages]


def _message(message: Message) -> dict[str, Any]:
    content, refusal = split_refusal(message)
    # Fields of the message, and parts of its content.
    fields = {part["name"]: part["value"] for part in message.parts if part.get("type") == "field"}
    parts = [dict(part) for part in message.parts if part.get("type") not in ("field", "refusal")]
    written: dict[str, Any] = {"role": message.role, "content": content}
    if parts:
        written["content"] = [*([{"type": "text", "text": content}] if content else []), *parts]
    elif not content and (message.tool_calls or refusal):
        written["content"] = None
    more = {
        "refusal": refusal,
        "tool_calls": [_call(call) for call in message.tool_calls] or None,
        "tool_call_id": message.tool_call_id,
        "id": message.id,
        "name": message.name,
        "error": message.error,
        "reasoning_content": message.reasoning,
    }
    return {**written, **{name: value for name, value in more.items() if value is not None}, **fields}


def split_refusal(message: Message) -> tuple[str, str | None]:
    """Take the refusal out of the content it ends; one whose text was edited away is none any more."""
    refusal = next((str(part.get("refusal") or "") for part in message.parts if part.get("type") == "refusal"), "")
    if not refusal or not message.content.endswith(refusal):
        return message.content, None
    return message.content[: -len(refusal)].removesuffix("\n"), refusal


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = call.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": call.get("id"), "type": "function", "function": {"name": call.get("name"), "arguments": text}}
