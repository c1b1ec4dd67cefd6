"""A generation resolved and checked before anything is sent: what is made, by whom, and what it would cost."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NoReturn

from jrh_mlflow.engine.budget import Budget, checked_cap, judge_price
from jrh_mlflow.engine.client import ClientSettings, ModelClient
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.generation.editor import STAGES, Scene, Stage, StagedWriter, Step, editable, own_stages, read_stages
from jrh_mlflow.generation.labelling import Labelling, proposal_items, proposal_note
from jrh_mlflow.generation.plan import AgentPlan, GenerationPlan, Job, finished_items, lay_out
from jrh_mlflow.generation.writers import (
    BriefedWriter,
    CallableWriter,
    Generator,
    JudgeValidator,
    ModelValidator,
    ModelWriter,
    OfflineWriter,
    Validator,
    Writer,
    WriterFunction,
    as_generator,
    call_about,
)
from jrh_mlflow.judges import AnsweringJudge, Judge, ModelJudge
from jrh_mlflow.judges.rendering import message_texts
from jrh_mlflow.measuring.measured import JudgeFacts
from jrh_mlflow.measuring.resolve import resolve_judge
from jrh_mlflow.models.prices import (
    BYTES_PER_TOKEN,
    TYPICAL_OUTPUT_TOKENS,
    Price,
    cost_micro,
    price_of,
    prompt_size,
    refuse_surcharges,
    worst_case_micro,
)
from jrh_mlflow.options import NO_VALIDATOR, OFFLINE, GenerationSettings
from jrh_mlflow.perturb import PROPOSE, AgentTest, NotApplicable, Rewrite, read_invalid
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.labels import about_labels
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.runs.outbox import outbox_key

logger = logging.getLogger("jrh_mlflow")

SAME_MODEL = "The generator {!r} confirms its own texts. A validator of another model family is better."
UNCONFIRMED = "No validator confirms the label flips, levels and edited transcripts."
KEPT = (
    "Label flips, levels and edited transcripts that no validator confirms are kept with the label source unverified: "
    "no accuracy counts them."
)
BY_RULE = (
    "Written by rules, without a model: good for trying everything out, no measure of a judge's weakness. "
    "A model writes when it is named: generator=, --generator."
)
_LONGER = 1.5
"""A rewrite is taken to have this many times the tokens of its original."""
_USUAL_STEPS = 2
"""Steps a plan of edits is taken to have."""


@dataclass(frozen=True, kw_only=True)
class PreparedGeneration:
    """What is to be made, by whom."""

    settings: GenerationSettings
    plan: GenerationPlan
    generator: Generator | WriterFunction | None
    """None: the tests' own rules."""
    validator: Judge | None
    """None: nobody is asked."""
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
    """Of editing transcripts; empty where rules do, and for responses."""

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
        return self.model.model if self.model else "callable" if self.generator else OFFLINE

    @cached_property
    def writers(self) -> Mapping[str, Generator | WriterFunction]:
        """Who is asked to write, by what they are: the generator, or the stages that have another model."""
        if not self.stages:
            return {} if self.generator is None else {"generator": self.generator}
        named = {name: stage.writes for name, stage in self.stages.items()}
        return {"generator" if writes == self.generator else name: writes for name, writes in named.items()}

    @property
    def has_function(self) -> bool:
        """Whether a function of the user's writes, whose answers no journal keeps."""
        return any(not isinstance(writes, Generator) for writes in self.writers.values())

    @property
    def needs_journal(self) -> bool:
        """Whether any model is asked."""
        judges = [one for one in (self.validator, self.labeller) if isinstance(one, ModelJudge)]
        return bool(judges) or any(isinstance(writes, Generator) for writes in self.writers.values())

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the suite should know first."""
        notes = [BY_RULE] if self.generator is None and self.plan.rewrites else []
        models = [writes.model for writes in self.writers.values() if isinstance(writes, Generator)]
        if (confirms := getattr(self.validator, "model", None)) in models:
            notes.append(SAME_MODEL.format(confirms))
        if self.validator is None and self.generator is not None and self.plan.needs_validator:
            notes.append(UNCONFIRMED)
        if not self.settings.pass_required and self.plan.needs_validator:
            notes.append(KEPT)
        if self.labelling is not None and self.labelling.note:
            notes.append(self.labelling.note)
        if self.proposing is not None and (unread := proposal_note(self.proposing, len(self.proposals()))):
            notes.append(unread)
        return (*notes, *self.plan.notes(by_rule=self.generator is None))

    def proposals(self) -> list[Item]:
        """Return what the validator is asked about tests that the rubric may make invalid; nothing unless wanted."""
        _, wanted = read_invalid(self.settings.invalid, self.data.tests)
        return proposal_items(self.data) if wanted else []

    @cached_property
    def lacking(self) -> Mapping[str, str]:
        """Models that cannot be asked, each with one message on what all of them lack: a key, an address."""
        writers = [(role, one.as_judge()) for role, one in self.writers.items() if isinstance(one, Generator)]
        asked = [*writers, ("validator", self.validator), ("labeller", self.labeller)]
        found = [(role, judge.model, judge.lacks()) for role, judge in asked if isinstance(judge, ModelJudge)]
        told: dict[str, str] = {}
        for role, model, lacks in found:
            if lacks:
                # The generator comes first, and so is named where one model does both.
                told.setdefault(model, f"The {role} {lacks}")
        return dict.fromkeys(told, " ".join(told.values()))

    def budget(self) -> str | None:
        """Name the budget by what is made: running again with a higher cap continues it."""
        if self.cap_micro is None or not self.needs_journal:
            return None
        plan = self.data
        generator = self.model.settings() if self.model else None
        validator = self.validator.fingerprint() if self.validator else None
        # Names alone where all is as by default: keys of earlier versions stay.
        tests = [[test.name, test.settings] if test.settings else test.name for test in plan.tests]
        parts = (generator, validator, plan.sha256, tests, plan.rubric_sha256, self.settings.seed)
        more = plan.settings()
        if self.labeller is not None:
            more |= {"labeller": self.labeller.fingerprint(), "asks": self.settings.labeller_asks}
        if self.proposals():
            more |= {"invalid": PROPOSE}
        return outbox_key("generate", *parts, *(settings for settings in (more, self.stage_settings()) if settings))

    def stage_settings(self) -> dict[str, dict[str, object]]:
        """Return what is logged of each stage, as params `planner.*`; nothing where all are the generator's own."""
        return {
            name: {**_settings(self.stages[name].writes), **facts} for name, facts in own_stages(self.stages).items()
        }

    def writer_settings(self) -> dict[str, object]:
        """Return what makes the writer this one; logged as params `generator.*`."""
        if isinstance(self.generator, Generator):
            return self.generator.settings()
        writer = (
            OfflineWriter(self.settings.seed)
            if self.generator is None
            else CallableWriter(self.generator, concurrency=1)
        )
        return writer.settings()

    def validator_settings(self) -> dict[str, Any]:
        """Return what is logged of the validator, as params `validator.*`."""
        if self.validator is None:
            return {"kind": NO_VALIDATOR}
        return {"name": self.validator.name, **JudgeFacts.of(self.validator).settings}

    def labeller_settings(self) -> dict[str, Any]:
        """Return what is logged of the labeller, as params `labeller.*`; nothing where no row was labelled."""
        if self.labeller is None:
            return {}
        facts = JudgeFacts.of(self.labeller).settings
        return {"name": self.labeller.name, "asks": self.settings.labeller_asks, **facts}

    def labels(self, journal: Journal | None, settings: ClientSettings) -> Validator:
        """Return who labels, under the same budget as all others."""
        return self.asking(self.labeller, journal, settings)

    def asking(self, judge: Judge | None, journal: Journal | None, settings: ClientSettings) -> Validator:
        """Return a judge that answers by itself, under the same budget as all others."""
        if not isinstance(judge, ModelJudge):
            assert isinstance(judge, AnsweringJudge)
            return JudgeValidator(judge, concurrency=settings.concurrency)
        assert journal is not None
        budget = Budget(journal, settings.budget)
        return ModelValidator(judge, self._client(judge, journal, settings, budget))

    def _client(
        self, model: Generator | ModelJudge, journal: Journal, settings: ClientSettings, budget: Budget
    ) -> ModelClient:
        price = price_of(model.model, self.settings.prices)
        lacking = self.lacking.get(model.model)
        kind = ModelClient if lacking is None else partial(KeptAnswers, lacking=lacking)
        return kind(model.model, model.api_base, journal, replace(settings, price=price), budget=budget)

    def participants(self, journal: Journal | None, settings: ClientSettings) -> tuple[Writer, Validator | None]:
        """Return who writes and who confirms; one model at one address has one client, and all share the budget."""
        budget = Budget(journal, settings.budget) if journal is not None else None
        clients: dict[tuple[str, str | None], ModelClient] = {}

        def client(model: Generator | ModelJudge) -> tuple[ModelClient, bool]:
            """Return the client of a model, and whether somebody has it already."""
            assert journal is not None
            assert budget is not None
            place = (model.model, model.api_base)
            is_known = place in clients
            if not is_known:
                clients[place] = self._client(model, journal, settings, budget)
            return clients[place], is_known

        def briefed(writes: Generator | WriterFunction) -> BriefedWriter:
            if not isinstance(writes, Generator):
                return CallableWriter(writes, concurrency=settings.concurrency)
            found, shared = client(writes)
            return ModelWriter(writes, found, shared=shared)

        judge, generator = self.validator, self.generator
        writer: Writer = OfflineWriter(self.settings.seed) if generator is None else briefed(generator)
        if self.stages and isinstance(writer, BriefedWriter):
            writers = {
                name: writer if stage.writes == generator else briefed(stage.writes)
                for name, stage in self.stages.items()
            }
            writer = StagedWriter(writer, writers, self.stages)
        if not isinstance(judge, ModelJudge):
            assert judge is None or isinstance(judge, AnsweringJudge)
            return writer, JudgeValidator(judge, concurrency=settings.concurrency) if judge else None
        found, shared = client(judge)
        return writer, ModelValidator(judge, found, shared=shared)


