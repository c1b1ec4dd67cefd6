"""Logged runs read back from MLflow: evaluations, lists of them, runs of any kind for their pages, suites of runs."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from jrh_mlflow.errors import RecipeError, TrackingError, check_schema_version
from jrh_mlflow.judges import shown_name
from jrh_mlflow.models.trust import check_artifacts
from jrh_mlflow.outputs import check_packed
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Reading, read_reading
from jrh_mlflow.show.cards import brief_run
from jrh_mlflow.show.figures.canvas import FIGURES_FOLDER
from jrh_mlflow.show.run_overview import MOST_RELATED, RunFamily, RunSummary
from jrh_mlflow.suites.suite import MANIFEST_FILE, Suite, read_manifest, read_suite
from jrh_mlflow.text import brief_name, shortened_name
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import (
    Store,
    active_uri,
    condition,
    if_there,
    own_text,
    paged,
    reading_client,
    run_link,
)
from jrh_mlflow.tracking.runs.view import shown_uri

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient
    from mlflow.entities import Run

MAX_PAGE_BYTES = 64 * 2**20
"""Of a logged page: ours hold a few figures, but anybody may log a run."""
_RUN_ID = re.compile("[0-9a-f]{32}")
_PREFIX = re.compile("[0-9a-f]{8,31}")
_SHA256 = re.compile("[0-9a-f]{64}")
_RUNS_AT_ONCE = 200
"""Runs asked for at once: each comes with all its metrics."""
_EXPERIMENTS_AT_ONCE = 500
"""Databases take only so many values in one query."""


@dataclass(frozen=True, kw_only=True)
class LoggedRun:
    """One judge on one suite, as an evaluation logged it."""

    run_id: str
    name: str
    """Of the run."""
    judge: str
    """Label of the judge, or the run's name where one was given; runs loaded together have different ones."""
    simulated: bool
    suite: Suite
    calls: pd.DataFrame
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    """Those that are metrics of the MLflow run."""
    truncated: str | None
    """Why calls are missing, or None."""
    experiment: str
    """Name of the run's experiment."""
    link: str
    recorded: bool = False
    """Whether its answers were given before, and not asked for by this run."""
    experiment_id: str = ""
    fingerprint: str | None = None
    """Of the judge; None where nothing tells it from others."""
    own_label: str = ""
    """What the judge calls itself."""
    shares_name: bool = False
    """Whether a run loaded with it has the same name, so that `judge` has what differs added."""

    def __repr__(self) -> str:
        on = f"{brief_name(self.judge)} on {brief_name(self.suite.name)}"
        return f"LoggedRun({on}: {len(self.calls):,} calls, {brief_run(self.run_id)})"

    @property
    def cost_usd(self) -> float | None:
        """Dollars of all calls, or None when the cost of one is unknown."""
        return keys.whole_total(self.calls, "cost_usd")

    @property
    def facts(self) -> dict[str, object]:
        """What a result made of several runs says of each."""
        return {name: getattr(self, name) for name in ("run_id", "judge", "simulated", "truncated")}


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSuite:
    """A suite as the params of the run that made it tell of it."""

    run_id: str
    name: str
    sha256: str
    n_items: int
    experiment_id: str


@runtime_checkable
class EvaluationInHand(Protocol):
    """What `jrh.evaluate` returned: this floor knows it by what it holds."""

    run_id: str
    tracking_uri: str | None
    suite: Suite
    calls: pd.DataFrame


def run_id_of(run: object) -> str:
    """Return how a run is named in its store.

    Raises:
        RecipeError: when it is neither text nor an evaluation.
    """
    if isinstance(run, str):
        return run
    if isinstance(run, EvaluationInHand):
        return run.run_id
    raise RecipeError(f"A run is an `Evaluation`, a run id, runs:/<id>, or the beginning of an id, but got {run!r}.")


