"""Audit of a suite: what shortcut judges read on its pairs or levels, and what in them gives the answer away."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, zip_longest
from typing import Any

import numpy as np

from jrh_mlflow.engine.calls import presentation_of
from jrh_mlflow.errors import SuiteError, check_known
from jrh_mlflow.judges.scripted import Shortcut, every_shortcut
from jrh_mlflow.perturb.languages import language_of, sentences_in
from jrh_mlflow.schema.estimates import Estimate, plain_fields
from jrh_mlflow.schema.items import LADDER_MATCHED, SINGLE_LADDERS, Item
from jrh_mlflow.schema.presentation import Presentation
from jrh_mlflow.scoring.ledger import Units, estimate_share
from jrh_mlflow.suites import Suite

LOW, HIGH = 0.40, 0.60
"""What a shortcut may read where it must not pay."""
MATCHED = (LADDER_MATCHED, SINGLE_LADDERS[1])
"""Conditions written so that no shortcut pays."""
SHOWN = 5
"""How many pairs and sentences are named for a shortcut that pays."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShortcutReading:
    """What one shortcut reads in one condition, pooled over delta."""

    shortcut: str
    direction: str
    condition: str
    estimate: Estimate
    """Share of pairs in which the better content is preferred; one that is preferred in one order only is half."""
    judged: bool
    """Whether the rule holds in this condition."""

    @property
    def within(self) -> bool:
        """Whether the share itself lies within the limits, as it must in the built-in suites."""
        return LOW <= self.estimate.value <= HIGH

    @property
    def fails(self) -> bool:
        """Whether the rule holds here and the interval by task lies wholly outside the limits."""
        interval = self.estimate.cluster_interval
        return self.judged and interval is not None and (interval[0] > HIGH or interval[1] < LOW)


@dataclass(frozen=True, kw_only=True, slots=True)
class TellingPair:
    """A pair whose better content a shortcut tells by a wide margin."""

    item: str
    margin: float
    """Score of the better content beyond that of the other, in the shortcut's direction."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TellingSentence:
    """Two sentences that stand in each other's place and move a shortcut towards the better content."""

    task: str
    better: str
    """As the better content has it; empty where it has nothing in this place."""
    worse: str
    """As the other content has it; empty where it has nothing in this place."""
    n_pairs: int
    """Pairs in which they face one another."""
    share: float
    """Of the margins of all pairs that the shortcut gets right: what is lost when the two change places, halved."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Giveaway:
    """What to mend where a shortcut pays."""

    shortcut: str
    direction: str
    condition: str
    pairs: tuple[TellingPair, ...]
    sentences: tuple[TellingSentence, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteAudit:
    """What every shortcut reads on a suite, in both directions."""

    suite: str
    sha256: str
    readings: tuple[ShortcutReading, ...]
    giveaways: tuple[Giveaway, ...]
    """For each shortcut that pays, in the direction in which it does."""

    @property
    def conditions(self) -> list[str]:
        """Conditions with a better content, in the suite's order."""
        return list(dict.fromkeys(reading.condition for reading in self.readings))

    @property
    def judged(self) -> list[str]:
        """Conditions in which the rule holds."""
        return list(dict.fromkeys(reading.condition for reading in self.readings if reading.judged))

    @property
    def failed(self) -> list[ShortcutReading]:
        """Readings that break the rule."""
        return [reading for reading in self.readings if reading.fails]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        readings = [
            plain_fields(reading) | {"within": reading.within, "fails": reading.fails} for reading in self.readings
        ]
        return plain_fields(self) | {"low": LOW, "high": HIGH, "readings": readings, "passed": not self.failed}


def audit_suite(suite: Suite, *, conditions: Collection[str] | None = None, seed: int = 0) -> SuiteAudit:
    """Run every shortcut judge in both directions over the pairs of a suite that have a better content.

    Of single responses of known level any two levels of a task make such a pair.

    Args:
        suite: With pairs that have a better content: a ladder, natural pairs.
        conditions: Where no shortcut may pay; the matched ladder, where there is one, when None.
        seed: Of the coin between equal scores.

    Raises:
        SuiteError: when there is nothing to read, or a condition that no pair has.
    """
    if not suite.has_texts:
        raise SuiteError(f"Suite {suite.name!r} was replayed from recorded judgments and has no texts to audit.")
    by_condition: dict[str, list[Item]] = defaultdict(list)
    for item in (*suite.items, *_level_pairs(suite.items)):
        if item.kind == "pair" and item.better is not None:
            by_condition[item.condition].append(item)
    if not by_condition:
        raise SuiteError(f"Suite {suite.name!r} has no pair with a better content, so no shortcut can be read on it.")
    for condition in conditions or ():
        check_known("condition", condition, by_condition)
    judged = set(MATCHED if conditions is None else conditions)
    shortcuts = list(every_shortcut(seed=seed))
    readings: list[ShortcutReading] = []
    giveaways: list[Giveaway] = []
    for condition, items in by_condition.items():
        for shortcut in shortcuts:
            reading = _reading(shortcut, items, judged=condition in judged)
            readings.append(reading)
            # The other direction of the same shortcut reads the same thing from below.
            if reading.fails and reading.estimate.value > HIGH:
                giveaways.append(_giveaway(shortcut, items))
    return SuiteAudit(suite=suite.name, sha256=suite.sha256, readings=tuple(readings), giveaways=tuple(giveaways))


