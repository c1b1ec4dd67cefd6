"""Self-preference: how much more often a judge lets its own answer win than others do, at equal quality.

A judge j that is shown the answers u and v picks u with log-odds q + b·(own(u) − own(v)) ± s_j, q the quality of the
pair, b the bonus of own answers, s_j the pull of the slot. Strata are the pairs, all judges in both orders answer in
each, and people's or gold labels are one more answer without bonus and slot, so that q drops out
(`stats.conditional`). A tie is half a win for each. The excess is logistic(b) − ½: how much more often than one half
the own of two equally good answers wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from jrh_mlflow.models.families import bare_model
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals, plain_fields
from jrh_mlflow.scoring.ledger import hull_at
from jrh_mlflow.stats import FEWEST_CLUSTERS, Array, Interval
from jrh_mlflow.stats.conditional import ConditionalFit, conditional_logistic

EXCESS, FAMILY_EXCESS = "excess", "family_excess"
REWRITTEN = "rewritten_"
"""Before the name of a reading: after a third model has rewritten both answers."""
MAX_LOST = 0.05
JUDGE, LABEL = "judge", "label"
COLUMNS = ("pair", "item", "first_author", "second_author", "rater", "kind", "order", "outcome", "score")
"""Of judgments, a row for each answer: `order` is `uv` or `vu` and empty of labels, `score` that of the first answer:
1, ½ for a tie, 0, or missing."""
_ALONE = "one judge alone cannot tell its taste from the quality of the answers: add people's or gold labels (a column "
_ALONE += "`better`), or a judge that wrote none of them"
_NO_OUTSIDER = "it needs a judge that wrote neither answer, or labels: two authors who judge each other tell their mean"
_NOBODY = {
    EXCESS: "no judge wrote one of two answers",
    FAMILY_EXCESS: "no judge is of the family of one of two answers and not of the other's",
}


@dataclass(frozen=True, kw_only=True)
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
    notes: Sequence[str] = field(default_factory=tuple)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return plain_fields(self)


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
        families: Author to family; those that are not here have none.
        rewritten: The same after a third model has rewritten both answers.
        notes: What a reader must know.
    """
    owners: dict[str, Callable[[str, str], bool]] = {EXCESS: _same, FAMILY_EXCESS: partial(_related, families)}
    tables = {"": judgments, **({} if rewritten is None else {REWRITTEN: rewritten})}
    own = {
        (before, name): _own(table, judges, owns) for before, table in tables.items() for name, owns in owners.items()
    }
    readings = {f"{before}{name}": read_excess(tables[before], own[before, name], name) for before, name in own}
    by_judge = {
        judge: {
            f"{before}{name}": _excess_of(judge, tables[before], own[before, name], name)
            for before, name in own
            if (own[before, name][tables[before]["rater"] == judge] != 0).any()
        }
        for judge in judges
    }
    outsiders = [_outside(judgments, own["", name]).any() for name in owners]
    return SelfPreferenceReport(
        judges=dict(judges),
        families={
            name: families[name] for name in sorted({*judges.values(), *_authors(judgments)}) if name in families
        },
        labels=tuple(judgments.loc[judgments["kind"] == LABEL, "rater"].unique()),
        n_items=judgments["item"].nunique(),
        n_pairs=judgments["pair"].nunique(),
        readings=readings,
        by_judge={judge: of_judge for judge, of_judge in by_judge.items() if of_judge},
        cells=_cells(judgments, judges, owners),
        has_outsider=any(outsiders),
        notes=tuple(notes),
    )


def _same(judge: str, author: str) -> bool:
    return bare_model(judge) == bare_model(author)


def _related(families: Mapping[str, str], judge: str, author: str) -> bool:
    return _same(judge, author) or families.get(judge, judge) == families.get(author, author)


def _authors(judgments: pd.DataFrame) -> list[str]:
    return sorted({*judgments["first_author"], *judgments["second_author"]})


def _own(judgments: pd.DataFrame, judges: Mapping[str, str], owns: Callable[[str, str], bool]) -> Array:
    """Return of every answer whether its giver owns the first answer (1), the second (−1), or both or none (0)."""
    known = {(name, author): owns(who, author) for name, who in judges.items() for author in _authors(judgments)}
    first, second = (
        np.array([known.get(pair, False) for pair in zip(judgments["rater"], judgments[column], strict=True)], float)
        for column in ("first_author", "second_author")
    )
    return np.asarray(first - second)


def _outside(judgments: pd.DataFrame, own: Array) -> pd.Series[bool]:
    """Say of every answer whether its giver owns neither text, in a pair that some judge has a stake in."""
    stake = pd.Series(own != 0, index=judgments.index).groupby(judgments["pair"]).transform("any")
    outside: pd.Series[bool] = stake & (own == 0) & judgments["score"].notna()
    return outside


def _excess_of(judge: str, judgments: pd.DataFrame, own: Array, name: str) -> Reading:
    """Read the excess of one judge on its own pairs, beside those who have no stake in them."""
    mine = (judgments["rater"] == judge) & (own != 0)
    pairs = judgments["pair"].isin(judgments.loc[mine, "pair"])
    kept = (mine | (pairs & (own == 0))).to_numpy()
    if (judgments[kept]["rater"] == judge).all():
        return NotEstimable(reason=_NO_OUTSIDER, statistic="value")
    return read_excess(judgments[kept], own[kept], name)


