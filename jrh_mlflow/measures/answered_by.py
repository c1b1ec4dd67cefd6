"""Who really answered: the models and systems that the responses name, with counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

_MOST, _LONGEST = 10, 80
"""Answerers that a text names, and characters of a name: a hostile server may send another one with each call."""
_UNUSUAL = re.compile(r"[^\w.:/@+-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Answerer:
    """One model, as it calls itself."""

    model: str
    system_fingerprint: str | None
    """What the provider says of the system behind it, where it says it."""
    calls: int

    @property
    def name(self) -> str:
        """The model, with the system behind it."""
        return f"{self.model} ({self.system_fingerprint})" if self.system_fingerprint else self.model


def answerers(calls: pd.DataFrame) -> list[Answerer]:
    """Return who answered, the most frequent first; a call that failed was answered by nobody."""
    answered = calls[calls["outcome"] != "error"]
    # Runs of before there was such a column have none.
    nothing = pd.Series(None, index=answered.index, dtype=object)
    systems = answered.get("system_fingerprint", nothing)
    counts = Counter[tuple[str, str | None]]()
    # Each pair of names is cleaned once, however many calls it answered.
    for (model, system), n in Counter(zip(answered["model"], systems, strict=True)).items():
        counts[_plain(model) or "unnamed", _plain(system)] += n
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0][0], one[0][1] or ""))
    return [Answerer(model=model, system_fingerprint=system, calls=n) for (model, system), n in ranked]


def answered_by_text(found: Sequence[Answerer]) -> str:
    """Name everybody in one line.

    Example:
        >>> answered_by_text([Answerer(model="gpt-4o-mini-2024-07-18", system_fingerprint="fp_ab12", calls=400)])
        'gpt-4o-mini-2024-07-18 (fp_ab12): 400'
    """
    shown = [f"{one.name}: {one.calls}" for one in found[:_MOST]]
    others = found[_MOST:]
    return ", ".join([*shown, f"{len(others)} others: {sum(one.calls for one in others)}"] if others else shown)


def are_several(found: Sequence[Answerer]) -> bool:
    """Whether more than one model or system answered; a system that is not named may be the one that is."""
    systems = {one.system_fingerprint for one in found} - {None}
    return len({one.model for one in found}) > 1 or len(systems) > 1


def _plain(name: object) -> str | None:
    """Return a name from a server as it may stand in params, Markdown and pages."""
    if not isinstance(name, str):
        return None
    text = _UNUSUAL.sub("?", name.strip()[: 4 * _LONGEST])
    return (text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…") or None
