"""Suites as evaluation datasets of MLflow: one record per presentation, and the identical suite back from them.

A record is a row as `mlflow.genai.evaluate` takes it and as `from_mlflow` and `to_mlflow` lay one out: the task in
`inputs`, the contents in `outputs`, what is expected in `expectations`. The tie criterion is a judge's and in none of
them. MLflow holds records with the same inputs for one, so each has a code of its own there, which tells nothing.
Where a record comes from (`source`) holds the item itself, in the first of its presentations.

Only Databricks keeps versions of a dataset. Elsewhere they are numbered here: the dataset `NAME` holds the newest one,
and what it held before is the dataset `NAME@1`, `NAME@2`, ….
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import SCHEMA_VERSION, RecipeError, SuiteError, check_schema_version, suggest
from jrh_mlflow.schema.items import Item, Order
from jrh_mlflow.schema.presentation import context_texts, saved_message
from jrh_mlflow.suites.suite import Suite, item_line, read_item
from jrh_mlflow.tracking.judges.judge_registry import active_store
from jrh_mlflow.tracking.judges.prompts import demand_features
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import Store, active_uri, mlflow_errors, tried_again
from jrh_mlflow.tracking.traces.call_traces import EXPECTATION, expectation

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetRecord, EvaluationDataset

SCHEME = "datasets:/"
"""Addresses of suites that are evaluation datasets begin so."""
_ADDRESS = re.compile(rf"{SCHEME}(?P<name>[\w .-]+)(?:@(?P<version>[1-9][0-9]*))?", re.ASCII)
_NAME = re.compile(r"(?=.{1,200}$)\w[\w .-]*", re.ASCII)
_AT_ONCE = 500
"""Records in one request: a server takes only so many bytes."""
_LOOKS = 5
"""How often a name that several processes make a dataset of is looked at again."""
_writing = threading.Lock()


@dataclass(frozen=True, slots=True)
class EditedRecords:
    """In what a dataset is no longer what was written."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteDataset:
    """A suite that is an evaluation dataset."""

    name: str
    version: int
    dataset_id: str
    n_records: int
    is_new: bool
    """Whether this version was written now; False where it was there."""

    @property
    def uri(self) -> str:
        """Its address, for every place that takes a suite."""
        return f"{SCHEME}{self.name}@{self.version}"


def write_dataset(
    suite: Suite, name: str, *, experiment: str | None = None, tracking_uri: str | None = None
) -> SuiteDataset:
    """Write a suite as the newest version of a dataset; one that holds it already is left as it is.

    Args:
        suite: With its texts.
        name: Of the dataset: letters, digits, spaces, `_`, `-` and `.`.
        experiment: Whose page lists the dataset; the active one, or `judge-datasheets`, when None.
        tracking_uri: MLflow store; the active one when None.

    Raises:
        RecipeError: for a name that is none, a dataset that somebody else made or edited, and where none can be kept.
        TrackingError: when MLflow cannot be reached, or refuses.
    """
    if not _NAME.fullmatch(name):
        raise RecipeError(f"A dataset's name has letters, digits, spaces, _, - and . only, but got {name!r}.")
    store = Store(tracking_uri, experiment, saves_view=False)
    with _datasets(store.uri, problem=f"did not take the dataset {name!r}") as client:
        dataset = _named(client, name) or _made(client, name, suite, version=1, experiment_id=store.experiment_id)
        version, held = _version(dataset, name), _held(dataset)
        is_there = isinstance(held, Suite) and held.sha256 == suite.sha256
        # By the tag, not by what it holds: a dataset that was edited is written again under its own version.
        if _sha256(dataset) != suite.sha256:
            _keep_version(client, dataset, held, name=name, experiment_id=store.experiment_id)
            version += 1
        if not is_there:
            _replace(client, dataset, suite, version)
    n_records = sum(len(item.orders) for item in suite.items)
    return SuiteDataset(
        name=name, version=version, dataset_id=dataset.dataset_id, n_records=n_records, is_new=not is_there
    )


