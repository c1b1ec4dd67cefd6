"""Any callable as a judge: sync, async, well-behaved or not. Every call ends as one record."""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
import sys
import threading
from collections.abc import Coroutine

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine import ask_calls, plan_calls
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.callables import CallableJudge
from jrh_mlflow.measuring.resolve import resolve_judge
from jrh_mlflow.schema.items import CallRecord
from jrh_mlflow.schema.presentation import Presentation
from tests.readings import asked, value

SUITE = jrh.datasheet_suite(n_tasks=2, depth=2)


def longer(presentation: Presentation) -> str:
    first, second = len(presentation.first or ""), len(presentation.second or "")
    return "tie" if first == second else "1" if first > second else "2"


async def longer_async(presentation: Presentation) -> str:
    return longer(presentation)


def returns_coroutine(presentation: Presentation) -> Coroutine[None, None, str]:
    """Sync to look at, async all the same."""
    return longer_async(presentation)


class LongerObject:
    name = "longer-object"

    def __call__(self, presentation: Presentation) -> str:
        return longer(presentation)


class LongerAsyncObject:
    async def __call__(self, presentation: Presentation) -> str:
        return longer(presentation)

    def method(self, presentation: Presentation) -> str:
        return longer(presentation)


def readings(records: list[CallRecord]) -> list[tuple[object, ...]]:
    return [(one.suite_item, one.order, one.replicate, one.outcome, one.answer) for one in records]


@pytest.mark.parametrize(
    "judge",
    [
        longer,
        longer_async,
        LongerObject(),
        LongerAsyncObject(),
        LongerAsyncObject().method,
        functools.partial(longer),
        functools.partial(longer_async),
        lambda presentation: str(longer(presentation)),
        returns_coroutine,
        lambda presentation: jrh.Answer(longer(presentation), rationale="count"),
    ],
    ids=[
        "sync",
        "async",
        "object",
        "async-object",
        "method",
        "partial",
        "async-partial",
        "lambda",
        "coroutine",
        "answer",
    ],
)
def test_every_kind_of_callable_reads_like_the_scripted_judge(judge):
    assert readings(asked(judge, SUITE)) == readings(asked(jrh.scripted.LongerWins(), SUITE))


def test_records_come_in_the_order_of_the_calls_however_many_are_in_flight():
    judge = resolve_judge(longer)
    one, many = (
        ask_calls(judge, plan_calls(SUITE, judge, replicates=2), concurrency=concurrency).records
        for concurrency in (1, 16)
    )
    assert readings(one) == readings(many)


def test_a_sync_callable_never_runs_in_the_thread_of_the_loop():
    threads = set()

    def judge(_: Presentation) -> str:
        threads.add(threading.current_thread().name)
        return "tie"

    asked(judge, SUITE)
    assert threads
    assert all(name.startswith("jrh-judge") for name in threads)


def test_a_callable_is_shown_the_presentation_and_nothing_else():
    shown: list[Presentation] = []

    def judge(presentation: Presentation) -> str:
        shown.append(presentation)
        return "tie"

    asked(judge, SUITE)
    assert len(shown) == 2 * len(SUITE)
    assert {type(one) for one in shown} == {Presentation}
    for one in shown:
        text = f"{one.instruction} {one.rubric} {one.first} {one.second} {one.answers}"
        assert not any(word in text for word in ("delta_0", "ladder", "vacuum", "filler", "u better"))
        assert one.answers == ("1", "2", "tie")
        assert "may be equally good" in str(one.rubric)


@pytest.mark.parametrize(
    ("returned", "outcome", "reason"),
    [
        ("TIE ", "tie", None),
        ("abstain", "abstain", None),
        (2, "verdict", None),
        ("3", "unparsed", "'3' is not one of '1', '2', 'tie'"),
        (None, "unparsed", "None is not one of '1', '2', 'tie'"),
        ("I prefer the first.", "unparsed", "'I prefer the first.' is not one of '1', '2', 'tie'"),
        (True, "unparsed", "True is not one of '1', '2', 'tie'"),
    ],
)
def test_what_a_callable_returns_is_an_outcome(returned, outcome, reason):
    records = asked(lambda _: returned, SUITE)
    assert {one.outcome for one in records} == {outcome}
    assert {one.error for one in records} == {reason}
    assert {one.answer for one in records} == {"2" if outcome == "verdict" else ""}


