"""Reasons that contradict verdicts: the share of rationales that name another verdict than the one given.

The denominator are the calls with a usable answer whose rationale names a verdict (`scoring.reasons.named_verdict`).
A tie or an abstention goes with a rationale that names a tie, and with no other. In a run without a tie nobody knows
whether one was offered: there a rationale that names one is left aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import pandas as pd

from jrh_mlflow.measures.records import CallTable, call_table, is_pointwise
from jrh_mlflow.schema.estimates import NotEstimable, Reading
from jrh_mlflow.schema.items import Answers
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED, share
from jrh_mlflow.scoring.pointwise import plain_label, told_labels
from jrh_mlflow.stats import Mask, Texts

REASON_CONFLICT = "reason_conflict"
_TIE = "tie"
_NONE_NAMED = "no rationale names a verdict in words that are surely one"


@lru_cache(maxsize=20_000)
def _named(rationale: str, labels: Sequence[str] | None = None, *, seen: bool = False) -> str | None:
    # Its patterns take a while to build, and most runs have no rationale.
    from jrh_mlflow.scoring.reasons import named_verdict

    return named_verdict(rationale, labels, seen=seen)


def has_reasons(frame: pd.DataFrame) -> bool:
    """Tell whether any call has a rationale."""
    return "rationale" in frame.columns and any(isinstance(text, str) and text.strip() for text in frame["rationale"])


def reason_axes(
    frame: pd.DataFrame, *, labels: Sequence[str] | None = None, max_excluded: float = MAX_EXCLUDED
) -> dict[str, Reading]:
    """Return the axis of this module for normalised records; nothing where no call has a rationale."""
    if not has_reasons(frame):
        return {}
    calls, conflicts = conflicting_calls(frame, labels=labels, max_excluded=max_excluded)
    if not len(calls.row):
        return {REASON_CONFLICT: NotEstimable(reason=_NONE_NAMED)}
    return {REASON_CONFLICT: share(calls.units("calls whose rationale names a verdict"), conflicts)}


def conflicting_calls(
    frame: pd.DataFrame, *, labels: Sequence[str] | None = None, max_excluded: float = MAX_EXCLUDED
) -> tuple[CallTable, Mask]:
    """Return the calls whose rationale names a verdict, and which of them gave another one."""
    verdicts = named_verdicts(frame, labels)
    calls = call_table(frame, max_excluded=max_excluded).where(np.asarray(verdicts != ""))
    return calls, np.asarray(verdicts != _given(frame))[calls.row]


def named_verdicts(frame: pd.DataFrame, labels: Sequence[str] | None = None) -> Texts:
    """Return the verdict that the rationale of each call names; empty where it names none.

    Args:
        frame: Normalised records with the column `rationale`.
        labels: What a judge of single responses may answer; None: as the records tell, else what was answered.
    """
    # One by one: those of many calls are on disk.
    texts = (text if isinstance(text, str) else "" for text in frame["rationale"])
    if not is_pointwise(frame):
        named = np.array([_named(text) or "" for text in texts], dtype=object)
        return named if (frame["outcome"] == _TIE).any() else np.where(named == _TIE, "", named)
    told = told_labels(frame, labels)
    answers = {plain_label(text) for text in (*frame["answer"], *frame["expected"]) if text}
    offered = tuple(told or sorted(answers))
    seen = not told or (isinstance(told, Answers) and told.seen)
    return _spelled(_named(text, offered, seen=seen) or "" for text in texts)


def _given(frame: pd.DataFrame) -> Texts:
    """Return the verdict of each call as a rationale would name it."""
    answer = _spelled(frame["answer"])
    return answer if is_pointwise(frame) else np.where(answer == "", _TIE, answer)


def _spelled(labels: Iterable[str]) -> Texts:
    """Write labels so that 3 and 3.0, and Yes and yes, are one."""
    # Few of them differ.
    codes, kinds = pd.factorize(np.array([*labels], dtype=object))
    return np.array([plain_label(label).casefold() for label in kinds], dtype=object)[codes]
