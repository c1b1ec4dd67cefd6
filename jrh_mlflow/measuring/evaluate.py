"""`jrh.evaluate`: one judge configuration asked on one suite, as one MLflow run; and what that would cost."""

from __future__ import annotations

import inspect
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.collector import calm_collector
from jrh_mlflow.engine import Asked, calls_frame, random_order
from jrh_mlflow.engine.budget import OutOfBudget, Overrun, cap_advice
from jrh_mlflow.engine.calls import Quote
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.interrupts import hearing_interrupts, say
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.engine.runner import OnRecord, StopRule
from jrh_mlflow.errors import BudgetError, JrhError, JudgeError, RecipeError, SuiteError, TrackingError
from jrh_mlflow.judges import Judge
from jrh_mlflow.measures.records import complete_pairs, halves_marked
from jrh_mlflow.measuring.evaluation import (
    IN_THE_ERROR,
    IN_THE_JOURNAL,
    Evaluation,
    keep_and_log,
    log_kept,
    open_evaluation,
)
from jrh_mlflow.measuring.measured import JudgeFacts, Measured
from jrh_mlflow.measuring.resolve import Prepared, prepare
from jrh_mlflow.measuring.until import UNTIL, Until, UntilStop, bound_axes
from jrh_mlflow.models import trust
from jrh_mlflow.models.transports import safe_text
from jrh_mlflow.options import Metrics, Moment, checked_metrics
from jrh_mlflow.progress import is_watched, progress_bar, ticking
from jrh_mlflow.schema.items import PROTOCOL, SINGLE_CONDITIONS, CallRecord
from jrh_mlflow.scoring.metric import DEFAULT, find_metric
from jrh_mlflow.scoring.pointwise import scale_of
from jrh_mlflow.show.numbers import money_text
from jrh_mlflow.show.results import check_definitions
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.runs import keys, outbox
from jrh_mlflow.tracking.runs.store import LoggedAhead, RunContent, Store, keep_failed, log_paid, store_place
from jrh_mlflow.tracking.traces.call_traces import checked_traces

if TYPE_CHECKING:
    import pandas as pd

    from jrh_mlflow.models.prices import Overrides

"""What to do when calls cost more than their worst case."""


