"""The worst items: where a judge was furthest off, with the texts it was shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from jrh_mlflow.errors import CallsError
from jrh_mlflow.measures.records import is_pointwise, normalise
from jrh_mlflow.perturb import name_of_test
from jrh_mlflow.schema.items import BASELINE, Item
from jrh_mlflow.schema.presentation import message_text
from jrh_mlflow.scoring.pointwise import PointTable, point_table


@dataclass(frozen=True, kw_only=True, slots=True)
class WorstItem:
    """One item that was judged wrong."""

    item: str
    test: str
    source: str
    original: str | None
    """The baseline's response, or what the test changed: the rubric, a message; None when there is no text."""
    perturbed: str | None
    expected: str
    given: str
    """The answer that was furthest off."""
    error_size: float
    """Levels between expected and given on a scale; 1 for other labels."""


def worst_items(calls: pd.DataFrame | Iterable[object], items: Mapping[str, Item], n: int = 10) -> list[WorstItem]:
    """Return the `n` worst items: by size of the error, then share of wrong replicates, then a right baseline, then id.

    Of the items that one test made of one source only the worst is told, whatever its designs: the list is to show
    different errors. Only verdicts can be wrong: abstained, unparsed and failed
    calls are no errors of judgment.

    Args:
        calls: Call records, as for `measure`.
        items: Items of the suite by id.
        n: How many at most.

    Raises:
        CallsError: when the records are of pairs, or speak of an item that is not among `items`.
    """
    frame = normalise(calls)
    if not is_pointwise(frame):
        raise CallsError("The worst items are those of pointwise records, but these are of pairs.")
    strange = sorted(set(frame["suite_item"]) - set(items))
    if strange:
        raise CallsError(f"{len(strange)} item(s) of the calls are not in the suite: {', '.join(strange[:5])}.")
    names = sorted(set(frame["suite_item"]))
    labels = {item.answers for item in items.values() if item.answers}
    table = point_table(frame, labels=labels.pop() if len(labels) == 1 else None)
    baselines = {item.task: item for item in items.values() if item.condition == BASELINE}
    size = _sizes(table)
    by_item: dict[int, list[int]] = {}
    for wrong in np.flatnonzero((table.outcome == "verdict") & (table.expected != "") & ~table.right):
        by_item.setdefault(int(table.item[wrong]), []).append(int(wrong))
    answered = np.bincount(table.item[table.usable], minlength=len(names))
    ranked = sorted(by_item, key=lambda code: (*_rank(table, size, by_item[code], int(answered[code])), names[code]))
    found = []
    for code in _different(ranked, [items[name] for name in names])[:n]:
        item, row = items[names[code]], max(by_item[code], key=lambda row: size[row])
        original, perturbed = _texts(item, baselines.get(item.task))
        found.append(
            WorstItem(
                item=names[code],
                test=str(table.test[row]),
                source=item.task,
                original=original,
                perturbed=perturbed,
                expected=str(table.expected[row]),
                given=str(table.answer[row]),
                error_size=size[row],
            )
        )
    return found


def _different(ranked: Iterable[int], items: Sequence[Item]) -> list[int]:
    """Keep the first item of each source and test."""
    kept: dict[tuple[str, str], int] = {}
    for code in ranked:
        kept.setdefault((items[code].task, name_of_test(items[code].condition)), code)
    return list(kept.values())


def _sizes(table: PointTable) -> list[float]:
    if table.scale.kind != "ordinal":
        return [1.0] * len(table.test)
    distance = np.abs(table.scale.levels(table.expected) - table.scale.levels(table.answer))
    return [float(levels) for levels in np.nan_to_num(distance)]


def _rank(table: PointTable, size: Sequence[float], rows: Sequence[int], n_answered: int) -> tuple[float, float, bool]:
    was_right = table.base_answer[rows[0]] != "" and table.base_answer[rows[0]] == table.base_expected[rows[0]]
    # A share, not a count: tests that ask ten times would come before all that ask once.
    return -max(size[row] for row in rows), -len(rows) / n_answered, not was_right


def _texts(item: Item, base: Item | None) -> tuple[str | None, str | None]:
    """Return what was changed, before and after: the rubric, the response, or the first edited message."""
    if base is not None and base.rubric != item.rubric:
        return base.rubric, item.rubric
    if not item.transcript:
        return None if base is None else base.response, item.response
    before = (base.transcript if base else None) or ()
    edited = [place for place, message in enumerate(item.transcript) if before[place : place + 1] != (message,)]
    place = edited[0] if edited and before else len(item.transcript) - 1
    return " ".join(map(message_text, before[place : place + 1])) or None, message_text(item.transcript[place])
