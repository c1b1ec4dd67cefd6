"""What people see of several suites side by side and what MLflow is told: tables, page and keys, each declared once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jrh_mlflow.comparing.across_suites import ACCURACY, FURTHER, AcrossSuites, JudgeOnSuite, SuiteReadings
from jrh_mlflow.comparing.comparison_view import filled_frames, n_text, named_readings
from jrh_mlflow.comparing.jury.panels import BestPanel
from jrh_mlflow.comparing.recommendation import closing_section, short_name
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.schema.items import PAPER
from jrh_mlflow.show.html import FROM_RUN
from jrh_mlflow.show.names import axis_name, statistic_name
from jrh_mlflow.show.numbers import missing_text, money_text, reading_text, source_ends
from jrh_mlflow.show.page import Only, Page, Section
from jrh_mlflow.show.plain_text import plain_name
from jrh_mlflow.show.tables import Cell, Column, FilledTable, Table, reading_cell
from jrh_mlflow.stats.proportions import wilson
from jrh_mlflow.tracking.runs import keys

if TYPE_CHECKING:
    import pandas as pd

OVERALL_ROW, MEAN_SCORE = "Overall", "mean_over_tests"
_HOW = (
    "Intervals are 95 %, sources as clusters. Overall is the mean over the suites, each weighs the same, of judges "
    "that were measured on all of them: it speaks of these suites. Calls are never pooled over suites."
)
_PRICES = {
    True: "By the paper: dollars of the calls on tests over accuracy in points; Overall is the mean of the rows above.",
    False: "Dollars of all calls over accuracy in points; Overall is the dollars of all suites over the mean accuracy.",
}
_MEAN = "Each test weighs the same; above, each call does, so that a test with many replicates weighs more."
_TESTS = "The calls of all judges on a suite together. A dash: the suite has no such test."
_TRIOS = (
    "Majority of three. The first line of a suite is what choosing the best trio is worth: chosen on one half of the "
    "sources and read on the other. The lines below are read where they were chosen: fine for a trio that was named "
    "before, too good for the best of many. FPR: units that expect the first label and get the last one; FNR: the "
    "other way round."
)
_MOST_RIVALS = 3
"""Judges that the first sentence names beside the leader."""
_STATES = ("accepted", "edited", "rejected")

Runs = Mapping[tuple[str, str], str]
"""Suite and judge to the id of their run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    """A row of a table with a column for each judge."""

    suite: str
    cells: Mapping[str, Reading]


def _judge_columns(
    judges: Sequence[str], write: Callable[[Reading], str | Cell], runs: Runs = MappingProxyType({})
) -> Iterator[Column[_Line]]:
    def column(judge: str) -> Column[_Line]:
        def cell(line: _Line) -> str | Cell:
            return write(line.cells[judge]) if judge in line.cells else "–"

        def link(line: _Line) -> str | None:
            run = runs.get((line.suite, judge))
            return FROM_RUN.run(run) if run else None

        return Column(judge, cell, link=link)

    return map(column, judges)


def accuracy_table(
    found: AcrossSuites, runs: Runs = MappingProxyType({}), *, by_test: bool = False
) -> FilledTable[_Line]:
    """Suites × judges, and the mean over suites: calls that are right, or the mean over tests."""
    lines = [_line(suite, lambda judge: judge.mean if by_test else judge.accuracy) for suite in found.suites]
    overall = _overall_line(found, found.means if by_test else found.overall)
    if by_test and not any(isinstance(reading, Estimate) for line in lines for reading in line.cells.values()):
        lines, overall = [], []
    return Table(
        (
            Column("suite", lambda line: line.suite),
            *_judge_columns(found.judges, reading_cell, runs),
            Column("n", lambda line: n_text(line.cells.values())),
        )
    )([*lines, *overall])


def price_table(found: AcrossSuites) -> FilledTable[_Line]:
    """Suites × judges in dollars per accuracy point, and over all suites; empty where no price is known."""
    lines = [*(_line(suite, lambda judge: judge.price) for suite in found.suites), *_overall_line(found, found.prices)]
    known = any(isinstance(reading, Estimate) for line in lines for reading in line.cells.values())
    columns = (Column("suite", _suite_of), *_judge_columns(found.judges, price_text))
    return Table(columns)(lines if known else ())


