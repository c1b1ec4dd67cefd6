"""What follows the search of a sweep: replicates where the front is undecided, and the front on the held-out half."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from jrh_mlflow.errors import JudgeError, RecipeError, SuiteError
from jrh_mlflow.sweeps.front import UNDECIDED, has_map, on_front, probabilities
from jrh_mlflow.sweeps.result import Findings
from jrh_mlflow.sweeps.space import Configuration
from jrh_mlflow.sweeps.trials import BudgetReached, SweepContext, TrialResult

Room = Callable[[Configuration, TrialResult, int], "int | None"]
"""Says of a configuration and its next number of replicates what refining must leave of the cap; None for no room."""


def refine(context: SweepContext, findings: Findings, *, max_replicates: int, room: Room = lambda *_: 0) -> None:
    """Double the replicates of configurations whose membership of the front is undecided; results are replaced.

    It ends when all are decided, at `max_replicates`, when it has made as many calls as the results before it, and
    for a configuration when the cap has no room for it.
    """
    results, configurations = findings.search, context.trials.by_key
    if not has_map(results.values(), context.space.objectives):
        return
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


def candidates(context: SweepContext, results: Mapping[str, TrialResult]) -> list[str]:
    """Return the configurations on the front and those that may be on it, the most reliable first."""
    objectives = context.space.objectives
    mapped = has_map(results.values(), objectives)
    shares = probabilities(results.values(), seed=context.seed) if mapped else {}
    members = {result.key for result in on_front(results.values(), objectives)}
    found = [key for key in results if key in members or shares.get(key, 0.0) > UNDECIDED[0]]
    return sorted(found, key=lambda key: -results[key].tally.value)


def hold_out(
    context: SweepContext, findings: Findings, *, only: Collection[str] | None = None, asking: bool = True
) -> None:
    """Measure the front, and those that may be on it, on the held-out half.

    Each with as many replicates as the search gave it, so that the two halves are alike; where the cap has no room for
    that, what was measured with fewer stays. Without `asking` only what the study has kept is read; `only` leaves the
    others to a later call.
    """
    for key in candidates(context, findings.search):
        if only is not None and key not in only:
            continue
        configuration, repeats = context.trials.by_key[key], findings.search[key].repeats
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
    context.trials.study.set_user_attr(f"jrh:{stage}:{configuration.key}:{repeats}", result.to_dict())
    return result
