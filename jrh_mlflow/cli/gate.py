"""`jrh gate`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jrh_mlflow.cli.options import Command, force_option, from_model, shown_as
from jrh_mlflow.cli.printing import print_as, print_place
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.options import RunOptions
from jrh_mlflow.outputs import check_free

if TYPE_CHECKING:
    from jrh_mlflow.decisions.gate_result import Gate

_FILE = click.Path(dir_okay=False, path_type=Path)
_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Names a file of GitHub that several steps of a job write to, each at its end."""
_FAILED = 1


@click.command(cls=Command)
@click.argument("run")
@click.option("--require", metavar="RULE", multiple=True, help="A rule, as in 'dark_current <= 0.1'; once per rule.")
@click.option(
    "--policy", type=click.Path(path_type=Path), help="YAML with require, baseline, undecided: recipes/gate.yaml."
)
@click.option("--baseline", metavar="RUN", help="The run that rules of the form 'AXIS - baseline OP NUMBER' mean.")
@click.option(
    "--undecided",
    type=click.Choice(["fail", "pass"]),
    help="Exit code of a gate that is not decided: 1 or 0. [that of the policy, else fail]",
)
@click.option("--junit", type=_FILE, help="Write JUnit XML, one test case per rule.")
@click.option(
    "--summary",
    type=_FILE,
    multiple=True,
    help=f"Write Markdown; to ${_STEP_SUMMARY} it is appended. May be repeated.",
)
@click.option("--no-log", is_flag=True, help="Print only; log no run, and leave RUN as it is.")
@from_model(RunOptions, "tracking_uri")
@force_option
@shown_as
def gate(
    run: str,
    require: tuple[str, ...],
    junit: Path | None,
    summary: tuple[Path, ...],
    no_log: bool,
    force: bool,
    as_json: bool,
    markdown: bool,
    **options: Any,
) -> None:
    """Decide whether a logged judge may go on: every rule holds, fails, or is undecided on what was measured.

    A RUN is a run id of `jrh evaluate`, runs:/<id>, or the first eight or more digits of one. Rules are AXIS OP NUMBER,
    excluded/AXIS OP NUMBER, cost/… OP NUMBER and AXIS - baseline OP NUMBER, and are decided on the 95 % interval over
    tasks. Files that an earlier gate wrote are replaced; others only with --force.

    Exit code 0: all rules hold (with --undecided pass: none fails). 1: one fails, or is undecided. 2: bad input.

    \b
    Example: jrh gate 3f2a9c01 --require "dark_current <= 0.1" --require "target_sensitivity/delta_1 >= 0.8"
             jrh gate 3f2a9c01 --policy gate.yaml --baseline b71d4e22 --junit gate.xml --summary gate.md
    """
    from jrh_mlflow.decisions.gate import gate as decide

    _check_different(junit, summary)
    for path in ([] if junit is None else [junit]) + [path for path in summary if not _is_step_summary(path)]:
        _check_output(path, force=force)
    done = decide(run, require, log=not no_log, **options)
    print_as(done, done.to_lines, as_json=as_json, markdown=markdown, notes=done.shown_notes)
    _write(done, junit=junit, summaries=summary)
    if done.link is not None:
        print_place(done.link, err=as_json)
    elif no_log:
        click.echo("Not logged, so later gates do not count this look at the judge.", err=as_json or markdown)
    if not done:
        click.get_current_context().exit(_FAILED)


def _check_different(junit: Path | None, summaries: tuple[Path, ...]) -> None:
    # They are written one after the other, and the second would replace the first.
    if junit is not None and junit.resolve() in [path.resolve() for path in summaries]:
        raise RecipeError(f"--junit and --summary are the same file, {str(junit)!r}: name two.")


def _is_step_summary(path: Path) -> bool:
    given = os.environ.get(_STEP_SUMMARY)
    return bool(given) and path.absolute() == Path(str(given)).absolute()


def _check_output(path: Path, *, force: bool) -> None:
    """Refuse a file that cannot be written, or that is not an earlier gate's, before anything is decided or logged."""
    if path.is_dir() or not path.parent.is_dir():
        raise RecipeError(f"{str(path)!r} is no file that can be written: give the name of one, in a folder that is.")
    # A device such as /dev/stdout loses nothing when it is written to.
    if path.is_file():
        check_free(path, force=force or _is_replaceable(path))


def _is_replaceable(path: Path) -> bool:
    """Whether a file is empty, or begins as those that a gate wrote: a build that is run again writes them again."""
    from jrh_mlflow.decisions.gate_result import JUNIT_NAME, MARKDOWN_HEAD

    with path.open("rb") as file:
        head = file.read(200)
    return not head or head.startswith(MARKDOWN_HEAD.encode()) or f'<testsuites name="{JUNIT_NAME}"'.encode() in head


def _write(done: Gate, *, junit: Path | None, summaries: tuple[Path, ...]) -> None:
    # After the table: it is shown even when a file cannot be written.
    if junit is not None:
        junit.write_text(done.to_junit(), encoding="utf-8")
    for path in summaries:
        # Where other steps have written, a heading needs a line of its own.
        appended = _is_step_summary(path)
        with path.open("a" if appended else "w", encoding="utf-8") as file:
            file.write(f"{chr(10) if appended else ''}{done.to_markdown()}")
