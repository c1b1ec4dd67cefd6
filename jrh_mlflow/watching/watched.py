"""The panel of a watch and what its asks say: per axis the evidence of a change by look, its size, and since when."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.items import DELTA_0_SAME, NATURAL_TIE, SINGLE_PADDED, USABLE, WITH_BETTER, Item
from jrh_mlflow.stats import Array, Codes
from jrh_mlflow.stats.drift import PanelTests, WatchedAxis, alarm_threshold, change_interval, detectable_change
from jrh_mlflow.suites.suite import Suite

if TYPE_CHECKING:
    import pandas as pd

N_REFERENCE = 6
"""Asks of each call at the start, which the judge's own noise is learnt from."""
START = 0
"""Look of those asks."""
FALSE_PREFERENCE, SLOT_LEAN, ABILITY = "raw_false_preference", "slot_lean", "ability"
ACCURACY, LEVEL, ANY = "accuracy", "answer_level", "any_answer"
_SLOTS = ("1", "2")
_TIE, _ABSTAINED, _UNREAD = "tie", "abstain", "unparsed"
_NO_LEVEL = (_TIE, _ABSTAINED, _UNREAD)
"""Of a single response: what is no place on its scale."""
_PAIR_CODES = (*_SLOTS, _TIE, _UNREAD)
_MOST_LEVELS = 10
"""A scale of more steps is read in so many."""
_UNITS = {SLOT_LEAN: (2.0, -1.0)}
"""Axes that do not run from 0 to 1: width of their range, and its lower end."""
CallName = tuple[str, str]
"""Item and presentation order."""


