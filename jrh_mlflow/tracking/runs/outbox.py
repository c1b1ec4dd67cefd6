"""The outbox: finished evaluations on disk, whole, until MLflow has them.

What is kept is complete in itself: no live judge, no store.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from jrh_mlflow.engine.journal.writer import lock
from jrh_mlflow.engine.record_log import write_calls
from jrh_mlflow.errors import SCHEMA_VERSION, TrackingError, check_schema_version
from jrh_mlflow.home import home
from jrh_mlflow.suites.suite import Suite, read_suite

_FACTS_FILE = "evaluation.json"
_CALLS_FILE = "calls.parquet"


def outbox_home() -> Path:
    """Where evaluations wait for MLflow."""
    return home() / "outbox"


def outbox_key(*parts: object) -> str:
    """Name an evaluation by everything that makes it this one."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()[:24]


@dataclass(frozen=True, kw_only=True, slots=True)
class Parcel:
    """A finished evaluation as it lies in the outbox: what JSON holds of it, its suite and its calls."""

    facts: Mapping[str, Any]
    suite: Suite
    calls: pd.DataFrame


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """An evaluation in the outbox, locked by this process until the block ends, or the process does."""

    folder: Path | None
    """None when no disk took it."""
    fd: int = -1
    problem: str = ""
    """Why no disk took it."""

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *details: object) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def read(self) -> tuple[Parcel, dict[str, Any]]:
        """Read the evaluation back, with the place in MLflow it belongs to."""
        assert self.folder is not None
        facts = json.loads((self.folder / _FACTS_FILE).read_text(encoding="utf-8"))
        check_schema_version(self.folder, facts.pop("schema_version", None), error=TrackingError)
        target = facts.pop("target")
        suite = read_suite(self.folder / "suite", hashes=True)
        return Parcel(facts=facts, suite=suite, calls=pd.read_parquet(self.folder / _CALLS_FILE)), target

    def forget(self) -> None:
        """Remove it once MLflow has it."""
        if self.folder is None:
            return
        # The facts first: what is left of a removal that is cut short is no evaluation.
        with suppress(OSError):
            (self.folder / _FACTS_FILE).unlink()
        shutil.rmtree(self.folder, ignore_errors=True)


def keep(parcel: Parcel, *, key: str, target: Mapping[str, Any]) -> Kept:
    """Write an evaluation to disk whole, and lock it; `target` says where in MLflow it belongs.

    Each run has a folder of its own, so that two evaluations at the same moment are two. Where the outbox cannot be
    written or is full, a temporary directory takes it: what was asked must not be lost.
    """
    name, problems = f"{key}-{target['run_id']}", []
    for folder in _folders():
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return _written(parcel, folder / name, target)
        except OSError as error:
            problems.append(f"{folder}: {error.strerror or error}")
    return Kept(folder=None, problem="; ".join(problems))


def _folders() -> list[Path]:
    """Where evaluations are kept, the first that takes one: the last is memory, for when every disk is full."""
    shared = (os.environ.get("TMPDIR") or "/tmp", "/dev/shm")  # noqa: S108 - in a folder of this user
    others = [Path(folder, f"jrh-outbox-{os.getuid()}") for folder in shared if Path(folder).is_dir()]
    return [outbox_home(), *(folder for folder in others if _is_ours(folder))]


def _is_ours(folder: Path) -> bool:
    """Whether a folder that any user could have made is of this one, or not there yet."""
    try:
        return folder.lstat().st_uid == os.getuid()
    except FileNotFoundError:
        return True


def _written(parcel: Parcel, folder: Path, target: Mapping[str, Any]) -> Kept:
    draft, fd = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".draft-")), None
    try:
        parcel.suite.save(draft / "suite")
        write_calls(parcel.calls, draft / _CALLS_FILE)
        facts = json.dumps(
            {"schema_version": SCHEMA_VERSION, **parcel.facts, "target": target}, indent=1, ensure_ascii=False
        )
        (draft / _FACTS_FILE).write_text(facts, encoding="utf-8")
        fd = _locked(draft)
        assert fd is not None  # nobody else knows of it yet
        # The rename makes it appear whole or not at all, and locked.
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        if fd is not None:
            os.close(fd)
        raise
    return Kept(folder=folder, fd=fd)


def oldest_kept(key: str) -> Kept | None:
    """Lock the oldest evaluation of a key that waits for MLflow and that no living process is logging."""
    files = [path for folder in _folders() for path in folder.glob(f"{key}-*/{_FACTS_FILE}")]
    for path in sorted(files, key=_age):
        if (fd := _locked(path.parent)) is not None:
            return Kept(folder=path.parent, fd=fd)
    return None


def kept_in(folder: Path) -> Kept:
    """Lock the evaluation that a folder holds.

    Raises:
        TrackingError: when there is none, or another process is logging it.
    """
    if not (folder / _FACTS_FILE).is_file():
        raise TrackingError(f"{folder} holds no kept evaluation: {_FACTS_FILE} is missing.")
    fd = _locked(folder)
    if fd is None:
        raise TrackingError(f"Another process is logging the evaluation in {folder}. Nothing is left to do here.")
    return Kept(folder=folder, fd=fd)


def _age(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # logged by another process in this very moment
        return 0


def _locked(folder: Path) -> int | None:
    """Return the locked file of an evaluation; None when another process holds it, or has just removed it."""
    path = folder / _FACTS_FILE
    try:
        # For writing where that is allowed: NFS locks no other.
        fd = os.open(path, os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY)
    except FileNotFoundError:
        return None
    if lock(fd, wait=False) and os.fstat(fd).st_nlink:
        return fd
    os.close(fd)
    return None
