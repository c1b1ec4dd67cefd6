"""Judges whose fault a named change switches off: is the right one found and proven, and nothing else recommended?

A judge of the suite `datasheet` answers 10 % of its calls by chance. Its faults (it takes the first of equal answers,
or the padded one) are made smaller by the changes of its world, alone or together; a change may also cost ability. The
search, under a cap of ten times what the run has cost, and the decision are those of `jrh.repair`; questions of the
held-out half are asked as often as the cap allows, of some judges once, as where the temperature is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from jrh_mlflow.judges.scripted import AlwaysTie
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.schema.items import FILLER, LADDERS
from jrh_mlflow.show.results import measure
from jrh_mlflow.suites import Suite, datasheet_suite
from jrh_mlflow.sweeps import mending
from jrh_mlflow.sweeps.interventions import INTERVENTIONS, RepairArm
from jrh_mlflow.sweeps.sweep import suite_halves
from tests.validation import loop
from tests.validation.simulated_judges import asked_calls

NOISE, SIZE = 0.1, 0.6
"""Share of answers by chance, and of equal pairs that a fault decides."""
CAP = 10
"""Times what the run has cost."""
_ALIKE = ("sentence", "tie_criterion", "answer_style", "temperature")
"""Changes that these judges may know; the others mend some faults by themselves."""


@dataclass(frozen=True, kw_only=True)
class FaultyJudge:
    """Faults, and what each change leaves of them."""

    name: str
    slot: Mapping[str, float] | None = None
    """Change to the part of the pull of the first slot that it leaves; None: there is no such fault."""
    padding: Mapping[str, float] | None = None
    costs: Mapping[str, float] = field(default_factory=dict)
    """Change to the ability that it costs."""
    right: frozenset[str] = frozenset()
    """Changes that must be recommended; none: nothing may be."""
    samples: bool = True
    """Whether it answers a question that is asked again by chance again; else each is asked once."""

    def __str__(self) -> str:
        """Name it."""
        return self.name

    def size(self, fault: str, arm: RepairArm) -> float:
        """Return how often a fault decides under an arm."""
        left: Mapping[str, float] | None = getattr(self, fault)
        return 0.0 if left is None else SIZE * float(np.prod([left.get(change.name, 1.0) for change in arm.changes]))

    def truth(self, axis: str, arm: RepairArm) -> float:
        """Return what a lean truly reads: chance pulls to neither side."""
        return (1 - NOISE) * self.size("padding" if axis == "padding_lean" else "slot", arm)


@cache
def _suite() -> Suite:
    return datasheet_suite()


@cache
def _halves() -> tuple[frozenset[str], frozenset[str]]:
    search, holdout = ({item.task for item in half.items} for half in suite_halves(_suite(), seed=0))
    return frozenset(search), frozenset(holdout)


@cache
def _calls() -> pd.DataFrame:
    return normalise(asked_calls(AlwaysTie(), _suite()))


@cache
def _asked(tasks: frozenset[str] | None, asks: int) -> pd.DataFrame:
    own = _calls() if tasks is None else _calls()[_calls()["task"].isin(tasks)]
    calls: pd.DataFrame = pd.concat([own.assign(replicate=ask) for ask in range(asks)], ignore_index=True)
    return calls


def answers_of(
    judge: FaultyJudge, arm: RepairArm, rng: loop.Rng, tasks: frozenset[str] | None = None, *, asks: int = 1
) -> pd.DataFrame:
    """Draw the answers of a judge under an arm, on all tasks or on some, asked once or several times."""
    calls = _asked(tasks, asks)
    order, condition = calls["order"].to_numpy(object), calls["condition"].to_numpy(object)
    ladder, padded = np.isin(condition, LADDERS), condition == FILLER
    n, loss = len(calls), sum(judge.costs.get(change.name, 0.0) for change in arm.changes)
    better_slot = np.where((calls["better"] == "u") == (order == "uv"), "1", "2")
    other = np.where(better_slot == "1", "2", "1")
    answer = np.where(ladder, np.where(rng.random(n) < loss / (1 - NOISE), other, better_slot), "tie").astype(object)
    by_slot = ~ladder & ~padded & (rng.random(n) < judge.size("slot", arm))
    by_padding = padded & (rng.random(n) < judge.size("padding", arm))
    answer = np.where(by_slot, "1", np.where(by_padding, np.where(order == "uv", "2", "1"), answer))
    answer = np.where(rng.random(n) < NOISE, rng.choice(np.array(["1", "2", "tie"], dtype=object), n), answer)
    tie = answer == "tie"
    drawn: pd.DataFrame = calls.assign(outcome=np.where(tie, "tie", "verdict"), answer=np.where(tie, "", answer))
    return drawn


class RepairRun(NamedTuple):
    """What came of one repair."""

    changes: frozenset[str]
    """Recommended; empty: nothing."""
    proven: bool
    """Whether every fault that the judge has is shown to be smaller, on one of its axes."""
    covered: bool | None
    """Whether the stated improvement holds the truth; None where none is stated."""
    n_decided: int


def _repaired(judge: FaultyJudge, rng: loop.Rng) -> RepairRun:
    unchanged, (search, holdout) = RepairArm(), _halves()
    run = answers_of(judge, unchanged, rng)
    found = measure(run, n_resamples=20).verdict.problems
    problems = mending.problem_axes(finding.axis for finding in found)
    arms = [
        RepairArm(changes=(change,))
        for change in INTERVENTIONS
        if change.may_mend(finding.axis for finding in found) and change.what in _ALIKE
    ]
    half = len(run) / 2
    left = float(CAP * len(run))

    def ask(arm: RepairArm) -> mending.AskedArm | None:
        nonlocal left
        if left < (2 + mending.MOST_DECIDED) * half:
            return None
        left -= half
        return mending.AskedArm(arm=arm, records=answers_of(judge, arm, rng, search))

    base = mending.AskedArm(arm=unchanged, records=run[run["task"].isin(search)].reset_index(drop=True))
    chosen = mending.finalists(mending.search_arms(base, arms, problems, ask))
    if not chosen:
        return RepairRun(frozenset(), proven=False, covered=None, n_decided=0)
    asks = mending.asks_afforded(left, (1 + len(chosen)) * half) if judge.samples else 1
    afresh = [
        mending.AskedArm(arm=arm, records=answers_of(judge, arm, rng, holdout, asks=asks))
        for arm in (unchanged, *chosen)
    ]
    decisions = mending.decide_arms(mending.Mending(unchanged=afresh[0], arms=afresh[1:], problems=problems))
    best = mending.recommended(decisions)
    if best is None:
        return RepairRun(frozenset(), proven=False, covered=None, n_decided=len(chosen))
    better = {change.axis for change in best.better}
    proven = not (judge.padding is not None and "padding_lean" not in better)
    proven = proven and not (judge.slot is not None and not better - {"padding_lean"})
    stated = [change for change in best.better if change.axis in mending.LEANS and change.axis != "positional_excess"][
        :1
    ]
    covered = None
    for change in stated:
        truth = judge.truth(change.axis, unchanged) - judge.truth(change.axis, best.asked.arm)
        covered = change.low is not None and change.high is not None and change.low <= truth <= change.high
    return RepairRun(best.asked.arm.names, proven, covered, len(chosen))


def _repairs(judge: FaultyJudge, batch: loop.Batch) -> Iterator[RepairRun]:
    rng = batch.rng(judge)
    return (_repaired(judge, rng) for _ in batch.runs)


_ORDER, _LONGER, _TIES = "order says nothing", "longer is not better", "when a tie is right"
_WORLDS = (
    FaultyJudge(name="slot, by a sentence", slot={_ORDER: 0.0}, right=frozenset({_ORDER})),
    FaultyJudge(name="slot, by digits", slot={"slots as digits": 0.0}, right=frozenset({"slots as digits"})),
    FaultyJudge(name="padding, by a sentence", padding={_LONGER: 0.0}, right=frozenset({_LONGER})),
    FaultyJudge(
        name="slot and padding, by a pair",
        slot={_ORDER: 0.0},
        padding={_LONGER: 0.0},
        right=frozenset({_ORDER, _LONGER}),
    ),
    FaultyJudge(name="slot, half by each of a pair", slot={_ORDER: 0.4, _TIES: 0.4}, right=frozenset({_ORDER, _TIES})),
    FaultyJudge(
        name="padding, by a sentence, asked once", padding={_LONGER: 0.0}, right=frozenset({_LONGER}), samples=False
    ),
    FaultyJudge(
        name="slot and padding, by a pair, asked once",
        slot={_ORDER: 0.0},
        padding={_LONGER: 0.0},
        right=frozenset({_ORDER, _LONGER}),
        samples=False,
    ),
    FaultyJudge(name="slot, by nothing", slot={}),
    FaultyJudge(name="padding, by nothing", padding={}),
    FaultyJudge(name="slot, at a cost of 0.20", slot={_ORDER: 0.0}, costs={_ORDER: 0.2}),
    FaultyJudge(name="padding, at a cost of 0.20", padding={_LONGER: 0.0}, costs={_LONGER: 0.2}),
)


def _checks(judge: FaultyJudge, runs: Sequence[RepairRun]) -> Iterator[loop.DecisionCheck]:
    n = len(runs)
    any_share = float(np.mean([bool(run.changes) for run in runs]))
    beside = {"decided arms": float(np.mean([run.n_decided for run in runs]))}
    if judge.right:
        found = float(np.mean([judge.right <= run.changes and run.proven for run in runs]))
        exactly = float(np.mean([judge.right == run.changes for run in runs]))
        beside |= {"it alone": exactly, "anything recommended": any_share}
        # Of a judge that is asked once 14 pairs must do: it is shown what they tell.
        promise = 0.8 if judge.samples else None
        yield loop.decision_check("right change found and proven", judge, found, n, at_least=promise, beside=beside)
        stated = [run.covered for run in runs if run.covered is not None]
        if stated:
            held = float(np.mean(stated))
            yield loop.decision_check("stated improvement holds the truth", judge, held, len(stated), at_least=loop.LOW)
    elif judge.costs:
        wrong = float(np.mean([bool(run.changes & judge.costs.keys()) for run in runs]))
        yield loop.decision_check("recommended at a cost of 0.20", judge, wrong, n, at_most=0.05, beside=beside)
    else:
        yield loop.decision_check("recommended where nothing helps", judge, any_share, n, at_most=0.05, beside=beside)


REPAIRS = loop.Simulation(
    worlds=loop.listed(_WORLDS, quick=_WORLDS[2:3]), ask=_repairs, checks=_checks, part=10, least=2, batch=5
)
PART = loop.Part(word="repair", key="repair", simulations=(REPAIRS,), text=loop.decisions_text)
