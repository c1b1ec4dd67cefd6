"""All that pointwise records say about a judge: each test, all together, profile, cost, worst items.

| part of the profile | rule |
|---|---|
| baseline accuracy x | accuracy on the unperturbed items, where it has a number |
| weakest test t x | the test with the lowest score, where its interval lies below that of every other test |
| weakest test not decided: t x, u y | otherwise: the tests whose intervals reach down to that of the lowest |
| flips on repeat x | flip rate of the first test of replicates, by name, that has one; else of the baseline |
| k of n tests without a number | tests whose score was withheld or could not be estimated |

Every number has its 95 % interval by source.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from jrh_mlflow.errors import CallsError
from jrh_mlflow.measures.confidence import confidence_axes
from jrh_mlflow.measures.datasheet import NO_PROFILE, Share, share_of
from jrh_mlflow.measures.reason_conflict import reason_axes
from jrh_mlflow.measures.records import is_pointwise, normalise, outcome_counts
from jrh_mlflow.measures.variation import scored_points, variance_axes
from jrh_mlflow.measures.verdict import CONSTANT_ANSWER, DROP, NOISE_EXCESS, WithVerdict
from jrh_mlflow.perturb.registry import counted_once, expectation_of, name_of_test, score_name
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.items import BASELINE, LABEL_SOURCES, PAPER, PROTOCOL, THIRDS, USABLE, Answers, Item
from jrh_mlflow.schema.presentation import message_text
from jrh_mlflow.scoring.expectations import LABEL, UNKNOWN_ORDER, Expectation
from jrh_mlflow.scoring.ledger import Resampling, mean_of_shares
from jrh_mlflow.scoring.metric import DEFAULT, Metric, Sampled, is_share, mean_interval, metric_reading, within_reason
from jrh_mlflow.scoring.pointwise import Counted, PointTable, Scale, plain_label, point_table, right_answers
from jrh_mlflow.scoring.readings import (
    AGREEMENT,
    accuracy,
    accuracy_axes,
    agreement_axes,
    baseline_axes,
    constant_answer,
    drop,
    is_judged,
    label_axes,
    noise_excess,
    pooled_axes,
    repeated,
    stability_axes,
)
from jrh_mlflow.stats import Mask, Texts

GROUP_FIELDS = {"rubric": "rubrics", "category": "categories", "position": "positions"}
"""Kinds of groups, as in `<kind>/<group>/<axis>`, to the fields of a report that hold their readings."""
ALL = "all"
"""All tests pooled, the baseline apart."""
OVERALL = "overall"
"""The mean over tests, where an axis stands."""
_MOST_HELD = 3
"""Withheld tests that the reason for a missing mean names."""
_MOST_RIVALS = 3
"""Tests that a profile names where the weakest is not decided."""
_TEST_NAMES = {ALL: "all tests"}


def words_of_test(test: str) -> str:
    """Return what people call a test, the baseline or all tests: `prompt injection`."""
    return _TEST_NAMES.get(test, test.replace("_", " ").replace("/", ": "))


@dataclass(frozen=True, kw_only=True, repr=False)
class ReliabilityReadings(WithVerdict):
    """What one pointwise judge reads on one reliability suite."""

    labels: Answers
    """Given or inferred, low to high where the order is known."""
    tests: tuple[str, ...]
    """Conditions that were measured, the baseline apart."""
    summary: Mapping[str, float | None]
    """Across the scores: n_tests, mean, sd, min, max, mean_ci_low, mean_ci_high; see `mean_withheld`."""
    scores: Mapping[str, Reading]
    """Test to the one reading that stands for it: accuracy, or what its expectation says."""
    estimates: Mapping[str, Reading]
    """`<test>/<axis>` to estimate, or to the reason why there is none; `baseline` and `all` stand where a test does."""
    categories: Mapping[str, Mapping[str, Reading]] = field(default_factory=dict)
    """Group of the items to axis to reading, of all tests pooled; empty where items have no group."""
    rubrics: Mapping[str, Mapping[str, Reading]] = field(default_factory=dict)
    """Rubric to axis to reading, in the same way; empty where there is one rubric."""
    positions: Mapping[str, Mapping[str, Reading]] = field(default_factory=dict)
    """Third of the transcript that holds the violation to axis to reading; empty where no transcript was edited."""
    metric: str = DEFAULT
    """What stands for tests whose items carry the right answer; the axis is `<test>/<metric>`."""
    lower_is_better: bool = False
    """Whether that metric is an error."""

    @property
    def by_group(self) -> dict[str, Mapping[str, Mapping[str, Reading]]]:
        """What is read by group of items: all tests pooled."""
        return {kind: getattr(self, name) for kind, name in GROUP_FIELDS.items()}

    @property
    def mean_withheld(self) -> str:
        """Why mean, spread and ends over tests are withheld; empty where they are not."""
        return mean_withheld(self.scores, self.metric)

    @property
    def apart(self) -> list[str]:
        """Tests that are scored by a share where the metric is none: the summary is then without them."""
        return in_no_mean(self.scores, self.metric)

    @property
    def chosen_text(self) -> str:
        """The metric for people, and which tests are in no mean with it."""
        return f"{self.metric_text}; in no mean with it: {', '.join(self.apart)}" if self.apart else self.metric_text

    @property
    def metric_text(self) -> str:
        """The metric for people, and which end is good where that is the low one."""
        return f"{self.metric} (an error: lower is better)" if self.lower_is_better else self.metric


def in_no_mean(tests: Iterable[str], metric: str) -> list[str]:
    """Return the tests that are scored by a share where the metric is none: a mean over both would say nothing."""
    return [] if is_share(metric) else [test for test in tests if expectation_of(test).statistic != DEFAULT]


def mean_withheld(scores: Mapping[str, Reading], metric: str = DEFAULT) -> str:
    """Say why mean, spread and ends over tests are withheld, or nothing.

    A test that is withheld may be the hardest one: a mean or a minimum without it would flatter.
    """
    apart = in_no_mean(scores, metric)
    held = [
        words_of_test(test)
        for test, score in scores.items()
        if isinstance(score, NotEstimable) and score.withheld and test not in apart
    ]
    more = f" and {len(held) - _MOST_HELD} more" if len(held) > _MOST_HELD else ""
    listed = f"{', '.join(held[:_MOST_HELD])}{more}"
    return f"{len(held)} of {len(scores)} tests are withheld and would be left out: {listed}" if held else ""


def without_flattery(
    summary: Mapping[str, float | None], scores: Mapping[str, Reading], metric: str = DEFAULT
) -> dict[str, float | None]:
    """Return what sums the tests up; nothing but how many have a number where a mean would flatter."""
    held = mean_withheld(scores, metric)
    return {name: None if held and name not in ("n", "n_tests") else value for name, value in summary.items()}


def reliability_readings(
    frame: pd.DataFrame,
    *,
    labels: Sequence[str] | None,
    max_excluded: float,
    resampling: Resampling,
    metric: Metric | None = None,
    definitions: str = PROTOCOL,
) -> ReliabilityReadings:
    """Measure normalised pointwise records; a `metric` stands for labelled tests in place of accuracy."""
    calls = point_table(frame, labels=labels, max_excluded=max_excluded)
    conditions = tuple(sorted(set(calls.test) - {BASELINE}))
    estimates: dict[str, Reading] = {}
    for name in (BASELINE, *conditions):
        if name != BASELINE or (calls.test == BASELINE).any():
            estimates |= _condition_axes(calls.of(name), name, resampling)
    scored = scored_tests(calls, conditions, definitions)
    for test in scored:
        estimates |= expectation_of(test.name).axes(calls, test.name)
        estimates.setdefault(test.axis, test.reading)
    estimates |= _effects(calls, conditions)
    pooled = pooled_calls(calls)
    if len(pooled.test):
        estimates |= pooled_axes(pooled, ALL, resampling)
    estimates |= confidence_axes(frame, max_excluded=max_excluded, resampling=resampling)
    estimates |= reason_axes(frame, labels=labels, max_excluded=max_excluded)
    estimates |= variance_axes(scored_points(calls, unperturbed_calls(calls)))
    # A test with two designs counts once in the mean, or it would weigh twice.
    once = counted_once(test.name for test in scored)
    scored = [test for test in scored if test.name in once]
    if metric is not None:
        sampled = _add_metric(estimates, calls, metric, resampling)
        scored = [_by_metric(test, metric, sampled) for test in scored]
    scores = {test.name: estimates[test.axis] for test in scored}
    thirds = grouped_readings(calls, calls.position, resampling)
    lower, chosen = metric is not None and metric.lower, DEFAULT if metric is None else metric.name
    # An error, or a score that may be below 0, is never averaged with shares.
    own = None if metric is None or is_share(metric.name) else metric.name
    alike = [test for test in scored if own is None or test.axis == f"{test.name}/{own}"]
    return ReliabilityReadings(
        estimates=estimates,
        outcomes=outcome_counts(frame),
        profile=reliability_line(estimates, {test.name: scores[test.name] for test in alike}, lower_is_better=lower),
        tests=conditions,
        scores=scores,
        summary=without_flattery(
            across_tests(alike, estimates, resampling if metric is None else within_reason(metric, resampling)),
            scores,
            chosen,
        ),
        metric=chosen,
        lower_is_better=lower,
        definitions=definitions,
        labels=_answers(calls.scale, labels),
        max_excluded=max_excluded,
        rubrics=grouped_readings(calls, calls.rubric, resampling),
        positions={name: thirds[name] for name in THIRDS if name in thirds},
    )


def _answers(scale: Scale, given: Sequence[str] | None) -> Answers:
    """Return the labels as they were read, with the meanings that were given."""
    return Answers(scale.labels, ordinal=scale.ordinal, meanings=getattr(given, "meanings", None), seen=scale.seen)


def grouped_readings(calls: PointTable, groups: Texts, resampling: Resampling) -> dict[str, dict[str, Reading]]:
    """Read the calls of each group, in order of name: all tests pooled, or the baselines where there is no test.

    Args:
        calls: All of them.
        groups: Group of each call; empty where it has none.
        resampling: Of the intervals of values that are no shares.
    """
    readings = {}
    for name in sorted(set(groups) - {""}):
        axes = pooled_axes(pooled_calls(calls, groups == name), name, resampling)
        readings[name] = {axis.removeprefix(f"{name}/"): reading for axis, reading in axes.items()}
    return readings


def pooled_calls(calls: PointTable, among: Mask | None = None) -> PointTable:
    """Return the calls that are pooled: those of all tests, or of a group of items.

    A group that has no test is read on its baselines where no group has one.
    """
    labelled = np.asarray(calls.label != "")
    # Baselines are no test: they are the answers that tests are compared with.
    tested = np.asarray(labelled & (calls.test != BASELINE))
    if among is None:
        return calls.where(tested)
    return calls.where(np.asarray((tested if tested.any() else labelled) & among))


def _condition_axes(calls: PointTable, name: str, resampling: Resampling) -> dict[str, Reading]:
    expectation = expectation_of(name)
    axes: dict[str, Reading] = {}
    if expectation.labelled or (calls.label != "").any():
        judged = is_judged(calls)
        axes |= accuracy_axes(calls, name) if judged else {f"{name}/accuracy": accuracy(calls, name).reading}
        # The baseline is not compared with itself, and where only a direction is expected no answer is to stay.
        axes |= baseline_axes(calls, name) if expectation.labelled and name != BASELINE else {}
        axes |= label_axes(calls, name, resampling) if judged else {}
        axes |= agreement_axes(calls, name)
    if expectation.repeats or len(repeated(calls).test):
        axes |= stability_axes(calls, name, resampling)
    return axes


def _effects(calls: PointTable, conditions: Sequence[str]) -> dict[str, Reading]:
    """Return what findings are made of: changes beyond the judge's own noise, lost accuracy, one answer to all."""
    unperturbed, effects = unperturbed_calls(calls), dict[str, Reading]()
    for name in conditions:
        own = calls.of(name)
        if expectation_of(name).repeats or not expectation_of(name).labelled:
            continue
        if np.asarray((own.label == own.base_label) & (own.label != "")).any():
            effects[f"{NOISE_EXCESS}{name}"] = noise_excess(calls, name, unperturbed)
        if (own.expected != "").any() and (calls.of(BASELINE).expected != "").any():
            effects[f"{DROP}{name}"] = drop(calls, name)
    given = np.where(calls.outcome == "abstain", "abstain", calls.answer)
    constant = constant_answer(calls.units("calls with an expected answer"), given, calls.expected, calls.item)
    return effects if constant is None else {**effects, CONSTANT_ANSWER: constant}


