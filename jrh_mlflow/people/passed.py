"""`jrh.passed`: whether an application's true failure rate is low enough, given how often its judge errs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real

import numpy as np

from jrh_mlflow.decisions.gate_result import APPLICATION, Gate, log_gate
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.rules import Rule, RuleCheck, parse_rule
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.people.correct import given_labels
from jrh_mlflow.people.labels import LabelOptions, LabelTable, labels_of
from jrh_mlflow.people.labels.evaluations import LABELLED, names_run, source_run
from jrh_mlflow.people.verdicts import Judged, check_positive, check_same_judge, check_same_scale, read_judged
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED
from jrh_mlflow.stats.corrected_rates import (
    FailureCounts,
    failure_estimate,
    is_above_bound,
    lower_bound,
    upper_bound,
    youden,
)

AXIS = APPLICATION
MOST_ROWS = 20_000
"""Rows that are counted at most to say how many further ones would decide."""


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
    passes, options = given_labels(positive), LabelOptions(judge="judge", tracking_uri=tracking_uri)
    verdicts = _verdicts(result, options, passes, scorer)
    calibration = labels_of(judge_run, replace(options, part="calibration", fresh=True))
    labelled = _labelled(calibration, options, passes, scorer)
    check_positive(passes, verdicts, labelled)
    check_same_judge(verdicts, labelled)
    check_same_scale(verdicts, labelled)
    check = _check(rule, _Tally.of(verdicts, labelled), level)
    unknown = verdicts.facts and not verdicts.facts.keys() & labelled.facts.keys()
    notes = (*calibration.notes, *(["Nothing tells whether both are of the same judge."] if unknown else []))
    name = verdicts.scorer or scorer or labelled.facts.get("name") or "its judge"
    is_run = names_run(judge_run) or calibration.of_calls
    gate = Gate(
        results=(check,),
        subject=f"the application, as {name} sees it",
        gated_run=verdicts.run_id,
        simulated=verdicts.simulated or labelled.simulated,
        notes=notes,
        facts={
            "judge": name,
            "calibrated by": calibration.shown if is_run else "labels in hand",
            "level of each bound": f"{level:g}",
        },
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
    # With `repr` no digit of the limit is lost.
    return parse_rule(f"{AXIS} <= {float(max_failure)!r}")


def _lies_within(value: object, low: float) -> bool:
    # A bool is a number in Python, and no share that anybody means.
    return isinstance(value, Real) and not isinstance(value, bool) and low < float(value) < 1


def _verdicts(result: object, options: LabelOptions, positive: tuple[object, ...], scorer: str | None) -> Judged:
    """Read what the judge said about the application.

    Raises:
        RecipeError: when it is of pairs, of several versions, or about a judge.
    """
    named = isinstance(result, str) and names_run(result)
    if isinstance(result, Evaluation) or (named and _kind(str(result), options.tracking_uri) is not None):
        raise RecipeError(
            "`result` is what a judge said about an application (a result of mlflow.genai.evaluate, its run id, or a "
            "list of verdicts), but got a run about a judge: that one is `judge_run`."
        )
    judged = read_judged(result, replace(options, part="verdicts"), positive=positive, scorer=scorer)
    if judged.scale == "pairs":
        raise RecipeError("The result is of pairs: which is better is no pass or fail. Give verdicts on single rows.")
    if len(set(judged.versions or ())) > 1:
        raise RecipeError("The result is of several versions of the application: give the rows of one.")
    if not len(judged):
        raise RecipeError("The result has no rows: nothing can be decided.")
    return judged


def _kind(run: str, tracking_uri: str | None) -> str | None:
    return source_run(run, tracking_uri=tracking_uri).kind


def _labelled(
    calibration: LabelTable, options: LabelOptions, positive: tuple[object, ...], scorer: str | None
) -> Judged:
    """Read items that have the judge's verdict and a true label.

    Raises:
        RecipeError: when they are of pairs.
    """
    judged = read_judged(calibration, replace(options, part="calibration"), positive=positive, scorer=scorer)
    if judged.scale == "pairs":
        raise RecipeError(
            f"The labels of `judge_run` are of pairs: how often the judge errs on one answer is not known. {LABELLED}."
        )
    return judged


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
        # The rate (p - f) / (d - f) falls when the judge finds more failures, d, and when it fails more passes, f.
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
    # Rows without a verdict count against either decision: each bound takes them the worse way.
    low, high = lower_bound(tally.best, level=level), upper_bound(tally.worst, level=level)
    if reason := tally.withheld:
        return undecided(low=low, high=high, reason=reason)
    state = rule.decide(low, high)
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
        # A lower bound is the upper one of the mirrored counts.
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
