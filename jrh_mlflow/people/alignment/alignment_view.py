"""An alignment as Markdown and as tables: before and after on held-out traces, every number with n and interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from jrh_mlflow.people.alignment.held_out import METHOD, AlignmentReport, JudgeCost, JudgedTrace, PairedReadings
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import NotEstimable, Reading
from jrh_mlflow.show.numbers import at_least_text, cell_text, missing_text, money_text
from jrh_mlflow.show.plain_text import line_text, table
from jrh_mlflow.tracking.runs import keys

_SIDES = ("before", "after")
_HOW = (
    f"Held-out traces were drawn within people's labels; the optimiser saw none of them, and a judge sees nothing of "
    f"what was said about a trace. Intervals are 95 %: Wilson for shares, for the difference the {METHOD}. Failed and "
    f"unreadable answers are no verdicts and leave their pair out. What the optimiser itself spent is not known here."
)


def alignment_tables(report: AlignmentReport) -> dict[str, pd.DataFrame]:
    """Return the held-out traces and the reformatted ones, one row each; what is missing is an empty cell."""
    rows = {
        "held_out": [_row(one) for one in report.traces],
        "reformatted": [_probe_row(one) for one in report.traces if one.probe is not None],
    }
    return {name: pd.DataFrame(listed) for name, listed in rows.items() if listed}


def _row(one: JudgedTrace) -> dict[str, Any]:
    known = {side: getattr(one, side) for side in _SIDES}
    return {
        "trace": one.trace,
        "people": one.label,
        "n_people": one.n_people,
        **{side: verdict.answer or None for side, verdict in known.items()},
        **{f"{side}_outcome": verdict.outcome for side, verdict in known.items()},
        **{f"{side}_right": verdict.answer == one.label if verdict.given else None for side, verdict in known.items()},
        **{f"{side}_error": verdict.error or None for side, verdict in known.items()},
        "link": one.link or None,
    }


def _probe_row(one: JudgedTrace) -> dict[str, Any]:
    row: dict[str, Any] = {"trace": one.trace, "rule": one.probe.rule if one.probe else None}
    for side in _SIDES:
        plain, probe = getattr(one, side), getattr(one.probe, side)
        same = plain.answer == probe.answer if plain.given and probe.given else None
        row |= {side: plain.answer or None, f"{side}_reformatted": probe.answer or None, f"{side}_same": same}
    return {**row, "link": one.link or None}


def alignment_markdown(report: AlignmentReport, *, title: str, settings: Mapping[str, object]) -> str:
    """Render the decision first, then both judges side by side, what they cost and what became of the traces."""
    counts = ", ".join(f"{count:,} {name}" for name, count in report.counts.items())
    gains, losses = report.agreement.gains, report.agreement.losses
    told = "; ".join(f"{name} {value}" for name, value in settings.items())
    return "\n".join(
        [
            f"# {line_text(title)}: {report.decision}",
            "",
            line_text(report.reason),
            "",
            *(f"> {line_text(note)}\n" for note in report.notes),
            *table(*alignment_rows(report)),
            "",
            f"Verdicts that changed for the better: {gains}, for the worse: {losses}.",
            "",
            *table(["cost of measuring", "calls", "tokens in / out", "dollars", "$ per 1,000"], _cost_rows(report)),
            "",
            *([f"Traces: {counts}.", ""] if counts else []),
            *([f"Settings: {line_text(told)}.", ""] if told else []),
            _HOW,
            "",
        ]
    )


def alignment_rows(report: AlignmentReport) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of what was read before and after."""
    rows = [_paired_row("agrees with people", report.agreement)]
    if report.kappa:
        kappas = [cell_text(report.kappa[side]) for side in _SIDES]
        rows.append(["quadratic kappa with people", *kappas, "–", str(report.kappa["after"].n)])
    if report.suite is not None:
        rows.append(_paired_row("same verdict when only the layout changes", report.suite))
    return ["", *_SIDES, "difference", "n (left out)"], rows


def _paired_row(name: str, read: PairedReadings) -> list[str]:
    n = f"{read.difference.n} ({read.difference.excluded})"
    return [name, cell_text(read.before), cell_text(read.after), difference_text(read.difference), n]


def difference_text(reading: Reading) -> str:
    """Write a difference with its sign and interval, the bounds of a withheld one, or `n/a`."""
    if isinstance(reading, NotEstimable):
        return missing_text(reading)
    if reading.interval is None:
        return "n/a"
    low, high = reading.interval
    return f"{reading.value:+.3f} [{low:+.3f}, {high:+.3f}]"


def _cost_rows(report: AlignmentReport) -> list[list[str]]:
    return [[side, f"{cost.calls:,}", _tokens(cost), *_dollars(cost)] for side, cost in report.cost.items()]


def _tokens(cost: JudgeCost) -> str:
    return " / ".join("unknown" if each is None else f"{each:,}" for each in (cost.input_tokens, cost.output_tokens))


def _dollars(cost: JudgeCost) -> list[str]:
    told = cost.calls - cost.unknown
    per_1k = None if cost.usd is None else 1000 * cost.usd / told
    return [at_least_text(cost.usd, cost.unknown), money_text(per_1k)]


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
    calls, unknown = sum(one.calls for one in costs), sum(one.unknown for one in costs)
    told = [one.usd for one in costs if one.usd is not None]
    paid = {
        metric_keys.CALLS_TOTAL: calls,
        metric_keys.COST: sum(told) if told else None,
        metric_keys.UNKNOWN_COSTS: unknown or None if told else None,
    }
    points = [point for name, reading in readings.items() for point in keys.reading_points(f"align/{name}", reading)]
    return points + keys.known_points({**counts, **paid})
