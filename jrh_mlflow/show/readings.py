"""Readings as people see them: the one table of them, ladders step by step, what is missing, biases in words."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from jrh_mlflow.measures import axes
from jrh_mlflow.measures.axes import Axis, by_step, declared, find
from jrh_mlflow.measures.datasheet import detectable
from jrh_mlflow.measures.reliability import mean_withheld
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.findings import Finding
from jrh_mlflow.show import numbers
from jrh_mlflow.show.html import render_part
from jrh_mlflow.show.names import STEPS, axis_guide, axis_meaning, axis_name, reason_text, stimuli_name
from jrh_mlflow.show.plain_text import WIDTH, plain
from jrh_mlflow.show.tables import Cell, Column, FilledTable, Medium, Table, Whisker
from jrh_mlflow.text import brief_name

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup

DETECTABLE_NOTE = "Detectable is the distance from a limit that a run like this finds in 4 of 5 cases."
_MOST_NAMED = 10
"""Findings that a line names."""
_MOST_REASONS = 6
"""Reasons why numbers are withheld that a screen lists."""
_PLURALS = {"person": "people"}
_ENDS = ("ci_low", "ci_high", "cluster_low", "cluster_high", "n_clusters", "method")


@dataclass(frozen=True, kw_only=True, slots=True)
class PageRow:
    """One reading in words, a row of `readings_table`."""

    label: str
    value: str
    left_out: str
    """Empty of what sums tests up: calls are left out of each of them."""
    key: str = ""
    """Under which it is typed in rules and logged; empty where a row is about no axis."""
    reading: Reading | None = None
    """None of what sums tests up."""
    interval: str = ""
    """95 %, tasks as clusters where that is known; bounds have none."""
    n: str = ""
    detectable: str = ""
    """What a run like this would find in four of five cases."""
    bar: tuple[float, float] | None = None
    """From where to where the bar runs, for what lies between 0 and 1."""
    bounds: bool = False
    """Whether the value is no number but the bounds of one that is withheld."""
    meaning: str = ""
    """What is counted, and which value is good."""
    good: str = ""
    bad: str = ""
    state: str = ""
    """Of a reading that has a limit: problem, ok, cannot tell, or by design."""
    address: str = ""
    """Of the calls behind it, on a served page."""


def page_row(label: str, reading: Reading, *, key: str = "") -> PageRow:
    """Spell a reading under a label."""
    lost = ", ".join(f"{name} {count}" for name, count in reading.left_out.items() if count)
    left_out = f"{reading.excluded:,} ({lost})" if lost else f"{reading.excluded:,}"
    spelled = PageRow(label=label, value="", left_out=left_out, key=key, reading=reading)
    if isinstance(reading, NotEstimable):
        # A bar runs from 0 to 1, as only shares do.
        bounds = reading.bounds if reading.statistic == "rate" else None
        bar = (bounds.low, bounds.high) if bounds else None
        return replace(spelled, value=numbers.missing_text(reading), bar=bar, bounds=True)
    # A curve is fitted to calls, and n counts these.
    unit = "call" if reading.unit == "curve" else reading.unit
    return replace(
        spelled,
        value=numbers.threshold_text(reading) if reading.unit == "curve" else numbers.number_text(reading.value),
        interval=numbers.interval_text(*numbers.source_ends(reading)),
        n=f"{reading.n:,} {unit if reading.n == 1 else _PLURALS.get(unit, f'{unit}s')}",
        detectable=numbers.number_text(detectable(reading)),
        bar=(0.0, reading.value) if reading.statistic == "rate" and reading.numerator is not None else None,
    )


def axis_row(key: str, reading: Reading, *, label: str = "", address: str = "", state: str = "") -> PageRow:
    """Spell a reading under the name of its key, with what it means and which values are good."""
    guide = axis_guide(key)
    return replace(
        page_row(label or axis_name(key), reading, key=key),
        meaning=axis_meaning(key),
        good=guide.good if guide else "",
        bad=guide.bad if guide else "",
        state=state,
        address=address,
    )


def across_row(
    key: str, summary: Mapping[str, float | None], scores: Mapping[str, Reading], metric: str
) -> PageRow | None:
    """Spell what sums the scores of tests up (`reliability/mean`), with how many of them have a number.

    Returns:
        The row, of what is withheld with the reason; None where the key is none of these, or no test has a number.
    """
    name = key.removeprefix(metric_keys.RELIABILITY)
    if name == key or name not in summary:
        return None
    value, withheld = summary[name], mean_withheld(scores, metric)
    if value is None and not withheld:
        return None
    return PageRow(
        label=axis_name(key),
        value="withheld" if value is None else numbers.number_text(value),
        left_out="",
        key=key,
        interval=numbers.interval_text(summary.get(f"{name}_ci_low"), summary.get(f"{name}_ci_high")),
        n=withheld if value is None else f"{summary.get('n_tests') or 0:g} of {len(scores)} tests",
        bounds=value is None,
        meaning=axis_meaning(key),
    )


def readings_table(by: str = "task", *, first: str = "axis") -> Table[PageRow]:
    """Return the table of readings in every medium; data frames have more columns (`readings_frame`).

    Args:
        by: What an interval takes as clusters: `task` or `source`.
        first: What a row is: an axis or a test.
    """
    wide: tuple[Medium, ...] = ("html", "card")
    own_stimuli: list[Column[PageRow]] = [Column("on", _stimuli, media=("text", "card"), words=True)]
    return Table.of(
        Column(first, lambda row: row.label, html=lambda row: render_part("_axis.html", row=row), brief=True),
        *(own_stimuli if first == "axis" else []),
        Column(
            "reading",
            _value_cell,
            exact=lambda row: numbers.value_text(row.reading),
            html=_linked_value,
            media=("html", "markdown"),
        ),
        Column("reading", lambda row: row.value, media=("card",)),
        Column(f"reading [95 % by {by}]", lambda row: numbers.reading_text(row.reading), media=("text",)),
        Column("95 %", lambda row: _exact_interval(row, "ci"), media=("markdown",)),
        Column(
            f"95 % by {by}",
            lambda row: row.interval,
            exact=lambda row: _exact_interval(row, "cluster"),
            media=(*wide, "markdown"),
        ),
        Column("", lambda row: Cell("", whisker=_whisker(row)), media=("card",)),
        Column("detectable", lambda row: row.detectable or "–", media=wide if first == "axis" else (*wide, "text")),
        Column("n", lambda row: row.n or "–", brief=True),
        Column("left out", lambda row: row.left_out, exact=_short_loss, short=_short_loss, brief=True),
    )


def confidence_readings(by: str) -> Table[PageRow]:
    """Return the table of calibration and expected values, which Markdown alone has; bounds hold what was not read."""
    left_out = ("on", "95 %", "detectable")
    bounds: Column[PageRow] = Column("bounds", lambda row: _exact_interval(row, "bound"), media=("markdown",))
    return Table.of(*(column for column in readings_table(by).columns if column.head not in left_out), bounds)


def _stimuli(row: PageRow) -> str:
    axis = find(row.key)
    return stimuli_name(axis) if axis else ""


def _value_cell(row: PageRow) -> Cell:
    # Bounds need the room of the columns that they have nothing to say in.
    return Cell(row.value, whisker=_whisker(row), tone="bounds" if row.bounds else "", span=4 if row.bounds else 1)


def _whisker(row: PageRow) -> Whisker | None:
    """Return where a share lies between 0 and 1; None of other numbers."""
    if row.bar is None or not isinstance(row.reading, Estimate):
        return row.bar and Whisker(low=row.bar[0], high=row.bar[1])
    low, high = (row.reading.value if end is None else end for end in numbers.source_ends(row.reading))
    return Whisker(low=low, high=high, value=row.reading.value)


def _linked_value(row: PageRow) -> Markup:
    from markupsafe import Markup, escape

    value = escape(row.value)
    if row.address:
        # Read out alone, a link called 0.72 says nothing.
        link = Markup('<a class="calls" href="{}" aria-label="{}: {}, the calls behind it">{}</a>')
        value = link.format(row.address, row.label, row.value, row.value)
    return value if row.bounds else Markup("<b>{}</b>").format(value)


def _exact_interval(row: PageRow, kind: str) -> str:
    """Write an interval of a reading by its kind: `ci`, `cluster` or `bound`."""
    if not isinstance(row.reading, Estimate):
        return "–"
    return numbers.interval_text(getattr(row.reading, f"{kind}_low"), getattr(row.reading, f"{kind}_high"))


def _short_loss(row: PageRow) -> str:
    return row.left_out if row.reading is None else numbers.left_out_text(row.reading)


def main_readings(estimates: Mapping[str, Reading]) -> dict[str, Reading]:
    """Return the readings that sum a datasheet up, where there is a number or bounds; of a threshold in any case."""
    keys = [axis.main_key for axis in axes.AXES if axis.column or axis.figure]
    known = {key: estimates[key] for key in keys if key in estimates}
    return {
        key: reading for key, reading in known.items() if numbers.is_shown(reading) or declared(key).unit == "curve"
    }


class CallsBehind(Protocol):
    """Where the calls behind a reading are shown."""

    def calls(self, key: str) -> str:
        """Return the address of the calls; empty where there are none to show."""


def step_tables(readings: Mapping[str, Reading], links: CallsBehind | None = None) -> list[FilledTable[float]]:
    """Put families over the steps of a ladder side by side, a row for each step; a table for each kind of step.

    The first family gives the counts of Markdown and terminals; on pages every cell has its own.
    """
    families: dict[str, list[tuple[Axis, dict[float, Reading]]]] = {}
    for axis in axes.AXES:
        if axis.by_step and (own := by_step(readings, axis.name)):
            families.setdefault(axis.step, []).append((axis, own))
    return [_step_table(step, members, links) for step, members in families.items()]


def _step_table(
    step: str, families: Sequence[tuple[Axis, Mapping[float, Reading]]], links: CallsBehind | None
) -> FilledTable[float]:
    first, counted = families[0]
    table = Table.of(
        Column(
            STEPS[step].partition(" ")[0],
            lambda place: f"{STEPS[step]}{place:g}",
            exact=lambda place: f"{place:g}",
            short=lambda place: f"{place:g}",
            brief=True,
        ),
        # On a terminal families that do not fit stand below, so that the counts come first.
        Column(f"n {first.unit}s", lambda place: f"{counted[place].n:,}" if place in counted else "–", media=("text",)),
        *(_family_column(axis, own, links) for axis, own in families),
        Column(f"n {first.unit}s", lambda place: _count(counted.get(place)), media=("markdown",)),
    )
    return table(sorted({place for _, own in families for place in own}), style="matrix")


def _family_column(axis: Axis, own: Mapping[float, Reading], links: CallsBehind | None) -> Column[float]:
    keys = {place: f"{axis.name}/{axis.step}_{place:g}" for place in own}
    rows = {
        place: axis_row(keys[place], reading, address=links.calls(keys[place]) if links else "")
        for place, reading in own.items()
    }
    write: Callable[[Reading], str] = numbers.with_interval if axis.cell == "interval" else numbers.value_text
    media: dict[Medium, Any] = {"html": True, "markdown": axis.cell, "text": axis.column or axis.figure}
    return Column(
        axis.label,
        lambda place: _step_cell(rows.get(place)),
        html=lambda place: _linked_value(rows[place]) if place in rows else None,
        exact=lambda place: write(own[place]) if place in own else "–",
        short=lambda place: numbers.reading_text(own.get(place)),
        media=tuple(medium for medium, is_in in media.items() if is_in),
        meaning=axis.meaning,
    )


def _step_cell(row: PageRow | None) -> Cell:
    if row is None:
        return Cell("–", tone="missing")
    if row.bounds:
        return Cell(row.value, tone="bounds")
    if row.left_out == "0":
        return Cell(row.value, below=(row.interval, f"n {row.n}"))
    lost = row.left_out.partition(" ")[0]
    return Cell(row.value, below=(row.interval, f"n {row.n} (−{lost})"), hover=f"left out {row.left_out}")


def _count(reading: Reading | None) -> str:
    if reading is None:
        return "–"
    return f"{reading.n} (−{reading.excluded})" if reading.excluded else str(reading.n)


def reading_columns(reading: Reading) -> dict[str, Any]:
    """Spell a reading as columns: value, n, what was left out, both intervals and the method; or why there is none."""
    known = reading if isinstance(reading, Estimate) else None
    return {
        "value": known and known.value,
        "n": reading.n,
        "excluded": reading.excluded,
        **{name: known and getattr(known, name) for name in _ENDS},
        "detectable": detectable(reading),
        "reason": None if isinstance(reading, Estimate) else numbers.withheld_text(reading),
    }


def readings_frame(readings: Mapping[str, Reading]) -> pd.DataFrame:
    """Return one row per axis, in the order of the readings; what is missing is an empty cell, never 0."""
    import pandas as pd

    rows = [{"axis": axis, **reading_columns(reading)} for axis, reading in readings.items()]
    frame: pd.DataFrame = pd.DataFrame(rows)
    # A float would show 28.0 beside a missing count.
    return frame.astype({"n_clusters": "Int64"}) if rows else frame


def axes_by_reason(estimates: Mapping[str, Reading]) -> dict[tuple[str, str], list[str]]:
    """Return the axes without a number under what became of them (`withheld` or `n/a`) and the reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for axis, reading in estimates.items():
        if isinstance(reading, NotEstimable):
            groups.setdefault(("withheld" if reading.withheld else "n/a", reason_text(reading.reason)), []).append(axis)
    return groups


