"""Panels: one answer from several votes, how often it is right, and the best panel of a size.

| rule | the panel's answer |
|---|---|
| `majority` | the answer with the most votes |
| `weighted` | the answer with the largest sum of weights: log-odds of each judge's accuracy, see `vote_weights` |
| `unanimous` | the answer of all judges that voted; otherwise no decision |

| ties | when several answers have the most votes (`majority`, `weighted`) |
|---|---|
| `abstain` | no decision |
| `tie` | a tie; pairs only |
| `lowest`, `highest` | the lowest or highest of the tied labels; labels with a known order only |
| `median` | the lower median of all votes for a label; labels with a known order only |
| `first` | the vote of the first judge, in the order of the panel, that voted for a tied answer |

An abstention is a vote for no answer: when it has the most votes the panel has no decision. No decision is an answer
that is not right. A unit with fewer votes than `min_votes` (more than half of the panel unless told otherwise) is
unusable: it leaves the denominator and is counted beside it.

The best panel of a size is never reported on the data it was chosen on: the best of many looks better than it is,
because its luck was part of why it was chosen. So the sources are split in two halves at random; the panel chosen on
one half is reported on the other, and the other way round. How much better a panel looks where it was chosen is the
optimism.

A panel in use (`LivePanel`) counts votes by the function that reads a measured one (`count_votes`), so that on the same
votes it answers the same. The weights of rule `weighted`, cross-fitted there, are those of all units here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from jrh_mlflow.comparing.jury.votes import MISSING, NOT_ASKED, VoteTable, halves
from jrh_mlflow.errors import RecipeError, check_known
from jrh_mlflow.measures.axes import delta_key
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, plain_fields
from jrh_mlflow.schema.items import USABLE
from jrh_mlflow.scoring.ledger import share
from jrh_mlflow.scoring.pointwise import ORDER_UNKNOWN, Scale
from jrh_mlflow.stats import Array, Codes, Mask, Texts

RULES = ("majority", "weighted", "unanimous")
TIES = ("abstain", "tie", "lowest", "highest", "median", "first")
PRIOR_CALLS = 10
"""Weight, in calls, of the mean accuracy of the panel in the accuracy behind a judge's weight."""
MOST_PANELS = 2000
"""Up to here every panel is tried; past it judges are added one by one."""
TOO_FEW = "too few votes"
ABSTAIN = "abstain"
PAIR = Scale(labels=("1", "2", "tie"), ordered=False)
"""What a vote on a pair may be, by slot: the contents of the measured votes in the order uv."""
_EXPECTED = "units with an expected answer"

Panel = tuple[str, ...]
Score = Callable[[Panel], float]


