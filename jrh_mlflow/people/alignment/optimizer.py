"""`CheckedOptimizer`: any alignment optimiser of MLflow's, whose result must prove itself on traces it never saw."""

from __future__ import annotations

import copy
import hashlib
import logging
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

from mlflow.entities import Trace
from mlflow.genai.judges import AlignmentOptimizer, Judge

from jrh_mlflow.errors import JrhError, JrhWarning, JudgeError, RecipeError, TrackingError
from jrh_mlflow.models.redirects import no_redirects
from jrh_mlflow.models.transports import safe_text
from jrh_mlflow.people.alignment import asking
from jrh_mlflow.people.alignment.aligned import Alignment, alignment_content, failed_content
from jrh_mlflow.people.alignment.asking import LabelledTrace
from jrh_mlflow.people.alignment.held_out import (
    SENT_BACK,
    JudgedTrace,
    Probe,
    TraceAnswer,
    least_traces,
    measure_alignment,
    needed_traces,
    size_note,
)
from jrh_mlflow.progress import progress_bar
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED
from jrh_mlflow.tracking.mlflow_internals import remembered_traces
from jrh_mlflow.tracking.runs.store import Store, active_uri, keep_failed, open_run, publish
from jrh_mlflow.tracking.runs.view import trace_link
from jrh_mlflow.tracking.traces.traces_in import shown_fields, with_outputs

SUITES = ("short",)
_MOST_PROBES = 60
"""Held-out traces that the short suite takes, one rule each."""
_QUOTED = 20
"""Characters from which an output found in a judge's instructions is taken for an example that it was given."""
_NO_EXPERIMENT = "0"
"""Of traces that no experiment was chosen for."""

logger = logging.getLogger("jrh_mlflow")


