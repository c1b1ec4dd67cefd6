"""Tests that a rubric makes invalid, because it grades what they change: the validator is asked about each."""

from __future__ import annotations

from collections.abc import Sequence

from jrh_mlflow.generation.labelling import Labelling
from jrh_mlflow.generation.plan import GenerationPlan
from jrh_mlflow.perturb import ReliabilityTest
from jrh_mlflow.schema.items import Item

_TASK = "A grader answers a question about responses to a task. Say what the question grades."
_QUESTION = (
    "The text is the question that the grader answers. Does it grade this property of a response: {changes}? "
    "Answer yes if a response may deserve another answer because of that property alone: the question names it, or "
    "something that it is a part of. Answer no if the question does not speak of it, or says that it does not count."
)
_NO, _YES = "no", "yes"


def proposal_items(plan: GenerationPlan) -> list[Item]:
    """Return what a validator is asked: one question for each test that expects an unchanged answer.

    Of several rubrics all are shown: a test is made of every one of them, or of none.
    """
    return [
        Item(
            id=f"{test.name}/invalid",
            task=test.name,
            condition="invalid",
            kind="response",
            instruction=_TASK,
            rubric=_QUESTION.format(changes=test.changes),
            response="\n\n".join(part.labels.question(part.rubric) for part in plan.parts or (plan,)),
            answers=(_NO, _YES),
        )
        for test in plan.tests
        if test.changes
    ]


def graded(answers: Labelling, tests: Sequence[ReliabilityTest]) -> dict[str, str]:
    """Return the tests that are invalid by the validator's answers, each with the reason."""
    labels = answers.labels
    return {
        test.name: f"the validator says that the rubric grades {test.changes}"
        for test in tests
        if labels.get(test.name) == _YES
    }


def proposal_note(answers: Labelling, n_asked: int) -> str | None:
    """Say about which tests the validator gave no answer that can be read; they are made."""
    unread = [one.source for one in answers.without]
    told = f"Whether the rubric grades what these tests change, the validator did not say: {', '.join(unread)}."
    unasked = f"The cap was reached before {answers.unasked} of {n_asked} tests were asked about."
    return " ".join([*([told] if unread else []), *([unasked] if answers.unasked else [])]) or None
