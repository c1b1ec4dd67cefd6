"""Thinking that a model writes into its answer, between tags such as `<think>` and `</think>`.

Servers without a parser for it hand it out as part of the text, some of them without the opening tag. What a model
tries out there is no answer. A tag in a string of a JSON object is a quotation. So is an opening tag that nothing
closes, within a line or among what the judge was shown, unless the text begins with it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

from jrh_mlflow.judges.json_objects import spans

_NAMES = r"(?:\w+:)?(?:think|thinking|thoughts?|reasoning|analysis|scratchpad)"
_OPENS = rf"<{_NAMES}(?:\s[^<>]*)?>|\[THINK\]|◁think▷"
_OPENER = re.compile(_OPENS, re.IGNORECASE)
_OPENER_OF_A_LINE = re.compile(rf"^[ \t*`_]*({_OPENS})", re.IGNORECASE | re.MULTILINE)
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
        opener = _OPENER.search(text, start, closing)
        begin = opener.start() if opener else start
        parts += [text[start:begin], _filler(closing - begin)]
        start = closing
    rest = text[start:]
    end = _unclosed(rest, shown)
    return "".join([*parts, rest[:end], _filler(len(rest) - end)])


def spoken_text(text: str, *, shown: str) -> str:
    """Return a text without its thoughts; whole where the writer was shown such tags, for they may be its subject."""
    if _OPENER.search(shown) or _CLOSER.search(shown):
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
    found = _OPENER_OF_A_LINE.search(rest)
    if found is None:
        return len(rest)
    begins = not rest[: found.start(1)].strip(_BEFORE_A_TAG)
    quoted = any(found[1].casefold() in text.casefold() for text in shown)
    return len(rest) if quoted and not begins else found.start(1)


def _filler(length: int) -> str:
    return FILLER * (length - 1) + "\n" if length else ""
