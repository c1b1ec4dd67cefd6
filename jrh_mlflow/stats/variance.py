"""Variance components: how much of the variation of a judge's answers is task, wording, order and repeat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import special

from jrh_mlflow.stats import Array, Codes, Interval
from jrh_mlflow.stats.proportions import wilson_share

PARTS = ("task", "wording", "order", "repeat")
ASKING_AGAIN = "asking_again"
MORE_TASKS = 1 - 1 / np.sqrt(2)
"""How much twice as many tasks narrow the standard error of a mean."""
FEWEST_TASKS = 3
_NOTHING = 1e-12
_BEYOND = {"task": 0.05, ASKING_AGAIN: 0.0}
"""How far beyond 0 and 1 the scale of an interval reaches, else 0.15: what is near 0 is often estimated below it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """One share of the variance."""

    value: float
    interval: Interval
    below_zero: bool
    """Whether its estimate was below 0, and was set to 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _ToldParts:
    """What some calls can tell apart."""

    orders: bool
    repeats: bool
    wordings: bool
    strata: int


def variance_components(
    values: Array, *, task: Codes, item: Codes, order: Codes, stratum: Codes
) -> dict[str, Component]:
    """Shares of the variance of one call, by the law of total variance, with 95 % intervals by task.

    Nested analysis of variance of the values less the mean of their stratum (a step, a test). With m the means of
    items, each order weighing the same, and d the difference of the two orders of an item:

    - repeat: R = variance of the calls that show the same
    - order: mean of d² / 4, less e R; the two orders are all there are, so that they leave no error in m
    - wording: w = variance of m within tasks, with items - tasks - strata + 1 degrees of freedom, less e R
    - task: T = variance of the tasks' means of m, less w × the mean of 1 / items of a task

    e R is the noise in m: e = mean over items of the mean of 1 / replicates, over the number of orders. What is
    estimated below 0 is set to 0. `asking_again` is by how much the standard error of the mean over all items shrinks
    when everything is asked twice as often: `1 - sqrt(1 - r / 2)`, r the share of repeats in its square; at most 0.29,
    which is what twice as many tasks give. Intervals are those of the jackknife over tasks with t, on the logit scale
    of a share and the log scale of r; where all tasks agree, Wilson's over as many tasks as vary.

    Returns:
        The parts that the design tells apart. Without replicates that is task alone; with one item per task wording is
        in it. Empty with fewer than three tasks, and where nothing varies.

    Reference:
        Searle, Casella & McCulloch (1992), Variance Components, chapters 3 and 5; Arvesen (1969), Ann. Math. Stat.
        40:2076-2100, the jackknife of variance components.

    Example:
        >>> right, task = np.array([1.0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1]), np.repeat([0, 1, 2], 4)
        >>> item, none = np.repeat(np.arange(6), 2), np.zeros(12, dtype=int)
        >>> parts = variance_components(right, task=task, item=item, order=none, stratum=none)
        >>> {name: part.value for name, part in parts.items()}
        {'task': 1.0, 'wording': 0.0, 'repeat': 0.0, 'asking_again': 0.0}
    """
    sums, design = _task_sums(values, task, item, order, stratum)
    if len(sums) < FEWEST_TASKS or not (design.repeats or design.wordings):
        return {}
    whole = sums.sum(axis=0)
    parts = _parts(whole[None], design)
    least = {name: np.maximum(part, 0.0) for name, part in parts.items()}
    shares, free = _shares(whole[None], least), _shares(whole[None], parts)
    left_out = _shares(whole - sums, _parts(whole - sums, design))
    found, varied = {}, _varied(sums)
    for name, (share,) in shares.items():
        if not np.isfinite(share):
            continue
        ends = _jackknife(free[name][0], left_out[name], beyond=_BEYOND.get(name, 0.15))
        low, high = ends if ends and ends[1] - ends[0] > _NOTHING else wilson_share(float(share), varied)
        value, low, high = (_gain(part) if name == ASKING_AGAIN else part for part in (share, low, high))
        below = bool(name in parts and parts[name][0] < -_NOTHING)
        found[name] = Component(
            value=float(value), interval=(float(min(low, value)), float(max(high, value))), below_zero=below
        )
    return {name: part for name, part in found.items() if name != "rest"}


def _gain(ratio: float) -> float:
    return float(1 - np.sqrt(1 - ratio / 2))


def _jackknife(share: float, left_out: Array, *, beyond: float) -> Interval | None:
    """Interval of a share from those without a task each, None where all tasks agree; of a ratio on the log scale."""
    k = len(left_out)
    if not np.isfinite(left_out).all():
        # One task alone varies, or was repeated: nothing says what the others would be like.
        return 0.0, 1.0
    to, back = (special.logit, special.expit) if beyond else (np.log, np.exp)
    inside = np.clip((np.append(left_out, share) + beyond) / (1 + 2 * beyond), 1e-6, 1 - 1e-6 if beyond else np.inf)
    *points, centre = to(inside)
    error = np.sqrt((k - 1) / k * np.square(points - np.mean(points)).sum())
    if error < _NOTHING or not np.isfinite(error):
        return None
    reach = special.stdtrit(k - 1, 0.975) * error
    low, high = np.clip(back(centre + np.array([-reach, reach])) * (1 + 2 * beyond) - beyond, 0.0, 1.0)
    return float(low), float(high)


def _varied(sums: Array) -> float:
    """As how many tasks, each varying as much as the others, these vary: squared sum over sum of squares."""
    variation = sums[:, 2] + sums[:, [6, 7, 9]].sum(axis=1) / sums[:, 4]
    return float(variation.sum() ** 2 / max(np.square(variation).sum(), _NOTHING))


def _task_sums(values: Array, task: Codes, item: Codes, order: Codes, stratum: Codes) -> tuple[Array, _ToldParts]:
    """Return what the components are made of, summed by task: of items with all orders, as one would have its pull."""
    n_orders = len(np.unique(order))
    code = 2 * item + (order != order.min())
    # What `np.unique` returns, without the sorting, which takes five times the memory of the codes.
    counts = np.bincount(code)
    shown, of_call = np.flatnonzero(counts), (np.cumsum(counts > 0) - 1)[code]
    calls, first = counts[shown], np.empty(len(shown), dtype=np.intp)
    first[of_call[::-1]] = np.arange(len(code))[::-1]
    mean = np.bincount(of_call, weights=values) / calls
    squares = np.bincount(of_call, weights=np.square(values - mean[of_call]))
    _, first_shown, own = np.unique(shown // 2, return_index=True, return_inverse=True)
    first_call, sign = first[first_shown], np.where(shown % 2, 1.0, -1.0)
    weights = (mean / n_orders, sign * mean / 2, 1 / calls / n_orders**2, squares, calls - 1)
    whole = np.bincount(own) == n_orders
    level, apart, *rest = (np.bincount(own, weights=weight)[whole] for weight in weights)
    strata, code, sizes = np.unique(stratum[first_call][whole], return_inverse=True, return_counts=True)
    level = level - (np.bincount(code, weights=level) / sizes)[code]
    tasks, code, n = np.unique(task[first_call][whole], return_inverse=True, return_counts=True)
    by_task = np.bincount(code, weights=level) / n
    of_items = (np.square(level - by_task[code]), np.square(apart) * (n_orders > 1), *rest)
    per_task = (np.ones(len(tasks)), by_task, by_task**2, 1 / n, n, n**2)
    sums = np.column_stack([*per_task, *(np.bincount(code, weights=part, minlength=len(tasks)) for part in of_items)])
    free = len(level) - len(tasks) - len(strata) + 1
    repeats = bool(sums[:, -1].any())
    return sums, _ToldParts(orders=n_orders > 1, repeats=repeats, wordings=free > 0, strata=len(strata))


def _parts(sums: Array, design: _ToldParts) -> dict[str, Array]:
    """Return the components of each row of sums, below 0 where they are estimated so."""
    k, level, square, inverse, n, _, spread, apart, noise, within, again = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):
        repeat = within / again if design.repeats else np.zeros_like(n)
        noise = repeat * noise / n
        free = n - k - design.strata + 1
        inside = np.where(free > 0, spread / free, np.nan) if design.wordings else noise
        task = (square - level**2 / k) / (k - 1) - inside * inverse / k
        if not design.repeats:
            # The others are not told apart, but their sum is.
            return {"task": task, "rest": inside + apart / n}
        wording = {"wording": inside - noise} if design.wordings else {}
        order = {"order": apart / n - noise} if design.orders else {}
        return {"task": task, **wording, **order, "repeat": repeat}


def _shares(sums: Array, parts: Mapping[str, Array]) -> dict[str, Array]:
    """Return the components over their sum, and the share of repeats in the error of a mean; NaN where it is 0."""
    n, n_square, noise = sums[:, 4], sums[:, 5], sums[:, 8]
    total = sum(parts.values(), np.zeros_like(n))
    sums_of = {name: (part, total) for name, part in parts.items()}
    if "repeat" in parts:
        repeats = parts["repeat"] * noise
        sums_of[ASKING_AGAIN] = repeats, repeats + parts["task"] * n_square + parts.get("wording", 0.0) * n
    with np.errstate(divide="ignore", invalid="ignore"):
        return {name: np.where(total > _NOTHING, part / total, np.nan) for name, (part, total) in sums_of.items()}