def load_runs(
    runs: Sequence[str],
    *,
    tracking_uri: str | None = None,
    stores: Mapping[str, str] | None = None,
    purpose: str = "compared",
    by_run_name: bool = False,
) -> list[LoggedRun]:
    """Load evaluations by run id, `runs:/<id>`, or the first eight or more digits of an id.

    Runs with the same name get what differs added to it: a setting, or the beginning of the id.

    Args:
        runs: The evaluations.
        tracking_uri: MLflow store; the active one when None.
        stores: Run to its store, for those that are in another one.
        purpose: What is to be done with them, for errors.
        by_run_name: Call a judge as its run, where a name was given to that.

    Raises:
        RecipeError: when a run is named twice, does not exist, is no evaluation, or did not finish.
        TrackingError: when MLflow cannot be reached, or the artifacts cannot be read.
    """
    default = tracking_uri or active_uri()
    places, logged = [(stores or {}).get(text, default) for text in runs], []
    for text, uri in zip(runs, places, strict=True):
        with reading_client(uri) as client:
            logged.append(find_run(client, text, uri))
    # By their ids: one run may be given as its id here and as the beginning of it there.
    twice = [run_id for run_id, count in Counter(run.info.run_id for run in logged).items() if count > 1]
    if twice:
        raise RecipeError(f"Run {twice[0]} is named twice: a judge is not compared with itself.")
    loaded, suites, experiments = [], dict[str, Suite](), dict[tuple[str, str], str]()
    for run, uri in zip(logged, places, strict=True):
        with reading_client(uri) as client:
            place = uri, str(run.info.experiment_id)
            if place not in experiments:
                experiments[place] = str(client.get_experiment(place[1]).name)
            loaded.append(_load(client, run, uri, purpose, suites, experiment=experiments[place]))
    return _distinguished([_by_run_name(run) for run in loaded] if by_run_name else loaded)


@dataclass(frozen=True, kw_only=True)
class LoggedReadings:
    """What a run of `keys.GATED_KINDS` read, as it logged it."""

    run_id: str
    kind: str
    name: str
    simulated: bool
    readings: Mapping[str, Reading]
    settings: Mapping[str, str]
    """Params of its kind."""
    metrics: Mapping[str, float]
    digest: str
    """Of the readings: the same ones again are no new look."""


def logged_readings(run: str, *, tracking_uri: str) -> LoggedReadings | None:
    """Return the readings of a run that can be gated without being an evaluation; None for every other run.

    Raises:
        RecipeError: when there is no such run, or it did not finish.
        TrackingError: when MLflow cannot be reached, or the artifact cannot be read.
    """
    with reading_client(tracking_uri) as client:
        found = find_run(client, run, tracking_uri)
        kind = str(found.data.tags.get(keys.TAG_KIND))
        if kind not in keys.GATED_KINDS:
            return None
        if found.info.status != "FINISHED":
            raise RecipeError(f"Run {found.info.run_id} is {found.info.status}, not FINISHED: run it again.")
        with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
            data = json_artifact(client, found, keys.READINGS_JSON, folder)
    return LoggedReadings(
        run_id=str(found.info.run_id),
        kind=kind,
        name=str(found.info.run_name),
        simulated=found.data.tags.get(keys.TAG_SIMULATED) == "true",
        readings={key: read_reading(reading) for key, reading in data.items()},
        settings=keys.param_group(found.data.params, kind),
        metrics=dict(found.data.metrics),
        digest=hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest(),
    )


def check_same_suite(first: LoggedRun, other: LoggedRun) -> None:
    """Refuse two runs that were not measured on the same items.

    Raises:
        RecipeError: with what differs.
    """
    if first.suite.sha256 == other.suite.sha256:
        return
    differ = "; ".join(suite_differences(first.suite, other.suite))
    raise RecipeError(
        f"Runs {first.run_id[:8]} ({first.judge}) and {other.run_id[:8]} ({other.judge}) are on different suites: "
        f"{differ}. Evaluate both on one suite: `jrh evaluate --suite runs:/{first.run_id}/suite`."
    )


def suite_differences(a: Suite, b: Suite) -> list[str]:
    """Say how two suites differ: names, hashes, conditions and items of one only, changed items."""
    ours, theirs = ({item.id: item for item in suite.items} for suite in (a, b))
    conditions = [{item.condition for item in suite.items} for suite in (a, b)]
    changed = [name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]]
    differences = [f"sha256 {a.sha256[:12]}… and {b.sha256[:12]}…"]
    differences += [f"names {a.name!r} and {b.name!r}"] if a.name != b.name else []
    for what, (first, second) in {"conditions": conditions, "items": [set(ours), set(theirs)]}.items():
        for which, names in {"first": first - second, "second": second - first}.items():
            differences += [f"{len(names)} {what} in the {which} only ({_some(names)})"] if names else []
    differences += [f"{len(changed)} item(s) changed ({_some(changed)})"] if changed else []
    if len(differences) == 1:
        differences.append("the order of the items")
    return differences


def _some(names: set[str] | list[str]) -> str:
    return ", ".join(sorted(names)[:3]) + (", …" if len(names) > 3 else "")


def ended(runs: Sequence[str], tracking_uri: str) -> tuple[int, ...]:
    """Return when each run ended: what is made of finished runs holds until one of them is asked on.

    Raises:
        RecipeError: when a run does not exist.
        TrackingError: when MLflow cannot be reached.
    """
    with reading_client(tracking_uri) as client:
        return tuple(int(find_run(client, text, tracking_uri).info.end_time or 0) for text in runs)


