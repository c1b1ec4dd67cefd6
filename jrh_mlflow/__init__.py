"""Measure LLM judges before trusting them, inside MLflow.

Names are loaded when first used, so that `import jrh_mlflow` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jrh_mlflow.errors import JrhError
    from jrh_mlflow.evaluation.compare import Comparison, compare
    from jrh_mlflow.evaluation.criterion_shift import CriterionShift, criterion_shift
    from jrh_mlflow.evaluation.evaluate import Evaluation, evaluate
    from jrh_mlflow.evaluation.jury import Jury, jury
    from jrh_mlflow.generation.generate import generate
    from jrh_mlflow.generation.writers import Generator
    from jrh_mlflow.judges import scripted
    from jrh_mlflow.judges.prompted import PromptedJudge
    from jrh_mlflow.resolve import load_suite
    from jrh_mlflow.results import Datasheet, ReliabilityReport, measure
    from jrh_mlflow.schema.estimates import Estimate, NotEstimable
    from jrh_mlflow.schema.presentation import Answer, Message, Presentation
    from jrh_mlflow.suites import Suite, datasheet_suite, natural_suite
    from jrh_mlflow.sweeps.result import Sweep
    from jrh_mlflow.sweeps.space import Space
    from jrh_mlflow.sweeps.sweep import sweep
    from jrh_mlflow.tracking.scorers import from_mlflow

_HOMES = {
    "Answer": "schema.presentation",
    "Comparison": "evaluation.compare",
    "CriterionShift": "evaluation.criterion_shift",
    "Datasheet": "results",
    "Estimate": "schema.estimates",
    "Evaluation": "evaluation.evaluate",
    "Generator": "generation.writers",
    "JrhError": "errors",
    "Jury": "evaluation.jury",
    "Message": "schema.presentation",
    "NotEstimable": "schema.estimates",
    "Presentation": "schema.presentation",
    "PromptedJudge": "judges.prompted",
    "ReliabilityReport": "results",
    "Space": "sweeps.space",
    "Suite": "suites",
    "Sweep": "sweeps.result",
    "compare": "evaluation.compare",
    "criterion_shift": "evaluation.criterion_shift",
    "datasheet_suite": "suites",
    "evaluate": "evaluation.evaluate",
    "from_mlflow": "tracking.scorers",
    "generate": "generation.generate",
    "jury": "evaluation.jury",
    "load_suite": "resolve",
    "measure": "results",
    "natural_suite": "suites",
    "scripted": "judges",
    "sweep": "sweeps.sweep",
}

__all__ = [
    "Answer",
    "Comparison",
    "CriterionShift",
    "Datasheet",
    "Estimate",
    "Evaluation",
    "Generator",
    "JrhError",
    "Jury",
    "Message",
    "NotEstimable",
    "Presentation",
    "PromptedJudge",
    "ReliabilityReport",
    "Space",
    "Suite",
    "Sweep",
    "compare",
    "criterion_shift",
    "datasheet_suite",
    "evaluate",
    "from_mlflow",
    "generate",
    "jury",
    "load_suite",
    "measure",
    "natural_suite",
    "scripted",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = f"{__name__}.{_HOMES[name]}"
    value = import_module(f"{home}.{name}") if name == "scripted" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
