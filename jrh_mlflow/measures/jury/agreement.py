"""How alike judges vote: agreement of pairs of judges, and how many independent votes their errors leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from jrh_mlflow.measures.jury.votes import MISSING, VoteTable
from jrh_mlflow.schema.estimates import NotEstimable, Reading
from jrh_mlflow.scoring.ledger import Mask, share
from jrh_mlflow.scoring.values import Array, Resampling, Sample, Statistics, ratio
from jrh_mlflow.stats.agreement import gwet_ac1

_FEATURES = 4
"""Per pair of judges: units with both votes, errors of one, of the other, of both."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """Two judges on the units that both of them answered."""

    a: str
    b: str
    agreement: Reading
    """Share of the units with the same answer; an abstention is an answer."""
    ac1: float | None
    """Gwet's AC1: agreement beyond chance, which does not collapse when one answer is common."""
    error_correlation: float | None
    """Correlation of being wrong, on the units with an expected answer; None when one is always or never wrong."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {
            "a": self.a,
            "b": self.b,
            "agreement": self.agreement.to_dict(),
            "ac1": self.ac1,
            "error_correlation": self.error_correlation,
        }


def agreement_matrix(table: VoteTable, panel: Sequence[str] | None = None) -> tuple[Agreement, ...]:
    """Return the agreement of every two judges, over all units of the table, the baseline and unlabelled ones included.

    A unit that one of the two did not answer is left out and counted, and never withholds the number: agreement is
    read pair by pair.
    """
    return tuple(_agreement(table, a, b) for a, b in combinations(panel or table.judges, 2))


def effective_number(n: int, correlation: float) -> float | None:
    """Kish's effective number `n / (1 + (n - 1) rho)` of n votes whose errors have the mean pairwise correlation rho.

    The mean of n equally variable indicators with mean pairwise correlation rho varies as much as that of so many
    independent ones. n at rho = 0, 1 at rho = 1, and above n when the errors avoid one another (rho < 0).

    Reference:
        Kish (1965), Survey Sampling, section 5.4, with the judges of a unit as the cluster.

    Returns:
        The number, or None when `rho <= -1 / (n - 1)`: no n indicators have such a correlation.

    Example:
        >>> round(effective_number(6, 0.25), 4), effective_number(6, 0.0), effective_number(6, 1.0)
        (2.6667, 6.0, 1.0)
    """
    spread = 1 + (n - 1) * correlation
    return n / spread if spread > 0 else None


def effective_votes(
    table: VoteTable, panel: Sequence[str] | None = None, resampling: Resampling | None = None
) -> dict[str, Reading]:
    """Return `error_correlation`, the mean over pairs of judges, and `effective_votes`: see `effective_number`.

    An error is an answer other than the expected one, an abstention included. The correlation of two judges is taken
    over the units that both answered; what makes an item hard for all is part of it. Intervals resample whole sources.

    Returns:
        Both readings, or why there are none: a judge that is never or always wrong has no correlation with any other.
    """
    names = tuple(panel or table.judges)
    judged = table.where(table.judged)
    cast = judged.answer[:, table.columns(names)]
    voted = cast != MISSING
    wrong = voted & (cast != judged.expected[:, None])
    reason = _reason(names, voted, wrong)
    if reason is not None:
        return {axis: NotEstimable(reason=reason) for axis in ("error_correlation", "effective_votes")}
    pairs = combinations(range(len(names)), 2)
    usable = np.asarray(voted.sum(axis=1) >= 2)
    features = np.hstack([_features(voted, wrong, i, j) for i, j in pairs])[usable]
    left_out = {"too few votes": int((~usable).sum())}
    units = judged.units("units with two or more votes", usable=usable, left_out=left_out, limit=1.0)
    items = np.unique(judged.item, return_inverse=True)[1][usable]
    sample = Sample(units=units, features=features, items=items)
    found = {axis: float(value[0]) for axis, value in _statistics(len(names))(features.sum(axis=0)[None, :]).items()}
    values = {axis: None if np.isnan(value) else value for axis, value in found.items()}
    missing = "two judges share no unit on which both vary, so their errors have no correlation"
    return sample.readings(values, _statistics(len(names)), resampling or Resampling(), without=missing)


def _statistics(n: int) -> Statistics:
    """Sums of features to the mean correlation and the effective number of n votes."""

    def values(sums: Array) -> dict[str, Array]:
        mean = _correlations(sums).mean(axis=1)
        spread = 1 + (n - 1) * mean
        number = ratio(np.full(len(mean), float(n)), np.where(spread > 0, spread, np.nan))
        return {"error_correlation": mean, "effective_votes": number}

    return values


def _reason(names: Sequence[str], voted: Mask, wrong: Mask) -> str | None:
    if len(names) < 2:
        return "one judge has nobody to agree with"
    if not voted.any():
        return "no units with an expected answer"
    silent = [name for name, any_vote in zip(names, np.asarray(voted.any(axis=0)), strict=True) if not any_vote]
    if silent:
        return f"no votes of {', '.join(silent)} on units with an expected answer"
    for what, same in (("never", wrong.sum(axis=0) == 0), ("always", (wrong == voted).all(axis=0))):
        if same.any():
            who = ", ".join(name for name, flag in zip(names, same, strict=True) if flag)
            return f"no variation: {who} {'is' if same.sum() == 1 else 'are'} {what} wrong, which has no correlation"
    return None


def _features(voted: Mask, wrong: Mask, i: int, j: int) -> Array:
    both = voted[:, i] & voted[:, j]
    columns = (both, both & wrong[:, i], both & wrong[:, j], wrong[:, i] & wrong[:, j])
    return np.column_stack(columns).astype(float)


def _correlations(sums: Array) -> Array:
    """Phi of every pair of judges (resamples × pairs) from the sums of their features; NaN without variation."""
    n, one, other, both = (sums[:, place::_FEATURES] for place in range(_FEATURES))
    margins = one * (n - one) * other * (n - other)
    return ratio(n * both - one * other, np.sqrt(margins))


def _agreement(table: VoteTable, a: str, b: str) -> Agreement:
    cast = table.answer[:, table.columns((a, b))]
    usable = np.asarray((cast != MISSING).all(axis=1))
    left_out = {"one vote or none": int((~usable).sum())}
    units = table.units(f"units answered by {a} and {b}", usable=usable, left_out=left_out, limit=1.0)
    same = np.asarray(cast[:, 0] == cast[:, 1])
    agreement: Reading = share(units, same) if usable.any() else NotEstimable(reason=f"{a} and {b} share no unit")
    used = cast[usable].astype(float)
    categories = max(2, table.abstain + int((used == table.abstain).any()))
    return Agreement(
        a=a,
        b=b,
        agreement=agreement,
        ac1=gwet_ac1(used, n_categories=categories) if usable.any() else None,
        error_correlation=_pair_correlation(table, a, b),
    )


def _pair_correlation(table: VoteTable, a: str, b: str) -> float | None:
    judged = table.where(table.judged)
    cast = judged.answer[:, table.columns((a, b))]
    voted = cast != MISSING
    wrong = voted & (cast != judged.expected[:, None])
    phi = float(_correlations(_features(voted, wrong, 0, 1).sum(axis=0)[None, :])[0, 0])
    return None if np.isnan(phi) else phi
