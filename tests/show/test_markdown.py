"""The datasheet as a page: every number with its n and interval, every missing one with its reason."""

from __future__ import annotations

import re

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.show.numbers import interval_text, threshold_text, value_text
from jrh_mlflow.show.plain_text import MAX_DESCRIPTION, shortened
from jrh_mlflow.show.tables import Column, Table
from tests.readings import asked, estimate, pairs

MLFLOW_TAG_LIMIT = 8000
"""MLflow cuts a longer run description without a word."""
ROWS = "| cell | 0.5 |\n" * 400


@pytest.fixture(scope="module")
def paper() -> dict[str, jrh.Datasheet]:
    suite = jrh.load_suite("datasheet-paper")
    return {name: jrh.measure(asked(jrh.scripted.profile(name), suite)) for name in ("Llama8B", "Qwen32B_strict")}


def test_a_share_stands_with_both_intervals_and_its_denominator(paper):
    line = next(line for line in paper["Llama8B"].to_markdown().splitlines() if line.startswith("| dark current "))
    reading = estimate(paper["Llama8B"], "dark_current")
    clustered = f"[{reading.cluster_low:.2f}, {reading.cluster_high:.2f}]"
    assert line == f"| dark current | 0.67 | [0.58, 0.74] | {clustered} | 120 calls | 0 |"


def test_pair_shares_are_said_to_be_of_pairs(paper):
    assert "| positional (same slot twice) | 0.97 |" in paper["Llama8B"].to_markdown()
    assert "| 60 pairs | 0 |" in paper["Llama8B"].to_markdown()


def test_the_threshold_stands_below_its_ladder(paper):
    text = paper["Llama8B"].to_markdown()
    assert "Threshold Δ75: **4.00** (95 % by task from " in text
    assert "| 1 | 0.61 " in text


def test_the_matched_ladder_has_its_own_table_with_the_gap_and_its_own_threshold():
    sheet = jrh.measure(asked(jrh.scripted.WordOverlap(), jrh.datasheet_suite(n_tasks=6, depth=2)), n_resamples=50)
    own = sheet.to_markdown().partition("### Matched ladder (same words, wrong facts) (95 % by task)\n\n")[2]
    lines = own.splitlines()
    assert lines[0] == "| δ | better (same words) | reading gap | n calls |"
    for step, line in ((1, lines[2]), (2, lines[3])):
        matched, gap = (estimate(sheet, f"{axis}/delta_{step}") for axis in ("matched_sensitivity", "reading_gap"))
        cells = [f"{one.value:.2f} [{one.cluster_low:.2f}, {one.cluster_high:.2f}]" for one in (matched, gap)]
        assert line == f"| {step} | {cells[0]} | {cells[1]} | {matched.n} |"
    threshold = threshold_text(sheet.estimates["matched_threshold_75"])
    assert lines[5].startswith(f"Threshold Δ75 (same words): **{threshold}** (")


def test_what_was_not_measured_is_named_with_its_reason_and_has_no_row(paper):
    text = paper["Qwen32B_strict"].to_markdown()
    assert "| n/a | dark current, tie rate (nothing to judge) | no vacuum calls |" in text
    assert "at delta 1, 5 only" in text
    assert "| dark current |" not in text
    assert "nan" not in text.lower()


def test_withheld_axes_are_listed_as_withheld():
    text = jrh.measure(pairs([("1", "error")] * 3 + [("1", "2")] * 7, delta=0)).to_markdown()
    assert (
        "| withheld | raw false preference, tie rate (equal quality), other conflict | 3 of 20 equal quality calls"
        in text
    )
    assert re.search(r"one-sided commit, no preference \| 3 of 20 calls on equal quality pairs .* \(error 3\)", text)
    assert "| raw false preference | between 0.85 and 1.00 (15 % of 20 calls lost: withheld) | – | – |" in text


def test_lost_pairs_stand_with_the_calls_that_were_lost():
    """A pair that lost both calls is one pair."""
    lost = [("1", "error"), ("error", "error")]
    text = jrh.measure(pairs(lost + [("1", "2")] * 38, delta=0)).to_markdown()
    assert "| 38 pairs | 2 (3 calls) |" in text
    assert "| 77 calls | 3 |" in text


def test_title_note_profile_and_outcomes_are_told(paper):
    text = paper["Llama8B"].to_markdown(title="Llama8B on paper", note="Simulated.")
    first, *_, last = paper["Llama8B"].verdict.sentences
    assert text.startswith(f"# Llama8B on paper\n\n**{first}**\n\n")
    assert text.index(last) < text.index("\n\n> Simulated.\n\n") < text.index("| axis |")
    assert text.index("**Profile.**") < text.index("vacuum-leaky, ")
    assert "Calls: 540 (verdict 500, tie 40, abstain 0, unparsed 0, error 0)." in text
    assert "decisions use the second" in text


def test_left_out_calls_show_in_the_ladder():
    rows = pairs([("1", "2")] * 19 + [("1", "error")], condition="ladder", delta=1, better="u")
    assert "| 39 (−1) |" in jrh.measure(rows).to_markdown()


