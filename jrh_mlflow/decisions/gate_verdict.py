"""The verdict of a gate: what holds, fails and is not decided, with numbers, and what to do next, in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from jrh_mlflow.measures.axes import find
from jrh_mlflow.measures.rules import STATE_WORDS, AxisRule, ExcludedRule, RuleCheck, State, overall
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.schema.findings import Finding, Verdict
from jrh_mlflow.schema.findings import State as FindingState
from jrh_mlflow.show.names import axis_guide, plain_subject
from jrh_mlflow.show.plain_text import plain, plain_name

_LIMITS = {"<=": "at most", "<": "below", ">=": "at least", ">": "above"}
_FINDING: dict[str, FindingState] = {"holds": "ok", "fails": "problem", "undecided": "cannot tell"}
_MOST = 2
"""Rules that a verdict speaks of; the table has all."""
_SHOWS: dict[FindingState, str] = {
    "problem": "shows the calls behind it",
    "cannot tell": "says what that costs",
    "ok": "says later whether the judge in use is still this one",
}
"""What the command of a finding does."""
_COMPARED = ", minus that of the judge it is compared with,"
_LOST = "the share of calls without a usable answer"


def gate_verdict(checks: Sequence[RuleCheck], *, subject: str, run_id: str | None) -> Verdict:
    """Say what a gate came to, in one to four sentences.

    Args:
        checks: What became of each rule.
        subject: What was gated.
        run_id: The evaluation that was gated; None where it was none.
    """
    findings = [_finding(check, run_id) for check in checks]
    order = {"problem": 0, "cannot tell": 1, "ok": 2}
    # What fails comes first: further tasks would not help a gate that has failed.
    first, *_ = ranked = sorted(findings, key=lambda finding: order[finding.state])
    told = [finding for finding in ranked if finding.state == first.state][:_MOST]
    sentences = [_outcome(checks, subject), *(finding.text for finding in told)]
    command = f"`{first.command}` {_SHOWS[first.state]}." if first.command else ""
    sentences += [" ".join(filter(None, (first.advice, command)))] if first.advice or command else []
    return Verdict(sentences=tuple(sentences), findings=tuple(findings))


def _outcome(checks: Sequence[RuleCheck], subject: str) -> str:
    passed, who = overall([check.state for check in checks]), plain_name(subject)
    n, counts = len(checks), {state: sum(check.state == state for check in checks) for state in STATE_WORDS}
    word = "passed" if passed else STATE_WORDS["undecided"] if passed is None else "failed"
    state: State = "holds" if passed else "undecided" if passed is None else "fails"
    one, several = {"holds": ("holds", "hold"), "fails": ("fails", "fail"), "undecided": ("is open", "are open")}[state]
    every = {1: "the one rule", 2: "both rules"}.get(n, f"all {n} rules")
    which = every if counts[state] == n else f"{counts[state]} of {n} rules"
    return f"{word.capitalize()}: {who}; {which} {one if counts[state] == 1 else several}."


def _finding(check: RuleCheck, run_id: str | None) -> Finding:
    guide = axis_guide(check.rule.axis) if check.rule.reads_axis else None
    advice, command = "", ""
    if check.state == "fails":
        advice = "Change what is behind it, then measure again." if guide is None else guide.advice
        command = "" if run_id is None else "jrh ui"
    elif check.state == "undecided":
        advice, command = _what_decides(check, run_id)
    elif run_id is not None:
        command = f"jrh watch {run_id[:8]} --status"
    return Finding(
        axis=check.rule.key,
        state=_FINDING[check.state],
        reading=_reading(check),
        text=f"{_stated(check)}.",
        advice=advice,
        command=command,
    )


def _stated(check: RuleCheck) -> str:
    """Say what a rule is about, what was measured and where the limit lies."""
    rule, subject = check.rule, rule_subject(check)
    limit = f"{_LIMITS[rule.op]} {rule.limit:g}"
    if check.estimate is None and not check.censored:
        # What is known of a withheld number is told with its reason.
        return f"{subject} has no number, and must be {limit}: {plain(check.reason).rstrip('.')}"
    what = f"{subject} is {_number(check)}"
    if check.state == "undecided":
        return f"{what}, which leaves open whether it is {limit}{_further(check)}"
    return f"{what}, and must be {limit}: this {STATE_WORDS[check.state]}"


def rule_subject(check: RuleCheck) -> str:
    """Name what a rule limits, in words that need no glossary."""
    rule = check.rule
    if isinstance(rule, ExcludedRule):
        words = _LOST
    else:
        words = f"{plain_name(plain_subject(rule.axis))}{_COMPARED if rule.needs_baseline else ''}"
    return f"{words[:1].upper()}{words[1:]}"


def _number(check: RuleCheck) -> str:
    if check.censored:
        return check.censored.replace("≤", "at most").replace(">", "more than")
    number = _digits(check.estimate)
    ends = [_digits(end) for end in (check.low, check.high)]
    if check.low == check.high or None in (check.low, check.high):
        return number
    return f"{number} (between {' and '.join(ends)})"


def _digits(value: float | None) -> str:
    if value is None:
        return "not known"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2g}" if 0 < abs(value) < 0.005 else f"{value:.2f}"


def _further(check: RuleCheck) -> str:
    if not check.further_tasks:
        return ""
    return f"; some {check.further_tasks:,} further task{'' if check.further_tasks == 1 else 's'} would decide it"


def _what_decides(check: RuleCheck, run_id: str | None) -> tuple[str, str]:
    """Return what to do about a rule that is not decided, and the command that helps."""
    axis = find(check.rule.axis)
    is_share = axis is not None and axis.hits is not None and axis.among is None and type(check.rule) is AxisRule
    if not check.further_tasks or check.estimate is None:
        return f"No number of further tasks like these is known to decide it: {plain(check.reason).rstrip('.')}.", ""
    helps = check.what_helps or "measure on more tasks of the same kind, and decide again"
    if run_id is None or not is_share:
        return f"{helps[0].upper()}{helps[1:]}.", ""
    width = max(0.01, round(2 * abs(check.estimate - check.rule.limit), 2))
    plan = f"jrh plan --axis {check.rule.axis} --width {width:g} --pilot {run_id[:8]}"
    return f"{helps[0].upper()}{helps[1:]}.", plan


def _reading(check: RuleCheck) -> Reading:
    """Return the number that decided, as a reading."""
    if check.estimate is None:
        return NotEstimable(reason=check.reason, n=check.n or 0)
    ends = None if check.low is None or check.high is None else (check.low, check.high)
    return Estimate(
        value=check.estimate,
        n=check.n or 0,
        excluded=0,
        **intervals(None, ends),
        n_clusters=check.n_clusters or 0,
        method="as the rule was decided",
    )
