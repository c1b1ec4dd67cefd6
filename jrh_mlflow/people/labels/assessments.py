"""What people and judges said about MLflow traces: told apart by their source, as a long table with links.

A label is a person's: feedback of a HUMAN source, or an expectation that no model wrote. Feedback of LLM_JUDGE and CODE
sources is a judge's verdict and never a label, whoever spoke last. Only a rater takes back what the same rater said: a
person who overrides a judge's feedback gives a label, and the verdict stays the judge's.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.tracking.runs.store import active_uri, mlflow_errors, paged, reading_client
from jrh_mlflow.tracking.runs.view import trace_link

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities import Assessment, Trace, TraceInfo

PREFIX = "traces:/"
HUMAN, LLM_JUDGE, CODE = "HUMAN", "LLM_JUDGE", "CODE"
EXPECTATION = "expectation"
"""The rater of expectations that code wrote and signed with no name."""
EXPECTED_BY_MODEL = "expectation_of_a_model"
"""Why an expectation is no label."""
_UNNAMED = (None, "", "default")
"""Source ids that MLflow fills in: they name nobody."""
_WITH_SPANS, _WITHOUT_SPANS = 100, 500
"""Traces asked for at once."""
_FACTS = {
    "scorer": "mlflow.assessment.scorerName",
    "scorer_version": "mlflow.assessment.scorerVersion",
    "scorer_digest": "mlflow.assessment.scorerDigest",
    "run_id": "mlflow.assessment.sourceRunId",
}
"""What MLflow's metadata of a feedback say about the judge that gave it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rating:
    """The newest word of one rater on one trace, under one name."""

    trace_id: str
    name: str
    rater: str
    label: Any
    """Text, a number or a boolean, as MLflow keeps it."""
    is_judge: bool
    source_type: str
    source_id: str | None
    is_expectation: bool
    metadata: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceRatings:
    """All that was said about one trace."""

    people: tuple[Rating, ...]
    judges: tuple[Rating, ...]
    left_out: Mapping[tuple[str, str], int]
    """Name and reason to how many assessments are no label."""


@dataclass(frozen=True, kw_only=True)
class RatedTraces:
    """Labels of people and verdicts of one judge on traces."""

    name: str
    """The assessment that people were asked for."""
    frame: pd.DataFrame
    """One row per trace and rater: `item` (the trace id), `rater`, `label`, `is_judge`; `group` where one was named."""
    judge: str | None
    """The rater that is the judge; None where only people spoke."""
    judge_facts: Mapping[str, str]
    """`source_id`, `source_type`, `name`, `model`, `scorer`, `scorer_version`, `scorer_digest`, `run_id`, as known."""
    counts: Mapping[str, int]
    """Assessments of these names that are no label, by reason."""
    notes: tuple[str, ...]
    previews: Mapping[str, tuple[str, str]]
    """Trace to the beginnings of its request and its response, as MLflow keeps them."""
    experiments: Mapping[str, str]
    """Trace to its experiment's id."""
    uri: str = field(repr=False)

    def link(self, trace_id: str) -> str:
        """Say where a trace can be looked at; a store that is no server is shown by `jrh ui`."""
        return trace_link(self.uri, self.experiments[trace_id], trace_id)


