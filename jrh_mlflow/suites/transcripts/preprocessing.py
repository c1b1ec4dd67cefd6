"""Preprocessors: what of a transcript no judge is shown, each on record.

Built in are

    drop_tool_messages             tool results and the calls they answer
    strip_tool_call_outputs        tool results, and results inside of messages; the calls stay
    keep_assistant_comment_lines   of code that the assistant ran (the argument `code` of its calls) the comments
    drop_reasoning                 what the model thought; text such as <think>…</think> in a message is text, and stays
    keep_last:10                   the last ten messages, and the system messages the transcript begins with

and a function `f(transcript)` of the user's, as it is or as `file.py:function` or `package.module:function`, returns a
`Transcript` or messages. A message of which a built-in step leaves nothing is dropped, and so is a result without its
call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.plugins import function_from_text, function_name
from jrh_mlflow.schema.presentation import Message, saved_message
from jrh_mlflow.suites.transcripts.transcript import RESULTS, Transcript, asking_messages, from_openai

_SYSTEM = ("system", "developer")
_THOUGHTS = ("reasoning", "thinking", "redacted_thinking")
_OUTPUTS = ("outputs", "output", "result")
"""Fields of a call, or of a tool that the provider ran, that hold what it returned."""
_CODE, _COMMENTS = "code", ("#", "//")

Messages = tuple[Message, ...]
StepRecord = Mapping[str, Any]
"""What a step did: its name as `step`, then counts of what it dropped."""
Step = Callable[[Transcript], tuple[Transcript, Mapping[str, int]]]
"""What is left of a transcript, and counts of what was dropped."""
Preprocessor = str | Callable[[Transcript], object]
"""A step as users give it: a name, the place of a function, or a function."""


def preprocess(messages: Sequence[Message], steps: Sequence[Preprocessor]) -> tuple[Messages, tuple[StepRecord, ...]]:
    """Apply steps in order, and return what is left with a record of what each step dropped.

    Raises:
        RecipeError: for an unknown step or a wrong argument, or when nothing is left.

    Example:
        >>> talk = [Message(role="user", content="Hi"), Message(role="assistant", content="Hello.", reasoning="Greet.")]
        >>> preprocess(talk, ["drop_reasoning", "keep_last:1"])[1]
        ({'step': 'drop_reasoning', 'messages': 0, 'reasoning': 1}, {'step': 'keep_last:1', 'messages': 1})
    """
    left, records = apply_steps(Transcript(id="messages", messages=tuple(messages)), check_steps(steps))
    return left.messages, records


def apply_steps(transcript: Transcript, steps: Mapping[str, Step]) -> tuple[Transcript, tuple[StepRecord, ...]]:
    """Apply what `check_steps` returned to one transcript.

    Raises:
        RecipeError: when a step leaves nothing to judge, or a function fails.
    """
    records: list[StepRecord] = []
    for name, step in steps.items():
        left, dropped = step(transcript)
        # A judge that is shown nothing would be measured on nothing.
        if _spoken(transcript.messages) and not _spoken(left.messages):
            raise RecipeError(
                f"Preprocessor {name!r} leaves nothing to judge of {len(transcript.messages)} messages. "
                "Leave it out, or keep more."
            )
        transcript = left
        records.append({"step": name, **dropped})
    return transcript, tuple(records)


def check_steps(steps: Sequence[object]) -> dict[str, Step]:
    """Resolve steps as users give them, before anything is read.

    Raises:
        RecipeError: for a step that is not known, or comes twice.
    """
    if isinstance(steps, str):
        raise RecipeError(f"Preprocessors are a list, but got the text {steps!r}. Give [{steps!r}].")
    resolved = dict(_resolved(spec) for spec in steps)
    if len(resolved) < len(steps):
        names = ", ".join(_resolved(spec)[0] for spec in steps)
        raise RecipeError(f"Each preprocessor is applied once, but one repeats in {names}.")
    return resolved


def is_function(step: object) -> bool:
    """Whether a step names code: a colon may be an argument (`keep_last:10`) or a place (`file.py:function`).

    Example:
        >>> is_function("keep_last:10"), is_function("mine.py:shorten"), is_function("drop_reasoning")
        (False, True, False)
    """
    place, _, name = str(step).rpartition(":")
    # Names of ours come first.
    is_ours = place.partition(":")[0] in (*_PLAIN, "keep_last", "")
    return isinstance(step, str) and not is_ours and name.isidentifier()


def _resolved(spec: object) -> tuple[str, Step]:
    """Return the name that is logged, without a folder of this machine, and the step."""
    if callable(spec):
        name = function_name(spec)
        return name, _own(name, spec)
    text = str(spec)
    if not is_function(text):
        head, _, argument = text.partition(":")
        return text, _built_in(text, head, argument)
    place, _, name = text.rpartition(":")
    function = function_from_text(text)
    if not callable(function):
        raise RecipeError(f"Preprocessor {text!r} is no function, but a {type(function).__name__}.")
    shown = f"{Path(place).name if place.endswith('.py') else place}:{name}"
    return shown, _own(shown, function)


def _built_in(spec: str, name: str, argument: str) -> Step:
    if name == "keep_last":
        if not (argument.isascii() and argument.isdigit() and int(argument) >= 1):
            raise RecipeError(f"`keep_last` needs how many messages to keep, as in 'keep_last:10', but got {spec!r}.")
        return _on_messages(lambda messages: keep_last(messages, int(argument)))
    if name not in _PLAIN:
        known = (*_PLAIN, "keep_last:10")
        listed = f"{', '.join(known)}, or a function of yours, file.py:function"
        raise RecipeError(f"Unknown preprocessor {spec!r}.{suggest(name, known)} Known: {listed}.")
    if spec != name:
        raise RecipeError(f"Preprocessor {name!r} takes no argument, but got {spec!r}.")
    return _on_messages(_PLAIN[name])


def _on_messages(step: Callable[[Messages], tuple[Messages, Mapping[str, int]]]) -> Step:
    def on_transcript(transcript: Transcript) -> tuple[Transcript, Mapping[str, int]]:
        left, dropped = step(transcript.messages)
        return replace(transcript, messages=left), dropped

    return on_transcript


def _own(name: str, function: Callable[[Transcript], object]) -> Step:
    """Wrap a function of the user's: what it raises or returns is checked, and told with the transcript's id."""

    def on_transcript(transcript: Transcript) -> tuple[Transcript, Mapping[str, int]]:
        where = f"Preprocessor {name!r}, transcript {transcript.id!r}"
        try:
            returned = function(transcript)
        except Exception as error:  # a function of the user's may raise anything
            problem = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise RecipeError(f"{where}: {problem}") from error
        left = _read_returned(returned, transcript, where)
        counts = {"messages": len(transcript.messages) - len(left.messages)}
        # Counted only where the function made more of them: a log may hold some by itself.
        orphans = _orphans(left.messages)
        return left, {**counts, "results_without_call": orphans} if orphans > _orphans(transcript.messages) else counts

    return on_transcript


def _read_returned(returned: object, before: Transcript, where: str) -> Transcript:
    if isinstance(returned, Transcript):
        if returned.id != before.id:
            raise RecipeError(f"{where}: the transcript must keep its id, but came back as {returned.id!r}.")
        return replace(returned, messages=_read_messages(returned.messages, where))
    if isinstance(returned, list | tuple):
        return replace(before, messages=_read_messages(returned, where))
    raise RecipeError(f"{where}: it must return a Transcript or messages, but returned a {type(returned).__name__}.")


def _read_messages(messages: object, where: str) -> Messages:
    if not isinstance(messages, list | tuple):
        raise RecipeError(f"{where}: messages must be a list, but are a {type(messages).__name__}.")
    for number, message in enumerate(messages, 1):
        if isinstance(message, Message) and (problem := _problem(message)) is not None:
            raise RecipeError(f"{where}: message {number} {problem}.")
    if all(isinstance(message, Message) for message in messages):
        return tuple(messages)
    return from_openai(messages, where=where)


def _problem(message: Message) -> str | None:
    """Say what no suite could hold of a message."""
    for name in ("role", "content"):
        if not isinstance(getattr(message, name), str):
            return f"has the `{name}` {getattr(message, name)!r}, which is no text"
    calls = message.tool_calls
    if not isinstance(calls, tuple) or not all(isinstance(call, Mapping) for call in calls):
        return "has `tool_calls` that are no tuple of mappings"
    try:
        json.dumps(saved_message(message))
    except (TypeError, ValueError) as error:
        return f"cannot be written as JSON ({error})"
    return None


def _orphans(messages: Messages) -> int:
    callers = asking_messages(messages)
    return sum(message.role in RESULTS and place not in callers for place, message in enumerate(messages))


def drop_tool_messages(messages: Messages) -> tuple[Messages, dict[str, int]]:
    """Drop tool results, tool calls, and messages that held nothing else."""
    spoken = [message for message in messages if message.role not in RESULTS]
    left = _without_emptied(spoken, [replace(message, tool_calls=()) for message in spoken])
    n_calls = sum(len(message.tool_calls) for message in messages)
    return left, {"messages": len(messages) - len(left), "tool_calls": n_calls}


def strip_tool_call_outputs(messages: Messages) -> tuple[Messages, dict[str, int]]:
    """Drop what tools returned, as messages and inside of them; what was called with which arguments stays."""
    spoken = [message for message in messages if message.role not in RESULTS]
    left = [
        replace(
            message,
            tool_calls=tuple(map(_without_outputs, message.tool_calls)),
            parts=tuple(_without_outputs(part) if part.get("type") == "tool_use" else part for part in message.parts),
        )
        for message in spoken
    ]
    n_inside = sum(before != after for before, after in zip(spoken, left, strict=True))
    counts = {"messages": len(messages) - len(left)}
    return tuple(left), {**counts, "with_outputs": n_inside} if n_inside else counts


def _without_outputs(call: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in call.items() if key not in _OUTPUTS}


def keep_assistant_comment_lines(messages: Messages) -> tuple[Messages, dict[str, int]]:
    """Leave only comment lines of the code the assistant ran: the argument `code` of its tool calls."""
    left, n_lines = [], 0
    for message in messages:
        calls = [_comments_only(call) for call in message.tool_calls] if message.role == "assistant" else []
        n_lines += sum(n_dropped for _, n_dropped in calls)
        left.append(replace(message, tool_calls=tuple(call for call, _ in calls)) if calls else message)
    return tuple(left), {"messages": 0, "code_lines": n_lines}


def _comments_only(call: Mapping[str, Any]) -> tuple[Mapping[str, Any], int]:
    """Return a call without the executable lines of its code, and how many those were."""
    given = call.get("arguments")
    arguments = _json_object(given) if isinstance(given, str) else given
    if not isinstance(arguments, Mapping) or not isinstance(arguments.get(_CODE), str):
        return call, 0
    lines = arguments[_CODE].splitlines()
    kept = [line for line in lines if line.lstrip().startswith(_COMMENTS)]
    left = {**arguments, _CODE: "\n".join(kept)}
    shown = json.dumps(left, ensure_ascii=False) if isinstance(given, str) else left
    return {**call, "arguments": shown}, len(lines) - len(kept)


def _json_object(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def drop_reasoning(messages: Messages) -> tuple[Messages, dict[str, int]]:
    """Drop reasoning, readable or redacted."""
    parts = [tuple(part for part in message.parts if part.get("type") not in _THOUGHTS) for message in messages]
    kept = [replace(message, reasoning=None, parts=rest) for message, rest in zip(messages, parts, strict=True)]
    n_thoughts = sum(before != after for before, after in zip(messages, kept, strict=True))
    left = _without_emptied(messages, kept)
    return left, {"messages": len(messages) - len(left), "reasoning": n_thoughts}


def keep_last(messages: Messages, n: int) -> tuple[Messages, dict[str, int]]:
    """Keep the last `n` messages and the system messages at the beginning; no tool result without its call."""
    # The system prompt says what the assistant may do, so a judge needs it however much is cut.
    head = next((i for i, message in enumerate(messages) if message.role not in _SYSTEM), len(messages))
    first = max(head, len(messages) - n)
    callers = asking_messages(messages)
    orphans = {i for i in range(first, len(messages)) if (call := callers.get(i)) is not None and call < first}
    left = [message for i, message in enumerate(messages) if (i < head or i >= first) and i not in orphans]
    counts = {"messages": len(messages) - len(left)}
    return tuple(left), {**counts, "results_without_call": len(orphans)} if orphans else counts


def _spoken(messages: Sequence[Message]) -> bool:
    return any(message.role not in _SYSTEM for message in messages)


def _without_emptied(before: Sequence[Message], after: Sequence[Message]) -> Messages:
    """Leave out what a step emptied; what was empty before stays."""
    return tuple(new for old, new in zip(before, after, strict=True) if old == new or not _empty(new))


def _empty(message: Message) -> bool:
    return not (message.content.strip() or message.tool_calls or message.reasoning or message.error or message.parts)


_PLAIN: Mapping[str, Callable[[Messages], tuple[Messages, Mapping[str, int]]]] = {
    "drop_tool_messages": drop_tool_messages,
    "strip_tool_call_outputs": strip_tool_call_outputs,
    "keep_assistant_comment_lines": keep_assistant_comment_lines,
    "drop_reasoning": drop_reasoning,
    # The name that users of other harnesses know.
    "drop_reasoning_traces": drop_reasoning,
}