def dataset_suite(uri: str, *, tracking_uri: str | None = None) -> Suite:
    """Return the suite of `datasets:/NAME` (its newest version) or `datasets:/NAME@VERSION`, whose hash is checked.

    Raises:
        SuiteError: when there is no such dataset or version, or records were edited, added or deleted.
        RecipeError: when it is no suite, or the store keeps none.
        TrackingError: when MLflow cannot be reached.
    """
    match = _ADDRESS.fullmatch(uri)
    if match is None:
        raise SuiteError(f"{uri!r} is no dataset: give {SCHEME}NAME or {SCHEME}NAME@VERSION.")
    name, wanted, store = match["name"], match["version"], tracking_uri or active_uri()
    with _datasets(store, problem=f"does not give {uri}") as client:
        newest = _named(client, name)
        if newest is None:
            known = [dataset.name for dataset in client.search_datasets(max_results=100)]
            raise SuiteError(f"There is no dataset {name!r} at MLflow.{suggest(name, known)} {_HOW}")
        version = _version(newest, name)
        dataset = newest if wanted in (None, str(version)) else _named(client, f"{name}@{wanted}")
        if dataset is None:
            raise SuiteError(f"Dataset {name!r} has no version {wanted}: the newest is {version}.")
        held, version = _held(dataset), _version(dataset, name)
    if isinstance(held, EditedRecords):
        raise SuiteError(f"{uri} {held.text} {_RESTORE.format(name=name)}")
    held.origin.update({"dataset": name, "dataset_version": str(version)})
    return held


_HOW = "`jrh suite dataset SUITE --name NAME` writes one."
_RESTORE = (
    "It is not the suite that it was written as. Write that one again: `jrh suite dataset SUITE --name {name}`; "
    "or keep what was edited apart, under another name."
)


@contextmanager
def _datasets(uri: str, *, problem: str) -> Iterator[MlflowClient]:
    """Give a client whose datasets read and write this store, with its errors in one line."""
    from mlflow import MlflowClient

    if uri.startswith("databricks"):
        raise RecipeError("Datasets at Databricks have no tags, and suites need them: give a store of another kind.")
    client = MlflowClient(tracking_uri=uri)
    demand_features(client, "evaluation datasets", "create_dataset", "search_datasets", "delete_dataset", since="3.14")
    with mlflow_errors(uri, problem=problem, what_now="Nothing else was changed."):
        try:
            # Records are read and written at the active store, which is one for all threads.
            with _writing, active_store(uri):
                yield client
        except NotImplementedError as error:
            raise RecipeError("This store keeps no evaluation datasets: give a database or a server.") from error


def _named(client: MlflowClient, name: str) -> EvaluationDataset | None:
    """Return the dataset of a name, the oldest where somebody made several."""
    datasets = client.search_datasets(filter_string=f"name = '{name}'", order_by=["created_time ASC"])
    return datasets[0] if datasets else None


def _made(client: MlflowClient, name: str, suite: Suite, *, version: int, experiment_id: str) -> EvaluationDataset:
    """Make a dataset, empty as yet; of several processes that do so one has it, and the others take that one."""
    for _ in range(_LOOKS):
        own = tried_again(
            lambda: client.create_dataset(name, experiment_id=[experiment_id], tags=_tags(suite, version))
        )
        # MLflow takes two datasets of one name.
        if len(client.search_datasets(filter_string=f"name = '{name}'")) == 1:
            return own
        # Whoever sees another gives way: of two that see each other both do, and look again at different moments.
        client.delete_dataset(own.dataset_id)
        time.sleep(random.uniform(0, 0.1))  # noqa: S311 - jitter, not a secret
        if (other := _named(client, name)) is not None:
            return other
    raise RecipeError(f"Other processes are writing the dataset {name!r}: try again.")


