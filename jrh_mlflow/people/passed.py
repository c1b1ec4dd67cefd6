"""`jrh.passed`: whether an application's true failure rate is low enough, given how often its judge errs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real

import numpy as np
import pandas as pd

from jrh_mlflow.decisions.gate_result import Gate
from jrh_mlflow.decisions.gate_runs import log_gate
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.rules import Rule, RuleCheck, decide, parse_rule
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.people.correct import _labels
from jrh_mlflow.people.labels.scored_traces import source_run
from jrh_mlflow.people.labels.verdicts import Judged, Reader, _is_run, _texts, read_values
from jrh_mlflow.people.matching import check_same_judge, check_same_scale
from jrh_mlflow.schema.items import BASELINE, PAIR_CONDITIONS
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED
from jrh_mlflow.stats.corrected_rates import (
    FailureCounts,
    failure_estimate,
    is_above_bound,
    lower_bound,
    upper_bound,
    youden,
)
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import LoggedRun, load_runs, run_notes

AXIS = "failure_rate"
MOST_ROWS = 20_000
"""Rows that are counted at most to say how many further ones would decide."""
_BEGINNING = re.compile("[0-9a-f]{8,31}")
_LABELLED = (
    "Give a run of `jrh agree` (kind agree), or of `jrh evaluate` on a suite whose unperturbed items have true labels"
)


def passed(
    result: object,
    judge_run: object,
    *,
    max_failure: float,
    level: float = 0.95,
    scorer: str | None = None,
    positive: object = None,
    tracking_uri: str | None = None,
    log: bool = False,
) -> Gate:
    """Say whether at most the share `max_failure` of an application's answers truly fail, by a judge that errs.

    The judge's verdicts on labelled items tell how many failures it finds and how many passes it fails wrongly; the
    bounds of the true failure rate take the chance in the rows and in both of these into account. Each bound is one of
    `level` by itself: an application exactly at the limit passes in at most 5 % of runs, and fails in at most 5 %.

    Example:
        >>> import jrh_mlflow as jrh
        >>> labelled = [{"judge": j, "human": h} for j, h in [(True, True), (False, False)] * 200]
        >>> gate = jrh.passed([True] * 48 + [False] * 2, labelled, max_failure=0.2)
        >>> gate.passed, gate.checks["state"].tolist()
        (True, ['holds'])

    Args:
        result: What the judge said about the application: the result of `mlflow.genai.evaluate`, its run id, traces or
            `traces:/<experiment>`, or booleans (also yes/no, pass/fail, 1/0; None is no verdict) as a list, Series,
            table or file with the column `judge`.
        judge_run: What the judge's errors are known from: a run of kind `agree` (its id, `runs:/<id>`, or the
            `Agreement`), an evaluation on a suite with true labels (run id or `Evaluation`; its unperturbed items are
            read, and labels that a model wrote do not count), or a table with the columns `judge` and `human`.
        max_failure: The largest share of true failures that passes.
        level: Of each bound, over one half; a higher one gives wider bounds.
        scorer: Which scorer of the result; the only one when None.
        positive: Answer, or answers, that are a pass, where they are not booleans: `positive=(4, 5)`, or where yes is
            the failure: `positive="no"`.
        tracking_uri: MLflow store; the active one when None.
        log: Log the gate as a run beside that of the result, which must be known.

    Returns:
        A gate with the one rule `failure_rate <= max_failure`: true in `assert` only where it holds. `further_tasks`
        are further rows.

    Raises:
        RecipeError: in one line, when something cannot be read, the judge or its scale is another one than that of
            `judge_run`, or `judge_run` does not say how the judge errs.
        TrackingError: when MLflow cannot be reached.
    """
    rule = _rule(max_failure, level)
    reader = Reader(positive=_labels(positive), scorer=scorer, tracking_uri=tracking_uri)
    verdicts, labelled = _verdicts(result, reader), _calibration(judge_run, reader)
    reader.check_positive(verdicts, labelled.judged)
    check_same_judge(verdicts, labelled.judged)
    check_same_scale(verdicts, labelled.judged)
    check = _check(rule, _Tally.of(verdicts, labelled.judged), level)
    unknown = verdicts.facts and not verdicts.facts.keys() & labelled.judged.facts.keys()
    notes = (*labelled.notes, *(["Nothing tells whether both are of the same judge."] if unknown else []))
    name = verdicts.scorer or scorer or labelled.judged.facts.get("name") or "its judge"
    gate = Gate(
        results=(check,),
        subject=f"the application, as {name} sees it",
        gated_run=verdicts.run_id,
        simulated=verdicts.simulated or labelled.judged.simulated,
        notes=notes,
        facts={"judge": name, "calibrated by": labelled.shown, "level of each bound": f"{level:g}"},
    )
    if not log:
        return gate
    if verdicts.run_id is None:
        raise RecipeError("Only a gate of a run can be logged beside it: give the result of mlflow.genai.evaluate.")
    return log_gate(gate, tracking_uri=tracking_uri or verdicts.uri, saves_view=False)


def _rule(max_failure: float, level: float) -> Rule:
    if not _lies_within(max_failure, 0):
        why = ": no number of rows shows that nothing fails" if max_failure == 0 else ""
        raise RecipeError(f"`max_failure` must lie between 0 and 1, but is {max_failure!r}{why}.")
    if not _lies_within(level, 0.5):
        why = "each bound is one-sided, and at one half as often wrong as right; write level=0.95 for an error of 5 %"
        raise RecipeError(f"`level` must lie between 0.5 and 1, but is {level!r}: {why}.")
    return parse_rule(f"{AXIS} <= {float(max_failure)!r}")


def _lies_within(value: object, low: float) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and low < float(value) < 1


def _verdicts(result: object, reader: Reader) -> Judged:
    """Read what the judge said about the application.

    Raises:
        RecipeError: when it is of pairs, of several versions, or about a judge.
    """
    if isinstance(result, Evaluation) or (_is_run(result) and _kind(str(result), reader) is not None):
        raise RecipeError(
            "`result` is what a judge said about an application (a result of mlflow.genai.evaluate, its run id, or a "
            "list of verdicts), but got a run about a judge: that one is `judge_run`."
        )
    read = reader.read(result, "verdicts")
    if read.scale == "pairs":
        raise RecipeError("The result is of pairs: which is better is no pass or fail. Give verdicts on single rows.")
    if len(set(read.versions or ())) > 1:
        raise RecipeError("The result is of several versions of the application: give the rows of one.")
    if not len(read):
        raise RecipeError("The result has no rows: nothing can be decided.")
    return read


@dataclass(frozen=True, kw_only=True)
class _Calibration:
    """What is known of the judge's errors."""

    judged: Judged
    shown: str
    """Where it is from, for people."""
    notes: tuple[str, ...] = ()


