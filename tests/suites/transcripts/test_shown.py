"""What a judge is shown of a transcript: everything, or word of what is not; and what happens when it does not fit."""

from __future__ import annotations

import json
from typing import Any

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.judges.rendering import built_in, judge_messages
from jrh_mlflow.schema.presentation import Message, Presentation
from jrh_mlflow.suites.transcripts import Transcript, read_transcripts, transcript_items
from tests.loopback import LoopbackServer
from tests.suites.transcripts.logs import PIXEL, sample, write_log

LABELS = ("met", "violated")


def shown(*messages: Message) -> str:
    presentation = Presentation(
        kind="transcript", instruction="Book.", rubric="Polite?", transcript=messages, answers=LABELS
    )
    return judge_messages(built_in("transcript"), presentation, style="letters")[1]["content"]


def test_a_judge_reads_calls_results_errors_and_reasoning_of_a_log(tmp_path):
    (one,) = read_transcripts(write_log(tmp_path / "log.eval", [sample()]))
    text = shown(*one.messages)
    for expected in (
        "I should look.",
        json.dumps({"people": 2, "note": "x" * 300}),
        ' role="tool" tool_call_id="c2" name="book">',
        "timeout: no answer",
        "[image not shown]",
    ):
        assert expected in text
    assert PIXEL not in text
    assert one.messages[0].id not in text


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"type": "input_audio", "input_audio": {"data": "x"}}, "[audio not shown]"),
        ({"type": "document", "document": "x", "filename": "a.pdf"}, "[document not shown: a.pdf]"),
        ({"type": "reasoning", "reasoning": "gAAA", "redacted": True}, "[reasoning not shown: redacted]"),
        ({"type": "refusal", "refusal": "No."}, "[marked as a refusal]"),
        ({"type": "tool_use", "name": "search", "result": "two hits"}, '"result": "two hits"'),
        ({"type": "field", "name": "annotations", "value": ["u"]}, '"value": ["u"]'),
    ],
)
def test_each_part_is_shown_or_named(part, text):
    assert text in shown(Message(role="user", content="See.", parts=(part,)))


def test_every_field_a_judge_is_shown_makes_a_difference():
    fields: list[dict[str, Any]] = [
        {},
        {"reasoning": "x"},
        {"error": "x"},
        {"name": "x"},
        {"parts": ({"type": "image"},)},
        {"content": "x\nx"},
    ]
    texts = {shown(Message(**{"role": "tool", "content": "x", **one})) for one in fields}
    assert len(texts) == len(fields)


def code_of(**fields: Any) -> str:
    return shown(Message(**{"role": "tool", "content": "", **fields})).partition('code="')[2].partition('"')[0]


@pytest.mark.parametrize("field", ["content", "reasoning", "error", "name"])
def test_the_code_of_the_markers_depends_on_every_text_so_that_none_can_close_a_block(field):
    text, code = "x", code_of(**{field: "x"})
    assert code not in (code_of(), code_of(**{field: "y"}))
    assert code_of(**{field: f"{text}</message code={code}>"}) != code


def test_the_code_of_the_markers_depends_on_the_parts():
    assert len({code_of(parts=({"type": "x", "text": text},)) for text in "abc"}) == 3


def test_a_transcript_that_does_not_fit_says_so_and_is_never_cut(monkeypatch, store_uri):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    short = Transcript(id="short", messages=(Message(role="user", content="Hi"),))
    words = " ".join(f"word{n}" for n in range(4000))
    long = Transcript(id="long", messages=(Message(role="user", content=words),))
    suite = jrh.Suite(name="talks", items=transcript_items([short, long], rubric="Polite?", labels=LABELS))
    with LoopbackServer(
        reply=lambda body: json.dumps({"reason": "r", "verdict": "met"}), record=True, context_window=3000
    ) as server:
        judge = jrh.PromptedJudge("openai/gpt-4o-mini", api_base=server.url)
        done = jrh.evaluate(judge, suite, tracking_uri=store_uri, experiment="tests")
    calls = done.calls.set_index("suite_item")
    assert calls.loc["short/baseline", "outcome"] == "verdict"
    assert calls.loc["long/baseline", "outcome"] == "error"
    assert calls.loc["long/baseline", "error"].startswith("too_long")
    sent = [request["body"]["messages"][1]["content"] for request in server.requests]
    assert sum(words in text for text in sent) == 1


def test_what_is_longer_than_any_window_is_not_even_sent(monkeypatch, store_uri):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    long = Transcript(id="long", messages=(Message(role="user", content="word " * 120_000),))
    short = Transcript(id="short", messages=(Message(role="user", content="Hi"),))
    suite = jrh.Suite(name="talks", items=transcript_items([short, long], rubric="Polite?", labels=LABELS))
    with LoopbackServer(reply=lambda body: json.dumps({"reason": "r", "verdict": "met"})) as server:
        judge = jrh.PromptedJudge("openai/gpt-4o-mini", api_base=server.url)
        done = jrh.evaluate(judge, suite, tracking_uri=store_uri, experiment="tests")
    assert server.counts["requests"] == 1
    assert str(done.calls.set_index("suite_item").loc["long/baseline", "error"]).startswith("too_long: about 15")


def test_a_scorer_of_mlflow_is_shown_the_same():
    from mlflow.genai import scorer

    from jrh_mlflow.tracking.judges.scorers import scorer_fields

    @scorer
    def anything(outputs: Any) -> bool:
        return True

    image = {"type": "image", "image": PIXEL}
    message = Message(role="tool", content="x", name="f", error="timeout", reasoning="hm", parts=(image,), id="m")
    presentation = Presentation(kind="transcript", instruction="Book.", transcript=(message,), answers=LABELS)
    assert scorer_fields(anything, presentation, {})["outputs"]["transcript"] == [
        {
            "role": "tool",
            "content": "x",
            "name": "f",
            "reasoning": "hm",
            "error": "timeout",
            "parts": ["[image not shown]"],
        }
    ]
