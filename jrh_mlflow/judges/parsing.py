"""From what a judge or a model returned to an outcome. What is no clear answer is `unparsed`.

Of an answer case and outer spaces are forgiven, nothing else. A wrong verdict is worse than none, so in a response the
answer is the JSON object at the end of the text:

- Thinking between tags is no part of the text (`without_thoughts`).
- Prose may go before the object. After it come at most punctuation, a Markdown fence, closing tags (`</answer>`) and
  marks of the end of a turn (`<|im_end|>`). Words after it may take it back, so they make it no answer
  (`trailing_text`). Only a short remark in English below lines of its own (`I hope this helps.`) is passed over, if
  it neither names another answer nor has a word that could take one back.
- An object that the judge was shown and repeats in a line of prose is a quotation, and no verdict. On a line of its own
  it counts, for a judge may say what it was told to say.
- An earlier object with another verdict, a draft say, makes it no answer (`conflicting`), unless it is a quotation.

JSON objects are found in one pass whose time grows with the length of the text, whatever the text is, and which never
recurses: a megabyte of opening brackets is read like a megabyte of prose.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any, NoReturn

from jrh_mlflow.schema.presentation import LABEL_WORDS, Answer
from jrh_mlflow.schema.requests import Response
from jrh_mlflow.text import clean_text

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
    fields: dict[str, Any] | None = None
    """Its fields, where they were read to find it."""


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
        fields = _DECODER.decode(body)
    except (ValueError, UnreadableError):
        return None
    start = text.index("{")
    return Span(start, start + len(body), fields=fields)


def object_fields(text: str) -> dict[str, Any]:
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
    token = _TOKEN.match(text, position)
    if token is None:
        return "", None, position
    mark = token["mark"] or "scalar"
    move, end = _GRAMMAR[state].get(mark), token.end()
    if move is not None and mark == '"':
        end, closed = string_end(text, end)
        return mark, move if closed else None, end
    return mark, move, end


def _skip(text: str, position: int, depth: int) -> int:
    """Return where broken JSON with `depth` open brackets is closed: nothing within it is at the top level."""
    while depth and (bracket := _BRACKET.search(text, position)):
        position = bracket.end()
        if bracket[0] == '"':
            # Brackets within a string open and close nothing.
            position, _ = string_end(text, position)
        else:
            depth += 1 if bracket[0] in "{[" else -1
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
    closer = _CLOSER.search(text, start)
    objects = (span for span in spans(text[start:]) if span.problem is None)
    while closer is not None:
        around = next((span for span in objects if closer.start() < start + span.end), None)
        if around is None or closer.end() <= start + around.start:
            return closer.end()
        closer = _CLOSER.search(text, start + around.end)
    return None


def _unclosed(rest: str, shown: Sequence[str]) -> int:
    """Return where the thought begins that runs to the end of the text, or the text's length."""
    opener = _THOUGHT_OF_A_LINE.search(rest)
    if opener is None:
        return len(rest)
    begins = not rest[: opener.start(1)].strip(_BEFORE_A_TAG)
    quoted = any(opener[1].casefold() in text.casefold() for text in shown)
    return len(rest) if quoted and not begins else opener.start(1)


def _filler(length: int) -> str:
    return FILLER * (length - 1) + "\n" if length else ""


TIE, ABSTAIN = "tie", "abstain"
PROBLEMS: Mapping[str, str] = {
    "empty_choices": "the response has no choice",
    "content_filter": "the provider's content filter stopped the response",
    "tool_call": "the model calls a tool and says nothing",
    "empty_content": "the response has no text",
    "refusal": "the model refused",
    "truncated": "max_tokens ended the response before a readable answer",
    "no_json": "the text has no JSON object",
    "bad_json": "the last JSON object is broken or unfinished",
    "only_thoughts": "the text is thinking and nothing else",
    "quoted": "the only JSON objects are quotations of what the judge was shown",
    "trailing_text": "the text goes on after the last JSON object",
    "listed": "the last JSON object stands in a list",
    "too_deep": f"the JSON is nested deeper than {MAX_DEPTH}",
    "duplicate_keys": "the JSON object has a key twice",
    "bad_number": "the JSON object has a number that is none",
    "missing_verdict": "the last JSON object has no key 'verdict'",
    "conflicting": "several JSON objects give different verdicts",
    "not_an_answer": "the verdict is none of the answers",
    "no_match": "the answer has no verdict in the form that was given",
}
"""Why there is no answer, by code."""

