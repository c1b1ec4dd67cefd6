"""The editor's answer: one message, edited, with its tool calls; and which results must follow."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jrh_mlflow.generation.agentic.answers import Rejected, check_keys, one_object
from jrh_mlflow.judges.messages import message_texts
from jrh_mlflow.perturb._agent_rules import RESULTS
from jrh_mlflow.perturb.checks import about_the_editing
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.transcripts.preprocess import asking

_ELIDED = re.compile(
    r"[\[(<…][^\])>\n]{0,40}\b(?:unchanged|remains? the same|rest of the)\b[^\])>\n]{0,40}[\])>]", re.I
)
"""What a model writes instead of repeating a long text."""


_USE, _USE_KEYS = "tool_use", ("id", "name", "arguments", "result")
"""A tool that the provider ran within the message: a part that holds its call and its result."""


def form(message: Message) -> dict[str, Any]:
    """Return what of a message can be edited, in the form of the editor's answer."""
    shown: dict[str, Any] = {"content": message.content}
    if message.role in RESULTS:
        return {**shown, "error": message.error}
    if message.reasoning is not None:
        shown = {"reasoning": message.reasoning, **shown}
    if message.tool_calls:
        shown["tool_calls"] = [
            {"id": call.get("id"), "name": call.get("name"), "arguments": call.get("arguments")}
            for call in message.tool_calls
        ]
    if uses := [part for part in message.parts if part.get("type") == _USE]:
        shown["tool_uses"] = [{key: part.get(key) for key in _USE_KEYS} for part in uses]
    return shown


def read_edit(text: str, message: Message, *, may_stay: bool = False) -> Message:
    """Read an edited message.

    Args:
        text: The editor's answer.
        message: As it was.
        may_stay: True when an edit that changes nothing is an answer, too.

    Raises:
        Rejected: when the form is broken, a tool call lost, arguments are no JSON, or nothing was edited.
    """
    needed = [key for key in form(message) if key != "error"]
    fields = check_keys(one_object(text), needed, "the message", allowed=("error",) if message.role in RESULTS else ())
    content = _text(fields, "content")
    edited = replace(message, content=content, parts=_parts(message, content))
    if "tool_calls" in fields:
        edited = replace(edited, tool_calls=_calls(fields["tool_calls"], message.tool_calls))
    if "tool_uses" in fields:
        edited = replace(edited, parts=_uses(fields["tool_uses"], edited.parts))
    if "reasoning" in fields:
        edited = replace(edited, reasoning=_text(fields, "reasoning", optional=True) or None)
    if "error" in fields:
        edited = replace(edited, error=_text(fields, "error", optional=True) or None)
    _check(message, edited, may_stay=may_stay)
    return edited


def changed_calls(before: Message, after: Message) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """List the calls whose arguments were edited: as they were, and as they are now."""
    pairs = zip(before.tool_calls, after.tool_calls, strict=True)
    return [(old, new) for old, new in pairs if old.get("arguments") != new.get("arguments")]


def results_of(messages: Sequence[Message], place: int, call: Mapping[str, Any]) -> list[int]:
    """List the messages that hold the result of a call of the message at `place`.

    A result without the id of a call is that of the only call, or of the calls of the tool it names.
    """
    only = len(messages[place].tool_calls) == 1
    own = [result for result, caller in asking(messages).items() if caller == place]
    return [result for result in own if _answers(messages[result], call, only=only)]


def _answers(result: Message, call: Mapping[str, Any], *, only: bool) -> bool:
    if result.tool_call_id is None:
        return only or (result.name is not None and result.name == call.get("name"))
    return result.tool_call_id == call.get("id")


def _check(before: Message, after: Message, *, may_stay: bool) -> None:
    if after == before:
        if may_stay:
            return
        raise Rejected("the message is unchanged: the step was not carried out")
    if not (after.content.strip() or after.tool_calls or after.error or after.parts) and before.content.strip():
        raise Rejected("the edited message is empty")
    problem = about_the_editing(before.content, after.content)
    if problem is not None:
        raise Rejected(problem)
    # Arguments, results and reasoning are shown to a judge, too.
    old, new = ("\n".join(message_texts(message)) for message in (before, after))
    if "rubric" in new.lower() and "rubric" not in old.lower():
        raise Rejected("the edited message speaks of the rubric")
    elided = next((found[0] for found in _ELIDED.finditer(new) if found[0] not in old), None)
    if elided is not None:
        raise Rejected(f"part of the message was left out: {elided[:60]}")


def _text(fields: Mapping[str, Any], name: str, *, optional: bool = False) -> str:
    value = fields[name]
    if value is None and optional:
        return ""
    if not isinstance(value, str):
        raise Rejected(f"`{name}` must be text")
    return value


def _parts(message: Message, content: str) -> tuple[Mapping[str, Any], ...]:
    """Drop the mark of a refusal whose words were edited away."""
    return tuple(
        part
        for part in message.parts
        if part.get("type") != "refusal" or content.endswith(str(part.get("refusal") or ""))
    )


def _calls(listed: object, before: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(listed, list) or len(listed) != len(before):
        raise Rejected(f"`tool_calls` must list the {len(before)} calls of the message")
    return tuple(_call(entry, old, number) for number, (entry, old) in enumerate(zip(listed, before, strict=True), 1))


def _uses(listed: object, parts: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Put edited arguments and results into the parts they come from."""
    n_uses = sum(part.get("type") == _USE for part in parts)
    if not isinstance(listed, list) or len(listed) != n_uses:
        raise Rejected(f"`tool_uses` must list the {n_uses} tool uses of the message")
    left = iter(listed)
    return tuple(_use(next(left), part) if part.get("type") == _USE else part for part in parts)


def _use(entry: object, old: Mapping[str, Any]) -> Mapping[str, Any]:
    fields = check_keys(entry, _USE_KEYS, "a tool use")
    for key in ("id", "name"):
        if fields[key] != old.get(key):
            raise Rejected(f"a tool use must keep its {key} {old.get(key)!r}, but has {str(fields[key])[:60]!r}")
    for key in ("arguments", "result"):
        if type(fields[key]) is not type(old.get(key)):
            raise Rejected(f"the {key} of tool use {old.get('name')!r} must keep the form they had")
    return {**old, **{key: fields[key] for key in _USE_KEYS if key in old}}


def _call(entry: object, old: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    fields = check_keys(entry, ("id", "name", "arguments"), f"tool call {number}")
    for key in ("id", "name"):
        if fields[key] != old.get(key):
            raise Rejected(
                f"tool call {number} must keep its {key} {old.get(key)!r}, but has {str(fields[key])[:60]!r}"
            )
    arguments = _arguments(fields["arguments"], old.get("arguments"), number)
    if arguments == old.get("arguments"):
        return old
    # What was wrong with the old arguments says nothing about the new ones.
    return {**{key: value for key, value in old.items() if key != "parse_error"}, "arguments": arguments}


def _arguments(given: object, old: object, number: int) -> object:
    """Return arguments in the form they had: an object, or the text of one."""
    if given == old:
        return old
    read = given
    if isinstance(given, str):
        whole = given.strip().startswith("{") and given.strip().endswith("}")
        try:
            read = one_object(given) if whole else None
        except Rejected as error:
            raise Rejected(f"the arguments of tool call {number} are no valid JSON: {error}") from error
    if not isinstance(read, dict):
        raise Rejected(f"the arguments of tool call {number} must be a JSON object")
    return json.dumps(read, ensure_ascii=False) if isinstance(old, str) else read
