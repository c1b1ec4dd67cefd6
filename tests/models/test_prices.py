"""Prices: what is unknown stays unknown, and nothing is ever rounded in the spender's favour."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.models.catalog import context_window
from jrh_mlflow.models.prices import (
    Price,
    cost_micro,
    price_of,
    prompt_size,
    worst_case_micro,
)
from jrh_mlflow.schema.requests import Request
from tests.loopback_replies import count_prompt_tokens

pytestmark = pytest.mark.quick

MINI = Price(input_usd=1.5e-07, output_usd=6e-07, cached_usd=7.5e-08)
TIERED = Price(input_usd=1.25e-06, output_usd=1e-05, long_prompts=((200_000, 2.5e-06, 1.5e-05),), cached_usd=1.25e-07)

prices = st.builds(
    Price,
    input_usd=st.integers(0, 10**6).map(lambda micro: micro / 10**10),
    output_usd=st.integers(0, 10**6).map(lambda micro: micro / 10**10),
)
tokens = st.integers(0, 10**6)


@pytest.mark.parametrize("model", ["gpt-4o-mini", "openai/gpt-4o-mini"])
def test_the_table_knows_a_model_with_and_without_its_provider(model: str) -> None:
    assert price_of(model) == MINI
    assert context_window(model) == 128_000


@pytest.mark.parametrize(
    "model", ["hosted_vllm/gpt-4o-mini", "nobody/gpt-4o-mini", "my-model", "", "/", "openai/", "sample_spec"]
)
def test_a_model_nobody_priced_has_no_price_and_not_the_price_zero(model: str) -> None:
    assert price_of(model) is None
    assert context_window(model) is None


def test_a_zero_in_the_table_is_a_price_only_on_ones_own_machine() -> None:
    assert price_of("ollama/llama3") == Price(input_usd=0.0, output_usd=0.0)
    assert price_of("gemini/gemini-gemma-2-27b-it") != Price(input_usd=0.0, output_usd=0.0)


def test_a_price_per_request_is_not_mistaken_for_a_price_per_token() -> None:
    assert price_of("perplexity/pplx-7b-online") is None


def test_long_prompts_have_the_price_the_provider_asks_for_them() -> None:
    assert price_of("vertex_ai/gemini-2.5-pro") == price_of("gemini/gemini-2.5-pro") == TIERED
    assert cost_micro(TIERED, 200_000, 1_000) == 260_000
    assert cost_micro(TIERED, 200_001, 1_000) == 515_003


def test_an_override_comes_first_under_either_name() -> None:
    for name in ("openai/gpt-4o-mini", "gpt-4o-mini"):
        assert price_of("openai/gpt-4o-mini", {name: (1, 4.5)}) == Price(input_usd=1e-06, output_usd=4.5e-06)
    assert price_of("hosted_vllm/mine", {"hosted_vllm/mine": (0, 0)}) == Price(input_usd=0.0, output_usd=0.0)
    assert price_of("gpt-4o-mini", {"other": (1, 1)}) == MINI


@pytest.mark.parametrize(
    "wrong", [(-1, 2), (1,), (1, 2, 3), (math.nan, 1), (math.inf, 1), (True, 1), ("1", "2"), 3, None]
)
def test_an_override_that_is_no_price_is_refused_with_the_rule(wrong: Any) -> None:
    with pytest.raises(RecipeError, match="per million"):
        price_of("x", {"x": wrong})


def test_a_cost_is_whole_micro_dollars_rounded_up() -> None:
    assert cost_micro(MINI, 0, 0) == 0
    assert cost_micro(MINI, 1, 0) == 1
    assert cost_micro(MINI, 20, 0) == 3
    assert cost_micro(MINI, 1_000_000, 1_000_000) == 750_000


@given(prices, tokens, tokens)
def test_a_cost_is_never_below_the_exact_one_and_less_than_a_micro_dollar_above(
    price: Price, sent: int, made: int
) -> None:
    exact = (Fraction(repr(price.input_usd)) * sent + Fraction(repr(price.output_usd)) * made) * 10**6
    assert exact <= cost_micro(price, sent, made) < exact + 1


@given(st.lists(st.text(max_size=60), min_size=1, max_size=4), st.integers(0, 50), st.booleans(), prices)
def test_the_worst_case_covers_what_a_server_bills(
    texts: list[str], made: int, with_schema: bool, price: Price
) -> None:
    schema = {"type": "string", "enum": texts} if with_schema else None
    messages = tuple({"role": "user", "content": text} for text in texts)
    request = Request(model="m", messages=messages, max_tokens=50, response_schema=schema)
    sent = count_prompt_tokens({"messages": list(messages)})
    # One token per byte, and a template's own tokens on top.
    dearest = sum(len(text.encode("utf-8", "replace")) + 8 for text in texts) + 100
    dearest += len(json.dumps(schema).encode()) // 6 + 530 if with_schema else 0
    reserved = worst_case_micro(price, prompt_size(request), 50)
    assert reserved >= cost_micro(price, max(sent, dearest), made)


@given(st.integers(0, 400_000), st.integers(0, 400_000))
def test_the_worst_case_grows_with_the_prompt_across_tiers(one: int, other: int) -> None:
    small, large = sorted((one, other))
    dip = Price(input_usd=2e-06, output_usd=2e-06, long_prompts=((200_000, 1e-06, 1e-06),))
    for price in (TIERED, dip):
        assert worst_case_micro(price, small, 500) <= worst_case_micro(price, large, 500)
        assert cost_micro(price, small, 500) <= worst_case_micro(price, large, 500)


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        cost_micro(MINI, -1, 0)
    with pytest.raises(ValueError, match="negative"):
        worst_case_micro(MINI, 10, -1)
