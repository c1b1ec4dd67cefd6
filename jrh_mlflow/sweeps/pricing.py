"""What a sweep would cost, counted and priced before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jrh_mlflow.engine import count_calls
from jrh_mlflow.engine.sessions import Quote
from jrh_mlflow.resolve import prepare, resolve_judge, resolve_suite
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.sweeps.goals import check_names
from jrh_mlflow.sweeps.space import Configuration, Space, as_space
from jrh_mlflow.sweeps.sweep import AnySpace, halves


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
    space: AnySpace,
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
    space, suite = as_space(space, tracking_uri=tracking_uri), resolve_suite(suite, tracking_uri=tracking_uri)
    search, holdout = halves(suite, seed=seed)
    check_names(space.metrics, search, replicates=max(space.replicates))
    grid = space.configurations(pair=any(item.kind == "pair" for item in suite.items), seed=seed)
    judges = _judges(grid)
    quotes = [_quoted(space, configuration, search, journal=journal, prices=prices) for configuration in judges]
    n_trials = min(n_trials or len(grid), len(grid))
    # Sampled configurations may be those of the dearest judges, each asked once with the most replicates.
    dearest = sorted(quotes, key=lambda quote: quote.worst_usd or 0.0, reverse=True)[:n_trials]
    most = max(judges, key=lambda one: one.policy.replicates)
    return SweepQuote(
        configurations=len(grid),
        judges=len(judges),
        n_trials=n_trials,
        grid_calls=sum(quote.calls for quote in quotes),
        trials_calls=sum(quote.calls for quote in dearest),
        holdout_calls_each=count_calls(
            holdout, resolve_judge(space.make_judge(most)), replicates=most.policy.replicates
        ),
        grid_usd=_total(quote.usd for quote in quotes),
        grid_worst_usd=_total(quote.worst_usd for quote in quotes),
        trials_usd=_total(quote.usd for quote in dearest),
        trials_worst_usd=_total(quote.worst_usd for quote in dearest),
    )


def _judges(grid: list[Configuration]) -> list[Configuration]:
    """Return one configuration per judge, the one with the most replicates."""
    found: dict[tuple[tuple[str, str], ...], Configuration] = {}
    for configuration in grid:
        known = found.get(configuration.judge_key)
        if known is None or configuration.policy.replicates > known.policy.replicates:
            found[configuration.judge_key] = configuration
    return list(found.values())


def _quoted(space: Space, configuration: Configuration, suite: Suite, *, journal: Any, prices: Any) -> Quote:
    judge, replicates = space.make_judge(configuration), configuration.policy.replicates
    return prepare(judge, suite, replicates=replicates, journal=journal, prices=prices, dry=True).quote()


def _total(amounts: Iterable[float | None]) -> float | None:
    total = 0.0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total
