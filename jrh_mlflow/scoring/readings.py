"""What pointwise answers read: accuracy, errors, distance on a scale, agreement of replicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.schema.items import BASELINE, LABEL_SOURCES
from jrh_mlflow.scoring.ledger import (
    Extremes,
    Resampling,
    Sample,
    Statistics,
    Units,
    counted_difference,
    deciding_interval,
    defined_ratio,
    difference_bounds,
    estimate_share,
    mean_value,
    refuse,
)
from jrh_mlflow.scoring.pointwise import ORDER_UNKNOWN, Counted, PointTable
from jrh_mlflow.stats import Array, Codes, Interval, Mask, Texts
from jrh_mlflow.stats.agreement import (
    MeasurementScale,
    concordance,
    disagreement,
    gwet_ac1,
    krippendorff_alpha,
    matthews,
    mean_absolute_error,
    pearson,
    quadratic_kappa,
    spearman,
    unanimous,
)

AGREEMENT = "agreement_"
"""Before the source of a label, in the name of an axis: agreement with it is no accuracy."""
CONSISTENCY = "consistency"
"""Of a test that must not change an answer: share of answers that it did not change; 1 is right."""
MOVED = "moved"
"""Of a test that must change an answer: share of answers that it changed."""


def accuracy(calls: PointTable, name: str) -> Counted:
    """Calls equal to the expected answer; an abstention is an answer and never right."""
    judged = calls.where(calls.expected != "")
    apart = " that comes from the data or the test's meaning" if (calls.label_source != "").any() else ""
    return judged.counted(f"{name} calls with an expected answer{apart}", judged.right)


def agreement_axes(calls: PointTable, name: str) -> dict[str, Reading]:
    """Calls equal to a label that is no ground truth, by the source of the label: `agreement_model`, and so on."""
    counts = {source: agreement(calls, name, source) for source in LABEL_SOURCES}
    return {f"{name}/{AGREEMENT}{source}": counted.reading for source, counted in counts.items() if len(counted.hits)}


def agreement(calls: PointTable, name: str, source: str) -> Counted:
    """Calls equal to a label of one source, verdicts only."""
    part = calls.where(np.asarray((calls.label_source == source) & (calls.label != "")))
    same = np.asarray((part.outcome == "verdict") & (part.answer == part.label))
    return part.counted(f"{name} calls with {LABEL_SOURCES[source]}", same)


def accuracy_axes(calls: PointTable, name: str) -> dict[str, Reading]:
    """Accuracy over calls, and pass rate over items: right in every replicate."""
    return {f"{name}/accuracy": accuracy(calls, name).reading, f"{name}/pass": passed_items(calls, name).reading}


def passed_items(calls: PointTable, name: str) -> Counted:
    """Items that are right in every replicate."""
    judged = calls.where(calls.expected != "")
    items = judged.items(f"{name} items with an expected answer")
    can_pass = items.all_of(judged.right | ~judged.usable)
    return Counted(units=items.units, hits=items.all_of(judged.right), can_hit=can_pass)


def baseline_axes(calls: PointTable, name: str) -> dict[str, Reading]:
    """Consistency where the expected answer is the baseline's, `moved` where it is another; decided item by item.

    Replicate r is compared with baseline replicate r mod their number. A pair of calls with an unusable one leaves the
    denominator; an abstention is neither consistent nor moved.
    """
    both = {axis: compared(calls, name, axis) for axis in (CONSISTENCY, MOVED)}
    if not len(both[MOVED].hits):
        del both[MOVED]
    elif not len(both[CONSISTENCY].hits):
        del both[CONSISTENCY]
    several = calls.n_bases > 1
    if several.any():
        reason = f"{int(several.sum())} {name} calls have several baseline items: which is the original is not known"
        return {f"{name}/{axis}": NotEstimable(reason=reason) for axis in both}
    return {f"{name}/{axis}": counted.reading for axis, counted in both.items()}


def compared(calls: PointTable, name: str, axis: str) -> Counted:
    """Calls that expect the baseline's label and repeat its answer, or expect another label and give another answer."""
    calls = calls.where(calls.base_outcome != "")
    stays = np.asarray(calls.label == calls.base_label)
    calls = calls.where(stays if axis == CONSISTENCY else ~stays & (calls.label != "") & (calls.base_label != ""))
    units = calls.paired(f"{name} calls with a baseline")
    verdicts, same = (calls.outcome == "verdict") & (calls.base_outcome == "verdict"), calls.answer == calls.base_answer
    hits = np.asarray(verdicts & (same if axis == CONSISTENCY else ~same))
    abstains = (calls.outcome == "abstain") | (calls.base_outcome == "abstain")
    return Counted(units=units, hits=hits, can_hit=np.where(units.usable, hits, ~abstains))


