"""`jrh.plan`: how many tasks, items and calls a wanted interval or difference needs, before anything is paid."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jrh_mlflow.engine.budget import judge_price
from jrh_mlflow.engine.calls import call_columns
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.records import halves_marked, normalise
from jrh_mlflow.measures.unit_scores import AxisUnits, axis_units, every_axis_units
from jrh_mlflow.measuring.resolve import load_suite, prepare, resolve_judge
from jrh_mlflow.models.prices import cost_micro
from jrh_mlflow.people.label_plan import LabelPlan, plan_labels
from jrh_mlflow.scoring.ledger import FEW_CLUSTERS
from jrh_mlflow.show.cards import Card
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import money_text
from jrh_mlflow.show.page import Page, Section
from jrh_mlflow.show.tables import Column, FilledTable, Table, field_column
from jrh_mlflow.stats import power as sizing
from jrh_mlflow.stats.power import POWER, Layout, Spread
from jrh_mlflow.suites.datasheet import PAPER_TASKS
from jrh_mlflow.suites.more_tasks import more_tasks_text
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.suites.tasks import built_in_tasks
from jrh_mlflow.text import brief_name, two_places
from jrh_mlflow.tracking.runs.keys import PARAM_MODEL
from jrh_mlflow.tracking.runs.read import load_runs

if TYPE_CHECKING:
    import pandas as pd

    from jrh_mlflow.judges import Judge
    from jrh_mlflow.models.prices import Overrides

RATE, ICC, REPEAT = 0.5, 0.3, 0.5
"""Assumed where neither a pilot nor the caller says: the rate of the widest interval, and what real judges showed."""
SECONDS_PER_CALL = 2.0
"""Assumed of a model where no pilot tells."""
_JUDGES = (3, 4, 6)
"""How many judges a comparison may have, beside two."""
_FEWEST_SHARED = 3
"""Tasks in common under which two pilots tell nothing of how they differ."""


_NO_PRICE = "no price is known; give one with `prices` (--price IN,OUT)"
_SPREAD = {
    "rate": "rate",
    "icc": "ICC (answers within a task)",
    "repeat": "repeat (answers to one presentation)",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCost:
    """What asking one model costs."""

    model: str
    usd: float | None
    """Of the calls of the axis; None when the price is unknown."""
    minutes: float
    suite_usd: float | None
    """Of all calls of the suite at this many tasks."""
    suite_minutes: float
    basis: str
    """Where the dollars come from, or why there are none."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The size of a suite that shows what is wanted of one axis, and what asking it costs."""

    axis: str
    suite: str
    """Names the design: what is asked of each task."""
    width: float | None
    """Wanted width of the clustered 95 % interval."""
    difference: float | None
    """Wanted difference of two judges."""
    power: float
    """Chance with which a difference, or a limit `detectable` away, is found."""
    tasks: int
    items: int
    """Of the axis."""
    replicates: int
    calls: int
    """Of the axis, by each judge."""
    suite_items: int
    """Of the whole suite at this many tasks."""
    suite_calls: int
    expected: float
    """Mean width of the interval, or chance to tell the judges apart, at this many tasks."""
    detectable: float
    """Smallest distance of a limit from the truth that is decided, or difference that is found, with `power`."""
    spread: Spread
    """How answers vary."""
    basis: Mapping[str, str]
    """Where rate, ICC and repeat come from."""
    available: int | None
    """Tasks that there are for this design; None where that is not known."""
    several: Mapping[int, int]
    """Judges to the tasks that tell one pair of so many apart by this difference, at most."""
    notes: tuple[str, ...]
    """What a reader must know, one sentence or two each."""
    costs: tuple[ModelCost, ...] = ()

    @property
    def usd(self) -> float | None:
        """Dollars of the axis's calls by all models together; None without a model, or with one of unknown price."""
        return _total([cost.usd for cost in self.costs])

    @property
    def minutes(self) -> float | None:
        """Minutes of the axis's calls by all models, one after the other; None without a model."""
        return _total([cost.minutes for cost in self.costs])

    @cached_property
    def models(self) -> pd.DataFrame:
        """One row per model: dollars and minutes of the axis's calls, and of the whole suite."""
        return MODELS(self.costs).to_frame()

    @property
    def title(self) -> str:
        """Say what is wanted."""
        if self.width is not None:
            return f"How many calls: {axis_name(self.axis)}, interval {self.width:g} wide"
        return f"How many calls: {axis_name(self.axis)}, two judges {self.difference:g} apart"

    @property
    def headline(self) -> str:
        """Say how much that is."""
        by_each = " by each judge" if self.width is None else ""
        calls = f"{self.calls:,} calls{by_each}" + (f" ({self.replicates} replicates)" if self.replicates > 1 else "")
        return f"{self.tasks:,} tasks: {self.items:,} items, {calls}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        plain = ("axis", "suite", "width", "difference", "power", "tasks", "items", "replicates", "calls")
        more = ("suite_items", "suite_calls", "usd", "minutes", "expected", "detectable", "available")
        return {
            **{name: getattr(self, name) for name in (*plain, *more)},
            "spread": {**asdict(self.spread), "basis": dict(self.basis)},
            "several_judges": {str(judges): tasks for judges, tasks in self.several.items()},
            "models": [asdict(cost) for cost in self.costs],
            "notes": list(self.notes),
        }

    @property
    def page(self) -> Page:
        """What people see of it: the size, the spread behind it, dollars and minutes per model, what to know."""
        return Page(
            title=self.title,
            lead=self.headline,
            sections=[
                Section(heading="How much", blocks=[self._sizes]),
                Section(heading="What it costs", blocks=[MODELS(self.costs)]),
            ],
            notes=self.notes,
        )

    @property
    def _sizes(self) -> FilledTable[tuple[str, str, str]]:
        """How much is asked, of the axis and of the whole suite, and what it shows."""
        chance = f"{self.power:.0%}"
        if self.width is None:
            expected, detectable = "chance to find it", f"difference found in {chance}"
        else:
            expected, detectable = "expected width", f"distance of a limit decided with a chance of {chance}"
        columns: Table[tuple[str, str, str]] = Table.of(
            Column("size", lambda row: row[0]),
            Column("this axis", lambda row: row[1]),
            Column(f"whole suite ({self.suite})", lambda row: row[2]),
        )
        return columns(
            [
                ("tasks", f"{self.tasks:,}", f"{self.tasks:,}"),
                ("items", f"{self.items:,}", f"{self.suite_items:,}"),
                ("replicates", str(self.replicates), str(self.replicates)),
                ("calls", f"{self.calls:,}", f"{self.suite_calls:,}"),
                (expected, f"{two_places(self.expected)}", ""),
                (detectable, f"{two_places(self.detectable)}", ""),
                *(
                    (label, f"{getattr(self.spread, name):.2f} ({self.basis[name]})", "")
                    for name, label in _SPREAD.items()
                ),
            ]
        )

    def to_markdown(self) -> str:
        """Return the plan as a readable page."""
        return self.page.to_markdown()

    def __repr__(self) -> str:
        cost = "" if self.usd is None else f", ${self.usd:.2f}"
        return f"Plan({self.title.partition(': ')[2]}: {self.headline}{cost})"

    def _repr_html_(self) -> str:
        tables = (self._sizes, MODELS(self.costs))
        return Card(title=self.title, facts={}, profile=self.headline, tables=tables, notes=self.notes).to_html()


