"""What must hold of a generated text, checked before any validation is paid.

A check takes the target, the text and its context and says in a few words what is wrong, or None. Checks look at the
surface: they catch an echo, chatter, a lost number or a dropped `not`, and cannot certify meaning.

`BandedRewrite` is a rewrite whose length and nearness to the original have limits that a user can set. How alike two
texts are is said by TF-IDF, or by any embedding model behind the same small interface.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice
from threading import Lock
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.perturb._base import Check, CheckContext, Rewrite, Similarity, Target, parameter
from jrh_mlflow.perturb.english import (
    cut,
    firm_numbers,
    has_name,
    missing_names,
    names,
    negations,
    number_words,
    numbers,
    words,
)
from jrh_mlflow.perturb.unwrapping import foreign_line, unwrapped
from jrh_mlflow.text import clean_text

_MADE = (
    r"(?:re-?writ\w+|re-?phras\w+|re-?word\w+|paraphras\w+|revis\w+|expand\w+|elaborat\w+|longer|short\w+"
    r"|condens\w+|compress\w+)"
)
_HERE = r"(?:here(?:['’]s| is| are)|below is|this is|the following is)\b"
_REWRITING = (
    rf"{_HERE}[^.\n]{{0,40}}\b(?:{_MADE}|edited|modified)\b",
    r"(?:the )?(?:edited|rewritten|revised|modified)\s*(?:message|text|version|response)\s*\W{0,3}:",
    r"i(?:['’]ve| have) (?:now )?(?:edited|rewritten|modified) (?:the|this) (?:message|text|response)\b",
)
_WRAPPED = "wrapped in a code fence or in JSON"
_MOST_LISTED = 60
"""More than `cut` leaves room for, whatever they are."""


def differs(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag a text that is the original, case and whitespace aside."""
    same = text.casefold().split() == target.original.casefold().split()
    return "same text as the original" if same else None


