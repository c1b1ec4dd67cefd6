"""Rubrics that a suite is judged by: one text, or several under ids of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import RecipeError, suggest

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
    if isinstance(given, str) and (listed := _as_list(given)) is not None:
        given = listed
    if isinstance(given, Mapping):
        found = [Rubric(id=_checked_id(name), text=checked_text(text, about)) for name, text in given.items()]
    elif isinstance(given, Sequence) and not isinstance(given, str):
        found = [_from_entry(entry, about) for entry in given]
    else:
        found = [Rubric(id="", text=checked_text(given, about))]
    return _wanted(found, wanted, about)


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
        levels=_levels(entry["id"], levels) if levels else None,
    )


def _levels(name: object, entries: Any) -> dict[int, str]:
    rule = f"`score_levels` of the rubric {name!r} must be {{score, label}} with whole numbers in a row"
    try:
        levels = {int(entry["score"]): str(entry["label"]) for entry in entries}
    except (KeyError, TypeError, ValueError) as error:
        raise RecipeError(f"{rule}, but are {entries!r}.") from error
    low = min(levels)
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


def _wanted(found: Sequence[Rubric], wanted: object, about: str) -> tuple[Rubric, ...]:
    ids = [rubric.id for rubric in found]
    if not found or len(set(ids)) < len(ids):
        raise RecipeError(f"`rubric` must be one question about {about} or several, each with an id of its own.")
    if wanted is None:
        return tuple(found)
    names = wanted.split(",") if isinstance(wanted, str) else wanted
    chosen = [str(name).strip() for name in (names if isinstance(names, Iterable) else [names])]
    for name in chosen:
        if name not in ids or not name:
            listed = ", ".join(filter(None, ids)) or "none, as it is given as a text"
            raise RecipeError(
                f"There is no rubric {name!r}.{suggest(name, filter(None, ids))} Ids there are: {listed}."
            )
    return tuple(rubric for rubric in found if rubric.id in chosen)
