"""Labels in tables: data frames, lists, CSV, JSON, Parquet and spreadsheet files, with a row per label or per item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.records import choices, normalise
from jrh_mlflow.people.labels import (
    JUDGE,
    PERSON,
    LabelOptions,
    LabelSource,
    LabelTable,
    fact_texts,
    long_frame,
    stacked,
)
from jrh_mlflow.people.ratings import IS_JUDGE, judge_marks
from jrh_mlflow.schema.items import NATURAL, NATURAL_TIE, REQUIRED_COLUMNS
from jrh_mlflow.schema.label_words import BOOLEANS, label_text, label_word
from jrh_mlflow.suites.dataset import DatasetTable, is_missing, present, refuse_rows

VERSION = "version"
_AS_THEY_ARE = ("when", "cluster", "inclusion", "drawn", "text", "link")
"""Columns that are taken under their own names where a table has them."""
_NO_VERDICTS = ("item", "human", "configuration", VERSION, *_AS_THEY_ARE)
"""Columns of a table of verdicts that are never the verdict itself."""
_ORDERS = ("uv", "vu")
_SLOTS = {"1": "1", "first": "1", "a": "1", "2": "2", "second": "2", "b": "2"}
_TIES = ("tie", "both", "equal", "neither", "draw")
_WINS = {"a": "u", "u": "u", "1": "u", "first": "u", "b": "v", "v": "v", "2": "v", "second": "v"}
_WINS |= dict.fromkeys(_TIES, "tie")


class TableLabels(LabelSource):
    """Anything that can be read as a table, or as a column of verdicts."""

    def takes(self, source: object) -> bool:
        """Whether it may be a table: what no other source took."""
        return True

    def read(self, source: Any, options: LabelOptions) -> LabelTable:
        """Read labels with a row for each rater, or verdicts with a row for each item."""
        if options.part == "labels":
            return _long(source, options)
        if getattr(source, "ndim", 1) == 0:
            raise RecipeError(f"The {options.part} must be a list, a table or a file, but got one value: {source!r}.")
        cells = _single_column(source)
        if cells is not None:
            return _verdict_column(source, cells, options)
        # Ids often are the index of a frame, which is none of its columns.
        in_index = isinstance(source, pd.DataFrame) and source.index.name == options.item
        table = DatasetTable(source.reset_index() if in_index else source)
        if set(REQUIRED_COLUMNS) <= set(table.names):
            names = [name for name in table.names if "." not in name]
            records = pd.DataFrame({name: table.cells(name) for name in names})
            labels = LabelTable(frame=pair_frame(records), shown=_shown(source, table))
        else:
            labels = _wide(source, table, options)
        return replace(labels, facts={**_attrs(source), **labels.facts})


SOURCE = TableLabels()


def _shown(source: object, table: DatasetTable) -> str:
    return Path(source).name if isinstance(source, str | Path) else f"a table of {len(table):,} rows"


def _long(source: object, options: LabelOptions) -> LabelTable:
    table = DatasetTable(source)
    # It may be a table of ours, whose texts are guarded against running as formulas.
    if isinstance(source, str | Path) and str(source).endswith(".csv"):
        table = table.unguarded()
    roles = {"item": options.item, "rater": options.rater, "label": options.label, "group": options.group}
    named = {role: column for role, column in roles.items() if column is not None}
    for role, column in named.items():
        if column not in table:
            raise RecipeError(
                f"The table has no column {column!r}.{present(table, column)}{_melted(role, named, table)}"
            )
    columns = {role: table.cells(column) for role, column in named.items()}
    columns |= _of_items(table, options)
    judge = label_text(options.judge)
    named_judge = [judge is not None and label_text(rater) == judge for rater in columns["rater"]]
    marks = judge_marks(table.cells(IS_JUDGE)) if IS_JUDGE in table else named_judge
    columns["kind"] = [JUDGE if marked else PERSON for marked in marks]
    return LabelTable(
        frame=long_frame(columns),
        shown=_shown(source, table),
        judge=options.judge,
        facts={} if options.judge is None else {"name": options.judge},
        called=named,
        tracking_uri=options.tracking_uri,
    )


def _of_items(table: DatasetTable, options: LabelOptions) -> dict[str, list[Any]]:
    """Return what a table knows of its items."""
    cells = {name: table.cells(name) for name in _AS_THEY_ARE if name in table}
    if options.cluster is None:
        return cells
    # Of verdicts and labels one table may be without it: together they are matched by item.
    if options.cluster not in table and options.part == "labels":
        raise RecipeError(f"The table has no column {options.cluster!r}.{present(table, options.cluster)}")
    return {**cells, "cluster": table.cells(options.cluster)} if options.cluster in table else cells


def _melted(role: str, columns: Mapping[str, str], table: DatasetTable) -> str:
    """Say how a table with a column for each rater becomes a long one."""
    if role == "group" or (columns["rater"] in table and columns["label"] in table):
        return ""
    item = columns["item"] if columns["item"] in table else table.names[0]
    how = f"id_vars={item!r}, var_name={columns['rater']!r}, value_name={columns['label']!r}"
    return f" It must have one row per item and rater; with a column for each rater, melt it first: table.melt({how})."


def _single_column(source: object) -> list[object] | None:
    """Return plain verdicts, one for each item; None where the source is a table."""
    if isinstance(source, list | tuple):
        return None if any(isinstance(cell, Mapping) for cell in source) else list(source)
    # Series of pandas and Polars, and arrays.
    convert = getattr(source, "to_list", getattr(source, "tolist", None))
    return list(convert()) if callable(convert) and getattr(source, "ndim", 1) == 1 else None


def _verdict_column(source: Any, cells: list[object], options: LabelOptions) -> LabelTable:
    if options.part == "calibration":
        raise RecipeError("A calibration has two labels of each item: give a table with `judge` and `human`.")
    has_ids = isinstance(source, pd.Series) and source.index.name == options.item
    items = item_ids(list(source.index), options.item) if has_ids else numbered_rows(len(cells))
    frame, shown = stacked({"item": items}, {"kind": JUDGE, "label": cells}), f"a list of {len(cells):,} verdicts"
    return LabelTable(frame=frame, shown=shown, has_ids=has_ids, called={JUDGE: "The column of verdicts"})


def numbered_rows(n: int) -> list[str]:
    """Name rows that have no ids."""
    return [f"row {place}" for place in range(1, n + 1)]


def item_ids(cells: Sequence[object], column: str, versions: Sequence[str] | None = None) -> list[str]:
    """Return ids as text, each once (of each version): 1, 1.0 and "1" are one."""
    refuse_rows(column, "must not be empty", [is_missing(cell) for cell in cells])
    ids = [label_text(cell) or str(cell) for cell in cells]
    named = list(zip(ids, versions or [""] * len(ids), strict=True))
    counts = Counter(named)
    refuse_rows(column, "must name each item once", [counts[name] > 1 for name in named], shown=ids)
    return ids


def _wide(source: object, table: DatasetTable, options: LabelOptions) -> LabelTable:
    """Read a table with a row for each item: the judge's verdict, or its choice in each order, and a person's label."""
    if options.part == "calibration" and options.human not in table:
        raise RecipeError(f"The calibration has no column {options.human!r}.{present(table, options.human)}")
    is_pairs = all(order in table for order in _ORDERS)
    blocks: list[dict[str, Any]] = []
    called = {PERSON: f"Column {options.human!r}"}
    if is_pairs:
        blocks += [{"kind": JUDGE, "label": _chosen(table.cells(order), order), "order": order} for order in _ORDERS]
    elif options.part == "verdicts" or str(options.judge) in table or options.item not in table:
        column = _judge_column(table, options)
        called[JUDGE] = f"Column {column!r} of the {options.part}"
        blocks.append({"kind": JUDGE, "label": table.cells(column)})
    # Otherwise there are people's labels alone: the judge's verdicts on these items are among the population's.
    if options.human in table:
        cells = table.cells(options.human)
        blocks.append({"kind": PERSON, "label": _preferred(cells, options.human) if is_pairs else cells})
    versions = list(map(str, table.cells(VERSION))) if VERSION in table else None
    has_ids = options.item in table
    of_items: dict[str, Sequence[Any]] = {
        "item": item_ids(table.cells(options.item), options.item, versions) if has_ids else numbered_rows(len(table))
    }
    of_items |= {} if versions is None else {VERSION: versions}
    of_items |= _of_items(table, options)
    if options.weights is not None and options.weights in table:
        of_items["weight"] = table.cells(options.weights)
    return LabelTable(
        frame=stacked(of_items, *blocks),
        shown=_shown(source, table),
        facts=_configuration(table, options),
        called=called,
        has_ids=has_ids,
    )


def _judge_column(table: DatasetTable, options: LabelOptions) -> str:
    """Return the column of verdicts: by its name, else the only one that holds booleans."""
    name = str(options.judge)
    if name in table:
        return name
    known = (*_NO_VERDICTS, options.item, options.human, options.cluster)
    others = [other for other in table.names if other not in known]
    booleans = [other for other in others if _are_booleans(table.cells(other))]
    if options.part == "verdicts" and len(booleans) == 1:
        return booleans[0]
    several = f", and several hold booleans: {', '.join(booleans)}" if len(booleans) > 1 else ""
    raise RecipeError(
        f"The {options.part} has no column {name!r}{several}. Name it: judge= (--judge).{present(table, name)}"
    )


def _are_booleans(cells: Sequence[object]) -> bool:
    texts = {label_word(cell) for cell in cells if not is_missing(cell)}
    return bool(texts) and texts <= BOOLEANS.keys()


def _chosen(cells: Sequence[object], order: str) -> list[str | None]:
    """Read what was chosen in one order: a slot (1, 2, A, B, first, second), a content (u, v), or a tie."""
    texts = ["" if is_missing(cell) else label_word(cell) for cell in cells]
    known = ("", "u", "v", *_TIES, *_SLOTS)
    refuse_rows(order, "must be 1, 2 (or A, B: the slot) or tie", [text not in known for text in texts], shown=cells)
    # The name of an order says what its slots show: in `vu` slot 1 is v.
    slots = dict(zip(("1", "2"), order, strict=True))
    return [slots.get(_SLOTS.get(text, ""), text) or None for text in texts]


def _preferred(cells: Sequence[object], column: str) -> list[str | None]:
    """Read which content people prefer: A (that is u), B (v), or a tie."""
    texts = ["" if is_missing(cell) else label_word(cell) for cell in cells]
    refuse_rows(column, "must be A, B or tie", [bool(text) and text not in _WINS for text in texts], shown=cells)
    return [_WINS.get(text) for text in texts]


def pair_frame(calls: pd.DataFrame) -> pd.DataFrame:
    """Read call records on natural pairs: what the judge chose in each order, and the side that is known to be better.

    Raises:
        RecipeError: when there are none.
    """
    records = normalise(calls)
    records = records.assign(choice=choices(records))
    records = records[records["condition"].isin((NATURAL, NATURAL_TIE))]
    if records.empty:
        raise RecipeError("The call records hold no natural pairs (`jrh.natural_suite`): a win rate is of real pairs.")
    pairs = records.drop_duplicates("suite_item")
    columns = {
        "item": [*records["suite_item"], *pairs["suite_item"]],
        "kind": [JUDGE] * len(records) + [PERSON] * len(pairs),
        "rater": [JUDGE] * len(records) + [PERSON] * len(pairs),
        "label": [choice or None for choice in records["choice"]] + [better or "tie" for better in pairs["better"]],
        "order": [*records["order"], *[""] * len(pairs)],
        "replicate": [*records["replicate"], *[0] * len(pairs)],
        "cluster": [*records["task"], *pairs["task"]],
    }
    return long_frame(columns)


def _configuration(table: DatasetTable, options: LabelOptions) -> dict[str, str]:
    """Return which judge a table is of, where it says so."""
    if "configuration" not in table:
        return {}
    names = sorted({str(cell) for cell in table.cells("configuration") if not is_missing(cell)})
    if len(names) > 1:
        raise RecipeError(
            f"The {options.part} is of {len(names)} judge configurations ({', '.join(names[:5])}), a correction of one "
            "judge."
        )
    return {"configuration": names[0]} if names else {}


def _attrs(source: object) -> dict[str, str]:
    """Return what `frame.attrs["judge"]` says of the judge: facts by name, or one text."""
    judge = getattr(source, "attrs", {}).get("judge")
    return fact_texts(judge) if isinstance(judge, Mapping) else {} if judge is None else {"configuration": str(judge)}
