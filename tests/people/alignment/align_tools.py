"""Judges, traces and optimisers kept in memory: real classes of MLflow's, without a model behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlflow.entities import AssessmentSource, Feedback, Trace
from mlflow.genai.judges import AlignmentOptimizer, Judge
from pydantic import PrivateAttr

from jrh_mlflow.tracking.judges.scorers import in_memory_trace

NAME = "polite"
Answer = Callable[[Any, Trace], Any]
"""Outputs and trace to a feedback's value; an exception is raised."""


class CodeJudge(Judge):
    """Answers by a function."""

    _answer: Answer = PrivateAttr()
    _instructions: str = PrivateAttr(default="Is {{ outputs }} polite?")
    _seen: list[Trace] = PrivateAttr(default_factory=list)

    def __init__(self, answer: Answer, *, name: str = NAME, instructions: str | None = None) -> None:
        super().__init__(name=name)
        self._answer = answer
        if instructions:
            self._instructions = instructions

    @property
    def instructions(self) -> str:
        return self._instructions

    @property
    def feedback_value_type(self) -> Any:
        return str

    @property
    def seen(self) -> list[Trace]:
        """Traces it was shown."""
        return self._seen

    def get_input_fields(self) -> list[Any]:
        return []

    def __call__(self, *, inputs: Any = None, outputs: Any = None, trace: Trace | None = None) -> Feedback:
        assert trace is not None
        self._seen.append(trace)
        value = self._answer(outputs, trace)
        if isinstance(value, Exception):
            raise value
        return Feedback(name=self.name, value=value)


class Returns(AlignmentOptimizer):
    """Gives back what a function makes of judge and traces, and keeps what it was given."""

    def __init__(self, made: Callable[[Judge, Sequence[Trace]], Any]) -> None:
        self.made = made
        self.judges: list[Judge] = []
        self.traces: list[Trace] = []

    def align(self, judge: Judge, traces: list[Trace]) -> Judge:
        self.judges.append(judge)
        self.traces += traces
        made: Judge = self.made(judge, traces)
        return made


def does_nothing() -> Returns:
    return Returns(lambda judge, _: judge)


def said(value: Any, by: str = "ann", *, name: str = NAME, kind: str = "HUMAN", at: int = 1, **more: Any) -> Feedback:
    source = AssessmentSource(source_type=kind, source_id=by)
    return Feedback(name=name, value=value, source=source, create_time_ms=at, last_update_time_ms=at, **more)


def trace_of(number: int, *feedback: Any, outputs: Any = None) -> Trace:
    """A trace of an output of its own, with what was said about it."""
    reply = f"Reply {number}: thank you. It is done." if outputs is None else outputs
    trace = in_memory_trace({"question": f"question {number}"}, reply)
    trace.info.assessments = list(feedback)
    return trace


def labelled(n: int, *, label: Callable[[int], Any] = lambda number: "yes" if number % 2 else "no") -> list[Trace]:
    return [trace_of(number, said(label(number)), said("yes", "model", kind="LLM_JUDGE")) for number in range(n)]


def number_of(outputs: Any) -> int:
    """The number a reply of `trace_of` was made with, however it is laid out."""
    return int(str(outputs).split()[1].rstrip(":"))


def truth(outputs: Any) -> str:
    """What people say of a trace of `labelled`."""
    return "yes" if number_of(outputs) % 2 else "no"


def right_on(share: Callable[[int], bool]) -> CodeJudge:
    """A judge that is right on the traces whose number is in a share."""

    def answer(outputs: Any, _: Trace) -> str:
        right = truth(outputs)
        return right if share(number_of(outputs)) else {"yes": "no", "no": "yes"}[right]

    return CodeJudge(answer)
