"""`Gate`: what some rules came to, and its run.

A gate is logged as a run of kind `gate`; the run that was gated says so in its tags, page, datasheet and description.
People and build servers see it in one line, as Markdown, on a screen, as a section of a page and as JUnit XML.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal, get_args
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from jrh_mlflow.decisions.gate_verdict import gate_verdict
from jrh_mlflow.measures.axes import find
from jrh_mlflow.measures.behind import has_calls
from jrh_mlflow.measures.rules import STATE_WORDS, RuleCheck, State, overall
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.show.cards import ShownResult, brief_run
from jrh_mlflow.show.decided_rules import (
    CHECKS,
    DecidedRule,
    DecisionSection,
    checks_frame,
    decided_rules,
    with_markdown_section,
    with_section,
)
from jrh_mlflow.show.html import FROM_RUN, Addresses
from jrh_mlflow.show.names import rule_name
from jrh_mlflow.show.numbers import number_text
from jrh_mlflow.show.page import Page, Section
from jrh_mlflow.show.plain_text import (
    MAX_DESCRIPTION,
    line_text,
    plain,
    said_lines,
    sentence_text,
    wrapped_line,
)
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import LoggedEvaluation, experiment_names, finished_runs, run_file
from jrh_mlflow.tracking.runs.store import (
    RunContent,
    Store,
    active_uri,
    add_to_run,
    log_result,
    reading_client,
    run_description,
    shown_content,
)

if TYPE_CHECKING:
    import pandas as pd

_MOST_RULES = 5000
"""Characters: MLflow cuts a param at 6,000 without a word."""
Undecided = Literal["fail", "pass"]


MARKDOWN_HEAD = "# Gate: "
"""How the Markdown of a gate begins."""
JUNIT_NAME = "jrh gate"
"""An artifact of its run."""
_MOST_NAMED = 3
"""Rules that the line of the outcome names."""
_Outcome = Literal["passed", "failure", "skipped"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What a gate looked at: another gate of the same judge and suite on other answers is a further look."""

    judge_and_suite: str
    answers: str

    @property
    def tags(self) -> dict[str, str]:
        """What the run of the gate is found by."""
        return {keys.TAG_LOOKED_AT: self.judge_and_suite, keys.TAG_ANSWERS: self.answers}

    def numbers(self, rules: Collection[str], *, tracking_uri: str) -> dict[str, int]:
        """Return for each rule which look this is, by the gates that the store holds; the same answers are no new one.

        Raises:
            TrackingError: when MLflow cannot be reached.
        """
        with reading_client(tracking_uri) as client:
            chosen = f"tags.`{keys.TAG_LOOKED_AT}` = '{self.judge_and_suite}'"
            newest_first = finished_runs(client, "gate", [*experiment_names(client)], chosen=chosen)
        earlier = [(run.data.tags[keys.TAG_ANSWERS], _rules_of(run, tracking_uri)) for run in reversed(newest_first)]
        looks = {rule: [*dict.fromkeys(answers for answers, own in earlier if rule in own)] for rule in rules}
        return {
            rule: 1 + (seen.index(self.answers) if self.answers in seen else len(seen)) for rule, seen in looks.items()
        }


def _rules_of(run: Any, tracking_uri: str) -> list[str]:
    """Return the rules of a logged gate; a list that was too long for a param stands in its file."""
    written = str(run.data.params.get("gate.rules", ""))
    if not written.endswith(f"rules, in {keys.GATE_JSON}"):
        return written.split("; ")
    content = run_file(tracking_uri, str(run.info.run_id), keys.GATE_JSON)
    return [] if content is None else [check["rule"] for check in json.loads(content)["checks"]]


