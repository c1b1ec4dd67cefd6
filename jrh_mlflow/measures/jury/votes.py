"""Votes: what several judges answered to the same calls, side by side.

A unit is one call that all judges share: item × presentation order × replicate. Its answers are labels for pointwise
items and contents (`u`, `v`, `tie`) for pairs, so that a slot never votes. A judge that was not asked, or whose call
gave no usable answer, has no vote: a missing vote is never counted as an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from jrh_mlflow.errors import CallsError, RecipeError, suggest
from jrh_mlflow.measures.records import is_pointwise, normalise
from jrh_mlflow.schema.calls import USABLE
from jrh_mlflow.schema.items import BASELINE
from jrh_mlflow.scoring.answers import Scale, plain, scale_of
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED, Mask, Units

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
Texts = npt.NDArray[np.object_]

MISSING = -1
CONTENTS = ("u", "v", "tie")
NOT_ASKED = "not asked"
_KEY = ["suite_item", "order", "replicate"]
_MEANING = ["task", "condition", "delta", "better", "expected"]
_WHOLE = ("judges", "sources", "scale", "pointwise", "max_excluded")
"""Fields that are not one value per unit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VoteTable:
    """Units in rows, judges in columns."""

    judges: tuple[str, ...]
    item: Texts
    order: Texts
    replicate: npt.NDArray[np.int64]
    condition: Texts
    delta: Array
    source: Codes
    """The unperturbed item or task: the cluster of every interval, and what is split into halves."""
    expected: Codes
    """Code of the right answer: the expected label, or of a pair the better content. -1 where there is none."""
    answer: Codes
    """Units × judges: code of the answer among the scale's labels; `abstain` is the code after them, -1 no vote."""
    outcome: Texts
    """Units × judges: how the call ended, or `not asked`."""
    confidence: Array
    """Units × judges; NaN where the judge gave none."""
    cost_usd: Array
    """Units × judges; NaN is unknown."""
    sources: tuple[str, ...]
    """Names of the sources, by code."""
    scale: Scale
    """The labels, or the contents of pairs."""
    pointwise: bool
    max_excluded: float

    @property
    def abstain(self) -> int:
        """Code of an abstention, and of a panel without a decision."""
        return len(self.scale.labels)

    @property
    def judged(self) -> Mask:
        """Units that count for accuracy: with a right answer, and the baseline apart where there are tests.

        The same calls as `all/accuracy` of a reliability report.
        """
        known = self.expected >= 0
        tests = known & (self.condition != BASELINE)
        return np.asarray(tests if tests.any() else known)

    @property
    def n_answers(self) -> int:
        """Different answers that were given or are right, at least two."""
        seen = np.unique(np.concatenate([self.answer.ravel(), self.expected]))
        return max(2, int(((seen >= 0) & (seen < self.abstain)).sum()))

    def where(self, mask: Mask) -> VoteTable:
        """Return the units of `mask`."""
        arrays: dict[str, Any] = {
            field.name: getattr(self, field.name)[mask] for field in fields(self) if field.name not in _WHOLE
        }
        return replace(self, **arrays)

    def columns(self, panel: Sequence[str]) -> Codes:
        """Return the columns of some judges.

        Raises:
            RecipeError: when one is none of the judges, or is named twice.
        """
        for name in panel:
            if name not in self.judges:
                raise RecipeError(f"No judge {name!r}.{suggest(name, self.judges)} There are {', '.join(self.judges)}.")
        if not panel or len(set(panel)) < len(panel):
            raise RecipeError(f"A panel has one or more judges, each once, but got {list(panel)}.")
        return np.array([self.judges.index(name) for name in panel], dtype=np.intp)

    def units(self, what: str, *, usable: Mask, left_out: Mapping[str, int], limit: float | None = None) -> Units:
        """Return these units as a denominator."""
        return Units(
            what=what,
            unit="call",
            usable=usable,
            clusters=self.source,
            n_codes=len(self.sources),
            left_out=dict(left_out),
            max_excluded=self.max_excluded if limit is None else limit,
        )

    def usd_per_1k(self, panel: Sequence[str]) -> float | None:
        """Dollars for 1,000 units judged by every judge of the panel; None when a price is unknown.

        The mean over the calls that each judge was asked, unusable ones included.
        """
        total = 0.0
        for column in self.columns(panel):
            costs = self.cost_usd[self.outcome[:, column] != NOT_ASKED, column]
            if not len(costs) or np.isnan(costs).any():
                return None
            total += 1000 * float(costs.mean())
        return total


