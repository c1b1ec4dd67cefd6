"""Labels of people and of a judge in long form, read as a table of items × raters."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.schema.label_words import BOOLEAN_PAIRS, BOOLEANS, label_key, label_of_number, label_text
from jrh_mlflow.stats import Array, Codes, Mask

LabelKind = Literal["nominal", "ordinal", "numeric"]
GivenScale = Sequence[object] | Literal["numeric"] | None
"""Ordered labels, low to high; `numeric`, or the pair (lowest, highest) of a numeric scale; None: nominal."""

IS_JUDGE = "is_judge"
"""Column that, where a table has it, tells the judge's rows from those of people."""
MOST_LEVELS = 101
"""A scale from 0 to 100; numbers over a wider range are measurements, not levels."""


@dataclass(frozen=True, kw_only=True)
class Ratings:
    """Labels of people, and of one judge, on the same items."""

    items: tuple[str, ...]
    people: tuple[str, ...]
    judge: str | None
    """None: people alone."""
    values: Array
    """Items × people: the place of the label in `levels`, for numeric labels the number itself; NaN: none given."""
    judge_values: Array
    """One per item, as `values`."""
    levels: tuple[str, ...]
    """Labels as text: ordinal from low to high. Numeric: the whole numbers of the scale; none where labels are not."""
    kind: LabelKind
    groups: tuple[str | None, ...] | None = None
    """Group of each item; None: not asked for."""
    clusters: Codes | None = None
    """Number of what each item was sampled with (session, document, source); None: each item stands for itself."""
    notes: tuple[str, ...] = ()

    @property
    def n_items(self) -> int:
        """Items with a label of anybody."""
        return len(self.items)

    def subset(self, kept: Mask) -> Ratings:
        """Return the ratings of some items, with the same people and levels."""
        groups = None if self.groups is None else tuple(np.array(self.groups, dtype=object)[kept])
        items = tuple(np.array(self.items, dtype=object)[kept])
        clusters = None if self.clusters is None else self.clusters[kept]
        values, judge_values = self.values[kept], self.judge_values[kept]
        return replace(self, items=items, values=values, judge_values=judge_values, groups=groups, clusters=clusters)

    def label(self, value: float) -> str | None:
        """Write a value as its label; None for NaN.

        A reference of numeric labels may be a number that nobody gave.
        """
        if math.isnan(value):
            return None
        return label_of_number(value) if self.kind == "numeric" else self.levels[int(value)]

    def level_codes(self, values: Array) -> Array:
        """Return the places in `levels`; NaN for a number that is no level."""
        if self.kind != "numeric":
            return values
        if not self.levels:
            return np.full_like(values, np.nan)
        return np.where(values == np.floor(values), values - float(self.levels[0]), np.nan)


def read_ratings(
    frame: pd.DataFrame,
    *,
    judge: str | None = None,
    scale: GivenScale = None,
    group: str | None = None,
    cluster: str | None = None,
    called: Mapping[str, str] | None = None,
) -> Ratings:
    """Read a table in long form: one row per item and rater.

    Labels are read as everywhere: 3, 3.0 and `3` are one label, `Yes` and `yes` too. Rows without a label are no
    rating. A column `is_judge`, where there is one, marks the judge's rows.

    Args:
        frame: The table, with the columns `item`, `rater` and `label`.
        judge: The rater that is the judge; None: people alone, or the one rater that `is_judge` marks.
        scale: Ordered labels, low to high, for ordinal labels; `numeric` or (lowest, highest) for numbers.
        group: Column with the group of the item.
        cluster: Column with what the item was sampled with; an item without one stands for itself.
        called: Column to how the user calls it, for errors.

    Raises:
        RecipeError: in one line, when a row has no item or rater, there are fewer than two
            raters, the judge is unknown or also a person, nobody shares an item, a rater gave one item two labels,
            or a label is outside the scale.
    """
    given = _has_label(frame["label"])
    shown = {name: name for name in ("item", "rater", "label", group or "", cluster or "")} | dict(called or {})
    _refuse_odd_labels(frame["label"], given, shown["label"])
    rows = frame.loc[given]
    if not len(rows):
        where = f"column {shown['label']!r}"
        raise RecipeError(f"No row has a label in {where}: give a table with one row per item and rater.")
    raters, items = (_names(rows[name], shown[name]) for name in ("rater", "item"))
    judge = _find_judge(raters, judge, judge_marks(rows[IS_JUDGE]) if IS_JUDGE in rows else None)
    labels = _Labels.read(rows["label"], scale)
    table = _pivot(items, raters, labels, judge=judge)
    people = tuple(name for name in raters.texts if name != judge)
    at = [raters.texts.index(name) for name in people]
    ratings = Ratings(
        items=items.texts,
        people=people,
        judge=judge,
        values=table[:, at],
        judge_values=table[:, raters.texts.index(judge)] if judge else np.full(len(table), np.nan),
        levels=labels.levels,
        kind=labels.kind,
        groups=_groups(_Column.read(rows[group]), items, shown[group]) if group else None,
        clusters=_clusters(_groups(_Column.read(rows[cluster]), items, shown[cluster])) if cluster else None,
        notes=(*labels.notes, *_row_notes(items, raters, n_empty=int((~given).sum()))),
    )
    _check_overlap(ratings)
    _check_labels(ratings)
    return ratings