@dataclass(frozen=True, kw_only=True)
class Gate(ShownResult):
    """Whether rules hold, fail or cannot be decided on what was measured. True in a test only where it may go on."""

    results: tuple[RuleCheck, ...]
    """One for each rule, in their order."""
    subject: str
    """What was gated: the judge and its suite, or the application."""
    gated_run: str | None = None
    """Id of the run that was gated."""
    baseline_run: str | None = None
    """Id of the run that rules of the form `AXIS - baseline` compare with."""
    undecided: Undecided = "fail"
    """What an undecided gate is taken for where only yes or no can be said: `bool(gate)`, an exit code."""
    simulated: bool = False
    """Whether a judge behind it is simulated."""
    notes: tuple[str, ...] = ()
    """What a reader must know first: simulated, truncated."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What was read, for people: suite, calls, baseline."""
    look: Look | None = None
    """By what later gates find it; None: they need not."""

    @property
    def passed(self) -> bool | None:
        """True: all rules hold. False: one fails. None: not enough evidence."""
        return overall([check.state for check in self.results])

    @property
    def verdict(self) -> Verdict:
        """What holds, fails and is not decided in plain words, with what to do next; a finding for each rule."""
        return gate_verdict(self.results, subject=self.subject, run_id=self.gated_run)

    def __bool__(self) -> bool:
        return self.passed is True or (self.passed is None and self.undecided == "pass")

    @property
    def checks(self) -> pd.DataFrame:
        """One row per rule: state, estimate, the interval that decided, and how many further tasks would decide it."""
        return checks_frame(self.rows)

    @property
    def rows(self) -> list[DecidedRule]:
        """The checks as every table shows them."""
        return decided_rules(check.to_dict() for check in self.results)

    def to_frame(self) -> pd.DataFrame:
        """Return the checks."""
        return self.checks

    @property
    def reason(self) -> str:
        """The outcome in one line: `passed: 3 of 3 rules hold`, `failed: …`, `undecided: …`."""
        return gate_reason(self.results)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        names = ("run_id", "link", "subject", "gated_run", "baseline_run", "passed", "reason", "undecided", "simulated")
        return {
            **{name: getattr(self, name) for name in names},
            "verdict": self.verdict.to_dict(),
            "notes": list(self.notes),
            "facts": dict(self.facts),
            "checks": [check.to_dict() for check in self.results],
        }

    @property
    def title(self) -> str:
        """Names what was gated."""
        return f"Gate: {self.subject}"

    @property
    def page(self) -> Page:
        """What the page of its run shows: the rules, each number with the calls behind it."""
        shares = {check.rule.text: _served(check, self.gated_run) for check in self.results}
        rows = [replace(row, **shares[row.rule]) for row in self.rows]
        return Page.saying(
            self.verdict,
            title=self.title,
            notes=self.shown_notes,
            facts=self.facts,
            sections=[Section(heading="Rules", blocks=[CHECKS(rows)])],
        )

    def to_lines(self) -> list[str]:
        """Return what a terminal shows."""
        rules = CHECKS(self.rows).to_text().splitlines()
        advice = (line for said in self._advice for line in wrapped_line(*said))
        return [*said_lines(self.verdict.sentences), "", *rules, "", *advice, *wrapped_line("gate", self.reason)]

    @property
    def _advice(self) -> list[tuple[str, str]]:
        """Of every rule that does not hold its state, and what would decide it or why it fails."""
        rows = [row for row in self.rows if row.state != "holds"]
        return [(STATE_WORDS[row.state], f"{rule_name(row.rule)} ({row.rule}): {row.advice}") for row in rows]

    def to_markdown(self) -> str:
        """Return the outcome and one row per rule, as a pull request or a build shows them."""
        state, _, rest = gate_reason(self.results, spelled=_code, harmless=line_text).partition(": ")
        lead, *more = map(sentence_text, self.verdict.sentences)
        parts = [f"{MARKDOWN_HEAD}{line_text(self.subject)}", f"**{lead}**", " ".join(more)]
        parts += [f"**{state.capitalize()}**: {rest}"]
        parts += [f"> {line_text(note)}" for note in self.shown_notes]
        parts += [CHECKS(self.rows).to_markdown()]
        parts += ["\n".join(f"- {line_text(key)}: {line_text(value)}" for key, value in self._shown_facts.items())]
        return "\n\n".join([*(part for part in parts if part), ""])

    def to_junit(self) -> str:
        """Return JUnit XML with one test case per rule; one that is undecided fails, or is skipped with `pass`.

        What was measured stands in every case. Texts are one line of printable characters: XML holds no others.
        """
        undecided: _Outcome = "failure" if self.undecided == "fail" else "skipped"
        states: dict[State, _Outcome] = {"holds": "passed", "fails": "failure", "undecided": undecided}
        outcomes = [states[check.state] for check in self.results]
        counted = Counter(outcomes)
        counts = {"tests": len(outcomes), "failures": counted["failure"], "errors": 0, "skipped": counted["skipped"]}
        about = {name: str(count) for name, count in counts.items()} | {"time": "0"}
        root = Element("testsuites", {"name": JUNIT_NAME, **about})
        suite = SubElement(root, "testsuite", {"name": plain(f"gate: {self.subject}"), **about})
        properties = SubElement(suite, "properties")
        for name, value in {"outcome": self.reason, **self._shown_facts}.items():
            SubElement(properties, "property", {"name": plain(name), "value": plain(value)})
        for check, row, outcome in zip(self.results, self.rows, outcomes, strict=True):
            named = {"classname": plain(self.subject), "name": plain(row.rule), "time": "0"}
            _fill(SubElement(suite, "testcase", named), measured_text(check), row, outcome)
        ElementTree.indent(root)
        # Bytes: of a text it would declare the encoding of this machine.
        content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
        return f"{content.decode()}\n"

    @property
    def _shown_facts(self) -> dict[str, str]:
        return {**self.facts, **({"logged": self.link} if self.link else {})}

    @property
    def shown_notes(self) -> list[str]:
        """What a reader must know first, and that an undecided gate is taken as passed."""
        taken = self.passed is None and self.undecided == "pass"
        return [*self.notes, *(["Undecided is taken as passed, as asked."] if taken else [])]

    def __repr__(self) -> str:
        # With the first number: it is all that a failing `assert` shows.
        said = " ".join(self.verdict.sentences[:2])
        return f"Gate({said} {brief_run(self.run_id).capitalize()})"

    def _card(self) -> dict[str, Any]:
        advice = (f"{state.capitalize()}: {text}." for state, text in self._advice)
        return {"profile": self.reason, "tables": [CHECKS(self.rows)], "notes": [*self.shown_notes, *advice]}


