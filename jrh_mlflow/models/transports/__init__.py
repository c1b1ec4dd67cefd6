"""Transports to a provider: aiohttp straight to OpenAI-dialect endpoints, litellm to everything else."""

from __future__ import annotations

from typing import Literal

from jrh_mlflow.models.transports._base import FailureKind, Transport, TransportError, pick_transport
from jrh_mlflow.models.transports.dialect import RESERVED_EXTRA
from jrh_mlflow.models.transports.direct import DirectTransport
from jrh_mlflow.models.transports.litellm import LiteLLMTransport

__all__ = [
    "RESERVED_EXTRA",
    "DirectTransport",
    "FailureKind",
    "LiteLLMTransport",
    "Transport",
    "TransportError",
    "make_transport",
    "pick_transport",
]


def make_transport(name: Literal["direct", "litellm"], *, concurrency: int = 64) -> Transport:
    """Return the transport that `pick_transport` named; open it with `async with`."""
    return DirectTransport(concurrency=concurrency) if name == "direct" else LiteLLMTransport(concurrency=concurrency)
