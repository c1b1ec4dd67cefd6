"""All targets through one pool of workers: write, check, confirm, try again, or set aside; and what came of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from jrh_mlflow import perturb
from jrh_mlflow.engine.runner import WorkerPool
from jrh_mlflow.engine.sessions import WORKERS_PER_SLOT
from jrh_mlflow.errors import JudgeError
from jrh_mlflow.generation import writers
from jrh_mlflow.generation.plan import UNVERIFIED, GenerationPlan, Job, about_item, is_confirmed
from jrh_mlflow.options import GenerationSettings
from jrh_mlflow.perturb import CodeTest, NotApplicable, ReliabilityTest, Rewrite, Similarity
from jrh_mlflow.perturb.checks import Corpus
from jrh_mlflow.perturb.english import words
from jrh_mlflow.perturb.unwrapping import foreign_line, unwrapped
from jrh_mlflow.schema.items import Item, Seed
from jrh_mlflow.suites.suite import OnItems

_COMPARE = "A text was rewritten. Say whether the rewrite keeps what it must."
MAY_DIFFER = "What the rewrite says may differ from the original: that is what it was written for."
"""What a validator is told of a rewrite whose label it is asked about by itself."""
SENT_BACK = """

Your last answer began or ended with a line that is not in the form of the original. Answer with the \
text alone, in the form of the original. Leave out introductions, notes and remarks."""
_FEW_WORDS = 8
_STRIDE = 1000
"""Room for the attempts of one text among the replicate numbers of a request."""

OnDone = Callable[[int, writers.Usage], None]
"""Told how many items a job has settled, and what was used so far."""


NOT_ASKED = "not asked"
"""The verdict of an item that no validator has seen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One try at one text."""

    number: int
    """From 1."""
    temperature: float | None
    problems: tuple[str, ...]
    """Why the text was not taken; empty when it was."""
    sent_back: bool = False
    """True where the only problem is a line that is not in the form of the original."""
    verdict: str | None
    """The validator's answer, `not asked`, or None when it gave none."""
    rejected: bool = False
    """True when the validator's answer was not the expected one."""
    by: str | None = None
    """The validator that gave the verdict."""

    @property
    def confirmed(self) -> bool:
        """Whether a validator gave the expected answer."""
        return self.by is not None and not self.rejected


@dataclass(frozen=True, kw_only=True, slots=True)
class SetAside:
    """An item that was not made."""

    id: str
    test: str
    condition: str
    source: str
    reason: str
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """What came of one test."""

    items: int = 0
    set_aside: int = 0
    attempts: int = 0
    """Of its texts, whether they were taken or not."""
    validator_rejected: int = 0
    verified: int | None = None
    """Of the items, those that the validator confirmed; None where it must, or where nobody has to."""
    unverified: int | None = None
    """Of the items, those that nobody confirmed."""
    unwrapped: int | None = None
    """Of the items, those whose text stood in a code fence or in JSON; None for none."""
    sent_back: int | None = None
    """Of the attempts, those with a line that is not in the form of the original; None for none."""
    doubted: int | None = None
    """Of the items, those that came back with such a line and were kept; None for none."""

    def to_dict(self) -> dict[str, int]:
        """Return the counts that there are."""
        counts = {count.name: getattr(self, count.name) for count in fields(self)}
        return {name: count for name, count in counts.items() if count is not None}


@dataclass(frozen=True, kw_only=True)
class Made:
    """What generation made of all its targets."""

    items: tuple[Item, ...]
    """Baselines and perturbed items: by seed, then by test, then by number."""
    set_aside: tuple[SetAside, ...]
    tests: dict[str, Counts]
    """By test, in the order they were asked for."""
    usage: writers.Usage
    stopped: str | None = None
    """Why targets are missing (`budget`), or None."""
    unfinished: int = 0
    """Items that were neither made nor set aside because generation was stopped."""
    seconds: float = 0.0
    notes: Sequence[str] = ()
    """What a reader of the suite should know first."""

    def total(self, name: str) -> int:
        """Sum one count over all tests."""
        return sum(getattr(counts, name) or 0 for counts in self.tests.values())


