"""`jrh replay`: judgments recorded by another tool, measured with no model call.

A mapping says which column plays which role. Roles:

| role | what the column holds |
|---|---|
| item | id of the pair; several columns are joined with `+` |
| judge | name of the judge; one run per judge |
| task | cluster of the intervals (the item when not mapped) |
| better | which content is known to be better |
| uv, vu | wide tables: the answer in each presentation order |
| order, answer, outcome | long tables: one row per call |
| condition, delta, replicate, rationale, cost_usd, input_tokens, output_tokens | as in call records |
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from jrh_mlflow.engine import calls_frame
from jrh_mlflow.errors import CallsError, RecipeError, suggest
from jrh_mlflow.evaluation.evaluate import Evaluation, log_measured
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.options import Metrics, checked_metrics
from jrh_mlflow.schema.items import NATURAL, REQUIRED_COLUMNS, CallRecord, Item
from jrh_mlflow.suites import Suite
from jrh_mlflow.suites.dataset import read_table
from jrh_mlflow.tracking.outbox import JudgeFacts, Measured
from jrh_mlflow.tracking.store import Store

_WIDE = ("uv", "vu")
_LONG = ("order", "answer")
_AS_RECORDED = ("outcome", "condition", "delta", "replicate", "rationale", "cost_usd", "input_tokens", "output_tokens")
ROLES = ("item", "judge", "task", "better", *_WIDE, *_LONG, *_AS_RECORDED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mapped:
    """How to read another tool's table."""

    columns: Mapping[str, str]
    """Role to column (or columns joined with `+`)."""
    winner: str = "content"
    """What the answers name: `content` (u or v whatever the order) or `slot` (first or second shown)."""
    first: str = "1"
    """How the table spells the first content or slot."""
    second: str = "2"
    tie: tuple[str, ...] = ("tie",)
    condition: str = NATURAL
    """Condition of every row when no column is mapped to it."""
    orders: Mapping[str, str] = field(default_factory=lambda: {"uv": "uv", "vu": "vu"})
    """How a long table spells the presentation orders."""


def replay(
    file: str | Path,
    mapping: Mapped | None = None,
    *,
    experiment: str | None = None,
    tracking_uri: str | None = None,
    seed: int = 0,
    metrics: Metrics = "headline",
    texts: bool = True,
) -> list[Evaluation]:
    """Measure a file of recorded judgments and log one run per judge.

    Without a mapping the file must hold call records already (the columns of `calls/calls.parquet`). With `texts` False
    MLflow gets hashes of rationales and raw answers, and no column of the file that is none of a call's.
    """
    path, chosen = Path(file), checked_metrics(metrics)
    frame = read_table(path)
    by_judge = _own_records(frame, path) if mapping is None else _mapped_records(frame, mapping)
    checked = {judge: normalise(records) for judge, records in by_judge.items()}
    store = Store(tracking_uri, experiment)
    return [_log(store, judge, calls, path, seed=seed, metrics=chosen, texts=texts) for judge, calls in checked.items()]


def _own_records(frame: pd.DataFrame, path: Path) -> dict[str, pd.DataFrame]:
    missing = [column for column in REQUIRED_COLUMNS if column not in frame.columns]
    if missing:
        raise CallsError(
            f"{path.name} lacks the column(s) {', '.join(missing)} of call records. "
            f"Columns there are: {', '.join(map(str, frame.columns))}. Say which is which with --map."
        )
    if "model" not in frame.columns:
        return {path.stem: frame}
    return {str(name) or path.stem: group for name, group in frame.groupby("model", sort=False)}


def _mapped_records(frame: pd.DataFrame, mapping: Mapped) -> dict[str, pd.DataFrame]:
    _check_mapping(frame, mapping)
    roles = {role: _joined(frame, columns) for role, columns in mapping.columns.items()}
    wide = pd.DataFrame(roles).astype(object)
    records: dict[str, list[CallRecord]] = {}
    for row in wide.to_dict("records"):
        judge = str(row.get("judge", "recorded judge"))
        records.setdefault(judge, []).extend(_row_records({str(key): value for key, value in row.items()}, mapping))
    return {judge: calls_frame(rows) for judge, rows in records.items()}


