"""Suites of known answers asked until rules are decided: how often wrongly, and for how many calls.

A decision is wrong when it is not that of the whole suite. Limits lie on the whole suite's reading
and right beside it, where errors are most frequent; answers of a real judge, recorded, say what is
saved on a grid of limits that knows nothing of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from typing import Any

from jrh_mlflow.engine.calls import call_columns, random_order
from jrh_mlflow.measuring.recorded.answers import (
    CRITERIA,
    RecordedJudge,
    llmbar_records,
    recorded_records,
)
from jrh_mlflow.measuring.until import UntilStop, bound_axes, until
from jrh_mlflow.schema.items import DELTA_0_SAME, VACUUM, Call, CallRecord, Item
from jrh_mlflow.schema.presentation import Presentation
from tests.validation.loop import ALPHA, Simulation, check_share

GOAL = 0.5
"""Largest mean share of calls, of those that a rule is about, on the recorded judges."""
GRID = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Limits, whatever the judge reads."""
LLMBAR_AXES = (
    "natural/accuracy",
    "natural/stable_correct",
    "natural/positional",
    "natural/judgebench_accuracy",
)
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
    items: list[Item]
    answers: Mapping[tuple[str, str, int], CallRecord] = field(repr=False)
    """By item, order and replicate."""
    rules: tuple[str, ...]

    def records(self, item):
        """Return the answers to an item, in its orders."""
        return [self.answers[item.id, order, 0] for order in item.orders]

    def truth(self, goal, axis):
        """Return what the whole suite decides: the share of hits among the usable units."""
        hits = []
        for item in self.items:
            if item.id in axis.items:
                records = self.records(item)
                # An axis of calls counts each order by itself, one of pairs both together.
                units = [records] if axis.paired else [[record] for record in records]
                hits += [axis.hit(item, unit) for unit in units]
        known = [hit for hit in hits if hit is not None]
        value = sum(known) / len(known)
        return goal.decide(value, value)


def play(population, seed, *, level=1 - ALPHA):
    """Ask one call after the other, and look after each: what was decided, and for how many calls.

    Calls come in the order that the seed draws; with None as the suite has them.
    """
    stop = until(population.rules, level=level)
    axes = bound_axes(stop, population.items)
    needed = frozenset().union(*(axis.items for axis in axes))
    single = frozenset().union(*(axis.items for axis in axes if not axis.paired))
    calls = [
        Call(item=item, order=order, replicate=0, presentation=_SHOWN)
        for item in population.items
        for order in item.orders
        if item.id in needed
    ]
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
    wrong = [state not in ("undecided", truth) for state, truth in zip(states, truths, strict=True)]
    return {
        "wrong": any(wrong),
        "undecided": "undecided" in states,
        "share of calls": report.asked / report.needed,
    }


