"""Options several commands share, and how results are printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

import click
from click.core import ParameterSource

from jrh_mlflow.options import Options, RunOptions

if TYPE_CHECKING:
    from jrh_mlflow.evaluation.evaluate import Evaluation
    from jrh_mlflow.schema.estimates import Reading

F = TypeVar("F", bound=Callable[..., Any])
N = TypeVar("N", int, float)

ABOVE_ZERO = click.FloatRange(min=0, min_open=True)
as_json = click.option("--json", "as_json", is_flag=True, help="Print machine-readable results.")


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds options in the order they are given."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def or_none(number: Callable[[str], N]) -> Callable[[str], N | None]:
    """Read a number, or `none` for leaving it to the provider."""

    def read(text: str) -> N | None:
        return None if text == "none" else number(text)

    return read


def flag_of(model: type[Options], name: str) -> str:
    """Return how an option is typed."""
    facts = model.model_fields[name].json_schema_extra
    flag = facts["flag"] if isinstance(facts, dict) else None
    return f"--{flag or name.replace('_', '-')}"


def from_model(model: type[Options], *names: str, prefix: str = "") -> Callable[[F], F]:
    """Return a decorator that adds the options of a model, as parameters called by prefix and name.

    One that is not typed is None: the model's defaults are shown, and left to whoever takes the options.
    """
    return together(*(_click_option(model, name, parameter=f"{prefix}{name}") for name in names))


def _click_option(model: type[Options], name: str, *, parameter: str) -> Callable[[F], F]:
    field, flag = model.model_fields[name], flag_of(model, name)
    kinds = get_args(field.annotation) or (field.annotation,)
    text = field.description or ""
    if bool in kinds:
        negated = f"/--no-{flag[2:]}" if type(None) in kinds else ""
        return click.option(f"{flag}{negated}", parameter, is_flag=True, default=None, help=text)
    if any(get_origin(kind) is Mapping for kind in kinds):
        return click.option(flag, parameter, multiple=True, metavar="KEY=JSON", help=text)
    shown = text if field.is_required() or field.default is None else f"{text} [{field.default}]"
    number = next((kind for kind in (float, int) if kind in kinds), None)
    if number is not None and type(None) in kinds and field.default is not None:
        # None is a value of its own where it is not the default.
        return click.option(flag, parameter, type=or_none(number), metavar="NUMBER|none", help=shown)
    limit = click.IntRange(1) if number is int else ABOVE_ZERO
    metavar = facts["metavar"] if isinstance(facts := field.json_schema_extra, dict) else None
    return click.option(flag, parameter, type=limit if field.metadata else number, metavar=metavar, help=shown)


def typed() -> set[str]:
    """Return the parameters of the options that were typed, which a default is not."""
    context = click.get_current_context()
    return {name for name in context.params if context.get_parameter_source(name) is not ParameterSource.DEFAULT}


store = from_model(RunOptions, "experiment", "tracking_uri")
"""Where in MLflow a run goes."""

_SEED = RunOptions.model_fields["seed"]
tracking = together(store, click.option("--seed", default=_SEED.default, show_default=True, help=_SEED.description))

limits = from_model(RunOptions, "concurrency", "journal", "requests_per_minute", "tokens_per_minute", "timeout_s")
"""How models are asked."""

suite_option = click.option(
    "--suite", help="Built-in name, folder, or runs:/<id>/suite; the datasheet suite when left out."
)


def column_mapping(pairs: Sequence[str]) -> dict[str, str]:
    """Read the ROLE=COLUMN pairs of --map."""
    columns: dict[str, str] = {}
    for pair in pairs:
        role, sign, column = pair.partition("=")
        if not sign or not column:
            raise click.UsageError(f"--map takes ROLE=COLUMN, but got {pair!r}.")
        columns[role] = column
    return columns


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    """Print aligned columns, the first `left` of them to the left and the others to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())


def print_evaluations(evaluations: Sequence[Evaluation], *, as_json: bool) -> None:
    """Print what was measured: one table for several judges, the whole datasheet for one."""
    from jrh_mlflow.results import Datasheet

    if as_json:
        click.echo(json.dumps([_facts(one) for one in evaluations], indent=1, ensure_ascii=False))
        return
    if len(evaluations) == 1:
        (one,) = evaluations
        title = "Judge datasheet" if isinstance(one.sheet, Datasheet) else "Judge reliability"
        click.echo(one.sheet.to_markdown(title=f"{title}: {one.judge.label}"))
    else:
        print_comparison(evaluations)
    for one in evaluations:
        for axis, reason in one.withheld.items():
            click.echo(f"withheld: {one.judge.label}: {axis}: {reason}")
    click.echo("")
    for one in evaluations:
        click.echo(f"{one.judge.label}: {one.link}")


def print_comparison(evaluations: Sequence[Evaluation]) -> None:
    """Print judges side by side: as columns while they fit on a screen, as rows when there are many."""
    header, rows = comparison_rows(evaluations)
    if len(evaluations) <= 5:
        header, *rows = ([str(cell) for cell in column] for column in zip(header, *rows, strict=True))
    print_table(header, rows)


def comparison_rows(evaluations: Sequence[Evaluation]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of a side-by-side table: values with their interval by cluster, and the threshold."""
    from jrh_mlflow.measures.axes import find
    from jrh_mlflow.schema.estimates import Estimate

    shown = [_shown(one) for one in evaluations]
    heads: dict[str, str] = {}
    for key, reading in ((key, reading) for one in shown for key, reading in one.items()):
        axis = find(key)
        # Of a threshold it is said that there is none; another axis that no judge has a number for is left out.
        if isinstance(reading, Estimate) or (axis is not None and axis.unit == "curve"):
            heads[key] = axis.column or key if axis else key
    rows = [
        [one.judge.label, *(_cell(readings.get(key)) for key in heads), str(len(one.calls))]
        for one, readings in zip(evaluations, shown, strict=True)
    ]
    return ["judge", *heads.values(), "calls"], rows


def _shown(one: Evaluation) -> dict[str, Reading]:
    """Return the readings that sum an evaluation up: axes with a column, or the score of each test."""
    from jrh_mlflow.measures.axes import AXES
    from jrh_mlflow.results import Datasheet

    estimates = one.sheet.estimates
    if isinstance(one.sheet, Datasheet):
        return {axis.headline: estimates[axis.headline] for axis in AXES if axis.column and axis.headline in estimates}
    plain = {"baseline": estimates["baseline/accuracy"]} if "baseline/accuracy" in estimates else {}
    return {**plain, **one.sheet.scores}


def _cell(reading: Reading | None) -> str:
    from jrh_mlflow.reports.numbers import threshold_text, with_interval
    from jrh_mlflow.schema.estimates import Estimate

    if not isinstance(reading, Estimate):
        return "n/a"
    return threshold_text(reading) if reading.unit == "curve" else with_interval(reading).removesuffix(" –")


def _facts(one: Evaluation) -> dict[str, Any]:
    return {
        "run_id": one.run_id,
        "judge": one.judge.label,
        "simulated": one.judge.simulated,
        "suite": {"name": one.suite.name, "sha256": one.suite.sha256},
        "profile": one.sheet.profile,
        "metrics": one.metrics,
        "withheld": one.withheld,
        "cost_usd": one.cost_usd,
        "link": one.link,
    }
