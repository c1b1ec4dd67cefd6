"""A judge with token probabilities end to end: real HTTP, a real journal, a real MLflow store."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from tests.logged_runs import numbers_of
from tests.loopback import LoopbackServer, Reply

MODEL = "openai/gpt-4o-mini"
SPREAD = {"A": 0.7, "B": 0.2, "tie": 0.1}


def with_logprobs(*, top: bool = True) -> Any:
    """Always answer A, with the same probabilities."""

    def reply(body: dict[str, Any]) -> Reply:
        pieces = [('{"reason": "r", "verdict": "', {}), ("A", SPREAD), ('"}', {})]
        content = [
            {
                "token": token,
                "logprob": math.log(spread.get(token, 1.0)),
                "top_logprobs": [{"token": other, "logprob": math.log(p)} for other, p in spread.items() if top],
            }
            for token, spread in pieces
        ]
        text = "".join(token for token, _ in pieces)
        return Reply(text=text, logprobs=content if body.get("logprobs") else None)

    return reply


@pytest.fixture(scope="module")
def suite() -> jrh.Suite:
    return jrh.datasheet_suite(n_tasks=2, depth=5, design="paper")


def evaluate(server: LoopbackServer, suite: jrh.Suite, store_uri: str, **options: Any) -> jrh.Evaluation:
    judge = jrh.PromptedJudge(MODEL, api_base=server.url, max_tokens=64, **options)
    return jrh.evaluate(judge, suite, tracking_uri=store_uri, experiment="tests")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def test_probabilities_travel_from_the_wire_to_the_run(suite: jrh.Suite, store_uri: str) -> None:
    with LoopbackServer(reply=with_logprobs()) as server:
        done = evaluate(server, suite, store_uri, logprobs=True)
        again = evaluate(server, suite, store_uri, logprobs=True)
    assert done.calls["confidence"].tolist() == pytest.approx([0.7] * len(done.calls))
    assert {json.dumps(json.loads(cell)) for cell in done.calls["probabilities"]} == {
        json.dumps({"1": 0.7, "2": 0.2, "tie": 0.1})
    }
    logged = numbers_of(store_uri, done.run_id)
    # A is right in one of the two orders, so half of the calls are.
    assert logged["confidence/brier/value"] == pytest.approx((0.09 + 0.49) / 2)
    assert logged["confidence/ece/value"] == pytest.approx(0.2)
    assert logged["confidence/mean/value"] == pytest.approx(0.7)
    assert logged["confidence/accuracy_gap/value"] == pytest.approx(0.2)
    assert logged["expected/dark_current/rate"] == pytest.approx(0.9)
    assert logged["dark_current/rate"] == 1
    assert logged["expected/target_sensitivity/delta_1/rate"] == pytest.approx(0.45)
    figures = MlflowClient(tracking_uri=store_uri).list_artifacts(done.run_id, "figures")
    assert "figures/calibration.svg" in {one.path for one in figures}
    own = [key for key in done.metrics if key.startswith(("confidence/", "expected/"))]
    assert {key: again.metrics[key] for key in own} == {key: done.metrics[key] for key in own}


def test_an_endpoint_without_alternatives_gives_bounds(suite: jrh.Suite, store_uri: str) -> None:
    with LoopbackServer(reply=with_logprobs(top=False)) as server:
        done = evaluate(server, suite, store_uri, logprobs=True)
    assert done.calls["probabilities"].isna().all()
    dark = done.datasheet.estimates["expected/dark_current"]
    assert (dark.bound_low, dark.bound_high) == pytest.approx((0.7, 1.0))


def test_a_judge_that_asks_for_no_probabilities_has_no_such_axis(suite: jrh.Suite, store_uri: str) -> None:
    with LoopbackServer(reply=with_logprobs()) as server:
        done = evaluate(server, suite, store_uri)
    assert not [key for key in done.metrics if key.startswith(("confidence/", "expected/"))]
    figures = MlflowClient(tracking_uri=store_uri).list_artifacts(done.run_id, "figures")
    assert "figures/calibration.svg" not in {one.path for one in figures}
