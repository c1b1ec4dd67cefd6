"""The contract every transport keeps: a request goes out once, and a response or a `TransportError` comes back."""

from __future__ import annotations

import re
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from jrh_mlflow.schema.requests import Request, Response
from jrh_mlflow.text import BLANK, SECRET_NAME, blank_secrets, environment_secrets

if TYPE_CHECKING:
    from typing_extensions import Self

FailureKind = Literal[
    "rate_limited",
    "server",
    "timeout",
    "unreachable",
    "connection",
    "auth",
    "bad_request",
    "not_found",
    "too_long",
    "malformed",
]
"""`unreachable`: no connection was made, so no byte of the request was sent. `connection`: one was, and broke."""
RETRYABLE: frozenset[str] = frozenset({"rate_limited", "server", "timeout", "unreachable", "connection", "malformed"})
MAX_TEXT = 400
"""Characters kept of what a provider says about a failure."""


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
        self,
        kind: FailureKind,
        text: str,
        status: int | None = None,
        retry_after: float | None = None,
        usage: Response | None = None,
    ) -> None:
        if kind not in get_args(FailureKind):
            raise ValueError(f"`kind` must be one of {', '.join(get_args(FailureKind))}, but got {kind!r}.")
        self.kind: FailureKind = kind
        self.text = safe_text(text)
        self.status = status
        self.retry_after = retry_after
        self.usage = usage
        """The tokens or the cost that the failure's body tells, where it does."""
        # All five, so that the error survives pickling on its way between processes.
        super().__init__(kind, self.text, status, retry_after, usage)

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

    providers: ClassVar[frozenset[str]] = frozenset()
    """Prefixes of the models that a transport of another package takes, besides the name of its entry point."""
    address_variables: ClassVar[tuple[str, ...]] = ()
    """Environment variables that decide which endpoint such a transport asks; a judge is known by them."""

    def __init__(self, *, concurrency: int = 64) -> None:
        """Describe a transport; nothing is opened before `async with`.

        Args:
            concurrency: Requests that are in flight at most, which is the number of connections kept.
        """
        if concurrency < 1:
            raise ValueError(f"`concurrency >= 1` must hold, but got {concurrency=}.")
        self.concurrency = concurrency

    @classmethod
    def missing(cls, model: str, api_base: str | None) -> str | None:
        """Say what must be set before a model can be asked, such as a key; None where nothing is known to lack.

        Asked before anything is opened, so it looks at the environment and loads nothing.
        """
        return None

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Open what the transport needs."""

    @abstractmethod
    async def __aexit__(self, *details: Any) -> None:
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


def safe_text(text: str) -> str:
    """Return a provider's text on one line, at most `MAX_TEXT` long, with every known key taken out."""
    secrets = known_secrets()
    longest = max(map(len, secrets), default=0)
    # Cut first: a body may hold megabytes. A key that the cut halves ends with the characters that are dropped.
    cut = 4 * MAX_TEXT + longest
    is_cut, text = len(text) > cut, _SECRET_TEXT.sub(BLANK, blank_secrets(text[:cut], secrets))
    text = text[: len(text) - longest] if is_cut else text
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * MAX_TEXT]).split())
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"


def known_secrets() -> list[str]:
    """Return values that are secret by the name they stand under, in the environment or in litellm's settings."""
    litellm = sys.modules.get("litellm")
    settings = vars(litellm).items() if litellm else ()
    own = [value.strip() for name, value in settings if isinstance(value, str) and SECRET_NAME.search(name)]
    return environment_secrets() + own


MAX_BODY = 16 * 2**20
"""Bytes of an unpacked body; 10,000 tokens with their probabilities are about 6 MB."""
MAX_HEADER = 256 * 2**10
"""Bytes of one header of an answer."""
PACKINGS = "gzip"
"""What servers are asked for: it can be unpacked piece by piece, so that no small body becomes a large one."""
_AUTOMATIC = 32 + zlib.MAX_WBITS
"""zlib's number for either header, gzip's or its own."""


class BodyError(Exception):
    """A body that is too large, or packed in a way that was not asked for."""


class Unpacked:
    """A body unpacked piece by piece, at most `MAX_BODY` bytes of it."""

    def __init__(self, packing: str, *, cut: bool) -> None:
        """Begin a body.

        Args:
            packing: The header Content-Encoding.
            cut: End a larger body at the limit, as for errors, of which the status says enough.

        Raises:
            BodyError: Nobody asked for this packing.
        """
        self._unpacker, self._left, self._cut = _unpacker(packing.strip().lower()), MAX_BODY, cut

    @property
    def is_full(self) -> bool:
        """Whether it was cut."""
        return self._left < 0

    def feed(self, piece: bytes) -> bytes:
        """Return the next piece.

        Raises:
            BodyError: The body is larger, or cannot be unpacked.
        """
        left = self._left
        # One byte more than is left, so that a body of exactly the limit is told from a larger one.
        unpacked = piece if self._unpacker is None else _unpacked(self._unpacker, piece, left + 1)
        if len(unpacked) > left and not self._cut:
            raise BodyError(f"The answer is larger than {MAX_BODY // 2**20} MiB, more than any model writes.")
        self._left -= len(unpacked)
        return unpacked[:left]


async def bounded(pieces: AsyncIterable[bytes], packing: str, *, cut: bool) -> AsyncIterator[bytes]:
    """Yield a body unpacked; see `Unpacked`."""
    body = Unpacked(packing, cut=cut)
    async for piece in pieces:
        yield body.feed(piece)
        if body.is_full:
            return


def _unpacker(packing: str) -> zlib._Decompress | None:
    if packing in ("", "identity"):
        return None
    if packing not in ("gzip", "x-gzip", "deflate"):
        raise BodyError(f"The answer came packed as {packing[:20]!r}, which was not asked for.")
    return zlib.decompressobj(_AUTOMATIC)


def _unpacked(unpacker: zlib._Decompress, piece: bytes, limit: int) -> bytes:
    try:
        return unpacker.decompress(piece, limit)
    except zlib.error as error:
        raise BodyError(f"The answer cannot be unpacked: {error}.") from None
