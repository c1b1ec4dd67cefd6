"""Errors in graded doses: a wrong number, an antonym, a negation, swapped facts, a nonsense sentence.

Doses nest: dose 2 has the error of dose 1 at the same place, and one more. Errors stand in different sentences, so that
none undoes another (`prices are high` → `not low`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from jrh_mlflow.perturb._base import CodeTest, NotApplicable, Target
from jrh_mlflow.perturb._errors import Error, candidates
from jrh_mlflow.perturb._spans import apply
from jrh_mlflow.perturb._text import words
from jrh_mlflow.perturb.checks import differs
from jrh_mlflow.schema.items import ERROR_INJECTION
from jrh_mlflow.schema.seeds import Labels, Seed

_FEWEST_WORDS = 6


@dataclass(frozen=True, kw_only=True)
class ErrorInjection(CodeTest):
    """Only a direction is expected: with a higher dose the judge must not get kinder."""

    doses: int = 3

    name = ERROR_INJECTION
    title = "factual errors in rising doses: the answer gets no better"
    checks = (differs,)

    def __post_init__(self) -> None:
        if self.doses < 1:
            raise ValueError(f"`doses >= 1` must hold, but got {self.doses}.")

    def targets(self, seeds: Sequence[Seed], labels: Labels, rubric: str) -> list[Target]:
        """Return one item per seed and dose, without an expected answer."""
        return [
            Target(
                test=self.name,
                condition=f"{ERROR_INJECTION}_{dose}",
                seed=seed,
                labels=labels,
                rubric=rubric,
                expected=None,
            )
            for seed in seeds
            for dose in range(1, self.doses + 1)
        ]

    def write(self, target: Target, rng: random.Random) -> str:
        """Return the text with as many errors as the dose says.

        The seed's id chooses the errors and `rng` does not: doses must nest however a caller seeds each item.
        """
        dose = int(target.condition.removeprefix(f"{ERROR_INJECTION}_"))
        if len(words(target.original)) < _FEWEST_WORDS:
            raise NotApplicable(f"fewer than {_FEWEST_WORDS} words")
        errors = planned(target.original, target.seed.id)[:dose]
        if len(errors) < dose:
            raise NotApplicable(f"only {len(errors)} errors can be placed")
        return apply(target.original, [edit for error in errors for edit in error.edits])


def planned(text: str, seed_id: str) -> list[Error]:
    """Return all errors a text can take, the mildest dose first: kinds take turns, and no sentence gets two."""
    rng = random.Random(seed_id.encode("utf-8", "surrogatepass"))  # noqa: S311 - repeatable, not secret
    left = list(candidates(text, rng).values())
    rng.shuffle(left)
    for errors in left:
        rng.shuffle(errors)
    plan: list[Error] = []
    taken: set[int] = set()
    while any(left):
        for errors in left:
            error = next((error for error in errors if not taken & error.sentences), None)
            errors[:] = [other for other in errors if other is not error and not taken & other.sentences]
            if error is not None:
                plan.append(error)
                taken |= error.sentences
    return plan