@dataclass(frozen=True, kw_only=True)
class _Column:
    """Cells as texts; every text once, in the order in which they come."""

    codes: Codes
    """Place of each cell in `texts`; -1: no text."""
    texts: tuple[str, ...]

    @classmethod
    def read(cls, cells: pd.Series[Any]) -> _Column:
        plain: list[Any] = cells.tolist()
        alike: Any = cells
        if pd.api.types.infer_dtype(cells, skipna=True) not in _ONE_TYPE:
            # True and 1 are equal in Python but not one label; lists cannot be looked up at all.
            alike = np.empty(len(plain), dtype=object)
            alike[:] = [f"{type(cell).__name__} {cell!r}" for cell in plain]
        codes = pd.factorize(alike)[0]
        given = np.flatnonzero(codes >= 0)
        first = given[np.unique(codes[given], return_index=True)[1]]
        # Several cells may have one text, and some have none.
        merged, texts = pd.factorize(np.array([_text(plain[place]) for place in first], dtype=object))
        # The last entry is what the code -1 leads to: no text.
        return cls(codes=np.append(merged, -1)[codes].astype(np.intp), texts=tuple(texts))


def _text(cell: object) -> str | None:
    """Return the text of a cell; accents, which are typed in two ways that look alike, in one of them."""
    text = label_text(cell)
    return None if text is None else unicodedata.normalize("NFC", text)


_ONE_TYPE = ("string", "integer", "floating", "boolean")


def _has_label(cells: pd.Series[Any]) -> Mask:
    if _are_numbers(cells):
        return np.asarray(np.isfinite(cells.to_numpy(dtype=float, na_value=np.nan)))
    return np.asarray(_Column.read(cells).codes >= 0)


def _are_numbers(cells: pd.Series[Any]) -> bool:
    # pandas counts booleans as numeric.
    return pd.api.types.is_numeric_dtype(cells) and not pd.api.types.is_bool_dtype(cells)


def _refuse_odd_labels(cells: pd.Series[Any], given: Mask, column: str) -> None:
    """Refuse cells that are neither a label nor empty."""
    for place in np.flatnonzero(~given):
        cell = cells.iloc[place]
        # `isna` of a list is an array, which has no truth value.
        empty = isinstance(cell, str) or (np.ndim(cell) == 0 and bool(pd.isna(cell)))
        if not empty:
            raise RecipeError(
                f"Row {place + 1}: column {column!r} must hold texts, finite numbers or booleans, but has {cell!r}."
            )


def _names(cells: pd.Series[Any], column: str) -> _Column:
    names = _Column.read(cells)
    empty = np.flatnonzero(names.codes < 0)
    if len(empty):
        raise RecipeError(f"Row {cells.index[empty[0]]}: column {column!r} is empty; every label needs its {column}.")
    return names


def judge_marks(cells: Iterable[object]) -> Mask:
    """Read the marks of the judge's rows; in a file they are words."""
    return np.array([label_key(_text(cell) or "") in ("true", "yes", 1.0) for cell in cells], dtype=bool)