class CheckedOptimizer(AlignmentOptimizer):  # type: ignore[misc]  # MLflow has no types
    """Aligns a judge on some of the traces and returns the result only if the others do not speak against it.

        optimizer = jrh.CheckedOptimizer(SIMBAAlignmentOptimizer(...))
        judge = judge.align(traces, optimizer=optimizer)
        optimizer.result.decision                       # "better", "not worse" or "sent back"

    Traces are split within people's labels. The inner optimiser is given one part; both judges are then asked about the
    other, without what was said about it, and compared by trace: agreement with people, and consistency with themselves
    where only the layout of an output changes. The aligned judge is returned if the 95 % interval of the difference in
    agreement excludes a loss over `margin`, and called better only if its lower end is above 0. Else the old judge is
    returned, with the reason in a warning and in `result`.
    """

    result: Alignment | None = None
    """Of the last alignment."""

    def __init__(
        self,
        inner: AlignmentOptimizer,
        *,
        holdout: float = 0.5,
        margin: float = 0.05,
        seed: int = 0,
        scale: Sequence[object] | str | None = None,
        suite: str | None = "short",
        concurrency: int = 8,
        log: bool = True,
        experiment: str | None = None,
        run_name: str | None = None,
        tracking_uri: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Wrap an optimiser; nothing is asked yet.

        Args:
            inner: The optimiser that aligns, as `MemAlignOptimizer()` or `SIMBAAlignmentOptimizer()`.
            holdout: Share of the labelled traces to measure on.
            margin: Loss of agreement with people, in shares of traces, that must be excluded.
            seed: Of the split and the layouts.
            scale: Ordered labels low to high, or `numeric`: several people count by their median, and quadratic kappas
                are given beside. Agreement is exact either way.
            suite: `short` asks both judges about up to 60 held-out traces once more, laid out otherwise; None does not.
            concurrency: Most calls of a judge at a time.
            log: Log a run of kind `align`.
            experiment: MLflow experiment of the run; that of the traces when None.
            run_name: Name of the run.
            tracking_uri: MLflow store; the active one when None.
            tags: More tags for the run.
        """
        # A judge has a method of that name, too, and takes something else.
        if isinstance(inner, type | Judge) or not callable(getattr(inner, "align", None)):
            needed = "has the method align(judge, traces)"
            raise RecipeError(f"An inner optimiser {needed}, but got {type(inner).__name__}.")
        if not 0 < holdout < 1 or not 0 < margin < 1:
            raise ValueError(f"`0 < holdout < 1` and `0 < margin < 1` must hold, but got {holdout=}, {margin=}.")
        if concurrency < 1 or suite not in (*SUITES, None):
            raise ValueError(f"`concurrency >= 1` must hold, suite must be 'short' or None: {concurrency=}, {suite=}.")
        self.inner = inner
        self.holdout, self.margin, self.seed = holdout, margin, seed
        self.scale, self.suite, self.concurrency = asking.label_scale(scale), suite, concurrency
        self.log, self.experiment, self.run_name = log, experiment, run_name
        self.tracking_uri, self.tags = tracking_uri, tags

    def align(self, judge: Judge, traces: list[Trace]) -> Judge:
        """Align a judge and return it, or the old one where the held-out traces speak against it.

        Raises:
            RecipeError: when too few traces have a person's label to decide anything, before any call.
            JudgeError: when the judge hardly answers, before anything is aligned.
        """
        done = self.check(judge, traces)
        if done.decision == SENT_BACK:
            warnings.warn(f"Sent back, the judge is as it was: {done.reason}", JrhWarning, stacklevel=4)
        else:
            logger.info("Aligned, %s: %s", done.decision, done.reason)
        return done.judge

    def check(self, judge: Judge, traces: Iterable[Trace]) -> Alignment:
        """Do the same and return what came of it; it says nothing but what has to be known beforehand."""
        # A failure must not leave the result of an earlier alignment behind.
        self.result = None
        if judge.is_session_level_scorer:
            raise RecipeError(f"{judge.name!r} judges sessions, and MLflow aligns judges of single traces only.")
        traces = list(traces)
        if not all(isinstance(trace, Trace) for trace in traces):
            raise RecipeError('Traces must be MLflow\'s own, as mlflow.search_traces(return_type="list") gives them.')
        labelled, left_out = asking.traces_with_labels(traces, judge.name, self.scale)
        split = asking.split_traces(labelled, holdout=self.holdout, seed=self.seed, is_known=partial(_knows, judge))
        self._check_sizes(judge, split, n_given=len(traces))
        parts = {"given": len(traces), "training": len(split.training), "held out": len(split.held_out)}
        counts = {**parts, **left_out, **split.counts}
        held_out = _HeldOut(
            answers=asking.possible_answers(judge, {trace.label for trace in labelled}, self.scale),
            scale=self.scale,
            concurrency=self.concurrency,
            traces=split.held_out,
        )
        if not self.log:
            self.result = self._measured(judge, split, held_out, counts, uri="")
            return self.result
        store = self._store(split.held_out)
        with open_run(store, "align", self.run_name or f"align {judge.name}", tags=self.tags) as run_id:
            try:
                done = self._measured(judge, split, held_out, counts, uri=store.uri)
            except Exception as error:
                self._keep_failed(store, run_id, judge, held_out, error)
                raise
            done = replace(done, run_id=run_id, link=store.link(run_id))
            # Kept before it is published: a store that is gone must not take a paid result with it.
            self.result = done
            texts = {"before": str(judge.instructions), "after": str(done.aligned.instructions)}
            self._publish(store, run_id, done, texts)
        return self.result

    def _check_sizes(self, judge: Judge, split: asking.Split, *, n_given: int) -> None:
        """Say before anything is paid that nothing can come of it, or that only a clear gain can."""
        n, least = len(split.held_out), least_traces(self.margin)
        if not split.training and not n:
            raise RecipeError(
                f"None of {n_given} traces has feedback of a person (source type HUMAN) named {judge.name!r}, "
                "which is the label to align with."
            )
        if n < least:
            usual = math.ceil(needed_traces(self.margin) / self.holdout)
            raise RecipeError(
                f"{n} held-out traces can decide nothing: it takes at least {math.ceil(least / self.holdout)} labelled "
                f"traces, and {usual} to show that a judge is not worse by {self.margin:g} where nothing changes."
            )
        required = getattr(self.inner, "get_min_traces_required", lambda: 1)()
        if len(split.training) < required:
            raise RecipeError(
                f"{type(self.inner).__name__} needs {required} traces to learn from, and {len(split.training)} are "
                f"left when a share of {self.holdout:g} is held out. Label more, or lower holdout."
            )
        if note := size_note(n, self.margin):
            warnings.warn(note, JrhWarning, stacklevel=4)

    def _measured(
        self, judge: Judge, split: asking.Split, held_out: _HeldOut, counts: Mapping[str, int], uri: str
    ) -> Alignment:
        """Ask the old judge, align, ask the new one, and compare."""
        # Made before it is asked: a judge may remember what it was shown.
        lent = _copied(judge)
        before = held_out.ask(judge, "before")
        # Before the optimiser is paid: a judge that hardly answers cannot be compared.
        _refuse_silent(judge, before)
        aligned = self._aligned(judge, lent, [trace.trace for trace in split.training])
        after = held_out.ask(aligned, "after")
        probes = held_out.probes(judge, aligned, seed=self.seed) if self.suite else {}
        judged = [
            JudgedTrace(
                trace=trace.id,
                label=trace.label,
                n_people=trace.n_people,
                before=before[place],
                after=after[place],
                link=_link(trace, uri),
                probe=probes.get(place),
            )
            for place, trace in enumerate(split.held_out)
        ]
        order = self.scale.order
        report = measure_alignment(judged, margin=self.margin, order=order, counts=counts, seed=self.seed)
        return Alignment(
            report=report,
            judge=judge if report.decision == SENT_BACK else aligned,
            aligned=aligned,
            settings=self._settings,
            facts={"before": _facts(judge), "after": _facts(aligned)},
        )

    @property
    def _settings(self) -> dict[str, object]:
        own = {name: getattr(self, name) for name in ("holdout", "margin", "seed", "suite")}
        return {"optimizer": type(self.inner).__name__, **own}

    def _aligned(self, judge: Judge, lent: Judge, training: list[Trace]) -> Judge:
        """Align a copy: an optimiser that changes what it is given must not change the judge to go back to."""
        # An optimiser may change the judge it was lent and return it: only where it stayed equal it is the old one.
        as_lent = _copied(lent)
        with no_redirects():
            aligned = self.inner.align(lent, training)
        if not isinstance(aligned, Judge):
            raise RecipeError(f"{type(self.inner).__name__} returned no judge, but {type(aligned).__name__}.")
        return judge if aligned is lent and lent == as_lent else aligned

    def _store(self, traces: Sequence[LabelledTrace]) -> Store:
        """Open the store: the experiment is the one that was named, else that of the traces where they have one."""
        experiments = {str(trace.trace.info.experiment_id) for trace in traces} - {_NO_EXPERIMENT, "None"}
        uri = self.tracking_uri or active_uri()
        if self.experiment or len(experiments) != 1:
            return Store(uri, self.experiment)
        # The experiment is the application's: what its pages open on stays.
        return Store(uri, experiment_id=experiments.pop(), saves_view=False)

    def _keep_failed(self, store: Store, run_id: str, judge: Judge, held_out: _HeldOut, error: Exception) -> None:
        """Leave on a run that is about to fail why, and what was paid for; never instead of the reason."""
        reason = str(error) if isinstance(error, JrhError) else f"{type(error).__name__}: {error}"
        facts = {"name": judge.name, **_facts(judge)}
        answers = held_out.rows(store.uri)
        content = failed_content(safe_text(reason), settings=self._settings, judge=facts, answers=answers)
        try:
            keep_failed(store, run_id, content)
        except TrackingError as problem:
            warnings.warn(str(problem), JrhWarning, stacklevel=4)

    def _publish(self, store: Store, run_id: str, done: Alignment, texts: Mapping[str, str]) -> None:
        """Log what came of it; a store that is gone by now must not take a paid alignment with it."""
        try:
            publish(store, run_id, alignment_content(done, texts), what_now="The result is in `optimizer.result`.")
        except TrackingError as error:
            warnings.warn(str(error), JrhWarning, stacklevel=4)


@dataclass(frozen=True, kw_only=True)
class _HeldOut:
    """The held-out traces, and how judges are asked about them."""

    traces: Sequence[LabelledTrace]
    answers: tuple[str, ...]
    scale: asking.LabelScale
    concurrency: int
    verdicts: dict[str, list[TraceAnswer]] = field(default_factory=dict)
    """What judges said so far, `before` and `after`."""

    def ask(self, judge: Judge, name: str) -> list[TraceAnswer]:
        """Ask about every trace, in order."""
        self.verdicts[name] = self._asked(judge, [trace.trace for trace in self.traces], name)
        return self.verdicts[name]

    def rows(self, uri: str) -> list[dict[str, object]]:
        """Return what judges said so far, one row per trace."""
        rows_of_traces: list[dict[str, object]] = []
        for place, trace in enumerate(self.traces):
            row: dict[str, object] = {"trace": trace.id, "people": trace.label}
            for side, verdicts in self.verdicts.items():
                verdict = verdicts[place]
                row |= {side: verdict.answer or None, f"{side}_outcome": verdict.outcome}
                row |= {f"{side}_error": safe_text(verdict.error) or None}
            rows_of_traces.append({**row, "link": _link(trace, uri)})
        return rows_of_traces if self.verdicts else []

    def probes(self, before: Judge, after: Judge, *, seed: int) -> dict[int, Probe]:
        """Ask both judges about traces that are laid out otherwise, one rule each in turn; place to what they said."""
        made: dict[int, tuple[str, Trace]] = {}
        for place, labelled in enumerate(self.traces):
            # Numbered by what was made, so that the rules take turns where some traces cannot be changed.
            changed = asking.reformatted(shown_fields(labelled.trace)[1], len(made), seed=seed)
            if changed is not None and len(made) < _MOST_PROBES:
                made[place] = (changed[0], with_outputs(labelled.trace, changed[1]))
        shown = [trace for _, trace in made.values()]
        verdicts = zip(
            self._asked(before, shown, "layout, before"), self._asked(after, shown, "layout, after"), strict=True
        )
        return {
            place: Probe(rule=rule, before=old, after=new)
            for (place, (rule, _)), (old, new) in zip(made.items(), verdicts, strict=True)
        }

    def _asked(self, judge: Judge, traces: Sequence[Trace], name: str) -> list[TraceAnswer]:
        ask = partial(asking.ask_on_trace, judge, answers=self.answers, scale=self.scale)
        pool = ThreadPoolExecutor(self.concurrency) if self.concurrency > 1 else None
        try:
            with pool or nullcontext():
                answers = pool.map(ask, traces) if pool else map(ask, traces)
                return list(progress_bar(answers, total=len(traces), name=name, unit="trace", leave=False))
        except BaseException:
            # Ctrl-C too: calls that have not begun would be paid for nobody.
            if pool:
                pool.shutdown(wait=False, cancel_futures=True)
            raise


def _refuse_silent(judge: Judge, verdicts: Sequence[TraceAnswer]) -> None:
    lost = [verdict for verdict in verdicts if not verdict.given]
    if len(lost) > MAX_EXCLUDED * len(verdicts):
        raise JudgeError(
            f"{judge.name!r} gave no verdict on {len(lost)} of {len(verdicts)} held-out traces ({lost[0].outcome}: "
            f"{safe_text(lost[0].error)}). Nothing can be decided, and nothing was aligned."
        )


def _knows(judge: Judge, trace: LabelledTrace) -> bool:
    """Whether a judge has learned from a trace before: by its id in a memory, or by its words in the instructions."""
    if trace.id in remembered_traces(judge):
        return True
    text = asking.longest_text(shown_fields(trace.trace)[1])
    return len(text) >= _QUOTED and text in str(judge.instructions)


def _facts(judge: Judge) -> dict[str, object]:
    return {
        "model": getattr(judge, "model", None),
        "kind": type(judge).__name__,
        "instructions_sha256": hashlib.sha256(str(judge.instructions).encode()).hexdigest(),
    }


def _copied(judge: Judge) -> Judge:
    """Return a whole copy, or one that shares what cannot be copied, such as a lock."""
    try:
        return copy.deepcopy(judge)
    except Exception:  # What an object refuses to be copied with is its own affair.
        return judge.model_copy()


def _link(trace: LabelledTrace, uri: str) -> str:
    return trace_link(uri, str(trace.trace.info.experiment_id), trace.id) if uri else ""
