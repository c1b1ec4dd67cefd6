"""JSON in and out of the wire: quick where orjson is installed, forgiving of lone surrogates either way."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from jrh_mlflow.text import clean_data

_NUL = b"\\u0000"
"""As JSON writes it; an escaped backslash before it only costs the slower writer."""


def encode(body: Mapping[str, Any]) -> bytes:
    """Write a body as UTF-8 JSON; lone surrogates and NUL become U+FFFD, as everywhere (`text.py`)."""
    orjson = _orjson()
    try:
        raw = None if orjson is None else bytes(orjson.dumps(body))
    except TypeError:  # a lone surrogate, or an integer beyond 64 bits: the slower writer takes both
        raw = None
    if raw is not None and _NUL not in raw:
        return raw
    return json.dumps(clean_data(body)[0], ensure_ascii=False, separators=(",", ":")).encode()


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
