"""Pointwise answers: labels and their order, and call records as arrays beside baseline answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from jrh_mlflow.errors import CallsError
from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.schema.items import BASELINE, OUTCOMES, USABLE, Answers, is_scale, read_labels_cell
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED, ParallelArrays, Possible, Units, possible, share
from jrh_mlflow.stats import Codes, Mask, Texts

_UNUSABLE = tuple(outcome for outcome in OUTCOMES if outcome not in USABLE)


KNOWN_PAIRS = (
    ("no", "yes"),
    ("fail", "pass"),
    ("false", "true"),
    ("incorrect", "correct"),
    ("bad", "good"),
    ("safe", "unsafe"),
    ("harmless", "harmful"),
    ("negative", "positive"),
    ("no violation", "violation"),
)
"""Two labels whose order goes without saying: the positive one, which is to be detected, is the second."""
ORDER_UNKNOWN = "which label is the {what} one is not known; pass labels=(…) in order, the {what} one last"
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """The labels of a suite, low to high; of two labels the positive one is the last."""

    labels: tuple[str, ...]
    ordered: bool
    """False when neither the caller nor the labels themselves say which is higher."""
    ordinal: bool | None = None
    """As the suite or the caller says; None: three or more whole numbers are a scale."""
    seen: bool = False
    """Whether nobody tells the labels, so that the lowest one seen need not be the lowest there is."""

    @property
    def lowest(self) -> str | None:
        """The lowest label there is; None where it is not known. Two labels are both ends."""
        return None if self.seen and len(self.labels) != 2 else self.labels[0]

    @property
    def kind(self) -> Literal["binary", "ordinal", "nominal"]:
        """`binary`: two labels; `ordinal`: a scale of three levels or more; `nominal`: everything else."""
        if len(self.labels) < 3:
            return "binary" if len(self.labels) == 2 else "nominal"
        return "ordinal" if (self._is_whole if self.ordinal is None else self.ordinal) else "nominal"

    @property
    def _is_whole(self) -> bool:
        return _are_whole(self.labels)

    def places(self, answers: npt.NDArray[np.object_]) -> npt.NDArray[np.float64]:
        """Place of each answer among the labels; NaN for what is no label."""
        place = {label: float(index) for index, label in enumerate(self.labels)}
        return np.array([place.get(answer, np.nan) for answer in answers], dtype=float)

    def steps(self, answers: npt.NDArray[np.object_]) -> npt.NDArray[np.float64]:
        """Each answer as a number, for ordinal labels: a whole number itself, any other level by its place.

        NaN for what is no label.
        """
        if not self._is_whole:
            return self.places(answers)
        step = {label: float(label) for label in self.labels}
        return np.array([step.get(answer, np.nan) for answer in answers], dtype=float)


def _are_whole(labels: Iterable[str]) -> bool:
    return all(is_number(label) and float(label).is_integer() for label in labels)


def is_number(text: str) -> bool:
    """Tell `4`, `-1` and `2.5` from words; `nan`, `1e3` and `１` are words."""
    return _NUMBER.fullmatch(text) is not None


def plain_label(text: str) -> str:
    """Spell a whole number in one way: `3.0` is `3`. Other text stays as it is."""
    return str(int(float(text))) if is_number(text) and float(text).is_integer() else text


def scale_of(values: Iterable[str], labels: Sequence[str] | None) -> Scale:
    """Take the labels as given, or infer them from the expected and given answers.

    Inferred: numbers in their order; a pair of `KNOWN_PAIRS`, whatever the case; else sorted, with unknown order.
    `Answers` say whether they are a scale; empty ones say it of what is inferred.

    Raises:
        CallsError: when an answer is none of the given labels.
        ValueError: when the given labels are fewer than two, or repeat one; when inferred words shall be a scale.
    """
    answers = {plain_label(value) for value in values if value}
    ordinal = labels.ordinal if isinstance(labels, Answers) else None
    if labels is None or (isinstance(labels, Answers) and not labels):
        return _inferred(answers, ordinal)
    given = tuple(plain_label(str(label)) for label in labels)
    if len(given) < 2 or len(set(given)) < len(given):
        raise ValueError(f"`labels` must be two or more different ones, but got {tuple(labels)}.")
    strange = sorted(answers - set(given))
    if strange:
        raise CallsError(
            f"{', '.join(map(repr, strange[:5]))} stand(s) in `answer` or `expected` but is none of the labels "
            f"{', '.join(given)}. An answer outside the labels has the outcome unparsed."
        )
    # What judges were shown as a scale is measured as one, whole or not.
    if isinstance(labels, Answers) and ordinal is None and is_scale(given) != (_are_whole(given) and len(given) > 2):
        ordinal = is_scale(given)
    ordered, seen = ordinal is not False or len(given) == 2, isinstance(labels, Answers) and labels.seen
    return Scale(labels=given, ordered=ordered, ordinal=ordinal, seen=seen)


def told_labels(frame: pd.DataFrame, labels: Sequence[str] | None) -> Sequence[str] | None:
    """Return the labels as given, else as normalised records tell them in one voice, else None.

    Empty `Answers` say of what the records tell, or of what is inferred, whether it is a scale.
    """
    # Records of several suites may tell several scales: then none of them holds for all.
    cells = {cell for cell in set(frame["labels"]) if cell}
    if len(cells) != 1 or (labels is not None and not (isinstance(labels, Answers) and not labels)):
        return labels
    scale = read_labels_cell(cells.pop())
    return scale if labels is None else Answers(scale, ordinal=labels.ordinal, meanings=labels.meanings)


def _inferred(answers: set[str], ordinal: bool | None) -> Scale:
    if answers and all(is_number(value) for value in answers):
        ordered = ordinal is not False or len(answers) == 2
        return Scale(labels=tuple(sorted(answers, key=float)), ordered=ordered, ordinal=ordinal, seen=True)
    if ordinal and answers:
        raise ValueError(f"The order of {', '.join(sorted(answers))} is not known: pass labels=(…), low to high.")
    spelled = {value.casefold(): value for value in answers}
    for pair in KNOWN_PAIRS:
        if len(answers) == 2 and set(spelled) == set(pair):
            return Scale(labels=(spelled[pair[0]], spelled[pair[1]]), ordered=True, seen=True)
    return Scale(labels=tuple(sorted(answers)), ordered=False, seen=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class PointTable(ParallelArrays):
    """Calls as parallel arrays."""

    test: Texts
    """The condition: `baseline` or the name of a reliability test."""
    item: Codes
    source: Codes
    """The unperturbed item (`task` of the records): the cluster of every interval."""
    original: Codes
    """Code of source and rubric, which a call shares with its baseline; the source where there is one rubric."""
    rubric: Texts
    """Id of the rubric; empty where there is one."""
    position: Texts
    """Third of the transcript that holds the violation; empty where there is none."""
    replicate: npt.NDArray[np.int64]
    outcome: Texts
    answer: Texts
    expected: Texts
    """The right answer; empty where it is not known, also where the label is no ground truth."""
    label: Texts
    """What was expected whatever the source of the label: what a test changes is read by it, accuracy never."""
    label_source: Texts
    """One of `LABEL_SOURCES`; empty where the label comes from the data or from the test's meaning."""
    base_outcome: Texts
    """Of the baseline call that this one is compared with; empty where there is none."""
    base_answer: Texts
    base_expected: Texts
    base_label: Texts
    n_bases: npt.NDArray[np.int64]
    """Baseline items of the call's source and rubric: with more than one, the original is not known."""
    row: Codes
    """Place of the call among the records."""
    n_sources: int
    scale: Scale
    max_excluded: float

    @property
    def usable(self) -> Mask:
        """Calls that are an answer."""
        return is_usable(self.outcome)

    @property
    def right(self) -> Mask:
        """Verdicts equal to the expected answer."""
        return np.asarray((self.outcome == "verdict") & (self.answer == self.expected) & (self.expected != ""))

    def of(self, test: str) -> PointTable:
        """Return the calls of one test."""
        return self.where(self.test == test)

    def units(self, what: str) -> Units:
        """Return these calls as a denominator."""
        usable = self.usable
        return self.units_of(what, usable=usable, lost=self.outcome[~usable])

    def counted(self, what: str, hits: Mask) -> Counted:
        """Return these calls, each a unit of its own, with the hits among them."""
        return Counted(units=self.units(what), hits=hits, items=self.item, replicates=self.replicate)

    def verdicts(self, what: str) -> Units:
        """Return these calls as the denominator of a value, for which an abstention is no answer either."""
        verdict = np.asarray(self.outcome == "verdict")
        return self.units_of(what, usable=verdict, lost=self.outcome[~verdict])

    def paired(self, what: str) -> Units:
        """Return these calls, each with its baseline call: unusable when either of the two is."""
        usable = self.usable
        both = np.asarray(usable & is_usable(self.base_outcome))
        return self.units_of(what, usable=both, lost=np.where(usable, self.base_outcome, self.outcome)[~both])

    def units_of(
        self,
        what: str,
        *,
        usable: Mask,
        lost: Texts,
        clusters: Codes | None = None,
        n_calls: int | None = None,
        members: tuple[Codes, Codes] | None = None,
    ) -> Units:
        """Return a denominator of calls, or of items or sources where `clusters` says of which source each is.

        Args:
            what: The units in words.
            usable: Those that count.
            lost: Outcomes of the calls that keep the others out.
            clusters: Source of each unit.
            n_calls: Calls of all units; None: each unit is one.
            members: Unit and record of every call, where a unit is more than one.
        """
        return Units(
            what=what,
            unit="call" if clusters is None else "item",
            usable=usable,
            clusters=self.source if clusters is None else clusters,
            n_codes=self.n_sources,
            left_out=left_out_counts(lost),
            max_excluded=self.max_excluded,
            n_calls=n_calls,
            presentations=self.item if clusters is None else None,
            members=(np.arange(len(self.row)), self.row) if clusters is None else members,
        )

    def items(self, what: str) -> ItemTable:
        """Group the calls by item; an item with an unusable call leaves the denominator whole."""
        codes, first, of_call = np.unique(self.item, return_index=True, return_inverse=True)
        unusable = ~self.usable
        whole = np.bincount(of_call[unusable], minlength=len(codes)) == 0
        lost, sources, n_calls = self.outcome[unusable], self.source[first], len(self.item)
        members = (of_call, self.row)
        units = self.units_of(what, usable=whole, lost=lost, clusters=sources, n_calls=n_calls, members=members)
        return ItemTable(of_call=of_call, units=units)


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemTable:
    """Items of some calls."""

    of_call: Codes
    """Item of each call."""
    units: Units

    def all_of(self, hits: Mask) -> Mask:
        """Items all of whose calls are hits."""
        return np.asarray(np.bincount(self.of_call[~hits], minlength=len(self.units.usable)) == 0)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Calls of each item."""
        return np.bincount(self.of_call, minlength=len(self.units.usable))


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """A share before it is taken: what counts, and which of it are hits."""

    units: Units
    hits: Mask
    items: Codes | None = None
    """Item of each unit; None where a unit is a whole source."""
    rubrics: Texts | None = None
    """Rubric of each unit that is a whole source."""
    replicates: npt.NDArray[np.int64] | None = None
    """Replicate of each unit; None where a unit is more than one call."""
    can_hit: Mask | None = None
    """Units that can still be a hit; None: every unusable one can. All unusable ones can be a miss."""

    @property
    def reading(self) -> Reading:
        """The share."""
        return share(self.units, self.hits, can_be=self.can_be)

    @property
    def can_be(self) -> Possible:
        """What each unit can still be."""
        can_be = possible(self.units.usable, self.hits)
        return can_be if self.can_hit is None else replace(can_be, hit=self.can_hit)


def is_usable(outcomes: Texts) -> Mask:
    """Tell the outcomes that are an answer; `np.isin` is slow on texts."""
    return np.asarray(np.logical_or.reduce([outcomes == name for name in USABLE]), dtype=bool)


def left_out_counts(outcomes: Texts) -> dict[str, int]:
    """Count outcomes that kept a call out of a denominator; an abstention is named only where it did."""
    if not len(outcomes):
        return dict.fromkeys(_UNUSABLE, 0)
    abstained = {"abstain": int((outcomes == "abstain").sum())}
    counts = {name: int((outcomes == name).sum()) for name in _UNUSABLE}
    return counts | (abstained if abstained["abstain"] else {})


def right_answers(frame: pd.DataFrame) -> Texts:
    """Return the expected answers of normalised records, empty where the label is no ground truth."""
    known = frame["expected"].where(frame["label_source"] == "", "")
    return np.array([plain_label(text) for text in known], dtype=object)


def in_order(frame: pd.DataFrame, columns: Sequence[str]) -> tuple[pd.DataFrame, Codes]:
    """Return records in an order that does not depend on the order of the rows, and the place that each had."""
    ordered = frame.reset_index(drop=True).sort_values(list(columns), kind="stable")
    return ordered.reset_index(drop=True), ordered.index.to_numpy(np.intp)


def point_table(
    frame: pd.DataFrame, *, labels: Sequence[str] | None = None, max_excluded: float = MAX_EXCLUDED
) -> PointTable:
    """Read normalised pointwise records into arrays, in an order that does not depend on the order of the rows."""
    frame, row = in_order(frame, ["suite_item", "replicate"])
    scale = scale_of([*frame["answer"], *frame["expected"]], told_labels(frame, labels))
    answer = np.array([plain_label(text) for text in frame["answer"]], dtype=object)
    label, expected = np.array([plain_label(text) for text in frame["expected"]], dtype=object), right_answers(frame)
    sources = pd.factorize(frame["task"], sort=True)
    items = pd.factorize(frame["suite_item"], sort=True)
    test, outcome = frame["condition"].to_numpy(object), frame["outcome"].to_numpy(object)
    replicate = frame["replicate"].to_numpy(np.int64)
    rubrics = pd.factorize(frame["rubric"], sort=True)
    original = np.unique(sources[0] * len(rubrics[1]) + rubrics[0], return_inverse=True)[1].astype(np.intp)
    twin, n_bases = _twins(test == BASELINE, original=original, item=items[0], replicate=replicate)

    def of_twin(column: Texts) -> Texts:
        return np.where(twin < 0, "", column[twin]).astype(object)

    return PointTable(
        test=test,
        item=items[0],
        source=sources[0],
        original=original,
        rubric=frame["rubric"].to_numpy(object),
        position=frame["position"].to_numpy(object),
        replicate=replicate,
        outcome=outcome,
        answer=answer,
        expected=expected,
        label=label,
        label_source=frame["label_source"].to_numpy(object),
        base_outcome=of_twin(outcome),
        base_answer=of_twin(answer),
        base_expected=of_twin(expected),
        base_label=of_twin(label),
        n_bases=n_bases,
        row=row,
        n_sources=len(sources[1]),
        scale=scale,
        max_excluded=max_excluded,
    )


def _twins(
    baseline: Mask, *, original: Codes, item: Codes, replicate: npt.NDArray[np.int64]
) -> tuple[Codes, npt.NDArray[np.int64]]:
    """Find the baseline row of each row (replicate r meets baseline replicate r mod k; -1: none), and how many items.

    A baseline call has no twin: it is not compared with itself.
    """
    rows: dict[int, list[int]] = {}
    for row in np.flatnonzero(baseline):
        rows.setdefault(int(original[row]), []).append(int(row))
    n_items = {code: len(set(item[own].tolist())) for code, own in rows.items()}
    twin = np.full(len(original), -1, dtype=np.intp)
    n_bases = np.array([n_items.get(int(code), 0) for code in original], dtype=np.int64)
    for row in np.flatnonzero(~baseline & (n_bases == 1)):
        # Rows are sorted by replicate, so the list counts the baseline's replicates.
        own = rows[int(original[row])]
        twin[row] = own[int(replicate[row]) % len(own)]
    return twin, n_bases