def shortfall_table(found: AcrossSuites) -> FilledTable[_Line]:
    """Suites × judges: how far below the reference; empty without one."""
    lines = [_line(suite, lambda judge: judge.shortfall) for suite in found.suites]
    others = [name for name in found.judges if name != found.reference]
    columns = (Column("suite", _suite_of), *_judge_columns(others, reading_cell))
    return Table(columns)([line for line in lines if line.cells])


def _suite_of(line: _Line) -> str:
    return line.suite


def _line(suite: SuiteReadings, read: Callable[[JudgeOnSuite], Reading | None]) -> _Line:
    cells = {name: reading for name, judge in suite.judges.items() if (reading := read(judge)) is not None}
    return _Line(suite=suite.name, cells=cells)


def _overall_line(found: AcrossSuites, readings: Mapping[str, Reading]) -> list[_Line]:
    return [_Line(suite=OVERALL_ROW, cells=readings)] if len(found.suites) > 1 else []


def price_text(reading: Reading) -> str:
    """Write dollars per accuracy point with their interval."""
    if isinstance(reading, NotEstimable):
        return missing_text(reading)
    low, high = (money_text(end) if end is not None else "–" for end in source_ends(reading))
    return f"{money_text(reading.value)} [{low}, {high}]"


def tests_table(found: AcrossSuites) -> FilledTable[str]:
    """Tests × suites, the calls of all judges together."""

    def column(suite: SuiteReadings) -> Column[str]:
        return Column(suite.name, lambda test: reading_cell(suite.tests.get(test)))

    tests = sorted({test for suite in found.suites for test in suite.tests})
    first: Column[str] = Column("test", axis_name)
    return Table((first, *map(column, found.suites)))(tests)


def further_table(found: AcrossSuites) -> FilledTable[tuple[str, str, Mapping[str, Reading]]]:
    """Errors of either kind of two labels; of a scale how near the answers are."""
    rows = [(suite.name, name, own.further) for suite in found.suites for name, own in suite.judges.items()]
    known = [name for name in FURTHER if any(name in row[2] for row in rows)]

    def column(name: str) -> Column[tuple[str, str, Mapping[str, Reading]]]:
        head = name if name == "proximity" else statistic_name(name)
        return Column(head, lambda row: reading_cell(row[2].get(name)))

    first: list[Column[Any]] = [Column("suite", lambda row: row[0]), Column("judge", lambda row: row[1])]
    return Table((*first, *map(column, known)))(row for row in rows if row[2])


ReviewRow = tuple[str, str, str, Mapping[str, int]]
"""Suite, test, message or `all`, and how often each state was decided."""


def _of_all(state: str, row: ReviewRow) -> str:
    n, k = sum(row[3].values()), row[3].get(state, 0)
    low, high = wilson(k, n)
    return f"{k}/{n} [{low:.2f}, {high:.2f}]"


TrioRow = tuple[str, str, Mapping[str, Reading], float | None]
"""Suite, judges, readings and dollars of 1,000 judgments."""


def _trio_column(axis: str, head: str) -> Column[TrioRow]:
    def value(row: TrioRow) -> float | None:
        return reading.value if isinstance(reading := row[2].get(axis), Estimate) else None

    return Column(head, lambda row: reading_cell(row[2].get(axis)), value=value, name=axis, brief=True)


TRIOS: Table[TrioRow] = Table.of(
    Column("suite", lambda row: row[0], value=lambda row: row[0], brief=True),
    Column("trio", lambda row: row[1], value=lambda row: row[1], words=True, brief=True),
    *map(_trio_column, (ACCURACY, "fpr", "fnr"), (ACCURACY, "FPR", "FNR")),
    Column("n", lambda row: n_text([row[2][ACCURACY]])),
    Column("$ per 1,000", lambda row: money_text(row[3]), value=lambda row: row[3], name="usd_per_1k"),
)
REVIEWS: Table[ReviewRow] = Table.of(
    Column("suite", lambda row: row[0]),
    Column("test", lambda row: axis_name(row[1])),
    Column("message", lambda row: row[2]),
    *(Column(state, partial(_of_all, state)) for state in _STATES),
)


