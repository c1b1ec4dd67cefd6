"""Judge cards: what a team publishes of an evaluation, as Markdown, HTML and JSON, and cards side by side.

A card holds readings, verdict, limits and how to measure again; it holds no text of an item, no answer, no rubric and
no address. Its JSON has a version of its own, so that cards of different teams can be compared without their stores.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import rendering
from jrh_mlflow.judges.raw import PromptedJudge
from jrh_mlflow.measures.axes import headline_axes
from jrh_mlflow.measuring.evaluation import DEFAULT_SUITE
from jrh_mlflow.measuring.run_page import ShownRun, sheet_figures, shown_run
from jrh_mlflow.options import JudgeOptions
from jrh_mlflow.schema.estimates import Estimate, Reading, plain_data, read_reading
from jrh_mlflow.scoring.ledger import deciding_ends
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import cell_text, interval_text, number_text, threshold_text
from jrh_mlflow.show.page import Drawing, Facts, Page, Section
from jrh_mlflow.show.readings import FINDINGS, MISSING, few_clusters, missing_rows
from jrh_mlflow.show.results import Datasheet
from jrh_mlflow.show.sheets import sheet_sections, summary_table
from jrh_mlflow.show.tables import Column, Table
from jrh_mlflow.stats.proportions import newcombe
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import logged_evaluation, run_summary
from jrh_mlflow.tracking.runs.store import active_uri

SCHEMA, VERSION = "jrh-judge-card", 1
_SETTINGS = (
    "model",
    "kind",
    "prompt",
    "prompt_sha256",
    "tie_criterion",
    "temperature",
    "reasoning_effort",
    "answer_style",
)
"""What a card says of a judge: names, numbers and hashes, never texts and addresses."""
_TYPED = ("prompt", "tie_criterion", "temperature", "reasoning_effort", "seed", "answer_style")
_NEEDED = ("judge", "suite", "run", "verdict", "headline", "readings", "limits", "reproduce")
LARGEST = 8 * 2**20
"""Bytes of a card that is read: ours have a few hundred thousand at most."""


@dataclass(frozen=True, kw_only=True)
class PublishedCard:
    """A card in hand: its JSON, and what its page shows."""

    data: Mapping[str, Any]
    shown: ShownRun

    def page(self, drawings: Sequence[Drawing] = ()) -> Page:
        """Return what was measured, when, on what, the verdict, the readings, limits and how to measure again."""
        data, sheet = self.data, self.shown.sheet
        suite, run = data["suite"], data["run"]
        leading, _ = sheet_sections(sheet)
        ended = ", ".join(f"{count:,} {name}" for name, count in run["outcomes"].items() if count)
        facts = {
            "measured": run["started"],
            "suite": f"{suite['name']} ({suite['items']:,} items, {suite['tasks']:,} tasks)",
            "sha256 of the suite": suite["sha256"],
            "calls": f"{run['calls']:,} ({ended})",
            "run": run["run_id"],
            "jrh-mlflow": data["jrh_version"],
        }
        settings = {name: data["judge"][name] for name in _SETTINGS if name in data["judge"]}
        return Page(
            title=f"Judge card: {data['judge']['name']}",
            lead=sheet.verdict.sentences[0],
            sentences=sheet.verdict.sentences[1:],
            marks=[mark for mark in ("simulated", "recorded") if data["judge"][mark]],
            sections=[
                Section(heading="What was measured", blocks=[Facts({**facts, **settings})]),
                Section(heading="Findings", blocks=[FINDINGS(sheet.verdict.findings)]),
                Section(heading="Readings", blocks=[summary_table(sheet)]),
                *leading,
                Section(heading="Figures", blocks=[drawings], media=("html",)),
                Section(heading="Without a number", blocks=[MISSING(missing_rows(sheet.estimates))]),
                Section(heading="Limits", blocks=list(data["limits"]), always=True),
                Section(heading="How to measure it again", blocks=list(data["reproduce"]), always=True),
            ],
        )

    def to_markdown(self) -> str:
        """Return the card as Markdown."""
        return self.page().to_markdown()

    def to_html(self) -> str:
        """Return the card as one HTML file: no script, no request, every text escaped."""
        figures = sheet_figures(self.shown.sheet, self.shown.calls, self.shown.judge.label)
        return self.page(sorted(draw(figures), key=lambda drawing: drawing.name)).to_html()

    def to_json(self) -> str:
        """Return the card as data."""
        return json.dumps(self.data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def judge_card(run: str, *, tracking_uri: str | None = None) -> PublishedCard:
    """Make the card of a logged evaluation.

    Raises:
        RecipeError: when there is no such run, it is no evaluation, or did not finish.
        TrackingError: when MLflow cannot be reached.
    """
    uri = tracking_uri or active_uri()
    logged = logged_evaluation(uri, run.removeprefix("runs:/").strip("/"))
    shown, summary = shown_run(logged), run_summary(uri, logged.run_id)
    assert summary is not None
    sheet, judge, suite = shown.sheet, shown.judge, logged.manifest
    version = logged.tags.get(keys.TAG_VERSION, "")
    headline = [axis for axis in (*headline_axes(), "ability") if axis in sheet.estimates]
    data = {
        "schema": SCHEMA,
        "schema_version": VERSION,
        "jrh_version": version,
        "judge": {
            "name": judge.label,
            "simulated": judge.simulated,
            "recorded": bool(judge.recorded),
            **{name: judge.settings[name] for name in _SETTINGS if judge.settings.get(name) is not None},
        },
        "suite": {
            "name": suite["name"],
            "sha256": suite["sha256"],
            "items": suite["n_items"],
            "tasks": suite["n_tasks"],
            "conditions": suite["conditions"],
        },
        "run": {
            "run_id": logged.run_id,
            "started": summary.started,
            "calls": len(shown.calls),
            "outcomes": dict(sheet.outcomes),
            "truncated": shown.truncated,
        },
        "verdict": sheet.verdict.to_dict(),
        "profile": sheet.profile,
        "headline": headline if isinstance(sheet, Datasheet) else list(sheet.headline),
        "readings": plain_data(dict(sheet.estimates)),
        "limits": _limits(shown),
        "reproduce": _again(logged.run_id, logged.judge, suite["name"], version),
    }
    return PublishedCard(data=json.loads(json.dumps(data, default=str)), shown=shown)


def _limits(shown: ShownRun) -> list[str]:
    sheet = shown.sheet
    cluster = "task" if isinstance(sheet, Datasheet) else "source"
    few = few_clusters(sheet.estimates.values(), cluster=cluster)
    open_ = [axis_name(finding.axis) for finding in sheet.verdict.findings if finding.state == "cannot tell"]
    return [
        *shown.notes,
        *([few] if few else []),
        *([f"Not decided by these calls: {', '.join(open_)}."] if open_ else []),
        *(f"Withheld: {axis_name(axis)}: {reason}." for axis, reason in sheet.withheld.items()),
        "The numbers hold for this judge (model, prompt and settings as above), on this suite. Another prompt is "
        "another judge, other tasks may read otherwise, and a provider may change a model under the same name.",
        f"Intervals are 95 %, over {cluster}s. Calls without a usable answer are counted beside a number, never in it.",
    ]


def _again(run_id: str, judge: Mapping[str, Any], suite: str, version: str) -> list[str]:
    """Say how the numbers are read again from the run's calls, and how the judge is asked again."""
    defined = judge.get("definition") or {}
    install = f"`pip install jrh-mlflow=={version}`"
    lines = [
        f"With the run's store at hand: {install}, then `jrh replay runs:/{run_id}` reads the numbers again from the "
        "recorded calls, and asks nobody."
    ]
    is_typed = defined.get("kind") == PromptedJudge.kind and defined["prompt"]["name"] in rendering.BUILT_IN
    if not is_typed:
        return [*lines, f"To ask the judge again, measure the same code or prompt with `--suite runs:/{run_id}/suite`."]
    known = {**defined, "prompt": defined["prompt"]["name"], "tie_criterion": defined["tie_criterion"]["name"]}
    options = {"--model": str(judge["model"])} | {
        JudgeOptions.flag(name): str(known[name])
        for name in _TYPED
        if known.get(name) not in (None, "", JudgeOptions.model_fields[name].default)
    }
    options |= {} if suite == DEFAULT_SUITE else {"--suite": f"runs:/{run_id}/suite"}
    typed = " ".join(f"{name} {shlex.quote(value)}" for name, value in options.items())
    rubric = " with the rubric that the run keeps in `judge/prompt.txt`" if known.get("rubric") else ""
    return [*lines, f"To ask the judge again{rubric}: `jrh evaluate {typed}`."]


