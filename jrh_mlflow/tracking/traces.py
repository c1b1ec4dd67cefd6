"""Judge calls as MLflow traces of their run: from a bad metric to the calls behind it.

The call table is the record; traces are a view of some calls. MLflow's usual way to a trace costs four times as much
and goes through a queue that drops what does not fit. Here every trace is written through MLflow's client and
acknowledged, spans follow in batches, and in the end MLflow is asked what it holds. Ids come from run and call, so
writing the same traces again changes nothing.

One judge call as an MLflow trace: what was shown and said, what was expected, and whether that was met.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from jrh_mlflow.engine.calls import present
from jrh_mlflow.errors import RecipeError, TrackingError, suggest
from jrh_mlflow.judges.answers import ABSTAIN, TIE
from jrh_mlflow.judges.scripted import slot_of
from jrh_mlflow.models.transports import known_secrets
from jrh_mlflow.schema.calls import USABLE, CallRecord
from jrh_mlflow.schema.criteria import BUILT_IN, Criterion
from jrh_mlflow.schema.items import DELTA_0, DELTA_0_SAME, FILLER, VACUUM, Item, Order
from jrh_mlflow.schema.presentation import Message, part_text
from jrh_mlflow.text import blank_secrets, clean_text
from jrh_mlflow.tracking import keys
from jrh_mlflow.tracking.outbox import JudgeFacts, Measured
from jrh_mlflow.tracking.store import Store

if TYPE_CHECKING:
    from mlflow.entities import Assessment, Span, TraceInfo


TRACES = ("failures", "all", "none")
MAX_PER_CONDITION = 5
"""Traces of one kind of failure in one condition, unless all calls are asked for."""
SECONDS_PER_EXAMPLE = 10
"""A run this long gets one more of each, so that traces stay a small share of the time a user waits."""

_KEPT = "its metrics and calls are complete. The same call again writes the missing ones."
_BATCH = 100
_BATCH_CHARACTERS = 4_000_000
_THREADS = 4
"""Over a network. SQLite takes one writer at a time: there more threads only wait for one another."""


def checked_traces(text: str) -> str:
    """Return the word that says which calls become traces.

    Raises:
        RecipeError: when it is none of `TRACES`.
    """
    if text not in TRACES:
        raise RecipeError(f"Unknown traces {text!r}.{suggest(str(text), TRACES)} Give one of {', '.join(TRACES)}.")
    return text


def log_traces(store: Store, run_id: str, measured: Measured) -> int:
    """Write judge calls as traces of a run, and return how many.

    `failures` are calls that ended as error or unparsed and calls against what is expected of them (`expectation`): a
    few per condition and kind (`examples`). `all` is every call. Simulated judges and suites without texts get traces
    only with `all`. The run's tag `jrh.traces` says how many were written of how many there are.

    When a call began is not recorded: traces begin at the start of the run, a millisecond apart in the order of the
    calls. How long one took is the call's latency.

    Raises:
        TrackingError: when MLflow does not hold every trace in the end.
    """
    if checked_traces(measured.traces) == "none":
        return 0
    everything = measured.traces == "all"
    criterion = criterion_of(measured.judge)
    judged = measured.calls.assign(failure=failures(measured.calls, criterion), position=range(len(measured.calls)))
    wanted = judged if everything else judged[judged["failure"] != ""]
    reason = _why_none(store, measured)
    chosen = judged[:0] if reason else wanted if everything else sample(wanted, few=examples(measured.seconds))
    if len(chosen):
        secrets = known_secrets()
        traced = _traced(store, run_id, measured, criterion, chosen)
        write_traces(store, run_id, (trace_of(one, secrets) for one in traced), kept=_KEPT)
    what = "calls" if everything else "failures"
    store.client.set_tag(run_id, keys.TAG_TRACES, f"{len(chosen)} of {len(wanted)} {what}{reason and f' ({reason})'}")
    return len(chosen)


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
    names = ("condition", "order", "better", "expected", "outcome", "answer")
    columns = (calls[name].astype(object).where(calls[name].notna(), "").astype(str) for name in names)
    found = []
    for condition, order, better, expected, outcome, answer in zip(*columns, strict=True):
        wanted = expectation(
            condition=condition, order=order, better=better, expected=expected, offers_tie=criterion.offers_tie
        )
        if outcome in USABLE and (wanted is None or (answer or outcome) in wanted[1]):
            found.append("")
        elif outcome != "verdict":
            found.append(outcome)
        else:
            found.append("worse content" if better else "preference" if order else "wrong label")
    return found


def examples(seconds: float) -> int:
    """Return how many failures of each kind become traces after a run of so many seconds."""
    return min(MAX_PER_CONDITION, 1 + int(seconds // SECONDS_PER_EXAMPLE))


def sample(failed: pd.DataFrame, *, few: int) -> pd.DataFrame:
    """Take `few` failures of each kind, the same ones every time, spread over the steps of the ladder."""
    identity = zip(failed["suite_item"], failed["order"], failed["replicate"], strict=True)
    drawn = failed.assign(draw=[digest_of(*map(str, parts)) for parts in identity]).sort_values("draw")
    drawn["turn"] = drawn.groupby(["condition", "failure", "delta"], dropna=False, sort=False).cumcount()
    taken = drawn.sort_values(["turn", "draw"]).groupby(["condition", "failure"], sort=False).head(few)
    in_order: pd.DataFrame = taken.sort_values("position")
    return in_order


def criterion_of(judge: JudgeFacts) -> Criterion:
    """Read the tie criterion off what is known of a judge; its text is empty for recorded judgments."""
    name = str(judge.settings.get("tie_criterion", ""))
    _, found, text = judge.prompt.rpartition(f"Tie criterion ({name}): ")
    offers_tie = BUILT_IN[name].offers_tie if name in BUILT_IN else True
    return Criterion(name=name, text=text.strip() if found else "", offers_tie=offers_tie)


def _why_none(store: Store, measured: Measured) -> str:
    """Say why no trace is written at all; an empty string when there is no reason."""
    if measured.traces != "all" and measured.judge.simulated:
        return "simulated judge"
    if measured.traces != "all" and not measured.suite.has_texts:
        return "no texts"
    return why_no_spans(store)


def why_no_spans(store: Store) -> str:
    """Say why a store takes no traces, to the user too; an empty string when it does."""
    if _takes_spans(store):
        return ""
    print("No traces are written: this MLflow store takes no spans. A database or a server does.", file=sys.stderr)
    return "the store takes no spans"


def _takes_spans(store: Store) -> bool:
    from mlflow.tracing.client import TracingClient

    if store.uri.startswith("databricks"):
        return False  # spans go to a Unity Catalog table there, not to an experiment
    try:
        TracingClient(store.uri).log_spans(store.experiment_id, [])
    except NotImplementedError:
        return False
    return True


def _traced(
    store: Store, run_id: str, measured: Measured, criterion: Criterion, chosen: pd.DataFrame
) -> Iterator[TracedCall]:
    run = store.client.get_run(run_id)
    items = {item.id: item for item in measured.suite.items}
    for row in chosen.to_dict("records"):
        call = _record({str(name): value for name, value in row.items()})
        wanted = expectation(
            condition=call.condition,
            order=call.order,
            better=call.better,
            expected=call.expected,
            offers_tie=criterion.offers_tie,
        )
        yield TracedCall(
            call=call,
            item=items.get(call.suite_item),
            criterion=criterion,
            judge=measured.judge.name,
            expected=wanted[0] if wanted else None,
            failure=str(row["failure"]),
            run_id=run_id,
            experiment_id=str(run.info.experiment_id),
            start_ms=int(run.info.start_time) + int(row["position"]),
        )


def _record(row: Mapping[str, Any]) -> CallRecord:
    """Read a row of the call table back; recorded judgments may lack columns."""
    known = {each.name: row[each.name] for each in fields(CallRecord) if each.name in row}
    texts = dict.fromkeys(("order", "better", "answer", "expected"), "")
    return CallRecord(**{**texts, "delta": None, **{name: cell for name, cell in known.items() if not pd.isna(cell)}})


def write_traces(store: Store, run_id: str, traces: Iterable[Entities], *, kept: str) -> None:
    """Write traces of a run in batches, then ask MLflow which of them it holds, whole.

    Raises:
        TrackingError: when it does not hold every one; `kept` says what is safe all the same, and what to do.
    """
    from mlflow.tracing.client import TracingClient

    client = TracingClient(store.uri)
    promised: dict[str, int] = {}
    experiment_id = ""
    with ThreadPoolExecutor(1 if store.uri.startswith("sqlite") else _THREADS, thread_name_prefix="jrh-traces") as pool:
        for batch in _batches(traces):
            infos = [info for info, _ in batch]
            experiment_id = infos[0].experiment_id
            # The trace before its span: the other way round takes MLflow twice as long.
            list(pool.map(client.start_trace, infos))
            client.log_spans(experiment_id, [span for _, span in batch])
            promised |= {info.trace_id: len(info.assessments) for info in infos}
    stored = _stored(store, run_id, experiment_id)
    whole = sum(stored.get(trace_id, -1) >= n_assessments for trace_id, n_assessments in promised.items())
    if whole < len(promised):
        raise TrackingError(f"MLflow holds {whole} of {len(promised)} traces of run {run_id}; {kept}")


def _batches(traces: Iterable[Entities]) -> Iterator[list[tuple[TraceInfo, Span]]]:
    batch: list[tuple[TraceInfo, Span]] = []
    characters = 0
    for info, span, size in traces:
        if batch and (len(batch) == _BATCH or characters + size > _BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append((info, span))
        characters += size
    yield batch


def _stored(store: Store, run_id: str, experiment_id: str) -> dict[str, int]:
    """Return the run's traces whose spans are there too, and how many assessments each has."""
    found: dict[str, int] = {}
    token = None
    while True:
        page = store.client.search_traces(
            locations=[experiment_id], run_id=run_id, include_spans=False, max_results=500, page_token=token
        )
        for info in (trace.info for trace in page):
            if "mlflow.trace.spansLocation" in info.tags:
                found[info.trace_id] = len(info.assessments)
        token = page.token
        if not token:
            return found


