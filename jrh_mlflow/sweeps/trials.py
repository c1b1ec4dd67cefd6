"""One configuration measured: an `evaluate` run nested under the sweep's, read through the configuration's policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from jrh_mlflow.comparing.criterion import operating_counts
from jrh_mlflow.engine.budget import BUDGET, Paid
from jrh_mlflow.engine.calls import item_order
from jrh_mlflow.engine.interrupts import say
from jrh_mlflow.engine.runner import StopRule
from jrh_mlflow.errors import BudgetError, JudgeError, RecipeError, SuiteError
from jrh_mlflow.judges import Judge
from jrh_mlflow.measures.composite import Tally, item_decisions, parts, reliability, tally
from jrh_mlflow.measuring.evaluate import evaluate
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.measuring.resolve import resolve_judge
from jrh_mlflow.schema.estimates import NotEstimable
from jrh_mlflow.schema.items import USABLE, CallRecord
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.sweeps.goals import COST, RELIABILITY, is_map, picked, sweep_points
from jrh_mlflow.sweeps.space import Configuration, Space
from jrh_mlflow.sweeps.stopping import DOMINATED, DominatedStop, Rival
from jrh_mlflow.sweeps.study import JOURNALLED, PAID, RESULT, STOPPED, TrialFailed, Trials
from jrh_mlflow.text import hashed
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import Store

if TYPE_CHECKING:
    from optuna import Trial


class BudgetReached(Exception):  # noqa: N818 - a signal, not a failure
    """The cap of the whole sweep does not cover the next call."""

    @property
    def is_overrun(self) -> bool:
        """Whether a call cost more than its worst case: then nothing more may be sent at all."""
        return f"{BUDGET}, because" in str(self)


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """What one configuration measured on one half of the suite, small enough to live in the study."""

    key: str
    """Of the configuration."""
    run_id: str
    tally: Tally
    usd_per_1k: float | None
    """Dollars of 1,000 judgments under the configuration's policy; None when a price is unknown."""
    n_calls: int
    """Calls that were made for it; what the journal served is not among them."""
    repeats: int = 1
    """How many decisions were made about each item."""
    truncated: str | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    """Objectives and constrained metrics."""
    feasible: bool = True
    operating: Mapping[str, Any] | None = None
    """Counts behind the operating point."""
    simulated: bool = False

    def __repr__(self) -> str:
        return f"TrialResult({self.key!r}: {self.n_calls:,} calls, run {self.run_id[:8]})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {**vars(self), "tally": self.tally.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TrialResult:
        """Read what `to_dict` wrote."""
        return cls(**{**data, "tally": Tally.from_dict(data["tally"])})


