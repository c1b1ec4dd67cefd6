"""Where reviewers disagree: found, looked at side by side, settled for good, and told at the end."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from jrh_mlflow.errors import ReviewError
from jrh_mlflow.review.decisions import ACCEPTED, REJECTED, SETTLED, UNSETTLED, State
from jrh_mlflow.review.finish import finish, log_review
from jrh_mlflow.suites.suite import read_suite
from jrh_mlflow.tracking.runs.store import Store, download
from tests.review.browser import Open, ask, counts, decide, looks, press, title, violations
from tests.review.making import opened, reviewing, saved_suite
from tests.review.test_api import decide as click_on
from tests.review.test_result import decide as decided
from tests.review.test_states import Desk

REJECT = {"reason": "no"}


@pytest.mark.parametrize(
    ("one", "other", "on"),
    [
        (("accept", {}), ("reject", REJECT), ("decision",)),
        (("edit", {"text": "It is Oslo."}), ("edit", {"text": "It is Bonn."}), ("text",)),
        (("edit", {"label": "pass"}), ("edit", {"label": "fail"}), ("label",)),
        (("accept", {}), ("edit", {"text": "It is Oslo."}), ("text",)),
        (("accept", {}), ("accept", {}), ()),
        (("edit", {"text": "It is Oslo."}), ("accept", {}), ()),
        (("reject", REJECT), ("reject", {"reason": "another reason"}), ()),
    ],
)
def test_reviewers_disagree_when_what_each_leaves_is_not_the_same(one, other, on):
    desk = Desk()
    desk.click(one[0], "Ann", **one[1])
    desk.click(other[0], "Bob", **other[1])
    assert desk.standing.disputed == on
    assert desk.standing.disagreement == (UNSETTLED if on else None)


def disputed():
    desk = Desk()
    desk.click("accept", "Ann")
    desk.click("reject", "Bob", reason="reads oddly")
    return desk


def test_the_last_decision_counts_until_somebody_settles_it_as_one_decided():
    desk = disputed()
    assert desk.standing.state.state == REJECTED
    assert desk.click("settle", "Cy", settles=True, as_decided_by="Ann") == State(state=ACCEPTED)
    assert (desk.standing.disagreement, desk.standing.settled.who) == (SETTLED, "Cy")
    assert list(desk.standing.opinions) == ["Ann", "Bob"], "to settle is no third opinion"
    assert desk.standings.reviewers == ["Ann", "Bob", "Cy"]


def test_a_settled_item_takes_no_decision_until_it_is_reopened_or_settled_anew():
    desk = disputed()
    desk.click("accept", "Ann", settles=True)
    with pytest.raises(ReviewError, match="Ann settled this item"):
        desk.click("reject", "Bob", reason="still odd")
    assert desk.click("settle", "Bob", settles=True, as_decided_by="Bob").reason == "reads oddly"
    assert desk.click("undo", "Bob") == State(state=ACCEPTED)
    assert desk.standing.settled.who == "Ann"
    desk.click("reopen", "Cy")
    assert (desk.standing.disagreement, desk.standing.state) == (UNSETTLED, State())


@pytest.mark.parametrize(
    ("action", "more", "told"),
    [
        ("accept", {"settles": True}, "nothing to settle"),
        ("settle", {"as_decided_by": "Ann"}, "say so with `settles`"),
        ("settle", {"settles": True, "as_decided_by": "Eve"}, "'Eve' decided nothing here. Known: Ann, Bob"),
    ],
)
def test_a_settlement_that_makes_no_sense_is_refused(action, more, told):
    desk = disputed() if "Eve" in told else Desk()
    with pytest.raises(ReviewError, match=told):
        desk.click(action, "Cy", **more)


def test_the_queue_lists_what_is_unsettled_with_both_decisions_and_settling_empties_it(tmp_path):
    with reviewing(saved_suite(tmp_path / "suite")) as client:
        api = f"/api/suites/{client.get('/api/suites')[0]['key']}"
        click_on(client, api, 0, "accept", who="Ann")
        click_on(client, api, 0, "reject", who="Bob", reason="odd")
        click_on(client, api, 2, "accept", who="Ann")
        assert client.get(api)["disagreements"] == {"unsettled": 1, "settled": 0}
        (row,) = client.get(f"{api}/items?disagreement=unsettled")["items"]
        item = client.get(f"{api}/items/{row['index']}")
        assert [(one["who"], one["state"], one.get("reason")) for one in item["opinions"]] == [
            ("Ann", "accepted", None),
            ("Bob", "rejected", "odd"),
        ]
        assert (item["disputed"], item["settled"]) == (["decision"], None)
        status, told = click_on(client, api, 0, "settle", who="Cy", settles=True, as_decided_by="Ann")
        assert (status, told["state"], told["disagreement"]) == (200, "accepted", "settled")
        settled = client.get(f"{api}/items/0")["settled"]
        assert (settled["by"], settled["as"], settled["when"] > "2020") == ("Cy", "Ann", True)
        assert client.get(f"{api}/items?disagreement=unsettled")["total"] == 0
        status, problem = click_on(client, api, 0, "reject", who="Bob", reason="odd")
        assert (status, problem["message"].startswith("Cy settled this item")) == (422, True)


def test_the_reviewed_suite_and_its_run_say_what_was_settled(tmp_path, store_uri):
    review = opened(saved_suite(tmp_path / "suite"))
    for index in (0, 2, 4, 6):
        decided(review, index, "accept", who="Ann")
    for index in (0, 2):
        decided(review, index, "reject", who="Bob", reason="odd")
    decided(review, 0, "settle", who="Cy", settles=True, as_decided_by="Ann")
    done = finish(review, who="Ann")
    assert done.facts["disagreements"] == {"unsettled": 1, "settled": 1}
    kept = {item.id: item.meta.get("review") for item in read_suite(done.path).items}
    assert (kept["s0000/label_flip"]["by"], kept["s0000/label_flip"]["settled"]) == ("Cy", True)
    assert "s0001/label_flip" not in kept, "unsettled: the last decision counts"
    logged = log_review(review, done, who="Ann", store=Store(store_uri, "review"))
    assert logged["metrics"]["review/disagreements/settled"] == 1
    assert logged["metrics"]["review/disputed"] == 2
    file = download(f"runs:/{logged['run_id']}/decisions.csv", tracking_uri=store_uri)
    with file.open(newline="") as rows:
        assert [row["who"] for row in csv.DictReader(rows) if row["settles"]] == ["Cy"]


@pytest.mark.slow
def test_disagreements_are_settled_by_keyboard_side_by_side(frost: tuple[str, Path], visit: Open) -> None:
    url, folder = frost
    review = opened(folder)
    for index in (0, 1):
        decided(review, index, "accept", who="Ann")
    bob = visit(url, "Bob")
    expect(bob.locator("#disagreements")).to_be_hidden()
    decide(bob, "k", "k", then="seed-0000")
    decide(bob, "r", "2", then="seed-0002")
    expect(bob.locator("#disagreements")).to_contain_text("1 disagreement")
    decide(bob, "k", then="seed-0001")
    press(bob, "e", *"Well, ", "Control+Enter")
    expect(bob.locator("#disagreements")).to_contain_text("2 disagreements")

    cy = visit(url, "Cy")
    ask(cy, "f")
    expect(cy.locator("#unsettled")).to_contain_text("2 disagreements unsettled: on each the last decision counts")
    # The browser tells of the closing in a task of its own; the key comes before that, as a fast finger's may.
    cy.evaluate(
        """async () => {
            document.querySelector("dialog .quiet").click();
            for (let turn = 0; turn < 50; turn += 1) await null;
            document.dispatchEvent(new KeyboardEvent("keydown", { key: "g", bubbles: true }));
        }"""
    )
    expect(title(cy)).to_have_text(re.compile("seed-0000"))
    expect(cy.locator("#found")).to_have_text("2 items")
    expect(cy.locator(".opinion")).to_have_count(2)
    expect(cy.locator(".opinion").nth(1)).to_contain_text("The meaning changed where it should not")
    decide(cy, "1", then="seed-0001")
    expect(cy.locator(".opinion").nth(1).locator("ins")).to_contain_text("Well,")
    press(cy, "r", "4")
    expect(cy.locator("#item")).to_contain_text("No item matches")
    expect(cy.locator("#disagreements")).to_be_hidden()
    press(cy, "x")
    decide(cy, "k", "k", "k", then="seed-0000")
    expect(cy.locator("#disagreement")).to_contain_text(re.compile("Settled by Cy .*as Ann decided"))
    press(cy, "a")
    expect(cy.locator(".toast")).to_contain_text("Cy settled this item")
    expect(title(cy)).to_have_text(re.compile("seed-0000"))
    expect(counts(cy)).to_contain_text("✓ 1 accepted")
    visit.complaints[:] = [one for one in visit.complaints if "422" not in one]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_what_is_disputed_and_its_questions_are_accessible(frost: tuple[str, Path], visit: Open) -> None:
    review = opened(frost[1])
    for who, action, more in (("Ann", "accept", {}), ("A Reviewer Of Many Names", "reject", {"reason": "odd"})):
        decided(review, 0, action, who=who, **more)
    page = visit(frost[0], bypass_csp=True)

    def nothing_is_wrong(within: str = "dialog") -> None:
        for width in looks(page):
            assert violations(page, within) == []
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width

    page.locator("#disagreements").click()
    expect(page.locator("#disagreement")).to_be_visible()
    nothing_is_wrong("body")
    for name, keys in {"bulk": ["x", "b"], "finish": ["f"], "people": ["p"]}.items():
        press(page, *keys)
        expect(page.locator("dialog")).to_be_visible()
        nothing_is_wrong()
        if name == "people":
            page.get_by_role("button", name="Assign…").click()
            expect(page.locator("#assign-names")).to_be_focused()
            nothing_is_wrong()
        press(page, "Escape")
        expect(page.locator("dialog")).to_have_count(0)
