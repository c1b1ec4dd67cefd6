"""`jrh.pointwise`: a judge of one response put to pairs, one content at a time."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest
from mlflow import MlflowClient
from mlflow.entities import Feedback
from mlflow.genai.scorers import scorer

import jrh_mlflow as jrh
from jrh_mlflow.engine import calls_frame, plan_calls
from jrh_mlflow.engine.runner import ask_calls
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measuring.evaluate import price_evaluation
from jrh_mlflow.measuring.resolve import resolve_judge
from jrh_mlflow.schema.items import CallRecord
from tests.loopback import LoopbackServer
from tests.tracking.judges.mlflow_chat import chatting, verdict

MODEL = "openai/gpt-4o-mini"


@pytest.fixture(scope="module")
def pairs() -> jrh.Suite:
    return jrh.datasheet_suite(n_tasks=2, depth=2, design="paper")


def words(shown: jrh.Presentation) -> int:
    return len((shown.response or "").split())


def met(shown: jrh.Presentation) -> bool:
    """Yes to whatever has more than eight different words: two levels for many contents."""
    return len(set((shown.response or "").split())) > 8


def asked(judge: object, suite: jrh.Suite, **options: Any) -> list[CallRecord]:
    judge = resolve_judge(judge)
    judge.begin(suite)
    return ask_calls(judge, plan_calls(suite, judge, replicates=1), **options).records


def test_it_is_shown_one_response_at_a_time_with_the_instruction_and_the_rubric(pairs: jrh.Suite) -> None:
    seen: list[jrh.Presentation] = []

    def judge(shown: jrh.Presentation) -> str:
        seen.append(shown)
        return "yes"

    records = asked(jrh.pointwise(judge), pairs, concurrency=1)
    assert len(seen) == 2 * len(records) == 4 * len(pairs)
    assert {(one.kind, one.first, one.second, one.answers) for one in seen} == {("response", None, None, ("no", "yes"))}
    item = pairs.items[0]
    assert [(one.instruction, one.rubric, one.response) for one in seen[:4]] == [
        (item.instruction, item.rubric, text) for text in (item.u, item.v, item.v, item.u)
    ]
    assert {one.outcome for one in records} == {"tie"}


def test_a_word_count_prefers_nothing_in_a_vacuum_and_never_the_slot() -> None:
    suite = jrh.datasheet_suite(n_tasks=4, design="paper")
    records, longer = (asked(judge, suite) for judge in (jrh.pointwise(words), jrh.scripted.LongerWins()))
    sheet, readings = (jrh.measure(calls, n_resamples=20).estimates for calls in (records, longer))
    assert sheet["dark_current"].value == 0
    assert sheet["positional_false_preference"].value == sheet["one_sided_commit"].value == 0
    assert sheet["filler_preference"].value == readings["filler_preference"].value == 1
    orders = calls_frame(records).pivot_table(index="suite_item", columns="order", values="answer", aggfunc="first")
    assert set(zip(orders["uv"], orders["vu"], strict=True)) == {("1", "2"), ("2", "1"), ("", "")}


def test_a_grader_that_knows_the_level_resolves_every_step_and_prefers_nothing_else(
    store_uri: str, pairs: jrh.Suite
) -> None:
    levels = {
        content: len(item.meta["satisfied"][side])
        for item in pairs.items
        if "satisfied" in item.meta
        for side, content in (("u", item.u), ("v", item.v))
    }
    done = jrh.evaluate(
        jrh.pointwise(lambda shown: levels.get(shown.response, 0)), pairs, tracking_uri=store_uri, experiment="tests"
    )
    read = {axis: getattr(reading, "value", None) for axis, reading in done.datasheet.estimates.items()}
    assert read["target_sensitivity/delta_1"] == read["target_sensitivity/delta_2"] == 1
    assert read["dark_current"] == read["raw_false_preference"] == read["filler_preference"] == 0


def test_two_levels_tie_often_where_scores_choose(pairs: jrh.Suite) -> None:
    two, many = (Counter(one.outcome for one in asked(jrh.pointwise(judge), pairs)) for judge in (met, words))
    assert two["tie"] > many["tie"] > 0
    assert two["tie"] + two["verdict"] == many["tie"] + many["verdict"] == 2 * len(pairs)


def test_equal_grades_abstain_where_no_tie_is_offered(pairs: jrh.Suite) -> None:
    records = asked(jrh.pointwise(lambda shown: True).with_criterion("forced"), pairs)
    assert {one.outcome for one in records} == {"abstain"}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("yes", "no", ("verdict", "1")),
        (False, "pass", ("verdict", "2")),
        (0.2, 0.7, ("verdict", "2")),
        ("4", 3.0, ("verdict", "1")),
        (10, 9, ("verdict", "1")),
        ("fail", False, ("tie", "")),
        ("yes", 4, ("unparsed", "")),
        ("maybe", "yes", ("unparsed", "")),
        ("yes", None, ("unparsed", "")),
        ("abstain", "yes", ("abstain", "")),
        ("yes", RuntimeError("down"), ("error", "")),
        (RuntimeError("down"), "maybe", ("error", "")),
    ],
    ids=str,
)
def test_a_half_without_a_grade_is_the_outcome_and_never_a_verdict(
    first: object, second: object, expected: tuple[str, str], pairs: jrh.Suite
) -> None:
    item = next(item for item in pairs.items if item.condition == "ladder")
    one = jrh.Suite(name="one", items=[item])

    async def judge(shown: jrh.Presentation) -> object:
        await asyncio.sleep(0)
        said = first if shown.response == item.u else second
        if isinstance(said, Exception):
            raise said
        return said

    record = asked(jrh.pointwise(judge), one)[0]
    assert (record.outcome, record.answer) == expected
    assert bool(record.error) == (record.outcome in ("error", "unparsed"))


def test_costs_tokens_and_reasons_are_those_of_both(pairs: jrh.Suite) -> None:
    def judge(shown: jrh.Presentation) -> jrh.Answer:
        score = words(shown)
        return jrh.Answer(score, rationale=f"{score} words", input_tokens=3, output_tokens=2, cost_usd=0.25)

    record = asked(jrh.pointwise(judge), pairs)[-1]
    assert (record.input_tokens, record.output_tokens, record.cost_usd) == (6, 4, 0.5)
    assert (record.rationale or "").count(" words") == 2
    free = asked(jrh.pointwise(words), pairs)[0]
    assert (free.input_tokens, free.cost_usd) == (None, None)


def test_labels_of_ones_own_are_worst_to_best(pairs: jrh.Suite) -> None:
    def judge(shown: jrh.Presentation) -> str:
        return "good" if words(shown) > 40 else "poor" if words(shown) < 10 else "fair"

    records = asked(jrh.pointwise(judge, answers=("poor", "fair", "good")), pairs)
    assert {one.outcome for one in records} <= {"verdict", "tie"}
    with pytest.raises(RecipeError, match="at least two"):
        jrh.pointwise(judge, answers=("good",))


@pytest.mark.parametrize(
    ("answers", "first", "second", "expected"),
    [
        (("3", "2", "1"), "1", "3", ("verdict", "1")),
        (("3", "2", "1"), 3, 2.0, ("verdict", "2")),
        (("1", "2", "3"), 1, 3, ("verdict", "2")),
        (("10", "9"), "9", "9", ("tie", "")),
        (("3", "2", "1"), 1, 4, ("unparsed", "")),
        (("poor", "good"), 1, 2, ("unparsed", "")),
        (("poor", "good"), "good", True, ("unparsed", "")),
        (("n/a", "5", "1"), "n/a", 1, ("verdict", "2")),
    ],
    ids=str,
)
def test_given_answers_decide_by_their_order_and_nothing_else_is_one(
    answers: tuple[str, ...], first: object, second: object, expected: tuple[str, str], pairs: jrh.Suite
) -> None:
    item = next(item for item in pairs.items if item.condition == "ladder")
    judge = jrh.pointwise(lambda shown: first if shown.response == item.u else second, answers=answers)
    record = asked(judge, jrh.Suite(name="one", items=[item]))[0]
    assert (record.outcome, record.answer) == expected
    assert bool(record.error) == (record.outcome == "unparsed")


def test_given_answers_are_another_judge_than_the_same_by_default() -> None:
    assert jrh.pointwise(words, answers=("no", "yes")).fingerprint() != jrh.pointwise(words).fingerprint()


@pytest.mark.parametrize(
    "scripted",
    [
        *(jrh.scripted.Oracle, jrh.scripted.AlwaysFirst, jrh.scripted.AlwaysTie, jrh.scripted.LongerWins),
        *(jrh.scripted.Noisy, jrh.scripted.Grader, jrh.scripted.WordOverlap),
        lambda: jrh.scripted.profile(next(iter(jrh.scripted.published()))),
    ],
)
def test_a_scripted_judge_goes_by_the_pair_and_is_refused(scripted: Any) -> None:
    with pytest.raises(RecipeError, match=r"scripted judge.*pass it as it is"):
        jrh.pointwise(scripted())


def test_what_is_pointwise_already_is_refused_for_that_reason() -> None:
    with pytest.raises(RecipeError, match="'words, pointwise' is pointwise already"):
        jrh.pointwise(jrh.pointwise(words))


def test_single_responses_need_no_wrapping() -> None:
    with pytest.raises(RecipeError, match="pass 'words' as it is"):
        asked(jrh.pointwise(words), jrh.load_suite("pointwise-datasheet"))


def test_what_it_is_made_of_is_logged(pairs: jrh.Suite, store_uri: str) -> None:
    done = jrh.evaluate(jrh.pointwise(words), pairs, tracking_uri=store_uri, experiment="tests")
    params = MlflowClient(tracking_uri=store_uri).get_run(done.run_id).data.params
    assert (params["judge.kind"], params["judge.inner.kind"]) == ("pointwise", "callable")
    assert (params["judge.model"], params["judge.answers"]) == ("words", "no, yes")
    assert done.judge.name == "words, pointwise"
    assert jrh.pointwise(words).fingerprint() not in (None, resolve_judge(words).fingerprint())
    assert jrh.pointwise(words).fingerprint() == jrh.pointwise(words).fingerprint()


def test_an_mlflow_scorer_is_put_to_pairs(pairs: jrh.Suite) -> None:
    @scorer
    def length(outputs: Any) -> Feedback:
        assert isinstance(outputs, str)
        return Feedback(value=len(outputs), rationale="counted")

    records = asked(jrh.pointwise(length), pairs)
    assert {one.outcome for one in records} == {"verdict", "tie"}


def test_a_yes_no_judge_of_mlflow_is_put_to_pairs(pairs: jrh.Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.genai import make_judge

    few = jrh.Suite(name="few", items=pairs.items[-2:])
    with chatting(monkeypatch) as chat:
        chat.reply = lambda body: verdict("yes" if len(json.dumps(body)) % 2 else "no")
        judge = make_judge(
            name="right",
            instructions="Is {{ outputs }} right for {{ inputs }}?",
            model="openai:/gpt-4o-mini",
            feedback_value_type=Literal["yes", "no"],
        )
        records = asked(jrh.pointwise(judge), few)
        assert len(chat.bodies) == 8
    assert {one.outcome for one in records} <= {"verdict", "tie"}


def score_by_length(body: dict[str, Any]) -> str:
    return json.dumps({"reason": "r", "verdict": str(1 + len(json.dumps(body["messages"])) % 5)})


def test_a_model_is_asked_twice_through_journal_and_budget(
    pairs: jrh.Suite, store_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    options: dict[str, Any] = {"journal": tmp_path / "journal.db", "prices": {MODEL: (1000.0, 2000.0)}}
    with LoopbackServer(reply=score_by_length, record=True) as server:
        judge = jrh.pointwise(jrh.PromptedJudge(MODEL, api_base=server.url, max_tokens=64))
        n_requests = 4 * len(pairs)
        assert price_evaluation(judge, pairs, **options).calls == n_requests
        done = jrh.evaluate(judge, pairs, max_usd=1000, tracking_uri=store_uri, experiment="tests", **options)
        assert server.counts["requests"] == n_requests
        assert done.metrics["tokens/input"] == server.counts["input_tokens"]
        assert set(done.calls["outcome"]) == {"verdict", "tie"}
        assert "Score how well the response does" in json.dumps(server.requests[0]["body"]["messages"])
        again = jrh.evaluate(judge, pairs, max_usd=1000, tracking_uri=store_uri, experiment="tests", **options)
        assert server.counts["requests"] == n_requests
    assert again.metrics["calls/cached"] == len(pairs) * 2
    assert again.calls["answer"].tolist() == done.calls["answer"].tolist()
    assert price_evaluation(judge, pairs, **options).journalled == n_requests


def test_a_cap_stops_a_pointwise_model_without_spending_more(
    pairs: jrh.Suite, store_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    prices = {MODEL: (1000.0, 2000.0)}
    with LoopbackServer(reply=score_by_length) as server:
        judge = jrh.pointwise(jrh.PromptedJudge(MODEL, api_base=server.url, max_tokens=64))
        options: dict[str, Any] = {"prices": prices, "journal": tmp_path / "journal.db", "tracking_uri": store_uri}
        done = jrh.evaluate(judge, pairs, max_usd=25, experiment="tests", concurrency=1, **options)
    assert done.truncated
    assert done.cost_usd is not None
    assert done.cost_usd <= 25


def test_a_cluster_is_refused_in_one_line(pairs: jrh.Suite) -> None:
    with pytest.raises(RecipeError, match='backend="local"'):
        price_evaluation(jrh.pointwise(MODEL), pairs, backend="ray")