def unperturbed_calls(calls: PointTable) -> Mask:
    """Return which calls show a source as it is: the same input again and again is no change."""
    as_it_is = [name for name in set(calls.test) if name == BASELINE or expectation_of(name).repeats]
    return np.isin(calls.test, np.array(as_it_is, dtype=object))


def _add_metric(
    estimates: dict[str, Reading], calls: PointTable, metric: Metric, resampling: Resampling
) -> dict[str, Sampled | None]:
    """Add the axis of a chosen metric wherever there is an accuracy; return what its mean over tests resamples."""
    metrics = {}
    for name in sorted(set(calls.test)):
        if f"{name}/accuracy" in estimates:
            reading, metrics[name] = metric_reading(calls.of(name), name, metric, resampling, known=estimates)
            estimates[f"{name}/{metric.name}"] = reading
    return metrics


def _by_metric(test: ScoredTest, metric: Metric, sampled: Mapping[str, Sampled | None]) -> ScoredTest:
    """Let a chosen metric stand for a test that accuracy stood for."""
    if test.axis != f"{test.name}/{DEFAULT}":
        return test
    return ScoredTest(name=test.name, axis=f"{test.name}/{metric.name}", counted=None, sampled=sampled.get(test.name))


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredTest:
    """A test, or one condition of it, with the axis that stands for it."""

    name: str
    axis: str
    counted: Counted | None
    """None where nothing could be counted."""
    sampled: Sampled | None = None
    """Of a chosen metric, in place of what is counted."""

    @property
    def reading(self) -> Reading:
        """The share, or why there is none."""
        return UNKNOWN_ORDER if self.counted is None else self.counted.reading


