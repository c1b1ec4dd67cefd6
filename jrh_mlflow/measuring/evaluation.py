"""`Evaluation`: what one judge read on one suite, and the MLflow run that holds it."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from jrh_mlflow.collector import calm_collector
from jrh_mlflow.engine.budget import Paid
from jrh_mlflow.engine.record_log import in_memory
from jrh_mlflow.errors import TrackingError
from jrh_mlflow.judges import rendering
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.measures.axes import thresholds
from jrh_mlflow.measures.records import Answerer, answered_by_text, are_several, label_sources
from jrh_mlflow.measures.reliability import worst_items
from jrh_mlflow.measures.verdict import JudgeContext
from jrh_mlflow.measuring import run_page
from jrh_mlflow.measuring.measured import JudgeFacts, Measured
from jrh_mlflow.measuring.until import UntilReport
from jrh_mlflow.models import trust
from jrh_mlflow.options import JudgeOptions, Metrics
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.schema.presentation import TIE_CRITERIA
from jrh_mlflow.show.cards import brief_run
from jrh_mlflow.show.figures.canvas import plotted
from jrh_mlflow.show.figures.svg import figure_files
from jrh_mlflow.show.html import Addresses
from jrh_mlflow.show.numbers import at_least_text, interval_text, tag_text, withheld_text
from jrh_mlflow.show.results import Datasheet, ReliabilityReport, categorised, measure
from jrh_mlflow.show.sheets import origin_notes
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.text import brief_name, two_places
from jrh_mlflow.tracking.judges.prompts import link_prompt
from jrh_mlflow.tracking.judges.sent_messages import SentMessages
from jrh_mlflow.tracking.runs import keys, outbox
from jrh_mlflow.tracking.runs.outbox import Kept
from jrh_mlflow.tracking.runs.store import (
    LoggedAhead,
    RunContent,
    Store,
    axes_table,
    ending,
    open_run,
    publish,
    table_tags,
)
from jrh_mlflow.tracking.runs.view import ViewLinks
from jrh_mlflow.tracking.traces.call_traces import TracedCalls, log_traces

if TYPE_CHECKING:
    import pandas as pd

    from jrh_mlflow.show.figures.canvas import Figure

Sheet = Datasheet | ReliabilityReport

DEFAULT_SUITE = "datasheet-28x5-s0"
"""Name of the suite that is asked where none is named."""

_LONGEST_CRITERION = 500
"""Characters of a tie criterion in the params."""

IN_THE_JOURNAL = "Every answer is in the journal: the same call again logs them without asking."
IN_THE_ERROR = "They are in the memory of this process only: `error.calls`."


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What an evaluation measured and where it is logged."""

    run_id: str
    metrics: dict[str, float]
    """Every number by its key."""
    logged: dict[str, float]
    """Those that are metrics of the MLflow run: the headline, or all."""
    sheet: Sheet
    """What was measured: a datasheet of pairs, or a report of reliability tests."""
    asked: pd.DataFrame
    """The calls as measures read them: texts of many calls are on disk."""
    judge: JudgeFacts
    suite: Suite
    link: str
    """Where the run can be looked at."""
    view: ViewLinks
    """Where it stands beside the other judges of the experiment: table, charts, and the command that shows them."""
    truncated: str | None = None
    """Why calls are missing (`budget: 312 of 680 calls`, `until: …`), or None. The same call again continues."""
    stopped: UntilReport | None = None
    """What came of each rule, where `stop` was a `jrh.until`: state, bounds, and how many calls that took."""
    tracking_uri: str | None = None
    """The store that has the run; the active one when None."""

    @cached_property
    def calls(self) -> pd.DataFrame:
        """Every call, a row each; of many calls the texts are read when it is looked at first."""
        return in_memory(self.asked)

    @property
    def view_link(self) -> str:
        """Where it stands beside the other judges of the experiment, in one line."""
        return str(self.view)

    @property
    def page_link(self) -> str:
        """Where its datasheet is a page that leads to its calls: by `jrh ui`, or a server with `--app-name jrh`."""
        return Addresses(self.view.pages).run(self.run_id)

    @cached_property
    def cost_usd(self) -> float | None:
        """Dollars that all attempts told, or None when none did; `unknown_costs` counts the calls of unknown cost."""
        return run_page.shown_cost(self.metrics, self.asked)

    @property
    def unknown_costs(self) -> int:
        """Calls whose cost is unknown: with any, `cost_usd` is a lower bound."""
        return keys.unknown_costs(self.asked)

    @property
    def cost_text(self) -> str:
        """What was paid, for people, and which answers came from the journal; unknown is never 0."""
        known = "no price known" if self.cost_usd is None else at_least_text(self.cost_usd, self.unknown_costs)
        paid = run_page.NOT_ASKED if self.judge.simulated or self.judge.recorded else known
        journalled = run_page.answers_served(self.judge, self.asked)
        return f"{paid}; {journalled.text}" if journalled else paid

    @property
    def notes(self) -> list[str]:
        """What a reader must know before the numbers."""
        return run_page.evaluation_notes(
            self.judge,
            self.asked,
            truncated=self.truncated,
            stopped=self.stopped,
            metrics=self.metrics,
        )

    @property
    def datasheet(self) -> Datasheet:
        """What a suite of pairs, or of single responses of known level, gives."""
        if not isinstance(self.sheet, Datasheet):
            raise AttributeError(f"Suite {self.suite.name!r} has no pairs: its result is `.report`.")
        return self.sheet

    @property
    def report(self) -> ReliabilityReport:
        """What a suite of reliability tests gives."""
        if not isinstance(self.sheet, ReliabilityReport):
            raise AttributeError(f"Suite {self.suite.name!r} has no reliability test: its result is `.datasheet`.")
        return self.sheet

    @property
    def verdict(self) -> Verdict:
        """What is wrong, what the judge can do, what to do and what cannot be told, in one to four sentences."""
        return self.sheet.verdict

    def __str__(self) -> str:
        return "\n".join([*self.verdict.sentences, repr(self)])

    @property
    def withheld(self) -> dict[str, str]:
        """Axes without a number because too many of their calls gave no usable answer, with the reason and bounds."""
        readings = self.sheet.withheld_readings
        return {**self.sheet.withheld, **{axis: withheld_text(reading) for axis, reading in readings.items()}}

    def __repr__(self) -> str:
        where = f"{brief_name(self.judge.label)} on {brief_name(self.suite.name)}"
        end = f"{len(self.asked):,} calls, {brief_run(self.run_id)}"
        return f"Evaluation({where}: {self.sheet.brief}, {end})"

    def _repr_html_(self) -> str:
        facts = {
            "suite": f"{self.suite.name} ({len(self.suite):,} items, sha256 {self.suite.sha256[:12]})",
            "cost": self.cost_text,
        }
        notes = [*self.notes, *origin_notes(self.suite.origin)]
        return self.sheet.card(
            title=self.judge.label, facts=facts, notes=notes, links=[self.link, self.view_link]
        ).to_html()

    def to_frame(self) -> pd.DataFrame:
        """Return one row per axis: its number with n and intervals, or why there is none."""
        return self.sheet.to_frame()

    def plot(self, kind: str | None = None) -> Figure:
        """Draw the psychometric curve or the scores of the tests, or another of the run's figures by its name."""
        return plotted(run_page.sheet_figures(self.sheet, self.asked, self.judge.label), kind)


