"""Seeds in, perturbed items out: one file per family of reliability tests, and the registry that lists them."""

from jrh_mlflow.perturb._base import (
    Check,
    CheckContext,
    CodeTest,
    NotApplicable,
    Parameter,
    ReliabilityTest,
    Rewrite,
    Similarity,
    Target,
    fill_prompt,
    item_id,
    labels_context,
    parameter,
    prompt,
)
from jrh_mlflow.perturb.agents import AGENT_TESTS, AgentTest

__all__ = [
    "AGENT_TESTS",
    "AgentTest",
    "Check",
    "CheckContext",
    "CodeTest",
    "NotApplicable",
    "Parameter",
    "ReliabilityTest",
    "Rewrite",
    "Similarity",
    "Target",
    "fill_prompt",
    "item_id",
    "labels_context",
    "parameter",
    "prompt",
]
