"""Templates: built in, from a file, from a text, and the ones that are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges.rendering import BUILT_IN, judge_messages, load_template, parse_template
from jrh_mlflow.schema.presentation import Presentation

PAIR = Presentation(kind="pair", instruction="Write a note.", rubric="Prefer the truth.", first="One.", second="Two.")


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_templates_are_complete_and_parse_to_themselves(name):
    template = load_template(name)
    assert template.system is not None
    assert parse_template(template.text, name=name) == template


def test_a_text_of_ones_own_gets_what_it_does_not_place():
    template = load_template("Which is better? {candidates}")
    assert re.fullmatch(r"own-[0-9a-f]{8}", template.name)
    system, user = judge_messages(template, PAIR, style="letters")
    assert system["content"] == judge_messages(load_template("pairwise"), PAIR, style="letters")[0]["content"]
    order = [
        user["content"].index(part) for part in ("<task", "Which", "<response_A", PAIR.rubric or "", "JSON object")
    ]
    assert order == sorted(order)


def test_a_template_file_is_read_and_named_after_itself(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_bytes(
        '\ufeff[system]\r\nBe fair, ü.\r\n[user]\r\n{rubric} {{rubric}} {"a": 1}\r\n{candidates}\r\n'.encode()
    )
    for spec in (path, str(path)):
        template = load_template(spec)
        assert template.name.startswith("mine-")
        system, user = judge_messages(template, PAIR, style="letters")
        assert system["content"] == "Be fair, ü."
        assert 'Prefer the truth. {rubric} {"a": 1}\n<response_A' in user["content"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("pairwize", "Did you mean 'pairwise'"),
        ("nonsense", "Give one of pairwise, label, ordinal, transcript"),
        ("Which response is better?", "a text with {candidates}"),
        ("x" * 5000, "Unknown prompt"),
        ("{candidate}", "Did you mean 'candidates'"),
        ("{candidates} {answer}", "Did you mean 'answers'"),
        ("No\nplaceholder", "no {candidates}"),
        ("{{candidates}}", "no {candidates}"),
        ("[system]\n{candidates}\n[user]\nGo.", "no {candidates} in its user section"),
        ("[system]\n{instruction}\n[user]\n{candidates}", "Move them below"),
        ("[system]\n{candidates}", "one [system] and one [user]"),
        ("Hello\n[user]\n{candidates}", "one [system] and one [user]"),
        ("[user]\n{candidates}\n[user]\n{candidates}", "one [system] and one [user]"),
        (Path("nowhere") / "mine.txt", "cannot be read"),
    ],
)
def test_a_prompt_that_cannot_be_used_is_an_error_that_says_why(spec, message):
    with pytest.raises(RecipeError, match=re.escape(message)):
        load_template(spec)


def test_a_template_file_that_is_not_utf_8_names_the_byte(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"{candidates} \xfc")
    with pytest.raises(RecipeError, match="byte 13"):
        load_template(path)
