"""Words of labels and of what they mean: their spelling, which of two comes last, whether they grade or detect."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal
from typing import Literal, NamedTuple

from jrh_mlflow.text import clean_text

Family = Literal["grades", "detects"]

_GRADING = """
fail/pass failed/passed failure/success incorrect/correct wrong/right bad/good invalid/valid reject/accept
rejected/accepted disagree/agree worse/better irrelevant/relevant unhelpful/helpful unfaithful/faithful
unsupported/supported unacceptable/acceptable unsatisfied/satisfied unmet/met inaccurate/accurate poor/excellent
incomplete/complete inadequate/adequate insufficient/sufficient unsatisfactory/satisfactory terrible/outstanding
worst/best
"""
"""The last is the better one: a response with more errors deserves the first."""
_DETECTING = """
safe/unsafe harmless/harmful unharmful/harmful benign/harmful benign/malicious non-toxic/toxic nontoxic/toxic ham/spam
no_violation/violation not_violated/violated not_harmful/harmful not_toxic/toxic harmless/dangerous unbiased/biased
inoffensive/offensive legal/illegal
"""
"""The last is what is looked for: an error in a response brings it neither nearer nor farther."""
_EITHER = "no/yes n/y false/true f/t off/on negative/positive low/high"
"""The order is known, what it is about is not."""


BOOLEAN_PAIRS = (("false", "true"), ("no", "yes"), ("fail", "pass"), ("failed", "passed"), ("0", "1"))
"""How a judge, a person or a file writes False and True."""
BOOLEANS = {word: bool(last) for pair in BOOLEAN_PAIRS for last, word in enumerate(pair)}


class _Sense(NamedTuple):
    family: Family
    last: bool
    """Whether it is, or stands for, the last of its pair: the better one, or what is to be detected."""


def _split(pairs: str) -> list[tuple[str, str]]:
    return [(first, last) for pair in pairs.split() for first, _, last in [pair.partition("/")]]


_LAST = {frozenset(pair): pair[1] for pair in _split(f"{_GRADING} {_DETECTING} {_EITHER}")}
_MORE = ("violates", "violating", "violations", "breach", "breaks", "hateful")
"""Further words of what is detected."""


def _senses_of(family: Family, pairs: str) -> dict[str, _Sense]:
    words = [(word, last) for pair in _split(pairs) for last, word in enumerate(pair) if "_" not in word]
    return {word: _Sense(family, bool(last)) for word, last in words}


_SENSES = _senses_of("grades", _GRADING) | _senses_of("detects", _DETECTING)
_SENSES |= {word: _Sense("detects", True) for word in _MORE}
_KNOWN = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(_SENSES, key=len, reverse=True))})(?![\w-])")
_NEGATION = re.compile(
    r"(?:\b(?:no|not|non|never|none|neither|nor|without|lacks|avoids|(?:refus|declin)(?:es|ed|ing))\b|n['’]t\b)"
    r"[\s-]*(?:\w+\s+){0,3}$"
)
"""Stands at most three words before what it denies."""


def last_of(labels: Iterable[str]) -> str | None:
    """Return which of two well known labels comes last, in lower case with `_` for spaces; None for others.

    Example:
        >>> last_of(["harmful", "not_harmful"])
        'harmful'
    """
    return _LAST.get(frozenset(labels))


def families(text: str) -> set[Family]:
    """Return what the known words of a label or meaning do: grade a response, or detect something in it.

    Example:
        >>> families("not harmful"), families("incorrect"), families("yes")
        ({'detects'}, {'grades'}, set())
    """
    return {sense.family for sense in _senses(text)}


def says_bad(text: str) -> bool:
    """Tell whether a meaning says that a response is bad: a violation, or a grade that is the lower one.

    Example:
        >>> says_bad("harmful"), says_bad("contains no violation"), says_bad("not acceptable"), says_bad("blue")
        (True, False, True, False)
    """
    return _bad(text) == {True}


def says_good(text: str) -> bool:
    """Tell whether a meaning says that a response is good: no violation, or a grade that is the higher one.

    Example:
        >>> says_good("correct"), says_good("contains no violation"), says_good("not correct"), says_good("blue")
        (True, True, False, False)
    """
    return _bad(text) == {False}


def _bad(text: str) -> set[bool]:
    return {sense.last == (sense.family == "detects") for sense in _senses(text)}


def _senses(text: str) -> list[_Sense]:
    """Return what the known words of a text stand for; a denied one stands for its opposite."""
    plain = re.sub(r"[\s_]+", " ", text.casefold())
    words = []
    for word in _KNOWN.finditer(plain):
        family, last = _SENSES[word[0]]
        # Each word is denied by itself: `not harmful, but wrong` says one good thing and one bad.
        denied = _NEGATION.search(plain[: word.start()]) is not None
        words.append(_Sense(family, last != denied))
    return words


_NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]{0,14})(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?", re.IGNORECASE)
"""Leading zeros make a code, not a number: `01` is not 1."""


def label_text(cell: object) -> str | None:
    """Return a cell as the text of a label: 3.0 is `3`, False is `false`; None for what is no label.

    Example:
        >>> [label_text(cell) for cell in (3.0, 0.5, False, " NA ", float("inf"), [1])]
        ['3', '0.5', 'false', 'NA', None, None]
    """
    # Numbers of arrays without their library: they have no dimension and know the plain value.
    plain = cell.item() if getattr(cell, "ndim", None) == 0 and hasattr(cell, "item") else cell
    if isinstance(plain, bool):
        return str(plain).lower()
    if isinstance(plain, str):
        return clean_text(plain).strip() or None
    if isinstance(plain, int):
        return str(plain)
    if isinstance(plain, float | Decimal) and math.isfinite(plain):
        # Through its text: as a plain float numpy's float32 0.1 is 0.10000000149.
        return label_of_number(float(str(cell)))
    return None


def label_key(text: str) -> float | str:
    """Return what two spellings of one label share."""
    number = label_number(text)
    # An accented letter may be one character or two, and is the same label.
    return unicodedata.normalize("NFC", text).casefold() if number is None else number


def label_word(cell: object) -> str:
    """Write an answer so that 1, 1.0, "1" and "1.0", and True and "true", are one.

    Example:
        >>> [label_word(cell) for cell in (True, "Yes ", 3.0, "3.0", "01")]
        ['true', 'yes', '3', '3', '01']
    """
    key = label_key(label_text(cell) or str(cell).strip())
    return key if isinstance(key, str) else label_of_number(key)


def label_number(text: str) -> float | None:
    """Return the number that a label is; None for words and codes such as `01`."""
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    return number if math.isfinite(number) else None


def label_of_number(number: float) -> str:
    """Write a number as a label: 3.0 is `3`."""
    return str(int(number)) if number.is_integer() else repr(number)
