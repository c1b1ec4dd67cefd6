"""Decisions on simulated judges: a promise that is missed is named; `jrh validate --only decisions` runs all."""

from __future__ import annotations

import pytest

from jrh_mlflow.evaluation.decision_checks import number_check, share_check


@pytest.mark.parametrize(
    ("hits", "verdict"),
    [(50, "ok"), (0, "ok"), (70, "ok within the error of the draws"), (72, "FAILS: over 0.05")],
)
def test_a_share_over_its_promise_fails_when_three_standard_errors_do_not_explain_it(hits: int, verdict: str) -> None:
    check = share_check("told apart falsely", "ten tasks", hits, 1000, at_most=0.05, beside={"Holm": 0.0})
    assert check.verdict == verdict
    assert check.fails == verdict.startswith("FAILS")
    assert "told apart falsely, ten tasks" in str(check)


@pytest.mark.parametrize(("hits", "fails"), [(950, False), (930, False), (929, True)])
def test_a_share_under_its_promise_fails_the_same_way(hits: int, fails: bool) -> None:
    assert share_check("passed", "perfect", hits, 1000, at_least=0.95).fails is fails


def test_what_has_no_promise_is_shown_and_never_fails() -> None:
    check = share_check("told apart rightly", "ten tasks", 3, 1000)
    assert (check.verdict, check.promise, check.fails) == ("shown", "", False)


def test_two_promises_for_one_number_are_refused() -> None:
    with pytest.raises(ValueError, match="One promise per check"):
        number_check("width", "ten tasks", 1.0, 0.1, 10, at_most=1.1, at_least=0.9)
