"""The suites that spread over many tasks: counts, turns of levels, and a matched ladder that words cannot tell."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.schema.items import LADDERS, Item
from tests.readings import asked, estimate, value

PER_TASK = {
    **{(f"vacuum_{kind}", None): 1 for kind in ("empty", "whitespace", "identical")},
    ("delta_0_same", 0.0): 2,
    ("delta_0_different", 0.0): 1,
    ("filler", None): 1,
    **{(ladder, step): 2 if step == 1 else 1 for ladder in LADDERS for step in (1.0, 2.0, 3.0, 4.0, 5.0)},
}


@pytest.fixture(scope="module")
def suite() -> jrh.Suite:
    return jrh.load_suite("datasheet")


@pytest.fixture(scope="module")
def short() -> jrh.Suite:
    return jrh.load_suite("datasheet-short")


def of(suite: jrh.Suite, *conditions: str) -> list[Item]:
    return [item for item in suite.items if item.condition in conditions]


def name(item: Item) -> str:
    return item.id.rpartition(".")[2]


def test_every_task_has_nineteen_pairs_of_all_kinds(suite):
    assert len({item.task for item in suite.items}) == 28
    assert sum(len(item.orders) for item in suite.items) == 1064
    for task in {item.task for item in suite.items}:
        assert Counter((item.condition, item.delta) for item in suite.items if item.task == task) == PER_TASK


def test_the_short_suite_spreads_128_calls_over_twelve_tasks(short):
    assert sum(len(item.orders) for item in short.items) == 128
    assert Counter(Counter(item.task for item in short.items).values()) == {5: 8, 6: 4}
    assert len({item.task for item in short.items}) == 12
    for condition, per_task in {"ladder": 1, "ladder_matched": 2, "delta_0_same": 1}.items():
        assert set(Counter(item.task for item in of(short, condition)).values()) == {per_task}
    assert {item.delta for item in of(short, *LADDERS)} == {1.0}


def test_the_two_matched_pairs_of_a_short_suite_have_exchanged_their_wordings(short):
    """Sentence by sentence: the worse of one pair has the wordings of the better of the other."""
    from jrh_mlflow.suites.tasks import built_in_tasks

    tasks = {task.id: task for task in built_in_tasks()}

    def wording(text: str, task: str) -> list[int]:
        parts = [(tasks[task].opening,), *([one.satisfied, one.matched] for one in tasks[task].requirements)]
        return [int(pair[1] in text) for pairs in parts for pair in pairs if any(one in text for one in pair)]

    for task in {item.task for item in short.items}:
        found = []
        for item in of(short, "ladder_matched"):
            if item.task == task:
                better, worse = (item.u, item.v) if item.better == "u" else (item.v, item.u)
                found.append((wording(str(worse), task), wording(str(better), task)))
        assert found[0] == found[1][::-1]


def test_over_the_tasks_all_levels_and_variants_take_their_turn_about_equally_often(suite):
    for (condition, delta), per_task in PER_TASK.items():
        found = Counter(name(item) for item in of(suite, condition) if item.delta == delta)
        kinds = {"vacuum": 2, "ladder": 6 - int(delta or 0), "filler": 3}.get(condition.split("_")[0], 6)
        assert len(found) == (4 if condition == "delta_0_different" else kinds), (condition, delta)
        assert max(found.values()) - min(found.values()) <= 2 * per_task, (condition, delta)


def test_both_ladders_of_a_task_climb_the_same_steps(suite):
    ladder, matched = (
        {(item.task, name(item), item.better, str(item.meta)) for item in of(suite, condition)} for condition in LADDERS
    )
    assert ladder == matched


def test_on_the_matched_ladder_nothing_is_written_neutrally(suite):
    from jrh_mlflow.suites.tasks import built_in_tasks

    tasks = {task.id: task for task in built_in_tasks()}
    for item in of(suite, "ladder_matched"):
        for side, text in (("u", item.u), ("v", item.v)):
            for one in tasks[item.task].requirements:
                state = "satisfied" if one.id in item.meta["satisfied"][side] else "matched"
                assert sum(sentence in str(text) for sentence in one.wordings(state)) == 1, item.id


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("options", [{}, {"design": "short", "n_tasks": 12, "depth": 3}], ids=["spread", "short"])
def test_the_longer_is_the_better_in_half_of_the_pairs_of_every_step(seed, options):
    suite = jrh.datasheet_suite(seed=seed, **options)
    longer_is_better: Counter[tuple[str, float | None]] = Counter()
    total: Counter[tuple[str, float | None]] = Counter()
    for item in of(suite, *LADDERS):
        u, v = len(item.u or ""), len(item.v or "")
        assert max(u, v) <= 1.04 * min(u, v)
        total[item.condition, item.delta] += 1
        longer_is_better[item.condition, item.delta] += 1 / 2 if u == v else (u > v) == (item.better == "u")
    for (condition, step), n in total.items():
        share = longer_is_better[condition, step] / n
        # Exactly on the ladder. Swapped facts may change a sentence by a letter or two.
        assert share == 0.5 if condition == LADDERS[0] else 0.4 <= share <= 0.6, (condition, step)


def test_on_the_matched_ladder_of_a_task_each_wording_is_as_often_on_the_better_side_as_on_the_worse(suite):
    from jrh_mlflow.suites.tasks import built_in_tasks

    for task in built_in_tasks():
        ones: Counter[tuple[str, str]] = Counter()
        for item in of(suite, "ladder_matched"):
            if item.task == task.id:
                better, worse = (item.u, item.v) if item.better == "u" else (item.v, item.u)
                for one in task.requirements:
                    seconds = (one.satisfied[1], one.matched[1])
                    ones[one.id, "better"] += any(text in str(better) for text in seconds)
                    ones[one.id, "worse"] += any(text in str(worse) for text in seconds)
        assert all(ones[one.id, "better"] == ones[one.id, "worse"] for one in task.requirements), task.id


def test_the_arguments_of_the_published_design_keep_their_meaning():
    few = jrh.datasheet_suite(n_tasks=4, depth=3, half_steps=True)
    assert (few.name, few.origin["design"]) == ("datasheet-4x3-half-s0", "spread")
    steps = Counter((item.condition, item.delta) for item in of(few, *LADDERS))
    ladder = {("ladder", 0.5): 8, ("ladder", 1.0): 8, ("ladder", 2.0): 4, ("ladder", 3.0): 4}
    assert steps == ladder | {("ladder_matched", 1.0): 8, ("ladder_matched", 2.0): 4, ("ladder_matched", 3.0): 4}
    assert len(jrh.datasheet_suite(n_tasks=1, depth=1)) == 8
    with pytest.raises(ValueError, match=r"`design` must be spread, .*, but got 'wide'"):
        jrh.datasheet_suite(design="wide")


# Judges with known readings.


def counts_words(presentation: jrh.Presentation) -> str:
    """Prefer the content that shares more words with the instruction."""
    known = set(re.findall(r"[a-z0-9]{4,}", presentation.instruction.lower()))
    one, other = (
        len(known & set(re.findall(r"[a-z0-9]{4,}", str(text).lower())))
        for text in (presentation.first, presentation.second)
    )
    return "tie" if one == other else "1" if one > other else "2"


def test_an_oracle_shows_no_gap_between_the_ladders_and_the_interval_keeps_a_width(suite):
    sheet = jrh.measure(asked(jrh.scripted.Oracle(), suite))
    for step in range(1, 6):
        gap = estimate(sheet, f"reading_gap/delta_{step}")
        assert value(sheet, f"matched_sensitivity/delta_{step}") == 1
        assert (gap.value, gap.n_clusters) == (0, 28)
        assert gap.cluster_low is not None
        assert -0.1 < gap.cluster_low < 0
    assert estimate(sheet, "matched_threshold_75").censored == "left"


def test_a_judge_that_counts_words_shows_a_wide_gap(suite):
    sheet = jrh.measure(asked(counts_words, suite))
    for step in range(1, 6):
        gap = estimate(sheet, f"reading_gap/delta_{step}")
        assert gap.value > 0.35
        assert gap.cluster_low is not None
        assert gap.cluster_low > 0.15
    assert estimate(sheet, "matched_threshold_75").censored == "right"


def test_a_judge_moved_by_length_alone_shows_no_gap_and_no_false_certainty(suite):
    gap = estimate(jrh.measure(asked(jrh.scripted.LongerWins(), suite)), "reading_gap/delta_2")
    assert gap.value == 0
    assert gap.cluster_low is not None
    assert gap.cluster_low < -0.02


def test_without_a_matched_ladder_its_axes_are_not_spoken_of():
    sheet = jrh.measure(asked(jrh.scripted.Oracle(), jrh.load_suite("datasheet-paper")))
    assert not [axis for axis in sheet.estimates if "matched" in axis or axis.startswith("reading_gap")]


def test_a_noisy_judge_reads_the_gap_that_it_was_given(suite):
    right, guessed = (dict.fromkeys((1.0, 2.0, 3.0, 4.0, 5.0), rate) for rate in (0.9, 0.5))
    judge = jrh.scripted.Noisy(sensitivity=right, matched=guessed)
    sheet = jrh.measure(asked(judge, suite))
    gaps = [value(sheet, f"reading_gap/delta_{step}") for step in range(1, 6)]
    assert sum(gaps) / 5 == pytest.approx(0.4, abs=0.08)
