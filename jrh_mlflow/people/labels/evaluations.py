"""Labels of evaluations: our calls and the labels of their suites, agreements, results of `mlflow.genai.evaluate`.

Of a result of MLflow's, values are read from the assessments, never from the columns `<scorer>/value`: there a person's
feedback of the same name, or an expectation, may stand in the place of the scorer's.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.people.labels import (
    JUDGE,
    PERSON,
    LabelOptions,
    LabelSource,
    LabelTable,
    calibration_labels,
    fact_texts,
    long_frame,
    stacked,
)
from jrh_mlflow.people.labels.tables import pair_frame
from jrh_mlflow.people.labels.traces import drawn_facts, trace_labels
from jrh_mlflow.schema.items import BASELINE, NATURAL, NATURAL_TIE, PAIR_CONDITIONS, is_scale
from jrh_mlflow.suites.dataset import DatasetTable, read_table
from jrh_mlflow.suites.labels import people_of
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import LoggedRun, find_run, load_runs, run_notes
from jrh_mlflow.tracking.runs.store import active_uri, reading_client
from jrh_mlflow.tracking.traces.traces_in import read_assessments, read_snapshot, traces_of_run

_RUN = re.compile(r"runs:/.*|[0-9a-f]{8,32}")
_GROUP = "group"
EXPECTED = "expected answer"
"""The rater of what a suite expects of an item."""
LABELLED = (
    "Give a run of `jrh agree` (kind agree), or of `jrh evaluate` on a suite whose unperturbed items have true labels"
)
"""What tells how often a judge errs."""
_PURPOSES = {"labels": "compared", "verdicts": "corrected", "calibration": "read for the judge's errors"}


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceRun:
    """A run that labels may come from, or that a correction is logged to."""

    run_id: str
    kind: str | None
    """Of ours; None for a run that another program logged."""
    experiment_id: str
    judge: Mapping[str, str]
    """Its params `judge.*`, without that beginning."""
    metrics: frozenset[str]
    """Names of those that it has."""
    simulated: bool


def names_run(source: object) -> bool:
    """Whether a text is the id of a run, the beginning of one, or `runs:/<id>`."""
    return isinstance(source, str) and bool(_RUN.fullmatch(source))


def source_run(text: str, *, tracking_uri: str | None) -> SourceRun:
    """Look a run up by its id or `runs:/<id>`.

    Raises:
        RecipeError: when there is none.
        TrackingError: when MLflow cannot be reached.
    """
    uri = tracking_uri or active_uri()
    with reading_client(uri) as client:
        run = find_run(client, text, uri)
    return SourceRun(
        run_id=str(run.info.run_id),
        kind=run.data.tags.get(keys.TAG_KIND),
        experiment_id=str(run.info.experiment_id),
        judge=keys.param_group(run.data.params, "judge"),
        metrics=frozenset(run.data.metrics),
        simulated=run.data.tags.get(keys.TAG_SIMULATED) == "true",
    )


class EvaluationLabels(LabelSource):
    """An `Evaluation`, a result of `mlflow.genai.evaluate`, or the run of one or of an agreement."""

    def takes(self, source: object) -> bool:
        """Whether it is an evaluation or names a run; MLflow's results are known by their fields."""
        return isinstance(source, Evaluation) or names_run(source) or _is_result(source)

    def read(self, source: Any, options: LabelOptions) -> LabelTable:
        """Read what was said about its items."""
        if _is_result(source):
            return _of_result(source, options)
        if isinstance(source, Evaluation):
            uri = options.tracking_uri or source.tracking_uri
            return _of_calls(source.run_id, replace(options, tracking_uri=uri))
        run = source_run(str(source), tracking_uri=options.tracking_uri)
        if run.kind is None and options.part != "labels":
            return _of_traces(run, options.tracking_uri or active_uri(), options)
        if run.kind == "agree" and options.part == "calibration":
            return _calibration(run, options.tracking_uri or active_uri())
        if run.kind != "evaluate" and options.part != "labels":
            raise RecipeError(
                f"Run {run.run_id} is of kind {run.kind}: verdicts are a run of mlflow.genai.evaluate or an evaluation "
                f"on natural pairs, a calibration also a run of kind agree. {LABELLED}."
            )
        return _of_calls(run.run_id, options)


