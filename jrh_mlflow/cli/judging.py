"""Options that describe a prompted judge, and the judge they describe."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from jrh_mlflow.cli.options import from_model, typed
from jrh_mlflow.options import JudgeOptions
from jrh_mlflow.text import given_text

if TYPE_CHECKING:
    from jrh_mlflow.judges.prompted import PromptedJudge

judge_options = from_model(JudgeOptions, *JudgeOptions.model_fields, prefix="judge_")
"""Of a prompted judge; the command passes them on to `judge_arguments`."""
_TEXTS = {"rubric", "tie_criterion"}
"""What may stand in a file: @FILE."""


def judge_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Take the judge's options out of a command's, and return the arguments of those that were typed."""
    given = {name: options.pop(f"judge_{name}") for name in JudgeOptions.model_fields}
    arguments = {name: value for name, value in given.items() if f"judge_{name}" in typed()}
    for name in _TEXTS & arguments.keys():
        arguments[name] = given_text(arguments[name], what=name)
    if "extra" in arguments:
        arguments["extra"] = extra_fields(arguments["extra"])
    return arguments


def prompted_judge(arguments: dict[str, Any]) -> PromptedJudge:
    """Make the judge that the options describe.

    Raises:
        click.UsageError: when an option is missing or makes no sense.
        RecipeError: when a prompt, criterion or file is not found, or a key was given as an option.
    """
    from jrh_mlflow.judges.prompted import PromptedJudge

    if "model" not in arguments:
        raise click.UsageError("Give --model.")
    try:
        return PromptedJudge(**arguments)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def price_from_option(model: str, price: str | None) -> dict[str, tuple[float, float]] | None:
    """Read `--price IN,OUT`, dollars per million tokens, as the `prices` of one model.

    Example:
        >>> price_from_option("my/model", "0.15,0.6")
        {'my/model': (0.15, 0.6)}
    """
    if price is None:
        return None
    try:
        given, made = (float(part) for part in price.split(","))
    except ValueError:
        raise click.UsageError(f"--price takes IN,OUT, dollars per million tokens, but got {price!r}.") from None
    return {model: (given, made)}


def extra_fields(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Read KEY=JSON pairs. What follows the sign is never repeated: it may be a key given by mistake."""
    fields: dict[str, Any] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not key or not sign:
            raise click.UsageError("--extra takes KEY=JSON, as in --extra top_p=0.9.")
        if key in fields:
            raise click.UsageError(f"--extra {key} was given twice.")
        try:
            fields[key] = json.loads(value)
        except (ValueError, RecursionError):
            raise click.UsageError(f"--extra {key} is not JSON; a text is written {key}='\"text\"'.") from None
    return fields
