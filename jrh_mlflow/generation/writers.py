"""The model that writes perturbed items, and how it is sampled.

Who writes: a generator model, a function of the user's, or rules that need no model.

A function of the user's that writes.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import math
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jrh_mlflow.engine.client import PERHAPS_BILLED, ModelClient
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.generation.outcomes import Written
from jrh_mlflow.judges.parsing import PROBLEMS, text_problem
from jrh_mlflow.judges.prompted import PromptedJudge, address_of, checked_extra
from jrh_mlflow.models.local.names import canonical
from jrh_mlflow.models.transports import TransportError
from jrh_mlflow.perturb import NotApplicable, ReliabilityTest, Rewrite, Target
from jrh_mlflow.schema.requests import Request, Response
from jrh_mlflow.schema.secrets import blank_secrets
from jrh_mlflow.text import clean_text

if TYPE_CHECKING:
    from typing_extensions import Self


MAX_ATTEMPTS = 100


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
    """An endpoint that speaks the OpenAI dialect; `openai/…` reads OPENAI_BASE_URL when None."""
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

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not self.model.strip():
            raise ValueError(f"`model` must name a model, but is {self.model!r}.")
        if self.max_tokens < 1:
            raise ValueError(f"`max_tokens >= 1` must hold, but got {self.max_tokens}.")
        if not 1 <= self.attempts <= MAX_ATTEMPTS:
            raise ValueError(f"`1 <= attempts <= {MAX_ATTEMPTS}` must hold, but got {self.attempts}.")
        _check_ramp(self.temperature, self.max_temperature)
        object.__setattr__(self, "model", canonical(self.model))
        object.__setattr__(self, "api_base", address_of(self.model, self.api_base))
        object.__setattr__(self, "extra", checked_extra(self.extra or {}, of="Generator"))

    @property
    def temperatures(self) -> tuple[float | None, ...]:
        """The temperature of each attempt: even steps from the first to the maximum."""
        return ramp(self.temperature, self.max_temperature, self.attempts)

    def request(self, brief: str, *, temperature: float | None) -> Request:
        """Return what is sent: the brief as one message of the user."""
        return Request(
            model=self.model,
            messages=({"role": "user", "content": brief},),
            temperature=temperature,
            max_tokens=self.max_tokens,
            seed=self.seed,
            api_base=self.api_base,
            extra=self.extra or {},
        )

    def settings(self) -> dict[str, object]:
        """Everything that can change a text, and no key; logged as params `generator.*`."""
        extra = self.extra or {}
        return {
            "model": self.model,
            "kind": "model",
            "api_base": self.api_base,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "max_temperature": None if self.temperature is None else self.max_temperature,
            "attempts": self.attempts,
            "seed": self.seed,
            **{f"extra.{key}": json.dumps(value, ensure_ascii=False) for key, value in extra.items()},
        }

    def as_judge(self) -> PromptedJudge:
        """Return the same model as a judge: the validator when nobody names another one."""
        return PromptedJudge(self.model, api_base=self.api_base)


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


def _check_ramp(start: float | None, highest: float) -> None:
    if start is None:
        return
    if not (math.isfinite(start) and math.isfinite(highest) and 0 <= start <= highest):
        raise ValueError(
            f"`0 <= temperature <= max_temperature` must hold, but got temperature={start}, max_temperature={highest}."
        )


OFFLINE = "offline"
OFFLINE_NAME = "offline rules"
CODE_NAME = "code"
ATTEMPTS = 4
_STRIDE = 1000
"""Room for the attempts of one text among the replicate numbers of a request."""

PASSED_OVER = Written(problem="no usable text in an earlier run", called=False)
"""Instead of a call that an earlier run made, that gave nothing, and after which it went on."""

WriterFunction = Callable[[str, "float | None"], object]
"""`f(brief, temperature)`, sync or async; returns the text."""


class Writer(ABC):
    """Writes the texts of rewrites. Opened with `async with`; `write` may be awaited many times at once."""

    name: str
    """What items and reports call it."""
    offline = False
    temperatures: tuple[float | None, ...]
    """One per attempt."""
    refused_before = False
    """True when an earlier run may have passed over calls that had no usable text."""

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """What makes it this writer; logged as params `generator.*`."""

    def begin(self, jobs: Iterable[tuple[ReliabilityTest, Target]]) -> None:
        """Look at everything there is to write, in order, before the first text."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def kept(self, brief: str, *, attempt: int, first: int = 0) -> Written | None:
        """Return the answer that an earlier call was given, where answers are kept; nothing is sent."""
        return None

    def kept_text(self, test: Rewrite, target: Target, *, attempt: int) -> str | None:
        """Return the text of an earlier run, where texts are kept; nothing is sent."""
        return None

    @abstractmethod
    async def ask(self, brief: str, *, attempt: int, first: int = 0) -> Written:
        """Answer a brief.

        Args:
            brief: What the model is told.
            attempt: From 0: which temperature of the ramp.
            first: Replicate number of attempt 0; the same brief with another one gets an answer of its own.
        """

    @abstractmethod
    async def write(self, test: Rewrite, target: Target, *, temperature: float | None, attempt: int) -> Written:
        """Write one text; `attempt` counts from 0.

        Raises:
            NotApplicable: when this test cannot be made of this seed.
            OutOfBudget: when the cap does not cover the call.
            JudgeError: when the service fails for good.
        """


