"""`jrh.evaluate`: one judge configuration on one suite, as one MLflow run, and what that run holds."""

from __future__ import annotations

import inspect
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.engine import Asked, calls_frame, random_order
from jrh_mlflow.engine.budget import OutOfBudget, Overrun
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.interrupts import hearing_interrupts, say
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.engine.runner import OnRecord, StopRule, calm_collector
from jrh_mlflow.engine.sessions import Quote
from jrh_mlflow.errors import BudgetError, JrhError, JudgeError, RecipeError, SuiteError, TrackingError
from jrh_mlflow.judges import Judge
from jrh_mlflow.measures.answered_by import Answerer, answered_by_text, are_several
from jrh_mlflow.measures.axes import thresholds
from jrh_mlflow.measures.records import complete_pairs, halves_marked, label_sources
from jrh_mlflow.measures.reliability import worst_items
from jrh_mlflow.measuring.measured import JudgeFacts, Measured
from jrh_mlflow.measuring.resolve import Prepared, prepare
from jrh_mlflow.measuring.run_page import (
    NOT_ASKED,
    ShownRun,
    SuiteFacts,
    evaluation_notes,
    judge_answerers,
    price_points,
    sheet_figures,
)
from jrh_mlflow.measuring.until import UNTIL, Until, UntilReport, UntilStop, bound_axes
from jrh_mlflow.models.local.server import ModelClock, local_models
from jrh_mlflow.models.transports import safe_text
from jrh_mlflow.options import Metrics, Moment, checked_metrics
from jrh_mlflow.progress import is_watched, progress_bar, ticking
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.items import LEVEL_CONDITIONS, CallRecord
from jrh_mlflow.scoring.metric import DEFAULT, find_metric
from jrh_mlflow.scoring.pointwise import scale_of
from jrh_mlflow.show.addresses import Addresses
from jrh_mlflow.show.cards import brief_run
from jrh_mlflow.show.figures.canvas import plotted
from jrh_mlflow.show.figures.svg import draw, figure_files
from jrh_mlflow.show.numbers import at_least_text, money_text, short_interval, tag_text, withheld_text
from jrh_mlflow.show.reliability import invalid_note
from jrh_mlflow.show.results import Datasheet, ReliabilityReport, categorised, measure
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.judges.prompts import link_prompt
from jrh_mlflow.tracking.runs import keys, outbox
from jrh_mlflow.tracking.runs.logged_tables import axes_table, table_tags
from jrh_mlflow.tracking.runs.models_page import JudgeEntry
from jrh_mlflow.tracking.runs.outbox import Kept
from jrh_mlflow.tracking.runs.store import RunContent, Store, ending, keep_failed, open_run, publish, store_place
from jrh_mlflow.tracking.runs.view import ViewLinks
from jrh_mlflow.tracking.traces.call_traces import TracedCalls, checked_traces, log_traces

if TYPE_CHECKING:
    import pandas as pd

    from jrh_mlflow.models.prices import Overrides
    from jrh_mlflow.show.figures.canvas import Figure

Sheet = Datasheet | ReliabilityReport

