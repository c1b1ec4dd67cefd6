r"""Measured judges as MLflow scorers: the specification that such a scorer carries, and how it gives feedback.

A scorer is a function whose whole text MLflow can keep and run again. Its body holds the specification as one JSON
literal and passes it on:

    def jrh_judge(inputs=None, outputs=None, expectations=None, trace=None):
        from jrh_mlflow.exporting.exported_scorers import score_row

        return score_row('{"format": 1, …}', inputs=inputs, outputs=outputs, trace=trace)

Fields of the specification:

    format        1
    kind          "judge", or one of those below that are several calls (`ASKING`)
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

Every other field is carried and ignored. Another format is refused.

Several calls that answer together have these fields beside those of every specification:

    kind "jury"      panel     `LivePanel.to_dict()`
    kind "policy"    policy    {"replicates", "vote"}: how often a judge is asked, and how that is read
    members          list of specifications of kind "judge", one of each judge, under the names of the panel

Whatever the kind, a pair is put in one order or in both as one judge's would be: the judges vote on each order, and the
two votes are read as the two answers of a judge. A judge whose call failed, or whose answer could not be read, has no
vote; too few votes are no answer.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from jrh_mlflow.comparing.jury.panels import PAIR, JointAnswer, LivePanel
from jrh_mlflow.engine.calls import identity, presentation_of
from jrh_mlflow.engine.sessions import LiveJudge
from jrh_mlflow.errors import JrhError, JrhWarning, JudgeError, RecipeError
from jrh_mlflow.judges.parsing import ABSTAIN, TIE
from jrh_mlflow.measures.composite import cast_vote, decision_of
from jrh_mlflow.models.families import kinship_note
from jrh_mlflow.models.transports import known_secrets
from jrh_mlflow.schema.items import (
    BASELINE,
    NATURAL,
    OUTCOMES,
    SINGLE_LADDERS,
    USABLE,
    Call,
    CallRecord,
    Item,
    Order,
    is_scale,
)
from jrh_mlflow.schema.presentation import LABEL_WORDS, Criterion, Message, read_message
from jrh_mlflow.scoring.pointwise import Scale
from jrh_mlflow.suites.dataset import is_na
from jrh_mlflow.suites.transcripts.transcript import from_openai
from jrh_mlflow.text import blank_secrets, clean_data, clean_text
from jrh_mlflow.tracking.judges.identity import differences, judge_from
from jrh_mlflow.tracking.judges.scorer_facts import read_specification
from jrh_mlflow.tracking.mlflow_internals import add_metrics
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import active_uri, say_once, wait_for_sqlite
from jrh_mlflow.tracking.traces.traces_in import models_of

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
    # The run may be in another store than the one that evaluations go to.
    stores = [store for store in (uri, active_uri()) if store]
    if any(store.startswith("sqlite") for store in stores):
        wait_for_sqlite()
    if _WORKERS not in os.environ and any(map(is_database, stores)):
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


def score_row(specification: str, *, inputs: Any = None, outputs: Any = None, trace: Trace | None = None) -> Feedback:
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
    # Hashed: no dictionary of ours should hold keys as they are.
    secrets = hashlib.sha256(repr(sorted(known_secrets())).encode("utf-8", "surrogateescape")).hexdigest()
    with _LOCK:
        if (text, secrets) not in _EXPORTED:
            # For one that was loaded: too late for the evaluation that asks, but it is said, and in time for the next.
            keep_every_verdict(None)
            add_metrics(feedback_metrics)
            spec = read_specification(text)
            if spec["kind"] not in ASKING:
                raise RecipeError(f"This version of jrh-mlflow has no scorers of kind {spec['kind']!r}: upgrade it.")
            _EXPORTED[text, secrets] = _Exported(spec, ASKING[spec["kind"]](spec))
        return _EXPORTED[text, secrets]


def feedback_metrics(feedback: Iterable[Any]) -> dict[str, float]:
    """Return the numbers of an evaluation that MLflow does not make of the words that exported scorers say.

    Of pairs `NAME/win_rate` is the share of rows that A wins, `NAME/tie_share` that of ties, and `NAME/flips` that of
    rows asked in both orders whose answer changed with the order. `NAME/mean` is the share of `pass` or `true` beside
    `fail` or `false`, as MLflow's own of `yes`; of other labels each has its `NAME/share/LABEL`. Rows without an answer
    are in none of them.
    """
    rows: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for given in feedback:
        metadata = getattr(given, "metadata", None) or {}
        if keys.FEEDBACK_OUTCOME in metadata and isinstance(given.value, str):
            rows.setdefault(str(given.name), []).append((given.value, metadata))
    return {f"{name}/{key}": value for name, own in rows.items() for key, value in _word_metrics(own).items()}


def _word_metrics(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, float]:
    counts = Counter(word for word, _ in rows)
    if any(keys.FEEDBACK_ORDERS in metadata for _, metadata in rows):
        both = [metadata[keys.FEEDBACK_OUTCOME] for _, metadata in rows if metadata.get(keys.FEEDBACK_ORDERS) == "both"]
        flips = sum(outcome not in OUTCOMES for outcome in both)
        shares = {"win_rate": counts["A"] / len(rows), "tie_share": counts[TIE] / len(rows)}
        return {**shares, "flips": flips / len(both)} if both else shares
    good, bad = (sum(counts[word] for word in counts if word.casefold() in words) for words in LABEL_WORDS)
    if good or bad:
        return {"mean": good / (good + bad)}
    return {f"share/{word}": counts[word] / len(rows) for word in counts if keys.METRIC_NAME.fullmatch(word)}


class _Exported:
    """A specification with what answers for it: rows in, feedback out."""

    def __init__(self, spec: Mapping[str, Any], asker: Asker) -> None:
        self.spec, self.asker = spec, asker
        self.datasheet: Mapping[str, Any] = spec["datasheet"] or {}
        self._told: set[str] = set()

    def score(self, inputs: Any, outputs: Any, trace: Trace | None) -> Feedback:
        feedback = self._scored(inputs, outputs, trace)
        models = [] if trace is None or self.spec["simulated"] else models_of([trace])
        if note := kinship_note(self.asker.model.split(", "), models):
            noted = [feedback.metadata.get(keys.FEEDBACK_NOTE), note]
            feedback.metadata[keys.FEEDBACK_NOTE] = " ".join(filter(None, noted))
        return feedback

    def _scored(self, inputs: Any, outputs: Any, trace: Trace | None) -> Feedback:
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

        outcome, value, problem = _verdict(item, records, offers_tie=self.asker.tie_criterion.offers_tie)
        differs = self._differs(records)
        if differs and self.spec["stale"] == "refuse":
            return self._refused(differs, item, records)
        self._warn(differs)
        if value is None:
            code = UNPARSED if outcome == "unparsed" else JUDGE_ERROR
            return self._failed(code, problem or outcome, differs=differs, item=item, records=records)
        metadata = self._metadata(differs, item=item, records=records) | {keys.FEEDBACK_OUTCOME: outcome}
        rationale = "\n\n".join(filter(None, [_rationale(records), self._linked(metadata)])) or None
        return Feedback(value=value, rationale=rationale, source=_source(*self._source()), metadata=metadata)

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


def _verdict(
    item: Item, records: Sequence[CallRecord], *, offers_tie: bool
) -> tuple[str, str | float | None, str | None]:
    """Return what the calls of a row came to: outcome, value where there is an answer, and what went wrong.

    The outcome is of `OUTCOMES`; of two orders that do not agree `positional`, `one_sided` or `split`. An order that
    failed leaves no verdict.
    """
    for outcome in ("error", "unparsed"):
        for record in records:
            if record.outcome == outcome:
                return outcome, None, record.error
    values = [_content(record, item) for record in records]
    if len(set(values)) == 1:
        return records[0].outcome, values[0], None
    chosen = sum(record.outcome == "verdict" for record in records)
    return {2: "positional", 1: "one_sided"}.get(chosen, "split"), TIE if offers_tie else ABSTAIN, None


def _content(record: CallRecord, item: Item) -> str | float:
    """Return an answer as the value of feedback: of a pair its content, of a scale of numbers the number."""
    if record.outcome != "verdict" or item.kind == "pair":
        return _answer_text(record)
    answers = item.answers or ()
    is_ordinal = item.ordinal if item.ordinal is not None else is_scale(answers)
    # A grade of a form that was not asked for is read where responses have known levels.
    scale = answers if record.answer in answers else (record.answer,)
    if not is_scale(scale, fewest=1) or (scale is answers and not is_ordinal):
        return record.answer
    level = float(record.answer)
    return int(level) if level.is_integer() else level


def _answer_text(record: CallRecord) -> str:
    """Write an answer as feedback does: of a pair by content; how a call ended where there is none."""
    if record.outcome != "verdict":
        return record.outcome
    if not record.order:
        return record.answer
    return "A" if (record.answer == "1") == (record.order == "uv") else "B"


def _rationale(records: Sequence[CallRecord]) -> str | None:
    reasons = [(record.order, record.rationale) for record in records if record.rationale]
    if len(records) == 1 or not reasons:
        return reasons[0][1] if reasons else None
    return "\n\n".join(f"{'A' if order == 'uv' else 'B'} shown first: {text}" for order, text in reasons)


def _usage(records: Sequence[CallRecord]) -> dict[str, Any]:
    """What the calls used, who answered and how sure it was: of several calls the sum, and the least sure."""
    sure = [record.confidence for record in records if record.confidence is not None]
    return {
        keys.FEEDBACK_ANSWERED_BY: ", ".join(sorted(_answerers(records))) or None,
        keys.FEEDBACK_CONFIDENCE: f"{min(sure):.6g}" if sure and len(sure) == len(records) else None,
        keys.JUDGE_INPUT_TOKENS: _total(records, "input_tokens"),
        keys.JUDGE_OUTPUT_TOKENS: _total(records, "output_tokens"),
        keys.JUDGE_COST: _total(records, "cost_usd"),
    }


def _answerers(records: Iterable[CallRecord]) -> list[str]:
    """Return the models that answered; of a call that failed nobody knows who would have."""
    return list(dict.fromkeys(record.model for record in records if record.model and record.outcome != "error"))


def _total(records: Sequence[CallRecord], column: str) -> Any:
    """Sum over the calls; None when one is unknown, or nothing was asked."""
    values = [getattr(record, column) for record in records]
    return None if None in values or not values else sum(values)


def _spelled(differs: Iterable[Mapping[str, str]]) -> str:
    return "; ".join(f"{fact['what']} (measured {fact['measured']}, running {fact['running']})" for fact in differs)


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
        condition=NATURAL if kind == "pair" else SINGLE_LADDERS[0] if levels else BASELINE,
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
        return bool(value) and all(map(_is_missing, value.values()))
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
    if not all(isinstance(message, Mapping) and _is_own(message) for message in messages):
        return from_openai(messages, where="The transcript of the row")
    return tuple(read_message(_whole(message)) for message in messages)


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


# Who answers

Differs = dict[str, str]
"""One of `differs` of a specification."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberAnswers:
    """What one judge of several answered to one presentation."""

    judge: str
    records: tuple[CallRecord, ...]
    """One for each time that it was asked."""

    @property
    def vote(self) -> str | None:
        """Its first answer as a vote; None for a call without a usable one."""
        record = self.records[0]
        return {"verdict": record.answer, TIE: TIE, ABSTAIN: ABSTAIN}.get(record.outcome)


