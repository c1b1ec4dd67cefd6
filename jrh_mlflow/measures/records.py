"""Call records: checked, brought into one form, and read into arrays before anything is counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from jrh_mlflow.errors import CallsError, NoCommonCallsError, suggest
from jrh_mlflow.schema.items import (
    DELTA_0,
    LABEL_SOURCES,
    LADDERS,
    OPTIONAL_COLUMNS,
    OUTCOMES,
    PAIR_CONDITIONS,
    REQUIRED_COLUMNS,
    SINGLE_CONDITIONS,
    SINGLE_VACUUM,
    UNASKED,
    USABLE,
    VACUUM,
    WITH_BETTER,
    CallRecord,
    read_labels_cell,
)
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED, ParallelArrays, Units
from jrh_mlflow.scoring.pointwise import left_out_counts, plain_label
from jrh_mlflow.stats import Array, Codes, Mask, Texts

_POINTWISE_OUTCOMES = tuple(outcome for outcome in OUTCOMES if outcome != "tie")
CALL_KEY = ["suite_item", "order", "replicate"]
"""What tells the calls of one judge apart."""
CALL_MEANING = ["task", "condition", "delta", "better", "expected", "label_source", "rubric"]
"""What two judges on one suite must agree on."""
PAIR_CHOICES = ("u", "v", "tie", "abstain")
"""What a call on a pair can choose: a lost one could have chosen any."""
_TEXT_COLUMNS = tuple(name for name in (*REQUIRED_COLUMNS, *OPTIONAL_COLUMNS) if name not in ("delta", "replicate"))


def normalise(calls: pd.DataFrame | Iterable[object]) -> pd.DataFrame:
    """Return the records with text columns as text, empty cells as "", and every rule of the protocol checked.

    Accepts a DataFrame (also one read from CSV), or an iterable of mappings or `CallRecord`s. A table holds pairs or
    pointwise items, never both: see `is_pointwise`.

    Raises:
        CallsError: naming the column and the first offending records.
    """
    given = calls if isinstance(calls, pd.DataFrame) else pd.DataFrame([_as_mapping(call) for call in calls])
    frame: pd.DataFrame = given.reset_index(drop=True)
    if frame.empty:
        raise CallsError("There are no call records: nothing to measure. Check the file or the filter before it.")
    _require_columns(frame)
    # One column for all that are not there.
    none = pd.Series(np.full(len(frame), "", dtype=object), dtype=object)
    frame = frame.assign(**{name: none for name in OPTIONAL_COLUMNS if name not in frame.columns})
    for name in _TEXT_COLUMNS:
        column = frame[name]
        if (texts := _as_text(column)) is not column:
            frame[name] = texts
    if frame["replicate"].dtype != np.int64:
        replicate = _as_number(frame, "replicate")
        # A replicate that is no whole number becomes -1, which the rules below refuse with its items.
        frame["replicate"] = np.where(replicate % 1 == 0, replicate, -1).astype(int)
    delta = _as_number(frame, "delta")
    if frame["delta"].dtype != delta.dtype:
        frame["delta"] = delta
    # Arrays: of some hundred records, most of what a table does is to look after its index.
    cells = {name: frame[name].to_numpy() for name in (*_TEXT_COLUMNS, "replicate", "delta")}
    if is_pointwise(frame):
        has_steps(frame)
        _check_points(cells)
    else:
        _check_pairs(cells)
    return frame


def is_pointwise(frame: pd.DataFrame) -> bool:
    """Tell pointwise records (no presentation order, the name of a reliability test as condition) from pairs.

    Raises:
        CallsError: when the table holds both.
    """
    condition = frame["condition"].to_numpy(object)
    points = (frame["order"].to_numpy(object) == "") & ~_among(condition, PAIR_CONDITIONS)
    if points.any() and not points.all():
        _check_conditions(condition[~points])
        raise CallsError(
            f"Pairs and pointwise items have reports of their own: measure them apart. "
            f"{int((~points).sum())} record(s) are of pairs and {int(points.sum())} pointwise{_where(frame, points)}."
        )
    return bool(points.all())


def has_steps(frame: pd.DataFrame) -> bool:
    """Tell the records of the pointwise datasheet, single responses of known level, from those of all others.

    Raises:
        CallsError: when the table holds both.
    """
    single = _among(frame["condition"], SINGLE_CONDITIONS)
    if single.any() and not single.all():
        raise CallsError(
            f"Single responses of known level have a datasheet of their own: measure them apart. "
            f"{int(single.sum())} of {len(frame)} record(s) are of them{_where(frame, single)}."
        )
    return bool(single.all())


def complete_pairs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the records whose pair has both presentation orders, of a run that was stopped in the middle.

    Pointwise records have no order to miss and stay as they are.
    """
    orders = frame.groupby(["suite_item", "replicate"], sort=False)["order"].transform("size")
    whole: pd.DataFrame = frame[(orders == 2) | (frame["order"] == "")]
    return whole


