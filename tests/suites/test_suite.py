"""Suites on disk: what is written is what was hashed, and what was touched afterwards is refused in one line."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import SuiteError
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites import read_suite

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def suite() -> jrh.Suite:
    return jrh.datasheet_suite(n_tasks=2, half_steps=True)


@pytest.fixture
def folder(suite, tmp_path) -> Path:
    saved: Path = suite.save(tmp_path / "suite")
    return saved


def refused(path: Path) -> str:
    with pytest.raises(SuiteError) as caught:
        jrh.load_suite(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def rewrite(folder: Path, items: bytes, **manifest: object) -> None:
    """Change the items and make the manifest agree, as somebody who edits a suite by hand would."""
    (folder / "suite.jsonl").write_bytes(items)
    data = json.loads((folder / "manifest.json").read_text())
    data |= {"sha256": hashlib.sha256(items).hexdigest(), "n_items": items.count(b"\n")} | manifest
    (folder / "manifest.json").write_text(json.dumps(data))


def test_a_saved_suite_comes_back_the_same(suite, folder):
    for path in (folder, str(folder), folder / "suite.jsonl"):
        back = jrh.load_suite(path)
        assert back.sha256 == suite.sha256
        assert back.content == suite.content
        assert back.name == suite.name
        assert back.origin == suite.origin
    assert back.items == suite.items


def test_the_hash_is_that_of_the_file_itself(suite, folder):
    assert hashlib.sha256((folder / "suite.jsonl").read_bytes()).hexdigest() == suite.sha256


def test_one_item_is_one_line_of_canonical_json(suite, folder):
    lines = (folder / "suite.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == [item.id for item in suite.items]
    assert all(
        line == json.dumps(json.loads(line), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        for line in lines
    )


def test_the_manifest_tells_what_is_inside(suite, folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["sha256"] == suite.sha256
    assert manifest["n_items"] == len(suite)
    assert manifest["n_calls"] == 2 * len(suite)
    assert manifest["n_tasks"] == 2
    assert sum(manifest["conditions"].values()) == len(suite)


def test_saving_twice_into_one_folder_leaves_the_last_suite(suite, folder):
    other = jrh.datasheet_suite(n_tasks=1)
    other.save(folder)
    assert jrh.load_suite(folder).sha256 == other.sha256


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.999])
def test_a_file_cut_short_is_said_to_be(suite, folder, keep):
    file = folder / "suite.jsonl"
    content = file.read_bytes()[: int(len(suite.content) * keep)]
    file.write_bytes(content)
    n_whole = content.count(b"\n")
    assert refused(folder) == f"{file} was cut short: {n_whole} of {len(suite)} items. Fetch or build it again."


def test_a_file_that_lost_only_its_last_newline_is_cut_short(suite, folder):
    (folder / "suite.jsonl").write_bytes(suite.content[:-1])
    assert "was cut short" in refused(folder)


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace(b'"better":"u"', b'"better":"v"', 1),
        lambda text: text + b'{"id":"more"}\n',
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text.replace(b".", b"!", 1),
    ],
)
def test_a_file_edited_after_hashing_is_said_to_be(suite, folder, edit):
    edited = edit(suite.content)
    assert edited != suite.content
    (folder / "suite.jsonl").write_bytes(edited)
    message = refused(folder)
    assert "suite.jsonl was edited after hashing: its sha256 is " in message
    assert f"the manifest says {suite.sha256[:12]}…. Restore the file, or build a new suite from it." in message


def test_gates_are_checked_again_when_a_suite_is_loaded(suite, folder):
    """An edit that also renews the hash still has to pass the gates."""
    rewrite(folder, suite.content.replace(b'"better":"u"', b'"better":"v"', 1))
    assert "the better content must meet all that the other meets, and more." in refused(folder)


def test_duplicate_ids_are_refused_on_loading(suite, folder):
    first = suite.content.splitlines(keepends=True)[0]
    rewrite(folder, suite.content + first)
    assert refused(folder).startswith("Item ids must be ")


def test_an_empty_suite_is_refused_on_loading_and_on_building(folder):
    rewrite(folder, b"")
    assert refused(folder).startswith("The suite has no ")
    with pytest.raises(SuiteError, match="The suite has no "):
        jrh.Suite(name="empty", items=[])


def test_an_unknown_condition_is_refused_on_loading(suite, folder):
    rewrite(folder, suite.content.replace(b'"condition":"ladder"', b'"condition":"staircase"', 1))
    assert "has the unknown condition 'staircase'." in refused(folder)


def test_a_missing_delta_is_refused_on_loading(suite, folder):
    rewrite(folder, suite.content.replace(b'"delta":1.0,', b"", 1))
    assert "is a ladder pair and needs a delta above 0, but has None." in refused(folder)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "line 1: not an item (Expecting property name"),
        (b"[1]", "line 1: not an item (unknown fields)."),
        (b'{"id":"a","task":"a","condition":"ladder","colour":"red"}', "line 1: not an item (unknown fields)."),
        (b'{"id":"a"}', "line 1: not an item ("),
    ],
)
def test_a_line_that_is_no_item_is_named_by_its_number(folder, line, why):
    rewrite(folder, line + b"\n")
    assert why in refused(folder)


@pytest.mark.parametrize("name", ["suite.jsonl", "manifest.json"])
def test_a_missing_file_is_said(folder, name):
    (folder / name).unlink()
    assert refused(folder) == f"There is no suite in {folder}: it needs suite.jsonl and manifest.json."


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "manifest.json is not valid JSON: "),
        ("[]", "manifest.json is not the manifest of a suite."),
        ('{"name": "x"}', "manifest.json is not the manifest of a suite."),
        (
            '{"schema_version": 1, "name": "x", "sha256": "x", "n_items": "many"}',
            "manifest.json: `n_items` must be … 'many'.",
        ),
        (
            '{"schema_version": 99, "name": "x", "sha256": "x", "n_items": 1}',
            "manifest.json has schema version 99, but this jrh-mlflow reads 1.",
        ),
    ],
)
def test_a_broken_manifest_is_said(folder, text, why):
    (folder / "manifest.json").write_text(text)
    message = refused(folder)
    assert all(part in message for part in why.split(" … "))


def test_a_name_that_is_no_suite_gets_the_nearest_one_there_is():
    with pytest.raises(SuiteError, match=r"There is no suite 'datashet'\. Did you mean 'datasheet'\?"):
        jrh.load_suite("datashet")


def test_built_in_suites_have_names():
    assert jrh.load_suite("datasheet").sha256 == jrh.datasheet_suite().sha256
    assert jrh.load_suite("datasheet-paper").sha256 == jrh.datasheet_suite(design="paper").sha256
    assert jrh.load_suite("datasheet-half-steps").sha256 == jrh.datasheet_suite(design="paper", half_steps=True).sha256


def test_items_of_every_kind_survive_the_file(tmp_path):
    items = [
        Item(id="p", task="t", condition="natural", instruction="Grüße 🙂", u="", v="\u2028 \x85", better="u"),
        Item(
            id="r", task="t", condition="label_flip", kind="response", instruction="i", response="x", answers=("a", "b")
        ),
        Item(
            id="t",
            task="t",
            condition="agent_positives",
            kind="transcript",
            instruction="i",
            transcript=(Message(role="user", content="hi"), Message(role="tool", content="", tool_call_id="1")),
            expected="a",
            answers=("a", "b"),
        ),
    ]
    suite = jrh.Suite(name="kinds", items=items)
    back = read_suite(suite.save(tmp_path / "kinds"))
    assert back.sha256 == suite.sha256
    assert [replace(item, transcript=None) for item in back.items] == [replace(item, transcript=None) for item in items]
    found = back.items[2].transcript
    assert found is not None
    assert [(one.role, one.content, one.tool_call_id) for one in found] == [("user", "hi", None), ("tool", "", "1")]


def test_an_empty_content_is_kept_and_a_missing_one_is_left_out(suite):
    line = next(line for line in suite.content.splitlines() if b"vacuum_empty" in line)
    assert b'"u":"","v":""' in line
    assert b"rubric" not in line


def test_a_suite_says_what_it_is(suite):
    assert repr(suite) == f"Suite('{suite.name}', {len(suite)} items, sha256={suite.sha256[:12]})"
    assert suite.has_texts
    assert not jrh.Suite(name="bare", items=[Item(id="a", task="a", condition="natural", better="u")]).has_texts
