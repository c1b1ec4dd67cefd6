"""Call records: one row per call, the only thing measures read."""

from __future__ import annotations

from dataclasses import dataclass

OUTCOMES = ("verdict", "tie", "abstain", "unparsed", "error")
USABLE = ("verdict", "tie", "abstain")
"""Outcomes that are an answer. The others leave every denominator and are counted beside it."""

REQUIRED_COLUMNS = (
    "suite_item",
    "task",
    "condition",
    "delta",
    "order",
    "better",
    "replicate",
    "outcome",
    "answer",
    "expected",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CallRecord:
    """How one call ended. Field names are the columns of `calls/calls.parquet`."""

    suite_item: str
    task: str
    condition: str
    delta: float | None
    order: str
    better: str
    replicate: int
    outcome: str
    answer: str
    """The slot, label or score; empty unless the outcome is `verdict`."""
    expected: str
    rationale: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    """None is unknown, never free."""
    latency_s: float | None = None
    cached: bool = False
    model: str | None = None
    prompt_sha256: str | None = None
    error: str | None = None
    """Why there is no usable answer, with the raw text where there was one."""
    confidence: float | None = None
    """Probability of the given answer, where the judge or the provider tells it."""
    probabilities: str | None = None
    """JSON: answer (slot, label, score, `tie`, `abstain`) to its probability, where those of others are known too."""
