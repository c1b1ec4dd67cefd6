"""MLflow's own web application, for servers that put pages beside it."""

from __future__ import annotations

import os
from typing import Any


def mlflow_application() -> Any:
    """Return the ASGI application that `mlflow server` itself runs."""
    from mlflow.server.fastapi_app import app

    return app


def static_prefix() -> str:
    """Return the path that `mlflow server --static-prefix` puts before all others, or an empty text."""
    from mlflow.server.handlers import STATIC_PREFIX_ENV_VAR

    return os.environ.get(STATIC_PREFIX_ENV_VAR, "").rstrip("/")
