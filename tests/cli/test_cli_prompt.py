"""`jrh prompt`: the request word for word, and whether answers are understood."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from tests.loopback import LoopbackServer
from tests.models.transport_tools import set_environment

MODEL = "openai/gpt-4o-mini"
MESSAGES = [{"role": "user", "content": [{"type": "text", "text": "{instruction}\n1. {first}\n2. {second}"}]}]


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_environment(monkeypatch)
    monkeypatch.chdir(tmp_path)
    Path("messages.json").write_text(json.dumps(MESSAGES))


def prompt(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["prompt", *arguments])


RAW = ("--model", MODEL, "--raw", "--messages", "messages.json", "--verdict", r"(\d)", "--suite", "datasheet-short")


def test_the_shown_request_is_the_one_that_is_sent(store_uri: str) -> None:
    shown = prompt("show", *RAW, "--json")
    assert shown.exit_code == 0, shown.output
    bodies = json.loads(shown.output)
    assert [set(body) for body in bodies] == [{"model", "messages"}] * 2
    with LoopbackServer(reply=lambda _: "1", record=True) as server:
        checked = prompt("check", *RAW, "--api-base", server.url, "--json")
        assert checked.exit_code == 0, checked.output
        sent = [request["body"] for request in server.requests]
    assert len(sent) == 3
    assert bodies[0] in sent
    assert json.loads(checked.stdout)["understood"] == 3


def test_people_read_the_messages_the_tokens_and_the_price() -> None:
    shown = prompt("show", "--model", MODEL, "--suite", "datasheet-short")
    assert shown.exit_code == 0, shown.output
    assert "[system]" in shown.output
    assert shown.output.splitlines()[-1].startswith("2 requests, about")
    assert "$" in shown.output.splitlines()[-1]
    one = jrh.load_suite("datasheet-short").items[3].id
    assert one in prompt("show", *RAW, "--item", one).output
    missing = prompt("show", *RAW, "--item", "nobody")
    assert "nobody" in str(missing.exception)


def test_what_differs_from_what_a_run_sent_is_shown(store_uri: str) -> None:
    with LoopbackServer(reply=lambda _: '{"reason": "r", "verdict": "A"}') as server:
        judge = jrh.PromptedJudge(MODEL, api_base=server.url)
        done = jrh.evaluate(judge, "datasheet-short", tracking_uri=store_uri, experiment="tests", traces="none")
        where = ("--suite", "datasheet-short", "--tracking-uri", store_uri, "--diff", done.run_id)
        same = prompt("show", "--model", MODEL, "--api-base", server.url, *where)
        assert same.output == "The run sent the same.\n"
        other = prompt("show", "--model", MODEL, "--api-base", server.url, "--temperature", "0.5", *where)
    assert '-  "temperature": 0.0,' in other.output
    assert '+  "temperature": 0.5,' in other.output


def test_answers_that_are_not_understood_are_shown_with_why() -> None:
    with LoopbackServer(reply=lambda _: "Both are fine.") as server:
        done = prompt("check", *RAW, "--api-base", server.url)
    assert done.exit_code == 4
    assert "0 of 3 answers" in done.output
    assert "Both are fine." in done.output


def test_code_has_no_request_to_show() -> None:
    done = prompt("show", "--judge", "scripted:AlwaysTie", "--suite", "datasheet-short")
    assert "AlwaysTie" in str(done.exception)
