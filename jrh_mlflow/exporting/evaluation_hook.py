"""What happens around `mlflow.genai.evaluate`, by whatever name it was imported, and what its run is told then."""

from __future__ import annotations

import hashlib
import inspect
import re
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.show.markdown import MAX_DESCRIPTION
from jrh_mlflow.tracking.mlflow_internals import (
    ensemble_members,
    exchangeable_function,
    function_like,
    run_code_of,
)
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import mlflow_errors, reading_client

Before = Callable[[], None]
"""Is called when an evaluation begins; must not raise."""
After = Callable[[Any, Callable[[], Mapping[str, Any]]], None]
"""Is given the result of an evaluation and what gives its arguments; must not raise."""
_HEADING = "## Judges of this evaluation"
_LINE = re.compile(
    r"\s*- (`[^`]*`|\(empty\)): (?:Simulated judge\. )?(?:Measured|Stale|Never measured|code, not a judge)\b"
)
"""What is said of a judge, as `jrh.autolog` writes it: other lines of the section are the user's."""
_LONGEST_NAME = 230
"""Of a name in a tag, whose key MLflow takes up to 250 characters of."""
_LOCK = threading.Lock()
_PLAIN: list[types.FunctionType] = []
"""MLflow's function as it is when nobody listens; kept for calls that are on their way."""
_LISTENERS: list[tuple[Before, After]] = []
"""One or none."""


def listen(before: Before, after: After) -> None:
    """Let one function be called before every evaluation from now on, and one be told of each that ends well.

    MLflow offers no place for this. Its function stays the same object, so that names which were imported earlier
    are heard as well; only its code is another while somebody listens.

    Raises:
        RecipeError: when something else stands in the place of MLflow's function.
    """
    with _LOCK:
        function = _function()
        _LISTENERS[:] = [(before, after)]
        run_code_of(_entrance, function=function, signature=inspect.signature(_PLAIN[0]))


def stop_listening() -> None:
    """Give MLflow's function back its own code."""
    with _LOCK:
        function = _function()
        _LISTENERS.clear()
        run_code_of(_PLAIN[0], function=function, signature=None)


@cache
def _function() -> types.FunctionType:
    """Return MLflow's function under whatever wraps it; the first time it is copied, while nobody listens."""
    import mlflow

    function = exchangeable_function(mlflow.genai.evaluate)
    if function is None:
        raise RecipeError(
            f"mlflow.genai.evaluate is no function of MLflow's here but {mlflow.genai.evaluate!r}: call jrh.autolog() "
            "before it is replaced."
        )
    _PLAIN.append(function_like(function))
    return function


def _entrance(*args: Any, **options: Any) -> Any:
    # The code of this function runs in MLflow's module, so that it knows no name of this one.
    from jrh_mlflow.exporting.evaluation_hook import evaluated

    return evaluated(*args, **options)


def evaluated(*args: Any, **options: Any) -> Any:
    """Evaluate as MLflow does, and tell whoever listens."""
    [plain] = _PLAIN
    for before, _ in tuple(_LISTENERS):
        before()
    result = plain(*args, **options)
    for _, after in tuple(_LISTENERS):
        after(result, lambda: inspect.signature(plain).bind(*args, **options).arguments)
    return result


def is_code(scorer: Any) -> bool:
    """Whether a scorer is code or a rule, and asks no model that MLflow knows of."""
    kind = getattr(getattr(scorer, "kind", None), "value", None)
    members = ensemble_members(scorer)
    is_rule = kind == "builtin" and "model" not in type(scorer).model_fields
    return is_rule or kind in ("decorator", "class") or (bool(members) and all(map(is_code, members)))


def run_page(run_id: str, uri: str) -> str:
    """Return where MLflow's own pages show a run."""
    with reading_client(uri) as client:
        return f"#/experiments/{client.get_run(run_id).info.experiment_id}/runs/{run_id}"


def note_judges(run_id: str, *, lines: Mapping[str, Sequence[str]], tags: Mapping[str, str], uri: str) -> None:
    """Add tags and a section of lines to a run; lines and tags of an earlier evaluation in the same run stay.

    Args:
        run_id: Of the evaluation.
        lines: Markdown by the name that stands in it as code.
        tags: What is said of each judge.
        uri: The store of the run.
    """
    from mlflow import MlflowClient
    from mlflow.entities import RunTag

    with mlflow_errors(uri, problem="did not take the notes on judges", what_now="The evaluation is as it was."):
        client = MlflowClient(tracking_uri=uri)
        there: Mapping[str, str] = client.get_run(run_id).data.tags
        states = {key: text for key, text in {**there, **tags}.items() if key.startswith(keys.STATUS_OF)}
        all_tags = {**tags, keys.TAG_DATASHEETS: keys.datasheet_counts(states.values())}
        text = described(there.get(keys.TAG_NOTE, ""), lines)
        if len(text) <= MAX_DESCRIPTION:
            all_tags[keys.TAG_NOTE] = text
        client.log_batch(run_id, tags=[RunTag(key, value) for key, value in all_tags.items()])


def described(description: str, lines: Mapping[str, Sequence[str]]) -> str:
    """Return a description with these lines in its section; all that is not a line of ours stays where it is."""
    new = [line for some in lines.values() for line in some]
    there = description.split("\n")
    start = next((number for number, line in enumerate(there, 1) if line.rstrip() == _HEADING), None)
    if start is None:
        return "\n".join([*([description.rstrip(), ""] if description.strip() else []), _HEADING, "", *new])
    end = next((number for number in range(start, len(there)) if there[number].startswith("#")), len(there))
    ours = {number: found[1] for number in range(start, end) if (found := _LINE.match(there[number]))}
    place = max(ours, default=start - 1) + 1
    before = [line for number, line in enumerate(there[:place]) if ours.get(number) not in lines]
    return "\n".join([*before, *new, *there[place:]])


def tag_for(name: str) -> str:
    """Return the tag that says what is known of a judge: one of its own for every name.

    Example:
        >>> tag_for("polite"), tag_for("a=b")
        ('jrh.status.polite', 'jrh.status.a_b-42144f39')
    """
    fit = re.sub(r"[^\w. :-]", "_", name)[:_LONGEST_NAME]
    digest = "" if fit == name else f"-{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:8]}"
    return f"{keys.STATUS_OF}{fit}{digest}"
