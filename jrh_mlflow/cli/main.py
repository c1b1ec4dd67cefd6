"""The command group; each command's module is imported when it is run, so `jrh --help` is quick."""

from __future__ import annotations

import io
import logging
import os
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TextIO

import click

from jrh_mlflow.errors import JrhError, JrhWarning, RecipeError, demand_posix, suggest
from jrh_mlflow.text import REPLACEMENT, blank_secrets

GROUPS = {
    "Measure a judge": {
        "evaluate": ("evaluate", "Measure one judge and log it as an MLflow run."),
        "prompt": ("prompt", "Show the exact request of an item, or ask about three items."),
        "shift": ("evaluate", "Measure one judge under several tie criteria."),
        "attack": ("attack", "Search for texts that make a worse answer win, and read them held out."),
        "replay": ("replay", "Measure judgments that another tool recorded, with no call."),
        "batch": ("batch", "Ask through batch files: export what is missing, import results."),
    },
    "Compare judges": {
        "compare": ("compare", "Compare logged judges on one suite or several, or let them vote."),
        "self-preference": ("self_preference", "Say whether judges let their own answers win."),
        "sweep": ("sweep", "Search prompts and models: reliability against cost."),
        "repair": ("repair", "Try what may mend a judge's problems, and prove what does."),
    },
    "Decide": {
        "gate": ("gate", "Decide by rules about a logged judge, with an exit code for CI."),
        "plan": ("plan", "Say how many calls or labels are needed, before you pay."),
        "watch": ("watch", "Say whether a judge is still the one that was measured."),
    },
    "Work with people's labels": {
        "agree": ("agree", "Measure how well a judge agrees with people, or draw items to label."),
        "correct": ("correct", "Estimate the true pass rate behind a judge's."),
        "align": ("align", "Align a judge with people's labels, and prove that it helped."),
    },
    "Make suites": {
        "generate": ("generate", "Make a reliability suite from labelled responses."),
        "respond": ("respond", "Have models answer a column of prompts."),
        "review": ("review", "Review generated items in the browser."),
        "suite": ("suite", "Build, check and show suites and tasks."),
    },
    "Look": {
        "ui": ("ui", "Open the MLflow UI on a store."),
        "demo": ("demo", "Measure judges that need no key, and print what they read."),
    },
    "The rest": {
        "journal": ("journal", "Show what the journal of paid answers holds, or prune it."),
    },
}
"""All commands by what people want, with their module and their line of help."""
COMMANDS = {name: entry for commands in GROUPS.values() for name, entry in commands.items()}
MOST_USED = ("evaluate", "compare", "sweep", "gate", "generate", "review", "agree", "watch", "ui", "demo")
"""What `jrh --help` lists."""


@click.command("help")
@click.argument("names", metavar="[all|COMMAND]", nargs=-1)
@click.pass_context
def show_help(context: click.Context, names: tuple[str, ...]) -> None:
    """Show all commands, or the help of one.

    \b
    Example: jrh help all
             jrh help suite build
    """
    parent = context.parent
    assert parent is not None
    if names == ("all",):
        formatter = parent.make_formatter()
        _list_groups(formatter, GROUPS)
        click.echo(formatter.getvalue().strip())
        return
    command: click.Command = group
    for name in names:
        found = command.get_command(parent, name) if isinstance(command, click.Group) else None
        if found is None:
            raise click.UsageError(f"Unknown command {name!r}.{suggest(name, COMMANDS)} `jrh help all` lists them.")
        command = found
        parent = click.Context(command, info_name=name, parent=parent)
    click.echo(command.get_help(parent))


