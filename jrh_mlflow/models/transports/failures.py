"""Failures of the OpenAI dialect: HTTP errors into kinds, the same for both transports."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from jrh_mlflow.models.transports._base import FailureKind, TransportError
from jrh_mlflow.models.transports.wire_json import decode, preview
from jrh_mlflow.schema.requests import Response

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
        return Response(text=None, finish_reason="content_filter")
    if status == 400 and _OUT_OF_ROOM in message.lower():
        return Response(text="", finish_reason="length")
    if status < 400:
        message = "the server redirects; give the final address as api_base."
    kind = kind or kind_of(status, code, message)
    raise TransportError(kind, f"HTTP {status}: {message}{_ADVICE.get(kind, '')}", status, retry_after(headers))


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


def error_inside_200(error: object) -> TransportError:
    """Return the failure in a body sent with status 200, as OpenRouter does; one without a status is `server`."""
    parts = error if isinstance(error, Mapping) else {"message": error}
    status, message = parts.get("code"), parts.get("message")
    text = f"An error with status 200: {message if isinstance(message, str) else 'no message'}"
    # litellm fills in 422 where there is no code.
    if isinstance(status, int) and 400 <= status < 600 and status != 422:
        return TransportError(kind_of(status, "", text), text, 200)
    return TransportError("server", text, 200)


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
    return _seconds_until(named.get("retry-after", ""))


def _seconds_until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return max((moment - datetime.now(timezone.utc)).total_seconds(), 0.0)


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
    outer = data if isinstance(data, Mapping) else {}
    error = outer.get("error", outer)
    parts = error if isinstance(error, Mapping) else {"message": error}
    message = parts.get("message") or parts.get("detail")
    code = parts.get("code") or parts.get("type")
    return code if isinstance(code, str) else "", message if isinstance(message, str) else preview(raw)
