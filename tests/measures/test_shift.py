"""Criterion shifts: signs, intervals and reasons."""

from __future__ import annotations

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.measures.criterion import criterion_axes, difference
from jrh_mlflow.stats.proportions import newcombe
from tests.readings import asked, estimate, pairs


def arm(*, ties: int, n: int = 40) -> jrh.Datasheet:
    """Equal pairs and one ladder step, with `ties` of `n` pairs tied and the others chosen rightly."""
    said = [("tie", "tie")] * ties + [("1", "2")] * (n - ties)
    rows = pairs(said, delta=0) + pairs(said, name="step", condition="ladder", delta=1, better="u")
    return jrh.measure(rows, n_resamples=20)


def shift(before: jrh.Datasheet, after: jrh.Datasheet, axis: str) -> jrh.Estimate:
    found = criterion_axes({"allowed": before.estimates, "strict": after.estimates})[f"strict/{axis}"]
    assert isinstance(found, jrh.Estimate)
    return found


def test_a_stricter_arm_moves_ties_up_and_preferences_down():
    base, strict = arm(ties=10), arm(ties=30)
    assert shift(base, strict, "tie_rate/delta_0_same").value == pytest.approx(0.5)
    assert shift(base, strict, "raw_false_preference").value == pytest.approx(-0.5)
    assert shift(base, strict, "miss_by_tie/delta_1").value == pytest.approx(0.5)
    assert shift(base, strict, "target_sensitivity/delta_1").value == pytest.approx(-0.5)
    assert shift(base, strict, "wrong_choice/delta_1").value == 0


def test_the_interval_of_a_shift_is_newcombes_and_never_of_zero_width():
    base, strict = arm(ties=10), arm(ties=30)
    before, after = (estimate(sheet, "raw_false_preference") for sheet in (base, strict))
    found = difference(before, after)
    assert isinstance(found, jrh.Estimate)
    sides = [(one.value, (one.cluster_low or 0.0, one.cluster_high or 1.0)) for one in (before, after)]
    assert (found.cluster_low, found.cluster_high) == pytest.approx(newcombe(*sides[0], *sides[1]))
    nothing = shift(base, base, "wrong_choice/delta_1")
    assert nothing.value == 0
    assert nothing.ci_low is not None
    assert nothing.ci_high is not None
    assert nothing.ci_low < 0 < nothing.ci_high


def test_the_published_strict_arm_moves_as_published():
    """Table 6: ties on equal pairs 89 to 120 of 120, right at step 1 94 to 50 of 100, ties there 6 to 50."""
    suite = jrh.load_suite("datasheet-paper")
    base, strict = (jrh.measure(asked(jrh.scripted.profile(n), suite)) for n in ("Qwen32B", "Qwen32B_strict"))
    assert shift(base, strict, "tie_rate/delta_0_same").value == pytest.approx(31 / 120)
    assert shift(base, strict, "raw_false_preference").value == pytest.approx(-31 / 120)
    assert shift(base, strict, "target_sensitivity/delta_1").value == pytest.approx(-0.44)
    assert shift(base, strict, "miss_by_tie/delta_1").value == pytest.approx(0.44)
    axes = criterion_axes({"allowed": base.estimates, "strict": strict.estimates})
    assert "strict/target_sensitivity/delta_3" not in axes
    vacuum = axes["strict/dark_current"]
    assert vacuum == jrh.NotEstimable(reason="other arm: no vacuum calls")


def test_a_withheld_side_withholds_the_shift():
    lost = jrh.measure(pairs([("error", "error")] * 40, delta=0))
    axes = criterion_axes({"allowed": lost.estimates, "strict": arm(ties=0).estimates})
    found = axes["strict/raw_false_preference"]
    assert isinstance(found, jrh.NotEstimable)
    assert found.withheld
    assert found.reason.startswith("base arm: 80 of 80 delta_0_same calls gave no usable answer")


def test_every_other_arm_is_compared_with_the_first():
    axes = criterion_axes(
        {"allowed": arm(ties=10).estimates, "strict": arm(ties=30).estimates, "forced": arm(ties=0).estimates}
    )
    values = {
        axis: reading.value for axis, reading in axes.items() if isinstance(reading, jrh.Estimate) and "delta_0" in axis
    }
    assert values == pytest.approx({"strict/tie_rate/delta_0_same": 0.5, "forced/tie_rate/delta_0_same": -0.25})


def test_one_task_gives_a_shift_without_a_clustered_interval():
    one = jrh.measure(pairs([("1", "2")] * 4, n_tasks=1, delta=0))
    found = shift(one, one, "raw_false_preference")
    assert (found.cluster_low, found.cluster_high) == (None, None)
    assert found.ci_low is not None
    assert found.method.endswith("one task, no clustered interval")


def test_left_out_calls_of_both_arms_are_counted():
    said = [("1", "error")] + [("1", "2")] * 19
    lossy = jrh.measure(pairs(said, delta=0))
    found = shift(lossy, lossy, "raw_false_preference")
    assert (found.n, found.excluded) == (39, 2)
