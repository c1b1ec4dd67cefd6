"""The same in other words: paraphrase and verbosity of a response, paraphrase of the judge's question."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.perturb._base import NotApplicable, Rewrite, Target
from jrh_mlflow.perturb.checks import (
    REWRITTEN,
    keeps_answers,
    keeps_names,
    keeps_negations,
    keeps_numbers,
    length_ratio,
    no_wrapping,
    not_empty,
    similar,
)
from jrh_mlflow.perturb.english import words
from jrh_mlflow.perturb.rules import lengthened, reworded, reworded_or_same, shortened
from jrh_mlflow.schema.items import Labels, Seed

_QUESTION = re.compile(r"[^.?!\n]+\?")
_QUOTED = re.compile(r"(?<!\w)[\"'“‘]([^\"'“”‘’\n]{1,40})[\"'”’](?!\w)")
_QUESTION_LEADS = ("The question to settle is this: {}", "What has to be settled: {}", "Settle this question. {}")
_TASK_LEADS = ("Your task is as follows. {}", "This is what is asked of you. {}", "What is to be done: {}")


class SemanticParaphrase(Rewrite):
    """The response in other words."""

    name = "semantic_paraphrase"
    title = "wording and sentence structure change, content stays"
    group = "paper"
    checks = (*REWRITTEN, keeps_numbers, keeps_names, keeps_negations, length_ratio(0.6, 1.6), similar(0.15, 0.97))

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
    checks = (*REWRITTEN, keeps_numbers, keeps_negations, length_ratio(0.2, 0.8), similar(0.15, 0.99))

    def write(self, target: Target, rng: random.Random) -> str:
        """Leave out fillers, asides, side clauses and the sentences that tell least."""
        return shortened(target.original, rng)


class RubricParaphrase(Rewrite):
    """The same judge asked the same question in other words."""

    name = "rubric_paraphrase"
    title = "the judge's question reworded, responses as they are"
    group = "extra"
    checks = (*REWRITTEN, keeps_numbers, keeps_answers, keeps_negations, length_ratio(0.4, 3.0), similar(0.05, 0.99))

    def targets(self, seeds: Sequence[Seed], labels: Labels, rubric: str) -> list[Target]:
        """Ask for one text that serves every seed: the expected answer of each is its own label."""
        if not rubric.strip():
            raise RecipeError("rubric_paraphrase rewords the judge's question, but the rubric is empty. Give a rubric.")
        return [self.target(seed, labels, rubric, part="rubric", also=tuple(seeds[1:])) for seed in seeds[:1]]

    def write(self, target: Target, rng: random.Random) -> str:
        """Swap synonyms, but for the answers' own words and quoted ones, and lead into the question."""
        if not words(target.original):
            raise NotApplicable("the question has no words")
        fixed = [*target.labels.answers, *_QUOTED.findall(target.original)]
        keep = {word.lower() for part in fixed for word in words(part)}
        text = reworded_or_same(target.original, rng, keep=keep)
        leads = _QUESTION_LEADS if _QUESTION.match(text) else _TASK_LEADS
        return rng.choice(leads).format(text) if text == target.original or rng.random() < 0.5 else text
