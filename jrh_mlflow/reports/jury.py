"""A jury as tables and as Markdown: every number with n and interval."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from jrh_mlflow.measures.jury.cascade import Cascade
from jrh_mlflow.measures.jury.jury import JuryReport
from jrh_mlflow.measures.jury.panels import BestPanel
from jrh_mlflow.reports.comparison import n_text, reading_row
from jrh_mlflow.reports.markdown import table
from jrh_mlflow.reports.numbers import cell_text, money_text, number_text, short_interval, source_ends
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading

JURY = "the jury"
_AXES = {"accuracy": "accuracy", "fpr": "FPR", "fnr": "FNR", "no_decision": "no decision"}
_MOST_PAIRS = 45
"""Of judges in Markdown; the table `agreement` has all."""
_HOW = (
    "Intervals are 95 %, sources (tasks) as clusters. No decision is an answer that is not right; a unit with too few "
    "votes leaves the denominator."
)


def jury_tables(report: JuryReport) -> dict[str, pd.DataFrame]:
    """Return what there is to tabulate, by name; what is missing is an empty cell, never 0."""
    rows = {JURY: report.readings, **{name: seat.readings for name, seat in report.seats.items()}}
    prices = {JURY: report.usd_per_1k, **{name: seat.usd_per_1k for name, seat in report.seats.items()}}
    frames = {
        "judges": pd.DataFrame(
            [
                {"judge": name, "axis": axis, **reading_row(one), "usd_per_1k": prices[name]}
                for name, readings in rows.items()
                for axis, one in readings.items()
            ]
        ),
        "conditions": pd.DataFrame(
            [{"condition": name, **reading_row(one)} for name, one in report.by_condition.items()]
        ),
        "agreement": pd.DataFrame(
            [
                {
                    "a": one.a,
                    "b": one.b,
                    **reading_row(one.agreement),
                    "ac1": one.ac1,
                    "error_correlation": one.error_correlation,
                }
                for one in report.agreements
            ]
        ),
        "answers": report.answers,
        **_panel_tables(report.best),
    }
    return {name: frame for name, frame in frames.items() if not frame.empty}


def jury_markdown(report: JuryReport, *, title: str, note: str | None) -> str:
    """Render the jury beside its judges, then effective votes, agreement, the best panel and the cascade."""
    rule = report.rule
    lines = [f"# {title}", ""]
    lines += [f"> {text}\n" for text in ((note,) if note else ()) + report.notes]
    how = f"ties: {rule.ties}; " if rule.vote != "unanimous" else ""
    lines += [
        f"**Vote:** {rule.vote}; {how}at least {rule.quorum(len(report.judges))} of {len(report.judges)} votes. "
        f"{report.n_units} units, {report.n_split} of them split.",
        "",
        *_judges(report),
        *_effective(report),
        *_conditions(report.by_condition),
        *_agreement(report),
        *_best(report.best),
        *_cascade(report.cascade),
    ]
    return "\n".join(lines)


def _judges(report: JuryReport) -> list[str]:
    axes = [axis for axis in _AXES if axis in report.readings]
    weighted = any(seat.weight is not None for seat in report.seats.values())
    header = ["", *(_AXES[axis] for axis in axes), "n", "$ per 1,000", *(["weight"] if weighted else [])]
    rows = [_row(JURY, report.readings, axes, report.usd_per_1k) + (["–"] if weighted else [])]
    for name, seat in report.seats.items():
        weight = [number_text(seat.weight, places=2)] if weighted else []
        rows.append(_row(name, seat.readings, axes, seat.usd_per_1k) + weight)
    return ["### The jury and its judges", "", *table(header, rows), "", _HOW, "", *_reasons(report)]


def _row(name: str, readings: Mapping[str, Reading], axes: list[str], usd: float | None) -> list[str]:
    n = n_text({"accuracy": readings["accuracy"]})
    return [name, *(cell_text(readings[axis]) for axis in axes), n, money_text(usd)]


def _reasons(report: JuryReport) -> list[str]:
    rows = {JURY: report.readings, **{name: seat.readings for name, seat in report.seats.items()}}
    found = [
        f"- {name}, {axis}: {one.reason}"
        for name, readings in rows.items()
        for axis, one in readings.items()
        if axis in _AXES and isinstance(one, NotEstimable)
    ]
    return ["Without a number:", "", *found, ""] if found else []


def _effective(report: JuryReport) -> list[str]:
    number, rho, n = report.effective_votes, report.error_correlation, len(report.judges)
    if not isinstance(number, Estimate):
        text = f"n/a ({number.reason})."
    else:
        text = (
            f"**{_value(number)}** of {n} votes; mean correlation of errors {_value(rho)}. So many independent judges "
            f"would vary as much: n / (1 + (n − 1) ρ)."
        )
    return ["### Effective number of votes", "", text, ""]


def _conditions(readings: Mapping[str, Reading]) -> list[str]:
    if len(readings) < 2:
        return []
    rows = [[name, cell_text(one), n_text({name: one})] for name, one in readings.items()]
    return ["### The jury by test", "", *table(["test", "accuracy", "n"], rows), ""]


def _agreement(report: JuryReport) -> list[str]:
    shown = sorted(report.agreements, key=lambda one: -_known(one.error_correlation))[:_MOST_PAIRS]
    if not shown:
        return []
    rows = [
        [
            f"{one.a} · {one.b}",
            cell_text(one.agreement),
            number_text(one.ac1),
            number_text(one.error_correlation),
            n_text({"n": one.agreement}),
        ]
        for one in shown
    ]
    more = f"The {len(shown)} of {len(report.agreements)} pairs with the most alike errors."
    lines = ["### Agreement of judges", "", *([more, ""] if len(shown) < len(report.agreements) else [])]
    return [*lines, *table(["judges", "agreement", "AC1", "correlation of errors", "n"], rows), ""]


def _best(best: BestPanel | NotEstimable | None) -> list[str]:
    if best is None:
        return []
    if isinstance(best, NotEstimable):
        return ["### Best panel", "", f"n/a ({best.reason}).", ""]
    limit = "" if best.max_usd is None else f" under ${best.max_usd:g} per 1,000"
    optimism = "n/a" if best.optimism is None else f"{best.optimism:+.3f}"
    rows = [
        [f"half {place}", ", ".join(one.panel), f"{one.in_sample:.3f}", cell_text(one.out_of_sample), n, price]
        for place, one in enumerate(best.halves, 1)
        for n, price in [(n_text({"n": one.out_of_sample}), money_text(one.usd_per_1k))]
    ]
    header = ["chosen on", "panel", "accuracy there", "accuracy on the other half", "n", "$ per 1,000"]
    tried = f"{best.n_panels} panels tried" if best.search == "exhaustive" else "judges added one by one"
    return [
        f"### Best panel of {best.size}{limit}",
        "",
        f"**{', '.join(best.panel)}** ({money_text(best.usd_per_1k)} per 1,000; {tried}). Chosen on one half of the "
        f"sources and reported on the other: **{cell_text(best.accuracy)}**; where it was chosen {best.in_sample:.3f}, "
        f"so the optimism is {optimism}.",
        "",
        *table(header, rows),
        "",
        *(f"{note}\n" for note in best.notes),
    ]


def _cascade(found: Cascade | NotEstimable | None) -> list[str]:
    if found is None:
        return []
    if isinstance(found, NotEstimable):
        return ["### Cascade", "", f"n/a ({found.reason}).", ""]
    first = " and ".join(found.cheap)
    at = f"; thresholds {', '.join(f'{one:.4g}' for one in found.thresholds)}" if found.thresholds else ""
    rows = [
        [name, cell_text(one), n_text({"n": one}), money_text(usd)]
        for name, one, usd in (
            (f"{found.cheap[0]} alone", found.cheap_accuracy, found.cheap_usd_per_1k),
            ("cascade", found.accuracy, found.usd_per_1k),
            (f"{found.strong} alone", found.strong_accuracy, found.strong_usd_per_1k),
        )
    ]
    return [
        "### Cascade",
        "",
        f"{first} first, {found.strong} when unsure (signal: {found.unsure}{at}). "
        f"Escalated: **{cell_text(found.escalated)}**.",
        "",
        *table(["", "accuracy", "n", "$ per 1,000"], rows),
        "",
    ]


def _panel_tables(best: BestPanel | NotEstimable | None) -> dict[str, pd.DataFrame]:
    if not isinstance(best, BestPanel):
        return {}
    return {
        "panels": pd.DataFrame(
            [
                {"panel": ", ".join(one.panel), "in_sample_accuracy": one.accuracy, "usd_per_1k": one.usd_per_1k}
                for one in best.points
            ]
        ),
        "halves": pd.DataFrame(
            [
                {"panel": ", ".join(one.panel), "in_sample": one.in_sample, **reading_row(one.out_of_sample)}
                for one in best.halves
            ]
        ),
    }


def _value(reading: Reading) -> str:
    if not isinstance(reading, Estimate):
        return "n/a"
    span = short_interval(*source_ends(reading))
    return f"{reading.value:.2f} {span}" if span.startswith("[") else f"{reading.value:.2f}"


def _known(value: float | None) -> float:
    return -2.0 if value is None else value
