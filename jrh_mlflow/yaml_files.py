"""YAML that users write: recipes, pipelines, spaces of sweeps and policies of gates are all read as a `Document`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import UnionType
from typing import Any

import yaml

from jrh_mlflow.errors import RecipeError, check_known, suggest
from jrh_mlflow.text import given_text

_ADDRESS = re.compile("(runs|datasets|prompts|scorers):/")
"""At MLflow, and no file beside the document."""

_MOST_VALUES = 1_000_000

_code_refused: ContextVar[Callable[[], str | None] | None] = ContextVar("jrh_code_refused", default=None)
"""Says why code that a file names is not run; None from Python, where files are the caller's."""


@contextmanager
def code_refused(why: Callable[[], str | None]) -> Iterator[None]:
    """Run no code that files name while the block runs, for the reason that is then given; None: run it."""
    token = _code_refused.set(why)
    try:
        yield
    finally:
        _code_refused.reset(token)


class _Loader(yaml.SafeLoader):
    """YAML in which the labels `no` and `yes` are words, as they are in the data: YAML itself reads booleans."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Take what stands under `labels` and `scale` as it is written."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        for key, value in node.value:
            if key.value in ("labels", "scale"):
                _as_written(value)
        return node

    def get_single_node(self) -> yaml.Node | None:
        """Refuse a few lines whose aliases stand for a billion values."""
        node: yaml.Node | None = super().get_single_node()
        if node is not None and _size(node, {}) > _MOST_VALUES:
            raise yaml.YAMLError(f"its aliases stand for more than {_MOST_VALUES:,} values")
        return node


def _parts(node: yaml.Node) -> Iterator[yaml.Node]:
    # The parts of a sequence are nodes, those of a mapping are pairs of nodes.
    for part in node.value if isinstance(node, yaml.CollectionNode) else ():
        yield from part if isinstance(part, tuple) else (part,)


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Return how many values a node stands for, those of its aliases each time; too many for one inside itself."""
    if id(node) not in known:
        known[id(node)] = _MOST_VALUES + 1
        known[id(node)] = 1 + sum(_size(part, known) for part in _parts(node))
    return known[id(node)]


def _as_written(node: yaml.Node) -> None:
    for part in _parts(node):
        _as_written(part)
    if node.tag == "tag:yaml.org,2002:bool" and node.value.lower() not in ("true", "false"):
        node.tag = "tag:yaml.org,2002:str"


def read_yaml(path: Path) -> object:
    """Read a YAML file.

    Raises:
        RecipeError: when it cannot be read, or is none.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a SafeLoader
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise RecipeError(f"{path} cannot be read: {' '.join(str(error).split())}.") from error


class Document:
    """A mapping that a user wrote, and where: every error about it is `WHERE: what is wrong. What to do.`.

    Raises:
        RecipeError: when it is no mapping, or naming the key that is not known and the nearest that is.

    Example:
        >>> Document({"judge": "x"}, ["judge"], where="mine.yaml").inside("judge", "x", [])
        Traceback (most recent call last):
        jrh_mlflow.errors.RecipeError: mine.yaml, judge: a mapping was expected, not str.
    """

    def __init__(self, data: object, known: Iterable[str], *, where: str, folder: Path | None = None) -> None:
        known = tuple(known)
        self.where = where
        """`FILE`, or `FILE, place`."""
        self.folder = folder or Path()
        """What the files that it names are relative to."""
        if not isinstance(data, Mapping):
            raise self.error(f"a mapping was expected, not {type(data).__name__}.")
        for key in data:
            if key not in known:
                raise self.error(f"unknown key {key!r}.{suggest(str(key), known)} Known: {', '.join(known)}.")
        self.data: dict[str, Any] = dict(data)

    @classmethod
    def read(cls, path: str | Path, known: Iterable[str]) -> Document:
        """Read a file; what it names is relative to its folder."""
        return cls(read_yaml(Path(path)), known, where=str(path), folder=Path(path).parent)

    def inside(self, place: str, data: object, known: Iterable[str]) -> Document:
        """Return what stands at a place of the document as a document of its own."""
        return Document(data, known, where=self._at(place), folder=self.folder)

    def error(self, problem: str) -> RecipeError:
        """Return what is raised about the document."""
        return RecipeError(f"{self.where}: {problem}")

    @contextmanager
    def named(self, place: str = "") -> Iterator[None]:
        """Say of a value that others refuse where it is written."""
        try:
            yield
        except (RecipeError, ValueError, TypeError) as error:
            raise RecipeError(f"{self._at(place)}: {error}") from error

    def _at(self, place: str) -> str:
        return f"{self.where}, {place}" if place else self.where

    def demand(self, *keys: str) -> None:
        """Refuse a document without these keys."""
        for key in keys:
            if key not in self.data:
                raise RecipeError(f"{self.where} has no `{key}`.")

    def value(self, key: str, kind: type | UnionType, rule: str, advice: str = "", *, needed: bool = False) -> Any:
        """Return what stands under a key, None where nothing does; what is of another type breaks the rule."""
        value = self.data.get(key)
        if not isinstance(value, kind | None) or (needed and not value):
            raise self.error(f"`{key}` must be {rule}, but is {value!r}.{advice}")
        return value

    def choice(self, key: str, among: tuple[str, ...]) -> str:
        """Return one of a few words, the first of them where it has none."""
        value = str(self.data.get(key, among[0]))
        with self.named():
            check_known(f"value of `{key}`", value, among)
        return value

    def text(self, value: object, what: str) -> Any:
        """Return a text that may also be written as `@FILE` or `{file: NAME}`; what is no text stays as it is."""
        if not isinstance(value, str | Mapping):
            return value
        # What somebody else wrote must not send a file of the user's to a server of its choice.
        inside = _code_refused.get() is not None
        with self.named():
            return given_text(value, what=what, folder=self.folder, inside=inside)

    def code(self, text: str) -> str:
        """Return where code that the document names lies, as `beside` does; called inside `named`.

        Raises:
            RecipeError: where code of files is not to be run.
        """
        refused = _code_refused.get()
        if refused and (why := refused()):
            raise RecipeError(f"{text} is code, and {why}.")
        return self.beside(text)

    def beside(self, text: str) -> str:
        """Return a file of its folder (or `file.py:name`, `file.xlsx#sheet`) as seen from here; else the text."""
        if _ADDRESS.match(text):
            return text
        # A sheet is named after `#`, a function of a file after `:`; only the file itself may lie in the folder.
        file, mark, name = text.partition("#" if ".xlsx#" in text else ":")
        path = self.folder / file
        return f"{path}{mark}{name}" if path.exists() else text
