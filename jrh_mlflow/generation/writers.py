"""Who writes (a generator model or a function of the user's), who confirms finished items, how both are asked.

A validator is asked the judge's own question, or whether a rewrite kept what it must. It filters; it never decides a
label.

The model calls of one job come in order: served from the journal, passed over, or sent. How a restart works: everything
between two calls is deterministic, and every usable answer is in the journal under a key of its own, so a second run
simply runs again and is served. What the journal cannot serve is a call without a usable answer (a refusal, a failed
request): was it never made, or did the earlier run get nothing and go on? When the first answer is missing, the job is
therefore rehearsed from the journal alone, as if every missing answer had been none. Up to the last answer that the
rehearsal finds, the earlier run went the same way: what is missing before it was asked, had no usable answer, and is
not asked again. From there on models are asked.

So an item that was made costs nothing and comes out the same, and so does what a killed run had done of one. An item
that was set aside because the last answers were refused is taken up there: the refused calls are made again.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import math
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

from jrh_mlflow.engine.budget import AnsweredElsewhere, Paid
from jrh_mlflow.engine.calls import presentation_of
from jrh_mlflow.engine.client import ModelClient
from jrh_mlflow.engine.sessions import NOT_SERVED, ask_one
from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.judges import AnsweringJudge, Judge, ModelJudge
from jrh_mlflow.judges.answer_text import spoken_text
from jrh_mlflow.judges.callables import UserFunction
from jrh_mlflow.judges.parsing import PROBLEMS, text_problem
from jrh_mlflow.judges.prompted import PromptedJudge, address_of, checked_extra
from jrh_mlflow.judges.rendering import load_template
from jrh_mlflow.models.catalog import endpoint_of, takes_schema
from jrh_mlflow.models.transports import TransportError
from jrh_mlflow.options import AUTOMATIC, NO_GENERATOR
from jrh_mlflow.perturb import Target
from jrh_mlflow.plugins import function_name
from jrh_mlflow.schema.items import Call, Item
from jrh_mlflow.schema.requests import Request, Response
from jrh_mlflow.text import blank_secrets, clean_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What a writer or a validator said to one question: a text, or the problem."""

    text: str | None = None
    """What was written, or the validator's answer."""
    problem: str | None = None
    """Why there is no text."""
    input_tokens: int | None = 0
    """None is unknown."""
    output_tokens: int | None = 0
    cost_usd: float | None = 0.0
    """What its attempts told, the retried ones included; None is unknown, never free."""
    attempts: Paid = field(default_factory=Paid)
    cached: bool = False
    key: str | None = None
    """Of the answer in the journal."""
    called: bool = True
    """False where nothing was asked: by code, or because an earlier run knows that there is no text."""
    prompt_sha256: str | None = None


@dataclass(kw_only=True, slots=True)
class Usage:
    """Calls, tokens and dollars of all models together; sums are of what is known."""

    calls: int = 0
    cached: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_micro: int = 0
    unknown_costs: int = 0
    """Calls whose cost is unknown: with any, `cost_usd` is a lower bound."""
    attempts: Paid = field(default_factory=Paid)
    paid: dict[str, int] = field(default_factory=dict, repr=False)
    """Keys of the answers that are counted, with the micro-dollars of each."""

    def add(self, call: Reply) -> None:
        """Count a call; one that was asked before in the same run has been paid and counted."""
        if not call.called:
            return
        self.calls += 1
        self.cached += call.cached
        self.attempts += call.attempts
        cost_micro = round((call.cost_usd or 0.0) * 1_000_000)
        # A function's answers have no key: each call of it is counted.
        if call.key is not None:
            if call.key in self.paid:
                # Who sent a question may come after one that found the answer in the journal: then
                # only what failed attempts cost is left to count.
                if not call.cached:
                    self.cost_micro += cost_micro - self.paid[call.key]
                return
            self.paid[call.key] = cost_micro
        self.input_tokens += call.input_tokens or 0
        self.output_tokens += call.output_tokens or 0
        self.cost_micro += cost_micro
        self.unknown_costs += call.cost_usd is None

    def add_ended(self, attempts: Paid) -> None:
        """Count what was paid for a call that has no reply, because generation was stopped."""
        self.attempts += attempts
        self.cost_micro += attempts.micro

    def plus(self, other: Usage) -> Usage:
        """Return what both used."""
        counts = [count.name for count in fields(self) if count.name != "paid"]
        # The keys are left out: labelling, proposing and writing ask different questions.
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in counts})

    @property
    def cost_usd(self) -> float | None:
        """Dollars of the calls whose cost is known, or None when none is that was not free."""
        return None if self.unknown_costs and not self.cost_micro else self.cost_micro / 1_000_000


