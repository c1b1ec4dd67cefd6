"""Who writes: a generator model, a function of the user's, or rules that need no model."""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jrh_mlflow.engine.channel import PERHAPS_BILLED, Channel
from jrh_mlflow.engine.lanes import LaneError
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.generation.attempts import Written
from jrh_mlflow.generation.generator import Generator
from jrh_mlflow.judges.answers import clean_text
from jrh_mlflow.judges.parsing import PROBLEMS, text_problem
from jrh_mlflow.perturb import NotApplicable, ReliabilityTest, Rewrite, Target
from jrh_mlflow.schema.requests import Request, Response

if TYPE_CHECKING:
    from typing_extensions import Self

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

    def __init__(self, generator: Generator, channel: Channel) -> None:
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
        except LaneError as error:
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
