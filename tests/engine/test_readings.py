"""Replicates that are answered alike are read once; whatever differs is read by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine.calls import plan_calls
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.engine.runner import ask_calls
from jrh_mlflow.judges.parsing import ParsedAnswer
from jrh_mlflow.schema.items import Call, CallRecord
from jrh_mlflow.schema.requests import Response
from tests.loopback import LoopbackServer

MODEL = "openai/gpt-4o-mini"


class Reader(jrh.PromptedJudge):
    """Keeps what it read."""

    def read(self, response: Response, call: Call) -> ParsedAnswer:
        self.read_texts = [*getattr(self, "read_texts", []), response.text]
        return super().read(response, call)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")


def asked(judge: Reader, journal: Path, *, replicates: int) -> list[CallRecord]:
    judge.read_texts = []
    suite = jrh.datasheet_suite(n_tasks=1, depth=1)
    with open_journal(str(journal)) as opened:
        calls = plan_calls(suite, judge, replicates=replicates)
        settings = ClientSettings(concurrency=1)
        return list(ask_calls(judge, calls, concurrency=1, journal=opened, settings=settings).records)


def test_replicates_that_are_answered_alike_are_read_once_for_each_presentation(tmp_path: Path) -> None:
    with LoopbackServer(reply="verdict") as server:
        judge = Reader(MODEL, api_base=server.url)
        once = asked(judge, tmp_path / "once.db", replicates=1)
        n_presentations = len(judge.read_texts)
        records = asked(judge, tmp_path / "many.db", replicates=6)
        assert len(judge.read_texts) == n_presentations == len(once)
        assert len(records) == 6 * len(once)
        assert {record.answer for record in records} == {"1"}
        served = asked(judge, tmp_path / "many.db", replicates=6)
        assert len(judge.read_texts) == n_presentations
        assert [(record.cached, record.answer, record.rationale) for record in served] == [
            (True, record.answer, record.rationale) for record in records
        ]


def test_replicates_that_are_answered_otherwise_are_each_read(tmp_path: Path) -> None:
    numbers = iter(range(10_000))

    def reply(_: object) -> str:
        number = next(numbers)
        return json.dumps({"reason": f"reason {number}", "verdict": "AB"[number % 2]})

    with LoopbackServer(reply=reply) as server:
        judge = Reader(MODEL, api_base=server.url)
        records = asked(judge, tmp_path / "journal.db", replicates=3)
        assert len(judge.read_texts) == len(records) == len({record.rationale for record in records})
        served = asked(judge, tmp_path / "journal.db", replicates=3)
    facts = [[(record.answer, record.rationale) for record in some] for some in (records, served)]
    assert facts[0] == facts[1]
    assert {answer for answer, _ in facts[0]} == {"1", "2"}