PASSED_OVER = Reply(problem="no usable answer in an earlier run", called=False)
"""Instead of a call that an earlier run made, that gave nothing, and after which it went on."""

UNKNOWN_COST: Mapping[str, Any] = {"input_tokens": None, "output_tokens": None, "cost_usd": None}


class Question:
    """One call that is to be made: by itself to a function or a judge of the user's, whose answers are not kept."""

    remembers = False
    """True where usable answers are kept in the journal."""

    def __init__(self, answer: Callable[[], Awaitable[Reply]]) -> None:
        self._answer, self.attempts = answer, Paid()

    def kept(self) -> Reply | None:
        """Return the answer that an earlier call was given, where answers are kept; nothing is sent."""
        return None

    async def send(self) -> Reply:
        """Make the call.

        Raises:
            OutOfBudget: when the cap does not cover it.
            JudgeError: when the service fails for good.
        """
        return await self._answer()


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadResponse:
    """What a response says, before it is counted what it used."""

    text: str | None
    problem: str | None
    unusable: str | None
    """Why the journal shall not keep it (a refusal, no text), or None."""


@dataclass(frozen=True, kw_only=True)
class ModelQuestion(Question):
    """A call to a model behind journal, limits and budget."""

    client: ModelClient
    request: Request
    replicate: int
    """The same request with another number gets an answer of its own."""
    read: Callable[[Response], ReadResponse]
    prompt_sha256: str | None = None
    lock: asyncio.Lock | None = None
    """Shared by all who may ask the same at once: the first one pays, the others read the journal."""
    attempts: Paid = field(default_factory=Paid)
    """What sending it came to."""
    remembers = True

    @property
    def key(self) -> str:
        """The journal's."""
        return self.request.key(self.replicate)

    def kept(self) -> Reply | None:
        """Return the journalled answer."""
        response = self.client.kept(self.key)
        return None if response is None else self._reply(response, self.read(response), cached=True)

    async def send(self) -> Reply:
        """Send the request, and keep what comes back."""
        # Texts have replicate numbers of their own; only validators can ask the same thing twice at once.
        if self.lock is None:
            return await self._send()
        async with self.lock:
            # Whoever waited for the lock finds the answer of the first one here.
            return self.kept() or await self._send()

    async def _send(self) -> Reply:
        readings: list[ReadResponse] = []

        def unusable(response: Response) -> str | None:
            readings.append(self.read(response))
            return readings[-1].unusable

        attempts = self.attempts
        try:
            response = await self.client.send(self.request, self.key, unusable=unusable, attempts=attempts)
        except AnsweredElsewhere as answered:
            reply = self._reply(answered.response, self.read(answered.response), cached=True)
            cost = None if reply.cost_usd is None else reply.cost_usd + attempts.micro / 1_000_000
            return replace(reply, attempts=attempts, cost_usd=cost)
        except TransportError as error:
            # A failed call may have been billed: the provider's word on it counts, and silence is unknown.
            billed: Mapping[str, Any] = UNKNOWN_COST if attempts.usd is None else {"cost_usd": attempts.usd}
            problem = f"call failed: {error}"
            return Reply(problem=problem, prompt_sha256=self.prompt_sha256, attempts=attempts, **billed)
        return replace(self._reply(response, readings[-1], cached=False), attempts=attempts, cost_usd=attempts.usd)

    def _reply(self, response: Response, reading: ReadResponse, *, cached: bool) -> Reply:
        cost = self.client.cost_micro(response)
        return Reply(
            text=reading.text,
            problem=reading.problem,
            input_tokens=response.input_tokens,
            output_tokens=response.output_tokens,
            cost_usd=None if cost is None else cost / 1_000_000,
            cached=cached,
            key=self.key,
            prompt_sha256=self.prompt_sha256,
        )


class Stopped(Exception):  # noqa: N818 - a signal, not a failure
    """Generation was stopped, or a rehearsal knows no more; nothing more is asked."""


