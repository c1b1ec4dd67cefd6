"""What people see of a repair and what MLflow is told: tables, front, sentences and keys, each declared once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from jrh_mlflow.measures.axes import lower_is_better
from jrh_mlflow.measures.verdict import findings
from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.schema.findings import Finding
from jrh_mlflow.show.figures.canvas import PALETTE, Spot, canvas, hover_spots, list_lines, spread_prices, write_list
from jrh_mlflow.show.html import FROM_RUN
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import interval_text, money_text, number_text, p_text
from jrh_mlflow.show.tables import Column, Table
from jrh_mlflow.sweeps.front import pareto
from jrh_mlflow.sweeps.mending import ABILITY, LEANS, MOST_LOST, AskedArm, AxisChange, DecidedArm, TriedArm
from jrh_mlflow.tracking.runs import keys

if TYPE_CHECKING:
    from jrh_mlflow.show.figures.canvas import Figure

REPAIR_JSON, REPAIR_MARKDOWN, REPAIRED_FILE = "repair.json", "repair.md", "judge/repaired.json"
"""Artifacts of its run."""
TAG_SETTINGS, TAG_BEFORE, TAG_AFTER = "jrh.repair.settings", "jrh.repair.before", "jrh.repair.after"
"""Tags of the prompt version: settings of the judge beside its prompt, and the runs of both datasheets."""
_WORDS = {
    "slot_lean": "the pull of the slot between equal answers",
    "slot_lean/vacuum": "the pull of the slot where nothing is to be judged",
    "padding_lean": "the pull of padding",
    "dark_current": "preferences where nothing is to be judged",
    "raw_false_preference": "preferences between equal answers",
    "positional_excess": "the weight of the place over the text",
    "miss_by_tie/delta_1": "misses by tie",
    ABILITY: "ability",
}
MAP = (
    "What a judgment costs against what is left of the problems (the sum of their sizes). Filled: decided on the "
    "held-out half; hollow: read on the searched half, which chose and so flatters. Dashed: the front."
)


def repair_axis_name(axis: str) -> str:
    """Return the name of an axis of a repair."""
    return "ability (all steps)" if axis == ABILITY else axis_name(axis)


def _ends(change: AxisChange) -> str:
    return interval_text(change.low, change.high, signed=True)


def change_state(change: AxisChange) -> str:
    """Say what was decided, and without a difference how large a loss may be all the same."""
    loss = change.largest_loss
    if change.state != "no difference shown" or loss is None:
        return change.state
    return f"{change.state}; a loss of {loss:.2f} at most"


CHANGES: Table[AxisChange] = Table.of(
    Column("change", lambda row: row.arm, brief=True),
    Column("axis", lambda row: repair_axis_name(row.axis), brief=True),
    Column("before", lambda row: number_text(row.before), brief=True),
    Column("after", lambda row: number_text(row.after), brief=True),
    Column("gain", lambda row: number_text(row.gain, signed=True)),
    Column("95 % by task", _ends, brief=True),
    Column("p, adjusted", lambda row: p_text(row.p_adjusted)),
    Column("decided", change_state, brief=True),
)


@dataclass(frozen=True, kw_only=True)
class FrontPoint:
    """An arm by its price and by what it leaves of the problems."""

    asked: AskedArm
    left: float
    """Sum of the sizes of the problems."""
    half: str
    outcome: str
    on_front: bool = False

    @property
    def price(self) -> str:
        """What it costs, in dollars or calls."""
        asked = self.asked
        many = "" if asked.calls_per_judgment == 1 else "s"
        calls = f"{asked.calls_per_judgment} call{many} per judgment"
        return calls if asked.usd_per_1k is None else f"{money_text(asked.usd_per_1k)} per 1,000 judgments"


def _run_address(point: FrontPoint) -> str | None:
    return FROM_RUN.run(point.asked.run_id) if point.asked.run_id else None


ARMS: Table[FrontPoint] = Table.of(
    Column("change", lambda point: point.asked.arm.name, brief=True, link=_run_address),
    Column("half", lambda point: point.half, brief=True),
    Column("problems left", lambda point: number_text(point.left), brief=True),
    Column("cost", lambda point: point.price, brief=True),
    Column("on front", lambda point: "yes" if point.on_front else "no"),
    Column("outcome", lambda point: point.outcome, words=True),
)


def _size(change: AxisChange, *, before: bool = False) -> float:
    value = change.before if before else change.after
    if change.axis in LEANS:
        return abs(value)
    return value if lower_is_better(change.axis) else 1 - value


def front_points(unchanged: AskedArm, tried: Sequence[TriedArm], decisions: Sequence[DecidedArm]) -> list[FrontPoint]:
    """Return every arm with its price and what it leaves; the front is that of the half it is read on."""
    points: list[FrontPoint] = []
    for half, rows in (("held out", decisions), ("searched", tried)):
        own = [FrontPoint(asked=row.asked, left=_left(row), half=half, outcome=_outcome(row)) for row in rows]
        if rows:
            left = _left(rows[0], before=True)
            own.insert(0, FrontPoint(asked=unchanged, left=left, half=half, outcome="as it was"))
            front = pareto(np.array([[point.asked.cost, point.left] for point in own]), (-1, -1))
            own = [replace(point, on_front=bool(on)) for point, on in zip(own, front, strict=True)]
        points += own
    return points


def _left(row: TriedArm | DecidedArm, *, before: bool = False) -> float:
    return sum(_size(change, before=before) for change in row.changes if change.axis in row.problems)


def _outcome(row: TriedArm | DecidedArm) -> str:
    if isinstance(row, TriedArm):
        return "promising" if row.is_promising else "not promising"
    return row.refusal or "mends, and no loss was seen"


def front_figure(points: Sequence[FrontPoint]) -> Figure | None:
    """Draw what a judgment costs against what is left of the problems."""
    if len(points) < 2:
        return None
    named = [point for point in points if point.on_front and point.half == points[0].half][:8]
    lines, listed = list_lines(f"{at}  {point.asked.arm.name}: {point.left:.2f}" for at, point in enumerate(named, 1))
    figure, axes = canvas(8.8, 4.6 + listed, left=0.85, right=0.45, bottom=0.75 + listed)
    for point in points:
        held = point.half == "held out"
        colour = PALETTE[0] if held else "#888888"
        face = colour if held else "white"
        axes.plot([point.asked.cost], [point.left], marker="o", markersize=8, color=colour, markerfacecolor=face)
    steps = sorted((point.asked.cost, point.left) for point in named)
    axes.step([x for x, _ in steps], [y for _, y in steps], where="post", color=PALETTE[0], linestyle="--")
    for at, point in enumerate(named, 1):
        axes.annotate(str(at), (point.asked.cost, point.left), xytext=(7, 7), textcoords="offset points")
    spots = [
        Spot(x=p.asked.cost, y=p.left, words=f"{p.asked.arm.name} ({p.half}): {p.left:.2f}, {p.price}") for p in points
    ]
    hover_spots(axes, spots)
    write_list(figure, lines, ["black"] * len(lines))
    if points[0].asked.usd_per_1k is not None:
        spread_prices(axes)
    unit = "calls per judgment" if points[0].asked.usd_per_1k is None else "dollars per 1,000 judgments"
    axes.set(xlabel=unit, ylabel="problems left")
    return figure


# --- sentences


def _after_text(change: AxisChange, ends: tuple[float | None, float | None] | None) -> str:
    interval = f" {interval_text(*ends)}" if ends and None not in ends else ""
    return f"from {number_text(change.before)} to {number_text(change.after)}{interval}"


def recommending(best: DecidedArm, ends: tuple[float | None, float | None] | None) -> list[str]:
    """Say what mends the judge, by how much, and the largest loss that is not excluded."""
    first, ability = best.better[0], best.ability
    text = best.asked.arm.text
    lowers = first.axis in LEANS or lower_is_better(first.axis)
    cut = f"{'cut' if lowers else 'raised'} {_WORDS.get(first.axis, axis_name(first.axis))} {_after_text(first, ends)}"
    bound = (
        f" ({_WORDS.get(ability.axis, axis_name(ability.axis))}: at most {ability.bound:.2f})"
        if ability and ability.bound is not None
        else ""
    )
    lines = [f"{text[0].upper()}{text[1:]} {cut} and no loss was seen elsewhere{bound}."]
    more = [_WORDS.get(change.axis, axis_name(change.axis)) for change in best.better[1:]]
    if more:
        lines.append(f"Also better: {', '.join(more)}.")
    open_ones = [change for change in best.changes if change.state == "no difference shown" and change.largest_loss]
    if open_ones:
        most = max(open_ones, key=lambda change: change.largest_loss or 0.0)
        lines.append(f"The largest loss not excluded: {most.largest_loss:.2f} ({repair_axis_name(most.axis)}).")
    return lines


def not_mended(problems: Sequence[Finding], after: Mapping[str, Reading]) -> list[str]:
    """Say which problems of the run the repaired judge still shows: what it cannot tell first, and how many more."""
    before = {finding.axis for finding in problems}
    left = [finding for finding in findings(after) if finding.axis in before and finding.state == "problem"]
    if not left:
        return []
    left.sort(key=lambda finding: finding.axis != "ability")
    more = f" Problems of the run that remain: {len(left)}." if left[1:] else ""
    other = " Changes of a prompt seldom mend that: try another model." if left[0].axis == "ability" else ""
    return [f"Not mended: {left[0].text[0].lower()}{left[0].text[1:]}{other}{more}"]


def refusing(decisions: Sequence[DecidedArm], n_tried: int) -> list[str]:
    """Say that nothing is recommended, why, and how many tasks would tell."""
    if not decisions:
        return [f"Nothing is recommended: none of the {n_tried} changes that were tried looked promising."]
    nearest = max(decisions, key=lambda row: (bool(row.better), not row.worse, row.mended))
    why = nearest.refusal
    if nearest.worse:
        why = f"it is worse on {', '.join(repair_axis_name(change.axis) for change in nearest.worse)}"
    lines = [f"Nothing is recommended. The nearest, {nearest.asked.arm.name}: {why}."]
    seen = [change.tasks_to_tell for change in nearest.changes if change.axis in nearest.problems and change.gain > 0]
    tasks, ability = min(filter(None, seen), default=None), nearest.ability
    if tasks and not nearest.better:
        lines.append(f"About {tasks:,} held-out tasks would show a change as large as the one that was seen.")
    elif not nearest.worse and ability and ability.bound and ability.gain > -MOST_LOST / 2:
        # An interval shrinks with the root of the number of tasks.
        needed = math.ceil(ability.n_clusters * (ability.bound / MOST_LOST) ** 2)
        lines.append(f"About {needed} held-out tasks would exclude a loss of {MOST_LOST:.2f}, if there is none.")
    return lines


def repair_points(best: DecidedArm | None, *, tried: int, decided: int, usd: float | None) -> list[keys.Point]:
    """Spell what a repair found: `repair/tried`, `repair/recommended`, and gain and interval of what is better."""
    values: dict[str, float | None] = {
        "repair/tried": tried,
        "repair/decided": decided,
        "repair/recommended": float(best is not None),
        "repair/usd": usd,
    }
    for change in best.better if best else ():
        values |= {
            f"repair/{change.axis}/gain": change.gain,
            f"repair/{change.axis}/gain_ci_low": change.low,
            f"repair/{change.axis}/gain_ci_high": change.high,
        }
    if best and best.ability:
        values["repair/ability_loss_at_most"] = best.ability.bound
    return keys.known_points(values)
