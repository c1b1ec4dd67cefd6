"""The parts of `python -m tests.validation`, in the order shown.

`loop.py` draws, counts and checks; every other file is a question, with its worlds and what was promised.
"""

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
from tests.validation.loop import Part, decisions_text

DECISIONS = Part(
    word="decisions",
    key="decisions",
    simulations=(
        *told_apart.SIMULATIONS,
        *at_the_limit.GATES,
        asked_until.ON_THE_LIMIT,
        asked_until.RECORDED,
        *promised_sizes.PLANS,
        promised_sizes.GAPS,
    ),
    text=decisions_text,
    runs_per_seed=(20, 10),
)
PARTS = (
    simulated_judges.JUDGES,
    coverage.PART,
    simulated_judges.REPLICATES,
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
"""All of them, in the order shown."""
