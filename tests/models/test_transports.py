"""One contract for both transports, over real HTTP: the same bodies out, the same responses back."""

from __future__ import annotations

import asyncio
import functools
import json
import math
import tracemalloc
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from jrh_mlflow.models.prices import Price, cost_micro, response_micro
from jrh_mlflow.models.transports import TransportError, dialect, make_transport
from jrh_mlflow.models.transports import _base as bodies
from jrh_mlflow.models.transports.litellm import load_litellm
from jrh_mlflow.schema.requests import Response
from tests.loopback import LoopbackServer, Reply
from tests.loopback_replies import count_prompt_tokens, count_tokens
from tests.models.transport_tools import (
    KEY,
    SCHEMA,
    USER,
    Transports,
    ask,
    fail,
    request_to,
    send,
    sent,
    set_environment,
)

TOKENS = [
    {"token": "A", "logprob": -0.1, "bytes": [65], "top_logprobs": [{"token": "B", "logprob": -2, "bytes": [66]}]},
    {"token": "\u00e9", "logprob": -0.2, "bytes": None, "top_logprobs": []},
]


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    set_environment(monkeypatch)


@pytest.fixture(params=["direct", "litellm"])
def transport(request: pytest.FixtureRequest) -> Transports:
    name: Transports = request.param
    return name


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(record=True) as running:
        yield running


def test_the_body_on_the_wire_is_the_request_and_nothing_else(transport: Transports, server: LoopbackServer) -> None:
    extra = {"top_k": 3, "guided_choice": ["A", "B"], "top_p": 0.5, "logit_bias": {"1": -100}}
    fields = {"temperature": 0.0, "max_tokens": 77, "seed": 11, "logprobs": True}
    ask(transport, server, "A", **fields, response_schema=SCHEMA, extra=extra)
    assert sent(server) == {
        "model": "gpt-4o-mini",
        "messages": list(USER),
        "temperature": 0.0,
        "max_tokens": 77,
        "seed": 11,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
        },
        "logprobs": True,
        "top_logprobs": 5,
        **extra,
    }


def test_settings_that_were_not_given_are_not_sent(transport: Transports, server: LoopbackServer) -> None:
    ask(transport, server, "A")
    assert sent(server) == {"model": "gpt-4o-mini", "messages": list(USER)}


def test_extra_has_the_last_word_on_sampling(transport: Transports, server: LoopbackServer) -> None:
    ask(transport, server, "A", temperature=0.0, extra={"temperature": 0.7})
    assert sent(server)["temperature"] == 0.7


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("openai/o3-mini", "max_completion_tokens"),
        ("openai/o1", "max_completion_tokens"),
        ("openai/gpt-5-mini", "max_completion_tokens"),
        ("openai/gpt-5-chat-latest", "max_tokens"),
        ("openai/gpt-4o", "max_tokens"),
        ("hosted_vllm/gpt-5-mini", "max_tokens"),
    ],
)
def test_the_token_limit_has_the_name_the_model_takes(
    transport: Transports, server: LoopbackServer, model: str, limit: str
) -> None:
    # Without a system message: litellm makes it a user's for some reasoning models, the direct one sends it as it is.
    ask(transport, server, "A", model=model, max_tokens=9, messages=USER[1:])
    assert sent(server) == {"model": model.partition("/")[2], "messages": [USER[1]], limit: 9}


@pytest.mark.parametrize("name", ["api_key", "stream", "n", "max_tokens", "num_retries", "messages"])
def test_extra_may_not_hold_what_has_a_setting_of_its_own(
    transport: Transports, server: LoopbackServer, name: str
) -> None:
    before = len(server.requests)
    error = fail(transport, server, Reply(text="A"), extra={name: 3})
    assert error.kind == "bad_request"
    assert name in str(error)
    assert len(server.requests) == before


