"""Traces and what people and judges said about them, logged by MLflow's own interface."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mlflow
import pytest
from mlflow.entities import AssessmentSource

from jrh_mlflow.people.label_reader import chosen_by_people, labels_of
from jrh_mlflow.people.labels import LabelOptions, LabelTable

with warnings.catch_warnings():
    # MLflow loads this with the first span, and takes a warning of its libraries there for a reason to trace nothing.
    warnings.simplefilter("ignore")
    import mlflow.pyfunc


@contextmanager
def logging_traces(uri: str, experiment: str) -> Iterator[str]:
    """Make a store and an experiment the active ones, and write every trace at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")
        mlflow.set_tracking_uri(uri)
        mlflow.set_experiment(experiment)
        yield experiment
        # Not what `get_tracking_uri` said before: a store that is set outranks the environment of every later test.
        mlflow.set_tracking_uri(None)


def answered(inputs: object = "Is it late?", outputs: object = "No.", **tags: str) -> str:
    """Log a trace of one span, without chat messages, and return its id."""
    with mlflow.start_span(name="app") as span:
        span.set_inputs(inputs)
        span.set_outputs(outputs)
        if tags:
            mlflow.update_current_trace(tags=tags)
    return str(span.trace_id)


def say(trace: str, value: Any, by: str, *, name: str = "harm", kind: str = "HUMAN", **more: Any) -> Any:
    """Give feedback as a person, or as another kind of source."""
    source = AssessmentSource(source_type=kind, source_id=by)
    return mlflow.log_feedback(trace_id=trace, name=name, value=value, source=source, **more)


def judged(trace: str, value: Any, by: str = "openai:/small", **more: Any) -> Any:
    """Give feedback as a judge."""
    return say(trace, value, by, kind="LLM_JUDGE", **more)


def expect(trace: str, value: Any, by: str = "default", *, name: str = "harm", kind: str = "HUMAN") -> Any:
    """Write an expectation."""
    source = AssessmentSource(source_type=kind, source_id=by)
    return mlflow.log_expectation(trace_id=trace, name=name, value=value, source=source)


def rated_traces(source: Any, *, name: str | None = None, judge: str | None = None, **options: Any) -> LabelTable:
    """What people said under one name, and one judge, as `jrh.agree` reads it."""
    named = source if not isinstance(source, str) or source.startswith("traces:/") else f"traces:/{source}"
    return chosen_by_people(labels_of(named, LabelOptions(**options)), name=name, judge=judge)
