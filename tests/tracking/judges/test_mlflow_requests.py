"""An MLflow judge as its request: the server gets the same body from MLflow and from the judge that is measured."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from mlflow.genai import make_judge

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.items import Item
from tests.loopback import LoopbackServer
from tests.models.transport_tools import set_environment

ODD = 'He said "hi" \\ {first}\n\t{{ outputs }} ü \u2028'


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    set_environment(monkeypatch)


def reply(body: dict[str, Any]) -> str:
    return json.dumps({"result": "A" if '"A"' in body["messages"][1]["content"] else "yes", "rationale": "because"})


def judge_at(server: LoopbackServer, **own: Any) -> Any:
    instructions = 'Of {{ inputs }}: is {{ outputs }} good? {first} {"a": {response}} \\n'
    address = f"{server.url}/chat/completions"
    return make_judge(name="mine", instructions=instructions, model="openai:/gpt-4o-mini", base_url=address, **own)


@pytest.mark.parametrize("own", [{}, {"inference_params": {"temperature": 0.25, "max_tokens": 77}}])
def test_a_response_is_put_to_the_judge_as_mlflow_does(store_uri: str, own: dict[str, Any]) -> None:
    item = Item(
        id="x", task="t", condition="baseline", kind="response", instruction=ODD, response=ODD,
        answers=("no", "yes"), expected="yes",
    )  # fmt: skip
    with LoopbackServer(reply=reply, record=True) as server:
        native = judge_at(server, feedback_value_type=Literal["yes", "no"], **own)
        native(inputs={"question": ODD, "about": "t"}, outputs=ODD)
        judge = jrh.PromptedJudge.from_mlflow_judge(native, inputs={"question": "instruction", "about": "rubric"})
        # What is shown as the second input is the rubric of the item.
        suite = jrh.Suite(name="one", items=[Item(**{**vars_of(item), "rubric": "t"})])
        about = {"tracking_uri": store_uri, "experiment": "tests", "traces": "none", "progress": False}
        done = jrh.evaluate(judge, suite, **about)
        assert server.requests[1]["body"] == server.requests[0]["body"]
    assert done.calls[["outcome", "answer"]].to_numpy().tolist() == [["verdict", "yes"]]


def vars_of(item: Item) -> dict[str, Any]:
    return {name: getattr(item, name) for name in item.__dataclass_fields__}


def test_both_orders_of_a_pair_are_put_as_outputs(store_uri: str) -> None:
    item = Item(id="x", task="t", condition="natural", instruction="Q?", u=ODD, v="no", better="u")
    with LoopbackServer(reply=reply, record=True) as server:
        native = judge_at(server, feedback_value_type=Literal["A", "B", "tie"], generate_rationale_first=True)
        shown = [{"A": ODD, "B": "no"}, {"A": "no", "B": ODD}]
        for outputs in shown:
            native(inputs={"instruction": "Q?"}, outputs=outputs)
        judge = jrh.PromptedJudge.from_mlflow_judge(native, outputs={"A": "first", "B": "second"})
        about = {"tracking_uri": store_uri, "experiment": "tests", "traces": "none", "progress": False}
        done = jrh.evaluate(judge, jrh.Suite(name="one", items=[item]), concurrency=1, **about)
        bodies = [request["body"] for request in server.requests]
    assert len(bodies) == 4
    assert all(sent in bodies[:2] for sent in bodies[2:])
    assert set(done.calls["answer"]) == {"1"}


def test_what_mlflow_fills_from_traces_is_left_to_mlflow() -> None:
    judge = make_judge(name="t", instructions="Look at {{ trace }}.", model="openai:/gpt-4o-mini")
    headed = make_judge(
        name="h", instructions="{{ outputs }}?", model="openai:/gpt-4o-mini", extra_headers={"X-Team": "a"}
    )
    away = make_judge(name="g", instructions="{{ outputs }}?", model="gateway:/mine")
    for refused in (judge, headed, away, len):
        with pytest.raises(RecipeError):
            jrh.PromptedJudge.from_mlflow_judge(refused)
    plain = make_judge(name="p", instructions="{{ outputs }}?", model="openai:/gpt-4o-mini")
    with pytest.raises(RecipeError, match="'answer'"):
        jrh.PromptedJudge.from_mlflow_judge(plain, outputs="answer")
