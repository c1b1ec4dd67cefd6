"""Labels of several people: read from a table, made into the one that is expected, and read back from a suite."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from jrh_mlflow.errors import JrhWarning, RecipeError
from jrh_mlflow.schema.items import BASELINE, Labels
from jrh_mlflow.schema.label_words import label_key, label_text
from jrh_mlflow.suites.dataset import DatasetTable, is_missing, present, refuse_rows, structured
from jrh_mlflow.suites.labels import GivenLabels, most_frequent, read_labels, translated

if TYPE_CHECKING:
    import pandas as pd

    from jrh_mlflow.suites.suite import Suite

GivenPeople: TypeAlias = "Mapping[str, str] | str | None"
"""Person to column, or the column that maps each person to a label."""
NO_LABEL, NO_MAJORITY = "without a person's label", "without a majority of the people"
PEOPLE = "people"
"""What an item's meta calls them; only baselines have them, for nobody has read what was changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """A table whose label column holds what people said where it held nothing, without rows on which they are split."""

    table: DatasetTable
    label: str
    """Its label column."""
    people: list[dict[str, str]]
    """Of each row, what each person said."""
    labels: GivenLabels
    scale: GivenLabels
    """As they were given, or as all cells tell: those of people count."""


def settle(
    table: DatasetTable,
    given: GivenPeople,
    *,
    label: str | None,
    ids: Sequence[str] | None,
    labels: GivenLabels,
    scale: GivenLabels,
    values: Mapping[Any, object] | None,
) -> Settled:
    """Let people's labels stand where a row has none; rows on which they are split are left out, with one line.

    Raises:
        RecipeError: for a column that is not there, a cell that is no label, or when no row is left.
    """
    rows = _read_people(table, given, ids)
    own = translated(table.cells(label) if label else [None] * len(table), values)
    # Where labels are given, cells that are none of them are named by `spell_people` with the person.
    is_given = labels is not None or scale is not None
    votes = [] if is_given else translated([cell for row in rows for cell in row.values()], values)
    cells = [] if is_given else [*own, *votes]
    allowed = read_labels(cells, column=label or PEOPLE, ids=None, labels=labels, scale=scale, unlabelled=True)[1]
    said = spell_people(rows, allowed, column=PEOPLE, ids=ids, values=values)
    chosen = [
        people_label(list(people.values()), allowed) if is_missing(cell) and people else cell
        for cell, people in zip(own, said, strict=True)
    ]
    split = [row for row, cell in enumerate(chosen) if cell is None and said[row]]
    names = [f"row {row + 1}" if ids is None else ids[row] for row in split]
    say_left_out(len(table), {NO_MAJORITY: names}, what="rows", field=PEOPLE)
    gone = set(split)
    kept = [row for row in range(len(table)) if row not in gone]
    column = label or f"label of {PEOPLE}"
    if not is_given:
        labels, scale = (None, allowed.answers) if allowed.ordinal else (dict.fromkeys(allowed.answers), None)
    return Settled(
        table=table.having(column, chosen).taken(kept),
        label=column,
        people=[said[row] for row in kept],
        labels=labels,
        scale=scale,
    )


def _read_people(table: DatasetTable, given: GivenPeople, ids: Sequence[str] | None) -> list[dict[str, object]]:
    """Return for each row what each person's cell holds, without empty cells."""
    if not given or not isinstance(given, Mapping | str):
        raise RecipeError(f"`people` must map each person to a column, or name one, but is {given!r}.")
    for column in [given] if isinstance(given, str) else given.values():
        if not isinstance(column, str) or column not in table:
            raise RecipeError(f"The dataset lacks the column {column!r} (for people).{present(table, str(column))}")
    if isinstance(given, str):
        rows = [structured(cell) for cell in table.cells(given)]
        odd = [not isinstance(row, Mapping) and not is_missing(row) for row in rows]
        refuse_rows(given, "must map each person to a label", odd, ids=ids, shown=rows)
        cells = [dict(row) if isinstance(row, Mapping) else {} for row in rows]
    else:
        columns = {person: table.cells(column) for person, column in given.items()}
        cells = [{person: column[row] for person, column in columns.items()} for row in range(len(table))]
    found = [{str(who): cell for who, cell in row.items() if not is_missing(cell)} for row in cells]
    odd = [any(label_text(cell) is None for cell in row.values()) for row in found]
    refuse_rows(PEOPLE, "must hold text, finite numbers or booleans", odd, ids=ids, shown=found)
    return found


def spell_people(
    rows: Sequence[Mapping[str, object]],
    labels: Labels,
    *,
    column: str,
    ids: Sequence[str] | None,
    values: Mapping[Any, object] | None = None,
) -> list[dict[str, str]]:
    """Return each person's label in its one spelling.

    Raises:
        RecipeError: naming the rows, the people and the cells that are none of `labels`.
    """
    answers: dict[float | str | None, str] = {label_key(answer): answer for answer in labels.answers}
    spelled: list[dict[str, str]] = []
    odd: list[str] = []
    for row, given in enumerate(rows):
        texts = map(label_text, translated(list(given.values()), values))
        keys = {who: None if text is None else label_key(text) for who, text in zip(given, texts, strict=True)}
        spelled.append({who: answers[key] for who, key in keys.items() if key in answers})
        place = f"row {row + 1}" if ids is None else repr(ids[row])
        odd += [f"{place}, {who}: {str(given[who])[:40]!r}" for who in keys if who not in spelled[-1]]
    if odd:
        more = ", …" if len(odd) > 5 else ""
        listed = ", ".join(" ".join(answer.split()) for answer in labels.answers[:12])
        raise RecipeError(
            f"{column!r}: people's labels must be one of {listed}, but {len(odd)} are not: {', '.join(odd[:5])}{more}."
        )
    return spelled


def people_label(given: Sequence[str], labels: Labels) -> str | None:
    """Return the label that stands for those of several people: the most frequent one, on a scale the median.

    None where two labels lead together, or the median lies between two levels: there is no right answer then.

    Example:
        >>> people_label(["2", "3", "5"], Labels(answers=("1", "2", "3", "4", "5"), ordinal=True))
        '3'
    """
    if not labels.ordinal:
        leading: str | None = most_frequent(given)
        return leading
    places = sorted(map(labels.answers.index, given))
    low, high = places[(len(places) - 1) // 2], places[len(places) // 2]
    return labels.answers[low] if low == high else None


def say_left_out(total: int, reasons: Mapping[str, Sequence[str]], *, what: str, field: str) -> None:
    """Say in one line how many rows or traces have no label of people to go by.

    Raises:
        RecipeError: when none is left.
    """
    told = [
        f"{len(ids)} {why} ({', '.join(ids[:5])}{', …' if len(ids) > 5 else ''})" for why, ids in reasons.items() if ids
    ]
    count = sum(map(len, reasons.values()))
    if count:
        line = f"{count} of {total} {what} were left out under {field!r}: {', '.join(told)}."
        if count == total:
            raise RecipeError(f"{line} None is left.")
        warnings.warn(line, JrhWarning, stacklevel=3)


def people_of(suite: Suite) -> pd.DataFrame:
    """Return people's labels of a suite's baselines in long form: `item`, `rater`, `label`; empty where it has none."""
    import pandas as pd

    rows = [
        (item.id, who, label)
        for item in suite.items
        if item.condition == BASELINE
        for who, label in (item.meta.get(PEOPLE) or {}).items()
    ]
    frame: pd.DataFrame = pd.DataFrame(rows, columns=["item", "rater", "label"], dtype=object)
    return frame
