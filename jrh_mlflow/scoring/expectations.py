"""What a right judge does on the items of a reliability test, and how that is counted.

| expectation | items carry an answer | a unit | scores 1 when |
|---|---|---|---|
| `ExpectedLabel` | yes | call | the answer is the expected one |
| `ReplicatesAgree` | yes | item | all its replicates are the same answer |
| `FallsWithDose` | no | source above the lowest label | answers never rise with the dose and end below the baseline |

A test declares one of these, or a class of its own beside it: reports, comparisons, figures and sweeps read from it
all that they need to know.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from jrh_mlflow.schema.estimates import NotEstimable, Reading
from jrh_mlflow.schema.items import BASELINE, USABLE
from jrh_mlflow.scoring.pointwise import ORDER_UNKNOWN, Counted, PointTable, Scale
from jrh_mlflow.scoring.readings import accuracy, unanimity
from jrh_mlflow.stats import Mask


@dataclass(frozen=True)
class Expectation(ABC):
    """A kind of right behaviour: which share stands for a test, and how it is told to people."""

    text: str
    """One phrase for `jrh suite tests`: `answer unchanged`."""
    heading: str = ""
    """Of the section in a report that only this kind has; the test's name when empty."""

    statistic: ClassVar[str]
    """What the share is called; its axis is `<test>/<statistic>`."""
    note: ClassVar[str] = ""
    """Beside the test's name in figures, where the share is not plain accuracy: `falls with the dose`."""
    legend: ClassVar[str] = ""
    """What stands for such a test, in the line across tests, where it is not accuracy: `of stability the …`."""
    sentence: ClassVar[str] = ""
    """What is counted, in that section: `Never rises with the dose, ends below the baseline`."""
    counts: ClassVar[str] = "calls"
    """What the share is a share of."""
    by_condition: ClassVar[tuple[str, str, str] | None] = None
    """A further axis of each condition, for a table: what tells the conditions apart, the axis, and its label."""
    labelled: ClassVar[bool] = True
    """Whether items carry the answer that is expected: accuracy and agreement with the baseline are then read too."""
    repeats: ClassVar[bool] = False
    """Whether replicates of an item are what is compared."""
    pooled: ClassVar[bool] = False
    """Whether all conditions of a test make one score, under the test's name."""
    item_by_item: ClassVar[bool] = False
    """Whether an item's score follows from its own answer, so that a sweep can count while it still asks."""

    @abstractmethod
    def count(self, calls: PointTable, name: str) -> Counted | None:
        """Return what is counted of the test or condition `name`, or None when the order of the labels is not known.

        Args:
            calls: All pointwise calls, those on baselines too.
            name: The condition, or the test where its conditions are pooled.
        """

    def axes(self, calls: PointTable, name: str) -> dict[str, Reading]:
        """Return further readings besides the share itself."""
        return {}

    def count_further(self, calls: PointTable, condition: str, axis: str) -> Counted | None:
        """Return what is counted for one of the further readings, so that it can be followed to its calls.

        Args:
            calls: Those of the condition.
            condition: Its name.
            axis: What follows it in the key of the reading.
        """
        return None

    def right_answer(self, label: str, answers: Sequence[str], design: str) -> str | None:
        """Return what a right judge says where items carry no answer: for scripted judges.

        Args:
            label: Of the unperturbed response.
            answers: In order.
            design: What follows the test's name in the condition, such as a dose.
        """
        return None


UNKNOWN_ORDER = NotEstimable(reason=ORDER_UNKNOWN.format(what="highest"))
"""Of a share that cannot be counted without knowing which label is higher."""


class ExpectedLabel(Expectation):
    """Each item carries the answer that is right: the label unchanged, flipped, a level, or one of the test's own."""

    statistic = "accuracy"
    item_by_item = True

    def count(self, calls: PointTable, name: str) -> Counted:
        """Count calls equal to the expected answer."""
        return accuracy(calls.of(name), name)


class ReplicatesAgree(Expectation):
    """The same input again and again: right or wrong, the answer is the same."""

    statistic = "unanimity"
    note = "all replicates agree"
    legend = "of stability the unanimous items"
    counts = "items"
    repeats = True

    def count(self, calls: PointTable, name: str) -> Counted:
        """Count items whose replicates are all the same answer."""
        return unanimity(calls.of(name), name)


