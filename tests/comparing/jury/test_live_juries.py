"""Live panels and cascades: on recorded calls they answer exactly what the measured jury answered, unit by unit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jrh_mlflow.comparing.jury.jury_report import Cascade, LiveCascade, cascade, cascade_answers, live_cascade
from jrh_mlflow.comparing.jury.panels import (
    RULES,
    TIES,
    CastVote,
    LivePanel,
    VotingRule,
    live_panel,
    panel_answer,
    vote_weights,
)
from jrh_mlflow.comparing.jury.votes import MISSING, VoteTable, halves, votes
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from jrh_mlflow.scoring.pointwise import Scale
from tests.comparing.jury.jury_tools import SPECIAL, pair_calls, said

LEVELS = ("1", "2", "3")
GIVEN = (*LEVELS, *SPECIAL)
YES_NO = Scale(labels=("no", "yes"), ordered=True)


def cast(table: VoteTable, row: int) -> dict[str, CastVote]:
    """What each judge said to a unit, in words."""
    texts = [*table.scale.labels, "abstain"]
    return {
        name: CastVote(
            answer=None if (code := table.answer[row, column]) == MISSING else texts[code],
            confidence=None if np.isnan(sure := table.confidence[row, column]) else float(sure),
        )
        for column, name in enumerate(table.judges)
    }


def words(table: VoteTable, codes: Sequence[int]) -> list[str | None]:
    texts = [*table.scale.labels, "abstain"]
    return [None if code == MISSING else texts[code] for code in codes]


def lived(table: VoteTable, panel: LivePanel, rows: Sequence[int] | None = None) -> list[str | None]:
    kept = LivePanel.from_dict(json.loads(json.dumps(panel.to_dict())))
    assert kept == panel, "a panel is the same after it was written down and read"
    chosen = range(len(table.item)) if rows is None else rows
    return [kept.decide(cast(table, row), table.scale).answer for row in chosen]


def level_table(given: Sequence[Sequence[str]], seed: int = 0) -> VoteTable:
    expected = [LEVELS[place] for place in np.random.default_rng(seed).integers(0, 3, len(given[0]))]
    return votes({f"j{n}": said(own, expected) for n, own in enumerate(given)}, labels=LEVELS, max_excluded=1.0)


answers_of_judges = st.integers(1, 5).flatmap(
    lambda n: st.integers(4, 12).flatmap(
        lambda units: st.lists(st.lists(st.sampled_from(GIVEN), min_size=units, max_size=units), min_size=n, max_size=n)
    )
)


@settings(max_examples=20, deadline=None)
@given(
    given=answers_of_judges,
    vote=st.sampled_from(RULES),
    ties=st.sampled_from([one for one in TIES if one != "tie"]),
    quorum=st.one_of(st.none(), st.integers(1, 5)),
)
def test_a_live_panel_answers_what_the_measured_jury_answered(given, vote, ties, quorum):
    table = level_table(given)
    fewest = None if quorum is None else min(quorum, len(given))
    rule = VotingRule(vote=vote, ties=ties, min_votes=fewest)
    weights = vote_weights(table, table.judges) if vote == "weighted" else None
    measured = panel_answer(table, table.judges, rule, weights=weights).answer
    assert lived(table, live_panel(table, table.judges, rule)) == words(table, measured)


def test_with_the_weights_of_a_half_a_live_panel_answers_what_the_cross_fitted_jury_answered():
    rng = np.random.default_rng(4)
    table = level_table([list(rng.choice(GIVEN, 60)) for _ in range(4)])
    rule = VotingRule(vote="weighted", ties="first")
    crossed = words(table, panel_answer(table, table.judges, rule).answer)
    first, second = halves(table, seed=rule.seed)
    for learnt, used in ((first, second), (second, first)):
        panel = live_panel(table.where(learnt), table.judges, rule)
        rows = np.flatnonzero(used)
        assert lived(table, panel, rows) == [crossed[row] for row in rows]
    whole = live_panel(table, table.judges, rule)
    assert whole.weights == tuple(vote_weights(table, table.judges).values()), "in use the weights of all units count"


@pytest.mark.parametrize("ties", ["abstain", "tie", "first"])
def test_a_live_panel_of_pairs_answers_by_slot_what_the_measured_one_answers_by_content(ties):
    given = ["1", "2", "tie", "abstain", "unparsed", "error"]
    rng = np.random.default_rng(1)
    calls = {f"j{n}": pair_calls([tuple(rng.choice(given, 2)) for _ in range(40)]) for n in range(4)}
    table, rule = votes(calls, max_excluded=1.0), VotingRule(ties=ties)
    panel, measured = live_panel(table, table.judges, rule), panel_answer(table, table.judges, rule).answer
    by_slot = {name: frame.set_index(["suite_item", "order"]) for name, frame in calls.items()}
    for row, (item, order) in enumerate(zip(table.item, table.order, strict=True)):
        shown = {name: _slot_vote(frame.loc[(item, order)]) for name, frame in by_slot.items()}
        contents = {"uv": {"1": "u", "2": "v"}, "vu": {"1": "v", "2": "u"}}[order]
        answer = panel.decide(shown).answer
        assert contents.get(answer, answer) == words(table, measured)[row]


def _slot_vote(call: Any) -> CastVote:
    return CastVote(answer={"verdict": call.answer, "tie": "tie", "abstain": "abstain"}.get(call.outcome))


def test_too_few_votes_are_no_answer_and_say_so():
    panel = LivePanel(judges=("a", "b", "c"), rule=VotingRule())
    decision = panel.decide(
        {"a": CastVote(answer="yes"), "b": CastVote(answer=None), "c": CastVote(answer=None)}, YES_NO
    )
    assert decision.answer is None
    assert decision.why == "1 of 3 judges voted, and 2 are needed"


def test_a_tie_rule_that_the_answers_do_not_suit_is_refused():
    both = {"a": CastVote(answer="yes"), "b": CastVote(answer="no")}
    with pytest.raises(RecipeError, match="is for pairs"):
        LivePanel(judges=("a", "b"), rule=VotingRule(ties="tie")).decide(both, YES_NO)
    with pytest.raises(RecipeError, match="known order"):
        LivePanel(judges=("a", "b"), rule=VotingRule(ties="lowest")).decide(
            {"a": CastVote(answer="1"), "b": CastVote(answer="2")}
        )


def cascade_table(seed: int, *, replicates: int = 1) -> VoteTable:
    rng = np.random.default_rng(seed)
    n = 30
    expected = list(rng.choice(LEVELS, n))
    frames = {}
    for name in ("cheap", "other", "strong"):
        parts = []
        for replicate in range(replicates):
            # Replicates that mostly agree, so that some of them are sure.
            same = list(np.where(np.random.default_rng(seed).random(n) < 0.6, expected, rng.choice(GIVEN, n)))
            sure = np.where(rng.random(n) < 0.1, np.nan, rng.random(n).round(1))
            parts.append(said(same, expected, replicate=replicate, confidence=sure, cost_usd=0.001))
        frames[name] = pd.concat(parts, ignore_index=True)
    return votes(frames, labels=LEVELS, max_excluded=1.0)


def _measured(table: VoteTable, cheap: Sequence[str], unsure: str) -> Cascade:
    found = cascade(table, list(cheap), "strong", unsure=unsure)
    assert not isinstance(found, NotEstimable)
    return found


def cascaded(table: VoteTable, found: Cascade) -> list[str | None]:
    """What the measured cascade answered, which is what its accuracy was read from."""
    answers = words(table, cascade_answers(table, found).answer)
    usable = [one == right for one, right in zip(answers, words(table, table.expected), strict=True) if one is not None]
    assert isinstance(found.accuracy, Estimate)
    assert found.accuracy.value == pytest.approx(sum(usable) / len(usable))
    return answers


def _walk(live: LiveCascade, asked: dict[str, list[CastVote]]) -> str | None:
    """Ask as a live scorer does: the cheap ones first, the strong one when they are unsure."""
    first = {name: asked[name][: live.replicates] for name in live.cheap}
    decision = live.first(first)
    return decision.answer if decision is not None else live.last(asked["strong"][0]).answer


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("unsure", "cheap"), [("abstain", ["cheap"]), ("disagree", ["cheap", "other"])])
def test_a_live_cascade_answers_what_the_measured_one_answered(seed, unsure, cheap):
    table = cascade_table(seed)
    found = _measured(table, cheap, unsure)
    live = live_cascade(found)
    assert LiveCascade.from_dict(json.loads(json.dumps(live.to_dict()))) == live
    given = [_walk(live, {name: [vote] for name, vote in cast(table, row).items()}) for row in range(len(table.item))]
    assert given == cascaded(table, found)


@pytest.mark.parametrize("seed", range(4))
def test_with_the_threshold_of_a_half_a_live_cascade_answers_what_the_cross_fitted_one_answered(seed):
    table = cascade_table(seed)
    found = _measured(table, ["cheap"], "confidence")
    crossed = cascaded(table, found)
    sides = halves(table, seed=0)
    for threshold, used in zip(found.thresholds, sides, strict=True):
        live = live_cascade(found, threshold=threshold)
        for row in np.flatnonzero(used):
            assert _walk(live, {name: [vote] for name, vote in cast(table, row).items()}) == crossed[row]
    assert live_cascade(found).threshold == found.threshold, "in use the threshold chosen on all units counts"


def test_the_threshold_in_use_is_the_best_one_on_all_units():
    table = cascade_table(1)
    found = _measured(table, ["cheap"], "confidence")

    def right(threshold: float) -> float:
        live = live_cascade(found, threshold=threshold)
        given = [_walk(live, {name: [one] for name, one in cast(table, row).items()}) for row in range(len(table.item))]
        usable = [(one, want) for one, want in zip(given, words(table, table.expected), strict=True) if one is not None]
        return sum(one == want for one, want in usable) / len(usable)

    known = table.confidence[:, 0]
    candidates = [*np.unique(known[~np.isnan(known)]), 1.1]
    assert found.threshold is not None
    assert right(found.threshold) == max(map(right, candidates))


@pytest.mark.parametrize("seed", range(4))
def test_a_live_cascade_asks_the_cheap_judge_as_often_as_the_measured_one_did(seed):
    table = cascade_table(seed, replicates=3)
    found = _measured(table, ["cheap"], "replicates")
    live = live_cascade(found)
    assert live.replicates == 3
    measured, sure = cascaded(table, found), 0
    for item in dict.fromkeys(table.item):
        rows = np.flatnonzero(table.item == item)
        asked = [cast(table, row) for row in rows]
        for place, row in enumerate(rows):
            given = _walk(live, {"cheap": [one["cheap"] for one in asked], "strong": [asked[place]["strong"]]})
            assert given == measured[row]
        sure += live.first({"cheap": [one["cheap"] for one in asked]}) is not None
    assert 0 < sure < len(set(table.item))


def test_a_strong_judge_that_failed_is_no_answer():
    live = LiveCascade(cheap=("a",), strong="b", unsure="abstain", threshold=None, replicates=1)
    assert live.first({"a": [CastVote(answer="abstain")]}) is None
    assert live.last(CastVote(answer=None)).why == "a was unsure, and b gave no usable answer"
