"""`jrh.sweep`: which judge, with which prompt and tie rule, for how much; and what that costs, before it is run.

search      trials on one half of the suite's tasks, until there are enough or the cap has no room for another
refine      more replicates where membership of the front is undecided
hold out    the front once more, on the half nobody searched

With a cap `stages.SweepMoney` sets the share of the held-out half aside before the search spends it.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.engine import count_calls
from jrh_mlflow.engine.budget import BUDGET, Paid, checked_cap, judge_price
from jrh_mlflow.engine.calls import Quote
from jrh_mlflow.engine.interrupts import say
from jrh_mlflow.engine.runner import INTERRUPTED
from jrh_mlflow.errors import JrhError, JudgeError, RecipeError, SuiteError, TrackingError
from jrh_mlflow.judges import Judge
from jrh_mlflow.measuring.resolve import opened_journal, prepare, resolve_judge, resolve_suite
from jrh_mlflow.models.trust import allow_key_to
from jrh_mlflow.options import Moment, checked_metrics, read_moment
from jrh_mlflow.show.plain_text import wrapped_line
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.sweeps.result import Findings, Sweep, assembled, sweep_content
from jrh_mlflow.sweeps.space import Configuration, Space, as_space, check_names
from jrh_mlflow.sweeps.stages import SweepMoney, hold_out, paid_by, prepared, refine
from jrh_mlflow.sweeps.study import (
    LIMITS,
    PARENT,
    RESULT,
    TrialFailed,
    Trials,
    TrialSkipped,
    default_storage,
    open_study,
    quiet,
)
from jrh_mlflow.sweeps.sweep_verdict import few_tasks
from jrh_mlflow.sweeps.trials import TAG_TRIAL, BudgetReached, SweepContext, completed, run_trial
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import Store, ending, first_tags, log_paid, publish

if TYPE_CHECKING:
    from optuna import Study, Trial

AnySpace = Space | Mapping[str, Any] | str | Path

_OURS = ("replicates", "stop", "parent_run_id", "run_name", "shuffle", "budget", "tags")
"""Arguments of `evaluate` that a sweep sets itself."""
_FEWEST_TASKS = 4


def sweep(
    space: AnySpace,
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
        storage: Any Optuna storage URL, such as the journal's own `postgresql://…`; a SQLite file of its own when
            None.
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
        KeyboardInterrupt: after Ctrl-C, once calls in flight are settled: what was measured so far is its `.sweep`.
            SIGTERM and a hung-up terminal raise `SystemExit`, likewise.
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
        ) as context,
        ending(context.store, context.parent),
    ):
        for note in few_tasks(context.suite):
            # Before anything is paid for: what this many tasks will not tell.
            say("\n".join(wrapped_line("note", note)))
        is_priced = all(
            judge_price(judge, as_evaluate.get("prices")) is not None for judge in judges_of(context.trials)
        )
        findings = Findings()
        try:
            _measure(context, findings, early_stop=early_stop, max_replicates=max_replicates)
            done = assembled(context, findings, paid=paid_by(context, is_priced=is_priced))
        except BaseException as stop:
            # Where there is nothing to report, the run says at least what it cost.
            paid = paid_by(context, is_priced=is_priced)
            log_paid(context.store, context.parent, paid)
            if isinstance(stop, KeyboardInterrupt | SystemExit):
                stop.sweep = _so_far(context, findings, paid)  # type: ignore[union-attr]
            raise
        what_now = "Its trials are logged; the same sweep again reports them."
        # On the run of the whole sweep: one that was continued replaces what stood there.
        publish(context.store, context.parent, sweep_content(done, seed=seed), what_now=what_now, replaces=True)
        _remove_replaced(context, is_whole=done.truncated is None)
        return done


def join_sweep(
    space: AnySpace,
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
    with quiet(), set_up(space, suite, storage=storage, join=True, **given) as context:
        ran = _search(context, SweepMoney(context=context), early_stop=early_stop, wait=False)
        if reasons := list(context.trials.skipped.values()):
            raise BudgetReached(reasons[0])
        return ran


def _so_far(context: SweepContext, findings: Findings, paid: Paid) -> Sweep:
    """Return what was measured before a signal came."""
    findings.search = findings.search or completed(context.trials)
    hold_out(context, findings, asking=False)
    findings.truncated = INTERRUPTED
    return assembled(context, findings, paid=paid)


def _measure(context: SweepContext, findings: Findings, *, early_stop: bool, max_replicates: int) -> None:
    """Run the three stages; a cap ends them with what they have."""
    trials, money = context.trials, SweepMoney(context=context)
    try:
        _search_all(context, money, early_stop=early_stop)
        findings.search = completed(trials)
        if not findings.search and trials.failed and not trials.skipped:
            raise JudgeError(f"No configuration could be measured. The first: {next(iter(trials.failed.values()))}")
        if context.cap_micro is not None:
            # First: replicates are made of what the held-out half leaves.
            hold_out(context, findings)
        refine(context, findings, max_replicates=max_replicates, room=money.refining)
        hold_out(context, findings)
        findings.truncated = _cut_short(trials, findings)
    except BudgetReached as reason:
        findings.search = findings.search or completed(trials)
        hold_out(context, findings, asking=False)
        findings.truncated = f"the cap is reached ({reason})"


def _cut_short(trials: Trials, findings: Findings) -> str | None:
    """Say what the cap had no room for, or None."""
    limit = min(trials.limits["n_trials"] or len(trials.grid), len(trials.grid))
    missing = min(len(trials.skipped), limit - len(trials.measured()) - len(trials.failed))
    parts = []
    if missing > 0:
        key, reason = next(iter(trials.skipped.items()))
        such = f"such as {trials.by_key[key].label}: {reason}"
        parts.append(f"{missing} of {limit} configurations were not measured, {such}")
    if findings.unpaid:
        reason = next(iter(findings.unpaid.values()))
        parts.append(f"{len(findings.unpaid)} of the front could not be held out: {reason}")
    return f"the cap is reached: {'; '.join(parts)}" if parts else None


def _search_all(context: SweepContext, money: SweepMoney, *, early_stop: bool) -> None:
    """Search, and wait for the other workers; runs of trials whose process died are ended."""
    trials = context.trials
    try:
        _search(context, money, early_stop=early_stop, wait=True)
    except BudgetReached:
        # What the others still run was paid, too, and belongs to the report.
        while trials.open("RUNNING"):
            trials.wait()
        raise
    finally:
        _end_orphans(context)


def demand_parent(store: Store, run_id: str) -> None:
    """Refuse a store that does not have the parent run of the sweep.

    Raises:
        TrackingError: with what to do.
    """
    with store.errors("A worker needs the MLflow store of the sweep that it joins: give the same --tracking-uri."):
        store.client.get_run(run_id)


def _end_orphans(context: SweepContext) -> None:
    """End the runs of trials whose process died, but those that a later trial took over: they are run again."""
    store, trials = context.store, context.trials.measured().values()
    taken_over = [trial.user_attrs[RESULT]["run_id"] for trial in trials if RESULT in trial.user_attrs]
    dead = {str(number) for number in context.trials.dead()}
    if not dead:
        return
    children = f"tags.`{keys.TAG_PARENT}` = '{context.parent}' and attributes.status != 'KILLED'"
    with store.errors("The trials themselves are enqueued again."):
        for run in store.client.search_runs([store.experiment_id], children, max_results=10_000):
            if run.data.tags.get(TAG_TRIAL) in dead and run.info.run_id not in taken_over:
                store.client.set_terminated(run.info.run_id, "KILLED")


def _remove_replaced(context: SweepContext, *, is_whole: bool) -> None:
    """Delete runs that a cap or a signal cut short once others stand for them: they would tell of a stop that is over.

    Every answer of theirs is in the run that went on. Of a whole sweep none is left; MLflow keeps what is deleted until
    its garbage is collected.
    """
    store = context.store
    with store.errors("The sweep is logged; runs that were cut short stand beside those that went on."):
        where = f"tags.`{keys.TAG_PARENT}` = '{context.parent}'"
        runs = store.client.search_runs([store.experiment_id], where, max_results=10_000)
        whole = {run.info.run_name for run in runs if run.info.status == "FINISHED" and not _is_cut(run.data.tags)}
        for run in runs:
            if _is_cut(run.data.tags) and (is_whole or run.info.run_name in whole):
                store.client.delete_run(run.info.run_id)


def _is_cut(tags: Mapping[str, str]) -> bool:
    """Whether a run ended for money or by a signal; one that is dominated ended as it should."""
    return tags.get(keys.TAG_TRUNCATED, "").startswith((BUDGET, INTERRUPTED))


def _search(context: SweepContext, money: SweepMoney, *, early_stop: bool, wait: bool) -> int:
    """Run trials until there are enough or the cap has no room for another; return how many.

    With `wait` until those of other workers have ended too. What does not fit at its worst is tried at last.
    """
    ran = 0
    # First what is sure to be paid; then what may be, with what is left.
    for money.is_patient in (True, False):
        ran += _search_once(context, money, early_stop=early_stop, wait=wait)
        trials = context.trials
        trials.preferred = money.cheapest_first(trials.skipped) if money.is_patient else []
        if money.is_patient:
            trials.skipped.clear()
    return ran


def _search_once(context: SweepContext, money: SweepMoney, *, early_stop: bool, wait: bool) -> int:
    trials, ran = context.trials, 0

    def run(trial: Trial, configuration: Configuration) -> Sequence[float]:
        nonlocal ran
        try:
            keep_micro, afford = money.admit(trial, configuration)
        except (JudgeError, RecipeError, SuiteError) as error:
            raise TrialFailed(context.why(error)) from error
        ran += 1
        try:
            return run_trial(context, trial, configuration, early_stop=early_stop, keep_micro=keep_micro, afford=afford)
        except BudgetReached as reason:
            if reason.is_overrun:
                raise
            money.give_up(configuration, str(reason), afford)
            raise TrialSkipped(str(reason)) from reason

    while True:
        # Read anew each time: the sweep may have been started again with another number.
        if trials.run_next(trials.limits["n_trials"] or len(trials.grid), run):
            continue
        if not wait or not trials.open():
            return ran
        trials.wait()


def study_name(space: Space, suite: Suite, seed: int, *, fresh_after: Moment | None = None) -> str:
    """Name a study by what it searches: the same space, suite and seed continue it.

    One that demands fresh answers is one of its own: what another measured may be older.
    """
    fresh = "" if fresh_after is None else f"-{read_moment(fresh_after):%Y%m%dT%H%M%S}"
    return f"jrh-{space.sha256[:12]}-{suite.sha256[:12]}-{seed}{fresh}"


def suite_halves(suite: Suite, *, seed: int) -> tuple[Suite, Suite]:
    """Split a suite by task into `<suite>/search` and `<suite>/holdout`.

    Raises:
        SuiteError: when it has fewer than four tasks: neither half would say how much tasks differ.
    """
    tasks = sorted({item.task for item in suite.items})
    if len(tasks) < _FEWEST_TASKS:
        raise SuiteError(
            f"Suite {suite.name!r} has {len(tasks)} task(s), and a sweep needs {_FEWEST_TASKS}: one half is searched, "
            "the other held out."
        )
    searched = set(random.Random(f"halves:{seed}").sample(tasks, (len(tasks) + 1) // 2))  # noqa: S311 - an order

    def half(name: str, *, wanted: bool) -> Suite:
        items = [item for item in suite.items if (item.task in searched) == wanted]
        return Suite(name=f"{suite.name}/{name}", items=items, origin={"half_of": suite.sha256, "seed": seed})

    return half("search", wanted=True), half("holdout", wanted=False)


@contextmanager
def set_up(
    space: AnySpace,
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
) -> Iterator[SweepContext]:
    """Check everything that can be checked before anything is asked, then open study and parent run."""
    _check_arguments(as_evaluate, n_trials=n_trials, max_usd=max_usd, join=join)
    allow_key_to(as_evaluate.get("allow_key_to"))
    space, suite = as_space(space, tracking_uri=tracking_uri), resolve_suite(suite, tracking_uri=tracking_uri)
    if not as_evaluate.get("texts", True):
        _check_names(space)
    pair = suite.has_pairs
    # Names are checked on the searched half: that is what trials are measured on.
    search, holdout = suite_halves(suite, seed=seed)
    check_names(space.metrics, search, replicates=max(space.replicates), metric=as_evaluate.get("metric"))
    name = study_name(space, suite, seed, fresh_after=as_evaluate.get("fresh_after"))
    store = Store(tracking_uri, experiment)
    directions = list(space.objectives.values())
    with open_study(name, storage or default_storage(name, store.uri), directions, create=not join) as (study, made):
        trials = Trials(study, space, pair=pair, seed=seed)
        judge = resolve_judge(space.make_judge(trials.grid[0]))
        context = SweepContext(
            suite=suite,
            search=search,
            holdout=holdout,
            trials=trials,
            store=store,
            parent="",
            options={"progress": False, **as_evaluate, "experiment": experiment, "tracking_uri": tracking_uri},
        )
        _check_judges(context, max_usd)
        with opened_journal(as_evaluate.get("journal"), judge) as journal:
            journal_id = journal.id if journal else None
        if not join:
            # Before the parent run, which is what a worker waits for.
            study.set_user_attr(LIMITS, {"n_trials": n_trials, "max_usd": max_usd, "journal": journal_id})
        parent = _parent(study, store, made, run_name or f"sweep: {suite.name}", simulated=judge.simulated)
        if join:
            demand_parent(store, parent)
            _check_journal(journal_id, trials.limits["journal"])
        else:
            with store.errors("Nothing was asked yet."):
                store.client.update_run(parent, status="RUNNING")
        yield replace(context, parent=parent)


def _check_arguments(
    as_evaluate: Mapping[str, Any], *, n_trials: int | None, max_usd: float | None, join: bool
) -> None:
    checked_metrics(as_evaluate.get("metrics", "headline"))
    for name in _OURS:
        if name in as_evaluate:
            raise RecipeError(f"A sweep sets `{name}` of its trials itself.")
    if n_trials is not None and n_trials < 1:
        raise RecipeError(f"`n_trials >= 1` must hold, but got {n_trials=}.")
    if join and (n_trials is not None or max_usd is not None):
        raise RecipeError("A worker takes the number of trials and the cap from the sweep that it joins: give neither.")


def _check_names(space: Space) -> None:
    """Refuse choices that are texts where none are logged: a choice stands by its name in params and pages."""
    for axis in space.choices:
        for name in space.axes[axis]:
            if len(name.split()) > 1 or name.startswith(("{", "[")):
                raise RecipeError(
                    f"Without texts the choices of a space must be words, numbers or objects with a `name`, but "
                    f"{axis!r} has a text. Give it a name, and let `judge` find the text by it."
                )


def _check_journal(own: str | None, theirs: str | None) -> None:
    if own != theirs:
        raise RecipeError(
            f"The journal of this worker ({own}) is not that of the sweep ({theirs}): answers and cap are kept there. "
            "Give both the same --journal, for several machines postgresql://…"
        )


def judges_of(trials: Trials) -> list[Judge]:
    """Return a judge of each model; of a function of one's own, of each choice that is called so."""
    judges: dict[str | None, Judge] = {}
    for configuration in trials.grid:
        # One that cannot be made fails its own trial.
        if (model := configuration.params.get("model")) not in judges:
            with suppress(JrhError):
                judges[model] = resolve_judge(trials.space.make_judge(configuration))
    return list(judges.values())


