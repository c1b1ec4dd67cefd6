"""A real language model as judge and as generator: journal, money and checks hold for its habits too."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.generation.generate import run_generation
from jrh_mlflow.generation.writers import Generator
from jrh_mlflow.measuring.resolve import default_journal
from jrh_mlflow.options import GenerationSettings
from tests.generation.tools import LABELS, RUBRIC, rows
from tests.models.local.tools import MODEL, pairs, short_judge
from tests.processes import Forked

ROOT = Path(__file__).parents[3]


def test_a_real_model_is_measured_at_no_cost_and_its_processor_time_is_logged(smollm2: Path, store_uri: str) -> None:
    done = jrh.evaluate(short_judge(), pairs(1), tracking_uri=store_uri, experiment="tests", max_usd=0.01)
    assert len(done.calls) == 2
    assert done.metrics["calls/error"] == 0
    assert (done.metrics["cost/usd"], done.cost_usd) == (0.0, 0.0)
    assert done.metrics["time/cpu_seconds"] > 0
    assert set(done.calls["model"]) == {"smollm2"}
    assert done.metrics["tokens/output"] > 0
    run = MlflowClient(tracking_uri=store_uri).get_run(done.run_id)
    assert (run.data.params["judge.model"], run.data.params["run.concurrency"]) == (MODEL, "1")
    assert "judge.api_base" not in run.data.params
    assert run.data.tags["jrh.simulated"] == "false"
    again = jrh.evaluate(short_judge(), pairs(1), tracking_uri=store_uri, experiment="tests", max_usd=0.01)
    assert again.metrics["calls/cached"] == 2
    assert list(again.calls["answer"]) == list(done.calls["answer"])


KILLED = """
import sys
import jrh_mlflow as jrh
from tests.models.local.tools import pairs, short_judge
jrh.evaluate(short_judge(), pairs(40), tracking_uri=sys.argv[1], experiment="tests", progress=False)
"""


def answered() -> int:
    if not default_journal().is_file():
        return 0
    with open_journal(default_journal()) as journal:
        return journal.summary().answered


@pytest.mark.slow
def test_killed_while_the_model_answers_and_started_again_no_call_is_repeated(smollm2: Path, store_uri: str) -> None:
    with Forked(KILLED, store_uri, stderr=subprocess.DEVNULL) as first:
        until = time.monotonic() + 600
        while answered() < 2:
            assert first.poll() is None, "It ended before it could be killed."
            assert time.monotonic() < until
            time.sleep(0.2)
        first.send_signal(signal.SIGKILL)
    kept = answered()
    assert 2 <= kept < 80
    asked = []

    def enough(record: object) -> str | None:
        asked.append(record)
        return "enough" if len(asked) >= kept + 2 else None

    done = jrh.evaluate(short_judge(), pairs(40), tracking_uri=store_uri, experiment="tests", stop=enough)
    served = sum(record.cached for record in asked)  # type: ignore[attr-defined]
    assert served == kept
    assert answered() == kept + sum(not record.cached for record in asked)  # type: ignore[attr-defined]
    assert done.truncated is not None


@pytest.mark.slow
def test_the_checks_set_bad_rewrites_of_a_real_model_aside(smollm2: Path, store_uri: str) -> None:
    tests = ["semantic_paraphrase", "verbosity_bias_short"]
    seed = {
        **rows(1)[0],
        "response": "The council of Leeds approved the lanes in 2021. Accidents dropped by 14 percent.",
    }
    settings = GenerationSettings(
        dataset=[seed],
        tests=tests,
        rubric=RUBRIC,
        labels=LABELS,
        generator=Generator(MODEL, attempts=1, max_tokens=200, temperature=0.0, max_temperature=0.0, seed=1),
        tracking_uri=store_uri,
        experiment="tests",
        progress=False,
    )
    done = run_generation(settings)
    made = {item.condition: item for item in done.suite.items if item.condition != "baseline"}
    aside = {one.test: one for one in done.made.set_aside}
    # Whatever it wrote: each text is either in the suite or set aside with what is wrong with it, never both.
    assert made.keys() | aside.keys() == set(tests)
    assert not made.keys() & aside.keys()
    assert all(attempt.problems for one in aside.values() for attempt in one.attempts)
    assert seed["response"] not in {item.response for item in made.values()}
    assert (done.metrics["calls/total"], done.metrics["cost/usd"]) == (2, 0)
    assert done.metrics["time/cpu_seconds"] > 0
    assert done.suite.origin["generator"]["model"] == MODEL


@pytest.mark.slow
def test_the_short_datasheet_of_a_real_model_reads_its_slot_preference(smollm2: Path, store_uri: str) -> None:
    done = jrh.evaluate(MODEL, "datasheet-short", tracking_uri=store_uri, experiment="tests")
    assert done.truncated is None
    assert len(done.calls) == 128
    assert done.metrics["calls/error"] == 0
    for axis in ("dark_current", "positional_false_preference", "stable_cross_sensitivity"):
        assert done.metrics[f"{axis}/ci_low"] <= done.metrics[f"{axis}/rate"] <= done.metrics[f"{axis}/ci_high"]
    # It cannot tell the slots' contents apart: it prefers a side of nothing at all.
    assert done.metrics["dark_current/rate"] > 0.5
