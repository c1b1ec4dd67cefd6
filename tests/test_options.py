"""Options are described once: Python's keywords, recipes and the command line cannot drift apart."""

from __future__ import annotations

import inspect
import re
from datetime import date, datetime, timedelta, timezone
from typing import Any

import click
import numpy as np
import pytest
import yaml

import jrh_mlflow as jrh
from jrh_mlflow.cli.evaluate import evaluate as evaluate_command
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.options import GenerationSettings, JudgeOptions, Options, RunOptions, option, read_moment

pytestmark = pytest.mark.quick


def defaults(function: Any) -> dict[str, Any]:
    return {name: each.default for name, each in inspect.signature(function).parameters.items()}


def test_the_options_of_a_judge_are_the_arguments_of_prompted_judge_with_their_defaults() -> None:
    arguments = defaults(jrh.PromptedJudge)
    assert list(arguments) == list(JudgeOptions.model_fields)
    for name, field in JudgeOptions.model_fields.items():
        assert field.is_required() == (arguments[name] is inspect.Parameter.empty)
        assert field.is_required() or field.default == arguments[name], name


def test_the_options_of_a_run_are_keywords_of_evaluate_with_their_defaults() -> None:
    keywords = defaults(jrh.evaluate)
    for name, field in RunOptions.model_fields.items():
        assert field.default == keywords[name], name


def test_the_settings_of_a_generation_are_the_arguments_of_generate_with_their_defaults() -> None:
    arguments = defaults(jrh.generate)
    assert set(arguments) == set(GenerationSettings.model_fields)
    for name, field in GenerationSettings.model_fields.items():
        assert field.is_required() == (arguments[name] is inspect.Parameter.empty), name
        assert field.is_required() or field.default == arguments[name], name


@pytest.mark.parametrize("model", [JudgeOptions, RunOptions])
def test_every_option_with_a_help_text_is_an_option_of_the_command(model: type[Options]) -> None:
    flags = {flag for each in evaluate_command.params if isinstance(each, click.Option) for flag in each.opts}
    missing = [
        name for name, field in model.model_fields.items() if field.description and model.flag(name) not in flags
    ]
    # Of a recipe and of Python only.
    assert set(missing) <= {"keep_unreadable"}


class Small(Options):
    """Options of this test."""

    size: int = option(1, "a whole number, 1 or more", ge=1)
    secret: str | None = option(None, "a text", repr=False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 0}, "`size` must be a whole number, 1 or more, but is 0."),
        ({"size": True}, "`size` must be a whole number, 1 or more, but is True."),
        ({"size": "3"}, "`size` must be a whole number, 1 or more, but is '3'."),
        ({"secret": 5}, "`secret` must be a text, but is int."),
        ({"sise": 2}, "unknown key 'sise'. Did you mean 'size'? Known: size, secret."),
    ],
)
def test_a_value_that_breaks_its_rule_is_named_and_a_secret_one_is_not_shown(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        Small.checked(given)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_only_what_was_given_is_given_and_numbers_of_numpy_are_numbers() -> None:
    assert Small.checked({}).given == {}
    assert Small.checked({"size": np.int64(3)}).given == {"size": 3}


@pytest.mark.parametrize("text", ["2026-01-02", "2026-01-02T03:04:05Z", "'2026-01-02 03:04'"])
def test_a_recipe_may_write_a_date_as_yaml_has_it(text: str) -> None:
    given = yaml.safe_load(f"fresh_after: {text}")
    assert RunOptions.checked(given).given == given
    with pytest.raises(RecipeError, match="must lie in the past"):
        RunOptions.checked({"fresh_after": date(2999, 1, 1)})


def test_a_moment_without_a_zone_is_one_of_utc() -> None:
    east = timezone(timedelta(hours=9))
    moments = ["2026-01-02", date(2026, 1, 2), datetime(2026, 1, 2), datetime(2026, 1, 2, 9, tzinfo=east)]
    assert {read_moment(one) for one in moments} == {datetime(2026, 1, 2, tzinfo=timezone.utc)}
