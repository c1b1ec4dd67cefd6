"""Operating points of judges whose resolution is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

import jrh_mlflow as jrh
from jrh_mlflow.comparing.criterion_shift import (
    OperatingPoint,
    curve,
    operating_counts,
    operating_point,
    resolution_shifts,
)
from jrh_mlflow.engine import ask_calls, calls_frame, plan_calls
from jrh_mlflow.judges import scripted

N_TASKS, PER_TASK = 30, 40


def made(d_prime: float, criterion: float, *, prompt: str, name: str, seed: int) -> OperatingPoint:
    """A point of an ideal observer: F = Φ(−c), H = Φ(d' − c)."""
    rng = np.random.default_rng(seed)
    false = rng.binomial(PER_TASK, ndtr(-criterion), N_TASKS)
    hits = rng.binomial(PER_TASK, ndtr(d_prime - criterion), N_TASKS)
    counts = np.column_stack([false, np.full(N_TASKS, PER_TASK), hits, np.full(N_TASKS, PER_TASK)]).astype(float)
    tasks = tuple(f"t{n}" for n in range(N_TASKS))
    return OperatingPoint(judge="j", prompt=prompt, criterion=name, tasks=tasks, counts=counts)


def graded(d_prime: float, prompt: str, seed: int) -> list[OperatingPoint]:
    criteria = {"loose": 0.2, "middle": 0.7, "strict": 1.3}
    return [made(d_prime, c, prompt=prompt, name=name, seed=seed + n) for n, (name, c) in enumerate(criteria.items())]


def test_counts_are_those_of_the_datasheet() -> None:
    suite, judge = jrh.datasheet_suite(n_tasks=4, depth=3), scripted.Noisy(seed=5)
    calls = calls_frame(ask_calls(judge, plan_calls(suite, judge, replicates=1)).records)
    data = operating_counts(calls)
    assert data is not None
    point = operating_point(data, judge="j", prompt="p", criterion="allowed")
    sheet = jrh.measure(calls).estimates
    assert point.false_preference == pytest.approx(sheet["raw_false_preference"].value)
    assert point.sensitivity == pytest.approx(sheet["target_sensitivity/delta_1"].value)


def test_criteria_move_along_one_curve_and_the_resolution_stays() -> None:
    points = graded(1.5, "a", seed=1)
    assert [point.false_preference for point in points] == sorted((p.false_preference for p in points), reverse=True)
    assert [point.d_prime for point in points] == pytest.approx([1.5, 1.5, 1.5], abs=0.2)
    drawn = curve(points)
    assert drawn == sorted(drawn)


def test_a_prompt_that_changes_the_resolution_lies_off_the_curve_of_the_others() -> None:
    shifts = {one.prompt: one for one in resolution_shifts(graded(1.5, "a", 1) + graded(1.5, "b", 9))}
    assert not shifts["a"].off
    assert not shifts["b"].off
    shifts = {one.prompt: one for one in resolution_shifts(graded(1.5, "a", 1) + graded(2.5, "b", 9))}
    assert shifts["b"].off
    assert shifts["b"].value == pytest.approx(1.0, abs=0.25)
    assert shifts["a"].value == pytest.approx(-shifts["b"].value)


def test_prompts_without_a_criterion_in_common_are_not_compared() -> None:
    points = [made(1.0, 0.5, prompt="a", name="x", seed=0), made(1.0, 0.5, prompt="b", name="y", seed=1)]
    assert resolution_shifts(points) == []