MEND_PRICE = "Give the price that is billed (`prices`, --price IN,OUT), or a larger `max_tokens`, and run it again."
"""What to do when calls cost more than their worst case."""
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
    calls: pd.DataFrame
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
        """Dollars of the calls whose cost is known, or None when none is; `unknown_costs` counts the others."""
        return keys.known_total(self.calls, "cost_usd")

    @property
    def unknown_costs(self) -> int:
        """Calls whose cost is unknown: with any, `cost_usd` is a lower bound."""
        return keys.unknown_costs(self.calls)

    @property
    def cost_text(self) -> str:
        """What was paid, for people, and for how many calls the journal had an answer; unknown is never 0."""
        known = "no price known" if self.cost_usd is None else at_least_text(self.cost_usd, self.unknown_costs)
        paid = NOT_ASKED if self.judge.simulated or self.judge.recorded else known
        cached = int(self.calls["cached"].sum()) if "cached" in self.calls else 0
        return f"{paid}; {cached:,} of {len(self.calls):,} calls answered from the journal" if cached else paid

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
    def withheld(self) -> dict[str, str]:
        """Axes without a number because too many of their calls gave no usable answer, with the reason and bounds."""
        return {axis: withheld_text(reading) for axis, reading in self.sheet.withheld_readings.items()}

    def __repr__(self) -> str:
        where = f"{brief_name(self.judge.label)} on {brief_name(self.suite.name)}"
        end = f"{len(self.calls):,} calls, {brief_run(self.run_id)}"
        return f"Evaluation({where}: {self.sheet.brief}, {end})"

    def _repr_html_(self) -> str:
        facts = {
            "suite": f"{self.suite.name} ({len(self.suite):,} items, sha256 {self.suite.sha256[:12]})",
            "cost": self.cost_text,
        }
        notes = evaluation_notes(self.judge, self.calls, truncated=self.truncated, stopped=self.stopped)
        notes += invalid_note(self.suite.origin.get("invalid"))
        return self.sheet.card(
            title=self.judge.label, facts=facts, notes=notes, links=[self.link, self.view_link]
        ).to_html()

    def to_frame(self) -> pd.DataFrame:
        """Return one row per axis: its number with n and intervals, or why there is none."""
        return self.sheet.to_frame()

    def plot(self, kind: str | None = None) -> Figure:
        """Draw the psychometric curve or the scores of the tests, or another of the run's figures by its name."""
        return plotted(sheet_figures(self.sheet, self.calls, self.judge.label), kind)