def _list_groups(formatter: click.HelpFormatter, groups: Mapping[str, Mapping[str, tuple[str, str]]]) -> None:
    """List commands by group from their one-line help, importing none of them."""
    widest = max(len(name) for commands in groups.values() for name in commands)
    for title, commands in groups.items():
        with formatter.section(title):
            formatter.write_dl([(name.ljust(widest), text) for name, (_, text) in commands.items()])


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "help":
            return show_help
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"jrh_mlflow.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands that are used most."""
        _list_groups(formatter, {"Commands": {name: COMMANDS[name] for name in MOST_USED}})
        formatter.write_paragraph()
        formatter.write_text(f"`jrh help all` shows all {len(COMMANDS)} commands, `jrh help COMMAND` what one takes.")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in (*COMMANDS, "help") and not args[0].startswith("-"):
            raise click.UsageError(f"Unknown command {args[0]!r}.{suggest(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="jrh-mlflow", prog_name="jrh")
@click.option("--env-file", metavar="FILE", help="Keys and settings as NAME=VALUE lines, in place of ./.env.")
@click.pass_context
def group(context: click.Context, env_file: str | None) -> None:
    """Measure LLM judges before trusting them, inside MLflow.

    Keys are taken from the environment and from .env in the working folder (JRH_NO_DOTENV=1: not from there); what is
    set in the environment counts. Of .env only keys, addresses and a few settings are read, of --env-file everything.

    Example: jrh demo

    Exit codes: 0 done, 1 gate failed, 2 bad input, 3 stopped by budget, 4 judge or service failed, 130 Ctrl-C.
    """
    load_environment(env_file)
    from jrh_mlflow.cli.options import why_no_code
    from jrh_mlflow.yaml_files import code_refused

    context.with_resource(code_refused(why_no_code))


def main() -> None:
    """Run the command line."""
    _only_notes()
    try:
        _run()
    finally:
        for stream in (sys.stdout, sys.stderr):
            _flush(stream)


def _only_notes() -> None:
    """Print what this package has to say beside its results as `note: …`, and of libraries only warnings of MLflow."""
    # MLflow reads it when it is imported: what it tells in passing is not what was asked for.
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    handler = logging.StreamHandler()
    handler.setFormatter(_Note())
    ours = logging.getLogger("jrh_mlflow")
    ours.addHandler(handler)
    # A handler that a library puts on the root logger would print each note a second time.
    ours.propagate = False
    # Whoever has no handler of his own would be printed by Python itself.
    logging.getLogger().addHandler(logging.NullHandler())
    # Whoever sets one of these wants to see the warnings of libraries too.
    if not sys.warnoptions and "PYTHONWARNINGS" not in os.environ:
        warnings.showwarning = _note_of_warning


class _Note(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return one line, whatever a service has written into it."""
        return _note(record.getMessage())


def _note(text: str) -> str:
    return f"note: {blank_secrets(_one_line(text))}"


def _one_line(text: str) -> str:
    """Put a text on one line, with nothing in it that moves a cursor."""
    return "".join(letter if letter.isprintable() else REPLACEMENT for letter in " ".join(text.split()))


def _note_of_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    if issubclass(category, JrhWarning):
        _tell(_note(str(message)))


def _flush(stream: TextIO) -> None:
    """Write what is left; a terminal that is gone must not change the exit code."""
    try:
        stream.flush()
    except OSError:
        # Python flushes again at its exit, and would fail there once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _tell(text: str) -> None:
    with suppress(OSError):
        click.echo(text, err=True)


def _run() -> None:
    try:
        demand_posix()
        code = group(standalone_mode=False)
        # Without its standalone mode click returns the code of `Context.exit`.
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _tell("Stopped: what was answered is kept; the same command continues.")
        sys.exit(130)
    except JrhError as error:
        _tell(f"jrh: {_one_line(str(error))}")
        sys.exit(error.exit_code)
    except OSError as error:
        # A folder that cannot be written to, a full disk: nothing that a traceback explains better.
        _tell(f"jrh: {error}.")
        sys.exit(JrhError.exit_code)


DEFAULT_FILE = ".env"
SWITCH = "JRH_NO_DOTENV"
"""Set to anything but 0 it has no `.env` read that was not named."""


def load_environment(file: str | None) -> None:
    """Add the variables of a file, or those that `.env` in the working folder may set, that are not set already.

    Raises:
        RecipeError: when a file that was named is not there, or one is no list of NAME=VALUE lines in UTF-8. What it
            holds is never repeated: it may be a key.
    """
    # litellm would read the first .env above its own folder, whatever is said here.
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    if file is None and (os.environ.get(SWITCH, "0") not in ("", "0") or not Path(DEFAULT_FILE).is_file()):
        return
    # A folder's own file repeats nothing of the environment: its `${GITHUB_PAT}` could stand in an address.
    values = _read(Path(file or DEFAULT_FILE), {} if file is None else os.environ)
    if file is None:
        from jrh_mlflow.models.trust import take_dotenv

        # Whoever clones a folder has not read what lies in it.
        take_dotenv(values, DEFAULT_FILE)
        return
    for name, value in values.items():
        os.environ.setdefault(name, value)


def _read(path: Path, outside: Mapping[str, str]) -> dict[str, str]:
    from dotenv.parser import parse_stream
    from dotenv.variables import parse_variables

    switch = "" if str(path) != DEFAULT_FILE else f" Mend it, or leave it unread with {SWITCH}=1."
    try:
        # Editors on Windows begin a file with a mark that would become part of the first name.
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path} is not UTF-8 at byte {error.start}.{switch}") from None
    except OSError as error:
        raise RecipeError(f"The environment file {path} cannot be read: {error.strerror}.{switch}") from error
    read: dict[str, str] = {}
    for binding in parse_stream(io.StringIO(text)):
        if binding.error or "\0" in (binding.value or ""):
            # A binding begins with the blank lines before it.
            blank = len(binding.original.string) - len(binding.original.string.lstrip())
            line = binding.original.line + binding.original.string[:blank].count("\n")
            raise RecipeError(f"{path}, line {line} is not NAME=VALUE.{switch}")
        # A name without `=` has no value, and sets nothing.
        if binding.key is not None and binding.value is not None:
            parts = parse_variables(binding.value)
            read[binding.key] = "".join(part.resolve({**outside, **read}) for part in parts)
    return read
