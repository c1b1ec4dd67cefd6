"""A generation resolved and checked before anything is sent: what is made, and by whom.

A grader may be asked first: for labels of rows without one, and which tests the rubric makes invalid because it grades
what they change. Labels of a model are never a ground truth.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NoReturn

import pandas as pd

from jrh_mlflow.engine.budget import Budget, cap_advice, checked_cap
from jrh_mlflow.engine.client import ClientSettings, ModelClient
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.engine.runner import WorkerPool
from jrh_mlflow.engine.sessions import WORKERS_PER_SLOT
from jrh_mlflow.errors import BudgetError, JrhError, JudgeError, RecipeError
from jrh_mlflow.generation import writers as writing
from jrh_mlflow.generation.editor import STAGES, Stage, StagedWriter, own_stages, read_stages
from jrh_mlflow.generation.pipeline import Made, SetAside
from jrh_mlflow.generation.plan import AgentPlan, GenerationPlan, is_confirmed, lay_out, seed_id
from jrh_mlflow.generation.writers import Generator, Usage, Validator, Writer, WriterFunction
from jrh_mlflow.judges import AnsweringJudge, Judge, ModelJudge
from jrh_mlflow.measuring.measured import JudgeFacts
from jrh_mlflow.measuring.resolve import resolve_judge
from jrh_mlflow.models.prices import price_of, refuse_surcharges
from jrh_mlflow.options import NO_VALIDATOR, GenerationSettings
from jrh_mlflow.perturb import ReliabilityTest, Rewrite
from jrh_mlflow.perturb.registry import PROPOSE, TESTS, read_invalid
from jrh_mlflow.schema.items import BASELINE, PROTOCOL, Item
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.runs.outbox import outbox_key

logger = logging.getLogger("jrh_mlflow")

SAME_MODEL = "The generator {!r} confirms its own texts. A validator of another model family is better."
UNCONFIRMED = "No validator confirms the label flips, levels and edited transcripts."
KEPT = (
    "Label flips, levels and edited transcripts that no validator confirms are kept with the label source unverified: "
    "no accuracy counts them."
)


@dataclass(frozen=True, kw_only=True)
class PreparedGeneration:
    """What is to be made, by whom."""

    settings: GenerationSettings
    plan: GenerationPlan
    generator: Generator | WriterFunction | None
    """None: only tests that code writes are made."""
    validators: tuple[Judge, ...]
    """The next one is asked when one gives no answer; none: nobody is."""
    cap_micro: int | None
    labeller: Judge | None = None
    """Who labels rows without a label; None where none lacks one."""
    labelling: Labelling | None = None
    """What came of that, once it is done."""
    as_read: GenerationPlan | None = None
    """The plan before labels and invalid tests were asked for; None where neither was."""
    proposing: Labelling | None = None
    """What the validator said about tests that the rubric may make invalid, once it was asked."""

    stages: Mapping[str, Stage] = field(default_factory=dict)
    """Of editing transcripts; empty for responses."""

    @property
    def confirming(self) -> tuple[Judge, ...]:
        """The validators, where they confirm what is written."""
        return self.validators if self.settings.confirm else ()

    @property
    def chosen(self) -> dict[str, object]:
        """Settings that decide what is made, where they are not as usual: they name budget and suite."""
        confirm = {} if self.settings.confirm else {"confirm": False}
        return confirm | ({} if self.settings.definitions == PROTOCOL else {"definitions": self.settings.definitions})

    @property
    def data(self) -> GenerationPlan:
        """The plan of what was read, which names budget and suite whatever a grader says."""
        return self.as_read or self.plan

    @property
    def model(self) -> Generator | None:
        """The generator, where it is a model."""
        return self.generator if isinstance(self.generator, Generator) else None

    @property
    def writer_name(self) -> str:
        """Who writes, as the run's tag says it."""
        if self.model is not None:
            return self.model.model
        return writing.CODE_NAME if self.generator is None else "callable"

    @property
    def author(self) -> str:
        """Who writes, as the report says it."""
        writes = self.stages["editor"].writes if self.stages else self.generator
        return str(writing.writer_settings(writes, seed=0)["model"])

    @cached_property
    def writers(self) -> Mapping[str, Generator | WriterFunction]:
        """Who is asked to write, by what they are: the generator, or the stages that have another model."""
        if not self.stages:
            return {} if self.generator is None else {"generator": self.generator}
        # Stages that share the generator are one writer: its key, price and note count once.
        named = {name: stage.writes for name, stage in self.stages.items()}
        return {"generator" if writes == self.generator else name: writes for name, writes in named.items()}

    @property
    def has_function(self) -> bool:
        """Whether a function of the user's writes, whose answers no journal keeps."""
        return any(not isinstance(writes, Generator) for writes in self.writers.values())

    @property
    def needs_journal(self) -> bool:
        """Whether any model is asked."""
        models = (*self.validators, self.labeller, *self.writers.values())
        return any(isinstance(model, ModelJudge | Generator) for model in models)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the suite should know first."""
        models = [writes.model for writes in self.writers.values() if isinstance(writes, Generator)]
        # Only a note: a model tends to find its own texts as good as it meant them to be.
        own = [judge.model for judge in self.confirming if isinstance(judge, ModelJudge) and judge.model in models]
        notes = [SAME_MODEL.format(model) for model in own]
        if not self.confirming and self.plan.needs_validator:
            notes.append(UNCONFIRMED)
        if not self.settings.pass_required and self.plan.needs_validator:
            notes.append(KEPT)
        if self.labelling is not None and self.labelling.note:
            notes.append(self.labelling.note)
        if self.proposing is not None and (unread := proposal_note(self.proposing, len(self.proposals()))):
            notes.append(unread)
        return (*notes, *self.plan.notes)

    def proposals(self) -> list[Item]:
        """Return what the validator is asked about tests that the rubric may make invalid; nothing unless wanted."""
        _, wanted = read_invalid(self.settings.invalid, self.data.tests)
        return proposal_items(self.data) if wanted else []

    @cached_property
    def lacking(self) -> Mapping[str, str]:
        """Models that cannot be asked, each with one message on what all of them lack: a key, an address."""
        writers = [(role, writes.as_judge()) for role, writes in self.writers.items() if isinstance(writes, Generator)]
        models = [*writers, *(("validator", judge) for judge in self.validators), ("labeller", self.labeller)]
        lacks_of = [(role, judge.model, judge.lacks()) for role, judge in models if isinstance(judge, ModelJudge)]
        problems: dict[str, str] = {}
        for role, model, lacks in lacks_of:
            if lacks:
                # The generator comes first, and so is named where one model does both.
                problems.setdefault(model, f"The {role} {lacks}")
        return dict.fromkeys(problems, " ".join(problems.values()))

    def budget(self) -> str | None:
        """Name the budget by what is made: running again with a higher cap continues it."""
        if self.cap_micro is None or not self.needs_journal:
            return None
        plan = self.data
        generator = self.model.settings() if self.model else None
        validator, *others = [judge.fingerprint() for judge in self.validators] or [None]
        tests = [[test.name, test.settings] if test.settings else test.name for test in plan.tests]
        # The order is part of the key: what spent from a budget in an earlier run must find it again.
        parts = (generator, validator, plan.sha256, tests, plan.rubric_sha256, self.settings.seed)
        more = plan.settings()
        if self.labeller is not None:
            more |= {"labeller": self.labeller.fingerprint(), "asks": self.settings.labeller_asks}
        if self.proposals():
            more |= {"invalid": PROPOSE}
        more |= self.chosen | ({"validators": others} if others else {})
        return outbox_key("generate", *parts, *(settings for settings in (more, self.stage_settings()) if settings))

    def stage_settings(self) -> dict[str, dict[str, object]]:
        """Return what is logged of each stage, as params `planner.*`; nothing where all are the generator's own."""
        return {
            name: {**_settings(self.stages[name].writes), **facts} for name, facts in own_stages(self.stages).items()
        }

    def writer_settings(self) -> dict[str, object]:
        """Return what makes the writer this one; logged as params `generator.*`."""
        return writing.writer_settings(self.generator, seed=self.settings.seed)

    def validator_settings(self) -> dict[str, dict[str, Any]]:
        """Return what is logged of the validators, as params `validator.*`, `validator_2.*` and so on."""
        facts = [{"name": judge.name, **JudgeFacts.of(judge).settings} for judge in self.validators]
        first, *others = facts or [{"kind": NO_VALIDATOR}]
        return {"validator": first, **{f"validator_{place}": more for place, more in enumerate(others, 2)}}

    def labeller_settings(self) -> dict[str, Any]:
        """Return what is logged of the labeller, as params `labeller.*`; nothing where no row was labelled."""
        if self.labeller is None:
            return {}
        facts = JudgeFacts.of(self.labeller).settings
        return {"name": self.labeller.name, "asks": self.settings.labeller_asks, **facts}

    def asking(self, judge: Judge | None, journal: Journal | None, settings: ClientSettings) -> Validator:
        """Return a judge that answers by itself, under the same budget as all others."""
        if not isinstance(judge, ModelJudge):
            assert isinstance(judge, AnsweringJudge)
            return writing.JudgeValidator(judge, concurrency=settings.concurrency)
        assert journal is not None
        budget = Budget(journal, settings.budget)
        return writing.ModelValidator(judge, self._client(judge, journal, settings, budget))

    def _client(
        self, model: Generator | ModelJudge, journal: Journal, settings: ClientSettings, budget: Budget
    ) -> ModelClient:
        price = price_of(model.model, self.settings.prices)
        lacking = self.lacking.get(model.model)
        # Without a key a run can still be repeated, as long as the journal answers everything.
        kind = ModelClient if lacking is None else partial(KeptAnswers, lacking=lacking)
        return kind(model.model, model.api_base, journal, replace(settings, price=price), budget=budget)

    def participants(self, journal: Journal | None, settings: ClientSettings) -> tuple[Writer | None, list[Validator]]:
        """Return who writes and who confirms; one model at one address has one client, and all share the budget."""
        budget = Budget(journal, settings.budget) if journal is not None else None
        clients: dict[tuple[str, str | None], ModelClient] = {}

        def client(model: Generator | ModelJudge) -> tuple[ModelClient, bool]:
            """Return the client of a model, and whether somebody has it already."""
            assert journal is not None
            assert budget is not None
            # Limits and connections belong to an endpoint, so who asks the same one shares its client.
            place = (model.model, model.api_base)
            is_known = place in clients
            if not is_known:
                clients[place] = self._client(model, journal, settings, budget)
            return clients[place], is_known

        def briefed(writes: Generator | WriterFunction) -> Writer:
            if not isinstance(writes, Generator):
                return writing.CallableWriter(writes, concurrency=settings.concurrency)
            way, shared = client(writes)
            return writing.ModelWriter(writes, way, shared=shared)

        def confirms(judge: Judge) -> Validator:
            if not isinstance(judge, ModelJudge):
                return self.asking(judge, journal, settings)
            way, shared = client(judge)
            return writing.ModelValidator(judge, way, shared=shared)

        generator = self.generator
        if generator is None:
            return None, []
        writer = briefed(generator)
        if self.stages:
            writers = {
                name: writer if stage.writes == generator else briefed(stage.writes)
                for name, stage in self.stages.items()
            }
            writer = StagedWriter(writer, writers, self.stages)
        return writer, list(map(confirms, self.confirming))