def read_card(path: str | Path) -> dict[str, Any]:
    """Read the JSON of a card.

    Raises:
        RecipeError: for what is no card, or one of a version that this one does not know.
    """
    place = Path(path)
    try:
        if place.stat().st_size > LARGEST:
            raise RecipeError(f"{place} has more than {LARGEST:,} bytes: it is no judge card.")
        data = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RecipeError(f"{place} cannot be read as a judge card: {error}.") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise RecipeError(f"{place} is no judge card: `jrh card RUN` writes one.")
    if data.get("schema_version") != VERSION:
        told = f"is a judge card of version {data.get('schema_version')!r}, and this jrh-mlflow knows {VERSION}"
        raise RecipeError(f"{place} {told}. Make it again, or upgrade.")
    if missing := [name for name in _NEEDED if name not in data]:
        raise RecipeError(f"{place} is a judge card without {', '.join(missing)}: it was cut or edited.")
    return data


@dataclass(frozen=True, kw_only=True, slots=True)
class CardDifference:
    """An axis of two cards."""

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
        """Of b − a; None where one has no number, and of thresholds, which may be bounds."""
        known = [each.value for each in (self.a, self.b) if isinstance(each, Estimate) and each.unit != "curve"]
        return known[1] - known[0] if len(known) == 2 else None


