"""`jrh align`."""

from __future__ import annotations

from typing import Any

import click

from jrh_mlflow.cli.options import Command, own_run, read_scale, shown_as
from jrh_mlflow.cli.printing import print_lines, print_result
from jrh_mlflow.errors import TrackingError


@click.command(cls=Command)
@click.argument("judge")
@click.option("--traces", required=True, metavar="traces:/EXPERIMENT", help="Traces with people's feedback on them.")
@click.option(
    "--optimizer",
    default="memalign",
    show_default=True,
    metavar="NAME|module:object",
    help="simba, gepa or memalign of MLflow's (they need DSPy), or one of your own, with a model of its own.",
)
@click.option(
    "--scale",
    metavar="LOW,…,HIGH",
    callback=read_scale,
    help="Labels from low to high; numeric, or 0-100, for numbers: kappas are given beside.",
)
@click.option("--no-suite", is_flag=True, help="Leave out the reformatted traces, which cost up to 60 calls a judge.")
@click.option("--register", metavar="NAME", help="Register the judge with the experiment, unless it is sent back.")
@click.option("--max-traces", type=click.IntRange(1), help="The newest so many.")
@click.option("--concurrency", type=click.IntRange(1), default=8, show_default=True, help="Most calls at a time.")
@own_run
@shown_as
def align(
    judge: str,
    traces: str,
    tracking_uri: str | None,
    register: str | None,
    no_suite: bool,
    no_log: bool,
    as_json: bool,
    markdown: bool,
    **options: Any,
) -> None:
    """Align a judge with people's labels on some traces, and prove on the others that it helped.

    JUDGE is module:object, file.py:object, or the name of a judge registered with the experiment. People's labels are
    feedback of source type HUMAN under the judge's name. Printed is the decision: better, not worse, or sent back; all
    three end with exit code 0, the judge being returned in the first two only. What can be decided with so few traces
    is said before anything is paid.

    \b
    Example: jrh align judges.py:polite --traces traces:/support --optimizer simba --register polite
             jrh align polite --traces traces:/support --optimizer my_package:optimizer
    """
    from jrh_mlflow.people.alignment.align import align as run
    from jrh_mlflow.people.alignment.align import register_aligned

    where: dict[str, Any] = {"traces": traces, "tracking_uri": tracking_uri}
    options |= {"suite": None if no_suite else "short", "log": not no_log, "register": register is not None}
    result = run(judge, **where, **options)
    print_result(result, as_json=as_json, markdown=markdown)
    if register and result.returned:
        try:
            register_aligned(result, register, **where)
        except TrackingError:
            # Without a run nothing else holds the instructions, and they were paid for.
            if result.run_id is None:
                print_lines(["", "Instructions of the aligned judge:", str(result.judge.instructions)])
            raise
        # With --json standard output holds data alone.
        click.echo(f"registered: {register}", err=as_json)
    elif register:
        click.echo("Not registered: it was sent back.", err=as_json)
