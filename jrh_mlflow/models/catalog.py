"""What is known of providers and models before one is asked, most of it from litellm's files, without importing it."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jrh_mlflow.models.local.server import context_tokens
from jrh_mlflow.models.local.weights import is_local
from jrh_mlflow.plugins import TRANSPORTS, plugins

DIALECT_KEYS: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "custom_openai": ("OPENAI_API_KEY",),
    "hosted_vllm": ("HOSTED_VLLM_API_KEY",),
    "vllm": ("HOSTED_VLLM_API_KEY",),
    "openai_like": ("OPENAI_LIKE_API_KEY",),
    "lm_studio": ("LM_STUDIO_API_KEY",),
    "llamafile": ("LLAMAFILE_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "together_ai": ("TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHERAI_API_KEY", "TOGETHER_AI_TOKEN"),
    "mistral": ("MISTRAL_API_KEY",),
    "fireworks_ai": ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY", "FIREWORKSAI_API_KEY", "FIREWORKS_AI_TOKEN"),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "xai": ("XAI_API_KEY",),
}
"""litellm's names of providers that speak the OpenAI dialect at their `api_base`, and the variables of their keys."""
OPENAI_DIALECT = frozenset(DIALECT_KEYS)
_PROVIDERS = re.compile(r"^class LlmProviders\(.*\n((?:[ \t].*\n|\n)+)", re.MULTILINE)
_MEMBER = re.compile(r"^\s+\w+ = \"([^\"]+)\"", re.MULTILINE)
_CHAT_MODES = frozenset({"chat", "completion", "responses"})
_KEPT = re.compile(
    r"(in|out)put_cost_per_(token|request|reasoning_token)(_above_\d+k_tokens)?|litellm_provider|max_.*"
    r"|supports_(response_schema|reasoning)"
)
_DIALECT = ("openai", "hosted_vllm")
_SCHEMA_EVERYWHERE = ("predibase", "fireworks_ai", "lm_studio", "nebius", "databricks", "hosted_vllm")
"""Providers whose every model takes a JSON schema."""


def split_model(model: str) -> tuple[str | None, str]:
    """Split a litellm model name into the provider and the provider's own name for the model.

    A prefix that is no provider stays part of the name.

    Example:
        >>> split_model("hosted_vllm/meta-llama/Llama-3")
        ('hosted_vllm', 'meta-llama/Llama-3')
        >>> split_model("Qwen/Qwen2.5-7B-Instruct")
        (None, 'Qwen/Qwen2.5-7B-Instruct')
    """
    provider, slash, name = model.partition("/")
    return (provider, name) if slash and provider in provider_names() else (None, model)


@cache
def provider_names() -> frozenset[str]:
    """Return the prefixes that are providers: litellm's, and those of other packages' transports.

    Any other prefix belongs to the model's name, as in `Qwen/Qwen2.5-7B-Instruct`.
    """
    found = _PROVIDERS.search(_litellm_file("types/utils.py") or "")
    of_litellm = _MEMBER.findall(found[1]) if found else ()
    return OPENAI_DIALECT | {*of_litellm} | {plugin.name for plugin in plugins(TRANSPORTS)}


def context_window(model: str) -> int | None:
    """Return the most input tokens a model takes, or None when the table does not say."""
    if is_local(model):
        return context_tokens()
    entry = entry_of(model) or {}
    for name in ("max_input_tokens", "max_tokens"):
        if isinstance(tokens := entry.get(name), int) and tokens > 0:
            return tokens
    return None


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


def reasons(model: str) -> bool:
    """Tell whether the table says that a model thinks before it answers."""
    return bool((entry_of(model) or {}).get("supports_reasoning"))


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
    entries: dict[str, Any] = json.loads(_litellm_file("model_prices_and_context_window_backup.json") or "{}")
    return {
        model: {name: value for name, value in entry.items() if _KEPT.fullmatch(name)}
        for model, entry in entries.items()
        if entry.get("mode") in _CHAT_MODES
    }


def _litellm_file(name: str) -> str | None:
    """Read a file of the installed litellm, which takes seconds to import."""
    spec = importlib.util.find_spec("litellm")
    file = Path(spec.origin).parent / name if spec and spec.origin else None
    return file.read_text(encoding="utf-8") if file and file.is_file() else None
