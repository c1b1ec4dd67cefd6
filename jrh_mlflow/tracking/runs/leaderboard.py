"""A page of a store's runs, sorted, filtered and turned by the store itself; readings come from tags, not files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.axes import find
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.show.run_overview import RunSummary
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import experiment_names, summary_of
from jrh_mlflow.tracking.runs.store import reading_client

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

PAGE_SIZE = 100
MOST_EXPERIMENTS = 2000
"""Databases take only so many values in one query."""
MOST_SUITES = 12
"""Suites that are offered: each is found by a search of its own."""
_MOST_USES = 20
"""Evaluations by judges in use, the newest ones, that are looked through for stale judges."""
GATES = ("passed", "failed", "not decided")
ANSWERS = {
    "model": f"tags.`{keys.TAG_SIMULATED}` = 'false'",
    "simulated": f"tags.`{keys.TAG_SIMULATED}` = 'true'",
    "recorded": f"tags.`{keys.TAG_RECORDED}` = 'true'",
}
"""Who answered, and how the store is asked for it."""
STATES = {"finished": "= 'FINISHED'", "unfinished": "!= 'FINISHED'", "deleted": ""}
ANY_KIND = "any"
_SORTED = {
    "started": ("attributes.start_time",),
    "name": ("attributes.run_name",),
    "judge": (f"tags.`{keys.TAG_JUDGE}`",),
    "gate": (f"tags.`{keys.TAG_GATE}`",),
    "cost": (f"metrics.`{metric_keys.COST}`",),
}
_BY_SUITE = (f"params.`{keys.PARAM_SUITE_NAME}` ASC", f"params.`{keys.PARAM_SUITE_SHA256}` ASC")
_NEWEST = ["attributes.start_time DESC"]
_TAG = re.compile(r"(?P<value>(?P<sign>[<>≤] ?)?(?P<number>-?[0-9.]+)[^\[]*?)(?: (?P<ends>\[[^\]]*\]))?")
_NUMBER = re.compile(r"-?[0-9.]+")
_SHA256 = re.compile("[0-9a-f]{64}")
_DIGITS = re.compile("[0-9a-f]{8,64}")
_RUN_ID = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunQuery:
    """What a page of runs is asked for; every text may come from anybody."""

    kind: str = "evaluate"
    """One of our kinds of runs, or `ANY_KIND`."""
    suite: str = ""
    """A part of its name, or its sha256 from the first eight digits on."""
    judge: str = ""
    """A part of the judge's name."""
    gate: str = ""
    """One of `GATES`."""
    answers: str = ""
    """One of `ANSWERS`."""
    experiment: str = ""
    """Its id."""
    state: str = "finished"
    """One of `STATES`."""
    sort: str = "started"
    """One of `_SORTED`, or the key of a headline axis."""
    falling: bool = True
    after: str | None = None
    """MLflow's token of the page; None is the first."""

    @property
    def one_suite(self) -> str:
        """The digits of the suite's sha256, where it is named by them."""
        return self.suite if _DIGITS.fullmatch(self.suite) else ""

    @property
    def by_suite(self) -> bool:
        """Whether runs of one suite stand together: numbers of different suites are not compared."""
        return self.kind == "evaluate" and not self.one_suite

    @property
    def order(self) -> list[str]:
        """How the store sorts: what has no such number comes last."""
        way = "DESC" if self.falling else "ASC"
        # Of an axis MLflow has one of two metrics, by its unit; `reliability/mean` is a metric itself.
        own = [self.sort] if self.sort.startswith(metric_keys.RELIABILITY) else [f"{self.sort}/{n}" for n in _VALUES]
        fields = _SORTED.get(self.sort) or [f"metrics.`{key}`" for key in own]
        return [*(_BY_SUITE if self.by_suite else ()), *(f"{field} {way}" for field in fields)]

    @property
    def condition(self) -> str:
        """How the store filters."""
        status = STATES[self.state]
        # `_` stands for any one character in a pattern
        judge, suite = (re.sub(r"[^\w .:/@+()-]", "_", text) for text in (self.judge, self.suite))
        conditions = [
            f"tags.`{keys.TAG_KIND}` = '{self.kind}'" if self.kind != ANY_KIND else f"tags.`{keys.TAG_KIND}` LIKE '%'",
            f"attributes.status {status}" if status else "",
            f"params.`{keys.PARAM_SUITE_SHA256}` LIKE '{suite}%'" if self.one_suite else "",
            f"params.`{keys.PARAM_SUITE_NAME}` ILIKE '%{suite}%'" if self.suite and not self.one_suite else "",
            f"tags.`{keys.TAG_JUDGE}` ILIKE '%{judge}%'" if self.judge else "",
            f"tags.`{keys.TAG_GATE}` LIKE '{self.gate}%'" if self.gate else "",
            ANSWERS[self.answers] if self.answers else "",
        ]
        return " and ".join(filter(None, conditions))


_VALUES = ("rate", "value")


