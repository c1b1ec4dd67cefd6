"""`jrh evaluate` and `jrh shift`."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from jrh_mlflow.cli.options import (
    Command,
    allow_code,
    force_option,
    from_model,
    judge_arguments,
    judge_options,
    limits,
    price_from_option,
    prompted_judge,
    shown_as,
    suite_option,
    table_option,
    together,
    tracking,
    typed,
)
from jrh_mlflow.cli.pipeline import run_pipeline
from jrh_mlflow.cli.printing import (
    print_evaluations,
    print_lines,
    print_shift,
    print_stopped,
    save_table,
    shown_when_stopped,
)
from jrh_mlflow.errors import BudgetError, JudgeError
from jrh_mlflow.options import JudgeOptions, RunOptions
from jrh_mlflow.schema.items import USABLE
from jrh_mlflow.show.numbers import quote_text
from jrh_mlflow.text import given_text

if TYPE_CHECKING:
    from jrh_mlflow.judges import Judge
    from jrh_mlflow.measuring.evaluation import Evaluation
    from jrh_mlflow.recipe import Recipe

run_options = together(
    click.option(
        "--judge",
        "judge_text",
        help="Instead of --model: scripted:NAME, module:function, file.py:function, scorers:/NAME[@VERSION].",
    ),
    suite_option,
    from_model(RunOptions, "replicates", "max_usd"),
    click.option("--price", metavar="IN,OUT", help="Dollars per million tokens, for a model litellm does not price."),
    limits,
    allow_code,
    from_model(
        RunOptions,
        *("fresh_after", "backend", "metrics", "metric", "definitions", "traces", "texts"),
        "run_name",
    ),
    click.option(
        "--until",
        multiple=True,
        metavar="RULE",
        help="Ask, in random order, only until it is decided what the whole suite reads: 'dark_current <= 0.1'; "
        "repeatable.",
    ),
    click.option("--dry-run", is_flag=True, help="Print calls, tokens and dollars; send nothing."),
)
"""How a judge is asked; the names are those of `jrh.evaluate`."""


@click.command(cls=Command)
@click.argument("recipe_file", metavar="[RECIPE.yaml|scorers:/NAME]", required=False, type=click.Path())
@judge_options
@run_options
@click.option(
    "--resume",
    "folder",
    type=click.Path(exists=True, file_okay=False),
    help="Log an evaluation kept on disk while MLflow was down.",
)
@click.option(
    "--register-prompt",
    metavar="NAME[@ALIAS]",
    help="Afterwards put the judge's prompt into MLflow's prompt registry, linked to the run; an alias is set to it.",
)
@table_option("the calls")
@force_option
@tracking
@shown_as
def evaluate(
    recipe_file: str | None,
    folder: str | None,
    table: str | None,
    force: bool,
    as_json: bool,
    markdown: bool,
    **options: Any,
) -> None:
    """Measure one judge on one suite and log it as an MLflow run.

    The judge is a model (--model), a callable or scripted judge (--judge), one that is registered at MLflow
    (scorers:/NAME, or @VERSION behind it), or written down with the rest in a recipe.
    A recipe with `judges` is a pipeline: generate, review, judge, compare; run again, it goes on where it ended.
    Options override the recipe. Exit code 3: stopped by the cap, 130: by Ctrl-C; what was measured is logged. Once all
    rules of --until are decided it is done, exit code 0. Printed are the headline readings; --markdown prints the whole
    page. With --no-texts MLflow gets hashes in place of prompts and answers.

    \b
    Example: jrh evaluate --model openai/gpt-4o-mini --max-usd 1 --dry-run
             jrh evaluate --judge recipes/own_judge.py:judge --suite my_pairs --no-texts
             jrh evaluate --model openai/gpt-4o-mini --until "dark_current <= 0.1"
             jrh evaluate --model openai/gpt-4o-mini --prompt mine.txt --register-prompt judge@production
             jrh evaluate --model openai/gpt-4o-mini --prompt prompts:/judge@production --suite datasets:/my-pairs
             jrh evaluate scorers:/helpful@2 --suite pointwise-datasheet
             jrh evaluate recipes/openai_judge.yaml
             jrh evaluate recipes/pipeline.yaml
    """
    from jrh_mlflow.measuring.evaluate import evaluate as run_evaluation
    from jrh_mlflow.measuring.evaluation import resume

    if (
        recipe_file is not None
        and not _is_registered(recipe_file)
        and folder is None
        and run_pipeline(recipe_file, options, table=table, force=force, as_json=as_json, markdown=markdown)
    ):
        return
    if folder is not None:
        if options["register_prompt"]:
            raise click.UsageError("--register-prompt goes with a run that is asked now: jrh.register_prompt(RUN).")
        resumed = resume(folder, tracking_uri=options["tracking_uri"])
        save_table(resumed.calls, table, force=force)
        print_evaluations([resumed], as_json=as_json, markdown=markdown)
        return
    dry_run, prompt_name = options.pop("dry_run"), options.pop("register_prompt")
    recipe = joined_recipe(recipe_file, options)
    if recipe.criteria is not None:
        raise click.UsageError("The recipe has `criteria`: run it with `jrh shift`.")
    # Checked before the first call: a name that MLflow refuses should not be known only after all is paid.
    named = _prompt_name(prompt_name, recipe)
    if dry_run:
        _print_quote(recipe, as_json=as_json)
        return
    with shown_when_stopped("evaluation", partial(print_stopped, as_json=as_json, markdown=markdown)):
        result = run_evaluation(recipe.judge, recipe.suite, **recipe.options)
    save_table(result.calls, table, force=force)
    print_evaluations([result], as_json=as_json, markdown=markdown)
    _register(result, named)
    _end([result])


@click.command(cls=Command)
@click.argument("recipe_file", metavar="[RECIPE.yaml|scorers:/NAME]", required=False, type=click.Path())
@click.option(
    "--criteria",
    multiple=True,
    help="Once per arm, the base first: forced, allowed, strict, or a sentence of your own. [allowed, strict]",
)
@judge_options
@run_options
@tracking
@shown_as
def shift(recipe_file: str | None, criteria: tuple[str, ...], as_json: bool, markdown: bool, **options: Any) -> None:
    """Measure one judge under several tie criteria: a parent run with one child per criterion.

    Example: jrh shift --judge scripted:Qwen32B --criteria allowed --criteria strict
    """
    from jrh_mlflow.comparing.criterion_shift import criterion_shift

    if options.pop("dry_run"):
        raise click.UsageError("--dry-run prices one arm at a time: use `jrh evaluate --dry-run --criterion …`.")
    if options["judge_tie_criterion"]:
        raise click.UsageError("A shift takes --criteria, once per arm.")
    recipe = joined_recipe(recipe_file, options)
    arms = tuple(given_text(arm, what="criteria") for arm in criteria) or recipe.criteria or ("allowed", "strict")
    with shown_when_stopped("evaluation", partial(print_stopped, as_json=as_json, markdown=markdown)):
        result = criterion_shift(recipe.judge, recipe.suite, criteria=arms, **recipe.options)
    if as_json:
        facts = {"run_id": result.run_id, "arms": {name: arm.run_id for name, arm in result.arms.items()}}
        click.echo(json.dumps({**facts, "metrics": result.metrics, "link": result.link}, indent=1))
    else:
        print_shift(result, markdown=markdown)
    _end(list(result.arms.values()))


def _prompt_name(text: str | None, recipe: Recipe) -> tuple[str, str | None] | None:
    """Read `--register-prompt NAME[@ALIAS]`, and check before anything is asked that it can be done."""
    from jrh_mlflow.exporting.registries import prompted_inside, sole_template
    from jrh_mlflow.measuring.resolve import resolve_suite, with_read_prompt
    from jrh_mlflow.tracking.judges.prompts import check_prompt_names

    if text is None:
        return None
    if recipe.options.get("texts") is False:
        raise click.UsageError("--register-prompt puts a text into MLflow, and --no-texts keeps all out of it.")
    name, sign, alias = text.partition("@")
    check_prompt_names(name, alias if sign else None)
    prompted_inside(recipe.judge)
    uri = recipe.options.get("tracking_uri")
    judge = with_read_prompt(recipe.judge, tracking_uri=uri)
    # Which prompts a judge sends depends on the suite.
    judge.begin(resolve_suite(recipe.suite, tracking_uri=uri))
    sole_template(judge)
    return name, alias if sign else None


def _register(result: Evaluation, named: tuple[str, str | None] | None) -> None:
    from jrh_mlflow.exporting.registries import register_prompt

    if named is not None:
        version = register_prompt(result, named[0], alias=named[1], tracking_uri=result.tracking_uri)
        click.echo(f"note: The prompt is {version}.", err=True)


def joined_recipe(recipe_file: str | None, options: dict[str, Any]) -> Recipe:
    """Join a recipe file and the options typed beside it."""
    from jrh_mlflow.recipe import Recipe, load_recipe

    arguments = judge_arguments(options)
    judge_text, price, suite = options.pop("judge_text"), options.pop("price"), options.pop("suite")
    if recipe_file is not None and judge_text is None and _is_registered(recipe_file):
        recipe_file, judge_text = None, recipe_file
    rules = options.pop("until")
    # Only what was typed: defaults of the command line must not override the recipe.
    given = {name: value for name, value in options.items() if name in typed()}
    if sum(way is not None for way in (recipe_file, judge_text, arguments.get("model"))) != 1:
        raise click.UsageError("Give one of --model, --judge, --resume or a recipe.")
    if recipe_file is None:
        judge = prompted_judge(arguments) if judge_text is None else _own_judge(judge_text, arguments, given)
        recipe = Recipe(judge=judge, suite=suite, options=given)
    else:
        written = load_recipe(recipe_file, judge=arguments, options=given)
        recipe = replace(written, suite=suite or written.suite)
    if rules:
        from jrh_mlflow.measuring.until import until

        recipe.options["stop"] = until(rules)
    if price:
        recipe.options["prices"] = price_from_option(str(recipe.judge.settings()["model"]), price)
    return recipe


def _is_registered(text: str) -> bool:
    from jrh_mlflow.tracking.judges.judge_registry import SCORERS

    return text.startswith(SCORERS)


def _own_judge(judge_text: str, arguments: dict[str, Any], options: dict[str, Any]) -> Judge:
    from jrh_mlflow.measuring.resolve import judge_from_text

    criterion = arguments.pop("tie_criterion", None)
    if arguments:
        flags = ", ".join(sorted(JudgeOptions.flag(name) for name in arguments))
        raise click.UsageError(f"{flags}: only with --model. A judge of your own is set up in its code.")
    where = {name: options[name] for name in ("experiment", "tracking_uri") if name in options}
    judge = judge_from_text(judge_text, **where)
    return judge.with_criterion(criterion) if criterion else judge


def _print_quote(recipe: Recipe, *, as_json: bool) -> None:
    from jrh_mlflow.measuring.evaluate import price_evaluation

    quoted = price_evaluation(recipe.judge, recipe.suite, **recipe.options)
    if as_json:
        click.echo(json.dumps(asdict(quoted), indent=1))
        return
    dollars = quote_text(quoted.usd, quoted.worst_usd, unknown="unknown (no price; give --price IN,OUT)")
    most = "at most " if "stop" in recipe.options else ""
    click.echo(f"calls          {most}{quoted.calls} ({quoted.journalled} in the journal already, not paid again)")
    click.echo(f"input tokens   about {quoted.input_tokens:,} (4 bytes each)")
    click.echo(f"output tokens  about {quoted.output_tokens:,} (150 a call)")
    click.echo(f"dollars        {dollars}")


def _end(evaluations: list[Evaluation]) -> None:
    """Say how to continue a truncated run, or that no call gave an answer, and end with the code of the reason."""
    from jrh_mlflow.engine.budget import cap_advice
    from jrh_mlflow.measuring.run_page import is_decided

    dead = [run for run in evaluations if not run.calls["outcome"].isin(USABLE).any()]
    for run in dead:
        print_lines([f"{run.judge.label}: no call gave an answer, e.g. {run.calls['error'].iloc[0]!r}."], err=True)
    if dead:
        click.get_current_context().exit(JudgeError.exit_code)
    # A run that ended because all rules are decided ended as it was asked to.
    truncated = [run for run in evaluations if run.truncated and not is_decided(run.truncated)]
    for run in truncated:
        print_lines([f"{run.judge.label}: truncated ({run.truncated}). {cap_advice(run.truncated or '')}"], err=True)
    if truncated:
        click.get_current_context().exit(BudgetError.exit_code)
