"""A judge during a run: calls in, records out.

`session_for` is the one place that tells the two judge contracts apart. A judge that answers by itself is simply
called; for a model judge calls become requests and keys, and responses become records.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from jrh_mlflow.engine.budget import AnsweredElsewhere
from jrh_mlflow.engine.calls import presentation_sha256
from jrh_mlflow.engine.client import ClientSettings, ModelClient
from jrh_mlflow.engine.first_answers import Ask, FirstAnswers
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.judges import AnsweringJudge, Judge, ModelJudge
from jrh_mlflow.judges.one_at_a_time import PointwiseJudge
from jrh_mlflow.judges.parsing import ParsedAnswer, kept_text, read_answer, read_grade
from jrh_mlflow.models.prices import (
    BYTES_PER_TOKEN,
    TYPICAL_OUTPUT_TOKENS,
    Price,
    cost_micro,
    prompt_size,
    worst_case_micro,
)
from jrh_mlflow.models.transports import RETRYABLE, TransportError
from jrh_mlflow.schema.items import LEVEL_CONDITIONS, Call, CallRecord, labels_cell
from jrh_mlflow.schema.presentation import Answer, Presentation
from jrh_mlflow.schema.requests import Request, Response
from jrh_mlflow.text import blank_secrets, clean_text

if TYPE_CHECKING:
    from typing_extensions import Self

NOT_SERVED = frozenset({"refusal", "empty_choices", "empty_content", "content_filter"})
"""Responses without an answer in them: recorded, but asked again when the run is repeated."""
_NO_TEXT = re.compile(r'"text":(null|"(\\[nrt]|\s)*")')
"""In the journal's form of a response: what an older version kept although nothing was answered."""
_AHEAD = 256
"""Calls looked up in the journal at once: a warm run is then bound by reading, not by asking one by one."""
WORKERS_PER_SLOT = 2
"""Workers per call in flight: while some wait for the journal's disk, others keep every slot to the model busy."""


class JudgeSession(AbstractAsyncContextManager["JudgeSession"]):
    """A judge that is asked many calls at once. Opened with `async with`."""

    workers: int
    """How many calls are worth working on at once."""

    @abstractmethod
    def prepare(self, calls: Iterable[Call]) -> Iterable[Any]:
        """Turn calls, in the order of the plan, into what `ask` takes."""

    @abstractmethod
    def ask(self, work: Any) -> CallRecord | Awaitable[CallRecord]:
        """Ask one call; a record that is there already needs no turn of the event loop."""

    def kept(self, work: Any) -> CallRecord | None:
        """Return the record of a call whose answer is there already; asks nothing, and the session may be closed."""
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

    def __init__(self, judge: AnsweringJudge, *, concurrency: int) -> None:
        self._judge = judge
        self._running = judge.running(concurrency)
        self.workers = 1 if judge.inline else concurrency

    async def __aenter__(self) -> Self:
        self._running.__enter__()
        return self

    async def __aexit__(self, *details: Any) -> None:
        self._running.__exit__(*details)

    def prepare(self, calls: Iterable[Call]) -> Iterable[Call]:
        """Take the calls as they are."""
        return calls

    def ask(self, work: Call) -> Awaitable[CallRecord]:
        """Ask one call."""
        return ask_one(self._judge, work)


async def ask_one(judge: AnsweringJudge, call: Call) -> CallRecord:
    """Ask one call. Whatever the judge raises is the outcome `error`, never a verdict and never a crash."""
    started = time.perf_counter()
    returned: object = None
    failure: str | None = None
    try:
        returned = await judge.ask(call)
    except Exception as error:
        failure = _described(error)
    return record(judge, call, returned, failure=failure, latency_s=time.perf_counter() - started)


