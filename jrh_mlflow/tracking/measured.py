"""A finished evaluation, complete in itself: no live judge, no store."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from jrh_mlflow.judges import Judge
from jrh_mlflow.stimuli.suite import Suite


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
        settings: dict[str, Any] = {
            **judge.settings(),
            "prompt_sha256": hashlib.sha256(prompt.encode()).hexdigest(),
        }
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
