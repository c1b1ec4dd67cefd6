"""`jrh validate`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click

from jrh_mlflow.cli.options import as_json
from jrh_mlflow.cli.printing import print_table


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
        header = ["estimator", "design", "interval", "truth", "bias", "coverage", "verdict"]
        rows = [
            [
                check.axis,
                check.design,
                check.interval,
                f"{check.truth:.3f}",
                f"{check.bias:+.4f}",
                f"{check.coverage:.3f}",
                check.verdict,
            ]
            for check in checks
        ]
        print_table(header, rows)
        click.echo(f"\n{seeds} simulated judges per design: {validation.summary(checks)}")
    failed = [check for check in checks if check.fails]
    if failed:
        raise GateError(f"{len(failed)} interval(s) miss their promise, first {failed[0].axis}: {failed[0].verdict}.")
