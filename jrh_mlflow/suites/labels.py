"""Labels and scales of a user's dataset, as given or read off the data."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.items import Labels
from jrh_mlflow.suites.dataset import LABELLER, is_missing, refuse_rows
from jrh_mlflow.text import clean_text

MAX_ANSWERS = 101
"""A scale from 0 to 100. More answers mean a wrong column, or measurements that are no labels."""

_NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]{0,14})(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?", re.IGNORECASE)
"""Leading zeros make a code, not a number: `01` is not 1."""

_PAIRS = """
no/yes n/y false/true f/t off/on fail/pass failed/passed failure/success incorrect/correct wrong/right bad/good
invalid/valid reject/accept rejected/accepted disagree/agree worse/better low/high irrelevant/relevant
unhelpful/helpful unfaithful/faithful unsupported/supported unacceptable/acceptable unsatisfied/satisfied unmet/met
negative/positive safe/unsafe harmless/harmful unharmful/harmful benign/harmful benign/malicious non-toxic/toxic
nontoxic/toxic ham/spam no_violation/violation not_violated/violated not_harmful/harmful not_toxic/toxic
"""
_LAST = {frozenset(pair.split("/")): pair.split("/")[1] for pair in _PAIRS.split()}
"""Of two well known labels, the better one or the one to be detected."""


def read_labels(
    cells: Sequence[object],
    *,
    column: str,
    ids: Sequence[str] | None,
    labels: Sequence[object] | None = None,
    scale: Sequence[object] | None = None,
    unlabelled: bool = False,
) -> tuple[list[str], Labels]:
    """Return the label of each row in its one spelling, and the labels there are.

    Args:
        cells: The column with the labels.
        column: Its name, for errors.
        ids: Of the rows, for errors.
        labels: Allowed labels, the better one or the one to be detected last.
        scale: Lowest and highest of the whole-numbered levels, or three or more levels from low to high.
        unlabelled: A cell may be empty, and so is its label then.
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
    filled = [cell for cell, empty in zip(cells, missing, strict=True) if not empty]
    allowed = allowed or _inferred(filled, known, column, ids)
    if "tie" in {answer.casefold() for answer in allowed.answers}:
        raise RecipeError(f"Column {column!r} has a label called tie, and a tie is an outcome of pairs. Rename it.")
    # The same number, or the same word whatever its capitals.
    answers = {_key(answer): answer for answer in allowed.answers}
    matches = {text: answers[_key(text)] for text in set(known) if _key(text) in answers}
    outside = [text not in matches and text != "" for text in texts]
    refuse_rows(column, f"must hold one of {_listed(allowed.answers)}", outside, ids=ids, shown=cells)
    return [matches.get(text or "", "") for text in texts], allowed


def label_text(cell: object) -> str | None:
    """Return a cell as the text of a label: 3.0 is `3`, False is `false`; None for what is no label.

    Example:
        >>> [label_text(cell) for cell in (3.0, 0.5, False, " NA ", float("inf"), [1])]
        ['3', '0.5', 'false', 'NA', None, None]
    """
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell)).lower()
    if isinstance(cell, str):
        return clean_text(cell).strip() or None
    if isinstance(cell, int | np.integer):
        return str(int(cell))
    if isinstance(cell, float | np.floating | Decimal) and math.isfinite(cell):
        return _number_text(float(str(cell)))
    return None


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
    return _key(label_text(cell) or "")


def _given(labels: Sequence[object] | None, scale: Sequence[object] | None) -> Labels | None:
    if labels is not None and scale is not None:
        raise RecipeError("Give `labels` or `scale`, not both: a scale has an order, labels have none.")
    if labels is not None:
        answers = _spelled(labels, "labels")
        if len(answers) < 2:
            raise RecipeError(f"`labels` must list two labels or more, but got {labels!r}.")
        return Labels(answers=answers)
    return None if scale is None else Labels(answers=_levels(scale), ordinal=True)


def _levels(scale: Sequence[object]) -> tuple[str, ...]:
    rule = "`scale` must be the lowest and the highest whole number, or three levels or more from low to high"
    if not _is_list(scale) or any(isinstance(level, bool | np.bool_) for level in scale):
        raise RecipeError(f"{rule}, but got {scale!r}.")
    ends = [int(end) for end in scale if isinstance(end, int | np.integer)]
    if len(scale) == len(ends) == 2 and ends[0] < ends[1]:
        return _whole_levels(ends[0], ends[1], "`scale`")
    answers = _spelled(scale, "scale")
    numbers = [number for level in answers if (number := _number(level)) is not None]
    if len(answers) < 3 or numbers != sorted(numbers):
        raise RecipeError(f"{rule}, but got {scale!r}.")
    return answers


def _spelled(values: Sequence[object], name: str) -> tuple[str, ...]:
    """Return given labels as text, each once."""
    texts = [label_text(value) for value in values] if _is_list(values) else []
    if not texts or None in texts:
        raise RecipeError(f"`{name}` must list labels (text or numbers), but got {values!r}.")
    answers = tuple(text for text in texts if text is not None)
    if len({_key(answer) for answer in answers}) < len(answers):
        raise RecipeError(f"`{name}` must list each label once, whatever its capitals, but got {values!r}.")
    return answers


def _inferred(cells: Sequence[object], texts: Iterable[str], column: str, ids: Sequence[str] | None) -> Labels:
    booleans = [isinstance(cell, bool | np.bool_) for cell in cells]
    if any(not isinstance(cell, str | bool | np.bool_) for cell in cells):
        refuse_rows(column, "must hold numbers or booleans and not both", booleans, ids=ids, shown=cells)
    distinct = sorted(set(texts))
    numbers = {number for text in distinct if (number := _number(text)) is not None}
    if all(_number(text) is not None for text in distinct):
        answers = tuple(_number_text(number) for number in sorted(numbers))
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
    spelling = {_key(text): text for text in reversed(distinct)}
    plain = {text: re.sub(r"[\s_]+", "_", text.casefold()) for text in spelling.values()}
    last = _LAST.get(frozenset(plain.values()))
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


def _key(text: str) -> float | str:
    """Return what two spellings of one label share."""
    number = _number(text)
    return text.casefold() if number is None else number


def _number(text: str) -> float | None:
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    return number if math.isfinite(number) else None


def _number_text(number: float) -> str:
    return str(int(number)) if number.is_integer() else repr(number)


def _listed(answers: Sequence[str]) -> str:
    shown = answers if len(answers) <= 12 else (*answers[:5], "…", answers[-1])
    return ", ".join(" ".join(answer.split()) for answer in shown)
