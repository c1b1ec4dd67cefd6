"""The one way in: what a user passes or writes becomes a judge, a suite, a journal, and `Prepared` of all."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.engine import Asked, ask_calls, count_calls, plan_calls
from jrh_mlflow.engine.budget import checked_cap, judge_price
from jrh_mlflow.engine.calls import Quote, looked_up, quote
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import Journal, open_journal, shown_place
from jrh_mlflow.engine.ray_fleet import ask_calls_on_ray, import_ray
from jrh_mlflow.engine.sessions import FirstGrades
from jrh_mlflow.errors import JudgeError, RecipeError, SuiteError, demand_posix, suggest
from jrh_mlflow.home import home, writable_home
from jrh_mlflow.judges import Judge, ModelJudge, scripted
from jrh_mlflow.judges.callables import CallableJudge
from jrh_mlflow.judges.one_at_a_time import PointwiseJudge
from jrh_mlflow.judges.raw import PromptedJudge
from jrh_mlflow.models.trust import check_address
from jrh_mlflow.options import Moment, read_moment
from jrh_mlflow.plugins import function_from_text
from jrh_mlflow.suites import Suite, datasheet_suite, read_suite
from jrh_mlflow.suites.suite import hold_back, no_texts
from jrh_mlflow.suites.tasks import translated_tasks
from jrh_mlflow.tracking.judges.identity import judge_from, measured_judge
from jrh_mlflow.tracking.judges.judge_registry import SCORERS, scorer_at
from jrh_mlflow.tracking.judges.prompts import registered_prompt
from jrh_mlflow.tracking.judges.scorer_facts import specification
from jrh_mlflow.tracking.judges.scorers import (
    MlflowJudge,
    from_mlflow,
    from_registered,
    is_mlflow_judge,
    registration_of,
)
from jrh_mlflow.tracking.runs.outbox import outbox_key
from jrh_mlflow.tracking.runs.read import LoggedRun
from jrh_mlflow.tracking.runs.store import download, say_once

if TYPE_CHECKING:
    from jrh_mlflow.engine.runner import OnRecord, StopRule
    from jrh_mlflow.models.prices import Overrides, Price
    from jrh_mlflow.schema.items import Call

BACKENDS = ("local", "ray")
"""Where the calls of an evaluation run: in this process, or in actors on a Ray cluster."""
BUILT_IN: dict[str, Callable[[], Suite]] = {
    "datasheet": datasheet_suite,
    "datasheet-paper": lambda: datasheet_suite(design="paper", name="datasheet-paper"),
    "datasheet-short": lambda: datasheet_suite(n_tasks=12, depth=3, design="short", name="datasheet-short"),
    "datasheet-half-steps": lambda: datasheet_suite(design="paper", half_steps=True, name="datasheet-half-steps"),
    "datasheet-en": lambda: datasheet_suite(tasks=translated_tasks(), name="datasheet-en"),
    "datasheet-de": lambda: datasheet_suite(language="de", name="datasheet-de"),
    "datasheet-es": lambda: datasheet_suite(language="es", name="datasheet-es"),
    "datasheet-zh": lambda: datasheet_suite(language="zh", name="datasheet-zh"),
    "pointwise-datasheet": lambda: datasheet_suite(design="pointwise", name="pointwise-datasheet"),
    "pointwise-datasheet-scores": lambda: datasheet_suite(design="pointwise-scores", name="pointwise-datasheet-scores"),
}


_RUN = re.compile(r"runs:/.+|[0-9a-f]{8,32}")
_CODE = re.compile(r"(scripted|scorers):.+|.+\.py:\w+|[\w.]+:[A-Za-z_]\w*")
_SHORTCUTS = tuple(shortcut.__name__ for shortcut in scripted.SHORTCUTS)
_SCRIPTED = (
    *("AlwaysFirst", "AlwaysTie", "Attackable", "Drifting", "Grader", "LongerWins", "Noisy", "Oracle"),
    *_SHORTCUTS,
)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A judge and a suite that fit, with everything that asking them needs to know before the first call."""

    judge: Judge
    suite: Suite
    replicates: int
    price: Price | None
    """Of the judge's model; None when it is unknown or not a matter of tokens."""
    cap_micro: int | None
    """Most micro-dollars to spend."""
    concurrency: int
    """Most calls in flight."""
    journal: str | Path | Journal | None
    """Where paid answers are kept, as the user gave it."""
    backend: Callable[..., Asked]
    """Asks calls in this process, or on a Ray cluster."""
    is_local: bool
    """Whether calls are sent from this machine."""
    fresh_after: datetime | None
    """Answers in the journal of before this moment are asked again."""
    identity: tuple[object, ...]
    """The same for the same judge, suite and replicates: names budget and outbox, so that a restart continues."""

    @property
    def n_calls(self) -> int:
        """How many calls are planned."""
        return count_calls(self.suite, self.judge, replicates=self.replicates)

    def budget(self, name: str | None = None) -> str | None:
        """Name the budget that the cap is kept in: by default one of its own, where there is a cap.

        One that was named counts what is paid, with a cap or without.
        """
        return name or (None if self.cap_micro is None else outbox_key("budget", *self.identity))

    @property
    def journal_place(self) -> str | None:
        """Where paid answers are kept, as it may be printed; None for a judge that needs no journal or pays nothing."""
        return journal_place(self.journal) if self.judge.model_judge and not self.judge.recorded else None

    def plan(self, shuffle: int | None = None) -> Iterator[Call]:
        """Yield every call, in the order of the suite or in the random order of items that a seed draws."""
        return plan_calls(self.suite, self.judge, replicates=self.replicates, shuffle=shuffle)

    def ask(
        self, client: ClientSettings, calls: Iterable[Call], *, on_record: OnRecord | None, stop: StopRule | None
    ) -> Asked:
        """Ask the calls; what ended it early is left in `failure`: first the answers are made safe."""
        if not self.n_calls:
            suite = f"the {len(self.suite)} items of suite {self.suite.name!r}"
            raise SuiteError(f"{self.judge.name} answers none of {suite}.")
        with opened_journal(self.journal, self.judge) as journal:
            if journal is not None and client.budget is not None:
                journal.open_budget(client.budget, self.cap_micro)
            # Of a callable every value outside the answers is an outcome: it is asked to the end.
            watched = FirstGrades(self.judge, on_record) if isinstance(self.judge, MlflowJudge) else on_record
            return self.backend(
                self.judge,
                calls,
                concurrency=self.concurrency,
                on_record=watched,
                stop=stop,
                journal=journal,
                settings=client,
                raising=False,
            )

    def check_ready(self, calls: Iterable[Call] | None = None) -> None:
        """Refuse a judge that lacks its key or address, if a call is to be sent: kept answers need neither.

        Every call of the plan may be sent, or some only.

        Raises:
            JudgeError: naming what to set.
        """
        # Workers of a cluster have keys of their own, which nobody can look up from here.
        asked = self.judge.model_judge
        if asked and asked.api_base and not self.is_local:
            check_address(asked.api_base)
        missing = self.judge.lacks() if self.is_local else None
        if missing and self.has_to_send(calls):
            raise JudgeError(missing)

    def has_to_send(self, calls: Iterable[Call] | None = None) -> bool:
        """Whether the judge must be asked anything that the journal does not answer, of every call or of some."""
        judge, calls = self.model_calls(calls)
        if judge is None or not may_exist(self.journal):
            return True
        with journal_at(self.journal) as journal:
            requests = looked_up(judge, calls, journal, fresh_after=self.freshness)
            return not all(is_answered for _, _, is_answered in requests)

    def quote(self, calls: Sequence[Call] | None = None, *, afresh: bool = False) -> Quote:
        """Say what asking every call, or some, would send and cost; a judge that answers by itself has no price.

        With `afresh` as if the journal answered nothing: it is not opened.
        """
        n_calls = self.n_calls if calls is None else len(calls)
        judge, model_calls = self.model_calls(calls)
        if judge is None:
            return Quote(calls=n_calls, journalled=0, input_tokens=0, output_tokens=0, usd=None, worst_usd=None)
        if afresh:
            return quote(judge, model_calls, None, self.price)
        with journal_at(self.journal) as journal:
            return quote(judge, model_calls, journal, self.price, fresh_after=self.freshness)

    def model_calls(self, calls: Iterable[Call] | None = None) -> tuple[ModelJudge | None, Iterable[Call]]:
        """Return the judge that writes requests, if one does, and the calls it writes them for."""
        calls = self.plan() if calls is None else calls
        if isinstance(self.judge, PointwiseJudge) and isinstance(self.judge.inner, ModelJudge):
            halves = self.judge.halves
            return self.judge.inner, (half for call in calls for half in halves(call))
        return (self.judge if isinstance(self.judge, ModelJudge) else None), calls

    @property
    def freshness(self) -> float | None:
        """`fresh_after` as the journal counts time: seconds since 1970."""
        return None if self.fresh_after is None else self.fresh_after.timestamp()


