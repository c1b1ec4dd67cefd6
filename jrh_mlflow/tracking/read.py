"""Logged evaluations, read back from MLflow.

Evaluations that runs of a tracking store hold, and the page that each of them wrote.

Suites that runs of a tracking store hold.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import RecipeError, TrackingError
from jrh_mlflow.reports.html import EvaluationRow
from jrh_mlflow.suites.suite import Suite, read_suite
from jrh_mlflow.tracking import keys
from jrh_mlflow.tracking.store import shown_uri, speaking

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient
    from mlflow.entities import Run


_RUN_ID = re.compile("[0-9a-f]{32}")
_PREFIX = re.compile("[0-9a-f]{8,31}")
_CALLS = "calls/calls.parquet"


@dataclass(frozen=True, kw_only=True)
class LoggedRun:
    """One judge on one suite, as an evaluation logged it."""

    run_id: str
    name: str
    """Of the run."""
    judge: str
    """Label of the judge; runs loaded together have different ones."""
    simulated: bool
    suite: Suite
    calls: pd.DataFrame
    params: Mapping[str, str]
    truncated: str | None
    """Why calls are missing, or None."""
    experiment: str
    """Name of the run's experiment."""
    link: str

    @property
    def cost_usd(self) -> float | None:
        """Dollars of all calls, or None when a price is unknown."""
        return keys.known_total(self.calls, "cost_usd")


def load_runs(runs: Sequence[str], *, tracking_uri: str | None = None) -> list[LoggedRun]:
    """Load evaluations by run id, `runs:/<id>`, or the first eight or more digits of an id.

    Runs of judges with the same label get the beginning of their ids added to it.

    Raises:
        RecipeError: when a run is named twice, does not exist, is no evaluation, or did not finish.
        TrackingError: when MLflow cannot be reached, or the artifacts cannot be read.
    """
    import mlflow
    from mlflow import MlflowClient

    uri = tracking_uri or mlflow.get_tracking_uri()
    client = MlflowClient(tracking_uri=uri)
    with speaking(uri, problem="cannot be read", what_now="Nothing was changed."):
        found = [_find(client, text) for text in runs]
        twice = [run_id for run_id, count in Counter(run.info.run_id for run in found).items() if count > 1]
        if twice:
            raise RecipeError(f"Run {twice[0]} is named twice: a judge is not compared with itself.")
        loaded = [_load(client, run, uri) for run in found]
    return _distinguished(loaded)


def _find(client: MlflowClient, text: str) -> Run:
    from mlflow.exceptions import MlflowException

    run_id = text.removeprefix("runs:/").strip("/")
    if _PREFIX.fullmatch(run_id):
        run_id = _completed(client, run_id)
    if not _RUN_ID.fullmatch(run_id):
        raise RecipeError(f"{text!r} is no run: give a run id, runs:/<id>, or the first eight or more of its digits.")
    try:
        return client.get_run(run_id)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        raise RecipeError(f"There is no run {run_id} in this store. Name the store with --tracking-uri.") from error


def _completed(client: MlflowClient, prefix: str) -> str:
    """Find the one run whose id begins so."""
    runs = finished_runs(client, "evaluate", list(experiment_names(client)))
    ids = [str(run.info.run_id) for run in runs if run.info.run_id.startswith(prefix)]
    if len(ids) == 1:
        return ids[0]
    if ids:
        raise RecipeError(f"{len(ids)} runs begin with {prefix}: {', '.join(ids[:5])}. Give more digits.")
    raise RecipeError(f"No finished evaluation in this store begins with {prefix}. Name the store with --tracking-uri.")


def _load(client: MlflowClient, run: Run, uri: str) -> LoggedRun:
    _check(run)
    tags, run_id = run.data.tags, str(run.info.run_id)
    simulated = tags.get(keys.TAG_SIMULATED) == "true"
    with tempfile.TemporaryDirectory(prefix="jrh-") as name:
        folder = Path(name)
        calls = _read_calls(client, run_id, folder)
        suite = read_suite(client.download_artifacts(run_id, "suite", str(folder)))
        judge = _read_judge(client, run_id, folder)
    experiment = client.get_experiment(run.info.experiment_id)
    return LoggedRun(
        run_id=run_id,
        name=str(run.info.run_name),
        judge=f"{judge} (simulated)" if simulated else judge,
        simulated=simulated,
        suite=suite,
        calls=calls,
        params=dict(run.data.params),
        truncated=tags.get(keys.TAG_TRUNCATED),
        experiment=str(experiment.name),
        link=_link(uri, run.info.experiment_id, run_id),
    )