def rated_traces(
    source: str | Sequence[str] | Sequence[Trace],
    *,
    name: str | None = None,
    judge: str | None = None,
    tracking_uri: str | None = None,
    max_traces: int | None = None,
    group: str | None = None,
) -> RatedTraces:
    """Read labels of people and verdicts of a judge from traces.

    Of one rater on one trace the newest value counts; failed feedback, and what its own rater overrode, is none.

    Args:
        source: An experiment by its name or as `traces:/<name>`, trace ids, or traces.
        name: The assessment; None takes the only one that people gave, or the only one of theirs that a judge gave too.
        judge: Source id of the judge, or the name of its assessment where that is another; None takes the only
            one, or the only model beside code.
        tracking_uri: Of the store; None takes MLflow's own setting.
        max_traces: Of an experiment, the newest so many; None takes all.
        group: Tag of the traces to report by.

    Raises:
        RecipeError: when nobody labelled these traces, several judges spoke and none is named, or a judge has the
            source id of a person.
        TrackingError: when MLflow cannot be reached.
    """
    uri = tracking_uri or active_uri()
    infos = [trace.info for trace in find_traces(source, uri, max_traces, spans=False)]
    read = {info.trace_id: read_assessments(info) for info in infos}
    people = [one for ratings in read.values() for one in ratings.people]
    judges = [one for ratings in read.values() for one in ratings.judges]
    name = _chosen_name(people, judges, name, shown=source if isinstance(source, str) else f"{len(infos)} traces")
    own = [one for one in people if _same(one.name, name)]
    verdicts = _verdicts(judges, people, name, judge)
    names = {name, *(one.name for one in verdicts)}
    dropped: Counter[str] = Counter()
    for ratings in read.values():
        for (of, reason), count in ratings.left_out.items():
            dropped[reason] += count if any(_same(of, each) for each in names) else 0
    facts = _facts(verdicts)
    return RatedTraces(
        name=name,
        frame=_frame(infos, [*own, *verdicts], group),
        judge=verdicts[0].rater if verdicts else None,
        judge_facts=facts,
        counts={reason: count for reason, count in dropped.items() if count},
        notes=(*_several(facts, verdicts), *(_code_beside(judges, verdicts) if judge is None else ())),
        previews={info.trace_id: (info.request_preview or "", info.response_preview or "") for info in infos},
        experiments={info.trace_id: str(info.experiment_id) for info in infos},
        uri=uri,
    )


def read_assessments(
    info: TraceInfo, *, only_expectations: bool = False, verdicts_of_run: str | None = None
) -> TraceRatings:
    """Tell apart who said what about a trace; of one rater under one name the newest value counts.

    Args:
        info: Of the trace.
        only_expectations: Leave out feedback.
        verdicts_of_run: Leave out what judges said in other runs than this: a trace may be evaluated many times. What
            people said counts wherever they said it.
    """
    newest: dict[tuple[str, bool, str], Rating] = {}
    left_out: Counter[tuple[str, str]] = Counter()
    overriding = _overriding(info)
    for one in _in_time(info):
        if one.expectation is None and (only_expectations or one.feedback is None):
            continue
        if verdicts_of_run is not None and _is_verdict(one) and _run_of(one) not in (None, verdicts_of_run):
            continue
        if reason := _why_no_label(one, overriding):
            left_out[one.name, reason] += 1
            continue
        rating = _rating(info.trace_id, one)
        newest[rating.name, rating.is_judge, rating.rater] = rating
    people, judges = (tuple(one for one in newest.values() if one.is_judge is wanted) for wanted in (False, True))
    return TraceRatings(people=people, judges=judges, left_out=dict(left_out))


def expectations_of(info: TraceInfo, *, sources: Sequence[str] = (HUMAN, CODE)) -> dict[str, Any]:
    """Return the newest expectations of a trace by name, of whatever shape, that nobody took back."""
    overriding = _overriding(info)
    own = [one for one in _in_time(info) if one.expectation is not None and one.source.source_type in sources]
    return {one.name: one.value for one in own if not _is_taken_back(one, overriding)}


def find_traces(
    source: str | Sequence[str] | Sequence[Trace], uri: str, most: int | None, *, spans: bool
) -> Iterator[Trace]:
    """Yield traces, those of an experiment by pages, the newest first.

    Raises:
        RecipeError: when there is no such experiment.
    """
    if not isinstance(source, str):
        for one in source:
            yield _trace(one, uri) if isinstance(one, str) else one
        return
    experiment = source.removeprefix(PREFIX)
    with reading_client(uri) as client:
        found = client.get_experiment_by_name(experiment)
    if found is None:
        raise RecipeError(f"There is no experiment {experiment!r} at MLflow. Give its name, or a list of trace ids.")
    at_once = _WITH_SPANS if spans else _WITHOUT_SPANS

    def search(token: str | None) -> Any:
        with reading_client(uri) as client:
            return client.search_traces(
                locations=[found.experiment_id],
                max_results=at_once if most is None else min(most, at_once),
                page_token=token,
                order_by=["timestamp_ms DESC"],
                include_spans=spans,
            )

    yield from islice(paged(search), most)


def _trace(name: str, uri: str) -> Trace:
    from mlflow import MlflowClient

    with mlflow_errors(uri, problem=f"has no trace {name!r} that can be read", what_now="Nothing was changed."):
        return MlflowClient(tracking_uri=uri).get_trace(name)


def _time(one: Assessment) -> int:
    """Return when it was said, or last changed."""
    return int(one.last_update_time_ms or one.create_time_ms or 0)