class KeptAnswers(ModelClient):
    """A way to a model that cannot be asked: only what the journal answers is answered."""

    def __init__(self, *parts: Any, lacking: str, **more: Any) -> None:
        super().__init__(*parts, **more)
        self._lacking = lacking

    async def send(self, *parts: Any, **more: Any) -> NoReturn:
        """Say what is missing.

        Raises:
            JudgeError: always.
        """
        raise JudgeError(self._lacking)


def prepare_generation(settings: GenerationSettings) -> PreparedGeneration:
    """Read the data and resolve everything that can be wrong before the first call.

    Raises:
        RecipeError: for data, names or settings that make no sense.
    """
    plan = lay_out(settings)
    generator, stages = _writers(settings, plan)
    if generator is None:
        _refuse_prompts(plan)
    proposing = read_invalid(settings.invalid, plan.tests)[1]
    validator = _validator(settings.validator, generator) if plan.needs_validator or proposing else None
    if proposing and validator is None:
        raise RecipeError("`invalid: propose` asks a validator about each test, and there is none: name one.")
    labeller = resolve_judge(settings.labeller) if plan.unlabelled else None
    for judge, items in ((validator, plan.baselines()), (labeller, plan.questions())):
        if judge is not None:
            judge.begin(Suite(name="baselines", items=items))
    prepared = PreparedGeneration(
        settings=settings,
        plan=plan,
        generator=generator,
        validator=validator,
        cap_micro=None,
        labeller=labeller,
        stages=stages,
    )
    prepared = replace(prepared, cap_micro=_cap(prepared))
    for note in prepared.notes:
        logger.warning("%s", note)
    return prepared