def plan(
    suite: Suite | str | Path | None = None,
    *,
    axis: str | None = None,
    width: float | None = None,
    difference: float | None = None,
    power: float = POWER,
    pilot: object = None,
    models: str | object | Sequence[object] = (),
    rate: float | None = None,
    icc: float | None = None,
    repeat: float | None = None,
    replicates: int = 1,
    concurrency: int = 32,
    requests_per_minute: float | None = None,
    seconds_per_call: float | None = None,
    prices: Overrides | None = None,
    tracking_uri: str | None = None,
    seed: int = 0,
    labels: bool = False,
    positive: object = None,
    cluster: str | None = None,
) -> Plan | LabelPlan:
    """Say how many tasks, items and calls show what is wanted, and what they cost; nothing is asked or paid.

    Suites of the design are drawn with answers that vary as stated or piloted, and measured as a datasheet measures
    them, until the size is found.

    Args:
        suite: The design, that is what is asked of each task: a suite, its folder, name or `runs:/<id>/suite`; that of
            the pilot when None, and `datasheet` without one.
        axis: A share of the suite: `dark_current`, `target_sensitivity/delta_1`, `label_flip/accuracy`.
        width: Wanted width of the clustered 95 % interval that the datasheet reports.
        difference: Wanted difference of two judges that one sign-flip test over tasks is to find. Give this or `width`.
        power: Chance of finding it.
        pilot: What is known already: an evaluation, its run id, or call records; for a difference also two of them, on
            the same tasks. Rate, ICC and repeat are estimated from it.
        models: Model names, or judges, to price and time.
        rate: Expected share, of the first judge for a difference; the second is towards the middle. Over the pilot's.
        icc: Correlation of the answers to two presentations of one task. Over the pilot's.
        repeat: Of what the task leaves open, the part that repeated answers to one presentation share: 1 for a judge
            that always answers the same. Over the pilot's.
        replicates: How often each presentation is asked.
        concurrency: Most calls in flight, for the minutes.
        requests_per_minute: Of the endpoint, for the minutes.
        seconds_per_call: Of one call, for the minutes; that of the pilot when None.
        prices: Model to dollars per million input and output tokens.
        tracking_uri: MLflow store of the pilot and of the suite; the active one when None.
        seed: Of the draws.
        labels: Count labels of people in place of calls, for a corrected rate of this `width`: a `LabelPlan`, and the
            pilot is then what `jrh.correct` takes, all verdicts and some labels.
        positive: Of a plan for labels: label, or labels, that are a pass, where they are not booleans.
        cluster: Of a plan for labels: column, or tag of traces, with what was sampled together.

    Raises:
        RecipeError: when the wish is impossible, or the axis is none that can be planned or is not in the suite.
    """
    if labels:
        return plan_labels(pilot, width=width, positive=positive, cluster=cluster, tracking_uri=tracking_uri, seed=seed)
    if axis is None:
        raise RecipeError("`axis` must name what is measured: `dark_current`, `label_flip/accuracy`.")
    _check_wish(axis, width, difference, power)
    for name, count in {"replicates": replicates, "concurrency": concurrency}.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise RecipeError(f"`{name}` must be a whole number, 1 or more, but got {count!r}.")
    stated = {"rate": rate, "icc": icc, "repeat": repeat}
    _check_numbers(stated, requests_per_minute=requests_per_minute, seconds_per_call=seconds_per_call)
    pilots = _pilots(pilot, tracking_uri)
    if len(pilots) > (1 if width is not None else 2):
        raise RecipeError(f"A width has one pilot, a difference one or two, but got {len(pilots)}.")
    design = _design(suite, axis, pilots, replicates, tracking_uri)
    spread, basis = _spread(axis, pilots[0] if pilots else None, stated)
    if width is not None:
        size = _size_for_width(width, power, spread, design, seed=seed)
    else:
        assert difference is not None
        second = _spread(axis, pilots[-1], stated)[0] if pilots else spread
        apart = _apart(difference, spread, second)
        size = _size_for_difference(apart, power, design, _paired(axis, pilots), seed=seed)
    pricing = _Pricing(
        pilot=pilots[0] if pilots else None,
        prices=prices,
        concurrency=concurrency,
        requests_per_minute=requests_per_minute,
        seconds_per_call=seconds_per_call,
    )
    items, calls, suite_items, suite_calls = (design.total(name, size.tasks) for name in design.counts)
    costs = tuple(pricing.cost(model, design, size.tasks) for model in _models(models, pricing.pilot))
    return Plan(
        axis=axis,
        suite=design.name,
        width=width,
        difference=difference,
        power=power,
        tasks=size.tasks,
        items=items,
        replicates=replicates,
        calls=calls,
        suite_items=suite_items,
        suite_calls=suite_calls,
        expected=size.expected,
        detectable=size.detectable,
        spread=spread,
        basis=basis,
        available=design.available,
        several=size.several,
        notes=(
            *size.notes,
            *_piloted(axis, pilots, basis, size.tasks),
            *_assumed(basis, pilots),
            *pricing.notes(costs),
            *_asked_notes(costs, calls, suite_calls),
        ),
        costs=costs,
    )


