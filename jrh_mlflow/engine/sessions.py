"""A judge during a run: calls in, records out.

`session_for` is the one place that tells the two judge contracts apart. A judge that answers by itself is simply
called; for a model judge calls become requests and keys, and responses become records. `FirstAnswers` ends a run whose
answers all cannot be read: the rest would be paid for nothing.

`LiveJudge` is for scorers in use: it asks a few calls at a time, from any thread, for as long as the process lives. One
event loop per process, in a thread of its own, serves all judges; each has one session that its callers share, so that
retries and limits know of all of them. Nothing is kept and nothing is served from before: an answer of yesterday would
hide that the model has changed.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import hashlib
import json
import math
import os
import re
import threading
import time
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext, suppress
from contextvars import Context
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from jrh_mlflow.engine.budget import AnsweredElsewhere, Paid, judge_price
from jrh_mlflow.engine.calls import AHEAD, Numbering, content_key, identity, presentation_sha256
from jrh_mlflow.engine.client import ClientSettings, ModelClient
from jrh_mlflow.engine.endings import ending_of
from jrh_mlflow.engine.interrupts import NotAsked
from jrh_mlflow.engine.journal import Journal, JournalledAnswer, Reservation
from jrh_mlflow.engine.journal.rows import Held
from jrh_mlflow.engine.retries import ADVICE, RetryPolicy
from jrh_mlflow.errors import JudgeError
from jrh_mlflow.judges import APART, AnsweringJudge, Judge, ModelJudge
from jrh_mlflow.judges.one_at_a_time import PointwiseJudge
from jrh_mlflow.judges.parsing import PROBLEMS, ParsedAnswer, kept_text, read_answer, read_grade
from jrh_mlflow.models.prices import Price
from jrh_mlflow.models.transports import RETRYABLE, TransportError, safe_text
from jrh_mlflow.schema.items import SINGLE_CONDITIONS, USABLE, Call, CallRecord
from jrh_mlflow.schema.presentation import Answer, Presentation, answer_under, split_evenly
from jrh_mlflow.schema.requests import Request, Response
from jrh_mlflow.text import blank_secrets, clean_text

if TYPE_CHECKING:
    from typing_extensions import Self

NOT_SERVED = frozenset({"refusal", "empty_choices", "empty_content", "content_filter", "tool_call"})
"""Responses without an answer in them: recorded, but asked again when the run is repeated."""
UNUSABLE = "malformed"
"""How the error of a call begins that was answered, and not by a completion."""
WORKERS_PER_SLOT = 2
"""Workers per call in flight: while some wait for the journal's disk, others keep every slot to the model busy."""
LONGEST_S = 290.0
"""A row that has no answer by then is an error. MLflow gives up on a scorer after 300 s, without a word of ours."""
_CONCURRENCY = 64
"""MLflow scores 40 rows at once, and each may ask both orders."""
_POLICY = RetryPolicy(longest_wait_s=120.0, longest_outage_s=120.0, deadline_s=LONGEST_S / 2)
_CALLS_PER_SESSION = 10_000
"""A session numbers every request that it was asked, so one that lived for ever would grow for ever."""
R = TypeVar("R")
Ask: TypeAlias = Callable[[Any], "CallRecord | Awaitable[CallRecord]"]
ENOUGH = 20
"""So many answers, and not one that can be read, are no accident. A suite with fewer calls is asked to its end."""
_LONGEST_EXAMPLE = 160
_CUT_OFF = (
    "`max_tokens` ({max_tokens}) is too small, as for a model that reasons: raise it (--max-tokens), or set "
    "`reasoning_effort` (--reasoning-effort low)."
)
_REFUSED = (
    "The model or its provider refuses what it is shown: look at the prompt and the suite, or take another model."
)
_EMPTY = "The provider sends no text: look at the model and at `extra`; one that reasons may need more `max_tokens`."
_ADVICE = {
    UNUSABLE: ADVICE[UNUSABLE],
    "tool_call": "The model calls a tool instead of answering: leave `tools` out of `extra`.",
    "truncated": _CUT_OFF,
    "refusal": _REFUSED,
    "content_filter": _REFUSED,
    "empty_choices": _EMPTY,
    "empty_content": _EMPTY,
}
_UNREAD = (
    "The answers lack the form that was asked for: look at the prompt's format, or ask for a schema (--structured)."
)
_NOT_ONE_OF = re.compile(r"(?:np\.\w+\()?['\"]?(.*?)['\"]?\)? is not one of ")
"""What `read_answer` says of a value that is no answer."""


