"""Money and restarts: nothing answered is paid twice, the cap holds, a dead service is no suite."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from mlflow import MlflowClient

from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.generation.generate import price_generation
from jrh_mlflow.generation.writers import Generator
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.options import GenerationSettings
from tests.generation.tools import CHECKER, LABELS, PRICES, RUBRIC, WRITER, Player, rows, run
from tests.loopback import LoopbackServer, Reply, error_reply
from tests.processes import Forked
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
TESTS = ["label_flip", "semantic_paraphrase", "verbosity_bias_long"]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")


def test_a_second_run_sends_nothing_and_makes_the_same_suite() -> None:
    player = Player(rows(6), tests=TESTS)
    with LoopbackServer(reply=player) as server:
        first = run(rows(6), server, None, tests=TESTS, prices=PRICES)
        sent = server.counts["requests"]
        second = run(rows(6), server, None, tests=TESTS, prices=PRICES)
    assert server.counts["requests"] == sent
    assert second.suite.sha256 == first.suite.sha256
    assert second.metrics["calls/cached"] == second.metrics["calls/total"] == sent
    assert second.metrics["cost/usd"] == first.metrics["cost/usd"]


def test_attempts_without_a_text_are_not_repeated_once_a_later_one_has_passed() -> None:
    player = Player(
        rows(3), tests="semantic_paraphrase", write=lambda _, heat: Reply(refusal="No.") if heat < 1 else None
    )
    with LoopbackServer(reply=player) as server:
        first = run(rows(3), server, None, tests="semantic_paraphrase")
        sent = server.counts["requests"]
        second = run(rows(3), server, None, tests="semantic_paraphrase")
    assert sent == 12
    assert server.counts["requests"] == sent
    assert second.suite.sha256 == first.suite.sha256


def test_a_refused_item_is_asked_again_on_the_next_run() -> None:
    refuse = [True]
    player = Player(rows(1), tests="semantic_paraphrase", write=lambda *_: Reply(refusal="No.") if refuse[0] else None)
    with LoopbackServer(reply=player) as server:
        assert len(run(rows(1), server, None, tests="semantic_paraphrase").suite) == 1
        refuse[0] = False
        assert len(run(rows(1), server, None, tests="semantic_paraphrase").suite) == 2


def test_a_validator_that_refused_is_asked_again_about_the_same_text() -> None:
    asked: list[str] = []

    def refuse_the_first(expected: str) -> str | Reply:
        asked.append(expected)
        return Reply(refusal="No.") if len(asked) == 1 else expected

    player = Player(rows(1), tests="label_flip", answer=refuse_the_first)
    with LoopbackServer(reply=player) as server:
        first = run(rows(1), server, None, tests="label_flip")
        sent = server.counts["requests"]
        second = run(rows(1), server, None, tests="label_flip")
    assert len(first.suite) == 1
    assert (sent, server.counts["requests"]) == (3, 4)
    assert second.suite.items[1].meta["attempts"] == 1


def test_equal_rows_get_texts_of_their_own() -> None:
    twins = [rows(1)[0], {**rows(1)[0], "id": "twin"}]
    player = Player(twins[:1], tests="semantic_paraphrase")
    with LoopbackServer(reply=player) as server:
        run(twins, server, None, tests="semantic_paraphrase", confirm=False)
    assert server.counts["requests"] == 2


CHILD = """
import sys
from tests.generation.tools import PRICES, rows, run
from tests.loopback import LoopbackServer
url, journal, store = sys.argv[1:]
server = LoopbackServer(port=int(url))
run(rows(12), server, store, tests=["label_flip", "semantic_paraphrase", "verbosity_bias_long"], journal=journal,
    concurrency=4, prices=PRICES)
