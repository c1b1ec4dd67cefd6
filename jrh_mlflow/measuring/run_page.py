"""The page of one evaluation: of what was measured just now, and of any run that was logged before.

Both are made by `ShownRun.page`. A logged run is shown with the numbers that it logged; nothing is measured anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.judges.raw import RawJudge
from jrh_mlflow.measures import records
from jrh_mlflow.measures.reliability import WorstItem, priced_calls, usd_per_accuracy_point, worst_items
from jrh_mlflow.measuring.measured import JudgeFacts
from jrh_mlflow.measuring.until import UNTIL, UntilReport, until_section
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.items import LABEL_SOURCES, PROTOCOL
from jrh_mlflow.show.decided_rules import DecisionSection, with_section
from jrh_mlflow.show.figures.canvas import Figures
from jrh_mlflow.show.figures.datasheet import calibration_figures, datasheet_figures
from jrh_mlflow.show.figures.reliability import report_figures
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.show.glossary import TERMS
from jrh_mlflow.show.html import Addresses
from jrh_mlflow.show.numbers import at_least_text, money_text
from jrh_mlflow.show.page import Drawing
from jrh_mlflow.show.results import Datasheet, Report, read_report
from jrh_mlflow.show.sheets import PageLinks, origin_notes, sheet_page
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import LoggedEvaluation, logged_evaluation

if TYPE_CHECKING:
    import pandas as pd

NO_TEXTS_NOTE = "Texts are left out: where one would stand there is its sha256."
SIMULATED_NOTE = "Simulated judge: a calibration weight with known readings, not a model."
OWN_LABELS_NOTE = "The judge graded its own labels: it wrote labels of this suite, and agrees with itself there."
NOT_ASKED = "none, no model was asked"


@dataclass(frozen=True, kw_only=True)
class ShownRun:
    """All that the page of an evaluation is made of."""

    judge: JudgeFacts
    suite: Mapping[str, Any]
    """Its manifest."""
    calls: pd.DataFrame
    sheet: Report
    seconds: float | None
    """How long it took; None where the run does not tell."""
    truncated: str | None
    stopped: UntilReport | None
    metrics: Mapping[str, float]
    """Every number of the run, where it tells them."""
    worst: Sequence[WorstItem] = ()
    decided: Sequence[DecisionSection] = ()
    """What was decided about a logged run later."""
    links: PageLinks | None = None
    """Of a served page."""

    @property
    def title(self) -> str:
        """Of the page and of the Markdown."""
        return f"{self.sheet.title}: {self.judge.label}"

    @cached_property
    def notes(self) -> list[str]:
        """What a reader must know before the numbers."""
        notes = evaluation_notes(
            self.judge, self.calls, truncated=self.truncated, stopped=self.stopped, metrics=self.metrics
        )
        notes += [NO_TEXTS_NOTE] if "texts" in self.suite else []
        return [*notes, *origin_notes(self.suite.get("origin"))]

    def markdown(self) -> str:
        """Return the description of the run."""
        journalled = answers_served(self.judge, self.calls)
        # Where they are old, a note says so already.
        new = [f"{journalled.text}."] if journalled and not journalled.old_note(_oldest(self.metrics)) else []
        note = " ".join([*self.notes, *new]) or None
        if isinstance(self.sheet, Datasheet):
            return self.sheet.to_markdown(title=self.title, note=note)
        return self.sheet.to_markdown(title=self.title, note=note, worst=self.worst)

    @cached_property
    def drawings(self) -> list[Drawing]:
        """What there is to draw of it, by name."""
        figures = sheet_figures(self.sheet, self.calls, self.judge.label)
        return draw(dict(sorted(figures.items())))

    def page(self) -> str:
        """Return the page."""
        stopped = self.stopped
        page = sheet_page(
            self.sheet,
            title=self.title,
            facts=_facts(self),
            judge={"name": self.judge.name, **self.judge.settings},
            marks=self.marks,
            drawings=self.drawings,
            worst=self.worst,
            # What came of the rules is a section of its own there.
            notes=[note for note in self.notes if stopped is None or note not in stopped.lines],
            links=self.links,
        )
        decisions = [*([until_section(stopped)] if stopped else []), *self.decided]
        return reduce(with_section, decisions, page.to_html())

    @property
    def marks(self) -> list[str]:
        """Beside the title."""
        marks = {"simulated": self.judge.simulated, "recorded": self.judge.recorded, "truncated": self.truncated}
        return [mark for mark, is_so in marks.items() if is_so]


Decided = Callable[[LoggedEvaluation, "Addresses | None"], Sequence[DecisionSection]]
"""Reads off a logged run what was decided about it later, with links where a page is served."""


def run_page(
    tracking_uri: str, run_id: str, *, addresses: Addresses | None, decided: Decided = lambda run, addresses: ()
) -> str:
    """Render the page of a logged evaluation of any version, with the numbers that it logged.

    Args:
        tracking_uri: The store.
        run_id: Of the evaluation, whole or its first eight or more digits.
        addresses: Where other pages are; None for a page that is a file.
        decided: What else the page says was decided about the run, such as `gate_sections`.

    Raises:
        RecipeError: when there is no such run, it is no evaluation, or did not finish.
        TrackingError: when MLflow cannot be reached, or the artifacts cannot be read.
    """
    run = logged_evaluation(tracking_uri, run_id)
    return shown_run(run, addresses, decided(run, addresses)).page()


def shown_run(
    run: LoggedEvaluation, addresses: Addresses | None = None, decided: Sequence[DecisionSection] = ()
) -> ShownRun:
    """Return what the page of a logged evaluation is made of."""
    links = None
    if addresses is not None:
        ids = {"run_id": run.run_id, "experiment_id": run.experiment_id}
        traces = run.tags.get(keys.TAG_TRACES_EXPERIMENT)
        links = PageLinks(addresses=addresses, others=run.others, traces=traces, **ids)
    return ShownRun(
        judge=_judge(run.judge, run.tags, run.manifest),
        suite=run.manifest,
        calls=run.calls,
        sheet=read_report(run.sheet),
        seconds=run.seconds,
        truncated=run.tags.get(keys.TAG_TRUNCATED),
        stopped=None if run.until is None else UntilReport.from_dict(run.until),
        metrics=run.sheet.get("metrics") or {},
        worst=() if run.suite is None else worst_items(run.calls, {item.id: item for item in run.suite.items}),
        decided=decided,
        links=links,
    )


def _judge(written: Mapping[str, Any], tags: Mapping[str, str], suite: Mapping[str, Any]) -> JudgeFacts:
    """Return what a run says of its judge."""
    apart = ("name", "fingerprint", "definition")
    fingerprint, definition = written.get("fingerprint"), written.get("definition") or {}
    labeller = (suite.get("origin") or {}).get("labeller") or {}
    recorded = definition.get("recorded") or TERMS["recorded"]
    return JudgeFacts(
        name=str(written["name"]),
        simulated=tags.get(keys.TAG_SIMULATED) == "true",
        settings={name: value for name, value in written.items() if name not in apart},
        # The page shows settings and no prompt: the file of the run has it.
        prompt="",
        recorded=str(recorded) if tags.get(keys.TAG_RECORDED) == "true" else "",
        graded_own_labels=fingerprint is not None and labeller.get("fingerprint") == fingerprint,
        definition=definition or None,
        fingerprint=fingerprint,
    )


def judge_answerers(judge: JudgeFacts, calls: pd.DataFrame) -> list[records.Answerer]:
    """Return which models answered; only those of a prompted judge name themselves."""
    return records.answerers(calls) if judge.settings.get("kind") in (PromptedJudge.kind, RawJudge.kind) else []


def answers_served(judge: JudgeFacts, calls: pd.DataFrame) -> records.JournalAnswers | None:
    """Return what came from the journal; a recorded judge says itself when its answers were given."""
    return None if judge.recorded else records.journal_answers(calls)


def accuracy_price(calls: pd.DataFrame, sheet: Report) -> list[keys.Point]:
    """What a point of accuracy costs, where both are known."""
    if isinstance(sheet, Datasheet):
        return []
    accuracy = sheet.estimates.get("all/accuracy")
    cost = keys.whole_total(priced_calls(calls, sheet.definitions), "cost_usd")
    if cost is None or not isinstance(accuracy, Estimate):
        return []
    return keys.price_points(usd_per_accuracy_point(cost, accuracy.value))


def _oldest(metrics: Mapping[str, float]) -> float | None:
    """Return how old the oldest answer of the journal was when the run was made; None where that is not known."""
    return metrics.get(metric_keys.OLDEST_ANSWER)


def shown_cost(metrics: Mapping[str, float], calls: pd.DataFrame) -> float | None:
    """Return what all attempts told; of a run that does not say, what its calls did."""
    return metrics.get(metric_keys.COST, keys.known_total(calls, "cost_usd"))


def _facts(run: ShownRun) -> Mapping[str, str]:
    """Return suite, calls, cost and time as the page shows them; unknown is never 0."""
    suite, calls, prices = run.suite, run.calls, accuracy_price(run.calls, run.sheet)
    cost, unknown = shown_cost(run.metrics, calls), keys.unknown_costs(calls)
    facts = {
        "suite": f"{suite['name']} ({suite['n_items']:,} items)",
        "sha256": suite["sha256"][:16],
        "calls": f"{len(calls):,}",
        **({} if run.sheet.definitions == PROTOCOL else {"definitions": run.sheet.definitions}),
        **({"answers": journalled.text} if (journalled := answers_served(run.judge, calls)) else {}),
        "cost": NOT_ASKED if run.judge.simulated or run.judge.recorded else at_least_text(cost, unknown),
        **({} if run.seconds is None else {"time": f"{run.seconds:,.1f} s"}),
    }
    if told := keys.known_total(calls, "cost_usd"):
        facts["per 1,000 calls"] = money_text(1000 * told / (len(calls) - unknown))
    if prices:
        facts["per accuracy point"] = money_text(prices[0].value)
    return facts


def sheet_figures(sheet: Report, calls: pd.DataFrame, label: str) -> Figures:
    """Draw what there is to draw of one judge, by file name."""
    figures = calibration_figures(sheet.estimates, calls, label)
    if isinstance(sheet, Datasheet):
        return {**datasheet_figures({label: sheet.estimates}), **figures}
    return {**report_figures(sheet, calls, label), **figures}


def is_decided(truncated: str | None) -> bool:
    """Whether calls are missing because the rules of `jrh.until` did not need them."""
    return truncated is not None and truncated.startswith(UNTIL)


def _labels_note(calls: pd.DataFrame) -> str:
    n = {source: int((calls["label_source"] == source).sum()) for source in records.label_sources(calls)}
    listed = " and ".join(f"{count:,} with {LABEL_SOURCES[kind]}" for kind, count in n.items())
    return f"Of {len(calls):,} calls {listed} count in no accuracy and no score."


def evaluation_notes(
    judge: JudgeFacts,
    calls: pd.DataFrame,
    *,
    truncated: str | None,
    stopped: UntilReport | None = None,
    metrics: Mapping[str, float],
) -> list[str]:
    """Say what a reader must know of an evaluation before its numbers."""
    notes = [SIMULATED_NOTE] if judge.simulated else []
    notes += [judge.recorded] if judge.recorded else []
    notes += [OWN_LABELS_NOTE] if judge.graded_own_labels else []
    journalled = answers_served(judge, calls)
    notes += [old] if journalled and (old := journalled.old_note(_oldest(metrics))) else []
    notes += [_labels_note(calls)] if records.label_sources(calls) else []
    notes += stopped.lines if stopped else []
    # Calls that the rules did not need are not missing: the lines of the rules say so.
    if truncated and not (stopped and is_decided(truncated)):
        notes.append(f"Truncated ({truncated}): measured on what was asked.")
    if alone := records.n_alone(calls):
        notes.append(f"{alone:,} calls have no partner in the other order: axes of pairs are read without them.")
    cost, unknown = shown_cost(metrics, calls), keys.unknown_costs(calls)
    notes += [f"Cost: {at_least_text(cost, unknown)}."] if cost is not None and unknown else []
    if records.are_several(answered := judge_answerers(judge, calls)):
        notes.append(f"Answered by more than one model or system: {records.answered_by_text(answered)}.")
    return notes
