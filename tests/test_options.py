"""Options are described once: Python's keywords, recipes and the command line cannot drift apart."""

from __future__ import annotations

import inspect
import re
from typing import Any

import click
import numpy as np
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.cli.evaluate import evaluate as evaluate_command
from jrh_mlflow.cli.options import flag_of
from jrh_mlflow.options import JudgeOptions, Options, RunOptions, option


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


@pytest.mark.parametrize("model", [JudgeOptions, RunOptions])
def test_every_option_with_a_help_text_is_an_option_of_the_command(model: type[Options]) -> None:
    flags = {flag for each in evaluate_command.params if isinstance(each, click.Option) for flag in each.opts}
    missing = [
        name for name, field in model.model_fields.items() if field.description and flag_of(model, name) not in flags
    ]
    assert missing == []


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
