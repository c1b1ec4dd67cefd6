"""What people see of a watch and what MLflow is told: sentences, tables, figure, page and keys."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.findings import Finding, Verdict
from jrh_mlflow.show.figures.canvas import PALETTE, Spot, canvas, hover_spots, short, write_corners
from jrh_mlflow.show.numbers import interval_text, money_text, number_text
from jrh_mlflow.show.page import Drawing, Page, Section
from jrh_mlflow.show.plain_text import plain_name
from jrh_mlflow.show.tables import Column, FilledTable, Medium, Table
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
    from matplotlib.figure import Figure

WatchState = Literal["unchanged", "changed", "application changed", "both"]
WATCH_JSON, WATCH_MARKDOWN = "watch.json", "watch.md"
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
_MOST_CALLS: dict[Medium, int] = {"html": 200, "markdown": 20, "text": 10}


def axis_words(axis: str) -> str:
    """Say what an axis counts."""
    of_traces = axis.startswith(TRACES)
    words = WORDS[axis.removeprefix(TRACES)]
    return f"{words} on the old traces" if of_traces else words


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


def watch_verdict(
    axes: Sequence[AxisWatch],
    *,
    judge: str,
    state: WatchState,
    days: Sequence[str],
    n_changed: int,
    application: str,
    command: str,
) -> Verdict:
    """Say whether the judge has changed, since when and in what, or what would have been seen by now.

    Args:
        axes: Of all panels.
        judge: Its name.
        state: What has moved.
        days: Of the start and of each look.
        n_changed: Calls of the panels whose commonest answer is another since.
        application: What is said of the application; empty where no traces are watched.
        command: What to paste.
    """
    n_looks, name = len(days) - 1, plain_name(judge)
    alarmed = sorted((axis for axis in axes if axis.alarm), key=lambda axis: (axis.change is None, axis.alarm))
    findings = tuple(_finding(axis, days, command) for axis in [*alarmed, *(own for own in axes if not own.alarm)])
    more = [application] if application else []
    if alarmed:
        first = alarmed[0]
        since = f"since {days[first.began or 1]} (look {first.began} of {n_looks})"
        lead = f"{name} has changed {since}: {_moved_text(first)}."
        others = [_moved_text(axis) for axis in alarmed[1:] if axis.change is not None]
        also = [f"Also: {'; '.join(others)}."] if others else []
        items = f" {n_changed} calls of the panel have another answer now." if n_changed else ""
        advice = f"What to do: Measure it again and watch the new run; its datasheet is of before.{items} `{command}`"
        return Verdict(sentences=(lead, *also, *more, advice)[:4], findings=findings)
    if not n_looks:
        lead = f"The watch of {name} has begun on {days[0]}: its panel was asked, and nothing is compared yet."
        return Verdict(sentences=(lead, *more, f"Look again whenever you like: `{command}`"), findings=findings)
    lead = f"{name} shows no change in {n_looks} look{'s' if n_looks > 1 else ''} since {days[0]}."
    return Verdict(sentences=(lead, _seen_text(axes), *more), findings=findings)


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
    if axis.alarm:
        text = f"Changed since {days[axis.began or 1]}: {_moved_text(axis)}."
        advice = "Measure the judge again and watch the new run."
        return Finding(
            axis=axis.axis, state="problem", reading=reading_of(axis), text=text, advice=advice, command=command
        )
    text = f"No change shown in {axis_words(axis.axis)} over {len(axis.log_e)} looks."
    # No test can show that nothing has changed, only that a change of some size would have been seen.
    return Finding(axis=axis.axis, state="cannot tell", reading=reading_of(axis), text=text)


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
    Column("order", lambda row: row.order or "–"),
    Column("condition", lambda row: row.condition, words=True),
    Column("before", lambda row: row.before, as_code=True, brief=True),
    Column("since", lambda row: row.after, as_code=True, brief=True),
    Column("asks", lambda row: f"{row.n_before} and {row.n_after}"),
)

COSTS: Table[Mapping[str, Any]] = Table.of(
    Column("look", lambda row: "start" if not row["look"] else str(row["look"]), value=lambda row: row["look"]),
    Column("day", lambda row: row["day"]),
    Column("calls", lambda row: f"{row['calls']:,}", value=lambda row: row["calls"]),
    Column("no answer", lambda row: f"{row['lost']:,}", value=lambda row: row["lost"]),
    Column("dollars", lambda row: money_text(row["usd"]), value=lambda row: row["usd"]),
)
_LAST_LOOKS = 12


def watch_page(
    axes: Sequence[AxisWatch],
    *,
    title: str,
    verdict: Verdict,
    looks: Sequence[Mapping[str, Any]],
    changed: Sequence[ChangedCall],
    facts: Mapping[str, str],
    notes: Sequence[str] = (),
    figures: Sequence[Drawing] = (),
) -> Page:
    """Return the verdict, the axes, the calls with other answers, and what each look cost."""
    cost = COSTS(looks[-_LAST_LOOKS:], more=f"The newest {_LAST_LOOKS}." if len(looks) > _LAST_LOOKS else "")
    return Page(
        title=title,
        lead=verdict.sentences[0],
        sentences=verdict.sentences[1:],
        notes=notes,
        facts=facts,
        sections=[
            Section(heading="Axes", blocks=[AXES(axes), _HOW]),
            Section(heading="Figures", blocks=[figures], media=("html",)),
            *(
                Section(heading="Calls with another answer", blocks=[_first(changed, most)], media=(medium,))
                for medium, most in _MOST_CALLS.items()
            ),
            Section(heading="Looks", blocks=[cost]),
        ],
    )


def _first(changed: Sequence[ChangedCall], most: int) -> FilledTable[Any]:
    return CALLS(changed[:most], more=f"The first {most} of {len(changed):,}." if len(changed) > most else "")


def watch_points(axes: Sequence[AxisWatch], look: Mapping[str, Any]) -> list[keys.Point]:
    """Spell the newest look as metrics whose step is the look; the limits are beside them, as lines of the chart.

    Example:
        >>> look = {"look": 3, "calls": 56, "lost": 0, "usd": 0.01}
        >>> [(point.key, point.step) for point in watch_points([], look)]
        [('watch/calls', 3), ('watch/lost', 3), ('watch/usd', 3)]
    """
    values: dict[str, float | None] = {f"watch/{name}": look[name] for name in ("calls", "lost", "usd")}
    for axis in axes:
        values |= {f"watch/{axis.axis}/mean": axis.means[look["look"]] if axis.means else None}
        if axis.log_e:
            # An e-value runs over many powers of ten, and charts of MLflow have no logarithmic scale by themselves.
            tens = [value / math.log(10) for value in (axis.log_e[-1], axis.threshold)]
            own = {"log10_e": tens[0], "log10_limit": tens[1]} | {
                "change": axis.change,
                "ci_low": axis.low,
                "ci_high": axis.high,
                "detectable": axis.detectable,
            }
            values |= {f"watch/{axis.axis}/{name}": value for name, value in own.items()}
    points = keys.known_points(values)
    return [keys.Point(key=point.key, value=point.value, step=int(look["look"])) for point in points]


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
