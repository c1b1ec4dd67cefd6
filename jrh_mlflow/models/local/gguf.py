"""What the head of a GGUF file tells: whether it is one, whether it is whole, and how much memory a token takes.

How much memory is free for a model.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from jrh_mlflow.errors import JudgeError

MAGIC = b"GGUF"
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
_LONGEST = 1 << 31
_BYTES_PER_VALUE = 2
"""Of the key-value cache: half precision."""
_UNKNOWN_KV = 131_072
"""Bytes per token assumed where the head does not say: those of a model of seven billion weights."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """What is known of a model before it is loaded."""

    architecture: str
    size: int
    """Bytes of the file."""
    context: int | None
    """Tokens the model was trained for."""
    kv_bytes: int
    """Bytes of the key-value cache per token."""


def read_head(path: Path) -> Head:
    """Read the head of a model's file.

    Raises:
        JudgeError: when the file cannot be read, is no GGUF file, or is cut short.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if file.read(4) != MAGIC:
                raise JudgeError(f"{path} is not a GGUF file: it does not begin with the letters GGUF.")
            fields, starts = _read(file)
            data_starts = file.tell()
    except (struct.error, KeyError, UnicodeDecodeError, MemoryError, OverflowError):
        raise JudgeError(f"{path} is damaged or cut short: its head cannot be read. Download it again.") from None
    except OSError as error:
        raise JudgeError(f"{path} cannot be read: {error.strerror}.") from error
    if starts and data_starts + max(starts) >= size:
        raise JudgeError(f"{path} is cut short: {size:,} bytes are there, and its last weights begin later.")
    return _head(fields, size)


def _read(file: BinaryIO) -> tuple[dict[str, Any], list[int]]:
    """Return the fields, and where each block of weights begins after the head."""
    _, n_tensors, n_fields = struct.unpack("<IQQ", _take(file, 20))
    fields = {}
    for _ in range(n_fields):
        name = _text(file)
        fields[name] = _value(file, *struct.unpack("<I", _take(file, 4)))
    starts: list[int] = []
    for _ in range(n_tensors):
        _text(file)
        (n_dimensions,) = struct.unpack("<I", _take(file, 4))
        _take(file, 8 * n_dimensions + 4)
        starts += struct.unpack("<Q", _take(file, 8))
    return fields, starts


def _take(file: BinaryIO, n: int) -> bytes:
    if n > _LONGEST:
        raise OverflowError(n)
    data = file.read(n)
    if len(data) < n:
        raise struct.error("cut short")
    return data


def _text(file: BinaryIO) -> str:
    (length,) = struct.unpack("<Q", _take(file, 8))
    return _take(file, length).decode("utf-8", "replace")


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _TEXT:
        return _text(file)
    if kind != _LIST:
        layout = f"<{_NUMBERS[kind]}"
        return struct.unpack(layout, _take(file, struct.calcsize(layout)))[0]
    inner, length = struct.unpack("<IQ", _take(file, 12))
    if inner in _NUMBERS:
        layout = f"<{length}{_NUMBERS[inner]}" if length < _LONGEST else ""
        return struct.unpack(layout, _take(file, struct.calcsize(layout)))
    return [_value(file, inner) for _ in range(length)]


def _head(fields: dict[str, Any], size: int) -> Head:
    architecture = str(fields.get("general.architecture", "unknown"))

    def number(name: str) -> int | None:
        value = fields.get(f"{architecture}.{name}")
        # Some models give a number per layer; the largest is the safe one.
        value = max(value) if isinstance(value, tuple) and value else value
        return value if isinstance(value, int) and value > 0 else None

    layers, heads, width = number("block_count"), number("attention.head_count"), number("embedding_length")
    kv_heads = number("attention.head_count_kv") or heads
    per_head = number("attention.key_length") or (width // heads if width and heads else None)
    known = layers and kv_heads and per_head
    kv_bytes = 2 * layers * kv_heads * per_head * _BYTES_PER_VALUE if known else _UNKNOWN_KV  # type: ignore[operator]
    return Head(architecture=architecture, size=size, context=number("context_length"), kv_bytes=kv_bytes)


_SYSTEM = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def available_memory() -> int | None:
    """Return the bytes that can be used without swapping, a container's limit included; None where nobody says."""
    known = [free for free in (_of_system(), _of_group()) if free is not None]
    return min(known, default=None)


def _of_system() -> int | None:
    free = _number_in(_SYSTEM, r"^MemAvailable:\s+(\d+) kB")
    return None if free is None else free * 1024


def _of_group() -> int | None:
    limit, used = (_number_in(_GROUP / name, r"\A(\d+)\s*\Z") for name in ("memory.max", "memory.current"))
    if limit is None or used is None:
        return None
    # Files that are only cached count as used, and give way.
    return max(0, limit - used + (_number_in(_GROUP / "memory.stat", r"^inactive_file (\d+)") or 0))


def _number_in(file: Path, pattern: str) -> int | None:
    try:
        found = re.search(pattern, file.read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None
