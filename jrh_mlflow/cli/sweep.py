"""`jrh sweep`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from jrh_mlflow.cli.options import (
    ABOVE_ZERO,
    Command,
    allow_code,
    from_model,
    limits,
    shown_as,
    suite_option,
    tracking,
    typed_options,
)
from jrh_mlflow.cli.printing import print_lines, print_result, shown_when_stopped
from jrh_mlflow.errors import BudgetError
from jrh_mlflow.options import RunOptions
from jrh_mlflow.show.numbers import quote_text
from jrh_mlflow.show.plain_text import WIDTH, wrapped_line

if TYPE_CHECKING:
    from jrh_mlflow.sweeps.result import Sweep
    from jrh_mlflow.sweeps.sweep import SweepQuote


@click.command(cls=Command)
@click.argument("space", metavar="SPACE.yaml", type=click.Path(dir_okay=False))
@suite_option
@click.option("--n-trials", type=click.IntRange(1), help="Configurations to try, earlier ones included. [all]")
@click.option("--max-usd", type=ABOVE_ZERO, help="Never spend more than this on all trials together.")
@click.option("--storage", help="Optuna storage URL, such as postgresql://…; a file of its own when left out.")
@click.option(
    "--worker", is_flag=True, help="Join a sweep that another process started, with its cap, and only run trials."
)
@click.option("--max-replicates", type=click.IntRange(1), default=4, show_default=True, help="While undecided.")
@click.option("--no-early-stop", is_flag=True, help="Ask every trial to its end.")
@click.option("--price", "price", multiple=True, metavar="MODEL=IN,OUT", help="Dollars per million tokens; repeatable.")
@limits
@allow_code
@from_model(RunOptions, "fresh_after", "metrics", "metric", "texts")
@click.option("--run-name", help="Name of the parent run.")
@click.option("--dry-run", is_flag=True, help="Print configurations, calls and dollars; send nothing.")
@tracking
@shown_as
def sweep(
    space: str,
    worker: bool,
    dry_run: bool,
    no_early_stop: bool,
    max_replicates: int,
    as_json: bool,
    markdown: bool,
    **options: Any,
) -> None:
    """Search models, prompts, tie criteria and policies for the map of reliability against cost.

    A parent run with one nested run per trial. One half of the tasks is searched, the front is measured again on the
    other. The same command continues a sweep that was interrupted. Exit code 3: stopped by the cap; 130, 143: stopped
    by Ctrl-C, SIGTERM, with what was measured so far on the screen.

    \b
    Example: jrh sweep space.yaml --dry-run
             jrh sweep space.yaml --n-trials 20 --max-usd 5
             jrh sweep space.yaml --journal postgresql://… --storage postgresql://… --worker
    """
    given = typed_options(options)
    if dry_run:
        _print_quote(space, given, as_json=as_json)
    elif worker:
        _join(space, given, early_stop=not no_early_stop, as_json=as_json)
    else:
        from jrh_mlflow.sweeps.sweep import sweep as run

        with shown_when_stopped("sweep", partial(_print_stopped, as_json=as_json, markdown=markdown)):
            result = run(space, early_stop=not no_early_stop, max_replicates=max_replicates, **given)
        print_result(result, as_json=as_json, markdown=markdown)
        if result.truncated:
            from jrh_mlflow.engine.budget import cap_advice

            advice = f"{result.truncated}. {cap_advice(result.truncated)}"
            print_lines(wrapped_line("Truncated", advice), err=True)
            click.get_current_context().exit(BudgetError.exit_code)


def _print_stopped(result: Sweep, *, as_json: bool, markdown: bool) -> None:
    """Print what was measured before a signal, and how to go on."""
    print_result(result, as_json=as_json, markdown=markdown)
    # An address may hold a password.
    has_address = any("://" in argument and "@" in argument for argument in sys.argv)
    command = [] if has_address else _command_lines(["jrh", *sys.argv[1:]])
    print_lines(["Stopped: what was measured is kept. The same command goes on.", *command], err=True)


def _command_lines(arguments: Sequence[str]) -> list[str]:
    """Write a command in lines of a screen that can be pasted together."""
    lines = [""]
    for argument in map(shlex.quote, arguments):
        if len(lines[-1]) + len(argument) > WIDTH - len("  \\"):
            lines[-1] += " \\"
            lines.append(" ")
        lines[-1] += f" {argument}" if lines[-1] else argument
    return lines


def _join(space: str, given: dict[str, Any], *, early_stop: bool, as_json: bool) -> None:
    from jrh_mlflow.sweeps.sweep import join_sweep
    from jrh_mlflow.sweeps.trials import BudgetReached

    # The parent run was named by whoever started the sweep.
    given.pop("run_name", None)
    try:
        n_trials = join_sweep(space, early_stop=early_stop, **given)
    except BudgetReached as reason:
        raise BudgetError(f"The cap of the sweep is reached: {reason}.") from reason
    click.echo(json.dumps({"n_trials": n_trials}) if as_json else f"{n_trials} trial(s) run; none is left to start.")


def _print_quote(space: str, given: dict[str, Any], *, as_json: bool) -> None:
    from jrh_mlflow.sweeps.sweep import price_sweep

    known = ("suite", "n_trials", "max_usd", "seed", "journal", "prices", "tracking_uri", "fresh_after", "metric")
    quoted = price_sweep(space, **{name: given[name] for name in known if name in given})
    if as_json:
        click.echo(json.dumps(quoted.to_dict(), indent=1))
        return
    for note in quoted.notes:
        print_lines(wrapped_line("note", note), err=True)
    click.echo(f"configurations  {quoted.configurations} of {quoted.judges} judges")
    click.echo(f"whole grid      {quoted.grid_calls} different calls: {_dollars(quoted, 'grid')}")
    click.echo(f"{quoted.n_trials} trials".ljust(16) + f"{quoted.trials_calls} calls: {_dollars(quoted, 'trials')}")
    dearest = "" if quoted.holdout_worst_usd is None else f", at most ${quoted.holdout_worst_usd:.4f}"
    click.echo(f"held-out half   {quoted.holdout_calls_each} calls for each configuration of the front{dearest}")
    if quoted.max_usd is not None and quoted.sure_usd is not None:
        _print_shares(quoted)


def _print_shares(quoted: SweepQuote) -> None:
    cap, sure = f"${quoted.max_usd:.4f}", f"${quoted.sure_usd:.4f}"
    whole = f"{quoted.covered_usually} of {quoted.configurations} configurations with both halves, about"
    click.echo(f"cap {cap}".ljust(16) + f"{whole}; {quoted.covered} for sure")
    click.echo(" " * 16 + "of it the held-out half of all that may be on the front is set aside before each trial")
    click.echo(" " * 16 + f"one configuration is sure to have an answer from {sure} on")


def _dollars(quoted: SweepQuote, what: str) -> str:
    usd, worst = getattr(quoted, f"{what}_usd"), getattr(quoted, f"{what}_worst_usd")
    return quote_text(usd, worst, unknown="dollars unknown (no price; give --price MODEL=IN,OUT)")
