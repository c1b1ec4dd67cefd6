"""The Pareto front of a sweep: its members, how sure each of them is, its area, the best one and ties with it.

The searched half of the tasks picks (front, best); the held-out half reads what was picked. Picked on the held-out half
the best of many would read too good there: by .11 for 20 equal configurations on 14 tasks of six calls
(`python -m tests.benchmarks.picking`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jrh_mlflow.measures.composite import CompositeDifference, composite_difference
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.stats import Array
from jrh_mlflow.stats.paired import holm
from jrh_mlflow.sweeps.fronts import front_probability, hypervolume, hypervolume_interval, pareto
from jrh_mlflow.sweeps.goals import COST, is_map
from jrh_mlflow.sweeps.trials import TrialResult

UNDECIDED = (0.05, 0.95)
"""Shares of resamples between which the membership of the front is not decided."""
_ROOM = 1.1
"""The reference of the area stands this much past the dearest configuration, so that it counts too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tie:
    """A configuration against the best one, on the held-out half."""

    difference: CompositeDifference
    """Best minus this one."""
    p_holm: float
    tied: bool
    """Whether it is not told to be worse than the best."""
    ahead: bool = False
    """Whether it is told to be better here than the one that was picked on the searched half."""


def on_front(results: Iterable[TrialResult], objectives: Mapping[str, str]) -> list[TrialResult]:
    """Return the feasible results on the front of the objectives' values."""
    able = [result for result in results if result.feasible and all(name in result.values for name in objectives)]
    if not able:
        return []
    points = np.array([[result.values[name] for name in objectives] for result in able])
    directions = [1 if direction == "maximize" else -1 for direction in objectives.values()]
    return [result for result, member in zip(able, pareto(points, directions), strict=True) if member]


def probabilities(results: Iterable[TrialResult], *, seed: int) -> dict[str, float]:
    """Return for each feasible configuration the share of resampled tasks in which it is on the front.

    Tasks are resampled as wholes and the same ones for all configurations, since answers on one task go together and a
    hard task is hard for everybody.
    """
    able = _priced(results)
    if not able:
        return {}
    scores, weights, costs = _arrays(able)
    shares = front_probability(scores, weights, costs, seed=seed)
    return {result.key: float(share) for result, share in zip(able, shares, strict=True)}


def area(results: Iterable[TrialResult], *, dearest: float, seed: int) -> Reading:
    """Return the share of the box from 0 to 1 and from the reference's dollars to 0 that the front covers.

    The reference is reliability 0 at 1.1 times the dollars of the dearest configuration measured.
    """
    able = _priced(results)
    if not able or dearest <= 0:
        return NotEstimable(reason="every configuration is free" if able else "no configuration with a known price")
    scores, weights, costs = _arrays(able)
    reference = (0.0, _ROOM * dearest)
    points = np.column_stack([[result.tally.value for result in able], costs])
    # A share of the box, so that sweeps over dear and over cheap models can be put side by side.
    value = hypervolume(points, (1, -1), reference) / reference[1]
    ends = hypervolume_interval(scores, weights, costs, reference=reference, seed=seed)
    return Estimate(
        value=value,
        n=len(able),
        excluded=0,
        **intervals(None, ends and (ends[0] / reference[1], min(1.0, ends[1] / reference[1]))),
        n_clusters=scores.shape[1],
        method=f"bootstrap of whole tasks; reference 0 at ${reference[1]:.4g} per 1,000",
        unit="curve",
    )


def ties(results: Mapping[str, TrialResult], *, best: str, seed: int, alpha: float = 0.05) -> dict[str, Tie]:
    """Compare every configuration with the best one: cluster-paired, adjusted by Holm; the best is tied with itself.

    `results` are of tasks on which `best` was not picked, so that the tests hold.
    """
    # A judge that answers other items than the best one cannot be paired with it.
    items = {key: (result.tally.tasks, result.tally.cells) for key, result in results.items()}
    others = [key for key in results if key != best and items[key] == items[best]]
    gaps = {key: composite_difference(results[best].tally, results[key].tally, seed=seed) for key in others}
    adjusted = holm([gaps[key].p for key in others])
    nothing = CompositeDifference(value=0.0, low=0.0, high=0.0, p=1.0)
    # Only differences from the best are tested, so Holm adjusts for as many tests as there are others, not pairs.
    found = {best: Tie(difference=nothing, p_holm=1.0, tied=True)}
    for key, p in zip(others, adjusted, strict=True):
        ahead = p <= alpha and gaps[key].value < 0
        found[key] = Tie(difference=gaps[key], p_holm=p, tied=p > alpha or ahead, ahead=ahead)
    return found


def best_of(search: Mapping[str, TrialResult], holdout: Iterable[str]) -> str | None:
    """Return the most reliable configuration on the searched half; of equal ones the cheapest, then the first by key.

    Among those that were held out and keep the constraints where they were searched. What the held-out half reads has
    no say, so it reads the one that is picked without bias.
    """
    able = [key for key in holdout if key in search and search[key].feasible]
    return min(able, key=lambda key: (-search[key].tally.value, _price(search[key]), key), default=None)


def cheapest_tied(
    search: Mapping[str, TrialResult], holdout: Mapping[str, TrialResult], found: Mapping[str, Tie]
) -> str | None:
    """Return the cheapest configuration that cannot be told from the best; of equal prices the best where searched.

    What the held-out half reads decides between no two of them: judges that cost nothing are all of one price.
    """
    tied = [key for key, tie in found.items() if tie.tied]
    return min(tied, key=lambda key: (_price(holdout[key]), -search[key].tally.value, key), default=None)


def _price(result: TrialResult) -> float:
    return math.inf if result.usd_per_1k is None else result.usd_per_1k


def has_map(results: Iterable[TrialResult], objectives: Mapping[str, str]) -> bool:
    """Whether ties, areas and probabilities can be told: reliability against cost, every price known."""
    return is_map(objectives) and all(COST in result.values for result in results)


def _priced(results: Iterable[TrialResult]) -> list[TrialResult]:
    return [result for result in results if result.feasible and result.usd_per_1k is not None]


def _arrays(results: Sequence[TrialResult]) -> tuple[Array, Array, Array]:
    """Return scores and weights (configurations × tasks), and dollars per 1,000."""
    tasks = sorted({task for result in results for task in result.tally.tasks})
    # A task that a judge does not answer weighs nothing in its row; the others keep theirs.
    scores, weights = np.zeros((len(results), len(tasks))), np.zeros((len(results), len(tasks)))
    for row, result in enumerate(results):
        columns = [tasks.index(task) for task in result.tally.tasks]
        scores[row, columns], weights[row, columns] = result.tally.by_task()
    return scores, weights, np.array([result.usd_per_1k for result in results], float)
