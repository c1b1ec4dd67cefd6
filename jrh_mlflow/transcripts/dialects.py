"""Messages as LangChain and Anthropic write them, brought into OpenAI's form, from which all are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

LANGCHAIN_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_LANGCHAIN_FIELDS = ("content", "name", "id", "tool_call_id", "tool_calls")
_ANTHROPIC = ("tool_use", "tool_result", "thinking")


def plain_messages(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a message of any of the three forms as one or more of OpenAI's.

    Example:
        >>> plain_messages({"type": "human", "content": "Hi"})
        [{'content': 'Hi', 'role': 'user'}]
    """
    if "role" not in message:
        kept = {key: message[key] for key in _LANGCHAIN_FIELDS if message.get(key)}
        return [{"content": "", **kept, "role": LANGCHAIN_ROLES.get(str(message.get("type")), message.get("type"))}]
    plain = dict(message)
    if plain.get("type") == "message":
        # An answer of Anthropic's: what stands beside the content (usage, stop reason) is about the call.
        plain = {"role": message["role"], "content": message.get("content")}
    content = plain.get("content")
    blocks = content if isinstance(content, list) else []
    if not any(isinstance(block, Mapping) and block.get("type") in _ANTHROPIC for block in blocks):
        return [plain]
    return _from_blocks(plain, blocks)


def _from_blocks(message: dict[str, Any], blocks: list[Any]) -> list[dict[str, Any]]:
    """Take tool uses, tool results and thinking out of the content: results become messages of their own."""
    rest = [block for block in blocks if not (isinstance(block, Mapping) and block.get("type") in _ANTHROPIC)]
    found = [block for block in blocks if isinstance(block, Mapping) and block.get("type") in _ANTHROPIC]
    results = [_result(block) for block in found if block["type"] == "tool_result"]
    calls = [_call(block) for block in found if block["type"] == "tool_use"]
    thoughts = [str(block.get("thinking") or "") for block in found if block["type"] == "thinking"]
    spoken = {**message, "content": rest}
    if calls:
        spoken["tool_calls"] = calls
    if any(thoughts):
        spoken["reasoning_content"] = "\n".join(filter(None, thoughts))
    return [*results, *([spoken] if rest or calls or any(thoughts) else [])]


def _result(block: Mapping[str, Any]) -> dict[str, Any]:
    content = block.get("content")
    result = {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": content or ""}
    if block.get("is_error"):
        result["error"] = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return result


def _call(block: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": block.get("id"), "function": {"name": block.get("name"), "arguments": block.get("input")}}
