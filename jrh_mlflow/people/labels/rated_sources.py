"""Labels of people and verdicts of a judge in long form, from whatever holds them: a table, traces, an evaluation."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import JrhWarning, RecipeError, TrackingError, suggest
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.people.agreement_view import LINK
from jrh_mlflow.people.labels.assessments import PREFIX, rated_traces
from jrh_mlflow.people.labels.review_queues import queue_disagreements
from jrh_mlflow.people.ratings import IS_JUDGE, GivenScale
from jrh_mlflow.schema.items import BASELINE, is_scale
from jrh_mlflow.schema.label_words import label_text
from jrh_mlflow.suites.dataset import DatasetTable as Table
from jrh_mlflow.suites.dataset import present
from jrh_mlflow.suites.people import people_of
from jrh_mlflow.text import blank_secrets, clean_text, environment_secrets
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import LoggedRun, load_runs, run_id_of, run_notes
from jrh_mlflow.tracking.runs.store import Store

if TYPE_CHECKING:
    import pandas as pd

_RUN = re.compile("runs:/.*|[0-9a-f]{8,32}")
_GROUP = "group"


@dataclass(frozen=True, kw_only=True)
class RatedSource:
    """Labels of people and of a judge in long form, and what is known of where they come from."""

    frame: pd.DataFrame
    columns: Mapping[str, str]
    """`item`, `rater`, `label`, and `group` where there is one, to the columns of the frame."""
    judge: str | None
    """The rater that is the judge."""
    facts: Mapping[str, Any]
    """What identifies the judge, as far as it is known."""
    shown: str
    """How the source is named."""
    told: Mapping[str, object] = field(default_factory=dict)
    """What else was chosen: params of the run."""
    params: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Further groups of params."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Item to where it can be looked at."""
    experiments: Mapping[str, str] = field(default_factory=dict)
    """Trace to the id of its experiment."""
    notes: Sequence[str] = ()
    simulated: bool = False
    scale: Sequence[str] | None = None
    """Of ordered labels, where the source knows it."""
    positive: str | None = None
    """The positive label, where the source knows it."""
    tracking_uri: str | None = None
    """Store that a run about it belongs to."""
    experiment: str | None = None
    experiment_id: str | None = None

    def put_in_queue(self, items: Iterable[str], queue: str, *, scale: GivenScale = None) -> str:
        """Put traces into a review queue, and say what became of them; a store that has none is a warning.

        What may be answered there is the whole scale, in its order, or else the labels that were given.

        Raises:
            RecipeError: when a queue of that name asks something else.
        """
        name, seen = str(self.told["name"]), sorted(self.frame["label"].unique(), key=str)
        labels = seen if scale is None or isinstance(scale, str) else list(scale)
        traces = {item: self.experiments[item] for item in items}
        if not traces:
            return f"No trace was put into the review queue {queue!r}: judge and people differ on none."
        try:
            return (
                f"{queue_disagreements(traces, queue=queue, name=name, labels=labels, tracking_uri=self.tracking_uri)}."
            )
        except TrackingError as error:
            warnings.warn(str(error), JrhWarning, stacklevel=4)
            return str(error)

    def store(self, experiment: str | None) -> Store:
        """Open the store for a run about the source: in its own experiment, unless another is named."""
        if experiment or self.experiment or self.experiment_id is None:
            return Store(self.tracking_uri, experiment or self.experiment)
        return Store(self.tracking_uri, experiment_id=self.experiment_id, saves_view=False)


