"""Validity gates: items of a good suite are changed one by one, and the gate that must close closes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import SuiteError
from jrh_mlflow.schema.items import PAIR_CONDITIONS, Item
from jrh_mlflow.suites.suite import MAX_LENGTH_RATIO, check_suite

ITEMS = jrh.datasheet_suite(n_tasks=1, half_steps=True).items


def one(condition: str, *, delta: float | None = None) -> Item:
    return next(item for item in ITEMS if item.condition == condition and delta in (None, item.delta))


def refused(*items: Item) -> str:
    with pytest.raises(SuiteError) as caught:
        check_suite(items)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_good_items_pass():
    check_suite(ITEMS)


def test_an_empty_suite_is_refused():
    assert refused() == "The suite has no items: nothing to judge."


def test_duplicate_ids_are_refused_and_named():
    item = one("ladder")
    assert refused(*ITEMS, item) == f"Item ids must be unique, but 1 repeat: {item.id}."


def test_an_unknown_condition_is_refused_with_the_nearest_known_one():
    message = refused(replace(one("ladder"), condition="lader"))
    assert "has the unknown condition 'lader'. Did you mean 'ladder'? Known: vacuum_empty, " in message


def met(item: Item, **sides: list[str]) -> Item:
    """Change what an item says about the satisfied sets."""
    return replace(item, meta=item.meta | {"satisfied": item.meta["satisfied"] | sides})


def halves(item: Item, **sides: list[str]) -> Item:
    return replace(item, meta=item.meta | {"half": item.meta["half"] | sides})


def worse(item: Item) -> str:
    return {"u": "v", "v": "u"}[str(item.better)]


Change = Callable[[Item], Item]
GATES: dict[str, tuple[str, Change, str]] = {
    "no task": ("ladder", lambda i: replace(i, task=""), "has no task: it is the cluster of the intervals."),
    "ladder without delta": (
        "ladder",
        lambda i: replace(i, delta=None),
        "is a ladder pair and needs a delta above 0, but has None.",
    ),
    "ladder with delta 0": (
        "ladder",
        lambda i: replace(i, delta=0.0),
        "is a ladder pair and needs a delta above 0, but has 0.0.",
    ),
    "equal pair with a delta": (
        "delta_0_same",
        lambda i: replace(i, delta=1.0),
        "is a delta_0_same pair and needs delta 0, but has 1.0.",
    ),
    "equal pair without delta": (
        "delta_0_different",
        lambda i: replace(i, delta=None),
        "is a delta_0_different pair and needs delta 0, but has None.",
    ),
    "ladder without better": ("ladder", lambda i: replace(i, better=None), "needs `better` u or v, but has None."),
    "better is a slot": ("ladder", lambda i: replace(i, better="1"), "needs `better` u or v, but has '1'."),
    "better where there is none": (
        "delta_0_same",
        lambda i: replace(i, better="u"),
        "has no better side by construction, but `better` is 'u'.",
    ),
    "vacuum with a better side": (
        "vacuum_identical",
        lambda i: replace(i, better="v"),
        "has no better side by construction, but `better` is 'v'.",
    ),
    "no instruction": (
        "ladder",
        lambda i: replace(i, instruction=None),
        "needs an instruction and both contents.",
    ),
    "one content missing": ("ladder", lambda i: replace(i, v=None), "needs an instruction and both contents."),
    "better turned round": (
        "ladder",
        lambda i: replace(i, better=worse(i)),
        "the better content must meet all that the other meets, and more.",
    ),
    "no superset": (
        "ladder",
        lambda i: met(i, **{worse(i): ["something_else"]}),
        "the better content must meet all that the other meets, and more.",
    ),
    "wrong step": ("ladder", lambda i: replace(i, delta=2.0), "delta is 2.0, but the contents are "),
    "no levels at all": (
        "ladder",
        lambda i: replace(i, meta={}),
        "but the contents are 0 requirements apart.",
    ),
    "ladder contents the same": (
        "ladder",
        lambda i: replace(i, u=i.v),
        "the two contents are the same text.",
    ),
    "ladder too long": (
        "ladder",
        lambda i: replace(i, u=f"{i.u} {'And so on. ' * 30}"),
        "contents must be length-matched (ratio at most 1.1), but have ",
    ),
    "ladder content empty": ("ladder", lambda i: replace(i, u=""), "contents must be length-matched"),
    "equal contents the same": (
        "delta_0_same",
        lambda i: replace(i, v=i.u),
        "the two contents are the same text.",
    ),
    "equal contents of other sets": (
        "delta_0_same",
        lambda i: met(i, u=["something_else"]),
        "both contents must meet the same requirements.",
    ),
    "equal contents of other halves": (
        "delta_0_same",
        lambda i: halves(i, u=["something_else"]),
        "both contents must meet the same requirements.",
    ),
    "equal contents too long": (
        "delta_0_same",
        lambda i: replace(i, v=f"{i.v} {'And so on. ' * 30}"),
        "contents must be length-matched",
    ),
    "different subsets the same": (
        "delta_0_different",
        lambda i: met(i, u=i.meta["satisfied"]["v"]),
        "contents must meet equally many, but not the same, requirements.",
    ),
    "different subsets of other size": (
        "delta_0_different",
        lambda i: met(i, u=[]),
        "contents must meet equally many, but not the same, requirements.",
    ),
    "filler not longer": (
        "filler",
        lambda i: replace(i, u=i.v, v=i.u),
        "content v must be u with padding, but is not longer.",
    ),
    "filler of another set": (
        "filler",
        lambda i: met(i, v=["something_else"]),
        "both contents must meet the same requirements.",
    ),
    "vacuum not empty": ("vacuum_empty", lambda i: replace(i, v="x"), "both contents must be empty."),
    "white space not the same": (
        "vacuum_whitespace",
        lambda i: replace(i, v="\n"),
        "both contents must be the same white space.",
    ),
    "white space with a word": (
        "vacuum_whitespace",
        lambda i: replace(i, u=" x", v=" x"),
        "both contents must be the same white space.",
    ),
    "white space empty": (
        "vacuum_whitespace",
        lambda i: replace(i, u="", v=""),
        "both contents must be the same white space.",
    ),
    "identical not identical": (
        "vacuum_identical",
        lambda i: replace(i, v=f"{i.v} "),
        "both contents must be the same, non-empty text.",
    ),
    "identical but blank": (
        "vacuum_identical",
        lambda i: replace(i, u=" ", v=" "),
        "both contents must be the same, non-empty text.",
    ),
}


@pytest.mark.parametrize("name", GATES)
def test_each_gate_closes_on_the_item_that_breaks_it(name):
    condition, change, expected = GATES[name]
    good = one(condition)
    changed = change(good)
    message = refused(*(changed if item is good else item for item in ITEMS))
    assert repr(good.id) in message
    assert expected in message


@pytest.mark.parametrize("field", ["instruction", "rubric", "u", "v"])
@pytest.mark.parametrize(
    "leak", ["Q_3", "q2", "delta 4", "Delta_1", "pair id", "EXPECTED WINNER", "requirement 2", "higher level"]
)
def test_words_of_the_protocol_are_found_wherever_a_judge_would_read_them(field, leak):
    item = one("delta_0_same")
    message = refused(replace(item, **{field: f"{getattr(item, field) or ''} {leak}."}))
    assert f"would tell the judge about the experiment: {leak!r}." in message


def test_an_items_own_id_in_its_text_is_a_leak():
    item = one("ladder")
    assert f"would tell the judge about the experiment: {item.id!r}." in refused(
        replace(item, instruction=f"{item.instruction} ({item.id})")
    )


def test_the_length_gate_closes_just_beyond_its_ratio():
    item = one("delta_0_same")
    at_limit = replace(item, u="a" * 100, v="b" * 110)
    check_suite([at_limit])
    assert "100 and 111 characters" in refused(replace(at_limit, v="b" * 111))
    assert MAX_LENGTH_RATIO == 1.10


def test_half_a_requirement_counts_as_half_a_step():
    item = one("ladder", delta=0.5)
    check_suite([item])
    assert "delta is 1.0, but the contents are 0.5 requirements apart." in refused(replace(item, delta=1.0))


def test_a_pair_replayed_without_texts_has_only_its_labels_checked():
    bare = {"instruction": None, "u": None, "v": None, "meta": {}}
    check_suite([replace(one("ladder"), **bare)])
    assert "needs a delta above 0" in refused(replace(one("ladder"), delta=None, **bare))


def test_natural_pairs_may_say_anything_because_nobody_composed_them():
    check_suite([Item(id="1", task="1", condition="natural", instruction="delta 4", u="1", v="1", better="u")])


def test_every_condition_has_an_item_here():
    assert {item.condition for item in ITEMS} == set(PAIR_CONDITIONS) - {"natural", "natural_tie"}