def resume(folder: str | Path, *, tracking_uri: str | None = None) -> Evaluation:
    """Log an evaluation that was kept on disk because MLflow could not be reached.

    A store whose address holds a password must be named again, or be the active one: passwords are not kept.
    """
    return log_kept(outbox.kept_in(Path(folder)), tracking_uri=tracking_uri)


def log_kept(kept: Kept, *, tracking_uri: str | None, metrics: Metrics | None = None) -> Evaluation:
    """Log an evaluation that lies in the outbox, where it belongs."""
    with kept:
        parcel, target = kept.read()
        measured = Measured.unpacked(parcel)
        measured = replace(measured, metrics=metrics or measured.metrics)
        # An address whose password was left out leads nowhere: then the active store is taken.
        kept_uri = None if ":***@" in target["tracking_uri"] else target["tracking_uri"]
        if tracking_uri is None:
            trust.check_kept_store(kept_uri)
        store = Store(tracking_uri or kept_uri, experiment_id=target["experiment_id"])
        with ending(store, target["run_id"], keeps_finished=True):
            return _log(store, measured, target["run_id"], kept=kept)


def open_evaluation(
    store: Store,
    judge: JudgeFacts,
    suite: Suite,
    *,
    settings: Mapping[str, object],
    tags: Mapping[str, str],
    name: str | None = None,
    parent: str | None = None,
) -> AbstractContextManager[str]:
    """Open the run of an evaluation, by its judge's name unless a run of another suite or of other settings has that.

    Args:
        store: Where it is logged.
        judge: Who is asked.
        suite: What is asked.
        settings: All else that numbers may depend on.
        tags: Of the run.
        name: Of the run, where the user gave one.
        parent: Run that it is nested under.
    """
    known = [judge.fingerprint, judge.settings, suite.sha256, {key: settings[key] for key in sorted(settings)}]
    setup = hashlib.sha256(json.dumps(known, default=str).encode()).hexdigest()
    if name is None:
        where = f"{judge.label} on {suite.name}"
        name = store.own_name([judge.label, where, f"{where} {setup[:6]}"], setup)
    tags = {**tags, keys.TAG_SETUP: setup}
    return open_run(store, "evaluate", name, simulated=judge.simulated, tags=tags, parent=parent)


