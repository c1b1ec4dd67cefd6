"""What people see of several suites side by side: tables, page, keys and verdict, each declared once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from jrh_mlflow.comparing.across_suites import (
    ACCURACY,
    FURTHER,
    AcrossSuites,
    JudgeOnSuite,
    LanguageReading,
    SuiteReadings,
)
from jrh_mlflow.comparing.comparison import Contrasts
from jrh_mlflow.comparing.comparison_view import (
    filled_frames,
    letters_text,
    n_text,
    named_readings,
    scores_table,
    spread_table,
)
from jrh_mlflow.comparing.jury.panels import BestPanel
from jrh_mlflow.comparing.recommendation import closing_section, short_name
from jrh_mlflow.perturb.languages import language_names
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.schema.items import PAPER
from jrh_mlflow.show.html import FROM_RUN
from jrh_mlflow.show.names import axis_name, statistic_name
from jrh_mlflow.show.numbers import missing_text, money_text, reading_text, source_ends, with_interval
from jrh_mlflow.show.page import Only, Page, Section
from jrh_mlflow.show.plain_text import plain_name
from jrh_mlflow.show.tables import Cell, Column, FilledTable, Table, reading_cell
from jrh_mlflow.stats.proportions import wilson
from jrh_mlflow.tracking.runs import keys

if TYPE_CHECKING:
    import pandas as pd

OVERALL_ROW = "Overall"
MEAN_SCORE = "mean_over_tests"
PRICE = "usd_per_accuracy_point"
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
_LANGUAGES = (
    "Share of calls that choose the better content on the plain and on the matched ladder, on the tasks that all "
    "suites have. The gap between them is compared with the same judge's gap in English, task by task."
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


def _suites_table(
    across: AcrossSuites,
    read: Callable[[JudgeOnSuite], Reading | None],
    overall: Mapping[str, Reading],
    *,
    always: bool = False,
    write: Callable[[Reading], str | Cell] = reading_cell,
    runs: Runs = MappingProxyType({}),
) -> FilledTable[_Line]:
    """Suites × judges, and the row over all suites; empty without any number unless `always`."""

    def column(judge: str) -> Column[_Line]:
        def cell(line: _Line) -> str | Cell:
            return write(line.cells[judge]) if judge in line.cells else "–"

        def link(line: _Line) -> str | None:
            run = runs.get((line.suite, judge))
            return FROM_RUN.run(run) if run else None

        return Column(judge, cell, link=link)

    lines = []
    for suite in across.suites:
        cells = {name: reading for name, judge in suite.judges.items() if (reading := read(judge)) is not None}
        if cells:
            lines.append(_Line(suite=suite.name, cells=cells))
    known = any(isinstance(reading, Estimate) for line in lines for reading in line.cells.values())
    if not known and not always:
        lines = []
    elif overall and len(across.suites) > 1:
        lines.append(_Line(suite=OVERALL_ROW, cells=overall))
    return Table(
        (
            Column("suite", lambda line: line.suite),
            *map(column, across.judges),
            Column("n", lambda line: n_text(line.cells.values())),
        )
    )(lines)


def accuracy_table(across: AcrossSuites, runs: Runs = MappingProxyType({})) -> FilledTable[_Line]:
    """Suites × judges, and the mean over suites: calls that are right."""
    return _suites_table(across, lambda judge: judge.accuracy, across.overall, always=True, runs=runs)


def mean_table(across: AcrossSuites) -> FilledTable[_Line]:
    """Suites × judges, and the mean over suites: the mean over tests."""
    return _suites_table(across, lambda judge: judge.mean, across.means)


def price_table(across: AcrossSuites) -> FilledTable[_Line]:
    """Suites × judges in dollars per accuracy point, and over all suites; empty where no price is known."""
    return _suites_table(across, lambda judge: judge.price, across.prices, write=price_text)


def shortfall_table(across: AcrossSuites) -> FilledTable[_Line]:
    """Suites × judges: how far below the reference; empty without one."""
    return _suites_table(across, lambda judge: judge.shortfall, {}, always=True)


def price_text(reading: Reading) -> str:
    """Write dollars per accuracy point with their interval."""
    if isinstance(reading, NotEstimable):
        return missing_text(reading)
    low, high = (money_text(end) if end is not None else "–" for end in source_ends(reading))
    return f"{money_text(reading.value)} [{low}, {high}]"


def tests_table(across: AcrossSuites) -> FilledTable[str]:
    """Tests × suites, the calls of all judges together."""

    def column(suite: SuiteReadings) -> Column[str]:
        return Column(suite.name, lambda test: reading_cell(suite.tests.get(test)))

    tests = sorted({test for suite in across.suites for test in suite.tests})
    first: Column[str] = Column("test", axis_name)
    return Table((first, *map(column, across.suites)))(tests)


FurtherRow = tuple[str, str, Mapping[str, Reading]]
"""Suite, judge and its further readings."""


def further_table(across: AcrossSuites) -> FilledTable[FurtherRow]:
    """Errors of either kind of two labels; of a scale how near the answers are."""
    rows = [(suite.name, name, judge.further) for suite in across.suites for name, judge in suite.judges.items()]
    known = [name for name in FURTHER if any(name in row[2] for row in rows)]

    def column(name: str) -> Column[FurtherRow]:
        head = name if name == "proximity" else statistic_name(name)
        return Column(head, lambda row: reading_cell(row[2].get(name)))

    first: list[Column[FurtherRow]] = [Column("suite", lambda row: row[0]), Column("judge", lambda row: row[1])]
    return Table((*first, *map(column, known)))(row for row in rows if row[2])


TrioRow = tuple[str, str, Mapping[str, Reading], float | None]
"""Suite, judges, readings and dollars of 1,000 judgments."""


def _trio_column(axis: str, head: str) -> Column[TrioRow]:
    def value(row: TrioRow) -> float | None:
        reading = row[2].get(axis)
        return reading.value if isinstance(reading, Estimate) else None

    return Column(head, lambda row: reading_cell(row[2].get(axis)), value=value, name=axis, brief=True)


TRIOS: Table[TrioRow] = Table.of(
    Column("suite", lambda row: row[0], value=lambda row: row[0], brief=True),
    Column("trio", lambda row: row[1], value=lambda row: row[1], words=True, brief=True),
    _trio_column(ACCURACY, ACCURACY),
    _trio_column("fpr", "FPR"),
    _trio_column("fnr", "FNR"),
    Column("n", lambda row: n_text([row[2][ACCURACY]])),
    Column("$ per 1,000", lambda row: money_text(row[3]), value=lambda row: row[3], name="usd_per_1k"),
)


def trio_rows(across: AcrossSuites, *, in_sample: bool = True) -> list[TrioRow]:
    """Return what choosing the best trio of a suite is worth, then trios in sample."""
    rows: list[TrioRow] = []
    for suite in across.suites:
        best = suite.best
        if isinstance(best, BestPanel):
            name = f"best of {len(best.tried)}: {', '.join(best.panel)}"
            rows.append((suite.name, name, best.readings, best.usd_per_1k))
        if in_sample or not isinstance(best, BestPanel):
            rows += [(suite.name, ", ".join(trio.panel), trio.readings, trio.usd_per_1k) for trio in suite.trios]
    return rows


ReviewRow = tuple[str, str, str, Mapping[str, int]]
"""Suite, test, message or `all`, and how often each state was decided."""


def _of_all(state: str, row: ReviewRow) -> str:
    n = sum(row[3].values())
    k = row[3].get(state, 0)
    low, high = wilson(k, n)
    return f"{k}/{n} [{low:.2f}, {high:.2f}]"


REVIEWS: Table[ReviewRow] = Table.of(
    Column("suite", lambda row: row[0]),
    Column("test", lambda row: axis_name(row[1])),
    Column("message", lambda row: row[2]),
    *(Column(state, partial(_of_all, state)) for state in _STATES),
)


def review_rows(across: AcrossSuites) -> list[ReviewRow]:
    """Count what reviewers decided, by test and, of transcripts, by the first message that was changed."""
    counts: dict[tuple[str, str, str], dict[str, int]] = {}
    for suite in across.suites:
        for row in suite.reviews:
            state = str(row["state"])
            if state not in _STATES:
                continue
            message = row.get("message")
            for place in ["all"] if message is None else ["all", str(message)]:
                by_state = counts.setdefault((suite.name, str(row["test"]), place), {})
                by_state[state] = by_state.get(state, 0) + int(row["n"])
    return [(*place, by_state) for place, by_state in counts.items()]


LANGUAGES_TABLE: Table[LanguageReading] = Table.of(
    Column("judge", lambda row: row.judge, brief=True),
    Column("suite", lambda row: row.suite),
    Column("language", lambda row: language_names(row.language), brief=True),
    Column("tasks", lambda row: f"{row.n_tasks}"),
    Column("plain ladder", lambda row: with_interval(row.ladder), brief=True),
    Column("matched ladder", lambda row: with_interval(row.matched), brief=True),
    Column("reading gap [95 % by task]", lambda row: with_interval(row.gap), brief=True),
    Column("beyond English [95 % by task]", lambda row: with_interval(row.beyond_english), brief=True),
    Column("checked", lambda row: row.checked),
)


def suites_page(
    across: AcrossSuites,
    contrasts: Mapping[str, Contrasts],
    verdict: Verdict,
    *,
    title: str,
    notes: Sequence[str] = (),
    runs: Runs = MappingProxyType({}),
) -> Page:
    """Return suites × judges, a table per suite, tests × suites, dollars, trios, errors, the reference and the review.

    Args:
        across: The numbers.
        contrasts: Suite to how its judges differ.
        verdict: What to say first.
        title: Of the page.
        notes: What to know first.
        runs: Where the cells of the first table lead.
    """
    no_trio = [
        f"{suite.name}, best trio: n/a ({suite.best.reason})."
        for suite in across.suites
        if isinstance(suite.best, NotEstimable)
    ]
    read_by = []
    if {suite.read_by for suite in across.suites} != {"all/accuracy"}:
        read_by = [f"{suite.name} is read by {axis_name(suite.read_by)}." for suite in across.suites]
    below = (
        f"Accuracy of {across.reference} minus that of each judge, on the calls that both answered: above 0 is below "
        "it."
    )
    prices = _PRICES[across.definitions == PAPER]
    return Page.saying(
        verdict,
        f"Definitions: {across.definitions}.",
        title=title,
        notes=notes,
        sections=[
            Section(
                heading="Suites and judges",
                blocks=[accuracy_table(across, runs), _HOW, *read_by, *_no_overall(across)],
            ),
            Section(heading="Mean over tests", blocks=[mean_table(across), _MEAN]),
            Section(heading="Tests and suites", blocks=[tests_table(across), _TESTS]),
            *(_suite_section(suite, found) for suite, found in contrasts.items()),
            Section(heading="Dollars per accuracy point", blocks=[price_table(across), prices]),
            Section(heading="Below the reference judge", blocks=[shortfall_table(across), below]),
            Section(
                heading="Trios",
                blocks=[
                    Only(("html", "markdown"), TRIOS(trio_rows(across))),
                    Only(("text",), TRIOS(trio_rows(across, in_sample=False))),
                    _TRIOS,
                    *no_trio,
                ],
            ),
            Section(heading="Errors and distance", blocks=[further_table(across)]),
            Section(heading="Reading gap by language", blocks=[LANGUAGES_TABLE(across.languages), _LANGUAGES]),
            Section(heading="What reviewers decided", blocks=[REVIEWS(review_rows(across))]),
            closing_section(verdict.sentences[0]),
        ],
    )


def _suite_section(suite: str, contrasts: Contrasts) -> Section:
    """Show the judges of one suite on every axis; they are tested against each other within the suite only."""
    spread = spread_table("axis", contrasts.summaries["by_test"], axes=True)
    return Section(
        heading=f"Judges on {suite}",
        blocks=[
            f"{contrasts.told}. {letters_text(contrasts)}",
            scores_table(contrasts),
            Only(("html", "markdown"), spread),
        ],
    )


def _no_overall(across: AcrossSuites) -> list[str]:
    if len(across.suites) < 2:
        return []
    missing = {name: reading for name, reading in across.overall.items() if isinstance(reading, NotEstimable)}
    return [f"{name} has no overall number: {reading.reason}." for name, reading in missing.items()]


def suites_readings(across: AcrossSuites) -> Iterator[tuple[str, str, str, Reading]]:
    """Return every reading with its suite, judge and axis; the judge is empty where all are meant."""
    for suite in across.suites:
        for name, judge in suite.judges.items():
            yield suite.name, name, ACCURACY, judge.accuracy
            yield suite.name, name, MEAN_SCORE, judge.mean
            yield suite.name, name, PRICE, judge.price
            for axis, reading in judge.further.items():
                yield suite.name, name, axis, reading
            for test, reading in judge.scores.items():
                yield suite.name, name, f"score/{test}", reading
            if judge.shortfall is not None:
                yield suite.name, name, "below_reference", judge.shortfall
        for test, reading in suite.tests.items():
            yield suite.name, "", f"score/{test}", reading
    if len(across.suites) > 1:
        for name, reading in across.overall.items():
            yield OVERALL_ROW, name, ACCURACY, reading
            yield OVERALL_ROW, name, MEAN_SCORE, across.means[name]
            yield OVERALL_ROW, name, PRICE, across.prices[name]
    for row in across.languages:
        yield row.suite, row.judge, "reading_gap", row.gap
        yield row.suite, row.judge, "reading_gap_beyond_english", row.beyond_english


def suites_tables(across: AcrossSuites) -> dict[str, pd.DataFrame]:
    """Return every reading as one table, and the trios."""
    readings = named_readings("suite", "judge", "axis")(suites_readings(across))
    return filled_frames({"readings": readings, "trios": TRIOS(trio_rows(across))})


def suites_points(across: AcrossSuites) -> list[keys.Point]:
    """Spell accuracy and dollars per accuracy point, by suite and judge: `compare/accuracy/overall/gpt_4o/rate`."""
    suites = {**keys.category_names(suite.name for suite in across.suites), OVERALL_ROW: "overall"}
    judges = keys.category_names(across.judges)
    points = keys.known_points({"compare/suites": len(across.suites), "compare/judges": len(across.judges)})
    for suite, judge, axis, reading in suites_readings(across):
        if judge and axis in (ACCURACY, MEAN_SCORE, PRICE):
            points += keys.reading_points(f"compare/{axis}/{suites[suite]}/{judges[judge]}", reading)
    return points


def suites_verdict(across: AcrossSuites) -> Verdict:
    """Say who is right most often over the suites and who does not differ from it, the hardest test, and dollars."""
    sentences = [_leading(across), *_hardest(across), *_cheapest(across), *_best_trio(across)]
    return Verdict(sentences=tuple(sentences[:4]))


def _leading(across: AcrossSuites) -> str:
    n = len(across.suites)
    if n < 2:
        return f"There is one suite, {plain_name(across.suites[0].name)}: `jrh compare` says which judge to use."
    if across.leader is None:
        return f"No two judges have an accuracy on all {n} suites: look at each suite by itself."
    leader = f"{short_name(across.leader)} ({reading_text(across.overall[across.leader])})"
    over = f"Over {n} suites that weigh the same"
    if not across.rivals:
        return f"{over}, {leader} is right more often than every other judge."
    rivals = [f"{short_name(name)} ({reading_text(across.overall[name])})" for name in across.rivals]
    named = rivals[:_MOST_RIVALS]
    if len(rivals) > _MOST_RIVALS:
        named.append(f"{len(rivals) - _MOST_RIVALS} more")
    return f"{over}, {leader} reads highest, and does not differ significantly from {' or '.join(named)}."


def _hardest(across: AcrossSuites) -> list[str]:
    tests = [
        (reading.value, suite.name, test, reading)
        for suite in across.suites
        for test, reading in suite.tests.items()
        if isinstance(reading, Estimate)
    ]
    if not tests:
        return []
    _, suite, test, reading = min(tests, key=lambda row: row[:3])
    where = f"{plain_name(axis_name(test))} of {plain_name(suite)}"
    return [f"The lowest score of all judges together is on {where}: {reading_text(reading)}."]


def _cheapest(across: AcrossSuites) -> list[str]:
    prices = {name: reading for name, reading in across.prices.items() if isinstance(reading, Estimate)}
    if len(prices) < 2:
        return []
    low, *_, high = sorted(prices, key=lambda name: prices[name].value)
    ends = [f"{price_text(prices[name])} with {short_name(name)}" for name in (low, high)]
    return [f"A point of accuracy costs {' and '.join(ends)}."]


def _best_trio(across: AcrossSuites) -> list[str]:
    for suite in across.suites:
        best = suite.best
        if isinstance(best, BestPanel) and len(best.tried) > 1:
            trio = f"On {plain_name(suite.name)} the best trio is {', '.join(map(short_name, best.panel))}"
            return [f"{trio}: {reading_text(best.accuracy)}, read where it was not chosen."]
    return []