def _check_wish(axis: str, width: float | None, difference: float | None, power: float) -> None:
    if not isinstance(axis, str):
        raise RecipeError(f"`axis` must be a name such as 'dark_current', but got {axis!r}.")
    given = {"width": width, "difference": difference}
    wanted = {name: value for name, value in given.items() if value is not None}
    if len(wanted) != 1:
        what = "both" if wanted else "neither"
        raise RecipeError(f"Give a `width` of the interval or a `difference` of two judges, but got {what}.")
    ((name, value),) = wanted.items()
    # NaN is between no two numbers.
    if not (isinstance(value, int | float) and 0 < value < 1):
        raise RecipeError(f"`0 < {name} < 1` must hold, but got {value!r}: shares lie between 0 and 1.")
    if not (isinstance(power, int | float) and 0.5 <= power < 1):
        raise RecipeError(f"`0.5 <= power < 1` must hold, but got {power!r}; 0.8 is usual.")


def _check_numbers(stated: Mapping[str, float | None], **above_zero: float | None) -> None:
    for name, value in stated.items():
        if value is not None and not (_is_number(value) and 0 <= value <= 1):
            raise RecipeError(f"`0 <= {name} <= 1` must hold, but got {value!r}.")
    for name, value in above_zero.items():
        if value is not None and not (_is_number(value) and 0 < value < math.inf):
            raise RecipeError(f"`{name}` must be a number over 0, but got {value!r}.")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


