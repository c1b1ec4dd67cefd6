"""The suite for judges of one response: counts, balance, gates, and nothing in it that tells the level."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine.calls import plan_calls
from jrh_mlflow.errors import SuiteError
from jrh_mlflow.judges.rendering import fitting
from jrh_mlflow.schema.items import SINGLE_LADDERS, SINGLE_PADDED, SINGLE_VACUUM, Item
from jrh_mlflow.suites.suite import check_suite

FORMS = {"pointwise-datasheet": ("no", "yes"), "pointwise-datasheet-scores": ("1", "2", "3", "4", "5")}


@pytest.fixture(scope="module", params=FORMS)
def suite(request: pytest.FixtureRequest) -> jrh.Suite:
    return jrh.load_suite(request.param)


@pytest.fixture(scope="module")
def small() -> jrh.Suite:
    return jrh.datasheet_suite(design="pointwise", n_tasks=2, depth=2)


def of(suite: jrh.Suite, *conditions: str) -> list[Item]:
    return [item for item in suite.items if item.condition in conditions]


def test_every_task_has_every_level_on_both_ladders_two_vacua_and_two_padded_contents(suite: jrh.Suite) -> None:
    levels = [(name, float(level)) for name in SINGLE_LADDERS for level in range(6)]
    tasks = {item.task for item in suite.items}
    assert len(tasks) == 28
    for task in tasks:
        own = [item for item in suite.items if item.task == task]
        found = Counter((item.condition, item.delta) for item in own if item.condition != SINGLE_PADDED)
        assert found == dict.fromkeys([*levels, *((name, None) for name in SINGLE_VACUUM)], 1)
        assert len({item.delta for item in own if item.condition == SINGLE_PADDED}) == 2


def test_it_asks_784_calls_and_repeats_every_content_of_a_ladder_once(suite: jrh.Suite) -> None:
    assert suite.manifest["n_calls"] == 784
    assert {item.replicates for item in of(suite, *SINGLE_LADDERS)} == {2}
    assert {item.replicates for item in of(suite, *SINGLE_VACUUM, SINGLE_PADDED)} == {1}


def test_a_judge_is_told_which_answers_there_are(suite: jrh.Suite) -> None:
    shown = {call.presentation.answers for call in plan_calls(suite, jrh.scripted.AlwaysFirst(), replicates=1)}
    assert shown == {FORMS[suite.name]} == {suite.labels}
    assert all(item.rubric for item in suite.items)
    assert fitting("response", FORMS[suite.name]) == ("label" if suite.name == "pointwise-datasheet" else "ordinal")


def test_both_forms_hold_the_same_contents() -> None:
    words, scores = (jrh.load_suite(name) for name in FORMS)
    assert [(item.id, item.instruction, item.response) for item in words.items] == [
        (item.id, item.instruction, item.response) for item in scores.items
    ]
    assert words.sha256 != scores.sha256


def test_the_longer_of_two_levels_is_the_higher_one_in_half_of_the_cases_at_every_distance(suite: jrh.Suite) -> None:
    for condition in SINGLE_LADDERS:
        contents = {(item.task, item.delta): len(item.response or "") for item in of(suite, condition)}
        tasks = {task for task, _ in contents}
        for distance in range(1, 6):
            gaps = [
                contents[task, low + distance] - contents[task, low] for task in tasks for low in range(6 - distance)
            ]
            longer = [(gap > 0) + (gap == 0) / 2 for gap in gaps]
            assert sum(longer) / len(longer) == pytest.approx(0.5, abs=0.1), (condition, distance)


def test_contents_of_a_task_are_alike_in_length_and_padding_is_longer(suite: jrh.Suite) -> None:
    plain = {(item.task, item.delta): len(item.response or "") for item in of(suite, SINGLE_LADDERS[0])}
    for item in of(suite, SINGLE_PADDED):
        assert len(item.response or "") > 1.05 * plain[item.task, item.delta]
    for task in {item.task for item in suite.items}:
        for condition in SINGLE_LADDERS:
            lengths = [len(item.response or "") for item in of(suite, condition) if item.task == task]
            assert max(lengths) <= 1.1 * min(lengths), (task, condition)


def test_the_vacuum_is_empty_or_blank(suite: jrh.Suite) -> None:
    assert {item.response for item in of(suite, SINGLE_VACUUM[0])} == {""}
    assert all(item.response and not item.response.strip() for item in of(suite, SINGLE_VACUUM[1]))


def test_nothing_that_a_judge_sees_names_level_condition_or_item(small: jrh.Suite) -> None:
    for call in plan_calls(small, jrh.scripted.AlwaysFirst(), replicates=1):
        shown = str(call.presentation)
        assert call.item.id not in shown
        assert call.item.condition not in shown
        assert "level" not in shown.casefold().replace(call.item.instruction or "", "")


def test_the_same_arguments_give_the_same_suite_and_another_seed_another_one(small: jrh.Suite) -> None:
    assert jrh.datasheet_suite(design="pointwise", n_tasks=2, depth=2).sha256 == small.sha256
    assert jrh.datasheet_suite(design="pointwise", n_tasks=2, depth=2, seed=1).sha256 != small.sha256


def test_it_survives_saving(small: jrh.Suite, tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert jrh.load_suite(small.save(tmp_path / "suite")).sha256 == small.sha256


def refused(items: list[Item]) -> str:
    with pytest.raises(SuiteError) as caught:
        check_suite(items)
    return str(caught.value)


@pytest.mark.parametrize(
    ("condition", "change", "told"),
    [
        (SINGLE_LADDERS[0], {"delta": None}, "needs its level"),
        (SINGLE_LADDERS[0], {"delta": 1.5}, "level is 1.5"),
        (SINGLE_LADDERS[1], {"response": "short"}, "length"),
        (SINGLE_LADDERS[0], {"expected": "yes"}, "expects"),
        (SINGLE_LADDERS[0], {"rubric": "Is it Q_3?"}, "Q_3"),
        (SINGLE_VACUUM[0], {"response": "text"}, "nothing to judge"),
        (SINGLE_VACUUM[0], {"delta": 0.0}, "no level"),
        (SINGLE_PADDED, {"response": "short"}, "longer"),
        (SINGLE_PADDED, {"kind": "transcript", "transcript": ()}, "single response"),
    ],
)
def test_every_gate_closes(small: jrh.Suite, condition: str, change: dict[str, object], told: str) -> None:
    items = list(small.items)
    place = next(index for index, item in enumerate(items) if item.condition == condition)
    items[place] = replace(items[place], **change)
    assert told in refused(items)


def test_levels_that_do_not_contain_one_another_are_refused(small: jrh.Suite) -> None:
    items = list(small.items)
    place = next(i for i, item in enumerate(items) if item.condition == SINGLE_LADDERS[0] and item.delta == 1)
    items[place] = replace(items[place], meta={"satisfied": {"response": ["another"]}, "half": {"response": []}})
    assert "all that a lower level meets" in refused(items)


def test_own_tasks_without_matched_sentences_have_one_ladder() -> None:
    from jrh_mlflow.suites.tasks import built_in_tasks

    task = built_in_tasks()[0]
    bare = replace(task, requirements=tuple(replace(one, matched=None) for one in task.requirements))
    suite = jrh.datasheet_suite(design="pointwise", tasks=[bare])
    assert not of(suite, SINGLE_LADDERS[1])
    assert len(of(suite, SINGLE_LADDERS[0])) == 6