_ERRORS = ("empty_choices", "content_filter", "empty_content")
_LENGTH = ("length", "max_tokens")
_VERDICT_KEY = re.compile(r'"verdict"[ \t\n\r]*:[ \t\n\r]*')
_BARE_VALUE = re.compile(r"[^ \t\n\r,}]+")
_VALUE_START = re.compile(r'[ \t\n\r":]*([^",}]*)([",}]?)')
_CLOSING_MARK = re.compile(r"</[\w:-]+>|<\|\w+\|>|\[/\w+\]")
_PUNCTUATION = ("P", "Z", "C", "Sk", "Sm")
"""Unicode's categories of what may follow an answer: punctuation, blanks, controls, backticks and the like."""
_LONGEST_REMARK = 120
_DOUBT = re.compile(
    r"\b(first|second|former|latter|other|neither|both|equal|wait|actually|however|but|instead|rather|though|unless|no|not"
    r"|wrong|correct\w*|ignore\w*|reconsider\w*|reflection|thought|chang\w+|revis\w+|verdict)\b",
    re.IGNORECASE,
)
"""Words that could take an answer back, or speak of another one."""
_LINE = 200
"""Characters before an object that are looked at for prose."""
_MAX_KEPT = 20_000
"""Characters of an answer's text or reason in a call's record: more than `max_tokens` of 4,096 gives."""
_LEVEL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_ROUNDING = 1e-3
"""By how much probabilities may sum past 1, as providers round them."""


@dataclass(frozen=True)
class Unread:
    """A reply that stands for no answer, of a judge that was asked in words of its own."""

    value: object
    asked: tuple[str, ...]
    """The answers as the judge was asked for them, e.g. A, B and tie."""


def read_answer(returned: object, answers: tuple[str, ...]) -> tuple[str, str, str | None]:
    """Return outcome, answer and the reason when there is none.

    A number equal to an answer is that answer (1 and 1.0 are "1"); True and False match only answers of that
    name, never a slot. `abstain` may always be said. Everything else outside `answers` is `unparsed`.

    Example:
        >>> read_answer("TIE ", ("1", "2", "tie"))
        ('tie', '', None)
        >>> read_answer(3, ("1", "2", "tie"))
        ('unparsed', '', "3 is not one of '1', '2', 'tie'")
    """
    value = returned.value if isinstance(returned, Answer) else returned
    if isinstance(value, Unread):
        return "unparsed", "", _not_one_of(value.value, value.asked)
    text = _as_text(value)
    answer = _by_name(answers).get(text) if text is not None else None
    if answer is None:
        if text == ABSTAIN:
            return "abstain", "", None
        return "unparsed", "", _not_one_of(value, answers)
    if answer.casefold() == TIE:
        return "tie", "", None
    return "verdict", answer, None


def read_grade(returned: object) -> str | None:
    """Return what a judge of one response means by a value, whichever form it was asked for; None for no grade.

    Yes, pass, true and True are `yes`, no, fail, false and False `no`; a finite number, also as text, is itself.

    Example:
        >>> [read_grade(value) for value in (True, " Fail", 4.0, "0.70", 1e-5, "4 of 5", float("nan"))]
        ['yes', 'no', '4', '0.70', '0.00001', None, None]
    """
    value = returned.value if isinstance(returned, Answer) else returned
    value = value.value if isinstance(value, Unread) else value
    text = _as_text(value)
    if text is None:
        return None
    # Python writes small numbers as 1e-05, which is no spelling of a level.
    if isinstance(value, float) and "e" in text:
        text = format(Decimal(text), "f")
    word = next((alike[0] for alike in LABEL_WORDS if text in alike), None)
    return word or (text if _LEVEL.fullmatch(text) else None)


@lru_cache(maxsize=256)
def _by_name(answers: tuple[str, ...]) -> dict[str, str]:
    return {answer.strip().casefold(): answer for answer in answers}


def _not_one_of(value: object, answers: tuple[str, ...]) -> str:
    return f"{_shown(value)} is not one of {', '.join(map(repr, answers))}"


def _shown(value: object) -> str:
    try:
        # A judge may return any object, and some cannot be printed.
        return repr(value)
    except Exception:
        return f"an object of {type(value).__qualname__} that cannot be printed"


