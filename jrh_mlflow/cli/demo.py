"""`jrh demo`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jrh_mlflow.cli.options import Command
from jrh_mlflow.cli.printing import print_lines, print_table
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.show.numbers import missing_text
from jrh_mlflow.show.plain_text import wrapped_line

if TYPE_CHECKING:
    from jrh_mlflow.comparing.compare import Comparison
    from jrh_mlflow.comparing.criterion_shift import CriterionShift
    from jrh_mlflow.demo import Demo
    from jrh_mlflow.measuring.evaluation import Evaluation
    from jrh_mlflow.schema.estimates import Reading
    from jrh_mlflow.tracking.runs.store import Store

_BETTER = "target_sensitivity/delta_1"
_ROWS = (
    "dark_current",
    "raw_false_preference",
    "positional_false_preference",
    _BETTER,
    "target_sensitivity/delta_5",
    "threshold_75",
)
_MOST_JUDGES = 3
"""Columns that fit on a screen; the other judges are on the pages."""
_HOWTO = "https://github.com/jrh-mlflow/jrh-mlflow/blob/main/docs/howto/judge_you_have.md"


@click.command(cls=Command)
@click.argument("store", metavar="[FOLDER]", default="demo")
@click.option("--port", default=5000, show_default=True, help="Of the UI that the printed links point to.")
@click.option("--quick", is_flag=True, help="Leave the recorded judge out.")
def demo(store: str, port: int, quick: bool) -> None:
    """Measure the four judges of the Judge Datasheet paper, a real judge's recorded answers, and three graders.

    The paper's judges are simulated from its counts. The recorded judge is a real 1.5B model under three tie criteria
    and two namings of the slots; its answers ship with the package, and nobody is asked. The graders are simulated:
    they judge a reliability suite of 24 labelled replies that ships with the package.

    Example: jrh demo
    """
    from jrh_mlflow.demo import Demo, demo_store
    from jrh_mlflow.engine.journal import open_journal

    started = time.perf_counter()
    click.echo(f"measuring into an MLflow store in {store}")
    place = demo_store(store)
    with open_journal(Path(store) / "journal.db") as journal:
        parts = Demo(place.uri, journal)
        found = [_paper_sentence(_print_paper(parts))]
        shift = parts.shift()
        found.append(_shift_sentence(shift) if quick else _recorded_sentence(_print_recorded(parts)))
        found.append(_graders_sentence(_print_graders(parts)))
    _head(f"What was found, in {time.perf_counter() - started:.0f} s")
    print_lines(line for sentence in found for line in wrapped_line("", sentence))
    _print_next(place, port=port)


def _print_paper(parts: Demo) -> list[Evaluation]:
    from jrh_mlflow.demo import JUDGES, PAPER_SUITE

    shown = f"{min(_MOST_JUDGES, len(JUDGES))} of {len(JUDGES)}"
    _head(f"The paper's judges on {PAPER_SUITE}, simulated from its counts ({shown}); 95 % intervals by task")
    judges = parts.paper_judges()
    _print_axes("simulated", {run.judge.name: run for run in judges})
    return judges


def _print_recorded(parts: Demo) -> Evaluation:
    """Print the recorded judge on the paper's suite; return it on the suite with the matched ladder."""
    from jrh_mlflow.measuring.recorded.answers import provenance

    about = provenance()
    _head(
        f"A real judge on the same suite: {about['model']} ({about['quantisation']}),\n"
        f"recorded on {about['answered_on']}, nobody is asked now; three tie criteria"
    )
    judges = parts.recorded_judge()
    _print_axes("recorded", {run.judge.name.removeprefix(about["name"]).strip(): run for run in judges})
    return parts.recorded_reading()


