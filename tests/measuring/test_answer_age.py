"""A run says how many of its answers came from the journal, and how old they are."""

from __future__ import annotations

import json
import re
import time
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pandas as pd
import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.printing import evaluation_lines
from jrh_mlflow.engine.journal import rows
from jrh_mlflow.measures.records import JournalAnswers, journal_answers
from jrh_mlflow.measuring.run_page import run_page
from jrh_mlflow.tracking.runs import keys
from tests.loopback import LoopbackServer

DAYS = 36
METRICS = {"calls/cached", "calls/oldest_answer_days"}


def run(server: LoopbackServer, store_uri: str, **options: object) -> jrh.Evaluation:
    judge = jrh.PromptedJudge("openai/gpt-4o-mini", api_base=server.url, max_tokens=64)
    suite = jrh.datasheet_suite(n_tasks=2, depth=1, design="paper")
    where = {"tracking_uri": store_uri, "experiment": "tests", "traces": "none"}
    return jrh.evaluate(judge, suite, **where, **options)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-secret-0123456789abcdef")
    with LoopbackServer(reply=lambda body: json.dumps({"reason": "r", "verdict": "A"})) as server:
        yield server


def test_answers_of_the_journal_are_counted_and_dated_wherever_a_run_is_shown(
    server: LoopbackServer, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    then = time.time() - DAYS * 86_400
    with monkeypatch.context() as earlier:
        # The clock of the journal alone: as if the first run had been made then.
        earlier.setattr(rows, "time", SimpleNamespace(time=lambda: then))
        first = run(server, store_uri)
    assert not METRICS & set(first.logged)
    assert journal_answers(first.calls) is None
    again = run(server, store_uri)
    assert again.calls["cached"].all()
    assert again.logged["calls/cached"] == len(again.calls)
    assert again.logged["calls/oldest_answer_days"] == pytest.approx(DAYS, abs=0.1)
    day, today = (f"{datetime.fromtimestamp(at, timezone.utc):%Y-%m-%d}" for at in (then, time.time()))
    told = journal_answers(again.calls)
    assert told is not None
    assert told.text.endswith(day)
    data = MlflowClient(store_uri).get_run(again.run_id).data
    page = run_page(store_uri, again.run_id, addresses=None)
    screen = " ".join(" ".join(evaluation_lines(again)).split())
    for shown in (data.tags[keys.TAG_NOTE], page, screen, again._repr_html_()):
        text = re.sub(r"\\(.)", r"\1", shown)
        assert told.text in text
        assert f"--fresh-after {today}" in text

    asked = server.counts["requests"]
    fresh = run(server, store_uri, fresh_after=today)
    assert server.counts["requests"] == 2 * asked, "the way to ask again asks again"
    assert not METRICS & set(fresh.logged)


def test_new_answers_are_dated_without_a_note(server: LoopbackServer, store_uri: str) -> None:
    run(server, store_uri)
    again = run(server, store_uri)
    told = journal_answers(again.calls)
    assert told is not None
    assert told.text in MlflowClient(store_uri).get_run(again.run_id).data.tags[keys.TAG_NOTE]
    assert told.text in again.cost_text
    assert "--fresh-after" not in " ".join(again.notes)


def test_a_note_begins_after_seven_days() -> None:
    first = pd.Timestamp(datetime.now(timezone.utc) - timedelta(days=7))
    told = JournalAnswers(n=1, calls=2, first=first, last=first, undated=0)
    assert told.old_note(7.0) == ""
    assert told.old_note(7.01)
    assert told.old_note(None) == ""


def test_days_are_a_span_one_day_or_not_known() -> None:
    calls = pd.DataFrame({"cached": [True, True, False, True]})
    unknown = journal_answers(calls)
    assert unknown is not None
    assert (unknown.n, unknown.calls, unknown.first, unknown.undated) == (3, 4, None, 3)
    some = journal_answers(
        calls.assign(asked_at=["2026-10-14T08:00:00+00:00", "2026-10-12T23:00:00+00:00", None, None])
    )
    assert some is not None
    assert some.undated == 1
    assert "2026-10-12 to 2026-10-14" in some.text
    assert some.days_before(datetime(2026, 10, 22, 23, tzinfo=timezone.utc).timestamp()) == 10
    assert journal_answers(calls.drop(columns="cached")) is None
