"""How a test is written down: a name, a name with parameters, or a prompt file, as text or as a mapping.

| on the command line | in Python and YAML |
|---|---|
| `label_flip` | `label_flip` |
| `stochastic_stability:replicates=5:deep_seeds=0` | `{name: stochastic_stability, replicates: 5, deep_seeds: 0}` |
| `@sarcasm.txt:expects=flipped` | `{name: sarcasm, prompt: sarcasm.txt, expects: flipped}` |

In text, commas part tests and `:key=` begins a parameter. A value with a comma, or with such a colon, stands in double
quotes: `@sarcasm.txt:title="dry, biting"`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.perturb._base import ReliabilityTest

_COMMA, _COLON = re.compile(","), re.compile(r":(?=\w{1,40}=)")
_RULES: Mapping[object, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    NoneType: "none",
}
PROMPT_MARK = "@"

T = TypeVar("T", bound=ReliabilityTest)


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenTest:
    """A test as it was written down."""

    name: str | None
    """None where only a prompt file is named, whose own name counts."""
    prompt: str | None = None
    """Path of a prompt file."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """Parameters."""

    @classmethod
    def of(cls, entry: str | Mapping[Any, Any]) -> WrittenTest:
        """Read a text or a mapping.

        Raises:
            RecipeError: when it is neither a name nor a prompt file.
        """
        return cls._of_text(entry.strip()) if isinstance(entry, str) else cls._of_mapping(entry)

    @classmethod
    def _of_text(cls, text: str) -> WrittenTest:
        name, *parts = _split(text, _COLON)
        given = {key: _value(value) for key, _, value in (part.partition("=") for part in parts)}
        if name.startswith(PROMPT_MARK):
            return cls(name=None, prompt=name[1:], given=given)
        if ":" in name:
            form = "name:parameter=value, as in stochastic_stability:replicates=5"
            raise RecipeError(f"A test with parameters is written {form}, but got {text!r}.")
        return cls(name=name, given=given)

    @classmethod
    def _of_mapping(cls, entry: Mapping[Any, Any]) -> WrittenTest:
        name, prompt = entry.get("name"), entry.get("prompt")
        if not isinstance(name or prompt, str):
            form = "{name: stochastic_stability, replicates: 5} or {name: sarcasm, prompt: sarcasm.txt}"
            raise RecipeError(f"A test that is a mapping needs `name`, as in {form}, but got {dict(entry)!r}.")
        given = {str(key): value for key, value in entry.items() if key not in ("name", "prompt")}
        return cls(name=name, prompt=prompt, given=given)


def split_entries(text: str) -> list[str]:
    """Return the tests that are named in one text.

    Example:
        >>> split_entries('typos, @dry.txt:title="dry, biting"')
        ['typos', '@dry.txt:title="dry, biting"']
    """
    return [part.strip() for part in _split(text, _COMMA)]


def _split(text: str, mark: re.Pattern[str]) -> list[str]:
    """Part a text at a mark that does not stand in double quotes."""
    parts = [""]
    for number, piece in enumerate(text.split('"')):
        first, *rest = [f'"{piece}"'] if number % 2 else mark.split(piece)
        parts[-1] += first
        parts += rest
    return parts


def _value(text: str) -> object:
    """Read a value as YAML does: `5` is a number, `true` a truth value, anything else a text."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def with_parameters(test: T, given: Mapping[str, Any]) -> T:
    """Return a test with some of its parameters set.

    Raises:
        RecipeError: for an unknown parameter, with the nearest known one, a value of another kind, or one that breaks
            the test's own rule.
    """
    if not given:
        return test
    known = [setting.name for setting in test.parameters]
    for name in given:
        if name not in known:
            listed = f"Known: {', '.join(known)}." if known else "It has none."
            raise RecipeError(f"Test {test.name!r} has no parameter {name!r}.{suggest(name, known)} {listed}")
    hints = get_type_hints(type(test))
    values = {name: checked_value(name, value, hints[name], of=test.name) for name, value in given.items()}
    assert is_dataclass(test)
    try:
        return replace(test, **values)
    except ValueError as error:
        raise RecipeError(f"Test {test.name!r}: {error}") from error


def checked_value(name: str, value: object, kind: Any, *, of: str) -> object:
    """Return a value that is of a kind: numbers, texts, truth values, choices, tuples of these.

    Raises:
        RecipeError: naming the parameter, the kind and the value.
    """
    if isinstance(value, list):
        value = tuple(value)
    if not _fits(value, kind):
        raise RecipeError(f"Test {of!r}: `{name}` must be {_rule(kind)}, but is {value!r}.")
    # 2 and 2.0 are one setting, and name one budget.
    return float(value) if kind is float and isinstance(value, int) else value


def _fits(value: object, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if origin in (tuple, Sequence):
        return isinstance(value, tuple) and all(_fits(one, inner[0]) for one in value)
    if isinstance(value, bool):
        return kind is bool
    # What another package declares in its own words is left to the test itself.
    return kind not in _RULES or isinstance(value, (int, float) if kind is float else kind)


def _rule(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(map(_rule, inner))
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    return f"a list, each {_rule(inner[0])}" if origin in (tuple, Sequence) else _RULES.get(kind, str(kind))
