"""Tables in: CSV, JSON lines and Parquet, read so that no id, label or empty cell changes on the way."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pandas as pd

from jrh_mlflow.errors import RecipeError

_READERS = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".ndjson": "json", ".json": "json", ".parquet": "parquet"}


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a table by its ending (`.csv`, `.tsv`, `.jsonl`, `.json`, `.parquet`, the text ones also gzipped).

    CSV cells stay text: an id `007` is not 7 and a label `NA` is not missing.

    Raises:
        RecipeError: naming the file, and the byte where it is not UTF-8.
    """
    path = Path(path)
    if not path.is_file():
        raise RecipeError(f"There is no file {path}. Check the path; a recipe may say where to get its file.")
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = _READERS.get(suffixes[-1]) if suffixes else None
    if kind is None:
        raise RecipeError(f"{path.name}: unknown ending. Known: {', '.join(_READERS)} (text ones also with .gz).")
    try:
        frame = _read(path, kind, tab=suffixes[-1] == ".tsv")
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path.name} is not UTF-8 at byte {error.start}.") from error
    except (ValueError, OSError) as error:
        raise RecipeError(f"{path.name} cannot be read: {' '.join(str(error).split())[:200]}.") from error
    if frame.empty:
        raise RecipeError(f"{path.name} has no rows.")
    return frame


def _read(path: Path, kind: str, *, tab: bool) -> pd.DataFrame:
    if kind == "parquet":
        return pd.read_parquet(path)
    if kind == "json":
        return _read_json(path)
    # `index_col=False` would drop cells beyond the header without a word, and None would shift every column.
    frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig", sep="\t" if tab else ",")
    if not isinstance(frame.index, pd.RangeIndex):
        raise ValueError("its rows have more cells than its header has names")
    return frame


def _read_json(path: Path) -> pd.DataFrame:
    """Read JSON lines, or one JSON list, keeping every value as it is written."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text = content.decode("utf-8-sig")
    if path.name.removesuffix(".gz").endswith(".json"):
        rows = json.loads(text)
    else:
        rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("a list of objects was expected")
    frame: pd.DataFrame = pd.DataFrame(rows, dtype=object)
    return frame
