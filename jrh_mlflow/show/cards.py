"""What a notebook shows of a result: a card in HTML, and the same in one line of text.

A card has no script and asks for nothing from outside; every text in it is escaped, and its colours are those of the
notebook around it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.schema.findings import Finding, Verdict
from jrh_mlflow.show.html import render_page
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import bounds_note
from jrh_mlflow.show.page import Drawing, Page
from jrh_mlflow.show.readings import axes_by_reason, finding_lines
from jrh_mlflow.show.tables import MOST, Column, FilledTable, Table
from jrh_mlflow.text import brief_name, clean_text

_LONGEST = 160
"""Characters of an example's text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """What a notebook shows of one result."""

    title: str
    facts: Mapping[str, str]
    marks: Sequence[str] = ()
    """Beside the title: simulated, recorded, truncated."""
    verdict: Sequence[str] = ()
    """Sentences that need no glossary, before all else."""
    profile: str = ""
    """The judge in one line."""
    tables: Sequence[FilledTable[Any]] = ()
    notes: Sequence[str] = ()
    links: Sequence[str] = ()
    """Where the run can be looked at: addresses, or words where no server shows it."""

    def to_html(self) -> str:
        """Return the card as a fragment of a page."""
        tables = [table for table in self.tables if table.rows]
        names = ("title", "facts", "marks", "verdict", "profile", "notes", "links")
        shown = {name: getattr(self, name) for name in names}
        # A kernel sends it as JSON, which cannot hold half of a character.
        return clean_text(render_page("card.html", card={**shown, "tables": tables}))


@dataclass(frozen=True, kw_only=True, repr=False)
class ShownResult:
    """A result in hand: its page as Markdown, its verdict as text, and a card in a notebook."""

    run_id: str | None = None
    """Of its own run; None when it was not logged."""
    link: str | None = None
    """Where that run can be looked at."""

    @property
    def title(self) -> str:
        """Names it on its page and its card."""
        return self.page.title

    @property
    def verdict(self) -> Verdict:
        """What it shows, in plain words: those of its page, where it has no findings."""
        return Verdict(sentences=tuple(map(str, (self.page.lead, *self.page.sentences))))

    @property
    def page(self) -> Page:
        """What every medium shows of it, without its figures."""
        return self._page()

    def page_with(self, drawings: Sequence[Drawing]) -> Page:
        """Return its page with figures, of a result that has them."""
        return self._page(drawings)

    def _page(self, *_: Any, **__: Any) -> Page:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        raise NotImplementedError

    def to_markdown(self) -> str:
        """Return it as a readable page."""
        return self.page.to_markdown()

    def to_html(self) -> str:
        """Return it as one self-contained HTML file: no script, no request, every text escaped."""
        return self.page.to_html()

    def to_json(self) -> str:
        """Return `to_dict` as text."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({brief_name(self.title)})"

    def __str__(self) -> str:
        return "\n".join([*self.verdict.sentences, repr(self)])

    def _card(self) -> dict[str, Any]:
        """Return what its card has beside title, verdict and link, or other than its page."""
        return {}

    def _repr_html_(self) -> str:
        usual = {"title": self.title, "verdict": self.verdict.sentences, "links": [self.link] if self.link else []}
        page = self.page
        shown = {name: getattr(page, name) for name in ("facts", "marks", "tables", "notes")}
        return Card(**{**usual, **shown, **self._card()}).to_html()


def finding_notes(findings: Sequence[Finding]) -> list[str]:
    """Say which readings are a problem, which are not, and of which that cannot be told."""
    return [f"{head.capitalize()}: {line}." for head, line in finding_lines(findings).items()]


def missing_notes(estimates: Mapping[str, Reading]) -> list[str]:
    """Say which readings are withheld and why, and what their bounds are."""
    groups = {reason: axes for (state, reason), axes in axes_by_reason(estimates).items() if state == "withheld"}
    notes = [f"Withheld: {_some(axes)}: {reason}." for reason, axes in list(groups.items())[:MOST]]
    notes += [f"Withheld for {len(groups) - MOST} further reasons: `to_frame()` has all."] if len(groups) > MOST else []
    # The note ends with an empty line for Markdown, which a list has no use for.
    return notes + [line for line in bounds_note(estimates.values()) if line and groups]


def _some(axes: Sequence[str]) -> str:
    more = f" and {len(axes) - 6} more" if len(axes) > 6 else ""
    return f"{', '.join(map(axis_name, axes[:6]))}{more}"


EXAMPLES: Table[tuple[str, str, Sequence[str]]] = Table.of(
    Column("example", lambda row: row[0]),
    Column("condition", lambda row: row[1], words=True),
    Column("what a judge sees", lambda row: "\n".join(map(_beginning, row[2])), words=True),
)
"""Items by condition: id, condition, and the texts that a judge would see."""


def _beginning(text: str) -> str:
    # In a cell a line break parts the texts of one item, so a text must hold none.
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def brief_run(run_id: str | None) -> str:
    """Name a run in a line of text."""
    return "not logged" if run_id is None else f"run {run_id[:8]}"