class KeptAnswers(ModelClient):
    """A way to a model that cannot be asked: only what the journal answers is answered."""

    def __init__(self, *parts: Any, lacking: str, **more: Any) -> None:
        super().__init__(*parts, **more)
        self._lacking = lacking

    async def send(self, *parts: Any, **more: Any) -> NoReturn:
        """Say what is missing.

        Raises:
            LacksKeyError: always.
        """
        raise writing.LacksKeyError(self._lacking)


def prepare_generation(settings: GenerationSettings) -> PreparedGeneration:
    """Read the data and resolve everything that can be wrong before the first call.

    Raises:
        RecipeError: for data, names or settings that make no sense.
    """
    plan = lay_out(settings)
    generator, stages = _writers(settings, plan)
    if generator is None:
        _refuse_rewrites(plan)
    # Proposals are the validator's, so it is resolved for them even where nothing is to be confirmed.
    proposing = read_invalid(settings.invalid, plan.tests)[1]
    confirming = settings.confirm and any(map(is_confirmed, plan.tests))
    validators = _validators(settings.validator, generator) if confirming or proposing else ()
    if proposing and not validators:
        raise RecipeError("`invalid: propose` asks a validator about each test, and there is none: name one.")
    labeller = resolve_judge(settings.labeller) if plan.unlabelled else None
    for judge, items in (*((judge, plan.baselines()) for judge in validators), (labeller, plan.questions())):
        if judge is not None:
            judge.begin(Suite(name="baselines", items=items))
    prepared = PreparedGeneration(
        settings=settings,
        plan=plan,
        generator=generator,
        validators=validators,
        cap_micro=None,
        labeller=labeller,
        stages=stages,
    )
    # The cap needs every participant's price, so it comes when all are known.
    prepared = replace(prepared, cap_micro=_cap(prepared))
    for note in prepared.notes:
        logger.warning("%s", note)
    return prepared