def _calibration(source: object, reader: Reader) -> _Calibration:
    """Read items that have the judge's verdict and a true label.

    Raises:
        RecipeError: when there are none.
    """
    named = isinstance(source, str) and (_is_run(source) or _BEGINNING.fullmatch(source))
    if named or isinstance(source, Evaluation):
        found = _of_run(source, reader)
    else:
        found = _Calibration(judged=reader.read(source, "calibration"), shown="labels in hand")
    if found.judged.scale == "pairs":
        raise RecipeError(
            f"The labels of `judge_run` are of pairs: how often the judge errs on one answer is not known. {_LABELLED}."
        )
    return found


def _of_run(source: object, reader: Reader) -> _Calibration:
    if isinstance(source, Evaluation):
        uri = reader.tracking_uri or source.tracking_uri
        return _of_evaluation(source.run_id, replace(reader, tracking_uri=uri))
    run = source_run(str(source), tracking_uri=reader.tracking_uri)
    if run.kind == "evaluate":
        return _of_evaluation(run.run_id, reader)
    if run.kind not in ("agree", None):
        raise RecipeError(
            f"Run {run.run_id} is of kind {run.kind}: it does not say how often a judge errs. {_LABELLED}."
        )
    judged = reader.read(run.run_id, "calibration")
    return _Calibration(judged=judged, shown=f"{'agreement, ' if run.kind else ''}run {run.run_id[:8]}")