@dataclass(frozen=True, kw_only=True)
class _Pilot:
    """Calls that were asked already."""

    calls: pd.DataFrame
    suite: Suite | None
    name: str
    model: str | None
    simulated: bool = False
    """Answered by a calibration weight, whose seconds tell nothing of a model's."""

    def units(self, axis: str) -> AxisUnits:
        labels = None if self.suite is None else self.suite.labels
        if (units := every_axis_units(self.calls, labels=labels).get(axis)) is not None:
            return units
        raise RecipeError(
            f"The pilot {brief_name(self.name)} has no calls of {axis!r}, which it was stopped before or never meant "
            f"to ask: leave it out, and state `rate` and `icc`, or name a run that asked them."
        )

    def about(self, items: frozenset[str]) -> pd.DataFrame:
        """Return the calls about some items; all where the suite is another."""
        # Prompts of one axis may be longer than others: its own calls say what it costs.
        own = self.calls[self.calls["suite_item"].isin(items)]
        return self.calls if own.empty else own

    def of_tasks(self, tasks: set[str]) -> _Pilot:
        return replace(self, calls=self.calls[self.calls["task"].isin(tasks)])


def _pilots(pilot: Any, tracking_uri: str | None) -> list[_Pilot]:
    # Records may come as a list too: of mappings or `CallRecord`s, which are no pilot each.
    several = isinstance(pilot, list | tuple) and all(
        isinstance(source, str) or hasattr(source, "calls") or hasattr(source, "columns") for source in pilot
    )
    sources = pilot if several else [] if pilot is None else [pilot]
    return [_pilot(source, tracking_uri) for source in sources]


def _pilot(source: Any, tracking_uri: str | None) -> _Pilot:
    if isinstance(source, str):
        (run,) = load_runs([source], tracking_uri=tracking_uri, purpose="pilots of a plan")
        return _of_run(run.calls, run.suite, run.judge, run.params.get(PARAM_MODEL), run.simulated)
    if hasattr(source, "calls"):
        judge = source.judge
        return _of_run(source.calls, source.suite, judge.label, judge.settings.get("model"), judge.simulated)
    if not isinstance(source, Iterable):
        raise RecipeError(f"`pilot` must be an evaluation, a run id or call records, but got {source!r}.")
    return _Pilot(calls=normalise(source), suite=None, name="pilot", model=None)


def _of_run(calls: pd.DataFrame, suite: Suite, name: str, model: str | None, simulated: bool) -> _Pilot:
    # A run that `until` stopped has pairs of which one order was asked: its calls tell, too.
    return _Pilot(calls=normalise(halves_marked(calls)), suite=suite, name=name, model=model, simulated=simulated)