def test_the_key_goes_out_as_a_bearer_token(transport: Transports, server: LoopbackServer) -> None:
    ask(transport, server, "A")
    assert server.requests[-1]["headers"]["Authorization"] == f"Bearer {KEY}"


def test_a_server_of_ones_own_needs_no_key(
    transport: Transports, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert ask(transport, server, "A").text == "A"
    assert ask(transport, server, "B", model="hosted_vllm/some/model").text == "B"


def test_a_providers_key_is_sent_to_that_provider_only(
    transport: Transports, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "deepseek-own-key")
    ask(transport, server, "A", model="deepseek/deepseek-chat")
    assert server.requests[-1]["headers"]["Authorization"] == "Bearer deepseek-own-key"
    ask(transport, server, "A", model="hosted_vllm/llama")
    assert KEY not in str(server.requests[-1]["headers"])


# What comes back


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(text="Answer: A"), {"text": "Answer: A", "finish_reason": "stop"}),
        (Reply(text="日本語 🦉 \u202e ﷽ \x00"), {"text": "日本語 🦉 \u202e ﷽ \ufffd", "finish_reason": "stop"}),
        (Reply(text="a\ud800b"), {"text": "a\ufffdb", "finish_reason": "stop"}),
        (Reply(text=""), {"text": "", "finish_reason": "stop"}),
        (Reply(text=None), {"text": None, "finish_reason": "stop"}),
        (Reply(choices=False), {"text": None, "finish_reason": "empty_choices"}),
        (Reply(refusal="No."), {"text": None, "finish_reason": "stop", "refusal": "No."}),
        (Reply(text="cut", finish_reason="length"), {"text": "cut", "finish_reason": "length"}),
        (Reply(finish_reason="content_filter"), {"text": None, "finish_reason": "content_filter"}),
    ],
    ids=["text", "unicode", "surrogate", "empty text", "no content", "no choices", "refusal", "length", "filter"],
)
def test_a_completion_becomes_the_same_response_on_both_transports(
    transport: Transports, server: LoopbackServer, reply: Reply, expected: dict[str, Any]
) -> None:
    response = ask(transport, server, reply)
    made = count_tokens(reply.text or reply.refusal or "") if reply.choices else 0
    given = count_prompt_tokens(sent(server))
    assert response == Response(**expected, model="gpt-4o-mini", input_tokens=given, output_tokens=made)


def test_usage_gives_the_same_cost_on_both_transports(server: LoopbackServer) -> None:
    price = Price(input_usd=1.5e-07, output_usd=6e-07)
    costs = set()
    for transport in ("direct", "litellm"):
        response = ask(transport, server, "A long answer, for its tokens. " * 9)
        assert response.input_tokens is not None
        assert response.output_tokens is not None
        costs.add(cost_micro(price, response.input_tokens, response.output_tokens))
    assert costs == {45}


@pytest.mark.parametrize(("total", "made"), [(1630, 930), (730, 30), (10**30, 30), (10**8, 30), (0, 30)])
def test_reasoning_that_only_the_total_counts_was_made(
    transport: Transports, server: LoopbackServer, total: int, made: int
) -> None:
    usage = {"prompt_tokens": 700, "completion_tokens": 30, "total_tokens": total}
    response = ask(transport, server, Reply(text="A", usage_fields=usage))
    assert (response.input_tokens, response.output_tokens) == (700, made)


@pytest.mark.parametrize(
    ("told", "usd"),
    [
        ({"cost_in_usd_ticks": 37_756_000}, 0.0037756),
        ({"cost": 0.25}, 0.25),
        ({"cost": 0.25, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.5}}, 0.25),
        ({"cost": 0.25, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.5}}, 0.75),
        ({"cost": 0.25, "cost_details": {"upstream_inference_cost": 0.5}}, 0.75),
        ({"cost": {"input_tokens_cost": 0.1, "request_cost": 0.5, "total_cost": 0.75}}, 0.75),
    ],
)
def test_the_providers_own_bill_comes_before_tokens_and_prices(
    transport: Transports, server: LoopbackServer, told: dict[str, Any], usd: float
) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10, **told}
    response = ask(transport, server, Reply(text="A", usage_fields=usage))
    assert response.cost_usd == pytest.approx(usd)
    assert response_micro(Price(input_usd=1e-6, output_usd=1e-6), response) == math.ceil(usd * 1e6)


