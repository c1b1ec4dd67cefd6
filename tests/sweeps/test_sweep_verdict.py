"""What a sweep recommends: nothing that breaks a constraint, nothing that so few tasks cannot tell."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.measures.composite import Tally, ability_tally, item_decisions, reliability
from jrh_mlflow.sweeps.front import Member
from jrh_mlflow.sweeps.space import Configuration, Space
from jrh_mlflow.sweeps.sweep_verdict import FEW_TASKS, few_tasks, sweep_verdict
from jrh_mlflow.sweeps.trials import TrialResult
from tests.comparing.comparing_tools import blind, claim, coin, honest, pair_calls

N_CALLS = 10


def configurations(*names: str) -> list[Configuration]:
    space = Space(choices={"model": list(names)}, judge=lambda choice: None, orders=["one"])
    return sorted(space.configurations(pair=True), key=lambda each: names.index(each.params["model"]))


def counted(half: str, share: float, n_tasks: int, *, cell: str = "sensitivity", seed: int = 0) -> Tally:
    luck = np.random.default_rng(seed)
    hits = luck.binomial(N_CALLS, share, size=(n_tasks, 1)).astype(float)
    tasks = tuple(f"{half}-{index:03}" for index in range(n_tasks))
    return Tally(cells=(cell,), tasks=tasks, hits=hits, sizes=np.full(hits.shape, float(N_CALLS)), excluded=(0,))


def members(shares: dict[str, float], *, n_tasks: int = 60, usd: dict[str, float] | None = None) -> list[Member]:
    made = []
    for place, (configuration, (name, share)) in enumerate(zip(configurations(*shares), shares.items(), strict=True)):
        halves = {
            half: TrialResult(
                key=configuration.key,
                run_id=name,
                tally=counted(half, share, n_tasks // 2, seed=place),
                usd_per_1k=(usd or {}).get(name, 1.0),
                n_calls=1,
                values={"dark_current/rate": 0.4},
            )
            for half in ("search", "holdout")
        }
        more = {"probability": None, "tie": None, "on_front": True}
        made.append(Member(configuration=configuration, **halves, **more))
    return made


def said(found: list[Member], *, n_tasks: int = 60, constraints: tuple[str, ...] = ()) -> tuple[str, ...]:
    return sweep_verdict(found, constraints=constraints, n_tasks=n_tasks).sentences


def test_what_is_told_to_be_the_most_reliable_is_recommended_with_both_numbers_and_prices():
    first, price = said(members({"good": 0.9, "bad": 0.4}, usd={"good": 2.0, "bad": 1.0}))
    assert re.match(
        r"Use #1 good, because its reliability is 0\.[89]\d \[.*\], against 0\.\d\d \[.*\] for #2 bad", first
    )
    assert "$2.00 per 1,000 judgments" in price


def test_a_cheaper_one_that_loses_next_to_nothing_is_recommended():
    alike = members({"dear": 0.9, "cheap": 0.9}, n_tasks=200, usd={"dear": 5.0, "cheap": 1.0})
    # The same answers, so that the difference is 0 with a narrow interval.
    same = [replace(each, holdout=replace(each.fair, tally=alike[0].fair.tally)) for each in alike]
    (first,) = said(same, n_tasks=200)
    assert first.startswith("Use #2 cheap (reliability 0.8")


def test_what_nothing_tells_apart_is_named_with_the_loss_that_may_be_and_the_tasks_that_would_tell():
    close = members({"dear": 0.62, "cheap": 0.58}, n_tasks=24, usd={"dear": 5.0, "cheap": 1.0})
    (first,) = said(close, n_tasks=24)
    assert first.startswith("No difference ")
    assert re.search(r"about [\d,]+ tasks .* 0\.10", first)


def test_six_tasks_recommend_nothing_and_say_so():
    few = members({"dear": 0.7, "cheap": 0.4}, n_tasks=6, usd={"dear": 5.0, "cheap": 1.0})
    (first, *_) = said(few, n_tasks=6)
    assert first.startswith("6 tasks are too few to recommend")
    assert "Use" not in first


def test_where_no_configuration_keeps_the_constraints_that_is_the_sentence():
    found = members({"good": 0.9, "bad": 0.4})
    broken = [replace(each, holdout=replace(each.fair, feasible=False)) for each in found]
    first, numbers = said(broken, constraints=("dark_current/rate <= 0.1",))
    assert first.startswith("Use none of them")
    assert "dark_current/rate <= 0.1" in first
    assert "dark_current/rate 0.40" in numbers


def test_one_that_breaks_a_constraint_is_not_named_where_another_keeps_it():
    good, bad = members({"good": 0.9, "bad": 0.4})
    first, *more = said([replace(good, holdout=replace(good.fair, feasible=False)), bad], constraints=("x <= 1",))
    assert first.startswith("Use #2 bad")
    assert not any("good" in line for line in (first, *more))
    assert more[-1].startswith("One configuration keeps")


def test_several_that_break_a_constraint_are_counted_in_a_sentence_of_several():
    *broken, kept = members({"a": 0.9, "b": 0.8, "c": 0.7})
    found = [*(replace(each, holdout=replace(each.fair, feasible=False)) for each in broken), kept]
    *_, last = said(found, constraints=("x <= 1",))
    assert last.startswith("2 configurations keep")
    assert not {"it", "breaks"} & set(last.split())


def test_a_constraint_that_none_keeps_where_it_was_searched_is_the_sentence():
    found = [replace(each, holdout=None, search=replace(each.search, feasible=False)) for each in members({"a": 0.9})]
    (first,) = said(found, constraints=("dark_current/rate <= 0.1",))
    assert first.startswith("Use none of them")
    assert "dark_current/rate <= 0.1" in first


def test_a_cheaper_one_that_broke_a_constraint_is_not_denied():
    (alone,) = members({"good": 0.9})
    free, limited = said([alone]), said([alone], constraints=("x <= 1",))
    assert free != limited
    assert "limits" in limited[0]


def test_a_configuration_that_is_told_to_be_less_able_is_not_recommended():
    def able(share: float, seed: int) -> Tally:
        return counted("any", share, 30, cell="ability", seed=seed)

    reliable, sees = members({"reliable": 0.9, "sees": 0.7})
    pairs = [(reliable, able(0.5, 1)), (sees, able(0.95, 2))]
    found = [
        replace(each, search=replace(each.search, ability=tally), holdout=replace(each.fair, ability=tally))
        for each, tally in pairs
    ]
    first, veto = said(found)
    assert first.startswith("Use #2 sees")
    assert veto.startswith(f"Not #1 reliable: it {claim('ability')} 0.5")


def test_nothing_held_out_is_no_answer():
    (first,) = said([replace(each, holdout=None) for each in members({"good": 0.9})])
    assert first.startswith("No answer yet")


def test_ability_of_decisions_counts_ties_by_half_and_survives_json():
    for judge, value in ((blind, 0.5), (honest, 1.0)):
        tally = ability_tally(item_decisions(pair_calls(judge)))
        assert tally is not None
        assert tally.value == value
        assert Tally.from_dict(tally.to_dict()).value == value
        assert isinstance(reliability(tally), jrh.Estimate)
    # Orders that disagree are a tie, so a coin under the policy `both` is about half as well.
    luck = ability_tally(item_decisions(pair_calls(coin)))
    assert luck is not None
    assert 0.3 < luck.value < 0.7


@pytest.mark.parametrize(("n_tasks", "told"), [(4, True), (12, True), (FEW_TASKS - 1, True), (FEW_TASKS, False)])
def test_a_small_suite_is_told_beforehand_what_it_will_not_tell(n_tasks, told):
    notes = few_tasks(jrh.datasheet_suite(n_tasks=n_tasks, depth=1))
    assert bool(notes) == told
    if n_tasks == 12:
        (size,) = re.findall(r"reliability of (0\.\d\d) or more is found in 4 of 5 cases", notes[0])
        assert 0.2 < float(size) < 1
    if n_tasks == 4:
        assert "however large" in notes[0]


def test_back_quotes_of_a_label_make_no_code():
    first, price = said(members({"`good`": 0.9, "`bad`": 0.4}))
    assert "`" not in first + price
    assert first.startswith("Use #1 ˋgoodˋ, ")
