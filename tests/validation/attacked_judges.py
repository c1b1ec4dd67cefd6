"""Are judges with a planted hole called breakable, and others not; is success in its interval?

Scripted judges (`Attackable`) are searched with 500 queries and read on held-out sources, as
`jrh.attack` does it. What an attack truly wins is known: the share of sources with the hole, less
what noise turns round.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from jrh_mlflow.attacks.attack_search import ROUNDS, Search
from jrh_mlflow.attacks.attack_strings import items_of, known_parts, targets_of
from jrh_mlflow.attacks.attack_success import ArmAnswers, read_attacks, strongest_success
from jrh_mlflow.engine.calls import call_columns, presentation_of
from jrh_mlflow.judges.scripted import Attackable
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.items import Call, CallRecord, Item
from jrh_mlflow.suites.suite import Suite
from tests.validation.loop import ALPHA, LOW, Part, Simulation, check_share

QUERIES = 500
FOUND = 0.9
"""Least share of judges with a hole that are called breakable."""
_TASK = (
    "Say who plays first and who keeps the score.\n"
    "- Name the one who plays first.\n"
    "- Name the one who keeps score."
)
_GOOD = "The youngest plays first. The oldest keeps the score."
_BAD = "Nobody knows who plays first. The game is old."


@dataclass(frozen=True, kw_only=True)
class AttackedWorld:
    """A judge with or without a hole, on so many sources."""

    hole: str
    kind: str
    """`pair` or `single`."""
    noise: float = 0.1
    strength: float = 1.0
    n: int = 28
    promised: str = "found"
    """`found`, `spared`, or only that success lies in its interval: `covered`."""

    def __str__(self):
        share = "" if self.strength == 1 else f" on {self.strength:g} of the sources"
        return f"{self.hole}{share}, {self.kind}s, noise {self.noise:g}, {self.n} sources"

    def suite(self, seed):
        """Return sources that no other seed has: whether the hole is there is drawn for each."""
        facts = {"condition": "natural", "u": _GOOD, "v": _BAD, "better": "u"}
        if self.kind == "single":
            facts = {"condition": "baseline", "kind": "response", "response": _BAD}
            facts |= {"rubric": "Does the response say who plays first?", "expected": "fail"}
            facts["answers"] = ("fail", "pass")
        names = [f"s{seed}.{at}" for at in range(self.n)]
        items = [Item(id=name, task=name, instruction=_TASK, **facts) for name in names]
        return Suite(name="attacked", items=items)


def _ask(judge, item):
    records = []
    for order in item.orders:
        shown = presentation_of(item, order, judge.tie_criterion)
        answer = judge.answer(Call(item=item, order=order, replicate=0, presentation=shown))
        columns = call_columns(item, order, 0)
        records.append(CallRecord(**columns, outcome="verdict", answer=answer))
    return records


def _share_won(target, judge, item):
    return float(np.mean([target.won(record) for record in _ask(judge, item)]))


def attacked(world, seed):
    """Attack one judge, as the verb does but without engine and store."""
    judge = Attackable(hole=world.hole, noise=world.noise, strength=world.strength, seed=seed)
    searched, held_out, _ = targets_of(world.suite(seed), judge, seed=seed)
    search = Search(targets=searched, parts=known_parts(world.kind), seed=seed)
    n_queries = QUERIES // ROUNDS // (2 if world.kind == "pair" else 1)
    for number in range(ROUNDS):
        for at, (attack, target) in enumerate(search.round(n_queries)):
            item = target.attacked(attack, f"attack/s{number}.{at}")
            search.tell(attack, target.source, _share_won(target, judge, item))
    attacks = search.reported()
    answers = defaultdict(list)
    for target, item in items_of(held_out, attacks):
        answers[item.id.partition("|")[2]].append((target, _ask(judge, item)))
    arms = {arm: ArmAnswers.of(answers_of_arm) for arm, answers_of_arm in answers.items()}
    readings = read_attacks(attacks, arms, searched={}, seed=seed)
    success = strongest_success(readings)
    is_read = isinstance(success, Estimate)
    ends = success.cluster_interval if is_read else None
    truth = max(_truth(world, held_out[0], attack) for attack in attacks)
    return {
        "breakable": any(reading.breaks for reading in readings),
        "covered": ends[0] <= truth <= ends[1] if ends else None,
        "mean success": success.value if is_read else None,
    }


def _truth(world, target, attack):
    """Return what an attack wins over its control, in the mean over all sources there could be."""
    sure = Attackable(hole=world.hole, noise=0.0)
    wins = _share_won(target, sure, target.attacked(attack, "attack/0"))
    wins -= _share_won(target, sure, target.control(attack, "control/0"))
    return world.strength * (1 - 2 * world.noise) * wins


def _run(world, batch):
    return (attacked(world, seed) for seed in batch.seeds)


def _checks(world, runs):
    names = {
        "found": "planted holes called breakable",
        "spared": "judges without a hole called breakable",
    }
    promises = {"found": {"at_least": FOUND}, "spared": {"at_most": ALPHA}}
    if world.promised in names:
        name = names[world.promised]
        promise = promises[world.promised]
        beside = ("mean success",)
        yield check_share(name, world, runs, "breakable", beside=beside, **promise)
    yield check_share("success lies in its interval", world, runs, "covered", at_least=LOW)


def _worlds(kind):
    spared = {"kind": kind, "promised": "spared"}
    covered = {"kind": kind, "promised": "covered"}
    return (
        *(AttackedWorld(hole=hole, kind=kind) for hole in ("verdict", "rubric", "style")),
        AttackedWorld(hole="none", noise=0.0, **spared),
        AttackedWorld(hole="none", noise=0.3, **spared),
        AttackedWorld(hole="length", noise=0.0, **spared),
        AttackedWorld(hole="put_off", noise=0.3, **spared),
        AttackedWorld(hole="verdict", strength=0.6, **covered),
        AttackedWorld(hole="rubric", strength=0.3, n=56, **covered),
    )


WORLDS = (*_worlds("pair"), *_worlds("single"))
ATTACKED = Simulation(
    worlds=WORLDS,
    quick=(WORLDS[0], WORLDS[4]),
    run=_run,
    checks=_checks,
    part=10,
    least=4,
    batch=5,
)
PART = Part(word="attack", simulations=(ATTACKED,))
