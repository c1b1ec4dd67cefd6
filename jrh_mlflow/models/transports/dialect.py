"""The OpenAI chat dialect: requests into bodies, bodies into responses, HTTP errors into kinds of failure."""

from __future__ import annotations

import importlib
import json
import math
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

from jrh_mlflow.models.transports._base import FailureKind, TransportError
from jrh_mlflow.schema.requests import Request, Response
from jrh_mlflow.text import clean_data, clean_text

_MAPPING = (dict, Mapping)
"""What JSON is read into comes first: the look at the abstract class costs more than the rest of a check."""
_NUL = b"\\u0000"
"""As JSON writes it; an escaped backslash before it only costs the slower writer."""


def encode(body: Mapping[str, Any]) -> bytes:
    """Write a body as UTF-8 JSON; lone surrogates and NUL become U+FFFD, as everywhere (`text.py`)."""
    orjson = _orjson()
    try:
        raw = _dumped(body) if orjson is None else bytes(orjson.dumps(body))
    except (TypeError, UnicodeEncodeError):  # a lone surrogate, or for orjson an integer beyond 64 bits
        raw = None
    # Looked for in what was written: walking through every body would cost more than writing it.
    return raw if raw is not None and _NUL not in raw else _dumped(clean_data(body)[0])


def _dumped(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def decode(raw: bytes) -> Any:
    """Read JSON.

    Raises:
        ValueError: It is none, or is nested deeper than anything a model server sends.
    """
    orjson = _orjson()
    if orjson is not None:
        try:
            return orjson.loads(raw)
        except ValueError:  # escaped lone surrogates are valid for the slower reader
            pass
    try:
        return json.loads(raw)
    except RecursionError:
        raise ValueError("JSON nested too deeply.") from None


@cache
def _orjson() -> Any:
    try:
        return importlib.import_module("orjson")
    except ImportError:
        return None


def preview(raw: bytes) -> str:
    """Return the first characters of a body, for an error's text."""
    return raw[:200].decode("utf-8", "replace") or "(empty)"


_FILTERED = frozenset({"content_filter", "content_policy_violation"})
_FILTERED_TEXT = re.compile(
    r"violating our usage policy|result of (the|our) safety system|content management policy", re.IGNORECASE
)
_NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_TOO_LONG = re.compile(
    r"context[_ ]length|maximum context|context (window|limit|size)|prompt is too long|string too long|too many tokens"
    r"|input tokens exceed|maximum number of tokens|reduce the length",
    re.IGNORECASE,
)
_OUT_OF_ROOM = "could not finish the message because max_tokens or model output limit was reached"
_ADVICE: Mapping[FailureKind, str] = {
    "auth": " (check the key and the account behind it)",
    "not_found": " (check the model's name and api_base)",
}
_TIMEOUTS = frozenset({408, 504, 522, 524})
_TRY_AGAIN = frozenset({409, 425})


def read_error(status: int, headers: Mapping[str, str], raw: bytes, *, kind: FailureKind | None = None) -> Response:
    """Return the answer that an HTTP error stands for, where it stands for one.

    A prompt stopped by the provider's content filter, and an answer that found no room in `max_tokens`, are answers of
    the model like those that come with status 200.

    Args:
        status: Of the HTTP answer.
        headers: For Retry-After.
        raw: The body.
        kind: Where it is known better than from the status.

    Raises:
        TransportError: In every other case.
    """
    code, message = _error_parts(raw)
    if status == 400 and (code in _FILTERED or _FILTERED_TEXT.search(message)):
        return Response(text=None, finish_reason="content_filter", **usage_in(raw))
    if status == 400 and _OUT_OF_ROOM in message.lower():
        return Response(text="", finish_reason="length", **usage_in(raw))
    if status < 400:
        message = "the server redirects; give the final address as api_base."
    kind = kind or kind_of(status, code, message)
    text = f"HTTP {status}: {message}{_ADVICE.get(kind, '')}"
    raise TransportError(kind, text, status, retry_after(headers), billed(usage_in(raw)))


def usage_in(raw: bytes) -> dict[str, Any]:
    """Return what the body of an error tells of its usage."""
    try:
        data = decode(raw)
    except ValueError:
        data = None
    outer = data if isinstance(data, _MAPPING) else {}
    inner = outer.get("error")
    return read_usage(outer.get("usage") or (inner.get("usage") if isinstance(inner, Mapping) else None))


def billed(usage: Mapping[str, Any]) -> Response | None:
    """Return a usage as a response without text, or None when it tells nothing."""
    is_told = usage["cost_usd"] is not None or None not in (usage["input_tokens"], usage["output_tokens"])
    return Response(text=None, finish_reason=None, **usage) if is_told else None


def kind_of(status: int, code: str, message: str) -> FailureKind:
    """Return the kind of an HTTP error.

    Example:
        >>> kind_of(429, "", ""), kind_of(429, "insufficient_quota", ""), kind_of(400, "context_length_exceeded", "")
        ('rate_limited', 'auth', 'too_long')
    """
    if status == 429:
        return "auth" if code in _NO_CREDIT else "rate_limited"
    if status in _TIMEOUTS:
        return "timeout"
    if status >= 500 or status in _TRY_AGAIN:
        return "server"
    if status in (401, 402, 403):
        return "auth"
    if status == 404 or code == "model_not_found":
        return "not_found"
    return "too_long" if status == 413 or _TOO_LONG.search(f"{code} {message}") else "bad_request"


def error_inside_200(error: object, usage: object = None) -> TransportError:
    """Return the failure in a body sent with status 200, as OpenRouter does.

    One that the provider calls its own fault, or gives no status, was answered all the same: `malformed`, no outage.
    """
    told = billed(read_usage(usage))
    parts = error if isinstance(error, Mapping) else {"message": error}
    status, message = parts.get("code"), parts.get("message")
    text = f"An error with status 200: {message if isinstance(message, str) else 'no message'}"
    # litellm fills in 422 where there is no code.
    if isinstance(status, int) and 400 <= status < 600 and status != 422:
        kind = kind_of(status, "", text)
        return TransportError("malformed" if kind in ("server", "timeout") else kind, text, 200, usage=told)
    return TransportError("malformed", text, 200, usage=told)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds a provider asks to wait, fractions included, or None when it does not say.

    Example:
        >>> retry_after({"retry-after": "1.5"}), retry_after({"retry-after-ms": "250"}), retry_after({})
        (1.5, 0.25, None)
    """
    named = {name.lower(): value for name, value in headers.items()}
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(named[name]) * scale
        except (KeyError, ValueError):
            continue
        return max(seconds, 0.0) if math.isfinite(seconds) else None
    moment = _moment(named.get("retry-after", ""))
    # By the provider's own clock, where it tells it: ours may be an hour off.
    now = _moment(named.get("date", "")) or datetime.now(timezone.utc)
    return None if moment is None else max((moment - now).total_seconds(), 0.0)


def _moment(date: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def is_error(error: object) -> bool:
    """Whether the `error` of a body says anything; some servers send an empty one with every answer."""
    if isinstance(error, Mapping):
        return bool(error.get("message")) or error.get("code") is not None
    return bool(error)


def _error_parts(raw: bytes) -> tuple[str, str]:
    """Return code and message of an error body, whatever its shape."""
    try:
        data = decode(raw)
    except ValueError:
        return "", preview(raw)
    data = data[0] if isinstance(data, list) and data else data  # as Google sends it
    outer = data if isinstance(data, _MAPPING) else {}
    error = outer.get("error", outer)
    parts = error if isinstance(error, Mapping) else {"message": error}
    message = parts.get("message") or parts.get("detail")
    code = parts.get("code") or parts.get("type")
    return code if isinstance(code, str) else "", message if isinstance(message, str) else preview(raw)


_TEXT_PARTS, _THOUGHTS = ("text", "output_text"), ("thinking", "reasoning", "redacted_thinking")
"""Kinds of parts that a content may come in."""
TOP_LOGPROBS = 5
_MAX_TOKENS = 10**9
_MAX_HIDDEN = 2**20
"""Tokens that only a total counts: no model thinks for longer, so what says more is no total."""
_MAX_COST_USD = 1000.0
"""Of one call; what says more is no bill."""
_TICKS_PER_USD = 10**10
"""xAI's unit: https://docs.x.ai/developers/cost-tracking."""
USAGE_FIELDS = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "cost_in_usd_ticks",
    "cost",
    "cost_details",
    "is_byok",
    "prompt_tokens_details",
    "completion_tokens_details",
)
"""What is read of a usage."""
_MAX_LOGPROB = 1e6
_MAX_LOGPROB_TOKENS, _MAX_TOPS = 50_000, 20
_RESERVED_EXTRA = frozenset(
    {"model", "messages", "max_tokens", "max_completion_tokens", "n", "stream", "stream_options"}
    | {"api_key", "api_base", "base_url", "headers", "extra_headers", "extra_body"}
    | {"timeout", "max_retries", "num_retries"}
)
"""Names `extra` may not hold: they have a field of their own, hold a key, or would escape budget and journal."""
_OF_THE_ANSWER = frozenset({"max_tokens", "max_completion_tokens", "n", "stream"})
"""Of these, what a request that is sent as it is may say: the judge has checked it."""


