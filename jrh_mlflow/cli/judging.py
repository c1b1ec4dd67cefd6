"""Options that describe a prompted judge, and the judge they describe."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from jrh_mlflow.cli.options import together

if TYPE_CHECKING:
    from jrh_mlflow.judges.prompted import PromptedJudge

N = TypeVar("N", int, float)

_NUMBER = "NUMBER|none"
"""`none` leaves it to the provider."""


def or_none(number: Callable[[str], N]) -> Callable[[str], N | None]:
    """Read a number, or `none` for leaving it to the provider."""

    def read(text: str) -> N | None:
        return None if text == "none" else number(text)

    return read


judge_options = together(
    click.option(
        "--model", help="A litellm name (openai/gpt-4o-mini, hosted_vllm/NAME), local/smollm2, local/FILE.gguf."
    ),
    click.option("--prompt", help="pairwise, label, ordinal, transcript or a template file; by default what fits."),
    click.option("--rubric", help="What to judge by, before the suite's own rubric; @FILE reads it from a file."),
    click.option("--criterion", help="Tie criterion: forced, allowed, strict, or a sentence of your own."),
    click.option("--temperature", type=or_none(float), metavar=_NUMBER, default=0.0, show_default=True),
    click.option("--max-tokens", type=or_none(int), metavar=_NUMBER, default=1024, show_default=True),
    click.option("--judge-seed", type=int, help="Sent to the provider."),
    click.option("--api-base", help="Address of an endpoint that speaks the OpenAI dialect."),
    click.option("--extra", multiple=True, metavar="KEY=JSON", help="A further field of the request; repeatable."),
    click.option("--name", help="What the judge is called in reports; the model's name when left out."),
    click.option("--answer-style", default="letters", show_default=True, help="Slots as letters or digits."),
    click.option("--structured/--no-structured", default=None, help="Ask for a JSON schema; where known to work."),
    click.option("--logprobs", is_flag=True, help="Ask for token probabilities: the verdict's confidence."),
)
"""Of a prompted judge; the command passes them on to `prompted_judge_from_options`."""


def prompted_judge_from_options(
    *,
    model: str | None,
    prompt: str | None = None,
    rubric: str | None = None,
    criterion: str | None = None,
    temperature: float | None = 0.0,
    max_tokens: int | None = 1024,
    judge_seed: int | None = None,
    api_base: str | None = None,
    extra: tuple[str, ...] = (),
    name: str | None = None,
    answer_style: str = "letters",
    structured: bool | None = None,
    logprobs: bool = False,
) -> PromptedJudge:
    """Make the judge that the options of `judge_options` describe.

    Raises:
        click.UsageError: when an option is missing or makes no sense.
        RecipeError: when a prompt, criterion or file is not found, or a key was given as an option.
    """
    from jrh_mlflow.judges.prompted import AUTOMATIC, PromptedJudge

    if model is None:
        raise click.UsageError("Give --model.")
    try:
        return PromptedJudge(
            model,
            prompt=prompt or AUTOMATIC,
            rubric=text_or_file(rubric),
            tie_criterion=criterion or "allowed",
            temperature=temperature,
            max_tokens=max_tokens,
            seed=judge_seed,
            name=name,
            api_base=api_base,
            extra=extra_fields(extra),
            structured=structured,
            answer_style=answer_style,
            logprobs=logprobs,
        )
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


def text_or_file(text: str | None) -> str | None:
    """Take a text as it is, or read it from a file that is given as @FILE."""
    from jrh_mlflow.errors import RecipeError

    if text is None or not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"The rubric {text[1:]} cannot be read: {error}.") from error


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
