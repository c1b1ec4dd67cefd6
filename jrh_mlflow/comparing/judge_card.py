"""Judge cards: what a team publishes of an evaluation, as Markdown, HTML and JSON, and cards side by side.

A card holds readings, verdict, limits and how to measure again; it holds no text of an item, no answer, no rubric and
no address. Its JSON has a version of its own, so that cards of different teams can be compared without their stores.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.axes import headline_axes
from jrh_mlflow.measuring.evaluation import judged_by
from jrh_mlflow.measuring.run_page import ShownRun, shown_run
from jrh_mlflow.schema.estimates import Estimate, Reading, plain_data, read_reading
from jrh_mlflow.scoring.ledger import deciding_interval
from jrh_mlflow.show.cards import ShownResult
from jrh_mlflow.show.glossary import WORDS
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import bounds_note, interval_text, number_text, reading_text
from jrh_mlflow.show.page import Facts, Page, Section
from jrh_mlflow.show.readings import FINDINGS, MISSING, missing_rows
from jrh_mlflow.show.results import Datasheet
from jrh_mlflow.show.sheets import sheet_sections, summary_table
from jrh_mlflow.show.tables import Column, Table
from jrh_mlflow.stats.proportions import newcombe
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import logged_evaluation
from jrh_mlflow.tracking.runs.store import active_uri

SCHEMA, VERSION = "jrh-judge-card", 1
_TOLD = ("model", "kind", "prompt", "prompt_sha256", "tie_criterion", "temperature", "reasoning_effort", "answer_style")
"""Settings of a judge that a card has: names, numbers and hashes, never texts and addresses."""
_SAYS: Mapping[str, str] = WORDS["card"]
_NEEDED = ("judge", "suite", "run", "verdict", "headline", "readings", "limits", "reproduce")
LARGEST = 8 * 2**20
"""Bytes of a card that is read: ours have a few hundred thousand at most."""


@dataclass(frozen=True, kw_only=True, repr=False)
class PublishedCard(ShownResult):
    """A card in hand: its JSON, and what its page shows."""

    data: Mapping[str, Any]
    shown: ShownRun

    def _page(self) -> Page:
        """Return what was measured, when, on what, the verdict, the readings, limits and how to measure again."""
        data, sheet = self.data, self.shown.sheet
        judge, suite, run = data["judge"], data["suite"], data["run"]
        facts = {
            "measured": run["started"],
            "suite": f"{suite['name']} ({suite['items']:,} items, {suite['tasks']:,} tasks)",
            "sha256 of the suite": suite["sha256"],
            "calls": f"{run['calls']:,} ({sheet.ended})",
            "run": run["run_id"],
            "jrh-mlflow": data["jrh_version"],
            **{name: judge[name] for name in _TOLD if name in judge},
        }
        leading, _ = sheet_sections(sheet)
        return Page(
            title=f"Judge card: {judge['name']}",
            lead=sheet.verdict.sentences[0],
            sentences=sheet.verdict.sentences[1:],
            marks=self.shown.marks,
            sections=[
                Section(heading="What was measured", blocks=[Facts(facts)]),
                Section(heading="Findings", blocks=[FINDINGS(sheet.verdict.findings)]),
                Section(heading="Readings", blocks=[summary_table(sheet)]),
                *leading,
                Section(heading="Figures", blocks=[self.shown.drawings], media=("html",)),
                Section(heading="Without a number", blocks=[MISSING(missing_rows(sheet.estimates))]),
                Section(heading="Limits", blocks=data["limits"], always=True),
                Section(heading="How to measure it again", blocks=data["reproduce"], always=True),
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the card as data."""
        return dict(self.data)


