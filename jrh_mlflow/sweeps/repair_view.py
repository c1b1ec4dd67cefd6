"""What people see of a repair and what MLflow is told: tables, front, sentences and keys, each declared once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jrh_mlflow.measures.axes import lower_is_better
from jrh_mlflow.measures.verdict import findings
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.schema.findings import Finding
from jrh_mlflow.show.figures.canvas import PALETTE, Spot, spread_prices
from jrh_mlflow.show.glossary import WORDS
from jrh_mlflow.show.html import FROM_RUN
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import interval_text, money_text, number_text, p_text
from jrh_mlflow.show.tables import Column, Table, field_column
from jrh_mlflow.sweeps.front import pareto
from jrh_mlflow.sweeps.mending import ABILITY, LEANS, MOST_LOST, AskedArm, AxisChange, ReadArm
from jrh_mlflow.sweeps.sweep_view import numbered_map
from jrh_mlflow.tracking.runs import keys

if TYPE_CHECKING:
    from jrh_mlflow.show.figures.canvas import Figure

REPAIR_JSON, REPAIRED_FILE = "repair.json", "judge/repaired.json"
"""Artifacts of its run."""
TAG_SETTINGS, TAG_BEFORE, TAG_AFTER = "jrh.repair.settings", "jrh.repair.before", "jrh.repair.after"
"""Tags of the prompt version: settings of the judge beside its prompt, and the runs of both datasheets."""
MAP = (
    "What a judgment costs against what is left of the problems (the sum of their sizes). Filled: decided on the "
    "held-out half; hollow: read on the searched half, which chose and so flatters. Dashed: the front."
)


def _is_cut(axis: str) -> bool:
    """Whether less of an axis, or a smaller lean, is better."""
    return axis in LEANS or lower_is_better(axis)


def repair_axis_name(axis: str) -> str:
    """Return the name of an axis of a repair."""
    return "ability (all steps)" if axis == ABILITY else axis_name(axis)


def change_state(change: AxisChange) -> str:
    """Say what was decided, and without a difference how large a loss may be all the same."""
    loss = change.largest_loss
    if change.state != "no difference shown" or loss is None:
        return change.state
    return f"{change.state}; a loss of {loss:.2f} at most"


CHANGES: Table[AxisChange] = Table.of(
    field_column("arm", str, head="change", brief=True),
    field_column("axis", repair_axis_name, brief=True, words=True),
    field_column("before", number_text, brief=True),
    field_column("after", number_text, brief=True),
    Column("gain", lambda row: number_text(row.gain, signed=True), value=lambda row: row.gain),
    Column("95 % by task", lambda row: interval_text(row.low, row.high, signed=True), brief=True),
    field_column("p_adjusted", p_text, head="p, adjusted"),
    Column("decided", change_state, brief=True, words=True),
    *map(field_column, ("low", "high", "state", "bound", "n", "n_clusters")),
)


@dataclass(frozen=True, kw_only=True)
class FrontPoint:
    """An arm by its price and by what it leaves of the problems."""

    asked: AskedArm
    left: float
    """Sum of the sizes of the problems."""
    half: str
    outcome: str
    on_front: bool

    @property
    def price(self) -> str:
        """What it costs, in dollars or calls."""
        n, usd = self.asked.calls_per_judgment, self.asked.usd_per_1k
        calls = f"{n} call{'' if n == 1 else 's'} per judgment"
        return calls if usd is None else f"{money_text(usd)} per 1,000 judgments"

    def spot(self, words: str) -> Spot:
        """Return its place on the map."""
        return Spot(x=self.asked.cost, y=self.left, words=words)


def _run_address(point: FrontPoint) -> str | None:
    return FROM_RUN.run(point.asked.run_id) if point.asked.run_id else None


ARMS: Table[FrontPoint] = Table.of(
    field_column("asked.arm.name", str, head="change", brief=True, link=_run_address),
    field_column("half", str, brief=True),
    field_column("left", number_text, head="problems left", brief=True),
    field_column("price", str, head="cost", brief=True),
    Column("on front", lambda point: "yes" if point.on_front else "no"),
    field_column("outcome", str, words=True),
)


def front_points(unchanged: AskedArm, tried: Sequence[ReadArm], decisions: Sequence[ReadArm]) -> list[FrontPoint]:
    """Return every arm with its price and what it leaves; the front is that of the half it is read on."""
    points: list[FrontPoint] = []
    for half, rows in (("held out", decisions), ("searched", tried)):
        if not rows:
            continue
        arms = [(row.asked, _left(row, "after"), _outcome(row)) for row in rows]
        arms.insert(0, (unchanged, _left(rows[0], "before"), "as it was"))
        front = pareto(np.array([[asked.cost, left] for asked, left, _ in arms]), (-1, -1))
        points += [
            FrontPoint(asked=asked, left=left, half=half, outcome=outcome, on_front=bool(on))
            for (asked, left, outcome), on in zip(arms, front, strict=True)
        ]
    return points


def _left(row: ReadArm, when: str) -> float:
    """Add up the sizes of the problems, `before` or `after`."""
    values = {change.axis: float(getattr(change, when)) for change in row.on_problems}
    return sum(abs(value) if _is_cut(axis) else 1 - value for axis, value in values.items())


def _outcome(row: ReadArm) -> str:
    if not row.decides:
        return "promising" if row.is_promising else "not promising"
    return row.refusal or "mends, and no loss was seen"


def front_figures(points: Sequence[FrontPoint]) -> dict[str, Figure]:
    """Draw what a judgment costs against what is left of the problems, by file name."""
    if not points:
        return {}
    front = [point for point in points if point.on_front and point.half == points[0].half]
    steps = sorted((point.asked.cost, point.left) for point in front)
    figure, axes = numbered_map(
        [point.spot(f"{point.asked.arm.name} ({point.half}): {point.left:.2f}, {point.price}") for point in points],
        [point.spot(f"{point.asked.arm.name}: {point.left:.2f}") for point in front],
        list(zip(*steps, strict=True)),
    )
    # What is decided comes first and is drawn last: the searched half often has the same place.
    for point in reversed(points):
        colour, face = (PALETTE[0], PALETTE[0]) if point.half == "held out" else ("#888888", "white")
        axes.plot([point.asked.cost], [point.left], marker="o", markersize=8, color=colour, markerfacecolor=face)
    is_priced = points[0].asked.usd_per_1k is not None
    if is_priced:
        spread_prices(axes)
    else:
        axes.locator_params("x", integer=True, min_n_ticks=1)
    axes.set(xlabel="dollars per 1,000 judgments" if is_priced else "calls per judgment", ylabel="problems left")
    return {"cost_and_problems.png": figure}


# --- sentences


def _in_words(axis: str) -> str:
    return str(WORDS["mended"].get(axis, axis_name(axis)))


def recommending(best: ReadArm) -> list[str]:
    """Say what mends the judge, by how much, and the largest loss that is not excluded."""
    first, ability, text = best.better[0], best.ability, best.asked.arm.text
    reading = best.asked.readings.get(first.axis)
    ends = reading.cluster_interval if isinstance(reading, Estimate) else None
    after = f"{number_text(first.after)}{f' {interval_text(*ends)}' if ends else ''}"
    cut = "cut" if _is_cut(first.axis) else "raised"
    # What is recommended has a bound on its loss of ability.
    bound = f"{_in_words(ability.axis)}: at most {ability.bound:.2f}" if ability else ""
    lines = [
        f"{text[0].upper()}{text[1:]} {cut} {_in_words(first.axis)} from {number_text(first.before)} to {after} and no "
        f"loss was seen elsewhere ({bound})."
    ]
    if more := [_in_words(change.axis) for change in best.better[1:]]:
        lines.append(f"Also better: {', '.join(more)}.")
    undecided = [change for change in best.changes if change.state == "no difference shown" and change.largest_loss]
    if undecided:
        most = max(undecided, key=lambda change: change.largest_loss or 0.0)
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


def refusing(decisions: Sequence[ReadArm], n_tried: int) -> list[str]:
    """Say that nothing is recommended, why, and how many tasks would tell."""
    if not decisions:
        return [f"Nothing is recommended: none of the {n_tried} changes that were tried looked promising."]
    nearest = max(decisions, key=lambda row: (bool(row.better), not row.worse, row.mended))
    worse, ability = [repair_axis_name(change.axis) for change in nearest.worse], nearest.ability
    why = f"it is worse on {', '.join(worse)}" if worse else nearest.refusal
    lines = [f"Nothing is recommended. The nearest, {nearest.asked.arm.name}: {why}."]
    seen = [change.tasks_to_tell for change in nearest.on_problems if change.gain > 0]
    tasks = min(filter(None, seen), default=None)
    if tasks and not nearest.better:
        lines.append(f"About {tasks:,} held-out tasks would show a change as large as the one that was seen.")
    elif not worse and ability and ability.bound and ability.gain > -MOST_LOST / 2:
        # An interval shrinks with the root of the number of tasks.
        needed = math.ceil(ability.n_clusters * (ability.bound / MOST_LOST) ** 2)
        lines.append(f"About {needed} held-out tasks would exclude a loss of {MOST_LOST:.2f}, if there is none.")
    return lines


def repair_points(best: ReadArm | None, tried: int, decided: int, usd: float | None) -> list[keys.Point]:
    """Spell what a repair found: `repair/tried`, `repair/recommended`, and gain and interval of what is better."""
    values: dict[str, float | None] = {"tried": tried, "decided": decided, "recommended": best is not None, "usd": usd}
    for change in best.better if best else ():
        ends = {"gain": change.gain, "gain_ci_low": change.low, "gain_ci_high": change.high}
        values |= {f"{change.axis}/{name}": value for name, value in ends.items()}
    if best and best.ability:
        values["ability_loss_at_most"] = best.ability.bound
    return keys.known_points({f"repair/{name}": value for name, value in values.items()})
