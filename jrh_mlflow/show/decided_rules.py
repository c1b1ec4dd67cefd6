"""Rules and what became of them: one table for every medium, and a section of a judge's page and description.

A page has at most one section of each kind, the newest; `with_section` and `with_markdown_section` put it there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from jrh_mlflow.measures.rules import STATE_WORDS, State
from jrh_mlflow.show.html import explained, render_page
from jrh_mlflow.show.names import rule_name
from jrh_mlflow.show.numbers import amount_text, interval_text, number_text
from jrh_mlflow.show.plain_text import line_text
from jrh_mlflow.show.tables import Cell, Column, FilledTable, Table, Whisker

if TYPE_CHECKING:
    import pandas as pd

ANCHOR = "<!-- decisions -->"
"""Where a page has its decisions."""
_SIGNS = {"holds": "✅", "fails": "❌", "undecided": "❔"}


@dataclass(frozen=True, kw_only=True, slots=True)
class DecidedRule:
    """One rule and what became of it, as it was decided just now or logged."""

    rule: str
    """As it was typed."""
    state: State
    estimate: float | None
    low: float | None
    """Ends of the interval that decided; None where there is none."""
    high: float | None
    further_tasks: int | None = None
    what_helps: str = ""
    n: int | None = None
    n_clusters: int | None = None
    reason: str = ""
    censored: str = ""
    """In place of an estimate where only a bound is known, such as `> 5`."""
    size: str = ""
    """On how much it stands, where that is more than `n` and its tasks: `60 of 120 calls`."""
    share: bool = False
    """Whether the number lies between 0 and 1, where a page can draw it."""
    address: str = ""
    """Of the calls behind the number, on a served page."""

    @property
    def is_fact(self) -> bool:
        """Whether the number is known, such as a cost, and no estimate."""
        return self.low == self.high == self.estimate

    @property
    def measured(self) -> str:
        """The number, or the bound that is known of it."""
        return self.censored or (amount_text if self.is_fact else number_text)(self.estimate)

    @property
    def cell(self) -> Cell:
        """The number as tables show it."""
        drawn = self.share and self.low is not None and self.high is not None
        whisker = Whisker(low=self.low or 0.0, high=self.high or 0.0, value=self.estimate) if drawn else None
        return Cell(self.measured, whisker=whisker)

    @property
    def between(self) -> str:
        """The interval; a fact, such as a cost, has none."""
        return "–" if self.is_fact else interval_text(self.low, self.high)

    @property
    def size_text(self) -> str:
        """On how much it stands."""
        tasks = f"in {self.n_clusters:,} tasks" if self.n_clusters else ""
        count = "" if self.n is None else f"{self.n:,}"
        return self.size or f"{count} {tasks}".strip()

    @property
    def advice(self) -> str:
        """What would decide an undecided rule, or why nothing does; of a decided one its reason.

        Example:
            >>> DecidedRule(rule="x <= 1", state="undecided", estimate=0.9, low=0.7, high=1.1, further_tasks=1).advice
            '1 further task like these would decide it'
        """
        reason, further = self.reason.strip().rstrip("."), self.further_tasks
        if self.state == "undecided" and further:
            # The reason is that the limit lies in the interval, which stands beside it.
            helps = f": {self.what_helps}" if self.what_helps else ""
            return f"{further:,} further task{'' if further == 1 else 's'} like these would decide it{helps}"
        unknown = "no number of further tasks like these would decide it" if self.state == "undecided" else ""
        return reason or unknown


def decided_rules(checks: Iterable[Mapping[str, Any]]) -> list[DecidedRule]:
    """Read the rows of a gate's checks, as a run of any version holds them."""
    names = [item.name for item in fields(DecidedRule)]
    return [
        # The ends have no default: None says that there is none. Other fields that a version did not log keep theirs.
        DecidedRule(**{name: row[name] for name in names if row.get(name) is not None or name in _ENDS})
        for row in checks
    ]


