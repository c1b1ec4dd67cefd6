"""What each kind of test expects of an answer."""

from __future__ import annotations

from jrh_mlflow.scoring.expectations import FallsWithDose
from tests.measures.pointwise import doses, number, point, reading, reason, report


def test_error_doses_should_lower_the_answer_and_never_raise_it():
    said = {
        "falls": ["5", "4", "4", "2"],
        "rises again": ["5", "3", "4", "2"],
        "flat": ["5", "5", "5", "5"],
        "abstains": ["5", "4", "abstain", "2"],
        "lost": ["5", "4", "error", "2"],
    }
    found = report(doses(said), labels=["1", "2", "3", "4", "5"])
    one = reading(found, "error_injection/monotone")
    assert (one.numerator, one.n, one.excluded) == (1, 4, 1)
    assert [number(found, f"error_injection_{dose}/decline") for dose in (1, 2, 3)] == [4 / 5, 2 / 4, 4 / 5]
    assert list(found.scores) == ["error_injection"]
    assert found.tests == ("error_injection_1", "error_injection_2", "error_injection_3")
    assert "error_injection_1/accuracy" not in found.estimates


def test_a_tenth_dose_comes_after_the_ninth():
    answers = ["12", *(str(level) for level in range(11, 1, -1))]
    found = report(doses({"a": answers, "b": answers}))
    assert number(found, "error_injection/monotone") == 1


def test_error_doses_need_the_order_of_the_labels():
    found = report(doses({"a": ["fine", "poor", "poor", "poor"]}))
    for axis in ("error_injection/monotone", "error_injection_1/decline"):
        assert "pass labels=" in reason(found, axis).reason
    ordered = report(doses({"a": ["fine", "poor", "poor", "poor"]}), labels=["poor", "5", "fine"])
    assert number(ordered, "error_injection/monotone") == 1


def test_sources_at_the_lowest_label_leave_the_error_doses_whatever_the_judge_says():
    rows = [*doses({"a": ["5", "4", "4", "2"], "b": ["5", "5", "5", "5"]})]
    own = [point("baseline", "3", "1", source="c"), *doses({"c": ["3", "2", "2", "2"]})[1:]]
    low = [point("baseline", "1", "1", source="d"), *doses({"d": ["1", "1", "1", "1"]})[1:]]
    found = report([*rows, *own, *low], labels=["1", "2", "3", "4", "5"])
    one = reading(found, "error_injection/monotone")
    assert (one.value, one.n, one.excluded) == (0.5, 2, 0)
    assert reading(found, "error_injection_3/decline").n == 2
    unknown = report([*rows, *own, *low])
    assert reading(unknown, "error_injection/monotone").n == 4, "the lowest label seen need not be the lowest there is"
    assert reading(unknown, "error_injection_3/decline").n == 4
    none = report(low, labels=["1", "2", "3", "4", "5"])
    assert reason(none, "error_injection/monotone").reason.endswith("whose own label is above the lowest")


def test_a_right_judge_goes_down_one_label_for_each_dose_and_stays_at_the_lowest():
    right = [FallsWithDose("falls").right_answer("3", ["1", "2", "3", "4"], dose) for dose in ("0", "1", "2", "3")]
    assert right == ["3", "2", "1", "1"]
