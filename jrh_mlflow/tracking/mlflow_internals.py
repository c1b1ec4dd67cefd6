"""What nothing public of MLflow's does: each use of a private name is one function here, and stands nowhere else.

Tried with mlflow 3.14.0, 3.17.2 and 3.18.0 (`make test-mlflow`). Where a version has no such thing, the function says
what a user of that version has: no members, no headers, nothing remembered. Undocumented, too, but data and no code:
the tag of a saved view of the runs page (`keys.TAG_VIEW`, `view.py`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import wraps
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow.entities import Span, TraceInfo

DATABASE_LOGGER = "mlflow.store.db.utils"
"""Logger that prints the traceback of a full or locked database before it is raised: named after a private module."""
NO_JSON = "Failed to parse response from judge model."
"""How MLflow's error begins when a model did answer, only not in the form that was asked for: it has no class."""


def ensemble_members(scorer: Any) -> Sequence[Any]:
    """Return the scorers inside an ensemble; `model_dump` has them for MLflow's own ways of voting only."""
    return tuple(getattr(scorer, "_scorers", ()))


def base_url(scorer: Any) -> str | None:
    """Return the endpoint a judge was given: two judges that differ in it are not the same, and it may hold a key."""
    return getattr(scorer, "_base_url", None)


def extra_headers(scorer: Any) -> Mapping[str, str] | None:
    """Return the headers a judge was given: they may hold its key, which must not be shown."""
    return getattr(scorer, "_extra_headers", None)


def includes_timing(scorer: Any) -> bool:
    """Whether a judge of conversations is shown times: `model_dump` does not keep that."""
    return bool(getattr(scorer, "_include_timing_in_conversation", False))


def kept_of(scorer: Any) -> dict[str, Any]:
    """Return what MLflow keeps of a scorer, and what it loses although the scorer cannot be made again without.

    Of a judge that asks turn by turn it keeps nothing, of a metric of another library not the arguments of its model,
    nor the version of the library, which writes the prompts.

    Raises:
        MlflowException: for a scorer that it cannot keep.
        NotImplementedError: for one that asks turn by turn by a scorer of somebody's own.
    """
    from mlflow.genai.scorers.base import SerializedScorer
    from pydantic import BaseModel

    if (turn := getattr(scorer, "last_turn_scorer", None)) is None:
        kept: dict[str, Any] = scorer.model_dump()
        data = kept.get("third_party_scorer_data")
        return kept if data is None else {**kept, "third_party_scorer_data": {**data, **_of_library(scorer, data)}}
    if type(turn).__module__ != type(scorer).__module__:
        raise NotImplementedError("The scorer of a turn is not MLflow's own.")
    own = BaseModel.model_dump(scorer, mode="json", exclude={"last_turn_scorer"})
    whole = SerializedScorer(
        name=scorer.name,
        is_session_level_scorer=scorer.is_session_level_scorer,
        builtin_scorer_class=type(scorer).__name__,
        builtin_scorer_pydantic_data={**own, "instructions": turn.instructions},
    )
    return asdict(whole)


