"""A tracking store, the runs of every kind that are written to it, and MLflow's errors in one line.

Everything goes through `MlflowClient`, so that no global state of MLflow is touched.
"""

from __future__ import annotations

import json
import logging
import os
import random
import re
import socket
import tempfile
import textwrap
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from jrh_mlflow.collector import unwalked
from jrh_mlflow.engine.budget import Paid
from jrh_mlflow.engine.interrupts import hearing_interrupts, say
from jrh_mlflow.engine.journal.writer import sole_opener
from jrh_mlflow.engine.record_log import write_calls
from jrh_mlflow.errors import SCHEMA_VERSION, SuiteError, TrackingError
from jrh_mlflow.models.trust import check_artifacts, check_store
from jrh_mlflow.outputs import write_csv
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.show.cards import ShownResult
from jrh_mlflow.show.figures.svg import figure_files
from jrh_mlflow.show.html import FOLDER, Addresses
from jrh_mlflow.show.page import Drawing, Page
from jrh_mlflow.show.plain_text import MAX_DESCRIPTION, plain, shortened
from jrh_mlflow.show.readings import reading_columns
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.mlflow_internals import DATABASE_LOGGER
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.view import (
    ViewLinks,
    context_tags,
    missing_tags,
    server_address,
    shown_uri,
    suite_view,
    view_links,
)

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient

    Artifact = str | bytes | Mapping[str, Any] | pd.DataFrame | Suite
    from mlflow.entities import Run

T = TypeVar("T")
Result = TypeVar("Result", bound=ShownResult)
DEFAULT_EXPERIMENT = "judge-datasheets"
_NOTHING_ASKED = "Nothing was asked yet."
_LONGEST_REASON = 300
GONE_AFTER_S = 4.0
"""How long nothing is said of a server that does not answer; to look whether it takes connections takes half of it."""
_FULL = re.compile("No space left on device|disk is full|Disk quota exceeded|File too large", re.IGNORECASE)
_OTHER_SCHEMA = "out-of-date database schema"
"""MLflow's words for a database of another version of it, also a newer one, for which its own remedy is none."""
_COLLISION = re.compile(
    "UNIQUE constraint failed|duplicate key|Duplicate entry|already exists|database is locked|deadlock", re.IGNORECASE
)
"""As SQLite, PostgreSQL and MySQL say that another process wrote at the same moment."""
_PAUSES_S = (0.05, 0.2, 0.5, 1.0)
_IN_WORKING_DIRECTORY = re.compile(r"sqlite:///(?!/)|file:(?!/)|(?!/|databricks$|[a-z][\w+.-]*:)")
_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
"""MLflow's own settings while we use it, unless the user chose them: a dead server is known after seconds instead of
four minutes, standard output stays ours, and small files need no progress bar."""


def store_place(uri: str) -> str:
    """Return what tells a store from others: in each working directory `sqlite:///mlflow.db` is another one.

    Example:
        >>> store_place("http://mlflow:5000"), store_place("sqlite:////srv/mlflow.db")
        ('http://mlflow:5000', 'sqlite:////srv/mlflow.db')
    """
    return f"{uri} in {Path.cwd()}" if _IN_WORKING_DIRECTORY.match(uri) else uri


def active_uri() -> str:
    """Return the address of the active store.

    Raises:
        RecipeError: when `.env` names it, and it would get the user's login.
    """
    import mlflow

    uri = str(mlflow.get_tracking_uri())
    check_store(uri)
    return uri


def run_link(uri: str, experiment_id: str, run_id: str) -> str:
    """Say where a run can be looked at."""
    if uri.startswith("http"):
        return Addresses(f"{server_address(uri)}/{FOLDER}").mlflow(experiment_id, run_id)
    return f"run {run_id} in {shown_uri(uri)}"


@contextmanager
def reading_client(uri: str) -> Iterator[MlflowClient]:
    """Give a client that only reads, with its errors in one line."""
    from mlflow import MlflowClient

    with mlflow_errors(uri, problem="cannot be read", what_now="Nothing was changed."):
        yield MlflowClient(tracking_uri=uri)


def paged(search: Callable[[str | None], Any]) -> Iterator[Any]:
    """Yield all that a search finds; it is called with the token of each page in turn, None for the first."""
    token = None
    while token != "":
        page = search(token)
        yield from page
        token = page.token or ""