def test_one_task_has_no_clustered_interval_and_says_so():
    text = jrh.measure(pairs([("1", "2")] * 4, n_tasks=1, condition="ladder", delta=1, better="u")).to_markdown()
    assert "**≤ 1, not decided** (one task, no interval)." in text


def test_a_threshold_below_the_smallest_step_is_not_said_to_reach_beyond_the_largest():
    # One task of ten reads 0.4: drawn five times or more, in 1 of 600 resamples, it takes the curve under 75 %.
    answers = [("2", "1") if index % 10 == 0 and index >= 20 else ("1", "2") for index in range(50)]
    sheet = jrh.measure(pairs(answers, n_tasks=10, condition="ladder", delta=1, better="u"), n_resamples=3000)
    reading = estimate(sheet, "threshold_75")
    assert 0.99 < reading.censoring["left"] < 1
    assert (reading.cluster_low, reading.cluster_high) == (None, None)
    # The one task leaves room for less than 75 %: the bound is shown, and not claimed.
    assert "**≤ 1, not decided** (100% of resamples reach it at the smallest step, 0% never)." in sheet.to_markdown()


def test_natural_pairs_have_a_section_of_their_own():
    text = jrh.measure(pairs([("1", "2")] * 4, condition="natural", better="u")).to_markdown()
    assert "### Natural pairs" in text
    assert "### Quality ladder" not in text


@pytest.mark.parametrize("half_steps", [False, True])
def test_the_longest_datasheet_fits_into_an_mlflow_run_description(half_steps):
    steps = {0.5: 0.55, 1: 0.6, 2: 0.7, 3: 0.8, 4: 0.88, 5: 0.94}
    judge = jrh.scripted.Noisy(sensitivity=steps, icc=0.1, unparsed=0.01)
    text = jrh.measure(asked(judge, jrh.datasheet_suite(half_steps=half_steps)), n_resamples=200).to_markdown()
    assert len(text) < MLFLOW_TAG_LIMIT


def test_a_cell_cannot_break_out_of_its_table():
    table = Table.of(Column("a", lambda row: row[0]), Column("b", lambda row: row[1]))
    assert table([("x|y", "one\ntwo")]).to_markdown() == "| a | b |\n| --- | --- |\n| x\\|y | one two |"


def test_numbers_are_printed_to_two_places_and_missing_ones_as_words(paper):
    assert interval_text(None, None) == "–"
    assert interval_text(None, 2.5) == "[–, 2.50]"
    assert value_text(None) == value_text(jrh.NotEstimable(reason="no calls")) == "n/a"
    assert value_text(paper["Llama8B"].estimates["dark_current"]) == "0.67"


@pytest.mark.parametrize(("answers", "text"), [([("1", "2")], "≤ 1"), ([("1", "1")], "> 1"), ([("tie", "tie")], "> 1")])
def test_a_censored_threshold_carries_its_sign(answers, text):
    sheet = jrh.measure(pairs(answers * 20, condition="ladder", delta=1, better="u"))
    assert threshold_text(sheet.estimates["threshold_75"]) == text
    few = jrh.measure(pairs(answers * 2, condition="ladder", delta=1, better="u"))
    assert threshold_text(few.estimates["threshold_75"]) == f"{text}, not decided"
    assert threshold_text(jrh.NotEstimable(reason="gaps")) == "n/a"


def test_the_steps_that_decide_a_threshold_stand_beside_it(paper):
    told = "; by the intervals of the steps below 75 % up to delta 1, at or above 75 % from delta 5 on."
    assert told in paper["Llama8B"].to_markdown()


@pytest.mark.parametrize("mark", ["##", "###"])
def test_a_long_description_ends_with_a_whole_section_and_says_where_the_rest_is(mark: str) -> None:
    text = f"# Title\n\n{mark} Scores\n{ROWS[:6000]}\n{mark} Differences\n{ROWS[:6000]}"
    cut = shortened(text, artifact="comparison.md")
    assert len(cut) < MAX_DESCRIPTION
    assert f"{mark} Scores" in cut
    assert f"{mark} Differences" not in cut
    assert cut.endswith("The whole text is in the artifact `comparison.md`.\n")
    assert shortened(text[:7000], artifact="comparison.md") == text[:7000]


def test_one_long_section_ends_with_a_whole_line() -> None:
    one_long_section = shortened(f"# Title\n\n### Scores\n{ROWS * 2}", artifact="comparison.md")
    assert 7000 < len(one_long_section) < MAX_DESCRIPTION
    assert "| cell | 0.5 |\n\nThe whole text" in one_long_section
    lines = shortened("\n".join(f"line {number}" for number in range(2000)), artifact="sweep.md")
    assert len(lines) < MLFLOW_TAG_LIMIT
    assert lines.endswith("The whole text is in the artifact `sweep.md`.\n")


def test_a_text_of_one_line_is_shortened_too() -> None:
    cut = shortened("x" * 20_000, artifact="jury.md")
    assert 7000 < len(cut) < MAX_DESCRIPTION
    assert cut.endswith("x\n\nThe whole text is in the artifact `jury.md`.\n")
