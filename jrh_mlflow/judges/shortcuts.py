"""Shortcut judges: they count something in two texts and read neither. What one of them can win shows no reading.

A shortcut prefers the content with more (or less) of what it counts. Where both have as much, a coin of the pair names
a slot, the same in both orders, so that a shortcut that sees no difference reads exactly .5 over the two orders.
"""

from __future__ import annotations

import math
import re
import zlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, get_args

from jrh_mlflow.judges._scripted import Looking, uniform
from jrh_mlflow.perturb import english
from jrh_mlflow.perturb.english import STOP_WORDS
from jrh_mlflow.schema.items import LEVEL_CONDITIONS, Call
from jrh_mlflow.schema.presentation import Presentation

Direction = Literal["more", "less"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)

_TEXTS_AT_HAND = 4096
"""The contents and instructions of a suite come again in many pairs, and for one shortcut after the other."""

_LISTED = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.)])\s+(.+)$", re.M)
"""A line of a list: how instructions write down what an answer should do."""
_HEDGE = re.compile(
    r"(?i:\b(?:perhaps|maybe|might|could|possibly|probably|presumably|seem(?:s|ed)?|appear(?:s|ed)?|likely|roughly"
    r"|approximately|around|about|somewhat|rather|quite|fairly|guess|believe|suppose|kind of|sort of)\b)|\bmay\b"
)
"""`May` with a capital is mostly the month."""


class Shortcut(Looking):
    """Prefers the content that scores more, or less, on something that can be counted without reading.

    A single response has nothing beside it to score more than: there it abstains. Only where any score may be
    answered, on single responses of known level, it answers its score (`less`: with a minus).
    """

    def __init__(self, *, direction: Direction = "more", seed: int = 0) -> None:
        """Choose what wins.

        Args:
            direction: `more` prefers the higher score, `less` the lower one.
            seed: Of the coin that decides between equal scores.
        """
        super().__init__()
        if direction not in DIRECTIONS:
            raise ValueError(f"`direction` must be 'more' or 'less', but got {direction!r}.")
        self.direction, self.seed = direction, seed
        if direction == "less":
            self.name = f"{self.name} (less)"

    def settings(self) -> dict[str, object]:
        """Name the direction and the seed."""
        return super().settings() | {"direction": self.direction, "seed": self.seed}

    def arguments(self) -> dict[str, Any]:
        """The direction and the seed."""
        return {"direction": self.direction, "seed": self.seed}

    @abstractmethod
    def score(self, text: str, presentation: Presentation) -> float:
        """Return how much a content has of what is counted."""

    def answer(self, call: Call) -> str:
        """Compare two contents; answer the score of a single response of known level."""
        if call.item.condition not in LEVEL_CONDITIONS:
            return self(call.presentation)
        score = self.score(call.presentation.response or "", call.presentation)
        # So many digits that equal scores are the same text, however their weights were summed.
        return f"{score if self.direction == 'more' else -score:.9f}"

    def margin(self, presentation: Presentation) -> float:
        """Return by how much the first content is preferred over the second; 0 where their scores are equal."""
        first, second = (self.score(text or "", presentation) for text in (presentation.first, presentation.second))
        # The same words in another order must score the same, however their weights are summed.
        if math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-12):
            return 0.0
        return first - second if self.direction == "more" else second - first

    def __call__(self, presentation: Presentation) -> str:
        """Compare the scores; let the coin decide between equal ones."""
        if presentation.kind != "pair":
            return "abstain"
        margin = self.margin(presentation)
        if margin == 0:
            return self._coin(presentation)
        return "1" if margin > 0 else "2"

    def _coin(self, presentation: Presentation) -> str:
        pair = sorted((presentation.first or "", presentation.second or ""))
        return "1" if uniform(self.seed, presentation.instruction, *pair) < 0.5 else "2"


class WordOverlap(Shortcut):
    """Counts the words of the instruction that a content takes up, each once, small words left out."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count shared words."""
        return len(_content_words(text) & _content_words(presentation.instruction))


class RubricOverlap(Shortcut):
    """Counts the words of the rubric, and of the lines that the instruction lists, that a content takes up."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count shared words; what the judge is told about ties is no rubric."""
        rubric = (presentation.rubric or "").removesuffix(self.tie_criterion.text)
        lines = " ".join([*_LISTED.findall(presentation.instruction), rubric])
        return len(_content_words(text) & _content_words(lines))


class WordPairs(Shortcut):
    """Counts the pairs of neighbouring words of the instruction that a content takes up, each once."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count shared pairs."""
        return len(set(pairwise(_words(text))) & set(pairwise(_words(presentation.instruction))))


class TfidfCosine(Shortcut):
    """Cosine of the TF-IDF vectors of a content and the instruction.

    `w = (1 + ln count) (1 + ln((1 + n) / (1 + df)))` (scikit-learn's smoothed formula), the n documents being the
    sentences of the presentation: that is all a judge sees.
    """

    def score(self, text: str, presentation: Presentation) -> float:
        """Weigh the words by how few sentences hold them."""
        documents = [set(_words(sentence)) for one in _shown(presentation) for sentence in sentences_of(one)]
        held_by = Counter(word for document in documents for word in document)
        weights = {word: 1 + math.log((1 + len(documents)) / (1 + count)) for word, count in held_by.items()}
        return _cosine(_weighted(text, weights), _weighted(presentation.instruction, weights))


