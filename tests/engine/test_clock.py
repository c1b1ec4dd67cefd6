"""Clocks that jump by an hour in mid-run, and summer time: nothing is paid twice or booked on a wrong day."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jrh_mlflow.engine import ask_calls
from jrh_mlflow.engine.budget import Paid, bill
from jrh_mlflow.engine.calls import plan_calls
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.models.transports.dialect import retry_after
from tests.ledger import MODEL, PRICES, SUITE, VERDICT, judge_at
from tests.loopback import LoopbackServer


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_jumps_in_mid_run_pays_nothing_twice(
    hours: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_time, calls = time.time, itertools.count()
    monkeypatch.setattr(time, "time", lambda: true_time() + (3600 * hours if next(calls) % 7 > 3 else 0))
    with LoopbackServer(reply=lambda _: VERDICT) as server, open_journal(tmp_path / "j.db") as journal:
        judge = judge_at(server)
        settings = ClientSettings(concurrency=4, price=judge.price(PRICES))
        for _ in range(2):
            asked = ask_calls(judge, plan_calls(SUITE, judge, replicates=1), journal=journal, settings=settings)
            assert {record.outcome for record in asked.records} == {"verdict"}
        assert server.counts["requests"] == len(asked.records)
        assert sum(bill(journal).values(), Paid()).micro == server.bill_micro(*PRICES[MODEL])


def test_a_wait_until_a_moment_is_counted_by_the_clock_of_who_asks_for_it() -> None:
    an_hour_ahead = {"Date": "Tue, 17 Nov 2126 21:00:00 GMT", "Retry-After": "Tue, 17 Nov 2126 21:00:07 GMT"}
    assert retry_after(an_hour_ahead) == 7.0


@pytest.fixture
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_berlin")
def test_the_night_of_summer_time_is_two_days_of_a_bill_in_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    night = 1_792_890_000.0  # 2026-10-25 01:00 UTC, when clocks in Berlin go back from three to two
    with open_journal(tmp_path / "j.db") as journal:
        for number, seconds in enumerate((-7200, -1800, 1800, 23 * 3600)):
            monkeypatch.setattr(time, "time", lambda moment=night + seconds: moment)
            attempt: dict[str, Any] = {"request_json": '{"model": "m"}', "response_json": None, "budget": None}
            asyncio.run(journal.failed(str(number), **attempt, reason="attempt 1: cut", cost_micro=1))
        days = {day: paid.calls for (day, _), paid in bill(journal).items()}
    assert days == {"2026-10-24": 1, "2026-10-25": 2, "2026-10-26": 1}