def scored_by(test: str, definitions: str = PROTOCOL) -> Expectation:
    """Return what the score of a test counts; the Harness paper scores replicates, too, by how often they are right."""
    expectation = expectation_of(test)
    return LABEL if definitions == PAPER and expectation.repeats else expectation


def scored_tests(calls: PointTable, conditions: Sequence[str], definitions: str = PROTOCOL) -> list[ScoredTest]:
    """Return for each test, by name, the share that stands for it, as its expectation says."""
    scored = []
    for name in sorted({score_name(condition) for condition in conditions}):
        expectation = scored_by(name, definitions)
        counted = expectation.count(calls, name)
        scored.append(ScoredTest(name=name, axis=f"{name}/{expectation.statistic}", counted=counted))
    return scored


def across_tests(
    scored: Sequence[ScoredTest], estimates: Mapping[str, Reading], resampling: Resampling
) -> dict[str, float | None]:
    """Mean, sample standard deviation, minimum and maximum of the tests' scores that have a number.

    The mean's interval resamples whole sources, every test at once; None where it would have no width.
    """
    numbered = [(test, reading) for test in scored if isinstance(reading := estimates[test.axis], Estimate)]
    values = [reading.value for _, reading in numbered]
    if not values:
        return {"n_tests": 0, **dict.fromkeys(("mean", "sd", "min", "max", "mean_ci_low", "mean_ci_high"))}
    if any(test.sampled for test, _ in numbered):
        shares = [Sampled.of_share(test.counted) for test, _ in numbered if test.counted]
        parts = [test.sampled for test, _ in numbered if test.sampled]
        low, high = mean_interval([*parts, *shares], resampling)
    else:
        low, high = _mean_interval([test.counted for test, _ in numbered if test.counted], resampling)
    return {
        "n_tests": len(values),
        # `fsum`, so that the last digit does not depend on the order of the tests.
        "mean": math.fsum(values) / len(values),
        "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        "min": min(values),
        "max": max(values),
        "mean_ci_low": low,
        "mean_ci_high": high,
    }


