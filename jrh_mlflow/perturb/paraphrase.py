"""Paraphrase and verbosity: the same content in other words, at greater and at less length."""

from __future__ import annotations

import random

from jrh_mlflow.perturb._base import Rewrite, Target
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
from jrh_mlflow.perturb.rules import lengthened, reworded, shortened


class SemanticParaphrase(Rewrite):
    """The response in other words."""

    name = "semantic_paraphrase"
    title = "wording and sentence structure change, content stays"
    group = "paper"
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


class VerbosityLong(Rewrite):
    """The response expanded, with nothing new in it."""

    name = "verbosity_bias_long"
    title = "said at greater length, nothing new"
    group = "paper"
    checks = (not_empty, no_wrapping, keeps_numbers, keeps_names, length_ratio(1.3, 3.0), similar(0.15, 0.99))

    def write(self, target: Target, rng: random.Random) -> str:
        """Say sentences again and add sentences that say nothing."""
        return lengthened(target.original, rng)


class VerbosityShort(Rewrite):
    """The response compressed, with nothing of substance lost. Names may go with the words around them."""

    name = "verbosity_bias_short"
    title = "said at less length, substance kept"
    group = "paper"
    checks = (
        not_empty,
        differs,
        no_wrapping,
        keeps_numbers,
        keeps_negations,
        length_ratio(0.2, 0.8),
        similar(0.15, 0.99),
    )

    def write(self, target: Target, rng: random.Random) -> str:
        """Leave out fillers, asides, side clauses and the sentences that tell least."""
        return shortened(target.original, rng)
