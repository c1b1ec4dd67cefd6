"""What one scorer and people said about traces: those of `mlflow.genai.evaluate`, of a run of it, or of an experiment.

Values are read from the assessments, never from the columns `<scorer>/value` of a result: there a person's feedback of
the same name, or an expectation, may stand in the place of the scorer's.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.people.labels.assessments import (
    _FACTS,
    LLM_JUDGE,
    Rating,
    TraceRatings,
    _facts,
    _same,
    find_traces,
    read_assessments,
)
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import find_run
from jrh_mlflow.tracking.runs.store import active_uri, paged, reading_client

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient
    from mlflow.entities import Trace

_TRACES_AT_ONCE = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredTrace:
    """One trace: what the scorer said, and what each person said."""

    trace_id: str
    verdict: Any
    """As MLflow keeps it; None where the scorer failed or said nothing."""
    people: tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class ScoredTraces:
    """What one scorer said about traces."""

    scorer: str
    traces: tuple[ScoredTrace, ...]
    judge: Mapping[str, str]
    """What is known of the scorer: source, model, version, digest of its definition."""
    failed: int
    """Traces on which the scorer failed."""
    run_id: str | None = None
    """The run of the evaluation."""
    experiment_id: str | None = None
    """Where the traces lie; None where only the result in hand was read."""
    uri: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceRun:
    """A run that verdicts or calibration may come from."""

    run_id: str
    kind: str | None
    """Of ours; None for a run that another program logged."""
    experiment_id: str
    judge: Mapping[str, str]
    """Its params `judge.*`, without that beginning."""
    labels: tuple[str, ...]
    """Of an agreement: what judge and people could say."""
    positive: str | None
    """Of an agreement: the label that its calibration is about."""
    metrics: frozenset[str]
    """Names of those that it has."""
    simulated: bool


def source_run(text: str, *, tracking_uri: str | None) -> SourceRun:
    """Look a run up by its id or `runs:/<id>`.

    Raises:
        RecipeError: when there is none.
        TrackingError: when MLflow cannot be reached.
    """
    uri = tracking_uri or active_uri()
    with reading_client(uri) as client:
        run = find_run(client, text, uri)
        kind = run.data.tags.get(keys.TAG_KIND)
        labels, positive = _labels_of(client, run.info.run_id) if kind == "agree" else ((), None)
    return SourceRun(
        run_id=str(run.info.run_id),
        kind=kind,
        experiment_id=str(run.info.experiment_id),
        judge=keys.param_group(run.data.params, "judge"),
        labels=labels,
        positive=positive,
        metrics=frozenset(run.data.metrics),
        simulated=run.data.tags.get(keys.TAG_SIMULATED) == "true",
    )


def _labels_of(client: MlflowClient, run_id: str) -> tuple[tuple[str, ...], str | None]:
    """Read the labels of an agreement, and its positive one, from its file: params are cut, and labels hold commas."""
    with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
        file = Path(client.download_artifacts(run_id, keys.AGREEMENT_JSON, folder))
        told = json.loads(file.read_text(encoding="utf-8"))
    return tuple(told["levels"]), told.get("positive")


def calibration_table(
    run: SourceRun, read: Callable[[Path], pd.DataFrame], *, tracking_uri: str | None
) -> pd.DataFrame:
    """Read the calibration that a run of kind `agree` holds.

    Raises:
        RecipeError: when it holds none, since no label of it is known to be the positive one.
    """
    uri, name = tracking_uri or active_uri(), keys.CALIBRATION_FILE
    with reading_client(uri) as client, tempfile.TemporaryDirectory(prefix="jrh-") as folder:
        if name not in {file.path for file in client.list_artifacts(run.run_id, keys.TABLES_FOLDER)}:
            raise RecipeError(
                f"Run {run.run_id} has no {name}: it was logged without a judge or without a positive label. "
                "Run `jrh agree` again with positive= (--positive)."
            )
        return read(Path(client.download_artifacts(run.run_id, name, folder)))


def scores_of_result(
    result: Any, *, scorer: str | None, human: str | None, tracking_uri: str | None, fresh: bool
) -> ScoredTraces:
    """Read what `mlflow.genai.evaluate` returned; `fresh` asks the store, where people may have labelled since.

    Raises:
        RecipeError: when there is no such scorer, or several and none is named.
    """
    frame, run_id = result.result_df, str(result.run_id)
    if fresh or frame is None or "trace_id" not in frame:
        return scores_of_run(run_id, scorer=scorer, human=human, tracking_uri=tracking_uri)
    if "assessments" not in frame:
        return replace(_by_columns(frame, scorer), run_id=run_id, uri=tracking_uri or active_uri())
    ratings = {
        str(trace): _read_snapshot(str(trace), each, run_id)
        for trace, each in zip(frame["trace_id"], frame["assessments"], strict=True)
    }
    found = _scored(ratings, scorer=scorer, human=human)
    return replace(found, run_id=run_id, uri=tracking_uri or active_uri())


def scores_of_run(run_id: str, *, scorer: str | None, human: str | None, tracking_uri: str | None) -> ScoredTraces:
    """Read what scorers and people said about the traces of an evaluation's run.

    Raises:
        RecipeError: when the run has no traces with feedback, or no such scorer.
        TrackingError: when MLflow cannot be reached.
    """
    uri = tracking_uri or active_uri()
    run = source_run(run_id, tracking_uri=uri)
    traces = paged(lambda token: _page(uri, run, token))
    ratings = {trace.info.trace_id: read_assessments(trace.info, verdicts_of_run=run.run_id) for trace in traces}
    if not ratings:
        raise RecipeError(f"Run {run.run_id} has no traces: it is no run of mlflow.genai.evaluate.")
    found = _scored(ratings, scorer=scorer, human=human)
    return replace(found, run_id=run.run_id, experiment_id=run.experiment_id, uri=uri)


def scores_of_traces(
    source: str | Sequence[Trace], *, scorer: str | None, human: str | None, tracking_uri: str | None
) -> ScoredTraces:
    """Read what scorers and people said about traces, or about those of an experiment, `traces:/<name>`."""
    uri = tracking_uri or active_uri()
    infos = [trace.info for trace in find_traces(source, uri, None, spans=False)]
    found = _scored({info.trace_id: read_assessments(info) for info in infos}, scorer=scorer, human=human)
    return replace(found, experiment_id=str(infos[0].experiment_id), uri=uri)


def _by_columns(frame: pd.DataFrame, scorer: str | None) -> ScoredTraces:
    """Read a result that was cut down to its columns `<scorer>/value`: what failed has an `error_message` beside it."""
    names = [str(name).removesuffix("/value") for name in frame.columns if str(name).endswith("/value")]
    if scorer not in names and (scorer is not None or len(names) != 1):
        known = ", ".join(names) or "none"
        raise RecipeError(f"Say which scorer of the result is meant: scorer= (--scorer). There are: {known}.")
    name = scorer or names[0]
    errors = frame.get(f"{name}/error_message")
    broken = [False] * len(frame) if errors is None else errors.notna().tolist()
    traces = tuple(
        ScoredTrace(trace_id=str(trace), verdict=None if failed else value, people=())
        for trace, value, failed in zip(frame["trace_id"], frame[f"{name}/value"], broken, strict=True)
    )
    return ScoredTraces(scorer=name, traces=traces, judge={"name": name}, failed=sum(broken))


def _page(uri: str, run: SourceRun, token: str | None) -> Any:
    with reading_client(uri) as client:
        return client.search_traces(
            locations=[run.experiment_id],
            run_id=run.run_id,
            max_results=_TRACES_AT_ONCE,
            page_token=token,
            include_spans=False,
        )


def _read_snapshot(trace_id: str, cells: object, run_id: str) -> TraceRatings:
    """Read the assessments of one row of a result."""
    from mlflow.entities import Assessment, TraceInfo, TraceLocation, TraceState

    listed = list(cells) if isinstance(cells, Iterable) else []
    found = [Assessment.from_dictionary(one) if isinstance(one, dict) else one for one in listed]
    where = TraceLocation.from_experiment_id("0")
    info = TraceInfo(trace_id=trace_id, trace_location=where, request_time=0, state=TraceState.OK, assessments=found)
    return read_assessments(info, verdicts_of_run=run_id)


def _scored(ratings: Mapping[str, TraceRatings], *, scorer: str | None, human: str | None) -> ScoredTraces:
    own = _chosen(ratings.values(), scorer)
    name = own[0].name
    _check_one_judge(own)
    verdicts = {one.trace_id: one.label for one in own}
    traces = tuple(
        ScoredTrace(
            trace_id=trace_id,
            verdict=verdicts.get(trace_id),
            people=tuple(one.label for one in each.people if _same(one.name, human or name)),
        )
        for trace_id, each in ratings.items()
    )
    failed = sum(
        any(reason == "failed" and _same(of, name) for of, reason in each.left_out) and trace_id not in verdicts
        for trace_id, each in ratings.items()
    )
    return ScoredTraces(scorer=name, traces=traces, judge=_facts(own), failed=failed)


def _chosen(ratings: Collection[TraceRatings], scorer: str | None) -> list[Rating]:
    """Find what one scorer said, by the name of its feedback or by its source; beside code a model is the judge."""
    judges = [one for each in ratings for one in each.judges]
    names = sorted({one.name for one in judges})
    if scorer is None and len(names) > 1:
        shared = [name for name in names if any(_same(name, one.name) for each in ratings for one in each.people)]
        if len(shared) != 1:
            raise RecipeError(f"Several scorers gave feedback: {', '.join(names)}. Say which one: scorer= (--scorer).")
        scorer = shared[0]
    named = [one for one in judges if scorer is None or _same(one.name, scorer)]
    models = [one for one in named if one.source_type == LLM_JUDGE]
    found = models or named or [one for one in judges if scorer in (one.rater, one.source_id)]
    if found:
        return found
    failed = sum(count for each in ratings for (_, reason), count in each.left_out.items() if reason == "failed")
    lost = f" ({failed} failed)" if failed else ""
    if not names:
        raise RecipeError(f"No scorer gave a verdict on these traces{lost}: feedback of models and code is looked for.")
    known = f"{suggest(str(scorer), names)} There are: {', '.join(names)}."
    raise RecipeError(f"No scorer {scorer!r} gave a verdict on these traces{lost}.{known}")


def _check_one_judge(verdicts: Sequence[Rating]) -> None:
    """Refuse verdicts of several sources, or of several definitions of a scorer: no one calibration holds for them."""
    name, raters = verdicts[0].name, sorted({one.rater for one in verdicts})
    if len(raters) > 1 or len({one.name for one in verdicts}) > 1:
        raise RecipeError(f"Several judges gave {name!r}: {', '.join(raters)}. Say which one: scorer= (--scorer).")
    for what, key in {"digests": _FACTS["scorer_digest"], "versions": _FACTS["scorer_version"]}.items():
        found = sorted({one.metadata[key] for one in verdicts if key in one.metadata})
        if len(found) > 1:
            raise RecipeError(
                f"The verdicts of {name!r} come from {len(found)} definitions of it ({what} {', '.join(found)}). A "
                "correction is of one judge: take the run of one evaluation."
            )
