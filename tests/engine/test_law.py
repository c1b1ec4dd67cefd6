"""One law for paid attempts: sent, answered, usable; the same for both transports, scorers and generators."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine import ask_calls
from jrh_mlflow.engine.budget import bill
from jrh_mlflow.engine.calls import plan_calls
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.endings import ENDINGS
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.engine.runner import calls_frame
from jrh_mlflow.engine.sessions import LiveJudge
from jrh_mlflow.errors import BudgetError, JudgeError
from jrh_mlflow.models.prices import Overrides
from jrh_mlflow.tracking.runs import keys
from tests.cases import few
from tests.engine.journal_tools import start_python
from tests.engine.test_promises import MODEL, PRICES, SMALL, TINY, billed_micro, booked_micro, evaluate, judge_at
from tests.generation.tools import PRICES as WRITERS_PRICES
from tests.generation.tools import rows, run
from tests.loopback import LoopbackServer, Reply
from tests.loopback_replies import Body
from tests.models.transport_tools import Transports
from tests.waiting import wait_until

VERDICT = '{"reason": "r", "verdict": "A"}'
USAGE = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
TOLD_MICRO = 128


@pytest.fixture(params=["direct", "litellm"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Transports:
    name: Transports = request.param
    monkeypatch.setattr("jrh_mlflow.engine.client.pick_transport", lambda *_: name)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    return name


def completion(message: object, **fields: Any) -> Reply:
    choice = {"index": 0, "message": message, "finish_reason": "stop", **fields.pop("choice", {})}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini", "choices": [choice]}
    return Reply(raw=json.dumps({**body, "usage": USAGE, **fields}).encode(), bills=(100, 7))


def parts(text: str) -> Reply:
    return completion({"role": "assistant", "content": [{"type": "text", "text": text}]})


UNUSABLE = {
    "no text message": completion({"role": "assistant", "content": {"text": VERDICT}}),
    "parts of no text": completion({"role": "assistant", "content": [{"type": "image_url", "image_url": "x"}]}),
    "no message": completion(None),
    "an error in the body": completion({"role": "assistant", "content": None}, error={"message": "Busy.", "code": 503}),
}


def ask(
    server: LoopbackServer, journal: Path, transport: Transports, *, suite: jrh.Suite = TINY, concurrency: int = 1
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Ask what an evaluation asks; return the calls and what it would show of their cost."""
    judge = judge_at(server)
    settings = ClientSettings(concurrency=concurrency, price=judge.price(PRICES), transport=transport)
    with open_journal(journal) as book:
        calls = plan_calls(suite, judge, replicates=1)
        asked = ask_calls(judge, calls, concurrency=concurrency, journal=book, settings=settings)
    frame = calls_frame(asked.records)
    return frame, keys.last_values(keys.call_points(frame, seconds=1.0, paid=asked.paid))


def test_content_in_parts_is_read_as_the_text_it_is(transport: Transports, tmp_path: Path) -> None:
    with LoopbackServer(reply=lambda _: parts(VERDICT)) as server:
        calls, metrics = ask(server, tmp_path / "j.db", transport)
        assert server.counts["requests"] == len(calls) == 6
    assert set(calls["outcome"]) == {"verdict"}
    assert metrics["cost/usd"] == pytest.approx(6 * TOLD_MICRO / 1e6)


@pytest.mark.parametrize("case", few(UNUSABLE))
def test_an_answer_that_is_not_usable_counts_among_the_first_and_costs_what_it_tells(
    transport: Transports, case: str, tmp_path: Path
) -> None:
    with LoopbackServer(reply=lambda _: UNUSABLE[case]) as server:
        with pytest.raises(JudgeError) as stopped:
            ask(server, tmp_path / "j.db", transport, suite=SMALL, concurrency=2)
        assert 20 <= server.counts["requests"] <= 20 + 2
        assert booked_micro(tmp_path / "j.db") == billed_micro(server)
    # By the first answers, or by the circuit: both say what to do, which a count of failed calls does not.
    assert "malformed" in str(stopped.value)
    assert re.search("20 (malformed|times before)", str(stopped.value))


@pytest.mark.usefixtures("without_back_off")
@pytest.mark.parametrize("case", few(UNUSABLE, quick=2))
def test_an_answer_that_is_not_usable_is_asked_for_once_more_and_no_oftener(
    transport: Transports, case: str, tmp_path: Path
) -> None:
    with LoopbackServer(reply=lambda _: UNUSABLE[case]) as server:
        calls, _ = ask(server, tmp_path / "j.db", transport)
        assert server.counts["requests"] == 2 * 6
    assert set(calls["outcome"]) == {"error"}


