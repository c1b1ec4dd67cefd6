"""A jury of judges measured on one suite: what their votes, or a cascade of them, are worth.

A cascade asks a cheap judge first, and a strong one when the cheap one is unsure:

| unsure | the cheap judge is unsure when | what a unit costs before it is escalated |
|---|---|---|
| `confidence` | its confidence is under a threshold, or it gave none | one call |
| `replicates` | its replicates of the item, in the same order, are not all the same answer | all replicates |
| `disagree` | two cheap judges answer differently; the first one's answer counts | one call of each |
| `abstain` | (nothing else) | one call |

It is also unsure, whatever the signal, when it abstained or gave no usable answer. The threshold of `confidence` is
chosen on one half of the sources and used on the other, and the other way round; a cascade in use (`LiveCascade`) has
the one chosen on all units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from jrh_mlflow.comparing.jury import panels
from jrh_mlflow.comparing.jury.votes import (
    MISSING,
    NOT_ASKED,
    PairAgreement,
    VoteTable,
    agreement_matrix,
    effective_votes,
    halves,
    votes,
)
from jrh_mlflow.errors import RecipeError, check_known
from jrh_mlflow.schema.estimates import NotEstimable, Reading, plain_fields
from jrh_mlflow.schema.items import USABLE
from jrh_mlflow.scoring.ledger import Resampling, share
from jrh_mlflow.stats import Array, Codes, Mask

UNSURE = ("confidence", "replicates", "disagree", "abstain")
TRIO = 3
"""Size of the best panel where none is asked for."""
_MOST_THRESHOLDS = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Cascade:
    """What a cascade reads, beside its two ends on the same units."""

    cheap: tuple[str, ...]
    strong: str
    unsure: str
    thresholds: tuple[float, ...]
    """Of the two halves, each chosen on the other one; none for a signal without a threshold."""
    threshold: float | None
    """Chosen on all units: the one to use. What it is worth is `accuracy`, read with the two above."""
    replicates: int
    """Calls of the cheap judge on one unit: 1, or with `replicates` as many as most units were asked."""
    accuracy: Reading
    escalated: Reading
    """Share of the units that go on to the strong judge."""
    usd_per_1k: float | None
    cheap_accuracy: Reading
    cheap_usd_per_1k: float | None
    """Of the cheap judge's one call."""
    strong_accuracy: Reading
    strong_usd_per_1k: float | None


def cascade(
    table: VoteTable,
    cheap: str | Sequence[str],
    strong: str,
    *,
    unsure: str | None = None,
    max_usd: float | None = None,
    seed: int = 0,
) -> Cascade | NotEstimable:
    """Read what a cascade would have answered and cost.

    A unit whose strong answer is missing when it is needed is unusable. With `replicates`, only units that were asked
    twice or more count.

    Args:
        table: The votes.
        cheap: The judge that is asked first; two for `disagree`.
        strong: The judge that is asked when the first is unsure.
        unsure: The signal; when None the first of the table above for which there are records.
        max_usd: Dollars per 1,000 units: of the thresholds of `confidence` only those that cost less are candidates.
        seed: Of the halves.

    Raises:
        RecipeError: when a judge or signal is not known, or no threshold costs so little.
        CallsError: when there are too few sources to choose a threshold on one half.
    """
    first = (cheap,) if isinstance(cheap, str) else tuple(cheap)
    if len(first) not in (1, 2):
        raise RecipeError(f"A cascade is one or two cheap judges and a strong one, but got {[*first, strong]}.")
    table.columns((*first, strong))
    signal = _signal(table, first, unsure)
    rows = table.judged & _repeated(table) if signal == "replicates" else table.judged
    if signal == "confidence" and np.isnan(table.confidence[table.judged][:, table.columns(first)]).all():
        return NotEstimable(reason=f"{first[0]} logged no confidence; ask for it with logprobs, or use another signal")
    if not rows.any():
        what = "was asked each item once" if table.judged.any() else "has no units with an expected answer"
        return NotEstimable(reason=f"{first[0]} {what}: there is nothing to read a cascade from")
    part = table.where(rows)
    steps = _Steps.of(part, first, strong, signal)
    every = np.ones(len(part.item), dtype=bool)
    thresholds: tuple[float, ...] = ()
    threshold = None
    if signal == "confidence":
        first_half, second_half = halves(part, seed=seed)
        # Crosswise: the first half is answered with what was learnt on the second.
        thresholds = tuple(_best_threshold(steps, half, max_usd=max_usd) for half in (second_half, first_half))
        threshold = _best_threshold(steps, every, max_usd=max_usd)
    # With the threshold of the other half: chosen and used on one half it would look too good.
    escalates = steps.escalated(thresholds, seed=seed)
    return Cascade(
        cheap=first,
        strong=strong,
        unsure=signal,
        thresholds=thresholds,
        threshold=threshold,
        # What most items, in one order, were asked; of equally common numbers the smallest.
        replicates=int(np.bincount(np.bincount(_groups(part))).argmax()) if signal == "replicates" else 1,
        accuracy=panels.panel_accuracy(part, steps.answers(escalates)),
        escalated=share(part.units("units with an expected answer", usable=every, left_out={}), escalates),
        usd_per_1k=steps.usd_per_1k(escalates),
        cheap_accuracy=panels.panel_accuracy(part, steps.cheap),
        cheap_usd_per_1k=part.usd_per_1k(first[:1]),
        strong_accuracy=panels.panel_accuracy(part, steps.strong),
        strong_usd_per_1k=part.usd_per_1k([strong]),
    )


