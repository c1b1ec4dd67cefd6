"""The litellm transport: every provider litellm knows, with its retries, its telemetry and its look-ups turned off.

What litellm hands out it has normalised: a finish reason it knows under another name comes as OpenAI's, and a missing
one as `stop`. Failures it sorts by words in their text and reports several of them under another status: an unreadable
body and a cut connection as 500, a 403 as a bad request. The exception it started from is still at the end of the
chain; that one is read first, so that both transports give the same kind for the same failure.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import re
import sys
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import JrhWarning
from jrh_mlflow.models.catalog import (
    DIALECT_KEYS,
    KEYS,
    OPENAI_DIALECT,
    endpoint_of,
    first_set,
    seller,
    setting,
    split_model,
    variables_of,
)
from jrh_mlflow.models.redirects import no_redirects, stay
from jrh_mlflow.models.transports import dialect
from jrh_mlflow.models.transports._base import (
    MAX_HEADER,
    PACKINGS,
    BodyError,
    FailureKind,
    Transport,
    TransportError,
    bounded,
)
from jrh_mlflow.models.transports.direct import connect_s, find_key, never_connected
from jrh_mlflow.models.trust import check_address
from jrh_mlflow.schema.requests import Request, Response
from jrh_mlflow.text import blank_secrets, clean_data, clean_text

if TYPE_CHECKING:
    import httpx
    from typing_extensions import Self


_CLIENT_TIMEOUT_S = 3600.0
"""litellm keeps one client per timeout, so it always gets the same one; the transport's own clock ends a call."""
_FLUSH_TIMEOUT_S = 5.0


class _Answer:
    """What came back over HTTP while a request of ours is sent."""

    whole: tuple[int, Mapping[str, str], bytes] | None = None
    """Status, headers and body, where all of the body came."""
    problem: Exception | None = None
    """What broke on the way; litellm does not always hand it on, and calls it an outage."""


_BOUNDED: ContextVar[_Answer | None] = ContextVar("jrh_bounded", default=None)
"""Set while a request of ours is sent."""
_NO_LOGIN = ("ollama", "ollama_chat")
"""Providers that are servers of one's own, and get no key of another."""
_LISTENERS = ("callbacks", "success_callback", "failure_callback", "_async_success_callback", "_async_failure_callback")
_HARMLESS = ("Pydantic serializer warnings", ".*`ReadOnly` qualifier.*", ".*conflict with protected namespace.*")


class LiteLLMTransport(Transport):
    """Calls `litellm.acompletion` once per request."""

    @classmethod
    def missing(cls, model: str, api_base: str | None) -> str | None:
        """Name the key that is missing, of providers that are known to take it from the environment alone."""
        check_key(model, api_base)
        names = KEYS.get(seller(model), ())
        if not names or first_set(names) or api_base or endpoint_of(model) or _has_own_keys():
            return None
        return f"{model} needs a key: set {' or '.join(names[:2])}."

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *details: Any) -> None:
        # Loaded with the first request: a run whose answers are all in the journal does without.
        if "_litellm" in vars(self):
            await _finish_logging()
            await _close_clients(self._litellm)

    @cached_property
    def _litellm(self) -> Any:
        return load_litellm()

    @cached_property
    def _unlogged(self) -> ContextVar[bool] | None:
        return _unlogged(self._litellm)

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        """Send one request; see `Transport.send`."""
        _demand_hook(self._litellm, request.model)
        arguments = self._arguments(request, timeout_s)
        failure: Exception | None = None
        # In the context of this call: other calls of litellm in the process go on without a limit.
        answer = _Answer()
        token = _BOUNDED.set(answer)
        unlogged = self._unlogged.set(True) if self._unlogged else None
        try:
            # Some providers fetch a token first, or are asked, through httpx's own.
            with no_redirects():
                completion = await asyncio.wait_for(self._litellm.acompletion(**arguments), timeout_s)
        except asyncio.TimeoutError:
            pass
        except Exception as error:
            failure = error
        else:
            return dialect.read_completion({**as_dialect(completion), **_own_usage(answer)})
        finally:
            _BOUNDED.reset(token)
            if self._unlogged and unlogged:
                self._unlogged.reset(unlogged)
        # Raised out here, so that no exception of litellm, with a key in it, hangs on as context.
        if failure is None:
            raise TransportError("timeout", f"{request.model} gave no answer within {timeout_s:g} s.")
        return read_failure(failure, request.model, answer)

    def _arguments(self, request: Request, timeout_s: float) -> dict[str, Any]:
        import httpx

        provider, _ = split_model(request.model)
        check_key(request.model, request.api_base)
        arguments = dialect.request_fields(request)
        if provider in OPENAI_DIALECT:
            extra = dict(request.extra)
            if provider == "openai" and "response_format" in arguments:
                # Sent as it is: else litellm and OpenAI's client walk through every node of it, for each call.
                extra = {"response_format": arguments.pop("response_format"), **extra}
            if extra:
                arguments["extra_body"] = extra
            if request.api_base:
                arguments["api_key"] = find_key(provider, request.model, has_own_base=True)
        else:
            self._refuse_controls(request)
            # Some providers take an address there.
            for value in request.extra.values():
                if isinstance(value, str) and "/" in value:
                    check_address(value)
            arguments |= request.extra
        if request.api_base:
            arguments["api_base"] = request.api_base
        return {
            **arguments,
            "model": request.model,
            "messages": clean_data([dict(message) for message in request.messages])[0],
            "timeout": httpx.Timeout(_CLIENT_TIMEOUT_S, connect=connect_s(timeout_s)),
            # Each attempt must be booked and must hold a slot: retries are the engine's.
            "max_retries": 0,
            "num_retries": 0,
            # A parameter that a provider does not take must fail, or the run would claim that it was used.
            "drop_params": False,
        }

    def _refuse_controls(self, request: Request) -> None:
        """Refuse fields that litellm would take as orders to itself: fallbacks, caches, mock answers."""
        owned = self._litellm.types.utils.all_litellm_params
        if wrong := sorted(name for name in request.extra if name in owned):
            text = f"`extra` is for the provider, but {', '.join(wrong)} would be taken by litellm itself."
            raise TransportError("bad_request", text)