@dataclass(kw_only=True, slots=True)
class JobResult:
    """How one job goes, and how it ended; neither items nor a reason when generation was stopped first."""

    job: Job
    earlier: tuple[str, ...] = ()
    """Texts made before in the same bucket."""
    text: str | None = None
    items: Sequence[Item] = ()
    reason: str | None = None
    attempts: list[Attempt] = field(default_factory=list)
    tried: list[dict[str, Any]] = field(default_factory=list)
    """Of transcripts: plans that came to nothing, one per attempt."""
    unconfirmed: tuple[str, Sequence[Item]] | None = None
    """The last text that the validator did not confirm, and its items, where those are kept."""

    def end(self, text: str, items: Sequence[Item], *, passed: bool) -> bool:
        """Take what an attempt made: as the result, or in reserve until all attempts are used up."""
        if passed:
            self.text, self.items = text, items
        else:
            self.unconfirmed = (text, items)
        return passed

    def keep_unconfirmed(self) -> None:
        """Fall back on what is in reserve."""
        if self.unconfirmed is not None:
            (self.text, self.items), self.reason = self.unconfirmed, None

    def add(self, temperature: float | None, *problems: str, verdict: str | None, **more: Any) -> bool:
        """Note an attempt, and tell whether it passed: without problems."""
        number = len(self.attempts) + 1
        self.attempts.append(
            Attempt(number=number, temperature=temperature, problems=problems, verdict=verdict, **more)
        )
        return not problems

    def drop(self, problem: str) -> None:
        """Set aside what had passed."""
        self.attempts[-1] = replace(self.attempts[-1], problems=(problem,))
        self.text, self.items, self.reason = None, (), problem


