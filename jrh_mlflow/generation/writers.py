"""Who writes (a generator model, a function of the user's, or rules), and who confirms finished items.

A validator is asked the judge's own question. It filters; it never decides a label.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, fields, replace
from fractions import Fraction
from typing import Any

from jrh_mlflow.engine.calls import present
from jrh_mlflow.engine.client import ModelClient
from jrh_mlflow.engine.sessions import NOT_SERVED, ask_one
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.generation.outcomes import Reply
from jrh_mlflow.generation.session import UNKNOWN_COST, ModelQuestion, OwnQuestion, Question, ReadResponse
from jrh_mlflow.judges import AnsweringJudge, Judge, ModelJudge
from jrh_mlflow.judges.callables import UserFunction
from jrh_mlflow.judges.parsing import PROBLEMS, text_problem
from jrh_mlflow.judges.prompted import PromptedJudge, address_of, checked_extra
from jrh_mlflow.judges.thoughts import spoken_text
from jrh_mlflow.models.catalog import endpoint_of, takes_schema
from jrh_mlflow.models.local.weights import canonical
from jrh_mlflow.options import BY_RULES, OFFLINE
from jrh_mlflow.perturb import ReliabilityTest, Target
from jrh_mlflow.plugins import function_name
from jrh_mlflow.schema.items import Call, Item
from jrh_mlflow.schema.requests import Request, Response
from jrh_mlflow.text import blank_secrets, clean_text

MAX_ATTEMPTS = 100
OFFLINE_NAME = "offline rules"
CODE_NAME = "code"
ATTEMPTS = 4
"""Of rules, and of functions of the user's."""
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
        object.__setattr__(self, "model", canonical(self.model))
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
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "extra"}
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
    """Resolve what a user gives: a model name, a `Generator`, a function, or `none`, `offline` or None for the rules.

    Raises:
        RecipeError: for anything else.
    """
    if spec is None or (isinstance(spec, str) and spec in BY_RULES):
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
    """Whoever writes."""

    name: str
    """What items and reports call it."""
    temperatures: tuple[float | None, ...]
    """One per attempt."""

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """What makes it this writer; logged as params `generator.*`."""


class BriefedWriter(Writer):
    """A writer who is told in words what to do, and answers: with a text, a plan or an edited message."""

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


class OfflineWriter(Writer):
    """The rule-based stand-ins of the tests: good enough to try everything out, no measure of a judge's weakness."""

    name = OFFLINE_NAME

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.temperatures = (None,) * ATTEMPTS

    def settings(self) -> dict[str, object]:
        """Say that no model wrote."""
        return {"model": OFFLINE, "kind": OFFLINE, "attempts": len(self.temperatures), "seed": self.seed}


def rule_rng(target: Target, *, seed: int, attempt: int) -> random.Random:
    """Return random numbers for code that writes: they depend on nothing but seed, item and attempt."""
    text = f"jrh-write\n{seed}\n{target.id}\n{attempt}".encode("utf-8", "surrogatepass")
    return random.Random(hashlib.sha256(text).digest())  # noqa: S311 - texts, not secrets


def by_rule(test: ReliabilityTest, target: Target, *, seed: int, attempt: int) -> str:
    """Have a test's own code write."""
    return test.write(target, rule_rng(target, seed=seed, attempt=attempt))


class ModelWriter(BriefedWriter):
    """A generator model behind journal, limits and budget."""

    def __init__(self, generator: Generator, client: ModelClient, *, shared: bool = False) -> None:
        """Set it up; a `shared` client is opened and closed by another writer."""
        self._generator, self._client, self._shared = generator, client, shared
        self.name, self.temperatures = generator.model, generator.temperatures

    def settings(self) -> dict[str, object]:
        """Return the generator's."""
        return self._generator.settings()

    def opened(self) -> AbstractAsyncContextManager[object]:
        """Open the client, unless another writer does."""
        return nullcontext() if self._shared else self._client

    def question(self, brief: str, *, attempt: int, first: int, own_form: bool = False) -> Question:
        """Return the brief as a request."""
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


class CallableWriter(BriefedWriter):
    """A function of the user's. What it raises, or returns that is no text, is the attempt's problem."""

    def __init__(self, function: WriterFunction, *, concurrency: int) -> None:
        self._function, self._concurrency = UserFunction(function, thread_name="jrh-writer"), concurrency
        self.name = function_name(function)
        self.temperatures = ramp(0.7, 1.3, ATTEMPTS)

    def settings(self) -> dict[str, object]:
        """Name the function and the ramp it is called with."""
        first, last = self.temperatures[0], self.temperatures[-1]
        ramped = {"temperature": first, "max_temperature": last, "attempts": len(self.temperatures)}
        return {"model": self.name, "kind": "callable", **ramped}

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Give the function its threads."""
        self._slots = asyncio.Semaphore(self._concurrency)
        with self._function.running(self._concurrency):
            yield

    def question(self, brief: str, *, attempt: int, first: int, own_form: bool = False) -> Question:
        """Return a call of the function with the brief."""
        return OwnQuestion(lambda: self._answered(clean_text(brief), self.temperatures[attempt]))

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


class Validator(ABC):
    """Answers the judge's question about an item; the text of its reply is the answer."""

    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[object]:
        """Be ready to answer inside the block."""

    @abstractmethod
    def question(self, item: Item, *, replicate: int = 0) -> Question:
        """Return the judge's question about an item; with another number it gets an answer of its own."""


def call_about(item: Item, judge: Judge) -> Call:
    """Lay an item out exactly as a judge will see it in an evaluation."""
    return Call(item=item, order="", replicate=0, presentation=present(item, "", judge.tie_criterion))


class ModelValidator(Validator):
    """A prompted judge behind journal, limits and budget. The same question is asked once, however many ask it."""

    def __init__(self, judge: ModelJudge, client: ModelClient, *, shared: bool = False) -> None:
        """Set it up; a `shared` client is opened and closed by the writer."""
        self._judge, self._client, self._shared = judge, client, shared
        self._locks: dict[str, asyncio.Lock] = {}

    def opened(self) -> AbstractAsyncContextManager[object]:
        """Open the client, unless the writer does."""
        return nullcontext() if self._shared else self._client

    def question(self, item: Item, *, replicate: int = 0) -> ModelQuestion:
        """Return the question; two attempts with the same text must not both be paid."""
        call = call_about(item, self._judge)

        def read(response: Response) -> ReadResponse:
            reading = self._judge.read(response, call)
            return ReadResponse(
                text=reading.answer or (None if reading.problem else reading.outcome),
                problem=reading.error[:_MAX_PROBLEM] if reading.error else None,
                unusable=reading.problem if reading.problem in NOT_SERVED else None,
            )

        request = self._judge.request(call)
        lock = self._locks.setdefault(request.key(replicate), asyncio.Lock())
        return ModelQuestion(client=self._client, request=request, replicate=replicate, read=read, lock=lock)


class JudgeValidator(Validator):
    """Any other judge: a callable, an MLflow judge, a scripted one."""

    def __init__(self, judge: AnsweringJudge, *, concurrency: int) -> None:
        self._judge, self._concurrency = judge, concurrency

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
                called=self._judge.kind != "scripted",
            )

        return OwnQuestion(send)
