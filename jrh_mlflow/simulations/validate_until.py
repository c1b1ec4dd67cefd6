"""Suites of known answers asked until rules are decided: how often wrongly, and how many calls that took.

A decision is wrong when it is not that of the whole suite. Limits lie on the whole suite's reading and right beside it,
where errors are most frequent; answers of a real judge, recorded, say what is saved on a grid of limits that knows
nothing of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product

import numpy as np

from jrh_mlflow.engine.calls import random_order
from jrh_mlflow.measures.rules import State, decide
from jrh_mlflow.measuring.recorded.answers import CRITERIA, RecordedJudge, llmbar_records, recorded_records
from jrh_mlflow.measuring.until import CallKey, Countable, Goal, Until, UntilStop, bound_axes, until
from jrh_mlflow.schema.items import DELTA_0_SAME, VACUUM, Call, CallRecord, Item
from jrh_mlflow.schema.presentation import Presentation
from jrh_mlflow.simulations.decision_checks import DecisionCheck, SimulationSize, number_check, share_check
from jrh_mlflow.simulations.validate import Map

ALPHA = 0.05
GOAL = 0.5
"""Largest mean share of calls, of those that a rule is about, on the recorded judges."""
GRID = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Limits, whatever the judge reads."""
LLMBAR_AXES = ("natural/accuracy", "natural/stable_correct", "natural/positional", "natural/judgebench_accuracy")
DATASHEET_AXES = (
    "dark_current",
    "raw_false_preference",
    "positional_false_preference",
    "target_sensitivity/delta_1",
    "filler_preference",
)
_CHUNK = 25
_SHOWN = Presentation(kind="pair", instruction="", first="", second="", answers=("1", "2", "tie"))


