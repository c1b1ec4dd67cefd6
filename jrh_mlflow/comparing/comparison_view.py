"""A comparison of judges as tables, as Markdown and as one HTML file: every number with n and interval."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pandas as pd

from jrh_mlflow.comparing.contrasts import Contrasts, Difference
from jrh_mlflow.measures.axes import find, lower_is_better
from jrh_mlflow.measures.behind import has_calls
from jrh_mlflow.measures.reliability import OVERALL, WorstItem
from jrh_mlflow.perturb import expectation_of
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.show.addresses import Addresses
from jrh_mlflow.show.cards import MOST, CardTable
from jrh_mlflow.show.figures.datasheet import CallsOf, no_calls
from jrh_mlflow.show.figures.reliability import cost_curve, heatmap
from jrh_mlflow.show.glossary import terms_among
from jrh_mlflow.show.html import render
from jrh_mlflow.show.markdown import table
from jrh_mlflow.show.names import axis_guide, axis_meaning, axis_name, statistic_name
from jrh_mlflow.show.numbers import (
    bounds_ends,
    bounds_note,
    bounds_text,
    cell_text,
    money_text,
    number_text,
    p_text,
    reading_text,
    short_interval,
    source_ends,
)
from jrh_mlflow.show.plain_text import WIDTH, aligned, line_text, wrapped_line
from jrh_mlflow.tracking.runs import keys

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

_MOST_DIFFERENCES = 30
"""In Markdown; past it only those that were told apart are listed. The table and the JSON have all."""
_SCORES_TEXT = "In brackets the clustered interval, 95 %, sources (tasks) as clusters; (−2): units left out."
_MOST_TOLD = 10
"""Differences on a terminal."""
_OPEN_ROWS = 40
"""Longer tables of differences start folded."""
_DIFFERENCE_HEAD = (
    "axis",
    "judges",
    "difference",
    "95 %",
    "n",
    "p",
    "p adjusted",
    "told apart",
    "detectable",
    "equivalent",
    "McNemar mid-p",
)


def how_decided(comparison: Contrasts) -> list[str]:
    """Say what the letters, p-values, detectable differences and equivalences mean, in plain words."""
    alpha, margin = f"{comparison.alpha:g}", f"{comparison.margin:g}"
    against = "with the baseline " if comparison.baseline else ""
    exploratory = "The other axes are exploratory: adjusted over all differences, and never told apart. "
    return [
        f"Units of one source (task) are not independent, so p is a sign-flip test on whole sources. P adjusted "
        f"takes all comparisons {against}on the deciding axes together (step-down max-T): the chance that any two "
        f"judges are told apart that do not differ is at most {alpha}. "
        f"{exploratory if len(comparison.deciding) < len(comparison.differences) else ''}"
        "McNemar's mid-p takes units as independent and decides nothing.",
        "Detectable: a true difference of this size would be told apart with a chance of 80 %, one under it may be "
        "there and not be found; none: with so few sources no difference would be. Equivalent: shown to differ by "
        f"less than {margin}, either way (two one-sided tests at {alpha}, each pair by itself). Neither told apart nor "
        "equivalent: not enough sources to say.",
    ]


def letters_text(comparison: Contrasts) -> str:
    """Say how to read the letters, or why there are none."""
    if comparison.baseline:
        return "Judges are compared with the baseline only, so they have no letters."
    if not comparison.letters:
        return "No letters: no two judges are told apart on a deciding axis."
    return "Judges that share a letter are not told apart; a is with the best. No letters: none are told apart there."


def finding_rows(comparison: Contrasts) -> list[list[str]]:
    """Return each deciding axis with its pairs told apart, what could have been found, and its equivalent pairs."""
    rows = []
    for axis in comparison.primary:
        own = [one for one in comparison.deciding if one.axis == axis]
        told, same = (f"{sum(each)} of {len(own)}" for each in _decisions(own))
        rows.append([axis_text(axis), told, _detectable_range(own), same])
    return rows


def finding_head(comparison: Contrasts) -> list[str]:
    """Return the head of `finding_rows`."""
    return ["deciding axis", "pairs told apart", "detectable", f"equivalent within ±{comparison.margin:g}"]


def _decisions(differences: Sequence[Difference]) -> tuple[list[bool], list[bool]]:
    return [one.told_apart for one in differences], [one.equivalent for one in differences]


def _detectable_range(differences: Sequence[Difference]) -> str:
    """Spell the smallest and the largest of what could have been found."""
    if not differences:
        return "not compared"
    known = sorted(one.detectable for one in differences if one.detectable is not None)
    ends = [detectable_text(known[0]), detectable_text(known[-1])] if known else []
    ends += [detectable_text(None)] if len(known) < len(differences) else []
    return " to ".join(dict.fromkeys((ends[0], ends[-1])))


def detectable_text(detectable: float | None) -> str:
    """Spell the smallest difference that would be told apart; rounded up, so that it is not promised too much."""
    return "none" if detectable is None else f"{math.ceil(100 * detectable - 1e-9) / 100:.2f}"


def comparison_tables(
    comparison: Contrasts, names: Mapping[str, str] = MappingProxyType({})
) -> dict[str, pd.DataFrame]:
    """Return what there is to tabulate, by name; what is missing is an empty cell, never 0.

    Args:
        comparison: The numbers.
        names: As for `differences_frame`.
    """
    tables = {
        "scores": pd.DataFrame(
            [
                {"axis": axis, "judge": name, **reading_row(one), "letters": comparison.letters_of(axis, name)}
                for axis, row in comparison.cells.items()
                for name, one in row.items()
            ]
        ),
        "differences": differences_frame(comparison.differences, names),
        "by_judge": _keyed_frame(comparison.summaries["by_judge"], "judge"),
        "by_test": _keyed_frame(comparison.summaries["by_test"], "axis"),
        "ordinal": pd.DataFrame(
            [
                {"axis": axis, "judge": name, "metric": metric, **reading_row(one)}
                for axis, rows in comparison.ordinal.items()
                for name, row in rows.items()
                for metric, one in row.items()
            ]
        ),
        "costs": _keyed_frame(comparison.costs, "judge"),
    }
    return {name: frame for name, frame in tables.items() if not frame.empty}


def reading_row(reading: Reading) -> dict[str, Any]:
    """Spell a reading as columns: value, interval by source, n, excluded; where it has none, the reason and bounds."""
    names = ("value", "low", "high", "n", "excluded", "reason", "bounds")
    if isinstance(reading, NotEstimable):
        bounds = "" if reading.bounds is None else bounds_text(reading.bounds)
        return {**dict.fromkeys(names), "reason": reading.reason, "bounds": bounds}
    cells = (reading.value, *source_ends(reading), reading.n, reading.excluded, "", "")
    return dict(zip(names, cells, strict=True))


def n_text(row: Mapping[str, Reading]) -> str:
    """Spell the numbers of units of an axis: one number, or from least to most."""
    counts = sorted({one.n for one in row.values() if isinstance(one, Estimate)})
    return "–" if not counts else f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"


def axis_text(axis: str) -> str:
    """Name an axis, saying when a low score is the good one."""
    return f"{axis_name(axis)} (lower is better)" if lower_is_better(axis) else axis_name(axis)


def judge_heads(comparison: Contrasts) -> list[str]:
    """Name the judges, and say which is the baseline."""
    return [f"{name} (baseline)" if name == comparison.baseline else name for name in comparison.judges]


def cell_rows(comparison: Contrasts) -> list[list[str]]:
    """Return every judge on every axis with its letters, and n."""
    return [
        [axis_text(axis), *(cell_text(one, comparison.letters_of(axis, name)) for name, one in row.items()), n]
        for axis, row in comparison.cells.items()
        for n in [n_text(row)]
    ]


def comparison_markdown(comparison: Contrasts, *, title: str = "Comparison of judges", note: str | None = None) -> str:
    """Render the grid of scores, then differences, summaries, scale metrics and costs."""
    lines = [f"# {line_text(title)}", ""]
    lines += [f"> {line_text(text)}\n" for text in ((note,) if note else ()) + comparison.notes]
    header = ["", *map(line_text, judge_heads(comparison)), "n"]
    lines += ["### Scores", "", *table(header, _named(cell_rows(comparison))), "", letters_text(comparison)]
    lines += ["Intervals are 95 %, sources (tasks) as clusters.", ""]
    lines += _bounds_note(comparison)
    lines += _differences(comparison)
    lines += _spreads("By judge, over its tests", "judge", comparison.summaries["by_judge"])
    lines += _spreads("By test, over judges", "test", comparison.summaries["by_test"])
    lines += _ordinal(comparison)
    lines += _costs(comparison)
    return "\n".join(lines)


def _named(rows: Iterable[Sequence[str]], *, names: int = 1) -> list[list[str]]:
    """Return rows whose first cells are names, of judges, axes and tests, with those as text that does nothing."""
    return [[*map(line_text, row[:names]), *row[names:]] for row in rows]


def _bounds_note(comparison: Contrasts) -> list[str]:
    return bounds_note(one for row in comparison.cells.values() for one in row.values())


def difference_cells(one: Difference) -> list[str]:
    """Return what every table of differences begins with: axis, judges, difference, interval, n."""
    ends = short_interval(one.low, one.high)
    return [axis_text(one.axis), f"{one.a} − {one.b}", f"{one.value:+.3f}", ends, str(one.n)]


def difference_row(one: Difference) -> list[str]:
    """Return every cell of a difference, as `_DIFFERENCE_HEAD` names them."""
    return [
        *difference_cells(one),
        p_text(one.p),
        p_text(one.p_adjusted),
        told_text(one),
        detectable_text(one.detectable),
        "yes" if one.equivalent else "not shown",
        p_text(one.p_mcnemar),
    ]


def told_text(one: Difference) -> str:
    """Say whether a difference is told apart; an exploratory one is not asked."""
    return "exploratory" if one.family == "exploratory" else "yes" if one.told_apart else "no"


def _differences(comparison: Contrasts) -> list[str]:
    shown: Sequence[Difference] = comparison.differences
    told = f"{comparison.told}."
    if len(shown) > _MOST_DIFFERENCES:
        shown = comparison.different
        told += " Only those are listed; the table `differences` has all."
    found = table(finding_head(comparison), _named(finding_rows(comparison)))
    rows = table(_DIFFERENCE_HEAD, _named(map(difference_row, shown), names=2)) if shown else []
    how = [line for text in how_decided(comparison) for line in (text, "")]
    return ["### Differences", "", told, "", *found, "", *how, *rows, ""]


def _spreads(heading: str, first: str, rows: Mapping[str, Mapping[str, float | None]]) -> list[str]:
    if not rows:
        return []
    cells = [
        [name, *(number_text(row[key]) for key in ("mean", "sd", "min", "max")), f"{row['n']:g}"]
        for name, row in rows.items()
    ]
    return [f"### {heading}", "", *table([first, "mean", "sd", "min", "max", "n"], _named(cells)), ""]


def _ordinal(comparison: Contrasts) -> list[str]:
    if not comparison.ordinal:
        return []
    names = {metric: statistic_name(metric) for metric in ("ccc", "pearson", "spearman", "mae")}
    rows = [
        [axis_name(axis), name, *(cell_text(row[metric]) if metric in row else "n/a" for metric in names), n_text(row)]
        for axis, judges in comparison.ordinal.items()
        for name, row in judges.items()
    ]
    return [
        "### Against the expected levels",
        "",
        *table(["test", "judge", *names.values(), "n"], _named(rows, names=2)),
        "",
    ]


def _costs(comparison: Contrasts) -> list[str]:
    known = {name: row for name, row in comparison.costs.items() if row["usd"] is not None}
    if not known:
        return []
    rows = [
        [name, money_text(row["usd"]), money_text(row["usd_per_accuracy_point"])]
        for name, row in comparison.costs.items()
    ]
    return ["### Cost of the calls compared", "", *table(["judge", "dollars", "per accuracy point"], _named(rows)), ""]


def _keyed_frame(rows: Mapping[str, Mapping[str, float | None]], first: str) -> pd.DataFrame:
    frame: pd.DataFrame = pd.DataFrame([{first: name, **row} for name, row in rows.items()])
    return frame


def headline(comparison: Contrasts) -> list[tuple[str, str]]:
    """Say on each deciding axis who is told apart from whom, best first, and last where nobody is: (axis, words)."""
    told, quiet = [], []
    for axis in comparison.primary:
        own = [one for one in comparison.deciding if one.axis == axis]
        apart = [one for one in own if one.told_apart]
        if apart and comparison.baseline:
            told.append((axis_text(axis), _against_baseline(apart)))
        elif apart:
            told.append((axis_text(axis), _winners(apart, n_others=len(comparison.judges) - 1)))
        elif own:
            quiet.append(f"{axis_name(axis)} (detectable: {_detectable_range(own)})")
    who = f"from {short_name(comparison.baseline)}" if comparison.baseline else "from another"
    return [*told, *([(f"No judge is told apart {who} on", f"{'; '.join(quiet)}.")] if quiet else [])]


def _better(one: Difference) -> tuple[str, str]:
    """Return the better and the worse judge of a difference."""
    return (one.b, one.a) if (one.value > 0) == lower_is_better(one.axis) else (one.a, one.b)


def _winners(apart: Sequence[Difference], *, n_others: int) -> str:
    """Name the judge that is better than most others, and those; then how many pairs that leaves."""
    beaten: dict[str, list[str]] = {}
    for one in apart:
        winner, loser = _better(one)
        beaten.setdefault(winner, []).append(loser)
    most = max(map(len, beaten.values()))
    first = [name for name, losers in beaten.items() if len(losers) == most]
    lead = f"{_listed(first)} {'is' if len(first) == 1 else 'are each'} better than {most} of {n_others} others"
    named = f" ({_listed(beaten[first[0]])})" if len(first) == 1 else ""
    pairs = f"{len(apart)} {'pair is' if len(apart) == 1 else 'pairs are'} told apart in all"
    return f"{lead}{named}; {pairs}."


def _against_baseline(apart: Sequence[Difference]) -> str:
    sides = {
        "better": [one.a for one in apart if _better(one)[0] == one.a],
        "worse": [one.a for one in apart if _better(one)[0] != one.a],
    }
    return "; ".join(f"{word} than the baseline: {_listed(names)}" for word, names in sides.items() if names) + "."


def _listed(names: Sequence[str], *, most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(short_name, names[:most])) + more


def short_name(name: str) -> str:
    """Shorten a long name in its middle: judges often differ in the last characters only."""
    return name if len(name) <= 40 else f"{name[:22]}…{name[-16:]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeCard:
    """What the page says of a judge besides its numbers."""

    name: str
    """As in the comparison; that of a simulated judge says so."""
    run_id: str
    n_calls: int
    truncated: str | None = None
    experiment_id: str = ""
    """Of its run."""


@dataclass(frozen=True, slots=True)
class JudgeLinks:
    """Where the pages of the judges are, as seen from a served comparison."""

    addresses: Addresses
    judges: Sequence[JudgeCard]
    n_calls: int
    """Calls of each judge that are compared: those that all were asked."""

    def calls(self, judge: str, axis: str) -> str | None:
        """Return the calls behind a judge's reading on an axis; None where a number has none."""
        if axis == OVERALL:
            # It is over the tests and calls that all judges have; those of a single run may be others.
            return None
        key, card = calls_key(axis), self._card(judge)
        if not has_calls(key):
            return None
        # The page of the calls has all of the judge, and says how many of them are in the number that led to it.
        compared = {"compared": self.n_calls} if self.n_calls < card.n_calls else {}
        return self.addresses.calls(card.run_id, axis=key, **compared)

    def item(self, judge: str, item: str) -> str:
        """Return a judge's calls of an item, opened."""
        return self.addresses.calls(self._card(judge).run_id, item=item, open=item)

    def datasheet(self, judge: str) -> str:
        """Return the datasheet of a judge."""
        return self.addresses.datasheet(self._card(judge).run_id)

    def mlflow(self, judge: str) -> str | None:
        """Return MLflow's own page of a judge's run."""
        card = self._card(judge)
        return self.addresses.mlflow(card.experiment_id, card.run_id) if card.experiment_id else None

    def _card(self, judge: str) -> JudgeCard:
        return next(card for card in self.judges if card.name == judge)


