"""Decisions on disk: nothing acknowledged is lost, nothing is changed, no two reviewers overwrite each other."""

from __future__ import annotations

import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jrh_mlflow.errors import ReviewError
from jrh_mlflow.review.decisions import ACCEPTED, Click, Decisions, GeneratedPart, StaleError, State
from tests.processes import SCRIPT, Forked
from tests.review import decider

GENERATED = GeneratedPart(text="It is Rome.", label="fail", labels=("fail", "pass"))


def accept(decisions, item, *, who="Ann", version=0):
    return decisions.decide(item, Click(action="accept", who=who, version=version), GENERATED)


def deciding(file: Path, who: str, n_items: int) -> subprocess.Popen:
    return Forked(SCRIPT, decider.__file__, file, who, n_items, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "review.db"


def states(file: Path) -> dict[str, str]:
    decisions = Decisions(file)
    with decisions.current() as standings:
        found = {item: standing.state.state for item, standing in standings.items.items()}
    decisions.close()
    return found


def test_a_decision_is_there_after_a_restart_with_who_when_before_and_after(file):
    first = Decisions(file)
    accept(first, "i")
    first.decide("i", Click(action="edit", who="Bob", version=1, text="Oslo", reason="nearer"), GENERATED)
    first.close()
    one, two = Decisions(file).events(since=0, limit=10)
    assert (one.who, one.action, one.before, one.after) == ("Ann", "accept", State(), State(state="accepted"))
    assert two.before == one.after
    assert (two.after.text, two.after.reason, two.number) == ("Oslo", "nearer", 2)
    assert one.when <= two.when
    assert one.when.endswith("+00:00")


def test_decisions_cannot_be_changed_or_deleted_even_by_hand(file):
    decisions = Decisions(file)
    accept(decisions, "i")
    connection = sqlite3.connect(file)
    for statement in ("UPDATE events SET who = 'Eve'", "DELETE FROM events"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            connection.execute(statement)
    connection.close()
    assert states(file) == {"i": ACCEPTED}


def test_two_open_files_see_each_other(file):
    mine, theirs = Decisions(file), Decisions(file)
    accept(mine, "i")
    with pytest.raises(StaleError, match="Ann accepted"):
        accept(theirs, "i", who="Bob")
    accept(theirs, "i", who="Bob", version=1)
    with mine.current() as standings:
        assert standings.of("i").version == 2
        assert standings.reviewers == ["Ann", "Bob"]


def test_several_decisions_are_taken_together_or_not_at_all(file):
    decisions = Decisions(file)
    accept(decisions, "b")
    clicks = [(item, Click(action="accept", who="Bob", version=0), GENERATED) for item in "ab"]
    with pytest.raises(StaleError):
        decisions.decide_all(clicks)
    assert states(file) == {"b": ACCEPTED}
    assert accept(decisions, "a").number == 2


def test_threads_of_one_process_do_not_mix_their_decisions(file):
    decisions = Decisions(file)
    with ThreadPoolExecutor(8) as pool:
        events = list(pool.map(lambda n: accept(decisions, f"i{n}"), range(64)))
    assert sorted(event.number for event in events) == list(range(1, 65))
    assert len(states(file)) == 64


def test_of_two_processes_on_the_same_items_each_item_goes_to_exactly_one(file):
    crew = [deciding(file, who, 60) for who in ("Ann", "Bob")]
    lines = [process.communicate(timeout=60)[0].splitlines() for process in crew]
    assert [process.returncode for process in crew] == [0, 0]
    saved = [int(line.split()[1]) for told in lines for line in told if line.startswith("saved")]
    assert sorted(saved) == list(range(60))
    numbers = [event.number for event in Decisions(file).events(since=0, limit=1000)]
    assert numbers == list(range(1, 61))


def test_nothing_acknowledged_is_lost_when_the_process_is_killed(file):
    process = deciding(file, "Ann", 100_000)
    assert process.stdout is not None
    told = [process.stdout.readline() for _ in range(40)]
    process.kill()  # SIGKILL: no chance to tidy up
    told += process.stdout.read().splitlines()
    process.wait()
    process.stdout.close()
    saved = {f"i{line.split()[1]}" for line in told if line.startswith("saved")}
    found = states(file)
    assert len(saved) >= 40
    assert saved <= found.keys()
    # At most the one decision whose answer was on its way.
    assert len(found) - len(saved) <= 1
    accept(Decisions(file), "after")


def test_places_stay_when_items_arrive_in_another_order(file):
    decisions = Decisions(file)
    assert decisions.places(["c", "a"]) == {"c": 0, "a": 1}
    assert Decisions(file).places(["a", "b", "c"]) == {"c": 0, "a": 1, "b": 2}


def test_text_that_no_file_system_likes_survives(file):
    decisions = Decisions(file)
    text = "a\x00b\u202e<script>\U0001f600"
    decisions.decide("i", Click(action="edit", who="Ann", version=0, text=text), GENERATED)
    assert Decisions(file).events(since=0, limit=1)[0].after.text == text


def test_a_file_that_holds_no_review_is_refused_and_left_alone(file):
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE events (number INTEGER)")
    connection.commit()
    connection.close()
    before = file.read_bytes()
    with pytest.raises(ReviewError, match="holds no review"):
        Decisions(file)
    assert file.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_left_alone(file):
    file.write_bytes(b"not a database at all, but text " * 100)
    with pytest.raises(ReviewError, match="cannot be opened"):
        Decisions(file)
    assert file.read_bytes().startswith(b"not a database")


def test_a_review_of_another_version_is_refused(file):
    Decisions(file).close()
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ReviewError, match="schema version 99"):
        Decisions(file)
