"""Corrected rates: point estimates by hand and by public code, intervals at the edges, what influences add up to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from jrh_mlflow.stats import corrected_rates as rates
from jrh_mlflow.stats.corrected_rates import Mean, bounded_mean
from jrh_mlflow.stats.proportions import beta_share, wilson_share


def table(both: int, missed: int, false_pass: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    """Judge and human of a 2 × 2 table: pass by both, by people only, by the judge only, by none."""
    counts = [both, missed, false_pass, neither]
    return np.repeat([1.0, 0.0, 1.0, 0.0], counts), np.repeat([1.0, 1.0, 0.0, 0.0], counts)


def verdicts(passed: int, failed: int) -> np.ndarray:
    return np.repeat([1.0, 0.0], [passed, failed])


JUDGE, HUMAN = table(70, 6, 7, 17)
VERDICTS = verdicts(640, 260)


def test_ppi_is_the_formula_of_the_protocol() -> None:
    covariance = np.mean(JUDGE * HUMAN) - JUDGE.mean() * HUMAN.mean()
    weight = covariance / ((1 + 100 / 900) * np.var(JUDGE))
    assert rates.ppi_weight(VERDICTS, JUDGE, HUMAN) == pytest.approx(weight)
    expected = HUMAN.mean() + weight * (VERDICTS.mean() - JUDGE.mean())
    assert rates.ppi(VERDICTS, JUDGE, HUMAN).value == pytest.approx(expected)


def test_ppi_at_its_weight_is_that_of_the_authors() -> None:
    """Recorded from ppi_python 0.2.3, `ppi_mean_pointestimate(human, judge, verdicts, lam=…)` on these numbers.

    Its own choice of the weight divides by the variance of all verdicts, ours by that of the labelled ones.
    """
    assert rates.ppi_weight(VERDICTS, JUDGE, HUMAN) == pytest.approx(AUTHORS_WEIGHT)
    assert rates.ppi(VERDICTS, JUDGE, HUMAN).value == pytest.approx(AUTHORS_ESTIMATE, abs=1e-12)
    pooled = np.var(np.concatenate([JUDGE, VERDICTS]), ddof=1)
    assert AUTHORS_WEIGHT * np.var(JUDGE) / pooled == pytest.approx(AUTHORS_OWN_WEIGHT)


AUTHORS_WEIGHT, AUTHORS_ESTIMATE, AUTHORS_OWN_WEIGHT = 0.5833992094861654, 0.7256442687747038, 0.5086795688750236


def test_rogan_gladen_is_the_formula_and_its_interval_near_that_of_the_paper() -> None:
    """The example of LLM-judge-reporting (arXiv 2511.21140): p .4 of 1,000, specificity .7, sensitivity .9, 200 each.

    The paper's interval, written out here: pseudo-counts (z²/2 of z² to p, 1 of 2 to the others), the delta method and
    a shift of the middle.
    """
    passed = bounded_mean(verdicts(400, 600))
    found = rates.rogan_gladen(passed, bounded_mean(verdicts(180, 20)), bounded_mean(verdicts(60, 140)))
    assert found.value == pytest.approx((0.4 + 0.7 - 1) / (0.7 + 0.9 - 1))
    z = stats.norm.ppf(0.975)
    p, sp, se = (400 + z * z / 2) / (1000 + z * z), 141 / 202, 181 / 202
    theta = (p + sp - 1) / (se + sp - 1)
    middle = theta + 2 * z * z * (theta * se * (1 - se) - (1 - theta) * sp * (1 - sp)) / 202
    variance = p * (1 - p) / (1000 + z * z)
    variance += ((1 - theta) ** 2 * sp * (1 - sp) + theta**2 * se * (1 - se)) / 202
    half = z * variance**0.5 / (se + sp - 1)
    assert (found.low, found.high) == pytest.approx((middle - half, middle + half), abs=0.03)


def test_two_strata_are_the_formula_of_the_protocol() -> None:
    share = VERDICTS.mean()
    expected = share * 70 / 77 + (1 - share) * 6 / 23
    assert rates.by_strata(VERDICTS, JUDGE, HUMAN).value == pytest.approx(expected)


def test_weights_that_are_all_the_same_change_nothing() -> None:
    plain, weighted = rates.ppi(VERDICTS, JUDGE, HUMAN), rates.ppi(VERDICTS, JUDGE, HUMAN, np.full(100, 7.0))
    assert (weighted.value, weighted.low, weighted.high) == pytest.approx((plain.value, plain.low, plain.high))


def test_a_whole_number_as_weight_counts_a_label_as_often() -> None:
    judge, human = table(20, 4, 3, 9)
    weights = np.where(judge == 1, 3.0, 1.0)
    times = weights.astype(int)
    weighted = rates.ppi_weight(VERDICTS, judge, human, weights)
    effective = weights.sum() ** 2 / np.square(weights).sum()
    repeated = rates.ppi_weight(VERDICTS, np.repeat(judge, times), np.repeat(human, times))
    # The same slope; only the number of labels differs.
    assert weighted * (1 + effective / 900) == pytest.approx(repeated * (1 + times.sum() / 900))


counts = st.integers(0, 40)


@given(a=counts, b=counts, c=counts, d=counts, passed=st.integers(0, 200), failed=st.integers(0, 200))
def test_estimates_lie_in_their_intervals_which_lie_in_0_to_1_and_have_a_width(a, b, c, d, passed, failed) -> None:
    judge, human = table(a, b, c, d)
    if not len(judge) or not passed + failed:
        return
    seen = verdicts(passed, failed)
    found = [rates.ppi(seen, judge, human)]
    if set(seen) <= set(judge):
        found.append(rates.by_strata(seen, judge, human))
    if a + b and c + d and a * (c + d) > c * (a + b):
        parts = [bounded_mean(judge[human == value]) for value in (1, 0)]
        found.append(rates.rogan_gladen(bounded_mean(seen), *parts))
    for estimate in found:
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
        assert estimate.high - estimate.low > 1e-6


@example(a=0, b=5, c=1, d=4, passed=33, failed=1).via("a judge that does not go with people, but for rounding")
@given(a=counts, b=counts, c=counts, d=counts, passed=st.integers(1, 200), failed=st.integers(1, 200))
def test_failures_in_place_of_passes_mirror_the_estimate(a, b, c, d, passed, failed) -> None:
    judge, human = table(a + 1, b, c, d + 1)
    seen = verdicts(passed, failed)
    for estimate in (rates.ppi, rates.by_strata):
        one, other = estimate(seen, judge, human), estimate(1 - seen, 1 - judge, 1 - human)
        mirror = (1 - one.value, 1 - one.high, 1 - one.low)
        assert (other.value, other.low, other.high) == pytest.approx(mirror, abs=1e-9)


def test_a_judge_without_fault_keeps_a_width_and_narrows_people_alone() -> None:
    judge, human = table(60, 0, 0, 40)
    found = rates.ppi(verdicts(6000, 4000), judge, human)
    alone = bounded_mean(human)
    assert 0.02 < found.high - found.low < alone.high - alone.low


@pytest.mark.parametrize(
    ("passed", "failed", "others"), [(70, 30, 1000), (160, 40, 2000), (90, 10, 1000), (180, 20, 1000)]
)
def test_a_judge_without_fault_is_hardly_wider_than_if_that_were_known(passed, failed, others) -> None:
    rate = passed / (passed + failed)
    found = rates.ppi(verdicts(round(rate * others), round((1 - rate) * others)), *table(passed, 0, 0, failed))
    known = 2 * 1.96 * np.sqrt(rate * (1 - rate) / (passed + failed + others))
    assert known < found.high - found.low < 1.21 * known


def test_a_mistake_that_was_seen_counts_more_than_one_that_was_not() -> None:
    widths = [(found := rates.ppi(verdicts(900, 100), *table(90 - n, 0, n, 10))).high - found.low for n in (0, 1, 2, 3)]
    assert widths == sorted(widths)
    assert widths[1] - widths[0] > widths[2] - widths[1] > widths[3] - widths[2]


def test_a_sum_has_the_degrees_of_freedom_of_what_it_mostly_hangs_on() -> None:
    """One term alone has its own; one that hardly counts adds nothing."""
    few, many = (Mean(0.5, 0.4, 0.6, n) for n in (11.0, 1e6))
    alone, beside = (rates.sum_interval(terms)[1] for terms in ([(1.0, few)], [(1.0, few), (1.0, many)]))
    assert alone == pytest.approx(stats.t.ppf(0.975, 10) * 0.5 / np.sqrt(12.5))
    assert beside == pytest.approx(alone, rel=1e-3)
    assert rates.sum_interval([(0.01, few), (1.0, Mean(0.5, 0.4, 0.6, 1e4))])[1] == pytest.approx(0.0098, rel=0.05)


def test_a_judge_that_never_varies_leaves_people_alone() -> None:
    human = np.repeat([1.0, 0.0], [80, 20])
    assert rates.ppi(np.ones(900), np.ones(100), human) == bounded_mean(human)


def test_more_labels_and_more_verdicts_narrow_every_interval() -> None:
    def widths(times: int) -> list[float]:
        judge, human = table(*(times * count for count in (14, 2, 2, 7)))
        seen = verdicts(160 * times, 90 * times)
        parts = [bounded_mean(judge[human == value]) for value in (1, 0)]
        found = (
            rates.ppi(seen, judge, human),
            rates.by_strata(seen, judge, human),
            rates.rogan_gladen(bounded_mean(seen), *parts),
        )
        return [each.high - each.low for each in found]

    for few, many in zip(widths(8), widths(32), strict=True):
        assert many == pytest.approx(few / 2, rel=0.15)


def test_rates_outside_what_the_judge_can_give_are_0_or_1_with_a_width() -> None:
    se, false_passes = bounded_mean(verdicts(40, 10)), bounded_mean(verdicts(10, 40))
    for passed, value in ((9900, 1.0), (100, 0.0)):
        found = rates.rogan_gladen(bounded_mean(verdicts(passed, 10_000 - passed)), se, false_passes)
        assert found.value == value
        assert found.high - found.low > 0.05


def test_a_ratio_holds_its_value_and_needs_something_surely_positive_to_divide_by() -> None:
    found = rates.rate_ratio(Mean(0.06, 0.02, 0.1), Mean(0.6, 0.5, 0.7))
    assert found.value == pytest.approx(0.1)
    assert 0.02 < found.low < 0.05
    assert 0.15 < found.high < 0.2
    with pytest.raises(ValueError, match="over 0"):
        rates.rate_ratio(Mean(0.06, 0.02, 0.1), Mean(0.6, 0.0, 0.7))


def test_youden_is_sensitivity_plus_specificity_minus_1_and_unknown_without_both_labels() -> None:
    found = rates.youden(JUDGE, HUMAN)
    assert found is not None
    assert found.value == pytest.approx(70 / 76 + 17 / 24 - 1)
    assert rates.youden(JUDGE[HUMAN == 1], HUMAN[HUMAN == 1]) is None


@pytest.mark.parametrize("method", ["PPI++", "Rogan-Gladen", "two strata", "people only", "naive"])
def test_influences_are_what_the_estimate_changes_by(method) -> None:
    """Their squares sum to the variance that simulation gives."""
    rng = np.random.default_rng(1)
    values, squares = [], []
    for _ in range(200):
        human = (rng.random(300) < 0.6).astype(float)
        judge = np.where(rng.random(300) < 0.85, human, 1 - human)
        truth = rng.random(600) < 0.6
        seen = np.where(rng.random(600) < 0.85, truth, ~truth).astype(float)
        if method == "Rogan-Gladen":
            human = np.repeat([1.0, 0.0], 150)
            judge = np.where(rng.random(300) < 0.85, human, 1 - human)
        values.append(_value(method, seen, judge, human))
        squares.append(sum(np.square(part).sum() for part in rates.influences(seen, judge, human, method=method)))
    assert np.mean(squares) == pytest.approx(np.var(values), rel=0.25)


def _value(method: str, seen: np.ndarray, judge: np.ndarray, human: np.ndarray) -> float:
    if method == "Rogan-Gladen":
        parts = [bounded_mean(judge[human == value]) for value in (1, 0)]
        return rates.rogan_gladen(bounded_mean(seen), *parts).value
    if method in ("people only", "naive"):
        return float((human if method == "people only" else seen).mean())
    return (rates.ppi if method == "PPI++" else rates.by_strata)(seen, judge, human).value


def test_the_correlation_of_two_estimates_is_0_without_shared_items_and_never_1() -> None:
    parts = np.array([0.01, -0.01, 0.02, -0.02])
    assert rates.correlation(parts, parts, np.array([])) == 0
    assert 0 < rates.correlation(parts, parts, parts * parts) < 1
    assert rates.correlation(parts, -parts, -parts * parts) < 0


def test_the_interval_of_a_mean_covers_at_every_rate_where_wilsons_does_not() -> None:
    """Exact sums over all counts."""

    def least(interval, n: int) -> float:
        ends = np.array([interval(x / n, n) for x in range(n + 1)])
        at = np.concatenate([np.geomspace(0.001, 0.1, 60), np.linspace(0.1, 0.5, 40)])[:, None]
        held = (ends[:, 0] <= at) & (at <= ends[:, 1])
        return float((stats.binom.pmf(np.arange(n + 1), n, at) * held).sum(axis=1).min())

    for n in (10, 30, 100, 400):
        assert least(beta_share, n) > 0.94
    assert least(wilson_share, 30) < 0.86