def _kind(run: str, reader: Reader) -> str | None:
    return source_run(run, tracking_uri=reader.tracking_uri).kind


def _of_evaluation(run_id: str, reader: Reader) -> _Calibration:
    """Read the unperturbed items of a suite that have a true label: of the data, or what most people said."""
    (run,) = load_runs([run_id], tracking_uri=reader.tracking_uri, purpose="read for the judge's errors")
    shown = f"{run.suite.name}, run {run.run_id[:8]}"
    first = run.calls[(run.calls["condition"] == BASELINE) & (run.calls["replicate"] == 0)]
    if first.empty:
        what = "a pairwise datasheet" if run.calls["condition"].isin(PAIR_CONDITIONS).any() else "no labelled suite"
        raise RecipeError(
            f"The suite of {shown} is {what}: how often the judge errs on one answer is not known. {_LABELLED}."
        )
    if "rubric" in first and first["rubric"].nunique() > 1:
        raise RecipeError(f"The suite of {shown} has several rubrics: a judge's errors are those on one of them.")
    sources = first["label_source"] if "label_source" in first else pd.Series("", index=first.index)
    true = first[(first["expected"].fillna("") != "") & (sources.fillna("") == "")]
    if true.empty:
        raise RecipeError(
            f"The unperturbed items of {shown} have no true labels: what a model wrote does not count. {_LABELLED}."
        )
    return _Calibration(judged=_labelled(run, true, reader), shown=shown, notes=tuple(run_notes([run])))


def _labelled(run: LoggedRun, calls: pd.DataFrame, reader: Reader) -> Judged:
    said = calls["answer"].where(calls["outcome"] == "verdict", None).tolist()
    judge, scale, levels = read_values(said, reader.positive, f"The judge of run {run.run_id[:8]}")
    human, _, labels = read_values(list(calls["expected"]), reader.positive, f"Suite {run.suite.name!r}")
    return Judged(
        judge=judge,
        scale=scale,
        levels=levels,
        human=human,
        labels=labels,
        facts=_identity(run),
        simulated=run.simulated,
    )


