"""Votes: what several judges answered to the same calls, side by side, and how alike they vote.

A unit is one call that all judges share: item × presentation order × replicate. Its answers are
labels for pointwise items and contents (`u`, `v`, `tie`) for pairs, so that a slot never votes. A
judge that was not asked, or whose call gave no usable answer, has no vote: a missing vote is never
counted as an answer.
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
    """Code of the right answer: the expected label, or the better content of a pair; -1: none."""
    label: Codes
    """The same whatever the source of the label, which no vote is right or wrong by."""
    label_source: Texts
    rubric: Texts
    answer: Codes
    """Units × judges: code of a label; `abstain` is the code after the labels, -1 no vote."""
    outcome: Texts
    """Units × judges: how the call ended, or `not asked`."""
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
        """Units that count for accuracy: with a right answer, without baselines if there are tests.

        The same calls as `all/accuracy` of a reliability report.
        """
        known = self.expected >= 0
        tests = known & (self.condition != BASELINE)
        return np.asarray(tests if tests.any() else known)

    def columns(self, panel: Sequence[str]) -> Codes:
        """Return the columns of some judges.

        Raises:
            RecipeError: when one is none of the judges, or is named twice.
        """
        for name in panel:
            if name not in self.judges:
                hint = suggest(name, self.judges)
                raise RecipeError(f"No judge {name!r}.{hint} There are {', '.join(self.judges)}.")
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
        """Dollars for 1,000 units judged by the whole panel; None when a price is unknown.

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
    calls: Mapping[str, pd.DataFrame],
    *,
    labels: Sequence[str] | None = None,
    max_excluded: float = ledger.MAX_EXCLUDED,
) -> VoteTable:
    """Lay the call records of several judges on one suite side by side.

    A judge that was stopped early has missing votes; where judges were asked different numbers of
    replicates of an item, the fewest count.

    Args:
        calls: Judge to call records.
        labels: What a pointwise judge may answer, low to high; inferred when None.
        max_excluded: Withhold a number if more than this share of its units has no usable answer.

    Raises:
        CallsError: when records break a rule, or two judges were asked different things under one
            name.
    """
    if not calls:
        raise ValueError("Votes need at least one judge, but got none.")
    frames = {name: records.normalise(frame) for name, frame in calls.items()}
    all_calls = pd.concat(frames.values(), ignore_index=True)
    pointwise = records.is_pointwise(all_calls)
    if records.has_steps(all_calls):
        raise CallsError("A jury is scored on units with a known right answer, and a pointwise datasheet has none.")
    _check_meaning(all_calls)
    frames = _common_replicates(frames)
    # The union of all calls: a judge that was stopped early must not shorten the others.
    columns = records.CALL_KEY + records.CALL_MEANING
    units = pd.concat([frame[columns] for frame in frames.values()], ignore_index=True)
    units = units.drop_duplicates(records.CALL_KEY)
    units = units.sort_values(records.CALL_KEY, kind="stable", ignore_index=True)
    scale = Scale(labels=CONTENTS, ordered=False)
    if pointwise:
        answers = [*all_calls["answer"], *all_calls["expected"]]
        scale = scale_of(answers, told_labels(all_calls, labels))
    index = pd.MultiIndex.from_frame(units[records.CALL_KEY])
    # Costs stay NaN: unknown, not 0.
    unasked = {"outcome": NOT_ASKED, "answer": ""}
    aligned = [
        frame.set_index(records.CALL_KEY).reindex(index).fillna(unasked).reset_index() for frame in frames.values()
    ]
    source_codes, source_names = pd.factorize(units["task"], sort=True)
    items = units["suite_item"].to_numpy(object)
    order = units["order"].to_numpy(object)
    condition = units["condition"].to_numpy(object)
    right = right_answers(units) if pointwise else units["better"].to_numpy(object)
    return VoteTable(
        judges=tuple(calls),
        item=items,
        order=order,
        replicate=units["replicate"].to_numpy(np.int64),
        condition=condition,
        delta=units["delta"].to_numpy(float),
        presentation=records.presentations(pd.factorize(items)[0], order, condition),
        source=source_codes,
        expected=_codes(right, scale),
        label=_codes(units["expected" if pointwise else "better"].to_numpy(object), scale),
        label_source=units["label_source"].to_numpy(object),
        rubric=units["rubric"].to_numpy(object),
        answer=np.column_stack([_answer_codes(frame, scale) for frame in aligned]),
        outcome=np.column_stack([frame["outcome"].to_numpy(object) for frame in aligned]),
        cost_usd=np.column_stack([_costs(frame) for frame in aligned]),
        sources=tuple(source_names),
        scale=scale,
        pointwise=pointwise,
        max_excluded=max_excluded,
    )


