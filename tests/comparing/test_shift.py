"""Criterion shifts: signs, intervals and reasons."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.comparing.criterion_shift import criterion_axes, difference, shift_page, shift_verdict
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.stats.proportions import newcombe
from tests.benchmarks.shifts import measured, moving, together
from tests.comparing.comparing_tools import claim
from tests.readings import Row, asked, estimate, pair, pairs


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
    assert found.reason.startswith("base arm: 80 of 80 delta_0_same calls")


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
    assert found.method.endswith("no clustered interval")


def test_left_out_calls_of_both_arms_are_counted():
    said = [("1", "error")] + [("1", "2")] * 19
    lossy = jrh.measure(pairs(said, delta=0))
    found = shift(lossy, lossy, "raw_false_preference")
    assert (found.n, found.excluded) == (39, 2)


def by_task(shares: Sequence[float], *, per_task: int = 4) -> list[Row]:
    """Equal pairs of which so many are ties in each task, in both orders."""
    return [
        row
        for task, share in enumerate(shares)
        for at in range(per_task)
        for row in pair(f"{task}-{at}", *["tie" if at < share * per_task else "1"] * 2, task=f"t{task:02d}", delta=0)
    ]


def paired_shift(before: list[Row], after: list[Row], *, calls: bool = True) -> jrh.Estimate:
    records = {"allowed": normalise(before), "strict": normalise(after)}
    sheets = {name: jrh.measure(each, n_resamples=20).estimates for name, each in records.items()}
    found = criterion_axes(sheets, calls=records if calls else None)["strict/tie_rate/delta_0_same"]
    assert isinstance(found, jrh.Estimate)
    return found


def width(found: jrh.Estimate) -> float:
    assert found.cluster_low is not None
    assert found.cluster_high is not None
    return found.cluster_high - found.cluster_low


RISING = [0.0, 0.25, 0.5, 0.75] * 5
MORE = [share + 0.25 for share in RISING]


def test_arms_that_go_together_over_tasks_have_a_narrower_shift_and_arms_that_go_apart_a_wider_one():
    base, together, apart = by_task(RISING), by_task(MORE), by_task(MORE[::-1])
    unpaired = paired_shift(base, together, calls=False)
    found = paired_shift(base, together)
    assert width(found) < 0.6 * width(unpaired)
    assert width(paired_shift(base, apart)) > 1.2 * width(unpaired)
    assert (found.value, found.ci_low, found.n) == (unpaired.value, unpaired.ci_low, unpaired.n)
    assert found.method.split("; ") == [
        "Newcombe difference of the intervals, paired by task",
        "clustered by task",
        "few tasks (20)",
    ]


def test_at_an_edge_the_shift_is_as_wide_as_without_pairs():
    """A share that does not vary says nothing of how the arms go together."""
    assert width(paired_shift(by_task([0.0] * 20), by_task(MORE))) == pytest.approx(
        width(paired_shift(by_task([0.0] * 20), by_task(MORE), calls=False))
    )


def test_arms_that_agree_in_every_task_keep_a_width():
    """The next task may be the one that moves: one of twenty, at least, is inside."""
    found = paired_shift(by_task(RISING), by_task(RISING))
    assert found.value == 0
    assert found.cluster_low is not None
    assert found.cluster_low < -0.05
    assert found.cluster_high is not None
    assert found.cluster_high > 0.05


def test_tasks_are_matched_by_name_where_an_arm_lacks_some():
    """A run that was stopped has fewer tasks; the others are compared with their own."""
    whole = paired_shift(by_task(RISING), by_task(MORE))
    stopped = paired_shift(by_task(RISING), [row for row in by_task(MORE) if row["task"] != "t00"])
    assert width(stopped) == pytest.approx(width(whole), rel=0.15)


def test_copies_of_every_call_move_no_interval_of_a_shift():
    base, more = by_task(RISING), by_task(MORE)
    twice = [[row | {"replicate": times} for row in rows for times in (0, 1)] for rows in (base, more)]
    once = paired_shift(base, more)
    assert (paired_shift(*twice).cluster_low, paired_shift(*twice).cluster_high) == pytest.approx(
        (once.cluster_low, once.cluster_high)
    )


@pytest.mark.parametrize(("n_tasks", "shared"), [(28, 0.0), (28, 0.9), (10, 0.9)])
def test_the_paired_interval_covers_the_shift(n_tasks, shared):
    """Task rates of .5 and .9 (ICC .3) that go together in part; 4 calls per arm and task."""
    (_, wide), (covered, width) = measured(together(n_tasks, 4, (0.5, 0.9), shared=shared, alike=0), 0.4, 4, draws=100)
    assert covered >= 0.93
    assert width <= 1.03 * wide


def test_a_shift_in_whole_tasks_that_is_rare_is_covered():
    """Where the arms are the same but for one task in sixteen, many runs show no difference at all to correlate."""
    draw = moving(28, 12, 0.5, moves=1 / 16, icc=0)
    assert measured(draw, 0.5 / 16, 12, draws=100)[1, 0] >= 0.93


def advice(**arms: jrh.Datasheet) -> tuple[str, ...]:
    sheets = {name: sheet.estimates for name, sheet in arms.items()}
    shifts = criterion_axes(sheets)
    sentences = shift_verdict(sheets, shifts).sentences
    page = shift_page(sheets, shifts, judge="judge")
    assert (page.lead, *page.sentences) == sentences
    assert "What to do" in page.to_text()
    return sentences


def stepped(*, ties: int, missed: int = 0, n: int = 40) -> jrh.Datasheet:
    """Equal pairs with so many ties, a small step with so many misses, and two large steps that are always seen."""
    rows = pairs([("tie", "tie")] * ties + [("1", "2")] * (n - ties), delta=0)
    rows += pairs(
        [("tie", "tie")] * missed + [("1", "2")] * (n - missed), name="one", condition="ladder", delta=1, better="u"
    )
    for step in (4, 5):
        rows += pairs([("1", "2")] * n, name=f"step{step}", condition="ladder", delta=step, better="u")
    return jrh.measure(rows, n_resamples=20)


def test_the_criterion_with_fewer_invented_preferences_is_recommended_with_what_it_costs():
    first, cost = advice(allowed=stepped(ties=5), strict=stepped(ties=38, missed=25))
    assert first.startswith(f"Use strict: with it the judge {claim('raw_false_preference')} 0.05 [")
    assert cost.startswith(f"What that costs: it {claim('miss_by_tie/delta_1')} 0.62 [")
    assert "for allowed" in first
    assert "for allowed" in cost


def test_back_quotes_of_a_criterion_make_no_code():
    sentences = advice(**{"`loose`": stepped(ties=5), "`own`": stepped(ties=38, missed=25)})
    assert sentences[0].startswith("Use ˋownˋ: ")
    assert "`" not in "".join(sentences)


def test_the_base_is_recommended_where_the_other_invents_more():
    first, cost = advice(strict=stepped(ties=38), allowed=stepped(ties=5))
    assert first.startswith("Use strict")
    assert cost.startswith("It is not shown to miss more real differences")


def test_a_criterion_under_which_the_judge_is_less_able_is_not_recommended():
    def ties_everywhere(n: int = 40) -> jrh.Datasheet:
        rows = pairs([("tie", "tie")] * n, delta=0)
        for step in (1, 4, 5):
            rows += pairs([("tie", "tie")] * n, name=f"s{step}", condition="ladder", delta=step, better="u")
        return jrh.measure(rows, n_resamples=20)

    first, *rest = advice(allowed=stepped(ties=5), strictest=ties_everywhere())
    assert first.startswith(f"Use allowed: with it the judge {claim('ability')} 1.00 [")
    assert rest[0].startswith(f"But it {claim('raw_false_preference')} 0.88 [")
    assert rest[1].startswith("It misses fewer real differences"), "what speaks for it does not follow on a but"


def test_criteria_that_nothing_tells_apart_keep_the_base_and_say_what_would_tell():
    first, *_ = advice(allowed=stepped(ties=30), strict=stepped(ties=31))
    assert first.startswith("No difference ")
    assert "allowed and strict: keep allowed, and about " in first


def test_a_judge_that_never_beats_a_coin_has_no_criterion_to_use():
    (first,) = advice(allowed=arm(ties=40), strict=arm(ties=40))
    assert first.startswith("Use none of these criteria")
