"""A jury as tables and as Markdown: every number with n and interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from jrh_mlflow.comparing.comparison_view import n_text, reading_row
from jrh_mlflow.comparing.jury.jury_report import Cascade, JuryReport
from jrh_mlflow.comparing.jury.panels import BestPanel
from jrh_mlflow.comparing.jury.votes import PairAgreement
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.show.cards import CardTable
from jrh_mlflow.show.markdown import table
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import cell_text, money_text, number_text, short_interval, source_ends
from jrh_mlflow.show.plain_text import line_text
from jrh_mlflow.tracking.runs import keys

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
    rows: dict[str, list[dict[str, Any]]] = {
        "judges": [
            {"judge": name, "axis": axis, **reading_row(reading), "usd_per_1k": usd}
            for name, readings, usd, _ in _seats(report)
            for axis, reading in readings.items()
        ],
        "conditions": [{"condition": name, **reading_row(one)} for name, one in report.by_condition.items()],
        "agreement": [
            {"a": one.a, "b": one.b, **reading_row(one.agreement), "ac1": one.ac1, "error_correlation": rho}
            for one in report.agreements
            for rho in [one.error_correlation]
        ],
    }
    if isinstance(report.best, BestPanel):
        rows["panels"] = [
            {"panel": ", ".join(one.panel), "in_sample_accuracy": one.accuracy, "usd_per_1k": one.usd_per_1k}
            for one in report.best.points
        ]
        rows["halves"] = [
            {"panel": ", ".join(one.panel), "in_sample": one.in_sample, **reading_row(one.out_of_sample)}
            for one in report.best.halves
        ]
    frames = {name: pd.DataFrame(listed) for name, listed in rows.items()} | {"answers": report.answers}
    return {name: frame for name, frame in frames.items() if not frame.empty}


def jury_markdown(report: JuryReport, *, title: str, note: str | None) -> str:
    """Render the jury beside its judges, then effective votes, agreement, the best panel and the cascade."""
    rule = report.rule
    lines = [f"# {line_text(title)}", ""]
    lines += [f"> {line_text(text)}\n" for text in ((note,) if note else ()) + report.notes]
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


def _seats(report: JuryReport) -> list[tuple[str, Mapping[str, Reading], float | None, float | None]]:
    """Name, readings, price and weight of the jury, which has no weight, and of each judge."""
    judges = [(name, seat.readings, seat.usd_per_1k, seat.weight) for name, seat in report.seats.items()]
    return [(JURY, report.readings, report.usd_per_1k, None), *judges]


def jury_cells(report: JuryReport) -> list[CardTable]:
    """Show the jury beside its judges, then its best panel and its cascade where it has them."""
    header, rows = _seat_rows(report)
    others = [["best panel", *_panel_cells(report.best)]] if isinstance(report.best, BestPanel) else []
    if isinstance(report.cascade, Cascade):
        steps = f"{' + '.join(report.cascade.cheap)} → {report.cascade.strong}"
        others.append(["cascade", steps, cell_text(report.cascade.accuracy), money_text(report.cascade.usd_per_1k)])
    chosen = CardTable(header=["", "judges", "accuracy", "$ per 1,000"], rows=others)
    return [CardTable(header=header, rows=rows), chosen]


def _panel_cells(best: BestPanel) -> list[str]:
    return [", ".join(best.panel), cell_text(best.accuracy), money_text(best.usd_per_1k)]


def _seat_rows(report: JuryReport) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the jury and its judges."""
    axes = [axis for axis in _AXES if axis in report.readings]
    weighted = any(seat.weight is not None for seat in report.seats.values())
    header = ["", *(_AXES[axis] for axis in axes), "n", "$ per 1,000", *(["weight"] if weighted else [])]
    rows = []
    for name, readings, usd, weight in _seats(report):
        cells = [cell_text(readings[axis]) for axis in axes]
        weights = [number_text(weight, places=2)] if weighted else []
        rows.append([name, *cells, n_text({"accuracy": readings["accuracy"]}), money_text(usd), *weights])
    return header, rows


def _judges(report: JuryReport) -> list[str]:
    header, rows = _seat_rows(report)
    rows = [[line_text(name), *cells] for name, *cells in rows]
    return ["### The jury and its judges", "", *table(header, rows), "", _HOW, "", *_reasons(report)]


def _reasons(report: JuryReport) -> list[str]:
    found = [
        line_text(f"- {name}, {_AXES[axis]}: {reading.reason}")
        for name, readings, _, _ in _seats(report)
        for axis, reading in readings.items()
        if axis in _AXES and isinstance(reading, NotEstimable)
    ]
    return ["Without a number:", "", *found, ""] if found else []


def _effective(report: JuryReport) -> list[str]:
    number = report.effective_votes
    if isinstance(number, NotEstimable):
        return _without("Effective number of votes", number)
    text = (
        f"**{_value(number)}** of {len(report.judges)} votes; mean correlation of errors "
        f"{_value(report.error_correlation)}. So many independent judges would vary as much: n / (1 + (n − 1) ρ)."
    )
    return ["### Effective number of votes", "", text, ""]


def _without(heading: str, missing: NotEstimable | None) -> list[str]:
    """Say why a section has no number; nothing where none was asked for."""
    return [] if missing is None else [f"### {heading}", "", f"n/a ({line_text(missing.reason)}).", ""]


