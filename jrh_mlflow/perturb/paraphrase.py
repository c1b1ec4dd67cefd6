"""The same in other words: paraphrase and verbosity of a response, paraphrase of the judge's question."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.perturb import checks
from jrh_mlflow.perturb._base import CheckContext, ReliabilityTest, Target, parameter, prompt
from jrh_mlflow.schema.items import Labels, Seed

_NOTHING_LOST = (
    "Nothing may be lost: every claim, reason, example, number, name, negation and doubt of the original must stand in "
    "the rewrite, in whatever words."
)
_SAME = f"{_NOTHING_LOST} Nothing may be added: the rewrite must not say anything that the original does not say."


def another_wording(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag a text that is one made before it, case and whitespace aside."""
    same = text.casefold().split()
    return (
        "same wording as one made before"
        if any(same == earlier.casefold().split() for earlier in context.earlier)
        else None
    )


@dataclass(frozen=True, kw_only=True)
class SemanticParaphrase(checks.BandedRewrite):
    """The response in other words."""

    min_length: float = parameter(0.6, checks.LEAST_WORDS)
    max_length: float = parameter(1.6, checks.MOST_WORDS)
    min_similarity: float = parameter(0.15, checks.LEAST_ALIKE)
    max_similarity: float = parameter(0.97, checks.MOST_ALIKE)

    name = "semantic_paraphrase"
    title = "wording and sentence structure change, content stays"
    changes = "choice of words and sentence structure"
    group = "paper"
    must_keep = _SAME
    rules = (*checks.REWRITTEN, checks.keeps_numbers, checks.keeps_names, checks.keeps_negations)


@dataclass(frozen=True, kw_only=True)
class VerbosityLong(checks.BandedRewrite):
    """The response expanded, with nothing new in it."""

    min_length: float = parameter(1.3, checks.LEAST_WORDS)
    max_length: float = parameter(3.0, checks.MOST_WORDS)
    min_similarity: float = parameter(0.15, checks.LEAST_ALIKE)
    max_similarity: float = parameter(0.99, checks.MOST_ALIKE)

    name = "verbosity_bias_long"
    title = "said at greater length, nothing new"
    changes = "length, as the same content takes more words"
    group = "paper"
    must_keep = (
        f"{_NOTHING_LOST} The rewrite may repeat itself and use more words. It must not make a claim, or give a fact, "
        "reason, example or explanation, that the original does not have."
    )
    rules = (checks.not_empty, checks.keeps_numbers, checks.keeps_names)


@dataclass(frozen=True, kw_only=True)
class ExplainedLong(VerbosityLong):
    """The response expanded as the paper asks for it: with explanation added."""

    title = "said at greater length, with explanation added"
    must_keep = (
        f"{_NOTHING_LOST} Explanation and elaboration may be added. The rewrite must not make a new claim that bears "
        "on the answer to the grader's question, and must not deserve another answer than the original."
    )
    rules = (checks.not_empty, checks.keeps_all_numbers, checks.keeps_names)

    def template(self) -> str:
        """Return the prompt that asks for explanation."""
        return prompt("verbosity_bias_long_paper")


def as_in_the_paper(test: ReliabilityTest) -> ReliabilityTest:
    """Return a test as `definitions: paper` has it."""
    if not isinstance(test, VerbosityLong):
        return test
    return ExplainedLong(**{setting.name: getattr(test, setting.name) for setting in fields(test)})


@dataclass(frozen=True, kw_only=True)
class VerbosityShort(checks.BandedRewrite):
    """The response compressed, with nothing of substance lost. Names may go with the words around them."""

    min_length: float = parameter(0.2, checks.LEAST_WORDS)
    max_length: float = parameter(0.8, checks.MOST_WORDS)
    min_similarity: float = parameter(0.15, checks.LEAST_ALIKE)
    max_similarity: float = parameter(0.99, checks.MOST_ALIKE)

    name = "verbosity_bias_short"
    title = "said at less length, substance kept"
    changes = "length, as the same content takes fewer words"
    group = "paper"
    must_keep = _SAME
    rules = (*checks.REWRITTEN, checks.keeps_numbers, checks.keeps_negations)


@dataclass(frozen=True, kw_only=True)
class RubricParaphrase(checks.BandedRewrite):
    """The same judge asked the same question in other words: several wordings, which share the seeds."""

    paraphrases: int = parameter(3, "How many wordings of the question; each serves its share of the seeds.")

    min_length: float = parameter(0.4, checks.LEAST_WORDS)
    max_length: float = parameter(3.0, checks.MOST_WORDS)
    min_similarity: float = parameter(0.05, checks.LEAST_ALIKE)
    max_similarity: float = parameter(0.99, checks.MOST_ALIKE)

    name = "rubric_paraphrase"
    title = "the judge's question reworded, responses as they are"
    group = "extra"
    must_keep = _SAME
    rules = (*checks.REWRITTEN, another_wording, checks.keeps_numbers, checks.keeps_answers, checks.keeps_negations)

    def __post_init__(self) -> None:
        if self.paraphrases < 1:
            raise ValueError(f"`paraphrases >= 1` must hold, but got {self.paraphrases}.")
        super().__post_init__()

    def targets(self, seeds: Sequence[Seed], labels: Labels, rubric: str) -> list[Target]:
        """Ask for texts that serve every seed between them: the expected answer of each is its own label."""
        if not rubric.strip():
            raise RecipeError("rubric_paraphrase rewords the judge's question, but the rubric is empty. Give a rubric.")
        # Every n-th seed: data that are sorted by label give each wording all labels.
        shares = [tuple(seeds[nth :: self.paraphrases]) for nth in range(min(self.paraphrases, len(seeds)))]
        # In one bucket: a wording is told from those before it.
        same = {"part": "rubric", "bucket": hashlib.sha256(rubric.encode("utf-8", "surrogatepass")).hexdigest()}
        return [self.target(first, labels, rubric, also=tuple(rest), **same) for first, *rest in shares]