"""


@pytest.mark.slow
def test_killed_half_way_and_started_again_it_pays_no_answer_twice(store_uri: str, tmp_path: Path) -> None:
    player, journal = Player(rows(12), tests=TESTS), str(tmp_path / "killed.db")
    with LoopbackServer(reply=player, latency=0.03) as server:
        whole = run(rows(12), server, None, tests=TESTS, journal="whole.db", prices=PRICES)
        total, start = server.counts["requests"], server.counts["answered"]
        child = Forked(CHILD, server.port, journal, store_uri, cwd=ROOT)
        wait_until(lambda: child.poll() is not None or server.counts["answered"] >= start + total // 3)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        assert server.counts["answered"] < start + total
        again = run(rows(12), server, store_uri, tests=TESTS, journal=journal, prices=PRICES)
        # What was on its way when the process died can only be asked again: at most what was in flight.
        assert total <= server.counts["answered"] - start <= total + 8
    assert again.suite.sha256 == whole.suite.sha256
    assert again.metrics["calls/cached"] > 0


@pytest.mark.slow
def test_ctrl_c_settles_what_is_in_flight_and_marks_the_run(store_uri: str, tmp_path: Path) -> None:
    player, journal = Player(rows(12), tests=TESTS), str(tmp_path / "stopped.db")
    with LoopbackServer(reply=player, latency=0.2) as server:
        child = Forked(CHILD, server.port, journal, store_uri, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: child.poll() is not None or server.counts["answered"] >= 6)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
    assert child.returncode != 0
    assert "Stopping: " in said
    with open_journal(journal) as book:
        assert (book.summary().answered, book.summary().lost) == (server.counts["answered"], 0)
    client = MlflowClient(tracking_uri=store_uri)
    (latest,) = client.search_runs([client.get_experiment_by_name("tests").experiment_id], max_results=1)
    assert latest.info.status == "KILLED"


@pytest.mark.slow
def test_the_cap_covers_both_models_is_never_exceeded_and_a_higher_one_continues(store_uri: str) -> None:
    prices = {WRITER: (1000.0, 2000.0), CHECKER: (1000.0, 2000.0)}
    player = Player(rows(8), tests=TESTS)
    with LoopbackServer(reply=player) as server:
        whole = run(rows(8), server, None, tests=TESTS, prices=prices, journal="whole.db", max_tokens=256)
        total, bill = server.counts["requests"], whole.metrics["cost/usd"]
        used = (server.counts["input_tokens"], server.counts["output_tokens"])
        cap = bill / 2
        capped = run(rows(8), server, store_uri, tests=TESTS, prices=prices, max_usd=cap, max_tokens=256)
        billed = server.counts["input_tokens"] - used[0] + 2 * (server.counts["output_tokens"] - used[1])
        assert billed / 1000 <= cap
        assert 0 < server.counts["requests"] - total < total
        assert capped.truncated == capped.suite.origin["truncated"]
        assert str(capped.truncated).startswith("budget: ")
        assert 8 < len(capped.suite) < len(whole.suite)
        assert MlflowClient(tracking_uri=store_uri).get_run(capped.run_id).data.tags["jrh.truncated"]
        rest = run(rows(8), server, store_uri, tests=TESTS, prices=prices, max_usd=10 * bill, max_tokens=256)
    assert server.counts["requests"] == 2 * total
    assert rest.truncated is None
    assert rest.suite.sha256 == whole.suite.sha256


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"prices": {CHECKER: (1.0, 1.0)}}, RecipeError, WRITER),
        ({"prices": {WRITER: (1.0, 1.0)}}, RecipeError, CHECKER),
        ({"prices": PRICES, "max_usd": 0}, RecipeError, "positive"),
        ({"prices": PRICES, "validator": lambda presentation: "pass"}, RecipeError, "priced beforehand"),
        ({"generator": lambda brief, temperature: "x"}, RecipeError, "priced beforehand"),
        ({"concurrency": 0}, ValueError, "concurrency"),
    ],
)
def test_a_cap_that_cannot_be_kept_is_refused_before_anything_is_sent(
    options: dict[str, object], error: type[Exception], text: str
) -> None:
    with LoopbackServer() as server:
        with pytest.raises(error, match=text):
            run(rows(2), server, None, tests="label_flip", **{"max_usd": 1.0, **options})
        assert server.counts["requests"] == 0


def test_an_unknown_price_is_not_zero() -> None:
    player = Player(rows(2), tests="semantic_paraphrase")
    with LoopbackServer(reply=player) as server:
        done = run(rows(2), server, None, tests="semantic_paraphrase")
    assert "cost/usd" not in done.metrics
    assert done.metrics["tokens/output"] > 0


def test_a_dead_service_is_a_failed_run_and_no_suite(store_uri: str) -> None:
    with LoopbackServer(reply=lambda body: error_reply(401, "Wrong key.", code="invalid_api_key")) as server:
        with pytest.raises(JudgeError) as caught:
            run(rows(8), server, store_uri, tests="semantic_paraphrase", concurrency=2, run_name="dead generator")
        assert server.counts["requests"] <= 8
    assert caught.value.exit_code == 4
    client = MlflowClient(tracking_uri=store_uri)
    experiment = client.get_experiment_by_name("tests").experiment_id
    (logged,) = client.search_runs([experiment], "attributes.run_name = 'dead generator'")
    assert logged.info.status == "FAILED"
    assert logged.data.metrics == {}


def test_a_single_failed_call_is_a_problem_of_its_attempt_and_no_text() -> None:
    refused = error_reply(400, "Bad request.")
    player = Player(rows(1), tests="semantic_paraphrase", write=lambda _, heat: refused if heat < 0.8 else None)
    with LoopbackServer(reply=player) as server:
        done = run(rows(1), server, None, tests="semantic_paraphrase")
    assert done.suite.items[1].meta["attempts"] == 2
    with open_journal(Path(".jrh") / "journal.db") as journal:
        assert (journal.summary().answered, journal.summary().failed) == (2, 1)


def test_a_quote_sends_nothing_and_covers_the_bill() -> None:
    player = Player(rows(4), tests=TESTS)
    with LoopbackServer(reply=player) as server:
        generator = Generator(WRITER, api_base=server.url)
        validator = PromptedJudge(CHECKER, api_base=server.url, max_tokens=64)
        told = {"tests": TESTS, "rubric": RUBRIC, "generator": generator, "validator": validator, "prices": PRICES}
        before = price_generation(GenerationSettings(dataset=rows(4), labels=LABELS, **told))
        assert server.counts["requests"] == 0
        done = run(rows(4), server, None, tests=TESTS, generator=generator, validator=validator, prices=PRICES)
    assert (before.items, before.generator_calls, before.max_generator_calls) == (len(done.suite), 12, 48)
    assert (before.validator_calls, before.max_validator_calls) == (16, 64)
    assert before.usd is not None
    assert before.worst_usd is not None
    assert done.metrics["cost/usd"] < before.worst_usd
    assert 0.3 < done.metrics["cost/usd"] / before.usd < 3
    by_code = price_generation(
        GenerationSettings(dataset=rows(4), labels=LABELS, tests="typos", rubric=RUBRIC, generator=None)
    )
    assert (by_code.generator_calls, by_code.usd) == (0, 0.0)
