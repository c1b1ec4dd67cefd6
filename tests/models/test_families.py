"""Families of models are told by their names, whatever the way to the model."""

from __future__ import annotations

import pytest

from jrh_mlflow.models.families import bare_model, family_of


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("openai/gpt-4o-mini-2024-07-18", "GPT"),
        ("openai/o3", "GPT"),
        ("openai:/gpt-4.1", "GPT"),
        ("groq/openai/gpt-oss-120b", "GPT"),
        ("vertex_ai/gemini-2.5-pro", "Gemini"),
        ("ollama/llama3.1:8b", "Llama"),
        ("ollama/qwen2.5", "Qwen"),
        ("hosted_vllm/deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "DeepSeek"),
        ("microsoft/Phi-4", "Phi"),
        ("cerebras/Cerebras-GPT-6.7B", None),
        ("EleutherAI/gpt-j-6b", None),
        ("WeOpenML/PandaLM-7B-v1", "Llama"),
        ("azure/production-judge", None),
        ("graphite", None),
        ("sophia", None),
        ("", None),
    ],
)
def test_a_name_tells_the_family_or_nothing(model, family):
    assert family_of(model) == family


def test_two_ways_to_one_model_are_the_same_model():
    assert bare_model("openrouter/anthropic/Claude-3.5") == bare_model("claude-3.5 ")
    assert bare_model("gpt-4o") != bare_model("gpt-4o-mini")
