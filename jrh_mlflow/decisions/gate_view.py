"""A gate for people and build servers: its outcome in one line, Markdown, a screen, a section of a page, JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from jrh_mlflow.measures.rules import RuleCheck, overall
from jrh_mlflow.show.addresses import Addresses
from jrh_mlflow.show.decided_rules import CHECKS, DecidedRule, DecisionSection, decided_rules
from jrh_mlflow.show.names import rule_name
from jrh_mlflow.show.plain_text import line_text, plain, wrapped_line
from jrh_mlflow.tracking.runs.read import LoggedEvaluation

MARKDOWN_HEAD = "# Gate: "
"""How the Markdown of a gate begins."""
JUNIT_NAME = "jrh gate"
_MOST_NAMED = 3
"""Rules that the line of the outcome names."""
_Outcome = Literal["passed", "failure", "skipped"]


def gate_reason(
    checks: Sequence[RuleCheck], *, spelled: Callable[[str], str] = str, harmless: Callable[[str], str] = str
) -> str:
    """Say in one line what the rules came to; `spelled` writes the text of a rule, `harmless` why one has no number."""
    passed = overall([check.state for check in checks])
    if passed:
        return f"passed: {len(checks)} of {len(checks)} rules hold"
    state, verb = ("undecided", "undecided") if passed is None else ("fails", "failed")
    those = [check for check in checks if check.state == state]
    named = "; ".join(
        f"{spelled(check.rule.text)} ({measured_text(check)}{_needs(check, harmless)})" for check in those[:_MOST_NAMED]
    )
    more = f"; and {len(those) - _MOST_NAMED} more" if len(those) > _MOST_NAMED else ""
    return f"{verb}: {len(those)} of {len(checks)} rules: {named}{more}"


def measured_text(check: RuleCheck) -> str:
    """Write what a rule was decided on: `0.12 [0.04, 0.27]`, a plain fact, or that there is no number."""
    number = _number(check) or "no number"
    if check.low == check.high == check.estimate or (check.low is None and check.high is None):
        return number
    low, high = ("–" if end is None else f"{end:.4g}" for end in (check.low, check.high))
    return f"{number} [{low}, {high}]"


def _number(check: RuleCheck) -> str:
    """Write the estimate; of a censored threshold the bound with its sign; nothing where there is neither."""
    return check.censored or ("" if check.estimate is None else f"{check.estimate:.4g}")


def _needs(check: RuleCheck, harmless: Callable[[str], str]) -> str:
    if check.state == "undecided" and not _number(check) and check.further_tasks is None:
        return f": {harmless(check.reason)}"
    if check.state != "undecided" or check.further_tasks is None:
        return ""
    return f", decided after some {check.further_tasks:,} further tasks like these"


def gate_rows(checks: Sequence[RuleCheck]) -> list[DecidedRule]:
    """Return the checks as every table shows them."""
    return decided_rules(check.to_dict() for check in checks)


def gate_markdown(checks: Sequence[RuleCheck], *, subject: str, notes: Sequence[str], facts: Mapping[str, str]) -> str:
    """Render the outcome, what a reader must know, one row per rule, and what was read."""
    state, _, rest = gate_reason(checks, spelled=_code, harmless=line_text).partition(": ")
    parts = [f"{MARKDOWN_HEAD}{line_text(subject)}", f"**{state.capitalize()}**: {rest}"]
    parts += [f"> {line_text(note)}" for note in notes]
    parts += [CHECKS(gate_rows(checks)).to_markdown()]
    parts += ["\n".join(f"- {line_text(key)}: {line_text(value)}" for key, value in facts.items())]
    return "\n\n".join([*(part for part in parts if part), ""])


def gate_lines(checks: Sequence[RuleCheck]) -> list[str]:
    """Show a row for each rule on a screen, then of those that do not hold what would decide them."""
    return [
        *CHECKS(gate_rows(checks)).to_text().splitlines(),
        "",
        *(line for text in gate_advice(checks) for line in wrapped_line(*text)),
    ]


def gate_advice(checks: Sequence[RuleCheck]) -> list[tuple[str, str]]:
    """Say of every rule that does not hold its state, and what would decide it or why it fails."""
    return [
        (rule.state, f"{rule_name(rule.rule)} ({rule.rule}): {rule.advice}")
        for rule in gate_rows(checks)
        if rule.state != "holds"
    ]


def _code(text: str) -> str:
    """Write a rule as code, so that its comparison stays readable; nothing in it can end the code."""
    return f"`{plain(text).replace('`', chr(39))}`"


def gate_section(
    reason: str,
    checks: Sequence[Mapping[str, Any]],
    *,
    notes: Sequence[str] = (),
    ended_ms: float | None = None,
    link: str = "",
) -> DecisionSection:
    """Say what a gate came to.

    Args:
        reason: In one line.
        checks: The rows of `Gate.checks`.
        notes: What to know about it.
        ended_ms: When it was decided, in milliseconds since 1970; None: not known.
        link: Where its run can be looked at.
    """
    when = "" if ended_ms is None else f"{datetime.fromtimestamp(ended_ms / 1000, timezone.utc):%Y-%m-%d %H:%M} UTC"
    rules = decided_rules(checks)
    return DecisionSection(kind="gate", heading="Gate", reason=reason, rules=rules, notes=notes, when=when, link=link)


def gate_sections(run: LoggedEvaluation, addresses: Addresses | None) -> list[DecisionSection]:
    """Say what the newest gate of a logged run came to; nothing where it has none."""
    gate = run.gate
    if gate is None:
        return []
    link = "" if addresses is None or not gate.experiment_id else addresses.mlflow(gate.experiment_id, gate.run_id)
    return [gate_section(gate.reason, gate.checks, notes=gate.notes, ended_ms=gate.started_ms, link=link)]


def gate_junit(checks: Sequence[RuleCheck], *, subject: str, facts: Mapping[str, str], undecided_fails: bool) -> str:
    """Render JUnit XML in which a rule that fails is a failure; an undecided one is too, or it is skipped.

    What was measured stands in every case. Texts are one line of printable characters: XML holds no others.
    """
    outcomes = [_outcome(check, undecided_fails=undecided_fails) for check in checks]
    counted = Counter(outcomes)
    counts = {"tests": len(checks), "failures": counted["failure"], "errors": 0, "skipped": counted["skipped"]}
    about = {name: str(count) for name, count in counts.items()} | {"time": "0"}
    root = Element("testsuites", {"name": JUNIT_NAME, **about})
    suite = SubElement(root, "testsuite", {"name": plain(f"gate: {subject}"), **about})
    properties = SubElement(suite, "properties")
    for name, value in facts.items():
        SubElement(properties, "property", {"name": plain(name), "value": plain(value)})
    for check, row, outcome in zip(checks, gate_rows(checks), outcomes, strict=True):
        case = SubElement(suite, "testcase", {"classname": plain(subject), "name": plain(row.rule), "time": "0"})
        _fill(case, measured_text(check), row, outcome)
    ElementTree.indent(root)
    # Bytes: of a text it would declare the encoding of this machine.
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return f"{content.decode()}\n"


def _outcome(check: RuleCheck, *, undecided_fails: bool) -> _Outcome:
    if check.state == "holds":
        return "passed"
    return "failure" if check.state == "fails" or undecided_fails else "skipped"


def _fill(case: Element, measured: str, row: DecidedRule, outcome: _Outcome) -> None:
    """Say in a test case what was measured and, where the rule does not hold, why and what would decide it."""
    size = f", n {row.size_text}" if row.size_text else ""
    message, why = plain(f"{row.state}: {measured}{size}"), plain(row.advice)
    if outcome == "failure":
        SubElement(case, outcome, {"message": message, "type": row.state}).text = why
    elif outcome == "skipped":
        SubElement(case, outcome, {"message": f"{message}; {why}"})
    SubElement(case, "system-out").text = f"{message}; {why}" if why else message
