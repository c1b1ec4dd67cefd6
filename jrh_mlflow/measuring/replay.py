"""`jrh replay`: recorded judgments, of a run, of a file of call records or of another tool, measured with no call.

A mapping says which column, or field of nested JSON (`result.verdict.0`), plays which role:

| role | what the column holds |
|---|---|
| item | id of the pair or response; several columns are joined with `+` |
| judge | name of the judge; one run per judge |
| task | cluster of the intervals (the item when not mapped) |
| better | which content is known to be better |
| uv, vu | wide tables: the answer in each presentation order |
| order, answer, outcome | long tables: one row per call |
| answer, expected, outcome | single responses: the label or score that was given, and the right one |
| group | category of the item, by which single responses are reported too |
| condition, delta, replicate, rationale, cost_usd, input_tokens, output_tokens, … | as in call records |
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from jrh_mlflow.errors import CallsError, RecipeError, suggest
from jrh_mlflow.measures.records import CALL_KEY, CALL_MEANING, is_pointwise, normalise
from jrh_mlflow.measuring.evaluate import checked_metric
from jrh_mlflow.measuring.evaluation import Evaluation, log_measured
from jrh_mlflow.measuring.measured import JudgeFacts, Measured
from jrh_mlflow.measuring.resolve import load_suite
from jrh_mlflow.options import Metrics, checked_metrics
from jrh_mlflow.outputs import remove_guard
from jrh_mlflow.schema.items import (
    BASELINE,
    NATURAL,
    NATURAL_TIE,
    OPTIONAL_COLUMNS,
    OUTCOMES,
    PROTOCOL,
    REQUIRED_COLUMNS,
    SEEN,
    Answers,
    CallRecord,
    Item,
    is_scale,
    labels_cell,
)
from jrh_mlflow.schema.label_words import label_key
from jrh_mlflow.scoring.pointwise import scale_of, told_labels
from jrh_mlflow.show.results import check_definitions
from jrh_mlflow.suites import Suite
from jrh_mlflow.suites.dataset import DatasetTable as Table
from jrh_mlflow.suites.dataset import is_missing, present, read_table
from jrh_mlflow.suites.labels import GivenLabels, read_labels
from jrh_mlflow.suites.spreadsheets import split_sheet
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import load_runs
from jrh_mlflow.tracking.runs.store import Store

logger = logging.getLogger("jrh_mlflow")

_WIDE = ("uv", "vu")
_LONG = ("order", "answer")
_SINGLE = ("answer", "expected")
_NUMBERS: dict[str, Callable[[str], float]] = {
    **{"cost_usd": float, "latency_s": float, "confidence": float},
    # Spreadsheets write whole numbers as 12.0, which `int` refuses.
    **{"input_tokens": lambda text: int(float(text)), "output_tokens": lambda text: int(float(text))},
}
_AS_RECORDED = ("outcome", "condition", "delta", "replicate", "rationale", "raw", *_NUMBERS)
ROLES = ("item", "judge", "task", "better", *_WIDE, *_LONG, "expected", "group", *_AS_RECORDED)
_IN_META = tuple(name for name in OPTIONAL_COLUMNS if name in CALL_MEANING)
GROUP = "group"
"""A column beside those of call records: the category of the item."""
RUN = "runs:/"
_SAY_LABELS = "Say what may be answered, low to high, the label to be detected last: --labels no,yes or --scale 1-6"

_OTHERWISE = "--labels (the last one the better or the one to be detected) or --scale says otherwise"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mapped:
    """How to read another tool's table."""

    columns: Mapping[str, str]
    """Role to column (or columns joined with `+`), or to a dotted path into nested JSON."""
    winner: str = "content"
    """What the answers name: `content` (u or v whatever the order) or `slot` (first or second shown)."""
    first: str = "1"
    """How the table spells the first content or slot."""
    second: str = "2"
    tie: tuple[str, ...] = ("tie",)
    condition: str | None = None
    """Condition of every row when no column is mapped to it; None: `natural` of pairs, `baseline` of responses."""
    orders: Mapping[str, str] = field(default_factory=lambda: {"uv": "uv", "vu": "vu"})
    """How a long table spells the presentation orders."""

    @property
    def of_pairs(self) -> bool:
        """Whether two contents stood before the judge."""
        return not self.columns.keys() >= set(_SINGLE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """Judgments of one judge, before they are measured."""

    judge: str
    calls: pd.DataFrame
    suite: Suite
    source: str
    simulated: bool = False
    truncated: str | None = None
    seed: int = 0
    metric: str | None = None
    definitions: str = PROTOCOL
    """What stands for labelled tests, where that is not accuracy."""


def replay(
    calls: str | Path | pd.DataFrame,
    *,
    suite: Suite | str | Path | None = None,
    judge: str | None = None,
    columns: Mapping[str, str] | None = None,
    winner: str = "content",
    first: str = "1",
    second: str = "2",
    tie: Sequence[str] = ("tie",),
    orders: tuple[str, str] = ("uv", "vu"),
    condition: str | None = None,
    labels: GivenLabels = None,
    scale: GivenLabels = None,
    experiment: str | None = None,
    tracking_uri: str | None = None,
    seed: int | None = None,
    metrics: Metrics = "headline",
    texts: bool = True,
    metric: str | None = None,
    definitions: str | None = None,
) -> Evaluation:
    """Measure recorded judgments with no model call and log them as one run.

    Args:
        calls: `runs:/<id>` of an evaluation, or a table: a data frame, or a file (Parquet, CSV, JSON or `.xlsx`).
            Without `columns` it must hold call records already, as in `calls/calls.parquet` and `Evaluation.calls`.
        suite: The suite that was judged, where it is known: its labels and categories come along. A run has its own.
        judge: Which judge, where the table holds several.
        columns: Role to column of another tool's table, or to a dotted path into nested JSON; columns joined with `+`
            make one value. The module's table has the roles.
        winner: What the answers name: `content` (the response, whatever the order) or `slot` (first or second shown).
        first: How the table spells the first content or slot.
        second: How it spells the second.
        tie: How it spells a tie.
        orders: How a long table spells the order in which the first content is shown first, and the other.
        condition: Of every row, where no column has it; None: `natural` of pairs, `baseline` of responses.
        labels: What a judge of single responses may answer, the better label or the one to be detected last. Without
            `labels`, `scale` and `suite` the records tell in their column `labels`, or it is guessed, with a note.
        scale: `(low, high)` of whole numbers, or three or more levels from low to high.
        experiment: As for `evaluate`.
        tracking_uri: As for `evaluate`.
        seed: As for `evaluate`; that of the run which is replayed, or 0, when None.
        metrics: As for `evaluate`.
        texts: False: MLflow gets hashes of rationales and raw answers, and no column of the file that is none of a
            call's.
        metric: As for `evaluate`; that of the run which is replayed, or accuracy, when None.
        definitions: As for `evaluate`; those of the run which is replayed, or the protocol's, when None.

    Raises:
        RecipeError: for a role, column, file or judge that is not there, and for a table of several judges.
        CallsError: for records that break a rule of the protocol, are not of the suite, or do not tell the labels.
    """
    shown = dict(zip(_WIDE, orders, strict=True))
    spelled: dict[str, Any] = {"winner": winner, "first": first, "second": second, "tie": tuple(tie), "orders": shown}

    def only(recorded: list[Recorded]) -> list[Recorded]:
        names = [judged.judge for judged in recorded]
        chosen = [judged for judged in recorded if judge in (None, judged.judge)]
        if len(chosen) != 1:
            raise RecipeError(f"`judge` must be one of {', '.join(map(repr, names))}, but is {judge!r}.")
        return chosen

    (evaluation,) = replay_each(
        calls,
        None if columns is None else Mapped(columns=columns, condition=condition, **spelled),
        choose=only,
        suite=suite,
        labels=labels,
        scale=scale,
        experiment=experiment,
        tracking_uri=tracking_uri,
        seed=seed,
        metrics=metrics,
        texts=texts,
        metric=metric,
        definitions=definitions,
    )
    return evaluation


def replay_each(
    file: str | Path | pd.DataFrame,
    mapping: Mapped | None = None,
    *,
    choose: Callable[[list[Recorded]], list[Recorded]] = list,
    suite: Suite | str | Path | None = None,
    labels: GivenLabels = None,
    scale: GivenLabels = None,
    experiment: str | None = None,
    tracking_uri: str | None = None,
    seed: int | None = None,
    metrics: Metrics = "headline",
    texts: bool = True,
    metric: str | None = None,
    definitions: str | None = None,
) -> list[Evaluation]:
    """Measure recorded judgments and log one run per judge; see `replay`."""
    chosen = checked_metrics(metrics)
    if not isinstance(file, pd.DataFrame) and str(file).startswith(RUN):
        if mapping is not None or suite is not None or labels is not None or scale is not None:
            raise RecipeError("A run brings its suite and labels along: replay it without a mapping, suite or labels.")
        recorded = [_of_run(str(file), tracking_uri)]
    else:
        path = Path("calls") if isinstance(file, pd.DataFrame) else split_sheet(Path(file))[0]
        frame = file if isinstance(file, pd.DataFrame) else read_table(file)
        records = _by_judge(frame, path, mapping, labels=labels, scale=scale)
        if suite is not None and not isinstance(suite, Suite):
            suite = load_suite(suite, tracking_uri=tracking_uri)
        recorded = _with_suite(records, path, suite, labels=labels, scale=scale)
    recorded = choose(recorded)
    # After everything was read: a file that is wrong is known without a store.
    store = Store(tracking_uri, experiment)
    recorded = [
        replace(
            judged,
            metric=checked_metric(metric or judged.metric, judged.suite),
            definitions=definitions or judged.definitions,
        )
        for judged in recorded
    ]
    for judged in recorded:
        check_definitions(judged.definitions, judged.metric)
    return [_log(store, judged, seed=seed, metrics=chosen, texts=texts) for judged in recorded]


def _of_run(uri: str, tracking_uri: str | None) -> Recorded:
    (run,) = load_runs([uri], tracking_uri=tracking_uri)
    return Recorded(
        # The label says it again, of the new run.
        judge=run.judge.removesuffix(" (simulated)"),
        calls=_checked(run.calls),
        suite=run.suite,
        source=f"{RUN}{run.run_id}",
        simulated=run.simulated,
        truncated=run.truncated,
        seed=int(run.params.get(keys.PARAM_SEED, 0)),
        metric=run.params.get(keys.PARAM_METRIC),
        definitions=run.params.get(keys.PARAM_DEFINITIONS, PROTOCOL),
    )


def _by_judge(
    frame: pd.DataFrame,
    path: Path,
    mapping: Mapped | None,
    *,
    labels: GivenLabels,
    scale: GivenLabels,
) -> dict[str, pd.DataFrame]:
    if mapping is None:
        by_judge = _own_records(frame, path)
    else:
        by_judge = _mapped_records(Table(frame), mapping, labels=labels, scale=scale)
    return {judge: _checked(records) for judge, records in by_judge.items()}


def _checked(records: pd.DataFrame) -> pd.DataFrame:
    """Return records in one form, with a column that is only there where it is filled left out where it is not."""
    calls = normalise(records)
    filled: pd.DataFrame = calls.drop(columns=[name for name in OPTIONAL_COLUMNS if (calls[name] == "").all()])
    return filled


def _own_records(frame: pd.DataFrame, path: Path) -> dict[str, pd.DataFrame]:
    missing = [column for column in REQUIRED_COLUMNS if column not in frame.columns]
    if missing:
        raise CallsError(
            f"{path.name} lacks the column(s) {', '.join(missing)} of call records. "
            f"Columns there are: {', '.join(map(str, frame.columns))}. Say which is which with --map."
        )
    # Tables that we write as CSV have a mark before cells that a spreadsheet would run as formulas.
    if ".csv" in path.suffixes:
        frame = frame.map(remove_guard)
    frame = _typed(frame)
    if "judge" in frame.columns:
        # pandas drops rows without a judge unless it is told not to.
        return {str(name) or path.stem: group for name, group in frame.groupby("judge", sort=False, dropna=False)}
    models = list(frame["model"].dropna().unique()) if "model" in frame.columns else []
    # One judge may be answered by several models, and a failed call by none: only calls made twice are of two judges.
    if len(models) > 1 and frame.duplicated(CALL_KEY).any():
        return {str(name): group for name, group in frame.groupby("model", sort=False)}
    return {str(models[0]) if len(models) == 1 else path.stem: frame}


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return call records with numbers and booleans where the file could only hold text."""
    frame = frame.copy()
    for known in fields(CallRecord):
        if known.name in REQUIRED_COLUMNS or known.name not in frame.columns:
            continue
        cells = frame[known.name].astype(object).map(lambda cell: None if is_missing(cell) else cell)
        if known.type == "bool":
            # `bool` of the text "False" is True.
            frame[known.name] = [str(cell).casefold() in ("true", "1", "1.0") for cell in cells]
        elif str(known.type).startswith(("float", "int")):
            frame[known.name] = _numbers(cells, known.name)
        else:
            frame[known.name] = cells
    return frame


def _numbers(cells: pd.Series[Any], name: str) -> pd.Series[Any]:
    try:
        return pd.to_numeric(cells)
    except (TypeError, ValueError) as error:
        raise CallsError(f"Column {name!r} must hold numbers: {error}.") from error


def _mapped_records(
    table: Table, mapping: Mapped, *, labels: GivenLabels, scale: GivenLabels
) -> dict[str, pd.DataFrame]:
    _check_mapping(table, mapping)
    columns = {role: _joined(table, names) for role, names in mapping.columns.items()}
    read = _pair_records if mapping.of_pairs else _single_reader(table, mapping, labels=labels, scale=scale)
    records: dict[str, list[dict[str, object]]] = {}
    for cells in zip(*columns.values(), strict=True):
        row = dict(zip(columns, cells, strict=True))
        own = [_as_row(record, row) for record in read(row, mapping)]
        records.setdefault(row.get("judge") or "recorded judge", []).extend(own)
    return {judge: pd.DataFrame(rows) for judge, rows in records.items()}


def _as_row(record: CallRecord, row: Mapping[str, str]) -> dict[str, object]:
    plain_record = {known.name: getattr(record, known.name) for known in fields(record)}
    return plain_record | ({GROUP: row[GROUP] or None} if GROUP in row else {})


def _check_mapping(table: Table, mapping: Mapped) -> None:
    for role, columns in mapping.columns.items():
        if role not in ROLES:
            raise RecipeError(f"Unknown role {role!r} in the mapping.{suggest(role, ROLES)} Known: {', '.join(ROLES)}.")
        for column in columns.split("+"):
            if column not in table:
                raise RecipeError(f"There is no column {column!r}.{present(table, column)}")
    given = mapping.columns.keys()
    shapes = [roles for roles in (_WIDE, _LONG, _SINGLE) if given >= set(roles)]
    if "item" not in given or len(shapes) != 1:
        raise RecipeError(
            "A mapping needs `item`, and either `uv` and `vu` (pairs, wide), `order` and `answer` (pairs, long), "
            "or `answer` and `expected` (single responses)."
        )
    if not mapping.of_pairs and given & {"better", "order", *_WIDE}:
        raise RecipeError("`expected` is of single responses: pairs say with `better` which content is right.")
    if mapping.winner not in ("content", "slot"):
        raise RecipeError(f"`winner` must be content or slot, but got {mapping.winner!r}.")


def _joined(table: Table, columns: str) -> list[str]:
    parts = [[_text(cell) for cell in table.cells(column)] for column in columns.split("+")]
    return ["/".join(cells) for cells in zip(*parts, strict=True)]


def _text(value: object) -> str:
    """Spell a cell: empty is "", whole numbers lose their point (1.0 is 1)."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    text = str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return text
    # Beyond that a float no longer holds every whole number, and an id would change.
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 and "." in text else text


Reader = Callable[[Mapping[str, str], Mapped], Iterator[CallRecord]]
"""From the roles of one row to its calls."""


def _pair_records(row: Mapping[str, str], mapping: Mapped) -> Iterator[CallRecord]:
    if "uv" in row:
        for order in _WIDE:
            yield _pair_record(row, mapping, order=order, word=row[order])
        return
    spelled = {spelling: order for order, spelling in mapping.orders.items()}
    yield _pair_record(row, mapping, order=spelled.get(row["order"], row["order"]), word=row["answer"])


def _pair_record(row: Mapping[str, str], mapping: Mapped, *, order: str, word: str) -> CallRecord:
    outcome, answer = _outcome(word, mapping, order=order, stated=_stated(row))
    ties, record = dict.fromkeys(mapping.tie, ""), _record(row, mapping, outcome=outcome, answer=answer, word=word)
    better = {**ties, mapping.first: "u", mapping.second: "v", "": ""}.get(row.get("better", ""))
    if better is None:
        known = ", ".join(map(repr, (mapping.first, mapping.second, *ties)))
        raise CallsError(f"Item {row['item']!r}: `better` must be one of {known}, but is {row['better']!r}.")
    # What people call equal is asked about apart from what has a better side.
    is_tie = row.get("better") in ties and record.condition == NATURAL
    return replace(record, order=order, better=better, condition=NATURAL_TIE if is_tie else record.condition)


def _record(row: Mapping[str, str], mapping: Mapped, *, outcome: str, answer: str, word: str) -> CallRecord:
    usual = NATURAL if mapping.of_pairs else BASELINE
    numbers: dict[str, Any] = {name: _number(row, name, kind) for name, kind in _NUMBERS.items()}
    return CallRecord(
        suite_item=row["item"],
        # Without a task every item is a cluster of its own.
        task=row.get("task") or row["item"],
        condition=row.get("condition") or mapping.condition or usual,
        delta=_number(row, "delta", float),
        order="",
        better="",
        replicate=int(_number(row, "replicate", float) or 0),
        outcome=outcome,
        answer=answer,
        expected="",
        rationale=row.get("rationale"),
        raw=row.get("raw") or None,
        error=f"not an answer: {word!r}" if outcome == "unparsed" else None,
        **numbers,
    )


def _number(row: Mapping[str, str], role: str, kind: Callable[[str], float]) -> float | None:
    text = row.get(role, "")
    try:
        return kind(text) if text else None
    except ValueError:
        raise CallsError(f"Item {row['item']!r}: `{role}` must be a number, but is {text!r}.") from None


def _stated(row: Mapping[str, str]) -> str:
    """Return the outcome that a table states itself, or an empty text.

    Raises:
        CallsError: for a word that is no outcome; taking it for an answer could make a verdict of a failure.
    """
    word = row.get("outcome", "").casefold()
    if word and word not in OUTCOMES:
        known = f"must be one of {', '.join(OUTCOMES)} or empty"
        raise CallsError(f"Item {row['item']!r}: `outcome` {known}, but is {word!r}.{suggest(word, OUTCOMES)}")
    return word


def _outcome(given: str, mapping: Mapped, *, order: str, stated: str) -> tuple[str, str]:
    """Read an answer strictly: a known spelling or `unparsed`; an outcome stated by the table is taken at its word."""
    word = given.casefold()
    if stated not in ("", "verdict"):
        return stated, ""
    if word in (tie.casefold() for tie in mapping.tie):
        return "tie", ""
    if word not in (mapping.first.casefold(), mapping.second.casefold()):
        return "unparsed", ""
    named_first = word == mapping.first.casefold()
    # In order vu the content u stands in the second slot: there a name of a content is the other slot.
    as_shown = mapping.winner == "slot" or order == "uv"
    return "verdict", "1" if named_first == as_shown else "2"


def _single_reader(table: Table, mapping: Mapped, *, labels: GivenLabels, scale: GivenLabels) -> Reader:
    """Return how rows of single responses are read: what is no label is `unparsed` where the labels were given."""
    column = mapping.columns["expected"]
    cells = [cell for cell in table.cells(column) if not is_missing(cell)]
    if not cells and labels is None and scale is None:
        raise CallsError(f"Column {column!r} is empty. {_SAY_LABELS}.")
    given = labels is not None or scale is not None
    # Without a cell to read there are the labels that were given.
    expected = read_labels(cells or list(labels or scale or ()), column=column, ids=None, labels=labels, scale=scale)[1]
    spelled = {label_key(answer): answer for answer in expected.answers}

    def read(row: Mapping[str, str], mapping: Mapped) -> Iterator[CallRecord]:
        stated, word = _stated(row), row["answer"]
        answer = spelled.get(label_key(word), "")
        if word and not answer and not given and stated in ("", "verdict"):
            raise CallsError(
                f"Item {row['item']!r} was answered with {word!r}, which is none of the expected "
                f"{', '.join(expected.answers)}. {_SAY_LABELS}; what is none of them is then no answer."
            )
        outcome = stated if stated not in ("", "verdict") else "verdict" if answer else "unparsed"
        record = _record(row, mapping, outcome=outcome, answer=answer if outcome == "verdict" else "", word=word)
        yield replace(record, expected=spelled[label_key(row["expected"])] if row["expected"] else "")

    return read


def _with_suite(
    records: Mapping[str, pd.DataFrame],
    path: Path,
    suite: Suite | None,
    *,
    labels: GivenLabels,
    scale: GivenLabels,
) -> list[Recorded]:
    # Of all judges together: one that never gave a label may give it all the same.
    answers = None if suite is not None else _answers(pd.concat(records.values()), labels=labels, scale=scale)
    recorded = []
    for judge, calls in records.items():
        if suite is not None:
            _check_of_suite(calls, suite)
        elif answers is not None and not answers.seen:
            # What later readers find in the records is what these were measured with.
            calls["labels"] = labels_cell(tuple(answers), answers.ordinal)
        own = suite or recorded_suite(calls, name=path.stem, labels=answers)
        recorded.append(Recorded(judge=judge, calls=calls, suite=own, source=path.name))
    return recorded


def _answers(calls: pd.DataFrame, *, labels: GivenLabels, scale: GivenLabels) -> Answers | None:
    """Return what may be answered, as given, as the records tell or as it seems; None for pairs.

    Raises:
        CallsError: when the records do not tell it, and what was answered does not either.
    """
    given = labels is not None or scale is not None
    if not is_pointwise(calls):
        if given:
            raise RecipeError("Labels and scales are those of single responses, but these records are of pairs.")
        return None
    words = sorted({*calls["answer"], *calls["expected"]} - {""})
    if given:
        stated = read_labels(words or ["1"], column="answer", ids=None, labels=labels, scale=scale)[1]
        return Answers(stated.answers, ordinal=stated.stated_order, meanings=stated.meanings)
    written = told_labels(normalise(calls.drop_duplicates("suite_item")), None)
    known = scale_of(words, written)
    if isinstance(written, Answers):
        return written
    if len(known.labels) < 2 or not known.ordered:
        which = "whose order is not known" if len(known.labels) > 1 else "are not enough to tell"
        raise CallsError(f"The labels {', '.join(map(repr, known.labels)) or '(none)'} {which}. {_SAY_LABELS}.")
    logger.warning("%s", _guessed(known.labels))
    # Of two labels there are no more; a scale may have levels that nobody gave.
    return Answers(known.labels, seen=len(known.labels) > 2)


def _guessed(labels: tuple[str, ...]) -> str:
    if is_scale(labels):
        what = f"a scale from {labels[0]} to {labels[-1]}, of which there may be lower and higher levels"
    else:
        what = f"labels, {labels[-1]} the better one or the one to be detected"
    return f"The records do not say what may be answered. {', '.join(labels)} are taken for {what}; {_OTHERWISE}."


def _check_of_suite(calls: pd.DataFrame, suite: Suite) -> None:
    """Refuse records of other items than the suite's, or with another meaning."""
    items = {item.id: item for item in suite.items}
    strange = sorted(set(calls["suite_item"]) - set(items))
    if strange:
        near = suggest(strange[0], items)
        raise CallsError(f"{len(strange)} item(s) are not in suite {suite.name!r}, first {strange[0]!r}.{near}")
    for row in normalise(calls).drop_duplicates("suite_item").itertuples(index=False):
        item = items[row.suite_item]
        for column in CALL_MEANING:
            # What is in a table only where it is filled comes from how the item was made.
            ours = item.meta.get(column) if column in _IN_META else getattr(item, column)
            theirs = getattr(row, column)
            if ("" if ours is None else ours) != ("" if pd.isna(theirs) else theirs):
                raise CallsError(f"Item {item.id!r} of suite {suite.name!r} has {column} {ours!r}, not {theirs!r}.")


def _log(store: Store, recorded: Recorded, *, seed: int | None, metrics: Metrics, texts: bool) -> Evaluation:
    facts = JudgeFacts(
        name=recorded.judge,
        simulated=recorded.simulated,
        settings={"model": recorded.judge, "kind": "recorded", "source": recorded.source},
        prompt=f"Recorded judgments, read from {recorded.source}: the prompt is not known here.\n",
    )
    done = Measured(
        judge=facts,
        suite=recorded.suite,
        calls=recorded.calls,
        run={
            "seed": recorded.seed if seed is None else seed,
            **({"metric": recorded.metric} if recorded.metric else {}),
            **({} if recorded.definitions == PROTOCOL else {"definitions": recorded.definitions}),
        },
        seconds=0.0,
        truncated=recorded.truncated,
        metrics=metrics,
    )
    return log_measured(store, done if texts else done.without_texts())


def recorded_suite(calls: pd.DataFrame, *, name: str, labels: Answers | None = None) -> Suite:
    """Build the suite behind recorded judgments: its items without their texts, in the order of their ids.

    Args:
        calls: Normalised records; a column `group` holds categories.
        name: Of the suite.
        labels: What may be answered; None for pairs.
    """
    # By id, so that judges whose rows come in another order have the same suite.
    first = calls.drop_duplicates("suite_item").sort_values("suite_item").to_dict("records")
    items = [_item({str(column): cell for column, cell in row.items()}, labels) for row in first]
    return Suite(name=f"{name} (recorded)", items=items, origin={"builder": "recorded"})


def _item(row: Mapping[str, Any], labels: Answers | None) -> Item:
    meta = {name: str(row[name]) for name in (GROUP, *_IN_META) if not is_missing(row.get(name))}
    item = Item(
        id=row["suite_item"],
        task=row["task"],
        condition=row["condition"],
        delta=None if pd.isna(row["delta"]) else float(row["delta"]),
        better=row["better"] or None,
        meta=meta | ({"labels": SEEN} if labels is not None and labels.seen else {}),
    )
    if labels is None:
        return item
    expected = row["expected"] or None
    return replace(item, kind="response", expected=expected, answers=tuple(labels), ordinal=labels.ordinal)
