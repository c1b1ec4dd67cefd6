"""What people see of a self-preference, and what MLflow is told: verdict, tables, heatmap, page, keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jrh_mlflow.comparing.comparison_view import reading_values
from jrh_mlflow.comparing.recommendation import closing_section, short_name
from jrh_mlflow.comparing.self_preference_report import (
    EXCESS,
    FAMILY_EXCESS,
    REWRITTEN,
    JudgeAndAuthor,
    SelfPreferenceReport,
)
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.findings import Finding, State, Verdict
from jrh_mlflow.scoring.ledger import deciding_ends
from jrh_mlflow.show.figures.canvas import canvas, label_cells, label_inches, short, wrapped, write_cell, write_corners
from jrh_mlflow.show.numbers import number_text
from jrh_mlflow.show.page import Drawing, Page, Section
from jrh_mlflow.show.tables import Column, FilledTable, Table, reading_cell
from jrh_mlflow.tracking.runs import keys

if TYPE_CHECKING:
    import pandas as pd

    from jrh_mlflow.show.figures.canvas import Figure

PREFIX = "self_preference/"
SELF_PREFERENCE_JSON, SELF_PREFERENCE_MARKDOWN = "self_preference.json", "self_preference.md"
LIMIT = 0.10
_UNEQUAL = 0.1
"""From one half: how much an author's share of wins tells that its answers are better, or worse, than others'."""
NAMES = {
    EXCESS: "own answers",
    FAMILY_EXCESS: "answers of the own family",
    f"{REWRITTEN}{EXCESS}": "own answers, rewritten",
    f"{REWRITTEN}{FAMILY_EXCESS}": "answers of the own family, rewritten",
}
ASSUMPTION = "It is assumed that without such a preference judges differ by noise and by slot only."
_MEAN_ONLY = (
    "Nobody judged who wrote neither answer: this is the mean of the two authors, and not the preference of one."
)
_HOW = (
    "Excess: how much more often than one half the own of two equally good answers wins; 0 is fair, 0.50 is always. "
    "The quality of a pair is what all who judged it agree on; ties are half a win for each, so that many ties make "
    "the excess smaller. Intervals are 95 %, over items."
)
_CELLS_HOW = (
    "Share of pairs that the author's answer wins with the judge, beside the share with all others on the same pairs: "
    "a plain count that no model adjusts."
)
_CELL_WIDTH, _CELL_HEIGHT = 1.35, 0.62


def main_axis(report: SelfPreferenceReport) -> str:
    """Return the reading that the verdict is about: own answers, or those of the family where no own one was judged."""
    return FAMILY_EXCESS if _only_family(report) else EXCESS


def _only_family(report: SelfPreferenceReport) -> bool:
    own, family = report.readings[EXCESS], report.readings[FAMILY_EXCESS]
    return not isinstance(own, Estimate) and isinstance(family, Estimate)


def self_preference_verdict(report: SelfPreferenceReport) -> Verdict:
    """Say whether judges prefer their own answers, by whose word the quality goes, and what to do."""
    axis = main_axis(report)
    found = [_finding(name, report) for name in report.readings]
    finding = next(each for each in found if each.axis == f"{PREFIX}{axis}")
    by = f"people's or gold labels ({', '.join(report.labels)}) and the other judges" if report.labels else "all judges"
    if len(report.judges) == 1:
        by = f"the labels ({', '.join(report.labels)})"
    sentences = [finding.text]
    if isinstance(finding.reading, Estimate):
        sentences.append(f"The quality of a pair is taken from {by}. {ASSUMPTION}")
        sentences += [] if report.has_outsider else [_MEAN_ONLY]
        sentences += _by_sharpness(axis, report)
    sentences += [f"What to do: {finding.advice}"] if finding.advice else []
    return Verdict(sentences=tuple(sentences[:4]), findings=tuple(found))


def _by_sharpness(axis: str, report: SelfPreferenceReport) -> list[str]:
    """Say where the sharpness of a judge explains its reading too: others find its own answers better, or worse."""
    for cell in report.cells:
        reading = report.by_judge.get(cell.judge, {}).get(axis)
        stake = cell.family if axis == FAMILY_EXCESS else cell.own
        if not stake or cell.others is None or abs(cell.others - 0.5) < _UNEQUAL or not isinstance(reading, Estimate):
            continue
        low, high = deciding_ends(reading)
        if low is not None and high is not None and not low <= 0 <= high:
            how = "more" if (low > 0) == (cell.others > 0.5) else "less"
            return [
                f"With the others, answers of {short_name(cell.author)} win in {_percent(cell.others - 0.5)}: a judge "
                f"that sees quality {how} sharply than they do reads like this too."
            ]
    return []


def _finding(name: str, report: SelfPreferenceReport) -> Finding:
    reading, staked = report.readings[name], [judge for judge, own in report.by_judge.items() if name in own]
    is_one = 1 in (len(report.judges), len(staked))
    judges = "The judge" if len(report.judges) == 1 else short_name(staked[0]) if len(staked) == 1 else "The judges"
    verb, whose = f"prefer{'s' if is_one else ''}", f"answers of {'its' if is_one else 'their'} own"
    whose += " family" if name.endswith(FAMILY_EXCESS) else ""
    when = " after both were rewritten" if name.startswith(REWRITTEN) else ""
    if not isinstance(reading, Estimate):
        text = f"Whether {judges.replace('The', 'the')} {verb} {whose}{when} cannot be told: {reading.reason}."
        return Finding(axis=f"{PREFIX}{name}", state="cannot tell", reading=reading, text=text)
    low, high = deciding_ends(reading)
    assert low is not None
    assert high is not None
    state: State = "problem" if low > LIMIT else "ok" if high <= LIMIT else "cannot tell"
    shares = f"{_percent(reading.value)} [{_percent(low)}–{_percent(high)}]"
    numbers = f"of two equally good answers the own wins in {shares}; 50 % is fair"
    if low > 0:
        end = "" if state == "problem" else f", whether by more than {LIMIT:.2f} is open"
        text = f"{judges} {verb} {whose}{when} ({numbers}{end})."
    elif high < 0:
        text = f"{judges} {verb} the other answer to {whose}{when} ({numbers})."
    else:
        told = "No preference for" if state == "ok" else "It cannot be told whether there is a preference for"
        text = f"{told} {whose}{' was found' if state == 'ok' else ''}{when} ({numbers})."
    advice = {
        "problem": "let a judge of another family decide pairs with such an answer, or a jury of several families.",
        "cannot tell": "judge more items: the interval shrinks with the root of their number.",
    }.get(state, "")
    return Finding(axis=f"{PREFIX}{name}", state=state, reading=reading, text=text, advice=advice)


def _percent(excess: float) -> str:
    return f"{50 + 100 * excess:.0f} %"


Row = tuple[str, str, Reading]
"""Judge (empty: all), name of the reading, reading."""


def reading_rows(report: SelfPreferenceReport) -> list[Row]:
    """Return every reading, first those of all judges together."""
    of_all = [("all judges", name, reading) for name, reading in report.readings.items()]
    return of_all + [(judge, name, reading) for judge, own in report.by_judge.items() for name, reading in own.items()]


def _ownership(cell: JudgeAndAuthor) -> str:
    return "yes" if cell.own else "family" if cell.family else "no"


READINGS: Table[Row] = Table.of(
    Column("judge", lambda row: row[0], value=lambda row: row[0], as_code=True, brief=True),
    Column("prefers", lambda row: NAMES[row[1]], value=lambda row: row[1], name="axis", words=True, brief=True),
    Column("excess", lambda row: reading_cell(row[2]), brief=True),
    *reading_values(lambda row: row[2]),
    Column("pairs", lambda row: f"{row[2].n:,}", brief=True),
    Column("calls left out", lambda row: f"{row[2].excluded:,}"),
    Column("why not", lambda row: row[2].reason if isinstance(row[2], NotEstimable) else "", words=True),
)
CELLS: Table[JudgeAndAuthor] = Table.of(
    Column("judge", lambda cell: cell.judge, value=lambda cell: cell.judge, as_code=True),
    Column("author", lambda cell: cell.author, value=lambda cell: cell.author, as_code=True, words=True),
    Column("its own", _ownership, value=_ownership, words=True),
    Column("wins", lambda cell: number_text(cell.share), value=lambda cell: cell.share),
    Column("wins with others", lambda cell: number_text(cell.others), value=lambda cell: cell.others, name="others"),
    Column("pairs", lambda cell: f"{cell.n:,}", value=lambda cell: cell.n),
)


def self_preference_page(
    report: SelfPreferenceReport, *, title: str, facts: Mapping[str, str], drawings: Sequence[Drawing] = ()
) -> Page:
    """Return the verdict, the excess of all judges and of each, who wins with whom, and what limits it."""
    verdict = self_preference_verdict(report)
    others = [finding.text for finding in verdict.findings[1:] if isinstance(finding.reading, Estimate)]
    return Page(
        title=title,
        lead=verdict.sentences[0],
        sentences=[*verdict.sentences[1:], *(text for text in others if text != verdict.sentences[0])],
        notes=report.notes,
        facts=facts,
        sections=[
            Section(heading="Readings", blocks=[excess_table(report), _HOW]),
            Section(heading="Figures", blocks=[drawings], media=("html",)),
            Section(heading="Who wins with whom", blocks=[CELLS(report.cells), _CELLS_HOW]),
            closing_section(verdict.sentences[0]),
        ],
    )


def excess_table(report: SelfPreferenceReport) -> FilledTable[Row]:
    """Fill the table of readings."""
    return READINGS(reading_rows(report))


def self_preference_tables(report: SelfPreferenceReport) -> dict[str, pd.DataFrame]:
    """Return what there is to tabulate, by name."""
    return {"readings": excess_table(report).to_frame(), "judges_and_authors": CELLS(report.cells).to_frame()}


def self_preference_points(report: SelfPreferenceReport) -> list[keys.Point]:
    """Spell the readings: `self_preference/excess/value`, and `self_preference/by_judge/NAME/excess/value` of each."""
    of_judges = keys.keyed_groups(f"{PREFIX}by_judge", report.by_judge)
    counts = {f"{PREFIX}items": report.n_items, f"{PREFIX}pairs": report.n_pairs}
    return keys.all_points({**axis_readings(report), **of_judges}) + keys.known_points(counts)


def axis_readings(report: SelfPreferenceReport) -> dict[str, Reading]:
    """Return the readings of all judges together by their keys: what gates decide on."""
    return {f"{PREFIX}{name}": reading for name, reading in report.readings.items()}


def self_preference_figures(report: SelfPreferenceReport) -> dict[str, Figure]:
    """Draw judges × authors, where there is something to draw."""
    return {"judges_and_authors.png": _heatmap(report.cells)} if report.cells else {}


def _heatmap(cells: Sequence[JudgeAndAuthor]) -> Figure:
    """Judges (rows) × authors (columns): how much more often the author wins with the judge than with the others."""
    judges, authors = (list(dict.fromkeys(getattr(cell, name) for cell in cells)) for name in ("judge", "author"))
    heads = [wrapped(short(name, most=42)) for name in authors]
    top = 0.75 + 0.19 * max(head.count("\n") + 1 for head in heads)
    labels = [short(name, most=30) for name in judges]
    left, bottom, wide = label_inches(labels), 0.5, _CELL_WIDTH * len(authors)
    width = max(left + wide + 0.25, 7.6)
    size = (width, top + _CELL_HEIGHT * len(judges) + bottom)
    figure, axes = canvas(*size, left=left, right=width - left - wide, top=top, bottom=bottom)
    for cell in cells:
        _draw_cell(axes, authors.index(cell.author), judges.index(cell.judge), cell)
    label_cells(axes, heads, labels, range(len(judges)), fontsize=10)
    foot = "more or less often than with the others on the same pairs; below: share of pairs won; ● own, ○ own family"
    write_corners(figure, title="How much more often an author wins with a judge", foot=foot)
    return figure


def _draw_cell(axes: Any, column: int, row: int, cell: JudgeAndAuthor) -> None:
    from matplotlib import colormaps

    more = 0.0 if cell.others is None else cell.share - cell.others
    # The ends of the scale are left out: they would hide the digits.
    colour = colormaps["RdBu_r"](0.5 + 0.35 * max(-1.0, min(1.0, 2 * more)))
    mark = "● " if cell.own else "○ " if cell.family else ""
    value = "–" if cell.others is None else number_text(more, signed=True)
    others = "nobody else judged them" if cell.others is None else f"{number_text(cell.others)} with the others"
    words = f"{cell.author} with {cell.judge}: wins {number_text(cell.share)} of {cell.n:,} pairs, {others}"
    below = f"{number_text(cell.share)}, n {cell.n:,}"
    write_cell(axes, column, row, colour=colour, value=f"{mark}{value}", at=0.36, below=below, words=words)
