"""The loop of all simulations: batches and seeds, and that a promise that is missed is named."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.validation import parts
from tests.validation.loop import Batch, Simulation, SimulationSize, decision_check, listed, simulate
from tests.validation.parts import PARTS

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("hits", "verdict"),
    [(50, "ok"), (0, "ok"), (70, "missed: by 2.9 s.e., fails over 3"), (72, "FAILS: over 0.05")],
)
def test_a_share_over_its_promise_fails_when_three_standard_errors_do_not_explain_it(hits: int, verdict: str) -> None:
    check = decision_check("told apart falsely", "ten tasks", hits / 1000, 1000, at_most=0.05, beside={"Holm": 0.0})
    assert check.verdict == verdict
    assert check.fails == verdict.startswith("FAILS")
    assert "told apart falsely, ten tasks" in str(check)


@pytest.mark.parametrize(("hits", "fails"), [(950, False), (930, False), (929, True)])
def test_a_share_under_its_promise_fails_the_same_way(hits: int, fails: bool) -> None:
    assert decision_check("passed", "perfect", hits / 1000, 1000, at_least=0.95).fails is fails


def test_what_has_no_promise_is_shown_and_never_fails() -> None:
    check = decision_check("told apart rightly", "ten tasks", 0.003, 1000)
    assert (check.verdict, check.promise, check.fails) == ("shown", "", False)


def test_two_promises_for_one_number_are_refused() -> None:
    with pytest.raises(ValueError, match="One promise per check"):
        decision_check("width", "ten tasks", 1.0, 10, error=0.1, at_most=1.1, at_least=0.9)


def drawn(world: str, batch: Batch) -> list[tuple[str, int, float]]:
    rng = batch.rng(world)
    return [(world, seed, rng.random()) for seed in batch.seeds]


def test_runs_come_back_world_by_world_in_order_whatever_the_processes_do() -> None:
    def backwards(function, items):
        return list(map(function, items[::-1]))[::-1]

    first, second = simulate(drawn, ["a", "b"], n=7, batch=3, seed=2)
    assert [run[:2] for run in first] == [("a", 2_000_000 + run) for run in range(7)]
    assert [run[2] for run in first] != [run[2] for run in second]
    assert simulate(drawn, ["a", "b"], n=7, batch=3, seed=2, apply=backwards) == [first, second]
    assert simulate(drawn, ["b"], n=7, batch=3, seed=2) == [second]
    assert simulate(drawn, ["a"], n=7, batch=3, seed=3) != [first]
    assert len(simulate(drawn, ["a"], n=7)[0]) == 7


def test_a_simulation_draws_its_part_of_the_runs_and_few_worlds_when_it_must_be_quick() -> None:
    simulation = Simulation(
        worlds=listed(["a", "b"], quick=["b"]),
        ask=lambda world, batch: batch.runs,
        checks=lambda world, runs: [(world, len(runs))],
        part=10,
        least=4,
        batch=3,
    )
    assert simulation(SimulationSize(n=80)) == [("a", 8), ("b", 8)]
    assert simulation(SimulationSize(n=20, quick=True)) == [("b", 4)]


def test_every_part_has_a_key_of_its_own_and_every_simulation_is_in_one() -> None:
    assert len({part.key for part in PARTS}) == len(PARTS)
    simulations = [simulation for part in PARTS for simulation in part.simulations]
    shown = {id(simulation) for simulation in simulations}
    assert len(shown) == len(simulations)
    for module in vars(parts).values():
        for value in vars(module).values() if isinstance(module, ModuleType) else ():
            declared = value if isinstance(value, tuple) else (value,)
            assert all(id(one) in shown for one in declared if isinstance(one, Simulation)), module
