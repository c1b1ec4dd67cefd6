"""Labels and scales of a user's dataset, as given or read off the data, and the rubrics that they answer.

A rubric is one text, or one of several under ids of their own. Labels of several people are read from a table, made
into the one that is expected, and read back from a suite.
"""

from __future__ import annotations

import csv
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from jrh_mlflow.errors import JrhWarning, RecipeError, suggest
from jrh_mlflow.schema.items import BASELINE, Labels
from jrh_mlflow.schema.label_words import label_key, label_number, label_of_number, label_text, last_of, says_bad
from jrh_mlflow.suites.dataset import LABELLER, DatasetTable, is_missing, present, refuse_rows, structured

if TYPE_CHECKING:
    from jrh_mlflow.suites.suite import Suite

MAX_ANSWERS = 101
"""A scale from 0 to 100. More answers mean a wrong column, or measurements that are no labels."""

GivenLabels: TypeAlias = "Sequence[object] | Mapping[Any, object] | None"
"""Labels in order, or label to what it means."""


def read_labels(
    cells: Sequence[object],
    *,
    column: str,
    ids: Sequence[str] | None,
    labels: GivenLabels = None,
    scale: GivenLabels = None,
    unlabelled: bool = False,
    grades: bool | None = None,
) -> tuple[list[str], Labels]:
    """Return the label of each row in its one spelling, and the labels there are.

    Args:
        cells: The column with the labels.
        column: Its name, for errors.
        ids: Of the rows, for errors.
        labels: Allowed labels, the better one or the one to be detected last; or label to what it means.
        scale: Lowest and highest of the whole-numbered levels, or three or more levels from low to high; or level to
            what it means.
        unlabelled: A cell may be empty, and so is its label then.
        grades: Whether the last label is the better one, or the one to be detected; None: their words tell.
    """
    missing = [is_missing(cell) for cell in cells]
    if not unlabelled:
        refuse_rows(column, "must hold a label in every row", missing, ids=ids, advice=LABELLER)
    texts = ["" if empty else label_text(cell) for cell, empty in zip(cells, missing, strict=True)]
    odd = [text is None for text in texts]
    refuse_rows(column, "must hold text, finite numbers or booleans", odd, ids=ids, shown=cells)
    known = [text for text in texts if text]
    allowed = _given(labels, scale)
    if allowed is None and not known:
        raise RecipeError(f"No row of the column {column!r} has a label. Give `labels` or `scale`.")
    # Types tell more than texts: by them a column of numbers and booleans is refused.
    filled = [cell for cell, empty in zip(cells, missing, strict=True) if not empty]
    allowed = replace(allowed or _inferred(filled, known, column, ids), grades=grades)
    if "tie" in {answer.casefold() for answer in allowed.answers}:
        raise RecipeError(f"Column {column!r} has a label called tie, and a tie is an outcome of pairs. Rename it.")
    # The same number, or the same word whatever its capitals.
    answers = {label_key(answer): answer for answer in allowed.answers}
    matches = {text: answers[label_key(text)] for text in set(known) if label_key(text) in answers}
    # Nothing matched at all: most likely the form of the command line was pasted into Python.
    if not matches and (meant := _as_mapping(labels if scale is None else scale)):
        raise RecipeError(f"Labels with meanings are a mapping: `{'labels' if scale is None else 'scale'}={meant}`.")
    outside = [text not in matches and text != "" for text in texts]
    refuse_rows(column, f"must hold one of {_listed(allowed.answers)}", outside, ids=ids, shown=cells)
    return [matches.get(text or "", "") for text in texts], allowed


def most_frequent(labels: Sequence[Any]) -> Any:
    """Return the label that most people gave, as the first of them spelled it; None where two lead together.

    Example:
        >>> most_frequent(["Yes", "no", "yes"]), most_frequent(["yes", "no"])
        ('Yes', None)
    """
    keys = [_cell_key(label) for label in labels]
    counts = Counter(keys).most_common(2)
    if not counts or (len(counts) == 2 and counts[0][1] == counts[1][1]):
        return None
    return labels[keys.index(counts[0][0])]


