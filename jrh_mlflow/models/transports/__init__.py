"""Transports to a provider: aiohttp straight to OpenAI-dialect endpoints, litellm to everything else, and plugins.

Another package adds a transport by an entry point of the group `jrh.transports`, whose value is a `Transport` class:
it takes the models that begin with the entry point's name, as in `acme/large`, and with the class's `providers`.
"""

from __future__ import annotations

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.models.catalog import DIRECT, OPENAI_DIALECT, split_model
from jrh_mlflow.models.transports._base import RETRYABLE as RETRYABLE
from jrh_mlflow.models.transports._base import FailureKind as FailureKind
from jrh_mlflow.models.transports._base import Transport as Transport
from jrh_mlflow.models.transports._base import TransportError as TransportError
from jrh_mlflow.models.transports._base import known_secrets as known_secrets
from jrh_mlflow.models.transports._base import safe_text as safe_text
from jrh_mlflow.models.transports.direct import DirectTransport as DirectTransport
from jrh_mlflow.models.transports.litellm import LiteLLMTransport as LiteLLMTransport
from jrh_mlflow.models.transports.service import PREFIX as SERVICE
from jrh_mlflow.models.transports.service import ServiceTransport as ServiceTransport
from jrh_mlflow.models.trust import check_address
from jrh_mlflow.plugins import TRANSPORTS, plugins

_BUILT_IN: dict[str, type[Transport]] = {
    "direct": DirectTransport,
    "litellm": LiteLLMTransport,
    "service": ServiceTransport,
}


def what_is_missing(model: str, api_base: str | None) -> str | None:
    """Say what must be set before a model can be asked, such as a key; None where nothing is known to lack.

    Raises:
        RecipeError: when the key may not go to the address.
    """
    name = pick_transport(model, api_base)
    if api_base and name not in _BUILT_IN:
        # Nobody knows which keys a transport of another package sends.
        check_address(api_base)
    return _transport_class(name).missing(model, api_base)


def make_transport(name: str, *, concurrency: int = 64) -> Transport:
    """Return a transport by its name; open it with `async with`.

    Raises:
        RecipeError: for a name that nobody has, and for a plugin that is none.
    """
    return _transport_class(name)(concurrency=concurrency)


def _transport_class(name: str) -> type[Transport]:
    added = {plugin.name: plugin for plugin in plugins(TRANSPORTS)}
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    if name not in added:
        known = [*_BUILT_IN, *added]
        raise RecipeError(f"Unknown transport {name!r}.{suggest(name, known)} Known: {', '.join(known)}.")
    plugin = added[name]
    if not (isinstance(plugin.value, type) and issubclass(plugin.value, Transport)):
        raise RecipeError(plugin.error or f"The transport {name!r} of {plugin.distribution} is no `Transport` class.")
    return plugin.value


def pick_transport(model: str, api_base: str | None) -> str:
    """Choose the transport for a model: another package's that claims it, or one of ours.

    The direct transport takes `openai/…` and `hosted_vllm/…`, and with an `api_base` also names without a
    provider and the other providers of `OPENAI_DIALECT`. litellm takes the rest.

    Example:
        >>> pick_transport("openai/gpt-4o-mini", None), pick_transport("groq/llama-3.1-8b-instant", None)
        ('direct', 'litellm')
        >>> pick_transport("my-model", "http://localhost:8000/v1"), pick_transport("ollama_chat/x", "http://localhost:11434")
        ('direct', 'litellm')
    """
    if model.startswith(SERVICE):
        return "service"
    prefix = model.partition("/")[0]
    for plugin in plugins(TRANSPORTS):
        if prefix == plugin.name or prefix in getattr(plugin.value, "providers", ()):
            return plugin.name
    provider, _ = split_model(model)
    if provider in DIRECT:
        return "direct"
    return "direct" if api_base and (provider is None or provider in OPENAI_DIALECT) else "litellm"
