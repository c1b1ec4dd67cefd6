"""An OpenAI-dialect chat server on loopback: real HTTP, chosen answers, chosen faults, every request counted.

In a test, as a thread of the same process:

    with LoopbackServer(reply="verdict", latency=0.01, record=True) as server:
        ...  # api_base=server.url
    assert server.counts["requests"] == 1
    assert server.requests[0]["body"]["temperature"] == 0

In a benchmark, as a process of its own, so that its CPU time is not the client's:

    with LoopbackProcess("--latency", "0.1", "--rate-429", "0.1") as server:
        ...  # api_base=server.url
        server.stats()

By hand: `python -m tests.loopback --port 0 --latency 0.1` prints its port and runs until Ctrl-C. `GET /stats` shows the
counts and `GET /requests` what was recorded.

Faults are drawn from one seeded stream in order of arrival, so N requests meet the same faults in every run.

The counts: `requests` that arrived; `billed` ones, for which a completion was made; `answered` ones, sent in full with
status 200; each fault by its name; `refused` (key, model, context, limit) and of these `over_the_limit`;
`max_in_flight`; `input_tokens` and `output_tokens` of the billed ones as their usage tells them; `billed_input` and
`billed_output`, the provider's own books, which count what the usage leaves out. An answer that comes late, cut or
malformed was billed all the same.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import random
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from aiohttp import web

from tests.loopback_process import LoopbackProcess
from tests.loopback_replies import (
    PRESETS,
    Body,
    Faults,
    Outage,
    Reply,
    ReplyFunction,
    completion,
    count_prompt_tokens,
    error_reply,
    tokens_billed,
    verdict,
)

__all__ = ["Faults", "LoopbackProcess", "LoopbackServer", "Outage", "Reply", "error_reply", "verdict"]


class LoopbackServer:
    """The server, in a thread of its own with a loop of its own."""

    def __init__(
        self,
        *,
        reply: str | ReplyFunction = "verdict",
        latency: float = 0.0,
        faults: Faults | None = None,
        seed: int = 0,
        record: bool = False,
        requests_per_window: int | None = None,
        window_s: float = 60.0,
        model_name: str | None = None,
        key: str | None = None,
        models: tuple[str, ...] | None = None,
        context_window: int | None = None,
        outage: Outage | None = None,
        hold: Callable[[], Awaitable[None]] | None = None,
        port: int = 0,
    ) -> None:
        """Describe the server; it runs inside `with`.

        Args:
            reply: A preset's name or a function from the request's body to a text or a `Reply`.
            latency: Seconds before every answer, failures included.
            faults: Shares of requests that fail.
            seed: Seed of the stream the faults are drawn from.
            record: Keep every request in `requests`: `body`, its `text` as it came, `headers`, `status` of the answer.
            requests_per_window: More within `window_s` get 429 with the exact wait as a fractional Retry-After.
            window_s: 60 makes the limit one of requests per minute.
            model_name: Answer in the name of this model instead of the one that was asked.
            key: Refuse every other bearer key with 401, in a text that repeats the key.
            models: Refuse every other model with 404.
            context_window: Refuse longer prompts (in tokens) with 400 `context_length_exceeded`.
            outage: A time without answers, once.
            hold: Awaited before every answer.
            port: 0 takes a free one.
        """
        self.reply = PRESETS[reply] if isinstance(reply, str) else reply
        self.latency, self.faults, self.port = latency, faults or Faults(), port
        self.record, self.model_name, self.key, self.models = record, model_name, key, models
        self.requests_per_window, self.window_s, self.context_window = requests_per_window, window_s, context_window
        self.outage, self.hold = outage, hold
        self.requests: list[dict[str, Any]] = []
        self.counts: Counter[str] = Counter()
        self._stream = random.Random(seed)
        self._arrivals: deque[float] = deque()
        self._in_flight = 0
        self._down_until: float | None = None

    @property
    def url(self) -> str:
        """The `api_base` to give to a client."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> LoopbackServer:
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="loopback", daemon=True)
        self._thread.start()
        ready.result(timeout=30)
        return self

    def _run(self, ready: Future[None]) -> None:
        try:
            asyncio.run(self.serve(lambda: ready.set_result(None)))
        except OSError as error:
            ready.set_exception(error)

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def serve(self, ready: Callable[[], object]) -> None:
        """Serve until stopped or cancelled; call `ready` once the port is open."""
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=2**28)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/stats", self._show_counts)
        app.router.add_get("/requests", self._show_requests)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await runner.setup()
        self._runner = runner
        try:
            await self._open_port()
            self.port = runner.addresses[0][1]
            ready()
            await self._stop.wait()
        finally:
            await runner.cleanup()

    async def _open_port(self) -> None:
        self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, backlog=1024)
        await self._site.start()

    def _is_down(self) -> bool:
        """Whether the outage is on; begins it when its time has come."""
        if self.outage is None or self.counts["answered"] < self.outage.after:
            return False
        if self._down_until is None:
            self._down_until = time.monotonic() + self.outage.seconds
            if self.outage.kind == "closed":
                self._closing = asyncio.ensure_future(self._close_port(self.outage.seconds))
        return time.monotonic() < self._down_until

    async def _close_port(self, seconds: float) -> None:
        await self._site.stop()
        assert self._runner.server is not None
        for handler in self._runner.server.connections:
            if handler.transport is not None:
                handler.transport.abort()
        await asyncio.sleep(seconds)
        await self._open_port()

    async def _show_counts(self, _: web.Request) -> web.Response:
        return web.json_response(dict(self.counts))

    async def _show_requests(self, _: web.Request) -> web.Response:
        return web.json_response(self.requests)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        text = (await request.read()).decode()
        body: Body = json.loads(text)
        self.counts["requests"] += 1
        self._in_flight += 1
        self.counts["max_in_flight"] = max(self.counts["max_in_flight"], self._in_flight)
        try:
            reply = self._answer(body, request.headers.get("Authorization", ""))
            if self.record:
                kept = {"body": body, "text": text, "headers": dict(request.headers), "status": reply.status}
                self.requests.append(kept)
            if self.hold is not None:
                await self.hold()
            if self.latency + reply.delay:
                await asyncio.sleep(self.latency + reply.delay)
            return await self._send(request, reply)
        finally:
            self._in_flight -= 1

    def _answer(self, body: Body, authorization: str) -> Reply:
        """Return a reply whose body is ready to be sent."""
        if self._is_down() and self.outage is not None:
            self.counts["outage"] += 1
            down = error_reply(503, "The service is down.")
            return replace(down, cut=self.outage.kind != "503", status=503 if self.outage.kind == "503" else 200)
        if refused := self._refuse(body, authorization):
            self.counts["refused"] += 1
            return refused
        fault = self.faults.draw(self._stream)
        if fault is not None:
            self.counts[fault] += 1
        if fault == "rate_limited":
            wait = {} if self.faults.retry_after is None else {"retry_after": self.faults.retry_after}
            return error_reply(429, "Too many requests.", code="rate_limit_exceeded", **wait)
        if fault == "server":
            return error_reply(500, "The server had an error.")
        given = self.reply(body)
        reply = self._bill(given if isinstance(given, Reply) else Reply(text=given), body)
        if fault == "slow":
            return replace(reply, delay=reply.delay + self.faults.slow_s)
        if fault == "cut":
            return replace(reply, cut=True)
        return replace(reply, raw=b'{"choices": [{"mess') if fault == "malformed" else reply

    def bill_micro(self, input_usd: float, output_usd: float) -> int:
        """Return the provider's own bill in micro-dollars, at these prices per million tokens."""
        return math.ceil(self.counts["billed_input"] * input_usd + self.counts["billed_output"] * output_usd)

    def _bill(self, reply: Reply, body: Body) -> Reply:
        given, made = tokens_billed(reply, body)
        self.counts["billed_input"] += given
        self.counts["billed_output"] += made
        if reply.raw is not None:
            return reply
        answer = completion(reply, body, self.model_name or body["model"])
        self.counts["billed"] += 1
        self.counts["input_tokens"] += answer.get("usage", {}).get("prompt_tokens", 0)
        self.counts["output_tokens"] += answer.get("usage", {}).get("completion_tokens", 0)
        return replace(reply, raw=json.dumps(answer).encode())

    def _refuse(self, body: Body, authorization: str) -> Reply | None:
        if self.key is not None and authorization != f"Bearer {self.key}":
            return error_reply(401, f"Incorrect API key provided: {authorization}.", code="invalid_api_key")
        if self.models is not None and body["model"] not in self.models:
            return error_reply(404, f"The model `{body['model']}` does not exist.", code="model_not_found")
        if self.context_window is not None and (found := count_prompt_tokens(body)) > self.context_window:
            text = f"This model's maximum context length is {self.context_window} tokens, but got {found}."
            return error_reply(400, text, code="context_length_exceeded")
        return self._limit()

    def _limit(self) -> Reply | None:
        if self.requests_per_window is None:
            return None
        now = time.monotonic()
        while self._arrivals and self._arrivals[0] <= now - self.window_s:
            self._arrivals.popleft()
        if len(self._arrivals) < self.requests_per_window:
            self._arrivals.append(now)
            return None
        self.counts["over_the_limit"] += 1
        return error_reply(429, "Rate limit reached.", retry_after=f"{self._arrivals[0] + self.window_s - now:.3f}")

    async def _send(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        raw = reply.raw or b""
        headers = {"Content-Type": "application/json", **reply.headers}
        if not reply.cut:
            self.counts["answered"] += reply.status == 200
            return web.Response(status=reply.status, body=raw, headers=headers)
        response = web.StreamResponse(status=reply.status, headers={**headers, "Content-Length": str(len(raw))})
        with contextlib.suppress(ConnectionResetError):  # the port was closed meanwhile
            await response.prepare(request)
            await response.write(raw[: len(raw) // 2])
        if request.transport is not None:
            request.transport.close()
        return response


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.loopback", description="An OpenAI-dialect server on loopback."
    )
    numbers = {"latency": 0.0, "rate-429": 0.0, "rate-500": 0.0, "rate-slow": 0.0, "slow-seconds": 1.0}
    numbers |= {"rate-cut": 0.0, "rate-malformed": 0.0, "window-seconds": 60.0, "outage-seconds": 60.0}
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=float, default=default, help=f"default: {default}")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--seed", type=int, default=0, help="of the faults")
    parser.add_argument("--requests-per-window", type=int, help="more get 429")
    parser.add_argument("--outage", choices=("503", "cut", "closed"), help="for `--outage-seconds`, once")
    parser.add_argument("--outage-after", type=int, default=0, help="answers before the outage")
    parser.add_argument("--retry-after", default="0.05", help="of a drawn 429; default: 0.05")
    parser.add_argument("--model-name", help="answer in the name of this model")
    parser.add_argument("--reply", choices=sorted(PRESETS), default="verdict", help="default: verdict")
    parser.add_argument("--answer", default="A", help="of the reply `verdict`")
    parser.add_argument("--record", action="store_true", help="keep every request for GET /requests")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end with the process that started it")
    return parser.parse_args(arguments)


def _build(given: argparse.Namespace) -> LoopbackServer:
    faults = Faults(
        rate_limited=given.rate_429,
        retry_after=given.retry_after,
        server=given.rate_500,
        slow=given.rate_slow,
        slow_s=given.slow_seconds,
        cut=given.rate_cut,
        malformed=given.rate_malformed,
    )
    return LoopbackServer(
        reply=verdict(given.answer) if given.reply == "verdict" else given.reply,
        latency=given.latency,
        faults=faults,
        seed=given.seed,
        record=given.record,
        requests_per_window=given.requests_per_window,
        window_s=given.window_seconds,
        outage=given.outage and Outage(kind=given.outage, after=given.outage_after, seconds=given.outage_seconds),
        model_name=given.model_name,
        port=given.port,
    )


def main(arguments: list[str] | None = None) -> None:
    """Run the server until Ctrl-C, or until the standard input closes."""
    given = _parse(arguments)
    with _build(given) as server, contextlib.suppress(KeyboardInterrupt):
        print(server.port, flush=True)
        if given.until_stdin_closes:
            sys.stdin.buffer.read()
        else:
            threading.Event().wait()


if __name__ == "__main__":
    main()