@pytest.mark.parametrize("raw_usage", [b"null", b'{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}'])
def test_without_usage_the_tokens_are_unknown_and_not_free(
    transport: Transports, server: LoopbackServer, raw_usage: bytes
) -> None:
    choice = b'{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "A"}}'
    raw = b'{"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [%s], "usage": %s}'
    response = ask(transport, server, Reply(raw=raw % (choice, raw_usage)))
    assert (response.text, response.input_tokens, response.output_tokens) == ("A", None, None)
    assert ask(transport, server, Reply(text="A", usage=False)).input_tokens is None


def test_logprobs_arrive_with_their_alternatives(transport: Transports, server: LoopbackServer) -> None:
    response = ask(transport, server, Reply(text="A\u00e9", logprobs=TOKENS), logprobs=True)
    assert response.logprobs == (
        {"token": "A", "logprob": -0.1, "top": [["B", -2.0]]},
        {"token": "\u00e9", "logprob": -0.2, "top": []},
    )
    assert Response.from_json(response.to_json()) == response


def test_the_model_that_says_it_answered_is_kept(transport: Transports) -> None:
    with LoopbackServer(reply="a", model_name="gpt-4o-mini-2099-01-01") as server:
        assert send(transport, request_to(server))[0].model == "gpt-4o-mini-2099-01-01"


def test_structured_output_follows_the_schema(transport: Transports) -> None:
    with LoopbackServer(reply="verdict") as server:
        response = send(transport, request_to(server, response_schema=SCHEMA))[0]
    assert json.loads(response.text or "") == {"reason": "loopback", "verdict": "A"}


def test_a_prompt_of_a_megabyte_arrives_whole(transport: Transports, server: LoopbackServer) -> None:
    text = "é" * 500_000 + "end"
    server.reply = lambda body: str(len(body["messages"][0]["content"])) + body["messages"][0]["content"][-3:]
    assert send(transport, request_to(server, messages=({"role": "user", "content": text},)))[0].text == "500003end"


def test_a_lone_surrogate_in_a_prompt_is_replaced_and_not_fatal(transport: Transports, server: LoopbackServer) -> None:
    ask(transport, server, "A", messages=({"role": "user", "content": "a\udfffb"},))
    assert sent(server)["messages"][0]["content"] == "a\ufffdb"


def test_many_calls_at_once_each_get_their_own_answer(transport: Transports) -> None:
    with LoopbackServer(reply="echo", latency=0.02) as server:
        texts = [f"call {number}" for number in range(40)]
        requests = [request_to(server, messages=({"role": "user", "content": text},)) for text in texts]
        assert [response.text for response in send(transport, *requests)] == texts
    assert server.counts["answered"] == server.counts["requests"] == 40


@functools.cache
def packed(size: int, packing: str = "gzip") -> Reply:
    """An answer that is a few bytes on the wire and `size` when it is unpacked."""
    raw = json.dumps({"choices": [{"message": {"content": " " * size}}]}).encode()
    packer = zlib.compressobj(9, wbits=31 if packing == "gzip" else 15)
    return Reply(raw=packer.compress(raw) + packer.flush(), headers={"Content-Encoding": packing})


@pytest.mark.parametrize("packing", ["gzip", "deflate"])
def test_a_packed_answer_is_read(transport: Transports, server: LoopbackServer, packing: str) -> None:
    assert ask(transport, server, packed(1000, packing)).text == " " * 1000