class Pipeline:
    """Makes the items of a plan."""

    def __init__(
        self,
        plan: GenerationPlan,
        settings: GenerationSettings,
        writer: writers.Writer | None,
        validators: Sequence[writers.Validator],
        similarity: Similarity,
        *,
        restarted: bool,
        on_done: OnDone | None,
        on_items: OnItems | None,
    ) -> None:
        """Set it up.

        Args:
            plan: What is to be made.
            settings: Of the generation: the seed of everything written by code, and most calls in flight.
            writer: Who writes; None where code writes everything.
            validators: Who confirms: the next one is asked when one gives no answer. None: nobody is asked.
            similarity: For the checks.
            restarted: True when an earlier run may have had calls without a usable answer.
            on_done: Told of settled jobs.
            on_items: Told of finished items.
        """
        self._plan, self._writer, self._validators = plan, writer, validators
        self._similarity = similarity
        self._seed, self._restarted, self._on_done, self._on_items = settings.seed, restarted, on_done, on_items
        self._keeps_all = not settings.pass_required
        # With nobody to wait for, further workers would only take turns.
        alone = writer is None and not validators
        workers = 1 if alone else WORKERS_PER_SLOT * settings.concurrency
        self._pool = WorkerPool[list[Job], None](plan.units(), workers=workers)
        self._results: list[JobResult] = []
        self._usage = writers.Usage()

    async def run(self) -> Made:
        """Make everything, what needs no model first.

        Raises:
            JudgeError: when a service fails for good; what was paid is in the journal.
            KeyboardInterrupt: after the first Ctrl-C, once the calls in flight are settled.
        """
        started = time.perf_counter()
        async with AsyncExitStack() as opened:
            for opening in (self._writer, *self._validators):
                if opening is not None:
                    await opened.enter_async_context(opening.opened())
            await self._pool.run(self._make_all)
        self._drop_copies()
        notes = self._share_out()
        return replace(self._made(time.perf_counter() - started), notes=notes)

    @cached_property
    def _originals(self) -> Corpus:
        return Corpus(self._plan.originals)

    def _drop_copies(self) -> None:
        """Set aside new texts that repeat one that was taken before them, in the order of the plan.

        Only when all are made: what is a copy must not depend on who was finished first.
        """
        results = [result for result in self._results if result.text and result.job.target.part == "response"]
        limits = [limit for result in results if (limit := result.job.test.most_alike_taken) is not None]
        if not limits:
            return
        # What is new comes last: it is compared with all other texts, and with what is new before it.
        results.sort(key=lambda result: (result.job.test.most_alike_taken is not None, result.job.place))
        texts = {result.job.target.id: result.text or "" for result in results}
        twins = Corpus(texts).twins(list(texts.values())[-len(limits) :], above=limits[0])
        kept = set(list(texts)[: -len(limits)])
        for result, alike in zip(results[-len(limits) :], twins, strict=True):
            twin = next((twin for twin in alike if twin.name in kept), None)
            if twin is None:
                kept.add(result.job.target.id)
            else:
                result.drop(f"near-copy: similarity {twin.value:.2f} with the item {twin.name!r}, above {limits[0]:g}")

    def _share_out(self) -> tuple[str, ...]:
        """Give the seeds of a reworded question that did not pass to one that did, and say so.

        While a wording is still to be made nobody knows which ones there are: what did not pass is then left open.
        """
        notes = []
        groups: dict[tuple[str, str, str], list[JobResult]] = {}
        for result in sorted(self._results, key=lambda result: result.job.place):
            if result.job.target.part == "rubric":
                groups.setdefault(_wording_of(result.job), []).append(result)
        for (test, *_), group in groups.items():
            failed = [result for result in group if result.reason is not None]
            passed = [result for result in group if result.items]
            # Results lack what was not begun, so how many wordings there should be is read from the plan.
            wanted = [job for job in self._plan.jobs if _wording_of(job) == _wording_of(group[0].job)]
            if len(failed) + len(passed) < len(wanted):
                for result in failed:
                    result.reason = None
            elif failed and passed:
                notes.append(
                    f"Of {len(wanted)} wordings of {test} {len(failed)} did not pass, and others serve their items: "
                    f"{failed[0].reason}."
                )
                for result in failed:
                    self._stand_in(result, passed)
        return tuple(notes)

    def _stand_in(self, result: JobResult, passed: Sequence[JobResult]) -> None:
        """Make the items of a wording that did not pass with another one, which the seed of code chooses."""
        # Attempt -1 is no attempt: the draw is the same in every run and takes none of the writer's random numbers.
        other = writers.code_rng(result.job.target, seed=self._seed, attempt=-1).choice(passed)
        result.items = items_serving(result.job, other.text or "", other.items[0])
        result.reason = None
        if self._on_items:
            self._on_items(result.items)

    async def _make_all(self, jobs: list[Job]) -> None:
        """Make the jobs of one bucket: each text must differ from those before it."""
        texts: tuple[str, ...] = ()
        for job in jobs:
            if self._pool.stopped is not None:
                return
            result = JobResult(job=job, earlier=texts)
            await self._make(result)
            # Texts of a bucket are compared with those that were taken, not with those that were set aside.
            texts = texts if result.text is None else (*texts, result.text)
            self._settle(result)

    async def _make(self, result: JobResult) -> None:
        """Try until an attempt passes, there is a reason to give up, or generation is stopped."""
        try:
            await self._try(result)
        except NotApplicable as reason:
            result.reason = str(reason)
        except writers.Stopped:
            return  # neither made nor set aside: the same call again continues
        if result.reason is not None:
            result.keep_unconfirmed()

    async def _try(self, result: JobResult) -> None:
        while len(result.attempts) < self._rounds(result.job):
            # What came before is settled, so a restart is rehearsed from here; see `writers`.
            rehearse = (lambda: self._rehearsed(result)) if self._restarted else None
            session = writers.Session(self._usage, stopped=lambda: self._pool.stopped is not None, rehearse=rehearse)
            if await self._attempt(result, session):
                return
        last = "; ".join(result.attempts[-1].problems)
        result.reason = f"none of {len(result.attempts)} attempts passed; the last: {last}"

    async def _rehearsed(self, result: JobResult) -> int:
        """Go on with a copy of a job from the journal alone; count the calls to the last that an earlier run has."""
        # A copy: a rehearsal must leave no trace in the job that is really made.
        result, session = replace(result, attempts=list(result.attempts), tried=list(result.tried)), writers.Rehearsal()
        try:
            while len(result.attempts) < self._rounds(result.job) and not await self._attempt(result, session):
                pass
        except (NotApplicable, writers.Stopped):
            pass
        return session.known

    def _rounds(self, job: Job) -> int:
        """Return how many attempts there are at most."""
        return len(self._temperatures(job))

    def _temperatures(self, job: Job) -> Sequence[float | None]:
        """Return the temperature of each attempt; code has none."""
        if self._writer is None or isinstance(job.test, CodeTest):
            return (None,) * writers.ATTEMPTS
        return self._writer.temperatures

    async def _attempt(self, result: JobResult, session: writers.Session) -> bool:
        """Write one text, and tell whether the job is settled with it."""
        job, number = result.job, len(result.attempts)
        by_code = isinstance(job.test, CodeTest)
        temperature = self._temperatures(job)[number]
        reply = await self._written(result, session, number)
        text = self._text(job, reply)
        # A call without a text is an attempt all the same: it took its place on the ramp of temperatures.
        problems = self._problems(result, text) if reply.problem is None else (reply.problem,)
        if problems:
            return result.add(temperature, *problems, verdict=NOT_ASKED if by_code else None)
        # Only what passes by itself is worth a validator's call.
        questions = questions_about(job, text)
        doubt = self._doubt(job, text, questions)
        if doubt is not None and not any(attempt.sent_back for attempt in result.attempts):
            return result.add(temperature, doubt, verdict=None, sent_back=True)
        passed = await self._confirm(result, session, temperature, questions)
        if not (passed or self._keeps_all):
            return result.reason is not None
        facts = how_made(
            writers.CODE_NAME if self._writer is None or by_code else self._writer.name,
            result.attempts,
            prompt_sha256=reply.prompt_sha256,
            similarity=self._similarity.between(job.target.original, text),
            label_source=self._label_source(result),
        )
        if not by_code and text != (reply.text or "").strip():
            facts["unwrapped"] = True
        if doubt is not None:
            facts["doubted"] = doubt
        return result.end(text, finished_items(job, text, facts), passed=passed) or result.reason is not None

    async def _written(self, result: JobResult, session: writers.Session, number: int) -> writers.Reply:
        job = result.job
        if isinstance(job.test, CodeTest):
            rng = writers.code_rng(job.target, seed=self._seed, attempt=number)
            return writers.Reply(text=job.test.write(job.target, rng), called=False)
        assert isinstance(job.test, Rewrite)
        assert self._writer is not None
        brief = job.test.brief(job.target)
        if result.attempts and result.attempts[-1].sent_back:
            brief += SENT_BACK
        # The stride keeps attempts of one twin apart from those of the next.
        first = self._plan.twins[job.target.id] * _STRIDE
        return await session.ask(self._writer.question(brief, attempt=number, first=first))

    def _text(self, job: Job, reply: writers.Reply) -> str:
        """Return the text of a reply; what code wrote stands as it is."""
        text = reply.text or ""
        return text if isinstance(job.test, CodeTest) else unwrapped(text, job.target.original)

    def _doubt(self, job: Job, text: str, questions: Sequence[Item]) -> str | None:
        """Say what looks like more than the text, where no validator is asked whether it is."""
        asked = any(
            question.condition == writers.MEANING and validator.takes(question)
            for question in questions
            for validator in self._validators
        )
        if asked or isinstance(job.test, CodeTest):
            return None
        return foreign_line(text, job.target.original)

    def _problems(self, result: JobResult, text: str) -> tuple[str, ...]:
        test, target = result.job.test, result.job.target
        context = perturb.CheckContext(similarity=self._similarity, earlier=result.earlier)
        problems = [check(target, text, context) for check in test.checks]
        # A failed call that was saved as "False", or a bare label, is no response to a task.
        one_word = isinstance(test, Rewrite) and len(words(text)) < 2 and len(words(target.original)) >= _FEW_WORDS
        one_word_problem = "a single word" if one_word else None
        return tuple(filter(None, (*problems, one_word_problem, self._repeats(result.job, text))))

    def _repeats(self, job: Job, text: str) -> str | None:
        """Say which other response of the data a text repeats, rather than its own source; code knows no other."""
        if not isinstance(job.test, Rewrite) or job.target.part != "response":
            return None
        (twins,), limit = self._originals.twins([text], above=job.test.most_alike), job.test.most_alike
        nearest = max(twins, key=lambda twin: (twin.value, twin.name == job.target.seed.task), default=None)
        if nearest is None or nearest.name == job.target.seed.task:
            return None
        return f"near-copy: similarity {nearest.value:.2f} with the response of row {nearest.name!r}, above {limit:g}"

    async def _confirm(
        self,
        result: JobResult,
        session: writers.Session,
        temperature: float | None,
        questions: Sequence[Item],
    ) -> bool:
        """Put the questions about a finished item to the validators, and tell whether all are answered as expected.

        The first validator that answers decides a question. Where none does, another text would not be answered
        either: the job ends with that reason, and nothing is rewritten. A question that nobody can be asked passes.
        """
        verdict, confirmed_by = NOT_ASKED, None
        for question in questions:
            validators = [validator for validator in self._validators if validator.takes(question)]
            if not validators:
                continue
            name, reply = await self._first_answer(session, validators, question)
            if reply.problem is not None:
                result.reason = f"validator gave no answer: {reply.problem}"
                return result.add(temperature, result.reason, verdict=None)
            verdict, confirmed_by = reply.text or "", name
            if verdict != question.expected:
                problem = f"validator answers {verdict!r}, expected {question.expected!r}"
                if question.condition == writers.MEANING:
                    problem = f"not the text alone, or its meaning is not kept: {name} answers {verdict!r}"
                return result.add(temperature, problem, verdict=verdict, rejected=True, by=name)
        return result.add(temperature, verdict=verdict, by=confirmed_by)

    async def _first_answer(
        self, session: writers.Session, validators: Sequence[writers.Validator], question: Item
    ) -> tuple[str, writers.Reply]:
        """Return the first answer with the validator's name, or what kept all of them from answering."""
        problems: list[str] = []
        for validator in validators:
            try:
                reply = await session.ask(validator.question(question))
            except JudgeError as error:
                if isinstance(error, writers.LacksKeyError) or validator is validators[-1]:
                    raise
                reply = writers.Reply(problem=str(error), called=False)
            if reply.problem is None:
                return validator.name, reply
            problems.append(f"{validator.name}: {reply.problem}")
        return "", writers.Reply(problem="; ".join(problems), called=False)

    def _label_source(self, result: JobResult) -> str | None:
        """Say of a finished item that its label is unverified, where that may be: no validator confirmed it."""
        last, test = result.attempts[-1], result.job.test
        asked = isinstance(test, Rewrite) and (test.confirm or last.verdict != NOT_ASKED)
        return UNVERIFIED if self._keeps_all and asked and not last.confirmed else None

    def _settle(self, result: JobResult) -> None:
        self._results.append(result)
        if self._on_items and result.items:
            self._on_items(result.items)
        # What a stop left open is not counted: the bar shall not claim it.
        if self._on_done and (result.items or result.reason):
            self._on_done(len(result.job.seeds), self._usage)

    def _made(self, seconds: float) -> Made:
        results = sorted(self._results, key=lambda result: result.job.place)
        aside = [entry for result in results if result.reason for entry in _set_aside(result)]
        n_settled = sum(len(result.items) for result in results) + len(aside)
        return Made(
            items=self._plan.ordered((result.job, result.items) for result in results),
            set_aside=tuple(aside),
            tests={test.name: self._counts(test, results) for test in self._plan.tests},
            usage=self._usage,
            stopped=self._pool.stopped,
            unfinished=self._plan.n_items - n_settled,
            seconds=seconds,
        )

    def _counts(self, test: ReliabilityTest, results: Sequence[JobResult]) -> Counts:
        own = [result for result in results if result.job.test.name == test.name]
        items = [item for result in own for item in result.items]
        apart = self._keeps_all and is_confirmed(test) and (bool(self._validators) or "validator" in test.needs)
        unverified = sum(item.meta.get("label_source") == UNVERIFIED for item in items)
        return Counts(
            items=len(items),
            set_aside=sum(len(result.job.seeds) for result in own if result.reason),
            attempts=sum(len(result.attempts) for result in own),
            validator_rejected=sum(attempt.rejected for result in own for attempt in result.attempts),
            verified=len(items) - unverified if apart else None,
            unverified=unverified if apart else None,
            unwrapped=sum("unwrapped" in item.meta for item in items) or None,
            sent_back=sum(attempt.sent_back for result in own for attempt in result.attempts) or None,
            doubted=sum("doubted" in item.meta for item in items) or None,
        )