def prepare(
    judge: object,
    suite: Suite | str | Path | None = None,
    *,
    replicates: int = 1,
    concurrency: int = 32,
    max_usd: float | None = None,
    prices: Overrides | None = None,
    journal: str | Path | Journal | None = None,
    backend: str = "local",
    experiment: str | None = None,
    tracking_uri: str | None = None,
    fresh_after: Moment | None = None,
) -> Prepared:
    """Resolve what a user passed, and check all that can be wrong before the first call.

    Args:
        judge: As for `jrh.evaluate`, like all that is not described here.
        suite: As for `jrh.evaluate`.
        replicates: How often each presentation is asked.
        concurrency: Most calls in flight.
        max_usd: Never spend more than this.
        prices: Model to dollars per million input and output tokens.
        journal: Where paid answers are kept.
        backend: `local` or `ray`.
        experiment: Where a registered judge is looked for first.
        tracking_uri: MLflow store of the suite's run and of a registered judge; the active one when None.
        fresh_after: Answers in the journal that are older are asked again.

    Raises:
        JrhError: saying what does not fit.
    """
    demand_posix()
    if replicates < 1 or concurrency < 1:
        raise ValueError(f"`replicates, concurrency >= 1` must hold, but got {replicates=}, {concurrency=}.")
    judge = resolve_judge(judge, experiment=experiment, tracking_uri=tracking_uri)
    suite = resolve_suite(suite, tracking_uri=tracking_uri)
    if isinstance(judge, PointwiseJudge) and backend == "ray":
        raise RecipeError('A pointwise judge is asked from this process only: use backend="local".')
    judge.begin(suite)
    # Of the items that it is asked: a judge may leave out one of the two kinds.
    if len({item.kind == "pair" for item in suite.items if judge.covers(item)}) > 1:
        raise SuiteError(
            f"Suite {suite.name!r} holds pairs and single responses. They have reports of their own: split it."
        )
    cap = checked_cap(max_usd, judge, prices)
    return Prepared(
        judge=judge,
        suite=suite,
        replicates=replicates,
        price=judge_price(judge, prices),
        cap_micro=cap,
        concurrency=concurrency,
        journal=journal,
        backend=asking(backend, journal=journal or default_journal(), cap_micro=cap),
        is_local=backend == "local",
        fresh_after=None if fresh_after is None else read_moment(fresh_after),
        # A judge that cannot be told from others is another one each time: nothing of it is continued.
        identity=(judge.fingerprint() or time.time_ns(), suite.sha256, replicates),
    )


