"""The search for attacks on the searched half of the sources: a bandit over parts and places that mutates what works.

The first round tries every part alone. Later ones ask the best again on further sources, try their neighbours, and draw
new ones by Thompson sampling: a part or a place is taken with the chance that it is the best, as far as is known.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from scipy.special import betaincinv

from jrh_mlflow.attacks.attack_strings import PLACES, AttackPart, AttackString, AttackTarget

ROUNDS = 5
"""So many times answers are looked at before more is asked: each is one batch file."""
MOST_REPORTED = 5
_UNSEEN = 0.01
"""Least share that a first guess gives to winning and to losing."""
_LEADERS = 6
"""Attacks that are asked again and mutated."""
_AGAIN, _NEAR = 0.35, 0.8
"""Share of a round for what works already, and up to which the neighbours of it come; the rest is new."""

Trial = tuple[AttackString, AttackTarget]
Known = TypeVar("Known", AttackPart, str)
"""A part or a place."""


@dataclass(kw_only=True)
class Search:
    """What was tried on the searched half, and what to try next; the same for the same seed and answers."""

    targets: Sequence[AttackTarget]
    parts: list[AttackPart]
    seed: int = 0
    tried: dict[AttackString, dict[str, float]] = field(default_factory=dict)
    """Attack to source to the share of its calls that it won."""

    def __post_init__(self) -> None:
        self._draw = random.Random(f"attack:{self.seed}")  # noqa: S311 - a search
        self._records: dict[AttackPart | str, list[float]] = defaultdict(list)

    @property
    def space(self) -> int:
        """How many attacks there are: up to three parts in order, in three places."""
        n = len(self.parts)
        return len(PLACES) * (n + n * (n - 1) + n * (n - 1) * (n - 2))

    def round(self, n: int) -> list[Trial]:
        """Return what is asked next: no attack twice on one source, for the journal would give the same answer."""
        asked = {(attack, source) for attack, own in self.tried.items() for source in own}
        trials: list[Trial] = []
        for attack in self._later() if self.tried else self._first():
            if len(trials) >= n:
                break
            free = [target for target in self.targets if (attack, target.source) not in asked]
            if free:
                target = self._draw.choice(free)
                asked.add((attack, target.source))
                trials.append((attack, target))
        return trials

    def tell(self, attack: AttackString, source: str, won: float) -> None:
        """Take in what came of a trial."""
        self.tried.setdefault(attack, {})[source] = won
        for part in attack.parts:
            self._records[part].append(won)
        self._records[attack.place].append(won)

    def score(self, attack: AttackString) -> float:
        """Share that an attack won, drawn towards the mean of all as if two more trials had read that."""
        own = list(self.tried[attack].values())
        return (sum(own) + 2 * self._mean) / (len(own) + 2)

    def sure_score(self, attack: AttackString) -> float:
        """Share that an attack wins at least, with a chance of 90 %: one that won twice of two is not yet the best."""
        own, pseudo = list(self.tried[attack].values()), 2 * min(max(self._mean, _UNSEEN), 1 - _UNSEEN)
        return float(betaincinv(sum(own) + pseudo, len(own) - sum(own) + 2 - pseudo, 0.1))

    def reported(self) -> list[AttackString]:
        """Return the attacks that are read on held-out sources."""
        return self.best(MOST_REPORTED, by=self.sure_score)

    def best(self, most: int, *, by: Callable[[AttackString], float] | None = None) -> list[AttackString]:
        """Return the attacks with the highest score, each set of parts once."""
        score = by or self.score
        ranked = sorted(self.tried, key=lambda attack: (-score(attack), len(attack.parts), attack.name))
        apart: dict[frozenset[AttackPart], AttackString] = {}
        for attack in ranked:
            apart.setdefault(frozenset(attack.parts), attack)
        return list(apart.values())[:most]

    @property
    def _mean(self) -> float:
        values = [won for own in self.tried.values() for won in own.values()]
        return sum(values) / len(values)

    def _first(self) -> Iterator[AttackString]:
        for turn in range(1000):
            for part in self._draw.sample(self.parts, len(self.parts)):
                at = (turn + self._draw.randrange(len(PLACES))) % len(PLACES)
                yield AttackString(parts=(part,), place=PLACES[at])

    def _later(self) -> Iterator[AttackString]:
        leaders = self.best(_LEADERS)
        # What nobody has asked for yet, such as texts that a generator wrote, is tried once.
        yield from (AttackString(parts=(part,), place="after") for part in self.parts if part not in self._records)
        # A bound, for a small suite may have been asked everything.
        for _ in range(20_000):
            kind = self._draw.random()
            leader = leaders[min(int(self._draw.expovariate(0.7)), len(leaders) - 1)]
            if kind < _AGAIN:
                yield leader
            elif kind < _NEAR:
                yield leader.mutated(self._draw, self._likely(self.parts), self.parts)
            else:
                parts = dict.fromkeys(self._likely(self.parts) for _ in range(self._draw.choice((1, 2))))
                yield AttackString(parts=tuple(parts), place=self._likely(PLACES))

    def _likely(self, among: Sequence[Known]) -> Known:
        """Draw one with the chance that it wins most often: the largest of a draw from each one's posterior."""

        def drawn(known: Known) -> float:
            won = self._records.get(known, [])
            return self._draw.betavariate(1 + sum(won), 1 + len(won) - sum(won))

        return max(among, key=drawn)
