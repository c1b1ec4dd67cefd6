"""The calls of logged runs on this machine, for pages that show them: fetched once, filtered quickly, read by row.

A run that has ended does not change, so what was fetched is kept while the process lives: a few runs, in a temporary
folder that goes with it. The table is laid out as an Arrow file that is mapped into memory: columns that filters need
are read whole, and of the texts only those of the rows that are shown, however large the table and its row groups are.
"""

from __future__ import annotations

import json
import mmap
import re
import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.behind import Behind, CallFinder
from jrh_mlflow.measures.reason_conflict import REASON_CONFLICT
from jrh_mlflow.measures.reliability import GROUP_FIELDS
from jrh_mlflow.outputs import check_packed
from jrh_mlflow.perturb.registry import name_of_test
from jrh_mlflow.schema.estimates import Reading, read_reading
from jrh_mlflow.schema.items import (
    BASELINE,
    OPTIONAL_COLUMNS,
    PAIR_CONDITIONS,
    PROTOCOL,
    REQUIRED_COLUMNS,
    SEEN,
    SINGLE_CONDITIONS,
    Answers,
    Item,
)
from jrh_mlflow.scoring.metric import DEFAULT
from jrh_mlflow.show.html import Addresses
from jrh_mlflow.show.run_overview import RunSummary
from jrh_mlflow.stats import Codes, Mask
from jrh_mlflow.suites.suite import HASHES, ITEMS_FILE, read_item
from jrh_mlflow.tracking import mlflow_internals
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import downloaded, is_artifact, run_if_there, summary_of
from jrh_mlflow.tracking.runs.store import if_there, reading_client
from jrh_mlflow.tracking.traces.call_traces import trace_of_call

if TYPE_CHECKING:
    import pyarrow as pa
    from mlflow import MlflowClient
    from mlflow.entities import Run

MOST_RUNS = 16
"""Runs that a process keeps; the one that was not asked for longest makes way."""
_BATCH = 4096
_NUMBERS = ("cost_usd", "latency_s")
_CONFIDENCE = ("confidence", "probabilities")
TEXTS = ("rationale", "raw", "error", "input_tokens", "output_tokens", "model", "cached", "confidence", "prompt_sha256")
"""Columns that are read row by row."""
FILTERS = ("condition", "test", "outcome", "order", "delta", "task")
"""What calls are filtered by, besides the item and the number that they are behind."""
_KNOWN = (*REQUIRED_COLUMNS, *OPTIONAL_COLUMNS, *_NUMBERS)
"""Columns that are read whole."""
_ID = re.compile(rb'"id":("(?:[^"\\]|\\.)*")')


class CallColumn:
    """A column that calls are filtered by: its values that occur, and the code of each call's value."""

    def __init__(self, cells: pd.Series[Any], text: Callable[[Any], str]) -> None:
        """Spell each different cell once, by `text`."""
        codes, cells_that_differ = pd.factorize(cells, use_na_sentinel=False)
        # As plain objects: an array of Arrow's is slow to go through cell by cell.
        different = np.asarray(cells_that_differ, dtype=object)
        cells_and_gaps = zip(different, pd.isna(different), strict=True)
        spelled = np.array(["" if missing else text(cell) for cell, missing in cells_and_gaps], dtype=object)
        # Cells that differ may be spelled alike, such as two conditions of one test.
        alike, values = pd.factorize(spelled)
        self.codes: Codes = alike.astype(np.intp)[codes]
        self.values: list[str] = [str(value) for value in values]

    def among(self, wanted: Sequence[str]) -> Mask:
        """Return the calls with one of some values."""
        known = [place for place, value in enumerate(self.values) if value in wanted]
        return np.isin(self.codes, known)

    def counts(self, among: Mask) -> dict[str, int]:
        """Count each value among some calls; those that are empty, or do not occur at all, have no entry."""
        counts = np.bincount(self.codes[among], minlength=len(self.values))
        return {value: int(n) for value, n in zip(self.values, counts, strict=True) if value}


