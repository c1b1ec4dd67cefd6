"""`jrh validate`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click

from jrh_mlflow.cli.options import as_json
from jrh_mlflow.cli.printing import print_table

_COLUMNS = {"axis": "", "design": "", "interval": "", "truth": ".3f", "bias": "+.4f", "coverage": ".3f", "verdict": ""}
"""Field of a check to how it is printed; the axis is called its estimator."""


@click.command()
@click.option("--seeds", default=500, show_default=True, help="Simulated judges per design.")
@as_json
def validate(seeds: int, as_json: bool) -> None:
    """Test the tester: bias and coverage of every estimator on simulated judges with known rates.

    Fails (exit code 1) when a 95 % interval covers the truth less than 93 % or more than 97.5 % of the time, beyond
    what the number of seeds explains; where an interval is conservative by design, the table says why.

    Example: jrh validate --seeds 200
    """
    from tqdm import tqdm

    from jrh_mlflow.errors import GateError
    from jrh_mlflow.evaluation import validate as validation

    if seeds < 20:
        raise click.UsageError("--seeds must be at least 20: coverage from fewer says nothing.")
    with tqdm(total=2 * seeds, unit="judge", disable=not sys.stderr.isatty()) as bar:
        checks = validation.validate(n_seeds=seeds, on_seed=bar.update)
    if as_json:
        click.echo(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        rows = [[format(getattr(check, name), how) for name, how in _COLUMNS.items()] for check in checks]
        print_table(["estimator", *list(_COLUMNS)[1:]], rows)
        click.echo(f"\n{seeds} simulated judges per design: {validation.summary(checks)}")
    failed = [check for check in checks if check.fails]
    if failed:
        raise GateError(f"{len(failed)} interval(s) miss their promise, first {failed[0].axis}: {failed[0].verdict}.")
