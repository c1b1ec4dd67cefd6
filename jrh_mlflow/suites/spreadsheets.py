"""Tables of a user: `.xlsx` in, `.xlsx`, `.csv` and `.jsonl` out, every cell a value and never a formula."""

from __future__ import annotations

import datetime
import json
import math
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from jrh_mlflow.errors import JrhError, RecipeError, suggest
from jrh_mlflow.outputs import begins_formula, cell_text, check_free, column_name, write_csv
from jrh_mlflow.perturb.registry import name_of_test
from jrh_mlflow.schema.items import BASELINE, Item
from jrh_mlflow.schema.presentation import message_text

SHEET_MARK = "#"
"""Between the file and the name of one of its sheets: `answers.xlsx#Round 2`."""
OUTPUTS = (".xlsx", ".csv", ".jsonl")
MOST_ROWS = 1_048_576
"""Of a sheet, header included: what the format can hold."""
LONGEST_CELL = 32_767
"""UTF-16 units of a cell: what the format can hold."""
_MAX_CELLS = 20_000_000
"""That are read of one sheet."""
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
_TO_ESCAPE = re.compile("_(?=x[0-9A-Fa-f]{4}_)")
"""The format writes a character as its code: `_x0041_` is an A."""


def openpyxl() -> ModuleType:
    """Return the library that reads and writes `.xlsx`.

    Raises:
        RecipeError: saying how to install it.
    """
    try:
        import openpyxl
    except ImportError as error:
        raise RecipeError("Spreadsheets (.xlsx) need openpyxl: pip install 'jrh-mlflow[excel]'.") from error
    library: ModuleType = openpyxl
    return library


def split_sheet(path: Path) -> tuple[Path, str | None]:
    """Part `answers.xlsx#Round 2` into file and sheet; a file of that very name comes first."""
    file, mark, sheet = str(path).rpartition(f".xlsx{SHEET_MARK}")
    return (path, None) if not mark or path.exists() else (Path(f"{file}.xlsx"), sheet)


def read_xlsx(path: Path, sheet: str | None) -> pd.DataFrame:
    """Read a sheet, the first when None: its first row names the columns, numbers and booleans stay what they are.

    Empty cells are None, dates are ISO text, and of a formula the value counts that the spreadsheet last computed.

    Raises:
        ValueError: for a sheet that is not there, a column without a name or with another's, a cell that is an error,
            or a formula without a value.
    """
    from zipfile import BadZipFile

    try:
        book = openpyxl().load_workbook(path, read_only=True, data_only=True)
    except (BadZipFile, KeyError) as error:
        raise ValueError("it is no .xlsx file (an old .xls must be saved as .xlsx)") from error
    with closing(book):
        name = _sheet_name(book.sheetnames, sheet)
        rows = [[_read_cell(cell) for cell in row] for row in _rows(book[name])]
    width = max((len(row) for row in rows), default=0)
    frame = pd.DataFrame([[*row, *[None] * (width - len(row))] for row in rows], dtype=object)
    # Read as values, so a formula that nobody computed is None like an empty cell.
    if frame.isna().any(axis=None):
        _refuse_uncomputed(path, name, frame)
    # Spreadsheets keep formatted but empty rows and columns at the end.
    frame = frame.dropna(axis=1, how="all")
    last = frame.last_valid_index() if len(frame.columns) else None
    if last is None:
        raise ValueError(f"its sheet {name!r} is empty")
    return _with_header(frame.loc[:last])


def _rows(sheet: Any) -> Iterator[Sequence[Any]]:
    # What a file says of its size may be wrong, and would cut it.
    sheet.reset_dimensions()
    n_cells = 0
    row: Sequence[Any]
    for number, row in enumerate(sheet.iter_rows(), 1):
        # A few bytes can number a row a billion, and all before it would be read as empty.
        n_cells += len(row)
        if number > MOST_ROWS or n_cells > _MAX_CELLS:
            limit = f"{MOST_ROWS:,} rows or {_MAX_CELLS:,} cells"
            raise ValueError(f"its sheet {sheet.title!r} has more than {limit}")
        yield row


def _sheet_name(names: list[str], sheet: str | None) -> str:
    if sheet is None:
        return names[0]
    if sheet not in names:
        known = f"Sheets there are: {', '.join(names)}"
        raise ValueError(f"there is no sheet {sheet!r}.{suggest(sheet, names)} {known}")
    return sheet


def _read_cell(cell: Any) -> object:
    value = cell.value
    if cell.data_type == "e":
        raise ValueError(f"cell {cell.coordinate} is the error {value}")
    if isinstance(value, str):
        return _ESCAPED.sub(lambda code: chr(int(code[1], 16)), value) or None
    if isinstance(value, datetime.date | datetime.time):
        # A day is stored as its midnight.
        return value.isoformat().removesuffix("T00:00:00")
    return value


def _refuse_uncomputed(path: Path, sheet: str, frame: pd.DataFrame) -> None:
    """Refuse formulas that no spreadsheet has computed: read as values their cells would look empty."""
    with closing(openpyxl().load_workbook(path, read_only=True)) as book:
        formulas = [cell for row in _rows(book[sheet]) for cell in row if cell.data_type == "f"]
    for cell in formulas:
        if frame.iat[cell.row - 1, cell.column - 1] is None:
            advice = "open the file in a spreadsheet and save it"
            raise ValueError(f"cell {cell.coordinate} is a formula that was never computed: {advice}")


