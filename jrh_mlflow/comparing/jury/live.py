"""Juries and cascades in use: the answer to one presentation from what each judge said to it.

The votes are counted by the function that reads a measured jury (`count_votes`), so on the same votes a live panel
answers what the measured one answered. Two things were cross-fitted there, so that no number was read on the data it
was chosen on, and are those chosen on all units here: the weights of rule `weighted` (`Seat.weight`) and the threshold
of a cascade by confidence (`Cascade.threshold`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from jrh_mlflow.comparing.jury.jury_report import Cascade
from jrh_mlflow.comparing.jury.panels import VotingRule, count_votes, vote_weights
from jrh_mlflow.comparing.jury.votes import MISSING, VoteTable
from jrh_mlflow.scoring.pointwise import Scale
from jrh_mlflow.stats import Mask

ABSTAIN = "abstain"
PAIR = Scale(labels=("1", "2", "tie"), ordered=False)
"""What a vote on a pair may be, by slot: the contents of the measured votes in the order uv."""


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
        found = count_votes(np.array([cast], dtype=np.intp), self.rule, n_labels=len(scale.labels), weights=weights)
        code, n_votes = int(found.answer[0]), sum(one != MISSING for one in cast)
        if code == MISSING:
            quorum = self.rule.quorum(len(cast))
            return JointAnswer(
                answer=None, how="", why=f"{n_votes} of {len(cast)} judges voted, and {quorum} are needed"
            )
        same = len(set(cast) - {MISSING}) == 1
        how = "unanimous" if same else "tie rule" if found.split[0] else "majority"
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

    def first(self, votes: Mapping[str, Sequence[CastVote]]) -> JointAnswer | None:
        """Return the cheap judges' answer, or None when they are unsure: then the strong one is asked.

        Args:
            votes: Each cheap judge to what it said, `replicates` times.
        """
        said = [vote for name in self.cheap for vote in votes[name]]
        # With `disagree` and `replicates` sure is who says the same every time; otherwise there is one vote.
        if not all(vote.decided for vote in said) or len({vote.answer for vote in said}) > 1:
            return None
        if self.unsure == "confidence" and not self._confident(said[0]):
            return None
        return JointAnswer(answer=said[0].answer, how="first step")

    def last(self, vote: CastVote) -> JointAnswer:
        """Return the strong judge's answer."""
        if vote.answer is None:
            why = f"{' and '.join(self.cheap)} {'was' if len(self.cheap) == 1 else 'were'} unsure"
            return JointAnswer(answer=None, how="", why=f"{why}, and {self.strong} gave no usable answer")
        return JointAnswer(answer=vote.answer, how="last step")

    def _confident(self, vote: CastVote) -> bool:
        return vote.confidence is not None and self.threshold is not None and vote.confidence >= self.threshold

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LiveCascade:
        """Read what `to_dict` wrote."""
        return cls(
            cheap=tuple(data["cheap"]),
            strong=data["strong"],
            unsure=data["unsure"],
            threshold=data["threshold"],
            replicates=data["replicates"],
        )


def live_panel(table: VoteTable, panel: Sequence[str], rule: VotingRule, *, learnt: Mask | None = None) -> LivePanel:
    """Return a measured panel for use.

    Args:
        table: The votes it was measured by.
        panel: Its judges.
        rule: How it votes.
        learnt: Units that the weights are learnt on; all when None.
    """
    units = table if learnt is None else table.where(learnt)
    weights = tuple(vote_weights(units, panel).values()) if rule.vote == "weighted" else None
    return LivePanel(judges=tuple(panel), rule=rule, weights=weights)


def live_cascade(found: Cascade, *, threshold: float | None = None) -> LiveCascade:
    """Return a measured cascade for use, with the threshold chosen on all units unless another is given."""
    return LiveCascade(
        cheap=found.cheap,
        strong=found.strong,
        unsure=found.unsure,
        threshold=found.threshold if threshold is None else threshold,
        replicates=found.replicates,
    )
