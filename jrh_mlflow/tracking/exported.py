r"""Measured judges as MLflow scorers: the specification that such a scorer carries, and the scorer made of it.

A scorer is a function whose whole text MLflow can keep and run again. Its body holds the specification as one JSON
literal and passes it on:

    def jrh_judge(inputs=None, outputs=None, expectations=None, trace=None):
        from jrh_mlflow.tracking.exported import score

        return score('{"format": 1, …}', inputs=inputs, outputs=outputs, expectations=expectations, trace=trace)

This import and format 1 are a promise: scorers that are registered anywhere go on working. Fields of format 1:

    format        1
    kind          "judge"; what else may answer is named in `ASKING`
    name          the judge's name
    judge         `Judge.definition()`
    fingerprint   of the judge; null where it has none
    simulated     true where no model is asked
    answers       what responses and transcripts may be answered; null: only pairs are judged
    ordinal       whether `answers` are a scale; null: three or more numbers are one
    rubric        for rows that bring none; null for none
    orders        how pairs are asked: "one" or "both"
    stale         "warn" or "refuse"
    status        "measured", "stale" or "never measured", when the scorer was made
    differs       list of {"what", "measured", "running"}: what made it stale
    datasheet     null, or {"run_id", "suite_name", "suite_sha256", "profile", "kinds", "answered_by"}:
                  what was measured, on which kinds of items, and the names under which models answered

Every other field is carried and ignored. What a newer version writes in another format is refused.
"""

from __future__ import annotations

import ast
import json
import linecache
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import RecipeError

if TYPE_CHECKING:
    from mlflow.genai.scorers import Scorer

FORMAT = 1
_HOME, _FUNCTION = "jrh_mlflow.tracking.exported", "score"
_SOURCE = """\
def jrh_judge(inputs=None, outputs=None, expectations=None, trace=None):
    from {home} import {function}

    return {function}({literal}, inputs=inputs, outputs=outputs, expectations=expectations, trace=trace)
"""


def exported_scorer(specification: Mapping[str, Any], *, name: str, description: str | None = None) -> Scorer:
    """Make the scorer that carries a specification."""
    from mlflow.genai.scorers import scorer

    # ASCII throughout: no quote, line separator or half of a surrogate pair can end the literal or the line.
    text = json.dumps(specification, ensure_ascii=True, allow_nan=False, sort_keys=True)
    source = _SOURCE.format(home=_HOME, function=_FUNCTION, literal=repr(text))
    place = f"<jrh_judge {hash(source):x}>"
    # MLflow reads the source of a function as an editor would; without a time of change nobody looks for a file.
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
    made: dict[str, Any] = {}
    exec(compile(source, place, "exec"), made)  # noqa: S102 - the text above
    return scorer(made["jrh_judge"], name=name, description=description)


def specification(scorer: Any) -> dict[str, Any] | None:
    """Return the specification that a scorer carries, read from what MLflow keeps of it; nothing in it is run.

    Returns:
        None for a scorer that `to_mlflow` did not make.

    Raises:
        RecipeError: for one that a newer version made.
    """
    try:
        source = scorer.model_dump().get("call_source")
    except Exception:
        # Scorers of classes of one's own cannot be written down: they are not ours.
        return None
    literal = _literal(source) if isinstance(source, str) else None
    return None if literal is None else read_specification(literal)


def read_specification(text: str) -> dict[str, Any]:
    """Read a specification.

    Raises:
        RecipeError: for a format that this version does not know.
    """
    spec: dict[str, Any] = json.loads(text)
    if spec.get("format") != FORMAT:
        raise RecipeError(
            f"This scorer was made by a newer jrh-mlflow (format {spec.get('format')!r}, here {FORMAT}): "
            "pip install --upgrade jrh-mlflow."
        )
    return spec


def _literal(source: str) -> str | None:
    """Find what the function passes to `score`."""
    if _HOME not in source:
        return None
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)
    passed = (node.args[0] for node in calls if isinstance(node.func, ast.Name) and node.func.id == _FUNCTION)
    return next((one.value for one in passed if isinstance(one, ast.Constant) and isinstance(one.value, str)), None)
