"""The datasheet suite of the paper: counts, balance, length, and the same bytes on every machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import combinations

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import SuiteError
from jrh_mlflow.schema.items import Item
from jrh_mlflow.suites.datasheet import PAPER_TASKS

# The stimuli themselves, as bytes. Every published reading belongs to one of these hashes: a change of a sentence, of
# the builder or of the file format changes it, and must then be a deliberate change of the constant, told in CHANGELOG.
PAPER_SHA256 = "c2368ddb2b028d604434e4622cc4961c79046426344dd3788f68b36fa218775d"
HALF_STEPS_SHA256 = "b42f6100fb1fc6cb6eceb15843f726c2951bbbb5259c037399984dd4ae8afb92"
SPREAD_SHA256 = "9eca3d89a67044f2409dad154b61ccc618063bf227a64e576f61dc7d021c6ec6"
SHORT_SHA256 = "d372997060e12e4438f26ce6bf875f05edab2244c1e13e1355f19d46380034cc"
POINTWISE_SHA256 = "500cd6cb1acf29784d636a3da0a4949276ff62706a3a550bb38e6f58dee16a16"
POINTWISE_SCORES_SHA256 = "c61d9cc72be84df4b99c2f66cb57463658f5679396d6189988878f25883568f6"

PER_CONDITION = {
    "vacuum_empty": 20,
    "vacuum_whitespace": 20,
    "vacuum_identical": 20,
    "ladder": 150,
    "delta_0_same": 60,
    "delta_0_different": 40,
    "filler": 30,
}
PER_DELTA = {1.0: 50, 2.0: 40, 3.0: 30, 4.0: 20, 5.0: 10}


@pytest.fixture(scope="module")
def suite() -> jrh.Suite:
    return jrh.datasheet_suite(design="paper")


@pytest.fixture(scope="module")
def half() -> jrh.Suite:
    return jrh.datasheet_suite(design="paper", half_steps=True)


def of(suite: jrh.Suite, *conditions: str) -> list[Item]:
    return [item for item in suite.items if item.condition in conditions]


def texts(item: Item) -> tuple[str, str]:
    assert item.u is not None
    assert item.v is not None
    return item.u, item.v


def test_the_stimuli_are_the_pinned_ones(suite, half):
    assert suite.sha256 == PAPER_SHA256
    assert half.sha256 == HALF_STEPS_SHA256
    assert jrh.datasheet_suite().sha256 == SPREAD_SHA256
    assert jrh.load_suite("datasheet-short").sha256 == SHORT_SHA256
    assert jrh.load_suite("pointwise-datasheet").sha256 == POINTWISE_SHA256
    assert jrh.load_suite("pointwise-datasheet-scores").sha256 == POINTWISE_SCORES_SHA256


def test_another_process_with_another_hash_seed_builds_the_same_bytes():
    names = ("datasheet-paper", "datasheet-half-steps", "datasheet", "datasheet-short", "pointwise-datasheet")
    build = f"from jrh_mlflow import load_suite; print(*(load_suite(name).sha256 for name in {names}))"
    done = subprocess.run(
        [sys.executable, "-c", build],
        env=os.environ | {"PYTHONHASHSEED": "4242"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [PAPER_SHA256, HALF_STEPS_SHA256, SPREAD_SHA256, SHORT_SHA256, POINTWISE_SHA256]


def test_every_argument_that_changes_the_stimuli_changes_the_hash():
    base = {"n_tasks": 3, "depth": 3, "half_steps": False, "seed": 0}
    changes = [{}, {"seed": 1}, {"n_tasks": 2}, {"depth": 2}, {"half_steps": True}]
    assert len({jrh.datasheet_suite(**(base | change)).sha256 for change in changes}) == len(changes)


def test_the_same_arguments_build_the_same_suite():
    one, other = (jrh.datasheet_suite(n_tasks=3, seed=5) for _ in range(2))
    assert one.content == other.content


def test_a_name_does_not_change_the_hash(suite):
    named = jrh.datasheet_suite(design="paper", name="mine")
    assert named.sha256 == suite.sha256
    assert (suite.name, named.name) == ("datasheet-paper-10x5-s0", "mine")


def test_conditions_and_steps_have_the_protocols_counts(suite):
    assert Counter(item.condition for item in suite.items) == PER_CONDITION
    assert Counter(item.delta for item in of(suite, "ladder")) == PER_DELTA
    assert len(suite) == 340
    assert len({item.task for item in suite.items}) == 10


def test_half_steps_are_added_and_take_nothing_away(suite, half):
    assert Counter(item.delta for item in of(half, "ladder")) == {0.5: 100, **PER_DELTA}
    assert {item.id for item in suite.items} < {item.id for item in half.items}
    for item in of(half, "ladder"):
        if item.delta == 0.5:
            n_half = sum(len(item.meta["half"][side]) for side in "uv")
            assert n_half == 1


def test_each_condition_is_spread_evenly_over_the_tasks(suite):
    for condition, n in PER_CONDITION.items():
        assert set(Counter(item.task for item in of(suite, condition)).values()) == {n // 10}


@pytest.mark.parametrize(("seed", "half_steps"), [(0, False), (0, True), (1, False), (2, True)])
def test_the_longer_candidate_is_the_better_in_exactly_half_of_the_pairs_of_every_step(seed, half_steps):
    suite = jrh.datasheet_suite(design="paper", seed=seed, half_steps=half_steps)
    longer_is_better: Counter[float] = Counter()
    total: Counter[float] = Counter()
    for item in of(suite, "ladder"):
        u, v = texts(item)
        assert len(u) != len(v)
        total[item.delta or 0] += 1
        longer_is_better[item.delta or 0] += (len(u) > len(v)) == (item.better == "u")
    assert {step: 2 * n for step, n in longer_is_better.items()} == total


def test_candidates_are_matched_in_length(suite, half):
    for item in (*of(suite, "ladder", "delta_0_same", "delta_0_different"), *of(half, "ladder")):
        short, long = sorted(map(len, texts(item)))
        assert long <= 1.04 * short, item.id


def test_length_does_not_tell_the_level(suite):
    """Over all tasks the candidates of a level are as long as those of any other, to a fraction of a word."""
    lengths: dict[float, set[tuple[str, str]]] = {}
    for item in of(suite, "ladder"):
        for side, text in zip("uv", texts(item), strict=True):
            lengths.setdefault(len(item.meta["satisfied"][side]), set()).add((item.task, text))
    assert sorted(lengths) == [0, 1, 2, 3, 4, 5]
    means = [sum(len(text) for _, text in found) / len(found) for found in lengths.values()]
    assert max(means) - min(means) < 4


def test_the_better_content_is_as_often_u_as_v_within_chance(suite):
    sides = Counter(item.better for item in of(suite, "ladder"))
    assert 60 <= sides["u"] <= 90


def test_a_higher_rung_meets_all_that_a_lower_one_meets(suite):
    for item in of(suite, "ladder"):
        worse = {"u": "v", "v": "u"}[str(item.better)]
        high, low = (set(item.meta["satisfied"][side]) for side in (item.better, worse))
        assert low < high
        assert len(high) - len(low) == item.delta


def test_a_task_has_one_candidate_per_level(suite):
    """Q_k satisfies exactly the first k of one order: the sets of a task form a chain."""
    for task in {item.task for item in suite.items}:
        rungs = {
            (frozenset(item.meta["satisfied"][side]), text)
            for item in of(suite, "ladder")
            if item.task == task
            for side, text in zip("uv", texts(item), strict=True)
        }
        assert len(rungs) == 6
        for (one, _), (other, _) in combinations(rungs, 2):
            assert one < other or other < one


def test_equal_pairs_share_the_set_but_no_sentence(suite):
    for item in of(suite, "delta_0_same"):
        u, v = (set(text.replace("\n\n", " ").split(". ")) for text in texts(item))
        assert not u & v, item.id
        assert item.meta["satisfied"]["u"] == item.meta["satisfied"]["v"]
        assert len(texts(item)[0]) != len(texts(item)[1])
    levels = Counter(len(item.meta["satisfied"]["u"]) for item in of(suite, "delta_0_same"))
    assert levels == dict.fromkeys(range(6), 10)


def test_different_subset_pairs_meet_equally_many_other_requirements(suite):
    for item in of(suite, "delta_0_different"):
        u, v = (set(item.meta["satisfied"][side]) for side in "uv")
        assert len(u) == len(v)
        assert u != v


def test_a_filler_pair_is_the_same_content_with_padding(suite):
    from jrh_mlflow.suites.tasks import built_in_tasks

    padding = {task.id: task.filler for task in built_in_tasks()}
    for item in of(suite, "filler"):
        u, v = texts(item)
        for sentence in padding[item.task]:
            assert sentence in v
            assert sentence not in u
            v = v.replace(f" {sentence}", "").replace(f"{sentence} ", "")
        assert v == u


def test_vacuum_pairs_have_nothing_to_judge(suite):
    assert {texts(item) for item in of(suite, "vacuum_empty")} == {("", "")}
    for item in of(suite, "vacuum_whitespace", "vacuum_identical"):
        u, v = texts(item)
        assert u == v != ""
        assert bool(u.strip()) == (item.condition == "vacuum_identical")


def test_the_instruction_lists_the_requirements_and_nothing_of_the_design(suite):
    from jrh_mlflow.suites.tasks import built_in_tasks

    tasks = {task.id: task for task in built_in_tasks()}
    for item in of(suite, "ladder", "delta_0_same", "filler"):
        assert item.instruction is not None
        task = tasks[item.task]
        assert item.instruction.startswith(task.instruction)
        assert all(f"- {one.text}" in item.instruction for one in task.requirements)
        shown = f"{item.instruction} {item.u} {item.v}"
        assert not any(one.id in shown for one in task.requirements if "_" in one.id)
        assert item.id not in shown


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("half_steps", [False, True])
def test_shorter_ladders_have_the_pairs_of_their_depth(depth, half_steps):
    suite = jrh.datasheet_suite(design="paper", n_tasks=2, depth=depth, half_steps=half_steps)
    steps = Counter(item.delta for item in of(suite, "ladder"))
    expected = {float(step): 2 * (depth + 1 - step) for step in range(1, depth + 1)}
    assert steps == expected | ({0.5: 4 * depth} if half_steps else {})
    assert len(of(suite, "delta_0_same")) == 2 * (depth + 1)
    assert len(of(suite, "delta_0_different")) == 2 * (depth - 1)


def test_the_published_design_keeps_to_its_ten_tasks_whatever_the_library_holds(suite):
    assert {item.task for item in suite.items} == set(PAPER_TASKS)
    with pytest.raises(SuiteError, match=r"11 tasks were asked for, but there are 10\. Lower n_tasks or add tasks\."):
        jrh.datasheet_suite(design="paper", n_tasks=11)


@pytest.mark.parametrize("arguments", [{"n_tasks": 0}, {"depth": 0}, {"n_tasks": -1}])
def test_senseless_sizes_are_a_programmers_mistake(arguments):
    with pytest.raises(ValueError, match="must hold, but got"):
        jrh.datasheet_suite(**arguments)


def test_another_language_is_refused_with_the_way_out():
    assert jrh.datasheet_suite(language="en", n_tasks=1).sha256 == jrh.datasheet_suite(n_tasks=1).sha256
    with pytest.raises(ValueError, match="tasks of your own"):
        jrh.datasheet_suite(language="fr")
