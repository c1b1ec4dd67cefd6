"""`jrh suite dataset`, `jrh evaluate --register-prompt`, and both used again by their addresses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from mlflow import MlflowClient

from jrh_mlflow.cli.main import group
from jrh_mlflow.measuring.resolve import load_suite
from jrh_mlflow.schema.items import Item
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.runs import keys
from tests.loopback import LoopbackServer


def run(*arguments: str, uri: str) -> Result:
    """Run a command at a store."""
    return CliRunner().invoke(group, [*arguments, "--tracking-uri", uri, "--experiment", "tests"])


def evaluate(server: LoopbackServer, *arguments: str, uri: str) -> dict[str, str]:
    """Return the params of the run that an evaluation at the loopback made."""
    asked = ("evaluate", "--model", "openai/test-model", "--api-base", server.url, "--json", *arguments)
    done = run(*asked, uri=uri)
    assert done.exit_code == 0, done.output
    (facts,) = json.loads(done.stdout)
    params = MlflowClient(tracking_uri=uri).get_run(facts["run_id"]).data.params
    return dict(params)


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """The folder of four pairs."""
    return Suite(name="few", items=load_suite("datasheet-short").items[:4]).save(tmp_path / "few")


def test_a_prompt_and_a_suite_go_to_the_registries_and_are_used_again_by_their_addresses(
    few: Path, tmp_path: Path, store_uri: str
) -> None:
    written = run("suite", "dataset", str(few), "--name", "by command", uri=store_uri)
    assert written.output == "datasets:/by command@1: 8 records, written\n"
    again = run("suite", "dataset", str(few), "--name", "by command", "--json", uri=store_uri)
    assert json.loads(again.output)["is_new"] is False
    (tmp_path / "mine.txt").write_text('Be fair, {{ rubric }}.\n{candidates}\n{"verdict": "A"}\n', encoding="utf-8")
    with LoopbackServer(record=True) as server:
        options = ("--prompt", str(tmp_path / "mine.txt"), "--register-prompt", "by-command@live")
        first = evaluate(server, "--suite", str(few), *options, uri=store_uri)
        sent = [request["body"] for request in server.requests]
        server.requests.clear()
        # Nothing kept answers: they must be the same requests.
        kept = ("--journal", str(tmp_path / "other.db"))
        options = ("--prompt", "prompts:/by-command@live", *kept)
        second = evaluate(server, "--suite", "datasets:/by command", *options, uri=store_uri)
    assert sorted(map(str, sent)) == sorted(str(request["body"]) for request in server.requests)
    assert len(sent) == 8
    assert first[keys.PARAM_PROMPT_URI] == second[keys.PARAM_PROMPT_URI] == "prompts:/by-command/1"
    assert first[keys.PARAM_SUITE_SHA256] == second[keys.PARAM_SUITE_SHA256]
    assert (second[keys.PARAM_DATASET], second[keys.PARAM_DATASET_VERSION]) == ("by command", "1")
    assert keys.PARAM_DATASET not in first


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--judge", "scripted:AlwaysTie", "--register-prompt", "x"), "only a model's prompt can be registered"),
        (("--model", "openai/m", "--register-prompt", "a b"), "letters, digits"),
        (("--model", "openai/m", "--register-prompt", "x@latest"), "neither latest"),
        (("--model", "openai/m", "--register-prompt", "x", "--no-texts"), "--no-texts keeps all out of it"),
    ],
)
def test_what_cannot_be_registered_is_refused_before_anything_is_asked(
    options: tuple[str, ...], text: str, store_uri: str
) -> None:
    done = run("evaluate", *options, uri=store_uri)
    assert getattr(done.exception, "exit_code", done.exit_code) == 2
    assert text in f"{done.output} {done.exception}"


def test_a_suite_that_needs_several_prompts_is_refused_before_anything_is_asked(tmp_path: Path, store_uri: str) -> None:
    scales = (("no", "yes"), ("1", "2", "3"))
    items = [
        Item(id=ans[0], task="t", condition="baseline", kind="response", instruction="?", response="!", answers=ans)
        for ans in scales
    ]
    suite = Suite(name="two scales", items=items).save(tmp_path / "two")
    with LoopbackServer(record=True) as server:
        asked = ("evaluate", "--model", "openai/test-model", "--api-base", server.url, "--suite", str(suite))
        done = run(*asked, "--register-prompt", "several", uri=store_uri)
        assert server.requests == []
    assert "several prompts (label+ordinal): give it one" in str(done.exception)