@dataclass(frozen=True, kw_only=True)
class Population:
    """A suite with all its answers, and the rules it is asked for."""

    name: str
    items: tuple[Item, ...]
    answers: Mapping[CallKey, CallRecord] = field(repr=False)
    rules: tuple[str, ...]

    @property
    def calls(self) -> list[Call]:
        """All of them, in the order of the suite."""
        return [
            Call(item=item, order=order, replicate=0, presentation=_SHOWN)
            for item in self.items
            for order in item.orders
        ]

    def truth(self, goal: Goal, axis: Countable) -> State:
        """Return what the whole suite's reading decides: the share of hits among the usable units."""
        assert goal.rule is not None
        items = [item for item in self.items if item.id in axis.items]
        answers = [(item, [self.answers[item.id, order, 0] for order in item.orders]) for item in items]
        if not axis.paired:
            answers = [(item, [record]) for item, records in answers for record in records]
        hits = [axis.hit(item, records) for item, records in answers]
        known = [hit for hit in hits if hit is not None]
        value = sum(known) / len(known)
        return decide(goal.rule, value, value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """What came of one run."""

    wrong: int
    """Rules decided otherwise than by the whole suite."""
    undecided: int
    share: float
    """Calls asked, of those that the rules are about."""


def play(population: Population, seed: str | None, *, level: float = 1 - ALPHA) -> Played:
    """Ask one call after the other in the order that the seed draws, or as the suite has them; look after each."""
    stop = until(population.rules, level=level)
    axes = bound_axes(stop, population.items)
    needed = frozenset().union(*(axis.items for axis in axes))
    single = frozenset().union(*(axis.items for axis in axes if not axis.paired))
    calls = [call for call in population.calls if call.item.id in needed]
    if seed is not None:
        calls = random_order(calls, seed, whole=lambda item: item.id not in single)
    bound = UntilStop(until=stop, calls=calls, axes=axes, n_planned=len(calls))
    for call in calls:
        if bound.needs(call) and bound(population.answers[call.item.id, call.order, 0]):
            break
    return _played(population, stop, axes, bound)


def _played(population: Population, stop: Until, axes: Sequence[Countable], bound: UntilStop) -> Played:
    report = bound.report()
    states = [rule.state for rule in report.rules]
    truths = [population.truth(goal, axis) for goal, axis in zip(stop.goals, axes, strict=True)]
    wrong = sum(state not in ("undecided", truth) for state, truth in zip(states, truths, strict=True))
    return Played(wrong=wrong, undecided=states.count("undecided"), share=report.asked / report.needed)


def made_up(name: str, *rules: str, vacuum: int = 0, both: int = 0, lost: int = 0, n: int = 60) -> Population:
    """Return a suite of `n` empty pairs and as many of equal quality whose hits all stand first.

    Args:
        name: Of the design.
        rules: What is to be decided.
        vacuum: Calls on empty pairs that prefer a side.
        both: Pairs of equal quality that prefer the first slot twice.
        lost: Calls on empty pairs without an answer, spread evenly.
        n: Pairs of either kind.
    """
    empty = [Item(id=f"v{at:04}", task=f"t{at % 10}", condition=VACUUM[0], u="", v="") for at in range(n)]
    equal = [
        Item(id=f"e{at:04}", task=f"t{at % 10}", condition=DELTA_0_SAME, delta=0.0, u="a", v="b") for at in range(n)
    ]
    keys = [(item, order) for item in empty for order in item.orders]
    outcomes: dict[tuple[str, str], str] = {
        (item.id, order): "1" if at < vacuum else "tie" for at, (item, order) in enumerate(keys)
    }
    for at in range(lost):
        item, order = keys[at * len(keys) // lost]
        outcomes[item.id, order] = ""
    outcomes |= {
        (item.id, order): "1" if at < both else "tie" for at, item in enumerate(equal) for order in item.orders
    }
    items = tuple(empty + equal)
    return Population(name=name, items=items, rules=rules, answers=_answered(items, outcomes))


def _answered(items: Sequence[Item], said: Mapping[tuple[str, str], str]) -> dict[CallKey, CallRecord]:
    records: dict[CallKey, CallRecord] = {}
    for item in items:
        for order in item.orders:
            answer = said[item.id, order]
            records[item.id, order, 0] = CallRecord(
                suite_item=item.id,
                task=item.task,
                condition=item.condition,
                delta=item.delta,
                order=order,
                better=item.better or "",
                replicate=0,
                outcome="verdict" if answer == "1" else answer or "error",
                answer=answer if answer == "1" else "",
                expected="",
            )
    return records


_DARK, _RAW, _SLOT = "dark_current <= 0.1", "raw_false_preference <= 0.1", "positional_false_preference <= 0.1"
DESIGNS = (
    made_up("one call over the limit of a tenth", _DARK, vacuum=13),
    made_up("on the limit of a tenth", _DARK, vacuum=12),
    made_up("one call over the limit of a half", "dark_current <= 0.5", vacuum=61),
    made_up("one call under the limit of a half", "dark_current >= 0.5", vacuum=59),
    made_up("400 calls, two over the limit of a tenth", _DARK, vacuum=42, n=200),
    made_up("pairs, one over the limit", _SLOT, both=7),
    made_up("calls and pairs of the same pairs, on the limit", _RAW, _SLOT, both=6),
    made_up("three rules, two on the limit and one beside", _DARK, _RAW, "tie_rate/vacuum >= 0.9", vacuum=13, both=6),
    made_up("every 30th call lost, right over the limit", "dark_current <= 0.19", vacuum=24, lost=4),
)
QUICK = (DESIGNS[0], DESIGNS[6])


@cache
def llmbar(criterion: str, rule: str) -> Population:
    """Return the recorded judge on the pairs of LLMBar."""
    return _recorded(f"LLMBar, {criterion}", llmbar_records(criterion), rule)


@cache
def datasheet(criterion: str, slots: str, rule: str) -> Population:
    """Return a configuration of the recorded judge on the published datasheet design."""
    return _recorded(f"datasheet-paper, {criterion} {slots}", _datasheet_records(criterion, slots), rule)


@cache
def _datasheet_records(criterion: str, slots: str) -> list[CallRecord]:
    return recorded_records(RecordedJudge(criterion, slots), "datasheet-paper")


def _recorded(name: str, records: Sequence[CallRecord], rule: str) -> Population:
    items = {
        one.suite_item: Item(
            id=one.suite_item, task=one.task, condition=one.condition, delta=one.delta, better=one.better or None
        )
        for one in records
    }
    answers = {(one.suite_item, one.order, one.replicate): one for one in records}
    return Population(name=name, items=tuple(items.values()), answers=answers, rules=(rule,))


def check_until(size: SimulationSize, apply: Map) -> Sequence[DecisionCheck]:
    """Draw every design and every recorded judge: wrong decisions at most 5 %, calls asked at most half."""
    n = max(_CHUNK, size.n // 20)
    designs = QUICK if size.quick else DESIGNS
    chunks = [(design, size.seed, start) for design in designs for start in range(0, n, _CHUNK)]
    found = list(apply(_chunk, chunks))
    per_design = len(found) // len(designs)
    checks = []
    for at, design in enumerate(designs):
        runs = [run for chunk in found[at * per_design : (at + 1) * per_design] for run in chunk]
        checks.append(_error_check(design, runs))
    return [*checks, *_recorded_checks(size, apply)]


def _chunk(job: tuple[Population, int, int]) -> list[Played]:
    population, seed, start = job
    name = zlib.crc32(population.name.encode())
    return [play(population, f"{seed}:{name}:{at}") for at in range(start, start + _CHUNK)]


def _error_check(design: Population, runs: Sequence[Played]) -> DecisionCheck:
    beside = {
        "share of calls": float(np.mean([run.share for run in runs])),
        "undecided": float(np.mean([run.undecided > 0 for run in runs])),
        "wrong in the suite's order": float(play(design, None).wrong > 0),
    }
    wrong = sum(run.wrong > 0 for run in runs)
    return share_check("decided wrongly while asking", design.name, wrong, len(runs), at_most=ALPHA, beside=beside)


Job = tuple[str, tuple[str, ...], int, int]
"""Which judge, on which axes; how many orders, and their seed."""


def _recorded_checks(size: SimulationSize, apply: Map) -> list[DecisionCheck]:
    """Ask the recorded judges under every rule of the grid, each rule by itself, in several orders."""
    orders = 1 if size.quick else max(2, size.n // 500)
    criteria = ("forced",) if size.quick else ("allowed", "forced")
    axes = LLMBAR_AXES[:1] if size.quick else LLMBAR_AXES
    jobs: list[Job] = [(f"llmbar {criterion}", axes, orders, size.seed) for criterion in criteria]
    if not size.quick:
        jobs += [(f"datasheet {one}", DATASHEET_AXES, orders, size.seed) for one in CRITERIA]
    return [check for checks in apply(_grid, jobs) for check in checks]


def _grid(job: Job) -> list[DecisionCheck]:
    (suite, criterion), axes, orders, seed = job[0].split(), *job[1:]
    rules = [f"{axis} <= {limit}" for axis, limit in product(axes, GRID)]
    populations = [
        llmbar(criterion, rule) if suite == "llmbar" else datasheet(criterion, "letters", rule) for rule in rules
    ]
    runs = [[play(each, f"{seed}:{at}") for at in range(orders)] for each in populations]
    shares = [float(np.mean([run.share for run in own])) for own in runs]
    every = [run for own in runs for run in own]
    wrong, n = sum(run.wrong for run in every), len(every)
    undecided = {"undecided": float(np.mean([run.undecided for run in every]))}
    design = f"recorded judge: {populations[0].name}, {len(rules)} rules"
    # The orders are the sample; the rules are the grid itself.
    error = float(np.std([run.share for run in every]) / np.sqrt(n))
    return [
        share_check("decided wrongly while asking", design, wrong, n, at_most=ALPHA, beside=undecided),
        number_check("mean share of calls asked", design, float(np.mean(shares)), error, n, at_most=GOAL),
    ]
