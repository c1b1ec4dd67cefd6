"""Redirects: none is followed with a prompt or a key of ours, whichever library sends them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx
    import requests

_STAYING: ContextVar[bool] = ContextVar("jrh_no_redirects", default=False)


@contextmanager
def no_redirects() -> Iterator[None]:
    """Let no client of httpx or requests follow a redirect inside the block; other calls go on as they did."""
    _hook()
    token = _STAYING.set(True)
    try:
        yield
    finally:
        _STAYING.reset(token)


def stay(response: httpx.Response) -> httpx.Response:
    """Take from a redirect where it leads: without that, httpx hands it out as it is."""
    if _STAYING.get() and 300 <= response.status_code < 400:
        response.headers.pop("Location", None)
    return response


@cache
def _hook() -> None:
    """Have clients that are asked in this thread look first whether they may go elsewhere; neither has a setting."""
    import httpx
    import requests

    ask, target_of = httpx.HTTPTransport.handle_request, requests.Session.get_redirect_target

    def get_redirect_target(self: requests.sessions.SessionRedirectMixin, response: requests.Response) -> str | None:
        target = target_of(self, response)
        if target is not None and _STAYING.get():
            response.close()
            host = urlsplit(response.url).netloc.rpartition("@")[2]
            raise requests.TooManyRedirects(
                f"{host} answers with a redirect (HTTP {response.status_code}), which is not followed. "
                "Give the final address."
            )
        return target

    httpx.HTTPTransport.handle_request = (  # type: ignore[method-assign]
        lambda self, request: stay(ask(self, request))
    )
    requests.Session.get_redirect_target = get_redirect_target  # type: ignore[assignment, method-assign]