def _find_judge(raters: _Column, judge: str | None, is_judge: Mask | None) -> str | None:
    """Return who the judge is; the marks of `is_judge` and the name given must agree."""
    marked: list[str] = []
    if is_judge is not None:
        codes = dict.fromkeys(raters.codes[is_judge].tolist())
        _refuse_both([raters.texts[code] for code in np.intersect1d(list(codes), raters.codes[~is_judge]).astype(int)])
        marked = [raters.texts[code] for code in codes]
    if judge is None and len(marked) > 1:
        raise RecipeError(f"The ratings hold {len(marked)} judges: {', '.join(marked)}. Name one with `judge`.")
    name = (marked[0] if marked else None) if judge is None else _text(judge) or ""
    if name is not None and name not in raters.texts:
        known = ", ".join(raters.texts[:12])
        raise RecipeError(f"No rater is called {name!r}.{suggest(name, raters.texts)} Raters: {known}.")
    if marked and name not in marked:
        _refuse_both([str(name)])
    if len(raters.texts) < 2:
        only = raters.texts[0]
        raise RecipeError(f"Agreement needs two raters, but {only!r} is the only one. Add the labels of another.")
    return name


def _refuse_both(names: Sequence[str]) -> None:
    if names:
        raise RecipeError(
            f"{names[0]!r} is the judge and also a person: a judge cannot be its own reference. Give each its own name."
        )


@dataclass(frozen=True, kw_only=True)
class _Labels:
    """Labels as read: their kind, levels and values."""

    kind: LabelKind
    levels: tuple[str, ...]
    values: Array
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, cells: pd.Series[Any], scale: GivenScale) -> _Labels:
        scale = _plain_scale(scale)
        bounds = None if scale is None or isinstance(scale, str) else scale
        numeric = scale == "numeric" or (bounds is not None and _is_range(bounds, cells))
        if numeric and _are_numbers(cells):
            # Measurements may all differ: they need no texts.
            numbers, order = np.unique(cells.to_numpy(dtype=float), return_inverse=True)
            return cls._numeric(order.ravel(), numbers.tolist(), bounds)
        labels = _Column.read(cells)
        read = [label_key(text) for text in labels.texts]
        # Backwards, so that of several spellings the first is kept.
        spelled = dict(zip(reversed(read), reversed(labels.texts), strict=True))
        keys = list(dict.fromkeys(read))
        places = {key: place for place, key in enumerate(keys)}
        codes = np.array([places[key] for key in read], dtype=np.intp)[labels.codes]
        if scale is None:
            return cls._nominal(codes, {key: spelled[key] for key in keys})
        if numeric:
            return cls._numeric(codes, keys, bounds)
        return cls._ordinal(codes, keys, scale)

    @classmethod
    def _nominal(cls, codes: Codes, spelled: Mapping[float | str, str]) -> _Labels:
        if len(spelled) > MOST_LEVELS:
            raise RecipeError(
                f"{len(spelled):,} different labels are too many for names: is it the right column? "
                "Give `scale` if they are numbers."
            )
        if _are_mixed_booleans(spelled):
            values = np.array([_boolean(key) for key in spelled], float)[codes]
            return cls(kind="nominal", levels=_PAIRS[0], values=values, notes=(_BOOLEANS_NOTE,))
        names: dict[float | str, str] = {key: key for pair in _PAIRS if {*spelled} <= {*pair} for key in pair}
        names |= spelled
        # Numbers and words cannot be compared, so the numbers come first.
        ordered = sorted(names, key=lambda key: (isinstance(key, str), key))
        places = np.array([ordered.index(key) for key in spelled], float)
        numbers = [key for key in spelled if not isinstance(key, str)]
        notes = (_NUMBERS_NOTE,) if len(numbers) == len(spelled) > 2 else ()
        return cls(kind="nominal", levels=tuple(names[key] for key in ordered), values=places[codes], notes=notes)

    @classmethod
    def _ordinal(cls, codes: Codes, keys: Sequence[float | str], scale: Sequence[object]) -> _Labels:
        levels = [_text(level) for level in scale]
        if len(levels) < 2 or None in levels:
            raise RecipeError(_NO_SCALE.format(scale))
        places = {label_key(level or ""): place for place, level in enumerate(levels)}
        if len(places) < len(levels):
            raise RecipeError(f"`scale` names a label twice: {', '.join(map(str, levels))}.")
        _refuse_outside([key for key in keys if key not in places], ", ".join(map(str, levels)))
        values = np.array([places[key] for key in keys], float)[codes]
        return cls(kind="ordinal", levels=tuple(map(str, levels)), values=values)

    @classmethod
    def _numeric(cls, codes: Codes, keys: Sequence[float | str], bounds: Sequence[object] | None) -> _Labels:
        words = [key for key in keys if isinstance(key, str)]
        if words:
            raise RecipeError(f"A numeric scale needs numbers, but a label is {words[0]!r}.")
        numbers = np.array(keys, float)
        low, high = (float(str(end)) for end in bounds) if bounds else (numbers.min(), numbers.max())
        outside = [key for key in keys if not low <= float(key) <= high]
        _refuse_outside(outside, f"{label_of_number(float(low))} to {label_of_number(float(high))}")
        whole = (numbers == np.floor(numbers)).all() and high - low < MOST_LEVELS and float(low).is_integer()
        levels = tuple(str(level) for level in range(int(low), int(high) + 1)) if whole else ()
        return cls(kind="numeric", levels=levels, values=numbers[codes])


