"""Judges and applications at the limit: seldom decided wrongly, and a bad interval or rule would be seen."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from jrh_mlflow.measures.rules import share_ends
from jrh_mlflow.people import passed
from jrh_mlflow.stats import Mask
from jrh_mlflow.stats.corrected_rates import FailureCounts
from jrh_mlflow.stats.proportions import newcombe, wilson
from tests.validation import at_the_limit
from tests.validation.at_the_limit import (
    APPLICATIONS,
    BASELINES,
    EARLIER,
    ELSEWHERE,
    GATES,
    LOOKS,
    LOSSES,
    PASSES,
    AtTheLimit,
    Verdicts,
    best_power,
)
from tests.validation.loop import DecisionCheck, SimulationSize, listed
from tests.validation.parts import DECISIONS

IN_SHORT = SimulationSize(n=1000, quick=True)


@pytest.fixture(scope="module")
def checks() -> list[DecisionCheck]:
    return [check for simulation in GATES for check in simulation(IN_SHORT, map)]


def test_a_judge_at_the_limit_is_decided_wrongly_in_at_most_five_of_a_hundred_runs(checks):
    assert [check.name.split()[0] for check in checks] == ["axis"] * 4 + ["difference", "holds", "decided"]
    assert all(check.verdict == "ok" for check in checks)
    assert all(check.measured > 0 for check in checks[:4])
    assert all(check.measured == max(check.beside[state] for state in ("holds", "fails")) for check in checks[:5])


def test_intervals_that_take_calls_as_independent_would_be_seen_to_fail(monkeypatch):
    def by_call(counts):
        (a, n), (b, m) = ((int(hits.sum()), int(sizes.sum())) for hits, sizes in counts)
        return newcombe(b / m, wilson(b, m), a / n, wilson(a, n))

    monkeypatch.setattr(at_the_limit, "share_ends", by_call)
    (check,) = BASELINES(IN_SHORT, map)
    assert check.fails


def test_judges_are_drawn_at_their_rates_and_go_together_as_said():
    for together in (-1, 0, 1):
        pair = AtTheLimit(rate=0.5, baseline=0.3, n_tasks=10, iccs=(0.6, 0.6), together=together)
        judge, baseline = pair.drawn(np.random.default_rng(1), 500)
        assert judge.mean() / 6 == pytest.approx(0.5, abs=0.02)
        assert baseline.mean() / 6 == pytest.approx(0.3, abs=0.02)
        assert np.corrcoef(judge.ravel(), baseline.ravel())[0, 1] * (together or 1) > (0.6 if together else -0.1)


def test_the_interval_of_the_gate_is_the_one_that_is_validated():
    counts = [(np.array([1.0, 2, 0]), np.full(3, 4.0)), (np.array([2.0, 2, 1]), np.full(3, 4.0))]
    low, high = share_ends(counts)
    back = share_ends(counts[::-1])
    assert (low, high) == pytest.approx((-back[1], -back[0]))


def applications(n: int = 250) -> dict[str, DecisionCheck]:
    size = SimulationSize(n=n, quick=True)
    return {check.name: check for simulation in PASSES for check in simulation(size, map)}


def test_a_perfect_application_passes_and_one_at_the_limit_does_not() -> None:
    found = applications()
    assert [check.name for check in found.values() if check.fails] == []
    assert found["passed at the limit"].measured <= 0.05 + 3 * found["passed at the limit"].error
    assert found["failed at the limit"].measured <= 0.05 + 3 * found["failed at the limit"].error
    perfect = found["perfect application passed"]
    assert perfect.measured >= 0.95
    assert perfect.beside["every row passed"] == pytest.approx(0.95**50, abs=0.03)


def test_a_rule_that_takes_the_judge_at_its_word_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_the_judge_alone(theta: float, counts: FailureCounts) -> Mask:
        return np.asarray(counts.failed) / counts.rows <= theta

    monkeypatch.setattr(at_the_limit, "too_few", by_the_judge_alone)
    assert {name for name, check in applications(200).items() if check.fails} == {
        "passed at the limit",
        "failed at the limit",
    }


@pytest.mark.parametrize("drawn", ["at random", "within labels"])
def test_labels_are_drawn_at_random_or_as_many_of_each_kind(drawn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = []

    def note(theta: float, counts: FailureCounts) -> Mask:
        kinds.append(counts.failures if theta < 0.5 else counts.passes)
        return np.zeros(np.shape(counts.failed), dtype=bool)

    monkeypatch.setattr(at_the_limit, "too_few", note)
    replace(APPLICATIONS, worlds=listed([Verdicts(found=0.9, drawn=drawn)], quick=()))(SimulationSize(n=50))
    assert (len(set(kinds)) > 5) == (drawn == "at random")
    assert np.mean(kinds) == pytest.approx(100, abs=5)


def test_labels_with_easier_failures_pass_too_much_without_the_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    def check() -> DecisionCheck:
        (row,) = replace(ELSEWHERE, worlds=listed([EARLIER[4]], quick=()))(SimulationSize(n=1600, seed=2))
        return row

    assert check().measured <= 0.05
    monkeypatch.setattr(passed, "_MISSED_MORE", 0.0)
    assert check().measured > 0.1


def test_labels_of_elsewhere_and_conversations_are_validated() -> None:
    assert {(world.at_random, world.icc) for world in EARLIER} == set(product((True, False), (0.0, 0.1, 0.3, 0.6)))


def test_it_is_part_of_the_decisions_that_are_validated() -> None:
    assert set(PASSES) <= set(DECISIONS.simulations)


def test_what_no_rule_can_reach_falls_with_fewer_labels_and_is_what_a_known_judge_allows() -> None:
    few, more = (best_power(Verdicts(found=0.8, failing=failing)) for failing in (0.05, 0.1))
    # Neyman and Pearson's test where the judge is known: at most 5 failed rows of 50, and some of those with 6.
    at_limit, perfect = (binom(50, rate) for rate in (0.2, 0.05))
    known = perfect.cdf(5) + (0.05 - at_limit.cdf(5)) / at_limit.pmf(6) * perfect.pmf(6)
    assert few < 0.95 < more < known


def test_a_judge_that_loses_its_hits_does_not_hold_and_looks_keep_their_error() -> None:
    rows = [row for simulation in (LOSSES, LOOKS) for row in simulation(SimulationSize(n=200, seed=5, quick=True))]
    assert [row.promise for row in rows] == ["at most 0.05"] * 2
    assert not any(row.fails for row in rows)
    assert rows[1].beside["at 95 % each time"] >= rows[1].measured