@calm_collector()
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
    traces: str = "sample",
    metrics: Metrics = "headline",
    texts: bool = True,
    prices: Overrides | None = None,
    requests_per_minute: float | None = None,
    tokens_per_minute: float | None = None,
    timeout_s: float = 120.0,
    fresh_after: Moment | None = None,
    keep_unreadable: bool = False,
    parent_run_id: str | None = None,
    shuffle: int | None = None,
    budget: str | None = None,
    metric: str = DEFAULT,
    definitions: str = PROTOCOL,
    allow_key_to: str | Sequence[str] | None = None,
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
        traces: Which calls become MLflow traces: a fair `sample`, examples of `failures`, `all` or `none`. They go to
            the experiment `<experiment>-calls`; with `:run` behind the word (`sample:run`) to that of the run.
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
        keep_unreadable: Where an earlier run ended because none of its first answers could be read, those are asked
            anew, once; True keeps them.
        parent_run_id: Nest the run under this one.
        shuffle: Ask the items in the random order of this seed, so that a `stop` rule sees a random sample of them.
            `jrh.until` draws an order in any case, by `seed` where this is None.
        budget: Name of a budget of the journal that `max_usd` caps together with other evaluations of that name.
        metric: Of reliability suites: what stands for tests whose items carry the right answer, in scores, tables and
            the mean over tests. A function of sklearn.metrics that takes (expected, answer), such as `f1_score` (of two
            labels the last is positive, of more it is macro-averaged) or `mean_absolute_error` (of a scale), or
            `matthews`, `kappa`, `kappa_quadratic`, `mae`, …. Errors are never averaged with shares.
        definitions: `"paper"` reads to the letter of the papers: stability by accuracy and not by unanimity, dollars
            per accuracy point from the calls of tests alone, the profile by intervals over calls. Logged as the param
            `run.definitions`.
        allow_key_to: Hosts that may get keys though only a recipe, a space or a registered judge names them: `HOST`,
            `HOST:PORT`, or `http://HOST` for one without encryption. Remembered for this user.

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
    trust.allow_key_to(allow_key_to)
    traces, metrics = checked_traces(traces), checked_metrics(metrics)
    check_definitions(definitions, metric)
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
    asking = _Asking(
        prepared=prepared,
        facts=_facts_of(prepared),
        metric=checked_metric(metric, prepared.suite),
        definitions=None if definitions == PROTOCOL else definitions,
        stop=stop,
        until=bound_until(stop, prepared, seed=seed if shuffle is None else shuffle),
        run_name=run_name,
        parent=parent_run_id,
        seed=seed,
        tags=dict(tags or {}),
        traces=traces,
        metrics=metrics,
        texts=texts,
        max_usd=max_usd,
        shuffle=shuffle,
        progress=progress,
    )
    prepared.check_ready(None if asking.until is None else asking.until.calls)
    store = Store(tracking_uri, experiment)
    key = asking.outbox_key(store)
    # What waits in the outbox is this very evaluation, finished: to ask again would pay twice.
    if (kept := outbox.oldest_kept(key)) is not None:
        print(f"note: Logging the calls kept in {kept.folder}: nothing is asked again.", file=sys.stderr)
        return log_kept(kept, tracking_uri=store.uri, metrics=metrics)
    client = ClientSettings(
        concurrency=prepared.concurrency,
        timeout_s=timeout_s,
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
        budget=prepared.budget(budget),
        price=prepared.price,
        fresh_after=prepared.freshness,
        keep_unreadable=keep_unreadable,
    )
    # From here on the first signal stops the asking, and what is there is logged before it is raised.
    with hearing_interrupts() as interrupts, interrupts.waiting():
        with asking.opened(store) as run_id, asking.logged_ahead(store, run_id) as ahead:
            answers, whole = asking.ask(client, store, run_id)
            # Hashed before it touches a disk: what waits for MLflow in the outbox has no texts either.
            measured = whole if texts else whole.without_texts()
            if dead := _every_call_failed(answers, asking.facts):
                log_paid(store, run_id, answers.paid)
                _keep_failed_calls(store, run_id, measured, reason=str(dead) if texts else "Every call failed.")
                raise dead
        with _not_instead_of(answers.failure):
            elsewhere = IN_THE_JOURNAL if prepared.judge.model_judge else IN_THE_ERROR
            done = keep_and_log(store, measured, run_id, key=key, elsewhere=elsewhere, ahead=ahead)
            done = replace(done, judge=asking.facts, suite=whole.suite, asked=whole.calls)
    failure = answers.failure or interrupts.failure
    if failure is not None:
        raise _with_evaluation(failure, done)
    return done


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asking:
    """One evaluation, ready to be asked: judge and suite that fit, with the rules that may end it early."""

    prepared: Prepared
    facts: JudgeFacts
    metric: str | None
    """What stands for labelled tests; None: accuracy."""
    definitions: str | None
    """None: those of the protocol."""
    stop: StopRule | None
    until: UntilStop | None
    """The stop rule bound to its calls, where it is a `jrh.until`."""
    run_name: str | None
    parent: str | None
    """Run that it is nested under."""
    seed: int
    tags: dict[str, str]
    traces: str
    metrics: Metrics
    texts: bool
    """False: MLflow and the outbox get hashes in place of texts."""
    max_usd: float | None
    shuffle: int | None
    """Seed of the order in which items are asked; None: the order of the suite."""
    progress: bool

    @property
    def fresh_after(self) -> str | None:
        moment = self.prepared.fresh_after
        return None if moment is None else moment.isoformat()

    def outbox_key(self, store: Store) -> str:
        """Name the evaluation by all that makes it this one: the same call again finds what was kept of it."""
        until = None if self.until is None else (self.until.until.text, self.until.until.level)
        parts = [
            self.parent,
            self.parent and self.run_name,
            self.fresh_after,
            self.texts,
            self.metric,
            self.definitions,
            until,
        ]
        # The same evaluation for another store or experiment is a run of its own.
        place = store_place(store.uri), store.experiment_id
        return outbox.outbox_key(*self.prepared.identity, self.seed, *place, *parts)

    def opened(self, store: Store) -> AbstractContextManager[str]:
        """Open the run."""
        return open_evaluation(
            store,
            self.facts,
            self.prepared.suite,
            settings={
                "replicates": self.prepared.replicates,
                "seed": self.seed,
                "metric": self.metric,
                **({"definitions": self.definitions} if self.definitions else {}),
                "until": self.until.until.text if self.until else None,
                "fresh_after": self.fresh_after,
            },
            tags=self.tags,
            name=self.run_name,
            parent=self.parent,
        )

    def logged_ahead(self, store: Store, run_id: str) -> AbstractContextManager[LoggedAhead | None]:
        """Begin to log what is known already, where a model is waited for; never texts that are to stay here."""
        if not self.texts or self.prepared.judge.model_judge is None:
            return nullcontext()
        suite = self.prepared.suite
        return LoggedAhead(store, run_id, suite, {"judge": self.facts.settings, "suite": keys.suite_facts(suite)})

    def ask(self, client: ClientSettings, store: Store, run_id: str) -> tuple[Asked, Measured]:
        """Ask every call, or those that the rules need, and return the answers with the record of them.

        Raises:
            BaseException: what ended the asking, where nothing that was answered is worth logging.
        """
        prepared, until, total = self.prepared, self.until, self.prepared.n_calls
        started = time.perf_counter()
        planned = prepared.plan(self.shuffle) if until is None else until.calls
        shown = total if until is None else len(until.calls)
        with _progress_bar(self.facts.name, total=shown, show=self.progress) as tick:
            answers = prepared.ask(client, planned, on_record=tick, stop=until or self.stop)
        # The rules may need fewer calls than the suite has, and all of those were asked.
        if until is not None and answers.stopped is None and len(answers.records) < total:
            answers.stopped = UNTIL
        truncated = f"{answers.stopped}: {len(answers.records)} of {total} calls" if answers.stopped else None
        if answers.failure is not None and not _is_worth_logging(answers, prepared.judge, until):
            log_paid(store, run_id, answers.paid)
            _tag_ended(store, run_id, truncated, failure=answers.failure, texts=self.texts)
            raise answers.failure
        try:
            calls = _measurable(answers, prepared, until)
        except JrhError:
            log_paid(store, run_id, answers.paid)
            raise
        record = Measured(
            judge=self.facts,
            suite=prepared.suite,
            calls=calls,
            run={
                "seed": self.seed,
                "replicates": prepared.replicates,
                "concurrency": prepared.concurrency,
                "max_usd": self.max_usd,
                "journal": prepared.journal_place,
                "fresh_after": self.fresh_after,
                **({"metric": self.metric} if self.metric else {}),
                **({"definitions": self.definitions} if self.definitions else {}),
                **({"until": until.until.text} if until else {}),
            },
            seconds=time.perf_counter() - started,
            tags=self.tags,
            truncated=truncated,
            until=until.report().to_dict() if until else None,
            traces=self.traces,
            metrics=self.metrics,
            paid=None if answers.paid is None else asdict(answers.paid),
        )
        return answers, record


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
    if "pair" in kinds or conditions <= set(SINGLE_CONDITIONS):
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
    if not prepared.judge.model_judge:
        kind = f"{prepared.judge.name!r} is a {prepared.judge.kind} judge"
        raise RecipeError(f"Only a prompted judge has a price beforehand, and {kind}.")
    return prepared.quote(None if bound is None else bound.calls)


