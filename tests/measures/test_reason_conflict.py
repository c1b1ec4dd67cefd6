"""Rationales that name another verdict than the one given: counted, left aside, listed."""

from __future__ import annotations

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.measures.axes import find
from jrh_mlflow.measures.behind import CallFinder
from jrh_mlflow.measures.reason_conflict import REASON_CONFLICT
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from tests.measures.pointwise import point, reading, report
from tests.readings import Row, estimate, missing, pairs

FIRST, SECOND, EQUAL = "So Response A is better.", "So Response B is better.", "Both are equally good."
SILENT = "Both name the price."


def reasoned(rows: list[Row], *rationales: str | None) -> list[Row]:
    """Give rows these rationales in turn."""
    return [{**row, "rationale": rationales[index % len(rationales)]} for index, row in enumerate(rows)]


def sheet(rows: list[Row]) -> jrh.Datasheet:
    measured = jrh.measure(rows, max_excluded=0.5, n_resamples=20)
    assert isinstance(measured, jrh.Datasheet)
    return measured


def test_a_slot_that_is_not_the_one_given_is_a_conflict() -> None:
    rows = reasoned(pairs([("1", "2")] * 10), FIRST, FIRST, SECOND, SILENT)
    found = estimate(sheet(rows), REASON_CONFLICT)
    # Of four calls in a row the answers are 1 2 1 2, and the reasons name 1 1 2 and nothing.
    assert (found.numerator, found.n, found.n_clusters) == (10, 15, 10)
    assert found.cluster_low is not None
    assert (found.unit, found.statistic) == ("call", "rate")


def test_a_tie_that_is_named_counts_only_where_ties_are_given() -> None:
    forced = reasoned(pairs([("1", "2")] * 6), EQUAL, SECOND)
    assert estimate(sheet(forced), REASON_CONFLICT).n == 6
    free = forced + reasoned(pairs([("tie", "tie")], name="equal"), EQUAL, FIRST)
    found = estimate(sheet(free), REASON_CONFLICT)
    assert (found.numerator, found.n) == (6 + 1, 14)


def test_an_abstention_goes_with_a_tie_and_with_no_slot() -> None:
    rows = reasoned(pairs([("abstain", "abstain"), ("tie", "tie")]), EQUAL, FIRST)
    found = estimate(sheet(rows), REASON_CONFLICT)
    assert (found.numerator, found.n) == (2, 4)


def test_a_lost_call_whose_reason_names_a_verdict_is_counted_as_left_out() -> None:
    rows = reasoned(pairs([("1", "1")] * 5 + [("unparsed", "1")]), FIRST)
    found = estimate(sheet(rows), REASON_CONFLICT)
    assert (found.value, found.n, found.excluded) == (0.0, 11, 1)


@pytest.mark.parametrize("rationale", [None, "", "  "])
def test_without_rationales_there_is_no_such_axis(rationale: str | None) -> None:
    rows = pairs([("1", "2")] * 4)
    assert REASON_CONFLICT not in sheet(rows).estimates
    assert REASON_CONFLICT not in sheet(reasoned(rows, rationale)).estimates
    labelled = [point("baseline", "yes", "yes", source=f"s{place}") for place in range(4)]
    assert REASON_CONFLICT not in report(labelled).estimates


def test_rationales_that_name_nothing_leave_no_number() -> None:
    found = missing(sheet(reasoned(pairs([("1", "2")] * 4), SILENT)), REASON_CONFLICT)
    assert isinstance(found, NotEstimable)
    assert not found.withheld


def labelled() -> list[Row]:
    rows = [point("baseline", "no" if place % 2 else "yes", "yes", source=f"s{place}") for place in range(12)]
    return reasoned(rows, "Verdict: yes", "Verdict: yes", "Verdict: Yes.", "It is short.")


def test_labels_of_a_report_are_compared_whatever_their_case() -> None:
    found = reading(report(labelled()), REASON_CONFLICT)
    assert (found.numerator, found.n, found.n_clusters) == (3, 9, 9)


def test_scores_of_single_responses_are_compared_as_numbers() -> None:
    row = point("pointwise_ladder", "4", source="t") | {"delta": 3}
    rows = [{**row, "suite_item": f"i{place}", "task": f"t{place}"} for place in range(8)]
    found = estimate(sheet(reasoned(rows, "Score: 4.0", "I give it a 2/5.")), REASON_CONFLICT)
    assert (found.numerator, found.n) == (4, 8)


def test_the_calls_behind_it_are_those_that_name_a_verdict() -> None:
    rows = reasoned(pairs([("1", "2")] * 4), FIRST, FIRST, SILENT, SECOND)
    behind = CallFinder(rows).behind(REASON_CONFLICT)
    assert behind.calls.tolist() == [True, True, False, True] * 2
    assert behind.counts.tolist() == ["no", "yes", "", "no"] * 2
    assert (behind.n, behind.numerator) == (6, 2)
    points = CallFinder(labelled()).behind(REASON_CONFLICT)
    assert (points.n, points.numerator) == (9, 3)


def test_it_is_shown_in_markdown_and_frames_of_both_kinds() -> None:
    axis = find(REASON_CONFLICT)
    assert axis is not None
    for measured in (sheet(reasoned(pairs([("1", "2")] * 4), FIRST)), report(labelled())):
        assert isinstance(measured.estimates[REASON_CONFLICT], Estimate)
        assert f"## {axis.stimuli.section}" in measured.to_markdown()
        assert axis.label in measured.to_markdown()
        assert REASON_CONFLICT in set(measured.to_frame()["axis"])
