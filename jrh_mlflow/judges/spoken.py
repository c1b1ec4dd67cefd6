"""JSON objects in a model's text, found strictly and safely, and the thinking that is no part of its answer.

One pass whose time grows with the length of the text, whatever the text is, and which never recurses: a megabyte of
opening brackets is read like a megabyte of prose.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

MAX_DEPTH = 32
"""Nesting of an answer; a verdict needs 1."""

_LONGEST_INTEGER = 300
"""Digits; longer ones are beyond every float, and slow to read."""
_LONGEST_FLAT = 20_000
# A brace that neither a key nor its own end follows, as in {x}, is prose; at the very end the text was cut.
_OPENER = re.compile(r'\{(?=[ \t\n\r]*(?:["}]|\Z))|\[')
_BRACKET = re.compile(r'[{}\[\]"]')
_TOKEN = re.compile(
    r'[ \t\n\r]*(?:(?P<mark>[{}\[\]:,"])|(?P<scalar>true|false|null|NaN|-?Infinity|'
    r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?))"
)
_BLANK_END = re.compile(r"[ \t\n\r]*\Z")
_STRING_STOP = re.compile(r'["\\\x00-\x1f]')
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')

_VALUE = {"{": "push", "[": "push", '"': "after", "scalar": "after"}
_GRAMMAR: Mapping[str, Mapping[str, str]] = {
    "first key": {'"': "colon", "}": "pop"},
    "key": {'"': "colon"},
    "colon": {":": "value"},
    "first value": {**_VALUE, "]": "pop"},
    "value": _VALUE,
    "after {": {",": "key", "}": "pop"},
    "after [": {",": "value", "]": "pop"},
}
"""JSON: in which state which token may come, and what follows."""


class UnreadableError(Exception):
    """A text without a readable JSON object; `code` says why."""

    def __init__(self, code: str, detail: str | None = None) -> None:
        super().__init__(code)
        self.code, self.detail = code, detail


@dataclass(frozen=True, slots=True)
class Span:
    """Where a JSON object, or something that set out to be one, stands in the text."""

    start: int
    end: int
    problem: str | None = None
    """None for a whole object; `bad_json`, `too_deep`, or `listed` for objects within an array."""


def spans(text: str) -> Iterator[Span]:
    """Yield the objects at the top level of the text, the whole ones and the broken ones, in order.

    Example:
        >>> text = 'So: {"a": {"b": 1}} and {"c": 2}.'
        >>> [text[span.start : span.end] for span in spans(text)]
        ['{"a": {"b": 1}}', '{"c": 2}']
    """
    flat = _flat_object(text)
    if flat is not None:
        yield flat
        return
    position = 0
    while opener := _OPENER.search(text, position):
        start = opener.start()
        end, depth, problem = _walk(text, start)
        if problem == "prose":
            # Only the bracket is passed over: JSON may begin right behind it.
            position = start + 1
            continue
        position = end if problem is None else _skip(text, end, depth)
        if text[start] == "{" or problem == "too_deep":
            yield Span(start, position, problem)
        elif text.find("{", start, position) >= 0:
            yield Span(start, position, problem or "listed")


def _flat_object(text: str) -> Span | None:
    """Recognise the usual answer, one object and nothing nested in it, at a fraction of the walk's cost."""
    body = text.strip(" \t\n\r")
    # A second opener may stand in a string, or begin another object: only the walk can tell.
    if len(body) > _LONGEST_FLAT or body[:1] != "{" or body.count("{") > 1 or "[" in body:
        return None
    try:
        json.loads(body)
    except ValueError:
        return None
    start = text.index("{")
    return Span(start, start + len(body))


def decode(text: str) -> dict[str, Any]:
    """Return the fields of an object that `spans` found whole.

    Raises:
        UnreadableError: `duplicate_keys` or `bad_number`, at any depth.
    """
    fields: dict[str, Any] = _DECODER.decode(text)
    return fields


def string_end(text: str, position: int) -> tuple[int, bool]:
    """Return where the string whose quote stands before `position` ends, or where it breaks and False."""
    while stop := _STRING_STOP.search(text, position):
        if stop[0] == '"':
            return stop.end(), True
        escape = _ESCAPE.match(text, stop.start())
        if escape is None:
            return stop.end(), False
        position = escape.end()
    return len(text), False


def _walk(text: str, start: int) -> tuple[int, int, str | None]:
    """Follow the JSON that begins at `start`.

    Returns:
        Where it ends, 0 and None; or where it breaks, how many brackets are open there, and the problem: `too_deep`,
        `bad_json`, or `prose` when the bracket was no beginning of JSON at all.
    """
    stack: list[str] = []
    state, position, begun = "value", start, False
    while True:
        mark, move, end = _step(text, position, state)
        if move == "push" and len(stack) == MAX_DEPTH:
            return position, len(stack), "too_deep"
        if move is None:
            # A text cut by the token limit ends within JSON that had no time to show that it was any.
            unfinished = _BLANK_END.match(text, position) or (mark == '"' and end == len(text))
            return position, len(stack), "bad_json" if begun or len(stack) > 1 or unfinished else "prose"
        position, begun = end, begun or mark in (":", ",")
        if move == "push":
            stack.append(mark)
            state = "first key" if mark == "{" else "first value"
            continue
        if move == "pop":
            stack.pop()
            if not stack:
                return position, 0, None
        state = f"after {stack[-1]}" if move in ("pop", "after") else move


