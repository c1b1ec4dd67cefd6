"""Where a verdict may stand in the text of an answer.

A wrong verdict is worse than none, so a verdict counts only where the text can mean nothing else:

- Behind it stands nothing but what ends a text (`_ENDING`). Words could take it back.
- Before it may stand reasoning. The verdict then follows a finished sentence, or an introduction
  made of the words in `INTRODUCTORY_WORDS` alone (`My final verdict is:`). Whatever else runs
  into it, such as `For example:`, `The wrong answer would be`, a quotation mark, `>` or a number of a
  list, makes it no verdict, in any language.
- A JSON object that a candidate or a transcript holds is a quotation, unless it is all there is.
- Thinking between tags is no part of the text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from jrh_mlflow.judges.introductions import INTRODUCTORY_WORDS, POINTERS


class UnreadableError(Exception):
    """A text without a clear verdict; `code` says why."""

    def __init__(self, code: str, detail: str | None = None) -> None:
        super().__init__(code)
        self.code, self.detail = code, detail


# JSON objects

_LONGEST_INTEGER = 300
"""Digits; longer ones are beyond every float, and slow to read."""
_MOST_BRACKETS = 200
"""In a text; more could exhaust the stack, or the time."""
_OPENER = re.compile(r'\{(?=[ \t\n\r]*["}])')


@dataclass(frozen=True, slots=True)
class JsonObject:
    """A whole JSON object and where it stands in a text."""

    start: int
    end: int
    fields: dict[str, Any]


def objects_in(text: str) -> list[JsonObject]:
    """Return the whole JSON objects of a text that stand in no other one, in order.

    Raises:
        UnreadableError: `duplicate_keys` or `bad_number`, at any depth; `bad_json` for too many.

    Example:
        >>> [found.fields for found in objects_in('So: {"a": {"b": 1}} and {"c": 2}.')]
        [{'a': {'b': 1}}, {'c': 2}]
    """
    objects: list[JsonObject] = []
    position = 0
    for _ in range(_MOST_BRACKETS):
        opener = _OPENER.search(text, position)
        if opener is None:
            return objects
        position = opener.end()
        if found := _object_at(text, opener.start()):
            objects.append(found)
            position = found.end
    raise UnreadableError("bad_json", "the text has too many braces")


def whole_json(text: str) -> Any:
    """Return the JSON that a text is.

    Raises:
        ValueError: when it is none.
        UnreadableError: as for `objects_in`.
    """
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("The JSON is nested too deeply.") from None


def final_object(text: str) -> JsonObject | None:
    """Return the JSON object that ends where the last brace of the text does, or None.

    Raises:
        UnreadableError: as for `objects_in`.
    """
    end = text.rfind("}") + 1
    start = end
    for _ in range(_MOST_BRACKETS):
        start = text.rfind("{", 0, start)
        if start < 0:
            break
        if not _OPENER.match(text, start):
            continue
        found = _object_at(text, start)
        if found and found.end == end:
            return found
    return None


def _object_at(text: str, start: int) -> JsonObject | None:
    try:
        fields, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    if text.count("{", start, end) + text.count("[", start, end) > _MOST_BRACKETS:
        raise UnreadableError("bad_json", "the JSON object has too many brackets")
    return JsonObject(start, end, fields)


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


# Thinking between tags such as `<think>` and `</think>`: servers without a parser for it hand it
# out as part of the text, some of them without the opening tag.

_NAMES = r"(?:\w+:)?(?:think|thinking|thoughts?|reasoning|analysis|scratchpad)"
_OPENS = rf"<{_NAMES}(?:\s[^<>]*)?>|\[THINK\]|◁think▷"
_CLOSES = rf"</{_NAMES}\s*>|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>"
_OPENING_TAG = re.compile(_OPENS, re.IGNORECASE)
_CLOSING_TAG = re.compile(_CLOSES, re.IGNORECASE)
_TAG_OF_A_LINE = re.compile(rf"^[ \t*`_]*({_OPENS})", re.IGNORECASE | re.MULTILINE)
_MARKS = " \t\r\n*`_"


def split_thoughts(text: str, shown: Sequence[str] = ()) -> tuple[str, bool]:
    r"""Return a text with an end of line in the place of thoughts, and whether it ends within one.

    An opening tag that nothing closes begins a thought where it begins a line and stands in none
    of the texts that were shown, or where it begins the text.

    Example:
        >>> split_thoughts("Well. <think>A? </think>B.")
        ('Well. \nB.', False)
    """
    parts: list[str] = []
    start = 0
    for closer in _CLOSING_TAG.finditer(text):
        opener = _OPENING_TAG.search(text, start, closer.start())
        parts.append(text[start : opener.start()] if opener else "")
        start = closer.end()
    rest = text[start:]
    opener = _TAG_OF_A_LINE.search(rest)
    is_open = False
    if opener:
        begins = not rest[: opener.start(1)].strip(_MARKS)
        is_quoted = any(opener[1].casefold() in other.casefold() for other in shown)
        is_open = begins or not is_quoted
    if opener and is_open:
        rest = rest[: opener.start(1)]
    return "\n".join([*parts, rest]), is_open


def spoken_text(text: str, *, shown: str) -> str:
    """Return a text without thoughts; whole where the writer was shown such tags as its subject."""
    if _OPENING_TAG.search(shown) or _CLOSING_TAG.search(shown):
        return text.strip()
    spoken, _ = split_thoughts(text)
    return spoken.strip()


# What may stand around a verdict

_TAGS = "answer|final_answer|verdict|output|result|json|response|judge?ment|evaluation|decision"
_END_TOKENS = (
    "im_end|eot_id|eom_id|endoftext|end_of_text|end_of_turn|end|eos|eot|return|end▁of▁sentence|end_of_turn_token"
)
_ENDING = re.compile(
    rf"[\s`*_\ufeff]+|</(?:{_TAGS}|s)>|<[|｜](?:{_END_TOKENS})[|｜]>|<(?:eos|end_of_turn)>|\[/INST\]",
    re.IGNORECASE,
)
_OPENING = re.compile(rf"(?:```(?:json\w*|text|plaintext)?|(?<!`)`|[*_]+|<(?:{_TAGS})>|---)\Z", re.IGNORECASE)
_LONGEST_OPENING = 20
_MOST_OPENINGS = 10
_FENCE = "```"
_LONGEST_PART = 2_000
"""Characters before a verdict that are looked at."""
_PART = re.compile(r"\n+|(?<=[^\s.]{3}[.!?])\s+|(?<=[。！？])")
"""Where a sentence or a line ends."""
_FINISHED = re.compile(r"""[.!。！।۔}]["'”’»)*_\]]*\s*\Z""")
_ABBREVIATED = re.compile(r"(?<!\w)\w{1,2}\.\W*\Z")
"""How `e.g.`, `z. B.` and the number of a list end: as a sentence does."""
_SHORTEST_SENTENCE = 3
"""Words; `Wrong verdict.` is a heading."""
_OPEN_ENDS = (":", "：", ",", "，", "…")
_WORD = re.compile(r"[^\W_]+")
_COUNTED_WORD = re.compile(r"[\u3040-\u9fff]{2}|[^\W_\u3040-\u9fff]+")
_PUNCTUATION = " \t\r*_#,:：，、—–.。!！"
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")
_AS_JSON = re.compile(r"\b(?:in|as) (?:the |an? )?(?:\w+ed )?json(?: format)?\b", re.IGNORECASE)


