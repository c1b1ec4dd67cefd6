"""`jrh.respond`: models answer prompts; every prompt has a row, and nothing is paid twice."""

from __future__ import annotations

import json

import mlflow
import pandas as pd
import pytest
from click.testing import CliRunner

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.generation.respond import COLUMNS
from tests.loopback import LoopbackServer, Reply

PROMPTS = pd.DataFrame(
    {"id": ["a", "b", "c", "d"], "prompt": ["Say {first}.", "REFUSE", "CUT", "EMPTY"], "topic": ["x", "x", "y", "y"]}
)
PRICES = {"openai/one": (1.0, 2.0), "openai/two": (1.0, 2.0)}


def answer(body):
    asked = body["messages"][-1]["content"]
    special = {
        "REFUSE": Reply(refusal="I will not."),
        "CUT": Reply(text="half of it", finish_reason="length"),
        "EMPTY": Reply(text=""),
    }
    return special.get(asked, f"{body['model']} heard: {asked}")


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with LoopbackServer(reply=answer, record=True) as running:
        yield running


def options(server, tmp_path, store_uri):
    return {
        "api_base": server.url,
        "journal": tmp_path / "journal.db",
        "tracking_uri": store_uri,
        "experiment": "respond",
        "progress": False,
    }


def test_each_prompt_and_model_has_a_row_and_the_request_holds_the_prompt_alone(server, tmp_path, store_uri):
    given = options(server, tmp_path, store_uri)
    found = jrh.respond(PROMPTS, ["openai/one", "openai/two"], **given)
    assert list(found.columns) == [*COLUMNS, "topic"]
    assert list(zip(found["author"], found["id"], strict=True)) == [
        (author, one) for author in ("openai/one", "openai/two") for one in "abcd"
    ]
    assert list(found["outcome"][:4]) == ["answered", "refused", "cut", "empty"]
    assert list(found["response"][:3]) == ["one heard: Say {first}.", "I will not.", "half of it"]
    assert pd.isna(found["response"][3])
    assert "label" not in found
    body = next(entry["body"] for entry in server.requests if "first" in entry["text"])
    assert body == {"model": "one", "messages": [{"role": "user", "content": "Say {first}."}]}


def test_it_is_a_run_with_the_table_and_the_same_call_pays_only_for_what_failed(server, tmp_path, store_uri):
    given = {**options(server, tmp_path, store_uri), "prices": PRICES, "max_tokens": 50, "max_usd": 1}
    first = jrh.respond(PROMPTS, "openai/one", **given)
    asked = len(server.requests)
    again = jrh.respond(PROMPTS, "openai/one", **given)
    assert {entry["body"]["messages"][-1]["content"] for entry in server.requests[asked:]} == {"REFUSE", "EMPTY"}
    pd.testing.assert_frame_equal(first[["id", "response", "outcome"]], again[["id", "response", "outcome"]])
    client = mlflow.MlflowClient(store_uri)
    experiment = client.get_experiment_by_name("respond")
    run = client.search_runs([experiment.experiment_id], "params.`respond.max_tokens` = '50'")[0]
    assert run.data.tags["jrh.kind"] == "respond"
    assert run.data.metrics["respond/answered"] == 1
    assert run.data.metrics["cost/usd"] > 0
    kept = pd.read_parquet(client.download_artifacts(run.info.run_id, "responses.parquet", str(tmp_path)))
    assert list(kept["response"][:2]) == ["one heard: Say {first}.", "I will not."]


def test_one_cap_is_for_all_models_and_prompts_that_it_leaves_out_have_a_row(server, tmp_path, store_uri):
    many = pd.DataFrame({"prompt": [f"word {number} " * 15 for number in range(40)]})
    given = {**options(server, tmp_path, store_uri), "prices": PRICES, "max_tokens": 100, "concurrency": 1}
    found = jrh.respond(many, ["openai/one", "openai/two"], max_usd=0.006, **given)
    counts = found["outcome"].value_counts()
    assert set(counts.index) == {"answered", "not asked"}
    assert found["cost_usd"].sum() <= 0.006
    assert found["id"].nunique() == 40


def test_what_makes_no_sense_is_refused_before_anything_is_sent(server, tmp_path, store_uri):
    given = options(server, tmp_path, store_uri)
    for frame, models, told in (
        (PROMPTS.rename(columns={"prompt": "question"}), "openai/one", "question"),
        (PROMPTS, ["openai/one", "openai/one"], "once"),
        (PROMPTS.assign(id="same"), "openai/one", "each id once"),
        (PROMPTS.assign(prompt=None), "openai/one", "must hold text"),
    ):
        with pytest.raises(RecipeError, match=told):
            jrh.respond(frame, models, **given)
    assert server.requests == []


def test_where_nothing_is_answered_the_run_has_failed(server, tmp_path, store_uri):
    given = options(server, tmp_path, store_uri)
    with pytest.raises(JudgeError):
        jrh.respond(PROMPTS[PROMPTS["id"] == "d"], "openai/one", run_name="nothing", **given)
    client = mlflow.MlflowClient(store_uri)
    place = [client.get_experiment_by_name("respond").experiment_id]
    runs = client.search_runs(place, "attributes.run_name = 'nothing'")
    assert [run.info.status for run in runs] == ["FAILED"]


def test_the_command_asks_quotes_and_goes_through_batch_files(server, tmp_path, store_uri):
    prompts, table = tmp_path / "prompts.csv", tmp_path / "answers.jsonl"
    PROMPTS[:1].to_csv(prompts, index=False)
    common = ["respond", str(prompts), "--model", "openai/one"]
    common += ["--journal", str(tmp_path / "journal.db"), "--tracking-uri", store_uri, "--price", "1,2"]

    def run(*arguments):
        done = CliRunner().invoke(group, [*common, *arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    assert json.loads(run("--dry-run", "--json", "--max-tokens", "9"))["openai/one"]["calls"] == 1
    requests = tmp_path / "requests.jsonl"
    run("--export", str(requests))
    (line,) = requests.read_text().splitlines()
    assert server.requests == []
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "by batch"}}
    body = {"model": "one", "choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    result = {"custom_id": json.loads(line)["custom_id"], "response": {"status_code": 200, "body": body}, "error": None}
    (tmp_path / "results.jsonl").write_text(json.dumps(result))
    files = [str(requests), str(tmp_path / "results.jsonl"), "--journal", str(tmp_path / "journal.db")]
    done = CliRunner().invoke(group, ["batch", "import", *files])
    assert done.exit_code == 0, done.output
    run("-o", str(table))
    assert server.requests == []
    (row,) = (json.loads(text) for text in table.read_text().splitlines())
    assert (row["id"], row["response"], row["author"]) == ("a", "by batch", "openai/one")
