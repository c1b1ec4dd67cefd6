"""Traces put into review queues of a real store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import mlflow
import pytest
from mlflow.tracing.client import TracingClient

from jrh_mlflow.errors import RecipeError, TrackingError
from jrh_mlflow.tracking.traces.review_queues import queue_disagreements
from tests.tracking.traces.trace_tools import answered, logging_traces


@pytest.fixture
def experiment(store_uri: str, request: pytest.FixtureRequest) -> Iterator[str]:
    with logging_traces(store_uri, f"queued {request.node.name}"):
        yield str(mlflow.get_experiment_by_name(f"queued {request.node.name}").experiment_id)


def items(uri: str, experiment: str, name: str) -> dict[str, str]:
    store = TracingClient(uri).store
    queue = store.get_review_queue_by_name(experiment, name=name)
    return {one.item_id: str(one.status) for one in store.list_review_queue_items(queue.queue_id, max_results=100)}


def put(traces: list[str], experiment: str, uri: str, **more: Any) -> Any:
    told = {"queue": "Look again", "name": "harm", "labels": ["no", "yes"], **more}
    return queue_disagreements(dict.fromkeys(traces, experiment), tracking_uri=uri, **told)


def test_a_queue_is_made_with_its_question_and_no_trace_is_added_twice(experiment: str, store_uri: str) -> None:
    first, second, third = (answered() for _ in range(3))
    done = put([first, second], experiment, store_uri)
    assert (done.added, done.already) == (2, 0)
    store = TracingClient(store_uri).store
    queue = store.get_review_queue_by_name(experiment, name="look again")
    question = store.get_label_schema(queue.schema_ids[0])
    assert (question.name, str(question.type), question.input.options) == ("harm", "feedback", ["no", "yes"])
    store.set_review_queue_item_status(queue.queue_id, item_id=first, status="complete", completed_by="ann")
    again = put([first, second, third], experiment, store_uri)
    assert (again.added, again.already) == (1, 2)
    assert str(again) == (
        "1 traces added to the review queue 'Look again' (2 were there before): "
        f"http://127.0.0.1:5000/#/experiments/{experiment}/review-queue?workflowType=genai"
    )
    assert items(store_uri, experiment, "Look again") == {first: "complete", second: "pending", third: "pending"}


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([True, False, True], "InputPassFail"),
        ([1, 2.0, "5"], "InputNumeric"),
        (["b", "a", "b"], "InputCategorical"),
        ([f"w{n}" for n in range(11)], "InputText"),
        (["x" * 65, "y"], "InputText"),
    ],
)
def test_a_question_is_answered_as_the_labels_are(
    experiment: str, store_uri: str, labels: list[Any], kind: str
) -> None:
    put([answered()], experiment, store_uri, labels=labels)
    made = TracingClient(store_uri).store.get_label_schema_by_name(experiment, "harm")
    assert type(made.input).__name__ == kind


def test_questions_and_queues_that_are_there_are_used(experiment: str, store_uri: str) -> None:
    store = TracingClient(store_uri).store
    trace = answered()
    put([trace], experiment, store_uri, name="Feedback")  # the question every experiment has
    store.get_or_create_user_queue(experiment, user="ann")
    put([trace], experiment, store_uri, queue="ann")
    assert items(store_uri, experiment, "ann") == {trace: "pending"}
    with pytest.raises(RecipeError, match="'Look again' does not ask 'harm'"):
        put([trace], experiment, store_uri)
    with pytest.raises(TrackingError, match=r"did not take the review queue 'default'.*reserved"):
        put([trace], experiment, store_uri, queue="default")


def test_a_store_without_review_queues_is_told_in_one_line(experiment: str, store_uri: str) -> None:
    from mlflow.exceptions import MlflowException

    no_endpoint = MlflowException("404", error_code=5)
    no_endpoint.error_code = "ENDPOINT_NOT_FOUND"
    for problem in (NotImplementedError("FileStore"), AttributeError("list_label_schemas"), no_endpoint):
        with (
            mock.patch.object(type(TracingClient(store_uri).store), "list_label_schemas", side_effect=problem),
            pytest.raises(TrackingError, match=r"has no review queues: they need MLflow 3\.14") as told,
        ):
            put([answered()], experiment, store_uri)
        assert "\n" not in str(told.value)