def answer_object(
    text: str, *, shown: Sequence[str] = (), instructions: Sequence[str] = ()
) -> tuple[JsonObject, list[JsonObject]]:
    """Return the JSON object that is the answer, and the judge's own objects before it.

    Args:
        text: The answer.
        shown: The candidates or the transcript that the judge was shown.
        instructions: What else was put before the judge; it may show the object that is wanted.

    Raises:
        UnreadableError: where no object is clearly the answer.
    """
    prompt = (*shown, *instructions)
    found = final_object(text)
    if found is None or not _only_ends(text[found.end :]):
        raise UnreadableError(_why_no_object(text, prompt))
    before, is_open = split_thoughts(text[: found.start], prompt)
    if is_open:
        raise UnreadableError("no_json" if before.strip(_MARKS) else "only_thoughts")
    if _without_opening(before) and _stands_in(text[found.start : found.end], shown):
        raise UnreadableError("quoted")
    earlier = objects_in(before)
    _check_beginning(_without_spans(before, [(other.start, other.end) for other in earlier]))
    own = [other for other in earlier if not _stands_in(before[other.start : other.end], prompt)]
    return found, own


def check_place(text: str, spans: Sequence[tuple[int, int]]) -> None:
    """Refuse a verdict that is no JSON object where it does not stand as one must.

    Args:
        text: The answer.
        spans: Where it says a verdict; the last one counts.

    Raises:
        UnreadableError: `trailing_text`, `in_a_sentence` or `only_thoughts`.
    """
    start, end = spans[-1]
    if not _only_ends(text[end:]):
        raise UnreadableError("trailing_text")
    before, is_open = split_thoughts(_without_spans(text[:start], spans[:-1]))
    if is_open:
        raise UnreadableError("only_thoughts")
    _check_beginning(before)