def _level_pairs(items: Sequence[Item]) -> list[Item]:
    """Return any two levels of a task on a ladder of single responses: pooled over distances, their share is an AUC."""
    chains: dict[tuple[str, str], list[Item]] = defaultdict(list)
    # By level, so that of any two the second is the better one.
    for item in sorted(items, key=lambda item: item.delta or 0.0):
        if item.condition in SINGLE_LADDERS:
            chains[item.task, item.condition].append(item)
    return [
        Item(
            id=f"{high.id} > {low.id}",
            task=low.task,
            condition=low.condition,
            instruction=low.instruction,
            rubric=low.rubric,
            u=low.response,
            v=high.response,
            better="v",
        )
        for chain in chains.values()
        for low, high in combinations(chain, 2)
    ]


def _reading(shortcut: Shortcut, items: Sequence[Item], *, judged: bool) -> ShortcutReading:
    tasks, clusters = np.unique([item.task for item in items], return_inverse=True)
    scores = np.array([_preferred(shortcut, item) for item in items], dtype=np.float64)
    units = Units(
        what=f"pairs in condition {items[0].condition}",
        unit="pair",
        usable=np.ones(len(items), dtype=bool),
        clusters=clusters,
        n_codes=len(tasks),
        left_out={},
    )
    estimate = estimate_share(units, scores, among=units.usable)
    return ShortcutReading(
        shortcut=type(shortcut).__name__,
        direction=shortcut.direction,
        condition=items[0].condition,
        estimate=estimate,
        judged=judged,
    )


def _preferred(shortcut: Shortcut, item: Item) -> float:
    """Share of the two orders in which the better content is chosen: two orders of one pair are one observation.

    Of two levels: whether the higher one scores more where each is shown alone, ties half.
    """
    if item.condition in SINGLE_LADDERS:
        low, high = (_score_alone(shortcut, item.instruction or "", text or "") for text in (item.u, item.v))
        # Sums of the same numbers in another order may differ in the last digit.
        is_tie = math.isclose(low, high, rel_tol=1e-9, abs_tol=1e-12)
        return 0.5 if is_tie else float((high > low) == (shortcut.direction == "more"))
    # Between equal scores the coin names one slot for both orders, and so each content once.
    margin = shortcut.margin(_better_first(shortcut, item))
    return 0.5 if margin == 0 else float(margin > 0)


@lru_cache(maxsize=4096)
def _score_alone(shortcut: Shortcut, instruction: str, response: str) -> float:
    return shortcut.score(response, Presentation(kind="response", instruction=instruction, response=response))


def _giveaway(shortcut: Shortcut, items: Sequence[Item]) -> Giveaway:
    shown = {item.id: _better_first(shortcut, item) for item in items}
    margins = {name: shortcut.margin(presentation) for name, presentation in shown.items()}
    right = sorted((name for name in margins if margins[name] > 0), key=lambda name: (-margins[name], name))
    worth: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for item in items:
        for better, worse in _facing(shown[item.id]):
            changed = _changed_places(shown[item.id], better, worse)
            # Halved: to change places takes the worth from one content and gives it to the other.
            worth[item.task, better, worse].append((margins[item.id] - shortcut.margin(changed)) / 2)
    total = sum(margins[name] for name in right)
    telling = sorted((key for key in worth if sum(worth[key]) > 0), key=lambda key: (-sum(worth[key]), key))
    return Giveaway(
        shortcut=type(shortcut).__name__,
        direction=shortcut.direction,
        condition=items[0].condition,
        pairs=tuple(TellingPair(item=name, margin=margins[name]) for name in right[:SHOWN]),
        sentences=tuple(
            TellingSentence(
                task=key[0], better=key[1], worse=key[2], n_pairs=len(worth[key]), share=sum(worth[key]) / total
            )
            for key in telling[:SHOWN]
        ),
    )


def _better_first(shortcut: Shortcut, item: Item) -> Presentation:
    return presentation_of(item, "uv" if item.better == "u" else "vu", shortcut.tie_criterion)


def _facing(shown: Presentation) -> list[tuple[str, str]]:
    """Pair the sentences that only the first content has with those that only the second has, in their order."""
    code = language_of(shown.instruction)
    first, second = (sentences_in(text or "", code) for text in (shown.first, shown.second))
    own = (
        [sentence for sentence in first if sentence not in second],
        [sentence for sentence in second if sentence not in first],
    )
    return list(zip_longest(*own, fillvalue=""))


def _changed_places(shown: Presentation, first: str, second: str) -> Presentation:
    return replace(shown, first=_put(shown.first or "", first, second), second=_put(shown.second or "", second, first))


def _put(text: str, old: str, new: str) -> str:
    return text.replace(old, new, 1) if old else f"{text} {new}"
