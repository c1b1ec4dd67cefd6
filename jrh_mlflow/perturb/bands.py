"""Rewrites whose length and nearness to the original have limits that a user can set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jrh_mlflow.perturb._base import Check, Rewrite, parameter
from jrh_mlflow.perturb.checks import length_ratio, similar

LEAST_WORDS, MOST_WORDS = "Fewest words, as a multiple of the original's.", "Most words, as a multiple of them."
LEAST_ALIKE = "Least similarity with the original: below, it is off the subject."
MOST_ALIKE = "Most similarity with the original: above, it is an echo."


@dataclass(frozen=True, kw_only=True)
class BandedRewrite(Rewrite):
    """A rewrite whose text must have so many words, and be so like the original, besides what its `rules` say."""

    min_length: float = parameter(0.5, LEAST_WORDS)
    max_length: float = parameter(2.0, MOST_WORDS)
    min_similarity: float = parameter(0.1, LEAST_ALIKE)
    max_similarity: float = parameter(0.97, MOST_ALIKE)

    rules: ClassVar[tuple[Check, ...]]

    def __post_init__(self) -> None:
        check_band("length", self.min_length, self.max_length)
        check_band("similarity", self.min_similarity, self.max_similarity, most=1.0)
        bands = (length_ratio(self.min_length, self.max_length), similar(self.min_similarity, self.max_similarity))
        object.__setattr__(self, "checks", (*self.rules, *bands))


def check_band(of: str, low: float, high: float, *, most: float = float("inf")) -> None:
    """Refuse limits that nothing lies between.

    Raises:
        ValueError: stating the rule and the values.
    """
    if not 0 <= low <= high <= most:
        ends = "" if most == float("inf") else f" <= {most:g}"
        got = f"min_{of}={low:g}, max_{of}={high:g}"
        raise ValueError(f"`0 <= min_{of} <= max_{of}{ends}` must hold, but got {got}.")
