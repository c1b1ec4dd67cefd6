"""`jrh status`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from jrh_mlflow.cli.options import as_json, store
from jrh_mlflow.cli.printing import print_lines

if TYPE_CHECKING:
    from jrh_mlflow.exporting.status import Status

_NOT_MEASURED = 1


@click.command()
@click.argument("what", metavar="SCORER|RUN")
@click.option("--check", is_flag=True, help="Exit with 1 unless it is measured, for CI.")
@store
@as_json
def status(what: str, check: bool, experiment: str | None, tracking_uri: str | None, as_json: bool) -> None:
    """Say whether a judge is the one that was measured, has changed since, or was never measured.

    A SCORER is scorers:/NAME, scorers:/NAME@VERSION or the bare name of one that is registered at MLflow; a RUN is a
    run id of `jrh evaluate`, `jrh compare --jury` or `jrh sweep` (its best one), runs:/<id>, or the first eight
    or more digits of one. A stale judge differs in its prompt, its model, its version, its settings, or in the model
    that answers; a drifted one answers otherwise, as `jrh watch` has seen.

    \b
    Example: jrh status scorers:/helpful
             jrh status 3f2a9c01 --check
    """
    from jrh_mlflow.exporting.status import status as find

    judge = find(what, experiment=experiment, tracking_uri=tracking_uri)
    if as_json:
        click.echo(json.dumps(judge.to_dict(), indent=1, ensure_ascii=False))
    else:
        print_lines(_lines(judge))
    if check and not judge:
        click.get_current_context().exit(_NOT_MEASURED)


def _lines(judge: Status) -> list[str]:
    """Return the state, what differs, where the datasheet is, and what measures the judge."""
    from jrh_mlflow.show.plain_text import plain

    lines = [plain(f"{judge.name}: {judge.reason}")]
    lines += [f"  {plain(str(difference))}" for difference in judge.differs]
    lines += [f"datasheet: {judge.link}"] if judge.link else []
    return lines if judge else [*lines, f"measure it: {plain(judge.measure)}"]