def _writers(
    settings: GenerationSettings, plan: GenerationPlan
) -> tuple[Generator | WriterFunction | None, dict[str, Stage]]:
    """Resolve the generator and, of transcripts, the stages."""
    generator = writing.as_generator(settings.generator)
    given = {name: getattr(settings, name) for name in STAGES}
    nobody = generator is None and (settings.generator is not None or not any(given.values()))
    if nobody or not isinstance(plan, AgentPlan):
        return generator, {}
    stages = read_stages(given, generator)
    # Where every stage has a model of its own, nobody else is asked: the editor is who writes.
    is_asked = any(stage.writes == generator for stage in stages.values())
    return (generator if is_asked else stages["editor"].writes), stages


def _settings(writes: Generator | WriterFunction) -> dict[str, object]:
    return writes.settings() if isinstance(writes, Generator) else {"kind": "callable"}


def _refuse_rewrites(plan: GenerationPlan) -> None:
    """Refuse tests whose texts nobody is there to write.

    Raises:
        RecipeError: naming them, and the tests that code writes.
    """
    rewrites = [test.name for test in plan.tests if isinstance(test, Rewrite)]
    if not rewrites:
        return
    problem = f"These tests need a writer, and there is no generator: {', '.join(rewrites)}."
    advice = "Name a model: generator= (--generator)."
    if not isinstance(plan, AgentPlan):
        by_code = [name for name, test in TESTS.items() if not isinstance(test, Rewrite)]
        advice = f"{advice} Or choose tests that code writes: {', '.join(by_code)}."
    raise RecipeError(f"{problem} {advice}")


