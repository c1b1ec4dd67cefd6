"""A user's dataset, whatever holds it: read without changing a cell, its columns by role."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.outputs import check_packed, remove_guard
from jrh_mlflow.suites.spreadsheets import read_xlsx, split_sheet

REQUIRED = ("instruction", "response", "label")
ROLES = ("id", *REQUIRED, "group", "label_source", "context")
LABELLER = "A model labels rows that have none: labeller=, --labeller."
"""The way out where rows have no label."""

ALIASES: Mapping[str, tuple[str, ...]] = {
    "instruction": ("prompt", "input", "question", "assignment"),
    "response": ("output", "answer", "completion", "text", "full_text"),
    "label": ("score", "grade", "human_consensus", "holistic_essay_score"),
}
"""Columns tried where a role's own name is missing and no mapping was given for it."""

_MOST_NAMES = 100
"""Columns and fields that an error lists."""
ABSENT = object()
"""What is not there, where None may be a value."""

_KINDS = (
    "Give a DataFrame, a CSV, TSV, JSON, Parquet or .xlsx file, a Hugging Face or MLflow dataset, or a list of dicts."
)
_READERS = {
    **{".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".ndjson": "json", ".json": "json"},
    **{".parquet": "parquet", ".xlsx": "xlsx"},
}


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a table by its ending (`.csv`, `.tsv`, `.jsonl`, `.json`, `.parquet`, `.xlsx`, the text ones also gzipped).

    CSV cells stay text: an id `007` is not 7 and a label `NA` is not missing. Of a spreadsheet the first sheet is read,
    or the one that is named: `answers.xlsx#Round 2`.

    Raises:
        RecipeError: naming the file, and the byte where it is not UTF-8.
    """
    path, sheet = split_sheet(Path(path))
    if not path.is_file():
        raise RecipeError(f"There is no file {path}. Check the path; a recipe may say where to get its file.")
    # `answers.csv.gz` is a CSV: the ending before `.gz` tells the kind.
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = _READERS.get(suffixes[-1]) if suffixes else None
    if kind is None:
        raise RecipeError(f"{path.name}: unknown ending. Known: {', '.join(_READERS)} (text ones also with .gz).")
    try:
        check_packed(path)
        frame = read_xlsx(path, sheet) if kind == "xlsx" else _read(path, kind, tab=suffixes[-1] == ".tsv")
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path.name} is not UTF-8 at byte {error.start}.") from error
    except (ValueError, OSError, EOFError, zlib.error, RecursionError) as error:
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
    comma = "\t" if tab else ","
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig", sep=comma)
    except pd.errors.ParserError as error:
        # It counts rows where a cell may hold several lines.
        raise ValueError(_broken_line(path, comma) or str(error)) from error
    if not isinstance(frame.index, pd.RangeIndex):
        raise ValueError(_broken_line(path, comma) or "its rows have more cells than its header has names")
    return frame


def _broken_line(path: Path, comma: str) -> str | None:
    """Say which line of a CSV file, as an editor counts them, has too many cells or opens a quote that nothing ends."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=comma, strict=True)
    line = 0
    try:
        header = next(rows, [])
        line = rows.line_num
        for row in rows:
            first, line = line + 1, rows.line_num
            if len(row) > len(header):
                return f"line {first} has {len(row)} cells, more cells than its header has names ({len(header)})"
    except csv.Error as error:
        return f"line {line + 1}: {error}"
    return None


def _read_json(path: Path) -> pd.DataFrame:
    """Read JSON lines, or one JSON list, keeping every value as it is written."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text = content.decode("utf-8-sig")
    rows = json.loads(text) if path.name.removesuffix(".gz").endswith(".json") else read_json_lines(text, kind=dict)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("a list of objects was expected")
    # Objects, or pandas would turn a column of 1 and None into 1.0 and NaN.
    frame: pd.DataFrame = pd.DataFrame(rows, dtype=object)
    return frame


def read_json_lines(text: str, *, kind: type | None = None) -> list[Any]:
    r"""Read JSON lines; only a newline ends one, and blank ones count.

    Raises:
        ValueError: naming the line, as an editor counts it, that is no JSON or not one of `kind`.

    Example:
        >>> read_json_lines('{"a": 1}\n\n{"a": 2')
        Traceback (most recent call last):
        ValueError: line 3 is no JSON: Expecting ',' delimiter at column 8
    """
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except (json.JSONDecodeError, RecursionError) as error:
            problem = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else "too deep"
            raise ValueError(f"line {number} is no JSON: {problem}") from error
        if kind is not None and not isinstance(rows[-1], kind):
            raise ValueError(f"line {number} holds a {type(rows[-1]).__name__}, and an object was expected")
    return rows


class DatasetTable:
    """Named columns of plain cells. `outputs.answer` names the key `answer` of the dicts in the column `outputs`.

    `outputs.0` names the first entry of the lists there; a cell with JSON as text is as good as what it says.
    """

    def __init__(self, dataset: object) -> None:
        frame = _frame(dataset)
        if len(frame) == 0:
            raise RecipeError("The dataset has no rows. Check the file, or the filter before it.")
        names = [str(name) for name in frame.columns]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise RecipeError(f"The dataset has two columns named {twice[0]!r}. Rename or drop one.")
        self._n_rows = len(frame)
        self._columns = {name: list(frame.iloc[:, place].astype(object)) for place, name in enumerate(names)}

    def __len__(self) -> int:
        return self._n_rows

    def __contains__(self, name: str) -> bool:
        return name in self._columns or any(cell is not ABSENT for cell in self._nested(name))

    @property
    def columns(self) -> list[str]:
        """Columns by name, without what lies inside their cells."""
        return list(self._columns)

    @property
    def names(self) -> list[str]:
        """Columns, those with dicts or lists followed by the dotted names inside."""
        names = []
        for name, cells in self._columns.items():
            dotted = {path: None for cell in cells for path in _paths(structured(cell), name)}
            names += [name, *dotted]
        return names

    def cells(self, name: str) -> list[object]:
        """Return a column; a dict that lacks the key gives None."""
        if name in self._columns:
            return self._columns[name]
        return [None if cell is ABSENT else cell for cell in self._nested(name)]

    def unguarded(self) -> DatasetTable:
        """Return the table of a `.csv` that this package wrote, without the guards against formulas."""
        columns = {name: list(map(remove_guard, cells)) for name, cells in self._columns.items()}
        return DatasetTable(pd.DataFrame(columns))

    def having(self, name: str, cells: Sequence[object]) -> DatasetTable:
        """Return the table with a column of these cells, in the place of one of that name."""
        return DatasetTable(pd.DataFrame({**self._columns, name: list(cells)}, dtype=object))

    def taken(self, rows: Sequence[int]) -> DatasetTable:
        """Return the table with these rows only."""
        columns = {name: [cells[row] for row in rows] for name, cells in self._columns.items()}
        return DatasetTable(pd.DataFrame(columns, dtype=object))

    def _nested(self, name: str) -> list[object]:
        outer = [column for column in self._columns if name.startswith(f"{column}.")]
        if not outer:
            return []
        # A column whose own name holds a dot comes before the key of a shorter one.
        column = max(outer, key=len)
        return [at_path(structured(cell), name[len(column) + 1 :]) for cell in self._columns[column]]


_FEW = 3
"""Entries of a list that are named where columns are told."""


def structured(cell: object) -> object:
    """Return the dict or list that a cell holds as JSON text; any other cell as it is."""
    # Only objects and lists: a bare `1` or `"x"` of a CSV is the text it is.
    if not isinstance(cell, str) or cell.lstrip()[:1] not in ("{", "["):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return cell


def _paths(cell: object, name: str) -> Iterator[str]:
    for key, inner in _entries(cell)[:_MOST_NAMES]:
        yield f"{name}.{key}"
        yield from _paths(inner, f"{name}.{key}")


def _entries(cell: object) -> list[tuple[str, object]]:
    if isinstance(cell, Mapping):
        return [(str(key), inner) for key, inner in cell.items()]
    if isinstance(cell, list | tuple | np.ndarray):
        return [(str(place), inner) for place, inner in enumerate(cell[:_FEW])]
    return []


def find_roles(
    table: DatasetTable, columns: Mapping[str, str] | None, *, constant: bool, unlabelled: bool = False
) -> dict[str, str]:
    """Return which column plays which role: as mapped, else by the role's own name, else by a common alias.

    Args:
        table: The dataset.
        columns: Role to column.
        constant: One instruction for all rows was given, so no column is looked for.
        unlabelled: There may be no column for the label.
    """
    given = {role: str(column) for role, column in (columns or {}).items()}
    for role, column in given.items():
        if role not in ROLES:
            raise RecipeError(f"Unknown column role {role!r}.{suggest(str(role), ROLES)} Roles: {', '.join(ROLES)}.")
        demand_column(table, column, f"for {role}")
    needed = [role for role in REQUIRED if not (role == "instruction" and constant)]
    taken = set(given.values())
    for role in ROLES:
        # Where one instruction is given for all rows, a column `prompt` is not taken for it by its alias.
        if role not in given and (name := _own_name_or_alias(table, role, taken, aliases=role in needed)):
            given[role] = name
    if constant and "instruction" in given:
        column = given["instruction"]
        raise RecipeError(f"`instruction` was given, and the dataset has the column {column!r} for it. Leave one out.")
    _check_roles(table, given, [role for role in needed if role in given or not (unlabelled and role == "label")])
    return given


def demand_column(table: DatasetTable, column: str, why: str) -> None:
    """Refuse a table without a column: `why` says what it is for."""
    if column not in table:
        raise RecipeError(f"The dataset lacks the column {column!r} ({why}).{present(table, column)}")


def present(table: DatasetTable, missing: str) -> str:
    """Say which columns there are, the nearest name first."""
    names = [" ".join(name.split()) for name in table.names]
    more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{suggest(missing, names)} Columns there are: {', '.join(names[:_MOST_NAMES])}{more}."


def refuse_rows(
    column: str | None,
    rule: str,
    broken: Iterable[bool],
    *,
    ids: Sequence[str] | None = None,
    shown: Sequence[object] | None = None,
    advice: str = "",
) -> None:
    """Raise when rows break a rule, naming the first five by number (from 1, headers not counted) and id.

    Args:
        column: Where the rule holds; None for whole rows.
        rule: What must hold, e.g. `must be text`.
        broken: Of all rows, which break it.
        ids: Of all rows, where they are known.
        shown: Of all rows, the cells to show of those that break it.
        advice: A sentence on what else can be done.

    Raises:
        RecipeError: when one does.
    """
    rows = [row for row, bad in enumerate(broken) if bad]
    if not rows:
        return
    named = [_named(row, shown[row] if shown else None, ids) for row in rows[:5]]
    subject = "Rows" if column is None else f"Column {column!r}"
    count = "1 row does not" if len(rows) == 1 else f"{len(rows)} rows do not"
    more = ", …" if len(rows) > 5 else ""
    raise RecipeError(f"{subject} {rule}, but {count}: {', '.join(named)}{more}.{advice and f' {advice}'}")


def at_path(cell: object, path: str) -> object:
    """Return what a dotted path reaches in nested mappings and lists, or `ABSENT`; a key may itself hold dots."""
    head, _, rest = path.partition(".")
    if isinstance(cell, list | tuple | np.ndarray):
        entry = cell[int(head)] if head.isdecimal() and int(head) < len(cell) else ABSENT
        return at_path(entry, rest) if rest else entry
    if not isinstance(cell, Mapping):
        return ABSENT
    # A whole key comes first: `{"a.b": 1}` is found by `a.b`.
    if path in cell:
        return cell[path]
    return at_path(cell.get(head), rest) if rest else ABSENT


def is_missing(cell: Any) -> bool:
    """Tell whether a cell holds nothing: None, NaN, NA, or text without a visible character."""
    return not cell.strip() if isinstance(cell, str) else is_na(cell)


def is_na(cell: Any) -> bool:
    """Tell None, NaN, NaT and NA."""
    return bool(pd.api.types.is_scalar(cell) and pd.isna(cell))


def _frame(dataset: object) -> pd.DataFrame:
    if isinstance(dataset, pd.DataFrame):
        return dataset
    if isinstance(dataset, str | Path):
        return read_table(dataset)
    # A mapping iterates over its keys, which would read as rows of text.
    if isinstance(dataset, Mapping):
        raise RecipeError(_why_no_mapping(dataset))
    # Known by their methods, so that neither library is needed: MLflow's evaluation datasets, then Hugging Face's,
    # Polars' and Arrow's; last the MLflow datasets that wrap one of these.
    for method in ("to_df", "to_pandas"):
        if callable(convert := getattr(dataset, method, None)):
            frame = convert()
            if isinstance(frame, pd.DataFrame):
                return frame
            raise RecipeError(f"The {type(dataset).__name__} gave a {type(frame).__name__}, no DataFrame. {_KINDS}")
    for attribute in ("df", "ds"):
        if (inner := getattr(dataset, attribute, None)) is not None:
            return _frame(inner)
    if isinstance(dataset, Iterable):
        return _from_rows(list(dataset))
    raise RecipeError(f"A dataset cannot be a {type(dataset).__name__}. {_KINDS}")


def _why_no_mapping(dataset: Mapping[object, object]) -> str:
    splits = [
        repr(name) for name, split in dataset.items() if hasattr(split, "to_pandas") or hasattr(split, "features")
    ]
    if splits:
        return f"The dataset has several splits: {', '.join(splits)}. Give one of them, e.g. dataset[{splits[0]}]."
    return f"A dataset cannot be a single {type(dataset).__name__}. {_KINDS}"


def _from_rows(rows: Sequence[object]) -> pd.DataFrame:
    odd = [not isinstance(row, Mapping) for row in rows]
    refuse_rows(None, "must be mappings from column to cell", odd, shown=[type(row).__name__ for row in rows])
    frame: pd.DataFrame = pd.DataFrame([dict(row) for row in rows if isinstance(row, Mapping)], dtype=object)
    return frame


def _own_name_or_alias(table: DatasetTable, role: str, taken: set[str], *, aliases: bool) -> str | None:
    if role in table and role not in taken:
        return role
    names = [name for name in ALIASES.get(role, ()) if aliases and name in table and name not in taken]
    if len(names) > 1:
        either = " or ".join(repr(name) for name in names)
        raise RecipeError(f"The {role} may be in {either}. Say which: columns={{{role!r}: {names[0]!r}}}.")
    return names[0] if names else None


def _check_roles(table: DatasetTable, roles: Mapping[str, str], needed: Sequence[str]) -> None:
    for role in needed:
        if role in roles:
            continue
        tried = ", ".join((role, *ALIASES[role]))
        hint = f"columns={{{role!r}: …}}" + (", or one instruction for all rows" if role == "instruction" else "")
        advice = f" {LABELLER}" if role == "label" else ""
        raise RecipeError(
            f"The dataset has no column for the {role} (looked for {tried}). Give {hint}.{present(table, role)}{advice}"
        )
    for column, count in Counter(roles[role] for role in needed).items():
        if count > 1:
            both = " and ".join(role for role in needed if roles[role] == column)
            raise RecipeError(f"The column {column!r} cannot be {both} at once. Map each to its own column.")


def _named(row: int, cell: object, ids: Sequence[str] | None) -> str:
    place = f"row {row + 1}" if ids is None else f"row {row + 1} (id {ids[row]!r})"
    if cell is None:
        return place
    shown = repr(cell)
    return f"{place}: {shown[:40]}{'…' if len(shown) > 40 else ''}"
