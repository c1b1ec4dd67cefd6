"""A sweep as Markdown: short enough for the description of its run."""

from __future__ import annotations

from collections.abc import Mapping

from jrh_mlflow.reports.markdown import table
from jrh_mlflow.reports.numbers import interval_text
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.sweeps.report import Sweep, ranking, reading_text

_MOST = 7600
"""MLflow cuts descriptions at 8,000 characters without a word."""


def sweep_markdown(sweep: Sweep) -> str:
    """Rank the front, then say how sure that is, what drives it, and what was left out."""
    lines = [f"# Sweep on {sweep.suite}", ""]
    notes = [*(["Simulated judges, not models."] if sweep.simulated else []), *sweep.notes]
    notes += [f"Truncated ({sweep.truncated}): told on what was measured."] if sweep.truncated else []
    lines += [f"> {note}" for note in notes] + ([""] if notes else [])
    lines += [*_answer(sweep), "", "## Front", ""]
    # As below it: the most reliable first.
    front = sweep.front[::-1]
    lines += ranking(front) if front else ["No configuration was measured that keeps the constraints."]
    others = [one for one in sweep.members if not one.on_front]
    if others:
        lines += ["", "## Also measured in full", "", *ranking(others[:20])]
        lines += [f"… and {len(others) - 20} more in trials.csv."] if len(others) > 20 else []
    lines += ["", "## How sure", "", *_sureness(sweep), ""]
    lines += ["## What drives it (fANOVA)", "", *_importance(sweep.importance), ""]
    lines += _curve(sweep)
    return "\n".join(lines)


def _answer(sweep: Sweep) -> list[str]:
    best, cheap = sweep.best, sweep.cheapest_tied
    if best is None:
        return ["**No answer yet.** Nothing was measured on the held-out half."]
    lines = [f"**Most reliable:** {best.label}: {reading_text(best.reliability)}, {_dollars(best.usd_per_1k)}."]
    if cheap is not None and cheap is not best:
        lines.append(
            f"**Cheapest that cannot be told from it:** {cheap.label}: {reading_text(cheap.reliability)}, "
            f"{_dollars(cheap.usd_per_1k)}."
        )
    elif cheap is not None:
        lines.append("No cheaper configuration is tied with it.")
    return lines


def _dollars(usd: float | None) -> str:
    return "price unknown" if usd is None else f"${usd:.4g} per 1,000 judgments"


def _sureness(sweep: Sweep) -> list[str]:
    ended = ", ".join(f"{count} {name}" for name, count in sweep.trials["state"].value_counts().items())
    share = sweep.n_calls / sweep.grid_calls if sweep.grid_calls else 0.0
    biases = [one.bias for one in sweep.members if one.bias is not None]
    lines = [
        f"- {len(sweep.trials)} of {sweep.n_grid} configurations tried ({ended}); {sweep.n_calls} calls, "
        f"{share:.0%} of the whole grid on the whole suite.",
        "- Reliability is the mean of its parts on the held-out half; intervals are 95 % over whole tasks. "
        "Tied: not told apart by a paired test on tasks, adjusted by Holm.",
        *_few(sweep),
        f"- Hypervolume {reading_text(sweep.hypervolume)} of the box of reliability 0 to 1 and dollars"
        + (f" ({sweep.hypervolume.method})." if isinstance(sweep.hypervolume, Estimate) else "."),
    ]
    if biases:
        lines.append(f"- Selection bias (search minus held out), mean {sum(biases) / len(biases):+.3f}.")
    if sweep.constraints:
        lines.append(f"- Constraints: {'; '.join(map(str, sweep.constraints))}.")
    return lines


def _few(sweep: Sweep) -> list[str]:
    """Say how ties were told, and how large a difference went unseen."""
    told = [one.tie for one in sweep.members if one.tie and one.tie.difference.value]
    methods = dict.fromkeys(tie.difference.method for tie in told)
    unseen = max((tie.difference.value for tie in told if tie.tied), default=0.0)
    return (
        [f"- Ties by {', '.join(methods)}; the largest difference that was not told apart: {unseen:.3f}."]
        if told
        else []
    )


def _importance(found: Mapping[str, Mapping[str, float] | str]) -> list[str]:
    lines = []
    for name, shares in found.items():
        if isinstance(shares, str):
            lines.append(f"- {name}: {shares}")
        else:
            lines.append(f"- {name}: " + ", ".join(f"{param} {share:.2f}" for param, share in shares.items()))
    return lines


def _curve(sweep: Sweep) -> list[str]:
    """Tell whether the criteria move along one curve, and whether a prompt lies off it."""
    if len({point.criterion for point in sweep.operating}) < 2:
        return []
    rows = [
        [
            point.judge,
            point.prompt,
            point.criterion,
            f"{point.false_preference:.3f}",
            f"{point.sensitivity:.3f}",
            f"{point.d_prime:.2f}",
        ]
        for point in sorted(sweep.operating, key=lambda one: (one.judge, one.prompt, one.false_preference))
    ]
    header = ["judge", "prompt", "criterion", "false preference Δ0", "sensitivity one step", "d′"]
    lines = ["## Criterion curve", "", *table(header, rows), ""]
    if not sweep.shifts:
        return [*lines, "One prompt per judge: nothing to lie off its curve.", ""]
    for one in sweep.shifts:
        where = "lies off the curve of the others" if one.off else "cannot be told from the curve of the others"
        lines.append(
            f"- {one.judge}, prompt {one.prompt}: {where} (d′ {one.value:+.2f} {interval_text(one.low, one.high)})."
        )
    return [*lines, ""]


def description(text: str) -> str:
    """Shorten the page at a line's end for a run's description; the whole of it is the artifact sweep.md."""
    if len(text) <= _MOST:
        return text
    return text[: text.rindex("\n", 0, _MOST)] + "\n\nThe whole text is in the artifact `sweep.md`.\n"
