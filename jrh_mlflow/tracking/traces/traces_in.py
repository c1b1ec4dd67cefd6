"""MLflow traces in: the one search for them, the one reader of what was said about them, and traces as transcripts.

A label is a person's: feedback of a HUMAN source, or an expectation that no model wrote. Feedback of LLM_JUDGE and CODE
sources is a judge's verdict and never a label, whoever spoke last. Only a rater takes back what the same rater said: a
person who overrides a judge's feedback gives a label, and the verdict stays the judge's.

A transcript is a trace's conversation, or its question and answer, with the labels of people.
"""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import JrhWarning, RecipeError
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.labels import most_frequent
from jrh_mlflow.suites.transcripts.transcript import (
    JUDGE_SCORES,
    LANGCHAIN_ROLES,
    TRACE,
    Transcript,
    first_user_text,
    from_openai,
    plain_messages,
)
from jrh_mlflow.text import clean_data
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import active_uri, mlflow_errors, paged, reading_client

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Assessment, Span, Trace, TraceInfo

PREFIX = "traces:/"
HUMAN, LLM_JUDGE, CODE = "HUMAN", "LLM_JUDGE", "CODE"
EXPECTATION = "expectation"
"""The rater of expectations that code wrote and signed with no name."""
EXPECTED_BY_MODEL = "expectation_of_a_model"
"""Why an expectation is no label."""
UNNAMED = (None, "", "default")
"""Source ids that MLflow fills in: they name nobody."""
SCORER_FACTS = {
    "scorer": "mlflow.assessment.scorerName",
    "scorer_version": "mlflow.assessment.scorerVersion",
    "scorer_digest": "mlflow.assessment.scorerDigest",
    "run_id": "mlflow.assessment.sourceRunId",
}
"""What MLflow's metadata of a feedback say about the judge that gave it."""
_WITH_SPANS, _WITHOUT_SPANS = 100, 500
"""Traces asked for at once."""


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
    time_ms: int
    """When it was said, or last changed."""
    metadata: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceRatings:
    """All that was said about one trace."""

    people: tuple[Rating, ...]
    judges: tuple[Rating, ...]
    left_out: Mapping[tuple[str, str], int]
    """Name and reason to how many assessments are no label."""


def search_traces(
    client: MlflowClient,
    experiments: Sequence[str],
    *,
    run_id: str | None = None,
    chosen: str | None = None,
    most: int | None = None,
    spans: bool = False,
) -> Iterator[Trace]:
    """Yield the traces of experiments by pages, the newest first.

    Args:
        client: Of the store.
        experiments: Their ids.
        run_id: Only those of this run.
        chosen: MLflow's filter.
        most: The newest so many; None takes all.
        spans: Whether they come with their spans.
    """
    at_once = _WITH_SPANS if spans else _WITHOUT_SPANS

    def page(token: str | None) -> Any:
        return client.search_traces(
            locations=list(experiments),
            run_id=run_id,
            filter_string=chosen,
            max_results=at_once if most is None else min(most, at_once),
            page_token=token,
            order_by=["timestamp_ms DESC"],
            include_spans=spans,
        )

    return islice(paged(page), most)


def find_traces(
    source: str | Sequence[str] | Sequence[Trace], uri: str, most: int | None = None, *, spans: bool = False
) -> Iterator[Trace]:
    """Yield traces: of an experiment by its name or as `traces:/<name>`, by their ids, or those in hand.

    Raises:
        RecipeError: when there is no such experiment.
    """
    if not isinstance(source, str):
        for trace in source:
            yield _trace(trace, uri) if isinstance(trace, str) else trace
        return
    name = source.removeprefix(PREFIX)
    with reading_client(uri) as client:
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            raise RecipeError(f"There is no experiment {name!r} at MLflow. Give its name, or a list of trace ids.")
        traces = search_traces(client, [experiment.experiment_id], most=most, spans=spans)
    yield from _read_one_by_one(traces, uri)


def traces_of_run(experiment_id: str, run_id: str, uri: str) -> Iterator[Trace]:
    """Yield the traces of a run, without spans."""
    with reading_client(uri) as client:
        traces = search_traces(client, [experiment_id], run_id=run_id)
    yield from _read_one_by_one(traces, uri)


def _read_one_by_one(traces: Iterator[Trace], uri: str) -> Iterator[Trace]:
    # MLflow's settings and errors are ours only while a page is asked for, never while the caller works on a trace.
    while True:
        with reading_client(uri):
            trace = next(traces, None)
        if trace is None:
            return
        yield trace