def cascade_answers(table: VoteTable, measured: Cascade, *, seed: int = 0) -> panels.PanelAnswers:
    """Return what a measured cascade answered to every unit, those without an expected answer included.

    Args:
        table: The votes it was read from.
        measured: The cascade.
        seed: Of its halves.
    """
    steps = _Steps.of(table, measured.cheap, measured.strong, measured.unsure)
    escalates = steps.escalated(measured.thresholds, seed=seed)
    return panels.PanelAnswers(answer=steps.answers(escalates), split=escalates)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Steps:
    """The units of a cascade: what either judge answered, and what it cost."""

    table: VoteTable
    cheap: Codes
    strong: Codes
    doubtful: Mask
    """Unsure whatever the threshold."""
    confidence: Array
    """NaN is unsure at every threshold."""
    cheap_usd: Array
    strong_usd: Array

    @classmethod
    def of(cls, table: VoteTable, first: tuple[str, ...], strong: str, signal: str) -> _Steps:
        own, last = table.columns(first), table.columns([strong])[0]
        cast = table.answer[:, own]
        doubtful = np.asarray(((cast == MISSING) | (cast == table.abstain)).any(axis=1))
        costs = np.column_stack([_costs(table, column) for column in own]).sum(axis=1)
        if signal == "disagree":
            doubtful |= cast[:, 0] != cast[:, 1]
        if signal == "replicates":
            doubtful |= _waver(table, cast[:, 0])
            # To see whether they agree all replicates must be asked, so each unit costs them all.
            costs = np.bincount(_groups(table), weights=costs)[_groups(table)]
        return cls(
            table=table,
            cheap=cast[:, 0],
            strong=table.answer[:, last],
            doubtful=doubtful,
            confidence=table.confidence[:, own[0]],
            cheap_usd=costs,
            strong_usd=_costs(table, int(last)),
        )

    def answers(self, escalates: Mask) -> Codes:
        return np.where(escalates, self.strong, self.cheap)

    def under(self, threshold: float) -> Mask:
        # Not `<`, which is false for NaN: a missing confidence is unsure.
        return np.asarray(self.doubtful | ~(self.confidence >= threshold))

    def escalated(self, thresholds: Sequence[float], *, seed: int) -> Mask:
        """Units that go on to the strong judge, with a threshold for each half of the sources or with none."""
        if not thresholds:
            return self.doubtful
        first, _ = halves(self.table, seed=seed)
        return np.where(first, self.under(thresholds[0]), self.under(thresholds[1]))

    def usd_per_1k(self, escalates: Mask, among: Mask | None = None) -> float | None:
        # A strong call that is not made costs nothing, though its price may be unknown.
        spent = self.cheap_usd + np.where(escalates, self.strong_usd, 0.0)
        mean = float(spent.mean() if among is None else spent[among].mean())
        return None if math.isnan(mean) else 1000 * mean

    def right(self, escalates: Mask, among: Mask) -> float:
        answer = self.answers(escalates)[among]
        usable = answer != MISSING
        return float((answer == self.table.expected[among]).sum() / usable.sum()) if usable.any() else 0.0


