"""Label flip: rewritten until the opposite answer is right; the judge's answer must move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jrh_mlflow.perturb._base import Target
from jrh_mlflow.perturb.checks import REWRITTEN, BandedRewrite
from jrh_mlflow.schema.items import Labels, Seed
from jrh_mlflow.scoring.expectations import ExpectedLabel


@dataclass(frozen=True, kw_only=True)
class LabelFlip(BandedRewrite):
    """The response rewritten to deserve the opposite label, which the validator confirms."""

    name = "label_flip"
    title = "rewritten until the opposite label is right, subject kept"
    expects = ExpectedLabel("the flipped label")
    group = "paper"
    needs = frozenset({"generator", "validator"})
    rules = REWRITTEN

    def targets(self, seeds: Sequence[Seed], labels: Labels, rubric: str) -> list[Target]:
        """Return one item per seed, with the flipped label expected."""
        return [self.target(seed, labels, rubric, expected=labels.flipped(seed.label)) for seed in seeds]
