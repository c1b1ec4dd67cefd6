"""What concerns one transport only: addresses and keys, litellm's habits, and which transport takes a model."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from jrh_mlflow.models.transports import DirectTransport, LiteLLMTransport, TransportError, pick_transport
from jrh_mlflow.schema.requests import Request
from tests.loopback import LoopbackServer, Reply, error_reply
from tests.models.transport_tools import MODEL, USER, ask, fail, request_to, send, sent, set_environment


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    set_environment(monkeypatch)


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(record=True) as running:
        yield running


def test_the_direct_transport_sends_inside_with_only() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        asyncio.run(DirectTransport().send(Request(model=MODEL, messages=USER, api_base="http://x/v1"), timeout_s=1))


def test_openai_without_a_key_says_which_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    for transport in ("direct", "litellm"):
        with pytest.raises(TransportError, match="OPENAI_API_KEY") as raised:
            send(transport, Request(model=MODEL, messages=USER))
        assert raised.value.kind == "auth"


def test_the_address_may_come_from_the_environment(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.reply = lambda _: "A"
    monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/")
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", server.url + "/chat/completions")
    for model in (MODEL, "hosted_vllm/x"):
        assert send("direct", Request(model=model, messages=USER))[0].text == "A"


def test_a_self_hosted_model_without_address_never_goes_to_openai() -> None:
    with pytest.raises(TransportError, match="HOSTED_VLLM_API_BASE") as raised:
        send("direct", Request(model="hosted_vllm/x", messages=USER))
    assert raised.value.kind == "bad_request"


def test_a_password_in_an_address_is_refused_and_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://me:planted-word@127.0.0.1:1/v1")
    with pytest.raises(TransportError, match="HOSTED_VLLM_API_KEY") as raised:
        send("direct", Request(model="hosted_vllm/x", messages=USER))
    assert raised.value.kind == "bad_request"
    assert "planted" not in raised.value.text


def test_the_direct_transport_follows_no_redirect(server: LoopbackServer) -> None:
    with LoopbackServer(record=True) as elsewhere:
        headers = {"Location": f"{elsewhere.url}/chat/completions"}
        error = fail("direct", server, Reply(status=307, raw=b"", headers=headers))
    assert error.kind == "bad_request"
    assert elsewhere.requests == []


def test_a_model_name_with_a_slash_is_sent_whole(server: LoopbackServer) -> None:
    ask("direct", server, "A", model="Qwen/Qwen2.5-7B-Instruct")
    assert sent(server)["model"] == "Qwen/Qwen2.5-7B-Instruct"


def test_a_provider_litellm_does_not_know_comes_with_advice() -> None:
    with pytest.raises(TransportError, match="provider/model") as raised:
        send("litellm", Request(model="nobody/nothing", messages=USER))
    assert raised.value.kind == "not_found"


def test_a_missing_key_of_another_provider_is_an_auth_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(TransportError) as raised:
        send("litellm", Request(model="anthropic/claude-3-haiku-20240307", messages=USER, max_tokens=5))
    assert raised.value.kind == "auth"


def test_extra_gives_no_orders_to_litellm() -> None:
    with pytest.raises(TransportError, match="mock_response") as raised:
        send("litellm", Request(model="anthropic/claude-3", messages=USER, extra={"mock_response": "A"}))
    assert raised.value.kind == "bad_request"


def test_retries_that_a_user_set_in_litellm_stay_off(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    import litellm

    monkeypatch.setattr(litellm, "num_retries", 3)
    before = server.counts["requests"]
    fail("litellm", server, error_reply(500, "Oops."))
    assert server.counts["requests"] == before + 1


def test_closing_the_litellm_transport_closes_its_clients(server: LoopbackServer) -> None:
    import litellm

    async def run() -> list[Any]:
        async with LiteLLMTransport() as opened:
            server.reply = lambda _: "A"
            await opened.send(request_to(server), timeout_s=30)
            loop = str(id(asyncio.get_running_loop()))
            clients = litellm.in_memory_llm_clients_cache.cache_dict
            return [client for key, client in clients.items() if key.endswith(loop)]

    clients = asyncio.run(run())
    assert clients
    assert all(client.is_closed() for client in clients)


def test_litellms_clients_of_other_loops_stay_open(server: LoopbackServer) -> None:
    async def outer() -> str | None:
        async with LiteLLMTransport() as mine:
            server.reply = lambda _: "A"
            await mine.send(request_to(server), timeout_s=30)
            await asyncio.to_thread(send, "litellm", request_to(server))
            return (await mine.send(request_to(server), timeout_s=30)).text

    assert asyncio.run(outer()) == "A"


def test_transports_prices_and_who_takes_a_schema_load_neither_litellm_nor_aiohttp() -> None:
    code = (
        "import sys, jrh_mlflow.models.transports, jrh_mlflow.models.prices as p;"
        "from jrh_mlflow.models.catalog import takes_schema;"
        "p.price_of('gpt-4o'); takes_schema('gemini/gemini-2.5-flash');"
        "print(sorted({'litellm', 'aiohttp', 'httpx', 'openai', 'mlflow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("model", "api_base", "transport_name"),
    [
        ("openai/gpt-4o-mini", None, "direct"),
        ("openai/anything", "http://x/v1", "direct"),
        ("hosted_vllm/meta-llama/Llama-3", None, "direct"),
        ("my-model", "http://x/v1", "direct"),
        ("Qwen/Qwen2.5-7B-Instruct", "http://x/v1", "direct"),
        ("my-model", None, "litellm"),
        ("gpt-4o-mini", None, "litellm"),
        ("groq/llama", None, "litellm"),
        ("groq/llama", "http://x/v1", "direct"),
        ("xai/grok-4", "http://x/v1", "direct"),
        ("vllm/local", None, "litellm"),
        ("lm_studio/x", "http://x/v1", "direct"),
        ("ollama_chat/llama3", "http://x", "litellm"),
        ("anthropic/claude-3", "http://x", "litellm"),
        ("azure/gpt-4o", "http://x", "litellm"),
        ("bedrock/x", None, "litellm"),
        ("my-model", "", "litellm"),
    ],
)
def test_the_transport_is_chosen_by_provider_and_address(model: str, api_base: str | None, transport_name: str) -> None:
    assert pick_transport(model, api_base) == transport_name


def test_a_transport_error_survives_pickling() -> None:
    error = TransportError("rate_limited", "Slow down.", status=429, retry_after=1.5)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.kind, copy.status, copy.retry_after, str(copy)) == ("rate_limited", 429, 1.5, str(error))


def test_a_transport_error_refuses_an_unknown_kind() -> None:
    wrong: Any = "funny"
    with pytest.raises(ValueError, match="kind"):
        TransportError(wrong, "x")


@pytest.mark.parametrize(
    ("model", "field"),
    [("anthropic/claude-sonnet-4-20250514", "thinking"), ("gemini/gemini-2.5-flash", "thinkingBudget")],
)
def test_a_reasoning_effort_becomes_the_providers_own_words_for_it(
    model: str, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-a-test")
    monkeypatch.setenv("GEMINI_API_KEY", "key-of-a-test")
    with recorder() as (address, bodies):
        request = Request(
            model=model, messages=USER, max_tokens=4096, api_base=address, extra={"reasoning_effort": "low"}
        )
        with pytest.raises(TransportError, match="recorded"):
            send("litellm", request)
    (body,) = bodies
    assert field in body
    assert "reasoning_effort" not in body


@contextmanager
def recorder() -> Iterator[tuple[str, list[str]]]:
    """A server that speaks no dialect: it keeps the bodies it is sent and refuses them."""
    bodies: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            raw = b'{"error": {"type": "invalid_request_error", "message": "recorded"}}'
            self.send_response(400)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", bodies
        server.shutdown()


def test_an_address_without_its_version_is_told_where_the_dialect_usually_lives(server: LoopbackServer) -> None:
    root = server.url.removesuffix("/v1")
    with pytest.raises(TransportError) as raised:
        send("direct", request_to(server, api_base=f"{root}/?api-key=hidden-1234"))
    assert raised.value.kind == "not_found"
    with pytest.raises(TransportError) as bare:
        send("direct", request_to(server, api_base=root))
    assert f"{root}/chat/completions (does the address end in /v1? Try api_base {root}/v1)" in str(bare.value)
    assert "hidden" not in str(raised.value)


def test_a_missing_model_at_a_whole_address_is_not_blamed_on_the_address() -> None:
    with LoopbackServer(models=("other",)) as server, pytest.raises(TransportError) as raised:
        send("direct", request_to(server))
    assert f"{server.url}/chat/completions: HTTP 404: The model `gpt-4o-mini` does not exist." in str(raised.value)
    assert "/v1?" not in str(raised.value)
