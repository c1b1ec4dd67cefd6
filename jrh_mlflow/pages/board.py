"""`/jrh/`: the leaderboard of judges by suite, and a tab for every kind of run; the store sorts, filters and pages.

    GET /?kind=sweep&suite=SHA256&judge=…&gate=passed&answers=model&experiment=ID&state=deleted&sort=-cost
         &columns=all&after=TOKEN&after=TOKEN&run=ID&run=ID

All are optional. `after` is the way to a page: the tokens of all pages before it, so that one leads back. `run` are
runs that are ticked, wherever in the list they stand.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from jrh_mlflow.measures.axes import find, headline_axes
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.show.html import Addresses, render_page, render_part
from jrh_mlflow.show.names import axis_meaning, axis_name
from jrh_mlflow.show.numbers import at_least_text
from jrh_mlflow.show.run_overview import KINDS
from jrh_mlflow.show.tables import Cell, Column, FilledTable, Table, Whisker
from jrh_mlflow.tracking.runs.leaderboard import (
    ANSWERS,
    ANY_KIND,
    GATES,
    STATES,
    ListedRun,
    RunList,
    RunQuery,
    TagReading,
    run_list,
)

if TYPE_CHECKING:
    from markupsafe import Markup
    from starlette.datastructures import QueryParams

MOST_COLUMNS = 6
"""Readings beside one another; an address asks for all."""
_ADDRESSES = Addresses("")
_SORTS = re.compile("[A-Za-z0-9_][A-Za-z0-9_. :/-]{0,200}")
_TOKEN = re.compile("[A-Za-z0-9+/=_-]{1,400}")
_RUN_ID = re.compile("[0-9a-f]{32}")
_MOST_TOKENS, _MOST_TICKED = 100, 100
_RISING_FIRST = ("judge", "name", "cost", "gate")
_AGES = {"year": 365 * 86_400, "month": 30 * 86_400, "day": 86_400, "hour": 3_600, "minute": 60}
_WIDTH, _HEIGHT, _EDGE = 84, 22, 3


def board_page(store: str, query: QueryParams, *, review: str) -> str:
    """Render the page of runs that an address asks for.

    Raises:
        RecipeError: for an experiment or a page that is not there.
        TrackingError: when MLflow cannot be reached.
    """
    place = BoardPlace.of(query)
    found = run_list(store, place.query)
    listed = {row.run.run_id for row in found.rows}
    return render_page(
        "board.html",
        addresses=_ADDRESSES,
        review=review,
        place=place,
        query=place.query,
        kinds={**KINDS, ANY_KIND: "any kind"},
        groups=_groups(place, found),
        found=found,
        is_evaluations=place.query.kind == "evaluate",
        choices=_choices(place, found),
        elsewhere=[run_id for run_id in place.ticked if run_id not in listed],
    )


# The address


@dataclass(frozen=True, kw_only=True, slots=True)
class BoardPlace:
    """What an address of the list says; every link of the page is such an address with something changed."""

    query: RunQuery
    tokens: tuple[str, ...] = ()
    """Of the pages up to this one."""
    ticked: tuple[str, ...] = ()
    all_columns: bool = False
    review_token: str = ""
    """What the visitor's own link has, for the link to the review."""

    @classmethod
    def of(cls, query: QueryParams) -> BoardPlace:
        """Read an address; what it says that cannot be is left out."""

        def known(name: str, values: Any, default: str = "") -> str:
            given = query.get(name, "")
            return given if given in values else default

        sort = query.get("sort", "").removeprefix("-")
        tokens = tuple(token for token in query.getlist("after") if _TOKEN.fullmatch(token))[:_MOST_TOKENS]
        is_sorted = bool(_SORTS.fullmatch(sort))
        asked = RunQuery(
            kind=known("kind", (*KINDS, ANY_KIND), "evaluate"),
            suite=query.get("suite", "")[:200],
            judge=query.get("judge", "")[:200],
            gate=known("gate", GATES),
            answers=known("answers", ANSWERS),
            experiment=query.get("experiment", "")[:40],
            state=known("state", STATES, "finished"),
            sort=sort if is_sorted else "started",
            falling=query["sort"].startswith("-") if is_sorted else True,
            after=tokens[-1] if tokens else None,
        )
        ticked = dict.fromkeys(run_id for run_id in query.getlist("run") if _RUN_ID.fullmatch(run_id))
        return cls(
            query=asked,
            tokens=tokens,
            ticked=tuple(ticked)[:_MOST_TICKED],
            all_columns=query.get("columns") == "all",
            review_token=query.get("token", ""),
        )

    @property
    def page(self) -> int:
        """Its number."""
        return len(self.tokens) + 1

    @property
    def values(self) -> dict[str, str | Sequence[str]]:
        """What stands in its address; what is usual is left out."""
        usual, sort = RunQuery(), f"{'-' if self.query.falling else ''}{self.query.sort}"
        fields = ("kind", "suite", "judge", "gate", "answers", "experiment", "state")
        own = {name: getattr(self.query, name) for name in fields}
        values = {name: value for name, value in own.items() if value != getattr(usual, name)}
        more = {
            "sort": "" if sort == f"-{usual.sort}" else sort,
            "columns": "all" if self.all_columns else "",
            "after": self.tokens,
            "run": self.ticked,
            "token": self.review_token,
        }
        return {**values, **{name: value for name, value in more.items() if value}}

    @property
    def address(self) -> str:
        """Return it as a link of the page itself."""
        return f"./?{urlencode(self.values, doseq=True)}" if self.values else "./"

    def narrowed(self, **changes: Any) -> BoardPlace:
        """Return the first page of another question."""
        return replace(self, query=replace(self.query, after=None, **changes), tokens=())

    def kind(self, kind: str) -> BoardPlace:
        """Return the tab of a kind of runs: nothing but the experiment is asked of all kinds."""
        return replace(self, query=RunQuery(kind=kind, experiment=self.query.experiment), tokens=(), all_columns=False)

    def turned(self, token: str | None) -> BoardPlace:
        """Return the next page by its token, or the one before this by None."""
        return replace(self, tokens=(*self.tokens, token) if token else self.tokens[:-1])

    def sorted_by(self, key: str) -> BoardPlace:
        """Return the list by a column: the good end first, and the other way round where it is sorted so already."""
        axis = find(key)
        rising = key in _RISING_FIRST or (axis is not None and axis.direction != "higher")
        falling = not self.query.falling if key == self.query.sort else not rising
        return self.narrowed(sort=key, falling=falling)

    @property
    def everything(self) -> BoardPlace:
        """Return the list with all columns."""
        return replace(self, all_columns=True)

    def hidden(self, *without: str) -> list[tuple[str, str]]:
        """Return what a form carries on unseen."""
        values = {name: value for name, value in self.values.items() if name not in without}
        return [(name, one) for name, some in values.items() for one in ([some] if isinstance(some, str) else some)]


