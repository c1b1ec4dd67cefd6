"""A datasheet as Markdown: short enough for an MLflow run description, every number with n and interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from jrh_mlflow.reports.numbers import interval_text, threshold_text, value_text, with_interval
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading

SECTIONS = {
    "Nothing to judge (vacuum)": {"dark_current": "dark current", "tie_rate/vacuum": "tie rate"},
    "Equal quality (delta 0, same requirements met)": {
        "raw_false_preference": "raw false preference",
        "stable_cross_sensitivity": "stable (same content twice)",
        "positional_false_preference": "positional (same slot twice)",
        "one_sided_commit": "one-sided commit",
        "other_conflict": "other",
        "no_preference": "no preference",
        "tie_rate/delta_0_same": "tie rate",
    },
    "Controls": {
        "filler_preference": "prefers padding",
        "different_subset_preference": "prefers a side, equal count of other requirements",
    },
    "Natural pairs": {
        "natural/accuracy": "accuracy",
        "natural/stable_correct": "right in both orders",
        "natural/stable_wrong": "wrong in both orders",
        "natural/positional": "positional",
        "natural/one_sided": "one-sided",
        "natural/no_preference": "no preference",
    },
}
_CONFIDENCE = {
    "confidence/brier": "Brier score",
    "confidence/ece": "calibration error (ECE)",
    "confidence/mean": "mean confidence",
    "confidence/accuracy_gap": "mean confidence − accuracy",
}
_LADDER_COLUMNS = {
    "target_sensitivity": "chooses the better",
    "conditional_accuracy": "of those that choose",
    "miss_by_tie": "miss by tie",
    "wrong_choice": "wrong choice",
}


def datasheet_markdown(
    estimates: Mapping[str, Reading],
    *,
    profile: str,
    outcomes: Mapping[str, int],
    title: str,
    note: str | None,
) -> str:
    """Render the sections that were measured, then what was not and why."""
    lines = [f"# {title}", ""]
    if note:
        lines += [f"> {note}", ""]
    lines += [f"**Profile:** {profile}.", ""]
    for heading, axes in SECTIONS.items():
        lines += _section(heading, {axis: label for axis, label in axes.items() if axis in estimates}, estimates)
        if heading.startswith("Equal"):
            lines += _ladder(estimates)
    confidence = confidence_lines(estimates, clusters="task")
    lines += ["### Confidence", "", *confidence, ""] if confidence else []
    lines += _missing(estimates)
    ended = ", ".join(f"{name} {count}" for name, count in outcomes.items())
    lines += [f"Calls: {sum(outcomes.values())} ({ended}).", ""]
    lines += [
        "Intervals are 95 %: the first takes units as independent (Wilson), the second takes tasks as clusters; "
        "decisions use the second. Unparsed and failed calls are in no denominator.",
        "",
    ]
    return "\n".join(lines)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Render a Markdown table; cells are escaped, so that text from a model cannot break out of one."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in cells)} |"

    return [line(header), line(["---"] * len(header)), *(line(row) for row in rows)]


def confidence_lines(estimates: Mapping[str, Reading], *, clusters: str) -> list[str]:
    """Render calibration and expected values, or nothing where no call had a confidence."""
    labels = {axis: label for axis, label in _CONFIDENCE.items() if axis in estimates}
    labels |= {axis: axis.replace("/", ": ", 1) for axis in estimates if axis.startswith("expected/")}
    found = {axis: reading for axis in labels if isinstance(reading := estimates[axis], Estimate)}
    if not found:
        return []
    rows = [
        [
            labels[axis],
            value_text(reading),
            interval_text(reading.cluster_low, reading.cluster_high),
            interval_text(reading.bound_low, reading.bound_high),
            str(reading.n),
            str(reading.excluded),
        ]
        for axis, reading in found.items()
    ]
    error = found.get("confidence/ece")
    return [
        *table(["axis", "value", f"95 % by {clusters}", "bounds", "n calls", "left out"], rows),
        "",
        *([f"Calibration error: {error.method}.", ""] if error else []),
        "Confidence is compared with right or wrong on calls with a known right answer. Expected values take "
        "probabilities in place of verdicts; what was not read of them lies between the bounds.",
    ]


def _section(heading: str, axes: Mapping[str, str], estimates: Mapping[str, Reading]) -> list[str]:
    rows = []
    for axis, label in axes.items():
        reading = estimates[axis]
        if isinstance(reading, Estimate):
            rows.append(
                [
                    label,
                    value_text(reading),
                    interval_text(reading.ci_low, reading.ci_high),
                    interval_text(reading.cluster_low, reading.cluster_high),
                    f"{reading.n} {reading.unit}s",
                    str(reading.excluded),
                ]
            )
    if not rows:
        return []
    header = ["axis", "share", "95 %", "95 % by task", "n", "left out"]
    return [f"### {heading}", "", *table(header, rows), ""]


def _ladder(estimates: Mapping[str, Reading]) -> list[str]:
    steps = [axis.partition("/")[2] for axis in estimates if axis.startswith("target_sensitivity/")]
    if not steps:
        return []
    rows = []
    for step in steps:
        target = estimates[f"target_sensitivity/{step}"]
        cells = [with_interval(estimates[f"{axis}/{step}"]) for axis in _LADDER_COLUMNS]
        n = f"{target.n} (−{target.excluded})" if target.excluded else str(target.n)
        rows.append([step.removeprefix("delta_"), *cells, value_text(estimates[f"d_prime/{step}"]), n])
    header = ["delta", *(f"{label}" for label in _LADDER_COLUMNS.values()), "d'", "n calls"]
    return [
        "### Quality ladder (95 % by task)",
        "",
        *table(header, rows),
        "",
        f"Threshold (75 % choose the better): {_threshold_line(estimates.get('threshold_75'))}",
        "",
    ]


def _threshold_line(reading: Reading | None) -> str:
    if reading is None or isinstance(reading, NotEstimable):
        return f"n/a ({reading.reason})." if reading else "n/a."
    left, right = reading.censoring.get("left", 0.0), reading.censoring.get("right", 0.0)
    low = "below the smallest step" if reading.cluster_low is None else f"{reading.cluster_low:.2f}"
    high = "beyond the largest step" if reading.cluster_high is None else f"{reading.cluster_high:.2f}"
    # With both ends beyond the steps the interval may lie on one side of them: then the shares alone say where.
    known = reading.cluster_low is not None or reading.cluster_high is not None
    interval = f"95 % by task from {low} to {high}; " if known else ""
    shares = f"{left:.0%} of resamples reach it at the smallest step, {right:.0%} never" if reading.censoring else ""
    return f"**{threshold_text(reading)}** ({interval}{shares or 'one task, no interval'})."


def _missing(estimates: Mapping[str, Reading]) -> list[str]:
    groups: dict[tuple[str, bool], list[str]] = {}
    for axis, reading in estimates.items():
        if isinstance(reading, NotEstimable):
            groups.setdefault((reading.reason, reading.withheld), []).append(axis)
    if not groups:
        return []
    rows = [["withheld" if withheld else "n/a", ", ".join(axes), reason] for (reason, withheld), axes in groups.items()]
    return ["### Without a number", "", *table(["", "axes", "reason"], rows), ""]