def _trace(name: str, uri: str) -> Trace:
    from mlflow import MlflowClient

    with mlflow_errors(uri, problem=f"has no trace {name!r} that can be read", what_now="Nothing was changed."):
        return MlflowClient(tracking_uri=uri).get_trace(name)


def read_assessments(
    info: TraceInfo, *, only_expectations: bool = False, verdicts_of_run: str | None = None
) -> TraceRatings:
    """Separate who said what about a trace; of one rater under one name the newest value counts.

    Args:
        info: Of the trace.
        only_expectations: Leave out feedback.
        verdicts_of_run: Leave out what judges said in other runs than this: a trace may be evaluated many times. What
            people said counts wherever they said it.
    """
    newest: dict[tuple[str, bool, str], Rating] = {}
    left_out: Counter[tuple[str, str]] = Counter()
    overriding = _overriding(info)
    for assessment in _in_time(info):
        if assessment.expectation is None and (only_expectations or assessment.feedback is None):
            continue
        # A result shows what its own run said: a trace may have verdicts of earlier evaluations, too.
        if verdicts_of_run is not None and _is_verdict(assessment):
            run_id = (assessment.metadata or {}).get(SCORER_FACTS["run_id"])
            if run_id not in (None, verdicts_of_run):
                continue
        if reason := _why_no_label(assessment, overriding):
            left_out[assessment.name, reason] += 1
            continue
        rating = _rating(info.trace_id, assessment)
        newest[rating.name, rating.is_judge, rating.rater] = rating
    people, judges = (
        tuple(rating for rating in newest.values() if rating.is_judge is wanted) for wanted in (False, True)
    )
    return TraceRatings(people=people, judges=judges, left_out=dict(left_out))


def read_snapshot(trace_id: str, cells: object, *, run_id: str) -> TraceRatings:
    """Read the assessments that one row of a result of `mlflow.genai.evaluate` holds."""
    from mlflow.entities import Assessment, TraceInfo, TraceLocation, TraceState

    listed = list(cells) if isinstance(cells, Iterable) else []
    assessments = [Assessment.from_dictionary(cell) if isinstance(cell, dict) else cell for cell in listed]
    place = TraceLocation.from_experiment_id("0")
    info = TraceInfo(
        trace_id=trace_id, trace_location=place, request_time=0, state=TraceState.OK, assessments=assessments
    )
    return read_assessments(info, verdicts_of_run=run_id)


def expectations_of(info: TraceInfo, *, sources: Sequence[str] = (HUMAN, CODE)) -> dict[str, Any]:
    """Return the newest expectations of a trace by name, of whatever shape, that nobody took back."""
    overriding = _overriding(info)
    own = [given for given in _in_time(info) if given.expectation is not None and given.source.source_type in sources]
    return {given.name: given.value for given in own if not _is_taken_back(given, overriding)}


def _time(given: Assessment) -> int:
    """Return when it was said, or last changed."""
    return int(given.last_update_time_ms or given.create_time_ms or 0)


def _in_time(info: TraceInfo) -> list[Assessment]:
    """Return assessments, the newest last; those of the trace after those of its spans, which they go before."""
    return sorted(info.assessments or (), key=lambda given: (given.span_id is None, _time(given)))


def _overriding(info: TraceInfo) -> Mapping[str, Sequence[Assessment]]:
    """Return what overrides each assessment, by its id."""
    later: dict[str, list[Assessment]] = defaultdict(list)
    for given in info.assessments or ():
        if given.overrides:
            later[given.overrides].append(given)
    return later


def _is_taken_back(given: Assessment, overriding: Mapping[str, Sequence[Assessment]]) -> bool:
    """Whether its own rater overrode it, maybe after others had; what is invalid for no known reason is taken back."""
    later = {other.assessment_id: other for other in overriding.get(given.assessment_id, ())}
    if not later:
        return given.valid is False
    # Overrides may form a chain; each is followed once, whatever circle somebody made of them.
    unread = list(later)
    while unread:
        more = {other.assessment_id: other for other in overriding.get(unread.pop(), ())}
        unread += [name for name in more if name not in later]
        later = {**more, **later}
    own = (given.source.source_type, given.source.source_id)
    return any((other.source.source_type, other.source.source_id) == own for other in later.values())


def _is_verdict(given: Assessment) -> bool:
    return given.feedback is not None and given.source.source_type != HUMAN


def _why_no_label(given: Assessment, overriding: Mapping[str, Sequence[Assessment]]) -> str | None:
    kind = given.source.source_type
    if _is_taken_back(given, overriding):
        return "overridden"
    if given.feedback is not None and given.feedback.error is not None:
        return "failed"
    if given.expectation is not None and kind not in (HUMAN, CODE):
        return EXPECTED_BY_MODEL
    if kind not in (HUMAN, LLM_JUDGE, CODE):
        return "unknown_source"
    value: Any = given.value
    whole = isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))
    return None if whole and value != "" else "no_label"