def test_a_header_of_twenty_kilobytes_is_no_outage(transport: Transports, tmp_path: Path) -> None:
    long = Reply(text=VERDICT, headers={"X-Trace": "x" * 20_000})
    with LoopbackServer(reply=lambda _: long) as server:
        calls, _ = ask(server, tmp_path / "j.db", transport)
        assert server.counts["requests"] == 6
    assert set(calls["outcome"]) == {"verdict"}


def test_a_tool_call_is_named_as_such(transport: Transports, tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "grade", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    reply = completion(message, choice={"finish_reason": "tool_calls"})
    with LoopbackServer(reply=lambda _: reply) as server:
        calls, _ = ask(server, tmp_path / "j.db", transport)
        assert server.counts["requests"] == 6
    assert calls["error"].str.startswith("tool_call:").all()


def test_a_scorer_pays_for_two_answers_that_are_not_usable_and_no_more(transport: Transports) -> None:
    with LoopbackServer(reply=lambda _: UNUSABLE["no message"]) as server:
        judge = judge_at(server)
        calls = list(itertools.islice(plan_calls(TINY, judge, replicates=1), 1))
        (record,) = LiveJudge(judge).ask(calls)
        assert server.counts["requests"] == 2
    assert (record.outcome, (record.error or "").partition(":")[0]) == ("error", "malformed")


def test_a_cap_that_ends_a_run_names_the_commonest_failure_first(store_uri: str, tmp_path: Path) -> None:
    silent = Reply(raw=b'{"choices": [{}]}', bills=(100, 7))
    with LoopbackServer(reply=lambda _: silent) as server, pytest.raises(BudgetError) as stopped:
        evaluate(judge_at(server), prices=PRICES, tracking_uri=store_uri, max_usd=0.004, concurrency=1)
    text = str(stopped.value)
    assert "malformed" in text.partition("cap")[0]
    assert "Raise" not in text


def test_the_page_on_budgets_shows_the_whole_law() -> None:
    page = (Path(__file__).parents[2] / "docs" / "howto" / "budget.md").read_text(encoding="utf-8")
    for ending in ENDINGS:
        assert f"| {' | '.join(ending)} |" in page


def now_and_then(bad: Reply) -> Callable[[Body], str | Reply]:
    turns = itertools.count()
    return lambda _: bad if next(turns) % 7 == 3 else VERDICT


@pytest.mark.usefixtures("without_back_off")
def test_unusable_answers_between_good_ones_cost_what_they_told(transport: Transports, tmp_path: Path) -> None:
    with LoopbackServer(reply=now_and_then(UNUSABLE["no message"])) as server:
        calls, metrics = ask(server, tmp_path / "j.db", transport, suite=SMALL)
        assert booked_micro(tmp_path / "j.db") == billed_micro(server)
    assert set(calls["outcome"]) <= {"verdict", "error"}
    assert metrics["cost/usd"] == pytest.approx(billed_micro(server) / 1e6)
    assert metrics["cost/attempts"] == server.counts["requests"]


def booked_of(usage: dict[str, Any], journal: Path, transport: Transports, prices: Overrides | None = None) -> float:
    """What a call is shown at whose answer tells this usage."""
    with (
        LoopbackServer(reply=lambda _: Reply(text=VERDICT, usage_fields=usage)) as server,
        open_journal(journal) as book,
    ):
        judge = judge_at(server)
        calls = itertools.islice(plan_calls(TINY, judge, replicates=1), 1)
        settings = ClientSettings(price=judge.price(prices), transport=transport)
        (record,) = ask_calls(judge, calls, journal=book, settings=settings).records
        assert book.summary().spent_micro == pytest.approx(1e6 * (record.cost_usd or 0))
    return 1e6 * (record.cost_usd or 0)


def test_a_bill_of_next_to_nothing_does_not_beat_the_price_that_was_given(
    transport: Transports, tmp_path: Path
) -> None:
    usage = {**USAGE, "cost": 1e-9}
    assert booked_of(usage, tmp_path / "a.db", transport, prices=PRICES) == pytest.approx(TOLD_MICRO)
    assert booked_of(usage, tmp_path / "b.db", transport) == pytest.approx(1)
    assert booked_of({**USAGE, "cost": 0.01}, tmp_path / "c.db", transport, prices=PRICES) == pytest.approx(10_000)


@pytest.mark.parametrize("usage", [{"prompt_tokens": 100}, {"prompt_tokens": True, "completion_tokens": True}])
def test_a_usage_that_is_none_is_not_told(transport: Transports, usage: dict[str, Any], tmp_path: Path) -> None:
    reply = completion({"role": "assistant", "content": VERDICT}, usage=usage)
    with LoopbackServer(reply=lambda _: reply) as server:
        _, metrics = ask(server, tmp_path / "j.db", transport)
        billed = billed_micro(server)
    assert "cost/usd" not in metrics
    assert metrics["cost/unknown_attempts"] == 6
    assert 1e6 * metrics["cost/booked_worst_case"] >= billed > 0


def test_tokens_that_are_counted_in_floats_are_told_all_the_same(transport: Transports, tmp_path: Path) -> None:
    usage = {name: float(count) for name, count in USAGE.items()}
    assert booked_of(usage, tmp_path / "a.db", transport, prices=PRICES) == pytest.approx(TOLD_MICRO)


def test_tokens_from_a_cache_have_their_own_price(transport: Transports, tmp_path: Path) -> None:
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 0, "total_tokens": 1_000_000}
    cached = {**usage, "prompt_tokens_details": {"cached_tokens": 1_000_000}}
    assert booked_of(cached, tmp_path / "a.db", transport) == booked_of(usage, tmp_path / "b.db", transport) / 2
    priced = booked_of(cached, tmp_path / "c.db", transport, prices=PRICES)
    assert priced == pytest.approx(1_000_000), "of a price that the user gave, nobody said what a cache costs"


