"""Judge cards: what a team publishes of an evaluation, as Markdown, HTML and JSON, and cards side by side.

A card holds readings, verdict, limits and how to measure again; it holds no text of an item, no answer, no rubric and
no address. Its JSON has a version of its own, so that cards of different teams can be compared without their stores.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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
from jrh_mlflow.stats import Interval
from jrh_mlflow.stats.proportions import newcombe
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import logged_evaluation
from jrh_mlflow.tracking.runs.store import active_uri

SCHEMA, VERSION = "jrh-judge-card", 1
_TOLD = ("model", "kind", "prompt", "prompt_sha256", "tie_criterion", "temperature", "reasoning_effort", "answer_style")
"""Settings of a judge that a card has: names, numbers and hashes, never texts and addresses."""
_SAYS: Mapping[str, str] = WORDS["card"]
_NEEDED = ("judge", "suite", "run", "verdict", "headline", "readings", "limits", "reproduce")


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


class CardDifference(NamedTuple):
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
        runs = " ".join(card["run"]["run_id"] for card in self.cards)
        verdicts = [card["verdict"]["sentences"][0] for card in self.cards]
        return Page(
            title=f"Judge cards: {a} and {b}",
            lead=f"The judges differ on {sum(row.differs for row in rows)} of {len(rows)} readings.",
            notes=[
                _SAYS["no calls"].format(runs=runs),
                *bounds_note(own for row in rows for own in (row.a, row.b))[:1],
            ],
            facts={"suite": f"{suite['name']} ({suite['items']:,} items)", "sha256": suite["sha256"]},
            sections=[
                Section(heading="Verdicts", blocks=[Facts(dict(zip(self.names, verdicts, strict=True)))]),
                Section(heading="Readings", blocks=[_differences(a, b)(rows)]),
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        rows = [plain_data(row._asdict()) for row in self.differences]
        return {"judges": self.names, "suite": self.cards[0]["suite"], "differences": rows, "notes": self.page.notes}


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
    a, b = map(_headline, cards)
    shared = [axis for axis in a if axis in b]
    # All differences share the error: at 95 % one of twenty equal readings would be called different.
    level = 1 - 0.05 / max(1, len(shared))
    return CardComparison(cards=cards, differences=[_difference(axis, a[axis], b[axis], level) for axis in shared])


def _headline(card: Mapping[str, Any]) -> dict[str, Reading]:
    try:
        return {axis: read_reading(card["readings"][axis]) for axis in card["headline"] if axis in card["readings"]}
    except (KeyError, TypeError) as error:
        raise RecipeError(f"A reading of a card is none: {error!r}. Make the card again.") from error


def _difference(axis: str, a: Reading, b: Reading, level: float) -> CardDifference:
    if not isinstance(a, Estimate) or not isinstance(b, Estimate) or "curve" in (a.unit, b.unit):
        return CardDifference(axis, a, b)
    usual, strict = _ends(a, b, 0.95), _ends(a, b, level)
    differs = strict is not None and not strict[0] <= 0 <= strict[1]
    return CardDifference(axis, a, b, b.value - a.value, *(usual or (None, None)), differs)


def _ends(a: Estimate, b: Estimate, level: float) -> Interval | None:
    """Return the interval of b − a at a level, from what decides of each at that level."""
    of_a, of_b = deciding_interval(a, level), deciding_interval(b, level)
    return newcombe(a.value, of_a, b.value, of_b) if of_a and of_b else None