def _rating(trace_id: str, given: Assessment) -> Rating:
    kind, source = given.source.source_type, given.source.source_id
    is_judge = _is_verdict(given)
    # All people without a name are one rater; code and models without one are told by what they say.
    if kind == HUMAN:
        rater = source or "default"
    else:
        rater = (given.name if is_judge else EXPECTATION) if source in UNNAMED else str(source)
    return Rating(
        trace_id=trace_id,
        name=given.name,
        rater=rater,
        label=given.value,
        is_judge=is_judge,
        source_type=kind,
        source_id=source,
        is_expectation=given.expectation is not None,
        time_ms=_time(given),
        metadata=given.metadata or {},
    )


def same_name(name: str, other: str) -> bool:
    """Compare names of assessments as MLflow's `align` does: whatever their capitals."""
    return name.strip().casefold() == other.strip().casefold()


def shown_fields(trace: Trace) -> tuple[Any, Any]:
    """Return inputs and outputs of a trace, as MLflow's judges are given them."""
    root = next((span for span in trace.data.spans if span.parent_id is None), None)
    return (None, None) if root is None else (root.inputs, root.outputs)


def models_of(traces: Iterable[Trace]) -> list[str]:
    """Return the models that the spans of traces name, each once: what an application asked."""
    names: dict[str, None] = {}
    for span in (span for trace in traces for span in trace.data.spans):
        asked = span.inputs.get("model") if isinstance(span.inputs, dict) else None
        told = [*(span.get_attribute(name) for name in keys.SPAN_MODELS), asked]
        names |= dict.fromkeys(name for name in told if isinstance(name, str) and name)
    return list(names)


def without_assessments(trace: Trace) -> Trace:
    """Return a trace about which nothing was said."""
    from mlflow.entities import Trace as NewTrace

    return NewTrace(info=replace(trace.info, assessments=[]), data=trace.data)


def with_outputs(trace: Trace, outputs: object) -> Trace:
    """Return a trace whose root span has other outputs."""
    from mlflow.entities import Span, TraceData
    from mlflow.entities import Trace as NewTrace

    def changed(span: Span) -> Span:
        if span.parent_id is not None:
            return span
        whole = span.to_dict()
        written = {keys.SPAN_OUTPUTS: json.dumps(outputs, ensure_ascii=False, default=str)}
        return Span.from_dict({**whole, "attributes": {**whole["attributes"], **written}})

    spans = [changed(span) for span in trace.data.spans]
    # The preview is the beginning of the old outputs.
    return NewTrace(info=replace(trace.info, response_preview=None), data=TraceData(spans=spans))


# Traces as transcripts

_QUESTIONS = (
    *("question", "query", "prompt", "instruction", "user_input", "message"),
    *("input", "inputs", "request", "text"),
)
_ANSWERS = ("answer", "response", "completion", "message", "output", "outputs", "result", "content", "text")
"""Keys under which applications keep what a user wrote, and what they answered."""
_WRAPPERS = ("input", "inputs", "request")
"""Keys under which messages may lie deeper."""


