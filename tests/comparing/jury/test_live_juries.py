"""Live panels: on recorded calls they answer exactly what the measured jury answered, unit by unit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jrh_mlflow.comparing.jury.panels import TIES, LivePanel, VotingRule, panel_answer
from jrh_mlflow.comparing.jury.votes import MISSING, VoteTable, votes
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.scoring.pointwise import Scale
from tests.comparing.jury.jury_tools import SPECIAL, pair_calls, said

LEVELS = ("1", "2", "3")
GIVEN = (*LEVELS, *SPECIAL)
YES_NO = Scale(labels=("no", "yes"), ordered=True)


def cast(table: VoteTable, row: int) -> dict[str, str | None]:
    """What each judge said to a unit, in words."""
    return dict(zip(table.judges, words(table, table.answer[row]), strict=True))


def words(table: VoteTable, codes: Sequence[int]) -> list[str | None]:
    texts = [*table.scale.labels, "abstain"]
    return [None if code == MISSING else texts[code] for code in codes]


def lived(table: VoteTable, panel: LivePanel) -> list[str | None]:
    kept = LivePanel.from_dict(json.loads(json.dumps(panel.to_dict())))
    assert kept == panel, "a panel is the same after it was written down and read"
    return [kept.decide(cast(table, row), table.scale).answer for row in range(len(table.item))]


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
    ties=st.sampled_from([one for one in TIES if one != "tie"]),
    quorum=st.one_of(st.none(), st.integers(1, 5)),
)
def test_a_live_panel_answers_what_the_measured_jury_answered(given, ties, quorum):
    table = level_table(given)
    fewest = None if quorum is None else min(quorum, len(given))
    rule = VotingRule(ties=ties, min_votes=fewest)
    measured = panel_answer(table, table.judges, rule).answer
    assert lived(table, LivePanel(judges=table.judges, rule=rule)) == words(table, measured)


@pytest.mark.parametrize("ties", ["abstain", "tie", "first"])
def test_a_live_panel_of_pairs_answers_by_slot_what_the_measured_one_answers_by_content(ties):
    given = ["1", "2", "tie", "abstain", "unparsed", "error"]
    rng = np.random.default_rng(1)
    calls = {f"j{n}": pair_calls([tuple(rng.choice(given, 2)) for _ in range(40)]) for n in range(4)}
    table, rule = votes(calls, max_excluded=1.0), VotingRule(ties=ties)
    panel, measured = LivePanel(judges=table.judges, rule=rule), panel_answer(table, table.judges, rule).answer
    by_slot = {name: frame.set_index(["suite_item", "order"]) for name, frame in calls.items()}
    for row, (item, order) in enumerate(zip(table.item, table.order, strict=True)):
        shown = {name: _slot_vote(frame.loc[(item, order)]) for name, frame in by_slot.items()}
        contents = {"uv": {"1": "u", "2": "v"}, "vu": {"1": "v", "2": "u"}}[order]
        answer = panel.decide(shown).answer
        assert contents.get(answer, answer) == words(table, measured)[row]


def _slot_vote(call: Any) -> str | None:
    return {"verdict": call.answer, "tie": "tie", "abstain": "abstain"}.get(call.outcome)


def test_too_few_votes_are_no_answer_and_say_so():
    panel = LivePanel(judges=("a", "b", "c"), rule=VotingRule())
    decision = panel.decide({"a": "yes", "b": None, "c": None}, YES_NO)
    assert decision.answer is None
    assert decision.why == "1 of 3 judges voted, and 2 are needed"


def test_a_tie_rule_that_the_answers_do_not_suit_is_refused():
    both = {"a": "yes", "b": "no"}
    with pytest.raises(RecipeError, match="is for pairs"):
        LivePanel(judges=("a", "b"), rule=VotingRule(ties="tie")).decide(both, YES_NO)
    with pytest.raises(RecipeError, match="known order"):
        LivePanel(judges=("a", "b"), rule=VotingRule(ties="lowest")).decide({"a": "1", "b": "2"})