NO_REPEAT = "no source was asked twice without a change, so its own noise is not known"
FEWEST_ITEMS = 10
"""Items with one right answer, under which nothing is read of how a judge answers them."""


def noise_excess(calls: PointTable, test: str, unperturbed: Mask) -> Reading:
    """Return the mean of `noise_units`, or why there is none."""
    found = noise_units(calls, test, unperturbed)
    if isinstance(found, NotEstimable):
        return found
    units, values, extremes = found
    return mean_value(units, values, extremes=extremes)


def noise_units(calls: PointTable, test: str, unperturbed: Mask) -> tuple[Units, Array, Extremes] | NotEstimable:
    """How much less often a changed source is answered like the unchanged one than the unchanged one like itself.

    Of each source, once: the share of agreeing pairs among its unperturbed asks − the share of agreeing pairs of a
    perturbed and an unperturbed ask. A judge whose changes are its own noise reads 0, however noisy it is.

    Args:
        calls: All of them.
        test: One that keeps the label.
        unperturbed: Which calls show a source as it is.
    """
    changed = np.asarray((calls.test == test) & (calls.label == calls.base_label) & (calls.n_bases == 1))
    own = calls.where(np.asarray((changed | unperturbed) & np.isin(calls.original, calls.original[changed])))
    if not len(own.test):
        return NotEstimable(reason=f"no {test} calls with a baseline", statistic="value")
    own_changed = np.asarray(own.test == test)
    originals, first, of_call = np.unique(own.original, return_index=True, return_inverse=True)
    answers = np.unique(np.where(own.outcome == "abstain", "abstain", own.answer), return_inverse=True)[1]
    counts = np.zeros((2, len(originals), int(answers.max(initial=0)) + 1))
    np.add.at(counts, (own_changed[own.usable].astype(int), of_call[own.usable], answers[own.usable]), 1)
    (plain, perturbed), sizes = counts, counts.sum(axis=2)
    asked = np.bincount(of_call[~own_changed], minlength=len(originals)) >= 2
    if not asked.any():
        return NotEstimable(reason=NO_REPEAT, statistic="value")
    known = asked & (sizes[0] >= 2) & (sizes[1] >= 1)
    pairs = np.maximum(sizes[0] * (sizes[0] - 1), 1)
    itself = (np.square(plain).sum(axis=1) - sizes[0]) / pairs
    across = (plain * perturbed).sum(axis=1) / np.maximum(sizes[0] * sizes[1], 1)
    units = own.units_of(
        f"sources of {test} that were asked twice without a change",
        usable=known[asked],
        lost=own.outcome[~own.usable & asked[of_call]],
        clusters=own.source[first[asked]],
        n_calls=int(asked[of_call].sum()),
        members=((np.cumsum(asked) - 1)[of_call][asked[of_call]], own.row[asked[of_call]]),
    )
    both = np.stack([np.bincount(of_call[part], minlength=len(originals)) for part in (~own_changed, own_changed)])
    least, most = _noise_extremes(plain[asked], perturbed[asked], (both - sizes)[:, asked])
    return units, np.where(known, itself - across, 0.0)[asked], (least, most)