def judge_card(run: str, *, tracking_uri: str | None = None) -> PublishedCard:
    """Make the card of a logged evaluation.

    Raises:
        RecipeError: when there is no such run, it is no evaluation, or did not finish.
        TrackingError: when MLflow cannot be reached.
    """
    logged = logged_evaluation(tracking_uri or active_uri(), run)
    shown, suite, version = shown_run(logged), logged.manifest, logged.tags.get(keys.TAG_VERSION, "")
    sheet, judge = shown.sheet, shown.judge
    # Ability is no headline metric, but what a judge is there for.
    headline = [axis for axis in (*headline_axes(), "ability") if axis in sheet.estimates]
    data = {
        "schema": SCHEMA,
        "schema_version": VERSION,
        "jrh_version": version,
        "judge": {"name": judge.label, "simulated": judge.simulated, "recorded": bool(judge.recorded)}
        | {name: judge.settings[name] for name in _TOLD if judge.settings.get(name) is not None},
        "suite": {"items": suite["n_items"], "tasks": suite["n_tasks"]}
        | {name: suite[name] for name in ("name", "sha256", "conditions")},
        "run": {"run_id": logged.run_id, "started": logged.started, "calls": len(shown.calls)}
        | {"outcomes": sheet.outcomes, "truncated": shown.truncated},
        "verdict": sheet.verdict,
        "profile": sheet.profile,
        "headline": headline if isinstance(sheet, Datasheet) else list(sheet.headline),
        "readings": sheet.estimates,
        "limits": _limits(shown),
        "reproduce": _again(shown, logged.run_id, version),
    }
    return PublishedCard(data=plain_data(data), shown=shown)


def _limits(shown: ShownRun) -> list[str]:
    sheet = shown.sheet
    open_ = [axis_name(finding.axis) for finding in sheet.verdict.findings if finding.state == "cannot tell"]
    return [
        *shown.notes,
        *sheet.few_notes,
        *([f"Not decided by these calls: {', '.join(open_)}."] if open_ else []),
        *(f"Withheld: {axis_name(axis)}: {reason}." for axis, reason in sheet.withheld.items()),
        _SAYS["holds"],
        _SAYS["intervals"].format(clusters=f"{sheet.cluster}s"),
    ]


def _again(shown: ShownRun, run_id: str, version: str) -> list[str]:
    """Say how the numbers are read again from the run's calls, and how the judge is asked again."""
    context = judged_by(shown.judge, shown.suite["name"], run_id)
    rubric = " with the rubric that the run keeps in `judge/prompt.txt`" if "--rubric" in context.options else ""
    command = context.whole(but=("--rubric", "--api-base"))
    code = f", measure the same code or prompt with `--suite runs:/{run_id}/suite`"
    again = f"To ask the judge again{f'{rubric}: `{command}`' if command else code}."
    return [_SAYS["replay"].format(version=version, run=run_id), again]


def read_card(path: str | Path) -> dict[str, Any]:
    """Read the JSON of a card.

    Raises:
        RecipeError: for what is no card, or one of a version that this one does not know.
    """
    place = Path(path)
    try:
        if place.stat().st_size > LARGEST:
            raise ValueError(f"it has more than {LARGEST:,} bytes")
        data = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RecipeError(f"{place} cannot be read as a judge card: {error}.") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise RecipeError(f"{place} is no judge card: `jrh card RUN` writes one.")
    if data.get("schema_version") != VERSION:
        told = f"{place} is a judge card of version {data.get('schema_version')!r}, and this jrh-mlflow knows {VERSION}"
        raise RecipeError(f"{told}. Make it again, or upgrade.")
    if missing := [name for name in _NEEDED if name not in data]:
        raise RecipeError(f"{place} is a judge card without {', '.join(missing)}: it was cut or edited.")
    return data


@dataclass(frozen=True, kw_only=True, slots=True)
class CardDifference:
    """An axis of two cards."""

    judges: tuple[str, str]
    axis: str
    a: Reading
    b: Reading
    low: float | None
    """95 % interval of b − a, None where one has no number, or a threshold."""
    high: float | None
    differs: bool
    """Whether 0 lies outside it at a level that all axes share."""

    @property
    def value(self) -> float | None:
        """Of b − a; None where one has no number, and of thresholds."""
        known = _numbers(self.a, self.b)
        return known[1].value - known[0].value if len(known) == 2 else None


def _numbers(*readings: Reading) -> list[Estimate]:
    """Return what can be subtracted: thresholds may be bounds."""
    return [reading for reading in readings if isinstance(reading, Estimate) and reading.unit != "curve"]


