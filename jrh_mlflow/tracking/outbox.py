"""The outbox: finished evaluations on disk, whole, until MLflow has them.

What is kept is complete in itself: no live judge, no store.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import pandas as pd

from jrh_mlflow.errors import TrackingError
from jrh_mlflow.home import home
from jrh_mlflow.judges import Judge
from jrh_mlflow.suites.suite import Suite, read_suite

_FACTS_FILE = "evaluation.json"
_CALLS_FILE = "calls.parquet"


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeFacts:
    """What is logged of a judge; no live object in it."""

    name: str
    simulated: bool
    settings: dict[str, Any]
    prompt: str

    @classmethod
    def of(cls, judge: Judge) -> JudgeFacts:
        """Read the facts off a judge."""
        prompt = judge.prompt()
        settings = {**judge.settings(), "prompt_sha256": hashlib.sha256(prompt.encode()).hexdigest()}
        return cls(name=judge.name, simulated=judge.simulated, settings=settings, prompt=prompt)

    @property
    def label(self) -> str:
        """The name shown to people; a simulated judge says so wherever it is shown."""
        return f"{self.name} (simulated)" if self.simulated else self.name


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
    traces: str = "none"
    """Which calls become MLflow traces: `failures`, `all` or `none`."""


def outbox_home() -> Path:
    """Where evaluations wait for MLflow: `$JRH_HOME/outbox`, by default `.jrh/outbox` in the working directory."""
    return home() / "outbox"


def outbox_key(*parts: object) -> str:
    """Name an evaluation by everything that makes it this one."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()[:24]


def keep(measured: Measured, *, key: str, target: Mapping[str, Any]) -> Path:
    """Write an evaluation to disk whole; `target` says where in MLflow it belongs.

    A directory that cannot be written falls back to the system's temporary one: what was asked must not be lost.
    """
    try:
        outbox_home().mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=outbox_home(), prefix=".draft-"))
        final = outbox_home() / key
    except OSError:
        draft = Path(tempfile.mkdtemp(prefix="jrh-outbox-"))
        final = draft.with_name(f"jrh-outbox-{key}")
    measured.suite.save(draft / "suite")
    measured.calls.to_parquet(draft / _CALLS_FILE, index=False)
    names = [each.name for each in fields(Measured) if each.name not in ("suite", "calls")]
    facts = {name: getattr(measured, name) for name in names}
    facts |= {"judge": asdict(measured.judge), "target": target}
    (draft / _FACTS_FILE).write_text(json.dumps(facts, indent=1, ensure_ascii=False), encoding="utf-8")
    # The rename makes it appear whole or not at all.
    shutil.rmtree(final, ignore_errors=True)
    draft.rename(final)
    return final


def is_kept(folder: Path) -> bool:
    """Whether a folder holds a whole evaluation."""
    return (folder / _FACTS_FILE).is_file()


def read_kept(folder: Path) -> tuple[Measured, dict[str, Any]]:
    """Read an evaluation back, with the place in MLflow it belongs to."""
    if not is_kept(folder):
        raise TrackingError(f"{folder} holds no kept evaluation: {_FACTS_FILE} is missing.")
    facts = json.loads((folder / _FACTS_FILE).read_text(encoding="utf-8"))
    target, judge = facts.pop("target"), JudgeFacts(**facts.pop("judge"))
    suite, calls = read_suite(folder / "suite"), pd.read_parquet(folder / _CALLS_FILE)
    return Measured(judge=judge, suite=suite, calls=calls, **facts), target


def forget(folder: Path) -> None:
    """Remove a kept evaluation once MLflow has it."""
    shutil.rmtree(folder, ignore_errors=True)