def log_measured(store: Store, measured: Measured) -> Evaluation:
    """Log an evaluation whose calls were made elsewhere."""
    judge, suite = measured.judge, measured.suite
    with open_evaluation(store, judge, suite, settings=measured.run, tags=measured.tags) as run_id:
        return keep_and_log(store, measured, run_id, key=outbox.outbox_key(run_id), elsewhere="")


def keep_and_log(
    store: Store, measured: Measured, run_id: str, *, key: str, elsewhere: str, ahead: LoggedAhead | None = None
) -> Evaluation:
    """Log an evaluation; `elsewhere` says where its answers are when no disk can keep them."""
    # On disk before MLflow is spoken to: from here on nothing that was asked can be lost.
    with (
        ending(store, run_id, keeps_finished=True),
        outbox.keep(measured.parcel(), key=key, target=store.address(run_id)) as kept,
    ):
        try:
            return _log(store, measured, run_id, kept=kept, elsewhere=elsewhere, is_new=True, ahead=ahead)
        except (KeyboardInterrupt, SystemExit):
            # Stopped, and aborted while that was logged: the same call goes on with what the journal has.
            if measured.truncated and elsewhere == IN_THE_JOURNAL:
                kept.forget()
            raise


def _log(
    store: Store,
    measured: Measured,
    run_id: str,
    *,
    kept: Kept,
    elsewhere: str = "",
    is_new: bool = False,
    ahead: LoggedAhead | None = None,
) -> Evaluation:
    what_now = f"Nothing is lost: `jrh evaluate --resume {kept.folder}`, or the same call again, logs it."
    if kept.folder is None:
        what_now = f"No disk takes the calls either ({kept.problem}). {elsewhere}"
    with calm_collector():
        seed, judged = int(measured.run["seed"]), judged_by(measured.judge, measured.suite.name, run_id)
        chosen = {name: measured.run[name] for name in ("metric", "definitions") if measured.run.get(name)}
        sheet = measure(measured.calls, seed=seed, labels=measured.suite.labels, judged=judged, **chosen)
        sheet = categorised(sheet, measured.calls, measured.suite.groups, seed=seed)
        points = evaluation_points(measured, sheet)
        evaluation = Evaluation(
            run_id=run_id,
            metrics=keys.last_values(points),
            logged={},
            sheet=sheet,
            asked=measured.calls,
            judge=measured.judge,
            suite=measured.suite,
            link=store.link(run_id),
            view=store.view_links(),
            truncated=measured.truncated,
            stopped=_stopped(measured, sheet),
            tracking_uri=store.uri,
        )
        try:
            content = evaluation_content(measured, sheet, points)
            has_suite = ahead is not None and ahead.has_suite()
            logged = publish(store, run_id, content, what_now=what_now, is_new=is_new, has_suite=has_suite)
        except TrackingError as error:
            # Whoever catches it has answers and readings in hand, even where no disk took them.
            error.calls, error.evaluation = evaluation.calls, evaluation
            raise
    # Only now: until MLflow has all of it, the disk keeps it.
    kept.forget()
    if (version := measured.judge.settings.get("prompt_uri")) is not None:
        link_prompt(str(version), run_id, tracking_uri=store.uri)
    return replace(evaluation, logged=logged, view=store.view_links(measured.suite.name))


