"""`Alignment`: what came of an alignment, as tables, page, figure and keys, and what its run holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from jrh_mlflow.people.alignment.held_out import (
    METHOD,
    SENT_BACK,
    AlignDecision,
    AlignmentReport,
    JudgeCost,
    JudgedTrace,
    PairedReadings,
)
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.show.cards import ShownResult, brief_run
from jrh_mlflow.show.figures.canvas import canvas, error_bars, label_rows, marks, plotted, short, write_corners
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.show.numbers import at_least_text, interval_text, missing_text, money_text, number_text
from jrh_mlflow.show.page import Drawing, Page, Section
from jrh_mlflow.show.tables import Column, FilledTable, Table, reading_cell
from jrh_mlflow.text import blank_secrets, brief_name
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import RunContent, shown_content

if TYPE_CHECKING:
    from jrh_mlflow.show.figures.canvas import Figure

_SIDES = ("before", "after")
_ROW = 0.75
"""Inches of a row of the figure."""
_HOW = (
    f"Held-out traces were drawn within people's labels; the optimiser saw none of them, and a judge sees nothing of "
    f"what was said about a trace. Intervals are 95 %: Wilson for shares, for the difference the {METHOD}. Failed and "
    f"unreadable answers are no verdicts and leave their pair out. What the optimiser itself spent is not known here."
)


@dataclass(frozen=True, kw_only=True)
class Alignment(ShownResult):
    """A judge before and after aligning, on traces that the optimiser never saw."""

    report: AlignmentReport
    judge: Any
    """The judge of MLflow's that was returned: aligned, or as it was."""
    aligned: Any
    """What the optimiser made, returned or not."""
    settings: Mapping[str, object]
    """Of the optimisation: holdout, margin, seed, optimizer."""
    facts: Mapping[str, Mapping[str, object]]
    """What identifies the judge `before` and `after`: model, hash of the instructions."""

    @property
    def decision(self) -> AlignDecision:
        """`better`, `not worse` or `sent back`."""
        return self.report.decision

    @property
    def returned(self) -> bool:
        """Whether the aligned judge was returned."""
        return self.decision != SENT_BACK

    @property
    def reason(self) -> str:
        """Why, with its numbers."""
        return self.report.reason

    @property
    def before(self) -> Reading:
        """Share of held-out traces on which the old judge agrees with people."""
        return self.report.agreement.before

    @property
    def after(self) -> Reading:
        """Share of held-out traces on which the aligned judge agrees with people."""
        return self.report.agreement.after

    @property
    def difference(self) -> Reading:
        """After minus before, paired by trace."""
        return self.report.agreement.difference

    @property
    def suite(self) -> PairedReadings | None:
        """Consistency with itself on reformatted traces; None where it was not asked for."""
        return self.report.suite

    @property
    def cost(self) -> Mapping[str, JudgeCost]:
        """What measuring took, `before` and `after`."""
        return self.report.cost

    @property
    def metrics(self) -> dict[str, float]:
        """Exactly what is logged."""
        return {point.key: point.value for point in alignment_points(self.report)}

    @property
    def title(self) -> str:
        """Names the judge."""
        return f"Alignment of {brief_name(str(self.judge.name))}"

    def _page(self, drawings: Sequence[Drawing] = ()) -> Page:
        """Return the decision, then both judges side by side, what they cost and what became of the traces."""
        report = self.report
        counts = ", ".join(f"{count:,} {name}" for name, count in report.counts.items())
        options = "; ".join(f"{name} {value}" for name, value in self.settings.items() if value is not None)
        changed = (
            f"Verdicts that changed for the better: {report.agreement.gains}, for the worse: {report.agreement.losses}."
        )
        sentences = [f"Traces: {counts}." if counts else "", f"Settings: {options}." if options else "", _HOW]
        return Page(
            title=f"{self.title}: {report.decision}",
            lead=f"{'The judge stays as it was. ' * (report.decision == SENT_BACK)}{report.reason}",
            sections=[
                Section(heading="Before and after", blocks=[_compared(report), changed]),
                Section(heading="Figures", blocks=[drawings], media=("html",)),
                Section(heading="Cost", blocks=[COSTS(report.cost.items())]),
                Section(heading="How it was measured", blocks=list(filter(None, sentences)), always=True),
            ],
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per held-out trace."""
        return alignment_tables(self.report)["held_out"]

    def plot(self, kind: str | None = None) -> Figure:
        """Draw what changed on the held-out traces."""
        return plotted(alignment_figures(self.report, title=self.title), kind)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {
            "run_id": self.run_id,
            "link": self.link,
            "judge": str(self.judge.name),
            "settings": dict(self.settings),
            "facts": {side: dict(known) for side, known in self.facts.items()},
            **self.report.to_dict(),
        }

    def __repr__(self) -> str:
        read = difference_text(self.difference)
        return f"Alignment({brief_name(str(self.judge.name))}: {self.decision}, {read}, {brief_run(self.run_id)})"

    def _card(self) -> dict[str, Any]:
        facts = {name: str(value) for name, value in self.settings.items()}
        return {"title": self.page.title, "tables": [_compared(self.report)], "facts": facts}


def failed_content(
    reason: str,
    *,
    settings: Mapping[str, object],
    judge: Mapping[str, object],
    answers: Sequence[Mapping[str, object]],
) -> RunContent:
    """Return what the run of an alignment holds that came to nothing: why, and what judges said until then."""
    tables = {f"{keys.TABLES_FOLDER}/held_out.csv": pd.DataFrame(answers)} if answers else {}
    return RunContent(
        points=[],
        params={"align": settings, "judge": judge},
        description=reason,
        described_in=keys.FAILURE_FILE,
        artifacts={keys.FAILURE_FILE: reason, **tables},
    )


def alignment_content(done: Alignment, instructions: Mapping[str, str]) -> RunContent:
    """Return what the run of an alignment holds; `instructions` are those of the judge before and after."""
    drawings = draw(alignment_figures(done.report, title=done.title))
    judge = {"name": done.judge.name, **done.facts["before"]}
    return shown_content(
        done,
        keys.ALIGNMENT_JSON,
        points=alignment_points(done.report),
        params={"align": done.settings, "judge": judge, "aligned": done.facts["after"]},
        tags={
            keys.own_key("decision"): done.decision,
            keys.own_key("align/difference"): difference_text(done.difference),
        },
        tables=alignment_tables(done.report),
        drawings=drawings,
        more={f"{keys.JUDGE_FOLDER}/{side}.txt": blank_secrets(text) for side, text in instructions.items()},
    )


Compared = tuple[str, Reading, Reading, Reading | None]
"""What was read, before and after, and the difference where it has one."""
COMPARED: Table[Compared] = Table.of(
    Column("reading", lambda row: row[0]),
    Column("before", lambda row: reading_cell(row[1])),
    Column("after", lambda row: reading_cell(row[2])),
    Column("difference", lambda row: "–" if row[3] is None else difference_text(row[3])),
    Column("n (left out)", lambda row: str(row[2].n) if row[3] is None else f"{row[3].n} ({row[3].excluded})"),
)
COSTS: Table[tuple[str, JudgeCost]] = Table.of(
    Column("cost of measuring", lambda row: row[0]),
    Column("calls", lambda row: f"{row[1].calls:,}"),
    Column("tokens in / out", lambda row: f"{_tokens(row[1].input_tokens)} / {_tokens(row[1].output_tokens)}"),
    Column("dollars", lambda row: at_least_text(row[1].usd, row[1].unknown)),
    Column("$ per 1,000", lambda row: money_text(_usd_per_1k(row[1]))),
)


def _tokens(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _usd_per_1k(cost: JudgeCost) -> float | None:
    # Over the calls that told their dollars: with the others it would look cheap.
    return None if cost.usd is None else 1000 * cost.usd / (cost.calls - cost.unknown)


def _compared(report: AlignmentReport) -> FilledTable[Compared]:
    agreement, suite = report.agreement, report.suite
    rows: list[Compared] = [("agrees with people", agreement.before, agreement.after, agreement.difference)]
    if report.kappa:
        rows.append(("quadratic kappa with people", report.kappa["before"], report.kappa["after"], None))
    if suite is not None:
        rows.append(("same verdict when only the layout changes", suite.before, suite.after, suite.difference))
    return COMPARED(rows)


def alignment_tables(report: AlignmentReport) -> dict[str, pd.DataFrame]:
    """Return the held-out traces and the reformatted ones, trace row each; what is missing is an empty cell."""
    rows = {
        "held_out": [_row(trace) for trace in report.traces],
        "reformatted": [_probe_row(trace) for trace in report.traces if trace.probe is not None],
    }
    return {name: pd.DataFrame(listed) for name, listed in rows.items() if listed}


def _row(trace: JudgedTrace) -> dict[str, Any]:
    known = {side: getattr(trace, side) for side in _SIDES}
    return {
        "trace": trace.trace,
        "people": trace.label,
        "n_people": trace.n_people,
        **{side: verdict.answer or None for side, verdict in known.items()},
        **{f"{side}_outcome": verdict.outcome for side, verdict in known.items()},
        **{
            f"{side}_right": verdict.answer == trace.label if verdict.given else None for side, verdict in known.items()
        },
        **{f"{side}_error": verdict.error or None for side, verdict in known.items()},
        "link": trace.link or None,
    }


def _probe_row(trace: JudgedTrace) -> dict[str, Any]:
    row: dict[str, Any] = {"trace": trace.trace, "rule": trace.probe.rule if trace.probe else None}
    for side in _SIDES:
        plain, probe = getattr(trace, side), getattr(trace.probe, side)
        same = plain.answer == probe.answer if plain.given and probe.given else None
        row |= {side: plain.answer or None, f"{side}_reformatted": probe.answer or None, f"{side}_same": same}
    return {**row, "link": trace.link or None}


def difference_text(reading: Reading) -> str:
    """Write a difference with its sign and interval, the bounds of a withheld one, or `n/a`."""
    if isinstance(reading, NotEstimable):
        return missing_text(reading)
    if reading.interval is None:
        return "n/a"
    return f"{number_text(reading.value, signed=True)} {interval_text(*reading.interval, signed=True)}"


def alignment_points(report: AlignmentReport) -> list[keys.Point]:
    """Spell an alignment: `align/before/accuracy/rate`, `align/difference/value`, `align/after/consistency/rate`."""
    readings: dict[str, Reading] = {
        "before/accuracy": report.agreement.before,
        "after/accuracy": report.agreement.after,
        "difference": report.agreement.difference,
        **{f"{side}/kappa_quadratic": kappa for side, kappa in report.kappa.items()},
    }
    if report.suite is not None:
        readings["before/consistency"] = report.suite.before
        readings["after/consistency"] = report.suite.after
        readings["consistency_difference"] = report.suite.difference
    counts = {f"align/traces/{keys.ascii_name(name)}": float(count) for name, count in report.counts.items()}
    costs = report.cost.values()
    calls, unknown = sum(cost.calls for cost in costs), sum(cost.unknown for cost in costs)
    known = [cost.usd for cost in costs if cost.usd is not None]
    paid = {
        metric_keys.CALLS_TOTAL: calls,
        metric_keys.COST: sum(known) if known else None,
        # Without any known cost there is no sum that could be incomplete.
        metric_keys.UNKNOWN_COSTS: unknown or None if known else None,
    }
    points = [point for name, reading in readings.items() for point in keys.reading_points(f"align/{name}", reading)]
    return points + keys.known_points({**counts, **paid})


def alignment_figures(report: AlignmentReport, *, title: str) -> dict[str, Figure]:
    """Draw the differences after aligning, by file name; nothing where none is known."""
    named = {"agrees with people": report.agreement, "same verdict,\nother layout": report.suite}
    rows = {name: read for name, read in named.items() if read and isinstance(read.difference, Estimate)}
    return {"difference.png": _differences(report, rows, title)} if rows else {}


def _differences(report: AlignmentReport, rows: dict[str, PairedReadings], title: str) -> Figure:
    figure, axes = canvas(8.6, 1.75 + _ROW * len(rows), left=1.9, bottom=0.95, top=0.5)
    for place, read in enumerate(rows.values()):
        point = read.difference
        assert isinstance(point, Estimate)
        axes.errorbar([point.value], [place], xerr=error_bars([point]), capsize=4, **marks(place, size=8))
        axes.annotate(
            f"{_share(read, 'before')} → {_share(read, 'after')}, n {point.n}",
            (point.value, place),
            xytext=(0, 9),
            textcoords="offset points",
            ha="center",
            fontsize=10,
        )
    label_rows(axes, list(rows))
    axes.axvline(0, color="#444444", linewidth=1)
    axes.axvline(-report.margin, color="#D55E00", linewidth=1.2, linestyle=(0, (4, 3)))
    axes.set_xlabel(f"difference, after minus before (broken line: a loss of {report.margin:g})")
    write_corners(figure, title=short(f"{title}: {report.decision}", most=90), foot="bars: 95 %, paired by trace")
    return figure


def _share(read: PairedReadings, side: str) -> str:
    reading = getattr(read, side)
    return number_text(reading.value) if isinstance(reading, Estimate) else "n/a"
