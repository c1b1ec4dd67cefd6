"""Optimisers of known worth on simulated splits of labelled traces, and what an alignment says of each.

Every split draws traces anew. A trace has a chance of its own that the judge agrees with people on it (beta-distributed
around the judge's accuracy), so judges tend to fail on the same traces. What an optimiser makes of the judge is then
drawn for the training traces and for the held-out ones, which alone decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from jrh_mlflow.people.alignment.held_out import BETTER, DECISIONS, SENT_BACK, AlignDecision, align_decisions
from jrh_mlflow.show.tables import Column, Table
from jrh_mlflow.stats import Array, Mask
from tests.validation.loop import ALPHA, Batch, Part, Rng, Simulation, filled, listed

_SPREAD = 4.0
"""Of the traces' chances: the sum of the parameters of their beta distribution."""
_GUESSING = 0.5

Draw = Callable[[Callable[[], Array], Array, Mask], Mask]
"""Chances of the traces and where the judge is right, to where the aligned judge is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Optimiser:
    """One that is simulated, and what must be said of it."""

    name: str
    draw: Draw
    is_nothing: bool = False
    """It must not be called better in more than 5 % of the splits."""
    is_harmful: bool = False
    """It must be sent back in at least 95 % of the splits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitCheck:
    """What was said of one optimiser over many splits of one size."""

    optimiser: str
    accuracy: float
    """Of the judge before."""
    held_out: int
    splits: int
    shares: dict[AlignDecision, float]
    """Decision to the share of splits that came to it."""
    in_training: float
    """Mean difference in agreement where the optimiser learned: what would be reported without held-out traces."""
    truth: float
    """Mean difference in agreement on held-out traces."""
    fails: bool
    """Whether it was called better too often, or sent back too seldom."""

    def __str__(self) -> str:
        """Say it in one line."""
        shares = ", ".join(f"{name} {share:.3f}" for name, share in self.shares.items())
        return f"{self.optimiser}, judge {self.accuracy:g}, {self.held_out} held out: {shares}"


OPTIMISERS = (
    Optimiser(name="does nothing", draw=lambda drawn, chances, right: right, is_nothing=True),
    Optimiser(
        name="does nothing, the judge is noisy", draw=lambda drawn, chances, right: drawn() < chances, is_nothing=True
    ),
    Optimiser(
        name="memorises its training traces", draw=lambda drawn, chances, right: drawn() < _GUESSING, is_harmful=True
    ),
    Optimiser(
        name="mends half of the mistakes", draw=lambda drawn, chances, right: drawn() < np.where(right, 0.98, 0.5)
    ),
)
"""Nothing, chance, a disguise, and the real thing."""
MEMORISING = OPTIMISERS[2].name


@dataclass(frozen=True, kw_only=True, slots=True)
class Splits:
    """Judges and numbers of labelled traces that every optimiser is tried on."""

    traces: Sequence[int] = (100, 200, 400)
    accuracies: Sequence[float] = (0.7, 0.85, 0.95)
    splits: int = 400
    holdout: float = 0.5
    margin: float = 0.05


def _decided(world: Splits, batch: Batch) -> Iterator[SplitCheck]:
    """Try every optimiser with every judge and number of traces; all splits of one at once."""
    # One generator for all, in this order: a design by itself would be drawn otherwise.
    rng = np.random.default_rng(batch.seed)
    for optimiser, accuracy, n in product(OPTIMISERS, world.accuracies, world.traces):
        yield _split_check(world, optimiser, accuracy, n, rng)


def _split_check(world: Splits, optimiser: Optimiser, accuracy: float, n: int, rng: Rng) -> SplitCheck:
    chances = rng.beta(_SPREAD * accuracy, _SPREAD * (1 - accuracy), size=(world.splits, n))
    before = rng.random(chances.shape) < chances
    after = optimiser.draw(lambda: rng.random(chances.shape), chances, before)
    n_held = round(world.holdout * n)
    held, training = (slice(None), slice(n_held)), (slice(None), slice(n_held, None))
    # It knows its training traces by heart, and guesses elsewhere.
    if optimiser.name == MEMORISING:
        after[training] = True
    # Traces that both get right, or both wrong, say nothing about which is better.
    gains, losses = (after[held] & ~before[held]).sum(axis=1), (before[held] & ~after[held]).sum(axis=1)
    words = align_decisions(gains, losses, n_held, margin=world.margin)
    shares = {word: float((words == word).mean()) for word in DECISIONS}
    return SplitCheck(
        optimiser=optimiser.name,
        accuracy=accuracy,
        held_out=n_held,
        splits=world.splits,
        shares=shares,
        in_training=float(after[training].mean() - before[training].mean()),
        truth=float((gains - losses).mean() / n_held),
        fails=(optimiser.is_nothing and shares[BETTER] > ALPHA)
        or (optimiser.is_harmful and shares[SENT_BACK] < 1 - ALPHA),
    )


ALIGNMENTS = Simulation(
    worlds=listed([Splits()], quick=[Splits(traces=(200,))]), ask=_decided, checks=lambda world, checks: checks
)


def _share_of(word: AlignDecision) -> Callable[[SplitCheck], str]:
    return lambda check: f"{check.shares[word]:.3f}"


TABLE: Table[SplitCheck] = Table.of(
    Column("optimiser", filled("optimiser")),
    Column("judge", filled("accuracy", "g")),
    Column("held out", filled("held_out")),
    Column("in training", filled("in_training", "+.3f")),
    Column("held-out truth", filled("truth", "+.3f")),
    *(Column(word, _share_of(word)) for word in DECISIONS),
    Column("verdict", lambda check: "FAILS" if check.fails else "ok"),
)


def _text(checks: Sequence[SplitCheck]) -> str:
    return f"{TABLE(checks).to_text()}\n\n{checks[0].splits} simulated splits per row: how often each was said.\n"


PART = Part(word="alignment", key="alignment", simulations=(ALIGNMENTS,), text=_text)