@dataclass(frozen=True, kw_only=True, slots=True)
class TagReading:
    """A headline reading as a tag of the run tells it: `0.30 [0.16, 0.48]`."""

    text: str
    ends: str
    """The interval; empty of a threshold that lies beyond the steps."""
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedRun:
    """A run of the list."""

    run: RunSummary
    started_ms: int
    fingerprint: str
    """Of the judge: runs of one name with others are of other versions; empty where nothing tells it."""
    readings: Mapping[str, TagReading]
    cost_usd: float | None
    unknown_costs: int
    """Calls whose cost is not in it."""
    stale: bool
    """Whether the judge differs, where it is used, from what this run measured."""
    drift: str
    """What the newest look at the judge came to, where it is watched and has changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunList:
    """A page of runs, and what it can be narrowed to."""

    rows: Sequence[ListedRun]
    following: str | None
    """Token of the next page."""
    suites: Mapping[str, str]
    """sha256 to name, the newest first, `MOST_SUITES` at most."""
    more_suites: bool
    """Whether there are others."""
    experiments: Mapping[str, str]
    left_out: int
    """Experiments that were not looked at, the oldest."""


def run_list(tracking_uri: str, query: RunQuery) -> RunList:
    """Read one page of runs.

    Raises:
        RecipeError: when the address names an experiment or a page that is not there.
        TrackingError: when MLflow cannot be reached.
    """
    with reading_client(tracking_uri) as client:
        experiments = experiment_names(client)
        if query.experiment and query.experiment not in experiments:
            raise RecipeError("There is no such experiment in this store.")
        looked_at = [query.experiment] if query.experiment else list(experiments)[:MOST_EXPERIMENTS]
        found = _search(client, looked_at, query)
        suites = list(_suites(client, looked_at).items()) if query.kind == "evaluate" else []
        stale = _stale_runs(client, looked_at) if query.kind == "evaluate" and found else frozenset[str]()
    # Anybody may log a run: an id becomes a part of addresses.
    runs = [run for run in found if _RUN_ID.fullmatch(run.info.run_id)]
    names = {run_id: experiments[run_id] for run_id in looked_at}
    return RunList(
        rows=[_listed(run, names, stale) for run in runs],
        following=found.token or None,
        suites=dict(suites[:MOST_SUITES]),
        more_suites=len(suites) > MOST_SUITES,
        experiments=experiments,
        left_out=0 if query.experiment else len(experiments) - len(looked_at),
    )


def _search(client: MlflowClient, experiments: Sequence[str], query: RunQuery) -> Any:
    from mlflow.entities import ViewType
    from mlflow.exceptions import MlflowException

    view = ViewType.DELETED_ONLY if query.state == "deleted" else ViewType.ACTIVE_ONLY
    try:
        return client.search_runs(
            list(experiments), query.condition, view, PAGE_SIZE, order_by=query.order, page_token=query.after
        )
    except MlflowException as error:
        if query.after and error.error_code == "INVALID_PARAMETER_VALUE":
            raise RecipeError("This store has no such page of runs: begin at the first page.") from error
        raise


def _suites(client: MlflowClient, experiments: Sequence[str]) -> dict[str, str]:
    """Name the suites of evaluations, and one more than are shown: a search for each, on none of those before."""
    suites: dict[str, str] = {}
    while len(suites) <= MOST_SUITES:
        others = [f"params.`{keys.PARAM_SUITE_SHA256}` != '{sha256}'" for sha256 in ["", *suites]]
        chosen = " and ".join([RunQuery().condition, *others])
        found = client.search_runs(list(experiments), chosen, max_results=1, order_by=_NEWEST)
        summary = summary_of(found[0]) if found else None
        if summary is None or not _SHA256.fullmatch(summary.sha256):
            break
        suites[summary.sha256] = summary.suite
    return suites


def _stale_runs(client: MlflowClient, experiments: Sequence[str]) -> frozenset[str]:
    """Return the runs whose judges the newest evaluations by judges in use found changed."""
    chosen = f"tags.`{keys.TAG_DATASHEETS}` LIKE '%stale%'"
    found = client.search_runs(list(experiments), chosen, max_results=_MOST_USES, order_by=_NEWEST)
    states = (text for run in found for key, text in run.data.tags.items() if key.startswith(keys.STATUS_OF))
    stale = (state for text in states for state in text.split(keys.STATES_APART) if state.startswith("stale"))
    return frozenset(run_id for state in stale for run_id in _RUN_ID.findall(state))


def _listed(run: Run, experiments: Mapping[str, str], stale: frozenset[str]) -> ListedRun:
    summary, tags, metrics = summary_of(run), run.data.tags, run.data.metrics
    own = keys.own_key("")
    readings = {key.removeprefix(own): tag_reading(key.removeprefix(own), text) for key, text in tags.items()}
    return ListedRun(
        run=replace(summary, experiment=experiments.get(summary.experiment_id, "")),
        started_ms=int(run.info.start_time or 0),
        fingerprint=str(tags.get(keys.TAG_FINGERPRINT, "")),
        readings={axis: reading for axis, reading in readings.items() if reading is not None},
        cost_usd=metrics.get(metric_keys.COST),
        unknown_costs=int(metrics.get(metric_keys.UNKNOWN_COSTS, 0)),
        stale=summary.run_id in stale,
        drift=drift if (drift := str(tags.get(keys.TAG_DRIFT, ""))).startswith(keys.CHANGED) else "",
    )


def tag_reading(axis: str, text: str) -> TagReading | None:
    """Read a tag that `tag_text` wrote; None of any other tag.

    Example:
        >>> reading = tag_reading("dark_current", "0.30 [0.16, >0.99]")
        >>> reading.text, reading.value, reading.low, reading.high
        ('0.30', 0.3, 0.16, 0.99)
        >>> tag_reading("schema_version", "1")
    """
    match = _TAG.fullmatch(text)
    declared = find(axis)
    # A bare number is a reading of thresholds only.
    if match is None or not (match["ends"] or (declared is not None and declared.unit == "curve")):
        return None
    try:
        value = float(match["number"])
        ends = [None if number is None else float(number[0]) for number in map(_NUMBER.search, _both(match["ends"]))]
    except ValueError:
        return None
    low, high = ends if len(ends) == 2 else (None, None)
    return TagReading(text=match["value"].strip(), ends=match["ends"] or "", value=value, low=low, high=high)


def _both(ends: str | None) -> list[str]:
    return ends.strip("[]").split(", ") if ends else []
