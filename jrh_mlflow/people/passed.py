"""`jrh.passed`: whether an application's true failure rate is low enough, given how often its judge errs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Literal, get_args

import numpy as np

from jrh_mlflow.decisions.gate import tasks_needed
from jrh_mlflow.decisions.gate_result import APPLICATION, Gate, log_gate
from jrh_mlflow.errors import RecipeError, check_known
from jrh_mlflow.measures.rules import Rule, RuleCheck, parse_rule
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.people.corrected import FEWER_FOUND, Graded, LabelledSample, Pool, question_labels
from jrh_mlflow.people.label_reader import labels_of
from jrh_mlflow.people.labels import LabelOptions, LabelTable
from jrh_mlflow.people.labels.evaluations import LABELLED, names_run, source_run
from jrh_mlflow.people.people_verdicts import sensitivity_line
from jrh_mlflow.people.verdicts import (
    Judged,
    check_positive,
    check_same_judge,
    check_same_scale,
    clusters_of,
    given_labels,
    read_judged,
)
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED
from jrh_mlflow.stats import FEWEST_CLUSTERS, Array, Interval, Mask
from jrh_mlflow.stats import corrected_rates as rates
from jrh_mlflow.stats.corrected_rates import FailureCounts

AXIS = APPLICATION
_MISSED_MORE = 0.15
"""Share of the failures that a judge may miss here beyond those of another application, and the gate still holds."""
Drawn = Literal["random", "stratified"]
"""How labels were drawn that tell how a judge errs."""
MOST_ROWS = 20_000
"""Rows that are counted at most to say how many further ones would decide."""


def passed(
    result: object,
    judge_run: object,
    *,
    max_failure: float,
    level: float = 0.95,
    sampling: Drawn | None = None,
    cluster: str | None = None,
    scorer: str | None = None,
    positive: object = None,
    tracking_uri: str | None = None,
    log: bool = False,
) -> Gate:
    """Say whether at most the share `max_failure` of an application's answers truly fail, by a judge that errs.

    The judge's verdicts on labelled items tell how many failures it finds and how many passes it fails wrongly; the
    bounds of the true failure rate take the chance in the rows and in both of these into account. Each bound is one of
    `level` by itself: an application exactly at the limit passes in at most 5 % of runs, and fails in at most 5 %.

    That holds where the judge errs on these rows as it does on the labelled items. Labels of another application, or of
    unknown origin, cost rows: the bounds then also hold for PPI++'s estimate and for a judge that finds .15 fewer of
    the failures here, and a note says so. Items of the result itself that people labelled (the same ids), or
    `sampling=`, spare that.

    Example:
        >>> import jrh_mlflow as jrh
        >>> labelled = [{"judge": j, "human": h} for j, h in [(True, True), (False, False)] * 200]
        >>> gate = jrh.passed([True] * 48 + [False] * 2, labelled, max_failure=0.2, sampling="stratified")
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
        sampling: How the labelled items were drawn from the rows of this application: `random`, or `stratified` (within
            the person's labels); None: not known. `random` is believed unless the judge's verdicts on labelled and
            other items differ.
        cluster: As in `correct`: what was sampled together; below ten clusters nothing is decided.
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
    if sampling is not None:
        check_known("sampling", sampling, get_args(Drawn))
    passes = given_labels(positive)
    options = LabelOptions(judge="judge", cluster=cluster, tracking_uri=tracking_uri)
    verdicts = _verdicts(result, options, passes, scorer)
    calibration = labels_of(judge_run, replace(options, part="calibration", fresh=True))
    labelled = _labelled(calibration, options, passes, scorer)
    check_positive(passes, verdicts, labelled)
    check_same_judge(verdicts, labelled)
    check_same_scale(verdicts, labelled)
    tally = FailureTally.of(verdicts, labelled, sampling=sampling, level=level, cluster=cluster)
    check = _check(rule, tally, level)
    unknown = verdicts.facts and not verdicts.facts.keys() & labelled.facts.keys()
    notes = (
        *calibration.notes,
        *(["Nothing tells whether both are of the same judge."] if unknown else []),
        *tally.notes(),
    )
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
            "pool": tally.pool,
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
    is_run = isinstance(result, str) and names_run(result)
    if isinstance(result, Evaluation) or (is_run and source_run(str(result), tracking_uri=options.tracking_uri).kind):
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


def _pool(verdicts: Judged, labelled: Judged, sampling: Drawn | None) -> tuple[Pool, str]:
    """Whether the labels are known to be of the rows' own pool, and what to say where they are not."""
    if labelled.human is None or labelled.items is None or verdicts.items is None:
        inside: set[str] = set()
    else:
        inside = set(labelled.items) & set(verdicts.items)
    taken_out = bool(inside) and inside == set(labelled.items or ())
    rest = ~np.isnan(verdicts.judge)
    if taken_out:
        rest &= np.array([name not in inside for name in verdicts.items or ()], dtype=bool)
    known = labelled.take(~np.isnan(labelled.judge) & ~np.isnan(_people(labelled)))
    others = verdicts.take(rest)
    if not len(others) or not len(known):
        return "same" if taken_out else "unknown", ""
    ours, theirs = clusters_of(others, known) or (None, None)
    return question_labels(
        Graded(judge=others.judge, clusters=ours),
        LabelledSample(judge=known.judge, human=_people(known), clusters=theirs),
        sampling=sampling,
        labelled_apart=False if taken_out else None,
    )


def _people(labelled: Judged) -> Array:
    return np.full(len(labelled), np.nan) if labelled.human is None else labelled.human


def _worth(hits: Mask, clusters: Sequence[Hashable] | None, level: float) -> float:
    """Part of a count that items sampled together are worth: 1 where each stands for itself."""
    names = list(dict.fromkeys(clusters or ()))
    if len(names) in (0, len(hits)):
        return 1.0
    share = float(hits.mean())
    if share in (0.0, 1.0):
        # Nothing shows how far clusters differ: each counts once.
        return len(names) / len(hits)
    at = {name: code for code, name in enumerate(names)}
    codes = np.array([at[name] for name in clusters or ()], dtype=int)
    return 1 / rates.cluster_factor([((hits - share) / len(hits), codes)], level=2 * level - 1) ** 2


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureTally:
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
    worth: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Part of rows, failures and passes that they are worth by cluster."""
    fewest_clusters: int | None = None
    """Of rows or of labelled items; None where none is known."""
    pool: Pool = "same"
    """Whether the labels are of the rows' own pool: in another one the judge may find more of the failures."""
    sentence: str = ""
    """Said where it is not known how the labelled items were drawn."""

    @staticmethod
    def of(
        verdicts: Judged, labelled: Judged, *, sampling: Drawn | None, level: float, cluster: str | None
    ) -> FailureTally:
        """Count what the judge said, and question the labels."""
        human = _people(labelled)
        pool, sentence = _pool(verdicts, labelled, sampling)
        known = ~np.isnan(labelled.judge)
        both = clusters_of(verdicts, labelled)
        if both is None and cluster is not None:
            raise RecipeError(f"Neither the result nor the labels have {cluster!r}: cluster=.")
        codes = None if both is None else np.array([hash(name) for name in both[1]])
        useful = rates.youden(labelled.judge[known], human[known], None, None if codes is None else codes[known])
        fails, passes = human == 0, human == 1
        parts = ((verdicts, np.ones(len(verdicts), bool)), (labelled, fails), (labelled, passes))
        worth = [
            _worth(
                judged.judge[part] == 0,
                None if both is None else [name for name, here in zip(names, part, strict=True) if here],
                level,
            )
            for (judged, part), names in zip(parts, () if both is None else (both[0], both[1], both[1]), strict=False)
        ]
        return FailureTally(
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
            worth=(1.0, 1.0, 1.0) if both is None else (worth[0], worth[1], worth[2]),
            fewest_clusters=None if both is None else min(len(set(names)) for names in both),
            pool=pool,
            sentence=sentence,
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

    def _counts(self, failed: float, found: float, wrongly: float) -> FailureCounts:
        """Return the counts, each as many as they are worth by cluster."""
        wholes = (self.rows, self.failures, self.passes)
        rows, failures, passes = (max(1, int(n * part)) for n, part in zip(wholes, self.worth, strict=True))
        return FailureCounts(
            rows=rows,
            failed=failed * rows / self.rows,
            failures=failures,
            found=found * failures / self.failures,
            passes=passes,
            wrongly=wrongly * passes / self.passes,
        )

    @property
    def worst(self) -> FailureCounts:
        """What has no verdict counted for a high failure rate."""
        return self._counts(self.failed + self.missing, self.found, self.wrongly)

    @property
    def best(self) -> FailureCounts:
        """For a low one."""
        # The rate (p - f) / (d - f) falls when the judge finds more failures, d, and when it fails more passes, f.
        return self._counts(self.failed, self.found + self.failures_missing, self.wrongly + self.passes_missing)

    @property
    def fewer_found(self) -> FailureCounts:
        """The worst, with a judge that finds .15 fewer of the failures here than among the labelled."""
        return self._with_fewer(_MISSED_MORE)

    def _with_fewer(self, share: float) -> FailureCounts:
        found = max(0.0, self.found - share * self.failures)
        return self._counts(self.failed + self.missing, found, self.wrongly)

    def is_under(self, limit: float, level: float) -> bool:
        """Whether every upper bound lies under the limit, without a search for them."""
        if self.sentence and _ppi_bounds(self.worst, level)[1] >= limit:
            return False
        counts = [self.worst] if self.pool == "same" else [self.fewer_found, self.worst]
        return all(rates.is_above_bound(limit, each, level=level) for each in counts)

    def notes(self) -> list[str]:
        """Say what the bounds hold for beyond the labels, and what a judge that finds less would make of the rate."""
        if self.useless:
            return [self.sentence] if self.sentence else []
        counts = self._with_fewer(FEWER_FOUND)
        more = (
            f"The bounds also hold for a judge that finds {100 * _MISSED_MORE:.0f} points fewer of the failures here."
        )
        fewer = counts.found / counts.failures > counts.wrongly / counts.passes
        line = sensitivity_line("the failure rate", rates.failure_estimate(counts)) if fewer else ""
        return [*filter(None, [self.sentence, more if self.pool != "same" and self.sentence else "", line])]

    def grown(self, rows: int) -> FailureTally:
        """Return the same judge on more rows like the present ones."""
        failed, missing = (round(count * rows / self.rows) for count in (self.failed, self.missing))
        return replace(self, rows=rows, failed=failed, missing=missing)

    @property
    def useless(self) -> str | None:
        """Why the labels say nothing about the judge's errors, if so."""
        if not self.failures - self.failures_missing:
            return "no labelled item truly fails, so how many failures the judge finds is unknown: label some failures"
        if self.fewest_clusters is not None and self.fewest_clusters < FEWEST_CLUSTERS:
            return f"rows or labels are of {self.fewest_clusters} clusters: bounds by cluster need {FEWEST_CLUSTERS}"
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


def _check(rule: Rule, tally: FailureTally, level: float) -> RuleCheck:
    undecided = partial(RuleCheck, rule=rule, state="undecided", estimate=None, n=tally.rows - tally.missing)
    if reason := tally.useless:
        return undecided(low=None, high=None, reason=reason)
    # Rows without a verdict count against either decision: each bound takes them the worse way.
    low, high = _bounds(tally, level)
    if reason := tally.withheld:
        return undecided(low=low, high=high, reason=reason)
    state = rule.decide(low, high)
    further, why = (0, "") if state != "undecided" else _further(rule, tally, level)
    return RuleCheck(
        rule=rule,
        state=state,
        estimate=rates.failure_estimate(tally.seen),
        low=low,
        high=high,
        reason=tally.told + why,
        further_tasks=further,
        n=tally.rows - tally.missing,
    )


def _bounds(tally: FailureTally, level: float) -> Interval:
    lows, highs = [rates.lower_bound(tally.best, level=level)], [rates.upper_bound(tally.worst, level=level)]
    if tally.sentence:
        lows.append(_ppi_bounds(tally.best, level)[0])
        highs.append(_ppi_bounds(tally.worst, level)[1])
    if tally.pool != "same":
        highs.append(rates.upper_bound(tally.fewer_found, level=level))
    return min(lows), max(highs)


def _ppi_bounds(counts: FailureCounts, level: float) -> Interval:
    """Bounds of the failure rate by PPI++, each at `level` by itself."""
    found, wrongly, failed = (round(float(count)) for count in (counts.found, counts.wrongly, counts.failed))
    kinds = [found, counts.failures - found, wrongly, counts.passes - wrongly]
    judge, human = np.repeat([0.0, 1.0, 0.0, 1.0], kinds), np.repeat([0.0, 0.0, 1.0, 1.0], kinds)
    passed = rates.ppi(np.repeat([0.0, 1.0], [failed, counts.rows - failed]), judge, human, level=2 * level - 1)
    return 1 - passed.high, 1 - passed.low


def _further(rule: Rule, tally: FailureTally, level: float) -> tuple[int | None, str]:
    """Say how many more rows like these would decide, or what else would."""

    def is_decided(rows: int) -> bool:
        grown = tally.grown(rows)
        # A lower bound is the upper one of the mirrored counts.
        over = rates.is_above_bound(1 - rule.limit, grown.best.mirrored, level=level)
        if grown.sentence:
            over = over and _ppi_bounds(grown.best, level)[0] > rule.limit
        return over or grown.is_under(rule.limit, level)

    rows = tasks_needed(is_decided, tally.rows, most=max(2, MOST_ROWS // tally.rows), guess=2)
    if rows is not None:
        return rows - tally.rows, ""
    return None, f"; {MOST_ROWS:,} rows like these would not decide it: label more items to know the judge better"