def translated(cells: Sequence[object], values: Mapping[Any, object] | None) -> list[object]:
    """Return cells with those replaced that are said to mean something: 0, 0.0 and `0.0` are one cell, `C` and `c` too.

    Raises:
        RecipeError: when `values` is no mapping from cells to labels, or gives one cell two meanings.

    Example:
        >>> translated([0.0, "1", "C", True, "new"], {"0.0": "no", 1: "yes", "c": "right", "true": "on"})
        ['no', 'yes', 'right', 'on', 'new']
    """
    if values is not None and not isinstance(values, Mapping):
        raise RecipeError(f"`values` must map cells to labels, as in {{0.0: no violation}}, but is {values!r}.")
    meanings: dict[float | str, object] = {}
    for cell, meaning in (values or {}).items():
        text, key = label_text(cell), _cell_key(cell)
        if text is None or label_text(meaning) is None:
            raise RecipeError(f"`values` must map cells to labels, but {cell!r} is mapped to {meaning!r}.")
        if meanings.setdefault(key, meaning) != meaning:
            raise RecipeError(f"`values` gives the cell {text!r} two meanings: {meanings[key]!r} and {meaning!r}.")
    return [meanings.get(_cell_key(cell), cell) for cell in cells]


def _cell_key(cell: object) -> float | str:
    return label_key(label_text(cell) or "")


def labels_from_text(text: str, *, option: str = "--labels") -> tuple[str, ...] | dict[str, str]:
    """Read `fail,pass`, or with meanings `0=not harmful,1=harmful`; quotes keep a comma: `"0=no, not at all",1=yes`.

    Raises:
        RecipeError: where it is not clear what is a label and what a meaning.

    Example:
        >>> labels_from_text("0=not harmful, 1=harmful")
        {'0': 'not harmful', '1': 'harmful'}
    """
    how = (
        f"A comma inside a meaning needs quotes ({option} '\"0=no, not at all\",1=yes'), an equals sign a YAML recipe."
    )
    try:
        parts = [part.strip() for part in next(csv.reader([text], skipinitialspace=True, strict=True), [])]
    except csv.Error as error:
        raise RecipeError(f"{option} {text!r} cannot be read: {error}. {how}") from error
    if not any("=" in part for part in parts):
        return tuple(parts)
    for part in parts:
        if part.count("=") != 1 or not all(side.strip() for side in part.split("=")):
            raise RecipeError(f"{option}: {part!r} is no LABEL=MEANING, and each label needs one. {how}")
    named = {label.strip(): meaning.strip() for label, _, meaning in (part.partition("=") for part in parts)}
    if len(named) < len(parts):
        raise RecipeError(f"{option} {text!r} gives one label two meanings. {how}")
    return named


def inferred_scale(labels: Labels) -> str:
    """Say that numbers of a column were taken for a scale, and how to say otherwise."""
    low, high = labels.answers[0], labels.answers[-1]
    return (
        f"The column holds whole numbers, which are taken as a scale from {low} to {high}. If they are, give it: "
        f"scale=({low}, {high}), --scale {low}-{high}; if they have no order, list them as labels: --labels "
        f"{','.join(labels.answers[:3])}{',…' if len(labels.answers) > 3 else ''}."
    )


def wrong_way_round(labels: Labels) -> list[str]:
    """Say that the last label does not say what is to be detected, and the first does."""
    first, last = (labels.meanings.get(label, label) for label in (labels.answers[0], labels.answers[-1]))
    if labels.grading is not False or not says_bad(first) or says_bad(last):
        return []
    named = labels.named(labels.answers[-1])
    return [f"The last label, {named}, counts as the one to be detected. If it is not, list the labels the other way."]


def about_labels(labels: Labels) -> str:
    """Say in one line what was understood: labels and their meanings, their order, what the last one is.

    Example:
        >>> about_labels(Labels(answers=("0", "1"), meanings={"0": "not harmful", "1": "harmful"}))
        '0 (not harmful), 1 (harmful): labels, the last one is to be detected'
    """
    named = ", ".join(map(labels.named, labels.answers))
    last = {True: "the last one is the better", False: "the last one is to be detected", None: _LAST_UNKNOWN}
    if labels.ordinal:
        order = "first the better" if labels.worse_last else "from low to high"
        return f"{named}: a scale {order}" + (f", {last[False]}" if labels.grading is False else "")
    return f"{named}: labels, {'the first one is the better' if labels.worse_last else last[labels.grading]}"