class Session:
    """Asks about one job, one call after the other."""

    def __init__(
        self, usage: Usage, *, stopped: Callable[[], bool], rehearse: Callable[[], Awaitable[int]] | None
    ) -> None:
        """Set it up.

        Args:
            usage: Where every call is counted.
            stopped: Tells whether generation was stopped meanwhile.
            rehearse: Counts the calls from here to the last one that an earlier run has an answer to; None when no
                earlier run can have passed over a call.
        """
        self._usage, self._stopped, self._rehearse = usage, stopped, rehearse
        self._calls, self._known = 0, 0

    async def ask(self, question: Question) -> Reply:
        """Serve what the journal holds, pass over what an earlier run got no answer to, and send the rest.

        Raises:
            Stopped: when generation was stopped.
        """
        if self._stopped():
            raise Stopped
        self._calls += 1
        try:
            reply = question.kept() or await self._missing(question)
        except BaseException:
            self._usage.add_ended(question.attempts)
            raise
        self._usage.add(reply)
        return reply

    async def _missing(self, question: Question) -> Reply:
        if self._rehearse is not None:
            # Once per session: after the first missing answer the rest of the earlier run is known.
            self._known, self._rehearse = await self._rehearse(), None
        return PASSED_OVER if self._calls < self._known else await question.send()


class Rehearsal(Session):
    """Answers from the journal alone, and remembers where the last answer came."""

    def __init__(self) -> None:
        super().__init__(Usage(), stopped=lambda: False, rehearse=None)
        self.known = 0
        """Calls up to the last one with an answer."""

    async def ask(self, question: Question) -> Reply:
        """Return the journalled answer, or that there was none.

        Raises:
            Stopped: where answers are not kept: what follows is rehearsed when it has been asked.
        """
        if not question.remembers:
            raise Stopped
        self._calls += 1
        reply = question.kept()
        self.known = self.known if reply is None else self._calls
        return reply or PASSED_OVER


MAX_ATTEMPTS = 100
CODE_NAME = "code"
"""Who wrote an item that needs no writer."""
ATTEMPTS = 4
"""Of code, and of functions of the user's."""
TEXT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
"""What a writer answers in, where its model takes schemas: around such a text there is no room for remarks."""
_MAX_PROBLEM = 200

WriterFunction = Callable[[str, "float | None"], object]
"""`f(brief, temperature)`, sync or async; returns the text."""


