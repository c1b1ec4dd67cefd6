"""What the README promises of money, stopping and answers, against a provider that counts and bills on its own side."""

from __future__ import annotations

import jrh_mlflow as jrh
from tests.loopback import LoopbackServer

MODEL = "openai/gpt-4o-mini"
PRICES = {MODEL: (1.0, 4.0)}
"""Dollars per million tokens: a token costs 1 or 4 micro-dollars, so that books are read with the naked eye."""


def judge_at(server: LoopbackServer, **settings: object) -> jrh.PromptedJudge:
    return jrh.PromptedJudge(MODEL, api_base=server.url, **{"max_tokens": 64, **settings})


def billed_micro(server: LoopbackServer) -> int:
    return server.bill_micro(*PRICES[MODEL])


# 1 Reasoning tokens outside `completion_tokens`


# 2 Unreachable costs nothing


# 3 What each ending costs


# 4 Answers that are all cut off, empty or unparsed


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
