"""Fields of a request body that change what a token costs, add fees, or lift the longest answer: none under a cap.

A cap sets the worst case of a call aside, from the bytes of its prompt, `max_tokens` and the model's price. Under these
fields that is no bound any more. Names are compared without case, hyphens and underscores: providers spell them
both ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jrh_mlflow.errors import RecipeError

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
