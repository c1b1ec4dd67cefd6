"""Records of a run in the order of its plan: the latest in memory, all others packed in a file without a name.

Their table holds each text once where texts repeat, and reads the others (what judges wrote, hashes) from the file when
somebody looks at them: what a run takes of memory hardly grows with its calls.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from math import isnan
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.extensions import ExtensionArray, ExtensionDtype

from jrh_mlflow.schema.items import CallRecord

Rows = npt.NDArray[np.int64]

AT_ONCE = 4096
"""Records that are packed together, and rows of a group in a file of calls."""
ON_DISK = ("rationale", "raw", "error", "probabilities", "prompt_sha256")
"""Texts that hardly ever repeat."""
_COUNTS = ("attempts", "unknown_attempts")


def _kind(annotation: str) -> str:
    return next((kind for kind in ("str", "float", "int", "bool") if annotation.startswith(kind)), "str")


_KINDS = {part.name: "int" if part.name in _COUNTS else _kind(str(part.type)) for part in fields(CallRecord)}
_ROW = "row"


@contextmanager
def _returning_memory() -> Iterator[None]:
    """Let Arrow take memory from the system, and give it back: its own pool keeps what it had at the most."""
    import pyarrow as pa

    former = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(former)


class RecordLog(Collection[CallRecord]):
    """Takes the records of a run as they come, and gives them back in the order of their numbers."""

    def __init__(self, *, may_change: Callable[[CallRecord], bool] = lambda record: False) -> None:
        """Make an empty one; a record that `may_change` stays in memory, because another may take its place."""
        self._may_change = may_change
        self._memory: defaultdict[int, dict[int, CallRecord]] = defaultdict(dict)
        self._packed: dict[int, tuple[int, int]] = {}
        """Where the packed records of each block are in the file: its place and its length."""
        self._file: BinaryIO | None = None
        self._size = self._n_records = 0
        self._filled = set[str]()
        """Columns of packed records with a value."""
        self._packs = True

    def add(self, number: int, record: CallRecord) -> None:
        """Keep a record, in the place of an earlier one of that number."""
        block = self._memory[number // AT_ONCE]
        self._n_records += number not in block
        block[number] = record
        if len(block) == AT_ONCE and self._packs and number // AT_ONCE not in self._packed:
            self._pack(number // AT_ONCE)

    def __len__(self) -> int:
        return self._n_records

    def __contains__(self, record: object) -> bool:
        return any(record == one for one in self)

    def __iter__(self) -> Iterator[CallRecord]:
        for block in self._blocks:
            _, columns = self._read(block, tuple(_KINDS))
            cells = [_plain(name, columns[name]) for name in _KINDS]
            yield from (CallRecord(**dict(zip(_KINDS, row, strict=True))) for row in zip(*cells, strict=True))

    @property
    def on_disk(self) -> bool:
        """Whether any record is."""
        return bool(self._packed)

    @property
    def latest(self) -> list[CallRecord]:
        """The records in memory, in the order of their numbers."""
        return [block[number] for _, block in sorted(self._memory.items()) for number in sorted(block)]

    def frame(self) -> pd.DataFrame:
        """Return the table of the records, with columns that have a value at all; some of its texts are `DiskTexts`."""
        columns: dict[str, Any] = {
            name: np.empty(len(self), dtype=object if kind == "str" else float)
            for name, kind in _KINDS.items()
            if name not in ON_DISK
        }
        names, known, rows, start = tuple(columns), dict[str, str](), np.empty(len(self), dtype=np.int64), 0
        for block in self._blocks:
            numbers, cells = self._read(block, names, known)
            stop = start + len(numbers)
            rows[start:stop] = numbers
            for name in names:
                columns[name][start:stop] = cells[name]
            start = stop
        left = self.latest
        for name in ON_DISK:
            if name in self._filled or any(getattr(record, name) is not None for record in left):
                columns[name] = DiskTexts(self.texts(name), rows)
        table: pd.DataFrame = pd.DataFrame(
            {name: _typed(name, columns.get(name), len(self)) for name in _KINDS}, copy=False
        )
        return table

    def texts(self, name: str) -> Callable[[Rows], npt.NDArray[np.object_]]:
        """Return what reads the texts of one column by their numbers."""

        def read(numbers: Rows) -> npt.NDArray[np.object_]:
            found, blocks = np.full(len(numbers), None, dtype=object), numbers // AT_ONCE
            for block in np.unique(blocks[numbers >= 0]).tolist():
                here = np.flatnonzero(blocks == block)
                known, columns = self._read(block, (name,))
                found[here] = columns[name][np.searchsorted(known, numbers[here])]
            return found

        return read

    @property
    def _blocks(self) -> list[int]:
        return sorted({*self._packed, *(number for number, block in self._memory.items() if block)})

    def _pack(self, number: int) -> None:
        import pyarrow as pa

        block = self._memory[number]
        settled = [place for place in sorted(block) if not self._may_change(block[place])]
        types = {"str": pa.string(), "float": pa.float64(), "int": pa.int64(), "bool": pa.bool_()}
        # A disk that is full, or a cell that is no text or number: then they all stay where they are.
        self._packs = False
        with _returning_memory(), suppress(OSError, TypeError, ValueError, pa.ArrowException):
            columns = {_ROW: pa.array(settled, pa.int64())}
            for name, kind in _KINDS.items():
                columns[name] = pa.array([getattr(block[place], name) for place in settled], types[kind])
            batch, sink = pa.record_batch(columns), pa.BufferOutputStream()
            options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
            with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
                stream.write_batch(batch)
            content = sink.getvalue()
            if os.pwrite(self._open().fileno(), content, self._size) < content.size:
                raise OSError("No space is left.")
            self._packed[number], self._size = (self._size, content.size), self._size + content.size
            self._filled.update(name for name, column in columns.items() if column.null_count < len(column))
            self._memory[number] = {place: block[place] for place in block.keys() - set(settled)}
            self._packs = True

    def _open(self) -> BinaryIO:
        if self._file is None:
            # Without a name from the start: a process that is killed leaves nothing behind.
            self._file = tempfile.TemporaryFile(prefix="jrh-")  # noqa: SIM115 - as long as anybody reads it
            weakref.finalize(self, self._file.close)
        return self._file

    def _read(
        self, block: int, names: Sequence[str], known: dict[str, str] | None = None
    ) -> tuple[Rows, dict[str, npt.NDArray[Any]]]:
        """Return numbers and columns of a block, in the order of the numbers; texts in `known` are one object each."""
        import pyarrow as pa

        left = self._memory.get(block, {})
        numbers: Rows = np.array(sorted(left), dtype=np.int64)
        columns = {name: _array(name, [getattr(left[number], name) for number in numbers.tolist()]) for name in names}
        if block not in self._packed:
            return numbers, columns
        place, length = self._packed[block]
        wanted = [0, *(list(_KINDS).index(name) + 1 for name in names)]
        options = pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
        content = os.pread(self._open().fileno(), length, place)
        with _returning_memory(), pa.ipc.open_stream(content, options=options) as stream:
            batch = stream.read_next_batch()
            packed = {name: _cells(name, batch.column(name), known) for name in names}
        if not len(numbers):
            return batch.column(_ROW).to_numpy(), packed
        numbers = np.concatenate([batch.column(_ROW).to_numpy(), numbers])
        order = np.argsort(numbers)
        return numbers[order], {name: np.concatenate([packed[name], columns[name]])[order] for name in names}


def _plain(name: str, cells: npt.NDArray[Any]) -> list[Any]:
    """Return cells as the record had them."""
    kind = {"str": str, "float": float, "int": int, "bool": bool}[_KINDS[name]]
    return [None if cell is None or (kind is not str and isnan(cell)) else kind(cell) for cell in cells.tolist()]


def _typed(name: str, cells: Any, length: int) -> Any:
    """Return a column as `pandas` makes it of the cells of records."""
    if cells is None or cells.dtype == object:
        # As objects, where a text that repeats is one; an array would become a column with a copy for each row.
        return pd.Series(np.full(length, None) if cells is None else cells, dtype=object, copy=False)
    if _KINDS[name] == "bool":
        return cells.astype(bool)
    whole = _KINDS[name] == "int" and not np.isnan(cells).any()
    return cells.astype(np.int64) if whole else cells


def _array(name: str, cells: list[Any]) -> npt.NDArray[Any]:
    if _KINDS[name] == "str":
        return np.array([*cells, None], dtype=object)[:-1]
    return np.array([np.nan if cell is None else cell for cell in cells], dtype=float)


def _cells(name: str, column: Any, known: dict[str, str] | None) -> npt.NDArray[Any]:
    if _KINDS[name] != "str":
        numbers: npt.NDArray[Any] = column.cast("float64").to_numpy(zero_copy_only=False)
        return numbers
    if known is None or name in ON_DISK:
        texts: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return texts
    coded = column.dictionary_encode()
    kinds = [None if text is None else known.setdefault(text, text) for text in coded.dictionary.to_pylist()]
    own: npt.NDArray[Any] = np.array([*kinds, None], dtype=object)[coded.indices.fill_null(len(kinds)).to_numpy()]
    return own


class DiskText(ExtensionDtype):
    """The type of columns whose cells are read when somebody looks at them."""

    name, type, na_value = "text on disk", str, None

    @classmethod
    def construct_array_type(cls) -> Any:
        """Return the class of its columns."""
        return DiskTexts


class DiskTexts(ExtensionArray):
    """A column of texts that are not in memory; it is read, filtered and sorted as any other, and never written."""

    def __init__(self, read: Callable[[Rows], npt.NDArray[np.object_]], rows: Rows) -> None:
        """Make it of what reads texts by their numbers, and the number of each row; below 0 for an empty cell."""
        self._texts, self._rows = read, rows

    @classmethod
    def _from_sequence(cls, scalars: Any, *, dtype: Any = None, copy: bool = False) -> DiskTexts:
        texts = np.array([*scalars, None], dtype=object)
        return cls(texts.__getitem__, np.arange(len(texts) - 1))

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[DiskTexts]) -> DiskTexts:
        return cls._from_sequence([text for part in to_concat for text in part])

    @property
    def dtype(self) -> DiskText:
        """Its type."""
        return DiskText()

    @property
    def nbytes(self) -> int:
        """What it takes of memory."""
        return self._rows.nbytes

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self), AT_ONCE):
            yield from self._texts(self._rows[start : start + AT_ONCE])

    def __getitem__(self, item: Any) -> Any:
        item = pd.api.indexers.check_array_indexer(self, item)
        rows = self._rows[item]
        return DiskTexts(self._texts, rows) if isinstance(rows, np.ndarray) else self._texts(np.array([rows]))[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self._texts(self._rows).astype(dtype or object)

    def __eq__(self, other: object) -> Any:
        return np.asarray(self) == (np.asarray(other) if isinstance(other, DiskTexts) else other)

    __hash__ = ExtensionArray.__hash__

    def __arrow_array__(self, type: Any = None) -> Any:
        import pyarrow as pa

        return pa.array(list(self), type or pa.string())

    def __reduce__(self) -> tuple[Any, ...]:
        return DiskTexts._from_sequence, (list(self),)

    def isna(self) -> npt.NDArray[np.bool_]:
        """Mark the empty cells."""
        return np.fromiter((text is None for text in self), dtype=bool, count=len(self))

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> DiskTexts:
        """Return the cells at some places; with `allow_fill` -1 is an empty one."""
        places = np.asarray(indices, dtype=np.intp)
        rows = np.where(places < 0, -1, self._rows[places]) if allow_fill else self._rows[places]
        return DiskTexts(self._texts, rows)

    def copy(self) -> DiskTexts:
        """Return another one of the same texts."""
        return DiskTexts(self._texts, self._rows)


def is_on_disk(calls: pd.DataFrame) -> bool:
    """Whether texts of a table are read from a disk."""
    return any(isinstance(kind, DiskText) for kind in calls.dtypes)


def in_memory(calls: pd.DataFrame) -> pd.DataFrame:
    """Return a table of calls with all its texts in memory, typed as `pandas` types them."""
    return calls.astype(_text_types(calls)) if is_on_disk(calls) else calls


def _text_types(calls: pd.DataFrame) -> dict[Any, Any]:
    # A column without any text has no type.
    text = pd.Series(["a"]).dtype
    return {
        name: text
        for name, kind in calls.dtypes.items()
        if isinstance(kind, DiskText) or (kind.name == "object" and any(cell is not None for cell in calls[name]))
    }


def write_calls(calls: pd.DataFrame, path: Path) -> None:
    """Write a table of calls to a Parquet file, group by group where its texts are on a disk."""
    if not is_on_disk(calls):
        calls.to_parquet(path, index=False)
        return
    import pyarrow as pa
    from pyarrow import parquet

    types = _text_types(calls)
    schema = pa.Table.from_pandas(calls[:1].astype(types), preserve_index=False).schema
    for name in types:
        schema = schema.set(schema.get_field_index(name), pa.field(name, pa.array(pd.Series(["a"])).type))
    with _returning_memory(), parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, len(calls), AT_ONCE):
            part = calls.iloc[start : start + AT_ONCE].astype(types)
            writer.write_table(pa.Table.from_pandas(part, schema, preserve_index=False))
