"""How other tools write a text into a prompt: `{response!json}` in the messages of a judge is the text as MLflow does.

| form | the text is written |
| --- | --- |
| `{response}`, `{response!text}` | as it is |
| `{response!json}` | as JSON, in quotes: MLflow |
| `{response!inspect}` | with the markers of Inspect's templates broken |
| `{response!promptfoo}` | as promptfoo prints it: a text that is JSON is read, and printed as JavaScript does |
| `{first!promptfoo_list}` | the same for an entry of `outputs` |
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

_MARKERS = re.compile(r"\[(BEGIN|END) DATA\]", re.IGNORECASE)
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _inspect(text: str) -> str:
    return _MARKERS.sub(lambda marker: marker[0].replace(" ", "-"), text)


def _no_json(word: str) -> float:
    raise ValueError(word)


def _promptfoo(text: str, *, in_list: bool = False) -> str:
    try:
        value = json.loads(text, parse_int=float, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return text
    # A list on its own is joined by commas; as a part of a list it is JSON again.
    return ",".join(map(_printed, value)) if isinstance(value, list) and not in_list else _printed(value)


def _printed(value: Any) -> str:
    """Print a value as JavaScript does, nothing for null."""
    if value is None or isinstance(value, str):
        return value or ""
    return _number(value) if isinstance(value, float) else _compact(value)


def _number(value: float) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if not value or 1e-6 <= abs(value) < 1e21:
        return format(Decimal(repr(value or 0.0)), "f").removesuffix(".0")
    digits, _, exponent = repr(value).partition("e")
    return f"{digits}e{int(exponent):+d}"


def _compact(value: Any) -> str:
    if isinstance(value, Mapping):
        # JavaScript puts keys that are whole numbers first, in their order.
        named = sorted(value, key=lambda key: (0, int(key)) if _INDEX.fullmatch(key) else (1, 0))
        return "{" + ",".join(f"{_json(key)}:{_compact(value[key])}" for key in named) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_compact, value)) + "]"
    if isinstance(value, float):
        return "null" if math.isinf(value) else _number(value)
    return json.dumps(value, ensure_ascii=False)


TEXT_FORMS: Mapping[str, Callable[[str], str]] = {
    "": str,
    "text": str,
    "json": _json,
    "inspect": _inspect,
    "promptfoo": _promptfoo,
    "promptfoo_list": lambda text: _promptfoo(text, in_list=True),
}