EXPECTATION = "expected_answer"
FEEDBACK = "met_expectation"
"""`yes`, `no` or `no answer`."""

_OUTPUTS = ("outcome", "answer", "rationale", "error")
_SHOWN_ELSEWHERE = (*_OUTPUTS, "better", "expected")
MAX_COLUMN = 1000
MAX_TAG = 250


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedCall:
    """A call and what a trace says about it."""

    call: CallRecord
    item: Item | None
    """None, or an item without texts, where judgments were recorded elsewhere."""
    criterion: Criterion
    judge: str
    expected: str | None
    """The expected answer as a reader wants it; None where nothing is expected."""
    failure: str
    """How the call failed; empty when it did not."""
    run_id: str
    experiment_id: str
    start_ms: int

    @property
    def digest(self) -> str:
        """Names trace, span and assessments."""
        return digest_of(self.run_id, self.call.suite_item, self.call.order, str(self.call.replicate))

    def inputs(self) -> dict[str, Any]:
        """What the judge was shown, contents in the slots of this order; the id alone where there is no text."""
        if self.item is None or self.item.instruction is None:
            return {"suite_item": self.call.suite_item}
        shown = present(self.item, cast(Order, self.call.order), self.criterion)
        parts = {name: getattr(shown, name) for name in ("instruction", "rubric", "first", "second", "response")}
        parts["transcript"] = [message_texts(message) for message in shown.transcript or ()] or None
        parts["answers"] = list(shown.answers)
        return {name: value for name, value in parts.items() if value is not None}

    def outputs(self) -> dict[str, Any]:
        """How the call ended, and in which words."""
        found = {name: getattr(self.call, name) for name in _OUTPUTS}
        return {name: value for name, value in found.items() if value not in (None, "")}

    def attributes(self) -> dict[str, Any]:
        """The other columns of the call table; what is unknown is left out."""
        cells = {name: value for name, value in asdict(self.call).items() if name not in _SHOWN_ELSEWHERE}
        return {keys.own_key(name): value for name, value in cells.items() if value not in (None, "")}

    def tags(self) -> dict[str, str]:
        """What traces can be searched by."""
        call = self.call
        found = {"condition": call.condition, "suite_item": call.suite_item, "outcome": call.outcome}
        found["delta"] = "" if call.delta is None else f"{call.delta:g}"
        found["failure"] = self.failure
        named = {keys.own_key(name): text for name, text in found.items() if text}
        return {"mlflow.traceName": call.condition, **named}

    def tokens(self) -> dict[str, int] | None:
        """Tokens under MLflow's names, where both counts are known."""
        sent, got = self.call.input_tokens, self.call.output_tokens
        if sent is None or got is None:
            return None
        return {"input_tokens": sent, "output_tokens": got, "total_tokens": sent + got}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Texts:
    """Everything a trace says, with no key and no lone surrogate in it."""

    judge: str
    expected: str | None
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    attributes: dict[str, Any]
    tags: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A trace of one span, in texts that are safe to store (`safe_texts`)."""

    digest: str
    """Names trace, span and assessments."""
    run_id: str
    experiment_id: str
    start_ms: int
    span: str
    """Name of the span."""
    about: str
    """The first words of its line in MLflow's list."""
    inputs: Mapping[str, Any]
    outputs: Any
    attributes: Mapping[str, Any]
    tags: Mapping[str, str]
    assessments: Sequence[Assessment]
    metadata: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    error: str | None = None
    """What went wrong; None when nothing did."""


