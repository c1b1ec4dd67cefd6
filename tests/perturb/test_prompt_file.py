"""A test of the user's own as a prompt file: what it may say, what it expects, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.perturb import CheckContext
from jrh_mlflow.perturb.checks import TfidfSimilarity
from jrh_mlflow.perturb.prompt_file import PromptTest
from jrh_mlflow.perturb.registry import find_tests, listed_tests, written_by
from jrh_mlflow.schema.items import Labels, Seed

BINARY = Labels(answers=("no", "yes"))
SEEDS = [
    Seed(id="a", instruction="When?", response="The library in Leeds opens at 9, not at 8.", label="no"),
    Seed(id="b", instruction="Where?", response="The museum stands in York.", label="yes"),
]
FULL = """---
name: sarcasm
title: the same content in a sarcastic tone
expects: unchanged
changes: tone
confirm: true
checks:
  max_length: 2
  keeps: [numbers, names]
---
Task: {instruction}
Say this sarcastically: {original}
"""


def made(folder: Path, text: str, entry: object = "@own.txt") -> PromptTest:
    (folder / "own.txt").write_text(text, encoding="utf-8")
    (test,) = listed_tests([entry], folder=folder)
    assert isinstance(test, PromptTest)
    return test


def refused(folder: Path, text: str, entry: object = "@own.txt") -> str:
    with pytest.raises(RecipeError) as caught:
        made(folder, text, entry)
    return str(caught.value)


def test_a_prompt_alone_goes_by_the_files_name_and_expects_an_unchanged_answer(tmp_path: Path):
    test = made(tmp_path, "Say this sarcastically: {original}")
    (first, _) = test.targets(SEEDS, BINARY, "rubric")
    assert (test.name, test.expects.text, test.confirm) == ("own", "answer unchanged", False)
    assert (first.expected, first.condition) == ("no", "own")
    assert test.brief(first) == "Say this sarcastically: The library in Leeds opens at 9, not at 8."


def test_the_lines_before_the_prompt_say_what_is_expected_checked_and_confirmed(tmp_path: Path):
    test = made(tmp_path, FULL)
    assert (test.name, test.title, test.changes) == ("sarcasm", "the same content in a sarcastic tone", "tone")
    assert test.confirm
    assert test.template().startswith("Task: {instruction}")
    target, context = test.targets(SEEDS, BINARY, "r")[0], CheckContext(similarity=TfidfSimilarity([SEEDS[0].response]))
    problems = [check(target, "Oh, the library opens at 8, not at 10.", context) for check in test.checks]
    assert any("numbers lost: 9" in problem for problem in problems if problem)
    assert any("Leeds" in problem for problem in problems if problem)
    long = "The library in Leeds opens at 9, not at 8. " * 3
    assert any("length ratio" in problem for check in test.checks if (problem := check(target, long, context)))


@pytest.mark.parametrize(
    ("expects", "wanted"), [("flipped", ["yes", "no"]), ("yes", ["yes", "yes"]), ("unchanged", ["no", "yes"])]
)
def test_the_expected_answer_is_in_the_items(tmp_path: Path, expects: str, wanted: list[str]):
    test = made(tmp_path, "{original}", f"@own.txt:expects={expects}")
    assert [target.expected for target in test.targets(SEEDS, BINARY, "r")] == wanted
    assert test.confirm == (expects != "unchanged")


def test_what_is_given_beside_a_file_comes_before_what_it_says(tmp_path: Path):
    test = made(tmp_path, FULL, {"name": "irony", "prompt": "own.txt", "confirm": False, "keeps": "negations"})
    assert (test.name, test.confirm, test.keeps) == ("irony", False, ("negations",))


def test_examples_are_chosen_only_where_the_prompt_shows_them(tmp_path: Path):
    many = [*SEEDS, Seed(id="c", instruction="Why?", response="Because.", label="yes")]
    with_them = made(tmp_path, "{examples} {original}", "@own.txt:expects=yes")
    assert with_them.targets(many, BINARY, "r")[1].examples == ("Because.",)
    assert made(tmp_path, "{original}").targets(many, BINARY, "r")[1].examples == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Rewrite {orignal}", "unknown placeholder {orignal}. Did you mean 'original'?"),
        ("Rewrite it.", "neither {original} nor {instruction}"),
        ("---\nexpect: unchanged\n---\n{original}", "unknown key 'expect'. Did you mean 'expects'?"),
        ("---\nchecks: {max_lenght: 2}\n---\n{original}", "unknown key 'max_lenght'. Did you mean 'max_length'?"),
        ("---\nkeeps: [numbrs]\n---\n{original}", "`keeps` must be a list, each one of numbers, names, negations"),
        ("---\nconfirm: perhaps\n---\n{original}", "`confirm` must be"),
        ("---\nmin_length: 4\n---\n{original}", "`0 <= min_length <= max_length` must hold"),
        ("---\n[1, 2\n---\n{original}", "is no YAML"),
        ("---\njust words\n---\n{original}", "stand keys with values"),
        ("---\nname: My Test\n---\n{original}", "small letters, digits and _"),
    ],
)
def test_what_makes_no_sense_is_told_with_the_file_and_the_nearest_that_does(tmp_path: Path, text: str, said: str):
    told = refused(tmp_path, text)
    assert said in told
    assert "own.txt" in told


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(RecipeError, match=r"The prompt file .*nowhere\.txt cannot be read"):
        listed_tests("@nowhere.txt", folder=tmp_path)


def test_a_label_that_there_is_not_and_a_name_that_is_taken_are_refused(tmp_path: Path):
    with pytest.raises(RecipeError, match="expects 'yess', which is none of unchanged, flipped, no, yes"):
        made(tmp_path, "{original}", "@own.txt:expects=yess").targets(SEEDS, BINARY, "r")
    for name in ("typos", "error_injection_2", "baseline", "stochastic_stability_deep"):
        with pytest.raises(RecipeError, match=name):
            find_tests([made(tmp_path, "{original}", {"name": name, "prompt": "own.txt"})], BINARY)


def test_the_prompt_and_its_digest_are_among_the_settings(tmp_path: Path):
    test = made(tmp_path, FULL)
    assert test.settings["prompt"] == test.template()
    assert len(str(test.settings["prompt_sha256"])) == 64
    assert test.settings["expects"] == "unchanged"
    assert find_tests([test], BINARY) == [test]
    assert written_by("sarcasm") is test