def test_reasoning_that_contradicts_the_completion_is_counted_beside_it(transport: Transports, tmp_path: Path) -> None:
    usage = {**USAGE, "completion_tokens_details": {"reasoning_tokens": 50}}
    assert booked_of(usage, tmp_path / "a.db", transport, prices=PRICES) == pytest.approx(100 + 4 * 57)
    inside = {**USAGE, "completion_tokens_details": {"reasoning_tokens": 5}}
    assert booked_of(inside, tmp_path / "b.db", transport, prices=PRICES) == pytest.approx(TOLD_MICRO)


def test_a_cut_attempt_is_bounded_by_the_prompt_that_the_next_one_tells(transport: Transports, tmp_path: Path) -> None:
    turns = itertools.count()

    def reply(_: Body) -> Reply:
        return Reply(text=VERDICT, cut=next(turns) == 0)

    with LoopbackServer(reply=reply) as server, open_journal(tmp_path / "j.db") as book:
        judge = judge_at(server)
        calls = itertools.islice(plan_calls(TINY, judge, replicates=1), 1)
        settings = ClientSettings(price=judge.price(PRICES), transport=transport)
        (record,) = ask_calls(judge, calls, journal=book, settings=settings).records
        told = server.counts["input_tokens"] // 2
        assert 1e6 * (record.worst_usd or 0) == pytest.approx(told + 4 * 64)
        assert (record.attempts, record.unknown_attempts) == (2, 1)
        booked = book.summary().spent_micro
    assert booked == pytest.approx(1e6 * ((record.cost_usd or 0) + (record.worst_usd or 0)))


def test_a_killed_process_books_what_the_server_saw_and_no_more(tmp_path: Path) -> None:
    held = threading.Event()

    async def hold() -> None:
        while not held.is_set():
            await asyncio.sleep(0.01)

    with LoopbackServer(hold=hold) as server:
        child = start_python(HOLDING, server.url, str(tmp_path / "j.db"))
        wait_until(lambda: bool(server.counts["requests"]))
        child.kill()
        child.communicate()
        held.set()
        seen = server.counts["requests"]
    with open_journal(tmp_path / "j.db") as journal:
        assert 0 < journal.recovery.lost <= 3
        assert journal.recovery.lost >= seen > 0, "what is marked may not have reached the server yet"
        (paid,) = bill(journal, model=MODEL).values()
        assert paid.calls == paid.unknown == journal.recovery.lost


HOLDING = """
import sys
import jrh_mlflow as jrh
from jrh_mlflow.engine import ask_calls, plan_calls
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import open_journal

url, path = sys.argv[1:]
judge = jrh.PromptedJudge("openai/gpt-4o-mini", api_base=url, max_tokens=64)
settings = ClientSettings(concurrency=3, price=judge.price({"openai/gpt-4o-mini": (1.0, 4.0)}))
calls = plan_calls(jrh.datasheet_suite(n_tasks=2, depth=2), judge, replicates=1)
with open_journal(path) as journal:
    ask_calls(judge, calls, journal=journal, settings=settings)
"""


def test_a_generator_stops_after_twenty_answers_that_are_not_usable(store_uri: str, tmp_path: Path) -> None:
    options = {"prices": WRITERS_PRICES, "concurrency": 2, "journal": str(tmp_path / "g.db")}
    with LoopbackServer(reply=lambda _: UNUSABLE["no message"]) as server, pytest.raises(JudgeError):
        run(rows(40), server, store_uri, tests=["label_flip"], **options)
    assert 20 <= server.counts["requests"] <= 20 + 2
    assert booked_micro(tmp_path / "g.db") == server.bill_micro(10.0, 20.0)
