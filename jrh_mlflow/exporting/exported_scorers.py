r"""Measured judges as MLflow scorers: the specification that such a scorer carries, and how it gives feedback.

A scorer is a function whose whole text MLflow can keep and run again. Its body holds the specification as one JSON
literal and passes it on:

    def jrh_judge(inputs=None, outputs=None, expectations=None, trace=None):
        from jrh_mlflow.tracking.exported import score

        return score('{"format": 1, …}', inputs=inputs, outputs=outputs, expectations=expectations, trace=trace)

This import and format 1 are a promise: scorers that are registered anywhere go on working. Fields of format 1:

    format        1
    kind          "judge"; those that are several calls (`ASKING`) are described in `joint_judges.py`
    name          the judge's name
    judge         `Judge.definition()`
    fingerprint   of the judge; null where it has none
    simulated     true where no model is asked
    answers       what responses and transcripts may be answered; null: only pairs are judged
    ordinal       whether `answers` are a scale; null: three or more numbers are one
    levels        true where it was measured on responses of known level: then any number and yes or no are read
    rubric        for rows that bring none; null for none
    orders        how pairs are asked: "one" or "both"
    stale         "warn" or "refuse"
    status        "measured", "stale" or "never measured", when the scorer was made
    differs       list of {"what", "measured", "running"}: what made it stale
    datasheet     null, or {"run_id", "suite_name", "suite_sha256", "profile", "kinds", "answered_by", "link"}:
                  what was measured, on which kinds of items, and the names under which models answered; the link may
                  be missing, or null where no page of MLflow can be told to show the run

Every other field is carried and ignored. What a newer version writes in another format is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

from jrh_mlflow.engine.calls import presentation_of
from jrh_mlflow.errors import JrhError, JrhWarning, RecipeError
from jrh_mlflow.exporting.joint_judges import LiveJury, LiveMember, LivePolicy, LiveSteps
from jrh_mlflow.judges.parsing import ABSTAIN, TIE
from jrh_mlflow.models.transports import known_secrets
from jrh_mlflow.schema.criteria import Criterion
from jrh_mlflow.schema.items import BASELINE, LEVEL_LADDERS, NATURAL, Call, CallRecord, Item, Order, is_scale
from jrh_mlflow.schema.presentation import Message, read_message
from jrh_mlflow.suites.dataset import is_na
from jrh_mlflow.suites.transcripts.transcript import from_openai
from jrh_mlflow.text import blank_secrets, clean_data, clean_text
from jrh_mlflow.tracking.judges.scorer_facts import read_specification
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import active_uri, say_once, wait_for_sqlite

if TYPE_CHECKING:
    from mlflow.entities import Feedback, Trace

_WORKERS, _FEW = "MLFLOW_GENAI_EVAL_MAX_WORKERS", "7"
_CUSTOM = "MLFLOW_SERVER_ENABLE_CUSTOM_SCORERS"
"""Settings of MLflow's; the last is there from 3.17 on: before, only Databricks registers scorers that are code."""
_SLOTS = ("A", "B")
_MESSAGE_FIELDS = frozenset(field.name for field in fields(Message))
UNPARSED, JUDGE_ERROR, ROW_ERROR, STALE = "UNPARSED", "JUDGE_ERROR", "ROW_ERROR", "STALE"
"""Codes of feedback errors: the answer could not be read, the judge failed, the row cannot be judged, and with
stale="refuse" another model answered, or another endpoint would be asked, than was measured."""


