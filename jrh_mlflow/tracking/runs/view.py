"""What MLflow's pages open on: the saved view of an experiment with its columns and charts, and the links to it.

A saved view is a tag of the experiment that MLflow's runs page reads. Its form is MLflow's own; a test opens it in a
browser.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
import sys
import time
import urllib.request
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from jrh_mlflow.errors import TrackingError
from jrh_mlflow.measures import axes
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.show.html import FOLDER, Addresses
from jrh_mlflow.tracking import mlflow_internals
from jrh_mlflow.tracking.mlflow_server import DATABASE
from jrh_mlflow.tracking.runs import keys

NAME = "Judges"
MOST_SUITES = 20
"""Suites of an experiment that get a view of their own: every page of the experiment reads all of them."""
KIND = "custom_model_development"
"""The kind of experiment that opens on runs; others open on the latency of traces."""
READINGS = {
    "dark_current": 130,
    "raw_false_preference": 150,
    "positional_false_preference": 150,
    "target_sensitivity/delta_1": 165,
    "threshold_75": 135,
}
"""Axes that are columns, with their widths in pixels: enough for `0.30 [0.16, 0.48]`."""
_PACKAGE = Path(__file__).resolve().parents[2]
_DATABASES = ("sqlite:", "postgresql", "mysql", "mssql", "file:")
_PORT = 5000
_SENSITIVITY, _FALSE_PREFERENCE = "target_sensitivity/delta_1/rate", "raw_false_preference/rate"


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewLinks:
    """Where the judges of an experiment stand side by side."""

    table: str
    """Address of the table: one line per judge."""
    charts: str
    """Address of the charts: the judges' curves in one picture."""
    pages: str
    """Folder of our own pages: each judge's datasheet and calls, comparisons."""
    command: str | None = None
    """What has to run before these addresses answer; None for a server."""

    def __str__(self) -> str:
        return self.table if self.command is None else f"{self.command}   then {self.table}"

    def page(self, run_id: str) -> str:
        """Say where a run is a page of ours, and what has to serve it first."""
        address = Addresses(self.pages).run(run_id)
        if self.command is None:
            return f"{address}   where the server runs with --app-name jrh"
        return f"{self.command}   then {address}"


def view_links(uri: str, experiment_id: str, *, port: int = _PORT, key: str = keys.VIEW) -> ViewLinks:
    """Return the links to a saved view of an experiment; a store that is no server is shown by `jrh ui` on a port.

    Example:
        >>> view_links("http://user:secret@mlflow:5000/", "7").table
        'http://mlflow:5000/#/experiments/7/runs?workflowType=machine_learning&viewStateShareKey=jrh'
    """
    served = uri.startswith("http")
    address = _address(uri, port)
    page = f"{address}/{_page(experiment_id, key)}"
    command = None if served else f"jrh ui {_ui_argument(uri)}" + ("" if port == _PORT else f" --port {port}")
    return ViewLinks(table=page, charts=f"{page}{_CHARTS}", pages=f"{address}/{FOLDER}", command=command)


def newest_view(address: str) -> str:
    """Return the saved view of the experiment that was written to last, on a server; its first page where none is.

    Asked over HTTP, since to import MLflow takes longer than its answer.

    Raises:
        TrackingError: when the server does not list its experiments.
    """
    query = {"filter": f"tags.`{keys.TAG_VIEW}` LIKE '%'", "order_by": "last_update_time DESC", "max_results": 1}
    # Past any proxy: the server is on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{address}/api/2.0/mlflow/experiments/search?{urlencode(query)}", timeout=60) as answer:
            experiments = json.load(answer).get("experiments", [])
    except (OSError, ValueError) as error:
        raise TrackingError(f"MLflow at {address} does not list its experiments: {error}.") from error
    return f"{address}/{_page(experiments[0]['experiment_id'])}" if experiments else f"{address}/"


def trace_link(uri: str, experiment_id: str, trace_id: str) -> str:
    """Return the page of MLflow that opens a trace; a store that is no server is shown by `jrh ui`.

    Example:
        >>> trace_link("http://mlflow:5000", "7", "tr-1")
        'http://mlflow:5000/#/experiments/7/traces?workflowType=genai&startTimeLabel=ALL&selectedEvaluationId=tr-1'
    """
    return Addresses(f"{_address(uri, _PORT)}/{FOLDER}").traces(experiment_id, trace_id=trace_id)


def queue_link(uri: str, experiment_id: str) -> str:
    """Return the page of MLflow that holds the review queues of an experiment."""
    return Addresses(f"{_address(uri, _PORT)}/{FOLDER}").experiment(experiment_id, "review-queue", mode="genai")


