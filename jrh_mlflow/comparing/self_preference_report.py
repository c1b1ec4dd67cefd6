"""Self-preference: how much more often a judge lets its own answer win than others do, at equal quality.

A judge j that is shown the answers u and v picks u with log-odds q + b·(own(u) − own(v)) ± s_j, q the quality of the
pair, b the bonus of own answers, s_j the pull of the slot. Strata are the pairs, all judges in both orders answer in
each, and people's or gold labels are one more answer without bonus and slot, so that q drops out
(`stats.conditional`). A tie is half a win for each. The excess is logistic(b) − ½: how much more often than one half
the own of two equally good answers wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from jrh_mlflow.models.families import bare_model, family_of
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.scoring.ledger import hull_at
from jrh_mlflow.show.glossary import WORDS
from jrh_mlflow.stats import FEWEST_CLUSTERS, Interval
from jrh_mlflow.stats.conditional import ConditionalFit, conditional_logistic

EXCESS, FAMILY_EXCESS = "excess", "family_excess"
REWRITTEN = "rewritten_"
"""Before the name of a reading: after a third model has rewritten both answers."""
MAX_LOST = 0.05
JUDGE, LABEL = "judge", "label"
AUTHORS = ("first_author", "second_author")
COLUMNS = ("pair", "item", *AUTHORS, "rater", "kind", "order", "outcome", "score")
"""Of judgments, a row for each answer: `order` is `uv` or `vu` and empty of labels, `score` that of the first answer:
1, ½ for a tie, 0, or missing."""
_WHY: Mapping[str, str] = WORDS["self_preference"]["why"]


@dataclass(frozen=True)
class JudgeAndAuthor:
    """How often an author's answers win with a judge, and with the others on the same pairs."""

    judge: str
    author: str
    share: float
    others: float | None
    """None where nobody else judged them."""
    n: int
    """Pairs."""
    own: bool
    family: bool


@dataclass(frozen=True, kw_only=True)
class SelfPreferenceReport:
    """What was read of several judges on pairs of answers with known authors."""

    judges: Mapping[str, str]
    """Name to the author that it is."""
    families: Mapping[str, str]
    """Judge or author to family, where one is known."""
    labels: tuple[str, ...]
    """Columns of people's or gold labels."""
    n_items: int
    n_pairs: int
    readings: Mapping[str, Reading]
    by_judge: Mapping[str, Mapping[str, Reading]]
    """Judge to its readings."""
    cells: Sequence[JudgeAndAuthor]
    has_outsider: bool
    """Whether some pair of a judge's own was judged by somebody who wrote neither answer."""
    notes: Sequence[str] = ()

    @property
    def main(self) -> str:
        """The reading that a verdict is about: own answers, or those of the family where no own one was judged."""
        own, family = (isinstance(self.readings[name], Estimate) for name in (EXCESS, FAMILY_EXCESS))
        return FAMILY_EXCESS if family and not own else EXCESS


def measure_self_preference(
    judgments: pd.DataFrame,
    *,
    judges: Mapping[str, str],
    families: Mapping[str, str],
    rewritten: pd.DataFrame | None = None,
    notes: Sequence[str] = (),
) -> SelfPreferenceReport:
    """Read the excess of all judges, of each alone, by author and by family.

    Args:
        judgments: A row for each answer (`COLUMNS`).
        judges: Judge to the author that it is.
        families: Author to family; those of others are told by their names.
        rewritten: The same after a third model has rewritten both answers.
        notes: What a reader must know.
    """
    everybody = sorted({*judges.values(), *(name for author in AUTHORS for name in judgments[author])})
    known = {name: family for name in everybody if (family := families.get(name) or family_of(name))}
    # What a judge shares with an author whose answers it has a stake in. Two ways to a model are of one family.
    models = {name: bare_model(name) for name in everybody}
    of_models = {models[name]: family for name, family in known.items()}
    kins = {EXCESS: models, FAMILY_EXCESS: {name: of_models.get(model, model) for name, model in models.items()}}
    tables = {"": judgments, **({} if rewritten is None else {REWRITTEN: rewritten})}
    staked = {f"{when}{name}": _staked(table, judges, kins[name]) for when, table in tables.items() for name in kins}
    by_judge = {
        judge: {name: reading for name, table in staked.items() if (reading := _excess_of(judge, table, name))}
        for judge in judges
    }
    told = [own[name] for own in by_judge.values() for name in kins if name in own]
    return SelfPreferenceReport(
        judges=dict(judges),
        families=known,
        labels=tuple(judgments.loc[judgments["kind"] == LABEL, "rater"].unique()),
        n_items=judgments["item"].nunique(),
        n_pairs=judgments["pair"].nunique(),
        readings={name: read_excess(table, name) for name, table in staked.items()},
        by_judge={judge: of_judge for judge, of_judge in by_judge.items() if of_judge},
        cells=_cells(judgments, judges, list(kins.values())),
        has_outsider=any(getattr(reading, "reason", "") != _WHY["no outsider"] for reading in told),
        notes=tuple(notes),
    )


