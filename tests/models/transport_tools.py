"""What the transport tests share: requests, ways to send them, and an environment without other people's keys."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from jrh_mlflow.models.transports import TransportError, make_transport
from jrh_mlflow.schema.requests import Request, Response
from tests.loopback import LoopbackServer, Reply

Transports = Literal["direct", "litellm"]
KEY = "planted-Zq81xW-secret-0042"
MODEL = "openai/gpt-4o-mini"
USER = ({"role": "system", "content": "Judge."}, {"role": "user", "content": "Which one?"})
SCHEMA = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "verdict": {"type": "string", "enum": ["A", "B", "tie"]}},
    "required": ["reason", "verdict"],
    "additionalProperties": False,
}


def set_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in (
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE",
        "HOSTED_VLLM_API_BASE",
        "HOSTED_VLLM_API_KEY",
        "DEEPSEEK_API_KEY",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def request_to(server: LoopbackServer, **fields: Any) -> Request:
    return Request(**{"model": MODEL, "messages": USER, "api_base": server.url, **fields})


def send(transport: Transports, *requests: Request, timeout_s: float = 30) -> list[Response]:
    async def run() -> list[Response]:
        async with make_transport(transport, concurrency=len(requests) or 1) as opened:
            return await asyncio.gather(*(opened.send(request, timeout_s=timeout_s) for request in requests))

    return asyncio.run(run())


def ask(transport: Transports, server: LoopbackServer, reply: Reply | str, **fields: Any) -> Response:
    server.reply = lambda _: reply
    return send(transport, request_to(server, **fields))[0]


def fail(transport: Transports, server: LoopbackServer, reply: Reply, **fields: Any) -> TransportError:
    with pytest.raises(TransportError) as raised:
        ask(transport, server, reply, **fields)
    return raised.value


def sent(server: LoopbackServer) -> dict[str, Any]:
    body: dict[str, Any] = server.requests[-1]["body"]
    return body
