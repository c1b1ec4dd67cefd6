"""`jrh review`."""

from __future__ import annotations

import json
from typing import Any

import click

from jrh_mlflow.cli.options import as_json, store


@click.command()
@click.argument("suites", metavar="SUITE...", nargs=-1, required=True)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0 takes a free one. [0]")
@click.option("--reviewer", metavar="NAME", help="Who decides; the page asks when left out.")
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@click.option("--finish", "finishing", is_flag=True, help="Write the reviewed suite and serve nothing.")
@click.option("--allow-undecided", is_flag=True, help="With --finish: leave undecided items out.")
@click.option("--withdraw", "withdrawing", is_flag=True, help="End the review; the suite can be judged as it was made.")
@click.option("--no-log", is_flag=True, help="Do not log a finished review to MLflow.")
@store
@as_json
def review(suites: tuple[str, ...], as_json: bool, finishing: bool, withdrawing: bool, **options: Any) -> None:
    """Review generated items in the browser: accept, edit or reject each, by keyboard.

    SUITE is a folder, also one that `jrh generate` still writes to, or runs:/<id>/suite. While a suite is under review
    no judge is asked about it; the reviewed suite is written beside it as SUITE-reviewed.

    Example: jrh review suite --reviewer Ada
    """
    from jrh_mlflow.review import serve
    from jrh_mlflow.review.finish import ReviewLogger

    catalog = serve.open_catalog(suites, tracking_uri=options["tracking_uri"])
    if withdrawing:
        click.echo("\n".join(serve.withdraw(catalog)))
        return
    log = ReviewLogger(
        tracking_uri=options["tracking_uri"], experiment=options["experiment"], enabled=not options["no_log"]
    )
    who = options["reviewer"]
    if not finishing:
        serve.serve(catalog, port=options["port"], reviewer=who, browser=not options["no_browser"], log=log)
        return
    if len(suites) != 1 or not who:
        raise click.UsageError("--finish takes one suite, and --reviewer NAME.")
    result = serve.finish_now(catalog, reviewer=who, allow_undecided=options["allow_undecided"], log=log)
    click.echo(json.dumps(result, indent=1) if as_json else _result_text(result))


def _result_text(result: dict[str, Any]) -> str:
    left = ", ".join(f"{count} {state}" for state, count in result["left_out"].items())
    lines = [f"{result['path']}: {result['n_items']} items, sha256 {result['sha256']}; left out: {left}"]
    lines += [str(result[name]) for name in ("note", "link") if result.get(name)]
    return "\n".join(lines)