_LAST_UNKNOWN = "the last one is the better or the one to be detected (--grades or --detects says which)"


def _given(labels: GivenLabels, scale: GivenLabels) -> Labels | None:
    if labels is not None and scale is not None:
        raise RecipeError("Give `labels` or `scale`, not both: a scale has an order, labels have none.")
    if labels is not None:
        answers = _spelled(labels, "labels")
        if len(answers) < 2:
            raise RecipeError(f"`labels` must list two labels or more, but got {labels!r}.")
        return Labels(answers=answers, meanings=_meanings(labels, "labels"))
    if scale is None:
        return None
    if isinstance(scale, Mapping):
        scale = {_whole(level): meaning for level, meaning in scale.items()}
    return Labels(answers=_levels(scale), ordinal=True, meanings=_meanings(scale, "scale"))


def _as_mapping(given: GivenLabels) -> dict[str, str] | None:
    """Return labels that are each written LABEL=MEANING, as on the command line, the way they must be given."""
    parts = [] if given is None or isinstance(given, Mapping) else [str(text).partition("=") for text in given]
    if not parts or not all(label.strip() and meaning.strip() for label, _, meaning in parts):
        return None
    return {label.strip(): meaning.strip() for label, _, meaning in parts}


def _meanings(given: object, name: str) -> dict[str, str]:
    """Return what each label means, in one line; a label whose meaning is None has none."""
    meanings: dict[str, str] = {}
    for label, meaning in given.items() if isinstance(given, Mapping) else ():
        text = None if meaning is None else " ".join((label_text(meaning) or "").split())
        if text == "":
            raise RecipeError(
                f"`{name}` must map each label to what it means, in words, but {label!r} has {meaning!r}."
            )
        meanings |= {} if text is None else {label_text(label) or "": text}
    return meanings


def _levels(given: Sequence[object] | Mapping[Any, object]) -> tuple[str, ...]:
    rule = "`scale` must be the lowest and the highest whole number, or three levels or more from low to high"
    scale = list(given) if isinstance(given, Mapping) else given
    if not _is_list(scale) or any(isinstance(level, bool | np.bool_) for level in scale):
        raise RecipeError(f"{rule}, but got {scale!r}.")
    ends = [int(end) for end in scale if isinstance(end, int | np.integer)]
    if len(scale) == len(ends) == 2 and ends[0] < ends[1]:
        return _whole_levels(ends[0], ends[1], "`scale`")
    answers = _spelled(scale, "scale")
    numbers = [number for level in answers if (number := label_number(level)) is not None]
    if len(answers) < 3 or numbers != sorted(numbers):
        raise RecipeError(f"{rule}, but got {scale!r}.")
    return answers


def _whole(level: object) -> object:
    """Return the key of a mapping as a number where it is one: `"1"` and 1 are the same level."""
    number = label_number(level) if isinstance(level, str) else None
    return level if number is None or not number.is_integer() else int(number)


def _spelled(values: Sequence[object] | Mapping[Any, object], name: str) -> tuple[str, ...]:
    """Return given labels as text, each once."""
    texts = [label_text(value) for value in values] if _is_list(values) or isinstance(values, Mapping) else []
    if not texts or None in texts:
        how = f'or map each to what it means, {name}={{"0": "not harmful", "1": "harmful"}}'
        raise RecipeError(f"`{name}` must list labels (text or numbers), {how}, but got {values!r}.")
    answers = tuple(text for text in texts if text is not None)
    if len({label_key(answer) for answer in answers}) < len(answers):
        raise RecipeError(f"`{name}` must list each label once, whatever its capitals, but got {values!r}.")
    return answers


