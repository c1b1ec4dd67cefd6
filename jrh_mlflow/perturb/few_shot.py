"""Which responses of the data are shown to a generator as examples of a level."""

from __future__ import annotations

import hashlib
import random
from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

from jrh_mlflow.perturb.english import words
from jrh_mlflow.schema.items import Seed

Choice = Literal["spread", "nearest", "random", "none"]
HOW = "Which of them: spread (those after the source in the data, in turn), nearest (in words), random, or none."
_MOST_COMPARED = 64
"""Candidates that `nearest` looks at for each source, so that work grows with the rows and not with their square."""


class FewShot:
    """Responses by label, to choose examples from."""

    def __init__(self, seeds: Sequence[Seed], *, n: int, choice: Choice) -> None:
        self._seeds, self._n, self._choice = seeds, n, choice
        self._places: dict[str, list[int]] = {}
        for place, seed in enumerate(seeds):
            self._places.setdefault(seed.label, []).append(place)

    def of(self, place: int, label: str) -> tuple[str, ...]:
        """Return up to `n` responses with a label for the source at a place, never the source itself."""
        if self._choice == "none" or self._n == 0:
            return ()
        if self._choice == "random":
            following = self._following(place, label, len(self._seeds))
            chosen = _rng(self._seeds[place].id, label).sample(following, min(self._n, len(following)))
        elif self._choice == "nearest":
            following, own = self._following(place, label, _MOST_COMPARED), self._words(place)
            chosen = sorted(following, key=lambda other: _apart(own, self._words(other)))[: self._n]
        else:
            chosen = self._following(place, label, self._n)
        return tuple(self._seeds[other].response for other in chosen)

    def _following(self, place: int, label: str, most: int) -> list[int]:
        """Places with a label from the one after the source on, and round: sources get different ones."""
        all_of = self._places.get(label, [])
        start = bisect_right(all_of, place)
        taken = min(most + 1, len(all_of))
        found = [all_of[(start + step) % len(all_of)] for step in range(taken)]
        return [other for other in found if other != place][:most]

    def _words(self, place: int) -> frozenset[str]:
        seed = self._seeds[place]
        return frozenset(map(str.lower, words(f"{seed.instruction}\n{seed.response}")))


def _apart(one: frozenset[str], other: frozenset[str]) -> float:
    """Jaccard distance of two sets of words."""
    return 1 - len(one & other) / max(1, len(one | other))


def _rng(seed_id: str, label: str) -> random.Random:
    digest = hashlib.sha256(f"jrh-examples\n{seed_id}\n{label}".encode("utf-8", "surrogatepass")).digest()
    return random.Random(digest)  # noqa: S311 - repeatable, not secret