def _check(run: Run) -> None:
    run_id, kind = run.info.run_id, run.data.tags.get(keys.TAG_KIND)
    if kind != "evaluate":
        what = "was not logged by jrh" if kind is None else f"is of kind {kind}"
        raise RecipeError(f"Run {run_id} ({run.info.run_name}) {what}: only evaluations can be compared.")
    if run.info.status != "FINISHED":
        raise RecipeError(f"Run {run_id} ({run.info.run_name}) is {run.info.status}, not FINISHED: run it again.")


def _read_calls(client: MlflowClient, run_id: str, folder: Path) -> pd.DataFrame:
    import pandas as pd

    if _CALLS not in {file.path for file in client.list_artifacts(run_id, "calls")}:
        raise RecipeError(f"Run {run_id} has no artifact {_CALLS}: without its calls it cannot be compared.")
    frame: pd.DataFrame = pd.read_parquet(client.download_artifacts(run_id, _CALLS, str(folder)))
    return frame


def _read_judge(client: MlflowClient, run_id: str, folder: Path) -> str:
    facts: dict[str, Any] = json.loads(
        Path(client.download_artifacts(run_id, "judge/judge.json", str(folder))).read_text(encoding="utf-8")
    )
    return str(facts["name"])


def _link(uri: str, experiment_id: str, run_id: str) -> str:
    if uri.startswith("http"):
        return f"{uri.rstrip('/')}/#/experiments/{experiment_id}/runs/{run_id}"
    return f"run {run_id} in {shown_uri(uri)}"


def _distinguished(runs: list[LoggedRun]) -> list[LoggedRun]:
    """Add the beginning of the run id where two judges have one label."""
    counts = Counter(run.judge for run in runs)
    return [replace(run, judge=f"{run.judge} {_short_id(run, runs)}") if counts[run.judge] > 1 else run for run in runs]


def _short_id(run: LoggedRun, runs: Sequence[LoggedRun]) -> str:
    others = [other.run_id for other in runs if other is not run]
    return next(
        run.run_id[:length]
        for length in range(8, 33)
        if not any(other.startswith(run.run_id[:length]) for other in others)
    )


DATASHEET = "datasheet.html"
MOST_BYTES = 64 * 2**20
"""Of a page: ours hold a few figures, but anybody may log a run."""
_NOTHING_CHANGED = "Nothing was changed."


def evaluations_in_runs(tracking_uri: str, *, most: int) -> list[EvaluationRow]:
    """Return the newest finished evaluations of all experiments, at most `most`.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    from mlflow import MlflowClient

    with speaking(tracking_uri, problem="cannot be read", what_now=_NOTHING_CHANGED):
        client = MlflowClient(tracking_uri=tracking_uri)
        experiments = experiment_names(client)
        found = finished_runs(client, "evaluate", list(experiments), most=most)
    return [_row(run, experiments[run.info.experiment_id]) for run in found if _RUN_ID.fullmatch(run.info.run_id)]


def datasheet_html(tracking_uri: str, run_id: str) -> bytes | None:
    """Return the page that an evaluation wrote, or None when there is no such run, or it has none.

    Raises:
        ValueError: when `run_id` cannot be one.
        TrackingError: when MLflow cannot be reached, or the page is too large to be one of ours.
    """
    from mlflow import MlflowClient

    if not _RUN_ID.fullmatch(run_id):
        raise ValueError(f"A run id has 32 hexadecimal digits, but got {run_id!r}.")
    with speaking(tracking_uri, problem="cannot be read", what_now=_NOTHING_CHANGED):
        client = MlflowClient(tracking_uri=tracking_uri)
        size = _size(client, run_id)
        if size is None:
            return None
        if size > MOST_BYTES:
            raise TrackingError(
                f"{DATASHEET} of run {run_id} has {size:,} bytes: more than {MOST_BYTES:,} are not shown."
            )
        with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
            return Path(client.download_artifacts(run_id, DATASHEET, folder)).read_bytes()


def _size(client: MlflowClient, run_id: str) -> int | None:
    """Bytes of a run's page, or None when there is none."""
    from mlflow.exceptions import MlflowException

    try:
        files = client.list_artifacts(run_id)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None
        raise
    return next((int(file.file_size or 0) for file in files if file.path == DATASHEET and not file.is_dir), None)


