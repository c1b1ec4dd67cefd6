"""Feedback that an exported judge gave since it was measured: which models answered."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import experiment_names
from jrh_mlflow.tracking.runs.store import reading_client

if TYPE_CHECKING:
    from mlflow import MlflowClient

_TRACES = 200
"""The newest traces that are looked through: what a provider changed shows in any of them."""


def answered_since(
    run_id: str,
    moment: int,
    *,
    fingerprints: Collection[str | None],
    scorer: str | None = None,
    tracking_uri: str,
) -> tuple[str, ...]:
    """Return the models that answered for the judge of a run since it was measured, the latest first.

    Args:
        run_id: The datasheet's run, as feedback of an exported judge names it.
        moment: Milliseconds since 1970; older feedback does not count.
        fingerprints: Of the judge. A stale judge names the datasheet that it differs from, but is another judge.
        scorer: Name of the feedback, where it is known: then the newest traces that have it are looked through, and
            otherwise the newest of all.
        tracking_uri: MLflow store.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    with reading_client(tracking_uri) as client:
        found = [one for trace in _newest(client, scorer) for one in trace.info.assessments or ()]
    newer = [one for one in found if (one.create_time_ms or 0) >= moment]
    newer.sort(key=lambda one: -(one.create_time_ms or 0))
    told = (each for one in newer for each in _told(one.metadata or {}))
    ours = (names for run, fingerprint, names in told if run == run_id and fingerprint in fingerprints)
    return tuple(dict.fromkeys(name for names in ours for name in names))


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


def _told(metadata: Mapping[str, Any]) -> Iterator[tuple[Any, Any, Sequence[str]]]:
    """Yield datasheet, fingerprint and answering models of a judge, and of each that answered together with others."""
    names = str(metadata.get(keys.FEEDBACK_ANSWERED_BY) or "").split(",")
    own = [name.strip() for name in names if name.strip()]
    yield metadata.get(keys.FEEDBACK_RUN), metadata.get(keys.FEEDBACK_FINGERPRINT), own
    for one in _members(metadata.get(keys.FEEDBACK_MEMBERS)):
        yield one.get("datasheet_run_id"), one.get("fingerprint"), one.get("answered_by") or ()


def _members(text: object) -> list[Mapping[str, Any]]:
    try:
        found = json.loads(str(text or "[]"))
    except ValueError:
        # Anybody can edit feedback: what is not as a jury wrote it tells nothing of its judges.
        return []
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
