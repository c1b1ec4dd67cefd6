"""Names of prompted judges that were given none: short, and different wherever a setting is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jrh_mlflow as jrh
from jrh_mlflow.schema.presentation import Criterion
from tests.examples import up_to

MODEL = "openai/qwen2.5-coder-1.5b"
_TEXT = st.text("ab =1é\n", min_size=1, max_size=12)
_TEMPLATE = st.sampled_from(
    ["pairwise", "label", "ordinal", "Compare. {candidates} {format}", "Choose. {candidates} {format}"]
)
_EXTRA = st.dictionaries(
    st.sampled_from(["top_p", "top_k", "max", "t", "prompt", "a b"]),
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([0.5, "1", "x y", [1], {"k": 1}]),
    max_size=4,
)
SETTINGS: dict[str, st.SearchStrategy[Any]] = {
    "tie_criterion": st.sampled_from(["forced", "allowed", "strict", "Prefer the shorter.", "Prefer the longer."])
    | st.builds(Criterion, name=st.sampled_from(["forced", "digits", "mine"]), text=_TEXT, offers_tie=st.booleans()),
    "answer_style": st.sampled_from(["letters", "digits"]),
    "prompt": _TEMPLATE,
    "rubric": st.none() | st.sampled_from(["Be fair.", "digits", "own-12345678"]) | _TEXT,
    "temperature": st.none() | st.floats(0, 2).map(abs),
    "max_tokens": st.sampled_from(["auto", None]) | st.integers(1, 10**6),
    "seed": st.none() | st.integers(-5, 10**6),
    "api_base": st.none()
    | st.builds(
        "{}://{}{}".format,
        st.sampled_from(["http", "https"]),
        st.sampled_from(["gpu:8000", "gpu:8001", "gpu", "api.example.com"]),
        st.sampled_from(["", "/", "/v1", "/v2", "/v1/"]),
    ),
    "reasoning_effort": st.none() | st.sampled_from(["none", "low", "high"]),
    "extra": _EXTRA,
    "structured": st.sampled_from([None, True, False]),
    "logprobs": st.booleans(),
    "model": st.sampled_from([MODEL, "qwen2.5-coder-1.5b", "azure/gpt-4o", "openai/gpt-4o", "openai/azure/gpt-4o"]),
}  # fmt: skip
_JUDGES = st.fixed_dictionaries({}, optional=SETTINGS)


def _judge(changed: dict[str, Any], **more: Any) -> jrh.PromptedJudge:
    return jrh.PromptedJudge(**{"model": MODEL, **changed, **more})


def _told_apart(one: jrh.PromptedJudge, other: jrh.PromptedJudge) -> bool:
    """Two judges are one and the same, or have two names."""
    return (one.fingerprint() == other.fingerprint()) or one.name != other.name


@settings(max_examples=up_to(60), deadline=None)
@given(_JUDGES, _JUDGES)
def test_judges_with_different_settings_have_different_names(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert _told_apart(_judge(one), _judge(other))


@pytest.mark.parametrize("setting", SETTINGS)
@settings(max_examples=up_to(30), deadline=None)
@given(data=st.data())
def test_one_setting_that_differs_is_seen_in_the_name(setting: str, data: st.DataObject) -> None:
    shared = data.draw(_JUDGES)
    values = data.draw(st.tuples(SETTINGS[setting], SETTINGS[setting]))
    one, other = (_judge({**shared, setting: value}) for value in values)
    assert _told_apart(one, other)


@settings(max_examples=up_to(60), deadline=None)
@given(_JUDGES)
def test_the_same_settings_have_the_same_name_and_a_name_given_stays(changed: dict[str, Any]) -> None:
    assert _judge(changed).name == _judge(changed).name
    assert _judge(changed, name="mine").name == "mine"
    assert _judge(changed, name="mine").fingerprint() == _judge(changed).fingerprint()


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({}, "qwen2.5-coder-1.5b"),
        ({"tie_criterion": "forced", "answer_style": "digits"}, "qwen2.5-coder-1.5b forced digits"),
        ({"temperature": 0.7, "seed": 3}, "qwen2.5-coder-1.5b t=0.7 seed=3"),
        ({"temperature": None, "reasoning_effort": "low"}, "qwen2.5-coder-1.5b t=none effort=low"),
        ({"max_tokens": 64, "api_base": "http://gpu:8000/v1"}, "qwen2.5-coder-1.5b max=64 @gpu:8000"),
        ({"extra": {"top_p": 0.9}}, "qwen2.5-coder-1.5b extra.top_p=0.9"),
        ({"prompt": "label", "tie_criterion": "strict"}, "qwen2.5-coder-1.5b strict prompt=label"),
        ({"model": "anthropic/claude-sonnet-4-5"}, "anthropic/claude-sonnet-4-5"),
        ({"model": "hosted_vllm/Qwen/Qwen2.5-7B"}, "hosted_vllm/Qwen/Qwen2.5-7B"),
    ],
)
def test_names_are_short(changed: dict[str, Any], name: str) -> None:
    assert _judge(changed).name == name


def test_a_criterion_that_is_changed_later_is_in_the_name() -> None:
    assert jrh.PromptedJudge(MODEL).with_criterion("strict").name == "qwen2.5-coder-1.5b strict"
    assert jrh.PromptedJudge(MODEL, name="mine").with_criterion("strict").name == "mine"
