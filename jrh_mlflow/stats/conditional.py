"""Conditional logistic regression: what differs within a stratum, with the stratum's own level left out.

An answer y of stratum s with terms x has P(y = 1) = logistic(q_s + x·b). Given how many ones a stratum has, q_s drops
out: with m ones the stratum's likelihood is exp(Σ y x·b) / e_m(exp(x·b)), e_m the elementary symmetric polynomial.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import comb, expit
from scipy.stats import t as student

from jrh_mlflow.stats import Array, Codes, Interval

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
    n_strata: int
    """Strata that say something: their answers differ, and so does the first term."""
    n_clusters: int

    def interval(self, level: float = 0.95, *, clustered: bool = True) -> Interval:
        """Return Student's interval with a degree of freedom less than there are clusters."""
        error = self.error if clustered else self.model_error
        reach = float(student.ppf((1 + level) / 2, self.n_clusters - 1)) * error
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
    informative = layout.informative()
    if informative.sum() < 2:
        return None
    found = np.zeros(terms.shape[1])
    score, information = layout.derivatives(found)
    if _own_information(information.sum(axis=0)) < _LEAST_INFORMATION:
        return None

    def penalised(b: Array) -> float:
        return layout.likelihood(b) + float((b / 2 - np.logaddexp(0, b)).sum())

    # Newton's steps: the penalised likelihood is concave, so that a step that goes too far is halved until it gains.
    for _ in range(_MOST_STEPS):
        whole = information.sum(axis=0) + np.diag(expit(found) * expit(-found))
        step = np.linalg.solve(whole, score.sum(axis=0) + 0.5 - expit(found))
        if np.abs(step).max() < _CONVERGED:
            break
        while penalised(found + step) < penalised(found) and np.abs(step).max() > _CONVERGED:
            step = step / 2
        found = found + step
        score, information = layout.derivatives(found)
    codes = layout.clusters
    n_clusters = len(np.unique(codes[informative]))
    if n_clusters < 2:
        return None
    by_cluster = np.zeros((codes.max() + 1, len(found)))
    np.add.at(by_cluster, codes, score)
    within = np.zeros((codes.max() + 1, *whole.shape))
    np.add.at(within, codes, information)
    # The penalty keeps what is left without a cluster invertible.
    moved = np.linalg.solve(whole - within, by_cluster[:, :, None])[:, 0, 0]
    jackknife = float(np.sqrt((n_clusters - 1) / n_clusters * (moved**2).sum()))
    own = float(np.sqrt(np.linalg.inv(whole)[0, 0]))
    return ConditionalFit(
        value=float(found[0]),
        error=max(jackknife, own),
        model_error=own,
        n_strata=int(informative.sum()),
        n_clusters=n_clusters,
    )


def _own_information(information: Array) -> float:
    """Return what is known of the first term once the others are adjusted for."""
    rest = information[1:, 1:]
    return float(information[0, 0] - information[0, 1:] @ np.linalg.pinv(rest) @ information[1:, 0])


class _Strata:
    """Answers by stratum. Strata with the same terms share their polynomials, which take the time."""

    def __init__(self, scores: Array, terms: Array, strata: Codes, clusters: Codes) -> None:
        # Within a stratum in the order of the terms, so that equal designs look equal.
        order = np.lexsort((*terms.T, strata))
        scores, terms, strata, clusters = scores[order], terms[order], strata[order], clusters[order]
        _, first, codes, self.sizes = np.unique(strata, return_index=True, return_inverse=True, return_counts=True)
        self.clusters: Codes = np.unique(clusters[first], return_inverse=True)[1]
        n, widest = len(first), int(self.sizes.max())
        padded = np.zeros((n, widest, terms.shape[1] + 1))
        place = np.arange(len(scores)) - first[codes]
        padded[codes, place, 0] = 1
        padded[codes, place, 1:] = terms
        self.designs, self.design = np.unique(padded.reshape(n, -1), axis=0, return_inverse=True)
        self.designs = self.designs.reshape(-1, widest, terms.shape[1] + 1)
        self.design = self.design.reshape(-1)
        ties = scores == 0.5
        wins, n_ties = (np.bincount(codes, weights=each).astype(int) for each in ((scores == 1).astype(float), ties))
        self.sums = np.zeros((n, terms.shape[1]))
        np.add.at(self.sums, codes, scores[:, None] * terms)
        ones = np.arange(widest + 1) - wins[:, None]
        within = (ones >= 0) & (ones <= n_ties[:, None])
        self.weights: Array = np.where(within, comb(n_ties[:, None], ones) * 0.5 ** n_ties[:, None], 0.0)
        self.first_varies = np.array([np.ptp(design[design[:, 0] > 0, 1]) > 0 for design in self.designs])
        self.decided = ((wins == self.sizes) | (wins + n_ties == 0)) & (n_ties == 0)

    def informative(self) -> Array:
        return np.asarray(self.first_varies[self.design] & ~self.decided)

    def likelihood(self, b: Array) -> float:
        values, _, _ = self._polynomials(b, 0)
        return float(self.sums.sum(axis=0) @ b - (self.weights * np.log(values)[self.design]).sum())

    def derivatives(self, b: Array, *, hessian: bool = True) -> tuple[Array, Array]:
        """Return the slope of each stratum's likelihood, and its information."""
        values, slopes, curves = self._polynomials(b, 2 if hessian else 1)
        slopes = slopes / values[..., None]
        score = self.sums - np.einsum("sk,skp->sp", self.weights, slopes[self.design])
        if not hessian:
            return score, curves
        curves = curves / values[..., None, None] - slopes[..., :, None] * slopes[..., None, :]
        return score, np.einsum("sk,skpq->spq", self.weights, curves[self.design])

    def _polynomials(self, b: Array, derivatives: int) -> tuple[Array, Array, Array]:
        """Return the polynomials of each design by number of ones, with their first and second derivatives in `b`."""
        n, widest, p = self.designs.shape[0], self.designs.shape[1], len(b)
        values, slopes = np.zeros((n, widest + 1)), np.zeros((n, widest + 1, p))
        curves = np.zeros((n, widest + 1, p, p))
        values[:, 0] = 1
        for at in range(widest):
            there, x = self.designs[:, at, 0], self.designs[:, at, 1:]
            weight = (there * np.exp(x @ b))[:, None]
            before, slope = values[:, :-1], slopes[:, :-1]
            if derivatives > 1:
                both = x[:, None, :, None] * slope[:, :, None, :]
                square = (x[:, :, None] * x[:, None, :])[:, None] * before[..., None, None]
                curves[:, 1:] += weight[..., None, None] * (curves[:, :-1] + both + both.swapaxes(-1, -2) + square)
            if derivatives:
                slopes[:, 1:] = slopes[:, 1:] + weight[..., None] * (slope + x[:, None] * before[..., None])
            values[:, 1:] = values[:, 1:] + weight * before
        # Beyond the size of a stratum there is nothing, and nothing has weight there.
        return np.where(values > 0, values, 1.0), slopes, curves
