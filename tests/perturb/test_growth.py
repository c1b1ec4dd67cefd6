"""Writing and checking grow with the length of a text and no faster: counted in calls, characters and steps."""

from __future__ import annotations

import cProfile
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import jrh_mlflow.perturb
from jrh_mlflow.perturb import checks
from jrh_mlflow.perturb.checks import TfidfSimilarity
from jrh_mlflow.perturb.unwrapping import foreign_line, unwrapped
from tests.cases import few
from tests.perturb.long_texts import RULES, SHAPES, attempt, targets
from tests.perturb.misbehaving import misbehaved
from tests.perturb.regex_steps import steps

SIZES = (300, 600, 1_200)
MOST = 2.6
"""Twice the text may take so many times the work."""
MODULES = [
    importlib.import_module(module.name)
    for module in pkgutil.walk_packages(jrh_mlflow.perturb.__path__, "jrh_mlflow.perturb.")
]
PATTERNS = {
    f"{module.__name__.rpartition('.')[2]}.{name}{number or ''}": pattern
    for module in MODULES
    for name, value in vars(module).items()
    for number, pattern in enumerate(value if isinstance(value, tuple) else (value,))
    if isinstance(pattern, re.Pattern) and re.search(r"(?<!\\)[*+]|,\}", pattern.pattern)
}
"""Every pattern of the package that can run on and on."""
ANCHORED = frozenset(
    {
        "english._FENCE",
        "english._HEADING",
        "error_injection._LIST_MARK",
        "english._MARGIN",
        "english._MARKS_ONLY",
        "surface._STRUCTURED",
    }
)
"""Those that are only matched where a line or a sentence begins, and never searched for."""
UNITS = (
    *(" ", "\t", "\n", ".", ",", "(", ")", "a", "A", "1", "`", "=", ">", "*", "-", "'", "@", "“", "–", "_", "。"),
    *(" ,", ". ", ".)", "A.", "Ab ", "a'", "a-", "1,", "1.", "a+", "**", "> ", "` ", "( ", "Ab-", ", which "),
    *(" because", "if ", "because it rains when ", " not ", "really ", "perhaps ", "is ", "unab", "www.", "no 1"),
)
SIMILARITY = TfidfSimilarity(["a text"])


class Work:
    """Calls that were made, and characters that patterns were given to look at."""

    def __init__(self) -> None:
        self.characters = 0

    def of(self, call: Callable[[], Any]) -> tuple[int, int]:
        """Return how many calls one call comes to, and how many characters."""
        self.characters = 0
        with cProfile.Profile() as profile:
            call()
        return sum(entry.callcount for entry in profile.getstats()), self.characters

    def counted(self, method: Callable[..., Any], text_at: int) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            text, start, end = (*arguments[text_at : text_at + 3], 0, 0)[:3]
            result = method(*arguments, **options)
            reached = result.end() if isinstance(result, re.Match) else 0
            # A match that fails is noted where it was tried: how far it looked is what the steps below are for.
            whole = (end or len(text)) if method.__name__ not in ("match", "fullmatch") else start
            self.characters += (reached or whole) - (start if text_at == 0 else 0) + 1
            return result

        return call


class CountedPattern:
    """A pattern that counts what it is given to look at."""

    def __init__(self, pattern: re.Pattern[str], work: Work) -> None:
        for name in ("findall", "finditer", "search", "match", "fullmatch", "split"):
            setattr(self, name, work.counted(getattr(pattern, name), 0))
        self.sub = work.counted(pattern.sub, 1)


@pytest.fixture
def work() -> Iterator[Work]:
    """Counts what every pattern of the package is given to look at."""
    work = Work()
    with pytest.MonkeyPatch.context() as monkeypatch:
        for module in MODULES:
            for name, value in list(vars(module).items()):
                if isinstance(value, re.Pattern):
                    monkeypatch.setattr(module, name, CountedPattern(value, work))
                elif isinstance(value, tuple) and value and all(isinstance(one, re.Pattern) for one in value):
                    monkeypatch.setattr(module, name, tuple(CountedPattern(one, work) for one in value))
        monkeypatch.setattr(re, "search", work.counted(re.search, 1))
        monkeypatch.setattr(re, "sub", work.counted(re.sub, 2))
        yield work


def _growth(measured: Callable[[int], tuple[int, int]]) -> float:
    """Return by how much work grows at most when the text doubles.

    One jump is forgiven, as where a longer text is worth a further try, two are not: so the longest text is only
    looked at after a first jump.
    """
    one, two = map(measured, SIZES[:2])
    growth = [b / max(a, 1) for a, b in zip(one, two, strict=True)]
    if max(growth) > MOST:
        again = [c / max(b, 1) for b, c in zip(two, measured(SIZES[2]), strict=True)]
        growth = list(map(min, growth, again))
    return max(growth)


def _attempt(name: str, text: str) -> Callable[[], Any]:
    """Make one attempt, the last of a test's targets: the highest level, the greatest dose."""
    target = targets(RULES[name], text)[-1]
    return lambda: attempt(RULES[name], target, SIMILARITY)


@pytest.mark.parametrize("name", few(RULES, quick=6))
def test_twice_the_text_is_twice_the_work_of_a_rule_and_its_checks(name, work):
    """On texts of every shape."""
    growth = {
        shape: _growth(lambda size, text=text: work.of(_attempt(name, text(size)))) for shape, text in SHAPES.items()
    }
    assert {shape: times for shape, times in growth.items() if times > MOST} == {}


@pytest.mark.parametrize("name", PATTERNS)
def test_twice_the_text_is_twice_the_steps_of_a_pattern(name):
    too_much = {}
    for unit in UNITS:
        n_units = max(3, 48 // len(unit))
        few, many = (
            steps(PATTERNS[name], unit * count + "x", anchored=name in ANCHORED) for count in (n_units, 2 * n_units)
        )
        if many > MOST * few:
            too_much[unit] = (few, many)
    assert not too_much


@pytest.mark.parametrize("shape", few(SHAPES, quick=20))
def test_twice_the_text_is_twice_the_work_of_unwrapping_it(shape, work):
    """In calls and in characters that patterns are given, for a text that is bare, wrapped, or cut."""
    for template in ("§T", '```json\n{"text": "§J", "ok": true}\n```', "```\n§T"):

        def measured(size: int, template: str = template) -> tuple[int, int]:
            text = SHAPES[shape](size)
            written = misbehaved(template, original=text, text=f"{text} Thus.")
            return work.of(lambda: foreign_line(unwrapped(written, text), text))

        assert _growth(measured) <= MOST, template


@pytest.mark.parametrize("name", ["_REWRITING"])
def test_remarks_that_never_come_take_no_more_than_twice_the_steps(name):
    patterns = getattr(checks, name)
    for pattern in [patterns] if isinstance(patterns, re.Pattern) else [re.compile(shape, re.I) for shape in patterns]:
        for unit in (*UNITS, "sure ", "revised", "here is a "):
            for first in ("New", "the rewritten text", "here is a text", "i have now rewritten"):
                few, many = (steps(pattern, first + unit * count + "x", anchored=True) for count in (60, 120))
                assert many <= MOST * few, (pattern.pattern, first, unit)
