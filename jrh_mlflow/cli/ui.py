"""`jrh ui`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click

from jrh_mlflow.cli.options import Command


@click.command(cls=Command)
@click.argument("store", required=False)
@click.option("--port", type=click.IntRange(1, 65535), default=5000, show_default=True)
@click.option("--copy", is_flag=True, help="Serve a temporary copy and leave the folder as it is.")
def ui(store: str | None, port: int, copy: bool) -> None:
    """Open MLflow and our pages on a store: a folder with mlflow.db in it, a tracking URI, or the active store.

    Example: jrh ui mlruns_example --copy
    """
    from jrh_mlflow.tracking.mlflow_server import DATABASE, serve

    if store is not None and "://" not in store and not (Path(store) / DATABASE).is_file():
        raise click.UsageError(f"{store} is not a store: there is no {DATABASE} in it.")
    serve(store, port=port, when_started=_say_links, copy=copy)


def _say_links(address: str, process: subprocess.Popen[bytes]) -> None:
    """Print whole links to the judges, to MLflow's view of them, and to the review, as soon as they answer."""
    # Imported while the server starts, so that nobody waits for it twice.
    from jrh_mlflow.pages.server import page_links, server_token
    from jrh_mlflow.tracking.mlflow_server import wait_until_up
    from jrh_mlflow.tracking.runs.view import newest_view

    wait_until_up(f"{address}/health", process)
    judges, review = page_links(address, server_token())
    for line in (judges, f"in MLflow  {newest_view(address)}", review):
        click.echo(line, err=True)
