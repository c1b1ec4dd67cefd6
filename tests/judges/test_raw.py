"""A judge as it runs in production: the request as it was written, the verdict as its users read it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges.raw import PromptedJudge, RawJudge
from jrh_mlflow.judges.verdict_forms import VerdictForm
from jrh_mlflow.models.prices import Price
from jrh_mlflow.models.transports.dialect import chat_body, read_completion
from jrh_mlflow.schema.requests import Response
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.judges.identity import differences, judge_from
from tests.judges.test_prompted import LABEL, MODEL, PAIR, TALK, call_of

PRODUCTION: dict[str, Any] = {
    "model": "gpt-4o-mini",
    "temperature": 0.3,
    "max_completion_tokens": 700,
    "messages": [
        {"role": "system", "content": 'You are a fair judge. Say {"why": …} first;\tkeep  spaces.\r\n'},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Question: Say hello.\n<A>Hello!</A>\n<B>Hm.</B> {{name}} {x}"},
                {"type": "text", "text": "End with [[A]], [[B]] or [[C]]."},
            ],
        },
    ],
    "tools": [{"type": "function", "function": {"name": "verdict", "parameters": {"type": "object"}}}],
}
TEXTS = {"instruction": "Say hello.", "first": "Hello!", "second": "Hm."}
LETTERS = {"A": "1", "B": "2", "C": "tie"}
DOUBLE = {"pattern": r"\[\[([ABC])\]\]", "words": LETTERS}
OWN = [{"role": "user", "content": "{instruction}|{first}|{second}"}]


def raw(**arguments: Any) -> PromptedJudge:
    return PromptedJudge(MODEL, **{"messages": OWN, "raw": True, "verdict": DOUBLE, **arguments})


def said(text: str | None, **more: Any) -> Response:
    return Response(text=text, finish_reason="stop", **more)


def outcome(judge: PromptedJudge, response: Response) -> tuple[str, str | None]:
    parsed = judge.read(response, call_of(judge))
    return parsed.outcome, parsed.answer


def test_the_request_of_a_logged_call_is_that_call():
    judge = PromptedJudge.from_openai(PRODUCTION, example=TEXTS, verdict=DOUBLE)
    request = judge.request(call_of(judge))
    assert chat_body(request, model="gpt-4o-mini", max_tokens="max_tokens") == PRODUCTION
    swapped = judge.request(call_of(judge, order="vu"))
    assert "<A>Hm.</A>\n<B>Hello!</B> {{name}} {x}" in swapped.messages[1]["content"][0]["text"]
    again = judge_from(json.loads(json.dumps(judge.definition())))
    assert again.fingerprint() == judge.fingerprint()
    assert isinstance(again, RawJudge)
    assert again.request(call_of(again)).canonical() == request.canonical()


def test_no_field_is_added_to_what_was_given():
    judge = raw()
    body = chat_body(judge.request(call_of(judge)), model="m", max_tokens="max_tokens")
    assert body == {"model": "m", "messages": [{"role": "user", "content": "Say hello.|Hello!|Hm."}]}
    judge = raw(temperature=0.0, max_tokens=9, seed=3, extra={"response_format": {"type": "json_object"}, "n": 1})
    body = chat_body(judge.request(call_of(judge)), model="m", max_tokens="max_completion_tokens")
    assert {name: body[name] for name in body if name not in ("model", "messages")} == {
        "temperature": 0.0,
        "max_tokens": 9,
        "seed": 3,
        "response_format": {"type": "json_object"},
        "n": 1,
    }


def test_texts_are_put_in_once_and_other_braces_stay():
    messages = [{"role": "user", "content": '{first} {second} {{first}} {"a": {b}} {{ x }}'}]
    judge = raw(messages=messages)
    item = replace(PAIR, u="{second}", v="{instruction}")
    sent = judge.request(call_of(judge, item)).messages[0]["content"]
    assert sent == '{second} {instruction} {first} {"a": {b}} {{ x }}'


@pytest.mark.parametrize("argument", ["prompt", "rubric", "structured", "answer_style"])
def test_arguments_of_our_prompts_do_not_go_with_own_messages(argument):
    value = {"prompt": "pairwise", "rubric": "Be fair.", "structured": True, "answer_style": "digits"}[argument]
    with pytest.raises(RecipeError, match=argument):
        raw(**{argument: value})


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"raw": False}, "raw=True"),
        ({"verdict": None}, "verdict"),
        ({"verdict": "(A)|(B)"}, "one group"),
        ({"verdict": "("}, "regular expression"),
        ({"verdict": {"json": "a..b"}}, "path"),
        ({"verdict": {"json": "a", "pattern": "(b)"}}, "keys"),
        ({"messages": [{"role": "user", "content": "{question}"}]}, "{question}"),
        ({"messages": []}, "list of messages"),
        ({"extra": {"stream": True}}, "stream"),
        ({"extra": {"n": 2}}, "`n` above 1"),
        ({"extra": {"seed": 1}, "seed": 2}, "given twice"),
        ({"extra": {"extra_headers": {"Authorization": "x"}}}, "secret"),
        ({"tie_criterion": "strict"}, "{criterion}"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_name(arguments, named):
    with pytest.raises(RecipeError) as refused:
        raw(**arguments)
    assert named in str(refused.value)


def test_messages_must_show_what_the_suite_has():
    judge = raw()
    with pytest.raises(RecipeError, match=r"\{response\}"):
        judge.begin(Suite(name="s", items=(LABEL,)))
    judge.begin(Suite(name="s", items=(PAIR,)))
    talk = raw(messages=[{"role": "user", "content": "{transcript}"}], verdict={"yes": "yes", "no": "no"})
    talk.begin(Suite(name="s", items=(TALK,)))
    assert talk.request(call_of(talk, TALK)).messages[0]["content"] == "user: Hi"
    with pytest.raises(RecipeError, match="maybe"):
        raw(messages=[{"role": "user", "content": "{response}"}], verdict={"y": "maybe"}).begin(
            Suite(name="s", items=(LABEL,))
        )


@pytest.mark.parametrize(
    ("verdict", "text", "expected"),
    [
        (DOUBLE, "I say [[A]].", ("verdict", "1")),
        (DOUBLE, "[[C]]", ("tie", None)),
        (DOUBLE, "[[A]] or [[B]]", ("unparsed", None)),
        (DOUBLE, "[[B]] and so [[B]]", ("verdict", "2")),
        (DOUBLE, "A", ("unparsed", None)),
        (r"(?i)winner: (\w+)", "WINNER: b", ("verdict", "2")),
        (r"winner: (\w+)", "winner: tie", ("tie", None)),
        ({"json": "result.winner"}, '{"result": {"winner": "B"}}', ("verdict", "2")),
        ({"json": "$.scores[0].best"}, 'So: {"scores": [{"best": 1}]}', ("verdict", "1")),
        ({"json": "winner"}, '{"loser": "B"}', ("unparsed", None)),
        ({"json": "winner"}, "no JSON", ("unparsed", None)),
        (LETTERS, "B", ("verdict", "2")),
        (LETTERS, "The answer is B.", ("verdict", "2")),
        (LETTERS, "A is worse than B", ("unparsed", None)),
        ({"one": 1, "two": 2}.get, "two", ("verdict", "2")),
        ({"one": 1}.get, "two", ("unparsed", None)),
        (lambda text: text[99], "two", ("unparsed", None)),
    ],
)
def test_the_verdict_is_read_as_its_form_says(verdict, text, expected):
    assert outcome(raw(verdict=verdict), said(text)) == expected


def test_no_text_is_an_outcome_as_for_every_judge():
    assert outcome(raw(), said(None)) == ("error", None)
    assert outcome(raw(), Response(text=None, finish_reason="stop", refusal="I cannot.")) == ("unparsed", None)


def test_the_arguments_of_a_tool_call_are_answer_text():
    call = {"id": "c", "type": "function", "function": {"name": "verdict", "arguments": '{"winner": "A"}'}}
    body = {"choices": [{"message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    response = read_completion(body)
    assert outcome(raw(verdict={"json": "winner"}), response) == ("verdict", "1")
    assert Response.from_json(response.to_json()) == response
    assert outcome(PromptedJudge(MODEL), response) == ("unparsed", None)


def test_the_likeliest_named_token_is_the_verdict_with_its_share():
    judge = raw(verdict={"logprobs": {"A": "1", "B": "2"}}, logprobs=True, extra={"top_logprobs": 2})
    entry = {"token": " B", "logprob": -0.223, "top": [[" B", -0.223], ["A", -1.609]]}
    parsed = judge.read(said("B", logprobs=(entry,)), call_of(judge))
    assert (parsed.outcome, parsed.answer) == ("verdict", "2")
    assert parsed.confidence == pytest.approx(0.8, abs=0.001)
    assert outcome(judge, said("B")) == ("unparsed", None)
    assert not judge.tie_criterion.offers_tie


def test_what_the_format_cannot_say_is_not_offered():
    assert raw(verdict={"A": "1", "B": "2"}).tie_criterion.answers == ("1", "2")
    assert raw().tie_criterion.answers == ("1", "2", "tie")


def test_the_arms_of_a_raw_judge_are_its_own_sentences():
    judge = raw(messages=[{"role": "user", "content": "{criterion} {first} {second}"}])
    arm = judge.with_criterion("Say [[C]] when both are equal.")
    assert arm.request(call_of(arm)).messages[0]["content"].startswith("Say [[C]] when both are equal. Hello!")
    assert arm.fingerprint() != judge.fingerprint()
    with pytest.raises(RecipeError, match="sentences of your own"):
        judge.with_criterion("strict")
    with pytest.raises(RecipeError, match="criterion"):
        raw().with_criterion("Say tie if equal.")


def test_a_cap_reckons_with_the_longest_answer_of_the_model():
    price = Price(input_usd=1e-6, output_usd=1e-6)
    known = raw()
    known.check_cap(price)
    assert known.max_tokens is not None
    assert known.max_tokens > 1000
    given = raw(extra={"max_completion_tokens": 50})
    given.check_cap(price)
    assert given.request(call_of(given)).max_tokens == 50
    unknown = PromptedJudge(
        "hosted_vllm/mine", messages=OWN, raw=True, verdict=DOUBLE, api_base="http://127.0.0.1:9/v1"
    )
    with pytest.raises(RecipeError, match="max_tokens"):
        unknown.check_cap(price)


@pytest.mark.parametrize(
    "example",
    [
        {**TEXTS, "first": "nowhere"},
        {**TEXTS, "first": "ll"},
        {"first": "Hello!</A>\n<B>", "second": "<B>Hm."},
        {**TEXTS, "winner": "A"},
    ],
)
def test_an_example_whose_texts_do_not_stand_there_once_is_refused(example):
    with pytest.raises(RecipeError):
        PromptedJudge.from_openai(PRODUCTION, example=example, verdict=DOUBLE)


def test_places_of_a_text_that_stands_there_twice_are_named():
    request = {"model": "m", "messages": [{"role": "user", "content": "one one"}, {"role": "user", "content": "one"}]}
    with pytest.raises(RecipeError, match=r"3 times \(in messages\[0\]\.content, messages\[1\]\.content\)"):
        PromptedJudge.from_openai(request, example={"first": "one"}, verdict=DOUBLE)


def test_names_of_placeholders_in_a_logged_request_stay_literal():
    request = {"model": "m", "messages": [{"role": "user", "content": "{first} {{second}} | one | two"}]}
    judge = PromptedJudge.from_openai(request, example={"first": "one", "second": "two"}, verdict=DOUBLE)
    sent = judge.request(call_of(judge)).messages[0]["content"]
    assert sent == "{first} {{second}} | Hello! | Hm."


def test_differences_name_what_changed():
    first, second = raw().definition(), raw(verdict=LETTERS, temperature=1.0).definition()
    assert first is not None
    assert second is not None
    assert {difference.what for difference in differences(first, second)} == {"prompt", "settings"}
    assert not differences(first, {**first, "name": "other"})


def read_verdict(text: str) -> str | None:
    """For a judge whose verdict a function reads."""
    return text if text in ("A", "B") else None


def test_a_function_is_part_of_the_judge_and_is_imported_only_where_it_is_allowed(monkeypatch):
    judge = raw(verdict=read_verdict)
    definition = judge.definition()
    assert definition is not None
    assert definition["verdict"]["function"] == "tests.judges.test_raw:read_verdict"
    with pytest.raises(RecipeError, match="JRH_ALLOW_CODE"):
        judge_from(definition)
    monkeypatch.setenv("JRH_ALLOW_CODE", "tests.judges.test_raw:read_verdict")
    assert judge_from(definition).fingerprint() == judge.fingerprint()
    changed = {**definition, "verdict": {**definition["verdict"], "source_sha256": "0" * 64}}
    with pytest.raises(RecipeError, match="measured"):
        judge_from(changed)
    assert raw(verdict=lambda text: text).definition() is None
    assert raw(verdict=read_verdict).fingerprint() != raw(verdict=lambda text: text).fingerprint()


def test_messages_may_stand_in_a_file(tmp_path: Path):
    file = tmp_path / "request.json"
    file.write_text(json.dumps({"messages": OWN}))
    assert raw(messages=file).fingerprint() == raw().fingerprint()
    file.write_text("{")
    with pytest.raises(RecipeError, match="not JSON"):
        raw(messages=file)


def test_other_requests_keep_their_keys():
    judge = PromptedJudge(MODEL)
    assert "verbatim" not in judge.request(call_of(judge)).canonical()
    assert '"verbatim":true' in raw().request(call_of(raw())).canonical()
    assert VerdictForm.of(VerdictForm.of("(A)")) == VerdictForm.of("(A)")
    assert jrh.PromptedJudge is PromptedJudge
