"""An edited transcript as an item of a suite, with all that a reviewer needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jrh_mlflow.generation.agentic.desk import Taken
from jrh_mlflow.generation.agentic.planner import Step
from jrh_mlflow.generation.attempts import NOT_ASKED, Attempt
from jrh_mlflow.generation.plan import Job
from jrh_mlflow.perturb._agent_rules import Edited
from jrh_mlflow.schema.items import Item


def edited_item(
    job: Job,
    start: Item,
    edited: Edited,
    *,
    generator: str,
    planned: Taken[tuple[Step, ...]] | None = None,
    attempts: Sequence[Attempt] = (),
    earlier: Sequence[Mapping[str, Any]] = (),
    similarity: float | None = None,
) -> Item:
    """Return the item that an edited transcript becomes.

    Args:
        job: What was to be made. Its label comes from the objective; a verifier has confirmed it, or none was asked.
        start: The baseline.
        edited: The transcript with its steps and summaries.
        generator: Who edited.
        planned: The planner's answer; None when a rule edited.
        attempts: One per plan, the last one the plan that was carried out.
        earlier: Plans that came to nothing, with the reason.
        similarity: Of the two transcripts as text.
    """
    last = attempts[-1] if attempts else None
    facts: dict[str, Any] = {
        "test": job.test.name,
        "original": start.id,
        "generator": generator,
        "prompt_sha256": planned.prompt_sha256 if planned else None,
        "attempts": len(attempts),
        "temperature": last.temperature if last else None,
        "validator": last.verdict if last else NOT_ASKED,
        "verdicts": [attempt.verdict for attempt in attempts],
        "similarity": None if similarity is None else round(similarity, 4),
        "edited": list(edited.places),
        "rejected_plans": list(planned.rejected) if planned else [],
        "steps": [dict(step) for step in edited.steps],
        "summaries": list(edited.summaries),
        "earlier_plans": [dict(plan) for plan in earlier],
        "review": {"state": "unreviewed"},
    }
    return replace(
        start,
        id=job.target.id,
        condition=job.target.condition,
        transcript=edited.messages,
        expected=job.target.expected,
        meta={**start.meta, **facts},
    )