def _wording_of(job: Job) -> tuple[str, str, str]:
    """Name the jobs whose texts may serve one another's seeds."""
    return job.test.name, job.target.condition, job.target.rubric


def _set_aside(result: JobResult) -> list[SetAside]:
    target = result.job.target
    return [
        SetAside(
            id=perturb.item_id(seed, target.condition, target.number),
            test=target.test,
            condition=target.condition,
            source=seed.id,
            reason=result.reason or "",
            attempts=tuple(result.attempts),
        )
        for seed in result.job.seeds
    ]


def questions_about(job: Job, text: str) -> list[Item]:
    """Return what a validator is asked about a text, in order; nothing about one that code wrote.

    First whether it is the rewritten text and nothing else, and keeps what it must. Then, where the label rests
    on it, the judge's own question.
    """
    test = job.test
    if not isinstance(test, Rewrite) or not job.confirm:
        return []
    item = finished_items(job, text, how_made(""))[0]
    must_keep = MAY_DIFFER if test.confirm else test.must_keep
    compared = compared_texts(item, job.target.original, text, must_keep=must_keep, rubric=job.target.question)
    return [compared, item] if test.confirm else [compared]


def compared_texts(item: Item, original: str, rewrite: str, *, must_keep: str, rubric: str) -> Item:
    """Return the question whether a rewrite is the text alone, and keeps what it must."""
    texts = {"ORIGINAL": original, "REWRITE": rewrite}
    return Item(
        id=item.id,
        task=item.task,
        condition=writers.MEANING,
        kind="response",
        instruction=_COMPARE,
        rubric=perturb.fill_prompt(perturb.prompt("validator"), {"must_keep": must_keep, "rubric": rubric}),
        response="\n\n".join(f"=====BEGIN {name}=====\n{said}\n=====END {name}=====" for name, said in texts.items()),
        answers=(perturb.KEPT, perturb.CHANGED),
        expected=perturb.KEPT,
    )