def _noise_extremes(plain: Array, perturbed: Array, lost: Array) -> Extremes:
    """Least and greatest value of each source over all answers that its lost asks could have been.

    With n and m the counts of answers to the unperturbed and the perturbed asks, of which there are r and q, a value is
    `(sum n² - r) / (r (r - 1)) - sum n m / (r q)`. It is greatest where all lost unperturbed asks gave one answer (it
    is convex in n) and the perturbed ones a new one; at the least lost unperturbed asks differ from one another, and
    the perturbed ones repeat the commonest answer.

    Args:
        plain: Sources × answers.
        perturbed: Likewise.
        lost: Unperturbed and perturbed asks that were lost, of each source.
    """
    # A column for an answer that nobody gave.
    n, m = (np.hstack([counts, np.zeros((len(counts), 1))]) for counts in (plain, perturbed))
    (a, b), r, q = lost[:, :, None], (n.sum(axis=1) + lost[0])[:, None], (m.sum(axis=1) + lost[1])[:, None]
    itself, across = np.square(n).sum(axis=1, keepdims=True) - r, (n * m).sum(axis=1, keepdims=True)
    pairs, crossed = np.maximum(r * (r - 1), 1), np.maximum(r * q, 1)
    most = (itself + 2 * a * n + a * a) / pairs - (across + a * m) / crossed
    repeated = b * (n.max(axis=1, keepdims=True) + a)
    least = (itself + 2 * a * n + a) / pairs - (across + a * m + repeated) / crossed
    return np.clip(least.min(axis=1), -1, 1), np.clip(most.max(axis=1), -1, 1)


def on_same_sources(calls: PointTable, test: str) -> tuple[PointTable, PointTable]:
    """Return the calls of a test and of the baseline that have an expected answer, on the sources that both have."""
    judged = calls.where(calls.expected != "")
    sources = set(judged.of(test).original) & set(judged.of(BASELINE).original)
    both = judged.where(np.isin(judged.original, list(sources)))
    return both.of(test), both.of(BASELINE)


def drop(calls: PointTable, test: str) -> Reading:
    """Baseline accuracy − accuracy under a test, on the sources that both have."""
    before, after = on_same_sources(calls, test)
    shares = [accuracy(part, name).reading for part, name in ((before, test), (after, BASELINE))]
    for reading in shares:
        if isinstance(reading, NotEstimable):
            return replace(reading, statistic="value", bounds=difference_bounds(shares[1], shares[0]))
    low, high = (reading for reading in shares if isinstance(reading, Estimate))
    counts = [
        np.bincount(part.source[part.usable], weights=score[part.usable], minlength=part.n_sources).astype(float)
        for part in (before, after)
        for score in (part.right.astype(float), part.usable.astype(float))
    ]
    difference = counted_difference(low, high, method="difference of two shares (square and add)", counts=counts)
    return replace(difference, statistic="value")


def constant_answer(units: Units, answers: Texts, right: Texts, items: Codes) -> Reading | None:
    """Least share, over the right answers that ten items or more have, of the judge's commonest answer.

    A judge that gives one answer to everything reads 1, one that is right reads 0. The least of several shares lies
    between the least of their lower ends and the least of their upper ends.

    Args:
        units: The calls.
        answers: Of each call; of an unusable one any.
        right: What is right for each call, or its level; empty where that is not known.
        items: Item of each call.

    Returns:
        The reading; None where fewer than two right answers have enough items.
    """
    several = [answer for answer in sorted(set(right) - {""}) if len(set(items[right == answer])) >= FEWEST_ITEMS]
    if len(several) < 2:
        return None
    reason = refuse(units)
    if reason is not None:
        return reason
    known = units.usable & np.isin(right, np.array(several, dtype=object))
    if not known.any():
        return None
    commonest, _ = Counter(answers[known].tolist()).most_common(1)[0]
    hits = np.asarray(answers == commonest)
    # A lost call could have been the commonest answer, or not.
    asked = known | ~units.usable
    shares = [
        estimate_share(
            units,
            hits,
            among=part,
            extremes=(np.where(asked & own, hits & known, np.nan), np.where(asked & own, hits | ~known, np.nan)),
        )
        for own, part in ((np.asarray(right == answer), known & (right == answer)) for answer in several)
        if part.any()
    ]
    least = min(shares, key=lambda share: share.value)
    return replace(
        least,
        at_level=partial(_least_at, shares),
        decides_at=None if units.usable.all() else partial(_least_decided, shares),
        bound_low=None,
        bound_high=None,
        **intervals(_least([share.interval for share in shares]), _least_at(shares, 0.95)),
    )


