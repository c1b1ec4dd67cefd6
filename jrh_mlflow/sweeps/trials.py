"""One configuration measured: an `evaluate` run nested under the sweep's, read through the configuration's policy.

A trial is stopped as soon as it is dominated with confidence, looked at after every item. Items are asked in random
order. After n of them the composite that the whole suite would give is at most

    U = sum over cells of weight × upper end of `suite_bounds(hits, n, size)` at alpha / cells,

whenever one looks (a confidence sequence), so a trial is dropped wrongly with a chance of at most alpha. Wrongly means:
the whole suite would have put it at or above the rival. Decisions without a usable answer count as hits in U.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from jrh_mlflow.comparing.criterion_shift import operating_counts
from jrh_mlflow.engine.budget import BUDGET, Paid
from jrh_mlflow.engine.calls import item_order
from jrh_mlflow.engine.interrupts import say
from jrh_mlflow.engine.runner import StopRule
from jrh_mlflow.errors import BudgetError, JudgeError, RecipeError, SuiteError
from jrh_mlflow.judges import Judge
from jrh_mlflow.measures.composite import (
    Tally,
    Vote,
    ability_tally,
    cast_vote,
    cell_weights,
    decision_of,
    item_decisions,
    pair_cell,
    pair_hit,
    parts,
    reliability,
    tally,
)
from jrh_mlflow.measuring.evaluate import evaluate
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.measuring.resolve import resolve_judge
from jrh_mlflow.perturb.registry import counted_once, expectation_of, score_name
from jrh_mlflow.schema.estimates import NotEstimable
from jrh_mlflow.schema.items import BASELINE, USABLE, CallRecord, Item
from jrh_mlflow.scoring.pointwise import plain_label
from jrh_mlflow.stats.proportions import suite_bounds
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.sweeps.space import COST, RELIABILITY, Configuration, Policy, Space, is_map, picked
from jrh_mlflow.sweeps.study import JOURNALLED, PAID, RESULT, STOPPED, TrialFailed, Trials
from jrh_mlflow.sweeps.sweep_view import sweep_points
from jrh_mlflow.text import hashed, two_places
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import Store

if TYPE_CHECKING:
    from optuna import Trial


TAG_TRIAL, _TAG_CONFIGURATION = "jrh.trial", "jrh.configuration"
"""Tags of the run of a trial."""
ALPHA = 0.05
DOMINATED = "dominated"
"""How the reason of a stop begins."""


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
    ability: Tally | None = None
    """Decisions on the two largest steps of a ladder, ties as half; None without a ladder."""
    simulated: bool = False

    def __repr__(self) -> str:
        return f"TrialResult({self.key!r}: {self.n_calls:,} calls, run {self.run_id[:8]})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {**vars(self), "tally": self.tally.to_dict(), "ability": self.ability and self.ability.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TrialResult:
        """Read what `to_dict` wrote."""
        ability = data["ability"] and Tally.from_dict(data["ability"])
        return cls(**{**data, "tally": Tally.from_dict(data["tally"]), "ability": ability})


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
        tags = {keys.TAG_STAGE: stage, _TAG_CONFIGURATION: configuration.key}
        tags |= {} if trial is None else {TAG_TRIAL: str(trial)}
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
        paid_calls = done.calls[~done.calls["cached"].astype(bool)]
        costs = pd.to_numeric(paid_calls["cost_usd"], errors="coerce")
        paid = Paid(calls=len(paid_calls), unknown=int(costs.isna().sum()), micro=round(1e6 * costs.sum()))
        self.trials.study.set_user_attr(f"{PAID}{done.run_id}", asdict(paid))

    def _read(self, configuration: Configuration, done: Evaluation, *, repeats: int) -> TrialResult:
        policy = configuration.policy
        decisions = item_decisions(done.calls, vote=policy.vote, orders=policy.orders, replicates=policy.replicates)
        counted = tally(decisions, labels=done.suite.labels)
        usd_each = usd_per_call(done.calls)
        n_calls = policy.calls_per_judgment(pair=self.trials.pair)
        # Twelve digits: sums of floats in another order must not make one of two equal prices the dearer.
        usd = None if usd_each is None else float(f"{1000 * n_calls * usd_each:.12g}")
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
        values = {name: picked(metrics, name, done.withheld) for name in self.space.metrics if whole or name in metrics}
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
            ability=ability_tally(decisions),
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Rival:
    """A configuration that was measured in full on the same items."""

    label: str
    value: float
    usd_per_1k: float


@dataclass(kw_only=True)
class DominatedStop:
    """A stop rule of one trial."""

    items: Sequence[Item]
    """In the order in which they are asked."""
    policy: Policy
    rivals: Sequence[Rival]
    alpha: float = ALPHA
    upper: float = 1.0
    """The smallest bound so far."""
    n_items: int = 0
    """Items decided so far, without a gap in their order."""
    _votes: dict[str, list[Vote]] = field(default_factory=dict)
    _hits: Counter[str] = field(default_factory=Counter)
    _seen: Counter[str] = field(default_factory=Counter)
    _usd: float = 0.0
    _calls: int = 0
    _priced: bool = True

    def __post_init__(self) -> None:
        pair = any(item.kind == "pair" for item in self.items)
        cells = [_cell(item) for item in self.items]
        named = sorted({cell for cell in cells if cell is not None and (pair or cell != BASELINE)}) or [BASELINE]
        named = named if pair else counted_once(named)
        self._sizes = {name: cells.count(name) for name in named}
        self._weights = dict(zip(named, cell_weights(named), strict=True))
        self._untracked = {cell for item, cell in zip(self.items, cells, strict=True) if cell and not _tracked(item)}
        self._per_judgment = self.policy.calls_per_judgment(pair=pair)

    def __call__(self, record: CallRecord) -> str | None:
        """Take a record in; say why the trial should end, or None."""
        vote = cast_vote(order=record.order, outcome=record.outcome, answer=record.answer)
        self._votes.setdefault(record.suite_item, []).append(vote)
        self._calls += 1
        self._priced &= record.cost_usd is not None
        self._usd += record.cost_usd or 0.0
        # The bound moves only when an item is decided; most records are the first of several about theirs.
        return self._verdict() if self._advance() else None

    @property
    def usd_per_1k(self) -> float:
        """Dollars of 1,000 judgments, from the mean so far."""
        return 1000 * self._per_judgment * self._usd / self._calls

    def _advance(self) -> bool:
        """Decide the items that are complete, in their order: later ones wait, or quick answers would lead."""
        before = self.n_items
        while self.n_items < len(self.items):
            item = self.items[self.n_items]
            votes = self._votes.get(item.id, [])
            if len(votes) < len(item.orders) * self.policy.replicates * item.replicates:
                break
            self._count(item, self._votes.pop(item.id))
            self.n_items += 1
        return self.n_items > before

    def _count(self, item: Item, votes: list[Vote]) -> None:
        cell = _cell(item)
        if cell not in self._sizes or cell in self._untracked:
            return
        pair = item.kind == "pair"
        made = decision_of(votes, item=item.id, vote=self.policy.vote, orders=self.policy.orders, pair=pair)
        if not made.value:
            # No usable answer speaks for the trial: the bound must hold whatever the answer would have been.
            hit = True
        elif pair:
            hit = pair_hit(cell, made.value, item.better or "")
        else:
            hit = plain_label(made.value) == plain_label(item.expected or "")
        self._hits[cell] += hit
        self._seen[cell] += 1

    def _bound(self) -> float:
        # Cells whose score needs several items together are taken at their best: the bound only gets wider.
        tracked = [cell for cell in self._sizes if cell not in self._untracked]
        total = sum(self._weights[cell] for cell in self._untracked if cell in self._weights)
        for cell in tracked:
            # Bonferroni over the cells: their bounds must hold together for the sum to be one.
            share = self.alpha / len(tracked)
            _, high = suite_bounds(self._hits[cell], self._seen[cell], self._sizes[cell], alpha=share)
            total += self._weights[cell] * high
        return float(total)

    def _verdict(self) -> str | None:
        # The bounds hold at all moments together, so the smallest of them does.
        self.upper = min(self.upper, self._bound())
        # Without a price nobody knows that it is not the cheapest.
        if not self._priced:
            return None
        for rival in self.rivals:
            # What may be equal is not dominated.
            if rival.usd_per_1k <= self.usd_per_1k and rival.value > self.upper:
                return (
                    f"{DOMINATED}: reliability at most {two_places(self.upper)} at ${self.usd_per_1k:.4g} per 1,000, "
                    f"while {rival.label} has {two_places(rival.value)} at ${rival.usd_per_1k:.4g}"
                )
        return None


def _cell(item: Item) -> str | None:
    if item.kind == "pair":
        return pair_cell(item.condition, item.delta)
    # A label that is no ground truth scores nobody.
    scored = not item.label_source or not expectation_of(item.condition).item_by_item
    return score_name(item.condition) if scored else None


def _tracked(item: Item) -> bool:
    """Whether the score of an item is known from that item alone."""
    if item.kind == "pair" or item.replicates > 1:
        return item.replicates == 1
    return expectation_of(item.condition).item_by_item and bool(item.expected)
