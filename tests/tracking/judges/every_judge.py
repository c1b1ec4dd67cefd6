"""Every judge that MLflow brings or makes, and what a new process says of them: definition, fingerprint and state.

As a program: `python -m tests.tracking.judges.every_judge STORE [LIBRARY]` prints it as JSON.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

MODEL = "openai:/gpt-4o-mini"
_GIVEN: dict[str, dict[str, Any]] = {
    "Guidelines": {"guidelines": ["Be kind.", "Be short."]},
    "ConversationalGuidelines": {"guidelines": "Be kind."},
    "RegexMatch": {"pattern": "[0-9]+"},
    "ResponseLength": {"max_length": 100},
}
"""What some built-in judges cannot be made without."""
_METRICS = {
    "deepeval": {
        "AnswerRelevancy": {"threshold": 0.7, "model_kwargs": {"temperature": 0.3}},
        "Toxicity": {},
        "ExactMatch": {},
    },
    "ragas": {"Faithfulness": {}, "ExactMatch": {}},
}


def built_in() -> dict[str, Any]:
    """Make each judge that MLflow brings."""
    from mlflow.genai import scorers

    classes = {name: getattr(scorers, name) for name in scorers.__all__}
    own = {name: made for name, made in classes.items() if _is_built_in(made)}
    return {name: made(**_model(made), **_GIVEN.get(name, {})) for name, made in sorted(own.items())}


def _is_built_in(made: Any) -> bool:
    from mlflow.genai.scorers.builtin_scorers import BuiltInScorer

    return inspect.isclass(made) and issubclass(made, BuiltInScorer) and made is not BuiltInScorer


def _model(made: Any) -> dict[str, str]:
    return {"model": MODEL} if "model" in made.model_fields else {}


def every_judge() -> dict[str, Any]:
    """Make them, judges of instructions and of conversations, ensembles and lists."""
    from mlflow.genai import make_judge
    from mlflow.genai.scorers import Guidelines, KnowledgeRetention, Safety, make_scorer_ensemble

    sampling = {"top_p": 0.5, "temperature": 0.3, "stop": ["x", "y"]}
    said = Literal["yes", "no"]
    made = {
        "instructions": make_judge(
            name="helpful", instructions="Is {{ outputs }} of any help to {{ inputs }}?", model=MODEL,
            feedback_value_type=said, inference_params=sampling,
        ),
        "conversation": make_judge(
            name="calm", instructions="Is the user calm in {{ conversation }}?", model=MODEL, feedback_value_type=bool
        ),
        "addressed": make_judge(
            name="there", instructions="Is {{ outputs }} good?", model=MODEL, base_url="http://127.0.0.1:9/v1"
        ),
        "turns": KnowledgeRetention(name="memory", model=MODEL, inference_params=sampling),
        "described": Safety(model=MODEL, description="Measured on Tuesday."),
    }  # fmt: skip
    voting = [Safety(model=MODEL), Guidelines(name="kind", guidelines="Be kind.", model=MODEL)]
    made["ensemble"] = make_scorer_ensemble(name="both", scorers=voting, ensemble_fn="majority_vote")
    return {**built_in(), **made, "list": voting}


def metrics_of(library: str) -> dict[str, Any]:
    """Make some metrics of another library by MLflow's wrapper."""
    from importlib import import_module

    get_scorer = import_module(f"mlflow.genai.scorers.{library}").get_scorer
    return {name: get_scorer(name, **_asked(name), **given) for name, given in _METRICS[library].items()}


def _asked(metric: str) -> dict[str, str]:
    return {} if metric == "ExactMatch" else {"model": MODEL}


def definitions(judges: dict[str, Any]) -> dict[str, Any]:
    """Return definition and fingerprint of each, and both of the judge that is made of the definition."""
    from jrh_mlflow.tracking.judges.identity import judge_from
    from jrh_mlflow.tracking.judges.scorers import MlflowJudge

    told = {}
    for name, scorer in judges.items():
        judge = MlflowJudge.unchecked(scorer)
        again = judge_from(json.loads(json.dumps(judge.definition(), sort_keys=True)))
        told[name] = [judge.definition(), judge.fingerprint(), again.definition(), again.fingerprint()]
    return told


def states(judges: dict[str, Any], uri: str) -> dict[str, list[str]]:
    """Return the state of each judge, of its export, and of its export written down and loaded again."""
    from mlflow.genai.scorers import Scorer

    import jrh_mlflow as jrh

    told = {}
    for name, scorer in judges.items():
        exported = jrh.to_mlflow(scorer, tracking_uri=uri)
        loaded = Scorer.model_validate(json.loads(json.dumps(exported.model_dump())))
        told[name] = [jrh.status(what, tracking_uri=uri).state for what in (scorer, exported, loaded)]
    return told


def told_by_a_process(seed: int, *given: str, python: str = sys.executable) -> str:
    """Return what a new process with a hash seed says."""
    allowed = {"MLFLOW_SERVER_ENABLE_CUSTOM_SCORERS": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}
    done = subprocess.run(
        [python, "-W", "ignore", "-m", "tests.tracking.judges.every_judge", *given],
        capture_output=True,
        env={**os.environ, **allowed, "PYTHONHASHSEED": str(seed), "OPENAI_API_KEY": "sk-planted"},
        cwd=Path(__file__).parents[3],
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


MEASURED = ("Safety", "conversation")
"""Those that a test measures, so that their state can be told."""


if __name__ == "__main__":
    store, *library = sys.argv[1:]
    everyone = metrics_of(library[0]) if library else every_judge()
    told = states({name: everyone[name] for name in MEASURED}, store) if not library else {}
    print(json.dumps([definitions(everyone), told]))