@dataclass(frozen=True, kw_only=True)
class SweepContext:
    """A sweep that is set up: what its stages and trials share."""

    suite: Suite
    search: Suite
    """The half that is searched."""
    holdout: Suite
    """The half on which the front is measured again."""
    trials: Trials
    store: Store
    parent: str
    """Run id of the sweep."""
    options: Mapping[str, Any]
    """Further arguments of `evaluate`, experiment and tracking_uri included."""

    @property
    def space(self) -> Space:
        """What is searched."""
        return self.trials.space

    @property
    def seed(self) -> int:
        """Of the split, the order of items, the search and all resampling."""
        return self.trials.seed

    @property
    def budget(self) -> str:
        """Name of the journal's budget that counts what all stages and processes pay."""
        return f"sweep:{self.trials.study.study_name}"

    @property
    def cap_micro(self) -> int | None:
        """Most micro-dollars, as the sweep was started last: a worker must not bring an old cap back."""
        cap = self.trials.limits["max_usd"]
        return None if cap is None else int(cap * 1_000_000)

    def why(self, error: Exception) -> str:
        """Say why a configuration could not be measured; where texts are left out only to the user: errors quote."""
        if self.options.get("texts", True):
            return str(error)
        say(f"{type(error).__name__}: {error}")
        return f"{type(error).__name__} ({hashed(str(error))})"

    def measure(
        self,
        configuration: Configuration,
        suite: Suite,
        *,
        stage: str,
        repeats: int = 1,
        judge: Judge | None = None,
        stop: StopRule | None = None,
        trial: int | None = None,
        keep_micro: int = 0,
    ) -> TrialResult:
        """Evaluate a configuration on a half of the suite and read its decisions.

        Of the cap `keep_micro` is left alone: it is set aside for the held-out half.

        Raises:
            BudgetReached: The cap is spent; what was asked is in the journal, so that a higher one continues.
        """
        again = f", {repeats} times" if repeats > 1 else ""
        tags = {keys.TAG_STAGE: stage, keys.TAG_CONFIGURATION: configuration.key}
        tags |= {} if trial is None else {keys.TAG_TRIAL: str(trial)}
        judge, cap = judge or resolve_judge(self.space.make_judge(configuration)), self.cap_micro
        study = self.trials.study
        if judge.model_judge and JOURNALLED not in study.user_attrs:
            study.set_user_attr(JOURNALLED, True)
        try:
            done = evaluate(
                judge,
                suite,
                replicates=configuration.policy.replicates * repeats,
                run_name=f"{stage}: {configuration.label}{again}",
                parent_run_id=self.parent,
                tags=tags,
                shuffle=self.seed,
                stop=stop,
                seed=self.seed,
                max_usd=None if cap is None else max(1, cap - keep_micro) / 1_000_000,
                budget=self.budget,
                **self.options,
            )
        except BudgetError as error:
            raise BudgetReached(str(error)) from error
        except BaseException as error:
            self._note_paid(judge, getattr(error, "evaluation", None))
            raise
        self._note_paid(judge, done)
        if done.truncated and done.truncated.startswith(BUDGET):
            raise BudgetReached(done.truncated)
        return self._read(configuration, done, repeats=repeats)

    def _note_paid(self, judge: Judge, done: Evaluation | None) -> None:
        """Write down what a judge was paid that no journal keeps the books of."""
        if done is None or judge.model_judge:
            return
        asked = done.calls[~done.calls["cached"].astype(bool)]
        costs = pd.to_numeric(asked["cost_usd"], errors="coerce")
        paid = Paid(calls=len(asked), unknown=int(costs.isna().sum()), micro=round(1e6 * costs.sum()))
        self.trials.study.set_user_attr(f"{PAID}{done.run_id}", asdict(paid))

    def _read(self, configuration: Configuration, done: Evaluation, *, repeats: int) -> TrialResult:
        policy = configuration.policy
        decisions = item_decisions(done.calls, vote=policy.vote, orders=policy.orders, replicates=policy.replicates)
        counted = tally(decisions, labels=done.suite.labels)
        each = usd_per_call(done.calls)
        n_calls = policy.calls_per_judgment(pair=self.trials.pair)
        # Twelve digits: sums of floats in another order must not make one of two equal prices the dearer.
        usd = None if each is None else float(f"{1000 * n_calls * each:.12g}")
        composite = reliability(counted, seed=self.seed)
        readings = {RELIABILITY: composite, **parts(counted, seed=self.seed)}
        points = sweep_points(readings, usd_per_1k=usd, calls_per_judgment=n_calls)
        with self.store.errors("The evaluation is logged; its choices are not. The same sweep again logs them."):
            choices = keys.grouped_params({"choice": configuration.params})
            self.store.log_batch(done.run_id, points=points, params=choices)
        metrics = {**keys.without_partial(done.metrics), **keys.last_values(points)}
        metrics |= {} if isinstance(composite, NotEstimable) else {RELIABILITY: composite.value}
        metrics |= {} if usd is None else {COST: usd}
        whole = done.truncated is None
        if whole and RELIABILITY in self.space.objectives and isinstance(composite, NotEstimable):
            raise RecipeError(f"No reliability: {composite.reason}.")
        # A trial that was stopped has what it has; one that was asked to its end must have every metric.
        values = {name: picked(metrics, name) for name in self.space.metrics if whole or name in metrics}
        return TrialResult(
            key=configuration.key,
            run_id=done.run_id,
            tally=counted,
            usd_per_1k=usd,
            n_calls=int((~done.calls["cached"].astype(bool)).sum()),
            repeats=repeats,
            truncated=done.truncated,
            values=values,
            feasible=whole and all(limit.excess(values[limit.metric]) <= 0 for limit in self.space.limits),
            operating=operating_counts(done.calls),
            simulated=done.judge.simulated,
        )