def test_a_judge_that_raises_is_the_outcome_error_and_the_run_finishes():
    def judge(presentation: Presentation) -> str:
        if not presentation.first:
            raise ConnectionError("no route")
        return "1"

    async def judge_async(presentation: Presentation) -> str:
        return judge(presentation)

    for one in (judge, judge_async):
        records = asked(one, SUITE)
        assert len(records) == 2 * len(SUITE)
        failed = [record for record in records if record.condition == "vacuum_empty"]
        assert {record.outcome for record in failed} == {"error"}
        assert {record.error for record in failed} == {"ConnectionError: no route"}
        assert {record.outcome for record in records if record not in failed} == {"verdict"}


def cancels_itself(_: Presentation) -> str:
    raise asyncio.CancelledError


async def cancels_itself_async(_: Presentation) -> str:
    raise asyncio.CancelledError


@pytest.mark.parametrize("judge", [cancels_itself, cancels_itself_async])
def test_a_judge_that_raises_cancelled_error_is_the_outcome_error_and_the_run_finishes(judge):
    records = asked(judge, SUITE)
    assert len(records) == 2 * len(SUITE)
    assert {record.outcome for record in records} == {"error"}
    assert {record.error for record in records} == {"JudgeError: The judge raised asyncio.CancelledError."}


def test_a_call_that_is_cancelled_from_outside_is_cancelled_in_the_judge_too():
    ended = []

    async def judge(_: Presentation) -> str:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)
        return "1"

    async def run() -> None:
        call = next(iter(plan_calls(SUITE, resolve_judge(judge), replicates=1)))
        task = asyncio.ensure_future(resolve_judge(judge).ask(call))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert ended == [True]


@pytest.mark.parametrize(
    "returned",
    [10**5000, -(10**5000), jrh.Answer(10**5000), jrh.Answer({"a": jrh.Answer(10**5000)})],
    ids=["bare", "negative", "in an answer", "under a rubric"],
)
def test_an_integer_that_python_cannot_write_is_the_outcome_error_and_the_run_finishes(returned):
    records = asked(lambda _: returned, SUITE)
    assert len(records) == 2 * len(SUITE)
    assert {record.outcome for record in records} == {"error"}
    assert {record.error for record in records} == {
        "JudgeError: The judge answered with an integer of 16,610 bits. Return one of the answers."
    }


def test_lost_answers_leave_their_denominators_and_withhold_what_is_past_the_limit():
    """A judge that fails on empty pairs, talks on padded ones and answers the rest."""

    def judge(presentation: Presentation) -> object:
        if not presentation.first:
            raise TimeoutError
        lengths = sorted((len(presentation.first), len(presentation.second or "")))
        return "the padded one" if lengths[1] > 1.2 * lengths[0] else "tie"

    sheet = jrh.measure(asked(judge, jrh.load_suite("datasheet-paper")))
    assert sheet.outcomes == {"verdict": 0, "tie": 580, "abstain": 0, "unparsed": 60, "error": 40}
    of_lost = {"dark_current", "tie_rate/vacuum", "slot_lean/vacuum", "filler_preference", "padding_lean"}
    assert set(sheet.withheld) == of_lost
    assert value(sheet, "no_preference") == 1


def test_what_an_answer_carries_is_on_the_record_and_unknown_is_not_zero():
    def judge(_: Presentation) -> jrh.Answer:
        return jrh.Answer("1", rationale="bad \ud800 text", input_tokens=7, cost_usd=0.5, confidence=0.9)

    record = asked(judge, SUITE)[0]
    assert (record.rationale, record.input_tokens, record.output_tokens) == ("bad \ufffd text", 7, None)
    assert (record.cost_usd, record.confidence, record.model) == (0.5, 0.9, resolve_judge(judge).name)


def test_the_two_orders_of_a_pair_are_two_prompts_and_of_a_vacuum_pair_one():
    records = asked(longer, SUITE)
    hashes: dict[tuple[str, str], set[str | None]] = {}
    for one in records:
        hashes.setdefault((one.condition, one.suite_item), set()).add(one.prompt_sha256)
    for (condition, _), found in hashes.items():
        assert len(found) == (1 if condition.startswith("vacuum") else 2)