class FallsWithDose(Expectation):
    """Conditions `<test>_1`, `<test>_2`, …: each dose makes a response worse, and answers must follow."""

    statistic = "monotone"
    note = "falls with the dose"
    legend = "of error doses the monotone sources"
    sentence = "Never rises with the dose, ends below the baseline"
    counts = "sources"
    by_condition = ("dose", "decline", "below own baseline")
    labelled = False
    pooled = True

    def count(self, calls: PointTable, name: str) -> Counted | None:
        """Count sources whose answers never rise over baseline, dose 1, 2, … and end strictly below the baseline.

        Every replicate must (the r-th of each dose, counted round where a dose has fewer). Sources are those with one
        baseline item and every dose; one with an unusable call leaves the denominator, and an abstention is not
        monotone. A source whose own label is the lowest cannot fall and is none of them, whatever the judge says; where
        nobody tells the labels, the lowest one of a scale is not known.
        """
        if not calls.scale.ordered:
            return None
        calls = calls.where(_can_fall(calls))
        places = calls.scale.places(calls.answer)
        rows = _stages(calls, (BASELINE, *_doses(calls, name)))
        originals = np.array(sorted(rows), dtype=np.intp)
        first = np.array([rows[original][0][0] for original in originals], dtype=np.intp)
        outcomes = [calls.outcome[np.concatenate(rows[original])] for original in originals]
        unusable = [outcome[~np.isin(outcome, USABLE)] for outcome in outcomes]
        units = calls.units_of(
            f"sources with a baseline and every dose of {name}{_above(calls.scale)}",
            usable=np.array([len(lost) == 0 for lost in unusable], dtype=bool),
            lost=np.concatenate([*unusable, np.array([], dtype=object)]),
            clusters=calls.source[first],
            n_calls=sum(map(len, outcomes)),
            members=(
                np.repeat(np.arange(len(outcomes)), [len(outcome) for outcome in outcomes]),
                calls.row[_joined(rows[original] for original in originals)],
            ),
        )
        hits = [_falls([places[stage] for stage in rows[original]]) for original in originals]
        return Counted(units=units, hits=np.array(hits, dtype=bool), rubrics=calls.rubric[first])

    def axes(self, calls: PointTable, name: str) -> dict[str, Reading]:
        """Return the decline at each dose: calls strictly below the judge's own baseline answer.

        A judge that gives the lowest label to the unperturbed response cannot decline and does not count as declining;
        a source whose own label is the lowest is left out.
        """
        declined = {dose: self.count_further(calls.of(dose), dose, "decline") for dose in _doses(calls, name)}
        return {f"{dose}/decline": counted.reading if counted else UNKNOWN_ORDER for dose, counted in declined.items()}

    def count_further(self, calls: PointTable, condition: str, axis: str) -> Counted | None:
        """Count the calls below the baseline, for the decline."""
        return declines(calls, condition) if axis == "decline" else None

    def right_answer(self, label: str, answers: Sequence[str], design: str) -> str:
        """Go down one label for each dose."""
        return answers[max(0, answers.index(label) - int(design))]


USUAL = (ExpectedLabel, ReplicatesAgree, FallsWithDose)
"""The kinds that every report explains, whether or not it has such a test."""
LABEL = ExpectedLabel("the expected answer")
"""Of conditions that no known test writes: what their items carry is expected."""
UNCHANGED = ExpectedLabel("answer unchanged")


def _above(scale: Scale) -> str:
    return "" if scale.lowest is None else ", whose own label is above the lowest"


def _can_fall(calls: PointTable) -> Mask:
    """Calls on sources whose own label, as their baseline carries it wherever it comes from, is not the lowest."""
    lowest = (calls.test == BASELINE) & (calls.label == calls.scale.lowest)
    return ~np.isin(calls.original, calls.original[lowest])


def _doses(calls: PointTable, test: str) -> list[str]:
    """Return the dose conditions there are, from the smallest on."""
    dose = re.compile(rf"{re.escape(test)}_([0-9]+)")
    doses = {condition: int(match[1]) for condition in set(calls.test) if (match := dose.fullmatch(condition))}
    return sorted(doses, key=lambda condition: doses[condition])


def _joined(stages: Iterable[Sequence[npt.NDArray[np.intp]]]) -> npt.NDArray[np.intp]:
    rows = [row for own in stages for row in own]
    return np.concatenate([*rows, np.array([], dtype=np.intp)])


def declines(calls: PointTable, condition: str) -> Counted | None:
    """Count the calls of a dose strictly below the judge's own baseline answer; None as for `count`."""
    if not calls.scale.ordered:
        return None
    paired = calls.where(np.asarray((calls.base_outcome != "") & (calls.base_label != calls.scale.lowest)))
    # NaN, for an abstention, is below nothing.
    below = paired.scale.places(paired.answer) < paired.scale.places(paired.base_answer)
    return Counted(units=paired.paired(f"{condition} calls with a baseline{_above(calls.scale)}"), hits=below)


def _stages(calls: PointTable, conditions: Sequence[str]) -> dict[int, list[npt.NDArray[np.intp]]]:
    """Rows of each condition in order, by source and rubric, where there are one baseline item and all conditions."""
    of_condition = [np.asarray(calls.test == condition) for condition in conditions]
    stages = {}
    for original in np.unique(calls.original[calls.n_bases == 1]):
        own = [np.flatnonzero(stage & (calls.original == original)) for stage in of_condition]
        if all(len(stage) for stage in own):
            stages[int(original)] = own
    return stages


def _falls(stages: Sequence[npt.NDArray[np.float64]]) -> bool:
    # The stage with most replicates decides how many chains there are; the others are counted round.
    replicates = np.arange(max(len(stage) for stage in stages))
    grades = np.stack([stage[replicates % len(stage)] for stage in stages])
    # NaN, for an abstention, makes every comparison false.
    return bool((np.diff(grades, axis=0) <= 0).all() and (grades[-1] < grades[0]).all())
