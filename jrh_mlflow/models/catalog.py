"""What is known of providers and models before one is asked, most of it from litellm's files, without importing it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jrh_mlflow.plugins import TRANSPORTS, plugins
from jrh_mlflow.text import blank_secrets

_VARIABLES: Mapping[str, Mapping[str, list[str]]] = json.loads(
    files("jrh_mlflow.models").joinpath("providers.json").read_text(encoding="utf-8")
)
DIALECT_KEYS, KEYS, _ADDRESSES = (
    {provider: tuple(names) for provider, names in _VARIABLES[kind].items()}
    for kind in ("dialect_keys", "keys", "addresses")
)
"""Variables of each provider, by litellm's name of it, as `providers.json` has them.

dialect_keys  providers that speak the OpenAI dialect at their `api_base`, and the variables of their keys
keys          providers that answer nobody without one of these variables; others take credentials in further ways
addresses     providers with other variables than `<PROVIDER>_API_BASE`: those that decide which endpoint answers,
              regions and projects too, in the order in which litellm reads them. `litellm.NAME` is what a program sets
              in litellm itself
"""
OPENAI_DIALECT = frozenset(DIALECT_KEYS)
_PORTS = {"http": ":80", "https": ":443"}
_PROVIDERS = re.compile(r"^class LlmProviders\(.*\n((?:[ \t].*\n|\n)+)", re.MULTILINE)
_MEMBER = re.compile(r"^\s+\w+ = \"([^\"]+)\"", re.MULTILINE)
_CHAT_MODES = frozenset({"chat", "completion", "responses"})
_KEPT = re.compile(
    r"(in|out)put_cost_per_(token|request|reasoning_token)(_above_\d+k_tokens)?|litellm_provider|max_.*"
    r"|supports_(response_schema|reasoning)|cache_read_input_token_cost"
)
DIRECT = ("openai", "hosted_vllm")
"""Providers that are asked without litellm, whether an `api_base` is given or not."""
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
    listed = _PROVIDERS.search(_litellm_file("types/utils.py") or "")
    of_litellm = _MEMBER.findall(listed[1]) if listed else ()
    return OPENAI_DIALECT | {*of_litellm} | {plugin.name for plugin in plugins(TRANSPORTS)}


def address_variables(provider: str) -> tuple[str, ...]:
    """Return the environment variables that decide which endpoint of a provider answers.

    Example:
        >>> address_variables("groq"), address_variables("openai")
        (('GROQ_API_BASE',), ('OPENAI_BASE_URL', 'OPENAI_API_BASE'))
    """
    return _ADDRESSES.get(provider) or (f"{provider.upper().replace('-', '_')}_API_BASE",)


def all_address_variables() -> frozenset[str]:
    """Return the variables that decide which endpoint of some provider answers, those of other packages too."""
    added = (name for plugin in plugins(TRANSPORTS) for name in getattr(plugin.value, "address_variables", ()))
    return frozenset({name for names in _ADDRESSES.values() for name in names if "." not in name} | {*added})


def first_set(names: tuple[str, ...]) -> str | None:
    """Return the first of these environment variables that holds anything."""
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)


def endpoint_of(model: str) -> str | None:
    """Return what this process says about where a model without an `api_base` is asked; None where it says nothing.

    Everything that is set is in it, not just what is read first: too much means that an answer is asked for anew, too
    little that another endpoint's answer is taken for this one's. An address is written in one way, without secrets.

    Example:
        >>> os.environ["OLLAMA_API_BASE"] = "http://me:secret@GPU:80/"
        >>> endpoint_of("ollama_chat/llama3.1")
        'http://gpu'
        >>> del os.environ["OLLAMA_API_BASE"]
    """
    settings = (_public(name, value) for name in variables_of(model) if (value := setting(name)))
    return " ".join(dict.fromkeys(settings)) or None


def variables_of(model: str) -> tuple[str, ...]:
    """Return all variables that decide where a model without an `api_base` is asked."""
    prefix = model.partition("/")[0]
    for plugin in plugins(TRANSPORTS):
        if prefix == plugin.name or prefix in getattr(plugin.value, "providers", ()):
            return tuple(getattr(plugin.value, "address_variables", ()))
    own = address_variables(seller(model))
    if prefix in DIRECT:
        return own
    # litellm then asks its proxy in place of the provider.
    proxied = "true" in (setting("USE_LITELLM_PROXY").lower(), setting("litellm.use_litellm_proxy").lower())
    return (*own, "litellm.api_base", *(("LITELLM_PROXY_API_BASE",) if proxied else ()))


def setting(name: str) -> str:
    """Return a variable of the environment, or of litellm itself; an empty text where it is not set."""
    if not name.startswith("litellm."):
        return os.environ.get(name, "").strip()
    # Where litellm was not imported, nothing was set in it.
    return str(getattr(sys.modules.get("litellm"), name.removeprefix("litellm."), None) or "").strip()


@lru_cache(maxsize=256)
def seller(model: str) -> str:
    """Return the provider of a model; that of a bare name is looked up, as litellm does."""
    provider, name = split_model(model)
    sold_by = str((_table().get(name) or {}).get("litellm_provider", "openai"))
    return provider or (sold_by if sold_by in _ADDRESSES else sold_by.partition("-")[0])


@lru_cache(maxsize=256)
def _public(name: str, value: str) -> str:
    """Return an address without user, password and query, or a region by its name."""
    scheme, _, rest = value.rpartition("://")
    try:
        parts = urlsplit(f"//{rest}")
    except ValueError:
        return f"{name}={_digest(value)}"
    host = parts.netloc.rpartition("@")[2].lower().removesuffix(_PORTS.get(scheme.lower(), " "))
    # A query may hold a key, and may decide who answers: its digest tells two apart and shows neither.
    query = f"?{_digest(parts.query)}" if parts.query else ""
    shown = blank_secrets(f"{host}{parts.path.rstrip('/')}") + query
    return f"{scheme.lower()}://{shown}" if scheme else f"{name}={shown}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def context_window(model: str) -> int | None:
    """Return the most input tokens a model takes, or None when the table does not say."""
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
    if api_base is not None or provider in _SCHEMA_EVERYWHERE:
        return True
    entry = entry_of(model)
    if entry is None:
        return provider in DIRECT
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
