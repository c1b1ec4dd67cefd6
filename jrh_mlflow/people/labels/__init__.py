"""The one reader of what people and judges said: tables, files, traces, review queues, evaluations and their runs.

Each source is one file of this folder with an object `SOURCE` (see `LabelSource`); a file that is added is found. All
of them give one long table, `LabelTable`, which is all that agree, correct, passed and align know of a source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

from jrh_mlflow.people.labels._base import (
    CODE,
    JUDGE,
    MODEL,
    PERSON,
    LabelOptions,
    LabelSource,
    LabelTable,
    calibration_labels,
    fact_texts,
    long_frame,
    safe_frame,
)
from jrh_mlflow.people.labels._choosing import chosen_by_people, chosen_by_scorer

__all__ = [
    "CODE",
    "JUDGE",
    "MODEL",
    "PERSON",
    "LabelOptions",
    "LabelSource",
    "LabelTable",
    "calibration_labels",
    "chosen_by_people",
    "chosen_by_scorer",
    "fact_texts",
    "labels_of",
    "long_frame",
]
_TABLES = "tables"
"""Anything may be a table, so that it is asked last."""


def labels_of(source: object, options: LabelOptions | None = None) -> LabelTable:
    """Read what people and judges said, whatever holds it.

    Raises:
        RecipeError: when it cannot be read, in one line.
        TrackingError: when MLflow cannot be reached.
    """
    known = getattr(source, "label_table", source)
    if isinstance(known, LabelTable):
        return known
    chosen = next(each for each in sources() if each.takes(source))
    labels = chosen.read(source, options or LabelOptions())
    return replace(labels, frame=safe_frame(labels.frame))


def sources() -> Iterator[LabelSource]:
    """Yield every source: the files of this folder, tables last."""
    names = sorted((found.name for found in iter_modules(__path__)), key=lambda name: (name == _TABLES, name))
    for name in names:
        if not name.startswith("_"):
            yield import_module(f"{__name__}.{name}").SOURCE
