"""A reliability test with a kind of expectation that the package does not know: this file is all there is of it."""

from __future__ import annotations

import random
from collections.abc import Sequence

from jrh_mlflow.perturb import CodeTest, Target
from jrh_mlflow.perturb.checks import differs
from jrh_mlflow.schema.items import Labels, Seed
from jrh_mlflow.scoring.expectations import Expectation
from jrh_mlflow.scoring.pointwise import Counted, PointTable


class RisesOneLevel(Expectation):
    """A better response gets a better answer: at least one level above the judge's own baseline answer."""

    statistic = "rise"
    note = "rises by a level"
    legend = "of completed answers the risen calls"
    sentence = "At least one level above its own baseline"
    labelled = False

    def count(self, calls: PointTable, name: str) -> Counted | None:
        if not calls.scale.ordered:
            return None
        own = calls.of(name)
        paired = own.where(own.base_outcome != "")
        risen = paired.scale.places(paired.answer) > paired.scale.places(paired.base_answer)
        units = paired.paired(f"{name} calls with a baseline")
        return Counted(units=units, hits=risen, items=paired.item, replicates=paired.replicate)

    def right_answer(self, label: str, answers: Sequence[str], design: str) -> str:
        return answers[min(answers.index(label) + 1, len(answers) - 1)]


class Completion(CodeTest):
    """What was missing is supplied; a response at the top of the scale cannot rise."""

    name = "completion"
    title = "the missing part of the answer is supplied"
    expects = RisesOneLevel("a level higher")
    needs = frozenset({"order"})
    checks = (differs,)

    def targets(self, seeds: Sequence[Seed], labels: Labels, rubric: str) -> list[Target]:
        below = [seed for seed in seeds if seed.label != labels.answers[-1]]
        return [self.target(seed, labels, rubric, expected=None) for seed in below]

    def write(self, target: Target, rng: random.Random) -> str:
        return f"{target.original} And here is the part that was missing."