SOURCE = EvaluationLabels()


def _is_result(source: object) -> bool:
    # By its fields: the class is MLflow's, and only `tracking/` imports MLflow.
    return hasattr(source, "result_df") and hasattr(source, "run_id")


def _of_result(result: Any, options: LabelOptions) -> LabelTable:
    """Read what `mlflow.genai.evaluate` returned; the store is asked where people may have labelled since."""
    frame, run_id, uri = result.result_df, str(result.run_id), options.tracking_uri or active_uri()
    if options.fresh or frame is None or "trace_id" not in frame:
        return _of_traces(source_run(run_id, tracking_uri=uri), uri, options)
    known: dict[str, Any] = {"shown": f"run {run_id[:8]}", "run_id": run_id, "tracking_uri": uri}
    if "assessments" not in frame:
        return _by_columns(frame, known)
    rows = zip(frame["trace_id"], frame["assessments"], strict=True)
    ratings = {str(trace): read_snapshot(str(trace), cells, run_id=run_id) for trace, cells in rows}
    return trace_labels(ratings, _facts_of_result(frame, options), **known)


def _facts_of_result(frame: pd.DataFrame, options: LabelOptions) -> dict[str, dict[str, Any]]:
    if not {"trace_metadata", "tags"} <= set(frame):
        return {}
    rows = zip(frame["trace_id"], frame["trace_metadata"], frame["tags"], strict=True)
    return {str(trace): drawn_facts(metadata, tags, options.cluster) for trace, metadata, tags in rows}


def _of_traces(run: SourceRun, uri: str, options: LabelOptions) -> LabelTable:
    """Read what scorers said about the traces of an evaluation's run, and people wherever they said it."""
    infos = [trace.info for trace in traces_of_run(run.experiment_id, run.run_id, uri)]
    ratings = {info.trace_id: read_assessments(info, verdicts_of_run=run.run_id) for info in infos}
    if not ratings:
        raise RecipeError(f"Run {run.run_id} has no traces: it is no run of mlflow.genai.evaluate.")
    known: dict[str, Any] = {"run_id": run.run_id, "experiment_id": run.experiment_id, "tracking_uri": uri}
    facts = {info.trace_id: drawn_facts(info.trace_metadata, info.tags, options.cluster) for info in infos}
    return trace_labels(ratings, facts, shown=f"run {run.run_id[:8]}", **known)


def _by_columns(frame: pd.DataFrame, known: Mapping[str, Any]) -> LabelTable:
    """Read a result that was cut down to its columns `<scorer>/value`: what failed has an `error_message` beside it."""
    blocks = []
    for name in [str(name).removesuffix("/value") for name in frame.columns if str(name).endswith("/value")]:
        errors = frame.get(f"{name}/error_message")
        failed = [False] * len(frame) if errors is None else errors.notna().tolist()
        values = zip(frame[f"{name}/value"].tolist(), failed, strict=True)
        labels, outcomes = (
            [None if lost else value for value, lost in values],
            ["failed" if lost else None for lost in failed],
        )
        blocks.append({"kind": JUDGE, "rater": name, "name": name, "label": labels, "outcome": outcomes})
    n = len(frame)
    of_items: dict[str, Sequence[Any]] = {"item": list(map(str, frame["trace_id"])), "facts": [{}] * n}
    of_items |= dict.fromkeys(("name", "outcome", "source_type", "source_id"), [None] * n) | {
        "is_expectation": [False] * n
    }
    return LabelTable(frame=stacked(of_items, *blocks), of_traces=True, **known)


