"""The contract both transports keep: a request goes out once, and a response or a `TransportError` comes back."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Literal, get_args

from jrh_mlflow.models.local.names import is_local
from jrh_mlflow.schema.requests import Request, Response
from jrh_mlflow.text import BLANK, SECRET_NAME, blank_secrets, environment_secrets

if TYPE_CHECKING:
    from typing_extensions import Self

FailureKind = Literal[
    "rate_limited", "server", "timeout", "connection", "auth", "bad_request", "not_found", "too_long", "malformed"
]
RETRYABLE: frozenset[str] = frozenset({"rate_limited", "server", "timeout", "connection", "malformed"})
MAX_TEXT = 400
"""Characters kept of what a provider says about a failure."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


OPENAI_DIALECT = _names(
    "openai hosted_vllm vllm openai_like custom_openai lm_studio llamafile deepseek groq together_ai mistral"
    " fireworks_ai openrouter xai"
)
"""litellm's names of providers that speak the OpenAI dialect at their `api_base`."""
OTHER_PROVIDERS = _names(
    "a2a ai21 ai21_chat aiml aiohttp_openai amazon_nova anthropic anthropic_text anyscale azure azure_ai azure_text"
    " baseten bedrock bedrock_converse bedrock_mantle cerebras chatgpt clarifai cloudflare codestral cohere cohere_chat"
    " custom dashscope databricks datarobot deepinfra docker_model_runner featherless_ai friendliai galadriel gemini"
    " gigachat github github_copilot gradient_ai helicone heroku huggingface hyperbolic lambda_ai langgraph lemonade"
    " litellm_proxy maritalk meta_llama minimax modelscope moonshot morph nebius nlp_cloud novita nscale nvidia_nim oci"
    " ollama ollama_chat oobabooga ovhcloud perplexity petals poe predibase publicai ragflow replicate sagemaker"
    " sagemaker_chat sagemaker_nova sambanova sap snowflake text-completion-codestral text-completion-openai triton v0"
    " vercel_ai_gateway vertex_ai vertex_ai_beta volcengine wandb watsonx watsonx_text xinference zai"
)
"""litellm's names of providers that are left to litellm, whatever the address. Any other prefix belongs to the model's
name, as in `Qwen/Qwen2.5-7B-Instruct`."""

_SECRET_TEXT = re.compile(
    r"(?i:bearer)\s+[^\s,;\"']+"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|pplx|fw|nvapi|tgp|csk|sess)[-_][\w*.-]{6,}"
    r"|\bAIza[\w-]{10,}"
    r"|\bAKIA[0-9A-Z]{12,}"
)


class TransportError(Exception):
    """A call that gave no answer: what kind of failure, and whether trying again can help.

    Its text says what the provider said, without control characters and without any key.
    """

    def __init__(
        self, kind: FailureKind, text: str, status: int | None = None, retry_after: float | None = None
    ) -> None:
        if kind not in get_args(FailureKind):
            raise ValueError(f"`kind` must be one of {', '.join(get_args(FailureKind))}, but got {kind!r}.")
        self.kind: FailureKind = kind
        self.text = safe_text(text)
        self.status = status
        self.retry_after = retry_after
        # All four, so that the error survives pickling on its way between processes.
        super().__init__(kind, self.text, status, retry_after)

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind in RETRYABLE

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Transport(ABC):
    """A way to a provider. Opened once per run with `async with`; `send` may be awaited many times at once.

    A transport sends every request exactly once: retries, limits and money belong to the engine.
    """

    name: Literal["direct", "litellm"]

    def __init__(self, *, concurrency: int = 64) -> None:
        """Describe a transport; nothing is opened before `async with`.

        Args:
            concurrency: Requests that are in flight at most, which is the number of connections kept.
        """
        if concurrency < 1:
            raise ValueError(f"`concurrency >= 1` must hold, but got {concurrency=}.")
        self.concurrency = concurrency

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Open what the transport needs."""

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close what the transport opened."""

    @abstractmethod
    async def send(self, request: Request, *, timeout_s: float) -> Response:
        """Send one request and return what came back.

        Args:
            request: What to send.
            timeout_s: Seconds until the whole answer must be there.

        Raises:
            TransportError: There is no answer.
        """


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
    return (provider, name) if slash and provider in OPENAI_DIALECT | OTHER_PROVIDERS else (None, model)


def pick_transport(model: str, api_base: str | None) -> Literal["direct", "litellm"]:
    """Choose the transport for a model.

    The direct transport takes `local/…`, `openai/…` and `hosted_vllm/…`, and with an `api_base` also names without a
    provider and the other providers of `OPENAI_DIALECT`. litellm takes the rest.

    Example:
        >>> pick_transport("openai/gpt-4o-mini", None), pick_transport("groq/llama-3.1-8b-instant", None)
        ('direct', 'litellm')
        >>> pick_transport("my-model", "http://localhost:8000/v1"), pick_transport("ollama_chat/x", "http://localhost:11434")
        ('direct', 'litellm')
    """
    provider, _ = split_model(model)
    if provider in ("openai", "hosted_vllm") or is_local(model):
        return "direct"
    return "direct" if api_base and (provider is None or provider in OPENAI_DIALECT) else "litellm"


def safe_text(text: str) -> str:
    """Return a provider's text on one line, at most `MAX_TEXT` long, with every known key taken out."""
    text = _SECRET_TEXT.sub(BLANK, blank_secrets(text, known_secrets()))
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * MAX_TEXT]).split())
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"


def known_secrets() -> list[str]:
    """Return values that are secret by the name they stand under, in the environment or in litellm's settings."""
    litellm = sys.modules.get("litellm")
    settings = vars(litellm).items() if litellm else ()
    own = [value.strip() for name, value in settings if isinstance(value, str) and SECRET_NAME.search(name)]
    return environment_secrets() + own