def _step(text: str, position: int, state: str) -> tuple[str, str | None, int]:
    """Return the next token, what it leads to (None when it may not stand here) and where it ends."""
    found = _TOKEN.match(text, position)
    if found is None:
        return "", None, position
    mark = found["mark"] or "scalar"
    move, end = _GRAMMAR[state].get(mark), found.end()
    if move is not None and mark == '"':
        end, closed = string_end(text, end)
        return mark, move if closed else None, end
    return mark, move, end


def _skip(text: str, position: int, depth: int) -> int:
    """Return where broken JSON with `depth` open brackets is closed: nothing within it is at the top level."""
    while depth and (found := _BRACKET.search(text, position)):
        position = found.end()
        if found[0] == '"':
            # Brackets within a string open and close nothing.
            position, _ = string_end(text, position)
        else:
            depth += 1 if found[0] in "{[" else -1
    return len(text) if depth else position


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise UnreadableError("duplicate_keys")
    return fields


def _float(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _no_number(digits)


def _int(digits: str) -> int:
    return int(digits) if len(digits) < _LONGEST_INTEGER else _no_number(digits)


def _no_number(digits: str) -> NoReturn:
    raise UnreadableError("bad_number", f"{digits[:40]} is no number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_float, parse_int=_int, parse_constant=_no_number)


# Thinking that a model writes into its answer, between tags such as `<think>` and `</think>`: servers without a parser
# for it hand it out as part of the text, some of them without the opening tag. What a model tries out there is no
# answer. A tag in a string of a JSON object is a quotation. So is an opening tag that nothing closes, within a line or
# among what the judge was shown, unless the text begins with it.

_NAMES = r"(?:\w+:)?(?:think|thinking|thoughts?|reasoning|analysis|scratchpad)"
_OPENS = rf"<{_NAMES}(?:\s[^<>]*)?>|\[THINK\]|◁think▷"
_THOUGHT = re.compile(_OPENS, re.IGNORECASE)
_THOUGHT_OF_A_LINE = re.compile(rf"^[ \t*`_]*({_OPENS})", re.IGNORECASE | re.MULTILINE)
_CLOSER = re.compile(rf"</{_NAMES}\s*>|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>", re.IGNORECASE)
FILLER = "\ufffc"
"""Unicode's stand-in for what is not shown: neither blank nor punctuation, and no letter."""
_BEFORE_A_TAG = " \t\r\n*`_"
_MOST = 64
"""Closing tags that are looked at, the last ones: a text of nothing else is read in no time, too."""


def without_thoughts(text: str, *, shown: Sequence[str] = ()) -> str:
    """Return a text of the same length whose thoughts are filler, so that all else stands where it stood.

    A thought ends its line and is no blank: what stands before it is not the end of the text.

    Example:
        >>> without_thoughts('<think>A?</think>{"verdict": "B"}').lstrip(FILLER).split()
        ['{"verdict":', '"B"}']
    """
    if "<" not in text and "[" not in text and "◁" not in text:
        return text
    closers = deque(_CLOSER.finditer(text), maxlen=_MOST)
    start = closers[0].start() if len(closers) == _MOST else 0
    parts = [_filler(start)]
    while (closing := _first_closing(text, start)) is not None:
        opener = _THOUGHT.search(text, start, closing)
        begin = opener.start() if opener else start
        parts += [text[start:begin], _filler(closing - begin)]
        start = closing
    rest = text[start:]
    end = _unclosed(rest, shown)
    return "".join([*parts, rest[:end], _filler(len(rest) - end)])


def spoken_text(text: str, *, shown: str) -> str:
    """Return a text without its thoughts; whole where the writer was shown such tags, for they may be its subject."""
    if _THOUGHT.search(shown) or _CLOSER.search(shown):
        return text.strip()
    return without_thoughts(text).replace(FILLER, "").strip()


def _first_closing(text: str, start: int) -> int | None:
    """Return where the first closing tag behind `start` ends that is not in a string of a whole object."""
    found = _CLOSER.search(text, start)
    objects = (span for span in spans(text[start:]) if span.problem is None)
    while found is not None:
        around = next((span for span in objects if found.start() < start + span.end), None)
        if around is None or found.end() <= start + around.start:
            return found.end()
        found = _CLOSER.search(text, start + around.end)
    return None


def _unclosed(rest: str, shown: Sequence[str]) -> int:
    """Return where the thought begins that runs to the end of the text, or the text's length."""
    found = _THOUGHT_OF_A_LINE.search(rest)
    if found is None:
        return len(rest)
    begins = not rest[: found.start(1)].strip(_BEFORE_A_TAG)
    quoted = any(found[1].casefold() in text.casefold() for text in shown)
    return len(rest) if quoted and not begins else found.start(1)


def _filler(length: int) -> str:
    return FILLER * (length - 1) + "\n" if length else ""
