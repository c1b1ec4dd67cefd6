"""The keys of the review page: in order, each once, each about the item that was shown; and what they never do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.review.browser import Open, Serve, ask, counts, decide, perturbed, press, row_of, save, title


class SlowServer:
    """Holds every decision back until the test lets it through: no clock is involved."""

    def __init__(self, visit: Open, url: str) -> None:
        self.held: list[Route] = []
        self.bodies: list[dict[str, Any]] = []
        self.gone = False
        # Chromium tells a page that is open of a new route beside its key presses: the first decision could slip by.
        self.page = visit(url, prepare=lambda page: page.route("**/decisions", self._hold))

    def _hold(self, route: Route) -> None:
        assert not self.held, "two decisions were under way at once"
        self.bodies.append(json.loads(route.request.post_data or ""))
        if self.gone:
            route.abort("connectionrefused")
        else:
            self.held.append(route)

    def first(self) -> None:
        """Wait for the first decision."""
        while not self.held:
            self.page.evaluate("() => new Promise(requestAnimationFrame)")

    def answer(self) -> None:
        """Let one decision through and wait until the next one is asked for, or the page has nothing left to do."""
        n_asked = len(self.bodies)
        self.held.pop().continue_()
        while len(self.bodies) == n_asked and self.page.evaluate(_AT_WORK):
            pass

    def answered(self) -> list[tuple[int, str]]:
        """Let all decisions through that come now, and return them."""
        self.first()
        n_before = len(self.bodies) - 1
        while self.held:
            self.answer()
        return [(body["index"], body["action"]) for body in self.bodies[n_before:]]


_AT_WORK = """() => new Promise(requestAnimationFrame).then(() =>
  document.querySelector("#actions[aria-busy=true]") !== null && document.querySelector("dialog[open]") === null)"""


def typos(folder: Path, n: int, **meta: Any) -> Path:
    return save(folder, [perturbed(number, "typos", "Frst forms.", **meta) for number in range(n)])


@pytest.fixture
def many(tmp_path: Path, serve: Serve) -> str:
    return serve(typos(tmp_path / "many", 40))


def test_presses_faster_than_the_server_decide_in_order_each_once_about_the_item_that_was_shown(
    many: str, visit: Open
) -> None:
    server = SlowServer(visit, many)
    page = server.page
    press(page, *["a"] * 12)
    server.first()
    expect(page.locator("#waiting")).to_have_text("11 waiting")
    assert server.answered() == [(index, "accept") for index in range(12)]
    expect(counts(page)).to_contain_text("12 of 40 decided")
    expect(title(page)).to_have_text(re.compile("seed-0012"))
    expect(page.locator("#waiting")).to_be_hidden()

    # Different keys keep their order, and a number behind a rejection is its reason.
    press(page, "a", "r", "2", "j", "a", "u", "a")
    assert server.answered() == [(12, "accept"), (13, "reject"), (15, "accept"), (15, "undo"), (15, "accept")]
    assert server.bodies[-4]["reason"] == "The meaning changed where it should not"
    expect(title(page)).to_have_text(re.compile("seed-0016"))

    # Keys behind a saved edit are about the next item.
    press(page, "e", *"Hi ", "Control+Enter", "a", "a")
    assert server.answered() == [(16, "edit"), (17, "accept"), (18, "accept")]
    assert server.bodies[-3]["text"].startswith("Hi Frst")

    # What is typed before a question opens does not answer it.
    press(page, "a", "b", "Enter", "Enter", "a", "f")
    assert server.answered() == [(19, "accept")]
    expect(page.locator("dialog h2")).to_have_text("Accept 21 items?")
    press(page, "Escape")
    expect(page.locator("dialog")).to_have_count(0)
    expect(counts(page)).to_contain_text("19 of 40 decided")
    expect(title(page)).to_have_text(re.compile("seed-0020"))


@pytest.mark.slow
def test_presses_beyond_the_last_item_decide_nothing_twice(tmp_path: Path, serve: Serve, visit: Open) -> None:
    server = SlowServer(visit, serve(typos(tmp_path / "three", 3)))
    page = server.page
    press(page, *["a"] * 9)
    assert server.answered() == [(0, "accept"), (1, "accept"), (2, "accept")]
    expect(page.locator(".toast")).to_contain_text("Everything is decided")


@pytest.mark.slow
def test_a_refused_decision_stops_what_waits_behind_it_and_says_so(many: str, visit: Open) -> None:
    server = SlowServer(visit, many)
    ann, bob = server.page, visit(many, "Bob")
    press(ann, *["a"] * 5)
    server.first()
    decide(bob, "n", then="seed-0001")
    decide(bob, "r", "3", then="seed-0002")
    assert server.answered() == [(0, "accept"), (1, "accept")]
    expect(ann.locator(".toast")).to_contain_text("Bob rejected this item meanwhile")
    expect(ann.locator(".toast")).to_contain_text("3 key presses behind it were dropped")
    expect(title(ann)).to_have_text(re.compile("seed-0001"))
    expect(ann.locator(".head .state")).to_contain_text("rejected")


@pytest.mark.slow
def test_a_server_that_is_gone_stops_what_waits_and_nothing_is_sent_later(many: str, visit: Open) -> None:
    server = SlowServer(visit, many)
    page = server.page
    press(page, *["a"] * 4)
    server.first()
    server.gone = True
    server.answer()
    expect(page.locator(".toast")).to_contain_text("The server does not answer")
    expect(page.locator(".toast")).to_contain_text("2 key presses behind it were dropped")
    expect(counts(page)).to_contain_text("1 of 40 decided")
    assert [body["index"] for body in server.bodies] == [0, 1]
    page.unroute("**/decisions")
    decide(page, "a", then="seed-0002")
    visit.complaints.clear()  # type: ignore[attr-defined]  # Chromium tells of the refused connection


def test_enter_space_and_a_key_that_is_held_down_answer_no_question(many: str, visit: Open) -> None:
    page = visit(many)
    ask(page, "f")
    page.get_by_label("Leave the 40 undecided items out").check()
    page.get_by_role("button", name="Write suite").focus()
    pressed = """(repeat) => document.activeElement.dispatchEvent(
      new KeyboardEvent("keydown", { key: "Enter", repeat, cancelable: true, bubbles: true }))"""
    assert page.evaluate(pressed, True) is False
    assert page.evaluate(pressed, False) is True
    press(page, "Escape")
    expect(page.locator("dialog")).to_have_count(0)
    ask(page, "b")
    expect(page.locator("dialog h2")).to_be_focused()
    press(page, "Enter", "Space", "a", "Enter")
    expect(page.locator("dialog h2")).to_have_text("Accept 40 items?")
    press(page, "Tab", "Enter")
    expect(page.locator("dialog")).to_have_count(0)
    expect(counts(page)).to_contain_text("0 of 40 decided")
    ask(page, "b")
    page.get_by_role("button", name="Accept 40").click()
    expect(counts(page)).to_contain_text("40 of 40 decided")


@pytest.mark.slow
def test_up_and_down_move_as_left_and_right_do_also_in_the_list(many: str, visit: Open) -> None:
    page = visit(many)
    decide(page, "ArrowDown", then="seed-0001")
    decide(page, "ArrowRight", then="seed-0002")
    decide(page, "ArrowUp", then="seed-0001")
    decide(page, "ArrowLeft", then="seed-0000")
    row_of(page, "seed-0003").click()
    expect(title(page)).to_have_text(re.compile("seed-0003"))
    row_of(page, "seed-0003").focus()
    decide(page, "ArrowDown", then="seed-0004")
    expect(row_of(page, "seed-0004")).to_be_focused()
    decide(page, "ArrowUp", "ArrowUp", then="seed-0002")
    expect(row_of(page, "seed-0002")).to_be_focused()
    press(page, *["ArrowDown"] * 30)
    expect(title(page)).to_have_text(re.compile("seed-0032"))
    expect(row_of(page, "seed-0032")).to_be_focused()


@pytest.mark.slow
def test_arrows_belong_to_fields_and_to_a_text_that_scrolls(tmp_path: Path, serve: Serve, visit: Open) -> None:
    pairs = [perturbed(number, "typos", "Frst\nforms.") for number in range(3)]
    long = "A line of the question.\n" * 40
    pairs = [tuple(_asked(item, long) for item in pair) for pair in pairs]  # type: ignore[misc]
    page = visit(serve(save(tmp_path / "long", pairs)))
    instruction = page.get_by_role("region", name="Instruction")
    instruction.focus()
    press(page, "ArrowDown", "ArrowDown")
    page.wait_for_function("node => node.scrollTop > 0", arg=instruction.element_handle())
    expect(title(page)).to_have_text(re.compile("seed-0000"))
    decide(page, "ArrowRight", then="seed-0001")
    press(page, "e", "ArrowDown", *"x")
    expect(page.locator("#edit-text")).to_have_value("Frst\nxforms.")
    press(page, "Escape", "s", "ArrowDown")
    expect(page.locator("#filter-state")).to_have_value("undecided")
    expect(title(page)).to_have_text(re.compile("seed-0001"))


def _asked(item: Any, instruction: str) -> Any:
    from dataclasses import replace

    return replace(item, instruction=instruction)


@pytest.mark.slow
def test_a_decision_on_an_item_by_code_leaves_the_total_and_the_number_of_a_reason_settles_nothing(
    tmp_path: Path, serve: Serve, visit: Open
) -> None:
    pairs = [perturbed(number, "typos", "Frst.", generator="code" if number > 1 else "a-model") for number in range(4)]
    page = visit(serve(save(tmp_path / "mixed", pairs)))
    expect(counts(page)).to_contain_text("0 of 2 decided")
    expect(counts(page)).to_contain_text("+ 2 by code")
    decide(page, "a", then="seed-0001")
    decide(page, "j", then="seed-0002")
    ask(page, "r")
    decide(page, "1", then="seed-0001")
    expect(counts(page)).to_contain_text("1 of 2 decided")
    expect(counts(page)).to_contain_text("+ 2 by code, 1 of them decided")
    decide(page, "j", then="seed-0002")  # acts wait for one another: whatever the number did is done by now
    assert page.locator(".toast").count() == 0
    expect(page.locator(".chips")).to_contain_text("an optional decision, not in the total")
    press(page, "o")
    expect(counts(page)).not_to_contain_text("of them decided")
    expect(counts(page)).to_contain_text("1 of 2 decided")