_ENDS = ("estimate", "low", "high")
CHECKS: Table[DecidedRule] = Table.of(
    Column("rule", lambda check: rule_name(check.rule), brief=True, words=True),
    Column("as typed", lambda check: check.rule, value=lambda check: check.rule, name="rule", as_code=True, words=True),
    Column(
        "state",
        lambda check: Cell(STATE_WORDS[check.state], tone="wrong" if check.state == "fails" else ""),
        value=lambda check: check.state,
        brief=True,
        words=True,
    ),
    Column("✓", lambda check: _SIGNS[check.state], media=("markdown",)),
    Column(
        "measured",
        lambda check: check.cell,
        value=lambda check: check.estimate,
        name="estimate",
        brief=True,
        link=lambda check: check.address or None,
    ),
    Column("between", lambda check: check.between, brief=True),
    Column("low", value=lambda check: check.low),
    Column("high", value=lambda check: check.high),
    Column("further_tasks", value=lambda check: check.further_tasks),
    Column("units", lambda check: check.size_text, value=lambda check: check.n, name="n", brief=True),
    Column("n_clusters", value=lambda check: check.n_clusters),
    Column(
        "why, or what would decide it",
        lambda check: check.advice,
        value=lambda check: check.reason,
        name="reason",
        words=True,
    ),
    Column("censored", value=lambda check: check.censored),
)
_TYPES = {"rule": "str", "state": "str", **dict.fromkeys(_ENDS, "float64")}
# The Int64 of pandas holds a missing count; numpy's cannot, and a float would show 12.0.
_TYPES |= {**dict.fromkeys(("further_tasks", "n", "n_clusters"), "Int64"), "reason": "str", "censored": "str"}


def checks_frame(rules: Sequence[DecidedRule]) -> pd.DataFrame:
    """Return one row per rule: its state, what decided it, and what would; a count that is missing is no NaN."""
    frame: pd.DataFrame = CHECKS(rules).to_frame().astype(_TYPES)
    return frame


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionSection:
    """What was decided about a judge at one time, by rules."""

    kind: str
    """A word: a page has the newest section of each kind, and Markdown has it as its heading."""
    heading: str
    reason: str
    """In one line: `failed: 1 of 3 rules fails`."""
    rules: Sequence[DecidedRule]
    notes: Sequence[str] = ()
    when: str = ""
    """Date and time with its zone."""
    link: str = ""
    """Where the run of the decision can be looked at: an address, or words where no server shows it."""

    @property
    def table(self) -> FilledTable[DecidedRule]:
        """The rules."""
        return CHECKS(self.rules)


def section_html(section: DecisionSection) -> str:
    """Render a section between the two comments by which it is found again; every text is escaped."""
    begin, end = _marks(section.kind)
    return f"{begin}\n{render_page('_decision.html', section=section)}{end}\n"


def with_section(page: str, section: DecisionSection) -> str:
    """Return a page with the section, in place of an older one of its kind; a page that is not ours as it is."""
    begin, end = _marks(section.kind)
    # Not greedy: what follows the first end mark is no part of this section.
    without = re.sub(rf"{re.escape(begin)}.*?{re.escape(end)}\n?", "", page, count=1, flags=re.DOTALL)
    head, place, tail = without.partition(f"{ANCHOR}\n")
    return explained(f"{head}{place}{section_html(section)}{tail}") if place else page


def _marks(kind: str) -> tuple[str, str]:
    return f"<!-- {kind} -->", f"<!-- /{kind} -->"


def decisions_markdown(section: DecisionSection) -> list[str]:
    """Render a section; no heading of another section can be inside it."""
    lines = [_markdown_heading(section.kind), "", f"**{_line(section.reason)}.**", ""]
    lines += [f"> {_line(note)}" for note in section.notes] + [""] * bool(section.notes)
    seen = ", ".join(part for part in (section.when, section.link) if part)
    rows = section.table.to_markdown().splitlines()
    return [*lines, *rows, "", *([f"Decided {_line(seen)}.", ""] if seen else [])]


def with_markdown_section(markdown: str, section: DecisionSection) -> str:
    """Return a datasheet with the section once: where it was, else before all others; what people wrote stays."""
    before, *after = re.split(_own_lines(section.kind), markdown)
    if not after:
        first = re.search("^### ", markdown, flags=re.MULTILINE)
        place = first.start() if first else len(markdown)
        before, after = markdown[:place], [markdown[place:]]
    # A heading must begin a line, and some readers of Markdown want an empty line above it.
    gap = "" if not before.strip() or before.endswith("\n\n") else "\n" if before.endswith("\n") else "\n\n"
    lines = "\n".join(decisions_markdown(section))
    return f"{before}{gap}{lines}\n{''.join(after)}"


def _own_lines(kind: str) -> str:
    """Match what `decisions_markdown` writes, and nothing that somebody wrote below it."""
    reason, notes = r"\n\*\*.*\*\*\n\n", r"(?:(?:> .*\n)+\n)?"
    rows, seen = r"\| rule \|.*\n(?:\|.*(?:\n|\Z))+\n?", r"(?:Decided .*\.(?:\n|\Z)\n?)?"
    # A deeper heading, `#### Gate`, holds ours and is somebody else's.
    return f"(?m:^){_markdown_heading(kind)}\n{reason}{notes}{rows}{seen}"


def _markdown_heading(kind: str) -> str:
    return f"### {kind.capitalize()}"


def _line(text: str) -> str:
    return line_text(text).rstrip(".")