def evaluate(
    judge: object,
    suite: Suite | str | Path | None = None,
    *,
    experiment: str | None = None,
    run_name: str | None = None,
    tracking_uri: str | None = None,
    replicates: int = 1,
    concurrency: int = 32,
    max_usd: float | None = None,
    journal: str | Path | Journal | None = None,
    stop: StopRule | Until | None = None,
    backend: str = "local",
    seed: int = 0,
    progress: bool = True,
    tags: Mapping[str, str] | None = None,
    traces: str = "failures",
    metrics: Metrics = "headline",
    texts: bool = True,
    prices: Overrides | None = None,
    requests_per_minute: float | None = None,
    tokens_per_minute: float | None = None,
    timeout_s: float = 120.0,
    fresh_after: Moment | None = None,
    parent_run_id: str | None = None,
    shuffle: int | None = None,
    budget: str | None = None,
    metric: str = DEFAULT,
) -> Evaluation:
    """Measure a judge on a suite and log it as one MLflow run.

    Args:
        judge: A model name or `PromptedJudge`, an MLflow judge or scorer, `scorers:/NAME[@VERSION]` for one that is
            registered at MLflow (with `experiment` or the active one; `scorers:/EXPERIMENT/NAME` names another), or a
            callable `f(presentation)`, sync or async. Use `concurrency=1` for a sync callable that must not run in
            several threads at once.
        suite: A `Suite`, a folder, `runs:/<id>/suite`, `datasets:/NAME[@VERSION]` or a built-in name; the datasheet
            suite when None.
        experiment: MLflow experiment; the active one, or `judge-datasheets`, when None.
        run_name: Name of the run; the judge's name when None.
        tracking_uri: MLflow store; the active one when None.
        replicates: How often each presentation is asked.
        concurrency: Most calls in flight; a model on this machine is asked no more at once than it has slots.
        max_usd: Never spend more than this on this judge, suite and number of replicates, restarts included. On
            reaching it the run ends cleanly, truncated.
        journal: Where paid answers are kept; one journal per user when None. Only prompted judges use it.
        stop: `jrh.until("dark_current <= 0.1")`: ask in random order only what the rules need, until it is decided what
            the whole suite would read; `.stopped` says what was. Or a function that is told about every record; a text
            it returns ends the asking.
        backend: `local`, or `ray`: actors on the cluster of RAY_ADDRESS, else on one started here. Their keys come from
            the environment of its nodes; several machines need a journal on PostgreSQL.
        seed: Of the bootstraps behind intervals.
        progress: Show a progress bar on a terminal or in a notebook.
        tags: More tags for the run.
        traces: Which calls become MLflow traces: `failures`, `all` or `none`.
        metrics: Which numbers become metrics of the run: `headline`, those that judges are compared by, or `all`.
            Every number is in `.metrics`, in `datasheet.json` and in the table `axes.json` either way.
        texts: False keeps prompts, responses, rubrics and what judges wrote out of MLflow: artifacts, traces and the
            outbox hold their sha256 in place of them. The journal on this machine keeps answers, and so does what is
            returned; ids, labels, groups and names stay as they are.
        prices: Model to dollars per million input and output tokens, where litellm's table is wrong or silent.
        requests_per_minute: Of the endpoint; limits delay, never drop.
        tokens_per_minute: Of the endpoint.
        timeout_s: Of one attempt.
        fresh_after: A date or moment (text or object, UTC unless it says otherwise): answers in the journal that are
            older are asked again, and the new ones take their place.
        parent_run_id: Nest the run under this one.
        shuffle: Ask the items in the random order of this seed, so that a `stop` rule sees a random sample of them.
            `jrh.until` draws an order in any case, by `seed` where this is None.
        budget: Name of a budget of the journal that `max_usd` caps together with other evaluations of that name.
        metric: Of reliability suites: what stands for tests whose items carry the right answer, in scores, tables and
            the mean over tests. A function of sklearn.metrics that takes (expected, answer), such as `f1_score` (of two
            labels the last is positive, of more it is macro-averaged) or `mean_absolute_error` (of a scale), or
            `matthews`, `kappa`, `kappa_quadratic`, `mae`, …. Errors are never averaged with shares.

    Raises:
        TrackingError: when MLflow cannot be reached. Before the first call nothing is lost; after the last one the
            calls are kept on disk, and the same call again (or `jrh evaluate --resume`) logs them without asking.
        JudgeError: when the judge's service fails for good, lacks its key, or when every call ended as `error`: the
            commonest cause first. The run is then FAILED, and keeps the calls.
        BudgetError: when `max_usd` is reached before one pair is complete.
        KeyboardInterrupt: after Ctrl-C, once calls in flight are settled and what was asked is logged as truncated: the
            evaluation is its `.evaluation`. SIGTERM and a hung-up terminal raise `SystemExit`, an exception in `stop`
            itself, in the same way. The run is KILLED when not one pair was complete, and on a second signal.
    """
    checked_traces(traces)
    metrics = checked_metrics(metrics)
    prepared = prepare(
        judge,
        suite,
        replicates=replicates,
        concurrency=concurrency,
        max_usd=max_usd,
        prices=prices,
        journal=journal,
        backend=backend,
        experiment=experiment,
        tracking_uri=tracking_uri,
        fresh_after=fresh_after,
    )
    chosen = checked_metric(metric, prepared.suite)
    bound = bound_until(stop, prepared, seed=seed if shuffle is None else shuffle)
    prepared.check_ready(None if bound is None else bound.calls)
    fresh = None if prepared.fresh_after is None else prepared.fresh_after.isoformat()
    store = Store(tracking_uri, experiment)
    nested = (parent_run_id, parent_run_id and run_name, *([fresh] if fresh else []), *([] if texts else ["no texts"]))
    nested += (f"metric {chosen}",) if chosen else ()
    nested += (f"until {bound.until.text} {bound.until.level}",) if bound else ()
    key = outbox.outbox_key(*prepared.identity, seed, store_place(store.uri), store.experiment_id, *nested)
    if (kept := outbox.oldest_kept(key)) is not None:
        print(f"note: Logging the calls kept in {kept.folder}: nothing is asked again.", file=sys.stderr)
        return _log_kept(kept, tracking_uri=store.uri, metrics=metrics)
    client = ClientSettings(
        concurrency=prepared.concurrency,
        timeout_s=timeout_s,
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
        budget=prepared.budget(budget),
        price=prepared.price,
        fresh_after=prepared.freshness,
    )
    facts, total = _facts_of(prepared), prepared.n_calls
    opened = open_run(
        store, "evaluate", run_name or facts.label, simulated=facts.simulated, tags=tags, parent=parent_run_id
    )
    # From here on the first signal stops the asking, and what is there is logged before it is raised.
    with hearing_interrupts() as interrupts, interrupts.waiting():
        with calm_collector(), opened as run_id:
            started, clock = time.perf_counter(), ModelClock(local_models(prepared.judge))
            calls = prepared.plan(shuffle) if bound is None else bound.calls
            with _progress_bar(facts.name, total=total if bound is None else len(bound.calls), show=progress) as tick:
                answers = prepared.ask(client, calls, on_record=tick, stop=bound or stop)
            if bound is not None and answers.stopped is None and len(answers.records) < total:
                answers.stopped = UNTIL
            truncated = f"{answers.stopped}: {len(answers.records)} of {total} calls" if answers.stopped else None
            if answers.failure is not None and not _is_worth_logging(answers, prepared.judge, bound):
                _tag_ended(store, run_id, truncated, failure=answers.failure, texts=texts)
                raise answers.failure
            whole = Measured(
                judge=facts,
                suite=prepared.suite,
                calls=_measurable(answers, prepared, bound),
                run={
                    "seed": seed,
                    "replicates": replicates,
                    "concurrency": prepared.concurrency,
                    "max_usd": max_usd,
                    "journal": prepared.journal_place,
                    "fresh_after": fresh,
                    **({"metric": chosen} if chosen else {}),
                    **({"until": bound.until.text} if bound else {}),
                },
                seconds=time.perf_counter() - started,
                cpu_seconds=clock.seconds(),
                tags=dict(tags or {}),
                truncated=truncated,
                until=bound.report().to_dict() if bound else None,
                traces=traces,
                metrics=metrics,
            )
            # Hashed before it touches a disk: what waits for MLflow in the outbox has no texts either.
            measured = whole if texts else whole.without_texts()
            if dead := _every_call_failed(answers, facts):
                _keep_failed_calls(store, run_id, measured, reason=str(dead) if texts else "Every call failed.")
                raise dead
        with _not_instead_of(answers.failure):
            elsewhere = IN_THE_JOURNAL if prepared.judge.journalled else IN_THE_ERROR
            done = _keep_and_log(store, measured, run_id, key=key, elsewhere=elsewhere)
            done = replace(done, judge=facts, suite=whole.suite, calls=whole.calls)
    failure = answers.failure or interrupts.failure
    if failure is not None:
        raise _with_evaluation(failure, done)
    return done


