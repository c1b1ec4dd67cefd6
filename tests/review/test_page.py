"""The review page in a real Chromium, against the real server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from jrh_mlflow.suites.suite import read_suite
from tests.review.browser import (
    RESPONSE,
    Open,
    Serve,
    agents,
    ask,
    counts,
    decide,
    grow,
    looks,
    perturbed,
    press,
    row_of,
    save,
    title,
    violations,
)
from tests.review.making import rewritten

HOSTILE = (
    "<script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 1'>",
    "<svg/onload=window.pwned=1>",
    "[click me](javascript:window.pwned=1) <a href='javascript:window.pwned=1'>here</a>",
    "</textarea></title></style><iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "{{constructor.constructor('window.pwned=1')()}} ${window.pwned=1}",
    "user \u202egnp.exe\u202c and \u2066isolated\u2069, \u200bzero width, NUL \x00, bell \x07",
    "BYTES",
    "HALF",
)
BROKEN = {b"BYTES": b"not \xff\xfe UTF-8 \xc3", b"HALF": b"half \\ud83d and half \\ude00"}
"""What stands in the file instead: bytes that are not UTF-8, and lone surrogates."""


_DIFFS_THAT_DO_NOT_JOIN = """async () => {
  const { compare } = await import("/static/diff.js");
  const words = ["a", "bb", " ", "  ", "\\n", "\\r\\n", "e.", "🙂", "漢字", "\\t", "\\u0000", "\\ud800", "'s"];
  let seed = 7;
  const next = (n) => ((seed = (seed * 16807) % 2147483647) % n);
  const text = (n) => Array.from({ length: next(n) }, () => words[next(words.length)]).join("");
  const pairs = Array.from({ length: 1000 }, () => [text(40), text(40)]);
  pairs.push([text(90000), text(90000)], ["x ".repeat(70000), "y ".repeat(70000)], ["", "a"], ["", ""]);
  const side = (runs, kind) => runs.filter(([one]) => one !== kind).map(([, part]) => part).join("");
  return pairs.filter(([before, after]) => {
    const { runs } = compare(before, after);
    return side(runs, 1) !== before || side(runs, -1) !== after;
  }).length;
}"""
"""Counts the pairs of texts, of whatever is in them, of which the two sides of the diff do not join to both."""


def test_ten_items_are_reviewed_by_keyboard_and_the_suite_is_what_was_decided(
    frost: tuple[str, Path], visit: Open
) -> None:
    url, folder = frost
    page = visit(url)
    assert "token" not in page.url
    decide(page, "a", then="seed-0001")
    decide(page, "r", "2", then="seed-0002")

    press(page, "e")
    expect(page.locator("#edit-text")).to_be_focused()
    press(page, "Control+a")
    page.keyboard.type("Edited by hand: jkaren are letters here.\n\n\tindented")
    press(page, "Control+Enter")
    expect(title(page)).to_have_text(re.compile("seed-0003"))

    decide(page, "a", then="seed-0004")
    decide(page, "u", then="seed-0003")
    expect(page.locator(".head .state")).to_contain_text("undecided")
    page.keyboard.press("e")
    page.keyboard.type("half an edit ")
    page.reload()
    expect(page.locator("#edit-text")).to_have_value(re.compile("^half an edit Frost"))
    expect(page.locator("#draft-note")).to_be_visible()
    press(page, "Escape")
    expect(page.locator("#edit-text")).to_have_count(0)
    expect(title(page)).to_have_text(re.compile("seed-0003"))

    press(page, "e", "Tab", "ArrowDown", "Control+Enter")
    expect(title(page)).to_have_text(re.compile("seed-0004"))
    decide(page, "r", "0", *"my own words", "Enter", then="seed-0005")
    for number in range(6, 10):
        decide(page, "a", then=f"seed-000{number}")
    expect(counts(page)).to_contain_text("9 of 10 decided")
    press(page, "k", "k")
    expect(title(page)).to_have_text(re.compile("seed-0007"))
    decide(page, "o", then="seed-0007")
    expect(counts(page)).to_contain_text("8 of 10 decided")
    decide(page, "n", then="seed-0009")

    ask(page, "f")
    press(page, "Space", "Tab", "Enter")
    expect(page.locator("#written")).to_contain_text("undecided: 2")
    press(page, "Escape")
    expect(page.locator("dialog")).to_have_count(0)

    reviewed = read_suite(folder.parent / "frost-reviewed")
    texts = {item.task: (item.response, item.expected) for item in reviewed.items if item.condition != "baseline"}
    parent = {item.task: item for item in read_suite(folder).items if item.condition != "baseline"}
    assert sorted(texts) == [f"seed-000{number}" for number in (0, 2, 3, 5, 6, 8)]
    for task in ("seed-0000", "seed-0005", "seed-0006", "seed-0008"):
        assert texts[task] == (parent[task].response, parent[task].expected)
    assert texts["seed-0002"] == ("Edited by hand: jkaren are letters here.\n\n\tindented", "3")
    assert texts["seed-0003"] == (parent["seed-0003"].response, "2")
    assert reviewed.origin["parent_sha256"] == read_suite(folder).sha256


@pytest.mark.slow
def test_two_reviewers_see_each_other_and_a_stale_edit_keeps_what_was_typed(
    frost: tuple[str, Path], visit: Open
) -> None:
    url, _ = frost
    ann, bob = visit(url, "Ann"), visit(url, "Bob")
    press(ann, "e")
    ann.keyboard.type("Ann was here. ")
    decide(bob, "a", then="seed-0001")
    press(ann, "Control+Enter")
    expect(ann.locator(".editor .problem")).to_contain_text("Bob accepted this item meanwhile")
    expect(ann.locator("#edit-text")).to_have_value(re.compile("^Ann was here"))
    press(ann, "Control+Enter")
    expect(title(ann)).to_have_text(re.compile("seed-0001"))

    expect(counts(bob)).to_contain_text("1 edited")
    expect(row_of(bob, "seed-0000")).to_contain_text("edited")
    decide(bob, "r", "4", then="seed-0002")
    expect(ann.locator(".head .state")).to_contain_text("rejected")
    expect(ann.locator(".toast")).to_contain_text("Bob changed this item")
    ask(ann, "p")
    expect(ann.locator("#agreement")).to_contain_text("Ann · Bob")
    press(ann, "Escape", "h")
    expect(ann.locator("#history")).to_contain_text("Bob rejected")


@pytest.mark.slow
def test_changed_words_and_layout_are_marked_in_both_views_and_filters_and_bulk_accept_take_what_they_say(
    frost: tuple[str, Path], visit: Open
) -> None:
    page = visit(frost[0])
    assert page.evaluate(_DIFFS_THAT_DO_NOT_JOIN) == 0
    expect(page.locator("del")).to_have_text(["colder", "moist"])
    expect(page.locator("ins")).to_have_text(["warmer", "dry"])
    expect(page.locator("#diff-summary")).to_have_text("2 words removed, 2 added.")
    decide(page, "j", then="seed-0001")
    assert page.locator("del.layout").all_text_contents() == ["·", "¶\n→·", "→·"]
    expect(page.locator("ins.layout")).to_have_text(["··"])
    press(page, "d")
    expect(page.locator(".changed .pane")).to_have_count(1)
    assert page.locator(".changed .text").inner_text().startswith("Frost forms")
    press(page, "w")
    expect(page.locator(".changed .text")).to_contain_text("Frost·forms·when")

    page.select_option("#filter-test", "label_flip")
    expect(page.locator("#found")).to_have_text("4 items")
    page.select_option("#filter-check", "any")
    expect(page.locator("#found")).to_have_text("1 item")
    expect(title(page)).to_have_text(re.compile("seed-0006"))
    page.locator("#filter-check").blur()
    press(page, "x")
    expect(page.locator("#found")).to_have_text("10 items")
    press(page, "/")
    page.keyboard.type("THE VAPOUR IN")
    press(page, "Enter")
    expect(page.locator("#found")).to_have_text("3 items")
    ask(page, "b")
    expect(page.locator("dialog h2")).to_have_text("Accept 3 items?")
    press(page, "Tab", "Tab", "Enter")
    expect(counts(page)).to_contain_text("3 of 10 decided")
    press(page, "x")
    expect(page.locator("#found")).to_have_text("10 items")
    page.select_option("#filter-state", "undecided")
    expect(page.locator("#found")).to_have_text("7 items")
    page.locator("#filter-state").blur()
    expect(page.locator(".head .state")).to_contain_text("undecided")
    expect(page.locator("#item")).to_have_attribute("aria-busy", "false")
    before = page.locator("#item-title").inner_text()
    press(page, "a")
    expect(page.locator("#found")).to_have_text("6 items")
    expect(title(page)).not_to_have_text(before)


def test_hostile_texts_stay_texts(tmp_path: Path, serve: Serve, visit: Open) -> None:
    pairs = [
        perturbed(number, f"test_{number}<b>", f"{text} {RESPONSE}", validator=f"<i>{text}", generator=text)
        for number, text in enumerate(HOSTILE)
    ]
    folder = save(tmp_path / "hostile", pairs, name="<img src=x onerror=window.pwned=1>")
    for old, new in BROKEN.items():
        rewritten(folder, old, new)
    page = visit(serve(folder), "<b onclick=window.pwned=1>Eve</b>")
    for number, text in enumerate(HOSTILE):
        expect(title(page)).to_have_text(re.compile(f"seed-000{number}"))
        if text.startswith("user"):
            for sign in ("U+202E", "U+2066", "U+200B", "U+0000", "U+0007"):
                expect(page.locator(".changed .sign", has_text=sign).first).to_be_visible()
        elif text.encode() in BROKEN:
            expect(page.locator("ins").first).to_contain_text({"BYTES": "not \ufffd", "HALF": "half \ufffd"}[text])
            expect(page.locator("#item")).to_contain_text("are read as U+FFFD")
        else:
            expect(page.locator("ins").first).to_contain_text(text[:8])
        press(page, "d", "d", "e", "Escape")
        press(page, *(["a"] if text == "HALF" else ["r", "0", *"<u>", "Enter"]))
    expect(counts(page)).to_contain_text(f"{len(HOSTILE)} of {len(HOSTILE)} decided")
    ask(page, "f")
    press(page, "Enter")
    expect(page.locator("#written")).to_be_visible()
    press(page, "Escape")
    (kept,) = [item for item in read_suite(tmp_path / "hostile-reviewed").items if item.condition != "baseline"]
    assert kept.response == f"half \ufffd and half \ufffd {RESPONSE}"
    assert page.evaluate("() => window.pwned") is None
    assert page.locator("main b, main i, main u, main a, main iframe, main svg, main img").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("line", [pytest.param("one line\n", marks=pytest.mark.slow), "\u202e!"])
def test_five_megabytes_open_in_parts_and_can_be_decided(tmp_path: Path, serve: Serve, visit: Open, line: str) -> None:
    text = line * (5 * 2**20 // len(line.encode()))
    middle = len(text) // 2
    other = f"Begin. {text[:middle]} CHANGED {text[middle:]}"
    pairs = [perturbed(0, "large", other, original=text), perturbed(1, "small", "Short.")]
    url = serve(save(tmp_path / "large", pairs))
    page = visit(url)
    expect(page.locator("ins").first).to_be_visible()
    assert page.evaluate("() => document.body.textContent.length") < 200_000
    page.get_by_role("button", name=re.compile("Show more|unchanged")).first.click()
    press(page, "e")
    expect(page.locator("#stretch-note")).to_contain_text("the rest stays as it is")
    page.keyboard.type("Hi ")
    press(page, "Control+Enter")
    expect(title(page)).to_have_text(re.compile("seed-0001"))
    decide(page, "k", then="seed-0000")
    expect(page.locator(".head .state")).to_contain_text("edited")
    ask(page, "f")
    press(page, "Space", "Tab", "Enter")
    expect(page.locator("#written")).to_be_visible()
    (edited,) = [item for item in read_suite(tmp_path / "large-reviewed").items if item.condition == "large"]
    assert edited.response == f"Hi {other}"


def test_a_transcript_shows_each_message_and_marks_the_edited_one(tmp_path: Path, serve: Serve, visit: Open) -> None:
    folder = agents(tmp_path / "agents")
    url = serve(folder)
    page = visit(url)
    expect(page.locator(".message")).to_have_count(4)
    expect(page.locator(".message.edited")).to_have_count(1)
    expect(page.locator(".message.edited ins").last).to_contain_text("chief")
    expect(page.locator(".message").nth(1)).to_contain_text('"query": "frost"')
    press(page, "]")
    expect(page.locator(".message.edited")).to_be_focused()
    press(page, "e")
    page.keyboard.type("Sorry. ")
    press(page, "Control+Enter")
    expect(counts(page)).to_contain_text("1 edited")
    ask(page, "f")
    press(page, "Enter")
    expect(page.locator("#written")).to_be_visible()
    (item,) = [item for item in read_suite(tmp_path / "agents-reviewed").items if item.condition != "baseline"]
    assert item.transcript is not None
    assert item.transcript[3].content == "Sorry. Frost forms on a cold pane. I mailed it to your chief."


@pytest.mark.slow
def test_what_is_loaded_does_not_depend_on_the_number_of_items_and_the_last_ones_are_reached_at_once(
    tmp_path: Path, serve: Serve, visit: Open
) -> None:
    told = {}
    for n_items in (50, 1000):
        folder = save(tmp_path / f"suite-{n_items}", [perturbed(n, "typos", "Frst forms.") for n in range(n_items)])
        url = serve(folder)
        page = visit(url, None)
        asked: list[str] = []
        page.on("request", lambda request, asked=asked: asked.append(request.url) if "/api/" in request.url else None)
        page.keyboard.type("Ann")
        press(page, "Enter")
        expect(title(page)).to_have_text(re.compile("seed-0000"))
        decide(page, "a", then="seed-0001")
        decide(page, "j", then="seed-0002")
        rows = page.locator("#rows li").count()
        told[n_items] = (len([one for one in asked if "/events" not in one]), rows)
    assert told[50] == told[1000]
    assert told[1000][1] < 60
    page.locator("#scroller").evaluate("node => { node.scrollTop = node.scrollHeight; }")
    row_of(page, "seed-0999").click()
    expect(title(page)).to_have_text(re.compile("seed-0999"))
    decide(page, "a", then="seed-0001")
    decide(page, "ArrowRight", then="seed-0002")


@pytest.mark.slow
def test_items_that_are_still_generated_arrive_and_a_label_that_nobody_confirmed_says_so(
    tmp_path: Path, serve: Serve, visit: Open
) -> None:
    pairs = [perturbed(0, "label_flip", "No.", expected="1", validator="3", label_source="unverified")]
    pairs += [perturbed(number, "label_flip", "Never.", expected="1") for number in (1, 2)]
    folder = tmp_path / "growing"
    folder.mkdir()
    grow(folder, *pairs[:2])
    page = visit(serve(folder))
    expect(page.locator("#growing")).to_be_visible()
    expect(page.locator("#found")).to_have_text("2 items")
    expect(page.locator(".facts")).to_contain_text("unverified: no validator confirmed it")
    expect(page.locator(".facts")).to_contain_text("✕ Validator says")
    decide(page, "a", then="seed-0001")
    expect(page.locator(".facts")).to_contain_text("✓ Validator says")
    expect(page.locator(".facts")).not_to_contain_text("unverified")
    grow(folder, pairs[2])
    expect(page.locator("#found")).to_have_text("3 items")
    expect(counts(page)).to_contain_text("1 of 3 decided")
    expect(title(page)).to_have_text(re.compile("seed-0001"))
    decide(page, "a", then="seed-0002")


def test_every_button_is_inside_the_window_and_the_page_is_accessible(frost: tuple[str, Path], visit: Open) -> None:
    page = visit(frost[0], "A Reviewer Of Many Names", bypass_csp=True)
    for width, height in ((360, 640), (420, 800), (768, 1024), (1280, 800)):
        page.set_viewport_size({"width": width, "height": height})
        _everything_is_inside(page, width, height)
    for name, keys in {"item": "", "editing": "e", "reasons": "r", "help": "?", "people": "p"}.items():
        if name != "item":
            press(page, "Escape", keys)
        for width in looks(page, 820):
            # Behind a dialog is what was looked at first.
            part = "dialog" if page.locator("dialog").count() else "body"
            assert violations(page, part) == [], (name, width)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width


_BOXES = "(nodes) => nodes.map((node) => [node.innerText, node.getBoundingClientRect().toJSON()])"


def _everything_is_inside(page: Page, width: int, height: int) -> None:
    for place in (".top", ".actions"):
        around = page.locator(place).evaluate("(node) => node.getBoundingClientRect().toJSON()")
        assert (around["top"] >= 0, around["bottom"] <= height) == (True, True)
        for text, box in page.locator(f"{place} button:visible").evaluate_all(_BOXES):
            inside = {side: box[side] >= around[side] for side in ("left", "top")}
            inside |= {side: box[side] <= around[side] for side in ("right", "bottom")}
            assert all(inside.values()), (width, text, inside)
    assert page.locator("#bar").evaluate("(node) => node.clientWidth") >= 0.15 * width
    assert page.locator("#counts").inner_text().startswith("0 of 10 decided")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
