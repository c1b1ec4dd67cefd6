"""The units behind a share: those that the datasheet counts, for every axis that is one."""

from __future__ import annotations

import numpy as np
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.decisions.planning import suite_calls
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.measures.unit_scores import axis_units, every_axis_units
from jrh_mlflow.stats.proportions import cluster_interval

SUITES = {
    "pairs": jrh.datasheet_suite(n_tasks=5),
    "single responses": jrh.datasheet_suite(design="pointwise", n_tasks=5),
}


def answered(suite: jrh.Suite, *, seed: int = 0) -> list[dict[str, object]]:
    """Records of a judge that answers at random, some not at all."""
    rng, records = np.random.default_rng(seed), suite_calls(suite)
    for record in records:
        choices = ["1", "2", "tie"] if record["order"] else ["yes", "no"]
        chosen = choices[int(rng.integers(len(choices)))]
        is_tie, is_lost = chosen == "tie", rng.random() < 0.01
        outcome = "error" if is_lost else "tie" if is_tie else "verdict"
        record.update(outcome=outcome, answer="" if is_tie or is_lost else chosen)
    return records


@pytest.mark.parametrize("any_mean", [False, True])
@pytest.mark.parametrize("name", SUITES)
def test_the_units_of_every_axis_give_the_datasheets_own_number_and_interval(name: str, any_mean: bool) -> None:
    records = answered(SUITES[name])
    estimates = jrh.measure(records, n_resamples=50).estimates
    found = every_axis_units(normalise(records), any_mean=any_mean)
    assert len(found) > 10
    assert any(key.startswith("conditional_accuracy/") for key in found) is (any_mean and name == "pairs")
    for key, units in found.items():
        reading, known = estimates[key], np.isfinite(units.score)
        if isinstance(reading, jrh.NotEstimable):
            continue
        assert units.score[known].mean() == pytest.approx(reading.value), key
        interval = cluster_interval(*units.task_counts)
        assert interval == pytest.approx((reading.cluster_low, reading.cluster_high)), key
        assert int(known.sum()) == reading.n, key


def test_what_is_not_asked_yet_has_the_units_that_will_be() -> None:
    suite = jrh.load_suite("datasheet-paper")
    units = axis_units(normalise(suite_calls(suite)), "dark_current")
    # 10 tasks × 3 kinds × 2 variants × 2 orders; both orders of a vacuum pair are one prompt.
    assert (units.n_tasks, len(units.items)) == (10, 60)
    assert len(np.unique(units.presentation)) == 60


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("dark_curent", "Did you mean 'dark_current'"),
        ("d_prime/delta_1", "no share of calls or pairs"),
        ("threshold_75", "no share of calls or pairs"),
        ("conditional_accuracy/delta_1", "no share of calls or pairs"),
        ("target_sensitivity", "name one of target_sensitivity/delta_1"),
        ("target_sensitivity/delta_9", "does not measure"),
        ("natural/accuracy", "does not measure"),
        ("all/accuracy", "over several tests of a reliability suite"),
    ],
)
def test_an_axis_that_cannot_be_planned_is_refused_with_what_can(key: str, words: str) -> None:
    frame = normalise(suite_calls(jrh.load_suite("datasheet-short")))
    with pytest.raises(RecipeError, match=r"Can be planned here: .*target_sensitivity/delta_k") as refused:
        axis_units(frame, key)
    assert words in str(refused.value)
