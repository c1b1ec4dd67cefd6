"""The specification that an exported scorer carries in its text (see `exported.py`): written, and read back."""

from __future__ import annotations

import ast
import hashlib
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
    place = f"<jrh_judge {hashlib.sha256(source.encode()).hexdigest()}>"
    # MLflow reads the source of a function as an editor would; without a time of change nobody looks for a file.
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
    made: dict[str, Any] = {}
    exec(compile(source, place, "exec"), made)  # noqa: S102 - the text above
    exported = scorer(made["jrh_judge"], name=name, description=description)
    # MLflow remembers what it has read once: nothing is lost when somebody clears the cache of source lines.
    exported.model_dump()
    return exported


def asked_by_suites(scorer: Any) -> Any:
    """Return an exported scorer that asks a pair as it is shown: a suite shows both orders itself. Others as they are.

    One that asked both would give the same answer to either order, and its bias could not be seen.
    """
    carried = specification(scorer)
    if carried is None or carried["orders"] == "one":
        return scorer
    return exported_scorer({**carried, "orders": "one"}, name=scorer.name, description=scorer.description)


def is_simulated(scorer: Any) -> bool:
    """Whether a simulated judge takes part in an exported scorer."""
    carried = specification(scorer)
    return carried is not None and bool(carried["simulated"])


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