def resolve_judge(judge: object, *, experiment: str | None = None, tracking_uri: str | None = None) -> Judge:
    """Return a judge as it is, wrap a callable or one of MLflow's judges, or take a text as a model name.

    `scorers:/NAME[@VERSION]` is a judge that is registered at MLflow; a prompt of MLflow's registry is read.
    A scorer that `jrh.to_mlflow` made is the judge that it was made of.

    Args:
        judge: What the user passed.
        experiment: Where a registered judge is looked for first.
        tracking_uri: MLflow store of a registered judge or prompt; the active one when None.

    Raises:
        RecipeError: when it is none of these.
    """
    if isinstance(judge, Judge):
        return with_read_prompt(judge, tracking_uri=tracking_uri)
    # Before callables: a scorer of MLflow can be called too, but takes other arguments.
    if is_mlflow_judge(judge):
        alone = judge[0] if isinstance(judge, list | tuple) and len(judge) == 1 else judge
        return _exported_judge(alone, registration_of(alone)) or from_mlflow(judge)
    if isinstance(judge, str) and judge.startswith(SCORERS):
        scorer = scorer_at(judge, experiment=experiment, tracking_uri=tracking_uri)
        return _exported_judge(scorer, [scorer.registration]) or from_registered(scorer, tracking_uri=tracking_uri)
    if isinstance(judge, str):
        return PromptedJudge(judge)
    # A class can be called as well, and would pass for a function.
    if isinstance(judge, type):
        raise RecipeError(
            f"A judge must be an object, but got the class {judge.__name__}. Call it: {judge.__name__}()."
        )
    if callable(judge):
        return CallableJudge(judge)
    raise RecipeError(
        "A judge must be a model name, a callable taking a Presentation or a judge of this package, "
        f"but got {type(judge).__name__}."
    )