def _least_at(shares: Sequence[Estimate], level: float) -> Interval | None:
    return _least([share.at_level(level) if share.at_level else None for share in shares])


def _least_decided(shares: Sequence[Estimate], level: float) -> Interval | None:
    return _least([deciding_interval(share, level) for share in shares])


def _least(ends: Sequence[Interval | None]) -> Interval | None:
    known = [end for end in ends if end is not None]
    return (min(low for low, _ in known), min(high for _, high in known)) if len(known) == len(ends) else None


def pooled_axes(calls: PointTable, name: str, resampling: Resampling) -> dict[str, Reading]:
    """Accuracy and error rate, and what the labels add, of the calls of several tests under one name."""
    axes = agreement_axes(calls, name) | {f"{name}/accuracy": accuracy(calls, name).reading}
    if not is_judged(calls):
        return axes
    return axes | _error_axes(calls, name) | label_axes(calls, name, resampling)


def is_judged(calls: PointTable) -> bool:
    """Tell whether any call can be right or wrong; also true where no call carries a label at all."""
    return bool((calls.expected != "").any() or not (calls.label != "").any())


def label_axes(calls: PointTable, name: str, resampling: Resampling) -> dict[str, Reading]:
    """Return what two labels, or a scale, add to accuracy."""
    if calls.scale.kind == "binary":
        return _error_axes(calls, name) | binary_axes(calls, name, resampling)
    return ordinal_axes(calls, name, resampling) if calls.scale.kind == "ordinal" else {}


def _error_axes(calls: PointTable, name: str) -> dict[str, Reading]:
    return {f"{name}/error_rate": errors(calls, name).reading}


def errors(calls: PointTable, name: str) -> Counted:
    """Calls that are not the expected answer: the other side of accuracy, an abstention included."""
    judged = calls.where(calls.expected != "")
    return judged.counted(f"{name} calls with an expected answer", ~judged.right)


def binary_axes(calls: PointTable, name: str, resampling: Resampling) -> dict[str, Reading]:
    """FPR, FNR and Matthews' correlation; the last label is the positive one.

    FPR is the share of the calls that expect the negative label and answer the positive one, FNR the other way round;
    an abstention is in their denominators and no error of either kind.
    """
    unknown = NotEstimable(reason=ORDER_UNKNOWN.format(what="positive"))
    both = {axis: confused(calls, name, axis) for axis in CONFUSED}
    rates = {f"{name}/{axis}": counted.reading if counted else unknown for axis, counted in both.items()}
    return {**rates, f"{name}/matthews": _matthews(calls, name, resampling)}


CONFUSED = ("fpr", "fnr")


def confused(calls: PointTable, name: str, axis: str) -> Counted | None:
    """Calls that expect the negative label and answer the positive one, or the other way round.

    None where there are not two labels, or it is not known which of them is the positive one.
    """
    if calls.scale.kind != "binary" or not calls.scale.ordered:
        return None
    label, other = calls.scale.labels if axis == "fpr" else calls.scale.labels[::-1]
    part = calls.where(calls.expected == label)
    return part.counted(f"{name} calls that expect {label!r}", np.asarray(part.answer == other))


def answered(calls: PointTable, name: str) -> Units:
    """Return the denominator of values that compare answers with expected ones: verdicts with an expected answer."""
    return calls.where(calls.expected != "").verdicts(f"{name} calls with an expected answer")


