"""MLflow traces before a judge: what people said about one, what a judge is shown of it, and how its answer is read.

A judge never sees what was said about the trace it judges: assessments are taken off first.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.judges.parsing import Unread, read_answer
from jrh_mlflow.people.alignment.held_out import Order, Verdict
from jrh_mlflow.people.labels.assessments import HUMAN, _same, expectations_of, read_assessments
from jrh_mlflow.schema.label_words import label_key, label_number, label_text, number_text
from jrh_mlflow.schema.presentation import LABEL_WORDS, Presentation
from jrh_mlflow.tracking.judges.scorer_facts import asked_values, possible_values
from jrh_mlflow.tracking.judges.scorers import answer_for, ask_scorer
from jrh_mlflow.tracking.runs import keys

if TYPE_CHECKING:
    from mlflow.entities import Trace

NUMERIC = "numeric"
NO_LABEL, NO_MAJORITY = "without a person's label", "without a majority of people"
"""Why a trace is left out."""


@dataclass(frozen=True, kw_only=True)
class LabelledTrace:
    """A trace with the label that people gave it."""

    trace: Trace
    label: str
    n_people: int
    content: str
    """Digest of inputs and outputs: traces that share one are the same to a judge."""

    @property
    def id(self) -> str:
        """Of the trace."""
        return str(self.trace.info.trace_id)


@dataclass(frozen=True, kw_only=True)
class LabelScale:
    """What is said about traces, and whether it is ordered."""

    levels: tuple[str, ...] = ()
    """Ordered labels, low to high; empty where they are not ordered, or numbers."""
    numeric: bool = False
    """Every number is a label."""

    @property
    def order(self) -> Order | None:
        """Return the place of a label on the scale, where there is one."""
        if self.numeric:
            return float
        places = {level: float(place) for place, level in enumerate(self.levels)}
        return places.__getitem__ if places else None

    def text(self, value: object) -> str | None:
        """Spell a value as a label, so that equal ones are spelled alike; None for what is none.

        Example:
            >>> [LabelScale().text(value) for value in (True, "Yes ", 3.0, "3.0", "01", [1])]
            ['true', 'yes', '3', '3', '01', None]
        """
        text = label_text(value)
        key = None if text is None else label_key(text)
        return number_text(key) if isinstance(key, float) else key


def read_scale(scale: Sequence[object] | str | None) -> LabelScale:
    """Read `scale` as users give it: ordered labels low to high, `numeric` or a pair of numbers, or nothing.

    Raises:
        RecipeError: for another word, or fewer than two labels.
    """
    if scale is None:
        return LabelScale()
    ends = not isinstance(scale, str) and len(scale) == 2 and all(type(one) in (int, float) for one in scale)
    if scale == NUMERIC or ends:
        return LabelScale(numeric=True)
    levels = () if isinstance(scale, str) else tuple(LabelScale().text(one) or "" for one in scale)
    if len(set(levels)) < 2 or len(set(levels)) < len(levels):
        raise RecipeError(f"A scale is two or more labels from low to high, or {NUMERIC!r}, but got {scale!r}.")
    return LabelScale(levels=levels)


def labelled_traces(
    traces: Iterable[Trace], name: str, scale: LabelScale
) -> tuple[list[LabelledTrace], dict[str, int]]:
    """Return the traces that people labelled under a name, each once, and how many were left out, by reason.

    A label is feedback of a HUMAN source, as for MLflow's own `align`. Of several people it is what more of them say
    than anything else; on an ordered scale the median, where it is one of the levels.

    Raises:
        RecipeError: for a label outside the scale.
    """
    found: dict[str, LabelledTrace] = {}
    left_out: Counter[str] = Counter()
    for trace in traces:
        people = [
            scale.text(one.label)
            for one in read_assessments(trace.info).people
            if _same(one.name, name) and one.source_type == HUMAN and not one.is_expectation
        ]
        labels = [label for label in people if label is not None]
        _check_labels(labels, scale, trace.info.trace_id)
        reference = _reference(labels, scale)
        if trace.info.trace_id in found:
            left_out["given twice"] += 1
        elif reference is None:
            left_out[NO_MAJORITY if labels else NO_LABEL] += 1
        else:
            one = LabelledTrace(trace=trace, label=reference, n_people=len(labels), content=_content(trace))
            found[one.id] = one
    return list(found.values()), dict(left_out)


def _check_labels(labels: Iterable[str], scale: LabelScale, trace_id: str) -> None:
    for label in labels:
        with suppress(KeyError, ValueError):
            if scale.order is not None:
                scale.order(label)
            continue
        known = "a number" if scale.numeric else f"one of {', '.join(scale.levels)}"
        raise RecipeError(
            f"The label {label!r} on trace {trace_id} is outside the scale: it must be {known}."
            f"{suggest(label, scale.levels)}"
        )


def _reference(labels: Sequence[str], scale: LabelScale) -> str | None:
    if not labels:
        return None
    if scale.order is not None:
        ordered = sorted(labels, key=scale.order)
        low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
        return low if low == high else None
    (first, most), *others = Counter(labels).most_common(2)
    return None if others and others[0][1] == most else first


def _content(trace: Trace) -> str:
    fields: Any = shown_fields(trace)
    if fields == (None, None):
        # The root of a trace of OpenTelemetry may hold nothing; its other spans do.
        fields = [(span.name, span.inputs, span.outputs) for span in trace.data.spans] or trace.info.trace_id
    whole = json.dumps(fields, sort_keys=True, default=str)
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


def shown_fields(trace: Trace) -> tuple[Any, Any]:
    """Return inputs and outputs of a trace, as MLflow's judges are given them."""
    root = next((span for span in trace.data.spans if span.parent_id is None), None)
    return (None, None) if root is None else (root.inputs, root.outputs)


