"""The datasheet's tasks in German, Spanish and Chinese: complete, matched in facts and length, and audited."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError, SuiteError
from jrh_mlflow.measuring.suite_audit import HIGH, audit_suite
from jrh_mlflow.perturb.languages import LANGUAGES, language_of, lost_facts, words_in
from jrh_mlflow.schema.items import LADDER, LADDER_MATCHED, LADDERS
from jrh_mlflow.suites.tasks import (
    Requirement,
    Task,
    TaskLanguage,
    built_in_tasks,
    check_matched,
    parse_task,
    task_language,
    translated_tasks,
)
from tests.cases import few

OTHERS = tuple(code for code in LANGUAGES if code != "en")
TASKS = [task for code in OTHERS for task in built_in_tasks(code)]
STATES = ("satisfied", "neutral", "matched")


def of(task: Task, state: str) -> list[str]:
    return [text for one in task.requirements for text in one.wordings(state)]


def same_words(one: str, other: str, code: str) -> float:
    both = [{word.casefold() for word in words_in(text, code)} for text in (one, other)]
    return len(both[0] & both[1]) / len(both[0] | both[1])


@pytest.mark.parametrize("code", OTHERS)
def test_the_same_twelve_tasks_with_the_same_requirements_are_there_in_each_language(code):
    english = {task.id: task for task in translated_tasks()}
    assert len(english) == 12
    for task in built_in_tasks(code):
        assert task.language == code
        assert [one.id for one in task.requirements] == [one.id for one in english[task.id].requirements]
    assert {task.id for task in built_in_tasks(code)} == set(english)


class TestOfATask:
    def test_a_matched_sentence_has_the_numbers_names_and_nearly_all_words_of_the_satisfied_one(self):
        for task in TASKS:
            check_matched(task)
            for right, wrong in zip(of(task, "satisfied"), of(task, "matched"), strict=True):
                words, others = (Counter(map(str.casefold, words_in(text, task.language))) for text in (right, wrong))
                assert max((words - others).total(), (others - words).total()) <= 5, wrong
                assert abs(len(right) - len(wrong)) <= 4, wrong

    def test_no_state_is_longer_than_another_on_average(self):
        for task in TASKS:
            sums = [sum(map(len, of(task, state))) for state in STATES]
            assert max(sums) <= 1.05 * min(sums), task.id

    def test_neutral_sentences_give_no_number_and_no_name_away(self):
        for task in TASKS:
            facts = {word for text in of(task, "satisfied") for word in re.findall(r"\d+", text)}
            assert not [text for text in of(task, "neutral") if facts & set(re.findall(r"\d+", text))]

    def test_wordings_differ_and_no_sentence_stands_twice(self):
        for task in TASKS:
            texts = [
                *task.opening,
                *task.closing,
                *task.filler,
                *(text for state in STATES for text in of(task, state)),
            ]
            assert len(set(texts)) == len(texts), task.id
            pairs = [one.wordings(state) for one in task.requirements for state in ("satisfied", "neutral")]
            assert max(same_words(*pair, task.language) for pair in pairs) < 0.65, task.id

    def test_it_is_told_as_its_language(self):
        for task in TASKS:
            assert language_of(task.instruction) == task.language, task.id
            assert language_of(" ".join(of(task, "satisfied"))) == task.language, task.id


@cache
def ladder_readings(name: str) -> dict[tuple[str, str, str], float]:
    pairs = [item for item in jrh.load_suite(name).items if item.condition in LADDERS]
    audit = audit_suite(jrh.Suite(name=name, items=pairs))
    assert [one for one in audit.readings if one.judged and not one.within] == []
    return {(one.shortcut, one.direction, one.condition): one.estimate.value for one in audit.readings}


@pytest.mark.parametrize("code", few(OTHERS))
def test_no_shortcut_pays_on_the_matched_ladder_and_those_that_pay_on_the_plain_one_pay_as_in_english(code):
    """A shortcut that cannot see a language would pass by its coin: it must see there what it sees in English."""
    english, other = ladder_readings("datasheet-en"), ladder_readings(f"datasheet-{code}")
    pays = [key for key, value in english.items() if key[2] == LADDER and value > HIGH]
    assert len(pays) >= 9
    assert {key: other[key] for key in pays if other[key] <= HIGH} == {}


@pytest.mark.parametrize("code", OTHERS)
def test_a_suite_says_its_language_and_that_nobody_has_checked_it(code, tmp_path):
    suite = jrh.datasheet_suite(language=code)
    assert suite.name == f"datasheet-12x5-{code}-s0"
    assert suite.manifest["origin"]["language"] == code
    assert suite.manifest["origin"]["checked"] == "not checked by a native speaker"
    assert suite.without_texts().origin["checked"] == suite.origin["checked"]
    assert jrh.load_suite(suite.save(tmp_path / code)).origin == suite.origin
    english = jrh.load_suite("datasheet-en")
    assert [item.id for item in suite.items] == [item.id for item in english.items]
    assert "language" not in english.origin


def test_who_signs_is_named_with_the_date():
    signed = TaskLanguage(heading="", joined_by="", questions={}, checked_by="Ada Lovelace", date="2026-11-20")
    assert signed.checked == "checked by Ada Lovelace, 2026-11-20"
    assert {code: task_language(code).checked_by for code in OTHERS} == dict.fromkeys(OTHERS)


def test_chinese_sentences_are_joined_without_a_space_and_the_list_has_its_own_head():
    item = next(item for item in jrh.load_suite("datasheet-zh").items if item.condition == LADDER_MATCHED)
    assert "。 " not in (item.u or "")
    assert task_language("zh").heading in (item.instruction or "")
    single = jrh.datasheet_suite(language="de", design="pointwise").items[0]
    assert (single.rubric, single.answers) == (task_language("de").questions["pointwise"], ("no", "yes"))


def test_what_cannot_be_had_is_said():
    with pytest.raises(SuiteError, match="`half_steps` needs sentences that half meet"):
        jrh.datasheet_suite(language="de", half_steps=True)
    with pytest.raises(RecipeError, match="Unknown language 'nl'"):
        built_in_tasks("nl")
    with pytest.raises(SuiteError, match="`language` must be one of en, de, es, zh, but got 'nl'"):
        parse_task({"id": "x", "title": "x", "instruction": "x", "opening": [], "requirements": [], "closing": [],
                    "filler": [], "language": "nl"}, where="mine.yaml")  # fmt: skip


def test_a_matched_sentence_that_loses_a_fact_is_named():
    assert lost_facts("Am 3. Mai kommt Ruth.", "Am 4. Mai kommt sie.", "de") == ["3", "4", "Ruth"]
    assert lost_facts("由Ruth Adler来，5月3日。", "3月5日由Colin来，", "zh") == ["Ruth", "Adler"]
    wordings = ("Ruth kommt um 9 Uhr.", "Um 9 Uhr kommt Ruth.")
    bad = Requirement(id="r", text="t", satisfied=wordings, neutral=wordings, matched=("Sie kommt um 8 Uhr.", "Um 9."))
    task = built_in_tasks("de")[0]
    with pytest.raises(SuiteError, match=r"\(de\): 9, 8 differ\(s\) in 'Sie kommt um 8 Uhr\.'"):
        check_matched(Task(id="t", title="", instruction="", opening=task.opening, requirements=(bad,),
                           closing=task.closing, filler=(), language="de"))  # fmt: skip
