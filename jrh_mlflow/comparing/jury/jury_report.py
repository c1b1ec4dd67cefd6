"""What a jury of judges measured on one suite reads, and whether to use it or a member alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from jrh_mlflow.comparing.comparison import compare_calls
from jrh_mlflow.comparing.jury import panels
from jrh_mlflow.comparing.jury.votes import (
    NOT_ASKED,
    PairAgreement,
    VoteTable,
    agreement_matrix,
    effective_votes,
    votes,
)
from jrh_mlflow.comparing.recommendation import Weighing, short_name
from jrh_mlflow.errors import NoCommonCallsError, RecipeError
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, plain_fields
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.scoring.ledger import Resampling
from jrh_mlflow.show.numbers import money_text, reading_text

JURY = "the jury"
TRIO = 3
"""Size of the best panel by default."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seat:
    """The jury, or one of its judges alone."""

    readings: Mapping[str, Reading]
    """accuracy, error_rate, no_decision, and fpr and fnr of two labels: on the same units."""
    usd_per_1k: float | None
    """Dollars per 1,000 units; None when a price is unknown."""


@dataclass(frozen=True, kw_only=True)
class JuryReport:
    """What a jury reads, beside its judges."""

    judges: tuple[str, ...]
    rule: panels.VotingRule
    jury: Seat
    """All judges together."""
    seats: Mapping[str, Seat]
    n_units: int
    n_split: int
    """Units in which the tie rule decided."""
    agreements: tuple[PairAgreement, ...]
    effective_votes: Reading
    error_correlation: Reading
    """Mean over pairs of judges."""
    best: panels.BestPanel | NotEstimable | None
    """Best panel of a size; None when there is nothing to choose from."""
    answers: pd.DataFrame
    """The jury's answers as call records, which `jrh.measure` reads; not in `to_dict`."""
    notes: tuple[str, ...]

    @property
    def readings(self) -> Mapping[str, Reading]:
        """Of the jury."""
        return self.jury.readings

    def __repr__(self) -> str:
        return f"JuryReport({len(self.judges)} judges, {self.n_units:,} units)"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        names = [field.name for field in fields(self) if field.name not in ("answers", "rule")]
        quorum = self.rule.quorum(len(self.judges))
        return {**plain_fields(self, *names), "ties": self.rule.ties, "min_votes": quorum}


def jury_report(
    calls: Mapping[str, pd.DataFrame],
    *,
    rule: panels.VotingRule | None = None,
    size: int | None = None,
    max_usd: float | None = None,
    labels: Sequence[str] | None = None,
    seed: int = 0,
    n_resamples: int = 1000,
) -> JuryReport:
    """Let judges vote by their call records on one suite; pure, no MLflow.

    Args:
        calls: Judge to call records.
        rule: How a panel votes; a draw is no decision when None.
        size: Of the best panel; three when there are more than three judges, none otherwise.
        max_usd: Dollars per 1,000 units that the best panel may cost.
        labels: What a pointwise judge may answer, low to high; inferred when None.
        seed: Of halves and resampling.
        n_resamples: Of the bootstrap behind the interval of the effective votes.

    Raises:
        CallsError: when records break a rule or do not belong to one suite.
        RecipeError: when a name is not known, or no panel costs so little.
    """
    panels.check_limit(max_usd)
    if max_usd is not None and size is None and len(calls) <= TRIO:
        # A limit that limits nothing would look as if it was kept.
        raise RecipeError(f"A limit of ${max_usd:g} needs a panel to choose: with {len(calls)} judges name its size.")
    rule = rule or panels.VotingRule()
    table = votes(calls, labels=labels)
    answers = panels.panel_answer(table, table.judges, rule)
    resampling = Resampling(seed=seed, n_resamples=n_resamples)
    effective = effective_votes(table, resampling=resampling)
    n_split = int(answers.split.sum())
    return JuryReport(
        judges=table.judges,
        rule=rule,
        jury=_seat(table, table.judges, answers),
        seats={name: _seat(table, (name,), panels.panel_answer(table, (name,))) for name in table.judges},
        n_units=len(table.item),
        n_split=n_split,
        agreements=agreement_matrix(table),
        effective_votes=effective["effective_votes"],
        error_correlation=effective["error_correlation"],
        best=_best(table, rule, size=size, max_usd=max_usd, seed=seed),
        answers=panels.panel_calls(table, answers),
        notes=tuple(_notes(table, rule, n_split)),
    )


def _seat(table: VoteTable, panel: Sequence[str], answers: panels.PanelAnswers) -> Seat:
    readings = panels.panel_readings(table, answers.answer)
    return Seat(readings=readings, usd_per_1k=table.usd_per_1k(panel))