def _described(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def record(judge: Judge, call: Call, returned: object, *, failure: str | None, latency_s: float) -> CallRecord:
    """Turn what a judge returned, or how it failed, into a record."""
    if failure is not None:
        outcome, answer, problem = "error", "", blank_secrets(clean_text(failure))
    else:
        outcome, answer, reason = read_answer(returned, call.presentation.answers)
        if outcome == "unparsed" and call.item.condition in LEVEL_CONDITIONS and (grade := read_grade(returned)):
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


class Numbering:
    """Renders calls and names them for the journal, in the order of the plan.

    The n-th identical request of a run has the replicate number n, whether it comes from a replicate or from the
    other order of a pair of equal texts: each is a call of its own, and the journal never serves one for two.
    """

    def __init__(self, judge: ModelJudge) -> None:
        self._judge = judge
        self._asked: Counter[str] = Counter()
        self._latest: dict[str, tuple[Presentation, Request]] = {}

    def prepare(self, call: Call) -> tuple[Request, str]:
        """Return a call's request and its key."""
        shown, request = self._latest.get(call.order, (None, None))
        if shown is not call.presentation or request is None:
            # Replicates of a presentation follow one another: it is rendered and hashed once.
            request = self._judge.request(call)
            self._latest[call.order] = (call.presentation, request)
        first = request.key(0)
        number = self._asked[first]
        self._asked[first] += 1
        return request, request.key(number) if number else first


def why_not_served(reading: ParsedAnswer) -> str | None:
    """Say why a response is asked for again when the run is repeated, or None: refused, filtered, or empty."""
    is_cut_off = reading.problem == "truncated" and not (reading.text or "").strip()
    return reading.problem if is_cut_off or reading.problem in NOT_SERVED else None


def has_text(kept: str) -> bool:
    """Whether an answer of the journal has a text, by its JSON: a quote of many calls should not have to read it."""
    return _NO_TEXT.search(kept) is None


def looked_up(
    judge: ModelJudge, calls: Iterable[Call], journal: Journal | None, *, fresh_after: float | None = None
) -> Iterator[tuple[Request, str, bool]]:
    """Yield each call's request, its key, and whether the journal answers it; nothing is asked or served."""
    numbering, rest = Numbering(judge), iter(calls)
    while chunk := [numbering.prepare(call) for call in islice(rest, _AHEAD)]:
        answers = {} if journal is None else journal.peek([key for _, key in chunk], newer_than=fresh_after)
        yield from ((request, key, key in answers and has_text(answers[key])) for request, key in chunk)


@dataclass(frozen=True, kw_only=True, slots=True)
class Quote:
    """What an evaluation would send and cost."""

    calls: int
    journalled: int
    """Answered already: served from the journal, not paid again."""
    input_tokens: int
    """Of the calls still to be paid, at four bytes a token."""
    output_tokens: int
    """At 150 a call."""
    usd: float | None
    """Estimate; None when the price is unknown."""
    worst_usd: float | None
    """What a cap would have to cover at most."""


def quote(
    judge: ModelJudge,
    calls: Iterable[Call],
    journal: Journal | None,
    price: Price | None,
    *,
    fresh_after: float | None = None,
) -> Quote:
    """Say what the calls would send and cost, rendering every one of them but sending none."""
    n_calls = journalled = n_input = n_output = estimate = worst = 0
    for request, _, answered in looked_up(judge, calls, journal, fresh_after=fresh_after):
        n_calls += 1
        if answered:
            journalled += 1
            continue
        size = prompt_size(request)
        tokens, answer = size // BYTES_PER_TOKEN, min(TYPICAL_OUTPUT_TOKENS, request.max_tokens or 10**9)
        n_input, n_output = n_input + tokens, n_output + answer
        if price is not None:
            estimate += cost_micro(price, tokens, answer)
            worst += worst_case_micro(price, size, request.max_tokens or answer)
    return Quote(
        calls=n_calls,
        journalled=journalled,
        input_tokens=n_input,
        output_tokens=n_output,
        usd=None if price is None else estimate / 1_000_000,
        worst_usd=None if price is None else worst / 1_000_000,
    )


class KeyedCall(NamedTuple):
    """A call that is ready to be asked."""

    call: Call
    request: Request
    key: str
    kept: str | None
    """Its answer in the journal, where there is one, fresh enough and with a text."""


class ModelSession(JudgeSession):
    """Asks a judge through a model client."""

    def __init__(self, judge: ModelJudge, journal: Journal, settings: ClientSettings) -> None:
        self.judge, self._journal, self._fresh_after = judge, journal, settings.fresh_after
        self._client = ModelClient(judge.model, judge.api_base, journal, settings)
        self._numbering = Numbering(judge)
        self._first: FirstAnswers | None = None
        self.workers = WORKERS_PER_SLOT * settings.concurrency

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *details: Any) -> None:
        await self._client.__aexit__(*details)

    def prepare(self, calls: Iterable[Call]) -> Iterator[KeyedCall]:
        """Prepare calls in the order of the plan, looking some of them up in the journal at once."""
        # Few at first, so that the first request need not wait for the rendering of all of them.
        rest, ahead = iter(calls), _AHEAD // 8
        while chunk := list(islice(rest, ahead)):
            ahead = min(2 * ahead, _AHEAD)
            prepared = [(call, *self._numbering.prepare(call)) for call in chunk]
            kept = self._journal.get_many([key for _, _, key in prepared], newer_than=self._fresh_after)
            for call, request, key in prepared:
                yield KeyedCall(call, request, key, kept.get(key))

    def watching(self, ask: Ask) -> Ask:
        """Look at the first answers, new or from the journal."""
        self._first = FirstAnswers(self.judge)
        return self._first.watching(ask)

    def kept(self, work: KeyedCall) -> CallRecord | None:
        """Read the journalled answer that `prepare` found, if it has a text."""
        if work.kept is None or not has_text(work.kept):
            return None
        return self._record(work, Response.from_json(work.kept))

    def may_pass(self, record: CallRecord) -> bool:
        """Whether the transport says so: its failures begin with their kind."""
        return record.outcome == "error" and (record.error or "").partition(":")[0] in RETRYABLE

    def ask(self, work: KeyedCall) -> CallRecord | Awaitable[CallRecord]:
        """Serve a call's journalled answer at once, or ask for it.

        Raises (awaited):
            OutOfBudget: The cap does not cover this call; nothing was sent.
            JudgeError: The circuit has tripped: the service fails for good.
        """
        return self.kept(work) or self._ask(work)

    async def _ask(self, keyed: KeyedCall) -> CallRecord:
        # Where nothing was kept when the calls were prepared, reserving tells what others have answered since.
        looked_at, kept = time.time(), None if keyed.kept is None else self._client.kept(keyed.key)
        if kept is not None and (kept.text or "").strip():
            return self._record(keyed, kept)
        # An empty answer that an older version kept makes way for the new one.
        replaces_before = None if kept is None else looked_at
        readings: list[ParsedAnswer] = []

        def unusable(response: Response) -> str | None:
            reading = self.judge.read(response, keyed.call)
            readings.append(reading)
            # On receipt: while an answer is made durable, others would be sent.
            if self._first and self._first.note(keyed.key, reading.outcome, reading.error):
                self._client.stop_sending()
            return why_not_served(reading)

        started = time.perf_counter()
        try:
            response = await self._client.send(
                keyed.request, keyed.key, unusable=unusable, replaces_before=replaces_before
            )
        except AnsweredElsewhere as answered:
            return self._record(keyed, answered.response)
        except TransportError as error:
            return CallRecord(
                **identity(keyed.call),
                outcome="error",
                answer="",
                cost_usd=None if error.cost_micro is None else error.cost_micro / 1_000_000,
                latency_s=time.perf_counter() - started,
                model=self.judge.model,
                prompt_sha256=keyed.key,
                error=str(error),
            )
        return self._record(keyed, response, reading=readings[-1], seconds=time.perf_counter() - started)

    def _record(
        self, keyed: KeyedCall, response: Response, *, reading: ParsedAnswer | None = None, seconds: float | None = None
    ) -> CallRecord:
        """Write a record; a response without a reading comes from the journal."""
        cached, reading = reading is None, reading or self.judge.read(response, keyed.call)
        cost = self._client.cost_micro(response)
        return CallRecord(
            **identity(keyed.call),
            outcome=reading.outcome,
            answer=reading.answer or "",
            rationale=reading.rationale,
            raw=kept_text(clean_text(response.refusal or response.text or "")) or None,
            input_tokens=response.input_tokens,
            output_tokens=response.output_tokens,
            cost_usd=None if cost is None else cost / 1_000_000,
            latency_s=seconds,
            cached=cached,
            model=response.model or self.judge.model,
            system_fingerprint=response.system_fingerprint,
            prompt_sha256=keyed.key,
            error=reading.error,
            confidence=reading.confidence,
            probabilities=_as_json(reading.probabilities),
        )