def read_excess(judgments: pd.DataFrame, own: Array, name: str = EXCESS) -> Reading:
    """Read the excess of whoever has a stake: `own` is 1 where they own the first text, −1 where the second.

    Not estimable where nobody or everybody has the same stake, where fewer than ten items tell something, and, as every
    other reading, where more than 5 % of the calls gave no usable answer.
    """
    asked = judgments["kind"] == JUDGE
    lost = (asked & judgments["score"].isna()).to_numpy()
    counts: dict[str, Any] = {"n": judgments["pair"].nunique(), "excluded": int(lost.sum())}
    left_out = judgments.loc[lost, "outcome"].value_counts().to_dict()
    missing = partial(NotEstimable, **counts, left_out=left_out, statistic="value")
    if not own.any():
        return missing(reason=_NOBODY[name])
    if judgments["rater"].nunique() == 1:
        return missing(reason=_ALONE)
    if lost.mean() > MAX_LOST:
        reason = f"{lost.sum():,} of {asked.sum():,} calls have no usable answer, more than {MAX_LOST:.0%}"
        return missing(reason=reason, withheld=True)
    fit = _fit(judgments, own, judgments["score"].to_numpy(float))
    if fit is None:
        return missing(reason="where judges with and without a stake answered, nothing differs between them")
    if fit.n_clusters < FEWEST_CLUSTERS:
        return missing(reason=f"{fit.n_clusters} items tell something, and an interval takes {FEWEST_CLUSTERS}")
    # What lost answers could change: each goes the way that makes the excess greatest, or least.
    completed = [_fit(judgments, own, _completed(judgments, own, lost, way)) for way in (1, -1) if lost.any()]
    fits = [fit, *filter(None, completed)]
    ends = [partial(_ends, each) for each in fits]

    return Estimate(
        value=_excess_share(fit),
        **counts,
        **intervals(_ends(fit, 0.95, clustered=False), _ends(fit, 0.95)),
        n_clusters=fit.n_clusters,
        method="conditional logistic, jackknife by item",
        unit="pair",
        statistic="value",
        left_out=left_out,
        n_calls=int(asked.sum()),
        bound_low=min(_excess_share(each) for each in fits),
        bound_high=max(_excess_share(each) for each in fits),
        at_level=ends[0],
        decides_at=partial(hull_at, ends) if lost.any() else None,
    )


def _excess_share(fit: ConditionalFit) -> float:
    return float(expit(fit.value) - 0.5)


def _ends(fit: ConditionalFit, level: float, *, clustered: bool = True) -> Interval:
    low, high = expit(np.array(fit.interval(level, clustered=clustered))) - 0.5
    return float(low), float(high)


def _completed(judgments: pd.DataFrame, own: Array, lost: Array, way: int) -> Array:
    """Return the scores with lost answers given to whoever has more of a stake in the first text than the others."""
    mean = pd.Series(own, index=judgments.index).groupby(judgments["pair"]).transform("mean").to_numpy()
    return np.where(lost, 0.5 + 0.5 * np.sign(way * (own - mean)), judgments["score"].to_numpy(float))


def _fit(judgments: pd.DataFrame, own: Array, scores: Array) -> ConditionalFit | None:
    kept = ~np.isnan(scores)
    if not kept.any():
        return None
    rows = judgments[kept]
    slots = rows["order"].map({"uv": 1.0, "vu": -1.0, "": 0.0}).to_numpy()
    judges = rows.loc[rows["kind"] == JUDGE, "rater"].unique()
    terms = np.column_stack([own[kept], *(slots * (rows["rater"] == judge).to_numpy() for judge in judges)])
    strata, clusters = (pd.factorize(rows[column])[0] for column in ("pair", "item"))
    return conditional_logistic(scores[kept], terms, strata, clusters)


def _cells(
    judgments: pd.DataFrame, judges: Mapping[str, str], owners: Mapping[str, Callable[[str, str], bool]]
) -> list[JudgeAndAuthor]:
    """Return how often each author's answers win with each judge: the mean over pairs, orders within a pair first."""
    sides = [
        judgments.assign(author=judgments[f"{side}_author"], won=(judgments["score"] - off).abs())
        for side, off in (("first", 0), ("second", 1))
    ]
    won = pd.concat(sides).dropna(subset="won").groupby(["author", "pair", "rater"])["won"].mean().reset_index()
    cells = []
    for author, rows in won.groupby("author"):
        for judge, who in judges.items():
            mine = rows[rows["rater"] == judge]
            rest = rows[(rows["rater"] != judge) & rows["pair"].isin(mine["pair"])]
            if mine.empty:
                continue
            owned = {name: owns(who, str(author)) for name, owns in owners.items()}
            others = None if rest.empty else float(rest.groupby("pair")["won"].mean().mean())
            cells.append(
                JudgeAndAuthor(
                    judge=judge,
                    author=str(author),
                    share=float(mine["won"].mean()),
                    others=others,
                    n=len(mine),
                    own=owned[EXCESS],
                    family=owned[FAMILY_EXCESS],
                )
            )
    return cells
