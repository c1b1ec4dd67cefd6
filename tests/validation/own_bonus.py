"""Self-preference: is a planted bonus of own answers read, and none where there is none?

Qualities of pairs differ with a standard deviation of 1.5; judges add noise, a pull of the slot and
their bonus.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from jrh_mlflow.comparing.answer_pairs import JUDGE, LABEL
from jrh_mlflow.comparing.self_preference import read_excess
from jrh_mlflow.schema.estimates import Estimate
from tests.validation.loop import ALPHA, LOW, Part, Simulation, check_share

SPREAD = 1.5
_BETTER = 1.0
_OPINION = 1.0
_TIES = 0.2


@dataclass(frozen=True, kw_only=True)
class Bonus:
    """A planted bonus, and who judges."""

    judges: tuple[int, ...]
    """Each the author of the first answer (1), of the second (−1) or of neither."""
    bonus: float
    items: int = 100
    people: int = 0
    """Who label each pair with noise of their own."""
    departure: str = ""
    """From what the reading assumes, or from authors who are equally good."""

    def __str__(self):
        authors = sum(map(abs, self.judges))
        counts = {"author": authors, "outsider": self.judges.count(0), "label": self.people}
        who = [f"{n} {name}{'s' if n > 1 else ''}" for name, n in counts.items() if n]
        departure = f", {self.departure}" if self.departure else ""
        return f"{', '.join(who)}, {self.items} items, bonus {self.bonus:g}{departure}"

    def draw(self, rng):
        """Return judgments; `own` is the stake of whoever gave each."""
        better = _BETTER if self.departure == "the first author is better" else 0.0
        quality = rng.normal(better, SPREAD, self.items)
        tables = []
        for at, own in enumerate(self.judges):
            pull = rng.normal(0, 0.5)
            odds = quality + self._opinion(rng) + self.bonus * own
            facts = {"rater": f"judge {at}", "kind": JUDGE, "own": own}
            tables.append(self._judgments(odds + pull, rng, order="uv", **facts))
            tables.append(self._judgments(odds - pull, rng, order="vu", **facts))
        for at in range(self.people):
            odds = quality + self._opinion(rng)
            facts = {"rater": f"label {at}", "kind": LABEL, "own": 0}
            tables.append(self._judgments(odds, rng, order="", **facts))
        return pd.concat(tables, ignore_index=True)

    def _opinion(self, rng):
        if self.departure == "judges have opinions":
            return rng.normal(0, _OPINION, self.items)
        return 0.0

    def _judgments(self, odds, rng, **facts):
        scores = (rng.random(self.items) < expit(odds)).astype(float)
        if self.departure == "a fifth are ties":
            scores = np.where(rng.random(self.items) < _TIES, 0.5, scores)
        items = np.arange(self.items)
        table = pd.DataFrame({"pair": items, "item": items, "score": scores})
        return table.assign(first_author="u", second_author="v", outcome="verdict", **facts)


_PLANTED = tuple(
    Bonus(judges=judges, people=people, bonus=bonus, items=items)
    for items, (judges, people), bonus in product(
        (40, 100), (((1, -1, 0), 0), ((1, 0, 0), 0), ((1, -1), 0), ((1,), 1)), (0.0, 0.5, 1.0)
    )
)
_DEPARTURES = tuple(
    Bonus(judges=(1, -1, 0), bonus=bonus, departure=departure)
    for departure, bonus in product(
        ("the first author is better", "judges have opinions", "a fifth are ties"), (0.0, 1.0)
    )
)


def _run(world, batch):
    """Per run: what was read, or nothing where it has no number."""
    rng = batch.rng(world)
    truth = float(expit(world.bonus) - 0.5)
    for _ in batch.runs:
        judgments = world.draw(rng)
        reading = read_excess(judgments)
        ends = reading.cluster_interval if isinstance(reading, Estimate) else None
        if ends is None:
            yield {"without a number": True}
            continue
        low, high = ends
        staked = judgments[judgments["own"] != 0]
        yield {
            "without a number": False,
            "covered": low <= truth <= high,
            "reported": low > 0 or high < 0,
            "truth": truth,
            "mean": reading.value,
            "mean log-odds": float(logit(reading.value + 0.5)),
            "by a plain count": (staked["score"] - (staked["own"] < 0)).abs().mean(),
            "width": high - low,
        }


def _checks(world, runs):
    """The planted bonus is covered in 93 % of runs; none is reported in over 5 % without one."""
    # Opinions and ties are no part of the model: what they do is shown, and nothing is promised.
    promised = world.departure in ("", "the first author is better") or not world.bonus
    runs["by a plain count"] = float(logit(runs["by a plain count"].mean()))
    yield check_share(
        "covers the planted excess",
        world,
        runs,
        "covered",
        at_least=LOW if promised else None,
        beside=[name for name in runs if name not in ("covered", "reported")],
    )
    if not world.bonus:
        name = "reported where there is none"
        yield check_share(name, world, runs, "reported", at_most=ALPHA)


PLANTED = Simulation(
    worlds=(*_PLANTED, *_DEPARTURES),
    quick=(_PLANTED[0], _PLANTED[2]),
    run=_run,
    checks=_checks,
    batch=50,
)
PART = Part(word="self_preference", simulations=(PLANTED,))