def transcripts_from_traces(
    source: str | Sequence[str], *, tracking_uri: str | None = None, max_traces: int | None = None
) -> Iterator[Transcript]:
    """Read traces as transcripts, one at a time.

    A trace's conversation is that of the chat span with the longest one: its input messages and what it answered.
    Agents send the whole conversation with every call, so that is normally all of it. Chat spans with messages that
    are not part of it are counted in `source["other_chat_spans"]`, with a warning. A trace without chat messages is
    what its root span was given and what it returned, as two messages (`source["single_turn"]`).

    Labels of people are its scores (`scores.x`): HUMAN feedback, and expectations that no model wrote, which are also
    `metadata.expectations.x`. What each person said is kept (`people`); a score is what most of them say, and is not
    there where no label leads. Feedback of models and code is `metadata.judge_scores`; tags are metadata, too.

    Args:
        source: Trace ids, or an experiment by its name or as `traces:/<name>`.
        tracking_uri: Of the store; None takes MLflow's own setting.
        max_traces: Of an experiment, the newest so many; None takes all.

    Raises:
        RecipeError: when an experiment or trace does not exist, or none of the traces can be read.
        TrackingError: when MLflow cannot be reached.
    """
    uri = tracking_uri or active_uri()
    n_read, by_models = 0, 0
    unread: dict[str, list[str]] = {}
    for trace in find_traces(source, uri, max_traces, spans=True):
        ratings = read_assessments(trace.info)
        by_models += sum(count for (_, why), count in ratings.left_out.items() if why == EXPECTED_BY_MODEL)
        try:
            transcript = _transcript(trace, ratings)
        except _UnreadError as reason:
            unread.setdefault(str(reason), []).append(trace.info.trace_id)
            continue
        n_read += 1
        yield transcript
    reasons = ", ".join(
        f"{len(ids)} {'has' if len(ids) == 1 else 'have'} {why} ({', '.join(ids[:5])}{', …' if len(ids) > 5 else ''})"
        for why, ids in unread.items()
    )
    count = sum(map(len, unread.values()))
    if not n_read:
        raise RecipeError(f"None of {count} traces can be read{f': {reasons}' if reasons else ''}.")
    if count:
        warnings.warn(f"{count} traces were left out: {reasons}.", JrhWarning, stacklevel=2)
    if by_models:
        message = f"{by_models} expectations were written by models and are no labels."
        warnings.warn(message, JrhWarning, stacklevel=2)


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceTurn:
    """What a trace was asked and answered."""

    trace_id: str
    session: str
    """The conversation that it is a turn of; a trace without one is its own."""
    when_ms: int
    messages: tuple[Message, ...]

    @property
    def question(self) -> str:
        """What the user said last."""
        return next((own.content for own in reversed(self.messages) if own.role == "user" and own.content), "")

    @property
    def answer(self) -> str:
        """What the application said last."""
        return next((own.content for own in reversed(self.messages) if own.role == "assistant" and own.content), "")


def turns_from_traces(
    source: str, *, tracking_uri: str, since_ms: int | None = None, most: int | None = None
) -> Iterator[TraceTurn]:
    """Yield what can be read of the traces of an experiment, the newest first, back to a moment.

    Raises:
        RecipeError: when there is no such experiment.
        TrackingError: when MLflow cannot be reached.
    """
    for trace in find_traces(source, tracking_uri, most, spans=True):
        when = int(trace.info.timestamp_ms)
        if since_ms is not None and when <= since_ms:
            return
        try:
            messages, _ = _chat(trace) or _single_turn(trace)
        except _UnreadError:
            continue
        session = (trace.info.trace_metadata or {}).get(keys.TRACE_SESSION) or trace.info.trace_id
        turn = TraceTurn(trace_id=trace.info.trace_id, session=str(session), when_ms=when, messages=messages)
        if turn.question and turn.answer:
            yield turn


class _UnreadError(Exception):
    """Why a trace holds nothing to judge: what it has not."""


def _transcript(trace: Trace, ratings: TraceRatings) -> Transcript:
    messages, source = _chat(trace) or _single_turn(trace)
    tags = {key: value for key, value in trace.info.tags.items() if not key.startswith("mlflow.")}
    scores, people = _labels(ratings, "scores")
    of_expectations, expecting = _labels(read_assessments(trace.info, only_expectations=True), "metadata.expectations")
    # Lists and mappings are facts and texts of a right answer, no labels.
    structured = {name: value for name, value in expectations_of(trace.info).items() if isinstance(value, dict | list)}
    expected = {**structured, **of_expectations}
    judges: dict[str, dict[str, Any]] = {}
    for rating in ratings.judges:
        judges.setdefault(rating.name, {})[rating.rater] = rating.label
    more = {"expectations": expected, JUDGE_SCORES: judges}
    return Transcript(
        id=trace.info.trace_id,
        messages=messages,
        input=first_user_text(messages),
        scores=scores,
        metadata={**tags, **{key: value for key, value in more.items() if value}},
        people={**people, **expecting},
        source={
            "format": TRACE,
            "trace_id": trace.info.trace_id,
            "state": str(getattr(trace.info.state, "value", trace.info.state)),
            **{key: value for key, value in source.items() if value},
        },
    )


