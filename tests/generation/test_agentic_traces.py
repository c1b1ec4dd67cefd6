"""MLflow traces as the source of a suite: read from the store that is given, whichever one is active."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
from click.testing import CliRunner, Result

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.tracking.mlflow_server import folder_uri
from jrh_mlflow.tracking.runs.store import Store
from tests import scripted_writer
from tests.generation.agent_tools import BOTH, LABELS, RUBRIC
from tests.tracking.traces.test_trace_transcripts import ANSWER, ASK, ASKS, RESULT, agent, completion
from tests.tracking.traces.trace_tools import say

TOLD = ("--tests", BOTH, "--rubric", RUBRIC, "--labels", ",".join(LABELS))


@pytest.fixture(scope="module")
def traces(store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two traces of an agent in one store, while another, empty one is active."""
    other = folder_uri(tmp_path_factory.mktemp("other"))
    mlflow.set_tracking_uri(store_uri)
    mlflow.set_experiment("agents at work")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")
        for topic in ("Lunch", "Dinner"):
            chats = [([ASK], completion(ASKS)), ([ASK, ASKS, RESULT], completion(ANSWER))]
            trace_id = agent(chats=chats, tags={"topic": topic})
            said = "asked" if topic == "Lunch" else "not asked"
            say(trace_id, said, "ann", name="consent")
    assert Store(other, "tests").experiment_id
    mlflow.set_tracking_uri(other)
    yield "traces:/agents at work"
    # Not what `get_tracking_uri` said before: a store that is set outranks the environment of every later test.
    mlflow.set_tracking_uri(None)


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


def broken(shown: jrh.Presentation) -> str:
    """A judge that finds what the scripted writer wrote in."""
    said = " ".join(message.content for message in shown.transcript or ())
    return LABELS[scripted_writer.BREACH in said]


def test_traces_of_the_store_that_is_named_become_a_suite_and_are_judged(
    traces: str, store_uri: str, tmp_path: Path
) -> None:
    recipe = {
        "dataset": traces,
        "tests": BOTH,
        "rubric": RUBRIC,
        "labels": list(LABELS),
        "columns": {"label": "scores.consent"},
        "values": {"asked": LABELS[0], "not asked": LABELS[1]},
        "group": "metadata.topic",
        "generator": {"callable": f"{scripted_writer.__file__}:write"},
        "tracking_uri": store_uri,
        "output": "suite",
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    done = cli("generate", tmp_path / "recipe.yaml", "--json", "--allow-code")
    assert done.exit_code == 0, (done.output, done.exception)
    suite = jrh.load_suite(str(tmp_path / "suite"))
    assert suite.name == "agents at work"
    assert suite.manifest["conditions"] == {"baseline": 2, "agent_perturbation": 2, "agent_positives": 2}
    assert {item.meta["source"]["format"] for item in suite.items} == {"mlflow_trace"}
    edited = next(item for item in suite.items if item.condition == "agent_perturbation")
    assert [message.role for message in edited.transcript or ()] == ["user", "assistant", "tool", "assistant"]
    judged = jrh.evaluate(broken, suite, tracking_uri=store_uri, experiment="tests", progress=False, traces="none")
    assert judged.metrics["all/accuracy/rate"] == 1
    assert judged.metrics["baseline/accuracy/rate"] == 0.5
    assert (judged.metrics["category/lunch/fpr/n"], judged.metrics["category/dinner/fnr/n"]) == (1, 1)
    asked = cli(
        "evaluate", "--judge", "scripted:Oracle", "--suite", tmp_path / "suite", "--tracking-uri", store_uri, "--json"
    )
    assert json.loads(asked.stdout)[0]["metrics"]["reliability/mean"] == 1


def test_a_dry_run_reads_the_same_store_and_sends_nothing(traces: str, store_uri: str) -> None:
    model = ("--generator", "openai/editor", "--price", "1,2", "--validator", "none")
    done = cli("generate", traces, *TOLD, *model, "--tracking-uri", store_uri, "--dry-run", "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    quote = json.loads(done.stdout)
    assert (quote["seeds"], quote["items"]) == (2, 6)
    assert 0 < quote["usd"] < quote["worst_usd"]


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_without_a_store_the_active_one_is_read(more: tuple[str, ...], traces: str) -> None:
    done = cli("generate", traces, *TOLD, "-o", "suite", *more)
    assert isinstance(done.exception, RecipeError)
    assert "There is no experiment 'agents at work'" in str(done.exception)


def test_the_function_honours_the_store_too(traces: str, store_uri: str) -> None:
    told = {"tests": "agent_perturbation", "rubric": RUBRIC, "labels": LABELS, "generator": scripted_writer.write}
    suite = jrh.generate(traces, tracking_uri=store_uri, experiment="tests", progress=False, **told)
    assert {item.condition for item in suite.items} == {"baseline", "agent_perturbation"}