@dataclass(frozen=True, kw_only=True)
class CardComparison:
    """Cards side by side, each beside the one before it."""

    cards: Sequence[Mapping[str, Any]]
    names: Sequence[str]
    differences: Mapping[tuple[str, str], Sequence[CardDifference]]
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def title(self) -> str:
        """Names the judges."""
        return f"Judge cards: {' and '.join(self.names)}"

    @property
    def page(self) -> Page:
        """What every medium shows."""
        found = [row for rows in self.differences.values() for row in rows if row.differs]
        lead = f"The judges differ on {len(found)} of {sum(map(len, self.differences.values()))} readings."
        suite = self.cards[0]["suite"]
        verdicts: Table[tuple[str, Mapping[str, Any]]] = Table.of(
            Column("judge", lambda row: row[0], as_code=True),
            Column("measured", lambda row: str(row[1]["run"]["started"])),
            Column("verdict", lambda row: str(row[1]["verdict"]["sentences"][0]), words=True),
        )
        return Page(
            title=self.title,
            lead=lead,
            notes=self.notes,
            facts={"suite": f"{suite['name']} ({suite['items']:,} items)", "sha256": suite["sha256"]},
            sections=[
                Section(heading="Verdicts", blocks=[verdicts(zip(self.names, self.cards, strict=True))]),
                *(
                    Section(heading=f"{a} and {b}", blocks=[_differences(a, b)(rows)])
                    for (a, b), rows in self.differences.items()
                ),
            ],
        )

    def to_markdown(self) -> str:
        """Return it as a readable page."""
        return self.page.to_markdown()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        rows = [
            {"a": a, "b": b, "difference": row.value, **plain_data(row)}
            for (a, b), own in self.differences.items()
            for row in own
        ]
        return {"judges": list(self.names), "suite": self.cards[0]["suite"], "differences": rows, "notes": self.notes}


