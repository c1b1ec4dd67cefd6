"""Texts of any length and of many shapes, and one whole attempt of a test at them: written, then checked."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from itertools import cycle, islice
from typing import NamedTuple

from jrh_mlflow.perturb import CheckContext, CodeTest, NotApplicable, Target
from jrh_mlflow.perturb.checks import TfidfSimilarity
from jrh_mlflow.perturb.registry import TESTS
from jrh_mlflow.schema.items import Labels, Seed

SCALE = Labels(answers=("1", "2", "3", "4", "5"), ordinal=True)
RUBRIC = "Rate from 1 to 5 how well the response answers the task. A response without a reason gets at most 3."
TASK = "Explain the main reasons to a class of students and give one example."
_SUBJECTS = ("the council", "a student", "the engine", "most people", "the old bridge", "every teacher", "the company")
_VERBS = ("is not", "was", "could", "does not", "should help", "will increase", "has", "can show")
_OBJECTS = ("important", "a large problem", "the best result", "better than before", "hot and expensive", "useful")
_NAMES = ("Anna", "Karlsson", "NASA", "Jean-Paul", "O'Brien", "AT&T", "U.S.A.", "Hamburg")


def _sentence(n: int) -> str:
    subject, verb, thing = _SUBJECTS[n % 7], _VERBS[n % 8], _OBJECTS[n % 6]
    because = (" because it costs less", ", which is really very good,", "", " (as a rule)", " when it rains")[n % 5]
    return f"{subject.capitalize()} {verb} {thing}{because} in part {n}."


def _filled(unit: Callable[[int], str], separator: str) -> Callable[[int], str]:
    def text(n_characters: int) -> str:
        length, parts = 0, []
        while length < n_characters:
            parts.append(unit(len(parts)))
            length += len(parts[-1]) + len(separator)
        return separator.join(parts)

    return text


def _run(unit: str, *, before: str = "", after: str = "") -> Callable[[int], str]:
    """One unit again and again between two texts of ordinary sentences."""
    first, last = " ".join(map(_sentence, range(3))), " ".join(map(_sentence, range(3, 6)))

    def text(n_characters: int) -> str:
        run = "".join(islice(cycle([unit]), n_characters // len(unit)))
        return f"{first} {before}{run}{after} {last}"

    return text


SHAPES: Mapping[str, Callable[[int], str]] = {
    "prose": _filled(_sentence, " "),
    "paragraphs": _filled(lambda n: " ".join(_sentence(4 * n + k) for k in range(4)), "\n\n"),
    "one sentence": _filled(lambda n: _sentence(n)[:-1].lower().replace(",", ""), " "),
    "one sentence with a stop": lambda n: "The " + SHAPES["one sentence"](n) + ".",
    "conjunctions": _filled(lambda n: f"it rains because {n} if people wait when", " "),
    "conjunctions by line": _filled(lambda n: "it rains because people wait since it does such as so that " * 4, "\n"),
    "list": _filled(lambda n: f"{n}. {_sentence(n)}", "\n"),
    "bullets": _filled(lambda n: f"- {_sentence(n)[:-1]}", "\n"),
    "code": _filled(lambda n: f"{_sentence(n)}\n```python\nx = {n}\n```", "\n"),
    "inline code": _filled(lambda n: f"Call `run_{n} --all` or see https://a.b/{n} and m{n}@c.de, it is not new.", " "),
    "open fence": lambda n: "```\n" + SHAPES["list"](n),
    "names": _filled(lambda n: f"we met {_NAMES[n % 8]} and {_NAMES[n % 8][0]}x{n}o here.", " "),
    "different names": _filled(lambda n: f"then came Name{n} with Mr. Other{n}-Name{n}", " "),
    "one name of many parts": _run("Ab-", before="we saw ", after="Z"),
    "numbers": _filled(lambda n: f"It is {n},{n:03d}.{n} or {n % 13} of {n}", ". "),
    "negations": _filled(lambda n: f"They do not and can't, it isn't un{'abcdefgh'[n % 8]}happy {n}", ". "),
    "parentheses": _filled(lambda n: f"it is (as said ({n}", " "),
    "asides": _filled(lambda n: f"it is (as said) good – or was it – for part {n}", " "),
    "quotations": _filled(lambda n: f"“it is” he said, 'no' and \"yes {n}\", ‘well", " "),
    "small letters": _filled(lambda n: f"it was good. and {n} then it was not. so be it", ". "),
    "chinese": _filled(lambda n: f"北京是中国的首都{n}。它有很长的历史！", ""),
    "shouting": _filled(lambda n: f"THE ENGINE {n} IS NOT HOT", ". "),
    "headings": _filled(lambda n: f"## Part {n}\n**A bold line**\n{_sentence(n)}", "\n"),
    "quoted lines": _filled(lambda n: "> " * 20 + _sentence(n), "\n"),
    "one word": _run("x"),
    "one capital word": _run("X"),
    "one number": _run("1,111"),
    "digits": _run("1", after="a"),
    "spaces": _run(" ", before="it was", after="so"),
    "tabs": _run(" \t", before="it was", after="so"),
    "blank lines": _run("\n"),
    "dots": _run(".", after="x"),
    "stops and brackets": _run(".)", after="x"),
    "commas": _run(" ,", after="x"),
    "equal signs": _run("="),
    "backticks": _run("`"),
    "fences in a line": _run("``` a "),
    "quote marks in a line": _run("> "),
    "stars": _run("**"),
    "apostrophes": _run("a'"),
    "hyphens": _run("a-"),
    "at signs": _run("a@"),
    "plus signs": _run("a+", after="!"),
    "letters with dots": _run("A."),
    "new and spaces": lambda n: "New " + " " * n + _sentence(1) + " " + _sentence(2),
    "notes": _run("Note: "),
    "breaches": _run("I know what is asked of me here (“"),
}
"""Name to a function from a number of characters to a text of about that length."""

RULES: Mapping[str, CodeTest] = {name: test for name, test in TESTS.items() if isinstance(test, CodeTest)}


class Attempt(NamedTuple):
    """What one attempt came to."""

    text: str
    problems: tuple[str, ...]


def targets(test: CodeTest, response: str) -> list[Target]:
    """Return what a test makes of one response."""
    return test.targets([Seed(id="s", instruction=TASK, response=response, label="3")], SCALE, RUBRIC)


def attempt(test: CodeTest, target: Target, similarity: TfidfSimilarity, number: int = 0) -> Attempt:
    """Write a text, and say what the test's own checks find wrong with it."""
    try:
        text = test.write(target, random.Random(number))
    except NotApplicable as reason:
        return Attempt("", (str(reason),))
    context = CheckContext(similarity=similarity)
    return Attempt(text, tuple(filter(None, (check(target, text, context) for check in test.checks))))