def request_fields(request: Request) -> dict[str, Any]:
    """Return what a request asks for as fields of the dialect, without model, messages and `extra`; None is left out.

    Raises:
        TransportError: `extra` holds a reserved name.
    """
    reserved = _RESERVED_EXTRA - _OF_THE_ANSWER if request.verbatim else _RESERVED_EXTRA
    if wrong := sorted(reserved.intersection(request.extra)):
        raise TransportError(
            "bad_request", f"`extra` may not hold {', '.join(wrong)}: use the judge's own setting for it."
        )
    fields: dict[str, Any] = {}
    if request.verbatim:
        return fields
    for name in ("temperature", "max_tokens", "seed"):
        if (value := getattr(request, name)) is not None:
            fields[name] = value
    if request.response_schema is not None:
        schema = {"name": "answer", "strict": True, "schema": request.response_schema}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.logprobs:
        fields |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
    return fields


def chat_body(request: Request, *, model: str, max_tokens: str) -> dict[str, Any]:
    """Return the whole body of a request; `extra` has the last word.

    Args:
        request: What to send.
        model: The provider's own name for the model.
        max_tokens: What the model calls the limit.

    Raises:
        TransportError: `extra` holds a reserved name.
    """
    fields = request_fields(request)
    if "max_tokens" in fields:
        fields[max_tokens] = fields.pop("max_tokens")
    messages = [dict(message) for message in request.messages]
    return {"model": model, "messages": messages, **fields, **request.extra}