def bound_until(stop: StopRule | Until | None, prepared: Prepared, *, seed: int) -> UntilStop | None:
    """Bind a `jrh.until` to the calls that it needs, in random order; None for any other stop rule.

    Raises:
        RecipeError: for a rule that calls in random order cannot decide.
    """
    if not isinstance(stop, Until):
        return None
    items = [item for item in prepared.suite.items if prepared.judge.covers(item)]
    axes = bound_axes(stop, items)
    needed = frozenset().union(*(axis.items for axis in axes))
    # Pairs are asked one after the other where only pairs are counted; calls must come each at a moment of its own.
    single = frozenset().union(*(axis.items for axis in axes if not axis.paired))
    own = (call for call in prepared.plan() if call.item.id in needed)
    calls = random_order(own, f"{seed}:{prepared.suite.sha256}", whole=lambda item: item.id not in single)
    return UntilStop(until=stop, calls=calls, axes=axes, n_planned=prepared.n_calls)


def checked_metric(metric: str | None, suite: Suite) -> str | None:
    """Return the name of the metric that stands for labelled tests; None for accuracy, which does anyway.

    Raises:
        RecipeError: for a name that is not known, and for one that is not defined on the suite.
    """
    chosen = find_metric(metric)
    if chosen is None:
        return None
    kinds, conditions = {item.kind for item in suite.items}, {item.condition for item in suite.items}
    if "pair" in kinds or conditions <= set(LEVEL_CONDITIONS):
        raise RecipeError(f"`metric` is that of reliability suites, and suite {suite.name!r} is none.")
    if suite.labels is not None and (refusal := chosen.refusal(scale_of((), suite.labels))):
        raise RecipeError(f"The metric does not fit the suite: {refusal}.")
    return chosen.name


def price_evaluation(judge: object, suite: Suite | str | Path | None = None, **as_evaluate: Any) -> Quote:
    """Say what an evaluation would send and cost, without sending anything.

    Takes the arguments of `evaluate`, and refuses what it would refuse.
    """
    prepared = dry_prepared(judge, suite, **as_evaluate)
    bound = bound_until(as_evaluate.get("stop"), prepared, seed=0)
    if not prepared.judge.journalled:
        kind = f"{prepared.judge.name!r} is a {prepared.judge.kind} judge"
        raise RecipeError(f"Only a prompted judge has a price beforehand, and {kind}.")
    return prepared.quote(None if bound is None else bound.calls)