@dataclass(frozen=True, slots=True)
class Missing:
    """Axes without a number that have one reason."""

    state: str
    """`withheld` or `n/a`."""
    reason: str
    axes: Sequence[str]
    named: int = 10**6
    """How many axes Markdown names; the others are counted."""

    @property
    def names(self) -> str:
        """The axes in words."""
        return ", ".join(map(axis_name, self.axes))

    @property
    def first_names(self) -> str:
        """The axes that Markdown has room for."""
        more = f" and {len(self.axes) - self.named} more" if len(self.axes) > self.named else ""
        return ", ".join(map(axis_name, self.axes[: self.named])) + more


MISSING: Table[Missing] = Table.of(
    Column("reason", lambda row: row.reason, media=("html",)),
    Column("", lambda row: row.state, media=("markdown",)),
    Column("axes", lambda row: row.names, exact=lambda row: row.first_names, words=True),
    Column("reason", lambda row: row.reason, media=("markdown", "text"), words=True),
)


def missing_rows(estimates: Mapping[str, Reading], *, named: int = 10**6) -> list[Missing]:
    """Return the rows of `MISSING`, a row for each reason."""
    return [Missing(state, reason, keys, named) for (state, reason), keys in axes_by_reason(estimates).items()]


def withheld_lines(readings: Mapping[str, NotEstimable]) -> list[str]:
    """Say on a screen which numbers are withheld, in one line for each reason."""
    groups = {reason: keys for (_, reason), keys in axes_by_reason(readings).items()}
    lines = []
    for reason, keys in list(groups.items())[:_MOST_REASONS]:
        # The limit is the same for the whole sheet, and a line has no room for it.
        cause = reason.partition(", over the limit")[0]
        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        lines.append(textwrap.shorten(plain(f"withheld: {cause}: {axis_name(keys[0])}{more}"), WIDTH, placeholder=" …"))
    rest = len(groups) - _MOST_REASONS
    return lines + ([f"withheld: for {rest} more reasons; --markdown has them all"] if rest > 0 else [])