def _validators(spec: object, generator: Generator | WriterFunction | None) -> tuple[Judge, ...]:
    specs = list(spec) if isinstance(spec, list | tuple) else [] if spec is None else [spec]
    if specs == [NO_VALIDATOR]:
        return ()
    if NO_VALIDATOR in specs:
        raise RecipeError("`validator` lists judges, and `none` is nobody: leave it out, or give nothing else.")
    own = [generator.as_judge()] if isinstance(generator, Generator) and not specs else []
    return (*map(resolve_judge, specs), *own)


def _cap(prepared: PreparedGeneration) -> int | None:
    """Return the cap in micro-dollars; every call it covers must have a price beforehand."""
    max_usd, prices = prepared.settings.max_usd, prepared.settings.prices
    if max_usd is None:
        return None
    judges: list[Judge] = []
    for role, writes in prepared.writers.items():
        if not isinstance(writes, Generator):
            raise RecipeError(f"A cap needs calls that are priced beforehand, and the {role} is a function.")
        refuse_surcharges(writes.extra or {})
        judges.append(writes.as_judge())
    judges += [judge for judge in (*prepared.validators, prepared.labeller) if judge]
    caps = [checked_cap(max_usd, judge, prices) for judge in judges]
    return caps[0] if caps else None


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenLabel:
    """What a grader said about one row."""

    source: str
    label: str | None
    """None where it gave none."""
    reason: str | None = None
    """Why there is none."""


