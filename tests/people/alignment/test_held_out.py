"""Before and after on held-out traces: what is read, and what follows from it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jrh_mlflow.people.alignment.held_out import (
    BETTER,
    NOT_WORSE,
    SENT_BACK,
    JudgedTrace,
    Probe,
    TraceAnswer,
    align_decisions,
    least_traces,
    measure_alignment,
    needed_traces,
    size_note,
)
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from tests.readings import PROPERTY


def said(answer: str | None, **more: object) -> TraceAnswer:
    outcome = "verdict" if answer else "error"
    return TraceAnswer(outcome=outcome, answer=answer or "", **more)  # type: ignore[arg-type]


def judged(*rows: tuple[str, str | None, str | None], times: int = 1) -> list[JudgedTrace]:
    """Label, answer before and answer after; None is a failed call."""
    return [
        JudgedTrace(trace=f"tr-{number}", label=label, n_people=1, before=said(before), after=said(after))
        for number, (label, before, after) in enumerate(rows * times)
    ]


RIGHT, WRONG, GAIN, LOSS = ("yes", "yes", "yes"), ("yes", "no", "no"), ("yes", "no", "yes"), ("yes", "yes", "no")


@given(st.integers(0, 12), st.integers(0, 12), st.integers(1, 80), st.sampled_from([0.02, 0.05, 0.2]))
@PROPERTY
def test_a_decision_is_the_lower_end_of_the_paired_difference_and_nothing_else(gains, losses, same, margin):
    report = measure_alignment(judged(*[GAIN] * gains, *[LOSS] * losses, *[RIGHT] * same), margin=margin)
    difference = report.agreement.difference
    assert isinstance(difference, Estimate)
    assert difference.value == pytest.approx((gains - losses) / (gains + losses + same))
    assert difference.ci_low is not None
    expected = BETTER if difference.ci_low > 0 else NOT_WORSE if difference.ci_low > -margin else SENT_BACK
    assert report.decision == expected == str(align_decisions(gains, losses, gains + losses + same, margin=margin))


def test_each_decision_says_why_with_its_numbers():
    better = measure_alignment(judged(*[GAIN] * 14, LOSS, *[RIGHT] * 60, *[WRONG] * 25), margin=0.05)
    assert better.decision == "better"
    assert better.reason.startswith("The judge agrees with people on 0.74 of 100 held-out traces after aligning, 0.61")
    equal = measure_alignment(judged(*[RIGHT] * 100), margin=0.05)
    assert (equal.decision, "that it is better is not shown" in equal.reason) == ("not worse", True)
    few = measure_alignment(judged(*[RIGHT] * 40), margin=0.05)
    assert (few.decision, "a loss of 0.09 is not excluded" in few.reason) == ("sent back", True)
    worse = measure_alignment(judged(*[LOSS] * 20, *[RIGHT] * 80), margin=0.05)
    assert (worse.decision, "it is worse" in worse.reason) == ("sent back", True)


def test_a_failed_call_is_no_verdict_and_takes_its_pair_along():
    rows = [*[GAIN] * 20, *[RIGHT] * 76, ("yes", None, "yes"), ("yes", "yes", None), ("no", None, None)]
    report = measure_alignment(judged(*rows), margin=0.05)
    before, difference = report.agreement.before, report.agreement.difference
    assert isinstance(before, Estimate)
    assert isinstance(difference, Estimate)
    assert (before.value, before.n, before.excluded) == (76 / 96, 96, 3)
    assert (difference.value, difference.bound_low, difference.bound_high) == (20 / 96, 17 / 99, 23 / 99)
    assert dict(difference.left_out) == {"error": 4}


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_judge_that_leaves_more_than_one_in_twenty_out_is_never_declared_better(side):
    """Which traces it leaves out may flatter it: here all that it would have got wrong."""
    lost = ("yes", None, "yes") if side == "before" else ("yes", "yes", None)
    report = measure_alignment(judged(*[GAIN] * 30, *[RIGHT] * 64, *[lost] * 6), margin=0.05)
    assert report.decision == "sent back"
    assert f"the judge {side} aligning gave no verdict on 6 of 100 held-out traces (error 6)" in report.reason
    missing = report.agreement.difference
    assert isinstance(missing, NotEstimable)
    assert missing.withheld
    assert missing.bounds is not None
    assert (missing.bounds.low, missing.bounds.high) == (pytest.approx(0.24), pytest.approx(0.36))
    whole = report.agreement.after if side == "before" else report.agreement.before
    assert isinstance(whole, NotEstimable)
    assert whole.bounds is not None
    assert whole.bounds.low == whole.bounds.high == pytest.approx(1.0 if side == "before" else 0.7)
    assert json.loads(json.dumps(report.to_dict()))["agreement"]["difference"]["bounds"]["lost"] == {"error": 6}


def test_a_clear_loss_of_consistency_is_part_of_the_reason_and_decides_nothing():
    steady = Probe(rule="format_invariance_1", before=said("yes"), after=said("yes"))
    moved = Probe(rule="format_invariance_2", before=said("yes"), after=said("no"))
    traces = judged(*[RIGHT] * 100)
    probed = [
        JudgedTrace(trace=one.trace, label="yes", n_people=2, before=one.before, after=one.after, probe=probe)
        for one, probe in zip(traces, [moved] * 20 + [steady] * 30 + [None] * 50, strict=True)
    ]
    report = measure_alignment(probed, margin=0.05)
    assert report.suite is not None
    assert isinstance(report.suite.after, Estimate)
    assert (report.suite.after.value, report.suite.after.n) == (0.6, 50)
    assert report.decision == "not worse"
    assert "less consistent with itself when outputs are only laid out otherwise: -0.40" in report.reason
    assert report.cost["after"].calls == 150


def test_consistency_is_with_the_judges_own_verdict_and_not_with_people():
    probe = Probe(rule="format_invariance_1", before=said("no"), after=said(None))
    wrong = JudgedTrace(trace="t", label="yes", n_people=1, before=said("no"), after=said("no"), probe=probe)
    whole = Probe(rule="format_invariance_1", before=said("no"), after=said("no"))
    right = JudgedTrace(trace="u", label="yes", n_people=1, before=said("no"), after=said("no"), probe=whole)
    report = measure_alignment([wrong, *[right] * 30], margin=0.05)
    assert report.suite is not None
    assert isinstance(report.suite.before, Estimate)
    assert (report.suite.before.value, report.suite.before.n, report.suite.before.excluded) == (1.0, 30, 1)


def test_ordered_labels_have_kappas_beside_and_exact_agreement_decides():
    rows = [("1", "1", "2"), ("2", "2", "3"), ("3", "3", "4"), ("5", "5", "4")]
    report = measure_alignment(judged(*rows, times=20), margin=0.05, order=float)
    assert report.decision == "sent back"
    before, after = report.kappa["before"], report.kappa["after"]
    assert isinstance(before, Estimate)
    assert isinstance(after, Estimate)
    assert before.value == 1
    assert 0.6 < after.value < 0.8
    assert after.ci_low is not None
    assert after.ci_low < after.value


def test_tokens_and_dollars_are_summed_where_told_and_never_taken_for_nothing():
    told = said("yes", input_tokens=10, output_tokens=2, cost_usd=0.01)
    traces = [JudgedTrace(trace=str(k), label="yes", n_people=1, before=told, after=said("yes")) for k in range(3)]
    cost = measure_alignment(traces, margin=0.05).cost
    assert (cost["before"].usd, cost["before"].input_tokens, cost["before"].unknown) == (pytest.approx(0.03), 30, 0)
    assert (cost["after"].usd, cost["after"].input_tokens, cost["after"].unknown) == (None, None, 3)


def test_how_many_traces_it_takes_is_where_the_decision_itself_turns():
    for margin in (0.02, 0.05, 0.1, 0.3):
        n = needed_traces(margin)
        assert align_decisions(0, 0, [n - 1, n], margin=margin).tolist() == [SENT_BACK, NOT_WORSE]
        least = least_traces(margin)
        assert align_decisions(least, 0, least, margin=margin) != SENT_BACK
        assert align_decisions(np.arange(1, least), 0, np.arange(1, least), margin=margin).tolist() == [SENT_BACK] * (
            least - 1
        )
    assert "about 154 where one in ten does" in str(size_note(40, 0.05))
    assert size_note(73, 0.05) is None


def test_a_report_is_plain_data():
    report = measure_alignment(judged(*[GAIN] * 20, *[RIGHT] * 80), margin=0.05, counts={"held out": 100})
    plain = report.to_dict()
    assert plain["decision"] == "better"
    assert plain["agreement"]["difference"]["n"] == 100
    assert plain["traces"][0]["before"]["answer"] == "no"
