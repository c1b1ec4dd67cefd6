"""Candidate answers assembled from a task's sentences, matched in length by the choice of wordings."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from jrh_mlflow.stimuli.tasks import State, Task

T = TypeVar("T")
States = Mapping[str, State]
"""Requirement id to state; a requirement that is not named is neutral."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One assembled answer."""

    text: str
    states: States
    wording: tuple[int, ...]
    """Which of the two wordings each sentence takes: opening, requirements in the task's order, closing."""

    @property
    def satisfied(self) -> list[str]:
        """Ids of the requirements met in full."""
        return sorted(name for name, state in self.states.items() if state == "satisfied")

    @property
    def half(self) -> list[str]:
        """Ids of the requirements met in part."""
        return sorted(name for name, state in self.states.items() if state == "half")


def rank(values: Iterable[T], *key: object) -> list[T]:
    """Order `values` by a hash of them and `key`: a seeded shuffle that is the same on every machine and version."""
    return sorted(values, key=lambda value: digest(*key, value))


def digest(*parts: object) -> str:
    """Hash the printed parts, kept apart from one another."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()


def sentences(task: Task, depth_ids: Sequence[str], candidate_states: States, wording: Sequence[int]) -> list[str]:
    """Return opening, one sentence per requirement of `depth_ids`, closing."""
    kept = [requirement for requirement in task.requirements if requirement.id in depth_ids]
    body = [
        requirement.wordings(candidate_states.get(requirement.id, "neutral"))[choice]
        for requirement, choice in zip(kept, wording[1:-1], strict=True)
    ]
    return [task.opening[wording[0]], *body, task.closing[wording[-1]]]


def join(parts: Sequence[str]) -> str:
    """Lay sentences out as an answer: opening, body, closing as paragraphs."""
    return "\n\n".join([parts[0], " ".join(parts[1:-1]), parts[-1]])


def candidates(task: Task, depth_ids: Sequence[str], states: States) -> list[Candidate]:
    """Assemble every mix of wordings of one quality."""
    n_sentences = len(depth_ids) + 2
    return [
        Candidate(text=join(sentences(task, depth_ids, states, wording)), states=states, wording=wording)
        for wording in itertools.product((0, 1), repeat=n_sentences)
    ]


def nearest(pool: Iterable[Candidate], length: float, *key: object) -> Candidate:
    """Return the candidate whose length is nearest to `length`; a hash breaks ties."""
    return min(pool, key=lambda one: (abs(len(one.text) - length), digest(*key, one.wording)))


def ladder(
    pools: Mapping[float, Sequence[Candidate]], *, order: Sequence[float], target: float
) -> dict[float, Candidate]:
    """Pick one candidate per level, all near `target` characters, their lengths rising in `order`.

    `order` is unrelated to quality, so the longer of two candidates says nothing of which is better.
    """
    chosen: dict[float, Candidate] = {}
    previous = 0
    for position, level in enumerate(order):
        longer = [one for one in pools[level] if len(one.text) > previous] or list(pools[level])
        chosen[level] = nearest(longer, target + 2 * (position - len(order) / 2), level)
        previous = len(chosen[level].text)
    return chosen


def surface_pair(pool: Sequence[Candidate], *key: object) -> tuple[Candidate, Candidate]:
    """Pick two candidates of one quality that share no wording and are nearly, but not exactly, of one length."""
    by_wording = {one.wording: one for one in pool}
    pairs = [(one, by_wording[tuple(1 - choice for choice in one.wording)]) for one in pool if one.wording[0] == 0]
    return min(pairs, key=lambda pair: (_gap(pair), digest(*key, pair[0].wording)))


def _gap(pair: tuple[Candidate, Candidate]) -> tuple[bool, int]:
    gap = abs(len(pair[0].text) - len(pair[1].text))
    return gap == 0, gap
