"""What reliability suites are made from: labelled responses, and the labels they may carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Labels:
    """What a pointwise judge may answer."""

    answers: tuple[str, ...]
    """In order: levels from low to high; of labels the better one, or the one to be detected, last."""
    ordinal: bool = False

    def flipped(self, label: str) -> str:
        """Return the label of a response rewritten to mean the opposite.

        Of two labels the other one; of a scale the mirrored level (the lowest for the one in the middle); of several
        unordered labels the next one.

        Example:
            >>> Labels(answers=("1", "2", "3"), ordinal=True).flipped("2")
            '1'
        """
        place, last = self.answers.index(label), len(self.answers) - 1
        if not self.ordinal:
            return self.answers[(place + 1) % len(self.answers)]
        return self.answers[0 if 2 * place == last else last - place]


@dataclass(frozen=True, kw_only=True, slots=True)
class Seed:
    """One labelled response of a user's dataset: the source of perturbed items, and the cluster of the intervals."""

    id: str
    """The user's, or a hash of the content: the same row has the same id on every machine."""
    instruction: str
    """The task that the response answers."""
    response: str
    label: str
    """One of the answers of its `Labels`."""
    group: str | None = None
    """Group column, or the stratum it was sampled from."""
    meta: Mapping[str, Any] = field(default_factory=dict)