def read_source(
    source: object,
    *,
    columns: Mapping[str, str | None],
    judge: str | None,
    tracking_uri: str | None,
    of_traces: Mapping[str, Any],
) -> RatedSource:
    """Read labels of people and of a judge.

    Args:
        source: A table, traces or an evaluation, as for `agree`.
        columns: Of a table: `item`, `rater`, `label` and `group` to its columns; `group` also names a tag of traces, or
            a field of the meta of items.
        judge: As for `agree`.
        tracking_uri: MLflow store; the active one when None.
        of_traces: `name`, `max_traces`, `queue`: what only traces have.

    Raises:
        RecipeError: when there is nothing to read, or an option is for another kind of source.
    """
    group = columns.get(_GROUP)
    if traces := _traces(source):
        return _from_traces(traces, judge, group, of_traces, tracking_uri)
    for option, value in of_traces.items():
        if value is not None:
            raise RecipeError(f"`{option}` is about traces: give it with `{PREFIX}EXPERIMENT`, trace ids or traces.")
    if isinstance(source, Evaluation) or (isinstance(source, str) and _RUN.fullmatch(source)):
        return _from_evaluation(source, judge, group, tracking_uri)
    return _from_table(source, columns, judge, tracking_uri)


def _traces(source: object) -> Any:
    """Return what names traces: an experiment, ids or traces themselves; None for any other source."""
    if isinstance(source, str):
        return source if source.startswith(PREFIX) else None
    several = source if isinstance(source, list | tuple) else ()
    return source if several and all(isinstance(one, str) or hasattr(one, "info") for one in several) else None


def _from_traces(
    traces: Any, judge: str | None, group: str | None, options: Mapping[str, Any], tracking_uri: str | None
) -> RatedSource:
    name, most = options["name"], options["max_traces"]
    read = rated_traces(traces, name=name, judge=judge, tracking_uri=tracking_uri, max_traces=most, group=group)
    experiments = set(read.experiments.values())
    counted = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in read.counts.items())
    return RatedSource(
        frame=_safe(read.frame),
        columns=_columns(group is not None),
        judge=read.judge,
        facts=read.judge_facts,
        shown=traces if isinstance(traces, str) else f"{len(traces)} traces",
        told={"name": read.name, "group": group, "queue": options["queue"], "max_traces": most},
        links={trace: read.link(trace) for trace in read.experiments},
        experiments=read.experiments,
        notes=[*read.notes, *([f"Assessments that are no label: {counted}."] if counted else [])],
        tracking_uri=read.uri,
        experiment_id=experiments.pop() if len(experiments) == 1 else None,
    )


def _columns(grouped: bool) -> dict[str, str]:
    return {name: name for name in ("item", "rater", "label", *([_GROUP] if grouped else []))}


def _from_table(
    source: object, columns: Mapping[str, str | None], judge: str | None, tracking_uri: str | None
) -> RatedSource:
    import pandas as pd

    table = Table(source)
    if isinstance(source, str | Path) and str(source).endswith(".csv"):
        table = table.unguarded()
    named = {role: column for role, column in columns.items() if column is not None}
    for role, column in named.items():
        if column not in table:
            raise RecipeError(f"The table has no column {column!r}.{present(table, column)}{_melted(role, named)}")
    marks = [IS_JUDGE] if IS_JUDGE in table else []
    frame = _safe(pd.DataFrame({column: table.cells(column) for column in (*named.values(), *marks)}, dtype=object))
    items = map(label_text, frame[named["item"]])
    links = dict(zip(items, table.cells(LINK), strict=True)) if LINK in table else {}
    return RatedSource(
        frame=frame,
        columns=named,
        judge=judge,
        facts={} if judge is None else {"name": judge},
        shown=Path(source).name if isinstance(source, str | Path) else f"a table of {len(table):,} rows",
        told={_GROUP: columns.get(_GROUP)},
        links={str(item): str(link) for item, link in links.items() if isinstance(link, str) and link.strip()},
        tracking_uri=tracking_uri,
    )


def _melted(role: str, columns: Mapping[str, str]) -> str:
    """Say how a table with a column for each rater becomes a long one."""
    if role not in ("rater", "label"):
        return ""
    how = f"id_vars={columns['item']!r}, var_name={columns['rater']!r}, value_name={columns['label']!r}"
    return f" It must have one row per item and rater; with a column for each rater, melt it first: table.melt({how})."


