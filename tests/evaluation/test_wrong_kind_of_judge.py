"""A judge that grades one response is refused on pairs before the first call, and one of pairs on single responses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from mlflow import MlflowClient
from mlflow.genai import make_judge, scorers
from mlflow.genai.scorers import scorer

import jrh_mlflow as jrh
from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.resolve import prepare
from jrh_mlflow.suites.suite import Suite
from tests.evaluation.test_every_call_failed import run_called

MODEL = "openai:/gpt-4o-mini"
WAYS_OUT = ("jrh.pointwise(judge)", 'suite="pointwise-datasheet"', "jrh generate")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")


@pytest.fixture(scope="module")
def pairs() -> Suite:
    return jrh.datasheet_suite(n_tasks=1, depth=2, design="paper")


def judge_of(kind: Any, instructions: str = "Is {{ outputs }} right for {{ inputs }}?") -> Any:
    return make_judge(name="mine", instructions=instructions, model=MODEL, feedback_value_type=kind)


GRADERS: dict[str, Callable[[], Any]] = {
    "Safety": lambda: scorers.Safety(model=MODEL),
    "RelevanceToQuery": lambda: scorers.RelevanceToQuery(model=MODEL),
    "Guidelines": lambda: scorers.Guidelines(name="polite", guidelines="Be polite.", model=MODEL),
    "Correctness": lambda: jrh.from_mlflow(
        scorers.Correctness(model=MODEL), expectations=lambda shown: {"expected_response": "x"}
    ),
    "bool": lambda: judge_of(bool),
    "yes or no": lambda: judge_of(Literal["yes", "no"]),
    "int": lambda: judge_of(int),
    "float": lambda: judge_of(float),
    "1 to 5": lambda: judge_of(Literal["3", "4", "5"]),
    "only tie": lambda: judge_of(Literal["good", "bad", "tie"]),
    "in words": lambda: judge_of(str, "Answer yes if {{ outputs }} is polite, otherwise no."),
    "one of a list": lambda: [judge_of(Literal["A", "B"]), judge_of(bool)],
}


@pytest.mark.parametrize("name", GRADERS)
def test_a_judge_of_one_response_is_refused_on_pairs_with_the_ways_out(name: str, pairs: Suite, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as raised:
        jrh.evaluate(GRADERS[name](), pairs, tracking_uri=f"sqlite:///{tmp_path / 'untouched.db'}")
    for way in WAYS_OUT:
        assert way in str(raised.value)
    assert not (tmp_path / "untouched.db").exists()


@pytest.mark.parametrize(
    "judge",
    [
        lambda: judge_of(Literal["A", "B", "tie"]),
        lambda: judge_of(Literal[1, 2]),
        lambda: judge_of(Literal["first", "second", "unclear"]),
        lambda: judge_of(str, "Which of A and B in {{ outputs }} is better? Answer A, B or tie; no other words, yes."),
        lambda: judge_of(str, "Welche Antwort in {{ outputs }} passt zu {{ inputs }}?"),
        lambda: jrh.from_mlflow(judge_of(bool), answers={True: "1", False: "2"}),
        lambda: jrh.from_mlflow(judge_of(int), answers={0: "1", 3: "2"}),
    ],
)
def test_a_judge_that_may_choose_is_not_refused(judge: Callable[[], Any], pairs: Suite) -> None:
    assert prepare(judge(), pairs).suite is pairs


@pytest.mark.parametrize("suite", ["pointwise-datasheet", "pointwise-datasheet-scores"])
def test_a_judge_of_pairs_is_refused_on_single_responses(suite: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="'mine' says A, B, tie"):
        jrh.evaluate(judge_of(Literal["A", "B", "tie"]), suite, tracking_uri=f"sqlite:///{tmp_path / 'untouched.db'}")
    assert not (tmp_path / "untouched.db").exists()


@pytest.mark.parametrize("name", ["Safety", "bool", "yes or no", "int", "float", "1 to 5", "in words"])
@pytest.mark.parametrize("suite", ["pointwise-datasheet", "pointwise-datasheet-scores"])
def test_a_judge_of_one_response_is_welcome_where_responses_stand_alone(name: str, suite: str) -> None:
    assert prepare(GRADERS[name](), suite).n_calls > 0


@pytest.mark.parametrize("suite", ["datasheet", "pointwise-datasheet-scores"])
def test_a_prompt_that_does_not_fit_names_the_ways_out(suite: str) -> None:
    with pytest.raises(RecipeError, match="does not fit") as raised:
        prepare(jrh.PromptedJudge("openai/gpt-4o-mini", prompt="transcript"), suite)
    assert ("jrh.pointwise(judge)" in str(raised.value)) == (suite == "datasheet")


@pytest.mark.parametrize(
    "grades",
    [("yes", "no"), (True, False), (0.25, 0.5), (4, 5), (1, 0), ("Pass", "fail"), (jrh.Answer("no"), True)],
    ids=str,
)
def test_a_function_that_grades_pairs_is_stopped_early_with_the_ways_out(
    grades: tuple[object, ...], pairs: Suite, store_uri: str
) -> None:
    asked: list[object] = []

    def grader(shown: jrh.Presentation) -> object:
        asked.append(shown)
        return grades[len(asked) % len(grades)]

    name = f"graded {grades}".replace("'", "")
    with pytest.raises(JudgeError, match="grade one response") as raised:
        jrh.evaluate(grader, pairs, tracking_uri=store_uri, experiment="dead", run_name=name, concurrency=1)
    assert all(way in str(raised.value) for way in WAYS_OUT)
    assert len(asked) == 20 < 2 * len(pairs)
    assert run_called(name, store_uri).info.status == "FAILED"


def test_an_mlflow_scorer_that_grades_pairs_is_stopped_early(pairs: Suite, store_uri: str) -> None:
    @scorer
    def is_polite(outputs: Any) -> bool:
        return "please" in str(outputs)

    with pytest.raises(JudgeError, match="is_polite grade one response"):
        jrh.evaluate(is_polite, pairs, tracking_uri=store_uri, experiment="dead")


@pytest.mark.parametrize("answers", [(1, 1.0), ("1", "2"), ("tie", "no"), (2, 5), ("A", "B")], ids=str)
def test_a_judge_that_chooses_at_all_is_asked_to_the_end(
    answers: tuple[object, ...], pairs: Suite, store_uri: str
) -> None:
    asked = iter(range(10**6))
    done = jrh.evaluate(
        lambda shown: answers[next(asked) % 2], pairs, tracking_uri=store_uri, experiment="dead", concurrency=1
    )
    assert len(done.calls) == 2 * len(pairs)


def test_an_mlflow_judge_without_its_key_is_refused_before_the_store_is_touched(
    pairs: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(JudgeError, match="openai:/gpt-4o-mini needs a key: set OPENAI_API_KEY"):
        jrh.evaluate(judge_of(Literal["A", "B", "tie"]), pairs, tracking_uri=f"sqlite:///{tmp_path / 'untouched.db'}")
    assert not (tmp_path / "untouched.db").exists()


def test_mlflow_itself_needs_that_key_on_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(Exception, match="OPENAI_API_KEY"):
        judge_of(bool)(inputs={"q": "?"}, outputs="x")


def test_no_run_is_left_behind_by_a_refusal(pairs: Suite, store_uri: str) -> None:
    with pytest.raises(RecipeError):
        jrh.evaluate(judge_of(bool), pairs, tracking_uri=store_uri, experiment="never made")
    assert MlflowClient(tracking_uri=store_uri).get_experiment_by_name("never made") is None