def _badge(state: str) -> Markup:
    from markupsafe import Markup

    return Markup('<span class="state {}">{}</span>').format(state.replace(" ", "-"), state)


FINDINGS: Table[Finding] = Table.of(
    Column("state", lambda row: row.state, html=lambda row: _badge(row.state), brief=True),
    Column("finding", lambda row: row.text, words=True, brief=True),
    Column("what to do", lambda row: " ".join(filter(None, (row.advice, row.command))) or "–", words=True),
)
"""What was looked for in a run, problems first."""


def finding_lines(findings: Sequence[Finding]) -> dict[str, str]:
    """Return each state to the readings that are in it, with their numbers; states without any are left out.

    Of a suite with many tests the first are named, and the others counted; so are readings without a number, which
    stand with their reasons elsewhere. Names may be a user's: whoever shows them escapes them.
    """
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.state, []).append(finding)
    return {state: _first_names(own) for state, own in groups.items()}


def _first_names(findings: Sequence[Finding]) -> str:
    known = [finding for finding in findings if isinstance(finding.reading, Estimate)]
    more = [f"{len(known) - _MOST_NAMED} more"] if len(known) > _MOST_NAMED else []
    more += [f"{len(findings) - len(known)} without a number"] if len(known) < len(findings) else []
    return ", ".join([*map(_finding_name, known[:_MOST_NAMED]), *more])