@dataclass(frozen=True, kw_only=True, slots=True)
class JointRecord(CallRecord):
    """Several calls as one: the answer they came to, and what they cost together."""

    members: tuple[MemberAnswers, ...] = ()
    how: str = ""
    """How the answer came about: `JointAnswer.how`."""


class LiveMember:
    """A judge made again of its definition; it answers by itself, or as one of several."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._judge = judge = judge_from(spec["judge"])
        self._defined, datasheet = spec["judge"], spec["datasheet"] or {}
        self.live, self.tie_criterion = LiveJudge(judge), judge.tie_criterion
        self.name, self.model = str(spec["name"]), str(judge.settings()["model"])
        self.run_id, self._answered_by = datasheet.get("run_id"), datasheet.get("answered_by")
        self.fingerprint = spec["fingerprint"]

    def asking(self, calls: Sequence[Call], *, replicates: int = 1) -> Callable[[], list[MemberAnswers]]:
        """Begin to ask each call so many times, under the judge's own tie criterion.

        Returns:
            What waits for the answers, and never fails: a judge that is one of several may.
        """
        own = [
            replace(call, replicate=number, presentation=presentation_of(call.item, call.order, self.tie_criterion))
            for call in calls
            for number in range(replicates)
        ]
        wait = self.live.asking(own)

        def answers() -> list[MemberAnswers]:
            try:
                records = wait()
            except JudgeError as error:
                records = [CallRecord(**identity(call), outcome="error", answer="", error=str(error)) for call in own]
            parts = [records[start : start + replicates] for start in range(0, len(records), replicates)]
            return [MemberAnswers(judge=self.name, records=tuple(part)) for part in parts]

        return answers

    def ask(self, calls: Sequence[Call]) -> list[CallRecord]:
        """Answer the calls, one record for each; may be called from many threads at once."""
        return self.live.ask(calls)

    def metadata(self, records: Sequence[CallRecord]) -> dict[str, Any]:
        """Nothing more than of every judge."""
        return {}

    def differences(self, records: Iterable[CallRecord]) -> list[Differs]:
        """What differs here and now, and by who answered, from the judge that was exported.

        Another version of MLflow may make another judge of the same data, and a judge of MLflow's without an address is
        asked where the environment says at that moment: so row by row.
        """
        now = self._judge.definition()
        differs = [] if now is None else [asdict(difference) for difference in differences(self._defined, now)]
        measured, others = self._answered_by or (), set(_answerers(records)).difference(self._answered_by or ())
        if measured and others:
            running = ", ".join(sorted(others))
            differs.append({"what": "answering model", "measured": ", ".join(measured), "running": running})
        return differs


class JointJudges(ABC):
    """What a jury and a judge that is asked several times share."""

    replicates = 1
    """How often each judge is asked."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        members = [LiveMember(member) for member in spec["members"]]
        self.members = {member.name: member for member in members}

    @property
    def tie_criterion(self) -> Criterion:
        """The first that offers a tie, or else the first: each judge is asked under its own."""
        criteria = [member.tie_criterion for member in self.members.values()]
        return next((criterion for criterion in criteria if criterion.offers_tie), criteria[0])

    @property
    def model(self) -> str:
        """All models that may be asked."""
        return ", ".join(dict.fromkeys(member.model for member in self.members.values()))

    @abstractmethod
    def decide(self, call: Call, members: Sequence[MemberAnswers]) -> JointAnswer:
        """Make one answer to a call of those of the judges."""

    def ask(self, calls: Sequence[Call]) -> list[CallRecord]:
        """Answer the calls, one record for each; may be called from many threads at once."""
        # All are begun before the first is waited for: a row takes as long as its slowest judge.
        waiting = [member.asking(calls, replicates=self.replicates) for member in self.members.values()]
        by_call = zip(*(wait() for wait in waiting), strict=True)
        return [_joint(call, members, self.decide(call, members)) for call, members in zip(calls, by_call, strict=True)]

    def differences(self, records: Sequence[CallRecord]) -> list[Differs]:
        """What differs, judge by judge."""
        return [
            {**differs, "measured": f"{name}: {differs['measured']}"}
            for name, member in self.members.items()
            for differs in member.differences(_records_of(name, records))
        ]

    def metadata(self, records: Sequence[CallRecord]) -> dict[str, Any]:
        """What feedback says of the judges: datasheet and answer of each, and how they came to one."""
        members = []
        for name, member in self.members.items():
            own = _records_of(name, records)
            known = {"judge": name, "datasheet_run_id": member.run_id, "fingerprint": member.fingerprint}
            members.append(
                {**known, "answers": [_answer_text(record) for record in own], "answered_by": _answerers(own)}
            )
        how = dict.fromkeys(record.how for record in records if isinstance(record, JointRecord) and record.how)
        return {
            keys.FEEDBACK_MEMBERS: json.dumps(members, ensure_ascii=False),
            keys.FEEDBACK_DECIDED_BY: ", ".join(how) or None,
        }


