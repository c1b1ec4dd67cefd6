"""Synthetic ordinal: new responses aimed at every level of a scale, whatever levels the data hold.

`FewShot` chooses which responses of the data a generator is shown as examples of a level.
"""

from __future__ import annotations

import hashlib
import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.perturb._base import Rewrite, Target, parameter
from jrh_mlflow.perturb.checks import LEAST_ALIKE, MOST_ALIKE, check_band, not_empty, similar, unlike_earlier
from jrh_mlflow.perturb.english import words
from jrh_mlflow.schema.items import Labels, Seed
from jrh_mlflow.scoring.expectations import ExpectedLabel

Choice = Literal["spread", "nearest", "random", "none"]
HOW = "Which of them: spread (those after the source in the data, in turn), nearest (in words), random, or none."
_MOST_COMPARED = 64
"""Candidates that `nearest` looks at for each source, so that work grows with the rows and not with their square."""


class FewShot:
    """Responses by label, to choose examples from."""

    def __init__(self, seeds: Sequence[Seed], *, n: int, choice: Choice) -> None:
        self._seeds, self._n, self._choice = seeds, n, choice
        self._places: dict[str, list[int]] = {}
        self._place_of = {seed.id: place for place, seed in enumerate(seeds)}
        # What a model calls a level shapes the texts that are written after its examples.
        self._sources = {seed.response: seed.label_source for seed in seeds if seed.label_source}
        for place, seed in enumerate(seeds):
            # A row without a label is an example of nothing.
            if seed.label:
                self._places.setdefault(seed.label, []).append(place)

    def shown(self, target: Target) -> Target:
        """Return a target with its examples; its label rests on theirs, where those are no ground truth."""
        texts = self.of(self._place_of[target.seed.id], target.expected or "")
        source = next((self._sources[text] for text in texts if text in self._sources), "")
        return replace(target, examples=texts, label_source=target.seed.label_source or source)

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
        # One more than wanted, because the source itself may be among them.
        taken = min(most + 1, len(all_of))
        following = [all_of[(start + step) % len(all_of)] for step in range(taken)]
        return [other for other in following if other != place][:most]

    def _words(self, place: int) -> frozenset[str]:
        seed = self._seeds[place]
        return frozenset(map(str.lower, words(f"{seed.instruction}\n{seed.response}")))


def _apart(first: frozenset[str], second: frozenset[str]) -> float:
    """Jaccard distance of two sets of words."""
    return 1 - len(first & second) / max(1, len(first | second))


def _rng(seed_id: str, label: str) -> random.Random:
    digest = hashlib.sha256(f"jrh-examples\n{seed_id}\n{label}".encode("utf-8", "surrogatepass")).digest()
    return random.Random(digest)  # noqa: S311 - repeatable, not secret


@dataclass(frozen=True)
class SyntheticOrdinal(Rewrite):
    """For each seed and each level of the scale, responses that deserve that level."""

    per_bucket: int = parameter(1, "Responses for each seed and level.")
    examples: int = parameter(3, "Most responses of the data with the level aimed at that the generator is shown.")
    choice: Literal["spread", "nearest", "random", "none"] = parameter("spread", HOW)
    min_similarity: float = parameter(0.0, LEAST_ALIKE)
    max_similarity: float = parameter(0.95, MOST_ALIKE)
    max_similarity_earlier: float = parameter(0.95, "Most similarity with any text of the suite that was made before.")
    max_similarity_examples: float = parameter(0.95, "Most similarity with any other response of the data.")

    name = "synthetic_ordinal"
    title = "new responses written to deserve each level of the scale"
    expects = ExpectedLabel("the level aimed at")
    group = "paper"
    needs = frozenset({"generator", "validator", "scale"})

    def __post_init__(self) -> None:
        if self.per_bucket < 1:
            raise ValueError(f"`per_bucket >= 1` must hold, but got per_bucket={self.per_bucket}.")
        if self.examples < 0:
            raise ValueError(f"`examples >= 0` must hold, but got examples={self.examples}.")
        check_band("similarity", self.min_similarity, self.max_similarity, most=1.0)
        bands = (
            similar(self.min_similarity, self.max_similarity),
            unlike_earlier(self.max_similarity_earlier, examples=self.max_similarity_examples),
        )
        object.__setattr__(self, "checks", (not_empty, *bands))
        object.__setattr__(self, "most_alike", self.max_similarity_examples)
        object.__setattr__(self, "most_alike_taken", self.max_similarity_earlier)

    def targets(self, seeds: Sequence[Seed], labels: Labels, rubric: str) -> list[Target]:
        """Return `per_bucket` items for each seed and level, numbered over the levels of a seed.

        Raises:
            RecipeError: when the labels are no scale.
        """
        if not labels.ordinal:
            named = ", ".join(labels.answers)
            raise RecipeError(f"{self.name} needs an ordinal scale, but the labels are {named}. Give `scale=`.")
        targets = [
            self.target(
                seed,
                labels,
                rubric,
                expected=level,
                number=place * self.per_bucket + nth + 1,
                bucket=f"{seed.id}/{level}",
            )
            for seed in seeds
            for place, level in enumerate(labels.answers)
            for nth in range(self.per_bucket)
        ]
        return self.shown(targets, seeds)

    def shown(self, targets: Sequence[Target], rows: Sequence[Seed]) -> list[Target]:
        """Choose examples of each level."""
        return list(map(FewShot(rows, n=self.examples, choice=self.choice).shown, targets))