class RunCalls:
    """The calls of one run, with its suite and readings; each part is fetched when it is first asked for."""

    def __init__(self, tracking_uri: str, run: Run, folder: Path) -> None:
        """Fetch the table of calls.

        Raises:
            RecipeError: when the run has none, or none that can be shown.
        """
        self._uri, self._run, self._folder = tracking_uri, run, folder
        self._lock = threading.RLock()
        with reading_client(tracking_uri) as client:
            self._table = _mapped_table(client, run, folder)
        names = self._table.column_names
        lacking = [name for name in REQUIRED_COLUMNS if name not in names]
        if lacking:
            raise RecipeError(f"{keys.CALLS_FILE} of this run is no table of calls: it lacks {', '.join(lacking)}.")
        self.frame: pd.DataFrame = self._table.select([name for name in _KNOWN if name in names]).to_pandas()
        self._columns: dict[str, CallColumn] = {}
        self._found: OrderedDict[str, Behind] = OrderedDict()

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def keeps_raw(self) -> bool:
        """Whether the run kept what the model wrote."""
        return "raw" in self._table.column_names

    @property
    def has_tests(self) -> bool:
        """Whether its conditions are reliability tests: those of datasheets are not."""
        conditions = set(self.column("condition").values)
        return "" in self.column("order").values and not conditions <= {*PAIR_CONDITIONS, *SINGLE_CONDITIONS}

    def column(self, name: str) -> CallColumn:
        """Return one of `FILTERS`, or the item."""
        with self._lock:
            if name not in self._columns:
                cells = self.frame[{"test": "condition", "item": "suite_item"}.get(name, name)]
                self._columns[name] = CallColumn(cells, _SPELLED.get(name, str))
            return self._columns[name]

    def texts(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return the cells of `TEXTS` of some calls, None where there is none."""
        known = {name: self._table.column(name) for name in TEXTS if name in self._table.column_names}
        return [{name: known[name][row].as_py() if name in known else None for name in TEXTS} for row in rows]

    def behind(self, key: str) -> Behind:
        """Return the calls behind a number.

        Raises:
            RecipeError: when the run has no such number.
            CallsError: when its records break a rule, as those of a failed run may.
        """
        with self._lock:
            if key not in self._found:
                self._found[key] = self._finder_of(key).behind(self._spelled(key))
                while len(self._found) > 4 * MOST_RUNS:
                    self._found.popitem(last=False)
            return self._found[key]

    def reading(self, key: str) -> Reading | None:
        """Return a number as the run's datasheet has it; None where it has none."""
        kind, _, rest = self._spelled(key).partition("/")
        places: dict[str, Any] = self._sheet.get("estimates") or {}
        if kind in GROUP_FIELDS and key not in places:
            name, _, axis = rest.rpartition("/")
            places, key = (self._sheet.get(GROUP_FIELDS[kind]) or {}).get(name) or {}, axis
        written = places.get(key) or (self._sheet.get("scores") or {}).get(key)
        return read_reading(written) if isinstance(written, Mapping) else None

    @property
    def summary(self) -> Mapping[str, float | None]:
        """What sums the tests of a reliability report up, as it has it; empty of any other run."""
        return self._sheet.get("summary") or {}

    @property
    def metric(self) -> str:
        """What scores the tests of a reliability report."""
        return str(self._sheet.get("metric", DEFAULT))

    @property
    def scores(self) -> dict[str, Reading]:
        """Test to the reading that stands for it in a reliability report; empty of any other run."""
        scores: Mapping[str, Any] = self._sheet.get("scores") or {}
        return {test: read_reading(score) for test, score in scores.items()}

    def item(self, item_id: str) -> Item | None:
        """Return an item of the run's suite, or None where the run has no suite with it."""
        return self._suite.item(item_id) if self._suite else None

    def original(self, item: Item) -> Item | None:
        """Return the unperturbed item that an item was made from."""
        same = (self.frame["condition"] == BASELINE) & (self.frame["task"] == item.task)
        if item.rubric_id and "rubric" in self.frame:
            same &= self.frame["rubric"] == item.rubric_id
        items = self.frame["suite_item"][same]
        return None if items.empty or item.condition == BASELINE else self.item(str(items.iloc[0]))

    @property
    def without_texts(self) -> bool:
        """Whether hashes stand in the place of texts."""
        return bool(self._run.data.params.get(keys.PARAM_TEXTS) == HASHES)

    @property
    def traces(self) -> str | None:
        """Id of the experiment that its traces are in; None where it has none."""
        place: str | None = self._run.data.tags.get(keys.TAG_TRACES_EXPERIMENT)
        return place

    def trace_links(self, calls: Sequence[tuple[str, str, int]], to: Addresses) -> list[str | None]:
        """Return the address of each call's trace, None where it has none; a call is its item, order and replicate."""
        if (place := self.traces) is None:
            return [None] * len(calls)
        traces = [trace_of_call(self._run.info.run_id, *call) for call in calls]
        with reading_client(self._uri):
            there = [if_there(partial(mlflow_internals.trace_info, trace, uri=self._uri)) for trace in traces]
        links = (to.traces(place, trace_id=trace) for trace in traces)
        return [None if info is None else link for info, link in zip(there, links, strict=True)]

    @cached_property
    def _sheet(self) -> dict[str, Any]:
        return self._json(keys.DATASHEET_JSON)

    @cached_property
    def judge(self) -> dict[str, Any]:
        """What the run says of its judge; empty where it says nothing."""
        return self._json(keys.JUDGE_FILE)

    def _json(self, name: str) -> dict[str, Any]:
        with self._lock, reading_client(self._uri) as client:
            if not is_artifact(client, self._run.info.run_id, name):
                return {}
            file = downloaded(client, self._run, name, str(self._folder))
            written = json.loads(file.read_text(encoding="utf-8"))
        return written if isinstance(written, dict) else {}

    @cached_property
    def _suite(self) -> _SuiteFile | None:
        with self._lock, reading_client(self._uri) as client:
            if not is_artifact(client, self._run.info.run_id, f"{keys.SUITE_FOLDER}/{ITEMS_FILE}"):
                return None
            folder = downloaded(client, self._run, keys.SUITE_FOLDER, str(self._folder))
        # Anybody may log an empty file, which cannot be mapped into memory.
        return _SuiteFile(folder) if (folder / ITEMS_FILE).stat().st_size else None

    def _finder_of(self, key: str) -> CallFinder:
        # Groups stand in the suite's file alone, and rationales are long: read only where they are needed.
        if key == REASON_CONFLICT:
            if self.without_texts:
                raise RecipeError("Logged without texts (--no-texts): the rationales behind this number were not kept.")
            return self._new_finder({}, texts=("rationale",))
        return self._finder_by_category if key.partition("/")[0] == "category" else self._finder

    @cached_property
    def _finder(self) -> CallFinder:
        return self._new_finder({})

    @cached_property
    def _finder_by_category(self) -> CallFinder:
        return self._new_finder(self._suite.groups if self._suite else {})

    def _new_finder(self, groups: Mapping[str, str], texts: Sequence[str] = ()) -> CallFinder:
        further = [name for name in (*_CONFIDENCE, *texts) if name in self._table.column_names]
        frame = self.frame.join(self._table.select(further).to_pandas()) if further else self.frame
        pointwise = not bool((self.frame["order"] != "").any())
        labels = self._suite.labels(in_records="labels" in self.frame) if pointwise and self._suite else None
        by = {"metric": self.metric, "definitions": str(self._sheet.get("definitions", PROTOCOL))}
        return CallFinder(frame, labels=labels, groups=groups, scores=self.scores, **by)

    def _spelled(self, key: str) -> str:
        """Return a key with the name of its group as the items have it: MLflow's keys spell it in ASCII."""
        kind, _, rest = key.partition("/")
        if kind not in GROUP_FIELDS:
            return key
        name, _, axis = rest.rpartition("/")
        groups = self._sheet.get(GROUP_FIELDS[kind]) or {}
        spelled = {short: group for group, short in keys.category_names(groups).items()}
        return key if name in groups else f"{kind}/{spelled.get(name, name)}/{axis}"


_SPELLED: Mapping[str, Callable[[Any], str]] = {"test": name_of_test, "delta": lambda step: f"{step:g}"}


class _SuiteFile:
    """`suite.jsonl` by item: a line is read when its item is asked for."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / ITEMS_FILE

    def item(self, item_id: str) -> Item | None:
        """Return one item, or None when there is no such."""
        # Our files hold letters as they are; those of other writers may escape them.
        for ascii_only in (False, True):
            line = self._line(json.dumps(item_id, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass"))
            if line is not None:
                return read_item(line, 1, self._file)
        return None

    def _line(self, spelled_id: bytes) -> bytes | None:
        """Look for one line as bytes: to read every line would take seconds on a large suite."""
        wanted = b'"id":' + spelled_id
        with self._mapped() as content:
            place = content.find(wanted)
            while place >= 0:
                start, end = content.rfind(b"\n", 0, place) + 1, content.find(b"\n", place)
                line = content[start : end if end >= 0 else len(content)]
                # Keys are sorted, and what stands before the id holds no object: its first place is the item's own.
                match = _ID.search(line)
                if match is not None and match[1] == spelled_id:
                    return line
                place = content.find(wanted, place + 1)
        return None

    @contextmanager
    def _mapped(self) -> Iterator[mmap.mmap]:
        with self._file.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content

    def labels(self, *, in_records: bool) -> Answers | None:
        """Return what all items may be answered with; None where the records tell the same themselves."""
        with self._mapped() as content:
            seen = content.find(f'"labels":"{SEEN}"'.encode()) >= 0
        return None if in_records and not seen else Answers.of(self._items)

    @property
    def groups(self) -> dict[str, str]:
        """Item id to its group."""
        return {item.id: str(item.meta["group"]) for item in self._items if item.meta.get("group") is not None}

    @property
    def _items(self) -> Iterator[Item]:
        with self._file.open("rb") as file:
            for number, line in enumerate(file, 1):
                yield read_item(line, number, self._file)


def _mapped_table(client: MlflowClient, run: Run, folder: Path) -> pa.Table:
    """Fetch the table of calls and lay it out on the disk, in batches, without compression: to be read by rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not is_artifact(client, run.info.run_id, keys.CALLS_FILE):
        raise RecipeError(_without_calls(run))
    parquet, file = downloaded(client, run, keys.CALLS_FILE, str(folder)), folder / "calls.arrow"
    try:
        check_packed(parquet)
        with pq.ParquetFile(parquet) as source:
            wanted = {*_KNOWN, *_CONFIDENCE, *TEXTS}
            kept = [column for column in source.schema_arrow if column.name in wanted]
            schema = pa.schema([(column.name, _plain_type(column.type)) for column in kept])
            with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
                for batch in source.iter_batches(batch_size=_BATCH, columns=schema.names):
                    writer.write_table(pa.Table.from_batches([batch]).cast(schema))
    except pa.ArrowException as error:
        raise RecipeError(f"{keys.CALLS_FILE} of this run cannot be read: {error}.") from error
    parquet.unlink()
    return pa.ipc.open_file(pa.memory_map(str(file))).read_all()


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return a type without a dictionary, which a file could not change from batch to batch."""
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _without_calls(run: Run) -> str:
    kind = run.data.tags.get(keys.TAG_KIND)
    if kind == "evaluate":
        state = str(run.info.status).lower()
        return f"Run {run.info.run_name} ({state}) has no calls: it ended, or was stopped, before one could be kept."
    what = "was not logged by jrh" if kind is None else f"is of kind {kind}"
    return f"Run {run.info.run_name} {what}: only evaluations have calls of a judge."


class CallStore:
    """Runs whose calls were looked at lately, for the threads of one process."""

    def __init__(self, most: int = MOST_RUNS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[object, _Kept] = OrderedDict()

    def open(self, tracking_uri: str, run_id: str) -> tuple[RunSummary, RunCalls] | None:
        """Return what a run tells of itself now, and its calls; None when there is no such run.

        Raises:
            RecipeError: when it has no calls.
            TrackingError: when MLflow cannot be reached.
        """
        with reading_client(tracking_uri) as client:
            run = run_if_there(client, run_id)
        if run is None:
            return None
        # What was published again, or went on, is another table.
        key = (tracking_uri, run_id, run.info.status, run.info.end_time)
        with self._lock:
            kept = self._kept.pop(key, None) or _Kept()
            self._kept[key] = kept
            gone = [self._kept.pop(next(iter(self._kept))) for _ in range(len(self._kept) - self._most)]
        # Let go outside the lock: with the last reader a folder is removed, and nobody should wait for that.
        del gone
        return summary_of(run), kept.calls(tracking_uri, run)


class _Kept:
    """A place for one run: the first that asks fetches, the others wait for it; its folder goes with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: RunCalls | None = None

    def calls(self, tracking_uri: str, run: Run) -> RunCalls:
        with self._lock:
            if self._calls is None:
                folder = Path(tempfile.mkdtemp(prefix="jrh-calls-"))
                try:
                    self._calls = RunCalls(tracking_uri, run, folder)
                except BaseException:
                    shutil.rmtree(folder, ignore_errors=True)
                    raise
                # With the last page that reads it, or with the process: what has to make way may still be read.
                weakref.finalize(self._calls, shutil.rmtree, folder, ignore_errors=True)
            return self._calls
