"""Labels of several people from tables and traces to the baselines of a suite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner, Result

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import JrhWarning, RecipeError
from jrh_mlflow.generation.plan import AgentPlan, GenerationPlan, lay_out
from jrh_mlflow.options import GenerationSettings
from jrh_mlflow.recipe import load_generation
from jrh_mlflow.suites.labels import NO_LABEL, NO_MAJORITY, people_of
from tests import scripted_writer
from tests.tracking.traces.trace_tools import answered, expect, judged, logging_traces, say

RUBRIC = "Does the answer do harm?"
LABELS = ["harmless", "harmful"]


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def traces(store_uri: str) -> Iterator[dict[str, str]]:
    """Traces of one question each, by whom they are labelled."""
    with logging_traces(store_uri, "answers at work"):
        ids = {
            name: answered({"question": f"{name}?"}, f"Of {name}.", topic="money")
            for name in ("all", "most", "split", "judge", "expected", "nobody")
        }
        for trace, votes in (("all", "yyy"), ("most", "nyn"), ("split", "yn")):
            for who, vote in zip(("ann", "bob", "cleo"), votes, strict=False):
                say(ids[trace], {"y": "harmful", "n": "harmless"}[vote], who)
        for trace in ("all", "most", "split", "judge"):
            judged(ids[trace], "harmless")
        expect(ids["expected"], "harmful", "dora")
        yield ids


def plan(store_uri: str, **more: Any) -> GenerationPlan:
    given = {"tests": "typos", "rubric": RUBRIC, "labels": LABELS, "columns": {"label": "scores.harm"}, **more}
    given = {"dataset": "traces:/answers at work", "tracking_uri": store_uri, **given}
    return lay_out(GenerationSettings.checked(given))


@pytest.mark.filterwarnings("ignore::jrh_mlflow.errors.JrhWarning")
@pytest.mark.parametrize(
    ("tests", "kind"), [("typos", "response"), ("agent_perturbation", "transcript"), ("paper", "response")]
)
def test_labelled_traces_become_responses_or_transcripts_with_labels_of_people_only(
    traces: dict[str, str], store_uri: str, tests: str, kind: str
) -> None:
    laid = plan(store_uri, tests=tests, columns={"label": "harm", "group": "topic"})
    assert isinstance(laid, AgentPlan) is (kind == "transcript")
    found = {item.task: item for item in laid.baselines()}
    assert {trace: item.expected for trace, item in found.items()} == {
        traces["all"]: "harmful",
        traces["most"]: "harmless",
        traces["expected"]: "harmful",
    }
    first = found[traces["all"]]
    assert (first.kind, first.instruction, first.meta["group"]) == (kind, "all?", "money")
    said = first.response if kind == "response" else [message.content for message in first.transcript or ()]
    assert said == ("Of all." if kind == "response" else ["all?", "Of all."])
    assert {trace: item.meta["people"] for trace, item in found.items()} == {
        traces["all"]: dict.fromkeys(("ann", "bob", "cleo"), "harmful"),
        traces["most"]: {"ann": "harmless", "bob": "harmful", "cleo": "harmless"},
        traces["expected"]: {"dora": "harmful"},
    }


@pytest.mark.parametrize("tests", ["typos", "agent_perturbation"])
def test_traces_without_a_label_of_people_are_counted(traces: dict[str, str], store_uri: str, tests: str) -> None:
    with pytest.warns(JrhWarning) as said:
        plan(store_uri, tests=tests)
    lines = " ".join(str(one.message) for one in said)
    assert f"2 {NO_LABEL} ({traces['nobody']}, {traces['judge']})" in lines
    assert f"1 {NO_MAJORITY}" in lines
    assert traces["split"] in lines


@pytest.mark.parametrize("tests", ["typos", "agent_perturbation"])
@pytest.mark.parametrize("field", ["metadata.judge_scores.harm.openai:/small", "judge_scores.harm.openai:/small"])
def test_what_a_judge_said_is_refused_as_a_label(
    traces: dict[str, str], store_uri: str, tests: str, field: str
) -> None:
    with pytest.raises(RecipeError, match="holds what judges said, and that is no label"):
        plan(store_uri, tests=tests, columns={"label": field})


def test_cells_are_translated_before_people_are_counted(traces: dict[str, str], store_uri: str) -> None:
    with pytest.warns(JrhWarning):
        laid = plan(store_uri, labels=["fine", "bad"], values={"harmful": "bad", "harmless": "fine"})
    assert {item.task: item.expected for item in laid.baselines()}[traces["most"]] == "fine"


def test_only_baselines_carry_people_and_a_suite_gives_them_back(store_uri: str) -> None:
    frame = pd.DataFrame(
        {
            "id": ["r1", "r2"],
            "instruction": "Say it.",
            "response": ["That is a good answer to it.", "That is a bad answer to it."],
            "ann": ["yes", "no"],
            "bob": ["yes", ""],
        }
    )
    frame.to_csv("answers.csv", index=False)
    told = ("--tests", "typos", "--rubric", RUBRIC, "--labels", "no,yes", "--tracking-uri", store_uri)
    done = cli("generate", "answers.csv", *told, "--people", "ann=ann, bob=bob", "-o", "suite")
    assert done.exit_code == 0, (done.output, done.exception)
    suite = jrh.load_suite("suite")
    assert people_of(suite).to_dict("list") == {
        "item": ["r1/baseline", "r1/baseline", "r2/baseline"],
        "rater": ["ann", "bob", "ann"],
        "label": ["yes", "yes", "no"],
    }
    assert {item.condition for item in suite.items if "people" in item.meta} == {"baseline"}
    assert {item.expected for item in suite.items if item.task == "r2"} == {"no"}
    recipe = {"dataset": "answers.csv", "rubric": RUBRIC, "labels": ["no", "yes"], "tests": "typos"}
    Path("recipe.yaml").write_text(json.dumps({**recipe, "people": {"ann": "ann", "bob": "bob"}}))
    given = load_generation("recipe.yaml")
    written = lay_out(GenerationSettings.checked(given))
    assert [item.meta.get("people") for item in written.baselines()] == [{"ann": "yes", "bob": "yes"}, {"ann": "no"}]
    bad = cli("generate", "answers.csv", *told, "--people", "ann=", "-o", "suite")
    assert "PERSON=COLUMN" in bad.output


def test_edited_transcripts_carry_no_labels_of_people(traces: dict[str, str], store_uri: str) -> None:
    with pytest.warns(JrhWarning):
        suite = jrh.generate(
            "traces:/answers at work",
            tests="agent_perturbation",
            generator=scripted_writer.write,
            rubric=RUBRIC,
            labels=LABELS,
            columns={"label": "scores.harm"},
            tracking_uri=store_uri,
            experiment="tests",
            progress=False,
        )
    assert {item.condition for item in suite.items} == {"baseline", "agent_perturbation"}
    assert set(people_of(suite)["item"]) == {f"{traces[name]}/baseline" for name in ("all", "most", "expected")}
    assert {item.condition for item in suite.items if "people" in item.meta} == {"baseline"}


@pytest.mark.parametrize(
    ("dataset", "match"),
    [
        ("traces:/answers at work", "HUMAN feedback says who said what"),
        ([[{"role": "user", "content": "Hi"}]], "table"),
    ],
)
def test_people_of_what_is_no_table_are_refused(dataset: object, match: str, store_uri: str) -> None:
    with pytest.raises(RecipeError, match=match):
        plan(store_uri, dataset=dataset, tests="agent_perturbation", people={"ann": "a"})


def test_people_judge_by_one_rubric(store_uri: str) -> None:
    rows = [{"id": "a", "instruction": "i", "response": "r", "ann": "yes"}]
    with pytest.raises(RecipeError, match="labels by one rubric"):
        plan(store_uri, dataset=rows, rubric={"x": "X?", "y": "Y?"}, people={"ann": "ann"}, columns=None)
