"""Whatever a writer wraps around its text is taken off, or the text is set aside; what is honest stays as it is."""

from __future__ import annotations

import pytest

from jrh_mlflow.perturb.unwrapping import Unwrapped, unwrap
from tests.perturb.misbehaving import BRIEF, HONEST, PAIRS, UNWRAP, WAYS, Pair, Way


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.category}, {way.shape}: {way.template[:40]!r}")
def test_each_way_to_misbehave_ends_as_it_must(way: Way) -> None:
    pair = PAIRS[way.shape]
    done = unwrap(way.returned(pair), pair.original, brief=BRIEF)
    if way.happens == UNWRAP:
        assert (done.text, done.problem) == (pair.rewrite, None)
        assert done.layers
    else:
        assert (done.problem or "").startswith(way.happens)


@pytest.mark.parametrize("shape", PAIRS)
def test_no_way_leaks_whatever_the_original_is(shape: str) -> None:
    """Every way is tried on a third of the originals, in turns."""
    pair, leaks, place = PAIRS[shape], [], list(PAIRS).index(shape)
    for way in WAYS[place % 3 :: 3]:
        done = unwrap(way.returned(pair), pair.original, brief=BRIEF)
        if done.problem is None and done.text != pair.rewrite:
            leaks.append((way.template, done.text))
    assert not leaks


@pytest.mark.parametrize("pair", HONEST, ids=lambda pair: pair.rewrite[:40])
def test_an_honest_rewrite_passes_unchanged_however_it_looks(pair: Pair) -> None:
    assert unwrap(pair.rewrite, pair.original, brief=BRIEF) == Unwrapped(text=pair.rewrite)


def test_there_are_ways_and_honest_rewrites_enough() -> None:
    assert len({(way.template, way.shape) for way in WAYS}) == len(WAYS) > 200
    assert len({way.template for way in WAYS}) > 200
    assert len(HONEST) > 60
