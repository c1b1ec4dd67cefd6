"""Self-preference: is a planted bonus of own answers read, and none where there is none?

Qualities of pairs differ with a standard deviation of 1.5; judges add noise, a pull of the slot and their bonus.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from jrh_mlflow.comparing.answer_pairs import JUDGE, LABEL
from jrh_mlflow.comparing.self_preference import read_excess
from jrh_mlflow.schema.estimates import Estimate
from tests.validation import loop

SPREAD = 1.5
_BETTER = 1.0
_OPINION = 1.0
_TIES = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Bonus:
    """A planted bonus, and who judges: each the author of the first answer (1), of the second (−1) or of neither."""

    judges: tuple[int, ...]
    bonus: float
    items: int = 100
    people: int = 0
    """Who label each pair with noise of their own."""
    departure: str = ""
    """From what the reading assumes, or from authors who are equally good."""

    def __str__(self) -> str:
        """Name the design."""
        counts = {"author": sum(map(abs, self.judges)), "outsider": self.judges.count(0), "label": self.people}
        who = ", ".join(f"{count} {name}{'s' * (count > 1)}" for name, count in counts.items() if count)
        departure = f", {self.departure}" if self.departure else ""
        return f"{who}, {self.items} items, bonus {self.bonus:g}{departure}"

    def draw(self, rng: loop.Rng) -> pd.DataFrame:
        """Return judgments; `own` is the stake of whoever gave each."""
        quality = rng.normal(_BETTER if self.departure == "the first author is better" else 0.0, SPREAD, self.items)
        items, rows = np.arange(self.items), []
        raters = [(f"judge {at}", JUDGE, own) for at, own in enumerate(self.judges)]
        raters += [(f"label {at}", LABEL, 0) for at in range(self.people)]
        for name, kind, own in raters:
            pull = rng.normal(0, 0.5) if kind == JUDGE else 0.0
            opinion = rng.normal(0, _OPINION, self.items) if self.departure == "judges have opinions" else 0.0
            for order, slot in (("uv", 1), ("vu", -1)) if kind == JUDGE else (("", 0),):
                odds = quality + opinion + self.bonus * own + pull * slot
                scores = (rng.random(self.items) < expit(odds)).astype(float)
                if self.departure == "a fifth are ties":
                    scores = np.where(rng.random(self.items) < _TIES, 0.5, scores)
                rows.append(
                    pd.DataFrame({"pair": items, "item": items, "score": scores}).assign(
                        first_author="u",
                        second_author="v",
                        rater=name,
                        kind=kind,
                        order=order,
                        outcome="verdict",
                        own=own,
                    )
                )
        frame: pd.DataFrame = pd.concat(rows, ignore_index=True)
        return frame


_DESIGNS: tuple[tuple[tuple[int, ...], int], ...] = (((1, -1, 0), 0), ((1, 0, 0), 0), ((1, -1), 0), ((1,), 1))
_PLANTED = tuple(
    Bonus(judges=judges, people=people, bonus=bonus, items=items)
    for items, (judges, people), bonus in product((40, 100), _DESIGNS, (0.0, 0.5, 1.0))
)
_DEPARTURES = tuple(
    Bonus(judges=(1, -1, 0), bonus=bonus, departure=departure)
    for departure, bonus in product(
        ("the first author is better", "judges have opinions", "a fifth are ties"), (0.0, 1.0)
    )
)


Run = tuple[float, float, float, float]
"""Value and ends of the excess, and how often own answers win by a plain count."""


def _read(world: Bonus, batch: loop.Batch) -> Iterator[Run | None]:
    """Per run: what was read, or nothing where it has no number."""
    rng = batch.rng(world)
    for _ in batch.runs:
        judgments = world.draw(rng)
        reading, staked = read_excess(judgments), judgments[judgments["own"] != 0]
        won = float((staked["score"] - (staked["own"] < 0)).abs().mean())
        ends = reading.cluster_interval if isinstance(reading, Estimate) else None
        yield (reading.value, *ends, won) if isinstance(reading, Estimate) and ends else None


def _checks(world: Bonus, runs: Sequence[Run | None]) -> Iterator[loop.DecisionCheck]:
    """The planted bonus is covered in 93 % of runs; none is reported in more than 5 % where there is none."""
    known = np.array([run for run in runs if run is not None])
    if len(known) == 0:
        return
    truth, n = float(expit(world.bonus) - 0.5), len(known)
    covered = float(((known[:, 1] <= truth) & (truth <= known[:, 2])).mean())
    beside = {
        "truth": truth,
        "mean": float(known[:, 0].mean()),
        "mean log-odds": float(logit(known[:, 0] + 0.5).mean()),
        "by a plain count": float(logit(known[:, 3].mean())),
        "width": float((known[:, 2] - known[:, 1]).mean()),
        "without a number": 1 - n / len(runs),
    }
    # Opinions and ties are no part of the model: what they do to the number is shown, and nothing is promised of it.
    promised = world.departure in ("", "the first author is better") or not world.bonus
    yield loop.decision_check(
        "covers the planted excess", world, covered, n, at_least=loop.LOW if promised else None, beside=beside
    )
    if not world.bonus:
        reported = float(((known[:, 1] > 0) | (known[:, 2] < 0)).mean())
        yield loop.decision_check("reported where there is none", world, reported, n, at_most=loop.ALPHA)


PLANTED = loop.Simulation(
    worlds=loop.listed([*_PLANTED, *_DEPARTURES], quick=[_PLANTED[0], _PLANTED[2]]), ask=_read, checks=_checks, batch=50
)
PART = loop.Part(word="self_preference", key="self_preference", simulations=(PLANTED,), text=loop.decisions_text)