Entities = tuple["TraceInfo", "Span", int]
"""A trace, its span and about how many characters they hold."""


def trace_of(traced: TracedCall, secrets: Sequence[str]) -> Entities:
    """Return a call's trace; none of the secrets is in it."""
    parts = {name: getattr(traced, name) for name in ("judge", "expected")}
    parts |= {name: getattr(traced, name)() for name in ("inputs", "outputs", "attributes", "tags")}
    texts = _Texts(**safe_texts(parts, secrets))
    call, metadata, attributes = traced.call, {}, dict(texts.attributes)
    if tokens := traced.tokens():
        metadata["mlflow.trace.tokenUsage"] = json.dumps(tokens)
        attributes["mlflow.chat.tokenUsage"] = tokens
    if call.cost_usd is not None:
        metadata["mlflow.trace.cost"] = json.dumps({"total_cost": call.cost_usd})
        # The model is named with a cost only: without one MLflow would look up a price of its own.
        attributes["mlflow.llm.model"] = texts.attributes.get(keys.own_key("model"), texts.judge)
        attributes["mlflow.llm.cost"] = {"total_cost": call.cost_usd}
    draft = Draft(
        digest=traced.digest,
        run_id=traced.run_id,
        experiment_id=traced.experiment_id,
        start_ms=traced.start_ms,
        span=texts.judge,
        about=f"{texts.tags[keys.own_key('suite_item')]} {call.order}".strip(),
        inputs=texts.inputs,
        outputs=texts.outputs,
        attributes=attributes,
        tags=texts.tags,
        assessments=_assessments(traced, texts),
        metadata=metadata,
        seconds=call.latency_s,
        error=texts.outputs.get("error", "") if call.outcome == "error" else None,
    )
    return entities(draft)


