"""What a pointwise judge may answer: the labels, their order, and what can be measured with them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from jrh_mlflow.errors import CallsError

KNOWN_PAIRS = (
    ("no", "yes"),
    ("fail", "pass"),
    ("false", "true"),
    ("incorrect", "correct"),
    ("bad", "good"),
    ("safe", "unsafe"),
    ("harmless", "harmful"),
    ("negative", "positive"),
    ("no violation", "violation"),
)
"""Two labels whose order goes without saying: the positive one, which is to be detected, is the second."""
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """The labels of a suite, low to high; of two labels the positive one is the last."""

    labels: tuple[str, ...]
    ordered: bool
    """False when neither the caller nor the labels themselves say which is higher."""

    @property
    def kind(self) -> Literal["binary", "ordinal", "nominal"]:
        """`binary`: two labels; `ordinal`: three or more whole numbers; `nominal`: everything else."""
        if len(self.labels) == 2:
            return "binary"
        whole = all(is_number(label) and float(label).is_integer() for label in self.labels)
        return "ordinal" if len(self.labels) > 2 and whole else "nominal"

    def places(self, answers: npt.NDArray[np.object_]) -> npt.NDArray[np.float64]:
        """Place of each answer among the labels; NaN for what is no label."""
        place = {label: float(index) for index, label in enumerate(self.labels)}
        return np.array([place.get(answer, np.nan) for answer in answers], dtype=float)

    def levels(self, answers: npt.NDArray[np.object_]) -> npt.NDArray[np.float64]:
        """Each answer as a number, for ordinal labels; NaN for what is no label."""
        level = {label: float(label) for label in self.labels}
        return np.array([level.get(answer, np.nan) for answer in answers], dtype=float)


def is_number(text: str) -> bool:
    """Tell `4`, `-1` and `2.5` from words; `nan`, `1e3` and `１` are words."""
    return _NUMBER.fullmatch(text) is not None


def plain(text: str) -> str:
    """Spell a whole number in one way: `3.0` is `3`. Other text stays as it is."""
    return str(int(float(text))) if is_number(text) and float(text).is_integer() else text


def scale_of(values: Iterable[str], labels: Sequence[str] | None) -> Scale:
    """Take the labels as given, or infer them from the expected and given answers.

    Inferred: numbers in their order; a pair of `KNOWN_PAIRS`, whatever the case; else sorted, with unknown order.

    Raises:
        CallsError: when an answer is none of the given labels.
        ValueError: when the given labels are fewer than two, or repeat one.
    """
    found = {plain(value) for value in values if value}
    if labels is None:
        return _inferred(found)
    given = tuple(plain(str(label)) for label in labels)
    if len(given) < 2 or len(set(given)) < len(given):
        raise ValueError(f"`labels` must be two or more different ones, but got {tuple(labels)}.")
    strange = sorted(found - set(given))
    if strange:
        raise CallsError(
            f"{', '.join(map(repr, strange[:5]))} stand(s) in `answer` or `expected` but is none of the labels "
            f"{', '.join(given)}. An answer outside the labels has the outcome unparsed."
        )
    return Scale(labels=given, ordered=True)


def _inferred(found: set[str]) -> Scale:
    if found and all(is_number(value) for value in found):
        return Scale(labels=tuple(sorted(found, key=float)), ordered=True)
    spelled = {value.casefold(): value for value in found}
    for pair in KNOWN_PAIRS:
        if len(found) == 2 and set(spelled) == set(pair):
            return Scale(labels=(spelled[pair[0]], spelled[pair[1]]), ordered=True)
    return Scale(labels=tuple(sorted(found)), ordered=False)