def check_key(model: str, api_base: str | None) -> None:
    """Refuse an address that may not get the key which litellm would send there.

    Raises:
        RecipeError: as `check_address` does.
    """
    provider, variables = seller(model), variables_of(model)
    # Where litellm finds no key of a provider that speaks OpenAI's dialect, it takes OpenAI's.
    names = (*KEYS.get(provider, ()), *DIALECT_KEYS.get(provider, ()), "OPENAI_API_KEY")
    names = ("OLLAMA_API_KEY",) if provider in _NO_LOGIN else names
    # Of the others credentials come in many ways: files, roles, metadata servers.
    is_known = provider in {*KEYS, *DIALECT_KEYS, *_NO_LOGIN}
    has_key = not is_known or first_set(names) or _has_own_keys()
    for address in [api_base] if api_base else filter(None, map(setting, variables)):
        if has_key or blank_secrets(address) != address:
            check_address(address, own=variables)


def _has_own_keys() -> bool:
    """Whether a program has set keys in litellm itself, or a manager that it asks for them."""
    litellm = sys.modules.get("litellm")
    settings = vars(litellm).items() if litellm else ()
    keys = (value for name, value in settings if name.endswith("_key") and isinstance(value, str))
    return any(keys) or getattr(litellm, "secret_manager_client", None) is not None


def load_litellm() -> Any:
    """Import litellm without its network look-ups, and quieten it."""
    # Before the import, which else fetches the table of prices from the network.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.drop_params = False
    for message in _HARMLESS:
        warnings.filterwarnings("ignore", message=message, category=UserWarning)
    _bound_bodies()
    return litellm


@cache
def _bound_bodies() -> None:
    """Have litellm's client read no body of ours without a limit and follow no redirect with a request of ours.

    Other calls in this process go on as they did; `_demand_hook` refuses a litellm that asks in another way.
    """
    import httpx

    module: Any = importlib.import_module("litellm.llms.custom_httpx.aiohttp_transport")
    ask = module.LiteLLMAiohttpTransport.handle_async_request

    class Body(httpx.AsyncByteStream):
        def __init__(self, response: httpx.Response) -> None:
            stream, packing = response.stream, response.headers.pop("Content-Encoding", "")
            assert isinstance(stream, httpx.AsyncByteStream)
            self._stream, self._pieces = stream, bounded(stream, packing, cut=response.status_code >= 300)
            self._answer, self._head = _BOUNDED.get() or _Answer(), (response.status_code, response.headers)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            read = []
            try:
                async for piece in self._pieces:
                    read.append(piece)
                    yield piece
            except Exception as error:
                self._answer.problem = error
                raise
            self._answer.whole = (*self._head, b"".join(read))

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def handle_async_request(self: Any, request: httpx.Request) -> httpx.Response:
        if (answer := _BOUNDED.get()) is not None:
            # A provider may be asked for a token first: what counts is the last answer.
            answer.whole = answer.problem = None
            request.headers["Accept-Encoding"] = PACKINGS
            with suppress(AttributeError):  # where it has another name, aiohttp's own limit holds
                self._get_valid_client_session()._max_field_size = MAX_HEADER
        try:
            response: httpx.Response = await ask(self, request)
        except Exception as error:
            if answer is not None:
                answer.problem = error
            raise
        if answer is not None:
            response.stream = Body(response)
        return stay(response)

    module.LiteLLMAiohttpTransport.handle_async_request = handle_async_request