@dataclass(frozen=True)
class Generator:
    """A litellm model name with the sampling settings of a generator.

    Example:
        >>> Generator("openai/gpt-4o-mini", temperature=0.7, max_temperature=1.3, attempts=4).temperatures
        (0.7, 0.9, 1.1, 1.3)
    """

    model: str
    _: KW_ONLY
    api_base: str | None = None
    """An endpoint that speaks the OpenAI dialect; when None the provider's variable is read: OPENAI_BASE_URL, …"""
    max_tokens: int = 2048
    temperature: float | None = 0.7
    """Of the first attempt; None leaves it to the provider on every attempt."""
    max_temperature: float = 1.3
    """Of the last attempt; those between are spaced evenly."""
    attempts: int = 4
    seed: int | None = None
    """Sent to the provider, where it takes one."""
    extra: Mapping[str, Any] | None = None
    """Further fields of the request body; they are logged, so a key among them is refused."""
    structured: bool | None = None
    """Whether texts are asked for as `{"text": …}` in a JSON schema; None: where the model is known to take one."""

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not self.model.strip():
            raise ValueError(f"`model` must name a model, but is {self.model!r}.")
        if self.max_tokens < 1:
            raise ValueError(f"`max_tokens >= 1` must hold, but got {self.max_tokens}.")
        if not 1 <= self.attempts <= MAX_ATTEMPTS:
            raise ValueError(f"`1 <= attempts <= {MAX_ATTEMPTS}` must hold, but got {self.attempts}.")
        start, highest = self.temperature, self.max_temperature
        if start is not None and not (math.isfinite(start) and math.isfinite(highest) and 0 <= start <= highest):
            rule = "`0 <= temperature <= max_temperature` must hold"
            raise ValueError(f"{rule}, but got temperature={start}, max_temperature={highest}.")
        # Frozen, but addresses must be spelled in one way before they name a journal key.
        object.__setattr__(self, "api_base", address_of(self.model, self.api_base))
        object.__setattr__(self, "extra", checked_extra(self.extra or {}, of="Generator"))

    @property
    def temperatures(self) -> tuple[float | None, ...]:
        """The temperature of each attempt: even steps from the first to the maximum."""
        return ramp(self.temperature, self.max_temperature, self.attempts)

    @property
    def endpoint(self) -> str | None:
        """Who answers where no `api_base` is given, as the environment says now."""
        return None if self.api_base else endpoint_of(self.model)

    @property
    def takes_schema(self) -> bool:
        """Whether texts are asked for in a JSON schema."""
        return takes_schema(self.model, api_base=self.api_base) if self.structured is None else self.structured

    def request(self, brief: str, *, temperature: float | None, own_form: bool = False) -> Request:
        """Return what is sent: the brief as one message of the user; `own_form` where it says the answer's form."""
        return Request(
            model=self.model,
            messages=({"role": "user", "content": brief},),
            temperature=temperature,
            max_tokens=self.max_tokens,
            seed=self.seed,
            response_schema=TEXT_SCHEMA if self.takes_schema and not own_form else None,
            api_base=self.api_base,
            endpoint=self.endpoint,
            extra=self.extra or {},
        )

    def settings(self) -> dict[str, object]:
        """Everything that can change a text, and no key; logged as params `generator.*`."""
        own = {setting.name: getattr(self, setting.name) for setting in fields(self) if setting.name != "extra"}
        # Without a first temperature there is no ramp, so a highest one would say something untrue.
        highest = None if self.temperature is None else self.max_temperature
        extra = {f"extra.{key}": json.dumps(value, ensure_ascii=False) for key, value in (self.extra or {}).items()}
        address = self.api_base or self.endpoint
        return {"model": self.model, "kind": "model", **own, "api_base": address, "max_temperature": highest, **extra}

    def as_judge(self) -> PromptedJudge:
        """Return the same model as a judge: the validator when nobody names another one."""
        return PromptedJudge(self.model, api_base=self.api_base, structured=self.structured)


def ramp(start: float | None, highest: float, attempts: int) -> tuple[float | None, ...]:
    """Return `attempts` temperatures in even steps, the last one exactly the highest; one attempt has the start.

    Example:
        >>> ramp(0.5, 1.0, 3)
        (0.5, 0.75, 1.0)
    """
    if start is None or attempts == 1:
        return (start,) * attempts
    # In fractions, because 0.7 + 0.6 / 3 is 0.8999999999999999 in binary.
    low, high = Fraction(repr(float(start))), Fraction(repr(float(highest)))
    return tuple(float(low + (high - low) * number / (attempts - 1)) for number in range(attempts))


def as_generator(spec: object) -> Generator | WriterFunction | None:
    """Resolve what a user gives: a model name, a `Generator`, a function, or nobody (None or `none`).

    Raises:
        RecipeError: for anything else.
    """
    if spec is None or spec == NO_GENERATOR:
        return None
    if isinstance(spec, str):
        return Generator(spec)
    if isinstance(spec, Generator) or (callable(spec) and not isinstance(spec, type)):
        return spec
    raise RecipeError(
        "A generator must be a model name, a Generator, a function f(brief, temperature) or 'none', "
        f"but got {type(spec).__name__}."
    )


class Writer(ABC):
    """A model or function that is prompted to produce a text, a plan or an edited message."""

    name: str
    """What items and reports call it."""
    temperatures: tuple[float | None, ...]
    """One per attempt."""

    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[object]:
        """Be ready to answer inside the block."""

    @abstractmethod
    def question(self, brief: str, *, attempt: int, first: int, own_form: bool = False) -> Question:
        """Return a brief as a question.

        Args:
            brief: What the writer is told.
            attempt: From 0: which temperature of the ramp.
            first: Replicate number of attempt 0; the same brief with another one gets an answer of its own.
            own_form: True where the brief says in which form to answer, as to the planner and the editor of
                transcripts: a message may hold any arguments of any tool, which no strict schema allows.
        """


def code_rng(target: Target, *, seed: int, attempt: int) -> random.Random:
    """Return random numbers for code that writes: they depend on nothing but seed, item and attempt."""
    text = f"jrh-write\n{seed}\n{target.id}\n{attempt}".encode("utf-8", "surrogatepass")
    return random.Random(hashlib.sha256(text).digest())  # noqa: S311 - texts, not secrets


