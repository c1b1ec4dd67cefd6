"""Panels: one answer from the votes of several judges.

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

How often a panel is right, and its answers as call records; every share comes from the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.measures.datasheet import delta_key
from jrh_mlflow.measures.jury.votes import MISSING, NOT_ASKED, Array, Codes, Texts, VoteTable, halves
from jrh_mlflow.schema.calls import USABLE
from jrh_mlflow.schema.estimates import NotEstimable, Reading
from jrh_mlflow.scoring.accuracy import ORDER_UNKNOWN
from jrh_mlflow.scoring.ledger import Mask, share

RULES = ("majority", "weighted", "unanimous")
TIES = ("abstain", "tie", "lowest", "highest", "median", "first")
PRIOR_CALLS = 10
"""Weight, in calls, of the mean accuracy of the panel in the accuracy behind a judge's weight."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PanelAnswers:
    """What a panel answered to each unit of a table."""

    answer: Codes
    """Code of the answer; `table.abstain` for no decision; -1 with too few votes."""
    split: Mask
    """Units where several answers had the most votes, or the vote had to be unanimous and was not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
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
        for what, value, known in (("rule", self.vote, RULES), ("ties", self.ties, TIES)):
            if value not in known:
                raise RecipeError(f"Unknown {what} {value!r}.{suggest(str(value), known)} Known: {', '.join(known)}.")
        n_judges = len(table.judges)
        if self.min_votes is not None and not 1 <= self.min_votes <= n_judges:
            raise RecipeError(f"`1 <= min_votes <= {n_judges}`, the number of judges, must hold: got {self.min_votes}.")
        if self.ties in ("lowest", "highest", "median") and not (table.pointwise and table.scale.ordered):
            raise RecipeError(f"Ties {self.ties!r} needs labels with a known order; here: {table.scale.labels}.")
        if self.ties == "tie" and table.pointwise:
            raise RecipeError("Ties 'tie' is for pairs: no label is a tie. Use abstain, lowest, highest or median.")


def panel_answer(
    table: VoteTable, panel: Sequence[str], rule: Rule | None = None, *, weights: Mapping[str, float] | None = None
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
    rule = rule or Rule()
    rule.check(table)
    columns = table.columns(panel)
    if rule.vote == "weighted" and weights is None:
        return _cross_fitted(table, panel, rule)
    cast = table.answer[:, columns]
    hot = cast[:, :, None] == np.arange(table.abstain + 1)
    counts = hot.sum(axis=1).astype(np.intp)
    if weights is None or rule.vote != "weighted":
        tallies = counts.astype(float)
    else:
        tallies = np.einsum("ujc,j->uc", hot, np.array([weights[name] for name in panel], dtype=float))
    # Sums of weights that are equal on paper must count as equal whatever the last bit says.
    top = (tallies >= tallies.max(axis=1, keepdims=True) - 1e-9) & (counts > 0)
    split = np.asarray((counts > 0).sum(axis=1) > 1) if rule.vote == "unanimous" else np.asarray(top.sum(axis=1) > 1)
    answer = top.argmax(axis=1).astype(np.intp)
    ties = "abstain" if rule.vote == "unanimous" else rule.ties
    answer[split] = _broken(cast[split], top[split], ties, n_labels=table.abstain)
    lost = counts.sum(axis=1) < rule.quorum(len(panel))
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
    judged = table.where(table.judged)
    cast = judged.answer[:, table.columns(panel)]
    n = (cast != MISSING).sum(axis=0)
    k = (cast == judged.expected[:, None]).sum(axis=0)
    mean = k.sum() / n.sum() if n.sum() else 1 / table.n_answers
    right: Array = (k + PRIOR_CALLS * mean + 0.5) / (n + PRIOR_CALLS + 1)
    odds = np.log((table.n_answers - 1) * right / (1 - right))
    return {name: max(0.0, float(weight)) for name, weight in zip(panel, odds, strict=True)}


def _cross_fitted(table: VoteTable, panel: Sequence[str], rule: Rule) -> PanelAnswers:
    answer = np.full(len(table.item), MISSING, dtype=np.intp)
    split = np.zeros(len(table.item), dtype=bool)
    first, second = halves(table, seed=rule.seed)
    for learnt, used in ((first, second), (second, first)):
        part = panel_answer(table.where(used), panel, rule, weights=vote_weights(table.where(learnt), panel))
        answer[used], split[used] = part.answer, part.split
    return PanelAnswers(answer=answer, split=split)


def _broken(cast: Codes, top: Mask, ties: str, *, n_labels: int) -> Codes:
    """Decide the units in which several answers have the most votes; of tied labels and abstentions a label wins."""
    abstain, rows = n_labels, np.arange(len(cast))
    if ties in ("abstain", "tie"):
        # The contents of pairs are u, v, tie.
        return np.full(len(cast), abstain if ties == "abstain" else n_labels - 1, dtype=np.intp)
    if ties == "lowest":
        return np.asarray(top.argmax(axis=1), dtype=np.intp)
    if ties == "highest":
        return np.asarray(n_labels - 1 - top[:, :n_labels][:, ::-1].argmax(axis=1), dtype=np.intp)
    if ties == "median":
        labels = np.sort(np.where(cast == MISSING, abstain, cast), axis=1)
        middle = ((labels < abstain).sum(axis=1) - 1) // 2
        return np.asarray(labels[rows, middle], dtype=np.intp)
    tied = (cast != MISSING) & top[rows[:, None], np.maximum(cast, 0)]
    return np.asarray(cast[rows, tied.argmax(axis=1)], dtype=np.intp)


TOO_FEW = "too few votes"
_EXPECTED = "units with an expected answer"


def panel_readings(table: VoteTable, given: PanelAnswers) -> dict[str, Reading]:
    """Return accuracy, error rate, no_decision and, with two labels, FPR and FNR of a panel.

    FPR is the share of the units that expect the negative label and are answered with the positive one, FNR the other
    way round; no decision is in their denominators and no error of either kind. The positive label is the last.
    """
    rows = table.judged
    judged, answer = table.where(rows), given.answer[rows]
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


def condition_readings(table: VoteTable, given: PanelAnswers) -> dict[str, Reading]:
    """Accuracy of a panel by condition, the baseline included; the steps of a ladder are conditions of their own."""
    known = table.expected >= 0
    names = [
        f"{condition}/{delta_key(float(delta))}" if delta > 0 else str(condition)
        for condition, delta in zip(table.condition, table.delta, strict=True)
    ]
    named = np.array(names, dtype=object)
    found: dict[str, Reading] = {}
    for name in dict.fromkeys(named[known]):
        rows = np.asarray(known & (named == name))
        part, answer = table.where(rows), given.answer[rows]
        found[str(name)] = answer_share(part, answer, f"{name} units", np.asarray(answer == part.expected))
    return dict(sorted(found.items()))


def panel_calls(table: VoteTable, given: PanelAnswers) -> pd.DataFrame:
    """Return a panel's answers as call records, so that a panel can be measured as a judge is.

    A unit with too few votes ends as the first unusable call did; as `error` when no judge was asked.
    """
    # The last two are no decision and too few votes, whose codes are L and -1.
    texts = np.array([*table.scale.labels, "", ""], dtype=object)
    content, right = texts[given.answer], texts[table.expected]
    tie = np.zeros(len(content), dtype=bool) if table.pointwise else np.asarray(content == "tie")
    outcome = np.where(content == "", "abstain", np.where(tie, "tie", "verdict")).astype(object)
    lost = given.answer == MISSING
    outcome[lost] = _endings(table.outcome[lost])
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


def _endings(outcomes: Texts) -> list[str]:
    unusable = [[one for one in row if one not in USABLE and one != NOT_ASKED] for row in outcomes]
    return [row[0] if row else "error" for row in unusable]