def _shared_suite(client: MlflowClient, run: Run, folder: str, known: dict[str, Suite]) -> Suite:
    """Read the suite of a run; one that many runs hold is read and checked once for all that are loaded together."""
    claimed = f"{run.data.params.get(keys.PARAM_SUITE_NAME)} {run.data.params.get(keys.PARAM_SUITE_SHA256)}"
    if claimed in known:
        # Params cannot be changed, and the items behind this hash were checked against it.
        return known[claimed]
    suite = read_suite(downloaded(client, run, keys.SUITE_FOLDER, folder), hashes=True)
    known[f"{suite.name} {suite.sha256}"] = suite
    return suite


def run_notes(runs: Sequence[LoggedRun]) -> list[str]:
    """Say what a reader must know of the runs that a result is made of."""
    simulated = [run.judge for run in runs if run.simulated]
    notes = [f"Simulated judges, not models: {', '.join(simulated)}."] if simulated else []
    return notes + [f"{run.judge} is truncated ({run.truncated})." for run in runs if run.truncated]


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedStep:
    """A run of a pipeline that an earlier start brought to its end."""

    run_id: str
    metrics: dict[str, float]
    link: str


def finished_step(step: str, *, tracking_uri: str | None, experiment: str | None) -> FinishedStep | None:
    """Return the newest finished run of a pipeline's step in an experiment, whole and not truncated; None without one.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    store = Store(tracking_uri, experiment)
    chosen = f"tags.`{keys.TAG_STEP}` = '{step}' and attributes.status = 'FINISHED'"
    with reading_client(store.uri) as client:
        runs = client.search_runs([store.experiment_id], chosen, order_by=["attributes.start_time DESC"])
    # A truncated step is asked again: it goes on from what the journal has.
    whole = [run for run in runs if keys.TAG_TRUNCATED not in run.data.tags]
    if not whole:
        return None
    run_id = str(whole[0].info.run_id)
    return FinishedStep(run_id=run_id, metrics=dict(whole[0].data.metrics), link=store.link(run_id))


def run_file(tracking_uri: str, run_id: str, name: str) -> bytes | None:
    """Return a file of a run, not in a folder, or None when there is no such run, or it has none.

    Raises:
        ValueError: when `run_id` cannot be one.
        TrackingError: when MLflow cannot be reached, or the file is too large to be one of ours.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise ValueError(f"A run id has 32 hexadecimal digits, but got {run_id!r}.")
    with reading_client(tracking_uri) as client:
        # Looked at before it is fetched: what is too large should not fill the disk either.
        size = _size(client, run_id, name)
        if size is None:
            return None
        if size > MAX_PAGE_BYTES:
            limit = f"more than {MAX_PAGE_BYTES:,} are not shown"
            raise TrackingError(f"{name} of run {run_id} has {size:,} bytes: {limit}.")
        with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
            return Path(client.download_artifacts(run_id, name, folder)).read_bytes()


@dataclass(frozen=True, kw_only=True)
class LoggedAttack:
    """An attack as its run holds it."""

    run_id: str
    subject: str
    simulated: bool
    estimates: Mapping[str, Mapping[str, Any]]
    """Axis to what its reading wrote."""
    is_own: bool
    """Whether it was named itself, and not the run that it attacked."""
    look: int
    """How many attacks on the same judge and suite there are up to it."""


def logged_attack(tracking_uri: str, run: str) -> LoggedAttack | None:
    """Return a run that is an attack, or the newest attack on a run; None where there is none.

    Raises:
        RecipeError: when there is no such run.
        TrackingError: when MLflow cannot be reached.
    """
    with reading_client(tracking_uri) as client, tempfile.TemporaryDirectory(prefix="jrh-") as folder:
        named = find_run(client, run, tracking_uri)
        is_own, experiments = named.data.tags.get(keys.TAG_KIND) == "attack", list(experiment_names(client))
        chosen = condition(f"params.`{keys.PARAM_ATTACKED_RUN}`", str(named.info.run_id))
        newest = [named] if is_own else finished_runs(client, "attack", experiments, most=1, chosen=chosen)
        if not newest:
            return None
        attack = newest[0]
        # Each attack on the same judge and suite is a look at the same question.
        same = condition(f"tags.`{keys.TAG_LOOKED_AT}`", attack.data.tags.get(keys.TAG_LOOKED_AT, ""))
        runs = finished_runs(client, "attack", experiments, chosen=same)
        data = json_artifact(client, attack, keys.ATTACK_JSON, folder)
        return LoggedAttack(
            run_id=str(attack.info.run_id),
            subject=str(attack.info.run_name),
            simulated=attack.data.tags.get(keys.TAG_SIMULATED) == "true",
            estimates=data["estimates"],
            is_own=is_own,
            look=sum(1 for other in runs if other.info.start_time <= attack.info.start_time) or 1,
        )