def votes(
    calls: Mapping[str, pd.DataFrame], *, labels: Sequence[str] | None = None, max_excluded: float = MAX_EXCLUDED
) -> VoteTable:
    """Lay the call records of several judges on one suite side by side.

    A judge that was stopped early has missing votes; where judges were asked different numbers of replicates of an
    item, the fewest count.

    Args:
        calls: Judge to call records.
        labels: What a pointwise judge may answer, low to high; inferred when None.
        max_excluded: Withhold a number when more than this share of its units gave no usable answer.

    Raises:
        CallsError: when records break a rule, or two judges were asked different things under one name.
    """
    if not calls:
        raise ValueError("Votes need at least one judge, but got none.")
    frames = {name: normalise(frame) for name, frame in calls.items()}
    every = pd.concat(frames.values(), ignore_index=True)
    pointwise = is_pointwise(every)
    _check_meaning(every)
    frames = _common_replicates(frames)
    units = pd.concat([frame[_KEY + _MEANING] for frame in frames.values()], ignore_index=True)
    units = units.drop_duplicates(_KEY).sort_values(_KEY, kind="stable", ignore_index=True)
    scale = scale_of([*every["answer"], *every["expected"]], labels) if pointwise else _pair_scale()
    index = pd.MultiIndex.from_frame(units[_KEY])
    rows = {name: frame.set_index(_KEY).reindex(index) for name, frame in frames.items()}
    sources = pd.factorize(units["task"], sort=True)
    right = units["expected"].map(plain) if pointwise else units["better"]
    return VoteTable(
        judges=tuple(calls),
        item=units["suite_item"].to_numpy(object),
        order=units["order"].to_numpy(object),
        replicate=units["replicate"].to_numpy(np.int64),
        condition=units["condition"].to_numpy(object),
        delta=units["delta"].to_numpy(float),
        source=sources[0],
        expected=_codes(right.to_numpy(object), scale),
        answer=np.column_stack([_answers(row, scale) for row in rows.values()]),
        outcome=np.column_stack([row["outcome"].fillna(NOT_ASKED).to_numpy(object) for row in rows.values()]),
        confidence=np.column_stack([_numbers(row, "confidence") for row in rows.values()]),
        cost_usd=np.column_stack([_numbers(row, "cost_usd") for row in rows.values()]),
        sources=tuple(sources[1]),
        scale=scale,
        pointwise=pointwise,
        max_excluded=max_excluded,
    )


def halves(table: VoteTable, *, seed: int = 0) -> tuple[Mask, Mask]:
    """Split the units in two by source, at random: no source has units in both halves.

    Only sources with a unit that counts for accuracy are dealt out evenly; the others go to the first half.

    Raises:
        CallsError: with fewer than two such sources.
    """
    dealt = np.unique(table.source[table.judged])
    if len(dealt) < 2:
        raise CallsError(
            f"Choosing on one half of the sources and reporting on the other needs two or more sources with an "
            f"expected answer, but there are {len(dealt)}."
        )
    drawn = np.random.default_rng(seed).permutation(dealt)
    second = np.isin(table.source, drawn[: len(drawn) // 2])
    return ~second, second


def _pair_scale() -> Scale:
    return Scale(labels=CONTENTS, ordered=False)


def _check_meaning(every: pd.DataFrame) -> None:
    counts = every.groupby("suite_item", sort=False)[_MEANING].nunique(dropna=False)
    changing = counts.gt(1).any(axis=1)
    if changing.any():
        raise CallsError(
            f"The judges disagree on the task, condition or expected answer of {int(changing.sum())} item(s), "
            f"{', '.join(counts.index[changing][:5])}: not one suite."
        )


def _common_replicates(frames: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Cut every item to the fewest replicates that a judge was asked of it; a judge not asked at all does not count."""
    asked = pd.concat([frame.groupby("suite_item")["replicate"].max() for frame in frames.values()])
    fewest = asked.groupby(level=0).min()
    return {name: frame[frame["replicate"] <= frame["suite_item"].map(fewest)] for name, frame in frames.items()}


def _codes(answers: Texts, scale: Scale) -> Codes:
    code = {label: index for index, label in enumerate(scale.labels)}
    return np.array([code.get(answer, MISSING) for answer in answers], dtype=np.intp)


def _answers(row: pd.DataFrame, scale: Scale) -> Codes:
    """Read one judge's calls as codes; the slot of a pair is mapped back to the content that stood in it."""
    outcome, answer = row["outcome"].to_numpy(object), row["answer"].fillna("").to_numpy(object)
    order = row.index.get_level_values("order").to_numpy(object)
    # Order uv puts u in slot 1; order vu puts it in slot 2. Pointwise answers have no slot.
    content = np.where((answer == "1") == (order == "uv"), "u", "v")
    text = np.where(order == "", [plain(one) for one in answer], content)
    text = np.where(outcome == "tie", "tie", np.where(outcome == "verdict", text, ""))
    codes = _codes(text.astype(object), scale)
    codes[outcome == "abstain"] = len(scale.labels)
    codes[~np.isin(outcome, USABLE)] = MISSING
    return codes


def _numbers(row: pd.DataFrame, column: str) -> Array:
    if column not in row:
        return np.full(len(row), np.nan)
    return pd.to_numeric(row[column], errors="coerce").to_numpy(float)