class JudgeSession(AbstractAsyncContextManager["JudgeSession"]):
    """A judge that is asked many calls at once. Opened with `async with`."""

    workers: int
    """How many calls are worth working on at once."""
    _within: AbstractAsyncContextManager[Any]
    """What is open while the judge is asked."""

    async def __aenter__(self) -> Self:
        await self._within.__aenter__()
        return self

    async def __aexit__(self, *details: Any) -> None:
        await self._within.__aexit__(*details)

    @abstractmethod
    def prepare(self, calls: Iterable[Call]) -> Iterable[Any]:
        """Turn calls, in the order of the plan, into what `ask` takes."""

    @abstractmethod
    def ask(self, work: Any) -> CallRecord | Awaitable[CallRecord]:
        """Ask one call; a record that is there already needs no turn of the event loop."""

    def kept(self, work: Any) -> CallRecord | None:
        """Return the record of a call whose answer is there already; asks nothing, and the session may be closed."""
        return None

    @property
    def paid(self) -> Paid | None:
        """What all attempts came to, also those of calls without a record, and what was served; None if not counted."""
        return None

    def watching(self, ask: Ask) -> Ask:
        """Return a way of asking that ends a run whose answers all cannot be read."""
        return ask

    def may_pass(self, record: CallRecord) -> bool:
        """Whether a call failed in a way that may pass, so that it is worth asking again."""
        return False


def session_for(judge: Judge, journal: Journal | None, settings: ClientSettings) -> JudgeSession:
    """Return the session that a judge is asked in.

    Raises:
        ValueError: A model judge without a journal.
    """
    if isinstance(judge, PointwiseJudge):
        return PointwiseSession(judge, session_for(judge.inner, journal, settings))
    if isinstance(judge, AnsweringJudge):
        return AnsweringSession(judge, concurrency=settings.concurrency)
    if not isinstance(judge, ModelJudge):
        raise TypeError(f"A judge answers by itself or by a model, but {type(judge).__name__} does neither.")
    if journal is None:
        raise ValueError("A prompted judge is asked through a journal, but `journal` is None.")
    return ModelSession(judge, journal, settings)


class AnsweringSession(JudgeSession):
    """Asks a judge that answers by itself."""

    asks_at_once = True
    """Whether it may ask about several rubrics in one call; False where their calls are asked elsewhere."""

    def __init__(self, judge: AnsweringJudge, *, concurrency: int) -> None:
        self._judge = judge
        self._running = judge.running(concurrency)
        self._shared: dict[tuple[str, int], _SharedAnswer] = {}
        self.workers = 1 if judge.inline else concurrency

    async def __aenter__(self) -> Self:
        # By hand, not by `with`: the pool of threads lives from here to `__aexit__`.
        self._running.__enter__()
        return self

    async def __aexit__(self, *details: Any) -> None:
        self._running.__exit__(*details)

    def prepare(self, calls: Iterable[Call]) -> Iterable[Call]:
        """Take the calls as they are."""
        return calls

    def ask(self, work: Call) -> Awaitable[CallRecord]:
        """Ask one call, or take its part of an answer to several rubrics."""
        if work.presentation.rubrics is None or not self.asks_at_once:
            return ask_one(self._judge, work)
        return self._ask_at_once(work)

    async def _ask_at_once(self, call: Call) -> CallRecord:
        """Ask about a content once for all its rubrics, as long as the judge answers with a mapping."""
        rubric, key = call.item.rubric_id, (content_key(call.item, call.presentation), call.replicate)
        shared = self._shared.setdefault(key, _SharedAnswer(list(call.presentation.rubrics or ())))
        async with shared.lock:
            if rubric in shared.waiting and rubric not in shared.parts and self.asks_at_once:
                ending = await _ending(self._judge, call)
                returned = ending.returned
                whole = returned if isinstance(returned, Answer) else Answer(returned)
                if isinstance(whole.value, Mapping):
                    parts = split_evenly(whole, len(shared.waiting))
                    shared.parts = {
                        name: replace(ending, returned=part) for name, part in zip(shared.waiting, parts, strict=True)
                    }
                else:
                    shared.parts = {rubric: ending}
                    # A plain answer is that of a judge of one rubric: from then on nobody waits for another's call.
                    self.asks_at_once = ending.failure is not None
        if rubric not in shared.waiting or rubric not in shared.parts:
            return await ask_one(self._judge, call)
        shared.waiting.remove(rubric)
        if not shared.waiting:
            del self._shared[key]
        return shared.parts[rubric].record(self._judge, call)


