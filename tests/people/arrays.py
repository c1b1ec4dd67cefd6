"""A corrected rate from arrays."""

from __future__ import annotations

from typing import Any

from jrh_mlflow.people import corrected
from jrh_mlflow.people.corrected import CorrectedRate, Graded, LabelledSample


def correct_rate(
    judge_unlabelled: Any, judge_labelled: Any, human: Any, *, weights=None, clusters=None, scores=None, **known: Any
) -> CorrectedRate:
    (ours, theirs), (seen, own) = clusters or (None, None), scores or (None, None)
    return corrected.correct_rate(
        Graded(judge=judge_unlabelled, clusters=ours, scores=seen),
        LabelledSample(judge=judge_labelled, human=human, weights=weights, clusters=theirs, scores=own),
        **known,
    )
