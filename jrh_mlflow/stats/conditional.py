"""Conditional logistic regression: what differs within a stratum, with the stratum's own level left out.

An answer y of stratum s with terms x has P(y = 1) = logistic(q_s + x·b). Given how many ones a stratum has, q_s drops
out: with m ones the stratum's likelihood is exp(Σ y x·b) / e_m(exp(x·b)), e_m the elementary symmetric polynomial.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import comb, expit

from jrh_mlflow.stats import Array, Codes, Interval
from jrh_mlflow.stats.proportions import t_quantile

_LEAST_INFORMATION = 1e-6
"""Below it a term is a sum of the others, or constant within every stratum."""
_MOST_STEPS, _CONVERGED = 100, 1e-8


@dataclass(frozen=True, kw_only=True)
class ConditionalFit:
    """The first term of a fit, the others adjusted for."""

    value: float
    """Log-odds."""
    error: float
    """The larger of the jackknife's by cluster and the model's own: where answers are all alike the first vanishes."""
    model_error: float
    """As if all answers were independent."""
    n_clusters: int
    """With a stratum that says something: its answers differ, and so does the first term."""

    def interval(self, level: float = 0.95, *, clustered: bool = True) -> Interval:
        """Return Student's interval with a degree of freedom less than there are clusters."""
        reach = t_quantile(self.n_clusters - 1, level) * (self.error if clustered else self.model_error)
        return self.value - reach, self.value + reach


def conditional_logistic(scores: Array, terms: Array, strata: Codes, clusters: Codes) -> ConditionalFit | None:
    """Fit by penalised conditional likelihood; None where the first term is not told by what differs within strata.

    A score of ½ is a tie: the likelihood is the mean over both ways to break it. Each term has the penalty log F(1, 1)
    (Greenland and Mansournia 2015, doi:10.1002/sim.6537), half an answer each way, so that an estimate stays finite.
    Errors are those of the jackknife by cluster, in one Newton step each.

    Args:
        scores: 0, ½ or 1 for each answer.
        terms: A row for each answer; the first column is what is estimated.
        strata: Of each answer.
        clusters: Of each answer, the same for all of a stratum: what was sampled together.

    Example:
        >>> scores, strata = np.array([1, 0] * 30 + [0, 1] * 10, float), np.repeat(np.arange(40), 2)
        >>> fit = conditional_logistic(scores, np.tile([[1.0], [0.0]], (40, 1)), strata, strata)
        >>> round(fit.value, 2), round(float(np.log(30 / 10)), 2)
        (1.07, 1.1)
    """
    layout = _Strata(scores, terms, strata, clusters)
    found = np.zeros(terms.shape[1])
    here = layout.likelihood(found)
    n_clusters = len(np.unique(layout.clusters[layout.informative]))
    if n_clusters < 2 or _own_information(here[2].sum(axis=0)) < _LEAST_INFORMATION:
        return None
    # Newton's steps: the penalised likelihood is concave, so that a step that goes too far is halved until it gains.
    for _ in range(_MOST_STEPS):
        value, score, information = here
        whole = information.sum(axis=0) + np.diag(expit(found) * expit(-found))
        step = np.linalg.solve(whole, score.sum(axis=0) + 0.5 - expit(found))
        if np.abs(step).max() < _CONVERGED:
            break
        while (here := layout.likelihood(found + step))[0] < value and np.abs(step).max() > _CONVERGED:
            step = step / 2
        found = found + step
    by_cluster, within = (np.zeros((layout.clusters.max() + 1, len(found), width)) for width in (1, len(found)))
    np.add.at(by_cluster, layout.clusters, score[:, :, None])
    np.add.at(within, layout.clusters, information)
    # The penalty keeps what is left without a cluster invertible.
    moved = np.linalg.solve(whole - within, by_cluster)[:, 0, 0]
    jackknife = float(np.sqrt((n_clusters - 1) / n_clusters * (moved**2).sum()))
    own = float(np.sqrt(np.linalg.inv(whole)[0, 0]))
    return ConditionalFit(value=float(found[0]), error=max(jackknife, own), model_error=own, n_clusters=n_clusters)


def _own_information(information: Array) -> float:
    """Return what is known of the first term once the others are adjusted for."""
    return float(information[0, 0] - information[0, 1:] @ np.linalg.pinv(information[1:, 1:]) @ information[1:, 0])


class _Strata:
    """Answers by stratum. Strata with the same terms share their polynomials, which take the time."""

    def __init__(self, scores: Array, terms: Array, strata: Codes, clusters: Codes) -> None:
        # Within a stratum in the order of the terms, so that equal designs look equal.
        order = np.lexsort((*terms.T, strata))
        scores, terms, strata = scores[order], terms[order], strata[order]
        _, first, codes, sizes = np.unique(strata, return_index=True, return_inverse=True, return_counts=True)
        self.clusters: Codes = np.unique(clusters[order][first], return_inverse=True)[1]
        padded = np.zeros((len(first), sizes.max(), terms.shape[1] + 1))
        padded[codes, np.arange(len(scores)) - first[codes]] = np.column_stack([np.ones(len(scores)), terms])
        self.designs, design = np.unique(padded, axis=0, return_inverse=True)
        self.design: Codes = design.reshape(-1)
        wins, ties = (np.add.reduceat((scores == each).astype(int), first)[:, None] for each in (1, 0.5))
        self.sums: Array = np.add.reduceat(scores[:, None] * terms, first)
        self.weights: Array = comb(ties, np.arange(sizes.max() + 1) - wins) * 0.5**ties
        spread, wide = (np.maximum.reduceat(x, first) - np.minimum.reduceat(x, first) for x in (scores, terms[:, 0]))
        self.informative: Array = (wide > 0) & ((spread > 0) | (scores[first] == 0.5))

    def likelihood(self, b: Array) -> tuple[float, Array, Array]:
        """Return the penalised likelihood; of each stratum its slope without the penalty, and its information.

        By number of ones, with the first and second derivatives of the polynomials of each design.
        """
        n, widest, p = self.designs.shape[0], self.designs.shape[1], len(b)
        values, slopes, curves = (np.zeros((n, widest + 1, *more)) for more in ((), (p,), (p, p)))
        values[:, 0] = 1
        for at in range(widest):
            x = self.designs[:, at, 1:]
            weight = (self.designs[:, at, 0] * np.exp(x @ b))[:, None]
            before, slope = values[:, :-1], slopes[:, :-1]
            both = x[:, None, :, None] * slope[:, :, None, :]
            square = (x[:, :, None] * x[:, None, :])[:, None] * before[..., None, None]
            curves[:, 1:] += weight[..., None, None] * (curves[:, :-1] + both + both.swapaxes(-1, -2) + square)
            slopes[:, 1:] += weight[..., None] * (slope + x[:, None] * before[..., None])
            values[:, 1:] += weight * before
        # Beyond the size of a stratum there is nothing, and nothing has weight there.
        values = np.where(values > 0, values, 1.0)
        slopes = slopes / values[..., None]
        curves = curves / values[..., None, None] - slopes[..., :, None] * slopes[..., None, :]
        logs = self.sums.sum(axis=0) @ b - (self.weights * np.log(values)[self.design]).sum()
        score = self.sums - np.einsum("sk,skp->sp", self.weights, slopes[self.design])
        information = np.einsum("sk,skpq->spq", self.weights, curves[self.design])
        return float(logs + (b / 2 - np.logaddexp(0, b)).sum()), score, information