def finished_items(job: Job, text: str, facts: Mapping[str, Any]) -> list[Item]:
    """Return the items a text becomes: one for its seed, one for each further seed with that seed's own label.

    Args:
        job: What the text was written for.
        text: The response, or the question.
        facts: What `how_made` says of it.
    """
    return [_item(job, seed, text, facts) for seed in job.seeds]


def items_serving(job: Job, text: str, written: Item) -> list[Item]:
    """Return the items of a job with a text that was written for another one, of which `written` is an item."""
    # Its label is its own, whoever confirmed that of the other.
    known = (*how_made(""), "unwrapped", "doubted", "confirmed_by")
    facts = {name: written.meta[name] for name in known if name in written.meta}
    return [_item(job, seed, text, {**facts, "written_for": written.task}) for seed in job.seeds]


def how_made(
    generator: str,
    attempts: Sequence[Attempt] = (),
    *,
    prompt_sha256: str | None = None,
    similarity: float | None = None,
    label_source: str | None = None,
) -> dict[str, Any]:
    """Return what an item's meta says about how it was made; the last attempt is the one that was taken."""
    last = attempts[-1] if attempts else None
    return {
        **({} if label_source is None else {"label_source": label_source}),
        "generator": generator,
        "prompt_sha256": prompt_sha256,
        "attempts": len(attempts),
        "temperature": last.temperature if last else None,
        "validator": last.verdict if last else NOT_ASKED,
        **({"confirmed_by": last.by} if last and last.confirmed else {}),
        "similarity": None if similarity is None else round(similarity, 4),
        "review": {"state": "unreviewed"},
    }


def _item(job: Job, seed: Seed, text: str, facts: Mapping[str, Any]) -> Item:
    target = job.target
    in_response = target.part == "response"
    return Item(
        id=perturb.item_id(seed, target.condition, target.number),
        task=seed.task,
        condition=target.condition,
        kind="response",
        instruction=seed.instruction,
        rubric=target.labels.question(target.rubric if in_response else text),
        response=text if in_response else seed.response,
        context=seed.context,
        answers=target.labels.answers,
        ordinal=target.labels.stated_order,
        # The label comes from the test's meaning and the seed's own label, never from a model.
        expected=target.expected if seed.id == target.seed.id else seed.label,
        replicates=target.replicates,
        meta={**about_item(seed, job.test.name, target), **facts},
    )