def condition(key: str, value: str) -> str:
    """Ask for a value in the words of MLflow's search, which knows no escapes: what it cannot say matches anything."""
    if not {"'", "\\"} & set(value):
        return f"{key} = '{value}'"
    return f"{key} LIKE '{value.translate({ord(mark): '_' for mark in chr(39) + chr(92)})}'"


def if_there(read: Callable[[], T]) -> T | None:
    """Return what a store gives, or None where it has no such thing."""
    from mlflow.exceptions import MlflowException

    try:
        return read()
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None
        raise


@contextmanager
def mlflow_errors(uri: str, *, problem: str, what_now: str) -> Iterator[None]:
    """Turn MLflow's and the network's errors into one line: `problem` says what failed, `what_now` what to do."""
    from mlflow.exceptions import MlflowException
    from requests.exceptions import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with _settings(), _said_when_gone(uri):
            yield
    except (MlflowException, RequestException, SQLAlchemyError, OSError) as error:
        if (lost := _lost_connection(error)) is not None:
            raise TrackingError(
                f"The MLflow store at {shown_uri(uri)} cannot be reached: {lost}. "
                f"Start it, or check --tracking-uri. {what_now}"
            ) from error
        # Of a disk without room, here or under the server, only the texts of some libraries say so.
        is_full = any(_FULL.search(str(cause)) for cause in _chain(error))
        full = "The disk is full, make room: " if is_full else ""
        newer = "Where a newer MLflow wrote it: pip install --upgrade mlflow. " if _OTHER_SCHEMA in str(error) else ""
        message = f"{full}MLflow at {shown_uri(uri)} {problem}: {reason(error, uri)}. {newer}{what_now}"
        raise TrackingError(message) from error


@contextmanager
def _said_when_gone(uri: str) -> Iterator[None]:
    """Say once that a server does not answer while MLflow still tries: it may do so for minutes, without a word."""
    if not uri.startswith("http"):
        yield
        return
    ended = threading.Event()

    def watch() -> None:
        # A server that takes connections only has much to do.
        while not ended.wait(GONE_AFTER_S):
            if not _accepts(uri):
                retries = os.environ.get("MLFLOW_HTTP_REQUEST_MAX_RETRIES")
                say_once(
                    f"note: MLflow at {shown_uri(uri)} does not answer. Each request is tried {retries} times more "
                    "($MLFLOW_HTTP_REQUEST_MAX_RETRIES), longer and longer apart; nothing that was answered is lost."
                )
                return

    threading.Thread(target=watch, name="jrh-mlflow-gone", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _accepts(uri: str) -> bool:
    parts = urllib.parse.urlsplit(uri)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), timeout=GONE_AFTER_S / 2).close()
    except (OSError, ValueError):
        return False
    return True


def reason(error: BaseException, uri: str) -> str:
    """Say why in one line of whole words, without the password of the store's address and without the full stop."""
    text = str(error).replace(uri, shown_uri(uri))
    return textwrap.shorten(text, _LONGEST_REASON, placeholder=" …").rstrip(".")


def _lost_connection(error: BaseException) -> str | None:
    """Return what the system said when a server could not be reached, or None when it was."""
    from requests.exceptions import ConnectionError as NoConnection
    from requests.exceptions import Timeout

    causes = _chain(error)
    if not any(isinstance(cause, NoConnection | Timeout) for cause in causes):
        return None
    reasons = [cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror]
    return reasons[-1] if reasons else "no answer"


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error and those it came from."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    return causes


def tried_again(write: Callable[[], T]) -> T:
    """Write; where another process wrote the same row in this moment, a second look finds it there."""
    from mlflow.exceptions import MlflowException

    for pause_s in _PAUSES_S:
        try:
            return write()
        except MlflowException as error:
            if not _COLLISION.search(str(error)):
                raise
        time.sleep(pause_s * random.uniform(0.5, 1))  # noqa: S311 - jitter, not a secret
    return write()


@contextmanager
def _sole_maker(uri: str) -> Iterator[None]:
    """Let one process at a time make the tables of a new SQLite store: MLflow's migrations collide."""
    _, is_sqlite, path = uri.partition("sqlite:///")
    database = Path(path.partition("?")[0])
    with sole_opener(database) if is_sqlite and database.parent.is_dir() else nullcontext():
        yield