def _mean_interval(counted: Sequence[Counted], resampling: Resampling) -> tuple[float | None, float | None]:
    hits = np.column_stack([test.units.sizes(test.units.usable & test.hits) for test in counted])
    sizes = np.column_stack([test.units.sizes(test.units.usable) for test in counted])
    # A source without a usable call would be a cluster that says nothing and still widens the interval.
    sources = np.flatnonzero(sizes.sum(axis=1) > 0)
    return resampling.intervals(mean_of_shares, np.hstack([hits, sizes])[sources], sources).get("mean") or (None, None)


def reliability_line(
    estimates: Mapping[str, Reading], scores: Mapping[str, Reading], *, lower_is_better: bool = False
) -> str:
    """Describe a judge in one line by the rules above; what was not measured leaves no word."""
    numbers = {test: share for test, reading in scores.items() if (share := share_of(reading))}
    accurate = share_of(estimates.get(f"{BASELINE}/accuracy"))
    parts = [f"baseline accuracy {accurate}"] if accurate else []
    parts += [_weakest(numbers, lower_is_better=lower_is_better)] if numbers else []
    repeats = [*(test for test in scores if expectation_of(test).repeats), BASELINE]
    flips = [share_of(estimates.get(f"{test}/flip_rate")) for test in repeats]
    parts += [f"flips on repeat {share}" for share in flips if share][:1]
    if parts and len(numbers) < len(scores):
        parts.append(f"{len(scores) - len(numbers)} of {len(scores)} tests without a number")
    return "; ".join(parts) or NO_PROFILE


