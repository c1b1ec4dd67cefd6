"""The OpenAI dialect against hostile servers: whatever is sent ends as a response or as a `TransportError`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jrh_mlflow.models.transports import TransportError
from jrh_mlflow.models.transports.dialect import decode, encode, read_http, read_usage, retry_after
from jrh_mlflow.schema.requests import Response
from jrh_mlflow.text import clean_text

NAMES = [
    "choices",
    "message",
    "content",
    "usage",
    "prompt_tokens",
    "total_tokens",
    "cost",
    "error",
    "code",
    "logprobs",
    "token",
    "logprob",
]
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=20,
)


@pytest.mark.parametrize(
    "cost", [0, -0.5, float("nan"), float("inf"), 1e9, 10**400, True, "0.5", [1], {}, {"total_cost": -1}]
)
def test_what_cannot_be_a_bill_is_none(cost: Any) -> None:
    told = {"prompt_tokens": 7, "completion_tokens": 3, "cost": cost}
    assert read_usage(told) == {"input_tokens": 7, "output_tokens": 3, "cost_usd": None}
    assert read_usage({"cost_in_usd_ticks": -1})["cost_usd"] is None


def completion(**choice: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": "A"}, **choice}]}


def end_of(status: int, raw: bytes) -> Response | TransportError:
    try:
        return read_http(status, {}, raw)
    except TransportError as error:
        return error


@given(st.sampled_from([200, 200, 200, 201, 302, 400, 404, 429, 500]), values)
def test_any_json_is_a_response_or_a_transport_error(status: int, value: Any) -> None:
    end = end_of(status, json.dumps(value).encode())
    if isinstance(end, Response):
        assert Response.from_json(end.to_json()) == end
    else:
        assert len(str(end)) < 500


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize(
    "around",
    ['{"choices": null, "x": %s}', '{"error": %s}', '{"error": {"message": %s, "code": %s}}', '{"choices": [%s]}'],
)
def test_deeply_nested_json_is_a_transport_error(around: str, status: int) -> None:
    assert isinstance(end_of(status, around.replace("%s", "[" * 600 + "]" * 600).encode()), TransportError)


@given(st.sampled_from([200, 400, 500]), st.binary(max_size=50))
def test_any_bytes_are_a_response_or_a_transport_error(status: int, raw: bytes) -> None:
    assert isinstance(end_of(status, raw), TransportError)


@given(st.text(max_size=30))
@example("Fri, 31 Dec 9999 23:59:59 GMT")
@example("Mon, 01 Jan 0001 00:00:00 +2359")
@example("1e400")
def test_any_retry_after_is_seconds_or_nothing(value: str) -> None:
    seconds = retry_after({"Retry-After": value})
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize("tokens", [10**400, -1, 1.5, True, "12", None, [3]])
def test_a_count_of_tokens_that_can_be_none_is_unknown(tokens: Any) -> None:
    body = {**completion(), "usage": {"prompt_tokens": tokens, "completion_tokens": 5}}
    assert read_http(200, {}, json.dumps(body).encode()).input_tokens is None


def test_logprobs_that_are_no_numbers_are_left_out() -> None:
    for logprob in (float("nan"), float("-inf"), 10**400, "0", None):
        token = {"token": "A", "logprob": logprob}
        body = completion(logprobs={"content": [token]})
        assert read_http(200, {}, json.dumps(body).encode()).logprobs is None
        fine = {"token": "A", "logprob": -1, "top_logprobs": [token]}
        body = completion(logprobs={"content": [fine]})
        read = read_http(200, {}, json.dumps(body).encode()).logprobs
        assert read == ({"token": "A", "logprob": -1.0, "top": []},)


def test_googles_list_of_errors_is_read_like_a_single_one() -> None:
    raw = b'[{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}]'
    with pytest.raises(TransportError, match="API key not valid"):
        read_http(400, {}, raw)


@given(st.text())
@example("\ud800")
@example("\x00 \\u0000")
def test_what_is_written_is_read_again_except_for_lone_surrogates_and_nul(text: str) -> None:
    assert decode(encode({"text": text}))["text"] == clean_text(text)
