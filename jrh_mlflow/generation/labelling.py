"""What a grader is asked before anything is made: labels of rows without one, and which tests the rubric makes invalid.

Labels of a model are never a ground truth. A rubric makes a test invalid when it grades what the test changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from jrh_mlflow.engine.runner import WorkerPool
from jrh_mlflow.engine.sessions import WORKERS_PER_SLOT
from jrh_mlflow.errors import BudgetError, JrhError, JudgeError
from jrh_mlflow.generation.outcomes import Made, SetAside, Usage
from jrh_mlflow.generation.plan import AgentPlan, GenerationPlan, seed_id
from jrh_mlflow.generation.writers import Session, Stopped, Validator
from jrh_mlflow.perturb import ReliabilityTest
from jrh_mlflow.schema.items import BASELINE, Item
from jrh_mlflow.suites.spreadsheets import guarded_frame


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenLabel:
    """What a grader said about one row."""

    source: str
    label: str | None
    """None where it gave none."""
    reason: str | None = None
    """Why there is none."""


@dataclass(frozen=True, kw_only=True)
class Labelling:
    """What became of the rows without a label."""

    given: tuple[GivenLabel, ...] = ()
    """In the order of the rows; without those that were not asked about."""
    usage: Usage = field(default_factory=Usage)
    unasked: int = 0
    """Rows that were not asked about because the cap was reached."""
    stopped: str | None = None

    @property
    def labels(self) -> dict[str, str]:
        """Row to label, of the rows that were labelled."""
        return {one.source: one.label for one in self.given if one.label is not None}

    @property
    def without(self) -> list[GivenLabel]:
        """Rows that the grader gave no label."""
        return [one for one in self.given if one.label is None]

    @property
    def note(self) -> str | None:
        """What a reader of the suite should know first."""
        if not self.given and not self.unasked:
            return None
        counts = ", ".join(f"{label}: {count}" for label, count in sorted(Counter(self.labels.values()).items()))
        more = f" ({counts})" if counts else ""
        more += f", {len(self.without)} could not be labelled" if self.without else ""
        more += f", {self.unasked} were not asked about" if self.unasked else ""
        return (
            f"A model wrote the labels of {len(self.labels)} rows{more}. Agreement with them is reported apart and is "
            "no accuracy."
        )

    def failure(self) -> JrhError:
        """Return what is raised where no row has a label."""
        if self.stopped is not None:
            return BudgetError(f"{self.stopped}: no row was labelled. Raise the cap and run it again.")
        return JudgeError(f"None of {len(self.given)} rows could be labelled: {self.without[0].reason}.")

    def added_to(self, made: Made, plan: GenerationPlan) -> Made:
        """Return what was made together with what labelling used and set aside; transcripts stay without a label."""
        aside = () if isinstance(plan, AgentPlan) else tuple(self.set_aside())
        return replace(
            made,
            usage=self.usage.plus(made.usage),
            set_aside=(*aside, *made.set_aside),
            stopped=self.stopped or made.stopped,
        )

    def set_aside(self) -> list[SetAside]:
        """Return the rows that are not in the suite."""
        return [
            SetAside(
                id=f"{one.source}/{BASELINE}",
                test=BASELINE,
                condition=BASELINE,
                source=one.source,
                reason=one.reason or "",
            )
            for one in self.without
        ]


async def ask_for_labels(items: Sequence[Item], labeller: Validator, *, asks: int, concurrency: int) -> Labelling:
    """Ask about every row; stop where the cap does not cover the next call.

    Raises:
        JudgeError: when the service fails for good; what was paid is in the journal.
        KeyboardInterrupt: after the first Ctrl-C, once the calls in flight are settled.
    """
    usage = Usage()
    pool = WorkerPool[Item, "GivenLabel | None"](items, workers=WORKERS_PER_SLOT * concurrency)

    async def ask(item: Item) -> GivenLabel | None:
        session = Session(usage, stopped=lambda: pool.stopped is not None, rehearse=None)
        try:
            replies = [await session.ask(labeller.question(item, replicate=number)) for number in range(asks)]
        except Stopped:
            return None  # the same call again continues
        answers = [reply.text for reply in replies if reply.problem is None and reply.text in (item.answers or ())]
        problems = [reply.problem or f"it answered {reply.text!r}" for reply in replies if reply.text not in answers]
        return _decided(seed_id(item), [answer for answer in answers if answer], problems)

    async with labeller.opened():
        found = await pool.run(ask)
    given = tuple(one for one in found if one is not None)
    return Labelling(given=given, usage=usage, unasked=len(items) - len(given), stopped=pool.stopped)


def _decided(source: str, answers: Sequence[str], problems: Sequence[str]) -> GivenLabel:
    """Take the answer of more than half of those that answered; an error is never a label."""
    if not answers:
        return GivenLabel(source=source, label=None, reason=f"the labeller gave no label: {problems[0]}")
    counts = Counter(answers)
    (first, most), *_ = counts.most_common()
    if 2 * most <= len(answers):
        listed = ", ".join(f"{answer} {count}" for answer, count in sorted(counts.items()))
        return GivenLabel(source=source, label=None, reason=f"the labeller's answers have no majority: {listed}")
    return GivenLabel(source=source, label=first)


def label_table(plan: GenerationPlan) -> pd.DataFrame:
    """Return the rows with their labels as a dataset: `generate` reads it again, the source of each label included.

    Of several rubrics each has columns of its own: `label_helpful`, `label_source_helpful`. Transcripts are named, and
    their texts left to their logs.
    """
    rows: dict[str, dict[str, str]] = {}
    for seed in plan.seeds:
        texts = {} if isinstance(plan, AgentPlan) else {"instruction": seed.instruction, "response": seed.response}
        group = {} if seed.group is None else {"group": seed.group}
        row = rows.setdefault(seed.task, {"id": seed.task, **texts, **group})
        of = f"_{seed.rubric_id}" if seed.rubric_id else ""
        row |= {f"label{of}": seed.label, f"label_source{of}": seed.label_source}
    return guarded_frame(pd.DataFrame(list(rows.values())).fillna(""))


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