def dry_prepared(
    judge: object,
    suite: Suite | str | Path | None = None,
    *,
    traces: str = "failures",
    metrics: Metrics = "headline",
    metric: str = DEFAULT,
    **as_evaluate: Any,
) -> Prepared:
    """Resolve and check the arguments of `evaluate` as it would, with nothing to be sent.

    Raises:
        TypeError: for an argument that `evaluate` does not take.
    """
    for name in as_evaluate.keys() - inspect.signature(evaluate).parameters:
        raise TypeError(f"The arguments are those of evaluate, and {name!r} is none of them.")
    checked_traces(traces)
    checked_metrics(metrics)
    decisive = inspect.signature(prepare).parameters
    given = {name: value for name, value in as_evaluate.items() if name in decisive}
    prepared = prepare(judge, suite, **given, dry=True)
    checked_metric(metric, prepared.suite)
    bound_until(as_evaluate.get("stop"), prepared, seed=0)
    return prepared


def resume(folder: str | Path, *, tracking_uri: str | None = None) -> Evaluation:
    """Log an evaluation that was kept on disk because MLflow could not be reached.

    A store whose address holds a password must be named again, or be the active one: passwords are not kept.
    """
    return _log_kept(outbox.kept_in(Path(folder)), tracking_uri=tracking_uri)


def _log_kept(kept: Kept, *, tracking_uri: str | None, metrics: Metrics | None = None) -> Evaluation:
    with kept:
        parcel, target = kept.read()
        measured = Measured.unpacked(parcel)
        measured = replace(measured, metrics=metrics or measured.metrics)
        kept_uri = None if ":***@" in target["tracking_uri"] else target["tracking_uri"]
        store = Store(tracking_uri or kept_uri, experiment_id=target["experiment_id"])
        with ending(store, target["run_id"], keeps_finished=True):
            return _log(store, measured, target["run_id"], kept=kept)


def log_measured(store: Store, measured: Measured, *, run_name: str) -> Evaluation:
    """Log an evaluation whose calls were made elsewhere."""
    with open_run(store, "evaluate", run_name, simulated=measured.judge.simulated, tags=measured.tags) as run_id:
        return _keep_and_log(store, measured, run_id, key=outbox.outbox_key(run_id), elsewhere="")


def _keep_and_log(store: Store, measured: Measured, run_id: str, *, key: str, elsewhere: str) -> Evaluation:
    """Log an evaluation; `elsewhere` says where its answers are when no disk can keep them."""
    # On disk before MLflow is spoken to: from here on nothing that was asked can be lost.
    with (
        ending(store, run_id, keeps_finished=True),
        outbox.keep(measured.parcel(), key=key, target=store.address(run_id)) as kept,
    ):
        try:
            return _log(store, measured, run_id, kept=kept, elsewhere=elsewhere, is_new=True)
        except (KeyboardInterrupt, SystemExit):
            # Stopped, and aborted while that was logged: the same call goes on with what the journal has.
            if measured.truncated and elsewhere == IN_THE_JOURNAL:
                kept.forget()
            raise


def _log(
    store: Store, measured: Measured, run_id: str, *, kept: Kept, elsewhere: str = "", is_new: bool = False
) -> Evaluation:
    what_now = f"Nothing is lost: `jrh evaluate --resume {kept.folder}`, or the same call again, logs it."
    if kept.folder is None:
        what_now = f"No disk takes the calls either ({kept.problem}). {elsewhere}"
    with calm_collector():
        seed, metric = int(measured.run["seed"]), measured.run.get("metric")
        sheet = measure(measured.calls, seed=seed, labels=measured.suite.labels, metric=metric)
        sheet = categorised(sheet, measured.calls, measured.suite.groups, seed=int(measured.run["seed"]))
        try:
            points = evaluation_points(measured, sheet)
            content = evaluation_content(measured, sheet, points)
            logged = publish(store, run_id, content, what_now=what_now, is_new=is_new)
        except TrackingError as error:
            error.calls = measured.calls
            raise
    kept.forget()
    if (version := measured.judge.settings.get("prompt_uri")) is not None:
        link_prompt(str(version), run_id, tracking_uri=store.uri)
    return Evaluation(
        run_id=run_id,
        metrics=keys.last_values(points),
        logged=logged,
        sheet=sheet,
        calls=measured.calls,
        judge=measured.judge,
        suite=measured.suite,
        link=store.link(run_id),
        view=store.view_links(),
        truncated=measured.truncated,
        stopped=_stopped(measured, sheet),
        tracking_uri=store.uri,
    )


