"""Where things stand in a text: code, links, lines, sentences, gaps. Offsets, so that all the rest is left as it is."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence

Span = tuple[int, int]
"""Start and end offset."""
Edit = tuple[int, int, str]
"""What stands from start to end becomes the string; with start equal to end it is put in."""

_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})(.*)")
_INLINE = re.compile(r"`[^`\r\n]+`")
_LINK = re.compile(r"(?:https?://|www\.)\S+|(?<![\w.+-])[\w.+-]+@\w[\w.-]*")
_BREAKS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_GAP = re.compile(rf"(?<=\S)[^\S{_BREAKS}]+(?=\S)")
_END = re.compile(r"[.!?…]+[\"'”’)\]*_]*\s+|[。！？]+[」』”’）]*\s*")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|vs|cf|mr|mrs|ms|dr|prof|st|no|fig|approx|[a-z])\.\s+$", re.IGNORECASE)
_LONGEST_ABBREVIATION = 12


def lines(text: str) -> list[Span]:
    """Return every line with its line break, of whatever kind."""
    found = []
    start = 0
    for line in text.splitlines(keepends=True):
        found.append((start, start + len(line)))
        start += len(line)
    return found


def fences(text: str) -> list[Span]:
    r"""Return the fenced code blocks with their fences; one that is never closed runs to the end.

    Example:
        >>> fences("Run:\n```\nx\n```\nDone")
        [(5, 15)]
    """
    found: list[Span] = []
    opened: tuple[int, str] | None = None
    for start, end in lines(text):
        mark = _FENCE.match(text, start, end)
        if mark is None:
            continue
        if opened is None:
            opened = (start, mark[1])
        elif mark[1].startswith(opened[1]) and not mark[2].strip():
            found.append((opened[0], end))
            opened = None
    return found if opened is None else [*found, (opened[0], len(text))]


def opens_fence(text: str, place: int) -> bool:
    """Whether a line that began at this place would open a code block."""
    return _FENCE.match(text, place) is not None


def prose_lines(text: str) -> list[Span]:
    """Return the lines that are neither blank nor part of a fenced code block."""
    blocks = fences(text)
    return [
        (start, end)
        for start, end in lines(text)
        if text[start:end].strip() and not any(first <= start < last for first, last in blocks)
    ]


def untouchable(text: str) -> bytearray:
    """Return one byte per character: 1 where it belongs to code, a link or a mail address."""
    mask = bytearray(len(text))
    found = [match.span() for pattern in (_INLINE, _LINK) for match in pattern.finditer(text)]
    for start, end in [*fences(text), *found]:
        mask[start:end] = b"\x01" * (end - start)
    return mask


def gaps(text: str) -> list[Span]:
    """Return the runs of whitespace between two words of one line, outside code and links."""
    mask = untouchable(text)
    return [match.span() for match in _GAP.finditer(text) if not any(mask[match.start() : match.end()])]


def sentences(text: str) -> list[Span]:
    """Return the sentences outside fenced code, without the whitespace around them; a line break ends one too.

    Example:
        >>> [text[a:b] for text in ["Dr. Lee came. He left!"] for a, b in sentences(text)]
        ['Dr. Lee came.', 'He left!']
    """
    mask = untouchable(text)
    found = []
    for start, end in prose_lines(text):
        begin = start
        for match in _END.finditer(text, start, end):
            if match.end() < end and not mask[match.start()] and _ends(text, match.end()):
                found.append((begin, match.end()))
                begin = match.end()
        found.append((begin, end))
    return [trimmed for span in found if (trimmed := _trim(text, span))[0] < trimmed[1]]


def sentence_ends(text: str) -> list[int]:
    """Return where a sentence can follow another: after closing punctuation, before whitespace or the end."""
    return [end for _, end in sentences(text) if text[end - 1] in ".!?…。！？" and not text[end : end + 1].strip()]


def _ends(text: str, place: int) -> bool:
    """Whether a sentence ends just before this place: not after `e.g. `, nor before a small letter."""
    before = text[max(0, place - _LONGEST_ABBREVIATION) : place]
    return not text[place].islower() and _ABBREVIATION.search(before) is None


def _trim(text: str, span: Span) -> Span:
    part = text[span[0] : span[1]]
    return span[0] + len(part) - len(part.lstrip()), span[0] + len(part.rstrip())


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Make edits that do not overlap; those put in at one place keep their order.

    Example:
        >>> apply("one two", [(4, 7, "three"), (0, 0, "> ")])
        '> one three'
    """
    parts = []
    done = 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        if start < done:
            raise ValueError(f"Edits must not overlap, but one starts at {start} and another ends at {done}.")
        parts += [text[done:start], new]
        done = end
    return "".join([*parts, text[done:]])


def some(places: Sequence[int], share: float, rng: random.Random) -> list[int]:
    """Return each place with the given chance, and at least one of them."""
    kept = [place for place in places if rng.random() < share]
    return kept or [rng.choice(places)]