def _tags(suite: Suite, version: int) -> dict[str, str]:
    return {
        keys.TAG_DATASET_FORMAT: str(SCHEMA_VERSION),
        keys.TAG_DATASET_VERSION: str(version),
        keys.TAG_SUITE_SHA256: suite.sha256,
        keys.TAG_SUITE_NAME: suite.name[:1000],
    }


def _version(dataset: EvaluationDataset, name: str) -> int:
    """Return the version that a dataset holds.

    Raises:
        RecipeError: when it is no suite of ours, or one of another schema version.
    """
    tags = dataset.tags or {}
    version, form = str(tags.get(keys.TAG_DATASET_VERSION, "")), tags.get(keys.TAG_DATASET_FORMAT)
    if not version.isdigit():
        raise RecipeError(f"The dataset {name!r} at MLflow is no suite: it was made by other means. {_HOW}")
    check_schema_version(f"The dataset {name!r} at MLflow", form, error=RecipeError)
    return int(version)


def _sha256(dataset: EvaluationDataset) -> str:
    return str((dataset.tags or {}).get(keys.TAG_SUITE_SHA256, ""))


def _keep_version(
    client: MlflowClient, dataset: EvaluationDataset, held: Suite | EditedRecords, *, name: str, experiment_id: str
) -> None:
    """Copy what a dataset holds to `NAME@VERSION`, before another suite takes its place.

    Raises:
        RecipeError: where that is edited, so that it would be lost.
    """
    version = _version(dataset, name)
    former = f"{name}@{version}"
    kept = _named(client, former)
    if kept is not None and isinstance(_held(kept), Suite):
        return
    if isinstance(held, EditedRecords):
        raise RecipeError(f"Dataset {name!r} {held.text} It is not overwritten: give another name, or delete it.")
    # One that was cut short while it was copied is there, and is written again.
    kept = kept or _made(client, former, held, version=version, experiment_id=experiment_id)
    _replace(client, kept, held, version)


def _replace(client: MlflowClient, dataset: EvaluationDataset, suite: Suite, version: int) -> None:
    """Let a dataset hold this suite and nothing else.

    Raises:
        RecipeError: where the dataset held texts, and this suite needs mappings.
    """
    had = json.loads(dataset.schema or "{}").get("outputs")
    if isinstance(had, str) and any(item.kind != "response" for item in suite.items):
        raise RecipeError(
            f"Dataset {dataset.name!r} held single responses, and MLflow takes no others: give another name."
        )
    there = [record.dataset_record_id for record in dataset.records]
    for start in range(0, len(there), _AT_ONCE):
        tried_again(partial(dataset.delete_records, there[start : start + _AT_ONCE]))
    # The tags before the records: a writer that is cut short leaves a dataset that says which suite is missing.
    client.set_dataset_tags(dataset.dataset_id, _tags(suite, version))
    # MLflow 3.14 and 3.15 fail on the records they have read where there are none: a dataset that has read nothing.
    dataset = client.get_dataset(dataset.dataset_id)
    # MLflow learns the form of outputs from the first record, and fails on mappings after a text.
    records = sorted(_records(suite), key=lambda record: isinstance(record["outputs"], str))
    for start in range(0, len(records), _AT_ONCE):
        tried_again(partial(dataset.merge_records, records[start : start + _AT_ONCE]))


def _records(suite: Suite) -> Iterator[dict[str, Any]]:
    """Yield the records of a suite."""
    about = {"name": suite.name, "origin": suite.origin}
    for position, item in enumerate(suite.items):
        for order in item.orders:
            first = order == item.orders[0]
            whole = {"item": json.loads(item_line(item))} if first else {}
            yield {
                **_row(item, order, suite.sha256),
                "tags": {keys.own_key("suite_item"): item.id, keys.own_key("condition"): item.condition},
                "source": {
                    "source_type": "CODE",
                    "source_data": {
                        "position": position,
                        "order": order,
                        **whole,
                        **({"suite": about} if first and not position else {}),
                    },
                },
            }