def trio_rows(found: AcrossSuites, *, in_sample: bool = True) -> list[TrioRow]:
    """Return what choosing the best trio of a suite is worth, then trios in sample."""
    rows: list[TrioRow] = []
    for suite in found.suites:
        if isinstance(suite.best, BestPanel):
            best = f"best of {len(suite.best.tried)}: {', '.join(suite.best.panel)}"
            rows.append((suite.name, best, suite.best.readings, suite.best.usd_per_1k))
        if in_sample or not isinstance(suite.best, BestPanel):
            rows += [(suite.name, ", ".join(trio.panel), trio.readings, trio.usd_per_1k) for trio in suite.trios]
    return rows


def review_rows(found: AcrossSuites) -> list[ReviewRow]:
    """Count what reviewers decided, by test and, of transcripts, by the first message that was changed."""
    counts: dict[tuple[str, str, str], dict[str, int]] = {}
    for suite in found.suites:
        for row in (row for row in suite.reviews if row["state"] in _STATES):
            places = ["all"] if row.get("message") is None else ["all", f"{row['message']}"]
            for place in places:
                own = counts.setdefault((suite.name, str(row["test"]), place), {})
                own[str(row["state"])] = own.get(str(row["state"]), 0) + int(row["n"])
    return [(*place, own) for place, own in counts.items()]


def report_page(
    found: AcrossSuites,
    verdict: Verdict,
    *,
    title: str,
    notes: Sequence[str] = (),
    runs: Runs = MappingProxyType({}),
) -> Page:
    """Return suites × judges, tests × suites, dollars, trios, errors, the reference and the review."""
    no_trio = [
        f"{suite.name}, best trio: n/a ({suite.best.reason})."
        for suite in found.suites
        if isinstance(suite.best, NotEstimable)
    ]
    reads = {suite.read_by for suite in found.suites} - {"all/accuracy"}
    read_by = [f"{suite.name} is read by {axis_name(suite.read_by)}." for suite in found.suites if reads]
    below = (
        f"Accuracy of {found.reference} minus that of each judge, on the calls that both answered: above 0 is below it."
    )
    return Page.saying(
        verdict,
        f"Definitions: {found.definitions}.",
        title=title,
        notes=notes,
        sections=[
            Section(
                heading="Suites and judges", blocks=[accuracy_table(found, runs), _HOW, *read_by, *_no_overall(found)]
            ),
            Section(heading="Mean over tests", blocks=[accuracy_table(found, runs, by_test=True), _MEAN]),
            Section(heading="Tests and suites", blocks=[tests_table(found), _TESTS]),
            Section(
                heading="Dollars per accuracy point", blocks=[price_table(found), _PRICES[found.definitions == PAPER]]
            ),
            Section(heading="Below the reference judge", blocks=[shortfall_table(found), below]),
            Section(
                heading="Trios",
                blocks=[
                    Only(("html", "markdown"), TRIOS(trio_rows(found))),
                    Only(("text",), TRIOS(trio_rows(found, in_sample=False))),
                    _TRIOS,
                    *no_trio,
                ],
            ),
            Section(heading="Errors and distance", blocks=[further_table(found)]),
            Section(heading="What reviewers decided", blocks=[REVIEWS(review_rows(found))]),
            closing_section(verdict.sentences[0]),
        ],
    )


def _no_overall(found: AcrossSuites) -> list[str]:
    reasons = {name: reading.reason for name, reading in found.overall.items() if isinstance(reading, NotEstimable)}
    if len(found.suites) < 2:
        return []
    return [f"{name} has no overall number: {reason}." for name, reason in reasons.items()]


def report_cells(found: AcrossSuites) -> Iterator[tuple[str, str, str, Reading]]:
    """Return every reading with its suite, judge and axis; the judge is empty where all are meant."""
    for suite in found.suites:
        for name, own in suite.judges.items():
            yield suite.name, name, ACCURACY, own.accuracy
            yield suite.name, name, MEAN_SCORE, own.mean
            yield suite.name, name, "usd_per_accuracy_point", own.price
            yield from ((suite.name, name, axis, reading) for axis, reading in own.further.items())
            yield from ((suite.name, name, f"score/{test}", reading) for test, reading in own.scores.items())
            if own.shortfall is not None:
                yield suite.name, name, "below_reference", own.shortfall
        yield from ((suite.name, "", f"score/{test}", reading) for test, reading in suite.tests.items())
    for name, reading in found.overall.items() if len(found.suites) > 1 else ():
        yield OVERALL_ROW, name, ACCURACY, reading
        yield OVERALL_ROW, name, MEAN_SCORE, found.means[name]
        yield OVERALL_ROW, name, "usd_per_accuracy_point", found.prices[name]