def _signal(table: VoteTable, first: tuple[str, ...], unsure: str | None) -> str:
    if unsure is None:
        if len(first) == 2:
            return "disagree"
        column = table.columns(first)[0]
        if not np.isnan(table.confidence[table.judged, column]).all():
            return "confidence"
        return "replicates" if (table.judged & _repeated(table)).any() else "abstain"
    check_known("signal", unsure, UNSURE)
    wanted = 2 if unsure == "disagree" else 1
    if len(first) != wanted:
        raise RecipeError(f"The signal {unsure!r} needs {wanted} cheap judge(s), but got {list(first)}.")
    return unsure


def _best_threshold(steps: _Steps, learnt: Mask, *, max_usd: float | None) -> float:
    """Return the most accurate threshold that costs at most `max_usd`; of equals the one that escalates least."""
    values = np.unique(steps.confidence[learnt & ~np.isnan(steps.confidence)])
    if not len(values):
        # The cheap judge gave no confidence here: every unit is escalated at any threshold.
        return 0.0
    if len(values) > _MOST_THRESHOLDS:
        # `nearest` keeps values that were seen: between two of them nothing changes.
        values = np.unique(np.quantile(values, np.linspace(0, 1, _MOST_THRESHOLDS), method="nearest"))
    best: tuple[float, float] | None = None
    # The value after the largest one escalates everything.
    for threshold in (*values.tolist(), float(np.nextafter(values[-1], np.inf))):
        escalates = steps.under(threshold)
        price = steps.usd_per_1k(escalates, learnt)
        if max_usd is not None and (price is None or price > max_usd):
            continue
        # The thresholds rise, so that of equals the first escalates least.
        right = steps.right(escalates, learnt)
        if best is None or right > best[0]:
            best = right, threshold
    if best is None:
        least = steps.usd_per_1k(steps.under(float(values[0])), learnt)
        cost = "of unknown price" if least is None else f"${least:.4g}"
        raise RecipeError(f"No threshold costs at most ${max_usd:g} per 1,000 judgments: the cheapest is {cost}.")
    return best[1]


def _costs(table: VoteTable, column: int) -> Array:
    """Dollars of each call; one that was not asked counts as the mean of those that were."""
    costs, was_asked = table.cost_usd[:, column], np.asarray(table.outcome[:, column] != NOT_ASKED)
    return np.where(was_asked, costs, costs[was_asked].mean() if was_asked.any() else np.nan)


def _groups(table: VoteTable) -> Codes:
    """Code of item and order: the replicates of one have the same."""
    names = np.array([f"{item}#{order}" for item, order in zip(table.item, table.order, strict=True)], dtype=object)
    return np.unique(names, return_inverse=True)[1].astype(np.intp)


def _repeated(table: VoteTable) -> Mask:
    groups = _groups(table)
    return np.asarray(np.bincount(groups)[groups] > 1)


