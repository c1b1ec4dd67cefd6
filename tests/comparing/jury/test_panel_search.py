"""The best panel is not reported on the data it was chosen on."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from jrh_mlflow.comparing.jury.panels import BestPanel, best_panel, panel_answer
from jrh_mlflow.comparing.jury.votes import VoteTable, halves, votes
from jrh_mlflow.errors import CallsError, RecipeError
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from tests.comparing.jury.jury_tools import erring, error_table


def drawn(rates: dict[str, float], n: int, *, seed: int, prices: dict[str, float] | None = None) -> VoteTable:
    rng = np.random.default_rng(seed)
    return votes(
        {name: erring(rng.random(n) < rate, cost_usd=(prices or {}).get(name)) for name, rate in rates.items()}
    )


def found(table: VoteTable, size: int = 3, **options: object) -> BestPanel:
    best = best_panel(table, size, **options)  # type: ignore[arg-type]
    assert isinstance(best, BestPanel)
    return best


def value(best: BestPanel) -> float:
    assert isinstance(best.accuracy, Estimate)
    return best.accuracy.value


def test_of_equal_judges_the_chosen_trio_looks_too_good_and_the_report_does_not():
    p, n_tables = 0.7, 30
    tables = [error_table(np.random.default_rng(seed).random((120, 7)) > p) for seed in range(n_tables)]
    bests = [found(table, seed=seed) for seed, table in enumerate(tables)]
    reported = np.array([value(best) for best in bests])
    optimism = np.array([best.optimism for best in bests])
    assert optimism.mean() > 0.05
    # Any trio of equal independent judges is right as Condorcet says; three standard errors over the tables.
    known = 3 * p**2 - 2 * p**3
    assert abs(reported.mean() - known) < 3 * reported.std() / np.sqrt(n_tables)
    assert np.mean([best.in_sample for best in bests]) > known + 0.05


def test_clearly_better_judges_are_found_on_either_half_and_named():
    rates = {"a": 0.4, "good 1": 0.1, "b": 0.4, "good 2": 0.1, "good 3": 0.1, "c": 0.4}
    best = found(drawn(rates, 400, seed=0))
    assert best.panel == best.halves[0] == best.halves[1] == ("good 1", "good 2", "good 3")
    assert value(best) == pytest.approx(3 * 0.9**2 - 2 * 0.9**3, abs=0.03)
    assert len(best.tried) == comb(6, 3)
    assert isinstance(best.accuracy, Estimate)
    assert best.accuracy.n == 400


def test_each_half_is_answered_by_the_panel_that_was_chosen_on_the_other():
    table = drawn({f"j{number}": 0.3 for number in range(5)}, 80, seed=2)
    best = found(table, seed=3)
    assert best.halves[0] != best.halves[1]
    right = 0
    for panel, half in zip(best.halves, reversed(halves(table, seed=3)), strict=True):
        answers = panel_answer(table, panel).answer
        right += (answers == table.expected)[half].sum()
    assert value(best) == right / 80


def test_more_panels_than_can_be_tried_are_refused():
    with pytest.raises(RecipeError, match=r"64 judges make 41,664 panels of 3\. Give fewer runs"):
        best_panel(error_table(np.zeros((4, 64), dtype=bool)), 3)


def test_a_dollar_limit_holds_for_every_panel_chosen():
    rates = {"dear": 0.01, "a": 0.2, "b": 0.2, "c": 0.3, "free?": 0.01}
    prices = {"dear": 0.010, "a": 0.001, "b": 0.002, "c": 0.001}
    best = found(drawn(rates, 200, seed=1, prices=prices), max_usd=5)
    assert best.panel == ("a", "b", "c")
    assert best.usd_per_1k == pytest.approx(4.0)
    assert best.unpriced == ("free?",), "a price that is not known is not free"
    rich = found(drawn(rates, 200, seed=1, prices=prices), max_usd=14)
    assert "dear" in rich.panel


def test_equally_right_panels_go_to_the_cheaper():
    rng = np.random.default_rng(0)
    wrong = rng.random(50) < 0.3
    prices = {"a": 3.0, "b": 1.0, "c": 2.0}
    table = votes({name: erring(wrong, cost_usd=price) for name, price in prices.items()})
    assert found(table, 2).panel == ("b", "c")


def test_what_cannot_be_chosen_is_refused_with_the_cheapest_price():
    table = drawn({"a": 0.2, "b": 0.2}, 20, seed=0, prices={"a": 0.001, "b": 0.003})
    with pytest.raises(RecipeError, match=r"at most \$2 per 1,000 judgments: the cheapest costs \$4"):
        best_panel(table, 2, max_usd=2)
    with pytest.raises(RecipeError, match="cannot be chosen from 2"):
        best_panel(table, 3)
    with pytest.raises(RecipeError, match="but got nan"):
        best_panel(table, 1, max_usd=float("nan"))
    with pytest.raises(CallsError, match="two or more sources"):
        best_panel(drawn({"a": 0.2, "b": 0.2}, 1, seed=0), 1)


def test_panels_that_leave_too_many_units_without_an_answer_are_no_candidates():
    table = drawn({"a": 0.2, "b": 0.2}, 40, seed=0)
    lost = erring(np.zeros(40, dtype=bool))
    lost = lost.assign(outcome="error", answer="")
    whole = votes({"a": erring(np.zeros(40, dtype=bool)), "b": lost, "c": erring(np.arange(40) % 4 == 0)})
    assert found(whole, 1).panel == ("a",)
    none = best_panel(votes({"b": lost, "d": lost}), 1)
    assert isinstance(none, NotEstimable)
    assert none.withheld
    assert isinstance(best_panel(table, 1), BestPanel)
