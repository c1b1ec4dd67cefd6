"""The litellm lane: every provider litellm knows, with its retries, its telemetry and its look-ups turned off.

What litellm hands out it has normalised: a finish reason it knows under another name comes as OpenAI's, and a missing
one as `stop`.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jrh_mlflow.engine.lanes._addresses import find_key
from jrh_mlflow.engine.lanes._base import OPENAI_DIALECT, Lane, LaneError, split_model
from jrh_mlflow.engine.lanes._dialect import read_completion, request_fields
from jrh_mlflow.engine.lanes._litellm_failures import read_failure
from jrh_mlflow.judges.answers import clean_text
from jrh_mlflow.schema.requests import Request, Response

if TYPE_CHECKING:
    from typing_extensions import Self

_CLIENT_TIMEOUT_S = 3600.0
"""litellm keeps one client per timeout, so it always gets the same one; the lane's own clock ends a call."""
_FLUSH_TIMEOUT_S = 5.0
_HARMLESS = ("Pydantic serializer warnings", ".*`ReadOnly` qualifier.*", ".*conflict with protected namespace.*")


class LiteLLMLane(Lane):
    """Calls `litellm.acompletion` once per request."""

    name = "litellm"

    async def __aenter__(self) -> Self:
        self._litellm = load_litellm()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _finish_logging()
        await _close_clients(self._litellm)

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        """Send one request; see `Lane.send`."""
        arguments = self._arguments(request)
        failure: Exception | None = None
        try:
            completion = await asyncio.wait_for(self._litellm.acompletion(**arguments), timeout_s)
        except asyncio.TimeoutError:
            pass
        except Exception as error:
            failure = error
        else:
            return read_completion(as_dialect(completion))
        # Raised out here, so that no exception of litellm, with a key in it, hangs on as context.
        if failure is None:
            raise LaneError("timeout", f"{request.model} gave no answer within {timeout_s:g} s.")
        return read_failure(failure, request.model)

    def _arguments(self, request: Request) -> dict[str, Any]:
        provider, _ = split_model(request.model)
        arguments = request_fields(request)
        if provider in OPENAI_DIALECT:
            if request.extra:
                arguments["extra_body"] = dict(request.extra)
            if request.api_base:
                arguments["api_key"] = find_key(provider, request.model, has_own_base=True)
        else:
            self._refuse_controls(request)
            arguments |= request.extra
        if request.api_base:
            arguments["api_base"] = request.api_base
        return {
            **arguments,
            "model": request.model,
            "messages": [{name: clean_text(text) for name, text in message.items()} for message in request.messages],
            "timeout": _CLIENT_TIMEOUT_S,
            "max_retries": 0,
            "num_retries": 0,
            "drop_params": False,
        }

    def _refuse_controls(self, request: Request) -> None:
        """Refuse fields that litellm would take as orders to itself: fallbacks, caches, mock answers."""
        owned = self._litellm.types.utils.all_litellm_params
        if wrong := sorted(name for name in request.extra if name in owned):
            text = f"`extra` is for the provider, but {', '.join(wrong)} would be taken by litellm itself."
            raise LaneError("bad_request", text)


def load_litellm() -> Any:
    """Import litellm without its network look-ups, and quieten it."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.drop_params = False
    for message in _HARMLESS:
        warnings.filterwarnings("ignore", message=message, category=UserWarning)
    return litellm


def as_dialect(completion: Any) -> dict[str, Any]:
    """Return litellm's object as a body of the dialect, with only what `read_completion` reads: a dump is slow."""
    usage = getattr(completion, "usage", None)
    return {
        "model": completion.model,
        "choices": [_choice(choice) for choice in completion.choices[:1]],
        "usage": usage and {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens},
    }


def _choice(choice: Any) -> dict[str, Any]:
    message = choice.message
    extras = getattr(message, "provider_specific_fields", None) or {}
    logprobs: Any = getattr(choice, "logprobs", None)
    refusal = getattr(message, "refusal", None) or extras.get("refusal")
    return {
        "finish_reason": choice.finish_reason,
        "message": {"content": message.content, "refusal": refusal},
        "logprobs": logprobs.model_dump() if hasattr(logprobs, "model_dump") else logprobs,
    }


async def _finish_logging() -> None:
    """Let litellm's logging worker finish what this loop gave it, or its coroutines are never awaited."""
    worker: Any = importlib.import_module("litellm.litellm_core_utils.logging_worker").GLOBAL_LOGGING_WORKER
    if getattr(worker, "_bound_loop", None) is not asyncio.get_running_loop():
        return
    try:
        await asyncio.wait_for(worker.flush(), _FLUSH_TIMEOUT_S)
    except asyncio.TimeoutError:
        warnings.warn("litellm's logging callbacks did not finish in time; some were dropped.", stacklevel=2)
    await worker.stop()


async def _close_clients(litellm: Any) -> None:
    """Close the clients litellm keeps for this loop, and only those: other threads may be using theirs."""
    clients = litellm.in_memory_llm_clients_cache
    suffix = f"-{id(asyncio.get_running_loop())}"
    for key in [key for key in clients.cache_dict if key.endswith(suffix)]:
        client = clients.cache_dict.pop(key)
        clients.ttl_dict.pop(key, None)
        close = getattr(client, "close", None) or getattr(client, "aclose", None)
        if inspect.iscoroutinefunction(close):
            await close()
