"""Spaces: what they hold, what they refuse, and how they are written down."""

from __future__ import annotations

from pathlib import Path

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.sweeps.space import as_space, load_space, read_constraint

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


def test_rubrics_and_tie_criteria_of_a_file_may_stand_in_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "fair.txt").write_text("Be fair.", encoding="utf-8")
    text = "models: [a/b]\nrubrics: [{file: fair.txt}, '@@ada', null]\ntie_criteria: [strict, '@fair.txt']\n"
    (tmp_path / "space.yaml").write_text(text, encoding="utf-8")
    space = load_space(tmp_path / "space.yaml")
    assert list(space.rubrics) == ["Be fair.", "@ada", None]
    assert list(space.tie_criteria) == ["strict", "Be fair."]
    (tmp_path / "space.yaml").write_text("models: [a/b]\nrubrics: ['@nowhere.txt']\n", encoding="utf-8")
    with pytest.raises(RecipeError, match=r"The rubrics file nowhere\.txt cannot be read"):
        load_space(tmp_path / "space.yaml")


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
        ({"choices": {"vote": ["a"]}, "judge": print}, "'vote' is a policy of its own"),
        ({"judge": {"modl": "x"}}, "`judge` of a space is a function"),
        ({"judge": 5}, "`judge` of a space is a function"),
        ({"choices": None, "judge": print}, "`choices` of a space must map names to lists"),
        ({"choices": ["a"], "judge": print}, "`choices` of a space must map names to lists"),
        ({"choices": {"a": 5}, "judge": print}, r"`choices\.a` of a space must be a list.*5"),
        ({"choices": {"a": "xyz"}, "judge": print}, r"`choices\.a` of a space must be a list"),
        ({"choices": {"a": None}, "judge": print}, r"`choices\.a` of a space must be a list"),
        ({"choices": {"a": []}, "judge": print}, "axis 'a' of the space has no choice"),
        ({"choices": {"a": [1, "1"]}, "judge": print}, "axis 'a' has '1' twice"),
        ({"choices": {1: ["a"]}, "judge": print}, "name of an axis must .*1"),
        ({"models": 5}, "`models` of a space must be a list.*5"),
        ({"models": None}, "`models` of a space must be a list.*None"),
        ({"models": []}, "either `models` or"),
        ({"models": [None]}, "name or a mapping with `model`, but got None"),
        ({"models": [["x"]]}, "name or a mapping with `model`"),
        ({"models": [" "]}, "`models` of a space: `model` must name a model"),
        ({"models": [{"model": "x", "max_tokens": "many"}]}, "`max_tokens` must .*'many'"),
        ({"models": [{"model": "x", "max_tokens": -1}]}, "`max_tokens >= 1` must hold"),
        ({"models": [{"model": "x", "name": 5}]}, "`name` must .*5"),
        ({"models": [{"model": "x", "extra": ["sk-1"]}]}, "`extra` must .*is list"),
        ({"models": [{"model": "x", "logprobs": "yes"}]}, "`logprobs` must .*'yes'"),
        ({"models": MODELS, "prompts": None}, "`prompts` of a space must be a list"),
        ({"models": MODELS, "prompts": [None]}, "`prompts` of a space: `prompt` must .*None"),
        ({"models": MODELS, "prompts": [5]}, "`prompts` of a space: `prompt` must be"),
        ({"models": MODELS, "prompts": ["pairwise", "pairwise"]}, "has 'pairwise' twice"),
        ({"models": MODELS, "tie_criteria": []}, "has no choice"),
        ({"models": MODELS, "tie_criteria": [None]}, "`tie_criterion` must .*None"),
        ({"models": MODELS, "tie_criteria": [{"a": 1}]}, "`tie_criteria` of a space: `tie_criterion` must be"),
        ({"models": MODELS, "temperatures": ["hot"]}, "`temperatures` of a space: `temperature` must be a number"),
        ({"models": MODELS, "temperatures": [True]}, "`temperature` must .*True"),
        ({"models": MODELS, "temperatures": [-0.5]}, "`temperatures` of a space: `temperature >= 0` must hold"),
        ({"models": MODELS, "temperatures": [float("inf")]}, "`temperature >= 0` must hold"),
        ({"models": MODELS, "temperatures": [0, 0.0]}, "has '0.0' twice"),
        ({"models": MODELS, "temperatures": []}, "has no choice"),
        ({"models": MODELS, "rubrics": [5]}, "`rubrics` of a space: `rubric` must .*5"),
        ({"models": MODELS, "rubrics": None}, "`rubrics` of a space must be a list"),
        ({"models": MODELS, "rubrics": [None, ""]}, "has 'none' twice"),
        ({"models": MODELS, "replicates": None}, "`replicates` of a space must be a list"),
        ({"models": MODELS, "replicates": ["3"]}, "whole numbers"),
        ({"models": MODELS, "replicates": [1, 1]}, "has '1' twice"),
        ({"models": MODELS, "replicates": []}, "has no choice"),
        ({"models": MODELS, "votes": [None]}, "Unknown vote None"),
        ({"models": MODELS, "votes": [["majority"]]}, "Unknown vote"),
        ({"models": MODELS, "votes": []}, "has no choice"),
        ({"models": MODELS, "orders": [1]}, "Unknown orders 1"),
        ({"models": MODELS, "orders": ["one", "one"]}, "has 'one' twice"),
        ({"models": MODELS, "objectives": None}, "`objectives` map a metric"),
        ({"models": MODELS, "objectives": ["reliability"]}, "`objectives` map a metric"),
        ({"models": MODELS, "objectives": {}}, "`objectives` map a metric"),
        ({"models": MODELS, "objectives": {"reliability": None}}, "has the direction None"),
        ({"models": MODELS, "objectives": {5: "maximize"}}, "name of a metric, but got 5"),
        ({"models": MODELS, "constraints": None}, "`constraints` of a space must be a list"),
        ({"models": MODELS, "constraints": [None]}, "metric <= number"),
        ({"models": MODELS, "constraints": ["a <= 1", "a<=1.0"]}, "one twice: a <= 1, a <= 1"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, object], text: str) -> None:
    with pytest.raises(RecipeError, match=text):
        as_space(given)


def test_a_constraint_knows_by_how_much_it_is_broken() -> None:
    assert read_constraint("a/b <= 0.05").excess(0.07) == pytest.approx(0.02)
    assert read_constraint("a/b >= 0.9").excess(0.95) == pytest.approx(-0.05)


def test_reasoning_efforts_are_an_axis_only_where_they_are_used() -> None:
    plain = jrh.Space(models=MODELS[:1])
    assert "reasoning_effort" not in plain.axes
    assert plain.sha256 == jrh.Space(models=MODELS[:1], reasoning_efforts=[None]).sha256
    # As it was before there was such an axis: the same space continues the same study.
    assert plain.sha256[:12] == "64994cc34058"
    space = jrh.Space(models=MODELS[:1], reasoning_efforts=[None, "low", "high"])
    assert space.sha256 != plain.sha256
    judges = {one.params["reasoning_effort"]: space.make_judge(one) for one in space.configurations(pair=True)}
    assert {name: judge.reasoning_effort for name, judge in judges.items()} == {
        "unset": None,
        "low": "low",
        "high": "high",
    }
    with pytest.raises(RecipeError, match="`reasoning_efforts` of a space"):
        jrh.Space(models=MODELS[:1], reasoning_efforts=["very low"])