def entities(draft: Draft) -> Entities:
    """Return a draft as what MLflow stores."""
    parts = (*draft.inputs.values(), *_outputs(draft), *draft.attributes.values())
    return _info(draft), _span(draft), sum(len(str(value)) for value in parts)


def digest_of(*parts: str) -> str:
    """Hash of run and call or item: what it names is never there twice."""
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def trace_id_of(digest: str) -> str:
    """MLflow's name of the trace."""
    return f"tr-{digest[:32]}"


def numbered(found: Sequence[Assessment], digest: str) -> list[Assessment]:
    """Name the assessments of a trace."""
    for number, assessment in enumerate(found):
        assessment.assessment_id = f"a-{digest[:31]}{number}"
    return list(found)


def _outputs(draft: Draft) -> list[Any]:
    return list(draft.outputs.values()) if isinstance(draft.outputs, Mapping) else [draft.outputs]


def _info(draft: Draft) -> TraceInfo:
    from mlflow.entities import TraceInfo, TraceLocation, TraceState

    return TraceInfo(
        trace_id=trace_id_of(draft.digest),
        trace_location=TraceLocation.from_experiment_id(draft.experiment_id),
        request_time=draft.start_ms,
        execution_duration=None if draft.seconds is None else round(1000 * draft.seconds),
        state=TraceState.OK if draft.error is None else TraceState.ERROR,
        # The id first: in MLflow's list the tasks of a suite begin alike.
        request_preview=_preview(draft.about, *draft.inputs.values()),
        response_preview=_preview(*_outputs(draft)),
        trace_metadata={"mlflow.sourceRun": draft.run_id, "mlflow.trace_schema.version": "3", **draft.metadata},
        tags={name: column(text, MAX_TAG) for name, text in draft.tags.items()},
        assessments=list(draft.assessments),
    )