def _without_spans(text: str, spans: Sequence[tuple[int, int]]) -> str:
    for start, end in reversed(spans):
        text = f"{text[:start]}\n{text[end:]}"
    return text


def _why_no_object(text: str, prompt: Sequence[str]) -> str:
    spoken, _ = split_thoughts(text, prompt)
    if not spoken.strip(_MARKS):
        return "only_thoughts"
    if "{" not in spoken:
        return "no_json"
    return "trailing_text" if objects_in(spoken) else "bad_json"


def _stands_in(part: str, texts: Iterable[str]) -> bool:
    """Whether a text holds another one, but for blanks."""
    content = "".join(part.split())
    return any(content in "".join(text.split()) for text in texts)


def _only_ends(rest: str) -> bool:
    """Whether what stands behind a verdict only ends the text."""
    # A sentence that ends with the verdict has a full stop behind it.
    return _ENDING.sub("", rest) in ("", ".", "。")


def _check_beginning(before: str) -> None:
    """Refuse a verdict that runs on from what stands before it, unless that only introduces it.

    Raises:
        UnreadableError: `in_a_sentence`.
    """
    head = _without_opening(before)
    parts = [part for part in _PART.split(head[-_LONGEST_PART:]) if part.strip()]
    if not parts:
        return
    has_own_line = "\n" in before[len(head) :]
    is_in_block = head.count(_FENCE) % 2 == 1
    may_stand = _is_finished(parts[-1], has_own_line) or (
        _is_introduction(parts[-1]) and (len(parts) == 1 or not _leads_on(parts[-2]))
    )
    if is_in_block or not may_stand:
        raise UnreadableError("in_a_sentence")


def _without_opening(text: str) -> str:
    """Return a text without the fence, the tag or the emphasis that opens what comes next."""
    for _ in range(_MOST_OPENINGS):
        text = text.rstrip().rstrip("\ufeff")
        opening = _OPENING.search(text, max(0, len(text) - _LONGEST_OPENING))
        if not opening:
            break
        if opening[0].startswith(_FENCE) and text.count(_FENCE) % 2 == 0:
            break  # The end of a block, and not the beginning of one.
        text = text[: opening.start()]
    return text


def _is_finished(part: str, has_own_line: bool) -> bool:
    """Whether a part is a whole sentence that does not speak of what follows, or ends a block."""
    if part.strip() == _FENCE:
        return has_own_line
    if not _FINISHED.search(part) or (not has_own_line and _ABBREVIATED.search(part)):
        return False
    # What begins with a comma goes on behind an earlier verdict.
    goes_on = part.lstrip().startswith((",", "，"))
    is_label = not goes_on and len(_COUNTED_WORD.findall(part)) < _SHORTEST_SENTENCE
    return not is_label and not POINTERS.search(part)


def _is_introduction(part: str) -> bool:
    part = _APOSTROPHE.sub(" ", part)
    words = _WORD.findall(_AS_JSON.sub("", part).casefold())
    leftover = _WORD.sub("", part).strip(_PUNCTUATION)
    return not leftover and INTRODUCTORY_WORDS.issuperset(words)


def _leads_on(part: str) -> bool:
    """Whether a part speaks of what follows it, and so of a verdict below a heading."""
    points_on = part.rstrip(_MARKS)[-1:] in _OPEN_ENDS or POINTERS.search(part)
    return bool(points_on) and not _is_introduction(part)