def _with_header(frame: pd.DataFrame) -> pd.DataFrame:
    """Take the first row for the names of the columns."""
    names = frame.iloc[0]
    for place, name in names.items():
        if name is None:
            raise ValueError(f"column {int(str(place)) + 1} has cells and no name in the first row")
    columns = names.map(str)
    if columns.duplicated().any():
        raise ValueError(f"two columns are named {columns[columns.duplicated()].iloc[0]!r}")
    table: pd.DataFrame = frame.iloc[1:].set_axis(list(columns), axis=1).reset_index(drop=True)
    return table


def items_frame(items: Sequence[Item]) -> pd.DataFrame:
    """Return one row per item: its source, what is expected, the text before and after, and how it was made."""
    originals = {item.original: item for item in items if item.condition == BASELINE}
    rows = [_item_row(item, originals.get(item.original)) for item in items]
    frame: pd.DataFrame = pd.DataFrame(rows, dtype=object).dropna(axis=1, how="all")
    return frame


def _item_row(item: Item, original: Item | None) -> dict[str, object]:
    is_base = item.condition == BASELINE
    return {
        "id": item.id,
        "source": item.task,
        "test": item.condition if is_base else name_of_test(item.condition),
        "condition": item.condition,
        "label": item.expected,
        "better": item.better,
        "original": None if original is None or is_base else _content(original),
        "text": _content(item),
        "u": item.u,
        "v": item.v,
        "instruction": item.instruction,
        "rubric": item.rubric,
        "made": json.dumps(dict(item.meta), ensure_ascii=False, default=str) if item.meta else None,
    }


def _content(item: Item) -> str | None:
    if not item.transcript:
        return item.response
    return "\n\n".join(f"{message.role}: {message_text(message)}" for message in item.transcript)


def checked_output(path: str | Path, *, force: bool = False) -> Path:
    """Return where a table is to be written, after checking before anything is paid that it can be.

    Raises:
        RecipeError: for an ending that is not known, a file that is there already, or a missing library.
    """
    path = Path(path)
    if path.suffix.lower() not in OUTPUTS:
        raise RecipeError(f"{path.name}: a table is written as {', '.join(OUTPUTS[:-1])} or {OUTPUTS[-1]}.")
    check_free(path, force=force)
    if path.suffix.lower() == ".xlsx":
        openpyxl()
    return path


def write_table(frame: pd.DataFrame, path: str | Path, *, force: bool = False) -> list[str]:
    """Write a table, whole or not at all, and return what a reader must know: what was replaced or cut.

    Text that a spreadsheet would run as a formula stays text: in `.xlsx` by the type of its cell, in `.csv`, which has
    none, by an apostrophe before it.

    Raises:
        RecipeError: as `checked_output` does, or for more rows than a sheet can hold.
        JrhError: when it cannot be written.
    """
    path = checked_output(path, force=force)
    write = {".xlsx": _write_xlsx, ".csv": _write_csv, ".jsonl": _write_jsonl}[path.suffix.lower()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # In the same folder, because a rename is whole or not at all on one disk only.
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".jrh-") as folder:
            draft = Path(folder, path.name)
            note = write(frame, draft)
            draft.replace(path)
    except OSError as error:
        raise JrhError(f"{path} cannot be written: {error.strerror or error}.") from error
    return [f"{path.name}: {note}"] if note else []


def _write_csv(frame: pd.DataFrame, path: Path) -> str:
    write_csv(frame, path)
    texts = [cell for name in frame.columns for cell in frame[name] if isinstance(cell, str)]
    n_guarded = sum(begins_formula(cell_text(text)) for text in texts)
    return f"{n_guarded} cell(s) begin like a formula and have an apostrophe before them" if n_guarded else ""


def _write_jsonl(frame: pd.DataFrame, path: Path) -> str:
    frame.to_json(path, orient="records", lines=True, force_ascii=False)
    return ""


def _write_xlsx(frame: pd.DataFrame, path: Path) -> str:
    if len(frame) >= MOST_ROWS:
        raise RecipeError(f"{path.name}: a sheet holds {MOST_ROWS:,} rows, but these are {len(frame) + 1:,}. Use .csv.")
    library = openpyxl()
    book = library.Workbook(write_only=True)
    sheet = book.create_sheet("table")
    n_changed = 0
    for row in [map(column_name, frame.columns), *frame.astype(object).itertuples(index=False, name=None)]:
        cells = []
        for value in row:
            cell = library.cell.WriteOnlyCell(sheet)
            content = _xlsx_value(value)
            if isinstance(content, str):
                n_changed += content != _escaped(str(value))
                cell.value = content
                # Whatever it begins with, it is text and no formula.
                cell.data_type = "s"
            else:
                cell.value = content
            cells.append(cell)
        sheet.append(cells)
    book.save(path)
    rule = f"that .xlsx cannot hold (control characters; more than {LONGEST_CELL:,} characters)"
    return f"{n_changed} cell(s) held a text {rule}: it is replaced or cut" if n_changed else ""


def _xlsx_value(value: Any) -> object:
    """Return what a cell holds: None, a boolean, a number, or a text that the format can hold."""
    # A whole number of numpy is no int for the checks below.
    value = value.item() if hasattr(value, "item") else value
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return value
    text = _escaped(cell_text(str(value)))
    units = text.encode("utf-16-le")
    if len(units) <= 2 * LONGEST_CELL:
        return text
    note = f" … [cut, {len(text):,} characters]"
    # `ignore` drops half of a pair of surrogates at the cut.
    return units[: 2 * (LONGEST_CELL - len(note))].decode("utf-16-le", "ignore") + note


def _escaped(text: str) -> str:
    return _TO_ESCAPE.sub("_x005F_", text)
