"""`jrh.watch`: one look at a measured judge; has it changed since, or has the application that it judges?"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jrh_mlflow.engine import calls_frame
from jrh_mlflow.engine.calls import Quote
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.interrupts import say
from jrh_mlflow.errors import BudgetError, JudgeError, RecipeError
from jrh_mlflow.home import private_folder, writable_home
from jrh_mlflow.judges import Judge
from jrh_mlflow.measuring.resolve import Prepared, prepare, resolve_judge
from jrh_mlflow.models import trust
from jrh_mlflow.models.transports import safe_text
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.schema.items import USABLE, Item
from jrh_mlflow.show.cards import ShownResult, brief_run
from jrh_mlflow.show.figures.canvas import plotted
from jrh_mlflow.show.figures.svg import draw, figure_files
from jrh_mlflow.show.numbers import interval_text, money_text, number_text, quote_text
from jrh_mlflow.show.page import Drawing, Page
from jrh_mlflow.stats.drift import moved_since, session_difference
from jrh_mlflow.suites.suite import Suite, read_suite
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.judges.identity import MeasuredJudge, measured_judge
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import LoggedRun, experiment_names, finished_runs, load_runs, run_file, run_id_of
from jrh_mlflow.tracking.runs.store import (
    RunContent,
    Store,
    active_uri,
    download,
    open_run,
    publish,
    reading_client,
)
from jrh_mlflow.tracking.traces.traces_in import PREFIX, TraceTurn, turns_from_traces
from jrh_mlflow.watching.watch_view import (
    ASKS_FILE,
    AXES,
    PANEL_FOLDER,
    TRACES,
    TRACES_FOLDER,
    WATCH_JSON,
    WATCH_MARKDOWN,
    WatchState,
    watch_figures,
    watch_page,
    watch_points,
    watch_verdict,
)
from jrh_mlflow.watching.watched import (
    LEVEL,
    N_REFERENCE,
    START,
    AxisWatch,
    ChangedCall,
    PanelAsks,
    draw_panel,
    read_watch,
)

if TYPE_CHECKING:
    import pandas as pd

    from jrh_mlflow.models.prices import Overrides
    from jrh_mlflow.show.figures.canvas import Figure

_OLD_TRACES, _NEW_TRACES = 50, 50
"""Old sessions that are asked about again at every look, and new ones at most."""
_SEARCHED = 2000
"""Newest traces among which sessions are looked for."""
_OWN, _OLD, _NEW = "suite", "traces", "new"
"""Where an ask belongs: the panel of the suite, that of old traces, or new traces."""
_SAME_LOOK = timedelta(hours=1)
"""A look that was cut short goes on with what it had paid for; older answers are none of this look."""
_CAPTIONS = {"watch.png": "Evidence of a change by look; the dashed line is the alarm"}


@dataclass(frozen=True, kw_only=True)
class Watch(ShownResult):
    """What is known of a watched judge after the newest look. True in a test only where nothing has changed."""

    watched_run: str
    """The run of the judge's datasheet."""
    judge: str
    axes: tuple[AxisWatch, ...]
    looks: tuple[Mapping[str, Any], ...]
    """The start and every look: `look`, `day`, `at` (seconds since 1970), `calls`, `lost`, `usd`."""
    changed_calls: tuple[ChangedCall, ...] = ()
    """Calls of the panel whose commonest answer since the change is another."""
    application: Mapping[str, Any] = field(default_factory=dict)
    """With traces: `moved` (the look, or None), sessions, difference and its interval."""
    facts: Mapping[str, str] = field(default_factory=dict)
    simulated: bool = False
    run_id: str | None = None
    """Of the watch: one for all looks."""
    link: str | None = None

    @property
    def state(self) -> WatchState:
        """`unchanged`, `changed` (the judge), `application changed`, or `both`."""
        judge, application = any(axis.alarm for axis in self.axes), self.application.get("moved") is not None
        if judge:
            return "both" if application else "changed"
        return "application changed" if application else "unchanged"

    def __bool__(self) -> bool:
        return self.state == "unchanged"

    @property
    def n_looks(self) -> int:
        """After the start."""
        return len(self.looks) - 1

    @property
    def title(self) -> str:
        """Names the judge."""
        return f"Watch of {self.judge}"

    @property
    def verdict(self) -> Verdict:
        """Whether the judge has changed, since when and in what, in plain words."""
        changed = self.state in ("changed", "both")
        verb = "status" if changed else "watch"
        return watch_verdict(
            self.axes,
            judge=self.judge,
            state=self.state,
            days=[look["day"] for look in self.looks],
            n_changed=len(self.changed_calls),
            application=_application_text(self.application, self.looks),
            command=f"jrh {verb} {self.watched_run}",
        )

    @property
    def drift(self) -> str:
        """What the judge's own run says of it: `changed since 2026-11-18 (look 12): ability`, or `unchanged`."""
        alarmed = [axis for axis in self.axes if axis.alarm]
        if not alarmed:
            return f"unchanged, {self.n_looks} looks to {self.looks[-1]['day']}"
        began = min(axis.began or 1 for axis in alarmed)
        names = ", ".join(axis.axis for axis in alarmed)
        return f"{keys.CHANGED} since {self.looks[began]['day']} (look {began}): {names}"

    @property
    def cost_usd(self) -> float | None:
        """Of the newest look; None where it is not known."""
        usd = self.looks[-1]["usd"]
        return None if usd is None else float(usd)

    def _page(self, figures: Sequence[Drawing] = ()) -> Page:
        return watch_page(
            self.axes,
            title=self.title,
            verdict=self.verdict,
            looks=self.looks,
            changed=self.changed_calls,
            facts=self.facts,
            notes=["Simulated judge."] if self.simulated else [],
            figures=figures,
        )

    @cached_property
    def _drawings(self) -> list[Drawing]:
        return draw(watch_figures(self.axes, title=self.title), _CAPTIONS)

    def plot(self) -> Figure:
        """Draw the evidence by look."""
        return plotted(watch_figures(self.axes, title=self.title))

    def to_frame(self) -> pd.DataFrame:
        """Return one row per axis."""
        return AXES(self.axes).to_frame()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        names = ("run_id", "link", "watched_run", "judge", "state", "drift", "simulated")
        return {
            **{name: getattr(self, name) for name in names},
            "verdict": self.verdict.to_dict(),
            "axes": [axis.to_dict() for axis in self.axes],
            "looks": [dict(look) for look in self.looks],
            "changed_calls": [vars(call) for call in self.changed_calls],
            "application": dict(self.application),
            "facts": dict(self.facts),
        }

    def __repr__(self) -> str:
        return f"Watch({brief_name(self.judge)}: {self.state}, {self.n_looks} looks, {brief_run(self.run_id)})"

    def _card(self) -> dict[str, Any]:
        marks = ["simulated"] if self.simulated else []
        return {"profile": self.drift, "marks": marks, "tables": [AXES(self.axes)], "facts": self.facts}