def _inferred(cells: Sequence[object], texts: Iterable[str], column: str, ids: Sequence[str] | None) -> Labels:
    booleans = [isinstance(cell, bool | np.bool_) for cell in cells]
    if any(not isinstance(cell, str | bool | np.bool_) for cell in cells):
        refuse_rows(column, "must hold numbers or booleans and not both", booleans, ids=ids, shown=cells)
    distinct = sorted(set(texts))
    numbers = {number for text in distinct if (number := label_number(text)) is not None}
    if all(label_number(text) is not None for text in distinct):
        answers = tuple(label_of_number(number) for number in sorted(numbers))
        whole = all(number.is_integer() for number in numbers)
    else:
        answers, whole = _worded(distinct), False
    if len(answers) < 2:
        raise RecipeError(f"Column {column!r} holds one label only, {answers[0]!r}. Give `labels` or `scale`.")
    if whole and len(answers) > 2:
        # A level that no row has is a level still: 1, 2, 4, 5 is a scale from 1 to 5.
        return Labels(answers=_whole_levels(int(answers[0]), int(answers[-1]), f"Column {column!r}"), ordinal=True)
    if len(answers) > MAX_ANSWERS:
        raise RecipeError(f"Column {column!r} holds {len(answers)} different labels. Is it the right column?")
    return Labels(answers=answers)


def _worded(distinct: Sequence[str]) -> tuple[str, ...]:
    """Sort labels that are words, the better one or the one to be detected last where the pair is well known."""
    # Reversed, so that of `No` and `no` the first in order gives its spelling.
    spelling = {label_key(text): text for text in reversed(distinct)}
    plain = {text: re.sub(r"[\s_]+", "_", text.casefold()) for text in spelling.values()}
    last = last_of(plain.values())
    return tuple(sorted(plain, key=lambda text: (plain[text] == last, plain[text], text)))


def _whole_levels(low: int, high: int, subject: str) -> tuple[str, ...]:
    if high - low + 1 > MAX_ANSWERS:
        raise RecipeError(
            f"{subject} goes from {low} to {high}; a judge can choose among {MAX_ANSWERS} levels at most. "
            "Give `scale` with fewer levels, or `labels`."
        )
    return tuple(str(level) for level in range(low, high + 1))


def _is_list(values: object) -> bool:
    """Tell a list or tuple from what has no order, and from a text, which is a sequence of letters."""
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)


def _listed(answers: Sequence[str]) -> str:
    shown = answers if len(answers) <= 12 else (*answers[:5], "…", answers[-1])
    return ", ".join(" ".join(answer.split()) for answer in shown)


_ID = re.compile(r"[^\s/@][^/@\n]{0,59}")
_KEYS = ("id", "instructions", "score_levels")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rubric:
    """One question that judges answer."""

    id: str
    """Empty for the only rubric of a suite, given as a text."""
    text: str
    levels: Mapping[int, str] | None = None
    """What each level of its scale means, where the rubric says so."""


def read_rubrics(given: object, wanted: object = None, *, about: str) -> tuple[Rubric, ...]:
    """Read a text, a mapping from id to text, or a list of `{id, instructions, score_levels}`, also as JSON or a file.

    Args:
        given: As above.
        wanted: Ids of those to take, a list or joined by commas; all when None.
        about: What judges are shown, for errors: `a response`.

    Raises:
        RecipeError: for an empty text, an id that cannot be one, or levels that are no scale.
    """
    if isinstance(given, Path):
        given = given.read_text(encoding="utf-8")
    # A rubric file and a rubric are both texts: only a JSON list of entries with ids is the former.
    if isinstance(given, str) and (listed := _as_list(given)) is not None:
        given = listed
    if isinstance(given, Mapping):
        rubrics = [Rubric(id=_checked_id(name), text=checked_text(text, about)) for name, text in given.items()]
    elif isinstance(given, Sequence) and not isinstance(given, str):
        rubrics = [_from_entry(entry, about) for entry in given]
    else:
        rubrics = [Rubric(id="", text=checked_text(given, about))]
    return _wanted(rubrics, wanted, about)


def _as_list(text: str) -> list[Any] | None:
    """Read a rubric file in JSON; None for any other text, which is a rubric itself."""
    if not text.lstrip().startswith("["):
        return None
    try:
        entries = json.loads(text)
    except ValueError:
        return None
    named = entries and all(isinstance(entry, dict) and {"id", "instructions"} <= entry.keys() for entry in entries)
    return entries if named else None


def _from_entry(entry: object, about: str) -> Rubric:
    if not isinstance(entry, Mapping):
        raise RecipeError(f"A rubric must be {{id, instructions}}, but is a {type(entry).__name__}.")
    for key in ("id", "instructions"):
        if key not in entry:
            raise RecipeError(f"A rubric has no `{key}`. Known keys: {', '.join(_KEYS)}.")
    levels = entry.get("score_levels")
    return Rubric(
        id=_checked_id(entry["id"]),
        text=checked_text(entry["instructions"], about),
        levels=_score_levels(entry["id"], levels) if levels else None,
    )


