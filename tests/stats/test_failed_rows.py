"""The true failure rate behind a judge's verdicts: sums that are exact, bounds that keep their error."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from jrh_mlflow.stats.corrected_rates import (
    FailureCounts,
    chance_of_fewer,
    failure_estimate,
    is_above_bound,
    likeliest_error_rates,
    lower_bound,
    upper_bound,
)


def counts(
    failed: Any = 3, *, rows: int = 50, found: tuple[Any, int] = (45, 50), wrongly: tuple[Any, int] = (22, 450)
) -> FailureCounts:
    return FailureCounts(
        rows=rows, failed=failed, found=found[0], failures=found[1], wrongly=wrongly[0], passes=wrongly[1]
    )


def by_enumeration(theta: float, seen: FailureCounts, d: float, f: float) -> float:
    """Add up every outcome of rows and labels that speaks as much for a lower rate, or more."""

    def apart(failed: float, found: float, wrongly: float) -> float:
        return failed / seen.rows - theta * found / seen.failures - (1 - theta) * wrongly / seen.passes

    most = apart(float(seen.failed), float(seen.found), float(seen.wrongly)) + 1e-9
    q = theta * d + (1 - theta) * f
    return sum(
        float(
            stats.binom.pmf(x, seen.rows, q) * stats.binom.pmf(y, seen.failures, d) * stats.binom.pmf(z, seen.passes, f)
        )
        for x, y, z in product(range(seen.rows + 1), range(seen.failures + 1), range(seen.passes + 1))
        if apart(x, y, z) <= most
    )


def test_the_chance_is_the_sum_over_all_outcomes_at_the_worst_of_three_error_rates() -> None:
    seen = counts(2, rows=9, found=(4, 6), wrongly=(1, 7))
    d, f = (float(each) for each in likeliest_error_rates(0.3, seen))
    errors = [np.sqrt(max(rate * (1 - rate), 0.25 / n) / n) for rate, n in ((d, 6), (f, 7))]
    around = [
        [min(1.0, max(0.0, rate + by * error)) for rate, error in zip((d, f), errors, strict=True)] for by in (-1, 0, 1)
    ]
    expected = max(by_enumeration(0.3, seen, *rates) for rates in around)
    assert chance_of_fewer(0.3, seen)[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("theta", "seen"),
    [
        (0.2, counts(np.array([0.0]), found=(5, 5), wrongly=(0, 20))),
        (0.3, counts(np.array([11.0]), rows=40, found=(17, 20), wrongly=(3, 30))),
        (0.1, counts(np.array([40.0]), rows=40, found=(0, 20), wrongly=(30, 30))),
        (0.0, counts(np.array([4.0]))),
    ],
)
def test_no_other_error_rates_make_the_counts_likelier(theta: float, seen: FailureCounts) -> None:
    def likelihood(d: Any, f: Any) -> Any:
        q = theta * np.asarray(d) + (1 - theta) * np.asarray(f)
        parts = ((seen.failed, seen.rows, q), (seen.found, seen.failures, d), (seen.wrongly, seen.passes, f))
        return sum(stats.binom.logpmf(np.asarray(k).ravel()[0], n, p) for k, n, p in parts)

    best = likelihood(*(each[0] for each in likeliest_error_rates(theta, seen)))
    grid = np.linspace(0, 1, 201)
    assert best >= likelihood(*np.meshgrid(grid, grid)).max() - 1e-9


def failure_bounds(seen: FailureCounts, *, level: float = 0.95) -> tuple[float, float]:
    return lower_bound(seen, level=level), upper_bound(seen, level=level)


def test_a_judge_known_to_be_right_gives_the_exact_bounds_of_the_rows() -> None:
    low, high = failure_bounds(counts(4, rows=60, found=(4000, 4000), wrongly=(0, 4000)))
    # Nine tenths of the error are used up.
    assert high == pytest.approx(stats.beta.ppf(0.955, 5, 56), abs=0.003)
    assert low == pytest.approx(stats.beta.ppf(0.045, 4, 57), abs=0.003)


def test_pass_and_fail_can_be_exchanged() -> None:
    seen = counts(9, found=(18, 20), wrongly=(3, 40))
    low, high = failure_bounds(seen)
    assert failure_bounds(seen.mirrored) == (pytest.approx(1 - high), pytest.approx(1 - low))
    assert failure_estimate(seen.mirrored) == pytest.approx(1 - failure_estimate(seen))


def test_the_bounds_hold_the_estimate_and_close_in_with_rows_and_with_labels() -> None:
    widths = []
    for rows, labels in ((50, 1), (50, 4), (200, 4)):
        seen = counts(
            round(rows * 0.18), rows=rows, found=(45 * labels, 50 * labels), wrongly=(5 * labels, 50 * labels)
        )
        low, high = failure_bounds(seen)
        assert low < failure_estimate(seen) < high
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize(("failed", "found", "wrongly"), [(0, (250, 250), (60, 250)), (50, (200, 250), (0, 250))])
def test_rows_that_no_failure_rate_explains_still_leave_a_width(
    failed: int, found: tuple[int, int], wrongly: tuple[int, int]
) -> None:
    low, high = failure_bounds(counts(failed, found=found, wrongly=wrongly))
    assert high - low > 0.002


@pytest.mark.parametrize("failed", [0, 8, 50])
def test_a_higher_level_never_narrows_the_bounds(failed: int) -> None:
    seen = counts(failed, found=(45, 50), wrongly=(22, 450))
    lows, highs = zip(*(failure_bounds(seen, level=level) for level in (0.51, 0.9, 0.99)), strict=True)
    assert all(low < high for low, high in zip(lows, highs, strict=True))
    assert list(highs) == sorted(highs)
    assert list(lows) == sorted(lows, reverse=True)
    assert highs[0] - lows[0] < 0.2


@pytest.mark.parametrize("failed", [0, 3, 12])
@pytest.mark.parametrize("level", [0.6, 0.95])
def test_a_rate_is_above_the_bound_exactly_where_the_bound_says_so(failed: int, level: float) -> None:
    seen = counts(failed)
    bound = upper_bound(seen, level=level)
    above = [is_above_bound(theta, seen, level=level) for theta in (bound - 0.001, bound + 0.001)]
    assert above == [False, True]


@pytest.mark.parametrize("level", [0.5, 0.2, 1.0])
def test_a_one_sided_bound_needs_a_level_over_one_half(level: float) -> None:
    with pytest.raises(ValueError, match=r"0\.5 < level < 1"):
        failure_bounds(counts(), level=level)


def test_a_judge_that_was_never_wrong_on_few_labels_is_not_taken_for_perfect() -> None:
    few, many = (failure_bounds(counts(0, found=(n, n), wrongly=(0, n)))[1] for n in (3, 3000))
    assert many == pytest.approx(1 - 0.045 ** (1 / 50), abs=0.002)
    assert few > many + 0.03


def test_runs_in_an_array_are_read_one_by_one() -> None:
    failed, found, wrongly = np.array([0.0, 3.0, 9.0]), np.array([40.0, 45.0, 50.0]), np.array([22.0, 10.0, 30.0])
    together = chance_of_fewer(0.2, counts(failed, found=(found, 50), wrongly=(wrongly, 450)))
    alone = [
        chance_of_fewer(0.2, counts(x, found=(y, 50), wrongly=(z, 450)))[0]
        for x, y, z in zip(failed, found, wrongly, strict=True)
    ]
    assert together == pytest.approx(alone)


@pytest.mark.parametrize("wrong", [{"failed": 51}, {"failed": -1}, {"found": (6, 5)}, {"wrongly": (0, 0)}])
def test_counts_over_their_whole_and_kinds_without_a_label_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="both kinds"):
        counts(**wrong)


def test_a_judge_that_fails_passes_as_often_as_failures_has_no_estimate() -> None:
    with pytest.raises(ValueError, match="more true failures"):
        failure_estimate(counts(found=(5, 50), wrongly=(45, 450)))