def _spread(axis: str, pilot: _Pilot | None, stated: Mapping[str, float | None]) -> tuple[Spread, dict[str, str]]:
    """Take what is stated, else what the pilot shows, else what is assumed; and say of each which."""
    assumed = {"rate": RATE, "icc": ICC, "repeat": REPEAT}
    piloted: dict[str, float | None] = {}
    if pilot is not None:
        units = pilot.units(axis)
        known = np.isfinite(units.score)
        if not known.any():
            raise RecipeError(f"The pilot has no usable answer on {axis!r}: leave it out, and state `rate` and `icc`.")
        shown = sizing.estimated_spread(units.score[known], units.task[known], units.presentation[known])
        piloted = dict(zip(assumed, shown, strict=True))
    values, basis = {}, {}
    for name, default in assumed.items():
        for source, value in (("stated", stated[name]), ("pilot", piloted.get(name)), ("assumed", default)):
            if value is not None:
                values[name], basis[name] = float(value), source
                break
    return Spread(**values), basis


def _paired(axis: str, pilots: Sequence[_Pilot]) -> float:
    """How much the differences of two pilots vary, over those of unrelated judges; 1 unless there are two."""
    if len(pilots) < 2:
        return 1.0
    tasks = set.intersection(*(set(pilot.calls["task"]) for pilot in pilots))
    if len(tasks) < _FEWEST_SHARED:
        raise RecipeError(f"The two pilots share {len(tasks)} tasks: measure both on the same suite, or give one.")
    counts = []
    for pilot in pilots:
        units = pilot.of_tasks(tasks).units(axis)
        known = np.isfinite(units.score)
        own = units.task[known]
        counts += [np.bincount(own, weights=units.score[known], minlength=units.n_tasks).astype(float)]
        counts += [np.bincount(own, minlength=units.n_tasks).astype(float)]
    return sizing.shared_spread(*counts)


@dataclass(frozen=True, kw_only=True)
class _Design:
    """What is asked of each task, read off a suite or off records."""

    name: str
    axis: str
    layout: Layout
    """Of the axis."""
    axis_items: frozenset[str]
    counts: Mapping[str, Sequence[int]]
    """Items and calls of each task, of the axis and of the whole suite."""
    available: int | None
    suite: Suite | None
    replicates: int

    def total(self, name: str, tasks: int | None = None) -> int:
        """Count what so many tasks have, those that there are taken again and again in turn; once when None."""
        counts = self.counts[name]
        # Tasks beyond those that there are look like the present ones.
        turns, rest = divmod(len(counts) if tasks is None else tasks, len(counts))
        return turns * sum(counts) + sum(counts[:rest])


def _design(
    suite: Suite | str | Path | None,
    axis: str,
    pilots: Sequence[_Pilot],
    replicates: int,
    tracking_uri: str | None,
) -> _Design:
    if suite is None and pilots:
        suite = pilots[0].suite
    elif not isinstance(suite, Suite):
        suite = load_suite("datasheet" if suite is None else suite, tracking_uri=tracking_uri)
    calls = pilots[0].calls if suite is None else normalise(suite_calls(suite))
    source = "The pilot" if suite is None else "The suite"
    units = axis_units(calls, axis, labels=None if suite is None else suite.labels, source=source)
    tasks = list(dict.fromkeys(calls["task"]))
    own = calls[calls["suite_item"].isin(units.items)]
    counts = {
        "axis_items": own.groupby("task")["suite_item"].nunique(),
        "axis_calls": replicates * own.groupby("task").size(),
        "items": calls.groupby("task")["suite_item"].nunique(),
        "calls": replicates * calls.groupby("task").size(),
    }
    return _Design(
        name="pilot" if suite is None else suite.name,
        axis=axis,
        layout=_layout(units, tasks).repeated(replicates),
        axis_items=units.items,
        counts={name: column.reindex(tasks, fill_value=0).astype(int).tolist() for name, column in counts.items()},
        available=None if suite is None else _available(suite, len(tasks)),
        suite=suite,
        replicates=replicates,
    )


def _layout(units: AxisUnits, tasks: Sequence[str]) -> Layout:
    """Read the layout in the order of the suite, in which its first tasks are a smaller suite of the same design."""
    # Units code tasks by sorted name: the rank of a task is its code.
    places = np.argsort(np.argsort(tasks))
    return Layout.of(units.task, units.presentation, n_tasks=len(tasks)).ordered(places)


