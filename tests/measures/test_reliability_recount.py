"""Random pointwise records against a second count of them by plain loops and the words of the protocol."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import combinations, permutations
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jrh_mlflow as jrh
from tests.measures.pointwise import NO_ANSWER, number, point, points, reading, reason, repeats, report
from tests.readings import COSTLY_PROPERTY, Row

TESTS = ("format_invariance_1", "label_flip", "stochastic_stability")
BINARY, ORDINAL = ("no", "yes"), ("1", "2", "3", "4")
AGREEMENT = ("flip_rate", "krippendorff_alpha", "gwet_ac1")
Rate = tuple[int, int, int]
"""Hits, units counted, units left out."""


@st.composite
def records(draw: st.DrawFn) -> tuple[tuple[str, ...], list[Row]]:
    """Labels, and calls on a few sources: baselines, tests, replicates and every outcome."""
    labels = draw(st.sampled_from((BINARY, ORDINAL)))
    said, label = st.sampled_from((*labels, *labels, *NO_ANSWER)), st.sampled_from(labels)
    rows = []
    for index in range(draw(st.integers(1, 6))):
        for test in draw(st.sets(st.sampled_from(("baseline", *TESTS)), min_size=1)):
            expected = draw(label)
            heard = draw(st.lists(said, min_size=1, max_size=3))
            rows += repeats(test, heard, expected, source=f"s{index}")
    return labels, draw(st.permutations(rows))


def usable(row: Row) -> bool:
    return row["outcome"] in ("verdict", "abstain")


def share(rows: Iterable[Row], hit: Callable[[Row], bool]) -> Rate:
    rows = list(rows)
    counted = [row for row in rows if usable(row)]
    return sum(hit(row) for row in counted), len(counted), len(rows) - len(counted)


def whole(groups: Iterable[list[Row]], hit: Callable[[list[Row]], bool]) -> Rate:
    """Items, those with an unusable call left out."""
    groups = list(groups)
    counted = [rows for rows in groups if all(map(usable, rows))]
    return sum(map(hit, counted)), len(counted), len(groups) - len(counted)


def right(row: Row) -> bool:
    return row["outcome"] == "verdict" and row["answer"] == row["expected"]


def compared(rows: list[Row], baselines: dict[str, list[Row]], *, moved: bool) -> Rate | None:
    """Calls against the judge's own baseline answer, where the expected answer is the same or, `moved`, another."""
    hits = n = lost = 0
    for row in rows:
        own = baselines.get(row["task"])
        if not own or (row["expected"] != own[0]["expected"]) != moved:
            continue
        twin = own[row["replicate"] % len(own)]
        if not usable(row) or not usable(twin):
            lost += 1
            continue
        n += 1
        both = row["outcome"] == twin["outcome"] == "verdict"
        hits += both and (row["answer"] != twin["answer"]) == moved
    return (hits, n, lost) if n + lost else None


def recount(rows: list[Row], labels: tuple[str, ...]) -> dict[str, Rate]:
    """Every share of a report."""
    by_test = grouped(sorted(rows, key=lambda row: row["replicate"]), "condition")
    baselines = grouped(by_test.get("baseline", []), "task")
    found: dict[str, Rate | None] = {}
    for test, own in by_test.items():
        items = grouped(own, "suite_item")
        again = [calls for calls in items.values() if len(calls) > 1]
        found[f"{test}/accuracy"] = share(own, right)
        found[f"{test}/pass"] = whole(items.values(), lambda calls: all(map(right, calls)))
        if again or test == "stochastic_stability":
            found[f"{test}/unanimity"] = whole(again, lambda calls: len({call["answer"] for call in calls}) == 1)
        if test != "baseline":
            found[f"{test}/consistency"] = compared(own, baselines, moved=False)
            found[f"{test}/moved"] = compared(own, baselines, moved=True)
        if labels == BINARY:
            found[f"{test}/error_rate"] = share(own, lambda row: not right(row))
            for axis, (expected, other) in {"fpr": BINARY, "fnr": BINARY[::-1]}.items():
                part = [row for row in own if row["expected"] == expected]
                found[f"{test}/{axis}"] = share(part, lambda row, other=other: row["answer"] == other)
        else:
            found[f"{test}/within_one"] = share(own, near)
    return {axis: rate for axis, rate in found.items() if rate is not None}


def near(row: Row) -> bool:
    return row["outcome"] == "verdict" and abs(int(row["answer"]) - int(row["expected"])) <= 1


def grouped(rows: list[Row], column: str) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[column]].append(row)
    return groups


