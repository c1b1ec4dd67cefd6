"""The outbox: finished evaluations on disk, whole, until MLflow has them.

What is kept is complete in itself: no live judge, no store.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from jrh_mlflow.engine.journal.spool import lock
from jrh_mlflow.errors import TrackingError
from jrh_mlflow.home import home
from jrh_mlflow.judges import Judge
from jrh_mlflow.options import Metrics
from jrh_mlflow.schema.items import CallRecord
from jrh_mlflow.suites.suite import HASHES, Suite, read_suite
from jrh_mlflow.text import brief_name, hashed, hidden_id

_FACTS_FILE = "evaluation.json"
_CALLS_FILE = "calls.parquet"
_NAMES = (
    *(
        "model",
        "kind",
        "name",
        "prompt",
        "prompt_uri",
        "tie_criterion",
        "answer_style",
        "reasoning_effort",
        "api_base",
        "source",
    ),
    *("scorer", "feedback_type"),
)
"""Settings of a judge that are names; others of more than a short word are texts."""
_WORD = re.compile(r"[\w.:+/-]{1,40}", re.ASCII)
_TOLD = ("rationale", "raw", "error")
"""Columns of a call in which a judge speaks, or a service that quotes it."""


def shown_name(name: str, *, simulated: bool, recorded: bool) -> str:
    """Return a judge's name as people see it: with what it is, where it is no model that is asked now."""
    return f"{name} (simulated)" if simulated else f"{name} (recorded)" if recorded else name


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeFacts:
    """What is logged of a judge; no live object in it."""

    name: str
    simulated: bool
    settings: dict[str, Any]
    prompt: str
    recorded: str = ""
    """Whose answers these are, where nobody was asked now."""
    graded_own_labels: bool = False
    """Whether the same judge wrote labels of the suite."""
    definition: dict[str, Any] | None = None
    """What the judge can be made of again (`Judge.definition`), where it is data."""
    fingerprint: str | None = None

    def __repr__(self) -> str:
        # Without the prompt, and settings by name only: they may be whole texts.
        return f"JudgeFacts({brief_name(self.label)}, settings: {', '.join(self.settings)})"

    @classmethod
    def of(cls, judge: Judge) -> JudgeFacts:
        """Read the facts off a judge."""
        prompt = judge.prompt()
        known = judge.settings() | (judge.registration() if judge.registered else {})
        settings = {**known, "prompt_sha256": hashlib.sha256(prompt.encode()).hexdigest()}
        return cls(
            name=judge.name,
            simulated=judge.simulated,
            settings=settings,
            prompt=prompt,
            recorded=judge.recorded,
            definition=judge.definition(),
            fingerprint=judge.fingerprint(),
        )

    @property
    def label(self) -> str:
        """The name shown to people; a judge that is simulated or recorded says so wherever it is shown."""
        return shown_name(self.name, simulated=self.simulated, recorded=bool(self.recorded))

    def without_texts(self) -> JudgeFacts:
        """Return the facts with hashes for the prompt and for texts among the settings."""
        if self.simulated:  # rates, and no word of anybody's
            return self
        settings = {name: _setting(name, value) for name, value in self.settings.items()}
        return replace(self, settings=settings, prompt=f"{hashed(self.prompt)}\n", definition=None)


def _setting(name: str, value: object) -> object:
    text = str(value)
    is_short = _WORD.fullmatch(text) or not any(letter.isalpha() for letter in text)
    return value if is_short or name in _NAMES or name.endswith("sha256") else hashed(text)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A judge's calls on a suite."""

    judge: JudgeFacts
    suite: Suite
    calls: pd.DataFrame
    run: Mapping[str, Any]
    """Settings of the run (`seed`, `replicates`, …), logged as params `run.*`."""
    seconds: float
    cpu_seconds: float | None = None
    """Processor time of a model on this machine; None for any other judge."""
    tags: Mapping[str, str] = field(default_factory=dict)
    truncated: str | None = None
    """Why calls are missing, or None."""
    until: Mapping[str, Any] | None = None
    """What came of the rules of `jrh.until` (`UntilReport.to_dict`), where it was asked with some."""
    traces: str = "none"
    """Which calls become MLflow traces: `failures`, `all` or `none`."""
    metrics: Metrics = "headline"
    """Which numbers become metrics of the run."""

    def without_texts(self) -> Measured:
        """Return all that is measured, with a hash in the place of each text: what prompts and answers say."""
        known = [each.name for each in fields(CallRecord) if each.name in self.calls]
        calls = self.calls[known].copy()
        hiding = {**dict.fromkeys(_TOLD, hashed), "suite_item": hidden_id, "task": hidden_id}
        for name, hide in hiding.items():
            if name in calls:
                calls[name] = [hide(cell) if isinstance(cell, str) else cell for cell in calls[name]]
        run = {**self.run, "texts": HASHES}
        return replace(self, judge=self.judge.without_texts(), suite=self.suite.without_texts(), calls=calls, run=run)


def outbox_home() -> Path:
    """Where evaluations wait for MLflow."""
    return home() / "outbox"


def outbox_key(*parts: object) -> str:
    """Name an evaluation by everything that makes it this one."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()[:24]


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

    def read(self) -> tuple[Measured, dict[str, Any]]:
        """Read the evaluation back, with the place in MLflow it belongs to."""
        assert self.folder is not None
        facts = json.loads((self.folder / _FACTS_FILE).read_text(encoding="utf-8"))
        target, judge = facts.pop("target"), JudgeFacts(**facts.pop("judge"))
        suite = read_suite(self.folder / "suite", hashes=True)
        calls = pd.read_parquet(self.folder / _CALLS_FILE)
        return Measured(judge=judge, suite=suite, calls=calls, **facts), target

    def forget(self) -> None:
        """Remove it once MLflow has it."""
        if self.folder is None:
            return
        # The facts first: what is left of a removal that is cut short is no evaluation.
        with suppress(OSError):
            (self.folder / _FACTS_FILE).unlink()
        shutil.rmtree(self.folder, ignore_errors=True)


def keep(measured: Measured, *, key: str, target: Mapping[str, Any]) -> Kept:
    """Write an evaluation to disk whole, and lock it; `target` says where in MLflow it belongs.

    Each run has a folder of its own, so that two evaluations at the same moment are two. Where the outbox cannot be
    written or is full, a temporary directory takes it: what was asked must not be lost.
    """
    name, problems = f"{key}-{target['run_id']}", []
    for folder in _folders():
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return _written(measured, folder / name, target)
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


def _written(measured: Measured, folder: Path, target: Mapping[str, Any]) -> Kept:
    draft, fd = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".draft-")), None
    try:
        measured.suite.save(draft / "suite")
        measured.calls.to_parquet(draft / _CALLS_FILE, index=False)
        names = [each.name for each in fields(Measured) if each.name not in ("suite", "calls")]
        facts = {name: getattr(measured, name) for name in names}
        facts |= {"judge": asdict(measured.judge), "target": target}
        (draft / _FACTS_FILE).write_text(json.dumps(facts, indent=1, ensure_ascii=False), encoding="utf-8")
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
    # Without a run in its name: as the version before kept it.
    names = (f"{key}/{_FACTS_FILE}", f"{key}-*/{_FACTS_FILE}")
    found = [path for folder in _folders() for name in names for path in folder.glob(name)]
    for path in sorted(found, key=_age):
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