def _score_levels(name: object, entries: Any) -> dict[int, str]:
    rule = f"`score_levels` of the rubric {name!r} must be {{score, label}} with whole numbers in a row"
    try:
        levels = {int(entry["score"]): str(entry["label"]) for entry in entries}
    except (KeyError, TypeError, ValueError) as error:
        raise RecipeError(f"{rule}, but are {entries!r}.") from error
    low = min(levels)
    # Fewer levels than entries: two entries have one score, and the dict kept the last.
    if len(levels) < 2 or sorted(levels) != list(range(low, low + len(levels))) or len(levels) < len(entries):
        raise RecipeError(f"{rule}, but are {', '.join(str(entry['score']) for entry in entries)}.")
    return {score: levels[score] for score in sorted(levels)}


def _checked_id(name: object) -> str:
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise RecipeError(f"The id of a rubric must be a short name without / and @, but is {name!r}.")
    return name


def checked_text(text: object, about: str) -> str:
    """Return the text of a rubric, and refuse an empty one."""
    if not isinstance(text, str) or not text.strip():
        raise RecipeError(f"`rubric` must be the question the judge answers about {about}, but it is empty.")
    return text


def _wanted(rubrics: Sequence[Rubric], wanted: object, about: str) -> tuple[Rubric, ...]:
    ids = [rubric.id for rubric in rubrics]
    if not rubrics or len(set(ids)) < len(ids):
        raise RecipeError(f"`rubric` must be one question about {about} or several, each with an id of its own.")
    if wanted is None:
        return tuple(rubrics)
    names = wanted.split(",") if isinstance(wanted, str) else wanted
    chosen = [str(name).strip() for name in (names if isinstance(names, Iterable) else [names])]
    for name in chosen:
        if name not in ids or not name:
            listed = ", ".join(filter(None, ids)) or "none, as it is given as a text"
            raise RecipeError(
                f"There is no rubric {name!r}.{suggest(name, filter(None, ids))} Ids there are: {listed}."
            )
    return tuple(rubric for rubric in rubrics if rubric.id in chosen)


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
    votes_of = spell_people(rows, allowed, column=PEOPLE, ids=ids, values=values)
    chosen = [
        people_label(list(people.values()), allowed) if is_missing(cell) and people else cell
        for cell, people in zip(own, votes_of, strict=True)
    ]
    split = [row for row, cell in enumerate(chosen) if cell is None and votes_of[row]]
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
        people=[votes_of[row] for row in kept],
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
    people = [{str(who): cell for who, cell in row.items() if not is_missing(cell)} for row in cells]
    odd = [any(label_text(cell) is None for cell in row.values()) for row in people]
    refuse_rows(PEOPLE, "must hold text, finite numbers or booleans", odd, ids=ids, shown=people)
    return people


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
    # The two middle ones; with an odd number of people they are the same.
    low, high = places[(len(places) - 1) // 2], places[len(places) // 2]
    return labels.answers[low] if low == high else None


def say_left_out(total: int, reasons: Mapping[str, Sequence[str]], *, what: str, field: str) -> None:
    """Say in one line how many rows or traces have no label of people to go by.

    Raises:
        RecipeError: when none is left.
    """
    parts = [
        f"{len(ids)} {why} ({', '.join(ids[:5])}{', …' if len(ids) > 5 else ''})" for why, ids in reasons.items() if ids
    ]
    count = sum(map(len, reasons.values()))
    if count:
        line = f"{count} of {total} {what} were left out under {field!r}: {', '.join(parts)}."
        if count == total:
            raise RecipeError(f"{line} None is left.")
        warnings.warn(line, JrhWarning, stacklevel=3)


def people_of(suite: Suite) -> pd.DataFrame:
    """Return people's labels of a suite's baselines in long form: `item`, `rater`, `label`; empty where it has none."""
    rows = [
        (item.id, who, label)
        for item in suite.items
        if item.condition == BASELINE
        for who, label in (item.meta.get(PEOPLE) or {}).items()
    ]
    frame: pd.DataFrame = pd.DataFrame(rows, columns=["item", "rater", "label"], dtype=object)
    return frame