def _best(
    table: VoteTable,
    rule: panels.VotingRule,
    *,
    size: int | None,
    max_usd: float | None,
    seed: int,
) -> panels.BestPanel | NotEstimable | None:
    if size is not None:
        return panels.best_panel(table, size, max_usd=max_usd, rule=rule, seed=seed)
    if len(table.judges) <= TRIO:
        return None
    n_sources = len(np.unique(table.source[table.judged]))
    if n_sources < 2:
        return NotEstimable(reason=f"{n_sources} source(s) with an expected answer: choosing on one half needs two")
    return panels.best_panel(table, TRIO, max_usd=max_usd, rule=rule, seed=seed)


def _notes(table: VoteTable, rule: panels.VotingRule, n_split: int) -> list[str]:
    notes = []
    not_asked = (table.outcome == NOT_ASKED).any(axis=0)
    short = [name for name, flag in zip(table.judges, not_asked, strict=True) if flag]
    if short:
        notes.append(f"Not asked everything: {', '.join(short)}. Missing votes stay missing.")
    if not table.judged.any():
        notes.append("No unit has an expected answer: agreement only.")
    if n_split:
        notes.append(f"The tie rule ({rule.ties}) decided {n_split} of {len(table.item)} units.")
    return notes


# Whether to use it


def jury_verdict(
    report: JuryReport,
    calls: Mapping[str, pd.DataFrame],
    *,
    labels: Sequence[str] | None = None,
    seed: int = 0,
) -> Verdict:
    """Compare a jury with its members on the deciding axes, and say which to use.

    Args:
        report: The jury.
        calls: Judge to call records.
        labels: What a pointwise judge may answer.
        seed: Of all resampling.
    """
    judges = {JURY: report.answers, **calls}
    try:
        # With the jury as the baseline there are fewer comparisons, so less is lost by adjusting.
        with_jury = Weighing(compare_calls(judges, labels=labels, seed=seed, baseline=JURY))
        members_alone = Weighing(compare_calls(calls, labels=labels, seed=seed))
    except NoCommonCallsError:
        sentence = "Nothing can be recommended: no call was asked of all judges."
        return Verdict(sentences=(sentence,))
    members = [name for name in with_jury.ranked if name != JURY]
    if JURY not in with_jury.ranked or not members:
        return Verdict(sentences=(with_jury.sentences()[0],))
    # The one that would be used without the jury: an able one without the faults of others.
    able = members_alone.able(members) or members
    best = (members_alone.undominated(able) or able)[0]
    if not with_jury.beats_a_coin(JURY) and not with_jury.beats_a_coin(best):
        sentences = with_jury.no_better_than_a_coin(with_jury.jobs[0], with_jury.ranked[0])
        return Verdict(sentences=tuple(sentences))
    sentences = [*_choice(report, with_jury, best), *_counting_no_decision(report, best)]
    return Verdict(sentences=tuple(sentences[:4]))


def _choice(report: JuryReport, weighing: Weighing, best: str) -> list[str]:
    job = weighing.jobs[0]
    name = short_name(best)
    jury = reading_text(weighing.reading(job, JURY))
    member = reading_text(weighing.reading(job, best))
    price = _price(report, best)
    detail = f"The jury {weighing.against(job, JURY, best)}."
    if weighing.beats(best, JURY, weighing.jobs):
        worse = f"The jury ({jury}) is worse than its member {name} ({member}): use {name} alone."
        return [worse, detail]
    for axes in (weighing.jobs, weighing.others):
        won = weighing.beats(JURY, best, axes)
        if won and not weighing.beats(best, JURY, weighing.others):
            reason = weighing.against(won[0], JURY, best)
            return [f"Use the jury, because it {reason}, its best member{price}."]
    reads_lower = weighing.ranked.index(best) < weighing.ranked.index(JURY)
    reads = "lower than" if reads_lower else "no worse than"
    more = weighing.what_would_tell([JURY, best])
    return [
        f"The jury ({jury}) reads {reads} its member {name} ({member}), and is not shown to be "
        f"better: use {name} alone{price}{more}.",
        detail,
    ]


def _price(report: JuryReport, best: str) -> str:
    jury = report.jury.usd_per_1k
    member = report.seats[best].usd_per_1k
    if jury is None or member is None:
        return ""
    of_jury = f"{money_text(jury)} per 1,000 for the jury"
    return f" ({of_jury}, {money_text(member)} for {short_name(best)})"


def _counting_no_decision(report: JuryReport, best: str) -> list[str]:
    """Say what the jury reads if no decision counts as wrong, where that is less than a member."""
    jury = report.readings["accuracy"]
    member = report.seats[best].readings["accuracy"]
    if not isinstance(jury, Estimate) or not isinstance(member, Estimate):
        return []
    if jury.value >= member.value:
        return []
    readings = f"{reading_text(jury)} of its answers, {short_name(best)} in {reading_text(member)}"
    return [f"Counting no decision as wrong, the jury is right in {readings}."]