def _check_mapping(frame: pd.DataFrame, mapping: Mapped) -> None:
    for role, columns in mapping.columns.items():
        if role not in ROLES:
            raise RecipeError(f"Unknown role {role!r} in the mapping.{suggest(role, ROLES)} Known: {', '.join(ROLES)}.")
        for column in columns.split("+"):
            if column not in frame.columns:
                present = [str(name) for name in frame.columns]
                raise RecipeError(
                    f"There is no column {column!r}.{suggest(column, present)} Columns there are: {', '.join(present)}."
                )
    wide, long = (mapping.columns.keys() >= set(roles) for roles in (_WIDE, _LONG))
    if "item" not in mapping.columns or wide == long:
        raise RecipeError("A mapping needs `item`, and either `uv` and `vu` (wide) or `order` and `answer` (long).")
    if mapping.winner not in ("content", "slot"):
        raise RecipeError(f"`winner` must be content or slot, but got {mapping.winner!r}.")


def _joined(frame: pd.DataFrame, columns: str) -> pd.Series[Any]:
    parts = [frame[column].map(_text) for column in columns.split("+")]
    joined = parts[0]
    for part in parts[1:]:
        joined = joined + "/" + part
    return joined


def _text(value: object) -> str:
    """Spell a cell: empty is "", whole numbers lose their point (1.0 is 1)."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    text = str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 and "." in text else text


def _row_records(row: Mapping[str, Any], mapping: Mapped) -> Iterator[CallRecord]:
    if "uv" in row:
        for order in _WIDE:
            yield _record(row, mapping, order=order, said=str(row[order]))
        return
    spelled = {spelling: order for order, spelling in mapping.orders.items()}
    order = spelled.get(str(row["order"]), str(row["order"]))
    yield _record(row, mapping, order=order, said=str(row["answer"]))


def _record(row: Mapping[str, Any], mapping: Mapped, *, order: str, said: str) -> CallRecord:
    outcome, answer = _outcome(said, mapping, order=order, stated=str(row.get("outcome", "")))
    better = {mapping.first: "u", mapping.second: "v", "": ""}.get(str(row.get("better", "")))
    if better is None:
        raise CallsError(
            f"Item {row['item']!r}: `better` must be {mapping.first!r} or {mapping.second!r}, but is {row['better']!r}."
        )
    delta = str(row.get("delta", ""))
    return CallRecord(
        suite_item=str(row["item"]),
        task=str(row.get("task") or row["item"]),
        condition=str(row.get("condition") or mapping.condition),
        delta=float(delta) if delta else None,
        order=order,
        better=better,
        replicate=int(row.get("replicate") or 0),
        outcome=outcome,
        answer=answer,
        expected="",
        rationale=row.get("rationale"),
        cost_usd=_optional(row.get("cost_usd"), float),
        input_tokens=_optional(row.get("input_tokens"), int),
        output_tokens=_optional(row.get("output_tokens"), int),
        error=f"not an answer: {said!r}" if outcome == "unparsed" else None,
    )


def _optional(value: object, kind: type[Any]) -> Any:
    return None if value in (None, "") else kind(str(value))


def _outcome(said: str, mapping: Mapped, *, order: str, stated: str) -> tuple[str, str]:
    """Read an answer strictly: a known spelling or `unparsed`; an outcome stated by the table is taken at its word."""
    word = said.casefold()
    if stated in ("error", "abstain"):
        return stated, ""
    if word in (tie.casefold() for tie in mapping.tie):
        return "tie", ""
    if word not in (mapping.first.casefold(), mapping.second.casefold()):
        return "unparsed", ""
    named_first = word == mapping.first.casefold()
    as_shown = mapping.winner == "slot" or order == "uv"
    return "verdict", "1" if named_first == as_shown else "2"


def _log(
    store: Store, judge: str, calls: pd.DataFrame, path: Path, *, seed: int, metrics: Metrics, texts: bool
) -> Evaluation:
    facts = JudgeFacts(
        name=judge,
        simulated=False,
        settings={"model": judge, "kind": "recorded", "source": path.name},
        prompt=f"Judgments recorded by another tool, read from {path.name}: the prompt is not known here.\n",
    )
    done = Measured(
        judge=facts,
        suite=recorded_suite(calls, name=path.stem),
        calls=calls,
        run={"seed": seed},
        seconds=0.0,
        metrics=metrics,
    )
    return log_measured(store, done if texts else done.without_texts(), run_name=facts.label)


def recorded_suite(calls: pd.DataFrame, *, name: str) -> Suite:
    """Build the suite behind recorded judgments: its items without their texts, in the order of their ids."""
    first = calls.drop_duplicates("suite_item").sort_values("suite_item")
    items = [
        Item(
            id=row.suite_item,
            task=row.task,
            condition=row.condition,
            delta=None if pd.isna(row.delta) else float(row.delta),
            better=row.better or None,
        )
        for row in first.itertuples(index=False)
    ]
    return Suite(name=f"{name} (recorded)", items=items, origin={"builder": "recorded"})