def writer_settings(generator: Generator | WriterFunction | None, *, seed: int) -> dict[str, object]:
    """Return what makes a writer this one; logged as params `generator.*`."""
    if generator is None:
        return {"model": CODE_NAME, "kind": CODE_NAME, "seed": seed}
    if isinstance(generator, Generator):
        return generator.settings()
    return {
        "model": function_name(generator),
        "kind": "callable",
        "temperature": _FUNCTION_RAMP[0],
        "max_temperature": _FUNCTION_RAMP[-1],
        "attempts": ATTEMPTS,
    }


class ModelWriter(Writer):
    """A generator model behind journal, limits and budget."""

    def __init__(self, generator: Generator, client: ModelClient, *, shared: bool = False) -> None:
        """Set it up; a `shared` client is opened and closed by another writer."""
        self._generator, self._client, self._shared = generator, client, shared
        self.name, self.temperatures = generator.model, generator.temperatures

    def opened(self) -> AbstractAsyncContextManager[object]:
        """Open the client, unless another writer does."""
        return nullcontext() if self._shared else self._client

    def question(self, brief: str, *, attempt: int, first: int, own_form: bool = False) -> Question:
        """Return the brief as a request."""
        # A lone surrogate of a dataset cannot be sent; cleaned first, so that the digest is of what was sent.
        brief = clean_text(brief)
        request = self._generator.request(brief, temperature=self.temperatures[attempt], own_form=own_form)
        return ModelQuestion(
            client=self._client,
            request=request,
            replicate=first + attempt,
            read=lambda response: _read_text(response, brief, in_schema=request.response_schema is not None),
            prompt_sha256=_sha256(brief),
        )


def _read_text(response: Response, brief: str, *, in_schema: bool) -> ReadResponse:
    unusable = text_problem(response)
    answer = None if unusable else spoken_text(clean_text(response.text or ""), shown=brief)
    # Servers that do not know schemas answer in plain text all the same: it is read as it is.
    text = _text_field(answer) if answer and in_schema else answer
    problem = unusable or (None if text else "empty_content" if answer else "only_thoughts")
    return ReadResponse(
        text=text or None, problem=f"{problem}: {PROBLEMS[problem]}" if problem else None, unusable=unusable
    )


def _text_field(answer: str) -> str:
    """Return the text of an answer in `TEXT_SCHEMA`; an answer of another form is the text itself.

    Example:
        >>> _text_field('{"text": "It rained."}'), _text_field("It rained.")
        ('It rained.', 'It rained.')
    """
    try:
        fields = json.loads(answer) if answer.startswith("{") else None
    except (ValueError, RecursionError):
        return answer
    if not isinstance(fields, dict) or set(fields) != {"text"} or not isinstance(fields["text"], str):
        return answer
    return clean_text(fields["text"]).strip()


_FUNCTION_RAMP = ramp(0.7, 1.3, ATTEMPTS)
"""The temperatures a function of the user's is called with."""


class CallableWriter(Writer):
    """A function of the user's. What it raises, or returns that is no text, is the attempt's problem."""

    def __init__(self, function: WriterFunction, *, concurrency: int) -> None:
        self._function, self._concurrency = UserFunction(function, thread_name="jrh-writer"), concurrency
        self.name = function_name(function)
        self.temperatures = _FUNCTION_RAMP

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Give the function its threads."""
        self._slots = asyncio.Semaphore(self._concurrency)
        with self._function.running(self._concurrency):
            yield

    def question(self, brief: str, *, attempt: int, first: int, own_form: bool = False) -> Question:
        """Return a call of the function with the brief."""
        return Question(lambda: self._answered(clean_text(brief), self.temperatures[attempt]))

    async def _answered(self, brief: str, temperature: float | None) -> Reply:
        facts: dict[str, Any] = {"prompt_sha256": _sha256(brief), **UNKNOWN_COST}
        async with self._slots:
            try:
                returned = await self._function(brief, temperature)
            except Exception as error:
                return Reply(problem=blank_secrets(clean_text(f"{type(error).__name__}: {error}")), **facts)
        if not isinstance(returned, str):
            return Reply(problem=f"{type(returned).__name__} instead of a text", **facts)
        return Reply(text=clean_text(returned).strip(), **facts)


def _sha256(brief: str) -> str:
    return hashlib.sha256(brief.encode()).hexdigest()


MEANING = "meaning"
"""Condition of the item that asks a validator whether a rewrite kept what it must."""


class LacksKeyError(JudgeError):
    """A model cannot be asked, and the journal does not hold its answer."""


class Validator(ABC):
    """Answers the judge's question about an item; the text of its reply is the answer."""

    name: str

    @abstractmethod
    def takes(self, item: Item) -> bool:
        """Tell whether it can be asked about an item: who knows one question only compares no texts."""

    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[object]:
        """Be ready to answer inside the block."""

    @abstractmethod
    def question(self, item: Item, *, replicate: int = 0) -> Question:
        """Return the judge's question about an item; with another number it gets an answer of its own."""


