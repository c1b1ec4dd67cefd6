"""The Ray cluster: found or started, checked for what actors need, and left as it was found."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.judges import Judge

OBJECT_STORE_BYTES = 100 * 2**20
"""Of a cluster started here: calls are small and travel inline, nothing is kept in the object store."""


def import_ray() -> Any:
    """Return the module `ray`.

    Raises:
        RecipeError: when it is not installed.
    """
    try:
        import ray
    except ImportError:
        raise RecipeError('backend="ray" needs Ray, which is not installed: pip install "jrh-mlflow[ray]".') from None
    return ray


@contextmanager
def cluster() -> Iterator[Any]:
    """Lend `ray`, connected. What was initialised before stays up; what is started here is shut down.

    `RAY_ADDRESS` names a running cluster; without it one is started on this machine, quietly.

    Raises:
        JudgeError: when the cluster cannot be reached or started.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    _connect(ray)
    try:
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: Any) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if os.environ.get("RAY_ADDRESS"):
            ray.init(**quiet)
        else:
            ray.init(address="local", include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise JudgeError(f"The Ray cluster cannot be used: {' '.join(str(error).split())[:300]}") from error


def count_cpus(ray: Any) -> int:
    """Return the processors of the whole cluster, at least 1."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def journal_for_actors(ray: Any, address: str | os.PathLike[str]) -> str:
    """Return a journal's address as every actor can open it.

    Raises:
        RecipeError: for a file, when the cluster has other machines than this one.
    """
    text = os.fspath(address)
    if "://" in text:
        return text
    elsewhere = {node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]} - {socket.gethostname()}
    if elsewhere:
        raise RecipeError(
            f"A journal in a file belongs to one machine, and the Ray cluster has others: "
            f'{", ".join(sorted(elsewhere)[:3])}. Give journal="postgresql://…", which all of them can reach.'
        )
    return str(Path(text).resolve())


def pack_judge(ray: Any, judge: Judge) -> bytes:
    """Return a judge as bytes that a worker can load.

    Raises:
        RecipeError: when it holds what cannot be sent to another process.
    """
    try:
        packed: bytes = ray.cloudpickle.dumps(judge)
    except Exception as error:  # pickling runs code of the judge, which may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise RecipeError(
            f"The judge {judge.name!r} cannot be sent to Ray's workers ({reason}). Open clients, locks and files "
            'inside the function instead of around it, or use backend="local".'
        ) from error
    return packed
