"""`jrh.gate`: whether a logged judge meets what is required of it, or the evidence is not enough to say.

Rules are decided by intervals over the tasks of a run. Where an interval holds the limit, the gate says after how many
further tasks it would be decided: these look like the present ones, which are repeated and read again.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd

from jrh_mlflow.decisions.gate_result import Gate, Look, Undecided, log_gate
from jrh_mlflow.errors import RecipeError, check_known
from jrh_mlflow.measures.axes import VARIANCE
from jrh_mlflow.measures.records import common_calls, normalise, shared_calls
from jrh_mlflow.measures.reliability import priced_calls, usd_per_accuracy_point
from jrh_mlflow.measures.rules import (
    COSTS,
    AttackEvidence,
    AttackRule,
    IntervalRule,
    Rule,
    RuleCheck,
    State,
    hull_ends,
    is_threshold,
    parse_rules,
    printed_ends,
    step_counts,
    undecided,
)
from jrh_mlflow.measures.unit_scores import AxisUnits, every_axis_units
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Ends, Estimate, NotEstimable, Reading, read_reading
from jrh_mlflow.schema.items import PROTOCOL
from jrh_mlflow.scoring.ledger import LOSSES_LEAVE_OPEN, deciding_ends, without_losses
from jrh_mlflow.show.names import reason_text
from jrh_mlflow.show.numbers import interval_text, number_text, threshold_text
from jrh_mlflow.show.results import ReliabilityReport, Report, categorised, measure
from jrh_mlflow.stats import Codes
from jrh_mlflow.stats.variance import ASKING_AGAIN
from jrh_mlflow.suites.more_tasks import more_tasks_text
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import (
    LoggedAttack,
    LoggedReadings,
    LoggedRun,
    check_same_suite,
    load_runs,
    logged_attack,
    logged_readings,
    run_id_of,
    run_notes,
)
from jrh_mlflow.tracking.runs.store import active_uri
from jrh_mlflow.yaml_files import Document

Rules = str | Rule | Iterable[str | Rule]
_POLICY = ("require", "baseline", "undecided")
_NOT_COMPARED = "No rule compares with the baseline; one of the form 'AXIS - baseline OP NUMBER' would."


_TOLD_APART = ("suite_item", "order", "replicate", "outcome", "answer")
"""What makes the answers of two runs other answers, and so another look."""
ALPHA = 0.05
"""Error of all looks at a rule, on both sides together at the first: see `look_level`."""
MOST_TASKS = 20_000
MOST_ROWS = 10_000
"""Tasks that are counted, and calls that are measured, at most."""


@dataclass(frozen=True, kw_only=True)
class GatePolicy:
    """What is required, as a file says it."""

    require: tuple[Rule, ...] = ()
    baseline: str | None = None
    undecided: Undecided = "fail"

    @property
    def compares(self) -> bool:
        """Whether a rule needs the baseline."""
        return any(rule.needs_baseline for rule in self.require)


def gate(
    run: str | Evaluation,
    require: Rules = (),
    *,
    policy: str | Path | Mapping[str, object] | None = None,
    baseline: str | Evaluation | None = None,
    undecided: Undecided | None = None,
    tracking_uri: str | None = None,
    log: bool = True,
) -> Gate:
    """Check a logged evaluation against rules: each holds, fails or is undecided.

    A rule is decided by the end of the interval by task that faces its limit, so that a judge exactly at the limit is
    decided wrongly in at most 5 % of evaluations; where the interval holds the limit it is undecided, and the gate says
    how many further tasks like the present ones would decide it. Asked again with other answers (more tasks, a judge
    that answers otherwise), the k-th look at the same judge, suite and rule decides each side at 0.05 / (k (k + 1)), so
    that all looks together are wrong in at most 5 %; earlier looks are the logged gates of the store.

    Args:
        run: An `Evaluation`, a run id, `runs:/<id>`, or a unique beginning of an id. Of rules about `attack/success`
            the newest attack on it is read, or the run is the attack itself.
        require: One rule or several: `dark_current <= 0.1`, `excluded/dark_current <= 0.02`, `cost/usd <= 2`,
            `dark_current - baseline <= 0.05`.
        policy: A YAML file (or its content) with `require`, `baseline` and `undecided`; rules of both are required.
        baseline: The run that rules of the form `AXIS - baseline` compare with, on the same suite; that of the policy
            when None.
        undecided: What an undecided gate is taken for in `bool(gate)` and exit codes, `fail` or `pass`; that of the
            policy, else `fail`, when None.
        tracking_uri: MLflow store of run ids; that of the evaluation, else the active one, when None.
        log: Log the gate as a run of its own, kind `gate`, and show it on the run that was gated.

    Raises:
        RecipeError: for what is no rule, an axis that the run does not have, a run that is no finished evaluation, a
            baseline that is missing, the same run or on another suite.
        TrackingError: when MLflow cannot be reached.
    """
    wanted = _joined(require, read_policy(policy), baseline=run_id_of(baseline) if baseline is not None else None)
    if undecided is not None:
        check_known("value of `undecided`", undecided, get_args(Undecided))
        wanted = replace(wanted, undecided=undecided)
    place = _store(run, tracking_uri) or active_uri()
    attacks = [rule for rule in wanted.require if isinstance(rule, AttackRule)]
    attack = logged_attack(place, run_id_of(run)) if attacks else None
    if attack is not None and attack.is_own:
        return _attack_gate(attack, attacks, wanted, tracking_uri=place, log=log)
    read = None if isinstance(run, Evaluation) else logged_readings(run_id_of(run), tracking_uri=place)
    if read is not None:
        done = _gate_of_readings(read, wanted, tracking_uri=place)
        return log_gate(done, tracking_uri=_store(run, tracking_uri)) if log else done
    judged = _loaded(run, tracking_uri)
    other = None
    if wanted.compares:
        other = _baseline(judged, baseline if isinstance(baseline, Evaluation) else wanted.baseline, tracking_uri)
    runs = [judged] if other is None else [judged, other]
    judge, *baselines = map(JudgeCalls.of, runs)
    facts = known_facts(judged, judge.readings)
    look = _look(judged)
    looks = look.numbers([rule.text for rule in wanted.require], tracking_uri=place)
    evidence = RunEvidence(
        judge=judge,
        baseline=baselines[0] if baselines else None,
        facts=facts,
        looks=looks,
        attack=None if attack is None else attack_evidence(attack),
    )
    idle = [_NOT_COMPARED] if wanted.baseline and other is None else []
    results = evidence.check(wanted.require)
    done = Gate(
        results=results,
        subject=f"{judged.judge} on {judged.suite.name}",
        gated_run=judged.run_id,
        baseline_run=other.run_id if other else None,
        undecided=wanted.undecided,
        simulated=any(loaded.simulated for loaded in runs),
        notes=(*run_notes(runs), *_stopped_notes(runs), *idle, *_look_notes(results), *_loss_notes(results)),
        facts=_facts(judged, other),
        look=look,
    )
    return log_gate(done, tracking_uri=_store(run, tracking_uri)) if log else done


def _gate_of_readings(run: LoggedReadings, wanted: GatePolicy, *, tracking_uri: str) -> Gate:
    """Decide on the readings of a run that keeps no calls of one judge on one suite, such as a self-preference."""
    if wanted.compares:
        raise RecipeError(f"Run {run.run_id} is of kind {run.kind}, and rules with a baseline need two evaluations.")
    look = Look(judge_and_suite=_digest([run.kind, *sorted(run.settings.items())]), answers=_digest(run.digest))
    looks = look.numbers([rule.text for rule in wanted.require], tracking_uri=tracking_uri)
    facts = {key: (value, value) for key, value in run.metrics.items() if key.startswith(COSTS)}
    results = RunEvidence(judge=ReadJudge(readings=run.readings), facts=facts, looks=looks).check(wanted.require)
    return Gate(
        results=results,
        subject=run.name,
        gated_run=run.run_id,
        undecided=wanted.undecided,
        simulated=run.simulated,
        notes=(*_look_notes(results), *_loss_notes(results)),
        facts={"run": f"{run.name} ({run.run_id})"},
        look=look,
    )


def attack_evidence(attack: LoggedAttack) -> AttackEvidence:
    """Return what rules about an attack are decided on."""
    readings = {axis: read_reading(data) for axis, data in attack.estimates.items()}
    return AttackEvidence(readings=readings, level=look_level(attack.look))


def _attack_gate(
    attack: LoggedAttack, rules: Sequence[AttackRule], wanted: GatePolicy, *, tracking_uri: str, log: bool
) -> Gate:
    """Decide on an attack that was itself named as the run: it has no other readings."""
    others = [rule.text for rule in wanted.require if rule not in rules]
    if others:
        raise RecipeError(f"Run {attack.run_id} is an attack, and {others[0]!r} is about an evaluation: name that run.")
    evidence = attack_evidence(attack)
    done = Gate(
        results=tuple(rule.decided(evidence) for rule in rules),
        subject=attack.subject,
        gated_run=attack.run_id,
        undecided=wanted.undecided,
        simulated=attack.simulated,
        notes=("A simulated judge, not a model.",) if attack.simulated else (),
    )
    return log_gate(done, tracking_uri=tracking_uri) if log else done


def read_policy(policy: str | Path | Mapping[str, object] | None) -> GatePolicy:
    """Read a policy.

    Raises:
        RecipeError: when it cannot be read, or something in it is not known or no rule, naming the file.
    """
    if policy is None:
        return GatePolicy()
    document = (
        Document(policy, _POLICY, where="The policy") if isinstance(policy, Mapping) else Document.read(policy, _POLICY)
    )
    # YAML takes an id of digits for a number, one that begins with 0 for another one.
    baseline = document.value("baseline", str, "a run id", " Put it in quotes.")
    undecided: Undecided = "pass" if document.choice("undecided", get_args(Undecided)) == "pass" else "fail"
    with document.named():
        return GatePolicy(require=_rules(document.data.get("require") or ()), baseline=baseline, undecided=undecided)


def _rules(written: object) -> tuple[Rule, ...]:
    if isinstance(written, str | Rule) or (isinstance(written, Iterable) and not isinstance(written, Mapping)):
        return parse_rules(written)
    raise RecipeError(
        f"`require` must be a list of rules, but is {written!r}. Write one rule per line: `- dark_current <= 0.1`."
    )


def _joined(require: Rules, policy: GatePolicy, *, baseline: str | None) -> GatePolicy:
    """Join what is required here and in the policy, and refuse what cannot be checked."""
    rules = parse_rules([*_rules(require), *policy.require])
    if not rules:
        raise RecipeError("Nothing is required. Give `require` (--require) or a policy, such as 'dark_current <= 0.1'.")
    baseline = baseline or policy.baseline
    comparing = [rule.text for rule in rules if rule.needs_baseline]
    if comparing and baseline is None:
        raise RecipeError(f"The rule {comparing[0]!r} needs a baseline. Name its run with `baseline` (--baseline).")
    return replace(policy, require=rules, baseline=baseline)


def _loaded(run: str | Evaluation, tracking_uri: str | None) -> LoggedRun:
    (loaded,) = load_runs([run_id_of(run)], tracking_uri=_store(run, tracking_uri), purpose="gated")
    return loaded


def _store(run: str | Evaluation, tracking_uri: str | None) -> str | None:
    """Return the store of a run; an evaluation in hand knows its own."""
    return run.tracking_uri if isinstance(run, Evaluation) and run.tracking_uri else tracking_uri


def _baseline(judged: LoggedRun, baseline: str | Evaluation | None, tracking_uri: str | None) -> LoggedRun:
    assert baseline is not None
    other = _loaded(baseline, tracking_uri)
    if other.run_id == judged.run_id:
        raise RecipeError(f"Run {judged.run_id} is its own baseline. Name the run of another judge, or an earlier one.")
    check_same_suite(judged, other)
    return other


def _stopped_notes(runs: Iterable[LoggedRun]) -> list[str]:
    """Say of runs that were stopped once their suite was decided that an interval over tasks does not know it."""
    stopped = [run.judge for run in runs if (run.truncated or "").startswith("until")]
    what = "stopped when its numbers looked decided: intervals over tasks do not heed that and err more often"
    return [f"{judge} was {what}." for judge in stopped]


def _look(judged: LoggedRun) -> Look:
    """Say what is looked at: the judge and its suite, however many tasks it has, and the answers themselves."""
    # The built-in suites have their number of tasks and their seed in their names.
    family = re.sub(r"-\d+x(\d+)-s\d+$", r"-x\1", judged.suite.name)
    # A judge that nothing identifies is no other run's.
    who = [judged.fingerprint or judged.run_id, family]
    columns = [judged.calls[name].fillna("").astype(str) for name in _TOLD_APART]
    return Look(judge_and_suite=_digest(who), answers=_digest(sorted(zip(*columns, strict=True))))


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def _look_notes(checks: Sequence[RuleCheck]) -> list[str]:
    """Say of rules that were looked at before which look this is, and at what error it decides."""
    looks: dict[int, list[str]] = {}
    for check in checks:
        if check.look > 1 and _is_read(check):
            looks.setdefault(check.look, []).append(check.rule.text)
    what = "each look at the same judge, suite and rule decides at less, 0.05 over all"
    return [f"{look_text(look).capitalize()} ({'; '.join(rules)}): {what}." for look, rules in looks.items()]


def _loss_notes(checks: Sequence[RuleCheck]) -> list[str]:
    """Say of rules that nothing but lost calls leaves open that it is so."""
    return [f"{check.rule.text}: {LOSSES_LEAVE_OPEN}." for check in checks if check.by_losses]


def _facts(run: LoggedRun, baseline: LoggedRun | None) -> dict[str, str]:
    facts = {
        "run": f"{run.name} ({run.run_id})",
        "suite": f"{run.suite.name} ({len(run.suite):,} items, sha256 {run.suite.sha256[:12]})",
        "calls": f"{len(run.calls):,}",
    }
    return facts if baseline is None else facts | {"baseline": f"{baseline.judge} ({baseline.run_id})"}


@dataclass(frozen=True, kw_only=True)
class RunEvidence:
    """What rules about a run are decided on."""

    judge: JudgeCalls | ReadJudge
    """Whom they are about."""
    baseline: JudgeCalls | None = None
    """The judge that rules of the form `AXIS - baseline` compare with."""
    facts: Mapping[str, Ends | None] = field(default_factory=dict)
    """Costs, counts and time of the run: both ends, one of them, or nothing that is known."""
    looks: Mapping[str, int] = field(default_factory=dict)
    """Text of a rule to how often it was looked at, this time included; those that are not here, once."""
    attack: AttackEvidence | None = None
    """The newest attack on the judge."""

    @cached_property
    def pair(self) -> list[JudgeCalls]:
        """The judge and its baseline on the calls that both were asked; nobody where there is none."""
        return (
            []
            if self.baseline is None or isinstance(self.judge, ReadJudge)
            else paired_calls(self.judge, self.baseline)
        )

    def check(self, rules: Sequence[Rule]) -> tuple[RuleCheck, ...]:
        """Check every rule.

        Raises:
            RecipeError: when a rule is about something that does not exist, with the nearest name.
        """
        # All names before the first interval: a mistake in the last rule is found at once.
        for rule in rules:
            self._check_known(rule)
        return self._shared([rule.check(self) for rule in rules])

    def _shared(self, checks: Sequence[RuleCheck]) -> tuple[RuleCheck, ...]:
        """Share the error of `fails` over the rules by Holm's steps: one false failure would stop a good judge."""
        failing = {at: check for at, check in enumerate(checks) if check.state == "fails" and _is_read(check)}
        n_left = sum(map(_is_read, checks))
        while sure := [at for at, check in failing.items() if self._fails(check, n_left)]:
            n_left -= len(sure)
            failing = {at: check for at, check in failing.items() if at not in sure}
        return tuple(self._taken_back(check, n_left) if at in failing else check for at, check in enumerate(checks))

    def _fails(self, check: RuleCheck, n_rules: int) -> bool:
        rule = check.rule
        assert isinstance(rule, IntervalRule)
        reading = rule.reading(self._judges(rule))
        assert isinstance(reading, Estimate)
        return rule.state(reading, level=look_level(check.look, n_rules)) == "fails"

    def _taken_back(self, check: RuleCheck, n_rules: int) -> RuleCheck:
        """Leave a rule undecided that fails by itself, but not as one of several."""
        rule = check.rule
        assert isinstance(rule, IntervalRule)
        judges = self._judges(rule)
        reading = rule.reading(judges)
        assert isinstance(reading, Estimate)
        further, _ = further_tasks(rule, judges, reading, level=look_level(check.look + 1, n_rules))
        why = f"by itself it fails, but it is one of {n_rules} rules that could"
        return replace(check, state="undecided", reason=why, further_tasks=further)

    def _judges(self, rule: IntervalRule) -> Sequence[JudgeCalls | ReadJudge]:
        return self.pair if rule.needs_baseline else [self.judge]

    def _check_known(self, rule: Rule) -> None:
        report = self.judge.report
        if isinstance(report, ReliabilityReport) and rule.axis == metric_keys.RELIABILITY_MIN:
            tests = [f"'{test}/{report.metric} {rule.op} {rule.limit:g}'" for test in report.tests][:2]
            why = f"{rule.axis} has no interval, so that {rule.text!r} cannot be decided"
            raise RecipeError(f"{why}. Require {' and '.join(tests)}, ….")
        if not rule.is_known(self.judge.readings, self.facts):
            # An axis of the suite that this run was stopped before is no typing mistake.
            rule.check_known(self.judge.axes, self.facts)

    def interval_check(self, rule: IntervalRule) -> RuleCheck:
        """Decide by an interval; where that is not enough, say how many further tasks like these would be."""
        judges = self._judges(rule)
        if not judges:
            return undecided(rule, "there is no call that both the judge and the baseline were asked")
        reading = rule.reading(judges)
        if isinstance(reading, NotEstimable):
            ends = (reading.bounds.low, reading.bounds.high) if reading.bounds else (None, None)
            reason = reason_text(reading.reason)
            return undecided(rule, f"withheld: {reason}" if reading.withheld else reason, ends=ends, n=reading.n)
        look = self.looks.get(rule.text, 1)
        level = look_level(look)
        low, high = printed_ends(reading)
        state, helps = rule.state(reading, level=level), ""
        if state == "undecided":
            further, why = further_tasks(rule, judges, reading, level=look_level(look + 1))
            if rule.state(without_losses(reading), level=level) != "undecided":
                why = LOSSES_LEAVE_OPEN
            elif further:
                helps = self._what_helps(rule, reading, further, level=look_level(look + 1))
        else:
            further, why = 0, _decided_by(rule, state, *deciding_ends(reading, level=level))
        return RuleCheck(
            rule=rule,
            state=state,
            # A censored value is only a bound: it is told in words.
            estimate=None if reading.censored else reading.value,
            low=low,
            high=high,
            reason=why if look == 1 else f"{why} ({look_text(look)})",
            further_tasks=further,
            what_helps=helps,
            look=look,
            by_losses=why == LOSSES_LEAVE_OPEN,
            n=reading.n,
            n_clusters=reading.n_clusters,
            censored=threshold_text(reading) if reading.censored and reading.unit == "curve" else "",
        )

    def _what_helps(self, rule: IntervalRule, reading: Estimate, further: int, *, level: float) -> str:
        """Say where further tasks are, and which limit the present ones decide at the next look."""
        low, high = deciding_ends(reading, level=level)
        is_upper = rule.op in ("<=", "<")
        end, which, way = (high, "more", math.ceil) if is_upper else (low, "less", math.floor)
        # A limit that every reading keeps is none; a threshold lies on a step.
        is_limit = end is not None and not is_threshold(rule.axis) and (end < 1 if is_upper else end > 0)
        reached = f"take a limit of {way(100 * end) / 100:.2f} or {which}" if is_limit and end is not None else ""
        if self.judge.suite is None or self.judge.report is None:
            return ""
        again = self.judge.report.estimates.get(f"{VARIANCE}{ASKING_AGAIN}")
        return more_tasks_text(further, self.judge.suite, again=again, reached=reached)


