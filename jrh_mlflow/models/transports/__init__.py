"""Lanes to a provider: aiohttp straight to OpenAI-dialect endpoints, litellm to everything else."""

from __future__ import annotations

from typing import Literal

from jrh_mlflow.models.transports._base import Kind, Lane, LaneError, pick_lane
from jrh_mlflow.models.transports.dialect import RESERVED_EXTRA
from jrh_mlflow.models.transports.direct import DirectLane
from jrh_mlflow.models.transports.litellm import LiteLLMLane

__all__ = ["RESERVED_EXTRA", "DirectLane", "Kind", "Lane", "LaneError", "LiteLLMLane", "make_lane", "pick_lane"]


def make_lane(name: Literal["direct", "litellm"], *, concurrency: int = 64) -> Lane:
    """Return the lane that `pick_lane` named; open it with `async with`."""
    return DirectLane(concurrency=concurrency) if name == "direct" else LiteLLMLane(concurrency=concurrency)