class PairOfWork(NamedTuple):
    """A call about a pair, and what the inner session needs for its two halves."""

    call: Call
    first: Any
    second: Any


class PointwiseSession(JudgeSession):
    """Asks the session of a judge of one response about the two contents of a pair, one after the other."""

    def __init__(self, judge: PointwiseJudge, inner: JudgeSession) -> None:
        self._judge, self._inner, self.workers = judge, inner, inner.workers
        self._ask_inner: Ask = inner.ask

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *details: Any) -> None:
        await self._inner.__aexit__(*details)

    def prepare(self, calls: Iterable[Call]) -> Iterator[PairOfWork]:
        """Prepare the halves of each call, both through the same numbering."""
        waiting: deque[Call] = deque()

        def halves() -> Iterator[Call]:
            for call in calls:
                waiting.append(call)
                yield from self._judge.halves(call)

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
        first = await _awaited(self._ask_inner(work.first))
        return self._joined(work.call, first, await _awaited(self._ask_inner(work.second)))

    def _joined(self, call: Call, first: CallRecord, second: CallRecord) -> CallRecord:
        outcome, answer, problem = self._judge.choose(first, second, call.presentation.answers)
        both = {"First": first, "Second": second}
        said = [f"{slot} ({one.answer or one.outcome}): {one.rationale or ''}".strip() for slot, one in both.items()]
        sums = {name: _sum_of(name, both.values()) for name in ("input_tokens", "output_tokens", "cost_usd")}
        return CallRecord(
            **identity(call),
            outcome=outcome,
            answer=answer,
            rationale="\n".join(said),
            raw="\n".join(f"{slot}: {one.raw}" for slot, one in both.items() if one.raw) or None,
            **sums,
            latency_s=_sum_of("latency_s", both.values()),
            cached=first.cached and second.cached,
            model=first.model,
            system_fingerprint=first.system_fingerprint,
            prompt_sha256=hashlib.sha256(f"{first.prompt_sha256}\n{second.prompt_sha256}".encode()).hexdigest(),
            error=problem,
        )


async def _awaited(answer: CallRecord | Awaitable[CallRecord]) -> CallRecord:
    return answer if isinstance(answer, CallRecord) else await answer


def _sum_of(name: str, records: Iterable[CallRecord]) -> Any:
    """Sum a column; None where one of the records does not know it."""
    values = [getattr(one, name) for one in records]
    return None if None in values else sum(values)


def _as_json(probabilities: Mapping[str, float] | None) -> str | None:
    if probabilities is None:
        return None
    short = {answer: float(f"{probability:.6g}") for answer, probability in sorted(probabilities.items())}
    return json.dumps(short, ensure_ascii=False)


def identity(call: Call) -> dict[str, Any]:
    """Return the columns that say which call a record is of."""
    item = call.item
    return {
        "suite_item": item.id,
        "task": item.task,
        "condition": item.condition,
        "delta": item.delta,
        "order": call.order,
        "better": item.better or "",
        "replicate": call.replicate,
        "expected": item.expected or "",
        "label_source": item.label_source,
        "rubric": item.rubric_id,
        "labels": "" if item.kind == "pair" else labels_cell(item.answers, item.ordinal),
    }
