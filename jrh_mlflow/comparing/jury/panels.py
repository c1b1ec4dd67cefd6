"""Panels: one answer from several votes, how often it is right, and the best panel of a size.

A panel answers with the majority: the answer with the most votes.

| ties | when several answers have the most votes |
|---|---|
| `abstain` | no decision |
| `tie` | a tie; pairs only |
| `lowest`, `highest` | the lowest or highest of the tied labels; labels with a known order only |
| `median` | the lower median of all votes for a label; labels with a known order only |
| `first` | the vote of the first judge of the panel that voted for a tied answer |

An abstention is a vote for no answer: when it has the most votes the panel has no decision. No
decision is an answer that is not right. A unit with fewer votes than `min_votes` (more than half of
the panel by default) is unusable: it leaves the denominator and is counted beside it.

The best panel of a size is never reported on the data it was chosen on: the best of many looks
better than it is, because its luck was part of why it was chosen. So the sources are split in two
halves at random; the panel chosen on one half is reported on the other, and the other way round.
How much better a panel looks where it was chosen is the optimism.

A panel in use (`LivePanel`) counts votes by the function that reads a measured one (`count_votes`),
so that on the same votes it answers the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from jrh_mlflow.comparing.jury.votes import MISSING, NOT_ASKED, VoteTable, halves
from jrh_mlflow.errors import RecipeError, check_known
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, plain_fields
from jrh_mlflow.schema.items import USABLE
from jrh_mlflow.scoring.ledger import share
from jrh_mlflow.scoring.pointwise import ORDER_UNKNOWN, Scale
from jrh_mlflow.stats import Codes, Mask, Texts

TIES = ("abstain", "tie", "lowest", "highest", "median", "first")
MOST_PANELS = 20_000
"""More panels of one size are refused: trying them would take minutes."""
TOO_FEW = "too few votes"
ABSTAIN = "abstain"
PAIR = Scale(labels=("1", "2", "tie"), ordered=False)
"""What a vote on a pair may be, by slot: the contents of the measured votes in the order uv."""
_EXPECTED = "units with an expected answer"

Panel = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class VotingRule:
    """How the majority of a panel is counted."""

    ties: str = "abstain"
    min_votes: int | None = None
    """Fewer votes make a unit unusable; None: more than half. A smaller panel needs all votes."""

    def quorum(self, size: int) -> int:
        """Votes that a panel needs to answer."""
        return size // 2 + 1 if self.min_votes is None else min(self.min_votes, size)

    def check(self, table: VoteTable) -> None:
        """Refuse a tie rule that is not known or does not suit the labels.

        Raises:
            RecipeError: saying which rules there are.
        """
        check_known("ties", self.ties, TIES)
        n_judges = len(table.judges)
        if self.min_votes is not None and not 1 <= self.min_votes <= n_judges:
            raise RecipeError(f"`1 <= min_votes <= {n_judges}`, the number of judges, must hold: got {self.min_votes}.")
        self.check_ties(table.scale, pointwise=table.pointwise)

    def check_ties(self, scale: Scale, *, pointwise: bool) -> None:
        """Refuse a tie rule that does not suit what may be answered.

        Raises:
            RecipeError: saying which rules do.
        """
        needs_order = self.ties in ("lowest", "highest", "median")
        if needs_order and not (pointwise and scale.ordered):
            raise RecipeError(f"Ties {self.ties!r} needs labels with a known order; here: {scale.labels}.")
        if self.ties == "tie" and pointwise:
            raise RecipeError("Ties 'tie' is for pairs: no label is a tie. Use abstain, lowest, highest or median.")


@dataclass(frozen=True, kw_only=True, slots=True)
class PanelAnswers:
    """What a panel answered to each unit of a table."""

    answer: Codes
    """Code of the answer; `table.abstain` for no decision; -1 with too few votes."""
    split: Mask
    """Units where several answers had the most votes."""


def panel_answer(table: VoteTable, panel: Sequence[str], rule: VotingRule | None = None) -> PanelAnswers:
    """Let a panel vote on every unit of the table.

    Args:
        table: The votes.
        panel: Judges that vote; their order matters for ties `first` only.
        rule: How they vote; a draw is no decision when None.

    Raises:
        RecipeError: when a judge or rule is not known, or the tie rule does not suit the labels.
    """
    rule = rule or VotingRule()
    rule.check(table)
    return count_votes(table.answer[:, table.columns(panel)], rule, n_labels=table.abstain)


def count_votes(cast: Codes, rule: VotingRule, *, n_labels: int) -> PanelAnswers:
    """Make one answer of the votes on each unit.

    Args:
        cast: Units × judges: code of a label, `n_labels` for an abstention, -1 for no vote.
        rule: How they vote.
        n_labels: What may be answered, not counting an abstention.
    """
    # A missing vote is -1 and equals no label, so that it counts for none.
    counts = (cast[:, :, None] == np.arange(n_labels + 1)).sum(axis=1)
    top = (counts == counts.max(axis=1, keepdims=True)) & (counts > 0)
    split = np.asarray(top.sum(axis=1) > 1)
    answer = top.argmax(axis=1).astype(np.intp)
    answer[split] = _break_ties(cast[split], top[split], rule.ties, n_labels=n_labels)
    # Last: too few votes are no answer, whatever the tie rule made of them.
    too_few = counts.sum(axis=1) < rule.quorum(cast.shape[1])
    answer[too_few] = MISSING
    return PanelAnswers(answer=answer, split=split & ~too_few)


def _break_ties(cast: Codes, top: Mask, ties: str, *, n_labels: int) -> Codes:
    """Decide split units; between a label and an abstention with as many votes, a label wins."""
    n_units = len(cast)
    if ties == "abstain":
        return np.full(n_units, n_labels, dtype=np.intp)
    if ties == "tie":
        # The last content of a pair is the tie.
        return np.full(n_units, n_labels - 1, dtype=np.intp)
    if ties == "lowest":
        return np.asarray(top.argmax(axis=1), dtype=np.intp)
    if ties == "highest":
        # The code of an abstention lies above all labels, and must not win as the highest.
        from_above = top[:, :n_labels][:, ::-1].argmax(axis=1)
        return np.asarray(n_labels - 1 - from_above, dtype=np.intp)
    rows = np.arange(n_units)
    if ties == "median":
        # Missing votes and abstentions sort behind all labels, out of the median's reach.
        labels = np.sort(np.where(cast == MISSING, n_labels, cast), axis=1)
        # The lower of two middle labels: between them there is none to answer with.
        middle = ((labels < n_labels).sum(axis=1) - 1) // 2
        return np.asarray(labels[rows, middle], dtype=np.intp)
    # A missing vote is -1, which would index the last column.
    tied = (cast != MISSING) & top[rows[:, None], np.maximum(cast, 0)]
    return np.asarray(cast[rows, tied.argmax(axis=1)], dtype=np.intp)


def panel_readings(table: VoteTable, answer: Codes) -> dict[str, Reading]:
    """Return accuracy, error rate, no_decision and, with two labels, FPR and FNR of a panel.

    FPR is the share of the units that expect the negative label and are answered with the positive
    one, FNR the other way round; no decision is in their denominators and no error of either kind.
    The positive label is the last.
    """
    judged = table.where(table.judged)
    answer = answer[table.judged]
    right = np.asarray(answer == judged.expected)
    undecided = np.asarray(answer == table.abstain)
    readings = {
        "accuracy": _answer_share(judged, answer, _EXPECTED, right),
        "error_rate": _answer_share(judged, answer, _EXPECTED, ~right),
        "no_decision": _answer_share(judged, answer, _EXPECTED, undecided),
    }
    if table.pointwise and table.scale.kind == "binary":
        readings["fpr"] = _confused(judged, answer, expected=0)
        readings["fnr"] = _confused(judged, answer, expected=1)
    return readings


def _answer_share(table: VoteTable, answer: Codes, what: str, hits: Mask) -> Reading:
    """Share of `hits` among the units with an answer; too few votes are counted beside it."""
    usable = np.asarray(answer != MISSING)
    units = table.units(what, usable=usable, left_out={TOO_FEW: int((~usable).sum())})
    return share(units, hits)


def _confused(judged: VoteTable, answer: Codes, *, expected: int) -> Reading:
    if not judged.scale.ordered:
        return NotEstimable(reason=ORDER_UNKNOWN.format(what="positive"))
    rows = np.asarray(judged.expected == expected)
    what = f"units that expect {judged.scale.labels[expected]!r}"
    confused = np.asarray(answer[rows] == 1 - expected)
    return _answer_share(judged.where(rows), answer[rows], what, confused)


def panel_calls(table: VoteTable, answers: PanelAnswers) -> pd.DataFrame:
    """Return a panel's answers as call records, so that a panel can be measured as a judge is.

    A unit with too few votes ends as the first unusable call did; as `error` when no judge was
    asked.
    """
    # The last two are no decision and too few votes, whose codes are L and -1.
    texts = np.array([*table.scale.labels, "", ""], dtype=object)
    answer = texts[answers.answer]
    right = texts[table.label]
    outcome = np.where(answer == "", "abstain", "verdict").astype(object)
    if not table.pointwise:
        outcome[answer == "tie"] = "tie"
    for row in np.flatnonzero(answers.answer == MISSING):
        failed = [end for end in table.outcome[row] if end not in USABLE and end != NOT_ASKED]
        outcome[row] = failed[0] if failed else "error"
    calls: pd.DataFrame = pd.DataFrame(
        {
            "suite_item": table.item,
            "task": np.array(table.sources, dtype=object)[table.source],
            "condition": table.condition,
            "delta": table.delta,
            "order": table.order,
            "better": "" if table.pointwise else right,
            "replicate": table.replicate,
            "outcome": outcome,
            "answer": answer if table.pointwise else _slots(answer, table.order),
            "expected": right if table.pointwise else "",
            "label_source": table.label_source,
            "rubric": table.rubric,
        }
    )
    return calls


def _slots(content: Texts, order: Texts) -> Texts:
    """Put contents back into the slots they stood in; order uv has u in slot 1."""
    first = (content == "u") == (order == "uv")
    slots = np.where(first, "1", "2").astype(object)
    slots[~np.isin(content, ("u", "v"))] = ""
    return slots


# The best panel of a size


@dataclass(frozen=True, kw_only=True, slots=True)
class BestPanel:
    """What choosing the best panel of a size is worth."""

    size: int
    max_usd: float | None
    panel: Panel
    """Chosen on all units: the one to use. Its accuracy is `accuracy`, not that in `tried`."""
    usd_per_1k: float | None
    readings: Mapping[str, Reading]
    """Cross-fitted: a unit is answered by the panel chosen on the half that it is not in."""
    in_sample: float
    """Every unit answered by the panel chosen on its own half."""
    halves: tuple[Panel, Panel]
    """The panels chosen on either half."""
    tried: Mapping[Panel, float]
    """Every panel with its accuracy on all units: too good for the best of many."""
    unpriced: tuple[str, ...]
    """Judges left out because their price is unknown and there is a limit."""

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
        names = ("size", "max_usd", "panel", "usd_per_1k", "readings", "in_sample", "halves")
        return {
            **plain_fields(self, *names, "unpriced"),
            "tried": [{"panel": panel, "accuracy": right} for panel, right in self.tried.items()],
            "accuracy": self.accuracy.to_dict(),
            "optimism": self.optimism,
        }


def best_panel(
    table: VoteTable,
    size: int,
    *,
    max_usd: float | None = None,
    rule: VotingRule | None = None,
    seed: int = 0,
) -> BestPanel | NotEstimable:
    """Choose the best panel of `size` judges on one half of the sources, report it on the other.

    Both halves are chosen on in turn. Best is the highest accuracy; of equals the cheaper, then the
    one named first. Every panel of the size is tried; those that leave too many units without an
    answer are no candidates.

    Args:
        table: The votes.
        size: Judges of a panel.
        max_usd: Dollars per 1,000 units that a panel may cost, the sum over its members. Judges
            whose price is not known are then left out: unknown is never free.
        rule: How a panel votes; a draw is no decision when None.
        seed: Of the halves.

    Raises:
        RecipeError: when there are too few judges or too many panels, or no panel costs so little.
        CallsError: when there are too few sources to split.
    """
    rule = rule or VotingRule()
    rule.check(table)
    usd_of_judge = {name: table.usd_per_1k([name]) for name in table.judges}
    unpriced = tuple(name for name, usd in usd_of_judge.items() if usd is None)
    prices = _prices_of_panels(usd_of_judge, size)
    candidates = _candidates(prices, unpriced, max_usd)
    judged = table.where(table.judged)
    sides = halves(judged, seed=seed)
    parts = [judged.where(side) for side in sides]
    chosen = [_most_accurate(_accuracies(part, candidates, rule), prices) for part in parts]
    # For use the panel is chosen on all units; what it is worth is read across the halves.
    tried = _accuracies(judged, candidates, rule)
    overall = _most_accurate(tried, prices)
    first, second = chosen
    if overall is None or first is None or second is None:
        limit = 100 * table.max_excluded
        reason = f"every panel of {size} leaves more than {limit:g}% of the units without an answer"
        return NotEstimable(reason=reason, withheld=True)
    inside = np.full(len(judged.item), MISSING, dtype=np.intp)
    crossed = inside.copy()
    for panel, here, there in ((first, 0, 1), (second, 1, 0)):
        inside[sides[here]] = panel_answer(parts[here], panel, rule).answer
        crossed[sides[there]] = panel_answer(parts[there], panel, rule).answer
    return BestPanel(
        size=size,
        max_usd=max_usd,
        panel=overall,
        usd_per_1k=prices[overall],
        readings=panel_readings(judged, crossed),
        in_sample=_accuracy(judged, inside),
        halves=(first, second),
        tried=tried,
        unpriced=() if max_usd is None else unpriced,
    )


def _prices_of_panels(usd_of_judge: Mapping[str, float | None], size: int) -> dict[Panel, float | None]:
    """Return every panel of one size with its price; None where that of a member is unknown.

    Raises:
        RecipeError: when there are too few judges or too many panels.
    """
    n_judges = len(usd_of_judge)
    if not 1 <= size <= n_judges:
        raise RecipeError(f"A panel of {size} cannot be chosen from {n_judges} judges: give 1 to {n_judges}.")
    n_panels = math.comb(n_judges, size)
    if n_panels > MOST_PANELS:
        raise RecipeError(
            f"At most {MOST_PANELS:,} panels are tried, but {n_judges} judges make {n_panels:,} "
            f"panels of {size}. Give fewer runs or another size."
        )
    prices: dict[Panel, float | None] = {}
    for panel in combinations(usd_of_judge, size):
        known = [usd for name in panel if (usd := usd_of_judge[name]) is not None]
        prices[panel] = sum(known) if len(known) == size else None
    return prices


def _candidates(prices: Mapping[Panel, float | None], unpriced: Sequence[str], max_usd: float | None) -> list[Panel]:
    """Return the panels that cost at most `max_usd`.

    Raises:
        RecipeError: when there is none.
    """
    check_limit(max_usd)
    if max_usd is None:
        return list(prices)
    size = len(next(iter(prices)))
    known = {panel: usd for panel, usd in prices.items() if usd is not None}
    if not known:
        raise RecipeError(
            f"No panel of {size} can be held under ${max_usd:g}: the price of {len(unpriced)} "
            f"judges is unknown ({', '.join(unpriced)}). Leave the limit out, or measure them with "
            f"a price."
        )
    # Sums of prices differ in their last bit: a panel at the limit itself must fit.
    affordable = [panel for panel, usd in known.items() if usd <= max_usd * (1 + 1e-12)]
    if not affordable:
        raise RecipeError(
            f"No panel of {size} costs at most ${max_usd:g} per 1,000 judgments: the cheapest "
            f"costs ${min(known.values()):.4g}."
        )
    return affordable


def check_limit(max_usd: float | None) -> None:
    """Refuse a limit that no panel can keep, or that is none."""
    if max_usd is not None and not 0 < max_usd < math.inf:
        raise RecipeError(f"A limit is an amount of more than $0 per 1,000 judgments, but got {max_usd:g}.")


def _accuracies(part: VoteTable, candidates: Sequence[Panel], rule: VotingRule) -> dict[Panel, float]:
    """Accuracy of the candidates that answer enough units."""
    scores = {panel: _accuracy(part, panel_answer(part, panel, rule).answer) for panel in candidates}
    return {panel: right for panel, right in scores.items() if not math.isnan(right)}


def _accuracy(part: VoteTable, answer: Codes) -> float:
    """Share of right answers; NaN when too many units have none."""
    usable = answer != MISSING
    if not usable.any() or (~usable).sum() / len(usable) > part.max_excluded:
        return math.nan
    return float((answer == part.expected).sum() / usable.sum())


def _most_accurate(scores: Mapping[Panel, float], prices: Mapping[Panel, float | None]) -> Panel | None:
    """Return the panel with the highest score, of equals the cheapest; None when none has one."""

    def rank(panel: Panel) -> tuple[float, float]:
        usd = prices[panel]
        # Unknown is never free: of equally good panels one with a price goes first.
        return -scores[panel], math.inf if usd is None else usd

    return min(scores, key=rank) if scores else None


# A panel in use


@dataclass(frozen=True, kw_only=True, slots=True)
class JointAnswer:
    """What several judges answer together."""

    answer: str | None
    """None is no usable answer; `why` says the reason."""
    how: str = ""
    """`unanimous`, `majority`, `tie rule`, or empty without an answer."""
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LivePanel:
    """Judges that all vote."""

    judges: tuple[str, ...]
    """Their order matters for ties `first` only."""
    rule: VotingRule

    def decide(self, votes: Mapping[str, str | None], scale: Scale = PAIR) -> JointAnswer:
        """Make one answer of the votes.

        Args:
            votes: Judge to its answer: a label, a slot, `tie` or `abstain`; None is no vote.
            scale: What may be answered; `PAIR` for two responses.

        Raises:
            RecipeError: when the tie rule does not suit what may be answered.
        """
        self.rule.check_ties(scale, pointwise=scale is not PAIR)
        texts = [*scale.labels, ABSTAIN]
        answers = [votes[name] for name in self.judges]
        cast = [MISSING if answer is None else texts.index(answer) for answer in answers]
        codes = np.array([cast], dtype=np.intp)
        counted = count_votes(codes, self.rule, n_labels=len(scale.labels))
        code = int(counted.answer[0])
        voted = [answer for answer in answers if answer is not None]
        if code == MISSING:
            quorum = self.rule.quorum(len(cast))
            why = f"{len(voted)} of {len(cast)} judges voted, and {quorum} are needed"
            return JointAnswer(answer=None, why=why)
        how = "tie rule" if counted.split[0] else "majority"
        if len(set(voted)) == 1:
            # A missing vote is nobody's objection.
            how = "unanimous"
        return JointAnswer(answer=texts[code], how=how)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LivePanel:
        """Read what `to_dict` wrote."""
        return cls(judges=tuple(data["judges"]), rule=VotingRule(**data["rule"]))
