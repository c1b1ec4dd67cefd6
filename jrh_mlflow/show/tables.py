"""Tables declared once: typed columns, rendered as Markdown, terminal, card, HTML and data frame.

    DIFFERENCES = Table.of(
        Column("axis", lambda d: axis_name(d.axis), value=lambda d: d.axis, brief=True),
        Column("difference", lambda d: signed(d.value), value=lambda d: d.value, brief=True, link=calls_of),
        Column("low", value=lambda d: d.low),
    )
    DIFFERENCES(rows).to_markdown()

A column is written once; every medium reads it, so that no two of them can say different things. Cells may hold text
from a model or a file: each renderer makes it harmless.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.show.html import render_part
from jrh_mlflow.show.numbers import cell_text, source_ends
from jrh_mlflow.show.plain_text import aligned, broken, code, line_text, plain

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup

Row = TypeVar("Row")
Medium = Literal["html", "markdown", "text", "card"]
PageCell: TypeAlias = "tuple[Column[Any], Cell, Markup | None]"
MOST = 8
"""Rows of a long table that a card or a terminal shows; the others are counted."""
# No bracket and no blank, either of which would end a link in Markdown.
_PLAIN_ADDRESS = re.compile(r"https?://[A-Za-z0-9./:#?&=%~+_-]+")
_KNOWN_ADDRESS = re.compile(
    rf"\.\./(run|calls|datasheet)/[0-9a-f]{{32}}(\?[A-Za-z0-9_.%&=+-]*)?|{_PLAIN_ADDRESS.pattern}"
)
"""Pages beside that of a run, and whole addresses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Whisker:
    """A share and its interval, or bounds alone, drawn between 0 and 1."""

    low: float
    high: float
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in one place of a table."""

    text: str
    below: tuple[str, ...] = ()
    """Smaller lines under the text on pages, such as interval and n; behind the text elsewhere."""
    whisker: Whisker | None = None
    """Drawn on pages and cards only."""
    hover: str = ""
    """Said on pages when the cell is pointed at."""
    tone: str = ""
    """Class of the cell on pages: `missing`, `bounds`, `wrong`, `good`."""
    links: tuple[tuple[str, str], ...] = ()
    """Parts of the text, in order, and where each leads on a page."""
    span: int = 1
    """Columns of a page that it takes; what stands behind it in them is not shown."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cell:
        """Read what `asdict` made of a cell, from a file that anybody may have written: it leads to our pages only."""
        ends = data.get("whisker")
        links = [(str(text), str(to) if _KNOWN_ADDRESS.fullmatch(str(to)) else "") for text, to in data["links"]]
        return cls(
            data["text"],
            below=tuple(map(str, data["below"])),
            whisker=ends and Whisker(**ends),
            hover=data["hover"],
            tone=data["tone"],
            links=tuple(links),
            span=int(data["span"]),
        )

    @property
    def line(self) -> str:
        """The whole cell in one line."""
        return " ".join(part for part in (self.text, *self.below) if part)


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column: its head, and what a row says under it."""

    head: str
    text: Callable[[Row], str | Cell] | None = None
    """None: the column is in data frames only."""
    value: Callable[[Row], Any] | None = None
    """What a data frame holds; None: the column is not in it."""
    name: str = ""
    """Of the column in a data frame, where it is not the head."""
    brief: bool = False
    """Whether a terminal and a card have room for it."""
    link: Callable[[Row], str | None] | None = None
    """Where the cell leads on a page."""
    words: bool = False
    """Texts to read, not numbers: they stand on the left and may be broken."""
    as_code: bool = False
    """Markdown writes it in a code span: an id, a rule, a label of somebody's."""
    marked: bool = False
    """The text is Markdown of ours, with every name in it in a code span: it is not escaped again."""
    media: tuple[Medium, ...] = ()
    """The only media that have the column; empty: all that have room for it."""
    exact: Callable[[Row], str] | None = None
    """What Markdown says in place of the text: a file has room for more places."""
    short: Callable[[Row], str] | None = None
    """What a terminal says in place of the text."""
    html: Callable[[Row], Markup | None] | None = None
    """What a page shows in place of the text, where it is more than a text."""
    meaning: str = ""
    """Said on pages when the head is pointed at."""
    page_head: str = ""
    """A shorter head for pages, where the whole one is said when it is pointed at."""
    address: str | None = None
    """Where the head leads on a page."""

    def is_in(self, medium: Medium) -> bool:
        """Whether a medium has the column."""
        return self.text is not None and (not self.media or medium in self.media)

    def cell(self, row: Row, medium: Medium = "html") -> Cell:
        """Return what a row says in this column."""
        assert self.text is not None
        own = {"markdown": self.exact, "text": self.short}.get(medium)
        shown = self.text(row) if own is None else own(row)
        cell = shown if isinstance(shown, Cell) else Cell(shown)
        address = self.link(row) if self.link else None
        return replace(cell, links=((cell.text, address),)) if address else cell


