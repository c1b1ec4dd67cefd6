"""Servers that misbehave: what the direct transport makes of their bytes, connections and certificates."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from jrh_mlflow.engine.runner import run_coroutine
from jrh_mlflow.models.transports import TransportError, direct
from jrh_mlflow.models.transports import _base as bodies
from jrh_mlflow.models.transports.direct import DirectTransport, Endpoint
from tests.cases import few

BODY = json.dumps({"choices": [{"message": {"content": "A"}}]}).encode()
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
OK = b"HTTP/1.1 200 OK\r\n" + LENGTH + b"\r\n" + BODY
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
RESET, STALL, HALF = b"<reset>", b"<stall>", b"<half>"
"""What a server does in the place of sending: break the connection, wait, say that it sends no more."""


def _read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536) or b"\r\n\r\n"
    head, _, body = data.partition(b"\r\n\r\n")
    sizes = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    while sizes and len(body) < sizes[0]:
        body += connection.recv(65536)
    return head


@contextmanager
def serving(*answers: list[bytes], tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[list[bytes]]]]:
    """A server whose connections each give these answers, one per request; and the requests by connection."""
    arrived: list[list[bytes]] = []
    ended = threading.Event()

    def serve(connection: socket.socket, heads: list[bytes]) -> None:
        with suppress(OSError), tls.wrap_socket(connection, server_side=True) if tls else connection as connection:
            for answer in answers:
                head = _read_request(connection)
                if not head:  # the client has closed
                    return
                heads.append(head)
                for piece in answer:
                    if piece == RESET:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        return
                    if piece == STALL:
                        ended.wait(20)
                    elif piece == HALF:
                        connection.shutdown(socket.SHUT_WR)
                        ended.wait(0.3)
                    else:
                        connection.sendall(piece)
                        time.sleep(0.002)

    def accept() -> None:
        with suppress(OSError):
            while not ended.is_set():
                connection, _ = listening.accept()
                arrived.append([])
                threading.Thread(target=serve, args=(connection, arrived[-1]), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"http{'s' if tls else ''}://127.0.0.1:{listening.getsockname()[1]}/v1/chat/completions", arrived
        finally:
            ended.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(5)


async def _asked(
    transport: DirectTransport, url: str, *, timeout_s: float = 5.0, key: str = "planted-key"
) -> tuple[int, bytes] | str:
    endpoint = Endpoint(url=url, model="m", key=key, proxy=None, max_tokens="max_tokens")
    try:
        status, _, body = await transport._post(endpoint, b"{}", timeout_s, headers=endpoint.headers)
    except TransportError as error:
        return error.kind
    return status, body


def asked(url: str, times: int = 1, *, timeout_s: float = 5.0, wait_s: float = 0.0) -> list[tuple[int, bytes] | str]:
    """Ask some times, one after the other, waiting between them."""

    async def run() -> list[tuple[int, bytes] | str]:
        async with DirectTransport(concurrency=1) as transport:
            answers = []
            for _ in range(times):
                answers.append(await _asked(transport, url, timeout_s=timeout_s))
                await asyncio.sleep(wait_s)
            return answers

    return asyncio.run(run())


def _head(*lines: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join((b"HTTP/1.1 200 OK", *lines, b"", body))


HOSTILE: dict[str, tuple[list[bytes], tuple[int, bytes] | str]] = {
    "whole": ([OK], (200, BODY)),
    "byte by byte": ([OK[place : place + 1] for place in range(len(OK))], (200, BODY)),
    "chunks": ([CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)], (200, BODY)),
    "chunks with an extension and a trailer": (
        [CHUNKED + b"%x;a=b\r\n%b\r\n0\r\nX-Sum: 1\r\n\r\n" % (len(BODY), BODY)],
        (200, BODY),
    ),
    "one byte per chunk": ([CHUNKED + b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"], (200, BODY)),
    "no length, ended by the connection": ([_head(body=BODY), HALF], (200, BODY)),
    "HTTP/1.0 without length": ([b"HTTP/1.0 200 OK\r\n\r\n" + BODY], (200, BODY)),
    "HTTP/1.0 with a length": ([b"HTTP/1.0 200 OK\r\n" + LENGTH + b"\r\n" + BODY], (200, BODY)),
    "the connection is to be closed": ([_head(b"Connection: close", LENGTH[:-2], body=BODY)], (200, BODY)),
    "hints before the answer": ([b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", OK], (200, BODY)),
    "go on, in the same packet": ([b"HTTP/1.1 100 Continue\r\n\r\n" + OK], (200, BODY)),
    "lines that end in LF alone": ([OK.replace(b"\r\n", b"\n", 3)], (200, BODY)),
    "nothing to read": ([b"HTTP/1.1 204 No Content\r\n\r\n"], (204, b"")),
    "another protocol": (
        [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"],
        (101, b""),
    ),
    "a head of 200 kB": ([_head(b"X-Trace: " + b"x" * 200_000, LENGTH[:-2], body=BODY)], (200, BODY)),
    "forty headers of 20 kB": (
        [_head(*[b"X-%d: " % n + b"x" * 20_000 for n in range(40)], LENGTH[:-2], body=BODY)],
        (200, BODY),
    ),
    "an error that is packed": (
        [b"HTTP/1.1 500 Oops\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(b"Oops")],
        (500, b"Oops"),
    ),
    "a redirect": ([b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"], (302, b"")),
    "nothing at all": ([HALF], "connection"),
    "broken before a byte": ([RESET], "connection"),
    "a head that is cut off": ([OK[:20], HALF], "connection"),
    "a body that is cut off": ([OK[:-3], HALF], "connection"),
    "a body that breaks": ([OK[:-3], RESET], "connection"),
    "a length that is too long": ([_head(b"Content-Length: 999", body=BODY), HALF], "connection"),
    "chunks without an end": ([CHUNKED + b"%x\r\n%b\r\n" % (len(BODY), BODY), HALF], "connection"),
    "a chunk of no size": ([CHUNKED + b"zz\r\n"], "malformed"),
    "a chunk that is longer than it says": ([CHUNKED + b"2\r\nabcdef\r\n0\r\n\r\n"], "malformed"),
    "no HTTP": ([b"SSH-2.0-OpenSSH_9.9\r\n"], "malformed"),
    "a status that is none": ([b"HTTP/1.1 abc OK\r\n\r\n"], "malformed"),
    "a version that is none": ([b"HTTP/9.x 200 OK\r\n\r\n"], "malformed"),
    "a length that is no number": ([_head(b"Content-Length: many", body=BODY)], "malformed"),
    "a length below 0": ([_head(b"Content-Length: -5", body=BODY)], "malformed"),
    "two lengths": ([_head(b"Content-Length: 5", b"Content-Length: 9", body=BODY)], "malformed"),
    "a header of 300 kB": ([_head(b"X-Trace: " + b"x" * 300_000, LENGTH[:-2], body=BODY)], "malformed"),
    "packed, and then not": ([_head(b"Content-Encoding: gzip", LENGTH[:-2], body=BODY)], "malformed"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_every_answer_is_read_or_named_and_asked_for_once(case: str) -> None:
    answer, expected = HOSTILE[case]
    with serving(answer) as (url, arrived):
        assert asked(url) == [expected]
    assert sum(map(len, arrived)) == 1, "a transport sends once"


@pytest.mark.parametrize(
    "answer", few([[STALL], [OK[:20], STALL], [OK[:-3], STALL], [CHUNKED, b"1\r\nx", STALL]], quick=2)
)
def test_who_stalls_is_left_in_time(answer: list[bytes]) -> None:
    with serving(answer) as (url, _):
        began = time.monotonic()
        assert asked(url, timeout_s=0.3) == ["timeout"]
    assert time.monotonic() - began < 3


def test_a_head_without_end_is_left_before_it_fills_the_memory() -> None:
    endless = [b"X-%d: %b\r\n" % (number, b"x" * 900) for number in range(1000)]
    with serving([b"HTTP/1.1 200 OK\r\n", *endless]) as (url, _):
        assert asked(url) == ["malformed"]


def test_a_body_of_the_longest_size_is_whole_and_one_byte_more_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MAX_BODY", 1000)
    for size, expected in ((1000, (200, b"x" * 1000)), (1001, "malformed")):
        with serving([_head(b"Content-Length: %d" % size, body=b"x" * size)]) as (url, _):
            assert asked(url) == [expected]


# Connections


def test_a_connection_is_kept_for_the_next_request() -> None:
    with serving([OK], [OK], [CHUNKED + b"1\r\nx\r\n0\r\n\r\n"]) as (url, arrived):
        assert asked(url, 3) == [(200, BODY), (200, BODY), (200, b"x")]
    assert [len(heads) for heads in arrived] == [3]


@pytest.mark.parametrize(
    "answer",
    [
        [OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"],
        [OK + b"rubbish"],
        [OK, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", STALL],
        [OK, b"rubbish", STALL],
        [OK, HALF],
        [OK.replace(b"Content-Length", b"Connection: close\r\nContent-Length", 1)],
        [OK.replace(b"HTTP/1.1", b"HTTP/1.0", 1)],
        [_head(b"Content-Length: 999", body=BODY), RESET],
    ],
    ids=[
        "a second answer",
        "rubbish",
        "a later answer",
        "later rubbish",
        "half closed",
        "close",
        "HTTP/1.0",
        "cut off",
    ],
)
def test_what_follows_an_answer_is_never_the_next_one(answer: list[bytes]) -> None:
    with serving(answer) as (url, arrived):
        first, second, third = asked(url, 3, wait_s=0.2)
    assert first == third
    assert first in ((200, BODY), "connection", "malformed")
    assert second in (first, "unreachable")
    assert {len(heads) for heads in arrived} == {1}


def test_a_connection_that_its_server_closed_takes_no_request() -> None:
    with serving([OK, HALF]) as (url, arrived):
        assert asked(url, 3, wait_s=0.5) == [(200, BODY)] * 3
    assert [len(heads) for heads in arrived] == [1, 1, 1]


def test_a_request_that_was_given_up_leaves_nothing_behind() -> None:
    with serving([b"HTTP/1.1 200 OK\r\n", STALL]) as (url, arrived):

        async def run() -> None:
            async with DirectTransport() as transport:
                asking = [asyncio.ensure_future(_asked(transport, url)) for _ in range(3)]
                await asyncio.sleep(0.2)
                for task in asking:
                    task.cancel()
                ends = await asyncio.gather(*asking, return_exceptions=True)
                assert {type(end) for end in ends} == {asyncio.CancelledError}
                assert transport._session is not None
                connector = transport._session.connector
                assert connector is not None
                assert not connector._conns
                assert not connector._acquired

        asyncio.run(run())
    assert [len(heads) for heads in arrived] == [1, 1, 1]


def test_the_request_holds_the_key_and_what_every_request_holds() -> None:
    with serving([OK]) as (url, arrived):
        asked(f"{url}?api-version=2026-01-01")
    port = url.split(":")[2].split("/")[0]
    assert sorted(arrived[0][0].decode().split("\r\n")) == [
        "Accept-Encoding: gzip",
        "Accept: application/json",
        "Authorization: Bearer planted-key",
        "Content-Length: 2",
        "Content-Type: application/json",
        f"Host: 127.0.0.1:{port}",
        "POST /v1/chat/completions?api-version=2026-01-01 HTTP/1.1",
        "User-Agent: jrh-mlflow",
    ]


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://host:70000/v1", "bad_request"),
        ("http://127.0.0.1:0/v1", "unreachable"),
    ],
)
def test_an_address_that_is_none_is_named(url: str, kind: str) -> None:
    assert asked(url) == [kind]


@pytest.mark.parametrize("key", ["a\r\nX-Other: 1", "a\x00"])
def test_a_key_that_no_header_can_hold_is_refused_before_anything_is_sent(key: str) -> None:
    with serving([OK]) as (url, arrived):

        async def run() -> tuple[int, bytes] | str:
            async with DirectTransport() as transport:
                return await _asked(transport, url, key=key)

        assert asyncio.run(run()) == "bad_request"
    assert not [head for heads in arrived for head in heads if head]


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost that signs itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(timezone.utc)
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    path.write_bytes(private + built.public_bytes(Encoding.PEM))
    return path


@pytest.mark.parametrize("quick", [True, False], ids=["uvloop", "asyncio"])
def test_a_certificate_is_checked_before_anything_is_sent(
    certificate: Path, quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    trusting, usual = ssl.create_default_context(cafile=str(certificate)), ssl.create_default_context()
    with serving([OK], [OK], [OK], tls=context) as (url, arrived):

        async def run() -> list[object]:
            ended: list[object] = []
            for host, tls in (("localhost", trusting), ("127.0.0.1", trusting), ("localhost", usual)):
                monkeypatch.setattr(direct, "_certificates", lambda tls=tls: tls)
                async with DirectTransport() as transport:
                    for _ in range(2):
                        ended.append(await _asked(transport, url.replace("127.0.0.1", host)))
            return ended

        assert run_coroutine(run(), quick=quick) == [(200, BODY), (200, BODY), *["unreachable"] * 4]
    assert [len(heads) for heads in arrived if heads] == [2]