def _row(run: Run, experiment: str) -> EvaluationRow:
    params, tags = run.data.params, run.data.tags
    started = datetime.fromtimestamp((run.info.start_time or 0) / 1000, timezone.utc)
    name = str(run.info.run_name or run.info.run_id[:8])
    return EvaluationRow(
        run_id=str(run.info.run_id),
        name=name,
        judge=str(params.get("judge.model", name)),
        suite=str(params.get("suite.name", "")),
        sha256=str(params.get("suite.sha256", "")),
        profile=str(tags.get(keys.TAG_PROFILE, "")),
        simulated=tags.get(keys.TAG_SIMULATED) == "true",
        truncated=tags.get(keys.TAG_TRUNCATED),
        experiment=experiment,
        experiment_id=str(run.info.experiment_id),
        started=f"{started:%Y-%m-%d %H:%M} UTC",
    )


_PAGE = 200
"""Runs asked for at once: each comes with all its metrics."""
_EXPERIMENTS_AT_ONCE = 500
"""Databases take only so many values in one query."""
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSuite:
    """A suite as the params of the run that made it tell of it."""

    run_id: str
    name: str
    sha256: str
    n_items: int
    experiment_id: str


def active_uri() -> str:
    """Return the active store."""
    import mlflow

    return str(mlflow.get_tracking_uri())


def suites_in_runs(tracking_uri: str, *, kind: str = "generate") -> list[RunSuite]:
    """Return the suites of all finished runs of one kind, newest first.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    from mlflow import MlflowClient

    with speaking(tracking_uri, problem="cannot be read", what_now="Nothing was changed."):
        client = MlflowClient(tracking_uri=tracking_uri)
        found = [_run_suite(run) for run in finished_runs(client, kind, list(experiment_names(client)))]
    return [one for one in found if one is not None]


def experiment_names(client: MlflowClient) -> dict[str, str]:
    """Return the names of all experiments by id."""
    found: dict[str, str] = {}
    token = None
    while token != "":
        page = client.search_experiments(page_token=token)
        found |= {str(one.experiment_id): str(one.name) for one in page}
        token = page.token or ""
    return found


def finished_runs(client: MlflowClient, kind: str, experiments: Sequence[str], *, most: int | None = None) -> list[Run]:
    """Return the finished runs of one kind, newest first: all of them, or the newest `most`."""
    found = [
        run
        for start in range(0, len(experiments), _EXPERIMENTS_AT_ONCE)
        for run in _runs(client, kind, experiments[start : start + _EXPERIMENTS_AT_ONCE], most)
    ]
    return sorted(found, key=lambda run: -(run.info.start_time or 0))[:most]


def _runs(client: MlflowClient, kind: str, experiments: Sequence[str], most: int | None) -> list[Run]:
    chosen = f"tags.`{keys.TAG_KIND}` = '{kind}' and attributes.status = 'FINISHED'"
    newest = ["attributes.start_time DESC"]
    found: list[Run] = []
    token = None
    while token != "" and (most is None or len(found) < most):
        page = client.search_runs(list(experiments), chosen, order_by=newest, max_results=_PAGE, page_token=token)
        found += page
        token = page.token or ""
    return found


def _run_suite(run: Run) -> RunSuite | None:
    """Read a run's params; None where they are not what our own runs write, since anybody may log a run."""
    params, run_id = run.data.params, str(run.info.run_id)
    sha256, n_items = params.get("suite.sha256", ""), params.get("suite.n_items", "")
    if not (_SHA256.fullmatch(sha256) and _RUN_ID.fullmatch(run_id) and n_items.isascii() and n_items.isdigit()):
        return None
    name, experiment_id = str(params.get("suite.name", "suite")), str(run.info.experiment_id)
    return RunSuite(run_id=run_id, name=name, sha256=sha256, n_items=int(n_items), experiment_id=experiment_id)
