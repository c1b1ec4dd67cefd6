"""MLflow's review queues: traces on which judge and people differ, put before people again with the question they had.

Queues and their questions (label schemas) are kept by MLflow 3.14 or newer over a database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import RecipeError, TrackingError
from jrh_mlflow.schema.label_words import label_number, label_text
from jrh_mlflow.tracking.judges.judge_registry import active_store
from jrh_mlflow.tracking.runs.store import active_uri, if_there, mlflow_errors, paged, reading_client
from jrh_mlflow.tracking.runs.view import queue_link, shown_uri
from jrh_mlflow.tracking.traces.traces_in import same_name

if TYPE_CHECKING:
    from mlflow.genai.label_schemas import LabelSchema
    from mlflow.genai.review_queues import ReviewQueue

_AT_ONCE = 200
"""Traces added, or listed, by one request."""
_MOST_OPTIONS, _LONGEST_OPTION = 10, 64
"""What MLflow takes as options of a question."""

_NO_QUEUES = ("ENDPOINT_NOT_FOUND", "NOT_IMPLEMENTED")


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuedTraces:
    """What became of the traces."""

    queue: str
    added: int
    already: int
    """Traces that were in the queue before: they keep their state there."""
    links: tuple[str, ...]
    """Where the queue can be worked on, one for each experiment of the traces."""

    def __str__(self) -> str:
        before = f" ({self.already} were there before)" if self.already else ""
        return f"{self.added} traces added to the review queue {self.queue!r}{before}: {', '.join(self.links)}"


def queue_disagreements(
    experiments: Mapping[str, str],
    *,
    queue: str,
    name: str,
    labels: Iterable[object],
    tracking_uri: str | None = None,
) -> QueuedTraces:
    """Put traces into a review queue; it is made where it is missing, with the question that people were asked.

    What reviewers answer there is HUMAN feedback under the same name, which `people.labels` reads. A trace that is in
    the queue already is not added again and keeps its state.

    Args:
        experiments: Trace id to the id of its experiment, the traces in the order they are to be seen.
        queue: Name of the queue; one of that name is made in each experiment.
        name: The assessment.
        labels: What may be answered, in the order it is offered; of numbers the lowest and the highest count.
        tracking_uri: Of the store; None takes MLflow's own setting.

    Raises:
        RecipeError: when a queue of that name asks something else.
        TrackingError: when the store has no review queues, or cannot be reached.
    """
    uri = tracking_uri or active_uri()
    added = already = 0
    links = []
    with _queue_errors(uri, queue), active_store(uri):
        from mlflow.genai.review_queues import add_items_to_review_queue

        for experiment in dict.fromkeys(experiments.values()):
            traces = [trace for trace, of in experiments.items() if of == experiment]
            queue_id = _queue(experiment, queue, _question(experiment, name, list(labels))).queue_id
            before = _held(queue_id)
            new = [trace for trace in traces if trace not in before]
            for start in range(0, len(new), _AT_ONCE):
                add_items_to_review_queue(queue_id, item_ids=new[start : start + _AT_ONCE])
            added, already = added + len(new), already + len(traces) - len(new)
            links.append(queue_link(uri, experiment))
    return QueuedTraces(queue=queue, added=added, already=already, links=tuple(links))


def queued_traces(experiment: str, queue: str, uri: str) -> list[str]:
    """Return the ids of the traces in a review queue of an experiment, which is given by its name.

    Raises:
        RecipeError: when there is no such experiment, or no such queue.
        TrackingError: when the store has no review queues, or cannot be reached.
    """
    with reading_client(uri) as client:
        place = client.get_experiment_by_name(experiment)
    if place is None:
        raise RecipeError(f"There is no experiment {experiment!r} at MLflow.")
    with _queue_errors(uri, queue), active_store(uri):
        from mlflow.genai.review_queues import get_review_queue

        known = if_there(lambda: get_review_queue(name=queue, experiment_id=place.experiment_id))
        if known is None:
            raise RecipeError(f"The experiment {experiment!r} has no review queue {queue!r}.")
        return sorted(_held(known.queue_id))


def tag_traces(tags: Mapping[str, Mapping[str, str]], tracking_uri: str | None) -> None:
    """Set tags of traces.

    Raises:
        TrackingError: when the store does not take them.
    """
    from mlflow import MlflowClient

    uri = tracking_uri or active_uri()
    with mlflow_errors(
        uri,
        problem="did not take tags of traces",
        what_now="Remove the tags jrh.* of these traces before you draw again.",
    ):
        client = MlflowClient(tracking_uri=uri)
        for trace, own in tags.items():
            for key, value in own.items():
                client.set_trace_tag(trace, key, value)


@contextmanager
def _queue_errors(uri: str, queue: str) -> Iterator[None]:
    """Say in one line that a store has no review queues, or what it did not take."""
    from mlflow.exceptions import MlflowException

    none = TrackingError(
        f"The MLflow store at {shown_uri(uri)} has no review queues: they need MLflow 3.14 or newer over a database "
        "(SQLite, PostgreSQL, MySQL). Look the traces up by the links in the table of disagreements."
    )
    problem, what_now = f"did not take the review queue {queue!r}", "What was measured is as it was."
    try:
        with mlflow_errors(uri, problem=problem, what_now=what_now):
            try:
                yield
            except MlflowException as error:
                if error.error_code in _NO_QUEUES:
                    raise none from error
                raise
    # An older MLflow has not got the module, or its store not the method.
    except (AttributeError, NotImplementedError, ImportError) as error:
        raise none from error


def _question(experiment: str, name: str, labels: Sequence[object]) -> LabelSchema:
    """Return the question of a name, whatever its capitals; made where the experiment has none."""
    from mlflow.genai.label_schemas import create_label_schema, list_label_schemas

    schemas = paged(lambda token: list_label_schemas(experiment, page_token=token))
    same = next((schema for schema in schemas if same_name(schema.name, name)), None)
    return same or create_label_schema(
        name, type="feedback", input=_input(labels), enable_comment=True, experiment_id=experiment
    )


def _input(labels: Sequence[object]) -> Any:
    """Choose how a question is answered: yes or no, a number, one of a few words, or free text."""
    from mlflow.genai.label_schemas import InputCategorical, InputNumeric, InputPassFail, InputText

    if labels and all(isinstance(label, bool) for label in labels):
        return InputPassFail(positive_label="Yes", negative_label="No")
    texts = list(dict.fromkeys(text for label in labels if (text := label_text(label)) is not None))
    numbers = [number for text in texts if (number := label_number(text)) is not None]
    # One number alone has no range to answer in.
    if len(numbers) == len(texts) > 1:
        return InputNumeric(min_value=min(numbers), max_value=max(numbers))
    if 0 < len(texts) <= _MOST_OPTIONS and all(len(text) <= _LONGEST_OPTION for text in texts):
        return InputCategorical(options=texts)
    return InputText()


def _queue(experiment: str, name: str, question: LabelSchema) -> ReviewQueue:
    """Return the queue of a name, which must ask the question; made where there is none."""
    from mlflow.genai.review_queues import create_review_queue, get_review_queue

    queue = if_there(lambda: get_review_queue(name=name, experiment_id=experiment))
    if queue is None:
        questions = [question.schema_id]
        return create_review_queue(name, queue_type="custom", schema_ids=questions, experiment_id=experiment)
    # The queue of one user asks every question of the experiment.
    if str(queue.queue_type) == "custom" and question.schema_id not in queue.schema_ids:
        raise RecipeError(f"The review queue {name!r} does not ask {question.name!r}. Name another queue.")
    return queue


def _held(queue_id: str) -> set[str]:
    from mlflow.genai.review_queues import list_review_queue_items

    items = paged(lambda token: list_review_queue_items(queue_id, max_results=_AT_ONCE, page_token=token))
    return {str(item.item_id) for item in items}
