"""What is known of a watch, what people see of it and what MLflow is told: sentences, tables, figure, page and keys."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.findings import Finding, Verdict
from jrh_mlflow.show.cards import ShownResult, brief_run
from jrh_mlflow.show.figures.canvas import PALETTE, Spot, canvas, hover_spots, plotted, short, write_corners
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.show.names import condition_name
from jrh_mlflow.show.numbers import interval_text, money_text, number_text
from jrh_mlflow.show.page import Drawing, Page, Section
from jrh_mlflow.show.plain_text import plain_name
from jrh_mlflow.show.tables import Column, FilledTable, Medium, Table
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.watching.watched import (
    ABILITY,
    ACCURACY,
    ANY,
    FALSE_PREFERENCE,
    LEVEL,
    SLOT_LEAN,
    AxisWatch,
    ChangedCall,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

WatchState = Literal["unchanged", "changed", "application changed", "both"]
WATCH_JSON = "watch.json"
ASKS_FILE = "asks.parquet"
"""Every ask of every look; look 0 is the start."""
PANEL_FOLDER, TRACES_FOLDER = "panel", "panel_of_traces"
"""The frozen panels, as suites."""
TRACES = "traces/"
"""What the axes of the panel of traces begin with."""
WORDS = {
    FALSE_PREFERENCE: "how often it picks a side between two answers that are equally good",
    SLOT_LEAN: "how far it leans to the answer shown first",
    ABILITY: "how often it picks the better answer, a tie counted half",
    ACCURACY: "how often it gives the expected answer",
    LEVEL: "its mean answer, from 0 (lowest) to 1 (highest)",
    ANY: "which answers it gives",
}
_CAPTIONS = {"watch.png": "Evidence of a change by look; the dashed line is the alarm"}
_MOST_CALLS: dict[Medium, int] = {"html": 200, "markdown": 20, "text": 10}


def axis_words(axis: str) -> str:
    """Say what an axis counts."""
    words = WORDS[axis.removeprefix(TRACES)]
    return f"{words} on the old traces" if axis.startswith(TRACES) else words


def watched_axis_text(axis: str) -> str:
    """Name an axis in a table."""
    return axis.removeprefix(TRACES).replace("_", " ") + (" (traces)" if axis.startswith(TRACES) else "")


def reading_of(axis: AxisWatch) -> Reading:
    """Return the change of an axis with its interval, or why there is none."""
    if axis.change is None:
        reason = "there is no look yet" if not axis.log_e else "an answer that is another one has no size"
        return NotEstimable(reason=reason, n=axis.n_calls * len(axis.log_e), excluded=0)
    return Estimate(
        value=axis.change,
        n=axis.n_calls * len(axis.log_e),
        excluded=0,
        ci_low=axis.low,
        ci_high=axis.high,
        cluster_low=None,
        cluster_high=None,
        n_clusters=0,
        method="confidence sequence: holds at all looks together",
        statistic="value",
    )


def _moved_text(axis: AxisWatch) -> str:
    if axis.change is None:
        return "it answers some of the same questions otherwise"
    ends = interval_text(axis.low, axis.high, signed=True)
    numbers = f"{number_text(axis.before)} → {number_text(axis.after)}, change {number_text(axis.change, signed=True)}"
    return f"{axis_words(axis.axis)} ({numbers} {ends})"


def _seen_text(axes: Sequence[AxisWatch]) -> str:
    known = {axis.axis: axis.detectable for axis in axes if axis.detectable is not None and axis.means}
    if not known:
        return "So few looks would not have shown any change yet."
    seen = ", or ".join(f"by {number_text(change)} in {axis_words(axis)}" for axis, change in list(known.items())[:3])
    return f"A change at the first look would most likely (80 %) have been seen by now: {seen}."


def _finding(axis: AxisWatch, days: Sequence[str], command: str) -> Finding:
    reading = reading_of(axis)
    if not axis.alarm:
        # No test can show that nothing has changed, only that a change of some size would have been seen.
        text = f"No change shown in {axis_words(axis.axis)} over {len(axis.log_e)} looks."
        return Finding(axis=axis.axis, state="cannot tell", reading=reading, text=text)
    text = f"Changed since {days[axis.began or 1]}: {_moved_text(axis)}."
    advice = "Measure the judge again and watch the new run."
    return Finding(axis=axis.axis, state="problem", reading=reading, text=text, advice=advice, command=command)


def _or_dash(value: float | None, *, signed: bool = False) -> str:
    return "–" if value is None else number_text(value, signed=signed)


def _e_text(axis: AxisWatch) -> str:
    return "–" if not axis.log_e else f"{axis.e_value:,.2g}" if axis.e_value < 1e6 else "over 1,000,000"


AXES: Table[AxisWatch] = Table.of(
    Column("axis", lambda row: watched_axis_text(row.axis), value=lambda row: row.axis, brief=True),
    Column("before", lambda row: _or_dash(row.before), value=lambda row: row.before, brief=True),
    Column("since", lambda row: _or_dash(row.after), value=lambda row: row.after, brief=True),
    Column("change", lambda row: _or_dash(row.change, signed=True), value=lambda row: row.change, brief=True),
    Column(
        "95 % at any time",
        lambda row: "–" if row.change is None else interval_text(row.low, row.high, signed=True),
        brief=True,
    ),
    Column("calls a look", lambda row: f"{row.n_calls:,}", value=lambda row: row.n_calls),
    Column("e-value", _e_text, value=lambda row: row.e_value),
    Column("alarm at", lambda row: f"{math.exp(row.threshold):,.0f}", value=lambda row: math.exp(row.threshold)),
    Column("would be seen", lambda row: _or_dash(row.detectable), value=lambda row: row.detectable),
    Column(
        "state",
        lambda row: f"changed at look {row.began}" if row.alarm else "no change shown",
        value=lambda row: "changed" if row.alarm else "unchanged",
        brief=True,
    ),
)
_HOW = (
    "The e-value grows while new answers differ from all earlier ones more than these differ among themselves; it "
    "passes the alarm by chance in at most 5 % of watches, however often one looks. The interval of a change holds at "
    "all looks together and for any look that it is counted from; it is wider than what the alarm needs."
)

CALLS: Table[ChangedCall] = Table.of(
    Column("item", lambda row: row.item, as_code=True, brief=True),
    Column("order", lambda row: row.order or "–", words=True),
    Column("condition", lambda row: condition_name(row.condition), value=lambda row: row.condition, words=True),
    Column("answer before", lambda row: row.before, as_code=True, brief=True, words=True),
    Column("answer since", lambda row: row.after, as_code=True, brief=True, words=True),
    Column("asked before, since", lambda row: f"{row.n_before}, {row.n_after}"),
)

COSTS: Table[Mapping[str, Any]] = Table.of(
    Column("look", lambda row: "start" if not row["look"] else str(row["look"]), value=lambda row: row["look"]),
    Column("day", lambda row: row["day"], words=True),
    Column("calls", lambda row: f"{row['calls']:,}", value=lambda row: row["calls"]),
    Column("no answer", lambda row: f"{row['lost']:,}", value=lambda row: row["lost"]),
    Column("dollars", lambda row: money_text(row["usd"]), value=lambda row: row["usd"]),
)
_LAST_LOOKS = 12


@dataclass(frozen=True, kw_only=True)
class Watch(ShownResult):
    """What is known of a watched judge after the newest look. True in a test only where nothing has changed."""

    watched_run: str
    """The run of the judge's datasheet."""
    judge: str
    axes: tuple[AxisWatch, ...]
    looks: tuple[Mapping[str, Any], ...]
    """The start and every look: `look`, `day`, `at` (seconds since 1970), `calls`, `lost`, `usd`."""
    changed_calls: tuple[ChangedCall, ...] = ()
    """Calls of the panel whose commonest answer since the change is another."""
    application: Mapping[str, Any] = field(default_factory=dict)
    """With traces: `moved` (the look, or None), sessions, difference and its interval."""
    facts: Mapping[str, str] = field(default_factory=dict)
    simulated: bool = False

    @property
    def alarmed(self) -> list[AxisWatch]:
        """Axes that have changed, those with a size first."""
        return sorted(filter(attrgetter("alarm"), self.axes), key=lambda axis: (axis.change is None, axis.alarm))

    @property
    def state(self) -> WatchState:
        """`unchanged`, `changed` (the judge), `application changed`, or `both`."""
        if self.application.get("moved") is not None:
            return "both" if self.alarmed else "application changed"
        return "changed" if self.alarmed else "unchanged"

    def __bool__(self) -> bool:
        return self.state == "unchanged"

    @property
    def n_looks(self) -> int:
        """After the start."""
        return len(self.looks) - 1

    @property
    def title(self) -> str:
        """Names the judge."""
        return f"Watch of {self.judge}"

    @property
    def verdict(self) -> Verdict:
        """Whether the judge has changed, since when and in what, or what would have been seen by now."""
        alarmed, n_looks, name = self.alarmed, self.n_looks, plain_name(self.judge)
        days, more = [look["day"] for look in self.looks], _application_text(self.application, self.looks)
        command = f"jrh {'status' if alarmed else 'watch'} {self.watched_run}"
        steady = [axis for axis in self.axes if not axis.alarm]
        findings = tuple(_finding(axis, days, command) for axis in [*alarmed, *steady])
        if alarmed:
            first = alarmed[0]
            since = f"since {days[first.began or 1]} (look {first.began} of {n_looks})"
            others = [_moved_text(axis) for axis in alarmed[1:] if axis.change is not None]
            items = f" {n} calls of the panel have another answer now." if (n := len(self.changed_calls)) else ""
            sentences = [
                f"{name} has changed {since}: {_moved_text(first)}.",
                f"Also: {'; '.join(others)}." if others else "",
                more,
                f"What to do: Measure it again and watch the new run; its datasheet is out of date.{items} `{command}`",
            ]
        elif not n_looks:
            lead = f"The watch of {name} has begun on {days[0]}: its panel was asked, and nothing is compared yet."
            sentences = [lead, more, f"Look again whenever you like: `{command}`"]
        else:
            lead = f"{name} shows no change in {n_looks} look{'s' if n_looks > 1 else ''} since {days[0]}."
            sentences = [lead, _seen_text(self.axes), more]
        return Verdict(sentences=tuple(filter(None, sentences)), findings=findings)

    @property
    def drift(self) -> str:
        """What the judge's own run says of it: `changed since 2026-11-18 (look 12): ability`, or `unchanged`."""
        if not (alarmed := self.alarmed):
            return f"unchanged, {self.n_looks} looks to {self.looks[-1]['day']}"
        began = min(axis.began or 1 for axis in alarmed)
        names = ", ".join(axis.axis for axis in alarmed)
        return f"{keys.CHANGED} since {self.looks[began]['day']} (look {began}): {names}"

    @property
    def cost_usd(self) -> float | None:
        """Of the newest look; None where it is not known."""
        return None if (usd := self.looks[-1]["usd"]) is None else float(usd)

    def _page(self, figures: Sequence[Drawing] = ()) -> Page:
        """Return the verdict, the axes, the calls with other answers, and what each look cost."""
        looks, newest = self.looks, f"The newest {_LAST_LOOKS}." if len(self.looks) > _LAST_LOOKS else ""
        return Page.saying(
            self.verdict,
            title=self.title,
            marks=["simulated"] if self.simulated else [],
            facts=self.facts,
            sections=[
                Section(heading="Axes", blocks=[AXES(self.axes), _HOW]),
                Section(heading="Figures", blocks=[figures], media=("html",)),
                *(
                    Section(heading="Calls with another answer", blocks=[self._calls(most)], media=(medium,))
                    for medium, most in _MOST_CALLS.items()
                ),
                Section(heading="Looks", blocks=[COSTS(looks[-_LAST_LOOKS:], more=newest)]),
            ],
        )

    def _calls(self, most: int) -> FilledTable[ChangedCall]:
        more = f"The first {most} of {n:,}." if (n := len(self.changed_calls)) > most else ""
        return CALLS(self.changed_calls[:most], more=more)

    @cached_property
    def drawings(self) -> list[Drawing]:
        """The figure of its page."""
        return draw(watch_figures(self.axes, title=self.title), _CAPTIONS)

    def plot(self) -> Figure:
        """Draw the evidence by look."""
        return plotted(watch_figures(self.axes, title=self.title))

    def to_frame(self) -> pd.DataFrame:
        """Return one row per axis."""
        return AXES(self.axes).to_frame()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        names = ("run_id", "link", "watched_run", "judge", "state", "drift", "simulated", "application", "facts")
        return {
            **{name: getattr(self, name) for name in names},
            "verdict": self.verdict.to_dict(),
            "axes": [axis.to_dict() for axis in self.axes],
            "looks": [dict(look) for look in self.looks],
            "changed_calls": [vars(call) for call in self.changed_calls],
        }

    def __repr__(self) -> str:
        return f"Watch({brief_name(self.judge)}: {self.state}, {self.n_looks} looks, {brief_run(self.run_id)})"

    def _card(self) -> dict[str, Any]:
        return {"profile": self.drift, "tables": [AXES(self.axes)]}


