"""`jrh.gate`: whether a logged judge meets what is required of it, or the evidence is not enough to say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from jrh_mlflow.decisions.gate_result import Gate, Undecided, log_gate
from jrh_mlflow.decisions.judge_calls import JudgeCalls, known_facts
from jrh_mlflow.decisions.rule_checks import RunEvidence
from jrh_mlflow.errors import RecipeError, check_known
from jrh_mlflow.measures.rules import Rule, parse_rules
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.tracking.runs.read import LoggedRun, check_same_suite, load_runs, run_id_of, run_notes
from jrh_mlflow.yaml_files import Document

Rules = str | Rule | Iterable[str | Rule]
_POLICY = ("require", "baseline", "undecided")
_NOT_COMPARED = "No rule compares with the baseline; one of the form 'AXIS - baseline OP NUMBER' would."


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
    how many further tasks like the present ones would decide it.

    Args:
        run: An `Evaluation`, a run id, `runs:/<id>`, or a unique beginning of an id.
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
    judged = _loaded(run, tracking_uri)
    other = None
    if wanted.compares:
        other = _baseline(judged, baseline if isinstance(baseline, Evaluation) else wanted.baseline, tracking_uri)
    runs = [judged] if other is None else [judged, other]
    idle = [_NOT_COMPARED] if wanted.baseline and other is None else []
    done = Gate(
        results=_evidence(judged, other).check(wanted.require),
        subject=f"{judged.judge} on {judged.suite.name}",
        gated_run=judged.run_id,
        baseline_run=other.run_id if other else None,
        undecided=wanted.undecided,
        simulated=any(each.simulated for each in runs),
        notes=(*run_notes(runs), *_stopped_notes(runs), *idle),
        facts=_facts(judged, other),
    )
    return log_gate(done, tracking_uri=_store(run, tracking_uri)) if log else done


def _evidence(run: LoggedRun, baseline: LoggedRun | None) -> RunEvidence:
    judge = JudgeCalls.of(run)
    other = None if baseline is None else JudgeCalls.of(baseline)
    return RunEvidence(judge=judge, baseline=other, facts=known_facts(run, judge.readings))


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


def _facts(run: LoggedRun, baseline: LoggedRun | None) -> dict[str, str]:
    facts = {
        "run": f"{run.name} ({run.run_id})",
        "suite": f"{run.suite.name} ({len(run.suite):,} items, sha256 {run.suite.sha256[:12]})",
        "calls": f"{len(run.calls):,}",
    }
    return facts if baseline is None else facts | {"baseline": f"{baseline.judge} ({baseline.run_id})"}
