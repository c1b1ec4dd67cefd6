"""All targets of all tests through one pool of workers: write, check, confirm, retry on the ramp, or set aside.

What a generation that still runs has made so far, for a review that does not wait for its end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from jrh_mlflow.engine.budget import OutOfBudget
from jrh_mlflow.engine.sessions import WORKERS_PER_SLOT
from jrh_mlflow.engine.workers import BUDGET, hearing_interrupts
from jrh_mlflow.errors import JrhError
from jrh_mlflow.generation.outcomes import NOT_ASKED, Attempt, Counts, Made, Opinion, SetAside, Usage, Written
from jrh_mlflow.generation.plan import Job, Plan, finished
from jrh_mlflow.generation.validators import Validator
from jrh_mlflow.generation.writers import CODE_NAME, Writer, by_rule
from jrh_mlflow.perturb import Bench, NotApplicable, Rewrite, Similarity
from jrh_mlflow.perturb._base import item_id
from jrh_mlflow.perturb.english import words
from jrh_mlflow.schema.items import Item
from jrh_mlflow.suites.suite import item_line

_CODE_ATTEMPTS = 4
_FEW_WORDS = 8
_TURN = 64

OnDone = Callable[[int, Usage], None]
"""Told how many items a job has settled, and what was used so far."""


@dataclass(kw_only=True, slots=True)
class Outcome:
    """How one job ended; neither items nor a reason when generation was stopped first."""

    job: Job
    text: str | None = None
    items: Sequence[Item] = ()
    reason: str | None = None
    attempts: list[Attempt] = field(default_factory=list)


class _Remembered(Similarity):
    """Another similarity, which is not asked twice in a row about the same two texts."""

    def __init__(self, similarity: Similarity) -> None:
        self.name, self._similarity = similarity.name, similarity
        self._last: tuple[str, str, float] = ("", "", 1.0)

    def between(self, one: str, other: str) -> float:
        if self._last[:2] != (one, other):
            self._last = (one, other, self._similarity.between(one, other))
        return self._last[2]


class Pipeline:
    """Makes the items of a plan."""

    def __init__(
        self,
        plan: Plan,
        writer: Writer,
        validator: Validator | None,
        similarity: Similarity,
        *,
        seed: int,
        concurrency: int,
        on_done: OnDone | None = None,
        on_items: OnItems | None = None,
    ) -> None:
        self._plan, self._writer, self._validator = plan, writer, validator
        self._similarity: Similarity = _Remembered(similarity)
        self._seed, self._on_done, self._on_items = seed, on_done, on_items
        self._n_workers = 1 if writer.offline and validator is None else WORKERS_PER_SLOT * concurrency
        self._outcomes: list[Outcome] = []
        self._usage = Usage()
        self._stopped: str | None = None
        self._failure: BaseException | None = None

    async def run(self) -> Made:
        """Make everything, what needs no model first.

        Raises:
            JudgeError: when a service fails for good; what was paid is in the journal.
            KeyboardInterrupt: after the first Ctrl-C, once the calls in flight are settled.
        """
        started = time.perf_counter()
        self._writer.begin((job.test, job.target) for job in self._plan.jobs)
        earlier: dict[str, tuple[str, ...]] = {}
        for job in self._plan.by_code():
            bucket = job.target.bucket or ""
            done = self._done(self._by_code(job, earlier.get(bucket, ())))
            if bucket and done.text is not None:
                earlier[bucket] = (*earlier.get(bucket, ()), done.text)
        units = self._plan.rewrites()
        with hearing_interrupts(self._interrupted):
            if self._validator is None:
                async with self._writer:
                    await self._crew(units)
            else:
                async with self._writer, self._validator:
                    await self._crew(units)
        if self._failure is not None:
            raise self._failure
        return self._made(time.perf_counter() - started)

    async def _crew(self, units: Iterator[list[Job]]) -> None:
        await asyncio.gather(*(self._work(units) for _ in range(self._n_workers)))

    async def _work(self, units: Iterator[list[Job]]) -> None:
        for number, unit in enumerate(units):
            earlier: tuple[str, ...] = ()
            for job in unit:
                if self._stopped is not None:
                    return
                try:
                    done = await self._rewrite(job, earlier)
                except OutOfBudget:
                    self._stopped = self._stopped or BUDGET
                    return
                except JrhError as error:
                    # Nothing new is sent, but what is in flight is paid already and must be settled.
                    self._stopped, self._failure = self._stopped or "failure", self._failure or error
                    return
                earlier = earlier if done.text is None else (*earlier, done.text)
                self._done(done)
            if number % _TURN == 0:
                await asyncio.sleep(0)  # so that Ctrl-C is heard in a long row of texts that are there already

    def _interrupted(self) -> None:
        self._stopped, self._failure = self._stopped or "interrupted", KeyboardInterrupt()

    def _by_code(self, job: Job, earlier: tuple[str, ...]) -> Outcome:
        done = Outcome(job=job)
        for number in range(_CODE_ATTEMPTS):
            try:
                text = by_rule(job.test, job.target, seed=self._seed, attempt=number)
            except NotApplicable as reason:
                done.reason = str(reason)
                return done
            problems = self._problems(job, text, earlier)
            done.attempts.append(Attempt(number=number + 1, temperature=None, problems=problems, verdict=NOT_ASKED))
            if not problems:
                return self._accepted(done, text, generator=CODE_NAME)
        return exhausted(done)

    async def _rewrite(self, job: Job, earlier: tuple[str, ...]) -> Outcome:
        done = Outcome(job=job)
        assert isinstance(job.test, Rewrite)
        for number, temperature in enumerate(self._writer.temperatures):
            if self._stopped is not None:
                return done
            try:
                written = await self._writer.write(job.test, job.target, temperature=temperature, attempt=number)
            except NotApplicable as reason:
                done.reason = str(reason)
                return done
            self._usage.add(written)
            attempt = await self._judged(job, written, earlier, number=number + 1, temperature=temperature)
            done.attempts.append(attempt)
            if not attempt.problems:
                return self._accepted(done, written.text or "", generator=self._writer.name, written=written)
        return exhausted(done)

    async def _judged(
        self, job: Job, written: Written, earlier: tuple[str, ...], *, number: int, temperature: float | None
    ) -> Attempt:
        """Check a text by itself first; only what passes is worth a validator's call."""
        verdict, rejected = None, False
        if written.problem is not None:
            problems: tuple[str, ...] = (written.problem,)
        else:
            problems = self._problems(job, written.text or "", earlier)
        if not problems:
            problems, verdict, rejected = await self._confirmed(job, written, number)
        return Attempt(number=number, temperature=temperature, problems=problems, verdict=verdict, rejected=rejected)

    def _problems(self, job: Job, text: str, earlier: tuple[str, ...]) -> tuple[str, ...]:
        bench = Bench(similarity=self._similarity, earlier=earlier)
        found = [check(job.target, text, bench) for check in job.test.checks]
        # A failed call that was saved as "False", or a bare label, is no response to a task.
        bare = isinstance(job.test, Rewrite) and len(words(text)) < 2 and len(words(job.target.original)) >= _FEW_WORDS
        return tuple(problem for problem in (*found, "a single word" if bare else None) if problem)

    async def _confirmed(self, job: Job, written: Written, number: int) -> tuple[tuple[str, ...], str | None, bool]:
        """Return problems, verdict and whether the validator rejected the text."""
        assert isinstance(job.test, Rewrite)
        if not job.test.confirm:
            return (), NOT_ASKED, False
        item = self._item(job, written.text)
        if self._went_on(job, job.test, item, number):
            return ("validator gave no answer in an earlier run",), None, False
        return await self._asked_about(item)

    def _item(self, job: Job, text: str | None) -> Item:
        return finished(job, text or "", generator=self._writer.name)[0]

    def _went_on(self, job: Job, test: Rewrite, item: Item, number: int) -> bool:
        """Tell whether an earlier run had no answer about this text and one about a later text: it is not asked again.

        So that the same suite comes out, whatever the validator would say now.
        """
        validator = self._validator
        if validator is None or not self._writer.refused_before or validator.kept(item) is not None:
            return False
        later = range(number, len(self._writer.temperatures))
        texts = (self._writer.kept_text(test, job.target, attempt=attempt) for attempt in later)
        return any(text is not None and validator.kept(self._item(job, text)) is not None for text in texts)

    async def _asked_about(self, item: Item) -> tuple[tuple[str, ...], str | None, bool]:
        """Have the validator answer the judge's question about a finished item."""
        if self._validator is None:
            return (), NOT_ASKED, False
        opinion = await self._validator.ask(item)
        self._usage.add(opinion)
        return confirmation(item, opinion)

    def _accepted(self, done: Outcome, text: str, *, generator: str, written: Written | None = None) -> Outcome:
        done.text = text
        done.items = finished(
            done.job,
            text,
            generator=generator,
            written=written,
            attempts=done.attempts,
            similarity=self._similarity.between(done.job.target.original, text),
        )
        return done

    def _done(self, done: Outcome) -> Outcome:
        self._outcomes.append(done)
        if self._on_items and done.items:
            self._on_items(done.items)
        if self._on_done and (done.items or done.reason):
            self._on_done(len(done.job.seeds), self._usage)
        return done

    def _made(self, seconds: float) -> Made:
        self._outcomes.sort(key=lambda done: done.job.place)
        aside = [one for done in self._outcomes if done.reason for one in _set_aside(done)]
        n_settled = sum(len(done.items) for done in self._outcomes) + len(aside)
        return Made(
            items=self._plan.ordered([(done.job, done.items) for done in self._outcomes]),
            set_aside=tuple(aside),
            tests={test.name: _counts(test.name, self._outcomes) for test in self._plan.tests},
            usage=self._usage,
            stopped=self._stopped,
            unfinished=self._plan.n_items - n_settled,
            seconds=seconds,
        )