def keep_every_verdict(uri: str | None) -> None:
    """Let `mlflow.genai.evaluate` ask fewer rows at once where it would otherwise lose their feedback.

    Straight onto a database its 40 and 40 threads share 15 connections, and what waits 30 s for one is dropped with a
    line in the log. Its own setting is the remedy: 7 and 7 threads never wait for a connection. One that the user made
    stays. On SQLite a connection then has to wait for the file, and MLflow drops what waits 5 s; on a busy machine that
    loses one of some hundreds, so connections wait longer. The threads of a server are its own.
    """
    for one in (uri, active_uri()):
        if one is not None and one.startswith("sqlite"):
            wait_for_sqlite()
    # The run may be in another store than the one that evaluations go to.
    if _WORKERS not in os.environ and any(is_database(one) for one in (uri, active_uri()) if one):
        os.environ[_WORKERS] = _FEW
        why = "with more, mlflow.genai.evaluate loses feedback on a database"
        say_once(f"note: {_WORKERS}={_FEW} is set for this process from here on: {why}.")


def note_registering(uri: str | None) -> None:
    """Say beforehand where MLflow will not register, or not load, a scorer that is code."""
    from mlflow import __version__, environment_variables

    address = uri or active_uri()
    allowed = hasattr(environment_variables, _CUSTOM)
    if address.startswith("databricks") or (allowed and os.environ.get(_CUSTOM, "").lower() in ("true", "1")):
        return
    where = "" if is_database(address) else " on the server and where it is loaded"
    needed = f"set {_CUSTOM}=true{where}"
    if not allowed:
        needed = f"pip install 'mlflow>=3.17'{where}, for MLflow {__version__} registers no code"
    otherwise = 'or use jrh.to_mlflow(…, form="make_judge"), which is another judge'
    say_once(f"note: to register this scorer and load it again, {needed}; {otherwise}.")


def is_database(uri: str) -> bool:
    """Whether a store is written by this process, and not by a server."""
    return uri.partition(":")[0].partition("+")[0] in ("sqlite", "postgresql", "mysql", "mssql")


class Asker(Protocol):
    """What answers the calls of a row."""

    @property
    def tie_criterion(self) -> Criterion:
        """What pairs are asked under."""

    @property
    def model(self) -> str:
        """Who answers, for the source of feedback."""

    def differences(self, records: Sequence[CallRecord]) -> list[dict[str, str]]:
        """What differs here and now, and by who answered, from the judge that was exported: like `differs`."""

    def metadata(self, records: Sequence[CallRecord]) -> dict[str, Any]:
        """What else feedback says of these records."""

    def ask(self, calls: Sequence[Call]) -> list[CallRecord]:
        """Answer the calls, one record for each; may be called from many threads at once."""


ASKING: dict[str, Callable[[Mapping[str, Any]], Asker]] = {
    "judge": LiveMember,
    "jury": LiveJury,
    "cascade": LiveSteps,
    "policy": LivePolicy,
}
"""Kind of a specification to what answers for it."""


def row_feedback(specification: str, *, inputs: Any, outputs: Any, trace: Trace | None) -> Feedback:
    """Judge one row: what an exported scorer does. Whatever goes wrong is an error of the feedback, never a value.

    Args:
        specification: As this file describes it.
        inputs: Of the row, as `row_item` reads them. What it expects is never shown to a judge.
        outputs: Of the row.
        trace: Of the row.
    """
    try:
        judge = _exported(specification)
    except Exception as error:
        return _error(JUDGE_ERROR, _described(error), source=("CODE", "jrh-mlflow"), metadata={})
    return judge.score(inputs, outputs, trace)


_LOCK = threading.Lock()
_EXPORTED: dict[tuple[str, str], _Exported] = {}


def _exported(text: str) -> _Exported:
    """Return what answers for a specification: one for all rows, and another one when the keys have changed."""
    secrets = hashlib.sha256(repr(sorted(known_secrets())).encode("utf-8", "surrogateescape")).hexdigest()
    with _LOCK:
        if (text, secrets) not in _EXPORTED:
            # For one that was loaded: too late for the evaluation that asks, but it is said, and in time for the next.
            keep_every_verdict(None)
            spec = read_specification(text)
            if spec["kind"] not in ASKING:
                raise RecipeError(f"This version of jrh-mlflow has no scorers of kind {spec['kind']!r}: upgrade it.")
            _EXPORTED[text, secrets] = _Exported(spec, ASKING[spec["kind"]](spec))
        return _EXPORTED[text, secrets]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Verdict:
    """What the calls of a row came to."""

    outcome: str
    """Of `OUTCOMES`; of two orders that do not agree `positional`, `one_sided` or `split`."""
    value: str | float | None
    """None unless the outcome is an answer."""
    problem: str | None = None


