"""Judges told apart, in small: falsely seldom, rightly often."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.validation import told_apart
from tests.validation.loop import SimulationSize
from tests.validation.told_apart import (
    AT_THE_MARGIN,
    CONTESTS,
    COVERAGE,
    DUELS,
    EQUAL_VERSIONS,
    LOSSES,
    MARGINS,
    MAX_T,
    VERSIONS,
    draw_counts,
    draw_duel,
)

IN_SHORT = SimulationSize(n=150, quick=True)
FEW = SimulationSize(n=100, quick=True)


def test_judges_that_do_not_differ_are_seldom_told_apart_and_those_that_do_often():
    equal, unlike, better = MAX_T(IN_SHORT)
    assert not any(check.fails for check in (equal, unlike, better))
    # Of judges of unequal spread sign flips tell most apart falsely; Holm tells four apart never.
    assert unlike.measured <= 0.05 < 0.5 < unlike.beside["sign flips alone"]
    assert better.beside["Holm"] == 0 < 0.5 < better.measured
    assert better.measured > better.beside["sign flips alone"] - 0.1


def test_without_limits_it_would_be_seen_to_fail(monkeypatch):
    monkeypatch.setattr(told_apart, "share_limit", lambda *_: math.inf)
    assert [check.fails for check in MAX_T(IN_SHORT)] == [False, True, False]


def test_what_is_not_promised_is_shown_and_not_judged():
    odd = [contest for contest in CONTESTS if contest.limit is None or contest.alike]
    assert {contest.shape for contest in odd} == {"beta", "q or 1"}
    shown = replace(MAX_T, worlds=[odd[0], odd[-1]])(SimulationSize(n=100))
    assert [(check.verdict, check.promise) for check in shown] == [("shown", "")] * 2


def test_judges_that_answer_by_the_same_chance_differ_by_no_more_than_their_rates():
    contest = next(contest for contest in CONTESTS if contest.alike == 0.95)
    rng = np.random.default_rng(0)
    counts = np.array([draw_counts(contest, rng)[..., 0] for _ in range(200)]) / contest.n_calls
    assert counts.mean(axis=(0, 2)) == pytest.approx([0.8, 0.7], abs=0.01)
    assert np.corrcoef(counts[:, 0].ravel(), counts[:, 1].ravel())[0, 1] > 0.6


def test_intervals_cover_where_a_bootstrap_of_ten_tasks_does_not():
    (check,) = COVERAGE(FEW)
    assert check.verdict == "ok"
    assert check.beside["bootstrap alone"] < 0.93


def test_judges_that_differ_by_the_margin_are_seldom_called_equivalent(monkeypatch):
    (check,) = MARGINS(FEW)
    assert check.measured <= 0.05
    monkeypatch.setattr(told_apart, "is_equivalent", lambda ends, margin: True)
    assert MARGINS(FEW)[0].fails


@pytest.mark.parametrize("duel", [*DUELS[:2], AT_THE_MARGIN[3]], ids=str)
def test_duels_have_the_rates_they_state(duel):
    rng = np.random.default_rng(0)
    tables = [draw_duel(duel, rng) for _ in range(300)]
    shares = [np.mean([table.scores[name].mean() for table in tables]) for name in "ab"]
    assert shares == pytest.approx(duel.rates, abs=0.02)


@pytest.mark.slow
def test_equal_judges_of_which_one_loses_hits_are_told_apart_by_the_answers_that_came_alone():
    (row,) = LOSSES(SimulationSize(n=250, seed=5, quick=True))
    assert (row.promise, row.fails) == ("at most 0.05", False)
    assert row.beside["by the answers that came"] > 0.2


def test_equal_versions_of_an_application_pass_alike_and_are_not_told_apart():
    verdicts, labels = EQUAL_VERSIONS[0].drawn(np.random.default_rng(0))
    shares = [table["judge"].mean() for table in verdicts.values()]
    assert np.mean(shares) == pytest.approx(0.7 * 0.9 + 0.3 * 0.2, abs=0.04)
    for name, table in labels.items():
        assert (table["judge"] == verdicts[name]["judge"][:100]).all()
    (row,) = replace(VERSIONS, worlds=EQUAL_VERSIONS[:1], batch=2)(SimulationSize(n=80))
    assert (row.n, row.fails) == (2, False)
