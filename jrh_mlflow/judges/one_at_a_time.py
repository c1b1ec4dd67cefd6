"""A judge of one response put to pairs: it grades the two contents apart, and the better grade wins."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges._base import Judge, ModelJudge
from jrh_mlflow.judges.parsing import ABSTAIN, TIE
from jrh_mlflow.judges.scripted import Scripted
from jrh_mlflow.schema.items import SINGLE_LADDERS, Call, CallRecord, Item
from jrh_mlflow.schema.presentation import Criterion, Presentation
from jrh_mlflow.suites.datasheet import QUESTIONS

if TYPE_CHECKING:
    from jrh_mlflow.suites.suite import Suite

_WORST_FIRST = ("error", "unparsed", ABSTAIN)
"""Outcomes of a half that are no grade: the worse one is the outcome of the call."""


@dataclass(frozen=True)
class _Singles:
    """The contents of a suite's pairs, as far as a judge that gets ready looks at a suite."""

    name: str
    items: tuple[Item, ...]


class PointwiseJudge(Judge):
    """Asks the inner judge about the first and the second content apart; equal grades are a tie.

    It never sees both, so that position and the other content cannot sway it; what it cannot tell apart on its own
    scale is a tie.
    """

    kind = "pointwise"

    def __init__(self, inner: Judge, *, answers: Sequence[str] | None = None) -> None:
        """Wrap a judge.

        Args:
            inner: Grades one response.
            answers: What it may answer, worst to best. When None a model scores from 1 to 5, and every other judge
                says yes or no, or gives any number.

        Raises:
            RecipeError: for a judge that does not go by one text, and for fewer than two answers.
        """
        _check_inner(inner)
        scores, question = QUESTIONS["pointwise-scores"]
        is_model = isinstance(inner, ModelJudge)
        if answers is not None and len(set(answers)) < 2:
            raise RecipeError(f"`answers` must be at least two grades, worst to best, but are {list(answers)}.")
        self.inner, self.name = inner, f"{inner.name}, pointwise"
        self.answers = tuple(answers or (scores if is_model else QUESTIONS["pointwise"][0]))
        self._is_given = answers is not None
        # Answers of one's own bring their question in the rubric; ours would speak of other grades.
        self._question = question if is_model and answers is None else None
        self.tie_criterion, self.simulated, self.recorded = inner.tie_criterion, inner.simulated, inner.recorded
        self.model = getattr(inner, "model", None)

    @property
    def model_judge(self) -> ModelJudge | None:
        """The inner judge, where it writes requests."""
        return self.inner.model_judge

    def with_inner(self, inner: Judge) -> PointwiseJudge:
        """Return the same judge with another one inside."""
        named = {"name": f"{inner.name}, pointwise"} if self.name == f"{self.inner.name}, pointwise" else {}
        return self.with_settings(inner=inner, **named)

    def begin(self, suite: Suite) -> None:
        """Refuse what is no pair, and let the inner judge get ready for the contents."""
        if any(item.kind != "pair" for item in suite.items):
            raise RecipeError(f"Suite {suite.name!r} has single responses: pass {self.inner.name!r} as it is.")
        self.inner.begin(cast("Suite", _Singles(suite.name, tuple(map(self._single, suite.items)))))

    def halves(self, call: Call) -> tuple[Call, Call]:
        """Return the calls about the first and about the second content."""
        shown, item = call.presentation, self._single(call.item)
        single = Presentation(
            kind="response",
            instruction=shown.instruction,
            rubric=item.rubric,
            response="",
            answers=self.answers,
            context=shown.context,
        )
        first, second = (
            Call(
                item=replace(item, id=f"{item.id}.{slot}", response=content),
                order="",
                replicate=call.replicate,
                presentation=replace(single, response=content),
            )
            for slot, content in (("1", shown.first), ("2", shown.second))
        )
        return first, second

    def _single(self, item: Item) -> Item:
        """Lay a pair out as one response; yes, no and any number are read of it, as on the pointwise datasheet."""
        return Item(
            id=item.id,
            task=item.task,
            condition=SINGLE_LADDERS[0],
            kind="response",
            instruction=item.instruction,
            rubric=item.rubric or self._question,
            context=item.context,
            answers=self.answers,
            # Grades have an order, even two; words are named in it and put as labels.
            ordinal=True if all(map(_is_number, self.answers)) else None,
        )

    def choose(self, first: CallRecord, second: CallRecord, offered: Sequence[str]) -> tuple[str, str, str | None]:
        """Return outcome, answer and what is wrong, from how the two halves ended."""
        ended = {"first": first, "second": second}
        # A half without a grade decides: a pair with one grade would be a guess.
        for outcome in _WORST_FIRST:
            lost = {slot: half.error or half.outcome for slot, half in ended.items() if half.outcome == outcome}
            if lost:
                where = " and ".join(lost)
                return outcome, "", None if outcome == ABSTAIN else f"{next(iter(lost.values()))} (of the {where})"
        grade, other = self._grade(first.answer), self._grade(second.answer)
        # A yes and a number are on no common scale.
        if grade is None or other is None or grade[0] != other[0]:
            scale = ", ".join(self.answers) if self._is_given else "one scale"
            return "unparsed", "", f"{first.answer!r} and {second.answer!r} are not both on {scale}"
        if grade == other:
            return (TIE if TIE in offered else ABSTAIN), "", None
        return "verdict", "1" if grade > other else "2", None

    def _grade(self, answer: str) -> tuple[str, float] | None:
        """Return the scale that an answer is on, and how high; of given answers only their order counts."""
        if answer in self.answers and (self._is_given or not _is_number(answer)):
            return "label", self.answers.index(answer)
        if self._is_given:
            return None
        return ("number", float(answer)) if _is_number(answer) else None

    def settings(self) -> dict[str, object]:
        """What it may answer, and the settings of the inner judge under `inner.`."""
        inner = self.inner.settings()
        mine = {**super().settings(), "model": inner["model"], "answers": ", ".join(self.answers)}
        return mine | {f"inner.{name}": value for name, value in inner.items() if name != "tie_criterion"}

    def prompt(self) -> str:
        """The prompt of the inner judge, and how a choice comes of it."""
        how = "Each response of a pair is put to this judge on its own; the better grade wins, equal grades are a tie."
        question = f"It is asked: {self._question}\n\n" if self._question else ""
        return f"{how}\nGrades, worst to best: {', '.join(self.answers)}\n\n{question}{self.inner.prompt()}"

    def fingerprint(self) -> str | None:
        """Hash the inner judge and its grades; None where two inner judges could look the same."""
        inner = self.inner.fingerprint()
        whole: tuple[object, ...] = ("jrh-pointwise-1", inner, self.answers, self._question, self.tie_criterion)
        whole += ("given",) if self._is_given else ()
        return None if inner is None else hashlib.sha256(repr(whole).encode()).hexdigest()

    def definition(self) -> dict[str, Any] | None:
        """The inner judge's, with the grades; None where the inner judge has none."""
        inner = self.inner.definition()
        if inner is None:
            return None
        return self.defined_by(inner=inner, answers=self.answers, given=self._is_given, question=self._question)

    @classmethod
    def from_definition(cls, inner: Judge, definition: Mapping[str, Any]) -> PointwiseJudge:
        """Make the judge again that a definition is of, with the question and the grades it had then."""
        judge = cls(inner, answers=definition["answers"])
        judge.name, judge.tie_criterion = definition["name"], Criterion(**definition["tie_criterion"])
        judge._is_given, judge._question = definition["given"], definition["question"]
        return judge

    def renewed(self) -> PointwiseJudge:
        """Return the judge with its inner one renewed, and with the question and the grades of this version."""
        judge = PointwiseJudge(self.inner.renewed(), answers=self.answers if self._is_given else None)
        judge.name, judge.tie_criterion = self.name, self.tie_criterion
        return judge

    def lacks(self) -> str | None:
        """What the inner judge lacks."""
        return self.inner.lacks()


def _check_inner(inner: Judge) -> None:
    """Refuse what cannot grade a text on its own."""
    if isinstance(inner, PointwiseJudge):
        raise RecipeError(f"{inner.name!r} is pointwise already: pass it as it is.")
    if isinstance(inner, Scripted):
        raise RecipeError(
            f"{inner.name!r} is a scripted judge: it goes by the pair or by what is known of it, which one text of it "
            "does not tell. It answers pairs already: pass it as it is."
        )


def _is_number(answer: str) -> bool:
    try:
        float(answer)
    except ValueError:
        return False
    return True
