"""The loop of all simulations: batches and seeds, and that a promise that is missed is named."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from tests.validation import parts
from tests.validation.loop import (
    Batch,
    Simulation,
    SimulationSize,
    check_share,
    checks_text,
    simulate,
)
from tests.validation.parts import PARTS

pytestmark = pytest.mark.quick


def check(hits, **promise):
    runs = pd.DataFrame({"happened": [True] * hits + [False] * (1000 - hits)})
    return check_share("told apart falsely", "ten tasks", runs, "happened", **promise)


@pytest.mark.parametrize(
    ("hits", "verdict"),
    [
        (50, "ok"),
        (0, "ok"),
        (70, "missed: by 2.9 s.e., fails over 3"),
        (72, "FAILS: over 0.05"),
    ],
)
def test_a_share_fails_when_three_standard_errors_do_not_explain_it(hits, verdict):
    row = check(hits, at_most=0.05)
    assert row.verdict == verdict
    assert row.fails == verdict.startswith("FAILS")
    assert "told apart falsely, ten tasks" in str(row)


@pytest.mark.parametrize(("hits", "fails"), [(950, False), (930, False), (929, True)])
def test_a_share_under_its_promise_fails_the_same_way(hits, fails):
    assert check(hits, at_least=0.95).fails is fails


def test_what_has_no_promise_or_no_number_is_not_judged():
    row = check(3)
    assert (row.verdict, row.promise, row.fails) == ("shown", "", False)
    runs = pd.DataFrame({"covered": [None, None]})
    nothing = check_share("covered", "ten tasks", runs, "covered", at_least=0.93)
    assert nothing.verdict.startswith("not judged")


def test_two_promises_for_one_number_are_refused():
    with pytest.raises(ValueError, match="One promise per check"):
        check(50, at_most=1.1, at_least=0.9)


def test_every_name_has_a_table_with_the_numbers_beside_it():
    runs = pd.DataFrame({"found": [True, False], "Holm": [False, False]})
    rows = [
        check_share("found", "ten tasks", runs, "found", at_least=0.1, beside=["Holm"]),
        check_share("tied", "two tasks", runs, "Holm"),
    ]
    lines = checks_text(rows).split("\n")
    assert re.split(" {2,}", lines[0]) == FOUND_HEADS
    assert re.split(" {2,}", lines[1]) == FOUND_ROW
    assert lines[-2] == "2 checks: {'ok': 1, 'shown': 1}"


FOUND_HEADS = ["found", "measured", "± s.e.", "Holm", "promise", "runs", "verdict"]
FOUND_ROW = ["ten tasks", "0.500", "0.212", "0.000", "at least 0.1", "2", "ok"]


def drawn(world, batch):
    rng = batch.rng(world)
    return [(world, seed, rng.random()) for seed in batch.seeds]


def test_runs_come_back_world_by_world_in_order_whatever_the_processes_do():
    def backwards(function, items):
        return list(map(function, items[::-1]))[::-1]

    first, second = simulate(drawn, ["a", "b"], n=7, batch=3, seed=2)
    assert [run[:2] for run in first] == [("a", 2_000_000 + run) for run in range(7)]
    assert [run[2] for run in first] != [run[2] for run in second]
    assert simulate(drawn, ["a", "b"], n=7, batch=3, seed=2, apply=backwards) == [first, second]
    assert simulate(drawn, ["b"], n=7, batch=3, seed=2) == [second]
    assert simulate(drawn, ["a"], n=7, batch=3, seed=3) != [first]


def test_a_simulation_draws_its_part_of_the_runs_and_few_worlds_when_it_must_be_quick():
    def run(world, batch: Batch):
        return [{"run": number} for number in batch.runs]

    simulation = Simulation(
        worlds=["a", "b"],
        quick=["b"],
        run=run,
        checks=lambda world, runs: [(world, len(runs))],
        part=10,
        least=4,
        batch=3,
    )
    assert simulation(SimulationSize(n=80)) == [("a", 8), ("b", 8)]
    assert simulation(SimulationSize(n=20, quick=True)) == [("b", 4)]


def test_every_part_has_a_word_of_its_own_and_every_simulation_is_in_one():
    assert len({part.word for part in PARTS}) == len(PARTS)
    shown = [id(simulation) for part in PARTS for simulation in part.simulations]
    assert len(set(shown)) == len(shown)
    for module in vars(parts).values():
        for name, value in getattr(module, "__dict__", {}).items():
            assert not isinstance(value, Simulation) or id(value) in shown, name
