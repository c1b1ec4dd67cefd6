"""The checks of an item's test, on the text as it stands: a reviewer's edit can lose a number too."""

from __future__ import annotations

from typing import Any

from jrh_mlflow.perturb._base import Bench, Check, Similarity, Target
from jrh_mlflow.perturb.registry import TESTS
from jrh_mlflow.review.contents import Entry
from jrh_mlflow.review.states import Standing
from jrh_mlflow.schema.items import Labels, Seed

_COMPARING = ("similar", "unlike_earlier")
"""Checks that need the corpus of the generation; the similarity it measured is shown by itself."""
_MAX_LENGTH = 200_000
"""Of a text that is worth the wait: checks are read with every item that is opened."""


class _Unmeasured(Similarity):
    name = "none"

    def between(self, one: str, other: str) -> float:
        raise AssertionError("no check that compares is run here")


def rechecked(entry: Entry, text: str | None) -> tuple[dict[str, Any], ...]:
    """Return the checks of the item's test on a text, each with `name`, `passed` and the `problem`, if any.

    Nothing for transcripts, unknown tests, items without their source, and texts beyond 200,000 characters.
    """
    test = TESTS.get(entry.test)
    if test is None or text is None or entry.part == "transcript" or len(text) > _MAX_LENGTH:
        return ()
    target = _target(entry)
    if target is None:
        return ()
    if text not in entry.known_checks:
        bench = Bench(similarity=_Unmeasured())
        named = [(name, check) for check in test.checks if (name := _name(check)) not in _COMPARING]
        found = [(name, check(target, text, bench)) for name, check in named]
        entry.known_checks[text] = tuple(
            {"name": name, "passed": problem is None, "problem": problem} for name, problem in found
        )
    return entry.known_checks[text]


def failed(entry: Entry, standing: Standing) -> frozenset[str]:
    """Return the names of checks that an item did not pass when it was made, or does not pass as it was edited."""
    found = entry.failed
    if standing.state.text is None:
        return found
    return found | {one["name"] for one in rechecked(entry, standing.state.text) if not one["passed"]}


def _target(entry: Entry) -> Target | None:
    item, source = entry.item, entry.source
    if source is None or source.response is None or len(source.response) > _MAX_LENGTH:
        return None
    seed = Seed(id=item.task, instruction=item.instruction or "", response=source.response, label=source.expected or "")
    return Target(
        test=entry.test,
        condition=item.condition,
        seed=seed,
        labels=Labels(answers=item.answers or ()),
        rubric=source.rubric or "",
        expected=item.expected,
        part="rubric" if entry.part == "rubric" else "response",
    )


def _name(check: Check) -> str:
    """Return what a check is called: its function, or the one that made it."""
    return str(getattr(check, "__qualname__", type(check).__name__)).partition(".")[0]
