"""Which event loop asks: the quick one for models, Python's own for code of the user's, which may patch its loop."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine import ask_calls, plan_calls, runner
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.measuring.resolve import resolve_judge
from jrh_mlflow.schema.items import CallRecord
from tests.ledger import SUITE, VERDICT, judge_at
from tests.loopback import LoopbackServer


def loop_of_a_model(journal: Path) -> set[str]:
    """Ask a model; return the kinds of event loops that its records came in."""
    kinds: set[str] = set()

    def heard(record: CallRecord) -> None:
        assert record.outcome == "verdict"
        kinds.add(type(asyncio.get_running_loop()).__module__)

    with LoopbackServer(reply=lambda _: VERDICT) as server, open_journal(journal) as opened:
        judge = judge_at(server)
        ask_calls(judge, list(plan_calls(SUITE, judge, replicates=1))[:4], journal=opened, on_record=heard)
    return kinds


def test_a_model_is_asked_in_the_quick_loop_also_from_a_notebook(tmp_path: Path) -> None:
    assert loop_of_a_model(tmp_path / "a.db") == {"uvloop"}

    async def cell() -> set[str]:
        return loop_of_a_model(tmp_path / "b.db")

    assert asyncio.run(cell()) == {"uvloop"}


def test_where_there_is_no_quick_loop_pythons_own_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    runner._quick_run.cache_clear()
    [kind] = loop_of_a_model(tmp_path / "a.db")
    runner._quick_run.cache_clear()
    assert kind.startswith("asyncio")


def test_a_judge_of_code_is_asked_in_pythons_own_loop() -> None:
    kinds: set[str] = set()

    async def judge(shown: jrh.Presentation) -> str:
        kinds.add(type(asyncio.get_running_loop()).__module__)
        return "1"

    resolved = resolve_judge(judge)
    ask_calls(resolved, list(plan_calls(SUITE, resolved, replicates=1))[:4])
    [kind] = kinds
    assert kind.startswith("asyncio")