def _is_read(check: RuleCheck) -> bool:
    """Whether a rule was decided, or left open, by an interval: a fact has no error to share."""
    return isinstance(check.rule, IntervalRule) and check.n_clusters is not None


def look_level(look: int, n_rules: int = 1) -> float:
    """Return the level of the interval that decides the k-th look: `0.05 / (k (k + 1))` on each side, 0.05 over all.

    Example:
        >>> [round((1 - look_level(look)) / 2, 4) for look in (1, 2, 3)]
        [0.025, 0.0083, 0.0042]
    """
    return 1 - 2 * ALPHA / (look * (look + 1) * n_rules)


def look_text(look: int) -> str:
    """Say which look it is and at which error each side of it is decided: `third look: decided at 0.0042`."""
    words = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
    nth = words[look - 1] if look <= len(words) else f"{look}th"
    return f"{nth} look: decided at {ALPHA / (look * (look + 1)):.2g}"


def _decided_by(rule: Rule, state: State, low: float | None, high: float | None) -> str:
    # To hold under `<=` and to fail under `>=` are both decided by the upper end.
    upper = (state == "holds") == (rule.op in ("<=", "<"))
    end, name = (high, "upper") if upper else (low, "lower")
    return f"the {name} end of its interval is {number_text(end, limit=rule.limit)}"


