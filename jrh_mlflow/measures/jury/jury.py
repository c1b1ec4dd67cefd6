"""A jury of judges that were measured on one suite: what their votes together are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.jury.cascade import Cascade, cascade
from jrh_mlflow.measures.jury.panels import (
    BestPanel,
    PanelAnswers,
    Rule,
    best_panel,
    check_limit,
    condition_readings,
    panel_answer,
    panel_calls,
    panel_readings,
    vote_weights,
)
from jrh_mlflow.measures.jury.votes import NOT_ASKED, PairAgreement, VoteTable, agreement_matrix, effective_votes, votes
from jrh_mlflow.schema.estimates import NotEstimable, Reading, plain_data
from jrh_mlflow.schema.items import USABLE
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED, Resampling

TRIO = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Seat:
    """One judge of the jury, alone."""

    readings: Mapping[str, Reading]
    """accuracy, error_rate, no_decision, and fpr and fnr of two labels: on the same units as the jury's."""
    usd_per_1k: float | None
    unusable: int
    """Calls without a usable answer."""
    not_asked: int
    """Units of the table that it was not asked."""
    weight: float | None
    """Log-odds weight on all units, for rule `weighted`; the jury's answers use cross-fitted ones."""


@dataclass(frozen=True, kw_only=True)
class JuryReport:
    """What a jury reads, beside its judges."""

    judges: tuple[str, ...]
    rule: Rule
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
    best: BestPanel | NotEstimable | None
    """Best panel of the size asked for; None when there is nothing to choose from."""
    cascade: Cascade | NotEstimable | None
    answers: pd.DataFrame
    """The jury's answers as call records, which `jrh.measure` reads; not in `to_dict`."""
    notes: tuple[str, ...]
    n_units: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        names = [field.name for field in fields(self) if field.name != "answers"]
        plain = {name: plain_data(getattr(self, name)) for name in names}
        rule = {"rule": self.rule.vote, "ties": self.rule.ties, "min_votes": self.rule.quorum(len(self.judges))}
        return {**plain, **rule}


def jury_report(
    calls: Mapping[str, pd.DataFrame],
    *,
    rule: Rule | None = None,
    size: int | None = None,
    max_usd: float | None = None,
    steps: Sequence[str] = (),
    unsure: str | None = None,
    labels: Sequence[str] | None = None,
    seed: int = 0,
    n_resamples: int = 1000,
    max_excluded: float = MAX_EXCLUDED,
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
        max_excluded: Withhold a number when more than this share of its units gave no usable answer.

    Raises:
        CallsError: when records break a rule or do not belong to one suite.
        RecipeError: when a name is not known, or no panel costs so little.
    """
    _check_settings(len(calls), size=size, max_usd=max_usd, steps=steps, unsure=unsure)
    rule = rule or Rule(seed=seed)
    table = votes(calls, labels=labels, max_excluded=max_excluded)
    answers = panel_answer(table, table.judges, rule)
    effective = effective_votes(table, resampling=Resampling(seed=seed, n_resamples=n_resamples))
    seats = _seats(table, rule)
    cascaded = cascade(table, steps[:-1], steps[-1], unsure=unsure, max_usd=max_usd, seed=seed) if steps else None
    return JuryReport(
        judges=table.judges,
        rule=rule,
        readings=panel_readings(table, answers),
        by_condition=condition_readings(table, answers),
        n_split=int(answers.split.sum()),
        usd_per_1k=table.usd_per_1k(table.judges),
        seats=seats,
        agreements=agreement_matrix(table),
        effective_votes=effective["effective_votes"],
        error_correlation=effective["error_correlation"],
        best=_best(table, rule, size=size, max_usd=max_usd, seed=seed),
        cascade=cascaded,
        answers=panel_calls(table, answers),
        notes=(*_notes(table, answers, rule, seats), *_over_limit(cascaded, max_usd)),
        n_units=len(table.item),
    )


def _check_settings(
    n_judges: int, *, size: int | None, max_usd: float | None, steps: Sequence[str], unsure: str | None
) -> None:
    """Refuse settings that nothing would read: a limit that limits nothing looks kept."""
    check_limit(max_usd)
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


def _seats(table: VoteTable, rule: Rule) -> dict[str, Seat]:
    weights = vote_weights(table, table.judges) if rule.vote == "weighted" else {}
    seats = {}
    for column, name in enumerate(table.judges):
        outcome = table.outcome[:, column]
        seats[name] = Seat(
            readings=panel_readings(table, panel_answer(table, [name])),
            usd_per_1k=table.usd_per_1k([name]),
            unusable=sum(one not in USABLE and one != NOT_ASKED for one in outcome),
            not_asked=int((outcome == NOT_ASKED).sum()),
            weight=weights.get(name),
        )
    return seats


def _best(
    table: VoteTable, rule: Rule, *, size: int | None, max_usd: float | None, seed: int
) -> BestPanel | NotEstimable | None:
    if size is None and len(table.judges) <= TRIO:
        return None
    n_sources = len(np.unique(table.source[table.judged]))
    # Weights are cross-fitted within each half, so a half needs two sources of its own.
    needed = 4 if rule.vote == "weighted" else 2
    if size is None and n_sources < needed:
        reason = f"{n_sources} source(s) with an expected answer: choosing on one half needs {needed} or more"
        return NotEstimable(reason=reason)
    return best_panel(table, TRIO if size is None else size, max_usd=max_usd, rule=rule, seed=seed)


def _notes(table: VoteTable, answers: PanelAnswers, rule: Rule, seats: Mapping[str, Seat]) -> tuple[str, ...]:
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
