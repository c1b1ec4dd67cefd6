"""What axes of agreement read on infinitely many items, from the chances of every way to rate one.

Written from the definitions, pattern by pattern, and not with the code that is tested.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import permutations
from statistics import median
from typing import Literal

import numpy as np

from jrh_mlflow.people.ratings import LabelKind
from tests.validation.simulated_raters import RatingDesign, _positive, rating_patterns


def readings_by_definition(design: RatingDesign) -> dict[str, float]:
    """Return what each axis would read on infinitely many items."""
    patterns, chances = rating_patterns(design)
    items = [(list(row[:-1]), row[-1], chance) for row, chance in zip(patterns.tolist(), chances.tolist(), strict=True)]
    pairs = [(_reference(people, design.kind), judge, chance) for people, judge, chance in items]
    label_pairs = [pair for pair in pairs if not math.isnan(pair[0] + pair[1]) and float(pair[0]).is_integer()]
    positive = float(_positive(design))
    readings = {
        "agreement/accuracy": _share(((x == y), chance) for x, y, chance in label_pairs),
        "agreement/kappa": _chance_corrected(label_pairs, "kappa", len(design.rates)),
        "agreement/ac1": _chance_corrected(label_pairs, "ac1", len(design.rates)),
        "agreement/sensitivity": _share((y == positive, chance) for x, y, chance in label_pairs if x == positive),
        "agreement/specificity": _share((y != positive, chance) for x, y, chance in label_pairs if x != positive),
        "agreement/human_alpha": _alpha(items, design.kind),
        "alt_test/advantage_probability": _wins(design)[0],
    }
    if design.kind != "nominal":
        readings["agreement/kappa_quadratic"] = _concordance(pairs)
    people = range(design.n_people)
    ceilings = {
        "agreement/human_ceiling": [_against_others(items, j, design.kind, judge=False) for j in people],
        "agreement/judge_on_ceiling": [_against_others(items, j, design.kind, judge=True) for j in people],
    }
    return readings | {axis: float(np.mean(values)) for axis, values in ceilings.items()}


Weighted = tuple[float, float, float]
"""Two labels and the chance of them."""


def _share(events: Iterator[tuple[bool, float]]) -> float:
    hits, chances = zip(*events, strict=True)
    return float(np.dot(hits, chances) / sum(chances))


def _reference(labels: Sequence[float], kind: LabelKind) -> float:
    given = [label for label in labels if not math.isnan(label)]
    if not given:
        return math.nan
    if kind == "nominal":
        ranked = Counter(given).most_common()
        return ranked[0][0] if len(ranked) == 1 or ranked[0][1] > ranked[1][1] else math.nan
    middle = median(given)
    return middle if kind == "numeric" or float(middle).is_integer() else math.nan


def _against_others(
    items: Sequence[tuple[list[float], float, float]], j: int, kind: LabelKind, *, judge: bool
) -> float:
    pairs = [
        (answer if judge else people[j], _reference(people[:j] + people[j + 1 :], kind), chance)
        for people, answer, chance in items
        if not math.isnan(people[j])
    ]
    pairs = [pair for pair in pairs if not math.isnan(pair[0] + pair[1])]
    return _share((x == y, chance) for x, y, chance in pairs) if kind == "nominal" else _concordance(pairs)


def _chance_corrected(pairs: Sequence[Weighted], which: Literal["kappa", "ac1"], n_labels: int) -> float:
    same = _share((x == y, chance) for x, y, chance in pairs)
    total = sum(chance for _, _, chance in pairs)
    first, second = (
        [sum(pair[2] for pair in pairs if pair[side] == label) / total for label in range(n_labels)] for side in (0, 1)
    )
    if which == "kappa":
        expected = sum(p * q for p, q in zip(first, second, strict=True))
    else:
        pooled = [(p + q) / 2 for p, q in zip(first, second, strict=True)]
        expected = sum(p * (1 - p) for p in pooled) / (n_labels - 1)
    return (same - expected) / (1 - expected)


def _concordance(pairs: Sequence[Weighted]) -> float:
    x, y, chances = np.array([pair for pair in pairs if not math.isnan(pair[0] + pair[1])]).T
    weights = chances / chances.sum()
    mx, my = weights @ x, weights @ y
    spread = weights @ (x - mx) ** 2 + weights @ (y - my) ** 2 + (mx - my) ** 2
    return float(2 * (weights @ ((x - mx) * (y - my))) / spread)


def _alpha(items: Sequence[tuple[list[float], float, float]], kind: LabelKind) -> float:
    # Written from Krippendorff's definition, pattern by pattern: not the code in `stats` that is put to the test.
    units = [([label for label in people if not math.isnan(label)], chance) for people, _, chance in items]
    units = [(labels, chance) for labels, chance in units if len(labels) > 1]
    weight: Counter[float] = Counter()
    for labels, chance in units:
        weight.update({label: times * chance for label, times in Counter(labels).items()})
    total = sum(weight.values())
    ranks = {label: sum(w for other, w in weight.items() if other < label) + weight[label] / 2 for label in weight}

    def distance(a: float, b: float) -> float:
        if kind == "nominal":
            return float(a != b)
        return (ranks[a] - ranks[b]) ** 2 if kind == "ordinal" else (a - b) ** 2

    observed = sum(
        chance * sum(distance(a, b) for a, b in permutations(labels, 2)) / (len(labels) - 1) for labels, chance in units
    )
    expected = sum(weight[a] * weight[b] * distance(a, b) for a in weight for b in weight) / total
    return 1 - observed / expected


def _wins(design: RatingDesign) -> tuple[float, float]:
    """Return rho of judge and person, the same for every person: they are alike."""
    patterns, chances = rating_patterns(design)
    judge_wins: list[tuple[bool, float]] = []
    person_wins: list[tuple[bool, float]] = []
    for row, chance in zip(patterns.tolist(), chances.tolist(), strict=True):
        person, *rest, judge = row
        others = [label for label in rest if not math.isnan(label)]
        if math.isnan(person + judge) or not others:
            continue
        scores = [_likeness(label, others, design.kind) for label in (judge, person)]
        judge_wins.append((scores[0] >= scores[1], chance))
        person_wins.append((scores[1] >= scores[0], chance))
    return _share(iter(judge_wins)), _share(iter(person_wins))


def _likeness(label: float, others: Sequence[float], kind: LabelKind) -> float:
    if kind == "nominal":
        return sum(label == other for other in others) / len(others)
    return -math.sqrt(sum((label - other) ** 2 for other in others) / len(others))