@dataclass(frozen=True, kw_only=True)
class Labelling:
    """What became of the rows without a label."""

    given: tuple[GivenLabel, ...] = ()
    """In the order of the rows; without those that were not asked about."""
    usage: Usage = field(default_factory=Usage)
    unasked: int = 0
    """Rows that were not asked about because the cap was reached."""
    stopped: str | None = None

    @property
    def labels(self) -> dict[str, str]:
        """Row to label, of the rows that were labelled."""
        return {row.source: row.label for row in self.given if row.label is not None}

    @property
    def without(self) -> list[GivenLabel]:
        """Rows that the grader gave no label."""
        return [row for row in self.given if row.label is None]

    @property
    def note(self) -> str | None:
        """What a reader of the suite should know first."""
        if not self.given and not self.unasked:
            return None
        counts = ", ".join(f"{label}: {count}" for label, count in sorted(Counter(self.labels.values()).items()))
        more = f" ({counts})" if counts else ""
        more += f", {len(self.without)} could not be labelled" if self.without else ""
        more += f", {self.unasked} were not asked about" if self.unasked else ""
        return (
            f"A model wrote the labels of {len(self.labels)} rows{more}. Agreement with them is reported apart and is "
            "no accuracy."
        )

    def failure(self) -> JrhError:
        """Return what is raised where no row has a label."""
        if self.stopped is not None:
            advice = cap_advice(self.stopped, "the cap and run it again.")
            return BudgetError(f"{self.stopped}: no row was labelled. {advice}")
        return JudgeError(f"None of {len(self.given)} rows could be labelled: {self.without[0].reason}.")

    def added_to(self, made: Made, plan: GenerationPlan) -> Made:
        """Return what was made together with what labelling used and set aside; transcripts stay without a label."""
        aside = [
            SetAside(
                id=f"{row.source}/{BASELINE}",
                test=BASELINE,
                condition=BASELINE,
                source=row.source,
                reason=row.reason or "",
            )
            for row in (() if isinstance(plan, AgentPlan) else self.without)
        ]
        return replace(
            made,
            usage=self.usage.plus(made.usage),
            set_aside=(*aside, *made.set_aside),
            stopped=self.stopped or made.stopped,
        )


async def ask_for_labels(items: Sequence[Item], labeller: Validator, *, asks: int, concurrency: int) -> Labelling:
    """Ask about every row; stop where the cap does not cover the next call.

    Raises:
        JudgeError: when the service fails for good; what was paid is in the journal.
        KeyboardInterrupt: after the first Ctrl-C, once the calls in flight are settled.
    """
    usage = Usage()
    pool = WorkerPool[Item, "GivenLabel | None"](items, workers=WORKERS_PER_SLOT * concurrency)

    async def ask(item: Item) -> GivenLabel | None:
        session = writing.Session(usage, stopped=lambda: pool.stopped is not None, rehearse=None)
        try:
            replies = [await session.ask(labeller.question(item, replicate=number)) for number in range(asks)]
        except writing.Stopped:
            return None  # the same call again continues
        # An answer outside the labels is a problem, and never counts as a vote for anything.
        answers = [reply.text for reply in replies if reply.problem is None and reply.text in (item.answers or ())]
        problems = [reply.problem or f"it answered {reply.text!r}" for reply in replies if reply.text not in answers]
        return _decided(seed_id(item), [answer for answer in answers if answer], problems)

    async with labeller.opened():
        answered = await pool.run(ask)
    given = tuple(label for label in answered if label is not None)
    return Labelling(given=given, usage=usage, unasked=len(items) - len(given), stopped=pool.stopped)