def _of_library(scorer: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the version of the library behind a metric, and its arguments with those of its model."""
    library = next(iter(str(data["module"]).removeprefix("mlflow.genai.scorers.").split(".")))
    model: Any = getattr(getattr(scorer, "_metric", None), "model", None)
    sent = dict(getattr(model, "_model_kwargs", None) or {})
    if hasattr(model, "generation_kwargs"):
        # Where LiteLLM is asked, MLflow adds the first, and the second stands by itself; 0 is its default.
        sent = {name: value for name, value in model.generation_kwargs.items() if name != "drop_params"}
        sent |= {"temperature": model.temperature} if getattr(model, "temperature", None) else {}
    try:
        installed = version(library)
    except PackageNotFoundError:
        installed = None
    return {"kwargs": {**data["kwargs"], **({"model_kwargs": sent} if sent else {})}, "library_version": installed}


def wrapped_model(scorer: Any) -> str | None:
    """Return the model that a metric of another library asks; None for one that asks none, and for code."""
    return getattr(scorer, "_model", None)


def default_timeout() -> float:
    """Return the seconds after which a scorer is given up that was told none."""
    from mlflow.genai.scorers import base

    return float(getattr(base, "DEFAULT_SCORER_TIMEOUT", 0))


def decorated_function(scorer: Any) -> Callable[..., Any] | None:
    """Return the function under `@scorer`: its annotation says what is returned."""
    return getattr(scorer, "_original_func", None)


def demand_registrable(scorer: Any) -> None:
    """Refuse what `register` would refuse: that is known before an alignment is paid for.

    Raises:
        MlflowException: saying why.
    """
    scorer._check_can_be_registered()


def experiment_of(scorer: Any) -> str | None:
    """Return the id of the experiment that a scorer is registered with: of it only name and version are public."""
    return getattr(scorer, "_experiment_id", None)


def active_experiment_id() -> str:
    """Return the id of the experiment that MLflow's own functions use where none is named."""
    from mlflow.tracking.fluent import _get_experiment_id

    return str(_get_experiment_id())


def registered_record(name: str, *, experiment_id: str, version: int | None, uri: str) -> tuple[dict[str, Any], int]:
    """Return what the registry holds of a scorer, and its version; `get_scorer` runs the code of those that are code.

    Raises:
        MlflowException: when there is none.
    """
    from mlflow.tracking._tracking_service.utils import _get_store

    record = _get_store(uri).get_scorer(experiment_id, name, version)
    return asdict(record.serialized_scorer), int(record.scorer_version)


def registered_names(*, experiment_id: str, uri: str) -> list[str]:
    """Return the names of the scorers of an experiment; `list_scorers` runs the code of those that are code."""
    from mlflow.tracking._tracking_service.utils import _get_store

    return sorted({str(scorer.scorer_name) for scorer in _get_store(uri).list_scorers(experiment_id)})


def remembered_traces(judge: Any) -> frozenset[str]:
    """Return the ids of the traces that a judge with a memory has learned from."""
    return frozenset(getattr(judge, "_episodic_trace_ids", None) or ())


def chat_request(judge: Any, *, inputs: Any, outputs: Any) -> dict[str, Any] | None:
    """Return the body that a judge with instructions sends, without its model; None of a version that has another way.

    The public way is to ask the judge, which pays for an answer.
    """
    try:
        from mlflow.genai.judges.adapters.gateway_adapter import _build_request
        from mlflow.types.llm import ChatMessage

        system = judge._build_system_message(False)
        user = judge._build_user_message(inputs, outputs, None, None)
        messages = [ChatMessage(role="system", content=system), ChatMessage(role="user", content=user)]
        schema = judge._create_response_format_model()
        body: dict[str, Any] = _build_request(messages, None, schema, True, judge.inference_params)
    except (ImportError, AttributeError, TypeError):
        return None
    return body


def default_model() -> str:
    """Return the model of a judge that names none."""
    from mlflow.genai.judges.utils import get_default_model

    return str(get_default_model())


def start_trace(info: TraceInfo, *, uri: str) -> None:
    """Write a trace with an id, a time and assessments of its own; the public ways make all three themselves."""
    from mlflow.tracing.client import TracingClient

    TracingClient(uri).start_trace(info)


def trace_info(trace_id: str, *, uri: str) -> TraceInfo:
    """Return what a store knows of a trace, without its spans: the public way reads them all.

    Raises:
        MlflowException: when there is none.
    """
    from mlflow.tracing.client import TracingClient

    return TracingClient(uri).get_trace_info(trace_id)


def log_spans(spans: Sequence[Span], *, experiment_id: str, uri: str) -> None:
    """Write finished spans of many traces by one request.

    Raises:
        NotImplementedError: when the store takes no spans.
    """
    from mlflow.tracing.client import TracingClient

    TracingClient(uri).log_spans(experiment_id, list(spans))


def start_run_tags(*, commit: bool) -> dict[str, str]:
    """Return what `mlflow.start_run` writes of user, source and `commit`; a run made by the client has none of it."""
    from mlflow.tracking.context import registry
    from mlflow.utils.databricks_utils import is_in_databricks_runtime

    # Where nobody has loaded IPython there is no notebook: MLflow would load it to learn that.
    no_notebook = not is_in_databricks_runtime() and "IPython" not in sys.modules
    # Git's library, too, is loaded only where the script lies in a repository.
    script = Path(sys.argv[0] if sys.argv else "").absolute()
    commit = commit and any((folder / ".git").exists() for folder in (script, *script.parents))
    elsewhere = (*(("Jupyter", "Databricks") if no_notebook else ()), *(() if commit else ("Git",)))
    known = registry._run_context_provider_registry
    ignored = [type(provider) for provider in known if type(provider).__name__.startswith(elsewhere)]
    return {str(key): str(value) for key, value in registry.resolve_tags(ignore=ignored).items()}


def server_application() -> Any:
    """Return the ASGI application that `mlflow server` runs, for pages beside its own."""
    from mlflow.server.fastapi_app import app

    return app


def static_prefix() -> str:
    """Return the path that `mlflow server --static-prefix` puts before all others, or an empty text."""
    from mlflow.server.handlers import STATIC_PREFIX_ENV_VAR

    return os.environ.get(STATIC_PREFIX_ENV_VAR, "").rstrip("/")


def add_metrics(numbers: Callable[[Sequence[Any]], Mapping[str, float]]) -> None:
    """Let evaluations log what a function makes of all their feedback, too: of words MLflow itself averages yes and no.

    What makes the metrics of a run takes functions of numbers only, and words do not come so far.
    """
    from mlflow.genai.evaluation import harness

    plain = getattr(harness, "compute_aggregated_metrics", None)
    if plain is None or hasattr(plain, "__wrapped__"):
        return

    vars(harness)["compute_aggregated_metrics"] = wraps(plain)(
        lambda results, *args, **options: {
            **numbers([said for result in results for said in result.assessments]),
            **plain(results, *args, **options),
        }
    )


def autologging_switch(
    name: str, module: ModuleType, function: str, *, patch: Callable[..., Any]
) -> Callable[..., None]:
    """Return what switches an integration of MLflow's autologging on and, with `disable=True`, off.

    Args:
        name: By which MLflow knows the integration.
        module: Where the function is looked up by those who call it; a name imported before is not patched.
        function: Its name.
        patch: Called in its place, with the function itself before the arguments. An error of the patch is a line in
            MLflow's log, and leaves the result of the function.
    """
    from mlflow.utils.autologging_utils import autologging_integration, safe_patch

    # MLflow calls it only to enable, after it has taken back its patches, and asks for these two parameters.
    enable = lambda disable=False, silent=False: safe_patch(name, module, function, patch)  # noqa: E731
    switch: Callable[..., None] = autologging_integration(name)(enable)
    return switch
