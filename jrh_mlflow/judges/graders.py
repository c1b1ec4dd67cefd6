"""A scripted pointwise judge with known accuracy on every test: the calibration weight of reliability reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jrh_mlflow.judges._draws import uniform
from jrh_mlflow.judges._scripted import Scripted
from jrh_mlflow.schema.items import BASELINE, ERROR_INJECTION, Call

if TYPE_CHECKING:
    from jrh_mlflow.stimuli.suite import Suite


class Grader(Scripted):
    """Gives the expected label with a known chance, and otherwise the next one.

    Draws are a hash of seed and item, so a run is repeatable call by call and replicates agree unless `flip` says
    otherwise. On `error_injection` it goes down one label per dose, with the accuracy of that dose.
    """

    def __init__(
        self,
        *,
        accuracy: float = 0.9,
        tests: Mapping[str, float] | None = None,
        flip: float = 0.0,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        """Set the rates.

        Args:
            accuracy: Chance of the expected label where `tests` says nothing, the baseline included.
            tests: Test to the chance of the expected label.
            flip: Chance that a single call is drawn anew, whatever the other replicates said.
            seed: Of all draws.
            name: What the judge is called.
        """
        super().__init__()
        self.name = name or self.name
        self.accuracy, self.tests, self.flip, self.seed = accuracy, dict(tests or {}), flip, seed
        rates = (accuracy, flip, *self.tests.values())
        if not all(0 <= rate <= 1 for rate in rates):
            raise ValueError(f"Rates must lie in [0, 1], but got {rates=}.")
        self._labels: dict[str, str] = {}

    def settings(self) -> dict[str, object]:
        """Name every rate."""
        return super().settings() | {
            "accuracy": self.accuracy,
            "tests": ", ".join(f"{name}: {rate:g}" for name, rate in self.tests.items()) or None,
            "flip": self.flip,
            "seed": self.seed,
        }

    def begin(self, suite: Suite) -> None:
        """Learn the label of every source, for items that only expect a decline."""
        self._labels = {
            item.task: item.expected for item in suite.items if item.condition == BASELINE and item.expected
        }

    def answer(self, call: Call) -> str:
        """Draw an answer with the rate of the item's test."""
        answers, item = call.presentation.answers, call.item
        again = uniform(self.seed, item.id, call.replicate, "again") < self.flip
        draw = uniform(self.seed, item.id, call.replicate if again else "", "right")
        right = answers.index(self._expected(call))
        if draw < self.tests.get(item.condition, self.accuracy):
            return answers[right]
        # The neighbour: one up, or down from the top.
        return answers[right + 1 if right + 1 < len(answers) else right - 1]

    def _expected(self, call: Call) -> str:
        item, answers = call.item, call.presentation.answers
        if item.expected is not None:
            return item.expected
        label = self._labels.get(item.task)
        if label is None or not item.condition.startswith(ERROR_INJECTION):
            raise ValueError(f"Grader has no expectation for condition {item.condition!r}.")
        dose = int(item.condition.rpartition("_")[2])
        return answers[max(0, answers.index(label) - dose)]