def halves_marked(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the records with the column `partner` saying which have none, of a run that was stopped between calls.

    They count for axes of calls, so that nothing that was paid is thrown away; axes of pairs read the complete pairs.
    """
    orders = frame.groupby(["suite_item", "replicate"], sort=False)["order"].transform("size")
    alone = (orders == 1) & (frame["order"] != "")
    # Marks of an earlier selection are void: among fewer calls other pairs are halves.
    marked: pd.DataFrame = frame.drop(columns="partner", errors="ignore")
    if alone.any():
        marked["partner"] = np.where(alone, UNASKED, "")
    return marked


def common_calls(judges: Mapping[str, pd.DataFrame]) -> pd.MultiIndex:
    """Return the keys of the calls that every judge was asked, in the order of the first."""
    first, *others = (pd.MultiIndex.from_frame(frame[CALL_KEY]) for frame in judges.values())
    common: pd.MultiIndex = reduce(pd.MultiIndex.intersection, others, first)
    return common


def shared_calls(judges: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the normalised records of the calls that every judge was asked, checking that they mean the same.

    Raises:
        NoCommonCallsError: when there is no such call.
        CallsError: when two judges were asked different things under one name.
    """
    common = common_calls(judges)
    if common.empty:
        raise NoCommonCallsError(
            f"{', '.join(judges)} have no call in common: they are on different suites, or were stopped before one "
            f"that all were asked. Compare runs on the same suite, asked to the end."
        )
    keyed = {name: frame.set_index(CALL_KEY) for name, frame in judges.items()}
    first, *others = keyed
    # Equal ids do not make equal items: two suites may use the same names for other contents.
    meaning = keyed[first].loc[common, CALL_MEANING]
    for name in others:
        if not meaning.equals(keyed[name].loc[common, CALL_MEANING]):
            raise CallsError(
                f"{first} and {name} disagree on the task, condition or expected answer of an item: not one suite."
            )
    return {name: halves_marked(frame.loc[common].reset_index()) for name, frame in keyed.items()}


def n_alone(frame: pd.DataFrame) -> int:
    """Count the calls whose partner was not asked."""
    return int((frame["partner"] == UNASKED).sum()) if "partner" in frame else 0


def label_sources(frame: pd.DataFrame) -> list[str]:
    """Return where labels come from that are no ground truth."""
    given = set(frame["label_source"]) if "label_source" in frame else set()
    return [source for source in LABEL_SOURCES if source in given]


def outcome_counts(frame: pd.DataFrame) -> dict[str, int]:
    """Count how the calls ended."""
    counts = frame["outcome"].value_counts()
    return {outcome: int(counts.get(outcome, 0)) for outcome in OUTCOMES}


def _as_mapping(call: object) -> Mapping[str, Any]:
    if is_dataclass(call) and not isinstance(call, type):
        # `asdict` copies every cell, which takes longer than measuring them.
        return {field.name: getattr(call, field.name) for field in fields(call)}
    if isinstance(call, Mapping):
        return call
    raise CallsError(f"A call record must be a mapping or a CallRecord, but got {type(call).__name__}.")


def _require_columns(frame: pd.DataFrame) -> None:
    missing = [column for column in REQUIRED_COLUMNS if column not in frame.columns]
    if missing:
        present = [str(column) for column in frame.columns]
        near = suggest(missing[0], present)
        raise CallsError(
            f"Call records lack the column(s) {', '.join(missing)}.{near} Columns there are: {', '.join(present)}."
        )


def _as_text(column: pd.Series[Any]) -> pd.Series[Any]:
    """Empty cells become "", whole floats lose their point (CSV turns the slot 1 into 1.0)."""

    def text(value: object) -> str:
        if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
            return ""
        if isinstance(value, float | np.floating) and float(value).is_integer():
            return str(int(value))
        return str(value)

    cells = column.to_numpy(object)
    texts_only = pd.api.types.infer_dtype(cells, skipna=False) == "string"
    if column.dtype == object:  # where 1, 1.0 and True are cells of their own
        return column if texts_only else column.map(text).astype(object)
    if not texts_only:
        codes, kinds = pd.factorize(column, use_na_sentinel=False)
        cells = np.array([text(kind) for kind in kinds], dtype=object)[codes]
    read: pd.Series[Any] = pd.Series(cells, index=column.index, name=column.name, dtype=object)
    return read


def _as_number(frame: pd.DataFrame, column: str) -> Array:
    values = frame[column]
    if values.dtype == object:
        values = values.map(lambda value: None if isinstance(value, str) and not value else value)
    try:
        numbers: Array = pd.to_numeric(values).astype(float).to_numpy()
    except (TypeError, ValueError) as error:
        raise CallsError(f"Column {column!r} must hold numbers: {error}.") from error
    if (infinite := np.isinf(numbers)).any():
        raise CallsError(f"Column {column!r} holds an infinite number{_where(frame, infinite)}.")
    return numbers


_Cells = Mapping[str, npt.NDArray[Any]]
_Rules = list[tuple[Mask, str]]


def _among(cells: npt.NDArray[Any] | pd.Series[Any], wanted: Iterable[str]) -> Mask:
    known = frozenset(wanted)
    return np.array([cell in known for cell in cells.tolist()], dtype=bool)


def _check_rule(cells: _Cells, broken: Mask, rule: str, fault: str = "record(s) break it") -> None:
    if broken.any():
        raise CallsError(f"{rule}, but {int(broken.sum())} {fault}{_where(cells, broken)}.")


def _check_conditions(condition: Texts) -> None:
    unknown = sorted(set(condition) - set(PAIR_CONDITIONS))
    if unknown:
        raise CallsError(
            f"Unknown condition {unknown[0]!r}.{suggest(unknown[0], PAIR_CONDITIONS)} "
            f"Known: {', '.join(PAIR_CONDITIONS)}."
        )


def _pair_rules(cells: _Cells) -> _Rules:
    condition, outcome, delta = cells["condition"], cells["outcome"], cells["delta"]
    with_better, delta_0 = _among(condition, WITH_BETTER), _among(condition, DELTA_0)
    verdict = outcome == "verdict"
    return [
        (cells["suite_item"] == "", "`suite_item` must not be empty"),
        (cells["task"] == "", "`task` must not be empty: it is the cluster of the interval"),
        (~_among(outcome, OUTCOMES), f"`outcome` must be one of {', '.join(OUTCOMES)}"),
        (cells["replicate"] < 0, "`replicate` must be 0, 1, …"),
        (~_among(cells["order"], ("uv", "vu")), "`order` must be uv or vu for pairs"),
        (
            _among(condition, LADDERS) & ~(delta > 0),
            "`delta` must be above 0 in the conditions ladder and ladder_matched",
        ),
        (
            delta_0 & ~np.isnan(delta) & (delta != 0),
            "`delta` must be 0 in the conditions delta_0_same and delta_0_different",
        ),
        (
            with_better & ~_among(cells["better"], ("u", "v")),
            f"`better` must be u or v in the conditions {', '.join(WITH_BETTER[:-1])} and {WITH_BETTER[-1]}",
        ),
        (~with_better & (cells["better"] != ""), "`better` must be empty where neither content is better"),
        (cells["label_source"] != "", "`label_source` must be empty for pairs"),
        (~_among(cells["partner"], ("", UNASKED)), f"`partner` must be empty or {UNASKED!r}"),
        (verdict & ~_among(cells["answer"], ("1", "2")), "`answer` must be 1 or 2 where `outcome` is verdict"),
        (~verdict & (cells["answer"] != ""), "`answer` must be empty unless `outcome` is verdict"),
    ]


def _point_rules(cells: _Cells) -> _Rules:
    outcome, verdict = cells["outcome"], cells["outcome"] == "verdict"
    return [
        (cells["suite_item"] == "", "`suite_item` must not be empty"),
        (cells["task"] == "", "`task` must not be empty: it is the source of the item and the cluster of the interval"),
        (cells["condition"] == "", "`condition` must be baseline or the name of a reliability test"),
        (
            ~_among(outcome, _POINTWISE_OUTCOMES),
            f"`outcome` must be one of {', '.join(_POINTWISE_OUTCOMES)} for pointwise items",
        ),
        (cells["replicate"] < 0, "`replicate` must be 0, 1, …"),
        *_single_rules(cells),
        (cells["better"] != "", "`better` must be empty for pointwise items"),
        (cells["partner"] != "", "`partner` must be empty for pointwise items"),
        (
            ~_among(cells["label_source"], ("", *LABEL_SOURCES)),
            f"`label_source` must be empty or one of {', '.join(LABEL_SOURCES)}",
        ),
        (
            ~_among(cells["labels"], filter(_tells_labels, set(cells["labels"]))),
            '`labels` must be empty or JSON such as {"answers": ["no", "yes"]}, with "ordinal": true for a scale',
        ),
        (verdict & (cells["answer"] == ""), "`answer` must not be empty where `outcome` is verdict"),
        (~verdict & (cells["answer"] != ""), "`answer` must be empty unless `outcome` is verdict"),
    ]


def _tells_labels(cell: str) -> bool:
    try:
        return cell == "" or bool(read_labels_cell(cell))
    except ValueError:
        return False


def _single_rules(cells: _Cells) -> _Rules:
    single, delta = _among(cells["condition"], SINGLE_CONDITIONS), cells["delta"]
    vacuum = _among(cells["condition"], SINGLE_VACUUM)
    return [
        ((~single | vacuum) & ~np.isnan(delta), "`delta` must be empty for pointwise items"),
        (single & ~vacuum & ~(delta >= 0), "`delta` must be the level, 0 or more, of a single response that has one"),
        (single & (cells["expected"] != ""), "`expected` must be empty for single responses of known level"),
    ]


def _check_points(cells: _Cells) -> None:
    for broken, rule in _point_rules(cells):
        _check_rule(cells, broken, rule)
    twice = _repeated(cells, ("suite_item", "replicate"))
    _check_rule(cells, twice, "A call is item x replicate", "record(s) repeat one")
    _check_constant(cells, ("task", "condition", "expected", "delta", *OPTIONAL_COLUMNS))


def _check_pairs(cells: _Cells) -> None:
    _check_conditions(cells["condition"])
    for broken, rule in _pair_rules(cells):
        _check_rule(cells, broken, rule)
    twice = _repeated(cells, ("suite_item", "replicate", "order"))
    _check_rule(cells, twice, "A call is item x order x replicate", "record(s) repeat one")
    _, pairs, orders = np.unique(_codes(cells, ("suite_item", "replicate")), return_inverse=True, return_counts=True)
    alone = orders[pairs] < 2
    marked = cells["partner"] == UNASKED
    _check_rule(cells, alone & ~marked, "A pair needs both presentation orders", "have one only")
    _check_rule(cells, marked & ~alone, "`partner` says that the other order was not asked", "have both")
    _check_constant(cells, ("task", "condition", "better", "delta"))


def _rows(cells: _Cells, columns: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(cells[column].tolist() for column in columns), strict=True)


def _codes(cells: _Cells, columns: Iterable[str]) -> Codes:
    """Number the records so that those, and only those, with the same cells share a number."""
    codes: Codes = np.zeros(len(cells["suite_item"]), dtype=np.int64)
    for column in columns:
        own, kinds = pd.factorize(cells[column])
        codes = codes * len(kinds) + own
    return codes


def _repeated(cells: _Cells, columns: Iterable[str]) -> Mask:
    """Mark the records that an earlier one has the same key as."""
    repeated = np.ones(len(cells["suite_item"]), dtype=bool)
    repeated[np.unique(_codes(cells, columns), return_index=True)[1]] = False
    return repeated


def _check_constant(cells: _Cells, columns: Iterable[str]) -> None:
    """One item, one meaning: all its calls must agree on what it is."""
    # A number that is not there does not equal itself; its code does.
    cells = {**cells, "delta": pd.factorize(cells["delta"], use_na_sentinel=False)[0]}
    if len(set(_rows(cells, ("suite_item", *columns)))) == len(set(cells["suite_item"].tolist())):
        return
    for column in columns:
        n_values = Counter(item for item, _ in set(_rows(cells, ("suite_item", column))))
        if max(n_values.values()) > 1:
            changing = np.array([n_values[item] > 1 for item in cells["suite_item"]])
            raise CallsError(f"One item has several values of `{column}`{_where(cells, changing)}.")


def _where(cells: _Cells | pd.DataFrame, broken: Mask) -> str:
    ids = list(dict.fromkeys(map(str, np.asarray(cells["suite_item"], dtype=object)[broken])))
    return f" (items {', '.join(ids[:5])}{', …' if len(ids) > 5 else ''})"


def choice(*, order: str, outcome: str, answer: str) -> str:
    """Return what a call chose: the content that stood in the slot, the label, or the outcome when it is no verdict.

    Empty where the call has no usable answer.

    Example:
        >>> choice(order="vu", outcome="verdict", answer="1"), choice(order="uv", outcome="tie", answer="")
        ('v', 'tie')
    """
    if outcome != "verdict":
        return outcome if outcome in USABLE else ""
    if order == "":
        return answer
    # Order uv puts u in slot 1; order vu puts it in slot 2.
    return "u" if (answer == "1") == (order == "uv") else "v"


def choice_of(call: CallRecord) -> str:
    """Return the `choice` of a call."""
    return choice(order=call.order, outcome=call.outcome, answer=call.answer)


def choices(frame: pd.DataFrame) -> Texts:
    """Return what each of normalised records chose."""
    cells = [frame[name].tolist() for name in ("order", "outcome", "answer")]
    # Few of them differ: a table is read as fast as arrays are compared.
    kinds = set(zip(*cells, strict=True))
    known = {row: plain_label(choice(order=row[0], outcome=row[1], answer=row[2])) for row in kinds}
    return np.array([known[row] for row in zip(*cells, strict=True)], dtype=object)


def presentations(item: Codes, order: Texts, condition: Texts) -> Codes:
    """Code what each call showed: item × order, whatever the replicate.

    Both orders of a pair with nothing to judge are the same prompt: one presentation.
    """
    turned = (order == "vu") & ~np.isin(condition, VACUUM)
    codes: Codes = 2 * item + turned
    return codes


@dataclass(frozen=True, kw_only=True, slots=True)
class CallTable(ParallelArrays):
    """Calls as parallel arrays."""

    condition: Texts
    delta: Array
    outcome: Texts
    choice: Texts
    """W: `u`, `v`, the label, `tie` or `abstain`; empty where the call has no usable answer."""
    better: Texts
    item: Codes
    pair: Codes
    """Code of (item, replicate)."""
    order: Texts
    task: Codes
    row: Codes
    """Place of the call among the records."""
    n_tasks: int
    max_excluded: float

    @property
    def seen(self) -> tuple[Texts, ...]:
        """What an axis of calls counts by: the choice, and the better content."""
        return self.choice, self.better

    @property
    def presentation(self) -> Codes:
        """What each call showed: calls that share one are replicates."""
        return presentations(self.item, self.order, self.condition)

    @property
    def usable(self) -> Mask:
        """Calls that are an answer."""
        return np.asarray(self.choice != "")

    def units(self, what: str) -> Units:
        """Return these calls as a denominator."""
        return Units(
            what=what,
            unit="call",
            usable=self.usable,
            clusters=self.task,
            n_codes=self.n_tasks,
            left_out=left_out_counts(self.outcome[~self.usable]),
            max_excluded=self.max_excluded,
            presentations=self.presentation,
            members=(np.arange(len(self.row)), self.row),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PairTable:
    """Canonical pairs with what was chosen in either order."""

    calls: CallTable
    rows: Codes
    """Pairs × 2: rows of the calls in order uv and in order vu."""

    @property
    def seen(self) -> tuple[Texts, ...]:
        """What an axis of pairs counts by: the choices in order uv and in order vu, and the better content."""
        uv, vu = self.calls.choice[self.rows].T
        return uv, vu, self.calls.better[self.rows[:, 0]]

    def units(self, what: str) -> Units:
        """Return these pairs as a denominator, which a pair with an unusable call leaves whole."""
        calls = self.calls.units(what)
        usable = np.asarray(calls.usable[self.rows].all(axis=1))
        first = self.rows[:, 0]
        return replace(
            calls,
            unit="pair",
            usable=usable,
            clusters=calls.clusters[first],
            n_calls=self.rows.size,
            presentations=self.calls.item[first],
            members=(np.repeat(np.arange(len(self.rows)), 2), self.calls.row[self.rows.ravel()]),
        )


def completions(table: CallTable | PairTable) -> Iterator[tuple[Texts, ...]]:
    """Yield `table.seen` with every lost choice made up, in all the ways in which the calls of a unit could have ended.

    Units are made up all alike: no unit's calls are another's, so that is every unit in each of its ways.
    """
    *chosen, better = table.seen
    if not any((known == "").any() for known in chosen):
        yield table.seen
        return
    for made_up in product(PAIR_CHOICES, repeat=len(chosen)):
        yield (*(np.where(known == "", choice, known) for known, choice in zip(chosen, made_up, strict=True)), better)


def call_table(frame: pd.DataFrame, *, max_excluded: float = MAX_EXCLUDED) -> CallTable:
    """Read normalised records into arrays."""
    # Codes follow the names and not the rows: the same calls in another order read the same.
    tasks = pd.factorize(frame["task"], sort=True)
    items, replicate = pd.factorize(frame["suite_item"], sort=True)[0], frame["replicate"].to_numpy(np.intp)
    # By their first call, in the order of the rows.
    pairs = pd.factorize(items * (replicate.max(initial=0) + 1) + replicate)[0]
    return CallTable(
        condition=frame["condition"].to_numpy(object),
        delta=frame["delta"].to_numpy(float),
        outcome=frame["outcome"].to_numpy(object),
        choice=choices(frame),
        better=frame["better"].to_numpy(object),
        item=items,
        pair=pairs,
        order=frame["order"].to_numpy(object),
        task=tasks[0],
        row=np.arange(len(frame)),
        n_tasks=len(tasks[1]),
        max_excluded=max_excluded,
    )


def pair_table(calls: CallTable) -> PairTable:
    """Lay both orders of each pair side by side; a call whose partner was not asked is no pair."""
    # A run that was stopped leaves pairs with one order; they count for axes of calls only.
    n_calls = np.bincount(calls.pair)
    calls = calls.where(n_calls[calls.pair] == 2) if (n_calls == 1).any() else calls
    # The last key of `lexsort` is the first to sort by: two rows in turn are one pair.
    return PairTable(calls=calls, rows=np.lexsort((calls.order == "vu", calls.pair)).reshape(-1, 2))


# --- Who really answered: the models and systems that the responses name, with counts

_MOST, _LONGEST = 10, 80
"""Answerers that a text names, and characters of a name: a hostile server may send another one with each call."""
_UNUSUAL = re.compile(r"[^\w.:/@+-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Answerer:
    """One model, as it calls itself."""

    model: str
    system_fingerprint: str | None
    """What the provider says of the system behind it, where it says it."""
    calls: int

    @property
    def name(self) -> str:
        """The model, with the system behind it."""
        return f"{self.model} ({self.system_fingerprint})" if self.system_fingerprint else self.model


def answerers(calls: pd.DataFrame) -> list[Answerer]:
    """Return who answered, the most frequent first; a call that failed was answered by nobody."""
    systems = calls["system_fingerprint"] if "system_fingerprint" in calls else [None] * len(calls)
    answers = zip(calls["outcome"].tolist(), calls["model"].tolist(), list(systems), strict=True)
    counts = Counter[tuple[str, str | None]]()
    # Each pair of names is cleaned once, however many calls it answered.
    for (model, system), n in Counter(
        (model, system) for outcome, model, system in answers if outcome != "error"
    ).items():
        counts[_plain(model) or "unnamed", _plain(system)] += n
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0][0], entry[0][1] or ""))
    return [Answerer(model=model, system_fingerprint=system, calls=n) for (model, system), n in ranked]


