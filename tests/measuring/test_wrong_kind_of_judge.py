"""A judge that grades one response is refused on pairs before the first call, and one of pairs on single responses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from mlflow import MlflowClient
from mlflow.entities import Feedback
from mlflow.genai import make_judge, scorers
from mlflow.genai.scorers import Scorer, scorer

import jrh_mlflow as jrh
from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.measuring.resolve import prepare
from jrh_mlflow.suites.suite import Suite
from tests.measuring.test_every_call_failed import run_called

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


@scorer
def says_bool(inputs: Any, outputs: Any) -> bool:
    return bool(inputs and outputs)


@scorer
def says_yes_or_no(outputs: Any) -> Literal["yes", "no"]:
    return "yes" if outputs else "no"


@scorer
def says_how_long(outputs: Any) -> int:
    return len(str(outputs))


@scorer
def says_a_share(outputs: Any) -> float:
    return 0.5


class ClassGrader(Scorer):
    """A scorer written as a class."""

    def __call__(self, *, outputs: Any) -> bool:
        """Say yes to any text."""
        return bool(outputs)


@scorer
def says_the_slot(outputs: Any) -> int:
    return 1 if len(outputs["A"]) > len(outputs["B"]) else 2


@scorer
def says_a_slot_word(outputs: Any) -> Literal["A", "B"]:
    return "A" if outputs else "B"


@scorer
def says_feedback(outputs: Any) -> Feedback:
    return Feedback(value="A" if outputs else "B")


@scorer
def says_anything(outputs: Any):  # type: ignore[no-untyped-def]
    return "A" if outputs else "B"


@scorer
def says_what_cannot_be_looked_up(outputs: Any) -> NotThere:  # type: ignore[name-defined]  # noqa: F821
    return "A"


ASKS_FOR_A_GRADE = (
    "Does {{ outputs }} meet both requirements of {{ inputs }}? Answer yes or no.",
    "Say yes if {{ outputs }} is the best possible reply to {{ inputs }}, else no.",
    "Is {{ outputs }} correct for {{ inputs }}?",
    "Is the response {{ outputs }} polite?",
    "Rate {{ outputs }} for {{ inputs }} from 1 to 5.",
    "On a scale of 1-10, score how well {{ outputs }} answers both parts of {{ inputs }}.",
    "Consider which requirements of {{ inputs }} hold in {{ outputs }}. Return 'true' if all 2 do, 'false' if not.",
    "Check {{ outputs }} against the two rules in {{ inputs }}: pass/fail.",
)
ASKS_FOR_A_CHOICE = (
    "Is A or B in {{ outputs }} better for {{ inputs }}?",
    "Does B in {{ outputs }} beat A? If yes say B, if no say A.",
    "Rate both of {{ outputs }} from 1 to 5, then answer with the better one.",
    "Score each of {{ outputs }} from 1 to 10 and return the winner.",
    "Two replies are in {{ outputs }}. Which is best for {{ inputs }}? Do not answer yes or no, name the reply.",
    "Two replies are in {{ outputs }}. Never say yes or no; name the best.",
    "Answer first or second: which reply of {{ outputs }} meets both requirements (yes or no for each)?",
    "Is one of the replies in {{ outputs }} ahead of the other? Name it.",
    "Answer 1 or 2, no other words: which of {{ outputs }} says yes?",
    "Answer with the number 1 or the number 2 (yes or no is no answer): {{ outputs }}",
    "Score {{ outputs }} from 1 to 5 in your mind; say '1' if that favours the one on top, '2' otherwise.",
    "Answer yes or no for every rule in your mind, then say which reply of {{ outputs }} wins, or tie.",
)

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
    **{f"asks: {text}": partial(judge_of, str, text) for text in ASKS_FOR_A_GRADE},
    **{one.name: partial(lambda one: one, one) for one in (says_bool, says_yes_or_no, says_a_share)},
    "class": lambda: ClassGrader(name="class"),
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
        lambda: jrh.from_mlflow(judge_of(int), answers={1: "1", 2: "2"}),
        lambda: judge_of(int, "Return 1 if the first of {{ outputs }} is better, 2 if the second is."),
        lambda: says_how_long,
        lambda: jrh.from_mlflow(says_how_long, answers={1: "1", 2: "2"}),
        lambda: jrh.from_mlflow(judge_of(str), answers={"left": "1", "right": "2"}),
        *(partial(judge_of, str, text) for text in ASKS_FOR_A_CHOICE),
        *(partial(lambda one: one, one) for one in (says_the_slot, says_a_slot_word, says_feedback, says_anything)),
        lambda: says_what_cannot_be_looked_up,
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


def saying(values: Sequence[object], asked: list[object], *, name: str = "untold") -> Any:
    """A scorer that says the values in turn and does not tell beforehand what they are."""

    @scorer(name=name)
    def untold(outputs: Any) -> Any:
        asked.append(outputs)
        return values[(len(asked) - 1) % len(values)]

    return untold


@pytest.mark.parametrize("grades", [("yes", "no"), (True, False), (0.25, 0.5), (4, 5), ("Pass", "fail")], ids=str)
def test_an_mlflow_scorer_that_grades_pairs_is_stopped_early_and_its_run_says_why(
    grades: tuple[object, ...], pairs: Suite, store_uri: str
) -> None:
    asked: list[object] = []
    name = f"graded {grades}".replace("'", "")
    with pytest.raises(JudgeError, match="untold grade one response") as raised:
        jrh.evaluate(
            saying(grades, asked), pairs, tracking_uri=store_uri, experiment="dead", run_name=name, concurrency=1
        )
    assert all(way in str(raised.value) for way in WAYS_OUT)
    assert len(asked) == 20 < 2 * len(pairs)
    run = run_called(name, store_uri)
    assert run.info.status == "FAILED"
    assert run.data.tags["mlflow.note.content"] == str(raised.value)


def test_a_run_without_texts_that_is_stopped_early_says_so_without_the_answers(pairs: Suite, store_uri: str) -> None:
    with pytest.raises(JudgeError, match="grade one response"):
        jrh.evaluate(
            saying((3, 4), []), pairs, tracking_uri=store_uri, experiment="dead", run_name="hidden", texts=False
        )
    assert run_called("hidden", store_uri).data.tags["mlflow.note.content"] == "Ended by a JudgeError."


@pytest.mark.parametrize("value", ["yes", 0.5, jrh.Answer("no")], ids=str)
def test_a_function_that_grades_pairs_is_a_finished_run_of_unparsed_answers(
    value: object, pairs: Suite, store_uri: str
) -> None:
    done = jrh.evaluate(lambda shown: value, pairs, tracking_uri=store_uri, experiment="dead", traces="none")
    assert done.metrics["calls/unparsed"] == len(done.calls) == 2 * len(pairs)


@pytest.mark.parametrize("said", [("0", *["1"] * 19), (*[5] * 18, "A", 3)], ids=str)
def test_an_mlflow_scorer_that_named_a_slot_is_asked_to_the_end(
    said: tuple[object, ...], pairs: Suite, store_uri: str
) -> None:
    how = {"tracking_uri": store_uri, "experiment": "dead", "concurrency": 1, "traces": "none"}
    done = jrh.evaluate(saying(said, []), pairs, **how)
    assert len(done.calls) == 2 * len(pairs)


@pytest.mark.parametrize("answers", [(1, 1.0), ("tie", "no"), (2, 5)], ids=str)
def test_a_judge_that_chooses_at_all_is_asked_to_the_end(
    answers: tuple[object, ...], pairs: Suite, store_uri: str
) -> None:
    asked = iter(range(10**6))
    how = {"tracking_uri": store_uri, "experiment": "dead", "concurrency": 1, "traces": "none"}
    done = jrh.evaluate(lambda shown: answers[next(asked) % 2], pairs, **how)
    assert len(done.calls) == 2 * len(pairs)


def test_an_mlflow_judge_without_its_key_is_refused_before_the_store_is_touched(
    pairs: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(JudgeError, match=r"openai:/gpt-4o-mini .*OPENAI_API_KEY"):
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
