"""`jrh.sweep`: which judge, with which prompt and tie rule, for how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import JudgeError
from jrh_mlflow.stimuli.suite import Suite
from jrh_mlflow.sweeps.assembling import assembled, log
from jrh_mlflow.sweeps.remeasure import Memory, hold_out, refine
from jrh_mlflow.sweeps.report import Sweep
from jrh_mlflow.sweeps.results import Result
from jrh_mlflow.sweeps.setup import Ready, set_up
from jrh_mlflow.sweeps.space import Configuration, Space
from jrh_mlflow.sweeps.storage import quiet
from jrh_mlflow.sweeps.study import Trials, result_of
from jrh_mlflow.sweeps.trials import BudgetReached, completed, run_trial
from jrh_mlflow.tracking.store import ending
from jrh_mlflow.tracking.sweeps import end_orphans

if TYPE_CHECKING:
    from optuna import Trial


def sweep(
    space: Space | Mapping[str, Any] | str | Path,
    suite: Suite | str | Path | None = None,
    *,
    n_trials: int | None = None,
    max_usd: float | None = None,
    storage: str | None = None,
    seed: int = 0,
    experiment: str | None = None,
    tracking_uri: str | None = None,
    run_name: str | None = None,
    early_stop: bool = True,
    max_replicates: int = 4,
    **as_evaluate: Any,
) -> Sweep:
    """Search a space of judges for the map of reliability against cost, and log it as a parent run of nested trials.

    One half of the suite's tasks is searched; the front is measured again on the other. A trial ends as soon as it is
    dominated with confidence; replicates are added where the front is undecided. The same call continues a sweep that
    was interrupted: no configuration that was measured is measured again.

    Args:
        space: A `Space`, a mapping, or a YAML file.
        suite: As for `evaluate`; at least four tasks.
        n_trials: Configurations to try, those of earlier calls included; every configuration when None.
        max_usd: Never spend more than this on all trials together, restarts and other workers included.
        storage: Any Optuna storage URL, such as the journal's own `postgresql://…`; a SQLite file under `.jrh/sweeps`
            when None.
        seed: Of the split, the order of items, the search and all resampling.
        experiment: MLflow experiment; the active one when None.
        tracking_uri: MLflow store; the active one when None.
        run_name: Name of the parent run.
        early_stop: Stop trials that are dominated with confidence (reliability against cost only).
        max_replicates: Most calls per item and order while the front is undecided; 1 adds none.
        **as_evaluate: Further arguments of `evaluate`, such as journal, concurrency and prices.

    Raises:
        RecipeError: when the space makes no sense.
        JudgeError: when no configuration could be measured.
    """
    with (
        quiet(),
        set_up(
            space,
            suite,
            n_trials=n_trials,
            max_usd=max_usd,
            storage=storage,
            seed=seed,
            experiment=experiment,
            tracking_uri=tracking_uri,
            run_name=run_name,
            **as_evaluate,
        ) as ready,
        ending(ready.bench.store, ready.bench.parent),
    ):
        found: dict[str, Result] = {}
        held: dict[str, Result] = {}
        failed: dict[str, str] = {}
        truncated = _searched(ready, early_stop=early_stop)
        found |= completed(ready.trials)
        _check_any(ready.trials, found, truncated)
        if truncated is None:
            truncated = _remeasured(ready, found, held, failed, max_replicates=max_replicates)
        link = ready.bench.store.link(ready.bench.parent)
        return log(ready.bench, assembled(ready, found, held, failed, truncated=truncated, link=link), seed=seed)


def join_sweep(
    space: Space | Mapping[str, Any] | str | Path,
    suite: Suite | str | Path | None = None,
    *,
    storage: str | None = None,
    early_stop: bool = True,
    **given: Any,
) -> int:
    """Run trials of a sweep that another process started, until none is left; return how many this one ran.

    The number of trials and the cap are those of the sweep. All processes must use one journal, where the cap is kept,
    and one MLflow store.

    Raises:
        RecipeError: when there is no such study in the storage, or the journal is another one.
        TrackingError: when the sweep's run is not in the MLflow store.
        BudgetReached: The cap is spent.
    """
    with quiet(), set_up(space, suite, storage=storage, join=True, **given) as ready:
        return _search(ready, early_stop=early_stop, wait=False)


def _searched(ready: Ready, *, early_stop: bool) -> str | None:
    """Search; return why it ended before its time, or None."""
    bench, trials = ready.bench, ready.trials
    try:
        _search(ready, early_stop=early_stop, wait=True)
    except BudgetReached as reason:
        # What the others still run was paid, too, and belongs to the report.
        while trials.open("RUNNING"):
            trials.wait()
        return f"the cap is reached ({reason})"
    finally:
        taken_over = [found["run_id"] for one in trials.measured().values() if (found := result_of(one))]
        end_orphans(bench.store, bench.parent, trials.dead(), keep=taken_over)
    return None


def _search(ready: Ready, *, early_stop: bool, wait: bool) -> int:
    """Run trials until there are enough; with `wait`, until those of other workers have ended too; return how many."""
    trials, ran = ready.trials, 0

    def run(trial: Trial, one: Configuration) -> Sequence[float]:
        nonlocal ran
        ran += 1
        return run_trial(ready.capped(), trials, trial, one, ready.search, early_stop=early_stop)

    while True:
        if trials.run_next(ready.n_trials, run):
            continue
        if not wait or not trials.open():
            return ran
        trials.wait()


def _remeasured(
    ready: Ready,
    found: dict[str, Result],
    held: dict[str, Result],
    failed: dict[str, str],
    *,
    max_replicates: int,
) -> str | None:
    """Refine and hold out; return why that ended before its time, or None."""
    configurations = {one.key: one for one in ready.trials.grid}
    memory = Memory(ready.trials.study)
    try:
        bench = ready.capped()
        refine(bench, memory, found, configurations, ready.search, max_replicates=max_replicates)
        failed |= hold_out(bench, memory, found, configurations, ready.holdout, found=held)
    except BudgetReached as reason:
        return f"the cap is reached while the front was measured again ({reason})"
    return None


def _check_any(trials: Trials, found: Mapping[str, Result], truncated: str | None) -> None:
    if not found and trials.failed and truncated is None:
        raise JudgeError(f"No configuration could be measured. The first: {next(iter(trials.failed.values()))}")
