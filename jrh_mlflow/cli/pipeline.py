"""`jrh evaluate` with a recipe of several stages: generate, review, judge, compare."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from jrh_mlflow.cli.options import typed
from jrh_mlflow.cli.printing import print_lines, print_page, print_table
from jrh_mlflow.options import JudgeOptions, RunOptions
from jrh_mlflow.show.numbers import money_text, quote_text

if TYPE_CHECKING:
    from jrh_mlflow.workflow import Workflow, WorkflowQuote, WorkflowRun

_FLAGS = {
    "judge_text": "--judge",
    **{f"judge_{name}": JudgeOptions.flag(name) for name in JudgeOptions.model_fields},
}
_UNKNOWN = "unknown (a model has no price; give `prices`)"


def run_pipeline(
    recipe_file: str, options: dict[str, Any], *, table: str | None, force: bool, as_json: bool, markdown: bool
) -> bool:
    """Run a recipe that is a pipeline and return True; any other is left to `jrh evaluate`."""
    from jrh_mlflow.workflow import is_workflow, load_workflow, price_workflow, run_workflow

    if not is_workflow(recipe_file):
        return False
    given = {name for name in typed() if name in options}
    if odd := sorted(given - {*RunOptions.model_fields, "dry_run"}) + (["table"] if table else []):
        flags = ", ".join(_FLAGS.get(name, f"--{name.replace('_', '-')}") for name in odd)
        raise click.UsageError(f"{flags}: {recipe_file} is a pipeline, whose judges and suite are written in it.")
    workflow = load_workflow(recipe_file, **{name: options[name] for name in given if name in RunOptions.model_fields})
    quoted = price_workflow(workflow)
    if options["dry_run"]:
        _print_quote(workflow, quoted, as_json=as_json)
        return True
    # What it may cost is told before it is spent, and apart from the results.
    click.echo(f"note: {_cost_line(workflow, quoted)}", err=True)
    done = run_workflow(workflow, force=force, say=lambda line: click.echo(line, err=True))
    if as_json:
        click.echo(json.dumps(done.to_dict(), indent=1, ensure_ascii=False, allow_nan=False, default=str))
    else:
        _print(done, markdown=markdown)
    _print_problems(done)
    if done.exit_code:
        click.get_current_context().exit(done.exit_code)
    return True


def _cost_line(workflow: Workflow, quoted: WorkflowQuote) -> str:
    n_calls = sum(quote.calls for _, quote in quoted.judges if quote is not None)
    made = "nothing is left to be generated" if quoted.generation is None else f"{quoted.items} items are generated"
    caps = "no cap" if workflow.total_usd is None else f"at most ${workflow.total_usd:g}"
    dollars = _dollars(quoted.usd, quoted.worst_usd)
    return f"{made}, models are asked {n_calls} times by {len(workflow.judges)} judge(s): {dollars}, {caps}."


def _print_quote(workflow: Workflow, quoted: WorkflowQuote, *, as_json: bool) -> None:
    generation = None if workflow.generation is None else workflow.generation.max_usd
    caps = {"generate": generation, "judges": workflow.judging_usd, "total": workflow.total_usd}
    if as_json:
        click.echo(json.dumps({**quoted.to_dict(), "max_usd": caps}, indent=1))
        return
    rows = [["generate", "0", "nothing is left to be generated"]]
    if (made := quoted.generation) is not None:
        calls = made.generator_calls + made.validator_calls
        rows = [["generate", str(calls), _dollars(made.usd, made.worst_usd)]]
    if workflow.review:
        rows.append(["review", "0", "by a person" if workflow.review.decisions is None else "by file"])
    for name, quote in quoted.judges:
        cells = ["0", "answers by itself"]
        if quote is not None:
            cells = [str(quote.calls), _dollars(quote.usd, quote.worst_usd)]
        rows.append([f"judge {name}", *cells])
    print_table(["stage", "calls", "dollars"], rows)
    click.echo(f"\nitems to judge  {quoted.items}, if all can be made and none is rejected")
    click.echo(f"dollars         {_dollars(quoted.usd, quoted.worst_usd)}")
    listed = ", ".join(f"{name} ${cap:g}" for name, cap in caps.items() if cap is not None)
    click.echo(f"caps            {listed or 'none'}")


def _dollars(usd: float | None, worst_usd: float | None) -> str:
    return quote_text(usd, worst_usd, unknown=_UNKNOWN)


def _print(done: WorkflowRun, *, markdown: bool) -> None:
    from jrh_mlflow.comparing.compare import Comparison
    from jrh_mlflow.comparing.comparison_view import comparison_page
    from jrh_mlflow.show.plain_text import plain

    how = "generated" if done.made else "was there"
    click.echo(plain(f"{done.suite.name}: {len(done.suite)} items, sha256 {done.suite.sha256}, in {done.path} ({how})"))
    if done.review is not None:
        left = done.review.get("left_out") or {}
        counts = ", ".join(f"{count} {state}" for state, count in left.items())
        click.echo(
            f"reviewed: {counts} left out" if counts else f"reviewed: finished {done.review.get('finished', 'now')}"
        )
    rows = [[plain(judged.judge), *_cells(judged)] for judged in done.judges if judged.run_id]
    if rows:
        print_table(["judge", "calls", "dollars", "run"], rows)
    if done.comparison is None:
        print_lines(f"logged: {judged.link}" for judged in done.judges if judged.link)
    if done.comparison is not None and markdown:
        click.echo(done.comparison.to_markdown())
    elif done.comparison is not None:
        click.echo("")
        page = done.comparison.page
        if isinstance(done.comparison, Comparison):
            page = comparison_page(done.comparison.contrasts)
        print_page(done.comparison.title, page.to_text(), notes=done.comparison.notes)
    if done.jury is not None:
        print_lines(["", done.jury.to_markdown()] if markdown else ["", repr(done.jury)])
    if done.html is not None:
        click.echo(f"HTML: {done.html}")
    click.echo(f"pipeline: {done.tag}")


def _cells(judged: Any) -> list[str]:
    from jrh_mlflow.schema.metric_keys import CALLS_TOTAL

    cost = "n/a" if judged.cost_usd is None else money_text(judged.cost_usd)
    return [f"{judged.metrics.get(CALLS_TOTAL, 0):.0f}", cost, f"{judged.run_id}{' (before)' if judged.reused else ''}"]


def _print_problems(done: WorkflowRun) -> None:
    from jrh_mlflow.engine.budget import cap_advice

    if done.truncated:
        advice = cap_advice(done.truncated, "`max_usd` of `generate`, and run it again.")
        click.echo(f"Truncated ({done.truncated}). {advice}", err=True)
    for judged in done.judges:
        if judged.problem:
            print_lines([f"{judged.judge}: {judged.problem}"], err=True)
        elif judged.truncated:
            advice = cap_advice(judged.truncated, "the cap and run it again.")
            print_lines([f"{judged.judge}: truncated ({judged.truncated}). {advice}"], err=True)
