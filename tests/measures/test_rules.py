"""Rules over readings: what may be written, what is refused and with which advice, and what an interval decides."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.rules import (
    AxisRule,
    DifferenceRule,
    ExcludedRule,
    FactRule,
    overall,
    parse_rule,
    parse_rules,
)

AXES = ("dark_current", "target_sensitivity/delta_1", "threshold_75", "baseline/accuracy", "label_flip/accuracy")
COSTS = ("cost/usd", "cost/usd_per_1k_calls", "tokens/input", "time/seconds", "calls/error")


@pytest.mark.parametrize(
    "text", ["dark_current<=0.1", "  dark_current   <=  .1 ", "dark_current ≤ 1e-1", "dark_current\t<= +0.10"]
)
def test_spacing_and_spelling_do_not_matter(text):
    assert parse_rule(text) == AxisRule(axis="dark_current", op="<=", limit=0.1)
    assert parse_rule(text).text == "dark_current <= 0.1"


@pytest.mark.parametrize(
    ("text", "form", "axis", "op", "limit"),
    [
        ("target_sensitivity/delta_1 >= 0.8", AxisRule, "target_sensitivity/delta_1", ">=", 0.8),
        ("d_prime/delta_0.5 > -1", AxisRule, "d_prime/delta_0.5", ">", -1),
        ("baseline/accuracy ≥ 0.9", AxisRule, "baseline/accuracy", ">=", 0.9),
        ("excluded/dark_current < 0.02", ExcludedRule, "dark_current", "<", 0.02),
        ("cost/usd_per_1k_calls <= 2", FactRule, "cost/usd_per_1k_calls", "<=", 2),
        ("tokens/output <= 1000", FactRule, "tokens/output", "<=", 1000),
        ("time/seconds <= 60", FactRule, "time/seconds", "<=", 60),
        ("calls/error <= 0", FactRule, "calls/error", "<=", 0),
        ("dark_current - baseline <= 0.05", DifferenceRule, "dark_current", "<=", 0.05),
        ("dark_current-baseline<=-.05", DifferenceRule, "dark_current", "<=", -0.05),
        ("baseline/accuracy − baseline ≥ −0.02", DifferenceRule, "baseline/accuracy", ">=", -0.02),
    ],
)
def test_each_form_of_the_grammar_is_read(text, form, axis, op, limit):
    rule = parse_rule(text)
    assert (type(rule), rule.axis, rule.op, rule.limit) == (form, axis, op, limit)


@given(
    st.sampled_from(["", "excluded/"]),
    st.sampled_from(AXES),
    st.sampled_from(["<=", "<", ">=", ">"]),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_a_normalised_rule_reads_as_itself(prefix, axis, op, limit):
    rule = parse_rule(f"{prefix}{axis}{op}{limit!r}")
    assert parse_rule(rule.text) == rule
    assert rule.limit == limit


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("dark_current", "AXIS OP NUMBER"),
        ("dark_current 0.1", "AXIS OP NUMBER"),
        ("dark_current = 0.1", "'dark_current <= 0.1'"),
        ("dark_current == 0.1", "'dark_current <= 0.1'"),
        ("dark_current != 0.1", "'dark_current <= 0.1'"),
        ("dark_current => 0.1", "'dark_current >= 0.1'"),
        ("dark_current =< 0.1", "'dark_current <= 0.1'"),
        ("dark_current <= 10%", "'dark_current <= 0.1'"),
        ("dark_current <= 0,1", "'dark_current <= 0.1'"),
        ("0.1 >= dark_current", "'dark_current <= 0.1'"),
        ("0.1 < dark_current", "'dark_current > 0.1'"),
        ("0.1 <= dark_current <= 0.2", "one rule each"),
        ("dark_current <= 0.1 and threshold_75 <= 2", "one rule each"),
        ("dark_current <= 0.1, threshold_75 <= 2", "one rule each"),
        ("dark_current <= nan", "finite"),
        ("dark_current <= inf", "finite"),
        ("dark_current <= -Infinity", "finite"),
        ("dark_current <= 1e999", "finite"),
        ("dark_current <= a", "AXIS OP NUMBER"),
        ("dark_current <= 1_000", "AXIS OP NUMBER"),
        ("dark_current <= threshold_75", "AXIS OP NUMBER"),
        ("dark_current <=", "AXIS OP NUMBER"),
        ("<= 0.1", "AXIS OP NUMBER"),
        ("excluded/ <= 0.1", "excluded/AXIS"),
        ("cost/ <= 0.1", "cost/usd"),
        ("- baseline <= 0.1", "AXIS - baseline"),
        ("excluded/dark_current - baseline <= 0.1", "AXIS - baseline"),
        ("cost/usd - baseline <= 0.1", "AXIS - baseline"),
    ],
)
def test_what_is_no_rule_is_refused_with_what_to_write(text, advice):
    with pytest.raises(RecipeError) as refused:
        parse_rule(text)
    assert advice in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("thing", [None, 3, True, ("dark_current", "<=", 0.1), b"dark_current <= 0.1"])
def test_what_is_no_text_is_refused(thing):
    with pytest.raises(RecipeError, match="text"):
        parse_rule(thing)


def test_rules_are_one_or_many_and_each_counts_once():
    one = parse_rule("dark_current <= 0.1")
    assert parse_rules("dark_current <= 0.1") == (one,)
    assert parse_rules(one) == (one,)
    assert parse_rules(["dark_current <= 0.1", "dark_current<=.1", one]) == (one,)
    assert [rule.axis for rule in parse_rules(["threshold_75 <= 2", "dark_current <= 0.1"])] == [
        "threshold_75",
        "dark_current",
    ]
    assert parse_rules(()) == ()


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("dark_curent <= 0.1", "dark_current"),
        ("dark_current/rate <= 0.1", "dark_current"),
        ("exclude/dark_current <= 0.1", "excluded/dark_current"),
        ("excluded/dark_curent <= 0.1", "excluded/dark_current"),
        ("cost/us <= 0.1", "cost/usd"),
        ("costs/usd <= 0.1", "cost/usd"),
        ("label_flip/acuracy - baseline <= 0.1", "label_flip/accuracy"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(text, nearest):
    with pytest.raises(RecipeError) as refused:
        parse_rule(text).check_known(AXES, COSTS)
    assert f"Did you mean {nearest!r}?" in str(refused.value)


@pytest.mark.parametrize(
    "text", ["dark_current <= 1", "excluded/threshold_75 <= 1", "cost/usd <= 1", "threshold_75 - baseline <= 1"]
)
def test_a_known_name_passes(text):
    parse_rule(text).check_known(AXES, COSTS)
    if not text.startswith("cost"):
        parse_rule(text).check_known(AXES)


def test_an_unknown_name_with_nothing_near_lists_what_is_known():
    with pytest.raises(RecipeError) as refused:
        parse_rule("zzz <= 0.1").check_known(AXES)
    assert all(axis in str(refused.value) for axis in AXES)
    assert "Did you mean" not in str(refused.value)


@pytest.mark.parametrize(
    ("op", "low", "high", "state"),
    [
        ("<=", 0.2, 0.5, "holds"),
        ("<=", 0.5, 0.7, "undecided"),
        ("<=", 0.51, 0.7, "fails"),
        ("<", 0.2, 0.49, "holds"),
        ("<", 0.2, 0.5, "undecided"),
        ("<", 0.5, 0.7, "fails"),
        (">=", 0.5, 0.7, "holds"),
        (">=", 0.2, 0.5, "undecided"),
        (">=", 0.2, 0.49, "fails"),
        (">", 0.51, 0.7, "holds"),
        (">", 0.5, 0.7, "undecided"),
        (">", 0.2, 0.5, "fails"),
        ("<=", None, 0.5, "holds"),
        ("<=", None, 0.6, "undecided"),
        ("<=", 0.6, None, "fails"),
        ("<=", 0.4, None, "undecided"),
        (">=", None, 0.4, "fails"),
        (">=", 0.5, None, "holds"),
        (">=", None, 0.6, "undecided"),
        ("<=", None, None, "undecided"),
        (">", None, None, "undecided"),
        ("<=", math.nan, math.nan, "undecided"),
    ],
)
def test_an_interval_decides_by_the_end_that_faces_the_limit(op, low, high, state):
    assert parse_rule(f"dark_current {op} 0.5").decide(low, high) == state


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(-1, 1), st.sampled_from([("<=", ">"), ("<", ">=")]))
def test_a_rule_and_its_negation_never_both_hold_and_one_holds_where_the_other_fails(low, width, limit, ops):
    states = {parse_rule(f"x {op} {limit!r}").decide(low, low + width) for op in ops}
    assert states in ({"holds", "fails"}, {"undecided"})


@given(st.floats(-1, 1), st.floats(-1, 1), st.sampled_from(["<=", "<", ">=", ">"]))
def test_a_fact_is_always_decided_as_its_number_compares(value, limit, op):
    true = {"<=": value <= limit, "<": value < limit, ">=": value >= limit, ">": value > limit}[op]
    assert parse_rule(f"x {op} {limit!r}").decide(value, value) == ("holds" if true else "fails")


def test_one_failure_fails_all_and_one_undecided_leaves_the_rest_open():
    for states in itertools.product(["holds", "fails", "undecided"], repeat=3):
        passed = False if "fails" in states else None if "undecided" in states else True
        assert overall(states) is passed


def test_no_rule_at_all_is_no_pass():
    with pytest.raises(RecipeError, match="No rule"):
        overall([])
