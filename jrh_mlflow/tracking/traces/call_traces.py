"""Judge calls and reviewed items as MLflow traces of their run: from a bad metric to the calls behind it.

The call table, the decisions and the reviewed suite are the record; traces are a view of some of it that MLflow can
filter. MLflow's usual way to a trace costs four times as much and goes through a queue that drops what does not fit.
Here every trace is written through MLflow's client and acknowledged, spans follow in batches, and in the end MLflow is
asked what it holds. Ids come from run and call or item, so writing the same traces again changes nothing.
"""

from __future__ import annotations

import base64
import hashlib
import heapq
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from jrh_mlflow.engine.calls import presentation_of
from jrh_mlflow.errors import RecipeError, TrackingError, suggest
from jrh_mlflow.judges.parsing import ABSTAIN, TIE
from jrh_mlflow.judges.scripted import slot_of
from jrh_mlflow.models.transports import known_secrets
from jrh_mlflow.schema.items import DELTA_0, DELTA_0_SAME, FILLER, USABLE, VACUUM, CallRecord, Item, Order
from jrh_mlflow.schema.metric_keys import TRACE_RUN
from jrh_mlflow.schema.presentation import Criterion, Message, part_text
from jrh_mlflow.show.html import FOLDER, Addresses
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.text import blank_secrets, clean_text
from jrh_mlflow.tracking import mlflow_internals
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import Store, trace_links
from jrh_mlflow.tracking.traces.traces_in import search_traces

if TYPE_CHECKING:
    from mlflow.entities import Assessment, Run, Span, TraceInfo

TRACES = ("sample", "failures", "all", "none")
BESIDE_RUN = ":run"
"""Ends a word of `TRACES`: the traces stay in the run's own experiment."""
CALLS_EXPERIMENT = "-calls"
"""Ends the name of the experiment that traces of judge calls go to: in the run's own they would be taken for those of
an application, and its quality for theirs."""
LEAST_SAMPLE, MAX_SAMPLE, SECONDS_PER_SAMPLED = 5, 100, 2
"""Calls of a fair sample: the least, and one more for each so many seconds that the run took, up to the most."""
MAX_PER_CONDITION = 5
"""Traces of one kind of failure in one condition, unless all calls are asked for."""
SECONDS_PER_EXAMPLE = 10
"""A run this long gets one more of each, so that traces stay a small share of the time a user waits."""
MAX_REVIEWED = 500
"""Whoever finishes a review waits for its traces, and each takes MLflow several statements."""

EXPECTATION = "expected_answer"
FEEDBACK = "met_expectation"
"""`yes`, `no` or `no answer`."""
REVIEW = "review"
"""Feedback of each reviewer: `accepted`, `edited` or `rejected`."""
VALIDATOR = "validator"
"""Feedback of the model that was asked to confirm the item: its answer."""
LABEL = "label"
"""Expectation: the label that stands after review."""
EDITED_TEXT = "edited_text"
"""Expectation: what a reviewer made of the text."""