def suites_in_runs(tracking_uri: str, *, kind: str = "generate") -> list[RunSuite]:
    """Return the suites of all finished runs of one kind, newest first.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    with reading_client(tracking_uri) as client:
        suites = [_run_suite(run) for run in finished_runs(client, kind, list(experiment_names(client)))]
    return [suite for suite in suites if suite is not None]


def find_run(client: MlflowClient, text: str, uri: str) -> Run:
    """Return a run by its id, `runs:/<id>`, or the first eight or more digits of the id.

    Raises:
        RecipeError: when there is none, or more than one, or it was deleted.
    """
    run_id = text.removeprefix("runs:/").strip("/")
    if _PREFIX.fullmatch(run_id):
        run_id = _completed(client, run_id)
    if not _RUN_ID.fullmatch(run_id):
        raise RecipeError(f"{text!r} is no run: give a run id, runs:/<id>, or the first eight or more of its digits.")
    run = run_if_there(client, run_id)
    if run is None:
        where = f"There is no run {run_id} in the store at {shown_uri(uri)}"
        raise RecipeError(f"{where}. Name the store with `tracking_uri` (--tracking-uri).")
    if is_deleted(run):
        raise RecipeError(f"Run {run_id} was deleted. Bring it back with `mlflow runs restore --run-id {run_id}`.")
    return run


def is_deleted(run: Run) -> bool:
    """Whether a run was deleted: MLflow goes on giving it to whoever knows its id."""
    return str(run.info.lifecycle_stage) == "deleted"


def run_if_there(client: MlflowClient, run_id: str) -> Run | None:
    """Return a run by its whole id, or None where the store has none."""
    run = if_there(lambda: client.get_run(run_id))
    if run is not None:
        check_artifacts(run.info.artifact_uri, client.tracking_uri)
    return run


def _completed(client: MlflowClient, prefix: str) -> str:
    """Find the one run whose id begins so: an evaluation before any other, which is refused by its kind."""
    experiments = list(experiment_names(client))
    for kind, deleted in (("evaluate", False), (None, False), (None, True)):
        found = finished_runs(client, kind, experiments, chosen=f"attributes.run_id LIKE '{prefix}%'", deleted=deleted)
        same = [str(run.info.run_id) for run in found]
        if len(same) == 1:
            return same[0]
        if same:
            raise RecipeError(f"{len(same)} runs begin with {prefix}: {', '.join(same[:5])}. Give more digits.")
    raise RecipeError(f"No finished evaluation in this store begins with {prefix}. Name the store with --tracking-uri.")


def experiment_names(client: MlflowClient) -> dict[str, str]:
    """Return the names of all experiments by their ids."""
    experiments = paged(lambda token: client.search_experiments(page_token=token))
    return {str(experiment.experiment_id): str(experiment.name) for experiment in experiments}


def finished_runs(
    client: MlflowClient,
    kind: str | None,
    experiments: Sequence[str],
    *,
    most: int | None = None,
    chosen: str | None = None,
    deleted: bool = False,
) -> list[Run]:
    """Return the finished runs of one kind, or of any, newest first: all of them, or the newest `most`.

    `chosen` is a condition more, in the words of MLflow's search; with `deleted` those that were deleted.
    """
    runs = [
        run
        for start in range(0, len(experiments), _EXPERIMENTS_AT_ONCE)
        for run in islice(_runs(client, kind, experiments[start : start + _EXPERIMENTS_AT_ONCE], chosen, deleted), most)
    ]
    # Each part of the experiments has its own newest; of all together they are sorted once more.
    return sorted(runs, key=lambda run: -(run.info.start_time or 0))[:most]


def _runs(
    client: MlflowClient, kind: str | None, experiments: Sequence[str], also: str | None, deleted: bool
) -> Iterator[Run]:
    from mlflow.entities import ViewType

    view = ViewType.DELETED_ONLY if deleted else ViewType.ACTIVE_ONLY
    of_kind = f"tags.`{keys.TAG_KIND}` = '{kind}'" if kind else None
    chosen = " and ".join(filter(None, ("attributes.status = 'FINISHED'", of_kind, also)))
    newest = ["attributes.start_time DESC"]
    return paged(
        lambda token: client.search_runs(
            list(experiments), chosen, view, order_by=newest, max_results=_RUNS_AT_ONCE, page_token=token
        )
    )


def _load(
    client: MlflowClient, run: Run, uri: str, purpose: str, suites: dict[str, Suite], *, experiment: str
) -> LoggedRun:
    check_evaluation(run, purpose)
    tags, run_id = run.data.tags, str(run.info.run_id)
    simulated, recorded = (tags.get(tag) == "true" for tag in (keys.TAG_SIMULATED, keys.TAG_RECORDED))
    with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
        calls = read_calls(client, run, folder)
        suite = _shared_suite(client, run, folder, suites)
        facts = json_artifact(client, run, keys.JUDGE_FILE, folder)
    label = shown_name(str(facts["name"]), simulated=simulated, recorded=recorded)
    return LoggedRun(
        run_id=run_id,
        name=str(run.info.run_name),
        judge=label,
        own_label=label,
        simulated=simulated,
        recorded=recorded,
        suite=suite,
        calls=calls,
        params=dict(run.data.params),
        metrics=dict(run.data.metrics),
        truncated=tags.get(keys.TAG_TRUNCATED),
        fingerprint=tags.get(keys.TAG_FINGERPRINT),
        experiment=experiment,
        experiment_id=str(run.info.experiment_id),
        link=run_link(uri, run.info.experiment_id, run_id),
    )


_WHICH = {
    "criterion_shift": " Its arms are such: name one of the nested runs.",
    "sweep": " Its trials are such: name one of the nested runs.",
    "repair": " The judges that it asked are such: name one of the nested runs.",
    "compare": " The runs that it compares are such: its param compare.runs names them.",
    "jury": " The judges of its panel are such: its param jury.runs names them.",
    "gate": " Name the run that it gated.",
    "watch": " Name the run that it watches.",
    "generate": " Judge its suite first: `jrh evaluate --suite runs:/ID/suite`.",
    "review": " Judge its suite first: `jrh evaluate --suite runs:/ID/suite`.",
    "self_preference": " It has pairs of answers, and several judges.",
    "respond": " It has answers of models to prompts, and no judge.",
    "attack": " Name the run that it attacked: its param attack.run.",
}
"""Where the evaluations behind a run of another kind are."""


def check_evaluation(run: Run, purpose: str) -> None:
    """Refuse a run that is no finished evaluation, with where one is.

    Raises:
        RecipeError: saying what it is.
    """
    run_id, kind = run.info.run_id, run.data.tags.get(keys.TAG_KIND)
    if kind != "evaluate":
        what = "was not logged by jrh" if kind is None else f"is of kind {kind}"
        which = _WHICH.get(str(kind), " Name a run of `jrh evaluate`.").replace("ID", run_id)
        raise RecipeError(f"Run {run_id} ({run.info.run_name}) {what}: only evaluations can be {purpose}.{which}")
    if run.info.status != "FINISHED":
        raise RecipeError(f"Run {run_id} ({run.info.run_name}) is {run.info.status}, not FINISHED: run it again.")
    version = run.data.tags.get(keys.TAG_SCHEMA_VERSION)
    check_schema_version(f"Run {run_id} ({run.info.run_name})", version, error=RecipeError)


def is_artifact(client: MlflowClient, run_id: str, name: str) -> bool:
    """Whether a run has an artifact of a name, as far as its folder tells."""
    folder = name.rpartition("/")[0]
    return name in {file.path for file in client.list_artifacts(run_id, folder or None)}


def downloaded(client: MlflowClient, run: Run, name: str, folder: str) -> Path:
    """Bring an artifact of a run into a folder of this machine."""
    import mlflow

    place = _place(run, name)
    return Path(mlflow.artifacts.download_artifacts(**place, dst_path=folder, tracking_uri=client.tracking_uri))


def _place(run: Run, name: str) -> dict[str, str]:
    """Say where an artifact is, for `mlflow.artifacts`: by the address that the run tells.

    By the run's id MLflow reads the run three times and looks for models, once for every file. That way is left to
    addresses to which no name can be added at the end, and to Databricks, where MLflow adds a profile.
    """
    uri = str(run.info.artifact_uri)
    if uri.startswith("dbfs:") or {"?", "#"} & set(uri):
        return {"run_id": str(run.info.run_id), "artifact_path": name}
    return {"artifact_uri": f"{uri}/{name}"}


def read_calls(client: MlflowClient, run: Run, folder: str, *, without: Collection[str] = ()) -> pd.DataFrame:
    """Return the calls of an evaluation, some columns left out: texts are nearly all of a large file.

    Raises:
        RecipeError: when it has none.
    """
    import mlflow
    import pandas as pd
    from pyarrow import parquet

    name = keys.CALLS_FILE
    beside = mlflow.artifacts.list_artifacts(**_place(run, name.partition("/")[0]), tracking_uri=client.tracking_uri)
    if name not in {file.path for file in beside}:
        raise RecipeError(f"Run {run.info.run_id} has no artifact {name}: without its calls it cannot be compared.")
    path = downloaded(client, run, name, folder)
    columns = [column for column in parquet.read_schema(path).names if column not in without]
    check_packed(path, columns=columns)
    frame: pd.DataFrame = pd.read_parquet(path, columns=columns)
    return frame


def _by_run_name(run: LoggedRun) -> LoggedRun:
    # Unless told otherwise a run is called by its judge, where that is taken also by its suite.
    if not run.name or run.name == run.judge or run.name.startswith(f"{run.judge} on {run.suite.name}"):
        return run
    name = run.name.removesuffix(" (simulated)").removesuffix(" (recorded)")
    return replace(run, judge=shown_name(name, simulated=run.simulated, recorded=run.recorded))


_TELLING = ("tie_criterion", "prompt", "temperature", "reasoning_effort", "rubric", "model", "seed")
"""Settings of judges that tell two of one name apart, the most usual first."""


def _distinguished(runs: list[LoggedRun]) -> list[LoggedRun]:
    """Add what differs where two judges have one name: the judge, a setting, or the beginning of the run's id."""
    counts = Counter(run.judge for run in runs)

    def named(run: LoggedRun, differs: str) -> LoggedRun:
        shared = counts[run.judge] > 1
        return replace(run, judge=f"{run.judge} {differs}", shares_name=True) if shared else run

    told = [named(run, _what_differs(run, [other for other in runs if other.judge == run.judge])) for run in runs]
    if len({run.judge for run in told}) == len(runs):
        return told
    return [named(run, _short_id(run, runs)) for run in runs]


