"""Speaking to MLflow: its settings while we do, and its errors in one line without a password."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from jrh_mlflow.errors import TrackingError

_LONGEST_REASON = 300
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
        if (lost := _lost_connection(error)) is not None:
            raise TrackingError(
                f"The MLflow store at {shown_uri(uri)} cannot be reached: {lost}. "
                f"Start it, or check --tracking-uri. {what_now}"
            ) from error
        raise TrackingError(f"MLflow at {shown_uri(uri)} {problem}: {reason(error, uri)}. {what_now}") from error


def reason(error: BaseException, uri: str) -> str:
    """Say why in one line of whole words, without the password of the store's address and without the full stop."""
    text = str(error).replace(uri, shown_uri(uri))
    return textwrap.shorten(text, _LONGEST_REASON, placeholder=" …").rstrip(".")


def _lost_connection(error: BaseException) -> str | None:
    """Return what the system said when a server could not be reached, or None when it was."""
    from requests.exceptions import ConnectionError as NoConnection
    from requests.exceptions import Timeout

    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    if not any(isinstance(cause, NoConnection | Timeout) for cause in causes):
        return None
    said = [cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror]
    return said[-1] if said else "no answer"


@contextmanager
def _settings() -> Iterator[None]:
    ours = {name: value for name, value in _SETTINGS.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
