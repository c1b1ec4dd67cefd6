"""Decisions from hand-made calls: votes, orders, and what becomes of calls without an answer."""

from __future__ import annotations

from collections import Counter

import pytest

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.composite import calls_per_decision, chosen_order, item_decisions

UV, VU = "uv", "vu"


def pair(order: str, said: str, *, item: str = "a", replicate: int = 0) -> dict[str, object]:
    """A call on a ladder pair; `said` is a slot, or how the call ended."""
    outcome = "verdict" if said in ("1", "2") else said
    return {
        "suite_item": item,
        "task": "t",
        "condition": "ladder",
        "delta": 1,
        "order": order,
        "better": "v",
        "replicate": replicate,
        "outcome": outcome,
        "answer": said if outcome == "verdict" else "",
        "expected": "",
    }


def point(said: str, *, replicate: int = 0) -> dict[str, object]:
    outcome = said if said in ("abstain", "unparsed", "error") else "verdict"
    return {
        **pair("", "tie", replicate=replicate),
        "condition": "label_flip",
        "delta": None,
        "better": "",
        "outcome": outcome,
        "answer": said if outcome == "verdict" else "",
        "expected": "yes",
    }


def decided(calls: list[dict[str, object]], **policy: object) -> tuple[str, str]:
    (row,) = item_decisions(calls, **policy).to_dict("records")
    return row["outcome"], row["decision"]


@pytest.mark.parametrize(
    ("first", "second", "decision"),
    [
        ("1", "2", ("verdict", "u")),
        ("2", "1", ("verdict", "v")),
        ("1", "1", ("tie", "tie")),
        ("tie", "tie", ("tie", "tie")),
        ("1", "tie", ("tie", "tie")),
        ("abstain", "abstain", ("abstain", "abstain")),
        ("abstain", "tie", ("tie", "tie")),
        ("1", "unparsed", ("unparsed", "")),
        ("error", "2", ("error", "")),
    ],
)
def test_both_orders_decide_for_the_content_they_agree_on(first: str, second: str, decision: tuple[str, str]) -> None:
    assert decided([pair(UV, first), pair(VU, second)], orders="both") == decision


def test_one_order_is_chosen_by_the_item_and_the_other_is_not_heard() -> None:
    names = [f"item-{number}" for number in range(400)]
    calls = [call for name in names for call in (pair(UV, "1", item=name), pair(VU, "1", item=name))]
    found = Counter(item_decisions(calls, orders="one")["decision"])
    assert found == {
        "u": sum(chosen_order(name) == UV for name in names),
        "v": sum(chosen_order(name) == VU for name in names),
    }
    assert 150 < found["u"] < 250


@pytest.mark.parametrize(
    ("votes", "vote", "decision"),
    [
        (("1", "1", "2"), "majority", "u"),
        (("1", "2"), "majority", "tie"),
        (("1", "2", "tie"), "majority", "tie"),
        (("tie", "tie", "1"), "majority", "tie"),
        (("1", "unparsed", "1"), "majority", "u"),
        (("1", "1", "2"), "unanimous", "tie"),
        (("1", "1", "1"), "unanimous", "u"),
    ],
)
def test_replicates_vote_within_their_order(votes: tuple[str, ...], vote: str, decision: str) -> None:
    mirrored = {"1": "2", "2": "1"}
    calls = [pair(UV, said, replicate=number) for number, said in enumerate(votes)]
    calls += [pair(VU, mirrored.get(said, said), replicate=number) for number, said in enumerate(votes)]
    assert decided(calls, vote=vote)[1] == decision


def test_a_pointwise_draw_is_an_abstention_and_its_labels_are_voted_on() -> None:
    assert decided([point("yes"), point("no", replicate=1)]) == ("abstain", "abstain")
    assert decided([point("no"), point("yes", replicate=1), point("no", replicate=2)]) == ("verdict", "no")
    assert decided([point("error"), point("unparsed", replicate=1)]) == ("unparsed", "")


def test_more_calls_than_a_decision_needs_are_several_decisions() -> None:
    calls = [pair(order, said, replicate=n) for n, said in enumerate(("1", "1", "2", "2")) for order in (UV,)]
    calls += [pair(VU, said, replicate=n) for n, said in enumerate(("2", "2", "1", "1"))]
    found = item_decisions(calls, replicates=2)
    assert list(found["decision"]) == ["u", "v"]
    assert list(found["replicate"]) == [0, 1]
    assert list(item_decisions(calls)["decision"]) == ["tie"]


def test_a_policy_costs_its_orders_times_its_replicates() -> None:
    assert calls_per_decision(orders="both", replicates=3, pair=True) == 6
    assert calls_per_decision(orders="one", replicates=3, pair=True) == 3
    assert calls_per_decision(orders="both", replicates=3, pair=False) == 3


def test_an_unknown_policy_is_refused_with_a_suggestion() -> None:
    with pytest.raises(RecipeError, match="Did you mean 'majority'"):
        item_decisions([pair(UV, "1"), pair(VU, "1")], vote="mayority")
    with pytest.raises(RecipeError, match="Did you mean 'both'"):
        item_decisions([pair(UV, "1"), pair(VU, "1")], orders="bth")