# Names, kinds and fingerprints.


def test_a_judge_is_named_after_what_it_is():
    assert resolve_judge(longer).name == "longer"
    assert resolve_judge(LongerObject()).name == "longer-object"
    assert resolve_judge(LongerAsyncObject()).name == "LongerAsyncObject"
    assert resolve_judge(longer).settings() == {"model": "longer", "kind": "callable", "tie_criterion": "allowed"}
    assert not resolve_judge(longer).simulated


def test_another_criterion_makes_another_judge_and_leaves_the_first_alone():
    base = resolve_judge(longer)
    strict = base.with_criterion("strict")
    assert (base.tie_criterion.name, strict.tie_criterion.name) == ("allowed", "strict")
    assert base.fingerprint() != strict.fingerprint()
    assert "only in wording" in strict.prompt()


def test_a_judge_of_the_package_stays_what_it_is():
    judge = jrh.scripted.AlwaysTie()
    assert resolve_judge(judge) is judge
    assert isinstance(resolve_judge(longer), CallableJudge)
    assert isinstance(resolve_judge(longer), Judge)


def test_a_class_instead_of_an_object_is_refused_with_the_way_out():
    with pytest.raises(RecipeError, match=r"got the class AlwaysTie\. Call it: AlwaysTie\(\)\."):
        resolve_judge(jrh.scripted.AlwaysTie)


@pytest.mark.parametrize("thing", [None, 5, {"model": "x"}])
def test_what_is_no_judge_is_refused(thing):
    with pytest.raises(RecipeError, match=f"but got {type(thing).__name__}"):
        resolve_judge(thing)


def made(threshold: int):
    def judge(presentation: Presentation) -> str:
        return "1" if len(presentation.first or "") > threshold else "tie"

    return judge


def test_a_fingerprint_follows_the_code_and_the_plain_values_it_holds():
    assert resolve_judge(made(1)).fingerprint() == resolve_judge(made(1)).fingerprint()
    assert resolve_judge(made(1)).fingerprint() != resolve_judge(made(2)).fingerprint()
    assert resolve_judge(longer).fingerprint() != resolve_judge(made(1)).fingerprint()


def test_a_callable_that_holds_more_than_plain_values_has_no_fingerprint():
    client = object()
    assert resolve_judge(lambda _, held=client: str(held)).fingerprint() is None
    assert resolve_judge(LongerObject()).fingerprint() is None


def test_a_judge_that_closes_over_what_comes_later_has_no_fingerprint():
    def judge(presentation: Presentation) -> str:
        return later

    assert resolve_judge(judge).fingerprint() is None
    later = "1"
    assert resolve_judge(judge).fingerprint() is not None


def test_a_fingerprint_is_the_same_in_another_process():
    """`in {"1", "2"}` holds a frozen set whose order is the hash seed's; the fingerprint must not follow it."""
    code = """
from jrh_mlflow.judges.callables import CallableJudge
def judge(presentation):
    return "1" if presentation.first in {"a", "b", "c", "d", "e", "f"} else "tie"
fingerprint = CallableJudge(judge).fingerprint()
print(fingerprint)
"""
    exec(code, here := {"__name__": "__main__"})
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = os.environ | {"PYTHONHASHSEED": seed}
    there = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here["fingerprint"] is not None


PROMPT = "one"


def test_a_global_prompt_is_part_of_the_judge(monkeypatch):
    def judge(shown):
        return PROMPT

    first = CallableJudge(judge).fingerprint()
    monkeypatch.setitem(globals(), "PROMPT", "two")
    assert first is not None
    assert CallableJudge(judge).fingerprint() != first
    monkeypatch.setitem(globals(), "PROMPT", ["a", "list", "can", "change"])
    assert CallableJudge(judge).fingerprint() is None


def test_a_function_that_the_judge_calls_is_part_of_it(monkeypatch):
    def judge(shown):
        return _helper(shown)

    first = CallableJudge(judge).fingerprint()
    monkeypatch.setitem(globals(), "_helper", lambda shown: "2")
    assert first is not None
    assert CallableJudge(judge).fingerprint() not in (first, None)


def _helper(shown):
    return "1"