def alpha(units: list[list[str]], *, ordinal: bool) -> float | None:
    """Krippendorff (2011), pair by pair."""
    counts = Counter(value for unit in units for value in unit)
    place, below = {}, 0
    for value in sorted(counts):
        place[value], below = below + counts[value] / 2, below + counts[value]

    def distance(one: str, other: str) -> float:
        return (place[one] - place[other]) ** 2 if ordinal else float(one != other)

    if len(counts) < 2:
        return None
    observed = sum(sum(distance(*pair) for pair in permutations(unit, 2)) / (len(unit) - 1) for unit in units)
    chance = sum(counts[one] * counts[other] * distance(one, other) for one in counts for other in counts)
    return 1 - observed * (counts.total() - 1) / chance


@COSTLY_PROPERTY
@given(given_records=records())
def test_every_share_equals_a_second_count_by_plain_loops(given_records):
    labels, rows = given_records
    found = report(rows, labels=labels, n_resamples=5)
    counted = recount(rows, labels)
    for axis, (hits, n, lost) in counted.items():
        if n == 0:
            assert isinstance(found.estimates[axis], jrh.NotEstimable), axis
            continue
        one = reading(found, axis)
        assert (one.numerator, one.n, one.excluded) == (hits, n, lost), axis
        assert one.value == pytest.approx(hits / n)
    scores = [
        counted[f"{test}/{'unanimity' if test == 'stochastic_stability' else 'accuracy'}"] for test in found.tests
    ]
    values = [hits / n for hits, n, _ in scores if n]
    spread = (fmean(values), stdev(values) if len(values) > 1 else None) if values else (None, None)
    if any(isinstance(score, jrh.NotEstimable) and score.withheld for score in found.scores.values()):
        # A mean without a test that lost its calls would flatter.
        spread = (None, None)
    assert (found.summary["mean"], found.summary["sd"]) == pytest.approx(spread)


@COSTLY_PROPERTY
@given(given_records=records())
def test_agreement_of_replicates_equals_a_second_count_pair_by_pair(given_records):
    labels, rows = given_records
    found = report(rows, labels=labels, n_resamples=5)
    for test in {row["condition"] for row in rows}:
        again = [calls for calls in grouped(rows, "suite_item").values() if len(calls) > 1]
        again = [calls for calls in again if calls[0]["condition"] == test]
        heard = [[call["answer"] or "abstain" for call in calls if usable(call)] for calls in again]
        graded = [[one for one in unit if one != "abstain" or labels == BINARY] for unit in heard]
        heard, graded = ([unit for unit in units if len(unit) > 1] for units in (heard, graded))
        flips = [fmean(one != other for one, other in combinations(unit, 2)) for unit in heard]
        for axis, units, value in (
            ("flip_rate", heard, fmean(flips) if flips else None),
            ("krippendorff_alpha", graded, alpha(graded, ordinal=labels == ORDINAL)),
        ):
            if value is None:
                assert isinstance(found.estimates.get(f"{test}/{axis}", jrh.NotEstimable(reason="")), jrh.NotEstimable)
                continue
            one = reading(found, f"{test}/{axis}")
            assert one.value == pytest.approx(value)
            assert (one.n, one.excluded) == (len(units), len(again) - len(units))


def test_a_replicate_left_alone_is_left_out_and_counts_towards_withholding():
    # 4 of 100 calls are errors, within the limit; with the replicates they leave alone 8 of 100 say nothing.
    rows = [row for i in range(46) for row in repeats("stochastic_stability", ["yes", "yes"], source=f"a{i}")]
    rows += [row for i in range(4) for row in repeats("stochastic_stability", ["yes", "error"], source=f"b{i}")]
    withheld = jrh.measure(rows, labels=BINARY, n_resamples=5)
    assert all(reason(withheld, f"stochastic_stability/{axis}").withheld for axis in AGREEMENT)
    shown = jrh.measure(rows, labels=BINARY, n_resamples=5, max_excluded=0.08)
    assert reading(shown, "stochastic_stability/flip_rate").excluded == 4


def test_where_every_replicate_is_left_alone_agreement_is_withheld_whatever_the_limit():
    rows = [*repeats("stochastic_stability", ["yes", "error"]), *points("typos", [("no", "yes")])]
    found = report(rows, labels=BINARY)
    assert all(reason(found, f"stochastic_stability/{axis}").withheld for axis in AGREEMENT)


def test_the_alpha_of_a_scale_counts_the_items_it_was_read_from():
    rows = [row for i in range(3) for row in repeats("baseline", ["1", "2", "2"], "1", source=f"a{i}")]
    rows += repeats("baseline", ["4", "abstain", "abstain"], "4", source="b")
    found = report([*rows, point("typos", "1", "1", source="c")], labels=ORDINAL)
    one = reading(found, "baseline/krippendorff_alpha")
    assert (one.n, one.excluded, one.left_out["abstain"]) == (3, 1, 2)
    assert reading(found, "baseline/flip_rate").n == 4
    assert number(found, "baseline/flip_rate") == pytest.approx(2 / 3)
