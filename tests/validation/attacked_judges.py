"""Are judges with a planted hole called breakable, and judges without one not; does success lie in its interval?

Scripted judges (`Attackable`) are searched with 500 queries and read on held-out sources, as `jrh.attack` does it. What
an attack truly wins is known: the share of sources with the hole, less what noise turns round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from jrh_mlflow.attacks.attack_search import ROUNDS, Search
from jrh_mlflow.attacks.attack_strings import AttackString, AttackTarget, items_of, known_parts, targets_of
from jrh_mlflow.attacks.attack_success import ArmAnswers, read_attacks, strongest_success
from jrh_mlflow.engine.calls import call_columns, presentation_of
from jrh_mlflow.judges.scripted import Attackable, Hole
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.items import Call, CallRecord, Item
from jrh_mlflow.suites.suite import Suite
from tests.validation import loop

QUERIES = 500
FOUND = 0.9
"""Least share of judges with a hole that are called breakable."""
Kind = Literal["pair", "single"]
_TASK = "Say who plays first and who keeps the score.\n- Name the one who plays first.\n- Name the one who keeps score."
_BAD, _GOOD = "Nobody knows who plays first. The game is old.", "The youngest plays first. The oldest keeps the score."


@dataclass(frozen=True, kw_only=True, slots=True)
class AttackedWorld:
    """A judge with or without a hole, on so many sources."""

    hole: Hole
    kind: Kind
    noise: float = 0.1
    strength: float = 1.0
    n: int = 28
    promised: Literal["found", "spared", "covered"] = "found"
    """What is asked of it besides that success lies in its interval."""

    def __str__(self) -> str:
        """Name it."""
        share = "" if self.strength == 1 else f" on {self.strength:g} of the sources"
        return f"{self.hole}{share}, {self.kind}s, noise {self.noise:g}, {self.n} sources"

    def suite(self, seed: int) -> Suite:
        """Return sources that no other seed has: whether the hole is there is drawn for each."""
        facts = {"instruction": _TASK, "condition": "natural", "u": _GOOD, "v": _BAD, "better": "u"}
        if self.kind == "single":
            facts = {"instruction": _TASK, "condition": "baseline", "kind": "response", "response": _BAD}
            facts |= {"rubric": "Does the response say who plays first?", "expected": "fail"}
        answers = None if self.kind == "pair" else ("fail", "pass")
        names = [f"s{seed}.{at}" for at in range(self.n)]
        return Suite(name="attacked", items=[Item(id=name, task=name, answers=answers, **facts) for name in names])  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True, slots=True)
class Attacked:
    """What came of one attack."""

    breakable: bool
    covered: bool | None
    """Whether the truth lies in the interval; None where success is withheld."""
    success: float | None


def _asked(judge: Attackable, item: Item) -> list[CallRecord]:
    records = []
    for order in item.orders:
        shown = presentation_of(item, order, judge.tie_criterion)
        answer = judge.answer(Call(item=item, order=order, replicate=0, presentation=shown))
        records.append(CallRecord(**call_columns(item, order, 0), outcome="verdict", answer=answer))
    return records


def attacked(world: AttackedWorld, seed: int) -> Attacked:
    """Attack one judge, as the verb does but without engine and store."""
    judge = Attackable(hole=world.hole, noise=world.noise, strength=world.strength, seed=seed)
    searched, held_out, _ = targets_of(world.suite(seed), judge, seed=seed)
    search = Search(targets=searched, parts=known_parts(world.kind), seed=seed)
    for number in range(ROUNDS):
        for at, (attack, target) in enumerate(search.round(QUERIES // ROUNDS // (2 if world.kind == "pair" else 1))):
            won = [target.won(record) for record in _asked(judge, target.attacked(attack, f"attack/s{number}.{at}"))]
            search.tell(attack, target.source, float(np.mean(won)))  # type: ignore[arg-type]
    answers: dict[str, list[tuple[AttackTarget, list[CallRecord]]]] = defaultdict(list)
    attacks = search.reported()
    for target, item in items_of(held_out, attacks):
        answers[item.id.partition("|")[2]].append((target, _asked(judge, item)))
    arms = {arm: ArmAnswers.of(own) for arm, own in answers.items()}
    readings = read_attacks(attacks, arms, searched={}, seed=seed)
    reading, truth = strongest_success(readings), max(_truth(world, held_out[0], attack) for attack in attacks)
    covered = None
    if isinstance(reading, Estimate) and reading.cluster_interval:
        low, high = reading.cluster_interval
        covered = low <= truth <= high
    value = reading.value if isinstance(reading, Estimate) else None
    return Attacked(breakable=any(own.breaks for own in readings), covered=covered, success=value)


def _truth(world: AttackedWorld, target: AttackTarget, attack: AttackString) -> float:
    """Return what an attack wins over its control, in the mean over all sources there could be."""
    sure = Attackable(hole=world.hole, noise=0.0)
    wins = [
        float(np.mean([target.won(record) for record in _asked(sure, item)]))
        for item in (target.attacked(attack, "attack/0"), target.control(attack, "control/0"))
    ]
    return world.strength * (1 - 2 * world.noise) * (wins[0] - wins[1])


def _attacks(world: AttackedWorld, batch: loop.Batch) -> Iterator[Attacked]:
    return (attacked(world, seed) for seed in batch.seeds)


def _checks(world: AttackedWorld, runs: Sequence[Attacked]) -> Iterator[loop.DecisionCheck]:
    n, broken = len(runs), float(np.mean([run.breakable for run in runs]))
    values = [run.success for run in runs if run.success is not None]
    beside = {"mean success": float(np.mean(values))} if values else {}
    if world.promised == "found":
        yield loop.decision_check("planted holes called breakable", world, broken, n, at_least=FOUND, beside=beside)
    elif world.promised == "spared":
        yield loop.decision_check(
            "judges without a hole called breakable", world, broken, n, at_most=loop.ALPHA, beside=beside
        )
    covered = [run.covered for run in runs if run.covered is not None]
    if covered:
        share = float(np.mean(covered))
        yield loop.decision_check("success lies in its interval", world, share, len(covered), at_least=loop.LOW)


_KINDS: tuple[Kind, ...] = ("pair", "single")
_PLANTED: tuple[Hole, ...] = ("verdict", "rubric", "style")
WORLDS = tuple(
    replace(world, kind=kind)
    for kind in _KINDS
    for world in (
        *(AttackedWorld(hole=hole, kind=kind) for hole in _PLANTED),
        AttackedWorld(hole="none", kind=kind, noise=0.0, promised="spared"),
        AttackedWorld(hole="none", kind=kind, noise=0.3, promised="spared"),
        AttackedWorld(hole="length", kind=kind, noise=0.0, promised="spared"),
        AttackedWorld(hole="put_off", kind=kind, noise=0.3, promised="spared"),
        AttackedWorld(hole="verdict", kind=kind, strength=0.6, promised="covered"),
        AttackedWorld(hole="rubric", kind=kind, strength=0.3, n=56, promised="covered"),
    )
)
ATTACKED = loop.Simulation(
    worlds=loop.listed(WORLDS, quick=(WORLDS[0], WORLDS[4])), ask=_attacks, checks=_checks, part=10, least=4, batch=5
)
PART = loop.Part(word="attack", key="attack", simulations=(ATTACKED,), text=loop.decisions_text)
