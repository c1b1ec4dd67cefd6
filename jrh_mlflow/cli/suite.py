"""`jrh suite`."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jrh_mlflow.cli.options import CommandGroup, as_json, force_option, pairs_option, store, table_option
from jrh_mlflow.cli.printing import print_lines, print_table, save_table
from jrh_mlflow.cli.tests import tests
from jrh_mlflow.outputs import check_free

if TYPE_CHECKING:
    from jrh_mlflow.measuring.suite_audit import SuiteAudit


@click.group(cls=CommandGroup)
def suite() -> None:
    """Build, check, audit and show suites and tasks.

    Example: jrh suite build -o my_suite
    """


suite.add_command(tests)


@suite.command()
@click.option("-o", "--output", required=True, type=click.Path(), help="Folder to write.")
@click.option("--n-tasks", type=click.IntRange(1), help="All of them when left out.")
@click.option("--depth", type=click.IntRange(1), default=5, show_default=True, help="Requirements per task.")
@click.option(
    "--language",
    type=click.Choice(["en", "de", "es", "zh"]),
    default="en",
    show_default=True,
    help="Of the package's tasks: all of them in English, twelve of them in German, Spanish and Chinese.",
)
@click.option("--seed", default=0, show_default=True)
@click.option("--tasks", type=click.Path(), help="Your own tasks: a YAML file or a folder of them.")
@click.option("--name", help="Of the suite.")
@force_option
def build(output: str, force: bool, **options: Any) -> None:
    """Build a datasheet suite, from the package's tasks or your own.

    Example: jrh suite build --tasks my_tasks/ --n-tasks 4 -o my_suite
    """
    from jrh_mlflow.suites import datasheet_suite
    from jrh_mlflow.suites.suite import save_suite

    built = datasheet_suite(**options)
    save_suite(built, output, force=force)
    print_lines([f"{built.name}: {len(built)} items, sha256 {built.sha256}, in {output}"])
    if "checked" in built.origin:
        print_lines([f"Its tasks ({built.origin['language']}) are {built.origin['checked']}."])


@suite.command("from-pairs")
@click.argument("file", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="Folder to write.")
@pairs_option("--map", "columns", "ROLE=COLUMN", help="instruction, first, second, better, id, task, group.")
@click.option("--first", default="1", show_default=True, help="How the file says that the first response is better.")
@click.option("--second", default="2", show_default=True)
@click.option("--tie", multiple=True, default=("tie",), show_default=True, help="How it says that both are equal.")
@click.option("--name", default="natural", show_default=True)
@force_option
def from_pairs(
    file: str, output: str, columns: dict[str, str], first: str, second: str, tie: tuple[str, ...], **more: Any
) -> None:
    """Build a suite of natural pairs: real responses with a side that people prefer, or called equal by them.

    Example: jrh suite from-pairs pairs.csv --map instruction=input --map better=label -o my_pairs
    """
    from jrh_mlflow.suites import natural_suite
    from jrh_mlflow.suites.dataset import read_table
    from jrh_mlflow.suites.suite import save_suite

    frame, sides = read_table(file), (first, second)
    built = natural_suite(frame, columns=columns, better_values=sides, tie_values=tie, name=more["name"])
    save_suite(built, output, force=more["force"])
    print_lines([f"{built.name}: {len(built)} pairs, sha256 {built.sha256}, in {output}"])


@suite.command()
@click.argument("path_or_uri", metavar="SUITE")
@click.option("--name", required=True, help="Of the dataset: letters, digits, spaces, _, - and .")
@store
@as_json
def dataset(path_or_uri: str, name: str, experiment: str | None, tracking_uri: str | None, as_json: bool) -> None:
    """Write a suite as an evaluation dataset of MLflow: one record per presentation, for mlflow.genai.evaluate.

    datasets:/NAME is then taken wherever a suite is, and gives the same hash. What the dataset holds already is no new
    version; another suite is the next one, and datasets:/NAME@1 still gives the first.

    Example: jrh suite dataset my_suite --name my-pairs
    """
    from jrh_mlflow.exporting.registries import written_dataset

    done = written_dataset(path_or_uri, name, experiment=experiment, tracking_uri=tracking_uri)
    if as_json:
        click.echo(json.dumps({"uri": done.uri, **asdict(done)}, indent=1))
        return
    there = "written" if done.is_new else "there already"
    click.echo(f"{done.uri}: {done.n_records:,} records, {there}")


@suite.command()
@click.argument("path_or_uri")
@table_option("its items")
@force_option
@as_json
def show(path_or_uri: str, table: str | None, force: bool, as_json: bool) -> None:
    """Check a suite (hash and every validity gate) and say what is in it.

    Example: jrh suite show datasheet --table items.xlsx
    """
    from jrh_mlflow.measuring.resolve import load_suite
    from jrh_mlflow.suites.spreadsheets import items_frame

    shown = load_suite(path_or_uri)
    save_table(items_frame(shown.items), table, force=force)
    manifest = shown.manifest
    if as_json:
        click.echo(json.dumps(manifest, indent=1, ensure_ascii=False))
        return
    print_lines(f"{key:10s} {manifest[key]}" for key in ("name", "sha256", "n_items", "n_calls", "n_tasks"))
    spoken = [key for key in ("language", "checked") if key in shown.origin]
    print_lines(f"{key:10s} {shown.origin[key]}" for key in spoken)
    print_table(["condition", "items"], [[name, str(count)] for name, count in manifest["conditions"].items()])


@suite.command()
@click.argument("path_or_uri", metavar="SUITE")
@click.option(
    "--condition",
    "conditions",
    multiple=True,
    help="Where no shortcut may pay, instead of the matched ladder; may be repeated.",
)
@click.option("--seed", default=0, show_default=True, help="Of the coin between equal scores.")
@as_json
def audit(path_or_uri: str, conditions: tuple[str, ...], seed: int, as_json: bool) -> None:
    """Show what judges that only count (words of the instruction, digits, length) read on a suite of pairs.

    Each runs in both directions over the pairs with a better content. Fails (exit code 1) when on the matched ladder
    an interval by task lies wholly outside 0.40-0.60, and names the pairs and sentences that give it away most.

    Example: jrh suite audit my_suite
    """
    from jrh_mlflow.errors import GateError
    from jrh_mlflow.measuring.resolve import load_suite
    from jrh_mlflow.measuring.suite_audit import HIGH, LOW, audit_suite
    from jrh_mlflow.show.numbers import number_text

    done = audit_suite(load_suite(path_or_uri), conditions=conditions or None, seed=seed)
    if as_json:
        click.echo(json.dumps(done.to_dict(), indent=1, ensure_ascii=False))
    else:
        _print_audit(done)
    if done.failed:
        first = done.failed[0]
        raise GateError(
            f"{len(done.failed)} reading(s) of shortcuts lie outside {LOW:.2f}-{HIGH:.2f}, "
            f"first {first.shortcut} ({first.direction}) on {first.condition}: {number_text(first.estimate.value)}."
        )


def _print_audit(done: SuiteAudit) -> None:
    from jrh_mlflow.measuring.suite_audit import HIGH, LOW
    from jrh_mlflow.show.numbers import with_interval

    cells: dict[tuple[str, str], list[str]] = {}
    for reading in done.readings:
        # Two blanks keep numbers with and without the mark below one another.
        mark = " !" if reading.fails else "  " if reading.judged else ""
        cells.setdefault((reading.shortcut, reading.direction), []).append(with_interval(reading.estimate) + mark)
    rows = [[*shortcut, *columns] for shortcut, columns in cells.items()]
    print_table(["shortcut", "prefers", *done.conditions], rows, left=2)
    lines = ["", f"Share of pairs of {done.suite} in which the better content is preferred; intervals by task."]
    for giveaway in done.giveaways:
        lines += ["", f"{giveaway.shortcut} ({giveaway.direction}) pays on {giveaway.condition}. Most in the pairs"]
        lines.append(f"  {', '.join(f'{pair.item} (by {pair.margin:.3g})' for pair in giveaway.pairs)}")
        for place in giveaway.sentences:
            lines.append(f"  {place.task}: {place.share:.1%} of what it wins, in {place.n_pairs} pair(s)")
            lines += [f"    better: {place.better or '(nothing)'}", f"    worse:  {place.worse or '(nothing)'}"]
    print_lines(lines)
    if not done.judged:
        click.echo("There is no matched ladder in it: nothing is judged. --condition NAME judges another one.")
    elif not done.failed:
        click.echo(f"No interval lies wholly outside {LOW:.2f}-{HIGH:.2f} on {', '.join(done.judged)}.")


@suite.command("export-inspect")
@click.argument("path_or_uri", metavar="SUITE")
@click.option("--log", "logs", multiple=True, required=True, type=click.Path(), help="Where the originals lie.")
@click.option("-o", "--output", required=True, type=click.Path(), help="Log to write: .eval or .json.")
@force_option
def export_inspect(path_or_uri: str, logs: tuple[str, ...], output: str, force: bool) -> None:
    """Write a suite's edited transcripts as an Inspect log, for inspect_ai's own reader and viewer.

    Example: jrh suite export-inspect my_suite --log original.eval -o edited.eval
    """
    from jrh_mlflow.measuring.resolve import load_suite
    from jrh_mlflow.suites.transcripts.inspect_export import export_inspect as write

    # Refused first: reading the originals may take a while.
    check_free(output, force=force)
    edits = write(load_suite(path_or_uri), logs, output)
    n_messages = sum(len(edit.places) for edit in edits)
    click.echo(f"{len(edits)} edited transcripts with {n_messages} edited messages in {output}")
    click.echo(f"inspect view start --log-dir {Path(output).resolve().parent}")


@suite.command()
@click.option("--example", is_flag=True, help="Print one whole task as YAML, to start your own from.")
@click.option("--language", type=click.Choice(["en", "de", "es", "zh"]), default="en", show_default=True)
def tasks(example: bool, language: str) -> None:
    """List the package's ladder tasks.

    Example: jrh suite tasks --example > my_task.yaml
    """
    from jrh_mlflow.suites.tasks import built_in_tasks

    if example:
        file = resources.files("jrh_mlflow.suites").joinpath("tasks/support_reply.yaml")
        # The file has its own last line break, and is written to a file as it is.
        click.echo(file.read_text(encoding="utf-8"), nl=False)
        return
    print_table(["task", "about"], [[task.id, task.title] for task in built_in_tasks(language)], left=2)
