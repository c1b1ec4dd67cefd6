"""What litellm's table says of a model, read from its file without importing litellm."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jrh_mlflow.local.models import is_local

_TABLE_FILE = "model_prices_and_context_window_backup.json"
_CHAT_MODES = frozenset({"chat", "completion", "responses"})
_KEPT = re.compile(
    r"(in|out)put_cost_per_(token|request|reasoning_token)(_above_\d+k_tokens)?|litellm_provider|max_.*"
    r"|supports_response_schema"
)
_DIALECT = ("openai", "hosted_vllm")
_SCHEMA_EVERYWHERE = ("predibase", "fireworks_ai", "lm_studio", "nebius", "databricks", "hosted_vllm")
"""Providers whose every model takes a JSON schema."""


def takes_schema(model: str, *, api_base: str | None = None) -> bool:
    """Tell whether a model takes a JSON schema, from litellm's table, without importing litellm.

    An endpoint of one's own is taken to speak the whole OpenAI dialect, and so is an OpenAI model the table lacks.
    """
    provider = model.partition("/")[0]
    if api_base is not None or provider in _SCHEMA_EVERYWHERE or is_local(model):
        return True
    entry = entry_of(model)
    if entry is None:
        return provider in _DIALECT
    return bool(entry.get("supports_response_schema"))


def entry_of(model: str) -> Mapping[str, Any] | None:
    """Return what the table says of a model, by its whole name or, from its own provider, without it."""
    table = _table()
    if model in table:
        return table[model]
    provider, _, name = model.partition("/")
    entry = table.get(name)
    # Google's models are sold by `vertex_ai-language-models` and the like.
    sold_by = str(entry.get("litellm_provider")) if entry else ""
    return entry if sold_by == provider or sold_by.startswith(f"{provider}-") else None


@cache
def _table() -> dict[str, Mapping[str, Any]]:
    """Read litellm's table once; without litellm there is none."""
    spec = importlib.util.find_spec("litellm")
    file = Path(spec.origin).with_name(_TABLE_FILE) if spec and spec.origin else None
    if file is None or not file.is_file():
        return {}
    entries: dict[str, Any] = json.loads(file.read_bytes())
    return {
        model: {name: value for name, value in entry.items() if _KEPT.fullmatch(name)}
        for model, entry in entries.items()
        if entry.get("mode") in _CHAT_MODES
    }
