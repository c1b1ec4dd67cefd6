"""Judges: anything that answers a presentation."""

from jrh_mlflow.judges._base import (
    APART,
    DEFINITION_FORMAT,
    PAIRED,
    AnsweringJudge,
    Judge,
    ModelJudge,
    registration_facts,
    shown_name,
)

__all__ = [
    "APART",
    "DEFINITION_FORMAT",
    "PAIRED",
    "AnsweringJudge",
    "Judge",
    "ModelJudge",
    "registration_facts",
    "shown_name",
]
