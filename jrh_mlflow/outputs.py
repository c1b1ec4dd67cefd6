"""Files that a user names: results overwrite nothing unless that was said, packed data have a limit, CSV is safe."""

from __future__ import annotations

import csv
import gzip
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.text import REPLACEMENT

if TYPE_CHECKING:
    import pandas as pd


def check_free(path: str | Path, *, force: bool, holds: str = "") -> None:
    """Refuse to overwrite what lies at a path already; called before anything is paid or logged.

    Args:
        path: What is to be written.
        force: Whether overwriting was asked for.
        holds: What lies there, where more is known than that it exists.

    Raises:
        RecipeError: naming it, and the two ways out.
    """
    if not force and Path(path).exists():
        raise RecipeError(f"{path} {holds or 'exists already'}. Give another name, or overwrite it with --force.")


_FORMULA = re.compile(r"\s*[\t\r=+\-@|%＝＋－＠]")
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)*([eE][+-]?[0-9]+)?%?")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Controls but for tabs and line feeds, and what neither UTF-8 nor XML can hold."""


def begins_formula(text: str) -> bool:
    r"""Whether a spreadsheet may run a text as a formula; a number with a sign is none.

    Example:
        >>> [begins_formula(text) for text in ("=1+1", "\n @SUM(A1)", "-1.5", "a=1")]
        [True, True, False, False]
    """
    return bool(_FORMULA.match(text)) and not _NUMBER.fullmatch(text.strip())


def guard_formula(value: object) -> object:
    """Put an apostrophe before text that begins like a formula, whatever apostrophes it begins with already."""
    if isinstance(value, str) and begins_formula(value.lstrip("'")):
        return f"'{value}"
    return value


def remove_guard(value: object) -> object:
    """Take off the apostrophe that `guard_formula` puts before a text."""
    if isinstance(value, str) and value.startswith("'") and begins_formula(value.lstrip("'")):
        return value[1:]
    return value


def cell_text(text: str) -> str:
    """Return a text as a cell of a table can hold it: lines end in a line feed, other controls become U+FFFD."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub(REPLACEMENT, lines)


def column_name(name: object) -> str:
    """Return the name of a column as a cell holds it, in one line."""
    return re.sub(r"[\n\t]", " ", cell_text(str(name)))


def csv_text(frame: pd.DataFrame) -> str:
    """Return a table as CSV that no spreadsheet runs and that all readers split into the same rows.

    Every text is quoted, guarded against running as a formula, and without carriage returns: outside of quotes these
    would end a row. All CSV of this package is written here.
    """
    cells = frame.map(_csv_cell)
    cells.columns = [_csv_cell(column_name(name)) for name in frame.columns]
    text: str = cells.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    return text


def _csv_cell(value: object) -> object:
    return guard_formula(cell_text(value)) if isinstance(value, str) else value


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as `csv_text` does."""
    path.write_bytes(csv_text(frame).encode())


MAX_UNPACKED = 4 * 2**30
"""Bytes of one file, unpacked."""
MAX_RATIO = 200
"""Unpacked to packed bytes; JSON lines of one prompt, over and over, come to about 100."""
_SMALL = 64 * 2**20
"""Unpacked bytes that are no burden, whatever the ratio."""


_ROWS = 512
"""Rows of a Parquet file that are looked at together."""


def check_packed(path: Path, *, columns: Sequence[str] | None = None) -> None:
    """Refuse a packed file (gzip, zip or Parquet) that would grow out of all proportion, before it is read.

    A zip file is taken at its word: nobody reads more of a part than is declared.

    Args:
        path: The file.
        columns: Those that will be read of a Parquet file; all when None.

    Raises:
        RecipeError: naming it.
    """
    limit = min(MAX_UNPACKED, max(_SMALL, MAX_RATIO * path.stat().st_size))
    size = 0
    for piece in _pieces(path, columns):
        size += piece
        if size > limit:
            raise RecipeError(
                f"{path.name} would unpack to more than {limit // 2**20} MiB ({MAX_RATIO} times its size at most). "
                "If you trust it, unpack it yourself."
            )


def _pieces(path: Path, columns: Sequence[str] | None) -> Iterator[int]:
    """Yield the unpacked bytes of one part after the other; of a file that is not packed none."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield from (part.file_size for part in archive.infolist())
    elif path.suffix.lower() == ".gz":
        with gzip.open(path) as content:
            while piece := content.read(2**20):
                yield len(piece)
    elif path.suffix.lower() == ".parquet":
        from pyarrow import parquet

        with parquet.ParquetFile(path) as source:
            texts = [leaf.path for leaf in source.schema if leaf.physical_type == "BYTE_ARRAY"]
        # As dictionaries: a kilobyte can say of four megabytes that they stand in each of a million rows.
        with parquet.ParquetFile(path, read_dictionary=texts) as source:
            for batch in source.iter_batches(batch_size=_ROWS, columns=columns):
                yield sum(map(_arrow_bytes, batch.columns))


def _arrow_bytes(array: Any) -> int:
    """Return what an Arrow array takes without its dictionaries."""
    from pyarrow import compute, types

    kind, size = array.type, int(array.nbytes)
    if types.is_map(kind):
        return _arrow_bytes(array.keys) + _arrow_bytes(array.items)
    if types.is_nested(kind):
        inner = array.flatten()
        return sum(map(_arrow_bytes, inner if isinstance(inner, list) else [inner]))
    if types.is_dictionary(kind) and not types.is_primitive(kind.value_type):
        lengths = compute.cast(compute.binary_length(array.dictionary), "int64")
        size += compute.sum(lengths.take(array.indices)).as_py() or 0
    return size
