"""Measure LLM judges before trusting them, inside MLflow.

Names are loaded when first used, so that `import jrh_mlflow` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jrh_mlflow.comparing import Comparison, compare
    from jrh_mlflow.criterion import CriterionShift, criterion_shift
    from jrh_mlflow.errors import JrhError
    from jrh_mlflow.evaluation import Evaluation, evaluate
    from jrh_mlflow.generation.entry import generate
    from jrh_mlflow.generation.generator import Generator
    from jrh_mlflow.judges import scripted
    from jrh_mlflow.judges.prompted import PromptedJudge
    from jrh_mlflow.juries import Jury, jury
    from jrh_mlflow.measures import Datasheet, ReliabilityReport, measure
    from jrh_mlflow.schema.estimates import Estimate, NotEstimable
    from jrh_mlflow.schema.presentation import Answer, Message, Presentation
    from jrh_mlflow.stimuli import Suite, datasheet_suite, natural_suite
    from jrh_mlflow.suites import load_suite
    from jrh_mlflow.sweeps.entry import sweep
    from jrh_mlflow.sweeps.report import Sweep
    from jrh_mlflow.sweeps.space import Space
    from jrh_mlflow.tracking.mlflow_judges import from_mlflow

_HOMES = {
    "Answer": "schema.presentation",
    "Comparison": "comparing",
    "CriterionShift": "criterion",
    "Datasheet": "measures",
    "Estimate": "schema.estimates",
    "Evaluation": "evaluation",
    "Generator": "generation.generator",
    "JrhError": "errors",
    "Jury": "juries",
    "Message": "schema.presentation",
    "NotEstimable": "schema.estimates",
    "Presentation": "schema.presentation",
    "PromptedJudge": "judges.prompted",
    "ReliabilityReport": "measures",
    "Space": "sweeps.space",
    "Suite": "stimuli",
    "Sweep": "sweeps.report",
    "compare": "comparing",
    "criterion_shift": "criterion",
    "datasheet_suite": "stimuli",
    "evaluate": "evaluation",
    "from_mlflow": "tracking.mlflow_judges",
    "generate": "generation.entry",
    "jury": "juries",
    "load_suite": "suites",
    "measure": "measures",
    "natural_suite": "stimuli",
    "scripted": "judges",
    "sweep": "sweeps.entry",
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