def _what_differs(run: LoggedRun, alike: Sequence[LoggedRun]) -> str:
    if len({other.own_label for other in alike}) == len(alike):
        return f"({shortened_name(run.own_label)})"
    for name in _TELLING:
        values = [keys.param_group(other.params, "judge").get(name, "") for other in alike]
        if len(set(values)) == len(alike) and all(values):
            own = keys.param_group(run.params, "judge")[name]
            return f"({name.replace('_', ' ')} {shortened_name(own, most=24)})"
    return _short_id(run, alike)


def _short_id(run: LoggedRun, runs: Sequence[LoggedRun]) -> str:
    # As many digits as it takes, and no fewer than the eight by which a run can be named.
    others = [other.run_id for other in runs if other is not run]
    return next(
        run.run_id[:length]
        for length in range(8, 33)
        if not any(other.startswith(run.run_id[:length]) for other in others)
    )


def _size(client: MlflowClient, run_id: str, name: str) -> int | None:
    """Bytes of an artifact, or None when there is none."""
    files = if_there(lambda: client.list_artifacts(run_id)) or ()
    return next((int(file.file_size or 0) for file in files if file.path == name and not file.is_dir), None)


def _run_suite(run: Run) -> RunSuite | None:
    """Read a run's params; None where they are not what our own runs write, since anybody may log a run."""
    params, run_id = run.data.params, str(run.info.run_id)
    sha256, n_items = params.get(keys.PARAM_SUITE_SHA256, ""), params.get(keys.PARAM_SUITE_ITEMS, "")
    if not (_SHA256.fullmatch(sha256) and _RUN_ID.fullmatch(run_id) and n_items.isascii() and n_items.isdigit()):
        return None
    name, experiment_id = str(params.get(keys.PARAM_SUITE_NAME, "suite")), str(run.info.experiment_id)
    return RunSuite(run_id=run_id, name=name, sha256=sha256, n_items=int(n_items), experiment_id=experiment_id)