def log_gate(gate: Gate, *, tracking_uri: str | None = None) -> Gate:
    """Log a gate as a run of its own beside the run that was gated, and let that one show it, the newest in place.

    Args:
        gate: Of a run.
        tracking_uri: The store of that run; the active one when None.

    Returns:
        The gate with the id of its run and where it can be looked at.

    Raises:
        TrackingError: when MLflow does not take it.
    """
    gated = gate.gated_run
    if gated is None:
        raise ValueError(f"A gate of no run has no place beside one: {gate!r}.")
    uri = tracking_uri or active_uri()
    with reading_client(uri) as client:
        experiment_id = client.get_run(gated).info.experiment_id
    store = Store(uri, experiment_id=experiment_id)
    # Logged before it is shown: a run must not name a gate that does not exist.
    name, what_now = f"gate: {gate.subject}", "Nothing else was changed."
    gate = log_result(store, gate, "gate", gate_content, name=name, simulated=gate.simulated, what_now=what_now)
    _show(store, gate, gated, str(gate.run_id))
    return gate


def gate_content(gate: Gate) -> RunContent:
    """Return what a run of kind `gate` holds."""
    rules = "; ".join(check.rule.text for check in gate.results)
    params = {
        "rules": rules if len(rules) <= _MOST_RULES else f"{len(gate.results)} rules, in {keys.GATE_JSON}",
        "run": gate.gated_run,
        "baseline": gate.baseline_run,
        "undecided": gate.undecided,
    }
    return shown_content(
        gate,
        keys.GATE_JSON,
        points=gate_points([check.state for check in gate.results], passed=gate.passed),
        params={"gate": params},
        tags=gate.look.tags if gate.look else {},
    )


def _served(check: RuleCheck, run_id: str | None) -> dict[str, Any]:
    """Return what a page can do with the number of a rule: draw it, and lead to its calls."""
    key = check.rule.axis
    # Rules of differences and of facts name more than an axis.
    if not check.rule.text.startswith(f"{key} ") or " - " in check.rule.text:
        return {}
    axis = find(key)
    share = axis.statistic == "rate" if axis else key.endswith("/accuracy")
    leads = run_id is not None and has_calls(key)
    return {"share": share, "address": FROM_RUN.calls(run_id, axis=key) if leads and run_id else ""}


def _show(store: Store, gate: Gate, gated: str, run_id: str) -> None:
    what_now = f"The gate is logged as run {run_id}; the run that was gated does not show it."
    tags = {keys.TAG_GATE: gate.reason, keys.TAG_GATE_RUN: run_id}
    with store.errors(what_now):
        store.log_batch(gated, tags=tags)
    checks = [check.to_dict() for check in gate.results]
    now = datetime.now(timezone.utc).timestamp() * 1000
    section = gate_section(gate.reason, checks, notes=gate.notes, ended_ms=now, link=gate.link or "")
    show_decision(store, gated, section, what_now=what_now)