def read_http(status: int, headers: Mapping[str, str], raw: bytes) -> Response:
    """Return the response in an HTTP answer.

    Raises:
        TransportError: The answer is an error, or not a completion.
    """
    if status >= 300:
        return read_error(status, headers, raw)
    try:
        data = decode(raw)
    except ValueError:
        raise TransportError("malformed", f"The body is not JSON: {preview(raw)}", status) from None
    return read_completion(data, status)


def read_completion(data: object, status: int = 200) -> Response:
    """Return the response in a completion of the dialect: here, for every transport, it is decided what is usable.

    Usable is a message that can be read: text (also in parts), a refusal, a tool call, cut off, filtered, empty.
    No choices is the finish reason `empty_choices`. Without usage, or with a prompt of 0 tokens, which no provider
    bills, the tokens are None: unknown is not free.

    Raises:
        TransportError: It holds an error object, or it is not a completion.
    """
    if not isinstance(data, _MAPPING):
        raise TransportError("malformed", f"The body is not a completion but {type(data).__name__}.", status)
    if is_error(data.get("error")):
        raise error_inside_200(data["error"], data.get("usage"))
    choices = data.get("choices")
    if not isinstance(choices, list):
        text = f"The body has no list of choices, but {_names(data)}."
        raise TransportError("malformed", text, status, usage=billed(read_usage(data.get("usage"))))
    usage = read_usage(data.get("usage"))
    answerer: dict[str, Any] = {name: _text(data.get(name)) for name in ("model", "system_fingerprint")}
    if not choices:
        return Response(text=None, finish_reason="empty_choices", **answerer, **usage)
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, _MAPPING) else None
    if not isinstance(message, _MAPPING):
        text = f"The first choice has no message, but {_names(message or choice)}."
        raise TransportError("malformed", text, status, usage=billed(usage))
    said, refusal = _content(message.get("content"))
    if said is None and message.get("content") is not None and refusal is None:
        text = f"The message has no text, but {_names(message['content'])}."
        raise TransportError("malformed", text, status, usage=billed(usage))
    is_tool_call = not said and bool(message.get("tool_calls") or message.get("function_call"))
    return Response(
        text=said,
        finish_reason="tool_calls" if is_tool_call else _text(choice.get("finish_reason")),
        refusal=_text(message.get("refusal")) or refusal,
        **answerer,
        **usage,
        logprobs=_logprobs(choice.get("logprobs")),
        tool_arguments=_arguments(message) if is_tool_call else None,
    )


def _arguments(message: Mapping[str, Any]) -> str | None:
    """Return the arguments of the first tool call, as the model wrote them."""
    calls = message.get("tool_calls")
    first = calls[0] if isinstance(calls, list) and calls else {"function": message.get("function_call")}
    function = first.get("function") if isinstance(first, Mapping) else None
    return _text(function.get("arguments")) if isinstance(function, Mapping) else None


def _content(content: object) -> tuple[str | None, str | None]:
    """Return text and refusal of a message's content, which may come in parts; thinking is part of neither."""
    if not isinstance(content, list):
        return _text(content), None
    parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    named = [part for part in parts if isinstance(part, Mapping)]
    texts = [_text(part.get("text")) for part in named if part.get("type") in _TEXT_PARTS]
    refusals = [_text(part.get("refusal")) for part in named if part.get("type") == "refusal"]
    is_known = len(named) == len(parts) and None not in (*texts, *refusals)
    # A part that cannot be read may have taken back what the others say.
    if not is_known or any(part.get("type") not in (*_TEXT_PARTS, *_THOUGHTS, "refusal") for part in named):
        return None, None
    return ("".join(filter(None, texts)) if texts or not refusals else None), "".join(filter(None, refusals)) or None


