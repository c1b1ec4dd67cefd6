"""One page for every verb: sections of sentences, tables and figures, as HTML, as Markdown and as plain text."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.show.glossary import terms_among
from jrh_mlflow.show.html import Addresses, render_page
from jrh_mlflow.show.plain_text import broken, code, line_text, plain, said_lines, sentence_text, wrapped_line
from jrh_mlflow.show.tables import FilledTable, Medium

if TYPE_CHECKING:
    from markupsafe import Markup

Named: TypeAlias = Callable[[str], str]
"""How a name of any origin is written in a medium."""
Sentence: TypeAlias = "str | Callable[[Named], str]"
"""A text; where it holds names in a sentence of ours, a function that is told how the medium writes them."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure that was drawn: pages show it, Markdown and terminals do not; a run holds it as a file."""

    caption: str
    svg: Markup
    """An element of a page."""
    name: str = ""
    """Of its file, without an ending."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values, such as the settings of a judge."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Only:
    """A block that some media do not have."""

    media: tuple[Medium, ...]
    block: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Tile:
    """A number that sums a result up, in large letters at the top of a page."""

    label: str
    value: str
    address: str = ""
    """Where the number leads on a served page."""
    details: str = ""
    """Interval and n, in small letters."""
    state: str = ""
    """Of a reading that has a limit: `problem`, `ok`, `cannot tell` or `by design`."""
    meaning: str = ""


Block: TypeAlias = "Sentence | FilledTable[Any] | Sequence[Drawing] | Facts | Markup | Only"
"""What a section holds. Markup is shown on pages only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A heading and what stands below it."""

    heading: str
    blocks: Sequence[Any]
    """`Block`s in their order; a table without rows is left out, and a section of nothing else with it."""
    always: bool = False
    """Whether sentences alone, where there are any, are worth the heading."""
    folded: bool = False
    """On pages it can be folded, and starts closed."""
    opened: bool = False
    """A section that can be folded starts open."""
    media: Sequence[Medium] = ("html", "markdown", "text")
    """Where it is shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Navigation:
    """The line above a served page that leads to the others."""

    addresses: Addresses
    here: str
    run_id: str | None = None
    experiment_id: str | None = None
    traces: str | None = None
    """Id of the experiment of the run's traces."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """What people see of one result; every text in it may come from anybody."""

    title: str
    lead: Sentence = ""
    """The answer, in one sentence."""
    sentences: Sequence[Sentence] = ()
    """What else is said at the top."""
    notes: Sequence[str] = ()
    """What to know first."""
    marks: Sequence[str] = ()
    """Beside the title: simulated, recorded, truncated."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    findings: Mapping[str, str] = field(default_factory=dict)
    """A word to a sentence, such as which biases were found; below the tiles."""
    tiles: Sequence[Tile] = ()
    sections: Sequence[Section] = ()
    navigation: Navigation | None = None

    @classmethod
    def saying(cls, verdict: Verdict, *more: Sentence, **own: Any) -> Page:
        """Return a page that begins with a verdict and what more is said."""
        return cls(lead=verdict.sentences[0], sentences=(*verdict.sentences[1:], *more), **own)

    def to_html(self) -> str:
        """Return one HTML file: no script, no request, every text escaped."""
        lead, sentences = _said(self.lead, str), [_said(text, str) for text in self.sentences]
        sections = [(section, list(_html_blocks(section))) for section in self._sections("html")]
        texts = [text for _, blocks in sections for kind, text in blocks if kind == "text"]
        texts += [*self.findings, *self.findings.values(), *self.notes, *(section.heading for section, _ in sections)]
        texts += [text for tile in self.tiles for text in (tile.label, tile.state)]
        heads = [text for table in self.tables for column in table.shown() for text in (column.head, column.meaning)]
        return render_page(
            "page.html",
            page=self,
            lead=lead,
            sentences=sentences,
            sections=sections,
            terms=terms_among([lead, *sentences, *texts, *heads]),
        )

    def to_markdown(self) -> str:
        """Return the page without its figures, for the description of a run and for reading in a repository."""
        parts = [f"# {line_text(self.title)}"]
        parts += [f"**{text}**" for text in [_markdown_said(self.lead)] if text]
        parts += [_markdown_said(text) for text in self.sentences]
        parts += [f"> {line_text(note)}" for note in self.notes]
        parts += [section_markdown(section) for section in self._sections("markdown")]
        return "\n\n".join([*parts, ""])

    def to_text(self) -> list[str]:
        """Return the lines of a terminal: brief tables and whole sentences."""
        lines = said_lines(_said(text, plain) for text in (self.lead, *self.sentences) if text)
        for section in self._sections("text"):
            lines += ["", section.heading, *_text_blocks(section)]
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return what a page shows as plain JSON-ready data, its drawings by name: a run keeps it."""
        return {
            "title": self.title,
            "lead": _said(self.lead, str),
            "sentences": [_said(sentence, str) for sentence in self.sentences],
            "notes": list(self.notes),
            "marks": list(self.marks),
            "facts": {name: str(value) for name, value in self.facts.items()},
            "findings": dict(self.findings),
            "tiles": [asdict(tile) for tile in self.tiles],
            "sections": [
                {
                    "heading": section.heading,
                    "folded": section.folded,
                    "opened": section.opened,
                    "blocks": [_plain_block(*block) for block in _blocks(section, "html") if block[0] != "markup"],
                }
                for section in self._sections("html")
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], figures: Mapping[str, bytes]) -> Page:
        """Read what `to_dict` wrote; anybody may have written the file, and nothing in it comes to life.

        Args:
            data: The file.
            figures: Name to the SVG file of the run.
        """
        sections = [
            Section(**{**section, "blocks": [_read_block(block, figures) for block in section["blocks"]]}, always=True)
            for section in data["sections"]
        ]
        return cls(
            **{**data, "tiles": [Tile(**{**tile, "address": ""}) for tile in data["tiles"]], "sections": sections}
        )

    def _sections(self, medium: Medium) -> Iterator[Section]:
        for section in self.sections:
            if is_shown_in(section, medium):
                yield section

    @property
    def tables(self) -> list[FilledTable[Any]]:
        """Its tables that have rows, such as a card shows."""
        blocks = (block for section in self.sections for block in _blocks(section, "html"))
        return [block for kind, block in blocks if kind == "table"]


def _plain_block(kind: str, block: Any) -> dict[str, Any]:
    if kind == "table":
        return {kind: block.to_dict()}
    if kind == "facts":
        return {kind: {name: str(value) for name, value in block.values.items()}}
    return {kind: _said(block, str) if kind == "text" else {drawing.name: drawing.caption for drawing in block}}


def _read_block(block: Mapping[str, Any], figures: Mapping[str, bytes]) -> Any:
    ((kind, data),) = block.items()
    if kind == "table":
        return FilledTable.from_dict(data)
    if kind == "facts":
        return Facts(data)
    if kind == "text":
        return str(data)
    return [
        Drawing(str(caption), _picture(caption, figures[name]), name=str(name))
        for name, caption in data.items()
        if name in figures
    ]


def _picture(caption: str, file: bytes) -> Markup:
    """Show a file of a run as a picture: as such it can neither run nor load anything."""
    from markupsafe import Markup

    source = b64encode(file).decode()
    return Markup('<img class="picture" alt="{}" src="data:image/svg+xml;base64,{}">').format(caption, source)


def section_markdown(section: Section) -> str:
    """Return a section as Markdown: a heading, and its blocks with an empty line between them."""
    return "\n\n".join([f"### {line_text(section.heading)}", *_markdown_blocks(section)])


def is_shown_in(section: Section, medium: Medium) -> bool:
    """Whether a medium shows a section: one of sentences alone, about a table or figure it has not, is left out."""
    worth = ("table", "facts", *(("markup", "figures") if medium == "html" else ()))
    return medium in section.media and any(section.always or kind in worth for kind, _ in _blocks(section, medium))


def _blocks(section: Section, medium: Medium) -> Iterator[tuple[str, Any]]:
    """Return the blocks of a section that a medium has, each with its kind; what is empty is left out."""
    for given in section.blocks:
        block = given.block if isinstance(given, Only) else given
        if isinstance(given, Only) and medium not in given.media:
            continue
        kind: str
        content: object
        if isinstance(block, FilledTable):
            kind, content = "table", block.rows
        elif isinstance(block, Facts):
            kind, content = "facts", block.values
        # Before texts: Markup is a str as well. By its method: Markdown and terminals need no import of markupsafe.
        elif hasattr(block, "__html__"):
            kind, content = "markup", block
        else:
            kind, content = ("text", True) if isinstance(block, str) or callable(block) else ("figures", block)
        if content:
            yield kind, block


def _said(sentence: Sentence, named: Named) -> str:
    return sentence(named) if callable(sentence) else sentence


def _markdown_said(sentence: Sentence) -> str:
    # A sentence that is told how to write names has made them harmless itself.
    return sentence(code) if callable(sentence) else sentence_text(sentence)


def _html_blocks(section: Section) -> Iterator[tuple[str, Any]]:
    for kind, block in _blocks(section, "html"):
        if kind == "table":
            yield "markup", block.to_html(label=section.heading)
        else:
            yield kind, _said(block, str) if kind == "text" else block.values if kind == "facts" else block


def _markdown_blocks(section: Section) -> Iterator[str]:
    for kind, block in _blocks(section, "markdown"):
        if kind == "table":
            yield block.to_markdown()
        elif kind == "facts":
            yield "\n".join(f"- {line_text(str(key))}: {code(str(value))}" for key, value in block.values.items())
        elif kind == "text":
            yield _markdown_said(block)


def _text_blocks(section: Section) -> Iterator[str]:
    for kind, block in _blocks(section, "text"):
        if kind == "table":
            yield from block.to_text().splitlines()
        elif kind == "facts":
            yield from (line for key, value in block.values.items() for line in wrapped_line(str(key), str(value)))
        elif kind == "text":
            yield from broken(_said(block, plain))
