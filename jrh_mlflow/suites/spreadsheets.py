"""Tables as spreadsheets: `.xlsx` in, `.xlsx` and `.csv` out, every cell a value and never a formula."""

from __future__ import annotations

import datetime
import json
import math
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from jrh_mlflow.errors import JrhError, RecipeError, suggest
from jrh_mlflow.outputs import check_free
from jrh_mlflow.perturb.registry import name_of_test
from jrh_mlflow.schema.items import BASELINE, Item
from jrh_mlflow.schema.presentation import message_text
from jrh_mlflow.text import REPLACEMENT, clean_text

SHEET_MARK = "#"
"""Between the file and the name of one of its sheets: `answers.xlsx#Round 2`."""
OUTPUTS = (".xlsx", ".csv", ".jsonl")
MOST_ROWS, LONGEST_CELL = 1_048_576, 32_767
"""Of a sheet, header included, and of a cell in UTF-16 units: what the format can hold."""
_MAX_CELLS = 20_000_000
"""That are read of one sheet."""
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)*([eE][+-]?[0-9]+)?%?")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
_TO_ESCAPE = re.compile("\r|_(?=x[0-9A-Fa-f]{4}_)")
"""XML readers turn a carriage return into a line feed, and `_x0041_` is an A: both are escaped as the format asks."""


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
    # Read as values, so a formula that nobody computed is None like an empty cell.
    _refuse_uncomputed(path, name, rows)
    # Spreadsheets keep formatted but empty rows at the end.
    while rows and not any(cell is not None for cell in rows[-1]):
        rows.pop()
    if not rows:
        raise ValueError(f"its sheet {name!r} is empty")
    return _frame(rows)


def _rows(sheet: Any) -> Iterator[Sequence[Any]]:
    sheet.reset_dimensions()  # what a file says of its size may be wrong, and would cut it
    n_cells = 0
    row: Sequence[Any]
    for number, row in enumerate(sheet.iter_rows(), 1):
        # A few bytes can number a row a billion, and all before it would be read as empty.
        n_cells += len(row)
        if number > MOST_ROWS or n_cells > _MAX_CELLS:
            raise ValueError(f"its sheet {sheet.title!r} has more rows or cells than can be used ({_MAX_CELLS:,})")
        yield row


def _sheet_name(names: list[str], sheet: str | None) -> str:
    if sheet is not None and sheet not in names:
        raise ValueError(f"there is no sheet {sheet!r}.{suggest(sheet, names)} Sheets there are: {', '.join(names)}")
    return names[0] if sheet is None else sheet


def _read_cell(cell: Any) -> object:
    value = cell.value
    if cell.data_type == "e":
        raise ValueError(f"cell {cell.coordinate} is the error {value}")
    if isinstance(value, str):
        return _ESCAPED.sub(lambda code: chr(int(code[1], 16)), value) or None
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat().removesuffix("T00:00:00")  # a day is stored as its midnight
    return value


def _refuse_uncomputed(path: Path, sheet: str, rows: list[list[object]]) -> None:
    """Refuse formulas that no spreadsheet has computed: read as values their cells would look empty."""
    if all(cell is not None for row in rows for cell in row):
        return
    with closing(openpyxl().load_workbook(path, read_only=True)) as book:
        for cell in (cell for row in _rows(book[sheet]) for cell in row if cell.data_type == "f"):
            if rows[cell.row - 1][cell.column - 1] is None:
                raise ValueError(f"cell {cell.coordinate} is a formula that was never computed: open and save it")


def _frame(rows: list[list[object]]) -> pd.DataFrame:
    width = max(len(row) for row in rows)
    cells = [[*row, *[None] * (width - len(row))] for row in rows]
    used = [place for place in range(width) if any(row[place] is not None for row in cells)]
    for place in used:
        if cells[0][place] is None:
            raise ValueError(f"column {place + 1} has cells and no name in the first row")
    names = [str(cells[0][place]) for place in used]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"two columns are named {twice[0]!r}")
    frame: pd.DataFrame = pd.DataFrame(
        [[row[place] for place in used] for row in cells[1:]], columns=names, dtype=object
    )
    return frame


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
            notes = write(frame, draft)
            draft.replace(path)
    except OSError as error:
        raise JrhError(f"{path} cannot be written: {error.strerror or error}.") from error
    return [f"{path.name}: {note}" for note in notes]