_MOST_OTHERS = 12
"""Other judges of the same suite, the newest ones."""
_TEXTS = ("rationale", "raw")
"""Columns of calls that no page needs: what reasons read stands in `datasheet.json`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedGate:
    """The newest gate of a run."""

    reason: str
    checks: list[dict[str, Any]]
    """None are known where the run of the gate is gone."""
    notes: list[str]
    run_id: str
    experiment_id: str
    """Empty where the run of the gate is gone."""
    started_ms: float | None


@dataclass(frozen=True, kw_only=True)
class LoggedEvaluation:
    """An evaluation as its run holds it."""

    run_id: str
    experiment_id: str
    started: str
    tags: Mapping[str, str]
    seconds: float | None
    sheet: Mapping[str, Any]
    """`datasheet.json`."""
    judge: Mapping[str, Any]
    """`judge/judge.json`."""
    calls: pd.DataFrame
    """Without rationales and raw answers."""
    manifest: Mapping[str, Any]
    """Of the suite."""
    suite: Suite | None
    """Only of reliability tests, whose worst items are shown: it may be large."""
    until: Mapping[str, Any] | None
    gate: LoggedGate | None
    others: Mapping[str, str]
    """Other finished evaluations of the same suite: id to name."""


def logged_evaluation(tracking_uri: str, run_id: str) -> LoggedEvaluation:
    """Read a finished evaluation.

    Args:
        tracking_uri: The store.
        run_id: Whole, or the first eight or more digits.

    Raises:
        RecipeError: when there is no such run, it is no evaluation, or did not finish.
        TrackingError: when MLflow cannot be reached, or the artifacts cannot be read.
    """
    with reading_client(tracking_uri) as client, tempfile.TemporaryDirectory(prefix="jrh-") as folder:
        run = find_run(client, run_id, tracking_uri)
        check_evaluation(run, "shown")
        tags, sheet = run.data.tags, json_artifact(client, run, keys.DATASHEET_JSON, folder)
        # Only a reliability report has scores.
        manifest, suite = _suite(client, run, folder, whole="scores" in sheet)
        return LoggedEvaluation(
            run_id=str(run.info.run_id),
            experiment_id=str(run.info.experiment_id),
            started=summary_of(run).started,
            tags=dict(tags),
            seconds=run.data.metrics.get(metric_keys.SECONDS),
            sheet=sheet,
            judge=json_artifact(client, run, keys.JUDGE_FILE, folder),
            calls=read_calls(client, run, folder, without=_TEXTS),
            manifest=manifest,
            suite=suite,
            until=json_artifact(client, run, keys.UNTIL_JSON, folder) if keys.TAG_UNTIL in tags else None,
            gate=_gate(client, run, folder),
            others=_others(client, run),
        )


def json_artifact(client: MlflowClient, run: Run, name: str, folder: str) -> dict[str, Any]:
    """Read an artifact of a run that is a JSON object; it is left in the folder."""
    data: dict[str, Any] = json.loads(downloaded(client, run, name, folder).read_text(encoding="utf-8"))
    return data


def _suite(client: MlflowClient, run: Run, folder: str, *, whole: bool) -> tuple[Mapping[str, Any], Suite | None]:
    if not whole:
        return read_manifest(downloaded(client, run, f"{keys.SUITE_FOLDER}/{MANIFEST_FILE}", folder)), None
    place = downloaded(client, run, keys.SUITE_FOLDER, folder)
    return read_manifest(place / MANIFEST_FILE), read_suite(place, hashes=True)


def _gate(client: MlflowClient, run: Run, folder: str) -> LoggedGate | None:
    reason, gate_id = run.data.tags.get(keys.TAG_GATE), run.data.tags.get(keys.TAG_GATE_RUN)
    if reason is None or gate_id is None:
        return None
    from mlflow.exceptions import MlflowException

    try:
        gate = client.get_run(gate_id)
        data = json_artifact(client, gate, keys.GATE_JSON, folder)
    except (MlflowException, OSError):
        gone = ["The run of this gate is gone: its rules are not known."]
        return LoggedGate(reason=reason, checks=[], notes=gone, run_id=gate_id, experiment_id="", started_ms=None)
    return LoggedGate(
        reason=reason,
        checks=data["checks"],
        notes=[*data["notes"], *(["The run of this gate was deleted."] if is_deleted(gate) else ())],
        run_id=gate_id,
        experiment_id=str(gate.info.experiment_id),
        started_ms=gate.info.start_time,
    )


def _others(client: MlflowClient, run: Run) -> dict[str, str]:
    sha256 = run.data.params.get(keys.PARAM_SUITE_SHA256, "")
    # It becomes part of a filter, and anybody may log a run.
    if not sha256.isalnum():
        return {}
    chosen = f"params.`{keys.PARAM_SUITE_SHA256}` = '{sha256}'"
    runs = finished_runs(client, "evaluate", list(experiment_names(client)), most=_MOST_OTHERS + 1, chosen=chosen)
    others = [other for other in runs if other.info.run_id != run.info.run_id][:_MOST_OTHERS]
    return {str(other.info.run_id): str(other.info.run_name) for other in others}


_MOST_NAMED = 24
"""Runs that params name and that are looked up one by one."""
_NAMED_ID = re.compile("(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")


def run_summary(tracking_uri: str, run_id: str) -> RunSummary | None:
    """Return a run, or None when there is none.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    with reading_client(tracking_uri) as client:
        run = run_if_there(client, run_id)
    return None if run is None else summary_of(run)