def _application_text(application: Mapping[str, Any], looks: Sequence[Mapping[str, Any]]) -> str:
    if not application:
        return ""
    moved, n_new = application["moved"], application["n_new"]
    if application["difference"] is None:
        return "The application cannot be compared yet: there are too few new sessions."
    ends = interval_text(application["low"], application["high"], signed=True)
    difference = f"{number_text(application['difference'], signed=True)} {ends}, {n_new} sessions"
    if moved is None:
        return f"The application shows no change: new sessions against old ones as judged today {difference}."
    day = looks[moved]["day"]
    return f"The application has changed, seen on {day}: new sessions against old ones as judged today {difference}."


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """How a look asks."""

    concurrency: int = 32
    max_usd: float | None = None
    prices: Overrides | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout_s: float = 120.0


def watch(
    run: object,
    *,
    panel: int = 56,
    traces: str | None = None,
    judge: object = None,
    seed: int = 0,
    restart: bool = False,
    tracking_uri: str | None = None,
    concurrency: int = 32,
    max_usd: float | None = None,
    prices: Overrides | None = None,
    requests_per_minute: float | None = None,
    tokens_per_minute: float | None = None,
    timeout_s: float = 120.0,
    allow_key_to: str | Sequence[str] | None = None,
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
        tracking_uri: MLflow store of the run; the active one when None.
        concurrency: Most calls in flight.
        max_usd: Never spend more than this on one look; a look that does not fit is not counted.
        prices: Model to dollars per million input and output tokens.
        requests_per_minute: Of the endpoint.
        tokens_per_minute: Of the endpoint.
        timeout_s: Of one attempt.
        allow_key_to: Hosts that may get keys though only the run names them.

    Raises:
        RecipeError: for a run that cannot be watched, or options that are not those of the first call.
        BudgetError: when the look does not fit under `max_usd`.
        JudgeError: when the judge's service fails, or not one call was answered.
        TrackingError: when MLflow cannot be reached.
    """
    trust.allow_key_to(allow_key_to)
    options = WatchOptions(
        concurrency=concurrency,
        max_usd=max_usd,
        prices=prices,
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
        timeout_s=timeout_s,
    )
    looking = _looking(run, panel=panel, traces=traces, judge=judge, seed=seed, restart=restart, uri=tracking_uri)
    groups = looking.groups()
    quotes = [looking.prepared(suite, n, options).quote(afresh=True) for _, suite, n in groups]
    say(f"note: {looking.name} asks {look_cost(quotes)}.")
    now, answers = datetime.now(timezone.utc), list[Any]()
    for name, suite, n in groups:
        answers.append(looking.ask(name, suite, n, options, now))
        if options.max_usd is not None:
            spent = keys.whole_total(answers[-1], "cost_usd") or 0.0
            options = replace(options, max_usd=max(options.max_usd - spent, 1e-6))
    return looking.published(looking.with_asks(answers, now))


def price_watch(run: object, **as_watch: Any) -> Quote:
    """Say what the next look would send and cost, and send nothing; takes the arguments of `watch`."""
    uri, prices = as_watch.pop("tracking_uri", None), as_watch.pop("prices", None)
    named = {name: as_watch[name] for name in ("panel", "traces", "judge", "seed", "restart") if name in as_watch}
    looking = _looking(run, uri=uri, **named)
    options = WatchOptions(prices=prices)
    quotes = [looking.prepared(suite, n, options).quote(afresh=True) for _, suite, n in looking.groups()]
    return _sum_of(quotes)


def look_cost(quotes: Sequence[Quote]) -> str:
    """Say how many calls a look has and what they cost."""
    whole = _sum_of(quotes)
    return f"{whole.calls:,} calls ({quote_text(whole.usd, whole.worst_usd, unknown='price unknown')})"


def _sum_of(quotes: Sequence[Quote]) -> Quote:
    def total(name: str) -> Any:
        values = [getattr(quote, name) for quote in quotes]
        return None if any(value is None for value in values) else sum(values)

    names = ("calls", "journalled", "input_tokens", "output_tokens", "usd", "worst_usd")
    return Quote(**{name: total(name) for name in names})


def _looking(
    run: object,
    *,
    panel: int = 56,
    traces: str | None = None,
    judge: object = None,
    seed: int = 0,
    restart: bool = False,
    uri: str | None = None,
) -> _Looking:
    """Find the watch of a run, or begin one."""
    uri = getattr(run, "tracking_uri", None) or uri or active_uri()
    (logged,) = load_runs([run_id_of(run)], tracking_uri=uri, purpose="watched")
    measured = measured_judge(logged.run_id, tracking_uri=uri)
    asked = measured.judge() if judge is None else resolve_judge(judge, tracking_uri=uri)
    if asked.recorded or not logged.suite.has_texts:
        why = "its answers were recorded earlier" if asked.recorded else "its suite was logged without texts"
        raise RecipeError(f"Run {logged.run_id} cannot be watched: {why}, so nobody can be asked again.")
    name = None if traces is None else traces.removeprefix(PREFIX)
    kept = None if restart else _kept_watch(logged, uri)
    if kept is not None:
        if name is not None and name != kept.traces:
            began = f"with the traces of {kept.traces!r}" if kept.traces else "without traces"
            raise RecipeError(f"The watch of run {logged.run_id} began {began}. Begin a new one: `--restart`.")
        return replace(kept, judge=asked, measured=measured, logged=logged)
    own = draw_panel(logged.suite, logged.calls, n_calls=panel, seed=seed)
    looking = _Looking(
        uri=uri, logged=logged, measured=measured, judge=asked, seed=seed, panels={_OWN: own}, traces=name
    )
    if name is None:
        return looking
    return replace(looking, panels={_OWN: own, _OLD: looking.items_of(_old_sessions(name, uri), f"{name}-panel")})


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


def _kept_watch(logged: LoggedRun, uri: str) -> _Looking | None:
    """Return the newest watch of a run."""
    with reading_client(uri) as client:
        chosen = f"tags.`{keys.TAG_WATCHED}` = '{logged.run_id}'"
        runs = finished_runs(client, "watch", [*experiment_names(client)], chosen=chosen, most=1)
    if not runs:
        return None
    run_id, params = str(runs[0].info.run_id), keys.param_group(dict(runs[0].data.params), "watch")
    state, asks = json.loads(run_file(uri, run_id, WATCH_JSON) or b"{}"), run_file(uri, run_id, ASKS_FILE)
    if not state or asks is None:
        raise RecipeError(f"The files of watch {run_id} are gone. Begin a new one: `--restart`.")
    import pandas as pd

    folders = {_OWN: PANEL_FOLDER, **({_OLD: TRACES_FOLDER} if params.get("traces") else {})}
    panels = {
        name: read_suite(download(f"runs:/{run_id}/{folder}", tracking_uri=uri)) for name, folder in folders.items()
    }
    return _Looking(
        uri=uri,
        logged=logged,
        seed=int(params["seed"]),
        panels=panels,
        traces=params.get("traces"),
        run_id=run_id,
        asks=pd.read_parquet(BytesIO(asks)),
        looks=tuple(state["looks"]),
    )


@dataclass(frozen=True, kw_only=True)
class _Looking:
    """A watch with what it has asked so far."""

    uri: str
    logged: LoggedRun
    judge: Judge | None = None
    measured: MeasuredJudge | None = None
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
        return (
            f"Look {self.look} at {self.logged.judge}"
            if self.look
            else f"The start of the watch of {self.logged.judge}"
        )

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
        like = Item(
            id="",
            task="",
            condition="trace",
            kind=first.kind,
            answers=first.answers,
            ordinal=first.ordinal,
            rubric=rubrics.pop() if len(rubrics) == 1 else None,
        )
        items = [
            replace(
                like,
                id=turn.trace_id,
                task=turn.session,
                instruction=turn.question,
                response=turn.answer if first.kind == "response" else None,
                transcript=turn.messages if first.kind == "transcript" else None,
            )
            for turn in turns
        ]
        return Suite(name=name, items=items)

    def prepared(self, suite: Suite, replicates: int, options: WatchOptions, *, folder: str = "") -> Prepared:
        """Set the judge up for some items, with a journal that this look alone uses."""
        fresh = datetime.now(timezone.utc) - _SAME_LOOK
        return prepare(
            self.judge,
            suite,
            replicates=replicates,
            concurrency=options.concurrency,
            max_usd=options.max_usd,
            prices=options.prices,
            journal=f"{folder}/{suite.sha256[:12]}.db" if folder else None,
            tracking_uri=self.uri,
            fresh_after=fresh,
            dry=not folder,
        )

    def _folder(self) -> Path:
        folder = writable_home() / "watch" / self.logged.run_id / f"look-{self.look:05}"
        private_folder(folder)
        return folder

    def ask(self, name: str, suite: Suite, replicates: int, options: WatchOptions, now: datetime) -> pd.DataFrame:
        """Ask some items of this look, and return the answers as rows.

        Raises:
            JudgeError: when the service fails or nothing was answered.
            BudgetError: when money ran out: the look is not counted, and what was paid is kept for an hour.
        """
        prepared = self.prepared(suite, replicates, options, folder=str(self._folder()))
        prepared.check_ready()
        client = ClientSettings(
            concurrency=prepared.concurrency,
            timeout_s=options.timeout_s,
            requests_per_minute=options.requests_per_minute,
            tokens_per_minute=options.tokens_per_minute,
            budget=prepared.budget(),
            price=prepared.price,
            fresh_after=prepared.freshness,
        )
        # Every ask of a call has a number of its own, by which a scripted judge knows that it is asked again.
        first = 0 if self.look == START else N_REFERENCE + self.look - 1
        calls = (replace(call, replicate=first + call.replicate) for call in prepared.plan())
        answers = prepared.ask(client, calls, on_record=None, stop=None)
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
        import pandas as pd

        new = pd.concat(frames, ignore_index=True)
        look = {
            "look": self.look,
            "day": now.strftime("%Y-%m-%d %H:%M"),
            "at": now.timestamp(),
            "calls": len(new),
            "lost": int((~new["outcome"].isin(USABLE)).sum()),
            "usd": keys.whole_total(new, "cost_usd"),
        }
        texts = [name for name in ("rationale", "error") if name in new]
        # What a judge wrote is hostile and long; the answers are what is compared.
        kept = new.drop(columns=texts)
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
        alarmed = [axis for axis in axes if axis.alarm]
        began = min((axis.began or 1 for axis in alarmed), default=0)
        of_pairs = {prefix: panel.changed_calls(began) for prefix, panel in panels.items()} if alarmed else {}
        n_calls = sum(len(panel.calls) for panel in panels.values())
        return Watch(
            watched_run=self.logged.run_id,
            judge=self.logged.judge,
            axes=tuple(axes),
            looks=self.looks,
            changed_calls=tuple(call for calls in of_pairs.values() for call in calls),
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
        moved, found = moved_since(before, since), session_difference(before, since)
        difference, low, high = found or (None, None, None)
        n_new = int(sum(map(len, since)))
        return {"moved": moved, "difference": difference, "low": low, "high": high, "n_new": n_new, "n_old": len(items)}

    def published(self, looked: _Looking) -> Watch:
        """Log the look, mark the judge's own run, and forget the look's journal."""
        done = looked.read()
        with reading_client(self.uri) as client:
            experiment_id = str(client.get_run(self.logged.run_id).info.experiment_id)
        store = Store(self.uri, experiment_id=experiment_id, saves_view=False)
        what_now = "The look is not logged, and its answers are kept for an hour: look again."
        tags = {keys.TAG_WATCHED: self.logged.run_id}
        if self.run_id is None:
            with open_run(store, "watch", done.title, simulated=done.simulated, tags=tags) as run_id:
                done = replace(done, run_id=run_id, link=store.link(run_id))
                publish(store, run_id, looked.content(done), what_now=what_now, is_new=True)
        else:
            done = replace(done, run_id=self.run_id, link=store.link(self.run_id))
            publish(store, self.run_id, looked.content(done), what_now=what_now, replaces=True)
        with store.errors(f"The look is logged in run {done.run_id}; the run of the judge does not say so."):
            shown = {keys.TAG_DRIFT: done.drift, keys.TAG_WATCH_RUN: str(done.run_id)}
            store.log_batch(self.logged.run_id, tags=shown)
        shutil.rmtree(self._folder(), ignore_errors=True)
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
        folders = {_OWN: PANEL_FOLDER, _OLD: TRACES_FOLDER}
        files = [_suite_files(self.panels[name], folder) for name, folder in folders.items() if name in self.panels]
        markdown = done.to_markdown()
        return RunContent(
            points=watch_points(done.axes, done.looks[-1]),
            params={"watch": settings},
            tags={keys.TAG_WATCHED: self.logged.run_id, keys.TAG_DRIFT: done.drift},
            description=markdown,
            described_in=WATCH_MARKDOWN,
            artifacts={
                WATCH_JSON: done.to_dict(),
                WATCH_MARKDOWN: markdown,
                keys.PAGE_JSON: done._page(done._drawings).to_dict(),
                ASKS_FILE: self.asks,
                **{name: content for own in files for name, content in own.items()},
                **figure_files(done._drawings),
            },
        )


def _suite_files(suite: Suite, folder: str) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="jrh-") as place:
        saved = suite.save(Path(place) / folder)
        return {f"{folder}/{file.name}": file.read_bytes() for file in sorted(saved.iterdir()) if file.is_file()}
