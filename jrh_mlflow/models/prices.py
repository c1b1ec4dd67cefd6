"""What tokens cost: the user's own prices first, then litellm's table.

Dollars are whole micro-dollars wherever they are added up, and always rounded up: a budget may be underused by a
millionth, never overrun.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any, TypeAlias

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.models.catalog import entry_of
from jrh_mlflow.schema.requests import Request, Response

Overrides: TypeAlias = Mapping[str, tuple[float, float]]
"""Model name to dollars per million input tokens and per million output tokens."""

BYTES_PER_TOKEN = 4
"""On average, for estimates; an upper bound counts every byte as a token."""
TYPICAL_OUTPUT_TOKENS = 150
"""Assumed length of a reason with its verdict, for estimates; the worst case uses `max_tokens`."""
MESSAGE_OVERHEAD_TOKENS = 16
"""Per message, for its role and separators; chat templates use 3 to 8."""
REQUEST_OVERHEAD_TOKENS = 128
"""Per request, for the start of the answer and the fixed system text of some templates (20 to 100)."""
SCHEMA_OVERHEAD_TOKENS = 640
"""Per request with a schema, for the text some providers put around it (Anthropic's tool prompt: up to 530)."""

_MICRO = Decimal(1_000_000)
_OWN_MACHINE = frozenset({"ollama", "lemonade"})
"""Providers whose price of 0 is a fact; from the others it means that nobody filled it in."""
_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """Dollars per token."""

    input_usd: float
    output_usd: float
    long_prompts: tuple[tuple[int, float, float], ...] = ()
    """(more input tokens than this, dollars per input token, per output token), for the whole call; rising."""
    cached_usd: float | None = field(default=None, repr=False)
    """Of an input token that the provider had in its cache, where that has a price of its own."""
    is_own: bool = field(default=False, repr=False, compare=False)
    """Whether the user gave it: then a provider that says it bills less is not believed."""

    def rates(self, input_tokens: int) -> tuple[float, float]:
        """Return the dollars per input and output token of a call with this prompt."""
        rates = (self.input_usd, self.output_usd)
        for above, input_usd, output_usd in self.long_prompts:
            if input_tokens > above:
                rates = (input_usd, output_usd)
        return rates


def price_of(model: str, overrides: Overrides | None = None) -> Price | None:
    """Return the price of a model, or None when nobody knows it; None is never 0.

    The name is tried as given, then without its provider. Without its provider the table's entry must be of that
    provider: `hosted_vllm/gpt-4o` is a server of one's own, not OpenAI's model.

    Example:
        >>> price_of("my/model", {"my/model": (0.5, 2)})
        Price(input_usd=5e-07, output_usd=2e-06, long_prompts=())
        >>> price_of("nobody/knows") is None
        True
    """
    for name in (model, model.partition("/")[2]):
        if overrides and name in overrides:
            return _from_override(name, overrides[name])
    entry = entry_of(model)
    return _from_entry(entry) if entry else None


@lru_cache(maxsize=4096)
def cost_micro(price: Price, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> int:
    """Return what a call cost, in micro-dollars, rounded up; `cached_tokens` of the input have a price of their own.

    Example:
        >>> cost_micro(Price(input_usd=1.5e-07, output_usd=6e-07), 1_000_000, 1)
        150001
    """
    if min(input_tokens, output_tokens) < 0:
        raise ValueError(f"Tokens must not be negative, but got {input_tokens=}, {output_tokens=}.")
    input_usd, output_usd = price.rates(input_tokens)
    # Through repr, because 1.5e-07 means fifteen hundred-millionths, not its nearest binary fraction.
    dollars = Decimal(repr(input_usd)) * input_tokens + Decimal(repr(output_usd)) * output_tokens
    if price.cached_usd is not None and price.cached_usd < input_usd:
        saved = Decimal(repr(input_usd)) - Decimal(repr(price.cached_usd))
        dollars -= saved * min(cached_tokens, input_tokens)
    return _micro(dollars)


def _micro(dollars: Decimal) -> int:
    return int((dollars * _MICRO).to_integral_value(ROUND_CEILING))


def worst_case_micro(price: Price, prompt_chars: int, max_tokens: int) -> int:
    """Return the most a call can cost, in micro-dollars: what a budget reserves before it is sent.

    Args:
        price: Of the model.
        prompt_chars: The prompt's size as `prompt_size` counts it. A token is at least one byte of UTF-8 in every
            byte-level or byte-fallback vocabulary, so no prompt has more tokens than bytes, plus the overhead.
        max_tokens: The request's limit; providers stop there, and bill no more.
    """
    if min(prompt_chars, max_tokens) < 0:
        raise ValueError(f"Sizes must not be negative, but got {prompt_chars=}, {max_tokens=}.")
    # A shorter prompt can cost more where a tier is cheaper than the one below it: each bound is tried too.
    bounds = [above for above, *_ in price.long_prompts if above < prompt_chars]
    return max(cost_micro(price, tokens, max_tokens) for tokens in (prompt_chars, *bounds))


def response_micro(price: Price | None, response: Response) -> int | None:
    """Return what a response cost, or None when its price or its usage is unknown: unknown is not free.

    What the provider says that it bills comes before what tokens and prices say.
    """
    if response.cost_usd is not None:
        return _micro(Decimal(repr(response.cost_usd)))
    if price is None or response.input_tokens is None or response.output_tokens is None:
        return None
    return cost_micro(price, response.input_tokens, response.output_tokens, response.cached_tokens or 0)


def believed(price: Price | None, response: Response) -> Response:
    """Return a response as it came, without a bill of the provider's that is below the price that the user gave."""
    by_price = response_micro(price, replace(response, cost_usd=None)) if price is not None and price.is_own else None
    if by_price is None or response.cost_usd is None or _micro(Decimal(repr(response.cost_usd))) >= by_price:
        return response
    return replace(response, cost_usd=None)


def prompt_size(request: Request) -> int:
    """Return an upper bound of a request's input tokens: all its bytes, schema and `extra` included, plus overhead."""
    # Tools in `extra` are put before the model like the prompt, with as much text around them as around a schema.
    schemas = (request.response_schema is not None) + ("tools" in request.extra)
    overhead = REQUEST_OVERHEAD_TOKENS + MESSAGE_OVERHEAD_TOKENS * len(request.messages)
    return request.n_bytes + overhead + SCHEMA_OVERHEAD_TOKENS * schemas


def _from_override(name: str, given: tuple[float, float]) -> Price:
    rates = list(given) if isinstance(given, list | tuple) else []
    if len(rates) != 2 or not all(map(_is_amount, rates)):
        rule = "a price is two numbers: dollars per million input tokens and per million output tokens"
        raise RecipeError(f"The price of {name!r} is {given!r}, but {rule}.")
    input_usd, output_usd = (float(Decimal(repr(rate)) / _MICRO) for rate in rates)
    return Price(input_usd=input_usd, output_usd=output_usd, is_own=True)


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _from_entry(entry: Mapping[str, Any]) -> Price | None:
    input_usd, output_usd = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    if not isinstance(input_usd, int | float) or not isinstance(output_usd, int | float):
        return None
    unfilled = input_usd == output_usd == 0 and entry.get("litellm_provider") not in _OWN_MACHINE
    # A fee for each request is in no price per token: with one the cost of a call is unknown.
    if unfilled or entry.get("input_cost_per_request"):
        return None
    # Where thinking costs more than speaking, the usage does not tell the two apart: take the dearer.
    output_usd = max(output_usd, entry.get("output_cost_per_reasoning_token") or 0)
    cached_usd = entry.get("cache_read_input_token_cost")
    return Price(
        input_usd=float(input_usd),
        output_usd=float(output_usd),
        long_prompts=_tiers(entry),
        cached_usd=float(cached_usd) if _is_amount(cached_usd) and cached_usd else None,
    )


def _tiers(entry: Mapping[str, Any]) -> tuple[tuple[int, float, float], ...]:
    tiers = []
    for name, input_usd in entry.items():
        if match := _TIER.fullmatch(name):
            output_usd = entry.get(name.replace("input", "output", 1), entry["output_cost_per_token"])
            tiers.append((int(match[1]) * 1000, float(input_usd), float(output_usd)))
    return tuple(sorted(tiers))


_ANOTHER_PRICE = "the price per token is another one then"
_ANOTHER_MODEL = "another model or provider may answer then, at another price"
_FEES = "searches and tools at the provider have fees and read tokens of their own"
_LONGER = "it lifts `max_tokens`, or makes several answers"
_UNSEEN = "it adds tokens to the prompt that cannot be counted beforehand"
_OTHER_TOKENS = "tokens of sound and pictures have prices of their own"

SURCHARGES: Mapping[str, str] = {
    # OpenAI, Groq, Bedrock, Anthropic (speed, inference_geo, caching written at a higher price).
    **dict.fromkeys(("service_tier", "speed", "inference_geo", "performance_config", "cache_control"), _ANOTHER_PRICE),
    **dict.fromkeys(("cache_control_injection_points", "prediction", "guardrail_config"), _ANOTHER_PRICE),
    # OpenRouter, and litellm's routing.
    **dict.fromkeys(("models", "route", "provider", "preset", "fallbacks", "fallback_models"), _ANOTHER_MODEL),
    # OpenAI, OpenRouter (plugins), xAI, Perplexity, Gemini, Qwen, Groq, Azure, Anthropic.
    **dict.fromkeys(("web_search_options", "web_search", "enable_search", "enable_web_search", "plugins"), _FEES),
    **dict.fromkeys(("search_parameters", "search_mode", "search_type", "search_context_size"), _FEES),
    **dict.fromkeys(("search_settings", "compound_custom", "google_search", "google_search_retrieval"), _FEES),
    **dict.fromkeys(("url_context", "data_sources", "connectors", "mcp_servers", "container"), _FEES),
    **dict.fromkeys(("max_output_tokens", "max_new_tokens", "max_gen_len", "max_length", "num_predict"), _LONGER),
    **dict.fromkeys(("n_predict", "max_tokens_to_sample", "best_of", "candidate_count"), _LONGER),
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "num_return_sequences", "num_completions"), _LONGER),
    **dict.fromkeys(("previous_response_id", "conversation", "prompt", "files", "file_ids", "attachments"), _UNSEEN),
    **dict.fromkeys(("cached_content", "system_instruction"), _UNSEEN),
    **dict.fromkeys(("audio", "modalities", "response_modalities", "speech_config", "image_config"), _OTHER_TOKENS),
}
_CONTAINERS = frozenset({"generationconfig", "inferenceconfig", "additionalmodelrequestfields", "modelkwargs"})
"""Fields whose own fields are settings of the call."""
_PLAIN = {name.replace("_", ""): reason for name, reason in SURCHARGES.items()}


def refuse_surcharges(extra: Mapping[str, Any]) -> None:
    """Refuse what makes the worst case of a call unknown.

    Raises:
        RecipeError: naming the field and the reason.
    """
    for name, reason in _surcharges(extra):
        raise RecipeError(f"`extra` has {name!r}, and a cap cannot hold with it: {reason}. Leave it or the cap out.")


def _surcharges(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in fields.items():
        plain = name.lower().replace("_", "").replace("-", "")
        if plain in _PLAIN:
            yield name, _PLAIN[plain]
        elif plain == "tools" and not _are_functions(value):
            yield name, _FEES
        elif plain in _CONTAINERS and isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", reason) for inner, reason in _surcharges(value))


def _are_functions(tools: object) -> bool:
    """Whether all tools are functions of the caller's own, which a judge's call never runs."""
    entries = tools if isinstance(tools, list) else [tools]
    return all(isinstance(tool, Mapping) and tool.get("type") == "function" for tool in entries)