def calls_key(axis: str) -> str:
    """Return the key under which the calls behind an axis of a comparison are found: of a test, what scores it."""
    if axis == OVERALL:
        return metric_keys.RELIABILITY_MEAN
    return axis if "/" in axis or find(axis) else f"{axis}/{expectation_of(axis).statistic}"


@dataclass(frozen=True, kw_only=True, slots=True)
class AxisRow:
    """An axis of the grid with what explains it, and each judge's reading."""

    axis: str
    name: str
    end: str
    """Which end is good."""
    meaning: str
    guide: str
    """Good and bad values, where known."""
    readings: Mapping[str, Reading]


def _axis_rows(comparison: Contrasts, axes: Iterable[str]) -> list[AxisRow]:
    return [
        AxisRow(
            axis=axis,
            name=axis_name(axis),
            end="lower is better" if lower_is_better(axis) else "higher is better" if _has_end(axis) else "",
            meaning=axis_meaning(calls_key(axis)),
            guide=f"Good: {guide.good}. Bad: {guide.bad}." if (guide := axis_guide(calls_key(axis))) else "",
            readings=comparison.cells[axis],
        )
        for axis in axes
    ]


def _has_end(axis: str) -> bool:
    """Whether one end of an axis is the good one; of some, such as padding that wins, it is the middle."""
    declared = find(axis)
    return declared is None or declared.direction is not None