def _matthews(calls: PointTable, name: str, resampling: Resampling) -> Reading:
    units = answered(calls, name)
    reason = refuse(units, statistic="value")
    if reason is not None:
        return reason
    used = calls.where(calls.expected != "").where(units.usable)
    positive = used.scale.labels[1]
    # Symmetric in the two labels, so it needs no order.
    cell = 2 * (used.expected == positive).astype(int) + (used.answer == positive).astype(int)
    features = np.eye(4)[cell]
    tn, fp, fn, tp = (int(count) for count in features.sum(axis=0))
    sample = Sample(units=units, features=features, items=used.item)
    missing = "no variation: one label throughout on the expected or on the given side"
    return sample.readings({"matthews": matthews(tp, fp, fn, tn)}, _phi, resampling, without=missing)["matthews"]


def _phi(sums: Array) -> dict[str, Array]:
    tn, fp, fn, tp = sums.T
    margins = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return {"matthews": defined_ratio(tp * tn - fp * fn, np.sqrt(margins))}


ORDINAL_VALUES = ("mae", "ccc", "pearson", "spearman", "qwk")


def ordinal_axes(calls: PointTable, name: str, resampling: Resampling) -> dict[str, Reading]:
    """MAE, CCC, Pearson, Spearman and quadratic kappa of (expected, answer), and the share within one level.

    An abstention has no level: it is left out of the values and counted beside them; it is not within one.
    """
    judged = calls.where(calls.expected != "")
    what = f"{name} calls with an expected answer"
    expected, given = judged.scale.steps(judged.expected), judged.scale.steps(judged.answer)
    axes = {f"{name}/within_one": near(calls, name).reading}
    units = answered(calls, name)
    reason = refuse(units, statistic="value")
    if reason is not None:
        return {f"{name}/{axis}": reason for axis in ORDINAL_VALUES} | axes
    x, y = expected[units.usable], given[units.usable]
    steps = judged.scale.steps(np.array(judged.scale.labels, dtype=object))
    lowest, highest = float(steps.min()), float(steps.max())
    values = {
        "mae": mean_absolute_error(x, y),
        "ccc": concordance(x, y),
        "pearson": pearson(x, y),
        "spearman": spearman(x, y),
        "qwk": quadratic_kappa(x - lowest, y - lowest, n_labels=int(highest - lowest) + 1),
    }
    cells, cell = np.unique(np.stack([x, y]), axis=1, return_inverse=True)
    sample = Sample(units=units, features=np.eye(cells.shape[1])[cell.ravel()], items=judged.item[units.usable])
    without = f"no variation among the {what}, or fewer than three of them"
    readings = sample.readings(values, cell_statistics(cells[0], cells[1]), resampling, without=without)
    return {f"{name}/{axis}": reading for axis, reading in readings.items()} | axes


def near(calls: PointTable, name: str) -> Counted:
    """Calls within one level of the expected one; an abstention is not."""
    judged = calls.where(calls.expected != "")
    distance = judged.scale.steps(judged.expected) - judged.scale.steps(judged.answer)
    within = np.abs(np.nan_to_num(distance, nan=np.inf)) <= 1
    return judged.counted(f"{name} calls with an expected answer", within)


def cell_statistics(x: Array, y: Array) -> Statistics:
    """Return the five values as functions of how often each cell (x, y) was drawn."""

    def statistics(counts: Array) -> dict[str, Array]:
        n = counts.sum(axis=1)
        var_x, var_y, cov, shift = _moments(counts, np.broadcast_to(x, counts.shape), np.broadcast_to(y, counts.shape))
        ccc = defined_ratio(2 * cov, var_x + var_y + shift * shift)
        rank_x, rank_y, cov_rank, _ = _moments(counts, _mid_ranks(counts, x), _mid_ranks(counts, y))
        return {
            "mae": defined_ratio(counts @ np.abs(x - y), n),
            "ccc": ccc,
            "pearson": defined_ratio(cov, np.sqrt(var_x * var_y)),
            "spearman": defined_ratio(cov_rank, np.sqrt(rank_x * rank_y)),
            # On levels one apart the quadratic kappa is the concordance of the indices.
            "qwk": ccc,
        }

    return statistics


