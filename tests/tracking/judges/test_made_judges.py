"""`form="make_judge"`: the words, model and sampling of a judge as an MLflow judge, which is another one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import mlflow
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.exporting.to_mlflow import instructions_judge, mlflow_model
from jrh_mlflow.schema.items import Item
from jrh_mlflow.tracking.judges.scorer_facts import specification
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import wait_for_sqlite
from tests.benchmarks.exported_rows import stored_feedback
from tests.loopback import LoopbackServer

WORKERS = "MLFLOW_GENAI_EVAL_MAX_WORKERS"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    # What `to_mlflow` sets for its process is taken back after the test.
    monkeypatch.setenv(WORKERS, "1")
    monkeypatch.delenv(WORKERS)
    with LoopbackServer(record=True) as running:
        yield running


def judging(server: LoopbackServer | None = None, **given: Any) -> jrh.PromptedJudge:
    return jrh.PromptedJudge("openai/gpt-4o-mini", api_base=server.url if server else None, **given)


def made(judge: Any, kind: str = "pair", answers: tuple[str, ...] = (), **given: Any) -> Any:
    return instructions_judge(judge, name="made", kind=kind, answers=answers, **given)


def test_the_words_of_the_judge_stand_in_the_instructions_and_the_variables_are_mlflows():
    judge = judging(rubric="Prefer the shorter one.", tie_criterion="strict")
    text = made(judge, rubric="Mind the units.").instructions
    for words in ("Prefer the shorter one.", "Mind the units.", judge.tie_criterion.text, "You compare two responses"):
        assert text.count(words) == 1
    assert made(judge).template_variables == {"inputs", "outputs"}
    assert "code" not in text, "MLflow writes no markers with a code"
    assert "{" not in text.replace("{{ inputs }}", "").replace("{{ outputs }}", "")


@pytest.mark.parametrize(
    ("judge", "kind", "answers", "values"),
    [
        (judging(), "pair", (), ("A", "B", "tie")),
        (judging(tie_criterion="forced", answer_style="digits"), "pair", (), ("A", "B")),
        (judging(), "response", ("no", "yes"), ("no", "yes")),
        (judging(), "response", ("1", "2", "3"), (1, 2, 3)),
        (judging(), "response", ("0.5", "1", "1.5"), (0.5, 1, 1.5)),
        (judging(), "transcript", ("safe", "unsafe"), ("safe", "unsafe")),
    ],
)
def test_what_may_be_answered_is_the_type_of_the_feedback(judge, kind, answers, values):
    assert get_args(made(judge, kind, answers).feedback_value_type) == values


def test_a_template_of_ones_own_keeps_its_words_and_braces_of_a_rubric_are_no_variables():
    prompt = "Grade {candidates} for {instruction} by: {rubric}\n\nSay {answers}. Keep {{this}}.\n\n{format}"
    judge = judging(prompt=prompt, rubric='Output {"a": {"b": 1}} and {{ name }} count.')
    text = made(judge, "response", ("no", "yes")).instructions
    assert text.startswith("Grade {{ outputs }} for {{ inputs }} by: Output")
    assert 'Say "no", "yes". Keep {this}.' in text
    assert "{ { name }} count." in text


def test_model_and_sampling_are_the_judges():
    judge = judging(temperature=0.3, max_tokens=77, seed=5, extra={"top_p": 0.9})
    kept = made(judge).model_dump()["instructions_judge_pydantic_data"]
    assert kept["model"] == "openai:/gpt-4o-mini"
    assert kept["inference_params"] == {"temperature": 0.3, "max_tokens": 77, "seed": 5, "top_p": 0.9}
    assert mlflow_model("gpt-4o-mini") == "openai:/gpt-4o-mini"


@pytest.mark.parametrize(
    ("judge", "why"),
    [
        (jrh.scripted.AlwaysFirst(), "needs a model with a prompt"),
        (jrh.pointwise(judging()), "is a pointwise judge"),
    ],
)
def test_what_is_no_prompt_is_refused(judge, why):
    with pytest.raises(RecipeError, match=why):
        made(judge)


def graded() -> jrh.Suite:
    items = [
        Item(
            id=f"g{number}",
            task=f"t{number}",
            condition="typos",
            kind="response",
            instruction=f"Question {number}?",
            rubric="Is it right?",
            response=f"answer {number}",
            answers=("no", "yes"),
            expected=("no", "yes")[number % 2],
        )
        for number in range(4)
    ]
    return jrh.Suite(name="made-grades", items=items)


def test_a_made_judge_reads_never_measured_until_it_is_measured_itself(server, store_uri):
    server.reply = lambda body: json.dumps(
        {"reason": "so", "verdict": "yes"}
        if '"verdict"' in str(body["messages"])
        else {"rationale": "so", "result": "yes"}
    )
    options = {"experiment": "made", "tracking_uri": store_uri, "traces": "none", "progress": False}
    measured = jrh.evaluate(judging(server, name="mine"), graded(), **options)
    judge = jrh.to_mlflow(measured, name="mine made", form="make_judge", tracking_uri=store_uri)
    assert specification(judge) is None, "it carries no datasheet"
    assert jrh.status(judge, tracking_uri=store_uri).state == "never measured"
    assert jrh.status(measured.run_id, tracking_uri=store_uri).state == "measured"
    own = jrh.evaluate(judge, graded(), **options)
    found = jrh.status(judge, tracking_uri=store_uri)
    assert (found.state, found.run_id) == ("measured", own.run_id)
    asked = server.requests[-1]["body"]
    assert (asked["model"], asked["temperature"]) == ("gpt-4o-mini", 0.0)
    assert "Is it right?" in asked["messages"][0]["content"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:::mlflow", "ignore:.*Any type hint is inferred", "ignore:Starting with pandas")
def test_every_verdict_of_an_evaluation_on_sqlite_is_stored_with_its_datasheet(server, store_uri, monkeypatch):
    # As many threads as MLflow ever takes, and no waiting: without a remedy most verdicts would be lost.
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_PREDICT_RATE_LIMIT", "10000")
    mlflow.set_tracking_uri(store_uri)
    mlflow.set_experiment("thirty rows")
    run = jrh.evaluate(judging(server), graded(), traces="none", progress=False).run_id
    scorer = jrh.to_mlflow(run, name="graded")
    server.reply = lambda body: json.dumps({"reason": "so", "verdict": "yes"})
    rows = [{"inputs": {"question": f"What is {n}?"}, "outputs": f"It is {n}."} for n in range(30)]
    stored = stored_feedback(mlflow.genai.evaluate(data=rows, scorers=[scorer]).run_id, "graded")
    assert [one.value for one in stored] == ["yes"] * 30
    assert {one.metadata[keys.FEEDBACK_RUN] for one in stored} == {run}


def test_connections_to_sqlite_wait_a_minute_for_a_file_that_others_write_to(tmp_path):
    from sqlalchemy import create_engine, text

    engine = create_engine(f"sqlite:///{tmp_path}/any.db")
    with engine.connect() as open_already:
        assert open_already.execute(text("PRAGMA busy_timeout")).scalar_one() in (5000, 60_000)
    wait_for_sqlite()
    with engine.connect() as one, engine.connect() as other:
        assert [each.execute(text("PRAGMA busy_timeout")).scalar_one() for each in (one, other)] == [60_000, 60_000]
    engine.dispose()
