"""Measure LLM judges before trusting them, inside MLflow.

Names are loaded when first used, so that `import jrh_mlflow` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from jrh_mlflow.alignment.aligned import Alignment as Alignment
    from jrh_mlflow.alignment.optimizer import CheckedOptimizer as CheckedOptimizer
    from jrh_mlflow.errors import JrhError as JrhError
    from jrh_mlflow.evaluation.agree import Agreement as Agreement
    from jrh_mlflow.evaluation.agree import agree as agree
    from jrh_mlflow.evaluation.autolog import autolog as autolog
    from jrh_mlflow.evaluation.compare import Comparison as Comparison
    from jrh_mlflow.evaluation.compare import compare as compare
    from jrh_mlflow.evaluation.correct import Corrected as Corrected
    from jrh_mlflow.evaluation.correct import correct as correct
    from jrh_mlflow.evaluation.criterion_shift import CriterionShift as CriterionShift
    from jrh_mlflow.evaluation.criterion_shift import criterion_shift as criterion_shift
    from jrh_mlflow.evaluation.evaluate import Evaluation as Evaluation
    from jrh_mlflow.evaluation.evaluate import evaluate as evaluate
    from jrh_mlflow.evaluation.gate import gate as gate
    from jrh_mlflow.evaluation.jury import Jury as Jury
    from jrh_mlflow.evaluation.jury import jury as jury
    from jrh_mlflow.evaluation.passed import passed as passed
    from jrh_mlflow.evaluation.planning import Plan as Plan
    from jrh_mlflow.evaluation.planning import plan as plan
    from jrh_mlflow.evaluation.registries import register_prompt as register_prompt
    from jrh_mlflow.evaluation.registries import suite_dataset as suite_dataset
    from jrh_mlflow.evaluation.status import Status as Status
    from jrh_mlflow.evaluation.status import status as status
    from jrh_mlflow.evaluation.to_mlflow import to_mlflow as to_mlflow
    from jrh_mlflow.generation.generate import generate as generate
    from jrh_mlflow.generation.writers import Generator as Generator
    from jrh_mlflow.judges import scripted as scripted
    from jrh_mlflow.judges.prompted import PromptedJudge as PromptedJudge
    from jrh_mlflow.measures.until import until as until
    from jrh_mlflow.resolve import load_suite as load_suite
    from jrh_mlflow.resolve import pointwise as pointwise
    from jrh_mlflow.results import Datasheet as Datasheet
    from jrh_mlflow.results import ReliabilityReport as ReliabilityReport
    from jrh_mlflow.results import measure as measure
    from jrh_mlflow.results.gate import Gate as Gate
    from jrh_mlflow.schema.estimates import Estimate as Estimate
    from jrh_mlflow.schema.estimates import NotEstimable as NotEstimable
    from jrh_mlflow.schema.presentation import Answer as Answer
    from jrh_mlflow.schema.presentation import Message as Message
    from jrh_mlflow.schema.presentation import Presentation as Presentation
    from jrh_mlflow.suites import Suite as Suite
    from jrh_mlflow.suites import datasheet_suite as datasheet_suite
    from jrh_mlflow.suites import natural_suite as natural_suite
    from jrh_mlflow.sweeps.result import Sweep as Sweep
    from jrh_mlflow.sweeps.space import Space as Space
    from jrh_mlflow.sweeps.sweep import sweep as sweep
    from jrh_mlflow.tracking.scorers import from_mlflow as from_mlflow

_HOMES = {
    "Agreement": "evaluation.agree",
    "Alignment": "alignment.aligned",
    "Answer": "schema.presentation",
    "CheckedOptimizer": "alignment.optimizer",
    "Comparison": "evaluation.compare",
    "Corrected": "evaluation.correct",
    "CriterionShift": "evaluation.criterion_shift",
    "Datasheet": "results",
    "Estimate": "schema.estimates",
    "Evaluation": "evaluation.evaluate",
    "Gate": "results.gate",
    "Generator": "generation.writers",
    "JrhError": "errors",
    "Jury": "evaluation.jury",
    "Message": "schema.presentation",
    "NotEstimable": "schema.estimates",
    "Plan": "evaluation.planning",
    "Presentation": "schema.presentation",
    "PromptedJudge": "judges.prompted",
    "ReliabilityReport": "results",
    "Space": "sweeps.space",
    "Status": "evaluation.status",
    "Suite": "suites",
    "Sweep": "sweeps.result",
    "agree": "evaluation.agree",
    "autolog": "evaluation.autolog",
    "compare": "evaluation.compare",
    "correct": "evaluation.correct",
    "criterion_shift": "evaluation.criterion_shift",
    "datasheet_suite": "suites",
    "evaluate": "evaluation.evaluate",
    "from_mlflow": "tracking.scorers",
    "gate": "evaluation.gate",
    "generate": "generation.generate",
    "jury": "evaluation.jury",
    "load_suite": "resolve",
    "measure": "results",
    "natural_suite": "suites",
    "passed": "evaluation.passed",
    "plan": "evaluation.planning",
    "pointwise": "resolve",
    "register_prompt": "evaluation.registries",
    "scripted": "judges",
    "status": "evaluation.status",
    "suite_dataset": "evaluation.registries",
    "sweep": "sweeps.sweep",
    "to_mlflow": "evaluation.to_mlflow",
    "until": "measures.until",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # Of the installed package, asked for when it is wanted: that takes five times as long as all of this file.
        return import_module("importlib.metadata").version("jrh-mlflow")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module(f"{__name__}.progress").load_in_notebook()
    home = f"{__name__}.{_HOMES[name]}"
    value = import_module(f"{home}.{name}") if name == "scripted" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