class _Exported:
    """A specification with what answers for it: rows in, feedback out."""

    def __init__(self, spec: Mapping[str, Any], asker: Asker) -> None:
        self.spec, self.asker = spec, asker
        self.datasheet: Mapping[str, Any] = spec["datasheet"] or {}
        self._told: set[str] = set()

    def score(self, inputs: Any, outputs: Any, trace: Trace | None) -> Feedback:
        criterion, spec = self.asker.tie_criterion, self.spec
        known = {name: spec.get(name) for name in ("answers", "ordinal", "rubric", "levels")}
        try:
            item = row_item(inputs=inputs, outputs=outputs, trace=trace, criterion=criterion, **known)
        except JrhError as error:
            return self._failed(ROW_ERROR, _described(error), differs=self._differs(()))
        # What is known to differ beforehand is not sent to whoever would answer now.
        if spec["stale"] == "refuse" and (differs := self._differs(())):
            return self._refused(differs, item)
        try:
            calls = row_calls(item, criterion, both=spec["orders"] == "both")
            records = self.asker.ask(calls)
        except Exception as error:
            return self._failed(JUDGE_ERROR, _described(error), differs=self._differs(()), item=item)
        return self._feedback(item, records)

    def _feedback(self, item: Item, records: Sequence[CallRecord]) -> Feedback:
        from mlflow.entities import Feedback

        verdict = _verdict(item, records, offers_tie=self.asker.tie_criterion.offers_tie)
        differs = self._differs(records)
        if differs and self.spec["stale"] == "refuse":
            return self._refused(differs, item, records)
        self._warn(differs)
        if verdict.value is None:
            code = UNPARSED if verdict.outcome == "unparsed" else JUDGE_ERROR
            return self._failed(code, verdict.problem or verdict.outcome, differs=differs, item=item, records=records)
        metadata = self._metadata(differs, item=item, records=records) | {keys.FEEDBACK_OUTCOME: verdict.outcome}
        source = _source(*self._source())
        rationale = "\n\n".join(filter(None, [_rationale(records), self._linked(metadata)])) or None
        return Feedback(value=verdict.value, rationale=rationale, source=source, metadata=metadata)

    def _refused(
        self, differs: Sequence[Mapping[str, str]], item: Item, records: Sequence[CallRecord] = ()
    ) -> Feedback:
        message = f"This is not the judge that was measured: {_spelled(differs)}. Measure it again."
        return self._failed(STALE, message, differs=differs, item=item, records=records)

    def _failed(
        self,
        code: str,
        message: str,
        *,
        differs: Sequence[Mapping[str, str]],
        item: Item | None = None,
        records: Sequence[CallRecord] = (),
    ) -> Feedback:
        outcome = "unparsed" if code == UNPARSED else "error"
        metadata = self._metadata(differs, item=item, records=records) | {keys.FEEDBACK_OUTCOME: outcome}
        return _error(code, message, source=self._source(), metadata=metadata, rationale=self._linked(metadata))

    def _linked(self, metadata: Mapping[str, Any]) -> str | None:
        """Lead to the datasheet: of feedback the page of a trace shows value and rationale, and no metadata."""
        if keys.FEEDBACK_LINK not in metadata:
            return None
        simulated = "Simulated judge. " if self.spec["simulated"] else ""
        status = str(metadata[keys.FEEDBACK_STATUS]).capitalize()
        return f"{simulated}{status}: [datasheet]({metadata[keys.FEEDBACK_LINK]})."

    def _source(self) -> tuple[str, str]:
        return "CODE" if self.spec["simulated"] else "LLM_JUDGE", self.asker.model

    def _differs(self, records: Sequence[CallRecord]) -> list[dict[str, str]]:
        """What differs from the measured judge: known when it was exported, here and now, and by who answered."""
        return [*self.spec["differs"], *self.asker.differences(records)]

    def _warn(self, differs: Sequence[Mapping[str, str]]) -> None:
        """Say once what differs beyond what was said when the scorer was made."""
        text = _spelled(differs[len(self.spec["differs"]) :])
        with _LOCK:
            is_new = bool(text) and text not in self._told
            self._told.add(text)
        if is_new:
            name = self.spec["name"]
            warnings.warn(f"{name!r} is not the judge that was measured: {text}.", JrhWarning, stacklevel=2)

    def _metadata(
        self, differs: Sequence[Mapping[str, str]], *, item: Item | None, records: Sequence[CallRecord]
    ) -> dict[str, Any]:
        sheet, status = self.datasheet, self.spec["status"]
        known = {
            keys.FEEDBACK_STATUS: "stale" if differs and status == "measured" else status,
            keys.FEEDBACK_DIFFERS: _spelled(differs) or None,
            keys.FEEDBACK_RUN: sheet.get("run_id"),
            keys.FEEDBACK_LINK: sheet.get("link"),
            keys.FEEDBACK_SUITE: sheet.get("suite_name"),
            keys.FEEDBACK_SUITE_SHA256: sheet.get("suite_sha256"),
            keys.FEEDBACK_PROFILE: sheet.get("profile"),
            keys.FEEDBACK_FINGERPRINT: self.spec["fingerprint"],
            keys.FEEDBACK_SIMULATED: "true" if self.spec["simulated"] else None,
            keys.FEEDBACK_NOTE: self._note(item),
            keys.FEEDBACK_ORDERS: self.spec["orders"] if item is not None and item.kind == "pair" else None,
            **_usage(records),
            **self.asker.metadata(records),
        }
        return {key: value for key, value in known.items() if value is not None}

    def _note(self, item: Item | None) -> str | None:
        kinds = self.datasheet.get("kinds") or ()
        if item is None or not kinds or item.kind in kinds:
            return None
        return f"The datasheet is of {', '.join(kinds)}s, and this row is a {item.kind}: it was not measured on such."


