"""The door of our pages: who may come in, and what leaves.

Outermost on purpose. MLflow's own checks accept any port of this machine and hosts such as `10.attacker.com`; a page
on another port must neither read ours nor send to it.

    Host              exactly this server's: 127.0.0.1, localhost or [::1] with its port, or one named at the start
    Origin            if sent, this server
    Sec-Fetch-Site    if sent, same-origin or none
    token             for the API in the header X-JRH-Token, which no form and no link can send. The link's `?token=`
                      opens the page, and a cookie made from it the page's parts; browsers show cookies to the other
                      ports of a machine too, so it opens nothing of the review's API. Pages of runs, which only read
                      what MLflow's own API gives to whoever reaches it, need none
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 32 * 2**20
"""Room for five megabytes of text in which every character is escaped."""
TOKEN_HEADER = "x-jrh-token"  # noqa: S105 - a name
_READS = ("GET", "HEAD")

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_INERT = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"
FORM_POLICY = f"{_INERT}; form-action 'self'"
"""Of pages that we render, without any script: links, and a form that leads to another page of ours."""
SANDBOX_POLICY = f"{_INERT}; form-action 'none'; sandbox"
"""Of pages that runs hold: they are shown and can do nothing, not even as this site."""
_POLICIES = (FORM_POLICY, SANDBOX_POLICY)
_OPENER = "cross-origin-opener-policy"
_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    _OPENER: "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Refusal(Exception):  # noqa: N818 - an answer, not a failure
    """What is answered instead of a page."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Guard:
    """Lets a request through to the pages, or answers it itself; without a token to pages that only read runs."""

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: Iterable[str] = ()) -> None:
        if token is not None and len(token) < 16:
            raise ValueError(f"The token must have 16 characters or more, but has {len(token)}.")
        self._app, self._token = app, token
        self._hosts = frozenset(host.lower() for host in hosts)
        # Made from the token and not the token: a cookie that leaks opens no API.
        self._cookie = hmac.new((token or "").encode(), b"jrh review page", hashlib.sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "websocket":
            # Browsers open them to any site, without asking that site first.
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            cookie = self._set_cookie(scope) if self._check(scope) else None
            # Read whole before the app sees it, so that its size can be refused.
            body = await _body(receive)
        except Refusal as refusal:
            await _refuse(refusal, _sealed(send), as_page="text/html" in "".join(_headers(scope, "accept")))
            return
        await self._app(scope, _replayed(body, receive), _sealed(send, cookie=cookie))

    def _check(self, scope: Scope) -> bool:
        """Refuse what may not come in; return whether the link's token was used."""
        host = _only(scope, "host").lower()
        if host not in self._hosts and host not in local_hosts(scope):
            raise Refusal(403, "This server does not answer for that host name.")
        # Both, since a proxy in front may speak TLS: the scheme that arrives here is not the browser's.
        own = (f"http://{host}", f"https://{host}")
        origin = _only(scope, "origin", default="").lower()
        if origin and origin not in own:
            raise Refusal(403, "These pages cannot be used from another site.")
        if _only(scope, "sec-fetch-site", default="none") not in ("none", "same-origin"):
            raise Refusal(403, "This page cannot be opened from another site: paste the link into the address bar.")
        if self._token is None:
            return False
        if self._same(_only(scope, TOKEN_HEADER, default=""), self._token):
            return False
        # Only a page may open by the link or its cookie: what reads or changes data needs the header.
        if scope["method"] in _READS and "/api/" not in scope["path"]:
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
            if len(given) == 1 and self._same(given[0], self._token):
                return True
            if self._same(_cookie(scope, cookie_name(scope)), self._cookie):
                return False
        raise Refusal(
            401,
            "The token is missing or wrong: open the link that was printed at the start. Who started the server has it "
            "in the terminal, in the line `review`, with `?token=` in it; this browser then remembers it.",
        )

    @staticmethod
    def _same(given: str, wanted: str) -> bool:
        # In the same time wherever the two differ, so that nobody finds a token letter by letter.
        return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())

    def _set_cookie(self, scope: Scope) -> str:
        path = scope.get("root_path", "") + "/"
        return f"{cookie_name(scope)}={self._cookie}; Path={path}; HttpOnly; SameSite=Strict"


def _headers(scope: Scope, name: str) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name.encode()]


def _only(scope: Scope, name: str, *, default: str | None = None) -> str:
    """Return a header; one that comes twice is refused, since two readers may choose differently."""
    values = _headers(scope, name)
    if len(values) > 1 or (not values and default is None):
        raise Refusal(400, f"The request needs exactly one header {name}.")
    return values[0] if values else str(default)


def _cookie(scope: Scope, name: str) -> str:
    parts = ";".join(_headers(scope, "cookie")).split(";")
    named = (part.strip().partition("=") for part in parts)
    return next((content for key, _, content in named if key == name), "")


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def cookie_name(scope: Scope) -> str:
    """Return the name of the page's cookie; two servers on one machine do not share it."""
    server = scope.get("server") or ("", 0)
    return f"jrh_review_{server[1]}"


def local_hosts(scope: Scope) -> tuple[str, ...]:
    """Return what a browser on this machine sends as Host for the port the request came in by."""
    server = scope.get("server")
    if not server or server[1] is None:
        return ()
    # Browsers leave the default port out.
    port = "" if server[1] == 80 else f":{server[1]}"
    return tuple(f"{name}{port}" for name in ("127.0.0.1", "localhost", "[::1]"))


def _sealed(send: Send, *, cookie: str | None = None) -> Send:
    """Send answers with our headers, and without any that would open them to other sites."""

    async def sealed(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = message.get("headers", [])
            ours = [(name.encode(), value.encode()) for name, value in _own_headers(given).items()]
            kept = [
                (name, value)
                for name, value in given
                if name.decode("latin-1").lower() not in _HEADERS and not name.lower().startswith(b"access-control-")
            ]
            ours += [(b"set-cookie", cookie.encode("latin-1"))] if cookie else []
            message = {**message, "headers": [*kept, *ours]}
        await send(message)

    return sealed


def _own_headers(given: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return our headers; a page may ask for another policy by name, but make none of its own."""
    policies = [value.decode("latin-1") for name, value in given if name.lower() == b"content-security-policy"]
    if len(policies) != 1 or policies[0] not in _POLICIES:
        return _HEADERS
    ours = {**_HEADERS, "content-security-policy": policies[0]}
    if policies[0] == SANDBOX_POLICY:
        del ours[_OPENER]  # by the HTML standard a page with an opener policy and a sandbox is a network error
    return ours


async def _body(receive: Receive) -> bytes:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise Refusal(400, "The request was broken off.")
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), message.get("more_body", False)
        if size > MAX_BODY_BYTES:
            raise Refusal(413, f"A request may hold {MAX_BODY_BYTES // 2**20} MB at most.")
    return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


async def _refuse(refusal: Refusal, send: Send, *, as_page: bool) -> None:
    """Say why, to a person as a page and to a script as JSON."""
    body, kind = json.dumps({"message": str(refusal)}).encode(), b"application/json"
    headers = []
    if as_page:
        from jrh_mlflow.show.html import problem_page

        body, kind = problem_page(str(refusal), title="This page cannot be opened yet").encode(), b"text/html"
        headers = [(b"content-security-policy", FORM_POLICY.encode())]
    headers += [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    # What was not read of the request would be taken for the next one.
    headers += [(b"connection", b"close")] if refusal.status == 413 else []
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
