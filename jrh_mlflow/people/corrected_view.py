"""`Corrected`: a rate corrected for its judge; what people see of it and what MLflow is told."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from jrh_mlflow.people.corrected import OPEN, Pool, Sampling
from jrh_mlflow.people.people_verdicts import LOOK, half_width, more_units, per_cent, sensitivity_line, why_missing
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.findings import Finding, Verdict
from jrh_mlflow.show.cards import ShownResult, brief_run
from jrh_mlflow.show.figures import canvas as drawing
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.show.numbers import interval_text, missing_text, number_text, reading_text, source_ends
from jrh_mlflow.show.page import Drawing, Facts, Page, Section
from jrh_mlflow.show.plain_text import plain_name
from jrh_mlflow.show.readings import readings_frame
from jrh_mlflow.show.tables import Column, FilledTable, Table, reading_cell
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import RunContent, shown_content

if TYPE_CHECKING:
    import pandas as pd

    from jrh_mlflow.show.figures.canvas import Figure

LABELS = {
    "corrected": "corrected",
    "naive": "the judge alone (naive)",
    "people_only": "people alone",
    "sensitivity": "sensitivity of the judge",
    "specificity": "specificity of the judge",
    "positional": "pairs decided by the slot (positional)",
    "ties": "pairs with a tie in one order or both",
}
"""Readings of a corrected rate, in words."""
_PLOTTED = ("corrected", "naive", "people_only")
_DIFFERENCE_COLUMNS = ["a", "b", "difference", "low", "high", "p", "p_adjusted", "told_apart"]
_DRAWN: dict[Sampling | None, str] = {
    None: "not known",
    "random": "at random among all items",
    "stratified": "within the person's labels",
    "by_verdict": "within the judge's verdicts",
}
_DRAW = (
    "The range is wide because those items are not known to be drawn at random from these: draw some that way, or say "
    "that they were."
)
_ROW = 0.5
"""Inches of a row of the figure."""


def level_text(level: float) -> str:
    """Write the level of an interval: `95 %`."""
    return f"{100 * level:g} %"


def corrected_table(done: Corrected, *, signed: bool = False) -> FilledTable[tuple[str, Reading]]:
    """Show every reading with its interval, n and what was left out."""
    table: Table[tuple[str, Reading]] = Table.of(
        Column("reading", lambda row: LABELS[row[0]]),
        Column("value", lambda row: reading_cell(row[1], _value(row[1], signed=signed))),
        Column(level_text(done.level), lambda row: _ends(row[1])),
        Column("n", lambda row: f"{row[1].n:,}"),
        Column("left out", lambda row: f"{row[1].excluded:,}"),
        Column("how", lambda row: row[1].method if isinstance(row[1], Estimate) else row[1].reason),
    )
    return table(done.readings.items())


def _value(reading: Reading, *, signed: bool) -> str:
    return missing_text(reading) if isinstance(reading, NotEstimable) else number_text(reading.value, signed=signed)


def _ends(reading: Reading) -> str:
    return interval_text(*source_ends(reading)) if isinstance(reading, Estimate) else "–"


_DIFFERENCES: Table[Mapping[str, Any]] = Table.of(
    Column("versions", lambda row: f"{row['b']} − {row['a']}"),
    Column("difference", lambda row: number_text(row["difference"], signed=True)),
    Column("interval", lambda row: interval_text(row["low"], row["high"])),
    Column("p", lambda row: number_text(row["p"])),
    Column("p for all pairs", lambda row: number_text(row["p_adjusted"])),
    Column("significant", lambda row: "yes" if row["told_apart"] else "no"),
)


def corrected_points(scorer: str, readings: Mapping[str, Reading]) -> list[keys.Point]:
    """Spell corrected rates beside MLflow's `<scorer>/mean`: `<scorer>/corrected/value`, `/ci_low`, `/ci_high`, `/n`.

    Example:
        >>> corrected_points("polite", {})
        []
    """
    values = {
        f"{corrected_axis(scorer, axis)}/{name}": getattr(reading, name)
        for axis, reading in readings.items()
        if isinstance(reading, Estimate)
        for name in ("value", "ci_low", "ci_high", "n")
    }
    return keys.known_points(values)


def corrected_axis(scorer: str, axis: str) -> str:
    """Spell what the keys of a corrected rate begin with."""
    # A name that MLflow takes is not changed: the rate stands beside MLflow's own `<scorer>/mean`.
    name = scorer if keys.METRIC_NAME.fullmatch(scorer) else keys.category_names([scorer])[scorer]
    return f"{name}/{axis}"


def void_points(axis: str, logged: Iterable[str]) -> list[keys.Point]:
    """Spell as NaN what a run says of an axis and nobody can say any more: MLflow forgets no metric.

    Example:
        >>> void_points("polite/corrected", ["polite/mean", "polite/corrected/n"])
        [Point(key='polite/corrected/n', value=nan, step=0)]
    """
    return [keys.Point(key=key, value=math.nan) for key in sorted(logged) if key.startswith(f"{axis}/")]


def _intervals(
    readings: Mapping[str, Mapping[str, Reading]], title: str, level: float, *, signed: bool = False
) -> Figure | None:
    """Rates under one another; None where none has a number."""
    rows = {
        f"{version} {LABELS[name]}".strip(): (name, reading)
        for version, own in readings.items()
        for name, reading in own.items()
        if name in _PLOTTED and isinstance(reading, Estimate)
    }
    if not rows:
        return None
    left = drawing.label_inches(rows)
    figure, axes = drawing.canvas(left + 5.2, 1.5 + _ROW * len(rows), left=left, bottom=0.95, top=0.55)
    drawing.label_rows(axes, [drawing.short(label) for label in rows])
    for place, (name, reading) in enumerate(rows.values()):
        axes.errorbar(
            [reading.value],
            [place],
            xerr=drawing.error_bars([reading]),
            capsize=4,
            linestyle="none",
            **drawing.marks(_PLOTTED.index(name)),
        )
        axes.annotate(
            number_text(reading.value),
            (reading.value, place),
            (0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=9,
        )
    of_scores = not signed and any(reading.statistic == "value" for _, reading in rows.values())
    axes.set_xlim(*((None, None) if signed or of_scores else (0, 1)))
    axes.set_xlabel("difference" if signed else "mean score" if of_scores else "rate")
    drawing.write_corners(figure, title=drawing.short(title, most=80), foot=f"{level_text(level)} intervals.")
    return figure


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionDifference:
    """Version b minus version a."""

    a: str
    b: str
    estimate: Reading
    p: float | None
    """By itself; None where there is no estimate."""
    p_adjusted: float | None
    """For all pairs of versions, by max-T."""
    told_apart: bool


@dataclass(frozen=True, kw_only=True)
class Corrected(ShownResult):
    """A rate (or win rate, or difference of two versions) corrected for its judge, and where it is logged."""

    estimate: Reading
    naive: Reading
    """The mean of the judge's verdicts."""
    people_only: Reading
    """From the people's labels alone, where that is valid."""
    method: str
    note: str
    """What a reader must know, one sentence each."""
    sampling: Sampling | None
    """How the labelled items were drawn; None: not known."""
    level: float
    scorer: str
    """Name of the judge."""
    pool: Pool
    """Whether the labels are of the items whose rate is asked for: `same`, `other` (their verdicts differ), or
    `unknown`."""
    n_labelled: int
    n_unlabelled: int
    sensitivity: Reading | None = None
    specificity: Reading | None = None
    if_fewer_found: float | None = None
    """The rate if the judge finds .10 fewer of the failures here than on the labelled items."""
    n_clusters: int | None = None
    """Clusters that the labelled items are of, where they are known."""
    positional: Reading | None = None
    """Of pairs: share in which both orders choose the same slot; each counts ½."""
    ties: Reading | None = None
    """Of pairs: share with a tie in one order or both; each counts ½."""
    versions: Mapping[str, Corrected] = field(default_factory=dict)
    """Of a difference: each version by itself. The estimate is the second minus the first; of more than two versions
    there is none, but `differences`."""
    of_pairs: tuple[VersionDifference, ...] = ()
    """Of versions: every pair."""
    effects: Mapping[Hashable, float] = field(default_factory=dict, repr=False, compare=False)
    """Of a difference: what each item adds to it, where that is known; in no file."""
    judge: Mapping[str, str] = field(default_factory=dict)
    """What identifies the judge."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """What was left out, by reason."""
    weighted: bool = False
    """Whether the labels were drawn with known chances; `sampling` then does not matter."""
    of_scores: bool = False
    """Whether people gave scores: the estimate is their mean, on their scale, not a rate."""
    simulated: bool = False

    @property
    def title(self) -> str:
        """Names the judge, and the versions of a difference."""
        names = " − ".join(reversed(list(self.versions)))
        names = ", ".join(self.versions) if len(self.versions) > 2 else names
        return f"{self.what} by {self.scorer}, corrected" + (f": {names}" if names else "")

    @property
    def readings(self) -> dict[str, Reading]:
        """Every reading by its name."""
        main: dict[str, Reading] = {"corrected": self.estimate, "naive": self.naive, "people_only": self.people_only}
        more = {name: getattr(self, name) for name in ("sensitivity", "specificity", "positional", "ties")}
        return main | {name: reading for name, reading in more.items() if reading is not None}

    @property
    def differences(self) -> pd.DataFrame:
        """Every pair of versions, b minus a: `a`, `b`, `difference`, `low`, `high`, `p`, `p_adjusted`, `told_apart`."""
        import pandas as pd

        frame: pd.DataFrame = pd.DataFrame(self._difference_rows, columns=_DIFFERENCE_COLUMNS)
        return frame

    @property
    def _difference_rows(self) -> list[dict[str, Any]]:
        return [
            {
                **{name: getattr(pair, name) for name in ("a", "b", "p", "p_adjusted", "told_apart")},
                "difference": getattr(pair.estimate, "value", None),
                "low": getattr(pair.estimate, "ci_low", None),
                "high": getattr(pair.estimate, "ci_high", None),
            }
            for pair in self.of_pairs
        ]

    @property
    def metrics(self) -> dict[str, float]:
        """What is logged to a run of its own."""
        return {point.key: point.value for point in run_points(self)}

    @property
    def verdict(self) -> Verdict:
        """The true rate, how far the judge alone is off, and how many labels would narrow it, in plain words."""
        return _versions_verdict(self) if len(self.versions) > 2 else _verdict(self)

    @property
    def what(self) -> str:
        """What is estimated: a pass rate, a win rate or a mean score."""
        pairs = any(rate.positional is not None for rate in (self, *self.versions.values()))
        return "Win rate" if pairs else "Mean score" if self.of_scores else "Pass rate"

    @property
    def _headline(self) -> str:
        if isinstance(self.estimate, NotEstimable):
            held = self.estimate.withheld and self.estimate.bounds is not None
            ends = f" It lies {reading_text(self.estimate)}." if held else ""
            return f"{'Withheld' if self.estimate.withheld else 'Not estimable'}: {self.estimate.reason}.{ends}"
        corrected, naive = (reading_text(reading) for reading in (self.estimate, self.naive))
        return f"{corrected} ({level_text(self.level)}), where the judge alone says {naive}."

    @property
    def _facts(self) -> dict[str, str]:
        counts = f"{self.n_labelled:,} labelled, {self.n_unlabelled:,} without a label"
        labels = "with known chances" if self.weighted else _DRAWN[self.sampling]
        own = {"same": "yes", "other": "no", "unknown": "not known"}[self.pool]
        facts = {"method": self.method, "labels drawn": labels, "labels are of these items": own, "items": counts}
        if self.n_clusters is not None:
            facts["clusters with labels"] = f"{self.n_clusters:,}"
        if self.lost:
            facts["left out"] = ", ".join(f"{count:,} {reason}" for reason, count in self.lost.items())
        return facts | {f"judge, {key}": value for key, value in self.judge.items()}

    def _page(self, drawings: Sequence[Drawing] = ()) -> Page:
        several = len(self.versions) > 2
        tables = {} if several else {"Readings": corrected_table(self, signed=bool(self.versions))}
        tables |= {f"Version {name}": corrected_table(rate) for name, rate in self.versions.items()}
        return Page.saying(
            self.verdict,
            self._headline,
            title=self.title,
            notes=[self.note] if self.note else [],
            sections=[
                Section(heading="Differences", blocks=[_DIFFERENCES(self._difference_rows if several else [])]),
                *(Section(heading=name, blocks=[table]) for name, table in tables.items()),
                Section(heading="Figures", blocks=[drawings], media=("html",)),
                Section(heading="How it was read", blocks=[Facts(self._facts)]),
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        plain = ("run_id", "link", "scorer", "method", "note", "sampling", "level", "n_labelled", "n_unlabelled")
        of_labels = ("pool", "if_fewer_found", "n_clusters")
        return {
            **{name: getattr(self, name) for name in (*plain, *of_labels, "simulated")},
            "verdict": self.verdict.to_dict(),
            "judge": dict(self.judge),
            "left_out": dict(self.lost),
            "estimate": self.estimate.to_dict(),
            **{name: reading.to_dict() for name, reading in self.readings.items() if name != "corrected"},
            "versions": {name: rate.to_dict() for name, rate in self.versions.items()},
            "differences": [{**asdict(pair), "estimate": pair.estimate.to_dict()} for pair in self.of_pairs],
        }

    def to_frame(self) -> pd.DataFrame:
        """Return one row per reading; of a difference also those of each version."""
        named = {
            f"{name}/{axis}": reading for name, own in self.versions.items() for axis, reading in own.readings.items()
        }
        return readings_frame({**self.readings, **named})

    def __repr__(self) -> str:
        numbers = f"{reading_text(self.estimate)}, naive {reading_text(self.naive)}"
        on = f"{self.n_labelled:,} labels, {self.n_unlabelled:,} verdicts"
        return f"Corrected({brief_name(self.scorer)}: {numbers}, {self.method}, {on}, {brief_run(self.run_id)})"

    def _card(self) -> dict[str, Any]:
        return {"facts": self._facts}

    def _figures(self) -> dict[str, Figure]:
        """Draw every figure for which there is something to draw, by file name."""
        versions = {name: rate.readings for name, rate in self.versions.items()}
        figures = {
            "corrected.png": _intervals({"": self.readings}, self.title, self.level, signed=bool(versions)),
            "versions.png": _intervals(versions, f"Versions: {self.title}", self.level),
        }
        return {name: figure for name, figure in figures.items() if figure is not None}

    def plot(self, kind: str | None = None) -> Figure:
        """Draw the judge alone, people alone and both together; of a difference also the rates of the `versions`."""
        return drawing.plotted(self._figures(), kind)


def _verdict(done: Corrected) -> Verdict:
    """Say the true rate, how far the judge alone is off, and how many labels would narrow it."""
    estimate, what, n_labelled, versions = done.estimate, done.what.lower(), done.n_labelled, list(done.versions)
    if isinstance(estimate, NotEstimable):
        text = f"The true {what} cannot be told: {why_missing(estimate)}."
        more = "Have people label more items, drawn at random among all."
        finding = Finding(axis="corrected", state="cannot tell", reading=estimate, text=text, advice=more)
        return Verdict(sentences=(text, more), findings=(finding,))
    say = _Said(of_scores=done.of_scores)
    finding = _difference(estimate, what, versions, say) if versions else _rate(estimate, done.naive, what, say)
    more = _narrower(estimate, n_labelled, decides=bool(versions) and finding.state == "cannot tell")
    if done.method == OPEN:
        more = f"{_DRAW} {more}"
    known = f"It is based on people's labels of {n_labelled:,} items. {more}"
    fewer = "" if done.if_fewer_found is None else sensitivity_line(f"the true {what}", done.if_fewer_found)
    command = "" if done.run_id is None else LOOK
    look = f"`{command}` shows it beside the rate of the judge." if command else ""
    finding = replace(finding, advice=more, command=command)
    return Verdict(sentences=tuple(filter(None, [finding.text, known, fewer, look])), findings=(finding,))


def _versions_verdict(done: Corrected) -> Verdict:
    """Say which of several versions differ in their true rate."""
    say, what, findings = _Said(of_scores=done.of_scores), done.what.lower(), []
    for pair in done.of_pairs:
        reading, is_told = pair.estimate, pair.told_apart
        first, second = plain_name(pair.a), plain_name(pair.b)
        text = f"Whether {first} or {second} has the higher true {what} is not decided."
        if is_told and isinstance(reading, Estimate):
            better, worse = (second, first) if reading.value > 0 else (first, second)
            number = say.reading(reading, signed=True)
            text = f"{better} has a higher true {what} than {worse}: {second} minus {first} is {number}."
        findings.append(Finding(axis="corrected", state="ok" if is_told else "cannot tell", reading=reading, text=text))
    told = [finding.text for finding in findings if finding.state == "ok"]
    lead = told[:1] or [f"No two of the versions differ significantly in their true {what}."]
    count = f"Of {len(findings)} pairs of versions {len(told)} differ significantly, all pairs counted together."
    known = f"It is based on {done.n_labelled:,} labels of people."
    return Verdict(sentences=(*lead, count, known), findings=tuple(findings))


@dataclass(frozen=True, kw_only=True)
class _Said:
    """How amounts are written: as percentages, or as the scores that people gave."""

    of_scores: bool

    def __call__(self, value: float) -> str:
        return f"{value:.2f}" if self.of_scores else f"{100 * value:.0f} %"

    def apart(self, value: float) -> str:
        """Write a distance."""
        return f"{value:.2f}" if self.of_scores else f"{100 * value:.0f} points"

    def reading(self, reading: Estimate, *, signed: bool = False) -> str:
        """Write an estimate with its ends."""
        if not self.of_scores:
            return per_cent(reading, signed=signed)
        sign, (low, high) = "+" if signed else "", source_ends(reading)
        ends = "" if low is None or high is None else f" (between {low:{sign}.2f} and {high:{sign}.2f})"
        return f"{reading.value:{sign}.2f}{ends}"


def _rate(estimate: Estimate, naive: Reading, what: str, say: _Said) -> Finding:
    text = f"The true {what} is {say.reading(estimate)}"
    low, high = source_ends(estimate)
    if not isinstance(naive, Estimate):
        return Finding(axis="corrected", state="cannot tell", reading=estimate, text=f"{text}.")
    alone, off = f"the judge alone says {say(naive.value)}", naive.value - estimate.value
    if low is not None and high is not None and not low <= naive.value <= high:
        side = "high" if off > 0 else "low"
        said = f"{text}; {alone}, which is {say.apart(abs(off))} too {side}."
        return Finding(axis="corrected", state="problem", reading=estimate, text=said)
    said = f"{text}; {alone}, which may well be right."
    return Finding(axis="corrected", state="cannot tell", reading=estimate, text=said)


def _difference(estimate: Estimate, what: str, versions: Sequence[str], say: _Said) -> Finding:
    first, second = map(plain_name, versions)
    low, high = source_ends(estimate)
    number = say.reading(estimate, signed=True)
    if low is not None and high is not None and (low > 0 or high < 0):
        better, worse = (second, first) if low > 0 else (first, second)
        said = f"{better} has the higher true {what}: {second} minus {first} is {number}; {worse} is behind."
        return Finding(axis="corrected", state="ok", reading=estimate, text=said)
    said = f"Whether {first} or {second} has the higher true {what} is not decided: the difference is {number}."
    return Finding(axis="corrected", state="cannot tell", reading=estimate, text=said)


def _narrower(estimate: Estimate, n_labelled: int, *, decides: bool) -> str:
    if decides:
        items = more_units(n_labelled, abs(estimate.value), half_width(estimate))
        if items is None:
            return "The two are too near for any number of labels that is known to show a difference."
        return f"Labels on some {items:,} further items would decide it."
    return f"Labels on some {3 * n_labelled:,} further items would halve that range."


def main_reading(done: Corrected) -> dict[str, Reading]:
    """Return what a result is about, by its name among the metrics."""
    return {"corrected_difference" if done.versions else "corrected": done.estimate}


def run_points(done: Corrected) -> list[keys.Point]:
    """Every number of a result, for a run of its own."""
    more = {name: reading for name, reading in done.readings.items() if name != "corrected"}
    if done.versions:
        more = {f"{name}_difference": reading for name, reading in more.items()}
        names = keys.category_names(done.versions)
        more |= {f"corrected/{names[name]}": rate.estimate for name, rate in done.versions.items()}
    return corrected_points(done.scorer, {**main_reading(done), **more})


def corrected_content(done: Corrected) -> RunContent:
    """Return what a run of kind `correct` holds."""
    drawings = draw(done._figures())
    names = ("scorer", "level", "method", "n_labelled", "n_unlabelled", "pool")
    return shown_content(
        done,
        keys.CORRECTED_JSON,
        points=run_points(done),
        params={
            "correct": {"sampling": done.sampling or "not known", **{name: getattr(done, name) for name in names}},
            "judge": dict(done.judge),
        },
        drawings=drawings,
    )
