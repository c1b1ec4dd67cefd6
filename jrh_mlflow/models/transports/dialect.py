"""The OpenAI chat dialect: requests into fields of a body, bodies into responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jrh_mlflow.models.transports._base import TransportError
from jrh_mlflow.models.transports.failures import error_inside_200, is_error, read_error
from jrh_mlflow.models.transports.wire_json import decode, preview
from jrh_mlflow.schema.requests import Request, Response
from jrh_mlflow.text import clean_text

TOP_LOGPROBS = 5
_MAX_TOKENS = 10**9
_MAX_LOGPROB = 1e6
RESERVED_EXTRA = frozenset(
    {
        "model",
        "messages",
        "max_tokens",
        "max_completion_tokens",
        "n",
        "stream",
        "stream_options",
        "api_key",
        "api_base",
        "base_url",
        "headers",
        "extra_headers",
        "extra_body",
        "timeout",
        "max_retries",
        "num_retries",
    }
)
"""Names `extra` may not hold: they have a field of their own, hold a key, or would escape budget and journal."""


def request_fields(request: Request) -> dict[str, Any]:
    """Return what a request asks for as fields of the dialect, without model, messages and `extra`; None is left out.

    Raises:
        TransportError: `extra` holds a reserved name.
    """
    if wrong := sorted(RESERVED_EXTRA.intersection(request.extra)):
        raise TransportError(
            "bad_request", f"`extra` may not hold {', '.join(wrong)}: use the judge's own setting for it."
        )
    fields: dict[str, Any] = {}
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
    """Return the response in a completion of the dialect.

    No choices is the finish reason `empty_choices`. Without usage, or with a prompt of 0 tokens, which no provider
    bills, the tokens are None: unknown is not free.

    Raises:
        TransportError: It holds an error object, or it is not a completion.
    """
    if not isinstance(data, Mapping):
        raise TransportError("malformed", f"The body is not a completion but {type(data).__name__}.", status)
    if is_error(data.get("error")):
        raise error_inside_200(data["error"])
    choices = data.get("choices")
    if not isinstance(choices, list):
        raise TransportError("malformed", f"The body has no list of choices, but {_names(data)}.", status)
    given, made = _usage(data.get("usage"))
    model = _text(data.get("model"))
    if not choices:
        return Response(text=None, finish_reason="empty_choices", model=model, input_tokens=given, output_tokens=made)
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(message, Mapping) or not isinstance(message.get("content"), str | None):
        raise TransportError(
            "malformed", f"The first choice has no text message, but {_names(message or choice)}.", status
        )
    return Response(
        text=_text(message.get("content")),
        finish_reason=_text(choice.get("finish_reason")),
        refusal=_text(message.get("refusal")) or None,
        model=model,
        input_tokens=given,
        output_tokens=made,
        logprobs=_logprobs(choice.get("logprobs")),
    )


def _usage(usage: object) -> tuple[int | None, int | None]:
    if not isinstance(usage, Mapping):
        return None, None
    given, made = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    return (given, made) if given else (None, None)


def _count(value: object) -> int | None:
    """A number of tokens that can be one: hostile servers send more digits than a database takes."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_TOKENS else None


def _text(value: object) -> str | None:
    return clean_text(value) if isinstance(value, str) else None


def _logprobs(given: object) -> tuple[Mapping[str, Any], ...] | None:
    tokens = given.get("content") if isinstance(given, Mapping) else None
    if not isinstance(tokens, list) or not all(map(_is_token, tokens)):
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
    return [top for top in tops if _is_token(top)] if isinstance(tops, list) else []


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
