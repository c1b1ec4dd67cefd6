"""Judges as they run in production, end to end: what the server gets is what production sends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.engine.batch import exported_requests
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges.raw import PromptedJudge
from jrh_mlflow.schema.items import Item
from tests.loopback import LoopbackServer
from tests.models.transport_tools import Transports, send, set_environment

LOGGED: dict[str, Any] = {
    "model": "gpt-4o-mini",
    "messages": [
        {"role": "system", "content": "Compare.  Two spaces, a tab\t and {braces}."},
        {"role": "user", "content": [{"type": "text", "text": "Q: Name a prime.\nONE: 7\nTWO: 9"}]},
    ],
    "temperature": 0.7,
    "max_completion_tokens": 300,
    "response_format": {"type": "json_object"},
}
EXAMPLE = {"instruction": "Name a prime.", "first": "7", "second": "9"}
VERDICT = {"json": "winner", "words": {"one": "1", "two": "2"}}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    set_environment(monkeypatch)


@pytest.fixture(scope="module")
def suite() -> jrh.Suite:
    items = [
        Item(id=f"p{n}", task=f"t{n}", condition="natural", instruction=f"Q{n}?", u=f"yes {n}", v=f"no {n}", better="u")
        for n in range(4)
    ]
    return jrh.Suite(name="production", items=items)


def made(server: LoopbackServer) -> PromptedJudge:
    return PromptedJudge.from_openai(LOGGED, example=EXAMPLE, verdict=VERDICT, api_base=server.url, name="mine")


def one(body: dict[str, Any]) -> str:
    return json.dumps({"why": "because", "winner": "one"})


def production(instruction: str, first: str, second: str) -> dict[str, Any]:
    text = f"Q: {instruction}\nONE: {first}\nTWO: {second}"
    user = {"role": "user", "content": [{"type": "text", "text": text}]}
    return {**LOGGED, "messages": [LOGGED["messages"][0], user]}


def test_measured_and_exported_it_sends_what_production_sends(suite, store_uri):
    with LoopbackServer(reply=one, record=True) as server:
        done = jrh.evaluate(made(server), suite, tracking_uri=store_uri, experiment="tests", traces="none")
        sent = [request["body"] for request in server.requests]
        assert len(sent) == 8
        for item in suite.items:
            for first, second in ((item.u, item.v), (item.v, item.u)):
                assert production(item.instruction, first, second) in sent
        assert set(done.calls["outcome"]) == {"verdict"}
        params = MlflowClient(tracking_uri=store_uri).get_run(done.run_id).data.params
        assert params["judge.kind"] == "raw"
        assert params["judge.temperature"] == "0.7"
        scorer = jrh.to_mlflow(done.run_id, tracking_uri=store_uri, orders="one")
        said = scorer(inputs={"instruction": "New?"}, outputs={"A": "a", "B": "b"})
        assert said.error is None, said.error
        assert server.requests[-1]["body"] == production("New?", "a", "b")
        assert jrh.status(made(server), tracking_uri=store_uri).state == "measured"


@pytest.mark.parametrize("transport", ["direct", "litellm"])
def test_both_transports_send_it_as_it_is(transport: Transports, suite: jrh.Suite) -> None:
    with LoopbackServer(reply=one, record=True) as server:
        judge = made(server)
        judge.begin(suite)
        send(transport, judge.request_of(production("Q?", "x", "y")))
        assert server.requests[-1]["body"] == production("Q?", "x", "y")


def test_batch_files_hold_it_too(suite, tmp_path):
    from jrh_mlflow.engine.batch import export_batch
    from jrh_mlflow.engine.journal import open_journal

    judge = PromptedJudge.from_openai(LOGGED, example=EXAMPLE, verdict=VERDICT)
    with open_journal(tmp_path / "journal.db") as journal:
        done = export_batch(judge, suite, journal, tmp_path / "requests.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    assert lines[0]["body"] == production("Q0?", "yes 0", "no 0")
    assert len(list(exported_requests(done.files, judge))) == 8


RECIPE = """
judge:
  model: openai/gpt-4o-mini
  api_base: URL
  raw: true
  messages: messages.json
  verdict: {"function": "reader.py:read"}
suite: SUITE
experiment: tests
traces: none
"""


def test_a_recipe_and_the_command_line_take_messages_and_a_verdict(
    suite: jrh.Suite, tmp_path: Path, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    suite.save(tmp_path / "pairs")
    messages = [{"role": "user", "content": "{instruction} {first} {second}"}]
    (tmp_path / "messages.json").write_text(json.dumps(messages))
    (tmp_path / "reader.py").write_text("def read(text):\n    return '1' if 'one' in text else None\n")
    with LoopbackServer(reply=one, record=True) as server:
        (tmp_path / "mine.yaml").write_text(RECIPE.replace("URL", server.url).replace("SUITE", str(tmp_path / "pairs")))
        store = ["--tracking-uri", store_uri, "--json", "--allow-key-to", f"http://127.0.0.1:{server.port}"]
        refused = CliRunner().invoke(group, ["evaluate", "mine.yaml", *store])
        assert isinstance(refused.exception, RecipeError)
        assert "--allow-code" in str(refused.exception)
        done = CliRunner().invoke(group, ["evaluate", "mine.yaml", "--allow-code", *store])
        assert done.exit_code == 0, done.output
        typed = ["--model", "openai/gpt-4o-mini", "--api-base", server.url, "--messages", "messages.json", "--raw"]
        typed += ["--verdict", json.dumps(VERDICT), "--suite", "pairs", "--traces", "none", *store]
        done = CliRunner().invoke(group, ["evaluate", *typed])
        assert done.exit_code == 0, done.output
        # The same requests: the journal has their answers.
        assert server.counts["requests"] == 8
        # In whatever order they came: several are in flight.
        assert "Q0? yes 0 no 0" in {sent["body"]["messages"][0]["content"] for sent in server.requests}
