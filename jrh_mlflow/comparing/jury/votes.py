"""Votes: what several judges answered to the same calls, side by side, and how alike they vote.

A unit is one call that all judges share: item × presentation order × replicate. Its answers are labels for pointwise
items and contents (`u`, `v`, `tie`) for pairs, so that a slot never votes. A judge that was not asked, or whose call
gave no usable answer, has no vote: a missing vote is never counted as an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd

from jrh_mlflow.errors import CallsError, RecipeError, suggest
from jrh_mlflow.measures import records
from jrh_mlflow.schema.estimates import NotEstimable, Reading
from jrh_mlflow.schema.items import BASELINE
from jrh_mlflow.scoring import ledger
from jrh_mlflow.scoring.pointwise import Scale, plain_label, right_answers, scale_of, told_labels
from jrh_mlflow.stats import Array, Codes, Mask, Texts
from jrh_mlflow.stats.agreement import gwet_ac1

MISSING = -1
CONTENTS = ("u", "v", "tie")
NOT_ASKED = "not asked"
_FEATURES = 4
"""Per pair of judges: units with both votes, errors of one, of the other, of both."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VoteTable(ledger.ParallelArrays):
    """Units in rows, judges in columns."""

    judges: tuple[str, ...]
    item: Texts
    order: Texts
    replicate: npt.NDArray[np.int64]
    condition: Texts
    delta: Array
    presentation: Codes
    """Code of what was shown: units that share one are replicates."""
    source: Codes
    """The unperturbed item or task: the cluster of every interval, and what is split into halves."""
    expected: Codes
    """Code of the right answer: the expected label, or of a pair the better content. -1 where there is none."""
    label: Codes
    """The same whatever the source of the label, which no vote is right or wrong by."""
    label_source: Texts
    rubric: Texts
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

    def units(
        self, what: str, *, usable: Mask, left_out: Mapping[str, int], limit: float | None = None
    ) -> ledger.Units:
        """Return these units as a denominator."""
        return ledger.Units(
            what=what,
            unit="call",
            usable=usable,
            clusters=self.source,
            n_codes=len(self.sources),
            left_out=dict(left_out),
            max_excluded=self.max_excluded if limit is None else limit,
            presentations=self.presentation,
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
    calls: Mapping[str, pd.DataFrame], *, labels: Sequence[str] | None = None, max_excluded: float = ledger.MAX_EXCLUDED
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
    frames = {name: records.normalise(frame) for name, frame in calls.items()}
    every = pd.concat(frames.values(), ignore_index=True)
    pointwise = records.is_pointwise(every)
    if records.has_steps(every):
        raise CallsError("A jury is scored on units with a known right answer, and a pointwise datasheet has none.")
    _check_meaning(every)
    frames = _common_replicates(frames)
    units = pd.concat([frame[records.CALL_KEY + records.CALL_MEANING] for frame in frames.values()], ignore_index=True)
    # The union: a judge that was stopped early must not shorten the others.
    units = units.drop_duplicates(records.CALL_KEY).sort_values(records.CALL_KEY, kind="stable", ignore_index=True)
    pairs = Scale(labels=CONTENTS, ordered=False)
    scale = scale_of([*every["answer"], *every["expected"]], told_labels(every, labels)) if pointwise else pairs
    index = pd.MultiIndex.from_frame(units[records.CALL_KEY])
    # Costs and confidence stay NaN: unknown, not 0.
    unasked = {"outcome": NOT_ASKED, "answer": ""}
    rows = [frame.set_index(records.CALL_KEY).reindex(index).fillna(unasked).reset_index() for frame in frames.values()]
    sources = pd.factorize(units["task"], sort=True)
    order, condition = (units[column].to_numpy(object) for column in ("order", "condition"))
    return VoteTable(
        judges=tuple(calls),
        item=units["suite_item"].to_numpy(object),
        order=order,
        replicate=units["replicate"].to_numpy(np.int64),
        condition=condition,
        delta=units["delta"].to_numpy(float),
        presentation=records.presentations(pd.factorize(units["suite_item"])[0], order, condition),
        source=sources[0],
        expected=_codes(right_answers(units) if pointwise else units["better"].to_numpy(object), scale),
        label=_codes(units["expected" if pointwise else "better"].to_numpy(object), scale),
        label_source=units["label_source"].to_numpy(object),
        rubric=units["rubric"].to_numpy(object),
        answer=np.column_stack([_answers(own, scale) for own in rows]),
        outcome=np.column_stack([own["outcome"].to_numpy(object) for own in rows]),
        confidence=np.column_stack([_numbers(own, "confidence") for own in rows]),
        cost_usd=np.column_stack([_numbers(own, "cost_usd") for own in rows]),
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
    # Sources without a right answer would leave a half with nothing to choose by.
    dealt = np.unique(table.source[table.judged])
    if len(dealt) < 2:
        raise CallsError(
            f"Choosing on one half of the sources and reporting on the other needs two or more sources with an "
            f"expected answer, but there are {len(dealt)}."
        )
    # Whole sources: units of one source are alike, and a half that holds a twin of the other is no test of it.
    drawn = np.random.default_rng(seed).permutation(dealt)
    second = np.isin(table.source, drawn[: len(drawn) // 2])
    return ~second, second


def _check_meaning(every: pd.DataFrame) -> None:
    counts = every.groupby("suite_item", sort=False)[records.CALL_MEANING].nunique(dropna=False)
    changing = counts.gt(1).any(axis=1)
    if changing.any():
        raise CallsError(
            f"The judges disagree on the task, condition or expected answer of {int(changing.sum())} item(s), "
            f"{', '.join(counts.index[changing][:5])}: not one suite."
        )


def _common_replicates(frames: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Cut every item to the fewest replicates that a judge was asked of it; a judge not asked at all does not count."""
    # Further replicates of one judge would be units on which the others have no vote.
    replicates = pd.concat([frame.groupby("suite_item")["replicate"].max() for frame in frames.values()])
    fewest = replicates.groupby(level=0).min()
    return {name: frame[frame["replicate"] <= frame["suite_item"].map(fewest)] for name, frame in frames.items()}


def _codes(answers: Texts, scale: Scale) -> Codes:
    code = {label: index for index, label in enumerate(scale.labels)}
    return np.array([code.get(plain_label(answer), MISSING) for answer in answers], dtype=np.intp)


def _answers(calls: pd.DataFrame, scale: Scale) -> Codes:
    """Read one judge's calls as codes; what could not be read is no vote at all."""
    codes = _codes(records.choices(calls), scale)
    # An abstention is a vote for no answer.
    codes[calls["outcome"] == "abstain"] = len(scale.labels)
    return codes


def _numbers(calls: pd.DataFrame, column: str) -> Array:
    if column not in calls:
        return np.full(len(calls), np.nan)
    return pd.to_numeric(calls[column], errors="coerce").to_numpy(float)


@dataclass(frozen=True, kw_only=True, slots=True)
class PairAgreement:
    """Two judges on the units that both of them answered."""

    a: str
    b: str
    agreement: Reading
    """Share of the units with the same answer; an abstention is an answer."""
    ac1: float | None
    """Gwet's AC1: agreement beyond chance, which does not collapse when one answer is common."""
    error_correlation: float | None
    """Correlation of being wrong, on the units with an expected answer; None when one is always or never wrong."""


def agreement_matrix(table: VoteTable) -> tuple[PairAgreement, ...]:
    """Return the agreement of every two judges, over all units of the table, the baseline and unlabelled ones included.

    A unit that one of the two did not answer is left out and counted, and never withholds the number: agreement is
    read pair by pair.
    """
    return tuple(_agreement(table, a, b) for a, b in combinations(table.judges, 2))


def effective_votes(table: VoteTable, *, resampling: ledger.Resampling | None = None) -> dict[str, Reading]:
    """Return `error_correlation`, the mean rho over pairs of judges, and `effective_votes`, `n / (1 + (n - 1) rho)`.

    The mean of n equally variable indicators with mean pairwise correlation rho varies as much as that of so many
    independent ones: n at rho = 0, 1 at rho = 1, and above n when the errors avoid one another (rho < 0).
    An error is an answer other than the expected one, an abstention included. The correlation of two judges is taken
    over the units that both answered; what makes an item hard for all is part of it. Intervals resample whole sources.

    Reference:
        Kish (1965), Survey Sampling, section 5.4, with the judges of a unit as the cluster.

    Returns:
        Both readings, or why there are none: a judge that is never or always wrong has no correlation with any other.
    """
    names, judged = table.judges, table.where(table.judged)
    voted, wrong = _errors(judged, names)
    reason = _reason(names, voted, wrong)
    if reason is not None:
        return {axis: NotEstimable(reason=reason) for axis in ("error_correlation", "effective_votes")}
    # A single vote on a unit says nothing of how votes go together.
    usable = np.asarray(voted.sum(axis=1) >= 2)
    features = np.hstack([_features(voted, wrong, i, j) for i, j in combinations(range(len(names)), 2)])[usable]
    left_out = {"too few votes": int((~usable).sum())}
    units = judged.units("units with two or more votes", usable=usable, left_out=left_out, limit=1.0)
    items = np.unique(judged.item, return_inverse=True)[1][usable]
    sample = ledger.Sample(units=units, features=features, items=items)
    statistics = _statistics(len(names))
    observed = {axis: float(value[0]) for axis, value in statistics(features.sum(axis=0)[None, :]).items()}
    values = {axis: None if np.isnan(value) else value for axis, value in observed.items()}
    missing = "two judges share no unit on which both vary, so their errors have no correlation"
    return sample.readings(values, statistics, resampling or ledger.Resampling(), without=missing)


def _statistics(n: int) -> ledger.Statistics:
    """Sums of features to the mean correlation and the effective number of n votes."""

    def values(sums: Array) -> dict[str, Array]:
        mean = _correlations(sums).mean(axis=1)
        spread = 1 + (n - 1) * mean
        # A resample may have a correlation that no n votes can have: no number, not a negative one.
        number = ledger.defined_ratio(np.full(len(mean), float(n)), np.where(spread > 0, spread, np.nan))
        return {"error_correlation": mean, "effective_votes": number}

    return values


def _reason(names: Sequence[str], voted: Mask, wrong: Mask) -> str | None:
    if len(names) < 2:
        return "one judge has nobody to agree with"
    if not voted.any():
        return "no units with an expected answer"
    silent = [name for name, any_vote in zip(names, np.asarray(voted.any(axis=0)), strict=True) if not any_vote]
    if silent:
        return f"no votes of {', '.join(silent)} on units with an expected answer"
    for what, same in (("never", wrong.sum(axis=0) == 0), ("always", (wrong == voted).all(axis=0))):
        if same.any():
            who = ", ".join(name for name, flag in zip(names, same, strict=True) if flag)
            return f"no variation: {who} {'is' if same.sum() == 1 else 'are'} {what} wrong, which has no correlation"
    return None


def _errors(judged: VoteTable, names: Sequence[str]) -> tuple[Mask, Mask]:
    """Units × judges: who voted, and who voted for another answer than the expected one."""
    cast = judged.answer[:, judged.columns(names)]
    voted = np.asarray(cast != MISSING)
    return voted, voted & (cast != judged.expected[:, None])


def _features(voted: Mask, wrong: Mask, i: int, j: int) -> Array:
    both = voted[:, i] & voted[:, j]
    columns = (both, both & wrong[:, i], both & wrong[:, j], wrong[:, i] & wrong[:, j])
    return np.column_stack(columns).astype(float)


def _correlations(sums: Array) -> Array:
    """Phi of every pair of judges (resamples × pairs) from the sums of their features; NaN without variation."""
    n, first, other, both = (sums[:, place::_FEATURES] for place in range(_FEATURES))
    margins = first * (n - first) * other * (n - other)
    return ledger.defined_ratio(n * both - first * other, np.sqrt(margins))


def _agreement(table: VoteTable, a: str, b: str) -> PairAgreement:
    cast = table.answer[:, table.columns((a, b))]
    usable = np.asarray((cast != MISSING).all(axis=1))
    left_out = {"one vote or none": int((~usable).sum())}
    units = table.units(f"units answered by {a} and {b}", usable=usable, left_out=left_out, limit=1.0)
    same = np.asarray(cast[:, 0] == cast[:, 1])
    agreement: Reading = (
        ledger.share(units, same) if usable.any() else NotEstimable(reason=f"{a} and {b} share no unit")
    )
    used = cast[usable].astype(float)
    # Labels that nobody used count as well: chance agreement depends on what may be answered.
    categories = max(2, table.abstain + int((used == table.abstain).any()))
    return PairAgreement(
        a=a,
        b=b,
        agreement=agreement,
        ac1=gwet_ac1(used, n_categories=categories) if usable.any() else None,
        error_correlation=_pair_correlation(table, a, b),
    )


def _pair_correlation(table: VoteTable, a: str, b: str) -> float | None:
    voted, wrong = _errors(table.where(table.judged), (a, b))
    phi = float(_correlations(_features(voted, wrong, 0, 1).sum(axis=0)[None, :])[0, 0])
    return None if np.isnan(phi) else phi
