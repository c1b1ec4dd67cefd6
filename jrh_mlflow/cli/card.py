"""`jrh card`."""

from __future__ import annotations

from pathlib import Path

import click

from jrh_mlflow.cli.options import as_json, force_option, from_model
from jrh_mlflow.options import RunOptions
from jrh_mlflow.outputs import check_free


@click.command()
@click.argument("run")
@click.option(
    "-o", "--output", metavar="NAME", type=click.Path(), help="Files: NAME.md, NAME.html and NAME.json. [card-RUN]"
)
@from_model(RunOptions, "tracking_uri")
@force_option
@as_json
def card(run: str, output: str | None, force: bool, as_json: bool, tracking_uri: str | None) -> None:
    """Write the card of a judge for others to read: one Markdown file, one HTML file, and the same as JSON.

    It says what was measured, when and on what, the verdict, the readings, their limits, and how to measure again. It
    holds no text of an item, no answer, no rubric and no address. Two cards of one suite are compared by
    `jrh compare one.json other.json`.

    \b
    Example: jrh card 3f2a9c01 -o cards/my_judge
             jrh compare cards/my_judge.json cards/theirs.json
    """
    from jrh_mlflow.comparing.judge_card import judge_card

    made = judge_card(run, tracking_uri=tracking_uri)
    if as_json:
        click.echo(made.to_json())
        return
    stem = output or f"card-{made.data['run']['run_id'][:8]}"
    files = {f"{stem}.md": made.to_markdown, f"{stem}.html": made.to_html, f"{stem}.json": made.to_json}
    for name in files:
        check_free(name, force=force)
    Path(stem).parent.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        Path(name).write_text(f"{text().rstrip()}\n", encoding="utf-8")
        click.echo(name)