def _demand_hook(litellm: Any, model: str) -> None:
    """Refuse to send what would not pass through `_bound_bodies`."""
    handler: Any = importlib.import_module("litellm.llms.custom_httpx.http_handler").AsyncHTTPHandler
    sessions = any(getattr(litellm, name, None) is not None for name in ("aclient_session", "client_session"))
    if sessions or split_model(model)[0] == "aiohttp_openai" or not handler._should_use_aiohttp_transport():
        raise TransportError(
            "bad_request",
            f"litellm would ask {model} by a client of its own, which follows redirects and reads bodies of any size. "
            "Leave litellm's aiohttp transport on (disable_aiohttp_transport, LITELLM_HTTP2, client_session).",
        )


def _unlogged(litellm: Any) -> ContextVar[bool] | None:
    """Return what tells litellm not to log a call; None where somebody listens, or in a litellm that has no such mark.

    Its log takes a tenth of a call's time, with nobody to read it.
    """
    if any(getattr(litellm, name, None) for name in _LISTENERS):
        return None
    try:
        mark: ContextVar[bool] = importlib.import_module("litellm._internal_context").is_internal_call
    except (ImportError, AttributeError):
        return None
    return mark


def as_dialect(completion: Any) -> dict[str, Any]:
    """Return litellm's object as a body of the dialect, with only what `read_completion` reads: a dump is slow."""
    usage = getattr(completion, "usage", None)
    return {
        "model": completion.model,
        "system_fingerprint": getattr(completion, "system_fingerprint", None),
        "choices": [_choice(choice) for choice in completion.choices[:1]],
        # Not litellm's own reckoning of the cost: that is its table again, not the provider's bill.
        "usage": usage and {name: _plain(getattr(usage, name, None)) for name in dialect.USAGE_FIELDS},
    }


def _own_usage(answer: _Answer) -> dict[str, Any]:
    """Return the usage of a body that speaks the dialect itself: litellm makes numbers of what is none, or missing."""
    body = None
    with suppress(ValueError):
        body = dialect.decode(answer.whole[2]) if answer.whole else None
    return {"usage": body.get("usage")} if isinstance(body, Mapping) and "choices" in body else {}


