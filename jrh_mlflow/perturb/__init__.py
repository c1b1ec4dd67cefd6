"""Seeds in, perturbed items out: one file per reliability test, and the registry that lists them."""

from jrh_mlflow.perturb._base import (
    Bench,
    Check,
    CodeTest,
    NotApplicable,
    ReliabilityTest,
    Rewrite,
    Similarity,
    Target,
)
from jrh_mlflow.perturb.agents import AGENT_TESTS, AgentTest
from jrh_mlflow.perturb.registry import TESTS, find_test, find_tests, register

__all__ = [
    "AGENT_TESTS",
    "TESTS",
    "AgentTest",
    "Bench",
    "Check",
    "CodeTest",
    "NotApplicable",
    "ReliabilityTest",
    "Rewrite",
    "Similarity",
    "Target",
    "find_test",
    "find_tests",
    "register",
]
