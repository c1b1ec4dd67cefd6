"""Which traces an optimiser learns from, and which it never sees."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jrh_mlflow.people.labels.judged_traces import LabelledTrace

SAME_CONTENT, KNOWN = "same content as a held-out trace", "known to the judge"


@dataclass(frozen=True, kw_only=True)
class Split:
    """Two parts without a content in common."""

    training: list[LabelledTrace]
    held_out: list[LabelledTrace]
    counts: Mapping[str, int]
    """Copies of held-out traces, which are in neither part, and traces that could only be trained on."""


def split_traces(
    traces: Sequence[LabelledTrace], *, holdout: float, seed: int, is_known: Callable[[LabelledTrace], bool]
) -> Split:
    """Hold out a share of the traces, drawn within each label; the same for the same traces in any order.

    Traces of one content stay together: of those held out one is measured. What `is_known` to the judge already is
    trained on.
    """
    groups: dict[str, list[LabelledTrace]] = defaultdict(list)
    for one in sorted(traces, key=lambda each: each.id):
        groups[one.content].append(one)
    known = {content for content, group in groups.items() if any(map(is_known, group))}
    strata: dict[str, list[str]] = defaultdict(list)
    for content, group in groups.items():
        if content not in known:
            strata[group[0].label].append(content)
    chosen = _drawn(strata, holdout=holdout, rng=random.Random(seed))  # noqa: S311 - a split, not a secret
    counts = {
        SAME_CONTENT: sum(len(groups[content]) - 1 for content in chosen),
        KNOWN: sum(len(groups[content]) for content in known),
    }
    return Split(
        training=[one for content, group in groups.items() if content not in chosen for one in group],
        held_out=[groups[content][0] for content in chosen],
        counts={name: count for name, count in counts.items() if count},
    )


def _drawn(strata: Mapping[str, list[str]], *, holdout: float, rng: random.Random) -> list[str]:
    """Draw from each label its share, and what rounding leaves from the labels that it cut most."""
    quotas = {label: holdout * len(contents) for label, contents in sorted(strata.items())}
    sizes = {label: math.floor(quota) for label, quota in quotas.items()}
    by_remainder = sorted(quotas, key=lambda label: sizes[label] - quotas[label])
    for label in by_remainder[: round(sum(quotas.values())) - sum(sizes.values())]:
        sizes[label] += 1
    return [content for label, size in sizes.items() for content in rng.sample(strata[label], size)]