@contextmanager
def _progress_bar(name: str, *, total: int, show: bool) -> Iterator[OnRecord | None]:
    """Show rate, spend, failures and time left while asking; nothing where nobody watches."""
    if not show or not is_watched():
        yield None
        return
    spent, failed = 0.0, 0
    with ticking(progress_bar(total=total, name=name, unit="call")) as bar:

        def tick(record: CallRecord) -> None:
            nonlocal spent, failed
            failed += record.outcome in ("error", "unparsed")
            spent += 0.0 if record.cached else record.cost_usd or 0.0
            shown = {"no_answer": failed} if failed else {}
            bar.set_postfix({**shown, **({"usd": f"{spent:.4f}"} if spent else {})}, refresh=False)
            bar.update()

        yield tick


def _stopped(measured: Measured, sheet: Sheet) -> UntilReport | None:
    """Return what came of the rules of `until`, with what the run reads beside it."""
    return None if measured.until is None else UntilReport.from_dict(measured.until).beside(sheet.estimates)


def _measurable(answers: Asked, prepared: Prepared, bound: UntilStop | None = None) -> pd.DataFrame:
    """Return the records as a table; of a run that was stopped, those pairs that have both orders.

    Where calls come in random order most pairs of a stopped run are half asked: all calls stay, and say so.
    """
    frame = calls_frame(answers.records) if answers.records else None
    if frame is not None and (bound is not None or answers.stopped is None):
        return frame if bound is None else halves_marked(frame)
    whole = complete_pairs(frame) if frame is not None else None
    if whole is None or whole.empty:
        if answers.out_of_budget is not None:
            raise BudgetError(_no_money(answers.out_of_budget, prepared))
        raise SuiteError(f"Nothing to measure: asking was stopped ({answers.stopped}) before one pair was complete.")
    return whole


def _no_money(reason: OutOfBudget, prepared: Prepared) -> str:
    """Say what was spent of what, and what would be needed."""
    if isinstance(reason, Overrun):
        return f"Stopped for the {reason}. {MEND_PRICE}"
    n_calls = max(len(item.orders) for item in prepared.suite.items)
    what = "pair" if n_calls > 1 else "item"
    cap, need = (money_text((micro or 0) / 1_000_000) for micro in (prepared.cap_micro, n_calls * reason.need_micro))
    if not reason.spent_micro + reason.held_micro:
        return f"The cap of {cap} does not cover one {what}, which may cost up to {need}. Raise it."
    spent, held = (money_text(micro / 1_000_000) for micro in (reason.spent_micro, reason.held_micro))
    return (
        f"The cap of {cap} has {spent} spent and {held} held by calls in flight elsewhere, and one more {what} may "
        f"cost up to {need}. Raise it: a higher cap continues, and what was answered is not paid again."
    )


def _every_call_failed(answers: Asked, judge: JudgeFacts) -> JudgeError | None:
    """Return the commonest cause, where not one call was answered: there is nothing to measure."""
    errors = [record.error or "no reason given" for record in answers.records if record.outcome == "error"]
    if not errors or len(errors) < len(answers.records) or answers.failure is not None:
        return None
    # Numbers are ids, times and lengths: the same cause with another number is the same cause.
    causes = Counter(re.sub(r"\d+", "#", error) for error in errors)
    commonest, count = causes.most_common(1)[0]
    example = next(error for error in errors if re.sub(r"\d+", "#", error) == commonest)
    others = f", the commonest of {len(causes)} causes" if len(causes) > 1 else ""
    return JudgeError(
        f"{safe_text(example).rstrip('.')} ({count:,} of {len(errors):,} calls{others}). Every call of {judge.label} "
        f"failed: there is nothing to measure. The run is marked as failed and keeps the calls."
    )