_KEPT = "its metrics and calls are complete. The same call again writes the missing ones."
_OUTPUTS = ("outcome", "answer", "rationale", "error")
_EXPECTED_BY = ("condition", "order", "better", "expected")
"""Columns of a call that say what is expected of it."""
_SHOWN_ELSEWHERE = (*_OUTPUTS, "better", "expected", "labels")
_FROM_META = ("generator", "attempts", "similarity")
_MAX_COLUMN = 1000
_MAX_TAG = 250
_BATCH = 100
_BATCH_CHARACTERS = 4_000_000
_THREADS = 4
"""Over a network. SQLite takes one writer at a time: there more threads only wait for one another."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceNote:
    """An assessment of a trace: an expectation, or feedback."""

    name: str
    value: str
    expected: bool
    """An Expectation rather than Feedback."""
    source: str = "CODE"
    """`CODE`, `HUMAN` or `LLM_JUDGE`."""
    who: str = "jrh_mlflow"
    rationale: str | None = None
    most: int = _MAX_TAG
    """Longer values are cut; the whole is in the span."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceDraft:
    """A trace of one span; keys and what no database holds are taken out of its texts when it is written."""

    name: tuple[str, ...]
    """Names the trace within its run."""
    offset_ms: int
    """After the start of the run."""
    span: str
    """Name of the span."""
    about: str
    """The first words of its line in MLflow's list."""
    inputs: Mapping[str, Any]
    outputs: Any
    attributes: Mapping[str, Any]
    tags: Mapping[str, str]
    notes: Sequence[TraceNote]
    metadata: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    error: str | None = None
    """What went wrong; None when nothing did."""
    llm: Mapping[str, Any] | None = None
    """Name, inputs, outputs and attributes of a span below the first: the request to a model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewerDecision:
    """What one reviewer decided about an item last."""

    who: str
    state: str
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewedItem:
    """A decided item, and what a trace says about it."""

    item: Item
    """As it was generated."""
    source: Item | None
    """The unperturbed item it was made from, where it is known."""
    test: str
    part: str
    """Which part was rewritten: `response`, `rubric` or `transcript`."""
    state: str
    """The decision that stands."""
    by: str
    when: str
    label: str | None
    """The label that stands; None for a rejected item, and for one without a label."""
    decisions: Sequence[ReviewerDecision]
    verdict: str | None = None
    """The validator's answer; None when it was not asked."""
    validator: str = VALIDATOR
    """Who the validator is."""
    edited_text: str | None = None
    edited_message: int | None = None
    """Of a transcript: which message `edited_text` replaces."""


def checked_traces(text: str) -> str:
    """Return the word that says which calls become traces; with `:run` behind it in the run's own experiment.

    Raises:
        RecipeError: when it is none of `TRACES`.
    """
    if str(text).removesuffix(BESIDE_RUN) not in TRACES:
        raise RecipeError(f"Unknown traces {text!r}.{suggest(str(text), TRACES)} Give one of {', '.join(TRACES)}.")
    return text


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedCalls:
    """Calls of one judge on one suite, some of which become traces."""

    calls: pd.DataFrame
    suite: Suite
    judge: str
    """Its name."""
    criterion: Criterion
    simulated: bool
    seconds: float
    """How long they took: a longer run gets more traces."""
    traces: str
    """Which calls: `sample`, `failures`, `all` or `none`; with `:run` behind it in the run's own experiment."""
    messages: Callable[..., list[dict[str, Any]] | None] = lambda *_, **__: None
    """What was sent for a call (`SentMessages.of`), None where that is not known."""


def log_traces(store: Store, run_id: str, traced: TracedCalls) -> int:
    """Write judge calls as traces of a run, and return how many.

    `sample` is a fair sample: each call has the same chance, and on one suite the same calls are drawn for every judge.
    `failures` are calls that ended as error or unparsed and calls against what is expected of them (`expectation`): a
    few per condition and kind (`examples`). `all` is every call. Simulated judges and suites without texts get traces
    only with `all`. The run's tag `jrh.traces` says how many were written of how many there are. They go to an
    experiment of their own, linked to the run, which links to them.

    When a call began is not recorded: traces begin at the start of the run, a millisecond apart in the order of the
    calls. How long one took is the call's latency.

    Raises:
        TrackingError: when MLflow does not hold every trace in the end.
    """
    which = checked_traces(traced.traces).removesuffix(BESIDE_RUN)
    if which == "none":
        return 0
    place, reason, judged = store, _why_none(store, traced, which), traced.calls
    if not reason or which == "failures":
        judged = judged.assign(failure=failures(judged, traced.criterion), position=range(len(judged)))
    wanted = judged[judged["failure"] != ""] if which == "failures" else judged
    if not reason and len(wanted) and not traced.traces.endswith(BESIDE_RUN):
        place, reason = _calls_store(store)
    chosen = judged[:0] if reason else wanted
    if which == "sample":
        chosen = fair_sample(chosen, most=sample_size(traced.seconds))
    elif which == "failures":
        chosen = sample(chosen, few=examples(traced.seconds))
    links: dict[str, str] = {}
    if len(chosen):
        items = {item.id: item for item in traced.suite.items}
        page = Addresses(store.view_links().pages)
        drafts = (_call_draft(row, items, traced, run_id, page) for row in chosen.to_dict("records"))
        run = write_traces(store, run_id, drafts, kept=_KEPT, place=place)
        links = trace_links(run, place.experiment_id, len(chosen))
    what = {"sample": f"calls, a fair sample of {len(chosen) / max(1, len(wanted)):.1%}", "failures": "failures"}
    _tag(store, run_id, f"{len(chosen)} of {len(wanted)} {what.get(which, 'calls')}", reason, **links)
    return len(chosen)


