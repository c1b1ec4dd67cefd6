"""Sweeps in MLflow: the parent run, what a trial's run has beside its evaluation, and prompts of the registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jrh_mlflow.errors import RecipeError, TrackingError
from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.tracking import keys
from jrh_mlflow.tracking.store import Store


def trial_tags(*, stage: str, configuration: str, trial: int | None) -> dict[str, str]:
    """Tags of a run that a sweep started."""
    own = {keys.TAG_STAGE: stage, keys.TAG_CONFIGURATION: configuration}
    return own if trial is None else {**own, keys.TAG_TRIAL: str(trial)}


def log_trial(
    store: Store,
    run_id: str,
    *,
    params: Mapping[str, str],
    readings: Mapping[str, Reading],
    usd_per_1k: float | None,
    calls_per_judgment: int,
) -> dict[str, float]:
    """Add the choices and what the policy's decisions measured to the run of a trial; return the metrics."""
    points = keys.sweep_points(readings, usd_per_1k=usd_per_1k, calls_per_judgment=calls_per_judgment)
    with store.errors("The evaluation is logged; its choices are not. The same sweep again logs them."):
        store.log_batch(run_id, points=points, params=keys.grouped_params({"choice": params}))
    return keys.last_values(points)


def reopen(store: Store, run_id: str) -> None:
    """Mark the parent of a resumed sweep as running again."""
    with store.errors("Nothing was asked yet."):
        store.client.update_run(run_id, status="RUNNING")


def demand_parent(store: Store, run_id: str) -> None:
    """Refuse a store that does not have the parent run of the sweep.

    Raises:
        TrackingError: with what to do.
    """
    with store.errors("A worker needs the MLflow store of the sweep that it joins: give the same --tracking-uri."):
        store.client.get_run(run_id)


def end_orphans(store: Store, parent: str, trials: Iterable[int], *, keep: Iterable[str] = ()) -> None:
    """End the runs of trials whose process died: they are run again as other trials.

    Args:
        store: Of the sweep.
        parent: Its run.
        trials: Numbers of the trials that died.
        keep: Runs that a later trial took over.
    """
    dead = {str(number) for number in trials}
    if not dead:
        return
    with store.errors("The trials themselves are enqueued again."):
        found = store.client.search_runs(
            [store.experiment_id],
            f"tags.`{keys.TAG_PARENT}` = '{parent}' and attributes.status != 'KILLED'",
            max_results=10_000,
        )
        kept = set(keep)
        for run in found:
            if run.data.tags.get(keys.TAG_TRIAL) in dead and run.info.run_id not in kept:
                store.client.set_terminated(run.info.run_id, "KILLED")


def registered_prompt(uri: str, *, tracking_uri: str | None = None) -> str:
    """Return the text of `prompts:/name/version` (or `prompts:/name@alias`) in the form of our templates.

    Variables are written `{{candidates}}` in the registry and `{candidates}` here; the messages of a chat prompt
    become the sections [system] and [user].

    Raises:
        RecipeError: when there is no such prompt, or it has messages of other roles.
        TrackingError: when MLflow cannot be reached.
    """
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        prompt = MlflowClient(tracking_uri=tracking_uri, registry_uri=tracking_uri).load_prompt(uri)
    except MlflowException as error:
        text = " ".join(str(error).split())[:300]
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "NOT_FOUND"):
            raise RecipeError(f"There is no prompt {uri} in the registry: {text}.") from error
        raise TrackingError(f"The prompt {uri} cannot be read: {text}.") from error
    if prompt is None:
        raise RecipeError(f"There is no prompt {uri} in the registry.")
    template = prompt.to_single_brace_format()
    if isinstance(template, str):
        return template if template.endswith("\n") else f"{template}\n"
    roles = [message.get("role") for message in template]
    if roles not in (["user"], ["system", "user"]):
        raise RecipeError(f"The prompt {uri} has the messages {roles}: give a user message, or system and user.")
    return "\n".join(f"[{message['role']}]\n{message['content']}\n" for message in template)
