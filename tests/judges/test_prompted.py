"""A model with a prompt: what it asks, what it hides, what makes it itself."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from jrh_mlflow.engine.calls import plan_calls, presentation_of
from jrh_mlflow.errors import RecipeError, SuiteError
from jrh_mlflow.judges import ModelJudge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.models.catalog import takes_schema
from jrh_mlflow.schema.items import Call, Item, Order
from jrh_mlflow.schema.presentation import TIE_CRITERIA, Message
from jrh_mlflow.schema.requests import Response
from jrh_mlflow.suites.suite import Suite

MODEL = "openai/gpt-4o-mini"
PAIR = Item(id="p", task="t", condition="natural", instruction="Say hello.", u="Hello!", v="Hm.", better="u")
LABEL = Item(
    id="l", task="t", condition="baseline", kind="response", instruction="2+2?", response="4", answers=("yes", "no")
)
SCALE = replace(LABEL, id="s", answers=("1", "2", "3"))
TALK = replace(LABEL, id="t", kind="transcript", response=None, transcript=(Message(role="user", content="Hi"),))


def call_of(judge: PromptedJudge, item: Item = PAIR, order: Order = "uv") -> Call:
    return Call(item=item, order=order, replicate=0, presentation=presentation_of(item, order, judge.tie_criterion))


def said(verdict: object) -> Response:
    return Response(text=json.dumps({"reason": "because", "verdict": verdict}), finish_reason="stop")


def test_every_setting_is_in_the_request():
    judge = PromptedJudge(
        MODEL,
        temperature=0.7,
        max_tokens=99,
        seed=5,
        api_base="http://127.0.0.1:8000/v1",
        extra={"top_p": 0.5},
        logprobs=True,
    )
    request = judge.request(call_of(judge))
    assert (request.model, request.temperature, request.max_tokens, request.seed) == (MODEL, 0.7, 99, 5)
    assert (request.api_base, request.extra, request.logprobs) == ("http://127.0.0.1:8000/v1", {"top_p": 0.5}, True)
    assert [message["role"] for message in request.messages] == ["system", "user"]
    json.loads(request.canonical())


def test_the_schema_asks_for_the_reason_before_the_verdict_and_offers_the_arms_answers():
    for arm, answers in (("forced", ["A", "B"]), ("allowed", ["A", "B", "tie"]), ("strict", ["A", "B", "tie"])):
        judge = PromptedJudge(MODEL, tie_criterion=arm)
        schema = judge.request(call_of(judge)).response_schema
        assert schema is not None
        assert list(schema["properties"]) == ["reason", "verdict"] == schema["required"]
        assert schema["properties"]["verdict"]["enum"] == answers
        assert schema["additionalProperties"] is False


def test_the_prompt_states_the_format_with_and_without_a_schema():
    for structured in (True, False):
        judge = PromptedJudge(MODEL, structured=structured)
        request = judge.request(call_of(judge))
        assert (request.response_schema is not None) == structured
        assert '{"reason": "<why>", "verdict": "<answer>"}' in request.messages[1]["content"]


def test_the_tie_criterion_is_told_once_before_and_once_after_the_candidates():
    for spec in ("forced", "strict", "Answer tie unless a fact differs."):
        judge = PromptedJudge(MODEL, tie_criterion=spec)
        user = judge.request(call_of(judge)).messages[1]["content"]
        assert user.count(judge.tie_criterion.text) == 2


def test_another_criterion_gives_the_same_judge_with_another_prompt():
    judge = PromptedJudge(MODEL, seed=3)
    strict = judge.with_criterion("strict")
    assert (strict.tie_criterion, judge.tie_criterion) == (TIE_CRITERIA["strict"], TIE_CRITERIA["allowed"])
    assert TIE_CRITERIA["strict"].text in strict.request(call_of(strict)).messages[1]["content"]
    assert TIE_CRITERIA["strict"].text in strict.prompt()
    assert strict.settings() == judge.settings() | {"tie_criterion": "strict"}
    assert strict.fingerprint() != judge.fingerprint()
    assert strict.with_criterion("allowed").fingerprint() == judge.fingerprint()


def test_letters_are_read_back_as_slots_in_both_orders():
    judge = PromptedJudge(MODEL)
    sides: tuple[tuple[Order, tuple[str, str]], ...] = (("uv", ("Hello!", "Hm.")), ("vu", ("Hm.", "Hello!")))
    for order, slots in sides:
        call = call_of(judge, order=order)
        assert (call.presentation.first, call.presentation.second) == slots
        assert judge.read(said("A"), call).answer == "1"
        assert judge.read(said("b"), call).answer == "2"
        assert judge.read(said("tie"), call).outcome == "tie"
        assert judge.read(said("1"), call).problem == "not_an_answer"


def test_digits_are_read_when_the_prompt_says_digits():
    judge = PromptedJudge(MODEL, answer_style="digits")
    call = call_of(judge)
    assert [judge.read(said(value), call).answer for value in ("1", 2)] == ["1", "2"]
    assert judge.read(said("A"), call).problem == "not_an_answer"
    assert '<response_2 code="' in judge.request(call).messages[1]["content"]


def test_a_forced_judge_that_ties_is_unparsed():
    judge = PromptedJudge(MODEL, tie_criterion="forced")
    assert judge.read(said("tie"), call_of(judge)).outcome == "unparsed"


def test_labels_levels_and_transcripts_get_the_template_that_fits():
    judge = PromptedJudge(MODEL)
    for item, template, verdict in ((LABEL, "label", "No"), (SCALE, "scale", 2), (TALK, "transcript", "yes")):
        call = call_of(judge, item)
        assert template in judge.request(call).messages[1]["content"]
        assert judge.read(said(verdict), call).answer == str(verdict).lower()


def test_begin_names_the_templates_the_suite_needs():
    judge = PromptedJudge(MODEL)
    before = judge.fingerprint()
    judge.begin(Suite(name="mixed", items=(PAIR, LABEL, SCALE, TALK)))
    assert judge.settings()["prompt"] == "label+ordinal+pairwise+transcript"
    judge.begin(Suite(name="labels", items=(LABEL,)))
    assert judge.settings()["prompt"] == "label"
    assert "[system]\nYou judge a response" in judge.prompt()
    assert judge.fingerprint() == before


def test_a_template_chosen_for_another_kind_is_refused_before_the_first_call():
    for prompt, item in (("label", PAIR), ("ordinal", LABEL), ("transcript", LABEL), ("label", TALK)):
        judge = PromptedJudge(MODEL, prompt=prompt)
        with pytest.raises(RecipeError, match="does not fit"):
            judge.begin(Suite(name="s", items=(item,)))
        with pytest.raises(RecipeError, match="does not fit"):
            judge.request(call_of(judge, item))
    PromptedJudge(MODEL, prompt="label").begin(Suite(name="s", items=(SCALE,)))


def test_items_without_answers_are_refused_before_the_first_call():
    with pytest.raises(SuiteError, match=r"different answers, but has \(\)"):
        PromptedJudge(MODEL).begin(Suite(name="s", items=(replace(LABEL, answers=None),)))


def test_a_rubric_of_the_judge_comes_before_the_suites_and_replaces_nothing():
    judge = PromptedJudge(MODEL, rubric="Facts first.")
    item = replace(PAIR, rubric="Be brief.")
    user = judge.request(call_of(judge, item)).messages[1]["content"]
    assert f"Facts first.\n\nBe brief.\n\n{TIE_CRITERIA['allowed'].text}" in user
    assert "Facts first." in judge.request(call_of(judge, LABEL)).messages[1]["content"]
    assert "Facts first." in judge.prompt()


def test_a_prompt_of_ones_own_is_used_for_every_kind(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("Please judge.\n{candidates}\n{format}\n", encoding="utf-8")
    judge = PromptedJudge(MODEL, prompt=path)
    judge.begin(Suite(name="s", items=(PAIR, LABEL)))
    assert str(judge.settings()["prompt"]).startswith("mine-")
    assert "Please judge." in judge.prompt()
    for item in (PAIR, LABEL, TALK):
        assert "Please judge." in judge.request(call_of(judge, item)).messages[1]["content"]


def test_settings_name_what_the_run_logs():
    settings = PromptedJudge(MODEL, temperature=None, extra={"top_p": 1, "reasoning": {"effort": "low"}}).settings()
    assert settings == {
        "model": MODEL,
        "kind": "prompted",
        "tie_criterion": "allowed",
        "temperature": None,
        "max_tokens": 1024,
        "seed": None,
        "prompt": "pairwise",
        "api_base": None,
        "answer_style": "letters",
        "structured": True,
        "logprobs": False,
        "extra.top_p": 1,
        "extra.reasoning": '{"effort": "low"}',
    }


@pytest.mark.parametrize(
    "change",
    [
        {"model": "openai/gpt-4o"},
        {"prompt": "label"},
        {"prompt": "{candidates}"},
        {"rubric": "x"},
        {"tie_criterion": "strict"},
        {"temperature": 0.1},
        {"max_tokens": 1},
        {"seed": 0},
        {"api_base": "http://127.0.0.1/v1"},
        {"extra": {"top_p": 1}},
        {"structured": False},
        {"answer_style": "digits"},
        {"logprobs": True},
    ],
    ids=str,
)
def test_the_fingerprint_changes_with_everything_that_can_change_an_answer(change):
    base = PromptedJudge(MODEL).fingerprint()
    assert PromptedJudge(**{"model": MODEL, **change}).fingerprint() != base
    assert PromptedJudge(**{"model": MODEL, **change}, name="other").fingerprint() != base
    assert PromptedJudge(MODEL, name="other").fingerprint() == base


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"model": " "}, ValueError, "`model`"),
        ({"temperature": -1}, ValueError, "temperature=-1"),
        ({"temperature": float("nan")}, ValueError, "temperature=nan"),
        ({"temperature": "hot"}, ValueError, "`temperature` must .*'hot'"),
        ({"temperature": True}, ValueError, "`temperature` must .*True"),
        ({"max_tokens": 1.5}, ValueError, r"`max_tokens` must .*1\.5"),
        ({"model": None}, ValueError, "`model` must .*None"),
        ({"tie_criterion": None}, ValueError, "`tie_criterion` must "),
        ({"extra": "sk-1"}, ValueError, "`extra` must .*is str"),
        ({"max_tokens": 0}, ValueError, "max_tokens=0"),
        ({"answer_style": "letter"}, RecipeError, "Did you mean 'letters'"),
        ({"prompt": "pairwide"}, RecipeError, "Did you mean 'pairwise'"),
        ({"tie_criterion": "strickt"}, RecipeError, "Did you mean 'strict'"),
        ({"api_base": "localhost:8000"}, RecipeError, "http://"),
        ({"extra": {"temperature": 1}}, RecipeError, r"PromptedJudge\(temperature="),
        ({"extra": {"response_format": {}}}, RecipeError, r"PromptedJudge\(structured="),
        ({"extra": {"stream": True}}, RecipeError, "one whole answer"),
        ({"extra": {"x": float("inf")}}, RecipeError, "plain JSON"),
        ({"extra": {"api_key": object()}}, RecipeError, "plain JSON"),
    ],
)
def test_settings_that_make_no_sense_are_refused_at_once(arguments, error, message):
    with pytest.raises(error, match=message):
        PromptedJudge(**{"model": MODEL, **arguments})


def test_the_judge_itself_sends_nothing():
    assert isinstance(PromptedJudge(MODEL), ModelJudge)
    assert not hasattr(PromptedJudge, "ask")


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        ("openai/gpt-4o-mini", True),
        ("gpt-4o-mini", True),
        ("openai/gpt-4", False),
        ("openai/a-model-of-next-year", True),
        ("hosted_vllm/anything", True),
        ("gemini/gemini-2.5-flash", True),
        ("ollama/anything", False),
        ("anything", False),
    ],
)
def test_a_schema_is_asked_for_where_the_model_is_known_to_take_one(model, takes):
    assert takes_schema(model) is takes
    assert takes_schema(model, api_base="http://127.0.0.1/v1")
    assert PromptedJudge(model).settings()["structured"] is takes


def test_confidence_is_read_where_token_probabilities_came_back():
    judge = PromptedJudge(MODEL, logprobs=True)
    entries = [{"token": token, "logprob": -0.5} for token in ('{"verdict": "', "A", '"}')]
    response = Response(text='{"verdict": "A"}', finish_reason="stop", logprobs=tuple(entries))
    assert judge.read(response, call_of(judge)).confidence == pytest.approx(0.6065, abs=1e-4)


def test_every_call_of_a_suite_has_a_request_that_is_the_same_when_asked_again():
    judge = PromptedJudge(MODEL)
    suite = Suite(name="s", items=(PAIR, LABEL, SCALE, TALK))
    calls = list(plan_calls(suite, judge, replicates=1))
    keys = [judge.request(call).key(0) for call in calls]
    assert keys == [PromptedJudge(MODEL).request(call).key(0) for call in calls]
    assert len(set(keys)) == len(calls) == 5


def test_numbers_of_numpy_are_settings_like_any_other():
    judge = PromptedJudge(MODEL, temperature=np.float32(0.5), max_tokens=np.int64(64), seed=np.int64(7))
    assert judge.fingerprint() == PromptedJudge(MODEL, temperature=0.5, max_tokens=64, seed=7).fingerprint()


@pytest.mark.parametrize(
    ("model", "settings", "longest"),
    [
        ("openai/gpt-4o-mini", {}, 1024),
        ("openai/nobody-knows", {}, 1024),
        ("openai/gpt-5-mini", {}, 8192),
        ("gemini/gemini-2.5-flash", {}, 8192),
        ("azure_ai/Phi-4-reasoning", {}, 4096),  # the table says that it writes no more
        ("hosted_vllm/own", {"reasoning_effort": "low"}, 8192),
        ("hosted_vllm/own", {"reasoning_effort": "none"}, 1024),
        ("openai/gpt-5-mini", {"max_tokens": 1024}, 1024),
        ("openai/gpt-5-mini", {"max_tokens": None}, None),
    ],
)
def test_a_model_that_reasons_has_room_for_it_unless_a_number_was_given(model, settings, longest):
    judge = PromptedJudge(model, **settings)
    assert judge.max_tokens == judge.settings()["max_tokens"] == longest
    assert judge.request(call_of(judge, PAIR)).max_tokens == longest


def test_the_reasoning_effort_is_a_setting_and_a_field_of_the_request():
    plain, low = PromptedJudge(MODEL, max_tokens=64), PromptedJudge(MODEL, max_tokens=64, reasoning_effort="low")
    assert "reasoning_effort" not in plain.settings()
    assert low.settings()["reasoning_effort"] == "low"
    assert low.fingerprint() != plain.fingerprint()
    asked = low.request(call_of(low, PAIR))
    assert asked.extra == {"reasoning_effort": "low"}
    by_hand = PromptedJudge(MODEL, max_tokens=64, extra={"reasoning_effort": "low"})
    assert by_hand.request(call_of(by_hand, PAIR)).key(0) == asked.key(0)


def test_a_reasoning_effort_that_is_given_twice_or_is_no_word_is_refused():
    with pytest.raises(RecipeError, match="given twice"):
        PromptedJudge(MODEL, reasoning_effort="low", extra={"reasoning_effort": "high"})
    for wrong in ("", "very low", 3):
        with pytest.raises(ValueError, match="`reasoning_effort` must be a word such as low"):
            PromptedJudge(MODEL, reasoning_effort=wrong)


def test_an_example_in_the_prompt_or_the_rubric_may_be_quoted():
    example = '{"reason": "...", "verdict": "A"}'
    text = f'The form is {example}, so I say\n{{"reason": "x", "verdict": "B"}}'
    for settings in ({"prompt": f"Like this: {example}\n{{candidates}}"}, {"rubric": f"Like this: {example}"}):
        judge = PromptedJudge(MODEL, **settings)
        assert judge.read(Response(text=text, finish_reason="stop"), call_of(judge)).answer == "2"
    plain = PromptedJudge(MODEL)
    assert plain.read(Response(text=text, finish_reason="stop"), call_of(plain)).problem == "conflicting"
