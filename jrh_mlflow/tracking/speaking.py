"""Speaking to MLflow: its settings while we do, and its errors in one line without a password."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from jrh_mlflow.errors import TrackingError

_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
"""MLflow's own settings while we speak to it, unless the user chose them: a dead server is known after seconds
instead of four minutes, standard output stays ours, and small files need no progress bar."""


def shown_uri(uri: str) -> str:
    """Return a store's address without the password it may hold: for messages and files."""
    password = urlsplit(uri).password
    return uri.replace(f":{password}@", ":***@") if password else uri


@contextmanager
def speaking(uri: str, *, problem: str, what_now: str) -> Iterator[None]:
    """Turn MLflow's and the network's errors into one line: `problem` says what failed, `what_now` what to do."""
    from mlflow.exceptions import MlflowException
    from requests.exceptions import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with _settings():
            yield
    except (MlflowException, RequestException, SQLAlchemyError, OSError) as error:
        text = " ".join(str(error).replace(uri, shown_uri(uri)).split())
        raise TrackingError(f"MLflow at {shown_uri(uri)} {problem}: {text[:300]}. {what_now}") from error


@contextmanager
def _settings() -> Iterator[None]:
    ours = {name: value for name, value in _SETTINGS.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