def _writers(
    settings: GenerationSettings, plan: GenerationPlan
) -> tuple[Generator | WriterFunction | None, dict[str, Stage]]:
    """Resolve the generator and, of transcripts, the stages."""
    generator = as_generator(settings.generator)
    given = {name: getattr(settings, name) for name in STAGES}
    by_rules = generator is None and (settings.generator is not None or not any(given.values()))
    if by_rules or not isinstance(plan, AgentPlan):
        return generator, {}
    stages = read_stages(given, generator)
    # Where every stage has a model of its own, nobody else is asked: the editor is who writes.
    is_asked = any(stage.writes == generator for stage in stages.values())
    return (generator if is_asked else stages["editor"].writes), stages


def _settings(writes: Generator | WriterFunction) -> dict[str, object]:
    return writes.settings() if isinstance(writes, Generator) else {"kind": "callable"}


def _refuse_prompts(plan: GenerationPlan) -> None:
    for test in plan.tests:
        if isinstance(test, Rewrite) and not test.has_rules:
            raise RecipeError(
                f"Test {test.name!r} is a prompt for a model, and rules cannot carry it out: name a generator."
            )


def _validator(spec: object, generator: Generator | WriterFunction | None) -> Judge | None:
    if spec == NO_VALIDATOR:
        return None
    if spec is not None:
        return resolve_judge(spec)
    return generator.as_judge() if isinstance(generator, Generator) else None


