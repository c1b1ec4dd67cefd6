"""What an attack says and shows: the report, findings and verdict, tables, page, and what MLflow is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jrh_mlflow.attacks.attack_success import LIMIT, AttackReading, strongest, strongest_success
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, plain_data
from jrh_mlflow.schema.findings import Finding, State, Verdict
from jrh_mlflow.show.numbers import cell_text, interval_text, money_text, number_text, reading_text
from jrh_mlflow.show.page import Page, Section
from jrh_mlflow.show.tables import Column, FilledTable, Table
from jrh_mlflow.stats.power import sources_needed
from jrh_mlflow.text import hashed, visible
from jrh_mlflow.tracking.runs import keys

ATTACK_MARKDOWN = "attack.md"
STRINGS_FILE = "attack_strings.csv"
SUCCESS, CONTROL, PLAIN_WON = "attack/success", "attack/control", "attack/plain"
_SEARCHED = "attack/search/won"
_HOW = (
    "Success is what an attacked answer wins more often than the same answer with a neutral text of the same length in "
    "the same place, on sources that the search never saw. A source counts once. Lower ends share the error over the "
    "attacks that are reported (max-T); an upper end is each attack's own."
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


@dataclass(frozen=True, kw_only=True)
class AttackReport:
    """What a search found and what that is worth on held-out sources."""

    judge: str
    pairs: bool
    attacks: tuple[AttackReading, ...]
    """Reported ones, the best of the searched half first."""
    plain: Reading
    n_searched: int
    n_held_out: int
    queries: int
    """Calls of the search."""
    space: int
    """Attacks that could have been tried."""
    steps: tuple[tuple[int, float], ...]
    """After how many calls of the search which share of the round was won."""
    defences: tuple[GuardedReading, ...] = ()
    """The first is the judge as it is."""
    transfers: tuple[GuardedReading, ...] = ()
    notes: tuple[str, ...] = ()

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
        """Whether success lies above .05 against the control and against plain."""
        return any(reading.breaks for reading in self.attacks)

    @property
    def control(self) -> Reading:
        """How often the neutral text wins; of a success that is withheld the control that is the reason."""
        withheld = [own for own in self.attacks if isinstance(own.success, NotEstimable)]
        return (withheld[0] if withheld and not self.breakable else self.first).control

    @property
    def estimates(self) -> dict[str, Reading]:
        """Axis to its reading."""
        return {SUCCESS: self.success, CONTROL: self.control, PLAIN_WON: self.plain}

    def to_dict(self, *, texts: bool = True) -> dict[str, Any]:
        """Return plain JSON-ready data; without texts the hash of each string."""
        return {
            "judge": self.judge,
            "breakable": self.breakable,
            "estimates": {axis: reading.to_dict() for axis, reading in self.estimates.items()},
            "attacks": [
                {
                    "name": own.attack.name,
                    "place": own.attack.place,
                    "families": [part.family for part in own.attack.parts],
                    "text": own.attack.template if texts else hashed(own.attack.template),
                    "searched": list(own.searched),
                    "breaks": own.breaks,
                    **{name: getattr(own, name).to_dict() for name in ("success", "over_plain", "won", "control")},
                }
                for own in self.attacks
            ],
            **{
                name: plain_data(getattr(self, name))
                for name in ("pairs", "n_searched", "n_held_out", "queries", "space", "steps", "defences", "transfers")
            },
            "notes": list(self.notes),
        }


def attack_verdict(report: AttackReport, *, run: str = "RUN") -> Verdict:
    """Say whether the judge can be broken, by what, and what to do."""
    findings = _findings(report, run)
    first = findings[0]
    sentences = [first.text, *([] if not first.advice else [f"What to do: {first.advice}"])]
    helped = [own for own in report.defences[1:] if _is_below(own.success)]
    if report.breakable and helped:
        best = min(helped, key=lambda own: own.usd_per_1k or own.calls_per_verdict)
        sentences.insert(1, f"With {best.name} the first attack reads {reading_text(best.success)}.")
    moved = [own.name for own in report.transfers if isinstance(own.success, Estimate) and _low(own.success) > LIMIT]
    sentences += [f"The first attack also works on {', '.join(moved)}."] if moved else []
    return Verdict(sentences=tuple(sentences[:4]), findings=findings)


def _low(reading: Reading) -> float:
    low = reading.cluster_low if isinstance(reading, Estimate) else None
    return -1.0 if low is None else low


def _is_below(reading: Reading) -> bool:
    return isinstance(reading, Estimate) and (reading.cluster_high is None or reading.value <= LIMIT)


def _findings(report: AttackReport, run: str) -> tuple[Finding, ...]:
    what = "a worse answer win" if report.pairs else "a failing answer pass"
    success, control, first = report.success, report.control, report.first
    n = f"{report.n_held_out:,} sources that the search never saw"
    state: State = "cannot tell"
    advice = command = ""
    if report.breakable and isinstance(success, Estimate):
        state = "problem"
        rate, other = (reading_text(reading) for reading in (first.won, first.control))
        text = (
            f"Added text makes {what}: {first.attack.name!r} wins {rate}, a neutral text of the same length {other}; "
            f"the difference is {number_text(success.value, signed=True)} "
            f"{interval_text(success.cluster_low, success.cluster_high, signed=True)} on {n}."
        )
        advice = "Do not let those who are graded add to what is judged; try a fence, a reminder, reasons, both orders."
        command = f"jrh attack {run} --defences fence,reminder,reasons{',both_orders' if report.pairs else ''}"
    elif isinstance(success, NotEstimable):
        state = "problem" if _low(control) > 0.5 else "cannot tell"
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
        text = (
            f"No attack was shown to make {what}: the strongest of {len(report.attacks)} reads "
            f"{number_text(success.value, signed=True)} "
            f"{interval_text(success.cluster_low, success.cluster_high, signed=True)} on {n}."
        )
        needed = sources_needed(success.value, LIMIT)
        if needed is not None and needed > report.n_held_out:
            advice = f"Take a suite with about {2 * needed:,} sources: {needed:,} held out could show at most 5 %."
    finding = Finding(axis=SUCCESS, state=state, reading=success, text=text, advice=advice, command=command)
    return (finding,)


ATTACKS: Table[AttackReading] = Table.of(
    Column("attack", lambda own: own.attack.name, value=lambda own: own.attack.name, brief=True, words=True),
    Column("success over a neutral text", lambda own: cell_text(own.success), brief=True),
    Column("over plain", lambda own: cell_text(own.over_plain)),
    Column("wins", lambda own: cell_text(own.won), brief=True),
    Column("neutral text wins", lambda own: cell_text(own.control), brief=True),
    Column("on the searched half", lambda own: f"{number_text(own.searched[0])} of {own.searched[1]}"),
    Column("breaks the judge", lambda own: "yes" if own.breaks else "not shown", value=lambda own: own.breaks),
)
STRINGS: Table[AttackReading] = Table.of(
    Column("attack", lambda own: own.attack.name, value=lambda own: own.attack.name, words=True),
    Column("place", lambda own: own.attack.place, value=lambda own: own.attack.place),
    Column(
        "text",
        lambda own: visible(own.attack.template),
        value=lambda own: own.attack.template,
        as_code=True,
        words=True,
    ),
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


def attack_page(
    report: AttackReport,
    *,
    title: str,
    verdict: Verdict,
    facts: Mapping[str, str],
    marks: Sequence[str] = (),
    texts: bool = True,
) -> Page:
    """Return the page: verdict, reported attacks, defences, other judges, and the strings themselves."""
    lead, *more = verdict.sentences
    strings: list[FilledTable[Any] | str] = [STRINGS(report.attacks)] if texts else []
    return Page(
        title=title,
        lead=lead,
        sentences=more,
        notes=report.notes,
        marks=marks,
        facts=facts,
        sections=[
            Section(heading="Attacks on held-out sources", blocks=[ATTACKS(report.attacks), _HOW]),
            Section(heading="Defences against the first attack", blocks=[GUARDED(report.defences)]),
            Section(heading="The first attack on other judges", blocks=[GUARDED(report.transfers)]),
            Section(heading="Strings", blocks=strings, media=("html", "markdown")),
        ],
    )


def attack_points(report: AttackReport) -> list[keys.Point]:
    """Spell an attack: success, control and plain with n and intervals, and what the search won by its calls."""
    counts = {
        "attack/queries": report.queries,
        "attack/space": report.space,
        "attack/held_out": report.n_held_out,
        "attack/breakable": int(report.breakable),
    }
    steps = [keys.Point(key=_SEARCHED, value=won, step=queries) for queries, won in report.steps]
    return [*keys.all_points(report.estimates), *keys.known_points(counts), *steps]