def axis_layout(suite: Suite, axis: str) -> Layout:
    """Return what a suite asks of each of its tasks on an axis."""
    calls = normalise(suite_calls(suite))
    return _layout(axis_units(calls, axis, labels=suite.labels), list(dict.fromkeys(calls["task"])))


def suite_calls(suite: Suite) -> list[dict[str, Any]]:
    """Return the records that a judge would give that always says tie, or the expected answer: their shape counts."""
    return [
        {
            **call_columns(item, order, replicate),
            "outcome": "tie" if item.kind == "pair" else "verdict",
            "answer": "" if item.kind == "pair" else item.expected or (item.answers or ("yes",))[0],
        }
        for item in suite.items
        for replicate in range(item.replicates)
        for order in item.orders
    ]


def _available(suite: Suite, n_tasks: int) -> int:
    """Count the tasks that a suite of this design can have without anybody writing new ones."""
    if suite.origin.get("builder") != "datasheet" or suite.origin.get("tasks") != "built-in":
        return n_tasks
    return len(PAPER_TASKS) if suite.origin.get("design") == "paper" else len(built_in_tasks())


@dataclass(frozen=True, kw_only=True)
class _Needed:
    """What was found to be enough."""

    tasks: int
    expected: float
    detectable: float
    notes: list[str]
    several: Mapping[int, int]


def _piloted(axis: str, pilots: Sequence[_Pilot], basis: Mapping[str, str], tasks: int) -> list[str]:
    """Say how well the pilot knows how many tasks it takes."""
    if not pilots or "pilot" not in (basis["rate"], basis["icc"]):
        return []
    units = pilots[0].units(axis)
    n = len(np.unique(units.task[np.isfinite(units.score)]))
    ends = sizing.tasks_by_pilot(tasks, n)
    known = (
        "one task tells nothing of the spread between tasks" if ends is None else f"{ends[0]:,} to {ends[1]:,} (95 %)"
    )
    return [f"The {tasks:,} tasks rest on how {n:,} tasks of the pilot vary: {known}."]


def _size_for_width(width: float, power: float, spread: Spread, design: _Design, *, seed: int) -> _Needed:
    layout = design.layout
    tasks = sizing.tasks_for_width(width, spread, layout, seed=seed)
    expected, more = (sizing.expected_interval(spread, layout, n, seed=seed) for n in (tasks, 2 * tasks))
    again = sizing.expected_interval(spread, layout.repeated(2), tasks, seed=seed)
    notes = [
        f"{two_places(expected.width)} is the mean over suites like this; one in ten has an interval wider than "
        f"{two_places(expected.wide)}."
    ]
    if expected.width < 0.9 * width:
        fewest = f"{sizing.FEWEST_FOR_WIDTH} tasks are the fewest for which it is known how often the interval"
        notes.append(f"{fewest} holds the truth; with them it is {expected.width:.2f} wide.")
    if design.available is not None and tasks > design.available:
        reached = sizing.expected_interval(spread, layout, design.available, seed=seed).width
        notes.append(_too_few(tasks, design, f"give an interval {reached:.2f} wide"))
    notes.append(
        f"Asking everything twice would make it {two_places(again.width)} wide; twice as many tasks, for as many "
        f"calls, {two_places(more.width)}."
    )
    notes += _few(layout.n_with_units(tasks))
    return _Needed(
        tasks=tasks,
        expected=expected.width,
        detectable=sizing.detectable_from_interval(0.0, 0.0, expected.arm, power=power),
        notes=notes,
        several={},
    )