def _finding_name(finding: Finding) -> str:
    name = axis_name(finding.axis)
    return name if finding.state in ("ok", "by design") else f"{name} {numbers.reading_text(finding.reading)}"


def brief_sheet(estimates: Mapping[str, Reading]) -> str:
    """Write a datasheet in one line: `dark current 0.30 [0.16, 0.48], …`."""
    shown = {key: (declared(key), reading) for key, reading in main_readings(estimates).items()}
    named = {axis_name(key): reading for key, (axis, reading) in shown.items() if axis.column and axis.headline}
    n_withheld = sum(isinstance(reading, NotEstimable) and reading.withheld for reading in estimates.values())
    return brief_readings(named, most=6) + (f", {n_withheld} withheld" if n_withheld else "")


def brief_readings(readings: Mapping[str, Reading], *, most: int = 3, signed: bool = False) -> str:
    """Write the first readings that have a number in one line, under names of any origin."""
    known = {name: reading for name, reading in readings.items() if isinstance(reading, Estimate)}
    parts = [
        # `brief_name` quotes a name, and a list of readings needs no quotes.
        f"{brief_name(name)[1:-1]} {'+' if signed and reading.value > 0 else ''}{numbers.reading_text(reading)}"
        for name, reading in list(known.items())[:most]
    ]
    parts += ["…"] if len(known) > most else []
    return ", ".join(parts) or "no reading has a number"
