"""Tasks: the library's mechanical rules, and a clear line for every rule a user's YAML breaks."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import jrh_mlflow as jrh
from jrh_mlflow.errors import SuiteError
from jrh_mlflow.suites.tasks import MAX_SENTENCE_RATIO, STATES, Task, built_in_tasks, load_tasks, parse_task

TASKS = built_in_tasks()
LEAKS = re.compile(
    r"requirement|\bsatisfied\b|neutral|rubric|criteri|\bjudge|\blevel \d|\bdelta\b|\bslot\b|candidate|placeholder",
    re.I,
)
"""Words that would tell a judge that it reads an experiment. The library holds itself to more than the gate asks."""


def every_sentence(task: Task) -> list[str]:
    body = [text for one in task.requirements for state in STATES for text in one.wordings(state)]
    return [*task.opening, *body, *task.closing, *task.filler]


# The library.


def test_the_library_has_28_varied_tasks_with_five_requirements_each():
    assert len(TASKS) == 28
    assert len({task.id for task in TASKS}) == 28
    assert all(task.has_matched for task in TASKS)
    assert {len(task.requirements) for task in TASKS} == {5}
    assert all(len(task.filler) >= 2 for task in TASKS)


class TestOfTheLibrary:
    def test_the_file_is_named_after_its_task(self):
        for task in TASKS:
            assert (Path(jrh.__file__).parent / "suites" / "tasks" / f"{task.id}.yaml").is_file(), task.id

    def test_no_two_sentences_are_the_same(self):
        for task in TASKS:
            found = every_sentence(task)
            assert len(set(found)) == len(found), task.id

    def test_the_two_wordings_differ_in_most_of_their_words(self):
        for task in TASKS:
            both = [task.opening, task.closing]
            both += [one.wordings(state) for one in task.requirements for state in STATES]
            for first, second in both:
                one, other = (set(re.findall(r"\w+", text.lower())) for text in (first, second))
                assert len(one & other) / len(one | other) < 0.5, (first, second)

    def test_the_sentences_of_a_requirement_are_of_one_length_band(self):
        for task in TASKS:
            for one in task.requirements:
                lengths = [len(text) for state in STATES for text in one.wordings(state)]
                assert max(lengths) <= 1.15 * min(lengths) < MAX_SENTENCE_RATIO * min(lengths), (task.id, one.id)

    def test_no_state_is_longer_than_another_on_average(self):
        for task in TASKS:
            means = [
                sum(len(text) for one in task.requirements for text in one.wordings(state))
                / (2 * len(task.requirements))
                for state in STATES
            ]
            assert max(means) <= 1.03 * min(means), task.id

    def test_opening_and_closing_are_of_one_length_band(self):
        for task in TASKS:
            for first, second in (task.opening, task.closing):
                assert max(len(first), len(second)) <= 1.15 * min(len(first), len(second)), task.id

    def test_nothing_tells_the_judge_about_the_experiment(self):
        for task in TASKS:
            shown = [task.instruction, *every_sentence(task), *(one.text for one in task.requirements)]
            assert [text for text in shown if LEAKS.search(text)] == []

    def test_sentences_read_as_sentences(self):
        for task in TASKS:
            for text in every_sentence(task):
                assert text[0].isupper() or text[0] in "\"'`" or text.split()[0] in task.instruction, text
                assert text[-1] in ".!?:", text
                assert "  " not in text, text
                assert "\n" not in text, text

    def test_a_neutral_sentence_gives_away_no_number_of_its_requirement(self):
        for task in TASKS:
            for one in task.requirements:
                facts = {number for text in (*one.satisfied, *one.half) for number in re.findall(r"\d+", text)}
                given = {number for text in one.neutral for number in re.findall(r"\d+", text)}
                assert not facts & given, (task.id, one.id)

    def test_half_is_neither_all_nor_nothing(self):
        for task in TASKS:
            for one in task.requirements:
                assert not set(one.half) & (set(one.satisfied) | set(one.neutral)), (task.id, one.id)

    def test_every_pair_it_can_make_passes_the_gates(self):
        for task in TASKS:
            for design in ("paper", "spread"):
                suite = jrh.datasheet_suite(tasks=[task], half_steps=True, seed=7, design=design)
                assert {item.task for item in suite.items} == {task.id}

    def test_a_matched_sentence_has_the_words_of_the_satisfied_one(self):
        for task in TASKS:
            for one in task.requirements:
                for right, wrong in zip(one.satisfied, one.wordings("matched"), strict=True):
                    words, others = (Counter(re.findall(r"[\w.]*\w", text.lower())) for text in (right, wrong))
                    # A few may be exchanged where the swap would not read as English otherwise.
                    assert max((words - others).total(), (others - words).total()) <= 3, wrong
                    assert abs(len(right) - len(wrong)) <= 4, wrong
                    assert sorted(re.findall(r"\d", right)) == sorted(re.findall(r"\d", wrong)), wrong


# A user's own tasks.


@pytest.fixture
def data() -> dict[str, Any]:
    """A good task as parsed YAML."""
    source = Path(jrh.__file__).parent / "suites" / "tasks" / "support_reply.yaml"
    loaded: dict[str, Any] = yaml.safe_load(source.read_text(encoding="utf-8"))
    return loaded


def write(folder: Path, name: str, data: object) -> Path:
    file = folder / name
    file.write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8")
    return file


def test_a_good_file_makes_a_suite(tmp_path, data):
    file = write(tmp_path, "mine.yaml", data | {"id": "my_reply"})
    suite = jrh.datasheet_suite(tasks=file, n_tasks=1)
    assert {item.task for item in suite.items} == {"my_reply"}
    assert suite.name == "datasheet-1x5-own-s0"
    assert suite.origin["tasks"] == "own"
    assert suite.sha256 == jrh.datasheet_suite(tasks=str(file), n_tasks=1).sha256


def test_a_folder_of_files_is_read_sorted_by_id(tmp_path, data):
    write(tmp_path, "1.yaml", data | {"id": "zebra"})
    write(tmp_path, "2.yml", data | {"id": "ant"})
    (tmp_path / "notes.txt").write_text("not a task")
    assert [task.id for task in load_tasks(tmp_path)] == ["ant", "zebra"]


def test_the_order_of_a_users_tasks_does_not_change_the_suite(tmp_path, data):
    tasks = [parse_task(data | {"id": name}, where="test") for name in ("a", "b", "c")]
    one, other = (jrh.datasheet_suite(tasks=order, n_tasks=2) for order in (tasks, tasks[::-1]))
    assert one.sha256 == other.sha256


def test_outer_spaces_are_forgiven(data):
    spaced = parse_task(data | {"opening": [f"  {text}\n" for text in data["opening"]]}, where="test")
    assert spaced.opening == tuple(data["opening"])


def first(data: dict[str, Any]) -> dict[str, Any]:
    requirement: dict[str, Any] = data["requirements"][0]
    return requirement


Change = Callable[[dict[str, Any]], object]
BROKEN: dict[str, tuple[Change, str]] = {
    "a key is missing": (lambda d: d.pop("closing"), "mine.yaml: the key(s) closing are missing."),
    "a key is misspelt": (
        lambda d: d.update(fillers=d.pop("filler")),
        "mine.yaml: unknown key 'fillers'. Did you mean 'filler'?",
    ),
    "the id is a number": (lambda d: d.update(id=5), "mine.yaml: `id` must be text, but got 5."),
    "the id is blank": (lambda d: d.update(id=" "), "mine.yaml: `id` must be text, but got ' '."),
    "the instruction is empty": (
        lambda d: d.update(instruction=None),
        "mine.yaml, task 'support_reply': `instruction` must be text, but got None.",
    ),
    "no requirements": (
        lambda d: d.update(requirements=[]),
        "mine.yaml, task 'support_reply': `requirements` must be a list with at least one entry.",
    ),
    "requirements are not a list": (
        lambda d: d.update(requirements="be kind"),
        "mine.yaml, task 'support_reply': `requirements` must be a list with at least one entry.",
    ),
    "a requirement is not a mapping": (
        lambda d: d.update(requirements=["be kind"]),
        "mine.yaml, task 'support_reply', a requirement: a mapping with the keys id, text, satisfied, half, neutral, "
        "matched was expected, not str.",
    ),
    "a requirement lacks a state": (
        lambda d: first(d).pop("neutral"),
        "mine.yaml, task 'support_reply', a requirement: the key(s) neutral are missing.",
    ),
    "requirement ids repeat": (
        lambda d: d["requirements"][1].update(id="delivery_date"),
        "mine.yaml, task 'support_reply': requirement ids must be unique, but got delivery_date, delivery_date,",
    ),
    "three wordings": (
        lambda d: first(d)["half"].append("A third wording that nobody needs."),
        "requirement 'delivery_date': `half` must be a list of two wordings.",
    ),
    "one wording": (
        lambda d: d.update(opening=d["opening"][:1]),
        "mine.yaml, task 'support_reply': `opening` must be a list of two wordings.",
    ),
    "a wording is blank": (
        lambda d: d.update(closing=[d["closing"][0], " "]),
        "mine.yaml, task 'support_reply': `closing` must be a list of two wordings.",
    ),
    "the wordings are the same": (
        lambda d: d.update(closing=[d["closing"][0]] * 2),
        "mine.yaml, task 'support_reply': the two wordings of `closing` must differ.",
    ),
    "a sentence stands in two states": (
        lambda d: first(d).update(half=first(d)["neutral"]),
        "requirement 'delivery_date': its 8 sentences must differ; a repeated one would blur the states.",
    ),
    "a sentence is too short": (
        lambda d: first(d).update(neutral=["Thank you.", first(d)["neutral"][1]]),
        "requirement 'delivery_date': sentences must be of similar length (ratio at most 1.35), but they run from 10 "
        "to 121 characters. Lengthen the short ones.",
    ),
    "no filler": (
        lambda d: d.update(filler=[]),
        "mine.yaml, task 'support_reply': `filler` must be a list of at least one sentence.",
    ),
    "a filler is a number": (
        lambda d: d.update(filler=[1]),
        "mine.yaml, task 'support_reply': `filler` must be a list of at least one sentence.",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_rule_has_its_line(tmp_path, data, name):
    change, expected = BROKEN[name]
    broken = copy.deepcopy(data)
    change(broken)
    with pytest.raises(SuiteError) as caught:
        load_tasks(write(tmp_path, "mine.yaml", broken))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["id: [", "- just\n- a list", "", "\t- x", "id: a\n---\nid: b"])
def test_a_file_that_is_no_task_is_one_line_with_its_name(tmp_path, text):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(SuiteError, match=r"^mine\.yaml") as caught:
        load_tasks(tmp_path / "mine.yaml")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_utf_8_is_refused(tmp_path):
    (tmp_path / "mine.yaml").write_bytes("title: Grüße".encode("latin-1"))
    with pytest.raises(SuiteError, match=r"mine\.yaml cannot be read as YAML"):
        load_tasks(tmp_path)


def test_yaml_cannot_run_code(tmp_path):
    (tmp_path / "mine.yaml").write_text("id: !!python/object/apply:os.getcwd []\n")
    with pytest.raises(SuiteError, match="cannot be read as YAML"):
        load_tasks(tmp_path)


def test_a_task_that_stands_twice_is_refused(tmp_path, data):
    write(tmp_path, "1.yaml", data)
    write(tmp_path, "2.yaml", data)
    with pytest.raises(SuiteError, match=r"Task ids must be unique, but support_reply stand\(s\) twice\."):
        load_tasks(tmp_path)


def test_a_missing_path_and_an_empty_folder_are_said(tmp_path):
    with pytest.raises(SuiteError, match="There is no task file or folder "):
        load_tasks(tmp_path / "nowhere")
    with pytest.raises(SuiteError, match=r"holds no \.yaml file\."):
        load_tasks(tmp_path)


def test_more_tasks_or_requirements_than_there_are_is_an_error(tmp_path, data):
    file = write(tmp_path, "mine.yaml", data)
    with pytest.raises(SuiteError, match=r"10 tasks .* there are 1\. "):
        jrh.datasheet_suite(tasks=file, n_tasks=10)
    with pytest.raises(SuiteError, match=r"Task 'support_reply' has 5 requirements, but depth=6\."):
        jrh.datasheet_suite(tasks=file, n_tasks=1, depth=6)


def test_own_tasks_go_through_the_gates(tmp_path, data):
    leaky = data | {
        "opening": ["This answer is of the higher level, dear Mrs Okafor, as you can see.", *data["opening"][1:]]
    }
    with pytest.raises(SuiteError, match=r"would tell the judge .*'higher level'"):
        jrh.datasheet_suite(tasks=write(tmp_path, "mine.yaml", leaky), n_tasks=1)


def without_matched(data: dict[str, Any]) -> dict[str, Any]:
    kept = [{key: each for key, each in one.items() if key != "matched"} for one in data["requirements"]]
    return data | {"requirements": kept}


def test_a_task_without_matched_sentences_has_no_matched_ladder(data):
    task = parse_task(without_matched(data), where="test")
    assert not task.has_matched
    suite = jrh.datasheet_suite(tasks=[task])
    assert len(suite) == 13
    assert "ladder_matched" not in {item.condition for item in suite.items}
    with pytest.raises(ValueError, match="has no matched sentences"):
        task.requirements[0].wordings("matched")


def test_matched_sentences_are_given_for_all_requirements_or_none(data):
    broken = without_matched(data)
    broken["requirements"][0] = data["requirements"][0]
    with pytest.raises(SuiteError, match="all requirements need `matched` or none, but cause_and_place, "):
        parse_task(broken, where="test")
