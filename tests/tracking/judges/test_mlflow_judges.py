"""Real MLflow judges and scorers behind the real runner: votes, threads, settings, limits."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from jrh_mlflow.engine.runner import ask_calls
from jrh_mlflow.schema.items import Call
from jrh_mlflow.tracking.judges.scorers import from_mlflow, is_mlflow_judge
from tests.mlflow_features import before
from tests.tracking.judges.mlflow_chat import COMPARE, KEY, MODEL, ChatServer, ask, chatting, compare, pair_call, says


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with chatting(monkeypatch) as server:
        yield server


def test_a_hung_retry_loop_is_bounded_by_the_timeout_of_the_judge(chat: ChatServer) -> None:
    # The abandoned thread asks once more: 400 is not retried, so it ends and leaves nothing behind.
    chat.reply = lambda _: 429 if len(chat.bodies) == 1 else 400
    judge = compare(name="hung")
    if before("3.17"):
        assert not hasattr(judge, "timeout")
        return
    judge.timeout = 0.3
    record = ask(from_mlflow(judge), pair_call())
    assert record.outcome == "error"
    assert "timed out after 0.3 seconds" in (record.error or "")
    for thread in threading.enumerate():
        if thread.name == "MlflowScorer-hung":
            thread.join()
    assert len(chat.bodies) == 2


@pytest.mark.parametrize(
    ("votes", "answers", "expected"),
    [
        (("A", "A", "B"), ("1", "2", "tie"), ("verdict", "1")),
        (("tie", "A", "tie"), ("1", "2", "tie"), ("tie", "")),
        (("A", "B"), ("1", "2", "tie"), ("tie", "")),
        (("A", "B"), ("1", "2"), ("abstain", "")),
        (("A", "first", ValueError("down")), ("1", "2", "tie"), ("verdict", "1")),
        (("A", "B", "neither", ValueError("down"), "B"), ("1", "2", "tie"), ("verdict", "2")),
        (("A", "neither", ValueError("down")), ("1", "2", "tie"), ("error", "")),
        (("A", ValueError("down")), ("1", "2", "tie"), ("error", "")),
    ],
)
def test_a_list_votes_and_missing_votes_stay_missing(
    votes: tuple[object, ...], answers: tuple[str, ...], expected: tuple[str, str]
) -> None:
    judge = from_mlflow([says(vote, name=f"m{index}") for index, vote in enumerate(votes)])
    record = ask(judge, pair_call(answers=answers))
    assert (record.outcome, record.answer) == expected
    minutes = (record.rationale or "") + (record.error or "")
    assert all(f"m{index}: " in minutes for index in range(len(votes)))


def test_a_list_of_paid_judges_adds_up_and_an_unknown_share_stays_unknown(chat: ChatServer) -> None:
    record = ask(from_mlflow([compare(), compare(name="again")]), pair_call())
    assert (record.input_tokens, record.output_tokens) == (22, 14)
    assert record.cost_usd == pytest.approx(2 * (11 * 0.15e-6 + 7 * 0.6e-6))
    record = ask(from_mlflow([compare(), says("A")]), pair_call())
    assert (record.outcome, record.input_tokens, record.cost_usd) == ("verdict", None, None)


def test_an_ensemble_of_mlflow_counts_the_tokens_of_its_members(chat: ChatServer) -> None:
    from mlflow.genai import scorers

    if before("3.16"):
        assert not hasattr(scorers, "make_scorer_ensemble")
        return
    members = [compare(), compare(name="again"), compare(name="third")]
    judge = from_mlflow(scorers.make_scorer_ensemble(name="jury", scorers=members, ensemble_fn="majority_vote"))
    record = ask(judge, pair_call())
    assert (record.outcome, record.answer, record.model) == ("verdict", "1", "jury")
    assert (record.input_tokens, record.output_tokens) == (33, 21)
    assert record.cost_usd == pytest.approx(3 * (11 * 0.15e-6 + 7 * 0.6e-6))
    assert judge.settings()["model"] == MODEL


def test_sixteen_threads_of_waiting_calls_never_stop_the_loop() -> None:
    from mlflow.genai.scorers import scorer

    ticked = threading.Condition()
    together = threading.Barrier(16)
    ticks = in_flight = peak = 0

    async def heartbeat() -> None:
        nonlocal ticks
        while True:
            with ticked:
                ticks += 1
                ticked.notify_all()
            await asyncio.sleep(0.001)

    @scorer
    def slow(outputs):
        nonlocal in_flight, peak
        with ticked:
            in_flight += 1
            peak = max(peak, in_flight)
            before = ticks
        together.wait(timeout=60)
        time.sleep(0.05)
        with ticked:
            # Were the loop blocked by this call, the heart could not beat before it returns.
            alive = ticked.wait_for(lambda: ticks > before, timeout=60)
            in_flight -= 1
        return "A" if alive else "the loop stood still"

    def calls() -> Iterator[Call]:
        beating = asyncio.get_running_loop().create_task(heartbeat())
        yield from (pair_call() for _ in range(64))
        assert not beating.done()

    records = ask_calls(from_mlflow(slow), calls(), concurrency=16).records
    assert [record.answer for record in records] == ["1"] * 64
    assert peak == 16


def test_settings_and_prompt_say_what_the_judge_is_and_the_criterion_is_told(chat: ChatServer) -> None:
    judge = from_mlflow(compare(inference_params={"temperature": 0, "api_key": KEY}))
    settings = judge.settings()
    assert (settings["name"], settings["kind"], settings["model"]) == ("compare", "mlflow", MODEL)
    assert (settings["scorer"], settings["feedback_type"]) == ("instructions", "Literal['A', 'B', 'tie']")
    assert (settings["temperature"], settings["top_p"]) == ("0", None)
    assert len(str(settings["instructions_sha256"])) == 64
    assert KEY not in repr(settings)
    assert COMPARE in judge.prompt()
    strict = judge.with_criterion("strict")
    assert strict.settings()["tie_criterion"] == "strict"
    assert strict.tie_criterion.text in strict.prompt()
    assert ask(strict, pair_call()).answer == "1"


def test_guidelines_and_members_are_in_the_prompt_and_its_hash() -> None:
    from mlflow.genai.scorers import Guidelines

    polite, brief = (Guidelines(name=text, guidelines=text, model=MODEL) for text in ("Be polite.", "Be brief."))
    one, other, both = from_mlflow(polite), from_mlflow(brief), from_mlflow([polite, brief, says("yes")])
    assert one.settings()["instructions_sha256"] != other.settings()["instructions_sha256"]
    assert "Be polite." in one.prompt()
    assert "Majority vote" not in one.prompt()
    assert all(text in both.prompt() for text in ("Be polite.", "Be brief.", "# said", "Majority vote"))
    assert both.name == "Be polite.+Be brief.+said"
    assert both.settings()["model"] == MODEL


def test_a_fingerprint_tells_judges_apart_and_is_withheld_when_code_takes_part() -> None:
    first, same, other = from_mlflow(compare()), from_mlflow(compare()), from_mlflow(compare(model="openai:/gpt-4o"))
    assert first.fingerprint() == same.fingerprint() is not None
    assert first.fingerprint() != other.fingerprint()
    assert first.fingerprint() != first.with_criterion("strict").fingerprint()
    assert first.fingerprint() != from_mlflow(compare(base_url="http://127.0.0.1:1/v1")).fingerprint()
    assert from_mlflow(says("A")).fingerprint() is None
    assert from_mlflow(compare(), outputs=lambda shown: shown.first).fingerprint() is None


def test_scorers_are_known_by_their_ancestry_and_other_things_are_not() -> None:
    from mlflow.genai.scorers import Guidelines

    assert is_mlflow_judge(compare())
    assert is_mlflow_judge([says("A"), Guidelines(guidelines="x", model=MODEL)])
    for other in (len, str, "openai:/gpt-4o-mini", None, [], [says("A"), len], Guidelines, {"a": says("A")}):
        assert not is_mlflow_judge(other)


def test_looking_at_a_judge_does_not_import_mlflow() -> None:
    code = (
        "import sys; from jrh_mlflow.tracking.judges.scorers import is_mlflow_judge;"
        "print(is_mlflow_judge(len), is_mlflow_judge([print]), 'mlflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "False"]