def dry_prepared(
    judge: object,
    suite: Suite | str | Path | None = None,
    *,
    traces: str = "sample",
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
    prepared = prepare(judge, suite, **given)
    checked_metric(metric, prepared.suite)
    bound_until(as_evaluate.get("stop"), prepared, seed=0)
    return prepared


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
            # What the journal answers was paid before.
            spent += 0.0 if record.cached else record.cost_usd or 0.0
            shown = {"no_answer": failed} if failed else {}
            # Drawing for every call would slow the asking: `update` redraws at intervals.
            bar.set_postfix({**shown, **({"usd": f"{spent:.4f}"} if spent else {})}, refresh=False)
            bar.update()

        yield tick


def _measurable(answers: Asked, prepared: Prepared, bound: UntilStop | None = None) -> pd.DataFrame:
    """Return the records as a table; of a run that was stopped, those pairs that have both orders.

    Where calls come in random order most pairs of a stopped run are half asked: all calls stay, and say so.
    """
    frame = calls_frame(answers.records, on_disk=True) if answers.records else None
    if frame is not None and (bound is not None or answers.stopped is None):
        return frame if bound is None else halves_marked(frame)
    whole = complete_pairs(frame) if frame is not None else None
    if whole is None or whole.empty:
        if answers.out_of_budget is not None:
            raise BudgetError(_no_money(answers.out_of_budget, prepared))
        raise SuiteError(f"Nothing to measure: asking was stopped ({answers.stopped}) before one pair was complete.")
    return whole


def _no_money(reason: OutOfBudget, prepared: Prepared) -> str:
    """Say what failed most often, what was spent of what, and what would be needed."""
    if isinstance(reason, Overrun):
        return f"Stopped for the {reason}. {cap_advice(str(reason))}"
    n_calls = max(len(item.orders) for item in prepared.suite.items)
    what = "pair" if n_calls > 1 else "item"
    cap, need = (money_text((micro or 0) / 1_000_000) for micro in (prepared.cap_micro, n_calls * reason.need_micro))
    if not reason.spent_micro + reason.held_micro:
        return f"The cap of {cap} does not cover one {what}, which may cost up to {need}. Raise it."
    spent, held = (money_text(micro / 1_000_000) for micro in (reason.spent_micro, reason.held_micro))
    failed = f"{safe_text(reason.failure)}. " if reason.failure else ""
    advice = cap_advice(str(reason), "it: a higher cap continues, and what was answered is not paid again.")
    return (
        f"{failed}The cap of {cap} has {spent} spent and {held} held by calls in flight elsewhere, and one more {what} "
        f"may cost up to {need}. {advice}"
    )


def _every_call_failed(answers: Asked, judge: JudgeFacts) -> JudgeError | None:
    """Return the commonest cause, where not one call was answered: there is nothing to measure."""
    if answers.failure is not None or any(record.outcome != "error" for record in answers.records):
        return None
    errors = [record.error or "no reason given" for record in answers.records]
    if not errors:
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
    # What a model answered is in the journal: the same call again goes on from there, and is whole in the end.
    if isinstance(answers.failure, JudgeError) or (isinstance(answers.failure, JrhError) and judge.model_judge):
        return False
    if not answers.records or bound is not None:
        return bool(answers.records)
    return not complete_pairs(calls_frame(answers.records, on_disk=True)).empty


def _tag_ended(store: Store, run_id: str, truncated: str | None, *, failure: BaseException, texts: bool) -> None:
    """Say on a run that is about to end without numbers how far it came, and why it failed."""
    try:
        with store.errors("The run has no reason on it."):
            store.client.set_tag(run_id, keys.TAG_TRUNCATED, truncated)
            if isinstance(failure, JrhError):
                # The text of an error may quote a prompt or an answer.
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