def by_rule(test: ReliabilityTest, target: Target, *, seed: int, attempt: int) -> str:
    """Have a test's own code write, from random numbers that depend on nothing but seed, item and attempt."""
    text = f"jrh-write\n{seed}\n{target.id}\n{attempt}".encode("utf-8", "surrogatepass")
    return test.write(target, random.Random(hashlib.sha256(text).digest()))  # noqa: S311 - texts, not secrets


class OfflineWriter(Writer):
    """The rule-based stand-ins of the tests: good enough to try everything out, no measure of a judge's weakness."""

    name = OFFLINE_NAME
    offline = True

    def __init__(self, seed: int, *, attempts: int = ATTEMPTS) -> None:
        self.seed = seed
        self.temperatures = (None,) * attempts

    def settings(self) -> dict[str, object]:
        """Say that no model wrote."""
        return {"model": OFFLINE, "kind": OFFLINE, "attempts": len(self.temperatures), "seed": self.seed}

    async def ask(self, brief: str, *, attempt: int, first: int = 0) -> Written:
        """Say that there is no model to ask."""
        return Written(problem="rules answer no briefs", called=False)

    async def write(self, test: Rewrite, target: Target, *, temperature: float | None, attempt: int) -> Written:
        """Write by rule; nothing is sent."""
        return Written(text=by_rule(test, target, seed=self.seed, attempt=attempt), called=False)


class ModelWriter(Writer):
    """A generator model behind journal, limits and budget."""

    def __init__(self, generator: Generator, channel: ModelClient) -> None:
        self.generator, self.name, self.temperatures = generator, generator.model, generator.temperatures
        self._channel = channel
        self._places: dict[str, int] = {}
        self.refused_before = True

    async def __aenter__(self) -> Self:
        await self._channel.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.__aexit__(kind, error, trace)

    def settings(self) -> dict[str, object]:
        """Return the generator's."""
        return self.generator.settings()

    def begin(self, jobs: Iterable[tuple[ReliabilityTest, Target]]) -> None:
        """Tell equal briefs apart: the n-th target with the same brief gets an answer of its own."""
        # Without any failed call no attempt can have been passed over.
        self.refused_before = self._channel.journal.summary().failed > 0
        seen: Counter[bytes] = Counter()
        for test, target in jobs:
            if not isinstance(test, Rewrite):
                continue
            digest = hashlib.sha256(_brief(test, target).encode("utf-8", "surrogatepass")).digest()
            self._places[target.id] = seen[digest]
            seen[digest] += 1

    async def write(self, test: Rewrite, target: Target, *, temperature: float | None, attempt: int) -> Written:
        """Serve the journalled text, or ask for one."""
        return await self.ask(test.brief(target), attempt=attempt, first=self._first(target))

    def kept_text(self, test: Rewrite, target: Target, *, attempt: int) -> str | None:
        """Return the journalled text."""
        kept = self.kept(test.brief(target), attempt=attempt, first=self._first(target))
        return None if kept is None else kept.text

    def _first(self, target: Target) -> int:
        return self._places.get(target.id, 0) * _STRIDE

    def kept(self, brief: str, *, attempt: int, first: int = 0) -> Written | None:
        """Return the journalled answer."""
        brief = clean_text(brief)
        return self._kept(self._request(brief, attempt).key(first + attempt), brief_sha256(brief))

    def _kept(self, key: str, digest: str) -> Written | None:
        response = self._channel.kept(key)
        return None if response is None else self._written(response, digest, cached=True)

    async def ask(self, brief: str, *, attempt: int, first: int = 0) -> Written:
        """Serve the journalled answer, or send the brief."""
        brief = clean_text(brief)
        digest, request = brief_sha256(brief), self._request(brief, attempt)
        key = request.key(first + attempt)
        kept = self._kept(key, digest)
        if kept is not None:
            return kept
        if self.refused_before and self._went_on(brief, attempt, first):
            return replace(PASSED_OVER, prompt_sha256=digest)
        try:
            response = await self._channel.send(request, key, unusable=text_problem)
        except TransportError as error:
            unknown = {"input_tokens": None, "output_tokens": None, "cost_usd": None}
            billed: dict[str, Any] = unknown if error.kind in PERHAPS_BILLED else {}
            return Written(problem=f"call failed: {error}", prompt_sha256=digest, **billed)
        return self._written(response, digest, cached=False)

    def _went_on(self, brief: str, attempt: int, first: int) -> bool:
        """Tell whether an earlier run answered a later attempt: this one had no usable text and is not repeated."""
        numbers = range(attempt + 1, len(self.temperatures))
        later = [self._request(brief, number).key(first + number) for number in numbers]
        return bool(later and self._channel.journal.holds(later))

    def _request(self, brief: str, attempt: int) -> Request:
        return self.generator.request(brief, temperature=self.temperatures[attempt])

    def _written(self, response: Response, digest: str, *, cached: bool) -> Written:
        problem, cost = text_problem(response), self._channel.cost_micro(response)
        return Written(
            text=None if problem else clean_text(response.text or "").strip(),
            problem=f"{problem}: {PROBLEMS[problem]}" if problem else None,
            input_tokens=response.input_tokens,
            output_tokens=response.output_tokens,
            cost_usd=None if cost is None else cost / 1_000_000,
            cached=cached,
            model=response.model or self.generator.model,
            prompt_sha256=digest,
        )