class CharacterNgrams(Shortcut):
    """Share of a content's character n-grams that occur in the instruction: whole phrases count, split words too."""

    def __init__(self, *, n: int = 4, direction: Direction = "more", seed: int = 0) -> None:
        """Choose the length.

        Args:
            n: Characters of an n-gram, spaces included.
            direction: As for every shortcut.
            seed: As for every shortcut.
        """
        super().__init__(direction=direction, seed=seed)
        if n < 1:
            raise ValueError(f"`n >= 1` must hold, but got {n=}.")
        self.n = n

    def settings(self) -> dict[str, object]:
        """Name the length too."""
        return super().settings() | {"n": self.n}

    def score(self, text: str, presentation: Presentation) -> float:
        """Look every n-gram up."""
        own = _ngrams(text, self.n)
        return len(own & _ngrams(presentation.instruction, self.n)) / max(1, len(own))


class CharacterCount(Shortcut):
    """Counts characters. As `LongerWins`, which ties where lengths are equal."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count characters."""
        return len(text)


class DigitCount(Shortcut):
    """Counts digits."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count digits."""
        return sum(character.isdigit() for character in text)


class CapitalCount(Shortcut):
    """Counts words that begin with a capital letter."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count capitalised words."""
        return sum(word[0].isupper() for word in english.words(text))


class RareWords(Shortcut):
    """Counts words that stand nowhere else in the presentation."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count words that occur once."""
        counts = Counter(word for one in _shown(presentation) for word in _words(one))
        return sum(counts[word] == 1 for word in set(_words(text)))


class SentenceCount(Shortcut):
    """Counts sentences."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count sentences; a line break ends one."""
        return len(sentences_of(text))


class HedgeCount(Shortcut):
    """Counts hedges, such as perhaps, might and about."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count hedges."""
        return len(_HEDGE.findall(text))


class NegationCount(Shortcut):
    """Counts negations, such as not, never and without; `not only` and its like are none."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count the certain ones."""
        certain, _ = english.negations(text, ())
        return certain


class TypeTokenRatio(Shortcut):
    """Different words over all words: how little a content repeats itself."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Divide; an empty text has no ratio and scores 0."""
        words = _words(text)
        return len(set(words)) / max(1, len(words))


class Compression(Shortcut):
    """Share of a content's bytes that zlib saves; a text too short to shrink scores below 0."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Compress."""
        content = text.encode("utf-8", "surrogatepass")
        return 1 - len(zlib.compress(content, 9)) / len(content) if content else 0.0


SHORTCUTS: tuple[type[Shortcut], ...] = (
    WordOverlap,
    RubricOverlap,
    WordPairs,
    TfidfCosine,
    CharacterNgrams,
    DigitCount,
    CapitalCount,
    RareWords,
    CharacterCount,
    SentenceCount,
    HedgeCount,
    NegationCount,
    TypeTokenRatio,
    Compression,
)
"""What `jrh suite audit` runs, each in both directions."""


def every_shortcut(*, seed: int = 0) -> Iterator[Shortcut]:
    """Yield each shortcut judge in both directions."""
    for shortcut in SHORTCUTS:
        for direction in DIRECTIONS:
            yield shortcut(direction=direction, seed=seed)


def _shown(presentation: Presentation) -> list[str]:
    """Return the texts that a judge sees: the instruction and the contents."""
    contents = (presentation.first, presentation.second, presentation.response)
    return [presentation.instruction, *(text for text in contents if text)]


@lru_cache(_TEXTS_AT_HAND)
def sentences_of(text: str) -> tuple[str, ...]:
    """Return the sentences of a text.

    Example:
        >>> sentences_of("Dr. Lee came. He left!")
        ('Dr. Lee came.', 'He left!')
    """
    return tuple(text[start:end] for start, end in english.sentences(text))


@lru_cache(_TEXTS_AT_HAND)
def _words(text: str) -> tuple[str, ...]:
    return tuple(word.casefold() for word in english.words(text))


@lru_cache(_TEXTS_AT_HAND)
def _content_words(text: str) -> frozenset[str]:
    return frozenset(_words(text)) - STOP_WORDS


@lru_cache(_TEXTS_AT_HAND)
def _ngrams(text: str, n: int) -> frozenset[str]:
    flat = " ".join(text.casefold().split())
    return frozenset(flat[start : start + n] for start in range(len(flat) - n + 1))


def _weighted(text: str, weights: Mapping[str, float]) -> dict[str, float]:
    # A word of a fenced line is in no sentence, and weighs nothing.
    return {word: (1 + math.log(count)) * weights.get(word, 0.0) for word, count in Counter(_words(text)).items()}


def _cosine(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    norms = _norm(one.values()) * _norm(other.values())
    return math.fsum(weight * other.get(word, 0.0) for word, weight in one.items()) / norms if norms else 0.0


def _norm(weights: Iterable[float]) -> float:
    return math.sqrt(math.fsum(weight * weight for weight in weights))
