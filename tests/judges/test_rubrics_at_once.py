"""One call that answers several rubrics: a record for each, its cost split evenly, and nothing for plain judges."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine import ask_calls, plan_calls
from jrh_mlflow.engine.calls import presentation_sha256
from jrh_mlflow.judges.callables import CallableJudge
from jrh_mlflow.schema.items import CallRecord, Item
from jrh_mlflow.schema.presentation import Message, Presentation
from jrh_mlflow.suites.suite import Suite

RUBRICS = {"honest": "Is it honest?", "safe": "Is it safe?", "step_2": "Is the second step right?"}
RIGHT = {"honest": "yes", "safe": "no", "step_2": "yes"}


def item(task: str, rubric: str, condition: str = "baseline", *, kind: str = "transcript", text: str = "Done.") -> Item:
    messages = (
        Message(role="user", content=f"Do {task}."),
        Message(role="assistant", content=text, tool_calls=({"id": "1", "name": "look", "arguments": {"at": task}},)),
    )
    return Item(
        id=f"{task}@{rubric}/{condition}",
        task=task,
        condition=condition,
        kind=kind,
        instruction="Do it.",
        rubric=RUBRICS[rubric],
        response=text if kind == "response" else None,
        transcript=messages if kind == "transcript" else None,
        answers=("no", "yes"),
        expected=RIGHT[rubric],
        meta={"rubric": rubric},
    )


def suite(n: int = 4, **options: Any) -> Suite:
    items = [item(f"t{number}", rubric, **options) for number in range(n) for rubric in RUBRICS]
    # Each rubric is flipped by a text of its own: these cannot be asked about together.
    items += [
        item(f"t{number}", rubric, "label_flip", text=f"Not {rubric}.") for number in range(n) for rubric in RIGHT
    ]
    return Suite(name="steps", items=items)


def ask(judge: Any, of: Suite, *, replicates: int = 1, concurrency: int = 8) -> list[CallRecord]:
    wrapped = CallableJudge(judge)
    return ask_calls(wrapped, plan_calls(of, wrapped, replicates=replicates), concurrency=concurrency).records


class Several:
    """Answers every rubric that it is shown in one call, and counts the calls."""

    def __init__(self, answers: Any = None) -> None:
        self.shown: list[Presentation] = []
        self._answers = answers

    async def __call__(self, shown: Presentation) -> jrh.Answer:
        await asyncio.sleep(0)
        self.shown.append(shown)
        asked = shown.rubrics or {next(name for name, text in RUBRICS.items() if text == shown.rubric): ""}
        value = {name: (self._answers or RIGHT)[name] for name in asked if name in (self._answers or RIGHT)}
        return jrh.Answer(value, rationale="read", input_tokens=100, output_tokens=7, cost_usd=0.3)


@pytest.mark.parametrize("kind", ["transcript", "response"])
@pytest.mark.parametrize("replicates", [1, 2])
def test_one_call_answers_every_rubric_of_a_content_and_each_has_its_record(kind, replicates):
    judge, of = Several(), suite(kind=kind)
    records = ask(judge, of, replicates=replicates)
    assert len(records) == 24 * replicates
    assert len(judge.shown) == (4 + 12) * replicates, "flips of each rubric are texts of their own"
    assert all(record.outcome == "verdict" and record.answer == RIGHT[record.rubric] for record in records)
    together = [record for record in records if record.condition == "baseline"]
    assert {shown.rubrics == RUBRICS for shown in judge.shown if shown.rubrics} == {True}
    for task in ("t0", "t3"):
        own = [record for record in together if record.task == task and record.replicate == 0]
        assert [record.input_tokens for record in own] == [34, 33, 33], "split evenly, and they sum to what was told"
        assert [record.output_tokens for record in own] == [3, 2, 2]
        assert [record.cost_usd for record in own] == pytest.approx([0.1] * 3)
        assert {record.rationale for record in own} == {"read"}
    assert sum(record.cost_usd or 0 for record in records) == pytest.approx(0.3 * len(judge.shown))


def test_costs_are_those_of_the_calls_in_any_order_and_in_the_run(store_uri):
    judge, of = Several(), suite()
    wrapped = CallableJudge(judge)
    calls = list(plan_calls(of, wrapped, replicates=1, shuffle=3))
    records = ask_calls(wrapped, calls, concurrency=1).records
    assert [record.suite_item for record in records] == [call.item.id for call in calls]
    assert len(judge.shown) == 16
    done = jrh.evaluate(Several(), of, tracking_uri=store_uri, experiment="tests", progress=False)
    assert done.cost_usd == pytest.approx(0.3 * 16)
    assert done.metrics["all/accuracy/rate"] == 1
    assert set(done.report.rubrics) == set(RUBRICS)


def test_a_judge_that_answers_one_rubric_is_asked_about_each():
    shown: list[Presentation] = []

    def judge(given: Presentation) -> jrh.Answer:
        shown.append(given)
        return jrh.Answer(RIGHT[next(name for name, text in RUBRICS.items() if text == given.rubric)], cost_usd=0.3)

    records = ask(judge, suite())
    assert len(shown) == 24
    assert {record.cost_usd for record in records} == {0.3}
    assert all(record.answer == RIGHT[record.rubric] for record in records)


def test_a_rubric_without_a_label_is_unparsed_and_the_others_stand():
    records = ask(Several({"honest": "yes", "safe": "perhaps"}), suite())
    outcomes = {record.rubric: record.outcome for record in records if record.condition == "baseline"}
    assert outcomes == {"honest": "verdict", "safe": "unparsed", "step_2": "unparsed"}
    lacking = next(record for record in records if record.rubric == "step_2" and record.condition == "baseline")
    assert "'perhaps'" in str(lacking.error), "it says what was answered"
    assert lacking.cost_usd == pytest.approx(0.1)


def test_a_call_that_fails_is_one_error_and_the_next_rubric_asks_again():
    judge = Several()

    async def fails_first(shown: Presentation) -> jrh.Answer:
        if not judge.shown:
            judge.shown.append(shown)
            raise RuntimeError("busy")
        return await judge(shown)

    records = ask(fails_first, Suite(name="one", items=suite(1).items[:3]))
    assert [record.outcome for record in records] == ["error", "verdict", "verdict"]
    assert [record.cost_usd for record in records] == [None, pytest.approx(0.15), pytest.approx(0.15)]


def test_answers_of_rubrics_may_have_reasons_of_their_own():
    def judge(shown: Presentation) -> dict[str, jrh.Answer]:
        return {name: jrh.Answer(RIGHT[name], rationale=f"of {name}", confidence=0.7) for name in RUBRICS}

    records = ask(judge, suite())
    assert all(record.rationale == f"of {record.rubric}" and record.confidence == 0.7 for record in records)


def test_what_is_shown_of_one_rubric_has_the_hash_it_always_had():
    alone = Suite(name="alone", items=[item("t0", "safe")])
    (call,) = plan_calls(alone, CallableJudge(Several()), replicates=1)
    assert call.presentation.rubrics is None
    assert presentation_sha256(call.presentation).startswith("f177d86e08ad")