def _identity(run: LoggedRun) -> dict[str, str]:
    """Return what MLflow tells of a scorer too: its name and model; the name of a function says nothing there."""
    told = keys.param_group(run.params, "judge")
    known = {"mlflow": ("name", "model"), "prompted": ("model",)}.get(told.get("kind", ""), ())
    # Of a scorer that is code the model is its name.
    return _texts({key: told[key] for key in known if key in told and (key == "name" or told[key] != told.get("name"))})


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tally:
    """Rows and labelled items by what the judge said, and how many it said nothing about."""

    rows: int
    failed: int
    missing: int
    failures: int
    found: int
    failures_missing: int
    """Labelled failures without a verdict."""
    passes: int
    wrongly: int
    passes_missing: int
    youden_low: float | None
    """Lower end of `se + sp - 1`; None where it has none."""

    @staticmethod
    def of(verdicts: Judged, labelled: Judged) -> _Tally:
        human = np.full(len(labelled), np.nan) if labelled.human is None else labelled.human
        known = ~np.isnan(labelled.judge)
        useful = youden(labelled.judge[known], human[known])
        fails, passes = human == 0, human == 1
        return _Tally(
            rows=len(verdicts),
            failed=int((verdicts.judge == 0).sum()),
            missing=int(np.isnan(verdicts.judge).sum()),
            failures=int(fails.sum()),
            found=int((fails & (labelled.judge == 0)).sum()),
            failures_missing=int((fails & ~known).sum()),
            passes=int(passes.sum()),
            wrongly=int((passes & (labelled.judge == 0)).sum()),
            passes_missing=int((passes & ~known).sum()),
            youden_low=None if useful is None else useful.low,
        )

    @property
    def seen(self) -> FailureCounts:
        """Without what has no verdict."""
        return FailureCounts(
            rows=self.rows - self.missing,
            failed=self.failed,
            failures=self.failures - self.failures_missing,
            found=self.found,
            passes=self.passes - self.passes_missing,
            wrongly=self.wrongly,
        )

    @property
    def worst(self) -> FailureCounts:
        """What has no verdict counted for a high failure rate."""
        return FailureCounts(
            rows=self.rows,
            failed=self.failed + self.missing,
            failures=self.failures,
            found=self.found,
            passes=self.passes,
            wrongly=self.wrongly,
        )

    @property
    def best(self) -> FailureCounts:
        """For a low one."""
        found, wrongly = self.found + self.failures_missing, self.wrongly + self.passes_missing
        return replace(self.worst, failed=self.failed, found=found, wrongly=wrongly)

    def grown(self, rows: int) -> _Tally:
        """Return the same judge on more rows like the present ones."""
        failed, missing = (round(count * rows / self.rows) for count in (self.failed, self.missing))
        return replace(self, rows=rows, failed=failed, missing=missing)

    @property
    def useless(self) -> str | None:
        """Why the labels say nothing about the judge's errors, if so."""
        if not self.failures - self.failures_missing:
            return "no labelled item truly fails, so how many failures the judge finds is unknown: label some failures"
        if not self.passes - self.passes_missing:
            return "no labelled item truly passes, so how many the judge fails wrongly is unknown: label some passes"
        if self.youden_low is None or self.youden_low <= 0:
            finds, fails = f"{self.found} of {self.failures} failures", f"{self.wrongly} of {self.passes} passes"
            return f"the judge may be no better than chance: it fails {finds} and {fails}; take another, or label more"
        return None

    @property
    def withheld(self) -> str | None:
        """Why there is no number, if too much has no verdict."""
        labelled, lost = self.failures + self.passes, self.failures_missing + self.passes_missing
        for what, part, whole in (("rows", self.missing, self.rows), ("labelled items", lost, labelled)):
            if part > MAX_EXCLUDED * whole:
                share = f"{part} of {whole} {what} have no verdict ({part / whole:.1%})"
                return f"withheld: {share}, over the limit of {MAX_EXCLUDED:.0%}"
        return None

    @property
    def told(self) -> str:
        """All counts in words."""
        lost = f" ({self.missing} without a verdict)" if self.missing else ""
        judge = (
            f"which finds {self.found} of {self.failures} failures and wrongly fails {self.wrongly} of {self.passes}"
        )
        return f"{self.failed} of {self.rows} rows{lost} failed by the judge, {judge}"


def _check(rule: Rule, tally: _Tally, level: float) -> RuleCheck:
    undecided = partial(RuleCheck, rule=rule, state="undecided", estimate=None, n=tally.rows - tally.missing)
    if reason := tally.useless:
        return undecided(low=None, high=None, reason=reason)
    low, high = lower_bound(tally.best, level=level), upper_bound(tally.worst, level=level)
    if reason := tally.withheld:
        return undecided(low=low, high=high, reason=reason)
    state = decide(rule, low, high)
    further, why = (0, "") if state != "undecided" else _further(rule, tally, level)
    return RuleCheck(
        rule=rule,
        state=state,
        estimate=failure_estimate(tally.seen),
        low=low,
        high=high,
        reason=tally.told + why,
        further_tasks=further,
        n=tally.rows - tally.missing,
    )


def _further(rule: Rule, tally: _Tally, level: float) -> tuple[int | None, str]:
    """Say how many more rows like these would decide, or what else would."""

    def is_decided(rows: int) -> bool:
        grown = tally.grown(rows)
        over = is_above_bound(1 - rule.limit, grown.best.mirrored, level=level)
        return over or is_above_bound(rule.limit, grown.worst, level=level)

    rows = _fewest(is_decided, tally.rows)
    if rows is not None:
        return rows - tally.rows, ""
    return None, f"; {MOST_ROWS:,} rows like these would not decide it: label more items to know the judge better"


def _fewest(is_decided: Callable[[int], bool], present: int) -> int | None:
    """Find the fewest rows that decide: by doubling, then by halving."""
    low, high = present, 2 * present
    while not is_decided(high):
        if high >= MOST_ROWS:
            return None
        low, high = high, min(MOST_ROWS, 2 * high)
    while high - low > 1:
        middle = math.ceil((low + high) / 2)
        low, high = (low, middle) if is_decided(middle) else (middle, high)
    return high
