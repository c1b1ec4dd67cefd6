"""Markdown: tables, a datasheet with n and interval of every number, and descriptions of runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from jrh_mlflow.measures import axes
from jrh_mlflow.measures.axes import CONFIDENCE, EXPECTED, by_section, by_step, declared
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.show.findings import finding_lines
from jrh_mlflow.show.names import STEPS, axis_name, reason_text
from jrh_mlflow.show.numbers import (
    bounds_note,
    interval_text,
    is_shown,
    left_out_text,
    missing_text,
    threshold_text,
    value_text,
    with_interval,
)
from jrh_mlflow.show.plain_text import line_text

MAX_DESCRIPTION = 7900
"""Characters. The description of a run is a tag, and MLflow cuts tags at 8,000 without a word."""


def datasheet_markdown(
    estimates: Mapping[str, Reading],
    *,
    profile: str,
    outcomes: Mapping[str, int],
    title: str,
    note: str | None,
) -> str:
    """Render the sections that were measured, then what was not and why."""
    lines = [f"# {line_text(title)}", ""]
    if note:
        lines += [f"> {line_text(note)}", ""]
    # First, because a description that is too long is cut at its end.
    lines += [f"**Profile:** {profile}.", "", *bias_lines(estimates), *bounds_note(estimates.values())]
    for heading, keys in by_section(estimates).items():
        if heading != CONFIDENCE.section:
            lines += _section(heading, {key: estimates[key] for key in keys})
    confidence = confidence_lines(estimates, clusters="task")
    lines += ["### Confidence", "", *confidence, ""] if confidence else []
    lines += _missing(estimates)
    ended = ", ".join(f"{name} {count}" for name, count in outcomes.items())
    lines += [f"Calls: {sum(outcomes.values())} ({ended}).", ""]
    lines += [
        "Intervals are 95 %: the first takes units as independent (Wilson), the second takes tasks as clusters "
        "and replicates of one presentation as one; decisions use the second. Unparsed and failed calls are in no "
        "denominator.",
        "",
    ]
    return "\n".join(lines)


def bias_lines(estimates: Mapping[str, Reading]) -> list[str]:
    """Say which biases were found, and how large the others would have had to be; names of tests are not escaped."""
    found = finding_lines(estimates)
    return [part for head, line in found.items() for part in (f"**{head.capitalize()}:** {line}.", "")]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Render a Markdown table; cells are escaped, so that text from a model cannot break out of one."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in cells)} |"

    return [line(header), line(["---"] * len(header)), *(line(row) for row in rows)]


def confidence_lines(estimates: Mapping[str, Reading], *, clusters: str) -> list[str]:
    """Render calibration and expected values, or nothing where no call had a confidence."""
    keys = [axis.name for axis in axes.AXES if axis.stimuli is CONFIDENCE and axis.name in estimates]
    keys += [key for key in estimates if key.startswith(EXPECTED)]
    found = {key: estimates[key] for key in keys if is_shown(estimates[key])}
    if not found:
        return []
    rows = [
        [axis_name(axis), value_text(reading), *_ends(reading), str(reading.n), str(reading.excluded)]
        for axis, reading in found.items()
    ]
    error = found.get("confidence/ece")
    return [
        *table(["axis", "value", f"95 % by {clusters}", "bounds", "n calls", "left out"], rows),
        "",
        *([f"Calibration error: {error.method}.", ""] if isinstance(error, Estimate) else []),
        "Confidence is compared with right or wrong on calls with a known right answer. Expected values take "
        "probabilities in place of verdicts; what was not read of them lies between the bounds.",
    ]


def _ends(reading: Reading) -> tuple[str, str]:
    """Write the interval by cluster and the bounds of a number; those of a withheld one stand in its place."""
    if isinstance(reading, NotEstimable):
        return "–", "–"
    clustered = interval_text(reading.cluster_low, reading.cluster_high)
    return clustered, interval_text(reading.bound_low, reading.bound_high)


def _section(heading: str, readings: Mapping[str, Reading]) -> list[str]:
    """Render a table of steps where there are any, the thresholds of its curve, and a row for each other axis."""
    steps = _step_table(readings)
    rows = []
    for key, reading in readings.items():
        axis = declared(key)
        if axis.unit == "curve" and steps:
            name = axis_name(key)
            steps += [f"{name[0].upper()}{name[1:]}: {_threshold_line(reading)}", ""]
        elif is_shown(reading) and not axis.by_step:
            rows.append(_row(axis_name(key), reading))
    if not steps and not rows:
        return []
    header = ["axis", "share", "95 %", "95 % by task", "n", "left out"]
    plain = [*table(header, rows), ""] if rows else []
    return [f"### {heading}{' (95 % by task)' if steps else ''}", "", *steps, *plain]


def _row(name: str, reading: Reading) -> list[str]:
    if isinstance(reading, NotEstimable):
        return [name, value_text(reading), "–", "–", "–", left_out_text(reading)]
    plain = interval_text(reading.ci_low, reading.ci_high)
    clustered = interval_text(reading.cluster_low, reading.cluster_high)
    return [name, value_text(reading), plain, clustered, f"{reading.n} {reading.unit}s", left_out_text(reading)]


def _step_table(readings: Mapping[str, Reading]) -> list[str]:
    """Render families side by side, a row for each step; the first family gives the counts."""
    families = [axis for axis in axes.AXES if axis.by_step and axis.cell and by_step(readings, axis.name)]
    if not families:
        return []
    columns = [(axis, by_step(readings, axis.name)) for axis in families]
    rows = []
    for step, first in columns[0][1].items():
        shown = [(own.get(step), with_interval if axis.cell == "interval" else value_text) for axis, own in columns]
        n = f"{first.n} (−{first.excluded})" if first.excluded else str(first.n)
        rows.append([f"{step:g}", *("–" if reading is None else write(reading) for reading, write in shown), n])
    return [
        *table(
            [STEPS[families[0].step].partition(" ")[0], *(axis.label for axis in families), f"n {families[0].unit}s"],
            rows,
        ),
        "",
    ]


def _threshold_line(reading: Reading) -> str:
    if isinstance(reading, NotEstimable):
        return f"n/a ({reason_text(reading.reason)})." if reading.bounds is None else f"{missing_text(reading)}."
    left, right = reading.censoring.get("left", 0.0), reading.censoring.get("right", 0.0)
    low = "below the smallest step" if reading.cluster_low is None else f"{reading.cluster_low:.2f}"
    high = "beyond the largest step" if reading.cluster_high is None else f"{reading.cluster_high:.2f}"
    # With both ends beyond the steps the interval may lie on one side of them: then the shares alone say where.
    known = reading.cluster_low is not None or reading.cluster_high is not None
    interval = f"95 % by task from {low} to {high}; " if known else ""
    shares = f"{left:.0%} of resamples reach it at the smallest step, {right:.0%} never" if reading.censoring else ""
    return f"**{threshold_text(reading)}** ({interval}{shares or 'one task, no interval'}){_decided(reading)}."


def _decided(reading: Estimate) -> str:
    """Say at which steps the curve's own intervals lie on one side of 75 %."""
    below, above = reading.not_reached_at, reading.reached_by
    told = [f"below 75 % up to delta {below:g}"] if below is not None else []
    told += [f"at or above 75 % from delta {above:g} on"] if above is not None else []
    return f"; by the intervals of the steps {', '.join(told)}" if told else ""


