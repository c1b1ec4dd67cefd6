"""`jrh compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jrh_mlflow.cli.options import force_option, own_run, shown_as
from jrh_mlflow.cli.printing import print_as, print_place
from jrh_mlflow.outputs import check_free


@click.command()
@click.argument("runs", metavar="RUN RUN …", nargs=-1, required=True)
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Chance of any false difference.")
@click.option("--primary", metavar="AXIS", multiple=True, help="A deciding axis; repeatable. [the headline axes]")
@click.option("--baseline", metavar="RUN", help="Compare every other run with this one only.")
@click.option(
    "--margin", type=float, default=0.1, show_default=True, help="Judges shown to differ by less are equivalent."
)
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write one self-contained HTML file.")
@click.option("--metric", help="What labelled tests are compared by: f1_score, mae, …. [that of the runs]")
@click.option("--by-language", is_flag=True, help="One table of suites in several languages instead; logs no run.")
@own_run
@force_option
@shown_as
def compare(
    runs: tuple[str, ...],
    primary: tuple[str, ...],
    html: Path | None,
    by_language: bool,
    no_log: bool,
    force: bool,
    as_json: bool,
    markdown: bool,
    **options: Any,
) -> None:
    """Compare logged evaluations on the same suite: which judges differ, on which test, by how much.

    A RUN is a run id, runs:/<id>, or the first eight or more digits of one. Runs on different suites are refused with
    what differs. Differences are tested on the deciding (primary) axes; the others are exploratory. The comparison is
    logged as a run of its own with Markdown, HTML, tables and figures.

    Example: jrh compare 3f2a9c01 b71d4e22 --baseline 3f2a9c01 --primary dark_current
    """
    from jrh_mlflow.comparing.compare import compare as run

    if by_language:
        from jrh_mlflow.comparing.by_language import by_language as read

        done = read(list(runs), tracking_uri=options["tracking_uri"])
        print_as(done, lambda: done.table.to_text().splitlines(), as_json=as_json, markdown=markdown)
        return
    # Before the runs are read: the wait is in vain where the file may not be replaced.
    if html is not None:
        check_free(html, force=force)
    comparison = run(list(runs), log=not no_log, primary=primary or None, **options)
    print_as(comparison, comparison.plain_page.to_text, as_json=as_json, markdown=markdown, notes=comparison.notes)
    if html is not None:
        # After the tables: they are shown even when the file cannot be written.
        html.write_text(comparison.to_html(), encoding="utf-8")
        click.echo(f"HTML: {html}", err=as_json)
    if comparison.link is not None:
        print_place(comparison.link, err=as_json)
