"""Judges on several suites side by side: accuracy, tests, dollars, trios; and one number over suites, said as such.

| number | on one suite | over all suites (judges that were measured on each) |
|---|---|---|
| accuracy | calls on tests that are right, as `all/accuracy` | mean over suites, each weighs the same |
| mean over tests | mean of the tests' scores, as `reliability/mean` | mean over suites, each weighs the same |
| a test | its score, the calls of all judges together | none: tests differ from suite to suite |
| dollars per accuracy point | dollars / (100 × accuracy) | `protocol`: dollars of all suites / (100 × mean accuracy) |
| | `paper`: without the calls on baselines | `paper`: mean of the suites' dollars per accuracy point |
| difference of two judges | mean over the units that both answered, right − right | mean over suites |
| proximity | 1 − mean distance to the right level / distance of the ends of the scale | none |
| reading gap | share of better contents on the ladder − on the matched ladder | none: compared with English by task |

Calls are never pooled over suites. Suites are taken as independent: an interval over them adds up the squares of the
arms of theirs (MOVER, see `_added_up`), so it speaks of these suites and not of others.

Reference:
    Zou & Donner (2008), Stat. Med. 27:1693-1702.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from jrh_mlflow.comparing.jury.jury_report import TRIO
from jrh_mlflow.comparing.jury.panels import BestPanel, best_panel, panel_answer, panel_readings
from jrh_mlflow.comparing.jury.votes import MISSING, VoteTable, votes
from jrh_mlflow.errors import CallsError
from jrh_mlflow.measures.axes import chooses_better, gap_reading, task_counts
from jrh_mlflow.measures.records import call_table, is_pointwise, normalise
from jrh_mlflow.measures.reliability import ALL, priced_calls, scored_tests, usd_per_accuracy_point
from jrh_mlflow.perturb.languages import LANGUAGES
from jrh_mlflow.perturb.registry import counted_once
from jrh_mlflow.schema.estimates import Ends, Estimate, NotEstimable, Reading, intervals, plain_fields
from jrh_mlflow.schema.items import BASELINE, LADDER, LADDER_MATCHED, NATURAL, PAPER, PROTOCOL
from jrh_mlflow.scoring.ledger import deciding_interval, mean_value, share
from jrh_mlflow.scoring.pointwise import point_table, scale_of
from jrh_mlflow.show.results import ReliabilityReport, Report, measure
from jrh_mlflow.stats import Array, Interval
from jrh_mlflow.stats.paired import value_interval
from jrh_mlflow.suites.suite import Suite

ACCURACY = "accuracy"
_READ_BY = (f"{ALL}/accuracy", f"{BASELINE}/accuracy", "natural/accuracy", "ability", "pointwise/separation")
"""What stands for a judge on a suite: the first of these that the suite has."""
_MOST_TRIOS = 10
FURTHER = ("fpr", "fnr", "within_one", "qwk", "proximity")
PROMPT_LANGUAGE = re.compile(r" prompt_language=\w+")
"""A part of a judge's name that differs between its languages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnsweredSuite:
    """A suite and the call records of its judges."""

    name: str
    suite: Suite
    calls: Mapping[str, pd.DataFrame]


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeOnSuite:
    """What one judge reads on one suite."""

    accuracy: Reading
    """Or what stands for it, as `read_by` of the suite says."""
    mean: Reading
    """Mean over the tests, each weighs the same."""
    usd: float | None
    """Of the calls that a point of accuracy is reckoned by; None where one is not known."""
    price: Reading
    """Dollars per accuracy point; its interval is that of the accuracy."""
    scores: Mapping[str, Reading]
    further: Mapping[str, Reading]
    """Of two labels `fpr` and `fnr`; of a scale `within_one`, `qwk` and `proximity`."""
    shortfall: Reading | None
    """Accuracy of the reference − own, on the units that both answered; None without a reference here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trio:
    """Three judges by majority, on all units of a suite."""

    panel: tuple[str, ...]
    readings: Mapping[str, Reading]
    """In sample: fine for one that was named before, too good for the best of many."""
    usd_per_1k: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteReadings:
    """One suite with its judges."""

    name: str
    sha256: str
    n_items: int
    read_by: str
    """Axis that stands for a judge."""
    judges: Mapping[str, JudgeOnSuite]
    tests: Mapping[str, Reading]
    """Test to its score over the calls of all judges."""
    trios: tuple[Trio, ...]
    """The best in sample, best first."""
    best: BestPanel | NotEstimable | None
    """The best trio, chosen on one half of the sources and read on the other; None with fewer than three judges."""
    reviews: tuple[Mapping[str, Any], ...]
    """What reviewers decided: test, message, state and n."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageReading:
    """One judge on one suite of ladders, on the tasks that all of them have."""

    judge: str
    suite: str
    language: str
    checked: str
    """Who has checked the tasks of this language."""
    n_tasks: int
    ladder: Reading
    """Share of calls that choose the better content, over all steps."""
    matched: Reading
    gap: Reading
    beyond_english: Reading
    """Gap minus the gap of the same judge in English, by task."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AcrossSuites:
    """Several suites side by side."""

    definitions: str
    reference: str | None
    judges: tuple[str, ...]
    suites: tuple[SuiteReadings, ...]
    overall: Mapping[str, Reading]
    means: Mapping[str, Reading]
    """Mean over tests, then over suites."""
    prices: Mapping[str, Reading]
    """Dollars per accuracy point over all suites."""
    leader: str | None
    """The judge with the highest accuracy over all suites."""
    behind: Mapping[str, Interval | None]
    """Leader minus each other judge: the interval at 95 % over all pairs of judges (Bonferroni)."""
    languages: tuple[LanguageReading, ...]
    """Empty where the suites are in one language, or are not ladders of the same tasks."""

    @property
    def rivals(self) -> list[str]:
        """Judges that do not differ significantly from the leader."""
        return [name for name, ends in self.behind.items() if ends is None or ends[0] <= 0]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return plain_fields(self)


def across_suites(
    suites: Sequence[AnsweredSuite], *, definitions: str = PROTOCOL, reference: str | None = None, seed: int = 0
) -> AcrossSuites:
    """Read judges on several suites.

    Args:
        suites: Each with the calls of its judges; a judge goes by the same name everywhere.
        definitions: `protocol`, or `paper`: stability by accuracy, dollars as the Harness paper reckons them.
        reference: The judge whose accuracy is the ceiling of the others.
        seed: Of halves and resampling.
    """
    tables = [_voting(judged) for judged in suites]
    read = [
        _suite_readings(judged, table, definitions=definitions, reference=reference, seed=seed)
        for judged, table in zip(suites, tables, strict=True)
    ]
    judges = tuple(dict.fromkeys(name for suite in read for name in suite.judges))
    overall = {name: _overall(read, name) for name in judges}
    known = {name: reading for name, reading in overall.items() if isinstance(reading, Estimate)}
    leader = max(known, key=lambda name: known[name].value) if len(known) > 1 else None
    # The leader was chosen for being first, so that every pair of judges counts as looked at.
    level = 1 - 0.05 / max(1, math.comb(len(known), 2))
    others = [name for name in known if leader and name != leader]
    return AcrossSuites(
        definitions=definitions,
        reference=reference,
        judges=judges,
        suites=tuple(read),
        overall=overall,
        means={name: _overall(read, name, lambda own: own.mean) for name in judges},
        prices={name: _overall_price(read, name, overall[name], definitions) for name in judges},
        leader=leader,
        behind={name: _difference_interval(tables, str(leader), name, level) for name in others},
        languages=language_readings(suites),
    )


def _suite_readings(
    judged: AnsweredSuite, table: VoteTable | None, *, definitions: str, reference: str | None, seed: int
) -> SuiteReadings:
    suite, labels = judged.suite, judged.suite.labels
    reports = {
        name: measure(calls, seed=seed, labels=labels, definitions=definitions) for name, calls in judged.calls.items()
    }
    axis = next((axis for axis in _READ_BY if any(axis in report.estimates for report in reports.values())), ALL)
    trios, best = ((), None) if table is None or len(table.judges) < TRIO else _trios(table, seed=seed)
    compared = table is not None and reference in judged.calls and axis.endswith(ACCURACY)
    return SuiteReadings(
        name=judged.name,
        sha256=suite.sha256,
        n_items=len(suite),
        read_by=axis,
        judges={
            name: _judge(
                judged.calls[name],
                report,
                axis,
                shortfall=right_difference(table, str(reference), name)
                if table is not None and compared and name != reference
                else None,
            )
            for name, report in reports.items()
        },
        tests=_over_judges(judged, definitions=definitions),
        trios=trios,
        best=best,
        reviews=tuple(suite.origin.get("decided") or ()),
    )


def _judge(calls: pd.DataFrame, report: Report, axis: str, *, shortfall: Reading | None) -> JudgeOnSuite:
    missing = NotEstimable(reason=f"no {axis} was measured")
    accuracy, usd = report.estimates.get(axis, missing), _dollars(priced_calls(calls, report.definitions))
    further = {name: report.estimates.get(f"{ALL}/{name}") for name in FURTHER}
    if isinstance(report, ReliabilityReport):
        further["proximity"] = proximity(report)
    return JudgeOnSuite(
        accuracy=accuracy,
        mean=report.mean_score if isinstance(report, ReliabilityReport) else NotEstimable(reason="no tests"),
        usd=usd,
        price=price_reading(usd, accuracy) if axis.endswith(ACCURACY) else NotEstimable(reason="read by no accuracy"),
        scores=report.scores if isinstance(report, ReliabilityReport) else {},
        further={name: reading for name, reading in further.items() if reading is not None},
        shortfall=shortfall,
    )


def _dollars(calls: pd.DataFrame) -> float | None:
    """Sum of the costs; None where one is not known, since without it the judge would look cheap."""
    costs = pd.to_numeric(calls["cost_usd"], errors="coerce") if "cost_usd" in calls else pd.Series([math.nan])
    return None if costs.isna().any() else float(costs.sum())


def price_reading(usd: float | None, accuracy: Reading) -> Reading:
    """Dollars per accuracy point with the interval that the accuracy gives it.

    Example:
        >>> ends = intervals((0.8, 1.0), (0.75, 1.0))
        >>> known = Estimate(value=0.9, n=32, excluded=0, n_clusters=32, method="", **ends)
        >>> price = price_reading(1.35, known)
        >>> round(price.value, 6), round(price.cluster_low, 6), round(price.cluster_high, 6)
        (0.015, 0.0135, 0.018)
    """
    if isinstance(accuracy, NotEstimable):
        return replace(accuracy, statistic="value", bounds=None)
    value = usd_per_accuracy_point(usd, accuracy.value)
    if value is None:
        return NotEstimable(reason="the price of a call is not known" if usd is None else "no call was right")

    def ends(low: float | None, high: float | None) -> Ends:
        return usd_per_accuracy_point(usd, high), usd_per_accuracy_point(usd, low)

    own = intervals(ends(accuracy.ci_low, accuracy.ci_high), ends(accuracy.cluster_low, accuracy.cluster_high))
    return _derived(accuracy, value, own, method=f"dollars / accuracy: {accuracy.method}")


def proximity(report: ReliabilityReport) -> Reading | None:
    """1 − mean distance of answer and right level, as a share of the scale; None where the labels are no scale."""
    distance = report.estimates.get(f"{ALL}/mae")
    if not isinstance(distance, Estimate):
        return distance
    scale = scale_of([], report.labels)
    steps = scale.steps(np.array(scale.labels, dtype=object))
    span = float(steps.max() - steps.min())

    def near(distance: float | None) -> float | None:
        return None if distance is None else 1 - distance / span

    own = intervals(
        (near(distance.ci_high), near(distance.ci_low)), (near(distance.cluster_high), near(distance.cluster_low))
    )
    return _derived(distance, 1 - distance.value / span, own, method=distance.method)


def _derived(reading: Estimate, value: float, own: Mapping[str, Any], *, method: str) -> Estimate:
    """Return a number that is made of another, with intervals of its own and nothing else of the other's."""
    return Estimate(
        value=value,
        n=reading.n,
        excluded=reading.excluded,
        n_clusters=reading.n_clusters,
        method=method,
        unit=reading.unit,
        statistic="value",
        left_out=reading.left_out,
        **own,
    )


