"""A gate as JUnit XML, read by parsers that build servers use: counts, outcomes, and texts of any origin."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Skipped

from jrh_mlflow.decisions.gate_result import Gate
from jrh_mlflow.measures.rules import AxisRule, RuleCheck, State
from tests.comparing.test_comparison_page import HOSTILE

pytestmark = pytest.mark.drawn


MEASURED = {"holds": (0.02, 0.0, 0.08), "fails": (0.5, 0.41, 0.6), "undecided": (0.08, 0.03, 0.16)}
NOTHING_XML_HOLDS = "\x00\x0b\x1b[31m\ud800\ufffe\uffff\x85"


def check(state: State, *, axis: str = "dark_current", reason: str = "as it lies") -> RuleCheck:
    rule = AxisRule(axis=axis, op="<=", limit=0.1)
    estimate, low, high = MEASURED[state]
    further = 14 if state == "undecided" else 0
    return RuleCheck(
        rule=rule,
        state=state,
        estimate=estimate,
        low=low,
        high=high,
        reason=reason,
        further_tasks=further,
        n=90,
        n_clusters=10,
    )


def suite_of(*checks: RuleCheck, undecided_fails: bool = True, subject: str = "a judge", **facts: str) -> Any:
    gate = Gate(results=checks, subject=subject, facts=facts, undecided="fail" if undecided_fails else "pass")
    text = gate.to_junit()
    (suite,) = JUnitXml.fromstring(text.encode())
    return suite


def test_one_case_per_rule_and_the_counts_are_theirs():
    suite = suite_of(check("holds"), check("fails", axis="b"), check("undecided", axis="c"))
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (3, 2, 0, 0)
    holds, fails, undecided = suite
    assert [case.name for case in suite] == ["dark_current <= 0.1", "b <= 0.1", "c <= 0.1"]
    assert holds.is_passed
    assert [type(one) for case in (fails, undecided) for one in case.result] == [Failure, Failure]
    assert (fails.result[0].type, undecided.result[0].type) == ("fails", "undecided")


def test_an_undecided_rule_is_skipped_where_it_stops_nobody_and_a_failing_one_never_is():
    suite = suite_of(check("undecided"), check("fails"), undecided_fails=False)
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (2, 1, 0, 1)
    undecided, fails = suite
    assert [type(one) for case in (undecided, fails) for one in case.result] == [Skipped, Failure]
    assert not any(isinstance(one, Error) for case in suite for one in case.result)


def test_every_case_says_what_was_measured_on_how_much_and_an_undecided_one_what_would_decide_it():
    for state, shown in (
        ("holds", "0.02 [0.00, 0.08]"),
        ("fails", "0.50 [0.41, 0.60]"),
        ("undecided", "0.08 [0.03, 0.16]"),
    ):
        (case,) = suite_of(check(state))
        assert f"{shown}, n 90 in 10 tasks" in case.system_out
        assert ("14 further tasks" in case.system_out) == (state == "undecided")


def test_what_was_gated_is_in_the_properties():
    suite = suite_of(check("holds"), suite="datasheet", run="3f2a")
    assert {("suite", "datasheet"), ("run", "3f2a")} <= {(one.name, one.value) for one in suite.properties()}


@pytest.mark.parametrize("text", [*HOSTILE, "]]><x/>", "a\nb", NOTHING_XML_HOLDS, "</testcase><testcase>"])
@pytest.mark.parametrize("state", ["fails", "undecided"])
def test_text_of_any_origin_stays_text(text, state):
    for undecided_fails in (True, False):
        suite = suite_of(check(state, axis=text, reason=text), subject=text, undecided_fails=undecided_fails, name=text)
        (case,) = suite
        assert suite.tests == 1
        printable = "".join(char if char.isprintable() else " " for char in text)
        assert case.name == " ".join(f"{printable} <= 0.1".split())


@given(st.text(alphabet=st.characters(), max_size=30))
def test_every_text_gives_well_formed_xml(text):
    made = Gate(results=(check("fails", axis=text, reason=text),), subject=text, facts={text: text}).to_junit()
    assert made.startswith("<?xml version='1.0' encoding='utf-8'?>\n<testsuites name=\"jrh gate\"")
    root = ElementTree.fromstring(made.encode())
    assert [one.tag for one in root.iter()].count("testcase") == 1
