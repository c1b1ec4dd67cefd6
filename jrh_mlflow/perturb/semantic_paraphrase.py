"""Paraphrase: other words and sentences, the same content; the judge's answer must not move."""

from __future__ import annotations

import random

from jrh_mlflow.perturb._base import Rewrite, Target
from jrh_mlflow.perturb._rules import reworded
from jrh_mlflow.perturb.checks import (
    differs,
    keeps_names,
    keeps_negations,
    keeps_numbers,
    length_ratio,
    no_wrapping,
    not_empty,
    similar,
)


class SemanticParaphrase(Rewrite):
    """The response in other words."""

    name = "semantic_paraphrase"
    title = "wording and sentence structure change, content stays: answer unchanged"
    checks = (
        not_empty,
        differs,
        no_wrapping,
        keeps_numbers,
        keeps_names,
        keeps_negations,
        length_ratio(0.6, 1.6),
        similar(0.15, 0.97),
    )

    def write(self, target: Target, rng: random.Random) -> str:
        """Swap synonyms, contractions and the order of clauses."""
        return reworded(target.original, rng)
