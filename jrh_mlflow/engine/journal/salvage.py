"""Reading what can be read of a damaged journal, page by page, without SQLite.

SQLite stops at the first page it cannot follow, and reads nothing at all under a damaged header. Here every leaf page
of the file and of its write-ahead log is looked at for itself; the sha256 of each row tells what is whole. The layout
is that of https://www.sqlite.org/fileformat2.html, sections 1.6, 2.1 and 4.1.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

from jrh_mlflow.engine.journal.rows import CallRow
from jrh_mlflow.engine.journal.tables import APPLICATION_ID, PAGE_BYTES

_LEAF = 0x0D
_WAL_HEADER, _FRAME_HEADER = 32, 24
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_Broken = (IndexError, KeyError, ValueError, TypeError, struct.error)


class Pages:
    """The newest image of every page. Nothing else of this process may have the journal open."""

    def __init__(self, journal: Path) -> None:
        self._data = _mapped(journal)
        self._log = _mapped(journal.with_name(f"{journal.name}-wal"))
        self._newest = dict(self._frames())

    def __len__(self) -> int:
        return max([-(-len(self._data) // PAGE_BYTES), *self._newest])

    def __getitem__(self, number: int) -> bytes:
        if number < 1:
            raise IndexError(number)
        if number in self._newest:
            start = self._newest[number]
            return self._log[start : start + PAGE_BYTES]
        return self._data[(number - 1) * PAGE_BYTES : number * PAGE_BYTES]

    def _frames(self) -> Iterator[tuple[int, int]]:
        salt = self._log[16:24]
        for start in range(_WAL_HEADER, len(self._log) - PAGE_BYTES, _FRAME_HEADER + PAGE_BYTES):
            # Frames of an earlier round of the log carry another salt.
            if self._log[start + 8 : start + 16] == salt:
                yield int.from_bytes(self._log[start : start + 4], "big"), start + _FRAME_HEADER

    def look_like_a_journal(self) -> bool:
        """Whether the header says that a journal wrote this file."""
        return self._data[68:72] == APPLICATION_ID.to_bytes(4, "big")


def _mapped(path: Path) -> bytes | mmap.mmap:
    """Map a file into memory; the system reads of it what is looked at."""
    if not path.exists() or path.stat().st_size == 0:
        return b""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def salvage_rows(pages: Pages) -> Iterator[tuple[int, CallRow]]:
    """Yield id and content of every call that is whole. A call may come more than once, from pages left behind."""
    for number in range(1, len(pages) + 1):
        page = pages[number]
        start = 100 if number == 1 else 0
        if page[start : start + 1] != bytes([_LEAF]):
            continue
        for cell in range(int.from_bytes(page[start + 3 : start + 5], "big")):
            found = _read_cell(pages, page, start + 8 + 2 * cell)
            if found is not None:
                yield found


def _read_cell(pages: Pages, page: bytes, pointer: int) -> tuple[int, CallRow] | None:
    try:
        size, at = _varint(page, int.from_bytes(page[pointer : pointer + 2], "big"))
        number, at = _varint(page, at)
        if size > len(pages) * PAGE_BYTES:
            return None
        values = _values(_payload(pages, page, at, size))
        row = CallRow._make(values[1:])
        row = row._replace(at=float(row.at))
        return (number, row) if row.is_intact() else None
    except _Broken:
        return None


def _payload(pages: Pages, page: bytes, at: int, size: int) -> bytes:
    """Join the part of a record on its leaf page with its chain of overflow pages."""
    if size <= PAGE_BYTES - 35:
        return page[at : at + size]
    smallest = (PAGE_BYTES - 12) * 32 // 255 - 23
    local = smallest + (size - smallest) % (PAGE_BYTES - 4)
    local = local if local <= PAGE_BYTES - 35 else smallest
    parts, missing = [page[at : at + local]], size - local
    following = int.from_bytes(page[at + local : at + local + 4], "big")
    while missing > 0:
        overflow = pages[following]
        if len(overflow) < PAGE_BYTES:
            raise ValueError("the chain of overflow pages is cut off")
        parts.append(overflow[4 : 4 + missing])
        missing -= PAGE_BYTES - 4
        following = int.from_bytes(overflow[:4], "big")
    return b"".join(parts)


def _values(record: bytes) -> list[object]:
    header_end, at = _varint(record, 0)
    kinds = []
    while at < header_end:
        kind, at = _varint(record, at)
        kinds.append(kind)
    values: list[object] = []
    for kind in kinds:
        width = _INTEGER_BYTES.get(kind, 8 if kind == 7 else max(0, kind - 12) // 2)
        values.append(_value(kind, record[at : at + width]))
        at += width
    return values


def _value(kind: int, data: bytes) -> object:
    if kind == 0:
        return None
    if kind in _INTEGER_BYTES:
        return int.from_bytes(data, "big", signed=True)
    if kind == 7:
        return struct.unpack(">d", data)[0]
    if kind in (8, 9):
        return kind - 8
    return data.decode() if kind % 2 else data


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for step in range(8):
        byte = data[at + step]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + step + 1
    return value << 8 | data[at + 8], at + 9
