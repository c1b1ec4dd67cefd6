"""The direct transport: OpenAI-dialect endpoints by aiohttp, over connections that are kept.

Where a request goes, and under which key, is found in the same variables that litellm reads.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import urllib.parse
import urllib.request
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from jrh_mlflow.models.catalog import DIALECT_KEYS, address_variables, first_set, split_model
from jrh_mlflow.models.transports._base import (
    MAX_HEADER,
    PACKINGS,
    BodyError,
    Transport,
    TransportError,
    Unpacked,
)
from jrh_mlflow.models.transports.dialect import chat_body, encode, read_http
from jrh_mlflow.models.trust import check_address
from jrh_mlflow.schema.requests import Request, Response
from jrh_mlflow.text import blank_secrets

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession
    from aiohttp.connector import Connection
    from typing_extensions import Self


HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "User-Agent": "jrh-mlflow",
    "Accept-Encoding": PACKINGS,
}
"""Of every request."""
MAX_BODIES = 512
"""Encoded requests kept at most."""
OPENAI_BASE = "https://api.openai.com/v1"
NO_KEY = "none"
"""Sent to servers of one's own, which ask for no key."""

_NO_SUCH_PLACE = (404, 405)
"""What a server says to a path that it does not know; of a model that it does not know some say 404 too."""
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
    def headers(self) -> dict[str, str]:
        """The header with the key."""
        return {"Authorization": f"Bearer {self.key}"}

    @property
    def host(self) -> str:
        """Host and port, for texts."""
        return urllib.parse.urlsplit(self.url).netloc.rpartition("@")[2]

    @property
    def shown(self) -> str:
        """The address for texts, without a query, which may hold a key."""
        parts = urllib.parse.urlsplit(self.url)
        return f"{parts.scheme}://{self.host}{parts.path}"

    @property
    def hint(self) -> str:
        """Ask for the `/v1` that an address of this dialect usually has; an empty text where there is a version."""
        if re.search(r"/v\d", urllib.parse.urlsplit(self.url).path):
            return ""
        return f" (does the address end in /v1? Try api_base {self.shown.removesuffix('/chat/completions')}/v1)"


def connect_s(timeout_s: float) -> float:
    """Return the seconds for a connection: fewer than for the answer, so that the two timeouts are told apart."""
    return min(30.0, 0.8 * timeout_s)


def resolve(model: str, api_base: str | None) -> Endpoint:
    """Find address and key of a model.

    Raises:
        TransportError: `auth` when OpenAI's own service would be asked without a key, `bad_request` without an address.
        RecipeError: when the key may not go there.
    """
    provider, name = split_model(model)
    provider = provider or "openai"
    base = api_base or first_set(address_variables(provider)) or (OPENAI_BASE if provider == "openai" else "")
    base = base.rstrip("/")
    if not re.match(r"https?://[^/]", base):
        ways = " or set ".join(("give api_base", *address_variables(provider)))
        raise TransportError("bad_request", f"{model} needs an address that starts with http:// or https://: {ways}.")
    if urllib.parse.urlsplit(base).username is not None:
        names = " or ".join(DIALECT_KEYS.get(provider, ()))
        raise TransportError(
            "bad_request", f"The address of {model} holds a user or password. Keys are given by {names}."
        )
    key = find_key(provider, model, has_own_base=base != OPENAI_BASE)
    if key != NO_KEY or blank_secrets(base) != base:
        check_address(base, own=address_variables(provider))
    return Endpoint(
        url=base if base.endswith("/chat/completions") else f"{base}/chat/completions",
        model=name,
        key=key,
        proxy=proxy_for(base),
        max_tokens="max_completion_tokens" if provider == "openai" and _REASONING.match(name) else "max_tokens",
    )


def find_key(provider: str, model: str, *, has_own_base: bool) -> str:
    """Return the provider's key; a server of one's own may go without.

    Raises:
        TransportError: `auth`, naming the variable to set.
    """
    names = DIALECT_KEYS.get(provider, ())
    key = first_set(names)
    if key is None and not has_own_base:
        raise TransportError("auth", f"{model} needs a key: set {' or '.join(names)}.")
    return key or NO_KEY


def proxy_for(base: str) -> str | None:
    """Return the proxy that the environment names for an address."""
    parts = urllib.parse.urlsplit(base)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


class DirectTransport(Transport):
    """Posts to `{api_base}/chat/completions`; the address and the key come from the variables litellm reads too."""

    def __init__(self, *, concurrency: int = 64) -> None:
        super().__init__(concurrency=concurrency)
        self._is_open = False
        self._session: ClientSession | None = None
        self._endpoints: dict[tuple[str, str | None], Endpoint] = {}
        self._bodies: dict[int, tuple[Request, bytes]] = {}

    @classmethod
    def missing(cls, model: str, api_base: str | None) -> str | None:
        """Name the key or the address that is missing."""
        try:
            resolve(model, api_base)
        except TransportError as error:
            return error.text
        return None

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    async def __aexit__(self, *details: Any) -> None:
        self._is_open = False
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        """Send one request; see `Transport.send`."""
        endpoint = self._endpoint(request)
        body = self._body(request, endpoint)
        status, headers, answer = await self._post(endpoint, body, timeout_s, headers=endpoint.headers)
        try:
            return read_http(status, headers, answer)
        except TransportError as error:
            if status not in _NO_SUCH_PLACE:
                raise
            text = f"{endpoint.shown}{endpoint.hint}: {error.text}"
            failure = TransportError(error.kind, text, status, error.retry_after, error.usage)
        raise failure

    def _body(self, request: Request, endpoint: Endpoint) -> bytes:
        """Encode a request once for all its replicates and retries, which come close together."""
        known, body = self._bodies.get(id(request), (None, b""))
        # By identity, and with the request held: the number of an object that is gone is given to another.
        if known is not request:
            body = encode(chat_body(request, model=endpoint.model, max_tokens=endpoint.max_tokens))
            if len(self._bodies) >= MAX_BODIES:
                self._bodies.clear()
            self._bodies[id(request)] = (request, body)
        return body

    def _endpoint(self, request: Request) -> Endpoint:
        key = (request.model, request.api_base)
        if key not in self._endpoints:
            self._endpoints[key] = resolve(*key)
        return self._endpoints[key]

    async def _post(
        self, endpoint: Endpoint, data: bytes, timeout_s: float, *, headers: Mapping[str, str]
    ) -> tuple[int, Mapping[str, str], bytes]:
        import aiohttp

        if not self._is_open:
            raise RuntimeError("A transport sends inside `async with` only.")
        if self._session is None:
            self._session = _session(self.concurrency)
        try:
            async with self._session.post(
                endpoint.url,
                data=data,
                headers=headers,
                timeout=_timeout(timeout_s),
                # Most redirects would turn the POST into a GET; the error asks for the final address instead.
                allow_redirects=False,
                proxy=endpoint.proxy,
                ssl=_certificates() if endpoint.url.startswith("https:") else True,
            ) as response:
                return response.status, response.headers, await _read(response)
        except never_connected() as error:
            failure = TransportError("unreachable", f"{endpoint.host}: {type(error).__name__}: {error}")
        except asyncio.TimeoutError:
            failure = TransportError("timeout", f"{endpoint.host}: no answer within {timeout_s:g} s.")
        except BodyError as error:
            failure = TransportError("malformed", str(error), 200)
        except _LateBytesError as error:
            failure = TransportError("unreachable", f"{endpoint.host}: {error}")
        except aiohttp.InvalidURL:
            failure = TransportError("bad_request", f"{endpoint.host} is no valid address; check api_base.")
        except aiohttp.ClientResponseError as error:
            failure = TransportError("malformed", f"{endpoint.host}: the answer's head cannot be read: {error.message}")
        except ValueError:
            failure = TransportError("bad_request", f"{endpoint.host}: a header cannot hold this key; check it.")
        except (aiohttp.ClientError, OSError) as error:
            failure = TransportError("connection", f"{endpoint.host}: {type(error).__name__}: {error}")
        # Raised out here, so that no exception of the client, with headers in it, hangs on as context.
        raise failure


async def _read(response: ClientResponse) -> bytes:
    """Read a body unpacked, at most `MAX_BODY` bytes of it; of an error what is more is left."""
    body = Unpacked(response.headers.get("Content-Encoding", ""), cut=response.status >= 300)
    pieces = []
    while not body.is_full and (piece := await response.content.readany()):
        pieces.append(body.feed(piece))
    return b"".join(pieces)


class _LateBytesError(Exception):
    """A kept connection on which bytes came that answer no request."""


def _session(concurrency: int) -> ClientSession:
    import aiohttp

    class CleanRequest(aiohttp.ClientRequest):
        """A request that is not sent on a connection with unread bytes: they would be read as its answer."""

        def send(self, conn: Connection) -> Coroutine[Any, Any, ClientResponse]:
            if conn.protocol is None or conn.protocol.should_close:
                raise _LateBytesError("the connection had bytes that answer no request; it was closed.")
            return super().send(conn)

    return aiohttp.ClientSession(
        request_class=CleanRequest,
        connector=aiohttp.TCPConnector(limit=concurrency, ttl_dns_cache=300),
        # A cookie of one answer must not travel with the next request.
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=HEADERS,
        # `Unpacked` unpacks: aiohttp would unpack a few bytes to any size.
        auto_decompress=False,
        # Gateways send traces of 20 kB; what is longer still was answered all the same.
        max_line_size=MAX_HEADER,
        max_field_size=MAX_HEADER,
    )


@cache
def _timeout(timeout_s: float) -> Any:
    import aiohttp

    return aiohttp.ClientTimeout(total=timeout_s, connect=connect_s(timeout_s))


@cache
def never_connected() -> tuple[type[Exception], ...]:
    """Return what aiohttp raises before a request is sent: refused, no such host, TLS, proxy, no connection in time."""
    import aiohttp

    return aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError, aiohttp.ConnectionTimeoutError


@cache
def _certificates() -> ssl.SSLContext:
    """Trust what the system trusts, and certifi's list where it is installed, as litellm and the OpenAI SDK do."""
    context = ssl.create_default_context()
    try:
        import certifi
    except ImportError:
        return context
    context.load_verify_locations(certifi.where())
    return context
