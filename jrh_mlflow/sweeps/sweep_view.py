"""A sweep as Markdown and as one page with its map, made from the plain data of `Sweep.to_dict`.

The page draws reliability against cost as SVG: no script, no request, every text escaped.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from jrh_mlflow.comparing.criterion import OperatingPoint, ResolutionShift
from jrh_mlflow.measures.composite import CompositeDifference
from jrh_mlflow.show.cards import CardTable
from jrh_mlflow.show.html import render
from jrh_mlflow.show.markdown import table
from jrh_mlflow.show.numbers import interval_text, short_interval
from jrh_mlflow.show.plain_text import WIDTH, aligned, line_text, plain

Facts = Mapping[str, Any]
Interval = Callable[[float | None, float | None], str]
"""Writes the two ends of an interval."""

_MOST_OTHERS = 20
"""Configurations off the front that are listed; all are in trials.csv."""
_MOST_LINES = 10
"""Configurations on a terminal."""
_WIDTH, _HEIGHT = 900, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 24, 40, 54


def sweep_markdown(
    sweep: Facts,
    *,
    ended: Mapping[str, int],
    differences: Sequence[tuple[CompositeDifference, bool]],
    operating: Sequence[OperatingPoint],
    shifts: Sequence[ResolutionShift],
) -> str:
    """Rank the front, then say how sure that is, what drives it, and what was left out.

    Args:
        sweep: As `Sweep.to_dict` gives it.
        ended: State of trials to their number.
        differences: Best minus each held-out configuration, and whether the two are tied.
        operating: Of every judge, prompt and criterion.
        shifts: How far each prompt lies off the curve of the others.
    """
    lines = [f"# Sweep on {line_text(sweep['suite']['name'])}", ""]
    notes = [*(["Simulated judges, not models."] if sweep["simulated"] else []), *sweep["notes"]]
    notes += [f"Truncated ({sweep['truncated']}): told on what was measured."] if sweep["truncated"] else []
    lines += [f"> {line_text(note)}" for note in notes] + ([""] if notes else [])
    lines += [*answer_lines(sweep), "", "## Front", ""]
    # As below it: the most reliable first.
    front = sweep["front"][::-1]
    lines += _ranking(front) if front else ["No configuration was measured that keeps the constraints."]
    others = [member for member in sweep["measured"] if not member["on_front"]]
    if others:
        lines += ["", "## Also measured in full", "", *_ranking(others[:_MOST_OTHERS])]
        more = len(others) - _MOST_OTHERS
        lines += [f"… and {more} more in trials.csv."] if more > 0 else []
    lines += ["", "## How sure", "", *_sureness(sweep, ended, differences), ""]
    lines += ["## What drives it (fANOVA)", "", *_importance(sweep["importance"]), ""]
    return "\n".join(lines + _curve(operating, shifts))


def answer_lines(sweep: Facts, *, interval: Interval = interval_text) -> list[str]:
    """Name the most reliable configuration, and the cheapest that cannot be told from it."""
    members = {member["configuration"]: member for member in sweep["measured"]}
    best, cheap = members.get(sweep["best"]), members.get(sweep["cheapest_tied"])
    if best is None:
        return ["**No answer yet.** Nothing was measured on the held-out half."]
    tied = sum(member["tied_with_best"] for member in sweep["measured"]) - 1
    others = f"; {tied} others cannot be told to be worse" if tied > 0 else ""
    picked = f"Picked on the searched half, where it read {best['search_value']:.3f}{others}."
    lines = [f"**Most reliable:** {_member_text(best, interval)} {picked}"]
    if cheap is not None and cheap is not best:
        lines.append(f"**Cheapest that cannot be told from it:** {_member_text(cheap, interval)}")
    elif cheap is not None:
        lines.append("No cheaper configuration is tied with it.")
    return lines


def _member_text(member: Facts, interval: Interval) -> str:
    usd = member["usd_per_1k_judgments"]
    dollars = "price unknown" if usd is None else f"${usd:.4g} per 1,000 judgments"
    broken = "" if member["keeps_constraints"] else " On the held-out half it breaks a constraint."
    reading = reading_facts(member["reliability"], interval=interval)
    return f"{line_text(member['label'])}: {reading} held out, {dollars}.{broken}"


def reading_facts(reading: Facts, *, interval: Interval = interval_text) -> str:
    """Write a value with its interval by task."""
    if reading["kind"] != "estimate":
        return "n/a"
    return f"{reading['value']:.3f} {interval(reading['cluster_low'], reading['cluster_high'])}"


def members_table(sweep: Facts) -> CardTable:
    """Show the configurations that were measured in full, the front first."""
    heads = ["configuration", "reliability", "search", "bias", "$ per 1,000", "tied with best", "on front"]
    return CardTable(header=heads, rows=[_cells(one) for one in sorted(sweep["measured"], key=_off_front)])


def _off_front(member: Facts) -> bool:
    return not member["on_front"]


def _ranking(members: Sequence[Facts]) -> list[str]:
    names = list(dict.fromkeys(name for member in members for name in member["parts"]))
    header = ["configuration", "reliability", "search", "bias", "$ per 1,000", "tied with best", "on front"]
    # With spaces, so that the column heads may break.
    header += [name.replace("_", " ") for name in names]
    rows = [[*_cells(member), *(_part(member, name) for name in names)] for member in members]
    return table(header, [[line_text(label), *cells] for label, *cells in rows])


def _cells(member: Facts) -> list[str]:
    chance, usd, p = (member[name] for name in ("front_probability", "usd_per_1k_judgments", "p_holm"))
    return [
        member["label"],
        # Not in round brackets: after the interval's square ones Markdown would read a link.
        reading_facts(member["reliability"]) + (", searched half" if member["holdout_value"] is None else ""),
        f"{member['search_value']:.3f}",
        "–" if member["bias"] is None else f"{member['bias']:+.3f}",
        "unknown" if usd is None else f"{usd:.4g}",
        "–" if p is None else f"{_tie_word(member)} (p {p:.3f})",
        ("yes" if member["on_front"] else "no") + ("" if chance is None else f" ({chance:.2f})"),
    ]


def _tie_word(member: Facts) -> str:
    return "ahead" if member["ahead_of_best"] else "yes" if member["tied_with_best"] else "no"


def _part(member: Facts, name: str) -> str:
    reading = member["parts"].get(name, {})
    return f"{reading['value']:.3f}" if reading.get("kind") == "estimate" else "n/a"


def _sureness(
    sweep: Facts, ended: Mapping[str, int], differences: Sequence[tuple[CompositeDifference, bool]]
) -> list[str]:
    states = ", ".join(f"{count} {name}" for name, count in ended.items())
    share = sweep["n_calls"] / sweep["grid_calls"] if sweep["grid_calls"] else 0.0
    biases = [member["bias"] for member in sweep["measured"] if member["bias"] is not None]
    volume = sweep["hypervolume"]
    method = f" ({volume['method']})" if volume["kind"] == "estimate" else ""
    lines = [
        f"- {sweep['n_trials']} of {sweep['n_configurations']} configurations tried ({states}); {sweep['n_calls']} "
        f"calls, {share:.0%} of the whole grid on the whole suite.",
        "- The searched half picked the front and the most reliable; the held-out half only reads them, so that no "
        "reading is flattered by having been picked.",
        "- Reliability is the mean of its parts on the held-out half; intervals are 95 % over whole tasks. "
        "Tied: not told apart there by a paired test on tasks, adjusted by Holm; ahead: told to be better there.",
        *_ties(differences),
        f"- Hypervolume {reading_facts(volume)} of the box of reliability 0 to 1 and dollars{method}.",
    ]
    if biases:
        lines.append(f"- Selection bias (search minus held out), mean {sum(biases) / len(biases):+.3f}.")
    if sweep["constraints"]:
        lines.append(f"- Constraints: {line_text('; '.join(sweep['constraints']))}.")
    return lines


def _ties(differences: Sequence[tuple[CompositeDifference, bool]]) -> list[str]:
    """Say how ties were told, and how large a difference went unseen."""
    compared = [(difference, tied) for difference, tied in differences if difference.value]
    if not compared:
        return []
    methods = dict.fromkeys(difference.method for difference, _ in compared)
    unseen = max((difference.value for difference, tied in compared if tied), default=0.0)
    return [f"- Ties by {', '.join(methods)}; the largest difference that was not told apart: {unseen:.3f}."]


def _importance(found: Mapping[str, Mapping[str, float] | str]) -> list[str]:
    lines = []
    for name, shares in found.items():
        text = shares if isinstance(shares, str) else ", ".join(f"{one} {share:.2f}" for one, share in shares.items())
        lines.append(line_text(f"- {name}: {text}"))
    return lines


def _curve(operating: Sequence[OperatingPoint], shifts: Sequence[ResolutionShift]) -> list[str]:
    """Say whether the criteria move along one curve, and whether a prompt lies off it."""
    if len({point.criterion for point in operating}) < 2:
        return []
    rows = [
        [
            *map(line_text, (point.judge, point.prompt, point.criterion)),
            f"{point.false_preference:.3f}",
            f"{point.sensitivity:.3f}",
            f"{point.d_prime:.2f}",
        ]
        for point in sorted(operating, key=lambda one: (one.judge, one.prompt, one.false_preference))
    ]
    header = ["judge", "prompt", "criterion", "false preference Δ0", "sensitivity one step", "d′"]
    lines = ["## Criterion curve", "", *table(header, rows), ""]
    if not shifts:
        return [*lines, "One prompt per judge: nothing to lie off its curve.", ""]
    for one in shifts:
        where = "lies off the curve of the others" if one.off else "cannot be told from the curve of the others"
        name = line_text(f"{one.judge}, prompt {one.prompt}")
        lines.append(f"- {name}: {where} (d′ {one.value:+.2f} {interval_text(one.low, one.high)}).")
    return [*lines, ""]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dot:
    """One configuration on the map."""

    label: str
    value: float
    low: float | None
    high: float | None
    usd: float
    """Dollars of 1,000 judgments."""
    on_front: bool
    tied: bool
    """Not told from the best."""
    held_out: bool
    """Measured on the held-out half; otherwise the value is the search's."""
    search: float
    run_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Scales:
    """Where values stand on the page."""

    low_usd: float
    high_usd: float
    low: float
    high: float
    logarithmic: bool

    def x(self, usd: float) -> float:
        """Return the place of an amount."""
        amounts = usd, self.low_usd, self.high_usd
        place = _share(*(map(math.log10, amounts) if self.logarithmic else amounts))
        return round(_LEFT + place * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        """Return the place of a reliability."""
        return round(_HEIGHT - _BOTTOM - _share(value, self.low, self.high) * (_HEIGHT - _TOP - _BOTTOM), 1)


def sweep_page(sweep: Mapping[str, Any], dots: Sequence[Dot]) -> str:
    """Render the map, the front and all that was measured.

    Args:
        sweep: As `Sweep.to_dict` gives it.
        dots: What can be placed on the map.
    """
    scales = scales_of(dots)
    front = sorted((dot for dot in dots if dot.on_front), key=lambda dot: dot.usd)
    return render(
        "sweep.html",
        sweep=sweep,
        dots=sorted(dots, key=lambda dot: dot.on_front),
        ranked=sorted(dots, key=lambda dot: (not dot.on_front, dot.usd)),
        scales=scales,
        stairs=stairs(front, scales) if front and scales else "",
        ticks=_ticks(scales) if scales else {"x": [], "y": []},
        size={"width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "right": _WIDTH - _RIGHT, "bottom": _HEIGHT - _BOTTOM},
    )


def scales_of(dots: Sequence[Dot]) -> Scales | None:
    """Choose scales that hold every dot and its interval; dollars by powers of ten where they spread that much."""
    if not dots:
        return None
    prices = [dot.usd for dot in dots]
    ends = [end for dot in dots for end in (dot.value, dot.search, dot.low, dot.high) if end is not None]
    logarithmic = min(prices) > 0 and max(prices) / min(prices) > 5
    low, high = min(prices), max(prices)
    low_usd, high_usd = (low / 1.3, high * 1.3) if logarithmic else (max(0.0, low - 0.1 * (high - low)), high * 1.08)
    if not low_usd < high_usd:
        low_usd, high_usd = low_usd - 1.0, low_usd + 1.0
    return Scales(
        low_usd=low_usd,
        high_usd=high_usd,
        low=max(0.0, math.floor(20 * min(ends) - 0.2) / 20),
        high=min(1.0, math.ceil(20 * max(ends) + 0.2) / 20),
        logarithmic=logarithmic,
    )


def steps_of(front: Sequence[Dot]) -> list[float]:
    """Return how high the front of the searched half stands at each of its members, from the cheapest on."""
    return list(accumulate((dot.search for dot in front), max))


def stairs(front: Sequence[Dot], scales: Scales) -> str:
    """Return the steps of the front as an SVG path: nothing on the searched half lies above it at that price."""
    heights = steps_of(front)
    path = [f"M {scales.x(front[0].usd)} {scales.y(heights[0])}"]
    for dot, height in zip(front[1:], heights[1:], strict=True):
        path += [f"H {scales.x(dot.usd)}", f"V {scales.y(height)}"]
    return " ".join([*path, f"H {_WIDTH - _RIGHT}"])


def _ticks(scales: Scales) -> dict[str, list[tuple[float, str]]]:
    step = 0.05 if scales.high - scales.low <= 0.5 else 0.1
    first, last = math.ceil(scales.low / step - 1e-9), math.floor(scales.high / step + 1e-9)
    values = [step * index for index in range(first, last + 1)]
    if scales.logarithmic:
        powers = range(math.floor(math.log10(scales.low_usd)), math.ceil(math.log10(scales.high_usd)) + 1)
        prices = [times * 10.0**power for power in powers for times in (1, 2, 5)]
    else:
        prices = [scales.low_usd + (scales.high_usd - scales.low_usd) * index / 5 for index in range(6)]
    return {
        "x": [(scales.x(usd), f"${usd:.3g}") for usd in prices if scales.low_usd <= usd <= scales.high_usd],
        "y": [(scales.y(value), f"{value:.2f}") for value in values],
    }


def _share(value: float, low: float, high: float) -> float:
    return 0.5 if high == low else (value - low) / (high - low)


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
        for member in members[:_MOST_LINES]
    ]
    header = ["configuration", "reliability", "half", "$ per 1,000", "on front", "tied with best"]
    more = [f"… and {len(members) - _MOST_LINES} more in trials.csv"] if len(members) > _MOST_LINES else []
    answer = [
        line for text in answer_lines(sweep, interval=short_interval) for line in textwrap.wrap(_unmarked(text), WIDTH)
    ]
    return [*answer, *(["", *aligned(header, rows)] if rows else []), *more]


def _unmarked(text: str) -> str:
    return plain(html.unescape(text.replace("**", "")))