def reading_cell(reading: Reading | None, text: str | None = None) -> Cell:
    """Write a reading with its interval, or as `text` says; pages draw where a share lies between 0 and 1.

    Where nothing was read there is a dash.
    """
    if reading is None:
        return Cell("–")
    cell = Cell(cell_text(reading) if text is None else text)
    if not isinstance(reading, Estimate) or reading.statistic != "rate":
        return cell
    low, high = (reading.value if end is None else end for end in source_ends(reading))
    return replace(cell, whisker=Whisker(low=low, high=high, value=reading.value))


def field_column(
    name: str, text: Callable[[Any], str] | None = None, *, head: str = "", **as_column: Any
) -> Column[Any]:
    """Return an attribute of the rows as a column: its value in data frames, its text where one is given.

    Example:
        >>> Table.of(field_column("real", "{:.1f}".format, head="part"))([1 + 2j]).to_markdown().splitlines()[-1]
        '| 1.0 |'
    """
    value, own = attrgetter(name), name.rpartition(".")[2]
    return Column(head or own, text and (lambda row: text(value(row))), value=value, name=own, **as_column)


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """Columns in their order; called with rows it becomes a table that can be shown."""

    columns: tuple[Column[Row], ...]

    @classmethod
    def of(cls, *columns: Column[Row]) -> Table[Row]:
        """Declare a table by its columns; the first one names the row."""
        return cls(columns)

    def __call__(
        self,
        rows: Iterable[Row],
        *,
        more: str = "",
        style: str = "",
        tone: Callable[[Row], str] | None = None,
        group: Callable[[Row], str] | None = None,
    ) -> FilledTable[Row]:
        """Fill the table.

        Args:
            rows: In the order they are shown.
            more: A line below: what is left out, and where it is.
            style: Class of the table on pages.
            tone: Class of a row on pages.
            group: What rows that follow one another are a part of, said above them on pages.
        """
        return FilledTable(self.columns, tuple(rows), more=more, style=style, tone=tone, group=group)