def further_tasks(
    rule: IntervalRule, judges: Sequence[JudgeCalls | ReadJudge], reading: Estimate, *, level: float = 0.95
) -> tuple[int | None, str]:
    """Say after how many more tasks an undecided rule would be decided, None where no number helps; and why it is not.

    A threshold has no number on the limit itself: it is reached by a step or not, and its ends may both be open yet.
    To ask again is a further look, so that its `level` counts.
    """
    low, high = deciding_ends(reading)
    inside, between_steps = _open_text(rule, reading), is_threshold(rule.axis)
    facing = low if reading.value > rule.limit else high
    if low is None and high is None and not between_steps:
        return None, "there is no interval by task"
    if reading.value == rule.limit and not between_steps:
        return None, f"{inside}, and the estimate on the limit itself: no number of tasks helps"
    if facing is None and not between_steps:
        return None, f"{inside}, which is open on the side of the limit"
    own = [judge for judge in judges if isinstance(judge, JudgeCalls)]
    if not own:
        wider = _times_wider(rule, reading, level)
        return None if wider is None else max(1, math.ceil((wider - 1) * reading.n_clusters)), inside
    needed, times = _by_counts(rule, own, reading, level) or _by_calls(rule, own, reading, level)
    present = len(own[0].tasks)
    if needed is None:
        return None, f"{inside}; {(times - 1) * present:,} further tasks like these would not decide it"
    return needed - present, inside


