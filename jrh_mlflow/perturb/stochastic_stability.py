"""Nothing changes: the judge is asked again, and its answers are compared with one another."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

from jrh_mlflow.perturb._base import CodeTest, Target, parameter
from jrh_mlflow.schema.items import Labels, Seed
from jrh_mlflow.scoring.expectations import ReplicatesAgree


@dataclass(frozen=True, kw_only=True)
class StochasticStability(CodeTest):
    """Two designs: every seed a few times, and a few seeds many times.

    Example:
        >>> StochasticStability(replicates=5, deep_seeds=0).title
        'nothing changes, the same input again and again'
    """

    replicates: int = parameter(3, "How often every seed is asked about.")
    deep_seeds: int = parameter(5, "How many seeds the deep design has; 0 leaves it out.")
    deep_replicates: int = parameter(10, "How often each of those is asked about.")

    name = "stochastic_stability"
    title = "nothing changes, the same input again and again"
    expects = ReplicatesAgree("the replicates agree")
    designs = r"(_\w+)?"
    group = "paper"

    def __post_init__(self) -> None:
        if self.replicates < 2 or self.deep_replicates < 2:
            got = f"replicates={self.replicates}, deep_replicates={self.deep_replicates}"
            raise ValueError(f"Agreement needs at least 2 replicates, but got {got}.")
        if self.deep_seeds < 0:
            raise ValueError(f"`deep_seeds >= 0` must hold, but got {self.deep_seeds}.")

    def targets(self, seeds: Sequence[Seed], labels: Labels, rubric: str) -> list[Target]:
        """Return every seed, then the seeds of the deep design: chosen by a hash of the id, whatever their order."""
        chosen = set(sorted((seed.id for seed in seeds), key=_digest)[: self.deep_seeds])
        designs = (
            (self.name, self.replicates, list(seeds)),
            (f"{self.name}_deep", self.deep_replicates, [seed for seed in seeds if seed.id in chosen]),
        )
        return [
            self.target(seed, labels, rubric, condition=condition, replicates=replicates)
            for condition, replicates, members in designs
            for seed in members
        ]

    def write(self, target: Target, rng: random.Random) -> str:
        """Return the original."""
        return target.original


def _digest(seed_id: str) -> str:
    return hashlib.sha256(seed_id.encode("utf-8", "surrogatepass")).hexdigest()
