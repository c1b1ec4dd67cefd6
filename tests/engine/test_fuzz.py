"""Random changes to valid answers, none to the verdict itself: never another verdict, no crash, nothing unbooked."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import jrh_mlflow as jrh
from jrh_mlflow.engine.calls import plan_calls
from jrh_mlflow.engine.endings import failure_micro
from jrh_mlflow.models.prices import price_of, response_micro
from jrh_mlflow.models.transports import TransportError
from jrh_mlflow.models.transports.dialect import read_http
from jrh_mlflow.schema.requests import Response
from tests.examples import PROFILE
from tests.ledger import MODEL, PRICES, USAGE, said

N = 2_000 if PROFILE == "other" else 200
JUDGE = jrh.PromptedJudge(MODEL, max_tokens=64)
CALL = next(iter(plan_calls(jrh.datasheet_suite(n_tasks=1, depth=1), JUDGE, replicates=1)))
PRICE = price_of(MODEL, PRICES)
WORST = 1_000
VERDICTS = ("A", "B", "tie")


def body(verdict: str, content: Callable[[str], object]) -> dict[str, Any]:
    """A valid completion that says a verdict."""
    text = json.dumps({"reason": "Both were read with care.", "verdict": verdict})
    choice = {"index": 0, "message": said(content(text), refusal=None), "finish_reason": "stop", "logprobs": None}
    return {"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], "usage": dict(USAGE)}


FORMS: tuple[Callable[[str], object], ...] = (
    lambda text: text,
    lambda text: [{"type": "text", "text": text}],
    lambda text: [{"type": "text", "text": text[:20]}, {"type": "text", "text": text[20:]}],
)
ODD: tuple[Any, ...] = (None, True, 0, -1, 1e300, "", "x", [], {}, [None], {"a": 1}, "\ud800", 10**40)


def changed_bytes(raw: bytes, verdict: str, chance: random.Random) -> bytes:
    """Change, drop or add up to three bytes outside of the verdict's own characters."""
    for _ in range(chance.randint(1, 3)):
        begin = raw.rfind(f'verdict\\": \\"{verdict}'.encode()) + len('verdict\\": \\"')
        spared = range(begin, begin + len(verdict)) if begin >= len('verdict\\": \\"') else range(0)
        position = chance.choice([at for at in range(len(raw)) if at not in spared])
        byte = bytes([chance.randrange(256)])
        # An addition stands before a byte: before the verdict's second character it would be part of it.
        how = chance.choice((byte, b"", byte + raw[position : position + 1]))
        raw = raw[:position] + how + raw[position + 1 :]
    return raw


def changed_tree(tree: Any, chance: random.Random) -> Any:
    """Drop, replace or repeat one part of a body at any depth; texts stay whole or go."""
    if isinstance(tree, dict) and tree:
        key = chance.choice(list(tree))
        how = chance.randrange(4)
        if how == 0:
            return {name: value for name, value in tree.items() if name != key}
        if how == 1 and not isinstance(tree[key], str):
            return {**tree, key: chance.choice(ODD)}
        return {**tree, key: changed_tree(tree[key], chance)} if how > 1 else {**tree, "extra": chance.choice(ODD)}
    if isinstance(tree, list) and tree:
        at = chance.randrange(len(tree))
        how = chance.randrange(3)
        if how == 0:
            return tree[:at] + tree[at + 1 :]
        return (
            [*tree[:at], changed_tree(tree[at], chance), *tree[at + 1 :]] if how == 1 else [*tree, chance.choice(ODD)]
        )
    return tree if isinstance(tree, str) else chance.choice(ODD)


def answer_in(raw: bytes) -> Response | TransportError:
    """Read a body as every transport does."""
    try:
        return read_http(200, {}, raw)
    except TransportError as error:
        return error


@pytest.mark.parametrize("how", ["bytes", "parts"])
@seed(34)
@settings(max_examples=N // 2, deadline=None)
@given(st.sampled_from(VERDICTS), st.integers(0, len(FORMS) - 1), st.integers(0, 2**32))
def test_a_changed_answer_is_the_same_verdict_or_none_and_is_booked(
    how: str, verdict: str, form: int, number: int
) -> None:
    chance, whole = random.Random(number), body(verdict, FORMS[form])
    expected = JUDGE.read(read_http(200, {}, json.dumps(whole).encode()), CALL)
    if how == "bytes":
        raw = changed_bytes(json.dumps(whole).encode(), verdict, chance)
    else:
        raw = json.dumps(changed_tree(whole, chance)).encode()
    response = answer_in(raw)
    if isinstance(response, TransportError):
        # An answer with status 200 is paid.
        assert (response.status, failure_micro(response, PRICE, WORST)[0] > 0) == (200, True)
        return
    reading = JUDGE.read(response, CALL)
    assert reading.outcome not in ("verdict", "tie") or (reading.outcome, reading.answer) == (
        expected.outcome,
        expected.answer,
    )
    cost = response_micro(PRICE, response)
    assert cost is None or cost >= 0