@dataclass(frozen=True, kw_only=True, slots=True)
class PanelAnswers:
    """What a panel answered to each unit of a table."""

    answer: Codes
    """Code of the answer; `table.abstain` for no decision; -1 with too few votes."""
    split: Mask
    """Units where several answers had the most votes, or the vote had to be unanimous and was not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VotingRule:
    """How a panel votes."""

    vote: str = "majority"
    ties: str = "abstain"
    min_votes: int | None = None
    """Fewer votes make a unit unusable; None: more than half of the panel. A smaller panel needs all of its votes."""
    seed: int = 0
    """Of the halves behind cross-fitted weights."""

    def quorum(self, size: int) -> int:
        """Votes that a panel needs to answer."""
        return size // 2 + 1 if self.min_votes is None else min(self.min_votes, size)

    def check(self, table: VoteTable) -> None:
        """Refuse a name that is not known, or a tie rule that does not suit the labels.

        Raises:
            RecipeError: saying which are known.
        """
        check_known("rule", self.vote, RULES)
        check_known("ties", self.ties, TIES)
        n_judges = len(table.judges)
        if self.min_votes is not None and not 1 <= self.min_votes <= n_judges:
            raise RecipeError(f"`1 <= min_votes <= {n_judges}`, the number of judges, must hold: got {self.min_votes}.")
        self.check_ties(table.scale, pointwise=table.pointwise)

    def check_ties(self, scale: Scale, *, pointwise: bool) -> None:
        """Refuse a tie rule that does not suit what may be answered.

        Raises:
            RecipeError: saying which do.
        """
        if self.ties in ("lowest", "highest", "median") and not (pointwise and scale.ordered):
            raise RecipeError(f"Ties {self.ties!r} needs labels with a known order; here: {scale.labels}.")
        if self.ties == "tie" and pointwise:
            raise RecipeError("Ties 'tie' is for pairs: no label is a tie. Use abstain, lowest, highest or median.")


def panel_answer(
    table: VoteTable,
    panel: Sequence[str],
    rule: VotingRule | None = None,
    *,
    weights: Mapping[str, float] | None = None,
) -> PanelAnswers:
    """Let a panel vote on every unit of the table.

    Args:
        table: The votes.
        panel: Judges that vote; their order matters for ties `first` only.
        rule: How they vote; majority when None.
        weights: Judge to weight, for rule `weighted`; cross-fitted when None: on each half of the sources the weights
            are those of the other half.

    Raises:
        RecipeError: when a judge or rule is not known, or the tie rule does not suit the labels.
        CallsError: when there are too few sources to cross-fit weights.
    """
    rule = rule or VotingRule()
    rule.check(table)
    columns = table.columns(panel)
    if rule.vote == "weighted" and weights is None:
        return _cross_fitting(table, rule)(panel)
    given = None if weights is None else np.array([weights[name] for name in panel], dtype=float)
    return count_votes(table.answer[:, columns], rule, n_labels=table.abstain, weights=given)


def count_votes(cast: Codes, rule: VotingRule, *, n_labels: int, weights: Array | None = None) -> PanelAnswers:
    """Make one answer of the votes on each unit.

    Args:
        cast: Codes of the votes, units × judges: a label's place, `n_labels` for an abstention, -1 for no vote.
        rule: How they vote.
        n_labels: What may be answered, abstaining apart.
        weights: Of the judges, for rule `weighted`.
    """
    # A missing vote is -1 and equals no label, so that it counts for none.
    hot = cast[:, :, None] == np.arange(n_labels + 1)
    counts = hot.sum(axis=1).astype(np.intp)
    if weights is None or rule.vote != "weighted":
        tallies = counts.astype(float)
    else:
        tallies = np.einsum("ujc,j->uc", hot, weights)
    # Sums of weights that are equal on paper must count as equal whatever the last bit says.
    top = (tallies >= tallies.max(axis=1, keepdims=True) - 1e-9) & (counts > 0)
    split = np.asarray((counts > 0).sum(axis=1) > 1) if rule.vote == "unanimous" else np.asarray(top.sum(axis=1) > 1)
    answer = top.argmax(axis=1).astype(np.intp)
    ties = "abstain" if rule.vote == "unanimous" else rule.ties
    answer[split] = _broken(cast[split], top[split], ties, n_labels=n_labels)
    # Last: too few votes are no answer, whatever the tie rule made of them.
    lost = counts.sum(axis=1) < rule.quorum(cast.shape[1])
    answer[lost] = MISSING
    return PanelAnswers(answer=answer, split=split & ~lost)


def vote_weights(table: VoteTable, panel: Sequence[str]) -> dict[str, float]:
    """Log-odds weights `log((L - 1) p / (1 - p))` with p a judge's accuracy and L the number of answers.

    The best weights for independent judges who spread their errors evenly over the other answers. p is shrunk towards
    the mean accuracy of the panel as if that had been seen in 10 more calls, with half a call on either side so that
    the odds are finite. A judge at or under chance has weight 0: it is not listened to, and not turned round either.

    Reference:
        Nitzan & Paroush (1982), Int. Econ. Rev. 23:289-297; Shapley & Grofman (1984), Public Choice 43:329-343.
    """
    judged = table.judged
    cast = table.answer[judged][:, table.columns(panel)]
    n = (cast != MISSING).sum(axis=0)
    k = (cast == table.expected[judged][:, None]).sum(axis=0)
    # Without any vote the panel is taken to guess.
    mean = k.sum() / n.sum() if n.sum() else 1 / table.n_answers
    # A judge with few calls is taken for an average one until more is seen of it.
    right: Array = (k + PRIOR_CALLS * mean + 0.5) / (n + PRIOR_CALLS + 1)
    odds = np.log((table.n_answers - 1) * right / (1 - right))
    return {name: max(0.0, float(weight)) for name, weight in zip(panel, odds, strict=True)}


def _cross_fitting(table: VoteTable, rule: VotingRule) -> Callable[[Sequence[str]], PanelAnswers]:
    """Return how a panel votes with weights of the other half; the halves are the same for every panel."""
    sides = halves(table, seed=rule.seed)
    parts = [table.where(side) for side in sides]

    def answers(panel: Sequence[str]) -> PanelAnswers:
        answer = np.full(len(table.item), MISSING, dtype=np.intp)
        split = np.zeros(len(table.item), dtype=bool)
        for side, used, learnt in zip(sides, parts, reversed(parts), strict=True):
            part = panel_answer(used, panel, rule, weights=vote_weights(learnt, panel))
            answer[side], split[side] = part.answer, part.split
        return PanelAnswers(answer=answer, split=split)

    return answers


def _broken(cast: Codes, top: Mask, ties: str, *, n_labels: int) -> Codes:
    """Decide the units in which several answers have the most votes; of tied labels and abstentions a label wins."""
    abstain, rows = n_labels, np.arange(len(cast))
    if ties in ("abstain", "tie"):
        # The contents of pairs are u, v, tie.
        return np.full(len(cast), abstain if ties == "abstain" else n_labels - 1, dtype=np.intp)
    if ties == "lowest":
        return np.asarray(top.argmax(axis=1), dtype=np.intp)
    if ties == "highest":
        # The code of an abstention lies above all labels, and must not win as the highest.
        return np.asarray(n_labels - 1 - top[:, :n_labels][:, ::-1].argmax(axis=1), dtype=np.intp)
    if ties == "median":
        # Missing votes and abstentions sort behind all labels, out of the median's reach.
        labels = np.sort(np.where(cast == MISSING, abstain, cast), axis=1)
        # The lower of two middle labels: between them there is none to answer with.
        middle = ((labels < abstain).sum(axis=1) - 1) // 2
        return np.asarray(labels[rows, middle], dtype=np.intp)
    # A missing vote is -1, which would index the last column.
    tied = (cast != MISSING) & top[rows[:, None], np.maximum(cast, 0)]
    return np.asarray(cast[rows, tied.argmax(axis=1)], dtype=np.intp)


def panel_readings(table: VoteTable, answers: PanelAnswers) -> dict[str, Reading]:
    """Return accuracy, error rate, no_decision and, with two labels, FPR and FNR of a panel.

    FPR is the share of the units that expect the negative label and are answered with the positive one, FNR the other
    way round; no decision is in their denominators and no error of either kind. The positive label is the last.
    """
    rows = table.judged
    judged, answer = table.where(rows), answers.answer[rows]
    right = np.asarray(answer == judged.expected)
    readings = {
        "accuracy": answer_share(judged, answer, _EXPECTED, right),
        "error_rate": answer_share(judged, answer, _EXPECTED, ~right),
        "no_decision": answer_share(judged, answer, _EXPECTED, np.asarray(answer == table.abstain)),
    }
    if table.pointwise and table.scale.kind == "binary":
        readings["fpr"] = _confused(judged, answer, expected=0)
        readings["fnr"] = _confused(judged, answer, expected=1)
    return readings


def panel_accuracy(table: VoteTable, answer: Codes) -> Reading:
    """Share of the units with an expected answer that are answered with it."""
    rows = table.judged
    judged = table.where(rows)
    return answer_share(judged, answer[rows], _EXPECTED, np.asarray(answer[rows] == judged.expected))


def condition_readings(table: VoteTable, answers: PanelAnswers) -> dict[str, Reading]:
    """Accuracy of a panel by condition, the baseline included; the steps of a ladder are conditions of their own."""
    known = table.expected >= 0
    names = [
        f"{condition}/{delta_key(float(delta))}" if delta > 0 else str(condition)
        for condition, delta in zip(table.condition, table.delta, strict=True)
    ]
    named = np.array(names, dtype=object)
    readings: dict[str, Reading] = {}
    for name in dict.fromkeys(named[known]):
        rows = np.asarray(known & (named == name))
        part, answer = table.where(rows), answers.answer[rows]
        readings[str(name)] = answer_share(part, answer, f"{name} units", np.asarray(answer == part.expected))
    return dict(sorted(readings.items()))


def panel_calls(table: VoteTable, answers: PanelAnswers) -> pd.DataFrame:
    """Return a panel's answers as call records, so that a panel can be measured as a judge is.

    A unit with too few votes ends as the first unusable call did; as `error` when no judge was asked.
    """
    # The last two are no decision and too few votes, whose codes are L and -1.
    texts = np.array([*table.scale.labels, "", ""], dtype=object)
    content, right = texts[answers.answer], texts[table.label]
    tie = np.zeros(len(content), dtype=bool) if table.pointwise else np.asarray(content == "tie")
    outcome = np.where(content == "", "abstain", np.where(tie, "tie", "verdict")).astype(object)
    for row in np.flatnonzero(answers.answer == MISSING):
        unusable = [ending for ending in table.outcome[row] if ending not in USABLE and ending != NOT_ASKED]
        outcome[row] = unusable[0] if unusable else "error"
    frame: pd.DataFrame = pd.DataFrame(
        {
            "suite_item": table.item,
            "task": np.array(table.sources, dtype=object)[table.source],
            "condition": table.condition,
            "delta": table.delta,
            "order": table.order,
            "better": "" if table.pointwise else right,
            "replicate": table.replicate,
            "outcome": outcome,
            "answer": content if table.pointwise else _slots(content, table.order),
            "expected": right if table.pointwise else "",
            "label_source": table.label_source,
            "rubric": table.rubric,
        }
    )
    return frame


def answer_share(table: VoteTable, answer: Codes, what: str, hits: Mask) -> Reading:
    """Share of `hits` among the units with an answer; those with too few votes are counted beside it."""
    usable = np.asarray(answer != MISSING)
    return share(table.units(what, usable=usable, left_out={TOO_FEW: int((~usable).sum())}), hits)


def _confused(judged: VoteTable, answer: Codes, *, expected: int) -> Reading:
    if not judged.scale.ordered:
        return NotEstimable(reason=ORDER_UNKNOWN.format(what="positive"))
    rows = np.asarray(judged.expected == expected)
    what = f"units that expect {judged.scale.labels[expected]!r}"
    return answer_share(judged.where(rows), answer[rows], what, np.asarray(answer[rows] == 1 - expected))


def _slots(content: Texts, order: Texts) -> Texts:
    """Put contents back into the slots they stood in; order uv has u in slot 1."""
    first = (content == "u") == (order == "uv")
    chosen = np.isin(content, ("u", "v"))
    return np.where(chosen, np.where(first, "1", "2"), "").astype(object)


@dataclass(frozen=True, kw_only=True, slots=True)
class PanelPoint:
    """A panel of the search, on all units."""

    panel: Panel
    accuracy: float
    """In sample: fine for one panel, too good for the best of many."""
    usd_per_1k: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class HalfChoice:
    """The panel chosen on one half of the sources."""

    panel: Panel
    in_sample: float
    """Accuracy on the half it was chosen on."""
    out_of_sample: Reading
    """Accuracy on the other half."""
    usd_per_1k: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BestPanel:
    """What choosing the best panel of a size is worth."""

    size: int
    max_usd: float | None
    search: str
    """`exhaustive` or `greedy`."""
    n_panels: int
    """Panels that were tried on all units."""
    panel: Panel
    """Chosen on all units: the one to use. Its accuracy is `accuracy`, not that of its point."""
    usd_per_1k: float | None
    readings: Mapping[str, Reading]
    """Cross-fitted: every unit answered by the panel chosen on the half that it is not in; as `panel_readings`."""
    in_sample: float
    """Every unit answered by the panel chosen on its own half."""
    halves: tuple[HalfChoice, HalfChoice]
    points: tuple[PanelPoint, ...]
    notes: tuple[str, ...]

    @property
    def accuracy(self) -> Reading:
        """Cross-fitted."""
        return self.readings["accuracy"]

    @property
    def optimism(self) -> float | None:
        """How much better the chosen panel looks where it was chosen."""
        return self.in_sample - self.accuracy.value if isinstance(self.accuracy, Estimate) else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {**plain_fields(self), "accuracy": self.accuracy.to_dict(), "optimism": self.optimism}


def best_panel(
    table: VoteTable,
    size: int,
    *,
    max_usd: float | None = None,
    rule: VotingRule | None = None,
    seed: int = 0,
    most_panels: int = MOST_PANELS,
) -> BestPanel | NotEstimable:
    """Choose the best panel of `size` judges on one half of the sources, report it on the other, and swap.

    Best is the highest accuracy; of equals the cheaper, then the one named first. Panels that leave too many units
    without an answer are no candidates. All panels are tried up to `most_panels`; with more, judges are added one by
    one, each time the one that helps most.

    Args:
        table: The votes.
        size: Judges of a panel.
        max_usd: Dollars per 1,000 units that a panel may cost, the sum over its members. Judges whose price is not
            known are then left out: unknown is never free.
        rule: How a panel votes; majority when None.
        seed: Of the halves.
        most_panels: Where the exhaustive search ends.

    Raises:
        RecipeError: when there are too few judges, or no panel costs so little.
        CallsError: when there are too few sources to split.
    """
    rule = rule or VotingRule()
    rule.check(table)
    judged = table.where(table.judged)
    search = _Search(table=table, size=size, max_usd=max_usd, most_panels=most_panels)
    sides = halves(judged, seed=seed)
    parts = [judged.where(side) for side in sides]
    chosen = [search.best(search.scored(_scorer(part, rule))) for part in parts]
    # For use the panel is chosen on everything; what it is worth is read across the halves.
    scores = search.scored(_scorer(judged, rule))
    overall = search.best(scores)
    if overall is None or chosen[0] is None or chosen[1] is None:
        reason = f"every panel of {size} leaves more than {100 * table.max_excluded:g}% of the units without an answer"
        return NotEstimable(reason=reason, withheld=True)
    own = np.full(len(judged.item), MISSING, dtype=np.intp)
    crossed = own.copy()
    choices = []
    for panel, here, there in ((chosen[0], 0, 1), (chosen[1], 1, 0)):
        # With all that the panel takes from the half it was chosen on, its weights too.
        weights = vote_weights(parts[here], panel) if rule.vote == "weighted" else None
        inside = panel_answer(parts[here], panel, rule).answer
        outside = panel_answer(parts[there], panel, rule, weights=weights).answer
        own[sides[here]], crossed[sides[there]] = inside, outside
        choices.append(
            HalfChoice(
                panel=panel,
                in_sample=_accuracy(parts[here], inside),
                out_of_sample=panel_accuracy(parts[there], outside),
                usd_per_1k=table.usd_per_1k(panel),
            )
        )
    points = [
        PanelPoint(panel=panel, accuracy=right, usd_per_1k=search.price(panel)) for panel, right in scores.items()
    ]
    return BestPanel(
        size=size,
        max_usd=max_usd,
        search="exhaustive" if search.exhaustive else "greedy",
        n_panels=len(scores),
        panel=overall,
        usd_per_1k=table.usd_per_1k(overall),
        readings=panel_readings(judged, PanelAnswers(answer=crossed, split=np.zeros(len(crossed), dtype=bool))),
        in_sample=_accuracy(judged, own),
        halves=(choices[0], choices[1]),
        points=tuple(points),
        notes=search.notes,
    )


class _Search:
    """The panels that may be chosen, and how they are gone through."""

    def __init__(self, *, table: VoteTable, size: int, max_usd: float | None, most_panels: int) -> None:
        self.size, self.max_usd = size, max_usd
        self.prices = {name: table.usd_per_1k([name]) for name in table.judges}
        self.judges = [name for name in table.judges if max_usd is None or self.prices[name] is not None]
        self.unpriced = [name for name in table.judges if name not in self.judges]
        self._check()
        self.exhaustive = math.comb(len(self.judges), size) <= most_panels

    @property
    def notes(self) -> tuple[str, ...]:
        notes = [f"Left out, price unknown: {', '.join(self.unpriced)}."] if self.unpriced else []
        if not self.exhaustive:
            n_panels = math.comb(len(self.judges), self.size)
            notes.append(f"There are {n_panels} panels: judges were added one by one, not every panel was tried.")
        return tuple(notes)

    def scored(self, score: Score) -> dict[Panel, float]:
        """Return the panels that were tried and have a score."""
        every = filter(self._fits, combinations(self.judges, self.size))
        panels: Iterable[Panel] = every if self.exhaustive else [self._grown(score)]
        scores = {panel: score(panel) for panel in panels}
        return {panel: value for panel, value in scores.items() if not math.isnan(value)}

    def best(self, scores: Mapping[Panel, float]) -> Panel | None:
        """Return the panel with the highest score, or None when none has one."""
        return min(scores, key=lambda panel: self._rank(panel, scores[panel])) if scores else None

    def _check(self) -> None:
        check_limit(self.max_usd)
        n_judges = len(self.prices)
        if not 1 <= self.size <= n_judges:
            raise RecipeError(f"A panel of {self.size} cannot be chosen from {n_judges} judges: give 1 to {n_judges}.")
        if self.max_usd is None:
            return
        if self.size > len(self.judges):
            raise RecipeError(
                f"No panel of {self.size} can be held under ${self.max_usd:g}: the price of {len(self.unpriced)} of "
                f"{n_judges} judges is unknown ({', '.join(self.unpriced)}). Leave the limit out, or measure them with "
                "a price."
            )
        cheapest = sum(sorted(self.prices[name] or 0.0 for name in self.judges)[: self.size])
        if cheapest > self.max_usd:
            raise RecipeError(
                f"No panel of {self.size} costs at most ${self.max_usd:g} per 1,000 judgments: the cheapest costs "
                f"${cheapest:.4g}."
            )

    def price(self, panel: Sequence[str]) -> float | None:
        """Return what a panel costs, or None when a price is not known."""
        known = [price for name in panel if (price := self.prices[name]) is not None]
        return sum(known) if len(known) == len(panel) else None

    def _rank(self, panel: Panel, value: float) -> tuple[float, float]:
        price = self.price(panel)
        # Unknown is never free: of equally good panels one with a price goes first.
        return -value, math.inf if price is None else price

    def _fits(self, panel: Sequence[str]) -> bool:
        """Whether a panel, filled up with the cheapest others, stays under the limit."""
        if self.max_usd is None:
            return True
        # A panel that is still growing is out only if even the cheapest others would make it too dear.
        others = sorted(self.prices[name] or 0.0 for name in self.judges if name not in panel)
        price = self.price(panel) or 0.0
        # Sums of prices differ in their last bit: a panel at the limit itself must fit.
        return price + sum(others[: self.size - len(panel)]) <= self.max_usd * (1 + 1e-12)

    def _grown(self, score: Score) -> Panel:
        panel: Panel = ()
        while len(panel) < self.size:
            wider = [(*panel, name) for name in self.judges if name not in panel and self._fits((*panel, name))]
            values = {grown: score(grown) for grown in wider}
            # NaN has no order, so that a panel without a score is put last by a flag.
            panel = min(values, key=lambda grown: (math.isnan(values[grown]), *self._rank(grown, values[grown])))
        # In the order of the judges, as the exhaustive search would name the same panel.
        return tuple(sorted(panel, key=self.judges.index))


def check_limit(max_usd: float | None) -> None:
    """Refuse a limit that no panel can keep, or that is none."""
    if max_usd is not None and not 0 < max_usd < math.inf:
        raise RecipeError(f"A limit is an amount of more than $0 per 1,000 judgments, but got {max_usd:g}.")


def _scorer(part: VoteTable, rule: VotingRule) -> Score:
    if rule.vote == "weighted":
        # Split once: the halves are the same for all the panels that are tried.
        answers = _cross_fitting(part, rule)
        return lambda panel: _accuracy(part, answers(panel).answer)
    return lambda panel: _accuracy(part, panel_answer(part, panel, rule).answer)


def _accuracy(part: VoteTable, answer: Codes) -> float:
    """Share of right answers; NaN when too many units have none."""
    usable = answer != MISSING
    if not usable.any() or (~usable).sum() / len(usable) > part.max_excluded:
        return math.nan
    return float((answer == part.expected).sum() / usable.sum())


@dataclass(frozen=True, kw_only=True, slots=True)
class CastVote:
    """What one judge said to one presentation."""

    answer: str | None
    """A label, a slot, `tie` or `abstain`; None is no vote."""
    confidence: float | None = None

    @property
    def decided(self) -> bool:
        """Whether it is for an answer: neither an abstention nor missing."""
        return self.answer not in (None, ABSTAIN)


@dataclass(frozen=True, kw_only=True, slots=True)
class JointAnswer:
    """What several judges answer together."""

    answer: str | None
    """None is no usable answer; `why` says the reason."""
    how: str
    """`unanimous`, `majority`, `tie rule`, `first step`, `last step`, or empty without an answer."""
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LivePanel:
    """Judges that all vote."""

    judges: tuple[str, ...]
    """Their order matters for ties `first` only."""
    rule: VotingRule
    weights: tuple[float, ...] | None = None
    """Of the judges, for rule `weighted`."""

    def decide(self, votes: Mapping[str, CastVote], scale: Scale = PAIR) -> JointAnswer:
        """Make one answer of the votes.

        Args:
            votes: Judge to what it said.
            scale: What may be answered; `PAIR` for two responses.

        Raises:
            RecipeError: when the tie rule does not suit what may be answered.
        """
        self.rule.check_ties(scale, pointwise=scale is not PAIR)
        codes = {label: place for place, label in enumerate((*scale.labels, ABSTAIN))}
        cast = [MISSING if (answer := votes[name].answer) is None else codes[answer] for name in self.judges]
        weights = None if self.weights is None else np.array(self.weights, dtype=float)
        counted = count_votes(np.array([cast], dtype=np.intp), self.rule, n_labels=len(scale.labels), weights=weights)
        code, n_votes = int(counted.answer[0]), sum(vote != MISSING for vote in cast)
        if code == MISSING:
            quorum = self.rule.quorum(len(cast))
            return JointAnswer(
                answer=None, how="", why=f"{n_votes} of {len(cast)} judges voted, and {quorum} are needed"
            )
        # A missing vote is nobody's objection.
        same = len(set(cast) - {MISSING}) == 1
        how = "unanimous" if same else "tie rule" if counted.split[0] else "majority"
        return JointAnswer(answer=(*scale.labels, ABSTAIN)[code], how=how)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LivePanel:
        """Read what `to_dict` wrote."""
        weights = data["weights"]
        return cls(
            judges=tuple(data["judges"]),
            rule=VotingRule(**data["rule"]),
            weights=None if weights is None else tuple(weights),
        )


def live_panel(table: VoteTable, panel: Sequence[str], rule: VotingRule) -> LivePanel:
    """Return a panel, measured by the votes of a table, for use; its weights are learnt on all units."""
    weights = tuple(vote_weights(table, panel).values()) if rule.vote == "weighted" else None
    return LivePanel(judges=tuple(panel), rule=rule, weights=weights)
