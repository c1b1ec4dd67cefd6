"""`jrh compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jrh_mlflow.cli.options import Command, force_option, own_run, shown_as, typed
from jrh_mlflow.cli.printing import print_as, print_place, print_result
from jrh_mlflow.outputs import check_free

_TIES = ("abstain", "tie", "lowest", "highest", "median", "first")
_OF_A_JURY = ("ties", "min_votes", "size", "max_usd")
_OF_EVERY_RESULT = ("run_name", "tracking_uri")


@click.command(cls=Command)
@click.argument("runs", metavar="RUN RUN …", nargs=-1, required=True)
@click.option("--primary", metavar="AXIS", multiple=True, help="A deciding axis; repeatable. [the headline axes]")
@click.option("--baseline", metavar="RUN", help="Compare every other run with this one only.")
@click.option(
    "--margin", type=float, default=0.1, show_default=True, help="Judges shown to differ by less are equivalent."
)
@click.option("--metric", help="What labelled tests are compared by: f1_score, mae, …. [that of the runs]")
@click.option(
    "--definitions",
    type=click.Choice(("protocol", "paper")),
    default="protocol",
    show_default=True,
    help="paper: stability by accuracy and dollars as in the Harness paper.",
)
@click.option("--reference", metavar="JUDGE|RUN", help="Judge whose accuracy is the ceiling of the others.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write one self-contained HTML file.")
@click.option("--jury", is_flag=True, help="Let the judges vote together instead.")
@click.option(
    "--ties",
    type=click.Choice(_TIES),
    default="abstain",
    show_default=True,
    help="Of a jury: what a draw becomes; abstain is no decision.",
)
@click.option("--min-votes", type=int, help="Of a jury: fewer votes are no answer. [more than half]")
@click.option("--size", type=int, help="Of a jury: size of the best panel. [3 of more than three runs]")
@click.option("--max-usd", type=float, help="Of a jury: dollars per 1,000 judgments that the best panel may cost.")
@own_run
@force_option
@shown_as
def compare(
    runs: tuple[str, ...],
    html: Path | None,
    jury: bool,
    no_log: bool,
    force: bool,
    as_json: bool,
    markdown: bool,
    **options: Any,
) -> None:
    """Compare logged evaluations: which judges differ, on which test, by how much. No judge is asked.

    A RUN is a run id, runs:/<id>, or the first eight or more digits of one. Differences are tested on the deciding
    (primary) axes; the others are exploratory. Runs on several suites stand side by side, with the mean over suites,
    dollars per accuracy point and trios of judges; calls are never pooled over suites. With --jury the judges of one
    suite vote together, and the best panel is chosen on one half of the sources and reported on the other.

    The comparison, or the jury, is logged as a run of its own.

    Example: jrh compare 3f2a9c01 b71d4e22 --baseline 3f2a9c01 --primary dark_current
    """
    from jrh_mlflow.comparing.compare import Comparison
    from jrh_mlflow.comparing.compare import compare as run

    of_a_jury = {name: options.pop(name) for name in _OF_A_JURY}
    _check_options(jury=jury)
    if jury:
        from jrh_mlflow.comparing.jury.jury import jury as vote

        place = {name: options[name] for name in _OF_EVERY_RESULT}
        print_result(vote(list(runs), log=not no_log, **of_a_jury, **place), as_json=as_json, markdown=markdown)
        return
    # Before the runs are read: the wait is in vain where the file may not be replaced.
    if html is not None:
        check_free(html, force=force)
    options["primary"] = options["primary"] or None
    done = run(list(runs), log=not no_log, **options)
    page = done.plain_page if isinstance(done, Comparison) else done.page
    print_as(done, page.to_text, as_json=as_json, markdown=markdown, notes=done.notes)
    if html is not None:
        # After the tables: they are shown even when the file cannot be written.
        html.write_text(done.to_html(), encoding="utf-8")
        click.echo(f"HTML: {html}", err=as_json)
    if done.link is not None:
        print_place(done.link, err=as_json)


def _check_options(*, jury: bool) -> None:
    """Refuse options that the result does not read: one that is ignored would look as if it was kept."""
    of_both = ("runs", "jury", "no_log", "as_json", "markdown", *_OF_EVERY_RESULT)
    for name in sorted(typed()):
        option = f"--{name.replace('_', '-')}"
        if jury and name not in (*of_both, *_OF_A_JURY):
            raise click.UsageError(f"{option} is of a comparison: leave out --jury.")
        if not jury and name in _OF_A_JURY:
            raise click.UsageError(f"{option} is of a jury: add --jury.")
