"""Random draws that are a hash of what they are for: repeatable call by call, whatever the order."""

from __future__ import annotations

import hashlib


def uniform(*parts: object) -> float:
    """Return a number in [0, 1) that depends on the parts alone."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
