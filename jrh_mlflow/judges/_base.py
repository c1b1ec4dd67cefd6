"""The judge contract that the engine runs."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from jrh_mlflow.schema.criteria import BUILT_IN, Criterion, criterion

if TYPE_CHECKING:
    from typing_extensions import Self

    from jrh_mlflow.schema.items import Call, Item
    from jrh_mlflow.suites.suite import Suite


class Judge(ABC):
    """One judge configuration.

    Subclasses say what they are (`settings`, `prompt`) and answer calls (`ask`). A real judge looks at
    `call.presentation` only; scripted judges, being calibration weights, may look at the item.
    """

    name: str
    kind: str
    """`callable`, `scripted`, `prompted`, `mlflow` or `recorded`: the param `judge.kind`."""
    simulated = False
    inline = False
    """True when `ask` never waits, so that the engine need not schedule it."""
    tie_criterion: Criterion = BUILT_IN["allowed"]

    @abstractmethod
    async def ask(self, call: Call) -> object:
        """Answer one call: a bare value or an `Answer`. Whatever is raised becomes the outcome `error`."""

    def settings(self) -> dict[str, object]:
        """What makes this configuration this one; logged as params `judge.*`."""
        return {
            "model": self.name,
            "kind": self.kind,
            "tie_criterion": self.tie_criterion.name,
        }

    def prompt(self) -> str:
        """The text behind the verdicts, for `judge/prompt.txt`."""
        return f"Tie criterion ({self.tie_criterion.name}): {self.tie_criterion.text}\n"

    def fingerprint(self) -> str | None:
        """Identify the configuration, or None when two different judges could look the same."""
        return None

    def begin(self, suite: Suite) -> None:
        """Get ready for a suite, before the first call of a run."""

    def covers(self, item: Item) -> bool:
        """Whether the judge answers this item at all; a replayed paper has no answer to what it did not ask."""
        return True

    def with_criterion(self, spec: str | Criterion) -> Self:
        """Return the same judge under another tie criterion."""
        other = copy.copy(self)
        other.tie_criterion = criterion(spec)
        return other
