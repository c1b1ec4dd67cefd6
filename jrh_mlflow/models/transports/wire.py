"""Plain POSTs over HTTP/1.1: connections that are kept, one request at a time on each, answers read by httptools.

It takes a quarter of aiohttp's time, for addresses that need nothing more: no proxy, nothing to escape (`is_plain`).
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import aiohappyeyeballs
import httptools

from jrh_mlflow.models.transports._base import (
    MAX_HEADER,
    PACKINGS,
    BodyError,
    FailureKind,
    TransportError,
    Unpacked,
)

_PLAIN = re.compile(
    r"https?://([\w.-]+|\[[\da-f:.]+\])(:\d{1,5})?(?!.*/\.)(/[\w.~/:@!$&'()*+,;=-]*)?(\?[\w.~&=-]*)?", re.ASCII
)
HEADERS = {
    **{"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "jrh-mlflow"},
    "Accept-Encoding": PACKINGS,
}
"""Of every request."""
_MOST_HEAD = 4 * MAX_HEADER
_READ = frozenset((b"content-encoding", b"retry-after", b"retry-after-ms", b"date"))
"""Headers of an answer that anybody asks for."""
_KEPT_S = 15.0
"""A connection that waited longer is not used again: its server may close it in the same moment."""
_RESOLVED_S = 300.0
_NEXT_ADDRESS_S = 0.25
"""Until the next address of a host is tried beside the one before: some networks lose what goes by IPv6."""


class HttpAnswer(NamedTuple):
    """What came back, the body unpacked."""

    status: int
    headers: Mapping[str, str]
    """Of `_READ`, their names in small letters."""
    body: bytes


def is_plain(url: str, key: str) -> bool:
    """Whether a request can be written down without a library that knows how to escape.

    Example:
        >>> is_plain("https://api.openai.com/v1/chat/completions", "sk-1"), is_plain("https://bücher.example", "sk-1")
        (True, False)
    """
    try:
        is_known = _PLAIN.fullmatch(url) is not None and urlsplit(url).port != 0
    except ValueError:  # no port and no address has this number
        return False
    return is_known and key.isascii() and key.isprintable()


class Pool:
    """The connections to one address, with one key."""

    def __init__(self, url: str, key: str, tls: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        usual = 443 if tls else 80
        self._name, self._port, self._tls = str(parts.hostname), parts.port or usual, tls
        self._host = parts.netloc if parts.port not in (None, usual) else parts.netloc.removesuffix(f":{usual}")
        path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        headers = {"Host": self._host, **HEADERS, "Authorization": f"Bearer {key}", "Content-Length": ""}
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        self._head = "\r\n".join(lines).encode()
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._looking = asyncio.Lock()
        self._found: list[Any] = []
        self._found_until = 0.0

    async def post(self, body: bytes, timeout_s: float, connect_s: float) -> HttpAnswer:
        """Send one request and return its answer.

        Raises:
            TransportError: There is none: `unreachable` where no byte was sent, `connection` where it broke later.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        connection = self._free(until - timeout_s) or await self._connect(connect_s)
        waiting = connection.ask(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))
        timer = loop.call_at(until, connection.fail, "timeout", f"no answer within {timeout_s:g} s.")
        try:
            return await waiting
        finally:
            timer.cancel()
            # Whoever gave up, and whatever came after the answer, leaves nothing for the next request to read.
            if connection.is_reusable:
                connection.idle_since = loop.time()
                self._idle.append(connection)
            else:
                connection.abort()

    def _free(self, now: float) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and now - connection.idle_since < _KEPT_S:
                return connection
            connection.abort()
        return None

    async def _connect(self, seconds: float) -> _Connection:
        try:
            return await asyncio.wait_for(self._connection(), seconds)
        except (OSError, asyncio.TimeoutError, UnicodeError) as error:
            self._found = []
            failure = TransportError("unreachable", f"{self._host}: {type(error).__name__}: {error}")
        # Raised out here, so that it hangs on to nothing.
        raise failure

    async def _connection(self) -> _Connection:
        loop = asyncio.get_running_loop()
        async with self._looking:
            if not self._found or loop.time() > self._found_until:
                self._found = await loop.getaddrinfo(self._name, self._port, type=socket.SOCK_STREAM)
                self._found_until = loop.time() + _RESOLVED_S
        sock = await aiohappyeyeballs.start_connection(
            self._found, happy_eyeballs_delay=_NEXT_ADDRESS_S, interleave=1, loop=loop
        )
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        name = self._name if self._tls else None
        _, connection = await loop.create_connection(
            lambda: _Connection(self._host, self._open), sock=sock, ssl=self._tls, server_hostname=name
        )
        return connection

    async def close(self) -> None:
        """Close all connections; what is in flight on them ends."""
        for connection in list(self._open):
            connection.abort()
        # A turn of the loop, in which they are.
        await asyncio.sleep(0)


