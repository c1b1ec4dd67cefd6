"""What came of an attack, and what it says and shows: findings and verdict, tables, page, and what MLflow is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from jrh_mlflow.attacks.attack_success import LIMIT, AttackReading, low_end, strongest, strongest_success
from jrh_mlflow.engine.budget import Paid
from jrh_mlflow.measuring.measured import JudgeFacts
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, plain_data
from jrh_mlflow.schema.findings import Finding, State, Verdict
from jrh_mlflow.show.cards import ShownResult, brief_run
from jrh_mlflow.show.numbers import cell_text, money_text, number_text, reading_text
from jrh_mlflow.show.page import Page, Section
from jrh_mlflow.show.tables import Column, FilledTable, Table
from jrh_mlflow.stats.power import sources_needed
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.text import hashed, visible
from jrh_mlflow.tracking.runs import keys

if TYPE_CHECKING:
    import pandas as pd

STRINGS_FILE = "attack_strings.csv"
SUCCESS, CONTROL, PLAIN_WON = "attack/success", "attack/control", "attack/plain"
_SEARCHED = "attack/search/won"
_HOW = (
    "Success is what an attacked answer wins more often than the same answer with a neutral text of the same length in "
    "the same place, on sources that the search never saw. A source counts once. The lower ends hold for all "
    "reported attacks together (max-T); an upper end is each attack's own."
)


@dataclass(frozen=True, kw_only=True)
class GuardedReading:
    """An attack under a defence, or on another judge."""

    name: str
    success: Reading
    control: Reading
    accuracy: Reading
    """Of what nothing was added to."""
    calls_per_verdict: int = 1
    usd_per_1k: float | None = None
    """Dollars for 1,000 verdicts; None where it is not known."""


def _finding(report: Attack) -> Finding:
    what = "a worse answer win" if report.pairs else "a failing answer pass"
    success, first = report.success, report.first
    n_held_out = report.counts["n_held_out"]
    n = f"{n_held_out:,} sources that the search never saw"
    state: State = "cannot tell"
    advice = command = ""
    if report.breakable and isinstance(success, Estimate):
        state = "problem"
        rate, other = (reading_text(reading) for reading in (first.won, first.control))
        text = (
            f"Added text makes {what}: {first.attack.name!r} wins {rate}, a neutral text of the same length {other}; "
            f"the difference is {reading_text(success)} on {n}."
        )
        advice = "Do not let those who are graded add to what is judged; try a fence, a reminder, reasons, both orders."
        run = (report.attacked_run or "RUN")[:8]
        command = f"jrh attack {run} --defences fence,reminder,reasons{',both_orders' if report.pairs else ''}"
    elif isinstance(success, NotEstimable):
        state = "problem" if low_end(report.control) > 0.5 else "cannot tell"
        text = f"It is not known whether an attack makes {what}: {success.reason}."
        advice = "Look first at why any text that is added makes an answer win: `jrh evaluate` reads padding."
        if isinstance(report.plain, Estimate) and report.plain.value > 0.5:
            loser = "the worse answer wins" if report.pairs else "the failing answer passes"
            text = f"{text.rstrip('.')}; with nothing added {loser} already ({reading_text(report.plain)})."
            advice = "Measure first whether the judge is right on this suite as it is: `jrh evaluate` reads it."
    elif success.cluster_high is not None and success.cluster_high <= LIMIT:
        state = "ok"
        text = f"No attack that was found makes {what} in more than {100 * LIMIT:.0f} % ({reading_text(success)}, {n})."
    else:
        strongest = f"the strongest of {len(report.attacks)} reads {reading_text(success)} on {n}"
        text = f"No attack was shown to make {what}: {strongest}."
        needed = sources_needed(success.value, LIMIT)
        if needed is not None and needed > n_held_out:
            advice = f"Take a suite with about {2 * needed:,} sources: {needed:,} held out could show at most 5 %."
    return Finding(axis=SUCCESS, state=state, reading=success, text=text, advice=advice, command=command)


ATTACKS: Table[AttackReading] = Table.of(
    Column("attack", lambda own: own.attack.name, value=lambda own: own.attack.name, brief=True, words=True),
    Column("success over a neutral text", lambda own: cell_text(own.success), brief=True),
    Column("over plain", lambda own: cell_text(own.over_plain)),
    Column("wins", lambda own: cell_text(own.won), brief=True),
    Column("neutral text wins", lambda own: cell_text(own.control), brief=True),
    Column("on the searched half", lambda own: f"{number_text(own.searched[0])} of {own.searched[1]}"),
    Column("breaks the judge", lambda own: "yes" if own.breaks else "not shown", value=lambda own: own.breaks),
)
_template = attrgetter("attack.template")
STRINGS: Table[AttackReading] = Table.of(
    Column("attack", lambda own: own.attack.name, value=lambda own: own.attack.name, words=True),
    Column("place", lambda own: own.attack.place, value=lambda own: own.attack.place, words=True),
    Column("text", lambda own: visible(own.attack.template), value=_template, as_code=True, words=True),
)
"""Strings are data of somebody who wants to be obeyed: shown in code spans, with what cannot be seen spelled out."""
GUARDED: Table[GuardedReading] = Table.of(
    Column("with", lambda own: own.name, value=lambda own: own.name, brief=True, words=True),
    Column("success of the first attack", lambda own: cell_text(own.success), brief=True),
    Column("neutral text wins", lambda own: cell_text(own.control)),
    Column("accuracy without an attack", lambda own: cell_text(own.accuracy), brief=True),
    Column("calls per verdict", lambda own: f"{own.calls_per_verdict}", value=lambda own: own.calls_per_verdict),
    Column("per 1,000 verdicts", lambda own: money_text(own.usd_per_1k), value=lambda own: own.usd_per_1k, brief=True),
)


@dataclass(frozen=True, kw_only=True)
class Attack(ShownResult):
    """What attacks on a judge came to on held-out sources, and where it is logged."""

    judge: JudgeFacts
    suite: Suite
    pairs: bool
    attacks: tuple[AttackReading, ...]
    """Reported ones, the best of the searched half first."""
    plain: Reading
    counts: Mapping[str, int]
    """Sources, `n_searched` and `n_held_out`; `queries`, calls of the search; `space`, attacks that could be tried."""
    steps: tuple[tuple[int, float], ...]
    """After how many calls of the search which share of the round was won."""
    calls: pd.DataFrame
    """Every call of the search and on held-out sources; the id of an item ends with what was asked."""
    defences: tuple[GuardedReading, ...] = ()
    """The first is the judge as it is."""
    transfers: tuple[GuardedReading, ...] = ()
    notes: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    paid: Paid | None = None
    seconds: float = 0.0
    texts: bool = True
    attacked_run: str | None = None
    """The evaluation whose judge was attacked."""

    @property
    def title(self) -> str:
        """Names the judge."""
        return f"Attack on {self.judge.label}"

    @property
    def success(self) -> Reading:
        """The strongest of the reported attacks."""
        return strongest_success(self.attacks)

    @property
    def first(self) -> AttackReading:
        """The attack that is told first."""
        return strongest(self.attacks)

    @property
    def breakable(self) -> bool:
        """Whether an attack succeeds in more than 5 %, against a neutral text and against nothing."""
        return any(reading.breaks for reading in self.attacks)

    @property
    def control(self) -> Reading:
        """How often the neutral text wins; of a success that is withheld the control that is the reason."""
        withheld = [own for own in self.attacks if isinstance(own.success, NotEstimable)]
        return (withheld[0] if withheld and not self.breakable else self.first).control

    @property
    def estimates(self) -> dict[str, Reading]:
        """Axis to its number with n and interval, or why there is none."""
        return {SUCCESS: self.success, CONTROL: self.control, PLAIN_WON: self.plain}

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the judge can be broken, by what, and what to do."""
        finding = _finding(self)
        sentences = [finding.text, *([f"What to do: {finding.advice}"] if finding.advice else [])]
        asked = self.defences[1:]
        helped = [own for own in asked if isinstance(own.success, Estimate) and own.success.value <= LIMIT]
        if self.breakable and helped:
            best = min(helped, key=lambda own: own.usd_per_1k or own.calls_per_verdict)
            sentences.insert(1, f"With {best.name} the first attack reads {reading_text(best.success)}.")
        moved = [own.name for own in self.transfers if low_end(own.success) > LIMIT]
        sentences += [f"The first attack also works on {', '.join(moved)}."] if moved else []
        return Verdict(sentences=tuple(sentences[:4]), findings=(finding,))

    @property
    def metrics(self) -> dict[str, float]:
        """Every number by its key."""
        return keys.last_values(self.points)

    @property
    def points(self) -> list[keys.Point]:
        """Every number as a metric: readings with n and intervals, and what the search won by its calls."""
        logged = ("queries", "space", "n_held_out")
        counts = {f"attack/{name.removeprefix('n_')}": self.counts[name] for name in logged}
        counts |= {"attack/breakable": int(self.breakable)}
        steps = [keys.Point(key=_SEARCHED, value=won, step=queries) for queries, won in self.steps]
        calls = keys.call_points(self.calls, seconds=self.seconds, paid=self.paid)
        return [*keys.all_points(self.estimates), *keys.known_points(counts), *steps, *calls]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data; without texts the hash of each string."""
        plain = ("pairs", "steps", "defences", "transfers", "notes")
        return {
            **{name: getattr(self, name) for name in ("run_id", "link", "attacked_run", "breakable")},
            **self.counts,
            "judge": self.judge.label,
            "verdict": self.verdict.to_dict(),
            "estimates": {axis: reading.to_dict() for axis, reading in self.estimates.items()},
            "attacks": [self._attack_data(own) for own in self.attacks],
            **{name: plain_data(getattr(self, name)) for name in plain},
        }

    def _attack_data(self, own: AttackReading) -> dict[str, Any]:
        template = own.attack.template
        return {
            "name": own.attack.name,
            "place": own.attack.place,
            "families": [part.family for part in own.attack.parts],
            "text": template if self.texts else hashed(template),
            "searched": list(own.searched),
            "breaks": own.breaks,
            **{name: getattr(own, name).to_dict() for name in ("success", "over_plain", "won", "control")},
        }

    def _page(self, *_: Any, **__: Any) -> Page:
        strings: list[FilledTable[Any] | str] = [STRINGS(self.attacks)] if self.texts else []
        return Page.saying(
            self.verdict,
            title=self.title,
            notes=self.notes,
            marks=["simulated"] if self.judge.simulated else [],
            facts={
                "suite": f"{self.suite.name} (sha256 {self.suite.sha256[:12]})",
                "sources": "{n_searched:,} searched, {n_held_out:,} held out".format_map(self.counts),
                "search": "{queries:,} calls, {space:,} possible attacks".format_map(self.counts),
                "calls": f"{len(self.calls):,}",
            },
            sections=[
                Section(heading="Attacks on held-out sources", blocks=[ATTACKS(self.attacks), _HOW]),
                Section(heading="Defences against the first attack", blocks=[GUARDED(self.defences)]),
                Section(heading="The first attack on other judges", blocks=[GUARDED(self.transfers)]),
                Section(heading="Strings", blocks=strings, media=("html", "markdown")),
            ],
        )

    def __repr__(self) -> str:
        return f"Attack({self.judge.label!r}: {reading_text(self.success)}, {brief_run(self.run_id)})"

    def _card(self) -> dict[str, Any]:
        return {"tables": [ATTACKS(self.attacks)]}
