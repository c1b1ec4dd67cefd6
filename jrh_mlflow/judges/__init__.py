"""Judges: anything that answers a presentation."""

from jrh_mlflow.judges._base import Judge

__all__ = ["Judge"]
