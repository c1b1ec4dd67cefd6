"""The judges of the Judge Datasheet paper, scripted from its published counts (arXiv 2606.15610, Tables 3, 4, 6)."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.judges._base import AnsweringJudge
from jrh_mlflow.schema.criteria import Criterion, criterion
from jrh_mlflow.schema.items import DELTA_0, DELTA_0_SAME, LADDER, VACUUM, Call, Item
from jrh_mlflow.suites.suite import Suite


@cache
def published() -> dict[str, dict[str, Any]]:
    """Return the published counts by profile name, with what was chosen where nothing was published."""
    text = resources.files("jrh_mlflow.judges").joinpath("profiles.json").read_text(encoding="utf-8")
    profiles: dict[str, dict[str, Any]] = json.loads(text)["profiles"]
    return profiles


def profile(name: str) -> Profile:
    """Return a judge of the paper by name.

    Raises:
        RecipeError: for an unknown name, with the nearest known one.
    """
    if name not in published():
        known = ", ".join(published())
        raise RecipeError(f"Unknown profile {name!r}.{suggest(name, published())} Known: {known}.")
    return Profile(name)


class Profile(AnsweringJudge):
    """Gives the published number of each answer, spread evenly over the items of a condition.

    On the default suite the counts are the published ones; on another size the rates are. What the paper did not
    ask (the vacuum and steps 2 to 4 of the strict arm, the controls) is not covered, so it is reported as not measured.
    """

    kind = "scripted"
    simulated = True
    inline = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts = published()[name]
        self.tie_criterion = criterion(self.counts["tie_criterion"])
        self._script: dict[tuple[str, str], str] = {}

    async def ask(self, call: Call) -> object:
        """Read the answer off the script."""
        return self._script[call.item.id, call.order]

    def fingerprint(self) -> str | None:
        """Identify by name: the counts are fixed."""
        return hashlib.sha256(self.name.encode()).hexdigest()

    def with_criterion(self, spec: str | Criterion) -> Profile:
        """Return the profile published for the same judge under another criterion.

        Raises:
            RecipeError: when the paper reports none.
        """
        wanted = criterion(spec)
        for name, counts in published().items():
            if counts["judge"] == self.counts["judge"] and counts["tie_criterion"] == wanted.name:
                return Profile(name)
        raise RecipeError(f"The paper reports no {wanted.name!r} arm for {self.counts['judge']}.")

    def covers(self, item: Item) -> bool:
        """Whether the paper asked this."""
        if item.condition in VACUUM:
            return "vacuum" in self.counts
        if item.condition == LADDER:
            return f"{item.delta:g}" in self.counts["ladder"]
        return item.condition == DELTA_0_SAME

    def begin(self, suite: Suite) -> None:
        """Write the script for a suite."""
        groups: dict[tuple[str, float | None], list[Item]] = defaultdict(list)
        for item in suite.items:
            if self.covers(item):
                condition = "vacuum" if item.condition in VACUUM else item.condition
                groups[condition, item.delta if condition == LADDER else None].append(item)
        self._script = {}
        for (condition, delta), items in groups.items():
            if condition == "vacuum":
                kinds = _spread(self.counts["vacuum"], len(items))
            elif condition in DELTA_0:
                kinds = _spread(self.counts["delta_0_same"], len(items))
            else:
                kinds = _spread(self.counts["ladder"][f"{delta:g}"], len(items))
            for item, kind in zip(items, kinds, strict=True):
                self._script[item.id, "uv"], self._script[item.id, "vu"] = _answers(kind, item)


def _spread(counts: dict[str, int], n_items: int) -> list[str]:
    """Give each item a kind of pair, mixed evenly in the published proportions (smooth weighted round-robin)."""
    total = sum(counts.values())
    left = dict.fromkeys(counts, 0)
    kinds = []
    for _ in range(n_items):
        for kind, count in counts.items():
            left[kind] += count
        chosen = max(left, key=lambda kind: left[kind])
        left[chosen] -= total
        kinds.append(chosen)
    return kinds


def _answers(kind: str, item: Item) -> tuple[str, str]:
    """Return the slots answered in the orders uv and vu."""
    better = "1" if item.better == "u" else "2"
    worse = "2" if better == "1" else "1"
    both: dict[str, Sequence[str]] = {
        "first_slot": ("1", "1"),
        "stable": ("1", "2"),
        "one_sided": ("1", "tie"),
        "no_preference": ("tie", "tie"),
        "right": (better, worse),
        "half_right": ("1", "1"),
        "right_or_tie": (better, "tie"),
        "wrong": (worse, better),
    }
    return both[kind][0], both[kind][1]