def same_words(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag a text that is not equal to the original once whitespace is normalised."""
    before, after = target.original.split(), text.split()
    if before == after:
        return None
    place = next((i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), None)
    if place is None:
        return f"words changed: {len(before)} before, {len(after)} now"
    return f"words changed, first at word {place + 1}: {cut(after[place])}"


def not_empty(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag a text without a single letter or digit."""
    return None if any(map(str.isalnum, text)) else "empty text"


def no_wrapping(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag a code fence or JSON around a text, and a first or last line that is not in the form of the original."""
    if unwrapped(text, target.original) != text.strip():
        return _WRAPPED
    return foreign_line(text, target.original)


def about_the_editing(original: str, text: str, *, data: bool = False) -> str | None:
    """Flag a message of a transcript that is wrapped, or opens with talk of its own rewriting.

    What a tool returns may be `data`, so it may be JSON or code where the original was not.
    """
    opening = _opening(text.strip(), original)
    if opening:
        return f"opening remark of the generator: {cut(opening)}"
    if not data and unwrapped(text, original) != text.strip():
        return _WRAPPED
    return None


def _opening(text: str, original: str) -> str | None:
    """Return the talk of rewriting at the opening of a text, where the original does not open so."""
    text, original = (shape.lstrip("*_#> \t\n") for shape in (text, original))
    hits = (re.match(shape, text, re.I) for shape in _REWRITING if not re.match(shape, original, re.I))
    return next((hit.group() for hit in hits if hit), None)


def keeps_all_numbers(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag numbers that were lost; `1,000` is 1000, `three` is 3, and `one` may be a pronoun."""
    lost = firm_numbers(target.original) - numbers(text) - number_words(text)
    return f"numbers lost: {_list(lost)}" if lost else None


def keeps_numbers(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag numbers that were lost or are new."""
    # Digits may become words and words digits: either is the same number.
    new = firm_numbers(text) - numbers(target.original) - number_words(target.original)
    parts = (keeps_all_numbers(target, text, context), f"new numbers: {_list(new)}" if new else None)
    return "; ".join(filter(None, parts)) or None


def keeps_names(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag capitalised names and acronyms of the original that no longer occur."""
    # The shortest are told first, and no more of them than a line holds.
    lost = list(islice(missing_names(text, sorted(names(target.original), key=_short_first)), _MOST_LISTED))
    return f"names lost: {_list(lost)}" if lost else None


def keeps_answers(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag answers a judge may give that the original names and the text does not."""
    lost = [name for name in target.labels.answers if has_name(target.original, name) and not has_name(text, name)]
    return f"answers no longer named: {_list(lost)}" if lost else None


def keeps_negations(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag a lost or an added `not`.

    `cannot`, `can't` and `unable to` are alike. Of four or more negations one in four may go or come, because long
    texts have them in turns of phrase.
    """
    # Each text is counted beside the other's words: `unhappy` is a negation only where the other says `happy`.
    low, high = negations(target.original, {word.lower() for word in words(text)})
    new_low, new_high = negations(text, {word.lower() for word in words(target.original)})
    slack = low // 4
    if new_high + slack < low:
        return f"negations lost: {low} before, {new_high} now"
    if new_low > high + slack:
        return f"negations added: {high} before, {new_low} now"
    return None


def length_ratio(low: float, high: float) -> Check:
    """Make a check that the text has from `low` to `high` times the original's words."""
    if not 0 <= low <= high:
        raise ValueError(f"`0 <= low <= high` must hold, but got {low=}, {high=}.")

    def check(target: Target, text: str, context: CheckContext) -> str | None:
        before, after = len(words(target.original)), len(words(text))
        if before and low <= after / before <= high:
            return None
        ratio = f"{after / before:.2f}" if before else "undefined"
        return f"length ratio {ratio} outside {low:g} to {high:g}: {before} words before, {after} now"

    return check


def similar(low: float, high: float) -> Check:
    """Make a check that the similarity with the original lies in a band: below is off the subject, above an echo."""
    if not 0 <= low <= high <= 1:
        raise ValueError(f"`0 <= low <= high <= 1` must hold, but got {low=}, {high=}.")

    def check(target: Target, text: str, context: CheckContext) -> str | None:
        value = context.similarity.between(target.original, text)
        if low <= value <= high:
            return None
        return f"similarity {value:.2f} with the original outside {low:g} to {high:g} ({context.similarity.name})"

    return check


def unlike_earlier(high: float, *, examples: float | None = None) -> Check:
    """Make a check that a text is at most `high` like those made before it, and at most so like its examples."""
    limits = (high, high if examples is None else examples)
    if not all(0 <= limit <= 1 for limit in limits):
        raise ValueError(f"`0 <= high <= 1` must hold, but got {high=}, {examples=}.")

    def check(target: Target, text: str, context: CheckContext) -> str | None:
        seen = ((context.earlier, "an earlier text of its bucket"), (target.examples, "an example"))
        for (others, what), limit in zip(seen, limits, strict=True):
            value = max((context.similarity.between(other, text) for other in others), default=0.0)
            if value > limit:
                return f"similarity {value:.2f} with {what}, above {limit:g} ({context.similarity.name})"
        return None

    return check


def _list(values: Iterable[str]) -> str:
    return cut(", ".join(sorted(values, key=_short_first)))


def _short_first(value: str) -> tuple[int, str]:
    return len(value), value


REWRITTEN: tuple[Check, ...] = (not_empty, differs)
"""What holds of every text that was written in place of another; that it is bare is seen to for every writer."""


LEAST_WORDS, MOST_WORDS = "Fewest words, as a multiple of the original's.", "Most words, as a multiple of them."
LEAST_ALIKE = "Least similarity with the original: below, it is off the subject."
MOST_ALIKE = "Most similarity with the original: above, it is an echo."


@dataclass(frozen=True, kw_only=True)
class BandedRewrite(Rewrite):
    """A rewrite whose text must have so many words, and be so like the original, besides what its `rules` say."""

    min_length: float = parameter(0.5, LEAST_WORDS)
    max_length: float = parameter(2.0, MOST_WORDS)
    min_similarity: float = parameter(0.1, LEAST_ALIKE)
    max_similarity: float = parameter(0.97, MOST_ALIKE)

    rules: ClassVar[tuple[Check, ...]]

    def __post_init__(self) -> None:
        check_band("length", self.min_length, self.max_length)
        check_band("similarity", self.min_similarity, self.max_similarity, most=1.0)
        bands = (length_ratio(self.min_length, self.max_length), similar(self.min_similarity, self.max_similarity))
        # Frozen, but the bands of a test are only known once its parameters are.
        object.__setattr__(self, "checks", (*self.rules, *bands))


def check_band(of: str, low: float, high: float, *, most: float = float("inf")) -> None:
    """Refuse limits that nothing lies between.

    Raises:
        ValueError: stating the rule and the values.
    """
    if not 0 <= low <= high <= most:
        ends = "" if most == float("inf") else f" <= {most:g}"
        got = f"min_{of}={low:g}, max_{of}={high:g}"
        raise ValueError(f"`0 <= min_{of} <= max_{of}{ends}` must hold, but got {got}.")


T = TypeVar("T")

Vector = NDArray[np.float64]
Embed = Callable[[Sequence[str]], Any]
"""Texts in, one row of numbers per text out: a list of lists, an array, a tensor."""

_TOKENS = r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]|\w+"
_BATCH = 256
"""Texts that are compared at once: so many rows of the product are held in memory."""
_ROUNDING = 1e-9
_MAX_CACHED = 4096
_MAX_WORDS = 65_536


def _remembered(compute: Callable[[str], T], size: int) -> Callable[[str], T]:
    """Keep the values of the texts used last; safe to share between threads."""
    if size < 1:
        raise ValueError(f"`max_cached >= 1` must hold, but got {size}.")
    return lru_cache(size)(compute)


class TfidfSimilarity(Similarity):
    """Cosine of TF-IDF vectors, fitted once on a corpus: rare words weigh more than the words everybody uses.

    Half of the weight are words, half are character n-grams, so that `explain` and `explained` are near. A word that
    the corpus lacks weighs as a rare one, so a text of such words is not mistaken for a short one. Texts without any
    feature are alike when they are equal.
    """

    name = "tfidf"

    def __init__(self, corpus: Sequence[str], *, max_cached: int = _MAX_CACHED) -> None:
        self._weights = _remembered(_Tfidf([clean_text(text) for text in corpus] or [""]).weights, max_cached)

    def between(self, one: str, other: str) -> float:
        """Return the mean cosine over words and character n-grams, from 0 to 1."""
        if one == other:
            return 1.0
        first, second = self._weights(one), self._weights(other)
        kinds = first.kinds | second.kinds
        _, here, there = np.intersect1d(first.features, second.features, assume_unique=True, return_indices=True)
        return _clip(float(first.weights[here] @ second.weights[there]) / len(kinds)) if kinds else 0.0


class _Weights(NamedTuple):
    """The features of one text, in order, and their weights: of unit length for each kind there is."""

    features: NDArray[np.intp]
    weights: Vector
    kinds: frozenset[int]


class _Tfidf:
    """Features with the weights of a corpus, by scikit-learn's analyzers and formula.

    `w = (1 + ln count) (1 + ln((1 + n) / (1 + df)))`, of unit length. Not its sparse matrices: they are made for many
    texts at once, and take four times as long for one.
    """

    def __init__(self, corpus: Sequence[str]) -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        kinds = ({"analyzer": "word"}, {"analyzer": "char_wb", "ngram_range": (3, 4)})
        self._analyzers = [CountVectorizer(**how).build_analyzer() for how in kinds]
        # Words have even numbers, character n-grams odd ones.
        self._numbers: list[defaultdict[str, int]] = [defaultdict(count(kind, 2).__next__) for kind in (0, 1)]
        self._numbering = Lock()
        # No feature spans a space, and words come again and again: each is taken apart once.
        self._features = lru_cache(_MAX_WORDS)(self._take_apart)
        in_texts = np.bincount(np.concatenate([self._counts(text)[0] for text in corpus]))
        self._idf = 1 + np.log((1 + len(corpus)) / (1 + in_texts))
        self._unseen = 1 + math.log(1 + len(corpus))

    def weights(self, text: str) -> _Weights:
        features, counts = self._counts(clean_text(text))
        n_known = int(np.searchsorted(features, len(self._idf)))
        idf = np.full(len(features), self._unseen)
        idf[:n_known] = self._idf[features[:n_known]]
        weights = idf * (1 + np.log(counts))
        kind = features % 2
        squares = np.bincount(kind, weights=weights**2, minlength=2)
        return _Weights(features, weights / np.sqrt(squares)[kind], frozenset(np.flatnonzero(squares).tolist()))

    def _counts(self, text: str) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        words = text.split() or [""]
        return np.unique(np.concatenate([self._features(word) for word in words]), return_counts=True)

    def _take_apart(self, word: str) -> NDArray[np.intp]:
        with self._numbering:
            pairs = zip(self._analyzers, self._numbers, strict=True)
            return np.array([known[feature] for analyze, known in pairs for feature in analyze(word)], dtype=np.intp)


class EmbeddingSimilarity(Similarity):
    """Cosine of an embedding model's vectors; opposite directions count as 0."""

    def __init__(self, embed: Embed, *, name: str = "embedding", max_cached: int = _MAX_CACHED) -> None:
        self.name = name
        self._embed = embed
        self._vector_of = _remembered(self._vector, max_cached)
        self._width: int | None = None

    def between(self, one: str, other: str) -> float:
        """Return the cosine of the two embeddings, from 0 to 1.

        Raises:
            JudgeError: when the model returns anything but one finite vector per text.
        """
        first, second = self._vector_of(one), self._vector_of(other)
        norms = float(np.linalg.norm(first) * np.linalg.norm(second))
        return _clip(float(first @ second) / norms) if norms else float(one == other)

    def _vector(self, text: str) -> Vector:
        try:
            rows: Vector = np.asarray(self._embed([text]), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise JudgeError(f"Embedding model {self.name!r} did not return rows of numbers: {error}.") from error
        if rows.ndim != 2 or rows.shape[0] != 1 or rows.shape[1] < 1:
            raise JudgeError(f"Embedding model {self.name!r} must return shape (1, d) for 1 text, not {rows.shape}.")
        if not np.isfinite(rows).all():
            raise JudgeError(f"Embedding model {self.name!r} returned NaN or infinity for a text of {len(text)} chars.")
        # A cosine between two models' spaces would be a number without a meaning.
        if self._width not in (None, rows.shape[1]):
            raise JudgeError(
                f"Embedding model {self.name!r} returned {rows.shape[1]} dimensions after {self._width} before."
            )
        self._width = rows.shape[1]
        return rows.reshape(-1)


class Twin(NamedTuple):
    """A text that is like another."""

    name: str
    value: float
    """The cosine."""


class Corpus:
    """Many texts, with which others are compared in one sparse product per batch: TF-IDF of scikit-learn.

    Words are hashed, so that a word which no text holds weighs as a rare one; scripts without spaces by character.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

        self._names = list(texts)
        self._hashed = HashingVectorizer(token_pattern=_TOKENS, norm=None, alternate_sign=False)
        self._weighed = TfidfTransformer(sublinear_tf=True)
        counts = self._hashed.transform([clean_text(text) for text in texts.values()] or [""])
        self._texts = self._weighed.fit_transform(counts).T.tocsr()

    def twins(self, texts: Sequence[str], *, above: float) -> list[list[Twin]]:
        """Return for each text those that are more like it than `above`, in the order of the corpus."""
        found: list[list[Twin]] = []
        for start in range(0, len(texts), _BATCH):
            batch = self._hashed.transform([clean_text(text) for text in texts[start : start + _BATCH]])
            cosines = (self._weighed.transform(batch) @ self._texts).tocoo()
            rows: list[list[Twin]] = [[] for _ in range(batch.shape[0])]
            near = cosines.data > above + _ROUNDING
            for column, row, value in sorted(
                zip(cosines.col[near], cosines.row[near], cosines.data[near], strict=True)
            ):
                rows[row].append(Twin(self._names[column], _clip(float(value))))
            found += rows
        return found


def as_similarity(spec: object, corpus: Sequence[str]) -> Similarity:
    """Resolve what a user may give: None or `"tfidf"`, a `Similarity`, or an embedding function.

    Raises:
        RecipeError: for anything else.
    """
    if spec is None or spec == "tfidf":
        return TfidfSimilarity(corpus)
    if isinstance(spec, Similarity):
        return spec
    if callable(spec):
        return EmbeddingSimilarity(spec, name=getattr(spec, "__name__", type(spec).__name__))
    raise RecipeError(f"Unknown similarity {spec!r}. Give 'tfidf', a Similarity, or a function from texts to vectors.")


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))
