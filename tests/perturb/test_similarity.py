"""Similarity tells echo, rewrite and other subject apart, and survives any text."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.perturb.checks import EmbeddingSimilarity, TfidfSimilarity, as_similarity
from tests.examples import up_to
from tests.perturb.rewrite_tools import TEXTS, TFIDF


def test_a_text_is_wholly_like_itself_and_hardly_like_another_subject():
    assert TFIDF.between(TEXTS[0], TEXTS[0]) == 1.0
    assert TFIDF.between(TEXTS[1], TEXTS[2]) < 0.15


def test_similarity_is_the_same_both_ways():
    assert TFIDF.between(TEXTS[0], TEXTS[1]) == pytest.approx(TFIDF.between(TEXTS[1], TEXTS[0]))


def test_words_the_corpus_lacks_count_against_a_text():
    alone = TFIDF.between("red lentils", "red lentils with xylophones")
    among_strangers = TFIDF.between("red lentils", "red lentils with xylophones, quasars, zithers and gherkins")
    assert among_strangers < alone < 1


@pytest.mark.parametrize(
    "corpus", [[], [""], ["", ""], ["the of and"], ["a"], ["…"], ["one document only"], ["\ud800"]]
)
def test_degenerate_corpora_do_not_raise(corpus):
    similarity = TfidfSimilarity(corpus)
    assert similarity.between("soup", "soup") == 1.0
    assert similarity.between("red soup", "blue sky") < 0.2
    assert 0.2 < similarity.between("red soup is good", "red soup was good") < 1


@pytest.mark.parametrize(("one", "other", "value"), [("", "", 1.0), ("", " ", 0.0), ("", "soup", 0.0), ("…", "…", 1.0)])
def test_texts_without_features_are_alike_only_when_equal(one, other, value):
    assert TfidfSimilarity(TEXTS).between(one, other) == value


@settings(max_examples=up_to(60), deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_tfidf_stays_from_zero_to_one_on_any_text(one, other):
    assert 0.0 <= TFIDF.between(one, other) <= 1.0


class Letters:
    """An embedding of letter counts that counts its calls."""

    def __init__(self):
        self.n_calls = 0

    def __call__(self, texts):
        self.n_calls += 1
        return [[text.count("a"), text.count("b"), -text.count("c")] for text in texts]


def test_an_embedding_gives_the_cosine_clipped_at_zero():
    similarity = EmbeddingSimilarity(Letters(), name="letters")
    assert similarity.name == "letters"
    assert similarity.between("a", "ab") == pytest.approx(math.sqrt(0.5))
    assert similarity.between("aa", "a") == pytest.approx(1.0)
    assert EmbeddingSimilarity(lambda texts: [[1.0 if text == "x" else -1.0] for text in texts]).between("x", "y") == 0


def test_embeddings_without_length_are_alike_only_for_equal_texts():
    similarity = EmbeddingSimilarity(Letters())
    assert similarity.between("x", "x") == 1.0
    assert similarity.between("x", "y") == 0.0


def test_a_text_is_embedded_once_while_it_is_cached():
    embed = Letters()
    similarity = EmbeddingSimilarity(embed, max_cached=2)
    for _ in range(3):
        similarity.between("a", "b")
    assert embed.n_calls == 2
    similarity.between("c", "b")
    assert embed.n_calls == 3
    similarity.between("b", "a")
    assert embed.n_calls == 4, "the bound of two pushed out the text used longest ago, and only that"
    with pytest.raises(ValueError, match="max_cached >= 1"):
        EmbeddingSimilarity(embed, max_cached=0)


@pytest.mark.parametrize(
    ("embed", "message"),
    [
        (lambda texts: [1.0, 2.0], r"shape \(1, d\).*\(2,\)"),
        (lambda texts: [[1.0], [2.0]], r"shape \(1, d\).*\(2, 1\)"),
        (lambda texts: [[]], r"shape \(1, d\)"),
        (lambda texts: [[float("nan"), 1.0]], "NaN or infinity"),
        (lambda texts: np.array([[np.inf]]), "NaN or infinity"),
        (lambda texts: [["x"]], "rows of numbers"),
        (lambda texts: None, r"shape \(1, d\)"),
        (lambda texts: [[1.0] * len(texts[0])], "2 dimensions after 1"),
    ],
)
def test_a_model_that_returns_no_vector_is_an_error_that_says_so(embed, message):
    with pytest.raises(JudgeError, match=message):
        EmbeddingSimilarity(embed, name="m").between("a", "bb")


def test_a_similarity_may_be_given_by_name_as_it_is_or_as_a_function():
    given_one = EmbeddingSimilarity(Letters())
    assert isinstance(as_similarity(None, TEXTS), TfidfSimilarity)
    assert isinstance(as_similarity("tfidf", TEXTS), TfidfSimilarity)
    assert as_similarity(given_one, TEXTS) is given_one
    assert as_similarity(Letters(), TEXTS).name == "Letters"


@pytest.mark.parametrize("spec", ["tf-idf", 3, ["tfidf"]])
def test_anything_else_is_refused(spec):
    with pytest.raises(RecipeError, match="Unknown similarity"):
        as_similarity(spec, TEXTS)


def test_weights_are_those_of_scikit_learn():
    from sklearn.feature_extraction.text import TfidfVectorizer

    corpus = ["the cat sat on the mat", "a dog sat on the log log", "cats and dogs, and more dogs"]
    rows = [
        TfidfVectorizer(sublinear_tf=True, **how).fit_transform(corpus)
        for how in ({"analyzer": "word"}, {"analyzer": "char_wb", "ngram_range": (3, 4)})
    ]
    ours = TfidfSimilarity(corpus)
    for first in range(3):
        for second in range(3):
            cosines = [(row[first] @ row[second].T).toarray()[0, 0] for row in rows]
            assert ours.between(corpus[first], corpus[second]) == pytest.approx(sum(cosines) / 2)