def with_read_prompt(judge: Judge, *, tracking_uri: str | None = None) -> Judge:
    """Return a judge with its prompt read, where that is in MLflow's registry and was not read yet.

    Raises:
        RecipeError: when there is no such prompt.
        TrackingError: when MLflow cannot be reached.
    """
    if isinstance(judge, PointwiseJudge):
        inner = with_read_prompt(judge.inner, tracking_uri=tracking_uri)
        return judge if inner is judge.inner else judge.with_inner(inner)
    if not isinstance(judge, PromptedJudge) or judge.prompt_uri is None or judge.prompt_version is not None:
        return judge
    return judge.with_prompt(registered_prompt(judge.prompt_uri, tracking_uri=tracking_uri))


def _exported_judge(scorer: object, registered: Sequence[Mapping[str, Any]]) -> Judge | None:
    """Return the judge that `jrh.to_mlflow` made a scorer of; None for any other, and for several judges in one."""
    carried = None if isinstance(scorer, list | tuple) else specification(scorer)
    if carried is None or carried["kind"] != "judge":
        return None
    judge = judge_from(carried["judge"])
    judge.registered = registered
    return judge


def pointwise(judge: object, *, answers: Sequence[str] | None = None) -> Judge:
    """Put a judge of one response, yes/no or scoring, to pairs: it grades the two contents apart.

    The better grade wins, equal grades are a tie (`abstain` where no tie is offered). It is shown each content as a
    `response`, with the instruction and the rubric of the pair. What fails or cannot be read of either content is the
    outcome of the call. Tokens, dollars and seconds are those of both; a model is asked twice for each call, through
    journal and budget.

    Args:
        judge: As for `jrh.evaluate`: a callable, an MLflow judge or scorer, a model name, a `PromptedJudge`.
        answers: What it may answer, worst to best, as in `("poor", "fair", "good")`. When None a model scores from 1 to
            5; every other judge says yes or no (pass, fail, a bool), or gives any number, higher being better.
    """
    # A prompt of MLflow's registry is read when the store is known.
    return PointwiseJudge(judge if isinstance(judge, Judge) else resolve_judge(judge), answers=answers)


def judge_from_text(text: str, *, experiment: str | None = None, tracking_uri: str | None = None) -> Judge:
    """Resolve `scripted:Oracle`, `scripted:Llama8B`, `package.module:function` or `path/to/file.py:function`.

    `scorers:/NAME[@VERSION]` is registered at MLflow, with this experiment or the active one.

    Raises:
        RecipeError: saying what could not be found, with the nearest known name.
    """
    if text.startswith(SCORERS):
        return resolve_judge(text, experiment=experiment, tracking_uri=tracking_uri)
    where, _, name = text.rpartition(":")
    if not where or not name:
        raise RecipeError(
            f"A judge is given as scripted:NAME, module:function, file.py:function or scorers:/NAME, but got {text!r}."
        )
    if where == "scripted":
        return _scripted(name)
    function = function_from_text(text)
    judge = resolve_judge(function)
    if isinstance(judge, CallableJudge) and judge.name == getattr(function, "__name__", None):
        # In many files the function is called `judge`: the file tells them apart.
        judge.name = f"{Path(where).stem if where.endswith('.py') else where}:{name}"
    return judge


def is_run_text(text: object) -> bool:
    """Whether a text names a run: `runs:/<id>`, an id, or the first eight or more of its digits."""
    return isinstance(text, str) and _RUN.fullmatch(text) is not None


def judge_named(judge: object, *, experiment: str | None = None, tracking_uri: str | None = None) -> Judge:
    """Return a judge by what a user gave: a text may be a model, `scripted:NAME`, `module:function` or a run."""
    if is_run_text(judge):
        return measured_judge(judge, tracking_uri=tracking_uri).judge()
    if isinstance(judge, str) and _CODE.fullmatch(judge):
        return judge_from_text(judge, experiment=experiment, tracking_uri=tracking_uri)
    return resolve_judge(judge, experiment=experiment, tracking_uri=tracking_uri)


def judge_again(logged: LoggedRun, judge: object, *, purpose: str, tracking_uri: str | None = None) -> Judge:
    """Return the judge of a run, or the one that is given in its place, to be asked about its suite once more.

    Raises:
        RecipeError: when the run does not tell all of its judge, or nobody can be asked again.
    """
    try:
        given = measured_judge(logged.run_id, tracking_uri=tracking_uri).judge() if judge is None else judge
    except RecipeError as error:
        raise RecipeError(f"{str(error).removesuffix('.')}: `judge=…`.") from error
    asked = resolve_judge(given, tracking_uri=tracking_uri)
    if asked.recorded or not logged.suite.has_texts:
        why = "its answers were recorded earlier" if asked.recorded else "its suite was logged without texts"
        raise RecipeError(f"Run {logged.run_id} cannot be {purpose}: {why}, so nobody can be asked again.")
    return asked