def _in_time(info: TraceInfo) -> list[Assessment]:
    """Return assessments, the newest last; those of the trace after those of its spans, which they go before."""
    return sorted(info.assessments or (), key=lambda one: (one.span_id is None, _time(one)))


def _overriding(info: TraceInfo) -> Mapping[str, Sequence[Assessment]]:
    """Return what overrides each assessment, by its id."""
    found: dict[str, list[Assessment]] = defaultdict(list)
    for one in info.assessments or ():
        if one.overrides:
            found[one.overrides].append(one)
    return found


def _is_taken_back(one: Assessment, overriding: Mapping[str, Sequence[Assessment]]) -> bool:
    """Whether its own rater overrode it, maybe after others had; what is invalid for no known reason is taken back."""
    later = {each.assessment_id: each for each in overriding.get(one.assessment_id, ())}
    if not later:
        return one.valid is False
    unread = list(later)
    while unread:
        more = {each.assessment_id: each for each in overriding.get(unread.pop(), ())}
        unread += [name for name in more if name not in later]
        later = {**more, **later}
    own = (one.source.source_type, one.source.source_id)
    return any((each.source.source_type, each.source.source_id) == own for each in later.values())


def _is_verdict(one: Assessment) -> bool:
    return one.feedback is not None and one.source.source_type != HUMAN


def _run_of(one: Assessment) -> str | None:
    found: str | None = (one.metadata or {}).get(_FACTS["run_id"])
    return found


def _why_no_label(one: Assessment, overriding: Mapping[str, Sequence[Assessment]]) -> str | None:
    kind = one.source.source_type
    if _is_taken_back(one, overriding):
        return "overridden"
    if one.feedback is not None and one.feedback.error is not None:
        return "failed"
    if one.expectation is not None and kind not in (HUMAN, CODE):
        return EXPECTED_BY_MODEL
    if kind not in (HUMAN, LLM_JUDGE, CODE):
        return "unknown_source"
    value: Any = one.value
    whole = isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))
    return None if whole and value != "" else "no_label"


def _rating(trace_id: str, one: Assessment) -> Rating:
    kind, source = one.source.source_type, one.source.source_id
    is_judge = _is_verdict(one)
    if kind == HUMAN:
        rater = source or "default"
    else:
        rater = (one.name if is_judge else EXPECTATION) if source in _UNNAMED else str(source)
    return Rating(
        trace_id=trace_id,
        name=one.name,
        rater=rater,
        label=one.value,
        is_judge=is_judge,
        source_type=kind,
        source_id=source,
        is_expectation=one.expectation is not None,
        metadata=one.metadata or {},
    )


def _same(name: str, other: str) -> bool:
    """Compare names as MLflow's `align` does: whatever their capitals."""
    return name.strip().casefold() == other.strip().casefold()


def _chosen_name(people: Sequence[Rating], judges: Sequence[Rating], name: str | None, *, shown: str) -> str:
    names = _names(one.name for one in people)
    if name is not None:
        if found := next((one for one in names if _same(one, name)), None):
            return found
    else:
        shared = [one for one in names if any(_same(one, other.name) for other in judges)]
        chosen = shared or names
        if len(chosen) == 1:
            return chosen[0]
        if chosen:
            raise RecipeError(f"People gave {_listed(chosen)} on these traces. Say which one: name=, --name.")
    named = "" if name is None else f" under the name {name!r}"
    known = f"{suggest(name or '', names)} Names with labels of people: {_listed(names)}." if names else ""
    raise RecipeError(
        f"No trace of {shown} has a label of a person{named}: HUMAN feedback or expectations are labels, feedback of "
        f"models and code is not.{known}"
    )


def _verdicts(judges: Sequence[Rating], people: Sequence[Rating], name: str, judge: str | None) -> list[Rating]:
    """Return the verdicts of the one judge that is meant; a model goes before code."""
    under = [one for one in judges if _same(one.name, name)]
    if judge is not None:
        under = _named_judge(judges, under, judge, people)
    elif len({one.rater for one in under if one.source_type == LLM_JUDGE}) == 1:
        under = [one for one in under if one.source_type == LLM_JUDGE]
    found = _names(one.rater for one in under)
    if len(found) > 1:
        raise RecipeError(f"Several judges gave {under[0].name!r}: {', '.join(found)}. Say which one: judge=, --judge.")
    # What code expects under another name is about something else.
    same = [one for one in people if one.rater in found and (one.source_type == HUMAN or _same(one.name, name))]
    if same:
        raise RecipeError(
            f"{found[0]!r} is a person and a judge on these traces: whose labels are they? Give the judge a source id "
            "of its own."
        )
    return under