def _choices(place: BoardPlace, found: RunList) -> dict[str, dict[str, str]]:
    """Return what each list of the form offers: value to words; the first is the usual one."""
    choices = {
        "gate": {"": "any", **{gate: gate for gate in GATES}},
        "answers": {"": "anybody", "model": "a model", "simulated": "simulated", "recorded": "recorded earlier"},
    }
    shared = {
        "experiment": {"": "all experiments", **found.experiments},
        "state": {state: state for state in STATES},
    }
    return {**(choices if place.query.kind == "evaluate" else {}), **shared}


# Tables


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteTable:
    """A table of the page with its heading."""

    heading: str
    sha256: str
    table: FilledTable[ListedRun]
    n_columns: int
    """Readings that its runs have, shown or not."""


def _groups(place: BoardPlace, found: RunList) -> list[SuiteTable]:
    """Return a table for each suite, or one of runs of another kind."""
    if place.query.kind != "evaluate":
        table = Table.of(_run_column(place), *_common_columns(place, found.rows))(found.rows, style="board")
        return [SuiteTable(heading="", sha256="", table=table, n_columns=0)] if found.rows else []
    groups = []
    for (name, sha256), part in groupby(found.rows, key=lambda row: (row.run.suite, row.run.sha256)):
        rows = list(part)
        axes = _axes(rows)
        shown = axes if place.all_columns else _few(axes, place.query.sort)
        table = Table.of(
            _judge_column(place, rows),
            *(_reading_column(place, axis) for axis in shown),
            *_trend_columns(place, rows, shown),
            *_common_columns(place, rows),
        )(rows, style="board")
        groups.append(SuiteTable(heading=name or "no suite", sha256=sha256, table=table, n_columns=len(axes)))
    return groups