class _Connection(asyncio.Protocol):
    """One connection, and the parser of what comes on it."""

    def __init__(self, host: str, members: set[_Connection]) -> None:
        self._host, self._members = host, members
        self._waiting: asyncio.Future[HttpAnswer] | None = None
        self.is_reusable = True
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._members.add(self)

    def eof_received(self) -> None:
        # Lost in the next turn of the loop: until then it must not be given to another request.
        self.is_reusable = False

    def connection_lost(self, error: Exception | None) -> None:
        self._members.discard(self)
        self.is_reusable = False
        if self._waiting is None or self._waiting.done():
            return
        if error is None and self._body is not None and not self._has_end:
            # A body without a length ends with its connection.
            self._finish()
        else:
            self.fail("connection", f"the connection broke before the answer was whole ({error or 'closed'}).")

    def ask(self, request: bytes) -> asyncio.Future[HttpAnswer]:
        """Send a request, and return what its answer is awaited by."""
        self._waiting = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        # As aiohttp reads answers: servers break lines as they please.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._head_bytes, self._has_end = 0, False
        self._headers: dict[str, str] = {}
        self._body: Unpacked | None = None
        self._pieces: list[bytes] = []
        self.is_reusable = False
        self._transport.write(request)
        return self._waiting

    def fail(self, kind: FailureKind, text: str, status: int | None = None) -> None:
        """End the waiting, and the connection."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(TransportError(kind, f"{self._host}: {text}", status))
        self.abort()

    def abort(self) -> None:
        """Close the connection without waiting for anything."""
        self.is_reusable = False
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._waiting is None or self._waiting.done():
            # Nobody asked.
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.fail("malformed", f"the answer is not HTTP: {error}")
        if self._body is None:
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_HEAD:
                self._refuse_head()

    def _refuse_head(self) -> None:
        self.fail("malformed", "the answer's head is too long.")

    # What the parser calls.

    def on_message_begin(self) -> None:
        # A second answer to one request.
        if self._waiting is not None and self._waiting.done():
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if len(value) > MAX_HEADER:
            self._refuse_head()
        elif name in _READ:
            self._headers[name.decode()] = value.decode("latin-1").strip()
        elif name == b"content-length" or (name == b"transfer-encoding" and b"chunked" in value.lower()):
            self._has_end = True

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        if 100 <= self._status < 200 and self._status != 101:
            # The answer itself is still to come.
            self._headers, self._has_end = {}, False
            return
        try:
            self._body = Unpacked(self._headers.get("content-encoding", ""), cut=self._status >= 300)
        except BodyError as error:
            self.fail("malformed", str(error), 200)

    def on_body(self, piece: bytes) -> None:
        if self._body is None or self._waiting is None or self._waiting.done():
            return
        try:
            self._pieces.append(self._body.feed(piece))
        except BodyError as error:
            self.fail("malformed", str(error), 200)
        else:
            if self._body.is_full:
                self._finish()

    def on_message_complete(self) -> None:
        if self._body is not None and self._waiting is not None and not self._waiting.done():
            self._finish()
            # Before the server has read all of a request nothing else may follow it.
            self.is_reusable = self._parser.should_keep_alive() and not self._transport.get_write_buffer_size()

    def _finish(self) -> None:
        assert self._waiting is not None
        self._waiting.set_result(HttpAnswer(self._status, self._headers, b"".join(self._pieces)))
