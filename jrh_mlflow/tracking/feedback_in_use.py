"""Feedback that an exported judge gave since it was measured: which models answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jrh_mlflow.tracking import keys
from jrh_mlflow.tracking.read import experiment_names
from jrh_mlflow.tracking.store import reading_client

if TYPE_CHECKING:
    from mlflow import MlflowClient

_TRACES = 200
"""The newest traces that are looked through: what a provider changed shows in any of them."""


def answered_since(run_id: str, moment: int, *, scorer: str | None = None, tracking_uri: str) -> tuple[str, ...]:
    """Return the models that answered for the judge of a run since it was measured, the latest first.

    Args:
        run_id: The datasheet's run, as feedback of an exported judge names it.
        moment: Milliseconds since 1970; older feedback does not count.
        scorer: Name of the feedback, where it is known: then the newest traces that have it are looked through, and
            otherwise the newest of all.
        tracking_uri: MLflow store.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    with reading_client(tracking_uri) as client:
        found = [one for trace in _newest(client, scorer) for one in trace.info.assessments or ()]
    ours = [one for one in found if _is_newer(one, run_id, moment)]
    ours.sort(key=lambda one: -(one.create_time_ms or 0))
    return tuple(dict.fromkeys(name for one in ours for name in _answerers(one)))


def _newest(client: MlflowClient, scorer: str | None) -> Sequence[Any]:
    from mlflow.exceptions import MlflowException

    places = list(experiment_names(client))
    try:
        return _search(client, places, None if scorer is None else f"feedback.`{scorer}` IS NOT NULL")
    except MlflowException:
        # A store of files, an older server or an odd name: without the filter the newest traces tell as much.
        return _search(client, places, None)


def _search(client: MlflowClient, places: Sequence[str], chosen: str | None) -> Sequence[Any]:
    found: Sequence[Any] = client.search_traces(
        locations=list(places),
        filter_string=chosen,
        order_by=["timestamp_ms DESC"],
        max_results=_TRACES,
        include_spans=False,
    )
    return found


def _is_newer(assessment: Any, run_id: str, moment: int) -> bool:
    of_run = (assessment.metadata or {}).get(keys.FEEDBACK_RUN) == run_id
    return of_run and (assessment.create_time_ms or 0) >= moment


def _answerers(assessment: Any) -> Iterator[str]:
    text = str(assessment.metadata.get(keys.FEEDBACK_ANSWERED_BY) or "")
    yield from filter(None, (name.strip() for name in text.split(",")))
