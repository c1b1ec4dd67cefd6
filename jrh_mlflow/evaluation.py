"""`jrh.evaluate`: one judge configuration on one suite, as one MLflow run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.engine import calls_frame, plan_calls, run_calls
from jrh_mlflow.errors import SuiteError
from jrh_mlflow.judges import Judge, as_judge
from jrh_mlflow.measures import Datasheet, measure
from jrh_mlflow.schema.calls import CallRecord
from jrh_mlflow.stimuli.suite import Suite
from jrh_mlflow.suites import as_suite
from jrh_mlflow.tracking import keys, outbox
from jrh_mlflow.tracking.measured import JudgeFacts, Measured
from jrh_mlflow.tracking.runs import first_tags, log_evaluation
from jrh_mlflow.tracking.store import Store, ending

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What an evaluation measured and where it is logged."""

    run_id: str
    metrics: dict[str, float]
    """Exactly what was logged."""
    datasheet: Datasheet
    calls: pd.DataFrame
    judge: JudgeFacts
    suite: Suite
    link: str
    """Where the run can be looked at."""

    @cached_property
    def cost_usd(self) -> float | None:
        """Dollars of all calls, or None when a price is unknown."""
        return keys.known_total(self.calls, "cost_usd")

    @property
    def withheld(self) -> dict[str, str]:
        """Axes without a number because too many of their calls gave no usable answer, with the reason."""
        return self.datasheet.withheld


def evaluate(
    judge: object,
    suite: Suite | str | Path | None = None,
    *,
    experiment: str | None = None,
    run_name: str | None = None,
    tracking_uri: str | None = None,
    replicates: int = 1,
    concurrency: int = 32,
    seed: int = 0,
    progress: bool = True,
    tags: Mapping[str, str] | None = None,
    parent_run_id: str | None = None,
) -> Evaluation:
    """Measure a judge on a suite and log it as one MLflow run.

    Args:
        judge: A callable `f(presentation)`, sync or async, or a judge of this package. Use `concurrency=1` for
            a sync callable that must not run in several threads at once.
        suite: A `Suite`, a folder, `runs:/<id>/suite` or a built-in name; the datasheet suite when None.
        experiment: MLflow experiment; the active one, or `judge-datasheets`, when None.
        run_name: Name of the run; the judge's name when None.
        tracking_uri: MLflow store; the active one when None.
        replicates: How often each presentation is asked.
        concurrency: Calls in flight.
        seed: Of the bootstrap behind the threshold's interval.
        progress: Show a progress bar on a terminal.
        tags: More tags for the run.
        parent_run_id: Nest the run under this one.

    Raises:
        TrackingError: when MLflow cannot be reached. Before the first call nothing is lost; after the last one the
            calls are kept on disk, and the same call again (or `jrh evaluate --resume`) logs them without asking.
    """
    if replicates < 1:
        raise ValueError(f"`replicates >= 1` must hold, but got {replicates=}.")
    asked = as_judge(judge)
    on = as_suite(suite)
    if not on.has_texts:
        raise SuiteError(f"Suite {on.name!r} was replayed from recorded judgments and has no texts to ask about.")
    facts = JudgeFacts.of(asked)
    store = Store(tracking_uri, experiment)
    key = outbox.outbox_key(
        asked.fingerprint() or time.time_ns(),
        on.sha256,
        replicates,
        seed,
        store.uri,
        store.experiment_id,
        parent_run_id,
    )
    kept = outbox.outbox_home() / key
    if outbox.is_kept(kept):
        print(f"Logging the calls kept in {kept}: nothing is asked again.", file=sys.stderr)
        return resume(kept)
    run_id = store.create_run(
        run_name or facts.label, tags=first_tags("evaluate", simulated=facts.simulated, tags=tags), parent=parent_run_id
    )
    with ending(store, run_id):
        started = time.perf_counter()
        calls = _ask(asked, on, replicates=replicates, concurrency=concurrency, progress=progress)
        done = Measured(
            judge=facts,
            suite=on,
            calls=calls,
            run={"seed": seed, "replicates": replicates, "concurrency": concurrency},
            seconds=time.perf_counter() - started,
            tags=dict(tags or {}),
        )
    target = {
        "run_id": run_id,
        "tracking_uri": store.uri,
        "experiment_id": store.experiment_id,
        "run_name": run_name or facts.label,
        "parent_run_id": parent_run_id,
    }
    return _log(store, done, target, key=key)


def resume(folder: str | Path) -> Evaluation:
    """Log an evaluation that was kept on disk because MLflow could not be reached."""
    folder = Path(folder)
    done, target = outbox.read_kept(folder)
    store = Store(target["tracking_uri"])
    store.experiment_id = target["experiment_id"]
    return _log(store, done, target, key=folder.name, kept=folder)


def log_measured(store: Store, done: Measured, *, run_name: str) -> Evaluation:
    """Log an evaluation whose calls were made elsewhere."""
    run_id = store.create_run(run_name, tags=first_tags("evaluate", simulated=done.judge.simulated, tags=done.tags))
    target = {"run_id": run_id, "tracking_uri": store.uri, "experiment_id": store.experiment_id}
    with ending(store, run_id):
        return _log(store, done, target, key=outbox.outbox_key(run_id))


def _log(store: Store, done: Measured, target: Mapping[str, Any], *, key: str, kept: Path | None = None) -> Evaluation:
    # On disk before MLflow is spoken to: from here on nothing that was asked can be lost.
    kept = kept or outbox.keep(done, key=key, target=target)
    sheet = measure(done.calls, seed=int(done.run["seed"]))
    with store.errors(f"Nothing is lost: `jrh evaluate --resume {kept}`, or the same call again, logs it."):
        metrics = log_evaluation(store, target["run_id"], done, sheet)
    outbox.forget(kept)
    return Evaluation(
        run_id=target["run_id"],
        metrics=metrics,
        datasheet=sheet,
        calls=done.calls,
        judge=done.judge,
        suite=done.suite,
        link=store.link(target["run_id"]),
    )


def _ask(judge: Judge, suite: Suite, *, replicates: int, concurrency: int, progress: bool) -> pd.DataFrame:
    judge.begin(suite)
    calls = list(plan_calls(suite, judge, replicates=replicates))
    if not calls:
        raise SuiteError(f"{judge.name} answers none of the {len(suite)} items of suite {suite.name!r}.")
    with _bar(judge.name, total=len(calls), show=progress) as tick:
        records = run_calls(judge, calls, concurrency=concurrency, on_record=tick)
    return calls_frame(records)


@contextmanager
def _bar(name: str, *, total: int, show: bool) -> Iterator[Callable[[CallRecord], None] | None]:
    """Show rate, time left and failures while asking; nothing when stderr is not a terminal."""
    if not show or not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    failed = 0
    with tqdm(total=total, desc=name, unit="call", dynamic_ncols=True) as bar:

        def tick(record: CallRecord) -> None:
            nonlocal failed
            bar.update()
            if record.outcome in ("error", "unparsed"):
                failed += 1
                bar.set_postfix(no_answer=failed)

        yield tick
