"""Variance components: known ones are found again, and their intervals hold them as often as they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jrh_mlflow.stats.variance import ASKING_AGAIN, MORE_TASKS, Component, variance_components

KNOWN = {"task": 0.3, "wording": 0.2, "order": 0.2, "repeat": 0.3}


def drawn(
    rng: np.random.Generator,
    parts: dict[str, float],
    *,
    tasks: int = 28,
    items: int = 5,
    orders: int = 2,
    asks: int = 2,
) -> dict[str, Any]:
    """Draw scores of these variances, each item of a task at a step with a mean of its own."""
    shape = (tasks, items, orders, asks)

    def part(name: str, *shape: int) -> Any:
        return rng.normal(0, np.sqrt(parts.get(name, 0.0)), shape)

    sides = np.array([1, -1])[:orders, None] * part("order", tasks, items, 1, 1) if orders == 2 else 0.0
    values = part("task", tasks, 1, 1, 1) + part("wording", tasks, items, 1, 1) + sides + part("repeat", *shape)
    task, item, order, _ = (codes.ravel() for codes in np.indices(shape))
    return {
        "values": (values.ravel() + 0.7 * item),
        "task": task,
        "item": task * items + item,
        "order": order,
        "stratum": item,
    }


def components(calls: dict[str, Any]) -> dict[str, Component]:
    return variance_components(calls["values"], **{name: calls[name] for name in ("task", "item", "order", "stratum")})


def test_known_components_are_found_again_with_many_tasks() -> None:
    found = components(drawn(np.random.default_rng(1), KNOWN, tasks=2000))
    assert {name: round(part.value, 1) for name, part in found.items() if name != ASKING_AGAIN} == KNOWN
    # The error of the mean is that of 2,000 tasks, 10,000 items and 40,000 calls.
    task, item, call = 0.3 / 2000, 0.2 / 10_000, 0.3 / 40_000
    expected = 1 - np.sqrt((task + item + call / 2) / (task + item + call))
    assert found[ASKING_AGAIN].value == pytest.approx(expected, abs=0.002)


@pytest.mark.parametrize(
    ("parts", "design"),
    [
        (KNOWN, {}),
        ({"repeat": 1.0}, {}),
        ({"task": 0.4, "wording": 0.2, "repeat": 0.4}, {"orders": 1, "items": 3}),
        ({"task": 0.1, "order": 0.5, "repeat": 0.4}, {"tasks": 20, "asks": 3}),
    ],
)
def test_intervals_hold_the_components_in_about_95_of_100_runs(parts: dict[str, float], design: dict[str, int]) -> None:
    rng, runs = np.random.default_rng(7), 200
    held = dict.fromkeys(parts, 0)
    for _ in range(runs):
        found = components(drawn(rng, parts, **design))
        for name, share in parts.items():
            low, high = found[name].interval
            held[name] += low - 1e-9 <= share <= high + 1e-9
    assert min(held.values()) >= 0.91 * runs, held


def test_a_component_below_zero_is_set_to_zero_and_said_to_be() -> None:
    runs = [components(drawn(np.random.default_rng(seed), {"repeat": 1.0})) for seed in range(20)]
    tasks = [found["task"] for found in runs]
    assert any(part.below_zero for part in tasks)
    assert all(part.value == 0.0 for part in tasks if part.below_zero)
    assert all(sum(found[name].value for name in KNOWN) == pytest.approx(1) for found in runs)


def test_tasks_that_all_agree_still_have_an_interval_of_some_width() -> None:
    calls = drawn(np.random.default_rng(0), {"task": 1.0})
    found = components(calls)
    assert found["task"].value == pytest.approx(1)
    for part in found.values():
        assert part.interval[1] - part.interval[0] > 0.01
    assert found[ASKING_AGAIN].interval[1] < MORE_TASKS / 2


def test_one_task_that_varies_tells_nothing_of_the_others() -> None:
    calls = drawn(np.random.default_rng(0), {})
    calls["values"] = np.where((calls["task"] == 3) & (calls["order"] == 0), 1.0, 0.0)
    assert components(calls)["order"].interval == (0.0, 1.0)


def test_what_the_design_cannot_tell_has_no_entry() -> None:
    rng = np.random.default_rng(2)
    assert set(components(drawn(rng, KNOWN, asks=1))) == {"task"}
    assert set(components(drawn(rng, KNOWN, items=1))) == {"task", "order", "repeat", ASKING_AGAIN}
    assert set(components(drawn(rng, KNOWN, orders=1))) == {"task", "wording", "repeat", ASKING_AGAIN}
    assert components(drawn(rng, KNOWN, items=1, asks=1)) == {}
    assert components(drawn(rng, KNOWN, tasks=2)) == {}
    assert components(drawn(rng, {})) == {}


def test_without_replicates_the_share_of_the_task_is_that_of_all_variation() -> None:
    found = components(drawn(np.random.default_rng(3), KNOWN, tasks=2000, asks=1))
    assert found["task"].value == pytest.approx(0.3, abs=0.03)


def test_an_item_with_one_order_is_left_aside_and_names_decide_nothing() -> None:
    calls = drawn(np.random.default_rng(4), KNOWN)
    kept = ~((calls["item"] == 0) & (calls["order"] == 1))
    halved = {name: column[kept] for name, column in calls.items()}
    whole = {name: column[calls["item"] != 0] for name, column in calls.items()}
    assert components(halved) == components(whole)
    mirrored = {**calls, "task": 27 - calls["task"], "item": 999 - calls["item"], "order": 1 - calls["order"]}
    for name, part in components(mirrored).items():
        assert part.value == pytest.approx(components(calls)[name].value)
        assert part.interval == pytest.approx(components(calls)[name].interval)