def _moments(counts: Array, x: Array, y: Array) -> tuple[Array, Array, Array, Array]:
    """Population variances, covariance and difference of means, row by row."""
    weights = counts / counts.sum(axis=1, keepdims=True)
    mean_x, mean_y = (weights * x).sum(axis=1), (weights * y).sum(axis=1)
    dx, dy = x - mean_x[:, None], y - mean_y[:, None]
    moments = [(weights * product).sum(axis=1) for product in (dx * dx, dy * dy, dx * dy)]
    # What is left of a constant by rounding is no variation.
    var_x, var_y, cov = (np.where(np.abs(moment) < 1e-12, 0.0, moment) for moment in moments)
    return var_x, var_y, cov, mean_x - mean_y


def _mid_ranks(counts: Array, steps: Array) -> Array:
    _, place = np.unique(steps, return_inverse=True)
    totals = counts @ np.eye(int(place.max()) + 1)[place]
    ranks: Array = (np.cumsum(totals, axis=1) - totals / 2)[:, place]
    return ranks


AGREEMENT_VALUES = ("flip_rate", "krippendorff_alpha", "gwet_ac1")


def repeated(calls: PointTable) -> PointTable:
    """Return the calls on items that were asked about twice or more."""
    items = calls.items("items")
    return calls.where(np.asarray(items.sizes[items.of_call] >= 2))


def unanimity(calls: PointTable, name: str) -> Counted:
    """Items whose replicates are all the same answer; an item with an unusable replicate leaves the denominator."""
    again = repeated(calls)
    items = again.items(f"{name} items with two or more replicates")
    ratings = _ratings(again, again.usable)
    one_answer = np.array([len(set(row[~np.isnan(row)])) <= 1 for row in ratings], dtype=bool)
    return Counted(units=items.units, hits=unanimous(ratings), items=np.unique(again.item), can_hit=one_answer)


def stability_axes(calls: PointTable, name: str, resampling: Resampling) -> dict[str, Reading]:
    """Unanimity, flip rate, Krippendorff's alpha and Gwet's AC1 of the items with two or more replicates.

    Flip rate is the mean over items of the share of replicate pairs that differ. An unusable replicate is missing
    from its item; an abstention is an answer of its own, and missing from the alpha of a scale. A replicate left
    alone has nothing to agree with: it is left out with the others.
    """
    again = repeated(calls)
    axes = {f"{name}/unanimity": unanimity(calls, name).reading}
    # On a scale an abstention is missing from alpha, but an answer for the flip rate: the two may rest on other calls.
    flips, alphas = (_replicates(again, name, axis) for axis in ("flip_rate", "krippendorff_alpha"))
    readings = _agreement(again, flips, resampling)
    if (flips.usable != alphas.usable).any():
        readings |= {"krippendorff_alpha": _agreement(again, alphas, resampling)["krippendorff_alpha"]}
    # The one share among them, though it is averaged over items.
    readings["flip_rate"] = replace(readings["flip_rate"], statistic="rate")
    return axes | {f"{name}/{axis}": reading for axis, reading in readings.items()}


def _replicates(again: PointTable, name: str, axis: str) -> Units:
    """Return the replicates that one of the values reads: an abstention has no level in the alpha of a scale."""
    what = f"{name} calls on items with two or more replicates"
    scaled = axis == "krippendorff_alpha" and _scale_of(again) == "ordinal"
    return again.verdicts(what) if scaled else again.units(what)


def rated_items(calls: PointTable, name: str, axis: str) -> Units:
    """Return the items that a value of agreement is averaged over; those with fewer than two replicates are lost."""
    again = repeated(calls)
    return _rated(again, _replicates(again, name, axis))[0]


def _rated(calls: PointTable, units: Units) -> tuple[Units, Array]:
    """Return the items of some calls, usable where two or more of the usable `units` are theirs, and their ratings."""
    ratings = _ratings(calls, units.usable)
    whole = ~np.isnan(disagreement(ratings))
    return replace(calls.items("items").units, usable=whole, left_out=units.left_out), ratings