def _cap(prepared: PreparedGeneration) -> int | None:
    """Return the cap in micro-dollars; every call it covers must have a price beforehand."""
    max_usd, prices = prepared.settings.max_usd, prepared.settings.prices
    if max_usd is None:
        return None
    asked: list[Judge] = []
    for role, writes in prepared.writers.items():
        if not isinstance(writes, Generator):
            raise RecipeError(f"A cap needs calls that are priced beforehand, and the {role} is a function.")
        refuse_surcharges(writes.extra or {})
        asked.append(writes.as_judge())
    asked += [judge for judge in (prepared.validator, prepared.labeller) if judge]
    caps = [checked_cap(max_usd, judge, prices) for judge in asked]
    return caps[0] if caps else None


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationQuote:
    """What a generation would send and cost. What the journal holds already is not taken off."""

    labels: str
    """What labels, order and meanings were understood."""
    seeds: int
    items: int
    """Baselines included, if everything can be made."""
    generator_calls: int
    """If every first attempt passes."""
    max_generator_calls: int
    """If every attempt is needed."""
    validator_calls: int
    max_validator_calls: int
    usd: float | None
    """If every first attempt passes; None when a price is unknown, 0 when nothing is sent."""
    worst_usd: float | None
    """If every attempt is needed and every text is as long as `max_tokens` allows."""
    labeller_calls: int = 0


@dataclass(slots=True)
class _Bill:
    """Calls to one model and what they cost in micro-dollars, or None once a price is missing."""

    price: Price | None
    calls: int = 0
    """If every first attempt passes."""
    most: int = 0
    """If every attempt is needed."""
    likely: int | None = 0
    worst: int | None = 0

    def count(self, calls: int, most: int) -> None:
        self.calls, self.most = self.calls + calls, self.most + most

    def pay(self, *, size: int, out: int, max_out: int, calls: int = 1, most: int, grown: int = 0) -> None:
        """Add calls with a prompt of `size` bytes, which earlier answers may have made longer by `grown`."""
        if self.price is None or self.likely is None or self.worst is None:
            self.likely = self.worst = None
            return
        self.likely += calls * cost_micro(self.price, size // BYTES_PER_TOKEN, out)
        self.worst += most * worst_case_micro(self.price, size + grown, max_out)


def quoted(prepared: PreparedGeneration) -> GenerationQuote:
    """Add up what every rewrite would send, rendering all of them; of edits, as if each call were the longest."""
    plan, model, judge, prices = prepared.plan, prepared.model, prepared.validator, prepared.settings.prices
    models = {name: stage.writes for name, stage in prepared.stages.items() if isinstance(stage.writes, Generator)}
    models |= {} if model is None or prepared.stages else {"generator": model}
    bills = {name: _Bill(price_of(one.model, prices)) for name, one in models.items()}
    checking, labelling = (_Bill(judge_price(one, prices) if one else None) for one in (judge, prepared.labeller))
    editor, asks = models.get("editor", model), prepared.settings.labeller_asks
    for item in plan.questions() if prepared.labeller is not None else ():
        labelling.count(asks, asks)
        if isinstance(prepared.labeller, ModelJudge):
            _add_asked(labelling, item, prepared.labeller, calls=asks, most=asks)
    for item in prepared.proposals():
        checking.count(1, 1)
        if isinstance(judge, ModelJudge):
            _add_asked(checking, item, judge, calls=1, most=1)
    for job in plan.rewrites:
        if isinstance(plan, AgentPlan):
            _add_edits(bills, plan, job, prepared.stages)
        elif model is not None:
            _add_text(bills["generator"], job, model)
        if judge is not None and job.confirm:
            checking.count(1, _rounds(plan, editor) if editor else 1)
            if isinstance(judge, ModelJudge):
                _add_question(checking, plan, job, judge, editor)
    return GenerationQuote(
        labels=about_labels(plan.labels),
        seeds=len(plan.seeds),
        items=len(plan.seeds) + plan.n_items,
        generator_calls=sum(bill.calls for bill in bills.values()),
        max_generator_calls=sum(bill.most for bill in bills.values()),
        validator_calls=checking.calls,
        max_validator_calls=checking.most,
        usd=_dollars(*(bill.likely for bill in (*bills.values(), checking, labelling))),
        worst_usd=_dollars(*(bill.worst for bill in (*bills.values(), checking, labelling))),
        labeller_calls=labelling.calls,
    )


def _rounds(plan: GenerationPlan, model: Generator | None) -> int:
    """Return how often an item is put to the validator at most: once for each plan of edits, or for each text."""
    if isinstance(plan, AgentPlan):
        return plan.plans
    return model.attempts if model else 1


def _dollars(*parts: int | None) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) / 1_000_000 if len(known) == len(parts) else None


