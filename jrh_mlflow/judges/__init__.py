"""Judges: anything that answers a presentation."""

from jrh_mlflow.judges._base import AnsweringJudge, Judge, ModelJudge

__all__ = ["AnsweringJudge", "Judge", "ModelJudge"]