def _named_judge(
    judges: Sequence[Rating], under: Sequence[Rating], judge: str, people: Sequence[Rating]
) -> list[Rating]:
    """Find a judge by its source among those of the name, by the name of its assessment, by its source anywhere."""
    by_source = [one for one in judges if judge in (one.source_id, one.rater)]
    own = [one for one in under if one in by_source]
    found = own or [one for one in judges if _same(one.name, judge)] or by_source
    if len(names := _names(one.name for one in found)) > 1:
        raise RecipeError(f"The judge {judge!r} gave {_listed(names)}. Say which one: judge=, --judge.")
    if found:
        return found
    if any(one.rater == judge for one in people):
        raise RecipeError(f"{judge!r} is a person on these traces; a judge is a model or code (LLM_JUDGE or CODE).")
    known = _names(f"{one.rater} ({one.name})" for one in judges)
    there = f"Judges there are: {', '.join(known)}." if known else "No model and no code gave feedback on them."
    raise RecipeError(f"There is no judge {judge!r} on these traces.{suggest(judge, known)} {there}")


def _facts(verdicts: Sequence[Rating]) -> dict[str, str]:
    """Return what is known of a judge; where its verdicts differ in it, all that was found."""
    if not verdicts:
        return {}
    first = verdicts[0]
    model = first.source_id if first.source_type == LLM_JUDGE and first.source_id not in _UNNAMED else None
    known = {"source_id": first.source_id, "source_type": first.source_type, "name": first.name, "model": model}
    known |= {fact: ", ".join(_names(one.metadata.get(key, "") for one in verdicts)) for fact, key in _FACTS.items()}
    return {fact: str(value) for fact, value in known.items() if value}


def _several(facts: Mapping[str, str], verdicts: Sequence[Rating]) -> tuple[str, ...]:
    """Say that verdicts come from several definitions of a judge: they are not one judge's."""
    for fact in ("scorer_digest", "scorer_version", "scorer"):
        if len({one.metadata.get(_FACTS[fact]) for one in verdicts}) > 1:
            what = f"The verdicts of {verdicts[0].rater} come from several definitions ({fact}: {facts[fact]})"
            return (f"{what}; on each trace the newest counts.",)
    return ()


def _code_beside(judges: Sequence[Rating], verdicts: Sequence[Rating]) -> tuple[str, ...]:
    """Say that code gave the name of the judge's assessment, too."""
    names = {(one.name, one.rater) for one in verdicts}
    others = _names(
        one.rater for one in judges for name, rater in names if _same(one.name, name) and one.rater != rater
    )
    if not others:
        return ()
    judge = verdicts[0]
    return (f"Code gave {judge.name!r}, too ({', '.join(others)}): {judge.rater} is taken as the judge.",)


def _frame(infos: Sequence[TraceInfo], ratings: Iterable[Rating], group: str | None) -> pd.DataFrame:
    import pandas as pd

    place = {info.trace_id: number for number, info in enumerate(infos)}
    ordered = sorted(ratings, key=lambda one: (place[one.trace_id], one.is_judge, one.rater))
    columns: dict[str, list[Any]] = {
        "item": [one.trace_id for one in ordered],
        "rater": [one.rater for one in ordered],
        "label": [one.label for one in ordered],
    }
    frame: pd.DataFrame = pd.DataFrame(columns, dtype=object)
    frame["is_judge"] = [one.is_judge for one in ordered]
    if group is not None:
        frame["group"] = [_tag(infos[place[one.trace_id]], group) for one in ordered]
        if frame["group"].isna().all():
            tags = _names(tag for info in infos for tag in info.tags if not tag.startswith("mlflow."))
            there = f"Tags there are: {', '.join(tags)}." if tags else "They have none."
            raise RecipeError(f"No trace has the tag {group!r}.{suggest(group, tags)} {there}")
    return frame


def _tag(info: TraceInfo, name: str) -> str | None:
    found: str | None = {**(info.trace_metadata or {}), **info.tags}.get(name)
    return found


def _names(found: Iterable[str]) -> list[str]:
    """Return names once each, sorted, without empty ones."""
    return sorted({name for name in found if name})


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
