"""Traces for an alignment: people's labels, which are held out, what a judge is shown and how its answer is read.

A judge never sees what was said about the trace it judges: assessments are taken off first.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.judges.parsing import Unread, read_answer
from jrh_mlflow.people.alignment.held_out import Order, TraceAnswer
from jrh_mlflow.people.label_reader import labels_of
from jrh_mlflow.people.labels import PERSON
from jrh_mlflow.perturb import NotApplicable
from jrh_mlflow.perturb.english import apply
from jrh_mlflow.perturb.surface import Indentation, SpaceClusters, VerticalSpacing
from jrh_mlflow.schema.label_words import label_key, label_number, label_of_number, label_text
from jrh_mlflow.schema.presentation import LABEL_WORDS, Presentation
from jrh_mlflow.tracking.judges.scorer_facts import asked_values, possible_values
from jrh_mlflow.tracking.judges.scorers import answer_for, ask_scorer
from jrh_mlflow.tracking.traces.traces_in import HUMAN, expectations_of, same_name, shown_fields, without_assessments

Trace: TypeAlias = Any
"""A trace of MLflow's."""
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
        return label_of_number(key) if isinstance(key, float) else key


def label_scale(scale: Sequence[object] | str | None) -> LabelScale:
    """Read `scale` as users give it: ordered labels low to high, `numeric` or a pair of numbers, or nothing.

    Raises:
        RecipeError: for another word, or fewer than two labels.
    """
    if scale is None:
        return LabelScale()
    # By the type itself: True and False are ints in Python, and two labels, not a range.
    ends = not isinstance(scale, str) and len(scale) == 2 and all(type(level) in (int, float) for level in scale)
    if scale == NUMERIC or ends:
        return LabelScale(numeric=True)
    levels = () if isinstance(scale, str) else tuple(LabelScale().text(level) or "" for level in scale)
    if len(set(levels)) < 2 or len(set(levels)) < len(levels):
        raise RecipeError(f"A scale is two or more labels from low to high, or {NUMERIC!r}, but got {scale!r}.")
    return LabelScale(levels=levels)


def traces_with_labels(
    traces: Sequence[Trace], name: str, scale: LabelScale
) -> tuple[list[LabelledTrace], dict[str, int]]:
    """Return the traces that people labelled under a name, each once, and how many were left out, by reason.

    A label is feedback of a HUMAN source, as for MLflow's own `align`. Of several people it is what more of them say
    than anything else; on an ordered scale the median, where it is one of the levels.

    Raises:
        RecipeError: for a label outside the scale.
    """
    by_id = {str(trace.info.trace_id): trace for trace in traces}
    people: dict[str, list[str]] = {trace_id: [] for trace_id in by_id}
    for answer in labels_of(list(by_id.values())).frame.to_dict("records") if by_id else ():
        is_feedback = answer["kind"] == PERSON and answer["source_type"] == HUMAN and not answer["is_expectation"]
        label = scale.text(answer["label"]) if is_feedback and same_name(answer["name"], name) else None
        people[answer["item"]] += [] if label is None else [label]
    labelled: list[LabelledTrace] = []
    left_out = Counter({"given twice": len(traces) - len(by_id)})
    for trace_id, labels in people.items():
        _check_labels(labels, scale, trace_id)
        reference = _reference(labels, scale)
        if reference is None:
            left_out[NO_MAJORITY if labels else NO_LABEL] += 1
            continue
        trace = by_id[trace_id]
        labelled.append(LabelledTrace(trace=trace, label=reference, n_people=len(labels), content=_content(trace)))
    return labelled, {reason: count for reason, count in left_out.items() if count}


def _check_labels(labels: Iterable[str], scale: LabelScale, trace_id: str) -> None:
    for label in labels:
        # An unknown label leaves the block before `continue`, and is refused below it.
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
        # Two middle labels that differ have no label between them.
        return low if low == high else None
    (first, most), *others = Counter(labels).most_common(2)
    return None if others and others[0][1] == most else first


def _content(trace: Trace) -> str:
    fields: Any = shown_fields(trace)
    if fields == (None, None):
        # The root of a trace of OpenTelemetry may hold nothing; its other spans do.
        fields = [(span.name, span.inputs, span.outputs) for span in trace.data.spans] or trace.info.trace_id
    # The order of keys is no content.
    whole = json.dumps(fields, sort_keys=True, default=str)
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


def possible_answers(judge: Any, labels: Iterable[str], scale: LabelScale) -> tuple[str, ...]:
    """Return what a judge may answer: the labels that people gave, and what else its type or instructions tell.

    Where people only ever said one of yes and no (pass and fail, true and false), the other is among them.
    """
    answers = tuple(dict.fromkeys([*scale.levels, *sorted(labels)]))
    values = possible_values(judge) or asked_values(getattr(judge, "instructions", "") or "") or ()
    for value in (*values, *_opposites(answers)):
        shown = Presentation(kind="response", instruction="", answers=answers)
        word = scale.text(value)
        # What is read as a known answer, such as True for yes, is not one more.
        if word and read_answer(answer_for(value, shown, {}), answers)[0] == "unparsed":
            answers = (*answers, word)
    return answers


def _opposites(answers: Iterable[str]) -> list[str]:
    pairs = list(zip(*LABEL_WORDS, strict=True))
    return [word for answer in answers for pair in pairs if answer in pair for word in pair]