def test_a_body_without_end_is_malformed_and_its_connection_is_closed(
    transport: Transports, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "MAX_BODY", 2**20)
    large = Reply(raw=b'{"choices": [], "more": "' + b"x" * 2**23)
    server.reply = lambda body: large if body["max_tokens"] == 1 else "A"

    async def run() -> tuple[TransportError, Response]:
        async with make_transport(transport, concurrency=1) as opened:
            with pytest.raises(TransportError) as raised:
                await opened.send(request_to(server, max_tokens=1), timeout_s=30)
            # With a single connection, the next request finds no rest of the body before its answer.
            return raised.value, await opened.send(request_to(server, max_tokens=2), timeout_s=30)

    error, answer = asyncio.run(run())
    assert (error.kind, error.status, answer.text) == ("malformed", 200, "A")
    assert "larger than 1 MiB" in error.text


def test_a_small_body_never_becomes_a_large_one(
    transport: Transports, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(transport, server, "A")  # what is loaded once is not counted
    monkeypatch.setattr(bodies, "MAX_BODY", 2**20)
    bomb = packed(30 * 2**20)
    tracemalloc.start()
    try:
        assert "larger than 1 MiB" in fail(transport, server, bomb).text
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    finally:
        tracemalloc.stop()


def test_a_packing_nobody_asked_for_is_malformed(transport: Transports, server: LoopbackServer) -> None:
    error = fail(transport, server, Reply(raw=b"x", headers={"Content-Encoding": "zstd"}))
    assert (error.kind, "zstd" in error.text) == ("malformed", True)
    error = fail(transport, server, Reply(raw=b"not packed", headers={"Content-Encoding": "gzip"}))
    assert (error.kind, "unpacked" in error.text) == ("malformed", True)


def test_an_error_with_a_body_without_end_is_still_that_error(
    transport: Transports, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "MAX_BODY", 1000)
    error = fail(transport, server, Reply(status=429, raw=b"x" * 2**20, headers={"Retry-After": "3"}))
    assert (error.kind, error.status, error.retry_after) == ("rate_limited", 429, 3.0)


def test_what_a_program_asks_of_litellm_by_itself_is_not_bounded(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "MAX_BODY", 1000)
    server.reply = lambda _: "A" * 5000
    litellm = load_litellm()
    asked = litellm.acompletion(
        model="openai/gpt-4o-mini", messages=list(USER), api_base=server.url, api_key="x", max_retries=0
    )

    async def run() -> Any:
        async with make_transport("litellm"):
            return await asked

    assert asyncio.run(run()).choices[0].message.content == "A" * 5000


def test_the_probabilities_of_endless_tokens_are_left_out(
    transport: Transports, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dialect._MAX_LOGPROB_TOKENS == 50_000
    monkeypatch.setattr(dialect, "_MAX_LOGPROB_TOKENS", 500)
    token = {"token": "A", "logprob": -0.1, "top_logprobs": [{"token": "B", "logprob": -2}] * 100}
    assert ask(transport, server, Reply(text="A", logprobs=[token])).logprobs[0]["top"] == [["B", -2.0]] * 20
    plain = {"token": "A", "logprob": -0.1, "top_logprobs": []}
    assert ask(transport, server, Reply(text="A", logprobs=[plain] * 501)).logprobs is None


def test_whoever_listens_to_litellm_still_hears_of_every_call(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    litellm = load_litellm()
    heard: list[str] = []

    class Listener(litellm.integrations.custom_logger.CustomLogger):  # type: ignore[misc, name-defined]
        async def async_log_success_event(self, kwargs: dict[str, Any], **rest: object) -> None:
            heard.append(kwargs["model"])

    ask("litellm", server, "A")
    assert not heard
    for name in ("callbacks", "success_callback", "_async_success_callback"):
        monkeypatch.setattr(litellm, name, [])
    monkeypatch.setattr(litellm, "callbacks", [Listener()])
    ask("litellm", server, "A")
    # Once or twice: litellm tells in the background, and on a busy machine the listener also hears of the first call.
    assert set(heard) == {"gpt-4o-mini"}
