"""Where a request of the direct transport goes, and under which key: the same variables litellm reads."""

from __future__ import annotations

import os
import re
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field

from jrh_mlflow.models.local.names import PREFIX
from jrh_mlflow.models.local.server import served
from jrh_mlflow.models.transports._base import TransportError, split_model

OPENAI_BASE = "https://api.openai.com/v1"
NO_KEY = "none"
"""Sent to servers of one's own, which ask for no key."""

_KEYS: Mapping[str, tuple[str, ...]] = {
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
_BASES: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "hosted_vllm": ("HOSTED_VLLM_API_BASE",),
}
_REASONING = re.compile(r"o\d|.*gpt-[56](?!-chat)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """One endpoint, resolved once per model."""

    url: str
    model: str
    """The provider's own name for the model."""
    key: str = field(repr=False)
    proxy: str | None = field(repr=False)
    """From HTTPS_PROXY and its relatives; may hold a password."""
    max_tokens: str
    """The name of the limit: OpenAI's reasoning models refuse `max_tokens`."""

    @property
    def host(self) -> str:
        """Host and port, for texts."""
        return urllib.parse.urlsplit(self.url).netloc.rpartition("@")[2]


def resolve(model: str, api_base: str | None) -> Endpoint:
    """Find address and key of a model.

    Raises:
        TransportError: `auth` when OpenAI's own service would be asked without a key, `bad_request` without an address.
    """
    provider, name = split_model(model)
    provider = provider or "openai"
    base = api_base or first_set(_BASES.get(provider, ())) or (OPENAI_BASE if provider == "openai" else "")
    base = base.rstrip("/")
    if not re.match(r"https?://[^/]", base):
        ways = " or set ".join(("give api_base", *_BASES.get(provider, ())))
        raise TransportError("bad_request", f"{model} needs an address that starts with http:// or https://: {ways}.")
    return Endpoint(
        url=base if base.endswith("/chat/completions") else f"{base}/chat/completions",
        model=name,
        key=find_key(provider, model, has_own_base=base != OPENAI_BASE),
        proxy=_proxy_for(base),
        max_tokens="max_completion_tokens" if provider == "openai" and _REASONING.match(name) else "max_tokens",
    )


def resolve_local(model: str) -> Endpoint:
    """Find the server of a model on this machine, starting it when it does not run; never through a proxy.

    Raises:
        JrhError: when it cannot be served.
    """
    running = served(model)
    name = model.removeprefix(PREFIX)
    return Endpoint(
        url=f"{running.url}/chat/completions", model=name, key=running.key, proxy=None, max_tokens="max_tokens"
    )


def find_key(provider: str, model: str, *, has_own_base: bool) -> str:
    """Return the provider's key; a server of one's own may go without.

    Raises:
        TransportError: `auth`, naming the variable to set.
    """
    names = _KEYS.get(provider, ())
    key = first_set(names)
    if key is None and not has_own_base:
        raise TransportError("auth", f"{model} needs a key: set {' or '.join(names)}.")
    return key or NO_KEY


def first_set(names: tuple[str, ...]) -> str | None:
    """Return the first of these environment variables that holds anything."""
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)


def _proxy_for(base: str) -> str | None:
    parts = urllib.parse.urlsplit(base)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy
