"""The direct transport: OpenAI-dialect endpoints over one pooled aiohttp session, with next to no time of its own."""

from __future__ import annotations

import asyncio
import ssl
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING

from jrh_mlflow.models.local.names import is_local
from jrh_mlflow.models.transports._base import Transport, TransportError
from jrh_mlflow.models.transports.addresses import Endpoint, resolve, resolve_local
from jrh_mlflow.models.transports.dialect import chat_body, read_http
from jrh_mlflow.models.transports.wire_json import encode
from jrh_mlflow.schema.requests import Request, Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import ClientSession
    from typing_extensions import Self


MAX_BODIES = 512
"""Encoded requests kept at most."""


class DirectTransport(Transport):
    """Posts to `{api_base}/chat/completions`; the address and the key come from the variables litellm reads too."""

    name = "direct"

    def __init__(self, *, concurrency: int = 64) -> None:
        super().__init__(concurrency=concurrency)
        self._session: ClientSession | None = None
        self._addresses: dict[tuple[str, str | None], Endpoint] = {}
        self._bodies: dict[int, tuple[Request, bytes]] = {}

    async def __aenter__(self) -> Self:
        import aiohttp

        connector = aiohttp.TCPConnector(limit=self.concurrency, ttl_dns_cache=300)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "jrh-mlflow"},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        """Send one request; see `Transport.send`."""
        address = await self._address(request)
        return read_http(*await self._post(address, self._body(request, address), timeout_s))

    def _body(self, request: Request, address: Endpoint) -> bytes:
        """Encode a request once for all its replicates and retries, which come close together."""
        known, body = self._bodies.get(id(request), (None, b""))
        if known is not request:
            body = encode(chat_body(request, model=address.model, max_tokens=address.max_tokens))
            if len(self._bodies) >= MAX_BODIES:
                self._bodies.clear()
            self._bodies[id(request)] = (request, body)
        return body

    async def _address(self, request: Request) -> Endpoint:
        if is_local(request.model):
            # Not remembered: a server that died is started again. In a thread, because loading takes seconds.
            return await asyncio.to_thread(resolve_local, request.model)
        key = (request.model, request.api_base)
        if key not in self._addresses:
            self._addresses[key] = resolve(*key)
        return self._addresses[key]

    async def _post(self, address: Endpoint, body: bytes, timeout_s: float) -> tuple[int, Mapping[str, str], bytes]:
        import aiohttp

        if self._session is None:
            raise RuntimeError("A transport sends inside `async with` only.")
        try:
            async with self._session.post(
                address.url,
                data=body,
                headers={"Authorization": f"Bearer {address.key}"},
                timeout=aiohttp.ClientTimeout(total=timeout_s),
                allow_redirects=False,
                proxy=address.proxy,
                ssl=_certificates() if address.url.startswith("https:") else True,
            ) as response:
                return response.status, response.headers, await response.read()
        except asyncio.TimeoutError:
            failure = TransportError("timeout", f"{address.host} gave no answer within {timeout_s:g} s.")
        except aiohttp.InvalidURL:
            failure = TransportError("bad_request", f"{address.host} is no valid address; check api_base.")
        except (aiohttp.ClientError, OSError) as error:
            failure = TransportError("connection", f"{address.host}: {type(error).__name__}: {error}")
        # Raised out here, so that no exception of the client, with headers in it, hangs on as context.
        raise failure


@cache
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