def _over_judges(judged: AnsweredSuite, *, definitions: str) -> dict[str, Reading]:
    """Score of each test over the calls of all judges, sources as clusters; none of pairs."""
    frames = [normalise(calls) for calls in judged.calls.values()]
    if not all(map(is_pointwise, frames)) or not judged.suite.labels:
        return {}
    # An item, and its original, is another one for each judge; the source is the same, and so are the clusters.
    own = [
        frame.assign(**{name: frame[name] + f"#{number}" for name in ("suite_item", "rubric")})
        for number, frame in enumerate(frames)
    ]
    table = point_table(pd.concat(own, ignore_index=True), labels=judged.suite.labels)
    scored = scored_tests(table, sorted(set(table.test) - {BASELINE}), definitions)
    once = counted_once(test.name for test in scored)
    return {test.name: test.reading for test in scored if test.name in once}


def _voting(judged: AnsweredSuite) -> VoteTable | None:
    """Lay the answers of a suite's judges side by side; None where no answer is right or wrong."""
    try:
        table = votes(judged.calls, labels=judged.suite.labels)
    except CallsError:
        return None
    if not table.pointwise:
        # As `natural/accuracy`: a ladder is not read by who is right.
        table = table.where(np.asarray(table.condition == NATURAL))
    return table if table.judged.any() else None