def made_up(name, *rules, vacuum=0, both=0, lost=0, n=60):
    """Return a suite of `n` empty pairs and as many of equal quality whose hits all stand first.

    Args:
        name: Of the design.
        *rules: What is to be decided.
        vacuum: Calls on empty pairs that prefer a side.
        both: Pairs of equal quality that prefer the first slot twice.
        lost: Calls on empty pairs without an answer, spread evenly.
        n: Pairs of either kind.
    """
    items = []
    answers = {}
    for at in range(n):
        item = Item(id=f"v{at:04}", task=f"t{at % 10}", condition=VACUUM[0], u="", v="")
        items.append(item)
        for order in item.orders:
            answers[item.id, order, 0] = "1" if len(answers) < vacuum else "tie"
    keys = list(answers)
    for at in range(lost):
        answers[keys[at * len(keys) // lost]] = "error"
    for at in range(n):
        facts = {"condition": DELTA_0_SAME, "delta": 0.0, "u": "a", "v": "b"}
        item = Item(id=f"e{at:04}", task=f"t{at % 10}", **facts)
        items.append(item)
        for order in item.orders:
            answers[item.id, order, 0] = "1" if at < both else "tie"
    records = {
        (item.id, order, 0): _record(item, order, answers[item.id, order, 0])
        for item in items
        for order in item.orders
    }
    return Population(name=name, items=items, rules=rules, answers=records)


def _record(item, order, answer):
    outcome = "verdict" if answer == "1" else answer
    text = "1" if answer == "1" else ""
    return CallRecord(**call_columns(item, order, 0), outcome=outcome, answer=text)


_DARK = "dark_current <= 0.1"
_RAW = "raw_false_preference <= 0.1"
_SLOT = "positional_false_preference <= 0.1"
_TIES = "tie_rate/vacuum >= 0.9"
DESIGNS = (
    made_up("one call over the limit of a tenth", _DARK, vacuum=13),
    made_up("on the limit of a tenth", _DARK, vacuum=12),
    made_up("one call over the limit of a half", "dark_current <= 0.5", vacuum=61),
    made_up("one call under the limit of a half", "dark_current >= 0.5", vacuum=59),
    made_up("400 calls, two over the limit of a tenth", _DARK, vacuum=42, n=200),
    made_up("pairs, one over the limit", _SLOT, both=7),
    made_up("calls and pairs of the same pairs, on the limit", _RAW, _SLOT, both=6),
    made_up("three rules, two on the limit and one beside", _DARK, _RAW, _TIES, vacuum=13, both=6),
    made_up(
        "every 30th call lost, right over the limit", "dark_current <= 0.19", vacuum=24, lost=4
    ),
)


@cache
def llmbar(criterion, rule):
    """Return the recorded judge on the pairs of LLMBar."""
    return _recorded(f"LLMBar, {criterion}", llmbar_records(criterion), rule)


@cache
def datasheet(criterion, slots, rule):
    """Return a configuration of the recorded judge on the published datasheet design."""
    name = f"datasheet-paper, {criterion} {slots}"
    return _recorded(name, _datasheet_records(criterion, slots), rule)


@cache
def _datasheet_records(criterion, slots):
    return recorded_records(RecordedJudge(criterion, slots), "datasheet-paper")


def _recorded(name, records, rule):
    items = {}
    answers = {}
    for call in records:
        facts = {"condition": call.condition, "delta": call.delta, "better": call.better or None}
        items[call.suite_item] = Item(id=call.suite_item, task=call.task, **facts)
        answers[call.suite_item, call.order, call.replicate] = call
    return Population(name=name, items=list(items.values()), answers=answers, rules=(rule,))


def _run_orders(population, batch):
    name = zlib.crc32(population.name.encode())
    return (play(population, f"{batch.seed}:{name}:{run}") for run in batch.runs)


def _order_checks(design, runs):
    runs["wrong in the suite's order"] = play(design, None)["wrong"]
    yield check_share(
        "decided wrongly while asking",
        design.name,
        runs,
        "wrong",
        at_most=ALPHA,
        beside=("share of calls", "undecided", "wrong in the suite's order"),
    )


ON_THE_LIMIT = Simulation(
    worlds=DESIGNS,
    quick=(DESIGNS[0], DESIGNS[6]),
    run=_run_orders,
    checks=_order_checks,
    part=20,
    least=25,
    batch=25,
)


# --- recorded judges under every rule of the grid, each rule by itself, in several orders


@dataclass(frozen=True, kw_only=True)
class RecordedGrid:
    """A recorded judge, the axes of its rules, and in how many orders it is asked."""

    recorded: Any
    """Rule to population."""
    axes: tuple[str, ...]
    orders: int


def _grids(size, apply):
    if size.quick:
        return [RecordedGrid(recorded=partial(llmbar, "forced"), axes=LLMBAR_AXES[:1], orders=1)]
    orders = max(2, size.n // 500)
    grids = []
    for criterion in ("allowed", "forced"):
        recorded = partial(llmbar, criterion)
        grids.append(RecordedGrid(recorded=recorded, axes=LLMBAR_AXES, orders=orders))
    for criterion in CRITERIA:
        recorded = partial(datasheet, criterion, "letters")
        grids.append(RecordedGrid(recorded=recorded, axes=DATASHEET_AXES, orders=orders))
    return grids


def _run_rules(grid, batch):
    for axis, limit in product(grid.axes, GRID):
        population = grid.recorded(f"{axis} <= {limit}")
        for order in range(grid.orders):
            yield play(population, f"{batch.seed}:{order}") | {"name": population.name}


def _grid_checks(grid, runs):
    n_rules = len(grid.axes) * len(GRID)
    design = f"recorded judge: {runs['name'][0]}, {n_rules} rules"
    name = "decided wrongly while asking"
    yield check_share(name, design, runs, "wrong", at_most=ALPHA, beside=("undecided",))
    # The orders are the sample; the rules are the grid itself.
    shares = runs["share of calls"]
    yield check_share(
        "mean share of calls asked",
        design,
        runs,
        "share of calls",
        error=float(shares.std(ddof=0) / len(shares) ** 0.5),
        at_most=GOAL,
    )


RECORDED = Simulation(worlds=_grids, run=_run_rules, checks=_grid_checks)
SIMULATIONS = (ON_THE_LIMIT, RECORDED)