def _axes(rows: Sequence[ListedRun]) -> list[str]:
    """Return the axes of which some run has a reading: the mean of all tests, headline axes as declared, then tests."""
    first = [metric_keys.RELIABILITY_MEAN, *headline_axes()]
    occurring = dict.fromkeys(axis for row in rows for axis in row.readings)
    return [*(axis for axis in first if axis in occurring), *(axis for axis in occurring if axis not in first)]


def _few(axes: Sequence[str], sort: str) -> list[str]:
    few = list(axes[:MOST_COLUMNS])
    return [*few[:-1], sort] if sort in axes and sort not in few else few


def _head(place: BoardPlace, key: str, head: str, **options: Any) -> dict[str, Any]:
    """Return the head of a column that the list can be sorted by."""
    arrow = ("", " ↓" if place.query.falling else " ↑")[key == place.query.sort]
    return {"head": head, "page_head": f"{head}{arrow}", "address": place.sorted_by(key).address, **options}


def _reading_column(place: BoardPlace, axis: str) -> Column[ListedRun]:
    def cell(row: ListedRun) -> Cell:
        reading = row.readings.get(axis)
        if reading is None:
            return Cell("–", tone="missing")
        behind = f"{axis_name(axis)} of {row.run.judge}: {reading.text}, the calls behind it"
        return Cell(
            reading.text,
            below=(reading.ends,) if reading.ends else (),
            whisker=_whisker(axis, reading),
            hover=behind,
            links=((reading.text, _ADDRESSES.calls(row.run.run_id, axis=axis)),),
        )

    return Column(text=cell, meaning=axis_meaning(axis), **_head(place, axis, axis_name(axis)))


def _is_signed(axis: str) -> bool:
    declared = find(axis)
    return declared is not None and declared.direction is None


def _share(axis: str, value: float) -> float:
    """Return where a number lies between the ends of its scale: of a lean these are -1 and 1."""
    return min(1.0, max(0.0, (value + 1) / 2 if _is_signed(axis) else value))


def _has_scale(axis: str) -> bool:
    declared = find(axis)
    return not axis.endswith("/mae") and (declared is None or declared.unit != "curve")


def _whisker(axis: str, reading: TagReading) -> Whisker | None:
    if reading.low is None or reading.high is None or not _has_scale(axis):
        return None
    low, high, value = (_share(axis, number) for number in (reading.low, reading.high, reading.value))
    return Whisker(low=low, high=high, value=value)


def _judge_column(place: BoardPlace, rows: Sequence[ListedRun]) -> Column[ListedRun]:
    newest: dict[str, ListedRun] = {}
    for row in sorted(rows, key=lambda row: row.started_ms):
        newest[row.run.judge] = row
    versions = {judge: len({row.fingerprint for row in rows if row.run.judge == judge}) for judge in newest}

    def markup(row: ListedRun) -> Markup:
        return render_part(
            "_listed.html",
            row=row,
            one=row.run,
            ticked=row.run.run_id in place.ticked,
            # Runs of one name may be of judges that differ.
            version=row.fingerprint[:6] if versions[row.run.judge] > 1 else "",
            outdated=row.fingerprint != newest[row.run.judge].fingerprint,
            addresses=_ADDRESSES,
        )

    return Column(text=lambda row: row.run.judge, html=markup, **_head(place, "judge", "judge"))


def _run_column(place: BoardPlace) -> Column[ListedRun]:
    def text(row: ListedRun) -> Cell:
        kind = KINDS.get(row.run.kind, row.run.kind) if place.query.kind == ANY_KIND else ""
        marks = {
            "simulated": row.run.simulated,
            "truncated": row.run.truncated,
            row.run.status.lower(): row.run.status != "FINISHED",
        }
        said = ", ".join(mark for mark, holds in marks.items() if holds)
        return Cell(row.run.name, below=tuple(filter(None, [kind, said])))

    return Column(text=text, link=lambda row: _ADDRESSES.run(row.run.run_id), **_head(place, "name", "run"))


