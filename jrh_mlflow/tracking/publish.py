"""Runs of every kind in MLflow: opened, described and written in one way."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import TrackingError
from jrh_mlflow.reports.description import shortened
from jrh_mlflow.tracking import keys
from jrh_mlflow.tracking.store import Store

if TYPE_CHECKING:
    import pandas as pd

    from jrh_mlflow.suites.suite import Suite

    Artifact = str | bytes | Mapping[str, Any] | pd.DataFrame


@dataclass(frozen=True, kw_only=True, slots=True)
class RunContent:
    """What a run holds when its work is done."""

    points: Sequence[keys.Point]
    params: Mapping[str, Mapping[str, object]]
    """Group to settings, logged as `<group>.<name>`; those that are None are left out."""
    description: str
    """Markdown; what MLflow would cut off ends with a pointer to `described_in`."""
    described_in: str
    """The artifact that holds the whole description."""
    artifacts: Mapping[str, Artifact]
    """Path to text, bytes, JSON-ready data or a table (`.csv`, `.parquet`)."""
    tags: Mapping[str, str] = field(default_factory=dict)
    suite: Suite | None = None
    """Logged as the run's dataset."""
    save_suite: bool = True
    """Also keep it under `suite/`; not where runs below this one do."""
    traces: Callable[[Store, str], object] | None = None
    """Writes traces of a run, given the store and the run's id."""

    def __post_init__(self) -> None:
        if self.described_in not in self.artifacts:
            raise ValueError(f"`described_in` must be an artifact of the run, but got {self.described_in!r}.")


def first_tags(kind: str, *, simulated: bool, tags: Mapping[str, str] | None = None) -> dict[str, str]:
    """Tags a run carries from its creation on."""
    return {
        **(tags or {}),
        keys.TAG_KIND: kind,
        keys.TAG_SCHEMA_VERSION: keys.SCHEMA_VERSION,
        keys.TAG_VERSION: version("jrh-mlflow"),
        keys.TAG_SIMULATED: str(simulated).lower(),
    }


@contextmanager
def open_run(
    store: Store,
    kind: str,
    name: str,
    *,
    simulated: bool = False,
    tags: Mapping[str, str] | None = None,
    parent: str | None = None,
) -> Iterator[str]:
    """Create a run and give its id; it is marked as failed or killed when the block does not come to its end."""
    run_id = store.create_run(name, tags=first_tags(kind, simulated=simulated, tags=tags), parent=parent)
    with ending(store, run_id):
        yield run_id


@contextmanager
def ending(store: Store, run_id: str) -> Iterator[None]:
    """Mark a run as failed or killed when the work inside does not come to its end."""
    try:
        yield
    except BaseException as error:
        status = "FAILED" if isinstance(error, Exception) else "KILLED"
        try:
            with store.errors("The run stays open."):
                store.client.set_terminated(run_id, status)
        except TrackingError as second:
            print(second, file=sys.stderr)
        raise


def publish(store: Store, run_id: str, content: RunContent, *, what_now: str) -> dict[str, float]:
    """Write a run's content, mark the run as finished, and return the metrics as MLflow shows them.

    Artifacts come first, the numbers after them in one batch, so a run has all of its numbers or none; traces come
    last, because they are a view, and a run must not lack its numbers because of one. Publishing again what was cut
    short writes what is missing.

    Raises:
        TrackingError: when MLflow does not take it; `what_now` says what is safe, and what to do.
    """
    note = shortened(content.description, artifact=content.described_in)
    with store.errors(what_now):
        with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
            write_artifacts(Path(folder), content)
            store.client.log_artifacts(run_id, folder)
        # An evaluation that is resumed may have its numbers already: a second point of each would change its charts.
        if keys.CALLS_TOTAL not in store.client.get_run(run_id).data.metrics:
            if content.suite is not None:
                store.log_dataset(run_id, content.suite)
            store.log_batch(
                run_id,
                points=content.points,
                params=keys.grouped_params(content.params),
                tags={**content.tags, keys.TAG_NOTE: note},
            )
        store.client.set_terminated(run_id, "FINISHED")
        if content.traces is not None:
            content.traces(store, run_id)
    return keys.last_values(content.points)


def write_artifacts(folder: Path, content: RunContent) -> None:
    """Lay the artifacts of a run out under their public names."""
    if content.suite is not None and content.save_suite:
        content.suite.save(folder / keys.SUITE_FOLDER)
    for name, artifact in content.artifacts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(artifact, bytes):
            path.write_bytes(artifact)
        elif isinstance(artifact, str):
            path.write_text(artifact, encoding="utf-8")
        elif isinstance(artifact, Mapping):
            data = json.dumps(artifact, indent=1, ensure_ascii=False, allow_nan=False)
            path.write_text(data + "\n", encoding="utf-8")
        elif path.suffix == ".parquet":
            artifact.to_parquet(path, index=False)
        else:
            artifact.to_csv(path, index=False)
