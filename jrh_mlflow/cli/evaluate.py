"""`jrh evaluate` and `jrh shift`."""

from __future__ import annotations

import json

import click

from jrh_mlflow.cli.options import as_json, print_evaluations, tracking

_JUDGE = "scripted:NAME, module:function or file.py:function."


@click.command()
@click.option("--judge", help=_JUDGE)
@click.option("--suite", help="Built-in name, folder, or runs:/<id>/suite; the datasheet suite when left out.")
@click.option("--criterion", help="Tie criterion: forced, allowed, strict, or a sentence of your own.")
@click.option("--replicates", default=1, show_default=True, help="How often each presentation is asked.")
@click.option("--concurrency", default=32, show_default=True, help="Calls in flight.")
@click.option("--run-name", help="Name of the MLflow run.")
@click.option("--resume", "folder", type=click.Path(), help="Log an evaluation kept on disk while MLflow was down.")
@tracking
@as_json
def evaluate(
    judge: str | None,
    suite: str | None,
    criterion: str | None,
    replicates: int,
    concurrency: int,
    run_name: str | None,
    folder: str | None,
    experiment: str | None,
    tracking_uri: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Measure one judge on one suite and log it as an MLflow run.

    Example: jrh evaluate --judge recipes/own_judge.py:judge
    """
    from jrh_mlflow import evaluation
    from jrh_mlflow.recipe import judge_from_text

    if (judge is None) == (folder is None):
        raise click.UsageError("Give either --judge or --resume.")
    if folder is not None:
        print_evaluations([evaluation.resume(folder)], as_json=as_json)
        return
    asked = judge_from_text(str(judge))
    done = evaluation.evaluate(
        asked.with_criterion(criterion) if criterion else asked,
        suite,
        experiment=experiment,
        run_name=run_name,
        tracking_uri=tracking_uri,
        replicates=replicates,
        concurrency=concurrency,
        seed=seed,
    )
    print_evaluations([done], as_json=as_json)


@click.command()
@click.option("--judge", required=True, help=_JUDGE)
@click.option("--suite", help="Built-in name, folder, or runs:/<id>/suite; the datasheet suite when left out.")
@click.option(
    "--criterion",
    "criteria",
    multiple=True,
    default=("allowed", "strict"),
    show_default=True,
    help="Once per arm, the base first: forced, allowed, strict, or a sentence of your own.",
)
@click.option("--replicates", default=1, show_default=True, help="How often each presentation is asked.")
@click.option("--concurrency", default=32, show_default=True, help="Calls in flight.")
@tracking
@as_json
def shift(
    judge: str,
    suite: str | None,
    criteria: tuple[str, ...],
    replicates: int,
    concurrency: int,
    experiment: str | None,
    tracking_uri: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Measure one judge under several tie criteria: a parent run with one child per criterion.

    Example: jrh shift --judge scripted:Qwen32B --criterion allowed --criterion strict
    """
    from jrh_mlflow.criterion import criterion_shift
    from jrh_mlflow.recipe import judge_from_text

    done = criterion_shift(
        judge_from_text(judge),
        suite,
        criteria=criteria,
        experiment=experiment,
        tracking_uri=tracking_uri,
        replicates=replicates,
        concurrency=concurrency,
        seed=seed,
    )
    if as_json:
        facts = {"run_id": done.run_id, "arms": {name: one.run_id for name, one in done.arms.items()}}
        click.echo(json.dumps({**facts, "metrics": done.metrics, "link": done.link}, indent=1))
        return
    click.echo(done.to_markdown())
    click.echo(done.link)
