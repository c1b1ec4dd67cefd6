"""What follows the search of a sweep, and the money of all its stages.

After the search come replicates where the front is undecided, and the front on the held-out half. The held-out half's
share of a cap is set aside before the search spends it.

The cap is one budget of the journal, whoever spends from it. A trial starts when the cap covers, at their worst, its
own calls on the searched half, and the held-out half of every configuration that may end on the front: of those
measured in full and not held out yet, of those that others run, and its own. The search is given the cap less the
latter sum. When that is not so, what is owed to the held-out half is measured at once: it costs less than its worst,
and the rest is free again. What never fits at its worst is tried at last, the cheapest first: beside others at what
calls turned out to cost, or alone, with all that is left split between its halves in the ratio of their worst cases.

What is set aside is no entry of its own that a killed process could leave behind: it follows from the study (claims of
the trials that run, results, what is held out) and from what the journal has spent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jrh_mlflow.engine.budget import BUDGET, Paid, paid_from
from jrh_mlflow.errors import BudgetError, JudgeError, RecipeError, SuiteError
from jrh_mlflow.measuring.resolve import Prepared, journal_at, prepare
from jrh_mlflow.models.prices import (
    BYTES_PER_TOKEN,
    MESSAGE_OVERHEAD_TOKENS,
    REQUEST_OVERHEAD_TOKENS,
    SCHEMA_OVERHEAD_TOKENS,
)
from jrh_mlflow.schema.items import CallRecord
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.sweeps.front import UNDECIDED, has_map, on_front, probabilities
from jrh_mlflow.sweeps.result import Findings
from jrh_mlflow.sweeps.space import Configuration
from jrh_mlflow.sweeps.study import CLAIM, JOURNALLED, PAID, RESULT, STOPPED, Trials, TrialSkipped
from jrh_mlflow.sweeps.trials import BudgetReached, SweepContext, TrialResult, completed

if TYPE_CHECKING:
    from optuna import Trial
    from optuna.trial import FrozenTrial

Room = Callable[[Configuration, TrialResult, int], "int | None"]
"""Says of a configuration and its next number of replicates what refining must leave of the cap; None for no room."""


_OVERHEAD = REQUEST_OVERHEAD_TOKENS + SCHEMA_OVERHEAD_TOKENS + 2 * MESSAGE_OVERHEAD_TOKENS
_ENOUGH = 20
"""Answers that tell what a call of a trial costs."""
_MARGIN = 1.5
"""Replicates cost this much more than the first ones did, at most."""


def refine(context: SweepContext, findings: Findings, *, max_replicates: int, room: Room = lambda *_: 0) -> None:
    """Double the replicates of configurations whose membership of the front is undecided; results are replaced.

    It ends when all are decided, at `max_replicates`, when it has made as many calls as the results before it, and
    for a configuration when the cap has no room for it.
    """
    results, configurations = findings.search, context.trials.by_key
    if not has_map(results.values(), context.space.objectives):
        return
    # Refining asks about as much as the search did, at most.
    allowance = sum(result.n_calls for result in results.values())
    while True:
        shares = probabilities(results.values(), seed=context.seed)
        undecided = [
            key
            for key, share in shares.items()
            if UNDECIDED[0] < share < UNDECIDED[1]
            and key not in findings.unrefined
            and 2 * results[key].repeats * configurations[key].policy.replicates <= max_replicates
        ]
        if not undecided:
            return
        # Nearest to even odds first: there a replicate can change most.
        for key in sorted(undecided, key=lambda key: abs(shares[key] - 0.5)):
            if allowance <= 0:
                return
            refined = _refined(context, configurations[key], results[key], room=room)
            if refined is None:
                findings.unrefined.add(key)
                continue
            results[key] = refined
            allowance -= refined.n_calls


def _refined(
    context: SweepContext, configuration: Configuration, result: TrialResult, *, room: Room
) -> TrialResult | None:
    repeats = 2 * result.repeats
    if (known := kept_results(context, "refine", configuration).get(repeats)) is not None:
        return known
    keep_micro = room(configuration, result, repeats)
    if keep_micro is None:
        return None
    try:
        return _measured(context, configuration, stage="refine", repeats=repeats, keep_micro=keep_micro)
    except BudgetReached as reason:
        if reason.is_overrun:
            raise
        return None


def front_candidates(context: SweepContext, results: Mapping[str, TrialResult]) -> list[str]:
    """Return the configurations on the front and those that may be on it, the most reliable first."""
    objectives = context.space.objectives
    mapped = has_map(results.values(), objectives)
    shares = probabilities(results.values(), seed=context.seed) if mapped else {}
    members = {result.key for result in on_front(results.values(), objectives)}
    keys = [key for key in results if key in members or shares.get(key, 0.0) > UNDECIDED[0]]
    return sorted(keys, key=lambda key: -results[key].tally.value)


def hold_out(
    context: SweepContext, findings: Findings, *, only: Collection[str] | None = None, asking: bool = True
) -> None:
    """Measure the front, and those that may be on it, on the held-out half.

    Each with as many replicates as the search gave it, so that the two halves are alike; where the cap has no room for
    that, what was measured with fewer stays. Without `asking` only what the study has kept is read; `only` leaves the
    others to a later call.
    """
    for key in front_candidates(context, findings.search):
        if only is not None and key not in only:
            continue
        configuration, repeats = context.trials.by_key[key], findings.search[key].repeats
        # A sweep that goes on pays for nothing that an earlier one measured.
        known = kept_results(context, "holdout", configuration)
        if known and (repeats in known or not asking):
            findings.holdout[key] = known.get(repeats, known[max(known)])
        elif asking:
            _hold_out_one(context, findings, configuration, repeats=repeats, known=known)


def _hold_out_one(
    context: SweepContext,
    findings: Findings,
    configuration: Configuration,
    *,
    repeats: int,
    known: Mapping[int, TrialResult],
) -> None:
    key = configuration.key
    try:
        findings.holdout[key] = _measured(context, configuration, stage="holdout", repeats=repeats)
        for left_out in (findings.unpaid, findings.failed):
            left_out.pop(key, None)
    except (JudgeError, RecipeError, SuiteError) as error:
        findings.failed[key] = context.why(error)
    except BudgetReached as reason:
        if reason.is_overrun:
            raise
        if known:
            findings.holdout[key] = known[max(known)]
        else:
            findings.unpaid[key] = str(reason)


def kept_results(context: SweepContext, stage: str, configuration: Configuration) -> dict[int, TrialResult]:
    """Return what the study has of a configuration in a later stage, by its repeats."""
    begin = f"jrh:{stage}:{configuration.key}:"
    attributes = context.trials.study.user_attrs
    return {
        int(name.removeprefix(begin)): TrialResult.from_dict(data)
        for name, data in attributes.items()
        if name.startswith(begin)
    }


def _measured(
    context: SweepContext, configuration: Configuration, *, stage: str, repeats: int, keep_micro: int = 0
) -> TrialResult:
    """Measure a configuration in a later stage, and let the study keep it."""
    suite = context.search if stage == "refine" else context.holdout
    result = context.measure(configuration, suite, stage=stage, repeats=repeats, keep_micro=keep_micro)
    # In the study, where other processes and the next sweep find it.
    context.trials.study.set_user_attr(f"jrh:{stage}:{configuration.key}:{repeats}", result.to_dict())
    return result


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """What measuring a configuration on one half takes; what the journal answers costs nothing."""

    calls: int = 0
    """Records to come that must be paid."""
    worst_micro: int = 0
    least_micro: int = 0
    """With prompts of four bytes a token and hardly an answer, plus the room that one call needs in flight."""

    def __add__(self, other: Need) -> Need:
        return Need(
            calls=self.calls + other.calls,
            worst_micro=self.worst_micro + other.worst_micro,
            least_micro=self.least_micro + other.least_micro,
        )


def prepared(context: SweepContext, configuration: Configuration, half: Suite, *, repeats: int = 1) -> Prepared:
    """Make a configuration ready for a half of the suite, without loading or asking anything."""
    names = ("journal", "prices", "fresh_after", "backend", "tracking_uri")
    return prepare(
        context.space.make_judge(configuration),
        half,
        replicates=configuration.policy.replicates * repeats,
        **{name: context.options[name] for name in names if name in context.options},
    )


def need_of(prepared: Prepared) -> Need:
    """Render every call of an evaluation, and price those that the journal does not answer."""
    quote = prepared.quote()
    unpaid = quote.calls - quote.journalled
    if not unpaid:
        return Need()
    worst = round(1e6 * (quote.worst_usd or 0.0))
    # Of the prompts alone: what an estimate adds for templates and schemas may not be billed.
    tokens = max(0, quote.input_tokens - unpaid * _OVERHEAD // BYTES_PER_TOKEN)
    least = round(1e6 * tokens * (prepared.price.input_usd if prepared.price else 0.0))
    # A pointwise judge of pairs sends two requests for a record.
    records = -(-prepared.n_calls * unpaid // quote.calls)
    return Need(calls=records, worst_micro=worst, least_micro=min(worst, least + -(-worst // unpaid)))


@dataclass(kw_only=True)
class Affordable:
    """A stop rule: ends a trial that would not come to its end with its share, once answers tell what a call costs."""

    share_micro: int
    least_micro: int
    """What the trial takes at least, as it was thought."""
    n_calls: int
    projected_micro: float = 0.0
    """What the whole trial would cost."""
    _seen: int = 0
    _usd: float = 0.0

    def __call__(self, record: CallRecord) -> str | None:
        """Take a record in; say why the trial should end, or None."""
        if record.cached:
            return None
        self._seen += 1
        self._usd += record.cost_usd or 0.0
        self.projected_micro = 1e6 * self._usd * self.n_calls / self._seen
        if self._seen < min(_ENOUGH, self.n_calls) or self.projected_micro <= self.share_micro:
            return None
        share, whole = dollars_up(self.share_micro), dollars_up(self.projected_micro)
        return f"{BUDGET}: the searched half would take about {whole} of the {share} that it has"


@dataclass(kw_only=True)
class SweepMoney:
    """Lets trials start while the cap covers them and the held-out half of what they find."""

    context: SweepContext
    is_patient: bool = False
    """Whether only what fits at its worst is started; the rest is tried in a second pass."""
    _holdout: dict[str, Need] = field(default_factory=dict)
    """Configuration to what its held-out half takes, at most: others may have answered some of it since."""
    _both: dict[str, Need] = field(default_factory=dict)
    """Configuration to what its two halves take."""
    _unpaid: set[str] = field(default_factory=set)
    """Configurations that the cap could not hold out."""
    _dearness: float = 1.0
    """How many times its least need a trial took that had to be given up."""

    def need(self, configuration: Configuration, half: Suite, *, repeats: int = 1) -> Need:
        """Price what is left to ask of a configuration on a half."""
        return need_of(prepared(self.context, configuration, half, repeats=repeats))

    def spent_micro(self) -> int:
        """Return what all stages and processes have spent so far."""
        with journal_at(self.context.options.get("journal")) as journal:
            return journal.spent_micro(self.context.budget)

    def admit(self, trial: Trial, configuration: Configuration) -> tuple[int, Affordable | None]:
        """Return what the search must leave of the cap, and a rule that ends it in time; waits for those before it.

        Raises:
            TrialSkipped: There is no room for the configuration.
        """
        trials, cap = self.context.trials, self.context.cap_micro
        while cap is not None:
            # Those that came first have the first claim; without an order two could take the same money.
            others = trials.before(trial)
            if not all(CLAIM in other.user_attrs for other in others):
                trials.wait()
                continue
            owed = self._owed()
            set_aside = sum(need.worst_micro for need in owed.values()) + _claimed(others, "holdout")
            # Read anew on every round: other processes spend from the same cap.
            room = cap - self.spent_micro() - set_aside - _claimed(others, "search")
            search, holdout = (self.need(configuration, half) for half in (self.context.search, self.context.holdout))
            self._holdout[configuration.key], self._both[configuration.key] = holdout, search + holdout
            worst, freed = search.worst_micro + holdout.worst_micro, sum(need.worst_micro for need in owed.values())
            # Early enough, and no earlier: what is held out now may be off the front in the end.
            if owed and worst > room and (worst <= room + freed or not self.is_patient):
                self._hold_out(owed)
                continue
            for share in (1.0,) if self.is_patient or not others else (1.0, self._rate()):
                searched, kept_back = round(share * search.worst_micro), round(share * holdout.worst_micro)
                if searched + kept_back <= room:
                    _claim(trial, searched, kept_back, search)
                    return set_aside + kept_back, None
            if self.is_patient or not others:
                return self._split(trial, configuration, room, search, holdout)
            trials.wait()
        return 0, None

    def _rate(self) -> float:
        """Return the largest mean share of its worst case that calls took, with a margin; 1 before that is known."""
        trials, rates = self.context.trials, [1 / _MARGIN]
        for key, trial in trials.measured().items():
            worst, data = trial.user_attrs.get(CLAIM, {}).get("worst_call"), trial.user_attrs.get(RESULT)
            if worst and data and data["usd_per_1k"] is not None:
                rates.append(_per_call(trials, trials.by_key[key], data["usd_per_1k"]) / worst)
        return min(1.0, _MARGIN * max(rates[1:] or rates))

    def _split(
        self, trial: Trial, configuration: Configuration, room: int, search: Need, holdout: Need
    ) -> tuple[int, Affordable]:
        """Split what is left between the halves of one configuration."""
        both = search + holdout
        if self.is_patient or self._dearness * both.least_micro > room:
            reason = _no_room(both, room, self.context.cap_micro or 0)
            trial.set_user_attr(STOPPED, reason)
            self.context.trials.skipped[configuration.key] = reason
            raise TrialSkipped(reason)
        share = room * holdout.worst_micro // both.worst_micro
        _claim(trial, room - share, share, search)
        return share, Affordable(share_micro=room - share, n_calls=search.calls, least_micro=search.least_micro)

    def give_up(self, configuration: Configuration, reason: str, afford: Affordable | None) -> None:
        """Leave a configuration out that the cap ended in the middle, and learn from what it would have cost."""
        self.context.trials.skipped[configuration.key] = reason
        if afford is not None and afford.projected_micro > afford.share_micro:
            self._dearness = max(self._dearness, afford.projected_micro / afford.least_micro)

    def _owed(self) -> dict[str, Need]:
        """Return what the held-out half takes of those that may be on the front and were not held out yet."""
        results, configurations = completed(self.context.trials), self.context.trials.by_key
        owed = {}
        for key in front_candidates(self.context, results):
            if key in self._unpaid or kept_results(self.context, "holdout", configurations[key]):
                continue
            if key not in self._holdout:
                self._holdout[key] = self.need(configurations[key], self.context.holdout)
            owed[key] = self._holdout[key]
        return owed

    def _hold_out(self, owed: Collection[str]) -> None:
        findings = Findings(search=completed(self.context.trials))
        hold_out(self.context, findings, only=owed)
        # What could not be measured is not waited for again, in this process.
        self._unpaid |= {key for key in owed if key in findings.unpaid or key in findings.failed}

    def refining(self, configuration: Configuration, result: TrialResult, repeats: int) -> int | None:
        """Say what refining a configuration must leave of the cap, or None where there is no room for it."""
        cap = self.context.cap_micro
        if cap is None:
            return 0
        search, holdout = (
            self._usual(self.need(configuration, half, repeats=repeats), configuration, result)
            for half in (self.context.search, self.context.holdout)
        )
        # With more replicates another one may come to the front, and must be held out then.
        others = [need.worst_micro for key, need in self._holdout.items() if not self._is_held_out(key)]
        keep = holdout + max(others, default=0)
        return keep if search + keep <= cap - self.spent_micro() else None

    def _usual(self, need: Need, configuration: Configuration, result: TrialResult) -> int:
        if result.usd_per_1k is None:
            return need.worst_micro
        micro = _per_call(self.context.trials, configuration, result.usd_per_1k)
        return min(need.worst_micro, round(_MARGIN * micro * need.calls))

    def _is_held_out(self, key: str) -> bool:
        return bool(kept_results(self.context, "holdout", self.context.trials.by_key[key]))

    def cheapest_first(self, keys: Collection[str]) -> list[str]:
        """Order configurations by what both halves take at most."""
        return sorted(keys, key=lambda key: self._both[key].worst_micro)

    def check_cap(self, cap_micro: int) -> None:
        """Refuse a cap that does not pay for one configuration on both halves, before anything is asked.

        Raises:
            BudgetError: with what would do.
        """
        trials = self.context.trials
        if trials.measured():
            return
        left, needs = cap_micro - self.spent_micro(), []
        # Policies over the same calls need the same.
        different = {(point.judge_key, point.policy.replicates): point for point in reversed(trials.grid)}
        for configuration in different.values():
            both = self.need(configuration, self.context.search) + self.need(configuration, self.context.holdout)
            if both.least_micro <= left:
                return
            needs.append((both.worst_micro, both, configuration))
        _, cheapest, configuration = min(needs, key=lambda need: need[0])
        least = f"the cheapest is {configuration.label}, and {_no_room(cheapest, left, cap_micro)}"
        raise BudgetError(f"The cap pays for no answer: {least}.")


def _no_room(need: Need, room_micro: int, cap_micro: int) -> str:
    """Say what a configuration takes, what is left, and which cap is sure to do."""
    sure = cap_micro - room_micro + need.worst_micro
    least, worst, left, sure_text = map(dollars_up, (need.least_micro, need.worst_micro, max(0, room_micro), sure))
    return (
        f"it takes {least} to {worst} for the searched and the held-out half together, and "
        f"{left} is left; a cap of {sure_text} is sure to do"
    )


def dollars_up(micro: float) -> str:
    """Write micro-dollars to four places, rounded up: what is told to do must do."""
    return f"${math.ceil(micro / 100) / 10_000:.4f}"


def paid_by(context: SweepContext, *, is_priced: bool) -> Paid:
    """Add up what every stage, trial and process of a sweep has paid, stopped, failed and killed ones included."""
    attributes = context.trials.study.user_attrs
    paid = sum((Paid(**data) for name, data in attributes.items() if name.startswith(PAID)), Paid())
    if JOURNALLED in attributes:
        with journal_at(context.options.get("journal")) as journal:
            paid += paid_from(journal, context.budget, is_priced=is_priced)
    return paid


def _claim(trial: Trial, search_micro: int, holdout_micro: int, need: Need) -> None:
    worst_call = need.worst_micro / need.calls if need.calls else None
    trial.set_user_attr(CLAIM, {"search": search_micro, "holdout": holdout_micro, "worst_call": worst_call})


def _per_call(trials: Trials, configuration: Configuration, usd_per_1k: float) -> float:
    """Return the micro-dollars of a call of a configuration that was measured."""
    return 1e3 * usd_per_1k / configuration.policy.calls_per_judgment(pair=trials.pair)


def _claimed(trials: Sequence[FrozenTrial], half: str) -> int:
    return sum(int(trial.user_attrs[CLAIM][half]) for trial in trials)