def gate_points(states: Sequence[State], *, passed: bool | None) -> list[keys.Point]:
    """Spell a gate: how many rules hold, fail and are undecided, and 1 or 0 where it is decided.

    Example:
        >>> [point.key for point in gate_points(["holds", "undecided"], passed=None)]
        ['gate/holds', 'gate/fails', 'gate/undecided']
    """
    counts = {f"gate/{state}": float(states.count(state)) for state in get_args(State)}
    return keys.known_points({**counts, "gate/passed": passed})


def show_decision(store: Store, run_id: str, section: DecisionSection, *, what_now: str) -> None:
    """Let a run's page, datasheet and description show a decision, the newest of its kind; all else stays.

    A run without these files keeps what it has.

    Raises:
        TrackingError: when MLflow does not give or take them; `what_now` says what is safe.
    """
    page, markdown = (_text(store, run_id, name) for name in (keys.DATASHEET_PAGE, keys.DATASHEET_MARKDOWN))
    files = {} if page is None else {keys.DATASHEET_PAGE: with_section(page, section)}
    files |= {} if markdown is None else {keys.DATASHEET_MARKDOWN: with_markdown_section(markdown, section)}
    with store.errors(what_now):
        note = store.client.get_run(run_id).data.tags.get(keys.TAG_NOTE)
    shown = None if note is None else _described(run_id, note, markdown, section)
    tags = {} if shown is None else {keys.TAG_NOTE: shown}
    if files or tags:
        add_to_run(store, run_id, points=(), artifacts=files, tags=tags, what_now=what_now)


def _text(store: Store, run_id: str, name: str) -> str | None:
    """Return a file of the run; None where there is none, and of one that is no text of ours."""
    content = run_file(store.uri, run_id, name)
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return None


def _described(run_id: str, note: str, markdown: str | None, section: DecisionSection) -> str:
    """Return the description with the decision; what somebody wrote into it stays, and is not cut for our sake."""
    if markdown is not None and note == _described_at_first(run_id, markdown):
        return _described_at_first(run_id, with_markdown_section(markdown, section))
    # Somebody may have edited the description since.
    added = with_markdown_section(note, section)
    return added if len(added) <= MAX_DESCRIPTION else note


def _described_at_first(run_id: str, markdown: str) -> str:
    """Describe an evaluation as it was described at first."""
    return run_description(markdown, run_id, has_calls=True, artifact=keys.DATASHEET_MARKDOWN)


def gate_reason(
    checks: Sequence[RuleCheck], *, spelled: Callable[[str], str] = str, harmless: Callable[[str], str] = str
) -> str:
    """Say in one line what the rules came to; `spelled` writes the text of a rule, `harmless` why one has no number."""
    passed = overall([check.state for check in checks])
    if passed:
        return f"passed: {len(checks)} of {len(checks)} rules hold"
    # What fails is named first: further tasks would not help a gate that has failed.
    state, verb = ("undecided", STATE_WORDS["undecided"]) if passed is None else ("fails", "failed")
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
    low, high = (number_text(end, limit=check.rule.limit) for end in (check.low, check.high))
    return f"{number} [{low}, {high}]"


def _number(check: RuleCheck) -> str:
    """Write the estimate; of a censored threshold the bound with its sign; nothing where there is neither."""
    if check.censored or check.estimate is None:
        return check.censored
    return f"{check.estimate:.4g}" if check.low == check.high == check.estimate else number_text(check.estimate)


def _needs(check: RuleCheck, harmless: Callable[[str], str]) -> str:
    if check.state == "undecided" and not _number(check) and check.further_tasks is None:
        return f": {harmless(check.reason)}"
    if check.state != "undecided" or check.further_tasks is None:
        return ""
    return f", decided after some {check.further_tasks:,} further tasks like these"


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


def _fill(case: Element, measured: str, row: DecidedRule, outcome: _Outcome) -> None:
    """Say in a test case what was measured and, where the rule does not hold, why and what would decide it."""
    size = f", n {row.size_text}" if row.size_text else ""
    message, why = plain(f"{row.state}: {measured}{size}"), plain(row.advice)
    if outcome == "failure":
        SubElement(case, outcome, {"message": message, "type": row.state}).text = why
    elif outcome == "skipped":
        SubElement(case, outcome, {"message": f"{message}; {why}"})
    SubElement(case, "system-out").text = f"{message}; {why}" if why else message