def _calls_store(store: Store) -> tuple[Store, str]:
    """Return the experiment of traces beside the one of runs, which says what it holds, and why it takes none."""
    place = store.beside(CALLS_EXPERIMENT)
    experiment = place.client.get_experiment(place.experiment_id)
    if experiment.lifecycle_stage == "deleted":
        # Whoever deleted it wants none of them; the run must not fail for it.
        return place, f"experiment {experiment.name} was deleted"
    if not experiment.tags.get(keys.TAG_NOTE):
        runs = Addresses(FOLDER).experiment(store.experiment_id, "runs", mode="machine_learning")
        note = f"Calls of judges that were measured, as traces, a part of them. [The runs they belong to]({runs})."
        place.client.set_experiment_tag(place.experiment_id, keys.TAG_NOTE, note)
    return place, ""


def log_review_traces(store: Store, run_id: str, items: Sequence[ReviewedItem], *, kept: str) -> int:
    """Write decided items as traces of a review's run, and return how many.

    Each has one Feedback per reviewer, the validator's, and the label and text that stand as Expectations. The first
    `MAX_REVIEWED` items are written; the run's tag `jrh.traces` says of how many. The first stand on top of MLflow's
    list, which begins with the newest: traces begin at the start of the run, a millisecond apart.

    Raises:
        TrackingError: when MLflow does not hold every trace in the end; `kept` says what is safe, and what to do.
    """
    reason = why_no_spans(store)
    chosen = () if reason else items[:MAX_REVIEWED]
    if chosen:
        drafts = (_review_draft(item, offset_ms=len(chosen) - place) for place, item in enumerate(chosen))
        write_traces(store, run_id, drafts, kept=kept)
    _tag(store, run_id, f"{len(chosen)} of {len(items)} decided items", reason)
    return len(chosen)


def _tag(store: Store, run_id: str, written: str, reason: str, **links: str) -> None:
    store.log_batch(run_id, tags={**links, keys.TAG_TRACES: f"{written} ({reason})" if reason else written})


def expectation(
    *, condition: str, order: str, better: str, expected: str, offers_tie: bool = True
) -> tuple[str, frozenset[str]] | None:
    """Return the expected answer and every answer that meets it; None where nothing is expected.

    A tie is expected in the vacuum and at delta 0, unless the criterion offers none. As in the metrics an abstention
    is no preference, though on `delta_0_same` only a tie is a tie. Padding must not be preferred.

    Example:
        >>> expectation(condition="ladder", order="vu", better="u", expected="")
        ('2', frozenset({'2'}))
    """
    if better:
        slot = slot_of(better, order)
        return slot, frozenset({slot})
    if condition == FILLER:
        plain = slot_of("u", order)
        return f"{plain} or tie" if offers_tie else plain, frozenset({plain, TIE, ABSTAIN})
    if condition in (*VACUUM, *DELTA_0):
        met = {TIE} if condition == DELTA_0_SAME else {TIE, ABSTAIN}
        return (TIE, frozenset(met)) if offers_tie else None
    return (expected, frozenset({expected})) if expected else None


def failures(calls: pd.DataFrame, criterion: Criterion) -> list[str]:
    """Name how each call failed: `error`, `unparsed`, `tie`, `abstain`, `preference`, `worse content`, `wrong label`.

    Empty where a call met its expectation, or had none.
    """
    # What a model or nobody confirmed cannot be failed.
    if "label_source" in calls:
        calls = calls.assign(expected=calls["expected"].where(calls["label_source"] == "", ""))
    names = (*_EXPECTED_BY, "outcome", "answer")
    cells = [calls[name].tolist() for name in names]
    # Thousands of calls, but few that differ in what is expected and answered.
    kinds = {
        row: _failure(*("" if pd.isna(cell) else str(cell) for cell in row), offers_tie=criterion.offers_tie)
        for row in set(zip(*cells, strict=True))
    }
    return [kinds[row] for row in zip(*cells, strict=True)]


