"""Judges as they were measured: what a run of `evaluate` knows of its judge, and the runs that measured a judge."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.exporting.earlier_judges import earlier_definition
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.naming import shown_name
from jrh_mlflow.measures.records import answerers
from jrh_mlflow.schema.estimates import Reading, read_reading
from jrh_mlflow.schema.items import LEVEL_CONDITIONS
from jrh_mlflow.suites.suite import Suite, read_suite
from jrh_mlflow.text import brief_name, clean_text
from jrh_mlflow.tracking.judges.definitions import judge_from
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import (
    check_evaluation,
    downloaded,
    experiment_names,
    find_run,
    finished_runs,
    read_calls,
)
from jrh_mlflow.tracking.runs.store import active_uri, reading_client, run_link

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

POSITIONAL = ("positional_false_preference", "natural/positional")
"""What says how often the order of a pair decides; the second where only natural pairs were asked."""


@dataclass(frozen=True, kw_only=True)
class JudgeRecord:
    """What a run says of its judge, without looking into its suite."""

    run_id: str
    name: str
    """Of the judge."""
    label: str
    """Its name as people see it: a simulated or a recorded judge says so."""
    experiment_id: str
    link: str
    definition: Mapping[str, Any] | None
    """`Judge.definition` of then; None where the run does not tell, as `no_definition` says."""
    no_definition: str
    """Why there is no definition, and what to do; empty where there is one."""
    fingerprint: str | None
    suite_name: str
    suite_sha256: str
    profile: str
    simulated: bool
    recorded: bool
    answered_by: tuple[str, ...]
    """Names under which models answered, the most frequent first; empty where the run does not tell."""
    ended_at: int
    """Milliseconds since 1970."""
    truncated: str | None
    """Why calls are missing, or None."""
    params: Mapping[str, str]
    """Of the run."""

    def __repr__(self) -> str:
        on = f"{brief_name(self.label)} on {brief_name(self.suite_name)}"
        return f"{type(self).__name__}({on}, run {self.run_id[:8]})"

    def judge(self) -> Judge:
        """Make the judge again.

        Raises:
            RecipeError: where the run does not tell all of it.
        """
        if self.definition is None:
            raise RecipeError(self.no_definition)
        return judge_from(self.definition)


@dataclass(frozen=True, kw_only=True, repr=False)
class MeasuredJudge(JudgeRecord):
    """A judge as one run measured it, with what its suite asked and how much the order of a pair decided."""

    experiment: str
    kinds: tuple[str, ...]
    """Of the suite's items: `pair`, `response`, `transcript`."""
    levels: bool
    """Whether they are single responses of known level, of which grades of any form are read."""
    labels: tuple[str, ...] | None
    """What single responses and transcripts may be answered; None for pairs, and where items differ."""
    ordinal: bool | None
    """Whether `labels` are a scale."""
    rubric: str | None
    """The one that all items share; None where they have none or differ."""
    positional: Reading | None
    """How often the order of a pair decided; None where no pairs were asked."""


def measured_judge(run: object, *, tracking_uri: str | None = None) -> MeasuredJudge:
    """Return the judge that a run measured.

    Args:
        run: A run id, `runs:/<id>`, the first eight or more digits of an id, or an object with `run_id`.
        tracking_uri: MLflow store; the active one when None.

    Raises:
        RecipeError: when there is no such run, it is no evaluation, or did not finish.
        TrackingError: when MLflow cannot be reached, or the artifacts cannot be read.
    """
    uri, text = tracking_uri or active_uri(), getattr(run, "run_id", run)
    if not isinstance(text, str):
        raise RecipeError(f"A run is its id, runs:/<id> or what `evaluate` returned, but got {type(run).__name__}.")
    with reading_client(uri) as client:
        found = find_run(client, text, uri)
        check_evaluation(found, "used")
        return _measured(client, found, uri)