def _application_text(application: Mapping[str, Any], looks: Sequence[Mapping[str, Any]]) -> str:
    if not application:
        return ""
    moved, n_new = application["moved"], application["n_new"]
    if application["difference"] is None:
        return "The application cannot be compared yet: there are too few new sessions."
    ends = interval_text(application["low"], application["high"], signed=True)
    difference = f"{number_text(application['difference'], signed=True)} {ends}, {n_new} sessions"
    shown = "shows no change" if moved is None else f"has changed, seen on {looks[moved]['day']}"
    return f"The application {shown}: new sessions against old ones as judged today {difference}."


def watch_points(axes: Sequence[AxisWatch], look: Mapping[str, Any]) -> list[keys.Point]:
    """Spell the newest look as metrics whose step is the look; the limits are beside them, as lines of the chart.

    Example:
        >>> look = {"look": 3, "calls": 56, "lost": 0, "usd": 0.01}
        >>> [(point.key, point.step) for point in watch_points([], look)]
        [('watch/calls', 3), ('watch/lost', 3), ('watch/usd', 3)]
    """
    values: dict[str, float | None] = {f"watch/{name}": look[name] for name in ("calls", "lost", "usd")}
    for axis in axes:
        own = {"mean": axis.means[look["look"]] if axis.means else None}
        if axis.log_e:
            # An e-value runs over many powers of ten, and charts of MLflow have no logarithmic scale by themselves.
            own |= {"log10_e": axis.log_e[-1] / math.log(10), "log10_limit": axis.threshold / math.log(10)}
            own |= {"change": axis.change, "ci_low": axis.low, "ci_high": axis.high, "detectable": axis.detectable}
        values |= {f"watch/{axis.axis}/{name}": value for name, value in own.items()}
    return [replace(point, step=int(look["look"])) for point in keys.known_points(values)]


def watch_figures(axes: Sequence[AxisWatch], *, title: str) -> dict[str, Figure]:
    """Draw the evidence of each axis by look, with the alarm."""
    n_looks = max((len(axis.log_e) for axis in axes), default=0)
    if not n_looks:
        return {}
    figure, place = canvas(8.2, 4.4, left=0.9, right=2.6, bottom=0.8, top=0.6)
    looks = range(n_looks + 1)
    for number, axis in enumerate(axes):
        tens = [0.0, *(value / math.log(10) for value in axis.log_e)]
        place.plot(looks, tens, color=PALETTE[number % len(PALETTE)], label=watched_axis_text(axis.axis))
        words = f"{watched_axis_text(axis.axis)}, look {n_looks}: e-value {_e_text(axis)}"
        hover_spots(place, [Spot(x=n_looks, y=tens[-1], words=words)])
    limit = axes[0].threshold / math.log(10)
    place.axhline(limit, color="black", linestyle="--", linewidth=1, label=f"alarm ({10**limit:.0f})")
    place.set_xlabel("look")
    place.set_ylabel("evidence of a change (powers of ten)")
    place.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=9)
    write_corners(figure, title=short(title, most=60), foot="over the dashed line: changed")
    return {"watch.png": figure}
