"""Edited transcripts after trouble: what was answered is not asked again, and what was made comes out the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jrh_mlflow.engine.journal import open_journal
from tests.cases import few
from tests.generation.agent_tools import LABELS, MARKS, PRICES, AgentPlayer, booking_log, edited, run, steps
from tests.loopback import LoopbackServer, Reply
from tests.processes import Forked
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
AT_ONCE = 4
BREAK = "agent_perturbation"
NO = Reply(refusal="No.")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return booking_log(tmp_path / "booking.eval", n=2)


class Refusing(AgentPlayer):
    """Refuses where `refuses` says so, by the part that is asked and what it is told."""

    def __init__(self, refuses: Callable[[str, str], bool], **parts: Any) -> None:
        super().__init__(**parts)
        self.refuses = refuses
        self.answered: list[str] = []

    def __call__(self, body: dict[str, Any]) -> str | Reply:
        shown = body["messages"][-1]["content"]
        part = next((name for name, mark in MARKS.items() if shown.startswith(mark)), "verify")
        answer = super().__call__(body)
        if self.refuses(part, shown):
            return NO
        self.answered.append(json.dumps(body, sort_keys=True))
        return answer


def no_summary(part: str, _: str) -> bool:
    return part == "summary"


def no_last_summary(part: str, shown: str) -> bool:
    return part == "summary" and "book late (5)" in shown


def no_edit_of_the_first_plan(part: str, shown: str) -> bool:
    return part == "edit" and "book late (2)" in shown and "I book at once" not in shown


def only_the_last_message(shown: str, _: float) -> str:
    return steps(5) if "An earlier plan" in shown else steps(2)


TROUBLE = [
    (no_summary, {}),
    (no_last_summary, {}),
    (no_edit_of_the_first_plan, {"plan": only_the_last_message}),
]


@pytest.mark.parametrize(("refuses", "parts"), TROUBLE)
def test_what_was_made_after_refusals_costs_nothing_the_second_time(
    refuses: Callable[[str, str], bool], parts: dict[str, Any], log: Path
) -> None:
    player = Refusing(refuses, **parts)
    with LoopbackServer(reply=player) as server:
        first = run(log, server, None, tests=BREAK, attempts=2, prices=PRICES)
        sent = server.counts["requests"]
        # A model that would now answer is not asked: the item is there already.
        player.refuses = lambda *_: False
        second = run(log, server, None, tests=BREAK, attempts=2, prices=PRICES)
        assert server.counts["requests"] == sent
    assert len(first.suite) == 4
    assert second.suite.sha256 == first.suite.sha256
    assert second.metrics["calls/cached"] == second.metrics["calls/total"] < first.metrics["calls/total"]


@pytest.mark.parametrize(("refuses", "parts"), TROUBLE[:3])
def test_a_verifier_without_a_journal_is_asked_again_and_no_answered_call_is(
    refuses: Callable[[str, str], bool], parts: dict[str, Any], log: Path
) -> None:
    asked: list[str] = []

    def verifier(shown: Any) -> str:
        asked.append(json.dumps([message.content for message in shown.transcript]))
        return LABELS["23:00" in asked[-1]]

    with LoopbackServer(reply=Refusing(refuses, **parts)) as server:
        first = run(log, server, None, tests=BREAK, attempts=2, validator=verifier)
        answered, n_asked = server.counts["requests"], len(asked)
        second = run(log, server, None, tests=BREAK, attempts=2, validator=verifier)
        # Only the last summary stands after every answer that is kept: it is tried again.
        refused = 0 if "edit" in refuses.__name__ else 2 * 2
        assert server.counts["requests"] - answered == refused
    assert len(asked) == 2 * n_asked
    assert second.suite.sha256 == first.suite.sha256


@pytest.mark.parametrize(
    ("refused", "n_again"),
    [
        ("plan", 2),
        # The first two plans led nowhere and are passed over; of the third the last call is tried again.
        ("edit", 2),
        ("verify", 1),
    ],
)
def test_a_transcript_that_was_refused_is_taken_up_where_it_failed(refused: str, n_again: int, log: Path) -> None:
    player = Refusing(lambda part, shown: part == refused and "A table for 2" in shown)
    with LoopbackServer(reply=player) as server:
        first = run(log, server, None, tests=BREAK, attempts=2)
        assert [one.source for one in first.made.set_aside] == ["booking-evalid/2"]
        sent, bills = server.counts["requests"], {part: len(told) for part, told in player.briefs.items()}
        second = run(log, server, None, tests=BREAK, attempts=2)
        assert second.suite.sha256 == first.suite.sha256
        assert server.counts["requests"] - sent == n_again
        again = {part: len(told) - bills[part] for part, told in player.briefs.items()}
        assert again == {**dict.fromkeys(again, 0), refused: n_again}
        player.refuses = lambda *_: False
        third = run(log, server, None, tests=BREAK, attempts=2)
    assert not third.made.set_aside
    assert [item for item in third.suite.items if item.task != "booking-evalid/2"] == [
        item for item in first.suite.items if item.task != "booking-evalid/2"
    ]


CHILD = f"""
import sys
from tests.generation.agent_tools import PRICES, run
from tests.loopback import LoopbackServer
port, journal, store, log = sys.argv[1:]
run(log, LoopbackServer(port=int(port)), store, journal=journal, concurrency={AT_ONCE}, prices=PRICES, attempts=2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("ends", few([signal.SIGKILL, signal.SIGINT]))
def test_ended_half_way_and_started_again_no_answered_call_is_repeated(
    ends: signal.Signals, store_uri: str, tmp_path: Path
) -> None:
    log, journal = booking_log(tmp_path / "booking.eval", n=3), str(tmp_path / "ended.db")
    player = Refusing(no_edit_of_the_first_plan, plan=only_the_last_message, edit=edited)
    with LoopbackServer(reply=player, latency=0.03) as server:
        whole = run(log, server, None, journal="whole.db", prices=PRICES, attempts=2)
        once = Counter(player.answered)
        player.answered.clear()
        child = Forked(CHILD, server.port, journal, store_uri, log, cwd=ROOT, stderr=subprocess.DEVNULL)
        wait_until(lambda: child.poll() is not None or len(player.answered) >= once.total() // 2)
        os.kill(child.pid, ends)
        assert child.wait() != 0
        assert len(player.answered) < once.total()
        again = run(log, server, None, journal=journal, prices=PRICES, attempts=2)
    twice = Counter(player.answered)
    assert twice.keys() == once.keys()
    with open_journal(journal) as book:
        lost = book.summary().lost
    # What was on its way when the process died can only be asked again; Ctrl-C settles it.
    assert lost <= (2 * AT_ONCE if ends == signal.SIGKILL else 0)
    assert (twice - once).total() <= lost
    assert len(whole.suite) == 9
    assert again.suite.sha256 == whole.suite.sha256
    assert again.metrics["calls/cached"] > 0
