"""Decisions about a judge as a section of its page and description: each rule, its state, what would decide it.

A page has at most one section of each kind, the newest; `with_section` and `with_markdown_section` put it there, into
pages of earlier versions too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from jrh_mlflow.measures.rules import State
from jrh_mlflow.measuring.until import UntilReport, UntilRule
from jrh_mlflow.show.html import render
from jrh_mlflow.show.markdown import table
from jrh_mlflow.show.names import rule_name
from jrh_mlflow.show.numbers import amount_text, short_interval
from jrh_mlflow.show.plain_text import code, line_text

DecisionKind = Literal["gate", "until"]
ANCHOR = "<!-- decisions -->"
"""Where a page has its decisions; pages of earlier versions have none, and get them below their header."""
_HEADER_END = "</header>\n"
_HEADER = ["rule", "state", "reading", "from", "to", "n", "why, or what would decide it"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DecidedRule:
    """One rule and what became of it."""

    rule: str
    state: State
    estimate: float | None
    low: float | None
    """Ends of the interval that decided; None where there is none."""
    high: float | None
    n: str = ""
    """On how much it stands, such as `120 calls, 10 tasks`."""
    advice: str = ""
    """What would decide it, or why nothing does; of a decided one its reason, or nothing."""
    censored: str = ""
    """In place of an estimate where only a bound is known, such as `> 5`."""

    @property
    def name(self) -> str:
        """The rule in words for people."""
        return rule_name(self.rule)

    @property
    def has_interval(self) -> bool:
        """Whether there is more than the reading itself: a fact, such as a cost, has no interval."""
        return not (self.low == self.high == self.estimate)


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionSection:
    """What was decided about a judge at one time, by rules."""

    kind: DecisionKind
    heading: str
    """Such as `Gate`."""
    reason: str
    """In one line: `failed: 1 of 3 rules fails`."""
    rules: Sequence[DecidedRule]
    notes: Sequence[str] = ()
    when: str = ""
    """Date and time with its zone."""
    link: str = ""
    """Where the run of the decision can be looked at: an address, or words where no server shows it."""


def until_section(report: UntilReport) -> DecisionSection:
    """Say what came of the rules that an evaluation was asked until, and what was not needed."""
    *_, count = report.lines
    bounds = f"Between: what the whole suite would read, at {report.level * 100:g} % whenever one looks."
    return DecisionSection(
        kind="until",
        heading="Until",
        reason=report.text,
        rules=[
            DecidedRule(
                rule=one.rule,
                state=one.state,
                estimate=one.estimate,
                low=one.low,
                high=one.high,
                n=f"{one.n:,} of {one.size:,} {one.unit}s",
                advice="; ".join(part for part in (one.reason, _over_tasks(one)) if part),
            )
            for one in report.rules
        ],
        notes=[count, bounds],
    )


def _over_tasks(rule: UntilRule) -> str:
    if rule.cluster_low is None or rule.cluster_high is None:
        return ""
    return f"over tasks {short_interval(rule.cluster_low, rule.cluster_high)}"


def gate_section(
    reason: str,
    checks: Sequence[Mapping[str, Any]],
    *,
    notes: Sequence[str] = (),
    ended_ms: float | None = None,
    link: str = "",
) -> DecisionSection:
    """Say what a gate came to.

    Args:
        reason: In one line.
        checks: The rows of `Gate.checks`.
        notes: What to know about it.
        ended_ms: When it was decided, in milliseconds since 1970; None: not known.
        link: Where its run can be looked at.
    """
    when = "" if ended_ms is None else f"{datetime.fromtimestamp(ended_ms / 1000, timezone.utc):%Y-%m-%d %H:%M} UTC"
    rules = decided_rules(checks)
    return DecisionSection(kind="gate", heading="Gate", reason=reason, rules=rules, notes=notes, when=when, link=link)


def decided_rules(checks: Sequence[Mapping[str, Any]]) -> list[DecidedRule]:
    """Spell the rows of `Gate.checks`: `rule, state, estimate, low, high, further_tasks`, and `n, n_clusters, reason`.

    Example:
        >>> row = {"rule": "x <= 1", "state": "undecided", "estimate": 0.9, "low": 0.7, "high": 1.1}
        >>> decided_rules([{**row, "further_tasks": 14}])[0].advice
        '14 further tasks like these would decide it'
    """
    return [
        DecidedRule(
            rule=str(row["rule"]),
            state=row["state"],
            estimate=row["estimate"],
            low=row["low"],
            high=row["high"],
            n=_size_text(row),
            advice=advice_text(row["state"], row.get("further_tasks"), row.get("reason")),
            censored=row.get("censored") or "",
        )
        for row in checks
    ]


def advice_text(state: State, further_tasks: float | None, reason: str | None = None) -> str:
    """Say what would decide an undecided rule, or why nothing does; of a decided one its reason.

    Example:
        >>> advice_text("undecided", 1), advice_text("undecided", None), advice_text("holds", 0)
        ('1 further task like these would decide it', 'no number of further tasks like these would decide it', '')
    """
    told = (reason or "").strip().rstrip(".")
    if state != "undecided":
        return told
    if further_tasks:
        # The reason is that the limit lies in the interval, which stands beside it.
        return f"{int(further_tasks):,} further task{'' if further_tasks == 1 else 's'} like these would decide it"
    return told or "no number of further tasks like these would decide it"


def _size_text(row: Mapping[str, Any]) -> str:
    n, clusters = row.get("n"), row.get("n_clusters")
    parts = ([f"{int(n):,}"] if n is not None else []) + ([f"in {int(clusters):,} tasks"] if clusters else [])
    return " ".join(parts)


def section_html(section: DecisionSection) -> str:
    """Render a section between the two comments by which it is found again; every text is escaped."""
    begin, end = _marks(section.kind)
    return f"{begin}\n{render('_decision.html', section=section)}{end}\n"


def with_section(page: str, section: DecisionSection) -> str:
    """Return a page with the section, in place of an older one of its kind; a page that is not ours as it is."""
    begin, end = _marks(section.kind)
    without = re.sub(rf"{re.escape(begin)}.*?{re.escape(end)}\n?", "", page, count=1, flags=re.DOTALL)
    place = next((mark for mark in (f"{ANCHOR}\n", _HEADER_END) if mark in without), None)
    if place is None:
        return page
    head, _, tail = without.partition(place)
    return f"{head}{place}{section_html(section)}{tail}"


def _marks(kind: DecisionKind) -> tuple[str, str]:
    return f"<!-- {kind} -->", f"<!-- /{kind} -->"


def section_markdown(section: DecisionSection) -> list[str]:
    """Render a section; no heading of another section can be inside it."""
    rows = []
    for one in section.rules:
        ends = (one.low, one.high) if one.has_interval else (None, None)
        reading = line_text(one.censored) or amount_text(one.estimate)
        numbers = (reading, *map(amount_text, ends))
        rows.append(
            [f"{line_text(one.name)} {code(one.rule)}", one.state, *numbers, line_text(one.n), line_text(one.advice)]
        )
    lines = [_markdown_heading(section.kind), "", f"**{_line(section.reason)}.**", ""]
    lines += [f"> {_line(note)}" for note in section.notes] + [""] * bool(section.notes)
    seen = ", ".join(part for part in (section.when, section.link) if part)
    return [*lines, *table(_HEADER, rows), "", *([f"Decided {_line(seen)}.", ""] if seen else [])]


def with_markdown_section(markdown: str, section: DecisionSection) -> str:
    """Return a datasheet with the section once: where it was, else before all others; what people wrote stays."""
    before, *after = re.split(_own_lines(section.kind), markdown)
    if not after:
        first = re.search("^### ", markdown, flags=re.MULTILINE)
        place = first.start() if first else len(markdown)
        before, after = markdown[:place], [markdown[place:]]
    gap = "" if not before.strip() or before.endswith("\n\n") else "\n" if before.endswith("\n") else "\n\n"
    lines = "\n".join(section_markdown(section))
    return f"{before}{gap}{lines}\n{''.join(after)}"


def _own_lines(kind: DecisionKind) -> str:
    """Match what `section_markdown` writes, and nothing that somebody wrote below it.

    Earlier versions wrote the heading onto the end of a last line that had no end, so it may begin anywhere.
    """
    reason, notes = r"\n\*\*.*\*\*\n\n", r"(?:(?:> .*\n)+\n)?"
    rows, seen = r"\| rule \|.*\n(?:\|.*(?:\n|\Z))+\n?", r"(?:Decided .*\.(?:\n|\Z)\n?)?"
    return f"(?<!#){_markdown_heading(kind)}\n{reason}{notes}{rows}{seen}"


def _markdown_heading(kind: DecisionKind) -> str:
    return {"gate": "### Gate", "until": "### Until"}[kind]


def _line(text: str) -> str:
    return line_text(text).rstrip(".")
