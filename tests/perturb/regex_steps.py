"""How many steps a backtracking matcher takes with a pattern: what a clock would show, without a clock.

A small matcher that tries things in the order in which `re` does, and counts what it tries.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as constants
    from re import _parser as parser
else:
    import sre_constants as constants
    import sre_parse as parser

Nodes = Sequence[tuple[Any, Any]]
_KINDS = {
    constants.CATEGORY_DIGIT: str.isdecimal,
    constants.CATEGORY_SPACE: str.isspace,
    constants.CATEGORY_WORD: lambda letter: letter.isalnum() or letter == "_",
    constants.CATEGORY_NOT_DIGIT: lambda letter: not letter.isdecimal(),
    constants.CATEGORY_NOT_SPACE: lambda letter: not letter.isspace(),
    constants.CATEGORY_NOT_WORD: lambda letter: not (letter.isalnum() or letter == "_"),
}
_LETTERS = frozenset({constants.LITERAL, constants.NOT_LITERAL, constants.ANY, constants.IN})
_REPEATS = frozenset({constants.MAX_REPEAT, constants.MIN_REPEAT})


class _Fits(dict[str, bool]):
    """Whether a letter fits one node of a pattern, found out once for each letter."""

    def __init__(self, kind: Any, value: Any, flags: int) -> None:
        super().__init__()
        self._kind, self._value, self._any_case = kind, value, bool(flags & re.I)

    def __missing__(self, letter: str) -> bool:
        self[letter] = self._fits(letter)
        return self[letter]

    def _fits(self, letter: str) -> bool:
        kind, value = self._kind, self._value
        if kind is constants.ANY:
            return letter != "\n"
        forms = {letter, letter.lower(), letter.upper()} if self._any_case else {letter}
        if kind is constants.IN:
            negated = value[0][0] is constants.NEGATE
            return negated != any(_in_set(form, value[negated:]) for form in forms)
        return (kind is constants.LITERAL) == any(ord(form) == value for form in forms if len(form) == 1)


@cache
def _parsed(pattern: str, flags: int) -> Nodes:
    return _prepared(parser.parse(pattern, flags), flags)


def _prepared(nodes: Any, flags: int) -> Nodes:
    """Return nodes as plain lists, in which those of one letter know what fits them."""
    return [(kind, _prepared_value(kind, value, flags)) for kind, value in nodes]


def _prepared_value(kind: Any, value: Any, flags: int) -> Any:
    if kind in _LETTERS:
        return _Fits(kind, value, flags)
    if kind in _REPEATS:
        return (value[0], value[1], _prepared(value[2], flags))
    if kind is constants.BRANCH:
        return [_prepared(branch, flags) for branch in value[1]]
    if kind is constants.SUBPATTERN:
        return _prepared(value[3], flags)
    if kind in (constants.ASSERT, constants.ASSERT_NOT):
        direction, body = value
        return (0 if direction > 0 else body.getwidth()[0], _prepared(body, flags))
    return value


class Steps:
    """One pattern on one text."""

    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        self._nodes = _parsed(pattern.pattern, pattern.flags)
        self._text, self._by_line = text, bool(pattern.flags & re.M)
        self.count = 0

    def search_all(self) -> None:
        """Find all matches that do not overlap, as `finditer` does."""
        place = 0
        while place <= len(self._text):
            end = next(self._ends(self._nodes, place), None)
            place = end if end is not None and end > place else place + 1

    def match(self) -> None:
        """Match the whole text."""
        for end in self._ends(self._nodes, 0):
            if end == len(self._text):
                return

    def _ends(self, nodes: Nodes, place: int) -> Iterator[int]:
        """Yield where a match of the nodes can end, in the order of `re`."""
        self.count += 1
        if not nodes:
            yield place
            return
        (kind, value), rest = nodes[0], nodes[1:]
        if kind in _LETTERS:
            if self._fits(value, place):
                yield from self._ends(rest, place + 1)
        elif kind in _REPEATS:
            for end in self._repeated(value, place, lazy=kind is constants.MIN_REPEAT):
                yield from self._ends(rest, end)
        elif kind is constants.BRANCH:
            for branch in value:
                if self._may_begin(branch, place):
                    yield from self._then(branch, rest, place)
        elif kind is constants.SUBPATTERN:
            yield from self._then(value, rest, place)
        elif self._holds(kind, value, place):
            yield from self._ends(rest, place)

    def _then(self, nodes: Nodes, rest: Nodes, place: int) -> Iterator[int]:
        for end in self._ends(nodes, place):
            yield from self._ends(rest, end)

    def _may_begin(self, branch: Nodes, place: int) -> bool:
        return not branch or branch[0][0] not in _LETTERS or self._fits(branch[0][1], place)

    def _repeated(self, value: Any, place: int, *, lazy: bool) -> Iterator[int]:
        low, high, body = value
        if len(body) == 1 and body[0][0] in _LETTERS:
            most = place
            while most < len(self._text) and most - place < high and self._fits(body[0][1], most):
                most += 1
                self.count += not lazy
            ends = range(place + low, most + 1)
            for end in ends if lazy else reversed(ends):
                self.count += 1
                yield end
            return
        if not lazy and high > 0:
            for end in self._ends(body, place):
                if end > place:
                    yield from self._repeated((max(0, low - 1), high - 1, body), end, lazy=lazy)
        if low <= 0:
            yield place

    def _fits(self, fits: _Fits, place: int) -> bool:
        return place < len(self._text) and fits[self._text[place]]

    def _holds(self, kind: Any, value: Any, place: int) -> bool:
        if kind is constants.AT:
            return self._at(value, place)
        assert kind in (constants.ASSERT, constants.ASSERT_NOT), kind
        back, body = value
        found = place >= back and next(self._ends(body, place - back), None) is not None
        return found == (kind is constants.ASSERT)

    def _at(self, value: Any, place: int) -> bool:
        text, word = self._text, _KINDS[constants.CATEGORY_WORD]
        if value in (constants.AT_BEGINNING, constants.AT_BEGINNING_STRING):
            return place == 0 or (self._by_line and text[place - 1] == "\n")
        if value in (constants.AT_END, constants.AT_END_STRING):
            return place == len(text)
        around = [0 <= spot < len(text) and bool(word(text[spot])) for spot in (place - 1, place)]
        return (around[0] != around[1]) == (value is constants.AT_BOUNDARY)


def _in_set(letter: str, members: Any) -> bool:
    return any(
        _KINDS[value](letter)
        if kind is constants.CATEGORY
        else value[0] <= ord(letter[0]) <= value[1]
        if kind is constants.RANGE
        else ord(letter[0]) == value
        for kind, value in members
    )


def steps(pattern: re.Pattern[str], text: str, *, anchored: bool = False) -> int:
    """Count the steps of a search over the whole text, or of one match at its beginning."""
    counted = Steps(pattern, text)
    if anchored:
        counted.match()
    else:
        counted.search_all()
    return counted.count
