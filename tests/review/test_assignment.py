"""Who is asked to decide what, and how far each reviewer is."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import expect

from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import ReviewError
from jrh_mlflow.review.assignment import assign, assignment_facts, dealt, read_shares
from jrh_mlflow.review.finish import finish, log_review
from jrh_mlflow.tracking.runs.store import Store, download
from tests.examples import up_to
from tests.review.browser import Open, Serve, ask, counts, decide, perturbed, press, save, title
from tests.review.making import opened, saved_suite
from tests.review.test_result import decide as decided


def progress_of(review):
    _, entries = review.placed()
    with review.decisions.current() as standings:
        found = assignment_facts(entries, standings)
    return {one["name"]: (one["decided"], one["assigned"], one["by_others"], one["open"]) for one in found["reviewers"]}


@settings(max_examples=up_to(60), deadline=None)
@given(st.integers(0, 60), st.integers(1, 5), st.floats(0, 1), st.integers(0, 9))
def test_items_are_dealt_evenly_each_to_one_or_by_the_overlap_to_two(n, n_reviewers, overlap, seed):
    names = [f"r{i}" for i in range(n_reviewers)]
    found = dealt({f"i{i}": [] for i in range(n)}, dict.fromkeys(names, 1.0), overlap=overlap, seed=seed)
    assert list(found) == [f"i{i}" for i in range(n)]
    assert all(len(set(whose)) == len(whose) for whose in found.values())
    twice = sum(len(whose) == 2 for whose in found.values())
    assert twice == (int(overlap * n + 0.5) if n_reviewers > 1 else 0)
    loads = Counter(name for whose in found.values() for name in whose)
    assert max((loads[name] for name in names), default=0) - min((loads[name] for name in names), default=0) <= 1


def test_the_same_seed_deals_the_same_and_another_one_otherwise():
    items, shares = {f"i{i}": [] for i in range(40)}, {"Ada": 1.0, "Bob": 1.0}
    first = dealt(items, shares, overlap=0.1, seed=0)
    assert first == dealt(items, shares, overlap=0.1, seed=0) != dealt(items, shares, overlap=0.1, seed=1)


def test_shares_divide_the_work():
    found = dealt({f"i{i}": [] for i in range(30)}, read_shares("Ada=2, Bob"), overlap=0, seed=0)
    assert Counter(name for whose in found.values() for name in whose) == {"Ada": 20, "Bob": 10}


@pytest.mark.parametrize(
    ("names", "overlap", "told"),
    [
        ("", 0, "Name 1 to 100 reviewers"),
        ("Ada=x", 0, "must be a number"),
        ("Ada=0", 0, "must be above 0"),
        ("Ada,Ada", 0, "named twice"),
        ("Ada", 0.1, "need two reviewers"),
        ("Ada,Bob", 2, "from 0 to 1"),
        ("A\x07", 0, "printable"),
    ],
)
def test_an_assignment_that_makes_no_sense_is_refused(tmp_path, names, overlap, told):
    review = opened(saved_suite(tmp_path / "suite"))
    with pytest.raises(ReviewError, match=told):
        assign(review, read_shares(names), overlap=overlap, who="Ada")
    assert review.decisions.events() == []


def test_assigning_again_moves_only_open_work_and_what_others_decided_waits_for_nobody(tmp_path):
    review = opened(saved_suite(tmp_path / "suite", n=8))
    assign(review, {"Ada": 1, "Bob": 1}, who="Ada")
    assert progress_of(review) == {"Ada": (0, 4, 0, 4), "Bob": (0, 4, 0, 4)}
    facts = review.decisions.events()[-1].facts["items"]
    _, entries = review.placed()
    place_of = {entry.key: place for place, entry in entries.items()}
    assert all(entries[place_of[item]].needs_decision for item in facts)
    adas = [place_of[item] for item, whose in facts.items() if whose == ["Ada"]]
    bobs = [place_of[item] for item, whose in facts.items() if whose == ["Bob"]]
    decided(review, adas[0], "accept", who="Ada")
    decided(review, bobs[0], "accept", who="Bob")
    decided(review, bobs[1], "accept", who="Ada")
    assert progress_of(review) == {"Ada": (1, 4, 0, 3), "Bob": (1, 4, 1, 2)}
    assign(review, {"Ada": 1, "Cy": 1}, who="Ada")
    now = progress_of(review)
    assert (now["Ada"][0], now["Ada"][2], now["Cy"][0], now["Cy"][2]) == (2, 0, 0, 0)
    assert {now["Ada"][1], now["Cy"][1]} == {3, 4}, "the item that Bob decided is nobody's"
    again = opened(review.folder)
    assert progress_of(again) == progress_of(review)


def test_the_command_line_assigns_and_tells_how_far_each_reviewer_is(tmp_path):
    folder = saved_suite(tmp_path / "suite", n=10)

    def run(*arguments):
        return CliRunner().invoke(group, ["review", str(folder), *arguments])

    told = run("--reviewers", "Ada,Bob", "--overlap", "0.2", "--status")
    assert told.exit_code == 0, told.output
    assert told.output.splitlines() == [
        "suite: 0 of 10 decided; 10 by code (0 of them decided); disagreements: 0 unsettled, 0 settled",
        "  Ada: 0 of 6 decided, 6 open",
        "  Bob: 0 of 6 decided, 6 open",
    ]
    (row,) = json.loads(run("--status", "--json").output)
    assert [one["assigned"] for one in row["assignment"]["reviewers"]] == [6, 6]
    assert run("--overlap", "0.2", "--status").exit_code == 2


def test_a_finished_run_holds_the_progress_of_each_reviewer(tmp_path, store_uri):
    review = opened(saved_suite(tmp_path / "suite"))
    assign(review, {"Ada": 1, "Bob": 1}, overlap=1, who="Ada")
    for index in (0, 2, 4, 6):
        decided(review, index, "accept", who="Ada")
    decided(review, 0, "reject", who="Bob", reason="no")
    done = finish(review, who="Ada")
    assert done.facts["disagreements"] == {"unsettled": 1, "settled": 0}
    store = Store(store_uri, "review")
    logged = log_review(review, done, who="Ada", store=store)
    found = {name: logged["metrics"][f"review/{name}"] for name in ("reviewer_1/decided", "reviewer_2/open")}
    assert found == {"reviewer_1/decided": 4, "reviewer_2/open": 3}
    assert logged["metrics"]["review/disagreements/unsettled"] == 1
    folder = download(f"runs:/{logged['run_id']}/", tracking_uri=store_uri)
    facts = json.loads((folder / "review.json").read_text())
    assert [(one["name"], one["decided"]) for one in facts["assignment"]["reviewers"]] == [("Ada", 4), ("Bob", 1)]
    table = json.loads((folder / "decisions.json").read_text())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert {rows[0]["assigned_to"], rows[0]["disagreement"], rows[0]["decided_by"]} >= {"unsettled", "Ada, Bob"}


@pytest.mark.slow
def test_each_reviewer_sees_their_own_items_first_and_may_decide_any(tmp_path: Path, serve: Serve, visit: Open) -> None:
    folder = save(tmp_path / "six", [perturbed(number, "typos", "Frst forms.") for number in range(6)])
    url = serve(folder)
    page = visit(url, "Ada")
    ask(page, "p")
    expect(page.locator("dialog")).to_contain_text("No item is assigned")
    page.get_by_role("button", name="Assign…").click()
    page.locator("#assign-names").fill("Ada, Bob")
    page.locator("#assign-overlap").fill("34")
    page.get_by_role("button", name="Assign", exact=True).click()
    expect(page.locator("#filter-whose")).to_have_value("me")
    expect(page.locator("#found")).to_have_text("4 items")
    expect(counts(page)).to_contain_text("yours: 0 of 4")
    expect(title(page)).to_be_visible()  # the page began anew, and takes keys once an item is shown
    for done in range(1, 5):
        press(page, "a")
        expect(counts(page)).to_contain_text(f"yours: {done} of 4")
    expect(counts(page)).to_contain_text("4 of 6 decided")
    press(page, "x")
    expect(page.locator("#found")).to_have_text("6 items")
    expect(page.locator("#filter-whose")).to_have_value("")
    bob = visit(url, "Bob")
    expect(counts(bob)).to_contain_text("yours: 0 of 4")
    expect(bob.locator("#bulk")).to_contain_text("Accept all 4 undecided")
    first = title(bob).inner_text()
    press(bob, "a")
    expect(title(bob)).not_to_have_text(first)
    expect(counts(bob)).to_contain_text("yours: 1 of 4")
    ask(bob, "p")
    expect(bob.locator("#assignment tbody tr").first).to_have_text(re.compile(r"Ada\s*4 of 4\s*0\s*0"))
    press(bob, "Escape")
    decide(page, "n", "a", then="seed-")
    expect(counts(page)).to_contain_text(re.compile("[56] of 6 decided"))
