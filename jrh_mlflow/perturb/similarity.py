"""How alike two texts are: TF-IDF as the default, any embedding model behind the same small interface.

A limit on similarity tells an echo from a rewrite and a rewrite from another subject. It cannot certify meaning.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import count
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.perturb._base import Similarity
from jrh_mlflow.text import clean_text

T = TypeVar("T")

Vector = NDArray[np.float64]
Embed = Callable[[Sequence[str]], Any]
"""Texts in, one row of numbers per text out: a list of lists, an array, a tensor."""

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
            return np.array([known[each] for analyze, known in pairs for each in analyze(word)], dtype=np.intp)


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
        if self._width not in (None, rows.shape[1]):
            raise JudgeError(
                f"Embedding model {self.name!r} returned {rows.shape[1]} dimensions after {self._width} before."
            )
        self._width = rows.shape[1]
        return rows.reshape(-1)


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