def _add_text(bill: _Bill, job: Job, model: Generator) -> None:
    """Add one rewrite, on each of its attempts."""
    assert isinstance(job.test, Rewrite)
    try:
        request = model.request(job.test.brief(job.target), temperature=model.temperature)
    except NotApplicable:
        return
    longer = int(_LONGER * len(job.target.original.encode("utf-8", "replace")))
    out = min(model.max_tokens, longer // BYTES_PER_TOKEN + 1)
    bill.count(1, model.attempts)
    bill.pay(size=prompt_size(request), out=out, max_out=model.max_tokens, most=model.attempts)


def _add_edits(bills: Mapping[str, _Bill], plan: AgentPlan, job: Job, stages: Mapping[str, Stage]) -> None:
    """Add the calls on one transcript, each as long as the longest."""
    assert isinstance(job.test, AgentTest)
    messages = plan.start(job).transcript or ()
    scene = Scene.of(job.test, job.target, {name: stage.prompt.text for name, stage in stages.items()})
    briefs, follow_ups = _briefs(scene, messages, plan.max_steps), sum(len(one.tool_calls) for one in messages)
    n_most = {"planner": 1, "editor": plan.max_steps + follow_ups, "summary": plan.max_steps}
    models = {name: stage.writes for name, stage in stages.items() if isinstance(stage.writes, Generator)}
    longest = max((model.max_tokens for model in models.values()), default=0)
    for name, model in models.items():
        calls, most = 1 if name == "planner" else _USUAL_STEPS, plan.plans * model.attempts * n_most[name]
        bills[name].count(calls, most)
        bills[name].pay(
            size=max(
                prompt_size(model.request(brief, temperature=model.temperature, own_form=True)) for brief in briefs
            ),
            out=min(TYPICAL_OUTPUT_TOKENS, model.max_tokens),
            max_out=model.max_tokens,
            calls=calls,
            most=most,
            # Every answer may make the next prompt longer by as much as it holds.
            grown=BYTES_PER_TOKEN * longest,
        )


def _briefs(scene: Scene, messages: Sequence[Message], max_steps: int) -> list[str]:
    """List the longest briefs there can be at first: the planner sees all, the others one message twice."""
    briefs = [scene.planner(messages, max_steps=max_steps, told="", rejected="")]
    if places := editable(messages):
        longest = max(places, key=lambda place: sum(map(len, message_texts(messages[place]))))
        step = Step(message=longest, change="", why="")
        briefs.append(scene.editor(messages, step, summary="", rejected=""))
        briefs.append(scene.summariser(messages[longest], messages[longest], step, summary="", rejected=""))
    return briefs


def _add_question(bill: _Bill, plan: GenerationPlan, job: Job, judge: ModelJudge, model: Generator | None) -> None:
    """Add the judge's question about one finished item, which may be longer than its source."""
    if isinstance(plan, AgentPlan):
        item, texts = plan.start(job), plan.max_steps
    else:
        item, texts = finished_items(job, job.target.original, generator="")[0], 1
    grown = BYTES_PER_TOKEN * texts * (model.max_tokens if model else 0)
    _add_asked(bill, item, judge, most=_rounds(plan, model), grown=grown)


def _add_asked(bill: _Bill, item: Item, judge: ModelJudge, **calls: int) -> None:
    limit = judge.max_tokens or TYPICAL_OUTPUT_TOKENS
    size = prompt_size(judge.request(call_about(item, judge)))
    bill.pay(size=size, out=min(TYPICAL_OUTPUT_TOKENS, limit), max_out=limit, **calls)