def _address(uri: str, port: int) -> str:
    return server_address(uri) if uri.startswith("http") else f"http://127.0.0.1:{port}"


_CHARTS = "&compareRunsMode=CHART"


def _page(experiment_id: str, key: str = keys.VIEW) -> str:
    # Without its `workflowType` MLflow 3.17 shows the pages of traces, whatever the kind of the experiment.
    return Addresses(FOLDER).experiment(experiment_id, "runs", mode="machine_learning", viewStateShareKey=key)


def server_address(uri: str) -> str:
    """Return a server's address without the user and password that it may hold, and without a slash at its end."""
    parts = urlsplit(uri)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")


def shown_uri(uri: str) -> str:
    """Return a store's address without the password it may hold: for messages and files."""
    password = urlsplit(uri).password
    return uri.replace(f":{password}@", ":***@") if password else uri


def _ui_argument(uri: str) -> str:
    """Name a store for `jrh ui`, as briefly as can be: the folder of a database that has the usual name."""
    _, is_sqlite, place = uri.partition("sqlite:///")
    database = Path(place.partition("?")[0])
    if is_sqlite and database.name == DATABASE:
        folder, here = database.parent.resolve(), Path.cwd()
        return shlex.quote(str(folder.relative_to(here) if folder.is_relative_to(here) else folder))
    if not uri.startswith(_DATABASES):
        return shlex.quote(Path(uri).resolve().as_uri())
    return shlex.quote(shown_uri(uri))


def suite_view(suite: str) -> str:
    """Return the key of a suite's own view."""
    return f"{keys.VIEW}-{hashlib.sha256(suite.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def missing_tags(experiment_id: str, tags: Mapping[str, str], suite: str | None = None) -> dict[str, str]:
    """Return the tags that an experiment lacks: views, what it opens on, and what its columns mean.

    One view has the judges on all suites, and with `suite` another one those on it. What somebody else has set is left
    as it is.
    """
    wanted: dict[str, str] = {}
    views: dict[str, str | None] = {keys.TAG_VIEW: None}
    own = f"{keys.TAG_VIEW}-"
    # What MLflow's filter cannot quote has no view of its own.
    if suite is not None and "'" not in suite and sum(tag.startswith(own) for tag in tags) < MOST_SUITES:
        views[f"{keys.TAG_VIEW.removesuffix(keys.VIEW)}{suite_view(suite)}"] = suite
    for tag, name in views.items():
        if tag not in tags:
            wanted[tag] = _view_value(_state(name), created_ms=int(time.time() * 1000), suite=name)
    if not tags.get(keys.TAG_EXPERIMENT_KIND):
        wanted[keys.TAG_EXPERIMENT_KIND] = KIND
    note = (tags.get(keys.TAG_NOTE) or "").strip()
    if not note:
        wanted[keys.TAG_NOTE] = _description(experiment_id)
    return wanted


def _view_value(state: Mapping[str, Any], *, created_ms: int, suite: str | None) -> str:
    """Write a view as MLflow reads it: with a name for the menu `Views`, and plain for versions without that menu."""
    # Both forms in one value: a version reads the one that it knows and passes over the other.
    packed = base64.b64encode(zlib.compress(_compact(state).encode(), 9)).decode()
    view = {
        "name": NAME if suite is None else f"{NAME} on {suite}"[:_LONGEST_NAME],
        "createdAt": created_ms,
        "updatedAt": created_ms,
        "state": f"deflate;{packed}",
        **state,
    }
    return _compact(view)


