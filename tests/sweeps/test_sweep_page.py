"""The page of a sweep: what its table and its map say."""

from __future__ import annotations

import re

import pytest

from tests.sweeps.test_sweep_markdown import dot, page_of

pytestmark = pytest.mark.drawn


def test_only_what_was_measured_again_is_tied_with_the_best_or_not() -> None:
    dots = [
        dot("best", 0.9, 0.3, tied=True),
        dot("worse", 0.7, 0.2),
        dot("searched", 0.6, 0.1, held_out=False),
    ]
    told = re.findall(r'<td[^>]*>([^<]*)</td>\s*<td data-head="run" class="mono">(\w+)', page_of(dots))
    assert {run: tie.partition(" (")[0] for tie, run in told} == {"best": "yes", "worse": "no", "searched": "–"}


def test_both_axes_of_the_map_are_named() -> None:
    page = page_of([dot("best", 0.9, 0.3)])
    drawn = page[page.index("<svg") : page.index("</svg>")]
    assert ">reliability</text>" in drawn
    assert ">dollars per 1,000 judgments" in drawn