def as_generator(spec: object) -> Generator | WriterFunction | None:
    """Resolve what a user gives: a model name, a `Generator`, a function, or `offline` / None for the rules.

    Raises:
        RecipeError: for anything else.
    """
    if spec is None or spec == OFFLINE:
        return None
    if isinstance(spec, str):
        return Generator(spec)
    if isinstance(spec, Generator) or (callable(spec) and not isinstance(spec, type)):
        return spec
    raise RecipeError(
        "A generator must be a model name, a Generator, a function f(brief, temperature) or 'offline', "
        f"but got {type(spec).__name__}."
    )


def brief_sha256(brief: str) -> str:
    """Hash what a writer was told."""
    return hashlib.sha256(brief.encode()).hexdigest()


def _brief(test: Rewrite, target: Target) -> str:
    try:
        return test.brief(target)
    except NotApplicable as reason:
        return f"not applicable: {reason}"


class CallableWriter(Writer):
    """A function of the user's. What it raises, or returns that is no text, is the attempt's problem."""

    def __init__(self, function: WriterFunction, *, concurrency: int) -> None:
        self.function, self._concurrency = function, concurrency
        self.name = str(getattr(function, "__qualname__", type(function).__qualname__)).rpartition("<locals>.")[2]
        self.temperatures = ramp(0.7, 1.3, ATTEMPTS)
        call = getattr(function, "__call__", None)  # noqa: B004 - the method itself is inspected, not its presence
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)

    def settings(self) -> dict[str, object]:
        """Name the function and the ramp it is called with."""
        first, last = self.temperatures[0], self.temperatures[-1]
        ramped = {"temperature": first, "max_temperature": last, "attempts": len(self.temperatures)}
        return {"model": self.name, "kind": "callable", **ramped}

    async def __aenter__(self) -> Self:
        self._slots = asyncio.Semaphore(self._concurrency)
        self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="jrh-writer")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown()

    async def write(self, test: Rewrite, target: Target, *, temperature: float | None, attempt: int) -> Written:
        """Call the function with the brief."""
        return await self._answered(test.brief(target), temperature)

    async def ask(self, brief: str, *, attempt: int, first: int = 0) -> Written:
        """Call the function with the brief."""
        return await self._answered(brief, self.temperatures[attempt])

    async def _answered(self, brief: str, temperature: float | None) -> Written:
        brief = clean_text(brief)
        facts: dict[str, Any] = {"model": self.name, "prompt_sha256": brief_sha256(brief)}
        facts |= {"input_tokens": None, "output_tokens": None, "cost_usd": None}
        async with self._slots:
            try:
                returned = await self._call(brief, temperature)
            except Exception as error:
                return Written(problem=blank_secrets(clean_text(f"{type(error).__name__}: {error}")), **facts)
        if not isinstance(returned, str):
            return Written(problem=f"{type(returned).__name__} instead of a text", **facts)
        return Written(text=clean_text(returned).strip(), **facts)

    async def _call(self, brief: str, temperature: float | None) -> object:
        if self._is_async:
            returned = self.function(brief, temperature)
        else:
            loop = asyncio.get_running_loop()
            returned = await loop.run_in_executor(self._threads, self.function, brief, temperature)
        return await returned if inspect.isawaitable(returned) else returned