def _keep_failed_calls(store: Store, run_id: str, measured: Measured, *, reason: str) -> None:
    """Leave on a run that is about to fail what was asked and why it came to nothing; never instead of the reason."""
    content = RunContent(
        points=[],
        params={"judge": measured.judge.settings, "suite": keys.suite_facts(measured.suite), "run": measured.run},
        description=reason,
        described_in=keys.FAILURE_FILE,
        artifacts={keys.CALLS_FILE: measured.calls, keys.FAILURE_FILE: reason},
    )
    try:
        keep_failed(store, run_id, content)
    except TrackingError as error:
        say(str(error))


def _is_worth_logging(answers: Asked, judge: Judge, bound: UntilStop | None = None) -> bool:
    """Whether a run that something ended has a whole pair, and is not one whose service failed: that is continued."""
    if isinstance(answers.failure, JudgeError) or (isinstance(answers.failure, JrhError) and judge.journalled):
        return False
    if not answers.records or bound is not None:
        return bool(answers.records)
    return not complete_pairs(calls_frame(answers.records)).empty


def _tag_ended(store: Store, run_id: str, truncated: str | None, *, failure: BaseException, texts: bool) -> None:
    """Say on a run that is about to end without numbers how far it came, and why it failed."""
    try:
        with store.errors("The run has no reason on it."):
            store.client.set_tag(run_id, keys.TAG_TRUNCATED, truncated)
            if isinstance(failure, JrhError):
                reason = safe_text(str(failure)) if texts else f"Ended by a {type(failure).__name__}."
                store.client.set_tag(run_id, keys.TAG_NOTE, reason)
    except TrackingError as error:
        say(str(error))


@contextmanager
def _not_instead_of(failure: BaseException | None) -> Iterator[None]:
    """Where a run was ended by something, let that be raised, and tell beside it what went wrong while logging."""
    try:
        yield
    except Exception as error:
        if failure is None:
            raise
        raise _noted(failure, str(error)) from error


def _with_evaluation(failure: BaseException, evaluation: Evaluation) -> BaseException:
    """Give what ended a run the evaluation that was logged all the same, as `.evaluation`."""
    failure.evaluation = evaluation  # type: ignore[attr-defined]
    far = f" ({evaluation.truncated})" if evaluation.truncated else ""
    return _noted(failure, f"Logged what was asked{far}: {evaluation.link}")


def _noted(failure: BaseException, note: str) -> BaseException:
    # As `add_note`, which Python 3.10 does not have.
    failure.__notes__ = [*getattr(failure, "__notes__", ()), note]  # type: ignore[attr-defined]
    return failure


def _facts_of(prepared: Prepared) -> JudgeFacts:
    """Read the facts off the judge; one that labelled rows of the suite agrees with itself there."""
    labeller = prepared.suite.origin.get("labeller") or {}
    same = labeller.get("fingerprint") is not None and labeller["fingerprint"] == prepared.judge.fingerprint()
    return replace(JudgeFacts.of(prepared.judge), graded_own_labels=same)


def evaluation_points(measured: Measured, sheet: Sheet) -> list[keys.Point]:
    """Return every number of an evaluation."""
    spent = keys.call_points(measured.calls, seconds=measured.seconds, cpu_seconds=measured.cpu_seconds)
    return [*keys.sheet_points(sheet), *spent, *price_points(measured.calls, sheet)]


