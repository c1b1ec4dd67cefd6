"""Tests that add something to a response and change nothing of it."""

from __future__ import annotations

from jrh_mlflow.perturb._base import Bench, Check, CodeTest, NotApplicable, Target
from jrh_mlflow.perturb.checks import differs


def keeps_words(target: Target, text: str, bench: Bench) -> str | None:
    """Flag a text in which the words of the original do not all follow one another in order."""
    rest = iter(text.split())
    lost = next((word for word in target.original.split() if word not in rest), None)
    return None if lost is None else f"word lost: {lost[:40]}"


class Addition(CodeTest):
    """A sentence or more is added; every word of the response stays."""

    checks: tuple[Check, ...] = (differs, keeps_words)


def beside(text: str, added: str, *, before: bool) -> str:
    """Put a passage before or after a text: on the same line when the text is one line, else as a paragraph."""
    if not text.strip():
        raise NotApplicable("the text is empty")
    parts = (added, text) if before else (text, added)
    return ("\n\n" if "\n" in text + added else " ").join(parts)
