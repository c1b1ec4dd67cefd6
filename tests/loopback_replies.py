"""What the loopback server answers: whole replies, ready-made ones, faults, and how it counts tokens."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Shares of requests, between 0 and 1, that do not get a plain answer."""

    rate_limited: float = 0.0
    """429 with `retry_after` as the header Retry-After."""
    retry_after: str | None = "0.05"
    server: float = 0.0
    """500 with an error object."""
    slow: float = 0.0
    """Answered, but `slow_s` seconds later."""
    slow_s: float = 1.0
    cut: float = 0.0
    """The connection is closed in the middle of the body."""
    malformed: float = 0.0
    """200 with a body that is not JSON."""

    def draw(self, stream: random.Random) -> str | None:
        """Choose the fault of the next request, None for most."""
        chance = stream.random()
        for name in ("rate_limited", "server", "slow", "cut", "malformed"):
            chance -= getattr(self, name)
            if chance < 0:
                return name
        return None


@dataclass(frozen=True, kw_only=True)
class Outage:
    """A time in which nothing is answered."""

    kind: str
    """`503`, `cut` (each connection closes in the middle of the body) or `closed` (none is accepted or kept)."""
    after: int
    """Answers before it begins."""
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer in full; a reply function may return a plain text instead."""

    text: str | None = None
    finish_reason: str | None = "stop"
    refusal: str | None = None
    choices: bool = True
    """False answers with an empty list of choices."""
    usage: bool = True
    """False leaves the usage out."""
    usage_fields: Mapping[str, Any] | None = None
    """Told as the usage instead of what was counted."""
    body_fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the completion, such as `system_fingerprint`."""
    bills: tuple[int, int] | None = None
    """Input and output tokens that are billed whatever the usage says; for errors, too."""
    logprobs: list[dict[str, Any]] | None = None
    """The `content` list of the dialect."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    """Sent as the body instead of a completion."""
    delay: float = 0.0
    """Seconds on top of the server's latency."""
    cut: bool = False
    """Close the connection in the middle of the body."""


ReplyFunction: TypeAlias = Callable[[Body], "str | Reply"]


def verdict(answer: str = "A", reason: str = "loopback") -> ReplyFunction:
    """Return a reply function for JSON verdicts: in the schema that was asked for, else `reason` and `verdict`."""

    def reply(body: Body) -> str:
        asked = body.get("response_format") or {}
        schema = (asked.get("json_schema") or {}).get("schema")
        return json.dumps(fill(schema, answer, reason) if schema else {"reason": reason, "verdict": answer})

    return reply


def fields_asked(body: Mapping[str, Any]) -> list[str]:
    """Name the fields of the object that a request asks for; none where it asks for no schema."""
    form = body.get("response_format") or {}
    return list(form["json_schema"]["schema"]["properties"]) if form.get("type") == "json_schema" else []


def fill(schema: Mapping[str, Any], answer: str = "A", reason: str = "loopback") -> Any:
    """Return a value that matches a JSON schema; an enum gets `answer` where it may, else its first value."""
    if "enum" in schema:
        return next((value for value in schema["enum"] if str(value) == answer), schema["enum"][0])
    if "const" in schema:
        return schema["const"]
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return fill(schema[union][0], answer, reason)
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: fill(part, answer, reason) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [fill(schema.get("items", {}), answer, reason)] * schema.get("minItems", 0)
    if kind in ("integer", "number"):
        return schema.get("minimum", 0)
    return {"string": reason, "boolean": True}.get(kind)


def error_reply(status: int, message: str, *, code: str | None = None, **headers: str) -> Reply:
    """Return an error object as OpenAI words it; underscores in the names of headers stand for hyphens."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    raw = json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()
    return Reply(
        status=status, raw=raw, headers={name.title().replace("_", "-"): value for name, value in headers.items()}
    )


PRESETS: dict[str, ReplyFunction] = {
    "a": lambda _: "A",
    "verdict": verdict(),
    "echo": lambda body: str(body["messages"][-1]["content"]),
    "prose": lambda _: "Both responses have merits, and it is hard to say which of the two one would prefer.",
    "garbage": lambda _: '{"verdict": [[\x00]] }}} \ufffd A B tie {"verdict": "A", "verdict": "B"',
    "refusal": lambda _: Reply(refusal="I cannot help with that."),
    "empty": lambda _: Reply(choices=False),
}


def count_tokens(text: str) -> int:
    """Count as this server bills: one token per four bytes of UTF-8, rounded up."""
    return math.ceil(len(text.encode("utf-8", "replace")) / 4)


def count_prompt_tokens(body: Body) -> int:
    """Count a prompt as this server bills: its contents, four tokens per message, three for the start of the answer."""
    return 3 + sum(4 + count_tokens(str(message.get("content") or "")) for message in body["messages"])


def completion(reply: Reply, body: Body, model: str) -> Body:
    """Return a reply as a completion of the dialect, cut at the request's `max_tokens` as a model would be."""
    limit = body.get("max_tokens", body.get("max_completion_tokens"))
    text, finish_reason = reply.text, reply.finish_reason
    if text is not None and limit is not None and count_tokens(text) > limit:
        text, finish_reason = text.encode("utf-8", "replace")[: 4 * limit].decode("utf-8", "ignore"), "length"
    message = {"role": "assistant", "content": text, "refusal": reply.refusal}
    choice: Body = {"index": 0, "message": message, "finish_reason": finish_reason}
    if reply.logprobs is not None:
        choice["logprobs"] = {"content": reply.logprobs}
    answer: Body = {"id": "chatcmpl-loopback", "object": "chat.completion", "created": 0, "model": model}
    answer["choices"] = [choice] if reply.choices else []
    if reply.usage:
        sent, made = count_prompt_tokens(body), count_tokens(text or reply.refusal or "")
        counted = {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made}
        answer["usage"] = counted if reply.usage_fields is None else dict(reply.usage_fields)
    return {**answer, **reply.body_fields}


def tokens_billed(reply: Reply, body: Body) -> tuple[int, int]:
    """Return the tokens a provider bills for a reply, input and output; those that its usage leaves out, too."""
    if reply.bills is not None:
        return reply.bills
    if reply.raw is not None:
        return 0, 0
    answer = completion(replace(reply, usage=True), body, "")
    usage = answer["usage"]
    made = max(usage.get("completion_tokens", 0), usage.get("total_tokens", 0) - usage["prompt_tokens"])
    return usage["prompt_tokens"], made