def _plain(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else value


def _choice(choice: Any) -> dict[str, Any]:
    message = choice.message
    extras = getattr(message, "provider_specific_fields", None) or {}
    refusal = getattr(message, "refusal", None) or extras.get("refusal")
    return {
        "finish_reason": choice.finish_reason,
        "message": {
            "content": message.content,
            "refusal": refusal,
            "tool_calls": [_plain(call) for call in getattr(message, "tool_calls", None) or ()],
        },
        "logprobs": _plain(getattr(choice, "logprobs", None)),
    }


async def _finish_logging() -> None:
    """Let litellm's logging worker finish what this loop gave it, or its coroutines are never awaited."""
    worker: Any = importlib.import_module("litellm.litellm_core_utils.logging_worker").GLOBAL_LOGGING_WORKER
    if getattr(worker, "_bound_loop", None) is not asyncio.get_running_loop():
        return
    try:
        await asyncio.wait_for(worker.flush(), _FLUSH_TIMEOUT_S)
    except asyncio.TimeoutError:
        warnings.warn(
            "litellm's logging callbacks did not finish in time; some were dropped.", JrhWarning, stacklevel=2
        )
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


_UNREADABLE = re.compile("Empty or invalid response|Invalid response object|provider returned|Unable to get json")
_NO_PROVIDER = "LLM Provider NOT provided"
_NO_CREDENTIALS = re.compile(
    r"missing credentials|missing .*api key|credentials were not found|unable to locate credentials"
    r"|api_key client option must be set",
    re.IGNORECASE,
)
_DATA_ERRORS = (json.JSONDecodeError, RecursionError, TypeError, KeyError, AttributeError, IndexError)
_KNOWN_BY_NAME: Mapping[str, FailureKind] = {
    "AuthenticationError": "auth",
    "PermissionDeniedError": "auth",
    "ContextWindowExceededError": "too_long",
}
"""Where litellm knows the words of each provider and a status alone says less: Google answers a wrong key with 400."""


def read_failure(error: Exception, model: str, http: _Answer | None = None) -> Response:
    """Return the answer that a litellm exception stands for, where it stands for one (see `read_error`).

    Args:
        error: What litellm raised.
        model: That was asked.
        http: What came back, where it is known: litellm calls an answer that it cannot read an outage.

    Raises:
        TransportError: In every other case.
    """
    http = http or _Answer()
    body = http.whole[2] if http.whole and http.whole[0] < 300 else None
    if body is not None and split_model(model)[0] in OPENAI_DIALECT:
        return dialect.read_http(200, {}, body)
    links = [*_chain(error), *(_chain(http.problem) if http.problem else ())]
    name = type(error).__name__
    answer = _http_answer(links) or (http.whole if body is None else None)
    if name == "ContentPolicyViolationError":
        return Response(text=None, finish_reason="content_filter", **dialect.usage_in(answer[2] if answer else b""))
    if large := next((link for link in links if isinstance(link, BodyError)), None):
        raise TransportError("malformed", str(large), 200)
    if answer is not None:
        return dialect.read_error(*answer, kind=_KNOWN_BY_NAME.get(name))
    if body is not None:
        text = f"litellm cannot read the answer: {str(error).partition('Traceback')[0]}"
        raise TransportError("malformed", text, 200, usage=dialect.billed(dialect.usage_in(body)))
    raise _network_failure(links) or _own_failure(links, model) or _sorted_by_litellm(error)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those it came from; litellm sets no cause, so the context counts."""
    # Contexts may form a ring.
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _http_answer(links: list[BaseException]) -> tuple[int, Mapping[str, str], bytes] | None:
    """Return status, headers and body of the HTTP error at the root, if there was one."""
    import httpx

    for link in links:
        if isinstance(link, httpx.HTTPStatusError):
            try:
                raw = link.response.content
            except httpx.ResponseNotRead:
                raw = clean_text(str(links[0])).encode()
            return link.response.status_code, link.response.headers, raw
    return None


def _network_failure(links: list[BaseException]) -> TransportError | None:
    import aiohttp
    import httpx

    if _is_unreachable(links):
        return TransportError("unreachable", str(links[0]))
    known: dict[FailureKind, tuple[type[BaseException], ...]] = {
        # The head of an answer that is longer than litellm's client takes: it was answered, and is billed.
        "malformed": (aiohttp.ClientResponseError,),
        "bad_request": (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL),
        "timeout": (httpx.TimeoutException, asyncio.TimeoutError),
        "connection": (httpx.TransportError, aiohttp.ClientError, ConnectionError),
    }
    for kind, types in known.items():
        if any(isinstance(link, types) for link in links):
            return TransportError(kind, str(links[0]))
    return None


def _is_unreachable(links: list[BaseException]) -> bool:
    """Whether no connection was made.

    litellm's transport turns a connection that broke into httpx's `ConnectError`, too: what aiohttp said comes first.
    """
    import aiohttp
    import httpx

    if any(isinstance(link, never_connected()) for link in links):
        return True
    broke = any(isinstance(link, aiohttp.ClientError | asyncio.CancelledError) for link in links)
    return not broke and any(
        isinstance(link, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError) for link in links
    )


def _own_failure(links: list[BaseException], model: str) -> TransportError | None:
    """Tell apart what litellm itself found: no provider, no key, a missing package, an answer it cannot read."""
    text, root = str(links[0]).partition("Traceback")[0], links[-1]
    if _NO_PROVIDER in text:
        advice = "Write provider/model, or openai/model with api_base for a server of your own"
        return TransportError("not_found", f"litellm knows no provider for {model}. {advice}.")
    if _NO_CREDENTIALS.search(text):
        return TransportError("auth", text)
    if any(isinstance(link, ImportError) for link in links):
        return TransportError("bad_request", f"litellm needs another package for {model}: {text}")
    if type(root) is Exception and hasattr(root, "status_code"):
        return dialect.error_inside_200({"code": root.status_code, "message": getattr(root, "message", text)})
    refused = (_status(links[0]) or 500) < 500
    if not refused and (_UNREADABLE.search(text) or any(isinstance(link, _DATA_ERRORS) for link in links[1:])):
        return TransportError("malformed", f"litellm cannot read the answer: {text}", 200)
    return None


def _sorted_by_litellm(error: Exception) -> TransportError:
    """Fall back on litellm's own sorting, for providers whose client does not speak HTTP through httpx."""
    status, text = _status(error), f"{type(error).__name__}: {error}"
    known: dict[str, FailureKind] = {"Timeout": "timeout", "APIConnectionError": "connection", **_KNOWN_BY_NAME}
    # Without a status nobody knows how far the call came: it may have been billed.
    kind = known.get(type(error).__name__) or ("connection" if status is None else dialect.kind_of(status, "", text))
    return TransportError(
        kind, text, status, dialect.retry_after(getattr(error, "litellm_response_headers", None) or {})
    )


def _status(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) and status >= 400 else None