def _verdict(item: Item, records: Sequence[CallRecord], *, offers_tie: bool) -> _Verdict:
    """Say what the calls of a row came to; an order that failed leaves no verdict."""
    for outcome in ("error", "unparsed"):
        for one in records:
            if one.outcome == outcome:
                return _Verdict(outcome=outcome, value=None, problem=one.error)
    given = [_content(one, item) for one in records]
    if len(set(given)) == 1:
        return _Verdict(outcome=records[0].outcome, value=given[0])
    undecided = TIE if offers_tie else ABSTAIN
    chosen = sum(one.outcome == "verdict" for one in records)
    return _Verdict(outcome={2: "positional", 1: "one_sided"}.get(chosen, "split"), value=undecided)


def _content(record: CallRecord, item: Item) -> str | float:
    """Return an answer as the value of feedback: of a pair its content, of a scale of numbers the number."""
    if record.outcome != "verdict":
        return record.outcome
    if item.kind == "pair":
        return "A" if (record.answer == "1") == (record.order == "uv") else "B"
    answers = item.answers or ()
    is_ordinal = item.ordinal if item.ordinal is not None else is_scale(answers)
    # A grade of a form that was not asked for is read where responses have known levels.
    scale = answers if record.answer in answers else (record.answer,)
    if not is_scale(scale, fewest=1) or (scale is answers and not is_ordinal):
        return record.answer
    level = float(record.answer)
    return int(level) if level.is_integer() else level


def _rationale(records: Sequence[CallRecord]) -> str | None:
    told = [(one.order, one.rationale) for one in records if one.rationale]
    if len(records) == 1 or not told:
        return told[0][1] if told else None
    return "\n\n".join(f"{'A' if order == 'uv' else 'B'} shown first: {text}" for order, text in told)


