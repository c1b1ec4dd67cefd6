"""We test the decisions: how often simulated judges are told apart, gated, passed or stopped falsely, or rightly.

Every kind of decision has a file of its own with a function that draws its designs and returns a line for each.
"""

from __future__ import annotations

from collections.abc import Sequence

from jrh_mlflow.simulations.decision_checks import DecisionCheck, Simulation, SimulationSize
from jrh_mlflow.simulations.validate import Map
from jrh_mlflow.simulations.validate_compare import check_compare
from jrh_mlflow.simulations.validate_findings import check_findings
from jrh_mlflow.simulations.validate_gate import check_gate
from jrh_mlflow.simulations.validate_max_t import check_max_t
from jrh_mlflow.simulations.validate_passed import check_passed
from jrh_mlflow.simulations.validate_plan import check_plan
from jrh_mlflow.simulations.validate_until import check_until

SIMULATIONS: tuple[Simulation, ...] = (
    check_max_t,
    check_compare,
    check_gate,
    check_passed,
    check_until,
    check_plan,
    check_findings,
)
"""All of them, in the order shown."""


def validate_decisions(
    *, n: int = 10_000, seed: int = 0, quick: bool = False, apply: Map = map
) -> Sequence[DecisionCheck]:
    """Run every simulation.

    Args:
        n: Simulated runs per design.
        seed: Another one draws other runs.
        quick: A few designs of each: seconds.
        apply: `map`, or that of `worker_map`; the result is the same.
    """
    size = SimulationSize(n=n, seed=seed, quick=quick)
    return [check for simulation in SIMULATIONS for check in simulation(size, apply)]
