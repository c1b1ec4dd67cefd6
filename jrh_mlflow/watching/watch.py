"""`jrh.watch`: one look at a measured judge; has it changed since, or has the application that it judges?"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jrh_mlflow.engine import calls_frame
from jrh_mlflow.engine.calls import Quote
from jrh_mlflow.engine.interrupts import say
from jrh_mlflow.engine.journal.writer import lock
from jrh_mlflow.errors import BudgetError, JrhError, JudgeError, RecipeError
from jrh_mlflow.home import private_folder, writable_home
from jrh_mlflow.judges import Judge
from jrh_mlflow.measuring.asked_items import ask_prepared
from jrh_mlflow.measuring.resolve import Prepared, judge_again, prepare
from jrh_mlflow.models import trust
from jrh_mlflow.models.transports import safe_text
from jrh_mlflow.options import AskOptions, takes
from jrh_mlflow.schema.items import USABLE, Item
from jrh_mlflow.show.numbers import money_text, quote_text
from jrh_mlflow.stats.drift import moved_since, session_difference
from jrh_mlflow.suites.suite import Suite, read_suite
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import LoggedRun, experiment_names, finished_runs, load_runs, run_file, run_id_of
from jrh_mlflow.tracking.runs.store import (
    RunContent,
    Store,
    active_uri,
    download,
    log_result,
    publish,
    reading_client,
    shown_content,
)
from jrh_mlflow.tracking.traces.traces_in import PREFIX, TraceTurn, turns_from_traces
from jrh_mlflow.watching.watch_view import (
    ASKS_FILE,
    PANEL_FOLDER,
    TRACES,
    TRACES_FOLDER,
    WATCH_JSON,
    Watch,
    watch_points,
)
from jrh_mlflow.watching.watched import LEVEL, N_REFERENCE, START, PanelAsks, draw_panel, read_watch

_OLD_TRACES, _NEW_TRACES = 50, 50
"""Old sessions that are asked about again at every look, and new ones at most."""
_SEARCHED = 2000
"""Newest traces among which sessions are looked for."""
_OWN, _OLD, _NEW = "suite", "traces", "new"
"""Where an ask belongs: the panel of the suite, that of old traces, or new traces."""
_SAME_LOOK = timedelta(hours=1)
"""A look that was cut short goes on with what it had paid for; older answers are none of this look."""
_FOLDERS = {_OWN: PANEL_FOLDER, _OLD: TRACES_FOLDER}
"""Of the run, with the panels."""


class LookUnderWayError(JrhError):
    """Somebody else looks at this judge: nothing was asked, and the other look says what there is to say."""

    exit_code = 0


@takes(AskOptions)
def watch(
    run: object,
    *,
    panel: int = 56,
    traces: str | None = None,
    judge: object = None,
    seed: int = 0,
    restart: bool = False,
    allow_key_to: str | Sequence[str] | None = None,
    **options: Any,
) -> Watch:
    """Look once whether a measured judge has changed; look as often as you like.

    The first call draws a panel from the suite of the run and asks it six times, to learn the judge's own noise. Every
    later call is a look: the panel is asked once, always afresh and never from the journal, and compared with all
    earlier answers. The chance of a false alarm is 5 % over all looks together. A change stays said: measure the judge
    again, and watch the new run.

    Args:
        run: An `Evaluation`, a run id, `runs:/<id>`, or a unique beginning of an id.
        panel: Calls of a look, at the first call; later ones ask the same panel.
        traces: `traces:/EXPERIMENT` or its name: 50 old sessions become a second panel, and new sessions are judged
            beside them, so that a judge that moved is told from an application that did. Given at the first call.
        judge: The judge itself, where the run does not hold all of it (a callable); as for `jrh.evaluate`.
        seed: Of panel and draws, at the first call.
        restart: Begin a new watch, with a new start.
        allow_key_to: Hosts that may get keys though only the run names them.
        **options: Every field of `AskOptions` (`jrh_mlflow.options`), which are these.
        tracking_uri: MLflow store of the run; the active one when None.
        concurrency: Most calls in flight.
        max_usd: Never spend more than this on one look; a look that does not fit is not counted.
        prices: Model to dollars per million input and output tokens.
        requests_per_minute: Of the endpoint.
        tokens_per_minute: Of the endpoint.
        timeout_s: Of one attempt.
        progress: Show a progress bar on a terminal.

    Raises:
        LookUnderWayError: when another process on this machine looks at the judge: nothing is asked. Also when one
            elsewhere has logged a look meanwhile: then this one is not counted.
        RecipeError: for a run that cannot be watched, or options that are not those of the first call.
        BudgetError: when the look does not fit under `max_usd`.
        JudgeError: when the judge's service fails, or not one call was answered.
        TrackingError: when MLflow cannot be reached.
    """
    trust.allow_key_to(allow_key_to)
    asking = AskOptions.of_keywords(options, of="watch")
    logged, uri = _watched_run(run, asking)
    with _sole_look(logged):
        looking = _looking(logged, uri, judge, panel=panel, traces=traces, seed=seed, restart=restart)
        groups = looking.groups()
        say(f"note: {looking.name} asks {look_cost(looking.quote(groups, asking))}.")
        now, answers = datetime.now(timezone.utc), list[pd.DataFrame]()
        for name, suite, n in groups:
            answers.append(looking.ask(name, suite, n, asking, now))
            if asking.max_usd is not None:
                spent = keys.whole_total(answers[-1], "cost_usd") or 0.0
                asking = asking.model_copy(update={"max_usd": max(asking.max_usd - spent, 1e-6)})
        return looking.published(looking.with_asks(answers, now))


def price_watch(run: object, *, judge: object = None, allow_key_to: object = None, **as_watch: Any) -> Quote:
    """Say what the next look would send and cost, and send nothing; takes the arguments of `watch`."""
    own = {name: as_watch.pop(name) for name in ("panel", "traces", "seed", "restart") if name in as_watch}
    asking = AskOptions.of_keywords(as_watch, of="price_watch")
    looking = _looking(*_watched_run(run, asking), judge, **own)
    return looking.quote(looking.groups(), asking)


def look_cost(quote: Quote) -> str:
    """Say how many calls a look has and what they cost."""
    return f"{quote.calls:,} calls ({quote_text(quote.usd, quote.worst_usd, unknown='price unknown')})"


def _watched_run(run: object, options: AskOptions) -> tuple[LoggedRun, str]:
    uri = str(getattr(run, "tracking_uri", None) or options.tracking_uri or active_uri())
    (logged,) = load_runs([run_id_of(run)], tracking_uri=uri, purpose="watched")
    return logged, uri


@contextmanager
def _sole_look(logged: LoggedRun) -> Iterator[None]:
    """Let one process of this machine look at a judge at a time."""
    fd = os.open(_folder(logged), os.O_RDONLY)
    try:
        if not lock(fd, wait=False):
            raise LookUnderWayError(f"Another look at {logged.judge} is under way: nothing was asked.")
        yield
    finally:
        os.close(fd)


def _folder(logged: LoggedRun, name: str = "") -> Path:
    folder = writable_home() / "watch" / logged.run_id / name
    private_folder(folder)
    return folder


def _looking(
    logged: LoggedRun,
    uri: str,
    judge: object = None,
    *,
    panel: int = 56,
    traces: str | None = None,
    seed: int = 0,
    restart: bool = False,
) -> _Looking:
    """Find the watch of a run, or begin one."""
    asked = judge_again(logged, judge, purpose="watched", tracking_uri=uri)
    name = None if traces is None else traces.removeprefix(PREFIX)
    kept = None if restart else _kept_watch(logged, uri, asked)
    if kept is not None:
        if name is not None and name != kept.traces:
            began = f"with the traces of {kept.traces!r}" if kept.traces else "without traces"
            raise RecipeError(f"The watch of run {logged.run_id} began {began}. Begin a new one: `--restart`.")
        return kept
    panels = {_OWN: draw_panel(logged.suite, logged.calls, n_calls=panel, seed=seed)}
    looking = _Looking(uri=uri, logged=logged, judge=asked, seed=seed, panels=panels, traces=name)
    if name is not None:
        panels[_OLD] = looking.items_of(_old_sessions(name, uri), f"{name}-panel")
    return looking


def _old_sessions(experiment: str, uri: str) -> list[TraceTurn]:
    sessions = _by_session(turns_from_traces(experiment, tracking_uri=uri, most=_SEARCHED))
    if len(sessions) < _OLD_TRACES:
        raise RecipeError(
            f"Experiment {experiment!r} has {len(sessions)} sessions that can be read, and {_OLD_TRACES} are needed "
            "to tell the application from the judge."
        )
    return sessions[:_OLD_TRACES]


def _by_session(turns: Any) -> list[TraceTurn]:
    """Return the newest turn of each session, the newest session first."""
    newest: dict[str, TraceTurn] = {}
    for turn in turns:
        newest.setdefault(turn.session, turn)
    return list(newest.values())


def _kept_watch(logged: LoggedRun, uri: str, judge: Judge) -> _Looking | None:
    """Return the newest watch of a run."""
    with reading_client(uri) as client:
        chosen = f"tags.`{keys.TAG_WATCHED}` = '{logged.run_id}'"
        runs = finished_runs(client, "watch", [*experiment_names(client)], chosen=chosen, most=1)
    if not runs:
        return None
    run_id, params = str(runs[0].info.run_id), keys.param_group(dict(runs[0].data.params), "watch")
    looks, asks = _logged_looks(uri, run_id), run_file(uri, run_id, ASKS_FILE)
    if not looks or asks is None:
        raise RecipeError(f"The files of watch {run_id} are gone. Begin a new one: `--restart`.")
    traces = params.get("traces")
    return _Looking(
        uri=uri,
        logged=logged,
        judge=judge,
        seed=int(params["seed"]),
        panels={
            name: read_suite(download(f"runs:/{run_id}/{folder}", tracking_uri=uri))
            for name, folder in _FOLDERS.items()
            if name == _OWN or traces
        },
        traces=traces,
        run_id=run_id,
        asks=pd.read_parquet(BytesIO(asks)),
        looks=looks,
    )


def _logged_looks(uri: str, run_id: str) -> tuple[Mapping[str, Any], ...]:
    return tuple(json.loads(run_file(uri, run_id, WATCH_JSON) or b"{}").get("looks", ()))


@dataclass(frozen=True, kw_only=True)
class _Looking:
    """A watch with what it has asked so far."""

    uri: str
    logged: LoggedRun
    judge: Judge
    seed: int
    panels: Mapping[str, Suite]
    """The frozen panels, by where their asks belong."""
    traces: str | None
    """Experiment of the application's traces."""
    run_id: str | None = None
    """Of the watch; None before the start."""
    asks: pd.DataFrame | None = None
    looks: tuple[Mapping[str, Any], ...] = ()

    @property
    def look(self) -> int:
        """Number of the look to come; 0 is the start."""
        return len(self.looks)

    @property
    def name(self) -> str:
        """Of the look to come, in a sentence."""
        return f"{f'Look {self.look} at' if self.look else 'The start of the watch of'} {self.logged.judge}"

    def groups(self) -> list[tuple[str, Suite, int]]:
        """Return what is asked at this look: where it belongs, the items, and how often each."""
        n = N_REFERENCE if self.look == START else 1
        own = [(name, panel, n) for name, panel in self.panels.items()]
        if self.traces is None or self.look == START:
            return own
        since = int(1000 * self.looks[-1]["at"])
        turns = _by_session(turns_from_traces(self.traces, tracking_uri=self.uri, since_ms=since, most=_SEARCHED))
        known = {item.task for item in self.panels[_OLD].items}
        new = [turn for turn in turns if turn.session not in known]
        drawn = np.random.default_rng([self.seed, self.look]).permutation(len(new))[:_NEW_TRACES]
        chosen = [new[int(at)] for at in sorted(drawn)]
        return [*own, (_NEW, self.items_of(chosen, f"{self.traces}-new"), 1)] if chosen else own

    def items_of(self, turns: Sequence[TraceTurn], name: str) -> Suite:
        """Return traces as items that the judge can be asked about, as it was on the suite of its run.

        Raises:
            RecipeError: for a judge of pairs, or labels without an order.
        """
        suite, labels = self.logged.suite, self.logged.suite.labels
        first = suite.items[0]
        if first.kind == "pair" or labels is None:
            raise RecipeError(f"Traces hold single answers, and the suite of run {self.logged.run_id} has others.")
        if len(labels) > 2 and not labels.ordinal:
            raise RecipeError("Answers to traces are compared by their level, and these labels have no order.")
        rubrics = {item.rubric for item in suite.items}
        rubric = rubrics.pop() if len(rubrics) == 1 else None
        items = [
            Item(
                id=turn.trace_id,
                task=turn.session,
                condition="trace",
                kind=first.kind,
                answers=first.answers,
                ordinal=first.ordinal,
                rubric=rubric,
                instruction=turn.question,
                response=turn.answer if first.kind == "response" else None,
                transcript=turn.messages if first.kind == "transcript" else None,
            )
            for turn in turns
        ]
        return Suite(name=name, items=items)

    def quote(self, groups: Sequence[tuple[str, Suite, int]], options: AskOptions) -> Quote:
        """Say what a look would send and cost."""
        prepared = [self._prepared(suite, n, options) for _, suite, n in groups]
        return Quote.total([each.quote(afresh=True) for each in prepared])

    def _prepared(self, suite: Suite, replicates: int, options: AskOptions, **more: Any) -> Prepared:
        """Set the judge up for some items."""
        given = {**options.preparing, "replicates": replicates, "tracking_uri": self.uri, **more}
        return prepare(self.judge, suite, fresh_after=datetime.now(timezone.utc) - _SAME_LOOK, **given)

    def _journal(self) -> Path:
        return _folder(self.logged, f"look-{self.look:05}")

    def ask(self, name: str, suite: Suite, replicates: int, options: AskOptions, now: datetime) -> pd.DataFrame:
        """Ask some items of this look, through a journal that this look alone uses; return the answers as rows.

        Raises:
            JudgeError: when the service fails or nothing was answered.
            BudgetError: when money ran out: the look is not counted, and what was paid is kept for an hour.
        """
        journal = str(self._journal() / f"{suite.sha256[:12]}.db")
        prepared = self._prepared(suite, replicates, options, journal=journal)
        prepared.check_ready()
        # Every ask of a call has a number of its own, by which a scripted judge knows that it is asked again.
        first = 0 if self.look == START else N_REFERENCE + self.look - 1
        calls = (replace(call, replicate=first + call.replicate) for call in prepared.plan())
        answers = ask_prepared(prepared, options, what=self.name, budget=str(prepared.budget()), calls=calls)
        if answers.failure is not None:
            raise answers.failure
        if answers.stopped is not None or len(answers.records) < prepared.n_calls:
            reason = safe_text(str(answers.stopped or answers.out_of_budget))
            raise BudgetError(f"The look was not finished and is not counted ({reason}). Raise the cap and look again.")
        frame = calls_frame(answers.records)
        if not frame["outcome"].isin(USABLE).any():
            errors = [record.error for record in answers.records if record.error]
            raise JudgeError(f"Not one call of the look was answered: {safe_text(errors[0] if errors else 'unread')}.")
        asked: pd.DataFrame = frame.assign(look=self.look, panel=name, asked_at=now.isoformat(timespec="seconds"))
        return asked

    def with_asks(self, frames: Sequence[pd.DataFrame], now: datetime) -> _Looking:
        """Return the watch after a look."""
        new = pd.concat(frames, ignore_index=True)
        look = {
            "look": self.look,
            "day": now.strftime("%Y-%m-%d %H:%M"),
            "at": now.timestamp(),
            "calls": len(new),
            "lost": int((~new["outcome"].isin(USABLE)).sum()),
            "usd": keys.whole_total(new, "cost_usd"),
        }
        # What a judge wrote is hostile and long; the answers are what is compared.
        kept = new.drop(columns=["rationale", "error"], errors="ignore")
        both = kept if self.asks is None else pd.concat([self.asks, kept], ignore_index=True)
        return replace(self, asks=both, looks=(*self.looks, look))

    def read(self) -> Watch:
        """Read all looks."""
        assert self.asks is not None
        panels = {
            {_OWN: "", _OLD: TRACES}[name]: PanelAsks(panel, self.asks[self.asks["panel"] == name])
            for name, panel in self.panels.items()
        }
        axes = read_watch(panels, seed=self.seed)
        began = min((axis.began or 1 for axis in axes if axis.alarm), default=None)
        changed = [] if began is None else [call for panel in panels.values() for call in panel.changed_calls(began)]
        n_calls = sum(len(panel.calls) for panel in panels.values())
        return Watch(
            watched_run=self.logged.run_id,
            judge=self.logged.judge,
            axes=tuple(axes),
            looks=self.looks,
            changed_calls=tuple(changed),
            application=self._application(panels[TRACES]) if TRACES in panels else {},
            simulated=self.logged.simulated,
            facts={
                "judge": self.logged.judge,
                "datasheet": f"{self.logged.name} ({self.logged.run_id})",
                "panel": f"{n_calls} calls of {self.logged.suite.name}, asked {N_REFERENCE} times at the start",
                "looks": f"{len(self.looks) - 1}, the newest {self.looks[-1]['day']}",
                "cost of the newest look": money_text(self.looks[-1]["usd"]),
                **({"traces": self.traces} if self.traces else {}),
            },
        )

    def _application(self, old: PanelAsks) -> dict[str, Any]:
        """Compare new sessions with the old ones, as judged at the same look."""
        assert self.asks is not None
        items = {item: at for at, (item, _) in enumerate(old.calls)}
        level = next(axis for axis in old.axes() if axis.name == LEVEL)
        assert level.levels is not None
        scores = {code: float(level.levels[0][number]) / level.width for number, code in enumerate(old.codes)}
        before, since = [], []
        for look in range(1, len(self.looks)):
            rows = self.asks[(self.asks["look"] == look) & (self.asks["outcome"] == "verdict")]
            today = np.full(len(items), np.nan)
            for item, answer in rows.loc[rows["panel"] == _OLD, ["suite_item", "answer"]].itertuples(index=False):
                today[items[item]] = scores.get(str(answer), math.nan)
            before.append(today)
            new = [scores[str(answer)] for answer in rows.loc[rows["panel"] == _NEW, "answer"] if str(answer) in scores]
            since.append(np.array(new, dtype=float))
        numbers = zip(("difference", "low", "high"), session_difference(before, since) or (None,) * 3, strict=True)
        n_new = sum(map(len, since))
        return {"moved": moved_since(before, since), **dict(numbers), "n_new": n_new, "n_old": len(items)}

    def published(self, looked: _Looking) -> Watch:
        """Log the look, mark the judge's own run, and forget the look's journal."""
        done = looked.read()
        with reading_client(self.uri) as client:
            experiment_id = str(client.get_run(self.logged.run_id).info.experiment_id)
        store = Store(self.uri, experiment_id=experiment_id, saves_view=False)
        if self.run_id and len(_logged_looks(self.uri, self.run_id)) != self.look:
            raise LookUnderWayError(
                f"Another look at {self.logged.judge} was logged meanwhile: this one is not counted."
            )
        what_now = "The look is not logged, and its answers are kept for an hour: look again."
        tags = {keys.TAG_WATCHED: self.logged.run_id}
        if self.run_id is None:
            done = log_result(
                store, done, "watch", looked.content, simulated=done.simulated, tags=tags, what_now=what_now
            )
        else:
            done = replace(done, run_id=self.run_id, link=store.link(self.run_id))
            publish(store, self.run_id, looked.content(done), what_now=what_now, replaces=True)
        with store.errors(f"The look is logged in run {done.run_id}; the run of the judge does not say so."):
            shown = {keys.TAG_DRIFT: done.drift, keys.TAG_WATCH_RUN: str(done.run_id)}
            store.log_batch(self.logged.run_id, tags=shown)
        shutil.rmtree(self._journal(), ignore_errors=True)
        return done

    def content(self, done: Watch) -> RunContent:
        """Return what the run of a watch holds after a look."""
        assert self.asks is not None
        panel = self.panels[_OWN]
        settings = {
            "run": self.logged.run_id,
            "panel": sum(len(item.orders) for item in panel.items),
            "panel_sha256": panel.sha256,
            "reference_asks": N_REFERENCE,
            "seed": self.seed,
            "traces": self.traces,
        }
        return shown_content(
            done,
            WATCH_JSON,
            points=watch_points(done.axes, done.looks[-1]),
            params={"watch": settings},
            tags={keys.TAG_WATCHED: self.logged.run_id, keys.TAG_DRIFT: done.drift},
            drawings=done.drawings,
            more={ASKS_FILE: self.asks, **{_FOLDERS[name]: suite for name, suite in self.panels.items()}},
        )