def call_about(item: Item, judge: Judge) -> Call:
    """Lay an item out exactly as a judge will see it in an evaluation."""
    return Call(item=item, order="", replicate=0, presentation=presentation_of(item, "", judge.tie_criterion))


def asked_judge(judge: ModelJudge, item: Item) -> ModelJudge | None:
    """Return a model as it is asked about an item: texts are compared by the package's prompt, or not at all."""
    if item.condition != MEANING:
        return judge
    if not isinstance(judge, PromptedJudge) or judge.kind != PromptedJudge.kind:
        return None
    plain = copy.copy(judge)
    plain.template, plain.rubric = load_template(AUTOMATIC), None
    return plain


class ModelValidator(Validator):
    """A prompted judge behind journal, limits and budget. The same question is asked once, however many ask it."""

    def __init__(self, judge: ModelJudge, client: ModelClient, *, shared: bool = False) -> None:
        """Set it up; a `shared` client is opened and closed by the writer."""
        self._judge, self._client, self._shared, self.name = judge, client, shared, judge.name
        self._locks: dict[str, asyncio.Lock] = {}

    def takes(self, item: Item) -> bool:
        """Tell whether it is no judge with messages of its own, or has its own question to answer."""
        return asked_judge(self._judge, item) is not None

    def opened(self) -> AbstractAsyncContextManager[object]:
        """Open the client, unless the writer does."""
        return nullcontext() if self._shared else self._client

    def question(self, item: Item, *, replicate: int = 0) -> ModelQuestion:
        """Return the question; two attempts with the same text must not both be paid."""
        judge = asked_judge(self._judge, item)
        assert judge is not None
        call = call_about(item, judge)

        def read(response: Response) -> ReadResponse:
            reading = judge.read(response, call)
            return ReadResponse(
                text=reading.answer or (None if reading.problem else reading.outcome),
                problem=reading.error[:_MAX_PROBLEM] if reading.error else None,
                unusable=reading.problem if reading.problem in NOT_SERVED else None,
            )

        request = judge.request(call)
        # One lock per journal key: different questions do not wait for one another.
        lock = self._locks.setdefault(request.key(replicate), asyncio.Lock())
        return ModelQuestion(client=self._client, request=request, replicate=replicate, read=read, lock=lock)


class JudgeValidator(Validator):
    """Any other judge: a callable, an MLflow judge, a scripted one."""

    def __init__(self, judge: AnsweringJudge, *, concurrency: int) -> None:
        self._judge, self._concurrency, self.name = judge, concurrency, judge.name

    def takes(self, item: Item) -> bool:
        """Tell whether it is a function, which sees the question, or has its own question to answer."""
        return item.condition != MEANING or self._judge.kind in ("callable", "scripted")

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Give the judge its threads."""
        self._slots = asyncio.Semaphore(self._concurrency)
        with self._judge.running(self._concurrency):
            yield

    def question(self, item: Item, *, replicate: int = 0) -> Question:
        """Return the question; whatever the judge raises, or returns outside the answers, is a problem."""

        async def send() -> Reply:
            async with self._slots:
                record = await ask_one(self._judge, replace(call_about(item, self._judge), replicate=replicate))
            return Reply(
                text=record.answer or (None if record.error else record.outcome),
                problem=record.error[:_MAX_PROBLEM] if record.error else None,
                input_tokens=record.input_tokens,
                output_tokens=record.output_tokens,
                cost_usd=record.cost_usd,
                # A scripted judge is a rule of ours: nobody was asked, so no call is counted.
                called=self._judge.kind != "scripted",
            )

        return Question(send)
