"""A judge model on loopback for the rated traces: how well it judges depends on what its prompt asks for.

    with judging(rated, monkeypatch) as server:
        judge = lenient_judge()

Asked in general terms it is a lenient judge; where its prompt has `GUIDELINE`, as an aligned judge's does, it is a good
one. It finds the trace by the number in its question, so that a rewritten or reordered text is judged as the original.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from mlflow.genai import make_judge
from mlflow.genai.judges import AlignmentOptimizer, Judge

from tests.people.rated_store import JUDGE, NAME, RatedStore
from tests.tracking.judges.mlflow_chat import ChatServer, chatting, verdict

MODEL = JUDGE
LENIENT = "Is the answer in {{ outputs }} right, as an answer to {{ inputs }}?"
GUIDELINE = "An answer that does not say what to do, or promises what nobody can, is wrong."


@contextmanager
def judging(rated: RatedStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """Serve the model; MLflow's judges reach it, and nothing else."""
    numbers = [re.search(r"\d+", question) for question in rated.traces["question"]]
    truth = {found[0]: bool(right) for found, right in zip(numbers, rated.traces["truth"], strict=True) if found}
    with chatting(monkeypatch) as server:
        server.reply = lambda body: _answer(body, truth)
        yield server


def _answer(body: dict[str, Any], truth: dict[str, bool]) -> str:
    text = json.dumps(body["messages"])
    number = next(found for found in re.findall(r"\d+", text) if found in truth)
    said = answer(number, truth[number], aligned=GUIDELINE in text)
    return verdict(said, rationale=f"Read {number}.")


def answer(number: str, truth: bool, *, aligned: bool) -> bool:
    """What the model says about the trace with this number."""
    accuracy = 0.95 if aligned else 0.9 if truth else 0.3
    return truth if _draw(number, "aligned" if aligned else "lenient") < accuracy else not truth


def _draw(*parts: str) -> float:
    """A number in [0, 1) that is the same for the same parts."""
    return int(hashlib.sha256("/".join(parts).encode()).hexdigest()[:8], 16) / 2**32


def lenient_judge() -> Any:
    """An MLflow judge that answers under the name people use."""
    return make_judge(name=NAME, instructions=LENIENT, model=MODEL, feedback_value_type=bool)


class AddsGuideline(AlignmentOptimizer):
    """The least an optimiser can do that helps: one more sentence in the instructions."""

    def align(self, judge: Judge, traces: list[Any]) -> Judge:
        """Return the judge with the guideline."""
        self.seen = [trace.info.trace_id for trace in traces]
        aligned: Judge = make_judge(
            name=judge.name,
            instructions=f"{judge.instructions}\n{GUIDELINE}",
            model=MODEL,
            feedback_value_type=judge.feedback_value_type,
        )
        return aligned