def _span(draft: Draft) -> Span:
    from mlflow.entities import Span

    attributes = {
        "mlflow.traceRequestId": trace_id_of(draft.digest),
        "mlflow.spanType": "EVALUATOR",
        "mlflow.spanInputs": draft.inputs,
        "mlflow.spanOutputs": draft.outputs,
        **draft.attributes,
    }
    start_ns = draft.start_ms * 1_000_000
    return Span.from_dict(
        {
            "trace_id": _base64(draft.digest[:32]),
            "span_id": _base64(draft.digest[32:48]),
            "parent_span_id": None,
            "name": column(draft.span, MAX_TAG),
            "start_time_unix_nano": start_ns,
            "end_time_unix_nano": start_ns + round(1e9 * (draft.seconds or 0)),
            "status": {
                "code": "STATUS_CODE_OK" if draft.error is None else "STATUS_CODE_ERROR",
                "message": column(draft.error or "", MAX_COLUMN),
            },
            "attributes": {name: json.dumps(value, ensure_ascii=False) for name, value in attributes.items()},
            "events": [],
        }
    )


def _assessments(traced: TracedCall, texts: _Texts) -> list[Assessment]:
    """What was expected, and whether it was met; nothing where an answer came and none was expected."""
    from mlflow.entities import AssessmentSource, Expectation, Feedback

    common = {
        "source": AssessmentSource(source_type="CODE", source_id="jrh_mlflow"),
        "trace_id": trace_id_of(traced.digest),
        "metadata": {"mlflow.assessment.sourceRunId": traced.run_id},
    }
    found: list[Assessment] = []
    answered = traced.call.outcome in USABLE
    said = texts.outputs.get("answer", traced.call.outcome)
    because = texts.outputs.get("rationale" if answered else "error")
    if texts.expected is not None:
        found.append(Expectation(name=EXPECTATION, value=column(texts.expected, MAX_TAG), **common))
        said = f"Expected {texts.expected}, got {said}"
    if texts.expected is not None or not answered:
        value = "no answer" if not answered else "no" if traced.failure else "yes"
        rationale = column(f"{said}: {because}" if because else f"{said}.", MAX_COLUMN)
        found.append(Feedback(name=FEEDBACK, value=value, rationale=rationale, **common))
    return numbered(found, traced.digest)


def message_texts(message: Message) -> dict[str, str]:
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
    return column(" | ".join(str(part) for part in parts if part), MAX_COLUMN)


def _base64(digits: str) -> str:
    return base64.b64encode(bytes.fromhex(digits)).decode()