def _calibration(run: SourceRun, uri: str) -> LabelTable:
    """Read the calibration that a run of kind `agree` holds.

    Raises:
        RecipeError: when it holds none, since no label of it is known to be the positive one.
    """
    name = keys.CALIBRATION_FILE
    with reading_client(uri) as client, tempfile.TemporaryDirectory(prefix="jrh-") as folder:
        if name not in {file.path for file in client.list_artifacts(run.run_id, keys.TABLES_FOLDER)}:
            raise RecipeError(
                f"Run {run.run_id} has no {name}: it was logged without a judge or without a positive label. "
                "Run `jrh agree` again with positive= (--positive)."
            )
        # Texts that a spreadsheet would run are guarded in the file, and the guard is no part of a label.
        table = DatasetTable(read_table(Path(client.download_artifacts(run.run_id, name, folder)))).unguarded()
        # Params are cut, and labels hold commas: the file has them whole.
        file = Path(client.download_artifacts(run.run_id, keys.AGREEMENT_JSON, folder))
        report = json.loads(file.read_text(encoding="utf-8"))
    names = [name for name in ("item", "judge", "human", "cluster", "inclusion") if name in table]
    frame = pd.DataFrame({column: table.cells(column) for column in names})
    return calibration_labels(
        frame,
        shown=f"agreement, run {run.run_id[:8]}",
        levels=report["levels"],
        positive=report.get("positive"),
        facts=fact_texts(run.judge),
        simulated=run.simulated,
        tracking_uri=uri,
    )


def _of_calls(run_id: str, options: LabelOptions) -> LabelTable:
    """Read an evaluation of ours: natural pairs, or the unperturbed items of a suite."""
    (run,) = load_runs([run_id], tracking_uri=options.tracking_uri, purpose=_PURPOSES[options.part])
    known = LabelTable(
        frame=pd.DataFrame(),
        shown=f"{run.suite.name}, run {run.run_id[:8]}",
        simulated=run.simulated,
        tracking_uri=options.tracking_uri,
        experiment=run.experiment,
    )
    if options.part == "labels":
        return _with_people(run, options, known)
    if options.part == "verdicts" or run.calls["condition"].isin((NATURAL, NATURAL_TIE)).any():
        return replace(known, frame=pair_frame(run.calls), facts=fact_texts(keys.param_group(run.params, "judge")))
    return _with_expected(run, known)


def _first_answers(run: LoggedRun) -> pd.DataFrame:
    """Return the judge's first call on each unperturbed item."""
    first: pd.DataFrame = run.calls[(run.calls["condition"] == BASELINE) & (run.calls["replicate"] == 0)]
    return first


def _with_people(run: LoggedRun, options: LabelOptions, known: LabelTable) -> LabelTable:
    """Read the people's labels that a suite carries, and the judge's first answers on the same items.

    Raises:
        RecipeError: when another judge is named, or the suite carries no labels.
    """
    if options.judge not in (None, run.judge):
        raise RecipeError(
            f"The judge of run {run.run_id[:8]} is {run.judge}, not {options.judge!r}: leave `judge` out."
        )
    people = people_of(run.suite)
    if people.empty:
        raise RecipeError(
            f"The suite {run.suite.name!r} of run {run.run_id[:8]} carries no labels of people. Generate it with "
            "`people` (--people), or from traces that people rated."
        )
    # Judge and person may have one name, and a rater is known by the name alone.
    name = f"{run.judge} (judge)" if run.judge in set(people["rater"]) else run.judge
    ended = {str(row.suite_item): (str(row.outcome), str(row.answer)) for row in _first_answers(run).itertuples()}
    answers = {item: ended.get(item, ("not asked", "")) for item in sorted(set(people["item"]))}
    verdicts = {item: answer for item, (outcome, answer) in answers.items() if outcome == "verdict"}
    lost = Counter(outcome for outcome, _ in answers.values() if outcome != "verdict")
    columns: dict[str, Any] = {
        "item": [*people["item"], *verdicts],
        "rater": [*people["rater"], *[name] * len(verdicts)],
        "kind": [PERSON] * len(people) + [JUDGE] * len(verdicts),
        "label": [*people["label"], *verdicts.values()],
    }
    columns["cluster"] = _clusters_of(run, columns["item"], options.cluster)
    groups = _groups_of(run, columns["item"], options.group)
    return replace(
        known,
        frame=long_frame(columns if groups is None else {**columns, _GROUP: groups}),
        judge=name,
        facts={"name": run.judge, "run_id": run.run_id, **keys.param_group(run.params, "judge")},
        params={"suite": keys.suite_facts(run.suite)},
        notes=[*run_notes([run]), *_replicates_note(run), *_lost_note(lost, len(answers))],
        run_id=run.run_id,
        **_scale_of(run),
    )


