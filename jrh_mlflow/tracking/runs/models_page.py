"""Judges on MLflow's Models page: one logged model per judge in an experiment, with its newest readings on each suite.

The table of that page shows of each metric the first value that a logged model got on a dataset of that name, and
nothing takes a value away again. So a judge that reads otherwise than before gets a new entry in the place of its
earlier one, and a suite that was changed under its name gets a name of its own there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jrh_mlflow.judges import Judge
from jrh_mlflow.show.plain_text import code
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import ModelEntry, Store, models_page_errors, paged

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel, Metric

_LONGEST_NAME, _LONGEST_PARAM = 250, 500
_REFUSED = re.compile(r"[^\w ()+,@=~-]+")
"""Of these MLflow refuses some in names of models, and its filters others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeEntry:
    """What the Models page is told of a judge that was measured on a suite."""

    label: str
    """The judge's name as people see it."""
    fingerprint: str | None
    """What the judge is found again by; its name where there is none."""
    params: Mapping[str, str]
    tags: Mapping[str, str]
    readings: Mapping[str, str]
    """Headline axes with their intervals, as text."""
    suite_name: str
    suite_sha256: str
    points: Sequence[keys.Point]
    whole: bool
    """False where calls are missing."""

    def __call__(self, store: Store, run_id: str) -> ModelEntry | None:
        """Find or make the entry of the judge; where the store has no such page, that is said once."""
        with models_page_errors(store):
            return self._entered(store, run_id)
        return None

    @property
    def name(self) -> str:
        """The label without what names of models must not hold; with the criterion, where it is not the usual one."""
        usual = Judge.tie_criterion.name
        criterion = self.params.get(keys.PARAM_CRITERION, usual)
        is_told = criterion == usual or criterion in self.label.split()
        label = self.label if is_told else f"{self.label}, {criterion}"
        return _REFUSED.sub("-", label)[:_LONGEST_NAME].strip() or "judge"

    def _entered(self, store: Store, run_id: str) -> ModelEntry | None:
        found, dataset = self._found(store), self._dataset(store)
        numbers = keys.last_values(self.points)
        standing = [_shown(model.metrics or (), dataset) for model in found]
        if not self.whole and any(standing):
            return None  # part of a suite does not take the place of all of it
        tags = {**self.tags, keys.TAG_DATASHEET_RUN: run_id, keys.TAG_NOTE: self._note(store, run_id)}
        is_kept = len(found) == 1 and standing[0].items() <= numbers.items()
        model_id = self._retagged(store, found[0], tags) if is_kept else self._made(store, run_id, found, tags)
        if not is_kept:
            _take_over(store, model_id, found, but=dataset)
        return ModelEntry(
            model_id=model_id,
            dataset_name=dataset,
            dataset_digest=keys.dataset_digest(self.suite_sha256),
            keys=frozenset(numbers),
            replaced=() if is_kept else tuple(model.model_id for model in found),
        )

    def _found(self, store: Store) -> list[LoggedModel]:
        """Return the entries of the judge, newest first: more than one where two processes made one at once."""
        where = f"attributes.name = '{self.name}'"
        if self.fingerprint is not None:
            where = f"tags.`{keys.TAG_FINGERPRINT}` = '{self.fingerprint}'"
        same = (self.fingerprint, self.tags.get(keys.TAG_SIMULATED), self.tags.get(keys.TAG_RECORDED))
        told_by = (keys.TAG_FINGERPRINT, keys.TAG_SIMULATED, keys.TAG_RECORDED)
        models = _searched(store, filter_string=f"attributes.model_type = '{keys.MODEL_TYPE}' AND {where}")
        return [model for model in models if tuple((model.tags or {}).get(tag) for tag in told_by) == same]

    def _dataset(self, store: Store) -> str:
        """Name the suite as a dataset; one that was changed under its name must not share a column with the other."""
        of_name = store.client.search_logged_models(
            [store.experiment_id], datasets=[{"dataset_name": self.suite_name}], max_results=1
        )
        digest = keys.dataset_digest(self.suite_sha256)
        metrics = [metric for model in of_name for metric in model.metrics or ()]
        others = {metric.dataset_digest for metric in metrics if metric.dataset_name == self.suite_name} - {digest}
        return f"{self.suite_name} {digest[:8]}" if others else self.suite_name

    def _made(self, store: Store, run_id: str, found: Sequence[LoggedModel], tags: Mapping[str, str]) -> str:
        kept = {key: value for model in reversed(found) for key, value in (model.tags or {}).items()}
        made = store.client.create_logged_model(
            store.experiment_id,
            name=self.name,
            source_run_id=run_id,
            tags={**kept, **tags},
            params={key: value[:_LONGEST_PARAM] for key, value in self.params.items()},
            model_type=keys.MODEL_TYPE,
        )
        store.client.finalize_logged_model(made.model_id, "READY")
        return str(made.model_id)

    def _retagged(self, store: Store, model: LoggedModel, tags: Mapping[str, str]) -> str:
        store.client.set_logged_model_tags(model.model_id, dict(tags))
        return str(model.model_id)

    def _note(self, store: Store, run_id: str) -> str:
        """Say on the page of the judge what it reads, with intervals, and where its datasheet is."""
        link = f"#/experiments/{store.experiment_id}/runs/{run_id}"
        readings = [f"- {code(axis)}: {text}" for axis, text in self.readings.items()]
        profile = self.tags.get(keys.TAG_PROFILE, "")
        return "\n".join(
            [f"{profile}. [Datasheet of run {run_id}]({link}), suite {code(self.suite_name)}.", "", *readings]
        )


def _searched(store: Store, *, filter_string: str) -> list[Any]:
    newest_first = [{"field_name": "creation_time", "ascending": False}]

    def search(token: str | None) -> Any:
        return store.client.search_logged_models(
            [store.experiment_id], filter_string, order_by=newest_first, page_token=token
        )

    return list(paged(search))


def _shown(metrics: Iterable[Metric], dataset: str) -> dict[str, float]:
    """Return what the page shows of a model on a dataset."""
    found: dict[str, float] = {}
    for metric in sorted(metrics, key=lambda one: one.timestamp):
        if metric.dataset_name == dataset:
            found.setdefault(metric.key, metric.value)
    return found


def _take_over(store: Store, model_id: str, found: Sequence[LoggedModel], *, but: str) -> None:
    """Give a new entry what the ones before read on other suites; of each, as it was logged by its own run."""
    from mlflow.entities import LoggedModelOutput, Metric
    from mlflow.exceptions import MlflowException

    newest = {
        (metric.dataset_name, metric.key): metric
        for metric in sorted((one for model in found for one in model.metrics or ()), key=lambda one: one.timestamp)
        if metric.dataset_name != but
    }
    by_run: dict[str, list[Metric]] = {}
    for (dataset, key), one in newest.items():
        about = {"model_id": model_id, "dataset_name": dataset, "dataset_digest": one.dataset_digest}
        by_run.setdefault(one.run_id, []).append(Metric(key, one.value, one.timestamp, one.step, **about))
    for run_id, metrics in by_run.items():
        # A run that was deleted takes nothing more: what it read goes with it.
        with suppress(MlflowException):
            store.client.log_batch(run_id, metrics=metrics)
            store.client.log_outputs(run_id, [LoggedModelOutput(model_id, step=0)])
