"""Gates of items that stand alone: good ones are changed one by one, and the gate that must close closes."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import SuiteError
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.suite import check_suite

RESPONSE = Item(
    id="s1/typos",
    task="s1",
    condition="typos",
    kind="response",
    instruction="Explain the tides.",
    rubric="Is it right?",
    response="The moon pulls.",
    answers=("fail", "pass"),
    expected="pass",
    meta={"review": {"state": "unreviewed"}},
)
TRANSCRIPT = replace(
    RESPONSE, id="s1/t", kind="transcript", response=None, transcript=(Message(role="user", content="Hello."),)
)


def refused(*items: Item) -> str:
    with pytest.raises(SuiteError) as caught:
        check_suite(items)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_good_items_of_both_kinds_pass() -> None:
    check_suite([RESPONSE, TRANSCRIPT])


@pytest.mark.parametrize(
    "change",
    [
        {"expected": None},
        {"response": ""},
        {"rubric": None},
        {"condition": "padding"},
        {"meta": {}},
        {"meta": {"review": None}},
        {"meta": {"review": {"state": "edited"}}},
        {"meta": {"review": {"state": "accepted"}}},
        {"instruction": None, "response": None},
        {"answers": ("1", "2", "3"), "expected": "2"},
    ],
)
def test_what_breaks_no_rule_passes(change: dict[str, object]) -> None:
    check_suite([replace(RESPONSE, **change)])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"kind": "essay"}, "has the unknown kind 'essay'. Known: pair, response, transcript."),
        ({"task": ""}, "has no task: it is the cluster"),
        ({"condition": ""}, "is no pair, and its condition '' names no reliability test."),
        ({"condition": "ladder"}, "is no pair, and its condition 'ladder' names no reliability test."),
        ({"condition": "filler"}, "is no pair, and its condition 'filler' names no reliability test."),
        (
            {"answers": ("loss", "Tie", "win"), "expected": "win"},
            "has a label called tie, and a tie is an outcome of pairs. Rename it.",
        ),
        ({"response": None}, "is a response and has none."),
        ({"kind": "transcript"}, "is a transcript and has none."),
        ({"answers": None}, "needs two or more different answers, but has ()."),
        ({"answers": ("pass",)}, "needs two or more different answers, but has ('pass',)."),
        ({"answers": ("pass", "pass")}, "needs two or more different answers, but has ('pass', 'pass')."),
        ({"expected": "maybe"}, "expects 'maybe', which is none of fail, pass."),
        ({"expected": ""}, "expects '', which is none of fail, pass."),
        ({"meta": {"review": {"state": "rejected"}}}, "was rejected in review, and no judge may see it. Leave it out."),
    ],
)
def test_what_breaks_a_rule_is_refused_by_name(change: dict[str, object], text: str) -> None:
    message = refused(RESPONSE, replace(RESPONSE, **{"id": "broken", **change}))
    assert message.startswith(f"Item 'broken' {text}")


def test_ids_are_unique_among_responses_too() -> None:
    assert refused(RESPONSE, RESPONSE).endswith(" 1 repeat: s1/typos.")


def test_what_a_judge_could_be_told_about_pairs_is_ordinary_text_here() -> None:
    """A user's own response may well say `requirement 1`: it is data, not a leak of ours."""
    check_suite([replace(RESPONSE, response="Requirement 1 is met, delta 2, higher level.")])


def test_the_gate_closes_again_when_a_saved_suite_is_loaded(tmp_path: Path) -> None:
    folder = jrh.Suite(name="s", items=[RESPONSE]).save(tmp_path / "suite")
    assert jrh.load_suite(folder).items == (RESPONSE,)
    # Rejected later, with the hash put right: only the gate is left to see it.
    content = (folder / "suite.jsonl").read_bytes()
    changed = content.replace(b'"unreviewed"', b'"rejected"')
    (folder / "suite.jsonl").write_bytes(changed)
    old, new = (hashlib.sha256(text).hexdigest() for text in (content, changed))
    manifest = (folder / "manifest.json").read_text(encoding="utf-8")
    (folder / "manifest.json").write_text(manifest.replace(old, new), encoding="utf-8")
    with pytest.raises(SuiteError, match="rejected in review"):
        jrh.load_suite(folder)