def _weakest(numbers: Mapping[str, Share], *, lower_is_better: bool) -> str:
    """Name the test with the worst score, and the others that may be it where its interval does not lie apart."""
    sign = -1 if lower_is_better else 1
    # By name where scores are equal, so that the order of the tests decides nothing.
    lowest, *others = sorted(numbers, key=lambda test: (sign * numbers[test].value, test))
    rivals = [test for test in others if not _is_worse(numbers[lowest], numbers[test], lower_is_better=lower_is_better)]
    if not rivals:
        return f"weakest test {words_of_test(lowest)} {numbers[lowest]}"
    listed = ", ".join(f"{words_of_test(test)} {numbers[test]}" for test in (lowest, *rivals)[:_MOST_RIVALS])
    more = len(rivals) + 1 - _MOST_RIVALS
    return f"weakest test not decided: {listed}{f' and {more} more' if more > 0 else ''}"


def _is_worse(score: Share, other: Share, *, lower_is_better: bool) -> bool:
    return other.is_below(score) if lower_is_better else score.is_below(other)


def headline_of_tests(tests: Iterable[str], scores: Iterable[str], metric: str = DEFAULT) -> list[str]:
    """Return the axes that MLflow gets by default: of the baseline and each test, and what stands for a test."""
    tests = (BASELINE, *tests)
    keys = [f"{test}/accuracy" for test in tests]
    keys += [f"{test}/{metric}" for test in tests]
    keys += [f"{test}/{expectation_of(test).statistic}" for test in scores]
    keys += [f"{test}/{AGREEMENT}{source}" for source in LABEL_SOURCES for test in tests]
    return list(dict.fromkeys(keys))


class CostPoint(NamedTuple):
    """Where the running score stood when so much had been spent."""

    usd: float
    """Cumulative dollars, unusable calls included."""
    n: int
    """Usable calls with an expected answer so far."""
    score: float
    """Share of them that were right."""


def cost_points(calls: pd.DataFrame | Iterable[object]) -> list[CostPoint]:
    """Return cumulative dollars and running accuracy in the order of the records, one point per usable call.

    Unusable calls cost money and give no answer: they move the dollars of the next point and not the score.

    Returns:
        The points; none when the cost of any call is unknown, or no call has an expected answer.

    Raises:
        CallsError: when the records break a rule, or have no column `cost_usd`.
    """
    frame = normalise(calls)
    if "cost_usd" not in frame.columns:
        raise CallsError("Call records lack the column cost_usd: there is no cost curve without costs.")
    costs = pd.to_numeric(frame["cost_usd"], errors="coerce").to_numpy(float)
    # One unknown cost leaves every later sum unknown.
    if not np.isfinite(costs).all():
        return []
    spent = np.cumsum(costs)
    answer, expected = np.array([plain_label(text) for text in frame["answer"]], dtype=object), right_answers(frame)
    counted = np.isin(frame["outcome"].to_numpy(object), USABLE) & (expected != "")
    n = np.cumsum(counted)
    # Before the first counted call n is 0; those rows are not returned.
    score = np.cumsum(counted & (answer == expected)) / np.maximum(n, 1)
    return [CostPoint(usd=float(spent[row]), n=int(n[row]), score=float(score[row])) for row in np.flatnonzero(counted)]


def usd_per_accuracy_point(cost: float | None, accuracy: float | None) -> float | None:
    """Return total cost in dollars over accuracy in percentage points; None when either is unknown or accuracy is 0.

    Example:
        >>> round(usd_per_accuracy_point(1.35, 0.9), 6)
        0.015
    """
    if cost is None or not accuracy:
        return None
    return cost / (100 * accuracy)


def priced_calls(calls: pd.DataFrame, definitions: str = PROTOCOL) -> pd.DataFrame:
    """Return the calls whose dollars a point of accuracy is reckoned by: all; in the paper there is no baseline."""
    return calls[calls["condition"] != BASELINE] if definitions == PAPER else calls