def right_difference(table: VoteTable, a: str, b: str) -> Reading:
    """Share of right answers of a minus that of b, on the units that both answered; clustered by source."""
    judged = table.where(table.judged)
    cast = judged.answer[:, judged.columns((a, b))]
    usable = np.asarray((cast != MISSING).all(axis=1))
    right = (cast == judged.expected[:, None]).astype(float)
    difference = right[:, 0] - right[:, 1]
    # A lost answer of one may have been right or wrong.
    least, most = (
        np.where(cast[:, 0] == MISSING, low, right[:, 0]) - np.where(cast[:, 1] == MISSING, 1 - low, right[:, 1])
        for low in (0.0, 1.0)
    )
    units = judged.units(
        "units with an expected answer", usable=usable, left_out={"no answer of both": int((~usable).sum())}
    )
    return mean_value(units, difference, extremes=(least, most))


def _trios(table: VoteTable, *, seed: int) -> tuple[tuple[Trio, ...], BestPanel | NotEstimable]:
    try:
        best = best_panel(table, TRIO, seed=seed)
    except CallsError as error:
        best = NotEstimable(reason=str(error).rstrip("."))
    if isinstance(best, BestPanel):
        panels = sorted(best.tried, key=lambda panel: -best.tried[panel])
    else:
        panels = list(combinations(table.judges, TRIO))
    trios = [
        Trio(
            panel=panel,
            readings=panel_readings(table, panel_answer(table, panel).answer),
            usd_per_1k=table.usd_per_1k(panel),
        )
        for panel in panels[:_MOST_TRIOS]
    ]
    return tuple(trios), best