def confirmation(item: Item, opinion: Opinion) -> tuple[tuple[str, ...], str | None, bool]:
    """Return the problems a validator sees in an item, its verdict, and whether it rejected the item."""
    if opinion.problem is not None:
        return (f"validator gave no answer: {opinion.problem}",), None, False
    if opinion.answer != item.expected:
        return (f"validator answers {opinion.answer!r}, expected {item.expected!r}",), opinion.answer, True
    return (), opinion.answer, False


def exhausted(done: Outcome) -> Outcome:
    """Set a job aside because no attempt passed."""
    done.reason = f"none of {len(done.attempts)} attempts passed; the last: {'; '.join(done.attempts[-1].problems)}"
    return done


def _set_aside(done: Outcome) -> list[SetAside]:
    target = done.job.target
    return [
        SetAside(
            id=item_id(seed, target.condition, target.number),
            test=target.test,
            condition=target.condition,
            source=seed.id,
            reason=done.reason or "",
            attempts=tuple(done.attempts),
        )
        for seed in done.job.seeds
    ]


def _counts(test: str, outcomes: Sequence[Outcome]) -> Counts:
    own = [done for done in outcomes if done.job.test.name == test]
    return Counts(
        items=sum(len(done.items) for done in own),
        set_aside=sum(len(done.job.seeds) for done in own if done.reason),
        attempts=sum(len(done.attempts) for done in own),
        validator_rejected=sum(attempt.rejected for done in own for attempt in done.attempts),
    )


PARTIAL_FILE = "items.partial.jsonl"
"""Lines as in `suite.jsonl`: baselines first, then items in the order they are finished."""

OnItems = Callable[[Sequence[Item]], None]


@contextmanager
def partial_file(folder: Path) -> Iterator[OnItems]:
    """Append items to the folder's partial file inside the block; it goes when the block ends well.

    When it fails, the file stays only where a review has begun; the next generation into the folder starts it anew.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / PARTIAL_FILE
    try:
        with file.open("wb") as sink:

            def write(items: Sequence[Item]) -> None:
                sink.write(b"".join(item_line(item) for item in items))
                sink.flush()

            yield write
    except BaseException:
        if set(folder.iterdir()) == {file}:
            file.unlink()
            folder.rmdir()
        raise
    file.unlink()