def possible_answers(judge: Any, labels: Iterable[str], scale: LabelScale) -> tuple[str, ...]:
    """Return what a judge may answer: the labels that people gave, and what else its type or instructions tell.

    Where people only ever said one of yes and no (pass and fail, true and false), the other is among them.
    """
    answers = tuple(dict.fromkeys([*scale.levels, *sorted(labels)]))
    values = possible_values(judge) or asked_values(getattr(judge, "instructions", "") or "") or ()
    for value in (*values, *_opposites(answers)):
        shown = Presentation(kind="response", instruction="", answers=answers)
        word = scale.text(value)
        if word and read_answer(answer_for(value, shown, {}), answers)[0] == "unparsed":
            answers = (*answers, word)
    return answers


def _opposites(answers: Iterable[str]) -> list[str]:
    pairs = list(zip(*LABEL_WORDS, strict=True))
    return [word for answer in answers for pair in pairs if answer in pair for word in pair]


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
        said = {keys.SPAN_OUTPUTS: json.dumps(outputs, ensure_ascii=False, default=str)}
        return Span.from_dict({**whole, "attributes": {**whole["attributes"], **said}})

    spans = [changed(span) for span in trace.data.spans]
    # The preview is the beginning of the old outputs.
    return NewTrace(info=replace(trace.info, response_preview=None), data=TraceData(spans=spans))


def ask_on_trace(judge: Any, trace: Trace, *, answers: tuple[str, ...], scale: LabelScale) -> Verdict:
    """Ask a judge about a trace as MLflow's evaluation does, and read its answer; whatever fails is an outcome.

    It is shown inputs, outputs, people's expectations but for those under its own name, and the trace, where it asks
    for one, without assessments.
    """
    inputs, outputs = shown_fields(trace)
    fields = {"inputs": inputs, "outputs": outputs, "expectations": _expectations(trace, judge.name)}
    shown = Presentation(kind="response", instruction="", answers=answers)
    try:
        given = ask_scorer(judge, {**fields, "trace": without_assessments(trace)}, shown)
    except Exception as error:  # A judge is code of anybody's; an error is its outcome.
        return Verdict(outcome="error", error=f"{type(error).__name__}: {error}")
    outcome, answer, reason = read_answer(given, answers)
    value = given.value.value if isinstance(given.value, Unread) else given.value
    word = scale.text(value)
    if outcome == "unparsed" and word and (word in answers or (scale.numeric and label_number(word) is not None)):
        outcome, answer, reason = "verdict", word, None
    if outcome == "tie":
        outcome, answer = "verdict", "tie"
    paid = {name: getattr(given, name) for name in ("input_tokens", "output_tokens", "cost_usd")}
    return Verdict(outcome=outcome, answer=answer, error=reason or "", **paid)


def _expectations(trace: Trace, name: str) -> Mapping[str, Any] | None:
    """Return what people expect of a trace; an expectation of the judge's name is its label."""
    found = expectations_of(trace.info, sources=(HUMAN,))
    return {key: value for key, value in found.items() if not _same(key, name)} or None