def _waver(table: VoteTable, answer: Codes) -> Mask:
    """Units among whose replicates there are two answers."""
    groups = _groups(table)
    different = np.unique(np.column_stack([groups, answer]), axis=0)[:, 0]
    return np.asarray(np.bincount(different)[groups] > 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveCascade:
    """One or two cheap judges, and a strong one that is asked when they are unsure."""

    cheap: tuple[str, ...]
    strong: str
    unsure: str
    threshold: float | None
    """For `confidence`."""
    replicates: int
    """How often the cheap judge is asked."""

    @property
    def judges(self) -> tuple[str, ...]:
        """All of them, cheap to strong."""
        return (*self.cheap, self.strong)

    def first(self, votes: Mapping[str, Sequence[panels.CastVote]]) -> panels.JointAnswer | None:
        """Return the cheap judges' answer, or None when they are unsure: then the strong one is asked.

        Args:
            votes: Each cheap judge to what it said, `replicates` times.
        """
        cast = [vote for name in self.cheap for vote in votes[name]]
        # With `disagree` and `replicates` sure is who says the same every time; otherwise there is one vote.
        if not all(vote.decided for vote in cast) or len({vote.answer for vote in cast}) > 1:
            return None
        confidence = cast[0].confidence
        # Without a confidence, or a threshold for it, nobody knows that it was sure.
        if self.unsure == "confidence" and (
            confidence is None or self.threshold is None or confidence < self.threshold
        ):
            return None
        return panels.JointAnswer(answer=cast[0].answer, how="first step")

    def last(self, vote: panels.CastVote) -> panels.JointAnswer:
        """Return the strong judge's answer."""
        if vote.answer is None:
            why = f"{' and '.join(self.cheap)} {'was' if len(self.cheap) == 1 else 'were'} unsure"
            return panels.JointAnswer(answer=None, how="", why=f"{why}, and {self.strong} gave no usable answer")
        return panels.JointAnswer(answer=vote.answer, how="last step")

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LiveCascade:
        """Read what `to_dict` wrote; what scorers carry has `judges` beside it."""
        return cls(**{part.name: data[part.name] for part in fields(cls)} | {"cheap": tuple(data["cheap"])})


def live_cascade(measured: Cascade, *, threshold: float | None = None) -> LiveCascade:
    """Return a measured cascade for use, with the threshold chosen on all units unless another is given."""
    settings = {part.name: getattr(measured, part.name) for part in fields(LiveCascade)}
    return LiveCascade(**{**settings, **({} if threshold is None else {"threshold": threshold})})


@dataclass(frozen=True, kw_only=True, slots=True)
class Seat:
    """One judge of the jury, alone."""

    readings: Mapping[str, Reading]
    """accuracy, error_rate, no_decision, and fpr and fnr of two labels: on the same units as the jury's."""
    usd_per_1k: float | None
    unusable: int = 0
    """Calls without a usable answer."""
    not_asked: int = 0
    """Units of the table that it was not asked."""
    weight: float | None = None
    """Log-odds weight on all units, for rule `weighted`; the jury's answers use cross-fitted ones."""


@dataclass(frozen=True, kw_only=True)
class JuryReport:
    """What a jury reads, beside its judges."""

    judges: tuple[str, ...]
    rule: panels.VotingRule
    readings: Mapping[str, Reading]
    """Of the jury of all judges: accuracy, error_rate, no_decision, and fpr and fnr of two labels."""
    by_condition: Mapping[str, Reading]
    """Accuracy of the jury by test, or by step of the ladder."""
    n_split: int
    """Units in which the tie rule decided, or the vote had to be unanimous and was not."""
    usd_per_1k: float | None
    """Dollars per 1,000 units, all judges asked; None when a price is unknown."""
    seats: Mapping[str, Seat]
    agreements: tuple[PairAgreement, ...]
    effective_votes: Reading
    error_correlation: Reading
    """Mean over pairs of judges."""
    best: panels.BestPanel | NotEstimable | None
    """Best panel of the size asked for; None when there is nothing to choose from."""
    cascade: Cascade | NotEstimable | None
    answers: pd.DataFrame
    """The jury's answers as call records, which `jrh.measure` reads; not in `to_dict`."""
    notes: tuple[str, ...]
    n_units: int

    def __repr__(self) -> str:
        return f"JuryReport({len(self.judges)} judges, {self.rule.vote}, {self.n_units:,} units)"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        names = [field.name for field in fields(self) if field.name != "answers"]
        plain = plain_fields(self, *names)
        rule = {"rule": self.rule.vote, "ties": self.rule.ties, "min_votes": self.rule.quorum(len(self.judges))}
        return {**plain, **rule}


def jury_report(
    calls: Mapping[str, pd.DataFrame],
    *,
    rule: panels.VotingRule | None = None,
    size: int | None = None,
    max_usd: float | None = None,
    steps: Sequence[str] = (),
    unsure: str | None = None,
    labels: Sequence[str] | None = None,
    seed: int = 0,
    n_resamples: int = 1000,
) -> JuryReport:
    """Let judges vote by their call records on one suite; pure, no MLflow.

    Args:
        calls: Judge to call records.
        rule: How a panel votes; majority when None.
        size: Of the best panel; three when there are more than three judges, none when there are not.
        max_usd: Dollars per 1,000 units that the best panel, or a cascade, may cost.
        steps: Judges of a cascade, cheap to strong: two, or three for `disagree`.
        unsure: Signal of the cascade.
        labels: What a pointwise judge may answer, low to high; inferred when None.
        seed: Of halves and resampling.
        n_resamples: Of the bootstrap behind the interval of the effective votes.

    Raises:
        CallsError: when records break a rule or do not belong to one suite.
        RecipeError: when a name is not known, or no panel costs so little.
    """
    _check_settings(len(calls), size=size, max_usd=max_usd, steps=steps, unsure=unsure)
    rule = rule or panels.VotingRule(seed=seed)
    table = votes(calls, labels=labels)
    answers = panels.panel_answer(table, table.judges, rule)
    effective = effective_votes(table, resampling=Resampling(seed=seed, n_resamples=n_resamples))
    seats = _seats(table, rule)
    cascaded = cascade(table, steps[:-1], steps[-1], unsure=unsure, max_usd=max_usd, seed=seed) if steps else None
    return JuryReport(
        judges=table.judges,
        rule=rule,
        readings=panels.panel_readings(table, answers),
        by_condition=panels.condition_readings(table, answers),
        n_split=int(answers.split.sum()),
        usd_per_1k=table.usd_per_1k(table.judges),
        seats=seats,
        agreements=agreement_matrix(table),
        effective_votes=effective["effective_votes"],
        error_correlation=effective["error_correlation"],
        best=_best(table, rule, size=size, max_usd=max_usd, seed=seed),
        cascade=cascaded,
        answers=panels.panel_calls(table, answers),
        notes=(*_notes(table, answers, rule, seats), *_over_limit(cascaded, max_usd)),
        n_units=len(table.item),
    )


def _check_settings(
    n_judges: int, *, size: int | None, max_usd: float | None, steps: Sequence[str], unsure: str | None
) -> None:
    """Refuse settings that nothing would read: a limit that limits nothing looks kept."""
    panels.check_limit(max_usd)
    if unsure is not None and not steps:
        raise RecipeError(f"The signal {unsure!r} is for a cascade: name its judges.")
    if max_usd is not None and size is None and n_judges <= TRIO and not steps:
        raise RecipeError(f"A limit of ${max_usd:g} needs a panel to choose: with {n_judges} judges name its size.")


def _over_limit(cascaded: Cascade | NotEstimable | None, max_usd: float | None) -> tuple[str, ...]:
    if not isinstance(cascaded, Cascade) or max_usd is None or cascaded.usd_per_1k is None:
        return ()
    if cascaded.thresholds or cascaded.usd_per_1k <= max_usd:
        return ()
    cost = f"The cascade costs ${cascaded.usd_per_1k:.4g} per 1,000, over the limit of ${max_usd:g}"
    return (f"{cost}: the signal {cascaded.unsure} has no threshold to lower.",)


def _seats(table: VoteTable, rule: panels.VotingRule) -> dict[str, Seat]:
    # Shown beside each judge and used by a live jury; the measured answers never use them.
    weights = panels.vote_weights(table, table.judges) if rule.vote == "weighted" else {}
    seats = {}
    for column, name in enumerate(table.judges):
        outcome = table.outcome[:, column]
        seats[name] = Seat(
            readings=panels.panel_readings(table, panels.panel_answer(table, [name])),
            usd_per_1k=table.usd_per_1k([name]),
            unusable=sum(ending not in USABLE and ending != NOT_ASKED for ending in outcome),
            not_asked=int((outcome == NOT_ASKED).sum()),
            weight=weights.get(name),
        )
    return seats


def _best(
    table: VoteTable, rule: panels.VotingRule, *, size: int | None, max_usd: float | None, seed: int
) -> panels.BestPanel | NotEstimable | None:
    if size is None and len(table.judges) <= TRIO:
        return None
    n_sources = len(np.unique(table.source[table.judged]))
    # Weights are cross-fitted within each half, so a half needs two sources of its own.
    needed = 4 if rule.vote == "weighted" else 2
    if size is None and n_sources < needed:
        reason = f"{n_sources} source(s) with an expected answer: choosing on one half needs {needed} or more"
        return NotEstimable(reason=reason)
    return panels.best_panel(table, TRIO if size is None else size, max_usd=max_usd, rule=rule, seed=seed)


def _notes(
    table: VoteTable, answers: panels.PanelAnswers, rule: panels.VotingRule, seats: Mapping[str, Seat]
) -> tuple[str, ...]:
    notes = []
    short = [name for name, seat in seats.items() if seat.not_asked]
    if short:
        notes.append(f"Not asked everything: {', '.join(short)}. Missing votes stay missing.")
    if not table.judged.any():
        notes.append("No unit has an expected answer: agreement only.")
    n_split = int(answers.split.sum())
    if n_split and rule.vote != "unanimous":
        notes.append(f"The tie rule ({rule.ties}) decided {n_split} of {len(table.item)} units.")
    return tuple(notes)