def _as_text(value: object) -> str | None:
    # By the name of its module: an answer needs no numpy to be read.
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, str):
        # Not `str(value)`: a member of a `str` enumeration prints its name, but is its value.
        return str.__str__(value).strip().casefold()
    # Before int: True is an int in Python, and would be slot 1.
    if isinstance(value, bool):
        return str(value).casefold()
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() else repr(value)
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedAnswer:
    """How a response reads."""

    outcome: str
    """`verdict`, `tie`, `abstain`, `unparsed` or `error`."""
    answer: str | None = None
    """The slot, label or level; None unless the outcome is `verdict`."""
    rationale: str | None = None
    problem: str | None = None
    """A code of `PROBLEMS`; None when there is an answer."""
    detail: str | None = None
    text: str | None = None
    """The response's text (or its refusal), whole, where there is a problem with it."""
    confidence: float | None = None
    """Probability of the verdict's tokens after the text before them, where it can be told."""
    probabilities: Mapping[str, float] | None = None
    """Answer (slot, label, level, `tie`, `abstain`) to its probability, of those that could be told; they sum to 1 at
    the most. None where only that of the given one, `confidence`, is known."""

    @property
    def error(self) -> str | None:
        """The problem with the raw text, for the column `error`."""
        if self.problem is None:
            return None
        raw = f" Text: {kept_text(self.text)}" if self.text else ""
        return f"{self.problem}: {self.detail or PROBLEMS[self.problem]}.{raw}"


def kept_text(text: str) -> str:
    """Shorten a text for a record; the journal has all of it."""
    return text if len(text) <= _MAX_KEPT else f"{text[:_MAX_KEPT]}… ({len(text):,} characters)"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Token:
    """A token of the text: where it stands, and what could have stood there."""

    begin: int
    end: int
    logprob: float
    top: Sequence[tuple[str, float]]


def read(response: Response, names: Mapping[str, str], *, shown: Sequence[str] = ()) -> ParsedAnswer:
    """Read a response.

    Args:
        response: What the provider answered.
        names: What the prompt calls each answer, and the answer it stands for. Case and outer spaces are forgiven, and
            a JSON number equal to a level is that level; nothing else is. `abstain` may always be said.
        shown: The texts that were put before the judge: what it repeats of them is a quotation.

    Returns:
        The reading. A response cut by the token limit counts when its answer is complete.

    Example:
        >>> response = Response(text='{"reason": "shorter", "verdict": "b"}', finish_reason="stop")
        >>> read(response, {"A": "1", "B": "2"}).answer
        '2'
    """
    if ended := answer_problem(response):
        return ended
    raw = _raw(response)
    try:
        reading = _read_text(response, names, shown)
    except UnreadableError as unreadable:
        reading = ParsedAnswer(outcome="unparsed", problem=unreadable.code, detail=unreadable.detail)
    if reading.problem is None:
        return reading
    if _finish(response) in _LENGTH:
        reading = replace(reading, problem="truncated", detail=f"{PROBLEMS['truncated']} ({reading.problem})")
    return replace(reading, text=raw)


def answer_problem(response: Response, *, or_arguments: bool = False) -> ParsedAnswer | None:
    """Return how a response without anything to read ended; with `or_arguments` those of a tool call can be read."""
    problem = _provider_problem(response)
    if problem is None or (problem == "tool_call" and or_arguments and response.tool_arguments):
        return None
    outcome = "error" if problem in _ERRORS else "unparsed"
    return ParsedAnswer(outcome=outcome, problem=problem, text=_raw(response))


def _raw(response: Response) -> str | None:
    return clean_text(response.refusal or response.text or "") or None


def text_problem(response: Response) -> str | None:
    """Say why a response holds no whole text, by a code of `PROBLEMS`; for texts that are no verdicts."""
    return _provider_problem(response) or ("truncated" if _finish(response) in _LENGTH else None)


def _finish(response: Response) -> str:
    return (response.finish_reason or "").strip().lower()


def _provider_problem(response: Response) -> str | None:
    """Return why there is nothing to parse. A refusal in the model's own words outranks the filter's flag."""
    finish = _finish(response)
    if finish == "empty_choices":
        return "empty_choices"
    if finish == "refusal" or (response.refusal or "").strip():
        return "refusal"
    if finish == "content_filter":
        return "content_filter"
    if not (response.text or "").strip():
        return "truncated" if finish in _LENGTH else "tool_call" if finish == "tool_calls" else "empty_content"
    return None


