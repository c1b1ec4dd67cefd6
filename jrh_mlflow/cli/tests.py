"""`jrh tests`."""

from __future__ import annotations

import json
import re

import click

from jrh_mlflow.cli.options import as_json, print_table


@click.command()
@click.argument("name", required=False)
@as_json
def tests(name: str | None, as_json: bool) -> None:
    """List the reliability tests; with NAME, show how that test's texts are written.

    Example: jrh tests label_flip
    """
    from jrh_mlflow.perturb import AGENT_TESTS, TESTS, Rewrite, find_test
    from jrh_mlflow.perturb._base import prompt

    known = {**TESTS, **AGENT_TESTS}
    chosen = known if name is None else {name: known.get(name) or find_test(name)}
    rows = []
    for test in chosen.values():
        changes, expected = _parts(test.title)
        rows.append([test.name, "model" if isinstance(test, Rewrite) else "code", expected, changes])
    header = ["test", "written by", "expected", "what changes"]
    if as_json:
        click.echo(json.dumps([dict(zip(header, row, strict=True)) for row in rows], indent=1, ensure_ascii=False))
        return
    if name is None:
        widths = [max(len(row[column]) for row in (header, *rows)) for column in range(3)]
        for row in (header, *rows):
            click.echo("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]))
        click.echo(
            '\n"paper" stands for the tests of the Judge Reliability Harness that fit the labels, "all" for all. '
            "Tests that begin\nwith agent_ edit transcripts: jrh generate LOG.eval --tests agent_perturbation …"
        )
        return
    test = chosen[name]
    print_table(["test", test.name], [["what changes", rows[0][3]], ["expected", rows[0][2]]], left=2)
    if isinstance(test, Rewrite):
        confirmed = "; a validator must give the expected answer" if test.confirm else ""
        click.echo(f"Written by a generator model{confirmed}. Without a model, rules stand in. The prompt:\n")
        parts = ("agent_planner", "agent_editor", "agent_summary") if name in AGENT_TESTS else ()
        click.echo("\n".join(prompt(part) for part in (test.name, *parts)))
    else:
        click.echo("Written by code, seeded; no model is asked.")


def _parts(title: str) -> tuple[str, str]:
    """Split a title into what changes and what is expected."""
    found = re.fullmatch(r"(.*)[;:] ([^;:]*)", title)
    return (found[1], found[2]) if found else (title, "–")
