"""Suites of known answers asked until rules are decided: how often wrongly, and how many calls that took.

A decision is wrong when it is not that of the whole suite. Limits lie on the whole suite's reading and right beside it,
where errors are most frequent; answers of a real judge, recorded, say what is saved on a grid of limits that knows
nothing of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product

import numpy as np

from jrh_mlflow.engine.calls import call_columns, random_order
from jrh_mlflow.measures.rules import State
from jrh_mlflow.measuring.recorded.answers import CRITERIA, RecordedJudge, llmbar_records, recorded_records
from jrh_mlflow.measuring.until import CallKey, Countable, Goal, UntilStop, bound_axes, until
from jrh_mlflow.schema.items import DELTA_0_SAME, VACUUM, Call, CallRecord, Item
from jrh_mlflow.schema.presentation import Presentation
from tests.validation import loop

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
        items = [item for item in self.items if item.id in axis.items]
        answers = [(item, [self.answers[item.id, order, 0] for order in item.orders]) for item in items]
        # An axis of calls counts each order by itself, one of pairs both together.
        if not axis.paired:
            answers = [(item, [record]) for item, records in answers for record in records]
        hits = [axis.hit(item, records) for item, records in answers]
        known = [hit for hit in hits if hit is not None]
        value = sum(known) / len(known)
        return goal.decide(value, value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """What came of one run."""

    wrong: int
    """Rules decided otherwise than by the whole suite."""
    undecided: int
    share: float
    """Calls asked, of those that the rules are about."""


def play(population: Population, seed: str | None, *, level: float = 1 - loop.ALPHA) -> Played:
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
        # Looked at after every call, which is when a rule that errs by looking often would show.
        if bound.needs(call) and bound(population.answers[call.item.id, call.order, 0]):
            break
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


def _answered(items: Sequence[Item], outcomes: Mapping[tuple[str, str], str]) -> dict[CallKey, CallRecord]:
    records: dict[CallKey, CallRecord] = {}
    for item in items:
        for order in item.orders:
            answer = outcomes[item.id, order]
            outcome, said = ("verdict", "1") if answer == "1" else (answer or "error", "")
            records[item.id, order, 0] = CallRecord(**call_columns(item, order, 0), outcome=outcome, answer=said)
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
        call.suite_item: Item(
            id=call.suite_item, task=call.task, condition=call.condition, delta=call.delta, better=call.better or None
        )
        for call in records
    }
    answers = {(call.suite_item, call.order, call.replicate): call for call in records}
    return Population(name=name, items=tuple(items.values()), answers=answers, rules=(rule,))


def _played_orders(population: Population, batch: loop.Batch) -> Iterator[Played]:
    name = zlib.crc32(population.name.encode())
    return (play(population, f"{batch.seed}:{name}:{run}") for run in batch.runs)


def _error_check(design: Population, runs: Sequence[Played]) -> Iterator[loop.DecisionCheck]:
    beside = {
        "share of calls": float(np.mean([run.share for run in runs])),
        "undecided": float(np.mean([run.undecided > 0 for run in runs])),
        "wrong in the suite's order": float(play(design, None).wrong > 0),
    }
    wrong, n = sum(run.wrong > 0 for run in runs), len(runs)
    yield loop.decision_check(
        "decided wrongly while asking", design.name, wrong / n, n, at_most=loop.ALPHA, beside=beside
    )


ON_THE_LIMIT = loop.Simulation(
    worlds=loop.listed(DESIGNS, quick=(DESIGNS[0], DESIGNS[6])),
    ask=_played_orders,
    checks=_error_check,
    part=20,
    least=25,
    batch=25,
)


# --- recorded judges under every rule of the grid, each rule by itself, in several orders


RecordedGrid = tuple[Callable[[str], Population], tuple[str, ...], int]
"""A recorded judge under a rule, the axes of its rules, and the number of orders."""


def _grids(size: loop.SimulationSize, _: loop.Map) -> list[RecordedGrid]:
    if size.quick:
        return [(partial(llmbar, "forced"), LLMBAR_AXES[:1], 1)]
    orders = max(2, size.n // 500)
    return [
        *((partial(llmbar, criterion), LLMBAR_AXES, orders) for criterion in ("allowed", "forced")),
        *((partial(datasheet, criterion, "letters"), DATASHEET_AXES, orders) for criterion in CRITERIA),
    ]


def _played_rules(grid: RecordedGrid, batch: loop.Batch) -> Iterator[tuple[str, list[Played]]]:
    """Per rule: the judge, and what came of every order."""
    recorded, axes, orders = grid
    for axis, limit in product(axes, GRID):
        population = recorded(f"{axis} <= {limit}")
        yield population.name, [play(population, f"{batch.seed}:{order}") for order in range(orders)]


def _grid_checks(_: RecordedGrid, rules: Sequence[tuple[str, list[Played]]]) -> Iterator[loop.DecisionCheck]:
    shares = [float(np.mean([run.share for run in orders])) for _, orders in rules]
    every = [run for _, orders in rules for run in orders]
    wrong, n = sum(run.wrong for run in every), len(every)
    undecided = {"undecided": float(np.mean([run.undecided for run in every]))}
    design = f"recorded judge: {rules[0][0]}, {len(rules)} rules"
    # The orders are the sample; the rules are the grid itself.
    error = float(np.std([run.share for run in every]) / np.sqrt(n))
    yield loop.decision_check(
        "decided wrongly while asking", design, wrong / n, n, at_most=loop.ALPHA, beside=undecided
    )
    yield loop.decision_check("mean share of calls asked", design, float(np.mean(shares)), n, error=error, at_most=GOAL)


RECORDED = loop.Simulation(worlds=_grids, ask=_played_rules, checks=_grid_checks)