def comparison_page(
    comparison: Contrasts,
    *,
    title: str,
    suite: Mapping[str, str],
    judges: Sequence[JudgeCard],
    figures: Mapping[str, Markup] | None = None,
    worst: Mapping[str, Sequence[WorstItem]] | None = None,
    notes: Sequence[str] = (),
    addresses: Addresses | None = None,
) -> str:
    """Render the comparison: what is told apart in words, then every judge on every axis, then how it was decided.

    Args:
        comparison: The numbers.
        title: Of the page.
        suite: Facts of the suite, shown as they are.
        judges: In the order of the comparison.
        figures: Caption to drawing (`figures.svg`).
        worst: Judge to its worst items.
        notes: Shown above the comparison's own.
        addresses: Of the pages that are served beside this one; None for a file, which leads nowhere.
    """
    shown = sorted(comparison.differences, key=lambda one: (not one.told_apart, one.axis != OVERALL))
    exploratory = [axis for axis in comparison.cells if axis not in comparison.primary]
    letters, how, bounds = letters_text(comparison), how_decided(comparison), _bounds_note(comparison)
    heads = ("told apart", "detectable", "equivalent", *finding_head(comparison))
    return render(
        "comparison.html",
        title=title,
        comparison=comparison,
        overall=OVERALL,
        axis_name=axis_name,
        short_name=short_name,
        bounds_ends=bounds_ends,
        n_text=n_text,
        suite=suite,
        judges=judges,
        links=JudgeLinks(addresses, judges, comparison.n_calls) if addresses else None,
        figures=figures or {},
        worst={name: items for name, items in (worst or {}).items() if items},
        notes=(*notes, *comparison.notes),
        headline=headline(comparison),
        grid={
            "deciding axes": _axis_rows(comparison, comparison.primary),
            "exploratory axes: shown, never told apart": _axis_rows(comparison, exploratory),
        },
        deciding=[one for one in shown if one.family == "primary"],
        exploratory=[one for one in shown if one.family == "exploratory"],
        told_text=told_text,
        detectable_text=detectable_text,
        letters_text=letters,
        scores_text=_SCORES_TEXT,
        how_decided=how,
        terms=terms_among([comparison.told, letters, _SCORES_TEXT, *how, *bounds, *heads]),
        finding_head=finding_head(comparison),
        finding_rows=finding_rows(comparison),
        unfolded=len(comparison.deciding) <= _OPEN_ROWS,
        bounds_note=bounds,
    )