def judged_by(judge: JudgeFacts, suite: str, run_id: str) -> JudgeContext:
    """Return what a verdict must know: whether ties were offered, and the command that asks the same model again."""
    facts, offers_tie = judge.definition or {}, judge.criterion.offers_tie
    # A judge of somebody's own is changed in its code, a prompt or a tie criterion in its file.
    is_typed = facts.get("kind") == PromptedJudge.kind and facts["prompt"]["name"] in rendering.BUILT_IN
    if not is_typed or judge.recorded or judge.criterion.name not in TIE_CRITERIA:
        return JudgeContext(offers_tie=offers_tie, command="")
    options = {"--model": str(judge.settings["model"])}
    # A suite of somebody's own may lie anywhere, but its run has it.
    options |= {} if suite == DEFAULT_SUITE else {"--suite": f"runs:/{run_id}/suite"}
    command = " ".join(["jrh evaluate", *(f"{name} {shlex.quote(value)}" for name, value in options.items())])
    return JudgeContext(offers_tie=offers_tie, command=command, options=_other_options(judge))


def _other_options(judge: JudgeFacts) -> dict[str, str]:
    """Return what else makes a prompted judge, as typed, where that is not what an option is when left out."""
    known = judge.definition or {}
    facts = {
        **known,
        "prompt": known["prompt"]["name"],
        "tie_criterion": judge.criterion.name,
        "api_base": judge.settings["api_base"],
        "prompt_language": "suite" if "prompt_language" in known else "en",
    }
    names = ["prompt", "tie_criterion", "rubric", "temperature", "reasoning_effort", "seed", "answer_style"]
    names.append("prompt_language")
    # An address of the environment is found there again.
    names += ["api_base"] if facts["address"] == "given" else []
    unset = {name: field.default for name, field in JudgeOptions.model_fields.items()}
    return {
        JudgeOptions.flag(name): "none" if facts[name] is None else shlex.quote(f"{facts[name]}")
        for name in names
        if facts[name] != unset[name] and facts[name] != ""
    }


def _stopped(measured: Measured, sheet: Sheet) -> UntilReport | None:
    """Return what came of the rules of `until`, with what the run reads beside it."""
    return None if measured.until is None else UntilReport.from_dict(measured.until).beside(sheet.estimates)


def evaluation_points(measured: Measured, sheet: Sheet) -> list[keys.Point]:
    """Return every number of an evaluation."""
    spent = keys.call_points(
        measured.calls,
        seconds=measured.seconds,
        at=measured.at,
        paid=None if measured.paid is None else Paid(**measured.paid),
    )
    return [*keys.sheet_points(sheet), *spent, *run_page.accuracy_price(measured.calls, sheet)]


