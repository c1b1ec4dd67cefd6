"""`jrh.until`: what can be decided while a suite is asked, when, and how lost calls and gaps in the order count."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, product

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine.calls import identity, random_order
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measuring.until import UntilReport, UntilStop, bound_axes, call_key, countable_axes
from jrh_mlflow.schema.items import Call, CallRecord, Item
from jrh_mlflow.schema.presentation import Presentation

SHOWN = Presentation(kind="pair", instruction="", first="", second="", answers=("1", "2", "tie"))
VACUUM = [Item(id=f"v{n}", task=f"t{n % 10}", condition="vacuum_empty", u="", v="") for n in range(60)]
SMALL = jrh.datasheet_suite(n_tasks=3, depth=3)
EQUAL = [Item(id=f"e{n}", task=f"t{n % 10}", condition="delta_0_same", delta=0.0, u="a", v="b") for n in range(60)]

Answers = Callable[[Call], str]
"""Call to the slot it prefers, `tie`, or `` for no usable answer."""


def planned(items: Sequence[Item], *, replicates: int = 1) -> list[Call]:
    orders = {item.id: item.orders for item in items}
    return [
        Call(item=item, order=order, replicate=replicate, presentation=SHOWN)
        for item in items
        for replicate in range(replicates)
        for order in orders[item.id]
    ]


def answered(call: Call, answer: str) -> CallRecord:
    outcome = "verdict" if answer in ("1", "2") or call.order == "" else answer
    outcome = outcome if answer else "error"
    return CallRecord(**identity(call), outcome=outcome, answer=answer if outcome == "verdict" else "")


def bound(rules: object, items: Sequence[Item], *, seed: int = 0, replicates: int = 1, **until: object) -> UntilStop:
    """Bind as `evaluate` does."""
    stop = jrh.until(rules, **until)
    axes = bound_axes(stop, items)
    needed = {each for axis in axes for each in axis.items}
    single = {each for axis in axes if not axis.paired for each in axis.items}
    every = planned(items, replicates=replicates)
    own = [call for call in every if call.item.id in needed]
    calls = random_order(own, str(seed), whole=lambda item: item.id not in single)
    return UntilStop(until=stop, calls=calls, axes=axes, n_planned=len(every))


def played(stop: UntilStop, answers: Answers) -> UntilReport:
    """Ask one call after the other, and what is not needed any more not at all."""
    for call in stop.calls:
        if stop.needs(call) and stop(answered(call, answers(call))):
            break
    return stop.report()


def hits_in(items: Iterable[Item], n: int) -> Answers:
    """Prefer the first slot in both orders of the first `n` of the items, and call a tie everywhere else."""
    chosen = {item.id for item in list(items)[:n]}
    return lambda call: "1" if call.item.id in chosen else "tie"


def test_a_clean_judge_holds_after_a_fraction_of_the_calls_and_a_dirty_one_fails_sooner():
    clean = played(bound("dark_current <= 0.1", VACUUM + EQUAL), hits_in(VACUUM, 0))
    assert [(one.state, one.low, one.high) for one in clean.rules] == [("holds", 0.0, 0.1)]
    assert (clean.asked, clean.needed, clean.planned, clean.passed) == (32, 120, 240, True)
    dirty = played(bound("dark_current <= 0.1", VACUUM + EQUAL), hits_in(VACUUM, 60))
    assert (dirty.rules[0].state, dirty.passed, dirty.asked < 10) == ("fails", False, True)


@pytest.mark.parametrize("op", ["<=", "<", ">=", ">"])
def test_a_reading_on_the_limit_itself_is_decided_as_the_whole_suite_decides_it(op):
    ended = played(bound(f"dark_current {op} 0.1", VACUUM), hits_in(VACUUM, 6))
    assert ended.rules[0].state == ("holds" if op in ("<=", ">=") else "fails")
    assert ended.rules[0].low <= 0.1 <= ended.rules[0].high


def test_a_width_is_reached_when_the_ends_lie_so_close():
    ended = played(bound(None, VACUUM, axis="dark_current", width=0.2), hits_in(VACUUM, 30))
    (rule,) = ended.rules
    assert rule.state == "holds"
    assert 0.1 < rule.high - rule.low <= 0.2
    assert rule.low < 0.5 < rule.high
    assert rule.n < rule.size


def test_several_rules_share_the_error_and_each_asks_only_what_it_needs():
    rules = ["dark_current <= 0.1", "raw_false_preference <= 0.5"]
    both = played(bound(rules, VACUUM + EQUAL), hits_in(VACUUM, 0))
    alone = [played(bound(rule, VACUUM + EQUAL), hits_in(VACUUM, 0)) for rule in rules]
    assert both.passed is True
    for shared, own in zip(both.rules, alone, strict=True):
        assert own.rules[0].n < shared.n < 1.5 * own.rules[0].n
        assert shared.asked == shared.n, "once a rule is decided, its calls are not asked any more"
    assert both.asked == sum(rule.asked for rule in both.rules)


def test_axes_of_pairs_count_pairs_asked_one_order_after_the_other():
    stop = bound("positional_false_preference <= 0.3", EQUAL)
    keys = [call_key(call) for call in stop.calls]
    assert all(first[0] == second[0] for first, second in zip(keys[::2], keys[1::2], strict=True))
    ended = played(stop, hits_in(EQUAL, 60)).rules[0]
    assert (ended.unit, ended.size, ended.state, ended.asked) == ("pair", 60, "fails", 2 * ended.n)


def test_calls_of_the_same_pairs_come_each_at_a_moment_of_its_own_where_calls_are_counted():
    stop = bound(["raw_false_preference <= 0.3", "positional_false_preference <= 0.3"], EQUAL)
    keys = [call_key(call)[0] for call in stop.calls]
    assert sum(first == second for first, second in pairwise(keys)) < 10
    ended = played(stop, hits_in(EQUAL, 60))
    assert [(rule.state, rule.unit) for rule in ended.rules] == [("fails", "call"), ("fails", "pair")]


def test_every_call_of_a_replicate_is_a_unit():
    ended = played(bound("dark_current <= 0.1", VACUUM, replicates=3), hits_in(VACUUM, 0)).rules[0]
    assert (ended.size, ended.state) == (360, "holds")
    pairs = played(bound("no_preference >= 0.5", EQUAL, replicates=2), hits_in(EQUAL, 0)).rules[0]
    assert (pairs.size, pairs.state) == (120, "holds")


def test_a_lost_call_counts_as_a_hit_above_and_as_a_miss_below():
    lost = {"v0", "v1"}

    def answers(call: Call) -> str:
        return "" if call.item.id in lost else "tie"

    ended = played(bound("dark_current <= 0.02", VACUUM), answers).rules[0]
    assert (ended.state, ended.low, ended.high, ended.lost) == ("undecided", 0.0, 4 / 120, 4)
    assert "without a usable answer leave it open" in ended.reason
    wide = played(bound("dark_current <= 0.2", VACUUM), answers).rules[0]
    assert wide.state == "holds"


def test_an_axis_that_is_sure_to_be_withheld_is_left_undecided_without_asking_on():
    ended = played(bound("dark_current <= 0.9", VACUUM), lambda call: "" if call.order == "uv" else "tie")
    (rule,) = ended.rules
    assert (rule.state, rule.lost) == ("undecided", 7), "7 of 120 is the first share over 5 %"
    assert ended.asked < 40
    assert "withheld" in rule.reason


def test_the_share_of_lost_calls_is_decided_by_itself():
    ended = played(bound("excluded/dark_current <= 0.2", VACUUM), lambda call: "" if call.order == "uv" else "tie")
    assert (ended.rules[0].state, ended.rules[0].asked < 40) == ("fails", True)
    clean = played(bound("excluded/positional_false_preference <= 0.1", EQUAL), hits_in(EQUAL, 60)).rules[0]
    assert (clean.state, clean.unit) == ("holds", "call")


@pytest.mark.parametrize("seed", range(5))
def test_quick_answers_do_not_lead_and_any_order_of_arrival_decides_the_same(seed):
    answers = hits_in(VACUUM, 12)
    plain = played(bound("dark_current <= 0.1", VACUUM, seed=seed), answers)
    stop, rng, waiting = bound("dark_current <= 0.1", VACUUM, seed=seed), random.Random(seed), []
    calls = iter(stop.calls)
    while not all(watch.is_done for watch in stop._watches):
        waiting += [call for call in [next(calls, None)] if call is not None]
        if len(waiting) == 16 or rng.random() < 0.2:
            call = waiting.pop(rng.randrange(len(waiting)))
            stop(answered(call, answers(call)))
    assert [rule.state for rule in stop.report().rules] == [rule.state for rule in plain.rules]
    assert stop.report().rules[0].n == plain.rules[0].n


def test_a_call_that_is_put_off_holds_nothing_up_and_counts_when_it_is_answered():
    late = hits_in(VACUUM, 0)
    stop = bound("dark_current <= 0.1", VACUUM)
    first, *others = stop.calls
    assert stop.put_off(answered(first, "")) is None
    for call in others:
        if stop(answered(call, late(call))):
            break
    held = stop.report().rules[0]
    assert (held.state, held.lost) == ("holds", 0)
    assert 32 < held.n < 60, "it may still be a hit"
    whole = bound("dark_current <= 0", VACUUM)
    whole.put_off(answered(whole.calls[0], ""))
    told = [whole(answered(call, "tie")) for call in whole.calls[1:]]
    assert set(told) == {None}, "the last word is not spoken while a call is put off"
    assert whole(answered(whole.calls[0], "tie")) == "until"
    assert whole.report().rules[0].state == "holds"
    failed = bound("dark_current <= 0", VACUUM)
    failed.put_off(answered(failed.calls[0], ""))
    for call in failed.calls[1:]:
        failed(answered(call, "tie"))
    assert failed(answered(failed.calls[0], "")) == "until"
    assert (failed.report().rules[0].state, failed.report().rules[0].lost) == ("undecided", 1)


def test_a_suite_that_is_sorted_is_asked_in_random_order_and_each_seed_draws_another():
    calls = planned(VACUUM)
    zero, one, again = ([call_key(call) for call in random_order(calls, seed, whole=lambda _: False)] for seed in "010")
    assert zero == again != one
    assert sorted(zero) == sorted(map(call_key, calls))
    assert zero != [call_key(call) for call in calls]


def test_the_axes_of_pairs_that_can_be_decided_are_plain_shares_of_what_the_suite_asks():
    axes = countable_axes(SMALL.items)
    assert {"dark_current", "raw_false_preference", "target_sensitivity/delta_1", "positional_false_preference"} <= set(
        axes
    )
    assert "natural/accuracy" not in axes
    for name in ("conditional_accuracy", "d_prime", "threshold_75", "other_conflict", "reading_gap"):
        assert not any(axis.startswith(name) for axis in axes)
    assert {axis for axis, one in axes.items() if one.paired} == {
        "stable_cross_sensitivity",
        "positional_false_preference",
        "one_sided_commit",
        "no_preference",
    }


def test_what_is_decided_is_what_measure_reads_of_the_whole_suite():
    rng = random.Random(3)
    calls = planned(SMALL.items)
    records = [answered(call, rng.choice(("1", "2", "tie", "tie"))) for call in calls]
    by_key = {call_key(call): record for call, record in zip(calls, records, strict=True)}
    read = jrh.measure(records).estimates
    for axis, one in countable_axes(SMALL.items).items():
        for op in ("<=", ">="):
            stop = bound(f"{axis} {op} {read[axis].value!r}", SMALL.items, level=0.9999)
            for call in stop.calls:
                stop(by_key[call_key(call)])
            ended = stop.report().rules[0]
            assert ended.state == "holds", (axis, op)
            assert ended.size == read[axis].n, axis
            assert one.paired == (read[axis].unit == "pair")


def test_reliability_tests_are_decided_by_their_accuracy_where_items_carry_the_answer():
    items = [
        Item(id=f"{test}{n}", task=f"s{n}", condition=test, kind="response", expected="yes", answers=("no", "yes"))
        for test, n in product(("baseline", "label_flip", "format_invariance_1"), range(50))
    ]
    assert set(countable_axes(items)) == {
        "baseline/accuracy",
        "label_flip/accuracy",
        "format_invariance_1/accuracy",
        "all/accuracy",
    }
    ended = played(bound("label_flip/accuracy >= 0.8", items), lambda _: "yes").rules[0]
    assert (ended.state, ended.size) == ("holds", 50)
    assert ended.asked < 25
    abstains = played(bound("label_flip/accuracy >= 0.8", items), lambda call: "")
    assert abstains.rules[0].state == "undecided"


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("dark_curent <= 0.1", "Did you mean 'dark_current'"),
        ("threshold_75 <= 2", "no share of its calls or pairs"),
        ("d_prime/delta_1 >= 1", "no share of its calls or pairs"),
        ("conditional_accuracy/delta_1 >= 0.5", "These can, and excluded/AXIS of each: dark_current"),
        ("natural/accuracy >= 0.5", "the suite has none of them"),
        ("cost/usd <= 1", "it is about a cost"),
        ("dark_current - baseline <= 0", "a difference between two runs"),
        ("excluded/threshold_75 <= 0.1", "cannot be decided"),
    ],
)
def test_what_no_calls_in_random_order_can_decide_is_refused_with_what_they_can(rules, why):
    with pytest.raises(RecipeError, match=why):
        bound_axes(jrh.until(rules), SMALL.items)


def test_a_suite_of_levels_has_nothing_that_can_be_decided_so():
    with pytest.raises(RecipeError, match="None of the suite's axes can"):
        bound_axes(jrh.until("pointwise/dark_current <= 0.1"), jrh.datasheet_suite(n_tasks=2, design="pointwise").items)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "nothing to decide"),
        ({"rules": []}, "nothing to decide"),
        ({"rules": "dark_current == 0.1"}, "compares with"),
        ({"axis": "dark_current"}, "belong together"),
        ({"width": 0.1}, "belong together"),
        ({"axis": "dark_current", "width": 0}, "between 0 and 1"),
        ({"axis": "dark_current", "width": True}, "between 0 and 1"),
        ({"axis": 5, "width": 0.1}, "`axis` must be a name"),
        ({"rules": "dark_current <= 0.1", "level": 1}, "`level` must be"),
        ({"rules": "dark_current <= 0.1", "level": "high"}, "`level` must be"),
    ],
)
def test_what_decides_nothing_is_refused_at_once(given, why):
    with pytest.raises(RecipeError, match=why):
        jrh.until(**given)


def test_what_ended_reads_back_from_plain_data():
    ended = played(bound(["dark_current <= 0.1", "raw_false_preference <= 0.2"], VACUUM + EQUAL), hits_in(EQUAL, 60))
    assert UntilReport.from_dict(ended.to_dict()) == ended
    assert ended.to_dict()["passed"] is False
    assert ended.text == "dark_current <= 0.1: holds; raw_false_preference <= 0.2: fails"
