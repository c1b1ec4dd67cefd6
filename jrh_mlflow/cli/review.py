"""`jrh review`."""

from __future__ import annotations

import json
from typing import Any

import click

from jrh_mlflow.cli.options import Command, as_json, store


@click.command(cls=Command)
@click.argument("suites", metavar="SUITE...", nargs=-1, required=True)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0 takes a free one. [0]")
@click.option("--reviewer", metavar="NAME", help="Who decides; the page asks when left out.")
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@click.option("--reviewers", metavar="NAMES", help="Assign the items: Ada,Bob or, by share, Ada=2,Bob=1.")
@click.option("--overlap", type=click.FloatRange(0, 1), help="With --reviewers: share that two decide. [0]")
@click.option("--seed", type=click.IntRange(0), help="With --reviewers: which items are whose. [0]")
@click.option("--status", "telling", is_flag=True, help="Print how far the review and each reviewer is; serve nothing.")
@click.option("--finish", "finishing", is_flag=True, help="Write the reviewed suite and serve nothing.")
@click.option("--allow-undecided", is_flag=True, help="With --finish: leave undecided items out.")
@click.option("--withdraw", "withdrawing", is_flag=True, help="End the review; the suite can be judged as it was made.")
@click.option("--no-log", is_flag=True, help="Do not log a finished review to MLflow.")
@store
@as_json
def review(
    suites: tuple[str, ...], as_json: bool, finishing: bool, withdrawing: bool, telling: bool, **options: Any
) -> None:
    """Review generated items in the browser: accept, edit or reject each, by keyboard.

    SUITE is a folder, also one that `jrh generate` still writes to, or runs:/<id>/suite. While a suite is under review
    no judge is asked about it; the reviewed suite is written beside it as SUITE-reviewed.

    Example: jrh review suite --reviewer Ada
    """
    from jrh_mlflow.review.assignment import assign_now, review_status
    from jrh_mlflow.review.contents import open_catalog
    from jrh_mlflow.review.finish import ReviewLogger, finish_now, withdraw

    catalog = open_catalog(suites, tracking_uri=options["tracking_uri"])
    if withdrawing:
        click.echo("\n".join(withdraw(catalog)))
        return
    who, reviewers = options["reviewer"], options["reviewers"]
    if reviewers is None and (options["overlap"] is not None or options["seed"] is not None):
        raise click.UsageError("--overlap and --seed go with --reviewers NAMES.")
    if reviewers is not None:
        overlap, seed = options["overlap"] or 0.0, options["seed"] or 0
        assign_now(catalog, reviewers=reviewers, overlap=overlap, seed=seed, who=who)
    if telling:
        rows = review_status(catalog)
        click.echo(json.dumps(rows, indent=1) if as_json else "\n".join(map(_status_text, rows)))
        return
    log = ReviewLogger(
        tracking_uri=options["tracking_uri"], experiment=options["experiment"], enabled=not options["no_log"]
    )
    if not finishing:
        # The server's libraries take a while to load, and only this way needs them.
        from jrh_mlflow.review.app import serve_review

        serve_review(catalog, port=options["port"], reviewer=who, browser=not options["no_browser"], log=log)
        return
    if len(suites) != 1 or not who:
        raise click.UsageError("--finish takes one suite, and --reviewer NAME.")
    result = finish_now(catalog, reviewer=who, allow_undecided=options["allow_undecided"], log=log)
    click.echo(json.dumps(result, indent=1) if as_json else _result_text(result))


def _result_text(result: dict[str, Any]) -> str:
    left = ", ".join(f"{count} {state}" for state, count in result["left_out"].items())
    lines = [f"{result['path']}: {result['n_items']} items, sha256 {result['sha256']}; left out: {left}"]
    if unsettled := result["disagreements"]["unsettled"]:
        lines.append(f"unsettled disagreements: {unsettled}; on each the last decision counts")
    lines += [str(result[name]) for name in ("note", "link") if result.get(name)]
    return "\n".join(lines)


def _status_text(row: dict[str, Any]) -> str:
    needed, by_code, disputes = row["progress"]["needed"], row["progress"]["by_code"], row["disagreements"]
    parts = [f"{needed['decided']} of {needed['total']} decided"]
    if by_code["total"]:
        parts.append(f"{by_code['total']} by code ({by_code['decided']} of them decided)")
    parts.append(f"disagreements: {disputes['unsettled']} unsettled, {disputes['settled']} settled")
    lines = [f"{row['name']}: {'; '.join(parts)}"]
    for reviewer in row["assignment"]["reviewers"] if row["assignment"] else ():
        others = f", {reviewer['by_others']} by others" if reviewer["by_others"] else ""
        decided = f"{reviewer['decided']} of {reviewer['assigned']} decided"
        lines.append(f"  {reviewer['name']}: {decided}{others}, {reviewer['open']} open")
    return "\n".join(lines)