def _staked(judgments: pd.DataFrame, judges: Mapping[str, str], kin: Mapping[str, str]) -> pd.DataFrame:
    """Add `own`: whether who answers has a stake in the first text (1), in the second (−1), or in both or none (0)."""
    who = judgments["rater"].map({judge: kin[author] for judge, author in judges.items()})
    first, second = ((judgments[author].map(kin) == who).astype(float) for author in AUTHORS)
    staked: pd.DataFrame = judgments.assign(own=first - second)
    return staked


def _excess_of(judge: str, judgments: pd.DataFrame, name: str) -> Reading | None:
    """Read the excess of one judge on its own pairs, beside those who have no stake in them; None if it has none."""
    mine = (judgments["rater"] == judge) & (judgments["own"] != 0)
    beside = judgments["pair"].isin(judgments.loc[mine, "pair"]) & (judgments["own"] == 0)
    if mine.any() and not beside.any():
        return NotEstimable(reason=_WHY["no outsider"], statistic="value")
    return read_excess(judgments[mine | beside], name) if mine.any() else None


def read_excess(judgments: pd.DataFrame, name: str = EXCESS) -> Reading:
    """Read the excess of whoever has a stake: in the column `own` 1 where it is in the first text, −1 in the second.

    Not estimable where nobody or everybody has the same stake, where fewer than ten items tell something, and, as every
    other reading, where more than 5 % of the calls gave no usable answer.
    """
    scores, own, asked = judgments["score"], judgments["own"], judgments["kind"] == JUDGE
    lost = asked & scores.isna()
    counts: dict[str, Any] = {"n": judgments["pair"].nunique(), "excluded": int(lost.sum()), "statistic": "value"}
    counts["left_out"] = judgments.loc[lost, "outcome"].value_counts().to_dict()
    missing = partial(NotEstimable, **counts)
    if not own.any():
        return missing(reason=_WHY[name.removeprefix(REWRITTEN)])
    if judgments["rater"].nunique() == 1:
        return missing(reason=_WHY["alone"])
    if lost.mean() > MAX_LOST:
        reason = f"{lost.sum():,} of {asked.sum():,} calls have no usable answer, more than {MAX_LOST:.0%}"
        return missing(reason=reason, withheld=True)
    fit = _fit(judgments, scores)
    if fit is None:
        return missing(reason=_WHY["no difference"])
    if fit.n_clusters < FEWEST_CLUSTERS:
        return missing(reason=f"{fit.n_clusters} items tell something, and an interval takes {FEWEST_CLUSTERS}")
    # What lost answers could change: each goes to whoever has more of a stake than the others, or to the other one.
    lean = 0.5 * np.sign(own - own.groupby(judgments["pair"]).transform("mean"))
    completed = [_fit(judgments, scores.mask(lost, 0.5 + way * lean)) for way in (1, -1) if lost.any()]
    fits = [fit, *filter(None, completed)]
    shares, ends = [_excess_share(each.value) for each in fits], [partial(_ends, each) for each in fits]
    return Estimate(
        value=shares[0],
        **counts,
        **intervals(_ends(fit, 0.95, clustered=False), _ends(fit, 0.95)),
        n_clusters=fit.n_clusters,
        method="conditional logistic, jackknife by item",
        unit="pair",
        n_calls=int(asked.sum()),
        bound_low=min(shares),
        bound_high=max(shares),
        at_level=ends[0],
        decides_at=partial(hull_at, ends) if lost.any() else None,
    )


def _excess_share(log_odds: float) -> float:
    return float(expit(log_odds) - 0.5)


def _ends(fit: ConditionalFit, level: float, *, clustered: bool = True) -> Interval:
    low, high = fit.interval(level, clustered=clustered)
    return _excess_share(low), _excess_share(high)


def _fit(judgments: pd.DataFrame, scores: pd.Series[float]) -> ConditionalFit | None:
    rows = judgments.assign(score=scores).dropna(subset="score")
    slots, judges = rows["order"].map({"uv": 1.0, "vu": -1.0, "": 0.0}), rows.loc[rows["kind"] == JUDGE, "rater"]
    terms = np.column_stack([rows["own"], *(slots * (rows["rater"] == judge) for judge in judges.unique())])
    strata, clusters = (pd.factorize(rows[column])[0] for column in ("pair", "item"))
    return conditional_logistic(rows["score"].to_numpy(float), terms, strata, clusters)


def _cells(
    judgments: pd.DataFrame, judges: Mapping[str, str], kins: Sequence[Mapping[str, str]]
) -> list[JudgeAndAuthor]:
    """Return how often each author's answers win with each judge: the mean over pairs, orders within a pair first."""
    sides = [
        judgments.assign(author=judgments[author], won=(judgments["score"] - lost).abs())
        for lost, author in enumerate(AUTHORS)
    ]
    won = pd.concat(sides).dropna(subset="won").groupby(["author", "pair", "rater"])["won"].mean().reset_index()
    cells = []
    for author, rows in won.groupby("author"):
        for judge, who in judges.items():
            mine = rows[rows["rater"] == judge]
            rest = rows[(rows["rater"] != judge) & rows["pair"].isin(mine["pair"])]
            if mine.empty:
                continue
            others = None if rest.empty else float(rest.groupby("pair")["won"].mean().mean())
            stakes = (kin[who] == kin[str(author)] for kin in kins)
            cells.append(JudgeAndAuthor(judge, str(author), float(mine["won"].mean()), others, len(mine), *stakes))
    return cells
