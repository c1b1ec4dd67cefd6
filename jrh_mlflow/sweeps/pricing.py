"""What a sweep would cost, before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jrh_mlflow.engine import count_calls
from jrh_mlflow.engine.budget import Quote
from jrh_mlflow.evaluation.evaluate import price_evaluation
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.resolve import as_suite, ready_judge, resolve_judge
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.sweeps.metric_names import check_names
from jrh_mlflow.sweeps.refine import halves
from jrh_mlflow.sweeps.space import Configuration, Space, as_space

_JUDGE = ("model", "prompt", "tie_criterion", "temperature", "rubric")


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

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return asdict(self)


def price_sweep(
    space: Space | Mapping[str, Any] | str | Path,
    suite: Suite | str | Path | None = None,
    *,
    n_trials: int | None = None,
    seed: int = 0,
    journal: Any = None,
    prices: Any = None,
    tracking_uri: str | None = None,
) -> SweepQuote:
    """Price the whole grid and `n_trials` of it on the searched half, rendering every call but sending none.

    Stops make a sweep cheaper; replicates for an undecided front and the held-out half make it dearer, at most by as
    many calls as the search itself makes and by the front's own calls.
    """
    chosen, on = as_space(space, tracking_uri=tracking_uri), as_suite(suite, tracking_uri=tracking_uri)
    pair = any(item.kind == "pair" for item in on.items)
    search, holdout = halves(on, seed=seed)
    check_names(chosen, search)
    grid = chosen.configurations(pair=pair, seed=seed)
    judges = _judges(chosen, grid)
    quotes = [_quoted(chosen, one, search, journal=journal, prices=prices) for one in judges.values()]
    n_trials = min(n_trials or len(grid), len(grid))
    # Sampled configurations may be those of the dearest judges, each asked once with the most replicates.
    some = sorted(quotes, key=lambda one: one.worst_usd or 0.0, reverse=True)[:n_trials]
    most = max(judges.values(), key=lambda one: one.policy.replicates)
    asked = resolve_judge(chosen.make_judge(most))
    return SweepQuote(
        configurations=len(grid),
        judges=len(judges),
        n_trials=n_trials,
        grid_calls=sum(one.calls for one in quotes),
        trials_calls=sum(one.calls for one in some),
        holdout_calls_each=count_calls(holdout, asked, replicates=most.policy.replicates),
        grid_usd=_total(one.usd for one in quotes),
        grid_worst_usd=_total(one.worst_usd for one in quotes),
        trials_usd=_total(one.usd for one in some),
        trials_worst_usd=_total(one.worst_usd for one in some),
    )


def _judges(space: Space, grid: list[Configuration]) -> dict[tuple[str, ...], Configuration]:
    """Return one configuration per judge, the one with the most replicates."""
    names = [name for name in space.axes if name in _JUDGE or name in space.choices]
    found: dict[tuple[str, ...], Configuration] = {}
    for one in grid:
        key = tuple(one.params[name] for name in names)
        if key not in found or one.policy.replicates > found[key].policy.replicates:
            found[key] = one
    return found


def _quoted(space: Space, one: Configuration, suite: Suite, *, journal: Any, prices: Any) -> Quote:
    judge = resolve_judge(space.make_judge(one))
    replicates = one.policy.replicates
    if isinstance(judge, PromptedJudge):
        return price_evaluation(judge, suite, replicates=replicates, journal=journal, prices=prices)
    asked, on = ready_judge(judge, suite)
    calls = count_calls(on, asked, replicates=replicates)
    return Quote(calls=calls, journalled=0, input_tokens=0, output_tokens=0, usd=None, worst_usd=None)


def _total(amounts: Any) -> float | None:
    known = list(amounts)
    return None if any(one is None for one in known) else float(sum(known))