def axes_by_reason(estimates: Mapping[str, Reading]) -> dict[tuple[str, str], list[str]]:
    """Return the axes without a number under what became of them (`withheld` or `n/a`) and the reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for axis, reading in estimates.items():
        if isinstance(reading, NotEstimable):
            groups.setdefault(("withheld" if reading.withheld else "n/a", reason_text(reading.reason)), []).append(axis)
    return groups


def _missing(estimates: Mapping[str, Reading]) -> list[str]:
    rows = [
        [state, line_text(", ".join(map(axis_name, keys))), reason]
        for (state, reason), keys in axes_by_reason(estimates).items()
    ]
    if not rows:
        return []
    return ["### Without a number", "", *table(["", "axes", "reason"], rows), ""]


def shortened(markdown: str, *, artifact: str, most: int = MAX_DESCRIPTION) -> str:
    """Return a page as a description: whole sections where they fit, and a pointer to the artifact with the rest.

    Example:
        >>> shortened("# Short", artifact="datasheet.md")
        '# Short'
    """
    if len(markdown) <= most:
        return markdown
    pointer = f"\n\nThe whole text is in the artifact `{artifact}`.\n"
    room = most - len(pointer) - 1
    section = max(markdown.rfind(f"\n{mark} ", 0, room) for mark in ("##", "###"))
    # A first section that alone is too long ends with a whole line, so that its table stays one.
    end = section if section > room // 2 else markdown.rfind("\n", 0, room)
    return markdown[: end if end > 0 else room] + pointer