def _conditions(readings: Mapping[str, Reading]) -> list[str]:
    if len(readings) < 2:
        return []
    rows = [[line_text(axis_name(name)), cell_text(one), n_text({name: one})] for name, one in readings.items()]
    return ["### The jury by test", "", *table(["test", "accuracy", "n"], rows), ""]


def _agreement(report: JuryReport) -> list[str]:
    shown = sorted(report.agreements, key=_by_correlation)[:_MOST_PAIRS]
    if not shown:
        return []
    rows = [
        [line_text(f"{one.a} · {one.b}"), cell_text(one.agreement), number_text(one.ac1), rho, n]
        for one in shown
        for rho, n in [(number_text(one.error_correlation), n_text({"n": one.agreement}))]
    ]
    more = f"The {len(shown)} of {len(report.agreements)} pairs with the most alike errors."
    lines = ["### Agreement of judges", "", *([more, ""] if len(shown) < len(report.agreements) else [])]
    return [*lines, *table(["judges", "agreement", "AC1", "correlation of errors", "n"], rows), ""]


def _by_correlation(pair: PairAgreement) -> float:
    """Sort the most alike errors first, and pairs without a correlation last."""
    return 2.0 if pair.error_correlation is None else -pair.error_correlation


def _best(best: BestPanel | NotEstimable | None) -> list[str]:
    if not isinstance(best, BestPanel):
        return _without("Best panel", best)
    limit = "" if best.max_usd is None else f" under ${best.max_usd:g} per 1,000"
    optimism = "n/a" if best.optimism is None else f"{best.optimism:+.3f}"
    rows = [
        [f"half {place}", _panel(one.panel), f"{one.in_sample:.3f}", cell_text(one.out_of_sample), n, price]
        for place, one in enumerate(best.halves, 1)
        for n, price in [(n_text({"n": one.out_of_sample}), money_text(one.usd_per_1k))]
    ]
    header = ["chosen on", "panel", "accuracy there", "accuracy on the other half", "n", "$ per 1,000"]
    tried = f"{best.n_panels} panels tried" if best.search == "exhaustive" else "judges added one by one"
    return [
        f"### Best panel of {best.size}{limit}",
        "",
        f"**{_panel(best.panel)}** ({money_text(best.usd_per_1k)} per 1,000; {tried}). Chosen on one half of the "
        f"sources and reported on the other: **{cell_text(best.accuracy)}**; where it was chosen {best.in_sample:.3f}, "
        f"so the optimism is {optimism}.",
        "",
        *table(header, rows),
        "",
        *(f"{line_text(note)}\n" for note in best.notes),
    ]


def _panel(judges: Iterable[str]) -> str:
    return line_text(", ".join(judges))


def _cascade(found: Cascade | NotEstimable | None) -> list[str]:
    if not isinstance(found, Cascade):
        return _without("Cascade", found)
    first, strong = line_text(" and ".join(found.cheap)), line_text(found.strong)
    at = f"; thresholds {', '.join(f'{one:.4g}' for one in found.thresholds)}" if found.thresholds else ""
    rows = [
        [name, cell_text(one), n_text({"n": one}), money_text(usd)]
        for name, one, usd in (
            (f"{line_text(found.cheap[0])} alone", found.cheap_accuracy, found.cheap_usd_per_1k),
            ("cascade", found.accuracy, found.usd_per_1k),
            (f"{strong} alone", found.strong_accuracy, found.strong_usd_per_1k),
        )
    ]
    return [
        "### Cascade",
        "",
        f"{first} first, {strong} when unsure (signal: {found.unsure}{at}). "
        f"Escalated: **{cell_text(found.escalated)}**.",
        "",
        *table(["", "accuracy", "n", "$ per 1,000"], rows),
        "",
    ]


def _value(reading: Reading) -> str:
    if not isinstance(reading, Estimate):
        return "n/a"
    span = short_interval(*source_ends(reading))
    return f"{reading.value:.2f} {span}" if span.startswith("[") else f"{reading.value:.2f}"


def jury_points(report: JuryReport) -> list[keys.Point]:
    """Spell a jury as metrics, such as `jury/accuracy/rate`, `jury/effective_votes/value`, `jury/best/optimism`."""
    readings: dict[str, Reading] = {**report.readings, "effective_votes": report.effective_votes}
    readings["error_correlation"] = report.error_correlation
    numbers: dict[str, float | None] = {"size": len(report.judges), "n_units": report.n_units}
    numbers |= {"n_split": report.n_split, "usd_per_1k": report.usd_per_1k}
    if isinstance(report.best, BestPanel):
        best = report.best
        readings["best/accuracy"] = best.accuracy
        numbers |= {"best/size": best.size, "best/in_sample": best.in_sample}
        numbers |= {"best/optimism": best.optimism, "best/usd_per_1k": best.usd_per_1k}
    if isinstance(report.cascade, Cascade):
        readings["cascade/accuracy"] = report.cascade.accuracy
        readings["cascade/escalated"] = report.cascade.escalated
        numbers["cascade/usd_per_1k"] = report.cascade.usd_per_1k
    points = [point for name, reading in readings.items() for point in keys.reading_points(f"jury/{name}", reading)]
    return points + keys.known_points({f"jury/{name}": value for name, value in numbers.items()})
