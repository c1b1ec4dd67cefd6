"""What to do about a judge that does not fit a suite: a grader of single responses on pairs, or the other way round."""

from __future__ import annotations

APART = (
    '`jrh.pointwise(judge)` scores the two responses of a pair apart; suite="pointwise-datasheet" has single '
    "responses; `jrh generate` makes a suite of your own."
)
"""For a judge that grades one response, on a suite of pairs."""
PAIRED = 'Pairs are in suite="datasheet"; a judge of single responses gives the answers that the suite asks for.'
"""For a judge that compares two, on a suite of single responses."""