def _failure(
    condition: str, order: str, better: str, expected: str, outcome: str, answer: str, *, offers_tie: bool
) -> str:
    wanted = expectation(condition=condition, order=order, better=better, expected=expected, offers_tie=offers_tie)
    if outcome in USABLE and (wanted is None or (answer or outcome) in wanted[1]):
        return ""
    if outcome != "verdict":
        return outcome
    return "worse content" if better else "preference" if order else "wrong label"


def examples(seconds: float) -> int:
    """Return how many failures of each kind become traces after a run of so many seconds."""
    return min(MAX_PER_CONDITION, 1 + int(seconds // SECONDS_PER_EXAMPLE))


def sample_size(seconds: float) -> int:
    """Return how many calls are sampled after a run of so many seconds."""
    return min(MAX_SAMPLE, LEAST_SAMPLE + int(seconds // SECONDS_PER_SAMPLED))


def fair_sample(calls: pd.DataFrame, *, most: int) -> pd.DataFrame:
    """Draw calls, each with the same chance whatever it came to; the same ones every time, of every judge."""
    identity = zip(*(calls[name].tolist() for name in ("suite_item", "order", "replicate")), strict=True)
    draws = ((digest_of(*map(str, parts)), place) for place, parts in enumerate(identity))
    chosen: pd.DataFrame = calls.iloc[sorted(place for _, place in heapq.nsmallest(most, draws))]
    return chosen


def sample(failed: pd.DataFrame, *, few: int) -> pd.DataFrame:
    """Take `few` failures of each kind, the same ones every time, spread over the steps of the ladder."""
    # As lists: sorting and grouping a frame takes as long as writing some of the traces.
    identity = (failed[name].tolist() for name in ("suite_item", "order", "replicate"))
    draws = [digest_of(*map(str, parts)) for parts in zip(*identity, strict=True)]
    kinds = [*zip(*(map(str, failed[name].tolist()) for name in ("condition", "failure", "delta")), strict=True)]
    turns, taken, chosen = Counter[tuple[str, ...]](), Counter[tuple[str, ...]](), []
    order = []
    # In turns over the steps: the first of each step, then the second of each, in the order of their hashes.
    for place in sorted(range(len(draws)), key=draws.__getitem__):
        order.append((turns[kinds[place]], draws[place], place))
        turns[kinds[place]] += 1
    for _, _, place in sorted(order):
        taken[kinds[place][:2]] += 1
        if taken[kinds[place][:2]] <= few:
            chosen.append(place)
    in_order: pd.DataFrame = failed.iloc[chosen].sort_values("position")
    return in_order


def _why_none(store: Store, traced: TracedCalls, which: str) -> str:
    """Say why no trace is written at all; an empty string when there is no reason."""
    if which != "all" and traced.simulated:
        return "simulated judge"
    if which != "all" and not traced.suite.has_texts and traced.suite.hash_of_texts is None:
        return "no texts"
    return why_no_spans(store)


def why_no_spans(store: Store) -> str:
    """Say why a store takes no traces, to the user too; an empty string when it does."""
    try:
        # At Databricks spans go to a table of Unity Catalog, and not to an experiment.
        if not store.uri.startswith("databricks"):
            mlflow_internals.log_spans([], experiment_id=store.experiment_id, uri=store.uri)
            return ""
    except NotImplementedError:
        pass
    print(
        "note: No traces are written: this MLflow store takes no spans. A database or a server does.", file=sys.stderr
    )
    return "the store takes no spans"


def _call_draft(
    row: Mapping[Any, Any], items: Mapping[str, Item], traced: TracedCalls, run_id: str, page: Addresses
) -> TraceDraft:
    call, criterion, judge = _record(row), traced.criterion, traced.judge
    outputs = {name: value for name in _OUTPUTS if (value := getattr(call, name)) not in (None, "")}
    # A label that is no ground truth is no expectation: it is told beside its source.
    elsewhere = {*_SHOWN_ELSEWHERE} - ({"expected"} if call.label_source else set())
    cells = {name: value for name, value in asdict(call).items() if name not in elsewhere}
    attributes = {keys.own_key(name): value for name, value in cells.items() if value not in (None, "")}
    attributes[keys.own_key("page")] = page.calls(run_id, open=call.suite_item)
    tags = {"condition": call.condition, "suite_item": call.suite_item, "outcome": call.outcome}
    tags |= {"delta": "" if call.delta is None else f"{call.delta:g}", "failure": str(row["failure"])}
    inputs = _call_inputs(call, items.get(call.suite_item), criterion)
    llm, metadata = _llm_call(call, items.get(call.suite_item), traced, inputs)
    return TraceDraft(
        name=call_name(call.suite_item, call.order, call.replicate),
        offset_ms=int(row["position"]),
        span=judge,
        about=f"{call.suite_item} {call.order}".strip(),
        inputs=inputs,
        outputs=outputs,
        attributes=attributes,
        tags={
            "mlflow.traceName": call.condition,
            TRACE_RUN: run_id,
            **{keys.own_key(name): text for name, text in tags.items() if text},
        },
        notes=_call_notes(call, criterion, failed=bool(row["failure"])),
        metadata=metadata,
        seconds=call.latency_s,
        error=None if call.outcome in USABLE else call.error or "",
        llm=llm,
    )


def _llm_call(
    call: CallRecord, item: Item | None, traced: TracedCalls, shown: Mapping[str, Any]
) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Return the span of the request to a model, None where none is known of, and what the trace says of its cost."""
    key = {"order": call.order, "replicate": call.replicate, "key": call.prompt_sha256}
    messages = traced.messages(item, **key)
    if messages is None and call.input_tokens is None:
        return None, {}
    attributes: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    model = call.model or traced.judge
    if call.input_tokens is not None and call.output_tokens is not None:
        sent, got = call.input_tokens, call.output_tokens
        tokens = {"input_tokens": sent, "output_tokens": got, "total_tokens": sent + got}
        metadata["mlflow.trace.tokenUsage"] = json.dumps(tokens)
        attributes["mlflow.chat.tokenUsage"] = tokens
    if call.cost_usd is not None:
        metadata["mlflow.trace.cost"] = json.dumps({"total_cost": call.cost_usd})
        # The model is named with a cost only: without one MLflow would look up a price of its own.
        attributes |= {"mlflow.llm.model": model, "mlflow.llm.cost": {"total_cost": call.cost_usd}}
    inputs = shown if messages is None else {"messages": messages}
    answer = call.raw if call.raw is not None else call.answer or call.outcome
    outputs = {"choices": [{"message": {"role": "assistant", "content": answer}}]}
    own = {keys.own_key("model"): model, **attributes}
    return {"name": model, "inputs": inputs, "outputs": outputs, "attributes": own}, metadata


def _record(row: Mapping[str, Any]) -> CallRecord:
    """Read a row of the call table back; recorded judgments may lack columns."""
    known = {known_field.name: row[known_field.name] for known_field in fields(CallRecord) if known_field.name in row}
    texts = dict.fromkeys(("order", "better", "answer", "expected"), "")
    return CallRecord(**{**texts, "delta": None, **{name: cell for name, cell in known.items() if not pd.isna(cell)}})


def _call_inputs(call: CallRecord, item: Item | None, criterion: Criterion) -> dict[str, Any]:
    """What the judge was shown, contents in the slots of this order; the id alone where there is no text."""
    if item is None or item.instruction is None:
        return {"suite_item": call.suite_item}
    shown = presentation_of(item, cast(Order, call.order), criterion)
    parts = {name: getattr(shown, name) for name in ("instruction", "rubric", "first", "second", "response")}
    parts["context"] = list(shown.context or ()) or None
    parts["transcript"] = [message_parts(message) for message in shown.transcript or ()] or None
    parts["answers"] = list(shown.answers)
    return {name: value for name, value in parts.items() if value is not None}


def _call_notes(call: CallRecord, criterion: Criterion, *, failed: bool) -> list[TraceNote]:
    """What was expected, and whether it was met; nothing where an answer came and none was expected."""
    known = {name: getattr(call, name) for name in _EXPECTED_BY} | ({"expected": ""} if call.label_source else {})
    wanted = expectation(**known, offers_tie=criterion.offers_tie)
    answered, text = call.outcome in USABLE, call.answer or call.outcome
    because = call.rationale if answered else call.error
    notes = []
    if wanted is not None:
        notes.append(TraceNote(name=EXPECTATION, value=wanted[0], expected=True))
        text = f"Expected {wanted[0]}, got {text}"
    if wanted is not None or not answered:
        value = "no answer" if not answered else "no" if failed else "yes"
        rationale = f"{text}: {because}" if because else f"{text}."
        notes.append(TraceNote(name=FEEDBACK, value=value, expected=False, rationale=rationale))
    return notes


def _review_draft(reviewed: ReviewedItem, *, offset_ms: int) -> TraceDraft:
    item, part = reviewed.item, reviewed.part
    # Of a reworded rubric also the response it is about.
    beside = {"response": item.response} if part == "rubric" else {"rubric": item.rubric}
    original = _part(reviewed.source, part) if reviewed.source else None
    inputs = {"instruction": item.instruction, **beside, "original": original, "test": reviewed.test}
    made = {name: str(value) for name in _FROM_META if (value := item.meta.get(name)) is not None}
    known: dict[str, Any] = {**made, "suite_item": item.id, "part": part}
    known |= {"decided_by": reviewed.by, "decided_at": reviewed.when, "generated_label": item.expected}
    known |= {EDITED_TEXT: reviewed.edited_text, "edited_message": reviewed.edited_message}
    tags = {"suite_item": item.id, "condition": item.condition, "state": reviewed.state}
    return TraceDraft(
        name=(item.id,),
        offset_ms=offset_ms,
        span="review",
        about=item.id,
        inputs={name: value for name, value in inputs.items() if value is not None},
        outputs=_part(item, part),
        attributes={keys.own_key(name): value for name, value in known.items() if value is not None},
        tags={"mlflow.traceName": reviewed.test, **{keys.own_key(name): text for name, text in tags.items()}},
        notes=_review_notes(reviewed),
    )


def _part(item: Item, part: str) -> Any:
    """Return the part of an item that is rewritten."""
    if part == "transcript":
        return [message_parts(message) for message in item.transcript or ()]
    return item.rubric if part == "rubric" else item.response


def _review_notes(reviewed: ReviewedItem) -> list[TraceNote]:
    """What each reviewer decided, what the validator said, and what stands."""
    notes = [
        TraceNote(
            name=REVIEW,
            value=decision.state,
            expected=False,
            source="HUMAN",
            who=decision.who,
            rationale=decision.reason,
        )
        for decision in reviewed.decisions
    ]
    if reviewed.verdict is not None:
        expected = reviewed.item.expected
        notes.append(
            TraceNote(
                name=VALIDATOR,
                value=reviewed.verdict,
                expected=False,
                source="LLM_JUDGE",
                who=reviewed.validator,
                rationale=None if expected is None else f"The item was made for {column(expected, _MAX_TAG)!r}.",
            )
        )
    stands = {LABEL: reviewed.label, EDITED_TEXT: reviewed.edited_text}
    return notes + [
        TraceNote(name=name, value=text, expected=True, source="HUMAN", who=reviewed.by, most=_MAX_COLUMN)
        for name, text in stands.items()
        if text is not None
    ]


def write_traces(
    store: Store, run_id: str, drafts: Iterable[TraceDraft], *, kept: str, place: Store | None = None
) -> Run:
    """Write traces of a run in batches, then ask MLflow which of them it holds, whole; return the run as it was.

    They go to the experiment of `place`, the run's own when it is None.

    Raises:
        TrackingError: when it does not hold every one; `kept` says what is safe all the same, and what to do.
    """
    run, secrets = store.client.get_run(run_id), known_secrets()
    experiment_id = (place or store).experiment_id
    start = partial(mlflow_internals.start_trace, uri=store.uri)
    promised: dict[str, int] = {}
    with ThreadPoolExecutor(1 if store.uri.startswith("sqlite") else _THREADS, thread_name_prefix="jrh-traces") as pool:
        for batch in _batches(_safe(draft, secrets) for draft in drafts):
            infos = [_info(draft, run, experiment_id) for draft in batch]
            # The trace before its span: the other way round takes MLflow twice as long.
            list(pool.map(start, infos))
            spans = [span for draft in batch for span in _spans(draft, run)]
            mlflow_internals.log_spans(spans, experiment_id=experiment_id, uri=store.uri)
            if experiment_id != run.info.experiment_id:
                store.client.link_traces_to_run([info.trace_id for info in infos], run_id)
            promised |= {info.trace_id: len(info.assessments) for info in infos}
    # At least as many: people may have added assessments since an earlier attempt wrote the trace.
    stored = _stored(store, run, experiment_id)
    whole = sum(stored.get(trace_id, -1) >= n_assessments for trace_id, n_assessments in promised.items())
    if whole < len(promised):
        raise TrackingError(f"MLflow holds {whole} of {len(promised)} traces of run {run_id}; {kept}")
    return run


def _safe(draft: TraceDraft, secrets: Sequence[str]) -> TraceDraft:
    """Take keys and lone surrogates out before anything is cut: half a key would not be found."""
    names = ("span", "about", "inputs", "outputs", "attributes", "tags", "error", "llm")
    texts = {name: safe_texts(getattr(draft, name), secrets) for name in names}
    cleaned = [
        replace(note, **{name: safe_texts(getattr(note, name), secrets) for name in ("value", "who", "rationale")})
        for note in draft.notes
    ]
    return replace(draft, **texts, notes=cleaned)


def _batches(drafts: Iterable[TraceDraft]) -> Iterator[list[TraceDraft]]:
    batch: list[TraceDraft] = []
    characters = 0
    for draft in drafts:
        parts = (*draft.inputs.values(), *_output_parts(draft), *draft.attributes.values(), draft.llm)
        size = sum(len(str(value)) for value in parts)
        # A request has a largest size; a single trace that is larger goes alone.
        if batch and (len(batch) == _BATCH or characters + size > _BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(draft)
        characters += size
    yield batch


def _stored(store: Store, run: Run, experiment_id: str) -> dict[str, int]:
    """Return the run's traces whose spans are there too, and how many assessments each has."""
    # With the run's own experiment, which MLflow demands.
    places = sorted({experiment_id, str(run.info.experiment_id)})
    traces = search_traces(store.client, places, run_id=run.info.run_id)
    infos = [trace.info for trace in traces]
    return {info.trace_id: len(info.assessments) for info in infos if "mlflow.trace.spansLocation" in info.tags}


def digest_of(*parts: str) -> str:
    """Hash of run and call or item: what it names is never there twice."""
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _trace_id(digest: str) -> str:
    return f"tr-{digest[:32]}"


def call_name(suite_item: str, order: str, replicate: int) -> tuple[str, ...]:
    """Name a call within its run."""
    return suite_item, order, str(replicate)


def trace_of_call(run_id: str, suite_item: str, order: str, replicate: int) -> str:
    """Return the id that the trace of a call has, where there is one."""
    return _trace_id(digest_of(run_id, *call_name(suite_item, order, replicate)))


def _info(draft: TraceDraft, run: Run, experiment_id: str) -> TraceInfo:
    from mlflow.entities import TraceInfo, TraceLocation, TraceState

    run_id = str(run.info.run_id)
    digest = digest_of(run_id, *draft.name)
    return TraceInfo(
        trace_id=_trace_id(digest),
        trace_location=TraceLocation.from_experiment_id(experiment_id),
        request_time=_start_ms(draft, run),
        execution_duration=None if draft.seconds is None else round(1000 * draft.seconds),
        state=TraceState.OK if draft.error is None else TraceState.ERROR,
        # The id first: in MLflow's list the tasks of a suite begin alike.
        request_preview=_preview(draft.about, *draft.inputs.values()),
        response_preview=_preview(*_output_parts(draft)),
        trace_metadata={"mlflow.sourceRun": run_id, "mlflow.trace_schema.version": "3", **draft.metadata},
        tags={name: column(text, _MAX_TAG) for name, text in draft.tags.items()},
        assessments=[_assessment(note, run_id, digest, number) for number, note in enumerate(draft.notes)],
    )


def _assessment(note: TraceNote, run_id: str, digest: str, number: int) -> Assessment:
    from mlflow.entities import AssessmentSource, Expectation, Feedback

    common: dict[str, Any] = {
        "name": note.name,
        "value": column(note.value, note.most),
        "source": AssessmentSource(source_type=note.source, source_id=column(note.who, _MAX_TAG)),
        "trace_id": _trace_id(digest),
        "metadata": {"mlflow.assessment.sourceRunId": run_id},
    }
    rationale = column(note.rationale, _MAX_COLUMN) if note.rationale else None
    made = Expectation(**common) if note.expected else Feedback(**common, rationale=rationale)
    # An id of our own, so that to write the trace again changes nothing.
    made.assessment_id = f"a-{digest[:31]}{number}"
    return made


def _spans(draft: TraceDraft, run: Run) -> Iterator[Span]:
    digest, start_ns = digest_of(str(run.info.run_id), *draft.name), _start_ms(draft, run) * 1_000_000
    end_ns = start_ns + round(1e9 * (draft.seconds or 0))
    times: dict[str, Any] = {"start_ns": start_ns, "end_ns": end_ns}
    error = None if draft.error is None else column(draft.error, _MAX_COLUMN)
    yield finished_span(
        digest[:32],
        digest[32:48],
        name=column(draft.span, _MAX_TAG),
        kind="EVALUATOR",
        inputs=draft.inputs,
        outputs=draft.outputs,
        attributes=draft.attributes,
        error=error,
        **times,
    )
    if draft.llm is not None:
        llm = {**draft.llm, "name": column(draft.llm["name"], _MAX_TAG)}
        yield finished_span(digest[:32], digest[48:64], kind="LLM", parent=digest[32:48], **llm, **times)


def finished_span(
    trace_digits: str,
    span_digits: str,
    *,
    name: str,
    kind: str,
    inputs: object,
    outputs: object,
    start_ns: int,
    end_ns: int,
    parent: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    error: str | None = None,
) -> Span:
    """Make a span as MLflow would have recorded it, of ids in hexadecimal digits; `error` is None where none was."""
    from mlflow.entities import Span

    own = {
        keys.SPAN_TRACE: f"tr-{trace_digits}",
        keys.SPAN_KIND: kind,
        keys.SPAN_INPUTS: inputs,
        keys.SPAN_OUTPUTS: outputs,
        **(attributes or {}),
    }
    return Span.from_dict(
        {
            "trace_id": _base64(trace_digits),
            "span_id": _base64(span_digits),
            "parent_span_id": None if parent is None else _base64(parent),
            "name": name,
            "start_time_unix_nano": start_ns,
            "end_time_unix_nano": end_ns,
            "status": {"code": f"STATUS_CODE_{'OK' if error is None else 'ERROR'}", "message": error or ""},
            "attributes": {key: json.dumps(value, ensure_ascii=False, default=str) for key, value in own.items()},
            "events": [],
        }
    )


def _start_ms(draft: TraceDraft, run: Run) -> int:
    return int(run.info.start_time) + draft.offset_ms


def _output_parts(draft: TraceDraft) -> list[Any]:
    return list(draft.outputs.values()) if isinstance(draft.outputs, Mapping) else [draft.outputs]


def message_parts(message: Message) -> dict[str, str]:
    """Return a message as texts, without what is empty."""
    parts = {"role": message.role, "content": message.content, "tool_call_id": message.tool_call_id}
    if message.tool_calls:
        # As text: arguments may be nested deeper than MLflow's wire format goes.
        parts["tool_calls"] = json.dumps(message.tool_calls, ensure_ascii=False, default=str)
    parts |= {"name": message.name, "reasoning": message.reasoning, "error": message.error}
    if message.parts:
        parts["parts"] = "\n".join(part_text(part) for part in message.parts)
    return {name: value for name, value in parts.items() if value is not None}


def safe_texts(value: Any, secrets: Sequence[str]) -> Any:
    """Take keys and lone surrogates out of every text inside."""
    if isinstance(value, str):
        return clean_text(blank_secrets(value, secrets))
    if isinstance(value, Mapping):
        return {name: safe_texts(inner, secrets) for name, inner in value.items()}
    return [safe_texts(inner, secrets) for inner in value] if isinstance(value, list) else value


def column(text: str, most: int) -> str:
    """Shorten a text for a column; the whole of it is in the span. Not every database takes NUL."""
    text = clean_text(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _preview(*parts: object) -> str:
    return column(" | ".join(str(part) for part in parts if part), _MAX_COLUMN)


def _base64(digits: str) -> str:
    return base64.b64encode(bytes.fromhex(digits)).decode()