def _row(item: Item, order: Order, sha256: str) -> dict[str, Any]:
    """Lay one presentation out as a row of `mlflow.genai.evaluate`."""
    code = hashlib.sha256(f"jrh-row\n{sha256}\n{item.id}\n{order}".encode()).hexdigest()[:16]
    more: dict[str, Any] = {} if item.rubric is None else {"rubric": item.rubric}
    more |= {"context": list(texts)} if (texts := context_texts(item.context)) else {}
    wanted = expectation(
        condition=item.condition,
        order=order,
        better=item.better or "",
        expected="" if item.label_source else item.expected or "",
    )
    expected = {} if wanted is None else {EXPECTATION: _in_slots(wanted[0]) if item.kind == "pair" else wanted[0]}
    return {
        "inputs": {"instruction": item.instruction, **more, "presentation": code},
        "outputs": _outputs(item, order),
        "expectations": expected,
    }


def _outputs(item: Item, order: Order) -> Any:
    if item.kind == "pair":
        return {"A": item.u, "B": item.v} if order == "uv" else {"A": item.v, "B": item.u}
    if item.kind == "response":
        return item.response
    shown = [
        {name: value for name, value in saved_message(message).items() if name != "id" and value not in (None, (), [])}
        for message in item.transcript or ()
    ]
    # As it comes back from the store: tuples are lists there, and the two are compared.
    return {"transcript": json.loads(json.dumps(shown))}


def _in_slots(answer: str) -> str:
    """Name the slots of a pair as the outputs do: `1 or tie` is `A or tie`."""
    return re.sub("^[12]", lambda slot: {"1": "A", "2": "B"}[slot[0]], answer)


def _held(dataset: EvaluationDataset) -> Suite | EditedRecords:
    """Return the suite that a dataset holds, or in what its records are no longer those that were written."""
    sha256, records = _sha256(dataset), dataset.records
    placed = {place: record for record in records if (place := _place(record)) is not None}
    try:
        items = {position: item for (position, _), record in placed.items() if (item := _item(record)) is not None}
    except SuiteError as error:
        return EditedRecords(f"was edited: {error}")
    wanted = {(n, str(order)): _row(item, order, sha256) for n, item in items.items() for order in item.orders}
    counts = {
        "changed": sum(place in wanted and _shown(record) != wanted[place] for place, record in placed.items()),
        "added": len(records) - len(placed),
        "missing": len(wanted.keys() - placed.keys()) + len({position for position, _ in placed} - items.keys()),
    }
    if differences := [f"{count:,} {how}" for how, count in counts.items() if count]:
        return EditedRecords(f"was edited: of {len(records):,} records {', '.join(differences)}.")
    about = _source(placed[min(placed)]).get("suite") if placed else None
    if about is None:
        return EditedRecords(f"was edited, or not written to its end: {len(records):,} records.")
    ordered = [items[position] for position in sorted(items)]
    suite = Suite(name=str(about["name"]), items=ordered, origin=about["origin"])
    return suite if suite.sha256 == sha256 else EditedRecords("was edited: its hash is another one.")


def _source(record: DatasetRecord) -> dict[str, Any]:
    return (record.source.source_data or {}) if record.source else {}


def _item(record: DatasetRecord) -> Item | None:
    """Return the item that a record tells, which the first of its presentations does."""
    written = _source(record).get("item")
    return None if written is None else read_item(json.dumps(written).encode(), 1, Path(str(record.dataset_record_id)))


def _place(record: DatasetRecord) -> tuple[int, str] | None:
    """Return which item and which order a record presents; None for one that somebody else wrote."""
    position, order = (_source(record).get(name) for name in ("position", "order"))
    return (position, order) if isinstance(position, int) and isinstance(order, str) else None


def _shown(record: DatasetRecord) -> dict[str, Any]:
    return {"inputs": record.inputs, "outputs": record.outputs, "expectations": record.expectations or {}}