_DECIDED = ("low", "high", "p", "p_adjusted", "told_apart", "n", "n_clusters", "family", "p_mcnemar", "detectable")
"""Fields of a difference that a table calls the same."""


def differences_frame(
    differences: Sequence[Difference], names: Mapping[str, str] = MappingProxyType({})
) -> pd.DataFrame:
    """Return one row per axis and pair of judges: a minus b, its interval, p-values, and whether it is told apart.

    Args:
        differences: Of a comparison.
        names: What judges are called in the table, where not as in the comparison.
    """
    frame: pd.DataFrame = pd.DataFrame([_difference_row(one, names) for one in differences])
    return frame


def _difference_row(one: Difference, names: Mapping[str, str]) -> dict[str, Any]:
    low, high = one.equivalence or (None, None)
    return {
        "axis": one.axis,
        "a": names.get(one.a, one.a),
        "b": names.get(one.b, one.b),
        "difference": one.value,
        **{name: getattr(one, name) for name in _DECIDED},
        "equivalent": one.equivalent,
        "equivalence_low": low,
        "equivalence_high": high,
        "method": one.method,
    }


def comparison_figures(
    comparison: Contrasts, calls: Mapping[str, pd.DataFrame], *, title: str, calls_of: CallsOf = no_calls
) -> dict[str, Figure]:
    """Draw a comparison, by file name: tests × judges, and score against dollars where costs are known."""
    figures = {
        "heatmap.png": heatmap(comparison.cells, letters=comparison.letters, title=title, calls_of=calls_of),
        "cost_curve.png": cost_curve(calls),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


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
        for one in told[:_MOST_TOLD]
        for p in [f"{p_text(one.p)} / {p_text(one.p_adjusted)}"]
    ]
    more = [f"… and {len(told) - _MOST_TOLD} more"] if len(told) > _MOST_TOLD else []
    header = ["axis", "judges", "difference [95 %]  n", "p / p adjusted"]
    return [*aligned(header, rows, left=2), *more] if told else []


