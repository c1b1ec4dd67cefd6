"""`jrh ui`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("store", required=False)
@click.option("--port", type=click.IntRange(1, 65535), default=5000, show_default=True)
@click.option("--copy", is_flag=True, help="Serve a temporary copy and leave the folder as it is.")
def ui(store: str | None, port: int, copy: bool) -> None:
    """Open the MLflow UI on a store: a folder with mlflow.db in it, a tracking URI, or the active store.

    Example: jrh ui mlruns_example --copy
    """
    from jrh_mlflow.tracking.mlflow_server import DATABASE, serve

    if store is not None and "://" not in store and not (Path(store) / DATABASE).is_file():
        raise click.UsageError(f"{store} is not a store: there is no {DATABASE} in it.")
    serve(store, port=port, copy=copy)