_PAIRS = BOOLEAN_PAIRS[:2]
"""Answers of yes/no questions: both are levels, also where only one was given."""
_NUMBERS_NOTE = (
    "Labels are numbers but were read as names: give `scale` (the levels from low to high, or `numeric`) "
    "if their distances count."
)


_BOOLEANS_NOTE = "Labels such as yes, true, pass and 1 were read as one, and so were no, false, fail and 0."


def _are_mixed_booleans(keys: Iterable[float | str]) -> bool:
    """Whether every label is a word for True or False, and they are not all words of one pair."""
    words = {_word(key) for key in keys}
    return words <= BOOLEANS.keys() and not any(words <= {*pair} for pair in BOOLEAN_PAIRS)


def _word(key: float | str) -> str:
    return key if isinstance(key, str) else label_of_number(key)


def _boolean(key: float | str) -> bool:
    return BOOLEANS[_word(key)]


def _plain_scale(scale: object) -> GivenScale:
    """Return a scale as a list of plain values: arrays and Series are taken, too."""
    if scale is None or (isinstance(scale, str) and scale == "numeric"):
        return scale
    convert = getattr(scale, "tolist", None)
    plain = convert() if callable(convert) else scale
    if isinstance(plain, str) or not isinstance(plain, Sequence):
        raise RecipeError(_NO_SCALE.format(scale))
    return [level.item() if hasattr(level, "item") else level for level in plain]


_NO_SCALE = "`scale` must list two or more labels from low to high, or be `numeric`, but is {!r}."


def _is_range(scale: Sequence[object], cells: pd.Series[Any]) -> bool:
    """Whether a scale is the two ends of a numeric one: two numbers that are not all the labels there are."""
    numbers = [end for end in scale if isinstance(end, int | float) and not isinstance(end, bool)]
    if not len(scale) == len(numbers) == 2 or not numbers[0] < numbers[1]:
        return False
    # Measurements may all differ: they need no texts.
    given = {*cells.unique()} if _are_numbers(cells) else {label_key(text) for text in _Column.read(cells).texts}
    return not given <= {*map(float, numbers)}


def _refuse_outside(keys: Sequence[float | str], scale: str) -> None:
    if keys:
        shown = ", ".join(map(_word, keys[:5]))
        raise RecipeError(
            f"{len(keys)} label(s) outside the scale {scale}: {shown}. Correct them, or give their scale."
        )


def _pivot(items: _Column, raters: _Column, labels: _Labels, *, judge: str | None) -> Array:
    """Return items × raters; a rater with two different labels on one item is refused."""
    cells = items.codes * len(raters.texts) + raters.codes
    table = np.full(len(items.texts) * len(raters.texts), np.nan)
    table[cells] = labels.values
    # Of two labels in one cell the last one stands, so that the other differs from it.
    clash = np.flatnonzero(table[cells] != labels.values)
    if len(clash):
        name, where = raters.texts[raters.codes[clash[0]]], items.texts[items.codes[clash[0]]]
        hint = " Is the judge also a person here? Then give each a name of its own." if name == judge else ""
        raise RecipeError(f"{name!r} gave item {where!r} two different labels: keep one of them.{hint}")
    return table.reshape(len(items.texts), len(raters.texts))