def halves(table: VoteTable, *, seed: int = 0) -> tuple[Mask, Mask]:
    """Split the units in two by source, at random: no source has units in both halves.

    Only sources with a unit that counts for accuracy are dealt out evenly; the others go to the
    first half.

    Raises:
        CallsError: with fewer than two such sources.
    """
    # Sources without a right answer would leave a half with nothing to choose by.
    dealt = np.unique(table.source[table.judged])
    if len(dealt) < 2:
        raise CallsError(
            f"Choosing on one half of the sources and reporting on the other needs two or more "
            f"sources with an expected answer, but there are {len(dealt)}."
        )
    # Whole sources: units of one source are alike, so a half that holds a twin of the other is no
    # test of it.
    shuffled = np.random.default_rng(seed).permutation(dealt)
    second = np.isin(table.source, shuffled[: len(shuffled) // 2])
    return ~second, second


def _check_meaning(calls: pd.DataFrame) -> None:
    meanings = calls.groupby("suite_item", sort=False)[records.CALL_MEANING]
    changing = meanings.nunique(dropna=False).gt(1).any(axis=1)
    if changing.any():
        raise CallsError(
            f"The judges disagree on the task, condition or expected answer of "
            f"{int(changing.sum())} item(s), {', '.join(changing.index[changing][:5])}: not one suite."
        )


def _common_replicates(frames: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Cut every item to the fewest replicates that a judge was asked of it."""
    # Further replicates of one judge would be units on which the others have no vote.
    last = pd.concat([frame.groupby("suite_item")["replicate"].max() for frame in frames.values()])
    fewest = last.groupby(level=0).min()
    return {name: frame[frame["replicate"] <= frame["suite_item"].map(fewest)] for name, frame in frames.items()}


def _codes(answers: Texts, scale: Scale) -> Codes:
    codes = {label: code for code, label in enumerate(scale.labels)}
    return np.array([codes.get(plain_label(answer), MISSING) for answer in answers], dtype=np.intp)


def _answer_codes(calls: pd.DataFrame, scale: Scale) -> Codes:
    """Read one judge's calls as codes; what could not be read is no vote at all."""
    codes = _codes(records.choices(calls), scale)
    # An abstention is a vote for no answer.
    codes[calls["outcome"] == "abstain"] = len(scale.labels)
    return codes


def _costs(calls: pd.DataFrame) -> Array:
    if "cost_usd" not in calls:
        return np.full(len(calls), np.nan)
    return pd.to_numeric(calls["cost_usd"], errors="coerce").to_numpy(float)


# How alike judges vote


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
    """Correlation of being wrong, on units with an expected answer; None without variation."""


def agreement_matrix(table: VoteTable) -> tuple[PairAgreement, ...]:
    """Return the agreement of every two judges, over all units, baselines and unlabelled ones too.

    A unit that one of the two did not answer is left out and counted, and never withholds the
    number: agreement is read pair by pair.
    """
    return tuple(_agreement(table, a, b) for a, b in combinations(table.judges, 2))


def _agreement(table: VoteTable, a: str, b: str) -> PairAgreement:
    cast = table.answer[:, table.columns((a, b))]
    usable = np.asarray((cast != MISSING).all(axis=1))
    agreement: Reading = NotEstimable(reason=f"{a} and {b} share no unit")
    ac1 = None
    if usable.any():
        units = table.units(
            f"units answered by {a} and {b}",
            usable=usable,
            left_out={"one vote or none": int((~usable).sum())},
            limit=1.0,
        )
        agreement = ledger.share(units, np.asarray(cast[:, 0] == cast[:, 1]))
        answers = cast[usable].astype(float)
        # Labels that nobody used count too: chance agreement depends on what may be answered.
        n_categories = table.abstain + int((answers == table.abstain).any())
        ac1 = gwet_ac1(answers, n_categories=max(2, n_categories))
    voted, wrong = _errors(table.where(table.judged))
    first, second = table.columns((a, b))
    sums = _pair_features(voted, wrong, int(first), int(second)).sum(axis=0)
    phi = float(_correlations(sums[None, :])[0, 0])
    return PairAgreement(a=a, b=b, agreement=agreement, ac1=ac1, error_correlation=None if np.isnan(phi) else phi)


def effective_votes(table: VoteTable, *, resampling: ledger.Resampling | None = None) -> dict[str, Reading]:
    """Return `error_correlation` (mean rho over pairs) and `effective_votes`, `n / (1 + (n - 1) rho)`.

    The mean of n equally variable indicators with mean pairwise correlation rho varies as much as
    that of so many independent ones: n at rho = 0, 1 at rho = 1, and above n when the errors avoid
    one another (rho < 0). An error is an answer other than the expected one, an abstention
    included. The correlation of two judges is taken over the units that both answered; what makes
    an item hard for all is part of it. Intervals resample whole sources.

    Reference:
        Kish (1965), Survey Sampling, section 5.4, with the judges of a unit as the cluster.

    Returns:
        Both readings, or why there are none: a judge that is never or always wrong has no
        correlation with any other.
    """
    judged = table.where(table.judged)
    voted, wrong = _errors(judged)
    reason = _why_no_correlation(table.judges, voted, wrong)
    if reason is not None:
        missing = NotEstimable(reason=reason)
        return {"error_correlation": missing, "effective_votes": missing}
    # A single vote on a unit says nothing of how votes go together.
    usable = np.asarray(voted.sum(axis=1) >= 2)
    pairs = combinations(range(len(table.judges)), 2)
    features = np.hstack([_pair_features(voted, wrong, i, j) for i, j in pairs])[usable]
    units = judged.units(
        "units with two or more votes",
        usable=usable,
        left_out={"too few votes": int((~usable).sum())},
        limit=1.0,
    )
    items = np.unique(judged.item, return_inverse=True)[1][usable]
    sample = ledger.Sample(units=units, features=features, items=items)
    statistics = _statistics(len(table.judges))
    values: dict[str, float | None] = {}
    for axis, value in statistics(features.sum(axis=0)[None, :]).items():
        values[axis] = None if np.isnan(value[0]) else float(value[0])
    missing_text = "two judges share no unit on which both vary, so their errors have no correlation"
    resampling = resampling or ledger.Resampling()
    return sample.readings(values, statistics, resampling, without=missing_text)


def _statistics(n_judges: int) -> ledger.Statistics:
    """Sums of features to the mean correlation and the effective number of votes."""

    def values(sums: Array) -> dict[str, Array]:
        mean = _correlations(sums).mean(axis=1)
        spread = 1 + (n_judges - 1) * mean
        # A resample may have a correlation that no n votes can have: no number, not a negative one.
        spread = np.where(spread > 0, spread, np.nan)
        number = ledger.defined_ratio(np.full(len(mean), float(n_judges)), spread)
        return {"error_correlation": mean, "effective_votes": number}

    return values


def _why_no_correlation(judges: Sequence[str], voted: Mask, wrong: Mask) -> str | None:
    if len(judges) < 2:
        return "one judge has nobody to agree with"
    if not voted.any():
        return "no units with an expected answer"
    if silent := _names(judges, np.asarray(~voted.any(axis=0))):
        return f"no votes of {', '.join(silent)} on units with an expected answer"
    never_wrong = _names(judges, wrong.sum(axis=0) == 0)
    always_wrong = _names(judges, (wrong == voted).all(axis=0))
    for how_often, names in (("never", never_wrong), ("always", always_wrong)):
        if names:
            verb = "is" if len(names) == 1 else "are"
            who = f"{', '.join(names)} {verb} {how_often} wrong"
            return f"no variation: {who}, which has no correlation"
    return None


def _names(judges: Sequence[str], flags: Mask) -> list[str]:
    return [name for name, flag in zip(judges, flags, strict=True) if flag]


def _errors(judged: VoteTable) -> tuple[Mask, Mask]:
    """Units × judges: who voted, and who voted for another answer than the expected one."""
    voted = np.asarray(judged.answer != MISSING)
    return voted, voted & (judged.answer != judged.expected[:, None])


def _pair_features(voted: Mask, wrong: Mask, i: int, j: int) -> Array:
    both = voted[:, i] & voted[:, j]
    columns = (both, both & wrong[:, i], both & wrong[:, j], wrong[:, i] & wrong[:, j])
    return np.column_stack(columns).astype(float)


def _correlations(sums: Array) -> Array:
    """Phi of every pair of judges (resamples × pairs) from the sums of their features; NaN: none."""
    n, first, second, both = (sums[:, start::_FEATURES] for start in range(_FEATURES))
    margins = first * (n - first) * second * (n - second)
    return ledger.defined_ratio(n * both - first * second, np.sqrt(margins))
