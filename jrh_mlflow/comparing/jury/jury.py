"""`jrh.jury`: logged judges vote together, as an MLflow run of its own and with no new call."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jrh_mlflow.comparing.compare import ResultFromRuns, content_from_runs, load_together, log_from_runs
from jrh_mlflow.comparing.comparison_view import filled_frames, n_text, reading_values
from jrh_mlflow.comparing.jury.jury_report import JURY, JuryReport, Seat, jury_report, jury_verdict
from jrh_mlflow.comparing.jury.panels import BestPanel, Panel, VotingRule
from jrh_mlflow.comparing.jury.votes import PairAgreement
from jrh_mlflow.comparing.recommendation import closing_section
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.show import numbers
from jrh_mlflow.show.cards import brief_run
from jrh_mlflow.show.figures import canvas
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.show.html import FROM_RUN
from jrh_mlflow.show.page import Drawing, Page, Section
from jrh_mlflow.show.tables import Cell, Column, FilledTable, Table, field_column, reading_cell
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import run_notes
from jrh_mlflow.tracking.runs.store import RunContent, Store

if TYPE_CHECKING:
    import pandas as pd

    from jrh_mlflow.show.figures.canvas import Figure

_AXES = {"accuracy": "accuracy", "fpr": "FPR", "fnr": "FNR", "no_decision": "no decision"}
_MOST_PAIRS = 45
"""Of judges on a page; the table `agreement` has all."""
_HOW = (
    "Intervals are 95 %, sources (tasks) as clusters. No decision is an answer that is not right; "
    "a unit with too few votes leaves the denominator."
)


@dataclass(frozen=True, kw_only=True)
class Jury(ResultFromRuns):
    """A jury, the runs it is made of, and where it is logged."""

    report: JuryReport

    @cached_property
    def verdict(self) -> Verdict:
        """Whether to use the jury or a member alone, and why."""
        calls = {run.judge: run.calls for run in self.runs}
        return jury_verdict(self.report, calls, labels=self.runs[0].suite.labels)

    @property
    def metrics(self) -> dict[str, float]:
        """Exactly what is logged."""
        return {point.key: point.value for point in jury_points(self.report)}

    def _page(self, drawings: Sequence[Drawing] = ()) -> Page:
        return jury_page(
            self.report,
            self.verdict,
            title=self.title,
            notes=run_notes(self.runs),
            drawings=drawings,
            runs={run.judge: run.run_id for run in self.runs},
        )

    def __repr__(self) -> str:
        accuracy = f"accuracy {numbers.reading_text(self.report.readings['accuracy'])}"
        judges = f"{len(self.runs)} judges on {brief_name(self.runs[0].suite.name)}"
        n_votes = f"{numbers.reading_text(self.report.effective_votes)} effective votes"
        return f"Jury({judges}: {accuracy}, {n_votes}, {brief_run(self.run_id)})"

    def _card(self) -> dict[str, Any]:
        report = self.report
        effective = numbers.reading_text(report.effective_votes)
        facts = {
            "ties": report.rule.ties,
            "units": f"{report.n_units:,}, {report.n_split:,} of them split",
            "effective votes": f"{effective} of {len(report.judges)}",
            "suite": self.suite_text,
        }
        return {"tables": [seats_table(report)], "facts": facts}

    def to_frame(self) -> pd.DataFrame:
        """Return one row per axis of the jury and of each judge."""
        return jury_tables(self.report)["judges"]

    def plot(self, kind: str | None = None) -> Figure:
        """Draw who agrees with whom."""
        return canvas.plotted(jury_figures(self.report, title=self.title), kind)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {"verdict": self.verdict.to_dict(), **self.sources, **self.report.to_dict()}


def jury(
    runs: Collection[str | Evaluation],
    *,
    ties: str = "abstain",
    min_votes: int | None = None,
    size: int | None = None,
    max_usd: float | None = None,
    experiment: str | None = None,
    run_name: str | None = None,
    tracking_uri: str | None = None,
    seed: int = 0,
    log: bool = True,
    tags: Mapping[str, str] | None = None,
) -> Jury:
    """Let logged judges vote on the suite they were all measured on; no judge is asked anything.

    The majority decides. Reads the accuracy of the jury beside its judges, how alike they vote and
    how many independent votes that leaves, and the best panel of a size (chosen on one half of the
    sources, reported on the other).

    Args:
        runs: Two or more evaluations, run ids, `runs:/<id>`, or unique beginnings of ids. Their
            order matters for ties `first` only.
        ties: What a draw becomes: `abstain` (no decision), `tie` (pairs), `lowest`, `highest`,
            `median` (ordered labels) or `first`.
        min_votes: Fewer votes make a unit unusable; more than half of the panel when None. A best
            panel of fewer judges needs all of its votes.
        size: Of the best panel; three when there are more than three runs.
        max_usd: Dollars per 1,000 judgments that the best panel may cost.
        experiment: MLflow experiment of the jury; that of the first run when None.
        run_name: Name of the run.
        tracking_uri: As for `compare`.
        seed: Of halves and resampling.
        log: Log the jury as a run of its own, kind `jury`.
        tags: More tags for the run.

    Raises:
        RecipeError: when a run cannot be used, the suites are not the same, or no panel costs so
            little.
        CallsError: when there are too few sources to choose on one half and report on the other.
        TrackingError: when MLflow cannot be reached.
    """
    loaded, tracking_uri = load_together(runs, "A jury", tracking_uri=tracking_uri, log=log)
    report = jury_report(
        {run.judge: run.calls for run in loaded},
        rule=VotingRule(ties=ties, min_votes=min_votes),
        size=size,
        max_usd=max_usd,
        labels=loaded[0].suite.labels,
        seed=seed,
    )
    done = Jury(report=report, runs=tuple(loaded))
    if not log:
        return done
    settings = {"size": size, "max_usd": max_usd, "seed": seed}
    content = partial(_jury_content, settings=settings)
    store = Store(tracking_uri, experiment or loaded[0].experiment)
    return log_from_runs(done, "jury", content, store, name=run_name, tags=tags)


def _jury_content(done: Jury, *, settings: Mapping[str, object]) -> RunContent:
    """Return what the run of a jury holds."""
    report = done.report
    quorum = report.rule.quorum(len(report.judges))
    return content_from_runs(
        done,
        "jury",
        points=jury_points(report),
        params={
            "jury": {"ties": report.rule.ties, "min_votes": quorum, **settings},
            "suite": keys.suite_facts(done.runs[0].suite),
        },
        tables=jury_tables(report),
        drawings=draw(jury_figures(report, title=done.title)),
    )


# Tables, page, figure and keys


def _all_seats(report: JuryReport) -> list[tuple[str, Seat]]:
    return [(JURY, report.jury), *report.seats.items()]


def seats_table(report: JuryReport, runs: Mapping[str, str] = MappingProxyType({})) -> FilledTable[tuple[str, Seat]]:
    """Return the jury and its judges with readings and dollars; judges lead to their runs."""

    def link(row: tuple[str, Seat]) -> str | None:
        return FROM_RUN.run(runs[row[0]]) if row[0] in runs else None

    def cell(axis: str, row: tuple[str, Seat]) -> Cell:
        return reading_cell(row[1].readings[axis])

    shown = {axis: head for axis, head in _AXES.items() if axis in report.readings}
    columns: list[Column[tuple[str, Seat]]] = [
        Column("judge", lambda row: row[0], link=link),
        *(Column(head, partial(cell, axis)) for axis, head in shown.items()),
        Column("n", lambda row: n_text([row[1].readings["accuracy"]])),
        Column("$ per 1,000", lambda row: numbers.money_text(row[1].usd_per_1k)),
    ]
    return Table(tuple(columns))(_all_seats(report))


SEAT_AXES: Table[tuple[str, Seat, str]] = Table.of(
    Column("judge", value=lambda row: row[0]),
    Column("axis", value=lambda row: row[2]),
    *reading_values(lambda row: row[1].readings[row[2]]),
    Column("usd_per_1k", value=lambda row: row[1].usd_per_1k),
)
AGREEMENTS: Table[PairAgreement] = Table.of(
    Column("judges", lambda pair: f"{pair.a} · {pair.b}"),
    field_column("a"),
    field_column("b"),
    Column("agreement", lambda pair: reading_cell(pair.agreement)),
    *reading_values(lambda pair: pair.agreement),
    field_column("ac1", numbers.number_text, head="AC1"),
    field_column("error_correlation", numbers.number_text, head="correlation of errors"),
    Column("n", lambda pair: n_text([pair.agreement])),
)
PANELS: Table[tuple[Panel, float]] = Table.of(
    Column("panel", value=lambda row: ", ".join(row[0])),
    Column("in_sample_accuracy", value=lambda row: row[1]),
)


def jury_tables(report: JuryReport) -> dict[str, pd.DataFrame]:
    """Return what there is to tabulate, by name; what is missing is an empty cell, never 0."""
    tried = report.best.tried if isinstance(report.best, BestPanel) else {}
    axes = [(name, seat, axis) for name, seat in _all_seats(report) for axis in seat.readings]
    tables: dict[str, FilledTable[Any]] = {
        "judges": SEAT_AXES(axes),
        "agreement": AGREEMENTS(report.agreements),
        "panels": PANELS(tried.items()),
    }
    frames = filled_frames(tables)
    if not report.answers.empty:
        frames["answers"] = report.answers
    return frames


def jury_page(
    report: JuryReport,
    verdict: Verdict,
    *,
    title: str,
    notes: Sequence[str] = (),
    drawings: Sequence[Drawing] = (),
    runs: Mapping[str, str] = MappingProxyType({}),
) -> Page:
    """Return what to do, the jury beside its judges, effective votes, agreement, the best panel."""
    n_judges = len(report.judges)
    quorum = report.rule.quorum(n_judges)
    return Page(
        title=title,
        lead=verdict.sentences[0],
        sentences=[
            *verdict.sentences[1:],
            f"The majority decides; ties: {report.rule.ties}; at least {quorum} of {n_judges} "
            f"votes. {report.n_units} units, {report.n_split} of them split.",
        ],
        notes=(*notes, *report.notes),
        sections=[
            Section(
                heading="The jury and its judges",
                blocks=[seats_table(report, runs), _HOW, *_missing_readings(report)],
            ),
            Section(heading="Figures", blocks=[drawings], media=("html",)),
            Section(heading="Effective number of votes", blocks=[_effective_text(report)], always=True),
            _agreement_section(report),
            *_best_sections(report.best),
            closing_section(verdict.sentences[0]),
        ],
    )


def _missing_readings(report: JuryReport) -> Iterator[str]:
    for name, seat in _all_seats(report):
        for axis, reading in seat.readings.items():
            if axis in _AXES and isinstance(reading, NotEstimable):
                yield f"Without a number: {name}, {_AXES[axis]}: {reading.reason}"


def _effective_text(report: JuryReport) -> str:
    number = report.effective_votes
    if isinstance(number, NotEstimable):
        return f"n/a ({number.reason})."
    return (
        f"{numbers.reading_text(number)} of {len(report.judges)} votes; mean correlation of errors "
        f"{numbers.reading_text(report.error_correlation)}. So many independent judges would vary "
        f"as much: n / (1 + (n − 1) ρ)."
    )


def _agreement_section(report: JuryReport) -> Section:
    def alike(pair: PairAgreement) -> float:
        # Pairs without a correlation come last: none is under -1.
        return -2 if pair.error_correlation is None else pair.error_correlation

    pairs = sorted(report.agreements, key=alike, reverse=True)
    more = ""
    if len(pairs) > _MOST_PAIRS:
        more = f"The {_MOST_PAIRS} of {len(pairs)} pairs with the most alike errors."
    table = AGREEMENTS(pairs[:_MOST_PAIRS], more=more)
    return Section(heading="Agreement of judges", blocks=[table], media=("html", "markdown"))


def _best_sections(best: BestPanel | NotEstimable | None) -> list[Section]:
    if best is None:
        return []
    if isinstance(best, NotEstimable):
        return [Section(heading="Best panel", blocks=[f"n/a ({best.reason})."], always=True)]
    heading = f"Best panel of {best.size}"
    if best.max_usd is not None:
        heading += f" under ${best.max_usd:g} per 1,000"
    optimism = "n/a"
    if best.optimism is not None:
        optimism = numbers.number_text(best.optimism, signed=True)
    usd = numbers.money_text(best.usd_per_1k)
    on_halves = " and ".join(", ".join(panel) for panel in best.halves)
    text = (
        f"{', '.join(best.panel)} ({usd} per 1,000; {len(best.tried)} panels tried). Chosen on one "
        f"half of the sources and reported on the other: {numbers.cell_text(best.accuracy)}; where "
        f"it was chosen {numbers.number_text(best.in_sample)}, so the optimism is {optimism}. "
        f"Chosen on the halves: {on_halves}."
    )
    notes = []
    if best.unpriced:
        notes.append(f"Left out, price unknown: {', '.join(best.unpriced)}.")
    return [Section(heading=heading, blocks=[text, *notes], always=True)]


def jury_points(report: JuryReport) -> list[keys.Point]:
    """Spell a jury as metrics, such as `jury/accuracy/rate`, `jury/effective_votes/value`."""
    readings: dict[str, Reading] = {
        **report.readings,
        "effective_votes": report.effective_votes,
        "error_correlation": report.error_correlation,
    }
    values: dict[str, float | None] = {
        "size": len(report.judges),
        "n_units": report.n_units,
        "n_split": report.n_split,
        "usd_per_1k": report.jury.usd_per_1k,
    }
    if isinstance(report.best, BestPanel):
        best = report.best
        readings["best/accuracy"] = best.accuracy
        values["best/size"] = best.size
        values["best/in_sample"] = best.in_sample
        values["best/optimism"] = best.optimism
        values["best/usd_per_1k"] = best.usd_per_1k
    points = keys.known_points({f"jury/{name}": value for name, value in values.items()})
    for name, reading in readings.items():
        points += keys.reading_points(f"jury/{name}", reading)
    return points


def jury_figures(report: JuryReport, *, title: str) -> dict[str, Figure]:
    """Draw judges × judges by file name: agreement below the diagonal, error correlation above."""
    judges = report.judges
    if not any(isinstance(pair.agreement, Estimate) for pair in report.agreements):
        return {}
    foot = "below the diagonal: share of equal answers; above it: correlation of errors (blank: none)"
    head = canvas.short(f"Agreement: {title}", most=90)
    figure, axes = canvas.cell_table(judges, judges, title=head, foot=foot)
    for pair in report.agreements:
        first = judges.index(pair.a)
        second = judges.index(pair.b)
        if isinstance(pair.agreement, Estimate):
            shown = numbers.hover_text(pair.agreement)
            canvas.write_cell(
                axes,
                first,
                second,
                scale="cividis",
                place=pair.agreement.value,
                value=f"{pair.agreement.value:.2f}",
                below=f"n {pair.agreement.n}",
                words=f"{pair.a} and {pair.b}, equal answers: {shown}",
            )
        rho = pair.error_correlation
        if rho is not None:
            canvas.write_cell(
                axes,
                second,
                first,
                scale="RdBu_r",
                place=(rho + 1) / 2,
                value=f"{rho:.2f}",
                below="errors",
                words=f"{pair.a} and {pair.b}, correlation of errors: {rho:.2f}",
            )
    return {"agreement.png": figure}
