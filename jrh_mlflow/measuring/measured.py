"""The record of an evaluation: facts of the judge and its calls on a suite, with no live object in it."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from jrh_mlflow.judges import Judge, registration_facts, shown_name
from jrh_mlflow.options import Metrics
from jrh_mlflow.schema.items import CallRecord
from jrh_mlflow.schema.presentation import TIE_CRITERIA, Criterion
from jrh_mlflow.suites.suite import HASHES, Suite
from jrh_mlflow.text import brief_name, hashed, hidden_id
from jrh_mlflow.tracking.runs.outbox import Parcel

if TYPE_CHECKING:
    import pandas as pd

_NAMES = (
    *("model", "kind", "name", "prompt", "prompt_uri", "tie_criterion", "answer_style", "reasoning_effort"),
    *("prompt_language", "api_base", "source", "scorer", "feedback_type"),
)
"""Settings of a judge that are names; others of more than a short word are texts."""
_WORD = re.compile(r"[\w.:+/-]{1,40}", re.ASCII)
_TOLD = ("rationale", "raw", "error")
"""Columns of a call in which a judge speaks, or a service that quotes it."""


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
        known = judge.settings() | (registration_facts(judge.registered) if judge.registered else {})
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

    @property
    def criterion(self) -> Criterion:
        """The tie criterion that it was told; its text is empty for recorded judgments."""
        name = str(self.settings.get("tie_criterion", ""))
        # The last one: the words may stand in somebody's rubric before it.
        _, mark, text = self.prompt.rpartition(f"Tie criterion ({name}): ")
        offers_tie = TIE_CRITERIA[name].offers_tie if name in TIE_CRITERIA else True
        return Criterion(name=name, text=text.strip() if mark else "", offers_tie=offers_tie)

    def without_texts(self) -> JudgeFacts:
        """Return the facts with hashes for the prompt and for texts among the settings."""
        if self.simulated:  # rates, and no word of anybody's
            return self
        settings = {name: _setting(name, value) for name, value in self.settings.items()}
        # A definition holds the prompt and the rubric in full.
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
    tags: Mapping[str, str] = field(default_factory=dict)
    truncated: str | None = None
    """Why calls are missing, or None."""
    until: Mapping[str, Any] | None = None
    """What came of the rules of `jrh.until` (`UntilReport.to_dict`), where it was asked with some."""
    traces: str = "none"
    """Which calls become MLflow traces (`call_traces.TRACES`)."""
    metrics: Metrics = "headline"
    """Which numbers become metrics of the run."""
    paid: Mapping[str, int] | None = None
    """What all attempts came to (`Paid`), those of calls that left no record included; None where nobody counted."""
    at: float = field(default_factory=time.time)
    """When it was measured, in seconds since 1970: the age of answers is counted from there."""

    def without_texts(self) -> Measured:
        """Return all that is measured, with a hash in the place of each text: what prompts and answers say."""
        # Columns of the user's own may hold any text.
        known = [part.name for part in fields(CallRecord) if part.name in self.calls]
        calls = self.calls[known].copy()
        # Ids are hidden as the suite hides them, so that calls and items still find each other.
        hiding = {**dict.fromkeys(_TOLD, hashed), "suite_item": hidden_id, "task": hidden_id}
        for name, hide in hiding.items():
            if name in calls:
                calls[name] = [hide(cell) if isinstance(cell, str) else cell for cell in calls[name]]
        run = {**self.run, "texts": HASHES}
        return replace(self, judge=self.judge.without_texts(), suite=self.suite.without_texts(), calls=calls, run=run)

    def parcel(self) -> Parcel:
        """Return the record as the outbox keeps it."""
        facts = {
            known.name: getattr(self, known.name) for known in fields(self) if known.name not in ("suite", "calls")
        }
        return Parcel(facts={**facts, "judge": asdict(self.judge)}, suite=self.suite, calls=self.calls)

    @classmethod
    def unpacked(cls, parcel: Parcel) -> Measured:
        """Read a record that the outbox kept."""
        facts = {**parcel.facts, "judge": JudgeFacts(**parcel.facts["judge"])}
        return cls(suite=parcel.suite, calls=parcel.calls, **facts)
