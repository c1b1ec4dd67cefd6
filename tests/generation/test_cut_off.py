"""Generations cut off after some call and started again: nothing is paid twice, the suite is the same."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jrh_mlflow.engine.client import ModelClient
from jrh_mlflow.errors import JudgeError
from jrh_mlflow.generation.generate import GenerationRun
from tests.generation import agent_tools, tools
from tests.loopback import LoopbackServer, Reply

TESTS = ["label_flip", "semantic_paraphrase"]
Start = Callable[[str], GenerationRun]


class Moody:
    """Answers as a player does, but refuses every third request for good, by what is in it."""

    def __init__(self, player: Callable[[dict[str, Any]], str | Reply]) -> None:
        self._player = player
        self.answered: Counter[str] = Counter()

    def __call__(self, body: dict[str, Any]) -> str | Reply:
        text = json.dumps(body, sort_keys=True)
        answer = self._player(body)
        if hashlib.sha256(text.encode()).digest()[0] % 3 == 0:
            return Reply(refusal="No.")
        self.answered[text] += 1
        return answer


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")


def cut_off_everywhere(start: Start, moody: Moody, monkeypatch: pytest.MonkeyPatch) -> GenerationRun:
    """Cut off one start after the other, each at a later call, and compare with a start that was never cut off."""
    sent, limit, send = [0], [10**9], ModelClient.send

    async def limited(self: ModelClient, *arguments: Any, **more: Any) -> Any:
        sent[0] += 1
        if sent[0] > limit[0]:
            raise JudgeError("cut off")
        return await send(self, *arguments, **more)

    monkeypatch.setattr(ModelClient, "send", limited)
    whole = start("whole.db")
    total, once = sent[0], Counter(moody.answered)
    assert total > once.total()
    moody.answered.clear()
    # Fewer calls than a whole start takes, all cuts together; what was refused is tried again after each.
    for limit[0] in (1, total // 6, total // 3, total // 3):
        sent[0] = 0
        with pytest.raises(JudgeError, match="cut off"):
            start("cut.db")
    limit[0] = 10**9
    assert start("cut.db").suite.sha256 == whole.suite.sha256
    assert moody.answered == once
    return whole


def test_texts_and_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = tools.rows(3)
    moody = Moody(tools.Player(dataset, tests=TESTS))
    with LoopbackServer(reply=moody) as server:

        def start(journal: str) -> GenerationRun:
            return tools.run(dataset, server, None, tests=TESTS, journal=journal, concurrency=1)

        whole = cut_off_everywhere(start, moody, monkeypatch)
    assert whole.metrics["generate/items"] > 0


@pytest.mark.slow
def test_edited_transcripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = agent_tools.booking_log(tmp_path / "booking.eval", n=2)
    moody = Moody(agent_tools.AgentPlayer())
    with LoopbackServer(reply=moody) as server:

        def start(journal: str) -> GenerationRun:
            return agent_tools.run(log, server, None, journal=journal, concurrency=1)

        whole = cut_off_everywhere(start, moody, monkeypatch)
    assert whole.metrics["generate/items"] > 0