@dataclass(frozen=True, kw_only=True, slots=True)
class WorstItem:
    """One item that was judged wrong."""

    item: str
    test: str
    source: str
    original: str | None
    """The baseline's response, or what the test changed: the rubric, a message; None when there is no text."""
    perturbed: str | None
    expected: str
    given: str
    """The answer that was furthest off."""
    error_size: float
    """Levels between expected and given on a scale; 1 for other labels."""


def worst_items(calls: pd.DataFrame | Iterable[object], items: Mapping[str, Item], n: int = 10) -> list[WorstItem]:
    """Return the `n` worst items: by size of the error, then share of wrong replicates, then a right baseline, then id.

    Of the items that one test made of one source only the worst is told, whatever its designs: the list is to show
    different errors. Only verdicts can be wrong: abstained, unparsed and failed
    calls are no errors of judgment.

    Args:
        calls: Call records, as for `measure`.
        items: Items of the suite by id.
        n: How many at most.

    Raises:
        CallsError: when the records are of pairs, or speak of an item that is not among `items`.
    """
    frame = normalise(calls)
    if not is_pointwise(frame):
        raise CallsError("The worst items are those of pointwise records, but these are of pairs.")
    strange = sorted(set(frame["suite_item"]) - set(items))
    if strange:
        raise CallsError(f"{len(strange)} item(s) of the calls are not in the suite: {', '.join(strange[:5])}.")
    names = sorted(set(frame["suite_item"]))
    table = point_table(frame, labels=Answers.of(item for item in items.values() if item.answers))
    baselines = {item.original: item for item in items.values() if item.condition == BASELINE}
    size = _sizes(table)
    by_item: dict[int, list[int]] = {}
    for wrong in np.flatnonzero((table.outcome == "verdict") & (table.expected != "") & ~table.right):
        by_item.setdefault(int(table.item[wrong]), []).append(int(wrong))
    # Without `minlength` the counts would end at the last item that has a usable call.
    answered = np.bincount(table.item[table.usable], minlength=len(names))
    ranked = sorted(by_item, key=lambda code: (*_rank(table, size, by_item[code], int(answered[code])), names[code]))
    worst = []
    for code in _different(ranked, [items[name] for name in names])[:n]:
        item, row = items[names[code]], max(by_item[code], key=lambda row: size[row])
        original, perturbed = _texts(item, baselines.get(item.original))
        worst.append(
            WorstItem(
                item=names[code],
                test=str(table.test[row]),
                source=item.task,
                original=original,
                perturbed=perturbed,
                expected=str(table.expected[row]),
                given=str(table.answer[row]),
                error_size=size[row],
            )
        )
    return worst


def _different(ranked: Iterable[int], items: Sequence[Item]) -> list[int]:
    """Keep the first item of each source, rubric and test."""
    kept: dict[tuple[str, ...], int] = {}
    for code in ranked:
        kept.setdefault((*items[code].original, name_of_test(items[code].condition)), code)
    return list(kept.values())


def _sizes(table: PointTable) -> list[float]:
    if table.scale.kind != "ordinal":
        return [1.0] * len(table.test)
    distance = np.abs(table.scale.steps(table.expected) - table.scale.steps(table.answer))
    return [float(steps) for steps in np.nan_to_num(distance)]


def _rank(table: PointTable, size: Sequence[float], rows: Sequence[int], n_answered: int) -> tuple[float, float, bool]:
    was_right = table.base_answer[rows[0]] != "" and table.base_answer[rows[0]] == table.base_expected[rows[0]]
    # A share, not a count: tests that ask ten times would come before all that ask once.
    return -max(size[row] for row in rows), -len(rows) / n_answered, not was_right


def _texts(item: Item, base: Item | None) -> tuple[str | None, str | None]:
    """Return what was changed, before and after: the rubric, the response, or the first edited message."""
    if base is not None and base.rubric != item.rubric:
        return base.rubric, item.rubric
    if not item.transcript:
        return None if base is None else base.response, item.response
    before = (base.transcript if base else None) or ()
    edited = [place for place, message in enumerate(item.transcript) if before[place : place + 1] != (message,)]
    place = edited[0] if edited and before else len(item.transcript) - 1
    return " ".join(map(message_text, before[place : place + 1])) or None, message_text(item.transcript[place])
