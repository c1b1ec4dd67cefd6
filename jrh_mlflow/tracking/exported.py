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
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from jrh_mlflow.errors import JrhError, JrhWarning, RecipeError
from jrh_mlflow.exporting.joint_judges import LiveJury, LiveMember, LivePolicy, LiveSteps
from jrh_mlflow.exporting.judged_rows import row_calls, row_item
from jrh_mlflow.models.transports import known_secrets
from jrh_mlflow.schema.criteria import Criterion
from jrh_mlflow.schema.items import Call, CallRecord, Item, is_scale
from jrh_mlflow.text import blank_secrets, clean_text
from jrh_mlflow.tracking.judges.specifications import read_specification
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import active_uri, say_once, wait_for_sqlite

if TYPE_CHECKING:
    from mlflow.entities import Feedback, Trace

_WORKERS, _FEW = "MLFLOW_GENAI_EVAL_MAX_WORKERS", "7"
_CUSTOM = "MLFLOW_SERVER_ENABLE_CUSTOM_SCORERS"
"""Settings of MLflow's; the last is there from 3.17 on: before, only Databricks registers scorers that are code."""
TIE, ABSTAIN = "tie", "abstain"
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


class _LiveAsker(LiveMember):
    """A judge by itself."""

    def metadata(self, records: Sequence[CallRecord]) -> dict[str, Any]:
        return {}

    def ask(self, calls: Sequence[Call]) -> list[CallRecord]:
        return self.live.ask(calls)


ASKING: dict[str, Callable[[Mapping[str, Any]], Asker]] = {
    "judge": _LiveAsker,
    "jury": LiveJury,
    "cascade": LiveSteps,
    "policy": LivePolicy,
}
"""Kind of a specification to what answers for it."""


def score(
    specification: str,
    *,
    inputs: Any = None,
    outputs: Any = None,
    expectations: Any = None,
    trace: Trace | None = None,
) -> Feedback:
    """Judge one row: what an exported scorer does. Whatever goes wrong is an error of the feedback, never a value.

    Args:
        specification: As this file describes it.
        inputs: Of the row, as `judged_rows.row_item` reads them.
        outputs: Of the row.
        expectations: Never shown to a judge.
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
