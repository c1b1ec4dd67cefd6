"""Judges: anything that answers a presentation."""

from jrh_mlflow.judges._base import APART, PAIRED, AnsweringJudge, Judge, ModelJudge

__all__ = ["APART", "PAIRED", "AnsweringJudge", "Judge", "ModelJudge"]