def _open_text(rule: IntervalRule, reading: Estimate) -> str:
    """Say what is known of an undecided reading."""
    low, high = deciding_ends(reading)
    if not is_threshold(rule.axis):
        return f"the limit lies within its interval {interval_text(low, high)}"
    over = ("over", "at most") if reading.unit == "curve" else ("at least", "at most")
    known = [f"{word} {end:g}" for word, end in zip(over, (low, high), strict=True) if end is not None]
    what = f"only that it is {' and '.join(known)}" if known else "nothing of it"
    return f"the intervals at the steps of the curve decide {what}"


TaskSearch = tuple[int | None, int]
"""How many tasks like the present ones would decide a rule, and how many times as many were looked at."""


def _by_counts(rule: IntervalRule, judges: Sequence[JudgeCalls], reading: Estimate, level: float) -> TaskSearch | None:
    """Repeat the counts of a share, or of the shares of a curve; None for what is made of anything else."""
    counts, n_tasks = [step_counts(judge, rule.axis) for judge in judges], len(judges[0].tasks)
    # A step that one of the two judges lacks has no difference to count.
    if not counts[0] or {*counts[0]} != {*counts[-1]}:
        return None
    # The answers that came; where some are lost also both completions, those of a baseline the other way round.
    versions = [counts]
    if reading.excluded:
        versions += [[step_counts(judge, rule.axis, side ^ at) for at, judge in enumerate(judges)] for side in (0, 1)]

    def ends_of(tasks: Codes, level: float = 0.95) -> Ends | None:
        return hull_ends(
            [
                rule.ends_of_counts(
                    [{step: (hits[tasks], sizes[tasks]) for step, (hits, sizes) in steps.items()} for steps in version],
                    level=level,
                )
                for version in versions
            ]
        )

    # Counts stand for the reading only where they give its own interval back.
    if ends_of(np.arange(n_tasks)) != deciding_ends(reading):
        return None

    def is_decided(wanted: int) -> bool:
        ends = ends_of(np.repeat(np.arange(n_tasks), _times(n_tasks, wanted)), level)
        return ends is not None and rule.state(reading, ends) != "undecided"

    times, guess = MOST_TASKS // n_tasks, _times_wider(rule, reading, level)
    return tasks_needed(is_decided, n_tasks, most=times, guess=2 if guess is None else math.ceil(guess)), times


