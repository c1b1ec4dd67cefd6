"""Whether aligning a judge helped: both judges on the same held-out traces, and what that decides (pure)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy import special

from jrh_mlflow.schema.estimates import Bounds, Estimate, NotEstimable, Reading, intervals, plain_fields
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED
from jrh_mlflow.show.numbers import interval_text
from jrh_mlflow.stats import Array, Interval
from jrh_mlflow.stats.agreement import concordance
from jrh_mlflow.stats.bootstrap import cluster_bootstrap
from jrh_mlflow.stats.paired import paired_share_interval
from jrh_mlflow.stats.proportions import wilson
from jrh_mlflow.text import two_places

AlignDecision = Literal["better", "not worse", "sent back"]
"""Of an aligned judge: the first two are returned to the user, the third is not."""
DECISIONS: tuple[AlignDecision, ...] = get_args(AlignDecision)
BETTER, NOT_WORSE, SENT_BACK = DECISIONS
METHOD = "hull of Tango's score interval and the exact one given the traces that differ"
_CHANGED = 0.1
"""Share of verdicts that an alignment may change, for the number of traces to plan with."""

Order = Callable[[str], float]
"""A label's place on an ordered scale."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceAnswer:
    """How one call of a judge ended."""

    outcome: str
    """`verdict`; anything else (`abstain`, `unparsed`, `error`) is none."""
    answer: str = ""
    """The label, where the outcome is a verdict."""
    error: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None

    @property
    def given(self) -> bool:
        """Whether there is a verdict."""
        return self.outcome == "verdict"


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """One held-out trace with its output laid out otherwise, which is no reason for another verdict."""

    rule: str
    """Name of the reliability test that wrote it."""
    before: TraceAnswer
    after: TraceAnswer


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedTrace:
    """One held-out trace: what people say and what the judge said before and after it was aligned."""

    trace: str
    """Its id."""
    label: str
    """The people's majority."""
    n_people: int
    before: TraceAnswer
    after: TraceAnswer
    link: str = ""
    """Where it can be looked at."""
    probe: Probe | None = None

    @property
    def compared(self) -> bool:
        """Whether both judges gave a verdict."""
        return self.before.given and self.after.given


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeCost:
    """What the calls of one judge took; sums are of the calls that told."""

    calls: int
    input_tokens: int | None
    output_tokens: int | None
    usd: float | None
    unknown: int
    """Calls that did not tell their dollars."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedReadings:
    """One share before and after, on the traces that have both, and the difference."""

    before: Reading
    after: Reading
    difference: Reading
    """After minus before, paired by trace."""
    gains: int
    """Traces that only the aligned judge gets right."""
    losses: int
    """Traces that only the judge before gets right."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AlignmentReport:
    """Before and after on the held-out traces, and what follows."""

    decision: AlignDecision
    reason: str
    agreement: PairedReadings
    """With the people: share of traces with their label."""
    kappa: Mapping[str, Reading]
    """Ordered labels: quadratic kappa with the people, `before` and `after`; information, nothing is decided by it."""
    suite: PairedReadings | None
    """The judge with itself: share of reformatted traces with the verdict of the trace as it is. None: not asked."""
    cost: Mapping[str, JudgeCost]
    """`before` and `after`."""
    margin: float
    traces: tuple[JudgedTrace, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    """Traces by what became of them."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return plain_fields(self)


def align_decisions(
    gains: npt.ArrayLike, losses: npt.ArrayLike, n: npt.ArrayLike, *, margin: float
) -> npt.NDArray[np.str_]:
    """Decide for arrays of counts, by the lower end of the paired difference.

    `better` where it is above 0, `not worse` above `-margin`, else `sent back`.

    Example:
        >>> align_decisions([12, 3, 0, 1], [1, 3, 0, 9], 100, margin=0.05).tolist()
        ['better', 'sent back', 'not worse', 'sent back']
    """
    low, _ = paired_share_interval(gains, losses, n)
    return np.where(low > 0, BETTER, np.where(low > -margin, NOT_WORSE, SENT_BACK))


def least_traces(margin: float) -> int:
    """Held-out traces under which nothing can come of it, were every one of them a gain.

    Example:
        >>> least_traces(0.05)
        5
    """
    n = np.arange(1, 7)  # with 6 gains of 6 the lower end is above 0
    return int(n[align_decisions(n, 0 * n, n, margin=margin) != SENT_BACK][0])


def needed_traces(margin: float, *, changed: float = 0.0) -> int:
    """Held-out traces that exclude a loss over `margin` where nothing was lost or gained on balance.

    `z² (1 / margin - 1)` when no verdict changes, the point at which the score interval reaches the margin; about
    `z² changed / margin²` when a share of them does, half for the better.

    Example:
        >>> needed_traces(0.05), needed_traces(0.05, changed=0.1)
        (73, 154)
    """
    z = float(special.ndtri(0.975)) ** 2
    return max(math.floor(z * (1 / margin - 1)) + 1, math.ceil(z * changed / margin**2))


def size_note(n: int, margin: float) -> str | None:
    """Say beforehand that so few held-out traces can hardly show that nothing was lost, or None."""
    least, usual = needed_traces(margin), needed_traces(margin, changed=_CHANGED)
    if n >= least:
        return None
    return (
        f"{n} held-out traces cannot show that an aligned judge is not worse by {margin:g}: {least} could where no "
        f"verdict changes, about {usual} where one in ten does. With {n} it is returned only if it clearly gains."
    )


def measure_alignment(
    traces: Sequence[JudgedTrace],
    *,
    margin: float,
    order: Order | None = None,
    counts: Mapping[str, int] | None = None,
    seed: int = 0,
) -> AlignmentReport:
    """Read both judges on the held-out traces, paired, and decide.

    What is no verdict leaves the pair out and is counted. When one of the judges gave none on more than 5 % of the
    traces, nothing is decided in favour of the aligned one.

    Args:
        traces: Each with what both judges said.
        margin: Loss of agreement that must be excluded.
        order: Place of a label on its scale, where labels are ordered: then kappas are given as well.
        counts: Traces by what became of them.
        seed: Of the intervals of the kappas.
    """
    if not traces:
        raise ValueError("There must be held-out traces, but got none.")
    verdicts = [(trace.before, trace.after) for trace in traces]
    right = [(trace.before.answer == trace.label, trace.after.answer == trace.label) for trace in traces]
    agreement = _paired(verdicts, right, what="held-out traces")
    probed = [trace for trace in traces if trace.probe is not None]
    suite = _of_suite(probed) if probed else None
    decision = _decision(agreement, margin)
    return AlignmentReport(
        decision=decision,
        reason=_reason(decision, agreement, suite, margin),
        agreement=agreement,
        kappa=_kappas(traces, order, seed) if order else {},
        suite=suite,
        cost={side: _cost(_calls(traces, side)) for side in ("before", "after")},
        margin=margin,
        traces=tuple(traces),
        counts=dict(counts or {}),
    )


def _calls(traces: Iterable[JudgedTrace], side: str) -> list[TraceAnswer]:
    return [getattr(shown, side) for trace in traces for shown in (trace, trace.probe) if shown is not None]


def _of_suite(traces: Sequence[JudgedTrace]) -> PairedReadings:
    """Compare the verdict on each reformatted trace with the one on the trace as it is, for both judges."""
    verdicts, same = [], []
    for trace in traces:
        assert trace.probe is not None
        sides = ((trace.before, trace.probe.before), (trace.after, trace.probe.after))
        # A trace without a verdict has nothing to be consistent with.
        verdicts.append(tuple(probe if plain.given else plain for plain, probe in sides))
        same.append(tuple(plain.answer == probe.answer for plain, probe in sides))
    return _paired(verdicts, same, what="reformatted traces")


def _paired(
    verdicts: Sequence[tuple[TraceAnswer, ...]], right: Sequence[tuple[bool, ...]], *, what: str
) -> PairedReadings:
    given = np.array([[verdict.given for verdict in pair] for pair in verdicts], bool).reshape(-1, 2)
    # Two missing answers are equal texts, but neither is right.
    rights, both = np.array(right, bool).reshape(-1, 2) & given, given.all(axis=1)
    before, after = rights[both].T
    gains, losses = int((after & ~before).sum()), int((before & ~after).sum())
    lost = [Counter(verdict.outcome for verdict in side if not verdict.given) for side in zip(*verdicts, strict=True)]
    n, excluded, balance = int(both.sum()), int((~both).sum()), gains - losses
    left_out = sum(lost, Counter())

    def estimate(count: int, ends: Interval, least: int, **more: Any) -> Estimate:
        return Estimate(
            value=count / n,
            n=n,
            excluded=excluded,
            **intervals(ends, None),
            n_clusters=n,
            unit="item",
            left_out=dict(left_out),
            bound_low=least / (n + excluded),
            bound_high=(count + excluded) / (n + excluded),
            **more,
        )

    readings: list[Reading]
    if (reason := _refusal(lost, len(verdicts), what)) or not n:
        ends = [(hits, hits + outcomes.total()) for hits, outcomes in zip(rights.sum(axis=0), lost, strict=True)]
        # A pair that was left out may go either way, by one trace.
        parts = zip((*lost, left_out), (*ends, (balance - excluded, balance + excluded)), strict=True)
        why = reason or f"no {what}"
        readings = [_withheld(why, asked=len(verdicts), lost=outcomes, ends=end) for outcomes, end in parts]
    else:
        low, high = map(float, paired_share_interval(gains, losses, n))
        counts = [int(side.sum()) for side in (before, after)]
        readings = [estimate(k, wilson(k, n), k, method="Wilson", numerator=k) for k in counts]
        readings.append(estimate(balance, (low, high), balance - excluded, method=METHOD, statistic="value"))
    return PairedReadings(before=readings[0], after=readings[1], difference=readings[2], gains=gains, losses=losses)


def _refusal(lost: Sequence[Counter[str]], n: int, what: str) -> str | None:
    """Say why nothing is read where one judge has no verdict on too many traces: which it leaves out may flatter it."""
    for who, outcomes in zip(("before", "after"), lost, strict=True):
        if n and outcomes.total() / n > MAX_EXCLUDED:
            counts = ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items()))
            return (
                f"the judge {who} aligning gave no verdict on {outcomes.total()} of {n} {what} ({counts}), over the "
                f"limit of {MAX_EXCLUDED:.0%}"
            )
    return None


def _withheld(reason: str, *, asked: int, lost: Counter[str], ends: tuple[int, int]) -> NotEstimable:
    """Give no number but the ends between which it lies, in counts of what was asked."""
    low, high = (float(end) / asked for end in ends)
    return NotEstimable(
        reason=reason,
        withheld=True,
        n=asked - lost.total(),
        excluded=lost.total(),
        left_out=dict(lost),
        bounds=Bounds(low=max(-1.0, low), high=min(1.0, high), asked=asked, lost=dict(lost)),
    )


def _decision(agreement: PairedReadings, margin: float) -> AlignDecision:
    if isinstance(agreement.difference, NotEstimable):
        return SENT_BACK
    word = str(align_decisions(agreement.gains, agreement.losses, agreement.difference.n, margin=margin))
    # The array holds texts of numpy's; callers compare with the literals.
    return next(decision for decision in DECISIONS if decision == word)


def _reason(decision: AlignDecision, agreement: PairedReadings, suite: PairedReadings | None, margin: float) -> str:
    difference = agreement.difference
    if isinstance(difference, NotEstimable):
        return f"Sent back: {difference.reason}."
    before, after = (reading.value for reading in (agreement.before, agreement.after) if isinstance(reading, Estimate))
    what = (
        f"with people on {two_places(after)} of {difference.n} held-out traces after aligning, {two_places(before)} "
        f"before: {_signed(difference)}"
    )
    low = difference.ci_low or 0.0
    follows = {
        BETTER: "it is better",
        NOT_WORSE: f"a loss over {margin:g} is excluded; that it is better is not shown",
        SENT_BACK: "it is worse" if (difference.ci_high or 0) < 0 else f"a loss of {two_places(-low)} is not excluded",
    }[decision]
    return f"The judge agrees {what}: {follows}.{_suite_remark(suite)}"


def _suite_remark(suite: PairedReadings | None) -> str:
    """Say where the aligned judge has become clearly less consistent, or more."""
    if suite is None or not isinstance(suite.difference, Estimate):
        return ""
    low, high = suite.difference.interval or (-1.0, 1.0)
    if low <= 0 <= high:
        return ""
    how = "less" if high < 0 else "more"
    return f" It is {how} consistent with itself when outputs are only laid out otherwise: {_signed(suite.difference)}."


def _signed(reading: Estimate) -> str:
    ends = interval_text(*(reading.interval or (None, None)), signed=True)
    return f"{two_places(reading.value, signed=True)} {ends}"


def _kappas(traces: Sequence[JudgedTrace], order: Order, seed: int) -> dict[str, Reading]:
    compared = [trace for trace in traces if trace.compared]
    people = np.array([order(trace.label) for trace in compared], float)
    return {
        side: _kappa(people, np.array([order(getattr(trace, side).answer) for trace in compared], float), seed)
        for side in ("before", "after")
    }


def _kappa(people: Array, judge: Array, seed: int) -> Reading:
    n = len(people)
    value = concordance(people, judge) if n else None
    if value is None:
        return NotEstimable(reason="no variation", n=n, statistic="value")
    interval = cluster_bootstrap(lambda rows: concordance(people[rows], judge[rows]), np.arange(n), seed=seed)
    return Estimate(
        value=value,
        n=n,
        excluded=0,
        **intervals(interval, None),
        n_clusters=n,
        method="bootstrap over traces",
        unit="item",
        statistic="value",
    )


def _cost(calls: Sequence[TraceAnswer]) -> JudgeCost:
    return JudgeCost(
        calls=len(calls),
        input_tokens=_known(call.input_tokens for call in calls),
        output_tokens=_known(call.output_tokens for call in calls),
        usd=_known(call.cost_usd for call in calls),
        unknown=sum(call.cost_usd is None for call in calls),
    )


def _known(amounts: Iterable[Any]) -> Any:
    """Sum what is known; None where nothing is."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None
