"""Asking: the calls a suite needs, many at a time, each ending as one record."""

from jrh_mlflow.engine.plan import plan_calls
from jrh_mlflow.engine.runner import run_calls

__all__ = ["plan_calls", "run_calls"]