def evaluation_content(measured: Measured, sheet: Sheet, points: Sequence[keys.Point]) -> RunContent:
    """Return what the run of one judge on one suite holds; `points` are all its numbers."""
    judge, suite, answered = measured.judge, measured.suite, judge_answerers(measured.judge, measured.calls)
    settings = {**judge.settings, **({"answered_by": answered_by_text(answered)} if answered else {})}
    stopped = _stopped(measured, sheet)
    shown = ShownRun(
        judge=replace(judge, settings=settings),
        suite=SuiteFacts.of(suite),
        calls=measured.calls,
        sheet=sheet,
        seconds=measured.seconds,
        truncated=measured.truncated,
        stopped=stopped,
        worst=() if isinstance(sheet, Datasheet) else worst_items(measured.calls, {one.id: one for one in suite.items}),
    )
    markdown = shown.markdown()
    described = {"name": judge.name, **settings}
    drawings = draw(sheet_figures(sheet, measured.calls, judge.label))
    page = shown.page(drawings)
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
                **({"answered_by": [asdict(one) for one in answered]} if answered else {}),
                **sheet.to_dict(),
                "metrics": keys.last_values(points),
            },
            keys.AXES_TABLE: axes_table(keys.sheet_readings(sheet)),
            keys.DATASHEET_MARKDOWN: markdown,
            **({keys.UNTIL_JSON: stopped.to_dict()} if stopped else {}),
            **figure_files(drawings),
            keys.DATASHEET_PAGE: page,
        },
        suite=suite,
        traces=partial(log_traces, traced=traced_calls(measured)),
        entry=_entry(measured, sheet, points, answered),
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
    )


def _entry(
    measured: Measured, sheet: Sheet, points: Sequence[keys.Point], answered: Sequence[Answerer]
) -> JudgeEntry | None:
    """Return the judge's line on the Models page; of a sweep only judges that were measured on tasks set aside."""
    if measured.tags.get(keys.TAG_STAGE) in ("search", "refine"):
        return None
    judge, readings = measured.judge, _reading_tags(sheet)
    own = (keys.TAG_PROFILE, keys.TAG_RECORDED, keys.TAG_FINGERPRINT, keys.TAG_TRUNCATED, keys.TAG_WITHHELD)
    told = {tag: text for tag, text in _tags(measured, sheet, answered).items() if tag in own}
    return JudgeEntry(
        label=judge.label,
        fingerprint=judge.fingerprint,
        params=keys.grouped_params({"judge": judge.settings}),
        tags={**told, **readings, keys.TAG_SIMULATED: str(judge.simulated).lower()},
        readings=readings,
        suite_name=measured.suite.name,
        suite_sha256=measured.suite.sha256,
        points=keys.entry_points(points, sheet),
        whole=measured.truncated is None,
    )


def _tags(measured: Measured, sheet: Sheet, answered: Sequence[Answerer]) -> dict[str, str]:
    tags = {keys.TAG_PROFILE: sheet.profile, **measured.tags, **_reading_tags(sheet), **table_tags(keys.AXES_TABLE)}
    if measured.judge.recorded:
        tags[keys.TAG_RECORDED] = "true"
    if measured.judge.fingerprint:
        tags[keys.TAG_FINGERPRINT] = measured.judge.fingerprint
    tags[keys.TAG_JUDGE] = measured.judge.name
    if generated := measured.suite.origin.get("generate_run_id"):
        tags[keys.TAG_GENERATED_BY] = str(generated)
    if metric := measured.run.get("metric"):
        tags[keys.TAG_METRIC] = str(metric)
    if sources := label_sources(measured.calls):
        tags[keys.TAG_LABEL_SOURCE] = ", ".join(sources)
    if measured.truncated:
        tags[keys.TAG_TRUNCATED] = measured.truncated
    if are_several(answered):
        tags[keys.TAG_ANSWERED_BY] = answered_by_text(answered)
    if sheet.withheld:
        tags[keys.TAG_WITHHELD] = ", ".join(sheet.withheld)
    return tags


def _reading_tags(sheet: Sheet) -> dict[str, str]:
    """Return headline readings and thresholds as `jrh.<axis>`: a column of runs then shows a number with its interval.

    The metric of a censored threshold is a bound: its tag says so.
    """
    readings = {**sheet.headline, **thresholds(sheet.estimates)}
    tags = {keys.own_key(axis): tag_text(one) for axis, one in readings.items() if isinstance(one, Estimate)}
    if isinstance(sheet, ReliabilityReport) and (mean := sheet.summary["mean"]) is not None:
        ends = short_interval(sheet.summary["mean_ci_low"], sheet.summary["mean_ci_high"])
        tags[keys.own_key(metric_keys.RELIABILITY_MEAN)] = f"{mean:.2f} {ends}"
    return tags