def _compact(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"))


def _state(suite: str | None = None) -> dict[str, Any]:
    """Return the columns and charts, of the judges on one suite or on all."""
    # In the order they are shown; the first two, name and age of a run, are always there.
    widths = {
        "attributes.`Run Name`": 275,
        "runDateAndNestInfo": 140,
        f"params.`{keys.PARAM_SUITE_NAME}`": 130,
        **{f"tags.`{keys.own_key(axis)}`": width for axis, width in READINGS.items()},
        f"tags.`{keys.own_key(metric_keys.RELIABILITY_MEAN)}`": 135,
        f"tags.`{keys.TAG_GATE}`": 200,
        f"tags.`{keys.TAG_DRIFT}`": 200,
        f"metrics.`{metric_keys.COST}`": 90,
        f"tags.`{keys.TAG_VERDICT}`": 420,
        f"params.`{keys.PARAM_CRITERION}`": 120,
    }
    on_suite = "" if suite is None else f" and params.`{keys.PARAM_SUITE_NAME}` = '{suite}'"
    charts = [
        _curve("target_sensitivity/curve"),
        _curve("matched_sensitivity/curve"),
        _scatter(_FALSE_PREFERENCE, _SENSITIVITY),
        _scatter(metric_keys.COST_PER_1K_CALLS, metric_keys.RELIABILITY_MEAN),
        _scatter(metric_keys.COST_PER_1K_CALLS, _SENSITIVITY),
    ]
    return {
        "searchFilter": f"tags.`{keys.TAG_KIND}` = 'evaluate'{on_suite}",
        "orderByKey": "attributes.start_time",
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
        "selectedColumns": list(widths)[2:],
        "columnOrder": list(widths),
        "columnWidths": widths,
        "compareRunSections": [
            {"uuid": _SECTION, "name": NAME, "display": True, "isReordered": True, "columns": 2, "cardHeight": 330}
        ],
        "compareRunCharts": [{"uuid": f"{_SECTION}-{number}", **chart} for number, chart in enumerate(charts)],
        "isAccordionReordered": True,
        "runsHiddenMode": "FIRST_20_RUNS",
        # MLflow 3.14 draws nothing at all where these are left out.
        **{"runsExpanded": {}, "runsPinned": [], "runsHidden": [], "runsVisibilityMap": {}, "groupsExpanded": {}},
    }


_SECTION = "jrh"
_CARD = {"metricSectionId": _SECTION, "runsCountToCompare": 20, "deleted": False, "isGenerated": False}


def _curve(key: str) -> dict[str, Any]:
    """Draw a metric over its steps, one line per run."""
    axis = {"xAxisKey": "step", "selectedXAxisMetricKey": "", "scaleType": "linear", "xAxisScaleType": "linear"}
    return {
        "type": "LINE",
        **_CARD,
        "metricKey": key,
        "selectedMetricKeys": [key],
        **axis,
        "lineSmoothness": 0,
        "range": {},
    }


def _scatter(x: str, y: str) -> dict[str, Any]:
    """Draw one metric against another, one dot per run."""
    return {"type": "SCATTER", **_CARD, "xaxis": {"key": x, "type": "METRIC"}, "yaxis": {"key": y, "type": "METRIC"}}


_LONGEST_NAME = 80
_WHAT = (
    "Judges of language models, measured: each run is one judge on one suite, with its readings and their 95 % "
    "intervals over tasks in the columns."
)
"""Without a link: MLflow's list of experiments shows these words as they are."""


def _description(experiment_id: str) -> str:
    """Say what the columns mean; the page shows the first line until it is unfolded."""
    page = _page(experiment_id)
    in_genai = Addresses(FOLDER).experiment(experiment_id, "evaluation-runs", mode="genai")
    meanings = [f"- `{keys.own_key(axis)}`: {axes.declared(axis).meaning}" for axis in READINGS]
    lines = [
        f"{_WHAT} [Judges side by side]({page}), [their curves in one picture]({page}{_CHARTS}), "
        f"[in GenAI mode]({in_genai}). "
        f"Datasheets and comparisons as pages: [all judges]({Addresses(FOLDER).index()}), where `jrh ui` serves them.",
        "",
        *meanings,
        f"- `{keys.own_key(metric_keys.RELIABILITY_MEAN)}`: mean accuracy over the tests of a reliability suite; "
        "1 is right.",
        f"- `{keys.TAG_GATE}`: what the newest `jrh gate` of the run came to.",
    ]
    return "\n".join(lines)


def context_tags() -> dict[str, str]:
    """Return who made a run and by which script, notebook or command, as MLflow's own runs say it.

    Of a command line only the command is told, never its arguments.
    """
    command = _command()
    # A commit would be that of the folder the command stands in, which is not what made the run.
    tags = mlflow_internals.start_run_tags(commit=command is None)
    return tags if command is None else {**tags, keys.TAG_SOURCE: command}


def _command() -> str | None:
    """Return `jrh evaluate`, or the module of ours that runs, or None: then MLflow names the script."""
    import click

    context, names = click.get_current_context(silent=True), []
    while context is not None and context.parent is not None:
        names.append(str(context.info_name))
        context = context.parent
    called = Path(sys.argv[0]) if sys.argv else Path()
    is_ours = context is not None and (context.command.callback or print).__module__.startswith("jrh_mlflow.")
    if is_ours:
        return " ".join(["jrh", *reversed(names)])
    if called.is_relative_to(_PACKAGE):
        return "python -m " + ".".join((_PACKAGE.name, *called.relative_to(_PACKAGE).with_suffix("").parts))
    return "jrh" if called.name == "jrh" else None