@dataclass(frozen=True, slots=True)
class FilledTable(Generic[Row]):
    """Rows under their columns, ready for any medium."""

    columns: tuple[Column[Row], ...]
    rows: tuple[Row, ...]
    more: str = ""
    style: str = ""
    tone: Callable[[Row], str] | None = None
    group: Callable[[Row], str] | None = None
    label: str = field(default="", kw_only=True)
    """What those who do not see the page are told the table is; the heading above it where empty."""

    def first(self, most: int = MOST, *, what: str, where: str = "`to_frame()`") -> FilledTable[Row]:
        """Cut the table to a few rows, and say how many there are and where."""
        rest = len(self.rows) - most
        return (
            replace(self, rows=self.rows[:most], more=f"… and {rest} more {what}: {where} has all.")
            if rest > 0
            else self
        )

    def shown(self, medium: Medium = "html") -> tuple[Column[Row], ...]:
        """Return the columns of a medium: those with a text; on a narrow one the brief ones, where some are."""
        columns = tuple(column for column in self.columns if column.is_in(medium))
        # A column that is declared for some media is in them, brief or not.
        narrow = tuple(column for column in columns if column.brief or column.media)
        return narrow if medium in ("text", "card") and any(column.brief for column in columns) else columns

    def cells(self, medium: Medium = "html") -> list[list[Cell]]:
        """Return what every row says."""
        return [[column.cell(row, medium) for column in self.shown(medium)] for row in self.rows]

    def page_cells(self) -> list[list[PageCell]]:
        """Return the cells of a page with their columns and what is shown in place of the text; none under a wide one.

        The first cell of a row is its head.
        """
        columns = self.shown()
        return [
            list(_uncovered((column, column.cell(row), column.html and column.html(row)) for column in columns))
            for row in self.rows
        ]

    def page_groups(self) -> list[tuple[str, list[tuple[str, list[PageCell]]]]]:
        """Return the rows of a page under the names of their groups, each with its class."""
        groups, tones = (map(text or _nothing, self.rows) for text in (self.group, self.tone))
        named = zip(groups, tones, self.page_cells(), strict=True)
        return [
            (name, [(tone, cells) for _, tone, cells in rows]) for name, rows in groupby(named, key=lambda row: row[0])
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return what a page shows of it as plain JSON-ready data; what is more than a text is left to its text."""
        columns = self.shown()
        return {
            "columns": [{"head": each.head, "words": each.words, "meaning": each.meaning} for each in columns],
            "rows": [[asdict(cell) for cell in cells] for cells in self.cells()],
            "tones": [self.tone(row) if self.tone else "" for row in self.rows],
            "groups": [self.group(row) if self.group else "" for row in self.rows],
            "more": self.more,
            "style": self.style,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FilledTable[Any]:
        """Read what `to_dict` wrote."""

        def column(at: int, facts: Mapping[str, Any]) -> Column[Any]:
            return Column(text=lambda row: row[0][at], **facts)

        cells = [tuple(map(Cell.from_dict, row)) for row in data["rows"]]
        return Table(tuple(column(at, facts) for at, facts in enumerate(data["columns"])))(
            zip(cells, data["tones"], data["groups"], strict=True),
            more=data["more"],
            style=data["style"],
            tone=lambda row: str(row[1]),
            group=lambda row: str(row[2]),
        )

    @property
    def meanings(self) -> dict[str, str]:
        """Heads of a page's columns to what they mean, where that is said."""
        return {column.head: column.meaning for column in self.shown() if column.meaning}

    def to_markdown(self) -> str:
        """Return a Markdown table in which nothing of a cell comes to life; empty without rows."""
        if not self.rows:
            return ""
        columns = self.shown("markdown")
        lines = [[_markdown_text(column.head) for column in columns], ["---"] * len(columns)]
        lines += [
            [_markdown_cell(column, cell) for column, cell in zip(columns, cells, strict=True)]
            for cells in self.cells("markdown")
        ]
        return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), *(["", self.more] if self.more else [])])

    def to_text(self, *, width: int = 100) -> str:
        """Return aligned columns for a terminal or a pipe; what does not fit beside the others stands below."""
        if not self.rows:
            return ""
        columns = self.shown("text")
        # The first column names the row; words behind it stand on the left as well, numbers on the right.
        left = next((at for at, column in enumerate(columns) if at and not column.words), len(columns))
        rows = [[cell.line for cell in cells] for cells in self.cells("text")]
        lines = aligned([column.head for column in columns], rows, left=left, width=width, is_cut=True)
        return "\n".join([*lines, *broken(self.more, width=width)])

    def to_html(self, *, label: str = "") -> Markup:
        """Return the table as a part of a page."""
        return render_part("_table.html", table=self, label=self.label or label)

    def to_card(self) -> Markup:
        """Return the table as a part of a notebook's card: the brief columns."""
        return render_part("_card_table.html", table=self)

    def records(self) -> list[dict[str, Any]]:
        """Return what every row is worth under the names of the columns that have a value."""
        valued = [(column.name or column.head, column.value) for column in self.columns if column.value is not None]
        return [{name: value(row) for name, value in valued} for row in self.rows]

    def to_frame(self) -> pd.DataFrame:
        """Return one row per row with the columns that have a value; what is missing is an empty cell, never 0."""
        import pandas as pd

        # Named apart from the rows, so that a table without rows keeps its columns.
        names = [column.name or column.head for column in self.columns if column.value is not None]
        frame: pd.DataFrame = pd.DataFrame(self.records(), columns=names)
        return frame


def _nothing(_row: object) -> str:
    return ""


def _uncovered(row: Iterable[PageCell]) -> Iterator[PageCell]:
    """Leave out the cells behind one that takes their columns."""
    covered = 0
    for column, cell, markup in row:
        if not covered:
            yield column, cell, markup
        covered = max(covered, cell.span) - 1


def _markdown_text(text: str) -> str:
    """Return a text as a cell of a table: on one line, and with no end of a cell in it."""
    return line_text(text).replace("|", "\\|")


def _markdown_cell(column: Column[Any], cell: Cell) -> str:
    write = code if column.as_code else plain if column.marked else line_text
    # GitHub ends a cell at a bare bar, even inside a code span.
    text = write(cell.line).replace("|", "\\|")
    address = cell.links[0][1] if len(cell.links) == 1 else ""
    # A file has no pages beside it, so only whole addresses lead anywhere.
    return f"[{text}]({address})" if _PLAIN_ADDRESS.fullmatch(address) else text


def frame_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a frame as JSON-ready rows: a missing cell is None, a number of numpy a plain one."""
    import pandas as pd

    cells = {str(name): [None if pd.isna(cell) else cell for cell in frame[name].tolist()] for name in frame.columns}
    return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
