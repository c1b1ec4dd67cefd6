"""Natural pairs: real responses with a known better side, judged in both orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from jrh_mlflow.errors import SuiteError, suggest
from jrh_mlflow.schema.items import NATURAL, Item
from jrh_mlflow.suites.dataset import Table, is_na
from jrh_mlflow.suites.responses import read_contexts
from jrh_mlflow.suites.suite import Suite

COLUMNS = ("instruction", "first", "second", "better")
"""Columns a table of pairs needs."""
_ROLES = (*COLUMNS, "id", "task", "context")


def natural_suite(
    pairs: pd.DataFrame,
    *,
    columns: Mapping[str, str] | None = None,
    better_values: tuple[str, str] = ("1", "2"),
    name: str = "natural",
) -> Suite:
    """Build a suite from a table with one pair per row.

    Args:
        pairs: Needs an instruction, two responses and which one is better; may have ids, tasks, and in `context` a text
            or a list of texts that the responses were to go by.
        columns: Our name to the table's column, e.g. `{"instruction": "input", "better": "label"}`.
        better_values: How the table says that the first or the second response is better.
        name: Of the suite.
    """
    names = {key: key for key in _ROLES} | dict(columns or {})
    for key in sorted(set(names) - set(_ROLES)):
        raise SuiteError(f"Unknown column role {key!r}.{suggest(key, _ROLES)}")
    missing = [names[key] for key in COLUMNS if names[key] not in pairs.columns]
    if missing:
        present = ", ".join(map(str, pairs.columns))
        raise SuiteError(f"The table lacks the column(s) {', '.join(missing)}. Columns there are: {present}.")
    rows = pairs.astype(object).to_dict("records")
    contexts = read_contexts(Table(pairs), names["context"], None) if names["context"] in pairs.columns else []
    items = [_item(row, index, names, better_values) for index, row in enumerate(rows)]
    if contexts:
        items = [replace(item, context=context) for item, context in zip(items, contexts, strict=True)]
    return Suite(name=name, items=items, origin={"builder": "natural"})


def _item(row: Mapping[object, object], index: int, names: Mapping[str, str], values: tuple[str, str]) -> Item:
    for key, column in names.items():
        if key != "context" and column in row and is_na(row[column]):
            raise SuiteError(f"Row {index}: `{column}` ({key}) has no value. Fill it, or drop the row.")
    better = str(row[names["better"]])
    if better not in values:
        raise SuiteError(f"Row {index}: `{names['better']}` must be one of {', '.join(values)}, but is {better!r}.")
    item_id = str(row.get(names["id"], f"pair-{index:05d}"))
    return Item(
        id=item_id,
        task=str(row.get(names["task"], item_id)),
        condition=NATURAL,
        instruction=str(row[names["instruction"]]),
        u=str(row[names["first"]]),
        v=str(row[names["second"]]),
        better="u" if better == values[0] else "v",
    )