def _check_judges(context: SweepContext, max_usd: float | None) -> None:
    """Refuse judges without a key, and a cap that cannot be kept or pays for no answer, before anything is made.

    Raises:
        JudgeError: naming what to set.
        RecipeError: for a cap on models whose calls cannot be priced beforehand.
        BudgetError: with what would do.
    """
    judges = judges_of(context.trials)
    for judge in judges:
        checked_cap(max_usd, judge, context.options.get("prices"))
    if any(judge.lacks() for judge in judges):
        measured = context.trials.measured()
        for configuration in context.trials.grid:
            if configuration.key not in measured:
                prepared(context, configuration, context.search).check_ready()
    if max_usd is not None:
        SweepMoney(context=context).check_cap(int(max_usd * 1_000_000))


def _parent(study: Study, store: Store, made: bool, name: str, *, simulated: bool) -> str:
    """Make the parent run with the study, or find the one it has."""
    if made:
        run_id = store.create_run(name, tags=first_tags("sweep", simulated=simulated))
        study.set_user_attr(PARENT, run_id)
        return run_id
    for _ in range(120):  # its maker may be between the two steps
        known = study.user_attrs.get(PARENT)
        if known is not None:
            return str(known)
        time.sleep(0.5)
    raise TrackingError(f"The study {study.study_name} has no parent run: its first process died. Change the seed.")


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepQuote:
    """Calls and dollars of a sweep; policies over the same calls share them."""

    configurations: int
    judges: int
    """Different judges among them: what is asked depends on the judge and the most replicates."""
    n_trials: int
    grid_calls: int
    """Different calls of the whole grid on the searched half."""
    trials_calls: int
    """At most, of `n_trials` configurations."""
    holdout_calls_each: int
    """Of one configuration of the front on the held-out half, with the most replicates."""
    grid_usd: float | None
    """Estimates; None when a price is unknown."""
    grid_worst_usd: float | None
    trials_usd: float | None
    trials_worst_usd: float | None
    holdout_worst_usd: float | None = None
    """What is set aside at most for the held-out half of one configuration of the front."""
    max_usd: float | None = None
    covered: int | None = None
    """Configurations that the cap is sure to cover on both halves, in the order of the grid, all on the front."""
    covered_usually: int | None = None
    """Those it covers at what calls usually cost."""
    sure_usd: float | None = None
    """The cap from which on one configuration, the cheapest, is sure to have an answer."""
    notes: tuple[str, ...] = ()
    """What so few tasks will not tell."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return asdict(self)


def price_sweep(
    space: AnySpace,
    suite: Suite | str | Path | None = None,
    *,
    n_trials: int | None = None,
    max_usd: float | None = None,
    seed: int = 0,
    journal: Any = None,
    prices: Any = None,
    tracking_uri: str | None = None,
    fresh_after: Moment | None = None,
    metric: str | None = None,
) -> SweepQuote:
    """Price the whole grid and `n_trials` of it on the searched half, rendering every call but sending none.

    Stops make a sweep cheaper; replicates for an undecided front and the held-out half make it dearer, at most by as
    many calls as the search itself makes and by the front's own calls. With a cap it says how that would be shared.
    """
    space, suite = as_space(space, tracking_uri=tracking_uri), resolve_suite(suite, tracking_uri=tracking_uri)
    search, holdout = suite_halves(suite, seed=seed)
    check_names(space.metrics, search, replicates=max(space.replicates), metric=metric)
    grid = space.configurations(pair=suite.has_pairs, seed=seed)
    # One configuration per judge, the one with the most replicates: policies over the same calls share them.
    by_judge: dict[object, Configuration] = {}
    for point in grid:
        by_judge[point.judge_key] = max(by_judge.get(point.judge_key, point), point, key=_replicates)
    judges = list(by_judge.values())
    how = {"journal": journal, "prices": prices, "fresh_after": fresh_after}
    quotes, held_out = (
        [prepare(space.make_judge(judge), half, replicates=_replicates(judge), **how).quote() for judge in judges]
        for half in (search, holdout)
    )
    n_trials = min(n_trials or len(grid), len(grid))
    # Sampled configurations may be those of the dearest judges, each asked once with the most replicates.
    dearest = sorted(quotes, key=lambda quote: quote.worst_usd or 0.0, reverse=True)[:n_trials]
    # How many configurations are read from the calls of each judge.
    most, shared = max(judges, key=_replicates), Counter(point.judge_key for point in grid)
    return SweepQuote(
        configurations=len(grid),
        judges=len(judges),
        n_trials=n_trials,
        grid_calls=sum(quote.calls for quote in quotes),
        trials_calls=sum(quote.calls for quote in dearest),
        holdout_calls_each=count_calls(holdout, resolve_judge(space.make_judge(most)), replicates=_replicates(most)),
        grid_usd=_total(quotes, "usd"),
        grid_worst_usd=_total(quotes, "worst_usd"),
        trials_usd=_total(dearest, "usd"),
        trials_worst_usd=_total(dearest, "worst_usd"),
        holdout_worst_usd=None if _total(held_out, "worst_usd") is None else max(q.worst_usd or 0.0 for q in held_out),
        max_usd=max_usd,
        notes=tuple(few_tasks(suite)),
        **_shared_cap(list(zip(quotes, held_out, strict=True)), [shared[judge.judge_key] for judge in judges], max_usd),
    )


def _shared_cap(halves_of: Sequence[tuple[Quote, Quote]], counts: Sequence[int], cap: float | None) -> dict[str, Any]:
    """Say for how many configurations a cap pays both halves; judges are asked in turn while it does."""
    worst = [_total(both, "worst_usd") for both in halves_of]
    usual = [_total(both, "usd") for both in halves_of]
    if cap is None or None in (*worst, *usual):
        return {}
    sums = {"covered": worst, "covered_usually": usual}
    shares: dict[str, Any] = {"sure_usd": min(amount for amount in worst if amount is not None)}
    for name, amounts in sums.items():
        left, shares[name] = cap, 0
        for amount, count in zip(amounts, counts, strict=True):
            if amount is not None and amount <= left:
                left, shares[name] = left - amount, shares[name] + count
    return shares


def _replicates(configuration: Configuration) -> int:
    return configuration.policy.replicates


def _total(quotes: Sequence[Quote], amount: str) -> float | None:
    """Add up an amount of several quotes; None when one of them is unknown."""
    amounts = [getattr(quote, amount) for quote in quotes]
    return None if None in amounts else sum(amounts, 0.0)
