"""A gate as JUnit XML, the form in which build servers read results: one test case per rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from jrh_mlflow.decisions.decisions_view import advice_text
from jrh_mlflow.decisions.gate_view import measured_text
from jrh_mlflow.measures.rules import RuleCheck
from jrh_mlflow.show.plain_text import plain

NAME = "jrh gate"
_Outcome = Literal["passed", "failure", "skipped"]


def gate_junit(checks: Sequence[RuleCheck], *, subject: str, facts: Mapping[str, str], undecided_fails: bool) -> str:
    """Render a test suite in which a rule that fails is a failure; an undecided one is too, or it is skipped.

    What was measured stands in every case. Texts are one line of printable characters: XML holds no others.
    """
    outcomes = [_outcome(check, undecided_fails=undecided_fails) for check in checks]
    counted = Counter(outcomes)
    counts = {"tests": len(checks), "failures": counted["failure"], "errors": 0, "skipped": counted["skipped"]}
    about = {name: str(count) for name, count in counts.items()} | {"time": "0"}
    root = Element("testsuites", {"name": NAME, **about})
    suite = SubElement(root, "testsuite", {"name": plain(f"gate: {subject}"), **about})
    properties = SubElement(suite, "properties")
    for name, value in facts.items():
        SubElement(properties, "property", {"name": plain(name), "value": plain(value)})
    for check, outcome in zip(checks, outcomes, strict=True):
        case = SubElement(suite, "testcase", {"classname": plain(subject), "name": plain(check.rule.text), "time": "0"})
        _fill(case, check, outcome)
    ElementTree.indent(root)
    # Bytes: of a text it would declare the encoding of this machine.
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return f"{content.decode()}\n"


def _outcome(check: RuleCheck, *, undecided_fails: bool) -> _Outcome:
    if check.state == "holds":
        return "passed"
    return "failure" if check.state == "fails" or undecided_fails else "skipped"


def _fill(case: Element, check: RuleCheck, outcome: _Outcome) -> None:
    """Say in a test case what was measured and, where the rule does not hold, why and what would decide it."""
    size = "" if check.n is None else f", n {check.n:,}"
    clusters = "" if check.n_clusters is None else f" in {check.n_clusters:,} tasks"
    told = plain(f"{check.state}: {measured_text(check)}{size}{clusters}")
    why = plain(advice_text(check.state, check.further_tasks, check.reason))
    if outcome == "failure":
        SubElement(case, outcome, {"message": told, "type": check.state}).text = why
    elif outcome == "skipped":
        SubElement(case, outcome, {"message": f"{told}; {why}"})
    SubElement(case, "system-out").text = f"{told}; {why}" if why else told
