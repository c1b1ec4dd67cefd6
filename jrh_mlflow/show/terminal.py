"""What commands show of a result: about one screen of plain text, as readable in a pipe as on a terminal."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence

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
    is_shown,
    left_out_text,
    number_text,
    reading_text,
    short_interval,
)
from jrh_mlflow.show.plain_text import WIDTH, aligned, plain

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