def _labels(ratings: TraceRatings, place: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return what most people say by name, and what each of them says by field; of an even split nothing leads."""
    people: dict[str, dict[str, Any]] = {}
    for rating in ratings.people:
        people.setdefault(rating.name, {})[rating.rater] = rating.label
    leading = {name: most_frequent(list(given.values())) for name, given in people.items()}
    return (
        {name: label for name, label in leading.items() if label is not None},
        {f"{place}.{name}": given for name, given in people.items()},
    )


def _chat(trace: Trace) -> tuple[tuple[Message, ...], dict[str, Any]] | None:
    """Return the longest conversation of a trace's chat spans, or None where there is none."""
    name = trace.info.trace_id
    read = [(span, _conversation(span, name)) for span in trace.data.spans]
    chats = [(span, talk) for span, (talk, _) in read if talk]
    if not chats:
        return None
    # Of two that are as long the later one: agents repeat the conversation with every call.
    span, messages = max(chats, key=lambda chat: (len(chat[1]), chat[0].start_time_ns))
    known = {_key(message) for message in messages}
    others = sum(any(_key(message) not in known for message in talk) for _, talk in chats)
    if others:
        warnings.warn(
            f"Trace {name} has {others} more conversations; the longest one is the transcript.",
            JrhWarning,
            stacklevel=5,
        )
    replaced = next(count for other, (_, count) in read if other is span)
    return messages, {"span": span.name, "other_chat_spans": others, "replaced_characters": replaced}


def _single_turn(trace: Trace) -> tuple[tuple[Message, ...], dict[str, Any]]:
    """Return what the root span was given and what it returned, as two messages."""
    root = next((span for span in trace.data.spans if span.parent_id is None), None)
    if root is None:
        raise _UnreadError("no root span")
    output = [plain for message in _answered(root.outputs) for plain in plain_messages(message)]
    answers = [plain for plain in output if plain.get("role") == "assistant"]
    raw, replaced = clean_data([_text(root.inputs, _QUESTIONS), _text(root.outputs, _ANSWERS)])
    for text, what in zip(raw, ("input", "output"), strict=True):
        if not text.strip():
            raise _UnreadError(f"no {what}")
    given: list[dict[str, Any]] = [{"role": "user", "content": raw[0]}]
    # The last answer as a message has tool calls and reasoning, which its bare text has not.
    given += clean_data(answers[-1:])[0] or [{"role": "assistant", "content": raw[1]}]
    where = f"Trace {trace.info.trace_id}, span {root.name!r}"
    return from_openai(given, where=where), {"span": root.name, "single_turn": True, "replaced_characters": replaced}


def _text(value: Any, keys: Sequence[str]) -> str:
    """Return the text that somebody wrote: as it is, under a usual or the only key, or else all of it as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and len(value) == 1:
        return _text(value[0], keys)
    if isinstance(value, Mapping):
        text_inside = next((text for key in keys if (text := _text(value.get(key), keys))), "")
        if text_inside or len(value) < 2:
            return text_inside or next((_text(inner, keys) for inner in value.values()), "")
    return json.dumps(value, ensure_ascii=False, default=str)


def _conversation(span: Span, trace_id: str) -> tuple[tuple[Message, ...], int]:
    """Return the messages a chat span was given and what it answered, and how many characters were replaced."""
    given = _asked(span.inputs)
    if given is None:
        return (), 0
    raw, replaced = clean_data([*given, *_answered(span.outputs)])
    return from_openai(
        [plain for message in raw for plain in plain_messages(message)], where=f"Trace {trace_id}, span {span.name!r}"
    ), replaced


def _asked(inputs: object) -> list[Any] | None:
    if isinstance(inputs, Mapping) and "messages" not in inputs:
        return next((inside for key in _WRAPPERS if (inside := _asked(inputs.get(key)))), None)
    messages = inputs.get("messages") if isinstance(inputs, Mapping) else inputs
    # LangChain traces a batch: a list of conversations.
    if isinstance(messages, list) and len(messages) == 1 and isinstance(messages[0], list):
        messages = messages[0]
    if not isinstance(messages, list) or not messages or not all(_is_message(message) for message in messages):
        return None
    # Anthropic's form has the system message beside the others.
    system = inputs.get("system") if isinstance(inputs, Mapping) else None
    return [*([{"role": "system", "content": system}] if system else []), *messages]


def _answered(outputs: Any) -> list[Any]:
    """Find the messages of an answer: a completion (its first choice), a message, a list of them, or plain text."""
    if isinstance(outputs, str):
        return [{"role": "assistant", "content": outputs}]
    if isinstance(outputs, list):
        return [message for message in outputs if _is_message(message)]
    if not isinstance(outputs, Mapping):
        return []
    if _is_message(outputs):
        return [outputs]
    for several in (outputs.get("choices"), *(outputs.get("generations") or ())):
        if isinstance(several, list) and several and isinstance(several[0], Mapping):
            return _answered(several[0].get("message"))
    keys = ("messages", "message", "output", "outputs", "response")
    return _answered(next((outputs[key] for key in keys if key in outputs), None))


def _is_message(value: object) -> bool:
    return isinstance(value, Mapping) and ("role" in value or value.get("type") in LANGCHAIN_ROLES)


def _key(message: Message) -> tuple[object, ...]:
    return message.role, message.content, tuple(str(call.get("id")) for call in message.tool_calls)