def measurements(
    *,
    fingerprint: str | None = None,
    registered_name: str | None = None,
    tracking_uri: str | None = None,
    most: int | None = None,
) -> list[MeasuredJudge]:
    """Return what measured a judge, newest first, over all experiments of a store.

    Args:
        fingerprint: `Judge.fingerprint` of the judge.
        registered_name: The name under which an MLflow scorer is registered, whatever its version.
        tracking_uri: MLflow store; the active one when None.
        most: How many of the newest; all when None.

    Raises:
        ValueError: unless one of the two is given.
        TrackingError: when MLflow cannot be reached.
    """
    if (fingerprint is None) == (registered_name is None):
        raise ValueError(f"Give `fingerprint` or `registered_name`, but got {fingerprint=}, {registered_name=}.")
    uri = tracking_uri or active_uri()
    tags = {keys.TAG_FINGERPRINT: fingerprint} if fingerprint else {}
    params = {keys.PARAM_REGISTERED_NAME: registered_name} if registered_name else {}
    with reading_client(uri) as client:
        return [_measured(client, run, uri) for run in _runs_with(client, tags=tags, params=params)[:most]]


def judge_records(
    *,
    tags: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
    trials: bool | None = None,
    tracking_uri: str,
) -> Iterator[JudgeRecord]:
    """Yield what finished evaluations with these tags and params say of their judges, newest first; each when asked.

    Args:
        tags: Of the run.
        params: Of the run.
        trials: Only what a sweep tried, or only other evaluations; both when None.
        tracking_uri: MLflow store.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    with reading_client(tracking_uri) as client:
        runs = _runs_with(client, tags=tags or {}, params=params or {})
    for run in runs:
        if trials is not None and trials != bool(keys.param_group(run.data.params, "choice")):
            continue
        with reading_client(tracking_uri) as client:
            record = _record(client, run, tracking_uri)
        yield record


def judge_record(run: str, *, tracking_uri: str) -> JudgeRecord:
    """Return what one run says of its judge; errors as for `measured_judge`, and for a run that was deleted."""
    with reading_client(tracking_uri) as client:
        found = kept_run(client, run, tracking_uri)
        check_evaluation(found, "used")
        return _record(client, found, tracking_uri)


def link_of(run: str, *, tracking_uri: str) -> str | None:
    """Say where a run of whatever kind can be looked at; None where this store does not have it."""
    with reading_client(tracking_uri) as client:
        try:
            found = kept_run(client, run, tracking_uri)
        except RecipeError:
            return None
    return run_link(tracking_uri, str(found.info.experiment_id), str(found.info.run_id))


def kept_run(client: MlflowClient, run: str, uri: str) -> Run:
    """Return a run of whatever kind.

    Raises:
        RecipeError: when there is none, or it was deleted.
    """
    found = find_run(client, run, uri)
    if found.info.lifecycle_stage == "deleted":
        run_id = found.info.run_id
        raise RecipeError(f"Run {run_id} was deleted. Bring it back with `mlflow runs restore --run-id {run_id}`.")
    return found


def _runs_with(client: MlflowClient, *, tags: Mapping[str, str], params: Mapping[str, str]) -> list[Run]:
    """Find finished evaluations by exact values, newest first."""
    given = [*(("tags", *one) for one in tags.items()), *(("params", *one) for one in params.items())]
    wanted = [(where, key, clean_text(value)) for where, key, value in given]
    chosen = " and ".join(_condition(f"{where}.`{key}`", value) for where, key, value in wanted)
    found = finished_runs(client, "evaluate", list(experiment_names(client)), chosen=chosen)
    return [run for run in found if all(getattr(run.data, where).get(key) == value for where, key, value in wanted)]


def _condition(key: str, value: str) -> str:
    """Ask for a value in the words of MLflow's search, which knows no escapes: what it cannot say matches anything."""
    if not {"'", "\\"} & set(value):
        return f"{key} = '{value}'"
    return f"{key} LIKE '{value.translate({ord(mark): '_' for mark in chr(39) + chr(92)})}'"


def _record(client: MlflowClient, run: Run, uri: str) -> JudgeRecord:
    with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
        return JudgeRecord(**_facts(client, run, uri, folder))


def _measured(client: MlflowClient, run: Run, uri: str) -> MeasuredJudge:
    with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
        suite = read_suite(downloaded(client, run, keys.SUITE_FOLDER, folder), hashes=True)
        labels = suite.labels
        return MeasuredJudge(
            **_facts(client, run, uri, folder),
            experiment=str(client.get_experiment(run.info.experiment_id).name),
            kinds=tuple(sorted({item.kind for item in suite.items})),
            levels=any(item.condition in LEVEL_CONDITIONS for item in suite.items),
            labels=None if labels is None else tuple(labels),
            ordinal=None if labels is None else labels.ordinal,
            rubric=_shared_rubric(suite),
            positional=_positional(_json(client, run, keys.DATASHEET_JSON, folder).get("estimates", {})),
        )


