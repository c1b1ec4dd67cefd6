"""`jrh respond`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from jrh_mlflow.cli.options import (
    Command,
    as_json,
    asked_run,
    extra_fields,
    force_option,
    from_model,
    pairs_option,
    typed_options,
)
from jrh_mlflow.cli.printing import print_quotes
from jrh_mlflow.errors import check_known
from jrh_mlflow.options import AskedRunOptions, JudgeOptions

_RESPONDER = ("prompt", "id", "system", "temperature", "max_tokens", "api_base", "extra")


@click.command(cls=Command)
@click.argument("prompts", type=click.Path(exists=True))
@click.option(
    "--model", "models", multiple=True, required=True, metavar="NAME", help="Who answers; several times for several."
)
@click.option("-o", "--output", type=click.Path(), help="Table to write: .jsonl, .csv or .xlsx.")
@pairs_option("--map", "columns", "ROLE=COLUMN", help="Your names of the columns prompt and id (else a hash).")
@click.option("--system", help="System message before each prompt.")
@from_model(JudgeOptions, "temperature", "max_tokens", "api_base")
@click.option("--extra", multiple=True, metavar="KEY=JSON", help="More fields of the request.")
@asked_run
@click.option("--export", "export_to", type=click.Path(), metavar="FILE", help="Write batch files in place of asking.")
@force_option
@as_json
def respond(
    prompts: str,
    models: tuple[str, ...],
    columns: dict[str, str],
    output: str | None,
    extra: tuple[str, ...],
    dry_run: bool,
    export_to: str | None,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Have one or several models answer a column of prompts.

    Writes a row per prompt and model: id, prompt, response, author, outcome, tokens and dollars. It writes no label:
    people or `jrh generate --labeller` give them. Run it again and only what failed is asked again.

    \b
    Example: jrh respond prompts.csv --model openai/gpt-4o-mini --max-usd 2 -o answers.jsonl
             jrh respond prompts.csv --model openai/gpt-4o-mini --export requests.jsonl
    """
    from jrh_mlflow.generation.respond import counts_of, prepare_responding
    from jrh_mlflow.generation.respond import respond as run
    from jrh_mlflow.suites.spreadsheets import checked_output, write_table

    for role in columns:
        check_known("role of --map", role, ("prompt", "id"))
    given = typed_options(options, models[0]) | columns | {"extra": extra_fields(extra) or None}
    if dry_run or export_to:
        of_judge = {name: given.pop(name) for name in _RESPONDER if name in given}
        responding = prepare_responding(prompts, models, AskedRunOptions.checked(given), **of_judge)
        if dry_run:
            print_quotes(responding.quote(), as_json=as_json)
            return
        written = responding.export(str(export_to), force=force)
        if as_json:
            click.echo(json.dumps({author: asdict(each) for author, each in written.items()}, indent=1, default=str))
            return
        for author, each in written.items():
            files = ", ".join(map(str, each.files)) or "no file: nothing is missing"
            click.echo(f"{author}: {each.requests} requests in {files}")
        return
    if output is not None:
        output = str(checked_output(output, force=force))
    answers = run(prompts, models, **given)
    if output is not None:
        for note in write_table(answers, output, force=force):
            click.echo(note, err=True)
    if as_json:
        click.echo(answers.to_json(orient="records", indent=1))
        return
    click.echo(counts_of(answers).to_text())
    click.echo(f"Written to {output}." if output else "Give -o FILE to write the answers; the MLflow run has them too.")