def draw_panel(suite: Suite, calls: pd.DataFrame, *, n_calls: int, seed: int = 0) -> Suite:
    """Draw a panel from a suite: of pairs half on equally good ones, half where one is better; each in both orders.

    Items that the run has no answer to are left out. Tasks and conditions are spread as evenly as they can be.

    Args:
        suite: Of the run.
        calls: Of the run: they tell which items can be answered, and nothing else.
        n_calls: Of the panel.
        seed: Of the draw.

    Raises:
        RecipeError: when there is nothing to draw from.
    """
    lost = set(calls.loc[~calls["outcome"].isin(USABLE), "suite_item"])
    asked = set(calls["suite_item"]) - lost
    items = [item for item in suite.items if item.id in asked]
    rng = np.random.default_rng([seed, n_calls])
    equal = [item for item in items if item.condition in (DELTA_0_SAME, NATURAL_TIE)]
    better = [item for item in items if item.kind == "pair" and item.condition in WITH_BETTER and item.better]
    # A padded response is one only beside its plain twin, which may not be drawn.
    single = [item for item in items if item.kind != "pair" and item.condition != SINGLE_PADDED]
    if n_calls < 4 or not (equal or better or single):
        raise RecipeError(
            f"A panel needs 4 calls or more on pairs that are equal or have a better side, or on single responses, "
            f"but got {n_calls} of suite {suite.name!r}."
        )
    if single:
        chosen = _spread(single, n_calls, rng)
    else:
        n_equal = min(len(equal), max(n_calls // 4, n_calls // 2 - len(better)))
        chosen = _spread(equal, n_equal, rng) + _spread(better, n_calls // 2 - n_equal, rng)
    origin = {"panel_of": suite.name, "panel_of_sha256": suite.sha256, "seed": seed}
    return Suite(name=f"{suite.name}-panel", items=[replace(item, replicates=1) for item in chosen], origin=origin)


def _spread(items: Sequence[Item], n: int, rng: np.random.Generator) -> list[Item]:
    """Draw `n` items, by turns from every condition and step, of each the one whose task was drawn least so far."""
    groups: dict[tuple[str, float], list[Item]] = {}
    for place in rng.permutation(len(items)):
        item = items[int(place)]
        groups.setdefault((item.condition, item.delta or 0.0), []).append(item)
    chosen: list[Item] = []
    tasks: dict[str, int] = {}
    while len(chosen) < min(n, len(items)):
        for group in [groups[key] for key in sorted(groups) if groups[key]][: n - len(chosen)]:
            item = min(group, key=lambda own: tasks.get(own.task, 0))
            group.remove(item)
            tasks[item.task] = tasks.get(item.task, 0) + 1
            chosen.append(item)
    return chosen


@dataclass(frozen=True, kw_only=True)
class AxisWatch:
    """One axis of a watched judge, over all looks so far."""

    axis: str
    log_e: tuple[float, ...]
    """Logarithm of the e-value after each look: the evidence of a change."""
    threshold: float
    """Where it alarms."""
    alarm: int | None
    """Look of the alarm; None so far."""
    began: int | None
    """The look at which the change most likely began; None where nothing has changed."""
    n_calls: int
    """Of one look."""
    means: tuple[float | None, ...] = ()
    """Of the start and of each look, in the unit of the axis; empty where it has none."""
    before: float | None = None
    """Mean of all asks before `began`, of all before the first look where nothing changed."""
    after: float | None = None
    low: float | None = None
    high: float | None = None
    """Of the change, valid at all looks together."""
    detectable: float | None = None
    """The change from the first look on that would have been seen by now, with 80 %."""

    @property
    def change(self) -> float | None:
        """From before to after."""
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def e_value(self) -> float:
        """After the newest look; 1 before the first."""
        return math.exp(min(self.log_e[-1], 700.0)) if self.log_e else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {**vars(self), "change": self.change, "log_e": list(self.log_e), "means": list(self.means)}


@dataclass(frozen=True, kw_only=True)
class ChangedCall:
    """A call of the panel whose commonest answer is another since the change."""

    item: str
    order: str
    condition: str
    before: str
    after: str
    n_before: int
    n_after: int


class PanelAsks:
    """All asks of a panel, as codes: looks (with the replicates of the start) x calls."""

    def __init__(self, panel: Suite, asks: pd.DataFrame) -> None:
        self.items = {item.id: item for item in panel.items}
        self.calls: list[CallName] = [(item.id, order) for item in panel.items for order in item.orders]
        place = {call: at for at, call in enumerate(self.calls)}
        self.n_looks = int(asks["look"].max()) if len(asks) else 0
        rows = asks[["look", "replicate", "suite_item", "order", "outcome", "answer"]].itertuples(index=False)
        self.texts: dict[int, dict[int, dict[int, str]]] = {}
        for look, replicate, item, order, outcome, answer in rows:
            text = _answer_text(outcome, answer, of_pair=bool(order))
            if text is not None and (at := place.get((item, order or ""))) is not None:
                self.texts.setdefault(int(look), {}).setdefault(int(replicate), {})[at] = text

    @cached_property
    def codes(self) -> list[str]:
        """Every answer that an axis can tell from the others."""
        if next(iter(self.items.values())).kind == "pair":
            return list(_PAIR_CODES)
        seen = {text for looks in self.texts.values() for asks in looks.values() for text in asks.values()}
        listed = dict.fromkeys(answer for item in self.items.values() for answer in item.answers or ())
        return [*listed, *sorted(seen - set(listed), key=_sort_key)]

    @cached_property
    def every(self) -> list[tuple[int, Codes]]:
        """All asks in their order, each with its look; one row of codes, -1 where there is no answer."""
        numbers = {text: number for number, text in enumerate(self.codes)}
        asks = []
        for look in range(self.n_looks + 1):
            # A look in which nothing was answered is a look all the same.
            for _, texts in sorted(self.texts.get(look, {0: {}}).items()):
                answers = np.full((1, len(self.calls)), -1, dtype=np.intp)
                answers[0, list(texts)] = [numbers[text] for text in texts.values()]
                asks.append((look, answers))
        return asks

    def axes(self, prefix: str = "") -> list[WatchedAxis]:
        """Return what is tested on this panel; names begin with the prefix."""
        items = [self.items[item] for item, _ in self.calls]
        own = self._pair_axes(items) if items[0].kind == "pair" else self._single_axes(items)
        axes = [
            WatchedAxis(name=f"{prefix}{name}", items=places, levels=np.array([levels[at] for at in places]))
            for name, levels in own.items()
            if len(places := np.array(sorted(levels), dtype=np.intp))
        ]
        everything = np.arange(len(self.calls))
        return [*axes, WatchedAxis(name=f"{prefix}{ANY}", items=everything, levels=None)]

    def _pair_axes(self, items: Sequence[Item]) -> dict[str, dict[int, list[int]]]:
        axes: dict[str, dict[int, list[int]]] = {FALSE_PREFERENCE: {}, SLOT_LEAN: {}, ABILITY: {}}
        for at, (item, (_, order)) in enumerate(zip(items, self.calls, strict=True)):
            if item.better:
                first_is_better = (item.better == "u") == (order == "uv")
                axes[ABILITY][at] = [2, 0, 1, -1] if first_is_better else [0, 2, 1, -1]
            else:
                axes[FALSE_PREFERENCE][at] = [1, 1, 0, -1]
                axes[SLOT_LEAN][at] = [2, 0, 1, -1]
        return axes

    def _single_axes(self, items: Sequence[Item]) -> dict[str, dict[int, list[int]]]:
        answers = [code for code in self.codes if code not in _NO_LEVEL]
        scale = max(len(answers) - 1, 1)
        steps = min(scale, _MOST_LEVELS)
        # Of labels without an order only two can be read as a level.
        are_numbers = all(math.isfinite(_sort_key(answer)[0]) for answer in answers)
        ordered = len(answers) <= 2 or are_numbers or all(item.ordinal for item in items)
        level = [-1 if code in _NO_LEVEL else answers.index(code) * steps // scale for code in self.codes]
        right = {at: item.expected for at, item in enumerate(items) if item.expected is not None}
        return {
            ACCURACY: {
                at: [-1 if code in _NO_LEVEL else int(code == expected) for code in self.codes]
                for at, expected in right.items()
            },
            LEVEL: dict.fromkeys(range(len(items)), level) if ordered else {},
        }

    def changed_calls(self, began: int) -> list[ChangedCall]:
        """List the calls whose commonest answer since a look is not the one before, the surest first."""
        before, after = np.zeros((2, len(self.calls), len(self.codes)))
        for look, answers in self.every:
            places = np.nonzero(answers[0] >= 0)[0]
            (after if look >= began else before)[places, answers[0, places]] += 1
        apart = np.abs(_shares(before) - _shares(after)).sum(axis=1)
        moved = (before.argmax(axis=1) != after.argmax(axis=1)) & before.any(axis=1) & after.any(axis=1)
        return [
            ChangedCall(
                item=self.calls[at][0],
                order=self.calls[at][1],
                condition=self.items[self.calls[at][0]].condition,
                before=self.codes[int(before[at].argmax())],
                after=self.codes[int(after[at].argmax())],
                n_before=int(before[at].sum()),
                n_after=int(after[at].sum()),
            )
            for at in sorted(np.nonzero(moved)[0], key=lambda at: -apart[at])
        ]


def _shares(counts: Array) -> Array:
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


def _answer_text(outcome: str, answer: object, *, of_pair: bool) -> str | None:
    """Return what tells an answer from others; None for an error, which is no answer of the judge."""
    if outcome == "error":
        return None
    if outcome == "verdict":
        return str(answer)
    # An abstention prefers no side, as a tie does.
    return _TIE if of_pair and outcome in USABLE else outcome


def _sort_key(text: str) -> tuple[float, str]:
    try:
        return float(text), text
    except ValueError:
        return math.inf, text


def read_watch(panels: Mapping[str, PanelAsks], *, seed: int, alpha: float = 0.05) -> list[AxisWatch]:
    """Read all looks of one panel or several, which share the error over their axes.

    Args:
        panels: What the names of its axes begin with, to the asks of a panel.
        seed: Of the draws that make p uniform: fixed before the first look, one draw for each look and axis.
        alpha: Chance of a false alarm, over all looks and axes together.
    """
    axes = {prefix: panel.axes(prefix) for prefix, panel in panels.items()}
    threshold = alarm_threshold(sum(map(len, axes.values())), alpha)
    return [
        row
        for number, (prefix, panel) in enumerate(panels.items())
        for row in _read_panel(panel, axes[prefix], threshold=threshold, seeds=(seed, number))
    ]


def _read_panel(
    panel: PanelAsks, axes: Sequence[WatchedAxis], *, threshold: float, seeds: tuple[int, int]
) -> list[AxisWatch]:
    tests = PanelTests(axes, len(panel.codes), n_items=len(panel.calls), n_reference=N_REFERENCE)
    wealth: list[Array] = []
    alarms: dict[str, tuple[int, int]] = {}
    for look, answers in panel.every:
        if look == START:
            tests.refer(answers)
            continue
        draws = np.random.default_rng([*seeds, look]).random((len(axes), 1))
        wealth.append(tests.look(answers, draws)[:, 0])
        for axis, own in zip(axes, wealth[-1], strict=True):
            if own >= threshold and axis.name not in alarms:
                alarms[axis.name] = look, int(tests.bets[axis.name].began()[0])
    return [
        _axis_watch(panel, axis, [float(own[at]) for own in wealth], threshold, alarms.get(axis.name))
        for at, axis in enumerate(axes)
    ]


def _axis_watch(
    panel: PanelAsks, axis: WatchedAxis, log_e: list[float], threshold: float, alarm: tuple[int, int] | None
) -> AxisWatch:
    look, began = alarm or (None, None)
    usual = AxisWatch(
        axis=axis.name, log_e=tuple(log_e), threshold=threshold, alarm=look, began=began, n_calls=len(axis.items)
    )
    if axis.levels is None:
        return usual
    looks = np.array([look for look, _ in panel.every])
    scores = _scores(axis, np.concatenate([answers for _, answers in panel.every]))
    start, (before, after) = began or 1, _sums(scores, looks, began or 1)
    by_look = [scores[looks == look] for look in range(panel.n_looks + 1)]
    means = tuple(float(np.nanmean(own)) if not np.isnan(own).all() else None for own in by_look)
    known: dict[str, Any] = {"means": means, "before": before[0] / before[1] if before[1] else None}
    if before[1] and after[1]:
        low, high = change_interval(before, after, start=start)
        known |= {"after": after[0] / after[1], "low": low, "high": high}
    known["detectable"] = detectable_change(
        len(axis.items), _noise(scores[looks == START]), len(log_e), n_reference=N_REFERENCE, threshold=threshold
    )
    return _in_unit(replace(usual, **known))


def _in_unit(axis: AxisWatch) -> AxisWatch:
    """Return an axis whose scores run from 0 to 1 in its own unit."""
    width, low = _UNITS.get(axis.axis, (1.0, 0.0))

    def stretched(value: float | None, low: float = 0.0) -> float | None:
        return None if value is None else low + width * value

    levels: dict[str, Any] = {name: stretched(getattr(axis, name), low) for name in ("before", "after")}
    sizes: dict[str, Any] = {name: stretched(getattr(axis, name)) for name in ("low", "high", "detectable")}
    return replace(axis, means=tuple(stretched(mean, low) for mean in axis.means), **levels, **sizes)


def _scores(axis: WatchedAxis, answers: Codes) -> Array:
    """Return asks x calls of the axis, from 0 to 1; NaN where there is no score."""
    assert axis.levels is not None
    own = answers[:, axis.items]
    levels = np.take_along_axis(axis.levels.T, np.maximum(own, 0), axis=0)
    return np.where((own < 0) | (levels < 0), np.nan, levels / axis.width)


def _sums(scores: Array, looks: Codes, start: int) -> list[tuple[float, int, float]]:
    """Sum the scores before a look and since, with their squared distances from what their call scored before."""
    first, sums = np.full(scores.shape[1], 0.5), []
    for rows in (scores[looks < start], scores[looks >= start]):
        here, known = ~np.isnan(rows), np.nan_to_num(rows)
        # A call is predicted by its asks on the same side of the change, the first of them by those before it.
        total, n = (np.cumsum(own, axis=0) - own for own in (known, here.astype(float)))
        spread = np.where(here, (known - (first + total) / (1 + n)) ** 2, 0.0)
        sums.append((float(known.sum()), int(here.sum()), float(spread.sum())))
        first = (first + known.sum(axis=0)) / (1 + here.sum(axis=0))
    return sums


def _noise(scores: Array) -> float:
    """Variance of a score around the mean of its call, from the asks of the start."""
    known = (~np.isnan(scores)).sum(axis=0)
    usable = scores[:, known > 1]
    if not usable.size:
        return 0.25
    return float(np.nanmean(np.nanvar(usable, axis=0, ddof=1)))