def _size_for_difference(
    apart: tuple[Spread, Spread], power: float, design: _Design, paired: float, *, seed: int
) -> _Needed:
    (a, b), layout = apart, design.layout
    unpaired = sizing.tasks_for_difference(a, b, layout, power=power, seed=seed)
    # Differences that vary half as much need half the tasks.
    tasks = max(sizing.FEWEST_TO_TELL_APART, math.ceil(paired * unpaired))

    @cache
    def chance(n_tasks: int, shown: Layout = layout, *, limited: bool = True) -> float:
        # Draws are of unrelated judges, whose differences vary more: it takes more of their tasks.
        drawn = max(sizing.FEWEST_TO_TELL_APART, round(n_tasks / paired))
        # Too many to draw: the scaled number is trusted, and ends the search.
        if drawn > sizing.MOST_DRAWN:
            return power
        return sizing.simulated_power(a, b, shown, drawn, limited=limited, seed=seed)

    # The scaled number is a beginning: the test itself is simulated until it has the power.
    while chance(tasks) < power:
        tasks += max(1, tasks // 40)
    notes = []
    if design.available is not None and tasks > design.available:
        notes.append(_too_few(tasks, design, f"find it with a chance of {chance(design.available):.0%}"))
    if tasks <= sizing.MOST_DRAWN // 2:
        # Without `share_limit`, which is slow: the two are only seen side by side.
        twice, more = chance(tasks, layout.repeated(2), limited=False), chance(2 * tasks, limited=False)
        notes.append(
            f"Asking everything twice would find it with a chance of {twice:.0%}; twice as many tasks, for as many "
            f"calls, {more:.0%}."
        )
    # Every two of n judges are a comparison that the decision is adjusted for.
    several = {n: math.ceil(tasks * sizing.family_factor(n * (n - 1) // 2, power=power)) for n in _JUDGES}
    needed = ", ".join(f"{n} judges {count:,}" for n, count in several.items())
    notes.append(
        f"That is for one test: two judges on this axis alone (`jrh compare --primary {design.axis}`). With more "
        f"judges at most about so many tasks are needed: {needed}."
    )
    notes += _few(layout.n_with_units(tasks))
    return _Needed(tasks=tasks, expected=chance(tasks), detectable=abs(b.rate - a.rate), notes=notes, several=several)


def _apart(difference: float, first: Spread, second: Spread) -> tuple[Spread, Spread]:
    """Put the second judge so far from the first, towards the middle, where answers vary most."""
    # From the first judge's rate the second moves to where answers vary more: the safe side.
    rate = first.rate
    other = rate + difference if rate <= 0.5 else rate - difference
    if not 0 <= other <= 1:
        # From the middle there is no room for more than a half: the two stand around it.
        rate, other = (1 - difference) / 2, (1 + difference) / 2
    return replace(first, rate=rate), replace(second, rate=other)


def _too_few(tasks: int, design: _Design, reached: str) -> str:
    more = "add tasks to it: other sources, pairs or rows"
    if design.suite is not None:
        more = more_tasks_text(tasks - (design.available or 0), design.suite)
    needed = f"{tasks:,} tasks are needed, but {design.name} can have {design.available:,}, which {reached}"
    return f"{needed}. {more[0].upper()}{more[1:]}."


def _few(n_clusters: int) -> list[str]:
    few = f"Few tasks ({n_clusters}): the plan is as uncertain as the spread that it assumes."
    return [few] if n_clusters < FEW_CLUSTERS else []


def _assumed(basis: Mapping[str, str], pilots: Sequence[_Pilot]) -> list[str]:
    names = [name for name, source in basis.items() if source == "assumed"]
    if not names:
        return []
    stated = " and ".join(f"`{name}`" for name in names)
    better = f"State {stated} where you know better." if pilots else f"A pilot tells, or state {stated}."
    return [f"Assumed, for want of a pilot that tells: {', '.join(names)}. {better}"]


def _asked_notes(costs: Sequence[ModelCost], calls: int, suite_calls: int) -> list[str]:
    notes = []
    if suite_calls > calls:
        notes.append(
            f"The whole suite at this many tasks is {suite_calls:,} calls; {calls:,} of them are of this axis."
        )
    unknown = [cost for cost in costs if cost.usd is None]
    return [*notes, *(f"The dollars of {cost.model} are unknown, which is not 0: {cost.basis}." for cost in unknown)]


def _models(models: Any, pilot: _Pilot | None) -> list[Any]:
    """Return what is to be priced: the models named, or the pilot's own judge (None)."""
    named = list(models) if isinstance(models, list | tuple) else [] if models is None else [models]
    return named or ([] if pilot is None else [None])


@dataclass(frozen=True, kw_only=True)
class _Pricing:
    """How models are asked, and what a pilot tells of what that costs."""

    pilot: _Pilot | None
    prices: Overrides | None
    concurrency: int
    requests_per_minute: float | None
    seconds_per_call: float | None

    def cost(self, model: Any, design: _Design, tasks: int) -> ModelCost:
        judge = None if model is None else resolve_judge(model)
        named = self.pilot if judge is None else judge
        name = model if isinstance(model, str) else "" if named is None else named.name
        both, basis = self._usd_per_call(judge, design)
        calls = [design.total(name, tasks) for name in ("axis_calls", "calls")]
        usd = [None if dollars is None else dollars * n for dollars, n in zip(both, calls, strict=True)]
        minutes = [self._minutes(n, getattr(judge, "model", None)) for n in calls]
        return ModelCost(
            model=name, usd=usd[0], minutes=minutes[0], suite_usd=usd[1], suite_minutes=minutes[1], basis=basis
        )

    def notes(self, costs: Sequence[ModelCost]) -> list[str]:
        """Say that a simulated pilot tells nothing of minutes."""
        if not costs or self.pilot is None or not self.pilot.simulated or self.seconds_per_call:
            return []
        return [
            f"The pilot is simulated and tells no seconds: minutes are at {SECONDS_PER_CALL:g} s per call. "
            "`seconds_per_call` says better."
        ]

    def _usd_per_call(self, judge: Judge | None, design: _Design) -> tuple[list[float | None], str]:
        """Return the dollars of a call of the axis and of any call, and where they come from."""
        parts = [] if self.pilot is None else [self.pilot.about(design.axis_items), self.pilot.calls]
        if judge is None:
            known = [_mean(part, "cost_usd") for part in parts]
            return known, "what the pilot cost" if None not in known else "the pilot's calls have no known cost"
        tokens = [(_mean(part, "input_tokens"), _mean(part, "output_tokens")) for part in parts]
        if tokens and not any(None in pair for pair in tokens):
            price = judge_price(judge, self.prices)
            if price is None:
                return [None, None], _NO_PRICE
            micro = [cost_micro(price, math.ceil(given or 0), math.ceil(made or 0)) for given, made in tokens]
            return [amount / 1_000_000 for amount in micro], "tokens of the pilot"
        return self._quoted(judge, design)

    def _quoted(self, judge: Judge, design: _Design) -> tuple[list[float | None], str]:
        if design.suite is None or not design.suite.has_texts:
            return [None, None], "there are no texts whose tokens could be counted"
        prepared = prepare(judge, design.suite, replicates=design.replicates, prices=self.prices)
        own = [call for call in prepared.plan() if call.item.id in design.axis_items]
        # A plan is of new calls: answers in the journal make none of them cheaper.
        quotes = [prepared.quote(own, afresh=True), prepared.quote(afresh=True)]
        usd = [
            None if quote.usd is None else quote.usd / design.total(name)
            for quote, name in zip(quotes, ("axis_calls", "calls"), strict=True)
        ]
        return usd, "size of the prompts" if None not in usd else _NO_PRICE

    def _minutes(self, calls: int, model: str | None) -> float:
        seconds = self.seconds_per_call or self._piloted_seconds(model) or SECONDS_PER_CALL
        by_limit = calls / self.requests_per_minute if self.requests_per_minute else 0.0
        return max(calls * seconds / self.concurrency / 60, by_limit)

    def _piloted_seconds(self, model: str | None) -> float | None:
        """Return the seconds of the pilot's calls, if they were asked of this model and not taken from the journal."""
        if self.pilot is None or self.pilot.simulated or (model is not None and model != self.pilot.model):
            return None
        calls = self.pilot.calls
        return _mean(calls[~calls["cached"].astype(bool)] if "cached" in calls else calls, "latency_s")


def _mean(calls: pd.DataFrame, column: str) -> float | None:
    """Return the mean of a column; None where a cell of it is unknown."""
    if column not in calls or calls.empty or calls[column].isna().any():
        return None
    return float(calls[column].mean())


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if known and len(known) == len(values) else None


def _minutes_text(minutes: float) -> str:
    """Write minutes, short times to two digits."""
    return f"{minutes:.0f}" if minutes >= 10 else f"{minutes:.2g}"


MODELS: Table[ModelCost] = Table.of(
    field_column("model", str),
    field_column("usd", money_text, head="this axis"),
    field_column("minutes", _minutes_text),
    field_column("suite_usd", money_text, head="whole suite"),
    field_column("suite_minutes", _minutes_text, head="minutes"),
    field_column("basis", str, head="dollars by"),
)
"""Dollars and minutes per model; unknown is a word, never 0."""
