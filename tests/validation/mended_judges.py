"""Judges whose fault a named change switches off: is it found and proven, and nothing else?

A judge of the suite `datasheet` answers 10 % of its calls by chance. Its faults (it takes the
first of equal answers, or the padded one) are made smaller by the changes of its world, alone or
together; a change may also cost ability. The search, under a cap of ten times what the run has
cost, and the decision are those of `jrh.repair`; questions of the held-out half are asked as often
as the cap allows, of some judges once, as where the temperature is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pandas as pd

from jrh_mlflow.judges.scripted import AlwaysTie
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.schema.items import FILLER, LADDERS
from jrh_mlflow.show.results import measure
from jrh_mlflow.suites import datasheet_suite
from jrh_mlflow.sweeps import mending
from jrh_mlflow.sweeps.interventions import INTERVENTIONS, RepairArm
from jrh_mlflow.sweeps.sweep import suite_halves
from tests.validation.loop import ALPHA, LOW, Part, Simulation, check_share
from tests.validation.simulated_judges import asked_calls

NOISE = 0.1
"""Share of answers by chance,"""
SIZE = 0.6
"""and of equal pairs that a fault decides."""
CAP = 10
"""Times what the run has cost."""
_ALIKE = ("sentence", "tie_criterion", "answer_style", "temperature")
"""Changes that these judges may know; the others mend some faults by themselves."""


@dataclass(frozen=True, kw_only=True)
class FaultyJudge:
    """Faults, and what each change leaves of them."""

    name: str
    slot: Mapping[str, float] | None = None
    """Change to the part of the pull of the first slot that it leaves; None: no such fault."""
    padding: Mapping[str, float] | None = None
    costs: Mapping[str, float] = field(default_factory=dict)
    """Change to the ability that it costs."""
    right: frozenset[str] = frozenset()
    """Changes that must be recommended; none: nothing may be."""
    samples: bool = True
    """Whether a question that is asked again is answered by chance again; else asked once."""

    def __str__(self):
        return self.name

    def size(self, fault, arm):
        """Return how often a fault decides under an arm."""
        left = self.slot if fault == "slot" else self.padding
        if left is None:
            return 0.0
        return SIZE * float(np.prod([left.get(change.name, 1.0) for change in arm.changes]))

    def truth(self, axis, arm):
        """Return what a lean truly reads: chance pulls to neither side."""
        return (1 - NOISE) * self.size("padding" if axis == "padding_lean" else "slot", arm)


@cache
def _halves():
    return [{item.task for item in half.items} for half in suite_halves(datasheet_suite(), seed=0)]


@cache
def _calls():
    return normalise(asked_calls(AlwaysTie(), datasheet_suite()))


def answers_of(judge, arm, rng, tasks=None, *, asks=1):
    """Draw the answers of a judge under an arm, on all tasks or on some."""
    calls = _calls()
    if tasks is not None:
        calls = calls[calls["task"].isin(tasks)]
    calls = pd.concat([calls.assign(replicate=ask) for ask in range(asks)], ignore_index=True)
    n = len(calls)
    first_is_u = (calls["order"] == "uv").to_numpy()
    ladder = calls["condition"].isin(LADDERS).to_numpy()
    padded = (calls["condition"] == FILLER).to_numpy()
    first_is_better = first_is_u == (calls["better"] == "u").to_numpy()
    loss = sum(judge.costs.get(change.name, 0.0) for change in arm.changes) / (1 - NOISE)
    takes_first = first_is_better ^ (rng.random(n) < loss)
    answer = np.where(ladder, np.where(takes_first, "1", "2"), "tie").astype(object)
    by_slot = ~ladder & ~padded & (rng.random(n) < judge.size("slot", arm))
    by_padding = padded & (rng.random(n) < judge.size("padding", arm))
    answer[by_slot] = "1"
    answer[by_padding] = np.where(first_is_u, "2", "1")[by_padding]
    by_chance = rng.random(n) < NOISE
    answer = np.where(by_chance, rng.choice(["1", "2", "tie"], n), answer)
    tie = answer == "tie"
    outcome = np.where(tie, "tie", "verdict")
    return calls.assign(outcome=outcome, answer=np.where(tie, "", answer))


class _Budget:
    """What is left of the cap of a repair, in calls."""

    def __init__(self, judge, rng, n_calls):
        self.judge = judge
        self.rng = rng
        self.half = n_calls / 2
        self.left = float(CAP * n_calls)

    def ask(self, arm):
        """Ask an arm on the search half; None where the rest is needed to decide."""
        if self.left < (2 + mending.MOST_DECIDED) * self.half:
            return None
        self.left -= self.half
        return self.asked(arm, _halves()[0])

    def asked(self, arm, tasks, *, asks=1):
        """Return the answers under an arm."""
        records = answers_of(self.judge, arm, self.rng, tasks, asks=asks)
        return mending.AskedArm(arm=arm, records=records)


def _repair(judge, rng):
    """Search and decide as `jrh.repair`: how many arms were decided, and what is recommended."""
    search, holdout = _halves()
    unchanged = RepairArm()
    calls = answers_of(judge, unchanged, rng)
    problems = [finding.axis for finding in measure(calls, n_resamples=20).verdict.problems]
    arms = [
        RepairArm(changes=(change,))
        for change in INTERVENTIONS
        if change.may_mend(problems) and change.what in _ALIKE
    ]
    axes = mending.problem_axes(problems)
    budget = _Budget(judge, rng, len(calls))
    searched = calls[calls["task"].isin(search)].reset_index(drop=True)
    base = mending.AskedArm(arm=unchanged, records=searched)
    finalists = mending.finalists(mending.search_arms(base, arms, axes, budget.ask))
    if not finalists:
        return 0, None
    asks = 1
    if judge.samples:
        asks = mending.asks_afforded(budget.left, (1 + len(finalists)) * budget.half)
    first, *others = [budget.asked(arm, holdout, asks=asks) for arm in (unchanged, *finalists)]
    decisions = mending.decide_arms(mending.Mending(unchanged=first, arms=others, problems=axes))
    return len(finalists), mending.recommended(decisions)


def _run(judge, batch):
    rng = batch.rng(judge)
    for _ in batch.runs:
        n_decided, best = _repair(judge, rng)
        changes = frozenset() if best is None else best.asked.arm.names
        yield {
            "decided arms": n_decided,
            "anything recommended": bool(changes),
            "found and proven": judge.right <= changes and _is_proven(judge, best),
            "it alone": judge.right == changes,
            "costly": bool(changes & judge.costs.keys()),
            "improvement held": None if best is None else _improvement_held(judge, best),
        }


def _is_proven(judge, best):
    """Whether every fault that the judge has is shown to be smaller, on one of its axes."""
    if best is None:
        return False
    better = {change.axis for change in best.better}
    padding = judge.padding is None or "padding_lean" in better
    slot = judge.slot is None or bool(better - {"padding_lean"})
    return padding and slot


def _improvement_held(judge, best):
    """Whether the first improvement of a lean holds the truth; None where none is stated."""
    for change in best.better:
        if change.axis in mending.LEANS and change.axis != "positional_excess":
            before = judge.truth(change.axis, RepairArm())
            truth = before - judge.truth(change.axis, best.asked.arm)
            ends = (change.low, change.high)
            return None not in ends and ends[0] <= truth <= ends[1]
    return None


_ORDER = "order says nothing"
_LONGER = "longer is not better"
_TIES = "when a tie is right"
_DIGITS = "slots as digits"
_PADDING = FaultyJudge(
    name="padding, by a sentence", padding={_LONGER: 0.0}, right=frozenset({_LONGER})
)
_BOTH = FaultyJudge(
    name="slot and padding, by a pair",
    slot={_ORDER: 0.0},
    padding={_LONGER: 0.0},
    right=frozenset({_ORDER, _LONGER}),
)
_WORLDS = (
    FaultyJudge(name="slot, by a sentence", slot={_ORDER: 0.0}, right=frozenset({_ORDER})),
    FaultyJudge(name="slot, by digits", slot={_DIGITS: 0.0}, right=frozenset({_DIGITS})),
    _PADDING,
    _BOTH,
    FaultyJudge(
        name="slot, half by each of a pair",
        slot={_ORDER: 0.4, _TIES: 0.4},
        right=frozenset({_ORDER, _TIES}),
    ),
    *(replace(world, name=f"{world}, asked once", samples=False) for world in (_PADDING, _BOTH)),
    FaultyJudge(name="slot, by nothing", slot={}),
    FaultyJudge(name="padding, by nothing", padding={}),
    FaultyJudge(name="slot, at a cost of 0.20", slot={_ORDER: 0.0}, costs={_ORDER: 0.2}),
    FaultyJudge(name="padding, at a cost of 0.20", padding={_LONGER: 0.0}, costs={_LONGER: 0.2}),
)


def _checks(judge, runs):
    beside = ["decided arms"]
    if judge.right:
        # Of a judge that is asked once 14 pairs must do: it is shown what they tell.
        least = 0.8 if judge.samples else None
        beside += ["it alone", "anything recommended"]
        name = "right change found and proven"
        yield check_share(name, judge, runs, "found and proven", at_least=least, beside=beside)
        name = "stated improvement holds the truth"
        yield check_share(name, judge, runs, "improvement held", at_least=LOW)
    elif judge.costs:
        name = "recommended at a cost of 0.20"
        yield check_share(name, judge, runs, "costly", at_most=ALPHA, beside=beside)
    else:
        name = "recommended where nothing helps"
        yield check_share(name, judge, runs, "anything recommended", at_most=ALPHA, beside=beside)


REPAIRS = Simulation(
    worlds=_WORLDS, quick=_WORLDS[2:3], run=_run, checks=_checks, part=10, least=2, batch=5
)
PART = Part(word="repair", simulations=(REPAIRS,))