class LiveJury(JointJudges):
    """Judges that all vote."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        super().__init__(spec)
        self.panel = LivePanel.from_dict(spec["panel"])

    def decide(self, call: Call, members: Sequence[MemberAnswers]) -> JointAnswer:
        """Count the votes of the judges."""
        votes = {member.judge: member.vote for member in members}
        try:
            return self.panel.decide(votes, _scale(call.item))
        except RecipeError as error:
            # The jury was measured on rows of another kind, which its tie rule suits.
            return JointAnswer(answer=None, why=str(error))


class LivePolicy(JointJudges):
    """One judge that is asked several times, as a configuration of a sweep is."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        super().__init__(spec)
        self.replicates, self.vote = int(spec["policy"]["replicates"]), str(spec["policy"]["vote"])

    def decide(self, call: Call, members: Sequence[MemberAnswers]) -> JointAnswer:
        """Count what the judge answered each time."""
        (member,) = members
        # As a single response has no order, here neither has the pair: the slot is what is voted for.
        votes = [cast_vote(order="", outcome=record.outcome, answer=record.answer) for record in member.records]
        pair = call.item.kind == "pair"
        decision = decision_of(votes, item=call.item.id, vote=self.vote, orders="both", pair=pair)
        if not decision.value:
            return JointAnswer(answer=None, why=f"none of {len(votes)} calls gave a usable answer")
        agreed = len({vote.value for vote in votes if vote.value}) == 1
        return JointAnswer(answer=decision.value, how="unanimous" if agreed else self.vote)