def run_family(tracking_uri: str, run: RunSummary) -> RunFamily:
    """Return what belongs to a run.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    nested = f"tags.`{keys.TAG_PARENT}` = '{run.run_id}'"
    with reading_client(tracking_uri) as client:
        named = (run_if_there(client, run_id) for run_id in run.named[:_MOST_NAMED])
        sources = tuple(summary_of(source) for source in named if source is not None)
        nested_runs = paged(lambda token: client.search_runs([run.experiment_id], nested, page_token=token))
        children = tuple(summary_of(child) for child in islice(nested_runs, MOST_RELATED))
        files = {file.path for file in client.list_artifacts(run.run_id)}
        has_calls = run.kind == "evaluate" and is_artifact(client, run.run_id, keys.CALLS_FILE)
        shown, figures = _page_files(client, run.run_id) if keys.PAGE_JSON in files else (None, {})
    page = keys.LOGGED_PAGES.get(run.kind)
    return RunFamily(
        run=run,
        page=page if page in files else None,
        shown=shown,
        figures=figures,
        has_calls=has_calls,
        sources=sources,
        children=children,
    )


def _page_files(client: MlflowClient, run_id: str) -> tuple[bytes | None, dict[str, bytes]]:
    """Return what the page of a run is made of: its data, and name to figure; what is too large is left out."""
    listed = [*client.list_artifacts(run_id), *client.list_artifacts(run_id, FIGURES_FOLDER)]
    names = [file.path for file in listed if (file.file_size or 0) <= MAX_PAGE_BYTES]
    wanted = [name for name in names if name == keys.PAGE_JSON or name.endswith(".svg")]
    with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
        files = {name: Path(client.download_artifacts(run_id, name, folder)).read_bytes() for name in wanted}
    shown = files.pop(keys.PAGE_JSON, None)
    return shown, {Path(name).stem: content for name, content in files.items()}


def logged_page(tracking_uri: str, run: RunSummary) -> bytes | None:
    """Return the page among a run's artifacts, or None where it has none; errors as of `run_file`."""
    name = keys.LOGGED_PAGES.get(run.kind)
    return None if name is None else run_file(tracking_uri, run.run_id, name)