def _groups(groups: _Column, items: _Column, column: str) -> tuple[str | None, ...]:
    """Return the group of each item; an item in two groups is refused."""
    rows = np.flatnonzero(groups.codes >= 0)
    of_item = np.full(len(items.texts), -1, dtype=np.intp)
    of_item[items.codes[rows]] = groups.codes[rows]
    clash = rows[of_item[items.codes[rows]] != groups.codes[rows]]
    if len(clash):
        item, first = items.texts[items.codes[clash[0]]], groups.texts[groups.codes[clash[0]]]
        second = groups.texts[of_item[items.codes[clash[0]]]]
        raise RecipeError(f"Item {item!r} is in two groups of column {column!r}: {first!r} and {second!r}. Keep one.")
    return tuple(groups.texts[code] if code >= 0 else None for code in of_item)


def _clusters(names: Sequence[str | None]) -> Codes | None:
    """Number the clusters; None where no two items are of one."""
    places: dict[object, int] = {}
    # The place of an item without a cluster is its own name.
    codes = [places.setdefault(place if name is None else name, len(places)) for place, name in enumerate(names)]
    return None if len(places) == len(codes) else np.array(codes, dtype=np.intp)


def _row_notes(items: _Column, raters: _Column, *, n_empty: int) -> list[str]:
    n_repeated = len(items.codes) - len(np.unique(items.codes * len(raters.texts) + raters.codes))
    notes = [f"{n_repeated} rating(s) were given twice and count once."] if n_repeated else []
    return [*notes, f"{n_empty} row(s) without a label were left out."] if n_empty else notes


def _check_overlap(ratings: Ratings) -> None:
    given = ~np.isnan(ratings.values)
    if ratings.judge is None:
        if not (given.sum(axis=1) >= 2).any():
            raise RecipeError("No item has labels of two people: agreement needs items that two of them labelled.")
    elif not (given.any(axis=1) & ~np.isnan(ratings.judge_values)).any():
        raise RecipeError(
            f"The judge {ratings.judge!r} and the people share no item: check that both use the same item ids."
        )


def _check_labels(ratings: Ratings) -> None:
    """Refuse a judge and people who never gave the same label: they answered something else, or in other words."""
    if ratings.kind != "nominal" or ratings.judge is None:
        return
    judge, people = (
        [ratings.levels[int(code)] for code in np.unique(values[~np.isnan(values)])]
        for values in (ratings.judge_values, ratings.values)
    )
    # One label on each side may be plain disagreement, and so may be the two answers of one question.
    one_question = {_word(label_key(label)) for label in (*judge, *people)} <= BOOLEANS.keys()
    if set(judge) & set(people) or len(judge) == len(people) == 1 or one_question:
        return
    ours, theirs = (", ".join(labels[:5]) + (", …" if len(labels) > 5 else "") for labels in (judge, people))
    raise RecipeError(
        f"The judge says {ours}, the people say {theirs}: no label in common. Write both with the same labels."
    )


# --- measuring


def positive_level(ratings: Ratings, positive: object) -> int | None:
    """Return the place of the positive label; None where none is known."""
    keys = [label_key(text) for text in ratings.levels]
    if positive is None:
        known = [key for pair in _PAIRS if {*keys} == {*pair} for key in pair[1:]]
        return keys.index(known[0]) if known else None
    text = _text(positive)
    if text is not None and {*keys} == {*_PAIRS[0]} and _word(label_key(text)) in BOOLEANS:
        return keys.index(_PAIRS[0][_boolean(label_key(text))])
    if text is None or label_key(text) not in keys:
        shown = ", ".join(ratings.levels[:12]) or "numbers without levels"
        raise RecipeError(
            f"Nobody gave the positive label {positive!r}.{suggest(str(text), ratings.levels)} Labels: {shown}."
        )
    return keys.index(label_key(text))
