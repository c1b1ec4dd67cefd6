"""What a result says in words: findings, each with its state, and the verdict that is made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from jrh_mlflow.schema.estimates import Reading

State = Literal["problem", "ok", "cannot tell", "by design"]
"""`by design`: the right answer was not offered, so the number says nothing about the judge."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What one reading shows."""

    axis: str
    """Key of the reading."""
    state: State
    reading: Reading
    text: str
    """One plain sentence with number and direction."""
    advice: str = ""
    """What to do; empty where nothing is wrong."""
    command: str = ""
    """The command to paste; empty where there is none."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data; the reading stands with the others of its sheet."""
        return {name: getattr(self, name) for name in ("axis", "state", "text", "advice", "command")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """One to four sentences that need no glossary, and the findings behind them."""

    sentences: tuple[str, ...]
    findings: tuple[Finding, ...] = ()

    def __str__(self) -> str:
        return " ".join(self.sentences)

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Findings that are problems, worst first."""
        return tuple(finding for finding in self.findings if finding.state == "problem")

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {"sentences": list(self.sentences), "findings": [finding.to_dict() for finding in self.findings]}
