"""Labels in MLflow's review queues: what people and judges said about the traces of a queue."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from typing import Any

from jrh_mlflow.errors import JrhWarning, RecipeError, TrackingError
from jrh_mlflow.people.labels import LabelOptions, LabelSource, LabelTable
from jrh_mlflow.people.labels.traces import TraceLabels
from jrh_mlflow.tracking.runs.store import active_uri
from jrh_mlflow.tracking.traces.review_queues import queue_disagreements, queued_traces

_QUEUE = re.compile(r"queues:/(?P<experiment>[^/]+)/(?P<queue>.+)")


class QueueLabels(LabelSource):
    """`queues:/EXPERIMENT/QUEUE`."""

    def takes(self, source: object) -> bool:
        """Whether it names a review queue."""
        return isinstance(source, str) and bool(_QUEUE.fullmatch(source))

    def read(self, source: Any, options: LabelOptions) -> LabelTable:
        """Read what was said about the traces of the queue."""
        named = _QUEUE.fullmatch(source)
        assert named is not None
        traces = queued_traces(named["experiment"], named["queue"], options.tracking_uri or active_uri())
        if not traces:
            raise RecipeError(f"The review queue {named['queue']!r} of {named['experiment']!r} has no traces.")
        return TraceLabels().read(traces[: options.max_traces], options)


SOURCE = QueueLabels()


def put_in_queue(labels: LabelTable, items: Iterable[str], queue: str, *, offered: Iterable[object] | None) -> str:
    """Put traces into a review queue, and say what became of them; a store that has none is a warning.

    Args:
        labels: What was said about the traces under one name.
        items: The traces.
        queue: Its name.
        offered: What may be answered there, in this order; None takes the labels that were given.

    Raises:
        RecipeError: when a queue of that name asks something else.
    """
    answers = sorted(labels.frame["label"].unique(), key=str) if offered is None else list(offered)
    experiments = labels.experiments
    traces = {item: experiments[item] for item in items}
    if not traces:
        return f"No trace was put into the review queue {queue!r}: judge and people differ on none."
    try:
        added = queue_disagreements(
            traces, queue=queue, name=str(labels.name), labels=answers, tracking_uri=labels.tracking_uri
        )
    except TrackingError as error:
        warnings.warn(str(error), JrhWarning, stacklevel=3)
        return str(error)
    return f"{added}."
