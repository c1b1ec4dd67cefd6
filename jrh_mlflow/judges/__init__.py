"""Judges: anything that answers a presentation. `as_judge` turns what a user passes into one."""

from jrh_mlflow.judges._base import Judge
from jrh_mlflow.judges.resolve import as_judge

__all__ = ["Judge", "as_judge"]
