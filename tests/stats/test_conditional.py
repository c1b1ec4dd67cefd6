"""Conditional logistic regression: against the likelihood by its definition, and on strata of known truth."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from jrh_mlflow.stats.conditional import conditional_logistic


def penalty(b):
    return float((b / 2 - np.logaddexp(0, b)).sum())


def by_definition(scores, terms, strata):
    """Maximise the likelihood, which sums over all answers with as many ones, as a mean over ways to break ties."""

    def ways(y, x):
        ties = np.flatnonzero(y == 0.5)
        answers = np.array(list(product((0.0, 1.0), repeat=len(y))))
        for broken in product((0.0, 1.0), repeat=len(ties)):
            whole = y.copy()
            whole[ties] = broken
            yield whole @ x, answers[answers.sum(axis=1) == whole.sum()] @ x

    of_strata = [list(ways(scores[strata == s], terms[strata == s])) for s in np.unique(strata)]

    def negative(b):
        parts = [np.mean([whole @ b - np.log(np.exp(alike @ b).sum()) for whole, alike in each]) for each in of_strata]
        return -sum(parts) - penalty(b)

    return minimize(negative, np.zeros(terms.shape[1]), method="BFGS", options={"gtol": 1e-8}).x


def drawn(rng, *, items=12, bonus=0.7, ties=0.0, missing=0.0, judges=(1, -1, 0)):
    """Return scores, terms and strata of judges who own the first answer, the second or neither."""
    quality, rows = rng.normal(0, 1.5, items), []
    for judge, own in enumerate(judges):
        for slot in (1, -1):
            wins = rng.random(items) < expit(quality + bonus * own + 0.4 * (judge - 1) * slot)
            scores = np.where(rng.random(items) < ties, 0.5, wins)
            terms = np.zeros((items, 1 + len(judges)))
            terms[:, 0], terms[:, 1 + judge] = own, slot
            rows += [(s, x, at) for at, (s, x) in enumerate(zip(scores, terms, strict=True)) if rng.random() >= missing]
    return tuple(np.array(column) for column in zip(*rows, strict=True))


@pytest.mark.parametrize(("ties", "missing"), [(0.0, 0.0), (0.3, 0.0), (0.2, 0.25)])
def test_the_estimate_is_that_of_the_likelihood_by_its_definition(ties, missing):
    scores, terms, strata = drawn(np.random.default_rng(3), ties=ties, missing=missing)
    fit = conditional_logistic(scores, terms, strata, strata)
    assert fit.value == pytest.approx(by_definition(scores, terms, strata)[0], abs=1e-4)


def test_neither_the_order_of_answers_nor_the_names_of_strata_change_anything():
    rng = np.random.default_rng(5)
    scores, terms, strata = drawn(rng, items=30, ties=0.1)
    first, order = conditional_logistic(scores, terms, strata, strata), rng.permutation(len(scores))
    again = conditional_logistic(scores[order], terms[order], 7 * strata[order], strata[order])
    assert (again.value, again.error) == pytest.approx((first.value, first.error), rel=1e-6)


def test_the_quality_of_a_stratum_drops_out():
    """A stratum's own level moves every answer alike: strata in which all agree say nothing."""
    scores, terms, strata = drawn(np.random.default_rng(1), items=30)
    more = np.concatenate([strata, np.repeat(np.arange(100, 140), 6)])
    fit = conditional_logistic(scores, terms, strata, strata)
    agreed = conditional_logistic(
        np.concatenate([scores, np.ones(240)]), np.concatenate([terms, np.tile(terms[::30], (40, 1))]), more, more
    )
    assert agreed.value == pytest.approx(fit.value, abs=1e-6)
    assert agreed.n_clusters == fit.n_clusters


def test_a_judge_alone_tells_nothing_and_two_authors_tell_their_mean():
    rng = np.random.default_rng(2)
    alone = drawn(rng, items=40, judges=(1,))
    assert conditional_logistic(*alone, alone[2]) is None
    both = drawn(rng, items=400, judges=(1, -1), bonus=0.8)
    assert conditional_logistic(*both, both[2]).value == pytest.approx(0.8, abs=0.3)


def test_answers_that_are_all_alike_give_a_finite_estimate_with_a_wide_interval():
    scores, terms, strata = drawn(np.random.default_rng(0), items=25, bonus=40.0)
    fit = conditional_logistic(scores, terms, strata, strata)
    low, high = fit.interval()
    assert 2 < fit.value < 12
    assert 0 < low < fit.value - 1
    assert np.isfinite(high)


def test_items_that_share_a_cluster_widen_the_interval():
    """The same answers once more under other strata, in the same clusters, are no new evidence."""
    scores, terms, strata = drawn(np.random.default_rng(4), items=60)
    once = conditional_logistic(scores, terms, strata, strata)
    twice = [np.concatenate([each, each]) for each in (scores, terms)]
    again = conditional_logistic(*twice, np.concatenate([strata, strata + 1000]), np.concatenate([strata, strata]))
    assert again.n_clusters == once.n_clusters
    assert again.error == pytest.approx(once.error, rel=0.15)
    assert again.model_error < 0.8 * once.model_error