def read_usage(usage: object) -> dict[str, Any]:
    """Return a usage as fields of a response.

    What was made is at least `total - prompt`: xAI and gateways to Gemini count reasoning in the total only. Reasoning
    is part of the completion; where that cannot be, both are counted.

    Example:
        >>> read_usage({"prompt_tokens": 700, "completion_tokens": 30, "total_tokens": 1630})
        {'input_tokens': 700, 'output_tokens': 930, 'cost_usd': None}
    """
    fields = usage if isinstance(usage, _MAPPING) else {}
    given = _count(fields.get("prompt_tokens", fields.get("input_tokens")))
    spoken = made = _count(fields.get("completion_tokens", fields.get("output_tokens")))
    total = _count(fields.get("total_tokens"))
    if not given:
        given = made = None
    elif total is not None and 0 < total - given <= _MAX_HIDDEN:
        made = max(made or 0, total - given)
    reasoning, cached = _detail(fields, "completion", "reasoning"), _detail(fields, "prompt", "cached")
    if given and spoken is not None and made is not None and spoken < reasoning <= _MAX_HIDDEN:
        made = max(made, spoken + reasoning)
    told = {"input_tokens": given, "output_tokens": made, "cost_usd": _own_cost(fields)}
    return {**told, "cached_tokens": min(cached, given)} if given and cached else told


def _detail(usage: Mapping[str, Any], of: str, name: str) -> int:
    details = usage.get(f"{of}_tokens_details")
    return (_count(details.get(f"{name}_tokens")) or 0) if isinstance(details, _MAPPING) else 0


def _own_cost(usage: Mapping[str, Any]) -> float | None:
    """Return the provider's own bill: xAI's ticks, OpenRouter's cost, Perplexity's total.

    0 is none: gateways write it where they know no price.
    """
    cost = usage.get("cost")
    if (ticks := _amount(usage.get("cost_in_usd_ticks"))) is not None:
        usd: float | None = ticks / _TICKS_PER_USD
    elif isinstance(cost, Mapping):
        usd = _amount(cost.get("total_cost"))
    elif (usd := _amount(cost)) is not None:
        usd += _upstream(usage, usd)
    return usd if usd is not None and 0 < usd <= _MAX_COST_USD else None


def _upstream(usage: Mapping[str, Any], fee: float) -> float:
    """Return what OpenRouter's upstream bills on top: with a key of one's own there, `cost` is only the fee."""
    details = usage.get("cost_details")
    upstream = _amount(details.get("upstream_inference_cost")) if isinstance(details, Mapping) else None
    is_byok = usage.get("is_byok")
    return upstream or 0.0 if (is_byok is True or (is_byok is None and (upstream or 0) > fee)) else 0.0


def _amount(value: object) -> float | None:
    """A finite amount that is not negative; a hostile integer may be too long for a float."""
    if value is None or isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e300:
        return None
    return float(value)


def _count(value: object) -> int | None:
    """A number of tokens that can be one: hostile servers send more digits than a database takes."""
    if type(value) is int:
        return value if 0 <= value <= _MAX_TOKENS else None
    # Some gateways count in floats.
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return whole if isinstance(whole, int) and not isinstance(whole, bool) and 0 <= whole <= _MAX_TOKENS else None


def _text(value: object) -> str | None:
    return clean_text(value) if isinstance(value, str) else None


def _logprobs(given: object) -> tuple[Mapping[str, Any], ...] | None:
    tokens = given.get("content") if isinstance(given, Mapping) else None
    if not isinstance(tokens, list) or len(tokens) > _MAX_LOGPROB_TOKENS or not all(map(_is_token, tokens)):
        return None
    return tuple(
        {
            "token": clean_text(token["token"]),
            "logprob": float(token["logprob"]),
            "top": [[clean_text(top["token"]), float(top["logprob"])] for top in _tops(token)],
        }
        for token in tokens
    )


def _tops(token: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    tops = token.get("top_logprobs")
    return [top for top in tops[:_MAX_TOPS] if _is_token(top)] if isinstance(tops, list) else []


def _is_token(token: object) -> bool:
    if not isinstance(token, Mapping) or not isinstance(token.get("token"), str):
        return False
    value = token.get("logprob")
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MAX_LOGPROB


def _names(value: object) -> str:
    """Describe a part of a body by its fields; its contents may be endless or nested too deeply to print."""
    if isinstance(value, Mapping):
        return f"the fields {', '.join(sorted(map(str, value))[:10])}"
    return type(value).__name__
