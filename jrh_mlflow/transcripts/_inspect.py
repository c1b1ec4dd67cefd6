"""Inspect's chat messages and ours. Not read are custom views of tool calls and the messages' own metadata.

What our messages hold and Inspect's have no place for (a developer's role, an argument text that is no JSON, a part of
another API) travels in metadata or data blocks named `jrh`, so that reading back gives equal messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.transcripts._openai_out import split_refusal

if TYPE_CHECKING:
    from inspect_ai.model import ChatMessage, Content
    from inspect_ai.tool import ToolCall, ToolCallError

OWN = "jrh"
_ROLES = {"developer": "system", "function": "tool"}
_CONTENT = ("reasoning", "image", "audio", "video", "document", "data", "tool_use")


def require_inspect() -> None:
    """Refuse, with what to type, when the optional library is missing."""
    try:
        import inspect_ai.log  # noqa: F401
    except ImportError as error:
        raise RecipeError(f"Inspect logs need inspect_ai: pip install 'jrh-mlflow[inspect]' ({error}).") from error


def from_chat(chat: ChatMessage) -> Message:
    """Read one of Inspect's messages."""
    own = (chat.metadata or {}).get(OWN) or {}
    content, reasoning, parts = _read_content(chat.content)
    answered = getattr(chat, "tool_call_id", None)
    if isinstance(answered, list):
        parts.append({"type": "field", "name": "tool_call_id", "value": answered})
    error = getattr(chat, "error", None)
    return Message(
        role=own.get("role", chat.role),
        content=content,
        tool_calls=tuple(_read_call(call) for call in getattr(chat, "tool_calls", None) or ()),
        tool_call_id=answered if isinstance(answered, str) else None,
        id=chat.id,
        name=own.get("name", getattr(chat, "function", None)),
        reasoning=reasoning,
        error=None if error is None else f"{error.type}: {error.message}",
        parts=tuple(parts),
    )


def to_chat(message: Message, *, origin: ChatMessage | None, new_id: str) -> ChatMessage:
    """Write a message under a new id; `origin`, the message it was made from, is copied where nothing was edited.

    Raises:
        RecipeError: for a role Inspect does not have.
    """
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageTool, ChatMessageUser

    if origin is not None and replace(from_chat(origin), id=message.id) == message:
        return origin.model_copy(update={"id": new_id}, deep=True)
    kinds = {
        "system": ChatMessageSystem,
        "user": ChatMessageUser,
        "assistant": ChatMessageAssistant,
        "tool": ChatMessageTool,
    }
    role = _ROLES.get(message.role, message.role)
    if role not in kinds:
        raise RecipeError(f"Inspect logs have no role {message.role!r}. Known: {', '.join((*kinds, *_ROLES))}.")
    fields: dict[str, Any] = {"id": new_id, "content": _content(message), "metadata": _metadata(message, origin, role)}
    if origin is not None and origin.role == role:
        fields |= {name: getattr(origin, name) for name in ("source", "model") if hasattr(origin, name)}
    if role == "assistant":
        fields["tool_calls"] = [_call(call, n) for n, call in enumerate(message.tool_calls)] or None
    if role == "tool":
        fields |= {"tool_call_id": message.tool_call_id, "function": message.name, "error": _error(message.error)}
    if role == "user" and (answered := _field(message, "tool_call_id")):
        fields["tool_call_id"] = answered
    return kinds[role](**fields)


def _read_content(content: str | list[Content]) -> tuple[str, str | None, list[Mapping[str, Any]]]:
    if isinstance(content, str):
        return content, None, []
    texts: list[str] = []
    thoughts: list[str] = []
    parts: list[Mapping[str, Any]] = []
    for part in content:
        plain = part.model_dump(exclude_none=True, mode="json")
        if part.type == "text":
            texts.append(part.text)
            parts += [{"type": "refusal", "refusal": part.text}] if part.refusal else []
            parts += [{"type": "citations", "citations": plain["citations"]}] if plain.get("citations") else []
        elif part.type == "reasoning":
            thoughts += [text] if (text := _thought(plain)) else []
            parts += [plain] if part.redacted else []
        elif part.type == "data" and OWN in part.data:
            parts.append(plain["data"][OWN])
        else:
            parts.append(plain)
    return "\n".join(texts), "\n".join(thoughts) or None, parts


def _thought(part: Mapping[str, Any]) -> str:
    """Return what can be read of reasoning: of a redacted one the summary."""
    plain = "" if part.get("redacted") else str(part.get("reasoning") or "")
    return plain or str(part.get("summary") or "")


def _read_call(call: ToolCall) -> dict[str, Any]:
    read: dict[str, Any] = {"id": call.id, "name": call.function, "arguments": call.arguments}
    if set(call.arguments) == {OWN}:
        read["arguments"] = call.arguments[OWN]
    if call.parse_error:
        read["parse_error"] = call.parse_error
    return read if call.type == "function" else {**read, "type": call.type}


def _content(message: Message) -> str | list[Content]:
    from inspect_ai.model import Content, ContentReasoning, ContentText
    from pydantic import TypeAdapter

    text, refusal = split_refusal(message)
    blocks: list[Content] = []
    redacted = [part for part in message.parts if part.get("type") == "reasoning"]
    # The readable text of redacted reasoning is its summary, and comes back with it.
    if message.reasoning and message.reasoning != "\n".join(filter(None, map(_thought, redacted))):
        blocks.append(ContentReasoning(reasoning=message.reasoning))
    blocks += [ContentText(text=text)] if text else []
    blocks += [ContentText(text=refusal, refusal=True)] if refusal else []
    for part in message.parts:
        kind = part.get("type")
        if kind == "refusal" or (kind == "field" and part.get("name") == "tool_call_id"):
            continue
        inspects = kind in _CONTENT and (kind in part or kind == "tool_use")
        plain = dict(part) if inspects else {"type": "data", "data": {OWN: dict(part)}}
        blocks.append(TypeAdapter(Content).validate_python(plain))
    return blocks if len(blocks) > bool(text) else message.content


def _metadata(message: Message, origin: ChatMessage | None, role: str) -> dict[str, Any] | None:
    kept = dict((origin.metadata or {}) if origin is not None else {})
    kept.pop(OWN, None)
    own = {"role": message.role} if message.role != role else {}
    own |= {"name": message.name} if message.name is not None and role != "tool" else {}
    return {**kept, **({OWN: own} if own else {})} or None


def _call(call: Mapping[str, Any], number: int) -> ToolCall:
    from inspect_ai.tool import ToolCall

    arguments = call.get("arguments")
    return ToolCall(
        id=str(call.get("id") or f"call_{number}"),
        function=str(call.get("name") or ""),
        arguments=dict(arguments) if isinstance(arguments, Mapping) else {OWN: arguments},
        parse_error=call.get("parse_error"),
        type=call.get("type", "function"),
    )


def _error(text: str | None) -> ToolCallError | None:
    from inspect_ai.tool import ToolCallError

    if text is None:
        return None
    kinds = get_args(get_type_hints(ToolCallError)["type"])
    kind, colon, message = text.partition(": ")
    return ToolCallError(kind, message) if colon and kind in kinds else ToolCallError("unknown", text)


def _field(message: Message, name: str) -> Any:
    return next((p["value"] for p in message.parts if p.get("type") == "field" and p.get("name") == name), None)