def _read_text(response: Response, names: Mapping[str, str], shown: Sequence[str]) -> ParsedAnswer:
    text, logprobs = response.text or "", response.logprobs
    spoken = without_thoughts(text, shown=shown)
    earlier, last = _objects(spoken, shown)
    if last.problem is not None:
        raise UnreadableError(last.problem)
    fields = last.fields if last.fields and spoken is text else object_fields(text[last.start : last.end])
    if "verdict" not in fields:
        raise UnreadableError("missing_verdict")
    reason = fields.get("reason")
    rationale = kept_text(clean_text(reason)) if isinstance(reason, str) else None
    outcome, answer, why_not = named_answer(fields["verdict"], names)
    if why_not is not None:
        return ParsedAnswer(
            outcome=outcome, rationale=rationale, problem="not_an_answer", detail=clean_text(why_not)[:200]
        )
    rivals = (name for name in (*names, ABSTAIN) if named_answer(name, names)[:2] != (outcome, answer))
    # Of a remark that was cut off nobody knows how it would have ended.
    finished = _finish(response) not in _LENGTH
    if not (_closes(spoken[last.end :]) or (finished and _is_remark(spoken, last, rivals))):
        return ParsedAnswer(outcome="unparsed", rationale=rationale, problem="trailing_text")
    others = (span for span in earlier if _said(text, span, names) not in (None, (outcome, answer)))
    if not all(_is_quotation(spoken, span, shown) for span in others):
        return ParsedAnswer(outcome="unparsed", rationale=rationale, problem="conflicting")
    reading = ParsedAnswer(outcome=outcome, answer=answer or None, rationale=rationale)
    return _with_confidence(reading, text, last, names, logprobs) if logprobs else reading


def _objects(spoken: str, shown: Sequence[str]) -> tuple[list[Span], Span]:
    """Return the last object that is no quotation, and those before it."""
    objects = list(spans(spoken))
    if not objects:
        said_nothing = not spoken.strip(f"{FILLER}` \t\r\n")
        raise UnreadableError("only_thoughts" if said_nothing else "bad_json" if "{" in spoken else "no_json")
    while _is_quotation(spoken, objects[-1], shown):
        objects.pop()
        if not objects:
            raise UnreadableError("quoted")
    return objects[:-1], objects[-1]


def _is_quotation(spoken: str, span: Span, shown: Sequence[str]) -> bool:
    """Whether an object stands behind prose in its line and is, but for blanks, part of what the judge was shown."""
    if not span.start or not _has_words(_line_before(spoken, span)):
        return False
    content = "".join(spoken[span.start : span.end].split())
    return any(content in "".join(text.split()) for text in shown)


def _closes(tail: str) -> bool:
    """Whether what follows an answer only ends it."""
    if not tail:
        return True
    rest = _CLOSING_MARK.sub("", tail)
    return all(unicodedata.category(character).startswith(_PUNCTUATION) for character in rest)


def _is_remark(spoken: str, span: Span, others: Iterable[str]) -> bool:
    """Whether an object stands on lines of its own, with nothing after them but a remark that says nothing of it."""
    line, _, words = spoken[span.end :].partition("\n")
    if not _closes(line) or _has_words(_line_before(spoken, span)):
        return False
    # In another language nobody here could tell whether it takes the answer back.
    is_short = len(words.strip()) <= _LONGEST_REMARK and words.isascii()
    return is_short and not _DOUBT.search(words) and not any(word_pattern(name).search(words) for name in others)


@lru_cache(maxsize=256)
def word_pattern(name: str) -> re.Pattern[str]:
    """Find a name as a word of its own; a letter only as it is written, for `a` is a word of English."""
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", re.IGNORECASE if len(name) > 1 else 0)


def _line_before(spoken: str, span: Span) -> str:
    return spoken[max(0, span.start - _LINE) : span.start].rpartition("\n")[2]


def _has_words(text: str) -> bool:
    return any(map(str.isalnum, text))


def named_answer(verdict: object, names: Mapping[str, str]) -> tuple[str, str, str | None]:
    """Return outcome, answer and the reason when there is none, of a verdict in the names that the judge was told."""
    if isinstance(verdict, int | float) and not isinstance(verdict, bool):
        # 3 and 3.0 are the level "3"; the text "3.0" is not, for texts are compared as they stand.
        verdict = next((name for name in names if _as_number(name) == verdict), verdict)
    outcome, name, why_not = read_answer(verdict, tuple(names))
    return outcome, names[name] if name else "", why_not


def _as_number(name: str) -> float | None:
    return float(name) if _LEVEL.fullmatch(name) else None