def _usage(records: Sequence[CallRecord]) -> dict[str, Any]:
    """What the calls used, who answered and how sure it was: of several calls the sum, and the least sure."""
    if not records:
        return {}
    confidence = _known(records, "confidence")
    by = sorted({one.model for one in records if one.model and one.outcome != "error"})
    sums = {
        keys.JUDGE_INPUT_TOKENS: _known(records, "input_tokens"),
        keys.JUDGE_OUTPUT_TOKENS: _known(records, "output_tokens"),
        keys.JUDGE_COST: _known(records, "cost_usd"),
    }
    return {
        keys.FEEDBACK_ANSWERED_BY: ", ".join(by) or None,
        keys.FEEDBACK_CONFIDENCE: None if confidence is None else f"{min(confidence):.6g}",
        **{key: None if values is None else sum(values) for key, values in sums.items()},
    }


def _known(records: Iterable[CallRecord], column: str) -> list[Any] | None:
    values = [getattr(one, column) for one in records]
    return None if None in values else values


def _spelled(differs: Iterable[Mapping[str, str]]) -> str:
    return "; ".join(f"{one['what']} (measured {one['measured']}, running {one['running']})" for one in differs)


def _error(
    code: str, message: str, *, source: tuple[str, str], metadata: Mapping[str, Any], rationale: str | None = None
) -> Feedback:
    from mlflow.entities import AssessmentError, Feedback

    error = AssessmentError(error_code=code, error_message=message)
    return Feedback(error=error, rationale=rationale, source=_source(*source), metadata=dict(metadata))


def _source(kind: str, name: str) -> Any:
    from mlflow.entities import AssessmentSource

    return AssessmentSource(source_type=kind, source_id=name)


def _described(error: Exception) -> str:
    text = str(error) if isinstance(error, JrhError) else f"{type(error).__name__}: {error}"
    return blank_secrets(clean_text(text))


# Rows


def row_item(
    *,
    inputs: Any,
    outputs: Any,
    trace: Trace | None = None,
    criterion: Criterion,
    answers: Sequence[str] | None,
    ordinal: bool | None,
    rubric: str | None,
    levels: bool | None = None,
) -> Item:
    """Read a row as something to judge.

    - inputs: `{"instruction": …, "rubric": …, "context": …}`, the last two optional, what else is there not looked at;
      otherwise the one text value of a mapping, a text, or all of it as JSON.
    - outputs: `{"A": …, "B": …}` is a pair, `{"transcript": […]}` a transcript, everything else a response: a text, or
      JSON of what is none.
    - What is missing of the two (None, or pandas' NaN) is taken from the root span of the trace.

    Args:
        inputs: Of the row.
        outputs: Of the row.
        trace: Of the row, where it has one.
        criterion: The judge's; it may stand at the end of the row's rubric already.
        answers: What responses and transcripts may be answered; None where only pairs are judged.
        ordinal: Whether `answers` are a scale.
        rubric: Where the row has none.
        levels: Whether it was measured on single responses of known level, where grades of any form are read.

    Raises:
        RecipeError: when nothing in it can be judged.
    """
    inputs, outputs = clean_data([*_with_trace(inputs, outputs, trace)])[0]
    if _is_missing(inputs) or _is_missing(outputs):
        missing = "inputs" if _is_missing(inputs) else "outputs"
        raise RecipeError(f"The row has no {missing}, and no trace that holds them: nothing can be judged.")
    instruction, own, context = _question(inputs)
    kind, contents = _contents(outputs)
    if kind == "pair":
        own = _without(own, criterion)
    elif not answers:
        raise RecipeError(
            f"The row holds a {kind}, and this judge was exported for pairs only: outputs are {{'A': …, 'B': …}}. "
            "Or say what may be answered: jrh.to_mlflow(…, answers=[…])."
        )
    return Item(
        id="row",
        task="row",
        condition=NATURAL if kind == "pair" else LEVEL_LADDERS[0] if levels else BASELINE,
        kind=kind,
        instruction=instruction,
        rubric=rubric if own is None else own,
        answers=None if kind == "pair" else tuple(answers or ()),
        ordinal=None if kind == "pair" else ordinal,
        context=context,
        **contents,
    )


