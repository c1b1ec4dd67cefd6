"""Measure LLM judges before trusting them, inside MLflow.

Names are loaded when first used, so that `import jrh_mlflow` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from jrh_mlflow.attacks.attack import attack as attack
    from jrh_mlflow.attacks.attack_view import Attack as Attack
    from jrh_mlflow.comparing.compare import Comparison as Comparison
    from jrh_mlflow.comparing.compare import compare as compare
    from jrh_mlflow.comparing.criterion_shift import CriterionShift as CriterionShift
    from jrh_mlflow.comparing.criterion_shift import criterion_shift as criterion_shift
    from jrh_mlflow.comparing.jury.jury import Jury as Jury
    from jrh_mlflow.comparing.jury.jury import jury as jury
    from jrh_mlflow.comparing.self_preference import SelfPreference as SelfPreference
    from jrh_mlflow.comparing.self_preference import self_preference as self_preference
    from jrh_mlflow.decisions.gate import gate as gate
    from jrh_mlflow.decisions.gate_result import Gate as Gate
    from jrh_mlflow.decisions.planning import Plan as Plan
    from jrh_mlflow.decisions.planning import plan as plan
    from jrh_mlflow.errors import JrhError as JrhError
    from jrh_mlflow.exporting.autolog import autolog as autolog
    from jrh_mlflow.exporting.registries import register_prompt as register_prompt
    from jrh_mlflow.exporting.registries import suite_dataset as suite_dataset
    from jrh_mlflow.exporting.status import Status as Status
    from jrh_mlflow.exporting.status import status as status
    from jrh_mlflow.exporting.to_mlflow import to_mlflow as to_mlflow
    from jrh_mlflow.generation.generate import generate as generate
    from jrh_mlflow.generation.respond import respond as respond
    from jrh_mlflow.generation.writers import Generator as Generator
    from jrh_mlflow.judges import scripted as scripted
    from jrh_mlflow.judges.http_judge import http_judge as http_judge
    from jrh_mlflow.measuring.evaluate import evaluate as evaluate
    from jrh_mlflow.measuring.evaluation import Evaluation as Evaluation
    from jrh_mlflow.measuring.replay import replay as replay
    from jrh_mlflow.measuring.resolve import load_suite as load_suite
    from jrh_mlflow.measuring.resolve import pointwise as pointwise
    from jrh_mlflow.measuring.until import until as until
    from jrh_mlflow.people.agree import agree as agree
    from jrh_mlflow.people.agreement_view import Agreement as Agreement
    from jrh_mlflow.people.alignment.aligned import Alignment as Alignment
    from jrh_mlflow.people.alignment.optimizer import CheckedOptimizer as CheckedOptimizer
    from jrh_mlflow.people.correct import correct as correct
    from jrh_mlflow.people.corrected_view import Corrected as Corrected
    from jrh_mlflow.people.label_draw import label_draw as label_draw
    from jrh_mlflow.schema.estimates import Estimate as Estimate
    from jrh_mlflow.schema.estimates import NotEstimable as NotEstimable
    from jrh_mlflow.schema.presentation import Answer as Answer
    from jrh_mlflow.schema.presentation import Message as Message
    from jrh_mlflow.schema.presentation import Presentation as Presentation
    from jrh_mlflow.show.results import Datasheet as Datasheet
    from jrh_mlflow.show.results import ReliabilityReport as ReliabilityReport
    from jrh_mlflow.show.results import measure as measure
    from jrh_mlflow.suites import Suite as Suite
    from jrh_mlflow.suites import datasheet_suite as datasheet_suite
    from jrh_mlflow.suites import natural_suite as natural_suite
    from jrh_mlflow.sweeps.repair import Repair as Repair
    from jrh_mlflow.sweeps.repair import repair as repair
    from jrh_mlflow.sweeps.result import Sweep as Sweep
    from jrh_mlflow.sweeps.space import Space as Space
    from jrh_mlflow.sweeps.sweep import sweep as sweep
    from jrh_mlflow.tracking.judges.mlflow_requests import PromptedJudge as PromptedJudge
    from jrh_mlflow.tracking.judges.scorers import from_mlflow as from_mlflow
    from jrh_mlflow.watching.watch import watch as watch
    from jrh_mlflow.watching.watch_view import Watch as Watch

_HOMES = dict(
    sorted(
        (name, home)
        for home, names in {
            "attacks.attack": "attack",
            "attacks.attack_view": "Attack",
            "comparing.compare": "Comparison compare",
            "comparing.criterion_shift": "CriterionShift criterion_shift",
            "comparing.jury.jury": "Jury jury",
            "comparing.self_preference": "SelfPreference self_preference",
            "decisions.gate": "gate",
            "decisions.gate_result": "Gate",
            "decisions.planning": "Plan plan",
            "errors": "JrhError",
            "exporting.autolog": "autolog",
            "exporting.registries": "register_prompt suite_dataset",
            "exporting.status": "Status status",
            "exporting.to_mlflow": "to_mlflow",
            "generation.generate": "generate",
            "generation.respond": "respond",
            "generation.writers": "Generator",
            "judges": "scripted",
            "judges.http_judge": "http_judge",
            "measuring.evaluate": "evaluate",
            "measuring.evaluation": "Evaluation",
            "measuring.replay": "replay",
            "measuring.resolve": "load_suite pointwise",
            "measuring.until": "until",
            "people.agree": "agree",
            "people.agreement_view": "Agreement",
            "people.alignment.aligned": "Alignment",
            "people.alignment.optimizer": "CheckedOptimizer",
            "people.correct": "correct",
            "people.corrected_view": "Corrected",
            "people.label_draw": "label_draw",
            "schema.estimates": "Estimate NotEstimable",
            "schema.presentation": "Answer Message Presentation",
            "show.results": "Datasheet ReliabilityReport measure",
            "suites": "Suite datasheet_suite natural_suite",
            "sweeps.repair": "Repair repair",
            "sweeps.result": "Sweep",
            "sweeps.space": "Space",
            "sweeps.sweep": "sweep",
            "tracking.judges.mlflow_requests": "PromptedJudge",
            "tracking.judges.scorers": "from_mlflow",
            "watching.watch": "watch",
            "watching.watch_view": "Watch",
        }.items()
        for name in names.split()
    )
)

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # Of the installed package, asked for when it is wanted: that takes five times as long as all of this file.
        return import_module("importlib.metadata").version("jrh-mlflow")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module(f"{__name__}.progress").load_in_notebook()
    home = f"{__name__}.{_HOMES[name]}"
    with import_module(f"{__name__}.collector").unwalked(home):
        value = import_module(f"{home}.{name}") if name == "scripted" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
