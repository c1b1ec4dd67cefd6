"""Optimisers of known worth on simulated splits of labelled traces, and what is said of each.

Every split draws traces anew. A trace has a chance of its own that the judge agrees with people on
it (beta-distributed around the judge's accuracy), so judges tend to fail on the same traces. What
an optimiser makes of the judge is then drawn for the training traces and for the held-out ones,
which alone decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from jrh_mlflow.people.alignment.held_out import BETTER, DECISIONS, SENT_BACK, align_decisions
from tests.validation.loop import ALPHA, Part, Simulation, check_share

_SPREAD = 4.0
"""Of the traces' chances: the sum of the parameters of their beta distribution."""
_MARGIN = 0.05
NOTHING = "does nothing"
NOISE = "does nothing, the judge is noisy"
MEMORISING = "memorises its training traces"
MENDING = "mends half of the mistakes"
OPTIMISERS = (NOTHING, NOISE, MEMORISING, MENDING)


def _aligned(optimiser, chances, before, rng):
    """Return on which traces the aligned judge is right; the first half is held out."""
    if optimiser == NOTHING:
        return before
    drawn = rng.random(chances.shape)
    if optimiser == NOISE:
        return drawn < chances
    if optimiser == MENDING:
        return drawn < np.where(before, 0.98, 0.5)
    # It knows its training traces by heart, and guesses elsewhere.
    after = drawn < 0.5
    after[:, _n_held_out(chances) :] = True
    return after


def _n_held_out(chances):
    return round(chances.shape[1] / 2)


@dataclass(frozen=True, kw_only=True)
class Splits:
    """Judges and numbers of labelled traces that every optimiser is tried on."""

    traces: tuple[int, ...] = (100, 200, 400)
    accuracies: tuple[float, ...] = (0.7, 0.85, 0.95)
    splits: int = 400


def _run_splits(world, batch):
    """Try every optimiser with every judge and number of traces; all splits of one at once."""
    # One generator for all, in this order: a design by itself would be drawn otherwise.
    rng = np.random.default_rng(batch.seed)
    for optimiser, accuracy, n in product(OPTIMISERS, world.accuracies, world.traces):
        yield _decided(world, optimiser, accuracy, n, rng)


def _decided(world, optimiser, accuracy, n, rng):
    shape = (world.splits, n)
    chances = rng.beta(_SPREAD * accuracy, _SPREAD * (1 - accuracy), size=shape)
    before = rng.random(shape) < chances
    after = _aligned(optimiser, chances, before, rng)
    n_held = _n_held_out(chances)
    # Traces that both get right, or both wrong, do not show which is better.
    gains = (after & ~before)[:, :n_held].sum(axis=1)
    losses = (before & ~after)[:, :n_held].sum(axis=1)
    decisions = align_decisions(gains, losses, n_held, margin=_MARGIN)
    runs = pd.DataFrame({decision: decisions == decision for decision in DECISIONS})
    # What would be reported without held-out traces, and what is true.
    runs["in training"] = after[:, n_held:].mean(axis=1) - before[:, n_held:].mean(axis=1)
    runs["held-out truth"] = (gains - losses) / n_held
    return {"design": f"{optimiser}, judge {accuracy:g}, {n_held} held out", "splits": runs}


def _checks(world, runs):
    """Nothing is seldom called better, and memorising is sent back."""
    for design, splits in zip(runs["design"], runs["splits"], strict=True):
        beside = (*DECISIONS, "in training", "held-out truth")
        facts = {"beside": beside, "error": 0.0}
        if design.startswith(MEMORISING):
            yield check_share(SENT_BACK, design, splits, SENT_BACK, at_least=1 - ALPHA, **facts)
        else:
            at_most = None if design.startswith(MENDING) else ALPHA
            yield check_share(f"called {BETTER}", design, splits, BETTER, at_most=at_most, **facts)


ALIGNMENTS = Simulation(
    worlds=[Splits()], quick=[Splits(traces=(200,))], run=_run_splits, checks=_checks
)
PART = Part(word="alignment", simulations=(ALIGNMENTS,))
