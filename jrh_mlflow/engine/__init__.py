"""Asking: the calls a suite needs, many at a time, each ending as one record."""

from jrh_mlflow.engine.plan import plan_calls
from jrh_mlflow.engine.runner import calls_frame, run_calls

__all__ = ["calls_frame", "plan_calls", "run_calls"]
