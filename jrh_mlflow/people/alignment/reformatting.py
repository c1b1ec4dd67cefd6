"""The short suite of a held-out trace: its output laid out otherwise, by rules that change no word."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from jrh_mlflow.perturb import NotApplicable
from jrh_mlflow.perturb.english import apply
from jrh_mlflow.perturb.format_invariance import Indentation, SpaceClusters, VerticalSpacing

KEY_ORDER = "key_order"
_LAYOUTS = (VerticalSpacing(), SpaceClusters(), Indentation())
Place = tuple[object, ...]
"""Keys and indices that lead to a text inside data."""


def reformatted(outputs: object, number: int, *, seed: int) -> tuple[str, object] | None:
    """Return a rule's name and the outputs it makes, or None where no rule changes them; `number` takes them in turn.

    Of data the longest text is laid out otherwise, or, where it has several keys, these come in another order.

    Example:
        >>> reformatted({"answer": "Yes.", "score": 1}, 3, seed=0)
        ('key_order', {'score': 1, 'answer': 'Yes.'})
    """
    place, text = max(_texts(outputs), key=lambda found: len(found[1]), default=((), ""))
    rules: dict[str, Callable[[], object]] = {
        rule.name: partial(_laid_out, rule, outputs, place, text, f"{seed} {number}")
        for rule in _LAYOUTS
        if text.strip()
    }
    if isinstance(outputs, Mapping) and len(outputs) > 1:
        rules[KEY_ORDER] = lambda: dict(reversed(list(outputs.items())))
    names = list(rules)
    for name in names[number % len(names) :] + names[: number % len(names)] if names else []:
        try:
            made = rules[name]()
        except NotApplicable:
            continue
        if made != outputs or name == KEY_ORDER:
            return name, made
    return None


def longest_text(outputs: object) -> str:
    """Return the longest text of some outputs, empty where there is none."""
    return max((text for _, text in _texts(outputs)), key=len, default="")


def _laid_out(rule: Any, outputs: object, place: Place, text: str, seed: str) -> object:
    additions = rule.additions(text, random.Random(seed))  # noqa: S311 - a layout, not a secret
    return _put(outputs, place, apply(text, additions))


def _texts(value: object, place: Place = ()) -> Iterator[tuple[Place, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, (*place, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _texts(inner, (*place, index))


def _put(value: Any, place: Place, text: str) -> object:
    """Return data with another text at a place."""
    if not place:
        return text
    first, rest = place[0], place[1:]
    if isinstance(value, Mapping):
        return {key: _put(inner, rest, text) if key == first else inner for key, inner in value.items()}
    return [_put(inner, rest, text) if index == first else inner for index, inner in enumerate(value)]
