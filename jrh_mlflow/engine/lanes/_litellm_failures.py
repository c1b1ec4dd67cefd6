"""litellm's exceptions, read down to what the provider or the network really said.

litellm sorts failures by words in their text and reports several of them under another status: an unreadable body and a
cut connection as 500, a 403 as a bad request. The exception it started from is still at the end of the chain; that one
is read first, so that both lanes give the same kind for the same failure.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping

from jrh_mlflow.engine.lanes._base import Kind, LaneError
from jrh_mlflow.engine.lanes._failures import error_inside_200, kind_of, read_error, retry_after
from jrh_mlflow.schema.requests import Response

_UNREADABLE = re.compile("Empty or invalid response|Invalid response object|provider returned|Unable to get json")
_NO_PROVIDER = "LLM Provider NOT provided"
_NO_CREDENTIALS = re.compile(
    r"missing credentials|missing .*api key|credentials were not found|unable to locate credentials"
    r"|api_key client option must be set",
    re.IGNORECASE,
)
_DATA_ERRORS = (json.JSONDecodeError, RecursionError, TypeError, KeyError, AttributeError, IndexError)
_KNOWN_BY_NAME: Mapping[str, Kind] = {
    "AuthenticationError": "auth",
    "PermissionDeniedError": "auth",
    "ContextWindowExceededError": "too_long",
}
"""Where litellm knows the words of each provider and a status alone says less: Google answers a wrong key with 400."""


def read_failure(error: Exception, model: str) -> Response:
    """Return the answer that a litellm exception stands for, where it stands for one (see `read_error`).

    Raises:
        LaneError: In every other case.
    """
    links = list(_chain(error))
    name = type(error).__name__
    if name == "ContentPolicyViolationError":
        return Response(text=None, finish_reason="content_filter")
    if (answer := _http_answer(links)) is not None:
        return read_error(*answer, kind=_KNOWN_BY_NAME.get(name))
    raise _network_failure(links) or _own_failure(links, model) or _sorted_by_litellm(error)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those it came from; litellm sets no cause, so the context counts."""
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
                raw = str(links[0]).encode("utf-8", "replace")
            return link.response.status_code, link.response.headers, raw
    return None


def _network_failure(links: list[BaseException]) -> LaneError | None:
    import aiohttp
    import httpx

    known: dict[Kind, tuple[type[BaseException], ...]] = {
        "bad_request": (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL),
        "timeout": (httpx.TimeoutException, asyncio.TimeoutError),
        "connection": (httpx.TransportError, aiohttp.ClientError, ConnectionError),
    }
    for kind, types in known.items():
        if any(isinstance(link, types) for link in links):
            return LaneError(kind, str(links[0]))
    return None


def _own_failure(links: list[BaseException], model: str) -> LaneError | None:
    """Tell apart what litellm itself found: no provider, no key, a missing package, an answer it cannot read."""
    text, root = str(links[0]).partition("Traceback")[0], links[-1]
    if _NO_PROVIDER in text:
        advice = "Write provider/model, or openai/model with api_base for a server of your own"
        return LaneError("not_found", f"litellm knows no provider for {model}. {advice}.")
    if _NO_CREDENTIALS.search(text):
        return LaneError("auth", text)
    if any(isinstance(link, ImportError) for link in links):
        return LaneError("bad_request", f"litellm needs another package for {model}: {text}")
    if type(root) is Exception and hasattr(root, "status_code"):
        return error_inside_200({"code": root.status_code, "message": getattr(root, "message", text)})
    refused = (_status(links[0]) or 500) < 500
    if not refused and (_UNREADABLE.search(text) or any(isinstance(link, _DATA_ERRORS) for link in links[1:])):
        return LaneError("malformed", f"litellm cannot read the answer: {text}", 200)
    return None


def _sorted_by_litellm(error: Exception) -> LaneError:
    """Fall back on litellm's own sorting, for providers whose client does not speak HTTP through httpx."""
    status, text = _status(error), f"{type(error).__name__}: {error}"
    known: dict[str, Kind] = {"Timeout": "timeout", "APIConnectionError": "connection", **_KNOWN_BY_NAME}
    kind = known.get(type(error).__name__) or kind_of(status or 500, "", text)
    return LaneError(kind, text, status, retry_after(getattr(error, "litellm_response_headers", None) or {}))


def _status(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) and status >= 400 else None