def _overall(
    suites: Sequence[SuiteReadings],
    judge: str,
    read: Callable[[JudgeOnSuite], Reading] = lambda own: own.accuracy,
) -> Reading:
    """Mean of a number over suites, each weighs the same; not estimable where one has none of the judge."""
    if len(suites) < 2:
        return NotEstimable(reason="there is one suite")
    if kinds := sorted({suite.read_by for suite in suites if not suite.read_by.endswith(ACCURACY)}):
        return NotEstimable(reason=f"some suites are read by {', '.join(kinds)} and not by accuracy")
    missing = NotEstimable(reason="not measured there")
    return mean_over_suites(
        [(suite.name, read(own) if (own := suite.judges.get(judge)) else missing) for suite in suites]
    )


def mean_over_suites(readings: Sequence[tuple[str, Reading]]) -> Reading:
    """Mean of one number per suite, each weighs the same; its interval adds up the squares of their arms."""
    known = [reading for _, reading in readings if isinstance(reading, Estimate)]
    if missing := [(name, reading.reason) for name, reading in readings if isinstance(reading, NotEstimable)]:
        return NotEstimable(reason="; ".join(f"{name}: {reason}" for name, reason in missing))
    values = [reading.value for reading in known]
    value = math.fsum(values) / len(values)
    limits = (0.0, 1.0 if known[0].statistic == "rate" else math.inf)
    plain = _added_up(value, [(reading.value, reading.interval) for reading in known], limits)
    clustered = _added_up(value, [(reading.value, reading.cluster_interval) for reading in known], limits)
    return Estimate(
        value=value,
        n=sum(reading.n for reading in known),
        excluded=sum(reading.excluded for reading in known),
        n_clusters=sum(reading.n_clusters for reading in known),
        method=f"mean of {len(known)} suites, each weighs the same; square and add",
        unit=known[0].unit,
        statistic=known[0].statistic,
        **intervals(plain, clustered),
    )