def _said(text: str, span: Span, names: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the outcome and answer of an earlier object, or None when it is none."""
    if span.problem is not None:
        return None
    try:
        fields = object_fields(text[span.start : span.end])
    except UnreadableError:
        return None  # an echo of the format or a draft; the last object is read by itself
    outcome, answer, why_not = named_answer(fields.get("verdict"), names)
    return None if why_not is not None else (outcome, answer)


def _with_confidence(
    reading: ParsedAnswer, text: str, span: Span, names: Mapping[str, str], logprobs: Sequence[Mapping[str, Any]]
) -> ParsedAnswer:
    where = _verdict_range(text, span)
    tokens = _verdict_tokens(text, where, logprobs) if where else None
    # Written as `not … <= 0` so that NaN fails it too.
    if where is None or not tokens or not (total := sum(token.logprob for token in tokens)) <= 0:
        return reading
    confidence = math.exp(total)
    given = reading.answer or reading.outcome
    others = _alternatives(text, where[0], tokens, {**names, ABSTAIN: ABSTAIN})
    probabilities = {**others, given: confidence + others.get(given, 0.0)}
    complete = bool(others) and sum(probabilities.values()) <= 1 + _ROUNDING
    return replace(reading, confidence=confidence, probabilities=probabilities if complete else None)


def _verdict_tokens(text: str, where: tuple[int, int], logprobs: Sequence[Mapping[str, Any]]) -> list[_Token] | None:
    """Return the verdict's tokens in their order, or None when they cannot be told from their neighbours."""
    verdict: list[_Token] = []
    for token in _tokens_from_the_end(text, logprobs):
        if token.begin < where[1]:
            # A token may carry the quote or brace beside the verdict, but nothing that has a meaning of its own.
            beside = text[token.begin : where[0]] + text[where[1] : token.end]
            if beside.strip(' \t\n\r":,}'):
                return None
            verdict.insert(0, token)
        if token.begin <= where[0]:
            return verdict
    return None


def _alternatives(text: str, start: int, tokens: Sequence[_Token], names: Mapping[str, str]) -> dict[str, float]:
    """Sum the probabilities of what could have stood in place of each token, by the answer that it would have begun.

    An alternative counts where it can begin one answer's name only; the rest of that name is then taken as sure.
    """
    sums: dict[str, float] = {}
    before = 0.0
    for token in tokens:
        for instead, logprob in token.top:
            name = _begun(text[start : max(start, token.begin)] + instead, names)
            # The token that was chosen is among its own alternatives, and counted already.
            if name is not None and instead != text[token.begin : token.end]:
                sums[names[name]] = sums.get(names[name], 0.0) + math.exp(min(0.0, before + logprob))
        before += token.logprob
    return sums


def _begun(spelled: str, names: Mapping[str, str]) -> str | None:
    """Return the one name that a verdict beginning like this can become, or None.

    `A` is the slot A although `abstain` may be said too; `a` may become either and is neither.
    """
    start = _VALUE_START.match(spelled)
    begun, closed = start.groups() if start else ("", "")
    if closed:
        return next((name for name in names if name.casefold() == begun.strip().casefold()), None)
    same_case = [name for name in names if name.startswith(begun)]
    if same_case == [begun]:
        return begun
    fits = [name for name in names if name.casefold().startswith(begun.casefold())]
    return fits[0] if len(fits) == 1 and begun else None


def _verdict_range(text: str, span: Span) -> tuple[int, int] | None:
    """Return where the verdict's value stands, without its quotes; None when the key stands there twice."""
    keys = list(_VERDICT_KEY.finditer(text, span.start, span.end))
    # A reason may quote the key, and then either could be the verdict's.
    if len(keys) != 1:
        return None
    start = keys[0].end()
    if text[start] == '"':
        return start + 1, string_end(text, start + 1)[0] - 1
    bare = _BARE_VALUE.match(text, start)
    return (start, bare.end()) if bare else None


def _tokens_from_the_end(text: str, logprobs: Sequence[Mapping[str, Any]]) -> Iterator[_Token]:
    """Yield the tokens, the last one first, as long as they spell the text.

    Tokens after the text are passed over: an end of turn, or what a server cut off behind the answer's last brace.
    """
    end = len(text)
    for entry in reversed(logprobs):
        token, logprob = entry.get("token"), entry.get("logprob")
        if not isinstance(token, str) or not isinstance(logprob, int | float):
            return
        if not text.endswith(token, 0, end):
            if end == len(text):
                continue
            return
        yield _Token(begin=end - len(token), end=end, logprob=float(logprob), top=entry.get("top") or ())
        end -= len(token)
