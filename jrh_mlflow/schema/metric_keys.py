"""Keys of the numbers about a run as a whole: calls, tokens, cost, time, and what sums a reliability report up.

MLflow logs them, rules are typed with them and reports name them, so that they are spelled below all three.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from jrh_mlflow.schema.estimates import Estimate

CALLS = "calls/"
"""Beginning of the count of each outcome: `calls/error`."""
TOKENS = "tokens/"
COST_OF = "cost/"
TIME = "time/"

CALLS_TOTAL = f"{CALLS}total"
CALLS_VERDICT = f"{CALLS}verdict"
CALLS_TIE = f"{CALLS}tie"
CALLS_ABSTAIN = f"{CALLS}abstain"
CALLS_UNPARSED = f"{CALLS}unparsed"
CALLS_ERROR = f"{CALLS}error"
CALLS_CACHED = f"{CALLS}cached"
OLDEST_ANSWER = f"{CALLS}oldest_answer_days"
"""Age of the oldest answer that came from the journal, when the run was made."""
INPUT_TOKENS = f"{TOKENS}input"
OUTPUT_TOKENS = f"{TOKENS}output"
COST = f"{COST_OF}usd"
COST_PER_1K_CALLS = f"{COST_OF}usd_per_1k_calls"
UNKNOWN_COSTS = f"{COST_OF}unknown_calls"
"""Calls whose cost is unknown, where that of others is known: then totals are of those others, and a lower bound."""
ATTEMPTS = f"{COST_OF}attempts"
"""Requests that were billed, or perhaps, the retried ones included."""
UNKNOWN_ATTEMPTS = f"{COST_OF}unknown_attempts"
"""Of these, with a cost that nobody told: a timeout, a cut connection, no usage."""
BOOKED_WORST_CASE = f"{COST_OF}booked_worst_case"
"""Dollars set aside for those at most; in no other sum."""
COST_PER_1K_JUDGMENTS = f"{COST_OF}usd_per_1k_judgments"
"""A goal of sweeps; trials log it as `sweep/usd_per_1k_judgments`."""
COST_PER_ACCURACY_POINT = f"{COST_OF}usd_per_accuracy_point"
SECONDS = f"{TIME}seconds"

RELIABILITY = "reliability/"
"""Beginning of mean, spread and ends over the tests' scores."""
RELIABILITY_MEAN = f"{RELIABILITY}mean"
RELIABILITY_MEAN_LOW = f"{RELIABILITY}mean_ci_low"
RELIABILITY_MEAN_HIGH = f"{RELIABILITY}mean_ci_high"
RELIABILITY_SD = f"{RELIABILITY}sd"
RELIABILITY_MIN = f"{RELIABILITY}min"
RELIABILITY_MAX = f"{RELIABILITY}max"
RELIABILITY_TESTS = f"{RELIABILITY}n_tests"

AT_MOST, AT_LEAST = "at_most", "at_least"
"""Last part of the key of a threshold of which only a bound is known."""


def value_key(axis: str, reading: Estimate) -> str:
    """Return the key of a reading's number; of a censored threshold it is that of a bound.

    Example:
        >>> rest = dict.fromkeys(("ci_low", "ci_high", "cluster_low", "cluster_high", "method"))
        >>> value_key("threshold_75", Estimate(value=5, n=9, excluded=0, n_clusters=3, censored="right", **rest))
        'threshold_75/at_least'
    """
    bounds = {"left": AT_MOST, "right": AT_LEAST}
    return f"{axis}/{bounds[reading.censored] if reading.censored else reading.statistic}"


def value_or_bound(metrics: Mapping[str, float], key: str) -> float | None:
    """Return a number by its key, or where it is a censored threshold what it counts as in a comparison.

    At most the first step counts as that step; over the last step as more than that step.

    Example:
        >>> value_or_bound({"threshold_75/at_least": 5.0}, "threshold_75/value") > 5
        True
    """
    axis, _, statistic = key.rpartition("/")
    if key in metrics or statistic != "value":
        return metrics.get(key)
    over = metrics.get(f"{axis}/{AT_LEAST}")
    return metrics.get(f"{axis}/{AT_MOST}") if over is None else math.nextafter(over, math.inf)


TRACE_RUN = "jrh.run"
"""Tag of the trace of a call: its run, for pages to filter by."""