def answered_by_text(answering: Sequence[Answerer]) -> str:
    """Name everybody in one line.

    Example:
        >>> answered_by_text([Answerer(model="gpt-4o-mini-2024-07-18", system_fingerprint="fp_ab12", calls=400)])
        'gpt-4o-mini-2024-07-18 (fp_ab12): 400'
    """
    shown = [f"{answerer.name}: {answerer.calls}" for answerer in answering[:_MOST]]
    others = answering[_MOST:]
    return ", ".join(
        [*shown, f"{len(others)} others: {sum(answerer.calls for answerer in others)}"] if others else shown
    )


def are_several(answering: Sequence[Answerer]) -> bool:
    """Whether more than one model or system answered; a system that is not named may be the one that is."""
    # Some responses of one system name it and some do not.
    systems = {answerer.system_fingerprint for answerer in answering} - {None}
    return len({answerer.model for answerer in answering}) > 1 or len(systems) > 1


# --- How old the answers are: those that the journal had, and the days on which they were asked for

OLD_DAYS = 7
"""Answers of the journal that are older come with the way to ask again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalAnswers:
    """Answers of a run that the journal had."""

    n: int
    calls: int
    """Of the run."""
    first: pd.Timestamp | None
    """When the oldest was asked for; None where the records do not tell."""
    last: pd.Timestamp | None
    undated: int

    @property
    def text(self) -> str:
        """How many there are, and of which days: `112 of 128 answers came from the journal, asked 2026-10-12`."""
        counted = f"{self.n:,} of {self.calls:,} answers came from the journal"
        if self.first is None or self.last is None:
            return f"{counted}, of unknown date"
        days = dict.fromkeys(f"{moment:%Y-%m-%d}" for moment in (self.first, self.last))
        undated = f"; {self.undated:,} are of unknown date" if self.undated else ""
        return f"{counted}, asked {' to '.join(days)}{undated}"

    def days_before(self, moment: float) -> float | None:
        """Return how many days before a moment (seconds since 1970) the oldest was asked for."""
        return None if self.first is None else max(0.0, (moment - self.first.timestamp()) / 86_400)

    def old_note(self, days: float | None) -> str:
        """Say how to ask again where the oldest was `days` old when the run was made; nothing where it was not old."""
        if days is None or self.first is None or days <= OLD_DAYS:
            return ""
        # The journal passes over what is older than that day, so that of all days before the run nothing is left.
        today = self.first + pd.Timedelta(days=days)
        again = f"--fresh-after {today:%Y-%m-%d} (`fresh_after=` in Python) asks again"
        return f"{self.text}. The oldest is {days:.0f} days old: {again}."


def journal_answers(calls: pd.DataFrame) -> JournalAnswers | None:
    """Return what a run took from the journal; None where that is nothing."""
    is_cached = calls["cached"].astype(bool) if "cached" in calls else None
    if is_cached is None or not is_cached.any():
        return None
    cached = calls[is_cached]
    given = cached["asked_at"] if "asked_at" in cached else pd.Series(None, index=cached.index, dtype=object)
    dates = pd.to_datetime(given, utc=True).dropna()
    return JournalAnswers(
        n=len(cached),
        calls=len(calls),
        first=None if dates.empty else dates.min(),
        last=None if dates.empty else dates.max(),
        undated=len(cached) - len(dates),
    )


def _plain(name: object) -> str | None:
    """Return a name from a server as it may stand in params, Markdown and pages."""
    if not isinstance(name, str):
        return None
    # Cut before it is cleaned: a hostile name may have megabytes.
    text = _UNUSUAL.sub("?", name.strip()[: 4 * _LONGEST])
    return (text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…") or None
