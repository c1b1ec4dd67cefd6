"""What people see of a self-preference, and what MLflow is told: verdict, tables, heatmap, page, keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pandas as pd

from jrh_mlflow.comparing.comparison_view import filled_frames, reading_values
from jrh_mlflow.comparing.recommendation import closing_section, short_name
from jrh_mlflow.comparing.self_preference_report import FAMILY_EXCESS, REWRITTEN, JudgeAndAuthor, SelfPreferenceReport
from jrh_mlflow.engine.budget import Paid
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, plain_fields
from jrh_mlflow.schema.findings import Finding, State, Verdict
from jrh_mlflow.scoring.ledger import deciding_interval
from jrh_mlflow.show.cards import ShownResult, brief_run
from jrh_mlflow.show.figures.canvas import cell_table, plotted, write_cell
from jrh_mlflow.show.glossary import WORDS
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import money_text, number_text, reading_text
from jrh_mlflow.show.page import Drawing, Page, Section
from jrh_mlflow.show.tables import Column, FilledTable, Table, reading_cell
from jrh_mlflow.tracking.runs import keys

if TYPE_CHECKING:
    from jrh_mlflow.show.figures.canvas import Figure

PREFIX, SELF_PREFERENCE_JSON = "self_preference/", "self_preference.json"
LIMIT, _WIDEST = 0.10, (-0.5, 0.5)
_UNEQUAL = 0.1
"""From one half: how much an author's share of wins tells that its answers are better, or worse, than others'."""
_SAYS: Mapping[str, Any] = WORDS["self_preference"]


def _whose(name: str) -> str:
    return axis_name(f"{PREFIX}{name}").removeprefix("preference for ")


Row = tuple[str, str, Reading]
"""Judge (or all), name of the reading, reading."""
READINGS: Table[Row] = Table.of(
    Column("judge", itemgetter(0), value=itemgetter(0), as_code=True, brief=True),
    Column("prefers", lambda row: _whose(row[1]), value=itemgetter(1), name="axis", words=True, brief=True),
    Column("excess", lambda row: reading_cell(row[2]), brief=True),
    *reading_values(lambda row: row[2]),
    Column("pairs", lambda row: f"{row[2].n:,}", brief=True),
    Column("calls left out", lambda row: f"{row[2].excluded:,}"),
    Column("why not", lambda row: row[2].reason if isinstance(row[2], NotEstimable) else "", words=True),
)


def _ownership(cell: JudgeAndAuthor) -> str:
    return "yes" if cell.own else "family" if cell.family else "no"


CELLS: Table[JudgeAndAuthor] = Table.of(
    Column("judge", lambda cell: cell.judge, value=lambda cell: cell.judge, as_code=True),
    Column("author", lambda cell: cell.author, value=lambda cell: cell.author, as_code=True, words=True),
    Column("its own", _ownership, value=_ownership, words=True),
    Column("wins", lambda cell: number_text(cell.share), value=lambda cell: cell.share),
    Column("wins with others", lambda cell: number_text(cell.others), value=lambda cell: cell.others, name="others"),
    Column("pairs", lambda cell: f"{cell.n:,}", value=lambda cell: cell.n),
)


@dataclass(frozen=True, kw_only=True, repr=False)
class SelfPreference(ShownResult):
    """How much judges prefer their own answers, and where it is logged."""

    report: SelfPreferenceReport
    judgments: pd.DataFrame
    """A row for each answer of a judge, and for each label; `version` is `as written` or `rewritten`."""
    rewriter: str | None = None
    rewritten: Mapping[str, str] = field(default_factory=dict)
    """Answer to what the rewriter made of it."""
    paid: Paid = field(default_factory=Paid)
    simulated: bool = False

    @property
    def title(self) -> str:
        """Names judges and pairs."""
        return f"Self-preference of {', '.join(self.report.judges)} on {self.report.n_pairs:,} pairs of answers"

    @property
    def estimates(self) -> dict[str, Reading]:
        """Key to the excess of all judges together, or why there is none."""
        return {f"{PREFIX}{name}": reading for name, reading in self.report.readings.items()}

    @property
    def by_judge(self) -> Mapping[str, Mapping[str, Reading]]:
        """Judge to its own readings."""
        return self.report.by_judge

    @property
    def points(self) -> list[keys.Point]:
        """What is logged: `self_preference/excess/value`, `self_preference/by_judge/NAME/excess/value`, counts."""
        of_judges = keys.keyed_groups(f"{PREFIX}by_judge", self.by_judge)
        counts = {f"{PREFIX}items": self.report.n_items, f"{PREFIX}pairs": self.report.n_pairs}
        return keys.all_points({**self.estimates, **of_judges}) + keys.known_points(counts)

    @property
    def metrics(self) -> dict[str, float]:
        """Exactly what is logged."""
        return keys.last_values(self.points)

    @property
    def settings(self) -> dict[str, str | None]:
        """Who judged, by what labels, and which families are known."""
        related = ", ".join(f"{name}: {family}" for name, family in self.report.families.items())
        judges, labels = (", ".join(names) for names in (self.report.judges, self.report.labels))
        return {"judges": judges, "labels": labels or None, "families": related or None, "rewriter": self.rewriter}

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the judges prefer their own answers, by whose word the quality goes, and what to do."""
        found = {name: self._finding(name) for name in self.report.readings}
        finding, labels = found[self.report.main], self.settings["labels"]
        by = f"people's or gold labels ({labels}) and the other judges" if labels else "all judges"
        by = by if len(self.report.judges) > 1 else f"the labels ({labels})"
        sentences = [finding.text]
        if isinstance(finding.reading, Estimate):
            sentences.append(_SAYS["quality"].format(by=by))
            sentences += [] if self.report.has_outsider else [_SAYS["mean"]]
            sentences += self._by_sharpness()
        sentences += [f"What to do: {finding.advice}"] if finding.advice else []
        return Verdict(sentences=tuple(sentences[:4]), findings=tuple(found.values()))

    def _by_sharpness(self) -> list[str]:
        """Say where the sharpness of a judge explains its reading too: others find its own answers better, or worse."""
        for cell in self.report.cells:
            reading = self.by_judge.get(cell.judge, {}).get(self.report.main)
            stake = cell.family if self.report.main == FAMILY_EXCESS else cell.own
            if not stake or cell.others is None or not isinstance(reading, Estimate):
                continue
            (low, high), better = deciding_interval(reading) or _WIDEST, cell.others - 0.5
            if abs(better) >= _UNEQUAL and not low <= 0 <= high:
                how, author = "more" if (low > 0) == (better > 0) else "less", short_name(cell.author)
                return [_SAYS["sharpness"].format(author=author, share=_percent(better), how=how)]
        return []

    def _finding(self, name: str) -> Finding:
        reading, staked = self.report.readings[name], [judge for judge, own in self.by_judge.items() if name in own]
        is_alone, is_one = len(self.report.judges) == 1, len(staked) == 1
        judges = "The judge" if is_alone else short_name(staked[0]) if is_one else "The judges"
        prefer, whose = ("prefers", "its own") if is_alone or is_one else ("prefer", "their own")
        whose = f"answers of {whose}{' family' if name.endswith(FAMILY_EXCESS) else ''}"
        when = " after both were rewritten" if name.startswith(REWRITTEN) else ""
        says = {"judges": judges, "prefer": prefer, "whose": whose, "when": when}
        finding = partial(Finding, axis=f"{PREFIX}{name}", reading=reading)
        if isinstance(reading, NotEstimable):
            says |= {"judges": judges.replace("The", "the"), "reason": reading.reason}
            return finding(state="cannot tell", text=_SAYS["missing"].format(**says))
        low, high = deciding_interval(reading) or _WIDEST
        state: State = "problem" if low > LIMIT else "ok" if high <= LIMIT else "cannot tell"
        form = "open" if 0 < low <= LIMIT else "against" if high < 0 else state
        shares = _SAYS["shares"].format(*map(_percent, (reading.value, low, high)))
        text = _SAYS[form].format(**says, shares=shares, limit=LIMIT)
        return finding(state=state, text=text, advice=_SAYS.get(f"advice {state}", ""))

    @property
    def readings(self) -> FilledTable[Row]:
        """Every reading, first those of all judges together."""
        owners = [("all judges", self.report.readings), *self.by_judge.items()]
        return READINGS((owner, name, reading) for owner, own in owners for name, reading in own.items())

    def _page(self, drawings: Sequence[Drawing] = ()) -> Page:
        settings, (lead, *more) = self.settings, self.verdict.sentences
        others = [finding.text for finding in self.verdict.findings[1:] if isinstance(finding.reading, Estimate)]
        return Page(
            title=self.title,
            lead=lead,
            sentences=[*more, *(text for text in others if text != lead)],
            notes=self.report.notes,
            marks=["simulated"] * self.simulated,
            facts={
                "judges": settings["judges"],
                "items": f"{self.report.n_items:,} with {self.report.n_pairs:,} pairs",
                "labels": settings["labels"] or "none",
                "families": settings["families"] or "none known",
                **({"rewritten by": self.rewriter} if self.rewriter else {}),
                "cost": money_text(self.paid.usd),
            },
            sections=[
                Section(heading="Readings", blocks=[self.readings, _SAYS["how"]]),
                Section(heading="Figures", blocks=[drawings], media=("html",)),
                Section(heading="Who wins with whom", blocks=[CELLS(self.report.cells), _SAYS["how cells"]]),
                closing_section(lead),
            ],
        )

    def _card(self) -> dict[str, Any]:
        return {"tables": [self.readings]}

    def __repr__(self) -> str:
        read = f"excess of {_whose(self.report.main)} {reading_text(self.report.readings[self.report.main])}"
        return f"SelfPreference({len(self.report.judges)} judges: {read}, {brief_run(self.run_id)})"

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """What there is to tabulate, by name."""
        own = filled_frames({"readings": self.readings, "judges_and_authors": CELLS(self.report.cells)})
        texts = pd.DataFrame(self.rewritten.items(), columns=["answer", "rewritten"])
        return {**own, "judgments": self.judgments, **({"rewritten": texts} if self.rewritten else {})}

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each reading, of all judges and of each."""
        return self.readings.to_frame()

    @property
    def figures(self) -> dict[str, Figure]:
        """Judges × authors: how much more often the author wins with the judge than with the others."""
        if not (cells := self.report.cells):
            return {}
        judges, authors = (list(dict.fromkeys(getattr(cell, name) for cell in cells)) for name in ("judge", "author"))
        figure, axes = cell_table(judges, authors, title=_SAYS["figure"], foot=_SAYS["figure foot"])
        for cell in cells:
            _draw_cell(axes, authors.index(cell.author), judges.index(cell.judge), cell)
        return {"judges_and_authors.png": figure}

    def plot(self, kind: str | None = None) -> Figure:
        """Draw judges × authors."""
        return plotted(self.figures, kind)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        own = {name: getattr(self, name) for name in ("run_id", "link", "simulated", "rewriter")}
        return {"verdict": self.verdict.to_dict(), **own, **plain_fields(self.report), "metrics": self.metrics}


def _percent(excess: float) -> str:
    return f"{50 + 100 * excess:.0f} %"


def _draw_cell(axes: Any, column: int, row: int, cell: JudgeAndAuthor) -> None:
    wins, more, others = number_text(cell.share), "–", "nobody else judged them"
    place = 0.5
    if cell.others is not None:
        more, others = number_text(cell.share - cell.others, signed=True), f"{number_text(cell.others)} with the others"
        # The ends of the scale are left out: they would hide the digits.
        place += 0.35 * max(-1.0, min(1.0, 2 * (cell.share - cell.others)))
    value = f"{'● ' if cell.own else '○ ' if cell.family else ''}{more}"
    words = f"{cell.author} with {cell.judge}: wins {wins} of {cell.n:,} pairs, {others}"
    below = f"{wins}, n {cell.n:,}"
    write_cell(axes, column, row, scale="RdBu_r", place=place, value=value, below=below, words=words)
