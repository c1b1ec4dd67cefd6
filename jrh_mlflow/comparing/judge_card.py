"""Judge cards: what a team publishes of an evaluation, as Markdown, HTML and JSON, and cards side by side.

A card holds readings, verdict, limits and how to measure again; it holds no text of an item, no answer, no rubric and
no address. Its JSON has a version of its own, so that cards of different teams can be compared without their stores.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.axes import headline_axes
from jrh_mlflow.measuring.evaluation import judged_by
from jrh_mlflow.measuring.run_page import ShownRun, shown_run
from jrh_mlflow.schema.estimates import Estimate, Reading, plain_data, read_reading
from jrh_mlflow.scoring.ledger import deciding_interval
from jrh_mlflow.show import glossary, results
from jrh_mlflow.show.cards import ShownResult
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import bounds_note, interval_text, number_text, reading_text
from jrh_mlflow.show.page import Facts, Page, Section
from jrh_mlflow.show.readings import FINDINGS, MISSING, missing_rows
from jrh_mlflow.show.sheets import sheet_sections, summary_table
from jrh_mlflow.show.tables import Column, Table
from jrh_mlflow.stats.proportions import newcombe
from jrh_mlflow.tracking.runs import keys, read, store

SCHEMA, VERSION = "jrh-judge-card", 1
_TOLD = ("model", "kind", "prompt", "prompt_sha256", "tie_criterion", "temperature", "reasoning_effort", "answer_style")
"""Settings of a judge that a card has: names, numbers and hashes, never texts and addresses."""
_SAYS: Mapping[str, str] = glossary.WORDS["card"]


@dataclass(frozen=True, kw_only=True, repr=False)
class PublishedCard(ShownResult):
    """A card in hand: its JSON, and what its page shows."""

    data: Mapping[str, Any]
    shown: ShownRun

    def _page(self) -> Page:
        """Return what was measured, when, on what, the verdict, the readings, limits and how to measure again."""
        data, sheet = self.data, self.shown.sheet
        facts = {f"{part} {name}": fact for part in ("judge", "suite", "run") for name, fact in data[part].items()}
        known = {name: fact for name, fact in facts.items() if not isinstance(fact, dict)}
        return Page.saying(
            sheet.verdict,
            title=f"Judge card: {data['judge']['name']}",
            marks=self.shown.marks,
            sections=[
                Section(heading="What was measured", blocks=[Facts({**known, "jrh-mlflow": data["jrh_version"]})]),
                Section(heading="Findings", blocks=[FINDINGS(sheet.verdict.findings)]),
                Section(heading="Readings", blocks=[summary_table(sheet)]),
                *sheet_sections(sheet)[0],
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
    logged = read.logged_evaluation(tracking_uri or store.active_uri(), run)
    shown, suite, version = shown_run(logged), logged.manifest, logged.tags.get(keys.TAG_VERSION, "")
    sheet, judge, run_id = shown.sheet, shown.judge, logged.run_id
    command = judged_by(judge, suite["name"], run_id).whole(but=("--rubric", "--api-base"))
    again = _SAYS["again" if command else "code again"].format(command=command, run=run_id)
    # Ability is no headline metric, but what a judge is there for.
    headline = [axis for axis in (*headline_axes(), "ability") if axis in sheet.estimates]
    data = {
        "schema": SCHEMA,
        "schema_version": VERSION,
        "jrh_version": version,
        "judge": {"name": judge.label, "simulated": judge.simulated, "recorded": bool(judge.recorded)}
        | {name: judge.settings[name] for name in _TOLD if judge.settings.get(name) is not None},
        "suite": {name: suite[name] for name in ("name", "sha256", "n_items", "n_tasks", "conditions")},
        "run": {"run_id": run_id, "started": logged.started, "calls": len(shown.calls), "outcomes": sheet.outcomes},
        "truncated": shown.truncated,
        "verdict": sheet.verdict,
        "profile": sheet.profile,
        "headline": headline if isinstance(sheet, results.Datasheet) else list(sheet.headline),
        "readings": sheet.estimates,
        "limits": [*shown.notes, *sheet.few_notes, _SAYS["holds"], _SAYS["intervals"].format(cluster=sheet.cluster)],
        "reproduce": [_SAYS["replay"].format(version=version, run=run_id), again],
    }
    return PublishedCard(data=plain_data(data), shown=shown)


def read_card(path: str | Path) -> dict[str, Any]:
    """Read the JSON of a card.

    Raises:
        RecipeError: for what is no card, or one of a version that this one does not know.
    """
    try:
        data: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA or data["schema_version"] != VERSION:
            raise ValueError(f"it is {data['schema']} of version {data['schema_version']!r}, not {SCHEMA} of {VERSION}")
        card_readings(data)
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        told = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise RecipeError(f"{path} cannot be read as a judge card: {told}. `jrh card RUN` writes one.") from error
    return data


def card_readings(card: Mapping[str, Any]) -> dict[str, Reading]:
    """Return the readings by which cards are compared."""
    return {axis: read_reading(card["readings"][axis]) for axis in card["headline"]}


@dataclass(frozen=True)
class CardDifference:
    """An axis of two cards."""

    axis: str
    a: Reading
    b: Reading
    value: float | None = None
    """Of b − a; None where one has no number, and of thresholds, which may be bounds."""
    low: float | None = None
    """95 % interval of b − a, None where one has none."""
    high: float | None = None
    differs: bool = False
    """Whether 0 lies outside it at a level that all axes share."""


@dataclass(frozen=True, kw_only=True, repr=False)
class CardComparison(ShownResult):
    """Two cards side by side."""

    cards: Sequence[Mapping[str, Any]]
    differences: Sequence[CardDifference]

    @property
    def names(self) -> list[str]:
        """The judges; where they are called the same, with their runs."""
        cards = [(str(card["judge"]["name"]), card["run"]["run_id"][:8]) for card in self.cards]
        return [f"{name} ({run})" if cards[0][0] == cards[1][0] else name for name, run in cards]

    def _page(self) -> Page:
        suite, rows, (a, b) = self.cards[0]["suite"], self.differences, self.names
        bounds = bounds_note(own for row in rows for own in (row.a, row.b))[:1]
        runs = " ".join(card["run"]["run_id"] for card in self.cards)
        verdicts = [card["verdict"]["sentences"][0] for card in self.cards]
        table: Table[CardDifference] = Table.of(
            Column("axis", lambda row: axis_name(row.axis), brief=True),
            Column(a, lambda row: reading_text(row.a), brief=True),
            Column(b, lambda row: reading_text(row.b), brief=True),
            Column("difference", lambda row: number_text(row.value, signed=True), brief=True),
            Column("95 %", lambda row: interval_text(row.low, row.high), brief=True),
            Column("differs", lambda row: "yes" if row.differs else "not shown", brief=True),
        )
        return Page(
            title=f"Judge cards: {a} and {b}",
            lead=f"The judges differ on {sum(row.differs for row in rows)} of {len(rows)} readings.",
            notes=[_SAYS["no calls"].format(runs=runs), *bounds],
            facts={"suite": f"{suite['name']} ({suite['n_items']:,} items)", "sha256": suite["sha256"]},
            sections=[
                Section(heading="Verdicts", blocks=[Facts(dict(zip(self.names, verdicts, strict=True)))]),
                Section(heading="Readings", blocks=[table(rows)]),
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        data = {"judges": self.names, "suite": self.cards[0]["suite"], "differences": list(self.differences)}
        return {**plain_data(data), "notes": self.page.notes}


def compare_cards(paths: Sequence[str | Path]) -> CardComparison:
    """Put two cards of one suite side by side.

    Raises:
        RecipeError: for more or fewer than two, what is no card, and cards of different suites.
    """
    if len(paths) != 2:
        raise RecipeError(f"Two cards are compared, but got {len(paths)}.")
    cards = [read_card(path) for path in paths]
    suites = {card["suite"]["sha256"]: (path, card["suite"]["name"]) for path, card in zip(paths, cards, strict=True)}
    if len(suites) > 1:
        told = ", ".join(f"{path} of {name} (sha256 {sha256[:12]})" for sha256, (path, name) in suites.items())
        raise RecipeError(_SAYS["other suites"].format(suites=told))
    a, b = map(card_readings, cards)
    shared = [axis for axis in a if axis in b]
    # All differences share the error: at 95 % one of twenty equal readings would be called different.
    level = 1 - 0.05 / max(1, len(shared))
    return CardComparison(cards=cards, differences=[_difference(axis, a[axis], b[axis], level) for axis in shared])


def _difference(axis: str, a: Reading, b: Reading, level: float) -> CardDifference:
    """Read b − a from what decides of each, at 95 % and at the level that all axes share."""
    if not isinstance(a, Estimate) or not isinstance(b, Estimate) or "curve" in (a.unit, b.unit):
        return CardDifference(axis, a, b)
    both = [(deciding_interval(a, each), deciding_interval(b, each)) for each in (0.95, level)]
    usual, strict = (newcombe(a.value, of_a, b.value, of_b) if of_a and of_b else None for of_a, of_b in both)
    (low, high), differs = usual or (None, None), strict is not None and not strict[0] <= 0 <= strict[1]
    return CardDifference(axis, a, b, b.value - a.value, low, high, differs)
