"""The contract of both transports when things go wrong: the same kind for the same failure, and never a key."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
import struct
import threading
import traceback
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from jrh_mlflow.models.transports import RETRYABLE, TransportError, _base, make_transport
from jrh_mlflow.schema.requests import Request, Response
from tests.cases import few
from tests.loopback import Faults, LoopbackServer, Reply, error_reply
from tests.models.transport_tools import KEY, MODEL, USER, Transports, ask, fail, request_to, send, set_environment


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


FAILURES = {
    "429": (error_reply(429, "Slow down.", retry_after="1.5"), "rate_limited", 429, 1.5),
    "429 without credit": (error_reply(429, "No quota.", code="insufficient_quota"), "auth", 429, None),
    "500": (error_reply(500, "Oops."), "server", 500, None),
    "500 that speaks of rate limits": (error_reply(500, "Rate limit of a backend."), "server", 500, None),
    "502 as a page": (Reply(status=502, raw=b"<html>Bad gateway</html>"), "server", 502, None),
    "503": (error_reply(503, "Busy.", retry_after="0.25"), "server", 503, 0.25),
    "504": (error_reply(504, "Gateway timeout."), "timeout", 504, None),
    "529": (error_reply(529, "Overloaded."), "server", 529, None),
    "408": (error_reply(408, "Too slow."), "timeout", 408, None),
    "409": (error_reply(409, "Conflict."), "server", 409, None),
    "400": (error_reply(400, "Unknown field."), "bad_request", 400, None),
    "422": (error_reply(422, "Wrong type."), "bad_request", 422, None),
    "401": (error_reply(401, "Wrong key.", code="invalid_api_key"), "auth", 401, None),
    "402": (error_reply(402, "Pay first."), "auth", 402, None),
    "403": (error_reply(403, "Not in your country."), "auth", 403, None),
    "404": (error_reply(404, "No such model.", code="model_not_found"), "not_found", 404, None),
    "404 as text": (Reply(status=404, raw=b"nothing here"), "not_found", 404, None),
    "413": (error_reply(413, "Too large."), "too_long", 413, None),
    "context": (
        error_reply(400, "This model's maximum context length is 8 tokens.", code="context_length_exceeded"),
        "too_long",
        400,
        None,
    ),
    "cut JSON": (Reply(raw=b'{"choices": [{"mess'), "malformed", 200, None),
    "a page": (Reply(raw=b"<html>Welcome</html>"), "malformed", 200, None),
    "no body": (Reply(raw=b""), "malformed", 200, None),
    "a list": (Reply(raw=b"[1]"), "malformed", 200, None),
    "a number": (Reply(raw=b"3"), "malformed", 200, None),
    "very deep JSON": (Reply(raw=b"[" * 100_000), "malformed", 200, None),
    "no choices field": (Reply(raw=b'{"id": "x"}'), "malformed", 200, None),
    "a choice that is none": (Reply(raw=b'{"id": "x", "choices": [3]}'), "malformed", 200, None),
    "a choice without message": (Reply(raw=b'{"id": "x", "choices": [{}]}'), "malformed", 200, None),
    "an error with status 200": (Reply(raw=b'{"error": {"message": "Busy.", "code": 429}}'), "rate_limited", 200, None),
    "an error without a code": (Reply(raw=b'{"error": {"message": "Busy."}}'), "malformed", 200, None),
    "a cut connection": (Reply(text="long " * 99, cut=True), "connection", None, None),
}


@pytest.mark.parametrize("case", FAILURES)
def test_every_failure_has_the_same_kind_on_both_transports(
    transport: Transports, server: LoopbackServer, case: str
) -> None:
    reply, kind, status, retry_after = FAILURES[case]
    before = server.counts["requests"]
    error = fail(transport, server, reply)
    assert (error.kind, error.status, error.retry_after) == (kind, status, retry_after)
    assert error.retryable is (kind in RETRYABLE)
    assert server.counts["requests"] == before + 1, "a transport sends once; retries belong to the engine"


@pytest.mark.parametrize(
    ("header", "value", "seconds"),
    [
        ("Retry-After", "0.125", 0.125),
        ("Retry-After", "7", 7.0),
        ("Retry-After", "-3", 0.0),
        ("Retry-After", "soon", None),
        ("Retry-After", "inf", None),
        ("Retry-After-Ms", "350", 0.35),
        ("X-Other", "5", None),
    ],
)
def test_retry_after_keeps_its_fractions(
    transport: Transports, server: LoopbackServer, header: str, value: str, seconds: float | None
) -> None:
    error = fail(transport, server, Reply(status=429, raw=b"{}", headers={header: value}))
    assert error.retry_after == pytest.approx(seconds)


def test_retry_after_may_be_a_date(transport: Transports, server: LoopbackServer) -> None:
    moment = datetime.now(timezone.utc) + timedelta(days=1)
    headers = {"Retry-After": format_datetime(moment, usegmt=True)}
    error = fail(transport, server, Reply(status=503, raw=b"{}", headers=headers))
    assert error.retry_after == pytest.approx(86_400, abs=600)


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation"])
def test_a_filtered_prompt_is_an_answer_of_its_own_and_no_failure(
    transport: Transports, server: LoopbackServer, code: str
) -> None:
    assert ask(transport, server, error_reply(400, "Filtered.", code=code)).finish_reason == "content_filter"


def test_an_answer_without_room_counts_as_cut_off(transport: Transports, server: LoopbackServer) -> None:
    text = "Could not finish the message because max_tokens or model output limit was reached. Try again."
    assert ask(transport, server, error_reply(400, text)).finish_reason == "length"


def test_an_answer_that_comes_too_late_is_a_timeout(transport: Transports, server: LoopbackServer) -> None:
    async def run() -> TransportError:
        async with make_transport(transport) as opened:
            server.reply = lambda _: "A"
            await opened.send(request_to(server), timeout_s=30)  # litellm takes its time over its first call
            server.reply = lambda _: Reply(text="A", delay=20)
            with pytest.raises(TransportError) as raised:
                await opened.send(request_to(server), timeout_s=0.3)
            server.reply = lambda _: "B"
            assert (await opened.send(request_to(server), timeout_s=30)).text == "B"
            return raised.value

    error = asyncio.run(run())
    assert (error.kind, error.retryable) == ("timeout", True)


def failure_at(transport: Transports, base: str, *, timeout_s: float = 30) -> TransportError:
    with pytest.raises(TransportError) as raised:
        send(transport, Request(model=MODEL, messages=USER, api_base=base), timeout_s=timeout_s)
    return raised.value


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield unused.getsockname()[1]


def test_a_refused_connection_is_unreachable(transport: Transports, closed_port: int) -> None:
    assert failure_at(transport, f"http://127.0.0.1:{closed_port}/v1").kind == "unreachable"


def test_a_host_that_does_not_exist_is_unreachable(transport: Transports) -> None:
    assert failure_at(transport, "http://no-such-host.invalid/v1").kind == "unreachable"


def test_a_server_without_tls_is_unreachable_by_https(transport: Transports, server: LoopbackServer) -> None:
    assert failure_at(transport, server.url.replace("http:", "https:")).kind == "unreachable"


def test_a_proxy_that_is_down_is_unreachable(
    transport: Transports, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert failure_at(transport, "https://judge.example/v1").kind == "unreachable"


def test_a_connection_that_is_not_made_in_time_is_unreachable(transport: Transports) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # never answers the greeting of TLS
        base = f"https://127.0.0.1:{silent.getsockname()[1]}/v1"
        send(transport, timeout_s=1)  # litellm takes its time to be imported
        assert failure_at(transport, base, timeout_s=2).kind == "unreachable"


def test_a_connection_that_breaks_once_the_request_is_sent_is_no_unreachable_one(transport: Transports) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def reset() -> None:
            connection, _ = listening.accept()
            connection.recv(100)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

        thread = threading.Thread(target=reset)
        thread.start()
        error = failure_at(transport, f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
        thread.join()
    assert error.kind == "connection"


def test_an_address_that_is_none_is_a_bad_request(transport: Transports) -> None:
    with pytest.raises(TransportError) as raised:
        send(transport, Request(model=MODEL, messages=USER, api_base="localhost-without-scheme"))
    assert raised.value.kind == "bad_request"


def test_faults_at_random_all_end_as_the_kind_they_are(transport: Transports) -> None:
    faults = Faults(rate_limited=0.2, server=0.1, cut=0.1, malformed=0.1, slow=0.1, slow_s=0.05, retry_after="0.5")
    with LoopbackServer(reply="a", faults=faults, seed=5) as server:

        async def run() -> list[Response | BaseException]:
            async with make_transport(transport, concurrency=10) as opened:
                calls = (opened.send(request_to(server, seed=number), timeout_s=30) for number in range(50))
                return await asyncio.gather(*calls, return_exceptions=True)

        ended = asyncio.run(run())
    kinds: list[str] = [end.kind for end in ended if isinstance(end, TransportError)]
    drawn = {"rate_limited": "rate_limited", "server": "server", "connection": "cut", "malformed": "malformed"}
    assert {kind: kinds.count(kind) for kind in drawn} == {kind: server.counts[fault] for kind, fault in drawn.items()}
    assert min(kinds.count(kind) for kind in drawn) > 0
    assert sum(isinstance(end, Response) for end in ended) == 50 - len(kinds)
    assert server.counts["requests"] == 50


def test_a_planted_key_is_in_no_text_no_context_and_no_log(
    transport: Transports, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with LoopbackServer(key="another") as server, pytest.raises(TransportError) as raised:
        send(transport, request_to(server))
    error = raised.value
    written = capfd.readouterr()
    everything = [str(error), repr(error), *traceback.format_exception(error), *written, caplog.text]
    assert error.kind == "auth"
    assert "[key]" in str(error)
    assert error.__cause__ is error.__context__ is None
    assert not [text for text in everything if KEY in text]


@pytest.mark.parametrize("status", [400, 404, 429, 500])
def test_a_key_that_a_server_repeats_is_taken_out_of_the_text(
    transport: Transports, server: LoopbackServer, status: int
) -> None:
    reply = error_reply(status, f"Key {KEY} and sk-proj-abcdef123456 and Bearer abc.def \x1b[2J\nnext line")
    text = str(fail(transport, server, reply))
    assert "Key [key] and [key] and [key] [2J next line" in text


def test_a_very_long_error_text_is_cut(transport: Transports, server: LoopbackServer) -> None:
    assert len(str(fail(transport, server, error_reply(400, "x" * 100_000)))) < 500


def test_a_transport_wants_room_for_a_request(transport: Transports) -> None:
    with pytest.raises(ValueError, match="concurrency"):
        make_transport(transport, concurrency=0)


REDIRECTS = (301, 302, 303, 307, 308)


@pytest.mark.parametrize("status", REDIRECTS)
def test_no_transport_follows_a_redirect(status: int, transport: Transports, server: LoopbackServer) -> None:
    with LoopbackServer(record=True) as other:
        place = {"Location": f"{other.url}/chat/completions"}
        error = fail(transport, server, Reply(status=status, headers=place, raw=b"{}"))
        assert other.counts["requests"] == 0
    assert (error.kind, error.status) == ("bad_request", status)


@pytest.mark.parametrize(
    "model", few(["groq/llama-3.1-8b-instant", "anthropic/claude-3-5-haiku-latest", "ollama_chat/x"])
)
def test_litellm_follows_no_redirect_for_providers_with_clients_of_their_own(
    model: str, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with _redirecting(307) as (first, other), pytest.raises(TransportError):
        send("litellm", request_to(server, model=model, api_base=first))
    assert other == []


@contextmanager
def _redirecting(status: int) -> Iterator[tuple[str, list[str]]]:
    """A server that sends every request to a second one, and what arrives there."""
    arrived: list[str] = []

    class Second(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            arrived.append(self.path)
            self.send_error(500)

        def log_message(self, *_: object) -> None:
            pass

    class First(Second):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Location", f"http://127.0.0.1:{second.server_port}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Second) as second, ThreadingHTTPServer(("127.0.0.1", 0), First) as first:
        for running in (first, second):
            threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{first.server_port}", arrived
        first.shutdown()
        second.shutdown()


@pytest.mark.parametrize("setting", ["disable_aiohttp_transport", "aclient_session"])
def test_litellm_sends_nothing_where_redirects_cannot_be_stopped(
    setting: str, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"litellm.{setting}", True)
    before = server.counts["requests"]
    error = fail("litellm", server, Reply(text="A"))
    assert (error.kind, server.counts["requests"]) == ("bad_request", before)


@cache
def bomb() -> bytes:
    return gzip.compress(b" " * 150_000_000, 1)


def test_a_packed_body_that_grows_without_end_is_refused(transport: Transports, server: LoopbackServer) -> None:
    raw = bomb()
    tracemalloc.start()
    error = fail(transport, server, Reply(raw=raw, headers={"Content-Encoding": "gzip"}))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (error.kind, error.status) == ("malformed", 200)
    assert peak < 100 * 2**20


def test_only_the_beginning_of_a_long_error_is_searched_for_keys(
    transport: Transports, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []
    blank = _base.blank_secrets
    monkeypatch.setattr(_base, "blank_secrets", lambda text, *more: searched.append(len(text)) or blank(text, *more))
    page = "sk-" * 100_000
    error = fail(transport, server, error_reply(400, page))
    assert max(searched) < 20_000
    assert "sk-sk-sk" not in error.text


def test_a_key_that_the_cut_of_a_long_text_halves_is_in_no_error() -> None:
    # Wherever a text is cut, one of these places has more than eight characters of the key before the cut.
    for place in range(_base.MAX_TEXT - len(KEY), 4 * _base.MAX_TEXT + 2 * len(KEY), (len(KEY) - 8) // 2):
        text = TransportError("server", f"{'x' * place}{KEY}{'y' * 9000}").text
        assert KEY[:8] not in text
