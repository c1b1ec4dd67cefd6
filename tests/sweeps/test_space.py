"""Spaces: what they hold, what they refuse, and how they are written down."""

from __future__ import annotations

from pathlib import Path

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.sweeps.goals import read_constraint
from jrh_mlflow.sweeps.loading import as_space, load_space

MODELS = ["openai/gpt-4o-mini", {"model": "openai/gpt-4o", "name": "big", "max_tokens": 64}]
PROMPT = "Compare {slot_1} and {slot_2}.\n{candidates}\n"


def test_every_different_configuration_is_there_once() -> None:
    space = jrh.Space(
        models=MODELS, tie_criteria=["allowed", "strict"], replicates=[1, 3], votes=["majority", "unanimous"]
    )
    found = space.configurations(pair=True)
    # One replicate has no vote to count: 2 models x 2 criteria x (1 + 2 votes).
    assert len(found) == len({one.key for one in found}) == 12
    assert {one.params["model"] for one in found} == {"openai/gpt-4o-mini", "big"}
    assert [one.key for one in found] == [one.key for one in space.configurations(pair=True)]
    assert [one.key for one in found] != [one.key for one in space.configurations(pair=True, seed=1)]


def test_the_judge_has_what_was_chosen() -> None:
    space = jrh.Space(
        models=MODELS[1:], prompts=[PROMPT], tie_criteria=["strict"], temperatures=[0.7], rubrics=["Be fair."]
    )
    (one,) = space.configurations(pair=True)
    judge = space.make_judge(one)
    assert isinstance(judge, jrh.PromptedJudge)
    assert (judge.model, judge.temperature, judge.rubric, judge.max_tokens) == ("openai/gpt-4o", 0.7, "Be fair.", 64)
    assert judge.tie_criterion.name == "strict"
    assert judge.template.name == one.params["prompt"]


def test_presentation_orders_make_no_difference_to_single_responses() -> None:
    space = jrh.Space(models=MODELS[:1], orders=["one", "both"])
    assert len(space.configurations(pair=True)) == 2
    assert len(space.configurations(pair=False)) == 1


def test_a_file_is_read_with_paths_relative_to_it(tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    (folder / "mine.txt").write_text(PROMPT, encoding="utf-8")
    text = "models: [openai/gpt-4o-mini]\nprompts: [pairwise, mine.txt]\nconstraints: ['dark_current/rate <= 0.05']\n"
    (folder / "space.yaml").write_text(text, encoding="utf-8")
    space = load_space(folder / "space.yaml")
    assert [name.partition("-")[0] for name in space.axes["prompt"]] == ["pairwise", "mine"]
    assert str(space.limits[0]) == "dark_current/rate <= 0.05"
    moved = tmp_path / "moved"
    folder.rename(moved)
    assert load_space(moved / "space.yaml").sha256 == space.sha256


def test_a_function_of_a_file_makes_judges(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def make(choice):\n    return lambda shown: choice['answer']\n", encoding="utf-8")
    (tmp_path / "space.yaml").write_text("choices: {answer: ['1', tie]}\njudge: own.py:make\n", encoding="utf-8")
    space = load_space(tmp_path / "space.yaml")
    made = [space.make_judge(one) for one in space.configurations(pair=True)]
    assert {judge(None) for judge in made} == {"1", "tie"}


def test_a_prompt_of_the_registry_is_taken_with_its_variables(store_uri: str) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store_uri, registry_uri=store_uri)
    client.register_prompt("sweep-judge", "Compare these.\n{{ candidates }}\n{{format}}")
    messages = [{"role": "system", "content": "You judge."}, {"role": "user", "content": "{{candidates}}"}]
    client.register_prompt("sweep-chat", messages)
    texts = ["prompts:/sweep-judge/1", "prompts:/sweep-chat/1"]
    space = as_space({"models": MODELS, "prompts": texts}, tracking_uri=store_uri)
    plain, chat = space.prompts
    assert plain == "Compare these.\n{candidates}\n{format}\n"
    assert chat == "[system]\nYou judge.\n\n[user]\n{candidates}\n"
    assert len(space.axes["prompt"]) == 2
    with pytest.raises(RecipeError, match="no prompt prompts:/nowhere/1"):
        as_space({"models": MODELS, "prompts": ["prompts:/nowhere/1"]}, tracking_uri=store_uri)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"modles": MODELS}, "unknown key 'modles'. Did you mean 'models'"),
        ({"models": MODELS, "orders": ["bth"]}, "Did you mean 'both'"),
        ({"models": MODELS, "tie_criteria": ["strikt"]}, "Did you mean 'strict'"),
        ({"models": MODELS, "objectives": {"reliability": "maximise"}}, "Did you mean 'maximize'"),
        ({"models": MODELS, "constraints": ["dark_current < 0.05"]}, "metric <= number"),
        ({"models": MODELS, "temperatures": 0.0}, "must be a list"),
        ({"models": [*MODELS, "big"]}, "has 'big' twice"),
        ({"models": [{"modle": "x"}]}, "unknown key 'modle'"),
        ({"models": MODELS, "replicates": [0]}, "whole numbers"),
        ({"models": MODELS, "prompts": []}, "has no choice"),
        ({}, "either `models` or"),
        ({"choices": {"vote": ["a"]}, "judge": "scripted:Oracle"}, "is a judge"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, object], text: str) -> None:
    with pytest.raises(RecipeError, match=text):
        as_space(given)


def test_a_constraint_knows_by_how_much_it_is_broken() -> None:
    assert read_constraint("a/b <= 0.05").excess(0.07) == pytest.approx(0.02)
    assert read_constraint("a/b >= 0.9").excess(0.95) == pytest.approx(-0.05)
