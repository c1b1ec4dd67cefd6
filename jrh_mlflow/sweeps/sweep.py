"""`jrh.sweep`: which judge, with which prompt and tie rule, for how much.

A sweep set up: what can be checked is checked, study and parent run are open, workers are told the limits.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.engine.budget import checked_cap
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.errors import JudgeError, RecipeError, TrackingError
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.resolve import as_suite, default_journal, resolve_judge
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.sweeps.assembling import assembled, log
from jrh_mlflow.sweeps.metric_names import check_names
from jrh_mlflow.sweeps.refine import Memory, halves, hold_out, refine
from jrh_mlflow.sweeps.report import Sweep
from jrh_mlflow.sweeps.space import Configuration, Space, as_space
from jrh_mlflow.sweeps.study import Trials, default_storage, open_study, quiet, result_of
from jrh_mlflow.sweeps.trials import Bench, BudgetReached, Result, completed, run_trial
from jrh_mlflow.tracking.publish import first_tags
from jrh_mlflow.tracking.store import Store, ending
from jrh_mlflow.tracking.sweeps import demand_parent, end_orphans, reopen, sweep_parent

if TYPE_CHECKING:
    from optuna import Study, Trial


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


_PARENT, _LIMITS = "jrh:parent", "jrh:limits"
"""Attributes of a study: its parent run, and what the sweep was started with, for those that join it."""
_OURS = ("replicates", "stop", "parent_run_id", "run_name", "shuffle", "budget", "tags")
"""Arguments of `evaluate` that a sweep sets itself."""


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A sweep that is set up."""

    space: Space
    suite: Suite
    search: Suite
    holdout: Suite
    trials: Trials
    bench: Bench

    @property
    def n_trials(self) -> int:
        """Configurations to try, as the sweep was started last."""
        n_grid = len(self.trials.grid)
        return min(_limits(self.trials.study)["n_trials"] or n_grid, n_grid)

    def capped(self) -> Bench:
        """Return the bench under the latest cap of the sweep: a worker must not bring an old one back."""
        study = self.trials.study
        cap = _limits(study)["max_usd"]
        budget = {} if cap is None else {"max_usd": cap, "budget": f"sweep:{study.study_name}"}
        return replace(self.bench, options={**self.bench.options, **budget})


def study_name(space: Space, suite: Suite, seed: int) -> str:
    """Name a study by what it searches: the same space, suite and seed continue it."""
    return f"jrh-{space.sha256[:12]}-{suite.sha256[:12]}-{seed}"


@contextmanager
def set_up(
    space: Space | Mapping[str, Any] | str | Path,
    suite: Suite | str | Path | None,
    *,
    n_trials: int | None = None,
    max_usd: float | None = None,
    storage: str | None = None,
    seed: int = 0,
    experiment: str | None = None,
    tracking_uri: str | None = None,
    run_name: str | None = None,
    join: bool = False,
    **as_evaluate: Any,
) -> Iterator[Ready]:
    """Check everything that can be checked before anything is asked, then open study and parent run."""
    _check_arguments(as_evaluate, n_trials=n_trials, max_usd=max_usd, join=join)
    chosen, on = as_space(space, tracking_uri=tracking_uri), as_suite(suite, tracking_uri=tracking_uri)
    pair = any(item.kind == "pair" for item in on.items)
    search, holdout = halves(on, seed=seed)
    check_names(chosen, search)
    _check_cap(chosen, max_usd, as_evaluate.get("prices"), pair=pair)
    name = study_name(chosen, on, seed)
    store = Store(tracking_uri, experiment)
    where = {"experiment": experiment, "tracking_uri": tracking_uri}
    options = {"progress": False, **as_evaluate, **where}
    directions = list(chosen.objectives.values())
    with open_study(name, storage or default_storage(name), directions, create=not join) as (study, made):
        trials = Trials(study, chosen, pair=pair, seed=seed)
        first = resolve_judge(chosen.make_judge(trials.grid[0]))
        journal = _journal_name(as_evaluate.get("journal")) if isinstance(first, PromptedJudge) else None
        if not join:
            # Before the parent run, which is what a worker waits for.
            study.set_user_attr(_LIMITS, {"n_trials": n_trials, "max_usd": max_usd, "journal": journal})
        parent = _parent(study, store, made, run_name or f"sweep: {on.name}", simulated=first.simulated)
        if join:
            demand_parent(store, parent)
            _check_journal(journal, _limits(study)["journal"])
        else:
            reopen(store, parent)
        bench = Bench(space=chosen, store=store, parent=parent, pair=pair, seed=seed, options=options)
        yield Ready(space=chosen, suite=on, search=search, holdout=holdout, trials=trials, bench=bench)


def _check_arguments(
    as_evaluate: Mapping[str, Any], *, n_trials: int | None, max_usd: float | None, join: bool
) -> None:
    for name in _OURS:
        if name in as_evaluate:
            raise RecipeError(f"A sweep sets `{name}` of its trials itself.")
    if n_trials is not None and n_trials < 1:
        raise RecipeError(f"`n_trials >= 1` must hold, but got {n_trials=}.")
    if join and (n_trials is not None or max_usd is not None):
        raise RecipeError("A worker takes the number of trials and the cap from the sweep that it joins: give neither.")


def _limits(study: Study) -> dict[str, Any]:
    return {"n_trials": None, "max_usd": None, "journal": None, **study.user_attrs.get(_LIMITS, {})}


def _journal_name(journal: str | Path | Journal | None) -> str:
    """Name a journal so that others can tell whether theirs is the same, without its address."""
    place = journal.place if isinstance(journal, Journal) else str(journal or default_journal())
    return "postgresql" if "://" in place else f"{socket.gethostname()}:{Path(place).resolve()}"


def _check_journal(own: str | None, theirs: str | None) -> None:
    if own != theirs:
        raise RecipeError(
            f"The journal of this worker ({own}) is not that of the sweep ({theirs}): answers and cap are kept there. "
            "Give both the same --journal, for several machines postgresql://…"
        )


def _check_cap(space: Space, max_usd: float | None, prices: Any, *, pair: bool) -> None:
    """Refuse a cap on models whose calls cannot be priced beforehand, before anything is asked."""
    if max_usd is None:
        return
    seen: dict[str, None] = {}
    for one in space.configurations(pair=pair):
        model = one.params.get("model", "")
        if model not in seen:
            seen[model] = None
            judge = resolve_judge(space.make_judge(one))
            checked_cap(max_usd, judge, judge.price(prices))


def _parent(study: Study, store: Store, made: bool, name: str, *, simulated: bool) -> str:
    """Make the parent run with the study, or find the one it has."""
    if made:
        run_id = sweep_parent(store, name, tags=first_tags("sweep", simulated=simulated))
        study.set_user_attr(_PARENT, run_id)
        return run_id
    for _ in range(120):  # its maker may be between the two steps
        known = study.user_attrs.get(_PARENT)
        if known is not None:
            return str(known)
        time.sleep(0.5)
    raise TrackingError(f"The study {study.study_name} has no parent run: its first process died. Change the seed.")
