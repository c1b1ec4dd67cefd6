"""Keys of the numbers about a run as a whole: calls, tokens, cost, time, and what sums a reliability report up.

MLflow logs them, rules are typed with them and reports name them, so that they are spelled below all three.
"""

from __future__ import annotations

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
INPUT_TOKENS = f"{TOKENS}input"
OUTPUT_TOKENS = f"{TOKENS}output"
COST = f"{COST_OF}usd"
COST_PER_1K_CALLS = f"{COST_OF}usd_per_1k_calls"
UNKNOWN_COSTS = f"{COST_OF}unknown_calls"
"""Calls whose cost is unknown, where that of others is known: then totals are of those others, and a lower bound."""
COST_PER_1K_JUDGMENTS = f"{COST_OF}usd_per_1k_judgments"
"""A goal of sweeps; trials log it as `sweep/usd_per_1k_judgments`."""
COST_PER_ACCURACY_POINT = f"{COST_OF}usd_per_accuracy_point"
SECONDS = f"{TIME}seconds"
CPU_SECONDS = f"{TIME}cpu_seconds"

RELIABILITY = "reliability/"
"""Beginning of mean, spread and ends over the tests' scores."""
RELIABILITY_MEAN = f"{RELIABILITY}mean"
RELIABILITY_MEAN_LOW = f"{RELIABILITY}mean_ci_low"
RELIABILITY_MEAN_HIGH = f"{RELIABILITY}mean_ci_high"
RELIABILITY_SD = f"{RELIABILITY}sd"
RELIABILITY_MIN = f"{RELIABILITY}min"
RELIABILITY_MAX = f"{RELIABILITY}max"
RELIABILITY_TESTS = f"{RELIABILITY}n_tests"