def _common_columns(place: BoardPlace, rows: Sequence[ListedRun]) -> list[Column[ListedRun]]:
    now = time.time()
    columns: list[Column[ListedRun]] = [Column("verdict", lambda row: row.run.verdict, words=True)]
    if any(row.run.gate for row in rows):
        columns.append(Column(text=_gate, **_head(place, "gate", "gate")))
    if place.query.kind != "evaluate" and any(row.run.suite for row in rows):
        columns.append(Column("suite", lambda row: Cell(row.run.suite, below=(row.run.sha256[:8],)), words=True))
    if any(row.cost_usd is not None for row in rows):
        columns.append(Column(text=_cost, **_head(place, "cost", "cost")))

    def began(row: ListedRun) -> Cell:
        return Cell(age(row.started_ms, now), hover=row.run.started)

    # Lists of other runs begin with the name.
    in_mlflow = partial(_in_mlflow, named=place.query.kind == "evaluate")
    return [*columns, Column(text=began, **_head(place, "started", "age")), Column("in MLflow", in_mlflow)]


def _gate(row: ListedRun) -> Cell:
    return Cell(row.run.gate, tone={"passed": "good", "failed": "wrong"}.get(row.run.gate, ""))


def _cost(row: ListedRun) -> Cell:
    return Cell("–", tone="missing") if row.cost_usd is None else Cell(at_least_text(row.cost_usd, row.unknown_costs))


def _in_mlflow(row: ListedRun, *, named: bool) -> Cell:
    run = row.run
    text, below = (run.name, (run.experiment,)) if named else (run.experiment, ())
    links = ((text, _ADDRESSES.mlflow(run.experiment_id, run.run_id)),)
    return Cell(text, links=links, hover=f"{run.name} in MLflow", below=below)


def age(started_ms: float, now: float) -> str:
    """Say how long ago something began, in its largest unit.

    Example:
        >>> age(0, 90), age(0, 86_400 * 3.5), age(0, 20)
        ('1 minute', '3 days', 'just now')
    """
    seconds = now - started_ms / 1000
    for unit, length in _AGES.items():
        if seconds >= length:
            number = int(seconds // length)
            return f"{number} {unit}{'s' if number > 1 else ''}"
    return "just now"


# Trends


def _trend_columns(place: BoardPlace, rows: Sequence[ListedRun], shown: Sequence[str]) -> list[Column[ListedRun]]:
    """Draw how a reading went over the runs of a judge on this page, where one has several; it leads to all of them."""
    if not shown:
        return []
    axis = place.query.sort if place.query.sort in shown else shown[0]
    series: dict[str, list[ListedRun]] = {}
    for row in sorted(rows, key=lambda row: row.started_ms):
        if axis in row.readings:
            series.setdefault(row.run.judge, []).append(row)

    def markup(row: ListedRun) -> Markup | None:
        runs = series.get(row.run.judge, [])
        if len(runs) < 2:
            return None
        values = [run.readings[axis].value for run in runs]
        own = next((number for number, run in enumerate(runs) if run is row), None)
        versions = len({run.fingerprint for run in runs})
        said = f"{axis_name(axis)} over {len(runs)} runs, {versions} version{'s' * (versions > 1)}"
        said = f"{said}: {' → '.join(run.readings[axis].text for run in runs[-8:])}"
        link = place.narrowed(judge=row.run.judge, suite=row.run.sha256, sort="started", falling=True).address
        points = _points(axis, values)
        return render_part("_spark.html", points=points, own=own, said=said, link=link, size=(_WIDTH, _HEIGHT))

    meaning = f"{axis_name(axis)} of a judge over its runs on this page, oldest first."
    column: Column[ListedRun] = Column("trend", lambda _: "", html=markup, meaning=meaning)
    return [column] if any(len(runs) > 1 for runs in series.values()) else []


def _points(axis: str, values: Sequence[float]) -> list[tuple[float, float]]:
    """Lay numbers out from left to right, on the whole scale where they have one."""
    if _has_scale(axis):
        shares = [_share(axis, value) for value in values]
    else:
        low, high = min(values), max(values)
        shares = [(value - low) / (high - low) if high > low else 0.5 for value in values]
    across, up = _WIDTH - 2 * _EDGE, _HEIGHT - 2 * _EDGE
    last = max(1, len(values) - 1)
    return [
        (round(_EDGE + across * at / last, 1), round(_EDGE + up * (1 - share), 1)) for at, share in enumerate(shares)
    ]