def _scripted(name: str) -> Judge:
    if name in _SCRIPTED:
        judge: Judge = getattr(scripted, name)()
        return judge
    if name not in scripted.published():
        known = [*_SCRIPTED, *scripted.published()]
        raise RecipeError(f"Unknown scripted judge {name!r}.{suggest(name, known)} Known: {', '.join(known)}.")
    return scripted.profile(name)


def resolve_suite(suite: Suite | str | Path | None, *, tracking_uri: str | None = None) -> Suite:
    """Take a suite as it is, load one by name or path, or build the default one, and see that it may be judged.

    Raises:
        SuiteError: when it cannot be loaded, is under review or has no texts.
    """
    if not isinstance(suite, Suite):
        suite = load_suite("datasheet" if suite is None else suite, tracking_uri=tracking_uri)
    hold_back(suite)
    if suite.hash_of_texts is not None:
        raise SuiteError(no_texts(suite.name))
    if not suite.has_texts:
        raise SuiteError(f"Suite {suite.name!r} was replayed from recorded judgments and has no texts to ask about.")
    return suite


def load_suite(path_or_uri: str | Path, *, tracking_uri: str | None = None) -> Suite:
    """Load a suite from a folder, from `runs:/<id>/suite`, from `datasets:/NAME[@VERSION]`, or by a built-in name.

    Args:
        path_or_uri: Folder, address or name.
        tracking_uri: MLflow store of the run or dataset; the active one when None.

    Raises:
        SuiteError: when there is none, or when its file is cut short, edited or breaks a gate.
    """
    text = str(path_or_uri)
    if text in BUILT_IN:
        return _built_in(text)
    if text.startswith(("runs:/", "mlflow-artifacts:/", "models:/")):
        return read_suite(download(text, tracking_uri=tracking_uri))
    if text.startswith("datasets:/"):
        from jrh_mlflow.tracking.runs.suite_datasets import dataset_suite

        return dataset_suite(text, tracking_uri=tracking_uri)
    if not Path(text).exists():
        known = ", ".join(BUILT_IN)
        raise SuiteError(f"There is no suite {text!r}.{suggest(text, BUILT_IN)} Built in: {known}. Or give a folder.")
    return read_suite(text)


@cache
def _built_in(name: str) -> Suite:
    return BUILT_IN[name]()


def default_journal() -> Path:
    """Return where paid answers are kept when nobody says: one journal per user, in the folder of `home`."""
    return home() / "journal.db"


def journal_place(journal: str | Path | Journal | None) -> str:
    """Return where a journal is, as it may be printed and logged."""
    return shown_place(journal.place if isinstance(journal, Journal) else journal or default_journal())


def opened_journal(journal: str | Path | Journal | None, judge: Judge) -> AbstractContextManager[Journal | None]:
    """Open the journal for judges that need one; one that was passed open stays open."""
    return journal_at(journal) if judge.model_judge else nullcontext()


def journal_at(journal: str | Path | Journal | None) -> AbstractContextManager[Journal]:
    """Open a journal, the default one when None; one that was passed open stays open."""
    if isinstance(journal, Journal):
        return nullcontext(journal)
    if journal is None:
        writable_home()
        say_once(f"note: Paid answers are kept in {journal_place(journal)}.")
    return open_journal(journal or default_journal())


def may_exist(journal: str | Path | Journal | None) -> bool:
    """Whether there can be answers in a journal; a look at one that is not there would make it."""
    place = journal or default_journal()
    return isinstance(place, Journal) or "://" in str(place) or Path(place).exists()


def asking(backend: str, *, journal: str | Path | Journal, cap_micro: int | None) -> Callable[..., Asked]:
    """Return what asks calls at a backend: `ask_calls`, or the same on a Ray cluster.

    Args:
        backend: `local` or `ray`.
        journal: What the user gave; actors open it themselves, so they need its address.
        cap_micro: Of the run's budget.

    Raises:
        RecipeError: for an unknown backend, for Ray when it is not installed, and for a journal without an address.
    """
    if backend == "local":
        return ask_calls
    if backend != "ray":
        known = ", ".join(BACKENDS)
        raise RecipeError(f"Unknown backend {backend!r}.{suggest(backend, BACKENDS)} Known: {known}.")
    if isinstance(journal, Journal):
        raise RecipeError("An open journal cannot be sent to Ray's workers. Give its path or URL: each opens its own.")
    # Now, so that a missing Ray is known before the first call.
    import_ray()
    return partial(ask_calls_on_ray, journal_address=journal, cap_micro=cap_micro)