def evaluation_content(measured: Measured, sheet: Sheet, points: Sequence[keys.Point]) -> RunContent:
    """Return what the run of one judge on one suite holds; `points` are all its numbers."""
    judge, suite, answered = measured.judge, measured.suite, run_page.judge_answerers(measured.judge, measured.calls)
    settings = {**judge.settings, **({"answered_by": answered_by_text(answered)} if answered else {})}
    words = "" if judge.criterion.name in TIE_CRITERIA else judge.criterion.text
    if words:
        cut = len(words) > _LONGEST_CRITERION
        settings[keys.CRITERION_TEXT] = f"{words[: _LONGEST_CRITERION - 1]}…" if cut else words
    stopped, items = _stopped(measured, sheet), {item.id: item for item in suite.items}
    shown = run_page.ShownRun(
        judge=replace(judge, settings=settings),
        suite=suite.manifest,
        calls=measured.calls,
        sheet=sheet,
        seconds=measured.seconds,
        truncated=measured.truncated,
        stopped=stopped,
        metrics=keys.last_values(points),
        worst=() if isinstance(sheet, Datasheet) else worst_items(measured.calls, items),
    )
    markdown = shown.markdown()
    described = {"name": judge.name, **settings}
    return RunContent(
        points=points if measured.metrics == "all" else keys.headline_points(points, sheet),
        params={"judge": settings, "suite": keys.suite_facts(suite), "run": measured.run},
        description=markdown,
        described_in=keys.DATASHEET_MARKDOWN,
        tags={**_tags(measured, sheet, answered), **({keys.TAG_UNTIL: stopped.text} if stopped else {})},
        artifacts={
            keys.CALLS_FILE: measured.calls,
            keys.PROMPT_FILE: judge.prompt,
            keys.JUDGE_FILE: {**described, "fingerprint": judge.fingerprint, "definition": judge.definition},
            keys.DATASHEET_JSON: {
                "judge": judge.label,
                "suite_sha256": suite.sha256,
                **({"answered_by": [asdict(answerer) for answerer in answered]} if answered else {}),
                **sheet.to_dict(),
                "metrics": keys.last_values(points),
            },
            keys.AXES_TABLE: axes_table(keys.sheet_readings(sheet)),
            keys.DATASHEET_MARKDOWN: markdown,
            **({keys.UNTIL_JSON: stopped.to_dict()} if stopped else {}),
            **figure_files(shown.drawings),
            keys.DATASHEET_PAGE: shown.page(),
        },
        suite=suite,
        traces=partial(log_traces, traced=traced_calls(measured)),
        # Judges of a search are many, on half a suite, and the best of them reads too well.
        saves_suite_view=measured.tags.get(keys.TAG_STAGE) not in ("search", "refine"),
    )


def traced_calls(measured: Measured) -> TracedCalls:
    """Return what of an evaluation becomes traces."""
    judge = measured.judge
    return TracedCalls(
        calls=measured.calls,
        suite=measured.suite,
        judge=judge.name,
        criterion=judge.criterion,
        simulated=judge.simulated,
        seconds=measured.seconds,
        traces=measured.traces,
        messages=SentMessages(judge.definition).of,
    )


def _tags(measured: Measured, sheet: Sheet, answered: Sequence[Answerer]) -> dict[str, str]:
    judge = measured.judge
    known = {
        keys.TAG_RECORDED: "true" if judge.recorded else None,
        keys.TAG_FINGERPRINT: judge.fingerprint,
        keys.TAG_GENERATED_BY: measured.suite.origin.get("generate_run_id"),
        keys.TAG_METRIC: measured.run.get("metric"),
        keys.TAG_LABEL_SOURCE: ", ".join(label_sources(measured.calls)),
        keys.TAG_TRUNCATED: measured.truncated,
        # The params name who answered in any case; the tag marks runs that several did.
        keys.TAG_ANSWERED_BY: answered_by_text(answered) if are_several(answered) else None,
        keys.TAG_WITHHELD: ", ".join(sheet.withheld),
    }
    words = {keys.TAG_VERDICT: sheet.verdict.sentences[0], keys.TAG_PROFILE: sheet.profile}
    tags = {**words, **measured.tags, **_reading_tags(sheet), **table_tags(keys.AXES_TABLE)}
    return {**tags, keys.TAG_JUDGE: judge.name, **{tag: str(text) for tag, text in known.items() if text}}


def _reading_tags(sheet: Sheet) -> dict[str, str]:
    """Return headline readings and thresholds as `jrh.<axis>`: a column of runs then shows a number with its interval.

    The metric of a censored threshold is a bound: its tag says so.
    """
    readings = {**sheet.headline, **thresholds(sheet.estimates)}
    tags = {
        keys.own_key(axis): tag_text(reading) for axis, reading in readings.items() if isinstance(reading, Estimate)
    }
    if isinstance(sheet, ReliabilityReport) and (mean := sheet.summary["mean"]) is not None:
        ends = interval_text(sheet.summary["mean_ci_low"], sheet.summary["mean_ci_high"])
        tags[keys.own_key(metric_keys.RELIABILITY_MEAN)] = f"{two_places(mean)} {ends}"
    return tags
