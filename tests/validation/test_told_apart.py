"""Judges told apart, in small: falsely seldom, rightly often."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.validation import told_apart
from tests.validation.loop import SimulationSize, listed
from tests.validation.told_apart import (
    AT_THE_MARGIN,
    CONTESTS,
    DUELS,
    EQUAL_VERSIONS,
    MAX_T,
    SIMULATIONS,
    VERSIONS,
    Duel,
    draw_counts,
    draw_duel,
)

IN_SHORT = SimulationSize(n=150, quick=True)


def test_judges_that_do_not_differ_are_seldom_told_apart_and_those_that_do_often() -> None:
    equal, unlike, better = MAX_T(IN_SHORT)
    assert not any(check.fails for check in (equal, unlike, better))
    # Of the judges of unequal spread, sign flips alone tell most apart falsely; Holm tells four judges apart never.
    assert unlike.measured <= 0.05 < 0.5 < unlike.beside["sign flips alone"]
    assert better.beside["Holm"] == 0 < 0.5 < better.measured
    assert better.measured > better.beside["sign flips alone"] - 0.1


def test_the_result_depends_on_the_seed_alone() -> None:
    def backwards(function, items):
        return list(map(function, items[::-1]))[::-1]

    size = SimulationSize(n=25, quick=True)
    assert MAX_T(size, backwards) == MAX_T(size)


def test_without_limits_it_would_be_seen_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_apart, "share_limit", lambda *_: math.inf)
    assert [check.fails for check in MAX_T(IN_SHORT)] == [False, True, False]


def test_every_stated_contest_is_in_the_full_run() -> None:
    null = [contest for contest in CONTESTS if contest.judged and not contest.better]
    unlike = {(c.n_judges, c.n_tasks, c.rate, c.shape) for c in null if c.iccs == (0.0, 0.6)}
    assert unlike >= set(product((2, 3, 4, 6), (10, 28), (0.1, 0.3, 0.5), ("beta", "all or none")))
    assert {(c.n_judges, c.n_tasks) for c in null if c.iccs == (0.3, 0.3)} >= {(2, 10), (3, 10), (4, 28), (6, 28)}
    assert {c.n_judges for c in CONTESTS if c.better == 0.5 and c.n_tasks == 10} == {2, 3, 4, 6}


def test_what_is_not_promised_is_shown_and_not_judged() -> None:
    odd = [contest for contest in CONTESTS if not contest.judged or contest.alike]
    assert {contest.shape for contest in odd} == {"beta", "q or 1"}
    shown = replace(MAX_T, worlds=listed([odd[0], odd[-1]], quick=()))(SimulationSize(n=100))
    assert [(check.verdict, check.promise) for check in shown] == [("shown", "")] * 2


def test_judges_that_answer_by_the_same_chance_differ_by_no_more_than_their_rates() -> None:
    contest = next(contest for contest in CONTESTS if contest.alike == 0.95)
    rng = np.random.default_rng(0)
    counts = np.array([draw_counts(contest, rng)[..., 0] for _ in range(200)]) / contest.n_calls
    assert counts.mean(axis=(0, 2)) == pytest.approx([0.8, 0.7], abs=0.01)
    assert np.corrcoef(counts[:, 0].ravel(), counts[:, 1].ravel())[0, 1] > 0.6


COVERAGE, AT_MARGIN = SIMULATIONS[2:4]
FEW = SimulationSize(n=100, quick=True)


def test_intervals_cover_where_a_bootstrap_of_ten_tasks_does_not():
    check = COVERAGE(FEW)[-1]
    assert (check.name, check.verdict) == ("difference in its interval", "ok")
    assert check.beside["bootstrap alone"] < 0.93


def test_judges_that_differ_by_the_margin_are_not_called_equivalent():
    (check,) = AT_MARGIN(FEW)
    assert check.name == "equivalent falsely"
    assert check.measured <= 0.05


def test_an_equivalence_that_asks_for_nothing_is_seen_to_fail(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(told_apart, "is_equivalent", lambda ends, margin: True)
    assert AT_MARGIN(FEW)[0].fails


@pytest.mark.parametrize("duel", [*DUELS[:2], AT_THE_MARGIN[3]], ids=str)
def test_duels_have_the_rates_they_state(duel: Duel):
    rng = np.random.default_rng(0)
    shares = np.mean([[draw_duel(duel, rng).scores[name].mean() for name in "ab"] for _ in range(300)], axis=0)
    assert shares == pytest.approx(duel.rates, abs=0.02)


@pytest.mark.slow
def test_equal_judges_of_which_one_loses_hits_are_told_apart_by_the_answers_that_came_alone() -> None:
    (row,) = SIMULATIONS[-1](SimulationSize(n=250, seed=5, quick=True))
    assert (row.promise, row.fails) == ("at most 0.05", False)
    assert row.beside["by the answers that came"] > 0.2


def test_equal_versions_of_an_application_pass_alike_on_shared_items() -> None:
    (verdicts, labels), rng = EQUAL_VERSIONS[0].drawn(np.random.default_rng(0)), np.random.default_rng(0)
    drawn = np.array([part["judge"] for part in EQUAL_VERSIONS[0].drawn(rng)[0].values()])
    assert drawn.mean() == pytest.approx(0.7 * 0.9 + 0.3 * 0.2, abs=0.04)
    assert all((labels[name]["judge"] == verdicts[name]["judge"][:100]).all() for name in verdicts)
    (row,) = replace(VERSIONS, worlds=listed(EQUAL_VERSIONS[:1], quick=()), batch=2)(SimulationSize(n=80))
    assert (row.n, row.fails) == (2, False)
