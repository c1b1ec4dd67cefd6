"""What people see of a comparison and what MLflow is told: tables, figures, page and keys, each declared once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jrh_mlflow.comparing.comparison import ORDINAL_METRICS, Contrasts, Difference
from jrh_mlflow.comparing.recommendation import better_first, closing_section, named_judges, recommendation, short_name
from jrh_mlflow.measures.axes import find, lower_is_better
from jrh_mlflow.measures.behind import has_calls
from jrh_mlflow.measures.reliability import OVERALL, WorstItem
from jrh_mlflow.perturb.registry import expectation_of
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.schema.items import BASELINE
from jrh_mlflow.show import numbers
from jrh_mlflow.show.figures.datasheet import CallsOf, no_calls, planes
from jrh_mlflow.show.figures.reliability import cost_curve, heatmap
from jrh_mlflow.show.html import Addresses, kept, render_part
from jrh_mlflow.show.names import axis_guide, axis_meaning, axis_name, statistic_name
from jrh_mlflow.show.page import Drawing, Navigation, Only, Page, Section
from jrh_mlflow.show.tables import Cell, Column, FilledTable, Medium, Row, Table, field_column, reading_cell
from jrh_mlflow.text import shortened_name
from jrh_mlflow.tracking.runs import keys

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup

    from jrh_mlflow.show.figures.canvas import Figure

_MOST_DIFFERENCES = 30
"""In Markdown; past it only those that were told apart are listed. The table and the JSON have all."""
_SCORES_TEXT = "In brackets the clustered interval, 95 %, sources (tasks) as clusters; (−2): units left out."
_MOST_TOLD = 10
"""Differences on a terminal."""
_DETAILS: tuple[Medium, ...] = ("html", "markdown")
"""Where there is room for everything."""
_OPEN_ROWS = 40
"""Longer tables of differences start folded."""
_DETECTABLE = "Detectable: a true difference of this size would be significant with a chance of 80 %."


def how_decided(comparison: Contrasts) -> list[str]:
    """Say what the letters, p-values, detectable differences and equivalences mean, in plain words."""
    alpha, margin = f"{comparison.alpha:g}", f"{comparison.margin:g}"
    against = "with the baseline " if comparison.baseline else ""
    exploratory = "The other axes are exploratory: adjusted over all differences, and never called significant. "
    return [
        f"Units of one source (task) are not independent, so p is a sign-flip test on whole sources. P adjusted "
        f"takes all comparisons {against}on the deciding axes together (step-down max-T): the chance that any two "
        f"judges that do not differ get a significant difference is at most {alpha}. "
        f"{exploratory if len(comparison.deciding) < len(comparison.differences) else ''}"
        "McNemar's mid-p takes units as independent and decides nothing.",
        "Detectable: a true difference of this size would be significant with a chance of 80 %, one under it may be "
        "there and not be found; none: with so few sources no difference would be. Equivalent: shown to differ by "
        f"less than {margin}, either way (two one-sided tests at {alpha}, each pair by itself). Neither significant "
        "nor equivalent: not enough sources to say.",
    ]


def letters_text(comparison: Contrasts) -> str:
    """Say how to read the letters, or why there are none."""
    if comparison.baseline:
        return "Judges are compared with the baseline only, so they have no letters."
    if not comparison.letters:
        return "No letters: no two judges differ significantly on a deciding axis."
    return "Judges that share a letter do not differ significantly; a is with the best. No letters: none differ there."


def _detectable_range(differences: Sequence[Difference]) -> str:
    """Spell the smallest and the largest of what could have been found."""
    if not differences:
        return "not compared"
    # `none`, where no difference would be found, is the far end of the range.
    known = sorted(difference.detectable for difference in differences if difference.detectable is not None)
    ends = [detectable_text(known[0]), detectable_text(known[-1])] if known else []
    ends += [detectable_text(None)] if len(known) < len(differences) else []
    return " to ".join(dict.fromkeys((ends[0], ends[-1])))


def detectable_text(detectable: float | None) -> str:
    """Spell the smallest difference that would be told apart; rounded up, so that it is not promised too much."""
    # 100 * 0.07 is a little over 7 for a computer, and must not become 0.08.
    return "none" if detectable is None else f"{math.ceil(100 * detectable - 1e-9) / 100:.2f}"


def axis_text(axis: str) -> str:
    """Name an axis, saying when a low score is the good one."""
    return f"{axis_name(axis)} (lower is better)" if lower_is_better(axis) else axis_name(axis)


@dataclass(frozen=True, slots=True)
class Listed:
    """A difference in a table."""

    difference: Difference
    names: Mapping[str, str]
    """What data frames call judges, where not as in the comparison: run ids where names repeat."""
    links: JudgeLinks | None = None

    def named(self, judge: str) -> str:
        """Return what a data frame calls a judge."""
        return self.names.get(judge, judge)

    @property
    def judges(self) -> Cell:
        """The two judges, each of which leads to its calls on a served page."""
        pair = self.difference
        a, b = ((self.links.calls(judge, pair.axis) if self.links else None) or "" for judge in (pair.a, pair.b))
        text = f"{pair.a} − {pair.b}"
        return Cell(text, links=((pair.a, a), (" − ", ""), (pair.b, b))) if a or b else Cell(text)

    @property
    def short_judges(self) -> str:
        """The two judges, each cut to fit on a terminal unless that makes them alike; notes say who is simulated."""
        names = [name.removesuffix(" (simulated)") for name in (self.difference.a, self.difference.b)]
        short = [shortened_name(name, most=22) for name in names]
        return " − ".join(names if short[0] == short[1] else short)


def _told_text(row: Listed) -> str:
    """Say whether a difference is told apart; an exploratory one is not asked."""
    state = "yes" if row.difference.told_apart else "no"
    return "exploratory" if row.difference.family == "exploratory" else state


DIFFERENCES: Table[Listed] = Table.of(
    field_column("difference.axis", axis_text, brief=True),
    Column("judges", lambda row: row.judges, short=lambda row: row.short_judges, words=True, brief=True),
    Column("a", value=lambda row: row.named(row.difference.a)),
    Column("b", value=lambda row: row.named(row.difference.b)),
    Column(
        "difference",
        lambda row: numbers.number_text(row.difference.value, signed=True),
        value=lambda row: row.difference.value,
        brief=True,
    ),
    Column("95 % by source", lambda row: numbers.interval_text(row.difference.low, row.difference.high), brief=True),
    field_column("difference.low"),
    field_column("difference.high"),
    field_column("difference.p", numbers.p_text, brief=True),
    field_column("difference.p_adjusted", numbers.p_text, head="p adjusted", brief=True),
    Column("significant", _told_text, value=lambda row: row.difference.told_apart, name="told_apart"),
    field_column("difference.n", "{:,}".format, brief=True),
    field_column("difference.n_clusters", "{:,}".format, head="sources"),
    field_column("difference.family"),
    field_column("difference.p_mcnemar", numbers.p_text, head="McNemar mid-p"),
    field_column("difference.detectable", detectable_text),
    field_column("difference.equivalent", lambda shown: "yes" if shown else "not shown"),
    Column("equivalence_low", value=lambda row: (row.difference.equivalence or (None, None))[0]),
    Column("equivalence_high", value=lambda row: (row.difference.equivalence or (None, None))[1]),
    field_column("difference.method"),
)
"""Two judges on an axis, in every medium."""


def differences_table(
    differences: Sequence[Difference],
    *,
    names: Mapping[str, str] = MappingProxyType({}),
    links: JudgeLinks | None = None,
) -> FilledTable[Listed]:
    """List differences: a minus b, its interval, p-values, and whether it is told apart."""
    rows = (Listed(difference, names, links) for difference in differences)
    return DIFFERENCES(rows, tone=lambda row: "told" if row.difference.told_apart else "")


def findings_table(comparison: Contrasts) -> FilledTable[Any]:
    """Show each deciding axis with its pairs told apart, what could have been found, and its equivalent pairs."""
    rows = [(axis, [pair for pair in comparison.deciding if pair.axis == axis]) for axis in comparison.primary]
    table: Table[tuple[str, list[Difference]]] = Table.of(
        Column("deciding axis", lambda row: axis_text(row[0])),
        Column("significant pairs", lambda row: f"{sum(pair.told_apart for pair in row[1])} of {len(row[1])}"),
        Column("detectable", lambda row: _detectable_range(row[1])),
        Column(
            f"equivalent within ±{comparison.margin:g}",
            lambda row: f"{sum(pair.equivalent for pair in row[1])} of {len(row[1])}",
        ),
    )
    return table(rows)


Spread = tuple[str, Mapping[str, float | None]]


def spread_table(
    first: str, rows: Mapping[str, Mapping[str, float | None]], *, axes: bool = False
) -> FilledTable[Spread]:
    """Show n, mean, standard deviation, least and largest of each row."""
    named = axis_name if axes else str

    def column(name: str) -> Column[Spread]:
        write = "{:g}".format if name == "n" else numbers.number_text
        return Column(name, lambda row: write(row[1][name]), value=lambda row: row[1][name])

    table: Table[Spread] = Table.of(
        Column(first, lambda row: named(row[0]), value=lambda row: row[0]),
        *(column(name) for name in ("n", "mean", "sd", "min", "max")),
    )
    return table(rows.items())


def ordinal_table(comparison: Contrasts) -> FilledTable[Any]:
    """Show how near the answers are to the expected levels, of each test and judge."""
    table: Table[tuple[str, str, Mapping[str, Reading]]] = Table.of(
        Column("test", lambda row: axis_name(row[0])),
        Column("judge", lambda row: row[1], words=True),
        *(Column(statistic_name(name), partial(_metric_text, name)) for name in ORDINAL_METRICS),
        Column("n", lambda row: n_text(row[2].values())),
    )
    return table((axis, name, row) for axis, judges in comparison.ordinal.items() for name, row in judges.items())


def _metric_text(name: str, row: tuple[str, str, Mapping[str, Reading]]) -> str:
    return numbers.cell_text(row[2][name]) if name in row[2] else "n/a"


def judges_table(
    comparison: Contrasts, cards: Sequence[JudgeCard] = (), links: JudgeLinks | None = None
) -> FilledTable[JudgeCard]:
    """Show what the calls of each judge cost, and where its run is."""
    means = comparison.cells.get(OVERALL, {})

    def dollars(head: str, name: str) -> Column[JudgeCard]:
        def value(card: JudgeCard) -> float | None:
            return comparison.costs[card.name][name]

        return Column(head, lambda card: numbers.money_text(value(card)), value=value, name=name)

    columns: list[Column[JudgeCard]] = [
        Column(
            "judge",
            lambda card: Cell(card.name, below=(f"truncated: {card.truncated}",) if card.truncated else ()),
            value=lambda card: card.name,
            link=lambda card: links.datasheet(card.name) if links else None,
        ),
        dollars("dollars", "usd"),
        dollars("per accuracy point", "usd_per_accuracy_point"),
    ]
    if means:
        letters = partial(comparison.letters_of, OVERALL)
        columns.append(Column(axis_name(OVERALL), lambda card: numbers.cell_text(means[card.name], letters(card.name))))
    if cards:
        columns += [
            Column("calls", lambda card: f"{card.n_calls:,}"),
            Column(
                "run",
                lambda card: Cell(card.run_id, tone="mono"),
                link=lambda card: links.mlflow(card.name) if links else None,
            ),
        ]
    unknown = (JudgeCard(name=name, run_id="", n_calls=0) for name in comparison.judges)
    return Table(tuple(columns))(cards or unknown)


def scores_table(comparison: Contrasts, *, links: JudgeLinks | None = None) -> FilledTable[str]:
    """Show every judge on every axis with its letters, the deciding axes first."""
    cells = comparison.cells
    table: Table[str] = Table.of(
        Column("axis", lambda axis: Cell(axis_text(axis), hover=_meaning_text(axis)), html=_axis_html),
        *(_judge_column(comparison, judge, links) for judge in comparison.judges),
        # On pages every cell says its own.
        Column("n", lambda axis: n_text(cells[axis].values()), media=("markdown", "card", "text")),
    )
    exploratory = [axis for axis in cells if axis not in comparison.primary]
    groups = ("deciding axes", "exploratory axes: shown, never called significant")
    return table(
        [*comparison.primary, *exploratory],
        style="grid",
        tone=lambda axis: "apart" if axis in (BASELINE, OVERALL) else "",
        group=(lambda axis: groups[axis not in comparison.primary]) if exploratory else None,
    )


def _judge_column(comparison: Contrasts, judge: str, links: JudgeLinks | None) -> Column[str]:
    mark = " (baseline)" if judge == comparison.baseline else ""

    def cell(axis: str) -> Cell:
        reading = comparison.cells[axis][judge]
        text, tone, hover = numbers.cell_text(reading, comparison.letters_of(axis, judge)), "", ""
        if not isinstance(reading, Estimate):
            tone = "bounds" if reading.bounds else "missing"
            hover = f"{numbers.bounds_text(reading.bounds)}: {reading.reason}" if reading.bounds else reading.reason
        return Cell(text, tone=tone, hover=hover)

    def brief(axis: str) -> str:
        reading = comparison.cells[axis][judge]
        return cell(axis).text if isinstance(reading, Estimate) else numbers.reading_text(reading)

    return Column(
        f"{judge}{mark}",
        cell,
        short=brief,
        html=lambda axis: _score_html(comparison, axis, judge, links),
        page_head=f"{short_name(judge)}{mark}",
        address=links.datasheet(judge) if links else None,
    )


def _axis_html(axis: str) -> Markup:
    from markupsafe import Markup

    return kept(axis_name(axis)) + (Markup("<small>{}</small>").format(end) if (end := _good_end(axis)) else "")


def _score_html(comparison: Contrasts, axis: str, judge: str, links: JudgeLinks | None) -> Markup:
    """Write a cell of the grid: number, letters, interval, n and a bar, or why there is no number."""
    reading = comparison.cells[axis][judge]
    return render_part(
        "_score.html",
        reading=reading,
        whisker=reading_cell(reading).whisker,
        letters=comparison.letters_of(axis, judge),
        address=links.calls(judge, axis) if links else None,
        what=f"{axis_name(axis)}, {judge}",
        bounds_ends=numbers.bounds_ends,
    )


def n_text(readings: Iterable[Reading]) -> str:
    """Spell the numbers of units of an axis: one number, or from least to most."""
    counts = sorted({reading.n for reading in readings if isinstance(reading, Estimate)})
    return "–" if not counts else f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"


def comparison_card(comparison: Contrasts) -> list[FilledTable[Any]]:
    """Return what a notebook shows: the scores, the differences that are told apart, and what could have been found."""
    scores, findings = scores_table(comparison), findings_table(comparison)
    return [
        replace(scores, more=f"{comparison.told}. {letters_text(comparison)} {_SCORES_TEXT}"),
        differences_table(comparison.different).first(what="differences"),
        replace(findings, more=_DETECTABLE),
    ]


def comparison_tables(
    comparison: Contrasts, names: Mapping[str, str] = MappingProxyType({})
) -> dict[str, pd.DataFrame]:
    """Return what there is to tabulate, by name; what is missing is an empty cell, never 0.

    Args:
        comparison: The numbers.
        names: What the differences call judges, where not as in the comparison.
    """
    letters: Column[Any] = Column("letters", value=lambda row: comparison.letters_of(row[0], row[1]))
    scores, ordinal = named_readings("axis", "judge"), named_readings("axis", "judge", "metric")
    return filled_frames(
        {
            "scores": Table.of(*scores.columns, letters)(
                (axis, name, reading) for axis, row in comparison.cells.items() for name, reading in row.items()
            ),
            "differences": differences_table(comparison.differences, names=names),
            "by_judge": spread_table("judge", comparison.summaries["by_judge"]),
            "by_test": spread_table("axis", comparison.summaries["by_test"]),
            "ordinal": ordinal(
                (axis, name, metric, reading)
                for axis, judges in comparison.ordinal.items()
                for name, row in judges.items()
                for metric, reading in row.items()
            ),
            "costs": judges_table(comparison),
        }
    )


def filled_frames(tables: Mapping[str, FilledTable[Any]]) -> dict[str, pd.DataFrame]:
    """Return the data frames of the tables that have rows."""
    return {name: table.to_frame() for name, table in tables.items() if table.rows}


def named_readings(*names: str) -> Table[Any]:
    """Declare a data frame of readings: a row is a value for each of the names, and the reading."""
    first = (Column(name, value=itemgetter(place)) for place, name in enumerate(names))
    return Table.of(*first, *reading_values(itemgetter(len(names))))


def reading_values(read: Callable[[Row], Reading]) -> list[Column[Row]]:
    """Return the columns of a reading in data frames: value, interval by source, n, excluded; or reason and bounds."""

    def cell(place: int, row: Row) -> Any:
        reading = read(row)
        if isinstance(reading, NotEstimable):
            return (*[None] * 5, reading.reason, "" if reading.bounds is None else numbers.bounds_text(reading.bounds))[
                place
            ]
        return (reading.value, *numbers.source_ends(reading), reading.n, reading.excluded, "", "")[place]

    names = ("value", "low", "high", "n", "excluded", "reason", "bounds")
    return [Column(name, value=partial(cell, place)) for place, name in enumerate(names)]


def headline(comparison: Contrasts) -> list[tuple[str, str]]:
    """Say on each deciding axis who is told apart from whom, best first, and last where nobody is: (axis, words)."""
    decided, quiet = [], []
    for axis in comparison.primary:
        own = [difference for difference in comparison.deciding if difference.axis == axis]
        apart = [difference for difference in own if difference.told_apart]
        if apart and comparison.baseline:
            decided.append((axis_text(axis), _against_baseline(apart)))
        elif apart:
            decided.append((axis_text(axis), _winners(axis, apart, n_others=len(comparison.judges) - 1)))
        elif own:
            quiet.append(f"{axis_name(axis)} (detectable: {_detectable_range(own)})")
    who = f"from {short_name(comparison.baseline)}" if comparison.baseline else "between judges"
    return [*decided, *([(f"No difference {who} is shown on", f"{'; '.join(quiet)}.")] if quiet else [])]


def _winners(axis: str, apart: Sequence[Difference], *, n_others: int) -> str:
    """Name the judge that is ahead of most others on one axis, and those; then how many pairs that leaves."""
    beaten: dict[str, list[str]] = {}
    for difference in apart:
        winner, loser = better_first(difference)
        beaten.setdefault(winner, []).append(loser)
    most = max(map(len, beaten.values()))
    first = [name for name, losers in beaten.items() if len(losers) == most]
    # Not `better`: that is said of the judge as a whole, and by the verdict.
    reads = f"{'reads' if len(first) == 1 else 'read'} {'lower' if lower_is_better(axis) else 'higher'}"
    lead = f"{named_judges(first)} {reads} than {most} of {n_others} others"
    named = f" ({named_judges(beaten[first[0]])})" if len(first) == 1 else ""
    pairs = f"{len(apart)} {'pair differs' if len(apart) == 1 else 'pairs differ'} significantly in all"
    return f"{lead}{named}; {pairs}."


def _against_baseline(apart: Sequence[Difference]) -> str:
    sides = {
        "better": [difference.a for difference in apart if better_first(difference)[0] == difference.a],
        "worse": [difference.a for difference in apart if better_first(difference)[0] != difference.a],
    }
    return "; ".join(f"{word} than the baseline: {named_judges(names)}" for word, names in sides.items() if names) + "."


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeCard:
    """What the page says of a judge besides its numbers."""

    name: str
    """As in the comparison; that of a simulated judge says so."""
    run_id: str
    n_calls: int
    truncated: str | None = None
    experiment_id: str = ""
    """Of its run."""


@dataclass(frozen=True, slots=True)
class JudgeLinks:
    """Where the pages of the judges are, as seen from a served comparison."""

    addresses: Addresses
    judges: Sequence[JudgeCard]
    n_calls: int
    """Calls of each judge that are compared: those that all were asked."""

    def calls(self, judge: str, axis: str) -> str | None:
        """Return the calls behind a judge's reading on an axis; None where a number has none."""
        if axis == OVERALL:
            # It is over the tests and calls that all judges have; those of a single run may be others.
            return None
        key, card = calls_key(axis), self._card(judge)
        if not has_calls(key):
            return None
        # The page of the calls has all of the judge, and says how many of them are in the number that led to it.
        compared = {"compared": self.n_calls} if self.n_calls < card.n_calls else {}
        return self.addresses.calls(card.run_id, axis=key, **compared)

    def item(self, judge: str, item: str) -> str:
        """Return a judge's calls of an item, opened."""
        return self.addresses.calls(self._card(judge).run_id, item=item, open=item)

    def datasheet(self, judge: str) -> str:
        """Return the datasheet of a judge."""
        return self.addresses.datasheet(self._card(judge).run_id)

    def mlflow(self, judge: str) -> str | None:
        """Return MLflow's own page of a judge's run."""
        card = self._card(judge)
        return self.addresses.mlflow(card.experiment_id, card.run_id) if card.experiment_id else None

    def _card(self, judge: str) -> JudgeCard:
        return next(card for card in self.judges if card.name == judge)


