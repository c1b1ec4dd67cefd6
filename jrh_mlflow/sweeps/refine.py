"""After the search: replicates where the front is undecided, then the front once more on the half nobody searched."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

from jrh_mlflow.errors import JudgeError, RecipeError, SuiteError
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.sweeps.front import UNDECIDED, has_map, on_front, probabilities
from jrh_mlflow.sweeps.space import Configuration
from jrh_mlflow.sweeps.trials import Bench, Result

if TYPE_CHECKING:
    from optuna import Study

_FEWEST_TASKS = 4


def halves(suite: Suite, *, seed: int) -> tuple[Suite, Suite]:
    """Split a suite by task into `<suite>/search` and `<suite>/holdout`.

    Raises:
        SuiteError: when it has fewer than four tasks: neither half would say how much tasks differ.
    """
    tasks = sorted({item.task for item in suite.items})
    if len(tasks) < _FEWEST_TASKS:
        raise SuiteError(
            f"Suite {suite.name!r} has {len(tasks)} task(s), and a sweep needs {_FEWEST_TASKS}: one half is searched, "
            "the other held out."
        )
    searched = set(random.Random(f"halves:{seed}").sample(tasks, (len(tasks) + 1) // 2))  # noqa: S311 - an order
    origin = {"half_of": suite.sha256, "seed": seed}
    return (
        Suite(name=f"{suite.name}/search", items=[one for one in suite.items if one.task in searched], origin=origin),
        Suite(
            name=f"{suite.name}/holdout", items=[one for one in suite.items if one.task not in searched], origin=origin
        ),
    )


class Memory:
    """Results of later stages, kept in the study: a resumed sweep does not measure them again."""

    def __init__(self, study: Study) -> None:
        self._study = study

    def get(self, name: str) -> Result | None:
        """Return a kept result."""
        found = self._study.user_attrs.get(name)
        return None if found is None else Result.from_dict(found)

    def keep(self, name: str, result: Result) -> Result:
        """Keep a result."""
        self._study.set_user_attr(name, result.to_dict())
        return result


def refine(
    bench: Bench,
    memory: Memory,
    results: dict[str, Result],
    configurations: Mapping[str, Configuration],
    suite: Suite,
    *,
    max_replicates: int,
) -> None:
    """Double the replicates of configurations whose membership of the front is undecided; `results` are replaced.

    It ends when all are decided, at `max_replicates`, and when it has made as many calls as the results before it.
    """
    allowance = sum(one.n_calls for one in results.values())
    if not has_map(list(results.values()), bench.space.objectives):
        return
    while True:
        shares = probabilities(list(results.values()), seed=bench.seed)
        undecided = [
            key
            for key, share in shares.items()
            if UNDECIDED[0] < share < UNDECIDED[1]
            and 2 * results[key].repeats * configurations[key].policy.replicates <= max_replicates
        ]
        if not undecided:
            return
        for key in sorted(undecided, key=lambda key: abs(shares[key] - 0.5)):
            if allowance <= 0:
                return
            repeats = 2 * results[key].repeats
            name = f"jrh:refine:{key}:{repeats}"
            results[key] = memory.get(name) or memory.keep(
                name, bench.measure(configurations[key], suite, stage="refine", repeats=repeats)
            )
            allowance -= results[key].n_calls


def hold_out(
    bench: Bench,
    memory: Memory,
    results: Mapping[str, Result],
    configurations: Mapping[str, Configuration],
    suite: Suite,
    *,
    found: dict[str, Result],
) -> dict[str, str]:
    """Measure the front, and those that may be on it, on the held-out half, into `found`; return what failed, and why.

    Each with as many replicates as the search gave it, so that the two halves are alike.
    """
    shares = {}
    if has_map(list(results.values()), bench.space.objectives):
        shares = probabilities(list(results.values()), seed=bench.seed)
    members = {one.key for one in on_front(list(results.values()), bench.space.objectives)}
    chosen = [key for key in results if key in members or shares.get(key, 0.0) > UNDECIDED[0]]
    failed: dict[str, str] = {}
    for key in chosen:
        repeats = results[key].repeats
        name = f"jrh:holdout:{key}:{repeats}"
        try:
            found[key] = memory.get(name) or memory.keep(
                name, bench.measure(configurations[key], suite, stage="holdout", repeats=repeats)
            )
        except (JudgeError, RecipeError, SuiteError) as error:
            failed[key] = str(error)
    return failed