def run_trial(
    context: SweepContext,
    trial: Trial,
    configuration: Configuration,
    *,
    early_stop: bool,
    keep_micro: int = 0,
    afford: StopRule | None = None,
) -> Sequence[float]:
    """Measure the configuration of a trial on the searched half; return its objectives.

    Args:
        context: The sweep.
        trial: Of the study.
        configuration: Its choices.
        early_stop: Whether it ends once it is dominated with confidence.
        keep_micro: What it must leave of the cap.
        afford: Ends it when it would not come to its end with the money there is.

    Raises:
        TrialFailed: The configuration cannot be measured.
        optuna.TrialPruned: It is dominated with confidence.
        BudgetReached: The cap is spent.
    """
    import optuna

    space = context.space
    try:
        judge = resolve_judge(space.make_judge(configuration))
        rules = [_stop_rule(context, configuration, judge) if early_stop else None, afford]
        result = context.measure(
            configuration,
            context.search,
            stage="search",
            judge=judge,
            stop=_first_of([rule for rule in rules if rule is not None]),
            trial=trial.number,
            keep_micro=keep_micro,
        )
    except (JudgeError, RecipeError, SuiteError) as error:
        raise TrialFailed(context.why(error)) from error
    except BudgetReached as reason:
        trial.set_user_attr(STOPPED, str(reason))
        raise
    trial.set_user_attr(RESULT, result.to_dict())
    if result.truncated and result.truncated.startswith(DOMINATED):
        raise optuna.TrialPruned(result.truncated)
    if result.truncated:
        raise TrialFailed(result.truncated)
    for limit in space.limits:
        trial.set_constraint(str(limit), limit.excess(result.values[limit.metric]))
    return [result.values[name] for name in space.objectives]


def completed(trials: Trials) -> dict[str, TrialResult]:
    """Configuration to what it measured, of the trials that were measured in full."""
    return {
        key: TrialResult.from_dict(trial.user_attrs[RESULT])
        for key, trial in trials.measured().items()
        if trial.state.name == "COMPLETE" and RESULT in trial.user_attrs
    }


def _stop_rule(context: SweepContext, configuration: Configuration, judge: Judge) -> DominatedStop | None:
    """Return the rule, where the objectives are reliability against cost and there is somebody to lose against."""
    if not is_map(context.space.objectives):
        return None
    rivals = [
        Rival(label=context.trials.by_key[result.key].label, value=result.tally.value, usd_per_1k=result.usd_per_1k)
        for result in completed(context.trials).values()
        if result.feasible and result.usd_per_1k is not None
    ]
    # The rule must see the items that will be asked, in that order: its bound is about this sample of them.
    judge.begin(context.search)
    items = [item for item in item_order(context.search, context.seed) if judge.covers(item)]
    return DominatedStop(items=items, policy=configuration.policy, rivals=rivals) if rivals else None


def _first_of(rules: Sequence[StopRule]) -> StopRule | None:
    """Tell every rule about each record; the first reason ends the trial."""

    def stop(record: CallRecord) -> str | None:
        return next((reason for reason in [rule(record) for rule in rules] if reason), None)

    return stop if rules else None


def usd_per_call(calls: pd.DataFrame) -> float | None:
    """Mean dollars of the calls that were answered; None when the price of one of them is unknown.

    A call that failed for good has no bill to read, and would not be made again in use.
    """
    answered = calls[calls["outcome"].isin(USABLE)]
    costs = pd.to_numeric(answered["cost_usd"], errors="coerce")
    return None if answered.empty or bool(costs.isna().any()) else float(costs.mean())