def row_calls(item: Item, criterion: Criterion, *, both: bool) -> list[Call]:
    """Return the calls that a row asks for; a pair is shown as it stands, and with `both` the other way round, too."""
    orders: tuple[Order, ...] = item.orders if both else item.orders[:1]
    return [
        Call(item=item, order=order, replicate=0, presentation=presentation_of(item, order, criterion))
        for order in orders
    ]


def _with_trace(inputs: Any, outputs: Any, trace: Trace | None) -> tuple[Any, Any]:
    if trace is None or not (_is_missing(inputs) or _is_missing(outputs)):
        return inputs, outputs
    root = next((span for span in trace.data.spans if span.parent_id is None), None)
    if root is None:
        return inputs, outputs
    return root.inputs if _is_missing(inputs) else inputs, root.outputs if _is_missing(outputs) else outputs


def _is_missing(value: Any) -> bool:
    """Whether there is nothing to judge: None, what pandas puts where nothing is, or a mapping of nothing else."""
    if isinstance(value, Mapping):
        return bool(value) and all(_is_missing(one) for one in value.values())
    return is_na(value)


def _question(inputs: Any) -> tuple[str, str | None, tuple[str, ...] | None]:
    """Return the instruction and, where the row has them, the rubric and the context."""
    if not isinstance(inputs, Mapping):
        return _text(inputs), None, None
    if isinstance(inputs.get("instruction"), str):
        rubric, context = inputs.get("rubric"), inputs.get("context")
        texts = context if isinstance(context, list | tuple) else [] if _is_missing(context) else [context]
        return inputs["instruction"], None if _is_missing(rubric) else _text(rubric), tuple(map(_text, texts)) or None
    values = list(inputs.values())
    return _text(values[0] if len(values) == 1 and isinstance(values[0], str) else inputs), None, None


def _contents(outputs: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind of a row and its contents, as fields of an item.

    Raises:
        RecipeError: for half a pair, and for a transcript without messages.
    """
    if isinstance(outputs, Mapping):
        if set(outputs) == set(_SLOTS):
            if lacking := [slot for slot in _SLOTS if _is_missing(outputs[slot])]:
                raise RecipeError(f"The row is a pair without its {lacking[0]}: nothing can be compared.")
            return "pair", {"u": _text(outputs["A"]), "v": _text(outputs["B"])}
        messages = outputs.get("transcript")
        if len(outputs) == 1 and isinstance(messages, list | tuple):
            if not messages:
                raise RecipeError("The transcript of the row has no messages: nothing can be judged.")
            return "transcript", {"transcript": _transcript(messages)}
    return "response", {"response": _text(outputs)}


def _transcript(messages: Sequence[Any]) -> tuple[Message, ...]:
    """Read messages as `from_mlflow` and suites write them, or in OpenAI's form."""
    if not all(isinstance(one, Mapping) and _is_own(one) for one in messages):
        return from_openai(messages, where="The transcript of the row")
    return tuple(read_message(_whole(one)) for one in messages)


def _is_own(message: Mapping[str, Any]) -> bool:
    texts = isinstance(message.get("role"), str) and isinstance(message.get("content"), str)
    calls = message.get("tool_calls") or ()
    return texts and set(message) <= _MESSAGE_FIELDS and not any("function" in call for call in calls)


def _whole(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message whose parts are mappings again: MLflow's judges are shown them as text."""
    parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in message.get("parts") or ()]
    return {**message, "parts": parts} if parts else dict(message)


def _without(rubric: str | None, criterion: Criterion) -> str | None:
    """Take the tie criterion off the end of a rubric: as `from_mlflow` lays a pair out, it stands there already."""
    if rubric is None or not criterion.text or not rubric.endswith(criterion.text):
        return rubric
    return rubric.removesuffix(criterion.text).removesuffix("\n\n")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
