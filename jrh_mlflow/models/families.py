"""Families of models, by their names: those that one maker trained, or that were made of its weights."""

from __future__ import annotations

import re
from collections.abc import Iterable

_FAMILIES = {
    "DeepSeek": "deepseek",
    "GPT": r"(?<!cerebras-)gpt-?\d|gpt-oss|chatgpt|davinci|(?<![a-z0-9])o[134](?![a-z0-9])",
    "Claude": "claude",
    "Gemini": "gemini|gemma|text-bison",
    "Llama": "llama|vicuna|alpaca|tulu|pandalm",
    "Qwen": "qwen|qwq",
    "Mistral": "mistral|mixtral|ministral|codestral|magistral|devstral",
    "Grok": "grok",
    "Command": r"command-(r|a|nightly|light)|c4ai|(?<![a-z])aya(?![a-z])",
    "Phi": r"(?<![a-z])phi-?\d",
    "Nova": r"(?<![a-z])nova-(micro|lite|pro|premier)",
    "GLM": r"(?<![a-z])(chat)?glm-?\d",
    "Kimi": "kimi|moonshot",
    "OLMo": "olmo",
    "Granite": "granite",
    "Falcon": "falcon",
    "Yi": r"(?<![a-z])yi-\d",
}
"""The first that fits counts: a distillation is of its maker's family."""


def bare_model(model: str) -> str:
    """Return a model's own name, by which two ways to the same model are the same.

    Example:
        >>> bare_model("openrouter/OpenAI/gpt-4o") == bare_model("gpt-4o")
        True
    """
    return model.rpartition("/")[2].strip().casefold()


def family_of(model: str) -> str | None:
    """Return the family that a model's name tells; None where it tells none, such as a deployment's.

    Example:
        >>> family_of("ollama/qwen2.5:7b"), family_of("bedrock/anthropic.claude-3-haiku"), family_of("my-judge")
        ('Qwen', 'Claude', None)
    """
    name = bare_model(model)
    return next((family for family, pattern in _FAMILIES.items() if re.search(pattern, name)), None)


def kinship_note(judges: Iterable[str], application: Iterable[str]) -> str | None:
    """Say that a judge and the application it judges are of one family; None where their names do not tell it.

    Example:
        >>> kinship_note(["openai:/gpt-4o"], ["gpt-4o-mini-2024-07-18"])[:57]
        'Judge and application are models of one family (GPT): the'
        >>> kinship_note(["openai:/gpt-4o"], ["claude-sonnet-4-5"])
    """
    of_judges, of_application = (set(map(family_of, names)) - {None} for names in (judges, application))
    shared = ", ".join(sorted(filter(None, of_judges & of_application)))
    if not shared:
        return None
    return (
        f"Judge and application are models of one family ({shared}): the judge may favour its answers, and "
        "`jrh self-preference` measures that."
    )
