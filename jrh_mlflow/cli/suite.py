"""`jrh suite`."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import click

from jrh_mlflow.cli.options import as_json, read_pairs
from jrh_mlflow.cli.printing import print_table


@click.group()
def suite() -> None:
    """Build, check and show suites and tasks.

    Example: jrh suite build --half-steps -o my_suite
    """


@suite.command()
@click.option("-o", "--output", required=True, type=click.Path(), help="Folder to write.")
@click.option("--n-tasks", type=click.IntRange(1), default=10, show_default=True)
@click.option("--depth", type=click.IntRange(1), default=5, show_default=True, help="Requirements per task.")
@click.option("--half-steps", is_flag=True, help="Also pairs half a step apart.")
@click.option("--seed", default=0, show_default=True)
@click.option("--tasks", type=click.Path(), help="Your own tasks: a YAML file or a folder of them.")
@click.option("--name", help="Of the suite.")
def build(output: str, **options: Any) -> None:
    """Build a datasheet suite, from the package's tasks or your own.

    Example: jrh suite build --tasks my_tasks/ --n-tasks 4 -o my_suite
    """
    from jrh_mlflow.suites import datasheet_suite

    built = datasheet_suite(**options)
    built.save(output)
    click.echo(f"{built.name}: {len(built)} items, sha256 {built.sha256}, in {output}")


@suite.command("from-pairs")
@click.argument("file", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="Folder to write.")
@click.option(
    "--map", "pairs", multiple=True, metavar="ROLE=COLUMN", help="instruction, first, second, better, id, task."
)
@click.option("--first", default="1", show_default=True, help="How the file says that the first response is better.")
@click.option("--second", default="2", show_default=True)
@click.option("--name", default="natural", show_default=True)
def from_pairs(file: str, output: str, pairs: tuple[str, ...], first: str, second: str, name: str) -> None:
    """Build a suite of natural pairs: real responses with a known better side.

    Example: jrh suite from-pairs pairs.csv --map instruction=input --map better=label -o my_pairs
    """
    from jrh_mlflow.suites import natural_suite
    from jrh_mlflow.suites.dataset import read_table

    columns = read_pairs(pairs)
    built = natural_suite(read_table(file), columns=columns, better_values=(first, second), name=name)
    built.save(output)
    click.echo(f"{built.name}: {len(built)} pairs, sha256 {built.sha256}, in {output}")


@suite.command()
@click.argument("path_or_uri")
@as_json
def show(path_or_uri: str, as_json: bool) -> None:
    """Check a suite (hash and every validity gate) and say what is in it.

    Example: jrh suite show datasheet
    """
    from jrh_mlflow.resolve import load_suite

    manifest = load_suite(path_or_uri).manifest
    if as_json:
        click.echo(json.dumps(manifest, indent=1, ensure_ascii=False))
        return
    for key in ("name", "sha256", "n_items", "n_calls", "n_tasks"):
        click.echo(f"{key:10s} {manifest[key]}")
    print_table(["condition", "items"], [[name, str(count)] for name, count in manifest["conditions"].items()])


@suite.command("export-inspect")
@click.argument("path_or_uri", metavar="SUITE")
@click.option("--log", "logs", multiple=True, required=True, type=click.Path(), help="Where the originals lie.")
@click.option("-o", "--output", required=True, type=click.Path(), help="Log to write: .eval or .json.")
def export_inspect(path_or_uri: str, logs: tuple[str, ...], output: str) -> None:
    """Write a suite's edited transcripts as an Inspect log, for inspect_ai's own reader and viewer.

    Example: jrh suite export-inspect my_suite --log original.eval -o edited.eval
    """
    from jrh_mlflow.resolve import load_suite
    from jrh_mlflow.suites.transcripts.inspect_export import export_inspect as write

    edits = write(load_suite(path_or_uri), logs, output)
    n_messages = sum(len(edit.places) for edit in edits)
    click.echo(f"{len(edits)} edited transcripts with {n_messages} edited messages in {output}")
    click.echo(f"inspect view start --log-dir {Path(output).resolve().parent}")


@suite.command()
@click.option("--example", is_flag=True, help="Print one whole task as YAML, to start your own from.")
def tasks(example: bool) -> None:
    """List the package's ladder tasks.

    Example: jrh suite tasks --example > my_task.yaml
    """
    from jrh_mlflow.suites.tasks import built_in_tasks

    if example:
        file = resources.files("jrh_mlflow.suites").joinpath("tasks/support_reply.yaml")
        click.echo(file.read_text(encoding="utf-8"), nl=False)
        return
    print_table(["task", "about"], [[task.id, task.title] for task in built_in_tasks()], left=2)
