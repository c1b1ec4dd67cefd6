"""What real MLflow judges are shown, read off the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.genai import make_judge

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.exporting.autolog import input_names
from jrh_mlflow.schema.items import Item
from jrh_mlflow.suites.responses import dataset_sha256, read_seeds
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.judges.identity import judge_from
from jrh_mlflow.tracking.judges.scorers import from_mlflow
from tests.tracking.judges.mlflow_chat import (
    MODEL,
    ChatServer,
    ask,
    chatting,
    compare,
    graded_call,
    pair_call,
    says,
    transcript_call,
    verdict,
)


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with chatting(monkeypatch) as server:
        yield server


def test_a_pair_reaches_the_wire_with_each_content_in_its_slot(chat: ChatServer) -> None:
    judge = from_mlflow(compare(inference_params={"temperature": 0.25}))
    ask(judge, pair_call("left text", "right text"))
    assert '"A": "left text"' in chat.users_text()
    assert '"B": "right text"' in chat.users_text()
    assert '"instruction": "Write."' in chat.users_text()
    assert '"rubric": "Be brief."' in chat.users_text()
    assert chat.bodies[0]["temperature"] == 0.25
    ask(judge, pair_call("right text", "left text"))
    assert '"A": "right text"' in chat.users_text()


def test_a_built_in_judge_is_shown_every_message_of_a_transcript(chat: ChatServer) -> None:
    from mlflow.genai.scorers import Guidelines

    chat.reply = lambda _: verdict("yes")
    record = ask(from_mlflow(Guidelines(guidelines="Be right.", model=MODEL)), transcript_call())
    assert (record.outcome, record.answer) == ("verdict", "yes")
    for text in ("When do you open?", "opening hours", "nine o'clock", "We open at nine."):
        assert text in chat.users_text()


def test_a_judge_of_traces_finds_the_transcript_behind_its_tools(chat: ChatServer) -> None:
    def inspect_then_judge(body: dict[str, Any]) -> str | dict[str, Any]:
        if body["messages"][-1]["role"] == "tool":
            return verdict("yes")
        names = {"c1": "get_root_span", "c2": "list_spans"}
        calls = [
            {"id": key, "type": "function", "function": {"name": name, "arguments": "{}"}}
            for key, name in names.items()
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    chat.reply = inspect_then_judge
    judge = compare(instructions="Is the {{ trace }} right?", feedback_value_type=Literal["yes", "no"])
    record = ask(from_mlflow(judge), transcript_call())
    assert (record.outcome, record.answer) == ("verdict", "yes")
    assert (record.input_tokens, record.output_tokens) == (22, 14)
    root, spans = (str(message["content"]) for message in chat.bodies[-1]["messages"][-2:])
    assert "We open at nine." in root
    assert "search" in spans


def test_the_trace_holds_inputs_outputs_and_the_tool_calls() -> None:
    from mlflow.genai.scorers import scorer

    seen = []

    @scorer
    def uses_trace(trace):
        seen.append(trace)
        return True

    record = ask(from_mlflow(uses_trace), transcript_call())
    assert (record.outcome, record.answer) == ("verdict", "yes")
    root, tool = seen[0].data.spans
    assert root.inputs == {"instruction": "Serve."}
    assert root.outputs["transcript"][-1] == {"role": "assistant", "content": "We open at nine."}
    assert (tool.name, tool.span_type, tool.parent_id) == ("search", "TOOL", root.span_id)
    assert (tool.inputs, tool.outputs) == ({"query": "opening hours"}, "nine o'clock")
    assert seen[0].info.trace_id == root.trace_id


def test_every_field_can_be_made_by_the_user() -> None:
    from mlflow.genai.scorers import scorer

    from jrh_mlflow.tracking.judges.scorers import in_memory_trace

    seen: dict[str, Any] = {}

    @scorer
    def keeps(inputs, outputs, expectations, trace):
        seen.update(inputs=inputs, outputs=outputs, expectations=expectations, trace=trace)
        return "A"

    judge = from_mlflow(
        keeps,
        name="mine",
        inputs=lambda shown: {"question": shown.instruction},
        outputs=lambda shown: [shown.second, shown.first],
        expectations=lambda shown: {"answers": shown.answers},
        trace=lambda shown: in_memory_trace("in", shown.first),
    )
    record = ask(judge, pair_call())
    assert (record.outcome, record.answer, record.model) == ("verdict", "1", "mine")
    assert (seen["inputs"], seen["outputs"]) == ({"question": "Write."}, ["two", "one"])
    assert seen["expectations"] == {"answers": ("1", "2", "tie")}
    assert seen["trace"].data.spans[0].outputs == "one"


def test_what_cannot_work_is_refused_before_the_first_call() -> None:
    from mlflow.genai.judges import meets_guidelines
    from mlflow.genai.scorers import Correctness, scorer

    @scorer
    def wants(outputs, weather):
        return True

    with pytest.raises(RecipeError, match="function"):
        from_mlflow(meets_guidelines)
    with pytest.raises(RecipeError, match=r"expected_response or expected_facts\).* expectations="):
        from_mlflow(Correctness(model=MODEL))
    with pytest.raises(RecipeError, match="weather"):
        from_mlflow(wants)
    with pytest.raises(RecipeError, match="expectations="):
        from_mlflow(compare(instructions="Hold {{ outputs }} against {{ expectations }}."))
    with pytest.raises(RecipeError, match="answers="):
        from_mlflow(says("A"), answers={None: "tie"})
    with pytest.raises(RecipeError, match="list"):
        from_mlflow([])


ROWS = [
    {"question": f"Is {number} prime?", "answer": f"{number} is", "label": "yes" if number < 12 else "no"}
    for number in (7, 11, 13)
]
REPLY = {"name": "reply", "instructions": "Is {{ outputs }} right about {{ inputs }}?", "feedback_value_type": bool}


def rows_suite(name: str, **meta: Any) -> Suite:
    items = [
        Item(id=row["question"], task=row["question"], condition="baseline", kind="response", rubric="Be strict.",
             instruction=row["question"], response=row["answer"], expected="yes", answers=("no", "yes"), meta=meta)
        for row in ROWS
    ]  # fmt: skip
    return Suite(name=name, items=items)


def test_suites_keep_the_names_of_their_columns_and_their_hash_does_not() -> None:
    seeds, labels = read_seeds(pd.DataFrame(ROWS))
    renamed, _ = read_seeds(pd.DataFrame(ROWS).rename(columns={"question": "instruction", "answer": "response"}))
    assert [seed.meta for seed in seeds] == [{"columns": {"instruction": "question"}}] * 3
    assert [seed.meta for seed in renamed] == [{}] * 3
    assert dataset_sha256(seeds, labels) == dataset_sha256(renamed, labels)
    pairs = pd.DataFrame([{"ask": "Which?", "first": "a", "second": "b", "better": "1"}])
    (item,) = jrh.natural_suite(pairs, columns={"instruction": "ask"}).items
    assert item.meta == {"columns": {"instruction": "ask"}}


def test_a_judge_is_measured_with_the_inputs_of_the_rows_and_says_so_of_others(
    store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = make_judge(**REPLY, model=MODEL)
    own = rows_suite("own names", columns={"instruction": "question"})
    with chatting(monkeypatch) as server:
        server.reply = lambda _: verdict(True)
        jrh.evaluate(judge, rows_suite("ours"), tracking_uri=store_uri, traces="none")
        assert "instruction" in server.users_text()
        found = jrh.status(judge, inputs=["question"], tracking_uri=store_uri)
        assert (found.state, [one.what for one in found.differs]) == ("measured with other inputs", ["inputs"])
        assert not found
        done = jrh.evaluate(judge, own, tracking_uri=store_uri, traces="none")
        sent = server.users_text()
        told = from_mlflow(judge, inputs={"q": "instruction", "why": "rubric"})
        assert ask(told, graded_call("yes", "no")).outcome == "verdict"
    assert '"question"' in sent
    assert not [name for name in ("instruction", "rubric") if f'"{name}"' in sent]
    assert MlflowClient(store_uri).get_run(done.run_id).data.params["judge.inputs"] == "question"
    assert '"q"' in server.users_text()
    states = {
        "measured": (["question"], None),
        "measured with other inputs": (["query"], ["question", "user"]),
    }
    for state, names in states.items():
        for inputs in names:
            assert jrh.status(judge, inputs=inputs, tracking_uri=store_uri).state == state
    assert jrh.status(judge, inputs=["question"], tracking_uri=store_uri).run_id == done.run_id
    assert jrh.status(told, tracking_uri=store_uri).state == "measured with other inputs"
    again = judge_from(json.loads(json.dumps(told.definition(), sort_keys=True)))
    assert (again.definition(), again.fingerprint()) == (told.definition(), told.fingerprint())
    assert told.fingerprint() != from_mlflow(judge).fingerprint()
    with pytest.raises(RecipeError, match="inputs="):
        from_mlflow(judge, inputs={"q": "question"})


def test_autolog_reads_the_names_of_inputs_off_the_rows() -> None:
    rows = [{"inputs": {"b": 1, "a": 2}, "outputs": "x"}]
    assert input_names(rows) == input_names(pd.DataFrame(rows)) == ["a", "b"]
    for untold in (None, [], [{"inputs": "a text"}], pd.DataFrame({"trace": [1]})):
        assert input_names(untold) is None