def _added_up(
    value: float, parts: Sequence[tuple[float, Interval | None]], limits: Interval = (0.0, 1.0)
) -> Interval | None:
    """Interval of a mean of independent numbers from theirs: the arms are added up by their squares.

    An arm is at least half as long as the other. Suites that read 1.00 have no upper arm: beside one that reads less,
    the interval would end below the truth too often.
    """
    if any(ends is None for _, ends in parts):
        return None
    below = math.hypot(*(own - ends[0] for own, ends in parts if ends)) / len(parts)
    above = math.hypot(*(ends[1] - own for own, ends in parts if ends)) / len(parts)
    low, high = value - max(below, above / 2), value + max(above, below / 2)
    return max(low, limits[0]), min(high, limits[1])


def _overall_price(suites: Sequence[SuiteReadings], judge: str, overall: Reading, definitions: str) -> Reading:
    if isinstance(overall, NotEstimable) or definitions != PAPER:
        dollars = [suite.judges[judge].usd for suite in suites if judge in suite.judges]
        return price_reading(None if None in dollars else math.fsum(filter(None, dollars)), overall)
    return mean_over_suites([(suite.name, suite.judges[judge].price) for suite in suites])


def _difference_interval(tables: Sequence[VoteTable | None], a: str, b: str, level: float) -> Interval | None:
    """Interval at a level of the mean over suites of the difference of two judges; None where one has none."""
    parts: list[tuple[float, Interval | None]] = []
    for table in tables:
        difference = NotEstimable(reason="") if table is None else right_difference(table, a, b)
        if isinstance(difference, NotEstimable):
            return None
        parts.append((difference.value, deciding_interval(difference, level)))
    return _added_up(math.fsum(value for value, _ in parts) / len(parts), parts, (-1.0, 1.0))


# Suites in several languages


@dataclass(frozen=True, kw_only=True, slots=True)
class _TaskGaps:
    """What one judge reads on the ladders of one suite."""

    ladder: Reading
    matched: Reading
    gap: Reading
    by_task: Array
    """Gap of each task."""
    sizes: Array
    """Usable calls behind it, on the smaller of the two ladders."""