def calls_key(axis: str) -> str:
    """Return the key under which the calls behind an axis of a comparison are found: of a test, what scores it."""
    if axis == OVERALL:
        return metric_keys.RELIABILITY_MEAN
    return axis if "/" in axis or find(axis) else f"{axis}/{expectation_of(axis).statistic}"


def _good_end(axis: str) -> str:
    """Say which end of an axis is the good one; of some, such as padding that wins, it is the middle."""
    declared = find(axis)
    if lower_is_better(axis):
        return "lower is better"
    return "higher is better" if declared is None or declared.direction is not None else ""


def _meaning_text(axis: str) -> str:
    """Say what an axis counts, and which values are good where that is known."""
    guide = axis_guide(calls_key(axis))
    meaning = axis_meaning(calls_key(axis))
    return f"{meaning} Good: {guide.good}. Bad: {guide.bad}." if guide else meaning


def comparison_page(
    comparison: Contrasts,
    *,
    title: str = "Comparison of judges",
    suite: Mapping[str, str] = MappingProxyType({}),
    judges: Sequence[JudgeCard] = (),
    figures: Sequence[Drawing] = (),
    worst: Mapping[str, Sequence[WorstItem]] = MappingProxyType({}),
    notes: Sequence[str] = (),
    verdict: Verdict | None = None,
    addresses: Addresses | None = None,
) -> Page:
    """Return the comparison: what to do, what is told apart, every judge on every axis, then how it was decided.

    Args:
        comparison: The numbers.
        title: Of the page.
        suite: Facts of the suite, shown as they are.
        judges: In the order of the comparison.
        figures: With their captions.
        worst: Judge to its worst items.
        notes: Shown above the comparison's own.
        verdict: What to do; made of the numbers alone when None.
        addresses: Of the pages that are served beside this one; None for a file, which leads nowhere.
    """
    links = JudgeLinks(addresses, judges, comparison.n_calls) if addresses else None
    facts = {**suite, "calls compared": f"{comparison.n_calls:,} of each judge"}
    summaries, verdict = comparison.summaries, verdict or recommendation(comparison)
    told = [f"{comparison.told}.", *(f"{axis}: {words}" for axis, words in headline(comparison))]
    return Page.saying(
        verdict,
        title=title,
        notes=(*notes, *comparison.notes),
        facts={**facts, "baseline": comparison.baseline} if comparison.baseline else facts,
        sections=[
            Section(heading="Which judges differ", blocks=told, always=True),
            _scores_section(comparison, judges, links),
            Section(heading="Judges", blocks=[judges_table(comparison, judges, links)]),
            Section(heading="Figures", blocks=[list(figures)]),
            *_difference_sections(comparison, links),
            Section(
                heading="By judge, over its tests",
                blocks=[spread_table("judge", summaries["by_judge"])],
                media=_DETAILS,
            ),
            Section(
                heading="By axis, over judges",
                blocks=[spread_table("axis", summaries["by_test"], axes=True)],
                media=_DETAILS,
            ),
            Section(heading="Against the expected levels", blocks=[ordinal_table(comparison)], media=_DETAILS),
            _worst_section(worst, links),
            closing_section(verdict.sentences[0]),
        ],
        navigation=Navigation(addresses=addresses, here="compare") if addresses else None,
    )