def _letter_cell(reading: Reading, letter: str) -> str:
    return cell_text(reading, letter) if isinstance(reading, Estimate) else reading_text(reading)


def _comparison_costs(comparison: Contrasts) -> list[str]:
    known = {name: row["usd"] for name, row in comparison.costs.items() if row["usd"] is not None}
    return wrapped_line("Cost", ", ".join(f"{name} {money_text(usd)}" for name, usd in known.items())) if known else []


def contrast_tables(contrasts: Contrasts) -> list[CardTable]:
    """Show every judge on every axis with its letters, then the differences that are told apart."""
    told = contrasts.different
    rows = [[*difference_cells(one), p_text(one.p), p_text(one.p_adjusted)] for one in told[:MOST]]
    more = f"… and {len(told) - MOST} more differences: `to_frame()` has all." if len(told) > MOST else ""
    header = ["told apart", "judges", "difference", "95 % by source", "n", "p", "p adjusted"]
    return [
        CardTable(header=["", *judge_heads(contrasts), "n"], rows=cell_rows(contrasts), more=_letters_note(contrasts)),
        CardTable(header=header, rows=rows, more=more),
        CardTable(header=finding_head(contrasts), rows=finding_rows(contrasts), more=_DETECTABLE),
    ]


_DETECTABLE = "Detectable: a true difference of this size would be told apart with a chance of 80 %."


def _letters_note(contrasts: Contrasts) -> str:
    return f"{contrasts.told}. {letters_text(contrasts)} 95 % by source."


def comparison_points(contrasts: Contrasts) -> list[keys.Point]:
    """Spell a comparison: how many judges and differences, and how many of these were told apart."""
    return keys.known_points(
        {
            "compare/judges": len(contrasts.judges),
            "compare/n_pairs": len(contrasts.differences),
            "compare/n_different": len(contrasts.different),
        }
    )