def language_readings(suites: Sequence[AnsweredSuite]) -> tuple[LanguageReading, ...]:
    """Compare the reading gap of judges in several languages with their gap in English, by task.

    For a task t and a language l, gap(t, l) is the share of calls that choose the better content on
    the ladder minus that share on the matched ladder, over all steps. A language is compared with
    English by the mean of gap(t, l) − gap(t, en) over the tasks that all suites have, weighted by
    their usable calls, with an interval over these tasks.

    Returns:
        English first; empty with suites in one language or fewer than two tasks in common.
    """
    ladders = [judged for judged in suites if {LADDER, LADDER_MATCHED} <= _conditions(judged.suite)]
    if len({_language(judged) for judged in ladders}) < 2:
        return ()
    # Of the calls and not of the items: a run that was stopped may lack a task.
    tasks = [set(calls["task"]) for judged in ladders for calls in judged.calls.values()]
    common = set.intersection(*tasks)
    if len(common) < 2:
        return ()
    gaps = {
        (PROMPT_LANGUAGE.sub("", judge), judged.name): _task_gaps(calls, sorted(common))
        for judged in ladders
        for judge, calls in judged.calls.items()
    }
    english = [judged.name for judged in ladders if _language(judged) == "en"]
    codes = list(LANGUAGES)
    ladders.sort(key=lambda judged: codes.index(code) if (code := _language(judged)) in codes else len(codes))
    rows = []
    for judge in sorted({judge for judge, _ in gaps}):
        in_english = [gaps[judge, name] for name in english if (judge, name) in gaps]
        for judged in ladders:
            read = gaps.get((judge, judged.name))
            if read is None:
                continue
            row = LanguageReading(
                judge=judge,
                suite=judged.name,
                language=_language(judged),
                checked=str(judged.suite.origin.get("checked", "–")),
                n_tasks=len(common),
                ladder=read.ladder,
                matched=read.matched,
                gap=read.gap,
                beyond_english=_beyond_english(read, in_english, _language(judged)),
            )
            rows.append(row)
    return tuple(rows)


def _conditions(suite: Suite) -> set[str]:
    return {item.condition for item in suite.items}


def _language(judged: AnsweredSuite) -> str:
    return str(judged.suite.origin.get("language", "en"))


def _task_gaps(calls: pd.DataFrame, tasks: Sequence[str]) -> _TaskGaps:
    table = call_table(normalise(calls[calls["task"].isin(tasks)]))
    shares: list[Reading] = []
    counts: list[Array] = []
    for condition in (LADDER, LADDER_MATCHED):
        rows = np.asarray(table.condition == condition)
        part = table.where(rows)
        better = np.asarray(chooses_better(*part.seen))
        shares.append(share(part.units(f"{condition} calls"), better))
        counts += task_counts(table, rows, chooses_better)
    hits, n_calls, matched_hits, n_matched = counts
    rate = hits / np.maximum(n_calls, 1.0)
    matched_rate = matched_hits / np.maximum(n_matched, 1.0)
    return _TaskGaps(
        ladder=shares[0],
        matched=shares[1],
        gap=gap_reading(shares[0], shares[1], [matched_hits, n_matched, hits, n_calls]),
        by_task=rate - matched_rate,
        sizes=np.minimum(n_calls, n_matched),
    )


def _beyond_english(read: _TaskGaps, in_english: Sequence[_TaskGaps], language: str) -> Reading:
    if language == "en":
        return NotEstimable(reason="English is what the others are compared with")
    if len(in_english) != 1:
        return NotEstimable(reason=f"this judge has {len(in_english)} runs in English, and one is needed")
    (english,) = in_english
    for gap in (read.gap, english.gap):
        if isinstance(gap, NotEstimable):
            return gap
    sizes = np.minimum(read.sizes, english.sizes)
    n_tasks = int((sizes > 0).sum())
    values = sizes * (read.by_task - english.by_task)
    # Halved: the interval is one of values from -1 to 1, and two gaps differ by up to 2.
    half = value_interval(np.maximum(values, 0.0) / 2, np.maximum(-values, 0.0) / 2, sizes, 0.95)
    return Estimate(
        value=float(values.sum() / sizes.sum()),
        n=n_tasks,
        excluded=len(sizes) - n_tasks,
        **intervals(None, half and (2 * half[0], 2 * half[1])),
        n_clusters=n_tasks,
        method="mean difference of gaps, paired by task",
        unit="item",
    )
