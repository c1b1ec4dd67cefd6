"""`jrh.sweep`: which judge, with which prompt and tie rule, for how much."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.engine.money import checked_cap, judge_price
from jrh_mlflow.errors import JudgeError, RecipeError, TrackingError
from jrh_mlflow.evaluation import resolve_judge
from jrh_mlflow.stimuli.suite import Suite
from jrh_mlflow.suites import as_suite
from jrh_mlflow.sweeps.assembling import assembled, log
from jrh_mlflow.sweeps.loading import as_space
from jrh_mlflow.sweeps.remeasure import Memory, halves, hold_out, refine
from jrh_mlflow.sweeps.report import Sweep
from jrh_mlflow.sweeps.results import Result
from jrh_mlflow.sweeps.space import Space
from jrh_mlflow.sweeps.study import Trials, default_storage, open_study, quiet
from jrh_mlflow.sweeps.trials import Bench, BudgetReached, completed, run_trial
from jrh_mlflow.tracking.runs import first_tags
from jrh_mlflow.tracking.store import Store, ending
from jrh_mlflow.tracking.sweeps import end_orphans, reopen, sweep_parent

if TYPE_CHECKING:
    from optuna import Study

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
    n_trials: int


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
        storage: Any Optuna storage URL; a SQLite file under `.jrh/sweeps` when None.
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
    with quiet():
        ready = _ready(
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
        )
        bench, trials = ready.bench, ready.trials
        with ending(bench.store, bench.parent):
            found: dict[str, Result] = {}
            held: dict[str, Result] = {}
            failed: dict[str, str] = {}
            truncated = _searched(ready, early_stop=early_stop)
            found |= completed(trials)
            _check_any(trials, found, truncated)
            if truncated is None:
                truncated = _remeasured(ready, found, held, failed, max_replicates=max_replicates)
            done = assembled(ready, found, held, failed, truncated=truncated, link=bench.store.link(bench.parent))
            return log(bench, done, seed=seed)


def join_sweep(
    space: Space | Mapping[str, Any] | str | Path,
    suite: Suite | str | Path | None = None,
    *,
    storage: str | None = None,
    early_stop: bool = True,
    **given: Any,
) -> int:
    """Run trials of a sweep that another process started, until none is left; return how many this one ran.

    The number of trials and the cap are those of the sweep. All processes must use one journal: the cap is kept there.

    Raises:
        RecipeError: when there is no such study in the storage.
        BudgetReached: The cap is spent.
    """
    with quiet():
        ready = _ready(space, suite, storage=storage, create=False, **given)
        before = len(ready.trials.all())
        _search(ready, early_stop=early_stop, wait=False)
        return len(ready.trials.all()) - before


def study_name(space: Space, suite: Suite, seed: int) -> str:
    """Name a study by what it searches: the same space, suite and seed continue it."""
    return f"jrh-{space.sha256[:12]}-{suite.sha256[:12]}-{seed}"


def _ready(
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
    create: bool = True,
    **as_evaluate: Any,
) -> Ready:
    """Check everything that can be checked before anything is asked, then open study and parent run."""
    for name in _OURS:
        if name in as_evaluate:
            raise RecipeError(f"A sweep sets `{name}` of its trials itself.")
    if n_trials is not None and n_trials < 1:
        raise RecipeError(f"`n_trials >= 1` must hold, but got {n_trials=}.")
    chosen, on = as_space(space, tracking_uri=tracking_uri), as_suite(suite)
    pair = any(item.kind == "pair" for item in on.items)
    search, holdout = halves(on, seed=seed)
    _check_cap(chosen, max_usd, as_evaluate.get("prices"), pair=pair)
    name = study_name(chosen, on, seed)
    store = Store(tracking_uri, experiment)
    study, made = open_study(name, storage or default_storage(name), list(chosen.objectives.values()), create=create)
    trials = Trials(study, chosen, pair=pair, seed=seed)
    first = resolve_judge(chosen.make_judge(trials.grid[0]))
    parent = _parent(study, store, made, run_name or f"sweep: {on.name}", simulated=first.simulated)
    if create:
        reopen(store, parent)
        study.set_user_attr(_LIMITS, {"n_trials": n_trials, "max_usd": max_usd})
    else:
        limits = study.user_attrs.get(_LIMITS, {})
        n_trials, max_usd = n_trials or limits.get("n_trials"), max_usd or limits.get("max_usd")
    budget = {} if max_usd is None else {"max_usd": max_usd, "budget": f"sweep:{name}"}
    where = {"experiment": experiment, "tracking_uri": tracking_uri}
    bench = Bench(
        space=chosen,
        store=store,
        parent=parent,
        pair=pair,
        seed=seed,
        options={"progress": False, **as_evaluate, **where, **budget},
    )
    return Ready(
        space=chosen,
        suite=on,
        search=search,
        holdout=holdout,
        trials=trials,
        bench=bench,
        n_trials=min(n_trials or len(trials.grid), len(trials.grid)),
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
            checked_cap(max_usd, judge, judge_price(judge, prices))


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


def _searched(ready: Ready, *, early_stop: bool) -> str | None:
    """Search; return why it ended before its time, or None."""
    bench, trials = ready.bench, ready.trials
    try:
        _search(ready, early_stop=early_stop, wait=True)
    except BudgetReached as reason:
        return f"the cap is reached ({reason})"
    finally:
        dead = [one.number for one in trials.all() if one.state.name == "FAIL"]
        end_orphans(bench.store, bench.parent, dead)
    return None


def _search(ready: Ready, *, early_stop: bool, wait: bool) -> None:
    """Run trials until there are enough; with `wait`, until those of other workers have ended too."""
    bench, trials = ready.bench, ready.trials
    while True:
        went = trials.run_next(
            ready.n_trials,
            lambda trial, one: run_trial(bench, trials, trial, one, ready.search, early_stop=early_stop),
        )
        if went:
            continue
        if not wait or not trials.open():
            return
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
        refine(ready.bench, memory, found, configurations, ready.search, max_replicates=max_replicates)
        failed |= hold_out(ready.bench, memory, found, configurations, ready.holdout, found=held)
    except BudgetReached as reason:
        return f"the cap is reached while the front was measured again ({reason})"
    return None


def _check_any(trials: Trials, found: Mapping[str, Result], truncated: str | None) -> None:
    if not found and trials.failed and truncated is None:
        raise JudgeError(f"No configuration could be measured. The first: {next(iter(trials.failed.values()))}")
