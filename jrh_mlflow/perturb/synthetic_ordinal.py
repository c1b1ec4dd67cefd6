"""Synthetic ordinal: new responses aimed at every level of a scale, whatever levels the data hold."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.perturb._base import NotApplicable, Rewrite, Target, parameter
from jrh_mlflow.perturb.bands import LEAST_ALIKE, MOST_ALIKE, check_band
from jrh_mlflow.perturb.checks import not_empty, similar, unlike_earlier
from jrh_mlflow.perturb.english import sentences, words
from jrh_mlflow.perturb.few_shot import HOW, FewShot
from jrh_mlflow.perturb.rewording import lengthened, reworded_or_same
from jrh_mlflow.perturb.words import ELABORATIONS, VAGUENESS
from jrh_mlflow.schema.items import Labels, Seed
from jrh_mlflow.scoring.expectations import ExpectedLabel

_MIN_WORDS = 8
_CLAUSES = re.compile(r"(?<=[,;:])\s+|(?<!\s)\s+(?=(?:and|but|or|because|which|so|when|if)\b)")


@dataclass(frozen=True)
class SyntheticOrdinal(Rewrite):
    """For each seed and each level of the scale, responses that deserve that level."""

    per_bucket: int = parameter(1, "Responses for each seed and level.")
    examples: int = parameter(3, "Most responses of the data with the level aimed at that the generator is shown.")
    choice: Literal["spread", "nearest", "random", "none"] = parameter("spread", HOW)
    min_similarity: float = parameter(0.0, LEAST_ALIKE)
    max_similarity: float = parameter(0.95, MOST_ALIKE)
    max_similarity_earlier: float = parameter(0.95, "Most similarity with texts made before for the seed and level.")
    max_similarity_examples: float = parameter(0.95, "Most similarity with the examples.")

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

    def targets(self, seeds: Sequence[Seed], labels: Labels, rubric: str) -> list[Target]:
        """Return `per_bucket` items for each seed and level, numbered over the levels of a seed.

        Raises:
            RecipeError: when the labels are no scale.
        """
        if not labels.ordinal:
            found = ", ".join(labels.answers)
            raise RecipeError(f"{self.name} needs an ordinal scale, but the labels are {found}. Give `scale=`.")
        few_shot = FewShot(seeds, n=self.examples, choice=self.choice)
        # What a model calls a level shapes the texts that are written after its examples.
        sources = {seed.response: seed.label_source for seed in seeds if seed.label_source}
        return [
            self.target(
                seed,
                labels,
                rubric,
                expected=level,
                number=place * self.per_bucket + nth + 1,
                bucket=f"{seed.id}/{level}",
                examples=(shown := few_shot.of(row, level)),
                label_source=next((sources[one] for one in (seed.response, *shown) if one in sources), ""),
            )
            for row, seed in enumerate(seeds)
            for place, level in enumerate(labels.answers)
            for nth in range(self.per_bucket)
        ]

    def write(self, target: Target, rng: random.Random) -> str:
        """Keep a share of the source that grows with the level; fill the lower ones, elaborate the upper ones."""
        levels = target.labels.answers
        share = (levels.index(target.expected or levels[-1]) + 1) / len(levels)
        parts = _parts(target.original)
        if len(words(target.original)) < _MIN_WORDS or len(parts) < 2:
            raise NotApplicable(f"{len(words(target.original))} words are too few to grade by rule")
        kept = sorted(rng.sample(range(len(parts)), math.ceil(share * len(parts))))
        text = _closed(" ".join(reworded_or_same(parts[place], rng) for place in kept))
        if share < 0.5:
            return f"{text} {' '.join(rng.sample(VAGUENESS, 2))}"
        if share < 1:
            return f"{text} {rng.choice(VAGUENESS)}"
        return f"{lengthened(text, rng, ratio=1.3)} {' '.join(rng.sample(ELABORATIONS, 2))}"


def _parts(text: str) -> list[str]:
    """Sentences, or clauses where there are too few of them."""
    found = [text[start:end] for start, end in sentences(text)]
    return found if len(found) > 2 else [part for part in _CLAUSES.split(" ".join(found)) if part.strip()]


def _closed(text: str) -> str:
    text = text.strip(" ,;:")
    return text if text.endswith((".", "!", "?", "”", '"')) else f"{text}."