@dataclass(frozen=True, kw_only=True, repr=False)
class CardComparison(ShownResult):
    """Cards side by side, each beside the one before it."""

    cards: Sequence[Mapping[str, Any]]
    names: Sequence[str]
    differences: Mapping[tuple[str, str], Sequence[CardDifference]]

    def _page(self) -> Page:
        suite, rows = self.cards[0]["suite"], [row for own in self.differences.values() for row in own]
        runs, shown = " ".join(card["run"]["run_id"] for card in self.cards), self.differences.items()
        return Page(
            title=f"Judge cards: {' and '.join(self.names)}",
            lead=f"The judges differ on {sum(row.differs for row in rows)} of {len(rows)} readings.",
            notes=[
                _SAYS["no calls"].format(runs=runs),
                *bounds_note(own for row in rows for own in (row.a, row.b))[:1],
            ],
            facts={"suite": f"{suite['name']} ({suite['items']:,} items)", "sha256": suite["sha256"]},
            sections=[
                Section(heading="Verdicts", blocks=[_VERDICTS(zip(self.names, self.cards, strict=True))]),
                *(Section(heading=" and ".join(two), blocks=[_differences(*two)(own)]) for two, own in shown),
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        rows = [{"difference": row.value, **plain_data(row)} for own in self.differences.values() for row in own]
        about = {"judges": list(self.names), "suite": self.cards[0]["suite"]}
        return {**about, "differences": rows, "notes": self.page.notes}


_VERDICTS: Table[tuple[str, Mapping[str, Any]]] = Table.of(
    Column("judge", lambda row: row[0], as_code=True),
    Column("measured", lambda row: str(row[1]["run"]["started"])),
    Column("verdict", lambda row: str(row[1]["verdict"]["sentences"][0]), words=True),
)


def _differences(a: str, b: str) -> Table[CardDifference]:
    return Table.of(
        Column("axis", lambda row: axis_name(row.axis), brief=True),
        Column(a, lambda row: reading_text(row.a), brief=True),
        Column(b, lambda row: reading_text(row.b), brief=True),
        Column("difference", lambda row: number_text(row.value, signed=True), brief=True),
        Column("95 %", lambda row: interval_text(row.low, row.high), brief=True),
        Column("differs", lambda row: "yes" if row.differs else "not shown", brief=True),
    )


def compare_cards(paths: Sequence[str | Path]) -> CardComparison:
    """Put cards of one suite side by side, each beside the one before it.

    Raises:
        RecipeError: for fewer than two, what is no card, and cards of different suites.
    """
    if len(paths) < 2:
        raise RecipeError("Give two cards or more.")
    cards = [read_card(path) for path in paths]
    suites = {card["suite"]["sha256"]: (path, card["suite"]["name"]) for path, card in zip(paths, cards, strict=True)}
    if len(suites) > 1:
        told = ", ".join(f"{path} of {name} (sha256 {sha256[:12]})" for sha256, (path, name) in suites.items())
        raise RecipeError(_SAYS["other suites"].format(suites=told))
    labels = [(str(card["judge"]["name"]), card["run"]["run_id"][:8]) for card in cards]
    counts = Counter(name for name, _ in labels)
    names = [f"{name} ({run})" if counts[name] > 1 else name for name, run in labels]
    pairs = list(pairwise(map(_headline, cards)))
    # All differences share the error: at 95 % one of twenty equal readings would be called different.
    level = 1 - 0.05 / max(1, sum(len(a.keys() & b.keys()) for a, b in pairs))
    differences = {
        pair: [_difference(pair, axis, a[axis], b[axis], level) for axis in a if axis in b]
        for pair, (a, b) in zip(pairwise(names), pairs, strict=True)
    }
    return CardComparison(cards=cards, names=names, differences=differences)


def _headline(card: Mapping[str, Any]) -> dict[str, Reading]:
    try:
        return {axis: read_reading(card["readings"][axis]) for axis in card["headline"] if axis in card["readings"]}
    except (KeyError, TypeError) as error:
        raise RecipeError(f"A reading of a card is none: {error!r}. Make the card again.") from error


def _difference(pair: tuple[str, str], axis: str, a: Reading, b: Reading, level: float) -> CardDifference:
    (low, high), strict = _ends(a, b, 0.95) or (None, None), _ends(a, b, level)
    differs = strict is not None and not strict[0] <= 0 <= strict[1]
    return CardDifference(judges=pair, axis=axis, a=a, b=b, low=low, high=high, differs=differs)


def _ends(a: Reading, b: Reading, level: float) -> tuple[float, float] | None:
    """Return the interval of b − a at a level, from what decides of each at that level."""
    sides = [(known.value, ends) for known in _numbers(a, b) if (ends := deciding_interval(known, level))]
    return newcombe(*sides[0], *sides[1]) if len(sides) == 2 else None