def _agreement(calls: PointTable, units: Units, resampling: Resampling) -> dict[str, Reading]:
    """Values of the items with two or more of the usable `units`, which are the calls."""
    n_labels, scale = len(calls.scale.labels), _scale_of(calls)
    items, ratings = _rated(calls, units)
    rated, flips = items.usable, disagreement(ratings)
    of_call = calls.items("items").of_call
    reason = refuse(replace(units, usable=units.usable & rated[of_call]), statistic="value")
    if reason is not None:
        return dict.fromkeys(AGREEMENT_VALUES, reason)
    n_categories = max(2, n_labels + bool((calls.outcome == "abstain").any()))
    values = {
        "flip_rate": float(flips[rated].mean()),
        "krippendorff_alpha": krippendorff_alpha(ratings[rated], scale=scale),
        "gwet_ac1": gwet_ac1(ratings[rated], n_categories=n_categories),
    }
    features, statistics = agreement_statistics(
        ratings[rated], scale=scale, n_labels=n_labels, n_categories=n_categories
    )
    sample = Sample(units=items, features=features, items=np.unique(calls.item)[rated])
    without = "no variation: every replicate of every item is the same answer"
    return sample.readings(values, statistics, resampling, without=without)


def _scale_of(calls: PointTable) -> MeasurementScale:
    return "ordinal" if calls.scale.kind == "ordinal" else "nominal"


def _ratings(calls: PointTable, usable: Mask) -> Array:
    """Items × replicates as places among the labels, an abstention after them; NaN for what is unusable or missing."""
    abstains = usable & (calls.outcome == "abstain")
    places = np.where(abstains, float(len(calls.scale.labels)), calls.scale.places(calls.answer))
    items = calls.items("items")
    sizes = items.sizes
    order = np.argsort(items.of_call, kind="stable")
    column = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ratings: Array = np.full((len(sizes), int(sizes.max(initial=0))), np.nan)
    ratings[items.of_call[order], column] = places[order]
    return ratings


def agreement_statistics(
    ratings: Array, *, scale: MeasurementScale, n_labels: int, n_categories: int
) -> tuple[Array, Statistics]:
    """Return what to sum over items (each with two or more ratings), and the three values as functions of the sums."""
    width = n_labels + 1
    counts = np.stack([(ratings == category).sum(axis=1) for category in range(width)], axis=1).astype(float)
    shares = counts / counts.sum(axis=1, keepdims=True)
    pairs = counts / (counts.sum(axis=1, keepdims=True) - 1)
    # Alpha is a function of sums over items of these coincidences, so that resampling items needs no second pass.
    coincidences = (counts[:, :, None] * pairs[:, None, :]).reshape(len(ratings), -1)
    features = np.column_stack([np.ones(len(ratings)), disagreement(ratings), shares, counts, coincidences])

    def statistics(sums: Array) -> dict[str, Array]:
        n, flips, chance, totals, together = np.split(sums, [1, 2, 2 + width, 2 + 2 * width], axis=1)
        flip_rate = defined_ratio(flips, n)[:, 0]
        pi = chance / n
        expected = (pi * (1 - pi)).sum(axis=1) / (n_categories - 1)
        return {
            "flip_rate": flip_rate,
            "krippendorff_alpha": _alpha(totals, together.reshape(-1, width, width), scale),
            "gwet_ac1": defined_ratio(1 - flip_rate - expected, 1 - expected),
        }

    return features, statistics


def _alpha(totals: Array, together: Array, scale: MeasurementScale) -> Array:
    place = np.cumsum(totals, axis=1) - totals / 2
    if scale == "ordinal":
        distances = np.square(place[:, :, None] - place[:, None, :])
    else:
        distances = np.broadcast_to(1 - np.eye(totals.shape[1]), together.shape)
    observed = (together * distances).sum(axis=(1, 2))
    expected = np.einsum("bi,bij,bj->b", totals, distances, totals)
    return 1 - defined_ratio((totals.sum(axis=1) - 1) * observed, expected)
