"""What commands show of a result: about one screen of plain text, as readable in a pipe as on a terminal."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jrh_mlflow.comparing.comparison_view import axis_text, finding_head, finding_rows, judge_heads, letters_text
from jrh_mlflow.comparing.contrasts import Contrasts
from jrh_mlflow.measures.axes import AXES, Axis, by_step
from jrh_mlflow.measures.findings import detectable
from jrh_mlflow.measures.reliability import ReliabilityReadings
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.items import BASELINE
from jrh_mlflow.scoring.ledger import FEW_CLUSTERS
from jrh_mlflow.scoring.metric import DEFAULT
from jrh_mlflow.show.markdown import axes_by_reason
from jrh_mlflow.show.names import STEPS, axis_name, stimuli_name
from jrh_mlflow.show.numbers import (
    cell_text,
    is_shown,
    left_out_text,
    money_text,
    number_text,
    p_text,
    reading_text,
    short_interval,
)
from jrh_mlflow.show.plain_text import WIDTH, aligned, plain
from jrh_mlflow.sweeps.sweep_view import answer_lines, reading_facts

_MOST = 10
"""Differences and configurations that are listed: `--markdown` and the run's artifacts have all."""
_MOST_REASONS = 6


def wrapped(head: str, text: str) -> list[str]:
    """Write a line under a head of one word, broken at the width of a screen."""
    return textwrap.wrap(f"{head}: {plain(text)}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def datasheet_lines(estimates: Mapping[str, Reading]) -> list[str]:
    """Show what sums a datasheet up: a row for each axis, then the steps of the ladders."""
    main = [axis for axis in AXES if axis.column or axis.figure]
    rows = [
        [axis_name(axis.name), stimuli_name(axis), *_cells(reading)]
        for axis in main
        if not axis.by_step and (reading := estimates.get(axis.name)) is not None
        # Of a threshold it is said that there is none.
        if is_shown(reading) or axis.unit == "curve"
    ]
    table = aligned(["axis", "on", "reading [95 % by task]", "n", "left out"], rows, left=2) if rows else []
    steps = _step_lines(estimates, [axis for axis in main if axis.by_step])
    return [*table, *([""] if table and steps else []), *steps]


def _cells(reading: Reading) -> list[str]:
    """Write the reading, n and how many were left out."""
    if isinstance(reading, NotEstimable):
        return [reading_text(reading), "–", left_out_text(reading)]
    unit = "call" if reading.unit == "curve" else reading.unit
    return [reading_text(reading), f"{reading.n:,} {unit}{'' if reading.n == 1 else 's'}", left_out_text(reading)]


def _step_lines(estimates: Mapping[str, Reading], families: Sequence[Axis]) -> list[str]:
    """Show families over ladder steps as one matrix: a row for each step."""
    found = {axis.name: own for axis in families if (own := by_step(estimates, axis.name))}
    if not found:
        return []
    shown = [axis for axis in families if axis.name in found]
    first = shown[0]
    rows = [
        [f"{step:g}", f"{one.n:,}", *(reading_text(found[axis.name].get(step), places=2) for axis in shown)]
        for step, one in found[first.name].items()
    ]
    heads = [axis.label for axis in shown]
    return aligned([STEPS[first.step].partition(" ")[0], f"n {first.unit}s", *heads], rows, left=2)


def report_lines(report: ReliabilityReadings) -> list[str]:
    """Show a row for each reliability test, and the mean over them."""
    accuracy = report.estimates.get(f"{BASELINE}/{report.metric}")
    scores = {**({} if accuracy is None else {BASELINE: accuracy}), **report.scores}
    rows = []
    for name, reading in scores.items():
        score, *counts = _cells(reading)
        rows.append([axis_name(name), score, number_text(detectable(name, reading)), *counts])
    table = aligned(["test", "score [95 % by source]", "detectable", "n", "left out"], rows) if rows else []
    mean, least, most = (report.summary[name] for name in ("mean", "min", "max"))
    if mean is None:
        return [*table, "", "Mean over tests: n/a, no test has a number."]
    interval = short_interval(report.summary["mean_ci_low"], report.summary["mean_ci_high"])
    n_tests = f"{report.summary['n_tests']:g} of {len(report.scores)} tests"
    span = f"min {number_text(least)}, max {number_text(most)}"
    chosen = [] if report.metric == DEFAULT else [f"Labelled tests are scored by {report.chosen_text}."]
    return [*table, "", f"Mean over {n_tests}: {mean:.3f} {interval}, {span}.", *chosen]


def withheld_lines(readings: Mapping[str, NotEstimable]) -> list[str]:
    """Say which numbers are withheld, in one line for each reason."""
    groups = {reason: axes for (_, reason), axes in axes_by_reason(readings).items()}
    lines = []
    for reason, axes in list(groups.items())[:_MOST_REASONS]:
        cause = reason.partition(", over the limit")[0]
        more = f" and {len(axes) - 1} more" if len(axes) > 1 else ""
        lines.append(textwrap.shorten(plain(f"withheld: {cause}: {axis_name(axes[0])}{more}"), WIDTH, placeholder=" …"))
    rest = len(groups) - _MOST_REASONS
    return lines + ([f"withheld: for {rest} more reasons; --markdown has them all"] if rest > 0 else [])


def few_clusters(estimates: Iterable[Reading], *, cluster: str) -> str | None:
    """Say that there are few tasks or sources, on which intervals are wide and rest on assumptions."""
    counts = [reading.n_clusters for reading in estimates if isinstance(reading, Estimate) and reading.n_clusters]
    if not counts or max(counts) >= FEW_CLUSTERS:
        return None
    return f"{max(counts)} {cluster}s are few: intervals by {cluster} are wide (under {FEW_CLUSTERS})."


def comparison_lines(comparison: Contrasts) -> list[str]:
    """Show every judge on every axis with its letters, then which differences are told apart."""
    rows = [
        [axis_text(axis), *(_letter_cell(one, comparison.letters_of(axis, name)) for name, one in row.items())]
        for axis, row in comparison.cells.items()
    ]
    return [
        *aligned(["", *judge_heads(comparison)], rows),
        "",
        "Intervals are 95 % by source.",
        *textwrap.wrap(letters_text(comparison), WIDTH),
        "",
        *aligned(finding_head(comparison), finding_rows(comparison)),
        "Detectable: a true difference of this size would be told apart with a chance of 80 %.",
        "",
        f"{comparison.told}{':' if comparison.different else '.'}",
        *_told_apart(comparison),
        *_comparison_costs(comparison),
    ]


def _told_apart(comparison: Contrasts) -> list[str]:
    told = comparison.different
    rows = [
        [
            axis_text(one.axis),
            f"{one.a} − {one.b}",
            f"{one.value:+.3f} {short_interval(one.low, one.high)}  {one.n:,}",
            p,
        ]
        for one in told[:_MOST]
        for p in [f"{p_text(one.p)} / {p_text(one.p_adjusted)}"]
    ]
    more = [f"… and {len(told) - _MOST} more"] if len(told) > _MOST else []
    header = ["axis", "judges", "difference [95 %]  n", "p / p adjusted"]
    return [*aligned(header, rows, left=2), *more] if told else []


def _letter_cell(reading: Reading, letter: str) -> str:
    return cell_text(reading, letter) if isinstance(reading, Estimate) else reading_text(reading)


def _comparison_costs(comparison: Contrasts) -> list[str]:
    known = {name: row["usd"] for name, row in comparison.costs.items() if row["usd"] is not None}
    return wrapped("Cost", ", ".join(f"{name} {money_text(usd)}" for name, usd in known.items())) if known else []


def shift_lines(base: str, arms: Mapping[str, Mapping[str, Reading]], shifts: Mapping[str, Reading]) -> list[str]:
    """Show each axis under the base criterion and under the others, and how far it moved.

    Args:
        base: Name of the first criterion.
        arms: Criterion to the estimates of its datasheet.
        shifts: `<criterion>/<axis>` to the difference against the base.
    """
    lines: list[str] = []
    for arm in [name for name in arms if name != base]:
        own = {key.removeprefix(f"{arm}/"): one for key, one in shifts.items() if key.startswith(f"{arm}/")}
        rows = [
            [
                axis_name(axis),
                _short_value(arms[base].get(axis)),
                _short_value(arms[arm].get(axis)),
                *_shift_cells(shift),
            ]
            for axis, shift in own.items()
            if is_shown(shift)
        ]
        lines += [*([""] if lines else []), *aligned(["axis", base, arm, "shift [95 % by task]", "n"], rows)]
    return lines


def _shift_cells(shift: Reading) -> list[str]:
    sign = "+" if isinstance(shift, Estimate) and shift.value >= 0 else ""
    text, n, _ = _cells(shift)
    return [f"{sign}{text}", n]


def _short_value(reading: Reading | None) -> str:
    return f"{reading.value:.3f}" if isinstance(reading, Estimate) else reading_text(reading)


def sweep_lines(sweep: Mapping[str, Any]) -> list[str]:
    """Show what a sweep found, then its configurations, the front first; `sweep` is what `Sweep.to_dict` gives."""
    members = sorted(sweep["measured"], key=lambda member: not member["on_front"])
    rows = [
        [
            member["label"],
            reading_facts(member["reliability"], interval=short_interval),
            "search" if member["holdout_value"] is None else "held out",
            "unknown" if (usd := member["usd_per_1k_judgments"]) is None else f"{usd:.4g}",
            "yes" if member["on_front"] else "no",
            "yes" if member["tied_with_best"] else "no",
        ]
        for member in members[:_MOST]
    ]
    header = ["configuration", "reliability", "half", "$ per 1,000", "on front", "tied with best"]
    more = [f"… and {len(members) - _MOST} more in trials.csv"] if len(members) > _MOST else []
    answer = [line for text in answer_lines(sweep, interval=short_interval) for line in _broken(text)]
    return [*answer, *(["", *aligned(header, rows)] if rows else []), *more]


def text_of(markdown: str, *, without: Sequence[str] = ()) -> list[str]:
    """Return a page of ours as plain text: tables aligned, sentences broken, some sections left out.

    Args:
        markdown: As the reports write it.
        without: Headings of the sections that are left out.
    """
    lines: list[str] = []
    kept, table = True, list[list[str]]()
    for line in [*markdown.splitlines(), ""]:
        if line.startswith("#"):
            kept = line.lstrip("# ") not in without
        if not kept:
            continue
        if line.startswith("|"):
            table.append([_unmarked(cell) for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]])
            continue
        lines += aligned(table[0], table[2:]) if table else []
        table = []
        if line or (lines and lines[-1]):  # one empty line, never two
            lines += _broken(line.lstrip("#> ")) or [""]
    return lines


def _broken(text: str) -> list[str]:
    return textwrap.wrap(_unmarked(text), WIDTH)


def _unmarked(text: str) -> str:
    return plain(html.unescape(text.replace("**", "").replace("\\|", "|").replace("`", "")))
