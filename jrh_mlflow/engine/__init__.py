"""Asking: the calls a suite needs, many at a time, each ending as one record."""

from jrh_mlflow.engine.calls import count_calls, plan_calls, random_order
from jrh_mlflow.engine.runner import Asked, ask_calls, calls_frame

__all__ = ["Asked", "ask_calls", "calls_frame", "count_calls", "plan_calls", "random_order"]
