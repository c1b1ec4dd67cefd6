"""Tests of change: p-values that are uniform, bets that stay poor while nothing changes, intervals that hold."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import special, stats

from jrh_mlflow.stats.drift import (
    Bets,
    PanelTests,
    WatchedAxis,
    alarm_threshold,
    change_interval,
    detectable_change,
    deviation_bound,
    look_score,
    moved_p,
    moved_since,
    rarity,
    undiluted,
)

YES_NO = np.array([[[0, 1]]])


def test_the_p_of_a_look_is_that_of_every_way_to_draw_the_newest_from_the_bags() -> None:
    bags = np.array([[[5.0, 2.0], [6.0, 1.0], [1.0, 6.0]]])
    newest = np.array([[1, 1, 0]])
    draws = product((0, 1), repeat=3)
    chance = {draw: math.prod(bags[0, item, code] / 7 for item, code in enumerate(draw)) for draw in draws}
    below = sum(p for draw, p in chance.items() if sum(draw) < 2)
    equal = sum(p for draw, p in chance.items() if sum(draw) == 2)
    for uniform in (0.0, 0.3, 1.0):
        score = look_score(YES_NO, bags, newest, np.array([uniform]))
        assert special.ndtr(score.z[0]) == pytest.approx(below + uniform * equal)
    assert score.variance[0] == pytest.approx(2 * 5 / 49 + 2 * 6 / 49)


def test_a_bag_without_variety_says_nothing_and_a_lost_answer_is_left_out() -> None:
    bags = np.array([[[7.0, 0.0], [6.0, 1.0]]])
    alone = look_score(YES_NO, bags[:, 1:], np.array([[1]]), np.array([0.5]))
    with_lost = look_score(YES_NO, bags, np.array([[-1, 1]]), np.array([0.5]))
    same = look_score(YES_NO, bags[:, :1], np.array([[0]]), np.array([0.25]))
    assert with_lost.z == pytest.approx(alone.z)
    assert special.ndtr(same.z[0]) == pytest.approx(0.25)


def test_p_values_are_uniform_and_independent_over_looks_while_nothing_changes() -> None:
    rng, n = np.random.default_rng(0), 1500
    axis = WatchedAxis(name="yes", items=np.arange(5), levels=np.tile([0, 1], (5, 1)))
    chances, counts, scores = rng.random((n, 5)), np.zeros((n, 5, 2)), []
    for ask in range(6):
        answers = (rng.random((n, 5)) < chances).astype(np.intp)
        counts += np.eye(2)[answers]
        if ask >= 2:
            scores.append(special.ndtr(look_score(axis.levels[None], counts, answers, rng.random(n)).z))
    for p in scores:
        assert stats.kstest(p, "uniform").pvalue > 0.001
    assert np.abs(np.corrcoef(scores) - np.eye(4)).max() < 0.1


def test_the_wealth_is_the_mixture_by_its_definition() -> None:
    z = np.random.default_rng(1).normal(0.5, 1, 4)
    bets = Bets(n_reference=6)
    last = [bets.bet(np.array([value]))[0] for value in z][-1]
    total = 1 / 5
    for start in range(1, 5):
        for size in (0.15, 0.4, 1.0, 2.0, 3.5, -0.15, -0.4, -1.0, -2.0, -3.5):
            own = [size * undiluted(np.array([start]), look, 6)[0] for look in range(start, 5)]
            won = sum(a * x - a * a / 2 for a, x in zip(own, z[start - 1 :], strict=True))
            total += math.exp(won) / 10 / (start * (start + 1))
    assert last == pytest.approx(math.log(total))


def test_the_look_of_a_change_is_found() -> None:
    bets = Bets(2, n_reference=6)
    for look in range(1, 31):
        bets.bet(np.array([3.0 if look >= 20 else 0.0, -3.0 if look >= 5 else 0.0]))
    assert abs(bets.began() - [20, 5]).max() <= 1


def test_an_answer_that_nobody_gave_before_is_the_rarest() -> None:
    assert rarity(np.array([[[7.0, 0.0, 0.0], [6.0, 1.0, 0.0]]]))[0].tolist() == [[0, 4, 4], [1, 3, 4]]


def test_an_answer_without_a_score_is_in_no_bag_of_the_axis() -> None:
    unread = WatchedAxis(name="yes", items=np.arange(1), levels=np.array([[0, 1, -1]]))
    plain = WatchedAxis(name="yes", items=np.arange(1), levels=np.array([[0, 1, 0]]))
    tests = [PanelTests([axis], 3, n_items=1, n_reference=3) for axis in (unread, plain)]
    for own, asks in zip(tests, ([0, 1, 2], [0, 1, -1]), strict=True):
        for code in asks:
            own.refer(np.array([[code]]))
    wealth = [own.look(np.array([[1]]), np.array([[0.5]])) for own in tests]
    assert wealth[0] == pytest.approx(wealth[1])


def test_a_change_in_an_axis_alarms_on_it_and_by_the_answers_but_not_beside() -> None:
    items = np.arange(28)
    axes = [
        WatchedAxis(name="moved", items=items, levels=np.tile([0, 1], (28, 1))),
        WatchedAxis(name="beside", items=items + 28, levels=np.tile([0, 1], (28, 1))),
        WatchedAxis(name="any", items=np.arange(56), levels=None),
    ]
    tests, rng = PanelTests(axes, 2, n_items=56, n_reference=6), np.random.default_rng(3)
    before = np.zeros((1, 56), dtype=np.intp)
    after = before.copy()
    after[0, :6] = 1
    for _ in range(6):
        tests.refer(before)
    for _ in range(3):
        tests.look(before, rng.random((3, 1)))
    wealth = [tests.look(after, rng.random((3, 1)))[:, 0] for _ in range(4)][-1]
    assert wealth[0] > alarm_threshold(3) < wealth[2]
    assert wealth[1] < alarm_threshold(3)
    assert tests.bets["moved"].began()[0] == 4


def test_more_looks_see_smaller_changes_and_noise_hides_them() -> None:
    def seen(looks: int, noise: float) -> float:
        return detectable_change(28, noise, looks, n_reference=6, threshold=alarm_threshold(4)) or 2.0

    assert seen(1, 0.1) > seen(5, 0.1) > seen(20, 0.1) > seen(20, 0.01)
    assert detectable_change(28, 0.2, 0, n_reference=6, threshold=alarm_threshold(4)) is None


def test_the_interval_of_a_change_holds_at_every_look_and_for_every_start() -> None:
    rng, wrong, n = np.random.default_rng(5), 0, 40
    for _ in range(n):
        truth, items = 0.15, rng.beta(1, 2, 28)
        scores = [(rng.random(28) < items).astype(float) for _ in range(6)]
        scores += [(rng.random(28) < np.minimum(items + truth, 1)).astype(float) for _ in range(25)]
        shift = float((np.minimum(items + truth, 1) - items).mean())
        table = np.array(scores)
        guess = np.vstack([np.full(28, 0.5), np.cumsum(table, axis=0)[:-1] / np.arange(1, len(table))[:, None]])
        spread = ((table - guess) ** 2).sum(axis=1)
        before = (table[:6].sum(), 6 * 28, spread[:6].sum())
        ends = [
            change_interval(before, (table[6:look].sum(), (look - 6) * 28, spread[6:look].sum()), start=1)
            for look in range(7, 32)
        ]
        wrong += any(not low <= shift <= high for low, high in ends)
    assert wrong / n <= 0.05
    # A bound for one moment alone would be 1.96 standard errors.
    assert 1.96 * math.sqrt(100) < deviation_bound(100.0, 0.05) < 2 * 1.96 * math.sqrt(100)


def test_sessions_are_compared_by_the_answers_of_the_same_look() -> None:
    rng = np.random.default_rng(0)
    old = [(rng.random(50) < (0.9 if look < 5 else 0.2)).astype(float) for look in range(10)]
    alike = [(rng.random(30) < (0.9 if look < 5 else 0.2)).astype(float) for look in range(10)]
    worse = [*alike[:5], *(np.zeros(30) for _ in range(5))]
    moved = [(rng.random(30) < (0.9 if look < 5 else 0.1)).astype(float) for look in range(10)]
    steady = [old[0]] * 10
    assert moved_since(old, alike) is None
    assert moved_since(steady, moved) == 6
    assert moved_since(steady, worse) == 6
    assert moved_since([], []) is None


def test_groups_without_variety_have_a_p_all_the_same() -> None:
    assert moved_p(np.ones(50), np.ones(30)) == 1.0
    assert moved_p(np.ones(50), np.zeros(30)) < 1e-10
    assert moved_p(np.ones(50), np.zeros(1)) == 1.0
