"""Whatever a writer wraps around its text is taken off, or the text is set aside; what is honest stays as it is."""

from __future__ import annotations

import pytest

from jrh_mlflow.perturb.unwrapping import Unwrapped, unwrap
from tests.perturb.misbehaving import BRIEF, HONEST, PAIRS, UNWRAP, WAYS


@pytest.mark.parametrize("category", dict.fromkeys(way.category for way in WAYS))
def test_each_way_to_misbehave_ends_as_it_must(category: str) -> None:
    for way in (way for way in WAYS if way.category == category):
        pair = PAIRS[way.shape]
        done = unwrap(way.returned(pair), pair.original, brief=BRIEF)
        if way.happens == UNWRAP:
            assert (done.text, done.problem) == (pair.rewrite, None), way
            assert done.layers, way
        else:
            assert (done.problem or "").startswith(way.happens), way


@pytest.mark.parametrize("shape", PAIRS)
def test_no_way_leaks_whatever_the_original_is(shape: str) -> None:
    """Every way is tried on two or three of the originals, in turns."""
    pair, leaks, place = PAIRS[shape], [], list(PAIRS).index(shape)
    for way in WAYS[place % 6 :: 6]:
        done = unwrap(way.returned(pair), pair.original, brief=BRIEF)
        if done.problem is None and done.text != pair.rewrite:
            leaks.append((way.template, done.text))
    assert not leaks


def test_an_honest_rewrite_passes_unchanged_however_it_looks() -> None:
    for pair in HONEST:
        assert unwrap(pair.rewrite, pair.original, brief=BRIEF) == Unwrapped(text=pair.rewrite)


def test_there_are_ways_and_honest_rewrites_enough() -> None:
    assert len({(way.template, way.shape) for way in WAYS}) == len(WAYS) > 200
    assert len({way.template for way in WAYS}) > 200
    assert len(HONEST) > 60
