"""Bodies of HTTP answers, unpacked, and no larger than the answer of a model can be."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable, AsyncIterator

MAX_BODY = 16 * 2**20
"""Bytes of an unpacked body; 10,000 tokens with their probabilities are about 6 MB."""
PACKINGS = "gzip"
"""What servers are asked for: it can be unpacked piece by piece, so that no small body becomes a large one."""
_AUTOMATIC = 32 + zlib.MAX_WBITS
"""zlib's number for either header, gzip's or its own."""


class BodyError(Exception):
    """A body that is too large, or packed in a way that was not asked for."""


async def bounded(pieces: AsyncIterable[bytes], packing: str, *, cut: bool) -> AsyncIterator[bytes]:
    """Yield a body unpacked, at most `MAX_BODY` bytes of it.

    Args:
        pieces: As they come.
        packing: The header Content-Encoding.
        cut: End a larger body at the limit, as for errors, of which the status says enough.

    Raises:
        BodyError: It is larger, or cannot be unpacked.
    """
    unpacker = _unpacker(packing.strip().lower())
    left = MAX_BODY
    async for piece in pieces:
        unpacked = piece if unpacker is None else _unpacked(unpacker, piece, left + 1)
        if len(unpacked) > left and not cut:
            raise BodyError(f"The answer is larger than {MAX_BODY // 2**20} MiB, more than any model writes.")
        yield unpacked[:left]
        left -= len(unpacked)
        if left < 0:
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