def _print_axes(kind: str, judges: Mapping[str, Evaluation]) -> None:
    """Print judges of one kind as columns; as rows, preferences without a reason, both ends of the ladder, Δ75."""
    from jrh_mlflow.show.names import axis_name
    from jrh_mlflow.show.numbers import reading_text

    shown = dict(list(judges.items())[:_MOST_JUDGES])
    readings = [run.sheet.estimates for run in shown.values()]
    print_table([kind, *shown], [[axis_name(key), *(reading_text(own.get(key)) for own in readings)] for key in _ROWS])


def _print_graders(parts: Demo) -> Comparison:
    from jrh_mlflow.comparing.comparison_view import letters_text, scores_table

    _head("Three simulated graders on 24 labelled replies, changed by rules; share of expected answers by test")
    comparison = parts.graders()
    click.echo(scores_table(comparison.contrasts).to_text())
    print_lines(wrapped_line("", letters_text(comparison.contrasts)))
    return comparison


def _head(title: str) -> None:
    click.echo(f"\n{title}:")


# --- what was found


def _paper_sentence(judges: Sequence[Evaluation]) -> str:
    most, least = _ends({run.judge.label: run.sheet.estimates["dark_current"] for run in judges})
    return f"Of the pairs with nothing to judge, {most[0]} picks a side in {most[1]}, {least[0]} in {least[1]}."


def _shift_sentence(shift: CriterionShift) -> str:
    (base, first), *_, (criterion, last) = shift.arms.items()
    before, after = (_share(run.sheet.estimates[_BETTER]) for run in (first, last))
    return (
        f"Of the pairs that differ in one requirement, {first.judge.label} finds the better answer in {before} "
        f"where ties are {base}, and in {after} under the {criterion} tie criterion."
    )


def _recorded_sentence(run: Evaluation) -> str:
    ladder, same_words = (_share(run.sheet.estimates[f"{axis}_sensitivity/delta_5"]) for axis in ("target", "matched"))
    return (
        f"At the largest difference the real judge finds the better answer in {ladder} of the pairs, but in "
        f"{same_words} where both have the same words and one has the facts wrong; a coin finds it in 50 %."
    )


def _graders_sentence(comparison: Comparison) -> str:
    from jrh_mlflow.measures.reliability import OVERALL
    from jrh_mlflow.show.names import axis_name

    cells = comparison.contrasts.cells
    most, least = _ends(cells[OVERALL])
    _, test = _ends({axis_name(axis): judges[least[0]] for axis, judges in cells.items() if axis != OVERALL})
    return (
        f"Of the graders, {most[0]} gives the expected answer in {most[1]} of the items, {least[0]} in {least[1]}, "
        f"and in only {test[1]} under {test[0]}."
    )


def _ends(readings: Mapping[str, Reading]) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return who reads most and who least, each with the share."""
    known = {name: reading for name, reading in readings.items() if isinstance(reading, Estimate)}
    names = sorted(known, key=lambda name: known[name].value)
    return (names[-1], _share(known[names[-1]])), (names[0], _share(known[names[0]]))


def _share(reading: Reading) -> str:
    from jrh_mlflow.measures.verdict import share_text

    return share_text(reading) if isinstance(reading, Estimate) else missing_text(reading)


def _print_next(store: Store, *, port: int) -> None:
    from jrh_mlflow.tracking.runs.view import view_links

    links = view_links(store.uri, store.experiment_id, port=port)
    jrh = _command()
    _head("What next")
    click.echo(f"  every judge and call  {jrh} {(links.command or '').removeprefix('jrh ')}   then {links.pages}")
    click.echo(f"  the judge you have    {_HOWTO}")
    click.echo(f"  calls and dollars     {jrh} evaluate --model openai/gpt-4o-mini --dry-run")


def _command() -> str:
    """Return how this command was called, so that the printed line works as it is."""
    called = Path(sys.argv[0]).resolve()
    # Outside of the working folder the command was found by its name, so its name works.
    return str(called.relative_to(Path.cwd())) if called.is_relative_to(Path.cwd()) else "jrh"
