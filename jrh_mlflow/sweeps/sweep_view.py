"""What people see of a sweep and what MLflow is told: tables, maps, page and keys, each declared once.

They are made of the plain data of `Sweep.to_dict`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from jrh_mlflow.comparing.criterion_shift import OperatingPoint, ResolutionShift, curve
from jrh_mlflow.comparing.recommendation import closing_section
from jrh_mlflow.measures.composite import CompositeDifference
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.show.figures.canvas import (
    MARKERS,
    PALETTE,
    Spot,
    canvas,
    hover_spots,
    list_lines,
    reach,
    short,
    spread_prices,
    write_list,
)
from jrh_mlflow.show.html import FROM_RUN
from jrh_mlflow.show.numbers import interval_text, money_text, number_text
from jrh_mlflow.show.page import Drawing, Only, Page, Section
from jrh_mlflow.show.tables import Cell, Column, FilledTable, Table, Whisker
from jrh_mlflow.text import shortened_name
from jrh_mlflow.tracking.runs import keys

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Facts = Mapping[str, Any]

TRIALS_FILE = "trials.csv"
"""Artifacts of its run."""
_MOST_ROWS = 20
"""Configurations that Markdown lists; all are in trials.csv."""
_MOST_LINES = 10
"""Configurations on a terminal."""
_LEGEND = "bars: 95 % by task; filled, dashed: front of the searched half; orange: tied with the best; ×: stopped early"
_STOPPED = "Read on fewer items, up to where each was surely worse than a configuration that costs no more."
_MAP = (
    "Each dot is a configuration with its 95 % interval over whole tasks. Front and best were picked on the searched "
    "half (dashed line); dots are read on the held-out half, which had no say. Filled: on the front. Orange ring: "
    "cannot be told from the best. Cross: stopped early, once it was surely worse than a cheaper one."
)


_MOST_NAMED = 8
_SHORTEST_SETTING = 9
_LONGEST_LABEL = 38
"""Characters of a configuration on a terminal, beside its numbers."""
_SEARCHED = "Marked with *: read on the searched half, which tends to flatter."


def sweep_page(
    sweep: Facts,
    drawings: Sequence[Drawing] = (),
    *,
    differences: Sequence[tuple[CompositeDifference, bool]] = (),
    operating: Sequence[OperatingPoint] = (),
    shifts: Sequence[ResolutionShift] = (),
) -> Page:
    """Return the answer, the map, the front and all that was measured, how sure that is, and what drives it.

    Args:
        sweep: As `Sweep.to_dict` gives it.
        drawings: The map.
        differences: Best minus each held-out configuration, and whether the two are tied.
        operating: Of every judge, prompt and criterion.
        shifts: How far each prompt lies off the curve of the others.
    """
    notes = [*(["Simulated judges, not models."] if sweep["simulated"] else []), *sweep["notes"]]
    verdict = sweep["verdict"]["sentences"]
    notes += [f"Truncated ({sweep['truncated']}): told on what was measured."] if sweep["truncated"] else []
    return Page(
        title=f"Sweep on {sweep['suite']['name']}",
        lead=verdict[0],
        sentences=verdict[1:],
        notes=notes,
        facts={
            "configurations": counts_text(sweep),
            "calls": sweep["n_calls"],
            "study": sweep["study"],
        },
        sections=[
            Section(
                heading="Reliability against cost",
                blocks=[_MAP, drawings or "No configuration has both a reliability and a price."],
                media=("html",),
                always=True,
            ),
            *_configurations(sweep),
            Section(
                heading="How sure",
                blocks=_sureness(sweep, differences),
                media=("html", "markdown"),
                always=True,
            ),
            Section(
                heading="What drives it (fANOVA)",
                blocks=[f"{name}: {_shares_text(shares)}" for name, shares in sweep["importance"].items()],
                media=("html", "markdown"),
                always=bool(sweep["importance"]),
            ),
            _curve(operating, shifts),
            closing_section(verdict[0]),
        ],
    )


def reading_facts(reading: Facts) -> str:
    """Write a value with its interval by task."""
    if reading["kind"] != "estimate":
        return "n/a"
    return f"{number_text(reading['value'])} {interval_text(reading['cluster_low'], reading['cluster_high'])}"


def _reliability_cell(member: Facts) -> Cell:
    half, reading = " *" if member["holdout_value"] is None else "", member["reliability"]
    ends = [reading.get(f"cluster_{end}") for end in ("low", "high")]
    whisker = None if None in ends else Whisker(low=ends[0], high=ends[1], value=reading["value"])
    return Cell(reading_facts(reading) + half, whisker=whisker)


def _label(row: Facts) -> str:
    return str(row["label"])


def _short_label(row: Facts) -> str:
    """Cut the longest settings until all of them fit beside the numbers."""
    settings = _label(row).split(", ")
    while len(", ".join(settings)) > _LONGEST_LABEL and len(longest := max(settings, key=len)) > _SHORTEST_SETTING:
        settings[settings.index(longest)] = shortened_name(longest, most=len(longest) - 1)
    return shortened_name(", ".join(settings), most=_LONGEST_LABEL)


def _dollars(member: Facts) -> str:
    usd = member["usd_per_1k_judgments"]
    return "unknown" if usd is None else f"{usd:.4g}"


def _run_of(member: Facts) -> str:
    """Return the run that its reliability is read from."""
    runs: Mapping[str, str] = member["runs"]
    return runs["holdout"] or runs["search"]


def _tie_text(member: Facts) -> str:
    if member["p_holm"] is None:
        return "–"
    word = "ahead" if member["ahead_of_best"] else "yes" if member["tied_with_best"] else "no"
    return f"{word} (p {member['p_holm']:.3f})"


def _front_text(member: Facts) -> str:
    chance = member["front_probability"]
    return ("yes" if member["on_front"] else "no") + ("" if chance is None else f" ({chance:.2f})")


def _run_address(member: Facts) -> str | None:
    return FROM_RUN.run(_run_of(member)) if member.get("served") else None


def _calls_address(member: Facts) -> str | None:
    return FROM_RUN.calls(_run_of(member)) if member.get("served") else None


MEMBERS: Table[Facts] = Table.of(
    Column("configuration", _label, short=_short_label, brief=True, link=_run_address),
    Column("reliability", _reliability_cell, brief=True, link=_calls_address),
    Column("search", lambda member: number_text(member["search_value"])),
    Column("bias", lambda member: number_text(member["bias"], signed=True)),
    Column("$ per 1,000", _dollars, brief=True),
    Column("on front", _front_text, brief=True),
    Column("tied with best", _tie_text, brief=True),
    Column("run", lambda member: Cell(_run_of(member)[:8], tone="mono"), media=("html",)),
)
"""The configurations that were measured in full, in every medium."""


def members_table(members: Sequence[Facts]) -> FilledTable[Facts]:
    """Show configurations, with the parts of their reliability where there is room."""
    names = dict.fromkeys(name for member in members for name in member["parts"])
    # With spaces, so that the column heads may break.
    parts = (Column(name.replace("_", " "), partial(_part_text, name)) for name in names)
    table: Table[Facts] = Table((*MEMBERS.columns, *parts))
    return table(members, tone=lambda member: "told" if member["on_front"] else "")


def _part_text(name: str, member: Facts) -> str:
    reading = member["parts"].get(name, {})
    return number_text(reading["value"]) if reading.get("kind") == "estimate" else "n/a"


def front_first(sweep: Facts) -> FilledTable[Facts]:
    """Show what was measured in full, the front first."""
    return members_table(sorted(sweep["measured"], key=lambda member: not member["on_front"]))


def _configurations(sweep: Facts) -> list[Section]:
    """List the configurations, the front first, and say what became of the others."""
    every = front_first(sweep)
    first = partial(every.first, what="configurations", where=TRIALS_FILE)
    no_front = [] if sweep["front"] else ["No configuration was measured that keeps the constraints."]
    searched = [_SEARCHED] if any(row["holdout_value"] is None for row in every.rows) else []
    shown = [
        Only(("html",), every),
        Only(("markdown",), first(_MOST_ROWS)),
        Only(("text",), first(_MOST_LINES)),
    ]
    return [
        Section(heading="Configurations", blocks=[*no_front, *shown, *searched], always=True),
        Section(
            heading="Stopped early",
            blocks=[members_table(sweep["stopped"]), _STOPPED],
            media=("html", "markdown"),
        ),
        Section(
            heading="Not measured in full",
            blocks=[
                counts_text(sweep),
                Only(("html", "markdown"), UNMEASURED(sweep["missing"])),
                *(Only(("text",), line) for line in _missing_lines(sweep["missing"])),
            ],
            always=bool(sweep["missing"]),
        ),
    ]


UNMEASURED: Table[Facts] = Table.of(
    Column("configuration", _label), Column("state", itemgetter("state")), Column("why", itemgetter("why"), words=True)
)


def counts_text(sweep: Facts) -> str:
    """Say how many configurations there are, how many of them were measured in full, and what became of the others."""
    states = Counter(row["state"] for row in sweep["missing"])
    ends = "".join(f", {count} {state}" for state, count in states.items())
    return f"{sweep['n_configurations']} configurations: {len(sweep['measured'])} measured in full{ends}."


def _missing_lines(rows: Sequence[Facts]) -> list[str]:
    """Say why there is no number, of configurations with one reason together."""
    names: dict[str, list[str]] = {}
    for row in rows:
        names.setdefault(f"{row['state']}, {row['why']}", []).append(_label(row))
    lines = [f"{'; '.join(_first_of(labels, _MOST_NAMED))}: {why}." for why, labels in names.items()]
    return _first_of(lines, _MOST_LINES, where=f": {keys.SWEEP_JSON} has all")


def _first_of(texts: Sequence[str], most: int, *, where: str = "") -> list[str]:
    return [*texts[:most], *([f"and {len(texts) - most} more{where}"] if len(texts) > most else [])]


def _sureness(sweep: Facts, differences: Sequence[tuple[CompositeDifference, bool]]) -> list[str]:
    share = sweep["n_calls"] / sweep["grid_calls"] if sweep["grid_calls"] else 0.0
    biases = [member["bias"] for member in sweep["measured"] if member["bias"] is not None]
    volume = sweep["hypervolume"]
    method = f" ({volume['method']})" if volume["kind"] == "estimate" else ""
    lines = [
        f"{sweep['n_calls']} calls, {share:.0%} of the whole grid on the whole suite.",
        "The searched half picked the front and the most reliable; the held-out half only reads them, so that no "
        "reading is flattered by having been picked.",
        "Reliability is the mean of its parts on the held-out half; intervals are 95 % over whole tasks. "
        "Tied: no significant difference there (paired test on tasks, adjusted by Holm); ahead: significantly better.",
        *_ties(differences),
        f"Hypervolume {reading_facts(volume)} of the box of reliability 0 to 1 and dollars{method}.",
    ]
    if biases:
        lines.append(
            f"Selection bias (search minus held out), mean {number_text(sum(biases) / len(biases), signed=True)}."
        )
    if sweep["constraints"]:
        lines.append(f"Constraints: {'; '.join(sweep['constraints'])}.")
    return lines


def _ties(differences: Sequence[tuple[CompositeDifference, bool]]) -> list[str]:
    """Say how ties were told, and how large a difference went unseen."""
    compared = [(difference, tied) for difference, tied in differences if difference.value]
    if not compared:
        return []
    methods = dict.fromkeys(difference.method for difference, _ in compared)
    unseen = max((difference.value for difference, tied in compared if tied), default=0.0)
    return [f"Ties by {', '.join(methods)}; the largest difference that was not significant: {number_text(unseen)}."]


def _shares_text(shares: Mapping[str, float] | str) -> str:
    """Write how much of the variance each parameter explains, or why that is not known."""
    return shares if isinstance(shares, str) else ", ".join(f"{name} {share:.2f}" for name, share in shares.items())


OPERATING: Table[OperatingPoint] = Table.of(
    Column("judge", lambda point: point.judge),
    Column("prompt", lambda point: point.prompt),
    Column("criterion", lambda point: point.criterion),
    Column("false preference Δ0", lambda point: number_text(point.false_preference)),
    Column("sensitivity one step", lambda point: number_text(point.sensitivity)),
    Column("d′", lambda point: f"{point.d_prime:.2f}"),
)


def _curve(operating: Sequence[OperatingPoint], shifts: Sequence[ResolutionShift]) -> Section:
    """Say whether the criteria move along one curve, and whether a prompt lies off it."""
    shown = operating if len({point.criterion for point in operating}) > 1 else ()
    rows = sorted(shown, key=lambda point: (point.judge, point.prompt, point.false_preference))
    lines = [
        f"{shift.judge}, prompt {shift.prompt}: "
        f"{'lies off' if shift.off else 'cannot be told from'} the curve of the others "
        f"(d′ {number_text(shift.value, signed=True)} {interval_text(shift.low, shift.high)})."
        for shift in shifts
    ]
    return Section(
        heading="Criterion curve",
        blocks=[OPERATING(rows), *(lines or ["One prompt per judge: nothing to lie off its curve."])],
        media=("html", "markdown"),
    )


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
    stopped: bool = False
    """Pruned: it ended before its items did."""


def sweep_figures(dots: Sequence[Dot], points: Sequence[OperatingPoint], *, title: str) -> dict[str, Figure]:
    """Draw every figure for which there is something to draw, by file name."""
    figures: Mapping[str, Figure | None] = {
        "pareto.png": pareto_map(dots, title=title),
        "criterion_curve.png": criterion_curve(points),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def pareto_map(dots: Sequence[Dot], *, title: str) -> Figure | None:
    """Held-out reliability against dollars per 1,000 judgments, with intervals by task, and the front as searched."""
    if not dots:
        return None
    front = sorted((dot for dot in dots if dot.on_front), key=lambda dot: dot.usd)
    named = [
        Spot(x=dot.usd, y=dot.value, words=f"{dot.label}   {number_text(dot.value)} for ${dot.usd:.3g}")
        for dot in front
    ]
    spots = [Spot(x=dot.usd, y=dot.value, words=_dot_text(dot)) for dot in dots]
    # Stairs never go down: what a cheaper one reaches is to be had at a higher price too.
    steps = [dot.usd for dot in front], list(accumulate((dot.search for dot in front), max))
    figure, axes = numbered_map(spots, named, steps, height="reliability", foot=[_LEGEND])
    for dot in dots:
        _draw(axes, dot)
    axes.set_title(short(title, most=80), loc="left")
    return figure


def numbered_map(
    spots: Sequence[Spot],
    named: Sequence[Spot],
    steps: Sequence[Sequence[float]],
    *,
    height: str,
    is_priced: bool = True,
    foot: Sequence[str] = (),
) -> tuple[Figure, Axes]:
    """Begin a map of prices.

    Args:
        spots: What is said where something is pointed at.
        named: What is numbered, and listed below with its words.
        steps: Prices and heights of the stairs that the front makes.
        height: What the vertical axis is.
        is_priced: Prices are dollars; else they are calls, whose number is whole.
        foot: Lines below the list.
    """
    named = named[:_MOST_NAMED]
    lines, listed = list_lines([*(f"{number}  {spot.words}" for number, spot in enumerate(named, 1)), *foot])
    figure, axes = canvas(8.8, 4.9 + listed, left=0.85, right=0.45, bottom=0.75 + listed)
    axes.step(*steps, where="post", color=PALETTE[0], linestyle="--")
    hover_spots(axes, spots)
    for number, spot in enumerate(named, 1):
        offset: dict[str, Any] = {"xytext": (7, 7), "textcoords": "offset points"}
        axes.annotate(str(number), (spot.x, spot.y), fontweight="bold", color=PALETTE[0], **offset)
    write_list(figure, lines, ["black"] * len(named) + ["#444444"] * len(foot))
    if is_priced:
        spread_prices(axes)
    else:
        axes.locator_params("x", integer=True, min_n_ticks=1)
    axes.set(xlabel="dollars per 1,000 judgments" if is_priced else "calls per judgment", ylabel=height)
    return figure, axes


def criterion_curve(points: Sequence[OperatingPoint]) -> Figure | None:
    """Sensitivity one step apart against false preference between equals, for every criterion of every judge."""
    if len({point.criterion for point in points}) < 2:
        return None
    prompts = sorted({point.prompt for point in points})
    figure, axes = canvas(8, 6.4, left=0.85)
    for index, judge in enumerate(dict.fromkeys(point.judge for point in points)):
        own = [point for point in points if point.judge == judge]
        steps = curve(own)
        colour = PALETTE[index % len(PALETTE)]
        axes.plot([x for x, _ in steps], [y for _, y in steps], color=colour, linewidth=1.2, alpha=0.6)
        for place, prompt in enumerate(prompts):
            same_prompt = [point for point in own if point.prompt == prompt]
            if same_prompt:
                _points(axes, same_prompt, colour=colour, marker=MARKERS[place % len(MARKERS)])
    axes.plot([0, 1], [0, 1], color="#999999", linestyle=":", linewidth=1)
    axes.set(xlim=(-0.03, 1.03), xlabel="false preference between equals (Δ0)")
    axes.set(ylim=(-0.03, 1.03), ylabel="chooses the better, one step apart")
    axes.set_title("Criterion curve (lines: rising fit per judge; bars: 95 % by task)", loc="left")
    axes.legend(loc="lower right", frameon=True, fontsize=9)
    return figure


def _dot_text(dot: Dot) -> str:
    read = f"{dot.label}: {number_text(dot.value)} {interval_text(dot.low, dot.high)}"
    how = "" if dot.held_out else ", stopped early" if dot.stopped else ", search only"
    return f"{read}, {money_text(dot.usd)} per 1,000 judgments{how}"


def _draw(axes: Axes, dot: Dot) -> None:
    colour = PALETTE[0] if dot.on_front else "#888888"
    face, edge = colour if dot.on_front else "white", PALETTE[1] if dot.tied else colour
    marker: dict[str, Any] = {"markerfacecolor": face, "markeredgecolor": edge, "markeredgewidth": 2, "markersize": 8}
    bars = reach([(dot.value, dot.low, dot.high)])
    shape = "x" if dot.stopped else "o"
    axes.errorbar([dot.usd], [dot.value], yerr=bars, color=colour, marker=shape, capsize=3, **marker)


def _points(axes: Axes, points: Sequence[OperatingPoint], *, colour: str, marker: str) -> None:
    label = f"{short(points[0].judge)}, {short(points[0].prompt, most=20)}"
    for index, point in enumerate(points):
        of_false, of_hits = point.intervals
        x, y = point.false_preference, point.sensitivity
        across = None if of_false is None else reach([(x, *of_false)])
        along = None if of_hits is None else reach([(y, *of_hits)])
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 8, "linewidth": 0, "elinewidth": 0.8}
        axes.errorbar([x], [y], xerr=across, yerr=along, label=label if index == 0 else None, **style)
        beside: dict[str, Any] = {"xytext": (6, -11), "textcoords": "offset points"}
        axes.annotate(short(point.criterion, most=14), (x, y), fontsize=8.5, **beside)


def sweep_points(
    readings: Mapping[str, Reading], *, usd_per_1k: float | None, calls_per_judgment: int
) -> list[keys.Point]:
    """Spell a trial: `sweep/reliability` with its interval, each part, dollars per 1,000 judgments.

    Args:
        readings: `reliability` and its parts; one that is not estimable is left out.
        usd_per_1k: None when a price is unknown.
        calls_per_judgment: Of the policy.
    """
    values: dict[str, float | None] = {"sweep/calls_per_judgment": calls_per_judgment}
    values["sweep/usd_per_1k_judgments"] = usd_per_1k
    for name, reading in readings.items():
        if isinstance(reading, Estimate):
            values |= _in_sweep(name, reading)
            values |= {f"sweep/{name}_n": reading.n, f"sweep/{name}_excluded": reading.excluded}
    return keys.known_points(values)


def _in_sweep(name: str, reading: Estimate) -> dict[str, float | None]:
    ends = {f"sweep/{name}_ci_low": reading.cluster_low, f"sweep/{name}_ci_high": reading.cluster_high}
    return {f"sweep/{name}": reading.value, **ends}


def sweep_summary_points(
    counts: Mapping[str, float | None], *, hypervolume: Reading, members: Mapping[str, tuple[Reading, float | None]]
) -> list[keys.Point]:
    """Spell what a sweep found: `sweep/n_front`, `sweep/hypervolume`, `sweep/best/reliability` and so on.

    Args:
        counts: `n_trials`, `n_front`, `n_calls`, `share_of_grid_calls`.
        hypervolume: Of the front.
        members: `best` and `cheapest_tied` to reliability on the held-out half and dollars per 1,000 judgments.
    """
    values: dict[str, float | None] = {f"sweep/{name}": count for name, count in counts.items()}
    if isinstance(hypervolume, Estimate):
        values |= _in_sweep("hypervolume", hypervolume)
    for name, (reliability, usd) in members.items():
        values |= _in_sweep(f"{name}/reliability", reliability) if isinstance(reliability, Estimate) else {}
        values[f"sweep/{name}/usd_per_1k_judgments"] = usd
    return keys.known_points(values)