@contextmanager
def _settings() -> Iterator[None]:
    # Read by MLflow at each use: taken back afterwards, they change nothing of what the user does with it.
    ours = {name: value for name, value in _SETTINGS.items() if name not in os.environ}
    os.environ.update(ours)
    # MLflow prints the whole traceback of a database that is full or locked, and then raises it for us to say.
    database, silence = logging.getLogger(DATABASE_LOGGER), logging.Filter("nothing")
    database.addFilter(silence)
    try:
        with _only_warnings():
            yield
    finally:
        database.removeFilter(silence)
        for name in ours:
            os.environ.pop(name, None)


@contextmanager
def _only_warnings() -> Iterator[None]:
    """Keep "Running upgrade …" and its like out of the terminal while we use MLflow, unless the user set a level."""
    chatty = () if "MLFLOW_LOGGING_LEVEL" in os.environ else ("mlflow", "alembic")
    # At the handlers, which see what any logger below them says; the loggers themselves stay the user's.
    handlers = [handler for name in chatty for handler in logging.getLogger(name).handlers]

    def is_warning(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING

    for handler in handlers:
        handler.addFilter(is_warning)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(is_warning)


class Store:
    """One tracking store and the experiment that runs go to."""

    def __init__(
        self,
        tracking_uri: str | None = None,
        experiment: str | None = None,
        *,
        experiment_id: str | None = None,
        artifacts: str | None = None,
        saves_view: bool = True,
    ) -> None:
        """Open a store; nothing is made in it, but one that cannot be reached is known at once.

        Args:
            tracking_uri: MLflow store; the active one when None.
            experiment: Name of the experiment; the active one, or `judge-datasheets`, when None.
            experiment_id: Of an experiment that is there, instead of a name.
            artifacts: Where an experiment that has to be made keeps its artifacts.
            saves_view: False leaves what the experiment's pages open on as it is: that of an application's traces.

        Raises:
            TrackingError: when MLflow cannot be reached.
        """
        with unwalked("alembic"):  # MLflow loads it with its first store
            from mlflow import MlflowClient

            self.uri = tracking_uri or active_uri()
            with self.errors(_NOTHING_ASKED), _sole_maker(self.uri):
                self.client: MlflowClient = MlflowClient(tracking_uri=self.uri)
        self._artifacts = artifacts
        self._tags: Mapping[str, str] | None = None
        """Of the experiment, as they were when it was looked up."""
        self._saves_view = saves_view
        # mlflow.set_experiment publishes its choice in these variables.
        active = None if experiment else os.environ.get("MLFLOW_EXPERIMENT_ID")
        self._experiment = experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or DEFAULT_EXPERIMENT
        self._experiment_id = experiment_id or active or self._found()

    @property
    def experiment_id(self) -> str:
        """Of the experiment that runs go to; made when it is first asked for."""
        if self._experiment_id is None:
            with self.errors(_NOTHING_ASKED):
                # Looked up again, each time: another process may make it in the meantime.
                self._experiment_id = tried_again(lambda: self._found() or self._made())
        return self._experiment_id

    def _made(self) -> str:
        made = str(self.client.create_experiment(self._experiment, self._artifacts))
        self._tags = {}
        return made

    def _found(self) -> str | None:
        with self.errors(_NOTHING_ASKED):
            experiment = self.client.get_experiment_by_name(self._experiment)
        self._tags = experiment.tags if experiment else None
        return str(experiment.experiment_id) if experiment else None

    def errors(self, what_now: str) -> AbstractContextManager[None]:
        """Turn MLflow's and the network's errors into one line; do not wait four minutes for a dead server."""
        return mlflow_errors(self.uri, problem="did not take the run", what_now=what_now)

    def create_run(self, name: str, *, tags: Mapping[str, str], parent: str | None = None) -> str:
        """Create a running run and return its id; its name moves no cursor.

        Without a `parent` it is nested under the run that the user has open in this store and experiment.
        """
        name, parent = name if name.isprintable() else plain(name), parent or self._open_run()
        own = {**context_tags(), **tags, keys.TAG_RUN_NAME: name, **({keys.TAG_PARENT: parent} if parent else {})}
        with self.errors(_NOTHING_ASKED):
            run = self.client.create_run(self.experiment_id, run_name=name, tags=own)
            check_artifacts(run.info.artifact_uri, self.uri)
        self.save_view()
        return str(run.info.run_id)

    def own_name(self, names: Sequence[str], setup: str) -> str:
        """Return the first of some names that no run of another setup has here, or else the last."""
        with self.errors(_NOTHING_ASKED):
            # The newest run tells, and one of another setup, however many runs have the name.
            newest = partial(self.client.search_runs, [self.experiment_id], max_results=1)
            for name in names[:-1]:
                named = condition("attributes.run_name", name)
                setups = [run.data.tags.get(keys.TAG_SETUP) for run in newest(named)]
                other = f"{named} AND tags.`{keys.TAG_SETUP}` != '{setup}'"
                if not setups or (setups == [setup] and not newest(other)):
                    return name
        return names[-1]

    def _open_run(self) -> str | None:
        """Return the run of an `mlflow.start_run` around us; in another experiment MLflow shows no nested run."""
        import mlflow

        run = mlflow.active_run()
        is_here = run is not None and str(mlflow.get_tracking_uri()) == self.uri
        return str(run.info.run_id) if is_here and str(run.info.experiment_id) == self.experiment_id else None

    def save_view(self, suite: str | None = None) -> None:
        """Let the experiment open on judges, on a suite too; that it cannot is said, and takes nothing from the run."""
        if not self._saves_view:
            return
        problem, what_now = "did not take the saved view of the experiment", "The run is logged all the same."
        try:
            with mlflow_errors(self.uri, problem=problem, what_now=what_now):
                if self._tags is None:
                    self._tags = self.client.get_experiment(self.experiment_id).tags
                missing = missing_tags(self.experiment_id, self._tags, suite)
                # Seen as set whatever comes: a store that refuses is asked once.
                self._tags = {**self._tags, **missing}
                for key, value in missing.items():
                    tried_again(partial(self.client.set_experiment_tag, self.experiment_id, key, value))
        except TrackingError as error:
            say(str(error))

    def log_batch(
        self,
        run_id: str,
        *,
        points: Sequence[keys.Point] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Log metrics, params and tags of a run at once."""
        from mlflow.entities import Metric, Param, RunTag

        now = int(time.time() * 1000)
        metrics = [Metric(point.key, point.value, now, point.step) for point in points]
        settings = [Param(key, value) for key, value in (params or {}).items()]
        labels = [RunTag(key, value) for key, value in (tags or {}).items()]
        tried_again(lambda: self.client.log_batch(run_id, metrics=metrics, params=settings, tags=labels))

    def log_dataset(self, run_id: str, suite: Suite) -> None:
        """Log the suite as a dataset input, so that runs on different suites are visibly different."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        columns = ("id", "task", "condition", "instruction", "u", "v", "response", "delta", "better", "expected")
        schema = [{"type": "double" if name == "delta" else "string", "name": name} for name in columns]
        dataset = Dataset(
            name=suite.name,
            digest=keys.dataset_digest(suite.sha256),
            source_type="mlflow_artifact",
            source=json.dumps({"uri": f"runs:/{run_id}/{keys.SUITE_FOLDER}"}),
            schema=json.dumps({"mlflow_colspec": schema}),
            profile=json.dumps({"num_rows": len(suite), "sha256": suite.sha256, **suite.manifest["conditions"]}),
        )
        tags = [InputTag(key="mlflow.data.context", value="judge suite")]
        tried_again(lambda: self.client.log_inputs(run_id, [DatasetInput(dataset, tags)]))

    def beside(self, ending: str) -> Store:
        """Return the store with the experiment whose name has this ending; made when it is first used."""
        name = self.client.get_experiment(self.experiment_id).name
        return Store(self.uri, f"{name}{ending}", artifacts=self._artifacts, saves_view=False)

    def address(self, run_id: str) -> dict[str, str]:
        """Say where a run belongs, for a file: without the password that the store's address may hold."""
        return {"run_id": run_id, "tracking_uri": shown_uri(self.uri), "experiment_id": self.experiment_id}

    def link(self, run_id: str) -> str:
        """Say where a run can be looked at."""
        return run_link(self.uri, self.experiment_id, run_id)

    def view_links(self, suite: str | None = None) -> ViewLinks:
        """Say where the judges of the experiment stand side by side: those on a suite, where it has a view."""
        key = "" if suite is None else suite_view(suite)
        has_view = f"{keys.TAG_VIEW.removesuffix(keys.VIEW)}{key}" in (self._tags or {})
        return view_links(self.uri, self.experiment_id, key=key if key and has_view else keys.VIEW)


def download(uri: str, *, tracking_uri: str | None = None) -> Path:
    """Bring the folder of a suite (`runs:/<id>/suite`) onto this machine.

    Raises:
        SuiteError: when the store has no such run, or the run no such folder.
        TrackingError: when the store cannot be reached or read.
    """
    import mlflow
    from mlflow.exceptions import MlflowException

    store = tracking_uri or active_uri()
    with mlflow_errors(store, problem=f"does not give {uri}", what_now=_NOTHING_ASKED):
        try:
            of_run = re.match("runs:/([^/]+)", uri)
            run = mlflow.MlflowClient(store).get_run(of_run[1]) if of_run else None
            check_artifacts(run.info.artifact_uri if run else uri, store)
            return Path(mlflow.artifacts.download_artifacts(artifact_uri=uri, tracking_uri=store))
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            raise SuiteError(
                f"There is no {uri} in the store at {shown_uri(store)}: {reason(error, store)}. "
                "Check the id, or name the store with --tracking-uri."
            ) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class RunContent:
    """What a run holds when its work is done."""

    points: Sequence[keys.Point]
    params: Mapping[str, Mapping[str, object]]
    """Group to settings, logged as `<group>.<name>`; those that are None are left out."""
    description: str
    """Markdown; what MLflow would cut off ends with a pointer to `described_in`."""
    described_in: str
    """The artifact that holds the whole description."""
    artifacts: Mapping[str, Artifact]
    """Path to text, bytes, JSON-ready data or a table (`.csv`, `.parquet`)."""
    tags: Mapping[str, str] = field(default_factory=dict)
    suite: Suite | None = None
    """Logged as the run's dataset."""
    save_suite: bool = True
    """Also keep it under `suite/`; not where runs below this one do."""
    traces: Callable[[Store, str], object] | None = None
    """Writes traces of a run, given the store and the run's id."""
    saves_suite_view: bool = False
    """Whether the experiment gets a saved view of the judges on the suite."""

    def __post_init__(self) -> None:
        if self.described_in not in self.artifacts:
            raise ValueError(f"`described_in` must be an artifact of the run, but got {self.described_in!r}.")
        page = self.artifacts.get(keys.PAGE_JSON)
        # Lists of runs say what the page of each begins with.
        verdict = {keys.TAG_VERDICT: str(page["lead"])} if isinstance(page, Mapping) else {}
        object.__setattr__(self, "tags", {**verdict, **self.tags})


def shown_content(
    done: ShownResult,
    json_file: str,
    *,
    page: Page | None = None,
    tables: Mapping[str, pd.DataFrame] = MappingProxyType({}),
    drawings: Sequence[Drawing] = (),
    more: Mapping[str, Artifact] = MappingProxyType({}),
    **own: Any,
) -> RunContent:
    """Return what the run of a result holds: its data, and beside them the same as Markdown, page, tables and figures.

    Args:
        done: The result.
        json_file: Of its data; the Markdown has the same name with another ending.
        page: What the page of the run shows, where that is more than `done.page` with its figures.
        tables: Name to table. Names and labels in them come from anywhere: none of them runs as a formula.
        drawings: Its figures.
        more: Further files.
        own: Further fields of `RunContent`: points, params, tags, ….
    """
    markdown, described_in = done.to_markdown(), f"{json_file.removesuffix('.json')}.md"
    return RunContent(
        description=markdown,
        described_in=described_in,
        artifacts={
            json_file: done.to_dict(),
            described_in: markdown,
            keys.PAGE_JSON: (page or (done.page_with(drawings) if drawings else done.page)).to_dict(),
            **{f"{keys.TABLES_FOLDER}/{table}.csv": frame for table, frame in tables.items()},
            **figure_files(drawings),
            **more,
        },
        **own,
    )


def first_tags(kind: str, *, simulated: bool, tags: Mapping[str, str] | None = None) -> dict[str, str]:
    """Tags a run carries from its creation on."""
    return {
        **(tags or {}),
        keys.TAG_KIND: kind,
        keys.TAG_SCHEMA_VERSION: str(SCHEMA_VERSION),
        keys.TAG_VERSION: version("jrh-mlflow"),
        keys.TAG_SIMULATED: str(simulated).lower(),
    }


@contextmanager
def open_run(
    store: Store,
    kind: str,
    name: str,
    *,
    simulated: bool = False,
    tags: Mapping[str, str] | None = None,
    parent: str | None = None,
) -> Iterator[str]:
    """Create a run and give its id; it is marked as failed or killed when the block does not come to its end."""
    with hearing_interrupts() as interrupts:
        # A signal while it is made must not leave a run that nobody knows the id of.
        with interrupts.waiting():
            run_id = store.create_run(name, tags=first_tags(kind, simulated=simulated, tags=tags), parent=parent)
        with ending(store, run_id):
            interrupts.check()
            yield run_id


def log_result(
    store: Store,
    done: Result,
    kind: str,
    content: Callable[[Result], RunContent],
    *,
    what_now: str,
    name: str | None = None,
    **opened: Any,
) -> Result:
    """Log a result that is in hand as a run of its own, `opened` as `open_run` does; return it with id and place.

    Raises:
        TrackingError: when MLflow does not take it; `what_now` says what is safe, and what to do.
    """
    with open_run(store, kind, name or done.title, **opened) as run_id:
        done = replace(done, run_id=run_id, link=store.link(run_id))
        publish(store, run_id, content(done), what_now=what_now, is_new=True)
    return done


@contextmanager
def ending(store: Store, run_id: str, *, keeps_finished: bool = False) -> Iterator[None]:
    """Mark a run as failed or killed when the work inside does not come to its end; SIGTERM and hang-ups, too.

    With `keeps_finished` what fails after the end, such as a trace, takes nothing from a finished run.
    """
    with hearing_interrupts() as interrupts:
        try:
            yield
        except BaseException as error:
            with interrupts.ignored():
                _end_after(store, run_id, error, keeps_finished=keeps_finished)
            raise


def _end_after(store: Store, run_id: str, error: BaseException, *, keeps_finished: bool) -> None:
    problem = _not_ended(store, run_id, after=error, keeps_finished=keeps_finished)
    if problem is not None and not isinstance(error, TrackingError):
        say(problem)
    # In the one line that is printed: the second failure is nearly always the first one again.
    elif problem is not None and "stays open" not in str(error):
        error.args = (f"{error} The run stays open.",)


def _not_ended(store: Store, run_id: str, *, after: BaseException, keeps_finished: bool) -> str | None:
    """End a run; return why that could not be done."""
    if isinstance(after, TrackingError) and (lost := _lost_connection(after)) is not None:
        return lost  # a server that is gone is not waited for twice
    try:
        with store.errors("The run stays open."):
            run = store.client.get_run(run_id).info
            if not keeps_finished or run.status == "RUNNING":
                # MLflow changes nothing of a run that was deleted meanwhile: it is brought back for a moment.
                if is_deleted := run.lifecycle_stage == "deleted":
                    store.client.restore_run(run_id)
                store.client.set_terminated(run_id, "FAILED" if isinstance(after, Exception) else "KILLED")
                if is_deleted:
                    store.client.delete_run(run_id)
    except TrackingError as error:
        return str(error)
    return None


def trace_links(run: Run, experiment_id: str, n_traces: int) -> dict[str, str]:
    """Return the tags by which a run's description, and our pages, lead to its traces: they may be elsewhere."""
    run_id, note = run.info.run_id, run.data.tags.get(keys.TAG_NOTE, "")
    link = f" [{n_traces} of its calls as traces]({Addresses(FOLDER).traces(experiment_id, run_id)})."
    # In the first paragraph, with the other links; publishing again finds it there.
    links, apart, text = note.partition(_APART)
    leads = links.startswith(_first_link(run_id))
    told = {keys.TAG_NOTE: f"{links.replace(link, '')}{link}{apart}{text}"} if leads else {}
    return {**told, keys.TAG_TRACES_EXPERIMENT: experiment_id}


_AHEAD_S = 10.0
_FIRST_CALLS_S = 0.4
"""Seconds that belong to the first calls alone: until all slots are full, whatever else is done delays them."""


class LoggedAhead(AbstractContextManager["LoggedAhead"]):
    """Logs what is known of a run before its first answer, in a thread of its own, while the judge is waited for."""

    def __init__(self, store: Store, run_id: str, suite: Suite, params: Mapping[str, Mapping[str, object]]) -> None:
        """Begin."""
        self._store, self._run_id, self._suite, self._params = store, run_id, suite, params
        self._is_logged, self._due = False, threading.Event()
        self._thread = threading.Thread(target=self._log, name="jrh-ahead", daemon=True)
        self._thread.start()

    def __enter__(self) -> LoggedAhead:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # A run that has failed is not written to any more, but a server that is gone would keep it for minutes.
        self._due.set()
        if isinstance(error, Exception):
            self._thread.join(_AHEAD_S)

    def has_suite(self) -> bool:
        """Wait for the end; False where the store took not all of it: then it is logged again with the rest."""
        self._due.set()
        self._thread.join()
        return self._is_logged

    def _log(self) -> None:
        self._due.wait(_FIRST_CALLS_S)
        # Whatever is wrong with the store is said when the rest is logged, or is over by then.
        with suppress(Exception):
            self._store.log_batch(self._run_id, params=keys.grouped_params(self._params))
            with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
                self._suite.save(Path(folder) / keys.SUITE_FOLDER)
                self._store.client.log_artifacts(self._run_id, folder)
            self._store.log_dataset(self._run_id, self._suite)
            self._is_logged = True


def publish(
    store: Store,
    run_id: str,
    content: RunContent,
    *,
    what_now: str,
    is_new: bool = False,
    replaces: bool = False,
    has_suite: bool = False,
) -> dict[str, float]:
    """Write a run's content, mark the run as finished, and return the metrics as MLflow shows them.

    Artifacts come first, the numbers after them in one batch, so a run has all of its numbers or none; traces come
    last, because they are a view, and a run must not lack its numbers because of one. Publishing again what was cut
    short writes what is missing; with `replaces` it takes the place of what stood there, for work that went on. With
    `has_suite` the run has its suite already (`LoggedAhead`).

    Raises:
        TrackingError: when MLflow does not take it; `what_now` says what is safe, and what to do.
    """
    note = _note(run_id, content)
    content = replace(content, save_suite=False) if has_suite else content
    with store.errors(what_now):
        with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
            write_artifacts(Path(folder), content)
            store.client.log_artifacts(run_id, folder)
        # A run that is published again may have its numbers already: a second point of each would change its charts.
        stood = None if is_new else store.client.get_run(run_id).data
        logged: dict[str, float] = stood.metrics if stood else {}
        if replaces and stood and keys.TAG_TRUNCATED in stood.tags and keys.TAG_TRUNCATED not in content.tags:
            store.client.delete_tag(run_id, keys.TAG_TRUNCATED)
        if replaces or metric_keys.CALLS_TOTAL not in logged:
            if content.suite is not None:
                if not has_suite:
                    store.log_dataset(run_id, content.suite)
                if content.saves_suite_view:
                    store.save_view(content.suite.name)
            params = keys.grouped_params(content.params)
            tags = {**content.tags, keys.TAG_NOTE: note}
            store.log_batch(run_id, points=content.points, params=params, tags=tags)
            logged = keys.last_values(content.points)
        store.client.set_terminated(run_id, "FINISHED")
        if content.traces is not None:
            content.traces(store, run_id)
    return logged


def _note(run_id: str, content: RunContent) -> str:
    has_calls = keys.CALLS_FILE in content.artifacts
    return run_description(content.description, run_id, has_calls=has_calls, artifact=content.described_in)


@cache
def say_once(text: str) -> None:
    """Tell the user, once in the life of the process."""
    say(text)


def add_to_run(
    store: Store,
    run_id: str,
    *,
    points: Sequence[keys.Point],
    artifacts: Mapping[str, Artifact],
    tags: Mapping[str, str],
    what_now: str,
) -> None:
    """Add numbers, tags and files to a run that somebody else made; all else of it stays as it is.

    Raises:
        TrackingError: when MLflow does not take them.
    """
    with store.errors(what_now), tempfile.TemporaryDirectory(prefix="jrh-") as folder:
        for name, artifact in artifacts.items():
            _write_artifact(Path(folder) / name, artifact)
        store.client.log_artifacts(run_id, folder)
        store.log_batch(run_id, points=points, tags=tags)


def keep_failed(store: Store, run_id: str, content: RunContent) -> None:
    """Write what a run holds that failed before it had a number; the run is not ended here.

    Raises:
        TrackingError: when MLflow does not take it.
    """
    with store.errors("The run has no calls on it."):
        with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
            write_artifacts(Path(folder), content)
            store.client.log_artifacts(run_id, folder)
        store.log_batch(
            run_id, points=(), params=keys.grouped_params(content.params), tags={keys.TAG_NOTE: _note(run_id, content)}
        )


def log_paid(store: Store, run_id: str, paid: Paid | None) -> None:
    """Leave on a run that ends without numbers what its attempts came to; never instead of the reason why it ends."""
    if paid is None or not paid.calls:
        return
    try:
        with store.errors("The run does not say what was paid."):
            store.log_batch(run_id, points=keys.money_points(paid))
    except TrackingError as error:
        say(str(error))


def write_artifacts(folder: Path, content: RunContent) -> None:
    """Lay the artifacts of a run out under their public names."""
    if content.suite is not None and content.save_suite:
        content.suite.save(folder / keys.SUITE_FOLDER)
    for name, artifact in content.artifacts.items():
        _write_artifact(folder / name, artifact)


def _write_artifact(path: Path, artifact: Artifact) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(artifact, bytes):
        path.write_bytes(artifact)
    elif isinstance(artifact, str):
        path.write_text(artifact, encoding="utf-8")
    elif isinstance(artifact, Mapping):
        data = json.dumps(artifact, indent=1, ensure_ascii=False, allow_nan=False)
        path.write_text(data + "\n", encoding="utf-8")
    elif isinstance(artifact, Suite):
        artifact.save(path)
    elif path.suffix == ".parquet":
        write_calls(artifact, path)
    else:
        write_csv(artifact, path)


_BUSY_MS = 60_000
"""How long a SQLite connection waits for the file while others write to it."""


@cache
def wait_for_sqlite() -> None:
    """Let SQLite connections of this process wait a minute for a file that others write to, instead of five seconds."""
    from sqlalchemy import event
    from sqlalchemy.pool import Pool

    @event.listens_for(Pool, "checkout")
    def patient(connection: Any, record: Any, _: Any) -> None:
        # Those that are open already, too, and each once.
        if type(connection).__module__.startswith("sqlite3") and "jrh_waits" not in record.info:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            record.info["jrh_waits"] = True


def table_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write rows as the artifact."""
    columns = list(rows[0]) if rows else []
    return json.dumps({"columns": columns, "data": [list(row.values()) for row in rows]}, allow_nan=False)


def table_tags(name: str) -> dict[str, str]:
    """Return the tag by which MLflow knows that an artifact is a table."""
    return {keys.TAG_LOGGED_ARTIFACTS: json.dumps([{"path": name, "type": "table"}])}


def axes_table(readings: Mapping[str, Reading]) -> str:
    """Write one row per axis: its number with n and intervals, or why there is none."""
    return table_text([{"axis": axis, **reading_columns(reading)} for axis, reading in readings.items()])


_APART = "\n\n"
_LINK_TO_TRACES = 250
"""Characters that are left for it: traces are written after the description."""
_TITLE = re.compile(r"\A# .*\n\n(?=\*\*)")
"""Before a verdict."""


def run_description(markdown: str, run_id: str, *, has_calls: bool, artifact: str) -> str:
    """Return a description that begins with the links and the verdict; what does not fit is in the artifact.

    MLflow folds a description after some lines, and only what stands first can be clicked and read before it is
    unfolded: a title is left out before a verdict, since MLflow shows the name of the run above. The links are
    relative: MLflow's page is found under whatever prefix, and ours is beside it.

    Example:
        >>> print(run_description("# Jury", "0a1b", has_calls=False, artifact="jury.md"))
        [Page of this run](jrh/run/0a1b), where `jrh ui` serves it.
        <BLANKLINE>
        # Jury
    """
    links = _links(run_id, has_calls=has_calls)
    markdown = _TITLE.sub("", markdown)
    most = MAX_DESCRIPTION - len(links) - len(_APART) - (_LINK_TO_TRACES if has_calls else 0)
    return f"{links}{_APART}{shortened(markdown, artifact=artifact, most=most)}"


def own_text(description: str, run_id: str) -> str:
    """Return a description without the links that lead to the page on which it is shown."""
    links, _, text = description.partition(_APART)
    return text if links.startswith(_first_link(run_id)) else description


def _links(run_id: str, *, has_calls: bool) -> str:
    to = Addresses(FOLDER)
    calls = f" and [its calls]({to.calls(run_id)})" if has_calls else ""
    return f"{_first_link(run_id)}{calls}, where `jrh ui` serves {'them' if has_calls else 'it'}."


def _first_link(run_id: str) -> str:
    return f"[Page of this run]({Addresses(FOLDER).run(run_id)})"
