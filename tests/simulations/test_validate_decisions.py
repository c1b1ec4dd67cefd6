"""Decisions on simulated judges: a promise that is missed is named; `jrh validate --only decisions` runs all."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from jrh_mlflow.simulations import validate_max_t
from jrh_mlflow.simulations.decision_checks import SimulationSize, number_check, share_check
from jrh_mlflow.simulations.validate_max_t import CONTESTS, check_max_t


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


IN_SHORT = SimulationSize(n=150, quick=True)


def test_judges_that_do_not_differ_are_seldom_told_apart_and_those_that_do_often() -> None:
    equal, unlike, better = check_max_t(IN_SHORT, map)
    assert not any(check.fails for check in (equal, unlike, better))
    # Of the judges of unequal spread, sign flips alone tell most apart falsely; Holm tells four judges apart never.
    assert unlike.measured <= 0.05 < 0.5 < unlike.beside["sign flips alone"]
    assert better.beside["Holm"] == 0 < 0.5 < better.measured
    assert better.measured > better.beside["sign flips alone"] - 0.1


def test_the_result_depends_on_the_seed_alone() -> None:
    def backwards(function, items):
        return list(map(function, items[::-1]))[::-1]

    assert check_max_t(SimulationSize(n=25, quick=True), backwards) == check_max_t(
        SimulationSize(n=25, quick=True), map
    )


def test_without_limits_it_would_be_seen_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate_max_t, "share_limit", lambda *_: math.inf)
    assert [check.fails for check in check_max_t(IN_SHORT, map)] == [False, True, False]


def test_every_stated_contest_is_in_the_full_run() -> None:
    null = [contest for contest in CONTESTS if contest.judged and not contest.better]
    unlike = {(c.n_judges, c.n_tasks, c.rate, c.shape) for c in null if c.iccs == (0.0, 0.6)}
    assert unlike >= set(product((2, 3, 4, 6), (10, 28), (0.1, 0.3, 0.5), ("beta", "all or none")))
    assert {(c.n_judges, c.n_tasks) for c in null if c.iccs == (0.3, 0.3)} >= {(2, 10), (3, 10), (4, 28), (6, 28)}
    assert {c.n_judges for c in CONTESTS if c.better == 0.5 and c.n_tasks == 10} == {2, 3, 4, 6}


def test_what_is_not_promised_is_shown_and_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = [contest for contest in CONTESTS if not contest.judged or contest.alike]
    assert {contest.shape for contest in odd} == {"beta", "q or 1"}
    monkeypatch.setattr(validate_max_t, "CONTESTS", [odd[0], odd[-1]])
    shown = check_max_t(SimulationSize(n=100), map)
    assert [(check.verdict, check.promise) for check in shown] == [("shown", "")] * 2


def test_judges_that_answer_by_the_same_chance_differ_by_no_more_than_their_rates() -> None:
    contest = next(contest for contest in CONTESTS if contest.alike == 0.95)
    rng = np.random.default_rng(0)
    counts = np.array([validate_max_t.draw_counts(contest, rng)[..., 0] for _ in range(200)]) / contest.n_calls
    assert counts.mean(axis=(0, 2)) == pytest.approx([0.8, 0.7], abs=0.01)
    assert np.corrcoef(counts[:, 0].ravel(), counts[:, 1].ravel())[0, 1] > 0.6