def _scores_section(comparison: Contrasts, judges: Sequence[JudgeCard], links: JudgeLinks | None) -> Section:
    table = scores_table(comparison, links=links)
    texts: list[str | Only] = [f"{letters_text(comparison)} {_SCORES_TEXT}"]
    if links:
        others = any(card.n_calls > comparison.n_calls for card in judges)
        more = "; the page of the calls has all of the judge, also those that were not compared" if others else ""
        texts.append(f"A number leads to the calls behind it{more}.")
    readings = (reading for row in comparison.cells.values() for reading in row.values())
    texts += [Only(_DETAILS, line) for line in numbers.bounds_note(readings) if line]
    meanings = render_part(
        "_meanings.html", meanings=[(axis_name(axis), _good_end(axis), _meaning_text(axis)) for axis in table.rows]
    )
    return Section(heading="Scores", blocks=[*texts, table, meanings])


def _difference_sections(comparison: Contrasts, links: JudgeLinks | None) -> list[Section]:
    """Say what is told apart on which axis and how that was decided, then list the differences.

    A page lists all, deciding and exploratory ones apart, and folds long lists. Markdown leaves out what is not told
    apart where there are many, and a terminal always does.
    """
    # A description of a run holds little: a long list would push all else out of it.
    listed, pointer = comparison.differences, ""
    if len(listed) > _MOST_DIFFERENCES:
        listed, pointer = comparison.different, "The significant ones; the table `differences` has all."
    surest = differences_table(comparison.different).first(_MOST_TOLD, what="differences", where="--markdown")
    pairs = {(row.difference.a, row.difference.b) for row in surest.rows}
    if len(pairs) == 1:
        # Of one pair the names stand above, and leave the room of a line to the numbers.
        surest = replace(surest, columns=tuple(column for column in surest.columns if column.head != "judges"))
    which = "Differences are the score of the first judge minus that of the second, on the units that both answered."
    shown = sorted(comparison.differences, key=lambda pair: (not pair.told_apart, pair.axis != OVERALL))
    families = {"Deciding": "primary", "Exploratory": "exploratory"}
    lists = {heading: [pair for pair in shown if pair.family == family] for heading, family in families.items()}
    return [
        Section(
            heading="Differences",
            blocks=[
                *([Only(("markdown",), pointer)] if pointer else []),
                findings_table(comparison),
                *(Only(_DETAILS, text) for text in how_decided(comparison)),
                Only(("text",), _DETECTABLE),
                Only(("html",), which + (" Each name leads to the judge’s calls." if links else "")),
                Only(("markdown",), differences_table(listed)),
                *(Only(("text",), f"{a} − {b}:") for a, b in pairs if len(pairs) == 1),
                Only(("text",), surest),
            ],
        ),
        *(
            Section(
                heading=f"{heading}: {len(rows)}",
                blocks=[differences_table(rows, links=links)],
                folded=True,
                opened=heading == "Deciding" and len(rows) <= _OPEN_ROWS,
                media=("html",),
            )
            for heading, rows in lists.items()
        ),
    ]


def _worst_section(worst: Mapping[str, Sequence[WorstItem]], links: JudgeLinks | None) -> Section:
    shown = {name: items for name, items in worst.items() if items}
    blocks = [render_part("_worst.html", worst=shown, links=links)] if shown else []
    return Section(heading="Worst items", blocks=blocks, media=("html",))


def comparison_figures(
    comparison: Contrasts, calls: Mapping[str, pd.DataFrame], *, title: str, calls_of: CallsOf = no_calls
) -> dict[str, Figure]:
    """Draw a comparison, by file name: tests × judges, datasheets in a plane, score against known dollars."""
    cells = comparison.cells
    figures = {
        "heatmap.png": heatmap(cells, letters=comparison.letters, title=title, calls_of=calls_of),
        **planes({name: {axis: row[name] for axis, row in cells.items()} for name in comparison.judges}),
        "cost_curve.png": cost_curve(calls),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def comparison_points(contrasts: Contrasts) -> list[keys.Point]:
    """Spell a comparison: how many judges and differences, and how many of these were told apart."""
    return keys.known_points(
        {
            "compare/judges": len(contrasts.judges),
            "compare/n_pairs": len(contrasts.differences),
            "compare/n_different": len(contrasts.different),
        }
    )
