"""What the README promises of money, stopping and answers, against a provider that counts and bills on its own side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.evaluation.evaluate import price_evaluation
from tests.loopback import LoopbackServer

if TYPE_CHECKING:
    from mlflow.entities import Run

MODEL = "openai/gpt-4o-mini"
PRICES = {MODEL: (1.0, 4.0)}
"""Dollars per million tokens: a token costs 1 or 4 micro-dollars, so that books are read with the naked eye."""
SMALL = jrh.datasheet_suite(n_tasks=2, depth=2)


def judge_at(server: LoopbackServer, **settings: object) -> jrh.PromptedJudge:
    return jrh.PromptedJudge(MODEL, api_base=server.url, **{"max_tokens": 64, **settings})


def n_calls() -> int:
    return 2 * len(SMALL.items)


def run_of(done: jrh.Evaluation, store_uri: str) -> Run:
    from mlflow import MlflowClient

    return MlflowClient(store_uri).get_run(done.run_id)


def billed_micro(server: LoopbackServer) -> int:
    return server.bill_micro(*PRICES[MODEL])


# 1 Reasoning tokens outside `completion_tokens`


# 2 Unreachable costs nothing


# 3 What each ending costs


# 4 Answers that are all cut off, empty or unparsed


def test_the_reasoning_effort_goes_to_the_provider_and_is_logged(store_uri: str) -> None:
    with LoopbackServer(record=True) as server:
        judge = judge_at(server, reasoning_effort="low")
        done = jrh.evaluate(judge, SMALL, tracking_uri=store_uri)
    assert {request["body"]["reasoning_effort"] for request in server.requests} == {"low"}
    assert run_of(done, store_uri).data.params["judge.reasoning_effort"] == "low"


def test_the_quote_of_a_model_that_reasons_shows_its_longer_answers() -> None:
    prices = {"openai/gpt-5-mini": (0.0, 1.0), "openai/gpt-4o-mini": (0.0, 1.0)}
    quotes = [price_evaluation(model, SMALL, prices=prices) for model in prices]
    reasoning, plain = (quote.worst_usd for quote in quotes)
    assert (reasoning, plain) == (pytest.approx(n_calls() * 8192e-6), pytest.approx(n_calls() * 1024e-6))


# 5 Costs that are known are logged


# 6 Two processes on the same calls


# 7 Interrupts in a notebook, SIGTERM, a hung-up terminal


# 8 After Ctrl-C nothing new goes out


# 9 An outage of a minute


# 10 Disk full while logging


# 11 The endpoint is part of a judge's identity


# 12 Who really answered


# 13 What is no verdict is not read as one


# 14 Two evaluations at the same moment


# 15 One home per user


# 16 macOS and Windows
