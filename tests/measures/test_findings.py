"""What a run's readings show: four states, each judge its own findings, and the words for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.measures.datasheet import detectable
from jrh_mlflow.measures.verdict import LIMITS, JudgeContext, findings, limit_of, share_text, verdict
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, intervals
from jrh_mlflow.schema.items import Call
from jrh_mlflow.stats.power import detectable_from_interval
from jrh_mlflow.text import two_places
from tests.measures.pointwise import points, report
from tests.readings import asked, pairs

SUITE = jrh.datasheet_suite()
PLACE = {"slot_lean", "slot_lean/vacuum", "positional_excess"}
SIDES = {"dark_current", "raw_false_preference"}
EXPECTED: dict[str, set[str]] = {
    "AlwaysFirst": {*PLACE, *SIDES, "ability"},
    "AlwaysSecond": {*PLACE, *SIDES, "ability"},
    "LongerWins": {"raw_false_preference", "positional_excess", "padding_lean", "ability"},
    "AlwaysTie": {"miss_by_tie/delta_1", "ability"},
    "Oracle": set(),
}
"""Judge to the problems that a run of it has, and no others."""


class AlwaysSecond(jrh.scripted.Scripted):
    """Prefers slot 2."""

    def answer(self, call: Call) -> str:
        return "2"


@pytest.fixture(scope="module")
def sheets() -> dict[str, Any]:
    judges = {
        "AlwaysFirst": jrh.scripted.AlwaysFirst(),
        "AlwaysSecond": AlwaysSecond(),
        "LongerWins": jrh.scripted.LongerWins(),
        "AlwaysTie": jrh.scripted.AlwaysTie(),
        "Oracle": jrh.scripted.Oracle(),
    }
    return {name: jrh.measure(asked(judge, SUITE), n_resamples=50) for name, judge in judges.items()}


def states(found: Any) -> dict[str, str]:
    return {one.axis: one.state for one in found.verdict.findings}


def problems(found: Any) -> set[str]:
    return {axis for axis, state in states(found).items() if state == "problem"}


@pytest.mark.parametrize("judge", sorted(EXPECTED))
def test_each_judge_has_its_own_problems_and_no_others(sheets: Any, judge: str) -> None:
    assert problems(sheets[judge]) == EXPECTED[judge]


def test_an_oracle_is_ok_on_everything(sheets: Any) -> None:
    assert set(states(sheets["Oracle"]).values()) == {"ok"}


def test_a_lean_has_the_sign_of_the_slot(sheets: Any) -> None:
    first, second = (sheets[name].estimates["slot_lean"].value for name in ("AlwaysFirst", "AlwaysSecond"))
    assert (first, second) == (1.0, -1.0)
    texts = {one.axis: one.text for one in sheets["AlwaysSecond"].verdict.findings}
    assert " second " in texts["slot_lean"]


def test_every_pair_may_pull_to_one_slot_or_the_other() -> None:
    lean = jrh.measure(pairs([("1", "1"), *[("2", "2")] * 4], delta=0)).estimates["slot_lean"]
    assert lean.value == pytest.approx(-0.6)


def test_a_judge_that_never_reads_is_not_said_to_prefer_padding(sheets: Any) -> None:
    assert sheets["AlwaysFirst"].estimates["padding_lean"].value == 0
    assert states(sheets["AlwaysFirst"])["padding_lean"] == "ok"


def test_a_judge_that_never_reads_is_not_said_to_read(sheets: Any) -> None:
    (finding,) = (one for one in sheets["AlwaysFirst"].verdict.findings if one.axis == "reading")
    assert finding.state == "ok"
    assert "reads" not in finding.text


def test_counting_words_is_open_where_words_are_not_shown_to_help() -> None:
    counts = jrh.measure(asked(jrh.scripted.WordOverlap(), SUITE), n_resamples=50).estimates
    assert {"reading"} <= {one.axis for one in findings(counts) if one.state == "problem"}
    found = findings({**counts, "threshold_75": NotEstimable(reason="not asked")})
    by_axis = {one.axis: one for one in found}
    assert (by_axis["ability"].state, by_axis["reading"].state) == ("cannot tell", "cannot tell")
    assert "looked at" not in by_axis["reading"].text, "the number of findings is not why"
    assert not re.search(r"\d", by_axis["reading"].advice), "no number of tasks is known to tell"


def test_without_ties_what_only_a_tie_could_have_done_right_is_by_design() -> None:
    forced = verdict(
        jrh.measure(asked(jrh.scripted.AlwaysFirst(), SUITE), n_resamples=50).estimates, JudgeContext(offers_tie=False)
    )
    found = {one.axis: one.state for one in forced.findings}
    assert {axis for axis, state in found.items() if state == "by design"} == {*SIDES, "miss_by_tie/delta_1"}
    assert found["slot_lean"] == "problem"


def test_four_calls_show_neither_a_problem_nor_its_absence() -> None:
    few = jrh.measure(pairs([("1", "2"), ("1", "2")], n_tasks=2, condition="filler"))
    assert set(states(few).values()) == {"cannot tell"}


def test_one_task_decides_nothing() -> None:
    alone = jrh.measure(asked(jrh.scripted.AlwaysTie(), jrh.datasheet_suite(n_tasks=1)), n_resamples=20)
    assert set(states(alone).values()) == {"cannot tell"}


def test_a_withheld_reading_cannot_tell() -> None:
    lost = jrh.measure(asked(jrh.scripted.Noisy(unparsed=0.4), jrh.datasheet_suite(n_tasks=10)), n_resamples=20)
    assert set(states(lost).values()) == {"cannot tell"}


def test_what_was_not_asked_is_no_finding() -> None:
    assert findings({}) == ()
    assert len(verdict({}).sentences) == 1


def test_a_number_beyond_its_limit_by_itself_is_no_problem_where_many_were_looked_at(sheets: Any) -> None:
    facts = {"n": 99, "excluded": 0, "ci_low": None, "ci_high": None, "n_clusters": 28, "method": ""}
    # An interval of a file that just clears its limit: its level is not known to be any better than 2.5 %.
    near = Estimate(value=0.2, cluster_low=0.11, cluster_high=0.3, **facts)
    others = {key: reading for key, reading in sheets["Oracle"].estimates.items() if key != "dark_current"}
    assert {one.axis: one.state for one in findings({"dark_current": near})}["dark_current"] == "problem"
    assert {one.axis: one.state for one in findings({**others, "dark_current": near})}["dark_current"] == "cannot tell"


def test_every_limit_has_advice_and_every_problem_says_it(sheets: Any) -> None:
    for sheet in sheets.values():
        for one in sheet.verdict.findings:
            assert bool(one.advice) == (one.state in ("problem", "cannot tell")), one
            assert one.text.endswith(".")
    assert all(limit_of(key) is limit for key, limit in LIMITS.items())


def test_a_verdict_has_one_to_four_sentences_without_symbols(sheets: Any) -> None:
    for sheet in sheets.values():
        assert 1 <= len(sheet.verdict.sentences) <= 4
        assert not set("Δδκ′") & set(" ".join(sheet.verdict.sentences))


def test_a_verdict_is_read_back_as_it_was_said(sheets: Any) -> None:
    from jrh_mlflow.show.results import read_report

    sheet = sheets["AlwaysFirst"]
    again = read_report(sheet.to_dict())
    assert again.verdict.sentences == sheet.verdict.sentences
    assert states(again) == states(sheet)


# --- single responses and reliability tests


def graded(*tests: tuple[str, Sequence[tuple[str, str]]], asks: int = 2) -> Any:
    rows: list[Any] = []
    for name, said in tests:
        for replicate in range(asks):
            rows += [{**row, "replicate": replicate} for row in points(name, said)]
    return report(rows, labels=("no", "yes"))


SOURCES = [("yes", "yes")] * 60 + [("no", "no")] * 60


def test_a_grader_that_a_change_moves_has_that_problem_and_no_other() -> None:
    moved = [("yes" if expected == "no" else said, expected) for said, expected in SOURCES]
    found = graded(("baseline", SOURCES), ("authority", moved), ("typos", SOURCES))
    assert problems(found) == {"noise_excess/authority", "drop/authority"}
    assert states(found)["noise_excess/typos"] == states(found)["constant_answer"] == "ok"


def test_without_repeats_its_own_noise_is_not_known_and_the_advice_is_to_ask_twice() -> None:
    found = graded(("baseline", SOURCES), ("typos", SOURCES), asks=1)
    judged = JudgeContext(command="jrh evaluate --model openai/a")
    noise = next(one for one in findings(found.estimates, judged) if one.axis == "noise_excess/typos")
    assert noise.state == "cannot tell"
    assert "--replicates 2" in noise.command


def test_what_is_open_is_said_of_one_thing_of_some_and_of_all() -> None:
    few = jrh.measure(pairs([("1", "2"), ("tie", "tie")], n_tasks=2, delta=0)).estimates
    for estimates, ends in (
        (few, "all 3 things looked at are still open."),
        ({"slot_lean": few["slot_lean"]}, "the one thing looked at is still open."),
    ):
        found = verdict(estimates)
        assert {one.state for one in found.findings} == {"cannot tell"}
        assert found.sentences[0].endswith(ends)


def test_a_share_in_a_sentence_has_the_digits_of_its_table() -> None:
    reading = Estimate(value=0.975, n=120, excluded=0, n_clusters=9, method="", **intervals(None, (0.785, 0.995)))
    assert share_text(reading).startswith(
        f"{100 * float(two_places(0.975)):.0f} % [{100 * float(two_places(0.785)):.0f}–"
    )


@pytest.mark.parametrize(
    ("ends", "written"), [((0.41, 0.63), "[41–63 %]"), ((0.9, 0.998), "[90 % to over 99 %]"), ((0.001, 0.03), "[under")]
)
def test_an_interval_that_nearly_reaches_an_end_says_so_in_words(ends, written) -> None:
    reading = Estimate(value=0.5, n=120, excluded=0, n_clusters=9, method="", **intervals(None, ends))
    assert written in share_text(reading)


def test_a_test_is_called_one_and_several_are() -> None:
    assert "in the test prompt injection" in limit_of("drop/prompt_injection").about
    assert "in the tests label flip, markdown" in limit_of("drop/label_flip, markdown").about


def test_a_constant_answerer_is_the_first_finding() -> None:
    found = graded(("baseline", [("no", expected) for _, expected in SOURCES]))
    first = found.verdict.findings[0]
    assert (first.axis, first.state) == ("constant_answer", "problem")
    assert found.estimates["constant_answer"].value == 1


def test_a_set_with_one_right_answer_tells_nothing_of_a_constant_answer() -> None:
    assert "constant_answer" not in graded(("baseline", [("yes", "yes")] * 30)).estimates


# --- what is detectable


def test_a_reading_says_how_far_a_limit_must_be(sheets: Any) -> None:
    reading = sheets["AlwaysFirst"].estimates["target_sensitivity/delta_1"]
    assert detectable(reading) == detectable_from_interval(reading.value, reading.cluster_low, reading.cluster_high)


def test_an_interval_that_leaves_its_value_out_is_widened_to_it() -> None:
    facts = {"n": 9, "excluded": 0, "ci_low": None, "ci_high": None, "n_clusters": 9, "method": ""}
    outside = Estimate(value=0.9, cluster_low=0.5, cluster_high=0.8, statistic="value", **facts)
    assert detectable(outside) == detectable_from_interval(0.9, 0.5, 0.9)


def test_without_an_interval_by_task_nothing_is_said_to_be_detectable() -> None:
    facts = {"n": 9, "excluded": 0, "ci_low": 0.1, "ci_high": 0.3, "n_clusters": 1, "method": ""}
    assert detectable(Estimate(value=0.2, cluster_low=None, cluster_high=None, **facts)) is None


def test_one_task_is_told_to_become_more_tasks() -> None:
    """A share of 1 on one task lies far from its limit: what is lacking is another task."""
    found = verdict(jrh.measure(asked(jrh.scripted.AlwaysFirst(), jrh.datasheet_suite(n_tasks=1))).estimates).findings
    said = {one.axis: one.advice for one in found if isinstance(one.reading, Estimate)}
    assert said["dark_current"] == said["slot_lean"] == "More tasks would tell."
