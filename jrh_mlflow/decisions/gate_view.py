"""A gate for people: its outcome in one line, and one row per rule in Markdown, on cards and on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jrh_mlflow.decisions.decisions_view import advice_text
from jrh_mlflow.measures.rules import RuleCheck, overall
from jrh_mlflow.show.cards import CardTable
from jrh_mlflow.show.markdown import table
from jrh_mlflow.show.names import rule_name
from jrh_mlflow.show.plain_text import aligned, line_text, plain, wrapped_line

MARKDOWN_HEAD = "# Gate: "
"""How the Markdown of a gate begins."""
_SIGNS = {"holds": "✅", "fails": "❌", "undecided": "❔"}
_HEAD = ("", "rule", "state", "measured", "interval", "n", "tasks", "further tasks", "why")
_TERMINAL_HEAD = ("rule", "state", "measured [95 % by task]", "n", "tasks")
_MOST_NAMED = 3
"""Rules that the line of the outcome names."""


def gate_reason(
    checks: Sequence[RuleCheck], *, spelled: Callable[[str], str] = str, told: Callable[[str], str] = str
) -> str:
    """Say in one line what the rules came to; `spelled` writes the text of a rule, `told` why one has no number."""
    passed = overall([each.state for each in checks])
    if passed:
        return f"passed: {len(checks)} of {len(checks)} rules hold"
    state = "undecided" if passed is None else "fails"
    those = [each for each in checks if each.state == state]
    named = "; ".join(
        f"{spelled(each.rule.text)} ({measured_text(each)}{_needs(each, told)})" for each in those[:_MOST_NAMED]
    )
    more = f"; and {len(those) - _MOST_NAMED} more" if len(those) > _MOST_NAMED else ""
    verb = "undecided" if passed is None else "failed"
    return f"{verb}: {len(those)} of {len(checks)} rules: {named}{more}"


def check_cells(checks: Sequence[RuleCheck]) -> CardTable:
    """Show every rule with its state and what it was decided on."""
    return CardTable(header=_HEAD, rows=[_row(each) for each in checks])


def gate_markdown(checks: Sequence[RuleCheck], *, subject: str, notes: Sequence[str], facts: Mapping[str, str]) -> str:
    """Render the outcome, what a reader must know, one row per rule, and what was read."""
    state, _, told = gate_reason(checks, spelled=_code, told=line_text).partition(": ")
    lines = [f"{MARKDOWN_HEAD}{line_text(subject)}", "", f"**{state.capitalize()}**: {told}", ""]
    lines += [line for note in notes for line in (f"> {line_text(note)}", "")]
    rows = [
        [sign, f"{line_text(rule_name(rule))} {_code(rule)}", *map(line_text, others)]
        for sign, rule, *others in map(_row, checks)
    ]
    lines += table(_HEAD, rows)
    lines += ["", *(f"- {line_text(key)}: {line_text(value)}" for key, value in facts.items())]
    return "\n".join([*lines, ""])


def gate_lines(checks: Sequence[RuleCheck]) -> list[str]:
    """Show a row for each rule, what was typed below it, then of those that do not hold what would decide them."""
    rows = [
        row
        for each in checks
        for row in (
            [rule_name(each.rule.text), each.state, measured_text(each), *_row(each)[5:7]],
            [f"  {each.rule.text}", "", "", "", ""],
        )
    ]
    why = [
        line
        for each in checks
        if each.state != "holds"
        for line in wrapped_line(
            each.state, f"{rule_name(each.rule.text)}: {advice_text(each.state, each.further_tasks, each.reason)}"
        )
    ]
    return [*aligned(_TERMINAL_HEAD, rows, left=2), "", *why]


def measured_text(check: RuleCheck) -> str:
    """Write what a rule was decided on: `0.12 [0.04, 0.27]`, a plain fact, or that there is no number."""
    return f"{_number(check) or 'no number'} {_ends(check)}".strip()


def _number(check: RuleCheck) -> str:
    """Write the estimate; of a censored threshold the bound with its sign; nothing where there is neither."""
    return check.censored or ("" if check.estimate is None else f"{check.estimate:.4g}")


def _ends(check: RuleCheck) -> str:
    if check.low is None and check.high is None:
        return ""
    if check.low == check.high == check.estimate:
        return ""
    low, high = ("–" if end is None else f"{end:.4g}" for end in (check.low, check.high))
    return f"[{low}, {high}]"


def _row(check: RuleCheck) -> list[str]:
    counts = ["–" if count is None else f"{count:,}" for count in (check.n, check.n_clusters)]
    further = "–" if check.state != "undecided" or check.further_tasks is None else f"{check.further_tasks:,}"
    return [
        _SIGNS[check.state],
        check.rule.text,
        check.state,
        _number(check) or "n/a",
        _ends(check) or "–",
        *counts,
        further,
        check.reason,
    ]


def _needs(check: RuleCheck, told: Callable[[str], str]) -> str:
    if check.state == "undecided" and not _number(check) and check.further_tasks is None:
        return f": {told(check.reason)}"
    if check.state != "undecided" or check.further_tasks is None:
        return ""
    return f", decided after some {check.further_tasks:,} further tasks like these"


def _code(text: str) -> str:
    """Write a rule as code, so that its comparison stays readable; nothing in it can end the code."""
    return f"`{plain(text).replace('`', chr(39))}`"