def _by_calls(rule: IntervalRule, judges: Sequence[JudgeCalls], reading: Estimate, level: float) -> TaskSearch:
    """Repeat the calls themselves, twice, four times, …, and measure them again: for what is more than a share.

    Every rule looks at the same repeats, so that each is measured once. Between the last that does not decide and the
    first that does, the interval is taken to shrink with the root of the number of tasks.
    """
    n_tasks, most = len(judges[0].tasks), max(2, MOST_ROWS // len(judges[0].calls))
    times, wider = 1, _times_wider(rule, reading, level)
    # Measuring takes its time: what the width of the interval puts far beyond reach is not looked at.
    while times < most and (wider is None or wider * times <= 2 * most):
        more = min(2 * times, most)
        repeated = rule.reading([judge.repeated(more) for judge in judges])
        if isinstance(repeated, Estimate) and rule.state(repeated, level=level) != "undecided":
            needed = more * n_tasks if wider is None else math.ceil(wider * times * n_tasks)
            # The present repeats do not decide and the next ones do: the answer lies between.
            return min(max(needed, times * n_tasks + 1), more * n_tasks), most
        times, wider = more, _times_wider(rule, repeated, level) if isinstance(repeated, Estimate) else None
    return None, most


def _times_wider(rule: IntervalRule, reading: Estimate, level: float) -> float | None:
    """Return how many times as many tasks an interval needs that shrinks with their root; None where it has no end."""
    # What lost calls leave open does not shrink.
    low, high = deciding_ends(without_losses(reading), level=level)
    end = low if reading.value > rule.limit else high
    if end is None or is_threshold(rule.axis) or reading.value == rule.limit:
        return None
    return ((end - reading.value) / (rule.limit - reading.value)) ** 2


def _times(n_tasks: int, wanted: int) -> Codes:
    """Return how often each task is taken: as often as any other; a rest lies evenly among them.

    Example:
        >>> _times(4, 10).tolist()
        [2, 3, 2, 3]
    """
    return np.bincount((np.arange(wanted) * n_tasks + n_tasks // 2) // wanted, minlength=n_tasks)


def tasks_needed(is_decided: Callable[[int], bool], n_tasks: int, *, most: int, guess: int) -> int | None:
    """Return the fewest tasks that decide, where `n_tasks` do not; None where `most` times as many do not.

    Whole repeats of all tasks are looked at first: part of them may look better or worse than all.

    Args:
        is_decided: Of a number of tasks.
        n_tasks: The present ones.
        most: Repeats to look at.
        guess: Repeats to begin with.

    Example:
        >>> tasks_needed(lambda n: n >= 37, 10, most=64, guess=2)
        37
    """
    # Doubling and bisecting ask for some numbers twice, and each is read from all counts.
    is_decided = cache(is_decided)
    low, high = 1, min(max(2, guess), most)
    while not is_decided(high * n_tasks):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    high = _first(lambda times: is_decided(times * n_tasks), low, high)
    return _first(is_decided, (high - 1) * n_tasks, high * n_tasks)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Bisect between a number that does not and one that does."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@dataclass(frozen=True, kw_only=True)
class ReadJudge:
    """Readings that a run logged, with no calls to read them from again."""

    readings: Mapping[str, Reading]
    units: Mapping[str, AxisUnits] = field(default_factory=dict)
    suite: None = None
    report: None = None

    @property
    def axes(self) -> Collection[str]:
        """Every axis that was read."""
        return self.readings


@dataclass(frozen=True, kw_only=True)
class JudgeCalls:
    """The calls of one judge on one suite, and how its run reads them."""

    calls: pd.DataFrame
    labels: Sequence[str] | None = None
    groups: Mapping[str, str] | None = None
    """Item to its category."""
    seed: int = 0
    metric: str | None = None
    definitions: str = PROTOCOL
    suite: Suite | None = None
    """Of which they are all calls, or some."""
    _repeats: dict[int, JudgeCalls] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, run: LoggedRun) -> JudgeCalls:
        """Return the calls of a run, to be read as the run itself read them."""
        return cls(
            calls=run.calls,
            labels=run.suite.labels,
            groups=run.suite.groups,
            seed=int(run.params.get(keys.PARAM_SEED, 0)),
            metric=run.params.get(keys.PARAM_METRIC),
            definitions=run.params.get(keys.PARAM_DEFINITIONS, PROTOCOL),
            suite=run.suite,
        )

    @cached_property
    def report(self) -> Report:
        """What the run measured."""
        report = measure(
            self.calls, seed=self.seed, labels=self.labels, metric=self.metric, definitions=self.definitions
        )
        return categorised(report, self.calls, self.groups or {}, seed=self.seed)

    @cached_property
    def readings(self) -> dict[str, Reading]:
        """Every axis that was measured."""
        readings = keys.sheet_readings(self.report)
        if isinstance(self.report, ReliabilityReport):
            readings[metric_keys.RELIABILITY_MEAN] = self.report.mean_score
        return readings

    @cached_property
    def axes(self) -> Collection[str]:
        """Every axis that was measured, or would have been if the whole suite had been asked."""
        from jrh_mlflow.decisions.planning import suite_calls

        if self.suite is None:
            return self.readings
        whole = replace(self, calls=pd.DataFrame(suite_calls(self.suite)), suite=None)
        return dict.fromkeys([*self.readings, *whole.readings])

    @cached_property
    def units(self) -> dict[str, AxisUnits]:
        """What every axis counts that is a mean over units."""
        return every_axis_units(normalise(self.calls), labels=self.labels, any_mean=True)

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks, or of the sources."""
        return sorted(set(self.calls["task"]))

    def repeated(self, times: int) -> JudgeCalls:
        """Return calls on so many times as many tasks, which look like the present ones; measured once for all axes."""
        if times not in self._repeats:
            # A copy is a task of its own, with items of its own.
            copies = [
                self.calls.assign(**{name: self.calls[name] + f"~{nth}" for name in ("task", "suite_item")})
                for nth in range(times)
            ]
            groups = {f"{item}~{nth}": name for item, name in (self.groups or {}).items() for nth in range(times)}
            # `replace` hands on neither cached readings nor repeats: the copy is measured anew.
            self._repeats[times] = replace(self, calls=pd.concat(copies, ignore_index=True), groups=groups)
        return self._repeats[times]


def paired_calls(judge: JudgeCalls, baseline: JudgeCalls) -> list[JudgeCalls]:
    """Return both judges on the calls that both were asked; nobody where there is none."""
    frames = {"judge": normalise(judge.calls), "baseline": normalise(baseline.calls)}
    if common_calls(frames).empty:
        return []
    calls = shared_calls(frames)
    # Both as the judge is read: scores of two metrics have no difference.
    if (baseline.metric, baseline.definitions) != (judge.metric, judge.definitions):
        baseline = replace(baseline, metric=judge.metric, definitions=judge.definitions)
    # What is measured already need not be measured again.
    return [
        own if len(own.calls) == len(calls[name]) else replace(own, calls=calls[name])
        for name, own in (("judge", judge), ("baseline", baseline))
    ]


def known_facts(run: LoggedRun, readings: Mapping[str, Reading]) -> dict[str, Ends | None]:
    """Return what is known of every cost, count and time of a run: of a sum that lacks some calls the lower end.

    Where no model was asked, by a simulated judge or for recorded answers, what is not known is nothing: 0.
    """
    calls, accuracy = run.calls, readings.get("all/accuracy")
    if run.simulated or run.recorded:
        calls = calls.assign(**{column: 0.0 for column in keys.SUMMED.values() if calls[column].isna().all()})
    points = keys.call_points(calls, seconds=0.0)
    if isinstance(accuracy, Estimate):
        own = priced_calls(calls, run.params.get(keys.PARAM_DEFINITIONS, PROTOCOL))
        usd = keys.whole_total(own, "cost_usd")
        points += keys.price_points(usd_per_accuracy_point(usd, accuracy.value))
    values = dict.fromkeys(keys.SUMMED, 0.0) if calls.empty else {}
    # The calls do not tell how long the run took: its own metrics do.
    values |= {point.key: point.value for point in points if point.key != metric_keys.SECONDS}
    values |= {key: value for key, value in run.metrics.items() if key.startswith(COSTS)}
    values[metric_keys.UNKNOWN_COSTS] = unknown = keys.unknown_costs(calls)
    if unknown:
        # A mean without the unknown calls bounds nothing, unlike a sum, which can only grow.
        values.pop(metric_keys.COST_PER_1K_CALLS, None)
    gaps = {key for key, column in keys.SUMMED.items() if calls[column].isna().any()}
    known = {key: (value, None if key in gaps else value) for key, value in values.items()}
    return {**dict.fromkeys(keys.SPENT), **known}
