"""Lines of result files: every form a provider writes is read, and nothing else passes for an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jrh_mlflow.engine.batch import read_result
from jrh_mlflow.engine.endings import ending_of
from jrh_mlflow.models.transports import TransportError
from jrh_mlflow.schema.requests import Response
from tests.engine.batch_tools import Line, completion, http_error

KEY = "sk-planted-secret-0123456789abcdef"


def failure(**fields: Any) -> TransportError:
    outcome = read_result({"custom_id": "a", **fields})
    assert isinstance(outcome, TransportError)
    return outcome


@pytest.mark.parametrize(
    "response",
    [
        {"status_code": 200, "request_id": "openai", "body": completion()},
        {"request_id": "vllm-without-status", "body": completion()},
        completion(),
    ],
)
def test_an_answer_is_read_in_every_form_it_comes_in(response: Line) -> None:
    expected = Response(
        text='{"reason": "r", "verdict": "A"}', finish_reason="stop", model="m", input_tokens=100, output_tokens=10
    )
    assert read_result({"custom_id": "a", "response": response, "error": None}) == expected


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"response": http_error(500, "Down.")}, "server: HTTP 500: Down."),
        ({"response": http_error(429, "Slow.")}, "rate_limited: HTTP 429: Slow."),
        ({"response": http_error(400, "Long.", "context_length_exceeded")}, "too_long: HTTP 400: Long."),
        ({"response": None, "error": {"code": "batch_expired", "message": "Late."}}, "server: batch_expired: Late."),
        ({"response": {"status_code": 0, "body": None}, "error": None}, "server: failed: no reason given"),
        ({"response": {"status_code": 500, "message": "Mistral."}}, "server: HTTP 500: Mistral."),
        ({"response": {"status_code": 400, "body": None}, "error": "vllm says"}, "bad_request: HTTP 400: vllm says"),
        (
            {"response": {"status_code": 404, "body": None}, "error": {"error": {"message": "vllm", "code": 404}}},
            "not_found: HTTP 404: vllm",
        ),
        ({"response": {"status_code": 400}, "error": {"object": "error", "message": "old vllm"}}, "old vllm"),
        ({"response": {"status_code": 200, "body": None}, "error": "went wrong"}, "server: failed: went wrong"),
        ({"response": {"status_code": 200, "body": {"error": {"message": "in 200"}}}}, "in 200"),
        ({}, "server: failed: no reason given"),
    ],
)
def test_a_failure_is_read_in_every_form_it_comes_in(fields: Line, reason: str) -> None:
    assert reason in str(failure(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"response": None, "error": {"code": "request_timeout", "message": "The model took too long."}},
        {"response": http_error(504, "Gateway timeout.")},
        {"response": http_error(400, "Long.", "context_length_exceeded")},
        {"response": {"status_code": 200, "body": {"error": {"message": "in 200"}}}},
        {"response": {"status_code": 200, "body": "not a completion"}},
        {"response": {"status_code": 200, "body": {"choices": "none"}}},
    ],
)
def test_what_the_model_may_have_worked_on_is_booked_at_its_worst_case(fields: Line) -> None:
    assert ending_of(failure(**fields)).booked == "usage, else worst case"


@pytest.mark.parametrize(
    "fields",
    [
        {"response": http_error(500, "Down.")},
        {"response": http_error(429, "Slow.")},
        {"response": None, "error": {"code": "batch_expired", "message": "Late."}},
        {"response": {"status_code": 0, "body": None}, "error": None},
        {},
    ],
)
def test_what_no_model_has_worked_on_is_booked_at_nothing(fields: Line) -> None:
    assert ending_of(failure(**fields)).booked == "nothing"


def test_filtered_and_cut_answers_that_come_as_errors_are_answers_of_the_model() -> None:
    filtered = read_result({"response": http_error(400, "No.", "content_filter")})
    assert filtered == Response(text=None, finish_reason="content_filter")


def test_no_key_that_a_provider_repeats_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert KEY not in str(failure(response=http_error(401, f"Incorrect key {KEY}.")))
    assert KEY not in str(failure(response=None, error=f"Bearer {KEY}"))


TEXT = st.text('aé4 \x00\u2028\ud800{"', max_size=4)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["response", "error", "body", "status_code", "choices", "message", "content", "usage"])
            | TEXT,
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.fixed_dictionaries({}, optional={"response": ANY_JSON, "error": ANY_JSON}))
def test_whatever_a_line_says_it_is_a_response_or_a_failure(line: Line) -> None:
    assert isinstance(read_result(json.loads(json.dumps(line))), Response | TransportError)
