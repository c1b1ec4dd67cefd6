"""How alike two texts are: TF-IDF as the default, any embedding model behind the same small interface.

A limit on similarity tells an echo from a rewrite and a rewrite from another subject. It cannot certify meaning.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.perturb._base import Similarity

Vector = NDArray[np.float64]
_Weights = dict[str, float]
Embed = Callable[[Sequence[str]], Any]
"""Texts in, one row of numbers per text out: a list of lists, an array, a tensor."""

_MAX_CACHED = 4096


class _Cache:
    """Keeps the values of the texts used last; safe to share between threads."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"`max_cached >= 1` must hold, but got {size}.")
        self._size = size
        self._values: OrderedDict[str, Any] = OrderedDict()
        self._lock = Lock()

    def get(self, text: str, compute: Callable[[], Any]) -> Any:
        with self._lock:
            if text in self._values:
                self._values.move_to_end(text)
                return self._values[text]
        value = compute()
        with self._lock:
            self._values[text] = value
            while len(self._values) > self._size:
                self._values.popitem(last=False)
        return value


class TfidfSimilarity(Similarity):
    """Cosine of TF-IDF vectors, fitted once on a corpus: rare words weigh more than the words everybody uses.

    Half of the weight are words, half are character n-grams, so that `explain` and `explained` are near. A word that
    the corpus lacks weighs as a rare one, so a text of such words is not mistaken for a short one. Texts without any
    feature are alike when they are equal.
    """

    name = "tfidf"

    def __init__(self, corpus: Sequence[str], *, max_cached: int = _MAX_CACHED) -> None:
        texts = [_encodable(text) for text in corpus] or [""]
        self._parts = [_Tfidf(texts, analyzer="word"), _Tfidf(texts, analyzer="char_wb", ngram_range=(3, 4))]
        self._cache = _Cache(max_cached)

    def between(self, one: str, other: str) -> float:
        """Return the mean cosine over words and character n-grams, from 0 to 1."""
        if one == other:
            return 1.0
        pairs = zip(self._vectors(one), self._vectors(other), strict=True)
        cosines = [_cosine(first, second) for first, second in pairs if first or second]
        return _clip(sum(cosines) / len(cosines)) if cosines else 0.0

    def _vectors(self, text: str) -> list[_Weights]:
        found: list[_Weights] = self._cache.get(text, lambda: [part.vector(_encodable(text)) for part in self._parts])
        return found


class _Tfidf:
    """One kind of feature, with the weights of a corpus: scikit-learn's analyzers and its formula.

    `w = (1 + ln count) (1 + ln((1 + n) / (1 + df)))`, of unit length. Not its sparse matrices: they are made for many
    texts at once, and take four times as long for one.
    """

    def __init__(self, corpus: Sequence[str], **how: Any) -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        self._analyze = CountVectorizer(**how).build_analyzer()
        in_texts = Counter(feature for text in corpus for feature in set(self._analyze(text)))
        self._idf = {feature: 1 + math.log((1 + len(corpus)) / (1 + df)) for feature, df in in_texts.items()}
        self._unseen = 1 + math.log(1 + len(corpus))

    def vector(self, text: str) -> _Weights:
        idf, unseen = self._idf, self._unseen
        weights = {
            feature: idf.get(feature, unseen) * (1.0 if count == 1 else 1 + math.log(count))
            for feature, count in Counter(self._analyze(text)).items()
        }
        length = math.hypot(*weights.values())
        return {feature: weight / length for feature, weight in weights.items()}


def _cosine(first: _Weights, second: _Weights) -> float:
    return sum([first[feature] * second[feature] for feature in first.keys() & second.keys()])


def _encodable(text: str) -> str:
    """Replace lone surrogates, which cannot be hashed."""
    return text.encode("utf-8", "replace").decode("utf-8")


class EmbeddingSimilarity(Similarity):
    """Cosine of an embedding model's vectors; opposite directions count as 0."""

    def __init__(self, embed: Embed, *, name: str = "embedding", max_cached: int = _MAX_CACHED) -> None:
        self.name = name
        self._embed = embed
        self._cache = _Cache(max_cached)
        self._width: int | None = None

    def between(self, one: str, other: str) -> float:
        """Return the cosine of the two embeddings, from 0 to 1.

        Raises:
            JudgeError: when the model returns anything but one finite vector per text.
        """
        first, second = (self._cache.get(text, partial(self._vector, text)) for text in (one, other))
        norms = float(np.linalg.norm(first) * np.linalg.norm(second))
        return _clip(float(first @ second) / norms) if norms else float(one == other)

    def _vector(self, text: str) -> Vector:
        rows = self._rows([text])
        if rows.ndim != 2 or rows.shape[0] != 1 or rows.shape[1] < 1:
            raise JudgeError(f"Embedding model {self.name!r} must return shape (1, d) for 1 text, not {rows.shape}.")
        if not np.isfinite(rows).all():
            raise JudgeError(f"Embedding model {self.name!r} returned NaN or infinity for a text of {len(text)} chars.")
        if self._width not in (None, rows.shape[1]):
            raise JudgeError(
                f"Embedding model {self.name!r} returned {rows.shape[1]} dimensions after {self._width} before."
            )
        self._width = rows.shape[1]
        vector: Vector = rows[0]
        return vector

    def _rows(self, texts: Sequence[str]) -> Vector:
        try:
            return np.asarray(self._embed(texts), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise JudgeError(f"Embedding model {self.name!r} did not return rows of numbers: {error}.") from error


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
