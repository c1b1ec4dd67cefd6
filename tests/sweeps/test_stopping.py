"""The stop rule: never wrong more often than it says, and quick where the difference is large."""

from __future__ import annotations

import random

import pytest

from jrh_mlflow.schema.items import CallRecord, Item
from jrh_mlflow.sweeps.space import Policy
from jrh_mlflow.sweeps.trials import DominatedStop, Rival

POLICY = Policy(replicates=1, vote="majority", orders="both")


def items(n: int, *, condition: str = "natural", **given: object) -> list[Item]:
    return [Item(id=f"{condition}-{k}", task=f"t{k}", condition=condition, better="u", **given) for k in range(n)]


def records(item: Item, *, right: bool, usd: float | None = 1e-3, outcome: str | None = None) -> list[CallRecord]:
    facts = {"suite_item": item.id, "task": item.task, "condition": item.condition, "delta": item.delta, "replicate": 0}
    answers = {"uv": "1" if right else "2", "vu": "2" if right else "1"}
    return [
        CallRecord(
            **facts,
            order=order,
            better="u",
            outcome=outcome or "verdict",
            answer="" if outcome else answer,
            expected="",
            cost_usd=usd,
        )
        for order, answer in answers.items()
    ]


def run(rule: DominatedStop, right: dict[str, bool], **given: object) -> str | None:
    for item in rule.items:
        for record in records(item, right=right[item.id], **given):
            if reason := rule(record):
                return reason
    return None


def shuffled(n: int, n_right: int, rng: random.Random) -> tuple[list[Item], dict[str, bool]]:
    order = rng.sample(items(n), n)
    return order, {item.id: k < n_right for k, item in enumerate(rng.sample(order, n))}


def test_a_trial_as_good_as_its_rival_is_rarely_stopped() -> None:
    rng, n, n_right, runs = random.Random(1), 60, 42, 150
    stopped = 0
    for _ in range(runs):
        order, right = shuffled(n, n_right, rng)
        rule = DominatedStop(items=order, policy=POLICY, rivals=[Rival(label="r", value=0.7, usd_per_1k=2.0)])
        reason = run(rule, right)
        assert reason is None or rule.n_items < n
        stopped += reason is not None
    # At 0.05 the chance of more than 15 of 150 is under 1 in 200.
    assert stopped <= 15


def test_a_trial_that_is_clearly_worse_is_stopped_early() -> None:
    rng = random.Random(2)
    order, right = shuffled(200, 60, rng)
    rule = DominatedStop(items=order, policy=POLICY, rivals=[Rival(label="the best", value=0.9, usd_per_1k=2.0)])
    reason = run(rule, right)
    assert reason is not None
    assert reason.startswith("dominated: reliability at most")
    assert "the best" in reason
    assert rule.n_items < 60


@pytest.mark.parametrize(("usd", "rival_usd"), [(1e-3, 2.1), (None, 1.0)])
def test_a_cheaper_trial_or_one_of_unknown_price_is_never_stopped(usd: float | None, rival_usd: float) -> None:
    order, right = shuffled(100, 5, random.Random(3))
    rule = DominatedStop(items=order, policy=POLICY, rivals=[Rival(label="r", value=0.99, usd_per_1k=rival_usd)])
    assert run(rule, right, usd=usd) is None


def test_unusable_answers_speak_for_the_trial() -> None:
    order, right = shuffled(100, 0, random.Random(4))
    rule = DominatedStop(items=order, policy=POLICY, rivals=[Rival(label="r", value=0.99, usd_per_1k=1.0)])
    assert run(rule, right, outcome="unparsed") is None
    assert rule.upper == 1.0


def test_items_count_in_their_order_however_quick_the_others_are() -> None:
    order, right = shuffled(60, 0, random.Random(5))
    rule = DominatedStop(items=order, policy=POLICY, rivals=[Rival(label="r", value=0.99, usd_per_1k=1.0)])
    for item in order[1:]:
        for record in records(item, right=right[item.id]):
            assert rule(record) is None
    assert rule.n_items == 0
    assert [rule(record) for record in records(order[0], right=False)][-1] is not None


def test_at_the_end_the_bound_is_the_composite_itself() -> None:
    ladder = items(10, condition="ladder", delta=1.0)
    rule = DominatedStop(items=ladder + items(10), policy=POLICY, rivals=[])
    for k, item in enumerate(rule.items):
        for record in records(item, right=k % 10 < (4 if item.condition == "ladder" else 8)):
            rule(record)
    assert rule.upper == pytest.approx(0.6)


def test_the_bound_does_not_count_the_deep_design_of_stability_twice() -> None:
    made = [
        Item(id=name, task="t", condition=name, kind="response", response="r", answers=("a", "b"), expected="a")
        for name in ("stochastic_stability", "stochastic_stability_deep", "typos")
    ]
    rule = DominatedStop(items=made, policy=POLICY, rivals=[])
    assert set(rule._weights) == {"stochastic_stability", "typos"}