def _decided(source: str, answers: Sequence[str], problems: Sequence[str]) -> GivenLabel:
    """Take the answer of more than half of those that answered; an error is never a label."""
    if not answers:
        return GivenLabel(source=source, label=None, reason=f"the labeller gave no label: {problems[0]}")
    counts = Counter(answers)
    (first, most), *_ = counts.most_common()
    # A majority and not a plurality: with three labels, two of five answers decide nothing.
    if 2 * most <= len(answers):
        listed = ", ".join(f"{answer} {count}" for answer, count in sorted(counts.items()))
        return GivenLabel(source=source, label=None, reason=f"the labeller's answers have no majority: {listed}")
    return GivenLabel(source=source, label=first)


def label_table(plan: GenerationPlan) -> pd.DataFrame:
    """Return the rows with their labels as a dataset: `generate` reads it again, the source of each label included.

    Of several rubrics each has columns of its own: `label_helpful`, `label_source_helpful`. Transcripts are named, and
    their texts left to their logs.
    """
    rows: dict[str, dict[str, str]] = {}
    for seed in plan.seeds:
        texts = {} if isinstance(plan, AgentPlan) else {"instruction": seed.instruction, "response": seed.response}
        group = {} if seed.group is None else {"group": seed.group}
        # Several rubrics give a row several seeds; the table has one line for it.
        row = rows.setdefault(seed.task, {"id": seed.task, **texts, **group})
        of = f"_{seed.rubric_id}" if seed.rubric_id else ""
        row |= {f"label{of}": seed.label, f"label_source{of}": seed.label_source}
    table: pd.DataFrame = pd.DataFrame(list(rows.values())).fillna("")
    return table


_TASK = "A grader answers a question about responses to a task. Say what the question grades."
_QUESTION = (
    "The text is the question that the grader answers. Does it grade this property of a response: {changes}? "
    "Answer yes if a response may deserve another answer because of that property alone: the question names it, or "
    "something that it is a part of. Answer no if the question does not speak of it, or says that it does not count."
)
_NO, _YES = "no", "yes"


def proposal_items(plan: GenerationPlan) -> list[Item]:
    """Return what a validator is asked: one question for each test that expects an unchanged answer.

    Of several rubrics all are shown: a test is made of every one of them, or of none.
    """
    return [
        Item(
            id=f"{test.name}/invalid",
            task=test.name,
            condition="invalid",
            kind="response",
            instruction=_TASK,
            rubric=_QUESTION.format(changes=test.changes),
            # The judge's question takes the place of the response: it is what is graded here.
            response="\n\n".join(part.labels.question(part.rubric) for part in plan.parts or (plan,)),
            answers=(_NO, _YES),
        )
        for test in plan.tests
        if test.changes
    ]


def graded(answers: Labelling, tests: Sequence[ReliabilityTest]) -> dict[str, str]:
    """Return the tests that are invalid by the validator's answers, each with the reason."""
    labels = answers.labels
    return {
        test.name: f"the validator says that the rubric grades {test.changes}"
        for test in tests
        if labels.get(test.name) == _YES
    }


def proposal_note(answers: Labelling, n_asked: int) -> str | None:
    """Say about which tests the validator gave no answer that can be read; they are made."""
    unread = [answer.source for answer in answers.without]
    silent = f"Whether the rubric grades what these tests change, the validator did not say: {', '.join(unread)}."
    unasked = f"The cap was reached before {answers.unasked} of {n_asked} tests were asked about."
    return " ".join([*([silent] if unread else []), *([unasked] if answers.unasked else [])]) or None