def _write_csv(frame: pd.DataFrame, path: Path) -> list[str]:
    n_guarded = 0

    def cell(value: object) -> object:
        nonlocal n_guarded
        if not isinstance(value, str):
            return None if value is pd.NA else value
        n_guarded += guarded(value) != value
        return clean_text(str(guarded(value)))

    columns = {_header(cell(name)): [cell(value) for value in frame[name].astype(object)] for name in frame.columns}
    pd.DataFrame(columns, dtype=object).to_csv(path, index=False, encoding="utf-8")
    return [f"{n_guarded} cell(s) begin like a formula and have an apostrophe before them"] if n_guarded else []


def _write_jsonl(frame: pd.DataFrame, path: Path) -> list[str]:
    frame.to_json(path, orient="records", lines=True, force_ascii=False)
    return []


def guarded(value: object) -> object:
    """Put an apostrophe before text that a spreadsheet would run as a formula."""
    runs = isinstance(value, str) and value.startswith(_FORMULA_STARTS) and not _NUMBER.fullmatch(value)
    return f"'{value}" if runs else value


def guarded_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose cells and headers no spreadsheet runs: people's names and labels come from anywhere."""
    safe: pd.DataFrame = frame.map(guarded).set_axis([_header(name) for name in frame.columns], axis=1)
    return safe


def report_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of results for people: as `guarded_frame`, and without control characters in its cells."""
    shown: pd.DataFrame = guarded_frame(frame).map(lambda cell: _writable(cell) if isinstance(cell, str) else cell)
    return shown


def _header(name: object) -> str:
    """Return the name of a column in one line, without control characters, and no formula."""
    return _writable(re.sub(r"[\r\n\t]", " ", str(guarded(str(name)))))


def unguarded(value: object) -> object:
    """Take off the apostrophe that `write_table` puts before text that begins like a formula in a `.csv`."""
    return value[1:] if isinstance(value, str) and value[:1] == "'" and value[1:].startswith(_FORMULA_STARTS) else value


def _write_xlsx(frame: pd.DataFrame, path: Path) -> list[str]:
    if len(frame) >= MOST_ROWS:
        raise RecipeError(f"{path.name}: a sheet holds {MOST_ROWS:,} rows, but these are {len(frame) + 1:,}. Use .csv.")
    library = openpyxl()
    book = library.Workbook(write_only=True)
    sheet, changes = book.create_sheet("table"), Counter[str]()
    for row in [list(frame.columns), *frame.astype(object).itertuples(index=False, name=None)]:
        sheet.append([_cell(library, sheet, value, changes) for value in row])
    book.save(path)
    notes = {
        "replaced": f"cell(s) held characters that .xlsx cannot, replaced by {REPLACEMENT}",
        "cut": f"cell(s) were longer than the {LONGEST_CELL:,} characters of a cell, and are cut",
    }
    return [f"{changes[change]} {text}" for change, text in notes.items() if changes[change]]


def _cell(library: ModuleType, sheet: object, value: object, changes: Counter[str]) -> object:
    # A whole number of numpy is no int for the checks below.
    value = value.item() if hasattr(value, "item") else value
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return value
    text = _TO_ESCAPE.sub(lambda match: f"_x{ord(match[0]):04X}_", str(value))
    for change, mend in (("replaced", _writable), ("cut", _short_enough)):
        mended = mend(text)
        changes[change] += mended != text
        text = mended
    cell = library.cell.WriteOnlyCell(sheet, value=text)
    cell.data_type = "s"  # whatever it begins with
    return cell


def _writable(text: str) -> str:
    return _CONTROL.sub(REPLACEMENT, clean_text(text))


def _short_enough(text: str) -> str:
    units = text.encode("utf-16-le")
    if len(units) <= 2 * LONGEST_CELL:
        return text
    note = f" … [cut, {len(text):,} characters]"
    # `ignore` drops half of a pair of surrogates at the cut.
    return units[: 2 * (LONGEST_CELL - len(note))].decode("utf-16-le", "ignore") + note
