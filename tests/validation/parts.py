"""The parts of `python -m tests.validation`, in the order shown."""

from __future__ import annotations

from tests.validation import (
    asked_until,
    at_the_limit,
    attacked_judges,
    coverage,
    mended_judges,
    named_problems,
    optimisers,
    own_bonus,
    promised_sizes,
    simulated_judges,
    simulated_labels,
    simulated_raters,
    told_apart,
    watched_judges,
)
from tests.validation.loop import Part

DECISIONS = Part(
    word="decisions",
    simulations=(
        *told_apart.SIMULATIONS,
        *at_the_limit.SIMULATIONS,
        *asked_until.SIMULATIONS,
        *promised_sizes.SIMULATIONS,
    ),
    runs_per_seed=(20, 10),
)
PARTS = (
    simulated_judges.PART,
    coverage.PART,
    simulated_raters.PART,
    simulated_labels.PART,
    optimisers.PART,
    DECISIONS,
    named_problems.PART,
    watched_judges.PART,
    own_bonus.PART,
    attacked_judges.PART,
    mended_judges.PART,
)
