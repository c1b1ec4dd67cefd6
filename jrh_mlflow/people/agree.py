"""`jrh.agree`: how well a judge agrees with people, and people with one another, as an MLflow run of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.people.agreement import measure_agreement
from jrh_mlflow.people.agreement_view import Agreement, agreement_content
from jrh_mlflow.people.label_reader import chosen_by_people, labels_of
from jrh_mlflow.people.labels import CODE, JUDGE, LabelOptions, LabelTable
from jrh_mlflow.people.labels.queues import put_in_queue
from jrh_mlflow.people.ratings import IS_JUDGE, GivenScale, read_ratings
from jrh_mlflow.tracking.runs.store import Store, log_result
from jrh_mlflow.tracking.traces.traces_in import PREFIX

if TYPE_CHECKING:
    pass


def agree(
    source: object,
    *,
    judge: str | None = None,
    item: str = "item",
    rater: str = "rater",
    label: str = "label",
    scale: GivenScale = None,
    positive: object = None,
    epsilon: float = 0.2,
    log: bool = True,
    name: str | None = None,
    group: str | None = None,
    cluster: str | None = None,
    queue: str | None = None,
    experiment: str | None = None,
    run_name: str | None = None,
    tracking_uri: str | None = None,
    max_traces: int | None = None,
    seed: int = 0,
    tags: Mapping[str, str] | None = None,
) -> Agreement:
    """Measure how well a judge agrees with people, and people with one another; no judge is asked anything.

    Args:
        source: A table in long form with one row per item and rater (a DataFrame, a list of dicts, a .csv, .jsonl,
            .parquet or .xlsx file); `traces:/EXPERIMENT`, trace ids or traces; or an evaluation (`Evaluation`, run id,
            `runs:/<id>`) whose suite carries people's labels: its judge is read on the unperturbed items, by its first
            answer.
        judge: The rater that is the judge; of traces the source id of the judge, or the name of its assessment where
            that is another. None: people alone, or the judge of the traces or of the evaluation.
        item: Column of a table that names the item.
        rater: Column that names who labelled it.
        label: Column with the label.
        scale: Labels from low to high, for ordinal labels; `numeric`, or (lowest, highest), for numbers; None for
            labels without an order, of a suite its own.
        positive: The label that sensitivity, specificity and `calibration` are about; true and yes by default, of a
            suite with two labels the last.
        epsilon: Of the alternative annotator test: by how much the judge may fit the others less often than a person
            and still replace them.
        log: Log the agreement as a run of its own, kind `agree`.
        name: Of traces: the assessment that people and judge gave; None takes the only one.
        group: Column, tag of the traces or field of the items' meta that agreement is also read by.
        cluster: Column, tag of the traces or field of the items' meta that says what was sampled together, such as the
            conversation: intervals and tests are then by cluster, and below 10 clusters there are none. None takes the
            column `cluster`, the session of traces, the source of a suite's items.
        queue: Of traces: an MLflow review queue that gets those on which judge and people differ.
        experiment: MLflow experiment of the run; that of the traces or of the evaluation when None.
        run_name: Name of the run.
        tracking_uri: MLflow store of traces, evaluation and run; the active one when None.
        max_traces: Of an experiment, the newest so many.
        seed: Of the resampling.
        tags: More tags for the run.

    Raises:
        RecipeError: in one line, for labels that cannot be used.
        TrackingError: when MLflow cannot be reached.
    """
    options = LabelOptions(
        item=item,
        rater=rater,
        label=label,
        judge=judge,
        group=group,
        cluster=cluster,
        max_traces=max_traces,
        tracking_uri=tracking_uri,
    )
    labels = chosen_by_people(labels_of(source, options), name=name, judge=judge)
    params: dict[str, object] = {"name": labels.name, "run": labels.run_id, "group": group, "cluster": cluster}
    params |= {"queue": queue, "max_traces": max_traces}
    if not labels.of_traces:
        _refuse_trace_options({"name": name, "max_traces": max_traces, "queue": queue})
    scale = labels.scale if scale is None else scale
    ratings = read_ratings(
        labels.frame.assign(**{IS_JUDGE: labels.frame["kind"].isin((JUDGE, CODE))}),
        judge=labels.judge,
        scale=scale,
        group="group" if "group" in labels.frame else None,
        cluster="cluster",
        called=labels.called,
    )
    # Labels of several pairs are read as true and false, and then the suite's own word is none of them.
    if positive is None and labels.positive in ratings.levels:
        positive = labels.positive
    # Of a plain table the name is all that is known of the judge.
    if ratings.judge is not None and not labels.facts:
        labels = replace(labels, facts={"name": ratings.judge})
    report = measure_agreement(ratings, positive=positive, epsilon=epsilon, seed=seed)
    if queue is not None:
        # A scale of any number has no labels that a queue could offer.
        offered = None if isinstance(scale, str) else scale
        queued = put_in_queue(labels, report.disagreements["item"], queue, offered=offered)
        labels = replace(labels, notes=[*labels.notes, queued])
    done = Agreement(report=report, source=labels, options=params, seed=seed)
    if not log:
        return done
    store = _store(labels, experiment)
    simulated, what_now = labels.simulated, "What was read is as it was."
    return log_result(
        store, done, "agree", agreement_content, name=run_name, simulated=simulated, tags=tags, what_now=what_now
    )


def _refuse_trace_options(options: Mapping[str, object]) -> None:
    for option, value in options.items():
        if value is not None:
            raise RecipeError(f"`{option}` is about traces: give it with `{PREFIX}EXPERIMENT`, trace ids or traces.")


def _store(labels: LabelTable, experiment: str | None) -> Store:
    """Open the store for a run about the labels: in their own experiment, unless another is named."""
    if experiment or labels.experiment or labels.experiment_id is None:
        return Store(labels.tracking_uri, experiment or labels.experiment)
    # A run about the traces of an application leaves what their experiment opens on.
    return Store(labels.tracking_uri, experiment_id=labels.experiment_id, saves_view=False)