def ask_on_trace(judge: Any, trace: Trace, *, answers: tuple[str, ...], scale: LabelScale) -> TraceAnswer:
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
        return TraceAnswer(outcome="error", error=f"{type(error).__name__}: {error}")
    outcome, answer, reason = read_answer(given, answers)
    value = given.value.value if isinstance(given.value, Unread) else given.value
    word = scale.text(value)
    # A number on a numeric scale is a label, even one that nobody gave before.
    if outcome == "unparsed" and word and (word in answers or (scale.numeric and label_number(word) is not None)):
        outcome, answer, reason = "verdict", word, None
    # About one response a tie is a label like any other.
    if outcome == "tie":
        outcome, answer = "verdict", "tie"
    paid = {name: getattr(given, name) for name in ("input_tokens", "output_tokens", "cost_usd")}
    return TraceAnswer(outcome=outcome, answer=answer, error=reason or "", **paid)


def _expectations(trace: Trace, name: str) -> Mapping[str, Any] | None:
    """Return what people expect of a trace; an expectation of the judge's name is its label."""
    expected = expectations_of(trace.info, sources=(HUMAN,))
    return {key: value for key, value in expected.items() if not same_name(key, name)} or None


# --- the short suite of a held-out trace: its output laid out otherwise, by rules that change no word

KEY_ORDER = "key_order"
_LAYOUTS = (VerticalSpacing(), SpaceClusters(), Indentation())
Place = tuple[object, ...]
"""Keys and indices that lead to a text inside data."""


def reformatted(outputs: object, number: int, *, seed: int) -> tuple[str, object] | None:
    """Return a rule's name and the outputs it makes, or None where no rule changes them; `number` takes them in turn.

    Of data the longest text is laid out otherwise, or, where it has several keys, these come in another order.

    Example:
        >>> reformatted({"answer": "Yes.", "score": 1}, 3, seed=0)
        ('key_order', {'score': 1, 'answer': 'Yes.'})
    """
    place, text = max(_texts(outputs), key=lambda placed: len(placed[1]), default=((), ""))
    rules: dict[str, Callable[[], object]] = {
        rule.name: partial(_laid_out, rule, outputs, place, text, f"{seed} {number}")
        for rule in _LAYOUTS
        if text.strip()
    }
    if isinstance(outputs, Mapping) and len(outputs) > 1:
        rules[KEY_ORDER] = lambda: dict(reversed(list(outputs.items())))
    names = list(rules)
    for name in names[number % len(names) :] + names[: number % len(names)] if names else []:
        try:
            made = rules[name]()
        except NotApplicable:
            continue
        # Mappings that differ in the order of their keys are equal.
        if made != outputs or name == KEY_ORDER:
            return name, made
    return None


def longest_text(outputs: object) -> str:
    """Return the longest text of some outputs, empty where there is none."""
    return max((text for _, text in _texts(outputs)), key=len, default="")


def _laid_out(rule: Any, outputs: object, place: Place, text: str, seed: str) -> object:
    edits = rule.edits(text, random.Random(seed))  # noqa: S311 - a layout, not a secret
    return _put(outputs, place, apply(text, edits))


def _texts(value: object, place: Place = ()) -> Iterator[tuple[Place, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, (*place, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _texts(inner, (*place, index))


def _put(value: Any, place: Place, text: str) -> object:
    """Return data with another text at a place."""
    if not place:
        return text
    first, rest = place[0], place[1:]
    if isinstance(value, Mapping):
        return {key: _put(inner, rest, text) if key == first else inner for key, inner in value.items()}
    return [_put(inner, rest, text) if index == first else inner for index, inner in enumerate(value)]


# --- which traces an optimiser learns from, and which it never sees

SAME_CONTENT, KNOWN = "same content as a held-out trace", "known to the judge"


@dataclass(frozen=True, kw_only=True)
class Split:
    """Two parts without a content in common."""

    training: list[LabelledTrace]
    held_out: list[LabelledTrace]
    counts: Mapping[str, int]
    """Copies of held-out traces, which are in neither part, and traces that could only be trained on."""


def split_traces(
    traces: Sequence[LabelledTrace], *, holdout: float, seed: int, is_known: Callable[[LabelledTrace], bool]
) -> Split:
    """Hold out a share of the traces, drawn within each label; the same for the same traces in any order.

    Traces of one content stay together: of those held out one is measured. What `is_known` to the judge already is
    trained on.
    """
    groups: dict[str, list[LabelledTrace]] = defaultdict(list)
    # By id, because a store may list the same traces in another order.
    for trace in sorted(traces, key=lambda labelled: labelled.id):
        groups[trace.content].append(trace)
    known = {content for content, group in groups.items() if any(map(is_known, group))}
    strata: dict[str, list[str]] = defaultdict(list)
    for content, group in groups.items():
        if content not in known:
            # Copies of one content may have different labels: the first by id stands for all.
            strata[group[0].label].append(content)
    chosen = _drawn(strata, holdout=holdout, rng=random.Random(seed))  # noqa: S311 - a split, not a secret
    counts = {
        SAME_CONTENT: sum(len(groups[content]) - 1 for content in chosen),
        KNOWN: sum(len(groups[content]) for content in known),
    }
    return Split(
        training=[trace for content, group in groups.items() if content not in chosen for trace in group],
        held_out=[groups[content][0] for content in chosen],
        counts={name: count for name, count in counts.items() if count},
    )


def _drawn(strata: Mapping[str, list[str]], *, holdout: float, rng: random.Random) -> list[str]:
    """Draw from each label its share, and what rounding leaves from the labels that it cut most."""
    quotas = {label: holdout * len(contents) for label, contents in sorted(strata.items())}
    sizes = {label: math.floor(quota) for label, quota in quotas.items()}
    # Largest remainders first, so that the parts add up to the share of the whole.
    by_remainder = sorted(quotas, key=lambda label: sizes[label] - quotas[label])
    for label in by_remainder[: round(sum(quotas.values())) - sum(sizes.values())]:
        sizes[label] += 1
    return [content for label, size in sizes.items() for content in rng.sample(strata[label], size)]
