"""One cap over a whole sweep, restarts included, against a real server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.errors import BudgetError
from jrh_mlflow.measuring.resolve import default_journal
from jrh_mlflow.sweeps.sweep import price_sweep
from tests.loopback import LoopbackServer

MODEL = "openai/gpt-4o-mini"
PRICES = {MODEL: (1000.0, 2000.0)}
"""A thousand times the usual, so that a cap in dollars means something."""


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback-0123456789abcdef")


def reply(body: dict[str, Any]) -> str:
    length = len(json.dumps(body["messages"]))
    verdict = "A" if (length + int(10 * body["temperature"])) % 3 else "tie"
    return json.dumps({"reason": "r", "verdict": verdict})


def paid(server: LoopbackServer) -> float:
    return (1000 * server.counts["input_tokens"] + 2000 * server.counts["output_tokens"]) / 1_000_000


def test_a_dry_run_without_prices_says_that_dollars_are_unknown() -> None:
    space = jrh.Space(models=["hosted_vllm/mine", {"model": "hosted_vllm/other", "api_base": "http://127.0.0.1:9/v1"}])
    quoted = price_sweep(space, jrh.datasheet_suite(n_tasks=4, depth=1))
    assert (quoted.grid_usd, quoted.trials_worst_usd, quoted.holdout_worst_usd) == (None, None, None)


@pytest.mark.slow
def test_the_cap_holds_over_all_trials_and_restarts_and_nothing_is_paid_twice(store_uri: str) -> None:
    suite = jrh.datasheet_suite(n_tasks=4, depth=1)

    def swept(url: str, cap: float) -> jrh.Sweep:
        model = {"model": MODEL, "api_base": url, "max_tokens": 64}
        space = jrh.Space(models=[model], temperatures=[0.0, 0.5], orders=["one", "both"])
        where = {"experiment": "sweeps", "tracking_uri": store_uri, "traces": "none", "max_replicates": 1}
        return jrh.sweep(space, suite, max_usd=cap, prices=PRICES, early_stop=False, **where)

    with LoopbackServer(reply=reply) as server:
        space = jrh.Space(models=[{"model": MODEL, "api_base": server.url, "max_tokens": 64}], temperatures=[0.0, 0.5])
        quoted = price_sweep(space, suite, prices=PRICES)
        assert quoted.grid_usd is not None
        # Enough for both halves of one judge, and not for those of two.
        cap = 0.9 * quoted.grid_usd
        first = swept(server.url, cap)
        assert first.truncated is not None
        assert "cap is reached: 2 of 4 configurations were not measured" in first.truncated
        assert first.best is not None
        assert first.best.holdout is not None
        assert 0.5 * cap < paid(server) <= cap
        spent = paid(server)
        again = swept(server.url, cap)
        assert again.truncated is not None
        assert paid(server) == spent
        assert again.run_id == first.run_id
        assert [one.fair.run_id for one in again.members] == [one.fair.run_id for one in first.members]
        # One judge, both halves at most; one order and both are read from the same calls.
        assert server.counts["requests"] <= 2 * len(suite)
        with open_journal(default_journal()) as journal:
            assert journal.spent_micro(f"sweep:{again.study}") == pytest.approx(1e6 * paid(server), rel=1e-6)


def test_a_quote_counts_configurations_judges_and_different_calls() -> None:
    suite = jrh.datasheet_suite(n_tasks=4, depth=1)
    space = jrh.Space(models=[MODEL], temperatures=[0.0, 0.5], replicates=[1, 3], orders=["one", "both"])
    quoted = price_sweep(space, suite, n_trials=1, prices=PRICES)
    # Both orders of the half that is searched.
    per_replicate = len(suite)
    assert (quoted.configurations, quoted.judges) == (8, 2)
    assert quoted.grid_calls == 2 * 3 * per_replicate
    assert quoted.trials_calls == 3 * per_replicate
    assert quoted.grid_usd is not None
    assert quoted.trials_usd == pytest.approx(quoted.grid_usd / 2, rel=0.01)
    assert quoted.grid_worst_usd is not None
    assert quoted.grid_worst_usd > quoted.grid_usd


@pytest.mark.slow
def test_a_cap_that_pays_for_no_answer_is_refused_with_exit_code_3_and_the_sum_that_does(
    store_uri: str, tmp_path: Path
) -> None:
    with LoopbackServer(reply=reply) as server:
        space = f"models: [{{model: {MODEL}, api_base: '{server.url}', max_tokens: 64}}]\norders: [both]\n"
        (tmp_path / "space.yaml").write_text(space, encoding="utf-8")
        jrh.datasheet_suite(n_tasks=4, depth=1).save(tmp_path / "suite")
        options = ["--suite", str(tmp_path / "suite"), "--tracking-uri", store_uri, "--experiment", "sweeps"]
        options += ["--max-usd", "0.000001", "--price", f"{MODEL}=1000,2000"]
        with pytest.raises(BudgetError, match="The cap pays for no answer") as refused:
            CliRunner().invoke(
                group, ["sweep", str(tmp_path / "space.yaml"), *options], catch_exceptions=False, standalone_mode=False
            )
        assert server.counts["requests"] == 0
        assert refused.value.exit_code == 3
        (sure,) = re.findall(r"a cap of \$([0-9.]+) is sure to do", str(refused.value))
        options[options.index("0.000001")] = sure
        done = CliRunner().invoke(group, ["sweep", str(tmp_path / "space.yaml"), *options], catch_exceptions=False)
        assert paid(server) <= float(sure)
    assert "What to do" in done.stdout