def _differences(a: str, b: str) -> Table[CardDifference]:
    return Table.of(
        Column("axis", lambda row: axis_name(row.axis), brief=True),
        Column(a, lambda row: _cell(row.a), brief=True),
        Column(b, lambda row: _cell(row.b), brief=True),
        Column("difference", lambda row: number_text(row.value, signed=True), brief=True),
        Column("95 %", lambda row: interval_text(row.low, row.high), brief=True),
        Column("differs", lambda row: "yes" if row.differs else "not shown", brief=True),
    )


def _cell(reading: Reading) -> str:
    is_curve = isinstance(reading, Estimate) and reading.unit == "curve"
    return threshold_text(reading) if is_curve else cell_text(reading)


def compare_cards(paths: Sequence[str | Path]) -> CardComparison:
    """Put cards of one suite side by side, each beside the one before it.

    Raises:
        RecipeError: for fewer than two, what is no card, and cards of different suites.
    """
    if len(paths) < 2:
        raise RecipeError("Give two cards or more.")
    cards = [read_card(path) for path in paths]
    for path, card in zip(paths[1:], cards[1:], strict=True):
        if card["suite"]["sha256"] != cards[0]["suite"]["sha256"]:
            first, other = (
                f"{each['suite']['name']} (sha256 {each['suite']['sha256'][:12]})" for each in (cards[0], card)
            )
            raise RecipeError(
                f"The cards are of different suites: {paths[0]} of {first}, {path} of {other}. Only judges that were "
                "measured on the same items can be compared."
            )
    labels = [str(card["judge"]["name"]) for card in cards]
    names = [
        f"{name} ({card['run']['run_id'][:8]})" if labels.count(name) > 1 else name
        for name, card in zip(labels, cards, strict=True)
    ]
    pairs = list(pairwise(range(len(cards))))
    shared = {(at, other): _shared_axes(cards[at], cards[other]) for at, other in pairs}
    # All differences share the error: at 95 % one of twenty equal readings would be called different.
    level = 1 - 0.05 / max(1, sum(map(len, shared.values())))
    runs = " ".join(str(card["run"]["run_id"]) for card in cards)
    return CardComparison(
        cards=cards,
        names=names,
        differences={
            (names[at], names[other]): [_difference(axis, cards[at], cards[other], level) for axis in axes]
            for (at, other), axes in shared.items()
        },
        notes=(
            "Cards hold no calls: differences are read as if the judges had been asked about different tasks, which is "
            f"wide where they err on the same. With the runs at hand, `jrh compare {runs}` finds smaller ones.",
        ),
    )


def _shared_axes(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    return [axis for axis in a["headline"] if axis in b["headline"] and axis in a["readings"] and axis in b["readings"]]


def _difference(axis: str, a: Mapping[str, Any], b: Mapping[str, Any], level: float) -> CardDifference:
    try:
        before, after = (read_reading(card["readings"][axis]) for card in (a, b))
    except (KeyError, TypeError) as error:
        raise RecipeError(f"A card's reading of {axis!r} is none: {error!r}. Make the card again.") from error
    usual, strict = (_ends(before, after, at) for at in (0.95, level))
    differs = strict is not None and not strict[0] <= 0 <= strict[1]
    low, high = usual or (None, None)
    return CardDifference(axis=axis, a=before, b=after, low=low, high=high, differs=differs)


def _ends(a: Reading, b: Reading, level: float) -> tuple[float, float] | None:
    if not isinstance(a, Estimate) or not isinstance(b, Estimate) or "curve" in (a.unit, b.unit):
        return None
    (a_low, a_high), (b_low, b_high) = (deciding_ends(each, level=level) for each in (a, b))
    if a_low is None or a_high is None or b_low is None or b_high is None:
        return None
    return newcombe(a.value, (a_low, a_high), b.value, (b_low, b_high))