def _safe(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame without characters that no store can hold, and without keys that a model may have echoed."""
    secrets = environment_secrets()
    safe: pd.DataFrame = frame.map(
        lambda cell: blank_secrets(clean_text(cell), secrets) if isinstance(cell, str) else cell
    )
    return safe


def _from_evaluation(
    source: str | Evaluation, judge: str | None, group: str | None, tracking_uri: str | None
) -> RatedSource:
    import pandas as pd

    uri = tracking_uri or (source.tracking_uri if isinstance(source, Evaluation) else None)
    (run,) = load_runs([run_id_of(source)], tracking_uri=uri)
    if judge not in (None, run.judge):
        raise RecipeError(f"The judge of run {run.run_id[:8]} is {run.judge}, not {judge!r}: leave `judge` out.")
    people = people_of(run.suite)
    if people.empty:
        raise RecipeError(
            f"The suite {run.suite.name!r} of run {run.run_id[:8]} carries no labels of people. Generate it with "
            "`people` (--people), or from traces that people rated."
        )
    name = f"{run.judge} (judge)" if run.judge in set(people["rater"]) else run.judge
    verdicts, lost = _verdicts(run, set(people["item"]))
    judged = pd.DataFrame({"item": list(verdicts), "rater": name, "label": list(verdicts.values())}, dtype=object)
    frame = pd.concat([people, judged], ignore_index=True)
    groups = _groups_of(run, frame["item"], group)
    return RatedSource(
        frame=frame if groups is None else frame.assign(**{_GROUP: groups}),
        columns=_columns(groups is not None),
        judge=name,
        facts={"name": run.judge, "run_id": run.run_id, **keys.param_group(run.params, "judge")},
        shown=f"{run.suite.name}, run {run.run_id[:8]}",
        told={"run": run.run_id, _GROUP: group},
        params={"suite": keys.suite_facts(run.suite)},
        notes=[*run_notes([run]), *_replicates_note(run), *_lost_note(lost, people["item"].nunique())],
        simulated=run.simulated,
        tracking_uri=uri,
        experiment=run.experiment,
        **_labels_of(run),
    )


def _verdicts(run: LoggedRun, items: set[str]) -> tuple[dict[str, str], Counter[str]]:
    """Return the judge's first answer on each item; what is no verdict is counted by how it ended."""
    first = run.calls[(run.calls["condition"] == BASELINE) & (run.calls["replicate"] == 0)]
    ended = {str(row.suite_item): (str(row.outcome), str(row.answer)) for row in first.itertuples()}
    found = {item: ended.get(item, ("not asked", "")) for item in sorted(items)}
    lost = Counter(outcome for outcome, _ in found.values() if outcome != "verdict")
    return {item: answer for item, (outcome, answer) in found.items() if outcome == "verdict"}, lost


def _replicates_note(run: LoggedRun) -> list[str]:
    times = int(run.calls.loc[run.calls["condition"] == BASELINE, "replicate"].max()) + 1
    return [f"The judge was asked {times} times about each item: its first answer counts."] if times > 1 else []


def _lost_note(lost: Mapping[str, int], n: int) -> list[str]:
    told = ", ".join(f"{count:,} {outcome}" for outcome, count in lost.items())
    return (
        [f"The judge gave no verdict on {sum(lost.values()):,} of {n:,} items ({told}): they are left out."]
        if told
        else []
    )


def _groups_of(run: LoggedRun, items: Sequence[str], group: str | None) -> list[object] | None:
    """Return what agreement is also read by: the group of the suite's items where none is named."""
    meta = {item.id: item.meta for item in run.suite.items}
    found = [meta[item].get(group or _GROUP) for item in items]
    if any(one is not None for one in found):
        return found
    if group is None:
        return None
    known = sorted({name for item in items for name in meta[item]})
    raise RecipeError(f"No item with labels of people has {group!r} in its meta.{suggest(group, known)}")


def _labels_of(run: LoggedRun) -> dict[str, Any]:
    """Return the scale of a suite with ordered labels, and of one with two labels the positive one, the last."""
    labels = run.suite.labels
    if labels is None:
        return {}
    if is_scale(labels) if labels.ordinal is None else labels.ordinal:
        return {"scale": list(labels)}
    return {"positive": labels[-1]} if len(labels) == 2 else {}
