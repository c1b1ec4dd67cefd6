"""Options that several commands share, and how they are read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import click
from click.core import ParameterSource

from jrh_mlflow.models.trust import allow_key_to, name_address
from jrh_mlflow.options import JudgeOptions, Options, RunOptions
from jrh_mlflow.plugins import function_from_text
from jrh_mlflow.text import given_text

if TYPE_CHECKING:
    from jrh_mlflow.judges.raw import PromptedJudge

F = TypeVar("F", bound=Callable[..., Any])
N = TypeVar("N", int, float)

_RANGE = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*-\s*(-?\d+(?:\.\d+)?)\s*")
NETWORK_AND_STORAGE = (
    "--concurrency",
    "--requests-per-minute",
    "--tokens-per-minute",
    "--timeout",
    "--allow-key-to",
    "--journal",
    "--fresh-after",
    "--backend",
    "--storage",
    "--experiment",
    "--tracking-uri",
    "--port",
)
"""The options on endpoints, limits and stores, in the order in which every `--help` ends with them."""
NETWORK_TITLE = "Network and storage"


def network_options(parameters: Iterable[click.Parameter]) -> tuple[list[click.Parameter], list[click.Parameter]]:
    """Part the parameters of a command: what it does, and the network and storage that it uses."""
    places = {flag: place for place, flag in enumerate(NETWORK_AND_STORAGE)}
    network = [each for each in parameters if max(each.opts, key=len) in places]
    own = [each for each in parameters if each not in network]
    return own, sorted(network, key=lambda each: places[max(each.opts, key=len)])


class Command(click.Command):
    """A command whose help ends with the options on network and storage."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in two sections."""
        for title, parameters in zip(("Options", NETWORK_TITLE), network_options(self.get_params(ctx)), strict=True):
            records = [record for each in parameters if (record := each.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class CommandGroup(click.Group):
    """A group of such commands."""

    command_class = Command


ABOVE_ZERO = click.FloatRange(min=0, min_open=True)
as_json = click.option("--json", "as_json", is_flag=True, help="Print machine-readable results.")
as_markdown = click.option("--markdown", is_flag=True, help="Print the whole page as Markdown.")

force_option = click.option("--force", is_flag=True, is_eager=True, help="Overwrite what lies at the output already.")
"""Eager: options that check their file ask for it."""


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds options in the order they are given."""

    def add(function: F) -> F:
        # Decorators are applied from the inside out; help lists them the other way round.
        for option in reversed(options):
            function = option(function)
        return function

    return add


def read_scale(_context: click.Context, _parameter: click.Parameter, text: str | None) -> object:
    """Read `numeric`, `0-100` as the ends of a numeric scale, and anything else as labels from low to high."""
    from jrh_mlflow.suites.labels import labels_from_text

    if text is None or text == "numeric":
        return text
    if ends := _RANGE.fullmatch(text):
        return float(ends[1]), float(ends[2])
    return list(labels_from_text(text, option="--scale"))


def or_none(number: Callable[[str], N]) -> Callable[[str], N | None]:
    """Read a number, or `none` for leaving it to the provider."""

    def read(text: str) -> N | None:
        return None if text == "none" else number(text)

    return read


def from_model(model: type[Options], *names: str, prefix: str = "") -> Callable[[F], F]:
    """Return a decorator that adds the options of a model, as parameters called by prefix and name.

    One that is not typed is None: the model's defaults are shown, and left to whoever takes the options.
    """
    return together(*(_click_option(model, name, parameter=f"{prefix}{name}") for name in names))


def _click_option(model: type[Options], name: str, *, parameter: str) -> Callable[[F], F]:
    field, flag = model.model_fields[name], model.flag(name)
    kinds = get_args(field.annotation) or (field.annotation,)
    text = field.description or ""
    # A switch that is on by itself, or may be left open, needs a way to say no.
    if bool in kinds:
        negated = f"/--no-{flag[2:]}" if type(None) in kinds or field.default is True else ""
        return click.option(f"{flag}{negated}", parameter, is_flag=True, default=None, help=text)
    if any(get_origin(kind) is Mapping for kind in kinds):
        return click.option(flag, parameter, multiple=True, metavar="KEY=JSON", help=text)
    shown = text if field.is_required() or field.default is None else f"{text} [{field.default}]"
    if get_origin(field.annotation) is Literal:
        return click.option(flag, parameter, type=click.Choice(list(kinds)), help=shown)
    # A field of `int | float` takes any number, so it is read as a float.
    number = next((kind for kind in (float, int) if kind in kinds), None)
    if number is not None and type(None) in kinds and field.default is not None:
        # None is a value of its own where it is not the default.
        return click.option(flag, parameter, type=or_none(number), metavar="NUMBER|none", help=shown)
    # Pydantic keeps limits in `metadata`: counts are 1 or more, amounts above 0.
    limit = click.IntRange(1) if number is int else ABOVE_ZERO
    metavar = facts["metavar"] if isinstance(facts := field.json_schema_extra, dict) else None
    return click.option(flag, parameter, type=limit if field.metadata else number, metavar=metavar, help=shown)


def typed() -> set[str]:
    """Return the parameters of the options that were typed, which a default is not."""
    context = click.get_current_context()
    return {name for name in context.params if context.get_parameter_source(name) is not ParameterSource.DEFAULT}


def refuse_typed_but(allowed: set[str], *, of: str) -> None:
    """Refuse options that a mode of a command does not read, such as those of a look beside `--status`.

    Raises:
        click.UsageError: naming them.
    """
    refused = typed() - allowed
    if refused:
        parameters = click.get_current_context().command.params
        flags = sorted(max(each.opts, key=len) for each in parameters if each.name in refused)
        raise click.UsageError(f"{of} does not take {', '.join(flags)}. Leave it out.")


_CODE = "jrh_mlflow.allow_code"


def why_no_code() -> str | None:
    """Say why code that a file names is not run by the command at hand; None: it is."""
    context = click.get_current_context(silent=True)
    if context is None or _CODE not in context.meta:
        return "this command runs none that a file names"
    if context.params.get("dry_run"):
        return "a dry run runs none that a file names. Type it as an option, or leave --dry-run out"
    return None if context.meta[_CODE] else "code that a file names is run with --allow-code only. Read it first"


def _allow_code(context: click.Context, _parameter: click.Parameter, is_allowed: bool) -> None:
    context.meta[_CODE] = is_allowed


allow_code = click.option(
    "--allow-code",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_allow_code,
    help="Run code that the file names (file.py:name, module:name); what is typed needs no leave. Not in a dry run.",
)

store = together(
    from_model(RunOptions, "experiment", "tracking_uri"),
    click.option(
        "--allow-key-to",
        multiple=True,
        metavar="HOST[:PORT]",
        is_eager=True,
        expose_value=False,
        callback=lambda _context, _parameter, hosts: allow_key_to(hosts),
        help="Let keys go to a host that only a recipe, .env or a registered judge names; http://HOST if it has no "
        "encryption. Remembered; repeatable.",
    ),
)
"""Where in MLflow a run goes, and who may get its keys."""

_SEED = RunOptions.model_fields["seed"]
seed_option = click.option("--seed", default=_SEED.default, show_default=True, help=_SEED.description)
tracking = together(store, seed_option)

shown_as = together(as_json, as_markdown)
own_run = together(
    click.option("--run-name", help="Name of the MLflow run."),
    click.option("--no-log", is_flag=True, help="Print only; log no run."),
    tracking,
)
"""Of a verb that logs a run of its own."""

limits = from_model(RunOptions, "concurrency", "journal", "requests_per_minute", "tokens_per_minute", "timeout_s")
"""How models are asked."""

paid_run = together(
    from_model(RunOptions, "max_usd"),
    click.option(
        "--price", multiple=True, metavar="MODEL=IN,OUT", help="Dollars per million tokens, where the table is silent."
    ),
    from_model(RunOptions, "run_name"),
    limits,
    store,
)
"""Of a verb that asks, and logs a run of its own."""
asked_run = together(
    click.option("--dry-run", is_flag=True, help="Say how many calls and dollars, and send nothing."), paid_run
)
"""Of one that can say beforehand what it would ask."""

suite_option = click.option(
    "--suite", help="Built-in name, folder, runs:/<id>/suite or datasets:/NAME; the datasheet suite when left out."
)


def _writable_table(context: click.Context, _parameter: click.Parameter, path: str | None) -> str | None:
    """Check before anything is asked or paid that the table can be written."""
    if path is None:
        return None
    from jrh_mlflow.suites.spreadsheets import checked_output

    return str(checked_output(path, force=bool(context.params.get("force"))))


def table_option(rows: str) -> Callable[[F], F]:
    """Return the option that also writes a spreadsheet; `rows` are what it has a row for each of."""
    return click.option(
        "--table",
        metavar="FILE",
        type=click.Path(),
        callback=_writable_table,
        help=f"Also write a table of {rows}: .xlsx or .csv.",
    )


def read_pairs(pairs: Sequence[str], *, option: str = "--map", form: str = "ROLE=COLUMN") -> dict[str, str]:
    """Read the pairs of an option that may be repeated."""
    read: dict[str, str] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not value:
            raise click.UsageError(f"{option} takes {form}, but got {pair!r}.")
        read[key] = value
    return read


def pairs_option(flag: str, name: str, form: str, *, help: str) -> Callable[[F], F]:
    """Return an option that may be repeated, as the mapping of its pairs."""

    def read(_context: click.Context, _parameter: click.Parameter, pairs: Sequence[str]) -> dict[str, str]:
        return read_pairs(pairs, option=flag, form=form)

    return click.option(flag, name, multiple=True, metavar=form, callback=read, help=help)


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
    # Before any file is read: what is typed is the user's word.
    name_address(arguments.get("api_base"), None)
    if "extra" in arguments:
        arguments["extra"] = extra_fields(arguments["extra"])
    if "verdict" in arguments:
        arguments["verdict"] = _read_verdict(arguments["verdict"])
    return arguments


def _read_verdict(text: str) -> object:
    """Read `--verdict`: JSON where it begins with a brace, else a pattern; what is typed may name code."""
    if not text.startswith("{"):
        return text
    try:
        form = json.loads(text)
    except (ValueError, RecursionError):
        raise click.UsageError("--verdict begins with { but is not JSON.") from None
    return function_from_text(str(form["function"])) if list(form) == ["function"] else form


def prompted_judge(arguments: dict[str, Any]) -> PromptedJudge:
    """Make the judge that the options describe.

    Raises:
        click.UsageError: when an option is missing or makes no sense.
        RecipeError: when a prompt, criterion or file is not found, or a key was given as an option.
    """
    from jrh_mlflow.judges.raw import PromptedJudge

    if "model" not in arguments:
        raise click.UsageError("Give --model.")
    try:
        return PromptedJudge(**arguments)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def price_from_option(model: str, price: str | None) -> dict[str, tuple[float, float]] | None:
    """Read `--price IN,OUT`, dollars per million tokens, as the `prices` of one model; `MODEL=IN,OUT` names another.

    Example:
        >>> price_from_option("my/model", "0.15,0.6"), price_from_option("my/model", "other=1,2")
        ({'my/model': (0.15, 0.6)}, {'other': (1.0, 2.0)})
    """
    if price is None:
        return None
    named, sign, price = price.rpartition("=")
    model = named if sign else model
    try:
        given, made = (float(part) for part in price.split(","))
    except ValueError:
        # Also where there are not exactly two parts, which cannot be unpacked.
        raise click.UsageError(f"--price takes IN,OUT, dollars per million tokens, but got {price!r}.") from None
    return {model: (given, made)}


def typed_options(options: dict[str, Any], model: str = "") -> dict[str, Any]:
    """Return the options that were typed, each `price` as a part of `prices`; one that names no model is of `model`."""
    given = {name: value for name, value in options.items() if name != "price" and value is not None}
    prices: dict[str, tuple[float, float]] = {}
    for text in options.get("price", ()):
        if not (model or text.rpartition("=")[0]):
            raise click.UsageError(f"--price takes MODEL=IN,OUT, dollars per million tokens, but got {text!r}.")
        prices |= price_from_option(model, text) or {}
    return {**given, "prices": prices} if prices else given


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
            # JSON that is nested too deep ends in a RecursionError.
            fields[key] = json.loads(value)
        except (ValueError, RecursionError):
            raise click.UsageError(f"--extra {key} is not JSON; a text is written {key}='\"text\"'.") from None
    return fields
