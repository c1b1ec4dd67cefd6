"""What a click leads to."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jrh_mlflow.errors import ReviewError
from jrh_mlflow.review.decisions import (
    ACCEPTED,
    DECIDED,
    EDITED,
    REJECTED,
    UNDECIDED,
    Click,
    Event,
    GeneratedPart,
    StaleError,
    Standings,
    State,
    decide,
)
from tests.examples import up_to

pytestmark = pytest.mark.quick

GENERATED = GeneratedPart(text="It is Rome.", label="fail", labels=("fail", "pass"))


class Desk:
    """One item, decided on by whoever sits there."""

    def __init__(self):
        self.standings = Standings()

    @property
    def standing(self):
        return self.standings.of("i")

    def click(self, action, who="Ann", version=None, **more):
        version = self.standing.version if version is None else version
        click = Click(action=action, who=who, version=version, **more)
        before, after = self.standing.state, decide(self.standing, click, GENERATED)
        number = self.standings.last + 1
        about = {"number": number, "item": "i", "who": who, "when": "now", "facts": click.facts}
        event = Event(**about, action=action, before=before, after=after)
        self.standings.add([event])
        return after


def test_an_accepted_item_keeps_its_text_and_label():
    assert Desk().click("accept") == State(state=ACCEPTED)


def test_an_edit_keeps_what_it_does_not_mention():
    desk = Desk()
    assert desk.click("edit", text="It is Oslo.") == State(state=EDITED, text="It is Oslo.")
    assert desk.click("edit", label="pass") == State(state=EDITED, text="It is Oslo.", label="pass")


def test_accepting_what_another_edited_keeps_the_edit():
    desk = Desk()
    desk.click("edit", text="It is Oslo.")
    assert desk.click("accept", who="Bob") == State(state=EDITED, text="It is Oslo.")


def test_an_edit_back_to_the_generated_text_is_an_acceptance():
    desk = Desk()
    desk.click("edit", text="It is Oslo.")
    assert desk.click("edit", text=GENERATED.text) == State(state=ACCEPTED)


@pytest.mark.parametrize(
    ("action", "more", "told"),
    [
        ("reject", {}, "needs a reason"),
        ("reject", {"reason": "  "}, "needs a reason"),
        ("edit", {}, "neither text nor label"),
        ("edit", {"text": "It is Rome."}, "neither text nor label"),
        ("edit", {"label": "fail"}, "neither text nor label"),
        ("edit", {"text": " \n"}, "empty"),
        ("edit", {"label": "maybe"}, "Unknown label 'maybe'. Known: fail, pass"),
        ("undo", {}, "nothing to undo"),
        ("reopen", {}, "undecided already"),
        ("erase", {}, "Unknown action"),
    ],
)
def test_a_click_that_makes_no_sense_is_refused_with_the_reason(action, more, told):
    with pytest.raises(ReviewError, match=told):
        Desk().click(action, **more)


def test_an_item_without_a_label_has_none_to_edit():
    wordless = GeneratedPart(text="x", label=None, labels=("fail", "pass"))
    with pytest.raises(ReviewError, match="direction"):
        decide(Standings().of("i"), Click(action="edit", who="Ann", version=0, label="pass"), wordless)


def test_a_decision_about_what_somebody_else_changed_is_refused_with_their_name():
    desk = Desk()
    desk.click("accept", who="Ann")
    with pytest.raises(StaleError, match="Ann accepted this item meanwhile"):
        desk.click("reject", who="Bob", version=0, reason="wrong")
    assert desk.standing.state.state == ACCEPTED


def test_undo_walks_back_one_click_at_a_time():
    desk = Desk()
    desk.click("accept")
    desk.click("reject", reason="odd")
    assert desk.click("undo") == State(state=ACCEPTED)
    assert desk.click("undo") == State()
    with pytest.raises(ReviewError, match="nothing to undo"):
        desk.click("undo")


def test_nobody_undoes_what_another_decided():
    desk = Desk()
    desk.click("accept", who="Ann")
    with pytest.raises(ReviewError, match="Ann's, not yours"):
        desk.click("undo", who="Bob")


def test_reopening_forgets_the_edit():
    desk = Desk()
    desk.click("edit", text="It is Oslo.", label="pass")
    assert desk.click("reopen", who="Bob").state == UNDECIDED
    assert not desk.standing.state.changed


def test_what_each_reviewer_decided_is_kept_apart():
    desk = Desk()
    desk.click("accept", who="Ann")
    desk.click("reject", who="Bob", reason="no")
    assert (desk.standing.mine("Ann").state, desk.standing.mine("Bob").state) == (ACCEPTED, REJECTED)
    desk.click("undo", who="Bob")
    assert desk.standing.mine("Bob") is None
    assert desk.standing.state.state == ACCEPTED


CLICKS = st.tuples(
    st.sampled_from(["accept", "edit", "reject", "undo", "reopen"]),
    st.sampled_from(["Ann", "Bob"]),
    st.sampled_from(["It is Oslo.", "It is Rome.", "It is Bonn."]),
)


@settings(max_examples=up_to(60), deadline=None)
@given(st.lists(CLICKS, max_size=12))
def test_undoing_any_click_restores_the_state_before_it(clicks):
    desk = Desk()
    for action, who, text in clicks:
        more = {"text": text} if action == "edit" else {"reason": "no"} if action == "reject" else {}
        before, depth = desk.standing.state, len(desk.standing.stack)
        try:
            desk.click(action, who, **more)
        except ReviewError:
            assert desk.standing.state == before
            continue
        if action != "undo":
            assert desk.click("undo", who) == before
            assert len(desk.standing.stack) == depth
            desk.click(action, who, **more)
    assert desk.standing.state.state in (UNDECIDED, *DECIDED)
