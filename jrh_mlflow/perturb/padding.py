"""Padding that says nothing, and what tests share that add to a response and change nothing of it."""

from __future__ import annotations

import random

from jrh_mlflow.perturb._base import Check, CheckContext, CodeTest, NotApplicable, Target
from jrh_mlflow.perturb.checks import differs, keeps_numbers
from jrh_mlflow.perturb.english import apply, sentence_ends
from jrh_mlflow.perturb.words import EMPTY_BODIES, EMPTY_SENTENCES, EMPTY_STEMS


def keeps_words(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag a text in which the words of the original do not all follow one another in order."""
    rest = iter(text.split())
    lost = next((word for word in target.original.split() if word not in rest), None)
    return None if lost is None else f"word lost: {lost[:40]}"


class Addition(CodeTest):
    """A sentence or more is added; every word of the response stays."""

    group = "extra"
    checks: tuple[Check, ...] = (differs, keeps_words)


def beside(text: str, added: str, *, before: bool) -> str:
    """Put a passage before or after a text: on the same line when the text is one line, else as a paragraph."""
    if not text.strip():
        raise NotApplicable("the text is empty")
    parts = (added, text) if before else (text, added)
    return ("\n\n" if "\n" in text + added else " ").join(parts)


_SHORTEST = min(EMPTY_SENTENCES, key=len)


class Padding(Addition):
    """A response padded to about 1.3 to 1.6 times its length; a very short one gets one short sentence."""

    name = "padding"
    title = "non-informative padding, 30 to 60 % longer"
    checks = (differs, keeps_words, keeps_numbers)

    def write(self, target: Target, rng: random.Random) -> str:
        """Return the response with padding after some of its sentences."""
        text = target.original
        if not text.strip():
            raise NotApplicable("the text is empty")
        padding = _padding(len(text.strip()), rng)
        places = sentence_ends(text)
        if not places:
            return text + "\n\n" + " ".join(padding)
        return apply(text, [(place, place, " " + sentence) for sentence in padding for place in [rng.choice(places)]])


def _padding(length: int, rng: random.Random) -> list[str]:
    """Return sentences for a text of `length` characters, each used again only when all have been."""
    enough, most = rng.uniform(0.35, 0.55) * length, 0.6 * length
    chosen: list[str] = []
    added, before = 0, -1
    while added < enough and added > before:
        before = added
        for sentence in _shuffled(rng):
            if added < enough and added + len(sentence) + 1 <= most:
                chosen.append(sentence)
                added += len(sentence) + 1
    return chosen or [_SHORTEST]


def _shuffled(rng: random.Random) -> list[str]:
    bank = [f"{stem} {body}." for stem in EMPTY_STEMS for body in EMPTY_BODIES] + list(EMPTY_SENTENCES)
    return rng.sample(bank, len(bank))