def report_tables(found: AcrossSuites) -> dict[str, pd.DataFrame]:
    """Return every reading as one table, and the trios."""
    readings = named_readings("suite", "judge", "axis")(report_cells(found))
    return filled_frames({"readings": readings, "trios": TRIOS(trio_rows(found))})


def report_points(found: AcrossSuites) -> list[keys.Point]:
    """Spell accuracy and dollars per accuracy point, by suite and judge: `report/accuracy/overall/gpt_4o/rate`."""
    suites = {**keys.category_names(suite.name for suite in found.suites), OVERALL_ROW: "overall"}
    judges = keys.category_names(found.judges)
    counts = {"report/n_suites": len(found.suites), "report/n_judges": len(found.judges)}
    points = keys.known_points(counts)
    for suite, judge, axis, reading in report_cells(found):
        if judge and axis in (ACCURACY, MEAN_SCORE, "usd_per_accuracy_point"):
            points += keys.reading_points(f"report/{axis}/{suites[suite]}/{judges[judge]}", reading)
    return points


def report_verdict(found: AcrossSuites) -> Verdict:
    """Say who is right most often over the suites and who does not differ from it, the hardest test, and dollars."""
    sentences = [_leading(found), *_hardest(found), *_cheapest(found), *_best_trio(found)]
    return Verdict(sentences=tuple(sentences[:4]))


def _leading(found: AcrossSuites) -> str:
    n = len(found.suites)
    if n < 2:
        return f"There is one suite, {plain_name(found.suites[0].name)}: `jrh compare` says which of its judges to use."
    if found.leader is None:
        return f"No two judges have an accuracy on all {n} suites: look at each suite by itself."
    leader = f"{short_name(found.leader)} ({reading_text(found.overall[found.leader])})"
    over = f"Over {n} suites that weigh the same"
    if not found.rivals:
        return f"{over}, {leader} is right more often than every other judge."
    rivals = [f"{short_name(name)} ({reading_text(found.overall[name])})" for name in found.rivals]
    more = [f"{len(rivals) - _MOST_RIVALS} more"] if len(rivals) > _MOST_RIVALS else []
    others = " or ".join([*rivals[:_MOST_RIVALS], *more])
    return f"{over}, {leader} reads highest, and does not differ significantly from {others}."


def _hardest(found: AcrossSuites) -> list[str]:
    tests = [
        (reading.value, suite.name, test, reading)
        for suite in found.suites
        for test, reading in suite.tests.items()
        if isinstance(reading, Estimate)
    ]
    if not tests:
        return []
    _, suite, test, reading = min(tests, key=lambda row: row[:3])
    where = f"{plain_name(axis_name(test))} of {plain_name(suite)}"
    return [f"The lowest score of all judges together is on {where}: {reading_text(reading)}."]


def _cheapest(found: AcrossSuites) -> list[str]:
    prices = {name: reading for name, reading in found.prices.items() if isinstance(reading, Estimate)}
    if len(prices) < 2:
        return []
    low, *_, high = sorted(prices, key=lambda name: prices[name].value)
    ends = [f"{price_text(prices[name])} with {short_name(name)}" for name in (low, high)]
    return [f"A point of accuracy costs {' and '.join(ends)}."]


def _best_trio(found: AcrossSuites) -> list[str]:
    best = [(suite.name, suite.best) for suite in found.suites if isinstance(suite.best, BestPanel)]
    for name, panel in best:
        if len(panel.tried) > 1:
            trio = f"On {plain_name(name)} the best trio is {', '.join(map(short_name, panel.panel))}"
            return [f"{trio}: {reading_text(panel.accuracy)}, read where it was not chosen."]
    return []