def _facts(client: MlflowClient, run: Run, uri: str, folder: str) -> dict[str, Any]:
    """Return the fields of a `JudgeRecord`."""
    run_id, tags, params = str(run.info.run_id), run.data.tags, run.data.params
    written, sheet = (_json(client, run, name, folder) for name in (keys.JUDGE_FILE, keys.DATASHEET_JSON))
    simulated, recorded = (tags.get(tag) == "true" for tag in (keys.TAG_SIMULATED, keys.TAG_RECORDED))
    name, definition, fingerprint = str(written["name"]), written.get("definition"), written.get("fingerprint")
    if "definition" not in written and (definition := _earlier(client, run, written, folder)) is not None:
        fingerprint = judge_from(definition).fingerprint()
    return {
        "run_id": run_id,
        "name": name,
        "label": shown_name(name, simulated=simulated, recorded=recorded),
        "experiment_id": str(run.info.experiment_id),
        "link": run_link(uri, run.info.experiment_id, run_id),
        "definition": definition,
        "no_definition": "" if definition else _no_definition(run_id, written),
        "fingerprint": fingerprint,
        "suite_name": str(params.get(keys.PARAM_SUITE_NAME, "")),
        "suite_sha256": str(params.get(keys.PARAM_SUITE_SHA256, "")),
        "profile": str(tags.get(keys.TAG_PROFILE, "")),
        "simulated": simulated,
        "recorded": recorded,
        "answered_by": _answered_by(client, run, written, sheet, folder),
        "ended_at": int(run.info.end_time or run.info.start_time or 0),
        "truncated": tags.get(keys.TAG_TRUNCATED),
        "params": dict(params),
    }


def _json(client: MlflowClient, run: Run, name: str, folder: str) -> dict[str, Any]:
    text = downloaded(client, run, name, folder).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def _earlier(client: MlflowClient, run: Run, written: Mapping[str, Any], folder: str) -> dict[str, Any] | None:
    """Make the definition that a run of an earlier version does not hold; None where it cannot be."""
    if written["kind"] not in ("prompted", "scripted"):
        return None
    prompt = downloaded(client, run, keys.PROMPT_FILE, folder).read_text(encoding="utf-8")
    suite = read_suite(downloaded(client, run, keys.SUITE_FOLDER, folder), hashes=True)
    calls, replicates = read_calls(client, run, folder), int(run.data.params.get(keys.PARAM_REPLICATES, 1))
    recorded = run.data.tags.get(keys.TAG_RECORDED) == "true"
    return earlier_definition(written, prompt, suite=suite, calls=calls, replicates=replicates, recorded=recorded)


def _no_definition(run_id: str, facts: Mapping[str, Any]) -> str:
    """Say why a run cannot tell how its judge is made."""
    again = "Measure it again (`jrh evaluate`), or pass the judge itself."
    if facts.get("kind") == "callable":
        return f"The judge of run {run_id} is code, which a run does not keep. Pass the judge itself."
    return f"Run {run_id} does not hold all that its judge {facts['name']!r} is made of. {again}"


def _shared_rubric(suite: Suite) -> str | None:
    rubrics = {item.rubric for item in suite.items}
    return next(iter(rubrics)) if len(rubrics) == 1 and suite.has_texts else None


def _positional(estimates: Mapping[str, Any]) -> Reading | None:
    found = [read_reading(estimates[axis]) for axis in POSITIONAL if axis in estimates]
    return next(iter(found), None)


def _answered_by(
    client: MlflowClient, run: Run, written: Mapping[str, Any], sheet: Mapping[str, Any], folder: str
) -> tuple[str, ...]:
    """Return the names of the models that answered; datasheets of earlier versions do not hold them, but the calls."""
    names = [str(one["model"]) for one in sheet.get("answered_by", ())]
    if not names and written["kind"] == "prompted":
        names = [one.model for one in answerers(read_calls(client, run, folder))]
    return tuple(dict.fromkeys(names))