Asker = LiveMember | JointJudges
"""What answers the calls of a row."""
ASKING: dict[str, Callable[[Mapping[str, Any]], Asker]] = {
    "judge": LiveMember,
    "jury": LiveJury,
    "policy": LivePolicy,
}
"""Kind of a specification to what answers for it."""


def _joint(call: Call, members: Sequence[MemberAnswers], answer: JointAnswer) -> JointRecord:
    """Put what several calls came to into one record."""
    named = [(member.judge, record) for member in members for record in member.records]
    records = [record for _, record in named]
    minutes = [
        f"{judge}: {_answer_text(record)}. {record.rationale or ''}".rstrip()
        for judge, record in named
        if record.outcome in USABLE
    ]
    problems = [
        f"{judge}: {record.outcome}: {record.error or 'no reason was given'}"
        for judge, record in named
        if record.outcome not in USABLE
    ]
    outcome = answer.answer if answer.answer in (TIE, ABSTAIN) else "verdict"
    if answer.answer is None:
        outcome = next((record.outcome for record in records if record.outcome not in USABLE), "error")
    return JointRecord(
        **identity(call),
        outcome=outcome,
        answer=answer.answer or "" if outcome == "verdict" else "",
        rationale="\n".join(minutes) or None,
        input_tokens=_total(records, "input_tokens"),
        output_tokens=_total(records, "output_tokens"),
        cost_usd=_total(records, "cost_usd"),
        latency_s=None,
        model=", ".join(_answerers(records)) or None,
        error=None if answer.answer is not None else ". ".join([answer.why, *problems]),
        members=tuple(members),
        how=answer.how,
    )


def _records_of(judge: str, records: Iterable[CallRecord]) -> list[CallRecord]:
    """Return the calls of one judge behind joint records."""
    joint = [record for record in records if isinstance(record, JointRecord)]
    return [own for record in joint for member in record.members if member.judge == judge for own in member.records]


def _scale(item: Item) -> Scale:
    if item.kind == "pair":
        return PAIR
    answers = item.answers or ()
    return Scale(labels=answers, ordered=item.ordinal is not False or len(answers) == 2, ordinal=item.ordinal)
