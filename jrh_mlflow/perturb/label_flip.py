"""Label flip: rewritten until the opposite answer is right; the judge's answer must move."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from jrh_mlflow.perturb._base import NotApplicable, Target
from jrh_mlflow.perturb.checks import REWRITTEN, BandedRewrite
from jrh_mlflow.perturb.english import EVASIONS, HEDGES, OPPOSITES, POINTS, STOP_WORDS, VERBS, cased, sentences, words
from jrh_mlflow.perturb.rewording import each_sentence
from jrh_mlflow.schema.items import Labels, Seed
from jrh_mlflow.scoring.expectations import ExpectedLabel

_MIN_WORDS = 8
_MAX_LENGTH = 1.9
_OPPOSITE = re.compile(rf"(?<![\w'’-])(?:{'|'.join(sorted(OPPOSITES))})(?![\w'’-])", re.I)
_NEGATED = re.compile(
    r"\b(do|does|did) not \b|\b(?:(is|are|was|were|has|have|could|should|would|must|can) ?not|(can)['’]t)\b", re.I
)
_SHORT = re.compile(r"\b(do|does|did|is|are|was|were|has|have|could|should|would)n['’]t\b", re.I)
_VERB = re.compile(rf"\b({'|'.join(VERBS)})\b(?! not|n['’]t)", re.I)
_REASON = re.compile(r",? (?:because|since|so that|for example|for instance|such as|which)\b[^.!?;]*(?=[.!?;]|$)")
_HEDGE = re.compile(rf"(?<![\w'’-])(?:{'|'.join(sorted(HEDGES, key=len, reverse=True))})(?![\w'’-]),?\s*", re.I)


@dataclass(frozen=True, kw_only=True)
class LabelFlip(BandedRewrite):
    """The response rewritten to deserve the opposite label, which the validator confirms."""

    name = "label_flip"
    title = "rewritten until the opposite label is right, subject kept"
    expects = ExpectedLabel("the flipped label")
    group = "paper"
    needs = frozenset({"generator", "validator"})
    rules = REWRITTEN

    def targets(self, seeds: Sequence[Seed], labels: Labels, rubric: str) -> list[Target]:
        """Return one item per seed, with the flipped label expected."""
        return [self.target(seed, labels, rubric, expected=labels.flipped(seed.label)) for seed in seeds]

    def write(self, target: Target, rng: random.Random) -> str:
        """Change the substance: contradict it for a lower label, answer the task's phrases for a higher one.

        No rule knows a rubric. These texts exercise the machinery; a measurement of a judge wants a model's.
        """
        if len(words(target.original)) < _MIN_WORDS:
            raise NotApplicable(f"{len(words(target.original))} words are too few to flip by rule")
        places = target.labels.answers.index
        lower = places(target.expected or target.seed.label) < places(target.seed.label)
        worse = lower != target.labels.worse_last
        return _worse(target.original, rng) if worse else _better(target, rng)


def _worse(text: str, rng: random.Random) -> str:
    """Contradict every sentence, drop most reasons, say that the question does not matter."""
    size = len(words(text))
    changed = each_sentence(text, lambda sentence: _contradicted(sentence, rng))
    for evasion in rng.sample(EVASIONS, 2 if size > 40 else 1):
        # Below the band's upper end, with which the text is checked next.
        changed = f"{changed} {evasion}" if len(words(f"{changed} {evasion}")) < _MAX_LENGTH * size else changed
    return changed


def _contradicted(sentence: str, rng: random.Random) -> str:
    # A line that leads into a list states nothing to contradict.
    if sentence.endswith(":"):
        return sentence
    bare = _REASON.sub("", sentence) if rng.random() < 0.7 else sentence
    bare = bare if len(words(bare)) > 3 else sentence
    plain_not = _SHORT.sub(r"\1 not", bare)
    if _NEGATED.search(plain_not):
        return _NEGATED.sub(lambda match: match[2] or match[3] or "", plain_not)
    if _OPPOSITE.search(bare) and rng.random() < 0.8:
        return _OPPOSITE.sub(lambda word: cased(OPPOSITES[word[0].lower()][0], like=word[0]), bare, count=1)
    return _VERB.sub(lambda verb: f"{verb[0]} not", bare, count=1)


def _better(target: Target, rng: random.Random) -> str:
    """Take up the task's phrases one by one, without hedging, and keep what the response says."""
    phrases = _phrases(target.seed.instruction) or _phrases(target.original)
    if not phrases:
        raise NotApplicable("neither the task nor the response names anything to take up")
    size = len(words(target.original))
    body = [_unhedged(target.original[start:end]) for start, end in sentences(target.original)]
    n_points = max(1, min(len(phrases), 3, int(size * 0.8 / 16)))
    points = rng.sample(POINTS, n_points)
    chosen = sorted(rng.sample(range(len(phrases)), n_points))
    for nth, place in enumerate(chosen):
        # Spread over the text: all at the end would read like an appendix.
        body.insert(round(nth * len(body) / n_points), points[nth].format(phrases[place]))
    return " ".join(part for part in body if part)


def _phrases(text: str) -> list[str]:
    """Runs of up to three words that could be the subject of a task, each once."""
    runs: list[list[str]] = [[]]
    for word in words(text):
        if word.lower() in STOP_WORDS or len(word) < 3:
            runs.append([])
        else:
            runs[-1].append(word)
    return list(dict.fromkeys(" ".join(run[:3]).lower() for run in runs if run))


def _unhedged(sentence: str) -> str:
    bare = _HEDGE.sub("", sentence).strip(" ,")
    bare = re.sub(r"(?<! ) +(?=[.,;!?])", "", bare)
    return bare[0].upper() + bare[1:] if len(words(bare)) > 2 else sentence