class _SharedAnswer:
    """What was answered about one content under several rubrics."""

    def __init__(self, waiting: list[str]) -> None:
        self.waiting, self.lock = waiting, asyncio.Lock()
        """Rubrics without a record: what a call costs is split among them."""
        self.parts: dict[str, _Ending] = {}


@dataclass(frozen=True, slots=True)
class _Ending:
    """What a judge returned, or how it failed."""

    returned: object
    failure: str | None
    seconds: float

    def record(self, judge: Judge, call: Call) -> CallRecord:
        return record(judge, call, self.returned, failure=self.failure, latency_s=self.seconds)


async def ask_one(judge: AnsweringJudge, call: Call) -> CallRecord:
    """Ask one call. Whatever the judge raises is the outcome `error`, never a verdict and never a crash."""
    return (await _ending(judge, call)).record(judge, call)


async def _ending(judge: AnsweringJudge, call: Call) -> _Ending:
    started = time.perf_counter()
    returned: object = None
    failure: str | None = None
    try:
        returned = await judge.ask(call)
    except Exception as error:
        failure = _described(error)
    return _Ending(returned, failure, time.perf_counter() - started)


def _described(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def record(judge: Judge, call: Call, returned: object, *, failure: str | None, latency_s: float) -> CallRecord:
    """Turn what a judge returned, or how it failed, into a record."""
    returned = answer_under(returned, call.item.rubric_id) if call.item.rubric_id else returned
    if failure is not None:
        outcome, answer, problem = "error", "", blank_secrets(clean_text(failure))
    else:
        outcome, answer, reason = read_answer(returned, call.presentation.answers)
        if outcome == "unparsed" and call.item.condition in SINGLE_CONDITIONS and (grade := read_grade(returned)):
            # People's judges say yes or no, or give a score: on single responses of known level both can be measured.
            outcome, answer, reason = "verdict", grade, None
        problem = blank_secrets(clean_text(reason)) if reason else ""
    extras = returned if isinstance(returned, Answer) else Answer(None)
    return CallRecord(
        **identity(call),
        outcome=outcome,
        answer=answer,
        rationale=blank_secrets(clean_text(str(extras.rationale))) if extras.rationale is not None else None,
        raw=None if judge.simulated else _returned_text(extras.value if returned is extras else returned, answer),
        input_tokens=extras.input_tokens,
        output_tokens=extras.output_tokens,
        cost_usd=extras.cost_usd,
        latency_s=latency_s,
        model=judge.name,
        prompt_sha256=presentation_sha256(call.presentation),
        error=problem or None,
        confidence=extras.confidence,
    )


def _returned_text(value: object, answer: str) -> str | None:
    """Return what a judge of somebody's own said, where that is a text and not the very answer."""
    if not isinstance(value, str) or value in (answer, "tie", "abstain"):
        return None
    return kept_text(blank_secrets(clean_text(str.__str__(value)))) or None


def why_not_served(reading: ParsedAnswer) -> str | None:
    """Say why a response is asked for again when the run is repeated, or None: refused, filtered, or empty."""
    is_cut_off = reading.problem == "truncated" and not (reading.text or "").strip()
    return reading.problem if is_cut_off or reading.problem in NOT_SERVED else None


class KeyedCall(NamedTuple):
    """A call that is ready to be asked."""

    call: Call
    request: Request
    key: str
    kept: JournalledAnswer | None
    """Its answer in the journal, where there is one, fresh enough and with a text."""


class ModelSession(JudgeSession):
    """Asks a judge through a model client."""

    def __init__(self, judge: ModelJudge, journal: Journal, settings: ClientSettings) -> None:
        self.judge, self._journal, self._fresh_after = judge, journal, settings.fresh_after
        self._client = self._within = ModelClient(judge.model, judge.api_base, journal, settings)
        self._numbering = Numbering(judge)
        self._latest: dict[str, tuple[Presentation, Response, ParsedAnswer]] = {}
        self._first: FirstAnswers | None = None
        self._keeps_unreadable, self._paid = settings.keep_unreadable, set[str]()
        """Keys that were answered here for the first time, as long as none could be read."""
        self._served, self._served_keys = Paid(), set[str]()
        """What answers from the journal cost when they were given."""
        self.workers = WORKERS_PER_SLOT * settings.concurrency

    @property
    def paid(self) -> Paid:
        """What was asked here, and what was served."""
        return self._client.paid + self._served

    async def __aexit__(self, *details: Any) -> None:
        await super().__aexit__(*details)
        if self._first and self._first.has_ended and self._paid:
            # Once: what was asked anew, or served, is marked no second time.
            await asyncio.to_thread(self._journal.mark_unreadable, sorted(self._paid))

    def prepare(self, calls: Iterable[Call]) -> Iterator[KeyedCall]:
        """Prepare calls in the order of the plan, looking some of them up in the journal at once."""
        # Few at first, so that the first request need not wait for the rendering of all of them.
        rest, ahead = iter(calls), AHEAD // 8
        while chunk := list(islice(rest, ahead)):
            ahead = min(2 * ahead, AHEAD)
            prepared = [(call, *self._numbering.prepare(call)) for call in chunk]
            kept = self._journal.serve([key for _, _, key in prepared], newer_than=self._fresh_after)
            for call, request, key in prepared:
                yield KeyedCall(call, request, key, kept.get(key))

    def watching(self, ask: Ask) -> Ask:
        """Look at the first answers, new or from the journal."""
        self._first = FirstAnswers(self.judge)
        return self._first.watching(ask)

    def kept(self, work: KeyedCall) -> CallRecord | None:
        """Read the journalled answer that `prepare` found, if it is not to be asked for anew."""
        if work.kept is None or self._is_asked_anew(work):
            return None
        response = _read_back(work.kept.response)
        if not (response.text or "").strip():
            # A model that writes responses keeps a refusal as its answer; the next run asks again.
            return None
        return self._record(work, response, asked_at=work.kept.at)

    def _is_asked_anew(self, work: KeyedCall) -> bool:
        return work.kept is not None and work.kept.is_unreadable and not self._keeps_unreadable

    def may_pass(self, record: CallRecord) -> bool:
        """Whether the transport says so: its failures begin with their kind. What was answered was retried already."""
        return record.outcome == "error" and (record.error or "").partition(":")[0] in RETRYABLE - {UNUSABLE}

    def ask(self, work: KeyedCall) -> CallRecord | Awaitable[CallRecord]:
        """Serve a call's journalled answer at once, or ask for it.

        Raises (awaited):
            OutOfBudget: The cap does not cover this call; nothing was sent.
            JudgeError: The circuit has tripped: the service fails for good.
        """
        return self.kept(work) or self._ask(work)

    async def _ask(self, keyed: KeyedCall) -> CallRecord:
        # An answer that is asked for anew makes way for the new one.
        replaces_before = None if keyed.kept is None else time.time()
        readings: list[ParsedAnswer] = []

        def unusable(response: Response) -> str | None:
            reading = self._read(response, keyed.call)
            readings.append(reading)
            if self._first and not self._first.is_over and keyed.kept is None:
                self._paid.add(keyed.key)
            # On receipt: while an answer is made durable, others would be sent.
            if self._first and self._first.note(keyed.key, reading.outcome, reading.error):
                self._client.stop_sending()
            return why_not_served(reading)

        def failed(error: TransportError, attempt: int) -> None:
            is_answer = ending_of(error).again == "once"
            if is_answer and self._first and self._first.note(keyed.key, "error", str(error), attempt=attempt):
                self._client.stop_sending()

        started, attempts = time.perf_counter(), Paid()
        try:
            response = await self._client.send(
                keyed.request,
                keyed.key,
                unusable=unusable,
                replaces_before=replaces_before,
                attempts=attempts,
                on_failed=failed,
            )
        except AnsweredElsewhere as answered:
            # Another process, while this one waited for it.
            return self._record(keyed, answered.response, asked_at=time.time())
        except TransportError as error:
            return CallRecord(
                **identity(keyed.call),
                outcome="error",
                answer="",
                cost_usd=attempts.usd,
                **attempts.columns,
                latency_s=time.perf_counter() - started,
                model=self.judge.model,
                prompt_sha256=keyed.key,
                error=str(error),
            )
        seconds = time.perf_counter() - started
        return self._record(keyed, response, reading=readings[-1], seconds=seconds, attempts=attempts)

    def _read(self, response: Response, call: Call) -> ParsedAnswer:
        """Read a response, once for all replicates in a row that were answered alike, as most are at temperature 0."""
        latest = self._latest.get(call.order)
        if latest is None or latest[0] is not call.presentation or latest[1] != response:
            latest = self._latest[call.order] = (call.presentation, response, self.judge.read(response, call))
        return latest[2]

    def _record(
        self,
        keyed: KeyedCall,
        response: Response,
        *,
        reading: ParsedAnswer | None = None,
        seconds: float | None = None,
        asked_at: float | None = None,
        attempts: Paid | None = None,
    ) -> CallRecord:
        """Write a record; a response without a reading comes from the journal: one attempt, which cost what it cost."""
        cached, reading = reading is None, reading or self._read(response, keyed.call)
        if attempts is None:
            attempts, cost = Paid(), self._client.cost_micro(response)
            for paid in (attempts,) if keyed.key in self._served_keys else (attempts, self._served):
                paid.add(cost, worst_micro=self._client.worst_micro(keyed.request) if cost is None else 0)
            self._served_keys.add(keyed.key)
        return CallRecord(
            **identity(keyed.call),
            outcome=reading.outcome,
            answer=reading.answer or "",
            rationale=reading.rationale,
            raw=kept_text(clean_text(response.refusal or response.text or "")) or None,
            input_tokens=response.input_tokens,
            output_tokens=response.output_tokens,
            cost_usd=attempts.usd,
            **attempts.columns,
            latency_s=seconds,
            cached=cached,
            # The journal knows when recorded answers were read in, not when the model gave them.
            asked_at=None if asked_at is None or self.judge.recorded else _utc_text(int(asked_at)),
            model=response.model or self.judge.model,
            system_fingerprint=response.system_fingerprint,
            prompt_sha256=keyed.key,
            error=reading.error,
            confidence=reading.confidence,
            probabilities=_as_json(reading.probabilities),
        )


@lru_cache(maxsize=8)
def _read_back(kept: str) -> Response:
    """Read an answer of the journal; replicates are often word by word the same."""
    return Response.from_json(kept)


@lru_cache(maxsize=4096)
def _utc_text(moment: int) -> str:
    return datetime.fromtimestamp(moment, timezone.utc).isoformat(timespec="seconds")


class PairOfWork(NamedTuple):
    """A call about a pair, and what the inner session needs for its two halves."""

    call: Call
    first: Any
    second: Any


class PointwiseSession(JudgeSession):
    """Asks the session of a judge of one response about the two contents of a pair, one after the other."""

    def __init__(self, judge: PointwiseJudge, inner: JudgeSession) -> None:
        self._judge, self._inner, self.workers = judge, inner, inner.workers
        self._within = inner
        self._ask_inner: Ask = inner.ask

    @property
    def paid(self) -> Paid | None:
        """That of the inner session."""
        return self._inner.paid

    def prepare(self, calls: Iterable[Call]) -> Iterator[PairOfWork]:
        """Prepare the halves of each call, both through the same numbering."""
        waiting: deque[Call] = deque()

        def halves() -> Iterator[Call]:
            for call in calls:
                waiting.append(call)
                yield from self._judge.halves(call)

        # Looked up ahead in chunks by the inner session, so calls wait here until their two halves come out.
        work = iter(self._inner.prepare(halves()))
        for first in work:
            yield PairOfWork(waiting.popleft(), first, next(work))

    def watching(self, ask: Ask) -> Ask:
        """Look at the first answers of the inner judge."""
        self._ask_inner = self._inner.watching(self._inner.ask)
        return ask

    def kept(self, work: PairOfWork) -> CallRecord | None:
        """Join the kept answers, where both are there."""
        first, second = self._inner.kept(work.first), self._inner.kept(work.second)
        return self._joined(work.call, first, second) if first and second else None

    def may_pass(self, record: CallRecord) -> bool:
        """Whether the half that failed did so in a way that may pass."""
        return self._inner.may_pass(record)

    def ask(self, work: PairOfWork) -> CallRecord | Awaitable[CallRecord]:
        """Serve what is kept at once, or ask."""
        return self.kept(work) or self._ask(work)

    async def _ask(self, work: PairOfWork) -> CallRecord:
        # In turn, not together: a pair then takes one place in the window, as its worker counts it.
        first = await _awaited(self._ask_inner(work.first))
        return self._joined(work.call, first, await _awaited(self._ask_inner(work.second)))

    def _joined(self, call: Call, first: CallRecord, second: CallRecord) -> CallRecord:
        outcome, answer, problem = self._judge.choose(first, second, call.presentation.answers)
        both = {"First": first, "Second": second}
        reasons = [
            f"{slot} ({half.answer or half.outcome}): {half.rationale or ''}".strip() for slot, half in both.items()
        ]
        summed = ("input_tokens", "output_tokens", "cost_usd", "attempts", "unknown_attempts", "worst_usd")
        sums = {name: _sum_of(name, both.values()) for name in summed}
        return CallRecord(
            **identity(call),
            outcome=outcome,
            answer=answer,
            rationale="\n".join(reasons),
            raw="\n".join(f"{slot}: {half.raw}" for slot, half in both.items() if half.raw) or None,
            **sums,
            latency_s=_sum_of("latency_s", both.values()),
            cached=first.cached and second.cached,
            asked_at=min((half.asked_at for half in both.values() if half.asked_at), default=None),
            model=first.model,
            system_fingerprint=first.system_fingerprint,
            prompt_sha256=hashlib.sha256(f"{first.prompt_sha256}\n{second.prompt_sha256}".encode()).hexdigest(),
            error=problem,
        )


async def _awaited(answer: CallRecord | Awaitable[CallRecord]) -> CallRecord:
    return answer if isinstance(answer, CallRecord) else await answer


def _sum_of(name: str, records: Iterable[CallRecord]) -> Any:
    """Sum a column; None where one of the records does not know it."""
    values = [getattr(record, name) for record in records]
    return None if None in values else sum(values)


def _as_json(probabilities: Mapping[str, float] | None) -> str | None:
    if probabilities is None:
        return None
    short = {answer: float(f"{probability:.6g}") for answer, probability in sorted(probabilities.items())}
    return json.dumps(short, ensure_ascii=False)


class FirstAnswers:
    """Counts a run's first answers by what is wrong with them, until one can be read.

    A completion that is none counts each time it comes; calls that failed on their way are not answers: the circuit
    counts those.
    """

    def __init__(self, judge: ModelJudge) -> None:
        self._judge = judge
        self._problems: dict[str, str] | None = {}
        """By the key of the call; None once an answer was read: from then on nothing is counted."""
        self._reason: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether an answer was read, so that nothing is counted any more."""
        return self._problems is None

    @property
    def has_ended(self) -> bool:
        """Whether it has ended the run."""
        return self._reason is not None

    def watching(self, ask: Ask) -> Ask:
        """Return the same way of asking, which raises once the run is hopeless."""

        async def later(waiting: Awaitable[CallRecord]) -> CallRecord:
            try:
                return self._checked(await waiting)
            except NotAsked:
                # Where the last of these answers was an attempt, its call and all others were only waiting.
                self._check()
                raise

        def ask_and_check(work: Any) -> CallRecord | Awaitable[CallRecord]:
            answer = ask(work)
            if self.is_over:
                return answer
            return self._checked(answer) if isinstance(answer, CallRecord) else later(answer)

        return ask_and_check

    def _checked(self, record: CallRecord) -> CallRecord:
        self.note(str(record.prompt_sha256), record.outcome, record.error)
        self._check()
        return record

    def _check(self) -> None:
        if self._reason is not None:
            raise JudgeError(self._reason)

    def note(self, key: str, outcome: str, error: str | None, *, attempt: int | None = None) -> bool:
        """Count how a call ended, each call once, or an attempt of it; return whether nothing more should be sent."""
        if self._problems is None or self._reason is not None:
            return self._reason is not None
        problem = (error or "").partition(":")[0]
        # One that can be read proves prompt and parser: later ones that cannot are the judge's own.
        if outcome in USABLE:
            self._problems = None
        elif problem in PROBLEMS or attempt is not None:
            # By key, so that a call which is asked again, or noted on receipt and again as a record, counts once.
            self._problems[key if attempt is None else f"{key} {attempt}"] = problem
            if len(self._problems) >= ENOUGH:
                self._reason = self._explanation(Counter(self._problems.values()).most_common(), str(error))
        return self._reason is not None

    def _explanation(self, counts: list[tuple[str, int]], example: str) -> str:
        problems = ", ".join(f"{count} {problem}" for problem, count in counts)
        limit = self._judge.max_tokens or "the provider's own"
        advice = _ADVICE.get(counts[0][0], _UNREAD).format(max_tokens=limit)
        return (
            f"None of the first {ENOUGH} answers of {self._judge.name} can be read ({problems}), "
            f"e.g. {safe_text(example)[:_LONGEST_EXAMPLE]!r}. {advice} What was answered is in the journal: the next "
            "run asks it anew, once (keep_unreadable: not; --fresh-after: again)."
        )


class FirstGrades:
    """Counts the first answers to pairs while each of them grades one response: yes, no, a score.

    A 1 may be the first slot, and is a choice like every answer that can be read.
    """

    def __init__(self, judge: Judge, on_record: Callable[[CallRecord], None] | None) -> None:
        self._judge, self._on_record = judge, on_record
        self._grades: Counter[str] | None = Counter()
        """Of what could not be read; None once something else was answered."""

    def __call__(self, record: CallRecord) -> None:
        """Pass a record on, and count it.

        Raises:
            JudgeError: when none of the first answers can be one to a pair.
        """
        if self._on_record is not None:
            self._on_record(record)
        if self._grades is None or record.outcome == "error" or not record.order:
            return
        grade = _grade(record)
        if grade is None:
            self._grades = None
            return
        self._grades[grade] += 1
        if self._grades.total() >= ENOUGH:
            grades = ", ".join(f"{count} x {grade}" for grade, count in self._grades.most_common(3))
            raise JudgeError(
                f"The first {self._grades.total()} answers of {self._judge.name} grade one response ({grades}), but "
                f"were asked to choose between two. {APART}"
            )


def _grade(record: CallRecord) -> str | None:
    """Return the grade in what is said of an answer that could not be read."""
    match = _NOT_ONE_OF.match(record.error or "") if record.outcome == "unparsed" else None
    return read_grade(match[1]) if match else None


class NoJournal(Journal):
    """Grants every call and forgets every answer."""

    def __init__(self) -> None:
        super().__init__("nowhere")

    @staticmethod
    def shown(address: str) -> str:
        """Return an address as it may be printed."""
        return address

    def settle_dead(self) -> None:
        """There is nothing that others could have left."""

    def _errors(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _answers(self, keys: Sequence[str], newer_than: float | None) -> dict[str, JournalledAnswer]:
        return {}

    async def reserve(self, key: str, **_: Any) -> Reservation:
        """Grant it."""
        return Reservation.GRANTED

    def mark_sent(self, key: str) -> None:
        """Nothing is booked."""

    async def release(self, key: str) -> None:
        """Nothing was set aside."""

    async def answered(self, key: str, **_: Any) -> bool:
        """Forget it."""
        return True

    async def failed(self, key: str, **_: Any) -> Held:
        """Forget it."""
        return Held(0, 0, "")

    def close(self) -> None:
        """Nothing is open."""


class LiveJudge:
    """A judge that is asked from many threads, a few calls at a time."""

    def __init__(self, judge: Judge, *, longest_s: float = LONGEST_S) -> None:
        """Describe it; its session is opened by the first call.

        Args:
            judge: The judge.
            longest_s: Most seconds for the calls of one `ask`.
        """
        self.judge, self._longest_s = judge, longest_s
        self._session: _SharedSession | None = None

    def ask(self, calls: Sequence[Call]) -> list[CallRecord]:
        """Ask calls at once and wait for them; may be called from any thread, one with a running event loop too.

        Raises:
            JudgeError: when there is no answer in time, or the service fails for good.
        """
        return self.asking(calls)()

    def asking(self, calls: Sequence[Call]) -> Callable[[], list[CallRecord]]:
        """Begin to ask calls, and return what waits for their answers: so several judges are asked at the same time."""
        price = self._price  # looked up here: it may load a library, and the loop is everybody's
        waiting, until = _loop().submit(self._ask_all(calls, price)), time.monotonic() + self._longest_s

        def answers() -> list[CallRecord]:
            try:
                return waiting.result(max(0.0, until - time.monotonic()))
            except concurrent.futures.TimeoutError:
                waiting.cancel()
                raise JudgeError(f"{self.judge.name} gave no answer within {self._longest_s:g} s.") from None

        return answers

    @cached_property
    def _price(self) -> Price | None:
        return judge_price(self.judge, None)

    async def _ask_all(self, calls: Sequence[Call], price: Price | None) -> list[CallRecord]:
        session = self._current(price)
        try:
            return list(await asyncio.gather(*(session.ask(call) for call in calls)))
        except JudgeError:
            # One row's service failing for good says nothing about the rows of tomorrow: they get a session anew.
            session.retired = True
            raise
        finally:
            await session.leave()

    def _current(self, price: Price | None) -> _SharedSession:
        # In the loop's own thread, like every use of a session: two threads cannot both make one.
        session = self._session
        if session is None or session.retired or session.process != os.getpid():
            session = self._session = _SharedSession(self.judge, price)
        session.users += 1
        return session


class _SharedSession:
    """A judge's open session, closed when it has retired and its last user leaves; lives in the loop's thread."""

    def __init__(self, judge: Judge, price: Price | None) -> None:
        self.process, self.users, self.retired = os.getpid(), 0, False
        settings = ClientSettings(concurrency=_CONCURRENCY, price=price, policy=_POLICY)
        self._session: JudgeSession = session_for(judge, NoJournal() if judge.model_judge else None, settings)
        self._opening: asyncio.Task[Any] | None = None
        self._calls_left = _CALLS_PER_SESSION if judge.model_judge else math.inf
        _loop().sessions.add(self)

    async def ask(self, call: Call) -> CallRecord:
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._session.__aenter__())
        # Shared: a row that gives up must not cancel the opening that others wait for.
        await asyncio.shield(self._opening)
        self._calls_left -= 1
        self.retired = self.retired or self._calls_left <= 0
        (work,) = self._session.prepare([call])
        answer = self._session.ask(work)
        return answer if isinstance(answer, CallRecord) else await answer

    async def leave(self) -> None:
        self.users -= 1
        if self.retired and not self.users:
            await self.close()

    async def close(self) -> None:
        _loop().sessions.discard(self)
        if self._opening is not None:
            opening, self._opening = self._opening, None
            await opening
            await self._session.__aexit__(None, None, None)


class _Loop:
    """The event loop of this process, in a thread that ends with it."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.sessions: set[_SharedSession] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="jrh-live", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def submit(self, work: Coroutine[Any, Any, R]) -> concurrent.futures.Future[R]:
        # An empty context: the stop of a run that this thread may be part of is not the stop of the shared session.
        return Context().run(asyncio.run_coroutine_threadsafe, work, self._loop)

    def close(self) -> None:
        """Close what is open; the child of a fork has neither the thread nor the right to."""
        if self.process != os.getpid() or self._loop.is_closed():
            return
        with suppress(concurrent.futures.TimeoutError):
            # Nothing is lost by a thread of a judge that hangs: nobody waits for its answer any more.
            self.submit(self._end()).result(10.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
        self._loop.close()

    async def _end(self) -> None:
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for session in list(self.sessions):
            await session.close()


_LOCK = threading.Lock()
_LOOPS: list[_Loop] = []
"""The newest last: a fork leaves that of its parent behind."""


def _loop() -> _Loop:
    with _LOCK:
        if not _LOOPS or _LOOPS[-1].process != os.getpid():
            _LOOPS.append(_Loop())
        return _LOOPS[-1]