def summary_of(run: Run) -> RunSummary:
    """Return what a run tells of itself."""
    tags, params, info = run.data.tags, run.data.params, run.info
    name = f"{info.run_name or info.run_id[:8]}{' (deleted)' if is_deleted(run) else ''}"
    started = datetime.fromtimestamp((info.start_time or 0) / 1000, timezone.utc)
    return RunSummary(
        run_id=str(info.run_id),
        name=name,
        kind=str(tags.get(keys.TAG_KIND, "")),
        status="DELETED" if is_deleted(run) else str(info.status),
        started=f"{started:%Y-%m-%d %H:%M} UTC",
        experiment_id=str(info.experiment_id),
        description=own_text(str(tags.get(keys.TAG_NOTE, "")), str(info.run_id)),
        simulated=tags.get(keys.TAG_SIMULATED) == "true",
        recorded=tags.get(keys.TAG_RECORDED) == "true",
        truncated=tags.get(keys.TAG_TRUNCATED),
        judge=str(tags.get(keys.TAG_JUDGE) or params.get(keys.PARAM_MODEL, name)),
        model=str(params.get(keys.PARAM_MODEL, "")),
        suite=str(params.get(keys.PARAM_SUITE_NAME, "")),
        sha256=str(params.get(keys.PARAM_SUITE_SHA256, "")),
        verdict=str(tags.get(keys.TAG_VERDICT) or tags.get(keys.TAG_PROFILE, "")),
        gate=str(tags.get(keys.TAG_GATE, "")).partition(":")[0],
        named=_named(run),
        state=hashlib.sha256(json.dumps([info.status, info.end_time, sorted(tags.items())]).encode()).hexdigest(),
    )


def _named(run: Run) -> tuple[str, ...]:
    """Return the ids of other runs in params and in our own tags, in their order and each once."""
    texts: Iterable[str] = [run.data.tags.get(keys.TAG_PARENT, ""), *run.data.params.values()]
    ours = (value for key, value in run.data.tags.items() if key in keys.RUN_TAGS)
    ids = [run_id for text in (*texts, *ours) for run_id in _NAMED_ID.findall(text)]
    return tuple(dict.fromkeys(run_id for run_id in ids if run_id != run.info.run_id))
