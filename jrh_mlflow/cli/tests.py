"""`jrh suite tests`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from jrh_mlflow.cli.options import Command, as_json
from jrh_mlflow.cli.printing import print_table

if TYPE_CHECKING:
    from jrh_mlflow.perturb import ReliabilityTest

_HEADER = ("test", "written by", "expected", "what changes")
_NEEDS = {
    "generator": "a generator model",
    "validator": "a validator",
    "order": "two labels, or a scale",
    "grades": "labels that grade (--grades)",
    "scale": "a scale",
    "transcripts": "transcripts",
}


@click.command(cls=Command)
@click.argument("name", required=False)
@as_json
def tests(name: str | None, as_json: bool) -> None:
    """List the reliability tests; with NAME, show how that test's texts are written, and its parameters.

    NAME may have parameters, as for --tests, or be a prompt file of your own.

    \b
    Example: jrh suite tests label_flip
             jrh suite tests stochastic_stability:replicates=5
             jrh suite tests @sarcasm.txt
    """
    from jrh_mlflow.perturb import AGENT_TESTS
    from jrh_mlflow.perturb.registry import TESTS, find_agent_test, find_test, installed_tests, listed_tests

    others = installed_tests()
    chosen: list[ReliabilityTest] = [*TESTS.values(), *AGENT_TESTS.values(), *others.tests.values()]
    if name is not None:
        chosen = [
            entry if not isinstance(entry, str) else find_agent_test(entry) or find_test(entry)
            for entry in listed_tests(name)
        ]
    if as_json:
        facts = [_facts(test) | _package(others.packages, test) for test in chosen]
        click.echo(json.dumps(facts, indent=1, ensure_ascii=False))
    elif name is None:
        _list([_row(test) for test in chosen], others.packages)
    else:
        for test in chosen:
            _show(test, others.packages.get(test.name))
    if name is None:
        for problem in others.problems.values():
            click.echo(f"jrh: {problem}.", err=True)


def _row(test: ReliabilityTest) -> tuple[str, ...]:
    return test.name, "model" if "generator" in test.needs else "code", test.expects.text, test.title


def _facts(test: ReliabilityTest) -> dict[str, object]:
    parameters = {setting.name: setting.value for setting in test.parameters}
    return {**dict(zip(_HEADER, _row(test), strict=True)), **({"parameters": parameters} if parameters else {})}


def _package(packages: dict[str, str], test: ReliabilityTest) -> dict[str, str]:
    return {"package": packages[test.name]} if test.name in packages else {}


def _list(rows: list[tuple[str, ...]], packages: dict[str, str]) -> None:
    from jrh_mlflow.plugins import TRANSPORTS, plugins

    widths = [max(len(row[column]) for row in (_HEADER, *rows)) for column in range(3)]
    for row in (_HEADER, *rows):
        owner = f" ({packages[row[0]]})" if row[0] in packages else ""
        # The last column is not padded: it may be long, and nothing stands behind it.
        click.echo("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3] + owner]))
    click.echo(
        '\n"paper" stands for the tests of the Judge Reliability Harness that fit the labels, "all" for all. '
        "Tests that begin\nwith agent_ edit transcripts: jrh generate LOG.eval --tests agent_perturbation …"
    )
    if packages:
        click.echo("Tests of other packages are used by their names; no group holds them.")
    if transports := [f"{plugin.name} ({plugin.distribution})" for plugin in plugins(TRANSPORTS)]:
        click.echo(f"Transports of other packages: {', '.join(transports)}.")


def _show(test: ReliabilityTest, package: str | None) -> None:
    from jrh_mlflow.perturb import prompt

    facts = {
        "what changes": test.title,
        "expected": test.expects.text,
        "invalid where the rubric grades": test.changes,
        "scored by": test.expects.statistic,
        "needs": ", ".join(text for need, text in _NEEDS.items() if need in test.needs),
        "package": package or "",
    }
    print_table(["test", test.name], [[key, value] for key, value in facts.items() if value], left=2)
    for parameter in test.parameters:
        if parameter.name != "prompt":
            click.echo(f"{parameter.name} = {parameter.value}: {parameter.help}")
    if "generator" not in test.needs:
        click.echo("Written by code, seeded; no model is asked.")
        return
    compared = "; a validator compares it with the original" if getattr(test, "must_keep", "") else ""
    confirmed = "; a validator must give the expected answer" if "validator" in test.needs else compared
    click.echo(f"Written by a generator model{confirmed}. The prompt:\n")
    # The test's own prompt is the objective; these three carry it out.
    parts = ("agent_planner", "agent_editor", "agent_summary") if "transcripts" in test.needs else ()
    click.echo("\n".join([_template(test), *map(prompt, parts)]))


def _template(test: ReliabilityTest) -> str:
    from jrh_mlflow.perturb import Rewrite

    try:
        return test.template() if isinstance(test, Rewrite) else ""
    except FileNotFoundError:
        return "(put together by the test itself)"
