"""`jrh repair`."""

from __future__ import annotations

from typing import Any

import click

from jrh_mlflow.cli.options import Command, from_model, paid_run, seed_option, shown_as, typed_options
from jrh_mlflow.cli.printing import print_result
from jrh_mlflow.options import RunOptions


@click.command(cls=Command)
@click.argument("run")
@click.option("--require", metavar="RULE", multiple=True, help="Move the alias only where this rule holds; repeatable.")
@click.option("--labels", type=click.Path(exists=True, dir_okay=False), help="Table of people's labels: item, label.")
@click.option("--policy", type=click.Path(), help="YAML with max_usd, require, labels: recipes/repair.yaml.")
@click.option("--name", help="Of the prompt that is registered.")
@from_model(RunOptions, "fresh_after")
@paid_run
@seed_option
@shown_as
def repair(
    run: str, policy: str | None, require: tuple[str, ...], as_json: bool, markdown: bool, **options: Any
) -> None:
    """Try what may mend the problems of a logged judge, and prove what does on tasks that were not searched.

    RUN is a run id of `jrh evaluate`, or the first eight or more digits of one. One half of its tasks is searched; at
    most two changes and the unchanged judge are asked afresh on the other. What is recommended is registered as a
    prompt; its alias moves only where every --require holds. Ten times what the run has cost is a good --max-usd.

    \b
    Example: jrh repair 3f2a9c01 --max-usd 5
             jrh repair 3f2a9c01 --policy recipes/repair.yaml --labels people.csv
    """
    from jrh_mlflow.sweeps.repair import repair as run_repair
    from jrh_mlflow.yaml_files import Document

    given = typed_options(options)
    if policy is not None:
        written = dict(Document.read(policy, ("max_usd", "require", "labels")).data)
        rules = written.pop("require", None) or ()
        require = (*([rules] if isinstance(rules, str) else rules), *require)
        given = {**written, **given}
    if "max_usd" not in given:
        raise click.UsageError("Give --max-usd: ten times what the run has cost is a good cap.")
    print_result(run_repair(run, require=require, **given), as_json=as_json, markdown=markdown)