def _replicates_note(run: LoggedRun) -> list[str]:
    times = int(run.calls.loc[run.calls["condition"] == BASELINE, "replicate"].max()) + 1
    return [f"The judge was asked {times} times about each item: its first answer counts."] if times > 1 else []


def _lost_note(lost: Mapping[str, int], n: int) -> list[str]:
    if not lost:
        return []
    reasons = ", ".join(f"{count:,} {outcome}" for outcome, count in lost.items())
    return [f"The judge gave no verdict on {sum(lost.values()):,} of {n:,} items ({reasons}): they are left out."]


def _groups_of(run: LoggedRun, items: Sequence[str], group: str | None) -> list[object] | None:
    """Return what agreement is also read by: the group of the suite's items where none is named."""
    meta = {item.id: item.meta for item in run.suite.items}
    groups = [meta[item].get(group or _GROUP) for item in items]
    if any(name is not None for name in groups):
        return groups
    if group is None:
        return None
    known = sorted({name for item in items for name in meta[item]})
    raise RecipeError(f"No item with labels of people has {group!r} in its meta.{suggest(group, known)}")


def _clusters_of(run: LoggedRun, items: Sequence[str], cluster: str | None) -> list[object]:
    """Return the source of each item, or the field of its meta that is named."""
    if cluster is not None and not any(cluster in item.meta for item in run.suite.items):
        raise RecipeError(f"No item of the suite has {cluster!r} in its meta.")
    known = {item.id: item.task if cluster is None else item.meta.get(cluster) for item in run.suite.items}
    return [known[item] for item in items]


def _scale_of(run: LoggedRun) -> dict[str, Any]:
    """Return the scale of a suite with ordered labels, and of one with two labels the positive one, the last."""
    labels = run.suite.labels
    if labels is None:
        return {}
    if is_scale(labels) if labels.ordinal is None else labels.ordinal:
        return {"scale": list(labels)}
    return {"positive": labels[-1]} if len(labels) == 2 else {}


def _with_expected(run: LoggedRun, known: LabelTable) -> LabelTable:
    """Read the unperturbed items of a suite that have a true label: of the data, or what most people said.

    Raises:
        RecipeError: when there are none.
    """
    first = _first_answers(run)
    if first.empty:
        what = "a pairwise datasheet" if run.calls["condition"].isin(PAIR_CONDITIONS).any() else "no labelled suite"
        raise RecipeError(
            f"The suite of {known.shown} is {what}: how often the judge errs on one answer is not known. {LABELLED}."
        )
    if "rubric" in first and first["rubric"].nunique() > 1:
        raise RecipeError(f"The suite of {known.shown} has several rubrics: a judge's errors are those on one of them.")
    # A label with a source was written by a model.
    sources = first["label_source"] if "label_source" in first else pd.Series("", index=first.index)
    true = first[(first["expected"].fillna("") != "") & (sources.fillna("") == "")]
    if true.empty:
        raise RecipeError(
            f"The unperturbed items of {known.shown} have no true labels: what a model wrote does not count. "
            f"{LABELLED}."
        )
    answers = true["answer"].where(true["outcome"] == "verdict", None)
    frame = stacked(
        {"item": true["suite_item"].tolist(), "cluster": true["task"].tolist()},
        {"kind": JUDGE, "rater": run.judge, "label": answers},
        {"kind": PERSON, "rater": EXPECTED, "label": true["expected"]},
    )
    called = {JUDGE: f"The judge of run {run.run_id[:8]}", PERSON: f"Suite {run.suite.name!r}"}
    # Ids of a suite are none of the application's, with whose items they must not be matched.
    notes = run_notes([run])
    return replace(known, frame=frame, facts=_identity(run), called=called, notes=notes, has_ids=False)


def _identity(run: LoggedRun) -> dict[str, str]:
    """Return what MLflow tells of a scorer too: its name and model; the name of a function says nothing there."""
    params = keys.param_group(run.params, "judge")
    known = {"mlflow": ("name", "model"), "prompted": ("model",), "raw": ("model",)}.get(params.get("kind", ""), ())
    # Of a scorer that is code the model is its name.
    return fact_texts(
        {key: params[key] for key in known if key in params and (key == "name" or params[key] != params.get("name"))}
    )
