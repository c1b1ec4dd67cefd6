"""What a writer returned becomes the text it wrote, or the reason why it is set aside.

Models wrap: a preface, a closing remark, JSON, a code fence, quotation marks, tags, their thoughts. Where the structure
is certain the wrapper is taken off, layer by layer; where it is not, the text is set aside. Everything is compared with
the original: what it does itself (JSON, a quotation, `Sure!`, a refusal, `Let me know if …`) is no wrapper, unless the
rewrite does it once more around itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jrh_mlflow.perturb.unwrapping.data_layers import UnclearError, has_the_form_of, text_in_data
from jrh_mlflow.perturb.unwrapping.leftovers import left_in, left_in_message, refusal
from jrh_mlflow.perturb.unwrapping.mark_layers import (
    fence,
    markers,
    quoted_lines,
    quotes,
    rule_lines,
    tags,
    thoughts,
    tokens,
)
from jrh_mlflow.perturb.unwrapping.prose_layers import closing, echo, preface

_BLANKS = " \t\r\n\f\v\xa0\u2002\u2003\u2009\u202f\u3000\ufeff\u200b\u200e\u2060"
_MOST_LAYERS = 12
_BEGINNING = 20
"""Characters of a message by which it is known that a preface was put before it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unwrapped:
    """What a writer wrote."""

    text: str
    layers: tuple[str, ...] = ()
    """What was taken off, from the outside: `json`, `code fence`, `preface`, …"""
    problem: str | None = None
    """Why it is set aside, or None."""


def unwrap(text: str, original: str, *, brief: str = "") -> Unwrapped:
    r"""Take off what a writer put around a text, until nothing changes, and say what cannot be taken off.

    Args:
        text: As the writer returned it.
        original: The text it was to rewrite.
        brief: What the writer was told, if anything: it is sometimes repeated.

    Example:
        >>> unwrap('Sure! Here it is:\n{"text": "It rained all day.", "ok": true}', "It was raining all day.")
        Unwrapped(text='It rained all day.', layers=('preface', 'json'), problem=None)
    """
    layers: list[str] = []
    text, original = text.strip(_BLANKS), original.strip()
    if text == original:
        return Unwrapped(text=text)
    try:
        while len(layers) < _MOST_LAYERS and (taken := _outermost(text, original)):
            text, layers = taken[1].strip(_BLANKS), [*layers, taken[0]]
        problem = left_in(text, original, brief)
    except UnclearError as unclear:
        problem = refusal(text, original) or str(unclear)
    return Unwrapped(text=text, layers=tuple(layers), problem=problem)


def wrapping(text: str, original: str) -> str | None:
    """Say what is around a text that must be bare, or None."""
    done = unwrap(text, original)
    return f"wrapped in {done.layers[0]}" if done.layers else done.problem


def around_a_message(text: str, original: str, *, data: bool = False) -> str | None:
    """Say what is around an edited message of a transcript, or None; `data` may be JSON, cut or in any language.

    A message says `Sure!` and `Let me know` by right, so only what stands on lines of its own is a remark.
    """
    text, original = text.strip(), original.strip()
    layers = [(name, layer) for name, layer in _LAYERS if not (data and name in _DATA)]
    try:
        layers = [] if has_the_form_of(text, original) else layers
        for name, layer in layers if original else layers[:_N_STRUCTURES]:
            inner = layer(text, original) if text != original else None
            if inner is None:
                continue
            apart = "\n" in text.replace(inner.strip(), "") or _outermost(inner.strip(), original) is not None
            if name not in _WORDY or apart or inner.strip().startswith(original[:_BEGINNING]):
                return f"wrapped in {name}"
    except UnclearError as unclear:
        return None if " remark of the generator" in str(unclear) else str(unclear)
    return left_in_message(text, original, data=data) if original else None


def _outermost(text: str, original: str) -> tuple[str, str] | None:
    """Return the name of the outermost layer and the text without it."""
    if has_the_form_of(text, original):
        return None
    for name, layer in _LAYERS:
        inner = layer(text, original)
        if inner is not None and inner.strip() != text:
            if not any(map(str.isalnum, inner)):
                raise UnclearError(f"nothing but {name}")
            return name, inner
    return None


def _data(text: str, original: str) -> str | None:
    return text_in_data(text, original) if text[:1] in ("{", "[") else None


def _literal(text: str, original: str) -> str | None:
    return text_in_data(text, original) if text[:1] in ('"', "'") else None


def _fields(text: str, original: str) -> str | None:
    return text_in_data(text, original) if text[:1] not in set("{[\"'") else None


_LAYERS: tuple[tuple[str, Callable[[str, str], str | None]], ...] = (
    ("json", _data),
    ("quotation marks", _literal),
    ("named fields", _fields),
    ("thoughts", thoughts),
    ("special tokens", tokens),
    ("markers", markers),
    ("code fence", fence),
    ("tags", tags),
    ("quotation marks", quotes),
    ("quoted lines", quoted_lines),
    ("rule lines", rule_lines),
    ("echo", echo),
    ("preface", preface),
    ("closing remark", closing),
)


_N_STRUCTURES = [name for name, _ in _LAYERS].index("quoted lines")
"""Layers that are a matter of marks and not of words."""
_DATA = ("json", "named fields")
_WORDY = ("preface", "closing remark")
