"""Judges of one response with known readings, and records that are lost, mixed or broken."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.comparing.comparison import compare_calls
from jrh_mlflow.errors import CallsError
from jrh_mlflow.judges.scripted import Scripted, uniform
from jrh_mlflow.measures.datasheet import NO_PROFILE
from jrh_mlflow.measures.single_responses import grades
from jrh_mlflow.schema.items import SINGLE_LADDERS, SINGLE_PADDED, SINGLE_VACUUM, Call, CallRecord
from tests.readings import asked, estimate, missing, value

DELTAS = range(1, 6)


class Knowing(Scripted):
    """A judge that is told the level: `rule` makes its answer from the level, None where there is nothing."""

    def __init__(self, rule: Callable[[float | None, Call], object]) -> None:
        super().__init__()
        self.rule = rule

    def answer(self, call: Call) -> Any:
        return self.rule(call.item.delta, call)


def coin(_level: float | None, call: Call) -> bool:
    return uniform("coin", call.item.id, call.replicate) < 0.5


STRICT = Knowing(lambda level, _: level == 5)
FLAT = Knowing(lambda level, _: "yes")
COIN = Knowing(coin)


@pytest.fixture(scope="module")
def suite() -> jrh.Suite:
    return jrh.load_suite("pointwise-datasheet")


@pytest.fixture(scope="module")
def small() -> jrh.Suite:
    return jrh.datasheet_suite(design="pointwise", n_tasks=4)


def curve(sheet: jrh.Datasheet, name: str) -> list[float]:
    return [round(value(sheet, f"pointwise/{name}/delta_{step}"), 6) for step in DELTAS]


def sheet_of(judge: object, suite: jrh.Suite, **how: Any) -> jrh.Datasheet:
    sheet = jrh.measure(asked(judge, suite), labels=suite.labels, **({"n_resamples": 200} | how))
    assert isinstance(sheet, jrh.Datasheet)
    return sheet


def test_an_oracle_separates_every_step_on_both_ladders_and_has_no_gap(suite: jrh.Suite) -> None:
    sheet = sheet_of(jrh.scripted.Oracle(), suite)
    assert curve(sheet, "separation") == curve(sheet, "matched_separation") == [1.0] * 5
    assert curve(sheet, "reading_gap") == [0.0] * 5
    for name, right in {"dark_current": 0, "monotonicity": 1, "padding": 0, "repeat_agreement": 1}.items():
        assert value(sheet, f"pointwise/{name}") == right, name
    assert sheet.profile.startswith(
        "scores from 0 to 1 (inferred); vacuum-clean, separates the levels, separates matched"
    )
    levels = [value(sheet, f"pointwise/mean_answer/level_{level}") for level in range(6)]
    assert levels == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])


def test_a_flat_judge_separates_nothing_and_looks_bad_in_words(suite: jrh.Suite) -> None:
    sheet = sheet_of(FLAT, suite)
    assert curve(sheet, "separation") == curve(sheet, "matched_separation") == [0.5] * 5
    assert value(sheet, "pointwise/dark_current") == 1
    assert "do not depend on the level" in missing(sheet, "pointwise/monotonicity").reason
    assert "vacuum-active, does not separate the levels, does not separate matched levels" in sheet.profile


def test_a_coin_separates_nothing_and_disagrees_with_itself(suite: jrh.Suite) -> None:
    sheet = sheet_of(COIN, suite)
    for axis in ("separation/delta_1", "separation/delta_5", "matched_separation/delta_1", "monotonicity"):
        found = estimate(sheet, f"pointwise/{axis}")
        assert found.cluster_interval is not None
        assert found.cluster_interval[0] < 0.5 < found.cluster_interval[1], axis
    assert value(sheet, "pointwise/repeat_agreement") == pytest.approx(0.5, abs=0.08)
    assert value(sheet, "pointwise/padding") == pytest.approx(value(sheet, "pointwise/padding_penalty"), abs=0.2)
    assert "repeats differ" in sheet.profile


def test_a_strict_yes_or_no_can_tell_only_the_complete_answer_from_the_others(suite: jrh.Suite) -> None:
    sheet = sheet_of(STRICT, suite)
    # Of the 6 - δ pairs of levels at a distance one holds the complete answer, and all others are ties.
    assert curve(sheet, "separation") == [round((1 + (5 - step) / 2) / (6 - step), 6) for step in DELTAS]
    assert value(sheet, "pointwise/monotonicity") == 1
    assert sheet.profile == (
        "yes/no answers; vacuum-clean, separates the levels, separates matched levels, monotone, repeats agree"
    )


def test_a_word_counter_climbs_the_ladder_and_stays_at_the_foot_of_the_matched_one(suite: jrh.Suite) -> None:
    sheet = sheet_of(jrh.scripted.WordOverlap(), suite)
    assert curve(sheet, "separation")[0] > 0.9
    assert curve(sheet, "separation")[4] == 1
    assert curve(sheet, "matched_separation") == pytest.approx([0.5] * 5, abs=0.15)
    assert value(sheet, "pointwise/reading_gap/delta_2") == pytest.approx(0.5, abs=0.12)
    assert "leans on words" in sheet.profile


def test_length_tells_nothing_of_the_level_and_everything_of_padding(suite: jrh.Suite) -> None:
    sheet = sheet_of(jrh.scripted.CharacterCount(), suite)
    assert curve(sheet, "separation") == pytest.approx([0.5] * 5, abs=0.02)
    assert value(sheet, "pointwise/padding") == 1
    assert value(sheet, "pointwise/padding_penalty") == 0


def test_every_axis_stands_on_all_tasks_with_both_intervals_of_some_width(small: jrh.Suite) -> None:
    for judge in (FLAT, COIN, jrh.scripted.Oracle()):
        for axis, reading in sheet_of(judge, small).estimates.items():
            if isinstance(reading, jrh.Estimate):
                assert reading.n_clusters == 4, axis
                assert reading.interval is not None, axis
                assert reading.cluster_interval is not None, axis
                assert reading.interval[0] <= reading.value <= reading.interval[1], axis
                assert reading.cluster_interval[1] - reading.cluster_interval[0] > 0.005, axis


@pytest.mark.parametrize(
    "say",
    [
        lambda level: level is not None and level >= 3,
        lambda level: "Yes" if level is not None and level >= 3 else "NO ",
        lambda level: "pass" if level is not None and level >= 3 else "fail",
        lambda level: 5 if level is not None and level >= 3 else 1,
        lambda level: 0.9 if level is not None and level >= 3 else 0.05,
        lambda level: np.float64(0.9) if level is not None and level >= 3 else np.float64(0.05),
        lambda level: jrh.Answer("4", rationale="fine") if level is not None and level >= 3 else jrh.Answer("1"),
    ],
)
@pytest.mark.parametrize("design", ["pointwise", "pointwise-scores"])
def test_every_form_of_answer_is_measured_whichever_is_asked_for(say: Callable[[Any], object], design: Any) -> None:
    small = jrh.datasheet_suite(design=design, n_tasks=2)
    calls = asked(Knowing(lambda level, _: say(level)), small)
    assert {call.outcome for call in calls} == {"verdict"}
    sheet = jrh.measure(calls, labels=small.labels)
    assert value(sheet, "pointwise/separation/delta_5") == 1
    assert value(sheet, "pointwise/separation/delta_1") == pytest.approx(0.6)
    assert value(sheet, "pointwise/dark_current") == 0


def test_what_is_no_answer_is_neither_no_nor_zero_and_withholds_what_it_was_asked_for(small: jrh.Suite) -> None:
    def broken(level: float | None, call: Call) -> object:
        if call.item.condition in SINGLE_VACUUM:
            raise RuntimeError("no text")
        return "perhaps" if call.item.condition == SINGLE_LADDERS[1] else level == 5

    sheet = sheet_of(Knowing(broken), small)
    assert sheet.outcomes["error"] == 8
    assert sheet.outcomes["unparsed"] == 48
    dark, matched = missing(sheet, "pointwise/dark_current"), missing(sheet, "pointwise/matched_separation/delta_1")
    assert dark.withheld
    assert dark.left_out["error"] == 8
    assert dark.bounds is not None
    assert (dark.bounds.low, dark.bounds.high) == (0, 1)
    assert matched.withheld
    assert matched.left_out["unparsed"] == 48
    assert value(sheet, "pointwise/separation/delta_5") == 1
    assert missing(sheet, "pointwise/reading_gap/delta_1").withheld
    assert "pointwise/dark_current" in sheet.withheld


def test_a_lost_call_is_counted_and_the_other_answers_to_its_content_are_used(suite: jrh.Suite) -> None:
    def once(level: float | None, call: Call) -> object:
        lost = call.item.condition == SINGLE_LADDERS[0] and level == 0 and call.replicate == 0
        if lost and call.item.task < "d":
            raise RuntimeError("gone")
        return level == 5

    found = estimate(sheet_of(Knowing(once), suite), "pointwise/separation/delta_5")
    assert found.n == 28, "the second answer to the content stands in"
    assert found.excluded == 0
    assert 0 < found.left_out["error"] <= 0.05 * 112
    assert found.value == 1
    assert found.bound_low is not None
    assert found.bound_low < 1 == found.bound_high


def test_an_abstention_passes_nothing_and_is_no_place_on_a_scale(suite: jrh.Suite) -> None:
    sheet = sheet_of(jrh.scripted.AlwaysTie(), suite)
    assert value(sheet, "pointwise/dark_current") == 0
    assert value(sheet, "pointwise/repeat_agreement") == 1
    assert missing(sheet, "pointwise/separation/delta_1").left_out["abstain"] == 336


def test_more_repeats_neither_change_the_units_nor_narrow_what_lies_between_tasks(small: jrh.Suite) -> None:
    once, often = (jrh.measure(asked(STRICT, small, replicates=n)) for n in (1, 3))
    for axis in ("separation/delta_2", "dark_current", "padding", "repeat_agreement", "monotonicity"):
        first, second = estimate(once, f"pointwise/{axis}"), estimate(often, f"pointwise/{axis}")
        assert first.value == second.value, axis
        assert first.cluster_interval == pytest.approx(second.cluster_interval), axis


def test_repeats_are_calls_of_their_own(small: jrh.Suite) -> None:
    calls = asked(COIN, small)
    repeated = [call for call in calls if call.condition in SINGLE_LADDERS]
    assert {call.replicate for call in repeated} == {0, 1}
    assert len({(call.suite_item, call.replicate) for call in repeated}) == len(repeated) == 2 * 2 * 6 * 4


def test_a_bare_table_is_measured_however_its_rows_stand(small: jrh.Suite) -> None:
    columns = [
        "suite_item",
        "task",
        "condition",
        "delta",
        "order",
        "better",
        "replicate",
        "outcome",
        "answer",
        "expected",
    ]
    calls = asked(COIN, small)
    frame = pd.DataFrame([{name: getattr(call, name) for name in columns} for call in calls])
    sheet = jrh.measure(calls)
    assert jrh.measure(frame.sample(frac=1, random_state=3)).estimates == sheet.estimates
    assert set(sheet.estimates) == set(jrh.measure(frame.assign(answer=frame["answer"] == "yes")).estimates)


def test_answers_of_the_rarer_form_are_lost_not_guessed(small: jrh.Suite) -> None:
    mixed = Knowing(lambda level, call: 0.5 if call.item.condition == SINGLE_PADDED else level == 5)
    sheet = sheet_of(mixed, small)
    assert missing(sheet, "pointwise/padding").left_out["unparsed"] == 8
    assert sheet.outcomes["unparsed"] == 0, "the judge did answer, and the records keep it"


@pytest.mark.parametrize(
    ("answers", "labels", "scale"),
    [
        (("0", "0.5", "1"), None, (0, 1)),
        (("1", "3", "5"), None, (1, 5)),
        (("3", "3"), None, (1, 5)),
        (("0", "3"), None, (0, 5)),
        (("1", "7"), None, (1, 10)),
        (("12", "80"), None, (0, 100)),
        (("-1", "1"), None, (-1, 1)),
        (("250", "999"), None, (0, 999)),
        (("2", "3"), ("1", "2", "3"), (1, 3)),
        (("2", "9"), ("1", "2", "3"), (1, 10)),
        (("2", "9"), ("no", "yes"), (1, 10)),
    ],
)
def test_scores_without_a_stated_scale_are_read_on_a_usual_one(
    answers: tuple[str, ...], labels: tuple[str, ...] | None, scale: tuple[float, float]
) -> None:
    found, used = grades(answers, labels)
    assert (used.low, used.high) == scale
    assert used.stated == (labels == ("1", "2", "3") and answers[-1] != "9")
    assert ((found >= 0) & (found <= 1)).all()


@pytest.mark.parametrize("how", [{"n_tasks": 1}, {"n_tasks": 2, "depth": 1}, {"n_tasks": 2, "half_steps": True}])
@pytest.mark.parametrize("judge", [Knowing(lambda *_: 1 / 0), jrh.scripted.Oracle(), jrh.scripted.Noisy()])
def test_small_designs_half_steps_and_judges_that_only_fail_are_shown_without_a_false_word(
    how: dict[str, Any], judge: Scripted
) -> None:
    small = jrh.datasheet_suite(design="pointwise", **how)
    sheet = sheet_of(judge, small)
    assert "One response" in sheet.to_markdown()
    assert json.dumps(sheet.to_dict())
    if isinstance(judge, jrh.scripted.Oracle):
        assert {reading.value for key, reading in sheet.estimates.items() if "/separation/" in key} == {1}  # type: ignore[union-attr]
        assert "cannot be told" in sheet.profile
    else:
        assert sheet.profile == f"no answers; {NO_PROFILE}"
        assert sheet.withheld


def test_labels_of_a_scale_in_words_are_taken_from_low_to_high() -> None:
    found, scale = grades(["poor", "good", "FAIR", "?"], ("poor", "fair", "good"))
    assert [*found[:3]] == [0, 1, 0.5]
    assert math.isnan(found[3])
    assert scale.kind == "labels"


@pytest.mark.parametrize(("score", "passed"), [("1", 0), ("2", 1), ("1.4", 0), ("1.5", 1)])
def test_nothing_is_passed_above_the_lowest_level(small: jrh.Suite, score: str, passed: int) -> None:
    def judge(level: float | None, _: Call) -> str:
        return score if level is None else str(1 + 0.8 * level)

    assert value(sheet_of(Knowing(judge), small), "pointwise/dark_current") == passed


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"delta": None}, "must be the level"),
        ({"delta": -1.0}, "must be the level"),
        ({"expected": "yes"}, "`expected` must be empty"),
        ({"better": "u"}, "`better` must be empty"),
        ({"condition": "typos", "delta": None, "suite_item": "other"}, "measure them apart"),
    ],
)
def test_records_that_break_a_rule_are_refused(small: jrh.Suite, change: dict[str, Any], told: str) -> None:
    calls: list[CallRecord] = asked(FLAT, small)
    with pytest.raises(CallsError, match=told):
        jrh.measure([replace(calls[0], **change), *calls[1:]])


def test_two_judges_are_compared_unit_by_unit(suite: jrh.Suite) -> None:
    names = {"oracle": jrh.scripted.Oracle(), "words": jrh.scripted.WordOverlap(), "flat": FLAT}
    calls = {name: pd.DataFrame([vars_of(call) for call in asked(judge, suite)]) for name, judge in names.items()}
    found = compare_calls(calls, labels=suite.labels, n_resamples=50)
    apart = {(one.axis, one.a, one.b) for one in found.different}
    assert ("pointwise/matched_separation/delta_5", "oracle", "words") in apart
    assert ("pointwise/separation/delta_5", "oracle", "flat") in apart
    assert ("pointwise/separation/delta_5", "oracle", "words") not in apart
    for one in found.differences:
        assert one.value == pytest.approx(
            found.cells[one.axis][one.a].value - found.cells[one.axis][one.b].value  # type: ignore[union-attr]
        ), one.axis
    assert found.letters["pointwise/dark_current"]["flat"] != found.letters["pointwise/dark_current"]["oracle"]
    assert not found.summaries["by_judge"]


def vars_of(call: CallRecord) -> dict[str, Any]:
    return {name: getattr(call, name) for name in CallRecord.__slots__}


@pytest.mark.parametrize("labels", [["1", "2", "3", "4", "5"], None], ids=["stated", "inferred"])
@pytest.mark.parametrize("stray", ["100", "-1", "0"])
def test_one_number_off_the_scale_is_a_lost_answer_and_moves_no_other(stray: str, labels: list[str] | None) -> None:
    said = ["1", "5", "3", "2", "4", *["1", "5"] * 20]
    values, scale = grades([*said, stray], labels)
    assert (scale.low, scale.high) == (1, 5)
    assert values[:5].tolist() == [0, 1, 0.5, 0.25, 0.75]
    assert math.isnan(values[-1])


def test_a_judge_on_another_scale_than_the_stated_one_is_read_on_its_own() -> None:
    values, scale = grades(["0", "50", "100", "20"], ["1", "2", "3", "4", "5"])
    assert (scale.low, scale.high, scale.stated) == (0, 100, False)
    assert values.tolist() == [0, 0.5, 1, 0.2]


def test_a_stray_answer_turns_no_dark_current_around(suite: jrh.Suite) -> None:
    """Every empty response is scored 5 of 5; one content of a ladder gets 100."""
    first = next(item.id for item in suite.items if item.condition == SINGLE_LADDERS[0])

    def rule(level: float | None, call: Call) -> str:
        return (
            "100" if (call.item.id, call.replicate) == (first, 0) else "5" if level is None else str(1 + int(level) % 5)
        )

    sheet = sheet_of(Knowing(rule), suite)
    assert value(sheet, "pointwise/dark_current") == 1


def test_bounds_of_the_gap_count_calls_on_both_ladders(suite: jrh.Suite) -> None:
    """One ladder has a number, of pairs of contents; the other lost too many of its calls."""
    calls = [
        replace(record, outcome="error", answer="") if record.condition == SINGLE_LADDERS[1] and index % 3 else record
        for index, record in enumerate(asked(Knowing(lambda level, _: level == 5), suite))
    ]
    gap = missing(jrh.measure(calls), "pointwise/reading_gap/delta_5")
    assert gap.bounds is not None
    on_ends = [one for one in calls if one.condition in SINGLE_LADDERS and one.delta in (0.0, 5.0)]
    assert gap.bounds.asked == len(on_ends)
    assert gap.bounds.lost == gap.left_out
    assert gap.bounds.lost["error"] == sum(one.outcome == "error" for one in on_ends)
