"""Addresses and further fields of requests: they are logged, so a key in them is refused."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.models.local.weights import is_local

_OWN_ARGUMENTS = {
    "model": "model",
    "messages": "prompt",
    "temperature": "temperature",
    "max_tokens": "max_tokens",
    "seed": "seed",
    "logprobs": "logprobs",
    "response_format": "structured",
    "api_base": "api_base",
    "base_url": "api_base",
}
_REFUSED = ("stream", "n")
_SECRET_WORDS = frozenset(
    ("apikey", "secret", "pass", "password", "passwd", "authorization", "auth", "bearer", "credential", "cookie")
)
_SECRET_ENDINGS = ("key", "token", "credentials", "secrets")


def address_of(model: str, api_base: str | None) -> str | None:
    """Return the address that belongs to a request: the one given, or the one the environment sets for OpenAI.

    Raises:
        RecipeError: when it holds a key or is none, and for a model on this machine, whose port is nobody's business.
    """
    if api_base is not None and is_local(model):
        raise RecipeError(
            f"{model} is served on this machine and takes no `api_base`. A model of that name behind an endpoint of "
            f"your own is openai/{model}."
        )
    if not api_base and model.startswith("openai/"):
        # It decides who answers, so it belongs to the request.
        api_base = os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
    if not api_base:
        return None
    parts = urlsplit(api_base)
    if parts.username or parts.password or any(_is_secret(name) for name, _ in parse_qsl(parts.query)):
        raise RecipeError("`api_base` holds a key or password, and addresses are logged. Give keys by the environment.")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RecipeError("`api_base` must be an address that begins with http:// or https:// and names a host.")
    return api_base


def checked_extra(extra: Mapping[str, Any], *, of: str) -> dict[str, Any]:
    """Return the fields as plain JSON; refuse what has an argument of its own and what holds a secret."""
    for field in extra:
        if field in _OWN_ARGUMENTS:
            raise RecipeError(f"`extra` has {field!r}. Give it as {of}({_OWN_ARGUMENTS[field]}=…).")
        if field in _REFUSED:
            raise RecipeError(f"`extra` has {field!r}: a call is one whole answer.")
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(extra), allow_nan=False))
    except (TypeError, ValueError):
        raise RecipeError("`extra` must be plain JSON: text, finite numbers, true, false, null, lists, maps.") from None
    secret = [field for field, value in plain.items() if _is_secret(field) or _holds_secret(value)]
    if secret:
        raise RecipeError(
            f"`extra` holds a secret in {', '.join(secret)}, and settings are logged. Set the provider's environment "
            "variable instead, such as OPENAI_API_KEY."
        )
    return plain


def _holds_secret(value: object) -> bool:
    """Look for a text under a secret's name, as in `extra_headers`."""
    if isinstance(value, list):
        return any(_holds_secret(inner) for inner in value)
    if not isinstance(value, dict):
        return False
    return any((isinstance(inner, str) and _is_secret(name)) or _holds_secret(inner) for name, inner in value.items())


def _is_secret(name: str) -> bool:
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    return not _SECRET_WORDS.isdisjoint(words) or bool(words and words[-1] in _SECRET_ENDINGS)
