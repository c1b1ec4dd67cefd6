"""Judges as they were measured: what a run of `evaluate` knows of its judge, and the runs that measured a judge.

A run of before there were definitions has the judge's settings and its prompt. A judge made of them is the measured one
if it would send, call by call, what the run's calls say was sent; otherwise the run has no definition, and says why.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import Judge
from jrh_mlflow.schema.estimates import Reading, read_reading
from jrh_mlflow.suites.suite import Suite, read_suite
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking import keys
from jrh_mlflow.tracking.definitions import judge_from
from jrh_mlflow.tracking.outbox import shown_name
from jrh_mlflow.tracking.read import check_evaluation, experiment_names, find_run, finished_runs
from jrh_mlflow.tracking.store import active_uri, reading_client, run_link

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_POSITIONAL = ("positional_false_preference", "natural/positional")
"""What says how often the order of a pair decides; the second where only natural pairs were asked."""


@dataclass(frozen=True, kw_only=True)
class MeasuredJudge:
    """A judge as one run measured it."""

    run_id: str
    name: str
    """Of the judge."""
    label: str
    """Its name as people see it: a simulated or a recorded judge says so."""
    experiment: str
    experiment_id: str
    link: str
    definition: Mapping[str, Any] | None
    """`Judge.definition` of then; None where the run does not tell, as `no_definition` says."""
    no_definition: str
    """Why there is no definition, and what to do; empty where there is one."""
    fingerprint: str | None
    suite_name: str
    suite_sha256: str
    kinds: tuple[str, ...]
    """Of the suite's items: `pair`, `response`, `transcript`."""
    labels: tuple[str, ...] | None
    """What single responses and transcripts may be answered; None for pairs, and where items differ."""
    ordinal: bool | None
    """Whether `labels` are a scale."""
    rubric: str | None
    """The one that all items share; None where they have none or differ."""
    profile: str
    simulated: bool
    recorded: bool
    positional: Reading | None
    """How often the order of a pair decided; None where no pairs were asked."""
    answered_by: tuple[str, ...]
    """Names under which models answered, the most frequent first; empty where the run does not tell."""
    ended_at: int
    """Milliseconds since 1970."""
    truncated: str | None
    """Why calls are missing, or None."""
    params: Mapping[str, str]
    """Of the run."""

    def __repr__(self) -> str:
        return f"MeasuredJudge({brief_name(self.label)} on {brief_name(self.suite_name)}, run {self.run_id[:8]})"

    def judge(self) -> Judge:
        """Make the judge again.

        Raises:
            RecipeError: where the run does not tell all of it.
        """
        if self.definition is None:
            raise RecipeError(self.no_definition)
        return judge_from(self.definition)


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
        return _read(client, found, uri)


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
    chosen = f"tags.`{keys.TAG_FINGERPRINT}` = '{fingerprint}'"
    if registered_name is not None:
        chosen = f"params.`{keys.PARAM_REGISTERED_NAME}` = '{quoted(registered_name)}'"
    uri = tracking_uri or active_uri()
    with reading_client(uri) as client:
        runs = finished_runs(client, "evaluate", list(experiment_names(client)), most=most, chosen=chosen)
        return [_read(client, run, uri) for run in runs]


def quoted(text: str) -> str:
    """Return a text as it may stand between single quotes in a search of MLflow's."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _read(client: MlflowClient, run: Run, uri: str) -> MeasuredJudge:
    run_id, tags = str(run.info.run_id), run.data.tags
    with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
        suite = read_suite(client.download_artifacts(run_id, keys.SUITE_FOLDER, folder), hashes=True)
        facts, sheet = (_json(client, run_id, name, folder) for name in (keys.JUDGE_FILE, keys.DATASHEET_JSON))
    simulated, recorded = (tags.get(tag) == "true" for tag in (keys.TAG_SIMULATED, keys.TAG_RECORDED))
    definition, labels = facts.get("definition"), suite.labels
    return MeasuredJudge(
        run_id=run_id,
        name=str(facts["name"]),
        label=shown_name(str(facts["name"]), simulated=simulated, recorded=recorded),
        experiment=str(client.get_experiment(run.info.experiment_id).name),
        experiment_id=str(run.info.experiment_id),
        link=run_link(uri, run.info.experiment_id, run_id),
        definition=definition,
        no_definition="" if definition else _no_definition(run_id, facts),
        fingerprint=facts.get("fingerprint") or tags.get(keys.TAG_FINGERPRINT),
        suite_name=suite.name,
        suite_sha256=suite.sha256,
        kinds=tuple(sorted({item.kind for item in suite.items})),
        labels=None if labels is None else tuple(labels),
        ordinal=None if labels is None else labels.ordinal,
        rubric=_shared_rubric(suite),
        profile=str(tags.get(keys.TAG_PROFILE, "")),
        simulated=simulated,
        recorded=recorded,
        positional=_positional(sheet.get("estimates", {})),
        answered_by=_names(sheet.get("answered_by", ())),
        ended_at=int(run.info.end_time or run.info.start_time or 0),
        truncated=tags.get(keys.TAG_TRUNCATED),
        params=dict(run.data.params),
    )


def _json(client: MlflowClient, run_id: str, name: str, folder: str) -> dict[str, Any]:
    text = Path(client.download_artifacts(run_id, name, folder)).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


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
    found = [read_reading(estimates[axis]) for axis in _POSITIONAL if axis in estimates]
    return next(iter(found), None)


def _names(answered: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(one["model"]) for one in answered))
