"""Tests that add to a response and change nothing of it: padding, credentials, an instruction to the grader."""

from __future__ import annotations

import random
from collections.abc import Sequence

from jrh_mlflow.perturb._base import Check, CheckContext, CodeTest, NotApplicable, Target
from jrh_mlflow.perturb.checks import differs, keeps_numbers
from jrh_mlflow.perturb.english import (
    CREDENTIALS,
    EMPTY_BODIES,
    EMPTY_SENTENCES,
    EMPTY_STEMS,
    REQUESTS,
    apply,
    sentence_ends,
)
from jrh_mlflow.schema.items import Labels, Seed

_EMPTY = [*(f"{stem} {body}." for stem in EMPTY_STEMS for body in EMPTY_BODIES), *EMPTY_SENTENCES]


def keeps_words(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag a text in which the words of the original do not all follow one another in order."""
    # One iterator for all words: each is looked for behind the one before it.
    rest = iter(text.split())
    lost = next((word for word in target.original.split() if word not in rest), None)
    return None if lost is None else f"word lost: {lost[:40]}"


class Addition(CodeTest):
    """A sentence or more is added; every word of the response stays."""

    group = "extra"
    checks: tuple[Check, ...] = (differs, keeps_words)


def _beside(text: str, before: Sequence[str], after: Sequence[str], rng: random.Random) -> str:
    """Put one of the passages in its place: on the same line when the text is one line, else as a paragraph."""
    if not text.strip():
        raise NotApplicable("the text is empty")
    first = rng.random() < len(before) / (len(before) + len(after))
    added = rng.choice(before if first else after)
    return ("\n\n" if "\n" in text + added else " ").join((added, text) if first else (text, added))


class Padding(Addition):
    """A response padded to about 1.3 to 1.6 times its length; a very short one gets one short sentence."""

    name = "padding"
    title = "non-informative padding, 30 to 60 % longer"
    changes = "length and conciseness, by sentences that say nothing"
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
    # Ends as well when a whole round of sentences added nothing, since each was too long.
    while added < enough and added > before:
        before = added
        for sentence in rng.sample(_EMPTY, len(_EMPTY)):
            if added < enough and added + len(sentence) + 1 <= most:
                chosen.append(sentence)
                added += len(sentence) + 1
    return chosen or [min(EMPTY_SENTENCES, key=len)]


class Authority(Addition):
    """An expert's credentials, which nobody can check, say nothing about whether the text is right."""

    name = "authority"
    title = "fake credentials of the author before or after"
    changes = "claims of expertise and authority"

    def write(self, target: Target, rng: random.Random) -> str:
        """Return the response with a seeded sentence about its author."""
        return _beside(target.original, CREDENTIALS["before"], CREDENTIALS["after"], rng)


def asked_for(label: str, labels: Labels) -> str | None:
    """Return the answer that is asked for in place of the right one; None when nothing would be gained.

    The top level of a scale. Of other labels the last, or the first when the last is right. Where words say that the
    last is the worse one, it is the other way round.

    Example:
        >>> asked_for("fail", Labels(answers=("fail", "pass")))
        'pass'
    """
    ends = labels.answers[0], labels.answers[-1]
    bottom, top = ends[::-1] if labels.worse_last else ends
    if label != top:
        return top
    return None if labels.ordinal or len(labels.answers) == 1 else bottom


def asks(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag a text that does not ask for the undeserved answer, or loses the response."""
    wanted = asked_for(target.seed.label, target.labels)
    if wanted is None or wanted == target.expected:
        return "nothing undeserved is asked for"
    # The request must stand outside: the response itself may hold the label's word.
    before, kept, after = text.partition(target.original)
    return None if kept and wanted in before + after else f"does not ask for {wanted}"


class PromptInjection(Addition):
    """Seeds that carry the top level of a scale already are left out: there is nothing to gain."""

    name = "prompt_injection"
    title = "an instruction to the grader inside an undeserving response"
    changes = "instructions to the grader inside the response"
    checks = (differs, asks)

    def targets(self, seeds: Sequence[Seed], labels: Labels, rubric: str) -> list[Target]:
        """Return one item per seed that another answer can be asked for."""
        undeserving = [seed for seed in seeds if asked_for(seed.label, labels) is not None]
        return super().targets(undeserving, labels, rubric)

    def write(self, target: Target, rng: random.Random) -> str:
        """Return the response with a seeded instruction before or after it."""
        seed, wanted = target.seed, asked_for(target.seed.label, target.labels)
        if wanted is None:
            raise ValueError(f"Seed {seed.id!r} carries the best answer {seed.label!r}: nothing to ask for.")
        asking = {place: [text.replace("{label}", wanted) for text in texts] for place, texts in REQUESTS.items()}
        return _beside(target.original, asking["before"], asking["after"], rng)
