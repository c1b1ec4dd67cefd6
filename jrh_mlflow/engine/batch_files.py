"""The files of a batch: numbered parts out, requests and results back in, one JSON object per line."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

from jrh_mlflow.engine.batch_outcomes import Outcome, read_result
from jrh_mlflow.engine.lanes._base import safe_text
from jrh_mlflow.engine.lanes._json import decode
from jrh_mlflow.errors import RecipeError

if TYPE_CHECKING:
    from typing_extensions import Self

_MAX_NAME = 64
"""Characters shown of an id that is none of ours; ours have 64, as many as OpenAI allows."""


class NumberedFiles:
    """Writes lines to one file, or to `name-001`, `name-002`, … when they do not fit.

    Used with `with`. The files get their names at the end, so that a broken export is never sent.
    """

    def __init__(self, path: Path, *, max_lines: int, max_bytes: int) -> None:
        if taken := next(iter(_written(path)), None):
            raise RecipeError(f"{taken} exists, and its import may need it. Give another name, or delete it.")
        self.n_lines = self.n_bytes = 0
        self.written: tuple[Path, ...] = ()
        self._path, self._max_lines, self._max_bytes = path, max_lines, max_bytes
        self._drafts: list[Path] = []
        self._file: BinaryIO | None = None
        self._lines_here = self._bytes_here = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with _file_errors(self._path):
                self._close()
                if kind is None:
                    self._name()
        finally:
            for draft in self._drafts:
                draft.unlink(missing_ok=True)

    def add(self, line: bytes) -> None:
        """Write one line, its end included."""
        if len(line) > self._max_bytes:
            raise RecipeError(f"One request has {len(line):,} bytes, but a file may have {self._max_bytes:,}.")
        with _file_errors(self._path):
            full = self._lines_here == self._max_lines or self._bytes_here + len(line) > self._max_bytes
            if self._file is None or full:
                self._file = self._next()
            self._file.write(line)
        self._lines_here, self._bytes_here = self._lines_here + 1, self._bytes_here + len(line)
        self.n_lines, self.n_bytes = self.n_lines + 1, self.n_bytes + len(line)

    def _next(self) -> BinaryIO:
        self._close()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._drafts.append(self._path.with_name(f"{self._path.name}.writing-{len(self._drafts) + 1}"))
        self._lines_here = self._bytes_here = 0
        return self._drafts[-1].open("wb")

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _name(self) -> None:
        several = len(self._drafts) > 1
        names = [_part(self._path, n) if several else self._path for n in range(1, len(self._drafts) + 1)]
        for draft, name in zip(self._drafts, names, strict=True):
            draft.rename(name)
        self.written = tuple(names)


@dataclass(kw_only=True, slots=True)
class Results:
    """What result files say."""

    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    """By `custom_id`; several where a provider failed first and answered later."""
    repeated: int = 0
    unknown: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    cut_short: list[str] = field(default_factory=list)


def read_results(files: Iterable[Path], known: Container[str]) -> Results:
    """Read result files in any order; what cannot be used is told, never dropped without a word."""
    found = Results()
    for file in files:
        for number, line in _lines(file):
            where = f"{file.name}, line {number}"
            data = _object(line)
            if data is None or not isinstance(data.get("custom_id"), str):
                is_cut = data is None and not line.endswith(b"\n")
                (found.cut_short if is_cut else found.unreadable).append(where)
            elif data["custom_id"] not in known:
                found.unknown.append(safe_text(data["custom_id"])[:_MAX_NAME])
            else:
                _add(found, data["custom_id"], read_result(data))
    return found


def _add(found: Results, key: str, outcome: Outcome) -> None:
    before = found.outcomes.setdefault(key, [])
    if outcome in before:
        found.repeated += 1
    else:
        before.append(outcome)


def read_requests(files: Iterable[Path]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every line of an export, with its place.

    Raises:
        RecipeError: A line is none: the file was damaged, or is another one.
    """
    for file in files:
        for number, line in _lines(file):
            data = _object(line)
            if data is None:
                raise RecipeError(f"{file}, line {number} is not JSON. Give the file as it was exported.")
            yield f"{file}, line {number}", data


def export_files(path: Path) -> list[Path]:
    """Return the file of an export, or its parts.

    Raises:
        RecipeError: There is none.
    """
    if found := _written(path):
        return found
    raise RecipeError(f"There is no file {path}. Give the one that `jrh batch export` wrote.")


def existing_files(paths: Iterable[Path]) -> list[Path]:
    """Return result files.

    Raises:
        RecipeError: One of them does not exist, or none was given.
    """
    files = list(paths)
    for path in files:
        if not path.is_file():
            raise RecipeError(f"There is no file {path}. Give what the provider or `vllm run-batch` wrote.")
    if not files:
        raise RecipeError("No file of results was given.")
    return files


def _written(path: Path) -> list[Path]:
    if path.exists():
        return [path]
    parts: list[Path] = []
    while (part := _part(path, len(parts) + 1)).exists():
        parts.append(part)
    return parts


def _part(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number:03d}{path.suffix}")


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines with their ends, without empty ones."""
    with _file_errors(file), file.open("rb") as lines:
        yield from ((number, line) for number, line in enumerate(lines, 1) if line.strip())


def _object(line: bytes) -> Mapping[str, Any] | None:
    try:
        data = decode(line)
    except ValueError:
        return None
    return data if isinstance(data, Mapping) else None


@contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecipeError(f"{path} cannot be used: {error.strerror or error}.") from error
